"""Documents of a foreign Source reach the subscribers of their topic unchanged: the
tests of websub.rocks for hubs (100, 105, 106), with topics of others."""

import gzip
import zlib

import pytest

from tidings_test import hub
from tidings_test.callbacks import check_signature, hang, parameter
from tidings_test.feed import Feed
from tidings_test.http import JSON
from tidings_test.waiting import wait_for

OPTIONS = (*hub.QUICK, *hub.LOOPBACK, "--relay-documents", "100")

pytestmark = pytest.mark.broker(*OPTIONS)

NO_TOPIC = "is no topic that this hub takes in"


@pytest.fixture
def feed(broker, site, callbacks):
    return Feed(broker, site, callbacks).register()


# websub.rocks 105 and 106, W-081, W-083, W-145: same bytes, same
# media type, links of the topic and of the hub.
def test_documents_arrive_as_they_came(feed):
    plain = feed.join("/cb/plain?a=b")
    secret = feed.join("/cb/secret", secret="s3cr3t")
    rows = [
        ("text/plain", b"Just text."),
        ("application/json", b'{"items": [ ]}\n'),
        ('application/atom+xml; charset="utf-8"', b"<feed/>"),
        ("application/octet-stream", b"\0\xff\r\n--\x80<urlset\0"),
    ]
    for n, (type, body) in enumerate(rows, 1):
        assert feed.post(body, type).status == 200
        check_signature(feed.check_delivered(plain, n, body, type), None)
        check_signature(feed.check_delivered(secret, n, body, type), "s3cr3t")
    assert len(plain.deliveries) == 4
    assert feed.broker.get(feed.path).json()["subscriptions"] == 2
    assert len(feed.asked("HEAD")) == 1


# W-093: a document is a delivery of its own, also to a subscriber that is behind.
def test_documents_that_wait_are_not_merged(feed):
    slow, quick = feed.join(), feed.join()
    slow.hold()
    documents = [f"document {i}".encode() for i in range(1, 21)]
    feed.accept(*documents)
    quick.deliveries.wait(20)
    slow.deliveries.wait(1)
    assert len(slow.deliveries) == 1
    slow.release()
    for n, document in enumerate(documents, 1):
        feed.check_delivered(slow, n, document)
        feed.check_delivered(quick, n, document)


# R-295, W-032, W-146: and the answer says why, as text.
def test_a_spoofed_topic_is_refused(feed):
    callback = feed.join()
    feed.name(feed.topic, "http://b.example/hub")
    hub.check_refused(feed.post("spoofed"), 403, "rel=hub")
    other = f"<http://127.0.0.1:1/other>; rel=self, <{hub.url(feed.broker)}>; rel=hub"
    hub.check_refused(feed.post("other", links=other), 403, NO_TOPIC)
    feed.name(feed.topic, hub.url(feed.broker))
    unquoted = f"<{feed.topic}>; rel=self, <{hub.url(feed.broker)}>; rel=hub"
    assert feed.post("real", links=unquoted).status == 200
    feed.check_delivered(callback, 1, b"real")


# every document that was answered with 200 is delivered in order, in spite of
# kills; a Source without an answer may repeat its document.
def test_nothing_is_lost_by_a_kill(start_broker, site, callbacks):
    broker = start_broker(*OPTIONS)
    feed = Feed(broker, site, callbacks).register()
    callback = feed.join()
    callback.next(500, hang)
    feed.accept("one")
    assert feed.post("two", "text/html").status == 200
    callback.deliveries.wait(2)  # "one", refused, then hanging
    broker.kill()
    broker.restart()

    assert feed.post("two", "text/html").status == 200
    feed.accept("three")
    feed.check_delivered(callback, 3, b"one")
    feed.check_delivered(callback, 4, b"two", "text/html")
    feed.check_delivered(callback, 5, b"three")
    facts = broker.get(feed.path).json()
    assert (facts["last"], facts["documents"]) == (3, 3)


# W-121, W-122, W-123: a ping, by either name; the hub delivers the new content.
def test_a_ping_fetches_the_topic(feed):
    def ping(name="hub.topic"):
        form = {"hub.mode": "publish", name: feed.topic}
        assert hub.send(feed.broker, form).status == 204

    callback = feed.join()
    feed.site.put(feed.target, '{"n":1}', JSON)
    ping()
    feed.check_delivered(callback, 1, b'{"n":1}', JSON)
    ping()
    wait_for("a 304", lambda: any(r.status == 304 for r in feed.asked("GET")))
    feed.site.put(feed.target, '{"n":2}', JSON)
    ping("hub.url")
    feed.check_delivered(callback, 2, b'{"n":2}', JSON)

    form = {"hub.mode": "publish", "hub.url": "http://127.0.0.1:1/"}
    hub.check_refused(hub.send(feed.broker, form), 404, NO_TOPIC)


# nobody has asked for a coding, and subscribers are told of none.
def test_a_coded_topic_is_delivered_plain(feed):
    def ping(body, coding):
        feed.site.put(feed.target, body, "text/plain")
        coded = f"Content-Encoding: {coding}"
        feed.site.headers(feed.target, f"Link: {feed.links}", coded)
        form = {"hub.mode": "publish", "hub.url": feed.topic}
        assert hub.send(feed.broker, form).status == 204

    one = feed.join()
    for n, (coding, pack) in enumerate(
        (("gzip", gzip.compress), ("deflate", zlib.compress)), 1
    ):
        ping(pack(coding.encode()), coding)
        delivery = feed.check_delivered(one, n, coding.encode())
        assert delivery["Content-Encoding"] is None
    ping(b"?", "br")
    said = "is not fetched: its Content-Encoding"
    feed.broker.process.err.find(lambda line: said in line)


# W-042: the hub denies the subscribers of a removed relay.
def test_a_removed_relay_ends_its_subscriptions(feed):
    callback = feed.join()
    feed.accept("one")
    feed.check_delivered(callback, 1, b"one")
    assert feed.broker.delete(feed.path).status == 204
    assert parameter(callback.denials.wait(1), "hub.topic") == feed.topic
    hub.check_refused(feed.post("two"), 403, NO_TOPIC)
    assert feed.broker.get(feed.path).status == 404
    assert len(callback.deliveries) == 1
