"""The Python package tidings: everything that a program does with it, and what it must
leave behind when it is interrupted."""

import asyncio
import contextlib
import json
import re
import shutil
import signal
import sqlite3
import textwrap
import threading

import pytest

from tidings_test.broker import BIN, ROOT
from tidings_test.http import XML
from tidings_test.layouts import urlset
from tidings_test.python import ENV, Silent, descriptors, example, python, tidings
from tidings_test.sets import change, example as document
from tidings_test.waiting import Arrivals, wait_for

LOC = "http://example.com/r/{}"
ALL = {"position": "0", "until_caught_up": True}


@pytest.fixture
def silent():
    with contextlib.closing(Silent()) as server:
        server.set = f"{server.url}/sets/a"
        yield server


def locs(changes):
    return [change.loc for change in changes]


def numbered(first, last):
    return [LOC.format(i) for i in range(first, last + 1)]


# Publishing and following


def test_every_field_of_a_change_comes_back(news):
    hash_ = {"md5": "ab" * 16}
    link = {"rel": "duplicate", "href": "http://mirror.example.com/a", "pri": 7}
    given = change(
        *("http://example.com/å", "created"),
        **{"lastmod": "2026-04-05T08:30:00Z", "length": 42, "type": "text/csv"},
        **{"encoding": "gzip", "tags": ["x", "y"], "hash": hash_, "links": [link]},
    )
    receipt = tidings.publish(news.url, given)
    assert (receipt.first, receipt.last) == (1, 1)

    (message,) = tidings.follow(news.url, **ALL).messages()
    assert (message.kind, message.set) == (tidings.Kind.CHANGES, news.name)
    assert (message.set_url, message.reason) == (news.url, None)
    assert (message.after, message.last, message.position) == (0, 1, receipt.position)
    assert message.digest.startswith("sha-256:")
    (told,) = message.changes
    assert (told.loc, told.change, told.seq) == ("http://example.com/å", "created", 1)
    assert (told.datetime, told.lastmod) == (receipt.datetime, "2026-04-05T08:30:00Z")
    assert (told.hash, told.length, told.type) == (f"md5:{'ab' * 16}", 42, "text/csv")
    assert (told.encoding, told.tags) == ("gzip", ("x", "y"))
    assert json.loads(told.text) == {**given, "seq": 1, "datetime": receipt.datetime}
    assert told.links == (
        tidings.Link(
            *("duplicate", "http://mirror.example.com/a", None, None, None, 7),
            *(None, None),
        ),
    )


def test_what_is_not_given_is_none(news):
    news.post()
    (told,) = tidings.follow(news.url, form="xml", **ALL)
    assert (told.hash, told.length, told.type, told.encoding) == (None,) * 4
    assert (told.tags, told.links) == ((), ())
    assert told.text.startswith("<url><loc>")


def test_documents_and_many_changes_are_posted(news):
    body = document("change-notification.xml")
    first = tidings.publish(news.url, body, type=XML)
    many = tidings.publish(news.url, (change(LOC.format(i)) for i in range(3)))
    assert many.first == first.last + 1
    assert many.last == news.last() == many.first + 2


# the same key and the same changes: once.
def test_a_key_makes_a_repeated_post_harmless(news):
    one = tidings.publish(news.url, change(LOC.format(1)), key="one")
    assert tidings.publish(news.url, change(LOC.format(1)), key="one") == one
    assert news.last() == 1


def test_filters_select_changes(news):
    news.post(3)
    news.post_change(LOC.format(1), "deleted")
    news.post_change("http://example.com/s", "updated", tags=["x"], type="a/b")

    def select(**filters):
        return [c.seq for c in tidings.follow(news.url, **ALL, **filters)]

    assert select(change="deleted") == [4]
    assert select(change=["deleted", "updated"]) == [4, 5]
    assert select(prefix="http://example.com/r/") == [1, 2, 3, 4]
    assert select(tag="x") == select(type="a/*") == [5]
    for filters, is_unproven in (({}, False), ({"tag": "x"}, True)):
        follower = tidings.follow(news.url, position="0", **filters)
        told = next(m for m in follower.messages() if m.changes)
        assert told.is_unproven == is_unproven


@pytest.mark.parametrize("way", ["websocket", "events", "longpoll", "poll"])
def test_every_transport_follows(news, way):
    news.post(3)
    follower = tidings.follow(news.url, position="0", transports=[way], poll=0.05)
    assert [next(follower).seq for _ in range(3)] == [1, 2, 3]
    news.post()
    assert next(follower).seq == 4


def test_since_begins_with_later_changes(news):
    first = news.post()
    news.post()
    later = tidings.follow(news.url, since=first.datetime, until_caught_up=True)
    assert [change.seq for change in later] == [2]


# Without a position it begins now, which the first message says.
def test_the_first_message_says_where_now_is(news):
    receipt = news.post(2)
    with tidings.follow(news.url) as follower:
        messages = follower.messages()
        first = next(messages)
        assert (first.changes, first.position) == ((), receipt.position)
        news.post()
        while not (message := next(messages)).changes:
            pass
        assert message.changes[0].seq == 3


# All sets of a source


