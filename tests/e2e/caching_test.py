"""Clients need not fetch an unchanged document again: ETags, conditions, gzip, and
headers for caches (R-034)."""

import email.utils
import gzip

import pytest

from tidings_test.broker import ROOT
from tidings_test.http import PAGE_VARY

SOURCE = "/.well-known/resourcesync"
INDEX = "/sets/news/changelist.xml"
ARCHIVE = "/sets/news/changelist-archive.xml"
LATEST = "/sets/news/changes/latest.xml"
LISTS = [f"/sets/news/changes/{number:012}.xml" for number in (1, 2, 3)]
MODULE = "/tidings.js"
RESOURCES = "/sets/news/resources"
PACKED = [*LISTS, MODULE]
DOCUMENTS = [
    *(SOURCE, "/sets/news/capabilitylist.xml", INDEX, ARCHIVE, LATEST, *LISTS),
    *(MODULE, RESOURCES),
]

DESCRIBING = [
    *("Content-Type", "Content-Length", "Content-Encoding", "ETag", "Last-Modified"),
    *("Cache-Control", "Vary", "Accept-Ranges", "Link"),
]


@pytest.fixture
def start_ahead(start_broker, faults):
    """start_ahead("--option", ...): a broker whose clock is an hour ahead, so that it
    states the dates of new files at once."""
    faults.set_clock(3600)
    return lambda *options: start_broker(*options, env=faults.env)


@pytest.fixture
def news(start_ahead):
    """A set with two closed lists and an open one."""
    news = start_ahead("--rotate-entries", "10").set("news")
    news.post(25)
    news.wait_dated(1)
    news.wait_dated(2)
    return news


@pytest.fixture
def broker(news):
    return news.broker


def etag(broker, path, **headers):
    answer = broker.get(path, **headers)
    assert answer.status == 200
    assert answer["ETag"]
    return answer["ETag"]


# R-025, RFC 9110 section 9.3.2
def test_head_says_of_each_document_what_get_does(broker):
    for path in DOCUMENTS:
        for coding in ("gzip", None):
            answers = [
                broker.request(method, path, accept_encoding=coding)
                for method in ("GET", "HEAD")
            ]
            get, head = ([one[name] for name in DESCRIBING] for one in answers)
            assert head == get
            assert answers[0]["Content-Length"] == str(len(answers[0].body))
            assert [one.status for one in answers] == [200, 200]


# A closed list is for ever; all else is to be asked for again. Documents that can come
# as pages or as gzip say so to caches.
def test_caches_are_told_what_they_may_keep(broker):
    for path in DOCUMENTS:
        answer = broker.get(path)
        is_closed = path in LISTS[:2]
        final = "public, max-age=31536000, immutable"
        assert answer.status == 200
        assert answer["Cache-Control"] == (final if is_closed else "no-cache")
        forms = [PAGE_VARY] if path != MODULE else []  # pages
        coded = ["Accept-Encoding"] if path in [*PACKED, RESOURCES] else []
        assert answer["Vary"] == ", ".join(forms + coded)
        assert answer["Accept-Ranges"] == "bytes"
        assert bool(answer["Last-Modified"]) == is_closed


# after no change, 304.
def test_a_document_that_has_not_changed_is_not_sent_again(broker):
    for path in DOCUMENTS:
        tag = etag(broker, path)
        same = broker.get(path, if_none_match=tag)
        assert (same.status, same["ETag"], same.body) == (304, tag, b"")
        assert same["Content-Length"] is same["Content-Type"] is None
        assert same["Cache-Control"]
        assert broker.head(path, if_none_match=tag).status == 304
        for tags, status in ((f'"x", W/{tag}', 304), ("*", 304), ('"x"', 200)):
            assert broker.get(path, if_none_match=tags).status == status
        assert broker.get(path, if_match='"x"').status == 412


