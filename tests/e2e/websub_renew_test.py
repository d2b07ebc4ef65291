"""A subscription changes, and ends, only when its owner says so, or its time is
over."""

import time

import pytest

from tidings_test import callbacks as cb
from tidings_test import hub

pytestmark = pytest.mark.broker(*hub.QUICK)


def ask(mode, news, callback, **form):
    hub.check_taken(hub.request(mode, news, callback, **form))


def check_secret(news, callback, secret):
    """New posts are delivered once, signed with that secret."""
    n = len(callback.deliveries)
    news.post()
    cb.check_signature(callback.deliveries.wait(n + 1), secret)
    hub.wait_head(news, callback)
    assert len(callback.deliveries) == n + 1


# W-035, W-036, W-037, W-103, R-302
def test_a_renewal_counts_once_it_is_verified(news, callbacks):
    one = callbacks.join(news, secret="first", lease=1000)
    check_secret(news, one, "first")
    before = hub.find(news, one)

    # It is not: all stays as it was.
    refused = cb.Held(404)
    one.next(refused, of="verification")
    ask("subscribe", news, one, secret="second", lease=2000)
    one.verifications.wait(2)
    check_secret(news, one, "first")
    refused.release()
    hub.settle(news, one, 2)
    check_secret(news, one, "first")
    after = hub.find(news, one)
    assert (after["leaseEnd"], after["id"]) == (before["leaseEnd"], before["id"])

    # It is.
    ask("subscribe", news, one, secret="third", lease=3000)
    hub.settle(news, one, 3)
    check_secret(news, one, "third")
    assert hub.find(news, one)["leaseEnd"] != before["leaseEnd"]

    ask("subscribe", news, one)
    hub.settle(news, one, 4)
    check_secret(news, one, None)


# W-036: the callback's answer to the older one comes too late.
def test_of_several_requests_the_newest_counts(news, callbacks):
    one = callbacks.add()
    older = cb.Held()
    one.next(older, of="verification")
    ask("subscribe", news, one, secret="older")
    one.verifications.wait(1)
    ask("subscribe", news, one, secret="newer")
    hub.settle(news, one, 2)
    hub.wait_active(news, one)
    older.release()
    callbacks.join(news)
    check_secret(news, one, "newer")


# W-036: an unsubscription that waits is overtaken as well.
def test_who_changes_its_mind_stays(news, callbacks):
    one = callbacks.join(news)
    older = cb.Held()
    one.next(older, of="verification")
    ask("unsubscribe", news, one)
    one.verifications.wait(2)
    ask("subscribe", news, one, secret="again")
    hub.settle(news, one, 3)
    older.release()
    callbacks.join(news)
    check_secret(news, one, "again")


# W-035, W-037: not interrupted, not doubled, not forgotten when it fails.
@pytest.mark.broker(*hub.QUICK, "--hub-timeout", "600")
def test_a_renewal_leaves_a_delivery_in_flight_alone(news, callbacks):
    one = callbacks.join(news)
    tries = [cb.Held(500), cb.Held(200)]
    one.next(*tries)
    news.post(2)
    for n, (held, secret) in enumerate(zip(tries, ["new", "newer"]), 1):
        one.deliveries.wait(n)
        ask("subscribe", news, one, secret=secret)
        hub.settle(news, one, n + 1)
        news.post(2)
        held.release()

    again = one.deliveries.wait(2)
    assert (again.id, again.body) == (one.deliveries[0].id, one.deliveries[0].body)
    cb.check_signature(again, "new")
    behind = one.deliveries.wait(3)
    assert behind.after == 2
    cb.check_signature(behind, "newer")
    one.wait_last(6)
    hub.wait_head(news, one)
    one.history()
    assert (len(one.deliveries), one.repeats) == (3, 0)


# W-061, R-301
def test_only_its_owner_ends_a_subscription(news, callbacks):
    fence = callbacks.join(news)
    one = callbacks.join(news)

    # Somebody else asks.
    one.next(404, of="verification")
    ask("unsubscribe", news, one)
    hub.settle(news, one, 2)
    check_secret(news, one, None)

    ask("unsubscribe", news, one)
    hub.wait_gone(news, one)
    n = len(one.deliveries)
    hub.fence(news, fence)
    hub.fence(news, fence)
    assert len(one.deliveries) == n


