"""A bridge has the rights of the token that its section names (`as`): which sets it
publishes, what it takes in, and what happens while the token is away."""

import json

import pytest

from tidings_test.http import JSON
from tidings_test.mqtt import QUICK, Reader, half, wait_half
from tidings_test.sets import Set, change
from tidings_test.waiting import wait_for

AWAY = 'there is no token "press": it was revoked, has expired, or was not made yet'


@pytest.fixture
def bridge(mosquitto, start_bridge):
    """bridge("out = *"): a broker with an administrator, and a bridge for "press"."""

    def start(*lines):
        broker = start_bridge(mosquitto, QUICK, "as = press", *lines)
        broker.add_token("root", admin=True)
        return broker

    return start


def revoke(broker, *ways):
    """Revoke the token, and wait until these directions of the bridge have stopped."""
    assert broker.delete("/tokens/press").status == 204
    for way in ways:
        wait_half(broker, way, state="waiting", why=AWAY)
    without = broker.metrics()["tidings_mqtt_without_token"]
    assert without == len(ways)


def shown(broker):
    """What the broker says of the token."""
    (token,) = broker.get("/tokens/press").json()["tokens"]
    return token


def text(n):
    return json.dumps(change(f"http://example.com/r/{n}"))


def say(teller, topic, *numbers, **more):
    for n in numbers:
        teller.say(topic, text(n), **more)
    teller.wait_said()


# In its name: also the keys of repeats.
def test_a_message_needs_the_rights_of_the_token(bridge, mosquitto):
    rejected = mosquitto.hear("a/rejected").messages
    broker = bridge("in = feed/+ -> +")
    press = broker.add_token("press", publish=["new*", "shy"], manage=["news"])
    Set(broker, "shy").create(private=True)
    Set(broker, "other").create()
    mosquitto.wait_subscription("feed/+")
    teller = mosquitto.tell()
    say(teller, "feed/news", 1)
    Set(broker, "news").wait_last(1)
    assert "used" in shown(broker)
    say(teller, "feed/shy", 1)
    Set(broker, "shy").wait_last(1)
    for name, right in (("other", "publish"), ("newer", "manage"), ("none", "publish")):
        say(teller, f"feed/{name}", 1)
        problem = json.loads(rejected.next().payload)
        assert problem["status"] == 403 and problem["set"] == name
        assert f'"press" has no right to {right} "{name}"' in problem["detail"]
        assert Set(broker, name).get().status == (200 if name == "other" else 404)

    theirs = Set(broker.holder(press), "news")
    assert theirs.send(change("http://example.com/r/2"), idempotency_key="k2").status == 200
    say(teller, "feed/news", 2, key="k2")
    assert theirs.send(change("http://example.com/r/3"), idempotency_key="k3").status == 200
    teller.say("feed/news", json.dumps({"id": "k3", **change("http://example.com/r/3")}))
    say(teller, "feed/news", 4)
    wait_half(broker, "in", posted=5)
    assert Set(broker, "news").last() == 4


# They stay in the session at the MQTT broker, over a restart as well.
def test_messages_wait_for_the_token(bridge, mosquitto):
    broker = bridge("in = feed -> news")
    broker.add_token("press", publish=["news"], manage=["news"])
    news = Set(broker, "news")
    mosquitto.wait_subscription("feed")
    teller = mosquitto.tell()
    say(teller, "feed", 1)
    news.wait_last(1)  # the set exists: the second token could not begin it
    say(teller, "feed", *range(2, 51))
    revoke(broker, "in")
    say(teller, "feed", *range(51, 101))
    broker.wait_said("the bridge stops: it has no token")
    warned = "warning: bridge a, in: not connected since 20"
    wait_for("the end of the connection", lambda: warned in broker.get("/readyz").text)
    before = news.last()
    broker.kill()
    broker.restart()
    wait_half(broker, "in", state="waiting", why=AWAY)
    say(teller, "feed", *range(101, 151))
    assert news.last() == before
    broker.add_token("press", publish=["news"])
    broker.wait_said("the bridge goes on: it has its token again")

    # What was committed and not acknowledged comes once more.
    def heard():
        return {entry.loc for entry in news.page("after=0", accept=JSON).entries}

    wait_for("all messages", lambda: len(heard()) == 150)
    assert broker.metrics()["tidings_mqtt_without_token"] == 0


# Revoked or with fewer rights, over a restart, and in sets that are made meanwhile:
# nothing is left out, nothing is published too early.
def test_changes_wait_for_the_right(bridge, mosquitto):
    hearer = mosquitto.hear("a/#")
    readers = {
        name: Reader(hearer, f"a/{name}/notifications") for name in ("news", "old", "new")
    }
    broker = bridge("out = *")
    sets = {name: Set(broker, name) for name in readers}
    sets["news"].post(1)  # a set from before the token
    sets["old"].post(1)
    broker.add_token("press", subscribe=["news"])
    readers["news"].until(1)
    assert "used" in shown(broker)
    sets["old"].post(1)
    sets["news"].post(1)
    readers["news"].until(2)
    # A bridge that stops repeats later what it has no acknowledgement for.
    wait_for("no lag", lambda: half(broker, "out")["lag"] == 0)
    revoke(broker, "out")
    sets["news"].post(2)
    sets["new"].post(2)
    wait_half(broker, "out", lag=2)
    broker.stop()  # a killed one may repeat the last second
    broker.restart()
    wait_half(broker, "out", state="waiting", why=AWAY)
    sets["news"].post(2)
    assert {m.topic for m in hearer.messages if b"changes" in m.payload} <= {
        "a/news/notifications",
        "a/news/position",
    }
    broker.add_token("press", subscribe=["*"])
    readers["news"].until(6)
    readers["old"].until(2)
    readers["new"].until(2)
    assert not any(reader.repeats for reader in readers.values())


# The next message goes on: it does not wait for a place.
def test_sets_that_messages_begin_count_for_the_token(mosquitto, start_bridge):
    rejected = mosquitto.hear("a/rejected").messages
    lines = ("as = press", "in = feed/+ -> +")
    broker = start_bridge(mosquitto, QUICK, *lines, options=("--client-sets", "2"))
    broker.add_token("root", admin=True)
    broker.add_token("press", publish=["*"], manage=["*"])
    mosquitto.wait_subscription("feed/+")
    teller = mosquitto.tell()
    for name in ("a", "b", "c", "a"):
        say(teller, f"feed/{name}", 1)
    problem = json.loads(rejected.next().payload)
    assert problem["status"] == 422 and problem["set"] == "c"
    assert "your token has created as many sets" in problem["detail"]
    Set(broker, "a").wait_last(2)
    assert Set(broker, "c").get().status == 404
