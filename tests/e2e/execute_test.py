"""Commands that tidings follow --exec runs: their input, their rights, and the
consequence of their end."""

import os
import signal

import pytest

from tidings_test.broker import is_sanitized
from tidings_test.content import multipart
from tidings_test.sets import change


@pytest.fixture
def follow(news, start, tmp_path):
    """follow(command): starts tidings, which runs the command for all changes of news
    that the state does not have yet."""
    options = ("--from-start", "--until-caught-up", "--state", tmp_path / "state")
    return lambda command: start(
        "tidings", "follow", news.url, *options, "--exec", command
    )


def check_end(process, out, status=0, err=()):
    """The process ends with this status, and has printed these lines."""
    assert process.wait() == status
    assert (list(process.out), list(process.err)) == (list(out), list(err))


# The number of its open connections, and its signals without those above 28, two of
# which the C library uses itself. The shell closes pipes of its own while ls looks at
# them.
GIVEN = (
    "for i in $(ls -l /proc/$$/fd 2>/dev/null | sed -n 's/.*socket:.\\([0-9]*\\).$/\\1/p'); "
    'do grep " $i " /proc/net/tcp; done | wc -l; '
    "exec sed -nE 's/^(SigBlk|SigIgn).*(.{7})$/\\1 \\2/p' /proc/self/status"
)


def test_a_command_gets_no_connection_and_no_signal_mask_of_tidings(news, follow, run):
    news.post(2)
    plain = list(run("/bin/sh", "-c", GIVEN).out)
    assert len(plain) == 3
    check_end(follow(GIVEN), plain * 2)


# A change is data; a shell must not interpret it.
def test_a_change_is_no_part_of_the_command(news, follow):
    loc = "http://example.com/$(echo+no);exit'`echo+no`"
    news.post_change(loc, "updated")
    check_end(follow('echo "$TIDINGS_LOC"'), [loc])


# in a catch-up the resource has only its newest version; the link says where the
# version of each change is.
def test_a_command_is_given_the_version_of_each_change(news, follow):
    loc = "http://example.com/res1"
    kept = [f"http://example.com/2026{month:02}01/res1" for month in (1, 2)]
    for memento in kept:
        links = [{"rel": "describedby", "href": "http://example.com/about"}]
        links.append({"rel": "memento", "href": memento})
        news.post_change(loc, "updated", links=links)
    news.post_change(loc, "deleted")
    version = 'echo "$TIDINGS_LOC ${TIDINGS_MEMENTO:-no version}"'
    ends = [*kept, "no version"]
    check_end(follow(version), [f"{loc} {end}" for end in ends])


# a broker that keeps the bytes names each version itself.
def test_a_command_gets_the_bytes_of_each_version(news, follow):
    news.change(content="inline")
    loc = "http://example.com/res1"
    for text in (b"one\n", b"two\n"):
        body = multipart(change(loc, "updated"), [(loc, "text/plain", text)])
        news.receipt(news.send(*body))
    check_end(follow('curl -sS "$TIDINGS_MEMENTO"'), ["one", "two"])


# The changes are larger than a pipe.
def test_a_command_need_not_read(news, follow):
    news.post(3, size=200000)
    check_end(follow("exec 0<&-; echo $TIDINGS_SEQ"), ["1", "2", "3"])


def test_a_command_that_is_killed_has_failed(news, follow):
    news.post()
    error = "tidings: the command was ended by signal 9 at http://example.com/r/1"
    check_end(follow("kill -9 $$"), [], 1, [error])


# tidings waits for the end of the command, does not report how it ended, and runs it
# again the next time.
def test_an_interrupted_command_is_run_again(news, follow):
    news.post(2)
    following = follow("echo $$; test $TIDINGS_SEQ = 1 || exec tail -f /dev/null")
    pid = int(following.out.wait(2))
    following.signal(signal.SIGTERM)
    os.kill(pid, signal.SIGKILL)
    assert (following.wait(), following.errors()) == (0, "")
    check_end(follow("echo $TIDINGS_SEQ"), ["2"])


COMMANDS = 200  # between two looks at the memory
SIZE = 1900  # of a change; so many of them, kept, would be 370 KiB
GROWTH_KIB = 200


# Nothing of a change is kept when its command has ended.
def test_many_commands_need_no_more_memory_than_one(news, follow):
    locs = [f"http://example.com/{i}/{'x' * SIZE}" for i in range(2 * COMMANDS)]
    assert news.send([change(loc, "updated") for loc in locs]).status == 200
    process = follow(
        f"test $((TIDINGS_SEQ % {COMMANDS})) -ne 0 || "
        "sed -n 's/^RssAnon: *//p' /proc/$PPID/status"
    )
    assert process.wait() == 0
    before, after = [int(line.split()[0]) for line in process.out]
    assert before > 0
    assert is_sanitized() or 1 <= after <= before + GROWTH_KIB, (before, after)
