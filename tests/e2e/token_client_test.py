"""The bearer token of the command line: the three ways to give it, for every command;
who gets it and who does not; a token that is replaced; and where it must not be seen.

A guard stands before the broker and asks for the token."""

import asyncio
import json
import pathlib
import secrets
import signal

import pytest

from tidings_test import hub
from tidings_test.servers import Server, call
from tidings_test.waiting import Arrivals, wait_for

TOKEN = "td_0123456789ab_" + secrets.token_hex(32)
NEXT = "td_ba9876543210_" + secrets.token_hex(32)
CALLBACK = ("--callback-listen", "127.0.0.1:0")


class Guard(Server):
    """Passes requests with the token to a port, or answers them by `pages`; answers
    others with 401. `sent` are the requests: method, path and the value of
    Authorization."""

    def __init__(self, token=TOKEN):
        self.token = token
        self.port_behind = None
        self.pages = {}
        self.sent = Arrivals("the requests to the guard")
        super().__init__()

    def refused(self):
        return [each for each in self.sent if each[2] != f"Bearer {self.token}"]

    def cut_all(self):
        """Reset all connections; new ones are accepted."""
        call(self._reset_all)

    async def serve(self, peer):
        request = await peer.head()
        if not request:
            return
        given = request["Authorization"]
        self.sent.add((request.method, request.target, given))
        if given != f"Bearer {self.token}":
            await peer.body(request)
            body = json.dumps({"title": "Unauthorized", "status": 401})
            await peer.send(
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n"
                b"Content-Type: application/problem+json\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body.encode())
            )
            return
        if request.target in self.pages:
            body = self.pages[request.target]
            head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n"
            await peer.send(head.format(len(body)).encode() + body)
        else:
            await self._pass(peer, request)

    async def _pass(self, peer, request):
        """Each connection serves one request, so that none gets by."""
        lines = [request.first_line]
        for name, value in request.headers:
            if name.lower() != "authorization":
                lines.append(f"{name}: {value}")
        if not request["Upgrade"]:
            lines.append("Connection: close")
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port_behind)
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

        async def copy(of, to):
            while piece := await of.read(65536):
                to.write(piece)
                await to.drain()
            to.close()

        up = asyncio.ensure_future(copy(peer.reader, writer))
        try:
            await copy(reader, peer.writer)
        finally:
            up.cancel()
            writer.close()


@pytest.fixture
def guard(start_broker):
    guard = Guard()
    broker = start_broker(*hub.QUICK, "--public-url", guard.url)
    guard.port_behind = broker.port
    guard.broker = broker
    yield guard
    guard.end()


@pytest.fixture
def token_file(tmp_path):
    """token_file(TOKEN): a file of the owner's alone with that token."""

    def write(token, name="token"):
        path = tmp_path / name
        new = tmp_path / f"{name}.new"
        new.touch(0o600)
        new.write_text(token + "\n")
        new.replace(path)
        return path

    return write


@pytest.fixture(params=["option", "file", "variable"])
def way(request, token_file):
    """A way to give the token: options and environment."""
    path = token_file(TOKEN)
    return {
        "option": (("--token-file", path), {"TIDINGS_TOKEN": "wrong"}),
        "file": ((), {"TIDINGS_TOKEN_FILE": str(path), "TIDINGS_TOKEN": "wrong"}),
        "variable": ((), {"TIDINGS_TOKEN": TOKEN}),
    }[request.param]


def commands(guard, tmp_path):
    """Every command that speaks HTTP, in an order in which each has what it needs."""
    url = f"{guard.url}/sets/news"
    second = f"{guard.url}/sets/second"
    guard.pages["/a.txt"] = b"a"
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("a")
    mirror = tmp_path / "mirror"
    entries = tmp_path / "all.ndjson"
    entries.write_text(json.dumps({"loc": "http://example.com/b"}) + "\n")
    target = ("--target-token-file", tmp_path / "token")
    yield "set", "create", url
    yield "set", "create", second
    yield "publish", url, "--change", "created", f"{guard.url}/a.txt"
    yield "publish", second, "--full", entries
    yield "set", "change", url, "--title", "Mine"
    yield "set", "show", url
    yield "get", url
    yield "get", f"{guard.url}/.well-known/resourcesync"
    for transport in ("websocket", "events", "longpoll", "poll"):
        follow = ("follow", url, "--from-start", "--count", "1")
        yield *follow, "--transport", transport
    yield *follow, *CALLBACK
    yield "sync", url, mirror, "--until-caught-up", "--verbose"
    yield "audit", url, mirror
    yield "verify", url
    yield "watch", files, second, "--base-uri", "http://example.com/f/", "--once"
    state = ("--state", tmp_path / "harvest", "--once")
    yield "harvest", url, second, *state, *target
    yield "set", "delete", url, "--yes"


