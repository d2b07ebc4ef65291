"""Filters: the same entries with the same seqs as without, on every way, without a
gap, at bounded cost."""

import pytest

from tidings_test import mixture
from tidings_test.broker import is_sanitized
from tidings_test.http import JSON, PAGE_VARY, XML, check_refused
from tidings_test.sets import change
from tidings_test.soak import soak
from tidings_test.stream import UPGRADE


def that_pass(passes, last):
    return [n for n in range(1, last + 1) if passes(n)]


def read_page(news, path, accept):
    """The page of the change memory at `path`, and the path of the next one."""
    answer = news.broker.get(path, accept=accept)
    assert answer["Vary"] == PAGE_VARY
    page = answer.message()
    page.check(filtered=True)
    if accept == XML:
        page.raw.check_valid()
        assert page.raw.count("/s:urlset/rs:ln[@rel='up']") == 1
        self, following = (page.raw.links[rel].href for rel in ("self", "next"))
        assert answer["Link"] == f'<{self}>; rel="self", <{following}>; rel="next"'
    else:
        following = page.next
        assert following in answer["Link"]
    assert following.startswith(news.broker.url)
    return page, following.removeprefix(news.broker.url)


def read_pages(news, path, accept):
    """The pages up to the head, behind which there is no further one (R-343), and the
    path to go on from."""
    pages = []
    while not pages or pages[-1].after < pages[-1].last:
        page, path = read_page(news, path, accept)
        pages.append(page)
    assert read_page(news, path, accept)[1] == path
    return pages, path


def check_memory(news, last):
    """R-342, R-343, R-344, R-349: the changes by change memory."""
    for query, passes in mixture.FILTERS:
        for accept in (JSON, XML):
            path = f"{news.changes}?after=0&{query}"
            pages, _ = read_pages(news, path, accept)
            seqs = [seq for page in pages for seq in page.seqs]
            assert seqs == that_pass(passes, last), (query, accept)


def check_streams(news, last):
    """R-349: the changes by WebSocket; each message begins where the one before has
    ended."""
    followers = [
        (passes, news.websocket(f"after=0&{query}", form))
        for query, passes in mixture.FILTERS
        for form in ("json", "xml")
    ]
    for passes, follower in followers:
        seqs = []
        while not follower.message or follower.message.last < last:
            seqs += follower.next().seqs
        assert follower.message.last == last
        assert seqs == that_pass(passes, last), follower
        follower.leave()


def check_all_ways(news, last):
    check_memory(news, last)
    check_streams(news, last)


# R-349; design.md section 4: same order and seq as unfiltered, in memory, in the
# store, in closed lists and after a restart.
def test_every_way_lets_through_the_same_entries(start_broker):
    broker = start_broker("--rotate-entries", "40", "--heartbeat", "0.1")
    news = broker.set()
    in_the_way = broker.data / "sets"  # so that lists get no files
    in_the_way.write_text("in the way")
    mixture.post(news, 1, 250)
    check_all_ways(news, 250)

    broker.stop()
    broker.restart()  # the tail is empty, lists have no files
    check_all_ways(news, 250)

    in_the_way.unlink()
    news.wait_list_files(6)
    broker.kill()
    broker.restart()  # now they have
    check_all_ways(news, 250)
    mixture.post(news, 251, 290)
    check_all_ways(news, 290)


# Design section 1: live, with changes that pass and changes that do not in turn. A
# heartbeat states the position while no change passes.
@pytest.mark.broker("--heartbeat", "0.1")
def test_a_quiet_filter_is_told_how_far_it_is(news):
    news.post()
    follower = news.websocket("change=deleted", form="xml")
    everything = news.websocket()
    assert follower.next().last == 1
    everything.next()

    news.post(5)
    everything.until(6)
    while follower.message.last < 6:
        assert not follower.next().entries
    assert follower.message.last == 6

    news.post(3)
    news.post_change("http://example.com/r/1", "deleted")
    assert follower.news().last == 10
    assert follower.message.seqs == [10]


# The same where one post leaves its place so far behind that it is not in memory any
# more.
@pytest.mark.broker("--heartbeat", "0.1", "--tail-bytes", "1048576")
def test_a_quiet_filter_is_told_when_its_place_is_on_a_disk(news):
    news.post()
    follower = news.websocket("change=deleted")
    assert follower.next().last == 1
    last = news.post(5000, size=400).last
    while follower.message.last < last:
        assert not follower.next().entries
    assert follower.message.last == last


# a killed follower goes on where it was, with a broker that is killed,
# too. A crash may repeat lines.
def test_a_filtered_follower_that_is_killed_goes_on(start_broker, start, tmp_path):
    broker = start_broker("--rotate-entries", "70")
    news = broker.set()
    state = tmp_path / "state"
    wanted = ("--tag", "blue", "--tag", "red&green", "--state", state, "--from-start")
    seqs = []
    for done in range(0, 600, 100):
        mixture.post(news, done + 1, done + 100)
        # 98 % 11 is 10, 95 % 11 is 7: some of a hundred's last ten passes.
        follows = start("tidings", "follow", news.url, *wanted)
        follows.out.find(lambda line, far=done + 90: int(line.split()[0]) >= far)
        follows.kill()
        for seq in [int(line.split()[0]) for line in follows.out]:
            if not seqs or seq > seqs[-1]:
                seqs.append(seq)
        if done // 100 % 2:
            broker.kill()
            broker.restart()
    assert seqs == that_pass(mixture.is_blue_or_red, seqs[-1])


