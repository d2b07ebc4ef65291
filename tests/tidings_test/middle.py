"""Proxies of the test's own before a broker, each with a habit that proxies have.

    proxy = Middle(broker, habit)           one of HABITS
    proxy.url
    proxy.cut(), proxy.restart()            as of frontends: all connections break, nobody listens
    proxy.end()

Each connection of a client carries one request. Its answer passes piece by piece, as it comes;
where the broker does not answer, the proxy does, with 502.
"""

import asyncio
import dataclasses

from tidings_test.http import Head
from tidings_test.servers import Server
from tidings_test.waiting import Arrivals

# Fields of RFC 9110 and 9111 that a proxy with a list of them knows. It has none of WebSocket, of
# server-sent events, of links or of idempotency.
KNOWN_FIELDS = frozenset(
    """
    accept accept-encoding accept-language accept-ranges age allow authorization
    cache-control content-encoding content-language content-length content-range content-type
    cookie date etag expect expires host if-match if-modified-since if-none-match
    if-range if-unmodified-since last-modified location range retry-after server set-cookie
    transfer-encoding user-agent vary www-authenticate
    """.split()
)
HOP_BY_HOP = frozenset("connection keep-alive proxy-connection te trailer upgrade".split())


@dataclasses.dataclass(frozen=True)
class Habit:
    """`version` is that of both messages; `upgrades`: Upgrade passes, and what it leads to;
    `known`: the only fields that pass; `idle`: seconds without a byte after which a connection is
    closed without a word."""

    version: str = "1.1"
    upgrades: bool = False
    known: frozenset | None = None
    idle: float | None = None


HABITS = {
    "HTTP/1.0": Habit(version="1.0"),
    "drops Upgrade": Habit(),
    "drops unknown fields": Habit(known=KNOWN_FIELDS),
    "cuts idle connections": Habit(upgrades=True, idle=1),  # others wait for 5 seconds and more
}

BAD_GATEWAY = (
    b"HTTP/%s 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 16\r\n"
    b"Connection: close\r\n\r\n<p>Bad gateway.\n"
)


class Middle(Server):
    """A proxy with that habit. `cuts` counts the connections that it found idle; `refused` are the
    requests that it answered itself, because the broker was away."""

    def __init__(self, broker, habit):
        self.broker = broker
        self.habit = habit
        self.cuts = 0
        self.refused = Arrivals("requests while the broker is away")
        super().__init__()

    def cut(self):
        self.go_down()

    def restart(self):
        self.listen()

    async def serve(self, peer):
        request = await peer.head()
        if request:
            await Exchange(self, peer, request).run()


class Exchange:
    """A request on its way to the broker, and the answer back."""

    def __init__(self, proxy, peer, request):
        self.proxy = proxy
        self.habit = proxy.habit
        self.peer = peer
        self.request = request
        self.is_upgrade = proxy.habit.upgrades and bool(request["Upgrade"])
        self.passed = asyncio.Event()

    async def run(self):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.broker.port)
        except OSError:
            self.proxy.refused.add(self.request)
            await self.peer.send(BAD_GATEWAY % self.habit.version.encode())
            return
        try:
            line = f"{self.request.method} {self.request.target} HTTP/{self.habit.version}"
            writer.write(self.head(line, self.request))
            ways = [self.answer(reader), self.carry(self.peer.reader, writer)]
            if self.habit.idle:
                ways.append(self.watch())
            await first_of(ways)
        finally:
            writer.close()

    def head(self, line, head):
        """A head as it leaves the proxy."""
        fields = [line]
        for name, value in head.headers:
            if self.is_upgrade or self.lets_through(name.lower()):
                fields.append(f"{name}: {value}")
        if not self.is_upgrade:
            fields.append("Connection: close")
        return "\r\n".join([*fields, "\r\n"]).encode("latin-1")

    def lets_through(self, name):
        known = self.habit.known
        return name not in HOP_BY_HOP and (known is None or name in known)

    async def answer(self, reader):
        head = Head(await reader.readuntil(b"\r\n\r\n"))
        _, _, rest = head.first_line.partition(" ")
        await self.peer.send(self.head(f"HTTP/{self.habit.version} {rest}", head))
        self.passed.set()
        await self.carry(reader, self.peer.writer)

    async def carry(self, reader, writer):
        while piece := await reader.read(65536):
            writer.write(piece)
            await writer.drain()
            self.passed.set()

    async def watch(self):
        """Return when nothing has passed for too long."""
        while True:
            self.passed.clear()
            try:
                await asyncio.wait_for(self.passed.wait(), self.habit.idle)
            except asyncio.TimeoutError:
                self.proxy.cuts += 1
                return


async def first_of(ways):
    """Run them until one has ended."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
