"""Patroni, as doc/cluster_failover.md configures it, promotes its synchronous standby when
the primary is killed: brokers find it, as does HAProxy, and lose no acknowledged change."""

import pytest
import yaml

from tidings_test import patroni
from tidings_test.broker import ROOT
from tidings_test.documentation import Page
from tidings_test.http import keep_port
from tidings_test.postgresql import USER
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm
from tidings_test.waiting import wait_for

PAGE = Page(ROOT / "doc/cluster_failover.md")
ROUNDS = soak(1, 5)


def block(first):
    """The lines of the page that begin with this one."""
    return "\n".join(next(b for b in PAGE.blocks if b.lines[0] == first).lines)


@pytest.fixture
def trio():
    if not patroni.is_installed():
        pytest.skip(f"not installed: {patroni.PACKAGES}")
    settings = yaml.safe_load(block("bootstrap:"))["bootstrap"]["dcs"]
    managed = patroni.PatroniTrio(settings)
    yield managed
    managed.end()


@pytest.fixture
def haproxy(trio, start, tmp_path):
    """The port of HAProxy before them, as the page has it."""
    port, keeper = keep_port()
    text = block("listen journal").replace(":5432\n    mode", f":{port}\n    mode")
    for i, server in enumerate(trio.servers.values(), 1):
        there = f"db{i} 127.0.0.1:{server.port} check port {server.rest}"
        text = text.replace(f"db{i} db{i}.example.org:5432", there)
    assert "5432" not in text
    (tmp_path / "haproxy.cfg").write_text(f"{text}\n")
    process = start("/usr/sbin/haproxy", "-db", "-f", tmp_path / "haproxy.cfg")
    yield port
    process.signal(15)
    process.wait()
    keeper.close()


def test_posts_continue_at_the_server_that_it_promotes(start_cluster, trio, haproxy, run):
    def wait_led():
        """Wait until HAProxy leads to the primary."""
        ask = ("psql", "-h", "127.0.0.1", "-p", haproxy, "-U", USER, "-Atc", "SHOW port")
        expected = [str(trio.servers[trio.primary].port)]
        wait_for("HAProxy", lambda: list(run(*ask, "postgres", status=None).out) == expected)

    wait_led()
    names = "SHOW synchronous_standby_names"
    for name, server in trio.servers.items():  # a new primary has none at first
        if name != trio.primary:
            wait_for("a name", lambda server=server: server.query(names) == ["*"])
    assert trio.query(names) != [""]
    cluster = start_cluster("--rotate-entries", 500)
    storm = Storm(cluster, "news", choices())
    for _ in range(ROUNDS):
        storm.wait_answers(20)
        lost = trio.kill_primary()
        storm.wait_answers(20)
        assert trio.primary != lost
        wait_led()
        trio.start(lost)
        trio.wait_whole()
    storm.wait_answers(20)
    storm.end()
