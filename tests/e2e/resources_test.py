"""PUT resources: a source uploads all its resources, and the broker posts the
differences as changes."""

import gzip
import json

import pytest

from tidings_test.documents import NAMESPACES
from tidings_test.http import NDJSON, XML, check_refused
from tidings_test.sets import change, told, uploads
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--tail-bytes", "4M")

BASE = "http://example.com/"
XMLNS = f"xmlns='{NAMESPACES['s']}' xmlns:rs='{NAMESPACES['rs']}'"
LIST = "<rs:md capability='resourcelist' at='2026-01-01T00:00:00Z'/>"


def url(name, more=""):
    return f"<url><loc>{BASE}{name}</loc>{more}</url>"


def sitemap(*entries):
    """A Sitemap of these names, or elements."""
    each = (one if one.startswith("<") else url(one) for one in entries)
    return f"<urlset {XMLNS}>{''.join(each)}</urlset>"


def resourcelist(*entries):
    return sitemap(LIST, *entries)


def lastmod(name, day):
    return url(name, f"<lastmod>{day}</lastmod>")


def md(name, attributes):
    return url(name, f"<rs:md {attributes}/>")


def ndjson(*resources):
    return "".join(json.dumps(one) + "\n" for one in resources)


def put(news, body, type=XML, **headers):
    return news.put_resources(body, type, **headers)


def check_nothing_left(news, last):
    """Check that no upload is under way, and that the set ends with entry `last`."""
    assert not uploads(news.broker)
    assert news.last() == last


# a plain Sitemap is enough; lastmod shows updates.
def test_a_sitemap_that_differs_becomes_changes(news):
    before = sitemap(lastmod("a", "2026-01-01"), "b?x=1&amp;y=2", *"cde")
    assert told(put(news, before)) == (5, 0, 0, 0, 0)
    after = sitemap("f", lastmod("a", "2026-01-02"), *"edc")
    assert told(put(news, after)) == (1, 1, 1, 3, 0)

    changes = news.changelist()
    assert changes.count("//s:url") == 8
    for at, kind, name, mod in (
        (6, "created", "f", ""),
        (7, "updated", "a", "2026-01-02"),
        (8, "deleted", "b?x=1&y=2", ""),
    ):
        entry = f"//s:url[{at}]"
        assert changes.text(f"{entry}/rs:md/@change") == kind
        assert changes.text(f"{entry}/s:loc") == BASE + name
        assert changes.text(f"{entry}/s:lastmod") == mod
    check_nothing_left(news, 8)


def test_the_answer_names_set_seqs_and_position(news):
    answer = put(news, sitemap("a", "b"))
    assert told(answer) == (2, 0, 0, 0, 0)
    facts = answer.json()
    assert (facts["set"], facts["first"], facts["last"]) == (news.name, 1, 2)
    assert facts["position"].partition("-")[2] == "2"

    answer = put(news, sitemap("a", "b"))
    assert told(answer) == (0, 0, 0, 2, 0)
    none = {"first": None, "last": None, "position": facts["position"]}
    assert none.items() <= answer.json().items()


# all facts of a resource count.
def test_a_resource_list_with_another_hash_length_or_link_is_an_update(news):
    md5 = "hash='md5:1584abdf8ebdc9802ac0c6a7402c03b{}'"
    c = md("c", "type='text/html'")
    before = (md("a", md5.format(6)), md("b", "length='3'"), c, md("d", ""))
    assert told(put(news, resourcelist(*before))) == (4, 0, 0, 0, 0)
    link = f"<rs:ln rel='describedby' href='{BASE}d.txt'/>"
    after = (md("a", md5.format(7)), md("b", "length='4'"), c, url("d", link))
    assert told(put(news, resourcelist(*after))) == (0, 3, 0, 1, 0)


def test_ndjson_and_gzip_of_each_form_say_the_same(news):
    entries = (url("a"), lastmod("b", "2026-01-01"))
    b = {"loc": f"{BASE}b", "lastmod": "2026-01-01T00:00:00Z"}
    expected = (2, 0, 0, 0, 0)
    for type, body in (
        (XML, sitemap(*entries)),
        (XML, resourcelist(*entries)),
        (NDJSON, ndjson({"loc": f"{BASE}a"}, b)),
    ):
        assert told(put(news, body, type)) == expected
        expected = (0, 0, 0, 2, 0)
        packed = gzip.compress(body.encode())
        assert told(put(news, packed, type, content_encoding="gzip")) == expected


