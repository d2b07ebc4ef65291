"""`tidings sync` and `tidings audit` of a broker that has a Resource List: they begin
with it, and go on where it stands."""

import pytest

from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")


@pytest.fixture
def mirrored(mirrored):
    """The set keeps one closed list of five entries, and nothing before it."""
    mirrored.set.create(rotate_entries=5, retain_lists=1)
    return mirrored


def change_many(mirrored, first, last, text):
    mirrored.change_many(first, last, text)
    mirrored.post()


def wait_cut(mirrored):
    """Wait until the log no longer goes back to its beginning."""
    lists = mirrored.set
    wait_for("the oldest lists to go", lambda: lists.state()["lists"]["closed"] == 1)


# joining has no race: the mirror follows changes that were posted behind
# the list, before it reads the list, from the position that the list states; the
# entries in the list need no history.
def test_begins_with_the_list_and_goes_on_where_it_stands(mirrored):
    change_many(mirrored, 1, 20, "first")
    change_many(mirrored, 3, 7, None)
    mirrored.set.build("resourcelist")
    change_many(mirrored, 1, 2, "second")
    change_many(mirrored, 20, 20, None)
    change_many(mirrored, 21, 21, "new")
    wait_cut(mirrored)
    mirrored.sync()

    # An audit compares all resources, though the log does not have them all.
    mirrored.audit(mirrored.url)
    mirrored.write(mirrored.place("/r/1.txt"), "other")
    assert "corrupt" in mirrored.audit(mirrored.url, status=1).output()
    mirrored.audit(mirrored.url, "--repair")
    mirrored.check_same()

    # And from there on as ever.
    mirrored.change_many(22, 22, "newer")
    mirrored.sync()


# A mirror that was away for longer than the log reaches back begins anew with the list,
# and removes files that the source deleted.
def test_begins_anew_where_the_history_was_cut(mirrored):
    change_many(mirrored, 1, 8, "first")
    mirrored.sync()
    change_many(mirrored, 1, 3, None)
    change_many(mirrored, 4, 20, "second")
    wait_cut(mirrored)
    mirrored.set.build("resourcelist")
    mirrored.change_many(5, 5, "third")
    mirrored.sync("--max-delete", "none")
