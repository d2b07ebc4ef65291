"""What is under way for a token ends with it: every route of doc/http.md that has a body
or a long answer is held half-way, by every way in which a token ends. Then the requests
are completed: nothing happens, and the answer is 401, or cut."""

import contextlib
import copy
import datetime
import fcntl
import json
import os
import re

import pytest

from tidings_test import hub
from tidings_test.background import Background
from tidings_test.certificates import Certificate
from tidings_test.content import MULTIPART, multipart
from tidings_test.feed import Feed
from tidings_test.http import FORM, JSON, NDJSON, ConnectionEnded
from tidings_test.provider import OPTIONS, Provider
from tidings_test.routes import ROUTES
from tidings_test.sets import HARVEST, MERGE_PATCH, change
from tidings_test.stream import UPGRADE
from tidings_test.waiting import wait_for

HOUR = datetime.timedelta(hours=1)
DAYS = datetime.timedelta(days=3)
ALL = {"publish": ["*"], "subscribe": ["*"], "manage": ["*"], "observe": True}
EVENTS = {"accept": "text/event-stream"}
CALLBACK = "http://127.0.0.2:1/"
A = "http://example.com/a"
SAID = b"the token has ended"


class World:
    """A broker with a set, a subscription, a relay and a backup. The requests of the test
    have `fields`, and certificates of `tls`."""

    def __init__(
        self, start_broker, site, callbacks, faults, *options, tls=None, is_open=False
    ):
        self.faults = faults
        options = ("--threads", "2", "--heartbeat", "3600", *options)
        options += ("--rotate-age", "1000000")  # the clock may be set
        self.broker = start_broker(
            *hub.QUICK, *hub.LOOPBACK, *options, env=faults.env, tls=tls
        )
        self.fields, self.tls, self.is_open = {}, tls, is_open
        self.is_admin, self.has_tickets = True, False
        # The operator's own requests stay as they are.
        self.operator = self.broker.client_at(self.broker.control)
        if not is_open:
            self.close()
        news = self.broker.set("news").create()
        news.post(2)
        self.broker.set("kept").create(content="inline")
        news.put_harvest(held_back=7)
        large = self.broker.set("large").create()
        large.post(2000, size=2000)
        self.feed = Feed(self.broker, site, callbacks).register()
        self.name = self.feed.path.removeprefix("/relays/")
        self.feed.accept("a document")
        self.joined = {"set": (news, callbacks.join(news))}
        self.joined["relay"] = self.feed, callbacks.join(self.feed)
        news.post()
        self.feed.accept("another document")
        for of, callback in self.joined.values():
            callback.deliveries.wait(1)
            hub.wait_head(of, callback)
        self.ids = {kind: hub.find(*each)["id"] for kind, each in self.joined.items()}

    def close(self):
        """Make the first tokens."""
        made = self.operator.post("/tokens", {"name": "root", "admin": True})
        self.broker.disconnect()
        self.broker.token = made.json()["token"]
        self.operator.post("/tokens", {"name": "spare", "observe": True})

    def add(self, **terms):
        """Make the token of the test's requests."""
        terms = terms or {"admin": True}
        self.token = self.broker.add_token("one", **terms)
        self.fields = {"authorization": f"Bearer {self.token}"}
        return self.token

    def back_up(self):
        """A backup is ready. The operator has asked for it."""
        assert self.operator.post("/backup").status == 202
        wait_for("a backup", lambda: self.operator.head("/backup").status == 200)

    def connect(self, narrow=False):
        tls, self.broker.tls = self.broker.tls, self.tls
        try:
            made = self.broker.connect(narrow)
        finally:
            self.broker.tls = tls
        made.token = None
        return made

    def admit(self, path):
        """The path, with a ticket if the requests have one each."""
        if not self.has_tickets:
            return path
        made = self.broker.post("/tickets", authorization=f"Bearer {self.token}")
        return f"{path}{'&' if '?' in path else '?'}ticket={made.json()['ticket']}"

    def path(self, template):
        kind = "relay" if "{relay}" in template else "set"
        names = {"set": "news", "relay": self.name, "token": "spare", "id": self.ids[kind]}
        return re.sub(r"{(\w+)}", lambda hole: str(names[hole[1]]), template)

    def denied(self):
        lines = self.operator.get("/metrics").text
        return int(re.search(r"^tidings_denied_requests_total (\d+)", lines, re.M)[1])

    def state(self):
        """What requests can change, as the operator sees it."""
        get = lambda path: self.operator.get(path).json()
        paths = (
            "/sets",
            "/relays",
            "/sets/news",
            "/sets/kept",
            "/sets/large",
            "/sets/news/harvest",
            "/sets/news/subscriptions",
            "/sets/large/subscriptions",
            f"/relays/{self.name}/subscriptions",
        )
        state = {path: get(path) for path in paths}
        for each in state.values():
            each.pop("subscribers", None)
            if self.is_open:  # the subscriptions of an open broker end with it
                each.pop("subscriptions", None)
                each.pop("relays", None)
        state["/tokens"] = [
            (token["name"], token["id"])
            for token in get("/tokens")["tokens"]
            if token["name"] not in ("root", "spare", "one", "everyone")
        ]
        return state


