"""A bad network: a TCP proxy before a port that passes bytes until the test orders
trouble.

    def test_something(broker, start_proxy):
        proxy = start_proxy(broker.port)
        ... proxy.url ...
        proxy.cut_after(1000, RESET)
        proxy.ends.wait(1)
        proxy.end_all(CLOSE)
        proxy.refuse(), proxy.listen()      no new connections; and again
        proxy.stall(UP), proxy.go()
    proxy.narrow(1000000), proxy.narrow(None)
        proxy.plan(Fates(choices(), 100000, closes=20, resets=20))

With `tls`, the SSLContext of a server, it is TLS before a server that has none. Up is
to the server, down to the client.
"""

import asyncio
import contextlib
import dataclasses
import random
import socket

from tidings_test.http import set_reset
from tidings_test.servers import Server, call
from tidings_test.waiting import Arrivals, wait_for

CLOSE = "close"  # politely, to both sides
RESET = "reset"  # both sides see a reset
STALL = "stall"  # nothing passes any more, and later both sides see a reset

DOWN = "down"
UP = "up"


@dataclasses.dataclass
class Fates:
    """The fates of new connections, in percent; the proxy spares the rest. Connections
    that are held reach the server after the next connection, or after `hold`
    seconds."""

    chosen: random.Random
    bytes_max: int  # down, before the end; small numbers are likelier
    closes: int = 0
    resets: int = 0
    stalls: int = 0
    holds: int = 0
    stall: float = 0.5  # seconds
    hold: float = 0.05

    def is_held(self):
        return self.chosen.randrange(100) < self.holds

    def draw(self):
        """How many bytes pass down, and how the connection ends then; None: it is
        spared."""
        fate = self.chosen.randrange(100)
        most = self.bytes_max >> self.chosen.randrange(12)
        for how, percent in (
            (CLOSE, self.closes),
            (RESET, self.resets),
            (STALL, self.stalls),
        ):
            if fate < percent:
                return 1 + self.chosen.randint(0, most), how
            fate -= percent
        return None


class Proxy(Server):
    """Passes connections on to a port; point() says it later. `connections` are those
    that clients made, `ends` those that the proxy has made; `passed`, bytes each
    way."""

    def __init__(self, port=None, behind="127.0.0.1", host="127.0.0.1", tls=None):
        self.behind = behind, port
        self.passed = {DOWN: 0, UP: 0}
        self.ends = Arrivals("the ends that the proxy made")
        self._links = set()
        self._cut = {}  # by way: how many bytes pass, and how it ends then
        self._flows = {DOWN: asyncio.Event(), UP: asyncio.Event()}
        self._rate = None  # bytes a second, each way; None: as many as there are
        self._free_at = {DOWN: 0, UP: 0}  # when its last byte has passed, by the loop
        self._fates = None
        self.delay = 0  # seconds until a new connection reaches the server
        self._came = asyncio.Event()  # another connection
        self.go()
        super().__init__(host, tls)

    def point(self, port):
        """New connections go to that port from now on."""
        self.behind = self.behind[0], port

    def end_all(self, how):
        """End all open connections."""
        call(lambda: [link.end(how) for link in list(self._links)])

    def stall(self, way):
        """Nothing passes that way any more, on no connection, until go()."""
        call(self._flows[way].clear)

    def go(self):
        """End all stalls."""
        call(lambda: [flow.set() for flow in self._flows.values()])

    def narrow(self, rate):
        """At most so many bytes a second pass from now on, each way, of all connections
        together, and few wait here; None: as many as there are."""

        def set_rate():
            self._rate = rate
            for link in self._links:
                link.keep_few()

        call(set_rate)

    async def pace(self, way, size):
        """Return when so many bytes have passed."""
        if self._rate:
            now = asyncio.get_running_loop().time()
            self._free_at[way] = max(self._free_at[way], now) + size / self._rate
            await asyncio.sleep(self._free_at[way] - now)

    def cut_after(self, size, how, way=DOWN):
        """Count the bytes that pass that way from now on, on all connections; the
        connection that passes the last of `size` bytes ends. Once."""
        call(self._cut.__setitem__, way, (size, how))

    def plan(self, fates):
        """Set the fates of later connections; None: the proxy spares them."""
        self._fates = fates

    def wait_passed(self, way, size):
        wait_for(f"{size} bytes {way}", lambda: self.passed[way] >= size)

    async def open(self):
        """A connection to the server: its reader and its writer."""
        return await asyncio.open_connection(*self.behind)

    async def serve(self, peer):
        self._came.set()
        link = self.Link(self, peer)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)


class Link:
    """A connection through a proxy; on the servers' thread."""

    def __init__(self, proxy, peer):
        self.proxy = proxy
        self.reader, self.client = peer.reader, peer.writer
        self.server = None
        self.directions = None
        self.fate = None  # how many bytes pass down, and how it ends then
        self.flow = asyncio.Event()
        self.flow.set()

    async def run(self):
        if fates := self.proxy._fates:
            self.fate = fates.draw()
            self.stall = fates.stall
            if fates.is_held():
                self.proxy._came = came = asyncio.Event()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(came.wait(), fates.hold)
        if self.proxy._rate:
            self.keep_few()
        await asyncio.sleep(self.proxy.delay)
        reader, self.server = await self.proxy.open()
        for writer in (self.client, self.server):
            writer.transport.set_write_buffer_limits(high=0)  # drain() sends all
        self.directions = asyncio.gather(
            self._pass(UP, self.reader, self.server),
            self._pass(DOWN, reader, self.client),
        )
        try:
            await self.directions
        except OSError:
            self._shut(RESET)  # the one side's reset is the other's
        finally:
            self._shut(CLOSE)

    async def wait_way(self, way):
        """Return when a piece may pass that way."""
        await self.proxy._flows[way].wait()
        await self.flow.wait()

    def keep_few(self):
        """Let the client see what has passed, and not what waits in a buffer here."""
        peer = self.client.get_extra_info("socket")
        if peer.fileno() < 0:
            return  # it has ended, and is not forgotten yet
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)

    def end(self, how):
        self.proxy.ends.add(how)
        if how == STALL:
            self.flow.clear()
            asyncio.get_running_loop().call_later(self.stall, self._finish, RESET)
        else:
            self._finish(how)

    def _finish(self, how):
        self._shut(how)
        if self.directions:
            self.directions.cancel()

    async def _pass(self, way, reader, writer):
        proxy = self.proxy
        while piece := await reader.read(16384):
            while piece:
                await self.wait_way(way)
                left, how = proxy._cut.get(way, (len(piece), None))
                size = min(left, len(piece))
                if way == DOWN and self.fate:
                    size = min(size, self.fate[0])
                await proxy.pace(way, size)
                writer.write(piece[:size])
                await writer.drain()
                piece = piece[size:]
                proxy.passed[way] += size
                if how:
                    proxy._cut[way] = left - size, how
                    if left == size:
                        del proxy._cut[way]
                        self.end(how)
                if way == DOWN and self.fate:
                    self._pass_fated(size)
        if writer.can_write_eof():
            writer.write_eof()

    def _pass_fated(self, size):
        left, how = self.fate
        self.fate = (left - size, how) if left > size else None
        if not self.fate:
            self.end(how)

    def _shut(self, how):
        for writer in (self.client, self.server):
            if writer and not writer.transport.is_closing():
                if how == RESET:
                    set_reset(writer.get_extra_info("socket"))
                    writer.transport.abort()
                else:
                    writer.close()


Proxy.Link = Link
