"""Brokers and PostgreSQL servers are killed while publishers post to all brokers and each
broker has a follower: no acknowledged change is lost, doubled or out of order, and posts
go on."""

import pytest

from tidings_test.harms import kill_broker, lose_both, lose_primary, lose_standby
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm

ANSWERS_MAX = soak(60, 400)  # before a kill


@pytest.mark.parametrize(
    "harm, rounds",
    [(kill_broker, 20), (lose_primary, 15), (lose_standby, 5), (lose_both, 10)],
)
def test_nothing_acknowledged_is_lost_doubled_or_moved(start_cluster, harm, rounds):
    chosen = choices()
    cluster = start_cluster("--rotate-entries", 500)
    storm = Storm(cluster, "news", chosen)
    for _ in range(soak(2, rounds)):
        storm.wait_answers(chosen.randint(1, ANSWERS_MAX))
        repairing = harm(cluster, chosen)
        next(repairing)
        storm.wait_answers(20)  # while it is away
        next(repairing, None)
    storm.wait_answers(20)
    storm.end()
