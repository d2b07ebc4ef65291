"""One storm of all that befalls a cluster: machines that die, lines that are slow, clocks
that are wrong and managers that err, while publishers post to all brokers, also the bytes
of resources, and each broker has a follower. No acknowledged change is lost, doubled or
out of order, no two brokers ever show different histories, and all keep the same bytes.
Callbacks, whose deliveries are spread over the brokers, get every change.
Each harm for itself: cluster/kill, cluster/slow, cluster/wrong, cluster/takeover."""

import contextlib
import hashlib
import sqlite3

from tidings_test import hub
from tidings_test.harms import (
    forget_standbys,
    kill_broker,
    lose_both,
    lose_primary,
    lose_standby,
    narrow,
    promote_wrongly,
    set_clock_of_broker,
    set_clock_of_server,
    trouble_bucket,
)
from tidings_test.sets import Set
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm
from tidings_test.waiting import wait_for

WRONG = (set_clock_of_broker, set_clock_of_server, promote_wrongly)
ORDINARY = (kill_broker, lose_primary, lose_standby, lose_both, narrow, forget_standbys)
ROUNDS = soak(1, 10)
ANSWERS_MAX = soak(30, 400)  # before a harm


def n_subscriptions(broker):
    """How many its copy of the hub's rows has."""
    path = f"file:{broker.data}/hub.db?mode=ro"
    with contextlib.closing(sqlite3.connect(path, uri=True)) as db:
        return db.execute("SELECT count(*) FROM subscriptions").fetchone()[0]


def meet(cluster, chosen, harms, joined=()):
    """A storm with these harms in any order, of which callbacks hear."""
    storm = Storm(cluster, "news", chosen, post_max=4, has_content=True)
    for callback in joined:
        hub.subscribe_sometime(Set(chosen.choice(cluster.members), "news"), callback)
    for callback in joined:
        hub.wait_active(Set(chosen.choice(cluster.members), "news"), callback)
    # The journal may be mended with any copy; each follows once a second.
    for member in cluster.members:
        wait_for(f"rows at {member}", lambda m=member: n_subscriptions(m) == len(joined))
    for harm in chosen.sample(harms, len(harms)):
        storm.wait_answers(chosen.randint(1, ANSWERS_MAX))
        print(harm.__name__)
        repairing = harm(cluster, chosen)
        next(repairing)
        storm.wait_answers(20)  # meanwhile
        next(repairing, None)
    storm.wait_answers(20)
    return storm.end()


# A run in CI has each of the WRONG harms, and one of the ORDINARY ones. What the journal loses with a server comes again, from a copy that is older.
def test_one_history_whatever_happens(start_cluster, callbacks):
    chosen = choices()
    cluster = start_cluster("--rotate-entries", 100, *hub.QUICK)
    harms = [*WRONG, *chosen.sample(ORDINARY, soak(1, len(ORDINARY)))]
    joined = [callbacks.add() for _ in range(8)]
    history = meet(cluster, chosen, harms * ROUNDS, joined)
    for callback in joined:
        callback.wait_last(history.last)
        callback.faults[:] = [f for f in callback.faults if "goes back" not in f]
        assert callback.holes == 0


# The same with the bytes in a bucket, which has all of them.
def test_one_history_with_content_in_a_bucket(start_cluster, bucket, tmp_path):
    chosen = choices()
    where = ("--cluster-bytes", bucket.address("bytes"))
    where += ("--s3-credentials", bucket.credentials(tmp_path))
    cluster = start_cluster("--rotate-entries", 100, *where)
    cluster.bucket = bucket
    others = [*WRONG, *ORDINARY]
    harms = [trouble_bucket, *chosen.sample(others, soak(2, len(others)))]
    history = meet(cluster, chosen, harms * ROUNDS)
    texts = [history[i].loc.encode() for i in range(2, history.last)]
    owed = {f"bytes/content/{hashlib.sha256(text).hexdigest()}" for text in texts}
    assert owed <= set(bucket.objects)
    assert not bucket.refused