def test_every_command_sends_the_token(guard, way, tmp_path, token_file, run):
    options, environment = way
    token_file(TOKEN)  # of the set of `harvest`, always by its option
    for name, *arguments in commands(guard, tmp_path):
        before = len(guard.sent)
        run("tidings", name, *arguments, *options, env=environment)
        assert guard.refused() == [], (name, arguments)
        assert len(guard.sent) > before, (name, arguments)
    assert [path.read_text() for path in (tmp_path / "mirror").rglob("a.txt")] == ["a"]


# A hub of the URL's own server gets it: to subscribe, and to unsubscribe.
def test_a_hub_of_the_server_gets_it(guard, token_file, start):
    news = guard.broker.set().create()
    url = f"{guard.url}/sets/{news.name}"
    options = ("--from-start", *CALLBACK, "--token-file", token_file(TOKEN))
    followed = start("tidings", "follow", url, *options)
    guard.sent.find(lambda each: each[:2] == ("POST", "/hub"))
    news.post()
    followed.out.wait(1)
    followed.signal(signal.SIGTERM)
    assert followed.wait() == 0
    assert guard.refused() == []
    assert [each[:2] for each in guard.sent].count(("POST", "/hub")) == 2


def test_without_it_every_command_fails(guard, tmp_path, token_file, run):
    token_file(TOKEN)
    ways = [command for command in commands(guard, tmp_path) if command[0] != "audit"]
    for name, *arguments in ways:
        failed = run("tidings", name, *arguments, status=1)
        assert "401" in failed.errors(), (name, arguments, failed.errors())


# The token is for the server of the URL: a document, a link, a redirect or a hub that
# names another server gets none of it.
def test_no_other_server_gets_it(start_site, start_callbacks, token_file, tmp_path, run):
    own, other = start_site("127.0.0.1"), start_site("127.0.0.2")
    other.put("/b.txt", "b")
    other.put("/moved.txt", "m")
    own.put("/a.txt", "a")
    own.status("/moved.txt", 302, f"Location: {other.link('/moved.txt')}")
    links = (own.link("/a.txt"), own.link("/moved.txt"), other.link("/b.txt"))
    listed = "".join(f"<url><loc>{loc}</loc></url>" for loc in links)
    own.put(
        "/list.xml",
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        'xmlns:rs="http://www.openarchives.org/rs/terms/">'
        f'<rs:ln rel="up" href="{other.link("/up.xml")}"/>'
        f'<rs:md capability="resourcelist" at="2026-01-02T00:00:00Z"/>{listed}</urlset>',
    )
    own.headers("/list.xml", f'Link: <{other.link("/hub")}>; rel="hub"')
    options = ("--until-caught-up", "--token-file", token_file(TOKEN))
    run("tidings", "sync", own.link("/list.xml"), tmp_path / "m", *options)
    files = {path.name for path in (tmp_path / "m").rglob("*.txt")}
    assert files == {"a.txt", "b.txt", "moved.txt"}
    assert {each["Authorization"] for each in own.requests} == {f"Bearer {TOKEN}"}
    assert {each["Authorization"] for each in other.requests} == {None}
    assert len(other.requests) >= 2


def test_a_hub_elsewhere_gets_none(guard, start_site, token_file, start):
    elsewhere = start_site("127.0.0.2")
    elsewhere.status("/hub", 401)
    site = start_site()
    site.put("/feed", "news")
    site.headers(
        "/feed",
        f'Link: <{elsewhere.link("/hub")}>; rel="hub"',
        f'Link: <{site.link("/feed")}>; rel="self"',
    )
    options = ("--token-file", token_file(TOKEN), *CALLBACK)
    followed = start("tidings", "follow", site.link("/feed"), *options)
    followed.wait()
    assert {each["Authorization"] for each in elsewhere.requests} <= {None}
    assert {each["Authorization"] for each in site.requests} == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    "url", ["http://example.org/sets/a", "http://127.0.0.1.example.org/sets/a"]
)
def test_over_http_it_stays_on_this_machine(url, token_file, run):
    for given in (("--token-file", token_file(TOKEN)), ()):
        environment = {} if given else {"TIDINGS_TOKEN": TOKEN}
        failed = run("tidings", "get", url, *given, env=environment, status=2)
        assert "a token is sent over https, or over http to this machine" in (
            failed.errors()
        )