def counts(messages, sets):
    """The seqs of each set, as its messages tell them."""
    seqs = {one.url: [] for one in sets}
    for message in messages:
        assert message.set in message.set_url
        seqs[message.set_url] += [change.seq for change in message.changes]
    return [seqs[one.url] for one in sets]


@pytest.fixture
def source(start_broker):
    """A broker with three sets, which have one change each."""
    broker = start_broker()
    broker.sets = [broker.set(name) for name in ("a", "b", "c")]
    for one in broker.sets:
        one.post()
    return broker


def wait_streams(broker, n):
    sockets = [f"websocket-{form}{way}" for form in ("json", "xml") for way in ("", "-deflate")]
    kinds = (*sockets, "eventsource", "eventsource-lines", "eventsource-many-lines")

    def connected():
        metrics = broker.metrics()
        return sum(metrics[f'tidings_subscribers{{transport="{kind}"}}'] for kind in kinds)

    wait_for(f"{n} streams", lambda: connected() == n)


def follow_all(follower, sets, last):
    """Read until each set has come to its entry `last`; the messages."""
    messages = []
    while counts(messages, sets) != [list(range(1, last + 1))] * len(sets):
        messages.append(next(follower))
    return messages


# One connection for all; a set that is made later joins it.
def test_all_sets_of_a_source_come_on_one_connection(source):
    sets = source.sets
    with tidings.follow_source(f"{source.url}/", position="0", poll=0.1) as follower:
        messages = follow_all(follower, sets, 1)
        wait_streams(source, 1)
        for one in sets:
            one.post()
        while counts(messages, sets) != [[1, 2]] * 3:
            messages.append(next(follower))
        later = source.set("later")
        later.post()
        while not (message := next(follower)).changes:
            pass
        assert (message.set, message.changes[0].seq) == ("later", 1)
        wait_streams(source, 1)
    wait_streams(source, 0)


# The position of each set is behind the last message that the loop has done with.
def test_a_source_goes_on_at_the_positions_of_its_sets(source):
    sets, url = source.sets, f"{source.url}/"
    first = tidings.follow_source(url, **ALL)
    assert counts(list(first), sets) == [[1]] * 3
    epochs = [one.state()["epoch"] for one in sets]
    assert first.positions == {one.url: f"{epoch}-1" for one, epoch in zip(sets, epochs)}
    sets[1].post()
    second = tidings.follow_source(url, positions=first.positions, until_caught_up=True)
    assert counts(list(second), sets) == [[], [2], []]

    database = sqlite3.connect(":memory:")
    for set_url, position in first.positions.items():
        tidings.save_position(database, set_url, position)
    assert tidings.load_positions(database) == first.positions


def test_a_source_is_followed_beside_other_tasks(source):
    async def follow():
        async with tidings.afollow_source(f"{source.url}/", position="0") as follower:
            messages = []
            while counts(messages, source.sets) != [[1]] * 3:
                messages.append(await anext(follower))
            with pytest.raises(asyncio.TimeoutError):
                while True:
                    await asyncio.wait_for(anext(follower), 0.05)
            source.sets[2].post()
            while not (message := await anext(follower)).changes:
                pass
            assert message.changes[0].seq == 2

    before = threading.active_count()  # threads of a former test may still be ending
    asyncio.run(follow())
    assert threading.active_count() <= before


# What comes while the loop is at work waits, and keeps its order.
def test_a_source_waits_for_the_loop(source):
    first = source.sets[0]
    with tidings.follow_source(first.url, position="0") as follower:
        seqs = [change.seq for change in next(follower).changes]
        for _ in range(20):
            first.post()
        while seqs[-1:] != [21]:
            seqs += [change.seq for change in next(follower).changes]
    assert seqs == list(range(1, 22))


def test_a_source_tells_what_it_misses_and_raises_what_ends_it(source, silent):
    missed = []

    def on_missed(url, why):
        missed.append((url, why))
        raise KeyError(url)

    gone = {source.sets[0].url: f"{'0' * 16}-1"}
    follower = tidings.follow_source(
        f"{source.url}/", positions=gone, until_caught_up=True, on_missed=on_missed
    )
    with pytest.raises(KeyError):
        list(follower)
    assert missed[0][0] == source.sets[0].url
    with pytest.raises(tidings.Gone):
        list(tidings.follow_source(f"{source.url}/", positions=gone, until_caught_up=True))
    with pytest.raises(tidings.Invalid):
        next(tidings.follow_source("x"))
    with pytest.raises(tidings.Invalid, match="none of"):
        tidings.follow_source(silent.url, form="html")


def test_a_source_can_be_stopped_at_any_moment(source, silent):
    waiting = tidings.follow_source(f"{silent.url}/")
    silent.requests.wait(1)
    threading.Thread(target=waiting.stop).start()
    assert list(waiting) == []
    busy = tidings.follow_source(f"{source.url}/", position="0")
    next(busy)
    busy.close()
    assert list(busy) == []
    follower = tidings.follow_source(f"{silent.url}/")
    del follower
    silent.ended.wait(2)


# Failures


