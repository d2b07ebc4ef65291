"""tidings harvest from sources without Tidings into a set: the changes of their Change
Lists, or the differences of their lists of resources, are in the set once, in order,
whatever is killed."""

import datetime
import random

import pytest

from tidings_test.http import JSON
from tidings_test.layouts import LAYOUTS, Paged, Sitemap
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

NS = (
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/"'
)


BEGIN = datetime.datetime(2026, 9, 1)


def at(second):
    """The time in the source's history."""
    return (BEGIN + datetime.timedelta(seconds=second)).isoformat() + "Z"


def second_of(time):
    return int((datetime.datetime.fromisoformat(time[:19]) - BEGIN).total_seconds())


class Source:
    """A site with a Capability List, a Resource List and a Change List. A resource is a
    name and the second of its last change, which is its lastmod."""

    def __init__(self, site):
        self.site = site
        self.url = site.link("/caps.xml")
        self.resources = {}  # name: second
        self.changes = []  # (second, kind, name), since the Change List begins
        self.second = 0
        self.begin = 0
        entries = [
            f"<url><loc>{site.link(f'/{each}.xml')}</loc>"
            f'<rs:md capability="{each}"/></url>'
            for each in ("resourcelist", "changelist")
        ]
        self._put("capabilitylist", entries, "")

    def loc(self, name):
        return f"http://r.example/{name}"

    def change(self, kind, name):
        """A file changes; the site does not show it yet."""
        self.second += 1
        self.changes.append((self.second, kind, name))
        if kind == "deleted":
            del self.resources[name]
        else:
            self.resources[name] = self.second

    def put_resources(self):
        """The Resource List has what there is now, after all that happened."""
        self.second += 1
        entries = [self._entry(name, s) for name, s in self.resources.items()]
        self._put("resourcelist", entries, f'at="{at(self.second)}"')

    def put_changes(self, more=""):
        """The Change List has what has happened; `more` are attributes of each."""
        entries = [
            self._entry(name, s, f'change="{kind}" datetime="{at(s)}" {more}')
            for s, kind, name in self.changes
        ]
        self._put("changelist", entries, f'from="{at(self.begin)}"')

    def forget_changes(self):
        """The Change List begins now."""
        self.changes = []
        self.begin = self.second
        self.put_changes()

    def _entry(self, name, second, md=""):
        md = f"<rs:md {md}/>" if md else ""
        loc = self.loc(name)
        return f"<url><loc>{loc}</loc><lastmod>{at(second)}</lastmod>{md}</url>"

    def _put(self, capability, entries, md):
        name = "/caps.xml" if capability == "capabilitylist" else f"/{capability}.xml"
        md = f'<rs:md capability="{capability}" {md}/>'
        self.site.put(name, f"<urlset {NS}>{md}{''.join(entries)}</urlset>")


class Harvest:
    """tidings harvest from a source into a set."""

    def __init__(self, source, target, state, run, start):
        self.source = source
        self.target = target
        self._state = state
        self._run = run
        self._start = start
        self.process = None

    def _arguments(self, *more):
        urls = (self.source.url, self.target.url)
        return "tidings", "harvest", *urls, "--state", self._state, *more

    def start(self, *more):
        more = more if "--once" in more else ("--every", "0.1", *more)
        self.process = self._start(*self._arguments(*more))

    def run(self, *more, status=0):
        """Harvest until it has caught up; return its output."""
        return self.end(*more, status=status).errors()

    def look(self, *more, status=0):
        """The same; its standard output."""
        return self.end(*more, status=status).output()

    def end(self, *more, **options):
        """The same; the program that has ended."""
        return self._run(*self._arguments("--once", *more), **options)

    def wait_look(self):
        """Wait for the next report: it has noted the answers to its posts by then. One
        that is stopped before posts again."""

        def last_look():
            return self.target.get("harvest").json()["last_look"]

        first = last_look()
        wait_for("a later look", lambda: last_look() > first)

    def entries(self):
        """All entries of the target."""
        entries = []
        while self.target.last() > len(entries):
            page = self.target.get(f"changes?after={len(entries)}", accept=JSON).json()
            for entry in page["changes"]:
                (via,) = [ln for ln in entry["links"] if ln["rel"] == "via"]
                assert via["href"] == entry["loc"]
                assert not entry["datetime"].startswith("2026-09-01")
                assert "sourceDatetime" not in entry
                entries.append(entry)
        return entries

    def told(self):
        """All entries of the target, as (second, kind, name); the broker found out a
        deletion without a second."""
        return [
            (
                second_of(entry.get("lastmod", at(0))),
                entry["change"],
                entry["loc"].rpartition("/")[2],
            )
            for entry in self.entries()
        ]


