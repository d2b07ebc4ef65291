"""The change memory: GET /sets/{set}/changes?after=POSITION."""

import pytest

from tidings_test.http import check_refused
from tidings_test.sets import entries


def get_page(news, query=""):
    """GET a page of the change memory, which follows the rules of messages, and links
    to itself and the next page (R-342)."""
    answer = news.broker.get(f"{news.changes}?{query}" if query else news.changes)
    page = answer.message()
    page.check()
    assert answer["Content-Type"] == "application/json"
    assert not page.now and not page.heartbeat
    url = f"{news.url}/changes?after={page.epoch}"
    assert page.next == f"{url}-{page.last}"
    links = f'<{url}-{page.after}>; rel="self", <{page.next}>; rel="next"'
    assert answer["Link"] == links
    return page


def next_page(news, page):
    """The next page, as this one names it; they have to fit together."""
    later = get_page(news, page.next.partition("?")[2])
    later.check_follows(page)
    return later


# R-342, with the example of the 2012 draft: 20 -> events 21, 22 -> next 22.
def test_a_page_has_exactly_the_entries_after_a_position(news):
    news.post(22)
    page = get_page(news, "after=20")
    assert (page.after, page.last) == (20, 22)
    assert page.locs == ["http://example.com/r/21", "http://example.com/r/22"]
    assert len(get_page(news).entries) == 22  # from the beginning


# an empty page is valid, and is its own next page.
def test_a_page_is_empty_at_the_head(news):
    posted = news.post(5)
    query = f"after={posted.position}"
    for _ in range(3):
        page = get_page(news, query)
        assert (page.after, page.entries, page.until) == (5, [], posted.datetime)
        assert page.next == f"{news.url}/changes?{query}"
    news.post()
    assert get_page(news, query).seqs == [6]


POSTS = [1, 40, 900] * 22


def post_many(client, news):
    """Post as many entries at a time as POSTS says."""
    for n in POSTS:
        assert client.post(news.changes, entries(n)).status == 200


# following next gives every entry once while posting goes on. Where two pages
# meet, seq, time and digest do.
def test_pages_give_every_entry_once_while_posting_goes_on(news, broker, background):
    news.post()
    page = get_page(news, "after=0")
    posting = background(post_many, broker.client(), news)
    while posting.is_running:
        page = next_page(news, page)
    posting.join()
    while page.last < 1 + sum(POSTS):
        page = next_page(news, page)
        assert page.entries
    assert page.last == 1 + sum(POSTS)


# Digests too: the memory's at a seq is that of the list's root at that seq.
def test_the_memory_says_what_the_stream_and_the_list_say(news):
    news.post()
    follower = news.websocket(form="xml")
    follower.next()
    for i in range(1, 30):
        after = follower.message.last
        news.post(i)
        pushed = follower.news()
        page = get_page(news, f"after={after}")
        for name in ("last", "digest", "from_", "until", "locs"):
            assert getattr(page, name) == getattr(pushed, name)
        assert news.changelist().digest == page.digest
    follower.leave()


def test_pages_go_on_from_one_list_into_the_next(broker):
    news = broker.set().create(rotate_entries=7)
    news.post(100)
    last = 0
    while last < 100:
        page = get_page(news, f"after={last}")
        assert page.after == last and page.entries
        last = page.last
    assert last == 100


# a malformed position, one of another log and one ahead of it get clear errors.
@pytest.mark.parametrize(
    "after, status",
    [
        *[(after, 400) for after in ("x", "", "-5", "EPOCH-", "EPOCH-1-1")],
        # An epoch alone; one of sixteen digits would be a seq.
        *[(after, 400) for after in ("0123456789abcdef", "5%2B1", "18446744073709551616")],
        *[(after, 410) for after in ("6", "EPOCH-6", "EPOCH-99999999")],
        ("0123456789abcdef-1", 410),
    ],
)
def test_positions_that_cannot_be_served_are_refused(news, after, status):
    posted = news.post(5)
    answer = news.get(f"changes?after={after.replace('EPOCH', posted.epoch)}")
    check_refused(answer, status, "position")
    if status == 410:
        problem = answer.json()
        assert problem["earliest"] == f"{posted.epoch}-0"
        assert problem["last"] == posted.position
        assert problem["restart"] == f"{news.url}/capabilitylist.xml"
        assert news.get_url(problem["restart"]).status == 200


def test_what_is_no_set_has_no_memory(broker):
    assert broker.get("/sets/capabilitylist.xml/changes").status == 404
