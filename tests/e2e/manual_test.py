"""The documentation that a broker serves at /doc/, and the same as a folder of files: all
pages of doc/ in HTML, which lead to each other, with a search that needs no server."""

import gzip
import re
import urllib.parse

import pytest
from lxml import html

from tidings_test.broker import BIN, ROOT
from tidings_test.console import LOOKS, Console

SITE = BIN.parent / "site"
PAGES = sorted(path.name for path in SITE.glob("*.html"))
BACKS = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}


def read(name):
    return html.document_fromstring((SITE / name).read_text())


def test_the_broker_serves_every_file(broker):
    assert len(PAGES) > 40
    for path in SITE.iterdir():
        answer = broker.get(f"/doc/{path.name}")
        expected = path.read_bytes()
        if path.name == "llms.txt":
            expected = expected.replace(b"](", b"](doc/")
        assert (answer.status, answer.body) == (200, expected), path
        packed = broker.get(f"/doc/{path.name}", accept_encoding="gzip")
        assert packed["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.body) == expected
        assert packed["ETag"] != answer["ETag"]
        same = broker.get(f"/doc/{path.name}", if_none_match=answer["ETag"])
        assert (same.status, same.body) == (304, b"")
    assert broker.get("/doc/").body == (SITE / "index.html").read_bytes()
    assert broker.get("/doc")["Location"] == f"{broker.url}/doc/"
    for path in ("/doc/none.html", "/doc/..", "/doc/Hub.html", "/doc/a/b"):
        assert broker.get(path).status == 404
    page = broker.get("/doc/hub.html")
    assert page["Content-Type"] == "text/html; charset=utf-8"
    assert page["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")


# Each page of doc/ is one of the site, and each is in the list of all.
def test_every_page_is_there_and_listed():
    sources = [ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md")]
    sources += (ROOT / "doc").glob("*.md")
    assert len(PAGES) == len(sources)
    assert "index.html" in PAGES
    for name in PAGES:
        page = read(name)
        listed = page.xpath("//nav[@aria-label='Pages']//a/@href")
        assert sorted(listed) == [other for other in PAGES if other != "index.html"]
        here = page.xpath("//nav[@aria-label='Pages']//a[@aria-current]/@href")
        assert here == ([] if name == "index.html" else [name])
        assert page.xpath("count(//h1)") == 1 and page.xpath("string(//title)")
        assert page.xpath("//@style | //script[not(@src)] | //*[@onclick]") == []


# A link leads to a page and a heading, also from pages of the top folder.
def test_every_link_leads_somewhere():
    known = {name: set(read(name).xpath("//@id")) for name in PAGES}
    n = 0
    for name in PAGES:
        for link in read(name).xpath("//@href | //@src"):
            if re.match(r"(https?|mailto):", link):
                continue
            file, anchor = urllib.parse.urldefrag(link)
            file = file or name
            assert (SITE / file).exists(), (name, link)
            assert not anchor or anchor in known[file], (name, link)
            n += 1
    assert n > 2500


def test_programs_read_it_as_text(broker):
    brief, whole = broker.get("/llms.txt"), broker.get("/llms-full.txt")
    assert brief["Content-Type"] == whole["Content-Type"] == "text/plain; charset=utf-8"
    assert brief.text.startswith("# Tidings ")
    links = re.findall(r"\]\(([^)]+)\)", brief.text)
    assert len(links) >= len(PAGES) - 1
    for link in links:
        assert broker.get(f"/{link}").status == 200, link
    for path in (ROOT / "doc").glob("*.md"):
        assert path.read_text().split("\n")[0] in whole.text, path


# The same words, from a server and from a folder.
@pytest.mark.parametrize("is_file", [False, True])
def test_the_search_finds_parts_of_pages(browser, broker, is_file):
    window = Console(browser, broker)
    page = (SITE / "index.html").as_uri() if is_file else f"{broker.url}/doc/index.html"
    window.open_url(page)
    window.value("words.value = 'idempotency key'; words.dispatchEvent(new Event('input'))")
    window.wait("document.querySelector('#found li')")
    assert "parts have these words" in window.value("text('#found h2')")
    links = window.value("[...document.querySelectorAll('#found a')].map(a => a.getAttribute('href'))")
    assert any(link.startswith("publishing.html#") for link in links)
    assert "Link to this part" not in (SITE / "search.js").read_text()
    window.expect("document.querySelector('article').hidden", True)
    window.value("words.value = 'zzzzzz'; words.dispatchEvent(new Event('input'))")
    window.wait("text('#found h2') === '0 parts have these words'")
    window.value("words.value = ''; words.dispatchEvent(new Event('input'))")
    window.wait("document.getElementById('found').hidden")
    window.expect("document.querySelector('article').hidden", False)
    window.expect("broken.length", 0)
    window.open("/doc/")
    window.close()


# Tabs need no script; a link to one opens it.
def test_the_same_stands_in_several_languages(browser, broker):
    page = read("recipes.html")
    names = page.xpath("//fieldset[@class='tabs'][1]/label/text()")
    assert names == ["curl", "tidings", "Python", "JavaScript", "C"]
    assert page.xpath("//fieldset[@class='tabs'][1]/input/@checked") == ["checked"]
    window = Console(browser, broker)
    window.open("/doc/recipes.html")
    shown = "[...document.querySelectorAll('.tabs')[0].querySelectorAll('.tab')].filter(t => t.offsetHeight > 0).map(t => t.id)"
    window.expect(shown, ["curl"])
    window.value("document.querySelector('label[for=choose-python]').click()")
    window.expect(shown, ["python"])
    window.open("/doc/recipes.html#c")
    window.expect(shown, ["c"])
    window.close()


# A phone and a large window, in light and in dark. Pictures are kept.
@pytest.mark.parametrize("look", LOOKS, ids="{0.width}-{0.scheme}".format)
def test_people_can_read_it(broker, browser, look):
    window = Console(browser, broker, look)
    for name in ("index.html", "installing.html", "http.html", "readme.html", "recipes.html"):
        window.open(f"/doc/{name}")
        window.check_width()
        window.check_axe()
        window.shoot(f"manual-{name.removesuffix('.html')}")
        window.expect("getComputedStyle(document.body).backgroundColor", BACKS[look.scheme])
        window.expect("document.querySelector('#search').hidden", False)
    window.close()