@pytest.fixture
def source(site):
    return Source(site)


@pytest.fixture
def harvest(source, broker, tmp_path, run, start):
    """A harvest from the source to a set that is not there yet."""
    return Harvest(source, broker.set(), tmp_path / "harvest", run, start)


@pytest.fixture(params=LAYOUTS, ids=lambda layout: layout.__name__)
def listed(request, site, broker, tmp_path, run, start):
    """A harvest from a source that has only a list of its resources."""
    layout = request.param(site)
    return Harvest(layout, broker.set(), tmp_path / "harvest", run, start)


def check_listed(harvest, entries):
    """The entries lead to the resources in the source's list, each a step further."""
    now = {}
    for entry in entries:
        loc, lastmod = entry["loc"], entry.get("lastmod")
        assert (entry["change"] == "created") == (loc not in now)
        if entry["change"] == "deleted":
            del now[loc]
        else:
            assert now.get(loc, "") < lastmod
            now[loc] = lastmod
    source = harvest.source
    assert now == {source.site.link(path): source.lastmod(path) for path in source.files}


# all resources first, then each change after them; a second run
# goes on where the first one ended.
def test_changes_follow_all_resources(source, harvest):
    source.change("created", "a")
    source.change("created", "b")
    source.put_resources()
    source.put_changes()
    harvest.run()
    assert harvest.told() == [(1, "created", "a"), (2, "created", "b")]

    source.change("updated", "b")
    source.change("deleted", "a")
    source.put_changes()
    harvest.run()
    expected = source.changes
    assert harvest.told() == expected
    assert harvest.run() == ""
    assert harvest.told() == expected

    # Continuously.
    harvest.start()
    source.change("created", "c")
    source.put_changes()
    harvest.target.wait_last(5)
    assert harvest.told() == source.changes
    harvest.process.stop()


# the Resource List is new at each look: each change comes once, in order, whoever is
# first to show it.
@pytest.mark.parametrize("is_late", [False, True], ids=["", "late"])
@pytest.mark.parametrize("is_killed", [False, True], ids=["", "killed"])
def test_a_list_that_is_new_at_each_look(is_killed, is_late, source, harvest):
    source.change("created", "a")
    source.change("created", "b")
    source.put_resources()
    source.put_changes()
    harvest.run()
    for n in range(3):
        source.change("created", f"n{n}")
        if not is_late:
            source.change("updated", "a")
            source.change("updated", f"n{n}")
        source.change("updated", "b")
        if is_late:  # the list shows it a look earlier
            source.put_resources()
            harvest.run()
        source.put_changes()
        source.put_resources()
        if is_killed:
            harvest.start("--compare", "0.1")
            harvest.target.wait_last(len(source.changes))
            harvest.process.kill()
        harvest.run()
    told = harvest.told()
    assert len(told) == len(source.changes)
    assert sorted(told) == sorted(source.changes) if is_late else told == source.changes


# the Change List has lost the later changes; the harvest compares resources.
def test_a_history_that_is_gone_is_bridged_by_the_resource_list(source, harvest):
    for name in "abc":
        source.change("created", name)
    source.put_resources()
    source.put_changes()
    harvest.run()
    source.change("updated", "a")
    source.change("deleted", "b")
    source.change("created", "d")
    source.put_resources()
    source.forget_changes()
    assert "1 added, 1 changed, 1 deleted" in harvest.look()
    told = harvest.told()
    assert sorted(told[3:]) == [
        (0, "deleted", "b"), (5, "updated", "a"), (7, "created", "d"),
    ]  # fmt: skip


# Two harvests of one source, each with a state, that begin at once on a set that is not
# there: each change is in it once, and who comes second says so.
@pytest.mark.parametrize("n", [3, 12000], ids=["", "long"])
def test_two_harvests_that_begin_at_once(n, source, harvest, broker, run, start, tmp_path):
    harvests = [harvest, Harvest(source, harvest.target, tmp_path / "other", run, start)]
    for i in range(n):
        source.change("created", f"r{i}")
    source.put_resources()
    source.put_changes()
    source.site.hold("/caps.xml")
    for each in harvests:
        each.start("--once")
    wait_for("both to ask", lambda: len(source.site.asked("/caps.xml")) == 2)
    source.site.release("/caps.xml")
    assert [each.process.wait() for each in harvests] == [0, 0]
    assert harvest.target.last() == n
    said = "".join(each.process.errors() for each in harvests)
    assert "entries already: another harvest posts the same into it" in said


