"""doc/http.md has the inputs and answers of every route: it is the output of `tidingsd
--routes`, and this test provokes each status of it. A debug build of the broker ends at
a status that the row of its route lacks, so every other test of HTTP looks for
those."""

import datetime
import errno
import gzip
import hashlib
import itertools
import json
import re
from functools import cached_property

import jsonschema
import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.broker import ROOT, has_own_allocator
from tidings_test.content import MULTIPART, multipart
from tidings_test.faults import settle
from tidings_test.feed import Feed
from tidings_test.http import FORM, JSON, NDJSON, XML, ConnectionEnded, check_refused
from tidings_test.openapi import DESCRIPTION, FILE, OPENAPI
from tidings_test.routes import DOCUMENTS, PAGE, REFUSALS, ROUTES
from tidings_test.sets import HARVEST, MERGE_PATCH, change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

LIMITS = ("--max-body=64K", "--max-resources-body=64K", "--max-content=64K")

pytestmark = pytest.mark.broker(*LIMITS, *hub.QUICK, *hub.LOOPBACK)

HOUR = datetime.timedelta(hours=1)

numbers = itertools.count(1)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
# Design section 4
def test_the_page_has_what_the_broker_prints(run):
    for table in run("tidingsd", "--routes").output().split("\n\n"):
        assert table in PAGE, "doc/http.md has another table than tidingsd --routes"


# OpenAPI


def test_the_description_is_what_the_broker_prints_and_serves(run, broker):
    printed = "\n".join(run("tidingsd", "--openapi").out) + "\n"
    assert FILE.read_text() == printed, "tidingsd --openapi > broker/http/openapi.json"
    assert broker.get("/openapi.json").text == printed


def test_the_description_is_valid():
    jsonschema.Draft202012Validator.check_schema(OPENAPI)
    jsonschema.validate(DESCRIPTION.all, OPENAPI)
    components = DESCRIPTION.all["components"]
    ids = [operation["operationId"] for operation in DESCRIPTION.operations.values()]
    assert len(set(ids)) == len(ids)
    used = set(re.findall(r'"\$ref":"#/components/([^"]+)"', FILE.read_text()))
    there = {f"{kind}/{name}" for kind in components for name in components[kind]}
    there = {name for name in there if not name.startswith("securitySchemes/")}
    assert used <= there
    assert there - used == {f"responses/{status}" for status in UNUSED}
    for (method, path), operation in DESCRIPTION.operations.items():
        parameters = [DESCRIPTION.resolve(each) for each in operation["parameters"]]
        holes = [each["name"] for each in parameters if each["in"] == "path"]
        assert holes == re.findall(r"{(\w+)}", path), path
        assert operation["responses"].keys() > {"default"}, path
        assert any(status < "4" for status in operation["responses"]), path


# Any route may refuse with them, so they stand for themselves in the list of all.
UNUSED = (400, 405, 408, 414, 417, 426, 429, 431, 500, 501, 503, 505)


def test_the_description_has_the_routes_and_documents_of_the_page():
    rows = {
        (method, route.path): route
        for route in ROUTES.values()
        for method in route.methods
        if route.path != "a document"
    }
    documents = {(m, path): None for path in DOCUMENTS for m in ("GET", "HEAD")}
    assert DESCRIPTION.operations.keys() == rows.keys() | documents.keys()
    for key, route in rows.items():
        operation = DESCRIPTION.operations[key]
        statuses = {int(s) for s in operation["responses"] if s != "default"}
        may_answer = route.answers.keys() | route.refused
        assert may_answer <= statuses <= may_answer | {401, 403}, key
        if route.path != "/hub":
            assert operation["x-rights"] == route.rights, key
            assert bool(operation["security"]) == bool(route.rights), key


# Requests

A = "http://example.com/a"
INLINE = {"content": "inline", "resource_dump_keep": 1}


