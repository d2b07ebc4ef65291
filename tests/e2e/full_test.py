"""tidings publish --full: a source's documents, as they stand on its web site or disk,
become the changes of a set."""

import gzip
import os
import signal

import pytest

from tidings_test.servers import Server
from tidings_test.soak import choices, soak
from tidings_test.waiting import wait_for

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


def test_repeated_resources_are_refused(full, refuse, site):
    site.put("/1.xml", sitemap("ab"))
    site.put("/2.xml", sitemap("ca"))
    site.put("/index.xml", index(site, "/1.xml", "/2.xml"))
    twice = "422: entry 4: loc: named already in entry 1"
    refuse(site.link("/index.xml"), twice)
    full(site.link("/1.xml"), "created=2 ")


# the status says that the set is not what the list says, until somebody consents.
def test_too_many_deletions_are_held_back(full, run, site, demo):
    site.put("/1.xml", sitemap("abcdefgh"))
    site.put("/2.xml", sitemap("abcx"))
    site.put("/3.xml", sitemap("abx"))
    full(site.link("/1.xml"), "created=8 ")
    publish = ("tidings", "publish", demo.url, "--full")
    for more in ((), ("--accept-deletions", "4"), ("--max-delete", "55")):
        done = run(*publish, site.link("/2.xml"), *more, status=1)
        assert "deleted=0" in done.output() and "held_back=5 " in done.output()
        assert "held back: 5 deletions of" in done.errors()
        assert "--accept-deletions 5" in done.errors()
    assert demo.last() == 9
    done = run(*publish, site.link("/3.xml"), "--accept-deletions", "5", status=1)
    assert "held back: 6 deletions of 9" in done.errors()
    full(site.link("/2.xml"), "created=0 updated=0 deleted=5 ", "--max-delete", "56")
    full(site.link("/3.xml"), "created=0 updated=0 deleted=1 unchanged=3 newer=0 pos")


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
def test_a_refusal_of_the_source_is_reported(refuse):
    source = Refusing()
    for complaint in ("404: no such list", "410: ", "503: "):
        refuse(source.url, complaint)
    source.close()


# Again and again


@pytest.fixture
def often(demo, start):
    """often(source): publishes that document again and again."""

    def often(source, *more):
        full = ("--full", source, "--every", "0.1", *more)
        return start("tidings", "publish", demo.url, *full)

    return often


# a line for each difference; a list that has not changed is not sent.
def test_a_list_is_published_again_and_again(often, site, demo):
    path = "/1.xml"
    site.put(path, sitemap("ab"))
    publishing = often(site.link(path))
    assert publishing.out.next().startswith("created=2 updated=0 deleted=0 ")
    asked = site.asked(path)
    n = len(asked)
    asked.wait(n + 3)
    assert asked[n + 1]["If-None-Match"]
    assert asked[n + 1].status == 304
    site.put(path, sitemap("abc"))
    assert publishing.out.next().startswith("created=1 updated=0 deleted=0 ")
    demo.wait_last(3)
    publishing.stop()
    assert publishing.errors() == ""


# SIGTERM ends it while it reads an endless file.
def test_a_signal_ends_the_reading_of_a_file(often, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    publishing = often(pipe)
    lines = b"".join(b'{"loc":"http://example.com/%d"}\n' % i for i in range(100000))
    with pytest.raises(BrokenPipeError), open(pipe, "wb", buffering=0) as file:
        file.write(lines)
        publishing.signal(signal.SIGTERM)
        for _ in range(20):
            file.write(lines)
    assert publishing.wait() == 0
    assert publishing.errors() == ""


# A list that has not changed is published again if somebody changed the set.
def test_a_set_is_what_its_list_is_whatever_becomes_of_it(often, site, demo):
    site.put("/1.xml", sitemap("ab"))
    publishing = often(site.link("/1.xml"))
    publishing.out.wait(1)
    demo.post_change("http://example.com/b", "deleted")
    assert publishing.out.wait(2).startswith("created=1 updated=0 deleted=0 unchanged=1")
    demo.delete()
    assert publishing.out.wait(3).startswith("created=2 updated=0 deleted=0 unchanged=0")
    publishing.stop()


# Any index may have changed parts; and a server may send no validator.
def test_what_says_nothing_is_read_each_time(often, site, demo):
    site.put("/1.xml", sitemap("ab"))
    site.put("/index.xml", index(site, "/1.xml"))
    publishing = often(site.link("/index.xml"))
    publishing.out.wait(1)
    site.does("/1.xml", etag=False)
    site.put("/1.xml", sitemap("abc"))
    publishing.out.wait(2)
    other = often(site.link("/1.xml"))
    other.out.wait(1)
    site.put("/1.xml", sitemap("abcd"))
    demo.wait_last(4)
    publishing.stop()
    other.stop()


# It publishes nothing of a list that is broken, or that lost too much; it tries again.
def test_a_bad_list_is_no_end(often, run, site, demo):
    path = "/1.xml"
    site.put(path, sitemap("abcde"))
    publishing = often(site.link(path))
    publishing.out.wait(1)
    site.put(path, sitemap("a"))
    for _ in range(2):  # at each look
        publishing.err.next(lambda line: "held back: 4 deletions of 5 " in line)
    publishing.out.find(lambda line: "held_back=4 " in line)
    site.put(path, sitemap("ab")[:100])
    publishing.err.find(lambda line: "/1.xml: entry 1, line 1: " in line)
    site.status(path, 404)
    publishing.err.find(lambda line: "/1.xml: 404" in line)
    site.status(path, None)
    site.put(path, sitemap("abcdef"))
    publishing.out.find(lambda line: line.startswith("created=1 updated=0 deleted=0 "))
    demo.wait_last(6)
    publishing.stop()

    # The first one has to be right.
    site.status(path, 404)
    full = ("--full", site.link(path), "--every", "10m")
    assert "404" in run("tidings", "publish", demo.url, *full, status=1).errors()


# the list changes while the program and the broker are killed at random:
# each difference is posted once.
def test_no_difference_is_lost_or_doubled_whoever_is_killed(start_broker, start, site):
    broker = start_broker("--rotate-entries", "1000")
    news = broker.set("news")
    chance = choices()
    full = ("--full", site.link("/1.xml"), "--every", "0.1", "--max-delete", "100")
    names = {f"r{i}" for i in range(3000)}
    site.put("/1.xml", sitemap(sorted(names)))
    publishing = start("tidings", "publish", news.url, *full)
    for turn in range(soak(12, 100)):
        last = news.last()
        names -= set(chance.sample(sorted(names), 100))
        names |= {f"s{turn}-{i}" for i in range(100)}
        site.put("/1.xml", sitemap(sorted(names)))
        if chance.randrange(2):
            wait_for("a difference", lambda: news.last() > last)
        if chance.randrange(2):
            publishing.kill()
            publishing = start("tidings", "publish", news.url, *full)
        else:
            broker.kill()
            broker.restart()
    publishing.kill()
    publishing = start("tidings", "publish", news.url, *full)
    publishing.out.wait(1)
    publishing.stop()
    now = set()
    for entry in news.changelists().read().history.entries:
        assert (entry.change == "created") == (entry.loc not in now)
        (now.add if entry.change == "created" else now.remove)(entry.loc)
    assert now == {f"http://example.com/{name}" for name in names}
