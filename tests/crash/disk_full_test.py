"""A disk that fills up and gets room again: a small tmpfs in the test's own mount
namespace. Where the system permits none, the tests are skipped."""

import ctypes
import errno
import os

import pytest

from tidings_test import hub
from tidings_test.faults import Faults
from tidings_test.http import NDJSON, check_refused
from tidings_test.sets import entries
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

WRITE, SYNC = Faults.WRITE, Faults.SYNC

# The broker keeps 110 MB (RESERVE_BYTES in broker/store/store.c), of which 64 MB must be
# free on the disk; the rest may be free inside its database. Its files take 8 to 25 MB,
# as checkpoints of the WAL come early or late.
DISK = b"size=190m"
BALLAST = 40 << 20
TOO_LITTLE = 60 << 20

POST = 20  # entries
SIZE = 15000  # of each
POSTS_BEFORE = 40  # before somebody else takes the space
POSTS = soak(300, 600)  # more than the disk has room for if nothing is forgotten

# Entries of a list. No number of posts before the disk is full fills lists exactly: the
# last list is never empty.
LIST = 161

LARGE = b'{"loc":"http://e.x/1","change":"updated"}\n' * 430000  # fragments are larger

CLONE_NEWNS = 0x20000
MS_PRIVATE_ALL = 0x44000
MNT_DETACH = 2


@pytest.fixture
def disk(tmp_path):
    """The directory of a small disk, with ballast on it. The mount namespace is that
    of the main thread, which starts the programs."""
    directory = tmp_path / "disk"
    directory.mkdir()
    path = os.fsencode(directory)
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.unshare(CLONE_NEWNS)
        or libc.mount(None, b"/", None, MS_PRIVATE_ALL, None)
        or libc.mount(b"tidings-test", path, b"tmpfs", 0, DISK)
    ):
        why = os.strerror(ctypes.get_errno())
        pytest.skip(f"no small disk to be had: {why} (it takes root)")
    assert add_ballast(directory / "ballast", BALLAST)
    yield directory
    libc.umount2(path, MNT_DETACH)


@pytest.fixture
def source(disk, start_broker):
    return Source(disk, start_broker)


def add_ballast(path, size):
    """A file of that size. False: the disk is full before that."""
    with open(path, "ab") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            return False
    return True


