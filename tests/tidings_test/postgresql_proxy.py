"""A bad network before a PostgreSQL server, which can end a connection between two
messages of a commit.

    proxy = PostgresqlProxy(lambda: server.socket)
    proxy.cut_turn(TURN, 7)         of the next turn seven messages pass
    proxy.spare_turns() == CUT

A turn is a transaction of a broker; one that only presumes the turn begins in other
words. Its messages, of both ways, are counted from its first, 1, as they pass.
"""

import asyncio

from tidings_test.proxy import RESET, UP, Link, Proxy
from tidings_test.servers import call


TURN = b"BEGIN\0"
PRESUMED = b"START TRANSACTION\0"

PIECE = 16384  # that passes at once; of a large message, that is looked at

# What became of a turn that cut_turn() waited for.
CUT, PASSED = "cut", "passed"


class PostgresqlLink(Link):
    """A connection that knows where its messages begin. All that has come passes at once,
    for an answer has hundreds of messages; but one by one while a turn may be cut."""

    def __init__(self, proxy, peer):
        super().__init__(proxy, peer)
        self._is_begun = False  # the first message to the server has no type

    async def _pass(self, way, reader, writer):
        held, left = bytearray(), 0  # bytes that came; those that a message still has
        while came := await reader.read(1 << 16):
            held += came
            await self.wait_way(way)
            end = 0  # what may pass
            while end < len(held):
                if left == 0:
                    left = self._size(way, held, end)
                    if not left or self._is_needed(held, end, left):
                        left = 0
                        break
                    if self.proxy.is_cut(self, way, bytes(held[end : end + min(left, PIECE)])):
                        await self._write(way, writer, held[:end])
                        return self.end(RESET)
                    self._is_begun |= way == UP
                size = min(left, len(held) - end)
                end, left = end + size, left - size
                if self.proxy.is_looking:
                    await self._write(way, writer, held[:end])
                    del held[:end]
                    end = 0
            await self._write(way, writer, held[:end])
            del held[:end]
        writer.write_eof()

    def _size(self, way, held, at):
        """The size of the message there; 0: more has to come first."""
        kind = int(way != UP or self._is_begun)
        if len(held) < at + kind + 4:
            return 0
        return kind + int.from_bytes(held[at + kind : at + kind + 4], "big")

    def _is_needed(self, held, at, size):
        """True if the proxy looks into messages, and more of this one has to come."""
        return self.proxy.is_looking and len(held) - at < min(size, PIECE)

    async def _write(self, way, writer, held):
        for at in range(0, len(held), PIECE):
            piece = held[at : at + PIECE]
            await self.proxy.pace(way, len(piece))
            await self.wait_way(way)
            writer.write(piece)
            await writer.drain()
            self.proxy.passed[way] += len(piece)


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

    @property
    def is_looking(self):
        return self._left is not None

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