def test_each_status_has_its_exception(start_broker, silent, tmp_path):
    broker = start_broker("--rotate-entries", 2, "--retain-lists", 1)
    news = broker.set().create()
    news.post(2)
    kept = tidings.follow(news.url, **ALL).messages()
    old = next(kept).position
    news.post(8)
    wait_for("retention", lambda: news.get(f"changes?after={old}").status == 410)
    publish, follow, sync = tidings.publish, tidings.follow, tidings.sync
    nowhere = f"{broker.url}/sets/nowhere"
    file = tmp_path / "file"
    file.touch()
    for exception, status, part, call in (
        (tidings.Refused, 422, "entry 1", lambda: publish(news.url, {"loc": "x"})),
        (tidings.Refused, 0, "404", lambda: list(follow(nowhere, **ALL))),
        (tidings.Gone, 0, "", lambda: list(follow(news.url, position=old))),
        (tidings.Invalid, 0, "not the URL", lambda: publish("x", {})),
        (tidings.Invalid, 0, "", lambda: follow("x")),
        (tidings.Invalid, 0, "position", lambda: follow(news.url, position="?")),
        (tidings.Invalid, 0, "none of", lambda: follow(news.url, form="html")),
        (tidings.Invalid, 0, "", lambda: tidings.Publisher("x")),
        (tidings.IO, 0, "", lambda: sync(news.url, file, until_caught_up=True)),
        (tidings.IO, 0, "", lambda: tidings.Publisher(news.url, spool=tmp_path)),
    ):
        with pytest.raises(exception) as raised:
            call()
        assert part in str(raised.value)
        assert str(raised.value)
        assert isinstance(raised.value, tidings.Error)
        assert raised.value.http_status == status, raised.value
    broker.stop()
    with pytest.raises(tidings.Unreachable, match="connect"):
        publish(news.url, change(LOC.format(1)))


def test_a_server_gets_its_token_and_no_other_does(start_broker, tmp_path):
    broker = start_broker()
    broker.add_token("root", admin=True)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    rights = {right: ["*"] for right in ("publish", "subscribe", "manage")}
    token.write_text(broker.add_token("me", **rights))
    news = broker.set()
    one = change(LOC.format(1))
    with pytest.raises(tidings.Refused) as refused:
        tidings.publish(news.url, one)
    assert refused.value.http_status == 401
    accesses = [
        tidings.Access(token=token.read_text()),
        tidings.Access(token_file=token),
        tidings.Access(headers={"Authorization": f"Bearer {token.read_text()}"}),
    ]
    for n, access in enumerate(accesses, 1):
        assert tidings.publish(news.url, one, access=access).last == n
        assert len(list(tidings.follow(news.url, access=access, **ALL))) == n
        assert token.read_text() not in repr(access)
    with pytest.raises(tidings.Invalid):
        tidings.follow("http://example.com/sets/a", access=accesses[0])
    with pytest.raises(tidings.IO):
        access = tidings.Access(certificate=tmp_path / "none.pem")
        tidings.follow("https://127.0.0.1:1/sets/a", access=access)


# What a callback raises is raised where the program has called, and ends that.
def test_an_exception_of_a_callback_comes_out(start_broker, tmp_path):
    class Own(Exception):
        pass

    def fails(*arguments):
        raise Own(arguments)

    broker = start_broker()
    news = broker.set().create()
    news.post_change(f"{broker.url}/", "created")
    with pytest.raises(Own):
        tidings.sync(news.url, tmp_path / "mirror", on_change=fails)
    with pytest.raises(Own):
        asyncio.run(tidings.async_sync(news.url, tmp_path / "other", on_change=fails))
    publisher = tidings.Publisher(news.url, on_refused=fails)
    publisher.add({"loc": "x", "change": "created"})
    with pytest.raises(Own):
        publisher.flush()
    publisher.flush()
    publisher.close()
    broker.stop()
    with pytest.raises(Own):
        next(tidings.follow(news.url, on_trouble=fails))


def test_a_callback_may_stop_and_close_its_follower(start_broker):
    broker = start_broker()
    url = broker.set().url
    broker.stop()
    for method in ("stop", "close"):
        with tidings.follow(
            url, on_trouble=lambda *_: getattr(follower, method)()
        ) as follower:
            assert list(follower) == []
            assert list(follower) == []


# The C library is in the middle of its work then.
def test_a_callback_may_not_go_on_with_its_follower(start_broker):
    broker = start_broker()
    url = broker.set().url
    broker.stop()
    with tidings.follow(url, on_trouble=lambda *_: next(follower)) as follower:
        with pytest.raises(RuntimeError, match="callback"):
            next(follower)


# Positions


def test_a_state_file_says_where_to_go_on(news, tmp_path):
    state = tmp_path / "state"
    news.post(2)
    options = {**ALL, "state": state}
    assert [c.seq for c in tidings.follow(news.url, **options)] == [1, 2]
    receipt = news.post(3)
    for change in tidings.follow(news.url, **options):
        break  # in the middle of a message: it comes again
    assert state.read_text().strip().endswith("-2")
    follower = tidings.follow(news.url, **options)
    assert [c.seq for c in follower] == [3, 4, 5]
    assert follower.position == state.read_text().strip() == receipt.position
    assert [c.seq for c in tidings.follow(news.url, **options)] == []


