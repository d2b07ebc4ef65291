"""A post with an Idempotency-Key is kept once, however often it comes, and every repeat
gets the answer of the first one."""

import json
import threading

from tidings_test.http import JSON, XML, ConnectionEnded, check_refused
from tidings_test.sets import Set, change
from tidings_test.soak import soak
from tidings_test.waiting import Arrivals, wait_for

A, B = "http://example.com/a", "http://example.com/b"

LINK = {"rel": "related", "href": "http://example.com/z"}
SINCE = "2020-01-01T00:00:00Z"
FIRST = change(f"{A}?b&c", datetime=SINCE, length=3, links=[LINK])
TWO = json.dumps([FIRST, change(B, "deleted")])

# The same changes.
TWO_IN_XML = """<?xml version='1.0'?>
<s:urlset xmlns:s='http://www.sitemaps.org/schemas/sitemap/0.9'
 xmlns:r='http://www.openarchives.org/rs/terms/'>
<r:md capability='changelist'/>
<s:url><r:md length='3' change='created' datetime='2020-01-01T01:00:00.000+01:00'/>
<s:loc>http://example.com/a?b&#38;c</s:loc>
<r:ln href='http://example.com/z' rel='related'/></s:url>
<s:url><s:loc>http://example.com/b</s:loc><r:md change='deleted'/></s:url></s:urlset>
"""


def post(news, key, body=TWO, type=JSON):
    return news.send(body, type, idempotency_key=key)


def post_first(news, key, body=TWO, type=JSON):
    """Post it for the first time; the answer."""
    answer = post(news, key, body, type)
    assert answer.status == 200, answer
    assert answer["Idempotent-Replayed"] is None
    return answer


def check_repeat(first, news, key, body=TWO, type=JSON):
    """Post it again: the body is, byte for byte, that of the first time, and a header
    says so."""
    answer = post(news, key, body, type)
    assert answer["Idempotent-Replayed"] == "true"
    assert (answer.status, answer["Content-Type"]) == (200, JSON)
    assert answer.body == first.body


def check_kept(news, n):
    """The log of the set has exactly `n` entries."""
    page = news.page("after=0")
    page.check()
    assert page.last == n


# Design section 4: a retry is harmless, even after posts of others. Without a key, with
# another one and in another set it is another post.
def test_a_repeat_gets_the_same_answer_and_posts_nothing(news, broker):
    first = post_first(news, "abc")
    check_repeat(first, news, "abc")
    news.post(3)
    check_repeat(first, news, "abc")
    check_repeat(first, news, '"abc"')
    check_kept(news, 5)

    assert news.send(TWO).status == 200
    post_first(news, "abcd")
    other = broker.set()
    post_first(other, "abc")
    check_kept(news, 9)
    check_kept(other, 2)


# Formats, prefixes, spellings of times and orders of attributes do not matter.
def test_the_same_changes_in_another_format_are_a_repeat(news):
    first = post_first(news, "from-json")
    check_repeat(first, news, "from-json", TWO_IN_XML, XML)
    first = post_first(news, "from-xml", TWO_IN_XML, XML)
    check_repeat(first, news, "from-xml")
    check_kept(news, 4)


# a crash loses no acknowledged post, and no key.
def test_a_key_is_kept_over_restart_and_crash(start_broker):
    broker = start_broker()
    news = broker.set()
    for key, end in (("first", broker.stop), ("second", broker.kill)):
        first = post_first(news, key)
        end()
        broker.restart()
        check_repeat(first, news, key)
    check_refused(post(news, "second", change(A, "updated")), 422, '"second"')
    assert post(news, "first").status == 200
    check_kept(news, 4)


# The smallest difference counts, and the problem names the key.
def test_a_key_with_other_entries_is_refused(news):
    one = change(A)
    first = post_first(news, "k/17", one)
    others = (change(A, "updated"), change(B), change(A, datetime=SINCE), [one, one])
    for other in others:
        check_refused(post(news, "k/17", other), 422, '"k/17"')
    check_repeat(first, news, "k/17", one)
    check_kept(news, 1)


def test_a_malformed_key_is_refused(news):
    news.post()
    for key, why in (
        ("k" * 256, "1 to 255 visible ASCII"),
        ("a b", '"a b"'),
        ('"ab', "quoted"),
        ('""', "Idempotency-Key"),
    ):
        check_refused(post(news, key), 400, why)
    check_kept(news, 1)
    post_first(news, "k" * 255)
    check_kept(news, 3)


def begin_post(news, key):
    """Begin a post of TWO, of which the broker wants the body; its connection."""
    connection = news.broker.connect()
    connection.ask(
        news.changes, "POST", content_type=JSON, content_length=len(TWO),
        idempotency_key=key, expect="100-continue",
    )  # fmt: skip
    assert connection.answer_head().status == 100
    return connection


