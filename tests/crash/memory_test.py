"""Memory that ends: allocations of the program's own code fail in turn (faults.py),
those of libxml2 and OpenSSL among them, while a Source posts, followers read, the
broker calls subscribers, and commands run. A broker without memory for a small block
ends with a line that says so, and is started again here, as its supervisor would; if the
block is large, it answers 503 and goes on. A command ends with 1. What was acknowledged
is there, once; nobody misses a change."""

import errno
import gzip
import hashlib
import json
import re
import shutil

import pytest

from tidings_test import hub
from tidings_test.broker import has_own_allocator
from tidings_test.content import multipart
from tidings_test.faults import SMALL, revive, settle
from tidings_test.http import JSON, NDJSON, XML, ConnectionEnded
from tidings_test.mqtt import QUICK, Reader, wait_half
from tidings_test.sets import change, entries, example
from tidings_test.soak import soak
from tidings_test.stream import WebSocket
from tidings_test.waiting import wait_for

pytestmark = pytest.mark.skipif(has_own_allocator(), reason="no allocation fails")

NONE_FAILS = 1 << 30  # allocations, more than there are
TEXTS_BYTES = 8192  # a block of proto/arena.c


def sweep(faults, broker, act, step, begin=lambda: None, **which):
    """Call act() until no allocation fails in it, each time without another one: the
    first, and then each `step`-th; in tests/soak each. The broker is started again if it
    ends, and begin() called. Return what the calls returned, and how often it was
    started."""
    results, met, n_ends = [], True, 0
    step = soak(step, 1)
    begin()
    while met:
        after = step * len(results)
        faults.arm(faults.MEMORY, "", errno.ENOMEM, after=after, once=True, **which)
        results.append(act())
        met = faults.disarm()
        if settle(broker, faults):
            n_ends += 1
            begin()
    assert len(results) > 1
    return results, n_ends


# Posts

A = "http://example.com/a"
CONTENT, MULTIPART = multipart([change(A)], [(A, None, b"x" * 1000)])
LINES = "".join(json.dumps(entry) + "\n" for entry in entries(3))
NAMED = {"ns": "http://example.com/ns", "name": "n", "value": "v"}

BODIES = {
    "json": (entries(3), JSON, {}),
    "attributes": ([change(A, attributes=[NAMED])], JSON, {}),
    "xml": (example("foreign-and-escaped.xml"), XML, {}),
    "ndjson": (LINES, NDJSON, {}),
    "gzip": (gzip.compress(LINES.encode()), NDJSON, {"content_encoding": "gzip"}),
    "content": (CONTENT, MULTIPART, {}),
}


@pytest.mark.parametrize("form", BODIES)
def test_a_post_without_memory_is_kept_whole_or_not_at_all(form, start_broker, faults):
    body, type, headers = BODIES[form]
    broker = start_broker("--rotate-entries", 20, env=faults.env)
    news = broker.set().create(**({"content": "inline"} if form == "content" else {}))
    size = news.receipt(news.send(body, type, **headers)).last

    def post():
        """The receipt; None: it was refused; False: the broker has hung up."""
        try:
            answer = news.send(body, type, **headers)
        except (ConnectionEnded, ConnectionError):
            return False
        if answer.status == 503:
            return None
        return news.receipt(answer)

    posts, _ = sweep(faults, broker, post, 7)
    receipts = [receipt for receipt in posts if receipt]
    assert all(r.last - r.first + 1 == size for r in receipts)
    lasts = [receipt.last for receipt in receipts]
    assert lasts == sorted(set(lasts))
    # A refused post has left nothing behind.
    history = news.changelists().read().history
    kept, rest = divmod(history.last, size)
    unknown = kept - 1 - len(receipts)
    assert not rest and 0 <= unknown <= posts.count(False)
    broker.stop()
    broker.restart()
    assert news.changelists().read().history.last == history.last


