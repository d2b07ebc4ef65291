"""SIGTERM while everybody is busy: acknowledged entries stay, every follower gets a
farewell, and the exit status is 0."""

import signal

import pytest

from tidings_test.http import JSON, ConnectionEnded
from tidings_test.sets import change

POSTERS = 4


def post_until_refused(news, poster, acknowledged):
    """Post one entry after the other, and count them in acknowledged[poster], until the
    broker takes none any more."""
    with news.broker.connect() as connection:
        status = 200
        while status == 200:
            body = change(f"http://example.com/{poster}/{acknowledged[poster]}")
            try:
                answer = connection.request(
                    news.changes, "POST", body, content_type=JSON
                )
            except ConnectionEnded:
                break
            status = answer.status
            acknowledged[poster] += status == 200
        assert status in (200, 503)


def count_kept(news):
    """How many posts of each poster there are; they are in order."""
    kept = [0] * POSTERS
    page = news.page("after=1")
    while page.entries:
        page.check()
        for loc in page.locs:
            poster, number = map(int, loc.split("/")[3:])
            assert number == kept[poster]
            kept[poster] += 1
        page = news.page(f"after={page.last}")
    return kept


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well_in_the_middle_of_everything(
    start_broker, background, number
):
    broker = start_broker("--threads", "2")
    news = broker.set()
    news.post()
    followers = [news.websocket(form=form) for form in ("json", "xml") * 3]
    half = news.start_post()
    acknowledged = [0] * POSTERS
    posters = [
        background(post_until_refused, news, i, acknowledged) for i in range(POSTERS)
    ]
    # Everybody is at work when each follower has got 100 posts, and all posters have
    # begun.
    for follower in followers:
        while follower.next().last < 100:
            pass
    while not all(acknowledged):
        followers[0].next()

    broker.process.signal(number)
    for follower in followers:
        follower.wait_close(1001)
        follower.leave()
    half.close()
    assert broker.wait() == 0
    for poster in posters:
        poster.join()

    # The broker may have committed one more post of each, without an answer.
    broker.restart()
    for kept, known in zip(count_kept(news), acknowledged, strict=True):
        assert known <= kept <= known + 1


# Nor does a post that is never whole. The broker waits five seconds for them.
def test_a_subscriber_that_does_not_read_does_not_keep_it_from_ending(start_broker):
    broker = start_broker()
    news = broker.set()
    news.post()
    followers = [news.websocket(form=form, narrow=True) for form in (None, "xml") * 2]
    for follower in followers:
        follower.next()
    for _ in range(10):
        news.post(15, size=65000)
    half = news.start_post()
    broker.wait_threads()
    broker.stop()
    half.close()
    for follower in followers:
        follower.leave()


# R-287 over a restart: the position of yesterday's follower is still one, with the same
# digest.
def test_a_follower_goes_on_after_a_restart_where_it_was(start_broker):
    broker = start_broker()
    news = broker.set()
    news.post(5)
    follower = news.websocket("after=0", form=None).until(5)
    before = follower.message
    follower.leave()
    broker.stop()
    broker.restart()

    follower = news.websocket(f"after={before.epoch}-5", form=None)
    follower.next().check_follows(before)
    assert follower.message.digest == before.digest
    news.post()
    assert follower.next().last == 6
    follower.leave()
