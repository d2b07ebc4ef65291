"""One broker of a cluster: how a cluster begins, who may belong to it, how a broker
leaves. Posts anywhere and faults of PostgreSQL: tests/cluster."""

import contextlib
import datetime
import errno
import functools
import hashlib
import io
import itertools
import re
import secrets
import socket
import sqlite3
import tarfile

import psycopg2
import pytest

from tidings_test import mqtt
from tidings_test.background import Background
from tidings_test.backups import Backups
from tidings_test.cluster import DISK
from tidings_test.faults import Faults
from tidings_test.http import ConnectionEnded, check_refused
from tidings_test.postgresql import Postgresql
from tidings_test.process import Process
from tidings_test.sets import Set, change, entries
from tidings_test.stream import EventSource
from tidings_test.waiting import wait_for

PUBLIC = "http://127.0.0.1:8787"
NAMES = itertools.count()
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def server():
    started = Postgresql(syncs=True)
    started.query("CREATE ROLE tidings LOGIN")  # no rights but to its databases
    started.query("CREATE ROLE reader LOGIN")  # see Cluster.start_reader
    yield started
    started.end()


class Cluster:
    """Brokers of a database of a test's own."""

    def __init__(self, server, start_broker, run, path):
        self.server, self.start_broker, self.run = server, start_broker, run
        self.path = path
        self.name = f"cluster{next(NAMES)}"
        server.query(f"CREATE DATABASE {self.name} OWNER tidings")
        self.address = f"host={server.directory} user=tidings dbname={self.name}"
        self.here = ("--cluster", self.address, *DISK)

    def options(self, name, *more):
        return (*self.here, "--public-url", PUBLIC, "--cluster-name", name, *more)

    def init(self, data, **how):
        where = ("--data", data, "--public-url", PUBLIC)
        return self.run("tidingsd", "cluster", "init", *where, *self.here, **how)

    def mend(self, data, *more, **how):
        where = ("--data", data, "--public-url", PUBLIC)
        return self.run("tidingsd", "cluster", "mend", *where, *self.here, *more, **how)

    def join(self, name, broker, token=None, more=(), **how):
        """Make the data directory of a broker of a backup of another one; `token`: of
        an administrator there."""
        data = self.path / name / "data"
        given = ("--from", broker.url, "--data", data, *more)
        if token:
            file = self.path / "admin-token"
            file.touch(mode=0o600)
            file.write_text(token)
            given += ("--token-file", file)
        return self.run("tidingsd", "cluster", "join", *given, *self.here, **how)

    def start(self, name, *more, **how):
        options = self.options(name, *more)
        return self.start_broker(*options, directory=self.path / name, **how)

    def start_reader(self, name, *more):
        """A broker that only reads, with the rights of doc/cluster.md."""
        self.query(
            "GRANT SELECT ON tidings_cluster, tidings_turn, tidings_records,"
            " tidings_streams, tidings_rows TO reader;"
            "GRANT SELECT, INSERT, UPDATE ON tidings_brokers TO reader"
        )
        address = self.address.replace("user=tidings", "user=reader")
        options = self.options(name, "--cluster-read-only", *more)
        given = ("--cluster", address, *options[2:])
        return self.start_broker(*given, directory=self.path / name)

    def refused(self, *options, data="other", status=2):
        """What a broker says that does not start."""
        where = ("--listen", "127.0.0.1:0", "--data", self.path / data)
        done = self.run("tidingsd", *where, *options, status=status)
        return "\n".join([*done.out, *done.err])

    def status(self, *more, status=0):
        asked = ("cluster", "status", "--cluster", self.address, *more)
        return self.run("tidingsd", *asked, status=status).out

    def leave(self, name, *more, status=0):
        asked = ("cluster", "leave", *self.here, "--cluster-name", name, *more)
        done = self.run("tidingsd", *asked, status=status)
        return "\n".join([*done.out, *done.err])

    def await_ends(self, names):
        """Wait until PostgreSQL has noticed that these brokers have ended."""
        look = (
            "SELECT count(*) = 0 FROM pg_stat_activity s JOIN tidings_brokers b"
            " ON s.application_name = 'tidingsd ' || b.instance"
            f" WHERE position(b.name IN '{names}') > 0"
        )
        wait_for(f"the end of sessions of {names}", lambda: self.query(look) == ["t"])

    def query(self, text):
        return self.server.query(text, self.name)

    def set_connections(self, are_allowed):
        """Whether brokers may connect; ends the connections that there are."""
        allow = "true" if are_allowed else "false"
        self.server.query(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS {allow}")
        self.server.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{self.name}'"
        )


@pytest.fixture
def cluster(server, start_broker, run, tmp_path):
    return Cluster(server, start_broker, run, tmp_path)


def last(one):
    """The last entry of a set, also of one that is not there yet."""
    answer = one.broker.get(one.path)
    return answer.json()["last"] if answer.status == 200 else 0


def wait_last(broker, name, seq):
    one = Set(broker, name)
    wait_for(f"entry {seq} at {broker}", lambda: last(one) == seq)
    return one


def epoch(broker, name):
    return broker.get(f"/sets/{name}").json()["epoch"]


def test_each_broker_takes_posts_and_follows_the_others(cluster):
    cluster.init(cluster.path / "a" / "data")
    brokers = [cluster.start(name) for name in "abc"]
    for n, broker in enumerate(brokers * 2, 1):
        receipt = Set(broker, "news").post(1)
        assert receipt.last == n
    for broker in brokers:
        wait_last(broker, "news", 6)
    assert len({epoch(broker, "news") for broker in brokers}) == 1
    for broker in brokers:
        broker.stop()
    for broker in brokers:
        broker.restart()
        assert last(Set(broker, "news")) == 6
    assert Set(brokers[1], "news").post(1).last == 7
    wait_last(brokers[2], "news", 7)


# A broker that has not read the streams of the hub yet has an empty hub.db.
# A list of OAI-PMH goes on at any broker: the places are times of the log.
def test_a_list_of_oai_pmh_goes_on_at_another_broker(cluster):
    cluster.init(cluster.path / "one" / "data")
    one, two = cluster.start("one"), cluster.start("two")
    Set(one, "news").post(250)
    wait_last(two, "news", 250)
    query, found = "metadataPrefix=oai_dc", []
    for broker in itertools.cycle((one, two)):
        path = f"/sets/news/oai?verb=ListIdentifiers&{query}"
        answer = wait_for("the list", lambda: not_yet(broker.get(path)))
        found += re.findall("<identifier>(.*)</identifier>", answer.text)
        token = re.search("<resumptionToken.*>(.+)</resumptionToken>", answer.text)
        if not token:
            break
        query = f"resumptionToken={token[1]}"
    assert found == [f"http://example.com/r/{n}" for n in range(1, 251)]


def not_yet(answer):
    """False: the broker has not yet what another one had."""
    assert answer.status in (200, 503), answer
    return answer.status == 200 and answer


def test_a_backup_right_after_a_start_is_whole(cluster, run, tmp_path):
    cluster.init(cluster.path / "a" / "data")
    cluster.start("a")
    other = cluster.start("b")
    backups = Backups(run, tmp_path / "backup")
    backups.make(other)
    other.stop()
    backups.restore(other)
    other.restart()
    assert Set(other, "news").post(1).last == 1


def test_a_single_broker_becomes_the_first_and_a_backup_joins(
    cluster, start_broker, run, tmp_path
):
    single = start_broker(directory=tmp_path / "a")
    Set(single, "news").post(5)
    before = epoch(single, "news")
    refused = cluster.init(single.data, status=1)
    assert "is in use by process" in "\n".join(refused.err)
    single.stop()
    text = cluster.refused(*cluster.options("a"), data="a/data", status=1)
    assert "has sets that are not of the cluster" in text

    cluster.init(single.data)
    cluster.init(single.data)  # again: nothing has happened yet
    assert "is a copy of a cluster" in cluster.refused(data="a/data", status=1)
    single.set_options(*cluster.options("a"))
    single.restart()
    assert epoch(single, "news") == before
    assert Set(single, "news").post(1).last == 6
    backups = Backups(run, tmp_path / "backup")
    backups.make(single)
    assert Set(single, "news").post(1).last == 7

    text = cluster.refused(*cluster.options("b"), data="empty", status=1)
    assert "tidingsd cluster join makes one there" in text
    run("tidingsd", "restore", backups.directory, "--data", tmp_path / "b" / "data")
    other = cluster.start("b")
    wait_last(other, "news", 7)
    assert epoch(other, "news") == before
    assert Set(other, "news").post(1).last == 8
    wait_last(single, "news", 8)
    single.stop()
    refused = cluster.init(single.data, status=1)
    assert "is a copy of a cluster already" in "\n".join(refused.err)


