"""Debian's MQTT broker, Mosquitto, and clients of it on Debian's paho.

    def test_something(mosquitto):
        hearer = mosquitto.hear("tidings/#")
        assert hearer.messages.wait(1).payload == b"online"
        teller = mosquitto.tell()
        teller.say("plant/7/changes", "{...}", key="k1")
        teller.wait_said(1)

    def test_something(start_mosquitto):
        mosquitto = start_mosquitto(user="me", password="secret")
        mosquitto.stop()
        mosquitto.restart()         same directory, same port

Mosquitto persists sessions, queued and retained messages when it ends by SIGTERM, and
its queues have no limit. Clients connect again as soon as it is back.
"""

import collections
import pathlib
import socket
import subprocess
import threading

from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tidings_test.history import History
from tidings_test.http import JSON, XML, keep_port
from tidings_test.messages import read
from tidings_test.process import Process
from tidings_test.waiting import Arrivals, wait_for

# Retries that a test can wait for: keys of a bridge's configuration.
QUICK = "retry-first = 0.05\nretry-max = 0.2\n"

# A message that was heard; `connection`: on which it came, from 1. Of MQTT 5: `type`,
# its content type (None: it has none), and `properties`, those of the user.
Heard = collections.namedtuple(
    "Heard", "topic payload qos retain connection type properties"
)

CONFIG = """\
listener {port} 127.0.0.1
user root
set_tcp_nodelay true
persistence true
persistence_location {directory}/
autosave_interval 0
max_queued_messages 0
sys_interval 0
log_dest stderr
log_timestamp_format %H:%M:%S
log_type error
log_type warning
log_type notice
log_type information
log_type subscribe
"""


class Mosquitto:
    """A Mosquitto that runs. `user` and `password`: the only user; without them
    anybody. `acl` is the text of its acl_file; `more`, lines of its configuration.
    `certificate` (certificates.py): it speaks TLS, and asks clients for one of the same
    CA with asks_certificate."""

    def __init__(
        self,
        directory,
        user=None,
        password=None,
        acl=None,
        certificate=None,
        asks_certificate=False,
        more="",
    ):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.certificate = certificate
        self.user = user
        self.password = password
        self.port, self._keeper = keep_port()
        self.url = f"{'mqtts' if certificate else 'mqtt'}://127.0.0.1:{self.port}"
        self._clients = []
        config = CONFIG.format(port=self.port, directory=self.directory) + more
        if certificate:
            config += f"certfile {certificate.cert}\nkeyfile {certificate.key}\n"
        if asks_certificate:
            config += f"require_certificate true\ncafile {certificate.ca}\n"
        if user:
            passwords = self.directory / "passwords"
            command = ["/usr/bin/mosquitto_passwd", "-b", "-c", passwords]
            subprocess.run([*command, user, password], check=True)
            config += f"allow_anonymous false\npassword_file {passwords}\n"
        else:
            config += "allow_anonymous true\n"
        if acl:
            (self.directory / "acl").write_text(acl)
            config += f"acl_file {self.directory}/acl\n"
        self.config = self.directory / "mosquitto.conf"
        self.config.write_text(config)
        self.start()

    # The process

    def start(self):
        self.process = Process("/usr/sbin/mosquitto", "-c", self.config)
        wait_for("Mosquitto to be at work", self._is_at_work)

    restart = start

    def _is_at_work(self):
        """It listens before it is at work: before it handles signals. When it is at
        work, it closes a connection whose client has shut down its side."""
        assert self.process.is_running, self.process.err
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as probe:
                probe.shutdown(socket.SHUT_WR)
                probe.recv(1)
        except ConnectionRefusedError:
            return False
        except ConnectionError:
            pass
        return True

    def stop(self):
        """SIGTERM: all that it holds is on disk."""
        self.process.stop()

    def kill(self):
        """SIGKILL: it loses everything that it had not written."""
        self.process.kill()

    def freeze(self):
        """It does nothing any more, but its connections stand, until thaw()."""
        self.process.halt()

    def thaw(self):
        self.process.go_on()

    def wait_said(self, part):
        return self.process.err.find(lambda line: part in line, repr(part))

    def wait_subscription(self, topic_filter):
        """Wait until somebody has subscribed with that filter at QoS 1."""
        self.process.err.find(
            lambda line: line.endswith(f" 1 {topic_filter}"),
            f"a subscription of {topic_filter}",
        )

    def end(self):
        """End it and its clients; at the end of the test."""
        for client in self._clients:
            client.close()
        if self.process.popen.returncode is None:
            self.process.kill()
        self._keeper.close()

    # Clients

    def hear(self, *filters, qos=1, keeps_session=False, **joining):
        """A client that has subscribed to these filters."""
        return self._add(Hearer(self, filters, qos, keeps_session, **joining))

    def tell(self, **joining):
        """A client that publishes, and is connected."""
        return self._add(Teller(self, **joining))

    def _add(self, client):
        self._clients.append(client)
        client.wait_connected()
        return client


