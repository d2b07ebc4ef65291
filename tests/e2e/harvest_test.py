"""tidings harvest: its options, its state, several sources, and what it says."""

import json
import sqlite3

import pytest

from tidings_test.http import JSON, check_refused
from tidings_test.layouts import Sitemap, urlset
from tidings_test.waiting import wait_for


class Listed(Sitemap):
    """A Sitemap at another path of the site."""

    def __init__(self, site, path):
        self.start = path
        super().__init__(site)


@pytest.fixture
def source(site):
    source = Sitemap(site)
    source.publish({"/files/a.txt": "a", "/files/b.txt": "b"})
    return source


@pytest.fixture
def target(broker):
    return broker.set()


@pytest.fixture
def harvest(target, run, tmp_path):
    """harvest(SOURCE..., option...): runs it once with its state; the program that has
    ended."""

    def harvest(*words, status=0, **options):
        sources = [word.url if hasattr(word, "url") else word for word in words]
        state = ("--state", tmp_path / "state")
        command = ("tidings", "harvest", *sources, target.url, "--once", *state)
        return run(*command, status=status, **options)

    return harvest


def told(target):
    """The changes of the set, as (kind, path)."""
    if target.get().status == 404:
        return []
    page = target.get("changes?after=0", accept=JSON).json()
    return [(c["change"], c["loc"].partition("/files")[2]) for c in page["changes"]]


def report(target):
    return target.get(accept=JSON).json()["harvest"]


# A command line without an option: the state has a name that a person finds, and the
# first run says where it is.
def test_the_state_has_a_place_by_default(source, target, run, tmp_path):
    env = {"XDG_STATE_HOME": str(tmp_path / "states")}
    command = ("tidings", "harvest", source.url, target.url, "--once")
    first = run(*command, env=env)
    states = (tmp_path / "states/tidings").iterdir()
    (state,) = [path for path in states if path.suffix != ".list"]
    assert f"the state of this harvest is in {state}" in first.errors()
    assert target.name in state.name and "_sitemap.xml-" in state.name
    assert "2 added, 0 changed, 0 deleted" in first.output()
    again = run(*command, env=env)
    assert again.errors() == ""
    assert "0 added, 0 changed, 0 deleted" in again.output()
    assert target.last() == 2
    assert "--state" in run(*command, env={"XDG_STATE_HOME": "", "HOME": ""}, status=2).errors()


# what it is, since when it is complete, and what was different.
def test_each_look_is_a_line(source, harvest, target):
    line = harvest(source).output()
    assert line.startswith(f"{source.url}: Sitemap, complete as of 20")
    assert line.endswith(": 2 added, 0 changed, 0 deleted")
    look = json.loads(harvest(source, "--json").output())
    assert look["event"] == "look" and look["kind"] == "sitemap"
    assert (look["added"], look["changed"], look["deleted"]) == (0, 0, 0)
    assert look["complete_as_of"].startswith("20")
    source.publish({"/files/a.txt": "A"})
    lines = harvest(source, "--verbose").out
    assert sorted(lines[:2]) == [
        f"deleted {source.site.link('/files/b.txt')}",
        f"updated {source.site.link('/files/a.txt')}",
    ]
    assert told(target)[2:] == [("updated", "/a.txt"), ("deleted", "/b.txt")]


# The broker has the report of the last look.
def test_the_broker_is_told(source, harvest, target):
    harvest(source)
    its = report(target)
    assert (its["source"], its["kind"], its["added"]) == (source.url, "sitemap", 2)
    assert its["complete_as_of"] and not its["not_complete"]
    source.publish({"/files/b.txt": "B"})
    harvest(source)
    its = report(target)
    assert (its["added"], its["changed"], its["deleted"]) == (0, 1, 1)


# Nothing is posted, and the state stays as it is.
def test_a_dry_run_shows_what_would_change(source, harvest, target):
    def show(expected, *more):
        done = harvest(source, "--dry-run", *more)
        assert expected in done.output() and "(nothing was posted)" in done.output()
        return done

    done = show("2 added, 0 changed, 0 deleted", "--verbose")
    assert [line.partition(" ")[0] for line in done.out[:2]] == ["created"] * 2
    assert told(target) == []
    harvest(source)
    source.publish({"/files/a.txt": "A", "/files/c.txt": "c"})
    for _ in range(2):
        show("1 added, 1 changed, 1 deleted")
        assert target.last() == 2
    assert "1 added, 1 changed, 1 deleted" in harvest(source).output()
    show("0 added, 0 changed, 0 deleted")


