"""From wherever somebody begins, they find all of it: the landing page, robots.txt, the
well-known address, Link headers (R-040, R-041, R-042, R-043, R-044, R-045, R-046,
R-047, R-048, R-049, R-060, R-061, R-062, R-063, R-064, R-065, R-066, R-067, R-068,
R-069, R-070, R-071, R-260, R-261, R-262, R-263, R-264, R-265, R-346, R-347, R-353)."""

import re

import pytest
from lxml import html

from tidings_test.changelists import ChangeLists

DESCRIPTION = "/.well-known/resourcesync"
HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"

pytestmark = pytest.mark.broker("--rotate-entries", "10")


@pytest.fixture
def news(news):
    """A set of two closed lists and an open one."""
    news.post(25)
    return news


@pytest.fixture
def other(broker):
    other = broker.set()
    other.post(3)
    return other


def get(broker, url):
    """The document of that URL (R-264), or of that path, checked to be valid."""
    path = url if url.startswith("/") else broker.path_of(url)
    document = broker.get(path).document()
    document.check_valid()
    return document


def check_description(document):
    assert not document.is_index and document.capability == "description"


# each list that the Capability List at `url` names exists,
# has the stated properties, and leads up.
def check_capabilities(broker, url):
    document = get(broker, url)
    assert not document.is_index and document.capability == "capabilitylist"
    check_description(get(broker, document.links["up"].href))
    assert len(document.entries) in (3, 4)  # with the topics of its channels
    for entry in document.entries:
        assert get(broker, entry.loc).capability == entry.capability


def check_all_capabilities(broker, urls, n):
    assert len(urls) == n
    for url in urls:
        check_capabilities(broker, url)


# a page for people names the Capability List of each set, in its head
# for programs; and says how to subscribe.
def test_the_landing_page_leads_to_every_set(broker, news, other):
    answer = broker.get("/")
    assert (answer.status, answer["Content-Type"]) == (200, HTML)
    assert "/sets/NAME/notifications \\\n" in answer.text
    page = html.document_fromstring(answer.text)
    # Its scripts are files of the broker: e2e/console.
    assert [one.attrib for one in page.xpath("//script")] == [
        {"type": "module", "src": "console.js"}
    ]
    links = page.xpath("/html/head/link[@rel='resourcesync']/@href")
    check_all_capabilities(broker, links, 2)


# A title is text, even if it looks like markup.
def test_the_landing_page_shows_titles_as_text(broker, news, other):
    assert other.put(title="<script>A & B</script>").status == 200
    page = broker.get("/").text
    assert "&lt;script&gt;A &amp; B&lt;/script&gt;<br>" in page
    assert page.count("<script") == 1


# every document, by GET or HEAD, names the Capability List that covers it.
def test_every_document_names_the_capability_list_that_covers_it(broker, news, other):
    paths = ["capabilitylist.xml", "changelist.xml", "changelist-archive.xml"]
    paths += ["changes/latest.xml", news.list_path(1)]
    for path in paths:
        url = f"{news.url}/capabilitylist.xml"
        for ask in (broker.head, broker.get):
            answer = ask(f"{news.path}/{path}")
            assert answer.status == 200
            assert answer["Link"] == f'<{url}>; rel="resourcesync"'
        check_capabilities(broker, url)
    link = broker.get("/")["Link"]
    urls = re.findall(r'<([^>]+)>; rel="resourcesync"', link)
    assert link.count("<") == len(urls)
    check_all_capabilities(broker, urls, 2)


# Resource Lists, and nothing else; they lead to everything else.
def test_robots_txt_names_resource_lists(broker, news, other):
    assert "Sitemap" not in broker.get("/robots.txt").text
    news.build("resourcelist")
    answer = broker.get("/robots.txt")
    assert (answer.status, answer["Content-Type"]) == (200, TEXT)
    list_url = f"{news.url}/resourcelist.xml"
    assert answer.text == f"User-agent: *\nDisallow:\nSitemap: {list_url}\n"
    resource_list = get(broker, list_url)
    assert resource_list.capability == "resourcelist"
    assert resource_list.links["up"].href == f"{news.url}/capabilitylist.xml"


# a set is described by its own page, or where its settings say.
def test_every_set_names_its_description(broker, news, other):
    own = "http://example.com/about?a&b"
    assert other.put(description=own).status == 200
    check_described(broker, news, news.url)
    check_described(broker, other, own)
    answer = broker.get(broker.path_of(news.url))
    assert (answer.status, answer.json()["name"]) == (200, news.name)
    assert other.put().status == 200
    check_described(broker, other, other.url)


def check_described(broker, of_set, url):
    capabilities = get(broker, f"{of_set.path}/capabilitylist.xml")
    assert capabilities.links["describedby"].href == url
    loc = f"{of_set.url}/capabilitylist.xml"
    xpath = f"/*/s:url[s:loc='{loc}']/rs:ln[@rel='describedby']/@href"
    assert get(broker, DESCRIPTION).all(xpath) == [url]
    page = html.document_fromstring(broker.get("/").text)
    assert url in page.xpath("//a/@href")


# the Source says what it is, and where
# people read of it.
def test_the_source_description_leads_to_every_set_and_to_people(broker, news, other):
    description = get(broker, DESCRIPTION)
    check_description(description)
    assert description.count("//s:lastmod") == 0
    check_all_capabilities(broker, description.locs(), 2)
    page = broker.get(broker.path_of(description.links["describedby"].href))
    assert (page.status, page["Content-Type"]) == (200, HTML)