class World:
    """The objects of the cases, made when the first case needs them."""

    def __init__(self, broker, callbacks, site, start_broker, faults):
        self.broker = broker
        self.callbacks = callbacks
        self.site = site
        self.start_broker = start_broker
        self.faults = faults
        self._subscribers = {}
        self.begin = lambda: None  # called before the request of a case

    @cached_property
    def news(self):
        """A set with two entries."""
        news = self.broker.set().create()
        news.post(2)
        return news

    @cached_property
    def gone(self):
        """A set that was removed."""
        gone = self.broker.set().create()
        remove(gone)
        return gone

    @cached_property
    def inline(self):
        """A set that keeps content."""
        return self.broker.set().create(**INLINE)

    @cached_property
    def feed(self):
        """A relay."""
        return Feed(self.broker, self.site, self.callbacks).register()

    @cached_property
    def public(self):
        """A broker that others may reach."""
        return self.start_broker("--insecure-open")

    @cached_property
    def guarded(self):
        """A broker with tokens, whose clock can be set."""
        guarded = self.start_broker(env=self.faults.env)
        guarded.add_token("root", admin=True)
        guarded.add_token("everyone", subscribe=["none"])
        return guarded

    def brokers_with_faults(self):
        return [self.broker] + [self.guarded] * ("guarded" in vars(self))

    def active(self, topic):
        """The number of a subscription to the topic."""
        one = self._subscribers.get(topic)
        found = one and hub.find(topic, one)
        return found["id"] if found else self.joined(topic)

    def joined(self, topic):
        """The number of another subscription to the topic."""
        one = self._subscribers[topic] = self.callbacks.join(topic)
        return hub.find(topic, one)["id"]

    def subscriber(self, topic):
        return self._subscribers[topic]

    def pending(self, topic):
        """The number of a subscription that is not verified."""
        one = self.callbacks.add()
        one.always(cb.hang, of="verification")
        hub.check_taken(hub.subscribe(topic, one))
        return hub.wait_pending(topic, one)["id"]

    def path(self, template, of=None):
        """The path of a route: of the set or relay that is there, or of another."""
        name = getattr(self, of).name if of in ("gone", "inline") else of
        if "{token}" in template:
            return template.replace("{token}", name or self.add_token())
        if "{relay}" in template:
            name = name or self.feed.path.removeprefix("/relays/")
        elif "{set}" in template:
            name = name or self.news.name
        return re.sub(r"{(set|relay)}", name or "", template)

    def add_token(self, **rights):
        """Make a token of the guarded broker; its name."""
        name = f"t{next(numbers)}"
        self.guarded.add_token(name, **(rights or {"observe": True}))
        return name

    def topic(self, template):
        return self.feed if "{relay}" in template else self.news


@pytest.fixture
def world(broker, callbacks, site, start_broker, faults):
    return World(broker, callbacks, site, start_broker, faults)


def remove(one):
    assert one.delete().status == 204
    one.is_removed = True


# Cases: functions of the world and a route that return an answer.


def ask(
    query="", body=None, type=None, of=None, id=World.active, at="broker", **fields
):
    """A request of the route. `of`: of another set or relay. `id`: the number of a
    subscription, or a function that makes one. `at`: "public", the other broker."""

    def send(world, route):
        path = world.path(route.path, of)
        if "{id}" in path:
            number = id(world, world.topic(route.path)) if callable(id) else id
            path = path.replace("{id}", str(number))
        path = f"{path}?{query}" if query else path
        method = route.methods[0]
        broker = getattr(world, at)
        if "admin" in route.rights:
            broker = broker.administrator
        world.begin()
        return broker.request(method, path, body, type, **fields)

    return send


def ask_nobody(**more):
    """Requests of sets that are not there."""
    return {404: ask(of="none", id=1, **more), 410: ask(of="gone", id=1, **more)}


def head(**fields):
    """A request that reads only the head of its answer."""

    def send(world, route):
        path = world.path(route.path)
        world.begin()
        with world.broker.connect() as connection:
            connection.ask(path, route.methods[0], **fields)
            return connection.answer_head()

    return send


def document(path="changelist.xml", of="news", **fields):
    def send(world, route):
        one = getattr(world, of)
        world.begin()
        return one.get(path, **fields)

    return send


def form(**parameters):
    """A form to the hub, about the set that is there unless it says otherwise."""

    def send(world, route):
        usual = {"mode": "subscribe", "topic": world.news.topic, "callback": CALLBACK}
        usual.update(parameters)
        usual = {f"hub.{name}": value for name, value in usual.items()}
        world.begin()
        return hub.send(world.broker, {**usual, "after": parameters.get("after", 0)})

    return send


def form_of_none(world, route):
    return form(topic=f"{world.broker.url}/sets/none/notifications")(world, route)


def form_without_token(world, route):
    topic = world.guarded.set().create().topic
    body = f"hub.mode=subscribe&hub.topic={topic}&hub.callback={CALLBACK}"
    return world.guarded.post("/hub", body, FORM, authorization=None)


def ping(world, route):
    topic = world.news.topic
    world.begin()
    return hub.send(world.broker, {"hub.mode": "publish", "hub.url": topic})


def memento(world, _):
    """Ask a TimeGate."""
    world.inline.receipt(world.inline.send(*multipart([CHANGE], [(A, None, b"hello")])))
    return world.inline.get("timegate/" + A)


def document_of_relay(world, route):
    feed = world.feed
    world.begin()
    return feed.post("a document")


