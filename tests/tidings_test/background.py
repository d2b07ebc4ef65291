"""Work that a test does on another thread, beside its own.

    def test_something(news, broker, background):
        posting = background(post_a_lot, broker.client(), news)
        while posting.is_running:
            ...
        assert posting.join() == 17         what the function returned

A failure there fails the test, at join() or at its end. A client belongs to one thread:
give it one of its own (broker.client()). Programs are started on the main thread.
"""

import threading

from tidings_test.waiting import waiting_for


class Background:
    """A function that runs on a thread of its own."""

    def __init__(self, function, *arguments, **keywords):
        self.name = function.__name__
        self.result = None
        self.failure = None
        self._call = lambda: function(*arguments, **keywords)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self):
        return self._thread.is_alive()

    def join(self):
        """Wait until it has returned, and return what it returned."""
        with waiting_for(f"the end of {self.name}"):
            self._thread.join()
        failure, self.failure = self.failure, None
        if failure:
            raise failure
        return self.result

    end = join

    def _run(self):
        try:
            self.result = self._call()
        except BaseException as failure:  # join() raises it
            self.failure = failure
