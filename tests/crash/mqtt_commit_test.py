"""Messages come in by a bridge, and a kill or a failing disk comes at the moment that
counts: in the commit, between the commit and the acknowledgement, while messages are
held (design.md, section 5; in.c)."""

import errno
import json

import pytest

from tidings_test.mqtt import QUICK, half, wait_half
from tidings_test.sets import change
from tidings_test.soak import soak

WAL = "tidings.db-wal"

# While no client asks over HTTP, only the bridge writes to sockets: for each queued
# packet the library wakes itself through a socket; then it writes the packets in the
# order in which they were queued.
SOCKET = "socket:"

KILLED = 128 + 9

# The free space that the broker sees when the disk is full, and when it has room; with
# plenty the log would not look for a while.
DISK_FULL = 1 << 20
DISK_ROOM = 512 << 20

NEARLY_FULL = "the disk is nearly full"


def url(n):
    return f"http://example.com/r/{n}"


class Bridged:
    """A broker that takes in messages on "a" to the set `left`, on "b" to `right`, and
    a client that publishes some."""

    def __init__(self, mosquitto, broker, faults):
        self.mosquitto = mosquitto
        self.broker = broker
        self.faults = faults
        self.left, self.right = broker.set("left"), broker.set("right")
        # Both inputs are granted when the second one is.
        mosquitto.wait_subscription("b")
        self.teller = mosquitto.tell()

    def say(self, topic, n, has_key=False):
        """Publish change `n`, with a key of its own or without; Mosquitto has it."""
        text = json.dumps(change(url(n), "updated"))
        self.teller.say(topic, text, key=f"k{n}" if has_key else None)
        self.teller.wait_said()

    def say_in_turns(self, first, last):
        for n in range(first, last + 1):
            self.say("a" if n % 2 else "b", n)

    def check_killed(self):
        """Wait for the kill; start the broker again, with a working disk and working
        sockets."""
        assert self.broker.wait() == KILLED
        assert self.faults.disarm() == 1
        self.broker.restart()

    def check(self, left, right=()):
        """The sets have these changes and no others, in this order."""
        for one_set, numbers in ((self.left, left), (self.right, right)):
            if numbers:
                one_set.wait_last(len(numbers))
                assert one_set.page("after=0").locs == [url(n) for n in numbers]


@pytest.fixture
def bridge(mosquitto, start_bridge, faults):
    """bridge("keepalive = 5"): starts a broker with faults and its bridge."""

    def start(*lines):
        faults.set_disk(DISK_ROOM)
        keys = ("in = a -> left", "in = b -> right", QUICK, *lines)
        broker = start_bridge(mosquitto, *keys, env=faults.env)
        return Bridged(mosquitto, broker, faults)

    return start


# The broker has neither kept nor acknowledged the message: Mosquitto sends it again,
# with a key or without, and the broker keeps it once.
def test_a_kill_before_the_commit_loses_nothing(bridge, faults):
    b = bridge()
    for n, has_key in enumerate((False, True), 1):
        faults.arm(faults.WRITE, WAL, faults.KILL)
        b.say("a", n, has_key)
        b.check_killed()
        b.left.wait_last(n)
        wait_half(b.broker, "in", posted=1)
    b.say("a", 3)
    b.check([1, 2, 3])


# The broker has kept the message without acknowledging it, so Mosquitto sends it again:
# the broker recognises a key; without one it keeps the message twice, and counts that.
# Then it acknowledges the message for good.
@pytest.mark.parametrize("has_key", [False, True])
def test_a_kill_before_the_acknowledgement_repeats_a_message_without_key(
    bridge, faults, has_key
):
    b = bridge()
    # The write after the wake is PUBACK itself.
    faults.arm(faults.WRITE, SOCKET, faults.KILL, after=1)
    b.say("a", 1, has_key)
    b.check_killed()
    repeats = 0 if has_key else 1
    now = wait_half(b.broker, "in", posted=1, repeats=repeats)
    assert (now["received"], now["repeats"]) == (1, repeats)
    b.broker.stop()  # now it is acknowledged

    b.broker.restart()
    b.say("a", 2)
    b.check([1, 2] if has_key else [1, 1, 2])
    assert half(b.broker, "in")["received"] == 1


