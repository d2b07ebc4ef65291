"""The broker refuses a bad request as a whole, with a clear error."""

import pytest

from tidings_test.http import JSON, XML, as_bytes, check_refused
from tidings_test.sets import change, entries

pytestmark = pytest.mark.broker("--max-body", "8M")

GOOD = '{"loc":"http://example.com/a","change":"created"}'
URLSET = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
    'xmlns:rs="http://www.openarchives.org/rs/terms/">'
    '<rs:md capability="changelist" from="2026-01-01T00:00:00Z"/>'
)


def url(loc, kind="created"):
    return f'<url><loc>{loc}</loc><rs:md change="{kind}"/></url>'


A = url("http://example.com/a")


@pytest.fixture
def news(broker):
    """A set with one entry. In the end the set is unchanged, no refused request has
    made a set, and the broker still takes changes."""
    news = broker.set()
    news.post()
    before = news.changelist().bytes
    yield news
    assert news.changelist().bytes == before
    assert b"/sets/other/" not in broker.get("/.well-known/resourcesync").body
    assert broker.set().post().last == 1


def check_all(news, cases, type):
    """Each body is refused, by an existing set and by a missing one."""
    for body, status, detail, entry in cases:
        for path in (news.changes, "/sets/other/changes"):
            answer = news.broker.post(path, body, type)
            check_refused(answer, status, detail, entry)


def test_refuses_malformed_json_with_400(news):
    cases = [
        ("", 400, "not JSON", None),
        (f'[{GOOD},{{"loc":', 400, "not JSON", 2),
        (f"[{GOOD}", 400, "not JSON", None),
        (f"{GOOD} x", 400, "not JSON", None),
        (f"{GOOD},{GOOD}", 400, "not JSON", None),
        (f"[{GOOD},]", 400, "not JSON", None),
        ("<urlset/>", 400, "not JSON", None),
        (b'{"loc":"\xff"}', 400, "not JSON", 1),
    ]
    check_all(news, cases, JSON)


def test_refuses_malformed_xml_with_400(news):
    cases = [
        ("", 400, "not ", None),
        ("hello", 400, "not ", None),
        (URLSET, 400, "not well-formed", None),
        (f"{URLSET}<url>", 400, "not well-formed", 1),
        (f"{URLSET}{A}", 400, "not well-formed", None),
        (f"{URLSET}{A}</urlse>", 400, "not well-formed", None),
    ]
    check_all(news, cases, XML)
    ampersand = f"{URLSET}{url('http://example.com/a&b')}</urlset>"
    check_all(news, [(ampersand, 400, "not well-formed", 1)], "text/xml")


# and rules of JSON alone. The error names the faulty entry.
def test_refuses_what_is_well_formed_but_wrong_with_422(news):
    loc, b = '"loc":"http://example.com/a"', "http://example.com/b"
    cases = [
        (f'[{GOOD},{GOOD},{{"loc":"/a","change":"created"}},{GOOD}]', 422,
         "loc: not an absolute URI", 3),
        ('{"loc":"http://e.x","change":"created"}', 422, "loc", 1),
        (f'[{GOOD},{{{loc},"change":"moved"}}]', 422, "moved", 2),
        (f"[{GOOD},{{{loc}}}]", 422, "no change", 2),
        (f'[{GOOD},{{"change":"created"}}]', 422, "no loc", 2),
        (f'{{{loc},"change":"created","what":1}}', 422, "what", 1),
        ("[]", 422, "no entries", None),
        ("3", 422, "", None),
    ]  # fmt: skip
    check_all(news, cases, JSON)
    cases = [
        ("<urlset/>", 422, "namespace", None),
        ('<urlset xmlns="urn:x"/>', 422, "namespace", None),
        (f"{URLSET}</urlset>", 422, "no entries", None),
        (f"{URLSET}{A}{url('a')}</urlset>", 422, "loc: not an absolute URI", 2),
        (f"{URLSET}{A}{url(b, 'moved')}</urlset>", 422, "moved", 2),
    ]
    check_all(news, cases, XML)


