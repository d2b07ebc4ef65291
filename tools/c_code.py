"""What the tools beside this file know of C: files, functions, pointers to functions.

The code is formatted by clang-format with one style, so patterns find what a compiler
would: a definition has its type on a line of its own and its name at the beginning of the
next one. Where a pattern cannot decide, it errs to the side that reports nothing.
"""

import re
import subprocess
from collections import defaultdict
from functools import cached_property
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parent.parent
TOPS = ("base", "broker", "client", "proto")

TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\d[\w.]*|\S'
)
COMMENT = re.compile(
    r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|/\*.*?\*/|//[^\n]*', re.DOTALL
)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
DEFINITION = re.compile(r"^(\w[\w *]*)\n(\w+)\(([^;{}]*?)\)\n\{", re.MULTILINE)
MEMBER_POINTER = re.compile(r"\(\s*\*\s*(\w+)\s*(?:\[\w*\]\s*)?\)\s*\(")


def without_comments(text):
    """Returns `text` with each comment as a space and its line breaks."""
    return COMMENT.sub(
        lambda m: m.group(1) or " " + "\n" * m.group(0).count("\n"), text
    )


def product(revision=None):
    """Returns {path: text} of the C files of the product, of the working tree or a
    revision; examples for users of libtidings are none."""
    listing = (
        ["ls-tree", "-r", "--name-only", revision]
        if revision
        else ["ls-files", "-co", "--exclude-standard"]
    )
    names = [
        name
        for name in git(*listing, *TOPS).split("\n")
        if name.endswith((".c", ".h")) and "/examples/" not in name
    ]
    if revision:
        return {name: git("show", f"{revision}:{name}") for name in names}
    return {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in names
        if (ROOT / name).exists()
    }


def git(*arguments):
    """Returns what git prints in the root of the project."""
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout


def folder_of(path):
    """Returns the folder of a path, with slashes."""
    return PurePath(path).parent.as_posix()


