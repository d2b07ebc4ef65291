"""The commands of doc/cluster.md do what the page says."""

import os
import pwd

import pytest

from tidings_test.broker import ROOT
from tidings_test.documentation import Page, Reader
from tidings_test.postgresql import PROGRAMS, USER

PAGE = Page(ROOT / "doc/cluster.md")


@pytest.fixture
def reader(tmp_path, start_broker, run, start):
    reader = Reader(tmp_path, start_broker, run, start)
    if os.getuid() == 0:
        be_ordinary(reader, tmp_path)
    yield reader
    reader.interrupt("second")
    reader.end()


def be_ordinary(reader, tmp_path):
    """PostgreSQL does not run as root: its programs run as the user postgres, to whom
    the folder belongs."""
    user = pwd.getpwnam(USER)
    tmp_path.chmod(0o755)
    os.chown(reader.folder, user.pw_uid, user.pw_gid)
    programs = tmp_path / "programs"
    programs.mkdir()
    as_user = f"/usr/bin/setpriv --reuid {USER} --regid {user.pw_gid} --clear-groups"
    for name in ("initdb", "pg_basebackup", "pg_ctl"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {as_user} {PROGRAMS / name} "$@"\n')
        program.chmod(0o755)
    reader.env["PATH"] = f"{programs}:{reader.env['PATH']}"


def test_the_commands_of_the_page_do_what_it_says(reader):
    reader.read(PAGE, has_broker=False)
    assert not (reader.folder / "a").exists()
