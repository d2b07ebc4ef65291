"""Sets are created, configured and described."""

import json
import os

import pytest
from lxml import html

from tidings_test.content import kept, multipart
from tidings_test.http import JSON, check_refused
from tidings_test.background import Background
from tidings_test.backups import Backups
from tidings_test.broker import is_sanitized
from tidings_test.sets import HARVEST, MERGE_PATCH, change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

MANY = soak(1100, 2000)  # several pages of GET /sets, of 1000 each
POSTED = soak(100, 2000)  # sets that have an entry


@pytest.fixture
def backups(run, tmp_path):
    return Backups(run, tmp_path / "backup")


def describe(of_set):
    """The description of a set, as JSON."""
    answer = of_set.get()
    assert answer.status == 200, answer
    assert answer["Content-Type"] == JSON
    return answer.json()


def links(of_set):
    """The links of a set's description by their relations."""
    return {link["rel"]: link["href"] for link in describe(of_set)["links"]}


# Design section 4: PUT creates a set. R-049: it is visible at once.
def test_put_creates_a_set_without_entries(start_broker):
    broker = start_broker()
    demo = broker.set("demo")
    assert demo.get().status == 404
    answer = demo.put(title='The "demo"')
    assert answer.status == 201
    assert "/sets/demo" in answer["Location"]
    assert (answer.json()["title"], answer.json()["last"]) == ('The "demo"', 0)

    assert len(broker.get("/.well-known/resourcesync").document().entries) == 1
    assert demo.get("capabilitylist.xml").status == 200
    assert demo.changelist().entries == []
    assert demo.page("after=0").entries == []
    assert demo.post(2).first == 1


# PUT is a replacement: a missing setting takes the broker's default.
def test_put_replaces_all_settings(broker):
    demo = broker.set()
    demo.post()  # an open broker creates it
    about = "http://example.org/about"
    assert demo.put(title="Demo", rotate_entries=9, description=about).status == 200
    found = describe(demo)
    assert (found["title"], found["description"]) == ("Demo", about)
    assert found["settings"]["rotateEntries"] == 9
    assert found["settings"]["rotateAge"] == 86400

    assert demo.put(rotate_age=1.5).status == 200
    found = describe(demo)
    assert "title" not in found and "description" not in found
    assert found["settings"]["rotateEntries"] == 50000
    assert found["settings"]["rotateAge"] == 1.5


# RFC 7396: members that a change does not name stay, and null is the broker's default,
# or none.
def test_a_change_leaves_the_rest_alone(start_broker):
    broker = start_broker()
    demo = broker.set().create(title="Demo", rotate_entries=9, retain_lists=5)
    answer = demo.change(title="News", rotate_entries=None, rotate_age=1.5)
    assert answer.status == 200
    assert answer.json()["title"] == "News"
    assert demo.change(hubs=["http://a.example/"]).status == 200
    assert demo.change().status == 200
    for end in (broker.kill, broker.stop):
        found = describe(demo)
        assert found["title"] == "News"
        expected = {"rotateEntries": 50000, "rotateAge": 1.5, "retainLists": 5}
        assert found["settings"].items() >= expected.items()
        assert found["settings"]["hubs"] == ["http://a.example/"]
        end()
        broker.restart()
    assert demo.change(title=None, hubs=None).status == 200
    found = describe(demo)
    assert "title" not in found and "hubs" not in found["settings"]


