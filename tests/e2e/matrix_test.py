"""Every way to follow a set, through every thing that stands between: all changes once and in
order, or one sentence that names the line of the proxy to change. The tables of doc/proxies.md
are what this test has found: TIDINGS_WRITE=1 writes them."""

import dataclasses
import json
import os
import re

import pytest

from tidings_test import npm
from tidings_test.broker import BIN, ROOT, is_sanitized
from tidings_test.documentation import Page
from tidings_test.frontends import PAGE, CaddyTls, Haproxy, Nginx, page_block, page_lines
from tidings_test.http import Client
from tidings_test.middle import HABITS, Habit, Middle
from tidings_test.sets import change
from tidings_test.stream import EventSource, WebSocket

FOLLOWERS = ROOT / "tests/followers"
BEGIN = "<!-- written by TIDINGS_WRITE=1 tests/e2e/matrix_test.py -->\n"
END = "<!-- end -->\n"

# Things between


def bare_nginx(directory, broker, certificate):
    return Nginx(directory, broker, ["location / { proxy_pass http://127.0.0.1:8787; }"])


def page_nginx(directory, broker, certificate):
    return Nginx(directory, broker, open_lines("nginx"))


def late_nginx(directory, broker, certificate):
    """Holds back and compresses what it can."""
    lines = [line for line in open_lines("nginx") if "proxy_buffering" not in line]
    gzip = "gzip on; gzip_types *; gzip_min_length 0; gzip_proxied any;"
    return Nginx(directory, broker, [*lines, gzip])


def page_haproxy(directory, broker, certificate):
    return Haproxy(directory, broker, open_lines("HAProxy"))


def page_caddy(directory, broker, certificate):
    return CaddyTls(directory, broker, page_block("Caddy", "With tokens and TLS"), certificate)


def open_lines(name):
    """Those of the page, without the one by which others may only read."""
    denials = ("limit_except", "http-request deny")
    return [line for line in page_lines(name) if not any(one in line for one in denials)]


def with_habit(name):
    return lambda directory, broker, certificate: Middle(broker, HABITS[name])


NGINX_UPGRADE = (
    "`proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; "
    "proxy_set_header Connection $http_connection;`"
)

AWAY = (
    "An answer like 502, which a proxy gives while the broker restarts, ends an `EventSource` for "
    "good, as the standard wants it: take `tidings.js`, or open another one "
    "([following](following.md#an-eventsource-by-hand))."
)

# Each with what it lacks: what WebSockets need, and what an EventSource needs to go on where it was.
BETWEEN = {
    "nginx, as above": (page_nginx, None, None),
    "nginx, `proxy_pass` alone": (
        bare_nginx,
        f"Add {NGINX_UPGRADE}: nginx passes on no `Upgrade` by itself.",
        None,
    ),
    "nginx with `proxy_buffering` and `gzip`": (late_nginx, None, None),
    "HAProxy, as above": (page_haproxy, None, None),
    "Caddy, as above; HTTP/2 to the client": (page_caddy, None, None),
    "a proxy of HTTP/1.0": (
        with_habit("HTTP/1.0"),
        "HTTP/1.0 has no `Upgrade`: let the proxy speak HTTP/1.1, to the broker and to the client.",
        None,
    ),
    "a proxy that drops `Upgrade`": (
        with_habit("drops Upgrade"),
        "Let `Upgrade: websocket` and `Connection: Upgrade` pass, both ways.",
        None,
    ),
    "a proxy that drops unknown fields": (
        with_habit("drops unknown fields"),
        "Let `Upgrade`, `Connection: Upgrade` and the fields that begin with `Sec-WebSocket-` pass, "
        "both ways.",
        "Let `Last-Event-ID` pass. Without it an `EventSource` that connects again begins where its "
        "URL says: all comes again, or, without `after`, the changes in between are lost.",
    ),
    "a proxy that cuts connections after 5 s without a byte": (
        with_habit("cuts idle connections"),
        None,
        None,
    ),
}
FEW = ("nginx, `proxy_pass` alone", "a proxy that cuts connections after 5 s without a byte")
NOTES = [AWAY, *(note for _, *notes in BETWEEN.values() for note in notes if note)]


# Clients. Each kind starts the followers of cells, as few processes as the client allows.


