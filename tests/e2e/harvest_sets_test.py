"""tidings harvest posts the changes of a set into another, once, in order: between
brokers that are killed, after any write of its state, and at any time."""

import errno
import random
import sqlite3

import pytest

from tidings_test.http import JSON
from tidings_test.sets import change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for


class Harvest:
    """tidings harvest from one set to another; `state` is the file of its state."""

    def __init__(self, programs, source, target, state):
        self._run, self._start = programs
        self.source = source
        self.target = target
        self.state = state
        self.process = None

    def arguments(self):
        return "harvest", self.source.url, self.target.url, "--state", self.state

    def start(self):
        self.process = self._start("tidings", *self.arguments())

    def kill(self):
        self.process.kill()

    def run(self, status=0, **options):
        """Harvest until it has caught up; the program that has ended."""
        options = {"status": status, **options}
        return self._run("tidings", *self.arguments(), "--once", **options)

    def sql(self, *statement):
        """Run a statement in its state; the rows."""
        with sqlite3.connect(self.state) as database:
            rows = database.execute(*statement).fetchall()
        database.close()
        return rows


@pytest.fixture
def harvest(broker, run, start, tmp_path):
    """A harvest from one set of a broker to another; its target is made by a post."""
    return Harvest((run, start), broker.set(), broker.set(), tmp_path / "harvest")


@pytest.fixture
def ring(start_broker, run, start, tmp_path):
    """A set on each of three brokers, and the harvests from each to the next."""
    sets = [start_broker("--rotate-entries", "10000").set("news") for _ in range(3)]
    return sets, [
        Harvest((run, start), sets[i], sets[(i + 1) % 3], tmp_path / f"harvest{i}")
        for i in range(3)
    ]


def check_all(one_set, n):
    """The set has all of `n` entries as post() makes them, in order, once."""
    locs = one_set.changelists().read().history.locs()
    assert locs == [f"http://example.com/r/{i}" for i in range(1, n + 1)]


# Between brokers


# along a chain of three brokers.
def test_a_chain_keeps_via_and_drops_what_is_not_true_any_more(ring):
    (first, *others), harvests = ring
    more = {
        "length": 3,
        "tags": ["x"],
        "datetime": "2026-01-01T00:00:00Z",
        "links": [
            {"rel": "collection", "href": "http://c/"},
            {"rel": "describes", "href": "http://d/"},
        ],
        "attributes": [{"ns": "u:x", "name": "n", "value": "v"}],
    }
    changes = [
        change("http://a.example/1", "updated", **more),
        change("http://a.example/2", "deleted"),
    ]
    assert first.send(changes).status == 200
    others[0].create()
    harvests[0].start()
    harvests[1].start()
    others[1].wait_last(2)
    for each in others:
        text = each.broker.get(f"{each.changes}?after=0").text
        assert text.count('"rel":"via"') == 2
        for via in ('1","length":3}', '2"}'):
            assert text.count(f'{{"rel":"via","href":"http://a.example/{via}') == 1
        assert "collection" not in text
        assert "2026-01-01T00:00:00" not in text
        assert '"rel":"describes"' in text
        assert '"tags":["x"]' in text
        assert '{"ns":"u:x","name":"n","value":"v"}' in text
        assert text.count("urn:tidings:relay:1") == 2


# The path is kept for any document of a set where the harvest begins.
def test_a_set_is_known_by_its_capability_list(harvest):
    harvest.source.post(1)
    epoch = harvest.source.state()["epoch"]
    harvest.source.url += "/capabilitylist.xml"
    harvest.run()
    page = harvest.target.get("changes?after=0", accept=JSON).json()
    assert [one["value"] for one in page["changes"][0]["attributes"]] == [epoch]


