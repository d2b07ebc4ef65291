"""The commands of doc/cluster.md do what the page says."""

import os
import pwd

import pytest

from tidings_test.broker import ROOT
from tidings_test.documentation import Page, Reader
from tidings_test.frontends import Frontend, Nginx
from tidings_test.postgresql import PROGRAMS, USER
from tidings_test.sets import Set, change
from tidings_test.waiting import wait_for

PAGE = Page(ROOT / "doc/cluster.md")


@pytest.fixture
def reader(tmp_path, start_broker, run, start):
    reader = Reader(tmp_path, start_broker, run, start)
    if os.getuid() == 0:
        be_ordinary(reader, tmp_path)
    yield reader
    reader.interrupt("second")
    reader.end()


def be_ordinary(reader, tmp_path):
    """PostgreSQL does not run as root: its programs run as the user postgres, to whom
    the folder belongs."""
    user = pwd.getpwnam(USER)
    tmp_path.chmod(0o755)
    os.chown(reader.folder, user.pw_uid, user.pw_gid)
    programs = tmp_path / "programs"
    programs.mkdir()
    as_user = f"/usr/bin/setpriv --reuid {USER} --regid {user.pw_gid} --clear-groups"
    for name in ("initdb", "pg_basebackup", "pg_ctl"):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {as_user} {PROGRAMS / name} "$@"\n')
        program.chmod(0o755)
    reader.env["PATH"] = f"{programs}:{reader.env['PATH']}"


def test_the_commands_of_the_page_do_what_it_says(reader):
    reader.read(PAGE, has_broker=False)
    assert not (reader.folder / "a").exists()


def configuration(first, cluster):
    """The block of the page that begins with that line, with the addresses of members."""
    text = "\n".join(next(b for b in PAGE.blocks if b.lines[0] == first).lines)
    for member in cluster.members:
        text = text.replace(f"{member.name}.example.org:8787", f"127.0.0.1:{member.port}")
    return text + "\n"


class Haproxy(Frontend):
    """HAProxy before the members of a cluster, as the page configures it."""

    def configure(self, cluster):
        text = configuration("defaults", cluster)
        return text.replace("bind :80", f"bind 127.0.0.1:{self.port}")

    def command(self):
        return "/usr/sbin/haproxy", "-db", "-f", self.file


def test_haproxy_goes_by_what_each_broker_can_do(start_cluster, tmp_path):
    cluster = start_cluster("--trusted-proxies", "127.0.0.1", "--insecure-open")
    a, b, c = cluster.members
    haproxy = Haproxy(tmp_path / "haproxy", a, cluster)
    try:
        assert not [line for line in haproxy.process.err if "WARNING" in line]
        news = Set(haproxy, "news")
        assert [news.post().last for _ in range(9)] == list(range(1, 10))
        for member, backends in ((a, ("posts",)), (b, ("posts", "reads"))):
            member.cut_off() if member is a else member.kill()
            for backend in backends:
                line = f"Server {backend}/{member.name} is DOWN"
                haproxy.process.err.find(lambda said: line in said, line)
        assert [news.post().last for _ in range(9)] == list(range(10, 19))
        assert {news.get().status for _ in range(9)} == {200}
    finally:
        haproxy.end()
        b.disconnect()
        b.restart()
        a.reconnect()


class NginxOfCluster(Nginx):
    """nginx there, as the page configures it."""

    def configure(self, cluster):
        text = configuration("upstream brokers {", cluster)
        text = text.replace("listen 80", f"listen 127.0.0.1:{self.port}")
        before, _, _ = super().configure([]).partition("upstream")
        return f"{before}{text}}}\n"


# A post that has no key gets the 503 of its broker, for it may be there.
def test_nginx_repeats_only_what_may_be_repeated(start_cluster, tmp_path):
    cluster = start_cluster("--trusted-proxies", "127.0.0.1", "--insecure-open")
    a, b, c = cluster.members
    nginx = NginxOfCluster(tmp_path / "nginx", a, cluster)
    try:
        news = Set(nginx, "news")
        assert [news.post().last for _ in range(9)] == list(range(1, 10))
        a.cut_off()
        b.kill()
        wait_for("a broker without posts", lambda: a.get("/readyz").status == 503)
        one = [change("http://example.com/")]
        others = [news.send(one).status for _ in range(12)]
        assert set(others) == {200, 503}
        last = 9 + others.count(200)
        assert c.set("news").last() == last
        keyed = [news.send(one, idempotency_key=f"key-{i}") for i in range(9)]
        found = [news.receipt(answer).last for answer in keyed]
        assert found == list(range(last + 1, last + 10))
        assert {news.get().status for _ in range(9)} == {200}
    finally:
        nginx.end()
        b.disconnect()
        b.restart()
        a.reconnect()
