"""A private set exists for nobody without the right to subscribe to it: a crawl of every
address finds no byte that the same broker without the set would not send."""

import json
import re
import shutil
import urllib.parse

import pytest

from tidings_test import hub, routes
from tidings_test.content import digest, multipart
from tidings_test.http import FORM, JSON, check_refused
from tidings_test.mqtt import QUICK, Reader, wait_half
from tidings_test.sets import Set, change
from tidings_test.waiting import wait_for

NUMBER = "000000000001"

# The private set, one that was removed, and those that others see.
HIDDEN, GONE, NEWS = "hidden", "hidden-gone", "news"

PAYLOAD = "words that only some may read"
CONTENT = digest(PAYLOAD.encode()).removeprefix("sha-256:")

# Who has no right to read HIDDEN. `everyone` has rights to all names, which do not reach
# it; the others have rights to all but HIDDEN and GONE, and the sight of operators.
FOREIGN = {
    "everyone": None,
    "none": {"subscribe": ["other"]},
    "reader": {"subscribe": ["*", "!hidden*"]},
    "writer": {right: ["*", "!hidden*"] for right in ("publish", "subscribe", "manage")},
    "observer": {"observe": True},
}

UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
}

# Fields of requests to documents.
FIELDS = [
    {},
    {"if_none_match": "*"},
    {"if_match": '"none"'},
    {"if_modified_since": "Thu, 01 Jan 2099 00:00:00 GMT"},
    {"if_unmodified_since": "Thu, 01 Jan 1999 00:00:00 GMT"},
    {"range": "bytes=0-9"},
    {"range": "bytes=0-9", "if_range": '"none"'},
    {"accept": "text/html"},
    {"accept": "image/png"},
    {"accept_encoding": "identity;q=0"},
]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def paths_of(name):
    """Every address of a set, and some that it does not have."""
    for path in [*(r.path for r in routes.ROUTES.values()), *routes.DOCUMENTS]:
        if "{set}" in path:
            path = re.sub("{set}", name, path).replace("{page}", "hub.html").replace("{digest}", CONTENT)
            path = path.replace("{tile}", "0/000").replace("{epoch}", "0" * 16)
            path = path.replace("{uri}", f"http://a.example/{name}")
            yield re.sub("{(list|last|id)}", NUMBER, path).replace("{id}", "1")
    yield f"/sets/{name}/nothing"
    yield f"/sets/{name}/changes/1.xml"
    yield f"/sets/{name}/changes?after=1"
    yield f"/sets/{name}/changes?since=x"
    yield f"/sets/{name}/changes?after=x&wait=1"
    yield f"/sets/{name}/resourcelist.xml?page=x"


def paths_of_all():
    for path in [*(r.path for r in routes.ROUTES.values()), *routes.DOCUMENTS]:
        if path.startswith("/") and "{set}" not in path:
            numbered = re.sub("{(list|last)}", NUMBER, path)
            for name in (HIDDEN, NUMBER):
                yield re.sub("{(relay|token|id)}", name, numbered)
    yield "/descriptions/000000000001-000000005000.xml"
    for after in ("", "a", HIDDEN, "i"):
        yield f"/sets?after={after}"


def forms(url):
    """Requests to the hub about the topics of the set."""
    for topic in ("notifications", "framework-notifications", "changelist.xml"):
        for name in (HIDDEN, GONE):
            of = f"{url}/sets/{name}/{topic}"
            yield {"hub.mode": "publish", "hub.url": of}
            for mode in ("subscribe", "unsubscribe"):
                callback = "http://127.0.0.2:9/cb"
                yield {"hub.mode": mode, "hub.topic": of, "hub.callback": callback}
                yield {"hub.mode": mode, "hub.topic": of, "hub.callback": "x"}


