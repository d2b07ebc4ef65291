"""The versions of a resource have addresses where a set keeps its content: those of
mementos, TimeGates and TimeMaps (RFC 7089; ResourceSync, section 14.6)."""

import datetime
import email.utils
import hashlib
import json
import re
import subprocess
import urllib.parse

import pytest

from tidings_test import hub, npm
from tidings_test.content import hashes, multipart
from tidings_test.http import check_refused
from tidings_test.sets import change, told
from tidings_test.waiting import wait_for

A, B = "http://example.com/a?x=1&y=2", "http://example.com/b"
TYPE = "text/plain; charset=utf-8"
ONE, TWO, THREE = b"one\n", b"two\n", b"three\n"
HOUR = 3600
NS = {"rs": "http://www.openarchives.org/rs/terms/"}
LINK = re.compile(r'<([^>]*)>((?:; *\w+="[^"]*")*)(?:, *|\s*$)')


@pytest.fixture
def news(broker):
    return broker.set().create(content="inline")


def post(news, content, loc=A, type=TYPE, **more):
    """Post a version of a resource; its seq."""
    body = multipart(change(loc, "updated", **more), [(loc, type, content)])
    return news.receipt(news.send(*body)).last


def address(news, content, seq=None):
    hex = hashlib.sha256(content).hexdigest()
    return f"{news.url}/content/{hex}" + (f"?seq={seq}" if seq else "")


def mementos(news):
    """The links `memento` of the entries, None for those without one."""
    urls = news.changelist().all("//s:url")
    return [
        next(iter(url.xpath("rs:ln[@rel='memento']/@href", namespaces=NS)), None)
        for url in urls
    ]


def links(text):
    """The links of a header or a document: [(relations, address, parameters)]."""
    found = []
    for match in LINK.finditer(text):
        parameters = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
        found.append((set(parameters.pop("rel").split()), match[1], parameters))
    assert LINK.sub("", text).strip() == ""
    return found


def linked(text, relation):
    """The addresses with that relation."""
    return [address for relations, address, _ in links(text) if relation in relations]


def wait_counted(news, last):
    assert news.last() >= last
    wait_for("all entries", lambda: news.state()["content"]["last"] >= last)


# the link is part of the entry, wherever that is read.
def test_an_entry_names_its_version(news):
    post(news, ONE, lastmod="2026-04-01T10:00:00Z")
    news.post_change(B, "created", **hashes(ONE))
    news.post_change(B, "deleted")
    assert mementos(news) == [address(news, ONE), address(news, ONE), None]
    [md] = news.changelist().all("//rs:ln[@modified]")
    assert md.get("modified") == "2026-04-01T10:00:00Z"
    assert news.get_url(mementos(news)[0]).body == ONE


# one per entry, and that of the source stays.
def test_an_entry_with_a_link_of_its_source_gets_no_other(news):
    theirs = {"rel": "memento", "href": "http://example.com/v/1"}
    post(news, ONE, links=[theirs])
    other = {"rel": "describedby", "href": "http://example.com/about"}
    post(news, TWO, links=[other])
    assert mementos(news) == [theirs["href"], address(news, TWO)]


# What is fetched later has addresses, too, but nothing says so before it is there.
def test_fetched_versions_have_addresses(start_broker, site):
    news = start_broker("--content", "fetch", *hub.LOOPBACK).set()
    url = site.link("/a")
    for content in (ONE, TWO):
        site.put("/a", content.decode())
        last = news.post_change(url, "updated", type=TYPE, **hashes(content)).last
        wait_for("the bytes", lambda: news.get(f"timegate/{url}").status == 302)
        expected = address(news, content, last)
        gate = lambda: news.get(f"timegate/{url}")["Location"]
        wait_for("the version", lambda expected=expected: gate() == expected)
        assert news.get_url(expected).body == content
        assert news.get_url(expected)["Content-Type"] == TYPE
    assert mementos(news) == [None, None]
    assert len(news.get(f"timemap/json/{url}").json()["mementos"]["list"]) == 2


def test_a_set_that_keeps_nothing_names_no_versions(broker):
    news = broker.set().create()
    news.post_change(A, **hashes(ONE))
    assert mementos(news) == [None]
    for path in ("content/" + "0" * 64, "timegate/" + A, "timemap/link/" + A):
        check_refused(news.get(path), 404)


