"""`tidings sync` and `audit --repair` of sources that are enormous, or have no end: they
are stopped, and say why; what is there is whole."""

import pytest

from tidings_test.content import multipart
from tidings_test.layouts import HEAD, NS
from tidings_test.mirrored import entry
from tidings_test.servers import Server
from tidings_test.sets import change

pytestmark = pytest.mark.broker("--heartbeat", "0.2")

KIB = 1 << 10


class Endless(Server):
    """Answers with `start`, and then `piece` again and again."""

    start = b""
    piece = b"x" * 65536

    async def serve(self, peer):
        if await peer.request():
            await peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + self.start)
            while True:
                await peer.send(self.piece)


@pytest.fixture
def endless():
    server = Endless()
    yield server
    server.close()


def incoming(mirrored):
    """What is left of files that did not come whole."""
    return list((mirrored.directory / ".tidings/incoming").iterdir())


def sizes(mirrored):
    """The bytes of the files that are there."""
    return [path.stat().st_size for path in mirrored.directory.glob("[!.]*/r/*")]


# A resource that is too long is given up, whatever length was told; the others come.
def test_a_file_that_is_too_long_is_given_up(mirrored, site, endless):
    mirrored.change("/short.txt", "short")
    mirrored.change("/told.txt", "x" * 70 * KIB)
    mirrored.change("/untold.txt", "x" * 70 * KIB)
    mirrored.post()
    news = mirrored.set
    news.receipt(news.send(change(site.link("/untold.txt"), "updated")))
    news.receipt(news.send(change(endless.url + "/endless.txt")))
    done = mirrored.sync("--max-file", "64K", status=1)
    assert done.errors().count("is longer than the 65536 bytes that are allowed") == 3
    assert mirrored.text(mirrored.place("/short.txt")) == "short"
    assert "done=1 failed=3" in done.output()
    assert len(site.asked("/told.txt")) == 0
    assert incoming(mirrored) == []
    news.receipt(news.send(change(endless.url + "/endless.txt", "deleted")))
    mirrored.sync("--max-file", "70K")


# A package has no way around it.
def test_a_file_of_a_dump_is_given_up_too(mirrored, site):
    news = mirrored.set.create(content="inline")
    for path, size in (("/short.txt", 10), ("/long.txt", 70 * KIB)):
        loc, content = site.link(path), b"x" * size
        body = multipart([entry(loc, content, "created")], [(loc, None, content)])
        news.receipt(news.send(*body))
    news.build("resourcedump")
    done = mirrored.sync("--max-file", "64K", status=1)
    assert "65536 bytes that are allowed" in done.errors()
    assert mirrored.text(mirrored.place("/short.txt")) == "x" * 10
    assert not mirrored.file("/long.txt").exists()


# The mirror ends before it has more, and goes on where it may.
def test_a_mirror_that_would_be_too_large_ends(mirrored):
    mirrored.change_many(1, 20, "x" * 1000)
    done = mirrored.sync("--max-total", "9K", "--per-host", "1", status=1)
    assert "more than the 9216 bytes that --max-total allows" in done.errors()
    assert 0 < sum(sizes(mirrored)) <= 9 * KIB
    assert incoming(mirrored) == []
    mirrored.change_many(1, 20, "y" * 100)
    mirrored.sync("--max-total", "30K")
    mirrored.sync("--max-total", "1M")


# Untold lengths count as they come, of all that is under way.
def test_a_file_without_an_end_ends_with_the_mirrors_room(mirrored, endless):
    mirrored.change("/a.txt", "a")
    mirrored.post()
    news = mirrored.set
    for n in range(4):
        news.receipt(news.send(change(f"{endless.url}/{n}.txt")))
    done = mirrored.sync("--max-total", "1M", status=1)
    assert "1048576 bytes that --max-total allows" in done.errors()
    assert sum(path.stat().st_size for path in incoming(mirrored)) < KIB


# What is to stay free stays free; a repair heeds it, too.
def test_a_full_disk_is_left_alone(mirrored):
    mirrored.change("/a.txt", "a")
    done = mirrored.sync("--min-free", "1000000T", status=1)
    assert "and --min-free keeps 1048576000000 MiB" in done.errors()
    assert not mirrored.file("/a.txt").exists()
    mirrored.sync()
    mirrored.sync("--min-free", "1000000T")  # there is nothing to be written
    mirrored.file("/a.txt").unlink()
    done = mirrored.audit("--repair", "--min-free", "1000000T", status=1)
    assert "--min-free" in done.errors()
    mirrored.audit("--repair", "--min-free", "none")


# Of a history, and of a list that goes on and on.
def test_a_source_with_too_many_resources_is_refused(mirrored, site, endless):
    mirrored.change_many(1, 10, "text")
    done = mirrored.sync("--max-entries", "9", status=1)
    assert "more than the 9 resources that --max-entries allows" in done.errors()
    assert sizes(mirrored) == []
    mirrored.sync("--max-entries", "10")
    done = mirrored.audit("--max-entries", "9", status=1)
    assert "--max-entries" in done.errors()


def test_a_list_without_an_end_is_refused(endless, run, tmp_path):
    endless.start = f'{HEAD}<urlset {NS}><rs:md capability="resourcelist"/>\n'.encode()
    endless.piece = f"<url><loc>{endless.url}/a.txt</loc></url>\n".encode() * 1000
    url = f"{endless.url}/resourcelist.xml"
    arguments = ("sync", url, tmp_path / "m", "--until-caught-up")
    done = run("tidings", *arguments, "--max-entries", "5000", status=1)
    assert "more than the 5000 resources that --max-entries allows" in done.errors()


@pytest.mark.parametrize("command", ["sync", "audit"])
@pytest.mark.parametrize(
    "given", ["--max-file 0", "--max-total 5X", "--min-free -1", "--max-entries 1K"]
)
def test_a_bound_that_makes_no_sense_is_bad_usage(run, command, given):
    arguments = ["http://127.0.0.1:1/", "m"]
    done = run("tidings", command, *arguments, *given.split(), status=2)
    assert f"{given.split()[0]} is a number" in done.errors()
