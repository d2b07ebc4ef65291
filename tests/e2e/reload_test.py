"""SIGHUP: the broker reads its settings again while it runs, and keeps its streams. A
terminal that is closed sends the same signal, and ends the broker."""

import contextlib
import hashlib
import json
import os
import pty
import shutil
import signal
import socket
import ssl

import pytest

from tidings_test.broker import PROGRAMS, ROOT
from tidings_test.certificates import Certificate
from tidings_test.mqtt import Reader
from tidings_test.sets import change
from tidings_test.waiting import wait_for

RELOADED = 'msg="reloaded"'
REFUSED = 'msg="not reloaded, the old settings stay"'


class Reloaded:
    """A broker with a file of settings."""

    def __init__(self, start_broker, directory, text, *options, **more):
        self.ini = directory / "tidingsd.ini"
        self.ini.write_text(text)
        self.broker = start_broker("--config", self.ini, *options, **more)
        self._log = self.broker.process.err
        self._log.next(lambda line: 'msg="ready"' in line)

    def write(self, text):
        """Write the file and have it read."""
        self.ini.write_text(text)
        return self.reload()

    def reload(self):
        """Send SIGHUP, and return the lines that its part "broker" logs until it has
        reloaded, without their times."""
        self.broker.process.signal(signal.SIGHUP)
        lines = []
        while not lines or not any(end in lines[-1] for end in (RELOADED, REFUSED)):
            of_broker = self._log.next(lambda line: "part=broker" in line)
            lines.append(of_broker.partition(" ")[2])
        return lines


@pytest.fixture
def start_reloaded(start_broker, tmp_path):
    """start_reloaded("heartbeat = 5"): starts a broker with that file of settings."""

    def start(text, *options, **more):
        return Reloaded(start_broker, tmp_path, text, *options, **more)

    return start


def line(level, text):
    return f"level={level} part=broker {text}"


CHANGED = 'msg="a setting has changed" option='
WAITS = 'msg="a setting changes with the next start" option='


# The reload applies what it can; the log names the options that wait for a restart.
# Streams go on.
def test_a_reload_changes_what_it_can_and_names_the_rest(start_reloaded):
    reloaded = start_reloaded("rotate-age = 5\n")
    news = reloaded.broker.set()
    news.post()
    follower = news.websocket("after=0").until(1)

    assert reloaded.reload() == [line("info", RELOADED)]
    settings = "rotate-age = 6\nheartbeat = 20\nlog-level = debug\nlisten-unix = /a\n"
    assert reloaded.write(settings) == [
        line("warning", WAITS + "listen-unix"),
        line("warning", WAITS + "rotate-age"),
        line("info", CHANGED + "log-level"),
        line("info", RELOADED),
    ]
    assert reloaded.write("rotate-age = 5\nlog-level = debug\n") == [
        line("info", RELOADED)
    ]
    assert reloaded.write("listen = 127.0.0.1:1\nlog-level = error\n") == [
        line("warning", WAITS + "rotate-age"),
        line("info", CHANGED + "log-level"),
        line("info", RELOADED),
    ]
    news.post()
    follower.until(2)
    # The louder of both levels holds for all lines of the reload.
    mqtt = "[mqtt a]\nurl = mqtt://127.0.0.1:1\nout = *\n"
    lines = reloaded.write(f"rotate-age = 5\nlog-level = info\n{mqtt}")
    assert line("info", 'msg="a bridge begins" bridge=a') in lines
    reloaded.write("log-level = error\n")
    reloaded.broker.stop()
    assert not reloaded.broker.has_said('msg="ended"')


# Of a proxy that is trusted from now on each request counts for the client that it names.
def test_a_reload_changes_which_proxies_are_trusted(start_reloaded):
    reloaded = start_reloaded("", "--insecure-open", "--client-streams", "1")
    news = reloaded.broker.set().create()
    changed = [line("info", CHANGED + "trusted-proxies"), line("info", RELOADED)]
    with contextlib.ExitStack() as streams:

        def begin(forwarded):
            proxy = streams.enter_context(reloaded.broker.connect(client="127.0.0.9"))
            events = {"accept": "text/event-stream"}
            proxy.ask(news.stream, x_forwarded_for=forwarded, **events)
            return proxy.answer_head().status

        assert [begin("192.0.2.1"), begin("192.0.2.2")] == [200, 429]
        assert reloaded.write("trusted-proxies = 127.0.0.9\n") == changed
        assert [begin("192.0.2.1"), begin("192.0.2.2")] == [200, 200]
        assert begin("192.0.2.1") == 429
        assert reloaded.write("") == changed
        assert begin("192.0.2.3") == 429