# The same resources again are no changes: an upload adds the same links.
def test_an_upload_has_the_same_links(news):
    post(news, ONE, loc=B)
    whole = json.dumps([{"loc": B, "type": TYPE, "length": len(ONE), **hashes(ONE)}])
    answer = news.put_resources(whole, "application/json")
    assert told(answer)[:4] == (0, 0, 0, 1)


def test_bytes_are_sent_as_any_document(news):
    post(news, ONE)
    url = address(news, ONE)
    answer = news.get_url(url)
    assert (answer.status, answer.body) == (200, ONE)
    assert answer["Content-Type"] == TYPE
    assert answer["Cache-Control"] == "public, max-age=31536000, immutable"
    assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert news.get_url(url, if_none_match=answer["ETag"]).status == 304
    part = news.get_url(url, range="bytes=1-2")
    assert (part.status, part.body) == (206, ONE[1:3])
    head = news.broker.head(url.removeprefix(news.broker.url))
    assert (head.status, head["Content-Length"]) == (200, str(len(ONE)))


# A page of a stranger must not run as one of the broker's; a type that nobody stated is
# none that a browser shows.
@pytest.mark.parametrize("type", ["text/html", None])
def test_a_memento_has_the_type_of_its_entry(news, type):
    last = post(news, ONE, type=type)
    for _ in range(2):
        answer = news.get_url(address(news, ONE))
        assert answer["Content-Type"] == (type or "application/octet-stream")
        assert answer["Content-Security-Policy"] == "default-src 'none'; sandbox"
        wait_counted(news, last)


# RFC 7089, section 2.2.4: a memento names the resource that it is a version of.
def test_two_resources_with_the_same_bytes_are_told_apart(news):
    seqs = [post(news, ONE, loc=loc) for loc in (A, B)]
    for _ in range(2):
        for seq, loc in zip(seqs, (A, B)):
            answer = news.get_url(address(news, ONE, seq))
            assert linked(answer["Link"], "original") == [loc]
            assert linked(answer["Link"], "timegate") == [f"{news.url}/timegate/{loc}"]
            maps = [f"{news.url}/timemap/link/{loc}"]
            assert linked(answer["Link"], "timemap") == maps
            assert answer["Memento-Datetime"]
        first = news.get_url(address(news, ONE))
        assert linked(first["Link"], "original") == [A]
        wait_counted(news, 2)


@pytest.mark.parametrize("path", ["0" * 64, "0" * 63, "x", "0" * 64 + "?seq=x"])
def test_unknown_bytes_are_refused(news, path):
    post(news, ONE)
    check_refused(news.get("content/" + path), 404)


# Retention takes the bytes of versions whose entries it takes.
def test_bytes_that_went_are_gone(start_broker):
    news = start_broker("--retain-lists", 1).set().create(content="inline")
    for content in (ONE, TWO, THREE):
        last = post(news, content)
        news.rotate()
    wait_for("the end", lambda: news.get_url(address(news, ONE)).status == 410)
    check_refused(news.get_url(address(news, ONE)), 410)
    assert news.get_url(address(news, THREE)).body == THREE
    assert address(news, ONE) not in news.get("timemap/link/" + A).text
    assert address(news, THREE, last) in news.get("timemap/link/" + A).text


# Where a version loses its bytes, its address says so, and nothing lists it. The bytes of
# another version stay, and so does the newest one.
@pytest.mark.parametrize("by_option", [False, True])
def test_a_set_keeps_as_many_versions_as_it_says(start_broker, by_option):
    options = ("--content-versions", 2) if by_option else ()
    broker = start_broker(*options)
    settings = {} if by_option else {"content_versions": 2}
    news = broker.set().create(content="inline", **settings)
    assert news.state()["settings"]["contentVersions"] == 2
    seqs = [post(news, content) for content in (ONE, TWO, ONE, THREE)]
    other = post(news, TWO, loc=B)
    addresses = [
        address(news, content, seq) for content, seq in zip((ONE, TWO, ONE, THREE), seqs)
    ]

    def gone():
        return [news.get_url(one).status for one in addresses] == [410, 410, 200, 200]

    wait_for("two versions to go", gone)
    assert broker.metrics()["tidings_content_thinned_total"] == 2
    check_refused(news.get_url(addresses[0]), 410)
    assert news.get_url(address(news, TWO, other)).body == TWO
    for _ in range(2):
        listed = news.get("timemap/json/" + A).json()["mementos"]["list"]
        assert [one["uri"] for one in listed] == addresses[2:]
    earliest = news.get("timegate/" + A, accept_datetime="Thu, 01 Jan 2026 00:00:00 GMT")
    assert earliest["Location"] == addresses[2]
    news.post_change(B, "deleted")
    post(news, ONE, loc=B)
    post(news, ONE, loc=B)
    wait_for("the bytes to go", lambda: news.get_url(address(news, TWO)).status == 410)
    kept = [address(news, content) for content in (ONE, THREE)]
    assert [news.get_url(one).status for one in kept] == [200, 200]


