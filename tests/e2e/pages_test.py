"""Documents for people: a browser gets pages, linked to each other, that say what the
documents say; everyone else gets what they always got."""

import urllib.parse

import pytest
from lxml import html

from tidings_test import full
from tidings_test.broker import Broker
from tidings_test.console import LOOKS, Console
from tidings_test.http import JSON, PAGE_VARY, PERSON, XML, check_refused
from tidings_test.sets import change

HTML = "text/html; charset=utf-8"
FIREFOX = PERSON
CHROMIUM = {
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,"
    "image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    "sec_fetch_dest": "document",
    "sec_fetch_mode": "navigate",
}

# Who gets what programs get.
PROGRAMS = (None, "*/*", "text/html;q=0, */*", "text/*", "image/png, */*;q=0.5")

NUMBER = "000000000001"
SET = "/sets/alpha"

# One document of each kind, and with a page of its own what a set has beside these.
DOCUMENTS = [
    "/.well-known/resourcesync",
    *(f"{SET}/{one}.xml" for one in full.ALL),
    *(f"{SET}/changes/{one}.xml" for one in (NUMBER, "latest")),
    f"{SET}/changelist-archive/{NUMBER}-000000000002.xml",
    f"{SET}/resourcelist/{NUMBER}.xml",
    f"{SET}/resourcelist/{NUMBER}/{NUMBER}.xml",
    f"{SET}/resourcelist-archive/{NUMBER}-000000000002.xml",
    *(f"{SET}/{dump}/{NUMBER}.xml" for dump in ("resourcedump", "changedump")),
    f"{SET}/resourcedump/{NUMBER}/{NUMBER}-manifest.xml",
    f"{SET}/changedump/{NUMBER}/{NUMBER}-manifest.xml",
]
FACTS = ["/sets", SET, f"{SET}/changes", f"{SET}/changes?after=3&change=updated"]


@pytest.fixture(scope="module")
def broker(module_path):
    """A broker that has every kind of document."""
    broker = Broker(module_path, full.OPTIONS)
    full.fill(broker)
    yield broker
    broker.end()


def read_page(answer):
    """The page of an answer, which runs and loads nothing but our style sheet."""
    assert answer["Content-Type"] == HTML
    assert answer["Content-Security-Policy"].startswith(
        "default-src 'none'; style-src 'self';"
    )
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert "Accept" in answer["Vary"]
    page = html.document_fromstring(answer.body)
    assert page.xpath("/html/@lang") == ["en"]
    assert page.xpath("string(/html/head/title)")
    assert page.xpath("count(//h1)") == 1
    assert page.xpath("//script | //img | //style | //iframe | //form") == []
    assert page.xpath("//@*[starts-with(name(), 'on') or name() = 'style']") == []
    assert page.xpath("//th[not(@scope)]") == []
    for href in page.xpath("//@href"):
        assert urllib.parse.urlsplit(href).scheme in ("", "http", "https")
    return page


# Forms


# RFC 9110 section 12: each form has an ETag of its own, and HEAD, conditions and ranges
# hold for it. Without a browser's Accept nothing is different.
@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_has_two_forms(broker, path):
    document, page = broker.get(path), broker.get(path, **CHROMIUM)
    assert document.status == page.status == 200
    assert document["Content-Type"] == XML
    read_page(page)
    assert document["ETag"] != page["ETag"]
    assert document["Content-Security-Policy"] is None
    assert document["Vary"].startswith(PAGE_VARY)
    for accept in (*PROGRAMS, XML, f"{XML}, text/html"):
        assert broker.get(path, accept=accept).body == document.body
    raw = broker.get(f"{path}?raw", **CHROMIUM)
    assert (raw["Content-Type"], raw.body) == (XML, document.body)
    for fields, own, other in (
        ({}, document, page),
        (CHROMIUM, page, document),
        (FIREFOX, page, document),
    ):
        head = broker.head(path, **fields)
        assert head.steady()[:2] == own.steady()[:2]
        same = broker.get(path, **fields, if_none_match=own["ETag"])
        assert (same.status, same.body, same["Vary"]) == (304, b"", own["Vary"])
        same = broker.get(path, **fields, if_none_match=other["ETag"])
        assert (same.status, same.body) == (200, own.body)
        part = broker.get(path, **fields, range="bytes=5-19")
        assert (part.status, part.body) == (206, own.body[5:20])
        whole = broker.get(
            path, **fields, range="bytes=5-19", if_range=other["ETag"]
        )
        assert (whole.status, whole.body) == (200, own.body)


