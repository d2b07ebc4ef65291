"""No secret leaves the place where it belongs.

Each row of ROWS plants a secret in a broker that logs all it can. Then the broker is
killed, started again, reloaded and ended, and every place that others see is searched:
standard output and error, the arguments of the process, all answers (those of errors,
/metrics and each report for operators included), what a bridge publishes, and the
files of the data directory except those that the row names.
"""

import base64
import collections
import os
import pathlib
import re
import signal
import urllib.parse

from tidings_test import hub, routes
from tidings_test.callbacks import answer
from tidings_test.certificates import Certificate
from tidings_test.waiting import wait_for

# `plant(scene, secret)` uses the secret; it may return another text in its place, which
# the broker has made. `files` may have it, with their WAL; `passing`: until the broker
# ends; `requests`: "POST /path", whose answers may.
Row = collections.namedtuple(
    "Row", "what plant files passing requests", defaults=((), (), ())
)


# Subscriptions


def subscribe_with_secret(scene, secret):
    scene.callbacks.join(scene.news, secret=secret)


def ask_for_no_topic(scene, secret):
    topic = hub.Topic(scene.news, scene.news.topic + "x")
    hub.check_refused(hub.subscribe(topic, "http://127.0.0.2/", secret=secret), 422, "")


def send_too_much(scene, secret):
    said = hub.subscribe(scene.news, scene.callbacks.add(), secret=secret * 9)
    hub.check_refused(said, 422, "hub.secret")


def be_denied(scene, secret):
    callback = scene.callbacks.add(f"/denied/{secret}")
    callback.always(404, of="verification")
    hub.check_taken(hub.subscribe(scene.news, callback, secret=secret))
    hub.wait_gone(scene.news, callback)


def join_by_path(scene, secret):
    scene.callbacks.join(scene.news, f"/cb/{secret}")


def join_by_query(scene, secret):
    scene.callbacks.join(scene.news, f"/cb/query?token={secret}")


def fail(scene, secret):
    callback = scene.callbacks.join(scene.news, f"/fails/{secret}?token={secret}")
    location = f"Location: http://127.0.0.2/{secret}\r\nX-Token: {secret}\r\n"
    callback.always(answer(302, location, body=secret))
    scene.news.post()
    scene.broker.wait_said('"a delivery was given up"')


def be_nowhere(scene, secret):
    callback = f"http://127.0.0.9:1/{secret}?token={secret}"
    hub.check_taken(hub.subscribe(scene.news, callback))
    hub.wait_gone(scene.news, callback)


def be_private(scene, secret):
    said = hub.subscribe(scene.news, f"http://169.254.169.254/{secret}")
    assert said.status in (202, 422), said


def callback_with_password(scene, secret):
    said = hub.subscribe(scene.news, f"http://me:{secret}@127.0.0.2/cb")
    hub.check_refused(said, 400, "hub.callback")


# Other Sources and hubs, whose addresses everybody reads: no password is taken


def relay_with_password(scene, secret):
    relay = {"topic": f"http://me:{secret}@127.0.0.3/feed"}
    assert scene.broker.put("/relays/secret", relay).status == 422


def relay_hub_with_password(scene, secret):
    relay = {"topic": "http://127.0.0.3/feed", "hub": f"http://me:{secret}@127.0.0.3/"}
    assert scene.broker.put("/relays/secret", relay).status == 422


def upstream_with_password(scene, secret):
    said = scene.broker.set().put(upstreamTopic=f"http://me:{secret}@127.0.0.3/feed")
    assert said.status == 422, said


def hubs_with_password(scene, secret):
    said = scene.broker.set().put(hubs=[f"http://me:{secret}@127.0.0.3/hub"])
    assert said.status == 422, said


# Requests


def send_unknown_token(scene, secret):
    for path in ("/sets", "/metrics", "/sets/none/stream"):
        said = scene.broker.get(path, authorization=f"Bearer {secret}")
        assert said.status == 401, said
    said = scene.broker.post("/sets/a/changes", "{}", authorization=f"Bearer {secret}")
    assert said.status == 401, said


def send_shaped_token(scene, secret):
    """A token that has the form of the broker's own."""
    mine = scene.broker.token.rpartition("_")[0] + "_" + secret
    assert scene.broker.get("/sets", authorization=f"Bearer {mine}").status == 401


def send_password(scene, secret):
    both = base64.b64encode(f"me:{secret}".encode()).decode()
    assert scene.broker.get("/sets", authorization=f"Basic {both}").status == 401


def send_malformed(scene, secret):
    with scene.broker.connect() as connection:
        connection.send(
            f"GET /sets HTTP/1.1\r\nHost: x\r\nAuthorization : {secret}\r\n\r\n"
        )
        scene.keep("GET malformed", connection.answer())


def send_cookie(scene, secret):
    scene.broker.get("/sets/none", cookie=f"session={secret}")


# Parameters that rows of the broker have, and those that clients send by mistake.
SECRET_PARAMETERS = "access_token callback hub.callback hub.secret ticket token".split()


