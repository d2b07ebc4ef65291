"""Progress of publish, publish --full, audit and verify, on a terminal alone."""

import json
import re
import signal

import pytest

from tidings_test.sets import change
from tidings_test.terminal import Terminal, bars_of

ERASED = re.compile(r"\r +\r$")


def changes(n):
    return json.dumps([change(f"http://example.com/{i}") for i in range(n)])


def resources(path, n):
    lines = (f'{{"loc":"http://example.com/{i}"}}\n' for i in range(n))
    path.write_text("".join(lines))
    return path


def check_bars(said, part):
    """Bars were drawn, one of them with `part`, and the last one was erased."""
    assert any(part in bar for bar in bars_of(said)), said
    assert ERASED.search(said), said
    assert "\033" not in said


@pytest.fixture
def posted(tmp_path):
    path = tmp_path / "changes.json"
    path.write_text(changes(20000))
    return path


def test_publish_shows_what_was_sent(news, start, posted):
    publish = ("publish", news.url, posted)
    said = Terminal(start, 80, *publish).read_all()
    assert any(re.match(r"\[[#.]{20}\]  |waiting for the broker", bar) for bar in bars_of(said))
    assert ERASED.search(said)
    assert news.last() == 20000


@pytest.mark.parametrize("name, value", (("NO_COLOR", "1"), ("TERM", "xterm")))
def test_there_is_no_escape_sequence(news, start, posted, name, value):
    said = Terminal(start, 80, "publish", news.url, posted, env={name: value}).read_all()
    assert said and "\033" not in said


def test_no_bar_is_drawn_where_nobody_wants_one(news, start, run, posted):
    publish = ("publish", news.url, posted, "--again")
    assert Terminal(start, 80, *publish, "--no-progress").read_all() == ""
    assert Terminal(start, 80, *publish, env={"TERM": "dumb"}).read_all() == ""
    assert run("tidings", *publish).errors() == ""
    for command in ("sync", "audit", "verify", "publish"):
        assert "--no-progress" in run("tidings", command, "--help").output()


def test_full_counts_what_it_reads(news, start, tmp_path):
    full = ("publish", news.url, "--full", resources(tmp_path / "all.ndjson", 5000))
    check_bars(Terminal(start, 80, *full).read_all(), "reading the list: 256 resources")
    narrow = Terminal(start, 12, *full).read_all()
    assert bars_of(narrow) and all(len(bar) < 12 for bar in bars_of(narrow))


def test_verify_counts_lists_and_entries(news, start):
    for _ in range(3):
        news.post(2)
        news.rotate()
    said = Terminal(start, 80, "verify", news.url).read_all()
    check_bars(said, "proven: 1 lists, up to entry 2")


def test_follow_counts_what_was_posted(news, start, tmp_path):
    path = tmp_path / "feed"
    path.write_text(json.dumps(change("http://example.com/1")) + "\n")
    follow = ("publish", news.url, "--follow", path, "--state", tmp_path / "spool")
    terminal = Terminal(start, 80, *follow)
    terminal.read_until("1 of 1 changes posted")
    terminal.process.signal(signal.SIGTERM)
    check_bars(terminal.read_all(), "1 of 1 changes posted")


def test_audit_counts_what_it_compares(mirrored, start):
    mirrored.change("/a.txt", "a")
    mirrored.post()
    mirrored.sync()
    said = Terminal(start, 80, "audit", "--full", mirrored.url, mirrored.directory).read_all()
    bars, _, _ = said.partition("tidings: complete as of")
    check_bars(bars, "1 of 1 resources")


# The broker does not answer: the bar stays until a signal or an error takes its place.
def test_a_signal_erases_the_bar(start_broker, start, tmp_path):
    broker = start_broker()
    news = broker.set()
    broker.process.halt()
    path = tmp_path / "changes.json"
    path.write_text(changes(60000))
    terminal = Terminal(start, 80, "publish", news.url, path)
    terminal.read_until("\r[")
    terminal.process.signal(signal.SIGINT)
    said = terminal.read_all(status=128 + signal.SIGINT)
    broker.process.go_on()
    check_bars(said, "[")


def test_a_message_takes_the_place_of_the_bar(news, start, tmp_path):
    path = tmp_path / "changes.json"
    path.write_text(changes(20000)[:-1])
    said = Terminal(start, 80, "publish", news.url, path).read_all(status=1)
    assert re.search(r"\r +\rtidings: 400: [^\r]*\r\n$", said), said