# Nothing of a refused change is kept. RFC 5789: 415 says what a PATCH may be.
def test_refuses_changes_that_make_no_sense(broker):
    demo = broker.set().create(title="Demo")
    for body, status, detail in (
        ('{"title":"X","rotateEntires":5}', 422, 'is "rotateEntries" meant?'),
        ('{"title":"X","rotateEntries":0}', 422, "0 is not between 1 and 50000"),
        ('{"title":{"de":"X"}}', 422, "title: is a string"),
        ('{"hubs":[null]}', 422, "hubs: is a list of strings"),
        ('["title","X"]', 422, "settings are a JSON object"),
        ('{"title":"X"', 400, ""),
        ("", 400, ""),
        (" " * 60000, 413, "bytes"),
    ):
        check_refused(broker.patch(demo.path, body, MERGE_PATCH), status, detail)
    refused = broker.patch(demo.path, '{"title":"X"}', "text/plain")
    check_refused(refused, 415, "text/plain")
    assert refused["Accept-Patch"].startswith(MERGE_PATCH)
    refused = broker.patch(f"{demo.path}?discard=1", "{}", MERGE_PATCH)
    check_refused(refused, 400, 'discard: "1" is not yes or no')
    assert describe(demo)["title"] == "Demo"

    assert broker.patch(demo.path, '{"title":"X"}', JSON).status == 200
    missing = broker.set()
    check_refused(missing.change(title="X"), 404, "there is no set")
    demo.delete()
    check_refused(demo.change(title="X"), 410, "was removed")


# An existing set keeps its settings when somebody creates it again.
def test_a_set_is_created_once(broker, run):
    demo = broker.set()
    run("tidings", "set", "create", demo.url, "--title", "Demo")
    for more in ((), ("--title", "Other")):
        said = run("tidings", "set", "create", demo.url, *more, status=1).errors()
        assert said.startswith("tidings: 409: ") and "tidings set change" in said
    refused = broker.put(f"{demo.path}?new=yes", {"title": "Other"})
    check_refused(refused, 409, "PATCH")
    assert not refused["Retry-After"]
    assert describe(demo)["title"] == "Demo"


@pytest.fixture
def texts(broker):
    """A set that keeps the content of one resource; the content is counted."""
    texts = broker.set().create(content="inline")
    loc = "http://example.com/a.txt"
    texts.receipt(texts.send(*multipart([change(loc)], [(loc, None, b"some text")])))
    wait_for("the content", lambda: describe(texts)["content"]["kept"] == 1)
    return texts


# A new title is a new title: content stays.
@pytest.mark.broker("--remove-grace", "0")
def test_a_new_title_deletes_nothing(texts, run):
    run("tidings", "set", "create", texts.url, "--title", "Texts", status=1)
    said = run("tidings", "set", "change", texts.url, "--title", "Texts").output()
    assert said == "changed"
    found = describe(texts)
    assert (found["title"], found["content"]["kept"]) == ("Texts", 1)
    assert found["settings"]["content"] == "inline"


# Settings that delete content are refused with the amount, in every form, unless the
# request confirms the deletion.
@pytest.mark.broker("--remove-grace", "0")
def test_content_is_not_deleted_by_a_slip(texts, run):
    for refused in (
        texts.change(content="none"),
        texts.change(content=None, title="Texts"),
        texts.put(title="Texts"),
    ):
        check_refused(refused, 409, "would delete 1 content file (9 bytes)")
        discards = refused.json()["discards"]
        assert (discards["files"], discards["bytes"]) == (1, 9)
        assert not refused["Retry-After"]
    command = ("tidings", "set", "change", texts.url, "--content", "none")
    assert "--discard" in run(*command, status=1).errors()
    assert texts.change(content="fetch").status == 200
    assert "title" not in describe(texts)
    assert len(kept(texts)) == 1

    run(*command, "--discard")
    wait_for("the content to go", lambda: not kept(texts))


# The broker counts content after the post; what it has not counted yet is named, too.
def test_content_that_is_not_counted_is_not_deleted_by_a_slip(broker):
    news = broker.set().create(content="inline")
    loc = "http://example.com/1"
    (news.folder / "content.db").mkdir(parents=True)  # the count fails
    assert news.send(*multipart([change(loc)], [(loc, None, b"text")])).status == 200
    refused = news.change(content="none")
    detail = "delete the content of the last 1 entries, which is not counted yet"
    check_refused(refused, 409, detail)
    assert refused.json()["discards"]["uncounted"] == 1


