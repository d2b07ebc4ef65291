"""tidings publish --follow: lines of pipes and files, posted as they come, once."""

import json
import os
import signal

import pytest

from tidings_test.broker import BIN
from tidings_test.sets import change


def line(n):
    return json.dumps(change(f"http://example.com/{n}"))


def lines(*numbers):
    return "".join(f"{line(n)}\n" for n in numbers)


def numbers(news):
    """The lines that the set has, in order."""
    changes = json.loads(news.get("changes?after=0").body)["changes"]
    return [int(entry["loc"].rpartition("/")[2]) for entry in changes]


class Feed:
    """A file that lines are appended to, and the command that follows it."""

    def __init__(self, news, start, tmp_path, name="feed"):
        self.news = news
        self.path = tmp_path / name
        self.state = tmp_path / "spool"
        self._start = start

    def write(self, *numbers, path=None):
        with open(path or self.path, "a", encoding="utf-8") as file:
            file.write(lines(*numbers))

    def start(self, *options):
        state = ("--state", self.state)
        publish = ("tidings", "publish", self.news.url, "--follow", self.path)
        return self._start(*publish, *state, *options)


@pytest.fixture
def feed(news, start, tmp_path):
    return Feed(news, start, tmp_path)


def test_lines_of_a_pipe_are_posted_as_they_come(news, start, tmp_path):
    publish = ("tidings", "publish", news.url, "--follow", "--state", tmp_path)
    process = start(*publish)
    for n in range(1, 4):
        process.give(f"{line(n)}\n\n")
        news.wait_last(n)
    process.give(line(4))  # the last line needs no end
    process.end_input()
    assert process.wait() == 0
    assert process.output() == f"posted=4 rejected=0 position={news.state()['position']}"
    assert process.errors() == ""
    assert numbers(news) == [1, 2, 3, 4]
    assert (tmp_path / "spool").exists()


def test_a_fifo_has_one_writer_after_the_other(feed):
    os.mkfifo(feed.path)
    process = feed.start()
    for n in range(1, 4):
        feed.write(n)
        feed.news.wait_last(n)
    process.stop()
    assert numbers(feed.news) == [1, 2, 3]


def test_a_file_is_followed_over_ends_and_kills(feed):
    feed.write(1, 2)
    process = feed.start()
    feed.news.wait_last(2)
    feed.write(3)
    feed.news.wait_last(3)
    process.stop()
    assert process.output().startswith("posted=3 rejected=0 position=")

    feed.write(4, 5)
    with open(feed.path, "a", encoding="utf-8") as file:
        file.write(line(6)[:20])
        file.flush()
        process = feed.start()
        feed.news.wait_last(5)
        process.kill()
        process = feed.start()
        file.write(line(6)[20:] + "\n")
        file.flush()
        feed.news.wait_last(6)
    process.stop()
    process = feed.start()
    feed.write(7)
    feed.news.wait_last(7)
    process.stop()
    assert numbers(feed.news) == [1, 2, 3, 4, 5, 6, 7]


# The writer goes on with the old file until it opens the new one.
def test_a_renamed_file_is_read_to_its_end(feed, tmp_path):
    old = tmp_path / "feed.1"
    feed.write(1)
    process = feed.start()
    feed.news.wait_last(1)
    for first in (2, 6):
        feed.path.rename(old)
        feed.write(first, path=old)
        feed.news.wait_last(first)
        feed.path.touch()
        feed.write(first + 1, path=old)
        feed.news.wait_last(first + 1)
        with open(old, "a", encoding="utf-8") as file:
            file.write(line(first + 2))  # and its last line has no end
        feed.write(first + 3)
        feed.news.wait_last(first + 3)
    process.stop()
    assert numbers(feed.news) == list(range(1, 10))


def test_a_file_that_was_renamed_meanwhile_is_found(feed, tmp_path):
    feed.write(1)
    process = feed.start()
    feed.news.wait_last(1)
    process.stop()
    feed.write(2)
    feed.path.rename(tmp_path / "feed.1")
    feed.write(3)
    process = feed.start()
    feed.news.wait_last(3)
    process.stop()
    assert numbers(feed.news) == [1, 2, 3]


def rename_twice(feed):
    feed.path.rename(feed.path.with_suffix(".2"))
    feed.write(2)
    feed.path.rename(feed.path.with_suffix(".1"))
    feed.write(3)


def delete(feed):
    other = feed.path.with_suffix(".new")
    feed.write(2, path=other)
    other.rename(feed.path)


def truncate(feed):
    os.truncate(feed.path, 0)
    feed.write(2)


def change_bytes(feed):
    with open(feed.path, "r+", encoding="utf-8") as file:
        file.write(line(2))


# Lines may be lost there, so the command does not go on as if nothing had happened.
@pytest.mark.parametrize(
    "spoil, why",
    (
        (rename_twice, "is not the file that was read up to byte "),
        (delete, "is not the file that was read up to byte "),
        (truncate, "was truncated or changed before byte "),
        (change_bytes, "was truncated or changed before byte "),
    ),
)
def test_another_file_is_refused(feed, spoil, why):
    feed.write(1, 10)
    process = feed.start()
    feed.news.wait_last(2)
    process.stop()
    spoil(feed)
    process = feed.start()
    assert process.wait() == 1
    assert why in process.errors()
    assert numbers(feed.news) == [1, 10]


def test_a_file_that_is_truncated_ends_the_command(feed):
    feed.write(1, 2)
    process = feed.start()
    feed.news.wait_last(2)
    truncate(feed)
    assert process.wait() == 1
    assert "truncated or changed before byte" in process.errors()
    assert numbers(feed.news) == [1, 2]


