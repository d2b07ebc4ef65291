"""Sets with content=fetch: the broker fetches the bytes of changes, keeps them if they
are as stated, and has manners. One fetch, whatever the other side does:
tests/unit/archive/fetcher_test.c."""

import gzip
import hashlib
import zlib

import pytest

from tidings_test import hub
from tidings_test.servers import Server
from tidings_test.waiting import wait_for

FETCHED = "tidings_fetched_total"
GIVEN_UP = "tidings_fetches_given_up_total"

# The broker repeats failed fetches at once, so that no test waits.
AT_ONCE = ("--fetch-retry-first", "0.01", "--fetch-retry-max", "0.02")
OUTSIDE = ("--content", "fetch", *AT_ONCE)
FETCH = (*OUTSIDE, *hub.LOOPBACK)


def failed(reason):
    return f'tidings_fetches_failed_total{{reason="{reason}"}}'


class Fetching:
    """A set of a broker of its own, whose figures belong to this test, and the site of
    its resources."""

    def __init__(self, broker, site):
        self.broker = broker
        self.set = broker.set()
        self.site = site
        self.given_up = 0

    def tell(self, url, text, length=..., algorithm="sha256"):
        """Post that there is `text` at that URL; None: without its hash, or length."""
        more = {}
        if algorithm:
            sum_ = hashlib.new(algorithm, text.encode()).hexdigest()
            more["hash"] = {algorithm.replace("sha", "sha-"): sum_}
        length = len(text) if length is ... else length
        if length is not None:
            more["length"] = length
        self.set.post_change(url, "updated", **more)

    def offer(self, path, text, site=None):
        """Put a page at the site, and post a true change of it."""
        site = site or self.site
        site.put(path, text)
        self.tell(site.link(path), text)

    def is_kept(self, text):
        sum_ = hashlib.sha256(text.encode()).hexdigest()
        path = self.set.folder / "content" / sum_[:2] / sum_
        if not path.exists():
            return False
        assert path.read_text() == text
        return True

    def wait_kept(self, *texts):
        for text in texts:
            wait_for(f"{text} to be kept", lambda text=text: self.is_kept(text))

    def wait_metric(self, series, n):
        """Wait until it is so much; all metrics as they are then."""
        wait_for(f"{n} {series}", lambda: self.broker.metrics()[series] >= n)
        metrics = self.broker.metrics()
        assert metrics[series] == n
        return metrics

    def wait_given_up(self, n):
        """Wait until so many fetches were given up; the broker logs that. All metrics
        of that moment."""
        for _ in range(n - self.given_up):
            self.broker.process.err.next(lambda line: "is given up" in line)
        self.given_up = n
        return self.wait_metric(GIVEN_UP, n)

    def wait_idle(self):
        metrics = self.broker.metrics
        wait_for("the end of all fetches", lambda: metrics()["tidings_fetches"] == 0)

    def wait_content(self, **numbers):
        """Wait until the set says so much of its content: a moment after the file is
        there."""
        for name, n in numbers.items():
            wait_for(
                f"{n} {name}",
                lambda name=name, n=n: self.set.state()["content"][name] == n,
            )

    def arriving(self):
        return list((self.broker.data / "arriving").iterdir())


@pytest.fixture
def start_fetching(start_broker, site):
    def start(*options, env=None):
        return Fetching(start_broker(*(options or FETCH), env=env), site)

    return start


@pytest.fixture
def other(start_site):
    return start_site()


# Kept content


#
def test_what_is_as_told_is_kept(start_fetching, site, other):
    s = start_fetching()
    s.offer("/a", "first")
    site.put("/b", "hello")
    s.tell(site.link("/b"), "hello", length=None, algorithm="md5")
    s.wait_kept("first", "hello")
    assert s.wait_metric("tidings_fetched_bytes_total", 10)[FETCHED] == 2
    s.wait_idle()
    s.wait_content(kept=2, missing=0)
    assert site.asked("/a")[0]["Accept-Encoding"] == "identity"

    s.tell(other.link("/same"), "first")  # is there
    s.offer("/c", "last")
    s.wait_kept("last")
    assert not len(other.requests)
    assert len(site.requests) == 3
    assert not s.arriving()


