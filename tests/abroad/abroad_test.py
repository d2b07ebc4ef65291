"""Sources as other programs make them (sources/), looked at by each command. README.md
has the table; not_yet.txt names what does not come out right yet. A test of that list
that passes fails: `tests/abroad/run` writes the list anew.

Each command is a test of ctest: TIDINGS_ABROAD names it."""

import itertools
import os

import pytest

from tidings_test import abroad, looks


def cases():
    not_yet = looks.not_yet()
    only = os.environ.get("TIDINGS_ABROAD")
    for command in looks.commands():
        for source in abroad.all_sources():
            if source.says_of(command) and only in (None, command):
                why = not_yet.get((source.name, command))
                marks = [looks.expected_failure(why)] if why else []
                name = f"{command}-{source.name}"
                yield pytest.param(command, source, marks=marks, id=name)


@pytest.mark.parametrize("command, source", cases())
def test_comes_out_right(command, source, tmp_path, broker, start):
    for attempt in itertools.count():
        directory = tmp_path / str(attempt)
        directory.mkdir()
        at_source = looks.Looks(source, command, directory, broker, start)
        try:
            return at_source.check()
        except AssertionError:
            if not at_source.server.is_late:
                raise
        finally:
            at_source.end()