def requests(url):
    for path in dict.fromkeys(paths_of_all()):
        for fields in FIELDS:
            yield "GET", path, None, fields
        yield "HEAD", path, None, {}
        yield "OPTIONS", path, None, {}
    for name in (HIDDEN, GONE):
        for path in dict.fromkeys(paths_of(name)):
            for fields in FIELDS if name == HIDDEN else FIELDS[:1]:
                yield "GET", path, None, fields
            yield "GET", path, None, UPGRADE
            for method in METHODS:
                if method == "GET":
                    continue
                yield method, path, None, {}
                yield method, path, b"{}", {"type": JSON}
                yield method, path, b"x" * 20000, {"type": "image/png"}
                yield method, path, b"{}", {"type": JSON, "content_encoding": "br"}
    for path in dict.fromkeys(paths_of(NEWS)):
        if not path.endswith("/stream"):
            yield "GET", path, None, {}
            yield "HEAD", path, None, {}
    for form in forms(url):
        yield "POST", "/hub", urllib.parse.urlencode(form).encode(), {"type": FORM}
    for rel in ("self", "hub"):
        link = f'<{url}/sets/{HIDDEN}/notifications>; rel="{rel}"'
        yield "POST", "/hub", b"<urlset/>", {"type": "application/xml", "link": link}


def crawl(broker, tokens):
    """The answers to all requests of each: their status, headers and bytes."""
    found = {}
    for who, token in tokens.items():
        client = broker.holder(token)
        for method, path, body, fields in requests(broker.url):
            if path in ("/metrics", "/status"):
                continue  # sums of all sets, for operators
            if path in (f"/sets/{NEWS}/{each}" for each in ("rate", "oai", "checkpoint")):
                continue  # says since when this broker runs, or when it was asked
            answer = client.request(method, path, body, **fields)
            key = (who, method, path, body and body[:200], tuple(fields.items()))
            found[key] = answer.steady()
        client.disconnect()
    return found


def fill(of_set):
    """Give a set closed lists, lists, dumps, and their archives."""
    for _ in range(2):
        body, type = multipart(
            [change(f"http://a.example/{of_set.name}")],
            [(f"http://a.example/{of_set.name}", "text/plain", PAYLOAD.encode())],
        )
        assert of_set.send(body, type).status == 200
        of_set.rotate()
        of_set.build("resourcelist")
        of_set.build("resourcedump")
    return of_set


def hide(broker, callbacks):
    """Make the private set, and one that is removed."""
    hidden = Set(broker, HIDDEN).create(private=True, content="inline", title=PAYLOAD)
    fill(hidden)
    callbacks.join(hidden)
    callbacks.join(hub.framework(hidden))
    gone = fill(Set(broker, GONE).create(private=True, content="inline"))
    assert gone.delete().status == 204
    return hidden


@pytest.fixture
def guarded(start_broker):
    """A broker with tokens and a set that others read. Its own token is that of an
    administrator."""
    broker = start_broker("--client-post-rate", "0", *hub.LOOPBACK)
    broker.add_token("root", admin=True)
    return broker


def restart(broker):
    broker.disconnect()
    broker.stop()
    broker.start()


# Issue of trust, point 2
def test_a_crawl_finds_nothing_of_a_private_set(guarded, callbacks, tmp_path):
    broker = guarded
    news = fill(Set(broker, NEWS).create(content="inline"))
    last = "changedump/000000000002.xml"
    wait_for("the second Change Dump", lambda: news.get(last).status == 200)
    broker.add_token("everyone", publish=["*"], subscribe=["*"])
    tokens = {
        who: broker.add_token(who, **terms) if terms else None
        for who, terms in FOREIGN.items()
    }
    broker.disconnect()
    broker.stop()
    shutil.copytree(broker.data, tmp_path / "without")
    broker.start()
    hide(broker, callbacks)
    crawls = []
    for _ in range(2):  # also after a restart
        crawls.append(crawl(broker, tokens))
        restart(broker)
    assert Set(broker, HIDDEN).last() == 2
    broker.disconnect()
    broker.stop()
    shutil.rmtree(broker.data)
    shutil.copytree(tmp_path / "without", broker.data)
    broker.start()
    without = crawl(broker, tokens)
    assert len(without) > 2000
    for found in crawls:
        assert found.keys() == without.keys()
        differing = [key for key in without if found[key] != without[key]]
        for key in differing[:5]:
            print(key, found[key], without[key])
        assert not differing


@pytest.fixture
def hidden(guarded):
    """A private set with an entry, beside one that others see."""
    Set(guarded, NEWS).create().post(1)
    hidden = Set(guarded, HIDDEN).create(private=True)
    hidden.post(1)
    return hidden


def names(answer):
    return [row["name"] for row in answer.json()["sets"]]