@pytest.mark.parametrize("path", FACTS)
def test_facts_have_two_forms(broker, path):
    facts, page = broker.get(path), broker.get(path, **CHROMIUM)
    assert (facts.status, facts["Content-Type"]) == (200, JSON)
    assert (facts["Vary"], page["Vary"]) == (PAGE_VARY, PAGE_VARY)
    assert facts["Cache-Control"] == page["Cache-Control"] == "no-cache"
    read_page(page)
    for accept in (*PROGRAMS[:3], JSON, f"{JSON}, text/html"):
        assert broker.get(path, accept=accept).body == facts.body
    raw = broker.get(f"{path}{'&' if '?' in path else '?'}raw", **CHROMIUM)
    assert raw["Content-Type"] in (JSON, XML)
    head = broker.head(path, **CHROMIUM)
    assert head.steady()[:2] == page.steady()[:2]


# What a document says, its page says.
def test_a_page_shows_the_entries(broker):
    path = f"{SET}/changes/{NUMBER}.xml"
    document = broker.get(path).document()
    page = read_page(broker.get(path, **CHROMIUM))
    rows = page.xpath("//tbody/tr")
    assert len(rows) == len(document.entries) == full.RESOURCES
    for row, entry in zip(rows, document.entries):
        cells = row.xpath("td")
        assert [cell.text_content().strip() for cell in cells[:2]] == [
            str(entry.seq),
            entry.change,
        ]
        assert cells[2].xpath("a/@href") == [entry.loc]
        assert cells[3].xpath("time/@datetime") == [entry.datetime]
        assert "text/plain" in cells[2].text_content()
    assert page.xpath("string(//h1)") == "Change List 1 of alpha"
    facts = dict(zip(page.xpath("//dt/text()"), page.xpath("//dd")))
    assert facts["From"].xpath("time/@datetime") == [document.from_]


def test_the_page_of_a_set_shows_its_links(broker):
    facts = broker.get(SET).json()
    page = read_page(broker.get(SET, **CHROMIUM))
    text = page.text_content()
    assert facts["position"] in text and facts["digest"] in text
    shown = page.xpath("//main//a/@href")
    for link in facts["links"]:
        rel = link["rel"]
        is_channel = rel == "hub" or rel.endswith((":stream", ":streams", ":events", ":reconcile"))
        assert (link["href"] in shown) == (not is_channel), link
        assert link["href"] in text


# The way of somebody who can only click


def crawl(broker, path="/"):
    """Click every link of every page of the broker, but those to its documentation
    (e2e/manual); the answers by their addresses."""
    found = {}
    paths = [path]
    for path in paths:
        found[path] = answer = broker.get(path, **CHROMIUM)
        assert answer.status == 200, path
        if answer["Content-Type"] != HTML:
            continue
        page = html.document_fromstring(answer.body)
        for href in page.xpath("//a/@href | //link/@href"):
            url = urllib.parse.urljoin(broker.url + path, href)
            if url.startswith(broker.url + "/") and "/doc/" not in url:
                paths.append(broker.path_of(url))
        paths[:] = dict.fromkeys(paths)
    return found


