"""Certificates of clients (--tls-client-ca): a certificate that a token names is as good
as the token; one that does not verify ends the connection."""

import shutil
import ssl

import pytest

from tidings_test.certificates import Certificate
from tidings_test.http import Connection, ConnectionEnded, check_refused
from tidings_test.lax import permit_all

CLIENT = {"usage": "clientAuth", "names": "DNS:press.example"}


@pytest.fixture
def client(tmp_path):
    """A good certificate of a client."""
    return Certificate(tmp_path / "client", **CLIENT)


@pytest.fixture
def authorities(tmp_path, client):
    """The file of --tls-client-ca."""
    return shutil.copy(client.ca, tmp_path / "authorities.pem")


@pytest.fixture
def broker(start_broker, certificate, authorities, lax):
    """A broker that asks for certificates, and has an administrator; everyone may
    read."""
    options = (*certificate.options, "--tls-client-ca", authorities)
    broker = start_broker(*options, "--threads", "2", tls=certificate.trust(), env=lax)
    broker.add_token("boss", admin=True)
    broker.add_token("everyone", subscribe=["*"])
    return broker


@pytest.fixture
def ask(broker, certificate):
    """ask(client, "/tokens/self"): the answer to a client with that certificate."""

    def ask(client, path, *arguments, context=None, **headers):
        if not context:
            context = permit_all(certificate.trust())
            if client:
                context.load_cert_chain(client.cert, client.key)
        with Connection(broker.port, tls=context) as connection:
            return connection.request(path, *arguments, **headers)

    return ask


def name_of(answer):
    assert answer.status == 200, answer
    return answer.json()["name"]


def test_a_certificate_counts_as_the_token_that_names_it(broker, ask, client, run):
    broker.set("news").create()
    upper = client.fingerprint.upper()
    printed = ":".join(upper[i : i + 2] for i in range(0, 64, 2))
    add = ("add", "press", "--publish", "news", "--certificate", printed)
    token = run("tidingsd", "token", *add, "--data", broker.data).output()
    shown = broker.get("/tokens/press").json()["tokens"][0]
    assert shown["certificate"] == client.fingerprint

    change = b'{"loc":"http://a.example/","change":"created"}'
    post = ("/sets/news/changes", "POST", change)
    json = {"content_type": "application/json"}
    assert name_of(ask(client, "/tokens/self")) == "press"
    assert ask(client, *post, **json).status == 200
    check_refused(ask(None, *post, **json), 401)
    bearer = {"authorization": f"Bearer {token}"}
    assert name_of(ask(None, "/tokens/self", **bearer)) == "press"

    # A token that is sent counts alone.
    bad = {"authorization": f"Bearer {token[:-1]}"}
    check_refused(ask(client, "/tokens/self", **bad), 401)
    boss = {"authorization": f"Bearer {broker.token}"}
    assert name_of(ask(client, "/tokens/self", **boss)) == "boss"

    again = {"publish": ["*"], "certificate": client.fingerprint}
    answer = broker.post("/tokens", {"name": "other", **again})
    check_refused(answer, 409, '"press" names the same certificate')
    for bad in ("abc", client.fingerprint + "0", 1):
        answer = broker.post("/tokens", {"name": "other", **again, "certificate": bad})
        assert answer.status in (400, 422), answer

    broker.kill()
    broker.restart()
    assert name_of(ask(client, "/tokens/self")) == "press"
    assert broker.delete("/tokens/press").status == 204
    check_refused(ask(client, *post, **json), 401)


# Its certificate is asked for, and may be of nobody.
def test_a_certificate_without_a_token_is_everyone(broker, ask, client):
    broker.set("news").create()
    for one in (client, None):
        assert ask(one, "/sets/news").status == 200
        check_refused(ask(one, "/tokens"), 401)


BAD = {
    "expired": ({"expired": True}, "certificate has expired"),
    "purpose": ({"usage": "serverAuth"}, "unsuitable certificate purpose"),
    "short-key": ({"rsa": 1024}, "EE certificate key too weak"),
    "short-key-of-ca": ({"middle_rsa": 1024}, "CA certificate key too weak"),
    "sha1": ({"sha1": True}, "CA signature digest algorithm too weak"),
    "foreign": ({}, "unable to get local issuer certificate"),
}


