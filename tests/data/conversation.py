"""A conversation with a broker, by HTTP and by the command line: recorded once, repeated
ever after (conversation.jsonl).

    conversation.write(path, Talk(broker, callbacks).hold(conversation.STEPS))
    for step in conversation.read(path):
        lost = conversation.lost(step["answer"], talk.answer(step))

A line is a step with its `answer`: the status, the media type, the names of promised
header fields, the relations of links, and the shape of the body: of JSON the members with
their types, of XML the elements and attributes. A later version may add to each of them.
"""

import json
import re
import subprocess
import xml.etree.ElementTree

from tidings_test.broker import PROGRAMS
from tidings_test.http import EVENTS, FORM, JSON, NDJSON, XML
from tidings_test.stream import EventSource, WebSocket
from tidings_test.waiting import wait_for

# Header fields of answers and deliveries that doc/compatibility.md promises.
PROMISED = (
    *("Accept-Ranges", "Allow", "Cache-Control", "Content-Range", "ETag"),
    *("Idempotent-Replayed", "Last-Modified", "Location", "Memento-Datetime"),
    *("Retry-After", "Vary", "WWW-Authenticate", "X-Request-Id", "Tidings-Delivery", "webhook-id"),
    *("webhook-signature", "webhook-timestamp", "X-Hub-Signature"),
)

ENTRY = {
    "loc": "http://example.com/a",
    "change": "created",
    "datetime": "2026-04-01T18:10:00Z",
    "lastmod": "2026-04-01T18:09:00Z",
    "hash": {"sha-256": "0" * 64},
    "length": 3,
    "type": "text/csv",
    "encoding": "gzip",
    "changefreq": "daily",
    "priority": 0.5,
    "tags": ["tide"],
    "attributes": [{"ns": "urn:example", "name": "place", "value": "here"}],
    "links": [
        {
            "rel": "alternate",
            "href": "http://example.com/b",
            "type": "text/csv",
            "length": 3,
            "modified": "2026-04-01T18:09:00Z",
            "pri": 1,
            "hash": {"md5": "0" * 32},
        }
    ],
    "title": "A title",
    "summary": "A summary",
    "author": "An author",
    "data": {"price": 3},
}
NOTIFICATION = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/">'
    '<rs:md capability="change-notification"/>'
    "<url><loc>http://example.com/x</loc>"
    '<rs:md change="updated" datetime="2026-04-01T18:10:00Z"/></url></urlset>'
)
WITH_CONTENT = (
    '--b\r\nContent-Type: application/json\r\n\r\n[{"loc":"http://example.com/t",'
    '"change":"created"}]\r\n--b\r\nContent-Location: http://example.com/t\r\n'
    "Content-Type: text/plain\r\n\r\nbytes\r\n--b--\r\n"
)
SUBSCRIBE = (
    "hub.mode=subscribe&hub.topic={url}/sets/news/notifications&hub.callback={callback}"
    "&hub.secret=whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3&form=json"
)


def ask(request, body=None, type=None, **more):
    """A request; more: headers, keep, until."""
    step = {"request": request, "body": body, "type": type, **more}
    return {key: value for key, value in step.items() if value is not None}


def run(*words, **more):
    """A command."""
    return {"run": list(words), **more}


def accepting(type, **headers):
    return {"headers": {"Accept": type, **headers}}