def send_in_query(scene, secret):
    for route in routes.ROUTES.values():
        path = re.sub("{.*?}", "none", route.path.replace("a document", "/x.xml"))
        for name in SECRET_PARAMETERS:
            scene.broker.request(route.methods[-1], f"{path}?after=0&{name}={secret}")


def ask_by_callback(scene, secret):
    callback = scene.callbacks.join(scene.news, f"/mine/{secret}")
    query = urllib.parse.urlencode({"callback": callback.url})
    found = scene.news.get(f"subscriptions?{query}")
    assert len(found.json()["subscriptions"]) == 1, found


# Tokens of the broker


def make_token(scene, secret):
    token = scene.broker.add_token("reader", subscribe=["*"])
    assert scene.broker.get("/sets", authorization=f"Bearer {token}").status == 200
    forbidden = scene.broker.get("/tokens", authorization=f"Bearer {token}")
    assert forbidden.status == 403
    return token.rpartition("_")[2]


def rotate_token(scene, secret):
    scene.broker.add_token("rotated", publish=["*"])
    said = scene.broker.post("/tokens/rotated/rotate")
    assert said.status == 200, said
    return said.json()["token"].rpartition("_")[2]


def revoke_token(scene, secret):
    token = scene.broker.add_token("revoked", subscribe=["*"])
    assert scene.broker.delete("/tokens/revoked").status == 204
    assert scene.broker.get("/sets", authorization=f"Bearer {token}").status == 401
    return token.rpartition("_")[2]


# Files that the operator names


def use_mqtt(scene, secret):
    scene.broker.wait_said('"connected to the MQTT broker" bridge=good')


def use_wrong_mqtt(scene, secret):
    scene.broker.wait_said('"cannot connect to the MQTT broker" bridge=wrong')


def reload_with(scene, text):
    """Reload with more lines in the file of settings; it has to be refused."""
    before = scene.config.read_text()
    scene.config.write_text(before + text)
    scene.reload("not reloaded")
    scene.config.write_text(before)


def mqtt_url_with_password(scene, secret):
    reload_with(scene, f"[mqtt more]\nurl = mqtt://me:{secret}@127.0.0.1\nout = *\n")


def mqtt_option_with_password(scene, secret):
    option = f"--mqtt=mqtt://me:{secret}@127.0.0.1"
    done = scene.run("tidingsd", option, "--check-settings", status=2)
    scene.seen.append(("--check-settings", done.errors().encode()))


def mqtt_key_misspelt(scene, secret):
    reload_with(scene, f"[mqtt more]\npasswort = {secret}\n")


def break_key(scene, secret):
    before = scene.certificate.key.read_text()
    for text in (
        f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n",
        before.replace("\n", f"{secret}\n", 2),
        secret,
    ):
        scene.certificate.key.write_text(text)
        scene.reload("not reloaded")
    scene.certificate.key.write_text(before)


ROWS = [
    Row("hub.secret", subscribe_with_secret, ["hub.db"]),
    Row("hub.secret, no such topic", ask_for_no_topic),
    Row("hub.secret, too long", send_too_much),
    Row("hub.secret, denied", be_denied, passing=["hub.db"]),
    Row("the path of a callback", join_by_path, ["hub.db"]),
    Row("the query of a callback", join_by_query, ["hub.db"]),
    Row("a callback that fails, and its answers", fail, ["hub.db"]),
    Row("a callback that nobody answers", be_nowhere, passing=["hub.db"]),
    Row("a callback in a forbidden network", be_private, passing=["hub.db"]),
    Row("the password in a callback", callback_with_password),
    Row("the password in the topic of a relay", relay_with_password),
    Row("the password in the hub of a relay", relay_hub_with_password),
    Row("the password in upstreamTopic", upstream_with_password),
    Row("the password in hubs", hubs_with_password),
    Row("an unknown token", send_unknown_token),
    Row("a token with the number of another", send_shaped_token),
    Row("a password of a client", send_password),
    Row("Authorization in a malformed head", send_malformed),
    Row("a cookie", send_cookie),
    Row("secrets in queries", send_in_query),
    Row("a callback in a query", ask_by_callback, ["hub.db"]),
    Row("a token", make_token, requests=["POST /tokens"]),
    Row("a token that is rotated", rotate_token, requests=["POST /tokens/rotated/rotate"]),
    Row("a token that is revoked", revoke_token, requests=["POST /tokens"]),
    Row("the password of a bridge", use_mqtt),
    Row("the wrong password of a bridge", use_wrong_mqtt),
    Row("a password in the URL of a bridge", mqtt_url_with_password),
    Row("a password in --mqtt", mqtt_option_with_password),
    Row("a password as an unknown key of a bridge", mqtt_key_misspelt),
    Row("a TLS key that is damaged", break_key),
]

# What the broker reports to those who may ask.
REPORTS = (
    "/ /sets /sets/{set} /sets/{set}/subscriptions /sets/{set}/changelist.xml "
    "/sets/{set}/notifications /sets/{set}/framework-notifications "
    "/sets/{set}/changes?after=0 /relays /bridges /cluster /tokens "
    "/tokens/reader /tokens/self /metrics /readyz /.well-known/resourcesync /robots.txt"
).split()


