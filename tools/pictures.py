#!/usr/bin/env python3
"""Finds pictures and tables in comments of C that no longer stand straight.

    tools/pictures.py

A picture is a block of lines in a comment that begins three or more blanks behind " *".
Prints path:line and the fault, and ends with 1 if there is one:

- a row has flowed out: a line of a picture begins where text begins;
- a stroke (| v ^, or the + of a corner) touches nothing above or below, or stands one
  column beside another stroke;
- a cell begins one column beside the column of other rows;
- a label touches its text: other rows have two blanks or more between them.
"""

import argparse
import re
import sys
from collections import Counter

import c_code

STROKE = re.compile(
    r"(?<!\S)(?:\|(?!\|)|[v^](?!\S))"  # | v ^
    r"|(?<![^\s-])\+(?=-)|(?<=-)\+(?!\S)"  # +-- --+ -+-
    r"|(?<!\S)['`](?=---)|(?<=---)['`](?!\S)"  # '--- ---'
)
CELL = re.compile(r"(?<=\S {2}) *(?=[A-Za-z\"`<(])")


def indent(row):
    return len(row) - len(row.lstrip())


def blocks(text):
    """Yields (number of the first line, rows) for each block of lines of a comment; a row
    is what follows the " *"."""
    for match in c_code.COMMENT.finditer(text):
        number = text.count("\n", 0, match.start())
        rows = []
        for line in [*match.group(0).split("\n"), ""]:
            number += 1
            row = re.match(r"\s*/?\*+(?!/)(.*?)\s*(?:\*/)?$", line)
            if row and row.group(1):
                rows.append(row.group(1))
            elif rows:
                yield number - len(rows), rows
                rows = []


def touches(row, place):
    """True if a stroke of the next row, at this place, meets something in `row`."""
    before, here, behind = f" {row}".ljust(place + 3)[place : place + 3]
    if here == "-":
        return not re.search("[+|'`]", before + behind)
    if here == " ":  # between two words, or at the end of a slanted stroke
        return " " not in before + behind or before in "\\/" or behind in "\\/"
    return True


def stray_strokes(above, row, below):
    """Yields what is wrong with the strokes of a row."""
    for match in STROKE.finditer(row):
        place = match.start()
        if re.search(r"\S $", row[:place]) and re.match(r" \S|$", row[place + 1 :]):
            continue  # between words: yes | no
        loose = [end for end in (above, below) if not touches(end, place)]
        if any(
            abs(other.start() - place) == 1
            for end in loose
            for other in STROKE.finditer(end)
        ):
            yield f"{match.group()} stands one column beside another stroke"
        elif len(loose) == 2:
            yield f"{match.group()} touches nothing above or below"


def moved_cells(row, below, columns):
    """Yields what is wrong with the cells of a row; `columns` counts the cells that begin
    in each column of the block."""
    for match in CELL.finditer(row):
        place = match.end()
        if columns[place] == 1 and max(columns[place - 1], columns[place + 1]) > 1:
            yield "a cell begins one column beside those of other rows"
    place = indent(below)
    if (
        place > indent(row) + 3
        and columns[place]
        and re.match(r"\w \w", row[place - 2 :])
        and below[place].isalnum()
        and "  " not in row[place:]
    ):
        yield "a label touches its text: put two blanks between them"


def faults_of(text):
    """Returns (number of pictures, [(line, fault)]) of a file."""
    n_pictures, faults = 0, []
    for number, rows in blocks(text):
        is_picture = indent(rows[0]) >= 3
        n_pictures += is_picture
        columns = Counter(match.end() for row in rows for match in CELL.finditer(row))
        around = ["", *rows, ""]
        for i, row in enumerate(rows):
            if is_picture and indent(row) < 2:
                faults.append((number + i, "a row of the picture has flowed out"))
                break
            for fault in (
                *stray_strokes(around[i], row, around[i + 2]),
                *moved_cells(row, around[i + 2], columns),
            ):
                faults.append((number + i, fault))
    return n_pictures, faults


def main():
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    n_pictures = n_faults = 0
    folders = (*c_code.TOPS, "tests")
    for name in c_code.git("ls-files", "-co", "--exclude-standard", *folders).split():
        if name.endswith((".c", ".h")) and (c_code.ROOT / name).exists():
            n, faults = faults_of((c_code.ROOT / name).read_text(encoding="utf-8"))
            n_pictures += n
            n_faults += len(faults)
            for line, fault in faults:
                print(f"{name}:{line}: {fault}")
    if not n_faults:
        print(f"{n_pictures} pictures stand straight")
    return min(n_faults, 1)


if __name__ == "__main__":
    sys.exit(main())