def half(connection, path, method, body, type, metric, **fields):
    """Send all but the end of a request, wait until the metric of the broker says
    that it is at work, and that none was before it, and return the end."""
    whole = connection.request_bytes(path, method, body, content_type=type, **fields)
    metrics = connection.broker.metrics
    wait_for("the end of earlier ones", lambda: metrics()[metric] == 0)
    connection.send(whole[:-20])
    wait_for("it to be at work", lambda: metrics()[metric] > 0)
    return whole[-20:]


def connect(world):
    connection = world.broker.connect()
    connection.broker = world.broker
    return connection


def key_at_work(world, route):
    news, key = world.news, {"idempotency_key": "slow"}
    with connect(world) as slow:
        half(slow, news.changes, "POST", [CHANGE], JSON, "tidings_ingest_bytes", **key)
        return news.send([CHANGE], **key)


def new_backup(world, route):
    """Begins to make a backup, when no other one is being made."""
    wait_for("the former one", lambda: world.broker.operator.head("/backup").status != 202)
    return world.broker.operator.post("/backup")


def whole_backup(world, route):
    new_backup(world, route)
    wait_for("the backup", lambda: world.broker.operator.head("/backup").status == 200)
    return world.broker.operator.get("/backup")


def removed_meanwhile(world, route):
    path = world.inline.changes
    with connect(world) as slow:
        end = half(slow, path, "POST", CONTENT, MULTIPART, "tidings_ingest_bytes")
        remove(world.inline)
        slow.send(end)
        return slow.answer()


def changed_much(world, route):
    """More bytes of changes than --max-body."""
    much = world.broker.set().create()
    for _ in range(3):
        much.post(20, size=2000)
    return much.get("resources")


def consent(n):
    """A consent to the deletion of as many; seven are held back."""

    def send(world, route):
        assert world.news.put_harvest(held_back=7).status == 204
        return ask(f"accept-deletions={n}")(world, route)

    return send


def harvested(world, route):
    assert world.news.put_harvest().status == 204
    return world.news.get("harvest")


def told_twice(world, route):
    path = world.path(route.path)
    with connect(world) as slow:
        half(slow, path, "PUT", RESOURCE, NDJSON, "tidings_uploads_at_work")
        answer = world.news.put_resources(RESOURCE, NDJSON)
    wait_for(
        "the slow one to be given up",
        lambda: world.broker.metrics()["tidings_uploads_at_work"] == 0,
    )
    return answer


def public_change(world, route):
    return world.public.set().create().change(upstream_topic=TOPIC["topic"])


def with_document(world, route):
    """A test of a relay's subscription: its last document."""
    assert world.feed.post("a document").status == 200
    return ask(body="", id=World.joined)(world, route)


def often(world, route):
    """Tests until the subscription gets no more, nor a repeat."""
    number = world.joined(world.topic(route.path))
    path = world.path(route.path).replace("{id}", str(number))
    test = path.replace("attempts", "test")
    while world.broker.post(test).status != 429:
        pass
    world.begin()
    return world.broker.post(f"{path}?delivery=x")


def again(world, route):
    """Ask for a delivery once more."""
    topic = world.topic(route.path)
    path = world.path(route.path).replace("{id}", str(world.joined(topic)))
    one = world.subscriber(topic)
    topic.post(f"document {next(numbers)}") if topic is world.feed else topic.post()
    delivery = one.deliveries.wait(1).id
    hub.wait_head(topic, one)
    world.begin()
    answer = world.broker.post(f"{path}?delivery={delivery}")
    one.faults.clear()  # a callback takes it for a fault
    return answer


def again_too_late(world, route):
    """Ask for a document that the relay no longer has, nor any memory of it."""
    broker = world.start_broker("--relay-documents", "1", *hub.LOOPBACK)
    feed = Feed(broker, world.site, world.callbacks).register()
    one = feed.join()
    for n in (1, 2, 3):
        feed.accept(f"document {n}" + 3_000_000 * "x")
        one.deliveries.wait(n)
        found = hub.wait_head(feed, one)
    path = f"{feed.path}/subscriptions/{found['id']}/attempts"
    world.begin()
    return broker.post(f"{path}?delivery={one.deliveries[0].id}")


def full_disk(world, route):
    full = world.start_broker(env=world.faults.env)
    world.faults.set_disk(1)
    wait_for("a full disk", lambda: full.get(route.path).status == 503)
    return full.get(route.path)


