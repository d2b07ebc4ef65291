#!/usr/bin/env python3
"""Finds files of a folder whose functions call each other in a circle.

    tools/circles.py              every folder
    tools/circles.py FOLDER...    these

A file may use a file below it, never one above: a reader can then start with the
lowest file of a folder. CMakeLists.txt checks the same between folders. A use is
the name of a public function of another file of the folder, called or passed on;
or a call through a pointer of a struct that can only have one function, which is of
that file. Pointers named on_, may_ or should_ are no such use: the file above hands
them down, and the name says so. Neither is a function that is passed to a walk over
rows: it is over when the call returns.

Prints each circle with the uses that close it, and ends with 1 if there is one.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import PurePath

import c_code

# Tags and members may have the name of a function.
NO_USES = re.compile(r"\b(?:struct|enum)\s+\w+|(?:->|\.)\w+")


def uses_of(folder, code):
    """Returns {file: {file it uses: names of functions}}."""
    text = {
        PurePath(path).stem: plain
        for path, plain in code.plain.items()
        if c_code.folder_of(path) == folder and path.endswith(".c")
    }
    own, home = defaultdict(set), {}
    for function in code.functions:
        if c_code.folder_of(function.path) == folder:
            file = PurePath(function.path).stem
            own[file].add(function.name)
            if not function.is_static:
                home[function.name] = file
    uses = {file: defaultdict(set) for file in text}
    for file, source in text.items():
        words = set(re.findall(r"\w+", NO_USES.sub(" ", source)))
        for name in words & home.keys() - own[file]:
            uses[file][home[name]].add(name)
    add_pointers(folder, code, uses)
    return uses


def add_pointers(folder, code, uses):
    """Adds calls through pointers with one function of another file of the folder."""
    homes = defaultdict(set)
    for function in code.functions:
        homes[function.name].add(function.path)
    certain = {}
    for (owner, name), values in code.pointers.items():
        if owner == "struct" and len(values) == 1 and not c_code.is_kept_apart(name):
            (value,) = values
            if len(homes[value]) == 1:
                certain[name] = (value, *homes[value])
    for function in code.functions:
        if c_code.folder_of(function.path) != folder:
            continue
        file = PurePath(function.path).stem
        for name in re.findall(r"(?:->|\.)(\w+)\(", function.body):
            value, path = certain.get(name, (None, None))
            if value and c_code.folder_of(path) == folder and path != function.path:
                uses[file][PurePath(path).stem].add(f"{value} (by {name})")


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
    code = c_code.Code(c_code.product())
    all_folders = sorted(
        {c_code.folder_of(path) for path in code.plain if path.endswith(".c")}
    )
    failed = 0
    for folder in wanted or all_folders:
        if folder not in all_folders:
            parser.error(f"{folder} has no C files")
        uses = uses_of(folder, code)
        for circle in circles_of(uses):
            report(folder, circle, uses)
            failed += 1
    if not failed:
        print(f"{len(wanted or all_folders)} folders have no circles")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
