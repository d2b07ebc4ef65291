#!/usr/bin/env python3
"""Finds files of a folder whose functions call each other in a circle.

    tools/circles.py              every folder
    tools/circles.py FOLDER...    these

A file may use a file below it, never one above: a reader can then start with the
lowest file of a folder. CMakeLists.txt checks the same between folders. A use is
the name of a public function of another file of the folder, called or passed on.

Prints each circle with the uses that close it, and ends with 1 if there is one.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Comments, strings, tags and members may have the name of a function.
NO_USES = re.compile(
    r'/\*.*?\*/|"(?:\\.|[^"\\])*"|\b(?:struct|enum)\s+\w+|(?:->|\.)\w+', re.DOTALL
)

# The type on a line of its own, the name at the beginning of the next one.
DEFINITION = re.compile(r"^(\w[\w *]*)\n(\w+)\([^;{}]*?\)\n\{", re.MULTILINE)


def folders():
    """Returns the folders of the product that have C files."""
    for top in ("proto", "base", "broker", "client"):
        for path in sorted([ROOT / top, *(ROOT / top).rglob("*/")]):
            if any(path.glob("*.c")):
                yield path.relative_to(ROOT).as_posix()


def uses_of(folder):
    """Returns {file: {file it uses: names of functions}}."""
    text = {
        path.stem: NO_USES.sub(" ", path.read_text(encoding="utf-8"))
        for path in (ROOT / folder).glob("*.c")
    }
    own, home = defaultdict(set), {}
    for file, source in text.items():
        for kind, name in DEFINITION.findall(source):
            own[file].add(name)
            if "static" not in kind.split():
                home[name] = file
    uses = {file: defaultdict(set) for file in text}
    for file, source in text.items():
        for name in set(re.findall(r"\w+", source)) & home.keys() - own[file]:
            uses[file][home[name]].add(name)
    return uses


def circles_of(uses):
    """Yields the sets of files that reach each other."""
    reached = {}
    for file in uses:
        todo, reached[file] = [file], set()
        while todo:
            for used in uses[todo.pop()]:
                if used not in reached[file]:
                    reached[file].add(used)
                    todo.append(used)
    left = set(uses)
    while left:
        file = left.pop()
        circle = {other for other in reached[file] if file in reached[other]}
        left -= circle
        if circle:
            yield circle


def report(folder, circle, uses):
    """Prints a circle and its uses."""
    print(f"{folder}: {len(circle)} files use each other in a circle")
    for file in sorted(circle):
        for used in sorted(circle & uses[file].keys()):
            print(f"    {file} -> {used}: {' '.join(sorted(uses[file][used]))}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", metavar="FOLDER", nargs="*", help="broker/log ...")
    wanted = [folder.rstrip("/") for folder in parser.parse_args().folders]
    all_folders = list(folders())
    failed = 0
    for folder in wanted or all_folders:
        if folder not in all_folders:
            parser.error(f"{folder} has no C files")
        uses = uses_of(folder)
        for circle in circles_of(uses):
            report(folder, circle, uses)
            failed += 1
    if not failed:
        print(f"{len(wanted or all_folders)} folders have no circles")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
