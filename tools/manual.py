#!/usr/bin/python3
"""Writes the manual pages of libtidings: manual.py HEADERS VERSION OUT

HEADERS is the folder of tidings.h, OUT that of the pages, which is emptied first. Each
docstring of a function becomes a page, td_NAME.3, and tidings.h becomes libtidings.3, with
all functions. So the pages say what the headers say: nothing is written down twice.
scdoc makes them, as it makes those of the programs.

    /*
     * Returns why the last call failed: ...       NAME and DESCRIPTION
     *
     * client   from td_open.                      ARGUMENTS
     *
     * Memory   lent until the next call ...       MEMORY, THREADS, ERRORS
     * Spec     R-140. Since 1.0.                  HISTORY
     */
    TD_API const char *td_problem(...);            SYNOPSIS
"""

import pathlib
import re
import subprocess
import sys

LABEL = re.compile(r"(Memory|Thread|Errors|Spec)(, (Memory|Thread|Errors))*")
HEADING = {"Memory": "MEMORY", "Thread": "THREADS", "Errors": "ERRORS"}
SINCE = re.compile(r"\s*\bSince ([0-9.]+[0-9])\.")
CODE = "TD_[A-Z]+"


# Reading headers


def blocks(text):
    """Comments with the declarations behind them: what empty lines separate, outside of
    braces."""
    body = re.sub(r"(?ms)^#ifdef __cplusplus\n.*?^#endif\n", "", text)
    block = ""
    for part in body.split("\n\n"):
        block += f"{part}\n"
        code = re.sub(r"(?s)/\*.*?\*/", "", block)
        if code.count("{") == code.count("}"):
            yield block.strip("\n")
            block = ""
        else:
            block += "\n"


def paragraphs(comment):
    """The lines of each paragraph of a comment."""
    inside = re.sub(r"(?m)^ (\* ?)?", "", comment[2:-2])
    for paragraph in re.split(r"\n\s*\n", inside.strip("\n ")):
        if lines := [line.rstrip() for line in paragraph.split("\n") if line.strip()]:
            yield lines


def without_api(code):
    """The declarations without TD_API, by which lines that go on stand less far right."""
    lines, is_beside = [], False
    for line in code.split("\n"):
        if line.startswith("TD_API "):
            is_beside = "(" in line
            line = line.removeprefix("TD_API ")
        elif is_beside:
            line = line.removeprefix(" " * len("TD_API "))
        lines.append(line)
    return "\n".join(lines)


class Page:
    """The functions of one docstring."""

    def __init__(self, header, comment, code):
        self.header, self.code = header, without_api(code)
        self.names = re.findall(r"TD_API [^;(]*?\b(td_\w+)\(", code)
        self.paragraphs = list(paragraphs(comment))

    @property
    def title(self):
        """The first words of the docstring, up to the first stop."""
        words = " ".join(self.paragraphs[0])
        title = re.split(r"[.:;](?:\s|$)| \(|, (?:without|unless|in spite)", words)[0]
        if len(title) > 90:
            title = title.partition(", ")[0]
        return title[0].lower() + title[1:]


def read(headers):
    """The pages, and the types by name: the text of their declarations."""
    pages, types = [], {}
    for path in sorted(headers.glob("tidings_*.h")):
        for block in blocks(path.read_text()):
            found = re.match(r"(?s)/\*.*?\*/\n", block)
            comment = found[0].rstrip() if found else ""
            code = block[len(found[0]) :] if found else block
            if "TD_API " in code and not code.startswith("#"):
                pages.append(Page(path.name, comment, code))
            for name in re.findall(r"^(?:struct|enum) (td_\w+) {|\b(td_\w+_fn)\(", code):
                types[name[0] or name[1]] = block
    return pages, types


def used(text, types, found):
    """The types that a text names, and those that they name, in order."""
    for name in re.findall(r"\btd_\w+", re.sub(r"(?s)/\*.*?\*/", "", text)):
        if name in types and name not in found and name != "td_status":
            found.append(name)
            used(types[name], types, found)
    return found


# Writing pages


def escaped(text):
    return re.sub(r"([\\*_`#|\[\]])", r"\\\1", text)


def literal(text):
    return f"```\n{text}\n```\n"


def items(lines):
    """A table as (term, text); a term of None has text alone. The text of a row begins
    in the column of the lines that continue it, or behind two blanks."""
    indents = [len(line) - len(line.lstrip()) for line in lines]
    column = min((n for n in indents if n), default=0)
    rows = []
    for line, indent in zip(lines, indents):
        if indent and rows:
            rows[-1][1].append(line[column:] if indents.count(column) else line.strip())
            continue
        split = re.match(r"(\S.*?) {2,}(.*)", line)
        if column and line[column - 1 : column] == " " and line[column : column + 1] != " ":
            rows.append((line[:column].rstrip(), [line[column:]]))
        elif split:
            rows.append((split[1], [split[2]]))
        elif re.fullmatch(CODE, line):
            rows.append((line, []))
        elif rows and rows[-1][0] is None:
            rows[-1][1].append(line)
        else:
            rows.append((None, [line]))
    return rows