def test_a_position_is_kept_in_the_transaction_of_the_work(tmp_path):
    connection = sqlite3.connect(tmp_path / "db")
    assert tidings.load_position(connection, "a") is None
    with connection:
        tidings.save_position(connection, "a", "e-1")
        tidings.save_position(connection, "b", "e-7")
    with pytest.raises(ZeroDivisionError), connection:
        tidings.save_position(connection, "a", "e-2")
        raise ZeroDivisionError
    assert tidings.load_position(connection, "a") == "e-1"
    with connection:
        tidings.save_position(connection, "a", "e-3")
    other = sqlite3.connect(tmp_path / "db")
    assert tidings.load_position(other, "a") == "e-3"
    assert tidings.load_position(other, "b") == "e-7"
    # As td_position_save has it.
    rows = other.execute("SELECT name, position FROM td_position ORDER BY name")
    assert rows.fetchall() == [("a", "e-3"), ("b", "e-7")]


def test_a_baseline_comes_as_messages(site, tmp_path):
    site.put("/list.xml", sitemap(site, "/a", "/b"))
    url = site.link("/list.xml")
    options = {"baseline": "first", "until_caught_up": True}
    options["listing"] = tmp_path / "listing"
    messages = list(tidings.follow(url, **options).messages())
    kinds = [message.kind for message in messages]
    begin, *baselines, end = kinds[: kinds.index(tidings.Kind.BASELINE_END) + 1]
    assert begin == tidings.Kind.BASELINE_BEGIN
    assert set(baselines) == {tidings.Kind.BASELINE}
    assert messages[0].reason
    assert messages[0].position is None
    assert messages[-1].position
    told = [change for message in messages for change in message.changes]
    assert locs(told) == [site.link("/a"), site.link("/b")]
    assert {change.change for change in told} == {None}
    with pytest.raises(TypeError, match="messages"):
        iter(tidings.follow(url, **options))
    with pytest.raises(TypeError, match="messages"):
        aiter(tidings.afollow(url, **options))


def sitemap(site, *paths):
    urls = "".join(f"<url><loc>{site.link(path)}</loc></url>" for path in paths)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'


# Ends: of another thread, of a signal, of a task


def test_another_thread_stops_a_follower(news, background):
    news.post()
    with tidings.follow(news.url, position="0") as follower:
        assert next(follower).seq == 1
        waiting = background(list, follower)
        follower.stop()
        assert waiting.join() == []


INTERRUPTED = """
import signal, sys, threading, tidings
url, directory = sys.argv[1:]
try:
    {call}
except KeyboardInterrupt:
    pass
else:
    sys.exit(1)
print("interrupted", threading.active_count(), flush=True)
sys.stdin.read()  # the process goes on: the call must not
"""


# The server never answers: only the signal ends the call.
@pytest.mark.parametrize(
    "call",
    [
        'tidings.publish(url, {"loc": "http://example.com/", "change": "created"})',
        "next(tidings.follow(url))",
        "tidings.sync(url, directory)",
        'p = tidings.Publisher(url); p.add({"loc": "a:b", "change": "created"}); '
        "p.__exit__(None, None, None)",
        "import asyncio; asyncio.run(anext(tidings.afollow(url)).__await__())",
        "import asyncio; asyncio.run(tidings.async_sync(url, directory))",
        "import asyncio; asyncio.run(tidings.apublish(url, {}))",
    ],
    ids=["publish", "follow", "sync", "publisher", "afollow", "async_sync", "apublish"],
)
def test_a_signal_ends_a_call_that_waits(silent, start, tmp_path, call):
    if "anext" in call:
        call = (
            "import asyncio\n"
            "    async def first(): return await anext(tidings.afollow(url))\n"
            "    asyncio.run(first())"
        )
    code = INTERRUPTED.replace("{call}", call)
    program = start(*python(code, silent.set, tmp_path / "mirror"), env=ENV)
    silent.requests.wait(1)
    program.signal(signal.SIGINT)
    assert program.out.wait(1) == "interrupted 1"
    silent.ended.wait(1)
    program.end_input()
    assert program.wait() == 0


# A handler may stop the follower: the loop ends without an exception.
def test_a_signal_handler_stops_a_follower(silent, start):
    code = (
        "import signal, sys, tidings\n"
        "follower = tidings.follow(sys.argv[1])\n"
        "signal.signal(signal.SIGTERM, lambda *_: follower.stop())\n"
        "print(list(follower))"
    )
    program = start(*python(code, silent.set), env=ENV)
    silent.requests.wait(1)
    program.signal(signal.SIGTERM)
    assert program.wait() == 0
    assert list(program.out) == ["[]"]


async def until(condition):
    """Let other tasks run until it holds."""
    while not condition():
        await asyncio.sleep(0.001)


# Cancelled at a wait, a follower has lost nothing, and left nothing.
def test_a_cancelled_task_loses_no_change(news):
    async def main():
        loop = asyncio.get_running_loop()
        async with tidings.afollow(news.url, position="0") as follower:
            told = []
            for n in range(1, 6):
                waiting = asyncio.create_task(anext(follower))
                await until(lambda: follower._feed.follower and not waiting.done())
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                assert not loop._selector.get_map().keys() - before
                await asyncio.to_thread(news.post)
                told.append((await anext(follower)).seq)
                assert told == list(range(1, n + 1))

    async def first():
        before.update(asyncio.get_running_loop()._selector.get_map())
        await main()

    before = set()
    threads = threading.active_count()
    asyncio.run(first())
    assert threading.active_count() <= threads


