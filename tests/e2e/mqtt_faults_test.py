"""An MQTT broker that refuses the connection, takes too little, or does nothing: the
bridge's reports; nobody else has to suffer."""

import collections
import itertools
import time

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.certificates import Certificate
from tidings_test.mqtt import QUICK, Reader
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

NEWS = "a/news/notifications"
FAILURES = "tidings_mqtt_failures_total"
REFUSED = "tidings_mqtt_refused_total"

# The part of the time that an idle broker may work. Each try with TLS reads all the
# certificates of the system anew, which a sanitizer makes ten times as dear; a busy
# loop takes the whole.
BUSY_PART = 2 if is_sanitized() else 4


@pytest.fixture
def bridge(start_broker, tmp_path):
    """bridge(url, "out = *"...): starts a broker that has a bridge `a`."""
    names = (f"tidingsd{i}.ini" for i in itertools.count())

    def start(url, *lines):
        config = tmp_path / next(names)
        config.write_text("\n".join(["[mqtt a]", f"url = {url}", "prefix = a", *lines]))
        return start_broker("--config", config, "--heartbeat", "3600")

    return start


def out(broker):
    (bridge,) = broker.get("/bridges").json()["bridges"]
    return bridge["out"]


def times_said(broker, part):
    return sum(part in line for line in broker.process.err)


def most_tries(seconds, first, most):
    """How many there may be in that time: between two is a pause, which doubles from
    `first` to `most`, and of which at least half is waited."""
    n, pause = 1, first
    while (seconds := seconds - pause / 2) >= 0:
        pause = min(2 * pause, most)
        n += 1
    return n


def check_idle(*sets):
    """The brokers do next to nothing while a client of each waits for what does not
    come: a loop that tries again and again, or waits for nothing, takes all the time
    there is."""
    waiting = []
    for each in sets:
        connection = each.broker.connect()
        cpu, began = each.broker.process.cpu_seconds(), time.monotonic()
        connection.ask(f"{each.changes}?after={each.last()}&wait=2")
        waiting.append((each.broker, connection, cpu, began))
    for broker, connection, cpu, began in waiting:
        assert connection.answer().status == 200
        connection.close()
        cpu = broker.process.cpu_seconds() - cpu
        assert cpu <= (time.monotonic() - began) / BUSY_PART


# Ways that do not lead in

Fault = collections.namedtuple("Fault", "mosquitto scheme host keys why")
WITH_PASSWORD = {"user": "ann", "password": "right"}


def make_faults(start_mosquitto, tmp_path):
    """Each is an MQTT broker that refuses us, with the reported reason."""
    password = tmp_path / "password"
    password.write_text("wrong\n")
    login = ("user = ann", f"password-file = {password}")
    names = {"good": "DNS:localhost,IP:127.0.0.1", "other": "DNS:elsewhere.example"}
    names["near"] = "DNS:localhost,IP:127.0.0.2"
    made = {n: Certificate(tmp_path / n, names=names[n]) for n in names}
    rows = [
        (WITH_PASSWORD, "mqtt", "127.0.0.1", login, "not authorized"),
        (WITH_PASSWORD, "mqtt", "127.0.0.1", (), "not authorized"),
        ("other", "mqtts", "localhost", "ca", "certificate is not for localhost"),
        ("near", "mqtts", "127.0.0.1", "ca", "certificate is not for 127.0.0.1"),
        ("good", "mqtts", "localhost", (), "certificate is not good"),
        ("asks", "mqtts", "localhost", "ca", "certificate"),
        (None, "mqtts", "localhost", (), "TLS"),
        ("good", "mqtt", "localhost", (), "cut by the MQTT broker"),
        ("gone", "mqtt", "127.0.0.1", (), "refused"),
    ]
    for kind, scheme, host, keys, why in rows:
        wish = kind if isinstance(kind, dict) else {}
        certificate = None if wish else made.get("good" if kind == "asks" else kind)
        mosquitto = start_mosquitto(
            certificate=certificate, asks_certificate=kind == "asks", **wish
        )
        if kind == "gone":
            mosquitto.stop()
        if keys == "ca":
            keys = (f"ca = {certificate.ca}",)
        yield Fault(mosquitto, scheme, host, keys, why)


