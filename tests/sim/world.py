"""world.py - the operator of a simulated world (world.h): starts, stops and kills its processes, lets them run for so many steps,
cuts connections, takes the power away, and reads the trace."""

import ctypes
import mmap
import os
import random
import shutil
import signal
import time
from pathlib import Path

from sim import disk
from tidings_test import fork_server
from tidings_test.process import LEASH

PORTS, TASKS, LINKS, PROCESSES, TRACE = 65536, 512, 16384, 512, 4096
NEVER = 2**63 - 1
RUNS = 1
LIMIT, STILL, EXIT = 1, 2, 3
SECOND = 10**9
PERSONALITY = 0x0040000  # ADDR_NO_RANDOMIZE
REAL_S = 60  # longest time of this machine's that a start or a step may take
START_S = 1_790_000_000  # the day on which each story begins

u32, u64, i64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64


class Task(ctypes.Structure):
    _fields_ = [("turn", u32), ("state", u32), ("process", u32), ("woken", u32), ("key", u64), ("until_ns", i64), ("interest", u64), ("seen", u64)]


class Link(ctypes.Structure):
    _fields_ = [("port", u32), ("process", u32 * 2), ("is_cut", u32), ("is_silent", u32), ("visible_ns", i64 * 2)]


class Process(ctypes.Structure):
    _fields_ = [("state", u32), ("is_full", u32), ("failing", u64), ("still_ns", i64)]


class Event(ctypes.Structure):
    _fields_ = [("ns", i64), ("task", u32), ("process", u32), ("what", ctypes.c_char * 24), ("number", i64)]


class Shared(ctypes.Structure):
    _fields_ = [
        ("random", u64 * 2),
        ("now_ns", i64),
        ("offset_ns", i64),
        ("drift", i64),
        ("limit_ns", i64),
        ("limit", u64),
        ("steps", u64),
        ("hash", u64),
        ("events", u64),
        ("turn", u32),
        ("end", u32),
        ("exiting", u32),
        ("n_links", u32),
        ("n_tasks", u32),
        ("switches", u32),
        ("shorts", u32),
        ("delay_ns", i64),
        ("tick_ns", i64),
        ("name", u32),
        ("tasks", Task * TASKS),
        ("links", Link * LINKS),
        ("processes", Process * PROCESSES),
        ("trace", Event * TRACE),
    ]


class Hangs(Exception):
    """A process holds the baton and takes no step."""


class Party:
    """A process of the world."""

    def __init__(self, number, name, child, disk, out, err):
        self.number, self.name, self.child, self.disk, self.out, self.err = number, name, child, disk, out, err
        self.status = None

    @property
    def is_over(self):
        return self.status is not None

    def output(self):
        return self.out.read_text(errors="replace")

    def errors(self):
        return self.err.read_text(errors="replace")


def prepare(library):
    """Of this process: its programs have the library, and the same addresses in each run. A start is a fork (fork_server.py)."""
    ctypes.CDLL(None).personality(PERSONALITY)
    fork_server.LIBRARY = f"{fork_server.LIBRARY}:{library}"


