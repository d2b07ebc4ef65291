"""A broker's work before its data directory is kept: a little of everything.

    story = Story(directory)
    story.run()
    story.write_facts()

`facts` are what a test has to know to go on with the data. It also knows by name the
sets "news", "files", "fetched", "named" and "gone", the relay "blog", the callbacks
/cb/behind and /cb/pending, and the pages /files/late.txt and /otherhub.
"""

import base64
import gzip
import hashlib
import json
import sqlite3
import subprocess
import time

from data import kept
from data.surroundings import URL, Surroundings
from tidings_test import callbacks as cb
from tidings_test import http, hub
from tidings_test.broker import PROGRAMS, Broker
from tidings_test.faults import Faults
from tidings_test.http import FORM, JSON, NDJSON, XML
from tidings_test.mqtt import Mosquitto
from tidings_test.sets import change, entries, example
from tidings_test.waiting import wait_for

PUBLIC_URL = "http://localhost:8787"
HUB = f"{PUBLIC_URL}/hub"

# Limits are low, so that a few entries fill lists, parts, packages and indexes.
OPTIONS = [
    *("--public-url", PUBLIC_URL),
    *("--threads", 2),
    *("--index-lists", 2),
    *("--description-sets", 6),
    *("--rotate-age", 0),
    *("--resource-list-every", 0),
    *("--resource-list-entries", 3),
    *("--resource-dump-every", 0),
    *("--package-bytes", "4K"),
    *("--message-bytes", "512K"),
    *("--heartbeat", 3600),
    *("--hub-lease-max", 7776000),
    *("--hub-retry-first", 0.05),
    *("--hub-retry-max", 0.2),
    *("--hub-give-up", 31536000),
    *("--hub-timeout", 600),
    *("--fetch-retry-first", 0.05),
    *("--fetch-retry-max", 0.2),
    *("--fetch-tries", 1000),
]

# Without its `url`, which differs each time.
BRIDGE = """\
client-id = tidings-kept
prefix = hall
out = *
begin = start
public-url = mqtt://mqtt.example.org
in = plant/+/changes -> +
retry-first = 0.05
retry-max = 0.2
"""

TIDE = {"ns": "urn:example:tide", "name": "level", "value": "3,5 m <über> \"Null\""}

# Every member that an entry and a link may have.
EVERYTHING = change(
    "http://example.com/gauges/Å/潮.csv?a=1&b=2",
    "updated",
    datetime="2026-04-01T18:10:00.25Z",
    lastmod="2026-04-01T18:09:00Z",
    hash={
        "md5": "d41d8cd98f00b204e9800998ecf8427e",
        "sha-1": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "sha-256": hashlib.sha256(b"").hexdigest(),
    },
    length=0,
    type="text/csv; charset=utf-8",
    encoding="gzip",
    changefreq="daily",
    priority=0.5,
    tags=["tide", "Flut-潮"],
    attributes=[TIDE],
    links=[
        {
            "rel": "http://www.openarchives.org/rs/terms/patch",
            "href": "http://example.com/gauges/patch",
            "type": "text/x-diff",
            "encoding": "br",
            "length": 51,
            "modified": "2026-04-01T18:09:00Z",
            "hash": {"md5": "d41d8cd98f00b204e9800998ecf8427e"},
            "pri": 1,
            "attributes": [TIDE],
        },
        {"rel": "duplicate", "href": "ftp://example.net/潮.csv", "pri": 2},
        {"rel": "memento", "href": "http://example.com/v/1", "type": "text/csv"},
        {"rel": "http://example.org/rel/z", "href": "http://example.com/l/z"},
    ],
)

EXAMPLES = [
    *("change-notification", "change-list-closed", "foreign-and-escaped", "relations"),
    *("odd/links", "odd/fractions", "odd/quotes-and-order", "odd/several-hashes"),
    *("odd/cdata-and-references", "odd/offset-time", "odd/type-parameters"),
    *("odd/foreign-elements", "odd/other-prefixes", "odd/deleted-unknown"),
]

FILES = "http://example.com/files/"


