"""Brokers join a cluster under load, come back after hours away, and after the loss of
their disk."""

import shutil

from tidings_test.backups import Backups
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm

ANSWERS = soak(100, 2000)


# Issue 22, 6: the journal still has its first record.
def test_a_new_broker_follows_from_the_first_record(start_cluster):
    cluster = start_cluster("--rotate-entries", 500)
    storm = Storm(cluster, "news", choices())
    storm.wait_answers(ANSWERS)
    cluster.add_member("d")
    storm.wait_answers(20)
    storm.end()


def test_a_broker_that_was_away_catches_up(start_cluster):
    cluster = start_cluster("--rotate-entries", 500)
    storm = Storm(cluster, "news", choices())
    member = cluster.members[2]
    for leave in (member.stop, member.kill):
        leave()
        storm.wait_answers(ANSWERS)
        member.disconnect()
        member.restart()
    storm.wait_answers(20)
    storm.end()


# Issue 22, 6: a backup of another broker knows its place in the journal.
def test_a_broker_without_its_disk_begins_with_a_backup(start_cluster, run, tmp_path):
    cluster = start_cluster("--rotate-entries", 500)
    storm = Storm(cluster, "news", choices())
    backups = Backups(run, tmp_path / "backup")
    other, lost = cluster.members[:2]
    storm.wait_answers(ANSWERS)
    lost.kill()
    shutil.rmtree(lost.data)
    backups.make(other)
    storm.wait_answers(20)
    backups.restore(lost)
    lost.disconnect()
    lost.restart()
    storm.wait_answers(20)
    storm.end()
