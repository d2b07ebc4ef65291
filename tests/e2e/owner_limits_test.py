"""Limits of a token: what its owner uses up costs nobody else, wherever its requests
come from."""

import contextlib
import json
import subprocess
import time

import pytest

from tidings_test.broker import PROGRAMS, ROOT
from tidings_test.http import JSON, NDJSON, ConnectionEnded, check_refused
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

ENTRY = '{"loc":"http://example.com/a","change":"updated"}'
RESOURCE = '{"loc":"http://example.com/a"}'
OTHERS = 20


class Crowd:
    """A broker with a token for each of many owners, all of one address."""

    def __init__(self, broker):
        self.broker = broker
        broker.add_token("root", admin=True)
        every = {right: ["*"] for right in ("publish", "subscribe", "manage")}
        names = ["greedy", *(f"other{i}" for i in range(OTHERS))]
        self.fields = {
            name: f"Bearer {broker.add_token(name, **every)}" for name in names
        }
        for name in names:
            field = {"authorization": self.fields[name]}
            assert broker.put(f"/sets/{name}", {}, **field).status == 201

    def post(self, name, body=ENTRY, **fields):
        field = self.fields[name]
        path = f"/sets/{name}/changes"
        return self.broker.post(path, body, JSON, authorization=field, **fields)

    def ask(self, method, path, *body, name="greedy", **fields):
        """One request of an owner."""
        fields = {"authorization": self.fields[name], **fields}
        return self.broker.request(method, path, *body, **fields)

    def check_others(self):
        for name in self.fields:
            if name != "greedy":
                assert self.post(name).status == 200, name


def post_until_refused(crowd, body, **fields):
    """How many posts were taken, and the answer to the one that was not."""
    for taken in range(1000):
        answer = crowd.post("greedy", body, **fields)
        if answer.status != 200:
            check_refused(answer, 429)
            return taken, answer
    raise AssertionError("1000 posts were taken")


LARGE = f'{{"changes":[{",".join(30 * [ENTRY])}]}}'

# option, value, policy, a body, seconds that it costs
RATES = (
    ("--client-post-rate", "1", '"posts"', ENTRY, 1),
    ("--client-byte-rate", "1K", '"bytes"', LARGE, len(LARGE) / 1024),
)


@pytest.mark.parametrize("option, value, policy, body, cost", RATES)
def test_a_rate_is_that_of_one_owner(start_broker, option, value, policy, body, cost):
    crowd = Crowd(start_broker(option, value))
    _, refused = post_until_refused(crowd, body)
    since = time.monotonic()
    assert int(refused["Retry-After"]) > 0
    assert refused["RateLimit"].startswith(f"{policy};r=0;t=")
    assert refused["RateLimit-Policy"].startswith(f"{policy};q=")
    crowd.check_others()
    # Neither another connection nor another address that it claims helps. Only time
    # does, of which a slow machine may take some.
    crowd.broker.disconnect()
    taken, _ = post_until_refused(crowd, body, x_forwarded_for="192.0.2.9")
    assert (taken - 1) * cost < time.monotonic() - since
    label = "post-rate" if "post" in option else "byte-rate"
    name = f'tidings_client_refusals_total{{limit="{label}"}}'
    assert f"{name} 2" in crowd.broker.get("/metrics").text


def test_streams_count_for_their_owner(start_broker):
    crowd = Crowd(start_broker("--client-streams", "2"))
    broker = crowd.broker
    streams = []
    for name in ("greedy", "greedy", "other1", "other2"):
        stream = broker.connect()
        streams.append(stream)
        fields = {"accept": "text/event-stream", "authorization": crowd.fields[name]}
        stream.ask(f"/sets/{name}/stream", **fields)
        assert stream.answer_head().status == 200, name
    with broker.connect() as stream:
        fields = {
            "accept": "text/event-stream",
            "authorization": crowd.fields["greedy"],
        }
        answer = stream.request("/sets/greedy/stream", **fields)
        check_refused(answer, 429, "your token")
    for stream in streams:
        stream.close()


def check_counted(broker, limit):
    metrics = broker.get("/metrics").text
    assert f'tidings_client_refusals_total{{limit="{limit}"}} ' in metrics
    assert f'tidings_client_refusals_total{{limit="{limit}"}} 0' not in metrics


