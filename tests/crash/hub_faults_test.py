"""hub.db meets faults: a disk that is full or fails while requests, deliveries and
documents are kept, a kill at any write, and files that are damaged, missing, or of
another time."""

import contextlib
import errno
import shutil
import sqlite3

import pytest

from tidings_test import hub
from tidings_test.callbacks import Held, hang, parameter
from tidings_test.faults import Faults
from tidings_test.feed import Feed
from tidings_test.http import ConnectionEnded
from tidings_test.sets import entries
from tidings_test.waiting import wait_for

DB = "hub.db"
WAL = "hub.db-wal"
PAGE = 4096

# The hub keeps some facts without an fsync; a fault of fsync does not meet those.
FAULTS = [
    (Faults.WRITE, errno.ENOSPC),
    (Faults.WRITE, errno.EIO),
    (Faults.SYNC, errno.EIO),
    (Faults.SYNC, errno.ENOSPC),
]


@pytest.fixture
def news(start_broker, faults):
    return start_broker(*hub.QUICK, *hub.LOOPBACK, env=faults.env).set().create()


def kill(broker):
    broker.kill()
    broker.restart()


def subscribe_in_vain(news, callback, **form):
    """Ask for a subscription, which cannot be kept."""
    hub.check_refused(hub.subscribe(news, callback, **form), 503, "cannot store it")


def check_goes_on(news, callback):
    """It gets new posts, and has missed none before."""
    callback.wait_last(news.post().last)
    assert callback.holes == 0


# A disk that is full, or fails


# W-031, W-032: a refused request leaves no subscription, now or later, and the hub
# accepts requests when there is room.
def test_a_request_that_cannot_be_kept_is_refused(news, callbacks, faults):
    for n, (calls, outcome) in enumerate(FAULTS):
        one = callbacks.add()
        faults.arm(calls, WAL, outcome)
        for _ in range(3):
            subscribe_in_vain(news, one)
        assert len(hub.subscriptions(news)) == n
        assert faults.disarm() >= 3
        hub.join(news, one)
        assert len(one.verifications) == 1
        one.wait_last(news.post(2).last)
    news.broker.wait_said("hub.db was not written")


# W-036, W-074: of a pair that is asked for again and again the newest request counts,
# also where one in between could not be kept, and also after a kill.
def test_an_older_request_does_not_come_back(news, callbacks, faults):
    one = callbacks.add()
    one.next(hang, hang, of="verification")
    hub.check_taken(hub.subscribe(news, one, lease=1111))
    one.verifications.wait(1)
    faults.arm(faults.WRITE, WAL, errno.ENOSPC)
    subscribe_in_vain(news, one, lease=2222)
    faults.disarm()
    hub.check_taken(hub.subscribe(news, one, lease=3333))
    assert parameter(one.verifications.wait(2), "hub.lease_seconds") == "3333"
    kill(news.broker)
    hub.wait_active(news, one)
    callbacks.join(news)  # all that came before was asked
    leases = [parameter(each, "hub.lease_seconds") for each in one.verifications]
    assert leases.count("1111") == 1 and "2222" not in leases


# W-074, R-306: the hub sends no delivery before its range is kept, and loses none.
def test_a_delivery_waits_until_its_range_is_kept(news, callbacks, faults):
    one = callbacks.join(news)
    for outcome in (errno.ENOSPC, errno.EIO):
        more = callbacks.add()
        delivered = len(one.deliveries)
        faults.arm(faults.WRITE, WAL, outcome)
        news.post(3)
        faults.wait()
        subscribe_in_vain(news, more)
        last = news.post(3).last
        hub.wait(news, one, "behind", lambda s: s["lag"] > 0)
        met = faults.met
        wait_for("the next try to fail", lambda met=met: faults.met > met)
        assert len(one.deliveries) == delivered
        faults.disarm()
        one.wait_last(last)
        assert one.holes == 0
        hub.join(news, more)
    kill(news.broker)
    check_goes_on(news, one)