def test_a_cancelled_task_ends_its_call(silent, tmp_path):
    async def main():
        one = change(LOC.format(1))
        for n, call in enumerate(
            (
                tidings.apublish(silent.set, one),
                tidings.async_sync(silent.set, tmp_path),
                anext(tidings.afollow(silent.set)),
            ),
            1,
        ):
            waiting = asyncio.ensure_future(call)
            await until(lambda n=n: len(silent.requests) >= n)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            del call, waiting
            await until(lambda n=n: len(silent.ended) >= n)

    threads = threading.active_count()
    asyncio.run(main())
    assert threading.active_count() <= threads


# A follower with much to hand over leaves time for other tasks, and takes one message at
# a time.
def test_tasks_run_beside_a_follower_that_catches_up(start_broker):
    broker = start_broker("--message-bytes", "512K")
    news = broker.set().create()
    for _ in range(20):
        news.post(200, size=3000)

    async def count(beats):
        while True:
            beats.append(len(beats))
            await asyncio.sleep(0)

    async def main():
        beats = []
        counting = asyncio.create_task(count(beats))
        seen = set()
        follower = tidings.afollow(news.url, **ALL)
        async for one in follower:
            seen.add(len(beats))
            assert not follower._feed.messages
        counting.cancel()
        assert one.seq == 4000
        assert len(seen) >= 10  # messages

    asyncio.run(main())


def test_closing_a_follower_ends_the_loop_of_another_task(silent):
    async def main():
        follower = tidings.afollow(silent.set)
        waiting = asyncio.create_task(anext(follower, "none"))
        await until(lambda: silent.requests)
        follower.close()
        assert await waiting == "none"
        assert await anext(follower, "none") == "none"

    asyncio.run(main())


def test_two_followers_share_an_event_loop(broker):
    both = [broker.set().create() for _ in range(2)]

    async def main():
        followers = [tidings.afollow(one.url, position="0") for one in both]
        waiting = [asyncio.ensure_future(anext(one)) for one in followers]
        for one, told in reversed([*zip(both, waiting)]):
            await asyncio.to_thread(one.post, 1)
            assert (await told).seq == 1

    asyncio.run(main())


# A handle for each thread, and all at once.
def test_threads_have_handles_of_their_own(news, background):
    def work(who):
        follower = tidings.follow(news.url, position="0")
        with tidings.Publisher(news.url) as publisher:
            for i in range(20):
                publisher.add(change(f"http://example.com/{who}/{i}"))
        return locs(next(follower) for _ in range(100))

    workers = [background(work, who) for who in range(5)]
    told = [worker.join() for worker in workers]
    assert told == [told[0]] * 5
    assert len(set(told[0])) == 100


# Publishers


# add() has returned: the change survives the process.
def test_a_spool_outlives_its_process(start_broker, start, tmp_path):
    broker = start_broker()
    news = broker.set()
    spool = tmp_path / "spool"
    broker.stop()
    code = (
        "import json, sys, tidings\n"
        "publisher = tidings.Publisher(sys.argv[1], spool=sys.argv[2])\n"
        "for line in sys.stdin:\n"
        "    print(publisher.add(json.loads(line)), publisher.durable, flush=True)\n"
    )
    program = start(*python(code, news.url, spool), env=ENV)
    for i in range(1, 6):
        program.give(json.dumps(change(LOC.format(i))) + "\n")
        assert program.out.wait(i) == f"{i} 0"
    program.kill()
    with pytest.raises(tidings.IO):
        tidings.Publisher(f"{news.url}2", spool=spool)  # of another set
    publisher = tidings.Publisher(news.url, spool=spool)
    assert (publisher.added, publisher.durable) == (5, 0)
    with pytest.raises(TimeoutError):
        publisher.flush(0.01)
    publisher.close()

    broker.start()
    with tidings.Publisher(news.url, spool=spool) as publisher:
        assert publisher.add(change(LOC.format(6))) == 6
    assert (publisher.added, publisher.durable) == (6, 6)
    assert locs(tidings.follow(news.url, **ALL)) == numbered(1, 6)


# A note is stored with its changes, or neither is.
def test_a_note_belongs_to_its_changes(start_broker, tmp_path):
    broker = start_broker()
    news = broker.set()
    broker.stop()
    spool = tmp_path / "spool"
    publisher = tidings.Publisher(news.url, spool=spool)
    assert publisher.note == ""
    changes = [change(LOC.format(i)) for i in range(1, 4)]
    assert publisher.add_all(changes, note="line 3") == 3
    with pytest.raises(tidings.Invalid):
        publisher.add_all(changes, note="x" * 1024)
    assert publisher.add_all([], note="line 4: nothing") == 3
    publisher.close()
    broker.start()
    with tidings.Publisher(news.url, spool=spool) as publisher:
        assert (publisher.note, publisher.added) == ("line 4: nothing", 3)
    assert locs(tidings.follow(news.url, **ALL)) == numbered(1, 3)


