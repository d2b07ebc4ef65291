"""A source may make a client request nothing that is nearer to the client than the
source itself (client/lib/address_policy.h). Which address is how near, names that move and
proxies: tests/unit/lib/reach_test.c."""

import contextlib
import itertools
import socket
import sqlite3
import subprocess

import pytest

from tidings_test.oai import Provider

# Addresses of the test's own network: one of the Internet, one of a private network.
PUBLIC = "192.31.196.1"
PRIVATE = "10.77.1.1"

NEAR = "an address of this machine"

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<{} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/">'
)
LIST = '<rs:md capability="resourcelist" at="2026-01-02"/>'


@pytest.fixture(scope="module", autouse=True)
def addresses():
    if [name for _, name in socket.if_nameindex() if name.startswith("e")]:
        pytest.skip("the network is not the test's own (tests/isolated)")
    for address in (PUBLIC, PRIVATE):
        line = ("ip", "address", "replace", f"{address}/32", "dev", "lo")
        subprocess.run(line, check=True)


def resource_list(*urls):
    head = HEAD.format("urlset") + LIST
    each = "<url><loc>{}</loc><lastmod>2026-01-01</lastmod></url>"
    return head + "".join(each.format(url) for url in urls) + "</urlset>"


@pytest.fixture
def near(start_site):
    """A site on this machine, which strangers are to leave alone."""
    site = start_site()
    site.put("/admin.txt", "secret")
    site.put("/list.xml", resource_list(site.link("/admin.txt")))
    return site


@pytest.fixture
def line(run, tmp_path, broker):
    """line(command, URL): the words of a command that reads a source to its end."""
    target = broker.set().create(content="inline")

    def line(command, url):
        place = tmp_path / "place"
        harvest = ("harvest", url, broker.set().url, "--once", "--state", place)
        return "tidings", *{
            "sync": ("sync", url, place, "--until-caught-up"),
            "follow": ("follow", url, "--from-start", "--until-caught-up"),
            "get": ("get", url),
            "verify": ("verify", url),
            "harvest": harvest,
            "republish": ("harvest", url, target.url, *harvest[3:], "--republish"),
        }[command]

    return line


def sync(run, source, directory, *options, **more):
    url = source.link("/list.xml")
    return run("tidings", "sync", url, directory, "--until-caught-up", *options, **more)


def files(directory):
    return {p.name: p.read_text() for p in directory.rglob("admin*") if p.is_file()}


# A resource on this machine, and one that redirects there, unless an option allows
# that.
@pytest.mark.parametrize("command, address", [("sync", PUBLIC), ("sync", PRIVATE), ("republish", PUBLIC)])
@pytest.mark.parametrize("way", ["named", "redirected"])
def test_no_resource_is_fetched_from_this_machine(near, start_site, run, line, command, address, way):
    source = start_site(address)
    url = near.link("/admin.txt")
    if way == "redirected":
        source.status("/admin.txt", 302, f"Location: {url}")
        url = source.link("/admin.txt")
    source.put("/list.xml", resource_list(url))
    words = line(command, source.link("/list.xml"))
    assert NEAR in run(*words, status=1).errors()
    assert not len(near.connections)
    run(*words, "--allow-private")
    assert len(near.connections)


@pytest.fixture
def provider():
    """A provider of OAI-PMH with records for two answers."""
    provider = Provider(PUBLIC)
    for n in range(5):
        provider.put(n, "2026-09-01T00:00:00Z")
    yield provider
    provider.end()


def put_index(source, provider, url):
    part = f"<sitemap><loc>{url}</loc></sitemap>"
    source.put("/index.xml", f"{HEAD.format('sitemapindex')}{LIST}{part}</sitemapindex>")
    return source.link("/index.xml")


def put_redirect(source, provider, url):
    source.status("/moved.xml", 302, f"Location: {url}")
    return source.link("/moved.xml")


def put_provider(source, provider, url):
    moved = 302, [f"Location: {url}"], ""
    provider.tricks = [lambda asked, answer: moved if "resumptionToken" in asked else answer]
    return provider.link("verb=ListRecords")


# Documents are no other than resources: parts of an index; where a list redirects, or a
# provider of OAI-PMH in the middle of its records.
@pytest.mark.parametrize(
    "put, command",
    [*itertools.product((put_index, put_redirect), ("sync", "follow", "get", "harvest", "verify")),
     (put_provider, "harvest")],
)  # fmt: skip
def test_no_document_is_fetched_from_this_machine(near, start_site, provider, run, line, put, command):
    url = put(start_site(PUBLIC), provider, near.link("/list.xml"))
    done = run(*line(command, url), status=None)
    assert not len(near.connections)
    if put is not put_index:
        assert (done.wait(), NEAR in done.errors()) == (1, True), done.errors()


# An audit asks each set of the mirror how it compares; a source may have named the set.
def test_no_set_is_asked_on_this_machine(near, start_site, run, tmp_path):
    source = start_site(PUBLIC)
    source.put("/a.txt", "a")
    source.put("/list.xml", resource_list(source.link("/a.txt")))
    sync(run, source, tmp_path / "m")
    with contextlib.closing(sqlite3.connect(tmp_path / "m/.tidings/mirror.db")) as db, db:
        place = near.link("/sets/news"), "0123456789abcdef-1"
        db.execute("UPDATE sets SET url = ?, position = ?", place)
    run("tidings", "audit", tmp_path / "m", status=None).wait()
    assert not len(near.connections)


# A source on this machine, or in a private network, names what is as near as itself.
def test_a_source_names_what_is_as_near_as_itself(near, start_site, run, tmp_path):
    sync(run, near, tmp_path / "one")
    assert files(tmp_path / "one") == {"admin.txt": "secret"}
    source, other = start_site(PRIVATE), start_site(PRIVATE)
    other.put("/admin.txt", "among us")
    source.put("/list.xml", resource_list(other.link("/admin.txt")))
    sync(run, source, tmp_path / "two")
    assert files(tmp_path / "two") == {"admin.txt": "among us"}
    run("tidings", "audit", tmp_path / "two")


# A set that a Source Description names is no source that the user has named.
@pytest.mark.parametrize("command", ["get", "verify", "sync"])
def test_no_set_of_this_machine_is_asked(
    near, start_site, run, tmp_path, command, broker
):
    source = start_site(PUBLIC)
    capability = '<url><loc>{}</loc><rs:md capability="capabilitylist"/></url>'
    head = HEAD.format("urlset") + '<rs:md capability="description"/>'
    links = [source.link("/c.xml"), near.link("/sets/x/capabilitylist.xml")]
    sets = "".join(capability.format(link) for link in links)
    source.put("/.well-known/resourcesync", f"{head}{sets}</urlset>")
    more = (tmp_path / "mirror", "--until-caught-up") if command == "sync" else ()
    done = run("tidings", command, f"{source.url}/", *more, status=1)
    assert NEAR in done.errors()
    assert not len(near.connections)