# The same of a shorter retention: closed lists, and archived generations. Lists that
# the earlier settings would delete anyway do not count, and nothing obstructs a
# retention that deletes nothing.
def test_lists_are_not_deleted_by_a_slip(broker):
    news = broker.set().create(rotate_entries=2, resource_list_keep=1)
    for _ in range(3):
        news.post(2)
        news.build("resourcelist")
    for settings, lists, archived in (
        ({"retain_lists": 2}, 1, 1),
        ({"retain_lists": 1}, 2, 2),
        ({"retain_age": 0.001}, 3, 2),
        ({"retain_age": 0.001, "retain_lists": 2}, 3, 2),
    ):
        refused = news.change(**settings)
        check_refused(refused, 409, f"{lists} closed Change List")
        discards = refused.json()["discards"]
        assert (discards["lists"], discards["entries"]) == (lists, 2 * lists)
        assert discards["archived"] == archived
        assert discards["archivedBytes"] > 0
    check_refused(news.put(retain_lists=2), 409, "PUT resets")
    assert describe(news)["lists"]["closed"] == 3

    assert news.change(retain_lists=3, retain_age=3600).status == 200
    assert news.change(discard=True, retain_lists=1).status == 200
    wait_for("two lists to go", lambda: describe(news)["lists"]["closed"] == 1)
    assert news.change(retain_lists=1, retain_age=1800).status == 200
    assert news.change(retain_lists=None, retain_age=None).status == 200


# On a terminal `set delete` says what is lost and asks; elsewhere it wants --yes.
def test_a_deletion_is_confirmed(news, run, start):
    news.post(3)
    command = ("tidings", "set", "delete", news.url)
    assert "--yes" in run(*command, status=2).errors()
    for answer, status in (("y\n", 1), ("\4", 1), ("yes\n", 0)):
        assert news.last() == 3
        side, terminal = os.openpty()
        asking = start(*command, terminal=terminal)
        os.close(terminal)
        said = b""
        while b"yes: " not in said:
            said += os.read(side, 65536)
        assert b"3 entries" in said
        os.write(side, answer.encode())
        assert asking.wait() == status
        os.close(side)
    check_refused(news.get(), 410)

    again = news.broker.set().create()
    assert run("tidings", "set", "delete", again.url, "--yes").output() == "deleted"


# Nothing of a refused PUT is kept.
def test_refuses_settings_that_make_no_sense(broker):
    demo = broker.set()
    for path, body, type, status, detail in (
        (demo.path, '{"rotateEntires":5}', JSON, 422, 'is "rotateEntries" meant?'),
        (
            demo.path,
            '{"rotateEntries":0}',
            JSON,
            422,
            "rotateEntries: 0 is not between 1 and 50000",
        ),
        (demo.path, '{"rotateEntries":', JSON, 400, ""),
        (demo.path, "<a/>", "application/xml", 415, JSON),
        ("/sets/Demo", "{}", JSON, 404, "no set can be called"),
        (demo.path, " " * 60000, JSON, 413, "bytes"),
    ):
        check_refused(broker.put(path, body, type), status, detail)
    assert demo.get().status == 404
    assert broker.post(demo.path, "{}", JSON).status == 405


# From the next commit on.
def test_rotates_a_set_by_its_own_settings(broker):
    own, other = broker.set(), broker.set()
    for each in (own, other):
        each.post(5)
    assert own.put(rotate_entries=2).status == 200
    for each in (own, other):
        each.post(4)

    # 5, 2, 2 and an open one without entries
    found = describe(own)
    assert found["last"] == 9
    assert found["lists"].items() >= {"open": 4, "closed": 3, "entries": 0}.items()
    assert describe(other)["lists"].items() >= {"open": 1, "entries": 9}.items()


# The broker itself would wait for a day.
def test_rotates_a_set_by_its_own_age(broker):
    own, other = broker.set().create(rotate_age=0.01), broker.set()
    own.post()
    other.post()
    wait_for("a closed list", lambda: describe(own)["lists"]["closed"] == 1)
    assert describe(other)["lists"]["closed"] == 0