# What was said to 1.0.0. A later version adds what it adds at the end of a part.
STEPS = [
    # Sets and posts
    ask("PUT /sets/news", '{"title":"News","rotateEntries":100}', JSON),
    ask("PUT /sets/news", '{"title":"News"}', JSON),
    ask("PATCH /sets/news", '{"title":"New"}', "application/merge-patch+json"),
    ask("POST /sets/news/changes", json.dumps([ENTRY]), JSON,
        headers={"Idempotency-Key": "k"}),
    ask("POST /sets/news/changes", json.dumps([ENTRY]), JSON,
        headers={"Idempotency-Key": "k"}),
    ask("POST /sets/news/changes",
        '{"loc":"http://example.com/b","change":"deleted"}\n', NDJSON),
    ask("POST /sets/news/changes", NOTIFICATION, XML),
    ask("POST /sets/news/changes",
        '{"specversion":"1.0","id":"1","source":"http://example.com/",'
        '"type":"org.example.changed","subject":"http://example.com/c"}',
        "application/cloudevents+json"),
    ask("GET /sets"),
    ask("GET /sets/news", keep={"epoch": "epoch"}),
    ask("GET /sets/news/changes?after=0", **accepting(JSON)),
    ask("GET /sets/news/changes?after=0", **accepting(XML)),
    ask("GET /sets/news/changes?after={epoch}-2&change=updated", **accepting(JSON)),
    ask("GET /sets/news/changes?since=2026-01-01T00:00:00Z&data=no", **accepting(JSON)),
    ask("GET /sets/news/rate"),
    # Refusals
    ask("POST /sets/news/changes", '[{"loc":"http://example.com/a"}]', JSON),
    ask("POST /sets/news/changes", "[", JSON),
    ask("POST /sets/news/changes", "a", "text/plain"),
    ask("GET /sets/none"),
    ask("DELETE /sets"),
    ask("GET /sets/news", **accepting("image/png")),
    ask("GET /sets/news/changes?after=feedfeedfeedfeed-1", **accepting(JSON)),
    # Streams
    {"websocket": "/sets/news/stream?after=0"},
    {"events": "/sets/news/stream?after=0"},
    {"events": "/stream?set=news&data=no", "n": 1},
    # Documents
    ask("POST /sets/news/rotate"),
    ask("GET /.well-known/resourcesync"),
    ask("GET /robots.txt"),
    ask("GET /sets/news/capabilitylist.xml"),
    ask("GET /sets/news/changelist.xml"),
    ask("GET /sets/news/changelist-archive.xml"),
    ask("GET /sets/news/changes/latest.xml"),
    ask("GET /sets/news/changes/000000000001.xml", keep={"etag": "ETag"}),
    ask("GET /sets/news/changes/000000000001.xml", headers={"If-None-Match": "{etag}"}),
    ask("GET /sets/news/changes/000000000001.xml", headers={"Range": "bytes=0-9"}),
    ask("HEAD /sets/news/notifications"),
    ask("GET /sets/news/framework-notifications"),
    ask("PUT /sets/all/resources",
        '{"loc":"http://example.com/1","length":1}\n{"loc":"http://example.com/2"}\n',
        NDJSON),
    ask("PUT /sets/all/resources", '{"loc":"http://example.com/1","length":2}\n', NDJSON),
    ask("POST /sets/all/resourcelist"),
    ask("GET /sets/all/resourcelist.xml"),
    ask("GET /sets/all/resources", **accepting(JSON)),
    ask("GET /sets/all/oai?verb=Identify"),
    ask("GET /sets/all/oai?verb=ListRecords&metadataPrefix=oai_dc"),
    # Bytes of resources
    ask("PUT /sets/texts", '{"content":"inline","contentVersions":"all"}', JSON),
    ask("POST /sets/texts/changes", WITH_CONTENT, "multipart/related; boundary=b"),
    ask("GET /sets/texts", until={"content.last": 1}),
    ask("POST /sets/texts/resourcedump"),
    ask("GET /sets/texts/resourcedump.xml"),
    ask("GET /sets/texts/timegate/http://example.com/t"),
    ask("GET /sets/texts/timemap/json/http://example.com/t"),
    # Subscriptions
    ask("POST /hub", SUBSCRIBE, FORM),
    ask("GET /sets/news/subscriptions", until={"subscriptions.0.state": "active"},
        keep={"id": "subscriptions.0.id"}),
    ask("POST /sets/news/changes", json.dumps(ENTRY), JSON),
    {"delivery": 1},
    ask("GET /sets/news/subscriptions/{id}", until={"lag": 0}),
    ask("GET /sets/news/subscriptions/{id}/attempts", until={"attempts.0.entries": 1}),
    ask("POST /hub", "hub.mode=subscribe", FORM),
    ask("GET /hub/keys"),
    ask("PUT /relays/blog", '{"topic":"https://blog.example/feed"}', JSON),
    ask("GET /relays/blog"),
    ask("GET /relays"),
    # Operating
    ask("GET /bridges"),
    ask("GET /healthz"),
    ask("GET /readyz"),
    ask("GET /status"),
    # The command line
    run("tidings", "set", "list", "{url}/", "--json"),
    run("tidings", "set", "show", "{url}/sets/news", "--json"),
    run("tidings", "set", "rotate", "{url}/sets/news", "--json"),
    run("tidings", "subscriptions", "list", "{url}/sets/news", "--json"),
    run("tidings", "status", "{url}/", "--json"),
    run("tidings", "bridges", "{url}/", "--json"),
    run("tidings", "relays", "{url}/", "--json"),
    run("tidings", "get", "{url}/sets/news", "--json"),
    run("tidings", "tail", "{url}/sets/news", "--count", "1",
        "--format", "json"),
    run("tidings", "follow", "{url}/sets/news", "--from-start", "--count", "2",
        "--format", "json"),
    run("tidings", "verify", "{url}/sets/news", "--json"),
    run("tidings", "publish", "{url}/sets/news", "--change", "updated",
        "http://example.com/a"),
    run("tidings", "publish", "{url}/sets/news", "--change", "vanished",
        "http://example.com/a"),
    run("tidings", "get", "{url}/sets/none"),
    run("tidings", "follow", "{url}/sets/news", "--after", "feedfeedfeedfeed-1"),
    run("tidings", "follow", "{url}/sets/none", "--unknown"),
    # The end of a set
    ask("DELETE /sets/all"),
    ask("GET /sets/all"),
    run("tidings", "get", "{url}/sets/all"),
    # Tokens: the first one closes the broker.
    ask("POST /tokens", '{"name":"root","admin":true}', JSON, keep={"token": "token"},
        operator=True),
    ask("GET /sets/news"),
    ask("POST /sets/news/changes", json.dumps(ENTRY), JSON),
    ask("GET /tokens", headers={"Authorization": "Bearer {token}"}),
    ask("GET /tokens/self", headers={"Authorization": "Bearer {token}"}),
    ask("POST /tokens", '{"name":"reader","subscribe":["*"]}', JSON,
        headers={"Authorization": "Bearer {token}"}, keep={"reader": "token"}),
    ask("POST /sets/news/changes", json.dumps(ENTRY), JSON,
        headers={"Authorization": "Bearer {reader}"}),
    ask("POST /tokens/reader/rotate", headers={"Authorization": "Bearer {token}"}),
    ask("POST /tickets", headers={"Authorization": "Bearer {token}"}),
    ask("GET /config", headers={"Authorization": "Bearer {token}"}),
    ask("DELETE /tokens/reader", headers={"Authorization": "Bearer {token}"}),
]  # fmt: skip


