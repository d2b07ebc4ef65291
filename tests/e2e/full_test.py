"""tidings publish --full: a list of all resources on disk becomes the changes of a set."""

import gzip

import pytest

from tidings_test.servers import Server

SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
RS = "http://www.openarchives.org/rs/terms/"


def sitemap(names):
    """A Sitemap of resources, one for each character."""
    urls = [f"<url><loc>http://example.com/{name}</loc></url>" for name in names]
    return f"<urlset xmlns='{SITEMAP}'>{''.join(urls)}</urlset>"


def index(*urls):
    locs = [f"<sitemap><loc>{url}</loc></sitemap>" for url in urls]
    return f"<sitemapindex xmlns='{SITEMAP}'>{''.join(locs)}</sitemapindex>"


@pytest.fixture
def put(tmp_path):
    """put(name, text): writes a file; its path."""

    def put(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return put


@pytest.fixture
def demo(broker):
    return broker.set()


@pytest.fixture
def full(demo, run):
    """full(source): publishes that document; its output begins with `said`."""

    def full(source, said, *more):
        done = run("tidings", "publish", demo.url, "--full", source, *more)
        assert done.errors() == ""
        assert done.output().startswith(said)

    return full


@pytest.fixture
def refuse(demo, run):
    """refuse(source, "404"): publishes that document in vain, with this complaint."""

    def refuse(source, complaint):
        done = run("tidings", "publish", demo.url, "--full", source, status=1)
        assert done.output() == ""
        assert complaint in done.errors()

    return refuse


# parts of an index together are one state; one is in gzip, and no header
# says so.
def test_an_index_is_read_with_its_parts(full, put, site):
    site.put("/1.xml", sitemap("ab"))
    zipped = gzip.compress(sitemap("cd").encode())
    site.put("/2.xml.gz", zipped, "application/octet-stream")
    path = put("index.xml", index(site.link("/1.xml"), site.link("/2.xml.gz")))
    full(path, "created=4 updated=0 deleted=0 unchanged=0 newer=0 position=")
    site.put("/1.xml", sitemap("abe"))
    full(path, "created=1 updated=0 deleted=0 unchanged=4 newer=0 position=")


def test_files_are_read_in_every_form(full, tmp_path):
    (tmp_path / "list").write_text(sitemap("ab"))
    full(tmp_path / "list", "created=2 ")
    lines = '\n{"loc":"http://example.com/a"}\n{"loc":"http://example.com/b"}'
    (tmp_path / "lines").write_text(lines)
    full(tmp_path / "lines", "created=0 updated=0 deleted=0 unchanged=2 ")


# The complaint names the document, and nothing is posted.
def test_a_fault_is_reported_with_its_document(refuse, put, site, demo):
    site.put("/1.xml", sitemap("a"))
    site.put("/bad.xml", f"<urlset xmlns='{SITEMAP}'>")
    site.put("/page.html", "<html></html>")
    for path, complaint in (
        ("/bad.xml", "/bad.xml cannot be read: line 1"),
        ("/none.xml", "/none.xml: 404"),
        ("/page.html", "/page.html cannot be read: "),
    ):
        refuse(put("list.xml", index(site.link("/1.xml"), site.link(path))), complaint)
    changes = f"xmlns:rs='{RS}'><rs:md capability='changelist'/></urlset>"
    path = put("changes.xml", f"<urlset xmlns='{SITEMAP}' {changes}")
    refuse(path, "it is a changelist, no list of resources")
    refuse("/dev/null", "/dev/null: it is empty")
    refuse("/nonesuch", "cannot read /nonesuch")
    assert demo.get().status == 404


#
def test_the_later_of_repeated_rows_counts(full, refuse, put):
    lines = '{"loc":"http://example.com/a"}\n' * 2
    refuse(put("2.ndjson", lines), "422: entry 2: loc: named already in entry 1")
    full(put("2.xml", sitemap("caba")), "created=3 ")
    full(put("1.xml", sitemap("abc")), "created=0 updated=0 deleted=0 unchanged=3 ")


# a list is read to its end, or nothing of it is published.
def test_pages_of_a_list_are_read(full, refuse, put, site, demo):
    def page(names, following=None):
        link = f"<rs:ln xmlns:rs='{RS}' rel='next' href='{site.link(following)}'/>" if following else ""
        site.put(
            f"/{names}.xml", sitemap(names).replace("<url>", f"{link}<url>", 1)
        )

    page("ab", "/cd.xml")
    page("cd")
    source = put("list.xml", index(site.link("/ab.xml")))
    full(source, "created=4 ")
    full(source, "created=0 updated=0 deleted=0 unchanged=4 ")
    site.delete("/cd.xml")
    refuse(source, "/cd.xml: 404")
    assert demo.last() == 4


# rows that cannot be used are told, and no deletion follows from them.
def test_rows_left_out_are_told(full, run, put, demo, tmp_path):
    full(put("1.xml", sitemap("abc")), "created=3 ")
    bad = sitemap("ab").replace("</urlset>", "<url><loc>http:///c</loc></url></urlset>")
    publish = ("tidings", "publish", demo.url, "--full", put("2.xml", bad))
    done = run(*publish, status=1)
    assert "left out: 1 row: 1 with a loc that is no URL" in done.errors()
    assert "deleted=0" in done.output()
    done = run(*publish, "--skip-bad", tmp_path / "bad", status=1)  # held back
    assert 'http:///c' in (tmp_path / "bad").read_text()
    assert demo.last() == 3


# the status says that the set is not what the list says, until somebody consents.
def test_too_many_deletions_are_held_back(full, run, put, demo):
    second = put("2.xml", sitemap("abcx"))
    third = put("3.xml", sitemap("abx"))
    full(put("1.xml", sitemap("abcdefgh")), "created=8 ")
    publish = ("tidings", "publish", demo.url, "--full")
    for more in ((), ("--accept-deletions", "4"), ("--max-delete", "55")):
        done = run(*publish, second, *more, status=1)
        assert "deleted=0" in done.output() and "held_back=5 " in done.output()
        assert "held back: 5 deletions of" in done.errors()
        assert "--accept-deletions 5" in done.errors()
    assert demo.last() == 9
    done = run(*publish, third, "--accept-deletions", "5", status=1)
    assert "held back: 6 deletions of 9" in done.errors()
    full(second, "created=0 updated=0 deleted=5 ", "--max-delete", "56")
    full(third, "created=0 updated=0 deleted=1 unchanged=3 newer=0 pos")


@pytest.mark.parametrize(
    "more",
    [
        ("--key", "k"),
        ("--type", "xml"),
        ("--max-delete", "0"),
        ("--max-delete", "101"),
        ("--max-delete", "x"),
        ("--accept-deletions", "x"),
        ("--change", "created"),
        ("FILE",),
    ],
    ids=" ".join,
)
def test_conflicting_options_are_bad_usage(demo, run, more):
    done = run("tidings", "publish", demo.url, "--full", "x.xml", *more, status=2)
    assert done.output() == ""


class Refusing(Server):
    """Answers each connection with the next refusal; the last has no end."""

    answers = [
        b"HTTP/1.1 404 No\r\nContent-Type: application/problem+json\r\n"
        b'Content-Length: 25\r\n\r\n{"detail":"no such list"}',
        b"HTTP/1.1 410 No\r\nContent-Type: text/plain\r\n"
        b"Content-Length: 11\r\n\r\nit was here",
        b"HTTP/1.1 503 No\r\nContent-Length: 1000000\r\n\r\n" + b" " * 40000,
    ]

    async def serve(self, peer):
        await peer.request()
        await peer.send(self.answers[peer.number - 1])
        await peer.gone()


# The program reports the reason that the source's server states if it is short; it does
# not wait for the end of a long one.
def test_a_refusal_of_the_source_is_reported(refuse, put):
    source = Refusing()
    for complaint in ("404: no such list", "410: "):
        refuse(put("list.xml", index(source.url)), complaint)
    source.close()


# Lists on the web are for another command.
def test_lists_on_the_web_are_harvested(demo, run):
    done = run("tidings", "publish", demo.url, "--full", "http://a/b.xml", status=2)
    assert "tidings harvest URL SET-URL" in done.errors()
