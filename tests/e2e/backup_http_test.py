"""POST and GET /backup: a broker makes a backup of itself, and one client fetches it."""

import contextlib
import fcntl
import hashlib
import io
import os
import tarfile

from tidings_test.backups import Backups
from tidings_test.http import check_refused
from tidings_test.waiting import wait_for


@contextlib.contextmanager
def held(broker):
    """Meanwhile a backup waits before it copies: the archive thread could be deleting."""
    lock = os.open(broker.data, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def made(broker):
    """Have a backup made; the answer with it."""
    assert broker.administrator.post("/backup").status == 202
    return fetched(broker)


def fetched(broker):
    answer = None

    def is_there():
        nonlocal answer
        answer = broker.administrator.get("/backup")
        return answer.status != 202

    wait_for("the backup", is_there)
    return answer


def is_cleared(broker):
    return not (broker.data / "outgoing").exists()


def entries_of(answer):
    assert answer.status == 200
    archive = tarfile.open(fileobj=io.BytesIO(answer.body), errorlevel=2)
    return {each.name: archive.extractfile(each).read() for each in archive}


# Closed lists, an open one, a Resource List, tokens: the restored broker has the same.
def test_a_backup_over_http_is_a_backup(start_broker, run, tmp_path):
    broker = start_broker("--rotate-entries", 10)
    news = broker.set().create()
    news.post(25)
    news.build("resourcelist")
    news.wait_list_files(2)
    broker.add_token("root", admin=True)
    answer = made(broker)
    assert answer["Content-Type"] == "application/x-tar"
    assert answer["Cache-Control"] == "no-store"
    check_refused(broker.administrator.get("/backup"), 404, "POST /backup makes one")
    wait_for("the end of the backup", lambda: is_cleared(broker))

    files = entries_of(answer)
    names = list(files)
    assert names[0] == "manifest"
    lines = files.pop("manifest").decode().splitlines()
    sums = dict(reversed(line.split("  ")) for line in lines if line[0] != "#")
    assert sums == {name: hashlib.sha256(files[name]).hexdigest() for name in files}
    assert any(name.endswith("/tokens.db") for name in files)
    backups = Backups(run, tmp_path / "backup")
    with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
        archive.extractall(backups.directory)
    backups.check_whole()

    paths = ["changes/000000000001.xml", "changelist.xml", "resourcelist.xml"]
    former = [news.get(path).body for path in paths]
    broker.stop()
    backups.restore(broker, "--same-log")
    broker.restart()
    assert [news.get(path).body for path in paths] == former
    assert news.post(1).last == 26


def test_one_backup_at_a_time(start_broker):
    broker = start_broker()
    news = broker.set().create()
    for _ in range(20):
        news.post(50, size=20000)
    with held(broker):
        assert broker.administrator.post("/backup").status == 202
        making = broker.administrator.get("/backup")
        assert (making.status, making["Retry-After"]) == (202, "1")
        check_refused(broker.administrator.post("/backup"), 409, "being made")
    wait_for("the backup", lambda: broker.administrator.head("/backup").status == 200)

    with broker.administrator.connect(narrow=True) as slow:
        slow.ask("/backup")
        assert slow.answer_head().status == 200
        check_refused(broker.administrator.post("/backup"), 409, "being sent")
        check_refused(broker.administrator.get("/backup"), 409, "being sent")
    # It was broken off: the next client gets it.
    wait_for("the end", lambda: broker.administrator.head("/backup").status == 200)
    files = entries_of(fetched(broker))
    assert sum(map(len, files.values())) > 20_000_000

    # A backup that nobody fetches is replaced by the next one.
    assert broker.administrator.post("/backup").status == 202
    wait_for("the backup", lambda: broker.administrator.head("/backup").status == 200)
    news.post(1)
    manifest = entries_of(made(broker))["manifest"].decode()
    assert f"# set {news.name} " in manifest and "-1001\n" in manifest


def test_a_broker_that_was_killed_deletes_the_backup(start_broker, run):
    broker = start_broker()
    broker.set().create().post(1)
    with held(broker):
        assert broker.administrator.post("/backup").status == 202
        wait_for("the folder", (broker.data / "outgoing" / "manifest.new").exists)
        broker.kill()
    broker.disconnect()
    broker.restart()
    assert is_cleared(broker)
    # The end of a broker ends the backup, too.
    assert broker.administrator.post("/backup").status == 202
    wait_for("the backup", lambda: broker.administrator.head("/backup").status == 200)
    assert not is_cleared(broker)
    run("tidingsd", "check", "--data", broker.data)
    broker.stop()
    assert is_cleared(broker)


def test_a_backup_that_fails_is_reported_once(start_broker):
    broker = start_broker()
    broker.set().create().post(1)
    (broker.data / "tidings.db").rename(broker.data / "hidden")
    check_refused(made(broker), 500, "tidings.db")
    check_refused(broker.administrator.get("/backup"), 404)
    (broker.data / "hidden").rename(broker.data / "tidings.db")
    assert made(broker).status == 200