def test_tells_what_is_wrong_with_a_token_file(guard, token_file, tmp_path, run):
    url = f"{guard.url}/sets/news"
    path = token_file(TOKEN)
    path.chmod(0o640)
    cases = [(path, 1, "chmod 600"), (tmp_path / "none", 1, "No such file")]
    cases.append((token_file(TOKEN + "\n" + NEXT, "two"), 2, "this one has more"))
    cases.append((token_file("", "empty"), 2, "there is no token"))
    cases.append((token_file("Bearer " + TOKEN, "word"), 2, "byte 7 is none"))
    for file, status, why in cases:
        failed = run("tidings", "get", url, "--token-file", file, status=status)
        assert why in failed.errors() and TOKEN not in failed.errors()
    header = ("--header", f"Authorization: Bearer {TOKEN}")
    run("tidings", "get", url, "--token-file", path, *header, status=2)
    assert len(guard.sent) == 0


# A header of the command line replaces the token of the environment.
def test_a_header_replaces_the_environment(guard, run):
    url = f"{guard.url}/sets/news"
    header = ("--header", f"Authorization: Bearer {TOKEN}")
    run("tidings", "set", "create", url, *header, env={"TIDINGS_TOKEN": NEXT})
    assert guard.refused() == []


# The next request fails with 401: the file is read again, once, and nothing is said.
@pytest.mark.parametrize("transport", ["websocket", "events", "longpoll", "poll"])
def test_a_follower_goes_on_with_the_next_token(guard, token_file, transport, start):
    news = guard.broker.set().create()
    news.post()
    url = f"{guard.url}/sets/{news.name}"
    options = ("--from-start", "--transport", transport, "--poll", "0.1")
    options += ("--token-file", token_file(TOKEN), "--verbose")
    followed = start("tidings", "follow", url, *options)
    followed.out.wait(1)
    token_file(NEXT)
    guard.token = NEXT
    guard.cut_all()
    news.post()
    followed.out.wait(2)
    followed.signal(signal.SIGTERM)
    assert followed.wait() == 0
    assert [each[2] for each in guard.sent].count(f"Bearer {NEXT}") > 0


# The same token again: the follower pauses, reports, and goes on when it is accepted.
def test_a_follower_waits_for_the_next_token(guard, token_file, start):
    news = guard.broker.set().create()
    news.post()
    url = f"{guard.url}/sets/{news.name}"
    options = ("--from-start", "--verbose", "--token-file", token_file(TOKEN))
    followed = start("tidings", "follow", url, *options)
    followed.out.wait(1)
    guard.token = NEXT
    guard.cut_all()
    wait_for("a refusal", lambda: "401" in followed.errors())
    news.post()
    token_file(NEXT)
    followed.out.wait(2)
    followed.signal(signal.SIGTERM)
    assert followed.wait() == 0
    assert TOKEN not in followed.errors() and NEXT not in followed.errors()


def test_watch_goes_on_with_the_next_token(guard, token_file, tmp_path, start):
    news = guard.broker.set().create()
    url = f"{guard.url}/sets/{news.name}"
    files = tmp_path / "files"
    files.mkdir()
    options = ("--base-uri", "http://example.com/", "--token-file", token_file(TOKEN))
    watched = start("tidings", "watch", files, url, *options)
    watched.out.wait(1)
    (files / "a").write_text("a")
    watched.out.wait(2)
    token_file(NEXT)
    guard.token = NEXT
    (files / "b").write_text("b")
    watched.out.wait(3)
    watched.signal(signal.SIGTERM)
    assert watched.wait() == 0


