"""A source with many sets: `tidings` finds all of them from each address of the source,
and says which set it could not cover."""

import json
import re
import time

import pytest

from tidings_test.layouts import urlset
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

# More sets than are streamed at once, in several Source Descriptions.
MANY = soak(130, 6000)
PARTS = ("--description-sets", "50")
FEW = ("--heartbeat", "0.2", "--client-followed", "50")
STREAMS = ("websocket-json-deflate", "websocket-xml-deflate")  # of many sets, of one


@pytest.fixture
def source(mirrored, broker):
    """source(n): a source with `n` sets, each of which has one resource."""

    def make(n):
        sets = []
        for i in range(1, n + 1):
            sets.append(broker.set())
            mirrored.change(f"/{i}.txt", f"text {i}")
            mirrored.post(sets[-1])
        mirrored.url = f"{broker.url}/"
        mirrored.sets = sets
        return mirrored

    return make


def streams(broker):
    metrics = broker.metrics()
    return sum(metrics[f'tidings_subscribers{{transport="{kind}"}}'] for kind in STREAMS)


#
@pytest.mark.broker(*PARTS)
@pytest.mark.parametrize("n", [1, 12, 40, MANY])
def test_every_address_of_a_source_stands_for_all_its_sets(source, n):
    mirror = source(n)
    paths = ["/", "/.well-known/resourcesync", "/sets", "/robots.txt"]
    if n == MANY:
        paths = ["/", "/descriptions/000000000051-000000000100.xml"]
    for i, path in enumerate(paths):
        mirror.url = mirror.broker.url + path
        mirror.directory = mirror.home / str(i)
        assert mirror.sync().errors() == ""
        audited = mirror.audit()
        assert f"compared={n} missing=0" in audited.output()
        compared = "(tidings: compared at \\S+: requests: \\d+, differing ids: 0\n)?"
        assert re.fullmatch(f"{compared}(tidings: complete as of \\S+)?", audited.errors())


# One stream carries all sets; a broker that lets a client follow fewer sets by one has
# at most 100 streams, and the sync asks the other sets again.
@pytest.mark.parametrize(
    "n_streams",
    [
        pytest.param(1, marks=pytest.mark.broker(*PARTS, "--heartbeat", "0.2")),
        pytest.param(100, marks=pytest.mark.broker(*PARTS, *FEW)),
    ],
)
def test_all_sets_of_a_source_are_streamed_or_polled(source, n_streams):
    mirror = source(MANY)
    syncing = mirror.start("--poll", "1")
    for _ in range(MANY):
        mirror.wait("written")

    wait_for("the streams", lambda: streams(mirror.broker) == n_streams)
    for i in (MANY, 1):
        mirror.change(f"/{i}.txt", "newer")
        mirror.post(mirror.sets[i - 1])
        mirror.wait("written", f"/{i}.txt")
        wait_for("the streams", lambda: streams(mirror.broker) == n_streams)
    mirror.check_same()
    syncing.stop()


@pytest.fixture
def missing(source):
    """A mirror of three sets, and "/2.xml": the Capability List of one of them, which
    is on the site, as is their Source Description."""
    mirror = source(3)
    mirror.site.put("/2.xml", mirror.sets[1].get("capabilitylist.xml").body)
    urls = [f"{one.url}/capabilitylist.xml" for one in mirror.sets]
    urls[1] = mirror.site.link("/2.xml")
    mirror.site.put("/source.xml", description(urls))
    mirror.url = mirror.site.link("/source.xml")
    return mirror


def description(urls):
    md = '<rs:md capability="description"/>'
    return urlset((f"<url><loc>{url}</loc></url>" for url in urls), md)


# the offers of each set, and its proof.
@pytest.mark.broker(*PARTS)
@pytest.mark.parametrize("n", [1, 12, 40, MANY])
def test_each_set_of_a_source_is_told_and_proven(source, run, n):
    mirror = source(n)
    urls = [one.url for one in mirror.sets]
    told = run("tidings", "get", mirror.url, "--json")
    offers = [json.loads(line) for line in told.out]
    assert sorted(offer["set"] for offer in offers) == sorted(urls)
    proven = run("tidings", "verify", mirror.url)
    assert len(proven.out) == n
    for url in urls:
        (line,) = [line for line in proven.out if line.startswith(f"{url}: ")]
        assert "proven from the beginning to entry 1 " in line
    if n > 1:
        lines = run("tidings", "get", mirror.url).out
        positions = {offer["set"]: offer.get("position") for offer in offers}
        assert dict(line.split(" ") for line in lines) == positions


