"""The documents of a broker: the rules for each; Change Lists, their index and their
archive agree; and a reader reaches every document from every place where it may
begin."""

import re

import pytest

from tidings_test.full import ALL, OPTIONS, fill
from tidings_test.messages import first_digest, next_digest
from tidings_test.sets import change
from tidings_test.waiting import wait_for

DESCRIPTION = "/.well-known/resourcesync"

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

# Documents of these capabilities list what their readers find elsewhere.
LISTS_OF_OTHERS = {
    "changelist",
    "change-notification",
    "resourcelist",
    "resourcedump-manifest",
    "changedump-manifest",
}


def get(broker, path):
    return broker.get(path).document()


def walk(broker, url):
    """Follow the links and the locs from `url` on; the answers by their paths. Every
    document is valid (R-028)."""
    found = {}
    paths = [broker.path_of(url)]
    for path in paths:
        found[path] = answer = broker.get(path)
        assert answer.status == 200, path
        if answer["Content-Type"] == "application/zip":
            continue
        assert answer["Content-Type"] == "application/xml"
        document = answer.document()
        document.check_valid()
        # Neither pages for people nor what is no document.
        urls = document.all(
            "/*/rs:ln[@rel!='describedby' and not(starts-with(@rel, 'urn:'))]/@href"
        )
        if document.is_index or document.capability not in LISTS_OF_OTHERS:
            urls += document.all("/*/s:*/s:loc/text()")
            urls += document.all("/*/s:*/rs:ln[@rel='contents']/@href")
        new = dict.fromkeys(broker.path_of(url) for url in urls)
        paths += [path for path in new if path not in paths]
    return found


# Every document


@pytest.fixture
def three_sets(faults, start_broker):
    """A broker of three sets: "alpha" has its first list, "beta" three closed lists
    and an open one, "gamma" a closed one and an empty open one."""
    broker = start_broker("--rotate-entries", 5, "--index-lists", 2, env=faults.env)
    alpha, beta, gamma = (broker.set(name) for name in ("alpha", "beta", "gamma"))
    alpha.post(3)
    beta.post(17)
    gamma.post(2)
    gamma.rotate()
    # The header of a closed list has a Last-Modified from the next second on.
    beta.wait_list_files(3)
    gamma.wait_list_files(1)
    faults.set_clock(5)
    return broker


# No document matches these.
FORBIDDEN = [
    # names of elements that are not the Sitemap's or ResourceSync's.
    "//*[not(self::s:* or self::rs:*)]",
    "//rs:*[not(self::rs:md or self::rs:ln)]",
    # our own facts are attributes with our prefix.
    "//rs:*/@*[namespace-uri() != '' and namespace-uri() != 'urn:tidings:1']",
    "/*/*[preceding-sibling::s:*][self::rs:*]",
    "/*/s:*/@*",
    "/*/s:*[count(rs:md) > 1]",
    "//rs:ln[not(@rel and @href)]",
    "//rs:ln[not(contains(@href, '://'))]",
    "//@at | //@completed",
    "//@path",  # in manifests only
]


# as far as
# one document shows them.
def check_document(document):
    assert document.bytes.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    assert b"<!DOCTYPE" not in document.bytes
    assert len(document.bytes) <= 52428800
    document.check_valid()
    assert document.count("/*/rs:md[@capability]") == 1
    assert document.count("/*/rs:md") == 1
    assert [xpath for xpath in FORBIDDEN if document.count(xpath)] == []
    assert document.count("/*/s:*") == document.count("/*/s:*/s:loc") <= 50000
    for time in document.all("//@from | //@until | //@datetime | //s:lastmod/text()"):
        assert TIME.fullmatch(time)
    changes = ("changelist", "change-notification", "framework-notification")
    if document.is_index or document.capability not in changes:
        assert document.count("//@change") == 0
    if document.until:
        assert document.from_ <= document.until


# GET and HEAD have the same headers, but for the Date and the request.
def check_headers(broker, path, answer):
    assert answer["Content-Type"] == "application/xml"
    assert int(answer["Content-Length"]) == len(answer.body)
    head = broker.head(path)
    assert (head.status, head.body) == (200, b"")
    assert head.steady()[:2] == answer.steady()[:2]


# up, and up again, is the Source Description.
def check_climbs(broker, found, path):
    for _ in range(2):
        if path != DESCRIPTION:
            (up,) = found[path].document().all("/*/rs:ln[@rel='up']/@href")
            path = broker.path_of(up)
    assert path == DESCRIPTION


# the parts of an index are lists of the same capability.
def check_parts(broker, answer):
    index = answer.document()
    if index.is_index:
        parts = [get(broker, broker.path_of(loc)) for loc in index.locs()]
        assert parts and not any(part.is_index for part in parts)
        assert {part.capability for part in parts} == {index.capability}


