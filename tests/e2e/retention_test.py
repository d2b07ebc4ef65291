"""Old lists go: the oldest first, and visibly."""

import sqlite3

import pytest

from tidings_test.content import contents, multipart
from tidings_test.http import check_refused
from tidings_test.sets import change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

LOC = "http://example.com/1"


def wait_closed(news, n):
    """Wait until so many closed lists are retained; the set's state then."""

    def look():
        state = news.state()
        return state["lists"]["closed"] == n and state

    return wait_for(f"{n} closed lists", look)


def seq_of(position):
    return int(position.partition("-")[2])


def check_lists(news, path, first, n):
    """The document names lists `first` and later, as many as `n`."""
    entries = news.get(path).document().entries
    assert len(entries) == n
    assert f"/{news.list_path(first)}" in entries[0].loc


# the earliest list moves forward in index and archive; R-345: earlier entries
# are gone, and the error states where to restart.
def test_retains_the_latest_lists(start_broker):
    broker = start_broker(
        *("--rotate-entries", "2", "--retain-lists", "3", "--remove-grace", "0")
    )
    news = broker.set()
    news.post(17)  # 8 closed lists and an entry
    for _ in range(2):
        state = wait_closed(news, 3)
        assert state["lists"]["open"] == 9
        assert seq_of(state["earliest"]) == 10
        assert state["lists"]["fileBytes"] > 0
        check_lists(news, "changelist.xml", 6, 4)
        check_lists(news, "changelist-archive.xml", 6, 3)
        check_refused(news.get(news.list_path(5)), 410, "no longer kept")
        assert news.get(news.list_path(6)).status == 200

        gone = news.get("changes?after=9")
        check_refused(gone, 410, "no longer retained")
        assert gone.json()["earliest"] == state["earliest"]
        assert gone.json()["last"] == state["position"]
        assert "/capabilitylist.xml" in gone.json()["restart"]
        check_refused(news.get("changes?after=0"), 410, "no longer retained")
        assert news.page("after=10").seqs == list(range(11, 18))
        assert news.page().after == 10

        news.wait_list_files(3)
        broker.kill()
        broker.restart()
    wait_closed(news, 3)


# Design section 4: a stream that asks for deleted entries, and one that is left behind,
# are closed with 4410 and the earliest position; one that begins there gets all
# retained entries.
@pytest.mark.broker("--rotate-entries", "2", "--retain-lists", "2")
def test_tells_streams_what_is_gone(news):
    news.post(11)
    earliest = wait_closed(news, 2)["earliest"]
    early = news.websocket("after=5", form=None)
    assert earliest in early.wait_close(4410).reason

    right = news.websocket(f"after={earliest}", form="xml")
    assert right.next().last == 6  # the heartbeat there
    right.until(11)
    now = news.websocket(form=None)
    assert now.next().last == 11
    news.post()
    now.until(12)
    right.until(12)


# By age, of a set's own; the closed list that others have stays. The log goes on where
# it was, also when no closed list is left and after a restart.
def test_retains_lists_by_age(start_broker):
    broker = start_broker("--remove-grace", "0")
    news, other = broker.set(), broker.set()
    for each in (news, other):
        each.post(3)
        each.rotate()
    assert news.state()["lists"]["closed"] == 1
    assert news.change(discard=True, retain_age=0.001).status == 200
    wait_closed(news, 0)
    news.wait_list_files(0)
    for end in (broker.kill, broker.stop, broker.stop):
        state = news.state()
        assert state["lists"]["open"] == 2
        assert seq_of(state["earliest"]) == 3
        assert state["earliest"] == state["position"]
        assert state["lists"]["fileBytes"] == 0
        assert news.get("changelist-archive.xml").status == 404
        check_lists(news, "changelist.xml", 2, 1)
        offered = news.get("capabilitylist.xml").document().entries
        assert "changelist-archive" not in [entry.capability for entry in offered]
        end()
        broker.restart()
    assert news.post().first == 4
    assert other.state()["lists"]["closed"] == 1


# Files go later; a client that reads a list that is no longer retained gets all of it,
# and the list after it still links to it.
@pytest.mark.broker("--remove-grace", "3600")
def test_lets_readers_finish(news):
    news.post(100, size=200000)  # 20 MB
    news.rotate()
    news.post()
    news.rotate()
    news.wait_list_files(2)
    with news.broker.connect(narrow=True) as connection:
        connection.ask(f"{news.path}/{news.list_path(1)}")
        head = connection.answer_head()
        assert head.status == 200

        assert news.change(discard=True, retain_lists=1).status == 200
        wait_closed(news, 1)
        check_refused(news.get(news.list_path(1)), 410, "no longer kept")
        body = connection.read(int(head["Content-Length"]))
    assert body.endswith(b"</urlset>\n")
    assert "prev" in news.changelist(2).links
    assert len(news.list_files()) == 2


# A crash between the commit and the files, again and again: lists reported as gone stay
# gone, retained ones stay whole.
def test_survives_sigkill_while_lists_go(start_broker):
    broker = start_broker(
        *("--rotate-entries", "1", "--retain-lists", "2", "--remove-grace", "0")
    )
    news = broker.set()
    earliest = 0
    for i in range(soak(4, 10)):
        posted = news.post(20).last
        if i % 2:
            wait_closed(news, 2)
            wait_for("the first files to go", lambda: len(news.list_files()) <= 15)
        broker.kill()
        broker.restart()
        state = news.state()
        assert seq_of(state["earliest"]) >= earliest
        earliest = seq_of(state["earliest"])
        assert seq_of(state["position"]) == posted
        assert seq_of(wait_closed(news, 2)["earliest"]) == posted - 2
        assert news.get(news.list_path(posted - 1)).status == 200
        news.wait_list_files(2)


# Settings of a newer broker may keep what this one's options delete.
def test_keeps_all_of_a_set_whose_settings_it_cannot_read(start_broker):
    broker = start_broker("--remove-grace", "0", "--rotate-entries", "1")
    broker.add_token("owner", admin=True)
    a, b = broker.set("a").create(content="inline", private=True), broker.set("b")
    parts = multipart([change(LOC)], [(LOC, None, b"text")])
    for _ in range(6):
        assert a.send(*parts).status == 200
    b.post(6)
    a.wait_list_files(6)
    b.wait_list_files(6)
    broker.stop()
    with sqlite3.connect(broker.data / "tidings.db") as db:
        written = '{"content":"inline","private":true,"later":1}'
        db.execute("UPDATE sets SET settings = ? WHERE name = 'a'", (written,))
    db.close()
    broker.options += ["--retain-lists", "2"]
    broker.restart()
    broker.wait_said("so the broker keeps all of the set")
    wait_closed(b, 2)  # the archive thread has looked at `a` before
    assert a.state()["lists"]["closed"] == 6
    assert contents(a) == {b"text"}
    check_refused(broker.holder(None).get("/sets/a"), 401, "token")

    for refused in (a.change(title="x"), a.change(discard=True, title="x"), a.put()):
        check_refused(refused, 409, "settings")
    assert a.put(discard=True, content="inline", private=True).status == 200
    wait_closed(a, 2)