# after a change, 200 for the documents that it changes.
def test_a_change_shows_in_the_etags_of_the_documents_it_changes(news, broker):
    tags = {path: etag(broker, path) for path in DOCUMENTS}
    assert tags[LATEST] == tags[LISTS[2]]  # the same bytes

    def check(changed, same):
        for paths, status in ((changed, 200), (same, 304)):
            for path in paths:
                assert broker.get(path, if_none_match=tags[path]).status == status

    # An entry changes the open list.
    news.post()
    check([LATEST, LISTS[2], RESOURCES], [INDEX, ARCHIVE])
    # The end of a list changes the list and the documents that name it.
    tags[LISTS[2]] = etag(broker, LISTS[2])
    news.rotate()
    tags[RESOURCES] = etag(broker, RESOURCES)
    check([LISTS[2], INDEX, ARCHIVE], [LISTS[1], SOURCE, RESOURCES])
    # A set changes the Source Description.
    broker.set("another").post()
    check([SOURCE], [])


# Each form of the resources is a document of its own. A state of the past stays as it
# was; that of now changes with the set.
def test_each_form_of_the_resources_has_its_etag(news, broker):
    past = f"{RESOURCES}?as-of={broker.get('/sets/news').json()['datetime']}"
    forms = ("application/json", "application/xml")
    tags = {
        (path, form): etag(broker, path, accept=form)
        for path in (RESOURCES, past)
        for form in forms
    }
    assert len(set(tags.values())) == len(forms)  # a form has the same bytes at both
    assert etag(broker, past, accept="text/html") == tags[past, forms[0]]  # has no page
    for path, form in tags:
        for tag in set(tags.values()):
            answer = broker.get(path, accept=form, if_none_match=tag)
            assert answer.status == (304 if tag == tags[path, form] else 200)
        whole = broker.get(path, accept=form).body
        part = broker.get(path, accept=form, range="bytes=10-29")
        assert (part.status, part.body) == (206, whole[10:30])
        beyond = broker.get(path, accept=form, range=f"bytes={len(whole)}-")
        assert beyond.status == 416
    news.post()
    for (path, form), tag in tags.items():
        answer = broker.get(path, accept=form, if_none_match=tag)
        assert answer.status == (304 if path == past else 200)
    broker.kill()
    broker.restart()
    for form in forms:
        tag = tags[past, form]
        assert broker.get(past, accept=form, if_none_match=tag).status == 304


# log.md: an ETag is made of header and digest, so that it stays the same when the
# file appears, and in the next process.
def test_an_etag_survives_the_file_and_a_restart(start_ahead):
    broker = start_ahead("--rotate-entries", "50")
    news = broker.set("news")
    in_the_way = news.obstruct_files()
    news.post(70)
    path = LISTS[0]
    plain = broker.get(path, accept_encoding="gzip")
    assert plain["Content-Encoding"] is plain["Last-Modified"] is None
    assert plain["Vary"] == f"{PAGE_VARY}, Accept-Encoding"
    before = plain["ETag"]

    in_the_way.unlink()
    packed = news.wait_dated(1)
    tag = packed["ETag"]
    assert tag != before
    assert etag(broker, path) == before
    # The copy of a client from before the gzip is still current.
    same = broker.get(path, accept_encoding="gzip", if_none_match=before)
    assert (same.status, same["ETag"]) == (304, before)
    assert broker.get(path, if_none_match=tag).status == 200

    for end in (broker.stop, broker.kill):
        end()
        broker.restart()
        for headers in (
            {"if_none_match": before},
            {"if_none_match": tag, "accept_encoding": "gzip"},
            {"if_modified_since": packed["Last-Modified"]},
        ):
            assert broker.get(path, **headers).status == 304
        assert etag(broker, path, accept_encoding="gzip") == tag


# The other documents' too: an index of thousands of lists need not be sent because
# the broker was started anew.
def test_every_etag_survives_a_restart(broker):
    tags = {path: etag(broker, path) for path in DOCUMENTS}
    broker.kill()
    broker.restart()
    for path, tag in tags.items():
        assert broker.get(path, if_none_match=tag).status == 304


# A copy of the open list may be as young as it can be: a date never makes the closed
# list the same.
def test_a_date_never_hides_that_a_list_was_closed(start_ahead, faults):
    broker = start_ahead()
    faults.set_clock(0)
    news = broker.set("news")
    news.post(3)
    date = broker.get(LATEST)["Date"]
    assert broker.get(LATEST, if_modified_since=date).status == 200
    news.post()
    answer = broker.get(LATEST, if_modified_since=date)
    assert answer.status == 200
    assert b"/r/4<" in answer.body

    # All entries were there, and the same second may be at work.
    date = answer["Date"]
    news.rotate()
    faults.set_clock(3600)
    news.wait_dated(1)
    assert broker.get(LISTS[0], if_modified_since=date).status == 200