#
def test_a_dry_run_shows_what_would_be_held_back(site, harvest, target):
    source = Sitemap(site)
    source.publish({f"/files/{i}.txt": "x" for i in range(120)})
    harvest(source)
    source.publish({"/files/0.txt": "x"})
    said = harvest(source, "--dry-run", status=1).errors()
    assert "held back: 119 of 120 deletions" in said
    assert target.last() == 120
    assert report(target)["held_back"] == 0
    harvest(source, status=1)
    assert report(target)["held_back"] == 119
    harvest(source, "--accept-deletions", "119")
    assert target.last() == 120 + 119
    assert report(target)["held_back"] == 0


# somebody consents at the broker; the harvester, which runs elsewhere, deletes then.
@pytest.mark.parametrize("is_running", [False, True], ids=["once", "running"])
def test_a_consent_comes_by_the_broker(site, harvest, target, start, tmp_path, is_running):
    source = Sitemap(site)
    source.publish({f"/files/{i}.txt": "x" for i in range(120)})
    harvest(source)
    source.publish({"/files/0.txt": "x"})
    if is_running:
        more = ("--state", tmp_path / "state", "--every", "0.2")
        start("tidings", "harvest", source.url, target.url, *more)
        wait_for("deletions that are held back", lambda: report(target)["held_back"] == 119)
    else:
        harvest(source, status=1)
    consent = f"{target.path}/harvest?accept-deletions="
    check_refused(target.broker.request("POST", f"{consent}118"), 409, "119 deletions are held back, more than 118")
    assert target.last() == 120
    assert target.broker.request("POST", f"{consent}119").status == 204
    if is_running:
        wait_for("the deletions", lambda: report(target)["held_back"] == 0)
    else:
        assert report(target)["accept_deletions"] == 119
        harvest(source)
    assert target.last() == 120 + 119
    assert report(target)["accept_deletions"] == 0
    if is_running:  # it has no consent to others
        source.publish({f"/files/{i}.txt": "x" for i in range(120)})
        wait_for("the resources", lambda: target.last() == 120 + 119 + 119)
        source.publish({"/files/0.txt": "x"})
        wait_for("deletions that are held back", lambda: report(target)["held_back"] == 119)


# it reads the last reading of the list, and so knows which bad row is new.
def test_a_dry_run_holds_back_what_a_run_would(site, harvest, target):
    source = Sitemap(site)
    source.publish({"/files/a.txt": "a", "/files/b.txt": "b"})
    harvest(source)
    good = f"<url><loc>{site.link('/files/a.txt')}</loc></url>\n"
    site.put(source.start, urlset([good, "<url><loc>http:///x</loc></url>\n"]))
    for how in (["--dry-run"], []):
        done = harvest(source, *how, status=1)
        assert "held back: 1 of 2 deletions" in done.errors()
        assert "0 deleted, 1 held back, 1 left out" in done.output()


# A resource is in the set as long as one source has it.
def test_several_sources_feed_one_set(site, harvest, target):
    one, two = Listed(site, "/one.xml"), Listed(site, "/two.xml")
    one.publish({"/files/a.txt": "a", "/files/b.txt": "b"})
    two.publish({"/files/b.txt": "b", "/files/c.txt": "c"})
    lines = harvest(one, two).out
    assert sorted(line.partition(": ")[0] for line in lines) == [one.url, two.url]
    created = [("created", f"/{name}.txt") for name in "abc"]
    assert sorted(told(target)) == created
    one.publish({"/files/a.txt": "a"})
    harvest(one, two)
    assert target.last() == 3
    two.publish({"/files/c.txt": "c"})
    harvest(one, two)
    assert told(target)[3:] == [("deleted", "/b.txt")]

    # A source that is not named keeps its resources: that is an error.
    said = harvest(one, status=1).errors()
    assert f"the state of another harvest: of {two.url}, too" in said


# what one source has is posted while the other one cannot be read.
def test_one_of_several_sources_fails(site, harvest, target):
    one, two = Listed(site, "/one.xml"), Listed(site, "/two.xml")
    one.publish({"/files/a.txt": "a"})
    two.publish({"/files/b.txt": "b"})
    site.status("/one.xml", 404)
    assert "404" in harvest(one, two, status=1).errors()
    assert told(target) == [("created", "/b.txt")]
    site.status("/one.xml", None)
    harvest(one, two)
    assert told(target)[1:] == [("created", "/a.txt")]


# All sets of an address.
def test_all_sets_of_a_source_are_harvested(start_broker, harvest, target):
    other = start_broker()
    for name in "ab":
        other.set(name).post_change(f"http://example.com/files/{name}.txt")
    lines = harvest(f"{other.url}/").out
    assert sorted(line.partition(": ")[0] for line in lines) == [
        f"{other.url}/sets/{name}" for name in "ab"
    ]
    assert sorted(told(target)) == [("created", "/a.txt"), ("created", "/b.txt")]


