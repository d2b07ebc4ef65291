"""Sets are created, configured and described."""

from tidings_test.http import JSON, check_refused
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

MANY = soak(1100, 2000)  # several pages of GET /sets, of 1000 each
POSTED = soak(100, 2000)  # sets that have an entry


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


# PUT is a replacement: what is absent takes the broker's default.
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


# Created, listed in pages, there again after a kill. R-042: one entry each.
def test_serves_thousands_of_sets(start_broker):
    broker = start_broker()
    assert all_sets(broker) == []
    # In an order of its own: 7919 is a prime.
    names = [f"s{i * 7919 % MANY}" for i in range(MANY)]
    for name in names:
        broker.set(name).create(rotate_entries=1)
    assert all_sets(broker) == sorted(names)
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