# and the broker does not request bytes without a stated hash.
def test_what_is_not_as_told_is_not_kept(start_fetching, site):
    s = start_fetching()
    site.put("/differs", "Hello")
    s.tell(site.link("/differs"), "hello")
    site.put("/long", "hello!")
    s.tell(site.link("/long"), "hello!", length=5)
    site.delete("/gone")
    s.tell(site.link("/gone"), "gone")
    s.tell("ftp://example.org/a", "a")
    metrics = s.wait_given_up(4)
    for reason, n in (("differs", 2), ("status", 1), ("refused", 1)):
        assert metrics[failed(reason)] == n

    site.put("/silent", "silent")
    s.tell(site.link("/silent"), "silent", algorithm=None)
    s.offer("/a", "kept")
    s.wait_kept("kept")
    assert not len(site.asked("/silent"))
    assert len(site.requests) == 4  # each once
    s.wait_content(kept=1, missing=5)
    assert not s.arriving()


CODINGS = {"gzip": gzip.compress, "X-GZIP": gzip.compress, "deflate": zlib.compress}


# no coding was asked for. Digest and length are those of the plain bytes, or, of a
# source that announces coded ones, of these.
@pytest.mark.parametrize("coding", CODINGS)
def test_a_coding_that_nobody_asked_for_is_undone(start_fetching, site, coding):
    s = start_fetching()
    text = "plain " * 9000
    site.put("/a", CODINGS[coding](text.encode()))
    site.headers("/a", f"Content-Encoding: {coding}")
    s.tell(site.link("/a"), text)
    s.wait_kept(text)
    assert site.asked("/a")[0]["Accept-Encoding"] == "identity"

    coded = "as long as it is " + "x" * 90
    site.put("/b", CODINGS[coding](coded.encode()))
    site.headers("/b", f"Content-Encoding: {coding}")
    sent = CODINGS[coding](coded.encode())
    digest = hashlib.sha256(sent).hexdigest()
    about = {"hash": {"sha-256": digest}, "length": len(sent), "encoding": "gzip"}
    s.set.post_change(site.link("/b"), **about)
    s.wait_content(kept=2)
    assert len(site.asked("/a")) == 1 and len(site.asked("/b")) == 2
    kept = s.set.folder / "content" / digest[:2] / digest
    assert kept.read_bytes() == sent
    assert not s.arriving()


#
def test_a_coding_that_cannot_be_undone_is_told(start_fetching, site):
    s = start_fetching(*FETCH, "--fetch-tries", "1")
    for n, (coding, body) in enumerate(
        (("br", b"?"), ("gzip, gzip", b"?"), ("gzip", b"plain"), ("deflate", b"\xff\xff"))
    ):
        site.put(f"/{n}", body)
        site.headers(f"/{n}", f"Content-Encoding: {coding}")
        s.tell(site.link(f"/{n}"), "plain")
        line = s.broker.process.err.next(lambda line: "is given up" in line)
        assert "Content-Encoding" in line, line
    s.wait_metric(failed("broken"), 4)


# some bytes that become a gigabyte.
def test_a_coding_is_undone_no_further_than_the_length(start_fetching, site):
    s = start_fetching(*FETCH, "--max-content", "1M")
    site.put("/a", gzip.compress(b"0" * (64 << 20)))
    site.headers("/a", "Content-Encoding: gzip")
    s.tell(site.link("/a"), "0", length=None)
    assert s.wait_given_up(1)[failed("too-large")] == 1
    assert not s.arriving()


# RFC 3987 3.1. The server takes ASCII alone.
def test_an_iri_is_asked_for_as_a_uri(start_fetching, site):
    s = start_fetching()
    for path, sent in (
        ("/\u00e9.txt", "/%C3%A9.txt"),
        ("/q?x=\u00e9#\u00fc", "/q?x=%C3%A9"),
        ("/%C3%A9/\u20ac|", "/%C3%A9/%E2%82%AC%7C"),
    ):
        site.put(sent, sent)
        s.tell(site.link(path), sent)
        s.wait_kept(sent)
        assert [request.target for request in site.asked(sent)] == [sent]