def test_what_is_wrong_is_named_and_the_old_settings_stay(start_reloaded):
    reloaded = start_reloaded("log-level = info\n")
    for text, error in (
        ("log-level = debug\nheartbeat = 0\n", ":2: heartbeat: 0 is not between"),
        ("[mqtt a]\nurl = mqtt://a.org\n", ":1: [mqtt a]: "),
        ("trusted-proxies = 10.0.0.0/33\n", "--trusted-proxies: "),
        ("hub-lease-min = 7000000\n", "--hub-lease-min is longer than"),
        ("tls-cert = /none\ntls-key = /none\n", "cannot read the certificate /none: "),
    ):
        lines = reloaded.write(text)
        assert len(lines) == 1
        assert lines[0].startswith(line("error", REFUSED))
        assert error in lines[0]
    reloaded.ini.unlink()
    assert "tidingsd.ini" in reloaded.reload()[-1]
    assert reloaded.write("") == [line("info", RELOADED)]
    reloaded.broker.set().post()


# The limit of lines a minute is for repeated faults, not for answers to the operator.
def test_every_line_of_every_reload_is_logged(start_reloaded):
    reloaded = start_reloaded("")
    names = """rotate-age retain-age remove-grace heartbeat request-timeout hub-timeout
        hub-give-up hub-retry-max fetch-timeout fetch-stall fetch-retry-max
        hub-retry-first fetch-retry-first"""
    for _ in range(12):
        assert reloaded.reload() == [line("info", RELOADED)]
    lines = reloaded.write("".join(f"{name} = 11\n" for name in names.split()))
    expected = {line("warning", WAITS + name) for name in names.split()}
    assert set(lines) == {*expected, line("info", RELOADED)}


# SIGHUP comes while the broker reads its settings for the first time, from a pipe.
def test_a_reload_waits_for_the_end_of_the_start(start_broker, tmp_path):
    pipe = tmp_path / "settings"
    os.mkfifo(pipe)
    broker = start_broker("--config", "/dev/null")
    broker.stop()
    broker.options[broker.options.index("/dev/null")] = str(pipe)
    process = broker.process = broker.start_process()
    with open(pipe, "w"):  # the broker has opened it, too
        process.signal(signal.SIGHUP)
    process.out.wait(1)
    pipe.write_text("")
    broker.wait_said(RELOADED)


# TLS


def shown_certificate(broker):
    """The certificate that the broker shows to a new connection, as PEM, unverified."""
    return ssl.get_server_certificate(("127.0.0.1", broker.port))


def leaf(certificate):
    text = certificate.cert.read_text()
    return text[: text.index("-----END CERTIFICATE-----")].split()


def is_shown(broker, certificate):
    pem = shown_certificate(broker)
    return pem[: pem.index("-----END CERTIFICATE-----")].split() == leaf(certificate)


# A certificate of another kind of key replaces the first one, too.
def test_new_connections_get_the_new_certificate(start_reloaded, tmp_path):
    old = Certificate(tmp_path / "old")
    new = Certificate(tmp_path / "new", rsa=2048)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    for file, of in ((cert, old.cert), (key, old.key)):
        shutil.copy(of, file)
    reloaded = start_reloaded(f"tls-cert = {cert}\ntls-key = {key}\n", tls=old.trust())
    broker = reloaded.broker
    news = broker.set()
    news.post()
    follower = news.websocket("after=0").until(1)
    assert is_shown(broker, old)
    assert reloaded.reload() == [line("info", RELOADED)]

    halves = f"tls-cert = {new.cert}\ntls-key = {key}\n"
    assert "not the private key" in reloaded.write(halves)[-1]
    assert is_shown(broker, old)

    for file, of in ((cert, new.cert), (key, new.key)):
        shutil.copy(of, file)
    taken = line("info", f'msg="new connections get a new certificate" file={cert}')
    whole = f"tls-cert = {cert}\ntls-key = {key}\n"
    assert reloaded.write(whole) == [taken, line("info", RELOADED)]
    assert is_shown(broker, new)
    for ciphers in ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"):
        context = new.trust()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(ciphers)
        refused = pytest.raises(ssl.SSLError) if "ECDSA" in ciphers else None
        with socket.create_connection(("127.0.0.1", broker.port)) as connection:
            with refused or contextlib.nullcontext():
                context.wrap_socket(connection, server_hostname="127.0.0.1").close()
    news.post()
    follower.until(2)

    paths = f"tls-cert = {old.cert}\ntls-key = {old.key}\n"
    lines = reloaded.write(paths)
    assert line("info", CHANGED + "tls-cert") in lines
    assert line("info", CHANGED + "tls-key") in lines
    assert is_shown(broker, old)
    assert reloaded.write("") == [
        line("warning", WAITS + "tls-cert"),
        line("warning", WAITS + "tls-key"),
        line("info", RELOADED),
    ]
    assert is_shown(broker, old)


