"""SIGKILL in the middle of deliveries and verifications."""

import pytest

from tidings_test import hub
from tidings_test.callbacks import (
    check_signature,
    check_webhook,
    close,
    hang,
    parameter,
    reset,
    reset_early,
    reset_middle,
    trickle,
)
from tidings_test.feed import Feed
from tidings_test.sets import Set
from tidings_test.soak import choices, soak

POST_MAX = 20  # entries
REQUESTS_MAX = 30  # before a kill


@pytest.fixture
def news(start_broker):
    return start_broker(*hub.QUICK).set().create()


def kill(broker, chosen=None):
    """Kill it, at any moment, and start it again."""
    for _ in range(chosen.randint(0, REQUESTS_MAX) if chosen else 0):
        assert broker.get("/healthz").status == 200
    broker.kill()
    broker.restart()


def check_whole(callback, last):
    """In the end it has everything up to `last`: nothing is missing, doubled or
    moved."""
    callback.wait_last(last)
    assert callback.holes == 0
    assert callback.history().last == last


def misbehave(callback, i):
    """Every third callback is in good order, the others fail now and then."""
    if i % 3 == 1:
        failure = (reset, reset_early, reset_middle, close)[i % 4]
        callback.next(*[200] * (2 + i % 5), 503, 200, 200, 200, failure, failure)
    if i % 3 == 2:
        callback.next(trickle(pause=0.001), trickle(pause=0.001))


# W-074, W-091, W-093, R-306; design section 5, rules 1 and 3: every entry, in order,
# once when repeats are dropped by the delivery's id.
def test_deliveries_go_on_where_a_kill_has_cut_them(news, callbacks):
    chosen = choices()
    each = [callbacks.join(news) for _ in range(soak(12, 24))]
    for _ in range(soak(4, 12)):
        for i, callback in enumerate(each):
            misbehave(callback, i)
        for _ in range(chosen.randint(1, soak(30, 60))):
            last = news.post(chosen.randint(1, POST_MAX)).last
        kill(news.broker, chosen)
    for callback in each:
        callback.wait_last(last)
        hub.wait_head(news, callback)
        assert callback.accepted[0].after == 0
        check_whole(callback, last)


# W-074, W-091, R-306: the same bytes, under the same id, also when there is more by
# then.
def test_the_delivery_in_flight_is_repeated_as_it_was(news, callbacks):
    one = callbacks.join(news)
    one.next(hang)
    news.post(3)
    first = one.deliveries.wait(1)
    news.post(4)
    kill(news.broker)
    again = one.deliveries.wait(2)
    assert (again.id, again.body) == (first.id, first.body)
    one.wait_last(7)
    assert one.holes == 0


# W-070, W-074: granted leases and secrets hold.
def test_subscriptions_leases_and_secrets_outlive_a_kill(news, callbacks):
    cases = [
        (None, None),
        ("s3cr3t", "1000"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "300"),
        ("a b+c&d=e%26é", "2678400"),
    ]
    ended = callbacks.join(news)
    each, before = [], []
    for i, (secret, lease) in enumerate(cases):
        each.append(callbacks.add(f"/cb/{i}?a=%7E"))
        hub.check_taken(hub.subscribe(news, each[-1], secret=secret, lease=lease))
        before.append(hub.wait_active(news, each[-1]))
    hub.check_taken(hub.unsubscribe(news, ended))
    hub.wait_gone(news, ended)
    kill(news.broker)

    # The kill may come before the end is in hub.db: then the hub asks again.
    hub.wait_gone(news, ended)
    assert len(hub.subscriptions(news)) == len(cases)
    for callback, known in zip(each, before):
        found = hub.find(news, callback)
        for fact in ("id", "state", "leaseEnd"):
            assert found[fact] == known[fact]
    news.post()
    for callback, (secret, _) in zip(each, cases):
        check_signature(callback.deliveries.wait(1), secret, "sha256")
    check_webhook(each[2].deliveries[0], cases[2][0])
    assert not len(ended.deliveries)