# two changes, and the site serves only the second one's bytes.
def test_a_later_version_is_kept_for_its_own_entry(start_fetching, site):
    s = start_fetching()
    site.hold("/a")
    s.offer("/a", "first")
    site.asked("/a").wait(1)
    s.offer("/a", "second")  # while the first is fetched
    site.release("/a")
    s.wait_kept("second")
    s.wait_given_up(1)
    assert not s.is_kept("first")
    s.wait_content(missing=1)


@pytest.mark.broker(*FETCH)
def test_redirects_lead_to_what_is_kept(broker, site, other):
    s = Fetching(broker, site)
    other.put("/there", "moved")
    site.status("/a", 307, f"Location: {other.link('/there')}")
    s.tell(site.link("/a"), "moved")
    s.wait_kept("moved")


# Failures


def test_what_fails_is_tried_again_a_few_times(start_fetching, site):
    s = start_fetching(*FETCH, "--fetch-tries", "3")
    site.status("/a", 500, times=2)
    s.offer("/a", "at last")
    s.wait_kept("at last")
    assert len(site.asked("/a")) == 3

    site.status("/b", 500)
    s.offer("/b", "never")
    metrics = s.wait_given_up(1)
    assert len(site.asked("/b")) == 3
    assert metrics[failed("status")] == 5
    s.wait_content(missing=1)


# Fetches from another host go on meanwhile.
def test_who_says_retry_after_is_left_alone(start_fetching, site, other):
    s = start_fetching()
    site.status(None, 503, "Retry-After: 3600")
    s.offer("/a", "later")
    site.asked("/a").wait(1)
    s.wait_metric(failed("status"), 1)
    s.offer("/b", "later, too")
    for path in ("/one", "/two", "/three"):
        s.offer(path, path, other)
    s.wait_kept("/one", "/two", "/three")
    assert len(site.requests) == 1
    s.wait_content(missing=2)


class Endless(Server):
    """Answers with a body that has no end."""

    async def serve(self, peer):
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await peer.send(b"x" * 4096)


class Hanging(Server):
    """Sends half of a body, and then nothing."""

    async def serve(self, peer):
        await peer.head()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
        await peer.gone()


@pytest.fixture
def odd(request):
    """The server that the test names."""
    server = request.param()
    yield server
    server.end()


@pytest.mark.parametrize("odd", [Endless], indirect=True)
def test_a_body_without_end_is_given_up(start_fetching, site, odd):
    s = start_fetching(*FETCH, "--max-content", "1M")
    s.tell(f"{odd.url}/a", "x", length=None)
    assert s.wait_given_up(1)[failed("too-large")] == 1
    s.tell(site.link("/a"), "x", length=1048577)
    s.wait_given_up(2)
    assert not len(site.requests)  # it was told
    assert not s.arriving()


@pytest.mark.parametrize("odd", [Hanging], indirect=True)
def test_a_silent_body_ends(start_fetching, odd):
    s = start_fetching(*FETCH, "--fetch-stall", "0.2", "--fetch-tries", "1")
    s.tell(f"{odd.url}/a", "hello")
    assert s.wait_given_up(1)[failed("timeout")] == 1


# W-160: even of a broker on loopback: the URL may come from far away.
@pytest.mark.parametrize("open_to", [(), ("--insecure-open",)])
def test_private_addresses_are_asked_only_if_allowed(start_fetching, site, open_to):
    s = start_fetching(*OUTSIDE, *open_to, "--fetch-tries", "2")
    s.offer("/a", "inside")
    assert s.wait_given_up(1)[failed("refused")] == 2
    assert not len(site.connections)
    assert not s.is_kept("inside")

    s = start_fetching(*FETCH, *open_to)
    s.offer("/a", "inside")
    s.wait_kept("inside")


# Ends


# After any end the broker repeats the interrupted fetches, and has deleted their
# partial files.
def test_after_an_end_it_goes_on(start_fetching, site):
    s = start_fetching()
    for path, end in (("/stopped", s.broker.stop), ("/killed", s.broker.kill)):
        site.hold(path)
        s.offer(path, path)
        site.asked(path).wait(1)
        end()
        if path == "/stopped":
            assert not s.arriving()
        (s.broker.data / "arriving/left").touch()
        site.release(path)
        s.broker.restart()
        s.wait_kept(path)
        assert not s.arriving()
    s.wait_content(kept=2)