def test_a_token_with_the_right_reads_it(guarded, hidden):
    reader = guarded.holder(guarded.add_token("reader", subscribe=[HIDDEN]))
    other = guarded.holder(guarded.add_token("other", subscribe=["*", f"!{HIDDEN}"]))
    for path in ("", "/changes?after=0", "/changelist.xml", "/notifications"):
        answer = reader.get(hidden.path + path)
        assert answer.status == 200, answer
        assert answer["Cache-Control"] == "private, no-cache"
        check_refused(other.get(hidden.path + path), 404, "there is no set")
    number = hidden.rotate()
    closed = reader.get(f"{hidden.path}/{hidden.list_path(number)}")
    assert closed["Cache-Control"] == "private, max-age=31536000, immutable"
    assert names(reader.get("/sets")) == [HIDDEN]
    assert reader.get("/sets")["Cache-Control"] == "private, no-cache"
    assert names(other.get("/sets")) == [NEWS]
    assert other.get("/sets")["Cache-Control"] == "no-cache"
    source = reader.get("/.well-known/resourcesync")
    assert HIDDEN in source.text and source["Cache-Control"] == "private, no-cache"
    assert HIDDEN not in other.get("/.well-known/resourcesync").text
    for path in ("/", "/robots.txt"):
        assert HIDDEN not in reader.get(path).text


# It exists for them at these addresses alone.
def test_a_publisher_posts_and_a_manager_manages_without_reading(guarded, hidden):
    publisher = guarded.holder(guarded.add_token("publisher", publish=["*"]))
    manager = guarded.holder(guarded.add_token("manager", manage=["*"]))
    assert Set(publisher, HIDDEN).post(1).last == 2
    assert Set(manager, HIDDEN).change(title="x").status == 200
    for client in (publisher, manager):
        for path in ("/changes", "/changelist.xml", "/stream"):
            check_refused(client.get(hidden.path + path), 404, "there is no set")
        answer = hub.subscribe(Set(client, HIDDEN), "http://127.0.0.2:9/")
        assert answer.status == 404, answer
    check_refused(publisher.get(hidden.path), 404, "there is no set")
    assert Set(manager, HIDDEN).delete().status == 204


# The rights of everyone, to all names, do not reach it.
def test_everyone_may_do_nothing_to_it(guarded, hidden):
    rights = {right: ["*"] for right in ("publish", "subscribe", "manage")}
    guarded.add_token("everyone", **rights)
    everyone = guarded.holder(None)
    assert everyone.get(f"/sets/{NEWS}").status == 200
    check_refused(everyone.get(hidden.path), 404, "there is no set")
    check_refused(Set(everyone, HIDDEN).send([change("http://a.example/")]), 401)
    check_refused(Set(everyone, HIDDEN).put(), 401)
    check_refused(Set(everyone, HIDDEN).delete(), 404)
    assert hidden.last() == 1


# What was removed may have been private: only who would have seen it hears of it.
def test_a_removed_set_is_gone_for_its_readers_alone(guarded, hidden):
    reader = guarded.holder(guarded.add_token("reader", subscribe=["*"]))
    guarded.add_token("everyone", subscribe=["*"])
    assert hidden.delete().status == 204
    for _ in range(2):
        check_refused(reader.get(hidden.path), 410, "was removed")
        check_refused(guarded.holder(None).get(hidden.path), 404, "there is no set")
        reader.disconnect()
        restart(guarded)


def test_it_is_private_from_its_beginning_to_its_end(guarded, hidden):
    news = Set(guarded, NEWS)
    said = "from the beginning of the set to its end"
    for answer in (
        news.change(private=True),
        news.put(private=True),
        hidden.change(private=False),
        hidden.change(private=None),
        hidden.put(title="x"),
    ):
        check_refused(answer, 422, said)
    assert hidden.put(private=True, title="x").status == 200
    assert hidden.state()["settings"]["private"] is True
    assert "private" not in news.state()["settings"]
    for text in ("yes", 1, "true", [True]):
        check_refused(hidden.change(private=text), 422, "private: is true or false")


# Each would tell somebody else of it.
def test_it_has_no_peers(guarded, hidden):
    for more in ({"hubs": ["http://a.example/"]}, {"upstream_topic": "http://a.example/t"}):
        check_refused(hidden.change(**more), 422, "private")
        check_refused(Set(guarded, "new").put(private=True, **more), 422, "private")
    assert Set(guarded, "new").state() is None


# The numbers of framework events are common to all sets.
def test_it_announces_nothing(guarded, hidden):
    news = Set(guarded, NEWS)
    before = news.get("framework-notifications")
    hidden.rotate()
    hidden.build("resourcelist")
    assert hidden.delete().status == 204
    after = news.get("framework-notifications")
    assert (after["ETag"], after.body) == (before["ETag"], before.body)


