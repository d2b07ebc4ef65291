#!/usr/bin/env python3
"""How large the product is, and whether a change that makes it larger says so.

    tools/size.py                  the table of each folder, and of all
    tools/size.py --against REV    how a revision differs from it
    tools/size.py --write          writes the table into doc/size.md
    tools/size.py --check          ends with 1 if the product is larger than the table

Product: *.c and *.h of base, broker, client and proto. doc/size.md explains the columns.
--check also refuses a function that is more complex than the list there allows, and a
path of a change (doc/architecture.md lists its files) above its limit.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import PurePath

import c_code

PAGE = c_code.ROOT / "doc/size.md"
MARK = "<!-- written by tools/size.py --write -->\n"
COLUMNS = (
    "tokens",
    "code lines",
    "functions",
    "files",
    "fan-out",
    "pointers",
    "large structs",
)
LARGE_STRUCT = 30  # members
N_COMPLEX = 20
PATH = c_code.ROOT / "doc/architecture.md"
PATH_HEADING = "## The files of that way"
PATH_LINES = 12000


def code_lines(bare):
    """Counts the lines that are not blank in a text without comments."""
    return sum(1 for line in bare.split("\n") if line.strip())


def table_of(code):
    """Returns {folder: [a figure for each of COLUMNS]}, "all" included."""
    rows = defaultdict(lambda: [0] * len(COLUMNS))
    uses = defaultdict(set)

    def count(path, column, figure=1):
        for key in ("all", c_code.folder_of(path)):
            rows[key][column] += figure

    for path, bare in code.bare.items():
        count(path, 0, len(c_code.TOKEN.findall(bare)))
        count(path, 1, code_lines(bare))
        count(path, 3)
        for used in re.findall(r'#include "([\w/]+)/\w+\.h"', bare):
            if used != c_code.folder_of(path):
                uses[c_code.folder_of(path)].add(used)
    homes = {}
    for function in code.functions:
        count(function.path, 2)
        homes[function.name] = function.path
    for folder, used in uses.items():
        rows[folder][4] = len(used)
        rows["all"][4] = max(rows["all"][4], len(used))
    for (path, _), members in code.structs.items():
        if len(members) > LARGE_STRUCT:
            count(path, 6)
        homes.update((f"->{name}", path) for name, _ in members)
    for (owner, name), values in code.pointers.items():
        if len(values) == 1:
            count(homes[f"->{name}" if owner == "struct" else owner], 5)
    return dict(rows)


def complexity(paths):
    """Returns [(complexity, function, path)], the highest first, as pmccabe counts it:
    a switch is one branch."""
    out = subprocess.run(
        ["pmccabe", *paths], cwd=c_code.ROOT, capture_output=True, check=True, text=True
    ).stdout
    found = []
    for line in out.splitlines():
        fields = line.split("\t")
        path = re.sub(r"\(\d+\)$", "", fields[5].split(": ")[0])
        found.append((int(fields[0]), fields[5].split(": ")[1], path))
    return sorted(found, key=lambda row: (-row[0], row[2], row[1]))


def way_of_a_change(code):
    """Returns the code lines of the files that doc/architecture.md lists, and what is
    wrong with the list."""
    text = PATH.read_text(encoding="utf-8")
    begin = text.find(PATH_HEADING)
    if begin < 0:
        return 0, [f"doc/architecture.md has no section \"{PATH_HEADING[3:]}\""]
    end = text.find("\n## ", begin + 1)
    section = text[begin : end if end > 0 else len(text)]
    lines, faults = 0, []
    for path in re.findall(r"`([\w/]+\.[ch])`", section):
        if path not in code.bare:
            faults.append(f"doc/architecture.md lists {path}, which does not exist")
            continue
        lines += code_lines(code.bare[path])
        header = path[:-2] + ".h"
        if path.endswith(".c") and header in code.bare:
            lines += code_lines(code.bare[header])
    return lines, faults


def ordered(rows):
    """Yields (folder, figures), all first."""
    for folder in sorted(rows, key=lambda folder: (folder != "all", folder)):
        yield folder, rows[folder]


def markdown(code):
    """Returns the table, the list of complex functions and the way of a change."""
    out = [
        "| folder | " + " | ".join((*COLUMNS[:3], "per 1,000", *COLUMNS[3:])) + " |",
        "| --- |" + " ---: |" * (len(COLUMNS) + 1),
    ]
    for folder, row in ordered(table_of(code)):
        shown = [f"{figure:,}" for figure in row]
        shown.insert(3, f"{1000 * row[2] / max(row[1], 1):.0f}")
        out.append(f"| {folder} | " + " | ".join(shown) + " |")
    lines, _ = way_of_a_change(code)
    out += [
        "",
        f"The way of a change, from post to list and stream: {lines:,} code lines; "
        f"{PATH_LINES:,} are allowed.",
        "",
        "The most complex functions (pmccabe; a switch is one branch):",
        "",
        "| complexity | function | file |",
        "| ---: | --- | --- |",
    ]
    sources = [path for path in code.files if path.endswith(".c")]
    for figure, name, path in complexity(sources)[:N_COMPLEX]:
        out.append(f"| {figure} | {name} | {path} |")
    return "\n".join(out) + "\n"


def kept():
    """Returns the table and {(function, file name): complexity} of doc/size.md. A file
    may move without its functions becoming others."""
    rows, functions = {}, {}
    for line in PAGE.read_text(encoding="utf-8").partition(MARK)[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(COLUMNS) + 2 and cells[1].replace(",", "").isdigit():
            figures = [int(cell.replace(",", "")) for cell in (*cells[1:4], *cells[5:])]
            rows[cells[0]] = figures
        elif len(cells) == 3 and cells[0].isdigit():
            functions[cells[1], PurePath(cells[2]).name] = int(cells[0])
    return rows, functions


def larger(code):
    """Yields a sentence for each figure above the one that doc/size.md has."""
    rows, functions = kept()
    if not rows or not functions:
        yield "doc/size.md has no table"
        return
    for folder, row in ordered(table_of(code)):
        before = rows.get(folder, [0] * len(COLUMNS))
        for column, figure, was in zip(COLUMNS, row, before):
            if figure > was:
                yield f"{folder}: {column} were {was:,}, are {figure:,}"
    lowest = min(functions.values())
    sources = [path for path in code.files if path.endswith(".c")]
    for figure, name, path in complexity(sources):
        allowed = functions.get((name, PurePath(path).name), lowest)
        if figure > allowed:
            yield f"{path}: {name} has complexity {figure}, {allowed} is allowed"
    lines, faults = way_of_a_change(code)
    yield from faults
    if lines > PATH_LINES:
        yield f"the way of a change has {lines:,} code lines, {PATH_LINES:,} are allowed"


def show(rows, others, revision):
    """Prints the table, and how a revision differs from it."""
    titles = ("tokens", "lines", "functions", "files", "fan-out", "pointers", "large")
    print(f"{'':24}" + "".join(f"{title:>10}" for title in titles) + f"{'/1,000':>10}")
    for folder, row in ordered(rows):
        figures = "".join(f"{figure:>10,}" for figure in row)
        print(f"{folder:24}{figures}{1000 * row[2] / max(row[1], 1):>10.0f}")
    for folder, row in ordered(rows if others else {}):
        was = others.get(folder, [0] * len(COLUMNS))
        if was != row:
            moved = "".join(f"{a - b:>+10,}" for a, b in zip(row, was))
            print(f"{folder:24}{moved}  since {revision}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="REV")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    code = c_code.Code(c_code.product())
    if options.write:
        head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
        PAGE.write_text(head + MARK + "\n" + markdown(code), encoding="utf-8")
    elif options.check:
        found = list(larger(code))
        for sentence in found:
            print(sentence)
        if found:
            print("larger than doc/size.md says: tools/size.py --write, in this commit")
        else:
            print("no folder is larger than doc/size.md says")
        return min(len(found), 1)
    else:
        others = None
        if options.against:
            others = table_of(c_code.Code(c_code.product(options.against)))
        show(table_of(code), others, options.against)
    return 0


if __name__ == "__main__":
    sys.exit(main())
