"""Sources that are enormous, or have no end: `tidings` stops with a reason; its files
are whole."""

import itertools

import pytest

from tidings_test.content import multipart
from tidings_test.broker import PROGRAMS
from tidings_test.layouts import HEAD, NS, Sitemap
from tidings_test.mirrored import entry
from tidings_test.servers import Server
from tidings_test.sets import change

pytestmark = pytest.mark.broker("--heartbeat", "0.2")

KIB = 1 << 10
TIME = "2026-01-01T00:00:00Z"
ENTRY = b"<url><loc>http://127.0.0.1:1/%d</loc></url>\n"
BASELINE = "takes a baseline: "
FEW = {"/a.txt": "a", "/b.txt": "b"}


XML = f"{HEAD}<urlset {NS}><rs:md capability='description'/><url><loc>http://127.0.0.1:1/".encode()

# Descriptions of a source that begin and never end.
DESCRIPTIONS = {
    "string": (b'{"a":["', b"x"),
    "name": (b'{"position":"a-1","links":[],"name":"', b"x"),
    "space": (b"{", b" "),
    "deep": (b"", b'{"a":['),
    "links": (b'{"position":"a-1","links":[', b'{"rel":"x","href":"http://127.0.0.1:1/"},'),
    "nesting": (XML, b"<a>"),
    "tag": (XML + b"</loc><rs:md capability='", b"x"),
}

# Answers of a provider of OAI-PMH.
OAI = b"<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'>"
VERB = "oai?verb=ListRecords&x="
ANSWERS = {
    VERB + "text": (OAI + b"<responseDate>", b"x"),
    VERB + "nesting": (OAI, b"<a>"),
    VERB + "tag": (OAI + b"<Identify x='", b"x"),
    VERB + "elements": (OAI + b"<ListRecords>", b"<record></record>"),
}

LIMIT = "a string or space of more than 524288 bytes"
NAMED = {
    **dict.fromkeys(("string", "name", "space"), LIMIT),
    "deep": "nested",
    "links": "it is longer than 1048576 bytes",
    "nesting": "elements nest deeper than 32",
    "tag": "a tag, comment or text of more than 524288 bytes",
    **dict.fromkeys(ANSWERS, "longer than 67108864 bytes"),
}