# Posted changes are part of the state, too.
def test_posted_changes_and_a_whole_state_go_together(news):
    changes = [change(BASE + name) for name in "abc"]
    changes[0]["length"] = 3
    changes.append(change(f"{BASE}c", "deleted"))
    news.receipt(news.send(ndjson(*changes), NDJSON))
    body = ndjson({"loc": f"{BASE}a", "length": 3}, {"loc": f"{BASE}b"})
    assert told(put(news, body, NDJSON)) == (0, 0, 0, 2, 0)


# sources that write the time of a resource as that of a change.
def test_a_resource_may_carry_the_time_of_a_change(news):
    day = "2026-01-01T00:00:00Z"
    timed = f"<rs:md datetime='{day}' length='3'/>"
    both = f"<lastmod>2025-12-31</lastmod>{timed}"
    body = resourcelist(url("a", timed), url("b", both))
    assert told(put(news, body)) == (2, 0, 0, 0, 0)
    lines = ndjson(
        {"loc": f"{BASE}a", "length": 3, "lastmod": day},
        {"loc": f"{BASE}b", "length": 3, "lastmod": "2025-12-31", "datetime": day},
    )
    assert told(put(news, lines, NDJSON)) == (0, 0, 0, 2, 0)


# read as Sitemaps, deletions of these documents would be creations.
@pytest.mark.parametrize("version", ["", "0.5/"])
def test_drafts_of_2012_are_refused_by_name(news, version):
    old = f"http://www.openarchives.org/rs/{version}"
    root = f"<urlset xmlns='{NAMESPACES['s']}' xmlns:rs='{old}'>"
    document = f"{root}<rs:md capability='changelist' modified='2012-10-31'/>"
    rows = [
        url("a", "<rs:md change='deleted'/>"),
        f"<url><loc>{BASE}a</loc><lastmod rs:type='deleted'>2012-10-31</lastmod></url>",
    ]
    whole = (f"{document}{rows[0]}</urlset>", f"<changeset xmlns='{old}'/>")
    said = f'namespace "{old}" is of a draft'
    for body in whole:
        check_refused(news.send(body, XML), 422, said)
    for body in (*whole, *(f"{root}{row}</urlset>" for row in rows)):
        check_refused(put(news, body), 422, said)
    check_nothing_left(news, 0)


#
def test_a_body_that_is_cut_or_wrong_leaves_nothing(news):
    index = (
        f"<sitemapindex {XMLNS}><sitemap><loc>{BASE}1.xml</loc></sitemap>"
        "</sitemapindex>"
    )
    changelist = f"<urlset {XMLNS}><rs:md capability='changelist'/></urlset>"
    # fmt: off
    for body, status, part, *entry in (
        (f"<urlset {XMLNS}>{url('a')}", 400, ""),
        (sitemap("a", "b", "a"), 422, f'loc: named already in entry 1: "{BASE}a"', 3),
        (sitemap("a", "<url><loc>b</loc></url>"), 422, "loc", 2),
        (resourcelist(md("a", "change='created'")), 422,
         "change: a list of resources names their state", 1),
        (changelist, 422, "capability: not resourcelist"),
        (index, 422, "the root is not urlset"),
    ):
        # fmt: on
        check_refused(put(news, body), status, part, *entry)
    cut = ndjson({"loc": f"{BASE}a"}) + '{"loc":'
    check_refused(put(news, cut, NDJSON), 400)
    packed = gzip.compress(sitemap("a").encode())[:-4]
    check_refused(put(news, packed, content_encoding="gzip"), 400, "gzip")
    check_nothing_left(news, 0)


# The broker looks once a second whether the client of a whole body is still there; here it
# does at each request, while it posts the differences.
def test_what_has_arrived_whole_is_taken_without_a_connection(faults, start_broker):
    news = start_broker("--request-timeout", "3600", env=faults.env).set()
    n = 100000
    body = gzip.compress(ndjson(*({"loc": f"{BASE}{i}"} for i in range(n))).encode())
    connection = news.broker.connect()
    connection.ask(
        f"{news.path}/resources",
        "PUT",
        content_type=NDJSON,
        content_encoding="gzip",
        content_length=len(body),
    )
    connection.send(body)
    connection.close()

    def look():
        faults.pass_time(1)
        return news.last() == n

    wait_for("the entries", look)
    wait_for("the end of the upload", lambda: not uploads(news.broker))