def see_retries(callback, n):
    """Wait for so many more."""
    callback.deliveries.wait(len(callback.deliveries) + n)


def check_no_more(news, one, other, fence):
    """`one` has ended: the hub retries another one that failed at the same time, and
    not this one; a retry may still have been on its way."""
    see_retries(other, 1)
    n = len(one.deliveries)
    see_retries(other, 2)
    hub.fence(news, fence)
    assert len(one.deliveries) == n


# W-061: not even what has failed, and was to come again.
@pytest.mark.broker("--hub-retry-first", "0.2", "--hub-retry-max", "0.2")
def test_after_the_end_nothing_is_retried(news, callbacks):
    fence, one, other = (callbacks.join(news) for _ in range(3))
    one.always(500)
    other.always(500)
    news.post()
    one.deliveries.wait(1)
    ask("unsubscribe", news, one)
    hub.wait_gone(news, one)
    check_no_more(news, one, other, fence)


# W-034: the query is part of the callback; and the topic of the pair.
def test_another_pair_is_another_subscription(news, callbacks):
    one = callbacks.join(news, "/cb/1?a=1")
    other = callbacks.join(news, "/cb/1?a=2")
    assert len(hub.subscriptions(news)) == 2
    ask("unsubscribe", news, one)
    hub.wait_gone(news, one)
    hub.fence(news, other)
    assert not len(one.deliveries)
    assert len(hub.subscriptions(news)) == 1


# W-062
def test_to_end_what_is_not_there_changes_nothing(news, callbacks):
    fence = callbacks.join(news)
    one = callbacks.add()
    status = hub.unsubscribe(news, one).status
    assert status == 202 or status // 100 == 4
    hub.fence(news, fence)
    assert not len(one.deliveries)
    # The verification may still wait for its answer.
    assert [s["state"] for s in hub.subscriptions(news)].count("active") == 1


# W-070, W-072, R-300: and the callback can subscribe again from then on.
@pytest.mark.broker(*hub.QUICK, "--hub-lease-min", "1")
def test_a_lease_ends(news, callbacks):
    fence = callbacks.join(news)
    one = callbacks.add()
    ask("subscribe", news, one, lease=1)
    asked = one.verifications.wait(1)
    assert cb.parameter(asked, "hub.lease_seconds") == "1"
    hub.wait_gone(news, one)
    # The lease, less what its clock rounds.
    assert time.monotonic() - asked.at >= 0.5
    n = len(one.deliveries)
    hub.fence(news, fence)
    assert len(one.deliveries) == n

    hub.join(news, one)
    hub.fence(news, fence)
    one.wait_last(2)
    assert one.accepted[0].after == 1


# W-072: a delivery that keeps failing ends with the lease, too. How often it is tried
# before is a matter of the machine; unit/hub_quiet counts it.
@pytest.mark.broker(*hub.QUICK, "--hub-lease-min", "1")
def test_no_retry_outlives_the_lease(news, callbacks):
    fence = callbacks.join(news)
    other = callbacks.join(news)
    one = callbacks.add()
    one.always(500)
    other.always(500)
    news.post()
    ask("subscribe", news, one, lease=2, after=0)
    hub.wait_gone(news, one)
    see_retries(other, 2)
    check_no_more(news, one, other, fence)


# W-041, W-042, R-303: the topic is no more; the hub denies its subscribers.
def test_who_loses_its_topic_is_denied(news, callbacks):
    one = callbacks.join(news, "/cb/1?a=b")
    one.wait_last(news.post().last)
    assert news.delete().status // 100 == 2
    denial = one.denials.wait(1)
    assert cb.parameter(denial, "hub.mode") == "denied"
    assert cb.parameter(denial, "hub.topic") == news.topic
    assert cb.parameter(denial, "hub.challenge") is None


# W-042: the hub also denies a subscriber that the operator removes.
def test_who_is_put_out_is_denied(news, callbacks, broker):
    fence = callbacks.join(news)
    one = callbacks.join(news)
    path = f"{news.path}/subscriptions/{hub.find(news, one)['id']}"
    assert broker.delete(path).status // 100 == 2
    assert cb.parameter(one.denials.wait(1), "hub.topic") == news.topic
    hub.fence(news, fence)
    assert not len(one.deliveries)
    # The verification may still wait for its answer.
    assert [s["state"] for s in hub.subscriptions(news)].count("active") == 1
