"""Requests that come in pieces, too early, too slowly or without an end: no thread
waits for them, and none is done half."""

import json

import pytest

from tidings_test.http import JSON, NDJSON, check_refused
from tidings_test.sets import change
from tidings_test.waiting import wait_for

OPTIONS = ("--threads", "2", "--max-body", "1M", "--ingest-bytes", "1M")
HASTY = (*OPTIONS, "--request-timeout", "2", "--min-rate", "1M")
pytestmark = pytest.mark.broker(*OPTIONS, "--request-timeout", "300")

ENTRY = json.dumps(change("http://example.com/hostile"))


@pytest.fixture
def news(news):
    """A set with one entry."""
    news.post()
    return news


def hostile(news):
    """The number of entries in the set among those that a test tried to post."""
    return len(news.page("after=1").entries)


def post_bytes(connection, news, body=ENTRY):
    return connection.request_bytes(news.changes, "POST", body, content_type=JSON)


def send_head(connection, news, length, more=""):
    connection.send(
        f"POST {news.changes} HTTP/1.1\r\nHost: {connection.host}\r\n"
        f"Content-Type: {JSON}\r\nContent-Length: {length}\r\n{more}\r\n"
    )


def is_ended(connection):
    return connection.read_all() == b""


# Requests of a pipeline, and the answers to each when it comes alone; {} is the set.
REQUESTS = {
    "get": ("GET", "/healthz", None, 200),
    "head": ("HEAD", "/healthz", None, 200),
    "delete": ("DELETE", "{}/changes", None, 405),
    "post": ("POST", "{}/changes", ENTRY, 200),
    "put": ("PUT", "{}/changes", ENTRY, 405),
    "lost": ("POST", "/nowhere", ENTRY, 404),
    "rotate": ("POST", "{}/rotate", "no body is asked for", 200),
}

UNREAD = ("put", "lost")

PIPELINES = """
    get get, get post, get rotate, post get, post post, rotate rotate, rotate post,
    head post, get put, get lost, lost get, get delete post, post rotate,
    get get get post, get get rotate, post post post get
"""


def request_bytes(connection, news, name):
    method, path, body, _ = REQUESTS[name]
    type = JSON if body else None
    path = path.format(news.path)
    return connection.request_bytes(path, method, body, content_type=type)


# RFC 9112 section 9.3.2: answers in order, up to a request whose body the broker
# refuses unread.
def test_pipelined_requests_are_answered_in_order(news, broker):
    kept = 0
    for pipeline in PIPELINES.split(","):
        names = pipeline.split()
        unread = [i for i, name in enumerate(names) if name in UNREAD]
        answered = names[: unread[0] + 1] if unread else names
        with broker.connect() as connection:
            requests = [request_bytes(connection, news, name) for name in names]
            connection.send(b"".join(requests))
            for name in answered:
                answer = connection.answer(is_head=name == "head")
                assert answer.status == REQUESTS[name][3], pipeline
            assert answered == names or is_ended(connection)
            kept += answered.count("post")
            assert hostile(news) == kept


def test_a_body_that_looks_like_a_request_does_no_harm(news, broker):
    for body in (
        "POST /sets/news/changes HTTP/1.1\r\n\r\n",
        "POST /",
        "P",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "PUT / HTTP/1.1\r\n\r\n",
    ):
        with broker.connect() as connection:
            connection.send(post_bytes(connection, news, body))
            answer = connection.answer()
        assert answer.status in (400, 422)
        check_refused(answer, answer.status)
        broker.wait_threads()
    assert hostile(news) == 0


# In two packets, cut at every place.
def test_a_post_may_be_cut_anywhere(news, broker):
    size = cut = 1
    while cut <= size:
        with broker.connect() as connection:
            request = post_bytes(connection, news)
            size = len(request) - 1
            connection.send(request[:cut])
            connection.send(request[cut:])
            assert connection.answer().status == 200
        cut += 1
    assert hostile(news) == size > 100
    broker.wait_threads()


