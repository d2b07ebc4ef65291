"""?since=DATETIME: the changes after that time."""

import pytest

from tidings_test.http import check_refused
from tidings_test.stream import UPGRADE

POSTS = 12


def post_all(news):
    """Posts of one to three entries; their receipts."""
    return [news.post(1 + i % 3) for i in range(POSTS)]


def check_begins(news, since, after):
    """A page and a stream that ask for `since` both begin at `after`."""
    answer = news.get(f"changes?since={since}")
    page = answer.message()
    page.check()
    assert page.after == after
    link = f"<{news.url}/changes?after={page.epoch}-{after}>;"
    assert answer["Link"].startswith(link)
    for form in ("json", "xml"):
        follower = news.websocket(f"since={since}", form)
        assert follower.next().after == after  # a heartbeat
        follower.leave()


def check_finds_all(news, receipts):
    for receipt in receipts:
        moment = receipt.datetime
        check_begins(news, moment, receipt.last)
        # A microsecond earlier; where that is another digit, too.
        if moment[-2] > "0":
            earlier = f"{moment[:-2]}{int(moment[-2]) - 1}Z"
            check_begins(news, earlier, receipt.last - 1)
    for moment in (
        *("1999", "2020-02-29", "2020-02-29T12:00%2B01:00"),
        "2020-02-29T12:00:30.5+01:00",
    ):
        check_begins(news, moment, 0)
    check_begins(news, "9998-12", receipts[-1].last)  # now


# design.md section 4: in memory, in the log, in closed lists' files.
def test_finds_the_moment_wherever_it_is_kept(start_broker):
    broker = start_broker("--rotate-entries", "4")
    news = broker.set()
    in_the_way = broker.data / "sets"  # so that lists get no files
    in_the_way.write_text("in the way")
    receipts = post_all(news)
    check_finds_all(news, receipts)
    broker.stop()
    broker.restart()
    check_finds_all(news, receipts)
    in_the_way.unlink()
    news.wait_list_files(POSTS * 2 // 4)
    broker.stop()
    broker.restart()
    check_finds_all(news, receipts)


# exactly what happened later, then on live.
def test_a_stream_goes_on_from_the_moment(start_broker):
    broker = start_broker("--rotate-entries", "4")
    news = broker.set()
    receipts = post_all(news)
    broker.stop()
    broker.restart()
    since = f"since={receipts[3].datetime}"
    follower = news.websocket(since)
    assert follower.next().last == receipts[3].last
    follower.until(receipts[-1].last)
    news.post()
    follower.until(receipts[-1].last + 1)
    follower = news.websocket(f"{since}&change=deleted")
    assert follower.next().last == receipts[3].last


# tidings follow --since.
@pytest.mark.broker("--rotate-entries", "4")
def test_a_follower_begins_at_the_moment(news, run):
    receipts = post_all(news)
    since = receipts[4].datetime
    followed = run("tidings", "follow", news.url, "--since", since, "--count", "1")
    assert followed.out[0].startswith(f"{receipts[4].last + 1} ")


# Hostile input gets a clear problem; of a stream, too.
def test_what_is_no_moment_is_refused(news, broker):
    news.post()
    no_moment = 'since: not a W3C Datetime: "{}"'.format
    contradiction = "since and after contradict each other: give one"
    for query, why in (
        ("since=", no_moment("")),
        ("since=yesterday", no_moment("yesterday")),
        ("since=2026-02-30", no_moment("2026-02-30")),
        ("since=1775067000", no_moment("1775067000")),
        ("since=2026&after=0", contradiction),
        ("after=0&since=2026", contradiction),
    ):
        for path, headers in ((news.changes, {}), (news.stream, UPGRADE)):
            answer = broker.get(f"{path}?{query}", **headers)
            check_refused(answer, 400)
            assert answer.json()["detail"] == why
