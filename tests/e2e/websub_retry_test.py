"""A failed delivery comes again, the same, and in order: all later changes come after
it."""

import email.utils
import time

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub
from tidings_test.history import History

pytestmark = pytest.mark.broker(*hub.QUICK)


def join_each(news, callbacks, behaviours):
    """A callback for each behaviour, which treats its next delivery that way."""
    each = [callbacks.join(news) for _ in behaviours]
    for one, behaviour in zip(each, behaviours):
        one.next(behaviour)
    return each


def check_same(delivery, first):
    assert (delivery.id, delivery.body) == (first.id, first.body)


# W-087, W-089, W-091, R-297, R-305, R-306; W-162: redirects are not followed.
def test_what_failed_comes_again_the_same(news, callbacks):
    elsewhere = callbacks.add()
    location = f"Location: {elsewhere.url}\r\n"
    behaviours = [
        *(cb.answer(status, location) for status in (301, 302, 303, 304, 307, 308)),
        *(400, 401, 404, 413, 429, 500, 503),
        cb.reset_early,
        cb.reset,
        cb.reset_middle,
        cb.close_middle,
        cb.close,
        cb.garbage,
        cb.endless_head,
    ]
    each = join_each(news, callbacks, behaviours)
    news.post(2)
    for one in each:
        again = one.deliveries.wait(2)
        one.wait_last(2)
        hub.wait_head(news, one)
        assert len(one.deliveries) == 2
        if one.deliveries[0].body is not None:
            check_same(again, one.deliveries[0])
        assert one.holes == 0
    assert not len(elsewhere.deliveries)
    assert not len(elsewhere.verifications)


# W-087, W-091, R-305, R-306: an incomplete delivery does not count here.
@pytest.mark.broker(*hub.QUICK, "--hub-timeout", "0.5")
def test_what_takes_too_long_comes_again_the_same(news, callbacks):
    behaviours = [cb.hang, cb.trickle(pause=1), cb.slow_read(pause=1000)]
    each = join_each(news, callbacks, behaviours)
    fence = callbacks.join(news)
    news.post(2)
    for one, n in zip(each, (2, 2, 1)):
        again = one.deliveries.wait(n)
        one.wait_last(2)
        hub.wait_head(news, one)
        check_same(again, one.deliveries[0])
        assert again.peer > 1
        assert one.holes == 0
    hub.fence(news, fence)


# down, then up.
def test_who_was_away_gets_everything_when_it_is_back(news, callbacks):
    one = callbacks.join(news)
    hub.fence(news, one)
    callbacks.go_down()
    for _ in range(10):
        news.post(5)
    told = hub.wait(news, one, "failing", lambda s: s["failures"] >= 2)
    assert told["lastError"]
    assert (told["state"], told["lag"]) == ("active", 50)

    callbacks.listen()
    one.wait_last(51)
    hub.wait_head(news, one)
    assert one.history().last == 51


# W-089: no sooner than it was asked for.
def test_retry_after_is_kept_to(news, callbacks):
    when = int(time.time()) + 2
    date = email.utils.formatdate(when, usegmt=True)
    seconds, dated = join_each(
        news,
        callbacks,
        [
            cb.answer(429, "Retry-After: 1\r\n"),
            cb.answer(503, f"Retry-After: {date}\r\n"),
        ],
    )
    news.post()
    again = seconds.deliveries.wait(2)
    assert again.at - seconds.deliveries[0].at >= 1
    dated.deliveries.wait(2)
    assert time.time() >= when


# W-089: it means something with 429 and 503 only.
def test_retry_after_of_other_answers_is_nobodys_business(news, callbacks):
    statuses = (302, 400, 404, 500, 502, 504)
    later = "Retry-After: 86400\r\n"
    each = join_each(news, callbacks, [cb.answer(status, later) for status in statuses])
    news.post()
    for one in each:
        one.wait_last(1)


# W-090, R-305, R-309
@pytest.mark.broker(*hub.QUICK, "--hub-give-up", "0.5")
def test_what_is_given_up_leaves_a_hole_that_shows(news, callbacks):
    one = callbacks.join(news)
    one.wait_last(news.post(2).last)
    hub.wait_head(news, one)
    one.always(500)
    news.post(3)
    told = hub.wait(news, one, "given up", lambda s: s["skipped"] > 0)
    assert told["state"] == "active"
    assert len(one.deliveries) > 2  # it was retried

    one.always(200)
    one.wait_last(news.post().last)
    assert (one.holes, len(one.accepted)) == (1, 2)
    assert (one.accepted[1].after, one.accepted[1].last) == (5, 6)


# W-082, W-091, W-093, R-306, R-311
@pytest.mark.broker(*hub.QUICK, "--hub-timeout", "600")
def test_what_gathers_behind_a_delivery_goes_out_at_once(news, callbacks):
    held = cb.Held()
    (one,) = join_each(news, callbacks, [held])
    news.post()
    one.deliveries.wait(1)
    for _ in range(20):
        news.post(5)
    assert len(one.deliveries) == 1
    held.release()
    behind = one.deliveries.wait(2)
    assert (behind.after, behind.last) == (1, 101)
    one.wait_last(101)
    one.history()


# the first try fixes the delivery, in spite of later changes.
def test_a_retry_covers_what_the_first_try_did(news, callbacks):
    one = callbacks.join(news)
    tries = [cb.Held(500), cb.Held(cb.reset)]
    one.next(*tries)
    news.post(3)
    for n, held in enumerate(tries, 1):
        one.deliveries.wait(n)
        news.post(2)
        held.release()
    one.wait_last(7)
    for delivery in one.deliveries[:3]:
        assert delivery.last == 3
        check_same(delivery, one.deliveries[0])
    assert (one.deliveries[3].after, one.deliveries[3].last) == (3, 7)


# W-091, W-093, W-120, R-287, R-292, R-306, R-307: the same history, with the digests
# of the Change List; each callback fails in another order of things.
def test_everything_comes_in_order_whatever_fails(news, callbacks):
    failing = [
        [200] * 3,
        [500] * 2,
        [cb.reset],
        [200] * 5,
        [cb.reset_early],
        [cb.garbage],
        [cb.answer(429, "Retry-After: 0\r\n")],
        [cb.trickle(pause=0.001)] * 5,
    ]
    each = [callbacks.join(news) for _ in range(5)]
    for i, one in enumerate(each):
        one.next(*sum(failing[i:], []))
    for i in range(100):
        last = news.post(1 + i % 7).last
    for one in each:
        one.wait_last(last)
    listed = History()
    listed.add_document(news.changelist())
    for one in each:
        history = one.history()
        assert history.last == last
        assert last in history.digests
        history.check_same(listed)
