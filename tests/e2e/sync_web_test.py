"""`tidings sync` and the web that resources are on: other places, proxies, limits,
broken and hostile servers."""

import random

import pytest

from tidings_test.mirrored import entry
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.broker("--heartbeat", "0.2")

MIB = 1 << 20
LARGE = "/large.bin"


def post_resource(mirrored, loc, content, **more):
    """Post a resource with that content, wherever its file is."""
    news = mirrored.set
    news.receipt(news.send(entry(loc, content, "created", **more)))


def duplicate(mirrored, path, pri, rel="duplicate"):
    return {"rel": rel, "href": mirrored.site.link(path), "pri": pri}


def sync_duplicates(mirrored, *links):
    """Sync /a.txt, whose file is not at its loc, with these links: the file arrives."""
    link = mirrored.site.link("/a.txt")
    post_resource(mirrored, link, "right", links=list(links))
    mirrored.sync(is_same=False)
    assert mirrored.text(mirrored.place("/a.txt")) == "right"


def count(site, *paths):
    return [len(site.asked(path)) for path in paths]


# in the order of pri, not in theirs, and before `loc`, because a
# digest guards them; and the file is at the path of `loc`.
def test_takes_a_duplicate_by_pri_before_loc(mirrored, site):
    site.put("/second", "right")
    site.put("/last", "right")
    sync_duplicates(
        mirrored,
        duplicate(mirrored, "/last", 3),
        duplicate(mirrored, "/other", 1, rel="alternate"),
        duplicate(mirrored, "/first", 1),
        duplicate(mirrored, "/second", 2),
    )
    assert count(site, "/a.txt", "/first", "/second") == [0, 1, 1]
    assert count(site, "/last", "/other") == [0, 0]


# an option turns mirrors off.
def test_asks_loc_alone_without_mirrors(mirrored, site):
    site.put("/first", "right")
    site.put("/a.txt", "right")
    links = [duplicate(mirrored, "/first", 1)]
    post_resource(mirrored, site.link("/a.txt"), "right", links=links)
    mirrored.sync("--no-mirrors", is_same=False)
    assert mirrored.text(mirrored.place("/a.txt")) == "right"
    assert count(site, "/first", "/a.txt") == [0, 1]


# the best of more duplicates than are tried, wherever it stands.
def test_takes_the_best_of_many_duplicates(mirrored, site):
    site.put("/good", "right")
    bad = [duplicate(mirrored, f"/bad{i}", 10 + i) for i in range(12)]
    sync_duplicates(mirrored, *bad, duplicate(mirrored, "/good", 1))
    assert count(site, "/bad0") == [0]


# As curl does: http_proxy for all but no_proxy.
def test_uses_the_proxy_of_the_environment(mirrored, site):
    away = "http://files.invalid/a.txt"
    site.put(away, "by proxy", None)
    mirrored.change("/b.txt", "not by proxy")
    post_resource(mirrored, away, "by proxy")
    proxy = {"http_proxy": site.url, "no_proxy": "127.0.0.1"}
    mirrored.sync(env=proxy, is_same=False)
    assert mirrored.text("files.invalid:80/a.txt") == "by proxy"
    assert mirrored.text(mirrored.place("/b.txt")) == "not by proxy"
    assert count(site, away) == [1]
    assert len(site.requests) == 2


# --per-host
def test_asks_a_host_for_so_many_at_a_time(mirrored, site, start_site):
    other = start_site()
    mirrored.change_many(1, 12, "text")
    site.hold(None)
    mirrored.start("--per-host", "2")
    site.requests.wait(2)
    # Files of another host come; requests to the first would have come before.
    for path in ("/1.txt", "/2.txt"):
        other.put(path, "other")
        post_resource(mirrored, other.link(path), "other")
        mirrored.wait("written", path)
    assert len(site.requests) == 2
    site.release(None)
    mirrored.wait("caught-up")
    assert site.most_parallel == 2


# The next sync asks for the bytes that did not come before the kill: Range, If-Range.
def test_resumes_a_file_that_it_was_killed_over(mirrored, site):
    whole = random.Random(1).randbytes(12 * MIB)
    site.put(LARGE, whole)
    site.cut(LARGE, 2 * MIB, times=None)
    post_resource(mirrored, site.link(LARGE), whole)
    syncing = mirrored.start()
    mirrored.wait("failed", LARGE)
    syncing.kill()

    n = len(site.asked(LARGE))
    site.cut(LARGE, len(whole))
    mirrored.sync(is_same=False)
    assert len(site.asked(LARGE)) == n + 1
    request = site.asked(LARGE)[n]
    assert request["Range"].startswith("bytes=")
    assert int(request["Range"][6:].rstrip("-")) >= 2 * MIB
    assert request["If-Range"]
    assert request.status == 206
    assert mirrored.file(LARGE).read_bytes() == whole
    mirrored.audit()


def incoming(mirrored):
    """The files that are being fetched, or broke off."""
    return list((mirrored.directory / ".tidings/incoming").glob("[!.]*"))


def give_up_half_way(mirrored):
    """A mirror gives up /large.bin half way."""
    whole = b"x" * (16 * MIB)
    mirrored.site.put(LARGE, whole)
    mirrored.site.cut(LARGE, 2 * MIB, times=None)
    post_resource(mirrored, mirrored.site.link(LARGE), whole)
    mirrored.start()
    mirrored.wait("failed", LARGE)
    mirrored.site.status(LARGE, 404)
    mirrored.wait("left", LARGE)
    assert incoming(mirrored)


def replace_large(mirrored):
    """The next version of it comes whole."""
    mirrored.site.put(LARGE, "short")
    mirrored.site.status(LARGE, None)
    post_resource(mirrored, mirrored.site.link(LARGE), "short")
    mirrored.wait("written", LARGE)


# The sync removes the part of an abandoned version when the next one is posted, not at
# the end of the run, which may last for years.
def test_an_abandoned_part_goes_when_a_newer_version_comes(mirrored):
    give_up_half_way(mirrored)
    replace_large(mirrored)
    wait_for("the part to go", lambda: not incoming(mirrored))


# Also where it always fetches something else.
def test_an_abandoned_part_goes_while_others_are_fetched(mirrored, site):
    mirrored.change("/held.txt", "held")
    site.hold("/held.txt")
    mirrored.post()
    give_up_half_way(mirrored)
    before = len(incoming(mirrored))
    replace_large(mirrored)
    n = 0

    def look():
        nonlocal n
        if len(incoming(mirrored)) < before:
            return True
        n += 1
        mirrored.change("/other.txt", f"other {n}")
        mirrored.post()
        mirrored.wait("written", "/other.txt")

    wait_for("the part to go", look)
    assert count(site, "/held.txt") == [1]  # still fetched
    site.release("/held.txt")
    mirrored.wait("written", "/held.txt")


# Redirects lead from web to web: to no file, and no header goes along.
def test_follows_redirects_to_web_servers_alone(mirrored, site, start_site):
    other = start_site()
    mirrored.change("/a.txt", "a")
    mirrored.change("/b.txt", "b")
    mirrored.write("../secret", "a")
    site.status("/a.txt", 302, f"Location: file://{mirrored.home}/secret")
    site.status("/b.txt", 302, f"Location: {other.link('/b.txt')}")
    other.put("/b.txt", "b")
    mirrored.sync("--header", "X-Key: secret", status=1)
    assert mirrored.text(mirrored.place("/a.txt")) is None
    assert mirrored.text(mirrored.place("/b.txt")) == "b"
    assert other.asked("/b.txt")[0]["X-Key"] is None