# A broker follows posts and the retirement of their lists at once. Its state of the set
# gets all resources nevertheless.
def test_lists_retired_elsewhere_are_folded_first(cluster):
    cluster.init(cluster.path / "a" / "data")
    options = ("--rotate-entries", 5, "--retain-lists", 1, "--remove-grace", 0)
    one, other = (cluster.start(name, *options) for name in "ab")
    other.stop()
    news = Set(one, "news")
    news.post(30)
    wait_for("retirement", lambda: news.get("changes?after=0").status == 410)
    other.restart()
    wait_last(other, "news", 30)
    wait_for("the fold", lambda: figure(other, "tidings_fold_lag_entries") == 0)
    oldest = Set(other, "news").list_file(1)
    wait_for("the purge", lambda: not oldest.exists())
    assert not other.has_said("the state of a set is incomplete")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--cluster", "host=x password=y"), "an address has no password"),
        (("--cluster", "postgresql://u:p@h/d"), "an address has no password"),
        (("--cluster", "nonsense"), "no address of PostgreSQL"),
        (("--cluster-name", "no name"), "--cluster-name"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_options_that_a_cluster_cannot_have_are_refused(cluster, options, reason):
    kept = [*DISK, "--public-url", PUBLIC]
    if options[0] != "--cluster":
        kept += ["--cluster", cluster.address]
    text = cluster.refused(*kept, *options)
    assert reason in text
    assert "password=y" not in text and "u:p" not in text


# What else each of them asks of PostgreSQL, and what it says to that.
FSYNC = ("fsync", "its fsync is off: it loses commits")
PAGES = ("full_page_writes", "its full_page_writes is off: a power failure may damage it")
COMMIT = ("synchronous_commit", "its synchronous_commit is off: it answers before its disk")
NO_STANDBY = "synchronous_standby_names is empty"


# This server has no standby. Servers with standbys: cluster/wrong.
@pytest.mark.parametrize(
    ("durable_by", "taken", "asked"),
    [
        ("standbys", NO_STANDBY, (FSYNC, PAGES, (COMMIT[0], NO_STANDBY))),
        ("provider", None, (FSYNC, COMMIT)),
        ("disk", None, (FSYNC, PAGES, COMMIT)),
    ],
)
def test_what_makes_commits_last_is_asked(cluster, server, durable_by, taken, asked):
    how = ("--cluster-durable-by", durable_by)
    cluster.here = ("--cluster", cluster.address, *how)
    data = cluster.path / "a" / "data"

    @contextlib.contextmanager
    def switched_off(setting):
        server.query(f"ALTER SYSTEM SET {setting} = off")
        server.query("SELECT pg_reload_conf()")
        look = f"SELECT setting FROM pg_settings WHERE name = '{setting}'"
        wait_for("the setting", lambda: server.query(look) == ["off"])
        yield
        server.query(f"ALTER SYSTEM RESET {setting}")
        server.query("SELECT pg_reload_conf()")
        wait_for("the setting", lambda: server.query(look) == ["on"])

    for setting, words in asked:
        with switched_off(setting):
            assert words in cluster.init(data, status=1).errors()
    if taken:
        assert taken in cluster.init(data, status=1).errors()
        return
    cluster.init(data)
    broker = cluster.start("a")
    assert Set(broker, "news").post(1).last == 1
    warns = "are lost with the disk of PostgreSQL"
    assert bool(broker.has_said(warns)) == (durable_by == "disk")
    for setting, words in asked:
        with switched_off(setting):
            cluster.set_connections(False)
            cluster.set_connections(True)

            def why(words=words):
                answer = Set(broker, "news").send([change("http://example.com/")])
                return answer.status == 503 and words in answer.json()["detail"]

            wait_for(words, why)
            said = cluster.status(*how, status=1)
            assert any("no broker trusts" in x and words in x for x in said)
    wait_ready(broker, 200)
    said = cluster.status(*how)
    assert "PostgreSQL: does not wait for a standby, 0 synchronous standbys" in said


def test_a_cluster_needs_a_public_url(cluster):
    assert "--cluster needs --public-url" in cluster.refused(*cluster.here)
    assert "needs --cluster" in cluster.refused("--cluster-read-only")
    assert "needs --cluster" in cluster.refused("--cluster-from", PUBLIC)


def test_a_cluster_needs_libpq(run, tmp_path):
    (tmp_path / "libpq.so.5").write_text("not installed")
    options = ("--cluster", "host=x", "--cluster-name", "a", "--public-url", PUBLIC)
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    done = run("tidingsd", *options, "--check", status=2, env=env)
    assert "libpq is not installed" in done.errors()
    assert run("tidingsd", "--version", env=env).out  # which needs none


def test_a_broker_that_does_not_belong_is_refused(cluster):
    text = cluster.refused(*cluster.options("a"))
    assert "this database has no cluster" in text
    asked = ("cluster", "status", "--cluster", cluster.address)
    assert "this database has no cluster" in cluster.run("tidingsd", *asked, status=1).errors()
    cluster.init(cluster.path / "a" / "data")
    cluster.start("a")
    text = cluster.refused(*cluster.options("a"), status=1)
    assert 'another broker of the cluster has the name \\"a\\"' in text
    options = (*cluster.here, "--cluster-name", "b", "--public-url", "http://127.0.0.2")
    text = cluster.refused(*options)
    assert f"the cluster has the public URL {PUBLIC}, and this broker" in text


# A name is free when its process has ended, however that was.
def test_a_name_is_free_again_after_a_kill(cluster):
    cluster.init(cluster.path / "a" / "data")
    broker = cluster.start("a")
    Set(broker, "news").post(1)
    broker.kill()
    broker.restart()
    assert Set(broker, "news").post(1).last == 2


def test_without_postgresql_a_broker_starts_and_serves_reads(cluster):
    cluster.init(cluster.path / "a" / "data")
    broker = cluster.start("a")
    Set(broker, "news").post(2)
    broker.stop()
    options = cluster.options("a")
    nowhere = "host=127.0.0.1 port=1 dbname=x user=x"
    broker.set_options("--cluster", nowhere, *options[2:])
    broker.restart()
    assert last(Set(broker, "news")) == 2
    assert Set(broker, "news").send(change("http://example.com/")).status == 503
    assert broker.wait_said("posts are refused")
    broker.stop()
    broker.set_options(*options)
    broker.restart()
    assert Set(broker, "news").post(1).last == 3


def built(broker, number):
    """Wait until a broker serves Resource List `number`, and return the answer."""

    def look():
        nonlocal answer
        answer = broker.get(f"/sets/news/resourcelist/{number:012}.xml")
        return answer.status == 200

    answer = None
    wait_for(f"list {number} at {broker}", look)
    return answer


ARCHIVE = "/sets/news/resourcelist-archive.xml"


# A list is ordered in the journal, and each broker builds it from its own state, even
# one that was stopped meanwhile, or has lost the list that it was building. Every second
# one is archived: a broker that was stopped builds these, too.
def test_each_broker_builds_the_same_resource_lists(cluster, run, tmp_path):
    cluster.init(cluster.path / "a" / "data")
    options = ("--rotate-entries", 5, "--resource-list-every", 0, "--remove-grace", 0)
    options += ("--resource-list-entries", 7, "--resource-list-keep", 2)
    one, two, late = (cluster.start(name, *options) for name in "abc")
    Set(one, "news").post(9)
    late.stop()
    for number, broker in enumerate((one, two, one), 1):
        then = Set(broker, "news").post(4).datetime
        answer = broker.post("/sets/news/resourcelist", b"", FORM)
        assert answer.status == 200
        assert answer.json()["generation"] == number
        Set(two, "news").post(3)
        bodies = {built(broker, number).body for broker in (one, two)}
        assert len(bodies) == 1
    late.restart()
    assert {built(late, 3).body} == bodies
    wait_last(late, "news", 30)
    assert late.get(ARCHIVE).body == one.get(ARCHIVE).body
    assert built(late, 2).body == built(one, 2).body
    assert late.get("/sets/news/resourcelist/000000000001.xml").status == 410
    # All of them know how the set was, and go on with the pages of each other.
    path, n = f"/sets/news/resources?as-of={then}", 0
    while path:
        pages = [broker.get(path).json() for broker in (one, two, late)]
        assert pages[0] == pages[1] == pages[2]
        n += len(pages[0]["resources"])
        path = pages[0].get("next", "").partition("//")[2].partition("/")[2]
        path = path and f"/{path}"
    assert n == 9

    backups = Backups(run, tmp_path / "backup")
    backups.make(late)
    run("tidingsd", "restore", backups.directory, "--data", tmp_path / "d" / "data")
    joined = cluster.start("d", *options)
    assert {built(joined, 3).body} == bodies
    assert built(joined, 2).body == built(one, 2).body
    joined.kill()
    answer = two.post("/sets/news/resourcelist", b"", FORM)
    assert answer.json()["generation"] == 4
    joined.restart()
    assert {built(broker, 4).body for broker in (one, two, late, joined)} == {
        built(one, 4).body
    }
    for broker in (one, two, late, joined):
        assert re.findall(r"resourcelist/0+(\d)", broker.get(ARCHIVE).text) == ["2", "4"]
        broker.stop()
        run("tidingsd", "check", "--data", broker.data)


def test_the_status_of_a_cluster(cluster):
    cluster.init(cluster.path / "a" / "data")
    assert cluster.status(*DISK, status=1)  # no broker
    one, two = cluster.start("a"), cluster.start("b")
    Set(one, "news").post(3)
    wait_last(two, "news", 3)
    end = int(cluster.query("SELECT max(n) FROM tidings_records")[0])
    runs = f"runs, record {end}, 0 bytes behind"
    wait_for(
        "both brokers in the status",
        lambda: sum(runs in x for x in cluster.status(*DISK, status=None))
        == 2,
    )
    seen = wait_for(
        "both brokers at the second one",
        lambda: (seen := two.get("/cluster").json()).get("last") == end and
        all(x["record"] == end for x in seen["brokers"]) and seen,
    )
    assert (seen["name"], seen["state"], seen["record"]) == ("b", "connected", end)
    assert [x["name"] for x in seen["brokers"]] == ["a", "b"]
    assert all(x["state"] == "runs" and x["behind"] == 0 for x in seen["brokers"])
    assert all(abs(x["clock"]) < 60 for x in seen["brokers"])
    said = cluster.status(*DISK)
    assert f"public URL: {PUBLIC}" in said
    assert "PostgreSQL: does not wait for a standby, 0 synchronous standbys" in said
    cluster.status(status=1)
    two.stop()
    wait_for(
        "a broker that is away",
        lambda: any(
            x.startswith("broker b: is away")
            for x in cluster.status(*DISK, status=1)
        ),
    )
    wait_for(
        "a broker that is away, at the other one",
        lambda: [x["state"] for x in one.get("/cluster").json()["brokers"]]
        == ["runs", "away"],
    )
    # Clocks of servers differ: no report is of the future.
    cluster.query("UPDATE tidings_brokers SET at = now() + interval '9 s' WHERE name = 'b'")
    assert any("seen 0.0 s ago" in x for x in cluster.status(*DISK, status=1))


# What this account may not see is no fault.
def test_the_status_for_an_account_with_few_rights(cluster):
    cluster.init(cluster.path / "a" / "data")
    cluster.start("a")
    cluster.start_reader("r").stop()
    cluster.leave("r")
    own = cluster.address
    wait_for("the report", lambda: any("broker a: runs" in x for x in cluster.status(
        *DISK, status=None)))
    assert any("owns 16 parts" in x for x in cluster.status(*DISK))
    cluster.address = own.replace("user=tidings", "user=reader")
    said = "\n".join(cluster.status(*DISK))
    assert "broker a: runs" in said and "owns 16 parts" not in said
    assert "not visible to this account" in said


# It names the session that has locked a table of the cluster.
def test_the_status_names_locks(cluster, run):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a")
    with contextlib.closing(
        psycopg2.connect(f"{cluster.address} application_name=maintenance")
    ) as other:
        cursor = other.cursor()
        for lock, table in (
            ("LOCK TABLE tidings_records IN SHARE MODE", "tidings_records"),
            ("SELECT FROM tidings_turn FOR UPDATE", "tidings_turn"),
        ):
            cursor.execute(lock)
            line = f"lock: session {other.info.backend_pid} of tidings (maintenance)"
            wait_for(
                "the lock",
                lambda: any(
                    line in x and f"has locked {table} since" in x
                    for x in cluster.status(*DISK, status=None)
                ),
            )
            cluster.status(*DISK, status=1)
            other.rollback()
        cursor.execute("SELECT FROM tidings_records")  # as a dump: in nobody's way
        wait_for("no fault", lambda: "lock:" not in "".join(
            cluster.status(*DISK, status=None)))
        wait_ready(one, 200)
        cluster.status(*DISK)


# A token that is made or revoked at one broker is so at all within two
# seconds, and a broker that is new has them from the beginning.
def test_tokens_are_those_of_all_brokers(cluster, run):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    news = Set(one, "news")
    news.post(1)
    wait_last(two, "news", 1)
    root = one.add_token("root", admin=True)
    reading = one.add_token("reading", subscribe=["*"])
    wait_for("the tokens at b", lambda: two.get("/sets/news").status == 401)
    stream = Set(two.holder(reading), "news").events("after=0")
    stream.until(1)
    reader = cluster.start_reader("r")
    assert reader.get("/sets/news").status == 401
    assert reader.holder(reading).get("/tokens/self").json()["name"] == "reading"
    said = reader.holder(root).delete("/tokens/reading")
    check_refused(said, 403, "only reads")

    admin = two.holder(root)
    assert admin.delete("/tokens/reading").status == 204
    stream.wait_end("denied")
    for broker in (one, reader):
        is_over = lambda at=broker: at.holder(reading).get("/tokens/self").status == 401
        wait_for(f"the end of the token at {broker}", is_over)
    names = [each["name"] for each in one.get("/tokens").json()["tokens"]]
    assert names == ["root"]

    one.stop()
    asked = ("token", "add", "late", "--admin", "--data", one.data)
    said = run("tidingsd", *asked, status=1).err
    assert "the tokens in" in said[0] and "are those of a cluster" in said[0]
    assert admin.post("/tokens", {"name": "late", "observe": True}).status == 201
    cluster.set_connections(False)
    check_refused(admin.delete("/tokens/late"), 503, "tokens cannot change now")
    names = [each["name"] for each in admin.get("/tokens").json()["tokens"]]
    assert names == ["root", "late"]
    cluster.set_connections(True)


# A ticket from one broker opens a stream at another, once, and ends with its
# token.
def test_a_ticket_of_one_broker_opens_a_stream_at_another(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    news = Set(one, "news")
    news.post(1)
    wait_last(two, "news", 1)
    one.add_token("root", admin=True)
    reading = one.add_token("reading", subscribe=["*"])
    reader = cluster.start_reader("r")
    wait_for("the tokens at b", lambda: two.get("/sets/news").status == 401)

    wait_last(reader.holder(reading), "news", 1)

    def ticket(broker=one):
        answer = broker.holder(reading).post("/tickets")
        return answer.json()["ticket"]

    def query(text):
        return f"after=0&ticket={text}"

    used = ticket()
    events = Set(two.holder(None), "news").events(query(used))
    events.until(1)
    path = f"/sets/news/changes?{query(used)}"
    check_refused(two.holder(None).get(path), 401)
    assert reader.holder(None).get(path).status == 200
    Set(reader.holder(None), "news").websocket(query(ticket(reader))).until(1)
    Set(one.holder(None), "news").websocket(query(ticket(two))).until(1)

    # Without PostgreSQL tickets go on; keys of an hour are at hand.
    unused, late = ticket(), ticket(two)
    cluster.set_connections(False)
    Set(two.holder(None), "news").events(query(unused)).until(1)
    cluster.set_connections(True)
    wait_for("the end", lambda: one.delete("/tokens/reading").status != 503)
    events.wait_end("denied")
    path = f"/sets/news/changes?{query(late)}"
    check_refused(two.holder(None).get(path), 401)


# Until the journal answers, a new broker does not know whether it is open: who has a
# token and who has none may try again. A broker that may not be open knows that.
@pytest.mark.parametrize(
    "options, without, later",
    [
        ((), 503, 200),
        (("--insecure-open",), 503, 200),
        (("--closed",), 401, 401),
    ],
    ids=["near", "open", "closed"],
)
def test_a_new_broker_without_postgresql_is_closed(cluster, options, without, later):
    cluster.init(cluster.path / "a" / "data")
    cluster.set_connections(False)
    new = cluster.start("a", *options)
    post = change("http://example.com/")
    for holder, status in ((new.holder(None), without), (new.holder("td_nonsense"), 503)):
        for answer in (holder.get("/sets"), Set(holder, "news").send(post)):
            assert answer.status == status
            assert bool(answer["Retry-After"]) == (status == 503)
    cluster.set_connections(True)
    wait_for("what the journal says", lambda: new.get("/sets").status == later)
    new.stop()
    cluster.set_connections(False)
    new.restart()
    assert new.get("/sets").status == later
    cluster.set_connections(True)


# Who may not see the tables is not told to make some.
def test_a_search_path_that_hides_the_cluster_is_named(cluster):
    cluster.init(cluster.path / "a" / "data")
    broker = cluster.start("a")
    Set(broker, "news").post(1)
    words = 'the tables of the cluster are in the schema "public", and the search_path'

    def lead(path):
        cluster.query(f"ALTER DATABASE {cluster.name} SET search_path = {path}")
        cluster.set_connections(False)
        cluster.set_connections(True)

    lead("elsewhere")
    for _ in range(2):
        wait_for("the reason", lambda: words in broker.get("/readyz").json()["reasons"][0])
        assert last(Set(broker, "news")) == 1
        broker.stop()
        broker.restart()
    refused = cluster.init(cluster.path / "b" / "data", status=1).err
    assert words in "\n".join(refused)
    assert words in cluster.leave("a", status=1)
    lead("DEFAULT")
    post = change("http://example.com/2")
    wait_for("a post", lambda: Set(broker, "news").send(post).status == 200)


# A new broker fetches the backup of another one, and follows.
def test_a_broker_joins_from_another(cluster, run):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a", "--rotate-entries", "10")
    news = Set(one, "news")
    news.post(25)
    news.wait_list_files(2)
    root = one.add_token("root", admin=True)
    done = cluster.join("b", one, root)
    assert re.match(r"fetched \d+ files of \d+ bytes, up to record \d+; ", done.out[0])
    two = cluster.start("b", "--rotate-entries", "10")
    news.post(3)
    wait_last(two.holder(root), "news", 28)
    for path in ("changes/000000000001.xml", "changes/000000000002.xml"):
        there = two.holder(root).get(f"{news.path}/{path}")
        assert (there.status, there.body) == (200, news.get(path).body)
    posted = Set(two.holder(root), "news")
    assert posted.post(1).last == 29
    assert one.get("/backup").status == 404
    one.stop()
    assert posted.post(1).last == 30


# Brokers whose certificates are of an authority of their own.
def test_a_broker_joins_over_https(cluster, certificate, run):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a", *certificate.options, tls=certificate.trust())
    Set(one, "news").post(2)
    root = one.add_token("root", admin=True)
    assert "certificate" in cluster.join("b", one, root, status=1).err[0]
    cluster.join("b", one, root, more=("--ca-file", certificate.ca))
    wait_last(cluster.start("b").holder(root), "news", 2)
    cluster.query("DELETE FROM tidings_records WHERE n = 0")
    joining = ("--cluster-from", one.url, "--ca-file", certificate.ca)
    tokens = peer_tokens(cluster.path, one, root)
    three = cluster.start("c", *joining, "--peer-tokens", tokens)
    three.wait_said("has joined the cluster anew")
    wait_last(three.holder(root), "news", 2)


# Nothing is left behind, and each cause has its sentence.
def test_a_broker_that_cannot_join_says_why(cluster, server, start_broker, run, tmp_path):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a")
    Set(one, "news").post(1)
    root = one.add_token("root", admin=True)
    reading = one.add_token("reading", subscribe=["*"])
    other = Cluster(server, start_broker, run, tmp_path / "other")
    other.init(other.path / "a" / "data")
    Set(other.start("a"), "news").post(1)
    alone = start_broker(directory=tmp_path / "alone")
    keeper = alone.add_token("root", admin=True)

    def refused(broker, token=None, of=cluster, **how):
        done = of.join("b", broker, token, status=how.pop("status", 1), **how)
        assert not (of.path / "b" / "data").exists()
        return done.err[0]

    assert "wants the token of an administrator" in refused(one)
    assert "needs the right admin" in refused(one, reading)
    assert "does not fit the journal: " in refused(one, root, of=other)
    assert "belongs to no cluster" in refused(alone, keeper)
    one.stop()
    assert f"{one.url}/backup: " in refused(one, root)
    cluster.set_connections(False)
    assert "PostgreSQL" in refused(alone) or "connect" in refused(alone)
    cluster.set_connections(True)
    full = cluster.path / "b" / "data"
    full.mkdir(parents=True)
    (full / "file").touch()
    done = cluster.join("b", alone, status=2)
    assert "is not empty: it has" in done.err[0]
    assert [each.name for each in full.iterdir()] == ["file"]


MANIFEST = "# tidings backup 1\n# set news 0123456789abcdef-1\n"


def tar(files):
    """An archive; a text is where a link leads."""
    to = io.BytesIO()
    with tarfile.open(fileobj=to, mode="w") as archive:
        for name, body in files:
            entry = tarfile.TarInfo(name)
            if isinstance(body, str):
                entry.type, entry.linkname, body = tarfile.SYMTYPE, body, b""
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return to.getvalue()


def manifest(**files):
    sums = [f"{hashlib.sha256(b).hexdigest()}  {name}\n" for name, b in files.items()]
    lines = "# tidings backup 1\n" + "".join(sums)
    digest = hashlib.sha256(lines.encode()).hexdigest()
    return "manifest", f"{lines}# end {digest}\n".encode()


def backup(**files):
    return tar([manifest(**files), *files.items()])


DATABASE = {"000001/tidings.db": b"x" * 5000}
FILES = [manifest(**DATABASE), *DATABASE.items()]
GOOD = tar(FILES)

FALSE_BACKUPS = {
    "no archive": (b"hello", "the backup is damaged"),
    "nothing": (b"", "the backup is damaged"),
    "no manifest": (tar(DATABASE.items()), "this is no backup"),
    "two manifests": (tar([FILES[0], *FILES]), "this is no backup"),
    "a link": (tar([FILES[0], ("000001/tidings.db", "/dev/zero")]), "this is no backup"),
    "another byte": (GOOD.replace(b"xxx", b"xyx", 1), "tidings.db has another digest"),
    "another name": (tar([FILES[0], ("000001/b.db", b"")]), "its manifest does not have"),
    "a file twice": (tar([*FILES, FILES[1]]), "its manifest does not have"),
    "a file less": (tar(FILES[:1]), "1 files of the backup are missing"),
    "an end of its own": (GOOD[:4000], "the backup is damaged: Truncated"),
    "another manifest": (GOOD.replace(b"ings.db", b"ings.DB", 1), "line 3 has another"),
    "a way out": (backup(**{"000001/../x": b"x"}), "line 2 names no file of a backup"),
    "a hidden way": (backup(**{"000001/a/../../x": b""}), "names no file of a backup"),
    "the mark": (backup(**{"000001/restoring": b""}), "cannot write"),
    "the lock": (backup(**{"000001/lock": b""}), "cannot write"),
    "no database": (GOOD, "tidings.db cannot be used"),
}


# A broker that lies, or breaks, costs nothing but the attempt.
def test_a_false_backup_is_refused(cluster, site):
    cluster.init(cluster.path / "a" / "data")
    for name, (body, words) in FALSE_BACKUPS.items():
        site.put("/backup", body, "application/x-tar")
        site.status("/backup", 202, times=1)
        done = cluster.join("b", site, status=1)
        assert re.search(words, done.err[0]), (name, done.err)
        assert not (cluster.path / "b" / "data").exists(), name

    site.put("/backup", GOOD, "application/x-tar")
    site.status("/backup", 202, times=3)
    site.cut("/backup", len(GOOD) - 1, times=None)
    assert "/backup: " in cluster.join("b", site, status=1).err[0]
    for status, words in (
        (404, "upgrade it"),
        (405, "upgrade it"),
        (409, "another backup is being made or sent"),
        (503, "try again later"),
        (500, "the log of that broker may say why"),
    ):
        site.status("/backup", status)
        assert words in cluster.join("b", site, status=1).err[0]


def test_brokers_leave(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    Set(one, "news").post(3)
    wait_last(two, "news", 3)
    before = epoch(one, "news")
    assert 'the broker "b" runs' in cluster.leave("b", status=1)
    assert 'no broker "c"' in cluster.leave("c", status=1)
    two.stop()
    cluster.await_ends("b")
    assert "stays a copy" in cluster.leave("b", "--data", two.data)
    assert "is a copy of a cluster" in cluster.refused(data="b/data", status=1)
    Set(one, "news").post(1)
    one.stop()
    cluster.await_ends("a")
    assert "give its data directory" in cluster.leave("a", status=1)
    text = cluster.leave("a", "--data", two.data, status=1)
    assert "does not end where its copy ends" in text
    assert "a single broker's again" in cluster.leave("a", "--data", one.data)
    one.set_options()
    one.restart()
    assert epoch(one, "news") == before
    assert Set(one, "news").post(1).last == 5
    assert cluster.query("SELECT to_regclass('tidings_turn') IS NULL") == ["t"]


# entries under the numbers of records that were given up are of another epoch, at
# all brokers.
def test_given_up_records_begin_new_epochs(cluster):
    data = cluster.path / "a" / "data"
    cluster.init(data)
    one, *others = (cluster.start(name) for name in "abc")
    Set(one, "news").post(2)
    for other in others:
        wait_last(other, "news", 2)
        other.stop()
    before = Set(one, "news").post(1).epoch
    one.stop()
    cluster.await_ends("abc")
    lose_records(cluster, 1)
    for other in others:
        other.restart()
    said = cluster.leave("a", "--data", data, status=1)
    assert "is of the set news" in said and "To give them up: --give-up 1" in said
    cluster.leave("a", "--data", data, "--give-up", 1)
    two, three = others
    wait_for("a post", lambda: Set(two, "news").send([change("http://example.com/new")]).status == 200)
    receipt = Set(two, "news").post(1)
    assert receipt.last == 4 and receipt.epoch != before
    wait_last(three, "news", 4)
    for broker in others:
        assert epoch(broker, "news") == receipt.epoch
        assert Set(broker, "news").state()["follows"] == f"{before}-2"
    assert Set(three, "news").post(1).epoch == receipt.epoch


# PostgreSQL lists the session of a broker for a moment after its end.
def test_a_broker_leaves_right_after_its_end(cluster, start, faults):
    cluster.init(cluster.path / "a" / "data")
    cluster.start("a")
    two = cluster.start("b")
    (instance,) = cluster.query("SELECT instance FROM tidings_brokers WHERE name = 'b'")
    session = psycopg2.connect(
        f"{cluster.address} application_name='tidingsd {instance}'"
    )
    two.stop()
    asked = (*cluster.here, "--cluster-name", "b", "--data", two.data)
    faults.stop_time()  # its patience does not end before this test has looked
    leaving = start("tidingsd", "cluster", "leave", *asked, env=faults.env)
    looks = set()

    def has_looked_twice():
        looks.update(
            cluster.query(
                "SELECT query_start FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                " AND query LIKE 'SELECT count(*) %OR name = %'"
            )
        )
        return len(looks) > 1 or not leaving.is_running

    wait_for("two looks at the session", has_looked_twice)
    session.close()
    assert leaving.wait() == 0, leaving.errors()


# Gives the tables the form of version 1.
MAKE_OLD = (
    "ALTER TABLE tidings_records DROP at_us;"
    "ALTER TABLE tidings_brokers DROP server, DROP keep_bytes, DROP clock_us,"
    " DROP chain, DROP state;"
    "ALTER TABLE tidings_leases DROP instance; DROP TABLE tidings_notes;"
    "ALTER TABLE tidings_orders DROP lease;"
    "ALTER TABLE tidings_rows DROP band, DROP is_deleted;"
    "CREATE INDEX ON tidings_rows(stream, n);"
    "CREATE INDEX ON tidings_rows(stream, n) WHERE value IS NULL;"
    "ALTER TABLE tidings_cluster DROP version;"
)


# Gives the tables the form of version 2.
MAKE_2 = (
    "ALTER TABLE tidings_brokers DROP clock_us, DROP chain, DROP state;"
    "ALTER TABLE tidings_cluster ALTER version SET DEFAULT 2;"
    "UPDATE tidings_cluster SET version = 2"
)


# One broker is upgraded after the other.
@pytest.mark.parametrize("make_old", [MAKE_OLD, MAKE_2], ids=["1", "2"])
def test_tables_of_an_earlier_version_get_new_columns(cluster, make_old):
    cluster.init(cluster.path / "a" / "data")
    cluster.query(make_old)
    reader = cluster.start_reader("r")
    reader.wait_said("are of an earlier version, and cannot be changed now")
    one = cluster.start("a")
    assert Set(one, "news").post(1).last == 1
    rows = "SELECT name FROM tidings_brokers WHERE n = 2 ORDER BY 1"
    wait_for("both copies", lambda: cluster.query(rows) == ["a", "r"])
    assert cluster.query("SELECT version FROM tidings_cluster") == ["4"]


# Version 1 has one lease and one stream for all bridges. A file that has
# followed it goes on, and no broker of that version gets the lease again.
def test_bridges_of_an_earlier_version_go_on(cluster, start_mosquitto, tmp_path):
    mosquitto = start_mosquitto()
    config = tmp_path / "bridges.ini"
    sections = []
    for name in ("u", "v-2"):
        sections += (f"[mqtt {name}]", f"prefix = {name}", "out = news", mqtt.QUICK)
    config.write_text(mqtt.bridge_config(mosquitto, *sections))
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a", "--config", config)
    news = Set(one, "news")
    readers = []
    for name in ("u", "v-2"):
        topic = f"{name}/news/notifications"
        readers.append(mqtt.Reader(mosquitto.hear(topic), topic))
    wait_for("all leases", lambda: one.metrics()["tidings_cluster_leases"] == 2 + 16)
    news.post(2)
    for reader in readers:
        reader.until(2)
    one.stop()
    (n,) = cluster.query("SELECT max(n) FROM tidings_rows WHERE stream LIKE 'bridges/%'")
    cluster.query(
        MAKE_OLD + "DELETE FROM tidings_streams WHERE name LIKE 'bridges/%';"
        "DELETE FROM tidings_leases WHERE name ~ '^(bridges|hub)';"
        "UPDATE tidings_rows SET stream = 'bridges' WHERE stream LIKE 'bridges/%';"
        "INSERT INTO tidings_leases(name, broker, term, until)"
        " VALUES('bridges', 'a', 7, now() + interval '1 hour'),"
        " ('hub', 'a', 3, now() + interval '1 hour');"
        f"INSERT INTO tidings_streams(name, id, n) VALUES('bridges', 5, {n})"
    )
    with contextlib.closing(sqlite3.connect(one.data / "mqtt.db")) as db:
        db.executescript(
            f"DROP TABLE journal_parts; UPDATE journal_place SET n = {n}, stream = 5"
        )
    one.restart()
    news.post(2)
    for reader in readers:
        reader.until(4)
        assert reader.repeats == 0
    rows = "SELECT DISTINCT stream FROM tidings_rows WHERE stream LIKE 'bridges%' ORDER BY 1"
    assert cluster.query(rows) == ["bridges/u", "bridges/v-2"]
    ended = "SELECT term, until FROM tidings_leases WHERE broker = '' ORDER BY name"
    assert cluster.query(ended) == ["8|infinity", "4|infinity"]
    owns = ", owns bridges/u, bridges/v-2, 16 parts of the hub, with hub/0"
    status = cluster.status(*DISK)
    assert any(line.endswith(owns) for line in status)


# Numbers and digests show that the journal has lost records.
def test_a_copy_that_is_ahead_of_the_journal_takes_no_posts(cluster):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a")
    Set(one, "news").post(1)
    Set(one, "news").post(1)
    one.stop()
    cluster.query(
        "DELETE FROM tidings_records WHERE n = (SELECT max(n) FROM tidings_records)"
    )
    one.restart()
    assert last(Set(one, "news")) == 2
    assert Set(one, "news").send(change("http://example.com/")).status == 503
    assert "the journal ends before record" in one.wait_said("posts are refused")


# Tables of an earlier version have their time in tidings_turn.
def test_a_broker_brings_older_tables_up_to_date(cluster):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a")
    Set(one, "news").post(1)
    one.stop()
    cluster.query(
        MAKE_OLD + "UPDATE tidings_turn SET at_us ="
        " extract(epoch FROM timestamptz '2100-01-01 00:00:00Z')::bigint * 1000000"
    )
    with contextlib.closing(cluster.server._connect(cluster.name)) as other:
        other.cursor().execute("SELECT n FROM tidings_records")  # its lock stays
        one.restart()
        assert Set(one, "news").send(change("http://example.com/")).status == 503
        words = "the tables of the cluster are of an earlier version"
        wait_for(
            "the reason", lambda: words in one.get("/readyz").json()["reasons"][0]
        )
    wait_for("a post", lambda: Set(one, "news").send(change("http://example.com/")).status == 200)
    assert Set(one, "news").post(1).datetime.startswith("2100-01-01T00:00:")
    two = cluster.start("b")
    wait_last(two, "news", 3)


# the copy with the most records has all that was acknowledged, or not: who does not say
# that it has gets new epochs.
@pytest.mark.parametrize("insists", [("--same-log",), ()])
def test_a_lost_journal_begins_again_from_a_copy(cluster, server, insists):
    cluster.init(cluster.path / "a" / "data")
    one, two, three = (cluster.start(name) for name in "abc")
    Set(one, "news").post(1)
    for broker in (two, three):
        wait_last(broker, "news", 1)
    three.stop()
    Set(two, "news").post(1)
    wait_last(one, "news", 2)
    before = epoch(one, "news")
    one.stop(), two.stop()
    cluster.await_ends("abc")
    (end,) = cluster.mend(three.data).out
    assert end.startswith("nothing is missing: the journal has all records of")
    server.query(f"DROP DATABASE {cluster.name}")
    server.query(f"CREATE DATABASE {cluster.name} OWNER tidings")
    (end,) = cluster.mend(one.data, *insists).out
    assert end.startswith("the journal begins behind record ")
    assert ("begin new epochs there" in end) == (not insists)
    for broker in (one, two, three):
        broker.restart()
    assert Set(two, "news").post(1).last == 3
    wait_last(one, "news", 3)
    assert epoch(one, "news") == epoch(two, "news")
    follows = Set(one, "news").state().get("follows")
    assert follows == (None if insists else f"{before}-2")
    assert (epoch(one, "news") == before) == bool(insists)
    assert last(Set(three, "news")) == 1
    assert "with tidingsd cluster join" in three.wait_said("posts are refused")


def lose_records(cluster, n):
    """What a standby does that is promoted without the last records."""
    cluster.query(
        f"DELETE FROM tidings_records WHERE n > (SELECT max(n) - {n} FROM tidings_records)"
    )


# The missing records come back from a copy, and no broker needs a backup.
def test_a_journal_gets_its_lost_records_back(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two, three = (cluster.start(name) for name in "abc")
    Set(one, "news").post(1)
    for broker in (two, three):
        wait_last(broker, "news", 1)
    three.stop()
    for broker in (one, two, one):
        Set(broker, "news").post(2)
    before = epoch(one, "news")
    wait_last(two, "news", 7)
    two.kill()  # what it keeps needs no orderly end
    two.restart()
    two.stop()
    lose_records(cluster, 3)
    refused = cluster.mend(two.data, status=1)
    assert 'the broker "a" runs' in "\n".join(refused.err)
    one.stop()
    cluster.await_ends("abc")
    (two.data / "records.1").rename(two.data / "away")
    refused = cluster.mend(two.data, status=1)
    assert "begin the journal again in an empty database" in "\n".join(refused.err)
    (two.data / "away").rename(two.data / "records.1")
    (end,) = cluster.mend(two.data).out
    assert end.startswith("the journal has 3 records back, and ends with record ")
    for broker in (three, two, one):
        broker.restart()
        wait_last(broker, "news", 7)
        assert epoch(broker, "news") == before
    assert Set(three, "news").post(1).last == 8
    wait_last(one, "news", 8)


# It counts from 1 again, and the broker keeps records with other numbers no more.
def test_a_second_cluster_gets_lost_records_back(cluster):
    data = cluster.path / "a" / "data"
    cluster.init(data)
    one = cluster.start("a")
    Set(one, "news").post(1)
    one.stop()
    cluster.await_ends("a")
    cluster.leave("a", "--data", data)
    cluster.init(data)
    one.restart()
    for _ in range(3):
        Set(one, "news").post(1)
    one.stop()
    cluster.await_ends("a")
    lose_records(cluster, 2)
    (end,) = cluster.mend(data).out
    assert end.startswith("the journal has 2 records back")


# Two histories: nobody can tell which one is right.
def test_records_of_another_history_are_not_given_back(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    Set(one, "news").post(1)
    wait_last(two, "news", 1)
    two.stop()
    Set(one, "news").post(1)
    Set(one, "news").post(1)
    one.stop()
    lose_records(cluster, 2)
    cluster.query("DELETE FROM tidings_brokers WHERE name = 'a'")  # it would be asked
    two.restart()
    Set(two, "news").post(1)
    two.stop()
    cluster.await_ends("ab")
    refused = cluster.mend(one.data, status=1)
    assert "do not lead from record" in "\n".join(refused.err)


def noise():
    """A change of which a record has 2,000 bytes at least, for nothing deflates it."""
    filling = {"ns": "urn:example", "name": "filling", "value": secrets.token_hex(2000)}
    return change("http://example.com/noise", attributes=[filling])


# A broker that lacks what the journal has forgotten says what to do.
def test_the_journal_forgets_beyond_its_bound(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = (cluster.start(name, "--cluster-keep", "1M") for name in "ab")
    news = Set(one, "news")
    news.post(1)
    wait_last(two, "news", 1)
    two.stop()
    forget(cluster, one)
    two.restart()
    assert last(Set(two, "news")) == 1
    assert "with tidingsd cluster join" in two.wait_said("posts are refused")
    wait_for(
        "the status",
        lambda: "b: needs a backup" in "\n".join(cluster.status(*DISK, status=1)),
    )


def forget(cluster, one):
    """Post until the journal has forgotten its first records."""
    news = Set(one, "news")
    for _ in range(12):
        news.receipt(news.send([noise() for _ in range(100)]))
    look = "SELECT min(n) > 5 AND sum(length(record)) < 1500000 FROM tidings_records"
    wait_for("a journal that has forgotten", lambda: cluster.query(look) == ["t"])
    return news


# A session of such a pooler does not keep the settings of the broker, and
# gives it no notifications.
def test_a_pooler_of_transactions_is_noticed(cluster, server):
    cluster.init(cluster.path / "a" / "data")
    here = server.directory / "pooler"
    here.mkdir()
    here.chmod(0o777)
    settings = here / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n{cluster.name} = host={server.directory} user=tidings\n"
        f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {here}\nlisten_port = 6432\n"
        "auth_type = any\npool_mode = transaction\n"
    )
    pooler = Process(*server.as_user, "/usr/sbin/pgbouncer", settings)
    pooler.err.find(lambda line: "process up" in line, "line that it is up")
    address = f"host={here} port=6432 dbname={cluster.name} user=tidings"
    cluster.here = ("--cluster", address, *DISK)
    one = cluster.start("a")
    wait_for("the reason", lambda: "a pooler (PgBouncer)" in one.get("/readyz").text)
    assert one.get("/readyz").status == 503
    one.stop()
    pooler.signal(2)
    pooler.wait()


# Brokers may have different bounds: none loses what it was promised.
def test_the_largest_bound_counts(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a", "--cluster-keep", "1M"), cluster.start("b")
    for _ in range(12):
        Set(one, "news").send([noise() for _ in range(100)])
    trims = set()  # a broker trims with each report
    look = "SELECT at FROM tidings_brokers WHERE name = 'a'"
    wait_for("trims", lambda: trims.update(cluster.query(look)) or len(trims) > 2)
    assert cluster.query("SELECT min(n) FROM tidings_records") == ["0"]
    said = "\n".join(cluster.status(*DISK))
    assert "keeps 4294967296, the largest --cluster-keep: those of brokers differ" in said
    (warning,) = one.get("/cluster").json()["warnings"]
    assert "--cluster-keep of brokers differs" in warning and "4294967296" in warning
    two.stop()
    cluster.await_ends("b")
    cluster.leave("b")
    forget(cluster, one)
    assert "keeps 1048576\n" in "\n".join(cluster.status(*DISK))


def peer_tokens(path, broker, token):
    """A file of --peer-tokens for the backup of that broker."""
    lines = path / "peer-tokens"
    for file, text in ((path / "token", token), (lines, "")):
        file.touch(mode=0o600)
        file.write_text(text)
    lines.write_text(f"{broker.url}/backup {path / 'token'}\n")
    return lines


# Beyond --cluster-keep the broker joins anew by itself and says so, and what
# it replaces stays.
def test_a_broker_that_lacks_records_joins_anew(cluster, run):
    cluster.init(cluster.path / "a" / "data")
    one, two = (cluster.start(name, "--cluster-keep", "1M") for name in "ab")
    Set(one, "news").post(1)
    wait_last(two, "news", 1)
    root = one.add_token("root", admin=True)
    wait_for("the tokens at b", lambda: two.get("/sets/news").status == 401)
    two.stop()
    (two.data / "of-the-operator").touch()
    news = forget(cluster, one)

    tokens = peer_tokens(cluster.path, one, root)
    keep = ("--cluster-keep", "1M")
    joining = cluster.options("b", "--cluster-from", one.url, *keep)
    two.set_options(*joining)
    two.restart()  # without a token it starts as ever
    assert "wants the token" in two.wait_said("cannot join anew")
    admin = two.holder(root)
    assert last(Set(admin, "news")) == 1
    two.stop()
    two.set_options(*joining, "--peer-tokens", tokens)
    two.restart()
    said = two.wait_said("has joined the cluster anew")
    assert f"from={one.url}" in said and "former=replaced" in said
    admin = two.holder(root)
    assert last(Set(admin, "news")) == last(news) == 1201
    assert Set(admin, "news").post(1).last == 1202
    assert (two.data / "of-the-operator").exists()
    assert not (two.data / "joining").exists()
    former = two.data / "replaced"
    run("tidingsd", "check", "--data", former, "--deep")
    names = {each.name for each in former.iterdir()}
    assert {"tidings.db", "tokens.db", "public-url"} <= names

    # Its former files are in the way of the next time.
    two.stop()
    forget(cluster, one)
    two.restart()
    assert "delete them first" in two.wait_said("cannot join anew")
    two.stop()
    run("rm", "-r", former)
    two.restart()
    two.wait_said("has joined the cluster anew")
    wait_last(two.holder(root), "news", 2402)

    # With an empty directory, and with a journal that has all records.
    three = cluster.start("c", "--cluster-from", one.url, "--peer-tokens", tokens)
    assert "former=none" in three.wait_said("has joined the cluster anew")
    assert not (three.data / "replaced").exists()
    assert last(Set(three.holder(root), "news")) == 2402
    three.stop()
    news.post(1)
    three.restart()
    wait_last(three.holder(root), "news", 2403)
    assert not (three.data / "replaced").exists()


def wait_again(broker):
    """Wait until it serves for the second time."""
    wait_for(
        f"{broker} to be ready again",
        lambda: sum('msg="ready"' in line for line in broker.process.err) == 2,
    )


# A running broker joins anew, too, once. Its former files stay.
@pytest.mark.parametrize("harm", ["forgotten", "another history"])
def test_a_running_broker_joins_anew(cluster, run, harm):
    cluster.init(cluster.path / "a" / "data")
    keep = ("--cluster-keep", "1M")
    one = cluster.start("a", *keep)
    root = one.add_token("root", admin=True)
    tokens = peer_tokens(cluster.path, one, root)
    joining = ("--cluster-from", one.url, "--peer-tokens", tokens)
    two = cluster.start("b", *keep, *joining)
    first, second = one.holder(root), two.holder(root)
    Set(first, "news").post(1)
    wait_last(second, "news", 1)
    if harm == "forgotten":
        two.process.halt()
        forget(cluster, first)
    else:
        one.stop()  # the journal loses the records of `two`, and gets others
        (end,) = cluster.query("SELECT max(n) FROM tidings_records")
        Set(second, "news").post(1)
        wait_last(second, "news", 2)
        two.process.halt()
        cluster.query(f"DELETE FROM tidings_records WHERE n > {end}")
        cluster.query("DELETE FROM tidings_brokers WHERE name = 'b'")
        cluster.query("UPDATE tidings_leases SET until = '-infinity'")
        one.restart()
        for _ in range(3):
            Set(first, "news").post(1)
    two.process.go_on()
    said = two.wait_said("has joined the cluster anew")
    assert f"from={one.url}" in said and "former=replaced" in said
    wait_again(two)
    wait_last(second, "news", last(Set(first, "news")))
    assert Set(second, "news").post(1).last == last(Set(second, "news"))
    assert figure(second, "tidings_cluster_joins_total") == 1
    assert not two.has_said("forbidden system call")
    run("tidingsd", "check", "--data", two.data / "replaced", "--deep")


# Without a backup it serves what it has, as after such a start, and tries no more.
def test_a_running_broker_that_cannot_join_goes_on(cluster, site):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b", "--cluster-from", site.url)
    Set(one, "news").post(1)
    wait_last(two, "news", 1)
    cluster.query("UPDATE tidings_records SET chain = sha256('another')")
    two.wait_said("cannot join anew")
    wait_again(two)
    wait_for(
        "a broker that is not ready",
        lambda: "another history" in two.get("/readyz?for=reads").text,
    )
    assert last(Set(two, "news")) == 1
    assert not (two.data / "replaced").exists()
    two.stop()
    assert sum("cannot join anew" in line for line in two.process.err) == 1


# A right may have been revoked where this broker does not hear of it.
def test_private_sets_wait_for_news_of_the_cluster(cluster):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a", "--cluster-private-stale", "3")
    admin = one.holder(one.add_token("root", admin=True))
    for name, is_private in (("open", False), ("secret", True)):
        admin.put(f"/sets/{name}", {"private": is_private})
        Set(admin, name).post(1)
    paths = ("changes?after=0", "", "capabilitylist.xml", "changelist.xml")
    private = [f"/sets/secret/{path}".rstrip("/") for path in paths]
    public = [path.replace("secret", "open") for path in private]
    for path in public + private:
        assert admin.get(path).status == 200, path
    cluster.set_connections(False)
    for path in (*private, "/sets/secret/stream", "/stream?set=open&set=secret"):
        refused = wait_for(
            f"{path} to be refused",
            lambda: (answer := admin.get(path)).status == 503 and answer,
        )
        assert "a right to a private set may have been revoked" in refused.text
        assert refused["Retry-After"]
    for path in public:
        assert admin.get(path).status == 200, path
    assert one.holder(None).get("/sets/secret").status == 401  # is there one?
    unknown = one.holder("tds_" + 43 * "a").get(public[0])  # of another broker?
    assert (unknown.status, "cut off" in unknown.text) == (503, True)
    assert unknown["Retry-After"]
    cluster.set_connections(True)
    for path in private:
        wait_for(f"{path} again", lambda: admin.get(path).status == 200)
    assert one.holder("tds_" + 43 * "a").get(public[0]).status == 401


# The service manager waits meanwhile, and may stop the broker.
def test_a_broker_that_fetches_can_be_stopped(cluster, site, run):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b", "--cluster-from", site.url)
    Set(one, "news").post(1)
    two.stop()
    run("rm", "-r", two.data)
    cluster.query("DELETE FROM tidings_records WHERE n = 0")
    site.status("/backup", 202)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(cluster.path / "notify"))
        two.env = {**(two.env or {}), "NOTIFY_SOCKET": str(cluster.path / "notify")}
        two.process = two.start_process()
        site.asked("/backup").wait(3)
        assert b"EXTEND_TIMEOUT_USEC=60000000\nSTATUS=fetching" in manager.recv(999)
        two.terminate()
        assert two.wait() == 0
    assert not (two.data / "joining").exists()


# The other broker must have the history of the journal.
def test_a_copy_with_another_history_stays_without_a_better_one(cluster, site):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b", "--cluster-from", site.url)
    Set(one, "news").post(1)
    wait_last(two, "news", 1)
    two.stop()
    cluster.query("UPDATE tidings_records SET chain = sha256('another')")
    two.restart()
    two.wait_said("cannot join anew")
    two.wait_said("posts are refused")
    assert last(Set(two, "news")) == 1
    assert not (two.data / "replaced").exists()


# what it gives up may be at readers. All sets begin new epochs, on each broker.
def test_a_copy_with_another_history_that_is_given_up_begins_new_epochs(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    root = two.token = one.token = one.add_token("root", admin=True)
    Set(one, "news").post(1)
    wait_last(two, "news", 1)
    two.stop()
    Set(one, "news").post(2)
    one.stop()
    lose_records(cluster, 1)
    cluster.query("DELETE FROM tidings_brokers WHERE name = 'a'")  # as five seconds would
    two.restart()
    Set(two, "news").post(1)
    before = epoch(two, "news")
    tokens = peer_tokens(cluster.path, two, root)
    one.set_options(*cluster.options("a", "--cluster-from", two.url, "--peer-tokens", tokens))
    one.restart()
    one.wait_said("has joined the cluster anew")
    new = change("http://example.com/new")
    wait_for("a turn of the log", lambda: Set(two, "news").send(new).status == 200)
    wait_last(one, "news", 3)
    for broker in (one, two):
        assert Set(broker, "news").state()["follows"] == f"{before}-2"
        assert epoch(broker, "news") == epoch(one, "news") != before


# Whoever gives records up leaves the note while the others post: their very next record
# begins the epochs, whatever they knew of the journal.
def test_no_record_goes_between_a_note_and_its_epochs(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    entries = 0
    for broker in one, one, two, one:
        before = epoch(one, "news") if entries else None
        Set(broker, "news").post(2)  # it may presume the next turn
        cluster.query("INSERT INTO tidings_notes VALUES('epochs', 1, '')")
        receipt = Set(broker, "news").post(1)
        entries += 3
        assert receipt.last == entries
        assert receipt.epoch != before
        wait_last(one, "news", entries)
        assert Set(one, "news").state()["follows"].endswith(f"-{entries - 1}")
        assert Set(broker, "news").post(1).epoch == receipt.epoch
        entries += 1
        wait_last(one, "news", entries)
    assert cluster.query("SELECT count(*) FROM tidings_notes WHERE stream = 'epochs'") == ["0"]


# A kill between any two moves of files: the next start goes on.
def test_a_broker_that_died_while_it_joined_goes_on(cluster, run):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    root = two.token = one.add_token("root", admin=True)
    Set(one, "news").post(1)
    wait_last(two, "news", 1)
    two.stop()
    Set(one, "news").post(5)
    cluster.join("c", one, root)
    new, old, data = (cluster.path / each for each in ("c/data", "saved", "b/data"))
    run("cp", "-r", data, old)
    moved = sorted(each.name for each in data.iterdir() if each.name != "lock")
    brought = sorted(each.name for each in new.iterdir() if each.name != "lock")
    two.set_options(*cluster.options("b", "--cluster-from", one.url))
    for n in range(len(moved) + len(brought) + 1):
        run("rm", "-rf", data)
        run("cp", "-r", old, data)
        run("cp", "-r", new, data / "joining")
        (data / "restoring").touch()
        (data / "replaced.new").mkdir()
        for name in moved[:n]:
            (data / name).rename(data / "replaced.new" / name)
        if n >= len(moved):
            (data / "replaced.new").rename(data / "replaced")
        for name in brought[: max(0, n - len(moved))]:
            (data / "joining" / name).rename(data / name)
        two.restart()
        two.wait_said("has joined the cluster anew")
        assert last(Set(two, "news")) == 6, n
        two.stop()
        assert not {"joining", "restoring"} & {each.name for each in data.iterdir()}
        there = {each.name for each in (data / "replaced").iterdir()}
        assert there == set(moved), n


def wait_ready(broker, status):
    def look():
        answer = broker.get("/readyz")
        return answer.status == status and answer

    return wait_for(f"/readyz with {status}", look)


def figure(broker, name):
    lines = broker.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def as_of(answer):
    return answer["Tidings-As-Of"]


# A broker that is cut off refuses posts and serves reads, and says so.
def test_a_broker_that_is_cut_off_says_so(cluster):
    cluster.init(cluster.path / "a" / "data")
    begun = datetime.datetime.now(datetime.timezone.utc).isoformat()
    broker = cluster.start("a")
    news = Set(broker, "news")
    receipt = news.post(2)
    wait_ready(broker, 200)
    assert as_of(broker.get(news.path)) is None
    assert figure(broker, "tidings_cluster_cut_off") == 0
    assert figure(broker, "tidings_cluster_place") > 0

    cluster.set_connections(False)
    refused = news.send(change("http://example.com/"))
    check_refused(refused, 503, "PostgreSQL")
    assert refused["Retry-After"] == "1"
    refused = broker.post("/sets/news/resourcelist", b"", FORM)
    check_refused(refused, 503, "PostgreSQL")
    reasons = wait_ready(broker, 503).json()["reasons"]
    assert "cut off from its cluster: PostgreSQL" in reasons[0]
    for_reads = broker.get("/readyz?for=reads")
    assert (for_reads.status, for_reads.text[:15]) == (200, "ready\nwarning: ")
    paths = ("changelist.xml", f"changes?after={receipt.position}", "changes/latest.xml")
    answers = [broker.get(f"{news.path}/{path}") for path in paths]
    assert {answer.status for answer in answers} == {200}
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    # The broker looked when it became ready, and perhaps not since the post.
    assert all(begun < as_of(answer) < now for answer in answers)
    assert as_of(EventSource(broker, f"{news.path}/stream").answer) > begun
    assert figure(broker, "tidings_cluster_cut_off") == 1
    assert figure(broker, "tidings_cluster_behind_seconds") > 0

    cluster.set_connections(True)
    wait_ready(broker, 200)
    assert as_of(broker.get(news.path)) is None
    entry = change("http://example.com/")
    wait_for("a turn of the log", lambda: news.send(entry).status == 200)
    answer = broker.post("/sets/news/resourcelist", b"", FORM)
    assert (answer.status, answer.json()["generation"]) == (200, 1)


# A position of one broker holds at all, at once.
def test_a_position_of_one_broker_holds_at_all(cluster):
    cluster.init(cluster.path / "a" / "data")
    brokers = [cluster.start(name) for name in "abc"]
    for n in range(30):
        position = Set(brokers[n % 3], "news").post(1).position
        answer = brokers[(n + 1) % 3].get(f"/sets/news/changes?after={position}")
        assert (answer.status, answer.json()["changes"]) == (200, [])
    elsewhere = brokers[0].get("/sets/news/changes?after=0000000000000000-3")
    check_refused(elsewhere, 410, "belongs to another log")
    check_refused(brokers[0].get("/sets/news/changes?after=99"), 410, "ahead of the log")

    cluster.set_connections(False)
    wait_ready(brokers[0], 503)
    assert brokers[0].get(f"/sets/news/changes?after={position}").status == 200
    unknown = brokers[0].get("/sets/news/changes?after=99")
    check_refused(unknown, 503, "waits for its cluster")
    assert unknown["Retry-After"] == "1"


READ_ONLY = "--cluster-read-only"


# A copy for many subscribers, which adds nothing to the cluster.
def test_a_reader_follows_and_serves_reads(cluster):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a")
    news = Set(one, "news")
    news.post(3)
    # Limits of its own close and retire no list.
    reader = cluster.start_reader("r", "--rotate-age", 1, "--retain-lists", 1)
    wait_last(reader, "news", 3)
    stream = Set(reader, "news").events("after=0")
    for _ in range(3):
        position = news.post(1).position
        assert reader.get(f"/sets/news/changes?after={position}").status == 200
        news.rotate()
    stream.until(6)
    assert epoch(reader, "news") == epoch(one, "news")
    wait_ready(reader, 503)
    assert reader.get("/readyz?for=reads").text == "ready\n"
    assert figure(reader, "tidings_cluster_cut_off") == 0
    assert as_of(reader.get("/sets/news")) is None
    said = [line for line in cluster.status(*DISK) if line.startswith("broker ")]
    assert [line.endswith(", reads only") for line in said] == [False, True]
    seen = reader.get("/cluster").json()["brokers"]  # its account reads the rows, too
    assert [(x["name"], x["reads_only"]) for x in seen] == [("a", False), ("r", True)]
    Set(reader, "news").wait_list_files(3)
    (seen,) = cluster.query("SELECT at FROM tidings_brokers WHERE name = 'r'")
    wait_for(
        "more looks of the reader",
        lambda: cluster.query(
            f"SELECT at > '{seen}'::timestamptz + interval '3 s'"
            " FROM tidings_brokers WHERE name = 'r'"
        )
        == ["t"],
    )
    for table, brokers in (("records", ["", "a"]), ("leases", ["", "a"])):
        look = f"SELECT DISTINCT broker FROM tidings_{table} ORDER BY 1"
        assert cluster.query(look) == brokers
    assert not reader.has_said("level=warning part=archive")

    cluster.set_connections(False)
    wait_for("a reader that is cut off", lambda: as_of(reader.get("/sets/news")))
    assert figure(reader, "tidings_cluster_cut_off") == 1
    assert "warning: this broker is cut off" in reader.get("/readyz?for=reads").text
    reasons = reader.get("/readyz").json()["reasons"]
    assert READ_ONLY in reasons[0] and "cut off" in reasons[1]


# More than 32 KiB: they go into a segment (SEGMENT_COMMIT_BYTES).
LARGE = {"n": 100, "size": 400}


def send_large(one, number, **how):
    """Send post `number` of a hundred entries; with the same key each time."""
    body = entries(first=100 * number, **LARGE)
    return one.send(body, idempotency_key=f"post-{number}", **how)


def locs(broker):
    """Of all entries of the set, whose list is open."""
    text = broker.get("/sets/news/changelist.xml").text
    return re.findall(r"<loc>([^<]+/r/[0-9]+)</loc>", text)


def expected(*numbers):
    """The locs of these posts."""
    return [
        entry["loc"]
        for number in numbers
        for entry in entries(first=100 * number, **LARGE)
    ]


class Writer:
    """A broker that writes its segment while PostgreSQL keeps the record, and another
    one."""

    def __init__(self, cluster, faults):
        cluster.init(cluster.path / "a" / "data")
        self.cluster, self.faults = cluster, faults
        self.broker = cluster.start("a", env=faults.env)
        self.other = cluster.start("b")
        self.news = Set(self.broker, "news")
        assert send_large(self.news, 1).status == 200
        self.meet = functools.partial(faults.arm, name="/segments/")

    def refuse_records(self):
        """PostgreSQL refuses to keep any record from now on."""
        self.cluster.query(
            "ALTER TABLE tidings_records ADD CONSTRAINT none CHECK (false) NOT VALID"
        )

    def allow_records(self):
        self.cluster.query("ALTER TABLE tidings_records DROP CONSTRAINT none")

    def check(self, *numbers):
        """Both brokers have these posts, and nothing else, also after a restart."""
        last = 100 * len(numbers)
        for broker in (self.broker, self.other):
            wait_last(broker, "news", last)
            assert locs(broker) == expected(*numbers)
        self.broker.stop()
        self.broker.restart()
        assert locs(self.broker) == expected(*numbers)


@pytest.fixture
def writer(cluster, faults):
    return Writer(cluster, faults)


# The record is in the journal, and the segment is not on the disk: killed in between.
def test_a_kill_while_both_keep_a_post_loses_nothing(writer):
    writer.meet(Faults.SYNC, outcome=Faults.KILL)
    with pytest.raises(ConnectionEnded):
        send_large(writer.news, 2)
    writer.faults.disarm()
    wait_last(writer.other, "news", 200)
    writer.broker.wait()  # its port is free then
    writer.broker.restart()
    wait_last(writer.broker, "news", 200)
    assert send_large(writer.news, 2).status == 200
    assert send_large(writer.news, 3).status == 200
    writer.check(1, 2, 3)


# The segment has entries that PostgreSQL refused: nobody ever sees them, and they are
# written over, also if the broker is killed at that moment.
@pytest.mark.parametrize("is_killed", [False, True], ids=["refused", "killed"])
def test_entries_of_a_refused_record_are_nothing(writer, is_killed):
    writer.refuse_records()
    if is_killed:
        writer.meet(Faults.SYNC, outcome=Faults.KILL)
        with pytest.raises(ConnectionEnded):
            send_large(writer.news, 2)
        writer.faults.disarm()
        writer.broker.wait()  # its port is free then
        writer.broker.restart()
    else:
        assert send_large(writer.news, 2).status == 503
    assert locs(writer.broker) == expected(1)
    writer.allow_records()
    wait_for("a post", lambda: send_large(writer.news, 3).status == 200)
    writer.check(1, 3)


# The journal has a post that this disk cannot take: it is here when there is room.
def test_a_full_disk_keeps_nobody_from_a_post_of_the_journal(writer):
    writer.meet(Faults.WRITE, outcome=errno.ENOSPC)
    refused = send_large(writer.news, 2)
    check_refused(refused, 503, "the journal has kept this, and this broker cannot yet")
    wait_last(writer.other, "news", 200)
    assert locs(writer.broker) == expected(1)
    assert send_large(writer.news, 3).status == 503
    assert writer.faults.disarm() > 2
    assert send_large(writer.news, 2).status == 200
    writer.check(1, 2)


# One failure costs the segment, and no post.
@pytest.mark.parametrize("call", [Faults.WRITE, Faults.SYNC], ids=["write", "sync"])
def test_a_segment_that_fails_once_is_left(writer, call):
    writer.meet(call, outcome=errno.EIO, once=True)
    assert send_large(writer.news, 2).status == 200
    assert writer.faults.disarm() == 1
    assert send_large(writer.news, 3).status == 200
    writer.check(1, 2, 3)


# A disk that stands still keeps only its own broker waiting: the turn is over. And what
# PostgreSQL has answered meanwhile is not unknown, however late the broker looks.
def test_a_slow_disk_keeps_no_turn(writer):
    writer.meet(Faults.SYNC, outcome=Faults.HANG)
    posting = Background(send_large, writer.news, 2)
    writer.faults.wait()
    wait_last(writer.other, "news", 200)
    assert send_large(Set(writer.other, "news"), 3).status == 200
    writer.faults.pass_time(3)  # longer than it waits for PostgreSQL
    writer.faults.disarm()
    assert posting.join().status == 200
    writer.check(1, 2, 3)


# It stays so however long a client waits: 403. The text says where to go.
def test_a_reader_takes_no_posts(cluster):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a")
    Set(one, "news").post(1)
    reader = cluster.start_reader("r")
    wait_last(reader, "news", 1)
    form = "application/x-www-form-urlencoded"
    entry = change("http://example.com/")
    for answer in (
        Set(reader, "news").send(entry),
        Set(reader, "other").send(entry),
        reader.put("/sets/other", {}),
        reader.patch("/sets/news", {"title": "News"}),
        reader.delete("/sets/news"),
        Set(reader, "news").put_resources(b"<urlset/>"),
        reader.post("/sets/news/rotate", b"", form),
        reader.post("/sets/news/subscribe", b"hub.callback=http://127.0.0.1/", form),
        reader.get("/sets/news/subscriptions"),
        reader.get("/relays"),
        reader.put("/relays/other", {}),
    ):
        check_refused(answer, 403, READ_ONLY)
    topic = f"{PUBLIC}/sets/news/notifications"
    body = f"hub.mode=subscribe&hub.topic={topic}&hub.callback=http://127.0.0.1/"
    refused = reader.post("/hub", body.encode(), form)
    assert refused.status == 403 and READ_ONLY in refused.text
    one.stop()
    assert last(Set(reader, "news")) == 1
    assert cluster.query("SELECT count(*) FROM tidings_orders") == ["0"]


# All brokers sign checkpoints with the same keys, also when one of them gets another.
def test_the_brokers_share_the_keys_of_checkpoints(cluster, run):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    Set(one, "news").post(3)
    wait_last(two, "news", 3)

    def keys(broker):
        return run("tidingsd", "key", "show", "news", "--data", broker.data).output()

    def signed(broker):
        """The signatures, without those that have a time."""
        answer = Set(broker, "news").get("checkpoint")
        assert answer.status == 200, answer
        return {line for line in answer.text.splitlines() if len(line.rpartition(" ")[2]) < 96}

    assert keys(one) == keys(two)
    assert signed(one) == signed(two)
    former = keys(one)
    run("tidingsd", "key", "rotate", "--data", two.data)
    wait_for("the new key at the other broker", lambda: keys(one) != former)
    assert keys(one) == keys(two)
    assert former in keys(one)
    wait_for("its signatures", lambda: signed(one) == signed(two) and len(signed(one)) > 4)
