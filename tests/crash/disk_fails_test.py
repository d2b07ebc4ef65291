"""A disk that fails: in the middle of a commit, of a start, of a closed list's file.
The calls that fail are chosen (faults.py)."""

import errno
import signal

import pytest

from tidings_test.faults import Faults
from tidings_test.http import ConnectionEnded, check_refused
from tidings_test.publishers import Publishers
from tidings_test.sets import entries
from tidings_test.soak import choices

WRITE, SYNC, RENAME = Faults.WRITE, Faults.SYNC, Faults.RENAME

DB = "tidings.db"
WAL = "tidings.db-wal"
SEGMENT = "/segments/"
LIST = ".xml.gz"
FOLDER = "/changes"  # of lists: to be synced when a file has its name

POST = 10  # entries
SIZE = 12000  # of each
WRITES_MAX = 40  # to the WAL, for a post


class Source:
    """The only source of a set; `last` is the last entry that was acknowledged."""

    def __init__(self, start_broker, faults, rotate_entries):
        self.broker = start_broker("--rotate-entries", rotate_entries, env=faults.env)
        self.news = self.broker.set()
        self.lists = self.news.changelists()
        self.last = 0

    def try_post(self):
        """Post once; the answer, None: the broker ended before that."""
        try:
            answer = self.news.send(entries(POST, self.last + 1, SIZE))
        except (ConnectionEnded, ConnectionError):
            return None
        if answer.status == 200:
            receipt = self.news.receipt(answer)
            assert (receipt.first, receipt.last) == (self.last + 1, self.last + POST)
            self.last = receipt.last
        return answer

    def post(self):
        assert self.try_post().status == 200

    def try_rotate(self):
        try:
            return self.broker.post(f"{self.news.path}/rotate")
        except (ConnectionEnded, ConnectionError):
            return None

    def kill(self):
        self.broker.kill()
        self.broker.restart()

    def check(self):
        """All acknowledged entries are there, and no others."""
        history = self.lists.read().history
        assert history.last == self.last
        locs = [f"http://example.com/r/{seq}" for seq in range(1, self.last + 1)]
        assert history.locs() == locs


# Commits


# log.md, commit: the outcome is unknown, so the broker answers nobody, logs the reason
# and ends with 1; then it is right again.
def test_a_commit_that_fails_is_answered_to_nobody(start_broker, faults):
    broker = start_broker("--rotate-entries", 500, env=faults.env)
    news = broker.set().create()
    lists = news.changelists()
    publishers = Publishers(news, choices())
    doubts = 0
    # fmt: off
    cases = [
        (SYNC, 60, errno.EIO), (SYNC, 0, errno.EIO), (SYNC, 1, errno.EIO),
        (WRITE, 0, errno.EIO), (WRITE, 33, errno.EIO), (WRITE, 150, errno.EIO),
        (SYNC, 20, errno.ENOSPC), (SYNC, 9, errno.EDQUOT),
    ]
    # fmt: on
    for calls, after, outcome in cases:
        faults.arm(calls, WAL, outcome, after)
        with publishers.posting():
            assert broker.wait() == 1
        assert faults.disarm()
        assert "commit" in broker.process.errors()
        doubts += len(publishers.doubts)
        broker.restart()
        history = lists.read().history
        assert history.last in history.digests
        publishers.check(history)
    assert doubts


# Design section 4: 503 when the disk is full, at any write; the broker keeps nothing of
# a refused post, also if a kill comes before the next commit.
@pytest.mark.parametrize("outcome, reason", [("ENOSPC", "full"), ("EDQUOT", "quota")])
def test_a_commit_that_has_no_room_is_refused(start_broker, faults, outcome, reason):
    source = Source(start_broker, faults, 50000)
    source.post()
    for refused in range(WRITES_MAX):
        faults.arm(WRITE, WAL, getattr(errno, outcome), refused)
        answer = source.try_post()
        if not faults.disarm():
            break
        check_refused(answer, 503, reason)
        if refused % 4 == 1:
            source.kill()
        source.check()
        if refused % 4 == 3:
            source.post()
    assert 5 <= refused < WRITES_MAX - 1
    source.check()


# The entries of a large post go into a segment first: without them its commit never
# begins. Nothing more is put into a segment whose sync has failed. R-149
@pytest.mark.parametrize(
    "calls, outcome, reason",
    [
        (WRITE, errno.ENOSPC, "No space"),
        (WRITE, errno.EIO, "Input/output"),
        (SYNC, errno.EIO, "Input/output"),
        (SYNC, errno.EDQUOT, "quota"),
    ],
)
def test_a_segment_that_fails_refuses_the_post(
    start_broker, faults, calls, outcome, reason
):
    source = Source(start_broker, faults, 50000)
    for after in range(2):
        source.post()
        faults.arm(calls, SEGMENT, outcome, after)
        answers = [source.try_post() for _ in range(after + 1)]
        assert faults.disarm()
        check_refused(answers[-1], 503, reason)
        source.check()
        source.post()
        source.kill()
        source.check()


