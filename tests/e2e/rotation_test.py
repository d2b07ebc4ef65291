"""When lists close, and how readers see it."""

import pytest

from tidings_test.sets import change
from tidings_test.waiting import wait_for

FRAME_MAX = 5120  # the most that stands around the entries (proto/resourcesync/document_write.h)


def rotation(news):
    """Ask for a rotation; the number of the list that was closed, None: none was."""
    answer = news.broker.post(f"{news.path}/rotate")
    assert answer.status == 200, answer
    facts = answer.json()
    assert facts["set"] == news.name
    closed = facts["closed"]
    if closed is not None:
        assert facts["list"] == f"{news.url}/{news.list_path(closed)}"
    return closed


def wait_closed(news, lists, n):
    """Wait until `n` lists are closed, and no more."""
    index = news.changelist
    wait_for(f"{n} closed lists", lambda: index().is_index and len(index().entries) > n)
    assert len(lists.read()) == n + 1


# When lists close


# a list ends with the entry that fills it, also in the middle of
# a post; the fixed address becomes the index.
@pytest.mark.broker("--rotate-entries", "3")
def test_a_list_closes_when_it_has_its_number_of_entries(news):
    lists = news.changelists()
    news.post(2)
    assert len(lists.read()) == 1
    news.post(1)
    assert [one.last for one in lists.read()] == [3, 3]  # the second is empty
    news.post(7)
    assert [one.last for one in lists.read()] == [3, 6, 9, 10]


# index, archive and lists, full, open and empty ones.
@pytest.mark.broker("--rotate-entries", "2")
def test_what_rotation_makes_is_valid_by_the_schemas(news):
    news.post(4)
    news.changelist().check_valid()
    news.get("changelist-archive.xml").document().check_valid()
    for number in (1, 2, 3):
        news.changelist(number).check_valid()


# as full as it may be, and not a byte more.
@pytest.mark.broker("--rotate-bytes", "600000")
def test_a_list_closes_before_it_has_too_many_bytes(news):
    for i in range(20):
        news.post(7 + i % 3, size=9000 + i * 100)
    lists = news.changelists().read()
    assert 3 <= len(lists) <= 4
    for one, behind in zip(lists, lists[1:]):
        assert 0 < one.size <= 600000
        # The first entry behind it had no room in it any more.
        entry = lists.get(behind.url, "changelist").entries[0]
        assert one.size + len(entry.line) + FRAME_MAX > 600000


# age counts from the first entry; a list without entries does not age.
@pytest.mark.broker("--rotate-age", "0.3")
def test_a_list_closes_when_it_is_old(news):
    lists = news.changelists()
    news.post(2)
    wait_closed(news, lists, 1)
    assert lists[0].last == 2
    news.post(1)
    wait_closed(news, lists, 2)
    assert (lists[1].after, lists[1].last) == (2, 3)


# also one that was filled before a restart.
def test_a_list_grows_old_across_a_restart(start_broker):
    broker = start_broker("--rotate-age", "0.3")
    news = broker.set()
    news.post(2)
    broker.kill()
    broker.restart()
    lists = news.changelists()
    wait_closed(news, lists, 1)
    assert lists[0].last == 2


# R-148; an empty list is not closed.
@pytest.mark.broker("--rotate-age", "0")
def test_a_list_closes_on_demand_unless_it_is_empty(news, broker):
    lists = news.changelists()
    news.post(2)
    assert rotation(news) == 1
    assert [one.last for one in lists.read()] == [2, 2]
    assert rotation(news) is None
    assert len(lists.read()) == 2
    news.post(1)
    assert rotation(news) == 2
    assert broker.post("/sets/unknown/rotate").status == 404


# the entries so far are the beginning of those to come.
@pytest.mark.broker("--rotate-entries", "100")
def test_an_open_list_grows_at_its_end_only(news):
    news.post(40)
    for first in range(41, 141, 7):
        number = 1 if first <= 101 else 2
        before = news.changelist(number)
        news.post(7)
        after = news.changelist(number)
        assert after.from_ == before.from_
        assert len(after.entries) > len(before.entries)
        lines = [entry.line for entry in after.entries[: len(before.entries)]]
        assert lines == [entry.line for entry in before.entries]


# While rotations run

POSTS = 400


def keep_rotating(client, news):
    """Post 5 entries at a time, where a list has 3, and ask for a rotation now and
    then."""
    for i in range(POSTS):
        body = [change(f"http://example.com/{i}/{k}") for k in range(5)]
        assert client.post(news.changes, body).status == 200
        if i % 4 == 0:
            assert client.post(f"{news.path}/rotate").status == 200


def read_archive(news):
    """The entries of the archive, whether it has parts or not."""
    document = news.get("changelist-archive.xml").document()
    if not document.is_index:
        return document.entries
    parts = [news.get_url(entry.loc).document() for entry in document.entries]
    return [entry for part in parts for entry in part.entries]


def check_index(index):
    """R-170: the index shows one moment, whichever lists close meanwhile."""
    assert index.is_index
    assert 2 <= len(index.entries) <= 5
    for one, behind in zip(index.entries, index.entries[1:]):
        assert one.until == behind.from_ != ""
    assert index.entries[-1].until == ""


def check_archive(archive, index):
    """The archive of a moment later goes back without a hole to the first list, and
    has every closed list of the index."""
    assert archive[0].loc.endswith("/000000000001.xml")
    assert all(entry.until for entry in archive)
    for one, behind in zip(archive, archive[1:]):
        assert one.until == behind.from_
    closed = index.entries[:-1]
    at = [entry.loc for entry in archive].index(closed[0].loc)
    for known, entry in zip(archive[at : at + len(closed)], closed, strict=True):
        assert (known.loc, known.until) == (entry.loc, entry.until)


def check_lists(news, index):
    """Each list of an index a moment ago is what the index said, or has closed since,
    with the same beginning."""
    for entry in index.entries:
        document = news.get_url(entry.loc).document()
        assert document.from_ == entry.from_
        assert entry.until in ("", document.until)
        if document.until:
            assert document.entries[-1].datetime == document.until


# never two open lists, no list in neither place.
@pytest.mark.broker("--rotate-entries", "3", "--index-lists", "4")
def test_no_reader_sees_a_rotation_half_done(news, broker, background):
    news.post(3)
    rotating = background(keep_rotating, broker.client(), news)
    while rotating.is_running:
        index = news.changelist()
        check_index(index)
        check_archive(read_archive(news), index)
        check_lists(news, index)
    rotating.join()
    assert news.changelists().read().history.last == 3 + 5 * POSTS