def test_every_link_of_every_page_leads_on(broker):
    found = crawl(broker)
    assert {*DOCUMENTS, *FACTS[:2]} <= found.keys()
    assert {path.replace("alpha", "beta") for path in DOCUMENTS} <= found.keys()
    for path in DOCUMENTS:
        document = broker.get(path)
        assert found[f"{path}?raw"].body == document.body
        # Whatever the document links to is a click away from its page.
        page = read_page(found[path])
        for url in document.document().all("/*/rs:ln[@rel!='self']/@href"):
            if not url.endswith(("/stream", "/reconcile")):
                assert url in page.xpath("//a/@href"), path
    packages = [path for path in found if path.endswith(".zip")]
    assert packages
    assert any("/changes?after=" in path for path in found)


# A long list


def locs_of(page):
    return page.xpath("//td[@class='m']/a/@href")


# A thousand entries a page; an address that will have other entries leads to pages that
# stay.
def test_a_long_list_has_several_pages(start_broker):
    broker = start_broker()
    news = broker.set()
    news.post(2500)
    at, seen = f"{news.path}/changes/latest.xml", []
    first = at
    while at:
        page = read_page(broker.get(at, **CHROMIUM))
        seen.append(locs_of(page))
        links = page.xpath("/html/head/link[@rel='next']/@href")
        assert links == page.xpath("//a[@rel='next']/@href")
        at = links and broker.path_of(urllib.parse.urljoin(broker.url + at, links[0]))
        assert not at or at.startswith(f"{news.path}/changes/{NUMBER}.xml?page=")
    assert [len(one) for one in seen] == [1000, 1000, 500]
    assert sum(seen, []) == [f"http://example.com/r/{i + 1}" for i in range(2500)]
    for number, status in ((3, 200), (4, 404), (0, 400), ("x", 400), (99999, 404)):
        answer = broker.get(f"{first}?page={number}", **CHROMIUM)
        assert answer.status == status
        read_page(answer)
    assert broker.get(f"{first}?page=0").document().entries[-1].seq == 2500


# Hostile texts

SCRIPT = "<script>alert(1)</script>"
EVIL = "\"'><img src=x onerror=alert(1)>&<!--"


def test_pages_run_nothing_that_a_source_says(start_broker):
    broker = start_broker()
    news = broker.set()
    settings = {"title": SCRIPT + EVIL, "description": "https://example.com/?a=\"'&b"}
    assert broker.request("PUT", news.path, settings).status == 201
    link = {"rel": "http://e/?<b>", "href": "javascript:alert(1)", "type": "text/x"}
    answer = news.send(
        [
            change("javascript:alert(1)//%3Cscript%3E"),
            change(
                "http://example.com/?a=%22%3E&b=1&c='onclick='",
                tags=[SCRIPT.replace(" ", ""), "a\"'b"],
                links=[link, {"rel": "alternate", "href": "data:text/html,x"}],
                attributes=[
                    {"ns": "urn:e:'&", "name": "onload", "value": SCRIPT + EVIL}
                ],
            ),
            change("data:text/html,%3Cscript%3E", lastmod="2026-04-01"),
            change(
                "http://example.com/words",
                title=f'https://example.com/"onclick="{EVIL}',
                summary=SCRIPT + EVIL,
                data={EVIL: [SCRIPT]},
            ),
        ]
    )
    assert answer.status == 200, answer
    news.build("resourcelist")
    texts = []
    for path, answer in crawl(broker).items():
        if answer["Content-Type"] == HTML and path != "/":
            page = read_page(answer)
            texts.append(page.text_content())
            assert page.xpath("//*[@onclick or @onerror or @onload or @src]") == []
    assert sum(SCRIPT + EVIL in text for text in texts) >= 4  # sets, set, two lists
    assert any("javascript:alert(1)//" in text for text in texts)


def test_a_page_of_giants_is_bounded(start_broker):
    news = start_broker().set()
    news.post(20, size=200_000)
    answer = news.get("changes/latest.xml", **CHROMIUM)
    assert answer.status == 200
    assert len(read_page(answer).xpath("//tbody/tr")) == 20
    assert len(answer.body) < 20 * 20_000


# Problems


