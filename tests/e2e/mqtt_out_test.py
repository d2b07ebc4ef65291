"""Changes go out to an MQTT broker: topics, messages, and guarantees when one side goes
away."""

import json
import time

import pytest

from tidings_test import messages
from tidings_test.http import JSON
from tidings_test.mqtt import QUICK, Reader, bridge_config
from tidings_test.sets import change
from tidings_test.waiting import wait_for


@pytest.fixture
def bridge(mosquitto, start_broker, tmp_path):
    """bridge("[mqtt a]", "out = *"...): starts a broker that has this bridge to
    Mosquitto, and more of them behind a blank line."""

    def write(*lines):
        (tmp_path / "tidingsd.ini").write_text(bridge_config(mosquitto, *lines))

    def start(*lines, options=("--heartbeat", "3600")):
        write(*lines)
        return start_broker("--config", tmp_path / "tidingsd.ini", *options)

    start.write = write
    return start


def wait_position(hearer, topic, last):
    """Wait for the position of that entry."""
    return hearer.find(topic, lambda text: text and json.loads(text)["seq"] == last)


def check_position(broker, message, receipt):
    """It says what the set says of itself, and where to catch up."""
    said = json.loads(message.payload)
    assert said["set"] == receipt.set
    assert said["position"] == receipt.position
    assert said["seq"] == receipt.last
    assert said["datetime"] == receipt.datetime
    assert said["epoch"] == receipt.epoch
    assert said["changes"].startswith(broker.url)
    path = said["changes"].removeprefix(broker.url)
    if "after=" not in path:
        path += f"{'&' if '?' in path else '?'}after={receipt.epoch}-0"
    assert broker.get(path, accept=JSON).message().last == receipt.last


# The short form: one bridge for all sets.
def test_every_set_is_told_of_by_the_short_form(mosquitto, start_broker):
    hearer = mosquitto.hear("tidings/#")
    broker = start_broker("--mqtt", mosquitto.url)
    assert hearer.wait("tidings/status").payload == b"online"
    news, books = broker.set("news"), broker.set("books")
    of_news = Reader(hearer, "tidings/news/notifications")
    of_books = Reader(hearer, "tidings/books/notifications")
    news.post(3)
    of_news.until(3)
    books.post()
    receipt = news.post(2)
    of_news.until(5)
    of_books.until(1)
    assert of_news.history[5].loc == "http://example.com/r/5"
    assert of_news.repeats == 0

    # A late subscriber gets the present positions.
    at = wait_position(hearer, "tidings/news/position", 5)
    check_position(broker, at, receipt)
    late = mosquitto.hear("tidings/+/position")
    at = wait_position(late, "tidings/news/position", 5)
    assert at.retain
    check_position(broker, at, receipt)
    broker.stop()
    hearer.find("tidings/status", lambda payload: payload == b"offline")


# Each in its own form, under its own prefix, at its own QoS. R-307: they say the same.
def test_several_bridges_tell_the_same(mosquitto, bridge):
    hearer = mosquitto.hear("#", qos=2)
    broker = bridge(
        "[mqtt json]\nout = *\nprefix = json",
        "[mqtt xml]\nout = news\nprefix = xml\nform = xml\nqos = 0",
        "[mqtt old]\nout = books,news\nprefix = old\nform = xml\nversion = 3.1.1",
        "[mqtt twice]\nout = news\nprefix = twice\nqos = 2",
    )
    news, books = broker.set("news"), broker.set("books")
    readers = [
        Reader(hearer, "json/news/notifications"),
        Reader(hearer, "xml/news/notifications", "xml"),
        Reader(hearer, "old/news/notifications", "xml", is_311=True),
        Reader(hearer, "twice/news/notifications"),
    ]
    # At QoS 0 nobody waits for an absent subscriber.
    wait_for("four bridges", lambda: states(broker) == ["connected"] * 4)
    for i in range(20):
        (books if i % 4 == 3 else news).post(10)
    for reader in readers:
        reader.until(150)
        reader.history.check_same(readers[0].history)
    assert readers[1].history.digests[150] == readers[2].history.digests[150]
    assert hearer.wait("json/news/notifications").qos == 1
    assert hearer.wait("xml/news/notifications").qos == 0
    assert hearer.wait("twice/news/notifications").qos == 2

    # A bridge does not publish a set that its configuration leaves out.
    hearer.wait("old/books/notifications")
    wait_position(hearer, "old/books/position", 50)
    assert not any("xml/books" in message.topic for message in hearer.messages)


