"""A bridge has no queue beside the log: this holds when the broker dies at any write of
mqtt.db, when that file cannot be written, when Mosquitto stands still as the broker
ends, or is away while very much is posted."""

import errno

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.http import ConnectionEnded
from tidings_test.messages import read
from tidings_test.mqtt import QUICK, Reader, half, wait_half
from tidings_test.sets import change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

LEDGER = "mqtt.db"
NEWS = "a/news/notifications"


@pytest.fixture
def hearer(mosquitto):
    topics = "+/news/notifications"
    return mosquitto.hear(topics, client_id="hearer", keeps_session=True)


@pytest.fixture
def bridge(hearer, mosquitto, start_bridge, faults):
    """bridge(): starts a broker that publishes all its sets; its set `news`."""

    def start(*options):
        options = ("--heartbeat", "3600", *options)
        # A frozen Mosquitto keeps its connections, however long the test takes.
        keys = ("out = *", "keepalive = 600", QUICK)
        broker = start_bridge(mosquitto, *keys, options=options, env=faults.env)
        return broker.set("news")

    return start


# the broker dies at one write after the other; 16 are more than a lane's row
# takes with all that SQLite writes around it. The reader accepts no gap, and no repeat
# that ends elsewhere than the first time: the broker kept where a message ends before
# it published the message.
def test_a_kill_at_any_write_of_the_ledger_loses_nothing(bridge, hearer, faults):
    news = bridge()
    reader = Reader(hearer, NEWS)
    news.post()
    for n in range(soak(6, 16)):
        reader.until(news.last())
        faults.arm(faults.WRITE, LEDGER, faults.KILL, after=n)
        while not faults.met:
            try:
                news.send(change("http://example.com/1", "updated"))
            except (ConnectionEnded, ConnectionError):
                break
        assert news.broker.wait() == 128 + 9
        faults.disarm()
        news.broker.restart()
    reader.until(news.last())


class Receiver:
    """A receiver that has the entries up to `last`: it drops repeats. Messages may end
    elsewhere than the first time, but must not leave a gap."""

    def __init__(self, hearer):
        self.messages = hearer.messages
        self.last = 0

    def until(self, last):
        while self.last < last:
            message = read(self.messages.next().payload, "json")
            message.check()
            assert message.after <= self.last
            self.last = max(self.last, message.last)
        assert self.last == last


# The bridge publishes every committed change even if it cannot write the ledger; after
# a kill it publishes more of them again, but skips none.
def test_a_ledger_that_cannot_be_written_stops_nothing(
    bridge, hearer, faults, mosquitto
):
    news = bridge()
    receiver = Receiver(hearer)
    for calls, outcome in [
        (faults.WRITE, errno.ENOSPC),
        (faults.WRITE, errno.EIO),
        (faults.WRITE, faults.SHORT),
        (faults.WRITE | faults.SYNC, errno.EIO),
    ]:
        news.post(3)
        receiver.until(news.posted)
        faults.arm(calls, LEDGER, outcome)
        for _ in range(20):
            news.post(2)
            receiver.until(news.posted)
        faults.wait()
        if outcome != faults.SHORT:  # SQLite goes on with the rest
            news.broker.wait_said("cannot write the progress of a bridge")
        mosquitto.stop()
        news.post(5)
        news.broker.kill()
        faults.disarm()
        news.broker.restart()
        news.post(5)
        mosquitto.restart()
        receiver.until(news.posted)

    # When there is room again, the bridge writes the ledger again, without a new start.
    faults.arm(faults.WRITE, LEDGER, errno.ENOSPC)
    news.post()
    faults.wait()
    faults.disarm()
    news.broker.wait_said("the progress of a bridge is written again")
    receiver.until(news.posted)


# Brokers end even if Mosquitto answers nothing, and go on from there: a broker with a
# connection, and one that tries to connect. The kernel answers TCP, nobody answers
# MQTT.
def test_a_frozen_mqtt_broker_keeps_no_broker_from_ending(
    bridge, hearer, mosquitto, start_bridge
):
    news = bridge()
    readers = [Reader(hearer, NEWS), Reader(hearer, "b/news/notifications")]
    news.post()
    readers[0].until(1)
    mosquitto.freeze()
    # More than all buffers between the two take.
    for _ in range(40):
        news.post(10, size=50000)
    keys = ("[mqtt b]", "prefix = b", "out = *", QUICK)
    other = start_bridge(mosquitto, *keys).set("news")
    other.post()
    for each in (news, other):
        each.broker.terminate()
    for each in (news, other):
        assert each.broker.wait() == 0
        each.broker.restart()
    mosquitto.thaw()
    for each, reader in zip((news, other), readers):
        reader.until(each.posted)


# Posts of 1 MB each: how many wait when memory is looked at first, and in the end.
FEW = 24
MANY = soak(4, 16) * FEW

# By how much the broker may grow behind the first look: by caches that were not full
# then. It has 32 MiB of batches for readers behind the tail (log.c), 5 MiB of a step of
# a fold, 4 MiB of SQLite's pages of the state, 1 MiB of a turn of the bridge, and gaps
# between all of them. The messages in flight are there before: 16 MiB, and as much in
# packets that libmosquitto could not write. A queue in memory would grow by all that
# comes, 72 MiB and more.
GROWTH_KIB = 56 << 10


# nothing grows with what waits, first for a connection that stands, then for
# Mosquitto to be back.
def test_what_waits_takes_no_memory(bridge, hearer, mosquitto):
    news = bridge("--tail-bytes", "1M")
    broker = news.broker
    reader = Reader(hearer, NEWS)

    def post_until(n):
        """Post until there are `n` MB; the most memory that the broker had."""
        most = 0
        while news.posted < 20 * n:
            news.post(20, size=50000)
            most = max(most, broker.process.memory_kib())
        return most

    news.post(20)
    reader.until(20)
    mosquitto.freeze()
    post_until(FEW - 1)
    wait_half(broker, "out", inFlight=16)  # of 1 MiB at most: no more may be
    before = post_until(FEW)
    most = post_until(MANY // 2)
    connections = hearer.connections
    mosquitto.kill()
    most = max(most, post_until(MANY))
    assert half(broker, "out")["lag"] >= news.posted - 20
    if not is_sanitized():
        assert most <= before + GROWTH_KIB

    # The hearer's session was killed, too: it subscribes before the broker publishes.
    broker.process.halt()
    mosquitto.restart()
    wait_for("the hearer", lambda: hearer.connections > connections)
    hearer.wait_connected()
    broker.process.go_on()
    reader.until(news.posted)