BAD = {
    "no object": ("[1]", 'not NDJSON: the line does not begin with "{"'),
    "no JSON": ("{,}", "not JSON: "),
    "half a line": ('{"loc":', "not NDJSON: the line ends within its entry"),
    "no change": ('{"loc":"http://example.com/"}', "no change: created, updated or deleted?"),
    "no URI": (json.dumps(change("a")), 'loc: not an absolute URI, such as http://example.com/a: "a"'),
    "unknown": ('{"id":1}', 'unknown member "id" in the change'),
    "two": (line(8) + line(9), "not JSON: "),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_line_ends_the_command_or_is_rejected(feed, bad, tmp_path):
    text, why = BAD[bad]
    rejects = tmp_path / "rejects"
    feed.write(1)
    with open(feed.path, "a", encoding="utf-8") as file:
        file.write(f"\n{text}\n{lines(2)}")
    for _ in range(2):  # it stays where it is
        process = feed.start()
        assert process.wait() == 1
        assert process.errors().startswith(f"{feed.path}:3: {why}")
        assert numbers(feed.news) == [1]

    process = feed.start("--skip-bad", rejects)
    feed.news.wait_last(2)
    process.stop()
    assert process.errors().startswith(f"{feed.path}:3: {why}")
    assert process.output().startswith("posted=1 rejected=1 ")
    assert rejects.read_text() == f"{text}\n"
    assert numbers(feed.news) == [1, 2]


def test_a_line_that_is_too_long_ends_the_command(feed, tmp_path):
    feed.write(1)
    with open(feed.path, "a", encoding="utf-8") as file:
        file.write(" " * (1 << 20) + "\n")
    process = feed.start("--skip-bad", tmp_path / "rejects")
    assert process.wait() == 1
    assert f"{feed.path}:2: the line is longer than 1048576 bytes" in process.errors()
    assert numbers(feed.news) == [1]


# A set that keeps content refuses changes without it: only the broker knows.
def test_a_change_that_the_broker_refuses_is_kept_or_rejected(feed, tmp_path):
    rejects = tmp_path / "rejects"
    feed.news.change(content="inline")
    deleted = json.dumps(change("http://example.com/7", "deleted"))
    feed.path.write_text(f"{line(1)}\n{deleted}\n")
    for _ in range(2):
        process = feed.start()
        assert process.wait() == 1
        assert "the broker refuses a change: 422: " in process.errors()
        assert "2 changes wait in" in process.errors()
    process = feed.start("--skip-bad", rejects)
    feed.news.wait_last(1)
    process.stop()
    assert rejects.read_text() == f"{line(1)}\n"
    assert numbers(feed.news) == [7]


def test_unknown_members_are_left_out(feed):
    feed.path.write_text(json.dumps({"id": 1, **change("http://example.com/1")}) + "\n")
    process = feed.start("--ignore-unknown")
    feed.news.wait_last(1)
    process.stop()
    assert numbers(feed.news) == [1]


# While the broker is away the spool fills up; then nothing is read.
def test_a_full_spool_stops_reading(start_broker, start, tmp_path):
    broker = start_broker()
    feed = Feed(broker.set(), start, tmp_path)
    broker.stop()
    feed.write(*range(1, 5001))
    process = feed.start("--spool-bytes", "100K")
    process.err.find(lambda text: "the spool is full: " in text)
    assert feed.state.stat().st_size < 1 << 20
    broker.restart()
    feed.news.wait_last(5000)
    process.err.find(lambda text: "the spool has room again" in text)
    process.stop()
    assert numbers(feed.news) == list(range(1, 5001))


# The end waits for the broker, but not for ever, and what it leaves is posted later.
@pytest.mark.parametrize("is_pipe", (True, False))
def test_the_end_is_bounded_and_says_what_is_left(start_broker, start, tmp_path, is_pipe):
    broker = start_broker()
    feed = Feed(broker.set(), start, tmp_path)
    broker.stop()
    if is_pipe:
        feed.path = "-"
        process = feed.start("--retry", "0.1")
        process.give(lines(1, 2))
        process.end_input()
    else:
        feed.write(1, 2)
        process = feed.start()
        process.err.find(lambda text: "; again in " in text)
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGINT)
    assert process.wait() == 1
    assert f"2 changes wait in {feed.state}: the same command posts them" in process.errors()
    assert process.output() == "posted=0 rejected=0 position="

    broker.restart()
    process = feed.start()
    feed.news.wait_last(2)
    if not is_pipe:
        process.signal(signal.SIGTERM)
    assert process.wait() == 0
    assert numbers(feed.news) == [1, 2]


def test_wrong_usage_is_refused(news, run, tmp_path):
    publish = ("tidings", "publish", news.url, "--follow")
    state = ("--state", tmp_path / "spool")
    for options in (
        (),
        ("--state", ""),
        (*state, "a", "b"),
        (*state, "--type", "xml"),
        (*state, "--change", "created"),
        (*state, "--dry-run"),
        (*state, "--again", "a"),
        (*state, "--key", "a"),
        (*state, "--full", "a"),
        (*state, "--retry", "x"),
        (*state, "--spool-bytes", "0"),
    ):
        run(*publish, *options, status=2)
    for options in (state, ("--skip-bad", "a"), ("--spool-bytes", "1M")):
        run("tidings", "publish", news.url, *options, status=2)
    nowhere = run(*publish, tmp_path / "no-file", *state, status=1).errors()
    assert "cannot open" in nowhere and "no-file" in nowhere
    (tmp_path / "file").write_text(lines(1))
    shell = f"{BIN}/tidings publish {news.url} --follow {' '.join(map(str, state))}"
    process = run("/bin/sh", "-c", f"{shell} < {tmp_path}/file", status=1)
    assert "standard input is a file: name the file" in process.errors()