#
def test_refuses_a_loc_that_is_too_long(news, broker):
    loc = "http://example.com/".ljust(2048, "a")
    assert broker.set().send(change(loc)).status == 200
    check_refused(news.send(change(loc + "a")), 422, "longer than 2048", 1)


TYPES = [
    "text/plain",
    "application/octet-stream",
    "application/x-www-form-urlencoded",
    "application/jsonx",
    "application/xml; charset=iso-8859-1",
    "application/json; charset=utf-16",
    None,
]


# The answer names the types that the broker reads, or the charset.
def test_refuses_other_media_types_and_codings_with_415(news, broker):
    for type in TYPES:
        answer = broker.post(news.changes, GOOD, type)
        is_charset = "charset" in (type or "")
        names = "read only in UTF-8" if is_charset else "application/xml, application/json"
        check_refused(answer, 415, names)
    check_refused(answer, 415, "no Content-Type")  # the last has none
    for coding in ("zstd", "deflate", "br", "gzip, identity"):
        answer = news.send(GOOD, content_encoding=coding)
        check_refused(answer, 415, coding)


def test_answers_404_for_what_is_not_there(news, broker):
    paths = [
        "/nowhere",
        "/sets/other/changes",
        "/sets/other/capabilitylist.xml",
        "/sets/other/changelist.xml",
        "/sets/other/changelist-archive.xml",
        "/sets/other/changes/000000000001.xml",
        f"{news.path}/changes/000000000002.xml",
        f"{news.path}/changes/000000000000.xml",
        f"{news.path}/changes/1.xml",
        f"{news.path}/changes/0000000000001.xml",
        f"{news.path}/changelist-archive.xml",
        f"{news.path}/",
        f"{news.path.upper().replace('/SETS', '/sets')}/changelist.xml",
        "/.well-known/other",
    ]
    for path in paths:
        check_refused(broker.get(path), 404)
    check_refused(broker.post("/sets/other/rotate"), 404, "other")


def test_refuses_names_that_no_set_can_have(news, broker):
    names = ["NEWS", ".news", "-news", "_news", "n%C3%A9", "a%20b", "n*", "a" * 65]
    for name in names:
        answer = broker.post(f"/sets/{name}/changes", GOOD, JSON)
        assert answer.status in (400, 403, 404), (name, answer)
    assert b"aaaa" not in broker.get("/.well-known/resourcesync").body


def test_answers_405_with_what_is_allowed(news, broker):
    cases = [
        ("PUT", news.changes, "GET, HEAD, POST"),
        ("DELETE", news.changes, "GET, HEAD, POST"),
        ("PATCH", news.changes, "GET, HEAD, POST"),
        ("GET", f"{news.path}/rotate", "POST"),
        ("POST", f"{news.path}/stream", "GET, HEAD"),
        ("POST", f"{news.path}/changelist.xml", "GET, HEAD"),
        ("DELETE", f"{news.path}/changes/000000000001.xml", "GET, HEAD"),
        ("POST", "/.well-known/resourcesync", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
    ]
    for method, path, allow in cases:
        body = b"" if method in ("POST", "PUT") else None
        answer = broker.request(method, path, body)
        check_refused(answer, 405, allow)
        assert answer["Allow"] == allow


# The broker reads a body of the largest allowed size; it refuses one byte more unread.
def test_refuses_a_body_that_is_too_large(news, broker):
    body = as_bytes(entries(128, size=65400)).ljust(8 << 20, b"\n")
    assert len(body) == 8 << 20
    assert broker.set().send(body).status == 200
    check_refused(news.send(body + b"\n"), 413, "8388608")


# no document has more. A body that is no ResourceSync document may have more:
# the broker splits it (large_test.c).
def test_refuses_a_urlset_of_more_than_50000_entries(news, broker):
    body = f"{URLSET}{A * 50000}</urlset>"
    assert broker.set().send(body, XML).status == 200
    check_refused(news.send(body.replace(A, A + A, 1), XML), 413, "50000")
