"""Programs that meet faults: a disk that fails at the n-th call, a kill there, a disk
without room, memory that ends, a clock that is set, a limit of open files.

    def test_something(faults, start_broker):
        broker = start_broker(env=faults.env)
        faults.arm(faults.SYNC, "tidings.db-wal", errno.EIO)
        ... its next commit fails ...
        faults.disarm()

The broker is unchanged; a library is loaded before it (tests/faults/faults.c). An armed
fault holds for all brokers that were started with faults.env.
"""

import ctypes
import mmap
import os
import pathlib
import re

from tidings_test.broker import BIN
from tidings_test.waiting import wait_for

LIBRARY = pathlib.Path(
    os.environ.get("TIDINGS_FAULTS_LIBRARY", BIN.parent / "tests/libfaults.so")
)


# What tidingsd says at last if there is no memory for a block of fewer bytes than SMALL:
# it ends with 1 then.
NO_MEMORY = re.compile(r"tidingsd: there is no memory for (\d+) bytes: it ends here")
SMALL = 65536


def revive(broker):
    """Start the broker again if it has ended because there was no memory for a small
    block; True if so. Else it has to run."""
    if broker.is_running:
        return False
    assert broker.wait() == 1
    # Another thread may write a line before the process is gone.
    sizes = [
        int(found[1])
        for line in broker.process.errors().splitlines()
        if (found := NO_MEMORY.fullmatch(line))
    ]
    assert sizes and sizes[-1] < SMALL, broker.process.errors()
    broker.disconnect()
    broker.restart()
    return True


def settle(broker, faults):
    """Return when the broker answers, perhaps after a revive(); True if after one."""
    n = [0]
    if faults.ends(broker):
        broker.wait()

    def look():
        n[0] += revive(broker)
        return broker.is_answering()

    wait_for(f"an answer of {broker}", look)
    return n[0] > 0


class Plan(ctypes.Structure):
    """struct plan of tests/faults/plan.h."""

    _fields_ = [
        ("name", ctypes.c_char * 64),
        ("calls", ctypes.c_int32),
        ("outcome", ctypes.c_int32),
        ("is_once", ctypes.c_int64),
        ("n_files", ctypes.c_int64),
        ("least_bytes", ctypes.c_int64),
        ("skip", ctypes.c_int32),
        ("n_met", ctypes.c_int32),
        ("is_armed", ctypes.c_int32),
        ("clock_us", ctypes.c_int64),
        ("disk_bytes", ctypes.c_int64),
        ("passed_s", ctypes.c_int64),
        ("is_still", ctypes.c_int64),
        ("small_pid", ctypes.c_int64),
    ]


class Faults:
    # Calls; to be added up.
    WRITE = 1  # write, pwrite; of sockets, too: "socket:"
    SYNC = 2  # fsync, fdatasync
    RENAME = 4  # counts by the new name
    SEND = 8  # send, of sockets: "socket:"
    DUP = 16  # fcntl with F_DUPFD_CLOEXEC
    MEMORY = 32  # malloc and its kin, by the program's own code; no name

    # The effect on a call, besides an errno as its result.
    KILL = -1  # SIGKILL to the process, in place of the call
    SHORT = -2  # half of the bytes are written, and that is returned
    HANG = -3  # it waits until the fault is disarmed
    TAKE = -4  # of DUP: a file takes the lowest descriptor first

    def __init__(self, directory):
        path = pathlib.Path(directory) / "faults"
        path.write_bytes(bytes(ctypes.sizeof(Plan)))
        self._file = open(path, "r+b")
        self._memory = mmap.mmap(self._file.fileno(), 0)
        self._plan = Plan.from_buffer(self._memory)
        # The sanitizers want to be the first library.
        asan = os.environ.get("ASAN_OPTIONS", "")
        assert LIBRARY.exists(), f"{LIBRARY} is not built"
        self._disarm = ctypes.CDLL(str(LIBRARY)).plan_disarm
        self._disarm.restype = ctypes.c_bool
        self._is_once = False
        self.env = {
            "LD_PRELOAD": str(LIBRARY),
            "TIDINGS_FAULTS": str(path),
            "ASAN_OPTIONS": f"{asan}:verify_asan_link_order=0",
        }

    def arm(self, calls, name, outcome, after=0, once=False, least_bytes=0):
        """`after` calls of these kinds on files with `name` in their path succeed,
        then all meet `outcome`; with `once`, only one does. Allocations of fewer than
        `least_bytes` are not counted, and succeed."""
        self.disarm()
        plan = self._plan
        plan.name = name.encode()
        plan.calls = calls
        plan.outcome = outcome
        plan.is_once = self._is_once = once
        plan.least_bytes = least_bytes
        plan.skip = after
        plan.n_met = plan.small_pid = 0
        plan.is_armed = 1

    def disarm(self):
        """All is well again; how many calls have met the fault."""
        was_armed = self._disarm(ctypes.byref(self._plan))
        if self._is_once and not was_armed:
            self.wait()
        self._is_once = False
        return self.met

    @property
    def met(self):
        """How many calls have met the fault so far."""
        return self._plan.n_met

    def ends(self, broker):
        """Whether the broker had no memory for a small block. It ends then, but its
        other threads may answer once more."""
        return self._plan.small_pid == broker.process.popen.pid

    @property
    def left(self):
        """How many calls there are before the first that meets it."""
        return self._plan.skip

    def wait(self):
        """Wait until a call has met the fault."""
        wait_for("a call that meets the fault", lambda: self.met)

    def provoke(self, work):
        """Call work() until a call meets the fault."""

        def look():
            work()
            return self.met

        wait_for("a call that meets the fault", look)

    def set_clock(self, seconds):
        """The clock of the day is from now on this far from the truth."""
        self._plan.clock_us = int(seconds * 1000000)

    def pass_time(self, seconds):
        """So many whole seconds pass at once, by the clock that measures patience. Waits
        that have begun are as long as before."""
        self._plan.passed_s += seconds

    def stop_time(self):
        """No time passes any more, by the clock that measures patience: programs that
        look again and again do so without end."""
        self._plan.is_still = 1

    def set_disk(self, size):
        """Disks have so many bytes free from now on; 0: as many as they have."""
        self._plan.disk_bytes = size

    def limit_files(self, n):
        """Brokers that start from now on may have so many files open; 0: as many as
        the test itself."""
        self._plan.n_files = n
