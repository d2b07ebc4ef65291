#!/usr/bin/env python3
"""Prints which sources of each folder may be compiled as one: "group path" a line.

    tools/joined.py */*.c       0 base/clock.c
                                0 base/db.c
                                1 base/map.c
                                0 proto/arena.c

A compiler takes most of its time to start and to read headers: the sources of a group,
included one after the other into one text, take a fifth of it, and what they call of each
other is compiled in place. Two sources are of one group if no name that one has for itself
(static, #define, a struct or enum of a source) means something else in the other one.
CMakeLists.txt joins the sources of a release.
"""

import functools
import os
import re
import sys
from collections import defaultdict

COMMENT_OR_TEXT = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^#include.*?$', re.S | re.M
)
# At the left margin stand declarations, and nothing of a body.
OWN = (
    re.compile(r"^static\b[^;{=()]*?\b(\w+)\s*[\[=;]", re.M),
    re.compile(r"^static\b[^;{=()]*?\(\*(?:const )?(\w+)", re.M),
    re.compile(r"^static\b[^;{=]*?\b(\w+)\(", re.M),
    re.compile(r"^(?:static |const |typedef )*(?:struct|enum|union) (\w+)\s*\{", re.M),
    re.compile(r"^\}\s*(?:\*\s*)?(?:const )?(\w+)(?:\[[^\]]*\])*\s*[=;]", re.M),
)
ENUM = re.compile(r"^(?:static |const |typedef )*enum\b\s*\w*\s*\{([^}]*)\}", re.M)
MACRO = re.compile(r"^# *define (\w+)", re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
CALL = re.compile(r"(?<![.>\w])(\w+)\(")


DECLARED = re.compile(r"^[A-Za-z][^;{}()=]*?\b(\w+)\(", re.M)
INCLUDE = re.compile(r'^#include "(.*)"', re.M)
INCLUDE_FOREIGN = re.compile(r"^#include <(.*)>", re.M)
# Headers of others that define what another one does.
FOREIGN = {
    "jansson.h": ("JSON_OBJECT",),  # and proto/json/json_parse.h
    "linux/tcp.h": ("tcphdr",),
    "uv.h": ("tcphdr",),  # by netinet/tcp.h
}


@functools.cache
def header_names(path):
    """Returns {name: header} of what a header of ours, and those that it includes,
    declare."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        text = file.read()
    names = included_names(text)
    bare = COMMENT_OR_TEXT.sub(" ", text)
    for name in own_names(bare).union(MACRO.findall(bare), DECLARED.findall(bare)):
        names[name] = path
    return names


def included_names(text):
    names = {}
    for header in INCLUDE.findall(text):
        names.update(header_names(header))
    for header in INCLUDE_FOREIGN.findall(text):
        names.update((name, header) for name in FOREIGN.get(header, ()))
    return names


def own_names(bare):
    own = {match[1] for pattern in OWN for match in pattern.finditer(bare)}
    for match in ENUM.finditer(bare):
        own.update(re.findall(r"(?:^|,)\s*(\w+)", match[1]))
    return own


class Names:
    """Of one source, or of several: `own`, what it defines for itself; `macros`; what it
    `calls`; all `words`; what its headers declare: `declared`."""

    def __init__(self, path=None):
        self.own, self.macros, self.calls, self.words = set(), set(), set(), set()
        self.declared = {}
        if path:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            bare = COMMENT_OR_TEXT.sub(" ", text)
            self.own = own_names(bare)
            self.macros = set(MACRO.findall(bare))
            self.calls = set(CALL.findall(bare))
            self.words = set(WORD.findall(bare))
            self.declared = included_names(text)

    def clashes(self, other):
        """True if a compiler would take a name of one for that of the other."""
        return any(
            a.own & b.own
            or a.own & (b.calls - b.own)
            or a.own & b.declared.keys()
            or a.macros & b.declared.keys()
            or a.macros & b.words
            or any(b.declared.get(name, header) != header for name, header in a.declared.items())
            for a, b in ((self, other), (other, self))
        )

    def add(self, other):
        for name, more in vars(other).items():
            getattr(self, name).update(more)


def main():
    groups = defaultdict(list)  # of each folder
    for path in sys.argv[1:]:
        folder = os.path.dirname(path)
        names = Names(path)
        number = 0
        while number < len(groups[folder]) and groups[folder][number].clashes(names):
            number += 1
        if number == len(groups[folder]):
            groups[folder].append(Names())
        groups[folder][number].add(names)
        print(number, path)


if __name__ == "__main__":
    main()
