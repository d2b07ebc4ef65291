"""tidingsd backup and tidingsd restore: one moment of a broker, and a broker there that
goes on for everybody who read the old one."""

import fcntl
import os
import shutil

import pytest

from tidings_test import hub
from tidings_test.backups import Backups
from tidings_test.content import check_kept, multipart
from tidings_test.mqtt import Reader
from tidings_test.publishers import Publishers
from tidings_test.sets import change
from tidings_test.soak import choices
from tidings_test.waiting import wait_for

ROTATING = ("--rotate-entries", 40)


@pytest.fixture
def backups(run, tmp_path):
    return Backups(run, tmp_path / "backup")



# sources post, lists rotate; what the follower has read before the
# moment of the backup goes on behind it.
def test_a_follower_goes_on_after_a_restore(start_broker, backups, run, tmp_path):
    broker = start_broker(*ROTATING)
    news = broker.set()
    publishers = Publishers(news, choices())
    follow = ("tidings", "follow", news.url, "--state", tmp_path / "state")
    with publishers.posting():
        publishers.wait_answers(20)
        first = run(*follow, "--from-start", "--count", 100)
        backups.make(broker)
        publishers.wait_answers(60)
        broker.kill()
    broker.disconnect()
    backups.check_whole()
    broker.restart()
    old = news.changelists().read().history
    wait_for("a list", news.list_file(2).exists)
    closed = news.list_file(2).read_bytes()
    broker.stop()
    backups.restore(broker, "--same-log")
    broker.restart()

    news = broker.set(news.name)
    restored = news.changelists().read().history
    assert 100 <= restored.last <= old.last
    assert restored.epoch == old.epoch
    for seq in range(1, restored.last + 1):
        assert restored[seq].line == old[seq].line
        assert restored.digests[seq] == old.digests[seq]
    wait_for("a list", news.list_file(2).exists)
    assert news.list_file(2).read_bytes() == closed
    run("tidings", "verify", broker.data / "sets" / news.name)
    receipt = news.post(3)
    assert receipt.first == restored.last + 1

    second = run(*follow, "--count", receipt.last - 100)
    locs = [entry.loc for entry in news.changelists().read().history.entries]
    heard = [line.split()[-1] for line in [*first.out, *second.out]]
    assert heard == locs


# Deliveries that waited at the moment of the backup come from the
# restored broker, and the bridge goes on behind what it has published, all in a new epoch.
# W-109: the hub has its key.
def test_subscriptions_and_bridges_go_on(
    start_broker, backups, callbacks, mosquitto
):
    hearer = mosquitto.hear("tidings/#")
    broker = start_broker("--mqtt", mosquitto.url, *hub.QUICK)
    news = broker.set("news")
    reader = Reader(hearer, "tidings/news/notifications")
    news.post(2)
    one = callbacks.join(news)
    news.post()
    one.wait_last(3)
    reader.until(3)
    hub.wait_head(news, one)
    wait_for("acknowledgements", lambda: bridge(broker)["out"]["lag"] == 0)
    one.always(503)
    news.post(2)
    reader.until(5)
    keys = broker.get("/hub/keys").json()
    backups.make(broker)
    broker.stop()
    backups.restore(broker)
    reader.history.new_epochs = 1
    one.always(200)
    broker.restart()
    assert broker.get("/hub/keys").json() == keys
    one.wait_last(5)
    news = broker.set("news")
    news.post(1, first=6)
    one.wait_last(6)
    reader.until(6)
    assert reader.repeats <= 1  # what was sent behind the acknowledged ones
    assert one.history(new_epochs=1).repeats == 0
    hub.wait_active(news, one)


def bridge(broker):
    (report,) = broker.get("/bridges").json()["bridges"]
    return report


# Rights and revocations are those of the moment.
def test_tokens_are_restored(start_broker, backups, run):
    broker = start_broker()
    token = ("tidingsd", "token")
    kept, revoked = (
        run(*token, "add", name, "--admin", "--data", broker.data).output().strip()
        for name in ("kept", "revoked")
    )
    run(*token, "revoke", "revoked", "--data", broker.data)
    backups.make(broker)
    broker.stop()
    backups.restore(broker)
    broker.restart()
    for secret, status in ((kept, 200), (revoked, 401)):
        answer = broker.get("/metrics", authorization=f"Bearer {secret}")
        assert answer.status == status


# Builds and content: the same bytes.
def test_resources_and_content_are_restored(start_broker, backups):
    broker = start_broker(*ROTATING)
    news = broker.set().create(content="inline")
    loc = "http://example.com/a"
    body, type = multipart([change(loc)], [(loc, "text/plain", b"some text")])
    assert news.send(body, type).status == 200
    news.build("resourcelist")
    news.build("resourcedump")
    before = [news.get(name).body for name in ("resourcelist.xml", "resourcedump.xml")]
    backups.make(broker)
    backups.check_whole()
    broker.stop()
    backups.restore(broker, "--same-log")
    broker.restart()
    news = broker.set(news.name)
    after = [news.get(name).body for name in ("resourcelist.xml", "resourcedump.xml")]
    assert after == before
    check_kept(news, 1, b"some text")
    assert news.post_change(loc, "deleted").last == 2
    news.build("resourcelist")
    assert b"example.com/a" not in news.get("resourcelist.xml").body