class Source:
    """The source of a set on the disk; `last` is the last entry that was acknowledged.
    With `resources` all changes are of so many resources."""

    def __init__(self, disk, start_broker, env=None):
        self.disk = disk
        options = ("--rotate-entries", LIST)
        self.broker = start_broker(*options, directory=disk / "broker", env=env)
        self.news = self.broker.set()
        self.lists = self.news.changelists()
        self.last = 0
        self.resources = None

    def free(self):
        disk = os.statvfs(self.disk)
        return disk.f_bavail * disk.f_frsize

    def take(self, name, left):
        """Somebody else takes what is free, up to `left` bytes."""
        assert add_ballast(self.disk / name, self.free() - left)

    def take_all(self, name):
        """Take all free space, and all space that becomes free meanwhile, as another
        program does."""
        size = 0

        def look():
            nonlocal size
            more = self.free()
            if more and add_ballast(self.disk / name, size + more):
                size += more
            return not more

        wait_for("a disk without a free byte", look)

    def give_back(self, *names):
        for name in names:
            (self.disk / name).unlink()

    def try_post(self):
        """Post once. False: it is refused, because of the disk."""
        first = self.last % self.resources if self.resources else self.last
        answer = self.news.send(entries(POST, first + 1, SIZE))
        if answer.status != 200:
            check_no_room(answer)
            return False
        receipt = self.news.receipt(answer)
        assert (receipt.first, receipt.last) == (self.last + 1, self.last + POST)
        self.last = receipt.last
        return True

    def fill_up(self):
        for _ in range(POSTS_BEFORE):
            assert self.try_post()
            # Entries without a file would take the room of the next posts.
            self.news.wait_list_files(self.last // LIST)
        assert self.last // LIST >= 4
        self.take("full", TOO_LITTLE)
        assert not self.try_post()

    def wait_ready(self, is_ready):
        """Wait until /readyz says so, although nobody posts meanwhile."""
        status = 200 if is_ready else 503

        def look():
            answer = self.broker.get("/readyz")
            return answer.status == status and answer

        answer = wait_for(f"/readyz with {status}", look)
        if not is_ready:
            reason = "the disk is nearly full: posts are refused"
            assert answer.json()["detail"] == f"not ready: {reason}"
            assert answer.json()["reasons"][0] == reason
        assert self.broker.get("/healthz").status == 200

    def check(self):
        """Pull finds all that was acknowledged, and nothing else."""
        assert self.lists.read().history.last == self.last

    def check_all(self):
        """The same, with every resource, and by push."""
        self.check()
        history = self.lists.history
        assert len(self.lists) == self.last // LIST + 1
        locs = [f"http://example.com/r/{seq}" for seq in range(1, self.last + 1)]
        assert history.locs() == locs
        heard = self.news.websocket("after=0", form="xml").until(self.last).history
        assert heard.after == 0
        heard.check_same(history)


def check_no_room(answer):
    check_refused(answer, 503)
    assert answer["Retry-After"] == "1"
    assert answer.json()["detail"] == "the disk is nearly full"


# Design section 4: 503 when the disk is full; log.md: below a reserve, so that closing
# and filing can still run. R-149
def test_posts_are_refused_before_the_disk_is_full_and_taken_again_after(source):
    source.wait_ready(True)
    source.fill_up()
    source.wait_ready(False)
    source.give_back("full")
    source.wait_ready(True)
    source.take("full", TOO_LITTLE)
    source.wait_ready(False)
    assert not source.try_post()
    source.check_all()

    # The reserve is enough to close the open list and to write its file.
    source.news.rotate()
    source.check()
    assert len(source.lists) == source.last // LIST + 2
    source.news.wait_list_files(len(source.lists) - 1)
    source.check()
    assert not source.try_post()

    source.give_back("ballast", "full")
    assert source.try_post()
    source.check()


# The operator reads one line when the disk is full and one when it is not, however many
# posts are refused.
def test_a_full_disk_is_reported_once(source):
    source.fill_up()
    for _ in range(20):
        assert not source.try_post()
    source.wait_ready(False)
    source.give_back("ballast", "full")
    source.broker.wait_said("posts are taken again")
    assert source.try_post()
    source.broker.stop()
    said = warnings_of(source.broker)
    assert 'msg="posts are refused" error="the disk is nearly full"' in said[0]
    assert 'msg="posts are taken again"' in said[1]
    assert len(said) == 2


def warnings_of(broker):
    return [line for line in broker.process.err if "level=info" not in line]


# The same holds for list files and for hub.db, which the broker tries to write again,
# each second or as often as somebody asks for it. The faults are injected: on a full
# disk a failure would free the space that it had taken, and the next try might succeed.
def test_each_failure_of_a_full_disk_is_reported_once(
    tmp_path, start_broker, callbacks, faults
):
    source = Source(tmp_path, start_broker, env=faults.env)
    assert source.try_post()
    one = callbacks.join(source.news)

    source.news.build("resourcelist")  # a small set has no state before
    faults.arm(WRITE | SYNC, "resources.db", errno.ENOSPC)
    failures = "tidings_folds_failed_total"
    for count in range(1, 4):
        assert source.try_post()
        wait_for("a try", lambda n=count: source.broker.metrics()[failures] >= n)
    faults.disarm()

    faults.set_disk(1 << 20)
    source.wait_ready(False)

    faults.arm(WRITE | SYNC, "/sets/", errno.ENOSPC)
    source.broker.post(f"{source.news.path}/rotate")
    for _ in range(10):
        assert not source.try_post()
    failures = "tidings_list_files_failed_total"
    wait_for("a second try", lambda: source.broker.metrics()[failures] >= 2)
    faults.disarm()
    source.broker.wait_said("lists are filed again")

    faults.arm(WRITE | SYNC, "hub.db", errno.ENOSPC)
    for _ in range(10):
        hub.check_refused(hub.subscribe(source.news, callbacks.add()), 503, "full")
    faults.disarm()
    source.broker.wait_said("hub.db is written")

    faults.set_disk(0)
    source.broker.wait_said("posts are taken again")
    assert source.try_post()
    one.wait_last(source.last)
    source.broker.stop()
    said = [line.partition(" msg=")[2] for line in warnings_of(source.broker)]
    assert len(said) == len({line.partition('" ')[0] for line in said})


# the same where somebody else takes the last byte, and through a kill on that
# disk.
def test_a_disk_without_a_free_byte_loses_nothing(source):
    source.fill_up()
    source.check()
    source.news.wait_list_files(len(source.lists) - 1)
    source.take_all("more")
    assert not source.try_post()
    source.check_all()

    source.broker.kill()
    source.give_back("more")
    source.broker.restart()
    source.check_all()
    source.give_back("ballast", "full")
    assert source.try_post()
    source.check_all()


# log.md: the log deletes entries whose lists have files and uses their space again, and
# so does the state of a set whose resources stay the same. A disk with room for the
# retained entries does not fill up in the course of time.
def test_going_on_does_not_fill_a_disk_that_is_large_enough(source):
    source.resources = 5 * POST
    for _ in range(POSTS):
        # Now and then the archive lags: then a post waits for it.
        wait_for("room for a post", source.try_post)
    source.check()


# Short entries grow several times when they are stamped: the disk has no room for the
# stamped post. R-149
def test_a_post_that_the_disk_is_too_small_for_is_refused_alone(source):
    assert source.try_post()
    for _ in range(2):
        check_no_room(source.news.send(LARGE, NDJSON))
        assert source.try_post()
    source.check()