def check_unauthorized(answer):
    assert answer.status == 401, answer
    assert answer["WWW-Authenticate"] == "Bearer"


# Cases: what is held half-way. Each has begin(world), which returns what ends later.


class Half:
    """A request of which the last byte is missing."""

    def __init__(
        self,
        body="as curl sends it",
        type=FORM,
        query="",
        path=None,
        other=None,  # the path of a second one, where a set has one at a time
        **fields,
    ):
        self.body, self.type, self.query = body, type, query
        self.path, self.other, self.fields = path, other or path, fields

    def begin(self, world, route):
        path = world.path(self.path or route.path)
        query = self.query(world, route) if callable(self.query) else self.query
        path = f"{path}?{query}" if query else path
        fields = {"content_type": self.type, **self.fields, **world.fields}
        body = self.body(world) if callable(self.body) else self.body
        if callable(self.fields.get("link")):
            fields["link"] = self.fields["link"](world)
        self.connection = world.connect()
        whole = self.connection.request_bytes(path, route.methods[0], body, **fields)
        self.connection.send(whole[:-1])
        self.rest = whole[-1:]
        return self

    def complete(self):
        """The head of the answer to the whole request. It may come before its end."""
        try:
            self.connection.send(self.rest)
        except ConnectionError:
            pass
        return self.connection.answer_head()

    def check_end(self):
        check_unauthorized(self.connection.answer())


class Poll:
    """A request that waits for its answer."""

    def __init__(self, query):
        self.query = query

    def begin(self, world, route):
        self.connection = world.connect()
        path = world.path(f"{route.path}?{self.query}")
        self.connection.ask(world.admit(path), **world.fields)
        return self

    def check_end(self):
        check_unauthorized(self.connection.answer())


class Stream:
    """A stream says why it ends."""

    def __init__(self, query="", body=None, **fields):
        self.query, self.body, self.fields = query, body, fields

    def begin(self, world, route):
        self.connection = world.connect()
        path = world.admit(world.path(route.path) + self.query)
        fields = {**self.fields, **world.fields}
        self.connection.ask(path, route.methods[0], self.body, **fields)
        assert self.connection.answer_head().status in (101, 200)
        return self

    def check_end(self):
        self.connection.read_until(SAID)


class Long:
    """An answer that its reader has not taken."""

    def __init__(self, path=None):
        self.path = path

    def begin(self, world, route):
        self.connection = world.connect(narrow=True)
        self.connection.ask(world.admit(self.path or route.path), **world.fields)
        answer = self.connection.answer_head()
        assert answer.status == 200, answer
        self.left = int(answer["Content-Length"])
        return self

    def check_end(self):
        self.connection.widen()
        rest = self.connection.read_all()
        assert len(rest) < self.left, "all of it came"