# Two harvests of one source in turns, each with a state, while the source changes: whoever
# did not report last ends before it posts anything twice. A new state takes the place of the
# other one where a list says all, or if its report is deleted.
@pytest.mark.parametrize("kind", [Source, Sitemap])
def test_a_harvest_beside_another_one(kind, site, broker, run, start, tmp_path):
    def change(name):
        if kind is Source:
            source.change("created", name)
            source.put_resources()
            source.put_changes()
        else:
            source.publish({f"/files/{each}": each for each in "abcdef"[: ord(name) - 96]})

    source, target = kind(site), broker.set()
    first, second, third = [Harvest(source, target, tmp_path / each, run, start) for each in "123"]
    beside = f"another harvest, with another state, has posted {source.url} into the set: "
    refused = "each change would come twice; go on with that state, or delete its report"
    change("a")
    assert first.run() == ""
    change("b")
    if kind is Source:
        assert second.run(status=1).endswith(beside + refused)
        target.broker.request("DELETE", f"{target.path}/harvest")
        assert second.run() == ""
    else:
        assert second.run().startswith(f"tidings: {beside}this one takes its place")
    assert target.last() == 2
    for n, name in enumerate("cd", 3):
        change(name)
        assert first.run(status=1).endswith(beside + refused)
        assert second.run() == ""
        assert target.last() == n
    start("tidings", "harvest", source.url, target.url, "--state", tmp_path / "2", "--every", "60")
    wait_for("its report", lambda: target.get("harvest").json().get("every_s") == 60)
    for each in (first, third):
        assert "with another state, posts" in each.run(status=1)
    assert target.last() == 4


# Foreign lists describe a representation of deleted resources, which brokers refuse;
# and have links that are not true at the target.
def test_what_a_broker_refuses_of_a_deletion_is_left_out(source, harvest):
    source.change("created", "a")
    source.put_resources()
    source.put_changes()
    harvest.run()
    source.change("deleted", "a")
    source.put_changes(f'hash="md5:{"0" * 32}" length="3" type="text/plain"')
    harvest.run()
    assert harvest.told() == source.changes


def tell_many(source, harvest, n, left=""):
    """The source has `n` resources, which are harvested; then its list has but `left`."""
    for name in [f"r{i}" for i in range(n)] + [left] * bool(left):
        source.change("created", name)
    source.put_resources()
    source.put_changes()
    harvest.run()
    source.resources = {left: source.resources[left]} if left else {}
    source.put_resources()
    source.forget_changes()


def all_of(target):
    """The first entries of a set, of all posters."""
    return target.get("changes?after=0", accept=JSON).json()["changes"]


# a list that has lost most of its resources deletes nothing, and the number of
# the deletions is reported at each look; the consent to that number deletes them.
@pytest.mark.parametrize(
    "consent", [("--max-delete", "none"), ("--accept-deletions", "100")], ids=" ".join
)
def test_too_many_deletions_are_held_back(source, harvest, consent):
    tell_many(source, harvest, 100)
    for few in ((), ("--accept-deletions", "99")):
        said = harvest.run(*few, status=1)
        assert "held back: 100 of 100 deletions" in said
        assert "--accept-deletions 100" in said
    assert harvest.target.last() == 100
    assert "100 deleted" in harvest.look(*consent)
    assert harvest.target.last() == 200
    assert harvest.run() == ""


# Fewer than a hundred are never too many, as in a mirror, unless they are all of more than
# three.
@pytest.mark.parametrize("n, is_held", [(3, False), (4, True), (99, True)])
def test_few_deletions_are_no_matter(n, is_held, source, harvest):
    tell_many(source, harvest, n)
    line = harvest.look(status=is_held)
    assert f"0 deleted, {n} held back" in line if is_held else f"{n} deleted" in line
    assert harvest.target.last() == (n if is_held else 2 * n)


def test_few_deletions_of_many_are_no_matter(source, harvest):
    tell_many(source, harvest, 99, left="r")
    assert "99 deleted" in harvest.look()


# The harvest leaves alone what others have posted into the set, says so, and deletes it
# with consent.
def test_resources_of_others_stay(source, harvest):
    harvest.target.post_change("http://r.example/x", lastmod=at(0))
    source.change("created", "a")
    source.put_resources()
    source.put_changes()
    for _ in range(2):
        assert "resources of the set that no source has: 1; they stay" in harvest.run()
        assert harvest.target.last() == 2
    assert harvest.run("--accept-deletions", "1") == ""
    (*_, last) = all_of(harvest.target)
    assert (last["loc"], last["change"]) == ("http://r.example/x", "deleted")
    assert harvest.target.last() == 3