# W-072, R-305, R-306: the hub writes later which subscribers have left, and the
# positions of the others.
def test_what_could_not_be_kept_is_kept_later(news, callbacks, faults):
    for calls, outcome in FAULTS:
        stays, leaves = callbacks.join(news), callbacks.join(news)
        taken, gone = Held(), Held(410)
        stays.next(taken)
        leaves.next(gone)
        n = len(hub.subscriptions(news))
        news.post()
        stays.deliveries.wait(1)
        leaves.deliveries.wait(1)
        faults.arm(calls, WAL, outcome)
        gone.release()
        taken.release()
        faults.wait()
        hub.wait_gone(news, leaves)
        assert news.broker.get("/relays").status == 200  # a report needs no disk
        faults.disarm()
        # The next write includes the outstanding ones.
        hub.check_taken(hub.subscribe(news, stays))
        kill(news.broker)

        assert hub.find(news, leaves) is None
        hub.wait_active(news, stays)
        stays.wait_last(news.post().last)
        hub.wait_count(news, n - 1)
        assert len(leaves.deliveries) == 1


# the broker answers and delivers a document only after it is kept. (After
# a failed fsync nobody knows whether the document is on the disk: after a kill it may
# be there. A Source that got 503 repeats the document, and the hub has it once.)
def test_a_document_that_cannot_be_kept_is_refused(news, site, callbacks, faults):
    feed = Feed(news.broker, site, callbacks)
    for calls, outcome in FAULTS:
        faults.arm(calls, WAL, outcome)
        assert feed.put().status == 503
        faults.disarm()
        assert news.broker.get(feed.path).status == 404
    one = feed.register().join()
    feed.accept("first")
    one.deliveries.wait(1)

    for i, (calls, outcome) in enumerate(FAULTS):
        text = f"document {i}"
        faults.arm(calls, WAL, outcome)
        assert feed.post("not kept" if calls == faults.WRITE else text).status == 503
        assert feed.post(text).status == 503
        assert faults.disarm() >= 2
        if i % 2:
            kill(news.broker)
        feed.accept(text)
        one.accepted.wait(i + 2)
        assert one.deliveries[-1].body == text.encode()
    assert b"not kept" not in [delivery.body for delivery in one.deliveries]


# Killed in the middle of a write