# An answer that comes at once.
SHORT = None

CHANGE = json.dumps([change(A)])
CONTENT, _ = multipart([change(A)], [(A, None, b"x" * 1000)])

def subscribe(world):
    topic = f"{world.broker.url}/sets/large/notifications"
    return f"hub.mode=subscribe&hub.topic={topic}&hub.callback={CALLBACK}"


def delivery(world, route):
    """A parameter: the last delivery of the subscription of the route."""
    (one, *_) = world.broker.get(world.path(route.path)).json()["attempts"]
    return f"delivery={one['delivery']}"


CASES = {
    "GET /sets": SHORT,
    "GET /sets/{set}": SHORT,
    "PUT /sets/{set}": [Half("{}", JSON, path="/sets/born")],
    "PATCH /sets/{set}": [Half('{"rotateEntries":70}', MERGE_PATCH)],
    "DELETE /sets/{set}": SHORT,
    "GET /sets/{set}/changes": [
        Poll("after=3&wait=300"),
        Long("/sets/large/changes?after=0"),
    ],
    "POST /sets/{set}/changes": [
        Half(CHANGE, JSON),
        Half(CONTENT, MULTIPART, path="/sets/kept/changes"),
    ],
    "GET /sets/{set}/stream": [Stream(**UPGRADE), Stream(**EVENTS)],
    "GET /stream": [Stream("?set=news", **UPGRADE), Stream("?set=news", **EVENTS)],
    "POST /stream": [
        Half("{}", JSON, query="set=news", **EVENTS),
        Stream("?set=news", body="{}", content_type=JSON, **EVENTS),
    ],
    "GET /sets/{set}/resources": [Long("/sets/large/resources")],
    "PUT /sets/{set}/resources": [
        Half(json.dumps({"loc": A}), NDJSON, other="/sets/large/resources")
    ],
    "GET /sets/{set}/harvest": SHORT,
    "PUT /sets/{set}/harvest": [Half(json.dumps({**HARVEST, "held_back": 7}), JSON)],
    "POST /sets/{set}/harvest": [Half(query="accept-deletions=7")],
    "DELETE /sets/{set}/harvest": SHORT,
    "GET /sets/{set}/oai": SHORT,
    "POST /sets/{set}/oai": [Half("verb=Identify")],
    "POST /sets/{set}/reconcile": [Half("a", "application/octet-stream")],
    "GET /sets/{set}/rate": SHORT,
    "POST /sets/{set}/rotate": [Half()],
    "POST /sets/{set}/resourcelist": [Half()],
    "POST /sets/{set}/resourcedump": [Half(path="/sets/kept/resourcedump")],
    "GET /hub/keys": SHORT,
    "POST /hub/keys": [Half()],
    "POST /hub": [
        Half(subscribe),
        Half("a document", "text/plain", link=lambda world: world.feed.links),
    ],
    "POST /sets/{set}/subscribe": [
        Half(f"callbackURI={CALLBACK}", path="/sets/large/subscribe")
    ],
    "GET /sets/{set}/subscriptions": SHORT,
    "GET /sets/{set}/subscriptions/{id}": SHORT,
    "DELETE /sets/{set}/subscriptions/{id}": SHORT,
    "POST /sets/{set}/subscriptions/{id}/redeliver": [Half(query="after=0")],
    "GET /sets/{set}/subscriptions/{id}/attempts": SHORT,
    "POST /sets/{set}/subscriptions/{id}/attempts": [Half(query=delivery)],
    "POST /sets/{set}/subscriptions/{id}/test": [Half()],
    "GET /relays": SHORT,
    "GET /relays/{relay}": SHORT,
    "PUT /relays/{relay}": [
        Half('{"topic":"http://b.example/t"}', JSON, path="/relays/born")
    ],
    "DELETE /relays/{relay}": SHORT,
    "GET /relays/{relay}/subscriptions": SHORT,
    "GET /relays/{relay}/subscriptions/{id}": SHORT,
    "DELETE /relays/{relay}/subscriptions/{id}": SHORT,
    "POST /relays/{relay}/subscriptions/{id}/redeliver": [Half(query="after=0")],
    "GET /relays/{relay}/subscriptions/{id}/attempts": SHORT,
    "POST /relays/{relay}/subscriptions/{id}/attempts": [Half(query=delivery)],
    "POST /relays/{relay}/subscriptions/{id}/test": [Half()],
    "GET /bridges": SHORT,
    "GET /cluster": SHORT,
    "GET /tokens": SHORT,
    "POST /tokens": [Half('{"name":"born","admin":true}', JSON)],
    "GET /tokens/self": SHORT,
    "GET /tokens/{token}": SHORT,
    "DELETE /tokens/{token}": SHORT,
    "POST /tokens/{token}/rotate": [Half()],
    "POST /tickets": SHORT,
    "POST /session": SHORT,
    "DELETE /session": SHORT,
    "GET /healthz": SHORT,
    "GET /readyz": SHORT,
    "GET /status": SHORT,
    "GET /config": SHORT,
    "POST /backup": SHORT,
    "GET /backup": [Long()],
    "GET /metrics": SHORT,
    "GET a document": [Long("/sets/large/changelist.xml")],
}