@pytest.mark.parametrize(
    ("method", "path", "status", "part"),
    [
        ("GET", "/<script>alert(1)</script>", 400, "target"),
        ("GET", "/nothing%3Cscript%3E'\"", 400, "target"),
        ("GET", "/nothing/at/all/'%3Cb%3E", 404, "/nothing/at/all/'%3Cb%3E"),
        ("GET", "/sets/none", 404, 'there is no set "none"'),
        ("GET", "/sets/none/changelist.xml", 404, 'there is no set "none"'),
        ("GET", f"{SET}/changes/000000000099.xml", 404, "no such Change List"),
        ("GET", f"{SET}/changes?after=nonsense", 400, "nonsense"),
        ("GET", f"{SET}/changes?after=0000000000000000-1", 410, "epoch"),
        ("GET", "/sets?after=%3Cscript%3E", 400, "after"),
        ("POST", "/sets", 405, "GET"),
        ("PUT", "/sets/NONE", 404, "NONE"),
    ],
)
def test_a_problem_has_two_forms(broker, method, path, status, part):
    problem = broker.request(method, path)
    page = broker.request(method, path, **FIREFOX)
    check_refused(problem, status)
    assert page.status == status
    if part == "target":  # of a head that is refused, nothing else is read
        assert page.steady() == problem.steady()
        return
    for accept in (*PROGRAMS[:3], f"{XML}, {JSON}"):
        same = broker.request(method, path, accept=accept)
        assert same.steady() == problem.steady()
    assert page["Cache-Control"] == problem["Cache-Control"] == "no-store"
    parsed = read_page(page)
    assert parsed.xpath("string(//h1)").startswith(f"{status} ")
    assert problem.json()["detail"] in parsed.text_content()
    assert part in parsed.text_content()
    style = urllib.parse.urljoin(broker.url + path, *parsed.xpath("//link/@href"))
    assert style == f"{broker.url}/tidings.css"


def test_the_hub_still_answers_in_a_line(broker):
    answer = broker.request("POST", "/hub", "x", **FIREFOX)
    assert answer["Content-Type"] == "text/plain; charset=utf-8"


# A path cannot make a page of any size.
def test_a_deep_path_makes_a_small_page(broker):
    answer = broker.get("/" + "a/" * 4000, **FIREFOX)
    assert answer.status == 404
    read_page(answer)
    assert len(answer.body) < 4000


# In a browser


BACKS = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}


# A phone and a large window, in light and in dark. Pictures are kept.
@pytest.mark.parametrize("look", LOOKS, ids="{0.width}-{0.scheme}".format)
def test_people_can_read_pages(broker, browser, look):
    window = Console(browser, broker, look)
    for path in (*DOCUMENTS, *FACTS, "/sets/none"):
        window.open(path)
        window.check_width()
        window.check_axe()
        name = path.split("?")[0].strip("/").replace("/", "-").removesuffix(".xml")
        window.shoot(f"page-{name}")
        back = "getComputedStyle(document.body).backgroundColor"
        window.expect(back, BACKS[look.scheme])  # the style sheet was found
    window.close()


# Private sets. (private_test.py compares every page that others get, too.)
def test_a_page_of_a_private_set_is_private(start_broker):
    broker = start_broker()
    root = broker.holder(broker.add_token("root", admin=True))
    news = broker.set("news")
    assert root.request("PUT", news.path, {"private": True}).status == 201
    token = broker.add_token("reader", subscribe=["news"], publish=["news"])
    reader = broker.holder(token)
    other = broker.holder(broker.add_token("other", subscribe=["other"]))
    posted = reader.request("POST", news.changes, [change("http://example.com/")])
    assert posted.status == 200
    for path in ("", "/changes", "/capabilitylist.xml", f"/changes/{NUMBER}.xml"):
        document = reader.get(news.path + path)
        page = reader.get(news.path + path, **FIREFOX)
        read_page(page)
        assert page["Cache-Control"] == document["Cache-Control"]
        assert page["Cache-Control"].startswith("private, ")
        hidden = other.get(news.path + path, **FIREFOX)
        assert hidden.status == 404
        links = read_page(hidden).xpath("//a/@href")
        assert not any("news" in link for link in links)
