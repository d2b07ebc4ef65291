"""The tables of doc/http.md: its routes, documents and refusals, as a test reads them."""

import collections
import re

from tidings_test.broker import ROOT

PAGE = (ROOT / "doc/http.md").read_text()

Route = collections.namedtuple("Route", "methods path rights answers refused")


def read_tables():
    """The rows of its tables, by the first word of their head."""
    tables, head = {}, None
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            head = None
        elif head is None:
            head = cells[0]
            tables[head] = []
        elif not line.startswith("| ---"):
            tables[head].append(cells)
    return tables


def quoted(text):
    return re.findall(r"`([^`]*)`", text)


def read_route(cells):
    request, rights, _, _, _, answers, refused = cells
    return Route(
        re.findall(r"[A-Z]{3,}", request.split("`")[0]),
        "".join(quoted(request)) or "a document",
        quoted(rights),
        {int(item[:3]): quoted(item) for item in answers.split("; ")},
        {int(item[:3]) for item in refused.split("<br>") if item[:1].isdigit()},
    )


TABLES = read_tables()
ROUTES = {f"{r.methods[0]} {r.path}": r for r in map(read_route, TABLES["request"])}
DOCUMENTS = {quoted(path)[0]: quoted(types) for path, _, types in TABLES["document"]}
DOCUMENT_RIGHTS = {
    quoted(path)[0]: quoted(rights) for path, rights, _ in TABLES["document"]
}
REFUSALS = {int(status) for status, _, _ in TABLES["status"]}