REACHED = {
    "alpha": ["changelist.xml", "changes/latest.xml"],
    "beta": [
        "changelist.xml",
        "changelist-archive.xml",
        "changelist-archive/000000000001-000000000002.xml",
        "changelist-archive/000000000003-000000000004.xml",
        "changes/latest.xml",
        *(f"changes/{number:012}.xml" for number in (1, 2, 3, 4)),
    ],
    "gamma": [
        "changelist.xml",
        "changelist-archive.xml",
        "changes/latest.xml",
        *(f"changes/{number:012}.xml" for number in (1, 2)),
    ],
}
OF_EACH_SET = ["capabilitylist.xml", "notifications", "framework-notifications"]


# everything is found from the top, is as it must be, and leads back.
def test_every_document_is_reached_is_right_and_leads_back(three_sets):
    found = walk(three_sets, three_sets.url + DESCRIPTION)
    for path, answer in found.items():
        check_document(answer.document())
        check_headers(three_sets, path, answer)
        check_climbs(three_sets, found, path)
        check_parts(three_sets, answer)
    assert any(answer.document().is_index for answer in found.values())
    assert found["/sets/beta/changes/000000000001.xml"]["Last-Modified"]
    wanted = [
        f"/sets/{name}/{path}"
        for name, paths in REACHED.items()
        for path in OF_EACH_SET + paths
    ]
    assert sorted(found) == sorted([DESCRIPTION, *wanted])


#
def test_the_source_description_names_every_set_once(three_sets):
    description = get(three_sets, DESCRIPTION)
    assert not description.is_index and description.capability == "description"
    assert description.count("//s:lastmod") == 0
    assert sorted((one.loc, one.capability) for one in description.entries) == [
        (f"{three_sets.url}/sets/{name}/capabilitylist.xml", "capabilitylist")
        for name in ("alpha", "beta", "gamma")
    ]
    for url in description.locs():
        list_ = get(three_sets, three_sets.path_of(url))
        assert not list_.is_index and list_.capability == "capabilitylist"


#
def test_a_new_set_is_in_the_source_description_at_once(three_sets):
    for i in range(20):
        new = three_sets.set(f"new-{i}")
        loc = f"{new.url}/capabilitylist.xml"
        assert loc not in get(three_sets, DESCRIPTION).locs()
        new.post()
        locs = get(three_sets, DESCRIPTION).locs()
        assert (locs.count(loc), len(locs)) == (1, 4 + i)


# the existing documents, and
# only those.
@pytest.mark.parametrize("name, n", [("alpha", 3), ("beta", 4), ("gamma", 4)])
def test_a_capability_list_names_what_there_is(three_sets, name, n):
    list_ = get(three_sets, f"/sets/{name}/capabilitylist.xml")
    assert not list_.is_index and list_.capability == "capabilitylist"
    assert list_.links["up"].href == three_sets.url + DESCRIPTION
    assert list_.count("//s:lastmod") == 0
    assert len({entry.capability for entry in list_.entries}) == n
    assert len(list_.entries) == n
    for entry in list_.entries:
        target = get(three_sets, three_sets.path_of(entry.loc))
        assert target.capability == entry.capability


# the fixed address is the list while there is one, the index from the
# first rotation on.
def test_the_fixed_address_is_a_list_first_and_then_an_index(news):
    news.post(3)
    list_ = news.changelist()
    assert list_.bytes == news.changelist(1).bytes
    assert news.get("changelist-archive.xml").status == 404
    assert not list_.is_index and len(list_.entries) == 3
    assert not list_.until

    news.rotate()
    index = news.changelist()
    assert index.is_index and len(index.entries) == 2
    archive = news.get("changelist-archive.xml").document()
    assert not archive.is_index and len(archive.entries) == 1


# R-029, I-07: an open list without entries is a list.
def test_an_empty_open_list_is_served(news):
    news.post(2)
    news.rotate()
    list_ = news.changelist(2)
    check_document(list_)
    assert not list_.is_index and list_.entries == []
    assert list_.from_ and not list_.until
    assert news.get(news.list_path(3)).status == 404
    assert news.get("changes/2.xml").status == 404


# Change Lists, their index and their archive


@pytest.fixture
def lists(news):
    """Five lists of the set, the first four closed; list i has i posts."""
    for i in range(1, 6):
        for k in range(i):
            news.post(1 + k)
        if i < 5:
            news.rotate()
    lists = [news.changelist(i) for i in range(1, 6)]
    for one in lists:
        one.check_valid()
    return lists


def check_link(document, rel, news, path):
    assert document.text(f"/*/rs:ln[@rel='{rel}']/@href") == f"{news.url}/{path}"