class Endless(Server):
    """Answers with bytes again and again; for /list.xml with a Resource List."""

    async def serve(self, peer):
        request = await peer.request()
        if not request:
            return
        await peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        begin, more = {**DESCRIPTIONS, **ANSWERS}.get(request.target.strip("/"), (b"", b""))
        await peer.send(begin)
        while more:
            await peer.send(more * (65536 // len(more)))
        if request.target != "/list.xml":
            while True:
                await peer.send(b"x" * 65536)
        start = f'{HEAD}<urlset {NS}><rs:md capability="resourcelist" at="{TIME}"/>\n'
        await peer.send(start.encode())
        for n in itertools.count(step=1000):
            await peer.send(b"".join(ENTRY % i for i in range(n, n + 1000)))


@pytest.fixture
def endless():
    server = Endless()
    yield server
    server.close()


class Command:
    """A command that reads a source, and writes its files below `home`."""

    def __init__(self, words, home, news):
        self.words = words
        self.news = news
        self.names = {
            "DIR": home / "mirror",
            "STATE": home / "state",
            "SET": news.url,
        }
        self.temporary = home / "temporary"
        home.mkdir()
        self.temporary.mkdir()

    def given(self, url, *more):
        names = {"URL": url, **self.names}
        return (*(names.get(word, word) for word in self.words.split()), *more)

    def check_clean(self):
        """No temporary files are left, and the set has nothing."""
        assert list(self.temporary.iterdir()) == []
        assert self.news.last() == 0


COMMANDS = [
    "sync URL DIR --until-caught-up",
    "follow URL --from-start",
    "follow URL --from-start --state STATE",
    "harvest URL SET --state STATE",
]


@pytest.fixture(params=COMMANDS)
def command(request, tmp_path, news):
    return Command(request.param, tmp_path / "home", news)


@pytest.fixture
def stop(command, run):
    """stop(url, "--max-entries", "1"): the command ends with 1; returns the one line
    with the reason."""

    def stop(url, *more):
        where = {"TMPDIR": str(command.temporary)}
        done = run("tidings", *command.given(url, *more), status=1, env=where)
        command.check_clean()
        said = [line for line in done.errors().split("\n") if BASELINE not in line]
        assert len(said) == 1
        return said[0]

    return stop


def incoming(mirrored):
    """The remains of files that did not arrive completely."""
    return list((mirrored.directory / ".tidings/incoming").iterdir())


def sizes(mirrored):
    """The bytes of the files that are there."""
    return [path.stat().st_size for path in mirrored.directory.glob("[!.]*/r/*")]


# The sync gives up a resource that is too long, for any stated length, and fetches the
# others.
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


# Reserved space stays free; a repair respects it, too.
def test_a_full_disk_is_left_alone(mirrored):
    mirrored.change("/a.txt", "a")
    done = mirrored.sync("--min-free", "1000000T", status=1)
    assert "and --min-free keeps 1048576000000 MiB" in done.errors()
    assert not mirrored.file("/a.txt").exists()
    mirrored.sync()
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


# A limit is named, with the page that is over it, and is no want of memory.
@pytest.mark.parametrize(
    "words",
    (
        "follow URL --count 1",
        "get URL",
        "sync URL DIR --until-caught-up",
        "harvest URL SET --once --state STATE",
        "verify URL",
    ),
)
@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_a_description_without_an_end_names_its_limit(
    endless, run, tmp_path, kind, words, news
):
    check_limit(endless, run, Command(words, tmp_path / "home", news), kind)


# So does a page whose address is too long for its links.
@pytest.mark.parametrize("words", ("get URL", "sync URL DIR", "verify URL"))
def test_a_page_with_a_long_address_names_the_limit(site, run, tmp_path, words, news):
    path = "/" + "a" * 8192
    site.put(path, "<html><head></head></html>")
    done = run("tidings", *Command(words, tmp_path / "home", news).given(site.link(path)), status=1)
    assert done.errors().endswith(": the address of the page is longer than 8192 bytes")


# The same of an answer of OAI-PMH.
@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_without_an_end_names_its_limit(endless, run, tmp_path, kind, news):
    command = Command(COMMANDS[3] + " --once", tmp_path / "home", news)
    check_limit(endless, run, command, kind)


def check_limit(endless, run, command, kind):
    url = f"{endless.url}/{kind}"
    done = run("tidings", *command.given(url), status=1)
    assert "memory" not in done.errors()
    assert url in done.errors() and NAMED[kind] in done.errors()


def test_a_list_without_an_end_is_refused(endless, stop):
    said = stop(f"{endless.url}/list.xml", "--max-entries", "5000")
    assert "more than the 5000 resources that --max-entries allows" in said


# Also where an earlier list was good, and a broken one would be read again.
@pytest.mark.parametrize(
    "words", ["follow URL --poll 0.1", COMMANDS[3] + " --every 0.1"]
)
def test_a_list_that_becomes_too_long_ends_it(words, site, start, tmp_path, news):
    command = Command(words, tmp_path / "home", news)
    sitemap = Sitemap(site)
    sitemap.publish(FEW)
    program = start("tidings", *command.given(sitemap.url, "--max-entries", "2"))
    site.asked("/sitemap.xml").wait(3)
    sitemap.publish({**FEW, "/c.txt": "c"})
    assert program.wait() == 1
    assert "the 2 resources that --max-entries allows" in program.errors()


def test_a_list_leaves_a_full_disk_alone(stop, command, site):
    sitemap = Sitemap(site)
    sitemap.publish(FEW)
    said = stop(sitemap.url, "--min-free", "1000000T")
    assert "and --min-free keeps 1048576000000 MiB" in said


# On a small disk of its own: no command writes into the reserved space.
def test_a_list_without_an_end_fills_no_disk(endless, command, start):
    home = command.temporary.parent
    shell = (
        f"mount -t tmpfs -o size=40m tmpfs '{home}' || exit 77; "
        f"mkdir '{command.temporary}'; \"$@\"; code=$?; "
        f"ls -A '{command.temporary}'; exit $code"
    )
    within = "/usr/bin/unshare --user --map-root-user --mount /bin/sh -c".split()
    given = command.given(f"{endless.url}/list.xml", "--min-free", "30M")
    where = {"TMPDIR": str(command.temporary)}
    program = start(*within, shell, "sh", PROGRAMS["tidings"], *given, env=where)
    status = program.wait()
    if status == 77 or "unshare" in program.errors():
        pytest.skip("no small disk to be had")
    assert status == 1
    said = program.errors().split("\n")[-1]
    assert said.startswith(f"tidings: {home}/")
    assert said.endswith("MiB free, and --min-free keeps 30 MiB")
    assert program.output() == ""
    command.check_clean()


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("given", ["--min-free -1", "--max-entries 1K"])
def test_a_limit_that_makes_no_sense_is_bad_usage(run, words, given):
    done = run("tidings", *words.split(), *given.split(), status=2)
    name, value = given.split()
    assert f'{name}: "{value}" is not a number' in done.errors()


@pytest.mark.parametrize("command", ["sync", "audit"])
@pytest.mark.parametrize("given", ["--max-file 0", "--max-total 5X"])
def test_a_bound_that_makes_no_sense_is_bad_usage(run, command, given):
    arguments = ["http://127.0.0.1:1/", "m"]
    done = run("tidings", command, *arguments, *given.split(), status=2)
    name, value = given.split()
    assert f'{name}: "{value}" is not a number' in done.errors()