@pytest.mark.parametrize("wish", BAD)
def test_a_bad_certificate_ends_the_connection(wish, broker, ask, authorities, tmp_path):
    more, words = BAD[wish]
    bad = Certificate(tmp_path / "bad", **{**CLIENT, **more})
    if wish != "foreign":
        shutil.copy(bad.ca, authorities)
        broker.wait_said("clients of new connections need other authorities")
    broker.add_token("press", admin=True, certificate=bad.fingerprint)
    with pytest.raises((ssl.SSLError, ConnectionError, ConnectionEnded)):
        ask(bad, "/tokens/self")
    line = broker.wait_said("the certificate of a client is refused")
    assert words in line
    assert broker.get("/healthz").status == 200


# Also a session that could be resumed.
def test_authorities_that_are_replaced_are_no_longer_believed(
    broker, ask, certificate, client, authorities, tmp_path
):
    broker.add_token("press", admin=True, certificate=client.fingerprint)
    context = certificate.trust()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(client.cert, client.key)
    with Connection(broker.port, tls=context) as kept:
        assert name_of(kept.request("/tokens/self")) == "press"
        session = kept.socket.session

        def resume():
            raw = Connection(broker.port)
            raw.socket = context.wrap_socket(
                raw.socket, server_hostname="127.0.0.1", session=session
            )
            with raw:
                assert name_of(raw.request("/tokens/self")) == "press"
                return raw.socket.session_reused

        assert resume()
        other = Certificate(tmp_path / "other", **CLIENT)
        shutil.copy(other.ca, authorities)
        broker.wait_said("clients of new connections need other authorities")
        with pytest.raises((ssl.SSLError, ConnectionError, ConnectionEnded)):
            resume()
        assert name_of(kept.request("/tokens/self")) == "press"


def test_certificates_need_tls_and_a_good_file(run, certificate, tmp_path):
    start = ("--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--check-settings")
    done = run("tidingsd", *start, "--tls-client-ca", certificate.ca, status=2)
    assert "--tls-client-ca: only TLS has certificates" in done.errors()
    files = (*certificate.options, "--tls-client-ca", certificate.key)
    done = run("tidingsd", *start, *files, status=1)
    assert "key.pem: there is no certificate in it" in done.errors()


# The SDK and the command line: by options and by the environment, each command that
# opens a connection of its own.
def test_the_command_line_has_a_certificate(
    broker, client, certificate, lax, run, tmp_path
):
    news = broker.set("news").create()
    broker.add_token("press", publish=["news"], certificate=client.fingerprint)
    entry = tmp_path / "entry.json"
    entry.write_text('{"loc":"http://a.example/1","change":"created"}')
    trust = {**lax, **certificate.env}
    named = {**trust, "TIDINGS_CERT": client.cert, "TIDINGS_CERT_KEY": client.key}
    options = ("--cert", client.cert, "--cert-key", client.key)
    publish = ("publish", news.url, entry, "--again")
    refused = run("tidings", *publish, env=trust, status=1).errors()
    assert "401" in refused or "token" in refused
    run("tidings", *publish, *options, env=trust)
    run("tidings", *publish, env=named)
    both = tmp_path / "both.pem"
    both.write_text(client.cert.read_text() + client.key.read_text())
    run("tidings", *publish, "--cert", both, env=trust)
    files = tmp_path / "files"
    files.mkdir()
    (files / "a").write_text("a")
    watch = ("watch", files, news.url, "--base-uri", "http://a.example/", "--once")
    run("tidings", *watch, env=trust, status=1)
    run("tidings", *watch, *options, env=trust)
    assert news.last() == 4

    other = Certificate(tmp_path / "other", **CLIENT)
    locked = Certificate(tmp_path / "locked", **CLIENT, password="secret")
    faults = (
        ((*options[:2], "--cert-key", other.key), 1, "key values mismatch"),
        (("--cert", "/none", *options[2:]), 1, "/none"),
        (("--cert", locked.cert, "--cert-key", locked.key), 1, "cannot use the key"),
        (options[2:], 2, "--cert-key belongs to a --cert"),
    )
    for given, status, words in faults:
        assert words in run("tidings", *publish, *given, env=trust, status=status).errors()
