"""Changes that come with the bytes of their resources, or should: refusals and their
reasons."""

import errno
import hashlib
import json

import pytest

from tidings_test.content import MULTIPART, arriving, check_kept, hashes, multipart
from tidings_test.http import JSON, NDJSON, check_refused
from tidings_test.sets import change, told

A, B = (f"http://example.com/{name}" for name in "ab")
HELLO = b"hello\n"
HELLO_SHA256 = hashlib.sha256(HELLO).hexdigest()
OTHER_SHA256 = "0" * 64
OTHER = {"hash": {"sha-256": OTHER_SHA256}}


@pytest.fixture
def news(broker):
    return broker.set().create(content="inline")


def send(news, changes, *parts, type=JSON, **headers):
    """Post changes with the content of some of them."""
    return news.send(*multipart(changes, parts, type), **headers)


def post_hello(news):
    """The first post: it brings "hello" along."""
    assert news.receipt(send(news, change(A), (A, "text/plain", HELLO))).last == 1


def ndjson(*changes):
    return "".join(json.dumps(one) + "\n" for one in changes)


def test_a_post_without_bytes_is_told_what_to_do(news):
    advice = (
        f'the set "{news.name}" keeps content inline: post the bytes of "{A}" with '
        "the change, as multipart/related, or give the sha-256"
    )
    unknown = f'has no bytes with the sha-256:{OTHER_SHA256} of "{A}": '
    for entry, part in (
        (change(A), advice),
        (change(A, "updated", **OTHER), unknown + "post them"),
    ):
        answer = news.send(ndjson(change(B, "deleted"), entry), NDJSON)
        check_refused(answer, 422, part, 2)
    check_kept(news, 0)


# Each resource of a whole state has to be there, too.
def test_resources_told_whole_need_bytes_that_are_there(news):
    def put(*resources, query=""):
        return news.put_resources(ndjson(*resources), NDJSON, query)

    post_hello(news)
    there = {"loc": B, **hashes(HELLO)}
    check_refused(put({"loc": B}), 422, f'give the sha-256 of "{B}"', 1)
    answer = put({"loc": A, **hashes(HELLO)}, {"loc": B, **OTHER})
    unknown = f'sha-256:{OTHER_SHA256} of "{B}"'
    check_refused(answer, 422, unknown, 2)
    check_kept(news, 1, HELLO)

    check_refused(put(there, query="max-delete=0"), 409, "would be deleted")
    assert told(put(there, query="max-delete=100")) == (0, 0, 1, 1, 0)
    check_kept(news, 3, HELLO)


def test_bytes_that_are_not_those_that_were_told_are_refused(news):
    content_of = f'part 2, the content of "{A}": '
    md5 = {"hash": {"md5": hashlib.md5(HELLO).hexdigest()}}
    other = [change(B, "deleted"), change(A, **OTHER)]
    for changes, content, part, entry in (
        (other, HELLO, content_of + "sha-256", 2),
        (change(A, **md5), b"hallo\n", content_of + "md5", 1),
        (change(A, length=5), HELLO, content_of, 1),
        (change(A, length=7), HELLO, content_of, 1),
    ):
        answer = send(news, changes, (A, "text/plain", content))
        check_refused(answer, 422, part, entry)
    check_kept(news, 0)

    post_hello(news)
    answer = send(news, change(B, length=5, **hashes(HELLO)))
    check_refused(answer, 422, "are there, but they are 6, not 5", 1)
    check_kept(news, 1, HELLO)


def test_entries_and_parts_belong_together(news):
    missing = (
        f'the content of "{B}" is missing: no part has that Content-Location, and no '
        "sha-256"
    )
    unknown = "the set has no bytes with this sha-256"
    too_many = "fewer created or updated"
    # fmt: off
    for changes, parts, part, *entry in (
        ([change(A), change(B)], [(A, b"a")], missing, 2),
        (change(A, **OTHER), [], unknown, 1),
        (change(A), [(B, b"b")], f"part 2: {too_many}", None),
        (change(A, "deleted"), [(A, b"a")], f"part 2: {too_many}", None),
        (change(A), [(A, b"a"), (A, b"b")], f"part 3: {too_many}", None),
    ):
        # fmt: on
        parts = [(loc, None, content) for loc, content in parts]
        check_refused(send(news, changes, *parts), 422, part, *entry)
    answer = send(news, change(A), (A, "no type", b"a"))
    check_refused(answer, 422, "part 2: Content-Type is no media type")
    body, type = multipart(change(A), [(A, None, b"a")])
    body = body.replace(f"Content-Location: {A}\r\n".encode(), b"")
    check_refused(news.send(body, type), 422, "part 2 has no Content-Location")
    check_kept(news, 0)


ROOT = "--b-0\r\nContent-Type: application/json\r\n"


