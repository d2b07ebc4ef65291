"""The surroundings of a kept broker: callbacks, topics and files of others.

The data have the URLs of these, so they need one address for ever. HOST is a loopback
address that no other test uses, and PORT is below the ports that a kernel assigns: in a
network of its own a test always gets the address. In the network of the machine only
another run of the same test can have it, and is waited for. (A name instead of HOST
would need a resolver; the port would be fixed all the same. A test that replaced URLs
in hub.db would not test what the old broker wrote.)
"""

import errno

from tidings_test.callbacks import Callback, Callbacks
from tidings_test.waiting import Arrivals, wait_for

HOST = "127.77.1.1"
PORT = 8477
URL = f"http://{HOST}:{PORT}"


class Surroundings(Callbacks):
    """Callbacks, and pages, at that address."""

    def __init__(self):
        self.pages = {}  # by target
        super().__init__(HOST)

    def page(self, target, status=200, headers="", body=""):
        """A page of others: a topic, a file, another hub."""
        self.pages[target] = Page(self, target, status, headers, body)
        return self.pages[target]

    def listen(self):
        self.port, self.url = PORT, URL
        wait_for(f"{URL} to be free", self._try_to_listen)

    def _try_to_listen(self):
        try:
            super().listen()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        return True

    def find(self, request):
        if request.target in self.pages:
            return self.pages[request.target], "page", ""
        return super().find(request)


class Page(Callback):
    """A page, which answers every method alike; `requests` are the received ones."""

    def __init__(self, server, target, status, headers, body):
        super().__init__(server, target)
        self.status = status
        self.headers = headers
        self.body = body
        self.requests = self.verifications = Arrivals(f"the requests for {target}")

    def behaviour(self, kind):
        return self._answer

    async def _answer(self, exchange):
        await exchange.read()
        text = exchange.head(self.status, self.headers, self.body)
        if exchange.request.method == "HEAD":
            text = text.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        await exchange.send(text)