class Talk:
    """A conversation with a broker whose hub knows one callback."""

    def __init__(self, broker, callback):
        self.broker, self.callback = broker, callback
        self.known = {"url": broker.url, "callback": callback.url}

    def hold(self, steps):
        """Record the steps, each with its answer."""
        return [{**step, "answer": self.answer(step)} for step in steps]

    def answer(self, step):
        """Do a step; its answer as it is recorded."""
        if "run" in step:
            return self._run(step)
        if "websocket" in step:
            stream = WebSocket(self.broker, step["websocket"])
            texts = [stream.read_text(), stream.read_text()]
            stream.leave()
            return {"messages": [shape(json.loads(text)) for text in texts]}
        if "events" in step:
            events = EventSource(self.broker, step["events"])
            messages = []
            while len(messages) < step.get("n", 2):
                assert events.read_event()
                messages.append({events.event: shape(json.loads(events.data))})
            events.leave()
            return {"messages": messages}
        if "delivery" in step:
            delivery = self.callback.deliveries.wait(step["delivery"])
            return self._described(delivery, delivery.body)
        return self._ask(step)

    def filled(self, text):
        """A text with what was kept in place of {NAME}."""
        for name, value in self.known.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def _ask(self, step):
        method, path = self.filled(step["request"]).split(" ", 1)
        headers = {
            name.replace("-", "_").lower(): self.filled(value)
            for name, value in step.get("headers", {}).items()
        }
        client = self.broker.operator if "operator" in step else self.broker
        body = self.filled(step["body"]) if "body" in step else None

        def once():
            answer = client.request(method, path, body, step.get("type"), **headers)
            wanted = step.get("until", {}).items()
            return all(found(answer, at) == value for at, value in wanted) and answer

        answer = wait_for(f"{step['request']}: {step.get('until')}", once)
        for name, at in step.get("keep", {}).items():
            self.known[name] = answer[at] or found(answer, at)
        recorded = {"status": answer.status, **self._described(answer, answer.body)}
        return {key: value for key, value in recorded.items() if value not in (None, [])}

    def _run(self, step):
        program, *words = map(self.filled, step["run"])
        command = [PROGRAMS[program], *words]
        done = subprocess.run(command, stdin=-3, capture_output=True, text=True)
        recorded = {"status": done.returncode}
        lines = done.stdout.splitlines()
        if lines and all(line[:1] in "{[" for line in lines):
            recorded["lines"] = [shape(json.loads(line)) for line in lines]
        elif done.stdout[:1] in ("{", "["):
            recorded["lines"] = [shape(json.loads(done.stdout))]
        return recorded

    def _described(self, head, body):
        links = re.findall(r'rel="?([^",;]+)', ", ".join(head.all("Link")))
        type = head["Content-Type"]
        return {
            "type": type and re.sub("boundary=.*", "boundary", type),
            "headers": [name for name in PROMISED if head[name] is not None],
            "links": sorted(set(links)),
            "body": None if head["Content-Range"] else body_shape(type or "", body),
        }