# Files that cannot be read fail the reload before it changes anything: here mqtt.db,
# which no broker without a bridge opens.
def test_a_reload_that_fails_leaves_the_certificate(start_reloaded, tmp_path):
    old, new = Certificate(tmp_path / "old"), Certificate(tmp_path / "new")
    reloaded = start_reloaded(
        f"tls-cert = {old.cert}\ntls-key = {old.key}\n", tls=old.trust()
    )
    (reloaded.broker.data / "mqtt.db").write_text("This is no database. " * 99)
    settings = f"tls-cert = {new.cert}\ntls-key = {new.key}\n"
    lines = reloaded.write(f"{settings}[mqtt a]\nurl = mqtt://127.0.0.1:1\nout = *\n")
    assert len(lines) == 1 and "mqtt.db: " in lines[0]
    assert is_shown(reloaded.broker, old)
    assert line("info", RELOADED) in reloaded.write(settings)
    assert is_shown(reloaded.broker, new)


# Networks


def test_calls_go_to_the_networks_of_the_latest_reload(start_reloaded, site):
    fetch = "content = fetch\nfetch-retry-first = 0.01\nfetch-retry-max = 0.01\n"
    reloaded = start_reloaded(fetch)
    news = reloaded.broker.set()

    def post(path):
        site.put(path, path)
        sum_ = hashlib.sha256(path.encode()).hexdigest()
        news.post_change(site.link(path), "updated", hash={"sha-256": sum_})

    def refusals():
        metric = 'tidings_fetches_failed_total{reason="refused"}'
        return reloaded.broker.metrics()[metric]

    post("/first")
    wait_for("a fetch that is refused", refusals)
    assert not site.asked("/first")
    assert reloaded.write(f"{fetch}allow-callbacks = 127.0.0.0/8\n") == [
        line("info", CHANGED + "allow-callbacks"),
        line("info", RELOADED),
    ]
    site.asked("/first").wait(1)

    reloaded.write(f"{fetch}allow-callbacks = 10.0.0.0/8\n")
    before = refusals()
    post("/second")
    wait_for("a fetch that is refused", lambda: refusals() > before)
    assert not site.asked("/second")


# Bridges


def bridge(mosquitto, *lines):
    return "\n".join(["[mqtt a]", f"url = {mosquitto.url}", "prefix = a", *lines, ""])


