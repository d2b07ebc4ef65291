"""A source may make a client request nothing that is nearer to the client than the
source itself (client/lib/address_policy.h). Which address is how near, names that move and
proxies: tests/unit/lib/reach_test.c."""

import socket
import subprocess

import pytest

from tidings_test.oai import Provider

from tidings_test.http import JSON

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


def sync(run, source, directory, *options, **more):
    url = source.link("/list.xml")
    return run("tidings", "sync", url, directory, "--until-caught-up", *options, **more)


def files(directory):
    return {p.name: p.read_text() for p in directory.rglob("admin*") if p.is_file()}


# A resource on this machine, and one that redirects there, unless an option allows
# that.
@pytest.mark.parametrize("address", [PUBLIC, PRIVATE])
@pytest.mark.parametrize("way", ["named", "redirected"])
def test_no_resource_is_fetched_from_this_machine(
    near, start_site, run, tmp_path, address, way
):
    source = start_site(address)
    url = near.link("/admin.txt")
    if way == "redirected":
        source.status("/admin.txt", 302, f"Location: {url}")
        url = source.link("/admin.txt")
    source.put("/list.xml", resource_list(url))
    done = sync(run, source, tmp_path / "mirror", status=1)
    assert NEAR in done.errors()
    assert not len(near.connections)
    sync(run, source, tmp_path / "mirror", "--allow-private")
    assert files(tmp_path / "mirror") == {"admin.txt": "secret"}


# Nor are the bytes of a copy.
@pytest.mark.parametrize("way", ["named", "redirected"])
def test_no_original_is_fetched_from_this_machine(
    near, start_site, run, tmp_path, broker, way
):
    source = start_site(PUBLIC)
    url = near.link("/admin.txt")
    if way == "redirected":
        source.status("/admin.txt", 302, f"Location: {url}")
        url = source.link("/admin.txt")
    source.put("/list.xml", resource_list(url))
    target = broker.set().create(content="inline")
    command = ("tidings", "harvest", source.link("/list.xml"), target.url, "--once")
    state = ("--state", tmp_path / "state")
    done = run(*command, *state, "--republish", status=1)
    assert NEAR in done.errors()
    assert not len(near.connections)
    assert target.get("changes?after=0", accept=JSON).json()["changes"] == []
    run(*command, *state, "--republish", "--allow-private")
    assert len(near.connections)


# Documents are no other than resources: parts of an index, and where a list redirects.
@pytest.mark.parametrize("command", ["sync", "follow", "get", "harvest", "verify"])
def test_no_document_is_fetched_from_this_machine(
    near, start_site, run, tmp_path, command, broker
):
    source = start_site(PUBLIC)
    index = HEAD.format("sitemapindex") + LIST
    part = f"<sitemap><loc>{near.link('/list.xml')}</loc></sitemap>"
    source.put("/index.xml", f"{index}{part}</sitemapindex>")
    source.status("/moved.xml", 302, f"Location: {near.link('/list.xml')}")
    lines = {
        "sync": ("sync", "URL", tmp_path / "mirror", "--until-caught-up"),
        "follow": ("follow", "URL", "--from-start", "--until-caught-up"),
        "get": ("get", "URL"),
        "verify": ("verify", "URL"),
        "harvest": (
            *("harvest", "URL", broker.set().url, "--once"),
            *("--state", tmp_path / "state"),
        ),
    }
    for path in ("/index.xml", "/moved.xml"):
        url = source.link(path)
        line = [url if word == "URL" else word for word in lines[command]]
        if command == "harvest":  # a state of its own for each source
            line[-1] = tmp_path / path[1:]
        done = run("tidings", *line, status=None)
        assert not len(near.connections)
        if path == "/moved.xml":
            assert (done.wait(), NEAR in done.errors()) == (1, True), done.errors()


# A provider of OAI-PMH redirects in the middle of its list.
def test_no_record_is_fetched_from_this_machine(near, run, tmp_path, broker):
    provider = Provider(PUBLIC)
    for n in range(5):
        provider.put(n, "2026-09-01T00:00:00Z")
    moved = 302, [f"Location: {near.link('/list.xml')}"], ""
    provider.tricks = [lambda asked, answer: moved if "resumptionToken" in asked else answer]
    line = ("tidings", "harvest", provider.link(), broker.set().url, "--once")
    done = run(*line, "--state", tmp_path / "state", status=1)
    assert NEAR in done.errors()
    assert not len(near.connections)
    provider.end()


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