def test_a_wrong_request_is_refused_before_its_body(news, broker):
    answer = put(news, "[]", "application/cloudevents+json")
    check_refused(answer, 415, "application/xml, application/json")
    check_refused(put(news, "x", content_encoding="br"), 415, "gzip")
    answer = broker.put("/sets/Demo/resources", "x", XML)
    check_refused(answer, 404, "no set can be called")
    for name, number in (
        ("max-delete", "101"),
        ("max-delete", "all"),
        ("accept-deletions", "-1"),
        ("left-out", "x"),
    ):
        answer = put(news, "x", query=f"{name}={number}")
        check_refused(answer, 400, f"{name}: not a number")
    check_nothing_left(news, 0)


# Its own limit, not --max-body.
@pytest.mark.broker("--max-resources-body", "64K", "--max-body", "1K")
def test_the_limit_counts_what_comes_out_of_gzip(broker):
    def body(size):
        line = len(ndjson({"loc": f"{BASE}00000"}))
        each = ({"loc": f"{BASE}{i:05}"} for i in range(size // line))
        return ndjson(*each)

    news = broker.set()
    assert put(news, body(60000), NDJSON).status == 200
    check_refused(put(news, body(70000), NDJSON), 413, "65536")
    packed = gzip.compress(body(70000).encode())
    assert len(packed) < 65536
    check_refused(put(news, packed, NDJSON, content_encoding="gzip"), 413, "65536")
    assert not uploads(broker)


# what comes and what changes is applied, and the rest is held back. A client that
# does not say that it knows of that gets 409: it must not take the set for its list.
def test_too_many_deletions_are_held_back(news):
    assert told(put(news, sitemap(*"abcdefghij"))) == (10, 0, 0, 0, 0)
    answer = put(news, sitemap(*"abcdefx"))
    check_refused(answer, 409, "held back: 4 of 10 resources would be deleted")
    assert "accept-deletions=4 says" in answer.json()["detail"]
    assert answer["Retry-After"] is None
    counts = {"created": 1, "deleted": 0, "unchanged": 6, "held_back": 4}
    assert counts.items() <= answer.json().items()
    assert (answer.json()["first"], answer.json()["last"]) == (11, 11)
    check_nothing_left(news, 11)
    shown = f'tidings_held_back_deletions{{set="{news.name}"}} 4'
    assert shown in news.broker.get("/metrics").text

    for query, held_back in (
        ("accept-deletions=0", 4),
        ("accept-deletions=3", 4),
        ("accept-deletions=0&max-delete=36", 4),
        ("accept-deletions=0&max-delete=37&left-out=1", 4),
        ("accept-deletions=4", 0),
    ):
        answer = put(news, sitemap(*"abcdefx"), query=query)
        assert told(answer)[:3] == (0, 0, 4 - held_back), query
        assert answer.json()["held_back"] == held_back
        assert answer.json()["resources"] == 11
    check_nothing_left(news, 15)
    assert shown not in news.broker.get("/metrics").text

    # Some are always allowed, unless there must be none at all.
    check_refused(put(news, sitemap(*"abcd"), query="max-delete=0"), 409, "3 of 7")
    assert told(put(news, sitemap(*"abcd"))) == (0, 0, 3, 4, 0)
    check_refused(put(news, sitemap()), 409, "4 of 4")
    answer = put(news, sitemap(), query="max-delete=100")
    assert told(answer) == (0, 0, 4, 0, 0)
    check_nothing_left(news, 22)


# 300 of 1,000 vanish and 50 come; a consent to 300 does not hold for 400.
def test_a_consent_is_to_a_number(news):
    def put_range(first, last, accepted):
        body = ndjson(*({"loc": f"{BASE}{n}"} for n in range(first, last)))
        query = f"accept-deletions={accepted}"
        answer = put(news, body, NDJSON, query=query)
        return told(answer)[:3], answer.json()["held_back"]

    assert put_range(0, 1000, 0) == ((1000, 0, 0), 0)
    assert put_range(300, 1050, 0) == ((50, 0, 0), 300)
    assert put_range(400, 1050, 300) == ((0, 0, 0), 400)
    assert put_range(300, 1050, 300) == ((0, 0, 300), 0)