# every change of every set, once and over restarts.
@pytest.mark.broker(*PARTS)
@pytest.mark.parametrize("n", [1, 12, 40, MANY])
def test_all_sets_of_a_source_are_followed(source, run, tmp_path, n):
    mirror = source(n)

    def follow(*options):
        options = ("--state", tmp_path / "state", "--until-caught-up", *options)
        done = run("tidings", "follow", mirror.url, *options)
        assert done.errors() == ""
        return sorted(line.split()[3] for line in done.out)

    links = sorted(mirror.site.link(path) for path in mirror.files)
    assert follow("--from-start") == links
    assert follow() == []
    mirror.change("/1.txt", "newer")
    mirror.post(mirror.sets[-1])
    assert follow() == [mirror.site.link("/1.txt")]


# The follower streams each set, and also one that comes later.
@pytest.mark.broker(*PARTS, "--heartbeat", "0.2")
def test_a_follower_of_many_sets_goes_on(source, start, broker, tmp_path):
    mirror = source(MANY)
    command = 'echo "$TIDINGS_SET $TIDINGS_LOC"'
    options = ("--from-start", "--poll", "1", "--state", tmp_path / "state")
    following = start("tidings", "follow", mirror.url, *options, "--exec", command)
    following.out.wait(MANY)
    for of_set in (mirror.sets[-1], mirror.sets[0], broker.set()):
        mirror.change("/1.txt", "newer")
        mirror.post(of_set)
        told = f"{of_set.url} {mirror.site.link('/1.txt')}"
        assert following.out.next(lambda line: line == told) == told
    assert streams(broker) == 1
    following.stop()


# A source has one set, and then two: the file of its position keeps both.
@pytest.mark.broker("--heartbeat", "0.2")
def test_a_position_is_kept_for_each_set(source, run, start, broker, tmp_path):
    mirror = source(1)
    state = tmp_path / "state"
    options = ("--from-start", "--poll", "1", "--state", state)
    following = start("tidings", "follow", mirror.url, *options)
    following.out.wait(1)
    wait_for("the position", lambda: state.read_text().endswith("-1\n"))
    mirror.change("/b.txt", "b")
    mirror.post(broker.set())
    following.out.wait(2)
    following.stop()
    again = ("--until-caught-up", "--state", state)
    assert run("tidings", "follow", mirror.url, *again).output() == ""


# one line for each set that is not covered, and exit status 1; the sync mirrors
# the others, and deletes nothing of the set.
@pytest.mark.parametrize("trouble", ["404", "503", "html", "half"])
def test_a_set_that_cannot_be_read_is_said(missing, run, trouble):
    assert missing.sync().errors() == ""
    missing.change("/1.txt", "newer")
    missing.post(missing.sets[0])
    if trouble in ("404", "503"):
        missing.site.status("/2.xml", int(trouble))
    elif trouble == "html":
        missing.site.put("/2.xml", "<!DOCTYPE html><p>Not here")
    else:
        missing.site.cut("/2.xml", 300, times=None)
    for done in (
        missing.sync(status=1),
        missing.audit(status=1),
        missing.audit("--repair", status=1),
    ):
        one, last = done.errors().splitlines()
        assert one.startswith(f"tidings: {missing.site.link('/2.xml')}")
        assert "1 of 3 sets of " in last and "are not covered: " in last
        missing.check_same()
    commands = (["get"], ["verify"], ["follow", "--from-start", "--until-caught-up"])
    for command, *options in commands:
        done = run("tidings", command, missing.url, *options, status=1)
        one, last = done.errors().splitlines()
        assert one.startswith(f"tidings: {missing.site.link('/2.xml')}")
        assert "1 of 3 sets of " in last
        if command == "follow":
            assert len(done.out) == 3
            continue
        for i in (0, 2):
            assert missing.sets[i].url in done.output()