# They do not wait for the body, which they ignore.
AT_ONCE = {"POST /tickets", "POST /session", "POST /backup"}


def test_each_route_has_a_case(start_broker):
    broker = start_broker()
    broker.add_token("root", admin=True)
    assert CASES.keys() == ROUTES.keys()
    for name, cases in CASES.items():
        has_body = ROUTES[name].methods[0] in ("POST", "PUT", "PATCH")
        halves = [case for case in cases or () if isinstance(case, Half)]
        assert bool(halves) == (has_body and name not in AT_ONCE), name
    for name in AT_ONCE:
        with broker.start_post(ROUTES[name].path, FORM, "half") as connection:
            assert connection.answer().status in (201, 202)


# Else the test below would prove nothing.
def test_the_requests_succeed_while_their_token_lasts(make):
    world = make()
    world.add()
    for one in begin(world, Half):
        answer = one.complete()
        assert answer.status < 300, (one.name, answer)
        one.connection.close()
    for topic, callback in world.joined.values():
        hub.wait_head(topic, callback)
        callback.faults.clear()  # a callback takes a redelivery for a fault


# The ways to end. Each prepares the requests of the world, and returns a function that
# ends what they have.


@pytest.fixture
def make(start_broker, site, callbacks, faults):
    return lambda *options, **more: World(
        start_broker, site, callbacks, faults, *options, **more
    )


def revoked(make, tmp_path):
    world = make()
    world.add()
    return world, lambda: world.broker.delete("/tokens/one")


def expired(make, tmp_path):
    world = make()
    end = datetime.datetime.now(datetime.timezone.utc) + HOUR
    world.add(admin=True, expires=end.isoformat())
    return world, lambda: world.faults.set_clock(HOUR.total_seconds())


def rotated(make, tmp_path):
    world = make()
    world.add()
    return world, lambda: world.broker.post("/tokens/one/rotate?grace=0")


def rotated_with_grace(make, tmp_path):
    world = make()
    world.add()
    assert world.broker.post("/tokens/one/rotate?grace=3600").status == 200
    return world, lambda: world.faults.set_clock(HOUR.total_seconds())


def closed_to_everyone(make, tmp_path):
    world = make()
    world.add(**ALL)
    world.operator.post("/tokens", {"name": "everyone", **ALL})
    world.fields, world.is_admin = {}, False
    return world, lambda: world.broker.delete("/tokens/everyone")


def closed_by_the_first_token(make, tmp_path):
    world = make(is_open=True)
    world.is_admin = False
    return world, world.close


