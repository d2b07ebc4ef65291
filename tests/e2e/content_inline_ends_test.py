"""Changes are posted together with the bytes of their resources: many bytes, and posts
that break off, or that something else happens to meanwhile."""

import random

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.content import MULTIPART, arriving, check_kept, kept, multipart
from tidings_test.http import NDJSON, check_refused
from tidings_test.sets import change
from tidings_test.waiting import wait_for

A, B = (f"http://example.com/{name}" for name in "ab")
HELLO = b"hello\n"
MIB = 1 << 20

# More than a block: it is written while the broker awaits the rest.
LONG = b"x" * 2000000
LONG_BODY, _ = multipart([change(A), change(B)], [(A, None, HELLO), (B, None, LONG)])

LARGE = (20 if is_sanitized() else 40) * MIB
LARGE_KIB = 32 * 1024  # two blocks of it are held in memory; 20 MB were measured


@pytest.fixture
def news(start_broker):
    return start_broker().set().create(content="inline")


@pytest.fixture
def broker(news):
    return news.broker


class Posting:
    """A post with content that begins: all but the last 100 bytes were sent, and some
    of a content is on the disk."""

    def __init__(self, news, body=LONG_BODY, size=None, **headers):
        self.connection = announce(news, size or len(body), **headers)
        self.connection.send(body[:-100])
        self.rest = body[-100:]
        wait_for("content to arrive", lambda: arriving(news.broker))

    def finish(self):
        """Send the rest; the answer."""
        self.connection.send(self.rest)
        return self.connection.answer()


def announce(news, size, **headers):
    """Send the head of a post of so many bytes; its connection."""
    connection = news.broker.connect()
    headers.update(content_type=MULTIPART, content_length=size)
    connection.ask(news.changes, "POST", **headers)
    return connection


def wait_none_arriving(broker):
    wait_for("what has arrived to go", lambda: not arriving(broker))


def check_posted(news, answer):
    """LONG_BODY got that answer as the first post of the set, and is kept."""
    receipt = news.receipt(answer)
    assert (receipt.first, receipt.last) == (1, 2)
    check_kept(news, 2, HELLO, LONG)


def test_a_large_content_takes_bounded_memory(news, broker):
    large = random.Random(1).randbytes(LARGE)
    receipt = news.receipt(news.send(*multipart(change(A), [(A, None, large)])))
    assert (receipt.first, receipt.last) == (1, 1)
    if not is_sanitized():
        assert broker.process.memory_kib() < LARGE_KIB
    check_kept(news, 1, large)


def test_a_connection_that_breaks_leaves_nothing(news, broker):
    Posting(news).connection.abort()
    wait_none_arriving(broker)
    check_kept(news, 0)
    check_posted(news, news.send(LONG_BODY, MULTIPART))


# Nobody gets an answer. There is much to be placed, so that the connection breaks
# meanwhile.
def test_what_has_arrived_whole_is_kept_without_a_connection(news):
    contents = {f"http://example.com/{i}": b"%09999d" % i for i in range(100)}
    changes = "\n".join(f'{{"loc":"{loc}","change":"created"}}' for loc in contents)
    parts = [(loc, None, content) for loc, content in contents.items()]
    body, _ = multipart(changes, parts, NDJSON)
    posting = Posting(news, body)
    posting.connection.send(posting.rest)
    wait_for("a content to be kept", lambda: kept(news))
    posting.connection.abort()
    wait_for("the entries", news.last)
    check_kept(news, 100, *contents.values())


#
def test_a_crash_leaves_nothing_half_kept(news, broker):
    posting = Posting(news)
    broker.kill()
    posting.connection.close()
    assert arriving(broker)
    broker.restart()
    check_kept(news, 0)
    check_posted(news, news.send(LONG_BODY, MULTIPART))
    broker.kill()
    broker.restart()
    check_kept(news, 2, HELLO, LONG)


def test_a_broker_that_ends_meanwhile_leaves_nothing(news, broker):
    posting = Posting(news)
    broker.terminate()
    broker.wait_said('msg="ending"')
    posting.connection.abort()  # or the broker would wait for seconds, and do so itself
    assert broker.wait() == 0
    assert not arriving(broker)
    assert not kept(news)
    broker.restart()
    check_kept(news, 0)


# A repeat is not kept waiting for the end of the first one.
def test_a_repeat_that_comes_meanwhile_is_told_to_come_again(news):
    posting = Posting(news, idempotency_key="one")
    again = multipart(change(A), [(A, None, HELLO)])
    refused = news.send(*again, idempotency_key="one")
    check_refused(refused, 409, "is at work")
    assert refused["Retry-After"] == "1"

    assert posting.finish().status == 200
    check_posted(news, news.send(LONG_BODY, MULTIPART, idempotency_key="one"))


def test_a_set_that_is_removed_meanwhile_keeps_nothing(news, broker):
    posting = Posting(news)
    assert news.delete().status == 204
    check_refused(posting.finish(), 410)
    assert news.get().status == 410
    assert not arriving(broker)


def check_no_room(news, size):
    connection = announce(news, size)
    connection.send(LONG_BODY[:600000])  # more than is looked at in one go
    check_refused(connection.answer(), 503, "the disk has no room for")
    connection.close()


# A post has its room from the beginning: others get what is left, and the log needs
# some.
def test_what_others_bring_is_counted_as_if_it_were_there(start_broker, faults):
    broker = start_broker(env=faults.env)
    news = broker.set().create(content="inline")
    faults.set_disk(1000 * MIB)
    check_no_room(news, 950 * MIB)
    assert not arriving(broker)
    for _ in range(2):
        posting = Posting(news, size=600 * MIB)
        check_no_room(news, 500 * MIB)
        posting.connection.abort()
        wait_none_arriving(broker)
    check_kept(news, 0)
