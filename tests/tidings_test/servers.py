"""Servers that a test plays: callbacks, web sites, proxies. All of them run on one
thread with an event loop (asyncio); a test's own thread waits and looks.

    class Greeter(Server):
        async def serve(self, peer):
            while request := await peer.request():
                await peer.send(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi")
"""

import asyncio
import functools
import socket
import threading
import time

from tidings_test.http import Head, keep_port, set_reset
from tidings_test.waiting import Arrivals

HEAD_MAX = 65536


@functools.cache
def _loop():
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def run(coroutine):
    """Run it on the servers' thread; its result."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()


def call(function, *arguments):
    """Call a plain function on the servers' thread; its result."""

    async def calling():
        return function(*arguments)

    return run(calling())


class Request(Head):
    """A request as a server got it. `body` is None where not all of it came;
    `peer` is the number of its connection, from 1; `at` is the steady clock's."""

    def __init__(self, head, peer):
        super().__init__(head)
        self.method, self.target, self.version = self.first_line.split(" ")
        self.peer = peer
        self.body = None
        self.at = time.monotonic()

    def __repr__(self):
        size = "not whole" if self.body is None else f"{len(self.body)} bytes"
        return f"connection {self.peer}: {self.method} {self.target}, {size}"


class Peer:
    """A connection that a server took."""

    def __init__(self, server, reader, writer, number):
        self.server = server
        self.reader = reader
        self.writer = writer
        self.number = number

    async def head(self):
        """The next request, its body still to be read; None: the peer has ended."""
        try:
            return Request(await self.reader.readuntil(b"\r\n\r\n"), self.number)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def body(self, request, piece=None, pause=0.0):
        """Read the request's body; a few bytes at a time with a `piece`."""
        assert request["Transfer-Encoding"] is None, request
        size = int(request["Content-Length"] or 0)
        if request["Expect"] == "100-continue":
            await self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = b""
        while piece and len(body) < size - piece:
            body += await self.reader.readexactly(piece)
            await asyncio.sleep(pause)
        request.body = body + await self.reader.readexactly(size - len(body))

    async def request(self):
        """The next request with its body; None: the peer has ended."""
        request = await self.head()
        if request:
            await self.body(request)
        return request

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self):
        """Wait until the peer ends the connection."""
        while await self.reader.read(65536):
            pass

    def reset(self):
        set_reset(self.writer.get_extra_info("socket"))
        self.writer.transport.abort()

    def close(self):
        self.writer.close()


class Server:
    """Listens at `host`, a loopback address, on a port of its own."""

    def __init__(self, host="127.0.0.1", tls=None):
        self.host = host
        self.tls = tls
        self.port, self._keeper = keep_port()
        name = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{name}:{self.port}"
        self.peers = set()
        self.connections = Arrivals(f"the connections to {self.url}")
        self._tasks = set()
        self._faults = []
        self._server = None
        self.listen()

    async def serve(self, peer):
        """Serve a connection; it is closed when this returns."""
        raise NotImplementedError

    def listen(self):
        """Accept connections."""
        self._server = run(
            asyncio.start_server(
                self._accept,
                self.host,
                self.port,
                reuse_address=True,
                backlog=socket.SOMAXCONN,
                limit=HEAD_MAX,
                ssl=self.tls,
            )
        )

    def refuse(self):
        """Refuse new connections until listen(); open ones stay."""
        call(self._server.close)

    def go_down(self):
        """Refuse new connections, and reset the open ones."""
        self.refuse()
        call(self._reset_all)

    def close(self):
        """End it with all connections. Fails if serve() has."""
        run(self._end())
        self._keeper.close()
        assert not self._faults, self._faults

    end = close

    def _reset_all(self):
        for peer in list(self.peers):
            peer.reset()

    async def _end(self):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader, writer):
        peer = Peer(self, reader, writer, len(self.connections) + 1)
        self.connections.add(peer.number)
        self.peers.add(peer)
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self.serve(peer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as fault:  # the test's thread reports it
            self._faults.append(repr(fault))
        finally:
            self._tasks.discard(task)
            self.peers.discard(peer)
            peer.close()