CHANGE = change(A)
PACKED = gzip.compress(json.dumps(CHANGE).encode())
RESOURCE = json.dumps({"loc": A})
CONTENT, _ = multipart([CHANGE], [(A, None, b"x" * 1000)])
TOPIC = {"topic": "http://b.example/t"}
CALLBACK = "http://127.0.0.2:1/"
SIMPLE = {"body": f"callbackURI={CALLBACK}", "type": FORM}
STRANGE = "<http://a.example/t>; rel=self, <http://a.example/h>; rel=hub"
LONG = "x" * (65 << 10)
SHORT = "x" * (2 << 10)
OCTETS = "application/octet-stream"
ELSEWHEN = "0000000000000000-1"  # a position of another epoch
EVENTS = {"accept": "text/event-stream"}
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
}

SUBSCRIPTIONS = {200: ask(), 400: ask("after=x")}
SUBSCRIPTION = {200: ask(), 404: ask(id=99999)}
ENDING = {204: ask(), 404: ask(id=99999)}
REDELIVERY = {
    200: ask("after=0", body="", id=World.joined),
    400: ask(body=""),
    404: ask("after=0", body="", id=99999),
    410: ask(f"after={ELSEWHEN}", body=""),
    413: ask("after=0", body=SHORT),
    422: ask("after=0", body="", id=World.pending),
}
AGAIN = {
    200: again,
    400: ask(body=""),
    404: ask("delivery=x", body=""),
    413: ask("delivery=x", body=SHORT),
    422: ask("delivery=x", body="", id=World.pending),
    429: often,
}
TESTING = {
    200: ask(body="", id=World.joined),
    404: ask(body="", id=99999),
    413: ask(body=SHORT),
    422: ask(body="", id=World.pending),
    429: often,
}

TOKEN = {"name": "press", "publish": ["news-*"], "expires": "2100-01-01T00:00:00Z"}


def expired_token(world, route):
    """Rotate a token that has expired."""
    end = datetime.datetime.now(datetime.UTC) + HOUR
    name = world.add_token(observe=True, expires=end.isoformat())
    world.faults.set_clock(HOUR.total_seconds())
    answer = world.guarded.post(f"/tokens/{name}/rotate")
    world.faults.set_clock(0)
    return answer


def another_key(world, route):
    """Make a key of the hub where there are as many as there may be."""
    for _ in range(3):
        world.broker.administrator.post("/hub/keys?grace=1000")
    world.begin()
    return world.broker.administrator.post("/hub/keys?grace=1000")