# W-074, W-091, R-306: whichever write is the last.
def test_a_kill_at_any_write_loses_nothing(news, callbacks, faults):
    each = [callbacks.join(news) for _ in range(4)]
    for n in range(24):
        is_sync = n % 4 == 3  # which subscriptions need, not deliveries

        def work(n=n, is_sync=is_sync):
            news.posted += 1 + n % 5
            with contextlib.suppress(ConnectionEnded, ConnectionError):
                news.send(entries(1 + n % 5, news.posted))
                if is_sync:
                    hub.subscribe(news, each[n // 4 % 4])

        if is_sync:
            faults.arm(faults.SYNC, WAL, faults.KILL, n // 8)
        else:
            faults.arm(faults.WRITE, WAL, faults.KILL, n)
        faults.provoke(work)
        assert news.broker.wait() == 128 + 9
        faults.disarm()
        news.broker.restart()
    last = news.post().last
    for callback in each:
        callback.wait_last(last)
        assert callback.holes == 0
        assert callback.history().last == last


# W-031, W-042, W-044: a fault kills the broker after it has removed the set, before the
# hub has written the removal or sent a denial.
def test_who_waited_for_a_removed_set_is_denied_after_a_kill(news, callbacks, faults):
    broker = news.broker
    waits, gets = callbacks.add(), callbacks.join(news)
    waits.next(hang, of="verification")
    hub.check_taken(hub.subscribe(news, waits))
    waits.verifications.wait(1)
    faults.arm(faults.WRITE, WAL, faults.KILL)
    with contextlib.suppress(ConnectionEnded):
        news.delete()
    assert broker.wait() == 128 + 9
    faults.disarm()
    # The hub sends no denial before it has written the removal.
    assert not len(waits.denials) and not len(gets.denials)
    broker.restart()
    for callback in (waits, gets):
        denial = callback.denials.wait(1)
        assert parameter(denial, "hub.topic") == news.topic
        assert parameter(denial, "hub.reason") == "the topic is no more"
    broker.stop()
    broker.restart()  # and that was all
    news.create()
    assert hub.subscriptions(news) == []
    hub.fence(news, callbacks.join(news))
    for callback in (waits, gets):
        assert (len(callback.denials), len(callback.deliveries)) == (1, 0)


# Files


def overwrite(at, data):
    def spoil(path):
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(data)

    return spoil


def run_sql(statement):
    def spoil(path):
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute(statement)

    return spoil


def remove_database(broker, name):
    for path in broker.data.glob(f"{name}*"):
        path.unlink()


# a damaged database does not make the hub forget its subscribers. A start ends
# with 1, prints the file and the reason, and leaves the file unchanged.
def test_a_damaged_database_is_found_at_the_start(news, callbacks, run):
    broker = news.broker
    callbacks.join(news)
    broker.stop()
    path, kept = broker.data / DB, broker.directory / "kept"
    shutil.copy(path, kept)
    cases = [
        (overwrite(0, b"This is not a database"), "not a database"),
        # The schema is on the first page, the tables on the following ones.
        *((overwrite(page * PAGE, bytes(PAGE)), "malformed") for page in (1, 2, 3)),
        (run_sql("PRAGMA user_version=99"), "version 99"),
        (run_sql("UPDATE subscriptions SET topic_kind=9"), "topic"),
        (run_sql("UPDATE subscriptions SET kind=-1"), "kind"),
        (run_sql("UPDATE subscriptions SET filter='change=foo'"), "foo"),
        (run_sql("UPDATE subscriptions SET secret=zeroblob(1000)"), "secret"),
        (run_sql("DELETE FROM cursors"), "cursor"),
    ]
    for spoil, reason in cases:
        spoil(path)
        before = path.read_bytes()
        options = ("--listen", "127.0.0.1:0", "--data", broker.data)
        done = run("tidingsd", *options, status=1)
        said = done.output() + done.errors()
        assert str(path) in said and reason in said and "ready" not in said
        assert path.read_bytes() == before
        shutil.copy(kept, path)
    broker.restart()
    assert len(hub.subscriptions(news)) == 1


# Subscribers can subscribe again, so a missing database does not prevent a start.
def test_without_its_database_the_hub_begins_anew(news, callbacks):
    one = callbacks.join(news)
    one.wait_last(news.post(2).last)
    news.broker.stop()
    remove_database(news.broker, DB)
    news.broker.restart()
    assert hub.subscriptions(news) == []
    hub.join(news, one)
    one.wait_last(news.post(2).last)


# W-042, W-044: a topic of another log is another topic, even under the same name.
def test_without_the_log_subscriptions_are_ended_and_told(news, callbacks):
    broker = news.broker
    one, waits = callbacks.join(news), callbacks.add()
    one.wait_last(news.post(2).last)
    waits.always(hang, of="verification")
    hub.check_taken(hub.subscribe(news, waits))
    waits.verifications.wait(1)
    broker.kill()
    remove_database(broker, "tidings.db")
    # A state that the archive thread has written already would stop the start.
    shutil.rmtree(broker.data / "sets", ignore_errors=True)
    broker.restart()

    for callback in (one, waits):
        assert parameter(callback.denials.wait(1), "hub.topic") == news.topic
    news.create()
    assert hub.subscriptions(news) == []
    news.post()
    hub.fence(news, callbacks.join(news))
    assert len(one.deliveries) == 1