# what a harvester reports stays with the set, and is told with it. It is no change
# of the set: nobody is notified, and the time of the last change stays.
def test_keeps_the_report_of_a_harvester(start_broker, backups):
    broker = start_broker()
    demo = broker.set("demo")
    report = {
        **HARVEST,
        "complete_as_of": None,
        "not_complete": "page 2 answered 500",
        "added": 1,
        "changed": 2,
        "deleted": 3,
        "held_back": 40,
        "left_out": 5,
        "left_out_example": 'line 7: "http:///x" has no host',
        "mended": 6,
        "dropped_links": 7,
        "every_s": 3600,
        "accept_deletions": 0,
    }
    assert demo.put_harvest().status == 204  # makes the set
    demo.post()
    before = describe(demo)
    assert demo.put_harvest(**report).status == 204
    found = describe(demo)
    assert found["datetime"] == before["datetime"]
    for end in (broker.kill, broker.stop):
        assert demo.get("harvest").json() == report
        assert describe(demo)["harvest"] == report
        (row,) = broker.get("/sets").json()["sets"]
        assert row["harvest"] == report
        end()
        broker.restart()
    backups.make(broker)
    assert broker.delete(f"{demo.path}/harvest").status == 204
    check_refused(demo.get("harvest"), 404, "no harvester")
    broker.stop()
    backups.restore(broker)
    broker.restart()
    assert describe(demo)["harvest"] == report
    assert demo.delete().status == 204
    demo.post(first=1)
    assert "harvest" not in describe(demo)


# a consent stays with the reports after it until nothing is held back.
def test_keeps_a_consent_to_deletions(start_broker):
    broker = start_broker()
    demo = broker.set("demo")
    consent = f"{demo.path}/harvest?accept-deletions="
    check_refused(broker.request("POST", f"{consent}1"), 404, "")
    demo.post()
    check_refused(broker.request("POST", f"{consent}1"), 404, "no harvester has reported")
    assert demo.put_harvest(held_back=0).status == 204
    check_refused(broker.request("POST", f"{consent}1"), 409, "no deletion is held back")
    assert demo.put_harvest(held_back=40).status == 204
    for wrong in ("0", "x", ""):
        check_refused(broker.request("POST", f"{consent}{wrong}"), 400, "accept-deletions")
    check_refused(broker.request("POST", f"{demo.path}/harvest"), 400, "accept-deletions is missing")
    check_refused(broker.request("POST", f"{consent}39"), 409, "40 deletions are held back, more than 39")
    assert broker.request("POST", f"{consent}45").status == 204
    assert demo.get("harvest").json()["accept_deletions"] == 45
    assert demo.put_harvest(held_back=41).status == 204
    for end in (broker.kill, broker.stop):
        assert demo.get("harvest").json()["accept_deletions"] == 45
        end()
        broker.restart()
    assert demo.put_harvest(held_back=0).status == 204
    assert demo.get("harvest").json()["accept_deletions"] == 0
    assert demo.put_harvest(held_back=40).status == 204
    assert demo.get("harvest").json()["accept_deletions"] == 0


# The report was submitted before the consent is committed, and knows nothing of it.
def test_a_consent_outlives_a_report_that_is_under_way(start_broker, faults):
    broker = start_broker(env=faults.env)
    demo, other = broker.set("demo"), broker.set("other")
    assert demo.put_harvest(held_back=40).status == 204
    faults.arm(faults.SYNC, "tidings.db-wal", faults.HANG)
    holds = Background(other.post)
    faults.wait()
    consent, report = broker.connect(), broker.connect()
    consent.ask(f"{demo.path}/harvest?accept-deletions=45", "POST")
    broker.wait_threads()
    report.ask(f"{demo.path}/harvest", "PUT", json.dumps({**HARVEST, "held_back": 41}), content_type=JSON)
    broker.wait_threads()
    faults.disarm()
    assert (consent.answer().status, report.answer().status) == (204, 204)
    holds.join()
    now = demo.get("harvest").json()
    assert (now["held_back"], now["accept_deletions"]) == (41, 45)
    broker.kill()
    broker.restart()
    assert demo.get("harvest").json() == now