class Client:
    """A connection to Mosquitto, and again where it breaks. version "3.1.1" or "5";
    with TLS, `cert` and `key` of the client if it needs them."""

    def __init__(
        self,
        mosquitto,
        client_id="",
        version="5",
        user=None,
        password=None,
        cert=None,
        key=None,
        keeps_session=False,
        receive_maximum=None,
    ):
        self.mosquitto = mosquitto
        self.version = version
        self.connections = 0
        self.refused = None  # why it may not connect
        self.is_connected = False
        self._changed = threading.Condition()
        is_5 = version == "5"
        protocol = paho.MQTTv5 if is_5 else paho.MQTTv311
        clean = {} if is_5 else {"clean_session": not keeps_session}
        if hasattr(paho, "CallbackAPIVersion"):  # of paho-mqtt 2
            clean["callback_api_version"] = paho.CallbackAPIVersion.VERSION1
        self.paho = paho.Client(client_id=client_id, protocol=protocol, **clean)
        if user or mosquitto.user:
            self.paho.username_pw_set(
                user or mosquitto.user, password or mosquitto.password
            )
        if mosquitto.certificate:
            self.paho.tls_set(str(mosquitto.certificate.ca), cert, key)
        self.paho.reconnect_delay_set(0.01, 0.01)
        self.paho.on_connect = self._on_connect
        self.paho.on_disconnect = self._on_disconnect
        self.paho.on_socket_open = _without_delay
        self._options = {}
        if is_5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = 0xFFFFFFFF if keeps_session else 0
            if receive_maximum:
                properties.ReceiveMaximum = receive_maximum
            self._options = {
                "clean_start": not keeps_session,
                "properties": properties,
            }

    def come(self):
        """Connect; after leave(), again."""
        self.paho.connect_async("127.0.0.1", self.mosquitto.port, **self._options)
        self.paho.loop_start()

    def leave(self):
        """Disconnect, keeping the session if it has one."""
        self.paho.disconnect()
        self.paho.loop_stop()

    close = leave

    def wait_connected(self):
        wait_for(f"{self} to be connected", lambda: self.is_connected or self.refused)
        assert not self.refused, self.refused

    def _on_connect(self, client, user, flags, reason, properties=None):
        if reason != 0:
            self.refused = f"refused: {reason}"
            return
        self.connections += 1
        self._greet()

    def _on_disconnect(self, client, user, reason, properties=None):
        self.is_connected = False

    def _greet(self):
        self.is_connected = True

    def __repr__(self):
        return f"<MQTT client, {self.connections} connections>"


class Hearer(Client):
    """A client that has subscribed. `messages` are all that came (Arrivals)."""

    def __init__(self, mosquitto, filters, qos=1, keeps_session=False, **joining):
        super().__init__(mosquitto, keeps_session=keeps_session, **joining)
        self.messages = Arrivals(f"the messages on {', '.join(filters)}")
        self.filters = filters
        self.qos = qos
        # Where the session is kept, retained messages come only with its beginning.
        self._retain_handling = 1 if keeps_session else 0
        self.paho.on_message = self._on_message
        self.paho.on_subscribe = self._on_subscribe
        self.come()

    def wait(self, topic, n=1):
        """The n-th message on that topic."""
        seen = 0

        def is_it(message):
            nonlocal seen
            seen += message.topic == topic
            return seen == n

        return self.messages.find(is_it, f"message {n} on {topic}")

    def find(self, topic, matches):
        """The first message on that topic with such a payload, of those before too."""
        return self.messages.find(
            lambda m: m.topic == topic and matches(m.payload), f"one on {topic}"
        )

    def on(self, topic):
        """The messages on that topic so far."""
        return [message for message in self.messages if message.topic == topic]

    def _greet(self):
        if self.version == "5":
            options = SubscribeOptions(self.qos, retainHandling=self._retain_handling)
            self.paho.subscribe([(name, options) for name in self.filters])
        else:
            self.paho.subscribe([(name, self.qos) for name in self.filters])

    def _on_subscribe(self, client, user, mid, granted, properties=None):
        codes = [getattr(code, "value", code) for code in granted]
        if max(codes) >= 0x80:
            self.refused = f"a filter was not granted: {codes}"
        else:
            self.is_connected = True

    def _on_message(self, client, user, message):
        properties = message.properties if self.version == "5" else None
        self.messages.add(
            Heard(
                message.topic,
                message.payload,
                message.qos,
                message.retain,
                self.connections,
                getattr(properties, "ContentType", None),
                dict(getattr(properties, "UserProperty", ())),
            )
        )


