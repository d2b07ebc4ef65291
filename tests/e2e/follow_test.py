"""The commands `tidings follow` and `tidings publish` with a broker, as a shell sees
them."""

import contextlib
import fcntl
import json
import os
import signal
import sqlite3
import subprocess
import urllib.parse

import pytest

from tidings_test import hub
from tidings_test.broker import PROGRAMS
from tidings_test.http import Client, keep_port
from tidings_test.proxy import RESET
from tidings_test.sets import change
from tidings_test.waiting import wait_for

OPTIONS = ("--rotate-entries", "5", "--heartbeat", "0.5")
pytestmark = pytest.mark.broker(*OPTIONS)

FOREIGN = "0123456789abcdef-1"  # a position of another log


@pytest.fixture
def state(tmp_path):
    """The state file of a follower."""
    return tmp_path / "state"


@pytest.fixture
def follow(run):
    """follow(news, "--count", 3): runs `tidings follow` to its end."""
    return lambda of_set, *options, **how: run(
        "tidings", "follow", of_set.url, *options, **how
    )


def lines(of_set, first=1):
    """The lines of `tidings follow` for the entries of the lists, from `first` on."""
    entries = of_set.changelists().read().history.entries[first - 1 :]
    return [f"{e.seq} {e.datetime} {e.change} {e.loc}" for e in entries]


def wait_state(state, position):
    """Wait until the state file holds the position."""
    kept = f"{position}\n"
    wait_for("the state", lambda: state.exists() and state.read_text() == kept)


def interrupt(followed):
    followed.signal(signal.SIGINT)
    assert followed.wait() == 0


# tidings follow


# SIGINT ends it with 0.
def test_follow_prints_missed_changes_and_then_new_ones(news, start):
    news.post(12)
    followed = start("tidings", "follow", news.url, "--from-start")
    followed.out.wait(12)
    news.post(2)
    followed.out.wait(14)
    interrupt(followed)
    assert list(followed.out) == lines(news)
    assert followed.errors() == ""


# the state file has the position before there is a change.
def test_follow_begins_with_new_changes_by_default(news, start, state):
    receipt = news.post(3)
    followed = start("tidings", "follow", news.url, "--state", state)
    wait_state(state, receipt.position)
    news.post()
    followed.out.wait(1)
    interrupt(followed)
    assert list(followed.out) == lines(news, first=4)
    assert followed.errors() == ""


#
def test_follow_begins_after_a_position(news, follow):
    position = news.post(7).position
    news.post(2)
    followed = follow(news, "--after", position, "--count", 2)
    assert list(followed.out) == lines(news, first=8)


# --count may end it in the middle of a message.
def test_follow_continues_from_its_state_file(news, follow, state):
    news.post(12)
    read = []
    for _ in range(3):
        followed = follow(news, "--from-start", "--count", 4, "--state", state)
        assert (len(followed.out), followed.errors()) == (4, "")
        read += followed.out
    assert read == lines(news)


# It is killed when the state file has the position of the last line.
def test_follow_keeps_a_position_after_the_lines_are_out(news, start, follow, state):
    options = ("--from-start", "--state", state)
    receipt = news.post(4)
    followed = start("tidings", "follow", news.url, *options)
    wait_state(state, receipt.position)
    followed.kill()
    assert followed.status == 128 + signal.SIGKILL
    assert list(followed.out) == lines(news)
    news.post()
    assert list(follow(news, *options, "--count", 1).out) == lines(news, first=5)


def closed_lists_read(of_set):
    """How many Change Lists the broker has sent."""
    name = "tidings_http_request_duration_seconds_count"
    lists = 'method="GET",route="/sets/{set}/changes/{list}.xml",status="2xx"'
    return of_set.broker.metrics().get(f"{name}{{{lists}}}", 0)