CASES = {
    "GET /sets": {200: ask(), 400: ask("after=."), 406: ask(accept="image/png")},
    "GET /sets/{set}": {200: ask(), 406: ask(accept=XML), **ask_nobody()},
    "PUT /sets/{set}": {
        200: ask(body={}),
        201: ask(of="born"),
        400: ask("new=", body={}),
        403: ask(body={"upstreamTopic": "http://a.example/t"}, at="public"),
        404: ask(body={}, of="NEWS"),
        409: ask("new=yes", body={}),
        413: ask(body=LONG, type=JSON),
        415: ask(body="{}", type=XML),
        422: ask(body={"none": 1}),
    },
    "PATCH /sets/{set}": {
        200: ask(body="{}", type=MERGE_PATCH),
        400: ask(body="{", type=JSON),
        403: public_change,
        **ask_nobody(body={}),
        413: ask(body=LONG, type=JSON),
        415: ask(body="{}", type=XML),
        422: ask(body={"none": 1}),
    },
    "DELETE /sets/{set}": {204: ask(of="inline"), **ask_nobody()},
    "GET /sets/{set}/changes": {
        200: ask("after=0&wait=1&change=created&prefix=http"),
        400: ask("wait=301"),
        404: ask(of="none"),
        406: ask(accept="image/png"),
        410: ask(f"after={ELSEWHEN}"),
    },
    "POST /sets/{set}/changes": {
        200: ask(body=PACKED, type=JSON, content_encoding="gzip"),
        400: ask(body="{", type=JSON),
        404: ask(body=[CHANGE], of="NEWS"),
        409: key_at_work,
        410: removed_meanwhile,
        411: head(content_type=MULTIPART, transfer_encoding="chunked"),
        413: ask(body=LONG, type=JSON),
        415: ask(body="a", type="text/plain"),
        422: ask(body=[change("a")]),
    },
    "GET /sets/{set}/stream": {
        101: head(**UPGRADE),
        200: head(**EVENTS),
        204: ask(last_event_id="gone", **EVENTS),
        400: ask("after=x", **EVENTS),
        **ask_nobody(**EVENTS),
        426: ask(accept=JSON),
    },
    "GET /stream": {
        101: head(**UPGRADE),
        200: head(**EVENTS),
        400: ask("set=.", **EVENTS),
        426: ask(accept=JSON),
    },
    "POST /stream": {
        200: head(body="{}", content_type=JSON, **EVENTS),
        400: ask(body="{", type=JSON, **EVENTS),
        413: ask(body=LONG * 5, type=JSON, **EVENTS),
        415: ask(body="{}", type=XML, **EVENTS),
        426: ask(body="{}", type=JSON, accept=JSON),
    },
    "GET /sets/{set}/resources": {
        200: ask(),
        206: ask(range="bytes=0-"),
        304: ask(if_none_match="*"),
        400: ask("as-of=9999-01-01"),
        **ask_nobody(),
        406: ask(accept="image/png"),
        412: ask(if_match='"x"'),
        413: changed_much,
        416: ask(range="bytes=999999-"),
    },
    "PUT /sets/{set}/resources": {
        200: ask("max-delete=100", body=RESOURCE, type=NDJSON),
        400: ask("max-delete=101", body=RESOURCE, type=NDJSON),
        404: ask(body=RESOURCE, type=NDJSON, of="NEWS"),
        409: told_twice,
        413: ask(body=LONG, type=NDJSON),
        415: ask(body=RESOURCE, type="text/plain"),
        422: ask(body='{"loc":"a"}', type=NDJSON),
    },
    "GET /sets/{set}/harvest": {
        404: ask(),
        200: harvested,
        410: ask(of="gone"),
    },
    "PUT /sets/{set}/harvest": {
        204: ask(body=HARVEST),
        400: ask(body="{", type=JSON),
        404: ask(body=HARVEST, of="NEWS"),
        413: ask(body=LONG, type=JSON),
        415: ask(body="{}", type=XML),
        422: ask(body={"colour": 1}),
    },
    "POST /sets/{set}/harvest": {
        204: consent(7),
        400: ask(),
        **ask_nobody(query="accept-deletions=7"),
        409: consent(6),
        413: ask("accept-deletions=7", body=SHORT),
    },
    "DELETE /sets/{set}/harvest": {204: ask(), **ask_nobody()},
    "GET /sets/{set}/rate": {200: ask(), **ask_nobody()},
    "POST /sets/{set}/rotate": {
        200: ask(body="as curl -d sends it", type=FORM),
        **ask_nobody(body=""),
        413: ask(body=SHORT),
    },
    "POST /sets/{set}/resourcelist": {
        200: lambda world, route: world.inline.build("resourcelist"),
        **ask_nobody(body=""),
        413: ask(body=SHORT),
    },
    "POST /sets/{set}/resourcedump": {
        200: lambda world, route: world.inline.build("resourcedump"),
        **ask_nobody(body=""),
        409: ask(body=""),
        413: ask(body=SHORT),
    },
    "POST /hub": {
        200: document_of_relay,
        202: form(),
        204: ping,
        400: form(mode="none"),
        401: form_without_token,
        403: ask(body="a", type=XML, link=STRANGE),
        404: form_of_none,
        410: form(after=ELSEWHEN),
        413: ask(body=SHORT * 9, type=FORM),
        415: ask(body="{}", type=JSON),
        422: form(secret="x" * 200),
    },
    "GET /hub/keys": {200: ask()},
    "POST /hub/keys": {
        200: ask("grace=0"),
        400: ask("grace=x"),
        409: another_key,
        413: ask(body=SHORT * 9),
    },
    "GET /sets/{set}/oai": {200: ask(), 400: ask("verb=%01"), **ask_nobody()},
    "POST /sets/{set}/oai": {
        200: ask(body="verb=Identify", type=FORM),
        400: ask(body="verb=%01", type=FORM),
        **ask_nobody(body=""),
        413: ask(body=SHORT * 9, type=FORM),
        415: ask(body={}),
    },
    "POST /sets/{set}/reconcile": {
        200: ask(body=b"a", type=OCTETS),
        400: ask(body=b"a\0", type=OCTETS),
        404: ask(of="none", body=b"a", type=OCTETS),
        410: ask(f"after={ELSEWHEN}", body=b"a", type=OCTETS),
        413: ask(body=bytes(256 * 1024 + 1), type=OCTETS),
        415: ask(body={}),
    },
    "POST /sets/{set}/subscribe": {
        202: ask(**SIMPLE),
        400: ask(body="callbackURI=x", type=FORM),
        **ask_nobody(**SIMPLE),
        413: ask(body=SHORT * 9, type=FORM),
        415: ask(body={}),
    },
    "GET /sets/{set}/subscriptions": {**SUBSCRIPTIONS, **ask_nobody()},
    "GET /sets/{set}/subscriptions/{id}": {**SUBSCRIPTION, **ask_nobody()},
    "DELETE /sets/{set}/subscriptions/{id}": {**ENDING, **ask_nobody()},
    "POST /sets/{set}/subscriptions/{id}/redeliver": REDELIVERY,
    "GET /sets/{set}/subscriptions/{id}/attempts": {**SUBSCRIPTION, **ask_nobody()},
    "POST /sets/{set}/subscriptions/{id}/attempts": {
        **AGAIN,
        410: ask("delivery=x", body="", of="gone", id=1),
    },
    "POST /sets/{set}/subscriptions/{id}/test": {**TESTING, **ask_nobody(body="")},
    "GET /relays": {200: ask()},
    "GET /relays/{relay}": {200: ask(), 404: ask(of="none")},
    "PUT /relays/{relay}": {
        200: lambda world, route: world.feed.put(),
        201: ask(body=TOPIC, of="born"),
        400: ask(body="{", type=JSON),
        403: ask(body=TOPIC, at="public"),
        404: ask(body=TOPIC, of="BORN"),
        409: ask(body=TOPIC),
        413: ask(body=SHORT * 9, type=JSON),
        415: ask(body="{}", type=XML),
        422: ask(body={}),
    },
    "DELETE /relays/{relay}": {
        403: ask(at="public"),
        204: ask(),
        404: ask(of="none"),
    },
    "GET /relays/{relay}/subscriptions": {**SUBSCRIPTIONS, 404: ask(of="none")},
    "GET /relays/{relay}/subscriptions/{id}": SUBSCRIPTION,
    "DELETE /relays/{relay}/subscriptions/{id}": ENDING,
    "POST /relays/{relay}/subscriptions/{id}/redeliver": REDELIVERY,
    "GET /relays/{relay}/subscriptions/{id}/attempts": SUBSCRIPTION,
    "POST /relays/{relay}/subscriptions/{id}/attempts": {**AGAIN, 410: again_too_late},
    "POST /relays/{relay}/subscriptions/{id}/test": {**TESTING, 200: with_document},
    "GET /bridges": {200: ask()},
    "GET /cluster": {200: ask()},
    "GET /tokens": {200: ask()},
    "POST /tickets": {201: ask(), 413: ask(body=SHORT * 9)},
    "POST /session": {
        200: ask("renew=yes"),
        201: ask(),
        400: ask("renew=perhaps"),
        401: ask(at="guarded", authorization=None),
        403: ask(sec_fetch_site="same-site"),
        410: ask("renew=yes", at="guarded"),
        413: ask(body=SHORT * 9),
    },
    "DELETE /session": {204: ask()},
    "POST /tokens": {
        201: ask(body=TOKEN, at="guarded"),
        400: ask(body="{", type=JSON),
        409: ask(body={"name": "root", "admin": True}, at="guarded"),
        413: ask(body=SHORT * 9, type=JSON),
        415: ask(body="{}", type=XML),
        422: ask(body={"name": "none"}),
    },
    "GET /tokens/self": {200: ask()},
    "GET /tokens/{token}": {200: ask(at="guarded"), 404: ask()},
    "DELETE /tokens/{token}": {204: ask(at="guarded"), 404: ask()},
    "POST /tokens/{token}/rotate": {
        200: ask(at="guarded"),
        400: ask("grace=x"),
        404: ask(),
        409: expired_token,
        413: ask(body=SHORT * 9),
        422: ask(at="guarded", of="everyone"),
    },
    "POST /backup": {
        202: new_backup,
        413: ask(body=SHORT * 9),
    },
    "GET /backup": {
        200: whole_backup,
        404: ask(at="guarded"),
    },
    "GET /healthz": {200: ask()},
    "GET /readyz": {200: ask(), 503: full_disk},
    "GET /status": {200: ask()},
    "GET /config": {200: ask()},
    "GET /metrics": {200: ask()},
    "GET a document": {
        200: document(),
        206: document(range="bytes=0-1"),
        302: memento,
        304: document(if_none_match="*"),
        400: document("resourcelist.xml?page=x", accept="text/html"),
        404: document("resourcelist.xml"),
        406: document(accept_encoding="identity;q=0"),
        410: document(of="gone"),
        412: document(if_match='"x"'),
        416: document(range="bytes=999999-"),
    },
}