def test_a_refused_change_is_told_and_the_others_are_posted(news):
    refused, durable = Arrivals("refused changes"), Arrivals("durable changes")
    with tidings.Publisher(
        news.url,
        linger=0.01,
        on_refused=lambda *told: refused.add(told),
        on_durable=lambda *told: durable.add(told),
    ) as publisher:
        publisher.add(change(LOC.format(1)))
        publisher.add({"loc": "x", "change": "created"})
        publisher.add(change(LOC.format(2)))
    ((number, text, why),) = refused
    assert (number, json.loads(text)["loc"]) == (2, "x")
    assert "not an absolute URI" in why
    assert durable[-1][0] == 3
    assert durable[-1][1].last == 2
    assert locs(tidings.follow(news.url, **ALL)) == numbered(1, 2)


def test_a_publisher_without_on_refused_stands_still(news):
    publisher = tidings.Publisher(news.url)
    publisher.add({"loc": "x", "change": "created"})
    for _ in range(2):
        with pytest.raises(tidings.Refused, match="absolute"):
            publisher.flush()
    publisher.add(change(LOC.format(1)))
    assert (publisher.added, publisher.durable) == (2, 0)
    publisher.close()
    publisher.close()
    with pytest.raises(ValueError, match="closed"):
        publisher.add(change(LOC.format(1)))
    with pytest.raises(ValueError, match="closed"):
        publisher.flush()


# Changes are posted without another call; flush() waits, and add() does not wait for it.
def test_adding_goes_on_while_a_flush_waits(start_broker, background):
    broker = start_broker()
    news = broker.set()
    broker.stop()
    troubles = Arrivals("troubles")
    with tidings.Publisher(
        news.url, on_trouble=lambda *told: troubles.add(told)
    ) as publisher:
        publisher.add(change(LOC.format(1)))
        why, pause_s = troubles.wait(1)
        assert "connect" in why
        assert pause_s > 0
        flushing = background(publisher.flush)
        for i in range(2, 101):
            publisher.add(change(LOC.format(i)))
        assert publisher.durable == 0
        broker.start()
        flushing.join()
        publisher.add(change(LOC.format(101)))
        wait_for("the last", lambda: publisher.durable == 101)
    assert locs(tidings.follow(news.url, **ALL)) == numbered(1, 101)


def test_a_full_queue_takes_no_more(silent):
    publisher = tidings.Publisher(silent.set, queue_bytes=1000)
    with pytest.raises(tidings.Unreachable):
        for i in range(100):
            publisher.add(change(LOC.format(i)))
    assert 1 <= publisher.added < 100
    publisher.close()


def test_a_publisher_serves_tasks(silent, news):
    async def main():
        publisher = tidings.Publisher(silent.set)
        assert await publisher.aadd(change(LOC.format(1))) == 1
        flushing = asyncio.create_task(publisher.aflush())
        await until(lambda: silent.requests)
        flushing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flushing
        publisher.close()
        with tidings.Publisher(news.url) as publisher:
            await publisher.aadd(change(LOC.format(1)))
            await publisher.aflush()
            assert publisher.durable == 1

    asyncio.run(main())
    assert news.last() == 1


# Mirrors


def test_a_mirror_becomes_equal_and_tells_its_files(news, site, tmp_path):
    site.put("/a.txt", "one")
    news.post_change(site.link("/a.txt"), "created", length=3)
    news.post_change(site.link("/b.txt"), "created")
    mirror = tmp_path / "mirror"
    threads, troubles = set(), []

    def on_change(file):
        threads.add(threading.current_thread())
        files.append((file.what, file.loc, file.bytes))
        exists = (mirror / file.path).exists()
        assert exists == (file.what == tidings.What.WRITTEN)

    files = []
    options = {"until_caught_up": True, "on_change": on_change, "attempts": 1}
    with pytest.raises(tidings.Different):
        tidings.sync(
            news.url, mirror, on_trouble=lambda why, _: troubles.append(why), **options
        )
    assert any(site.link("/b.txt") in why and "404" in why for why in troubles)
    assert (mirror / f"127.0.0.1:{site.port}/a.txt").read_text() == "one"
    site.put("/b.txt", "two2")
    receipt = news.post_change(site.link("/a.txt"), "deleted")
    synced = asyncio.run(tidings.async_sync(news.url, mirror, **options))
    assert synced.position == receipt.position
    assert (synced.n_failed, synced.bytes_done) == (0, 4)
    assert sorted(files, key=str) == [
        (tidings.What.DELETED, site.link("/a.txt"), 0),
        (tidings.What.WRITTEN, site.link("/a.txt"), 3),
        (tidings.What.WRITTEN, site.link("/b.txt"), 4),
    ]
    assert threads == {threading.current_thread()}


def test_limits_bound_a_mirror(news, site, tmp_path):
    site.put("/a.txt", "one")
    news.post_change(site.link("/a.txt"), "created")
    for limits, exception in (
        (tidings.Limits(total_bytes=2), tidings.IO),
        (tidings.Limits(file_bytes=2), tidings.Different),
    ):
        with pytest.raises(exception):
            tidings.sync(
                *(news.url, tmp_path / exception.__name__),
                **{"until_caught_up": True, "attempts": 1, "limits": limits},
            )


# Nothing is left behind


