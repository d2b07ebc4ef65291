"""The progress bar of `tidings sync`, on a terminal alone."""

import fcntl
import os
import re
import select
import signal
import struct
import termios

import pytest

from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")


class Terminal:
    """The standard error of a sync, a terminal of so many columns."""

    def __init__(self, mirrored, start, columns, *more):
        mirrored.post()
        self.said = ""
        self._master, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        arguments = (mirrored.url, mirrored.directory, *more)
        self.syncing = start("tidings", "sync", *arguments, errors=terminal)
        os.close(terminal)

    def read(self):
        """Wait for more; false: the sync has closed the terminal."""
        try:
            self.said += os.read(self._master, 65536).decode()
        except OSError:  # EIO
            return False
        return True

    def read_what_is_there(self):
        while select.select([self._master], [], [], 0)[0] and self.read():
            pass
        return self.said

    def read_all(self):
        while self.read():
            pass
        os.close(self._master)
        assert self.syncing.wait() == 0
        return self.said


def test_draws_a_bar_on_a_terminal(mirrored, start):
    mirrored.change("/a.txt", "a")
    mirrored.change("/b.txt", "b")
    said = Terminal(mirrored, start, 100, "--until-caught-up").read_all()
    assert "\r[" in said
    assert "of 2 files  " in said
    assert "/s" not in said.partition("\033")[0]  # no rate is known at first
    # The sync erases the bar at the end only, and writes nothing in its place.
    assert said.index("\r\033[K") == len(said) - len("\r\033[K")
    mirrored.check_same()

    # The bar is shorter than a line: a longer one would not be redrawn in place.
    mirrored.change("/c.txt", "c")
    said = Terminal(mirrored, start, 20, "--until-caught-up").read_all()
    bars = re.findall(r"\r([^\r\033]*)", said)
    assert bars and all(len(bar) < 20 for bar in bars)


# One file is held back while others come: the bar shows the rate and the remaining
# time.
def test_shows_the_rate_and_the_time_left(mirrored, start):
    mirrored.site.hold("/last.txt")
    mirrored.change("/last.txt", "last")
    terminal = Terminal(mirrored, start, 100)
    n = 0

    def look():
        nonlocal n
        n += 1
        mirrored.change("/a.txt", str(n))
        mirrored.post()
        return " left\033" in terminal.read_what_is_there()

    wait_for("a rate, and the time left", look)
    assert "B/s  " in terminal.said
    mirrored.site.release("/last.txt")
    terminal.syncing.signal(signal.SIGTERM)
    terminal.read_all()


def test_draws_nothing_elsewhere(mirrored):
    mirrored.change("/a.txt", "a")
    assert mirrored.sync().errors() == ""