class World:
    """A world in `folder`, which is empty. `library`: libworld.so."""

    def __init__(self, folder, library, seed):
        self.folder = Path(folder)
        self.library = str(library)
        self.dice = random.Random(seed)
        self.parties = {}
        self.n_started = 0
        self.told = []  # what the operator did: (step, text)
        self.folder.mkdir()
        path = self.folder / "world"
        path.write_bytes(b"")
        os.truncate(path, ctypes.sizeof(Shared))
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.path = path
        self.shared = Shared.from_buffer(self.map)
        self.calls = ctypes.CDLL(self.library)
        self.calls.world_run.argtypes = [ctypes.c_void_p, u64, i64]
        self.calls.world_await.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.calls.world_forget.argtypes = [ctypes.c_void_p, u32]
        assert ctypes.sizeof(Shared) == self.calls.world_size(), "struct world of world.h is another one"
        s = self.shared
        s.random[0], s.random[1] = self.dice.getrandbits(64), self.dice.getrandbits(64) | 1
        s.now_ns = 1000 * SECOND
        s.offset_ns = (START_S - 1000) * SECOND
        s.switches = self.dice.choice([2, 4, 16, 64])
        s.shorts = self.dice.choice([0, 4, 32])
        s.delay_ns = self.dice.choice([0, 10**5, 10**7, 10**8])
        s.tick_ns = self.dice.choice([200, 2000, 20000])
        s.name = os.getpid()
        self.disks = {}

    # Processes

    def disk(self, name):
        """The folder of a machine's disk."""
        if name not in self.disks:
            self.disks[name] = disk.Disk(self.folder / name)
        return self.disks[name]

    def start(self, name, command, disk_name, stdin=None, env=None):
        self.n_started += 1
        number = self.n_started
        out, err = self.folder / f"{number}-{name}.out", self.folder / f"{number}-{name}.err"
        one = self.disk(disk_name)
        everything = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(one.folder),
            "LANG": "C.UTF-8",
            "WORLD": str(self.path),
            "WORLD_PROCESS": str(number),
            "WORLD_DISK": str(one.folder),
            "WORLD_JOURNAL": str(one.journal),
            **(env or {}),
        }
        if not fork_server.is_ours(str(command[0])):
            everything["LD_PRELOAD"] = self.library
        with out.open("wb") as to, err.open("wb") as wrong, open(stdin or os.devnull, "rb") as source:
            child = fork_server.start(LEASH, list(map(str, command)), everything, stdin=source, stdout=to, stderr=wrong, cwd=one.folder)
        party = Party(number, name, child, one, out, err)
        self.parties[number] = party
        give_up = time.monotonic() + REAL_S
        while self.shared.processes[number].state != RUNS:
            if child.poll() is not None or time.monotonic() > give_up:
                raise Hangs(f"{name} did not begin: {party.errors()}")
            time.sleep(0.0002)
        self.tell(f"starts {name}")
        return party

    def ended(self, party):
        party.status = party.child.wait()
        self.calls.world_forget(ctypes.addressof(self.shared), party.number)
        self.tell(f"{party.name} ended: {party.status}")

    def kill(self, party, number=signal.SIGKILL):
        if party.is_over:
            return
        self.tell(f"sends {signal.Signals(number).name} to {party.name}")
        status = Path(f"/proc/{party.child.pid}/status").read_text()
        masks = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
        party.child.send_signal(number)
        if number == signal.SIGKILL or not any(mask >> (number - 1) & 1 for mask in masks):
            self.ended(party)
        else:
            self.shared.events += 1

    def tell(self, text):
        self.told.append((self.shared.steps, text))

    # Time

    def run(self, steps=10**9, seconds=None, until=None):
        """Lets the world go on; returns the reason why it stands: LIMIT, STILL, or `until` came true, which is asked whenever a process
        ends and every 500 steps."""
        s = self.shared
        last_step = s.steps + steps
        last_ns = NEVER if seconds is None else s.now_ns + int(seconds * SECOND)
        while True:
            left = last_step - s.steps
            ns = NEVER if last_ns == NEVER else max(0, last_ns - s.now_ns)
            if left <= 0 or ns == 0:
                return LIMIT
            end = self.calls.world_run(ctypes.addressof(s), min(left, 500) if until else left, ns) or self.stands()
            if end == EXIT:
                self.ended(self.parties[s.exiting])
            elif end == STILL:
                return STILL
            if until and until():
                return LIMIT

    def stands(self):
        """Returns why the world stands, when it does."""
        steps, began = None, time.monotonic()
        while True:
            end = self.calls.world_await(ctypes.addressof(self.shared), 200)
            if end:
                return end
            for party in self.parties.values():
                if not party.is_over and party.child.poll() is not None:
                    end = self.calls.world_await(ctypes.addressof(self.shared), 0)
                    if end:
                        return end  # it has just ended as it should
                    raise Hangs(f"{party.name} died with {party.child.returncode}: {party.errors()[-2000:]}")
            if self.shared.steps != steps:
                steps, began = self.shared.steps, time.monotonic()
            elif time.monotonic() > began + REAL_S:
                raise Hangs(f"no step within {REAL_S} seconds; the last one was {self.trace(1)[0]}")

    # Accidents

    def links(self, party):
        found = self.shared.links[1 : self.shared.n_links + 1]
        return [x for x in found if party.number in x.process and not x.is_cut and x.port < PORTS]

    def cut(self, party):
        """Resets all connections of a process."""
        found = self.links(party)
        for link in found:
            link.is_cut = 1
        self.shared.events += 1
        self.tell(f"cuts {len(found)} connections of {party.name}")

    def silence(self, party):
        """What its connections carry from now on comes nowhere."""
        found = self.links(party)
        for link in found:
            link.is_silent = 1
        self.tell(f"silences {len(found)} connections of {party.name}")

    def lose_power(self, disk_name):
        """All processes of a machine end, and its disk keeps what was durable, and a part of the rest."""
        one = self.disk(disk_name)
        for party in self.parties.values():
            if party.disk is one:
                self.kill(party)
        self.tell(f"{disk_name} loses power: " + one.lose_power(self.dice))

    def __enter__(self):
        return self

    def __exit__(self, *how):
        for party in self.parties.values():
            if not party.is_over:
                party.child.kill()
                party.child.wait()
        shutil.rmtree(self.folder)

    # The story

    def trace(self, n):
        """The last steps, in words."""
        s = self.shared
        lines = []
        acts = list(self.told)
        for i in range(max(0, s.steps - min(n, TRACE)), s.steps):
            while acts and acts[0][0] <= i:
                act = acts.pop(0)
                if act[0] > s.steps - n:
                    lines.append(f"{act[0]:>9}                    operator {act[1]}")
            e = s.trace[i % TRACE]
            name = self.parties[e.process].name if e.process in self.parties else "?"
            lines.append(f"{i:>9} {(e.ns - 1000 * SECOND) / SECOND:>14.6f} s  {name}.{e.task}: {e.what.decode()} {e.number}")
        return lines + [f"{step:>9}                    operator {text}" for step, text in acts if step >= s.steps - n]
