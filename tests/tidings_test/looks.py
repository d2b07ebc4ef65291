"""Looks of the commands at a source of tests/abroad, and what is right after each.

    looks = Looks(source, command, directory, broker, start, run)
    looks.check()               each look, held against `right` of the source's file

A look is one run of a command that ends by itself, with the state, the mirror and the
set of the look before. A command that asks for the same things again and again is
interrupted; only a source that says "waits" permits that.
"""

import functools
import json
import os
import re
import subprocess

import pytest

from tidings_test.abroad import SOURCES, Abroad, all_sources, quoted, spread
from tidings_test.broker import PROGRAMS
from tidings_test.http import JSON

PROGRAM_OF = {"full": "publish"}

@functools.cache
def _help(*command):
    done = subprocess.run(
        [PROGRAMS["tidings"], *command, "--help"], capture_output=True, text=True
    )
    return done.stdout


def commands():
    """The commands under test: relay and publish --full until there is harvest."""
    has_harvest = re.search(r"^  harvest\b", _help(), re.M)
    return ["follow", "sync", "audit", *(["harvest"] if has_harvest else ["relay", "full"])]


def _option_of(words):
    """The option of follow whose line of --help has these words (R-418)."""
    match = re.search(rf"^  (--[a-z-]+).*\n?.*{words}", _help("follow"), re.M)
    return [match.group(1)] if match else []


class Looks:
    """All looks of one command at one source."""

    def __init__(self, source, command, directory, broker, start):
        self.source = source
        self.command = command
        self.server = Abroad(source)
        self._directory = directory
        self._mirror = directory / "mirror"
        self._set = broker.set() if command in ("relay", "full", "harvest") else None
        self._start = start
        self._known = set()  # paths: what there is in the set, the mirror, the lines
        self._before = {}  # the mirror's files before the look
        self._n_entries = 0  # of the set, before the look
        self._done = None
        self._said_before = ""  # by sync, where there is no mirror to be audited

    def end(self):
        self.server.end()

    def check(self):
        """Each look comes out right, and a later one finds nothing to do."""
        for look in range(self.source.n_looks):
            right = self.source.right_at(look, self.command)
            self.server.begin_look(look)
            changes = self._look(right)
            self._check_status(right)
            self._check_has(right)
            self._check_said(right)
            self._check_asked(right)
            if "changes" in right and self.command != "audit":
                assert sorted(changes) == sorted(spread(right["changes"])), self._told()
        if self.command != "audit" and not self.source.may_wait:
            self.server.begin_look(self.source.n_looks)
            changes = self._look(right)
            self._check_has(right)
            assert not changes, f"nothing is different, and told are {changes}"

    # Right

    def _check_status(self, right):
        permitted = right.get("exit", 0)
        permitted = permitted if isinstance(permitted, list) else [permitted]
        if self.server.is_enough:
            assert self.source.may_wait, f"it goes on asking: {self._told()}"
        else:
            assert self._done.status in permitted, self._told()

    def _check_has(self, right):
        wanted = set(spread(right["has"]))
        found = self._known
        assert found == wanted, (
            f"too many: {sorted(found - wanted)[:9]}, missing:"
            f" {sorted(wanted - found)[:9]}\n{self._told()}"
        )

    def _check_said(self, right):
        if self.server.is_enough:
            return  # most is told at the end, a minute later
        for pattern in right.get("tells", []):
            pattern = pattern.replace("BASE", re.escape(self.server.url))
            assert re.search(pattern, self._said()), f"not told: {pattern}: {self._told()}"
        for pattern in right.get("tells_not", []):
            assert not re.search(pattern, self._said()), f"told: {pattern}: {self._told()}"

    def _check_asked(self, right):
        asked = self.server.asked
        for path in spread(right.get("asks_not", [])):
            assert path not in asked, f"{path} was asked for"
        if first := right.get("asks_first"):
            order = list(dict.fromkeys(path for path in asked if path in first))
            assert order and order == first[: len(order)], f"asked in order: {order}"

    def _said(self):
        return f"{self._said_before}{self._done.output()}\n{self._done.errors()}"

    def _told(self):
        return f"{self._done} ended with {self._done.status}: {self._said()[-2000:]}"

    # A look

    def _look(self, right):
        """Run the command; the changes that it tells, "created /a.txt"."""
        if self.command == "audit":
            self._run("sync")
            self._known = set(self._files())
            self._said_before = "" if self._known else self._said()
            self._spoil(right.get("spoil", {}))
            self._run("audit")
            return []
        self._run(self.command)
        if self.command == "sync":
            return self._changes_of_mirror()
        lines = self._lines() if self.command == "follow" else self._entries()
        return self._changes_of(lines)

    def _run(self, command):
        start = self.server.link(self.source.start)
        state = ("--state", self._directory / "state")
        till_end = "--until-caught-up"
        arguments = {
            "follow": lambda: (start, *state, till_end, *self._follow_options()),
            "sync": lambda: (start, self._mirror, till_end),
            "audit": lambda: (self._mirror,),
            "relay": lambda: (start, self._set.url, *state, till_end),
            "full": lambda: (self._set.url, "--full", self.server.link(self.source.list)),
            "harvest": lambda: (start, self._set.url, *state, "--once"),
        }[command]()
        name = PROGRAM_OF.get(command, command)
        self._done = self._start("tidings", name, *arguments)
        self.server.stop_when_enough(self._done)
        self._done.wait()

    def _follow_options(self):
        options = ["--format", "json"]
        for word in self.source.follow:
            options += [word] if " " not in word else _option_of(word)
        return options

    # What is told

    def _spoil(self, spoil):
        for path, text in spoil.items():
            file = self._mirror / (self.server.url.removeprefix("http://") + path)
            if text is None:
                file.unlink()
            else:
                file.write_text(text)

    def _files(self):
        """The mirror's files: their bytes by the path of the resource."""
        files = {}
        for folder, folders, names in os.walk(self._mirror):
            folders[:] = [name for name in folders if name != ".tidings"]
            for name in names:
                place = os.path.relpath(f"{folder}/{name}", self._mirror)
                content = (self._mirror / place).read_bytes()
                files[self._path_of(place, content)] = content
        return files

    def _path_of(self, place, content):
        """The path of the resource that has these bytes: that which the file is called
        after, or one with characters that the name of a file has in another way."""
        path = "/" + place.partition("/")[2]
        if self.server.content(path) == content:
            return path
        for each in sorted(self.source.resources()):
            if "?" in each and self.server.content(each) == content:
                return each
        return f"{path} with other bytes: {content[:40]!r}"

    def _changes_of_mirror(self):
        before, self._before = self._before, self._files()
        self._known = set(self._before)
        changes = [f"deleted {path}" for path in before.keys() - self._known]
        changes += [f"created {path}" for path in self._known - before.keys()]
        for path in before.keys() & self._known:
            if before[path] != self._before[path]:
                changes.append(f"updated {path}")
        return changes

    def _lines(self):
        return [json.loads(line) for line in self._done.out]

    def _entries(self):
        """The set's new entries."""
        entries = []
        while (last := self._set.last()) > self._n_entries + len(entries):
            after = self._n_entries + len(entries)
            page = self._set.get(f"changes?after={after}", accept=JSON).json()
            entries += page["changes"]
        self._n_entries = last
        return entries

    def _changes_of(self, lines):
        changes = []
        for line in lines:
            if line.get("baseline") == "begin":
                self._known = set()
            if "loc" not in line:
                continue
            path = quoted(line["loc"].removeprefix(self.server.url))
            kind = line.get("change")
            if kind == "deleted":
                self._known.discard(path)
            else:
                self._known.add(path)
            if kind:
                changes.append(f"{kind} {path}")
        return changes


