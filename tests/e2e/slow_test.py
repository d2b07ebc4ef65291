"""Followers that do not read cost nothing: not the others, not memory, not
themselves."""

import fcntl
import json
import re
import socket
import struct
import termios
from secrets import token_hex

import pytest
from tidings_test.broker import is_sanitized
from tidings_test.sets import change
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

# Two posts of five have 30 KB, one has 300 KB, two have 1 MB: entries, and their size.
POSTS = [(10, 3000), (16, 65000), (10, 3000), (10, 30000), (16, 65000)]

# The broker's allowance: the tail; for each of two threads the frames under way, and
# those that are kept for others; the log's cache for followers behind the tail; and 8
# MB for the rest. Queues of the followers that do not read would take twice that.
TAIL_MB = 8
GROWTH_KIB = (TAIL_MB + 2 * (16 + 4) + 32 + 8) * 1024

FORMS = {
    "xml": re.compile(
        rb'.*?<rs:md (?=.*? td:after="(\d+)")(?=.*? td:last="(\d+)")'
        rb'(?=.*? td:digest="([^"]+)").*?/>\n(.*)</urlset>\n',
        re.DOTALL,
    ),
    "json": re.compile(
        rb'(?=.*?"after":(\d+))(?=.*?"last":(\d+))(?=.*?"digest":"([^"]+)")'
        rb'.*?"changes":\[(.*)\]\}\n?',
        re.DOTALL,
    ),
}


class Crowd:
    """Many followers that check every byte, quickly.

    The entries of a set, in one form, are one long text, however they are cut into
    messages. The crowd keeps that text once for each form: the first reader of a part
    adds it, all others compare.
    """

    def __init__(self):
        self.texts = {"xml": bytearray(), "json": bytearray()}
        self.ends = {}  # where an entry ends in the text, by form and seq
        self.digests = {}  # by seq


class Reader:
    """One of the crowd. `last` is the last entry that it has; None: no message came."""

    def __init__(self, crowd, follower, form):
        self.crowd = crowd
        self.follower = follower
        self.form = form
        self.last = None
        self.at = 0  # in the text of its form

    def until(self, last):
        """Read until a message ends at `last`; none may go beyond."""
        while self.last is None or self.last < last:
            self.take(self.follower.read_text())
        assert self.last == last

    def take(self, message):
        after, last, digest, entries = FORMS[self.form].fullmatch(message).groups()
        after, last = int(after), int(last)
        if self.last is None:
            assert after == last == 0  # the first is a heartbeat
        else:
            assert after == self.last <= last
        if self.form == "json" and 0 < after < last:
            entries = b"," + entries  # which does not stand between messages
        text = self.crowd.texts[self.form]
        known = text[self.at : self.at + len(entries)]
        assert entries.startswith(known), f"other entries after {after}"
        text += entries[len(known) :]
        self.at += len(entries)
        assert self.crowd.ends.setdefault((self.form, last), self.at) == self.at
        assert self.crowd.digests.setdefault(last, digest) == digest
        self.last = last

    @property
    def socket(self):
        return self.follower.connection.socket

    def unread(self):
        """The number of received bytes that it has not read."""
        return struct.unpack("i", fcntl.ioctl(self.socket, termios.FIONREAD, b"    "))[0]


def send_buffer_max():
    """The most that the system buffers for a socket on the sending side."""
    with open("/proc/sys/net/ipv4/tcp_wmem", encoding="ascii") as sizes:
        return int(sizes.read().split()[2])


