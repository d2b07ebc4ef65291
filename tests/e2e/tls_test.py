"""The broker with --tls-cert and --tls-key: https and wss, for curl, openssl, tidings
and the clients of these tests. It behaves as without TLS."""

import contextlib
import json
import signal
import ssl

import pytest

from tidings_test.broker import Broker, is_sanitized
from tidings_test.certificates import Certificate
from tidings_test.http import JSON, Connection
from tidings_test.lax import permit_all
from tidings_test.sets import entries
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

CURL = "/usr/bin/curl"
OPENSSL = "/usr/bin/openssl"


def trust(certificate):
    """An SSLContext that trusts the CA, and takes the end of a connection without an
    end of TLS for an error."""
    context = certificate.trust()
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    return context


@pytest.fixture(scope="module")
def _broker(certificate, module_path):
    options = (*certificate.options, "--heartbeat", "0.2", "--remove-grace", "0")
    broker = Broker(module_path / "broker", options, tls=trust(certificate))
    yield broker
    broker.end()


@pytest.fixture
def broker(_broker):
    """A broker with TLS, shared by the tests of this file; so `news` is a set of it."""
    yield _broker
    _broker.remove_sets()


@pytest.fixture
def start_tls(start_broker, certificate):
    """start_tls("--threads", "2"): starts a broker with TLS of the test's own."""

    def start(*options, of=certificate):
        return start_broker(*of.options, *options, tls=trust(of))

    return start


def check_end_of_tls(connection):
    """The peer has ended TLS, and then the connection: nobody has cut it off."""
    assert connection.read_all() == b""
    connection.socket.suppress_ragged_eofs = False
    assert connection.socket.recv(1) == b""


# RFC 9112 section 3.2.2
def test_an_https_target_is_answered(broker):
    with broker.connect() as connection:
        answer = connection.request(f"https://{connection.host}/healthz")
    assert answer.status == 200


