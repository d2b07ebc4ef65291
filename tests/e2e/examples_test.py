"""The bodies of tests/spec/examples, posted: the bad ones are refused whole, the odd
ones come out with the values they have."""

import pytest

from tidings_test.http import check_refused
from tidings_test.sets import EXAMPLES

# The broker's own reader of XML hands over to libxml2 what it does not know; both
# accept and refuse the same.
BOTH = pytest.mark.parametrize(
    "reader",
    [
        pytest.param(on, marks=pytest.mark.broker("--scan-posts", on), id=on)
        for on in ("on", "off")
    ],
)

BAD = sorted(path.name for path in EXAMPLES.glob("bad/*.xml"))


# The answer to each is 4xx with a problem, and the broker keeps nothing of it: no set
# is made, an existing set stays as it is.
@BOTH
def test_all_bad_examples_are_refused_whole(news, broker, reader):
    assert len(BAD) >= 40
    other = broker.set()
    news.post()
    before = news.changelist().bytes
    for name in BAD:
        for one in (news, other):
            answer = one.send_example(f"bad/{name}")
            assert 400 <= answer.status <= 499, (name, answer)
            check_refused(answer, answer.status)
        assert other.get("changelist.xml").status == 404, name
        assert news.changelist().bytes == before, name
    assert news.post().last == 2


R = "http://example.com/gauges/r"
HAVEN = f"{R}/haven.csv"
TYPE = 'application/ld+json; profile="http://example.org/p"; charset=utf-8'
HASHES = f"md5:{'AB' * 16} sha-1:{'cd' * 20} sha-256:{'EF' * 32}"

# How many entries come out of a file, and a value of them.
ODD = [
    ("byte-order-mark", 1, "//s:loc", HAVEN),
    ("cdata-and-references", 2, "//s:url[1]/s:loc", "http://example.com/q?a=1&b=2"),
    ("cdata-and-references", 2, "//s:url[2]/s:loc", "http://example.com/r/å"),
    ("comments", 1, "//s:loc", HAVEN),
    ("deleted-unknown", 1, "//s:url/rs:md/@change", "deleted"),
    ("deleted-unknown", 1, "//s:loc", f"{R}/never-seen.csv"),
    ("foreign-elements", 1, "//s:loc", HAVEN),
    ("fractions", 3, "//s:url[1]/s:loc", "http://example.com/f/1-gauge"),
    ("fractions", 3, "//s:url[2]/s:loc", "http://example.com/f/2-gauge"),
    ("fractions", 3, "//s:url[3]/s:loc", "http://example.com/f/3-gauge"),
    ("links", 1, "//s:url/rs:ln[12]/@href", "http://example.com/l/11"),
    ("long-loc", 1, "string-length(//s:loc)", "2048"),
    ("no-declaration", 1, "//s:loc", HAVEN),
    ("offset-time", 1, "//s:lastmod", "2026-04-05T08:30:00Z"),
    ("old-capability", 1, "//s:loc", HAVEN),
    ("old-lastmod", 1, "//s:lastmod", "2000-02-29T23:59:59Z"),
    ("other-prefixes", 1, "//s:loc", HAVEN),
    ("quotes-and-order", 1, "//s:loc", HAVEN),
    ("quotes-and-order", 1, "//s:url/rs:md/@change", "created"),
    ("quotes-and-order", 1, "//s:url/rs:md/@length", "12"),
    ("quotes-and-order", 1, "//s:url/rs:md/@type", "text/csv"),
    ("same-resource", 5, "//s:url[4]/rs:md/@change", "deleted"),
    ("same-resource", 5, "//s:url[5]/rs:md/@change", "created"),
    ("several-hashes", 1, "//s:url/rs:md/@hash", HASHES),
    ("sha256-spelling", 1, "//s:url/rs:md/@hash", f"sha-256:{'ab' * 32}"),
    ("short-loc", 1, "//s:loc", "urn:tide:abc"),
    ("type-parameters", 1, "//s:url/rs:md/@type", TYPE),
    ("white-space", 1, "//s:loc", HAVEN),
    ("white-space", 1, "//s:lastmod", "2026-04-05T09:59:00Z"),
]


# The event's own time is kept, as the event time or beside it.
@BOTH
def test_all_odd_examples_are_accepted_with_their_values(broker, reader):
    lists = {}
    for name, n, xpath, value in ODD:
        if name not in lists:
            odd = broker.set()
            odd.receipt(odd.send_example(f"odd/{name}.xml"))
            list_ = lists[name] = odd.changelist()
            list_.check_valid()
            timed = "[starts-with(rs:md/@td:datetime, '2026-04-05T10:00:0')]"
            assert list_.count("//s:url") == list_.count(f"//s:url{timed}") == n, name
        assert lists[name].text(xpath) == value, name
    # No example is forgotten.
    assert list(lists) == sorted(path.stem for path in EXAMPLES.glob("odd/*.xml"))
    assert len(lists) >= 20


# README of the examples: a correct document is a correct post.
def test_change_documents_among_the_good_examples_are_accepted(news):
    names = ["change-list-open", "change-list-closed", "change-notification"]
    for name in [*names, "relations", "foreign-and-escaped"]:
        news.receipt(news.send_example(f"{name}.xml"))
    news.changelist().check_valid()
