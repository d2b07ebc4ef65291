"""Changes are posted together with the bytes of their resources: by any way that a post
goes, once, and by the command."""

import hashlib
import json

import pytest

from tidings_test.content import check_kept, digest, hashes, kept, multipart
from tidings_test.http import JSON, NDJSON, XML, check_refused
from tidings_test.sets import change
from tidings_test.waiting import wait_for

A, B = (f"http://example.com/{name}" for name in "ab")
HELLO = b"hello\n"


@pytest.fixture
def news(broker):
    return broker.set().create(content="inline")


def post(news, changes, *parts, type=JSON, **headers):
    """Post changes with the content of some of them; the seqs of first and last."""
    receipt = news.receipt(news.send(*multipart(changes, parts, type), **headers))
    return receipt.first, receipt.last


def ndjson(*changes):
    return "\n".join(json.dumps(one) for one in changes) + "\n"


def told(news, *names):
    """The hash, length and type of each entry in the Change List."""
    found = news.changelist().all("//s:url/rs:md[@change]")
    return [tuple(md.get(name) for name in names) for md in found]


# the entry states hash, length and type of the bytes.
def test_bytes_come_along_and_the_entry_tells_what_they_are(news):
    content = b"\0\x01\r\n--b\r\n--b-\r\n\0\xff\xfe\r\n"
    type = "application/octet-stream"
    assert post(news, change(A), (A, type, content)) == (1, 1)
    check_kept(news, 1, content)
    size = str(len(content))
    assert told(news, "hash", "length", "type") == [(digest(content), size, type)]


def test_no_bytes_are_content_too(news):
    assert post(news, change(A), (A, "text/plain", b"")) == (1, 1)
    check_kept(news, 1, b"")
    assert told(news, "length") == [("0",)]


# The broker checks the stated facts and keeps them; it adds the others.
def test_what_the_source_tells_stays_as_it_told_it(news):
    md5 = hashlib.md5(HELLO).hexdigest()
    more = {"hash": {"md5": md5}, "type": "text/x-hello", "length": 6}
    assert post(news, change(A, **more), (A, "text/plain", HELLO)) == (1, 1)
    both = f"md5:{md5} {digest(HELLO)}"
    assert told(news, "hash", "length", "type") == [(both, "6", "text/x-hello")]


def test_the_changes_have_any_form_that_a_post_has(news):
    changes = [change(A, "updated"), change(B, "deleted")]
    xml = f"""<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'
        xmlns:rs='http://www.openarchives.org/rs/terms/'>
        <rs:md capability='changelist'/>
        <url><loc>{A}</loc><rs:md change='updated'/></url>
        <url><loc>{B}</loc><rs:md change='deleted'/></url></urlset>"""
    forms = (
        (NDJSON, ndjson(*changes)),
        (f"{JSON}; charset=utf-8", changes),
        (XML, xml),
    )
    for i, (type, body) in enumerate(forms):
        seqs = post(news, body, (A, None, HELLO), type=type)
        assert seqs == (2 * i + 1, 2 * i + 2)
    check_kept(news, 6, HELLO)


# RFC 2387: as curl and others send it.
def test_type_start_preamble_and_other_headers_are_fine(news):
    body = f"""see below\r
--a b\r
Content-ID: <root@x>\r
Content-Disposition: form-data; name=changes\r
\r
{{"loc":"{A}","change":"created"}}\r
--a b  \r
Content-Location: {A}\r
Content-Transfer-Encoding: binary\r
\r
hello
\r
--a b--\r
and so on"""
    type = 'boundary="a b"; type="application/json"; start="<root@x>"'
    receipt = news.receipt(news.send(body, f"multipart/related; {type}"))
    assert (receipt.first, receipt.last) == (1, 1)
    check_kept(news, 1, HELLO)


# The n-th part of a loc belongs to its n-th created or updated entry.
def test_two_changes_of_one_resource_have_two_contents(news):
    changes = ndjson(change(A), change(B), change(A, "deleted"), change(A))
    parts = [(A, None, b"one"), (A, None, b"three"), (B, None, b"b")]
    assert post(news, changes, *parts, type=NDJSON) == (1, 4)
    check_kept(news, 4, b"one", b"three", b"b")
    assert told(news, "length") == [("3",), ("1",), (None,), ("5",)]


# Equal bytes are kept once, and need not come again.
def test_bytes_that_are_there_serve_again(news):
    assert post(news, change(A), (A, "text/plain", HELLO)) == (1, 1)
    assert post(news, change(A, "updated"), (A, "text/plain", HELLO)) == (2, 2)
    assert news.post_change(B, **hashes(HELLO)).last == 3
    changes = ndjson(change(B, "updated", **hashes(HELLO)), change(A, "updated"))
    assert post(news, changes, (A, None, b"new"), type=NDJSON) == (4, 5)
    check_kept(news, 5, HELLO, b"new")


# a deleted resource has no representation.
def test_deletions_need_nothing(news):
    assert news.post_change(A, "deleted").last == 1
    assert post(news, change(A, "deleted")) == (2, 2)
    check_kept(news, 2)


def test_a_key_keeps_repeats_from_being_kept_twice(news):
    def send(content, key):
        parts = [(A, None, content)]
        return news.send(*multipart(change(A), parts), idempotency_key=key)

    for _ in range(2):
        receipt = news.receipt(send(HELLO, "one"))
        assert (receipt.first, receipt.last) == (1, 1)
    check_refused(send(b"other", "one"), 422, "Idempotency-Key")
    check_refused(send(HELLO, '""'), 400)
    wait_for("what was refused to go", lambda: len(kept(news)) == 1)
    check_kept(news, 1, HELLO)


def test_the_command_brings_a_file_along(news, run, tmp_path):
    file = tmp_path / "hello"
    file.write_bytes(HELLO)

    def publish(kind, file, *more, status):
        options = ("--change", kind, "--content", file, A, *more)
        return run("tidings", "publish", news.url, *options, status=status).errors()

    assert publish("created", file, "--media-type", "text/plain", status=0) == ""
    assert told(news, "hash", "type") == [(digest(HELLO), "text/plain")]
    for kind, path, more, status, part in (
        ("updated", file, ("--length", "5"), 1, f'the content of "{A}"'),
        ("updated", "/proc/nowhere", (), 1, "cannot read /proc/nowhere"),
        ("deleted", file, (), 2, ""),
        ("updated", file, (B,), 2, "--content is of one LOC"),
    ):
        assert part in publish(kind, path, *more, status=status)
    check_kept(news, 1, HELLO)
