"""What a broker of a cluster refuses, with the words of doc/cluster.md: settings of
PostgreSQL that lose changes, a journal that has lost records or has others, records of a
newer version. Names, public URLs and options that do not fit: e2e/cluster."""

import re
import time

import pytest

from tidings_test.cluster import Member
from tidings_test.proxy import UP
from tidings_test.sets import Set, change
from tidings_test.waiting import wait_for

OTHERS_S = 5  # pg_journal.c


def post(member):
    return Set(member, "news").send(change("http://example.com/"))


def wait_post(member, status):
    """Post until the answer has that status; the answer."""
    return wait_for(
        f"a post with {status}",
        lambda: (answer := post(member)).status == status and answer,
    )


# Settings are looked at with each connection, and whether commits wait for
# a standby, behind each commit.
@pytest.mark.parametrize(
    "setting, wrong, words",
    [
        ("synchronous_standby_names", "''", "synchronous_standby_names is empty"),
        ("full_page_writes", "off", "full_page_writes is off"),
        ("fsync", "off", "fsync is off"),
    ],
)
def test_a_server_that_may_lose_commits_gets_no_posts(
    start_cluster, trio, setting, wrong, words
):
    cluster = start_cluster()
    member = cluster.members[0]
    assert post(member).status == 200
    trio.query(f"ALTER SYSTEM SET {setting} = {wrong}")
    trio.query("SELECT pg_reload_conf()")
    wait_for("the setting", lambda: trio.query(f"SHOW {setting}") == [wrong.strip("'")])
    if setting != "synchronous_standby_names":
        member.reset_connections()
    answer = wait_post(member, 503)
    assert words in answer.json()["detail"]
    assert Set(member, "news").last() >= 1
    trio.query(f"ALTER SYSTEM RESET {setting}")
    trio.query("SELECT pg_reload_conf()")
    wait_post(member, 200)
    cluster.wait_same()


# A failover manager that sees no standby any more may empty the names: PostgreSQL then
# answers commits that wait.
def test_a_commit_that_no_longer_waits_is_not_acknowledged(
    start_cluster, trio, background
):
    cluster = start_cluster()
    member = cluster.members[0]
    assert post(member).status == 200
    standbys = trio.standbys
    for name in standbys:
        trio.servers[name].kill()
    waiting = background(post, member)
    look = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    wait_for("a commit that waits", lambda: trio.query(look) != ["0"])
    trio.query("ALTER SYSTEM SET synchronous_standby_names = ''")
    trio.query("SELECT pg_reload_conf()")
    assert waiting.join().status == 503
    for name in standbys:
        trio.servers[name].start()
    trio.query("ALTER SYSTEM RESET synchronous_standby_names")
    trio.query("SELECT pg_reload_conf()")
    wait_post(member, 200)
    cluster.wait_same()


# Of several servers the last primary's reason is given, and not that others
# are standbys.
@pytest.mark.parametrize(
    "words, are_down",
    [("it did not answer in time", True), ("refused", False)],
    ids=["silent", "down"],
)
def test_the_reason_is_that_of_the_primary(start_cluster, trio, words, are_down):
    cluster = start_cluster(names="a")
    (member,) = cluster.members
    way = member.ways[trio.primary]
    assert post(member).status == 200
    down = [member.ways[name] for name in trio.standbys] if are_down else [way]
    for one in down:
        one.go_down()
    if are_down:
        way.stall(UP)
    member.reset_connections()

    def look():
        said = member.get("/readyz").json()["reasons"][0]
        return f"port {way.port} failed" in said and words in said

    wait_for("the reason of the primary", lambda: member.get("/readyz").status == 503)
    wait_for("the reason of the primary", look)
    for one in down:
        one.listen()
    way.go()
    wait_post(member, 200)


# A manager that has promoted a standby forbids writes until the old primary is gone.
def test_a_server_that_forbids_writes_gets_no_posts(start_cluster, trio):
    cluster = start_cluster()
    member = cluster.members[0]
    assert post(member).status == 200
    trio.query("ALTER SYSTEM SET default_transaction_read_only = on")
    trio.query("SELECT pg_reload_conf()")
    member.reset_connections()
    wait_post(member, 503)
    wait_for("a broker without posts", lambda: member.get("/readyz").status == 503)
    trio.query("ALTER SYSTEM RESET default_transaction_read_only")
    trio.query("SELECT pg_reload_conf()")
    wait_post(member, 200)


def restart_all(cluster):
    for member in cluster.members:
        member.disconnect()
        member.restart()


def stop_all(cluster):
    for member in cluster.members:
        member.stop()


