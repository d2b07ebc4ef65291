"""TLS to others: bad servers, and the four ways to them: callbacks, content, MQTT and
the command line. Each is refused in each way, by an error that says what is wrong and
where, and gets not a byte of a request.

The programs run with a configuration of OpenSSL that permits everything, so what they
refuse they refuse themselves.
"""

import hashlib
import re
import ssl

import pytest

from tidings_test import hub
from tidings_test.broker import Broker
from tidings_test.certificates import Certificate
from tidings_test.lax import Lax

TLS_1_1 = ssl.TLSVersion.TLSv1_1

# Servers: how their certificate is made, the latest version of TLS, and words of the
# error. None: the server is good.
SERVERS = {
    "good": ({}, None, None),
    "good-rsa": ({"rsa": 2048, "usage": "serverAuth"}, None, None),
    "expired": ({"expired": True}, None, "certificate has expired"),
    "name": ({"names": "DNS:other.example"}, None, "subject name|not for 127.0.0.1"),
    "address": ({"names": "IP:127.0.0.2"}, None, "subject name|not for 127.0.0.1"),
    "purpose": ({"usage": "clientAuth"}, None, "purpose"),
    "short-key": ({"rsa": 1024}, None, "EE certificate key too weak"),
    "short-key-of-ca": ({"middle_rsa": 1024}, None, "CA certificate key too weak"),
    "sha1": ({"sha1": True}, None, "CA signature digest algorithm too weak"),
    "foreign": ({}, None, "unable to get local issuer certificate"),
    "tls-1.1": ({}, TLS_1_1, "version"),
}
UNTRUSTED = ("foreign",)


@pytest.fixture(scope="module")
def servers(module_path):
    """The servers by name."""
    made = {}
    for name, (wish, version, _) in SERVERS.items():
        made[name] = Lax(Certificate(module_path / name, **wish), version)
    yield made
    for server in made.values():
        server.close()


@pytest.fixture(scope="module")
def authorities(module_path, servers):
    """The file with the authorities of all servers but the foreign one."""
    roots = [module_path / name / "root.pem" for name in servers]
    file = module_path / "authorities.pem"
    trusted = [root for root in roots if root.parent.name not in UNTRUSTED]
    file.write_text("".join(root.read_text() for root in trusted))
    return file


@pytest.fixture(scope="module")
def broker(module_path, servers, authorities, lax):
    """A broker that calls each server, in all ways at once."""
    ini = module_path / "tidingsd.ini"
    ini.write_text(
        "".join(
            f"[mqtt {name.replace('.', '-')}]\nurl = {server.url('mqtts')}\n"
            f"out = *\nretry-first = 3600\nretry-max = 3600\n"
            for name, server in servers.items()
        )
    )
    options = ("--config", ini, "--ca-file", authorities, "--content", "fetch")
    options += ("--fetch-tries", "1", "--allow-callbacks", "127.0.0.0/8")
    # Level debug: else only ten lines of a kind are written a minute.
    made = Broker(module_path / "broker", (*options, "--log-level", "debug"), env=lax)
    news = made.set().create()
    for server in servers.values():
        hub.check_taken(hub.subscribe(news, f"{server.url()}/cb"))
        sum_ = hashlib.sha256(server.body).hexdigest()
        url = f"{server.url()}/content"
        news.post_change(url, "updated", hash={"sha-256": sum_})
    yield made
    made.end()


# The ways, with the first bytes that a good server gets. Each returns the text that
# says where and why.


def by_callback(broker, server, _):
    return broker.wait_said(f"callback={server.url()} ")


def by_fetch(broker, server, _):
    return broker.wait_said(f"loc={server.url()}/content error=")


def by_bridge(broker, server, _):
    return broker.wait_said(f"url={server.url('mqtts')} reason=")


def by_command(_, server, tidings):
    return tidings(f"{server.url()}/sets/news")


WAYS = {
    by_callback: b"GET /cb?",
    by_fetch: b"GET /content ",
    by_bridge: b"\x10",
    by_command: b"GET /sets/news ",
}


# W-162
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SERVERS)
def test_a_bad_server_is_refused(way, name, broker, servers, run, authorities, lax):
    def tidings(url):
        get = ("tidings", "get", url, "--cacert", authorities)
        return run(*get, status=1, env=lax).errors()

    words, server = SERVERS[name][2], servers[name]
    if words:
        text = way(broker, server, tidings)
        assert re.search(words, text)
        assert f"127.0.0.1:{server.port}" in text
        assert len(server.reached) == 0
    else:
        if way is by_command:
            tidings(f"{server.url()}/sets/news")  # it is no set, but it is trusted
        server.reached.find(lambda first: first.startswith(WAYS[way]))