@dataclasses.dataclass(eq=False)
class Cell:
    """A follower of a set of its own. `process` has its lines: those that begin with
    `prefix`."""

    row: "Row"
    client: str
    process: object = None
    prefix: str = ""
    ended_after: int = 0  # changes, by the absence of the broker

    @property
    def set(self):
        return self.row.sets[self.client]

    @property
    def url(self):
        return f"{self.row.proxy.url}{self.set.path}"

    def lines(self):
        return [line for line in self.process.out if line.startswith(self.prefix)]

    def loc(self, n):
        return f"http://example.com/{self.set.name}/{n}"

    @property
    def locs(self):
        return [line.split()[-1] for line in self.lines() if "ended: " not in line]

    @property
    def end(self):
        """Why it has ended; None: it has not."""
        for line in self.lines():
            _, is_ended, why = line.partition("ended: ")
            if is_ended:
                return why
        return None if self.process.is_running else self.process.errors()

    def wait(self, last):
        """Return when that change has come, or the follower has ended."""

        def is_it(line):
            here = line.startswith(self.prefix)
            return here and (line.endswith(f"/{last}") or " ended: " in line)

        try:
            self.process.out.find(is_it, f"change {last} of {self}")
        except AssertionError:
            assert not self.process.is_running

    def wait_end(self):
        self.process.out.find(
            lambda line: line.startswith(f"{self.prefix}ended: "), f"the end of {self}"
        )

    def way(self, lines):
        """What it used, by the lines of the access log."""
        used = {way_of(line) for line in lines if line["path"].startswith(f"{self.set.path}/")}
        return next((way for way in WAYS if way in used), None)

    def __repr__(self):
        return f"<{self.client} behind {self.row.name}>"


WAYS = ("WebSocket", "events", "long polls", "pages", "Change Lists")


def way_of(line):
    """What an answer of the broker carried; None: nothing."""
    path, status = line["path"], line["status"]
    if path.endswith("/stream"):
        return {101: "WebSocket", 200: "events"}.get(status)
    if line["method"] != "GET" or status != 200:
        return None
    if path.endswith("/changes"):
        return "long polls" if "wait=" in line.get("query", "") else "pages"
    return "Change Lists" if path.endswith("/changelist.xml") else None


class Starter:
    """Starts the followers of a matrix."""

    def __init__(self, start, directory, certificate):
        self.start = start
        self.directory = directory
        self.env = {
            **certificate.env,
            "NODE_EXTRA_CA_CERTS": str(certificate.ca),
        }

    def one_each(self, cells, command):
        """A process for each cell: command(url, a file of its own)."""
        for i, cell in enumerate(cells):
            file = self.directory / f"{cell.client}{i}"
            cell.process = self.start(*command(cell.url, file), env=self.env)

    def all_in_one(self, cells, *command, argument=lambda cell: cell.url, **env):
        """One process for all."""
        process = self.start(*command, *map(argument, cells), env={**self.env, **env})
        for cell in cells:
            cell.process, cell.prefix = process, f"{cell.url} "


def follow_by(transport, *more):
    more = ("--transport", transport, *more) if transport else ()

    def start(starter, cells):
        starter.one_each(
            cells, lambda url, file: ("tidings", "follow", url, "--from-start", *more)
        )

    return start


def follow_in_c(starter, cells):
    program = BIN.parent / "examples/follow"
    starter.one_each(cells, lambda url, file: (program, url, file))


def follow_in_python(starter, cells):
    from tidings_test.python import ENV, example, python

    starter.all_in_one(cells, *python(example("follow.py")), **ENV)


def follow_in_node(kind):
    def argument(cell):
        return f"{kind}:{cell.row.token}={cell.url}"

    def start(starter, cells):
        program = (npm.node(), FOLLOWERS / "follow.mjs")
        env = {"NODE_PATH": str(npm.modules())}
        starter.all_in_one(cells, *program, argument=argument, **env)

    return start


def follow_by_curl(way):
    def start(starter, cells):
        program = FOLLOWERS / "follow_curl.sh"
        starter.one_each(cells, lambda url, file: (program, way, url, file))

    return start


def follow_by_websockets(starter, cells):
    starter.all_in_one(cells, "/usr/bin/python3", FOLLOWERS / "follow_websockets.py")


CLIENTS = {
    "`tidings follow`": follow_by(None),
    "C": follow_in_c,
    "Python": follow_in_python,
    "`tidings.js`": follow_in_node("tidings"),
    "`EventSource`": follow_in_node("eventsource"),
    "its polyfill": follow_in_node("polyfill"),
    "curl, events": follow_by_curl("events"),
    "curl, long polls": follow_by_curl("longpoll"),
    "curl, pages": follow_by_curl("pages"),
    "python3-websockets": follow_by_websockets,
    "--transport websocket": follow_by("websocket"),
    "--transport events": follow_by("events"),
    "--transport longpoll": follow_by("longpoll"),
    "--transport poll": follow_by("poll", "--poll", "1"),
}
STANDARD = ("`EventSource`", "its polyfill")  # which end for good at an answer like 502
PRIVATE = "its polyfill"