# Without a broker, and again: only new files are copied, and the former backup's are
# kept, also if its folder is another one.
def test_a_later_backup_copies_what_is_new(start_broker, backups, run):
    broker = start_broker(*ROTATING)
    news = broker.set()
    news.post(80)
    news.wait_list_files(2)
    news.build("resourcelist")
    tree = broker.data / "sets" / news.name / "tree.db"
    wait_for("the tree", tree.exists)
    broker.stop()
    first = backups.make(broker)
    assert first.kept == 0
    lists = [name for name in backups.files() if "changes/" in name]
    assert len(lists) == 2
    # In the order of the copies: no cursor and no state is newer than the log.
    databases = [name for name in backups.files() if name.endswith(".db")]
    assert len(databases) == 4
    assert databases[-1].endswith("/tidings.db")
    assert backups.files().index(databases[-1]) < backups.files().index(lists[0])
    done = run(
        "tidingsd", "backup", backups.directory, "--data", broker.data, status=2
    )
    assert "has a backup: --incremental" in done.errors()

    broker.restart()
    news.post(40)
    news.wait_list_files(3)
    second = backups.make(broker, "--incremental")
    backups.check_whole()
    assert second.kept == 5  # and the Resource List, public-url and checkpoint.keys
    assert set(lists) < set(backups.files())
    new = {name for name in backups.files() if name.startswith("000002/")}
    assert {name.rpartition("/")[2] for name in new} == {
        "000000000003.xml.gz",
        "hub.db",
        "tidings.db",
        "resources.db",
        "tree.db",
    }
    broker.stop()
    backups.restore(broker)
    broker.restart()
    read = broker.set(news.name).changelists()
    read.history.new_epochs = 1
    assert read.read().history.last == 120

    # The files of a restored directory are the same to the next backup.
    third = backups.make(broker, "--incremental")
    assert (third.kept, third.kept_bytes > second.kept_bytes) == (6, True)