def check_no_more_sets(crowd):
    """Each way to a new set is closed to the greedy owner, and open to the others."""
    broker = crowd.broker
    field = {"authorization": crowd.fields["greedy"]}
    lines = "application/x-ndjson"
    ways = (
        broker.put("/sets/more", {}, **field),
        broker.post("/sets/more/changes", ENTRY, JSON, **field),
        broker.put("/sets/more/resources", '{"loc":"http://example.com/a"}', lines, **field),
    )
    for answer in ways:
        check_refused(answer, 429, "your token has created as many sets")
    assert broker.get("/sets/more", **field).status == 404


def test_sets_count_for_their_owner(start_broker):
    crowd = Crowd(start_broker("--client-sets", "3"))
    broker = crowd.broker
    field = {"authorization": crowd.fields["greedy"]}
    for name in ("a", "b"):
        assert broker.post(f"/sets/{name}/changes", ENTRY, JSON, **field).status == 200
    check_no_more_sets(crowd)
    assert crowd.post("greedy").status == 200
    assert broker.put("/sets/a", {"title": "A"}, **field).status == 200
    for name, other in crowd.fields.items():
        if name != "greedy":
            path = f"/sets/{name}-2/changes"
            assert broker.post(path, ENTRY, JSON, authorization=other).status == 200
    check_counted(broker, "sets")

    broker.kill()
    broker.start()
    check_no_more_sets(crowd)
    # Whoever deletes the set, its creator gets the place back.
    other = {"authorization": crowd.fields["other1"]}
    assert broker.request("DELETE", "/sets/a", **other).status == 204
    assert broker.put("/sets/more", {}, **field).status == 201


def test_idempotency_keys_count_for_their_owner(start_broker):
    crowd = Crowd(start_broker("--client-keys", "2"))
    for key in ("k1", "k2", "k1"):
        assert crowd.post("greedy", idempotency_key=key).status == 200
    refused = crowd.post("greedy", idempotency_key="k3")
    check_refused(refused, 429, "your token has posted with as many Idempotency-Keys")
    assert crowd.post("greedy").status == 200
    for name in crowd.fields:
        if name != "greedy":
            assert crowd.post(name, idempotency_key="k3").status == 200, name
    check_counted(crowd.broker, "keys")


# Each bounded table. One owner uses it up; meanwhile twenty others do everything that
# clients do, and notice nothing; a minute later the first one finds room.

TABLE = subprocess.run([PROGRAMS["tidingsd"], "--limits"], capture_output=True, text=True)
LIMITS = [line.split("`")[1] for line in TABLE.stdout.splitlines()[2:]]
MIB = 1 << 20
STRANGER = "127.0.0.66"  # the address of an owner that is an address
EVENTS = {"accept": "text/event-stream"}


def test_the_page_has_the_table_of_limits():
    assert TABLE.stdout in (ROOT / "doc/security.md").read_text(), TABLE.stdout