# The matrix


class Row:
    """A thing between, a broker behind it, and a set for each client."""

    def __init__(self, name, make, start_broker, directory, certificate):
        self.name = name
        self.log = directory / "access.log"
        self.broker = start_broker(
            *("--access-log", self.log, "--log-format", "json", "--trusted-proxies", "127.0.0.1")
        )
        self.proxy = make(directory / "proxy", self.broker, certificate)
        self.broker.stop()
        self.broker.options += ["--public-url", self.proxy.url]
        self.broker.restart()
        self.broker.add_token("root", admin=True)
        self.sets = {client: self.broker.set(f"s{i}") for i, client in enumerate(CLIENTS)}
        private = self.sets[PRIVATE].name
        self.token = self.broker.add_token("reader", subscribe=[private])
        self.broker.add_token("everyone", subscribe=["*", f"!{private}"])
        self.posted = 0

    def post(self, n=1):
        """Post so many changes to each set, one by one."""
        for _ in range(n):
            self.posted += 1
            for one in self.sets.values():
                one.post_change(f"http://example.com/{one.name}/{self.posted}")

    def answers(self):
        """The lines of the access log; when the broker has ended."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def rows(start_broker, tmp_path, certificate):
    made = []
    # A sanitizer has little new to see in so many proxies.
    between = [one for one in BETWEEN.items() if not is_sanitized() or one[0] in FEW]
    for i, (name, (make, *_)) in enumerate(between):
        directory = tmp_path / f"row{i}"
        directory.mkdir()
        made.append(Row(name, make, start_broker, directory, certificate))
    yield made
    for row in made:
        row.proxy.end()


@pytest.fixture
def start_tree(start):
    """start(), of programs that start others."""
    started = []

    def start_it(*command, **options):
        started.append(start(*command, **options))
        return started[-1]

    yield start_it
    for process in started:
        if process.is_running:
            process.kill_tree()


def test_every_change_comes_once_and_in_order(rows, start_tree, tmp_path, certificate):
    starter = Starter(start_tree, tmp_path, certificate)
    cells = {}
    for row in rows:
        row.post(2)
    for client, begin in CLIENTS.items():
        if client == "Python" and is_sanitized():
            continue  # it is not built
        column = [Cell(row, client) for row in rows]
        begin(starter, column)
        cells.update({(cell.row.name, client): cell for cell in column})
    for cell in cells.values():
        cell.wait(2)
    post_and_wait(rows, cells)
    for row in rows:
        row.proxy.cut()
        row.post()
    for row in rows:
        row.proxy.restart()
        row.post()
    post_and_wait(rows, cells)

    # The broker is away. What the proxy answers then ends an EventSource for good.
    for row in rows:
        row.broker.stop()
    for (_, client), cell in cells.items():
        if client in STANDARD:
            cell.wait_end()
            cell.ended_after = rows[0].posted
    for row in rows:
        row.broker.restart()
    post_and_wait(rows, cells)
    post_and_wait(rows, cells)
    for row in rows:
        row.broker.stop()
    found = [line for columns in TABLES for line in table(rows, cells, columns)]
    if not is_sanitized():
        check_page(found)


def post_and_wait(rows, cells):
    for row in rows:
        row.post()
    for cell in cells.values():
        cell.wait(rows[0].posted)


# What the pages say besides


@pytest.fixture
def middle():
    """middle(broker, habit): a proxy of the test's own."""
    started = []

    def start(*arguments):
        started.append(Middle(*arguments))
        return started[-1]

    yield start
    for proxy in started:
        proxy.end()


# A proxy that cuts idle connections leaves one alone that is never idle for so long.
def test_a_short_heartbeat_keeps_streams_open(start_broker, middle):
    broker = start_broker("--heartbeat", "0.1", "--insecure-open")
    news = broker.set().create()
    proxy = middle(broker, Habit(upgrades=True, idle=3))
    others = Client(proxy.port)
    others.url = proxy.url
    followers = [kind(others, news.stream) for kind in (WebSocket, EventSource)]
    for _ in range(40):
        for follower in followers:
            assert not follower.next().entries
    news.post()
    for follower in followers:
        follower.until(1)
        follower.leave()
    assert proxy.cuts == 0


# Without its key a post that is sent again is another one.
@pytest.mark.parametrize("habit, kept", [("drops Upgrade", 1), ("drops unknown fields", 2)])
def test_a_key_has_to_pass(start_broker, middle, habit, kept):
    broker = start_broker("--insecure-open")
    news = broker.set()
    others = Client(middle(broker, HABITS[habit]).port)
    body = change("http://example.com/1")
    for _ in range(2):
        assert others.post(news.changes, body, idempotency_key="one").status == 200
    assert news.last() == kept