# fmt: off
BAD = [
    ("multipart/mixed; boundary=b", "", 415, "multipart/related"),
    ("multipart/related", "", 400, "needs a boundary"),
    (MULTIPART, "", 400, "no line with the delimiter"),
    (MULTIPART, "--b-0--\r\n", 400, "has no part"),
    (MULTIPART, f'{ROOT}\r\n{{"loc":"{A}","change":"deleted"}}', 400,
     "part 1, byte 90: the body ends before its last delimiter"),
    (MULTIPART, "--b-0\r\nContent-Type: text/csv\r\n\r\n\r\n--b-0--", 415,
     "changes are read as"),
    (MULTIPART, "--b-0\r\n\r\n\r\n--b-0--", 415, "changes are read as"),
    (f'{MULTIPART}; type="application/xml"', f"{ROOT}\r\n\r\n--b-0--", 400,
     'part 1 is "application/json", but'),
    (f'{MULTIPART}; start="<root>"', f"{ROOT}\r\n\r\n--b-0--", 422,
     'part 1 has the changes: its Content-ID is not the start "root"'),
    (MULTIPART, f"{ROOT}\r\n{{\r\n--b-0--", 400, ""),
    (MULTIPART, f"{ROOT}Content-Transfer-Encoding: base64\r\n\r\n{{\r\n--b-0--", 415,
     "part 1, byte 76: Content-Transfer-Encoding"),
]
# fmt: on


def test_what_is_no_good_multipart_is_refused(news):
    for type, body, status, part in BAD:
        check_refused(news.send(body, type), status, part)
    # A bad change is named as in any post.
    answer = send(news, [change(A), change("b")], (A, "text/plain", b"a"))
    check_refused(answer, 422, "loc", 2)
    check_kept(news, 0)


# The broker looks for room on its disk before it takes the first byte.
def test_a_post_with_content_announces_its_length(news, broker):
    headers = {"content_type": MULTIPART, "transfer_encoding": "chunked"}
    with broker.connect() as connection:
        connection.ask(news.changes, "POST", **headers)
        check_refused(connection.answer(), 411, "Content-Length")
    check_kept(news, 0)


def test_a_set_that_takes_no_content_says_so(news, broker):
    post = multipart(change(A), [(A, None, b"a")])
    other = broker.set()
    takes_none = f'the set "{other.name}" takes no content'
    check_refused(other.send(*post), 422, takes_none)
    other.create()
    setting = ': its setting "content" is not "inline"'
    check_refused(other.send(*post), 422, takes_none + setting)
    packed = news.send(*post, content_encoding="gzip")
    check_refused(packed, 415, "without a Content-Encoding")
    assert packed["Accept-Encoding"] == "identity"
    assert news.receipt(news.send(*post, content_encoding="identity")).last == 1


@pytest.mark.broker("--content", "inline", "--max-content", "4K", "--max-body", "1K")
def test_the_whole_and_the_changes_have_limits(broker):
    news = broker.set()
    large = (A, "text/plain", b" " * 3000)
    assert news.receipt(send(news, change(A), large)).last == 1
    answer = send(news, change(A), large, large)
    check_refused(answer, 413, "at most 4096 bytes (--max-content)")
    answer = send(news, " " * 1500)
    check_refused(answer, 413, "the changes of a post have at most 1024")
    check_kept(news, 1, large[2])


# The first post makes a set, also one with content; a refused post makes none.
@pytest.mark.broker("--content", "inline")
def test_a_set_begins_with_a_post_with_content(broker):
    news = broker.set()
    answer = send(news, change(A), (B, "text/plain", HELLO))
    check_refused(answer, 422, "part 2: fewer created or updated")
    entry = change(A, **hashes(HELLO))
    check_refused(send(news, entry), 422, f'the content of "{A}" is missing', 1)
    check_refused(news.send(entry), 422, "has no bytes with the sha-256", 1)
    assert news.state() is None

    post_hello(news)
    check_kept(news, 1, HELLO)


# R-149: bytes may be there whose name is not on the disk yet. Here the post that
# brought them could not make them durable.
def test_what_is_found_and_cannot_be_made_durable_is_refused(start_broker, faults):
    news = start_broker(env=faults.env).set().create(content="inline")
    known = ndjson(change(A, **hashes(HELLO)))
    resource = ndjson({"loc": A, **hashes(HELLO)})
    for tell in (news.send, news.put_resources):
        faults.arm(faults.SYNC, "/content/", errno.EIO)
        assert send(news, change(A), (A, "text/plain", HELLO)).status == 500
        body = known if tell == news.send else resource
        assert tell(body, NDJSON).status in (500, 422)  # 422: they are gone already
        assert faults.disarm()
        assert news.last() == 0


# A tebibyte: no disk of a test machine has it.
@pytest.mark.broker("--content", "inline", "--max-content", "1024G")
def test_what_the_disk_has_no_room_for_is_refused_before_it_is_there(broker):
    with broker.connect() as connection:
        size = 1 << 40
        head = {"content_type": MULTIPART, "content_length": size}
        connection.ask(broker.set().changes, "POST", **head)
        connection.send(b"x" * 600000)
        no_room = f"the disk has no room for {size} bytes"
        check_refused(connection.answer(), 503, no_room)
    assert not arriving(broker)