# A bridge begins, gets another filter and ends while the broker runs. It goes on where
# it was, in both directions.
def test_bridges_come_change_and_go(start_reloaded, mosquitto):
    reloaded = start_reloaded("heartbeat = 3600\n")
    broker = reloaded.broker
    news = broker.set("news")
    news.post(3)
    teller = mosquitto.tell()
    heard = mosquitto.hear("a/#")
    follower = news.websocket("after=0").until(3)

    def write(*lines):
        return reloaded.write(f"heartbeat = 3600\n{bridge(mosquitto, *lines)}")

    out = ("out = *", "begin = start")
    assert write(*out, "in = one/# -> news") == [
        line("info", 'msg="a bridge begins" bridge=a'),
        line("info", RELOADED),
    ]
    assert write(*out, "in = one/# -> news") == [line("info", RELOADED)]
    mosquitto.wait_subscription("one/#")
    teller.say("one/x", json.dumps(change("http://example.com/one")))
    follower.until(4)
    told = Reader(heard, "a/news/notifications")
    told.until(4)

    # Messages that come while there is no bridge wait for it at the MQTT broker.
    assert write(*out, "in = two/# -> news", "in = one/# -> news") == [
        line("info", 'msg="a bridge ends" bridge=a'),
        line("info", 'msg="a bridge begins" bridge=a'),
        line("info", RELOADED),
    ]
    mosquitto.wait_subscription("two/#")
    teller.say("two/x", json.dumps(change("http://example.com/two")))
    teller.say("one/x", json.dumps(change("http://example.com/three")))
    follower.until(6)
    told.until(6)
    assert news.changelists().read().history.locs()[3:] == [
        "http://example.com/one",
        "http://example.com/two",
        "http://example.com/three",
    ]

    lines = write("user = me", "password-file = /none", *out)
    assert lines[0].startswith(line("error", REFUSED)) and "/none" in lines[0]
    assert broker.get("/bridges").json()["bridges"][0]["name"] == "a"
    assert reloaded.write("heartbeat = 3600\n") == [
        line("info", 'msg="a bridge ends" bridge=a'),
        line("info", RELOADED),
    ]
    assert broker.get("/bridges").json() == {"bridges": []}
    news.post()
    follower.until(7)


# Terminals


class Terminal:
    """A program on a terminal of its own, of which it is the leader."""

    def __init__(self, *argv):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execv(argv[0], [str(argument) for argument in argv])
        self.said = ""

    def read_until(self, part):
        while part not in self.said:
            self.said += os.read(self.master, 65536).decode()

    def hang_up(self):
        """Close the terminal; the status with which the program ends."""
        os.close(self.master)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def pid_of(log):
    return int(log.read_text().partition("pid=")[2].split()[0])


@pytest.fixture
def log(tmp_path):
    """The file with the broker's log; a broker that has not ended is killed."""
    log = tmp_path / "log"
    yield log
    if 'msg="ended"' not in log.read_text():
        os.kill(pid_of(log), signal.SIGKILL)


def wait_logged(log, part):
    wait_for(part, lambda: part in log.read_text())


@pytest.fixture
def start_script(tmp_path):
    """A copy of broker/start in a tree where all is built."""
    tree = tmp_path / "tree"
    for file in ("broker/start", "broker/options.txt", "tools/packages.sh"):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tree / file)
    (tree / "packages.txt").touch()
    (tree / "build/release/bin").mkdir(parents=True)
    (tree / "build/release/bin/tidingsd").symlink_to(PROGRAMS["tidingsd"])
    (tree / "bin").mkdir()
    (tree / "bin/cmake").symlink_to("/bin/true")
    return f"PATH={tree / 'bin'}:$PATH {tree / 'broker/start'}"


# The kernel sends SIGHUP to the leader of a terminal's session when it is closed, and
# an interactive shell to its jobs.
@pytest.mark.parametrize("way", ["leader", "job", "broker/start"])
def test_the_broker_ends_with_its_terminal(tmp_path, log, way, run, start_script):
    data = tmp_path / "data"
    options = f"--listen 127.0.0.1:0 --data {data} 2>{log}"
    start = start_script if way == "broker/start" else PROGRAMS["tidingsd"]
    if way == "leader":
        terminal = Terminal("/bin/sh", "-c", f"exec {start} {options}")
    else:  # the second command keeps the shell from replacing itself
        terminal = Terminal(
            "/bin/bash", "--norc", "-i", "-c", f"{start} {options}; true"
        )
    terminal.read_until("ready at")
    os.kill(pid_of(log), signal.SIGHUP)  # from elsewhere, and the terminal is there
    wait_logged(log, RELOADED)
    terminal.hang_up()
    wait_logged(log, 'msg="ended"')
    assert 'msg="ending" signal=SIGHUP' in log.read_text()
    run("tidingsd", "--check", "--listen", "127.0.0.1:0", "--data", data)


# nohup: the broker outlives its terminal.
def test_a_broker_that_ignores_hangups_stays(tmp_path, log):
    start = f"{PROGRAMS['tidingsd']} --listen 127.0.0.1:0 --data {tmp_path / 'data'}"
    terminal = Terminal("/bin/sh", "-c", f"trap '' HUP; exec {start} 2>{log}")
    terminal.read_until("ready at")
    os.close(terminal.master)
    wait_logged(log, RELOADED)
    os.kill(terminal.pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 0
