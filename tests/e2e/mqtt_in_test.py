"""Messages of an MQTT broker become changes: in which forms, how often, and what the
broker does with bad messages and with its own."""

import json

import pytest

from tidings_test.http import JSON, NDJSON, XML
from tidings_test.mqtt import QUICK, Reader, half, wait_half
from tidings_test.sets import change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

XML_HEAD = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
    'xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="changelist"/>'
)
HASH = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"


def url(n):
    return f"http://example.com/r/{n}"


def one(n):
    """A change in JSON."""
    return f'{{"loc":"{url(n)}","change":"updated"}}'


def xml(*numbers):
    """Changes in XML."""
    entry = '<url><loc>{}</loc><rs:md change="updated"/></url>'
    return XML_HEAD + "".join(entry.format(url(n)) for n in numbers) + "</urlset>"


def loc(news, seq):
    """The URL of that entry."""
    return news.page(f"after={seq - 1}", accept=JSON).entries[0].loc


def check_status(problem, status):
    """A rejection has that status; 4 stands for any 4xx."""
    assert status in (problem["status"], problem["status"] // 100), problem


class Bridged:
    """A broker with a bridge for incoming messages, and a client that publishes
    some."""

    def __init__(self, mosquitto, broker):
        self.mosquitto = mosquitto
        self.broker = broker
        self.teller = mosquitto.tell()

    def say(self, topic, text, **more):
        """Publish, and wait until Mosquitto has it."""
        self.teller.say(topic, text, **more)
        self.teller.wait_said()

    def hear_rejected(self):
        self.rejected = self.mosquitto.hear("a/rejected").messages

    def next_rejected(self):
        """The next problem that the broker publishes."""
        heard = self.rejected.next()
        assert heard.type == "application/problem+json"
        assert not heard.retain
        problem = json.loads(heard.payload)
        assert problem["title"] and problem["detail"]
        return problem


@pytest.fixture
def bridge(mosquitto, start_bridge):
    """bridge("in = feed -> news"): a broker that has subscribed to the last filter."""

    def start(*lines):
        broker = start_bridge(mosquitto, QUICK, *lines)
        mosquitto.wait_subscription(lines[-1].split()[2])
        return Bridged(mosquitto, broker)

    return start


# W-160: a message of a stranger has the broker call nothing on its own machine.
def test_no_message_reaches_into_this_machine(mosquitto, start_bridge, site):
    lines = (QUICK, "in = feed -> news")
    fetch = ("--content", "fetch", "--fetch-tries", "1")
    b = Bridged(mosquitto, start_bridge(mosquitto, *lines, options=fetch))
    mosquitto.wait_subscription("feed")
    more = f'"hash":{{"sha-256":"{HASH}"}},"length":6'
    b.say("feed", f'{{"loc":"{site.link("/admin?x")}","change":"updated",{more}}}')
    assert "127.0.0.1 may not be called" in b.broker.wait_said("is given up")
    assert not len(site.connections)


# A message's content type decides its form, or, without a known one, its first byte.
def test_messages_come_in_all_forms(bridge):
    b = bridge("in = feed -> news")
    news = b.broker.set("news")
    rows = [
        (None, one(1), 1),
        (None, f" [{one(2)},{one(3)}]", 3),
        (None, f'{{"changes":[{one(4)}]}}', 4),
        (None, xml(5, 6), 6),
        (JSON, one(7), 7),
        (f"{JSON}; charset=utf-8", f"[{one(8)}]", 8),
        (XML, xml(9), 9),
        ("text/xml", '<?xml version="1.0"?>' + xml(10), 10),
        (NDJSON, f"{one(11)}\n{one(12)}\n", 12),
        ("text/plain", one(13), 13),  # no form: the first byte counts
    ]
    for type, text, last in rows:
        b.say("feed", text, type=type)
        news.wait_last(last)
        assert loc(news, last) == url(last)
    # Counted behind the commit.
    now = wait_half(b.broker, "in", entries=13)
    assert (now["entries"], now["posted"], now["rejected"]) == (13, 10, 0)


# MQTT 3.1.1 has no properties: forms and keys are in the message itself.
def test_mqtt_3_1_1_has_all_it_needs(bridge):
    b = bridge("version = 3.1.1", "in = feed -> news")
    b.say("feed", one(1), type=NDJSON)
    b.say("feed", xml(2), type=JSON)
    b.say("feed", f'{{"id":"k","changes":[{one(3)}]}}')
    b.say("feed", f'{{"id":"k","changes":[{one(3)}]}}')
    b.say("feed", one(4))
    news = b.broker.set("news")
    news.wait_last(4)
    assert loc(news, 4) == url(4)


# The broker keeps a message with a key once, however often it comes, and one without a
# key as often as it comes.
def test_a_key_tells_a_repeat(bridge):
    b = bridge("in = feed -> news")
    news = b.broker.set("news")
    for _ in range(3):
        b.teller.say("feed", one(1), key="k1")
        b.teller.say("feed", one(2), key="k2", key_name="id")
        b.teller.say("feed", one(3), correlation=b"\0\xff k3")
        b.teller.say("feed", f'{{"id":"k4","changes":[{one(4)}]}}')
        b.teller.say("feed", json.dumps({"id": "k5", **change(url(5), "updated")}))
    wait_half(b.broker, "in", posted=15)
    news.wait_last(5)
    for _ in range(3):
        b.say("feed", one(6))
    news.wait_last(8)
    assert loc(news, 5) == url(5)


def test_a_bad_message_is_reported_and_stops_nothing(bridge):
    b = bridge("in = feed/+ -> +")
    b.hear_rejected()
    rows = [
        ("news", "<urlset>", 4),
        ("news", "nonsense", 4),
        ("news", '{"loc":"no uri","change":"updated"}', 422),
        ("news", f'[{one(1)},{{"loc":"{url(2)}"}}]', 422),
        ("No set", one(1), 4),
    ]
    for name, text, status in rows:
        b.say(f"feed/{name}", text)
        problem = b.next_rejected()
        check_status(problem, status)
        assert (problem["topic"], problem["set"]) == (f"feed/{name}", name)
    assert half(b.broker, "in")["rejected"] == len(rows)
    news = b.broker.set("news")
    assert news.last() == 0

    # One key for two contents cannot be what the source meant.
    b.say("feed/news", one(1), key="k1")
    b.say("feed/news", one(2), key="k1")
    assert b.next_rejected()["key"] == "k1"
    news.wait_last(1)


# MQTT carries no content: a message can only report content that the set has, or the
# end of a resource.
def test_a_set_with_inline_content_refuses_changes_without_content(bridge):
    b = bridge("in = feed/+ -> +")
    news = b.broker.set("news").create(content="inline")
    b.hear_rejected()
    for more in ({}, {"hash": {"sha-256": HASH}}):
        b.say("feed/news", json.dumps(change(url(1), "updated", **more)))
        problem = b.next_rejected()
        assert problem["status"] == 422
        assert 'the set "news" keeps content inline' in problem["detail"]
    b.say("feed/news", json.dumps(change(url(1), "deleted")))
    news.wait_last(1)


# The tricks of a publisher. The answer says what is wrong, in words that are safe to
# read; the broker takes the messages behind it.
HOSTILE = [
    (4, "[" * 1000000),
    (4, '{"changes":[' + '{"a":' * 100000),
    (4, "<a>" * 100000),
    (4, f'{{"id":"{"k" * 10000}","changes":[{one(1)}]}}'),
    (415, '\x1b[31m"\\' + "x" * 70000),
    (415, b"\x1f\x8b\x08\0\0\0\0\0"),
    (415, b"\x1f\x8b", {"type": "application/gzip"}),
    (4, b'{"loc":"http://a/\xff\xfe"}'),
    (4, '{"loc":"http://a/\\u0000"}'),
    (4, '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'),
    (422, one(1), {"key": "k" * 1000}),
    (422, one(1), {"key": "\u202e"}),
    (415, "x", {"topic": 'feed/"\\<b>' + "y" * 2000}),
]


def test_a_hostile_message_harms_nothing(bridge):
    b = bridge("in = feed/# -> news")
    news = b.broker.set("news")
    b.hear_rejected()
    for status, text, *more in HOSTILE:
        b.teller.say(**{"topic": "feed/x", "payload": text, **dict(*more)})
        check_status(b.next_rejected(), status)
    b.say("feed/x", one(1), correlation=bytes(60000))
    news.wait_last(1)

    # A flood of bad messages: the broker counts all, and takes the good one behind
    # them.
    n = soak(500, 5000)
    for _ in range(n):
        b.teller.say("feed", "{")
    b.teller.say("feed", one(2))
    news.wait_last(2)
    now = wait_half(b.broker, "in", rejected=len(HOSTILE) + n)
    assert (now["rejected"], now["connections"]) == (len(HOSTILE) + n, 1)


# Each topic goes to the set of its filter; "+" of a mapping is the name of a level.
def test_topics_are_mapped_to_sets(bridge):
    b = bridge(
        "in = plant/nine/special -> special",
        "in = plant/+/changes -> +",
        "in = library/# -> books",
    )
    b.say("plant/nine/special", one(1))
    b.say("plant/seven/changes", one(2))
    b.say("plant/eight/changes", one(3))
    b.say("plant/eight/other", one(4))  # no filter has it
    b.say("library", one(5))
    b.say("library/a/b", one(6))
    sets = {"books": 2, "special": 1, "seven": 1, "eight": 1}
    for name, last in sets.items():
        b.broker.set(name).wait_last(last)
    assert loc(b.broker.set("eight"), 1) == url(3)
    assert loc(b.broker.set("books"), 1) == url(5)


# Of filters that overlap the first one counts. An MQTT broker may send a message once
# for each filter that matches, so the message has a key.
def test_the_first_filter_that_matches_counts(bridge):
    b = bridge("in = plant/special/# -> special", "in = plant/+/changes -> +")
    b.teller.say("plant/special/changes", one(1), key="k1")
    b.teller.say("plant/other/changes", one(1), key="k1")
    b.broker.set("other").wait_last(1)
    b.broker.set("special").wait_last(1)


# The broker takes a retained message when its filter is new, and never again; the
# session keeps what comes while the broker is away.
def test_a_retained_message_is_taken_once(mosquitto, start_bridge):
    before = mosquitto.tell()
    before.say("feed/kept", one(1), retain=True)
    before.wait_said()
    b = Bridged(mosquitto, start_bridge(mosquitto, QUICK, "in = feed/# -> news"))
    news = b.broker.set("news")
    news.wait_last(1)
    for i, end in enumerate((b.broker.stop, b.broker.kill, b.broker.stop)):
        end()
        b.say("feed/1", one(2))
        if i == 2:
            mosquitto.stop()
            mosquitto.restart()
        b.broker.restart()
        news.wait_last(2 * i + 2)
        assert loc(news, 2 * i + 2) == url(2)
        # A kill may come before its acknowledgement: then it comes again.
        b.teller.say("feed/1", one(3), key=f"k{i}")
        news.wait_last(2 * i + 3)


# In and out on the same MQTT broker, set and topic: a message of the broker comes back
# to it, and becomes no change.
def test_what_the_broker_publishes_does_not_echo(bridge, mosquitto):
    b = bridge("out = *", "in = a/+/notifications -> +", "in = fence -> other")
    news, other = b.broker.set("news"), b.broker.set("other")
    reader = Reader(mosquitto.hear("#"), "a/news/notifications")
    news.post(3)
    reader.until(3)
    b.say("a/news/notifications", one(4))  # somebody else's
    news.wait_last(4)

    # When the later message is there, the earlier one has come back.
    wait_half(b.broker, "in", ignored=2)
    b.say("fence", one(5))
    other.wait_last(1)
    wait_half(b.broker, "in", ignored=3)
    assert (news.last(), other.last()) == (4, 1)
    assert half(b.broker, "in")["rejected"] == 0


# A filter for everything takes the broker's messages about other sets like any other;
# not its positions, status and rejections, nor those about the set that it fills.
def test_a_filter_for_everything_does_no_harm(bridge):
    b = bridge("out = *", "in = # -> all")
    news, everything = b.broker.set("news"), b.broker.set("all")
    news.post(3)
    everything.wait_last(3)
    assert loc(everything, 3) == url(3)
    b.say("any/thing", "nonsense")  # the rejection has a topic of ours
    wait_half(b.broker, "in", rejected=1)
    for i in range(3):
        b.say("any/thing", one(4))
        everything.wait_last(4 + i)
    assert half(b.broker, "in")["rejected"] == 1
    assert news.last() == 3


# Two brokers that send each other their changes by one MQTT broker, on the same topics:
# each change is in both, once.
def test_two_brokers_do_not_go_round_in_circles(mosquitto, start_bridge):
    pair = []
    for name in ("one", "two"):
        keys = ("out = *", "in = a/+/notifications -> +", QUICK)
        pair.append(start_bridge(mosquitto, f"client-id = {name}", *keys))
        mosquitto.wait_said(f"{name}-in 1 a/+/notifications")
    first, second = pair
    for i in range(20):
        first.set("news").post(1, 1 + 2 * i)
        second.set("news").post(1, 2 + 2 * i)
    for broker in pair:
        broker.set("news").wait_last(40)

    # When the later message is there, all earlier ones that could come back have come.
    for i in range(3):
        first.set("fence").post()
        second.set("fence").wait_last(2 * i + 1)
        second.set("fence").post()
        first.set("fence").wait_last(2 * i + 2)
    for broker in pair:
        assert (broker.set("news").last(), broker.set("fence").last()) == (40, 6)


# An acknowledged message is there after a kill; a message with a key is never kept
# twice.
def test_what_is_acknowledged_is_committed(bridge):
    b = bridge("in = feed -> news")
    news = b.broker.set("news")
    n = 0
    for _ in range(soak(3, 10)):
        for _ in range(200):
            n += 1
            b.teller.say("feed", one(n), key=f"k{n}")
        wait_for("most of them", lambda: news.last() >= n - 150)
        b.broker.kill()
        b.broker.restart()
    news.wait_last(n)
    history = news.changelists().read().history
    assert history.locs() == [url(i) for i in range(1, n + 1)]