# a follower that is far behind reads closed lists. It ends in the middle of one,
# by --count and by being killed, and continues inside of it; the stream continues behind
# the last of them.
@pytest.mark.broker("--rotate-entries", "12000")
@pytest.mark.parametrize("form", ["json", "xml"])
def test_follow_ends_inside_of_a_closed_list(news, start, follow, state, form):
    many, some = 65000, 13500
    lists = closed_lists_read(news)
    news.post(many)
    options = ("--from-start", "--state", state, "--format", form)
    read = list(follow(news, *options, "--count", some).out)
    killed = start("tidings", "follow", news.url, *options)
    killed.out.wait(some)
    killed.kill()
    kept = int(state.read_text().split("-")[1])
    assert len(read) == some < kept
    read += list(killed.out)[: kept - some]
    read += follow(news, *options, "--until-caught-up").out
    assert closed_lists_read(news) > lists + 4
    streamed = ("--from-start", "--format", form, "--transport", "longpoll")
    assert read == list(follow(news, *streamed, "--count", many).out)


# Design section 4: in XML an entry is the <url> of the lists; in JSON, of messages.
def test_follow_prints_entries_as_lists_and_messages_have_them(news, follow):
    news.post(12)
    options = ("--from-start", "--count", 12, "--format")
    entries = news.changelists().read().history.entries
    printed = follow(news, *options, "xml").out
    assert [f"{line}\n".encode() for line in printed] == [e.line for e in entries]
    printed = [json.loads(line) for line in follow(news, *options, "json").out]
    facts = ("seq", "loc", "change", "datetime")
    assert [[entry[name] for name in facts] for entry in printed] == [
        [getattr(entry, name) for name in facts] for entry in entries
    ]


# it prints each line once, whether the broker stops or is killed.
def test_follow_misses_and_repeats_no_line_when_it_reconnects(start_broker, start):
    broker = start_broker(*OPTIONS)
    news = broker.set()
    news.post(3)
    followed = start("tidings", "follow", news.url, "--from-start")
    for end in (broker.kill, broker.stop):
        followed.out.wait(news.posted)
        end()
        broker.restart()
        news.post(4)
        followed.out.wait(news.posted)
        news.post(2)
    followed.out.wait(news.posted)
    interrupt(followed)
    assert list(followed.out) == lines(news)


# It reports once that it waits, and once that the broker is back.
def test_follow_waits_for_a_broker_that_is_away(start_broker, start):
    broker = start_broker(*OPTIONS)
    news = broker.set()
    news.post(2)
    broker.stop()
    follow = ("tidings", "follow", news.url, "--from-start", "--count", "2")
    verbose = start(*follow, "--verbose")
    followed = start(*follow)
    followed.err.wait(1)
    broker.restart()
    for each in (followed, verbose):
        assert each.wait() == 0
        assert list(each.out) == lines(news)
    away, back = followed.err
    assert away.endswith("connect to server; it is tried again")
    assert back == "tidings: the source is back"


def test_follow_checks_its_state_file_before_it_prints(news, follow):
    news.post(2)
    followed = follow(news, "--from-start", "--state", "/proc/nowhere/state", status=1)
    assert followed.output() == ""
    assert "cannot write /proc/nowhere/state" in followed.errors()


# the position may come from the command line or from a state file; it is of
# another log, or ahead of this one.
def test_follow_ends_with_3_where_its_position_is_gone(news, follow, state):
    news.post(2)
    state.write_text(f"{FOREIGN}\n")
    kept = ["--from-start", "--state", state]
    for options in (["--after", FOREIGN], kept, ["--after", "3"]):
        followed = follow(news, *options, status=3)
        assert followed.output() == ""
        assert followed.errors().startswith("tidings: ")
        assert "gone" in followed.errors()
    assert state.read_text() == f"{FOREIGN}\n"


def test_follow_takes_no_position_for_several_sets(start_broker, run):
    broker = start_broker()
    for name in ("a", "b"):
        broker.set(name).post(2)
    position = broker.set("a").state()["position"]
    command = ("tidings", "follow", f"{broker.url}/", "--after", position)
    said = run(*command, status=2).errors()
    assert f"{position} is a position of one set, and the source has 2" in said