def closing(text, at):
    """Returns the place behind the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        if text[place] in "([{":
            depth += 1
        elif text[place] in ")]}":
            depth -= 1
            if depth == 0:
                return place + 1
    return len(text)


def split(text, separator=","):
    """Splits at each separator that stands in no bracket."""
    parts, depth, begin = [], 0, 0
    for place, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == separator and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    last = text[begin:]
    return [*parts, last] if last.strip() else parts


class Function:
    """One definition: where it stands, its name, parameters and body."""

    def __init__(self, path, match, text):
        self.path = path
        self.kind, self.name, self.parameters = match.groups()
        self.is_static = "static" in self.kind.split()
        self.body = text[match.end() - 1 : closing(text, match.end() - 1)]


class Code:
    """The C files of the product, read once."""

    def __init__(self, files):
        self.files = files
        self.bare = {path: without_comments(text) for path, text in files.items()}
        self.plain = {path: STRING.sub('""', text) for path, text in self.bare.items()}

    @cached_property
    def functions(self):
        """All definitions."""
        return [
            Function(path, match, text)
            for path, text in self.plain.items()
            for match in DEFINITION.finditer(text)
        ]

    @cached_property
    def structs(self):
        """{(path, tag): names of its members in order}; a union counts with its members."""
        found = {}
        for path, text in self.plain.items():
            for match in re.finditer(r"\bstruct (\w+) \{", text):
                body = text[match.end() : closing(text, match.end() - 1) - 1]
                found[path, match.group(1)] = members_of(body)
        return found

    @cached_property
    def types(self):
        """Names of types of functions: typedef enum status list_fn(...)."""
        pattern = re.compile(r"\btypedef [\w *]+?\b(\w+)\(")
        return {
            name for text in self.plain.values() for name in pattern.findall(text)
        }

    def pointer_name(self, declaration):
        """Returns the name of the pointer to functions that is declared, or None."""
        match = MEMBER_POINTER.search(declaration)
        if match:
            return match.group(1)
        words = re.findall(r"\w+", declaration)
        if len(words) >= 2 and self.types.intersection(words[:-1]):
            return words[-1]
        return None

    @cached_property
    def pointers(self):
        """{("struct", member) or (function, parameter): the functions it can have}.

        Members of one name in several structs are one pointer: a call does not say
        which struct it means.
        """
        return Pointers(self).resolved()


def members_of(body):
    """Returns [(name, declaration)] of the body of a struct, inner ones flattened."""
    members = []
    for declaration in split(body, ";"):
        inner = declaration.find("{")
        if inner >= 0:
            end = closing(declaration, inner)
            members += members_of(declaration[inner + 1 : end - 1])
            if not declaration[end:].strip():
                continue
            declaration = declaration[end:]
        pointer = MEMBER_POINTER.search(declaration)
        if pointer:
            members.append((pointer.group(1), declaration))
            continue
        for part in split(declaration):
            words = re.findall(r"\b[A-Za-z_]\w*\b", re.sub(r"\[[^]]*\]|:.*", "", part))
            if words:
                members.append((words[-1], declaration))
    return members


class Pointers:
    """Finds which functions each pointer can have, from assignments, initialisers and
    arguments."""

    def __init__(self, code):
        self.code = code
        self.names = {function.name for function in code.functions}
        self.values = defaultdict(set)  # pointer: names of functions, or of pointers
        self.parameters = {}  # function: {position: parameter}
        self.members = set()
        self._declarations()
        for path in code.plain:
            self._rows(code.plain[path])
        for function in code.functions:
            self._assignments(function)
        self._arguments()

    def _declarations(self):
        for members in self.code.structs.values():
            for name, declaration in members:
                if self.code.pointer_name(declaration) == name:
                    self.members.add(name)
                    self.values["struct", name] |= set()
        for function in self.code.functions:
            found = {}
            for place, parameter in enumerate(split(function.parameters)):
                name = self.code.pointer_name(parameter)
                if name:
                    found[place] = name
                    self.values[function.name, name] |= set()
            if found:
                self.parameters[function.name] = found

    def _value(self, expression, function):
        """Returns what an expression can be: functions, or other pointers."""
        parameters = (
            set(self.parameters.get(function.name, {}).values()) if function else set()
        )
        found = set()
        for part in re.split(r"[?:]", expression):
            match = re.search(r"(->|\.)?\b([A-Za-z_]\w*)\s*$", part.strip())
            if not match:
                continue
            name = match.group(2)
            if match.group(1):
                if name in self.members:
                    found.add(("struct", name))
            elif name in parameters:
                found.add((function.name, name))
            elif name in self.names:
                found.add(name)
        return found

    def _rows(self, text, function=None):
        """Takes the initialisers of structs: by name of the member, or by position."""
        for match in re.finditer(r"\.(\w+)\s*=\s*([^,;{}]+)", text):
            if match.group(1) in self.members:
                self.values["struct", match.group(1)] |= self._value(
                    match.group(2), function
                )
        layouts = {tag: members for (_, tag), members in self.code.structs.items()}
        pattern = re.compile(r"\bstruct (\w+)(?:\)| \w+(\[[^]]*\])? =) ?\{")
        for match in pattern.finditer(text):
            layout = layouts.get(match.group(1))
            if not layout or not self.members & {name for name, _ in layout}:
                continue
            body = text[match.end() : closing(text, match.end() - 1) - 1]
            rows = split(body) if match.group(2) else [f"{{{body}}}"]
            for row in rows:
                inner = row.find("{")
                if inner < 0:
                    continue
                values = split(row[inner + 1 : closing(row, inner) - 1])
                for (name, _), value in zip(layout, values):
                    if name in self.members and not value.strip().startswith("."):
                        self.values["struct", name] |= self._value(value, function)

    def _assignments(self, function):
        pattern = re.compile(r"(?:->|\.)(\w+)\s*=(?!=)\s*([^;{}]+?)[;,}]")
        for match in pattern.finditer(function.body):
            if match.group(1) in self.members:
                self.values["struct", match.group(1)] |= self._value(
                    match.group(2), function
                )
        self._rows(function.body, function)

    def _arguments(self):
        if not self.parameters:
            return
        pattern = re.compile(r"\b(" + "|".join(self.parameters) + r")\s*\(")
        for function in self.code.functions:
            for match in pattern.finditer(function.body):
                end = closing(function.body, match.end() - 1)
                given = split(function.body[match.end() : end - 1])
                for place, name in self.parameters[match.group(1)].items():
                    if place < len(given):
                        self.values[match.group(1), name] |= self._value(
                            given[place], function
                        )

    def resolved(self):
        """Follows pointers that come from other pointers."""
        result = {}
        for pointer in self.values:
            todo, seen, found = [pointer], {pointer}, set()
            while todo:
                for value in self.values.get(todo.pop(), ()):
                    if isinstance(value, str):
                        found.add(value)
                    elif value not in seen:
                        seen.add(value)
                        todo.append(value)
            result[pointer] = found
        return result


def is_kept_apart(name):
    """True for pointers that are named as what a caller chooses or a test replaces:
    on_ (an event for the layer above), may_ and should_ (a question to it)."""
    return name.startswith(("on_", "may_", "should_"))