# The rest is in unit/sets/harvest. Whoever may post may report.
def test_refuses_reports_of_harvesters(start_broker, run):
    broker = start_broker()
    demo = broker.set("demo")
    check_refused(demo.put_harvest(added="1"), 422, "added: is a number")
    check_refused(demo.put_harvest(heldback=1), 422, 'is "held_back" meant?')
    long = demo.put_harvest(left_out_example="x" * 8192)
    check_refused(long, 413, "bytes")
    assert demo.get().status == 404
    demo.post()
    add = ("tidingsd", "token", "add", "--data", broker.data)
    for name, right, status in (
        ("a", "publish", 204),
        ("b", "subscribe", 403),
    ):
        secret = run(*add, name, f"--{right}", "demo").output().strip()
        bearer = f"Bearer {secret}"
        path = f"{demo.path}/harvest"
        answer = broker.put(path, HARVEST, authorization=bearer)
        assert answer.status == status, answer


# acknowledged settings are durable.
def test_keeps_settings_over_restart_and_kill(start_broker):
    broker = start_broker()
    demo = broker.set().create(title="Demo", rotate_entries=2)
    epoch = describe(demo)["epoch"]
    for n_closed, end in enumerate((broker.kill, broker.stop)):
        end()
        broker.restart()
        found = describe(demo)
        assert (found["title"], found["epoch"]) == ("Demo", epoch)
        assert found["settings"]["rotateEntries"] == 2
        assert found["lists"]["closed"] == n_closed
        demo.post(2)


# every channel is named by its relation, and works.
def test_names_every_channel(news):
    news.post()
    assert "changelist-archive" not in links(news)  # nothing is closed yet
    news.rotate()
    found = links(news)
    for rel in (
        "self",
        "up",
        "changelist",
        "capabilitylist",
        "urn:tidings:1:memory",
        "changelist-archive",
    ):
        assert news.get_url(found[rel]).status == 200
    assert found["urn:tidings:1:stream"] == f"{news.url}/stream"
    assert found["urn:tidings:1:streams"] == f"{news.broker.url}/stream"
    follower = news.websocket(form=None)
    follower.next()
    assert describe(news)["subscribers"]["websocket-json"] == 1
    follower.leave()


def all_sets(broker):
    """The names of all sets, by the pages of GET /sets."""
    names = []
    path = "/sets"
    while path:
        answer = broker.get(path)
        assert answer.status == 200, answer
        names += [each["name"] for each in answer.json()["sets"]]
        path = answer.json().get("next", "").removeprefix(broker.url)
    return names


def names_on_pages(broker):
    """The names of all sets, by the pages for people: one link leads to the next."""
    names = []
    path = "/sets"
    while path:
        page = html.document_fromstring(broker.get(path, accept="text/html").body)
        names += page.xpath("//td[@class='m']/a/text()")
        (path,) = page.xpath("//a[@rel='next']/@href") or [""]
        path = path.removeprefix(broker.url)
    return names


# A set of one entry costs little memory: 5 KB, where the limit is 8.
@pytest.mark.skipif(is_sanitized(), reason="a sanitizer keeps freed memory")
def test_a_set_of_one_entry_costs_little(start_broker):
    broker = start_broker()
    kib = []
    for some in (range(500), range(500, 500 + MANY)):
        for n in some:
            broker.set(f"s{n}").post()
        kib.append(broker.process.memory_kib("RssAnon"))
    assert (kib[1] - kib[0]) / MANY < 8


# Created, listed in pages, there again after a kill. R-042: one entry each.
def test_serves_thousands_of_sets(start_broker):
    broker = start_broker()
    assert all_sets(broker) == []
    # In an order of its own: 7919 is a prime.
    names = [f"s{i * 7919 % MANY}" for i in range(MANY)]
    for name in names:
        broker.set(name).create(rotate_entries=1)
    assert all_sets(broker) == names_on_pages(broker) == sorted(names)
    broker.kill()
    broker.restart()
    assert all_sets(broker) == sorted(names)
    for name in names[-POSTED:]:
        assert broker.set(name).post().last == 1
    broker.stop()
    broker.restart()
    assert all_sets(broker) == sorted(names)
    assert len(broker.get("/.well-known/resourcesync").document().entries) == MANY
    assert len(broker.set(names[-1]).changelist(1).entries) == 1

    check_refused(broker.get("/sets?after=No"), 400, "after")
