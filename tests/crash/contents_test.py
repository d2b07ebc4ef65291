"""The broker is killed, or meets a full disk, while posts bring bytes along and while
the archive thread folds, forgets and takes files away. The calls that meet the fault
are chosen at random (faults.py)."""

import errno
import hashlib
import signal

import pytest

from tidings_test.content import contents, kept, multipart
from tidings_test.faults import Faults
from tidings_test.http import ConnectionEnded
from tidings_test.sets import change
from tidings_test.soak import choices, soak
from tidings_test.waiting import wait_for

WRITE, SYNC, RENAME = Faults.WRITE, Faults.SYNC, Faults.RENAME

RETAINED = 2  # lists
OPTIONS = ("--content", "inline", "--rotate-entries", 20, "--retain-lists", RETAINED)
POST = 5  # entries
RESOURCES = 30
TEXTS = 60

# The first of the calls that meet a fault: of a few posts, and steps of the archive
# thread, which looks once a second.
CALLS_MAX = soak(15, 120)


def seq_of(position):
    return int(position.rpartition("-")[2])


class Source:
    """The only source of a set that keeps content. `told` is the resource and the
    content of each entry; content None: the entry deleted it."""

    def __init__(self, broker):
        self.broker = broker
        self.set = broker.set()
        self.random = choices()
        self.told = []
        self.tried = []  # by the last post

    def try_post(self):
        """Post changes of different resources with their content; the answer, None:
        the broker ended before that."""
        first = self.random.randrange(RESOURCES)
        self.tried = [self._choose((first + i) % RESOURCES) for i in range(POST)]
        changes, parts = [], []
        for resource, content in self.tried:
            loc = f"http://example.com/{resource}"
            changes.append(change(loc, "updated" if content else "deleted"))
            if content:
                parts.append((loc, None, content))
        try:
            answer = self.set.send(*multipart(changes, parts))
        except (ConnectionEnded, ConnectionError):
            return None
        if answer.status == 200:
            self.told += self.tried
        return answer

    def _choose(self, resource):
        is_deleted = self.random.random() < 0.2
        text = f"bytes of {self.random.randrange(TEXTS)}\n".encode()
        return resource, None if is_deleted else text

    def post(self):
        assert self.try_post().status == 200

    def needed(self, earliest):
        """The contents of the entries behind `earliest`, and of those before that no
        later entry has overtaken."""
        needed, overtaken = set(), set()
        for seq in range(len(self.told), 0, -1):
            resource, content = self.told[seq - 1]
            if content and (seq > earliest or resource not in overtaken):
                needed.add(content)
            overtaken.add(resource)
        return needed

    def provoke_kill(self, faults):
        """Post until the armed fault kills the broker."""
        faults.provoke(self.try_post)
        assert self.broker.wait() == 128 + signal.SIGKILL
        faults.disarm()

    def come_back(self):
        """Start the broker that has ended. A post without an answer is there as a whole
        or not at all, and no content of an entry is missing."""
        there = contents(self.set)
        self.broker.disconnect()
        self.broker.restart()
        state = self.set.state()
        if state["last"] == len(self.told) + POST:
            self.told += self.tried
        assert state["last"] == len(self.told)
        assert self.needed(seq_of(state["earliest"])) <= there

    def finish(self):
        """Wait until all is done that was behind, and stop the broker: then nothing is
        missing, and nothing was left."""

        def look():
            state = self.set.state()
            needed = self.needed(seq_of(state["earliest"]))
            names = {hashlib.sha256(content).hexdigest() for content in needed}
            is_folded = state["content"]["last"] == len(self.told)
            is_forgotten = state["lists"]["closed"] <= RETAINED
            files = {path.name for path in kept(self.set)}
            return is_folded and is_forgotten and files == names

        wait_for("exactly what is needed", look)
        assert self.set.state()["content"]["missing"] == 0
        self.broker.stop()
        assert contents(self.set) <= self.needed(0)

    def wait_no_lag(self):
        metrics = self.broker.metrics
        lag = "tidings_content_lag_entries"
        wait_for("the end of the lag", lambda: metrics()[lag] == 0)


@pytest.fixture
def source(start_broker, faults):
    source = Source(start_broker(*OPTIONS, env=faults.env))
    source.post()
    return source


# killed at any write, sync or rename of content: every file that an entry
# names exists, and no other file is left in the end.
def test_files_and_entries_stay_together_through_kills(source, faults):
    for round in range(soak(1, 5)):
        if round:
            source.finish()
            source.come_back()
        for name in ("content.db", "/content/", "arriving"):
            after = source.random.randrange(CALLS_MAX)
            faults.arm(WRITE | SYNC | RENAME, name, faults.KILL, after)
            source.provoke_kill(faults)
            source.come_back()
    for _ in range(10):  # lists that retention lets go of
        source.post()
    source.finish()


# A full disk refuses posts that bring bytes along, or keeps the fold waiting; when
# there is room all goes on.
def test_a_full_disk_loses_nothing(source, faults):
    for _ in range(soak(1, 3)):
        for name in ("content.db", "arriving"):
            after = source.random.randrange(soak(5, 20))
            faults.arm(WRITE | SYNC, name, errno.ENOSPC, after)
            faults.provoke(source.try_post)
            for _ in range(4):
                assert source.try_post()  # it answers, whatever
            faults.disarm()
            source.wait_no_lag()
            source.post()
    source.finish()
    assert source.broker.has_said("could not be brought up to date")


# While the disk is nearly full the archive logs once that it lags; it catches up when
# there is room again.
def test_says_once_that_it_is_behind_for_want_of_disk(source, faults):
    source.wait_no_lag()
    faults.arm(WRITE | SYNC, "content.db", errno.ENOSPC)
    source.post()
    faults.wait()
    source.broker.kill()
    faults.disarm()
    faults.set_disk(1 << 20)
    source.come_back()
    said = "is behind, because the disk is nearly full"
    source.broker.wait_said(said)
    faults.set_disk(0)
    source.wait_no_lag()
    assert sum(said in line for line in source.broker.process.err) == 1
    source.finish()
