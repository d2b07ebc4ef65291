"""tidings follow against a real broker, with proxies in between that let through only a
part; and its actions for a change."""

import asyncio
import re

import pytest

from tidings_test.servers import Server
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

WAYS = ("websocket", "events", "longpoll", "poll")


class Gate(Server):
    """A proxy that does not let all of HTTP through, before the port `behind`. With
    "upgrade" among `stops` it answers upgrades with a page of its own; with "drops" it
    passes them on without the field, as nginx does with proxy_pass alone; with "events" it
    hangs up on event streams, behind their heads; with "many" it has no stream of
    many sets. `asked` counts the requests of each."""

    def __init__(self):
        self.behind = None
        self.stops = ()
        self.asked = {"upgrade": 0, "events": 0, "many": 0}
        super().__init__()

    async def serve(self, peer):
        request = await peer.head()
        if not request:
            return
        is_upgrade = bool(request["Upgrade"])
        is_events = "text/event-stream" in (request["Accept"] or "")
        self.asked["upgrade"] += is_upgrade
        self.asked["events"] += is_events
        is_many = request.head.split()[1].partition(b"?")[0] == b"/stream"
        self.asked["many"] += is_many
        if is_many and "many" in self.stops:
            await peer.send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        if is_upgrade and "upgrade" in self.stops:
            await peer.send(
                b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n"
                b"Content-Length: 9\r\nConnection: close\r\n\r\n<p>what?\n"
            )
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", self.behind)
        try:
            first, rest = request.head.split(b"\r\n", 1)
            if is_upgrade and "drops" in self.stops:
                is_upgrade = False
                rest = re.sub(rb"(?i)(upgrade|connection):[^\r]*\r\n", b"", rest)
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


# a proxy that knows no WebSockets, or drops Upgrade, and one that ends event streams
# as well: the changes come by the remaining transport, each once, and it says so once.
@pytest.mark.parametrize("events", [(), ("events",)])
@pytest.mark.parametrize("upgrade", ["upgrade", "drops"])
def test_finds_a_way_past_what_stands_between(news, gate, follow, tmp_path, upgrade, events):
    gate.stops = upgrade, *events
    news.post(7)
    following = follow("--state", tmp_path / "state")
    following.out.wait(7)
    news.post(3)
    following.out.wait(10)
    following.signal(15)
    assert end(following) == list(range(1, 11))
    said = [line.partition(" instead: ")[0] for line in following.err if " here, " in line]
    fallen = ["tidings: no WebSocket here, server-sent events"]
    assert said == fallen + ["tidings: no server-sent events here, long poll"] * len(events)
    assert gate.asked["upgrade"] == 1
    assert events or gate.asked["events"] == 1


# Where nothing else is wanted, the sentence names what the proxy needs.
def test_a_wanted_websocket_names_the_lines_that_nginx_needs(news, gate, follow):
    gate.stops = ("drops",)
    news.post()
    following = follow("--transport", "websocket")
    assert end(following, 1) == []
    (line,) = following.err
    for needed in (
        "proxy_http_version 1.1;",
        "proxy_set_header Upgrade $http_upgrade;",
        'proxy_set_header Connection "upgrade";',
    ):
        assert needed in line


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


# All sets of a source


N = soak(130, 1000)


@pytest.fixture
def sets(news):
    """A source with more sets than are streamed one by one; each has a change."""
    sets = [news, *(news.broker.set() for _ in range(N - 1))]
    for one in sets:
        tell(one)
    return sets


def tell(one):
    """Post a change that names its set and its number there."""
    one.posted += 1
    one.post_change(f"http://e.example/{one.name}/{one.posted}")


def check_each_once(sets, *runs):
    """Each change of each set came once and in order. The last message of a run that
    was killed, the last changes of one set, may come again: in the next run, or later
    if that was killed before it got them."""
    came = {one.name: [] for one in sets}
    n_again = 0
    for killed, run in enumerate(runs):
        again = set()
        for line in run.out:
            name, number = line.split("/")[-2:]
            if int(number) in came[name] and name not in again:
                again.add(name)
                del came[name][came[name].index(int(number)) :]
            came[name].append(int(number))
        n_again += len(again)
        assert n_again <= killed
    assert came == {one.name: list(range(1, one.posted + 1)) for one in sets}


@pytest.fixture
def follow_all(start, gate, tmp_path):
    """follow_all(): follows all sets behind the gate."""
    options = ("--state", tmp_path / "state", "--from-start", "--poll", "1")

    def start_following(*more):
        return start("tidings", "follow", f"{gate.url}/", *options, *more)

    return start_following


