"""Clients that take all that they can get, from one address or from two hundred, and
honest clients beside them. A client is an address; its share is limited.

No honest client waits for the attack to end: the broker gives silence an hour, and what
the attack holds is still held when they have been served.
"""

import contextlib
import errno
import json
import resource
import time

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.content import arriving, multipart
from tidings_test.http import JSON, NDJSON, ConnectionEnded, check_refused
from tidings_test.sets import change, uploads
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

LIMITS = ("--client-connections", "2000", "--client-half-heads", "1000")
LIMITS += ("--client-streams", "2000", "--client-share", "25")
OPTIONS = ("--threads", "2", "--min-rate", "1K", *LIMITS)
PATIENT = ("--request-timeout", "3600")
HASTY = ("--request-timeout", "1")
ATTACKERS = {"one": ["127.0.0.66"], "many": [f"127.0.66.{i}" for i in range(1, 201)]}
HONEST = [f"127.0.1.{i}" for i in range(1, 21)]
EVENTS = {"accept": "text/event-stream"}
MIB = 1 << 20

post_sizes = {"max_body": soak(1, 50) * MIB, "ingest": soak(8, 256) * MIB}
POSTS = ("--max-body", post_sizes["max_body"], "--ingest-bytes", post_sizes["ingest"])


@pytest.fixture(autouse=True)
def many_files():
    """The test may have as many files open as may be."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))


class Attack:
    """Connections that are silent after their first bytes."""

    def __init__(self, broker, clients):
        self.broker = broker
        self.clients = clients
        self.connections = []

    def open(self, n, sent):
        """`n` connections, each of the next client, that send `sent`; the broker may
        refuse them."""
        for i in range(n):
            client = self.clients[i % len(self.clients)]
            try:
                connection = self.broker.connect(client=client)
                self.connections.append(connection)
                connection.send(sent)
            except OSError as error:
                assert error.errno in (errno.ECONNRESET, errno.EPIPE), error

    def is_held(self):
        """True if the broker still has one of them."""
        return any(connection.is_silent() for connection in self.connections)

    def end(self):
        for connection in self.connections:
            connection.close()


def half_heads(attack, news):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    attack.open(soak(400, min(20000, most - 500)), b"GET /healthz HTTP/1.1\r\nHo")


def idle(attack, news):
    attack.open(160, b"")


def posts(attack, news):
    head = f"POST {news.changes} HTTP/1.1\r\nHost: localhost\r\n"
    head += f"Content-Type: {JSON}\r\n"
    size = post_sizes["max_body"]
    entry = json.dumps(change("http://a.example/" + "a" * 1000)) + ","
    large = f"{head}Content-Length: {size}\r\n\r\n["
    large += entry * (size // len(entry) * 9 // 10)
    attack.open(max(7, len(attack.clients) // 10), large.encode())
    attack.open(400, f"{head}Content-Length: 1000\r\n\r\n[".encode())


def parked_content(attack, news):
    size = soak(1, 30) * MIB
    loc = "http://a.example/"
    body, type = multipart([change(loc)], [(loc, "a/b", bytes(size))])
    head = (
        f"POST {news.changes} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {type}\r\n"
        f"Content-Length: {2 * size}\r\n\r\n"
    )
    attack.open(max(6, len(attack.clients) // 10), head.encode() + body[:size])


# An attack, the limits of the broker, options, and kind of set.
ATTACKS = {
    "half heads": (half_heads, 300, (), "none"),
    "idle connections": (idle, 150, (), "none"),
    "posts that stop": (posts, None, POSTS, "none"),
    "parked content": (parked_content, None, ("--max-content", "1G"), "inline"),
}


@contextlib.contextmanager
def under_attack(start_broker, faults, name, clients, *options):
    """A broker, one of its sets, and an attack on it that has begun."""
    begin, files, more, content = ATTACKS[name]
    if files and soak(True, False):
        faults.limit_files(files)
    broker = start_broker(*OPTIONS, *more, *options, env=faults.env)
    news = broker.set().create(content=content)
    attack = Attack(broker, clients)
    try:
        begin(attack, news)
        yield broker, news, attack
    finally:
        attack.end()


def serve(broker, news, number):
    """One honest client: connects, asks and posts; the statuses of both answers and
    the seconds that they took."""
    start = time.monotonic()
    with broker.connect(client=HONEST[number]) as connection:
        read = connection.request("/healthz").status
        body = [change(f"http://honest.example/{number}", "deleted")]
        wrote = connection.request(news.changes, "POST", body, content_type=JSON).status
    return read, wrote, time.monotonic() - start


def check_waits(seconds):
    """None waits over two seconds. Only the long form looks at a clock, and lets a disk
    that others use be late once in a thousand times."""
    late = [wait for wait in seconds if wait > 2]
    assert soak(True, len(late) <= len(seconds) / 1000), late


# None waits, and none is refused. Of two hundred attackers' posts there may
# be so many that an honest one is asked to come again.
@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("whence", ATTACKERS)
def test_an_attack_keeps_nobody_waiting(start_broker, faults, name, whence):
    attacked = under_attack(start_broker, faults, name, ATTACKERS[whence], *PATIENT)
    with attacked as (broker, news, attack):
        waits = []
        for number in range(len(HONEST)):
            read, wrote, wait = serve(broker, news, number)
            waits.append(wait)
            assert read == 200
            assert wrote == 200 or (wrote == 503 and whence == "many")
        assert attack.is_held()
        check_waits(waits)
        if not is_sanitized():
            assert broker.process.memory_kib("VmHWM") < MEMORY_KIB


MEMORY_KIB = soak(100, 600) * 1024


# Once its time is over, nothing of an attack is left.
@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("whence", ATTACKERS)
def test_all_is_free_when_an_attack_is_over(start_broker, faults, name, whence):
    attacked = under_attack(start_broker, faults, name, ATTACKERS[whence], *HASTY)
    with attacked as (broker, news, attack):
        for connection in attack.connections:
            with contextlib.suppress(OSError):
                connection.read_all()  # an answer, or none
        wait_for("an end of all that is held", lambda: is_free(broker))
        assert not arriving(broker)
        assert serve(broker, news, 0)[:2] == (200, 200)


def is_free(broker):
    try:
        metrics = broker.metrics()
    except (ConnectionEnded, OSError):
        return False
    return metrics["tidings_connections"] <= 2 and metrics["tidings_ingest_bytes"] == 0


# Another thread opens a file as soon as a client is displaced for a new one, which still
# finds a descriptor.
def test_a_file_may_take_the_descriptor_that_was_freed(start_broker, faults):
    whence = ATTACKERS["many"]
    attacked = under_attack(start_broker, faults, "idle connections", whence, *PATIENT)
    with attacked as (broker, news, _), broker.connect(client=HONEST[0]) as last:
        assert last.request("/healthz").status == 200  # all before it are in
        faults.arm(faults.DUP, "socket:", faults.TAKE, once=True)
        assert serve(broker, news, 1)[:2] == (200, 200)
        assert faults.disarm() == 1


# Clients connect and leave, again and again.
def test_a_storm_of_connects_keeps_nobody_waiting(start_broker, background):
    broker = start_broker(*OPTIONS, *PATIENT)
    news = broker.set().create()
    connects = soak(20000, 1000000)

    def storm():
        for _ in range(connects):
            broker.connect(client="127.0.0.66").abort()

    storming = background(storm)
    waits = []
    while storming.is_running:
        read, wrote, wait = serve(broker, news, len(waits) % len(HONEST))
        waits.append(wait)
        assert (read, wrote) == (200, 200)
    storming.join()
    check_waits(waits)
    assert waits
    wait_for("an end of all that is held", lambda: is_free(broker))


# A request frees its memory before its answer can be read: one client that sends one
# large request after the other, over two connections, has its share for each of them.
def test_one_request_after_the_other_finds_room(start_broker):
    share = ("--client-share", "25", "--ingest-bytes", 32 * MIB)  # 8 MiB
    broker = start_broker("--threads", "2", *share, "--max-body", 6 * MIB)
    plain, inline = broker.set().create(), broker.set().create(content="inline")
    empty = broker.set()
    loc = "http://a.example/"
    body = [change(loc + "a" * 1000) for _ in range(4000)]
    parts, type = multipart([change(loc)], [(loc, "a/b", bytes(MIB))])
    requests = (
        (plain.changes, "POST", body, JSON),
        (inline.changes, "POST", parts, type),
        (f"{empty.path}/resources", "PUT", b"\n", NDJSON),
    )
    with broker.connect() as one, broker.connect() as other:
        for path, method, body, content_type in requests:
            for connection in (one, other) * soak(4, 200):
                answer = connection.request(path, method, body, content_type=content_type)
                assert answer.status == 200, answer


# A client leaves three quarters of the sixteen uploads to others.
def test_a_client_tells_the_resources_of_four_sets_at_a_time(start_broker):
    broker = start_broker("--client-share", "25")

    def tell(number, client, body=b""):
        connection = broker.connect(client=client)
        head = f"PUT /sets/s{number}/resources HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: {NDJSON}\r\nContent-Length: 10\r\n\r\n"
        connection.send(head.encode() + body)
        return connection

    def is_at_work(n):
        return broker.metrics()["tidings_uploads_at_work"] == n

    kept = [tell(number, STRANGER) for number in range(4)]
    wait_for("four uploads", lambda: is_at_work(4))
    with tell(4, STRANGER) as more:
        check_refused(more.answer(), 429, "of as many sets as one client may at a time: 4")
    with tell(4, HONEST[0], b"\n" * 10) as other:
        assert other.answer().status == 200
    for connection in kept:
        connection.close()
    wait_for("an end of all uploads", lambda: is_at_work(0))


# The bytes of an upload on the disk count for its client until the upload has ended.
# The disk has room for 8 MiB.
def test_the_bytes_of_uploads_on_the_disk_count(start_broker, faults):
    broker = start_broker("--client-share", "25", env=faults.env)
    faults.set_disk((256 + 8) * MIB)
    body = "".join(
        json.dumps({"loc": f"http://a.example/{n}/" + "a" * 1000}) + "\n"
        for n in range(2500)
    )

    def tell(number, client):
        """All but the last byte of a body of more than 2 MiB."""
        connection = broker.connect(client=client)
        head = f"PUT /sets/s{number}/resources HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: {NDJSON}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.send((head + body[:-1]).encode())
        return connection

    def finish(connection):
        connection.send(b"\n")
        with connection:
            return connection.answer().status

    first = tell(0, STRANGER)
    wait_for("a block on the disk", lambda: uploads(broker))
    with tell(1, STRANGER) as second:
        refused = "as much on its way to the disk as one client may have: 2"
        check_refused(second.answer(), 429, refused)
    assert finish(tell(2, HONEST[0])) == 200
    assert finish(first) == 200
    assert finish(tell(1, STRANGER)) == 200
    assert broker.metrics()['tidings_client_refusals_total{limit="disk"}'] == 1


# A refusal is counted and logged, and names the limit.
def test_refusals_say_what_they_are_for(start_broker):
    limits = ("--client-connections", "3", "--client-streams", "1")
    broker = start_broker(*limits)
    news = broker.set().create()
    connections = [broker.connect(client="127.0.0.66") for _ in range(3)]
    connections[0].ask(news.stream, **EVENTS)
    assert connections[0].answer_head().status == 200
    refused = connections[1].request(news.stream, **EVENTS)
    check_refused(refused, 429, "as many streams as one client may have: 1")
    assert int(refused["Retry-After"]) > 0
    assert connections[2].request("/healthz").status == 200
    with broker.connect(client="127.0.0.66") as more:
        assert more.read_all() == b""
    said = broker.wait_said("refused more than its share")
    assert "client=127.0.0.66" in said
    metrics = broker.metrics()
    for limit in ("streams", "connections"):
        assert metrics[f'tidings_client_refusals_total{{limit="{limit}"}}'] == 1
    for connection in connections:
        connection.close()


PROXY, STRANGER = "127.0.0.9", "127.0.0.66"


# Behind a trusted proxy a request counts for the client that the proxy names.
# Statements of other clients about themselves do not count.
def test_requests_of_a_proxy_count_for_its_clients(start_broker):
    trusted = ("--insecure-open", "--trusted-proxies", f"{PROXY},10.0.0.0/8")
    limits = ("--client-streams", "1", "--client-connections", "2")
    broker = start_broker(*trusted, *limits)
    news = broker.set().create()
    streams = []

    def begin(by, **headers):
        streams.append(broker.connect(client=by))
        streams[-1].ask(news.stream, **EVENTS, **headers)
        return streams[-1].answer_head().status

    assert begin(PROXY, x_forwarded_for="192.0.2.1") == 200
    assert begin(PROXY, x_forwarded_for="192.0.2.99, 192.0.2.1, 10.0.0.7") == 429
    assert begin(PROXY, forwarded="for=192.0.2.1") == 429
    assert begin(PROXY, x_forwarded_for="192.0.2.2") == 200
    assert begin(PROXY, forwarded='for="[2001:db8::1]:80"') == 200
    assert begin(PROXY, forwarded='for="[2001:db8::2]"') == 429  # of the same /64
    assert begin(PROXY, x_forwarded_for="unknown") == 200  # the proxy's own
    assert begin(PROXY) == 429
    assert begin(STRANGER, x_forwarded_for="192.0.2.7") == 200
    assert begin(STRANGER, x_forwarded_for="192.0.2.8") == 429
    # Its connections are as many as it likes, and their requests are served.
    kept = [broker.connect(client=PROXY) for _ in range(10)]
    for i, connection in enumerate(kept * 3):
        request = connection.request("/healthz", x_forwarded_for=f"192.0.3.{i}")
        assert request.status == 200
    for connection in (*streams, *kept):
        connection.close()
