"""A source that behaves as the guide of Heratio describes: a Resource List in pages by
rel=next that are cut anew at each request, a window of changes, newest first, that
moves, deletions told under another address, and 429 with Retry-After. Whatever
happens to its records, the mirror has what the source has, or the command says that it
does not know."""

import datetime
import re

import pytest

from tidings_test.layouts import HEAD, NS
from tidings_test.site import Site, _head
from tidings_test.soak import choices, soak

BEGIN = datetime.datetime(2026, 1, 1)
PAGES = soak(12, 2400)
PER_PAGE = soak(5, 10)
WINDOW = 20


def at(second):
    return (BEGIN + datetime.timedelta(seconds=second)).isoformat() + "Z"


class Heratio(Site):
    """The source; `records` are the seconds in which they changed, by number."""

    def __init__(self, asks_patience):
        self.records = {}
        self.changes = []  # (second, kind, number)
        self.second = 0
        self.n_answers = 0
        self.on_page = {}  # what happens when that page is asked for
        self.patience = 3 * PAGES // 2 if asks_patience else None  # answers before a 429
        super().__init__()
        self.start = self.link("/caps.xml")

    # Its people

    def change(self, number, kind="updated"):
        self.second += 1
        self.changes.append((self.second, kind, number))
        if kind == "deleted":
            del self.records[number]
        else:
            self.records[number] = self.second

    def create(self, n):
        first = max(self.records, default=0) + 1
        for number in range(first, first + n):
            self.change(number, "created")

    def texts(self):
        return {f"/r/{number}.txt": self._text(number) for number in self.records}

    # Its program

    def _text(self, number):
        return f"record {number} of {self.records[number]}\n"

    def _answer(self, request, page):
        self.n_answers += 1
        if self.patience and self.n_answers % self.patience == 0:
            request.status = 429
            lines = ["Retry-After: 1", "Content-Length: 0"]
            return _head(429, lines), b"", False
        return super()._answer(request, page)

    def _find(self, target, page):
        path, _, query = target.partition("?")
        if path == "/caps.xml":
            lists = ("resourcelist", "changelist")
            rows = [self._row(f"/{name}.xml", f'capability="{name}"') for name in lists]
            return self._list("capabilitylist", "", "", rows), "text/xml"
        if path == "/resourcelist.xml":
            return self._records_page(int(query.removeprefix("page=") or 1)), "text/xml"
        if path == "/changelist.xml":
            return self._changelist(), "text/xml"
        match = re.fullmatch(r"/r/(\d+)\.txt", path)
        if match and int(match.group(1)) in self.records:
            return self._text(int(match.group(1))).encode(), "text/plain"
        return None, None

    def _records_page(self, n):
        self.on_page.pop(n, lambda: None)()
        numbers = sorted(self.records)
        here = numbers[(n - 1) * PER_PAGE : n * PER_PAGE]
        rows = [
            self._row(f"/r/{number}.txt", f'datetime="{at(self.records[number])}"')
            for number in here
        ]
        links = [("next", n + 1)] if len(numbers) > n * PER_PAGE else []
        links += [("prev", n - 1)] if n > 1 else []
        links = "".join(
            f'<rs:ln rel="{rel}" href="{self.link("/resourcelist.xml")}?page={to}"/>'
            for rel, to in links
        )
        return self._list("resourcelist", links, f'at="{at(self.second)}"', rows)

    def _changelist(self):
        shown = self.changes[-WINDOW:]
        begin = shown[0][0] if len(self.changes) > WINDOW else 0
        rows = [
            self._row(
                f"/by-id/{number}" if kind == "deleted" else f"/r/{number}.txt",
                f'change="{kind}" datetime="{at(second)}"',
            )
            for second, kind, number in reversed(shown)
        ]
        return self._list("changelist", "", f'from="{at(begin)}"', rows)

    def _row(self, path, md):
        return f"<url><loc>{self.link(path)}</loc><rs:md {md}/></url>\n"

    def _list(self, capability, links, times, rows):
        up = f'<rs:ln rel="up" href="{self.link("/caps.xml")}"/>'
        up = "" if capability == "capabilitylist" else up
        md = f'<rs:md capability="{capability}" {times}/>'
        return f"{HEAD}<urlset {NS}>{up}{links}{md}\n{''.join(rows)}</urlset>\n".encode()


@pytest.fixture
def heratio(request):
    source = Heratio(asks_patience=request.param)
    source.create(PAGES * PER_PAGE)
    yield source
    source.end()


def check_same(heratio, directory):
    """The mirror has the records as they are, and nothing else."""
    place = directory / heratio.link("").removeprefix("http://")
    files = [file for file in place.glob("**/*") if file.is_file()]
    found = {f"/{file.relative_to(place)}": file.read_text() for file in files}
    assert found == heratio.texts()


#
@pytest.mark.parametrize("heratio", [False, True], indirect=True, ids=["at once", "later"])
def test_a_mirror_has_what_the_source_has(heratio, run, tmp_path):
    random = choices()
    sync = ("sync", heratio.start, tmp_path / "m", "--until-caught-up")
    run("tidings", *sync)
    check_same(heratio, tmp_path / "m")
    for n_changes in (3, WINDOW // 2, 3 * WINDOW):
        heratio.create(n_changes // 3)
        for number in random.sample(sorted(heratio.records), n_changes // 3):
            heratio.change(number)
        for number in random.sample(sorted(heratio.records), n_changes // 10 + 1):
            heratio.change(number, "deleted")
        run("tidings", *sync)
        check_same(heratio, tmp_path / "m")

    # Two records of pages that were read vanish: two others move there.
    def vanish():
        for number in sorted(heratio.records)[:2]:
            heratio.change(number, "deleted")

    heratio.on_page = {PAGES // 2: vanish}
    heratio.create(WINDOW + 1)
    run("tidings", *sync)
    check_same(heratio, tmp_path / "m")