# Heads that never end or never begin, and bytes that are no request.
FRAGMENTS = (
    b"",
    b"G",
    b"GET /healthz HTTP/1.1\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: 1",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    bytes(16),
    b"\r\n\r\n\r\n\r\n",
    b"\x81\x85\x01\x02\x03\x04hello",
    b"GET /sets/a%00b/changes HTTP/1.1\r\n\r\n",
    b"GET /sets/a%zzb/changes HTTP/1.1\r\n\r\n",
)


# A body and a head that stop, though the entry in the body is complete; and a body and
# a head that are too slow: each connection beside answers to other clients.
@pytest.mark.broker(*HASTY)
def test_requests_that_do_not_end_in_time_are_cut_off(news, broker):
    fragments = [broker.connect() for _ in FRAGMENTS]
    for connection, fragment in zip(fragments, FRAGMENTS):
        connection.send(fragment)
    silent, body, head = (broker.connect() for _ in range(3))
    send_head(silent, news, len(ENTRY) + 10)
    silent.send(ENTRY)
    send_head(body, news, 1000000)
    head.send(f"POST {news.changes} HTTP/1.1\r\nX: ")
    drips = [body, head]
    while drips := [connection for connection in drips if connection.is_silent()]:
        for connection in drips:
            send_byte(connection)
        broker.wait_answer()

    for connection in (silent, body):
        check_refused(connection.answer(), 408, "in time")
        assert is_ended(connection)
    for connection in (head, *fragments):
        connection.read_all()  # an answer, or none
    assert hostile(news) == 0
    for _ in range(20):  # for all threads
        broker.disconnect()
        broker.wait_answer()
    for connection in (silent, body, head, *fragments):
        connection.close()


def send_byte(connection):
    try:
        connection.send(b" ")
    except ConnectionError:
        pass  # it was cut off just then


# The entry itself was whole.
def test_a_body_whose_sender_leaves_is_not_kept(news, broker):
    for is_reset in (False, True):
        connection = broker.connect()
        send_head(connection, news, len(ENTRY) + 10)
        connection.send(ENTRY)
        if is_reset:
            connection.abort()
        else:
            connection.finish_sending()
            assert is_ended(connection)
            connection.close()
        broker.wait_threads()
        assert hostile(news) == 0


def test_half_requests_do_not_keep_others_out(news, broker):
    halves = [broker.connect() for _ in range(300)]
    for connection in halves:
        connection.send(f"POST {news.changes} HTTP/1.1\r\nHo")
    broker.wait_threads()
    for connection in halves:
        connection.close()
    broker.wait_threads()


# Between two servers that read a request differently, a body becomes a request.
def test_malformed_requests_are_refused(news, broker):
    post = f"POST {news.changes} HTTP/1.1"
    get = "GET /healthz HTTP/1.1"
    chunked = "Transfer-Encoding: chunked\r\n"
    chunks = "1\r\n3\r\n0\r\n\r\n"
    for status, line, headers, body in (
        (415, post, chunked, chunks),  # no type
        (400, post, chunked + "Content-Length: 3\r\n", chunks),
        (400, post, "X: y\r\nContent-Length: 5\r\nContent-Length: 6\r\n", "hello!"),
        (415, post, "", ""),  # no body, no type
        (400, post, "Content-Length: -1\r\n", ""),
        (400, post, "Content-Length: +5\r\n", ""),
        (400, post, "Content-Length: 5x\r\n", ""),
        (400, post, "Content-Length: 99999999999999999999\r\n", ""),
        (400, get, "Content-Length: 5\r\n", "hello"),
        (400, get, "X : y\r\n", ""),
        (400, get, "X: y\n", ""),
        (431, get, f"Accept: {'a' * 9000}\r\n", ""),
        (400, "CONNECT example.com:80 HTTP/1.1", "", ""),
        (505, "GET /healthz HTTP/3.0", "", ""),
        (501, "BREW /pot HTTP/1.1", "", ""),
    ):
        with broker.connect() as connection:
            host = f"Host: {connection.host}\r\n"
            connection.send(f"{line}\r\n{host}{headers}\r\n{body}")
            check_refused(connection.answer(), status, "field line" * (status == 431))
        broker.wait_threads()
    assert hostile(news) == 0


