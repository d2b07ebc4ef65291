"""Change memory that waits: a request with wait= is answered when there is more, or
when its time is over."""

import resource
import threading
import time

import pytest

from tidings_test.http import XML, check_refused

OPTIONS = ("--threads", "2", "--rotate-entries", "10")
ROOM = ("--tail-bytes", "64M", "--message-bytes", "16M")
pytestmark = pytest.mark.broker(*OPTIONS, "--tail-bytes", "1M")

LONG = 300  # seconds: longer than any test
CROWD = 1000


@pytest.fixture
def news(broker):
    """A set with three entries."""
    news = broker.set()
    news.post(3)
    return news


@pytest.fixture
def ask(news):
    """ask("after=3", wait=1): asks the change memory on a new connection."""
    asked = []

    def ask(query, wait=LONG, connection=None, **headers):
        if not connection:
            connection = news.broker.connect()
            asked.append(connection)
        connection.ask(f"{news.changes}?{query}&wait={wait}", **headers)
        return connection

    yield ask
    for connection in asked:
        connection.close()


def expect_page(connection, after, last):
    """The answer is a page with the entries after `after` up to `last`."""
    page = connection.answer().message()
    assert (page.after, page.last, len(page.entries)) == (after, last, last - after)
    assert page.next.endswith(f"-{last}")


def expect_filtered(connection, after, last, seqs):
    """The answer is a page of the filter change=deleted: it covers from `after` to
    `last`, and has these entries."""
    page = connection.answer().message()
    page.check(filtered=True)
    assert (page.after, page.last, page.seqs) == (after, last, seqs)
    assert not page.next or page.next.endswith(f"-{last}&change=deleted")


def delete_one(news):
    news.post_change("http://example.com/r/1", "deleted")


# the broker answers at once with existing changes, and otherwise when one comes.
def test_is_answered_when_there_is_more(news, ask, broker):
    poll = ask("after=1")
    expect_page(poll, 1, 3)
    for last in (3, 5, 7):
        ask(f"after={last}", connection=poll)
        assert broker.get("/healthz").status == 200
        assert poll.is_silent()
        news.post(2)
        expect_page(poll, last, last + 2)


# when the time is over, the page is empty and `next` is where it was.
@pytest.mark.parametrize("wait", ["0", "0.2", "0.4", "0.000001"])
def test_is_answered_empty_when_the_time_is_over(ask, wait):
    start = time.monotonic()
    expect_page(ask("after=3", wait), 3, 3)
    assert time.monotonic() - start >= float(wait) - 0.0001


# Each waits for its own time, independent of others.
def test_waits_for_each_as_long_as_it_asked(ask):
    start = time.monotonic()
    polls = {wait: ask("after=3", wait) for wait in (250, 0.5, 0.2, 300, 0.3)}
    for wait in (0.2, 0.3, 0.5):
        expect_page(polls[wait], 3, 3)
        assert time.monotonic() - start >= wait
    assert polls[250].is_silent()
    assert polls[300].is_silent()


def test_refuses_what_is_no_time_to_wait(news):
    for wait in ("", "x", "-1", "300.1", "1e2", "99999999999999999999", "1."):
        check_refused(news.get(f"changes?after=3&wait={wait}"), 400)
    check_refused(news.get("changes?after=3&wait=%zz"), 400, "escape")
    check_refused(news.get("changes?after=3&wait=301"), 400, "0 to 300 seconds")


# a request for a position that cannot be served does not wait.
def test_does_not_wait_for_what_cannot_come(news, broker):
    check_refused(news.get(f"changes?after=4&wait={LONG}"), 410)
    check_refused(news.get(f"changes?after=x&wait={LONG}"), 400)
    check_refused(broker.get(f"/sets/none/changes?wait={LONG}"), 404)


# a change that does not pass wakes the request without an answer. The
# page in the end covers it all the same, from the client's position on, also if memory
# has lost it meanwhile, and in either form.
def test_goes_on_waiting_where_nothing_passes(news, ask, broker):
    json = ask("after=1&change=deleted")
    xml = ask("after=2&change=deleted", accept=XML)
    for _ in range(30):
        last = news.post(1000, size=300).last
        assert broker.get("/healthz").status == 200
        assert json.is_silent()
        assert xml.is_silent()
    assert last == 30003
    delete_one(news)
    expect_filtered(json, 1, 30004, [30004])
    expect_filtered(xml, 2, 30004, [30004])

    # And on the same connection, further on.
    ask("after=30004&change=deleted", connection=json)
    news.post(5)
    assert json.is_silent()
    delete_one(news)
    expect_filtered(json, 30004, 30010, [30010])


