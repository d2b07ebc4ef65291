#!/usr/bin/env python3
"""How large the product is, and whether a change that makes it larger says so.

    tools/size.py                  the table of each folder, and of all
    tools/size.py --against REV    how a revision differs from it
    tools/size.py --check          ends with 1 if a commit made the product larger by more
                                   code lines than its trailers "Size: +N REASON" allow, or
                                   a figure is above its ceiling

Product: *.c and *.h of base, broker, client and proto. doc/size.md explains the columns,
and has the ceilings and the functions that may be more complex than others. --check also
looks at the way of a change (doc/architecture.md lists its files).
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import PurePath

import c_code

PAGE = c_code.ROOT / "doc/size.md"
COLUMNS = (
    "tokens",
    "code lines",
    "functions",
    "files",
    "fan-out",
    "pointers",
    "large structs",
)
CEILINGS = ("files", "fan-out", "pointers", "large structs")
LARGE_STRUCT = 30  # members
COMPLEX = 20
# Each commit behind this one says by how much it makes the product larger; the last ones
# are looked at, for an older one has been.
SINCE = "f8088cd38f5e1f7692fbb841d5b3450b7031da6d"
MAX_COMMITS = 300
TRAILER = re.compile(r"^Size: ([+-]?\d[\d,]*)(.*)$", re.M)
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


def kept():
    """Returns the {column: ceiling} and {(function, file name): complexity} of
    doc/size.md. A file may move without its functions becoming others."""
    ceilings, functions = {}, {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        figure = cells[-1].replace(",", "")
        if len(cells) == 2 and cells[0] in CEILINGS and figure.isdigit():
            ceilings[cells[0]] = int(figure)
        elif len(cells) == 3 and cells[0].isdigit():
            functions[cells[1], PurePath(cells[2]).name] = int(cells[0])
    return ceilings, functions


def lines_of(revision, paths):
    """Returns the code lines of these files in a revision; one that is not there has none."""
    asked = "".join(f"{revision}:{path}\n" for path in paths)
    out = subprocess.run(
        ["git", "cat-file", "--batch"],
        cwd=c_code.ROOT,
        input=asked.encode(),
        capture_output=True,
        check=True,
    ).stdout
    lines = at = 0
    for _ in paths:
        end = out.index(b"\n", at)
        head = out[at:end].split()
        at = end + 1
        if head[-1] != b"missing":
            text = out[at : at + int(head[-1])].decode("utf-8", "replace")
            lines += code_lines(c_code.without_comments(text))
            at += int(head[-1]) + 1
    return lines


def growth(before, after):
    """Returns how many code lines the product has more in `after` than in `before`."""
    names = c_code.git("diff", "--name-only", "--no-renames", before, after, "--", *c_code.TOPS)
    paths = [
        name
        for name in names.splitlines()
        if name.endswith((".c", ".h")) and "/examples/" not in name
    ]
    return lines_of(after, paths) - lines_of(before, paths) if paths else 0


def grown():
    """Yields a sentence for each commit that makes the product larger than it says."""
    try:
        listed = c_code.git("rev-list", "--first-parent", f"{SINCE}..HEAD").split()
    except subprocess.CalledProcessError:
        yield f"git does not know {SINCE}, behind which each commit says by how much it grows"
        return
    for commit in listed[:MAX_COMMITS]:
        message = c_code.git("show", "-s", "--format=%h %s%n%b", commit)
        subject, _, body = message.partition("\n")
        allowed = 0
        for figure, reason in TRAILER.findall(body):
            if not reason.strip():
                yield f"{subject}: \"Size: {figure}\" lacks its reason"
            allowed += int(figure.replace(",", ""))
        lines = growth(f"{commit}^", commit)
        if lines > allowed:
            yield (
                f"{subject}: {lines:+,} code lines; its message allows {allowed:+,}"
                f" (\"Size: {lines:+,} REASON\": what pays for it, or why it is worth it)"
            )


def larger(code):
    """Yields a sentence for each figure above what doc/size.md or a commit allows."""
    ceilings, functions = kept()
    if len(ceilings) < len(CEILINGS) or not functions:
        yield "doc/size.md lacks a ceiling, or the list of complex functions"
        return
    rows = table_of(code)
    for column, ceiling in ceilings.items():
        place = COLUMNS.index(column)
        for folder, row in ordered(rows):
            # "all" has the largest fan-out, and the sums of the others.
            is_judged = folder == "all" if column != "files" else folder != "all"
            if is_judged and row[place] > ceiling:
                yield f"{folder}: {column}: {row[place]:,}, the ceiling is {ceiling:,}"
    sources = [path for path in code.files if path.endswith(".c")]
    for figure, name, path in complexity(sources):
        allowed = functions.get((name, PurePath(path).name), COMPLEX)
        if figure > allowed:
            yield f"{path}: {name} has complexity {figure}, {allowed} is allowed"
    lines, faults = way_of_a_change(code)
    yield from faults
    if lines > PATH_LINES:
        yield f"the way of a change has {lines:,} code lines, {PATH_LINES:,} are allowed"
    yield from grown()


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
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    code = c_code.Code(c_code.product())
    if options.check:
        found = list(larger(code))
        for sentence in found:
            print(sentence)
        print(f"{len(found)} figures are larger than allowed (doc/size.md)")
        return min(len(found), 1)
    else:
        others = None
        if options.against:
            others = table_of(c_code.Code(c_code.product(options.against)))
        show(table_of(code), others, options.against)
    return 0


if __name__ == "__main__":
    sys.exit(main())