# A proxy decides by the path that it saw, and no other server may read that path
# otherwise.
@pytest.mark.parametrize(
    "path",
    ["/%68ealthz", "//healthz", "/./healthz", "/sets/../healthz", "/healthz/", "/%2Fhealthz"],
)
def test_a_path_is_routed_as_it_was_sent(broker, path):
    with broker.connect() as connection:
        connection.send(f"GET {path} HTTP/1.1\r\nHost: {connection.host}\r\n\r\n")
        check_refused(connection.answer(), 404)


# RFC 9110 section 7.4
def test_an_https_target_needs_tls(broker):
    for scheme, status in (("http", 200), ("https", 400), ("HTTPS", 400)):
        with broker.connect() as connection:
            answer = connection.request(f"{scheme}://{connection.host}/healthz")
        assert answer.status == status, answer


# Bodies without a length in advance, as curl sends them from a pipe.
def test_a_chunked_post_is_read(news, broker):
    body = json.dumps([change("http://a.example/1")])
    half = len(body) // 2
    chunks = "".join(f"{len(part):x};x\r\n{part}\r\n" for part in (body[:half], body[half:]))
    with broker.connect() as connection:
        connection.send(
            f"POST {news.changes} HTTP/1.1\r\nHost: {connection.host}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            f"{chunks}0\r\nTrailer: x\r\n\r\n"
        )
        assert news.receipt(connection.answer()).last == 2


# Its length is bounded although the client stated none: here by --max-body.
def test_a_chunked_post_has_an_end(news, broker):
    with broker.connect() as connection:
        connection.send(
            f"POST {news.changes} HTTP/1.1\r\nHost: {connection.host}\r\n"
            f"Content-Type: {NDJSON}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(16):
            connection.send("10001\r\n" + "\n" * 0x10001 + "\r\n")
        check_refused(connection.answer(), 413)
    assert hostile(news) == 0


def wait_post(news, body, status):
    """Post the body until the answer has that status; the answer."""

    def post():
        with news.broker.connect() as connection:
            connection.send(post_bytes(connection, news, body))
            answer = connection.answer()
        return answer.status == status and answer

    return wait_for(f"a post with {status}", post)


# Of 1 MB for all posts at work, one that does not end holds 700 KB. The next one has to
# come back, and is accepted when the first has gone.
def test_posts_at_work_count_in_the_budget(news, broker):
    locs = (f"http://a.example/{str(i).zfill(10) * 100}" for i in range(700))
    body = json.dumps([change(loc) for loc in locs])
    first = broker.connect()
    send_head(first, news, 1000000)
    first.send(body[:-1])
    # Otherwise the next one may overtake it, and the first is refused.
    taken = "tidings_ingest_bytes"
    wait_for("the first post", lambda: broker.metrics()[taken] >= 800000)
    assert int(wait_post(news, body, 503)["Retry-After"]) > 0

    first.abort()
    wait_post(news, body, 200)
    broker.wait_threads()


# Design rule 6: only bytes that were sent count.
def test_announcing_alone_takes_nothing_of_the_budget(news, broker):
    connections = [broker.connect() for _ in range(20)]
    for connection in connections:
        send_head(connection, news, 1000000, "Expect: 100-continue\r\n")
        assert connection.answer_head().status == 100  # so its head was read
    wait_post(news, f"[{ENTRY}]", 200)
    for connection in connections:
        connection.close()