# Statuses that take many requests, long, or luck, and the tests that see them.
ELSEWHERE = {
    "PATCH /sets/{set}": {409: "e2e/sets"},
    "POST /sets/{set}/resourcelist": {202: "e2e/resourcelist"},
    "POST /sets/{set}/resourcedump": {202: "e2e/resourcelist"},
    "PUT /sets/{set}/resources": {410: "e2e/resources_others"},
    "POST /hub": {
        429: "e2e/hub_http",
        502: "unit/hub/foreign_source",
        504: "unit/hub/foreign_source",
    },
    "POST /sets/{set}/subscribe": {422: "e2e/hub_hostile", 429: "e2e/hub_http"},
    "DELETE /relays/{relay}": {409: "unit/hub/relay"},
    "POST /backup": {409: "e2e/backup_http"},
    "GET /backup": {202: "e2e/backup_http", 409: "e2e/backup_http"},
}


# Design section 4
@pytest.mark.parametrize("name", ROUTES)
def test_a_route_answers_as_the_page_says(name, world):
    route, cases = ROUTES[name], CASES[name]
    statuses = route.answers.keys() | route.refused
    for test in ELSEWHERE.get(name, {}).values():
        assert list((ROOT / "tests").glob(f"{test}_test.*")), test
    assert statuses == cases.keys() | ELSEWHERE.get(name, {}).keys()
    for status, case in cases.items():
        answer = case(world, route)
        assert answer.status == status, answer
        type = (answer["Content-Type"] or "").split(";")[0]
        types = [word for word in route.answers.get(status, ()) if "/" in word]
        assert not types or type in types, answer
        path = route.path.replace("a document", "/sets/{set}/changelist.xml")
        DESCRIPTION.check(answer, route.methods[0], path)