def key_gone(make, tmp_path):
    provider = Provider(tmp_path)
    provider.key("a"), provider.key("b")
    keys = tmp_path / "keys.json"
    provider.write(keys)
    world = make("--jwt-keys", keys, *OPTIONS)
    world.add()
    world.is_admin = False
    text = provider.token("a", tidings=ALL)
    world.fields = {"authorization": f"Bearer {text}"}
    return world, lambda: provider.write(keys, "b")


def of_a_client(make, tmp_path):
    """The requests have a certificate that the token "one" names."""
    server = Certificate(tmp_path / "server")
    client = Certificate(tmp_path / "client", usage="clientAuth")
    options = (*server.options, "--tls-client-ca", client.ca)
    world = make(*options, tls=server.trust())
    world.add(admin=True, certificate=client.fingerprint)
    world.fields = {}
    world.tls = server.trust()
    world.tls.load_cert_chain(client.cert, client.key)
    return world


def certificate_revoked(make, tmp_path):
    world = of_a_client(make, tmp_path)
    return world, lambda: world.broker.delete("/tokens/one")


def certificate_expired(make, tmp_path):
    world = of_a_client(make, tmp_path)
    return world, lambda: world.faults.set_clock(DAYS.total_seconds())


def with_a_session(make, tmp_path):
    world = make()
    world.add()
    made = world.broker.post("/session", **world.fields)
    cookie = made["Set-Cookie"].split(";")[0]
    world.fields = {"cookie": cookie, "origin": world.broker.url}
    return world


def session_ended(make, tmp_path):
    world = with_a_session(make, tmp_path)
    fields = {"authorization": None, **world.fields}
    return world, lambda: world.broker.delete("/session", **fields)


def token_of_a_session_revoked(make, tmp_path):
    world = with_a_session(make, tmp_path)
    return world, lambda: world.broker.delete("/tokens/one")


def token_of_tickets_revoked(make, tmp_path):
    world = make()
    world.add()
    world.fields, world.has_tickets = {}, True
    return world, lambda: world.broker.delete("/tokens/one")


WAYS = [
    revoked,
    expired,
    rotated,
    rotated_with_grace,
    closed_to_everyone,
    closed_by_the_first_token,
    key_gone,
    certificate_revoked,
    certificate_expired,
    session_ended,
    token_of_a_session_revoked,
    token_of_tickets_revoked,
]


def cases_of(world, kinds):
    """The cases that the requests of the world may begin."""
    for name, cases in CASES.items():
        is_allowed = world.is_admin or ROUTES[name].rights != ["admin"]
        if world.has_tickets:  # which are for GET
            is_allowed = ROUTES[name].methods[0] == "GET"
        for case in cases or ():
            if is_allowed and isinstance(case, kinds):
                yield name, case


def begin(world, kinds, are_others=False):
    """All of them, begun; and known to the broker."""
    begun = []
    for name, case in cases_of(world, kinds):
        one = copy.copy(case)
        one.name = name
        if are_others:
            one.path = one.other
        begun.append(one.begin(world, ROUTES[name]))
    world.broker.wait_threads()
    return begun


@pytest.mark.parametrize("way", WAYS)
def test_what_is_under_way_ends_with_its_token(make, tmp_path, way):
    world, end = way(make, tmp_path)
    world.back_up()
    held = begin(world, (Half, Poll, Stream, Long))
    completed = begin(world, Half, are_others=True)
    before, denied = world.state(), world.denied()
    end()
    wait_for("the end", lambda: is_refused(world))
    for one in completed:
        check_unauthorized(one.complete())
    n_requests = sum(not isinstance(one, Stream) for one in [*held, *completed])
    wait_for("all to end", lambda: world.denied() >= denied + n_requests)
    for one in held:
        one.check_end()
        one.connection.close()
    for name, route in ROUTES.items():
        if CASES[name] is SHORT and route.rights:
            assert is_refused(world, route.methods[0], world.path(route.path)), name
    assert world.state() == before