# It logs the reason once, and its pauses grow; posts are taken as ever.
def test_who_does_not_let_us_in_is_tried_patiently(start_mosquitto, bridge, tmp_path):
    faults = list(make_faults(start_mosquitto, tmp_path))
    began = time.monotonic()
    brokers = [
        bridge(
            f"{fault.scheme}://{fault.host}:{fault.mosquitto.port}",
            *("out = *", "retry-first = 0.1", "retry-max = 2", *fault.keys),
        )
        for fault in faults
    ]
    sets = [broker.set("news") for broker in brokers]
    for broker, news in zip(brokers, sets):
        news.post(3)
        wait_for("five failures", lambda b=broker: b.metrics()[FAILURES] >= 5)
    check_idle(*sets)
    for broker, fault in zip(brokers, faults):
        failures = broker.metrics()[FAILURES]
        assert failures <= most_tries(time.monotonic() - began, 0.1, 2)
        assert broker.has_said(fault.why), fault
        ready = broker.get("/readyz")
        assert ready.status == 200
        assert "warning: bridge a, out" in ready.text
        assert fault.why in ready.text
        # It is said once, not with each try. A cut in the handshake may look different
        # the next time, and is said as that, too.
        assert 1 <= times_said(broker, "cannot connect to the MQTT broker") <= 2


# When the obstacle is gone, the next try connects, and the bridge publishes everything
# that was posted.
def test_we_are_in_as_soon_as_we_may(start_mosquitto, bridge, certificate, tmp_path):
    mosquitto = start_mosquitto(
        **WITH_PASSWORD, certificate=certificate, asks_certificate=True
    )
    ours = {"cert": str(certificate.cert), "key": str(certificate.key)}
    hearer = mosquitto.hear(NEWS, client_id="hearer", keeps_session=True, **ours)
    reader = Reader(hearer, NEWS)
    mosquitto.stop()
    password = tmp_path / "password"
    password.write_text("right\n")
    broker = bridge(
        f"mqtts://localhost:{mosquitto.port}",
        *("out = *", f"ca = {certificate.ca}", f"cert = {certificate.cert}"),
        *(f"key = {certificate.key}", "user = ann", f"password-file = {password}"),
        QUICK,
    )
    broker.set("news").post(30)
    broker.wait_said("cannot connect to the MQTT broker")
    mosquitto.restart()
    reader.until(30)
    wait_for("a connection", lambda: out(broker)["state"] == "connected")
    ready = broker.get("/readyz")
    assert ready.status == 200
    assert "bridge" not in ready.text


# Brokers that take too little


# Messages are cut between changes so that each packet is small enough. The bridge
# leaves out a change that is too large by itself; the next message shows that, and a
# warning reports it.
@pytest.mark.parametrize(
    "more, keys, is_311, most",
    [
        ("max_packet_size 16384\n", (), False, 16384),  # it says so itself
        (
            "max_packet_size 16384\n",
            ("version = 3.1.1", "packet-bytes = 16K"),
            True,
            16384,
        ),
        ("", ("packet-bytes = 16K",), False, 16384),
        ("max_packet_size 2048\n", (), False, 2048),  # a change each
    ],
)
def test_packets_are_no_larger_than_the_mqtt_broker_takes(
    start_mosquitto, bridge, more, keys, is_311, most
):
    mosquitto = start_mosquitto(more=more)
    hearer = mosquitto.hear("a/news/#")
    broker = bridge(mosquitto.url, "out = *", "form = xml", *keys)
    news = broker.set("news")
    reader = Reader(hearer, NEWS, "xml", is_311=is_311)
    news.post(200, size=100)
    reader.until(200)
    assert most / 3 <= reader.largest <= most

    news.post(1, size=20000)
    news.post(3)
    rest = Reader(hearer, NEWS, "xml", after=201, is_311=is_311, behind=reader.at)
    rest.until(204)
    assert out(broker)["leftOut"] == 1
    broker.wait_said("left out")


# An MQTT broker that refuses messages, by size or by permission, gets them again after
# a pause; sets that it takes go on.
def test_what_is_refused_is_told_again_patiently(start_mosquitto, bridge):
    mosquitto = start_mosquitto(
        acl="topic read #\ntopic write a/status\ntopic write a/good/#\n",
        # Without a limit of its queues Mosquitto 2.0.11 cuts who may not.
        more="max_queued_messages 10000\n",
    )
    hearer = mosquitto.hear("a/#")
    began = time.monotonic()
    broker = bridge(mosquitto.url, "out = good,bad", QUICK)
    good, bad = broker.set("good"), broker.set("bad")
    reader = Reader(hearer, "a/good/notifications")
    bad.post(3)
    wait_for("another refusal", lambda: broker.metrics()[REFUSED] >= 3)
    check_idle(bad)
    refused = broker.metrics()[REFUSED]  # of its messages, and of its position
    assert refused <= 2 * most_tries(time.monotonic() - began, 0.05, 0.2)
    good.post(3)
    reader.until(3)
    # Heard comes before acknowledged.
    wait_for("the set's acknowledgement", lambda: out(broker)["lag"] <= 3)
    assert (out(broker)["lag"], out(broker)["connections"]) == (3, 1)

    ready = broker.get("/readyz")
    assert ready.status == 200
    why = "the MQTT broker refuses messages about bad: not authorized\n"
    assert f"bridge a, out: {why}" in ready.text
    # It is said once of its messages, once of its position.
    assert 1 <= times_said(broker, "refuses") <= 2
    assert not any("/bad/" in message.topic for message in hearer.messages)


