"""Permissions of the broker's files on the machine, and secrets that hub.db erases."""

import os
import stat

import pytest

from tidings_test import content, hub
from tidings_test.sets import change

LISTS = ("tile", "changes", "changedump", "resourcelist", "resourcedump")


def fill(news):
    """Make files of all sorts: databases, content, closed lists and dumps."""
    news.create(content="inline")
    loc = "http://example.com/a"
    body = content.multipart([change(loc)], [(loc, None, b"A")])
    assert news.send(*body).status == 200
    news.rotate()
    news.wait_list_files(1)
    news.wait_dumps(1)
    news.build("resourcelist")
    news.build("resourcedump")


def check(broker, directory, list_directory, list_file):
    """All that is in the data directory has these modes; files that are no lists are
    the owner's alone."""
    found = set()
    for path in [broker.data, *broker.data.rglob("*")]:
        parts = path.relative_to(broker.data).parts
        is_list = len(parts) > 2 and parts[0] == "sets" and parts[2] in LISTS
        if path.is_dir():
            wanted = list_directory if is_list else directory
        else:
            wanted = list_file if is_list else 0o600
            found.add(parts[2] if is_list else path.name)
        if path.name == "content" or path.parent.name == "content":
            wanted = 0o700
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == wanted, f"{path}: {mode:o}"
    assert found > {"tidings.db", "hub.db", "lock", "changes", "resourcedump"}


# The broker's files belong to its user alone, unless an option changes that.
@pytest.mark.parametrize(
    "options, expected",
    [
        ([], (0o700, 0o700, 0o600)),
        (["--lists-readable-by", "group"], (0o710, 0o750, 0o640)),
        (["--lists-readable-by", "all"], (0o711, 0o755, 0o644)),
    ],
)
def test_files_are_the_users_own(start_broker, options, expected):
    broker = start_broker(*options)
    fill(broker.set())
    check(broker, *expected)


# The next start closes a directory that was open to others, as those of earlier
# versions were; --lists-readable-by opens the existing lists.
def test_a_start_with_another_option_sets_all_modes(start_broker):
    broker = start_broker()
    fill(broker.set())
    broker.stop()
    for path in [broker.data, *broker.data.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    broker.restart()
    check(broker, 0o700, 0o700, 0o600)
    broker.stop()
    broker.options += ["--lists-readable-by", "all"]
    broker.restart()
    check(broker, 0o711, 0o755, 0o644)


# A data directory may have other files: a file system has lost+found.
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_other_files_keep_the_rights_of_their_owner(start_broker):
    broker = start_broker()
    broker.stop()
    script = broker.data / "backup.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    lost = broker.data / "lost+found"
    lost.mkdir()
    (lost / "file").touch()
    for path, mode in ((lost, 0o750), (lost / "file", 0o640)):
        path.chmod(mode)
        os.chown(path, 65534, 65534)
    broker.options += ["--lists-readable-by", "all"]
    broker.restart()
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (script, lost, lost / "file")]
    assert modes == [0o700, 0o750, 0o640]


# A secret is not left behind in a free page.
def test_a_secret_goes_with_its_subscription(start_broker, callbacks):
    broker = start_broker()
    news = broker.set()
    news.post()
    callback = callbacks.join(news, secret="a-secret-of-32-bytes-to-be-found")
    hub.check_taken(hub.unsubscribe(news, callback))
    hub.wait_gone(news, callback)
    broker.stop()
    for path in broker.data.glob("hub.db*"):
        assert b"a-secret-of-32-bytes" not in path.read_bytes(), path
