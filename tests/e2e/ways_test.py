"""tidings follow against a real broker, with proxies in between that let through only a
part; and its actions for a change."""

import asyncio

import pytest

from tidings_test.servers import Server

WAYS = ("websocket", "events", "longpoll", "poll")


class Gate(Server):
    """A proxy that does not let all of HTTP through, before the port `behind`. With
    "upgrade" among `stops` it answers upgrades with a page of its own; with "events"
    it hangs up on event streams, behind their heads. `asked` counts both."""

    def __init__(self):
        self.behind = None
        self.stops = ()
        self.asked = {"upgrade": 0, "events": 0}
        super().__init__()

    async def serve(self, peer):
        request = await peer.head()
        if not request:
            return
        is_upgrade = bool(request["Upgrade"])
        is_events = "text/event-stream" in (request["Accept"] or "")
        self.asked["upgrade"] += is_upgrade
        self.asked["events"] += is_events
        if is_upgrade and "upgrade" in self.stops:
            await peer.send(
                b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n"
                b"Content-Length: 9\r\nConnection: close\r\n\r\n<p>what?\n"
            )
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", self.behind)
        try:
            first, rest = request.head.split(b"\r\n", 1)
            last = b"" if is_upgrade else b"Connection: close\r\n"
            writer.write(first + b"\r\n" + last + rest)
            if is_events and "events" in self.stops:
                await peer.send(await reader.readuntil(b"\r\n\r\n"))
                return
            ways = [
                asyncio.create_task(carry(peer.reader, writer)),
                asyncio.create_task(carry(reader, peer.writer)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            writer.close()


async def carry(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@pytest.fixture
def gate():
    server = Gate()
    yield server
    server.end()


@pytest.fixture
def news(start_broker, gate):
    """A set behind the gate."""
    broker = start_broker("--rotate-entries", "5", "--public-url", gate.url)
    gate.behind = broker.port
    return broker.set("news")


@pytest.fixture
def follow(start, news, gate):
    """follow("--verbose"): follows the set through the gate, from the start."""

    def start_following(*options, from_start=True):
        first = ("--from-start",) if from_start else ()
        url = f"{gate.url}{news.path}"
        return start("tidings", "follow", url, *first, *options)

    return start_following


def end(following, status=0):
    """Wait for its end; the seqs of its lines."""
    assert following.wait() == status, following.errors()
    return [int(line.split()[0]) for line in following.out]


# a proxy that knows no WebSockets, and one that ends event streams as well: the
# changes come by the remaining transport, each once.
@pytest.mark.parametrize("stops", [("upgrade",), ("upgrade", "events")])
def test_finds_a_way_past_what_stands_between(news, gate, follow, tmp_path, stops):
    gate.stops = stops
    news.post(7)
    following = follow("--state", tmp_path / "state", "--verbose")
    following.out.wait(7)
    news.post(3)
    following.out.wait(10)
    following.signal(15)
    assert end(following) == list(range(1, 11))
    assert following.err[0].startswith("tidings: no WebSocket here: 400")
    assert gate.asked["upgrade"] == 1
    if "events" in stops:
        assert "no server-sent events here" in following.errors()
    else:
        assert gate.asked["events"] == 1


# every transport carries the same changes, live and missed ones.
def test_each_way_carries_all_changes(news, follow):
    news.post(12)
    for last, way in enumerate(WAYS, 13):
        following = follow("--transport", way, "--poll", "0.2")
        following.out.wait(last - 1)
        news.post()
        following.out.wait(last)
        following.signal(15)
        assert end(following) == list(range(1, last + 1))
        assert not following.errors()


# It ends after the existing changes; and at once if there are no more.
def test_ends_when_it_has_caught_up(news, follow, tmp_path):
    state = ("--until-caught-up", "--state", tmp_path / "state")
    news.post(12)
    assert end(follow(*state)) == list(range(1, 13))
    assert end(follow(*state, from_start=False)) == []
    # Also where the last ones do not pass.
    nowhere = ("--prefix", "http://nowhere.example/")
    assert end(follow("--until-caught-up", *nowhere)) == []
    for way in WAYS:
        following = follow("--until-caught-up", "--transport", way)
        assert end(following) == list(range(1, 13))


# The command gets the change; if it fails, the position stays before the change, and
# the command is run again.
def test_a_command_is_run_for_each_change(news, follow, tmp_path):
    state = tmp_path / "state"
    epoch = news.post(3).epoch
    options = ("--until-caught-up", "--state", state, "--exec")
    following = follow(
        *options,
        'cat; echo "$TIDINGS_SEQ $TIDINGS_CHANGE $TIDINGS_POSITION"; '
        "test $TIDINGS_SEQ != 3",
    )
    assert following.wait() == 1
    assert all(line.startswith('{"loc":"http') for line in following.out[::2])
    said = [f"{seq} created {epoch}-{seq}" for seq in (1, 2, 3)]
    assert following.out[1::2] == said
    failed = "tidings: the command failed with status 1 at http://"
    assert failed in following.errors()
    assert state.read_text() == f"{epoch}-2\n"

    # A command that reads nothing.
    following = follow(*options, "echo again $TIDINGS_SEQ")
    assert following.wait() == 0
    assert list(following.out) == ["again 3"]
    assert state.read_text() == f"{epoch}-3\n"
