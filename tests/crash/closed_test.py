"""A broker that was closed to requests without a token stays closed, whatever becomes of
its tokens: the store remembers it. Only `tidingsd token open-again` opens it."""

import errno
import shutil
import sqlite3

import pytest

from tidings_test.backups import Backups
from tidings_test.http import ConnectionEnded

CHANGE = {"changes": [{"loc": "http://a.example/", "change": "created"}]}


def remove(file):
    file.unlink()


def empty(file):
    file.write_bytes(b"")


def cut(file):
    file.write_bytes(file.read_bytes()[:5000])


def cut_short(file):
    file.write_bytes(file.read_bytes()[:50])


def fill(file):
    file.write_bytes(b"x" * 8192)


def make_new(file):
    """The tokens of a broker that never had one."""
    with sqlite3.connect(file) as db:
        db.execute("DELETE FROM tokens")
        db.execute("DELETE FROM sqlite_sequence")
    db.close()


SPOILS = (remove, empty, cut, cut_short, fill, make_new)


def spoil_tokens(spoil, data):
    for file in data.glob("tokens.db-*"):
        file.unlink()
    spoil(data / "tokens.db")


def starts(broker):
    """False: it does not start, and says why."""
    broker.disconnect()
    try:
        broker.start()
    except AssertionError:
        assert broker.process.wait() == 1
        assert "tokens.db" in broker.process.err[-1], broker.process.errors()
        return False
    return True


def check_closed(broker):
    assert broker.get("/sets", authorization=None).status == 401
    posted = broker.post("/sets/news/changes", CHANGE, authorization=None)
    assert posted.status == 401
    assert broker.get("/readyz", authorization=None).status == 200


# The store remembers, in each state of tokens.db; so do its backup and what comes of it.
@pytest.mark.parametrize("spoil", SPOILS)
def test_no_loss_of_tokens_opens_a_broker(spoil, start_broker, run, tmp_path):
    broker = start_broker("--insecure-open")
    backups = Backups(run, tmp_path / "backup")
    token = broker.add_token("root", admin=True)
    check_closed(broker)
    for end in (broker.stop, broker.kill):
        end()
        spoil_tokens(spoil, broker.data)
        if starts(broker):
            check_closed(broker)
            broker.wait_said("stays closed")
            assert broker.get("/sets", authorization=f"Bearer {token}").status == 401
            backups.make(broker, *(["--incremental"] if end == broker.kill else []))
            broker.token = None
            broker.add_token("root", admin=True)  # the operator, by the control socket
            token = broker.token
            assert broker.get("/sets").status == 200
        else:
            broker.process.wait()
            (broker.data / "tokens.db").unlink()
            assert starts(broker)
            broker.token = None
            token = broker.add_token("root", admin=True)
    broker.stop()
    if backups.directory.exists():
        backups.restore(broker)
        assert starts(broker)
        check_closed(broker)


def test_a_restored_broker_stays_closed(start_broker, run, tmp_path):
    broker = start_broker()
    backups = Backups(run, tmp_path / "backup")
    broker.add_token("root", admin=True)
    assert broker.delete("/tokens/root").status == 204
    backups.make(broker)
    broker.stop()
    for spoil in SPOILS[:2]:
        backups.restore(broker)
        spoil(broker.data / "tokens.db")
        assert starts(broker)
        check_closed(broker)
        broker.stop()
        shutil.rmtree(broker.data)


# --closed: nobody is let in between the first start and the first token, nor after
# the option is gone.
def test_it_is_closed_from_its_first_start(start_broker):
    broker = start_broker("--closed", "--public-url", "http://example.org")
    check_closed(broker)
    broker.wait_said("stays closed")
    broker.stop()
    broker.set_options()
    assert starts(broker)
    check_closed(broker)
    broker.add_token("root", admin=True)
    assert broker.get("/sets").status == 200
    check_closed(broker)


# Made by the command, without a broker.
def test_a_token_of_no_broker_counts(start_broker, run, tmp_path):
    data = tmp_path / "broker0/data"
    run("tidingsd", "token", "add", "press", "--publish", "*", "--data", data)
    for file in data.glob("tokens.db*"):
        file.unlink()
    check_closed(start_broker())


# A release before this one had tokens, and no memory of them in the store. They hold
# also while the disk is full, or fails.
def test_tokens_of_an_earlier_version_count(start_broker, faults):
    broker = start_broker(env=faults.env)
    broker.add_token("root", admin=True)
    broker.stop()
    with sqlite3.connect(broker.data / "tidings.db") as db:
        assert db.execute("DELETE FROM guard").rowcount == 1
    db.close()
    faults.set_disk(1)
    assert starts(broker)
    assert broker.get("/sets", authorization=None).status == 401
    assert broker.get("/sets").status == 200
    broker.stop()
    faults.set_disk(0)
    assert starts(broker)
    broker.stop()
    spoil_tokens(remove, broker.data)
    assert starts(broker)
    check_closed(broker)


def test_it_opens_again_on_purpose_alone(start_broker, run):
    broker = start_broker()
    command = ("tidingsd", "token", "open-again", "--data", broker.data)
    broker.add_token("root", admin=True)
    assert "is in use by process" in run(*command, status=1).errors()
    broker.stop()
    assert "revoke them first" in run(*command, status=1).errors()
    run("tidingsd", "token", "revoke", "root", "--data", broker.data)
    broker.token = None
    assert starts(broker)
    check_closed(broker)
    broker.stop()
    run(*command)
    assert starts(broker)
    assert broker.post("/sets/news/changes", CHANGE).status == 200
    broker.add_token("root", admin=True)
    check_closed(broker)


# The store comes first: there is no token that it does not know of.
@pytest.mark.parametrize("file", ["tidings.db", "tokens.db"])
def test_a_token_is_made_whole_or_not_at_all(file, start_broker, faults):
    broker = start_broker(env=faults.env)
    broker.set("news").create()
    operator = broker.operator
    faults.arm(faults.SYNC, f"{file}-wal", errno.EIO)
    try:
        made = operator.post("/tokens", {"name": "root", "admin": True})
        assert made.status in (500, 503), made
    except ConnectionEnded:
        pass  # the log cannot know what is on the disk
    assert faults.disarm()
    broker.kill()
    assert starts(broker)
    found = broker.operator.get("/tokens").json()["tokens"]
    is_open = broker.get("/sets").status == 200
    assert not (is_open and found)
    broker.add_token("root", admin=True)
    check_closed(broker)
    broker.stop()
    spoil_tokens(remove, broker.data)
    assert starts(broker)
    check_closed(broker)
