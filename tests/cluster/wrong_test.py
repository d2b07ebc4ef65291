"""What a broker of a cluster refuses, with the words of doc/cluster.md: settings of
PostgreSQL that lose changes, a journal that has lost records or has others, records of a
newer version. Names, public URLs and options that do not fit: e2e/cluster."""

import pytest

from tidings_test.sets import Set, change
from tidings_test.waiting import wait_for


def post(member):
    return Set(member, "news").send(change("http://example.com/"))


def wait_post(member, status):
    """Post until the answer has that status; the answer."""
    return wait_for(
        f"a post with {status}",
        lambda: (answer := post(member)).status == status and answer,
    )


# Issue 22, 8: settings are looked at with each connection, and whether commits wait for
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
        trio.kill(name)
    waiting = background(post, member)
    look = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    wait_for("a commit that waits", lambda: trio.query(look) != ["0"])
    trio.query("ALTER SYSTEM SET synchronous_standby_names = ''")
    trio.query("SELECT pg_reload_conf()")
    assert waiting.join().status == 503
    for name in standbys:
        trio.restart(name)
    trio.query("ALTER SYSTEM RESET synchronous_standby_names")
    trio.query("SELECT pg_reload_conf()")
    wait_post(member, 200)
    cluster.wait_same()


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


# Issue 22, 7: each broker notices by number and digest that the journal has less than it
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


def let_lag(trio, name):
    """Let the standby receive nothing any more."""
    standby = trio.servers[name]
    standby.query("ALTER SYSTEM SET primary_conninfo = ''")
    standby.query("SELECT pg_reload_conf()")
    wait_for(
        f"{name} to receive nothing",
        lambda: standby.query("SELECT count(*) FROM pg_stat_wal_receiver") == ["0"],
    )


def check_refused(member, words, last):
    """It takes no posts, says why, and serves what it has."""

    def look():
        answer = post(member)
        return answer.status == 503 and words in answer.json()["detail"]

    wait_for(f"{words!r} of {member}", look)
    assert words in member.get("/readyz").json()["reasons"][0]
    assert member.get("/readyz?for=reads").status == 200
    assert Set(member, "news").last() == last


# Issue 22, 7: one standby suffices for an answer, and a manager that promotes the other
# one loses what was acknowledged. A broker that has not heard of that goes on with the
# journal: the others see another history.
def test_a_standby_that_lacks_records_is_promoted(start_cluster, trio):
    cluster = start_cluster()
    one, two, three = cluster.members
    assert post(one).status == 200
    cluster.wait_same()
    good, bad = trio.standbys
    three.cut_off()
    let_lag(trio, bad)
    for _ in range(3):
        assert post(one).status == 200
    Set(two, "news").wait_last(4)
    trio.lose_primary()
    trio.lose_standby(good)
    trio.promote(bad)
    trio.repair()
    for member in (one, two):
        check_refused(member, "the journal ends before record", 4)

    three.reconnect()
    wait_post(three, 200)
    assert Set(three, "news").last() == 2
    for _ in range(4):
        wait_post(three, 200)
    for member in (one, two):
        member.reset_connections()
        check_refused(member, "the journal has another history", 4)
    assert Set(three, "news").last() == 6


# Issue 22, 1: a cluster is upgraded one broker at a time; the first record of a newer
# version stops the older ones.
def test_a_record_of_a_newer_version_stops_a_broker(start_cluster):
    cluster = start_cluster()
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