def check_parts(broker, n):
    """Each of the `n` sets of the source is found in one part of its description; the
    set leads back to that part, and the part to the index."""
    index = get(broker, DESCRIPTION)
    assert index.is_index and index.capability == "description"
    found = []
    for part_url in index.locs():
        part = get(broker, part_url)
        check_description(part)
        assert broker.path_of(part.links["index"].href) == DESCRIPTION
        assert len(part.entries) in (1, 2)
        for url in part.locs():
            assert get(broker, url).links["up"].href == part_url
        found += part.locs()
    assert len(set(found)) == n
    check_all_capabilities(broker, found, n)


# where one document is not enough for all sets.
def test_more_sets_than_a_description_has_room_for_are_found_by_its_index(start_broker):
    broker = start_broker("--description-sets", 2)
    for n, name in enumerate("abcde", 1):
        broker.set(name).post(3)
        if n > 2:
            check_parts(broker, n)
    assert broker.delete("/sets/b").status == 204
    check_parts(broker, 4)
    broker.set("b").post(3)
    check_parts(broker, 5)
    broker.kill()
    broker.restart()
    check_parts(broker, 5)

    # robots.txt names no Source Description.
    robots = broker.get("/robots.txt")
    assert robots.status == 200 and "Sitemap" not in robots.text
    page = broker.get("/sets/e")
    assert page.status == 200 and "/descriptions/" in page.text
    for name in "abc":
        assert broker.delete(f"/sets/{name}").status == 204
    description = get(broker, DESCRIPTION)
    assert not description.is_index and len(description.entries) == 2


# push and pull are found together, by relations that are URIs of
# ours.
def test_the_capability_list_names_every_channel(broker, news):
    document = get(broker, f"{news.path}/capabilitylist.xml")
    (memory,) = document.all("/*/rs:ln[@rel='urn:tidings:1:memory']")
    answer = news.get_url(memory.get("href"))
    assert (answer.status, answer["Content-Type"]) == (200, memory.get("type"))
    assert answer.json()["last"] == 25
    # It is there.
    stream = document.links["urn:tidings:1:stream"]
    assert news.get_url(stream.href).status != 404
    others = [rel for rel in document.links if not rel.startswith("urn:tidings:1:")]
    assert set(others) <= {"up", "describedby"}


# the lists can be walked both ways, from any of them, to the same sequence, and
# `last` is the newest wherever it stands.
def test_lists_are_walkable_both_ways(broker, news):
    starts = ["changelist.xml", "changelist-archive.xml"]
    starts += [news.list_path(number) for number in (1, 2, 3)]
    for start in starts:
        links = get(broker, f"{news.path}/{start}").links
        url = links["last"].href
        seqs = []
        while url:  # backward
            one = get(broker, url)
            assert not one.is_index
            seqs += [entry.seq for entry in reversed(one.entries)]
            url = one.links["prev"].href if "prev" in one.links else None
        assert seqs == list(range(25, 0, -1))
    news.changelists().read()  # forward, and the archive with it


# it is the open list, with the open list's bytes, and moves on.
def test_the_latest_list_is_the_open_one(news):
    for number in (3, 4, 5):
        latest = news.get("changes/latest.xml")
        assert latest.document().bytes == news.changelist(number).bytes
        assert latest["Cache-Control"] == "no-cache"
        news.post()
        news.rotate()


# past the limit the archive has parts under an
# index; every closed list is in one of them at every moment.
def test_a_long_archive_has_parts_and_every_list_is_in_one(start_broker):
    broker = start_broker("--rotate-entries", 2, "--index-lists", 3)
    long = broker.set()
    lists = long.changelists()
    for i in range(1, 13):
        long.post(2)
        archive = get(broker, f"{long.path}/changelist-archive.xml")
        assert archive.is_index == (i > 3)
        if archive.is_index:
            assert len(archive.entries) == (i + 2) // 3
        lists.read()  # through the parts: no hole, none twice
        assert len(lists) == i + 1
    broker.kill()
    broker.restart()
    lists.read()


OLD = "http://old.example:81"
NEW = "http://new.example:82"


# all new documents use one public URL; a broker with another one than last time
# logs that once.
def test_a_new_public_url_is_logged_once(start_broker):
    options = ("--rotate-entries", 5, "--insecure-open", "--public-url", OLD)
    broker = start_broker(*options)
    moved = broker.set()
    moved.post(12)
    broker.options[broker.options.index(OLD)] = NEW
    processes = [broker.process]
    for _ in range(3):
        broker.stop()
        broker.restart()
        processes.append(broker.process)

    # Index and archive name the closed lists by their present URLs; the lists
    # themselves stay unchanged.
    archive = moved.get("changelist-archive.xml").document()
    archive.check_valid()
    assert sum(loc.startswith(f"{NEW}/") for loc in archive.locs()) == 2
    closed = moved.changelist(1)
    closed.check_valid()
    links = closed.all("/*/rs:ln/@href")
    assert links and all(link.startswith(f"{OLD}/") for link in links)
    ChangeLists(moved, [OLD, NEW]).read()

    broker.stop()
    logs = [process.errors() for process in processes]
    assert [log.count(f"{OLD} and is {NEW}") for log in logs] == [0, 1, 0, 0]


# The page stays small.
def test_a_page_of_many_sets_is_bounded(start_broker):
    broker = start_broker()
    for i in range(120):
        broker.set(f"set-{i:03}").post()
    page = broker.get("/")
    assert page.status == 200
    assert "And 20 more." in page.text and "set-100" not in page.text
    assert page["Link"]