# A lower number may cost bytes: that wants consent, where there are former versions.
@pytest.mark.parametrize(
    "before, after, asks",
    [("all", 1, True), ("all", "30d", True), (3, 2, True), (3, "30d", True)]
    + [("30d", 3, True), ("30d", "29d", True), (2, 3, False), ("29d", "30d", False)]
    + [(2, "all", False), ("30d", "all", False), (2, 2, False), (2, None, False)],
)
def test_fewer_versions_want_consent(broker, before, after, asks):
    news = broker.set().create(content="inline", content_versions=before)
    wait_counted(news, post(news, ONE))
    assert news.change(content_versions=1).status == 200
    assert news.change(content_versions=before, discard=True).status == 200
    wait_counted(news, post(news, TWO))
    answer = news.change(content_versions=after)
    if asks:
        check_refused(answer, 409, "1 former version (1 at most)")
        assert answer.json()["discards"]["versions"] == 1
        answer = news.change(content_versions=after, discard=True)
    assert answer.status == 200
    status = 410 if after == 1 else 200
    wait_for("the bytes", lambda: news.get_url(address(news, ONE)).status == status)


# A lower number holds at once, for the resources that change no more, too; also one that
# an option has lowered at a start. What went is counted.
@pytest.mark.parametrize("by_option", [False, True])
def test_a_lower_number_takes_former_versions_at_once(start_broker, by_option):
    broker = start_broker()
    news = broker.set().create(content="inline")
    seqs = {
        (loc, content): post(news, content, loc=loc)
        for loc in (A, B)
        for content in (ONE, TWO, THREE)
    }
    wait_counted(news, max(seqs.values()))
    if by_option:
        broker.stop()
        broker.set_options("--content-versions", 1)
        broker.restart()
    else:
        assert news.change(content_versions=1, discard=True).status == 200
    for content, status in ((ONE, 410), (TWO, 410), (THREE, 200)):
        url = address(news, content)
        wait_for("the bytes", lambda: news.get_url(url).status == status)
    for loc in (A, B):
        listed = news.get("timemap/json/" + loc).json()["mementos"]["list"]
        assert [one["uri"] for one in listed] == [address(news, THREE, seqs[loc, THREE])]
    assert broker.metrics()["tidings_content_thinned_total"] == 4


@pytest.fixture
def story(start_broker, faults):
    """A set with a resource that had two versions, an hour apart, was deleted, and came
    again with the bytes that it had; and the dates of these steps."""
    news = start_broker(env=faults.env).set().create(content="inline")
    news.dates = []
    for hour, content in enumerate((ONE, TWO, None, ONE)):
        faults.set_clock(hour * HOUR)
        if content is None:
            receipt = news.post_change(A, "deleted")
        else:
            body = multipart(change(A, "updated"), [(A, TYPE, content)])
            receipt = news.receipt(news.send(*body))
        news.dates.append(receipt.datetime)
    return news


def date_of(time, hours=0):
    """A time of an entry, and so many hours later, as a date of HTTP."""
    at = datetime.datetime.fromisoformat(time) + datetime.timedelta(hours=hours)
    return email.utils.format_datetime(at.replace(microsecond=0), usegmt=True)


# RFC 7089, sections 4.1 and 4.2; the table of all times is in unit/documents/memento.
@pytest.mark.parametrize(
    "step, hours, content, seq",
    [
        (0, -9, ONE, 1),
        (0, 0, ONE, 1),
        (0, 0.5, ONE, 1),
        (1, 0, TWO, 2),
        (2, 0.5, TWO, 2),
        (3, 9, ONE, 4),
    ],
)
def test_a_timegate_finds_the_version_of_a_time(story, step, hours, content, seq):
    when = date_of(story.dates[step], hours)
    answer = story.get("timegate/" + A, accept_datetime=when)
    assert (answer.status, answer.body) == (302, b"")
    assert answer["Location"] == address(story, content, seq)
    assert answer["Vary"] == "Accept-Datetime"
    assert not answer["Memento-Datetime"]
    assert linked(answer["Link"], "original") == [A]
    assert linked(answer["Link"], "timemap") == [f"{story.url}/timemap/link/{A}"]
    assert linked(answer["Link"], "first") == [address(story, ONE, 1)]
    assert linked(answer["Link"], "last") == [address(story, ONE, 4)]
    memento = story.get_url(answer["Location"])
    assert memento.body == content
    assert memento["Memento-Datetime"] == date_of(story.dates[seq - 1])
    assert linked(memento["Link"], "original") == [A]


