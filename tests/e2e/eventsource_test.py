"""A subscriber by server-sent events: its request, its heartbeats, its farewell, and
where it goes on after a break or an absence; byte for byte."""

import pytest

from tidings_test import npm
from tidings_test.http import JSON, check_refused
from tidings_test.sets import entries

# Nothing comes by itself.
pytestmark = pytest.mark.broker("--heartbeat", "3600", "--threads", "2")

BUSY = pytest.mark.broker("--heartbeat", "0.2", "--threads", "2", "--insecure-open")
EVENTS = "text/event-stream"


@pytest.fixture
def news(news):
    """A set that has three entries."""
    news.post(3)
    return news


@pytest.fixture
def start_news(start_broker):
    """start_news("--threads", "1"): such a set, on a broker of its own."""

    def start(*options, heartbeat="3600"):
        broker = start_broker("--heartbeat", heartbeat, *options)
        news = broker.set().create()
        news.post(3)
        return news

    return start


# Getting in


# The first event is a heartbeat where the stream starts: now, or at a position; then
# come the later changes, and new ones. A hint says when to connect again.
def test_begins_with_a_heartbeat_where_it_was_asked_to(news):
    events = news.events()
    assert events.next().last == 3
    assert 1000 <= events.retry <= 3000
    news.post(2)
    assert events.next().last == 5
    assert events.message.locs[1] == "http://example.com/r/5"

    events = news.events("after=2")
    assert events.next().last == 2
    events.until(5)


# A client without chunks gets the events as they are. (An open broker takes HTTP/1.0
# for a proxy.)
@pytest.mark.broker("--heartbeat", "3600", "--insecure-open")
def test_speaks_http_1_0(news):
    events = news.events("after=0", version="1.0").until(3)
    news.post(2)
    events.until(5)


# RFC 9110 section 12.5.1; the answer to a request for neither kind of stream names
# both.
def test_is_given_to_who_takes_it(news, broker):
    for accept, status in (
        (EVENTS, 200),
        (f"text/html, {EVENTS};q=0.1", 200),
        (f"{EVENTS};q=0, */*", 426),
        ("*/*", 200),
        ("application/json", 426),
        ("", 200),
        (None, 200),
    ):
        assert broker.head(news.stream, accept=accept).status == status, accept
    check_refused(news.get("stream", accept=JSON), 426, EVENTS)


# HEAD gets the head and no stream.
def test_answers_head_with_the_head(news, broker):
    answer = broker.head(news.stream, accept=EVENTS)
    assert (answer.status, answer["Content-Type"]) == (200, EVENTS)
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Accel-Buffering"] == "no"
    assert answer["Content-Length"] is None
    assert broker.get("/healthz").status == 200


FILTERS_MAX = 1024  # so many may be in use at a time (sets/filters.h)


# Nor is its filter in use afterwards.
def test_keeps_nothing_of_a_head(news, broker):
    for i in range(FILTERS_MAX + 1):
        answer = broker.head(f"{news.stream}?tag=t{i}", accept=EVENTS)
        assert answer.status == 200
    assert news.get("changes?tag=other").status == 200


# The broker refuses a request that no EventSource sends before there is a stream; an
# EventSource takes that for the end.
def test_refuses_what_cannot_be_meant(news, broker):
    stream = news.stream
    for method, path, headers, status in (
        ("GET", "/sets/none/stream", {}, 404),
        ("GET", f"{stream}?after=x", {}, 400),
        ("GET", stream, {"last_event_id": "x"}, 400),
        ("GET", stream, {"origin": "http://a.example"}, 403),
        ("POST", stream, {}, 405),
    ):
        answer = broker.request(method, path, accept=EVENTS, **headers)
        assert answer.status == status, answer


# Nothing behind the request is read, and nothing of it comes back.
def test_is_not_disturbed_by_what_is_sent_behind_the_request(news, broker):
    with broker.connect() as connection:
        get = connection.request_bytes("/healthz")
        post = connection.request_bytes(news.changes, "POST", "abcde")
        asked = connection.request_bytes(news.stream, accept=EVENTS)
    for behind in (get, post, b"\x16\x03\x01 nonsense \r\n\r\n"):
        with broker.connect() as connection:
            connection.send(asked + behind)
            assert connection.answer_head().status == 200
            connection.send(behind)
            news.post()
            assert b"HTTP/" not in connection.read_until(b"event: changes")