def streams(broker):
    metrics = broker.metrics()
    kinds = ("websocket-json-deflate", "websocket-xml-deflate", "eventsource-lines", "eventsource-many-lines")
    return sum(metrics[f'tidings_subscribers{{transport="{kind}"}}'] for kind in kinds)


# messages of many sets have their lines, so a reader with keys shares one, too.
def test_a_source_is_followed_with_keys_by_one_connection(start_broker, start, run, tmp_path):
    broker = start_broker()
    sets = [broker.set(name) for name in ("a", "b", "c")]
    keys = tmp_path / "keys"
    with keys.open("w") as file:
        for one in sets:
            one.post()
            file.write(run("tidingsd", "key", "show", one.name, "--data", broker.data).output() + "\n")
    following = start("tidings", "follow", f"{broker.url}/", "--from-start", "--key", keys)
    following.out.wait(3)
    wait_for("the stream", lambda: streams(broker) == 1)
    for one in sets:
        one.post()
    following.out.wait(6)
    assert streams(broker) == 1
    following.signal(15)
    assert following.wait() == 0


# one connection; a source whose broker or proxy has none for many sets is
# followed by a connection for each set, up to a limit.
@pytest.mark.parametrize(
    "stops, n_streams", [((), 1), (("upgrade",), 1), (("drops",), 1), (("many",), 100)]
)
def test_a_source_is_followed_by_one_connection(sets, gate, follow_all, stops, n_streams):
    gate.stops = stops
    broker = sets[0].broker
    following = follow_all("--verbose")
    following.out.wait(N)
    wait_for("the streams", lambda: streams(broker) == n_streams)
    for one in (sets[0], sets[-1], sets[N // 2], sets[0]):
        tell(one)
    sets.append(broker.set())  # one that comes later
    tell(sets[-1])
    following.out.wait(N + 5)
    tell(sets[-1])
    following.out.wait(N + 6)
    wait_for("the streams", lambda: streams(broker) == n_streams)
    following.signal(15)
    assert following.wait() == 0
    check_each_once(sets, following)
    if not stops:
        assert gate.asked["many"] == gate.asked["upgrade"] == 1
        assert not following.errors()
    else:
        assert "tidings: no WebSocket for all sets together here, " in following.errors()


# broker, connection and follower are killed.
@pytest.mark.parametrize("stops", [(), ("upgrade",)])
def test_a_source_is_followed_over_crashes(sets, gate, follow_all, stops):
    gate.stops = stops
    broker = sets[0].broker
    runs = [follow_all()]
    runs[-1].out.wait(N)
    for turn in range(soak(3, 20)):
        for one in sets[turn::7]:
            tell(one)
        broker.kill()
        broker.restart()
        gate.behind = broker.port
        for one in sets[turn::5]:
            tell(one)
        runs[-1].kill()
        runs.append(follow_all())
        for one in sets[turn::3]:
            tell(one)
    wanted = sum(one.posted for one in sets)

    def came():
        return len({line.split()[-1] for run in runs for line in run.out})

    wait_for("all changes", lambda: came() == wanted)
    check_each_once(sets, *runs)


# the end of one set ends no other.
def test_a_set_of_a_source_ends_alone(sets, gate, follow_all):
    following = follow_all()
    following.out.wait(N)
    removed = sets.pop(1)
    assert removed.delete().status == 204
    following.err.find(lambda line: f"/sets/{removed.name}: 410: " in line)
    for one in sets:
        tell(one)
    following.out.wait(2 * N - 1)
    following.signal(15)
    following.wait()
    assert gate.asked["many"] == 1


# A private set, and others of a reader; what it may not read it does not see.
def test_a_source_is_followed_by_its_rights(sets, gate, follow_all, tmp_path):
    broker = sets[0].broker
    broker.add_token("admin", admin=True)
    token = tmp_path / "token"
    token.write_text(broker.add_token("reader", subscribe=["s*", "!s2*"]))
    token.chmod(0o600)
    private = broker.set("s-private")
    private.create(private=True)
    tell(private)
    seen = [private] + [one for one in sets if not one.name.startswith("s2")]
    seen = [one for one in seen if one.name != "news"]
    following = follow_all("--token-file", token)
    following.out.wait(len(seen))
    for one in (private, *sets):
        tell(one)
    following.out.wait(2 * len(seen))
    following.signal(15)
    assert following.wait() == 0
    check_each_once(seen, following)
    assert gate.asked["many"] == 1


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