# as gzip, a list is its file; unpacked, it is the list.
def test_gzip_is_the_file_and_the_file_is_the_list(start_ahead):
    news = start_ahead("--rotate-entries", "3000").set("news")
    news.post(3000)
    packed = news.wait_dated(1)
    assert packed.body == news.list_file(1).read_bytes()
    assert packed["Content-Encoding"] == "gzip"
    assert packed["Content-Type"] == "application/xml"
    assert gzip.decompress(packed.body) == news.get(news.list_path(1)).body


# The broker has the files of web/ in its program.
def test_a_file_of_the_program_is_the_file_of_the_checkout(broker):
    plain, packed = (broker.get(MODULE, accept_encoding=coding) for coding in (None, "gzip"))
    assert plain.body == (ROOT / "web/tidings.js").read_bytes()
    assert plain["Content-Type"] == "text/javascript; charset=utf-8"
    assert gzip.decompress(packed.body) == plain.body
    assert packed["Content-Encoding"] == "gzip"


# RFC 9110 section 12.5.3
def test_a_client_that_refuses_identity_gets_gzip_or_406(broker):
    only = broker.get(LISTS[0], accept_encoding="gzip, identity;q=0")
    assert (only.status, only["Content-Encoding"]) == (200, "gzip")
    none = broker.get(LATEST, accept_encoding="gzip, identity;q=0")
    assert (none.status, none["Content-Type"]) == (406, "application/problem+json")
    rather = broker.get(LISTS[0], accept_encoding="gzip;q=0.2, identity")
    assert (rather.status, rather["Content-Encoding"]) == (200, None)


# By raw bytes: a 304 ends with its headers, and the connection goes on.
def test_a_connection_goes_on_after_304(broker):
    with broker.connect() as c:
        for _ in range(3):
            c.ask(LISTS[0], if_none_match="*")
        for _ in range(3):
            answer = c.answer()
            assert (answer.status, answer["Content-Length"]) == (304, None)
            assert answer["ETag"]
        assert c.request(LATEST).status == 200


# The broker dates a built list by a second that is over: two lists of one second would
# share a date, and a condition on it would hold for either.
def test_a_built_list_has_no_date_until_its_second_is_over(start_ahead, faults):
    news = start_ahead("--resource-list-keep", "none").set("news")
    news.post(3)
    news.build("resourcelist")
    faults.set_clock(0)
    assert news.get("resourcelist.xml")["Last-Modified"] is None
    faults.set_clock(7200)
    answer = news.get("resourcelist.xml")
    modified, date = (
        email.utils.parsedate_to_datetime(answer[name])
        for name in ("Last-Modified", "Date")
    )
    assert modified <= date


# curl is a client that is not ours.
def test_curl_gets_a_document_once(start_ahead, run, tmp_path):
    broker = start_ahead("--rotate-entries", "1000")
    news = broker.set("news")
    news.post(1000)
    news.wait_dated(1)
    plain = broker.get(LISTS[0]).body
    copy, tag = tmp_path / "copy", tmp_path / "tag"

    def curl(*options):
        """The status, and the size of the body."""
        command = ("/usr/bin/curl", "-sS", "--noproxy", "*", "-o", copy)
        asks = ("-w", "%{http_code} %{size_download}", broker.url + LISTS[0])
        status, size = run(*command, *options, *asks).output().split()
        assert copy.read_bytes() == plain
        return int(status), int(size)

    tagged = ("--compressed", "--etag-save", tag, "--etag-compare", tag)
    status, size = curl(*tagged)
    assert status == 200
    assert size < len(plain) / 3
    assert curl(*tagged) == (304, 0)

    copy.unlink()
    dated = ("-R", "-z", copy)
    assert curl(*dated) == (200, len(plain))
    assert curl(*dated) == (304, 0)