# The list of what does not come out right yet, and the table

README = SOURCES.parent / "README.md"
NOT_YET = SOURCES.parent / "not_yet.txt"

HAS_NO_END = "it has no end"


def not_yet():
    """The reasons of the list, by source and command. The run that writes the list anew
    expects no failure."""
    found = {}
    if "TIDINGS_ABROAD_ALL" in os.environ:
        return found
    for line in NOT_YET.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            source, command, why = line.split(maxsplit=2)
            found[source, command] = why
    return found


def expected_failure(why):
    """The mark of a test of the list."""
    return pytest.mark.xfail(reason=why, strict=True, run=HAS_NO_END not in why)


def readme():
    """README.md as it has to be: its text, and the table of the sources."""
    text = README.read_text(encoding="utf-8")
    begin = text.index("| source | rule |")
    return text[:begin] + _table()


def _table():
    wrong = not_yet()
    names = commands()
    lines = [
        f"| source | rule | what | {' | '.join(names)} |",
        f"| --- | --- | --- |{' --- |' * len(names)}",
    ]
    for source in all_sources():
        what = f"{source.what} Seen in {source.thread}." if source.thread else source.what
        cells = [
            "-" if not source.says_of(name)
            else "**wrong**" if (source.name, name) in wrong
            else "right"
            for name in names
        ]
        what = what.replace("|", "\\|")
        lines.append(
            f"| {source.name} | {source.rule} | {what} | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"
