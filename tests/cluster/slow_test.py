"""A cluster with a slow line between a broker and PostgreSQL, beside old transactions,
and with a server that stops to wait for its standbys: posts go on, and nothing is shown
that gets lost."""

import contextlib
import itertools
import random
import string
import time

import pytest

from tidings_test.harms import forget_standbys, narrow, set_names, stop_standbys
from tidings_test.http import JSON
from tidings_test.proxy import DOWN, UP
from tidings_test.publishers import post_until_accepted
from tidings_test.sets import Set, change
from tidings_test.soak import choices, soak
from tidings_test.storm import Storm
from tidings_test.waiting import wait_for

RATE = 2000000  # bytes a second
LARGE = soak(5000000, 33000000)  # takes longer than any patience of a broker
CHOSEN = random.Random(48)


def large(size, first=1):
    """Changes of that many bytes in all, which nobody can deflate by much."""
    letters = string.ascii_letters + string.digits + "-_"
    filling = {"ns": "urn:example", "name": "filling"}

    def entry(n):
        value = "".join(CHOSEN.choices(letters, k=50000))
        return change(f"http://example.com/large/{n}", attributes=[filling | {"value": value}])

    return [entry(first + n) for n in range(size // 50000)]


KEYS = (f"slow-{n}" for n in itertools.count())


def post(member, body):
    """Beside other tests PostgreSQL may be silent for longer than the broker waits."""
    return post_until_accepted(member, Set(member, "news"), body, next(KEYS))


def post_large(member, size):
    return post(member, large(size))


# Pieces are applied as they come, and a wait counts from the last bytes.
def test_a_broker_far_behind_follows_over_a_slow_line(start_cluster):
    cluster = start_cluster()
    one, _, three = cluster.members
    cluster.wait_same()
    three.cut_off()
    last = [post_large(one, LARGE // 4).last for _ in range(4)][-1]
    three.narrow(RATE)
    three.reconnect()
    news = Set(three, "news")
    shown = set()

    def look():
        answer = news.broker.get(news.path)
        shown.add(answer.json()["last"] if answer.status == 200 else 0)
        return last in shown

    wait_for("the last entry", look)
    assert len(shown) > 2, "nothing was applied before all was there"
    three.narrow(None)
    cluster.wait_same()


# So are the pieces of one large record.
def test_a_large_post_is_taken_over_a_slow_line(start_cluster):
    cluster = start_cluster()
    one = cluster.members[0]
    cluster.wait_same()
    one.narrow(RATE)
    assert post_large(one, LARGE).last == LARGE // 50000
    assert post_large(one, LARGE).last == 2 * (LARGE // 50000)
    cluster.members[1].narrow(RATE)  # it reads what it may not know of yet
    assert post_large(cluster.members[1], 50000).last == 2 * (LARGE // 50000) + 1
    for member in cluster.members[:2]:
        member.narrow(None)
    cluster.wait_same()


# A line that drips does not count as one that moves.
@pytest.mark.parametrize("size", [0, LARGE], ids=["small", "large"])
def test_a_line_that_drips_is_given_up(start_cluster, size):
    cluster = start_cluster()
    one, two, _ = cluster.members
    cluster.wait_same()
    one.narrow(400)
    answer = Set(one, "news").send(large(size) or [change("http://example.com/")], JSON)
    assert answer.status == 503, answer
    for member in (two, one):  # the server takes the turn away, and the line is well
        news = Set(member, "news")
        wait_for("a post", lambda: news.send([change("http://example.com/")]).status == 200)
        one.narrow(None)
    cluster.wait_same()


# A busy server has some seconds for a connection, also beside silent ones.
@pytest.mark.parametrize("seconds, are_silent", [(1, False), (2.5, True)])
def test_a_server_is_slow_to_connect(start_cluster, trio, seconds, are_silent):
    cluster = start_cluster()
    one = cluster.members[0]
    cluster.wait_same()
    one.delay(seconds)
    if are_silent:
        for name in trio.standbys:
            one.ways[name].stall(UP)
    one.reset_connections()
    assert post(one, [change("http://example.com/slow")]).last == 1
    one.delay(0)
    one.reconnect()
    cluster.wait_same()


# What a large record has of the first attempt, which others overtake, goes
# to the journal again before the turn.
def test_a_large_post_keeps_nobody_waiting(start_cluster, background):
    cluster = start_cluster()
    one, two, _ = cluster.members
    post(two, [change("http://example.com/one")])  # the bulk of a new set's is another one
    cluster.wait_same()
    one.narrow(RATE)

    def sent():
        return sum(way.passed[UP] for way in one.ways.values())

    before = sent()
    posting = background(post_large, one, LARGE)
    seen = []
    for part in (0.3, 1.2):  # of about 0.75: in the first attempt, and in the second
        wait_for("a part of the post", lambda: sent() - before >= part * LARGE)
        one.cut_off(UP)
        post(two, [change("http://example.com/two")])
        seen.append(sent() - before)
        one.reconnect()
    posting.join()
    (largest,) = cluster.query(
        "SELECT encode(substr(record, 1, 1), 'hex'), length(record) FROM tidings_records"
        " ORDER BY length(record) DESC LIMIT 1"
    )
    version, size = largest.split("|")
    assert version == "06", "nobody overtook it"
    assert 1.2 * int(size) < seen[1] < 1.8 * int(size), seen
    one.narrow(None)
    cluster.wait_same()


# While a post is on its way no broker signs that there is no such entry. The
# time is the journal's: the clock of a broker may differ from it.
def test_no_entry_is_earlier_than_a_signed_time(start_cluster, background, faults):
    cluster = start_cluster(names="a")
    faults.set_clock(20)
    cluster.env = faults.env
    one, two = cluster.members[0], cluster.add_member("b")
    one.narrow(RATE)
    first = post(one, large(50000)).last
    Set(two, "news").wait_last(first)

    def signed(member):
        """The time until which the set had `first` entries, if it is known."""
        answer = member.get("/sets/news/checkpoint")
        assert answer.status in (200, 503), answer
        is_first = answer.text.split("\n")[1:2] == [str(first)]
        return answer["Tidings-As-Of"] if is_first else ""

    for member in (one, two):
        wait_for("a checkpoint", lambda: signed(member))
    posting = background(post_large, one, LARGE)
    seen = []
    while posting.is_running:
        seen.append(signed(two))
    one.narrow(None)
    last = posting.join().last
    Set(two, "news").wait_last(last)
    later = Set(two, "news").page(f"after={first}").entries
    assert max(seen) and max(seen) <= later[0].datetime, (max(seen), later[0])
    first = last
    wait_for("a time after the last change", lambda: signed(two) > later[-1].datetime)


# A broker that has a post and lacks megabytes reads them without the turn.
def test_a_slow_broker_keeps_nobody_waiting(start_cluster, background):
    cluster = start_cluster()
    one, two, three = cluster.members
    cluster.wait_same()
    three.cut_off()
    last = [post_large(one, LARGE // 4).last for _ in range(4)][-1]
    three.narrow(RATE)
    passed = sum(way.passed[DOWN] for way in three.ways.values())
    three.reconnect()

    def post():
        answer = Set(three.client_in_front(), "news").send([change("http://example.com/three")])
        return answer.status != 503 and answer

    posting = background(wait_for, "a post of the slow broker", post)
    wait_for(
        "the slow broker to read",
        lambda: sum(way.passed[DOWN] for way in three.ways.values()) > passed + 300000,
    )
    for n in range(20):
        began = time.monotonic()
        last = Set(two, "news").post(1).last
        assert time.monotonic() - began < 1.5
    assert posting.is_running
    assert posting.join().status == 200
    three.narrow(None)
    cluster.wait_same()


@contextlib.contextmanager
def old_transaction(cluster):
    """A transaction that sees the database as it is now, as pg_dump does."""
    server = cluster.trio.servers[cluster.trio.primary]
    with contextlib.closing(server._connect(cluster.database)) as connection:
        connection.set_session(isolation_level="REPEATABLE READ")
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM tidings_records")
            yield


# Rows that are written with each post would pile up beside it.
def test_no_row_is_written_again_with_each_post(start_cluster):
    cluster = start_cluster()
    n = 200
    look = "SELECT ctid, xmin FROM tidings_turn"
    before = cluster.query(look)
    with old_transaction(cluster):
        for member in cluster.members[:2] * (n // 2):
            Set(member, "news").post(1)
        assert cluster.query(look) == before
        written = (
            "SELECT coalesce(sum(n_tup_upd), 0) < 100 FROM pg_stat_user_tables"
            " WHERE relname <> 'tidings_brokers'"
        )
        assert cluster.query(written) == ["t"]
        age = "tidings_cluster_oldest_transaction_seconds"
        for member in cluster.members:
            wait_for("the age", lambda: member.metrics()[age] > 1)
    for member in cluster.members:
        wait_for("its end", lambda: member.metrics()[age] < 1)
    cluster.wait_same()


# A manager empties the names for a primary without standbys. What it commits
# then is seen by all who ask it, and is lost with it: no broker shows it. Also not when
# the names are back, and no standby has come yet.
@pytest.mark.parametrize("come_back", [False, True], ids=["empty", "back"])
def test_no_broker_shows_what_one_machine_alone_has(start_cluster, trio, come_back):
    cluster = start_cluster()
    for member in cluster.members:
        Set(member, "news").post(1)
    cluster.wait_same()
    stop_standbys(trio)
    set_names(trio, "")
    wait_for("the setting", lambda: trio.query("SHOW synchronous_standby_names") == [""])
    # Not by a broker: it would not try. One that reads this record says so.
    cluster.query(
        "INSERT INTO tidings_records(n, chain, broker, bytes, record)"
        " SELECT n + 1, sha256(chain || '\\x00'::bytea), 'z', bytes, '\\x00'"
        " FROM tidings_records ORDER BY n DESC LIMIT 1; NOTIFY tidings_records"
    )
    if come_back:
        set_names(trio, None)
    # Each of them looks, also with the turn of a post.
    for member in cluster.members:
        assert Set(member, "news").send([change("http://example.com/")]).status == 503
        assert not member.has_said("a commit of another broker cannot be followed")
    trio.lose_primary()
    trio.promote()
    trio.repair()
    for member in cluster.members:
        wait_for(
            f"a post of {member}",
            lambda: Set(member, "news").send([change("http://example.com/")]).status == 200,
        )
    cluster.wait_same()


@pytest.mark.parametrize("harm, rounds", [(narrow, 20), (forget_standbys, 10)])
def test_a_storm_over_slow_lines_and_forgetful_servers(start_cluster, harm, rounds):
    chosen = choices()
    cluster = start_cluster("--rotate-entries", 500)
    storm = Storm(cluster, "news", chosen)
    for _ in range(soak(2, rounds)):
        storm.wait_answers(chosen.randint(1, 60))
        repairing = harm(cluster, chosen)
        next(repairing)
        storm.wait_answers(30)
        next(repairing, None)
    storm.wait_answers(20)
    storm.end()