# Neither /bridges nor the links of the set: no section says whose rights it has.
def test_no_bridge_publishes_it(start_broker):
    broker = start_broker("--mqtt", "mqtt://127.0.0.1:1")
    broker.add_token("root", admin=True)
    hidden = Set(broker, HIDDEN).create(private=True)
    news = Set(broker, NEWS).create()
    hidden.post(5)
    news.post(1)
    report = wait_for("the lane of news", lambda: find_lane(broker))
    assert (report["lag"], report["slowest"]["set"]) == (1, NEWS)
    assert "mqtt" in news.get().text and "mqtt" not in hidden.get().text


# With the rights of a token, as far as they go; and nobody else learns of it.
def test_a_bridge_with_a_token_publishes_it(start_bridge, mosquitto):
    topics = {name: f"a/{name}/notifications" for name in (HIDDEN, NEWS)}
    hearer = mosquitto.hear("a/#", client_id="hearer", keeps_session=True)
    readers = {name: Reader(hearer, topic) for name, topic in topics.items()}
    broker = start_bridge(mosquitto, QUICK, "as = press", "out = *")
    broker.add_token("root", admin=True)
    hidden = Set(broker, HIDDEN).create(private=True)
    news = Set(broker, NEWS).create()
    gone = Set(broker, GONE).create(private=True)
    gone.post()
    hidden.post(2)
    news.post(2)
    broker.add_token("press", subscribe=["*", f"!{GONE}"])
    for reader in readers.values():
        reader.until(2)
    assert gone.delete().status == 204
    link = f"/{topics[HIDDEN]}"
    assert link in hidden.get().text and link in hidden.get("capabilitylist.xml").text
    hearer.find(f"a/{HIDDEN}/position", lambda text: text and json.loads(text)["seq"] == 2)

    # The MQTT broker is away: the set that lags most is the private one.
    mosquitto.stop()
    hidden.post(3)
    news.post()
    seen = wait_for("the lag", lambda: (out := find_lane(broker))["lag"] == 4 and out)
    assert (seen["sets"], seen["slowest"]["set"]) == (2, HIDDEN)
    for who in ("reader", "observer"):
        rights = {**FOREIGN[who], "observe": True}
        seen = find_lane(broker.holder(broker.add_token(who, **rights)))
        assert (seen["sets"], seen["setsBehind"], seen["lag"]) == (1, 1, 1)
        assert seen["slowest"]["set"] == NEWS
    mosquitto.restart()
    readers[HIDDEN].until(5)
    readers[NEWS].until(3)

    # Without the token its position goes; with fewer rights it stays away.
    assert broker.delete("/tokens/press").status == 204
    hearer.find(f"a/{HIDDEN}/position", lambda text: not text)
    wait_half(broker, "out", state="waiting")
    assert HIDDEN not in broker.get("/readyz").text and link not in hidden.get().text
    hidden.post(1)
    broker.add_token("press", subscribe=[NEWS])
    news.post()
    readers[NEWS].until(4)
    late = mosquitto.hear("a/+/position")
    late.wait(f"a/{NEWS}/position")
    assert not late.on(f"a/{HIDDEN}/position")

    assert broker.delete("/tokens/press").status == 204
    broker.add_token("press", subscribe=["*", f"!{GONE}"])
    readers[HIDDEN].until(6)
    late.find(f"a/{HIDDEN}/position", lambda text: text and json.loads(text)["seq"] == 6)
    assert not any(GONE in message.topic for message in hearer.messages)


def find_lane(broker):
    out = broker.get("/bridges").json()["bridges"][0]["out"]
    return out["lag"] and out


def test_the_command_line_makes_a_private_set(start_broker, run, tmp_path):
    broker = start_broker()
    root = tmp_path / "root"
    root.touch(mode=0o600)
    root.write_text(broker.add_token("root", admin=True))
    broker.add_token("everyone", subscribe=["*"])
    url = f"{broker.url}/sets/plans"
    run("tidings", "set", "create", url, "--private", "--token-file", root)
    shown = run("tidings", "set", "show", url, "--token-file", root).output()
    assert re.search(r"settings\.private +true", shown), shown
    assert broker.get("/sets/plans", authorization=None).status == 404
