"""A set's topic of changes: the answers of its address, and its document, which is the
latest notification (R-280, R-281, R-282, R-283, R-284, R-285, R-286, R-287, R-288,
R-289, R-290, R-291, R-292, W-083, W-148)."""

import re

import pytest

from tidings_test.documents import Document
from tidings_test.http import JSON, check_refused
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

# A channel, and the topic of it.
CHANNELS = {
    "change-notification": "notifications",
    "framework-notification": "framework-notifications",
}


def check_discovery(news, topic, answer, size):
    """Check an answer by the needs of a discovering subscriber (W-083: in one line)."""
    url = news.broker.url
    assert (answer.status, answer["Content-Type"]) == (200, "application/xml")
    assert answer.all("Link") == [
        f'<{url}/hub>; rel="hub", <{news.url}/{topic}>; rel="self", '
        f'<{news.url}/capabilitylist.xml>; rel="resourcesync"'
    ]
    assert answer["Content-Length"] == str(size)


# W-141: GET and HEAD, before and after the first change.
def test_a_topic_names_its_hub_and_itself(news, broker):
    for answer in (news.get("notifications"), broker.head(f"{news.path}/notifications")):
        check_discovery(news, "notifications", answer, 0)
    news.post(3)
    for topic in CHANNELS.values():
        answer = news.get(topic)
        answer.document().check_valid()
        assert answer.body
        head = broker.head(f"{news.path}/{topic}")
        for each in (answer, head):
            check_discovery(news, topic, each, len(answer.body))


# As other documents: an ETag that answers, no other method, no other set. One
# representation for every Accept header (W-012).
def test_a_topic_is_a_document_like_others(news, broker):
    news.post(3)
    first = news.get("notifications")
    assert (first.status, first["Cache-Control"]) == (200, "no-cache")
    known = {"if_none_match": first["ETag"]}
    assert news.get("notifications", **known).status == 304
    others = {"accept": JSON, "accept_language": "de"}
    assert news.get("notifications", **known, **others).status == 304
    news.post()
    assert news.get("notifications", **known).status == 200

    answer = broker.post(f"{news.path}/notifications", "x", "text/plain")
    assert (answer.status, answer["Allow"]) == (405, "GET, HEAD")
    assert broker.get("/sets/none/notifications").status == 404
    assert broker.get("/sets/_framework/notifications").status == 404
    assert news.delete().status == 204
    for topic in CHANNELS.values():
        check_refused(news.get(topic), 410)


# W-141: each set has two, which its Capability List
# and its JSON name as soon as it is there, with the hub.
def test_every_set_advertises_two_topics_of_its_own(news, broker):
    other = broker.set()
    other.post()
    for each in (news, other):
        offers = each.get("capabilitylist.xml").document()
        offers.check_valid()
        links = each.state()["links"]
        for capability, topic in CHANNELS.items():
            offer = f"/s:urlset/s:url[rs:md/@capability='{capability}']"
            hubs = offers.all(f"{offer}/rs:ln[@rel='hub']/@href")
            assert offers.all(f"{offer}/s:loc/text()") == [f"{each.url}/{topic}"]
            assert hubs == [f"{broker.url}/hub"]
            named = [link["href"] for link in links if link["rel"] == capability]
            assert named == [f"{each.url}/{topic}"]


# W-143: the entries of the interval, all of them, as the
# Change List has them.
def test_a_notification_has_what_the_change_list_has(news):
    news.post(4)
    news.post(7, size=200)
    topic = news.get("notifications").document()
    topic.check_valid()
    assert topic.capability == "change-notification"
    assert topic.from_ and topic.until
    assert topic.text("/s:urlset/rs:ln[@rel='up']/@href") == (
        topic.text("/s:urlset/rs:ln/@href")
    )
    assert (topic.after, len(topic.entries)) == (4, 7)
    times = [entry.datetime for entry in topic.entries]
    assert times == sorted(set(times))
    assert topic.until == times[-1]
    entries = re.search(rb"<url>.*(?=</urlset>)", topic.bytes, re.DOTALL)[0]
    assert entries in news.changelist(1).bytes


# each begins where the one before it ended, even over a restart.
def test_many_notifications_follow_each_other(start_broker):
    posts = soak(200, 1000)
    broker = start_broker("--rotate-entries", "70")
    news = broker.set()
    before = None
    for i in range(posts):
        if i == posts // 2:
            broker.stop()
            broker.restart()
        news.post(1 + i % 3)
        topic = news.get("notifications").document()
        assert topic.after == (before.last if before else 0)
        if before:
            assert topic.from_ == before.until
        assert topic.count("/s:urlset/s:url") == 1 + i % 3
        before = topic


# a large post comes as several, each a urlset.
@pytest.mark.broker("--message-bytes", "16M")
def test_a_burst_is_told_in_parts(news):
    news.post(60000)
    topic = news.get("notifications").document()
    topic.check_valid()
    assert not topic.is_index
    assert (topic.after, topic.last) == (50000, 60000)
    assert topic.count("/s:urlset/s:url") == 10000
    assert len(topic.bytes) <= 52428800


# R-287, W-148: the same bytes after a restart, also where only files of closed lists
# have the entries.
def test_a_topic_is_the_same_after_a_restart(start_broker):
    broker = start_broker("--rotate-entries", "4", "--resource-list-every", "0")
    news, other = broker.set(), broker.set()
    news.post(3)
    news.post(11)  # ends two lists
    news.rotate()
    news.wait_list_files(4)
    other.post()  # a commit lets go of entries that files have
    # The log publishes the event of the new set after its answer.
    wait_for(
        "the event of the new set",
        lambda: b'td:tags="source"' in news.get("framework-notifications").body,
    )
    before = {topic: news.get(topic).body for topic in CHANNELS.values()}
    assert Document(before["notifications"]).after == 3
    for end in (broker.stop, broker.kill):
        end()
        broker.restart()
        assert {topic: news.get(topic).body for topic in CHANNELS.values()} == before