def noise(size):
    """Bytes that do not compress, the same each time."""
    text = b""
    while len(text) < size:
        text += hashlib.sha256(f"{size} {len(text)}".encode()).digest()
    return text[:size]


# Media types and bytes of files, by name.
CONTENT = {
    "a.txt": ("text/plain", b"The tide comes in.\n"),
    "b.png": ("image/png", noise(3000)),
    "c.bin": ("application/x-c", noise(5000)),
    "leer": ("text/plain", b""),
    "d.csv": ("text/csv", b"Haven;3,5\n" * 300),
}


def version():
    """The version of the broker."""
    command = [PROGRAMS["tidingsd"], "--version"]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return said.stdout.split()[1]


class Story:
    """A broker, its clients and its files. `names` are all sets, including removed
    ones."""

    def __init__(self, directory):
        self.directory = directory
        self.facts = {
            "version": version(),
            "public_url": PUBLIC_URL,
            "options": [str(option) for option in OPTIONS],
            "bridge": BRIDGE,
            "pages": [],
            "subscriptions": [],
            "repeats": [],
            "notified": [],
            "content": {},
        }
        self.names = []
        self.quick = []  # callbacks that accept every change of "news" at once
        self.faults = Faults(directory)
        self.around = Surroundings()
        self.mosquitto = Mosquitto(directory / "mosquitto")
        config = kept.write_config(directory, self.mosquitto.url, BRIDGE)
        self.broker = Broker(
            directory / "broker",
            [*OPTIONS, *hub.LOOPBACK, "--config", config],
            self.faults.env,
        )

    def end(self):
        self.broker.end()
        self.mosquitto.end()
        self.around.end()

    def run(self):
        """Everything but the end, which is make's."""
        self.post_news()
        self.post_books()
        self.set("large").post(12, size=60000)  # several pages of the change memory
        self.set("empty")
        self.remove_sets()
        self.put_stock()
        self.keep_files()
        self.fetch_files()
        self.relay()
        self.hear_mqtt()
        self.subscribe_callbacks()
        self.cut_bridge()
        self.broker.set("books").post(1, first=200)
        last = self.broker.set("news").post(2, first=200).last
        for callback in self.quick:
            callback.wait_last(last)

    # Sets

    def set(self, name, **settings):
        """Create a set with these settings."""
        made = self.broker.set(name)
        self.names.append(name)
        made.create(**settings)
        return made

    def repeat(self, of_set, key, body, type=JSON):
        """Post with an idempotency key, and record the answer for repeats."""
        answer = of_set.send(body, type, idempotency_key=key)
        of_set.receipt(answer)
        self.facts["repeats"].append(
            {
                "path": of_set.changes,
                "key": key,
                "type": type,
                "body": http.as_bytes(body).decode(),
                "answer": answer.text,
            }
        )

    def post_news(self):
        """Entries of every kind, posted in every form. Full lists are closed, and
        their archive has an index; the open list has entries."""
        news = self.set(
            "news",
            title="Pegelstände <&> \"潮\"",
            description="http://example.com/about?a=1&b=2",
            rotateEntries=7,
        )
        news.receipt(news.send(EVERYTHING))
        for name in EXAMPLES:
            news.receipt(news.send_example(f"{name}.xml"))
        news.post_change("http://example.com/gauges/Å/潮.csv?a=1&b=2", "deleted")
        lines = "".join(json.dumps(entry) + "\n" for entry in entries(3))
        self.repeat(news, "ndjson-1", lines, NDJSON)
        packed = gzip.compress(json.dumps(entries(5, 4)).encode())
        news.receipt(news.send(packed, JSON, content_encoding="gzip"))
        self.repeat(news, "json/2", [change("http://example.com/r/1", "updated")])
        self.repeat(news, "xml:3", example("change-notification.xml").decode(), XML)
        self.repeat(news, "~", change("http://example.com/r/2", "deleted"))

    def post_books(self):
        """A set gets another title. The broker closes its lists on demand, and retains
        only the latest."""
        books = self.set("books", title="Books", retainLists=2)
        for n in range(1, 5):
            books.post(n)
            books.rotate()
        books.post(2)
        assert books.change(discard=True, title="Bücher", retainLists=3).status == 200
        assert books.change(discard=True, title="Bücher", retainLists=2).status == 200

    def remove_sets(self):
        """Remove two sets, whose files go later, and make one of them again."""
        for name in ("gone", "again"):
            removed = self.set(name, title="was here")
            removed.post(2)
            removed.rotate()
            self.wait_lists(removed, removed.state()["lists"])
            removed.post(1)
            if name == "gone":
                state = removed.state()
                file = removed.list_file(1).relative_to(self.broker.data)
                self.facts["gone"] = {
                    "epoch": state["epoch"],
                    "list": state["lists"]["open"],
                    "file": str(file),
                }
            assert removed.delete().status == 204
        again = self.broker.set("again")
        again.create(title="is here")
        again.post(3)

    def put_stock(self):
        """A source puts all its resources, several times. Resource Lists have parts,
        and their archive has an index."""
        stock = self.set("stock", title="Stock", resourceListKeep=1)
        path = f"{stock.path}/resources"
        for n in (7, 8, 9):
            known = [
                {"loc": f"http://example.com/s/{i}", "length": max(i, n), "tags": ["x"]}
                for i in range(n)
            ]
            body = "".join(json.dumps(one) + "\n" for one in known)
            answer = self.broker.put(path, body, NDJSON)
            assert answer.status == 200, answer
            build(stock, "resourcelist")
        stock.post_change("http://example.com/s/0", "deleted")
        build(stock, "resourcelist")
        stock.post_change("http://example.com/s/100", "created")
        differences = {"created": 1, "updated": 0, "deleted": 1, "unchanged": 8}
        self.facts["resources"] = {"path": path, "body": body, **differences}

    def keep_files(self):
        """Posts bring the bytes of their resources. Dumps are built of them."""
        files = self.set("files", content="inline", resourceDumpKeep=1)
        for name, (type, content) in CONTENT.items():
            self.keep(files, FILES + name, type, content)
        files.rotate()
        build(files, "resourcelist")
        build(files, "resourcedump")
        self.keep(files, FILES + "a.txt", "text/plain", b"The tide goes out.\n")
        self.drop(files, FILES + "c.bin")
        files.rotate()
        self.copy(files, FILES + "b.png", FILES + "e.png")
        files.rotate()
        build(files, "resourcedump")
        self.drop(files, FILES + "leer")
        wait_for(
            "three Change Dumps",
            lambda: files.get("changedump/000000000003.xml").status == 200,
        )
        kept.wait_content(files, missing=0)

    def keep(self, of_set, loc, type, content):
        """Post a change that brings its bytes."""
        kind = "updated" if loc in self.facts["content"] else "created"
        answer = of_set.send(*kept.with_content(change(loc, kind), type, content))
        of_set.receipt(answer)
        self.facts["content"][loc] = base64.b64encode(content).decode()

    def copy(self, of_set, known, loc):
        """Post a change whose bytes the set has already."""
        content = self.facts["content"]
        digest = hashlib.sha256(base64.b64decode(content[known])).hexdigest()
        of_set.post_change(loc, hash={"sha-256": digest})
        content[loc] = content[known]

    def drop(self, of_set, loc):
        of_set.post_change(loc, "deleted")
        del self.facts["content"][loc]

    def fetch_files(self):
        """The broker fetches one file, and cannot fetch another one."""
        fetched = self.set("fetched", content="fetch")
        for name, status in (("early", 200), ("late", 503)):
            body = f"This is {name}.\n"
            self.page(f"/files/{name}.txt", status, "", body)
            digest = hashlib.sha256(body.encode()).hexdigest()
            fetched.post_change(f"{URL}/files/{name}.txt", hash={"sha-256": digest})
        self.around.pages["/files/late.txt"].requests.wait(1)
        kept.wait_content(fetched, missing=1)

    # The hub

    def page(self, target, status=200, headers="", body=""):
        """Serve a page of others, and record it."""
        page = {"target": target, "status": status, "headers": headers, "body": body}
        self.facts["pages"].append(page)
        self.around.page(**page)

    def topic(self, target):
        """Serve a topic of others that names our hub; its URL."""
        links = f'Link: <{URL}{target}>; rel="self", <{HUB}>; rel="hub"\r\n'
        self.page(target, headers=links)
        return f"{URL}{target}"

    def notify(self, path, document):
        """Post a document to the hub, and record it for repeats. `path`: where the
        broker keeps it."""
        kept.notify(self.broker, HUB, **document)
        self.facts["notified"].append({"path": path, "document": document})

    def relay(self):
        """The hub takes in two topics of others, for a relay and for a set, and posts
        the changes of a set to another hub."""
        topic = self.topic("/feed?of=1")
        answer = self.broker.put("/relays/blog", {"topic": topic})
        assert answer.status == 201, answer
        kept.notify(self.broker, HUB, topic, "text/plain", "Grüße")
        callback = self.subscribe("relay", "/relays/blog", topic, secret="of the relay")
        feed = {"topic": topic, "type": "application/atom+xml", "key": "feed-2"}
        self.notify("/relays/blog", {**feed, "body": "<feed/>"})
        callback.accepted.wait(1)

        topic = self.topic("/up")
        mirror = self.set("mirror", upstreamTopic=topic)
        body = example("change-notification.xml").decode()
        up = {"topic": topic, "type": XML, "key": "up-1", "body": body}
        self.notify(mirror.path, up)
        wait_for("the upstream's changes", mirror.last)

        self.page("/otherhub")
        named = self.set("named", hubs=[f"{URL}/otherhub"])
        wait_for("the other hub", lambda: hub.subscriptions(named))
        named.post(2)
        self.around.pages["/otherhub"].requests.wait(1)

    def subscribe(self, kind, path, topic, target=None, waits=True, **form):
        """Subscribe a callback to the topic with that path."""
        target = target or f"/cb/{kind}"
        callback = self.around.each.get(target) or self.around.add(target)
        of = kept.Subscribed(self.broker, path)
        answer = hub.request("subscribe", hub.Topic(of, topic), callback, **form)
        hub.check_taken(answer)
        if waits:
            hub.wait_active(of, callback)
        self.record_subscription(kind, path, callback, form.get("secret"))
        return callback

    def record_subscription(self, kind, path, callback, secret=None):
        self.facts["subscriptions"].append(
            {"kind": kind, "of": path, "target": callback.target, "secret": secret}
        )

    def subscribe_callbacks(self):
        """Subscriptions of every kind. One callback fails, so that its position stays
        behind; another one does not answer its verification."""
        news = self.broker.set("news")
        topic = f"{PUBLIC_URL}{news.path}/notifications"
        framework = f"{PUBLIC_URL}{news.path}/framework-notifications"
        whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

        def add(name, **form):
            return self.subscribe("changes", news.path, topic, f"/cb/{name}", **form)

        self.quick = [
            add("plain?a=b&c=%7E"),
            add("secret", secret="a b+c&d=e%26é"),
            add("whsec", secret=whsec, lease=7776000),
            add("interval", interval="0.25", lease=1000000),
            add("begin", after="0"),
            self.subscribe_simple(news),
        ]
        behind = add("behind", secret="of one that is behind")
        deleted = {"change": "deleted", "prefix": "http://example.com/"}
        filtered = self.subscribe("deleted", news.path, topic, **deleted)
        self.subscribe("framework", news.path, framework, secret="of the framework")

        last = news.post(2, first=100).last
        for callback in [*self.quick, behind]:
            callback.wait_last(last)
        behind.always(503)
        news.post_change("http://example.com/r/100", "deleted")
        filtered.accepted.wait(1)
        waiting = behind.deliveries.wait(2)
        self.subscription(behind)["waits"] = {
            "id": waiting.id,
            "sha256": hashlib.sha256(waiting.body).hexdigest(),
        }
        pending = self.around.add("/cb/pending")
        pending.always(cb.hang, of="verification")
        add("pending", waits=False, secret="of one that waits")
        pending.verifications.wait(1)

    def subscribe_simple(self, of_set):
        callback = self.around.add("/cb/simple")
        form = f"callbackURI={callback.url}"
        hub.check_taken(self.broker.post(f"{of_set.path}/subscribe", form, FORM))
        hub.wait_active(of_set, callback)
        self.record_subscription("changes", of_set.path, callback)
        return callback

    def subscription(self, callback):
        """The recorded part of it."""
        recorded = self.facts["subscriptions"]
        return next(one for one in recorded if one["target"] == callback.target)

    # The bridge

    def hear_mqtt(self):
        """A message of an MQTT client becomes a change."""
        self.names.append("plant")
        text = json.dumps({"id": "plant-1", **change("http://example.com/p/1")})
        self.mosquitto.tell().say("plant/plant/changes", text)
        wait_for("the message", lambda: self.broker.set("plant").state())
        heard = {"set": "plant", "filter": "plant/+/changes", "text": text}
        self.facts["heard"] = heard

    def cut_bridge(self):
        """Mosquitto ends when it has acknowledged everything; later changes wait."""
        lasts = {one.name: one.last() for one in self.sets()}
        sql = "SELECT name, acked FROM lanes"
        wait_for("the bridge", lambda: dict(self.rows("mqtt.db", sql)) == lasts)
        self.facts["lanes"] = lasts
        self.mosquitto.stop()
        wait_for("the bridge to see it", lambda: not self.is_bridge_connected())

    def is_bridge_connected(self):
        bridges = self.broker.get("/bridges").json()["bridges"]
        return bridges[0]["out"]["state"] == "connected"

    # The end

    def sets(self):
        """The existing sets."""
        return [self.broker.set(name) for name in self.names if name != "gone"]

    def write_facts(self):
        """Record where all sets and subscriptions are, when nothing is under way."""
        self.facts["sets"] = {}
        for one in self.sets():
            state = one.state()
            self.facts["sets"][one.name] = {
                "position": state["position"],
                "list": state["lists"]["open"],
                "content": state.get("content", {}).get("mode"),
            }
            if one.name != self.facts.get("unfiled", {}).get("set"):
                self.wait_lists(one, state["lists"])
        wait_for("the deliveries", self.is_delivered)
        for one in self.facts["subscriptions"]:
            of = kept.Subscribed(self.broker, one["of"])
            one["position"] = hub.find(of, URL + one["target"])["position"]
        now = time.time()
        # Until then the last closed list has no Last-Modified.
        wait_for("the next second", lambda: time.time() > now + 1)

    def wait_lists(self, of_set, lists):
        """Wait until the broker serves its closed lists from their files."""
        for number in range(lists["open"] - lists["closed"], lists["open"]):
            path = f"{of_set.path}/{of_set.list_path(number)}"
            wait_for(f"the file of {path}", lambda: kept.is_filed(self.broker, path))

    def is_delivered(self):
        """True if nothing is to be delivered but to /cb/behind, and hub.db has the
        positions of all subscriptions: a kill takes none of them back."""
        cursors = dict(self.rows("hub.db", "SELECT id, after FROM cursors"))
        paths = {one["of"] for one in self.facts["subscriptions"]} | {"/sets/named"}
        for path in paths:
            of = kept.Subscribed(self.broker, path)
            behind = hub.find(of, f"{URL}/cb/behind")
            for one in hub.subscriptions(of):
                if one["state"] == "pending":
                    continue
                # One with a filter rests where its last entry was.
                is_there = one["lag"] == 0 or "filter" in one
                if not is_there and not (behind and one["id"] == behind["id"]):
                    return False
                if cursors.get(one["id"]) != int(one["position"].partition("-")[2]):
                    return False
        return True

    def rows(self, database, sql):
        """The rows of a query to a database of the broker."""
        path = self.broker.data / database
        file = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return file.execute(sql).fetchall()
        finally:
            file.close()


def build(of_set, kind):
    """Have a Resource List or Dump built."""
    answer = of_set.broker.post(f"{of_set.path}/{kind}")
    assert answer.status == 200, answer