# W-031, W-044, W-074: a 202 is a promise; and the subscription begins where it was
# asked for.
def test_a_request_that_was_taken_outlives_a_kill(news, callbacks):
    one = callbacks.add()
    news.post(2)
    one.next(hang, of="verification")
    hub.check_taken(hub.subscribe(news, one, secret="s3cr3t", lease=1234))
    one.verifications.wait(1)
    news.post(2)
    kill(news.broker)

    one.verifications.wait(2)
    for verification in one.verifications:
        assert parameter(verification, "hub.mode") == "subscribe"
        assert parameter(verification, "hub.topic") == news.topic
        assert parameter(verification, "hub.lease_seconds") == "1234"
    known = {parameter(each, "hub.challenge") for each in one.verifications}
    assert len(known) == 2 and all(known)  # W-053
    one.wait_last(4)
    assert one.accepted[0].after == 2
    check_signature(one.deliveries[0], "s3cr3t", "sha256")


# W-061, W-074
def test_an_unsubscription_that_was_taken_outlives_a_kill(news, callbacks):
    fence, one = callbacks.join(news), callbacks.join(news)
    one.next(hang, of="verification")
    hub.check_taken(hub.unsubscribe(news, one))
    one.verifications.wait(2)
    kill(news.broker)
    assert parameter(one.verifications.wait(3), "hub.mode") == "unsubscribe"
    hub.wait_gone(news, one)
    hub.fence(news, fence)
    assert not len(one.deliveries)


# W-072, W-074: time goes on while the broker is away.
def test_a_lease_ends_also_while_the_broker_is_down(start_broker, callbacks, faults):
    broker = start_broker(*hub.QUICK, env=faults.env)
    news = broker.set().create()
    fence, one = callbacks.join(news), callbacks.join(news, lease=3600)
    broker.kill()
    faults.set_clock(3600)
    broker.restart()
    hub.wait_gone(news, one)
    hub.fence(news, fence)
    assert not len(one.deliveries)
    assert len(one.verifications) == 1  # kept as it is


# W-091, R-306: an operator's redelivery is no repeat, but each try of it is.
def test_a_redelivery_is_another_delivery(news, callbacks):
    one = callbacks.join(news)
    news.post(3)
    first = one.deliveries.wait(1)
    known = hub.wait_head(news, one)
    one.next(hang)
    path = f"{news.path}/subscriptions/{known['id']}/redeliver?after=0"
    assert news.broker.post(path).status == 200
    second = one.deliveries.wait(2)
    kill(news.broker)
    third = one.deliveries.wait(3)
    assert first.body == second.body == third.body
    assert first.id != second.id == third.id
    one.accepted.wait(2)  # of those with ids of their own
    (fault,) = one.faults  # which was asked for
    assert fault.endswith("goes back")
    one.faults.clear()


# R-306; W-074, W-091: SIGTERM waits for no callback (they have 100 seconds here), and
# the hub repeats the interrupted deliveries after the next start.
def test_an_end_cuts_what_hangs_and_loses_nothing(start_broker, callbacks):
    options = ("--hub-timeout", 100, "--hub-host-connections", 1000)
    news = start_broker(*hub.QUICK, *options).set().create()
    each = [callbacks.join(news) for _ in range(soak(50, 200))]
    for callback in each:
        callback.next(hang)
    news.post(3)
    for callback in each:
        callback.deliveries.wait(1)
    last = news.post(3).last
    news.broker.stop()
    news.broker.restart()
    for callback in each:
        first, again = callback.deliveries[0], callback.deliveries.wait(2)
        assert (again.id, again.body) == (first.id, first.body)
        callback.wait_last(last)
        assert callback.holes == 0