def prose(lines):
    text = escaped(" ".join(line.strip() for line in lines))
    return re.sub(r"\b(td\\_\w+(?:\\_\w+)*)\(\)", r"*\1*()", text)


def table(lines):
    """Rows as scdoc indents them; a sentence between them stays one."""
    out = ""
    for term, text in items(lines):
        if term is None:
            out += f"{prose(text)}\n\n"
        else:
            out += f"*{escaped(term)}*" + (f"\n\t{prose(text)}" if text else "") + "\n\n"
    return out


def page_text(page, types, version):
    named = {name for name in re.findall(r"\w+", page.code)}
    description, arguments, sections, since = "", "", {}, ""
    for lines in page.paragraphs:
        text = "\n".join(lines)
        if found := SINCE.search(text):
            since = found[1]
            lines = [line for line in SINCE.sub("", text).split("\n") if line.strip()]
        if not lines:
            continue
        first = re.match(r"\w*", lines[0])[0]
        if LABEL.match(lines[0]):
            for term, text in items(lines):
                for label in (term or "").split(", "):
                    if label in HEADING:
                        sections[HEADING[label]] = table(text)
        elif all(line.startswith("  ") for line in lines):
            description += literal("\n".join(lines)) + "\n"
        elif first in named and first not in page.names and items(lines)[0][0]:
            arguments += table(lines)
        else:
            description += f"{prose(lines)}\n\n"
    seen = [name for names in page.paragraphs for name in re.findall(r"\btd_\w+", str(names))]
    return since, description, arguments, sections, seen


def write(out, name, text):
    page = subprocess.run(["scdoc"], input=text.encode(), stdout=-1, check=True).stdout
    (out / f"{name}.3").write_bytes(page)


def head(name, version):
    return f'{name}(3) "libtidings {version}" "Library Functions"\n\n'


def see_also(names):
    links = ", ".join(f"*{escaped(name)}*(3)" for name in names)
    return f"# SEE ALSO\n\n{links}\n"


def write_page(out, page, pages, types, version):
    first, *others = page.names
    since, description, arguments, sections, seen = page_text(page, types, version)
    text = head(first, version)
    text += f"# NAME\n\n{escaped(', '.join(page.names))} - {escaped(page.title)}\n\n"
    text += f"# SYNOPSIS\n\n{literal(f'#include <{page.header}>')}\n{literal(page.code)}\n"
    text += f"# DESCRIPTION\n\n{description}"
    if arguments:
        text += f"# ARGUMENTS\n\n{arguments}"
    for heading, section in sections.items():
        text += f"# {heading}\n\n{section}"
    if declared := used(page.code, types, []):
        text += "# TYPES\n\n"
        text += "".join(f"{literal(types[name])}\n" for name in declared)
    if since:
        text += f"# HISTORY\n\nSince version {since}.\n\n"
    known = [other.names[0] for other in pages if set(other.names) & set(seen)]
    text += see_also(["libtidings", *(name for name in known if name != first)])
    write(out, first, text)
    for other in others:
        (out / f"{other}.3").write_text(f".so man3/{first}.3\n")


def essay(path):
    """The first comment of a header."""
    found = re.match(r"(?s)/\*.*?\*/", path.read_text())
    for n, lines in enumerate(paragraphs(found[0])):
        if n == 0:
            start = re.sub(r"^\S+ - ", "", lines[0])
            lines[0] = start[0].upper() + start[1:]
        yield lines


def write_overview(out, headers, pages, types, version):
    (title, *rest) = essay(headers / "tidings.h")
    purpose = " ".join(title).removeprefix("Libtidings: ").rstrip(".")
    text = head("libtidings", version)
    text += f"# NAME\n\nlibtidings - {escaped(purpose)}\n\n"
    text += f"# SYNOPSIS\n\n{literal('#include <tidings.h>')}\n"
    text += f"{literal('cc PROGRAM.c $(pkg-config --cflags --libs tidings)')}\n"
    text += "# DESCRIPTION\n\n"
    for lines in rest:
        text += described(lines)
    for path in sorted(headers.glob("tidings_*.h")):
        text += f"# {path.name.upper()}\n\n"
        for lines in essay(path):
            text += described(lines)
        for page in pages:
            if page.header == path.name:
                names = ", ".join(f"*{escaped(name)}*(3)" for name in page.names)
                text += f"{names}\n\t{escaped(page.title)}\n\n"
    text += f"# RETURN VALUE\n\n{literal(types['td_status'])}\n"
    text += see_also([])[: -len("\n\n")] + "\n\n*tidings*(1), *tidingsd*(8)\n"
    write(out, "libtidings", text)


def described(lines):
    if all(line.startswith("  ") for line in lines):
        return literal("\n".join(lines)) + "\n"
    return f"{prose(lines)}\n\n"


def main():
    headers, version, out = sys.argv[1:]
    headers, out = pathlib.Path(headers), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.3"):
        old.unlink()
    pages, types = read(headers)
    for page in pages:
        write_page(out, page, pages, types, version)
    write_overview(out, headers, pages, types, version)


if __name__ == "__main__":
    main()
