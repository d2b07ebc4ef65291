"""Debian's package index through the broker: four publishers at once, every kind of
receiver, one sequence in the end."""

import json
import random
import threading

from tidings_test.documents import Document
from tidings_test.history import History
from tidings_test.http import JSON, XML
from tidings_test.messages import MessageEntry, first_digest
from tidings_test.packages import packages
from tidings_test.soak import soak
from tidings_test.waiting import wait_for

# Where a list ends: in the long form, where it does if nothing is set.
LIST_ENTRIES = soak(4000, 50000)
OPTIONS = soak(("--rotate-entries", LIST_ENTRIES), ())

PUBLISHERS = 4
POST_MAX = soak(150, 2000)

URLSET = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:td="urn:tidings:1">\n'
    '<rs:md capability="changelist"/>\n'
)


def as_xml(rows):
    lines = "".join(
        f"<url><loc>{loc.replace('&', '&amp;')}</loc>"
        f'<rs:md change="created" hash="sha-256:{sum_}" length="{size}"/></url>\n'
        for loc, sum_, size in rows
    )
    return f"{URLSET}{lines}</urlset>\n", XML


def as_json(rows):
    names = ("change", "loc", "hash", "length")
    told = [("created", loc, {"sha-256": sum_}, size) for loc, sum_, size in rows]
    return [dict(zip(names, one)) for one in told], JSON


class Stock:
    """The packages, in posts of any size, and the acknowledged ones: `locs` by their
    seqs. The second half waits for `second_half`."""

    def __init__(self, news):
        self.set = news
        self.second_half = threading.Event()
        self.locs = {}
        base = "http://deb.example.org/debian/"
        self._rows = [(base + name, *more) for name, more in packages()]
        self.n = len(self._rows)
        self._next = 0
        self._random = random.Random(20261120)
        self._lock = threading.Lock()

    def take(self, most=POST_MAX):
        """The rows of the next post; none: that was all."""
        with self._lock:
            n = self._random.choice((1, *[self._random.randint(1, most)] * 7))
            first, self._next = self._next, self._next + n
        if first + n > self.n // 2:
            self.second_half.wait()
        return self._rows[first : first + n]

    def post(self, client, rows, write):
        receipt = self.set.receipt(client.post(self.set.changes, *write(rows)))
        assert receipt.last - receipt.first + 1 == len(rows)
        with self._lock:
            for seq, row in enumerate(rows, receipt.first):
                assert seq not in self.locs
                self.locs[seq] = row[0]
        return receipt

    def publish(self, client, write):
        """Post until there is no more; runs on a thread of its own."""
        while rows := self.take():
            self.post(client, rows, write)


def seq_of(state):
    """The seq of the position in a state file; 0: it has none yet."""
    return int(state.read_text().rpartition("-")[2]) if state.exists() else 0


def read_lines(program, history):
    """Add what the program has printed as XML, lines that are whole."""
    lines = [line + "\n" for line in program.out if line.endswith("</url>")]
    for entry in Document(f"{URLSET}{''.join(lines)}</urlset>").entries:
        history.add_entry(entry)
    return int(lines[0].partition('td:seq="')[2].partition('"')[0])


# the whole index, posted by four at once
# across the end of a list, is one sequence for every receiver.
def test_every_receiver_ends_with_the_sequence_that_was_acknowledged(
    start_broker, background, start, tmp_path
):
    broker = start_broker(*OPTIONS)
    news = broker.set()
    stock = Stock(news)
    epoch = stock.post(broker, stock.take(1), as_xml).epoch
    publishers = [
        background(stock.publish, broker.client(), (as_xml, as_json)[who % 2])
        for who in range(PUBLISHERS)
    ]

    # From the start, by the program and by raw bytes, in JSON.
    follow = ("tidings", "follow", news.url, "--from-start", "--format")
    by_program = start(*follow, "json", "--count", stock.n)
    from_start = news.websocket("after=0")
    reading = background(from_start.until, stock.n)

    # In XML, killed on its way.
    killed = History()
    killed.digests[0] = first_digest(epoch)
    state = tmp_path / "state"
    follow_xml = (*follow, "xml", "--state", state)
    program = start(*follow_xml)
    program.out.wait(stock.n // 3)
    wait_for("its state", lambda: seq_of(state) >= stock.n // 3)
    program.kill()
    read_lines(program, killed)
    assert stock.n // 3 <= killed.last < stock.n

    # By raw bytes, in XML, from the middle on.
    joiner = news.websocket(f"after={epoch}-{news.last()}", "xml")
    stock.second_half.set()
    joiner.until(stock.n)

    # The killed one goes on where its state says, not from the start.
    program = start(*follow_xml)
    program.out.find(lambda line: f'td:seq="{stock.n}"' in line)
    program.signal(2)
    assert program.wait() == 0
    assert read_lines(program, killed) > stock.n // 3

    for publisher in publishers:
        publisher.join()
    reading.join()
    from_start.connection.close()
    assert by_program.wait() == 0
    whole = History()
    for line in by_program.out:
        entry = json.loads(line)
        whole.add_entry(MessageEntry(*(entry[name] for name in MessageEntry._fields)))

    # All are the same as what is in the lists, which is what was acknowledged.
    lists = news.changelists().read()
    pulled = lists.history
    assert len(lists) == 2
    assert lists[0].last == LIST_ENTRIES
    assert pulled.last == stock.n
    assert stock.locs == dict(enumerate(pulled.locs(), 1))
    last_digest = pulled.digests[stock.n]
    assert from_start.message.digest == f"sha-256:{last_digest.hex()}"
    for history in (joiner.history, killed):
        assert history.digests[stock.n] == last_digest
    for history in (whole, from_start.history, joiner.history, killed):
        history.check_same(pulled)
    assert joiner.history.after >= stock.n // 3
    assert whole.after == from_start.history.after == killed.after == 0