class Attack(contextlib.ExitStack):
    """What the greedy owner does."""

    def __init__(self, crowd, label):
        super().__init__()
        self.crowd, self.broker = crowd, crowd.broker
        self.series = f'tidings_client_refusals_total{{limit="{label}"}}'

    def connect(self, **options):
        return self.enter_context(self.broker.connect(**options))

    def begin(self, method, path, size, body=b"", **fields):
        """A request whose body does not come whole."""
        connection = self.connect()
        fields = {"authorization": self.crowd.fields["greedy"], **fields}
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {size}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        connection.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return connection

    def is_served(self, **options):
        with contextlib.suppress(ConnectionEnded, OSError):
            return self.connect(**options).request("/healthz").status == 200
        return False

    def is_refused(self):
        return self.broker.metrics()[self.series] > 0

    def repeat(self, act, until=429, times=5000):
        """Act until the answer has that status."""
        for _ in range(times):
            answer = act()
            if answer.status == until:
                assert b"no memory" not in answer.body
                return
        raise AssertionError(f"{times} were taken")

    def stream(self, path, name="greedy"):
        connection = self.connect()
        connection.ask(path, authorization=self.crowd.fields[name], **EVENTS)
        return connection.answer_head()

    def fill(self, path="/sets/greedy/changes", size=MIB // 2):
        """A post of so many bytes of changes."""
        loc = "http://example.com/" + 1000 * "a"
        body = json.dumps([{"loc": loc, "change": "updated"}] * (size // 1060))
        return self.crowd.ask("POST", path, body, JSON)


def connections(attack):
    for _ in range(130):
        attack.connect(client=STRANGER)
    return lambda: attack.is_served(client=STRANGER)


def half_heads(attack):
    for _ in range(20):
        with contextlib.suppress(OSError):
            attack.connect(client=STRANGER).send(b"GET /healthz HTTP/1.1\r\nHo")
    return lambda: attack.is_served(client=STRANGER)


def streams(attack):
    attack.repeat(lambda: attack.stream("/sets/greedy/stream"))
    return lambda: attack.stream("/sets/greedy/stream").status == 200


def posts(attack):
    body = b"[" + (ENTRY + ",").encode() * (MIB // len(ENTRY))
    for _ in range(6):
        attack.begin(
            "POST", "/sets/greedy/changes", 2 * len(body), body, content_type=JSON
        )
    return lambda: attack.fill().status == 200


def disk(attack):
    """The bytes of uploads are on the disk from 2 MiB on."""
    body = "".join(
        json.dumps({"loc": f"http://a.example/{n}/" + "a" * 1000}) + "\n"
        for n in range(2500)
    ).encode()
    for number in range(2):
        path = f"/sets/greedy-{number}/resources"
        attack.begin("PUT", path, len(body), body[:-1], content_type=NDJSON)
    return lambda: attack.broker.metrics()["tidings_uploads_at_work"] == 0


def answers(attack):
    path = "/sets/greedy/changes?after=0"
    for _ in range(3):
        assert attack.fill(size=2 * MIB).status == 200
    attack.crowd.flood = True

    def read():
        connection = attack.connect(narrow=True)
        connection.ask(path, authorization=attack.crowd.fields["greedy"], accept=JSON)
        return connection.answer_head()

    for _ in range(10):
        read()
    return lambda: read().status == 200


def filters(attack):
    names = iter(range(1000))
    path = "/sets/greedy/stream?prefix=http://example.com/{}"
    attack.repeat(lambda: attack.stream(path.format(next(names))))
    return lambda: attack.stream(path.format(next(names))).status == 200


def uploads(attack):
    for number in range(8):
        path = f"/sets/greedy-{number}/resources"
        attack.begin("PUT", path, 10, content_type=NDJSON)
    return lambda: attack.broker.metrics()["tidings_uploads_at_work"] == 0


def sets(attack):
    names = iter(range(1000))
    crowd = attack.crowd
    attack.repeat(lambda: crowd.ask("PUT", f"/sets/greedy-{next(names)}", "{}", JSON))
    assert crowd.ask("DELETE", "/sets/greedy-0").status == 204
    return lambda: crowd.ask("PUT", "/sets/greedy-more", "{}", JSON).status == 201


def set_names(attack):
    names = iter(range(3000))
    crowd = attack.crowd
    attack.repeat(lambda: crowd.ask("PUT", f"/sets/greedy-{next(names)}", "{}", JSON))
    return None  # for ever


def keys(attack):
    names = iter(range(1000))
    attack.repeat(lambda: attack.crowd.post("greedy", idempotency_key=f"k{next(names)}"))
    return None  # for a day


def tickets(attack):
    attack.repeat(lambda: attack.crowd.ask("POST", "/tickets"))
    return lambda: attack.crowd.ask("POST", "/tickets").status == 201


def sessions(attack):
    """The next session replaces the oldest one: nobody is refused."""
    crowd = attack.crowd
    first = crowd.ask("POST", "/session")
    for _ in range(100):
        assert crowd.ask("POST", "/session").status == 201
    cookie = first["Set-Cookie"].split(";")[0]
    old = crowd.broker.get("/tokens/self", authorization=None, cookie=cookie)
    assert old.status == 401 or old.json()["name"] != "greedy"
    attack.is_refused = lambda: True
    return lambda: crowd.ask("POST", "/session").status == 201


def kept_bytes(attack):
    crowd = attack.crowd
    attack.repeat(lambda: attack.fill(size=MIB // 4))
    # Known at the head: no byte of the body comes.
    with attack.begin("POST", "/sets/new/changes", MIB, content_type=JSON) as post:
        check_refused(post.answer(), 429, "--client-kept-bytes")
    assert crowd.ask("DELETE", "/sets/greedy").status == 204
    return lambda: crowd.post("greedy").status == 200


def kernel_bytes(attack):
    for _ in range(2):
        assert attack.fill(size=2 * MIB).status == 200
    for _ in range(60):
        connection = attack.connect(narrow=True)
        connection.ask(
            "/sets/greedy/changelist.xml", authorization=attack.crowd.fields["greedy"]
        )
    return lambda: attack.broker.metrics()["tidings_connections"] < 60


def followed(attack):
    path = "/stream?set=greedy"
    attack.repeat(lambda: attack.stream(path))
    return lambda: attack.stream(path).status == 200


SHARE = ("--client-share", "1")
FEW = ("--client-share", "25", "--ingest-bytes", 8 * MIB, "--max-body", 4 * MIB)

# How each table is used up, and the options that make it small. A text names the test of
# a table that no single broker has, or of the hub's (with e2e/hub_owners).
EXHAUSTED = {
    "connections": (connections, "--client-connections", "100"),
    "half-heads": (half_heads, "--client-half-heads", "10"),
    "streams": (streams, "--client-streams", "5"),
    "posts": (posts, *FEW),
    "disk": (disk, "--client-share", "25"),
    "answers": (answers, *SHARE, "--ingest-bytes", "1G"),
    "efforts": "unit/base/effort_test.c",
    "filters": (filters, *SHARE),
    "uploads": (uploads, "--client-share", "25"),
    "sets": (sets, "--client-sets", "5"),
    "set-names": (set_names, *SHARE),
    "keys": (keys, "--client-keys", "2"),
    "tickets": (tickets, *SHARE),
    "sessions": (sessions, *SHARE),
    "used-tickets": "unit/access/request_tickets_test.c",
    "kept-bytes": (kept_bytes, "--client-kept-bytes", "1M"),
    "kernel-bytes": (kernel_bytes, *SHARE, "--ingest-bytes", "1G"),
    "followed": (followed, "--client-followed", "3"),
    "subscriptions": "unit/hub_quiet/subscription_test.c",
    "verifications": "unit/hub_quiet/subscription_test.c",
    "denials": "unit/hub_quiet/subscription_test.c",
    "bodies": "unit/readers/reader_test.c",
}


def live(crowd, name):
    """Everything that a client does, once. None of it is refused."""
    broker, field = crowd.broker, {"authorization": crowd.fields[name]}
    assert crowd.ask("POST", "/tickets", name=name).status == 201
    assert crowd.ask("POST", "/session", name=name).status == 201
    with broker.connect() as stream:
        stream.ask(f"/sets/{name}/stream?prefix=http:", **field, **EVENTS)
        assert stream.answer_head().status == 200
        assert crowd.post(name, idempotency_key="one").status == 200
        stream.read_until(b"event: changes")
    for path in (f"/sets/{name}/changes?after=0", f"/sets/{name}/changelist.xml"):
        assert broker.get(path, **field).status == 200
    path = f"/sets/{name}-all"
    assert crowd.ask("PUT", f"{path}/resources", RESOURCE, NDJSON, name=name).status == 200
    with broker.connect() as connection:
        connection.ask(f"/stream?set={name}", **field, **EVENTS)
        assert connection.answer_head().status == 200


@pytest.mark.parametrize("label", LIMITS)
def test_one_owner_uses_up_a_table_and_nobody_notices(start_broker, faults, label):
    how = EXHAUSTED[label]
    if isinstance(how, str):
        assert f"CLIENT_{label.upper().replace('-', '_')}" in (ROOT / "tests" / how).read_text()
        return
    exhaust, *options = how
    if exhaust is disk:
        faults.set_disk((256 + 8) * MIB)
    crowd = Crowd(start_broker("--min-rate", "1K", *options, env=faults.env))
    with Attack(crowd, label) as attack:
        has_room = exhaust(attack)
        wait_for("a refusal", attack.is_refused)
        for name in crowd.fields:
            if name != "greedy":
                live(crowd, name)
        check_in_time(crowd.broker)
        if exhaust in ENDED_BY_THE_CLIENT:
            attack.close()
        for _ in range(2):  # a minute; each thread looks at the clock
            faults.pass_time(31)
            crowd.broker.wait_threads()
        if has_room:
            wait_for("room", has_room)


# Streams without anything to send last as long as their clients.
ENDED_BY_THE_CLIENT = (streams, filters, followed)


def check_in_time(broker):
    """No delivery was later than a second, as the broker measures it. Only the long form
    looks at a clock."""
    metrics = broker.metrics()
    name = "tidings_push_latency_seconds"
    late = [
        series
        for series in metrics
        if series.startswith(f"{name}_bucket") and 'le="1"' in series
        and metrics[series] < metrics[series.replace('le="1"', 'le="+Inf"')]
    ]
    assert soak(True, not late), late