LEAKS = """
import asyncio, gc, os, sys, threading, time, tidings
url, spool = sys.argv[1:]

def use():
    next(tidings.follow(url, position="0"))
    follower = tidings.follow(url, position="0")
    for message in follower.messages():
        break
    follower.close()
    tidings.publish(url, change, key="one")
    with tidings.Publisher(url, spool=spool, on_durable=lambda *_: None):
        pass

async def ause():
    await anext(tidings.afollow(url, position="0"))
    await tidings.apublish(url, change, key="one")

# The kernel gives the numbers of eventfds again, as it does while other programs run: one is
# open for a moment, so that what comes then has a larger number.
def churn():
    while True:
        with quiet:
            event = os.eventfd(0)
            time.sleep(.0005)
            os.close(event)

quiet = threading.Lock()
threading.Thread(target=churn, daemon=True).start()

def used():
    gc.collect()
    with quiet:
        return count()

def count():
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    return len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGESIZE") // 1024

change = {"loc": "http://example.com/a", "change": "created"}
n = int(sys.stdin.readline())
for i in range(n + n // 5):
    if i == n // 5:
        print(*used(), flush=True)
    use()
    asyncio.run(ause())
print(*used(), flush=True)
"""


# A handle that is not freed keeps 3 descriptors and more than 100 KiB.
def test_a_thousand_handles_leave_nothing(news, start, tmp_path):
    news.post()
    program = start(*python(LEAKS, news.url, tmp_path / "spool"), env=ENV)
    program.give("200\n")  # rounds, of six handles each
    assert program.wait() == 0, program.errors()
    (before, before_kib), (after, after_kib) = (map(int, x.split()) for x in program.out)
    assert after == before
    assert after_kib <= before_kib + 8 * 1024


def test_objects_that_failed_leave_no_descriptors(tmp_path):
    def fail():
        for call in (
            lambda: tidings.follow("x"),
            lambda: tidings.publish("x", {}),
            lambda: tidings.Publisher("x"),
            lambda: tidings.sync("x", tmp_path),
            lambda: tidings.follow("http://h/sets/a", form="html"),
            lambda: tidings.follow("http://h/sets/a", state=tmp_path),
            lambda: tidings.follow("x", access=tidings.Access(token="a b")),
        ):
            with pytest.raises(tidings.Error):
                call()

    fail()
    before = descriptors()
    for _ in range(10):
        fail()
    assert descriptors() <= before  # those of a former test may still be closing


# Examples, types, installation


def test_the_examples_run(broker, start, run, tmp_path):
    sets = [broker.set().create() for _ in range(2)]
    urls = [one.url for one in sets]
    follow = start(*python(example("follow.py"), *urls), env=ENV)
    lines = "".join(json.dumps(change(LOC.format(i))) + "\n" for i in range(1, 4))
    lines += '{"loc": "x", "change": "created"}\n'
    publish = python(example("publish.py"), urls[0], tmp_path / "spool")
    published = run(*publish, input=lines, env=ENV)
    assert list(published.out) == ["all are durable or refused"]
    assert "not an absolute URI" in published.errors()
    sets[1].post()
    told = {follow.out.wait(n) for n in range(1, 5)}
    expected = {f"{urls[0]} created {loc}" for loc in numbered(1, 3)}
    assert told == {*expected, f"{urls[1]} created {LOC.format(1)}"}
    follow.signal(signal.SIGINT)
    assert follow.wait() == 0

    store = start(*python(example("store.py"), urls[0], tmp_path / "db"), env=ENV)
    store.out.find(lambda line: line == "3")
    store.signal(signal.SIGINT)
    assert store.wait() == 0
    rows = sqlite3.connect(tmp_path / "db").execute("SELECT seq, loc FROM changes")
    assert rows.fetchall() == [*enumerate(numbered(1, 3), 1)]
    for name in ("follow.py", "publish.py", "store.py"):
        failed = run(*python(example(name)), env=ENV, status=1)
        assert f": {name} SET-URL" in failed.errors()


def test_the_types_are_strict(run, tmp_path):
    examples = sorted((ROOT / "client/examples/python").glob("*.py"))
    mypy = ("/usr/bin/mypy", "--strict", "--cache-dir", tmp_path, ROOT / "python/tidings")
    checked = run(*mypy, *examples, env={"MYPYPATH": str(ROOT / "python")}, status=None)
    assert checked.output().startswith("Success"), checked.output()


def test_the_installed_package_works(news, run, tmp_path):
    build = ROOT / ENV["PYTHONPATH"] / ".."
    for component in ("python", "library"):
        install = ("--install", build, "--prefix", tmp_path, "--component", component)
        run("/usr/bin/cmake", *install)
    (package,) = tmp_path.glob("lib/python3*/dist-packages/tidings")
    assert (package / "py.typed").exists()
    (library,) = tmp_path.glob("lib/**/libtidings.so.1")
    code = "import sys, tidings; print(tidings.publish(sys.argv[1], eval(sys.argv[2])))"
    env = {"PYTHONPATH": str(package.parent), "LD_LIBRARY_PATH": str(library.parent)}
    done = run(*python(code, news.url, str(change(LOC.format(1)))), env=env)
    assert done.output().startswith("Receipt(first=1, last=1, ")


SDIST = """
from setuptools import build_meta
print(build_meta.build_sdist("."))
"""