# Each broker notices by number and digest that the journal has less than it
# had. cluster mend begins the journal again behind a copy.
def test_an_older_backup_of_the_journal_is_noticed_and_mended(start_cluster, trio):
    cluster = start_cluster()
    for member in cluster.members:
        assert post(member).status == 200
    cluster.wait_same()
    stop_all(cluster)
    older = f"{cluster.database}_older"
    trio.query(f"CREATE DATABASE {older} TEMPLATE {cluster.database}")
    restart_all(cluster)
    wait_post(cluster.members[0], 200)
    cluster.wait_same()
    stop_all(cluster)
    trio.query(f"DROP DATABASE {cluster.database}")
    trio.query(f"ALTER DATABASE {older} RENAME TO {cluster.database}")
    restart_all(cluster)
    for member in cluster.members:
        answer = wait_post(member, 503)
        assert "has lost records" in answer.json()["detail"], answer.json()
        assert Set(member, "news").last() == 4

    stop_all(cluster)
    trio.query(f"DROP DATABASE {cluster.database}")
    trio.make_database(cluster.database)
    cluster.begin("mend", cluster.members[0].data)
    restart_all(cluster)
    for member in cluster.members:
        wait_post(member, 200)
    cluster.wait_same()
    assert [Set(member, "news").last() for member in cluster.members] == [7, 7, 7]


def check_refused(member, words, last, reads=200):
    """It takes no posts, says why, is not ready for any, and serves what it has."""

    def look():
        answer, ready = post(member), member.get("/readyz")
        assert answer.status == ready.status == 503
        return words in answer.json()["detail"] and words in ready.json()["reasons"][0]

    wait_for(f"{words!r} of {member}", look)
    assert member.get("/readyz?for=reads").status == reads
    assert Set(member, "news").last() == last


@pytest.fixture
def lossy(start_cluster, trio):
    """lossy(harm): a cluster of which a standby was promoted that lacks commits: `a`
    and `b`, which harm() met before that, have the records of four posts, and the
    journal that of the first one. `c` was away, has that one, too, and is cut off."""

    def start(harm=lambda member: None, *options):
        cluster = start_cluster(*options)
        one, two, three = cluster.members
        assert post(one).status == 200
        cluster.wait_same()
        good, bad = trio.standbys
        three.cut_off()
        trio.starve(bad)
        for _ in range(3):
            assert post(one).status == 200
        Set(two, "news").wait_last(4)
        harm(one), harm(two)
        trio.lose_primary()
        trio.lose_standby(good)
        trio.promote(bad)
        trio.repair()
        return cluster

    return start


# It names each server of the address, also one that is silent, and a standby that was
# promoted while its primary went on.
def test_the_status_asks_every_server(start_cluster, trio, run):
    cluster = start_cluster(names="a")
    (member,) = cluster.members
    # A standby refuses such transactions.
    default = "SET default_transaction_isolation = 'serializable'"
    trio.query(f"ALTER DATABASE {cluster.database} {default}")
    ways = member.ways
    fed, other = trio.standbys

    def look(status, *names):
        hosts = ",".join("127.0.0.1" for name in names or ways)
        ports = ",".join(str(ways[name].port) for name in names or ways)
        address = f"host={hosts} port={ports} dbname={cluster.database}"
        address += " user=postgres sslmode=disable gssencmode=disable"
        command = ("cluster", "status", "--cluster", address)
        said = "\n".join(run("tidingsd", *command, status=status).out)
        for name, way in ways.items():
            said = said.replace(f"127.0.0.1:{way.port}", name)
        return said

    def wait_lines(status, *lines):
        def find():
            said = look(status)
            return all(re.search(f"^{line}$", said, re.M) for line in lines)

        wait_for(f"the lines {lines}", find)

    good = f"server {trio.primary}: primary"
    follows = r"standby, \d+ bytes behind"
    wait_lines(None, good, f"server {fed}: {follows}", f"server {other}: {follows}")
    wait_lines(0, "broker a: runs, .*")
    twice = look(0, trio.primary, trio.primary)
    assert twice.count(good) == 2 and "two primaries" not in twice

    ways[fed].stall(UP)
    ways[other].go_down()
    silent = f"server {fed}: unreachable: PostgreSQL: .*it did not answer in time"
    wait_lines(1, good, silent, f"server {other}: unreachable: .*refused.*")
    ways[fed].go()
    ways[other].listen()

    trio.starve(other)
    assert post(member).status == 200
    wait_lines(1, good, f"server {fed}: {follows}")
    wait_lines(1, rf"server {other}: standby, [1-9]\d* bytes behind, receives nothing")

    assert trio.servers[other].query("SELECT pg_promote(true, 600)") == ["t"]
    both = f"({trio.primary} and {other}|{other} and {trio.primary})"
    wait_lines(1, good, f"server {other}: primary", f"two primaries: {both}: stop .*")
    trio.lose_standby(other)
    trio.repair()


HAS_LOST = "the journal has lost records: it ends with record"


