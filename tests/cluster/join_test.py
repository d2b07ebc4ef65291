"""Brokers join a cluster under load, come back after hours away, and after the loss of
their disk; a single broker becomes the first."""

import shutil

from data import kept
from tidings_test.backups import Backups
from tidings_test.cluster import served, wait_same_documents
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm

ANSWERS = soak(100, 2000)
ENTRIES = soak(5000, 200000)
POST = 1000


# The journal still has its first record.
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


# A backup of another broker knows its place in the journal.
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


def documents(broker):
    """The bytes of all documents by path, but for what says how they are stored."""
    return {
        path: answer[-1]
        for (path, encoding), answer in served(broker).items()
        if encoding == "identity" and path.endswith(".xml")
    }


# Nothing is renumbered.
def test_a_directory_of_the_former_release_becomes_the_first(
    start_cluster, start_broker, run, tmp_path
):
    archives = [path for path in kept.archives() if path.name == "stopped.tar.xz"]
    old = kept.Kept(archives[-1], tmp_path / "cluster0/a")
    url = old.facts["public_url"]
    # Its lists are older than a day: by the default the broker would close them now.
    # So are its dumps, and a dump of a cluster comes with a Resource List.
    rotation = ("--rotate-entries", 5000, "--rotate-age", 0, "--resource-dump-every", 0)
    options = ("--public-url", url, *rotation)
    single = start_broker(*options, directory=old.directory)
    single.url = url
    for first in range(1, ENTRIES, POST):
        single.set("harvest").post(POST, first=first)
    before = documents(single)
    assert before["/sets/books/changes/000000000004.xml"]
    assert before["/sets/stock/resourcelist-archive.xml"]
    last = single.set("news").last()
    single.stop()

    cluster = start_cluster(*rotation, names="a", url=url)
    backups = Backups(run, tmp_path / "backup")
    backups.make(cluster.members[0])
    for name in "bc":
        data = cluster.directory / name / "data"
        run("tidingsd", "restore", backups.directory, "--data", data)
        cluster.add_member(name)
    for member in cluster.members:
        assert documents(member) == before
    for n, one in enumerate(cluster.sets("news"), last + 1):
        assert one.post(1).first == n
    cluster.wait_same()
    wait_same_documents(cluster)