# Each damage is named, and nothing is restored.
def test_a_damaged_backup_is_refused(start_broker, backups, run, tmp_path):
    broker = start_broker(*ROTATING)
    news = broker.set()
    news.post(80)
    news.wait_list_files(2)
    backups.make(broker)
    broker.stop()
    new = tmp_path / "new"
    for name in backups.files():
        whole = tmp_path / "whole"
        path = backups.directory / name
        shutil.copy2(path, whole)
        flipped = bytearray(path.read_bytes())
        flipped[len(flipped) // 2] ^= 1
        path.unlink()  # it may be a link
        path.write_bytes(flipped)
        refused = run(
            "tidingsd", "restore", backups.directory, "--data", new, status=1
        )
        assert f"damaged: {path}: " in refused.errors()
        assert not new.exists()
        path.unlink()
        refused = run(
            "tidingsd", "restore", backups.directory, "--data", new, status=1
        )
        assert f"damaged: {path}: No such file" in refused.errors()
        shutil.move(whole, path)

    manifest = backups.directory / "manifest"
    text = manifest.read_text()
    for other in (
        text.replace("000001/tidings.db", "000001/tidings.dc"),
        text.replace("000001/tidings.db", "000001/../tidings.db"),
        "".join(text.splitlines(True)[:-1]),
        text + "# more\n",
        "",
    ):
        manifest.write_text(other)
        refused = run(
            "tidingsd", "restore", backups.directory, "--data", new, status=1
        )
        assert str(manifest) in refused.errors()
        assert not new.exists()
    manifest.write_text(text)
    backups.restore(broker)


# What cannot be copied is named by both; all else is there.
def test_a_missing_file_is_named(start_broker, backups):
    broker = start_broker(*ROTATING)
    news = broker.set()
    news.post(80)
    news.wait_list_files(2)
    broker.stop()
    news.list_file(1).unlink()
    backups.make(broker, status=1)
    done = backups.restore(broker, status=1)
    missing = f"sets/{news.name}/changes/000000000001.xml.gz: No such file"
    assert f"missing: {missing}" in done.errors()
    broker.restart()
    assert broker.set(news.name).last() == 80


# So is content, and content whose bytes are not those of its name.
def test_missing_content_is_named(start_broker, backups):
    broker = start_broker(*ROTATING)
    news = broker.set().create(content="inline")
    for i in range(3):
        loc = f"http://example.com/{i}"
        body, type = multipart([change(loc)], [(loc, "text/plain", loc.encode())])
        assert news.send(body, type).status == 200
    wait_for("the content", lambda: news.state()["content"]["last"] == 3)
    broker.stop()
    gone, damaged, kept = news.folder.glob("content/*/*")
    gone.unlink()
    damaged.write_bytes(b"other")
    backups.make(broker, status=1)
    done = backups.restore(broker, status=1)
    assert f"{gone.name}: No such file" in done.errors()
    assert f"{damaged.name}: it is damaged" in done.errors()
    (restored,) = (broker.data / "sets" / news.name).glob("content/*/*")
    assert restored.name == kept.name


# A backup into, or a restore onto, the files of others touches none.
def test_other_directories_are_refused(start_broker, backups, run, tmp_path):
    broker = start_broker()
    broker.set().post()
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("mine")
    for options in ((), ("--incremental",)):
        done = run(
            "tidingsd", "backup", other, "--data", broker.data, *options, status=2
        )
        assert f"{other} is not empty, and is no backup: it has mine" in done.errors()
    backups.make(broker)
    for target, part in ((other, "it has mine"), (broker.data, "is not empty")):
        done = run(
            "tidingsd", "restore", backups.directory, "--data", target, status=2
        )
        assert part in done.errors()
    assert [path.name for path in other.iterdir()] == ["mine"]

    done = run("tidingsd", "backup", tmp_path / "b2", "--data", other, status=1)
    assert "is no data directory" in done.errors()
    done = run("tidingsd", "restore", other, "--data", tmp_path / "new", status=1)
    assert f"{other} has no backup" in done.errors()
    done = run("tidingsd", "restore", backups.directory, status=2)
    assert "--data is missing" in done.errors()
    assert not (tmp_path / "b2").exists() and not (tmp_path / "new").exists()


# While a backup copies files the broker deletes none, and posts go on; then it goes on
# deleting.
def test_nothing_is_deleted_during_a_backup(start_broker):
    broker = start_broker("--rotate-entries", 2, "--remove-grace", 0)
    news = broker.set().create(content="inline", retainLists=1)
    copying = os.open(broker.data, os.O_RDONLY)
    fcntl.flock(copying, fcntl.LOCK_SH)
    broker.wait_said("a backup copies files")
    loc = "http://example.com/a"
    for text in (b"1", b"2", b"3", b"4", b"5"):
        update = change(loc, "updated")
        body, type = multipart([update], [(loc, "text/plain", text)])
        assert news.send(body, type).status == 200
        news.build("resourcelist")
    news.wait_list_files(2)
    assert [len(files) for files in kept_files(news)] == [5, 5, 2]
    assert news.get(news.list_path(1)).status == 200
    os.close(copying)
    broker.wait_said("no backup copies files any more")
    # The first list of the day stays in the archive.
    wait_for(
        "the files to go",
        lambda: [len(files) for files in kept_files(news)] == [3, 2, 1],
    )


def kept_files(news):
    names = ("content/*/*", "resourcelist/*", "changes/*.xml.gz")
    return [list(news.folder.glob(name)) for name in names]


# a restored log that gets other entries under the numbers that readers know has
# another epoch. They take all resources anew, lose nothing and get nothing twice. What
# the key has signed stays true: the new log has the same tree up to its beginning.
def test_a_restored_log_has_a_new_epoch(mirrored, backups, run, tmp_path):
    broker, news = mirrored.broker, mirrored.set
    follow = ("tidings", "follow", news.url, "--until-caught-up", "--state", tmp_path / "state")
    mirrored.change_many(1, 3, "old")
    mirrored.sync()
    backups.make(broker)
    mirrored.change_many(3, 4, "new")
    mirrored.sync()
    key = keep_key(run, news, tmp_path / "old.key")
    assert len(run(*follow, "--from-start", *key).out) == 5
    before = news.state()
    broker.stop()
    said = backups.restore(broker).output()
    assert "its sets begin new epochs at the first start" in said
    broker.restart()
    after = news.state()
    assert after["follows"] == f"{before['epoch']}-3"
    assert after["earliest"] == after["position"] == f"{after['epoch']}-3"
    mirrored.tell("/r/4.txt")
    mirrored.change_many(3, 3, "other")
    mirrored.sync()
    gone = f"a new log that follows {before['epoch']} up to entry 3"
    assert gone in run(*follow, status=3).errors()
    assert gone in run(*follow, *key, status=3).errors()
    refused = run(*follow, *key, "--baseline", "gone", status=1)
    assert "is a new log, signed by the same key as" in refused.errors()
    assert not refused.out  # not even its baseline
    key = keep_key(run, news, tmp_path / "new.key")
    begun = run(*follow, *key, "--baseline", "gone")
    assert "no checkpoint signs a list of resources" in begun.errors()
    heard = {line.rpartition("/")[2] for line in begun.out if "baseline-" not in line}
    assert heard == {f"{n}.txt" for n in (1, 2, 3, 4)}
    assert not run(*follow, *key).out
    said = run("tidings", "verify", news.url, *key).output()
    assert "proven from the beginning to entry 5 lists=2" in said
    assert "signed up to entry 5 by" in said


def keep_key(run, news, path):
    path.write_text(run("tidingsd", "key", "show", news.name, "--data", news.broker.data).output())
    return ("--key", path)