def allowed(path):
    """The methods of a path, as Allow has them."""
    if path in DOCUMENTS:
        return "GET, HEAD"
    routes = [route for route in ROUTES.values() if route.path == path]
    return ", ".join(method for route in routes for method in route.methods)


# R-025, W-038. RFC 5789 section 3.1: OPTIONS says what a PATCH may be.
def test_other_methods_are_refused(world, broker):
    paths = {route.path for route in ROUTES.values()} - {"a document"}
    for path in [*paths, *DOCUMENTS]:
        allow = allowed(path)
        filled = numbered(world.path(path)).replace("{id}", "1")
        for method in METHODS:
            if method in allow.split(", "):
                continue
            body = b"" if method in ("POST", "PUT", "PATCH") else None
            answer = broker.request(method, filled, body)
            assert (answer.status, answer["Allow"]) == (405, allow), (method, path)
        answer = broker.request("OPTIONS", filled)
        assert (answer.status, answer["Allow"]) == (204, allow), path
        patches = f"{MERGE_PATCH}, {JSON}" if "PATCH" in allow else None
        assert answer["Accept-Patch"] == patches
    assert broker.request("OPTIONS", "*").status == 204


# RFC 9110 section 15.5.16. The text has the option of curl that is right.
@pytest.mark.parametrize("name", [name for name in ROUTES if 415 in ROUTES[name].refused])
def test_a_body_of_another_type_is_told_what_may_come(name, world):
    answer = CASES[name][415](world, ROUTES[name])
    field = answer["Accept-Patch" if name.startswith("PATCH") else "Accept"]
    said = re.search("-H 'Content-Type: ([^']*)'", answer.text)
    assert answer.status == 415 and said, answer
    assert name == "POST /hub" or said.group(1) in field.split(", "), answer


# Documents


BYTES = hashlib.sha256(b"hello").hexdigest()


def numbered(path):
    path = path.replace("{page}", "hub.html").replace("{digest}", BYTES).replace("{uri}", A).replace("{tile}", "0/000.p/1")
    path += "?seq=1" if path.endswith("/proof") else ""
    path = path.replace("{epoch}", "0" * 16)
    return re.sub(r"{(list|last)}", "000000000001", path)


# Only a broker with many sets has one.
ABSENT = {"/descriptions/{list}-{last}.xml"}

# The type is that of an entry.
ANY = "*/*"


def test_documents_have_their_media_types(world, broker):
    news = world.inline
    locs = (A, f"{news.url}/r/{A}")
    changes = [{**CHANGE, "loc": loc} for loc in locs]
    parts = [(loc, "text/csv", b"hello") for loc in locs]
    assert news.send(*multipart(changes, parts)).status == 200
    news.build("resourcelist")
    news.build("resourcedump")
    news.rotate()
    wait_for("a Change Dump", lambda: news.get("changedump.xml").status == 200)
    for path, types in DOCUMENTS.items():
        for type in types:
            path_of_set = world.path(path, "inline").replace("{epoch}", news.state()["epoch"])
            answer = broker.get(numbered(path_of_set), accept=type)
            status = 404 if path in ABSENT else 302 if path == "/doc" or "/timegate/" in path else 200
            assert answer.status == status, (path, answer)
            got = (answer["Content-Type"] or "").split(";")[0]
            assert path in ABSENT or type in (ANY, got), path
            DESCRIPTION.check(answer, "GET", path)
            head = broker.head(numbered(world.path(path, "inline")), accept=type)
            DESCRIPTION.check(head, "HEAD", path)


# Refusals of any route


def raw(line, *fields, host=True):
    """A request as it is."""

    def send(broker):
        with broker.connect() as connection:
            lines = [line, f"Host: {connection.host}", *fields] if host else [line]
            connection.send("\r\n".join([*lines, "", ""]))
            return connection.answer()

    return send


