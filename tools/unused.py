#!/usr/bin/env python3
"""Finds declarations that nothing needs.

    tools/unused.py

Prints, and ends with 1 if there is one:

- a function that a header declares and no file defines;
- a function that no other file uses and that is not static;
- a function that nothing uses but its definition;
- an include that another include of the file brings anyway: of the headers that every part
  may use (proto/x.h, base/x.h), and of those that the file's own header includes.

A use in the tests counts. The functions of libtidings (td_) belong to its users.
"""

import argparse
import re
import sys
from collections import defaultdict

import c_code

DECLARATION = re.compile(r"^(?!typedef\b)[\w][\w *]*?\b(\w+)\([^{}]*?\)\s*;", re.MULTILINE)
PUBLIC = ("td_",)
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)
FOR_ALL = re.compile(r"(proto|base)/[^/]+\.h$")


def files_by_word(texts):
    """Returns {word: files that have it}."""
    found = defaultdict(set)
    for path, text in texts.items():
        for word in set(re.findall(r"[A-Za-z_]\w*", text)):
            found[word].add(path)
    return found


def findings(code, tests):
    """Yields (path, sentence) for each declaration that nothing needs."""
    words = files_by_word(code.plain)
    tested = files_by_word(tests)
    defined = defaultdict(list)
    for function in code.functions:
        defined[function.name].append(function)
    all_text = "\n".join(code.plain.values())
    for path, text in sorted(code.plain.items()):
        if not path.endswith(".h"):
            continue
        for name in DECLARATION.findall(text):
            if not name.startswith(PUBLIC) and name not in defined and name.islower():
                if not re.search(rf"\b{name}\([^;{{}}]*\)\s*\{{", all_text):
                    yield path, f"{name} is declared and not defined"
    for function in code.functions:
        name = function.name
        if function.is_static or name.startswith(PUBLIC) or name == "main":
            continue
        others = {
            path
            for path in words[name]
            if path != function.path and path.endswith(".c")
        } | {
            path
            for path in words[name]
            if path.endswith(".h") and used_in_header(code.plain[path], name)
        }
        if others or tested[name]:
            continue
        uses = len(re.findall(rf"\b{name}\b", code.plain[function.path]))
        if uses > 1:
            yield function.path, f"{name} is used in this file alone and is not static"
        else:
            yield function.path, f"{name} is used nowhere"


def brought(header, includes, found):
    """Returns `found`, filled with all that `header` includes, directly or not."""
    for name in includes.get(header, ()):
        if name not in found:
            found.add(name)
            brought(name, includes, found)
    return found


def repeated_includes(code):
    """Yields (path, sentence) for each include that says nothing new."""
    includes = {path: INCLUDE.findall(text) for path, text in code.bare.items()}
    for path, names in includes.items():
        own = path[:-1] + "h" if path.endswith(".c") else None
        by_own = brought(own, includes, set()) if own in names else set()
        for name in names:
            others = set()
            if FOR_ALL.match(name):
                for other in names:
                    if other != name:
                        brought(other, includes, others)
            if name in by_own or name in others:
                yield path, f"{name} is included by another header that it includes"


def used_in_header(text, name):
    """True if a header calls the function, or names it in a macro."""
    return any(
        re.search(rf"\b{name}\b", line) and not re.match(rf".*\b{name}\(", line)
        or re.match(rf"\s+.*\b{name}\(", line)
        or re.match(rf"#define.*\b{name}\b", line)
        for line in text.split("\n")
    )


def main():
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    code = c_code.Code(c_code.product())
    tests = {
        name: (c_code.ROOT / name).read_text(encoding="utf-8")
        for name in c_code.git("ls-files", "-co", "--exclude-standard", "tests", "python")
        .split("\n")
        if name.endswith((".c", ".h", ".py")) and (c_code.ROOT / name).exists()
    }
    found = [*findings(code, tests), *repeated_includes(code)]
    for path, sentence in found:
        print(f"{path}: {sentence}")
    if not found:
        print("every declaration is needed")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