# then it says how far it has looked, which is further than where the
# client was; so it does when the broker ends.
def test_says_how_far_it_has_looked_when_nobody_waits_any_longer(start_broker):
    broker = start_broker(*OPTIONS)
    news = broker.set()
    news.post(3)
    poll = broker.connect()
    poll.ask(f"{news.changes}?after=1&change=deleted&wait=0.4")
    expect_filtered(poll, 1, 3, [])
    poll.ask(f"{news.changes}?after=1&change=deleted&wait={LONG}")
    news.post(4)
    broker.wait_threads()  # it waits
    assert poll.is_silent()
    broker.terminate()
    expect_filtered(poll, 1, 7, [])
    assert poll.read_all() == b""
    assert broker.wait() == 0


# The moment is looked up once: the request waits behind the last entry of that moment,
# and its page begins there.
def test_waits_for_what_comes_after_a_moment(news, ask, broker):
    past = ask("since=2001-01-01")
    expect_page(past, 0, 3)
    fourth = news.post()
    # It came in one packet with another request, which is answered.
    now = broker.connect()
    since = now.request_bytes(f"{news.changes}?since=9000&wait={LONG}")
    now.send(now.request_bytes("/healthz") + since)
    assert now.answer().status == 200
    assert now.is_silent()
    quiet = ask(f"since={fourth.datetime}&tag=none&change=deleted")
    ask(f"since={fourth.datetime}&change=deleted", connection=past)
    broker.wait_threads()  # it waits
    assert past.is_silent()
    news.post(2)
    expect_page(now, 4, 6)
    delete_one(news)
    expect_filtered(past, 4, 7, [7])
    assert quiet.is_silent()


# A set's polls are its own.
def test_hears_of_its_own_set_only(news, ask, broker):
    poll = ask("after=3")
    other = broker.set()
    other.post(5)
    other.post(5)
    assert poll.is_silent()
    news.post()
    expect_page(poll, 3, 4)


# Lists that close meanwhile change nothing.
def test_goes_on_across_a_rotation(news, ask):
    poll = ask("after=3")
    news.rotate()
    assert poll.is_silent()
    news.post(20)
    expect_page(poll, 3, 23)


# one commit wakes all requests, each with the whole of it; the broker forgets
# closed ones, and waiting ones cost little.
def test_wakes_a_crowd_and_forgets_who_has_gone(news, ask):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    polls = [ask("after=3") for _ in range(CROWD)]
    for poll in polls[0::3]:
        poll.abort()
    for poll in polls[1::3]:
        poll.close()
    assert news.post(9).last == 12
    for poll in polls[2::3]:
        expect_page(poll, 3, 12)
        ask("after=12", connection=poll)
    news.post()
    for poll in polls[2::3]:
        expect_page(poll, 12, 13)


# Rule 5: the page for a crowd may be large; there is no room for all copies at the same
# time if clients read slowly (sets/registry.c), and some get it a little later.
@pytest.mark.broker("--threads", "2", *ROOM)
def test_serves_a_crowd_that_is_woken_for_large_pages(news, broker):
    polls = [broker.connect(narrow=True) for _ in range(30)]
    for poll in polls:
        poll.ask(f"{news.changes}?after=3&wait={LONG}", accept=XML)
    broker.wait_threads()  # it waits
    news.post(240, size=50000)
    bodies = [None] * len(polls)

    def read(i):  # all at the same time: who has no page yet waits for those who have
        answer = polls[i].answer()
        bodies[i] = answer.body if answer.status == 200 else answer

    readers = [threading.Thread(target=read, args=[i]) for i in range(len(polls))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(bodies[0]) > 12000000
    assert all(body == bodies[0] for body in bodies)
    for poll in polls:
        poll.close()


# The next request of the connection waits behind it.
def test_answers_what_is_pipelined_behind_it_afterwards(news, ask, broker):
    poll = ask("after=3")
    poll.ask("/healthz")
    assert broker.get("/healthz").status == 200
    assert poll.is_silent()
    news.post()
    expect_page(poll, 3, 4)
    assert poll.answer().status == 200


# Nobody waits for a broker that ends.
def test_is_answered_when_the_broker_ends(start_broker):
    broker = start_broker(*OPTIONS)
    news = broker.set()
    news.post(3)
    polls = [broker.connect() for _ in range(20)]
    for poll in polls:
        poll.ask(f"{news.changes}?after=3&wait={LONG}")
    broker.wait_threads()  # it waits
    broker.terminate()
    for poll in polls:
        expect_page(poll, 3, 3)
        assert poll.read_all() == b""
    assert broker.wait() == 0
    broker.restart()
    news.page("after=3&wait=0.1")