# W-162: also where the machine's configuration permits more.
def test_old_versions_and_weak_ciphers_are_refused(start_broker, certificate, lax):
    broker = start_broker(*certificate.options, env=lax, tls=trust(certificate))
    tls_1_2 = ssl.TLSVersion.TLSv1_2
    for version, ciphers, is_taken in (
        (tls_1_2, "ALL", True),
        (ssl.TLSVersion.TLSv1_1, "ALL", False),
        (ssl.TLSVersion.TLSv1, "ALL", False),
        (tls_1_2, "eNULL", False),
        (tls_1_2, "aNULL", False),
        (tls_1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", True),
    ):
        context = permit_all(certificate.trust(), version)
        context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
        refused = contextlib.nullcontext() if is_taken else pytest.raises(ssl.SSLError)
        with refused, Connection(broker.port, tls=context) as connection:
            assert connection.request("/healthz").status == 200


# Options


# --check finds a fault before a start does. TLS does not say who may publish.
def test_the_two_files_belong_together(run, certificate, tmp_path):
    cert, key, none = certificate.cert, certificate.key, "/no/such/key"
    start = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0")
    check = ("--data", tmp_path / "data", "--check")
    world = ("--listen", "0.0.0.0:0", "--public-url", "https://example.com", "--check")
    for status, options, cert, key, words in (
        (2, (), cert, None, "--tls-key is missing"),
        (2, (), None, key, "--tls-cert is missing"),
        (1, start, cert, none, f"{none}: No such file"),
        (1, start, key, key, "there is no certificate in it"),
        (1, check, cert, none, f"{none}: No such file"),
        (1, check, key, key, "there is no certificate in it"),
        (0, check, cert, key, "settings are good"),
        (2, world, cert, key, "give --insecure-open"),
    ):
        files = ("--tls-cert", cert) if cert else ()
        files += ("--tls-key", key) if key else ()
        done = run("tidingsd", *options, *files, status=status)
        assert words in f"{done.output()}\n{done.errors()}"


def test_warns_of_a_key_that_others_can_read_and_of_an_old_certificate(
    start_tls, tmp_path
):
    assert not start_tls().has_said("warning")
    old = Certificate(tmp_path / "old", expired=True)
    old.key.chmod(0o640)
    broker = start_tls(of=old)
    assert broker.has_said("key.pem is open to others (mode 640)")
    assert broker.has_said("cert.pem has expired")


# Clients of others


# the URLs in the documents are https.
def test_curl_reads_and_posts(news, run, certificate, tmp_path):
    n = soak(32, 160)  # 2 MB, or 10 MB
    body = tmp_path / "body.json"
    body.write_text(json.dumps(entries(n, size=65000)))
    curl = (CURL, "-sS", "--cacert", certificate.ca)
    post = ("-H", f"Content-Type: {JSON}", "--data-binary", f"@{body}")
    done = run(*curl, *post, "-w", "%{http_code}\n", f"{news.url}/changes")
    assert f'"last":{n}' in done.output()
    assert done.output().endswith("200")
    assert run(*curl, "-I", f"{news.url}/changelist.xml").out[0] == "HTTP/1.1 200 OK\r"
    changelist = news.get("changelist.xml")
    assert changelist.status == 200
    assert news.url in changelist.text
    assert "http://127" not in changelist.text

    run(CURL, "-sS", news.broker.url, status=60)  # nobody vouches for the broker


def test_openssl_sends_two_requests_at_once(broker, run, certificate):
    host = f"127.0.0.1:{broker.port}"
    request = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n"
    done = run(
        OPENSSL, "s_client", "-quiet", "-verify_return_error",
        "-CAfile", certificate.ca, "-connect", host,
        input=f"{request}\r\n{request}Connection: close\r\n\r\n",
    )  # fmt: skip
    assert done.output().count("HTTP/1.1 200 OK") == 2


# all of the history by its documents.
def test_a_pull_client_finds_everything(broker):
    news = broker.set().create(rotate_entries=5)
    for _ in range(12):
        news.post()
    lists = news.changelists().read()
    assert (len(lists), lists.history.last) == (3, 12)


# tidings


# over wss as well.
def test_follow_continues_after_crashes(start_tls, start, certificate):
    broker = start_tls()
    news = broker.set()
    news.post(2)
    env = certificate.env
    followed = start("tidings", "follow", news.url, "--from-start", env=env)
    for _ in range(2):
        followed.out.wait(news.posted)
        broker.kill()
        broker.restart()
        news.post(2)
    followed.out.wait(6)
    followed.signal(signal.SIGINT)
    assert followed.wait() == 0
    assert [int(line.split()[0]) for line in followed.out] == [*range(1, 7)]


# libcurl's message, for a name and for an address.
MISMATCH = "no alternative certificate subject name matches"


@pytest.fixture
def check_distrust(start):
    """check_distrust(url, why): `tidings follow` reports why it does not trust the
    broker, and prints no change."""

    def check(url, why, env=None):
        follow = ("tidings", "follow", url, "--from-start", "--verbose")
        followed = start(*follow, env=env)
        followed.err.find(lambda line: why in line, why)
        followed.signal(signal.SIGINT)
        assert (followed.wait(), followed.output()) == (0, "")

    return check


def publish(url, *options):
    one = ("--change", "created", "http://a.example/")
    return "tidings", "publish", url, *one, *options


def test_reports_a_certificate_that_nobody_vouches_for(
    news, run, certificate, check_distrust
):
    done = run(*publish(news.url), status=1)
    assert "certificate" in done.errors()
    done = run(*publish(news.url, "--cacert", "/no/such/file"), status=1)
    assert "/no/such/file" in done.errors()
    run(*publish(news.url, "--cacert", certificate.ca))

    check_distrust(news.url, "unable to get local issuer")
    follow = ("tidings", "follow", news.url, "--from-start", "--count", "1")
    done = run(*follow, "--cacert", certificate.ca)
    assert done.output().startswith("1 ")


# The certificate must name the host of the URL, and be valid today, even if a trusted
# CA signed it.
@pytest.mark.parametrize(
    "host, wish, why",
    [
        ("127.0.0.1", {"names": "DNS:example.com"}, MISMATCH),
        ("127.0.0.1", {"expired": True}, "certificate has expired"),
        ("[::1]", {"names": "IP:::2"}, MISMATCH),
        ("[::1]", {"names": "IP:::1"}, None),
    ],
    ids=["another name", "expired", "another address", "its address"],
)
def test_a_certificate_must_be_of_that_host_and_time(
    start, run, tmp_path, check_distrust, host, wish, why
):
    made = Certificate(tmp_path / "made", **wish)
    listen = ("--listen", f"{host}:0", "--data", tmp_path / "data")
    broker = start("tidingsd", *listen, *made.options)
    url = broker.out.wait(1).removeprefix("tidingsd: ready at ") + "sets/news"
    assert url.startswith(f"https://{host}:")
    run(*publish(url, "--retry", "0"), status=1 if why else 0, env=made.env)
    if why:
        check_distrust(url, why, made.env)
    else:
        run("tidings", "follow", url, "--from-start", "--count", 1, env=made.env)
    broker.stop()


# Without --cacert the commands trust nobody, and post nothing.
def test_every_command_takes_cacert(news, run, certificate, tmp_path):
    news = news.broker.set()
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.txt").touch()
    create = ("tidings", "set", "create", news.url)
    get = ("tidings", "get", news.url)
    watch = ("tidings", "watch", tmp_path / "files", news.url, "--once")
    watch += ("--base-uri", "http://example.com/")
    for command in (create, get, watch):
        assert "certificate" in run(*command, status=1).errors()
    assert news.get().status == 404

    ca = ("--cacert", certificate.ca)
    assert run(*create, *ca, "--title", "News").output() == "created"
    assert run(*watch, *ca).output().startswith("first=1 last=1 ")
    said = run(*get, *ca).output()
    assert "News\n" in said
    assert "https://" in said and "http://" not in said
    assert "News\n" in run("tidings", "set", "show", news.url, *ca).output()
    run("tidings", "set", "delete", news.url, "--yes", *ca)
    assert "was removed" in run(*get, *ca, status=3).errors()


# Streams and answers


# The last chunk and TLS both mark the end of a stream.
def test_an_event_stream_continues_and_ends_with_its_set(news):
    news.post(3)
    events = news.events("after=0").until(3)
    assert not events.next().entries  # a heartbeat
    news.post(20, size=100000)  # many records
    events.until(23)
    assert news.delete().status == 204
    events.wait_end("removed")
    check_end_of_tls(events.connection)


def test_a_request_that_waits_is_answered(news, broker):
    news.post(3)
    with broker.connect() as connection:
        connection.ask(f"{news.changes}?after=3&wait=60")
        news.post()
        assert connection.answer().message().seqs == [4]
        connection.ask(f"{news.changes}?after=4&wait=60")
        assert news.delete().status == 204
        answer = connection.answer()
        assert answer.status == 410
        assert "was removed" in answer.text


# SIGTERM: WebSocket and TLS are both ended by their rules.
def test_ends_streams_when_it_stops(start_tls):
    broker = start_tls()
    news = broker.set()
    news.post()
    follower = news.websocket("after=0", form="xml").until(1)
    broker.terminate()
    follower.wait_close(1001)  # answered with the same code
    assert broker.wait() == 0
    check_end_of_tls(follower.connection)


# Bytes from memory, from the file, and the file itself.
def test_parts_and_gzip_of_a_closed_list_are_its_bytes(start_tls):
    broker = start_tls()
    news = broker.set()
    news.post(60, size=65000)  # 4 MB
    path = news.list_path(news.rotate())
    whole = news.get(path).body
    size = len(whole)
    assert size > 3800000
    parts = {
        "0-0": (0, 1),
        "65530-200000": (65530, 200001),
        "3000000-3700000": (3000000, 3700001),
        "-11": (size - 11, size),
    }
    for _ in range(2):
        for part, (first, end) in parts.items():
            answer = news.get(path, range=f"bytes={part}")
            assert answer.status == 206
            assert answer["Content-Range"] == f"bytes {first}-{end - 1}/{size}"
            assert answer.body == whole[first:end]
        news.wait_list_files(1)
        answer = wait_for("the list as gzip", lambda: get_gzip(news, path))
        assert answer.body[:2] == b"\x1f\x8b"
        assert len(answer.body) < size
        broker.kill()
        broker.restart()


def get_gzip(news, path):
    answer = news.get(path, accept_encoding="gzip")
    assert answer.status == 200
    return answer["Content-Encoding"] and answer


# Others


READERS = soak(2, 40)
STALLED = 20
POSTS = soak(10, 40)

# The tail, which has all entries; for each of two threads the frames under way, and
# those that are kept for others; a message of a megabyte for each stalled reader, as
# TLS keeps it; and 8 MB for the rest. A queue for each of them would take much more.
TAIL_MB = soak(6, 21)
GROWTH_KIB = (TAIL_MB + 2 * (16 + 4) + STALLED + 8) * 1024


# over TLS, where a write that did not succeed is kept as a whole.
def test_readers_that_stall_cost_nobody_anything(start_tls):
    broker = start_tls("--tail-bytes", "8M", "--threads", "2")
    news = broker.set()
    news.post()
    followers = [
        news.websocket("after=0", form="json" if i % 10 == 3 else "xml", narrow=narrow)
        for i, narrow in enumerate([True] * STALLED + [False] * READERS)
    ]
    for follower in followers:
        follower.until(1)
    before = most = broker.process.memory_kib()
    for i in range(POSTS):
        last = news.post(*((16, None, 65000) if i % 2 else (10, None, 3000))).last
        for follower in followers[STALLED:]:
            follower.until(last)
        most = max(most, broker.process.memory_kib())
    if not is_sanitized():
        assert most < before + GROWTH_KIB
    for follower in followers[:STALLED]:
        assert follower.history.last == 1
        follower.until(last)


# The broker serves others meanwhile, and ends the halves in time.
def test_half_a_handshake_costs_nobody_anything(start_tls):
    broker = start_tls("--request-timeout", "1")
    plain = [Connection(broker.port) for _ in range(200)]
    for i, connection in enumerate(plain):
        connection.send(b"\x16\x03\x01\x02\x00\x01\x00"[: i % 8])
    broker.wait_answer()
    for connection in plain:
        assert connection.read_all() == b""
        connection.close()
