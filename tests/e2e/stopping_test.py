"""SIGTERM ends `tidings` whatever the other side does: silent, slow or without end."""

import asyncio

import pytest

from tidings_test.servers import Server

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\n\r\n"
    b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
    b'xmlns:rs="http://www.openarchives.org/rs/terms/">'
    b'<rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>'
)
ENTRY = b"<url><loc>http://r.example/%d</loc></url>"


class Peer(Server):
    """Answers each request with a Resource List that does not end."""

    def __init__(self, manner):
        self.manner = manner
        super().__init__()

    async def serve(self, peer):
        await peer.request()
        if self.manner == "silent":
            await peer.gone()
        await peer.send(HEAD)
        n = 0
        while True:
            if self.manner == "slow":
                await peer.send(b" ")
                await asyncio.sleep(0.1)
            else:
                await peer.send(b"".join(ENTRY % i for i in range(n, n + 500)))
                n += 500


COMMANDS = [
    ("sync", "URL", "DIR"),
    ("follow", "URL", "--from-start", "--baseline", "first"),
    ("verify", "URL"),
    ("get", "URL"),
]


@pytest.mark.parametrize("manner", ["silent", "slow", "endless"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_signal_ends_it(start, tmp_path, command, manner):
    peer = Peer(manner)
    names = {"URL": peer.url + "/list.xml", "DIR": tmp_path / "m"}
    program = start("tidings", *(names.get(part, part) for part in command))
    # Of a list `verify` and `get` read the root alone, and end by themselves.
    is_read = manner == "endless" and command[0] in ("sync", "follow")
    peer.connections.wait(2 if is_read else 1)
    if manner != "endless" or is_read:
        program.signal(15)
    program.wait()
    peer.close()