# many followers, some of which do not read: the others get everything at once,
# memory stays bounded, and the stalled ones get everything when they read again.
def test_followers_that_do_not_read_cost_nobody_anything(start_broker):
    n_readers, n_stalled = soak(52, 600), soak(30, 60)
    broker = start_broker(
        *("--threads", 2, "--tail-bytes", f"{TAIL_MB}M", "--heartbeat", 3600)
    )
    news = broker.set()
    news.post()
    # Every fourth is an EventSource, every twelfth gets JSON by WebSocket; those that
    # stall are of all kinds.
    crowd = Crowd()
    readers = []
    for i in range(n_readers):
        narrow = i < n_stalled
        form = "json" if i % 4 == 1 or i % 12 == 3 else "xml"
        if i % 4 == 1:
            follower = news.events("after=0", narrow=narrow)
        else:
            follower = news.websocket("after=0", form, narrow=narrow)
        readers.append(Reader(crowd, follower, form))
    for reader in readers:
        reader.until(1)
    stalled, others = readers[:n_stalled], readers[n_stalled:]

    before = most = broker.process.memory_kib()
    for i in range(soak(12, 30)):
        n, size = POSTS[i % len(POSTS)]
        last = news.post(n, size=size).last
        for reader in others:
            reader.until(last)
        most = max(most, broker.process.memory_kib())
    print(f"the broker grew from {before} KiB to {most} KiB")
    if not is_sanitized():
        assert most <= before + GROWTH_KIB

    # They were truly stalled: the broker sent more than all buffers take.
    for reader in stalled:
        assert reader.last == 1
        took = send_buffer_max() + reader.unread() + 65536
        assert len(crowd.texts["xml"]) > took
    for reader in stalled:
        reader.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        reader.until(last)

    # No follower was closed, and all of them got the entries of the Change List.
    last = news.post().last
    for reader in readers:
        reader.until(last)
    document = news.changelist(1)
    lines = [entry.line for entry in document.entries]
    assert b"".join(lines) == crowd.texts["xml"]
    assert document.digest == crowd.digests[last].decode()
    seqs = [int(entry["seq"]) for entry in json.loads(b"[%s]" % crowd.texts["json"])]
    assert seqs == [entry.seq for entry in document.entries] == [*range(1, last + 1)]
    for reader in readers:
        reader.follower.leave()
    broker.stop()


def unsent(port):
    """How many bytes the system holds for all connections to a port of IPv4."""
    with open("/proc/net/tcp", encoding="ascii") as sockets:
        fields = (line.split() for line in list(sockets)[1:])
        return sum(
            int(queues.split(":")[0], 16)
            for _, local, _, _, queues, *_ in fields
            if int(local.split(":")[1], 16) == port
        )


def ask_silently(start_broker, fill, accept):
    """Many ask for the path that `fill` returns, and read nothing. Waits until the
    broker has ended them, while changes reach another client. Returns how many they
    were, and how many bytes the system held for them at most."""
    n = soak(50, 1000)
    broker = start_broker("--min-rate", "1K", "--request-timeout", soak(3, 30))
    news = broker.set()
    path = fill(news)
    honest = news.websocket()
    honest.next()
    silent = []
    for _ in range(n):
        silent.append(broker.connect())
        silent[-1].send(
            f"GET {path} HTTP/1.1\r\nHost: {silent[-1].host}\r\n{accept}\r\n\r\n"
        )

    most = 0

    def look():
        nonlocal most
        most = max(most, unsent(broker.port))
        honest.until(news.post().last)
        return broker.metrics()["tidings_slow_connections_total"] == n

    wait_for("the end of the silent readers", look)
    print(f"the system held {most / n / 1024:.0f} KiB for each")
    for connection in silent:
        connection.close()
    honest.leave()
    broker.stop()
    return n, most


# many ask for a long history, and do not read it.
def test_silent_readers_of_a_history_cost_little_and_end(start_broker):
    def fill(news):
        for _ in range(soak(12, 100)):
            news.post(16, size=65000)
        return f"{news.stream}?after=0"

    n, most = ask_silently(start_broker, fill, "Accept: text/event-stream")
    assert most < n * 512 * 1024


# many ask for a closed list, which is sent from its file. Sixteen of them have
# room for 2 MB (connection_widen), which takes the whole of the smaller list: the broker
# has nothing more to send, and yet they count as widened until they are ended.
@pytest.mark.parametrize("posts", (8, 24))
def test_silent_readers_of_a_file_cost_little_and_end(start_broker, posts):
    def fill(news):
        for _ in range(posts):  # 400 KB each, 200 KB in gzip
            locs = (f"http://a.example/{token_hex(200)}" for _ in range(1000))
            assert news.send([change(loc) for loc in locs]).status == 200
        number = news.rotate()
        size = len(news.wait_dated(number).body)
        assert size < (2 << 20) if posts == 8 else size > (4 << 20)
        return f"{news.path}/{news.list_path(number)}"

    n, most = ask_silently(start_broker, fill, "Accept-Encoding: gzip")
    assert most < n * 512 * 1024 + 16 * (2 << 20)
