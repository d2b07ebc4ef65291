"""pg_auto_failover promotes a standby when the primary is killed: brokers find it, and
lose no acknowledged change."""

import pytest

from tidings_test import auto_failover
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm

ROUNDS = soak(1, 5)


@pytest.fixture
def trio():
    if not auto_failover.is_installed():
        pytest.skip(f"not installed: {auto_failover.PACKAGES}")
    managed = auto_failover.ManagedTrio()
    yield managed
    managed.end()


# Issue 22, 8: with three nodes it keeps number_sync_standbys = 1.
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