# No set gets an entry again.
def test_a_ring_comes_to_rest(ring):
    sets, harvests = ring
    for i, each in enumerate(sets):
        each.post(10, 10 * i + 1)
    for one in harvests:
        one.start()
    for each in sets:
        each.wait_last(30)

    # One more goes all the way round behind all others.
    sets[0].post(1, 31)
    sets[2].wait_last(31)
    sets[2].post(1, 32)
    for each in sets:
        each.wait_last(32)


# changes go through two harvests, while harvests and brokers are killed by
# chance: each is at the end once, in its order.
def test_nothing_is_lost_or_doubled_whoever_is_killed(ring):
    sets, harvests = ring
    chance = random.Random(12345)
    for each in sets:
        each.create()
    harvests[0].start()
    harvests[1].start()
    for _ in range(soak(10, 100)):
        sets[0].post(500)
        what = chance.randrange(4)
        if what == 0:
            victim = chance.choice(harvests[:2])
            victim.kill()
            victim.start()
        elif what == 1:
            victim = chance.choice(sets).broker
            victim.kill()
            victim.restart()
    n = sets[0].posted
    for each in sets[1:]:
        each.wait_last(n)
    for each in sets:
        check_all(each, n)
    page = sets[2].broker.get(f"{sets[2].changes}?after={n - 1000}").text
    assert page.count('"rel":"via"') == 1000


# Refusals, and their reports


# the source was made anew, and has no list of its resources: its whole history
# says what it has. What the set has already is not posted again.
def test_a_source_that_is_made_anew_is_compared_by_its_history(harvest):
    harvest.target.post(1, 100)
    harvest.source.post(150)
    harvest.run()
    assert harvest.source.delete().status == 204
    harvest.source.post(145, 3)
    harvest.source.post_change("http://example.com/r/3", "deleted")
    harvest.source.post_change("http://example.com/new")
    assert "comparing all resources" in harvest.run().errors()
    harvest.target.wait_last(151 + 7)
    entries = harvest.target.changelists().read().history.entries[151:]
    told = {entry.loc.rpartition("/")[2]: entry.change for entry in entries}
    gone = ("1", "2", "3", "148", "149", "150")
    assert told == {"new": "created"} | {name: "deleted" for name in gone}
    harvest.run()
    harvest.target.wait_last(151 + 7)


# the source has forgotten the changes after the harvest's position. The target is
# this harvest's alone: the harvest compares all resources with it, and goes on from there.
def test_a_history_that_is_gone_is_bridged_by_all_resources(harvest):
    harvest.source.create(retain_lists=1)
    harvest.source.post(10)
    harvest.run()
    harvest.source.post_change("http://example.com/r/1", "deleted")
    harvest.source.post_change("http://example.com/r/2", "updated", length=3)
    harvest.source.rotate()
    harvest.source.post(1, 11)
    harvest.source.rotate()
    wait_for("a list", lambda: harvest.source.state()["lists"]["closed"] == 1)
    harvest.source.build("resourcelist")
    assert "1 added, 1 changed, 1 deleted" in harvest.run().output()
    harvest.target.wait_last(13)
    harvest.source.post(1, 12)
    assert harvest.run().errors() == ""
    harvest.target.wait_last(14)


# The set gets everything again.
def test_a_target_that_is_gone_or_another_is_reported(harvest):
    harvest.source.post(10)
    assert harvest.run().errors() == ""
    assert harvest.target.delete().status == 204
    assert "the set was removed" in harvest.run().errors()
    harvest.target.wait_last(10)
    assert harvest.target.delete().status == 204
    harvest.target.post(3)
    assert "the set was made anew" in harvest.run().errors()
    harvest.source.post()
    assert harvest.run().errors() == ""
    harvest.target.wait_last(3 + 11)


