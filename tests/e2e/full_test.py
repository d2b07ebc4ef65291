"""tidings publish --full: a source's documents, as they stand on its web site or disk,
become the changes of a set."""

import gzip

import pytest

from tidings_test.servers import Server

SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
RS = "http://www.openarchives.org/rs/terms/"


def sitemap(names):
    """A Sitemap of resources, one for each character."""
    urls = [f"<url><loc>http://example.com/{name}</loc></url>" for name in names]
    return f"<urlset xmlns='{SITEMAP}'>{''.join(urls)}</urlset>"


def index(site, *paths):
    locs = [f"<sitemap><loc>{site.link(path)}</loc></sitemap>" for path in paths]
    return f"<sitemapindex xmlns='{SITEMAP}'>{''.join(locs)}</sitemapindex>"


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
def test_an_index_is_read_with_its_parts(full, site):
    site.put("/1.xml", sitemap("ab"))
    zipped = gzip.compress(sitemap("cd").encode())
    site.put("/2.xml.gz", zipped, "application/octet-stream")
    site.put("/index.xml", index(site, "/1.xml", "/2.xml.gz"))
    url = site.link("/index.xml")
    full(url, "created=4 updated=0 deleted=0 unchanged=0 newer=0 position=")
    site.put("/1.xml", sitemap("abe"))
    full(url, "created=1 updated=0 deleted=0 unchanged=4 newer=0 position=")


def test_files_are_read_in_every_form(full, tmp_path):
    (tmp_path / "list").write_text(sitemap("ab"))
    full(tmp_path / "list", "created=2 ")
    lines = '\n{"loc":"http://example.com/a"}\n{"loc":"http://example.com/b"}'
    (tmp_path / "lines").write_text(lines)
    full(tmp_path / "lines", "created=0 updated=0 deleted=0 unchanged=2 ")


# The complaint names the document, and nothing is posted.
def test_a_fault_is_reported_with_its_document(refuse, site, demo):
    site.put("/1.xml", sitemap("a"))
    site.put("/bad.xml", f"<urlset xmlns='{SITEMAP}'>")
    changes = f"xmlns:rs='{RS}'><rs:md capability='changelist'/></urlset>"
    site.put("/changes.xml", f"<urlset xmlns='{SITEMAP}' {changes}")
    site.put("/page.html", "<html></html>")
    site.put("/index.xml", index(site, "/1.xml", "/bad.xml"))
    site.put("/missing.xml", index(site, "/1.xml", "/none.xml"))
    site.put("/deep.xml", index(site, "/1.xml", "/index.xml"))
    site.put("/cut.xml", sitemap("ab"))
    site.cut("/cut.xml", 100)
    for path, complaint in (
        ("/index.xml", "/bad.xml: line 1"),
        ("/missing.xml", "/none.xml: 404"),
        ("/deep.xml", "an index within an index"),
        ("/changes.xml", "capability: not resourcelist"),
        ("/page.html", "/page.html: "),
        ("/cut.xml", "/cut.xml: "),
    ):
        refuse(site.link(path), complaint)
    refuse("/dev/null", "/dev/null: it has no root")
    refuse("/nonesuch", "cannot read /nonesuch")
    assert demo.get().status == 404


def test_repeated_resources_and_too_many_deletions_are_refused(full, refuse, site):
    site.put("/1.xml", sitemap("ab"))
    site.put("/2.xml", sitemap("ca"))
    site.put("/index.xml", index(site, "/1.xml", "/2.xml"))
    twice = "422: entry 4: loc: told already in entry 1"
    refuse(site.link("/index.xml"), twice)
    full(site.link("/1.xml"), "created=2 ")
    refuse(site.link("/2.xml"), "409: 1 of 2 resources would be deleted")
    full(site.link("/2.xml"), "", "--max-delete", "50")


@pytest.mark.parametrize(
    "more",
    [
        ("--key", "k"),
        ("--type", "xml"),
        ("--max-delete", "0"),
        ("--max-delete", "101"),
        ("--max-delete", "x"),
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


# The reason that the source's server states is reported if it is short; the program
# does not wait for the end of a long one.
def test_a_refusal_of_the_source_is_reported(refuse):
    source = Refusing()
    for complaint in ("404: no such list", "410: ", "503: "):
        refuse(source.url, complaint)
    source.close()