LONG = soak(20000, 100000)  # entries of a history of which nearly nothing passes


# Rules 6 and 8: passing over a long history, from files, makes no messages, and holds
# up nobody. R-344: the memory looks at so much a page, and says how far it has come.
def test_a_laggard_passes_over_what_it_does_not_get(start_broker):
    options = ("--rotate-entries", LONG // 5, "--tail-bytes", 1048576)
    broker = start_broker(*options)
    news = broker.set()
    for _ in range(0, LONG, 5000):
        news.post(5000)
    pages, path = read_pages(news, f"{news.changes}?change=deleted", JSON)
    assert not any(page.entries for page in pages)
    assert max(2, LONG // 33333) <= len(pages) <= LONG / 2000
    assert path.endswith(f"-{LONG}&change=deleted")

    news.post_change("http://example.com/last", "deleted")
    news.wait_list_files(5)
    broker.stop()
    broker.restart()
    live = news.websocket()
    live.next()
    followers = [
        news.websocket(
            f"after=0&change=deleted&prefix=http://example.com/{'l' if i % 2 else ''}",
            form="json" if i % 3 else "xml",
        )
        for i in range(8)
    ]
    news.post(first=1)
    live.until(LONG + 2)
    for follower in followers:
        assert follower.next().last == 0
        assert follower.news().seqs == [LONG + 1]


# The tail, and the fragments of allocation. Without bounds a batch would have its forms
# for a hundred classes.
GROWTH_KIB = 40 * 1024


# Design section 5, rule 8: a hundred filters, each of two readers, so that the broker
# keeps their messages, do not cost a hundred times the log.
def test_a_hundred_filters_are_bounded(start_broker):
    broker = start_broker("--tail-bytes", "8388608")
    news = broker.set()
    news.post()
    followers = []
    for i in range(200):
        query = f"tag=t{i // 2}&tag=all"
        followers.append(news.websocket(query, form="json" if i % 2 else "xml"))
        followers[-1].next()
    before = broker.process.memory_kib()
    for post in range(soak(6, 100)):
        body = [
            change(f"http://example.com/{post}/{i}", "updated", tags=[f"t{i % 200}"])
            for i in range(1000)
        ]
        body[500]["tags"].append("all")
        assert news.receipt(news.send(body)).last == 1 + (post + 1) * 1000
        for follower in followers:
            n = 0
            while follower.message.last < 1 + post * 1000 + 501:
                n += len(follower.next().entries)
            assert n > 0
    if not is_sanitized():
        assert broker.process.memory_kib() <= before + GROWTH_KIB


BAD = [
    ("change=moved", 'change: not created, updated or deleted: "moved"'),
    (
        "tag=",
        "tag: not 1 to 128 bytes of UTF-8 without white space and control "
        'characters: ""',
    ),
    (
        "prefix=%09",
        "prefix: empty, or with white space, a control character or invalid "
        'UTF-8: "?"',
    ),
    ("type=png", 'type: not TYPE/SUBTYPE, TYPE/* or */*, without parameters: "png"'),
    ("&".join(f"tag={i}" for i in range(1, 34)), "tag: more than 32 values"),
]


# Hostile input gets a clear problem that names the parameter; 400 by plain HTTP and by
# the handshake of a stream.
def test_bad_filters_are_refused_and_named(news, broker):
    news.post()
    for query, why in BAD:
        for path, headers in ((news.changes, {}), (news.stream, UPGRADE)):
            answer = broker.get(f"{path}?{query}", **headers)
            check_refused(answer, 400)
            assert answer.json()["detail"] == why
    assert broker.get(f"{news.changes}?prefix={'x' * 1500}").status == 400


# RFC 9110 section 12.5.1; R-342.
def test_the_memory_is_json_or_xml_as_it_is_asked_for(news):
    news.post(3)
    for accept, type in (
        (None, JSON),
        ("*/*", JSON),
        (XML, XML),
        ("text/xml", "text/xml"),
        ("text/html", "text/html; charset=utf-8"),
        ("application/json;q=0.4, application/xml;q=0.5", XML),
    ):
        answer = news.get("changes", accept=accept)
        assert (answer.status, answer["Content-Type"]) == (200, type)
        assert answer["Vary"] == PAGE_VARY
    answer = news.get("changes", accept="image/png, application/json;q=0")
    check_refused(answer, 406)
    assert answer.json()["detail"] == (
        "this is served as application/json, application/xml, text/xml, and "
        'text/html, not as "image/png, application/json;q=0"'
    )