def found(answer, path):
    """The member of the JSON of an answer: "subscriptions.0.state"; None: none."""
    value = answer.json() if answer.body else None
    for part in path.split("."):
        if isinstance(value, list):
            value = value[int(part)] if len(value) > int(part) else None
        elif isinstance(value, dict):
            value = value.get(part)
    return value


# Shapes

NAMESPACES = {
    "http://www.sitemaps.org/schemas/sitemap/0.9": "",
    "http://www.openarchives.org/rs/terms/": "rs:",
    "http://www.w3.org/2005/Atom": "atom:",
    "http://www.openarchives.org/OAI/2.0/": "oai:",
}


def body_shape(type, body):
    if not body:
        return None
    if "json" in type and EVENTS not in type:
        return shape(json.loads(body))
    if "xml" in type and b"<" in body[:1]:
        return sorted(elements(xml.etree.ElementTree.fromstring(body)))
    return None


def shape(value):
    """The type of a value of JSON: a name; of an object its members; of an array the
    merged shape of its elements."""
    if isinstance(value, dict):
        return {name: shape(below) for name, below in value.items()}
    if isinstance(value, list):
        whole = "null"
        for below in value:
            whole = merged(whole, shape(below))
        return [whole]
    if value is None:
        return "null"
    names = {bool: "boolean", int: "number", float: "number", str: "string"}
    return names[type(value)]


def merged(one, other):
    if isinstance(one, dict) and isinstance(other, dict):
        names = [*one, *(name for name in other if name not in one)]
        return {
            name: merged(one.get(name, "null"), other.get(name, "null")) for name in names
        }
    return other if one == "null" else one


def elements(element, path=""):
    """Paths of elements and attributes, without those of posts."""
    space, _, name = element.tag.rpartition("}")
    path += f"/{NAMESPACES.get(space[1:], '')}{name}"
    paths = {path}
    for name in element.attrib:
        space, _, name = name.rpartition("}")
        paths.add(f"{path}@{NAMESPACES.get(space[1:], space and 'td:')}{name}")
    for below in element:
        paths |= elements(below, path)
    return paths


def lost(kept, now, path=""):
    """What an answer lacks, or has with another type, each as a sentence."""
    if kept == "null" or kept == now:
        return []
    if isinstance(kept, dict) and isinstance(now, dict):
        return [
            said
            for name, below in kept.items()
            for said in (
                lost(below, now[name], f"{path}.{name}")
                if name in now
                else [f"{path}.{name} is missing"]
            )
        ]
    if isinstance(kept, list) and isinstance(now, list):
        if all(isinstance(each, str) for each in kept) and len(now) != 1:
            return [f"{path} lacks {each}" for each in kept if each not in now]
        if len(kept) == len(now):
            pairs = zip(kept, now)
            return [s for one, other in pairs for s in lost(one, other, f"{path}[]")]
    return [f"{path} was {json.dumps(kept)[:200]}, is {json.dumps(now)[:200]}"]


# The file


def write(path, steps):
    path.write_text("".join(json.dumps(step) + "\n" for step in steps))


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