# Even if the repeat has another body. When the first has ended, its answer is there.
def test_a_repeat_of_a_running_post_is_told_to_ask_again(news):
    with begin_post(news, "slow") as connection:
        answer = post(news, "slow")
        check_refused(answer, 409, '"slow"')
        assert answer["Retry-After"] == "1"
        connection.send(TWO[:20])
        check_refused(post(news, "slow", "not even JSON"), 409, '"slow"')
        post_first(news, "other")

        connection.send(TWO[20:])
        first = connection.answer()
    assert first.status == 200
    check_repeat(first, news, "slow")
    check_kept(news, 4)


def wait_ended(post):
    """Call post() until no post with its key is running; the answer."""

    def look():
        answer = post()
        return answer.status != 409 and answer

    return wait_for("the end of the running post", look)


# Its connection was reset in the middle.
def test_a_post_that_broke_off_leaves_no_key(news):
    connection = begin_post(news, "broken")
    connection.send(TWO[:20])
    connection.abort()
    assert wait_ended(lambda: post(news, "broken")).status == 200
    check_kept(news, 2)


# Design rule 5: nothing of a refused post is kept.
def test_a_refused_post_leaves_no_key(news):
    check_refused(post(news, "k", '[{"loc":"http://example.com/a",'), 400)
    check_refused(post(news, "k", change("nowhere")), 422, "loc")
    check_refused(post(news, "k", type="text/csv"), 415)
    first = post_first(news, "k")
    check_repeat(first, news, "k")
    check_kept(news, 2)


# Each gets the answer of the post that is kept, on a connection of its own.
def test_twenty_repeats_at_once_are_kept_once(news, broker, background):
    barrier = threading.Barrier(20)

    def repeat(client):
        headers = {"type": JSON, "idempotency_key": "crowd"}
        client.get("/healthz")
        barrier.wait()
        return wait_ended(lambda: client.post(news.changes, TWO, **headers))

    repeating = [background(repeat, broker.client()) for _ in range(20)]
    answers = [one.join() for one in repeating]
    for answer in answers:
        assert (answer.status, answer.body) == (200, answers[0].body)
    check_kept(news, 2)


SOURCES = 4
POSTS = soak(60, 200)  # of each source
KILLS = soak(3, 10)


def post_all(client, news, source, answers):
    """Post one entry after the other, each until it has an answer."""

    def post_one(n):
        one = change(f"http://example.com/{source}/{n}")
        try:
            key = f"{source}/{n}"
            answer = client.post(news.changes, one, idempotency_key=key)
        except (ConnectionEnded, ConnectionError):
            return None  # the broker was killed
        return answer.status != 503 and answer  # 503: it starts

    try:
        for n in range(POSTS):
            receipt = news.receipt(wait_for("an answer", lambda: post_one(n)))
            assert receipt.first == receipt.last
            answers.add(receipt.last)
    except AssertionError:
        answers.close("a post has failed")
        raise


# R-149, design rule 1: each post is kept once, in the order of its source, because a
# source that got no answer repeats the post with its key.
def test_every_post_is_kept_once_over_crashes(start_broker, background):
    broker = start_broker()
    news = broker.set()
    answers = Arrivals("the answers to posts")
    posting = [
        background(post_all, broker.client(), news, source, answers)
        for source in range(SOURCES)
    ]
    for kill in range(1, KILLS + 1):
        answers.wait(kill * SOURCES * POSTS // (KILLS + 1))
        broker.kill()
        broker.restart()
    for one in posting:
        one.join()

    page = news.page("after=0")
    page.check()
    assert page.last == SOURCES * POSTS
    for source in range(SOURCES):
        url = f"http://example.com/{source}/"
        locs = [loc for loc in page.locs if loc.startswith(url)]
        assert locs == [f"{url}{n}" for n in range(POSTS)]


# Two tokens can use the same key: neither meets the other's post, nor learns of it.
def test_a_key_belongs_to_its_token(start_broker):
    broker = start_broker()
    broker.add_token("root", admin=True)
    news = Set(broker, "news").create()
    each = [
        Set(broker.holder(broker.add_token(name, publish=["news"])), "news")
        for name in ("press", "wire")
    ]
    firsts = [post_first(theirs, "k") for theirs in (news, *each)]
    for theirs, first in zip((news, *each), firsts):
        check_repeat(first, theirs, "k")
    check_refused(post(each[0], "k", json.dumps([FIRST])), 422, '"k"')
    check_kept(news, 6)

    # A new secret is the same owner.
    secret = broker.post("/tokens/press/rotate").json()["token"]
    check_repeat(firsts[1], Set(broker.holder(secret), "news"), "k")
    check_kept(news, 6)
