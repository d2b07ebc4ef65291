"""What a token has opened ends with it: streams, long polls and subscriptions, whichever
way the token ends. A bridge waits until there is a token of that name again."""

import datetime

import pytest

from tidings_test import hub
from tidings_test.callbacks import hang, parameter
from tidings_test.mqtt import QUICK, Reader, half, wait_half
from tidings_test.sets import Set

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def broker(start_broker, faults):
    """An open broker whose clock can be set, and from which nothing comes by itself."""
    options = ("--heartbeat", "3600", "--threads", "2", *hub.QUICK, *hub.LOOPBACK)
    return start_broker(*options, env=faults.env)


# The ways to end. Each gets the broker, and returns the token whose streams will end
# (None: they have none), and a function that ends it.


def revoked(broker, faults):
    broker.add_token("root", admin=True)
    token = broker.add_token("one", subscribe=["*"])
    return token, lambda: broker.delete("/tokens/one")


def expired(broker, faults):
    broker.add_token("root", admin=True)
    end = datetime.datetime.now(datetime.timezone.utc) + HOUR
    token = broker.add_token("one", subscribe=["*"], expires=end.isoformat())
    return token, lambda: faults.set_clock(HOUR.total_seconds())


def rotated(broker, faults):
    broker.add_token("root", admin=True)
    token = broker.add_token("one", subscribe=["*"])
    return token, lambda: broker.post("/tokens/one/rotate?grace=0")


def rotated_with_grace(broker, faults):
    broker.add_token("root", admin=True)
    token = broker.add_token("one", subscribe=["*"])
    assert broker.post("/tokens/one/rotate?grace=3600").status == 200
    return token, lambda: faults.set_clock(HOUR.total_seconds())


def closed_to_everyone(broker, faults):
    broker.add_token("root", admin=True)
    broker.add_token("everyone", subscribe=["*"])
    return None, lambda: broker.delete("/tokens/everyone")


def closed_by_the_first_token(broker, faults):
    return None, lambda: broker.add_token("root", admin=True)


WAYS = [
    revoked,
    expired,
    rotated,
    rotated_with_grace,
    closed_to_everyone,
    closed_by_the_first_token,
]

# Whose the subscriptions of clients without a token are.
OWNERS = {closed_to_everyone: "everyone"}


def check_unauthorized(answer):
    assert answer.status == 401, answer
    assert answer["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("way", WAYS)
def test_streams_and_polls_end_with_their_token(broker, faults, way):
    token, end = way(broker, faults)
    news = Set(broker, "news").create()
    theirs = Set(broker.holder(token), "news")
    socket = theirs.websocket()
    events = theirs.events()
    poll = theirs.broker.connect()
    socket.next()
    events.next()
    poll.ask(f"{news.changes}?wait=300")
    end()
    assert socket.wait_close(4401).reason == "the token has ended"
    assert events.wait_end("denied") == '{"detail":"the token has ended"}'
    check_unauthorized(poll.answer())

    # An EventSource that connects again gives up: the answer is no stream.
    check_unauthorized(theirs.get("stream", accept="text/event-stream"))


# Streams of other tokens go on, also those of the same name's new secret.
def test_streams_of_other_tokens_go_on(broker, faults):
    former, end = rotated(broker, faults)
    other = broker.add_token("other", subscribe=["*"])
    broker.add_token("everyone", subscribe=["*"])
    news = Set(broker, "news").create()
    ended = Set(broker.holder(former), "news").websocket()
    ended.next()
    present = end().json()["token"]
    rest = [
        Set(broker.holder(token), "news").websocket()
        for token in (present, other, None)
    ]
    for follower in rest:
        follower.next()
    ended.wait_close(4401)
    news.post(3)
    for follower in rest:
        follower.until(3)


# A subscription belongs to the name of a token, so a rotation does not end it.
@pytest.mark.parametrize("way", WAYS)
def test_subscriptions_end_with_their_token(broker, faults, callbacks, way):
    token, end = way(broker, faults)
    news = Set(broker, "news").create()
    theirs = Set(broker.holder(token), "news")
    active, pending = callbacks.add(), callbacks.add()
    pending.always(hang, of="verification")
    for one in (active, pending):
        hub.check_taken(hub.subscribe(theirs, one))
    owner = hub.wait_active(news, active).get("owner")
    assert owner == (token and "one" or OWNERS.get(way))
    hub.wait_pending(news, pending)
    end()
    if way not in (rotated, rotated_with_grace):
        for one in (active, pending):
            denial = one.denials.wait(1)
            reason = parameter(denial, "hub.reason")
            assert reason == "the token of this subscription has ended"
        assert not hub.subscriptions(news)
        callbacks.join(news).wait_last(news.post().last)
        assert not len(active.deliveries)
        return
    active.wait_last(news.post().last)
    assert not len(active.denials)
    assert broker.delete("/tokens/one").status == 204
    active.denials.wait(1)
    pending.denials.wait(1)


# The first token leaves the subscriptions that everyone may have.
def test_everyone_keeps_the_subscriptions_of_an_open_broker(broker, callbacks):
    news = Set(broker, "news").create()
    other = Set(broker, "other").create()
    private = Set(broker, "private").create(private=True)
    kept = callbacks.join(news)
    ended = [callbacks.join(each) for each in (other, private)]
    broker.add_token("everyone", subscribe=["news", "private"])
    for one in ended:
        one.denials.wait(1)
    news = Set(broker.client_at(broker.control), "news")
    kept.wait_last(news.post().last)
    assert not len(kept.denials)


# A rotation leaves the name, so it does not stop a bridge.
@pytest.mark.parametrize("way", WAYS)
def test_bridges_wait_until_their_token_is_back(start_bridge, mosquitto, faults, way):
    hearer = mosquitto.hear("a/#")
    reader = Reader(hearer, "a/news/notifications")
    name = "everyone" if way.__name__.startswith("closed") else "one"
    lines = (QUICK, f"as = {name}", "out = *")
    broker = start_bridge(mosquitto, *lines, env=faults.env)
    _, end = way(broker, faults)
    news = Set(broker, "news").create()
    news.post(3)
    reader.until(3)
    # The way makes tokens, and may have ended a first connection before its "online".
    before = [message.payload for message in hearer.on("a/status")]
    assert before in ([b"online"], [b"offline", b"online"])
    n = len(before)
    end()
    if way in (rotated, rotated_with_grace):
        news.post(2)
        reader.until(5)
        assert [message.payload for message in hearer.on("a/status")] == before
        return
    assert hearer.wait("a/status", n + 1).payload == b"offline"
    why = f'there is no token "{name}": it was revoked, has expired, or was not made yet'
    wait_half(broker, "out", state="waiting", why=why)
    assert broker.metrics()["tidings_mqtt_without_token"] == 1
    news.post(2)
    assert half(broker, "out")["lag"] == 2
    assert broker.delete(f"/tokens/{name}").status in (204, 404)
    broker.add_token(name, subscribe=["*"])
    assert hearer.wait("a/status", n + 2).payload == b"online"
    reader.until(5)
    assert not reader.repeats
    broker.wait_said("the bridge goes on: it has its token again")
    assert broker.metrics()["tidings_mqtt_without_token"] == 0