GET = "GET /healthz HTTP/1.1"
HANDSHAKE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 12",
)

REFUSED = {
    400: raw(GET, host=False),
    403: raw(GET, "Origin: http://evil.example"),
    404: raw("GET /nowhere HTTP/1.1"),
    405: raw("DELETE /healthz HTTP/1.1"),
    414: raw(f"GET /{'x' * 8192} HTTP/1.1"),
    417: raw(GET, "Expect: more"),
    426: raw("GET /sets/a/stream HTTP/1.1", *HANDSHAKE),
    431: raw(GET, f"Accept: {'x' * 8192}"),
    501: raw("BREW / HTTP/1.1"),
    505: raw("GET / HTTP/3.0"),
}

# The statuses of all routes that the cases above have provoked.
OF_ROUTES = {410, 411, 413, 415}

HASTY = ("--request-timeout", "0.5", "--min-rate", "1K")


def test_what_no_route_takes_is_refused(broker, start_broker, faults):
    assert REFUSALS == REFUSED.keys() | OF_ROUTES | {401, 408, 429, 500, 503}
    for status, send in REFUSED.items():
        answer = send(broker)
        assert answer.status == status, answer

    guarded = start_broker()
    guarded.add_token("root", admin=True)
    check_refused(guarded.get("/sets", authorization=None), 401)

    hasty = start_broker(*HASTY)
    check_refused(hasty.post_too_slowly(hasty.set().changes, JSON, "["), 408)

    strict = start_broker("--client-streams", "1", env=faults.env)
    news = strict.set().create(content="inline")
    with strict.connect() as stream:
        stream.ask(news.stream, **EVENTS)
        assert stream.answer_head().status == 200
        check_refused(news.get("stream", **EVENTS), 429)

    post = multipart([CHANGE], [(A, None, b"hello")])
    faults.arm(faults.SYNC, "/content/", errno.EIO)
    check_refused(news.send(*post), 500)
    faults.disarm()
    faults.set_disk(1)
    wait_for("a full disk", lambda: strict.get("/readyz").status == 503)
    check_refused(news.send(*post), 503)



# Memory

# What another try of the same request may meet, if the first was done: the client
# lost only the answer.
DONE = {
    "DELETE /relays/{relay}": {404},
    "DELETE /sets/{set}": {410},
    "DELETE /tokens/{token}": {404},
    "POST /tokens": {409},
    "PUT /relays/{relay}": {200},
    "PUT /sets/{set}": {200},
    "PUT /sets/{set}/resources": {409},  # the broker goes on with the first
}


def try_case(case, world, route):
    """The status of the case's answer; 503, too, if the broker has hung up."""
    try:
        return case(world, route).status
    except (ConnectionEnded, ConnectionError):
        return 503


def begin_random(another):
    """Let the broker take random bytes: it does to read the first entries from the disk,
    here those of another set than the request's. For the first of a process libcrypto
    makes 2500 allocations, whoever asks. Each of them that fails ends the broker, and
    the next request would meet the next one: forty starts for each case that reads a
    log or makes a key. The long form has them all."""
    assert another.get("resources").status == 200


# Allocations that a request causes fail in turn, and nothing else. Then the broker
# answers 503, which means "later", or hangs up, perhaps since it ends; or it does what
# was asked. It never says that the request is wrong, or that there is no such thing: a
# Source drops a change that is refused like that. Then, or once it has started again, it
# does what was asked.
@pytest.mark.parametrize("name", ROUTES)
def test_a_request_that_finds_no_memory_is_never_refused_for_good(
    name, callbacks, site, start_broker, faults
):
    if has_own_allocator():
        pytest.skip("no allocation fails")
    options = (*LIMITS, *hub.QUICK, *hub.LOOPBACK)
    broker = start_broker(*options, env=faults.env)
    world = World(broker, callbacks, site, start_broker, faults)
    another = broker.set().create()
    another.post()
    route = ROUTES[name]
    step, start = soak(61, 1), 7 * list(ROUTES).index(name)
    for status, case in CASES[name].items():
        allowed = {status, 503} | DONE.get(name, set())
        met, n = True, start % step
        start += 5
        while met:
            world.begin = lambda: faults.arm(
                faults.MEMORY, "", errno.ENOMEM, after=n, once=True
            )
            got = try_case(case, world, route)
            met = faults.disarm()
            assert got in allowed, f"{status}: {got} without allocation {n}"
            for one in world.brokers_with_faults():
                if settle(one, faults) and one is broker and soak(True, False):
                    begin_random(another)
            n += step
        assert broker.head("/healthz").status == 200