# While it is connected


# a client can distinguish quiet from dead.
@BUSY
def test_sends_heartbeats_when_nothing_happens(news):
    both = [news.events(), news.events(version="1.0")]
    for _ in range(4):
        assert not any(events.next().entries for events in both)
    assert str(both[0].message.heartbeat) == "0.2"
    news.post()
    for events in both:
        events.until(4)
        message = events.next()
        assert (message.entries, message.last) == ([], 4)


# Being sent away


# the stream itself reports that a position cannot be served, and where to go on,
# as nobody could read the body of a refusal. A client that connects again with that
# event's position is asked to stop.
def test_tells_that_a_position_is_gone_once(news, broker):
    for last_id in ("0123456789abcdef-1", "4000"):
        events = news.events("after=0", last_id=last_id)
        gone = events.wait_end("gone")
        assert '"earliest":"' in gone
        assert '-3","restart":"http://' in gone
        assert f'{news.path}/capabilitylist.xml"' in gone
        assert events.last_id == "gone"
    path = f"{news.stream}?after=0"
    answer = broker.get(path, accept=EVENTS, last_event_id="gone")
    assert (answer.status, answer.body) == (204, b"")
    assert answer["Cache-Control"] == "no-store"


# Every client gets a farewell, and the answer ends completely; the client comes back.
def test_says_farewell(start_news):
    news = start_news("--threads", "2")
    broker = news.broker
    each = [news.events("after=0").until(3) for _ in range(4)]
    broker.terminate()
    for events in each:
        assert events.wait_end("farewell") == '{"detail":"the broker is ending"}'
    assert broker.wait() == 0
    broker.restart()
    news.post(2)
    for events in each:
        events.again()
        events.until(5)


# Within an event there is no farewell: the client would take it for a part of that
# event, and accept an event of which half is missing. The broker cuts off a client that
# does not read to the end, and the answer is visibly incomplete.
def test_says_no_farewell_within_an_event(start_news):
    # A message may be larger than all buffers between two processes.
    news = start_news("--message-bytes", "16M", "--threads", "1")
    broker = news.broker
    for _ in range(8):
        last = news.post(16, size=65000).last
    events = news.events("after=3", narrow=True)
    events.next()

    # It has begun, and is larger than all buffers on the way.
    assert events.connection.buffer or events.connection.receive()
    broker.stop()
    rest = events.connection.read_all()
    assert b"event: changes\n" in rest
    assert len(rest) < last * 65000
    assert b"farewell" not in rest
    assert b"\r\n0\r\n\r\n" not in rest

    broker.restart()
    events.again()
    events.until(last)


# Somebody else's client: curl -N shows what comes as it comes, and knows when it is
# all.
def test_is_understood_by_curl(start_news, start):
    news = start_news()
    url = f"{news.broker.url}{news.stream}?after=0"
    curl = start("/usr/bin/curl", "-sSN", "-H", f"Accept: {EVENTS}", url)
    for seq in (3, 5):
        curl.out.next(lambda line: line == "event: changes")
        assert f'"seq":{seq}}}]}}' in curl.out.next()
        if seq == 3:
            news.post(2)
    news.broker.stop()
    assert curl.wait() == 0
    assert "event: farewell" in curl.out


NODE_PROGRAM = """
const { EventSource } = require('eventsource');
const source = new EventSource(process.argv[1]);
source.addEventListener('changes', event => {
    for (const change of JSON.parse(event.data).changes)
        console.log(change.seq);
});
"""


# The EventSource of npm comes back as a browser's does.
def test_is_understood_by_an_eventsource_of_npm(start_news, start):
    news = start_news()
    env = {"NODE_PATH": npm.modules()}
    url = f"{news.broker.url}{news.stream}?after=0"
    node = start(npm.node(), "-e", NODE_PROGRAM, url, env=env)
    node.out.wait(3)
    news.broker.stop()
    news.broker.restart()
    news.post(2)
    node.out.wait(5)
    assert list(node.out) == ["1", "2", "3", "4", "5"]