def test_a_broker_without_memory_for_a_small_block_ends(start_broker, faults):
    broker = start_broker(env=faults.env)

    def ask():
        try:
            assert broker.get("/sets").status in (200, 503)
        except (ConnectionEnded, ConnectionError):
            pass

    _, n_ends = sweep(faults, broker, ask, 1)
    assert n_ends > 0


def test_a_post_without_memory_for_a_large_block_is_answered_503(start_broker, faults):
    broker = start_broker(env=faults.env)
    news = broker.set().create()
    large = entries(3000)
    answers, n_ends = sweep(
        faults, broker, lambda: news.send(large).status, 1, least_bytes=SMALL
    )
    assert n_ends == 0 and 503 in answers and set(answers) == {200, 503}
    assert news.changelists().read().history.last == 3000 * answers.count(200)


# Followers

# How a follower hears that it has to come again.
END = re.compile("503|failed|has ended|1011|without a close frame")


def read_many(news, query):
    """The seqs that a stream of many sets brings, up to the last entry."""
    many = WebSocket(news.broker, f"/stream?{query}", deflate=True)
    seqs = []
    with many.connection:
        while not seqs or seqs[-1] < news.posted:
            text = many.read_text()
            assert text, f"{many} has ended"
            said = json.loads(text)
            assert said.get("end") != "failed", said
            if said.get("set") == news.name:  # a pattern matches the other set, too
                seqs += [change["seq"] for change in said.get("changes", ())]
    return seqs


def read_one(news, follower):
    """The same of a stream of one set, which checks each message."""
    with follower.connection:
        while not follower.message or follower.message.last < news.posted:
            follower.next()
    return list(range(1, follower.message.last + 1))


def read_poll(news):
    return news.page("after=0").seqs


FOLLOWERS = {
    "websocket": lambda news: read_one(news, news.websocket("after=0")),
    "xml": lambda news: read_one(news, news.websocket("after=0", form="xml")),
    "deflate": lambda news: read_one(news, news.websocket("after=0", deflate=True)),
    "events": lambda news: read_one(news, news.events("after=0")),
    "filter": lambda news: read_one(news, news.events("after=0&change=created")),
    "longpoll": read_poll,
    "many": lambda news: read_many(news, f"set={news.name}@0&set=none"),
    "pattern": lambda news: read_many(news, "set=s*@0"),
}


@pytest.mark.parametrize("form", FOLLOWERS)
def test_a_follower_without_memory_gets_all_or_hears_the_end(
    form, start_broker, faults
):
    broker = start_broker("--heartbeat", "0.1", env=faults.env)
    news, other = broker.set(), broker.set()
    news.post(3)
    other.post()

    def begin():
        """Let OpenSSL make its tables, which take 2,500 allocations."""
        assert other.page("after=0").last == 1

    def follow():
        """What came; None: the broker said that it has no memory, or hung up."""
        try:
            return FOLLOWERS[form](news) or True
        except (ConnectionEnded, ConnectionError, EOFError):
            return None
        except AssertionError as fault:
            assert END.search(str(fault)), fault
            return None

    followed, _ = sweep(faults, broker, follow, 1, begin)
    assert None in followed and followed[-1]
    assert all(seqs in (True, [1, 2, 3]) for seqs in followed if seqs)


# The first reader makes OpenSSL begin.
def test_a_broker_without_memory_for_openssl_ends(start_broker, faults):
    broker = start_broker(env=faults.env)
    news = broker.set()
    news.post(3)
    broker.stop()
    broker.restart()

    def follow():
        try:
            return read_poll(news)
        except (ConnectionEnded, ConnectionError):
            return None

    followed, n_ends = sweep(faults, broker, follow, 100)
    assert followed[-1] == [1, 2, 3] and n_ends > 10
    assert all(seqs == [1, 2, 3] for seqs in followed if seqs)


# Subscribers that the broker calls


def post_one(news, faults):
    """Post a change, which may fail; the last entry of the set then."""
    refused = (ConnectionEnded, ConnectionError)
    try:
        assert news.send(change(A)).status in (200, 503)
    except refused:
        settle(news.broker, faults)
    try:
        return news.last()
    except (AssertionError, *refused):  # the allocation was of this request
        settle(news.broker, faults)
        return news.last()