class Scene:
    """A broker with everything that knows secrets; what others saw of it."""

    def __init__(self, path, run, start_broker, start_mosquitto, callbacks, secrets):
        self.run = run
        self.callbacks = callbacks
        self.certificate = Certificate(path / "certificate")
        self.seen = []  # pairs of a place and its bytes
        password = secrets["the password of a bridge"]
        self.mosquitto = start_mosquitto(user="me", password=password)
        self.config = path / "tidingsd.ini"
        self.access_log = path / "access.log"
        for name, text in (
            ("good", password),
            ("wrong", secrets["the wrong password of a bridge"]),
        ):
            (path / name).write_text(text + "\n")
            with self.config.open("a") as config:
                config.write(
                    f"[mqtt {name}]\nurl = {self.mosquitto.url}\nuser = me\n"
                    f"password-file = {path / name}\nprefix = {name}\nout = *\n"
                )
        self.broker = start_broker(
            *self.certificate.options,
            *hub.QUICK,
            *hub.LOOPBACK,
            *("--hub-give-up", "0.2"),
            *("--config", self.config, "--log-level", "debug"),
            *("--access-log", self.access_log),
            tls=self.certificate.trust(),
        )
        self.ask = self.broker.request
        self.broker.request = self.request
        self.broker.add_token("root", admin=True)
        self.news = self.broker.set().create()
        self.news.post()

    def request(self, method, path, *arguments, **headers):
        return self.keep(f"{method} {path}", self.ask(method, path, *arguments, **headers))

    def keep(self, request, said):
        """Keep an answer, to be searched."""
        self.seen.append((request, repr(said.headers).encode() + said.body))
        return said

    def reload(self, said):
        """SIGHUP, until another line of the log has `said`."""
        process = self.broker.process
        before = sum(said in line for line in process.err)
        process.signal(signal.SIGHUP)
        wait_for(said, lambda: sum(said in line for line in process.err) > before)

    def keep_reports(self):
        for path in REPORTS:
            said = self.broker.get(path.format(set=self.news.name))
            assert said.status == 200, (path, said)
        for one in hub.subscriptions(self.news):
            assert self.news.get(f"subscriptions/{one['id']}").status == 200

    def keep_arguments(self):
        """What ps shows."""
        path = pathlib.Path(f"/proc/{self.broker.process.pid}/cmdline")
        self.seen.append(("arguments", path.read_bytes()))

    def keep_output(self):
        """What the process has said, which has ended."""
        process = self.broker.process
        self.seen.append(("standard error", "\n".join(process.err).encode()))
        self.seen.append(("standard output", "\n".join(process.out).encode()))
        assert b"callback" not in (said := self.access_log.read_bytes())
        self.seen.append(("access log", said))

    def files(self):
        for path in self.broker.data.rglob("*"):
            if path.is_file():
                yield path.name.removesuffix("-wal"), path.read_bytes()


def spellings(secret):
    """The secret as it may stand there: itself, in hexadecimal, and in base64 at each of
    three places."""
    bytes = secret.encode()
    yield bytes
    yield bytes.hex().encode()
    for n in range(3):
        coded = base64.b64encode(b"x" * n + bytes + b"xx")
        yield coded[4 : len(coded) // 4 * 4 - 8]


def test_no_secret_is_seen_where_it_does_not_belong(
    run, start_broker, start_mosquitto, callbacks, tmp_path
):
    secrets = {row.what: f"secret{os.urandom(16).hex()}" for row in ROWS}
    scene = Scene(tmp_path, run, start_broker, start_mosquitto, callbacks, secrets)
    hearer = scene.mosquitto.hear("#")
    for row in ROWS:
        secrets[row.what] = row.plant(scene, secrets[row.what]) or secrets[row.what]
    key = scene.certificate.key.read_text().splitlines()[1]
    scene.keep_reports()
    scene.keep_arguments()
    scene.broker.kill()
    killed = list(scene.files())
    scene.keep_output()
    scene.broker.restart()
    scene.reload('"reloaded"')
    scene.news.post()
    scene.keep_reports()
    scene.broker.stop()
    ended = list(scene.files())
    scene.keep_output()
    hearer.messages.wait(1)
    heard = [message.topic.encode() + message.payload for message in hearer.messages]
    scene.seen += [("MQTT", message) for message in heard]

    leaks = []
    for row in [*ROWS, Row("the TLS key", None)]:
        secret = secrets.get(row.what, key)
        for spelling in spellings(secret):
            leaks += [
                (row.what, place, text[max(text.find(spelling) - 60, 0) :][:120])
                for place, text in scene.seen
                if spelling in text and place not in row.requests
            ]
            leaks += [
                (row.what, name, when)
                for when, files, allowed in (
                    ("killed", killed, [*row.files, *row.passing]),
                    ("ended", ended, row.files),
                )
                for name, text in files
                if spelling in text and name not in allowed
            ]
        # The search finds what is there.
        for name in row.files:
            assert any(n == name and secret.encode() in text for n, text in killed), row
        for request in row.requests:
            assert any(p == request and secret.encode() in t for p, t in scene.seen), row
    assert not leaks, "\n".join(map(str, leaks))