# The program of doc/following.md.
def test_an_eventsource_by_hand_is_opened_again(start_broker, middle, start, tmp_path):
    broker = start_broker("--insecure-open")
    news = broker.set("news").create()
    proxy = middle(broker, HABITS["drops Upgrade"])
    blocks = ["\n".join(one.lines) for one in Page(ROOT / "doc/following.md").blocks]
    (program,) = (one for one in blocks if "new EventSource" in one)
    program = program.replace("/sets/news/", f"{proxy.url}{news.path}/")
    get = "const { EventSource } = require('eventsource'), show = one => console.log(one.loc);"
    news.post()
    env = {"NODE_PATH": str(npm.modules())}
    node = start(npm.node(), "-e", f"{get}\n{program}", env=env)
    node.out.wait(1)
    broker.stop()
    proxy.refused.wait(1)
    broker.restart()
    news.post()
    node.out.wait(2)
    assert [line.split("/")[-1] for line in node.out] == ["1", "2"]


# The page


def note(text):
    return f"[{NOTES.index(text) + 1}]"


def verdict(cell):
    """What a cell of the table says of it; what is wrong, in an AssertionError."""
    _, no_upgrade, no_last_id = BETWEEN[cell.row.name]
    posted = [cell.loc(n) for n in range(1, cell.row.posted + 1)]
    way = cell.way(cell.row.answers())
    locs, end = cell.locs, cell.end
    if end and no_upgrade and cell.client in BY_WEBSOCKET:
        assert is_refusal(end) and not locs, (cell, end, locs)
        return f"no {note(no_upgrade)}"
    said = [way]
    if cell.ended_after:
        assert re.match("50[234]", end), (cell, end)
        del posted[cell.ended_after :]
        said.append(note(AWAY))
    else:
        assert not end, (cell, end)
    if locs != posted:
        is_first = cell.client == STANDARD[0]
        assert is_first and no_last_id and set(locs) == set(posted), (cell, way, locs)
        said.append(note(no_last_id))
    assert way, (cell, locs)
    return " ".join(said)


def is_refusal(end):
    """True if the text says what is wrong with a handshake: the broker's sentence, which names the
    lines of nginx, or what python3-websockets makes of an answer."""
    return "proxy_set_header Upgrade" in end or end in (
        *("426", "200", "unsupported HTTP version: HTTP/1.0"),
    )


BY_WEBSOCKET = ("python3-websockets", "--transport websocket")

# Columns, with the clients that have to agree about them.
BY_CLIENT = {client: [client] for client in list(CLIENTS)[:6]}
BY_WAY = {
    "WebSocket": BY_WEBSOCKET,
    "server-sent events": ["curl, events", "--transport events"],
    "long polls": ["curl, long polls", "--transport longpoll"],
    "pages of the change memory": ["curl, pages"],
    "Change Lists": ["--transport poll"],
}
TABLES = (BY_WAY, BY_CLIENT)


def table(rows, cells, columns):
    """Its lines. Fails with all cells that are wrong."""
    wrong = []
    lines = [f"| between | {' | '.join(columns)} |", f"| --- |{' --- |' * len(columns)}"]
    for row in rows:
        said = []
        for clients in columns.values():
            try:
                here = [cells[row.name, one] for one in clients if (row.name, one) in cells]
                verdicts = {verdict(cell) for cell in here}
            except AssertionError as failure:
                wrong.append(str(failure))
                continue
            assert len(verdicts) <= 1, (row.name, clients, verdicts)
            said += verdicts
        if columns is BY_WAY:
            said = [one if "[" in one else "all" for one in said]
        lines.append(f"| {row.name} | {' | '.join(said)} |")
    assert not wrong, "\n".join(wrong)
    return lines


def check_page(found):
    """The page has these lines, or gets them."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    block, _, after = rest.partition(END)
    if os.environ.get("TIDINGS_WRITE"):
        by_way, by_client = found[: len(found) // 2], found[len(found) // 2 :]
        notes = [f"{i}. {text}" for i, text in enumerate(NOTES, 1)]
        block = "\n".join(["", *by_way, "", CLIENTS_SENTENCE, "", *by_client, "", *notes, "", ""])
        PAGE.write_text(f"{before}{BEGIN}{block}{END}{after}")
    lines = block.splitlines()
    assert [line for line in found if line not in lines] == []
    assert [text for i, text in enumerate(NOTES, 1) if f"{i}. {text}" not in lines] == []


CLIENTS_SENTENCE = "What clients use there by themselves:"