class Mixture:
    """Everything at once: callbacks that renew, callbacks that come and go, a callback
    that fails, and documents of a foreign Source."""

    def __init__(self, news, feed, callbacks, chosen):
        self.news = news
        self.feed = feed
        self.chosen = chosen
        self.reader = feed.join()
        self.failing = callbacks.join(news)
        self.staying = [callbacks.join(news) for _ in range(12)]
        # True if a subscription was answered last, False: an unsubscription.
        self.flipping = {callbacks.add(): False for _ in range(12)}
        self.documents = 0  # that were answered with 200

    def ask(self, mode, callback):
        lease = self.chosen.randint(300, 1300) if mode == "subscribe" else None
        hub.check_taken(hub.request(mode, self.news, callback, lease=lease))

    def round(self):
        chosen = self.chosen
        self.failing.always(500)
        for _ in range(chosen.randint(10, 60)):
            match chosen.randrange(6):
                case 0:
                    self.ask("subscribe", chosen.choice(self.staying))
                case 1 | 2:
                    callback = chosen.choice(list(self.flipping))
                    is_wanted = chosen.random() < 0.5
                    self.flipping[callback] = is_wanted
                    self.ask("subscribe" if is_wanted else "unsubscribe", callback)
                case 3:
                    self.feed.accept(str(self.documents))
                    self.documents += 1
                case _:
                    self.news.post(chosen.randint(1, POST_MAX))

    def check_subscriptions(self):
        """Every request that was answered with 202 has ended, the newest of its pair
        last."""
        for callback, is_wanted in self.flipping.items():
            (hub.wait_active if is_wanted else hub.wait_gone)(self.news, callback)
        for callback in self.staying:
            hub.wait_active(self.news, callback)

    def check_documents(self):
        """The hub delivered every document that it answered with 200, in order."""
        self.reader.accepted.find(lambda d: int(d.body) == self.documents - 1)
        following = 0
        for delivery in self.reader.deliveries:
            number = int(delivery.body)
            assert number <= following  # a repeat, or the next
            following += number == following
        assert following == self.documents


# W-031, W-036, W-044, W-061, W-074, W-090, R-296, R-306
def test_nothing_that_was_answered_is_lost(start_broker, callbacks, site):
    broker = start_broker(*hub.QUICK, *hub.LOOPBACK, "--hub-give-up", 0.1)
    news = broker.set().create()
    feed = Feed(broker, site, callbacks).register()
    chosen = choices()
    mixture = Mixture(news, feed, callbacks, chosen)
    for _ in range(soak(3, 8)):
        mixture.round()
        kill(broker, chosen)
        mixture.check_subscriptions()
    mixture.failing.always(200)
    feed.accept(str(mixture.documents))
    mixture.documents += 1
    last = news.post().last
    for callback in mixture.staying:
        check_whole(callback, last)
    mixture.failing.wait_last(last)  # with holes, but it goes on
    mixture.check_documents()


def subscribe_as(broker, token, news, callback):
    """An active subscription of the holder of that token."""
    hub.check_taken(hub.subscribe(Set(broker.holder(token), news.name), callback))
    hub.wait_active(news, callback)


# A subscription whose token has ended is over, at whatever moment a kill comes: its
# callback gets no later post. (A denial that was on its way is lost.)
def test_a_kill_revives_no_subscription_of_an_ended_token(start_broker, callbacks):
    broker = start_broker(*hub.QUICK, *hub.LOOPBACK)
    broker.add_token("root", admin=True)
    news = Set(broker, "news").create()
    for i in range(soak(4, 30)):
        token = broker.add_token(f"t{i}", subscribe=["*"])
        one = callbacks.add()
        subscribe_as(broker, token, news, one)
        hub.fence(news, one)
        n = len(one.deliveries)
        assert broker.delete(f"/tokens/t{i}").status == 204
        kill(broker, choices())
        hub.wait_gone(news, one)
        hub.fence(news, callbacks.join(news))
        assert (len(one.deliveries), len(one.denials) <= 1) == (n, True)


# A token can be revoked while there is no broker: the start denies, and sends nothing
# else.
def test_a_start_denies_the_subscriptions_of_ended_tokens(start_broker, callbacks, run):
    broker = start_broker(*hub.QUICK, *hub.LOOPBACK)
    broker.add_token("root", admin=True)
    news = Set(broker, "news").create()
    one, pending = callbacks.add(), callbacks.add()
    token = broker.add_token("one", subscribe=["*"])
    subscribe_as(broker, token, news, one)
    pending.always(hang, of="verification")
    hub.check_taken(hub.subscribe(Set(broker.holder(token), "news"), pending))
    pending.verifications.wait(1)
    broker.kill()
    run("tidingsd", "token", "revoke", "one", "--data", str(broker.data))
    broker.restart()
    for each in (one, pending):
        reason = parameter(each.denials.wait(1), "hub.reason")
        assert reason == "the token of this subscription has ended"
    assert not hub.subscriptions(news)
    assert (len(one.deliveries), len(pending.verifications)) == (0, 1)