def test_follow_reports_that_a_set_does_not_exist(broker, follow):
    missing = broker.set()
    followed = follow(missing, "--from-start", status=1)
    assert followed.output() == ""
    assert f': 404: there is no set "{missing.name}"' in followed.errors()


# The pipe has room for later lines, but not for a full buffer of lines.
def test_follow_keeps_no_position_after_a_line_that_it_could_not_write(news, state):
    news.post(100)
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    assert fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096) == 4096
    os.write(writer, b"x")
    follow = ("follow", news.url, "--from-start", "--until-caught-up", "--state", state)
    done = subprocess.run(
        [PROGRAMS["tidings"], *follow], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(reader)
    os.close(writer)
    assert (done.returncode, "tidings: " in done.stderr) == (1, True), done.stderr
    assert not state.exists()


# tidings follow --callback-listen

CALLBACK = ("--callback-listen", "127.0.0.1:0")


def has_active(of_set):
    """True if the hub has a subscription that is active."""
    return any(each["state"] == "active" for each in hub.subscriptions(of_set))


# The command unsubscribes when it is terminated.
@pytest.mark.broker(*hub.QUICK)
def test_follow_prints_what_the_hub_delivers(news, start):
    news.post()
    followed = start("tidings", "follow", news.url, "--from-start", *CALLBACK)
    for n in range(1, 21):
        assert followed.out.wait(n).endswith(f" http://example.com/r/{n}")
        wait_for("the subscription", lambda: has_active(news))
        news.post()
    followed.out.wait(21)
    followed.signal(signal.SIGTERM)
    assert followed.wait() == 0
    assert list(followed.out) == lines(news)
    assert followed.errors() == ""
    wait_for("the end of the subscription", lambda: not has_active(news))


def callback_of(broker):
    """The callback of the only subscription; the broker publishes it nowhere. None:
    there are several."""
    with contextlib.closing(sqlite3.connect(broker.data / "hub.db")) as records:
        rows = records.execute("SELECT callback FROM subscriptions").fetchall()
    return urllib.parse.urlsplit(rows[0][0]) if len(rows) == 1 else None


# W-043: anybody who knows the callback can deliver a denial of the subscription. The
# follower asks the hub, and ends only if the hub confirms it.
@pytest.mark.broker(*hub.QUICK)
def test_follow_asks_the_hub_whether_it_is_denied(news, broker, start):
    followed = start("tidings", "follow", news.url, "--from-start", *CALLBACK)
    wait_for("the subscription", lambda: has_active(news))
    news.post()
    followed.out.wait(1)

    told = callback_of(broker)
    denial = urllib.parse.urlencode({"hub.mode": "denied", "hub.topic": news.topic})
    answer = Client(told.port).get(f"{told.path}?{denial}")
    assert answer.status == 200

    def has_moved():
        return callback_of(broker) not in (None, told) and has_active(news)

    wait_for("another callback", has_moved)
    news.post()
    followed.out.wait(2)
    assert news.delete().status == 204
    assert followed.wait() == 1


# R-309, W-147: the hub cannot reach the callback, and gives a delivery up. The follower
# pulls its changes when the next one comes.
@pytest.mark.broker(*hub.QUICK, "--hub-give-up", "0.2", "--heartbeat", "3600")
def test_follow_fills_a_hole_in_the_deliveries_by_pull(news, start, start_proxy):
    port, kept = keep_port()
    proxy = start_proxy(port)
    followed = start(
        *("tidings", "follow", news.url, "--from-start"),
        *("--callback-listen", f"127.0.0.1:{port}", "--callback-url", proxy.url),
    )
    wait_for("the subscription", lambda: has_active(news))
    news.post()
    followed.out.wait(1)

    proxy.refuse()
    proxy.end_all(RESET)
    news.post(5)
    wait_for("a gap", lambda: hub.subscriptions(news)[0]["skipped"])
    assert len(followed.out) == 1
    before = len(proxy.connections)
    proxy.listen()
    last = news.post().last
    followed.out.wait(last)
    assert len(proxy.connections) > before  # a delivery
    interrupt(followed)
    assert list(followed.out) == lines(news)
    kept.close()


def test_follow_reports_what_is_wrong_with_its_callback(news, broker, follow):
    followed = follow(news, "--callback-listen", "nowhere", status=2)
    assert 'not HOST:PORT: "nowhere"' in followed.errors()
    follow(news, "--callback-url", "http://a.example/", status=2)
    assert "404" in follow(broker.set(), *CALLBACK, status=1).errors()


# tidings publish


def check_published(done, news, first, last):
    """It has published entries `first` to `last`, and printed the receipt. Returns
    the set's history."""
    history = news.changelists().read().history
    assert history.last == last
    assert done.output() == (
        f"first={first} last={last} position={history.epoch}-{last}"
        f" datetime={history[last].datetime}"
    )
    assert done.errors() == ""
    return history


#
def test_publish_posts_a_file(news, run, tmp_path):
    xml, plain = tmp_path / "changes.xml", tmp_path / "changes"
    xml.write_text(
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
        ' xmlns:rs="http://www.openarchives.org/rs/terms/">'
        '<rs:md capability="changelist"/>'
        '<url><loc>http://example.com/a</loc><rs:md change="created"/></url>'
        '<url><loc>http://example.com/b</loc><rs:md change="updated"/></url>'
        "</urlset>"
    )
    plain.write_text(f" {json.dumps([change('http://example.com/c?x&y', 'deleted')])}")
    done = run("tidings", "publish", news.url, xml)
    assert check_published(done, news, 1, 2)[2].loc == "http://example.com/b"
    done = run("tidings", "publish", news.url, plain)
    assert check_published(done, news, 3, 3)[3].loc == "http://example.com/c?x&y"
    done = run("tidings", "publish", news.url, plain, "--again", "--type", "json")
    check_published(done, news, 4, 4)


def test_publish_posts_its_standard_input(news, run):
    text = json.dumps(change("http://example.com/a"))
    for seq, file in enumerate((["-"], []), 1):
        done = run("tidings", "publish", news.url, *file, input=text)
        check_published(done, news, seq, seq)


# the options are in the list.
def test_publish_makes_changes_from_options(news, run):
    md5 = "md5:0123456789abcdef0123456789abcdef"
    done = run(
        "tidings", "publish", news.url, "--change", "updated",
        "--lastmod", "2026-01-02T03:04:05Z", "--length", 17, "--media-type", "text/csv",
        "--hash", md5, "http://example.com/a?1&2", "http://example.com/b",
    )  # fmt: skip
    history = check_published(done, news, 1, 2)
    assert history[1].loc == "http://example.com/a?1&2"
    assert history[2].change == "updated"
    document = news.changelist()
    for entry in (1, 2):
        url = f"//s:url[{entry}]"
        assert document.text(f"{url}/s:lastmod") == "2026-01-02T03:04:05Z"
        assert document.text(f"{url}/rs:md/@hash") == md5
    assert b' length="17" type="text/csv"/>' in document.bytes


# Design section 5, rule 5: the post is refused as a whole.
def test_publish_reports_why_a_post_is_refused(start_broker, run):
    broker = start_broker(*OPTIONS)
    news = broker.set()
    publish = ("tidings", "publish", news.url, "--change", "created")
    good = "http://example.com/a"
    done = run(*publish, good, "not-a-uri-1234", status=1)
    assert done.output() == ""
    assert done.errors().startswith("tidings: 422: ")
    assert "entry 2" in done.errors()
    assert news.get("changelist.xml").status == 404

    broker.stop()
    done = run(*publish, good, status=1)
    assert done.output() == ""
    assert done.errors().startswith("tidings: ")