# It may be there again at the next look.
@pytest.mark.broker("--heartbeat", "0.2")
def test_a_set_that_can_be_read_again_is_followed(missing):
    missing.site.status("/2.xml", 404)
    syncing = missing.start("--poll", "1")
    missing.wait("trouble", "/2.xml")
    missing.site.status("/2.xml", None)
    missing.wait("written", "/2.txt")
    syncing.stop()
    missing.check_same()


# A source of which no set could be read at the first look is covered after the second.
def test_a_source_that_was_away_for_a_moment_is_covered(missing, run):
    missing.site.put("/source.xml", description([missing.site.link("/2.xml")]))
    missing.site.status("/2.xml", 503, times=3)
    done = missing.sync(is_same=False)
    assert missing.site.asked("/2.xml")[3].status == 200
    assert "are not covered" not in done.errors()
    missing.site.status("/2.xml", 503, times=3)
    follow = ("follow", missing.url, "--from-start", "--until-caught-up")
    assert len(run("tidings", *follow).out) == 1


class Lists:
    """A site with many sets, each of which has only a Resource List."""

    def __init__(self, site, n):
        self.site = site
        self.url = site.link("/source.xml")
        site.put("/source.xml", description([self._put_set(i) for i in range(n)]))

    def put_list(self, i, *names):
        locs = (self.site.link(f"/{i}/{name}") for name in names)
        lists = (f"<url><loc>{loc}</loc></url>" for loc in locs)
        return self._put(f"/{i}/list.xml", lists, "resourcelist")

    def _put_set(self, i):
        offer = f'<loc>{self.put_list(i, "a")}</loc><rs:md capability="resourcelist"/>'
        return self._put(f"/{i}/set.xml", [f"<url>{offer}</url>"], "capabilitylist")

    def _put(self, path, entries, capability):
        md = f'<rs:md capability="{capability}"/>'
        self.site.put(path, urlset(entries, md))
        return self.site.link(path)


# The follower reads sets that have only lists again and again, also without a stream:
# it finds the differences of a list without a file for it.
def test_the_lists_of_many_sets_are_followed(site, start):
    n = 102
    lists = Lists(site, n)
    put_list = lists.put_list
    follow = ("follow", lists.url, "--from-start", "--poll", "0.1")
    following = start("tidings", *follow, "--verbose")
    following.out.wait(n)
    for i in (0, n - 1):
        put_list(i, "a", "b")
        told = following.out.find(lambda line: line.endswith(f"/{i}/b"))
        assert told.split()[2] == "created"
        site.put(f"/{i}/list.xml", "<urlset>")  # its author is about to write it
        following.err.find(lambda line: f"/{i}/list.xml cannot be read" in line)
        put_list(i, "a", "b", "c")
        following.out.find(lambda line: line.endswith(f"/{i}/c"))
    following.stop()
    assert len(following.out) == n + 4


# Whatever a command asks a host for, it has so many connections there; and all its
# requests heed a Retry-After.
@pytest.mark.parametrize("per_host", [1, 3])
def test_many_sets_have_few_connections_to_their_host(site, start, tmp_path, per_host):
    n = soak(60, 400)
    lists = Lists(site, n)
    for i in range(n):
        site.put(f"/{i}/a", f"text {i}")
        site.hold(f"/{i}/list.xml")
    sync = ("sync", lists.url, tmp_path / "m", "--until-caught-up")
    syncing = start("tidings", *sync, "--per-host", per_host)
    held = [
        site.requests.next(lambda request: request.target.endswith("/list.xml"))
        for _ in range(per_host)
    ]
    first = held[0].target
    site.status(first, 429, "Retry-After: 1", times=1)
    refused_after = time.monotonic()
    site.release(first)
    syncing.err.find(lambda line: f"{first}: 429" in line)
    for i in range(n):
        site.release(f"/{i}/list.xml")
    assert syncing.wait() == 0
    assert f"done={n} failed=0" in syncing.output()
    assert site.most_parallel == per_host
    assert len(site.connections) == per_host
    behind = [request for request in site.requests if request.at > refused_after]
    assert all(request.at >= refused_after + 1 for request in behind)