# a list's statements about itself.
def test_a_list_says_what_it_is(news, lists):
    for i, one in enumerate(lists, 1):
        assert not one.is_index and one.capability == "changelist"
        assert one.from_
        assert bool(one.until) == (i < 5)
        check_link(one, "up", news, "capabilitylist.xml")
        check_link(one, "index", news, "changelist.xml")
        assert len(one.entries) == i * (i + 1) / 2
        assert all(entry.change and entry.datetime for entry in one.entries)


# I-01: in the order of time, each within the list.
def test_entries_are_in_order_and_within_the_interval_of_their_list(lists):
    for one in lists:
        times = [one.from_, *(entry.datetime for entry in one.entries)]
        assert all(a < b for a, b in zip(times, times[1:]))
        assert not one.until or times[-1] <= one.until
    assert [entry.seq for one in lists for entry in one.entries] == list(range(1, 36))


# no gap, no overlap, and a link from each to the next.
def test_lists_follow_one_another(news, lists):
    for i, (one, behind) in enumerate(zip(lists, lists[1:]), 1):
        assert behind.from_ == one.until
        assert (behind.epoch, behind.after) == (one.epoch, one.last)
        check_link(one, "next", news, news.list_path(i + 1))
        check_link(behind, "prev", news, news.list_path(i))
        assert behind.links["prev"].digest == one.digest
    assert "prev" not in lists[0].links
    assert "next" not in lists[-1].links


# History proves itself.
def test_digests_follow_from_the_bytes(lists):
    digest = first_digest(lists[0].epoch)
    for one in lists:
        for entry in one.entries:
            digest = next_digest(digest, entry.line)
        assert one.digest == f"sha-256:{digest.hex()}"


#
def test_the_index_says_of_its_lists_what_they_say(news, lists):
    index = news.changelist()
    index.check_valid()
    assert index.is_index and index.capability == "changelist"
    assert (index.from_, index.until) == (lists[0].from_, "")  # I-12
    check_link(index, "up", news, "capabilitylist.xml")
    check_link(index, "archives", news, "changelist-archive.xml")
    assert index.count("//s:lastmod") == 0
    assert [(entry.loc, entry.from_, entry.until) for entry in index.entries] == [
        (f"{news.url}/{news.list_path(i)}", one.from_, one.until)
        for i, one in enumerate(lists, 1)
    ]
    assert [bool(entry.until) for entry in index.entries] == [True] * 4 + [False]


#
def test_the_archive_has_the_closed_lists_in_order(news, lists):
    archive = news.get("changelist-archive.xml").document()
    archive.check_valid()
    assert not archive.is_index and archive.capability == "changelist-archive"
    check_link(archive, "up", news, "capabilitylist.xml")
    entries = archive.entries
    assert [(one.loc, one.from_, one.until, one.digest) for one in entries] == [
        (f"{news.url}/{news.list_path(i)}", one.from_, one.until, one.digest)
        for i, one in enumerate(lists[:-1], 1)
    ]
    for before, one in zip(entries, entries[1:]):
        assert one.from_ == before.until


# Sets with all that a set can have


@pytest.fixture
def full(start_broker):
    broker = start_broker(*OPTIONS)
    fill(broker)
    return broker


def path_of_file(broker, file):
    """The path at which that file of the archive is served."""
    path = f"/{file.relative_to(broker.data)}".removesuffix(".gz")
    # A list in one part is at its generation's address.
    if "dump/" in path:
        path = path.replace("/000000000001.xml", ".xml")
    return path.replace("/000000000000.xml", ".xml")


def check_all_found(broker, found):
    files = [file for file in broker.data.glob("sets/**/*") if file.is_file()]
    for file in files:
        is_of_tree = "/tile/" in str(file) or file.name == "checkpoint"
        if "/content" not in str(file) and ".db" not in file.name and not is_of_tree:
            assert path_of_file(broker, file) in found
    assert len(files) > 50
    for name in ("alpha", "beta"):
        assert {f"/sets/{name}/{one}.xml" for one in ALL} <= found.keys()


#
def test_everything_is_found_from_every_entry(full):
    robots = full.get("/robots.txt").text
    page = full.get("/").text
    # A reader who got a package by chance learns whose it is.
    package = full.get("/sets/beta/resourcedump/000000000001/000000000001.zip")
    assert package.status == 200
    starts = [
        full.url + DESCRIPTION,
        re.search(r"Sitemap: (\S+)", robots)[1],
        re.search(r'<link rel="resourcesync" href="([^"]+)"', page)[1],
        re.search(r'<([^>]+)>; rel="resourcesync"', package["Link"])[1],
    ]
    for start in starts:
        check_all_found(full, walk(full, start))
