"""The progress bar of `tidings sync`, on a terminal alone."""

import re
import signal

import pytest

from tidings_test.terminal import Terminal, bars_of
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")


def sync_on_terminal(mirrored, start, columns, *more):
    """A sync whose standard error is a terminal of so many columns."""
    mirrored.post()
    return Terminal(start, columns, "sync", mirrored.url, mirrored.directory, *more)


def test_draws_a_bar_on_a_terminal(mirrored, start):
    mirrored.change("/a.txt", "a")
    mirrored.change("/b.txt", "b")
    said = sync_on_terminal(mirrored, start, 100, "--until-caught-up").read_all()
    assert "\r[" in said
    assert "of 2 files  " in said
    assert "/s" not in bars_of(said)[0]  # no rate is known at first
    # The sync erases the bar at the end, and writes nothing in its place.
    assert re.search(r"\r +\r$", said)
    mirrored.check_same()

    # The bar is shorter than a line: a longer one would not be redrawn in place.
    mirrored.change("/c.txt", "c")
    said = sync_on_terminal(mirrored, start, 20, "--until-caught-up").read_all()
    assert bars_of(said) and all(len(bar) < 20 for bar in bars_of(said))


# One file is held back while others come: the bar shows the rate and the remaining
# time.
def test_shows_the_rate_and_the_time_left(mirrored, start):
    mirrored.site.hold("/last.txt")
    mirrored.change("/last.txt", "last")
    terminal = sync_on_terminal(mirrored, start, 100)
    n = 0

    def look():
        nonlocal n
        n += 1
        mirrored.change("/a.txt", str(n))
        mirrored.post()
        return " left" in terminal.read_what_is_there()

    wait_for("a rate, and the time left", look)
    assert "B/s  " in terminal.said
    mirrored.site.release("/last.txt")
    terminal.process.signal(signal.SIGTERM)
    terminal.read_all()


def test_draws_nothing_elsewhere(mirrored):
    mirrored.change("/a.txt", "a")
    assert mirrored.sync().errors() == ""