def is_refused(world, method="GET", path="/sets/news"):
    try:
        with world.connect() as connection:
            connection.ask(path, method, **world.fields)
            return connection.answer().status == 401
    except (ConnectionEnded, OSError):
        return bool(world.tls)  # the certificate has expired


# What has its body waits for its effect: behind others in the log, for a change of
# tokens, for the thread of backups.


def send_all(world, requests):
    """A connection for each of the requests, which the broker has then."""
    sent = []
    for method, path, body, *fields in requests:
        connection = world.connect()
        more = {"content_type": JSON, **world.fields}
        connection.ask(path, method, body, **more)
        sent.append(connection)
    world.broker.wait_threads()
    return sent


def test_what_waits_for_the_log_does_not_happen(make):
    world = make()
    world.add()
    first = world.broker.client()
    first.token = world.broker.token
    world.faults.arm(world.faults.SYNC, "tidings.db-wal", world.faults.HANG)
    others = Background(first.post, "/sets/other/changes", CHANGE, JSON)
    world.faults.wait()
    before = world.state()
    sent = send_all(
        world,
        [
            ("POST", "/sets/news/changes", CHANGE),
            ("POST", "/sets/born/changes", CHANGE),
            ("PUT", "/sets/born", "{}"),
            ("PATCH", "/sets/news", '{"rotateEntries":70}'),
            ("PUT", "/sets/news/harvest", json.dumps(HARVEST)),
            ("POST", "/sets/news/harvest?accept-deletions=7", None),
            ("DELETE", "/sets/news/harvest", None),
            ("POST", "/sets/news/rotate", None),
            ("DELETE", "/sets/large", None),
        ],
    )
    assert world.broker.delete("/tokens/one").status == 204
    world.faults.disarm()
    for connection in sent:
        check_unauthorized(connection.answer())
    assert others.join().status == 200
    after = world.state()
    after["/sets"]["sets"] = [
        each for each in after["/sets"]["sets"] if each["name"] != "other"
    ]
    assert after == before


# The revocation is a change of tokens, too: the others come behind it.
def test_changes_of_tokens_ask_behind_a_revocation(make):
    world = make()
    world.add()
    root = world.broker.client()
    root.token = world.broker.token
    before = world.state()
    world.faults.arm(world.faults.SYNC, "tokens.db-wal", world.faults.HANG)
    revoking = Background(root.delete, "/tokens/one")
    world.faults.wait()
    sent = send_all(
        world,
        [
            ("POST", "/tokens", '{"name":"born","admin":true}'),
            ("POST", "/tokens/spare/rotate", None),
            ("DELETE", "/tokens/spare", None),
        ],
    )
    world.faults.disarm()
    assert revoking.join().status == 204
    for connection in sent:
        check_unauthorized(connection.answer())
    assert world.state() == before


# The answer tells what was done.
def test_a_token_that_ends_itself_gets_its_answer(make):
    world = make()
    one = world.broker.holder(world.add())
    made = one.post("/tokens/one/rotate?grace=0")
    assert made.status == 200 and made.json()["token"]
    check_unauthorized(one.get("/tokens"))
    one = world.broker.holder(made.json()["token"])
    assert one.delete("/tokens/one").status == 204
    check_unauthorized(one.get("/tokens"))


@contextlib.contextmanager
def held(broker):
    """Meanwhile a backup waits before it copies (e2e/backup_http)."""
    lock = os.open(broker.data, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_backup_ends_with_the_token_that_asked_for_it(make, is_ready):
    world = make()
    world.add()
    root = world.broker
    outgoing = root.data / "outgoing"
    with contextlib.nullcontext() if is_ready else held(root):
        assert root.post("/backup", **world.fields).status == 202
        if is_ready:
            wait_for("a backup", lambda: root.head("/backup").status == 200)
        assert root.delete("/tokens/one").status == 204
    wait_for("its end", lambda: root.head("/backup").status == 404)
    wait_for("its files to be deleted", lambda: not outgoing.exists())