# An entry that has as many attributes as an entry may have has no room for its path.
# Nothing goes past it.
def test_the_change_that_the_target_refuses_is_reported(harvest):
    receipt = harvest.source.post()
    harvest.run()
    most = [{"ns": "u:x", "name": f"n{i}", "value": "v"} for i in range(64)]
    changes = [change(f"http://a.example/{i}", "updated") for i in (1, 2, 3)]
    changes[1]["attributes"] = most
    assert harvest.source.send(changes).status == 200
    for _ in range(2):
        refused, why = harvest.run(status=1).err
        assert refused.startswith("tidings: 422: entry 2")
        assert why == (
            'tidings: the set refuses "http://a.example/2", and with it a post of 3 '
            f"entries; it has all changes up to {receipt.position}"
        )
        harvest.target.wait_last(1)


def test_what_makes_no_sense_is_refused(harvest):
    harvest.target = harvest.source
    harvest.run(status=2)

    # The same set by another name.
    harvest.source.post(10)
    harvest.target = harvest.source.broker.set(harvest.source.name)
    harvest.target.url = harvest.source.url.replace("127.0.0.1", "localhost")
    assert "the two sets are one" in harvest.run(status=2).errors()
    harvest.source.wait_last(10)


# A post with a lost answer


# The harvest looks for a post whose answer was lost more than a day ago in the target,
# which has forgotten its key.
def test_an_old_post_is_looked_for_in_the_target(harvest):
    harvest.source.post(10)
    harvest.run()
    harvest.target.wait_last(10)

    # The state after the post was sent and before it was answered, but with a key that
    # the target does not know.
    harvest.sql("UPDATE target SET position = substr(position, 1, 17) || '0'")
    harvest.target.post(5, 100)
    text = harvest.target.broker.get(f"{harvest.target.changes}?after=0", accept=JSON).text
    begin = text.index('"changes":[') + len('"changes":')
    end = text.rindex("{", 0, text.index("http://example.com/r/100")) - 1
    harvest.sql(
        "INSERT INTO post VALUES ('0123456789abcdef0123456789abcdef', '', 1000, 10, ?1)",
        (f"{text[begin:end]}]\n".encode(),),
    )
    assert "looking for it" in harvest.run().errors()
    harvest.target.wait_last(15)  # not 25

    harvest.source.post()
    harvest.run()
    harvest.target.wait_last(16)


# the harvest is killed at each of its writes to the state, one after the other,
# also where the target has a post and the state does not say so: the harvest sends the
# same post again, and the target keeps it once.
def test_a_post_that_was_not_recorded_is_not_kept_twice(harvest, faults):
    harvest.source.post(10)
    harvest.run()
    between = writes = 0
    while True:
        harvest.source.post()
        faults.arm(faults.WRITE, "/harvest", faults.KILL, after=writes, once=True)
        ended = harvest.run(status=None, env=faults.env).status
        if faults.disarm() == 0:
            break
        assert ended == 128 + 9
        is_posted = harvest.target.last() == harvest.source.posted
        between += is_posted and harvest.sql("SELECT count(*) FROM post") == [(1,)]
        harvest.run()
        harvest.target.wait_last(harvest.source.posted)
        writes += 1
    assert ended == 0
    assert between > 0
    check_all(harvest.target, harvest.source.posted)


# The same where the harvest lives on to say so; and nothing is posted that is not in the
# state.
@pytest.mark.parametrize(
    "call, after, number, why, last",
    [
        # Before it: the log's header, and the sealed post.
        ("SYNC", 2, errno.EIO, "disk I/O error", 15),
        ("WRITE", 0, errno.ENOSPC, "database or disk is full", 10),
    ],
)
def test_a_disk_that_fails_does_not_double_a_post(
    harvest, faults, call, after, number, why, last
):
    harvest.source.post(10)
    harvest.run()
    harvest.source.post(5)
    faults.arm(getattr(faults, call), "/harvest-wal", number, after=after)
    said = harvest.run(status=1, env=faults.env).errors()
    assert said == f"tidings: the state of this harvest {harvest.state}: {why}"
    assert faults.disarm() > 0
    harvest.target.wait_last(last)

    harvest.run()
    check_all(harvest.target, 15)
