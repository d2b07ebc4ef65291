"""The hub tests of websub.rocks, 100 to 104, each with all that the tool looks at.

105 and 106 are of topics of other media types, which are relays'."""

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.callbacks import check_links, check_signature

pytestmark = pytest.mark.broker(*hub.QUICK, *hub.LOOPBACK)

TARGET = "/cb/rocks?token=1a2b3c"


def check_verification(news, callback, mode):
    asked = callback.verifications.next()
    assert cb.parameter(asked, "hub.mode") == mode
    assert cb.parameter(asked, "hub.topic") == news.topic
    assert cb.parameter(asked, "hub.challenge")
    if mode == "subscribe":
        assert int(cb.parameter(asked, "hub.lease_seconds")) > 0
        hub.wait_active(news, callback)


def subscribe(news, callback, **form):
    """It confirms with application/octet-stream, as callbacks do."""
    hub.check_taken(hub.subscribe(news, callback, **form))
    check_verification(news, callback, "subscribe")


def check_delivery(news, callback, secret=None):
    """Publish, and check the delivery; the topic is read inside the callback."""
    n = len(callback.deliveries)
    held = cb.Held()
    callback.next(held)
    news.post()
    delivery = callback.deliveries.wait(n + 1)
    topic = news.get("notifications")
    assert delivery.body.strip() == topic.body.strip() != b""
    assert delivery.all("Content-Type") == [topic["Content-Type"]]
    check_links(delivery, news.topic, hub.url(news.broker))
    check_signature(delivery, secret)
    held.release()
    hub.wait_head(news, callback)
    assert len(callback.deliveries) == n + 1


# W-001, W-002: the start of the tool's tests.
def test_the_topic_names_the_hub_and_itself(news, broker):
    for n in (0, 1):
        if n:
            news.post()
        for method in ("GET", "HEAD"):
            answer = broker.request(method, f"{news.path}/notifications")
            assert answer.status == 200
            check_links(answer, news.topic, hub.url(broker))
            assert answer["Content-Type"] == "application/xml"
            assert (answer["Content-Length"] == "0") == (n == 0)
            assert bool(answer.body) == (n == 1 and method == "GET")


# 100, 101, 102: additional parameters are ignored.
@pytest.mark.parametrize(
    "form",
    [{}, {"secret": "0c6d4f9a8b7e"}, {"foo": "bar", "hub.foo": "bar"}],
    ids=["plainly", "with_a_secret", "with_other_parameters"],
)
def test_a_subscriber_gets_what_is_published(news, callbacks, form):
    one = callbacks.add(TARGET)
    subscribe(news, one, **form)
    check_delivery(news, one, form.get("secret"))


# 103
def test_who_subscribes_again_gets_one_delivery(news, callbacks):
    one = callbacks.add(TARGET)
    for _ in range(2):
        subscribe(news, one)
        check_delivery(news, one)


# 104
def test_who_unsubscribes_gets_nothing_more(news, callbacks):
    fence = callbacks.join(news)
    one = callbacks.add(TARGET)
    subscribe(news, one)
    check_delivery(news, one)
    hub.check_taken(hub.unsubscribe(news, one))
    check_verification(news, one, "unsubscribe")
    hub.wait_gone(news, one)
    hub.fence(news, fence)
    assert len(one.deliveries) == 1
