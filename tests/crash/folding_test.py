"""The archive thread is killed while it folds, and meets a full disk there; meanwhile
lists end, get files and are deleted. The calls that meet the fault are chosen at random
(faults.py)."""

import contextlib
import datetime
import errno
import hashlib
import shutil
import signal
import sqlite3
import tempfile

import pytest

from tidings_test.faults import Faults
from tidings_test.http import ConnectionEnded
from tidings_test.sets import change
from tidings_test.soak import choices, soak
from tidings_test.waiting import wait_for

WRITE, SYNC = Faults.WRITE, Faults.SYNC

OPTIONS = ("--rotate-entries", "500", "--retain-lists", "3")
POST = 50  # entries
RESOURCES = 600

# The first writes and syncs of the fold after a start: at most a few steps.
CALLS_MAX = soak(20, 90)


def query(database, sql):
    """The rows in a database of a dead broker. Query a copy: the next broker must find
    the database as the dead one has left it."""
    with tempfile.TemporaryDirectory() as directory:
        for path in database.parent.glob(f"{database.name}*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, directory)
        with contextlib.closing(sqlite3.connect(f"{directory}/{database.name}")) as db:
            table = sql.rpartition(" ")[2]
            found = db.execute("SELECT 1 FROM sqlite_master WHERE name=?", [table])
            return db.execute(sql).fetchall() if found.fetchall() else []


def microseconds(time):
    moment = datetime.datetime.fromisoformat(time.replace("Z", "+00:00"))
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return (moment - epoch) // datetime.timedelta(microseconds=1)


class Model:
    """The resources of a set after entry `seq`: its changes, folded in a plain model.
    `resources` are the seqs and entries of the existing resources, by their locs."""

    def __init__(self):
        self.seq = 0
        self.resources = {}

    def fold(self, changes, seq):
        """Fold entries up to `seq`; `changes` are all from the first one on."""
        for one in changes[self.seq : seq]:
            self.seq += 1
            loc = one["loc"]
            if one["change"] == "deleted":
                self.resources.pop(loc, None)
                continue
            hash, length = f"md5:{one['hash']['md5']}", one["length"]
            md = f'<rs:md td:seq="{self.seq}" hash="{hash}" length="{length}"/>'
            entry = f"<url><loc>{loc}</loc>{md}</url>\n".encode()
            self.resources[loc] = self.seq, entry

    def check(self, state, resources, keys):
        """The rows of the state's three tables are exactly this."""
        n, bytes_, is_whole = state
        assert (n, is_whole) == (len(self.resources), 1)
        assert bytes_ == sum(len(entry) for _, entry in self.resources.values())
        assert len(resources) == len(keys) == n
        ids = {key: id for key, id in keys}
        rows = {id: row for id, *row in resources}
        for loc, row in self.resources.items():
            key = hashlib.sha256(loc.encode()).digest()[:16]
            assert rows[ids[key]] == list(row)


class Source:
    """The only source of a set. `told` are all changes that the set has, `times` the
    times of the last entries of posts."""

    def __init__(self, broker):
        self.broker = broker
        self.set = broker.set()
        self.model = Model()
        self.random = choices()
        self.told = []
        self.tried = []  # by the last post
        self.times = {}

    def try_post(self):
        """Post; False: the broker ended before it answered."""
        self.tried = [self._choose() for _ in range(POST)]
        try:
            answer = self.set.send(self.tried)
        except (ConnectionEnded, ConnectionError):
            return False
        self._take(self.set.receipt(answer).datetime)
        return True

    def _choose(self):
        """Sources err: they also create what is there, and update what is not."""
        loc = f"http://example.com/r/{self.random.randrange(RESOURCES)}"
        kind = self.random.choice(("created", "updated", "updated", "deleted"))
        if kind == "deleted":
            return change(loc, kind)
        hashes = {"md5": f"{self.random.getrandbits(31):032x}"}
        length = self.random.randrange(1000000)
        time = "2020-01-01T00:00:00Z"
        return change(loc, kind, hash=hashes, length=length, datetime=time)

    def _take(self, time):
        self.told += self.tried
        self.times[len(self.told)] = microseconds(time)

    def post(self):
        assert self.try_post()

    def check(self):
        """Check that the ended broker has left a complete state of one position, no
        older than before, with every entry that retention has deleted. Start the broker
        again."""
        resources_db = self.set.folder / "resources.db"
        log_db = self.broker.data / "tidings.db"
        earliest = dict(query(log_db, "SELECT name, earliest FROM sets"))[self.set.name]
        rows = query(resources_db, "SELECT seq, us, n, bytes, is_whole FROM state")
        resources = query(resources_db, "SELECT id, seq, entry FROM resources")
        keys = query(resources_db, "SELECT key, id FROM keys")
        self.broker.disconnect()
        self.broker.restart()
        state = self.set.state()
        if state["last"] == len(self.told) + POST:
            self._take(state["datetime"])
        assert state["last"] == len(self.told)

        seq, us, *sums = rows[0] if rows else (0, None, 0, 0, 1)
        assert max(earliest, self.model.seq) <= seq <= len(self.told)
        self.model.fold(self.told, seq)
        if seq:
            assert us == self.times[seq]
        self.model.check(sums, resources, keys)

    def finish(self):
        """Wait until all is folded, stop the broker and check that."""
        self.set.build("resourcelist")
        self.broker.stop()
        self.check()
        assert self.model.seq == len(self.told)

    def wait_lag(self):
        lag = "tidings_fold_lag_entries"
        wait_for("a lag of the fold", lambda: self.broker.metrics()[lag] > 0)


@pytest.fixture
def source(start_broker, faults):
    source = Source(start_broker(*OPTIONS, env=faults.env))
    source.post()
    return source


# killed at any write or sync of the state's file.
def test_each_entry_is_folded_once_through_kills(source, faults):
    for _ in range(soak(3, 12)):
        after = source.random.randrange(CALLS_MAX)
        faults.arm(WRITE | SYNC, "resources.db", faults.KILL, after)
        faults.provoke(source.try_post)
        assert source.broker.wait() == 128 + signal.SIGKILL
        faults.disarm()
        source.check()
    source.post()
    source.finish()


# A full disk stops the fold, and nothing else; when there is room it goes on where it
# was. Posts that come meanwhile are taken.
def test_a_full_disk_only_keeps_the_state_waiting(source, faults):
    for _ in range(soak(2, 5)):
        after = source.random.randrange(soak(8, 20))
        faults.arm(WRITE | SYNC, "resources.db", errno.ENOSPC, after)
        faults.provoke(source.try_post)
        for _ in range(4):
            source.post()
        source.wait_lag()
        faults.disarm()
        source.set.build("resourcelist")
    source.finish()
    assert source.broker.has_said("could not be brought up to date")


# While lists wait for their files, the state goes on: each kind of work has its turn.
# Many lists wait here, and the broker is killed when it files the second one.
def test_folds_while_lists_wait_for_files(source, faults):
    faults.arm(WRITE | SYNC, "/sets/", errno.ENOSPC)
    for _ in range(35):
        source.post()
    source.broker.kill()
    faults.arm(Faults.RENAME, "000000000002.xml.gz", faults.KILL)
    assert source.broker.start_process().wait() == 128 + signal.SIGKILL
    faults.disarm()
    source.check()
    assert source.model.seq > POST
