"""pg_auto_failover promotes a standby when the primary is killed: brokers find it, and
lose no acknowledged change; with two nodes they take no posts while one is away."""

import pytest

from tidings_test import auto_failover
from tidings_test.sets import Set, change
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm
from tidings_test.waiting import wait_for

ROUNDS = soak(1, 5)


def managed(*how):
    if not auto_failover.is_installed():
        pytest.skip(f"not installed: {auto_failover.PACKAGES}")
    started = auto_failover.ManagedTrio(*how)
    yield started
    started.end()


@pytest.fixture
def trio(request):
    """Three servers, or as many as the test names."""
    yield from managed(*getattr(request, "param", ()))


# With three nodes it keeps number_sync_standbys = 1.
def test_posts_continue_at_the_server_that_it_promotes(start_cluster, trio):
    assert trio.query("SHOW synchronous_standby_names")[0].startswith("ANY 1 (")
    cluster = start_cluster("--rotate-entries", 500)
    storm = Storm(cluster, "news", choices())
    for n in range(ROUNDS):
        if n > 0:
            trio.start(lost)
            trio.wait_whole()
        storm.wait_answers(20)
        lost = trio.kill_primary()
        storm.wait_answers(20)
        assert trio.primary != lost
    storm.end()


# With two nodes it has number_sync_standbys = 0, and empties the names while
# one is away. The page says what the brokers do then.
@pytest.mark.parametrize("trio", [(("one", "two"),)], ids=["two"], indirect=True)
def test_with_two_nodes_there_are_no_posts_while_one_is_away(start_cluster, trio):
    assert trio.query("SHOW synchronous_standby_names") != [""]
    cluster = start_cluster()
    member = cluster.members[0]

    def post():
        return Set(member, "news").send([change("http://example.com/")])

    def refuses():
        return "synchronous_standby_names is empty" in member.get("/readyz").text

    assert post().status == 200
    (standby,) = [name for name in trio.servers if name != trio.primary]
    trio.servers[standby].kill()
    wait_for("the refusal", refuses)
    assert post().status == 503
    assert member.get("/readyz?for=reads").status == 200
    trio.start(standby)
    wait_for("a post", lambda: post().status == 200)
    trio.wait_whole()

    last = Set(member, "news").last()
    lost = trio.kill_primary()
    wait_for("the refusal", lambda: trio.primary != lost and refuses())
    trio.start(lost)
    wait_for("a post", lambda: post().status == 200)
    assert Set(member, "news").last() > last