# The package that pip builds of it is whole, and has nothing of the checkout.
def test_pip_installs_the_source_package(news, run, tmp_path):
    build, prefix, site = BIN.parent, tmp_path / "prefix", tmp_path / "site"
    for component in ("library", "development"):
        install = ("--install", build, "--prefix", prefix, "--component", component)
        run("/usr/bin/cmake", *install)
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "python", checkout / "python")
    shutil.copy(ROOT / "CMakeLists.txt", checkout)
    made = run(*python(SDIST), cwd=checkout / "python").out[-1]
    shutil.move(checkout / "python" / made, tmp_path)
    shutil.rmtree(checkout)

    env = {"PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig"), "CFLAGS": "-O0"}
    options = ("--no-index", "--no-build-isolation", "--no-deps", "--target", site)
    pip = ("/usr/bin/python3", "-m", "pip", "install", *options, "--no-cache-dir")
    run(*pip, tmp_path / made, env=env, cwd=tmp_path)
    assert {path.name for path in (site / "tidings").iterdir()} >= {
        path.name for path in (ROOT / "python/tidings").glob("*.[pt]*")
    }
    code = """
import importlib.metadata, sys, tidings
print(tidings.publish(sys.argv[1], {"loc": "http://example.com/a", "change": "created"}).last)
versions = {tidings.__version__, tidings.library_version, importlib.metadata.version("tidings")}
print(*versions, tidings.__file__)
"""
    env = {"PYTHONPATH": str(site), "LD_LIBRARY_PATH": str(prefix / "lib")}
    done = run(*python(code, news.url), env=env)
    version = run("tidings", "--version").output().split()[-1]
    assert [*done.out] == ["1", f"{version} {site}/tidings/__init__.py"]


def test_a_package_without_libtidings_says_what_is_missing(run):
    env = {"PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": "/proc/nowhere"}
    setup = ("/usr/bin/python3", "setup.py", "build_ext", "--build-temp", "/proc/nowhere")
    failed = run(*setup, cwd=ROOT / "python", env=env, status=1)
    assert "This package is built against libtidings: install it" in failed.errors()


# all sets, and the proof of a history.
def test_the_sets_of_a_source_are_found_and_proven(broker, site):
    one, two = broker.set("one"), broker.set("two")
    one.post(2)
    one.rotate()
    receipt = one.post(1)
    two.post(1)
    assert tidings.sets(f"{broker.url}/") == [one.url, two.url]
    assert tidings.sets(one.url) == [one.url]
    lists = []
    proof = tidings.verify(one.url, on_list=lambda name, so_far: lists.append(so_far.last))
    assert (proof.lists, proof.first, proof.last, proof.is_from_start) == (2, 1, 3, True)
    assert (proof.position, proof.until) == (receipt.position, receipt.datetime)
    assert proof.digest == one.state()["digest"]
    assert lists == [2, 3]
    urls = (f"{one.url}/capabilitylist.xml", site.link("/none.xml"))
    md = '<rs:md capability="description"/>'
    site.put("/sets.xml", urlset([f"<url><loc>{url}</loc></url>" for url in urls], md))
    with pytest.raises(tidings.Error, match="none.xml"):
        tidings.sets(site.link("/sets.xml"))
    missed = []
    found = tidings.sets(site.link("/sets.xml"), on_unreadable=lambda *of: missed.append(of))
    assert found == [one.url]
    assert [url for url, _ in missed] == [site.link("/none.xml")]
    with pytest.raises(ZeroDivisionError):
        tidings.verify(one.url, on_list=lambda *_: 1 / 0)
    with pytest.raises(tidings.Refused):
        tidings.verify(f"{broker.url}/sets/none")


def test_a_history_that_breaks_is_no_proof(broker, tmp_path):
    news = broker.set("news")
    for _ in range(2):
        news.post(2)
        news.rotate()
    for number in (1, 2):
        name = f"{number:012}.xml"
        body = news.get(f"changes/{name}").body
        (tmp_path / name).write_bytes(body if number == 1 else body.replace(b"/r/3", b"/r/X"))
    with pytest.raises(tidings.Different, match="000000000002.xml"):
        tidings.verify(tmp_path)
    (tmp_path / "000000000002.xml").unlink()
    assert tidings.verify(tmp_path).last == 2


# Each program of doc/python.md, in their order, and the last line that it prints. None
# of an endless one: it is interrupted when it has printed the first.
PAGE = [
    "2 created http://example.com/b.csv 42",
    None,
    "http://example.com/b.csv",
    "demo 2 http://example.com/b.csv",
    "demo 2 True",
    "1 of 1",
    "follower: http://example.com/c",
    "3 resources",
    "4 http://example.com/c",
    "1001 added",
    "Failed to connect",
    "",
]


def test_every_program_of_the_page_runs(start_broker, start, run, tmp_path):
    broker = start_broker()
    text = (ROOT / "doc/python.md").read_text()
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.M)
    programs = [textwrap.dedent(block) for block in blocks if "    import" in block]
    assert len(programs) == len(PAGE)
    for code, last in zip(programs, PAGE):
        code = code.replace("http://127.0.0.1:8787", broker.url)
        if "demo.key" in code:
            shown = run("tidingsd", "key", "show", "demo", "--data", broker.data)
            (tmp_path / "demo.key").write_text(shown.output())
        program = start(*python(code), env=ENV, cwd=tmp_path)
        if last is None:
            program.out.wait(1)
            program.signal(signal.SIGINT)
            last = "bye"
        assert program.wait() == 0, program.errors()
        assert ["", *program.out][-1].startswith(last), (code, program.output())
