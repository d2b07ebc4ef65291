"""One broker of a cluster: how a cluster begins, who may belong to it, how a broker
leaves. Posts anywhere and faults of PostgreSQL: tests/cluster."""

import datetime
import itertools
import secrets

import pytest

from tidings_test.backups import Backups
from tidings_test.http import check_refused
from tidings_test.postgresql import Postgresql
from tidings_test.sets import Set, change
from tidings_test.stream import EventSource
from tidings_test.waiting import wait_for

PUBLIC = "http://127.0.0.1:8787"
NAMES = itertools.count()
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def server():
    started = Postgresql()
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
        self.here = ("--cluster", self.address, "--cluster-unsafe")

    def options(self, name, *more):
        return (*self.here, "--public-url", PUBLIC, "--cluster-name", name, *more)

    def init(self, data, **how):
        where = ("--data", data, "--public-url", PUBLIC)
        return self.run("tidingsd", "cluster", "init", *where, *self.here, **how)

    def mend(self, data, **how):
        where = ("--data", data, "--public-url", PUBLIC)
        return self.run("tidingsd", "cluster", "mend", *where, *self.here, **how)

    def start(self, name, *more):
        options = self.options(name, *more)
        return self.start_broker(*options, directory=self.path / name)

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
    assert "restore a backup of another broker there" in text
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
        (("--content", "inline"), "a cluster cannot have content"),
        (("--resource-list-keep", "daily"), "a cluster cannot have an archive of"),
        (("--resource-dump-every", "5"), "a cluster cannot have Resource Dumps"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_options_that_a_cluster_cannot_have_are_refused(cluster, options, reason):
    kept = ["--cluster-unsafe", "--public-url", PUBLIC]
    if options[0] != "--cluster":
        kept += ["--cluster", cluster.address]
    text = cluster.refused(*kept, *options)
    assert reason in text
    assert "password=y" not in text and "u:p" not in text


def test_a_cluster_needs_a_public_url(cluster):
    assert "--cluster needs --public-url" in cluster.refused(*cluster.here)
    assert "needs --cluster" in cluster.refused("--cluster-read-only")


def test_a_broker_that_does_not_belong_is_refused(cluster):
    text = cluster.refused(*cluster.options("a"))
    assert "this database has no cluster" in text
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


def test_what_a_cluster_cannot_do_yet_is_refused(cluster):
    cluster.init(cluster.path / "a" / "data")
    broker = cluster.start("a")
    news = Set(broker, "news")
    news.post(1)
    for settings in (
        {"content": "fetch"},
        {"resourceListKeep": "daily"},
        {"resourceDumpEvery": 60},
    ):
        (name,) = settings
        refused = broker.put("/sets/other", settings)
        assert refused.status == 422
        assert name in refused.json()["detail"]
        assert broker.patch("/sets/news", settings).status == 422
    path = "/sets/news/resourcedump"
    refused = broker.post(path, b"", FORM)
    assert refused.status == 501


def test_init_names_a_set_that_a_cluster_refuses(cluster, start_broker, tmp_path):
    single = start_broker(directory=tmp_path / "a")
    keep = {"resourceListKeep": "daily"}
    assert single.put("/sets/news", keep).status == 201
    single.stop()
    refused = "\n".join(cluster.init(single.data, status=2).err)
    assert "the set news: resourceListKeep: " in refused
    assert "change its settings first" in refused
    single.restart()
    assert single.patch("/sets/news", dict.fromkeys(keep)).status == 200
    single.stop()
    cluster.init(single.data)


def built(broker, number):
    """Wait until a broker serves Resource List `number`, and return the answer."""

    def look():
        nonlocal answer
        answer = broker.get(f"/sets/news/resourcelist/{number:012}.xml")
        return answer.status == 200

    answer = None
    wait_for(f"list {number} at {broker}", look)
    return answer


# A list is ordered in the journal, and each broker builds it from its own state, even
# one that was stopped meanwhile, or has lost the list that it was building.
def test_each_broker_builds_the_same_resource_lists(cluster, run, tmp_path):
    cluster.init(cluster.path / "a" / "data")
    options = ("--rotate-entries", 5, "--resource-list-every", 0, "--remove-grace", 0)
    options += ("--resource-list-entries", 7)
    one, two, late = (cluster.start(name, *options) for name in "abc")
    Set(one, "news").post(9)
    late.stop()
    for number, broker in enumerate((one, two, one), 1):
        Set(broker, "news").post(4)
        answer = broker.post("/sets/news/resourcelist", b"", FORM)
        assert answer.status == 200
        assert answer.json()["generation"] == number
        Set(two, "news").post(3)
        bodies = {built(broker, number).body for broker in (one, two)}
        assert len(bodies) == 1
    late.restart()
    assert {built(late, 3).body} == bodies
    wait_last(late, "news", 30)

    backups = Backups(run, tmp_path / "backup")
    backups.make(late)
    run("tidingsd", "restore", backups.directory, "--data", tmp_path / "d" / "data")
    joined = cluster.start("d", *options)
    assert {built(joined, 3).body} == bodies
    joined.kill()
    answer = two.post("/sets/news/resourcelist", b"", FORM)
    assert answer.json()["generation"] == 4
    joined.restart()
    assert {built(broker, 4).body for broker in (one, two, late, joined)} == {
        built(one, 4).body
    }
    for broker in (one, two, late, joined):
        broker.stop()
        run("tidingsd", "check", "--data", broker.data)


def test_the_status_of_a_cluster(cluster):
    cluster.init(cluster.path / "a" / "data")
    assert cluster.status("--cluster-unsafe", status=1)  # no broker
    one, two = cluster.start("a"), cluster.start("b")
    Set(one, "news").post(3)
    wait_last(two, "news", 3)
    (end,) = cluster.query("SELECT n FROM tidings_turn")
    runs = f"runs, record {end}, 0 bytes behind"
    wait_for(
        "both brokers in the status",
        lambda: sum(runs in x for x in cluster.status("--cluster-unsafe", status=None))
        == 2,
    )
    said = cluster.status("--cluster-unsafe")
    assert f"public URL: {PUBLIC}" in said
    assert "PostgreSQL: does not wait for a standby, 0 synchronous standbys" in said
    cluster.status(status=1)
    two.stop()
    wait_for(
        "a broker that is away",
        lambda: any(
            x.startswith("broker b: is away")
            for x in cluster.status("--cluster-unsafe", status=1)
        ),
    )


def test_brokers_leave(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a"), cluster.start("b")
    Set(one, "news").post(3)
    wait_last(two, "news", 3)
    before = epoch(one, "news")
    assert 'the broker "b" runs' in cluster.leave("b", status=1)
    assert 'no broker "c"' in cluster.leave("c", status=1)
    two.stop()
    assert "stays a copy" in cluster.leave("b", "--data", two.data)
    assert "is a copy of a cluster" in cluster.refused(data="b/data", status=1)
    Set(one, "news").post(1)
    one.stop()
    assert "give its data directory" in cluster.leave("a", status=1)
    text = cluster.leave("a", "--data", two.data, status=1)
    assert "does not end where its copy ends" in text
    assert "a single broker's again" in cluster.leave("a", "--data", one.data)
    one.set_options()
    one.restart()
    assert epoch(one, "news") == before
    assert Set(one, "news").post(1).last == 5
    assert cluster.query("SELECT to_regclass('tidings_turn') IS NULL") == ["t"]


# Issue 22, 7: numbers and digests show that the journal has lost records.
def test_a_copy_that_is_ahead_of_the_journal_takes_no_posts(cluster):
    cluster.init(cluster.path / "a" / "data")
    one = cluster.start("a")
    Set(one, "news").post(1)
    Set(one, "news").post(1)
    one.stop()
    cluster.query(
        "DELETE FROM tidings_records WHERE n = (SELECT n FROM tidings_turn);"
        "UPDATE tidings_turn t SET (n, chain) ="
        " (SELECT r.n, r.chain FROM tidings_records r ORDER BY r.n DESC LIMIT 1)"
    )
    one.restart()
    assert last(Set(one, "news")) == 2
    assert Set(one, "news").send(change("http://example.com/")).status == 503
    assert "the journal ends before record" in one.wait_said("posts are refused")


# Issue 22, 7: the copy with the most records has all that was acknowledged.
def test_a_lost_journal_begins_again_from_a_copy(cluster, server):
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
    text = cluster.mend(three.data, status=1)
    assert "so lacks none of" in "\n".join(text.err)
    server.query(f"DROP DATABASE {cluster.name}")
    server.query(f"CREATE DATABASE {cluster.name} OWNER tidings")
    (end,) = cluster.mend(one.data).out
    assert end.startswith("the journal begins behind record ")
    for broker in (one, two, three):
        broker.restart()
    assert Set(two, "news").post(1).last == 3
    wait_last(one, "news", 3)
    assert epoch(one, "news") == epoch(two, "news") == before
    assert last(Set(three, "news")) == 1
    assert "restore a backup of another broker" in three.wait_said("posts are refused")


def lose_records(cluster, n):
    """What a standby does that is promoted without the last records."""
    cluster.query(
        "DELETE FROM tidings_records r USING tidings_turn t"
        f" WHERE r.n > t.n - {n};"
        "UPDATE tidings_turn t SET (n, chain, bytes) = (SELECT r.n, r.chain, r.bytes"
        " FROM tidings_records r ORDER BY r.n DESC LIMIT 1)"
    )


# Issue 22, 7: the missing records come back from a copy, and no broker needs a backup.
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
    cluster.leave("a", "--data", data)
    cluster.init(data)
    one.restart()
    for _ in range(3):
        Set(one, "news").post(1)
    one.stop()
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
    two.restart()
    Set(two, "news").post(1)
    two.stop()
    refused = cluster.mend(one.data, status=1)
    assert "do not lead from record" in "\n".join(refused.err)


def noise():
    """A change of which a record has 2,000 bytes at least, for nothing deflates it."""
    filling = {"ns": "urn:example", "name": "filling", "value": secrets.token_hex(2000)}
    return change("http://example.com/noise", attributes=[filling])


# A broker that lacks what the journal has forgotten says what to do.
def test_the_journal_forgets_beyond_its_bound(cluster):
    cluster.init(cluster.path / "a" / "data")
    one, two = cluster.start("a", "--cluster-keep", "1M"), cluster.start("b")
    news = Set(one, "news")
    news.post(1)
    wait_last(two, "news", 1)
    two.stop()
    for _ in range(12):
        news.receipt(news.send([noise() for _ in range(100)]))
    look = "SELECT min(n) > 5 AND sum(length(record)) < 1500000 FROM tidings_records"
    wait_for("a journal that has forgotten", lambda: cluster.query(look) == ["t"])
    two.restart()
    assert last(Set(two, "news")) == 1
    assert "restore a backup of another broker" in two.wait_said("posts are refused")
    assert "b: needs a backup" in "\n".join(
        cluster.status("--cluster-unsafe", status=1)
    )


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


# Issue 22, 7: a broker that is cut off refuses posts and serves reads, and says so.
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


# Issue 22, 3: a position of one broker holds at all, at once.
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


# Issue 22, 9: a copy for many subscribers, which adds nothing to the cluster.
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
    said = cluster.status("--cluster-unsafe")
    assert [line.endswith(", reads only") for line in said[:2]] == [False, True]
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
    for table, brokers in (("records", ["", "a"]), ("leases", ["a"])):
        look = f"SELECT DISTINCT broker FROM tidings_{table} ORDER BY 1"
        assert cluster.query(look) == brokers
    assert not reader.has_said("level=warning part=archive")

    cluster.set_connections(False)
    wait_for("a reader that is cut off", lambda: as_of(reader.get("/sets/news")))
    assert figure(reader, "tidings_cluster_cut_off") == 1
    assert "warning: this broker is cut off" in reader.get("/readyz?for=reads").text
    reasons = reader.get("/readyz").json()["reasons"]
    assert READ_ONLY in reasons[0] and "cut off" in reasons[1]


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