def test_a_timegate_without_a_time_names_the_newest_version(story):
    answer = story.get("timegate/" + A)
    assert answer["Location"] == address(story, ONE, 4)


@pytest.mark.parametrize("when", ["yesterday", "2026-04-01T10:00:00Z", ""])
def test_a_timegate_refuses_what_is_no_date(news, when):
    post(news, ONE)
    check_refused(news.get("timegate/" + A, accept_datetime=when), 400)


# RFC 7089, section 5: all versions, the first and the last by name.
def test_a_timemap_has_all_versions(story):
    for _ in range(2):
        answer = story.get("timemap/link/" + A)
        assert answer["Content-Type"] == "application/link-format", answer
        assert linked(answer.text, "original") == [A]
        assert linked(answer.text, "timegate") == [f"{story.url}/timegate/{A}"]
        assert linked(answer.text, "self") == [f"{story.url}/timemap/link/{A}"]
        versions = [(1, ONE, {"first"}), (2, TWO, set()), (4, ONE, {"last"})]
        assert [one for one in links(answer.text) if "memento" in one[0]] == [
            (
                more | {"memento"},
                address(story, content, seq),
                {"datetime": date_of(story.dates[seq - 1])},
            )
            for seq, content, more in versions
        ]
        as_json = story.get("timemap/json/" + A)
        assert as_json["Content-Type"] == "application/json"
        listed = as_json.json()["mementos"]
        assert [one["uri"] for one in listed["list"]] == [
            address(story, content, seq) for seq, content, _ in versions
        ]
        assert as_json.json()["original_uri"] == A
        wait_counted(story, 4)


# Addresses have no character beyond ASCII (RFC 3987), and some clients encode all of a URI
# that is a part of a path. What looks like a reference is none.
@pytest.mark.parametrize(
    "loc, asked",
    [
        ("http://example.com/\u00e9?\u00fc", "http://example.com/%C3%A9?%C3%BC"),
        (A, "http%3A%2F%2Fexample.com%2Fa%3Fx%3D1%26y%3D2"),
        ("http://example.com/%C3%A9", "http://example.com/%C3%A9"),
        ("http://example.com/?a&lt;b", "http://example.com/?a&lt;b"),
    ],
)
def test_a_uri_is_found_in_any_spelling(news, loc, asked):
    last = post(news, ONE, loc=loc)
    wait_counted(news, last)
    answer = news.get("timegate/" + asked)
    assert answer["Location"] == address(news, ONE, last)
    text = news.get("timemap/link/" + asked).body.decode()
    uri = urllib.parse.quote(loc, safe="".join(map(chr, range(0x21, 0x7F))))
    assert linked(text, "original") == [uri]
    assert news.get("timemap/json/" + asked).json()["original_uri"] == loc
    check_refused(news.get("timegate/" + asked + "x"), 404)


def test_a_resource_without_versions_has_no_timemap(news):
    news.post_change(A, "deleted")
    for path in ("timegate/", "timemap/link/", "timemap/json/"):
        check_refused(news.get(path + A), 404)


PROGRAM = """
const memento = require("memento-client")
const [host, uri, time] = process.argv.slice(2)
memento(uri, time ? {host, time: new Date(time)} : {host}, (error, links) => {
    if (error) throw error
    console.log(JSON.stringify(links))
})
"""


# A client of others reads what the broker says.
def test_memento_client_of_npm_understands_it(story, tmp_path):
    npm.install(tmp_path)
    (tmp_path / "program.js").write_text(PROGRAM)

    def ask(*arguments):
        command = [npm.node(), tmp_path / "program.js", *arguments]
        out = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=tmp_path)
        found = [one for one in json.loads(out.stdout) if "memento" in one["rel"]]
        return [one["href"] for one in found]

    one, two, four = (
        address(story, content, seq) for seq, content in ((1, ONE), (2, TWO), (4, ONE))
    )
    assert ask(f"{story.url}/timemap/link/", A) == [one, two, four]
    assert ask(f"{story.url}/timegate/", A, story.dates[1]) == [one, two, four]
