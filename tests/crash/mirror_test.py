"""`tidings sync` killed at each of its writes, syncs and renames, and without room on
the disk: the next one makes the mirror what the source is."""

import errno
import itertools
import os
import sqlite3

import pytest

from tidings_test.faults import Faults
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")

A = "/a.txt"


def turn_source(mirrored, n):
    """Round `n`: some resources are updated, some deleted, some there again."""
    for i in range(6):
        text = f"{i} in round {n}" if (n + i) % 3 else None
        mirrored.change(f"/d{i // 2}/{i}.txt", text)


# In CI only every sixth write of the state and every fifth sync is the last.
at_each = pytest.mark.parametrize(
    "calls, name, step",
    [
        (Faults.WRITE, "mirror.db-wal", soak(6, 1)),
        (Faults.SYNC, "/m", soak(5, 1)),
        (Faults.RENAME, ".txt", 1),
        (Faults.WRITE, "/incoming/", 1),
    ],
    ids=["write of its state", "sync", "rename", "write of a file"],
)


@at_each
def test_survives_a_kill_at_each(mirrored, faults, calls, name, step):
    for n in itertools.count():
        turn_source(mirrored, n)
        faults.arm(calls, name, faults.KILL, after=n * step, once=True)
        mirrored.sync(status=None, env=faults.env)
        was_killed = faults.disarm()
        mirrored.sync()
        mirrored.audit()
        if not was_killed:
            break
    assert n >= 2


# The next run makes the same directory of a past time that no kill would have hindered.
@at_each
def test_a_past_state_survives_a_kill_at_each(mirrored, faults, calls, name, step):
    for n in range(2):
        turn_source(mirrored, n)
        mirrored.post()
    time, then = mirrored.set.state()["datetime"], dict(mirrored.files)
    mirrored.change("/late.txt", "late")
    mirrored.post()
    mirrored.files = then
    for n in itertools.count():
        mirrored.directory = mirrored.home / f"m{n}"
        faults.arm(calls, name, faults.KILL, after=n * step, once=True)
        mirrored.sync("--as-of", time, status=None, env=faults.env)
        was_killed = faults.disarm()
        mirrored.sync("--as-of", time)
        mirrored.audit()
        if not was_killed:
            break
    assert n >= 2


@pytest.fixture
def came_whole(mirrored, faults):
    """The sync is killed before the file of /a.txt has its name: where it is then."""
    mirrored.change(A, "whole")
    faults.arm(faults.RENAME, ".txt", faults.KILL, once=True)
    mirrored.sync(status=None, env=faults.env)
    assert faults.disarm() == 1
    assert len(mirrored.site.asked(A)) == 1
    (incoming,) = (mirrored.directory / ".tidings/incoming").glob("[!.]*")
    return incoming


def test_a_complete_download_survives_a_kill(mirrored, came_whole):
    mirrored.sync()
    assert len(mirrored.site.asked(A)) == 1


# As a power cut may leave it.
def test_a_damaged_download_is_fetched_again(mirrored, came_whole):
    with open(came_whole, "r+b") as file:
        file.write(bytes(3))
    mirrored.sync()
    assert len(mirrored.site.asked(A)) == 2


# The sync keeps all files and reports the fault.
@pytest.mark.parametrize(
    "calls, name",
    [
        (Faults.WRITE, "/incoming/"),
        (Faults.WRITE, "mirror.db"),
        (Faults.RENAME, ".txt"),
    ],
    ids=["for a file", "for its state", "for a name"],
)
def test_ends_where_there_is_no_room(mirrored, faults, calls, name):
    turn_source(mirrored, 0)
    mirrored.sync()
    turn_source(mirrored, 1)
    faults.arm(calls, name, errno.ENOSPC)
    said = mirrored.sync(status=1, env=faults.env).errors()
    assert faults.disarm() > 0
    assert any(word in said for word in ("No space", "full", "room"))
    mirrored.sync()


def count_noted(mirrored):
    """How many files the mirror's state names."""
    db = sqlite3.connect(mirrored.directory / ".tidings/mirror.db")
    try:
        query = "SELECT count(*) FROM resources WHERE have"
        return db.execute(query).fetchone()[0]
    finally:
        db.close()


def sync_fails(mirrored, faults, name):
    """Sync while fsync fails for all files with `name` in their path."""
    faults.arm(faults.SYNC, name, errno.EIO)
    said = mirrored.sync(status=1, env=faults.env).errors()
    assert faults.disarm() > 0
    return said


# The state names no file before its directory is on the disk, nor before those above
# it, which are new as well; a file has no name before its bytes are on the disk.
@pytest.mark.parametrize(
    "name, has_name",
    [("/incoming/", False), ("/m/127.0.0.1", True), ("/d", True)],
    ids=["its bytes", "its directory", "all above it"],
)
def test_the_state_names_a_file_after_its_fsyncs(mirrored, faults, name, has_name):
    mirrored.change("/first.txt", "first")
    mirrored.sync()
    assert count_noted(mirrored) == 1

    mirrored.change("/d/new.txt", "new")
    assert os.strerror(errno.EIO) in sync_fails(mirrored, faults, name)
    assert count_noted(mirrored) == 1
    assert mirrored.file("/d/new.txt").exists() == has_name

    mirrored.sync()
    assert count_noted(mirrored) == 2


# The same holds for a removal.
def test_the_state_forgets_a_file_after_its_fsync(mirrored, faults):
    mirrored.change("/d/a.txt", "a")
    mirrored.change("/d/b.txt", "b")
    mirrored.sync()
    mirrored.change("/d/a.txt", None)
    sync_fails(mirrored, faults, "/d")
    assert count_noted(mirrored) == 2

    mirrored.sync()
    assert count_noted(mirrored) == 1


# A new file waits for the next group while the removal of the former one is being made
# durable: the end of that removal ends no wait, so the file is not fetched twice.
def test_a_removal_ends_no_wait_of_a_new_file(mirrored, faults):
    mirrored.change(A, "first")
    mirrored.change("/b.txt", "its folder stays")
    mirrored.sync()
    mirrored.start(env=faults.env)
    mirrored.wait("caught-up")
    faults.arm(faults.SYNC, "/m/127", faults.HANG)
    mirrored.change(A, None)
    mirrored.post()
    faults.wait()
    mirrored.change(A, "again")
    mirrored.post()
    incoming = mirrored.directory / ".tidings/incoming"
    wait_for("the new file", lambda: any(file.read_text() == "again" for file in incoming.glob("[!.]*")))
    faults.disarm()
    mirrored.wait("written")
    mirrored.wait("caught-up")
    mirrored.syncing.signal(15)
    mirrored.syncing.wait()
    mirrored.check_same()
    assert len(mirrored.site.asked(A)) == 2