def states(broker):
    """How the outgoing halves of the bridges are."""
    bridges = broker.get("/bridges").json()["bridges"]
    return [bridge["out"]["state"] for bridge in bridges]


# After the notification each of its changes has a message of its own, on the topic of
# its kind.
def test_a_change_has_a_message_of_its_own_where_wanted(mosquitto, bridge):
    of_a = mosquitto.hear("a/news/notifications", "a/news/changes/#")
    of_b = mosquitto.hear("b/news/changes/#")
    broker = bridge(
        "[mqtt a]\nout = *\nprefix = a\npublish = both",
        "[mqtt b]\nout = *\nprefix = b\npublish = changes\nform = xml",
    )
    kinds = ["created", "updated", "deleted"]
    body = [change(f"http://example.com/{i}", kind) for i, kind in enumerate(kinds)]
    assert broker.set("news").send(body).status == 200
    assert of_a.messages.next().topic == "a/news/notifications"
    for seq, kind in enumerate(kinds, 1):
        for prefix, hearer, form in (("a", of_a, "json"), ("b", of_b, "xml")):
            received = hearer.messages.next()
            assert received.topic == f"{prefix}/news/changes/{kind}"
            message = messages.read(received.payload, form)
            message.check()
            assert (message.after, message.last) == (seq - 1, seq)
            assert message.entries[0].change == kind


# Last will: subscribers learn that the broker is gone, even after a kill.
def test_a_killed_broker_is_offline(mosquitto, bridge):
    hearer = mosquitto.hear("a/status")
    broker = bridge(f"[mqtt a]\nout = *\nprefix = a\n{QUICK}")
    assert hearer.messages.wait(1).payload == b"online"
    broker.kill()
    assert hearer.messages.wait(2).payload == b"offline"
    late = mosquitto.hear("a/status").messages.wait(1)
    assert late.retain and late.payload == b"offline"
    broker.restart()
    assert hearer.messages.wait(3).payload == b"online"
    broker.stop()
    assert hearer.messages.wait(4).payload == b"offline"


# A bridge begins where a set is, or at its start, and goes on where it was: also over
# a restart, and while the MQTT broker is away.
def test_a_bridge_goes_on_where_it_was(mosquitto, bridge):
    hearer = mosquitto.hear("+/news/#", client_id="hearer", keeps_session=True)
    now = Reader(hearer, "now/news/notifications", after=3)
    start = Reader(hearer, "start/news/notifications", "xml")
    broker = bridge()
    news = broker.set("news")
    news.post(3)
    broker.stop()

    bridge.write(
        "[mqtt now]\nout = *\nprefix = now",
        f"[mqtt start]\nout = *\nprefix = start\nbegin = start\nform = xml\n{QUICK}",
    )
    broker.restart()
    start.until(3)
    news.post(2)
    now.until(5)
    start.until(5)
    wait_position(hearer, "now/news/position", 5)
    wait_position(hearer, "start/news/position", 5)

    mosquitto.stop()
    news.post(10)
    broker.stop()
    broker.restart()
    news.post(10)
    mosquitto.restart()
    now.until(25)
    start.until(25)
    assert start.repeats == 0


# A removed set has no position any more; made again it is announced from its beginning,
# in its new epoch.
def test_a_removed_set_leaves_nothing_behind(mosquitto, bridge):
    hearer = mosquitto.hear("a/news/#")
    news = bridge("[mqtt a]\nout = *\nprefix = a").set("news")
    before = Reader(hearer, "a/news/notifications")
    news.post(3)
    before.until(3)
    wait_position(hearer, "a/news/position", 3)

    assert news.delete().status == 204
    hearer.find("a/news/position", lambda payload: payload == b"")
    news.post(2)
    after = Reader(hearer, "a/news/notifications", behind=before.at)
    after.until(2)
    assert after.history.epoch != before.history.epoch
    wait_position(hearer, "a/news/position", 2)
    late = mosquitto.hear("a/+/position")
    wait_position(late, "a/news/position", 2)


# At most once a second, and the last one is never left out.
def test_positions_are_told_once_a_second(mosquitto, bridge):
    hearer = mosquitto.hear("a/news/position")
    news = bridge("[mqtt a]\nout = *\nprefix = a").set("news")
    start = time.monotonic()
    for _ in range(300):
        news.post()
    wait_position(hearer, "a/news/position", 300)
    assert 1 <= len(hearer.messages) <= 2 + (time.monotonic() - start)