class Teller(Client):
    """A client that publishes at QoS 1. It sends unacknowledged messages again after a
    reconnection: a message may arrive twice, but arrives. `window`: the most messages
    that may be unacknowledged."""

    def __init__(self, mosquitto, window=20, **joining):
        super().__init__(mosquitto, **joining)
        self.paho.max_inflight_messages_set(window)
        self.paho.max_queued_messages_set(0)
        self.said = 0
        self.acknowledged = Arrivals("the acknowledgements")
        self.paho.on_publish = lambda client, user, mid: self.acknowledged.add(mid)
        self.come()

    def say(self, topic, payload, retain=False, type=None, key=None, correlation=None,
            key_name="idempotency-key", more=()):
        """Publish without waiting; `type`, `key`, `correlation` and `more` user
        properties are of MQTT 5."""
        properties = None
        if self.version == "5":
            properties = Properties(PacketTypes.PUBLISH)
            if type:
                properties.ContentType = type
            user = [(key_name, key)] if key else []
            if user or more:
                properties.UserProperty = [*user, *more]
            if correlation:
                properties.CorrelationData = correlation
        self.paho.publish(topic, payload, 1, retain, properties)
        self.said += 1

    def wait_said(self, n=None):
        """Wait until the first `n` are acknowledged; all of them."""
        n = self.said if n is None else n
        if n:
            self.acknowledged.wait(n)


class Reader:
    """The messages of one set on one topic, as a careful receiver reads them: drops
    repeats by their positions, accepts no gap.

        reader = Reader(hearer, "tidings/news/notifications", form="xml")
        reader.until(7)
        reader.history[7].loc

    Each is checked by itself, against its content type and user properties (which MQTT
    3.1.1 does not have: is_311), and against the earlier ones.
    """

    def __init__(self, hearer, topic, form="json", after=0, is_311=False, behind=0):
        self.messages = hearer.messages
        self.topic = topic
        self.form = form
        self.is_311 = is_311
        self.at = behind  # of the hearer's messages, the next one to look at
        self.history = History(after)
        self.ends = {}  # where messages ended, by where they began
        self.repeats = 0
        self.largest = 0

    def until(self, last):
        """Read until it has heard entry `last`; there may be no more in its message."""
        while self.history.last < last:
            self.next()
        assert self.history.last == last

    def next(self):
        while True:
            received = self.messages.wait(self.at + 1)
            self.at += 1
            if received.topic == self.topic:
                break
        message = read(received.payload, self.form)
        message.check()
        assert message.entries and not received.retain
        self._check_properties(received, message)
        if message.after != self.history.last:
            assert self.ends.get(message.after) == message.last, "a gap"
            self.repeats += 1
        self.ends[message.after] = message.last
        self.largest = max(self.largest, len(received.payload))
        self.history.add_message(message)

    def _check_properties(self, received, message):
        properties = received.properties
        if self.is_311:
            assert received.type is None and not properties
            return
        assert received.type == (XML if self.form == "xml" else JSON)
        assert f"/{properties['set']}/" in received.topic
        assert message.set in (None, properties["set"])
        assert properties["epoch"] == message.epoch
        assert properties["after"] == str(message.after)
        assert properties["last"] == str(message.last)
        assert properties["from"] == message.from_
        assert properties["until"] == message.until


# Bridges: brokers with one are started by the fixture start_bridge.


def bridge_config(mosquitto, *lines):
    """The configuration of bridges to Mosquitto. Lines that begin without the head of
    a section are those of a bridge "a" with the prefix "a"."""
    if lines and not lines[0].startswith("["):
        lines = ("[mqtt a]", "prefix = a", *lines)
    return "\n".join(lines).replace("]", f"]\nurl = {mosquitto.url}") + "\n"


def half(broker, way):
    """One half, "in" or "out", of the only bridge in the answer to GET /bridges."""
    (bridge,) = broker.get("/bridges").json()["bridges"]
    return bridge[way]


def wait_half(broker, way, **facts):
    """Wait until that half says so: numbers may be higher, texts are the same. Return
    what it says."""

    def look():
        now = half(broker, way)
        is_so = all(
            now[name] >= fact if isinstance(fact, int) else now.get(name) == fact
            for name, fact in facts.items()
        )
        return is_so and now

    return wait_for(f"{facts} of the bridge", look)


def _without_delay(client, user, sock):
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
