"""Whatever keeps a broker from its work, the others do it, also one alone: each state of a
broker is a row. It owns nothing then, `cluster status` names the state and a remedy and ends
with 1, and callbacks of all parts of the hub get what is posted at another broker."""

import dataclasses
import itertools
import os
import sqlite3
import typing

import pytest

from tidings_test import hub
from tidings_test.faults import Faults
from tidings_test.sets import Set, change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

PARTS = 16


def post(member, **more):
    """Post until it is acknowledged."""
    news = Set(member, "news")
    body = change("http://example.com/", **more)
    answer = wait_for(
        f"a post at {member}", lambda: (said := news.send(body)).status == 200 and said
    )
    return news.receipt(answer).last


def post_much(member, size):
    """Entries of so many bytes, which cannot be deflated to less than half."""
    for _ in range(size // 100000):
        value = os.urandom(50000).hex()
        post(member, attributes=[{"ns": "urn:example", "name": "x", "value": value}])


def behind(cluster, one, other):
    one.narrow(60000)
    post_much(other, soak(4000000, 20000000))
    yield
    one.narrow(None)


def catching_up(cluster, one, other):
    one.stop()
    post_much(other, soak(4000000, 20000000))
    one.narrow(60000)
    one.restart()
    yield
    one.narrow(None)


def other_history(cluster, one, other):
    cluster.wait_same(other, one)
    one.stop()
    with sqlite3.connect(one.data / "tidings.db") as copy:
        before = copy.execute("SELECT chain FROM place").fetchone()
        copy.execute("UPDATE place SET chain = randomblob(32)")
    one.restart()
    yield
    one.stop()
    with sqlite3.connect(one.data / "tidings.db") as copy:
        copy.execute("UPDATE place SET chain = ?", before)
    one.restart()


def forgotten(cluster, one, other):
    """Only another copy helps: the test ends with one broker less."""
    cluster.wait_same(other, one)
    one.stop()
    post(other), post(other)
    serving = [each for each in cluster.others(one) if each.get("/readyz?for=reads").status == 200]
    cluster.wait_same(other, *serving)
    forget = "DELETE FROM tidings_records WHERE n < (SELECT max(n) FROM tidings_records)"
    cluster.query(forget)
    one.restart()
    yield
    one.stop()
    cluster.members.remove(one)
    one.end()
    cluster.query(f"DELETE FROM tidings_brokers WHERE name = '{one.name}'")


def no_turns(cluster, one, other):
    faults = Faults(one.directory)
    faults.set_clock(-3600)
    one.stop()
    one.env = faults.env
    one.restart()
    yield
    faults.set_clock(0)


def as_account(cluster, one, *rights):
    """Let it use an account of PostgreSQL with these rights on the tables."""
    role = f"weak_{one.name}"
    cluster.query(
        f"DO $$ BEGIN CREATE ROLE {role} LOGIN;"
        " EXCEPTION WHEN duplicate_object THEN END $$;"
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {role};"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role};"
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role};"
        + ";".join(f"{right} FROM {role}" for right in rights)
    )
    former = list(one.options)
    one.stop()
    weak = one.journal.replace("user=postgres", f"user={role}")
    one.options = [weak if each == one.journal else each for each in one.options]
    one.restart()
    yield
    cluster.query(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
    one.stop()
    one.options = former
    one.restart()


def no_right_to_records(cluster, one, other):
    return as_account(cluster, one, "REVOKE INSERT ON tidings_records")


def no_right_to_notes(cluster, one, other):
    return as_account(cluster, one, "REVOKE INSERT ON tidings_notes")


def no_room(cluster, one, other):
    faults = Faults(one.directory)
    one.stop()
    one.env = faults.env
    one.restart()
    wait_for("its share", lambda: one.name in owners(cluster))
    faults.set_disk(1 << 20)
    yield
    faults.set_disk(0)


def cut_off(cluster, one, other):
    """PostgreSQL knows that its sessions have ended."""
    for way in one.ways.values():
        way.go_down()
    yield
    for way in one.ways.values():
        way.listen()


def heard_of_no_more(cluster, one, other):
    """PostgreSQL does not know that it hears nothing."""
    one.cut_off()
    yield
    one.reconnect()


def stands_still(cluster, one, other):
    one.process.halt()
    yield
    one.process.go_on()


@dataclasses.dataclass
class State:
    name: str  # in GET /cluster of another broker
    harm: typing.Callable
    said: str  # of its line in `cluster status`
    why: str  # a word of the reason that it reports; "": none
    alert: str  # the metric that is 1 at the broker; "": nobody can ask it
    ready: int = 503  # /readyz?for=reads

    def __str__(self):
        return self.harm.__name__


UNABLE = "tidings_cluster_unable"

STATES = (
    State("behind", behind, "is behind", "it lacks", UNABLE, 200),
    State("catching-up", catching_up, "is catching up", "it lacks", UNABLE, 200),
    State("other-history", other_history, "has another history", "history", UNABLE),
    State("needs-backup", forgotten, "needs a backup", "does not keep", UNABLE),
    State("no-turns", no_turns, "gets no turns", "clock", UNABLE, 200),
    State(
        "no-right", no_right_to_records, "has not the rights", "INSERT", UNABLE, 200
    ),
    State("no-right", no_right_to_notes, "has not the rights", "notes", UNABLE, 200),
    State("no-room", no_room, "has no room", "nearly full", UNABLE, 200),
    State("away", cut_off, "is away", "", UNABLE, 200),
    State("stands-still", heard_of_no_more, "stands still", "", UNABLE, 200),
    State("stands-still", stands_still, "stands still", "", ""),
)


# By twos: each row with its neighbour, at night each with each. What the journal forgets is
# forgotten first, because another broker may lack it, too.
TWOS = soak(
    zip(STATES[::2], STATES[1::2] + STATES[:1], strict=True),
    itertools.combinations_with_replacement(STATES, 2),
)
PAIRS = (sorted(pair, key=lambda one: one.harm != forgotten) for pair in TWOS)


@pytest.mark.parametrize(
    "states",
    (*((state,) for state in STATES), *PAIRS),
    ids=lambda states: "-and-".join(map(str, states)),
)
def test_others_do_the_work_of_brokers_that_cannot(start_cluster, callbacks, run, states):
    cluster = start_cluster(*hub.QUICK, "--cluster-stale", 0)
    news = Set(cluster.members[0], "news").create()
    cluster.wait_same()
    joined = [callbacks.add() for _ in range(PARTS)]
    for callback in joined:
        hub.join(news, callback)
    cluster.wait_shares()
    one = cluster.owner("hub/0")
    *others, able = cluster.others(one)
    harmed = list(zip((one, *others), states, strict=False))

    def wait_delivered(member):
        last = post(member)
        for callback in joined:
            callback.wait_last(last)
            assert callback.holes == 0

    repairs = [state.harm(cluster, one, able) for one, state in harmed]
    for repairing in repairs:
        next(repairing)
    names = {one.name for one, _ in harmed}
    wait_for("no leases", lambda: names.isdisjoint(owners(cluster)))
    wait_delivered(able)
    for one, state in harmed:
        check_state(one, state, able)
    address = able.journal
    said = run("tidingsd", "cluster", "status", "--cluster", address, status=1).out
    for one, state in harmed:
        line = next(n for n, line in enumerate(said) if f"broker {one.name}:" in line)
        assert said[line].startswith(f"broker {one.name}: {state.said}")
        below = [row.strip().split(": ")[0] for row in said[line + 1 : line + 3]]
        assert "remedy" in below and (not state.why or below[0] == "reason")
    assert sum(row.startswith("  ") for row in said) <= 2 * len(harmed)  # of no other

    for repairing in repairs:
        next(repairing, None)
    n = len(cluster.members)
    wait_for("the shares", lambda: len(set(owners(cluster))) == n)
    wait_delivered(cluster.members[0])
    wait_for("a status without a fault", lambda: not faults_of(run, able))


def check_state(one, state, able):
    """What the broker says of itself, and what another says of it."""

    def look():
        rows = able.get("/cluster").json()["brokers"]
        row = next(row for row in rows if row["name"] == one.name)
        return row["state"] == state.name and state.why in row.get("why", "")

    wait_for(f"the state of {one}", look)
    if state.alert:
        wait_for("the metric", lambda: one.metrics()[state.alert] == 1)
        ready = one.get("/readyz")
        assert ready.status == 503 and state.why in ready.text
        assert one.get("/readyz?for=reads").status == state.ready


def faults_of(run, member):
    asked = ("cluster", "status", "--cluster", member.journal)
    out = run("tidingsd", *asked, status=None).out
    return [line for line in out if line.startswith("  ")]


def owners(cluster):
    return cluster.query(
        "SELECT broker FROM tidings_leases WHERE name LIKE 'hub/%' AND until > now()"
    )
