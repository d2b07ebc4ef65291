"""Waiting: for an item that another thread adds to a list, and for a condition that has
to be polled.

Nothing here has a deadline: the watchdog of conftest.py ends a test that waits in
vain, and says what it waited for.
"""

import contextlib
import threading
import time

# The current wait of the test's thread, for the watchdog's message.
_waits = []


def now_waiting_for():
    return ", ".join(map(str, _waits)) or "nothing that is named"


@contextlib.contextmanager
def waiting_for(what):
    """Name what the block waits for. The name may be an object that says what it lacks
    by then."""
    _waits.append(what)
    try:
        yield
    finally:
        _waits.pop()


def wait_for(what, look):
    """Call look() until it returns something true; return that. It waits a tenth of
    the time so far between two looks: a look costs the processors that others wait for.

    For what no event announces: a metric, a file, the answer to a request. Where
    there is an event (a log line, a delivery, an exit, a long poll), wait for it.
    """
    with waiting_for(what):
        began = time.monotonic()
        while not (found := look()):
            time.sleep(min(0.001 + (time.monotonic() - began) / 10, 0.2))
        return found


class Arrivals:
    """A list that grows on another thread while a test waits for an item.

        requests.wait(3)                    the third, once there are three
        requests.find(lambda r: r.last > 7) the first like that, once there is one
        requests.next()                     each in turn
        len(requests), requests[0], [r.id for r in requests]

    `name` says in failures what they are. close() ends all waiting: nothing more
    comes.
    """

    def __init__(self, name):
        self.name = name
        self._items = []
        self._changed = threading.Condition()
        self._closed = None
        self._read = 0

    def add(self, item):
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()

    def close(self, why="it has ended"):
        with self._changed:
            self._closed = why
            self._changed.notify_all()

    def wait(self, n):
        """Return item number n, counted from 1."""
        self._wait(lambda: len(self._items) >= n, f"number {n} of {self.name}")
        return self._items[n - 1]

    def find(self, matches, what=""):
        """Return the first item, of those before too, for which matches(item)."""
        at = 0

        def look():
            nonlocal at
            while at < len(self._items):
                if matches(self._items[at]):
                    return True
                at += 1
            return False

        self._wait(look, f"{what or 'one'} of {self.name}")
        return self._items[at]

    def next(self, matches=lambda item: True, what=""):
        """Return the first item like that behind what next() returned before."""

        def look():
            while self._read < len(self._items):
                self._read += 1
                if matches(self._items[self._read - 1]):
                    return True
            return False

        self._wait(look, f"another, {what or 'any'}, of {self.name}")
        return self._items[self._read - 1]

    def wait_end(self):
        """Wait until nothing more comes."""
        self._wait(lambda: self._closed, f"the end of {self.name}")

    def _wait(self, is_there, what):
        with waiting_for(what), self._changed:
            while not is_there():
                if self._closed:
                    raise AssertionError(f"no {what}, {self._closed}: {self}")
                self._changed.wait()

    def __len__(self):
        return len(self._items)

    def __getitem__(self, i):
        return self._items[i]

    def __iter__(self):
        return iter(list(self._items))

    def __repr__(self):
        shown = "\n  ".join(str(item) for item in self._items[-50:])
        return f"{self.name}, {len(self._items)} so far:\n  {shown}"
