"""A removed set is gone, visibly; made again it is another one, and no address ever
gets other bytes."""

import pytest

from tidings_test.http import check_refused
from tidings_test.soak import soak
from tidings_test.waiting import wait_for


def described(broker):
    """The sets of the Source Description."""
    return broker.get("/.well-known/resourcesync").document().entries


# visible in the Source Description at once; all that it had is gone, which is
# more than not found. Design section 4.
def test_answers_410_for_all_that_a_removed_set_had(start_broker):
    broker = start_broker()
    demo, other = broker.set(), broker.set()
    paths = [
        "",
        "changes?after=0",
        "capabilitylist.xml",
        "changelist.xml",
        "changes/000000000001.xml",
        "changelist-archive.xml",
    ]
    demo.post(3)
    other.post(3)
    demo.rotate()
    assert len(described(broker)) == 2
    removed = demo.delete()
    assert (removed.status, removed.body) == (204, b"")

    assert len(described(broker)) == 1
    for _ in range(2):
        for path in paths:
            check_refused(demo.get(path), 410, "was removed")
        check_refused(broker.post(f"{demo.path}/rotate"), 410, "was removed")
        check_refused(demo.delete(), 410, "was removed")
        assert other.get("changelist.xml").status == 200
        broker.stop()
        broker.restart()
    check_refused(broker.delete("/sets/never"), 404, "there is no set")


# Streams get a farewell of their own, whichever state they are in.
def test_says_farewell_to_the_streams_of_a_removed_set(broker):
    demo, other = broker.set(), broker.set()
    demo.post(3)
    other.post(3)
    for _ in range(soak(50, 200)):
        demo.post(size=200000)
    waiting = demo.websocket(form=None)
    waiting.next()
    others = other.websocket(form=None)
    others.next()
    behind = demo.websocket("after=0", form="xml", narrow=True)

    assert demo.delete().status == 204
    behind.wait_close(4404)  # it has five seconds
    assert waiting.wait_close(4404).reason == "the set was removed"
    other.post()
    assert others.news().last == 4


# the list numbers go on: an address that was served as immutable answers 410,
# and never with other bytes.
def test_makes_another_set_of_the_same_name(start_broker):
    broker = start_broker()
    news = broker.set()
    news.post(3)
    news.rotate()
    news.post(3)  # list 2 is open
    before = news.state()["epoch"]
    assert news.delete().status == 204

    assert news.post(2, first=1).first == 1
    assert news.state()["epoch"] != before
    assert news.state()["lists"]["open"] == 3

    def kill():
        broker.kill()
        broker.restart()

    for what_comes in (kill, news.rotate, None):
        check_refused(news.get(news.list_path(1)), 410, "no longer kept")
        check_refused(news.get(news.list_path(2)), 410, "no longer kept")
        begun = news.changelist(3)
        assert len(begun.entries) == 2
        # It begins a history: there is none before it.
        assert "prev" not in begun.links
        if what_comes:
            what_comes()
    assert len(news.get("changelist-archive.xml").document().entries) == 1


# a position of the removed set is of another epoch.
def test_refuses_positions_of_the_removed_set(broker):
    news = broker.set()
    receipt = news.post(3)
    assert news.delete().status == 204
    news.post(5)
    check_refused(news.get(f"changes?after={receipt.position}"), 410, "another log")


def test_forgets_the_settings_of_a_removed_set(broker):
    news = broker.set().create(rotate_entries=1)
    assert news.delete().status == 204
    news.create()
    news.post(3)
    state = news.state()
    assert state["settings"]["rotateEntries"] == 50000
    assert state["lists"]["closed"] == 0


FILES = 150


# The files of the set that was made again stay.
@pytest.mark.broker("--rotate-entries", "1", "--remove-grace", "3600")
def test_files_stay_for_the_grace_period(broker):
    news = broker.set()
    news.post(FILES)
    news.wait_list_files(FILES)
    assert news.delete().status == 204
    news.post(5)
    news.wait_list_files(FILES + 5)


@pytest.mark.broker("--rotate-entries", "1", "--remove-grace", "0")
def test_takes_the_files_after_the_grace_period(broker):
    news = broker.set()
    news.post(FILES)
    news.wait_list_files(FILES)
    assert news.delete().status == 204
    news.post(5)
    news.wait_list_files(5)
    assert news.get(news.list_path(FILES + 6)).status == 200
    assert news.get("changes?after=0").status == 200
    assert news.delete().status == 204
    news.wait_list_files(0)


# SIGKILL while sets are removed: each is whole or removed, and an acknowledged removal
# stays; the files go all the same.
def test_survives_sigkill_in_the_middle_of_removals(start_broker):
    broker = start_broker("--rotate-entries", "1", "--remove-grace", "0")
    for i in range(soak(6, 12)):
        n = 70 + i
        news = broker.set()
        news.post(n)
        news.wait_list_files(n)
        # How far the removal comes is up to chance, and to the round.
        with broker.connect() as connection:
            connection.ask(news.path, "DELETE")
            if i % 3 == 1:
                assert connection.answer().status == 204
            elif i % 3 == 2:
                wait_for("the files to go", lambda: len(news.list_files()) < n)
            broker.kill()
        broker.restart()

        status = news.get("changes?after=0").status
        assert status == 410 or (status == 200 and i % 3 == 0)
        if status == 200:
            news.wait_list_files(n)
            assert news.delete().status == 204
        news.wait_list_files(0)
        # Nothing is left in it then.
        wait_for("the set's folder to go", lambda: not news.folder.exists())