# One standby suffices for an answer, and a manager that promotes
# the other one loses what was acknowledged. A broker that has not heard of that takes no
# posts under the same numbers: the rows of others say that they have more.
def test_a_standby_that_lacks_records_is_promoted(lossy, run):
    cluster = lossy()
    one, two, three = cluster.members
    for member in (one, two):
        check_refused(member, "the journal ends before record", 4)
    three.reconnect()
    check_refused(three, HAS_LOST, 1)
    status = run("tidingsd", "cluster", "status", "--cluster", one.journal, status=1)
    ahead = [line for line in status.out if "has records that the journal has lost" in line]
    assert [line.split(":")[0] for line in ahead] == ["broker a", "broker b"]
    stop_all(cluster)
    mend = ("cluster", "mend", "--cluster", one.journal, "--public-url", cluster.url)
    refused = run("tidingsd", *mend, "--data", three.data, status=1)
    assert "another broker has the lost records" in "\n".join(refused.err)
    (end,) = run("tidingsd", *mend, "--data", two.data).out
    assert end.startswith("the journal has 3 records back")
    for member in (one, three):
        (end,) = run("tidingsd", *mend, "--data", member.data).out
        assert end.startswith("nothing is missing: the journal has all records")
    restart_all(cluster)
    for member in cluster.members:
        wait_post(member, 200)
    cluster.wait_same()


# the last one that has the records says what it gives up, and asks. All sets have
# new epochs before the first entry that gets a number again.
def give_up(run, stays, one, two):
    leave = ("tidingsd", "cluster", "leave", "--cluster", stays.journal, "--cluster-name")
    assert "only --data could tell" in run(*leave, one.name).output()
    leave += (two.name, "--data", two.data)
    refused = run(*leave, status=1)
    assert "is of the set news" in refused.output()
    (n,) = re.findall(r"To give them up: --give-up (\d+)$", refused.errors())
    assert f"--give-up {n}" in run(*leave, "--give-up", int(n) + 1, status=1).errors()
    before = Set(stays, "news").state()
    run(*leave, "--give-up", n)
    wait_post(stays, 200)
    after = Set(stays, "news").state()
    assert after["follows"] == before["position"]
    assert after["epoch"] != before["epoch"]
    wait_post(stays, 200)
    assert Set(stays, "news").state()["epoch"] == after["epoch"]


# The rows were lost with the records, until these brokers report again.
def test_a_new_server_waits_for_the_reports_of_all_brokers(lossy, run):
    one, two, three = lossy(Member.cut_off, "--cluster-wait-for-all").members
    three.reconnect()
    check_refused(three, "has not said yet how much it has", 1)
    for member in (one, two):
        member.reconnect()
    check_refused(three, HAS_LOST, 1)
    for member in (one, two):
        check_refused(member, "the journal ends before record", 4)
    for member in (one, two):
        member.stop()
    give_up(run, three, one, two)


# A broker that is dead for good ends no cluster. If it comes back with more
# than the others had, these stop.
def test_a_dead_broker_is_not_waited_for(lossy):
    one, two, three = lossy(Member.kill).members
    began = time.monotonic()
    three.reconnect()
    wait_post(three, 200)
    assert time.monotonic() - began >= OTHERS_S  # so long it waited for their reports
    assert Set(three, "news").last() == 2
    for member in (one, two):
        member.disconnect()
        member.restart()
        check_refused(member, "the journal ends before record", 4)
    wait_for("another report", lambda: three.get("/readyz").status == 503)
    check_refused(three, HAS_LOST, 2)


# With --cluster-wait-for-all no broker is given up before `cluster leave`.
def test_a_dead_broker_is_waited_for_until_it_leaves(lossy, run):
    cluster = lossy(Member.kill, "--cluster-wait-for-all")
    one, two, three = cluster.members
    three.reconnect()
    check_refused(three, "has not said yet how much it has", 1)
    longer = (
        "SELECT max(now() - backend_start) > interval '10 s' FROM pg_stat_activity"
        f" WHERE datname = '{cluster.database}' AND application_name LIKE 'tidingsd %'"
    )
    wait_for("twice the time", lambda: cluster.query(longer) == ["t"])
    check_refused(three, "has not said yet how much it has", 1)
    give_up(run, three, one, two)


# Two histories have posts under the same numbers.
def test_a_broker_sees_another_history(lossy):
    one, two, three = lossy(Member.kill).members
    three.reconnect()
    for _ in range(5):
        wait_post(three, 200)
    for member in (one, two):
        member.disconnect()
        member.restart()
        check_refused(member, "the journal has another history", 4, reads=503)
    assert Set(three, "news").last() == 6


# A cluster is upgraded one broker at a time; the first record of a newer
# version stops the older ones.
def test_a_record_of_a_newer_version_stops_a_broker(start_cluster):
    cluster = start_cluster("--cluster-stale", "2")
    assert post(cluster.members[0]).status == 200
    cluster.wait_same()
    newer = "'\\x7f00'::bytea"
    cluster.query(
        "INSERT INTO tidings_records(n, chain, broker, bytes, record)"
        f" SELECT n + 1, sha256(chain || {newer}), 'z', bytes, {newer}"
        " FROM tidings_records ORDER BY n DESC LIMIT 1"
    )
    for member in cluster.members:
        member.wait_said("a newer tidingsd wrote it")
        assert wait_post(member, 503)
        assert Set(member, "news").last() == 1
        old = wait_for(
            "a copy that is too old",
            lambda: (ready := member.get("/readyz?for=reads")).status == 503 and ready,
        )
        assert "s behind its cluster" in old.text