# Without a limit of its queues Mosquitto 2.0.11 cuts clients without permission. With
# each try the status is refused again: the log states that once, and the reason for the
# cut.
def test_who_cuts_because_it_refuses_is_told_of_once(start_mosquitto, bridge):
    mosquitto = start_mosquitto(acl="topic read #\n")
    began = time.monotonic()
    broker = bridge(mosquitto.url, "out = news", QUICK)
    wait_for("failures", lambda: broker.metrics()[FAILURES] >= 5)
    check_idle(broker.set("other").create())
    failures = broker.metrics()[FAILURES]
    assert failures <= most_tries(time.monotonic() - began, 0.05, 0.2)
    why = "cut by the MQTT broker after it refused a message: not authorized"
    assert times_said(broker, why) == 1
    assert times_said(broker, "refuses the status") == 1


# Another client of the same id takes over the session whenever it is cut itself: each
# connection works, and is cut soon. The pauses grow all the same, and the log, GET
# /bridges and /readyz name the reason, which Mosquitto 2.0.11 does not send.
@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_session_that_is_taken_over_is_named(mosquitto, bridge, version):
    lines = ("in = feed -> news", "client-id = tid", f"version = {version}")
    broker = bridge(mosquitto.url, *lines, "retry-first = 0.05\nretry-max = 5")
    mosquitto.wait_subscription("feed")
    began = time.monotonic()
    mosquitto.tell(client_id="tid-in")
    wait_for("failures", lambda: broker.metrics()[FAILURES] >= 5)
    assert broker.metrics()[FAILURES] <= most_tries(time.monotonic() - began, 0.05, 5)
    why = "the session was taken over by another client of that id"
    assert times_said(broker, why) == 1
    for path in "/readyz", "/bridges":
        wait_for(f"a pause at {path}", lambda p=path: why in broker.get(p).text)


# Brokers that do nothing


# while the MQTT broker is stopped, with connections that stand, every post is
# answered, and all other subscribers get it at once.
def test_a_slow_mqtt_broker_slows_nobody(mosquitto, bridge):
    hearer = mosquitto.hear(NEWS)
    broker = bridge(mosquitto.url, "out = *", "in = feed -> news")
    news = broker.set("news")
    reader = Reader(hearer, NEWS)
    news.post()
    reader.until(1)
    follower = news.websocket("after=0", form="xml")
    events = news.events("after=0")

    mosquitto.freeze()
    for n in range(2, soak(150, 3000)):
        # Some are larger than all buffers between two processes.
        last = news.post(size=0 if n % 20 else 60000).last
        follower.until(last)
        events.until(last)
    assert news.last() == last
    assert out(broker)["lag"] > 0

    mosquitto.thaw()
    reader.until(last)


# The bridge gives up an MQTT broker that answers nothing any more after the keepalive,
# and finds it again when it is back.
def test_a_dead_mqtt_broker_is_noticed(mosquitto, bridge):
    hearer = mosquitto.hear(NEWS)
    broker = bridge(
        mosquitto.url, "out = *", "in = feed -> other", "keepalive = 5", QUICK
    )
    mosquitto.wait_subscription("feed")
    news, other = broker.set("news"), broker.set("other")
    reader = Reader(hearer, NEWS)
    news.post()
    reader.until(1)

    mosquitto.freeze()
    news.post(5)
    broker.wait_said("the connection to the MQTT broker was lost")
    wait_for("two failures", lambda: broker.metrics()[FAILURES] >= 2)
    mosquitto.thaw()
    reader.until(6)
    teller = mosquitto.tell()
    teller.say("feed", '{"loc":"http://example.com/1","change":"updated"}')
    wait_for("what was told", lambda: other.last() == 1)
