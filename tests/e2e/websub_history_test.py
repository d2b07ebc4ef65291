"""Deliveries make the history of the set: the same for every transport, in parts that
follow each other, and with a hole, which a pull can fill, for a lost delivery."""

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.documents import Document
from tidings_test.history import History
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker(*hub.QUICK)

DELIVERIES = soak(200, 1000)


# over a restart, too.
def test_many_deliveries_follow_each_other(start_broker, callbacks):
    broker = start_broker(*hub.QUICK)
    news = broker.set().create()
    one = callbacks.join(news)
    for i in range(DELIVERIES):
        if i == DELIVERIES // 2:
            hub.wait_head(news, one)
            broker.stop()
            broker.restart()
        one.wait_last(news.post(1 + i % 3).last)
    assert (len(one.accepted), one.holes, one.repeats) == (DELIVERIES, 0, 0)
    messages = [Document(delivery.body) for delivery in one.deliveries]
    for message, behind in zip(messages, messages[1:]):
        assert behind.from_ == message.until
    history = one.history()
    assert history.last in history.digests


# one post, several notifications, each a urlset.
@pytest.mark.broker(*hub.QUICK, "--message-bytes", "16M", "--hub-timeout", "60")
def test_a_burst_is_delivered_in_parts(news, callbacks):
    one = callbacks.join(news)
    last = news.post(50001).last
    one.wait_last(last)
    assert len(one.deliveries) >= 2
    for delivery in one.deliveries:
        assert 1 <= len(delivery.body) <= 52428800
        message = Document(delivery.body)
        assert not message.is_index
        assert 1 <= message.count("/s:urlset/s:url") <= 50000
    assert one.history().last == last


# a subscriber of WebSub and one of WebSocket get the same bytes.
def test_a_websocket_gets_the_same_bytes(news, callbacks):
    one = callbacks.join(news)
    follower = news.websocket("after=0", form="xml")
    for i in range(20):
        last = news.post(1 + i % 5).last
        delivery = one.deliveries.wait(i + 1)
        one.wait_last(last)  # before the next is posted
        follower.news()
        assert follower.text == delivery.body


def fill(history, lists, until):
    """Pull what is missing up to that seq."""
    for one in lists:
        if one.after < until and one.last > history.last:
            for entry in lists.get(one.url, "changelist").entries:
                if history.last < entry.seq <= until:
                    history.add_entry(entry)
    assert history.last == until


# every third notification is dropped, and the next one shows the hole; the
# follower fills it from the open list, closed ones, and archived ones. The digest of
# the notification behind them proves that the entries are identical.
@pytest.mark.broker(*hub.QUICK, "--rotate-entries", "7", "--index-lists", "3")
def test_a_hole_is_filled_by_pull(news, callbacks):
    one = callbacks.join(news)
    for i in range(60):
        one.wait_last(news.post(1 + i % 4).last)
    hub.wait_head(news, one)
    lists = news.changelists().read()
    assert len(lists) > lists.indexed  # some are archived only

    history = History()
    filled = 0
    for i, delivery in enumerate(one.deliveries):
        message = Document(delivery.body)
        if i % 3 == 1:
            continue
        if message.after > history.last:  # the hole, by seq and by time
            assert message.from_ != history[history.last].datetime
            fill(history, lists, message.after)
            assert message.from_ == history[history.last].datetime
            filled += 1
        history.add_document(message)
    assert filled == 20
    assert history.last in history.digests


# R-310, W-092: all of them hang at once, each with a delivery.
@pytest.mark.broker(
    *hub.QUICK, "--hub-timeout", "600",
    "--hub-connections", "1200", "--hub-host-connections", "1100",
)  # fmt: skip
def test_many_that_hang_delay_nobody(news, callbacks, start_callbacks):
    others = start_callbacks("127.0.0.3")
    healthy = callbacks.join(news)
    sick = [others.add() for _ in range(soak(100, 1000))]

    def subscribe(callback):
        answer = hub.subscribe(news, callback)
        # Too many may wait for their verification.
        return answer.status != 429 and answer

    for one in sick:
        one.always(cb.hang)
        hub.check_taken(wait_for("room for a request", lambda one=one: subscribe(one)))
    news.post()  # who is not active yet gets it all the same
    for one in sick:
        one.deliveries.wait(1)
    for _ in range(100):
        healthy.wait_last(news.post().last)
    assert all(len(one.deliveries) == 1 for one in sick)


def follow(news, url, part):
    assert part in news.get_url(url).document().bytes


# W-148: inside the
# callback every document of the notification exists, the index names it, and the topic
# is not older.
@pytest.mark.broker(*hub.QUICK, "--hub-timeout", "600", "--index-lists", "2")
def test_a_framework_notification_finds_everything_there(news, callbacks, broker):
    news.post(3)
    one = callbacks.add()
    answers = [cb.Held() for _ in range(20)]
    one.next(*answers)
    hub.join(hub.framework(news), one)
    news.rotate()
    for i, held in enumerate(answers, 1):
        delivery = one.deliveries.wait(i)
        cb.check_links(delivery, news.framework_topic, hub.url(broker))
        assert delivery.all("Content-Type") == ["application/xml"]
        told = Document(delivery.body)
        told.check_valid()
        assert told.capability == "framework-notification"

        # The topic is this document, or already a later one.
        topic = news.get("framework-notifications").document()
        if (topic.after, topic.last) == (told.after, told.last):
            assert topic.bytes == told.bytes
        else:
            assert topic.last >= told.last

        follow(news, told.links["up"].href, b"<urlset")
        for url in told.all("/s:urlset/s:url"):
            loc = url.findtext("{*}loc")
            follow(news, loc, b"<" if "archive" in loc else b"<urlset")
            for index in url.findall("{*}ln[@rel='index']"):
                follow(news, index.get("href"), loc.encode())
        held.release()
        if any("/changes/000000000002" in loc for loc in told.locs()):
            break
    assert news.get("capabilitylist.xml").status == 200
    for held in answers:
        held.release()
    hub.wait_head(news, one)