# Where it goes on


# an EventSource asks for the same URL again; its Last-Event-ID counts.
def test_goes_on_after_the_last_event_id(news):
    events = news.events("after=0").until(3)
    news.post(2)
    events.again()
    assert events.next().after == 3  # not 0
    message = events.next()
    assert (message.after, message.last) == (3, 5)


# Also after a heartbeat alone: that is a position, too.
def test_goes_on_after_a_heartbeat(news):
    events = news.events()
    events.next()
    news.post(2)
    events.again()
    events.until(5)


def post_deleted(news, n=1):
    """Entry 3 goes, `n` times."""
    for _ in range(n):
        news.post_change("http://example.com/r/3", "deleted")


# with a filter, too, the stream goes on after the covered range, also if
# only a heartbeat has stated it, or the position in the URL is far older than the last
# one.
def test_goes_on_with_its_filter(start_news):
    news = start_news(heartbeat="0.2")
    events = news.events("after=0&change=deleted")
    while events.next().last < 3:
        assert not events.message.entries
    post_deleted(news, 2)  # 4, 5
    news.post(3)
    while events.message.last < 8:
        events.next()
    events.again()
    assert events.next().after == 8

    news.post(3)
    news.rotate()
    events.again(abort=True)
    post_deleted(news)  # 12
    assert events.news().seqs == [12]

    events.again()
    news.post(3)
    news.broker.kill()
    news.broker.restart()
    post_deleted(news)  # 16
    events.again()
    assert events.news().seqs == [16]
    assert events.message.last == 16


# Of an URL whose own position has another epoch the filter counts all the same.
def test_goes_on_with_its_filter_where_the_urls_position_is_gone(news):
    post_deleted(news)
    events = news.events("after=0123456789abcdef-1&change=deleted", last_id="2")
    assert events.next().after == 2
    message = events.next()
    assert (message.after, message.last, len(message.entries)) == (2, 4, 1)


ROTATING = pytest.mark.broker("--rotate-entries", "7", "--threads", "2")
POSTS = 200


def keep_posting(client, news):
    """Posts of one to three entries, one after the other."""
    for i in range(POSTS):
        body = entries(1 + i % 3, size=0 if i % 10 else 30000)
        assert client.post(news.changes, body).status == 200


# cut off again and again, politely and not, within events and between
# them, while posts come in and lists are closed: no gap, no repeat (every message is
# checked against the one before), and every change.
@ROTATING
def test_loses_and_repeats_nothing_when_it_is_cut_off(news, broker, background):
    last = 3 + sum(1 + i % 3 for i in range(POSTS))
    posting = background(keep_posting, broker.client(), news)
    events = news.events("after=0")
    cuts = 0
    # Some of them may come when all is there: on a machine where few posts are a match
    # for a reader.
    while not events.message or events.message.last < last - 10 or cuts <= 50:
        for _ in range(cuts % 5):
            if not events.message or events.message.last < last - 10:
                events.next()
        if cuts % 2 and events.message.last < last - 10:
            events.connection.receive()  # some of the next event
        events.again(abort=cuts % 3 == 0)
        cuts += 1
    posting.join()
    events.until(last)
    assert events.history.locs()[:3] == [f"http://example.com/r/{i}" for i in (1, 2, 3)]
    assert (events.history.last, events.history.repeats) == (last, 0)


# a client that was away for long reads closed lists first; a slow one gets the
# same in larger messages.
@ROTATING
def test_catches_up_through_closed_lists(news):
    slow = news.events("after=0", narrow=True)
    for _ in range(60):
        last = news.post(5, size=8000).last
    events = news.events("after=0").until(last)
    slow.until(last)
    news.post()
    events.until(last + 1)
    slow.until(last + 1)
    assert events.message.digest == slow.message.digest


# everything that was sent is there after the worst end, and the stream goes on.
def test_goes_on_after_kill_9(start_news):
    news = start_news()
    events = news.events("after=0").until(3)
    news.broker.kill()
    assert not events.read_event()
    assert not events.whole  # nobody said that this was all
    news.broker.restart()
    news.post(2)
    events.again()
    events.until(5)