# A kill before the entries are on the disk, or before the rows are that name them.
def test_a_kill_between_a_segment_and_its_rows_keeps_all_or_nothing(
    start_broker, faults
):
    source = Source(start_broker, faults, 50000)
    for calls, name in ((WRITE, SEGMENT), (SYNC, SEGMENT), (WRITE, WAL), (SYNC, WAL)):
        for after in range(2):
            source.post()
            faults.arm(calls, name, faults.KILL, after)
            for _ in range(after + 1):
                if not source.try_post():
                    break
            assert faults.disarm()
            assert source.broker.wait() == 128 + signal.SIGKILL
            source.broker.restart()
            lists = source.lists.read()
            # The post whose sync was cut off may be there, and nobody was told.
            assert lists.history.last in (source.last, source.last + POST)
            source.last = lists.history.last
            source.check()


# A write may take less than it was given; the rest follows.
@pytest.mark.parametrize("name", [WAL, SEGMENT])
def test_a_write_that_comes_in_two_is_whole(start_broker, faults, name):
    source = Source(start_broker, faults, POST * 3 // 2)
    for n in range(20):
        faults.arm(WRITE, name, faults.SHORT, n if name == WAL else n % 2, once=True)
        source.post()
        if n % 5 == 4:
            source.kill()
    source.check()
    faults.arm(WRITE, LIST, faults.SHORT)
    source.post()
    source.post()
    source.news.wait_list_files(len(source.lists.read()) - 1)
    assert faults.disarm()
    source.broker.stop()
    source.broker.restart()
    source.check()  # from the files


# Starts


# log.md: at start, recover and checkpoint successfully before serving.
def test_a_start_that_cannot_recover_serves_nothing(start_broker, faults, run):
    source = Source(start_broker, faults, 50000)
    cases = (SYNC, errno.EIO), (WRITE, errno.EIO), (WRITE, errno.ENOSPC)
    for calls, outcome in cases:
        source.post()
        source.broker.kill()  # what was posted is in the WAL alone
        faults.arm(calls, DB, outcome)
        options = ("--listen", "127.0.0.1:0", "--data", source.broker.data)
        ended = run("tidingsd", *options, env=faults.env, status=1)
        assert faults.disarm()
        assert DB in ended.errors()
        assert "ready" not in ended.output() + ended.errors()
        source.broker.restart()
        source.check()


# Files of closed lists


# a list is the same before its file, without one, and after it;
# the broker repeats a failed write later.
def test_a_file_that_cannot_be_written_is_written_later(start_broker, faults):
    source = Source(start_broker, faults, POST)
    for calls, name, outcome in [
        (WRITE, LIST, errno.ENOSPC),
        (SYNC, LIST, errno.EIO),
        (RENAME, LIST, errno.EACCES),
        (SYNC, FOLDER, errno.EIO),
    ]:
        faults.arm(calls, name, outcome)
        source.post()
        faults.wait()
        source.check()
        source.post()
        source.check()
        faults.disarm()
        source.check()
        source.news.wait_list_files(source.last // POST)
        source.check()
    source.broker.wait_said(LIST)


# The same without room for the log's facts about a list: its end, or that it is filed.
#
def test_a_list_is_closed_or_not_where_there_is_no_room(start_broker, faults):
    source = Source(start_broker, faults, 50000)
    closed = refused = 0
    for n in range(0, 48, 2):  # writes before the one that fails
        source.post()
        faults.arm(WRITE, WAL, errno.ENOSPC, n, once=True)
        answer = source.try_rotate()
        if answer.status == 200:
            closed += 1
            source.news.wait_list_files(closed)
        else:
            check_refused(answer, 503, "full")
            refused += 1
        source.check()
        assert len(source.lists) == closed + 1
        faults.disarm()
    assert refused >= 2 and closed >= 2
    source.news.wait_list_files(closed)
    source.broker.stop()
    source.broker.restart()
    source.check()


# a kill in the middle of a file, before it has its name, after it, and around
# the commit that records the file.
@pytest.mark.parametrize(
    "calls, name, afters",
    [
        (WRITE, LIST, [0]),
        (SYNC, LIST, [0]),
        (RENAME, LIST, [0]),
        (SYNC, FOLDER, [0]),
        (WRITE | SYNC, WAL, range(0, 25, 3)),
    ],
)
def test_a_kill_while_a_list_is_filed_changes_nothing(
    start_broker, faults, calls, name, afters
):
    source = Source(start_broker, faults, 50000)
    for after in afters:
        source.post()
        faults.arm(calls, name, faults.KILL, after)
        answers = []

        def post_more(answers=answers):
            source.try_rotate()
            answers.append(source.try_post())

        faults.provoke(post_more)
        assert source.broker.wait() == 128 + 9
        faults.disarm()
        source.broker.restart()
        last = source.lists.read().history.last
        if not answers[-1] and last > source.last:
            source.last += POST
        source.check()
        source.news.wait_list_files(len(source.lists) - 1)
        source.check()