# The same where they come between the harvest's first look at the set and its first post.
@pytest.mark.parametrize("is_killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("kind", [Source, Sitemap])
def test_resources_of_others_that_come_first_stay(
    kind, is_killed, site, broker, tmp_path, run, start
):
    source = kind(site)
    harvest = Harvest(source, broker.set(), tmp_path / "harvest", run, start)
    if kind is Source:
        source.change("created", "a")
        source.put_resources()
        source.put_changes()
    else:
        source.publish({"/files/a.txt": "a"})
    path = source.url.removeprefix(site.url)
    site.hold(path)
    harvest.start("--once")
    site.asked(path).wait(1)
    if is_killed:
        harvest.process.kill()
    harvest.target.post_change("http://r.example/x", lastmod=at(0))
    site.release(path)
    if is_killed:
        harvest.start("--once")
    assert harvest.process.wait() == 0
    for path in tmp_path.glob("harvest.list*"):
        path.unlink()
    harvest.run()
    assert [entry["change"] for entry in all_of(harvest.target)] == ["created"] * 2


# The set is equal to the source whatever others do to it.
@pytest.mark.parametrize("kind", [Source, Sitemap])
def test_what_others_did_to_a_resource_is_undone(kind, site, broker, tmp_path, run, start):
    source = kind(site)
    harvest = Harvest(source, broker.set(), tmp_path / "harvest", run, start)
    if kind is Source:
        for name in "ab":
            source.change("created", name)
        source.put_resources()
        source.put_changes()
        locs = [source.loc(name) for name in "ab"]
    else:
        source.publish({"/files/a.txt": "a", "/files/b.txt": "b"})
        locs = [site.link(path) for path in sorted(source.files)]
    harvest.start()
    harvest.target.wait_last(2)
    harvest.target.post_change(locs[1], "deleted")
    harvest.target.post_change(locs[0], "updated", lastmod=at(100000))
    harvest.target.wait_last(6)
    told = [(entry["loc"], entry["change"]) for entry in all_of(harvest.target)[4:]]
    assert sorted(told) == [(locs[0], "updated"), (locs[1], "updated")]
    harvest.wait_look()
    harvest.process.stop()
    harvest.target.delete()
    assert "the set was removed; everything is published anew" in harvest.run()
    assert harvest.target.last() == 2


# the harvest is killed at each of its writes to the state, one after the other,
# also between the comparison and the note of it: then it compares again, and finds no
# difference.
def test_a_comparison_that_was_not_recorded_posts_nothing_twice(
    source, broker, faults, tmp_path, run, start
):
    for name in "abc":
        source.change("created", name)
    source.put_resources()
    source.change("updated", "a")
    source.put_changes()
    expected = [(i, "created", n) for i, n in enumerate("abc", 1)] + [(5, "updated", "a")]
    kills = between = 0
    while True:
        state = tmp_path / f"harvest{kills}"
        harvest = Harvest(source, broker.set(), state, run, start)
        faults.arm(faults.WRITE, "/harvest", faults.KILL, after=kills, once=True)
        ended = harvest.end(status=None, env=faults.env).status
        if faults.disarm() == 0:
            break
        assert ended == 128 + 9
        between += harvest.target.get().status == 200
        harvest.run()
        assert harvest.told() == expected
        kills += soak(4, 1)
    assert ended == 0
    assert between > 0


# From there on alone: nothing is compared, and others may post into the set.
def test_a_harvest_may_begin_at_a_time(source, harvest):
    harvest.target.post()
    source.change("created", "a")
    source.change("created", "b")
    source.put_changes()
    harvest.run("--after", "@2026-09-01T00:00:01.500000Z")
    assert harvest.target.last() == 2


# Lists of resources


FILES = {f"/files/{name}.txt": name for name in "abcde"}


# for every layout the harvest creates all listed resources, and then
# posts the differences; a second run posts nothing.
def test_differences_of_a_list_are_harvested(listed):
    listed.source.publish(FILES)
    listed.run()
    assert [entry["change"] for entry in listed.entries()] == ["created"] * 5
    listed.source.publish({"/files/b.txt": "b", "/files/c.txt": "C", "/files/f.txt": "f"})
    listed.run()
    told = [entry["change"] for entry in listed.entries()[5:]]
    assert sorted(told) == ["created", "deleted", "deleted", "deleted", "updated"]
    check_listed(listed, listed.entries())
    assert listed.run() == ""
    listed.target.wait_last(10)
    assert not any("attributes" in entry for entry in listed.entries())


# The harvest has forgotten the last list: it compares the resources with the target's.
def test_a_list_that_is_forgotten_is_compared(listed, tmp_path):
    listed.source.publish(FILES)
    listed.run()
    for path in tmp_path.glob("harvest.list*"):
        path.unlink()
    listed.source.publish({**FILES, "/files/a.txt": "A"})
    assert "0 added, 1 changed, 0 deleted" in listed.look()
    listed.target.wait_last(6)


# A list that lacks a part, or that lost a hundred resources, deletes nothing.
def test_an_incomplete_list_deletes_nothing(site, broker, tmp_path, run, start):
    source = Paged(site)
    harvest = Harvest(source, broker.set(), tmp_path / "harvest", run, start)
    source.publish({f"/files/{i:03}.txt": "x" for i in range(120)})
    harvest.run()
    site.status(source.lists[3], 404)
    assert "404" in harvest.run(status=1)
    site.status(source.lists[3], None)
    source.publish({"/files/000.txt": "y"})
    assert "held back: 119 of 120 deletions" in harvest.run(status=1)
    harvest.target.wait_last(121)
    harvest.run("--max-delete", "none")
    harvest.target.wait_last(121 + 119)
    check_listed(harvest, harvest.entries())


# files of a site come, change and go, while the harvest and the target's
# broker are killed by chance, also in the middle of reading the list: each difference is
# in the set once.
def test_no_difference_is_lost_or_doubled_whoever_is_killed(
    site, start_broker, tmp_path, run, start
):
    broker = start_broker("--rotate-entries", "1000")
    source = Sitemap(site)
    target = broker.set("news").create()
    harvest = Harvest(source, target, tmp_path / "harvest", run, start)
    chance = random.Random(12345)
    source.publish({f"/files/{i}.txt": "0" for i in range(2000)})
    harvest.start("--max-delete", "none")
    for turn in range(soak(12, 100)):
        files = dict(source.files)
        for path in chance.sample(sorted(files), 300):
            files[path] = str(turn)
        for path in chance.sample(sorted(files), 50):
            del files[path]
        files |= {f"/files/{turn}-{i}.txt": "0" for i in range(50)}
        last = target.last()
        source.publish(files)
        n_read = len(site.asked(source.start))
        when = chance.randrange(3)
        if when == 0:
            site.asked(source.start).wait(n_read + 1)
        elif when == 1:
            wait_for("a difference", lambda: target.last() > last)
        if chance.randrange(3):
            harvest.process.kill()
            harvest.start("--max-delete", "none")
        else:
            broker.kill()
            broker.restart()
    harvest.process.kill()
    harvest.run("--max-delete", "none")
    check_listed(harvest, harvest.entries())


# Change Lists


# a source announces changes, and now and then only its resources, while
# the harvest and the target's broker are killed at random. The set has everything once:
# each change of the lists, and the differences for changes that the lists lost.
def test_nothing_is_lost_or_doubled_whoever_is_killed(
    source, start_broker, tmp_path, run, start
):
    broker = start_broker("--rotate-entries", "1000")
    target = broker.set("news").create()
    harvest = Harvest(source, target, tmp_path / "harvest", run, start)
    chance = random.Random(12345)
    for i in range(300):
        source.change("created", f"r{i}")
    source.put_resources()
    source.forget_changes()
    harvest.start("--max-delete", "none")
    for turn in range(soak(12, 100)):
        last = target.last()
        for _ in range(chance.randrange(1, 400)):
            name = chance.choice(list(source.resources))
            source.change(chance.choice(["updated", "updated", "deleted"]), name)
            if chance.randrange(3) == 0:
                source.change("created", f"s{source.second}")
        if turn % 4 == 3:
            source.put_resources()
            source.forget_changes()
        else:
            source.put_changes()
        if chance.randrange(2):
            wait_for("a change", lambda: target.last() > last)
        if chance.randrange(2):
            harvest.process.kill()
            harvest.start("--max-delete", "none")
        else:
            broker.kill()
            broker.restart()
    harvest.process.kill()
    harvest.run("--max-delete", "none")
    now = {}
    for second, kind, name in harvest.told():
        if kind == "deleted":
            assert second == 0 or now[name] < second
            del now[name]
        else:
            assert (kind == "created") == (name not in now)
            assert now.get(name, 0) < second
            now[name] = second
    assert now == source.resources