def test_a_set_that_is_removed_wants_nothing_more(start_fetching, site, other):
    s = start_fetching()
    paths = ("/a", "/b", "/c", "/d")
    for path in paths:
        site.hold(path)
        s.offer(path, path)
    site.requests.wait(2)
    assert s.broker.delete(f"{s.set.path}?confirm={s.set.name}").status == 204
    s.offer("/e", "of another", other)
    s.wait_kept("of another")  # the broker has looked at all by then
    for path in paths:
        site.release(path)
    s.wait_idle()
    assert len(site.requests) == 2  # the others waited
    assert not any(s.is_kept(path) for path in paths)
    # A fetch is counted first, and cleared away then.
    wait_for("what had arrived to go", lambda: not s.arriving())


# nothing is given up for want of room.
def test_without_room_on_the_disk_it_waits(start_fetching, faults):
    s = start_fetching(*FETCH, "--fetch-tries", "1", env=faults.env)
    faults.set_disk(200 << 20)
    s.offer("/a", "patient")
    wait_for("a failure", lambda: s.broker.metrics()[failed("room")] >= 1)
    assert not s.is_kept("patient")
    wait_for("what had arrived to go", lambda: not s.arriving())
    faults.set_disk(0)
    s.wait_kept("patient")
    assert s.broker.metrics()[GIVEN_UP] == 0


# Manners


@pytest.mark.broker(*FETCH)
def test_a_host_is_asked_for_no_more_than_two_at_once(broker, site, other):
    s = Fetching(broker, site)
    paths = [f"/{i}" for i in range(12)]
    for path in paths:
        site.hold(path)
        s.offer(path, path)
    site.requests.wait(2)
    s.offer("/beside", "beside", other)  # others need not wait for it
    s.wait_kept("beside")
    assert len(site.requests) == 2
    for path in paths:
        site.release(path)
    s.wait_kept(*paths)
    assert site.most_parallel == 2
    assert len(site.requests) == 12


@pytest.mark.broker("--content", "none", *AT_ONCE, *hub.LOOPBACK)
def test_only_sets_that_fetch_are_fetched_for(broker, site):
    s = Fetching(broker, site)
    s.offer("/a", "before")
    s.offer("/b", "before, too")
    assert not len(site.requests)
    assert s.set.put(content="fetch").status == 200
    s.wait_kept("before", "before, too")  # the log still has its entries


# The sets of one owner wait for content that never comes, from more hosts than there
# are connections: the content of another owner comes, also from one of these hosts.
def test_fetches_of_one_owner_that_hang_delay_nobody(start_broker, start_site):
    broker = start_broker(*FETCH, "--fetch-stall", "600", "--fetch-timeout", "600")
    broker.add_token("root", admin=True)
    every = {right: ["*"] for right in ("publish", "manage", "subscribe")}
    fields = {
        name: {"authorization": f"Bearer {broker.add_token(name, **every)}"}
        for name in ("greedy", "other")
    }
    sites = [start_site(f"127.0.2.{i + 1}") for i in range(8)]
    text = "no hurry"

    def entry_of(url, text):
        sum_ = hashlib.sha256(text.encode()).hexdigest()
        about = {"change": "updated", "length": len(text)}
        return {"loc": url, "hash": {"sha-256": sum_}, **about}

    for nth in range(4):
        entries = []
        for i in range(40):
            page = f"/{nth}/{i}"
            sites[i % 8].put(page, text)
            sites[i % 8].hold(page)
            entries.append(entry_of(sites[i % 8].link(page), text))
        changes = {"changes": entries}
        path = f"/sets/greedy{nth}/changes"
        assert broker.post(path, changes, **fields["greedy"]).status == 200
    wait_for("fetches under way", lambda: broker.metrics()["tidings_fetches"] >= 16)

    sites[0].put("/other", "at once")
    entry = entry_of(sites[0].link("/other"), "at once")
    assert broker.post("/sets/other/changes", entry, **fields["other"]).status == 200
    wait_for("the other's content", lambda: broker.metrics()[FETCHED] == 1)
