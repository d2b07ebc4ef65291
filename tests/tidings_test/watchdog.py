"""The limit of a test: the time in which it could run, so that other work on the machine
does not count (tests/able_time.h says why and how)."""

import signal
import time

import pytest

from tidings_test import waiting

LOOK_S = 5
RESOURCES = ("cpu", "io", "memory")


def stalled_s():
    """Seconds in which something has waited for a resource since the machine began."""
    sum_us = 0
    for resource in RESOURCES:
        try:
            with open(f"/proc/pressure/{resource}", encoding="ascii") as pressure:
                sum_us += int(pressure.readline().rpartition("=")[2])
        except (OSError, ValueError):
            pass  # this kernel does not say
    return sum_us / 1e6


class Watchdog:
    """Fails the test that is still in a `with` block of it after `limit_s`, and then
    again after each `end_s`: what takes its things away may hang, too.

        watchdog = Watchdog(300, 60)
        watchdog.begin()
        with watchdog: ...
    """

    def __init__(self, limit_s, end_s):
        self.limit_s = limit_s
        self.end_s = end_s

    def begin(self):
        """A test begins."""
        self._left_s = self.limit_s
        signal.signal(signal.SIGALRM, self._look)

    def __enter__(self):
        self._seen = time.monotonic(), stalled_s()
        pause_s = min(LOOK_S, self.limit_s)
        signal.setitimer(signal.ITIMER_REAL, pause_s, pause_s)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._count()

    def _count(self):
        """Take off what passed since the last look, at least a tenth of it."""
        before, stalled_before = self._seen
        self._seen = now, stalled = time.monotonic(), stalled_s()
        passed = now - before
        self._left_s -= max(passed - (stalled - stalled_before), passed / 10)

    def _look(self, number, frame):
        self._count()
        if self._left_s <= 0:
            self._left_s = self.end_s
            what = waiting.now_waiting_for()
            pytest.fail(f"no end after {self.limit_s} seconds, waiting for {what}")