# The bridge publishes the problem and acknowledges the bad message in one go. If a kill
# interrupts that, the message comes again, is rejected again, and stops nothing.
def test_a_kill_before_a_rejection_is_published_repeats_it(bridge, faults, mosquitto):
    b = bridge()
    hearer = mosquitto.hear("a/rejected")
    # PUBACK and the problem are queued; PUBACK is written.
    faults.arm(faults.WRITE, SOCKET, faults.KILL, after=2)
    b.teller.say("a", "nonsense")
    b.check_killed()
    hearer.messages.wait(1)
    b.say("a", 1)
    b.check([1])
    assert half(b.broker, "in")["rejected"] == 1
    assert len(hearer.messages) == 1


# a commit with an unknown outcome ends the broker, also while a bridge waits for
# it; the bridge has acknowledged nothing.
def test_a_commit_that_fails_acknowledges_nothing(bridge, faults):
    b = bridge()
    for n, call in enumerate((faults.WRITE, faults.SYNC), 1):
        faults.arm(call, WAL, errno.EIO)
        b.say("a", n, has_key=True)
        assert b.broker.wait() == 1
        assert faults.disarm() > 0
        b.broker.restart()
        wait_half(b.broker, "in", posted=1)
    b.check([1, 2])


# Held, in order, until the disk has room again; then all are kept, each once, by the
# connection by which they came. A disk may be nearly full, or refuse a write without
# warning.
def test_messages_are_held_while_the_disk_is_full(bridge, faults):
    b = bridge()
    b.say_in_turns(1, 2)
    b.check([1], [2])
    faults.set_disk(DISK_FULL)
    b.say_in_turns(3, 10)
    wait_half(b.broker, "in", why=NEARLY_FULL)
    b.check([1], [2])
    assert half(b.broker, "in")["posted"] == 2

    faults.set_disk(DISK_ROOM)
    b.check([1, 3, 5, 7, 9], [2, 4, 6, 8, 10])
    wait_half(b.broker, "in", posted=10)

    faults.arm(faults.WRITE, WAL, errno.ENOSPC)
    b.say_in_turns(11, 14)
    why = "cannot commit: database or disk is full"
    wait_half(b.broker, "in", why=why)
    assert faults.disarm() > 0
    b.check([1, 3, 5, 7, 9, 11, 13], [2, 4, 6, 8, 10, 12, 14])
    assert half(b.broker, "in")["connections"] == 1


# The same where it takes longer than Mosquitto would wait for the broker: the broker
# leaves before that, and the messages come by another connection. 5 s is the shortest
# keepalive, of which it waits a quarter.
def test_messages_outlive_connections_while_the_disk_is_full(bridge, faults):
    b = bridge("keepalive = 5")
    faults.set_disk(DISK_FULL)
    b.say_in_turns(1, 10)
    wait_half(b.broker, "in", why=NEARLY_FULL)
    now = wait_half(b.broker, "in", connections=soak(2, 4))
    assert now["posted"] == 0
    assert not any("exceeded timeout" in line for line in b.mosquitto.process.err)

    faults.set_disk(DISK_ROOM)
    b.check([1, 3, 5, 7, 9], [2, 4, 6, 8, 10])


# However the broker ends, it leaves the messages that it holds to Mosquitto.
def test_an_end_while_messages_are_held_loses_nothing(bridge, faults):
    b = bridge()
    faults.set_disk(DISK_FULL)
    b.say_in_turns(1, 6)
    wait_half(b.broker, "in", why=NEARLY_FULL)
    b.broker.stop()
    b.broker.restart()
    wait_half(b.broker, "in", why=NEARLY_FULL)
    b.broker.kill()
    faults.set_disk(DISK_ROOM)
    b.broker.restart()
    b.check([1, 3, 5], [2, 4, 6])
