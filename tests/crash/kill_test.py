"""SIGKILL at any moment, while several sources post, again and again."""

import collections

import pytest

from tidings_test import hub
from tidings_test.documents import Document
from tidings_test.history import History
from tidings_test.publishers import Publishers
from tidings_test.soak import choices, soak
from tidings_test.waiting import wait_for

LIST_ENTRIES = 500
ANSWERS_MAX = soak(60, 400)  # before a kill
REQUESTS_MAX = 30  # between these answers and the kill


def post_and_kill(broker, publishers, chosen, least=1, most=ANSWERS_MAX):
    """Kill the broker after some answers, and at some moment after that."""
    with publishers.posting():
        publishers.wait_answers(chosen.randint(least, most))
        for _ in range(chosen.randint(0, REQUESTS_MAX)):
            assert broker.get("/healthz").status == 200
        broker.kill()
    broker.disconnect()
    broker.restart()


def hear(follower):
    """Follow until the broker is killed; return the received history."""
    with pytest.raises(AssertionError, match="ended without a close frame"):
        while follower.next():
            pass
    return follower.history


def check_heard(heard, kept):
    """Everything that was pushed before the kill is in the log, byte for byte."""
    if heard.after is None:
        return
    assert heard.last <= kept.last
    if heard.start_time:
        assert heard.start_time == kept[heard.after].datetime
    assert heard.digests[heard.last] == kept.digests[heard.last]


def obstruct(news, first):
    """Closed lists from number `first` on get no files: directories are in their
    places. These directories."""
    places = [news.list_file(first + i) for i in range(ANSWERS_MAX * 60 // 500 + 10)]
    for place in places:
        place.mkdir()
    return places


# W-125; design section 5, rules 1 and 4.
def test_nothing_acknowledged_is_lost_doubled_or_moved_by_a_kill(
    start_broker, background
):
    chosen = choices()
    broker = start_broker("--rotate-entries", LIST_ENTRIES, "--index-lists", 5)
    news = broker.set().create()
    lists = news.changelists().read()
    publishers = Publishers(news, chosen)
    for round in range(soak(4, 20)):
        hearing = background(hear, news.websocket(form="xml")) if round else None
        places = []
        if round % 3 == 2:
            news.wait_list_files(len(lists) - 1)
            places = obstruct(news, len(lists))
        post_and_kill(broker, publishers, chosen)
        kept = lists.read().history
        assert kept.last in kept.digests
        check_heard(hearing.join() if hearing else History(None), kept)
        publishers.check(kept)
        for i, closed in enumerate(lists[:-1], 1):
            assert closed.last == i * LIST_ENTRIES
        for place in places:
            place.rmdir()
    lists.read()
    news.wait_list_files(len(lists) - 1)
    lists.read()  # now that all files exist


def told(callback, news):
    """Count the notifications that a callback got of each change of each Change
    List."""
    counts = collections.Counter()
    for delivery in callback.accepted:
        document = Document(delivery.body)
        document.check_valid()
        assert document.capability == "framework-notification"
        for url in document.all("/s:urlset/s:url"):
            event = url.find("{*}md").attrib
            loc = url.findtext("{*}loc").removeprefix(f"{news.url}/")
            if event["capability"] == "changelist":
                (index,) = url.findall("{*}ln[@rel='index']")
                assert index.get("href") == f"{news.url}/changelist.xml"
            counts[event["change"], loc] += 1
    return counts


# the beginning of every list but the first is announced once, the end of
# a list at most once, and no missing list.
def test_every_rotation_is_told_once_whatever_was_killed(start_broker, callbacks):
    chosen = choices()
    broker = start_broker("--rotate-entries", 40, *hub.QUICK)
    news = broker.set().create()
    wait_for(
        "the set to be told of",
        lambda: b"capabilitylist.xml" in news.get("framework-notifications").body,
    )
    one = callbacks.add()
    hub.join(hub.framework(news), one)
    lists = news.changelists()
    publishers = Publishers(news, chosen)
    last = 1
    for _ in range(soak(4, 8)):
        post_and_kill(broker, publishers, chosen, 10, 60)
        publishers.check(lists.read().history)
        assert len(lists) >= last
        last = len(lists)
        name = news.list_path(last)
        one.accepted.find(lambda d, name=name.encode(): name in d.body, name)
        counts = told(one, news)
        assert not counts["created", "capabilitylist.xml"]  # once, before that
        for number in range(1, last + 2):
            path = news.list_path(number)
            assert counts["created", path] == (1 < number <= last)
            # A list that began and ended in one commit is only announced as created.
            least = number == 1 and last > 1
            assert least <= counts["updated", path] <= (number < last)
    assert last > 4