# a row that cannot be used is counted, with its line, and is no deletion.
def test_rows_that_cannot_be_used_are_told(site, harvest, target):
    source = Sitemap(site)
    source.publish({"/files/a.txt": "a"})
    harvest(source)
    good = source.entry("/files/a.txt")
    site.put(source.start, urlset([good, "<url><loc>http:///x</loc></url>\n"]))
    done = harvest(source, status=1)
    assert "left out: 1 row: " in done.errors() and "http:///x" in done.errors()
    assert "1 left out" in done.output()
    assert report(target)["left_out"] == 1
    site.put(source.start, urlset([good, "<url><loc>http:///y</loc></url>\n"]))
    assert "left out: 1 row: " in harvest(source, "--skip-bad").errors()
    assert target.last() == 1


# a list that cannot be read changes nothing; harvest goes on and says when it is
# complete again.
def test_a_source_that_is_away_is_read_again(source, target, start, site, tmp_path):
    command = ("tidings", "harvest", source.url, target.url, "--every", "0.1")
    harvest = start(*command, "--state", tmp_path / "state")
    target.wait_last(2)
    site.status(source.start, 500)
    harvest.out.find(lambda line: "not known to be complete" in line)
    assert "500" in wait_for("the report", lambda: report(target)["not_complete"])
    assert report(target)["kind"] == "sitemap"
    site.status(source.start, None)
    source.publish({"/files/a.txt": "a", "/files/b.txt": "B"})
    target.wait_last(3)
    changed = "0 added, 1 changed, 0 deleted"
    harvest.out.find(lambda line: "complete as of" in line and changed in line)
    harvest.stop()


# So does a broker that is away; its set has no changes when it is back. A log without
# changes is reported as often as a list.
def test_a_broker_that_is_away_is_reported(start_broker, target, start, tmp_path):
    other = start_broker("--heartbeat", "0.1")
    source = other.set()
    source.post(3)
    command = ("tidings", "harvest", source.url, target.url, "--every", "0.1")
    harvest = start(*command, "--state", tmp_path / "state")
    harvest.out.find(lambda line: "3 added" in line)
    harvest.out.find(lambda line: "complete as of" in line and "0 added" in line)
    first = report(target)["last_look"]
    wait_for("a later look", lambda: report(target)["last_look"] > first)
    other.stop()
    harvest.out.find(lambda line: "not known to be complete" in line)
    wait_for("the report", lambda: report(target)["not_complete"])
    other.start()
    harvest.out.find(lambda line: "complete as of" in line and "0 added" in line)
    wait_for("the next one", lambda: not report(target)["not_complete"])
    harvest.stop()


# a set of another broker is complete once its log was read: not at the first
# message of the stream, a heartbeat at its beginning, and without a second one.
@pytest.mark.broker("--heartbeat", "3600")
def test_a_log_is_complete_when_it_was_read(start_broker, target, start, tmp_path):
    source = start_broker("--heartbeat", "3600").set()
    source.post(3)
    command = ("tidings", "harvest", source.url, target.url, "--every", "10m")
    harvest = start(*command, "--state", tmp_path / "state")
    assert "3 added" in harvest.out.find(lambda line: "complete as of" in line)
    harvest.stop()


# An address that leads nowhere ends it at once.
def test_a_wrong_address_ends_it(site, target, run, tmp_path):
    state = ("--state", tmp_path / "state", "--every", "10m")
    wrong = site.link("/none.xml")
    assert "404" in run("tidings", "harvest", wrong, target.url, *state, status=1).errors()
    assert target.get().status == 404


# The name of a former version leads to the new one.
def test_relay_is_a_word_of_the_past(run):
    said = run("tidings", "relay", "http://a.example/", "x", status=2).errors()
    assert 'there is no command "relay"; tidings harvest takes its place' in said


# A state of `tidings relay` goes on: its post comes first, the set is read once, and
# nothing is posted twice.
def test_a_state_of_relay_goes_on(target, broker, harvest, tmp_path):
    source = broker.set()
    source.post(10)
    harvest(source)
    with sqlite3.connect(tmp_path / "state") as database:
        database.executescript(
            f"""
            CREATE TABLE relay (source TEXT NOT NULL, target TEXT NOT NULL,
                position TEXT NOT NULL, target_position TEXT NOT NULL,
                owns INTEGER NOT NULL DEFAULT 0);
            INSERT INTO relay SELECT '{source.url}', '{target.url}', part.position,
                target.position, 1 FROM part, target;
            DROP TABLE part; DROP TABLE target; DROP TABLE resource;
            DROP TABLE record;
            DROP TABLE deferred;
            PRAGMA user_version = 2;
            """
        )
    database.close()
    source.post_change("http://example.com/r/1", "deleted")
    assert "0 added, 0 changed, 1 deleted" in harvest(source).output()
    assert target.last() == 11
    assert harvest(source).errors() == ""
    assert target.last() == 11