def seen_by_others(process):
    """What others of this machine may see of a process: ps, and /proc."""
    proc = pathlib.Path("/proc") / str(process.pid)
    return (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()


# TIDINGS_TOKEN leaves the environment of the process, and commands of --exec get none.
def test_nobody_sees_the_token(guard, tmp_path, token_file, run, start):
    token_file(TOKEN)
    variable = {"TIDINGS_TOKEN": TOKEN}
    home = tmp_path / "seen"
    home.mkdir()
    said = []
    for command in commands(guard, home):
        if command[0] != "harvest":
            done = run("tidings", *command, env=variable)
            said += [done.output(), done.errors()]
    news = guard.broker.set().create()
    news.post(2)
    url = f"{guard.url}/sets/{news.name}"
    state = ("--state", home / "state")
    everything = f"(env; cat /proc/self/environ) >> {home / 'child'}"
    follow = ("follow", url, "--from-start", *state, "--verbose", "--exec", everything)
    followed = start("tidings", *follow, env=variable)
    wait_for("the command", (home / "child").exists)
    wait_for("the state", (home / "state").exists)
    assert b"TIDINGS_TOKEN=" + TOKEN.encode() not in seen_by_others(followed)
    assert TOKEN.encode() not in seen_by_others(followed)
    guard.token = NEXT
    guard.cut_all()
    assert followed.wait() == 1
    said += [followed.output(), followed.errors()]
    said.append("\n".join(guard.broker.process.err))
    assert not [text for text in said if TOKEN in text]
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert home / "child" in kept and len(kept) > 4
    kept += [path for path in guard.broker.data.rglob("*") if path.is_file()]
    assert not [path for path in kept if TOKEN.encode() in path.read_bytes()]


# With a broker's own tokens


@pytest.fixture
def token(run, start_broker):
    """token("add", NAME, ...): the text of the token; token.broker is its broker."""
    broker = start_broker(*hub.QUICK, "--allow-callbacks", "127.0.0.0/8")

    def call(*arguments):
        done = run("tidingsd", "token", *arguments, "--data", broker.data)
        return done.output().strip()

    call.broker = broker
    return call


def test_tokens_of_a_broker(token, token_file, tmp_path, run, start):
    url = f"{token.broker.url}/sets/news"
    press = ("--publish", "news", "--manage", "news")
    publisher = ("--token-file", token_file(token("add", "press", *press), "press"))
    reader = token("add", "readers", "--subscribe", "news")
    own = ("--token-file", token_file(reader))
    run("tidings", "set", "create", url, *publisher)
    posting = ("publish", url, "--change", "created", "http://example.com/a")
    run("tidings", *posting, *publisher)
    assert "401" in run("tidings", *posting, status=1).errors()
    assert "403" in run("tidings", *posting, *own, status=1).errors()
    assert "401" in run("tidings", "get", url, status=1).errors()
    run("tidings", "get", url, *own)

    follow = ("follow", url, "--from-start", "--verbose", *own)
    followed = [
        start("tidings", *follow, "--transport", transport, "--poll", "0.1")
        for transport in ("websocket", "events", "longpoll", "poll")
    ]
    followed.append(start("tidings", *follow, *CALLBACK))
    for each in followed:
        each.out.wait(1)
    token_file(token("rotate", "readers"))
    for n in range(2, 4):
        run("tidings", *posting, *publisher)
        for each in followed:
            each.out.wait(n)
    for each in followed:
        each.signal(signal.SIGTERM)
        assert each.wait() == 0
        assert "td_" not in each.errors()
    given = {"TIDINGS_TOKEN": reader}
    refused = run("tidings", "get", url, env=given, status=1)
    assert "401" in refused.errors() and reader not in refused.errors()


# The broker ends the streams of a revoked token, and denies its subscriptions. The file
# has the next one by then: nothing is lost, and nobody needs to wait.
def test_a_revoked_token_is_followed_by_the_next(token, token_file, run, start):
    url = f"{token.broker.url}/sets/news"
    admin = ("--token-file", token_file(token("add", "admin", "--admin"), "admin"))
    own = ("--token-file", token_file(token("add", "first", "--subscribe", "news")))
    run("tidings", "set", "create", url, *admin)
    posting = ("publish", url, "--change", "created", "http://example.com/a", *admin)
    run("tidings", *posting)
    follow = ("follow", url, "--from-start", "--verbose", "--poll", "0.1", *own)
    ways = [("--transport", name) for name in ("websocket", "events", "longpoll")]
    followed = [start("tidings", *follow, *way) for way in (*ways, CALLBACK)]
    for each in followed:
        each.out.wait(1)
    token_file(token("add", "second", "--subscribe", "news"))
    token("revoke", "first")
    run("tidings", *posting)
    for each in followed:
        each.out.wait(2)
    for each in followed:
        each.signal(signal.SIGTERM)
        assert each.wait() == 0
        assert "401" not in each.errors()


def test_a_token_over_https(start_broker, certificate, token_file, run):
    trusted = certificate.trust()
    broker = start_broker(*certificate.options, tls=trusted)
    made = run("tidingsd", "token", "add", "press", "--admin", "--data", broker.data)
    own = ("--token-file", token_file(made.output().strip()))
    own += ("--cacert", certificate.ca)
    url = f"{broker.url}/sets/news"
    run("tidings", "set", "create", url, *own)
    run("tidings", "publish", url, "--change", "created", "http://example.com/a", *own)
    for transport in ("websocket", "events", "longpoll", "poll"):
        follow = ("follow", url, "--from-start", "--count", "1")
        run("tidings", *follow, "--transport", transport, *own)
    plain = url.replace("https://", "http://").replace("127.0.0.1", "127.0.0.1.example")
    run("tidings", "get", plain, *own, status=2)
