"""PUT resources: a source uploads all its resources, and the broker posts the
differences as changes."""

import gzip
import json

import pytest

from tidings_test.documents import NAMESPACES
from tidings_test.http import NDJSON, XML, check_refused
from tidings_test.sets import change, told, uploads

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


#
def test_a_time_of_the_last_change_is_that_of_the_resource(news):
    body = resourcelist(md("a", "datetime='2026-01-01T00:00:00Z'"))
    assert told(put(news, body)) == (1, 0, 0, 0, 0)
    assert told(put(news, body)) == (0, 0, 0, 1, 0)
    later = body.replace("2026-01-01", "2026-01-02")
    assert told(put(news, later)) == (0, 1, 0, 0, 0)


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
        (resourcelist(url("a")).replace("/rs/terms/", "/rs/"), 422,
         "a draft of ResourceSync of 2012"),
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


def test_a_wrong_request_is_refused_before_its_body(news, broker):
    answer = put(news, "[]", "application/json")
    check_refused(answer, 415, "application/xml, application/x-ndjson")
    check_refused(put(news, "x", content_encoding="br"), 415, "gzip")
    answer = broker.put("/sets/Demo/resources", "x", XML)
    check_refused(answer, 404, "no set can be called")
    for most in ("101", "all"):
        answer = put(news, "x", query=f"max-delete={most}")
        check_refused(answer, 400, "max-delete")
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


def test_more_than_a_fifth_is_deleted_only_on_demand(news):
    assert told(put(news, sitemap(*"abcde"))) == (5, 0, 0, 0, 0)
    answer = put(news, sitemap(*"abx"))
    check_refused(answer, 409, "3 of 5 resources would be deleted")
    assert answer["Retry-After"] is None
    counts = {"created": 1, "deleted": 3, "unchanged": 2, "resources": 5}
    assert counts.items() <= answer.json().items()
    check_nothing_left(news, 5)

    answer = put(news, sitemap(*"abx"), query="max-delete=59")
    check_refused(answer, 409, "more than 59 %")
    answer = put(news, sitemap(*"abx"), query="max-delete=60")
    assert told(answer) == (1, 0, 3, 2, 0)

    check_refused(put(news, sitemap()), 409, "3 of 3")
    answer = put(news, sitemap(), query="max-delete=100")
    assert told(answer) == (0, 0, 3, 0, 0)
    check_nothing_left(news, 12)