def test_a_callback_gets_a_delivery_that_found_no_memory(
    start_broker, callbacks, faults
):
    broker = start_broker(*hub.QUICK, *hub.LOOPBACK, env=faults.env)
    news = broker.set()
    callback = callbacks.join(news.create())
    last = 0

    def is_delivered():
        revive(broker)
        return (callback.last or 0) >= last

    def post():
        nonlocal last
        last = post_one(news, faults)
        wait_for("the delivery", is_delivered)

    sweep(faults, broker, post, 9)
    assert last > 0 and callback.holes == 0


def test_a_bridge_sends_a_message_that_found_no_memory(
    start_bridge, mosquitto, faults
):
    broker = start_bridge(mosquitto, "out = news", QUICK, env=faults.env)
    reader = Reader(mosquitto.hear("a/news/notifications"), "a/news/notifications")
    news = broker.set("news").create()
    wait_half(broker, "out", state="connected")

    def is_published(last):
        revive(broker)
        while len(reader.messages) > reader.at:
            reader.next()
        return reader.history.last >= last

    def post():
        last = post_one(news, faults)
        wait_for("the message", lambda: is_published(last))

    sweep(faults, broker, post, 9)
    assert reader.history.last == news.last() > 0


# Starts


def test_a_start_without_memory_serves_all_or_fails(start_broker, faults):
    broker = start_broker("--rotate-entries", 4, env=faults.env)
    news = broker.set()
    news.post(10)
    broker.stop()

    def act():
        program = broker.process = broker.start_process()
        try:
            program.out.wait(1)
        except AssertionError:  # it has ended
            assert program.wait() in (1, 2)
            assert "memory" in program.errors(), program.errors()
            return
        left = faults.left
        faults.disarm()
        settle(broker, faults)
        assert news.last() == 10
        broker.stop()
        return left

    faults.arm(faults.MEMORY, "", errno.ENOMEM, after=NONE_FAILS)
    n_all = NONE_FAILS - act()
    for after in range(0, n_all, n_all // soak(15, n_all)):
        faults.arm(faults.MEMORY, "", errno.ENOMEM, after=after, once=True)
        act()
    broker.restart()
    assert news.changelists().read().history.last == 10


# Commands


@pytest.fixture
def starve(faults, start):
    """starve(act, n): calls act(run) again and again, where run(...) runs `tidings`,
    to its end, without one of its allocations: `n` of them, from the first to the last,
    in CI, and each in tests/soak; with n=None each, and those of fewer than `least_bytes`
    are left out. It yields what the calls returned."""

    def run(*arguments):
        done = start("tidings", *arguments, env=faults.env)
        done.give("")
        status = done.wait()
        assert status in (0, 1), f"{done} ended with {status}"
        if status == 1:
            assert re.search("memory|allocate", done.errors()), done.errors()
        return done, status

    def starve(act, n, least_bytes=0):
        which = (faults.MEMORY, "", errno.ENOMEM)
        faults.arm(*which, after=NONE_FAILS, least_bytes=least_bytes)
        act(run)
        n_all = NONE_FAILS - faults.left
        for after in range(0, n_all, max(1, n_all // soak(n or n_all, n_all))):
            faults.arm(*which, after=after, once=True, least_bytes=least_bytes)
            yield act(run)
            if not faults.disarm():  # it needed one less
                break

    return starve


COMMANDS = {
    "publish": "publish {set} {changes}",
    "follow": "follow {set} --from-start --count 10",
    "tail": "tail {set}",
    "get": "get {set}",
    "get --json": "get {set} --json",
    "verify": "verify {set}",
    "set list": "set list {broker}",
    "set show": "set show {set}",
    "status": "status {set}",
    "harvest": "harvest {set} {other} --once --state {state}",
    "watch": "watch {files} {watched} --once --base-uri http://e.org/ --state {state}",
    "audit": "audit {mirror}",
}

# What differs from call to call.
VARIES = re.compile(
    r"(first|last|position|datetime|until)=\S*|[0-9]{4}-[0-9]{2}-[0-9T:.Z-]+"
)


# A command without memory says so, and ends with 1. If it ends with 0, it has done and
# said all.
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_without_memory_does_all_or_fails(
    name, start_broker, starve, mirrored, tmp_path
):
    broker = start_broker("--rotate-entries", 4)
    news, other, watched = broker.set("a"), broker.set("b"), broker.set("c").create()
    news.post(10)
    for n in range(3):
        mirrored.change(f"/{n}.txt", f"text {n}")
    mirrored.sync()
    (tmp_path / "changes.json").write_text(json.dumps(entries(3)))
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.txt").write_text("a")
    state = tmp_path / "state"
    arguments = COMMANDS[name].format(
        set=news.url,
        broker=broker.url,
        other=other.url,
        watched=watched.url,
        mirror=mirrored.directory,
        changes=tmp_path / "changes.json",
        files=tmp_path / "files",
        state=state,
    )

    def act(run):
        if state.is_dir():
            shutil.rmtree(state)
        state.unlink(missing_ok=True)
        broker.request("DELETE", f"{other.path}/harvest")  # a new state doubles what came
        done, status = run(*arguments.split())
        return status == 0 and VARIES.sub("", done.output())

    outputs = list(starve(act, 10))
    assert False in outputs and len(set(outputs) - {False}) <= 1


def test_a_mirror_without_memory_misses_nothing(mirrored, starve, tmp_path, run):
    for n in range(6):
        mirrored.change(f"/d/{n}.txt", f"text {n}")
    mirrored.sync()
    copy = tmp_path / "copy"
    sync = ("sync", mirrored.url, copy, "--until-caught-up")

    def files():
        return sorted(path.read_text() for path in copy.rglob("*.txt"))

    def act(run_starved):
        shutil.rmtree(copy, ignore_errors=True)
        _, status = run_starved(*sync)
        return status == 0, files()

    all_files = [f"text {n}" for n in range(6)]
    for is_good, copied in starve(act, 25):
        assert copied == all_files if is_good else set(copied) <= set(all_files)
        run("tidings", *sync)
        assert files() == all_files


# An entry that is left out would delete its file.
def test_a_mirror_of_a_foreign_list_without_memory_deletes_nothing(
    site, starve, tmp_path, run
):
    def put_list(n):
        entries = "".join(
            f"<url><loc>{site.link(f'/{i}.txt')}</loc>"
            f'<rs:md hash="md5:{hashlib.md5(str(i).encode()).hexdigest()}" length="1"/>'
            "</url>"
            for i in range(n)
        )
        site.put(
            "/list.xml",
            '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
            ' xmlns:rs="http://www.openarchives.org/rs/terms/">'
            f'<rs:md capability="resourcelist" at="2026-01-0{n}T00:00:00Z"/>'
            # Behind a comment libxml2 reads on, whose entries need memory.
            f"<!-- -->{entries}"
            "</urlset>",
        )

    def files(directory):
        return sorted(path.read_text() for path in directory.rglob("*.txt"))

    def sync(directory):
        return ("sync", site.link("/list.xml"), directory, "--until-caught-up")

    for i in range(6):
        site.put(f"/{i}.txt", str(i))
    put_list(5)
    old, copy = tmp_path / "old", tmp_path / "copy"
    run("tidings", *sync(old))
    assert files(old) == list("01234")
    put_list(6)

    def act(run_starved):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(old, copy)
        _, status = run_starved(*sync(copy))
        return status == 0, files(copy)

    # Those that hold texts of an entry are large, and none of them is left to chance.
    results = [*starve(act, 15), *starve(act, None, least_bytes=TEXTS_BYTES)]
    assert all(copied == list("012345") for is_good, copied in results if is_good)
    assert all(copied[:5] == list("01234") for _, copied in results)
