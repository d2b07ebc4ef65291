"""The set of a source is found from each of its addresses, and its history is read from
its lists alone, across many rotations."""

import pytest

from tidings_test.sets import change

LAST = 120  # of 24 lists, most of them in archives
POLL = ("--transport", "poll")


@pytest.fixture
def demo(start_broker):
    """The one set of a source, with many changes of three resources."""
    broker = start_broker("--rotate-entries", 5, "--index-lists", 3)
    demo = broker.set("demo")
    for _ in range(LAST // 3):
        locs = [f"http://r.example/resource/{name}" for name in "abc"]
        demo.receipt(demo.send([change(loc, "updated") for loc in locs]))
    return demo


@pytest.fixture
def follow(run, tmp_path):
    """follow(demo, url, "--from-start"): the numbers of the changes that `tidings
    follow` prints; it reaches the set's position."""
    state = tmp_path / "state"

    def follow(demo, url, *options):
        state.unlink(missing_ok=True)
        until = ("--until-caught-up", "--state", state)
        done = run("tidings", "follow", url, *options, *until)
        assert demo.state()["position"] in state.read_text().split()
        return [int(line.split()[0]) for line in done.out]

    return follow


# By lists, change memory, stream, events and topic
WAYS = [
    POLL,
    ("--transport", "longpoll"),
    ("--transport", "websocket"),
    ("--transport", "events"),
    ("--callback-listen", "127.0.0.1:0"),
]


# whichever document one begins with.
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_a_set_is_found_from_each_of_its_addresses(demo, follow, way):
    own = ["", "/capabilitylist.xml", "/changelist.xml", "/changelist-archive.xml"]
    own += ["/changes/latest.xml", "/changes/000000000002.xml", "/notifications"]
    urls = [demo.url + path for path in own]
    urls += [demo.broker.url + path for path in ("/sets", "/.well-known/resourcesync")]
    for url in [*urls, demo.broker.url + "/"]:
        assert follow(demo, url, "--from-start", *way) == list(range(1, LAST + 1))


# every change once and in order, from any place, out of open list,
# index and archives.
def test_the_history_is_read_from_any_place(demo, follow):
    epoch = demo.state()["epoch"]
    for seq in range(0, LAST + 1, 13):
        seqs = follow(demo, demo.url, "--after", f"{epoch}-{seq}", *POLL)
        assert seqs == list(range(seq + 1, LAST + 1))
    midway = demo.page("after=59").entries[0].datetime
    seqs = follow(demo, demo.url, "--since", midway, *POLL)
    assert seqs == list(range(61, LAST + 1))


# a list that ends before the place may be an old copy, so it is read again. A
# place behind the end of the same log is one that it has lost.
def test_a_place_that_the_log_never_had_is_gone(demo, run):
    epoch = demo.state()["epoch"]
    options = (*POLL, "--poll", "0.1", "--until-caught-up")
    for place, status in ((f"{epoch}-{LAST + 1}", 4), ("fedcba9876543210-7", 3)):
        gone = run("tidings", "follow", demo.url, "--after", place, *options, status=status)
        assert len(gone.out) == 0
