"""A bad network before a PostgreSQL server, which can end a connection between two
messages of a commit.

    proxy = PostgresqlProxy(lambda: server.socket)
    proxy.cut_turn(TURN, 7)         of the next turn seven messages pass
    proxy.spare_turns() == CUT

A turn is a transaction of a broker; one that only presumes the turn begins in other
words. Its messages, of both ways, are counted from its first, 1, as they pass.
"""

import asyncio
import contextlib

from tidings_test.proxy import RESET, UP, Link, Proxy
from tidings_test.servers import call


TURN = b"BEGIN\0"
PRESUMED = b"START TRANSACTION\0"

PIECE = 16384  # of a large message

# What became of a turn that cut_turn() waited for.
CUT, PASSED = "cut", "passed"


class PostgresqlLink(Link):
    """A connection that passes whole messages."""

    def __init__(self, proxy, peer):
        super().__init__(proxy, peer)
        self._is_begun = False  # the first message to the server has no type

    async def _pass(self, way, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                message, left = await self._read(way, reader)
                await self.wait_way(way)
                if self.proxy.is_cut(self, way, message):
                    return self.end(RESET)
                while message:
                    await self.proxy.pace(way, len(message))
                    await self.wait_way(way)
                    writer.write(message)
                    await writer.drain()
                    self.proxy.passed[way] += len(message)
                    message = await reader.readexactly(min(left, PIECE))
                    left -= len(message)
        writer.write_eof()

    async def _read(self, way, reader):
        """A message: its type, its size without that, the rest, or a piece of that; and
        how many bytes follow."""
        kind = b""
        if way != UP or self._is_begun:
            kind = await reader.readexactly(1)
        else:
            self._is_begun = True
        size = await reader.readexactly(4)
        left = int.from_bytes(size, "big") - 4
        rest = await reader.readexactly(min(left, PIECE))
        return kind + size + rest, left - len(rest)


class PostgresqlProxy(Proxy):
    """Passes messages to the unix socket that find_socket() names; None: the server is
    away. Clients use neither TLS nor GSSAPI."""

    Link = PostgresqlLink

    def __init__(self, find_socket):
        self._find_socket = find_socket
        self._begin = None  # of the turns that are waited for
        self._left = None  # messages of the turn that still pass
        self._turn = None  # the connection that has it
        self._fate = None  # CUT, PASSED
        super().__init__()

    def cut_turn(self, begin, n):
        """Of the next turn that begins so only `n` messages pass; the connection is
        reset then."""
        call(self._set_cut, begin, n)

    def spare_turns(self):
        """Forget cut_turn(). CUT; PASSED: the turn had no more messages; None: there
        was no turn."""
        return call(self._set_cut, None, None)

    def is_cut(self, link, way, message):
        if self._left is None:
            return False
        if way == UP and message[:1] == b"P" and self._begin in message:
            self._turn = link
        if link is not self._turn:
            return False
        if self._left == 0:
            self._fate = CUT
        elif message[:1] == b"Z" and message[5:] == b"I":  # ready, and idle
            self._fate = PASSED
        self._left = None if self._fate else self._left - 1
        return self._fate == CUT

    async def open(self):
        for flow in self._flows.values():
            await flow.wait()  # no connection begins through a stall
        socket = self._find_socket()
        try:
            return await asyncio.open_unix_connection(socket or "/nonexistent")
        except FileNotFoundError:
            raise ConnectionRefusedError from None

    def _set_cut(self, begin, n):
        end = self._fate
        self._begin, self._left, self._turn, self._fate = begin, n, None, None
        return end
