"""A backup or a restore that is killed at any of its writes, or whose disk is full."""

import errno
import shutil

import pytest

from tidings_test.backups import Backups
from tidings_test.faults import Faults
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

ALL = Faults.WRITE | Faults.SYNC | Faults.RENAME
STRIDE = soak(9, 1)  # writes from one kill to the next
LISTS = 4


@pytest.fixture
def backups(run, tmp_path):
    return Backups(run, tmp_path / "backup")


@pytest.fixture
def changed(start_broker, backups):
    """A broker that has a backup, and has gone on since; it is stopped."""
    broker = start_broker("--rotate-entries", 10)
    news = broker.set("news")
    news.post(10 * LISTS)
    news.wait_list_files(LISTS)
    backups.make(broker)
    news.post(10 * LISTS)
    news.wait_list_files(2 * LISTS)
    broker.stop()
    return broker


def position(backups):
    lines = (backups.directory / "manifest").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("# set news "))
    return int(line.rpartition("-")[2])


def check_restored(backups, run, data, last):
    """The backup is whole, and of that moment."""
    assert position(backups) == last
    run("tidingsd", "restore", backups.directory, "--data", data)
    shutil.rmtree(data)


def test_a_killed_backup_leaves_the_former_one(
    changed, backups, faults, run, tmp_path
):
    make = ("tidingsd", "backup", backups.directory, "--incremental")
    for after in range(0, 10000, STRIDE):
        faults.arm(ALL, "/backup/", faults.KILL, after)
        run(*make, "--data", changed.data, env=faults.env, status=None)
        if not faults.disarm():
            break
        if position(backups) == 20 * LISTS:
            continue  # killed behind the end
        check_restored(backups, run, tmp_path / "new", 10 * LISTS)
    assert after > 2 * STRIDE
    check_restored(backups, run, tmp_path / "new", 20 * LISTS)
    backups.check_whole()


# The first one has no former one: nothing that could be taken for a backup is left.
def test_a_killed_first_backup_is_none(changed, run, faults, tmp_path):
    backups = Backups(run, tmp_path / "first")
    make = ("tidingsd", "backup", backups.directory, "--data", changed.data)
    for after in range(0, 10000, STRIDE):
        faults.arm(ALL, "/first/", faults.KILL, after)
        run(*make, env=faults.env, status=None)
        if not faults.disarm():
            break
        restore = ("tidingsd", "restore", backups.directory, "--data", tmp_path / "n")
        if (backups.directory / "manifest").exists():
            shutil.rmtree(backups.directory)
            continue
        assert "has no backup" in run(*restore, status=1).errors()
        assert not (tmp_path / "n").exists()
    backups.check_whole()


def test_a_full_disk_leaves_the_former_backup(changed, backups, faults, run, tmp_path):
    make = ("tidingsd", "backup", backups.directory, "--incremental")
    for after in range(0, 10000, STRIDE):
        faults.arm(Faults.WRITE, "/backup/0", errno.ENOSPC, after)
        done = run(*make, "--data", changed.data, env=faults.env, status=None)
        if not faults.disarm():
            break
        assert done.wait() == 1
        assert f"cannot write {backups.directory}/000002/" in done.errors()
        backups.check_whole()
        assert position(backups) == 10 * LISTS
    assert after > STRIDE
    check_restored(backups, run, tmp_path / "new", 20 * LISTS)


# No broker takes a part of a data directory for the whole.
def test_a_killed_restore_is_no_data_directory(
    changed, backups, faults, run, tmp_path
):
    new = tmp_path / "new"
    restore = ("tidingsd", "restore", backups.directory, "--data", new)
    check = ("tidingsd", "--check", "--listen", "127.0.0.1:0", "--data", new)
    for after in range(0, 10000, STRIDE // 4 + 1):
        faults.arm(ALL, "/new", faults.KILL, after)
        run(*restore, env=faults.env, status=None)
        if not faults.disarm():
            break
        if any(new.glob("sets")) and not (new / "restoring").exists():
            run("tidingsd", "check", "--data", new)  # killed behind the end
        elif any(new.glob("sets")):
            refused = run(*check, status=1)
            assert "whose restore was not finished" in refused.errors()
            assert "is not empty" in run(*restore, status=2).errors()
        shutil.rmtree(new)
    assert after > 2
    run(*check)

    shutil.rmtree(new)
    faults.arm(Faults.WRITE, "/new", errno.ENOSPC, 4)
    assert "No space left" in run(*restore, env=faults.env, status=1).errors()
    assert not new.exists()


# The same of a log that is made of its lists.
def test_a_killed_restore_of_lists_is_none(changed, faults, run, tmp_path):
    new = tmp_path / "new"
    lists = changed.data / "sets"
    restore = ("tidingsd", "restore", "--from-archive", lists, "--data", new)
    check = ("tidingsd", "--check", "--listen", "127.0.0.1:0", "--data", new)
    for after in range(0, 10000, STRIDE):
        faults.arm(ALL, "/new", faults.KILL, after)
        run(*restore, env=faults.env, status=None)
        if not faults.disarm():
            break
        if any(new.glob("building")):
            refused = run(*check, status=1)
            assert "whose restore was not finished" in refused.errors()
        shutil.rmtree(new)
    assert after > STRIDE
    run(*check)

    shutil.rmtree(new)
    faults.arm(Faults.WRITE, "/new", errno.ENOSPC, 4)
    run(*restore, env=faults.env, status=1)
    assert not new.exists()


# The broker that is killed during a backup takes nothing from it, and the next process
# deletes again.
def test_the_broker_may_end_during_a_backup(start_broker, run, tmp_path):
    broker = start_broker("--rotate-entries", 10, "--remove-grace", 0)
    news = broker.set().create(retainLists=1)
    news.post(40)
    news.wait_list_files(1)
    backups = Backups(run, tmp_path / "backup")
    broker.kill()
    backups.make(broker)
    broker.restart()
    backups.make(broker, "--incremental")
    news.post(20)
    wait_for("lists to go", lambda: not news.list_file(4).exists())
    backups.check_whole()
