"""tidings get, against a real broker."""

import datetime
import json

import pytest

pytestmark = pytest.mark.broker("--rotate-entries", "3")

CHANNELS = ("stream", "events", "streams")
NO_DOCUMENTS = (*(f"urn:tidings:1:{name}" for name in (*CHANNELS, "reconcile")), "hub")


def check_line(done, key, value):
    """The output has a line of this key and value."""
    assert f"{key:22} {value}" in list(done.out), done.output()


def instant(text):
    """One server writes the zeros at the end of a fraction, another does not."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


# the links of the set say what it offers; each of them works.
def test_prints_what_a_set_offers(news, run):
    news.post(7)
    page = news.get("changes?after=0").json()
    position = f"{page['epoch']}-7"

    done = run("tidings", "get", news.url, "--json")
    facts = json.loads(done.output())
    assert (facts["set"], facts["position"]) == (news.url, position)
    assert instant(facts["from"]) == instant(page["from"])
    assert facts["lists"] == 3
    documents = [one for one in facts["links"] if one["rel"] not in NO_DOCUMENTS]
    assert len(facts["links"]) >= 4
    for link in documents:
        assert news.get_url(link["href"]).status == 200

    done = run("tidings", "get", news.url)
    check_line(done, "set", news.url)
    check_line(done, "position", position)
    check_line(done, "lists", 3)
    for rel in ("changelist", "changelist-archive"):
        check_line(done, rel, f"{news.url}/{rel}.xml  application/xml")
    assert done.errors() == ""


def test_reports_that_there_is_no_such_set(broker, run):
    done = run("tidings", "get", broker.set().url, status=1)
    assert done.output() == ""
    assert ': 404: there is no set "' in done.errors()


# The error has the reason as the server states it.
def test_reports_that_a_set_was_removed(news, run):
    news.post()
    assert news.delete().status == 204
    done = run("tidings", "get", news.url, status=3)
    assert done.output() == ""
    assert "was removed" in done.errors()


# Texts of a server cannot begin a line, or move the cursor.
def test_prints_no_control_character(site, run):
    facts = {
        "name": "news",
        "position": "a-1\nlists 9",
        "earliest": "b\x9b1m",
        "digest": "c\x7fm",
        "links": [{"rel": "changelist", "href": site.link("/c.xml")}],
    }
    body = json.dumps(facts).replace("\x7f", "\\u007f")
    site.put("/sets/news", body, "application/json")
    site.put(
        "/c.xml",
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        'xmlns:rs="http://www.openarchives.org/rs/terms/">'
        '<rs:md capability="changelist" from="2026-09-01T00:00:00Z"/></urlset>',
    )
    done = run("tidings", "get", site.link("/sets/news"))
    check_line(done, "position", "a-1?lists 9")
    check_line(done, "earliest", "b?1m")
    check_line(done, "digest", "c?m")
