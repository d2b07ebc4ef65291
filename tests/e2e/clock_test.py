"""A clock that somebody sets, back and forward."""

import datetime

import pytest

from tidings_test.waiting import wait_for

HOUR = 3600
HOURS = datetime.timedelta(hours=1)
MICROSECOND = datetime.timedelta(microseconds=1)


@pytest.fixture
def start_set(start_broker, faults):
    """start_set("--x", 1): a set of a broker with a clock that can be set."""
    return lambda *options: start_broker(*options, env=faults.env).set()


def post_at(news):
    """Post one entry; its time."""
    receipt = news.post()
    assert receipt.last == news.posted
    return datetime.datetime.fromisoformat(receipt.datetime)


def check_history(lists):
    """All entries are in the lists (`lists` checks their times), and a new follower
    gets the same."""
    news = lists.set
    pulled = lists.read().history
    assert pulled.last == news.posted
    numbers = range(1, news.posted + 1)
    assert pulled.locs() == [f"http://example.com/r/{n}" for n in numbers]
    follower = news.websocket("after=0", form="xml").until(news.posted)
    follower.history.check_same(pulled)
    follower.leave()


# design section 1, event time: strictly increasing.
def test_a_clock_set_back_an_hour_moves_no_time_back(start_set, faults):
    news = start_set("--rotate-entries", "4", "--heartbeat", "0.2")
    lists = news.changelists()
    before = post_at(news)
    follower = news.websocket("after=0").until(1)
    faults.set_clock(-HOUR)
    for _ in range(10):
        at = post_at(news)
        assert at == before + MICROSECOND
        before = at
        follower.until(news.posted)
    news.rotate()
    check_history(lists)
    assert not follower.next().entries  # heartbeats still come

    # The broker uses the times of the clock again when it is right again.
    faults.set_clock(0)
    assert post_at(news) > before + 10 * MICROSECOND
    follower.until(news.posted).leave()
    check_history(lists)


# The last time is in the log, not only in the process.
def test_a_clock_that_was_ahead_before_a_restart_moves_no_time_back(start_set, faults):
    news = start_set("--rotate-entries", "4")
    lists = news.changelists()
    before = post_at(news)
    faults.set_clock(HOUR)
    at = post_at(news)
    assert at > before + 0.9 * HOURS

    for i in range(4):
        is_killed = i % 2 == 0
        news.broker.kill() if is_killed else news.broker.stop()
        faults.set_clock(0 if is_killed else -HOUR)
        news.broker.restart()
        before, at = at, post_at(news)
        assert at == before + MICROSECOND
        if i == 2:  # also where the last entry is that of a closed list
            news.rotate()
        check_history(lists)


# The lists are old by the clock that jumps; the jump has no other effect.
def test_a_clock_that_jumps_forward_closes_old_lists(start_set, faults):
    news = start_set("--rotate-age", "1800")
    lists = news.changelists()
    post_at(news)
    faults.set_clock(HOUR)
    wait_for("a closed list", lambda: news.state()["lists"]["closed"] == 1)
    assert len(lists.read()) == 2
    faults.set_clock(-HOUR)
    post_at(news)
    check_history(lists)
