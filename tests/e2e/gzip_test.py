"""Posts with Content-Encoding: gzip: the same as without, and nothing that comes out of
a few bytes holds anybody up."""

import gzip
import json
import zlib

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.http import JSON, NDJSON, XML, check_refused
from tidings_test.sets import change, entries
from tidings_test.soak import soak

MAX_BODY = 8 << 20
OPTIONS = ("--threads", "1", "--max-body", "8M", "--ingest-bytes", "32M")

pytestmark = pytest.mark.broker(*OPTIONS)


def entry(name):
    return json.dumps(change(f"http://example.com/{name}")).encode()


def bomb(mebibytes):
    """Empty lines, a thousandth of their size."""
    packer = zlib.compressobj(wbits=31)
    lines = b"\n" * (1 << 20)
    return b"".join(packer.compress(lines) for _ in range(mebibytes)) + packer.flush()


def post(news, body, type=JSON, coding="gzip"):
    return news.send(body, type, content_encoding=coding)


# RFC 9110 sections 8.4.1 and 8.4.1.3.
def test_takes_every_format_in_gzip(news):
    document = (
        b"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'"
        b" xmlns:rs='http://www.openarchives.org/rs/terms/'>"
        b"<rs:md capability='changelist'/><url><loc>http://example.com/x</loc>"
        b"<rs:md change='deleted'/></url></urlset>"
    )
    rows = [
        (JSON, "gzip", entry("a"), 1),
        (JSON, "x-gzip", b"[%b,%b]" % (entry("a"), entry("b")), 2),
        (NDJSON, "GZip", b"%b\n%b\n" % (entry("a"), entry("b")), 2),
        (XML, "gzip", document, 1),
    ]
    for type, coding, body, n in rows:
        before = news.last()
        assert post(news, gzip.compress(body), type, coding).status == 200
        assert news.last() == before + n
        two_members = gzip.compress(body[:20]) + gzip.compress(body[20:])
        assert post(news, two_members, type, coding).status == 200
        assert news.last() == before + 2 * n
        assert post(news, body, type, "identity").status == 200


# A body that comes in many packets, and inflates to many steps.
def test_takes_large_posts_in_gzip(news):
    body = json.dumps(entries(50000)).encode()
    assert MAX_BODY / 4 < len(body) < MAX_BODY
    packed = gzip.compress(body)
    for _ in range(soak(1, 3)):
        assert post(news, packed).status == 200
    assert news.post().last == soak(1, 3) * 50000 + 1


# RFC 9110 section 15.5.16: 415, with the codings that the broker reads.
def test_refuses_other_codings_with_what_it_reads(news, broker):
    codings = ["br", "deflate", "zstd", "compress", "*"]
    codings += ["gzip, gzip", "identity, gzip", "gzip, identity"]
    for coding in codings:
        refused = post(news, entry("a"), coding=coding)
        check_refused(refused, 415, coding)
        assert refused["Accept-Encoding"] == "gzip"
        assert refused["Allow"] is None
    refused = post(news, "a", "text/plain")
    check_refused(refused, 415, "text/plain")
    assert refused["Accept-Encoding"] is None

    # In two lines of the head.
    with broker.connect() as connection:
        two_lines = "gzip\r\nContent-Encoding: gzip"
        headers = {"content_type": JSON, "content_encoding": two_lines}
        refused = connection.request(news.changes, "POST", entry("a"), **headers)
    check_refused(refused, 415, "gzip")
    assert news.last() == 0


# Design section 5, rule 5: nothing of a bad post is kept.
def test_keeps_nothing_of_a_damaged_stream(news):
    body = json.dumps(entries(1000)).encode()
    packed = gzip.compress(body)
    wrong_sum = bytearray(packed)  # all entries are there
    wrong_sum[-6] ^= 1
    rows = [
        (packed[:-1], "it ends before its end"),
        (packed[: len(packed) // 2], "it ends before its end"),
        (bytes(wrong_sum), "incorrect data check"),
        (packed + b"more", "something else follows its end"),
        (body, "incorrect header check"),
    ]
    for damaged, why in rows:
        check_refused(post(news, damaged), 400, why)
    # The broker checks the content as ever.
    inside = gzip.compress(b'[%b,{"loc":"a"}]' % entry("a"))
    check_refused(post(news, inside), 422, "", 2)
    assert news.last() == 0


# A few kilobytes that inflate to many megabytes: the broker refuses them when they pass
# the limit, in bounded memory, and the one service thread goes on. (It serves others in
# between: unit/sets/gunzip, makes_small_steps.)
def test_stops_a_bomb_at_the_limit(start_broker):
    broker = start_broker(*OPTIONS)
    other = broker.client()
    news = broker.set()
    news.post()
    before = broker.process.memory_kib()
    empty_lines = bomb(soak(64, 256))
    packed = b"".join(
        [gzip.compress(b"[%b," % entry("a")), empty_lines, gzip.compress(entry("b"))]
    ) + gzip.compress(b"]")
    assert len(packed) < 1 << 20
    rows = [
        (packed, NDJSON, 400, "NDJSON"),  # its first line
        (packed, JSON, 422, "a string or space of more than"),
        # Only the limit ends them.
        (empty_lines, NDJSON, 413, "more than 8388608 bytes when inflated"),
    ]
    for _ in range(soak(3, 10)):
        for body, type, status, why in rows:
            check_refused(post(news, body, type), status, why)
            assert other.get("/healthz").status == 200
    assert news.last() == 1
    assert is_sanitized() or broker.process.memory_kib() < before + (32 << 10)


# One packet with more in it than one step reads; the client goes away, or says no
# more, while the rest waits.
def test_survives_a_client_that_goes_away_while_it_catches_up(start_broker):
    broker = start_broker(*OPTIONS)
    news = broker.set()
    packed = bomb(7) + gzip.compress(entry("a"))
    headers = {"content_type": NDJSON, "content_encoding": "gzip"}
    for i in range(soak(12, 50)):
        connection = broker.connect()
        request = connection.request_bytes(news.changes, "POST", packed, **headers)
        connection.send(request if i % 2 else request[:-1])
        if i % 3:
            connection.abort()
        else:
            connection.close()
    assert post(news, packed, NDJSON).status == 200
    broker.stop()
    broker.restart()
