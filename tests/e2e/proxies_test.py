"""Caddy, HAProxy, nginx and Varnish before a broker: no client gets the answer of another one,
and what a proxy denies stays denied."""

import contextlib
import json
import zlib

import pytest

from tidings_test import hub
from tidings_test.frontends import (
    Caddy,
    CaddyTls,
    Haproxy,
    Nginx,
    NginxTls,
    Varnish,
    page_block,
    page_lines,
)
from tidings_test.http import JSON
from tidings_test.sets import Set, change
from tidings_test.soak import soak
from tidings_test.variants import VARIANTS

pytestmark = pytest.mark.broker("--insecure-open")

PROXIES = ("HAProxy", "nginx", "Varnish")
DENIED = ("/sets/secret", "/relays")


@pytest.fixture
def start_frontend(tmp_path):
    """start_frontend(Nginx, broker, lines): starts a proxy before that broker."""
    started = []

    def start(kind, *arguments, **more):
        directory = tmp_path / f"proxy{len(started)}"
        started.append(kind(directory, *arguments, **more))
        return started[-1]

    yield start
    for proxy in started:
        proxy.end()


@pytest.fixture(params=PROXIES)
def proxy(request, start_frontend, broker):
    """A proxy that lets everybody post, and denies DENIED."""
    if request.param == "Varnish":
        return start_frontend(Varnish, broker, denied=DENIED)
    lines = [line for line in page_lines(request.param) if not is_denial(line)]
    return start_frontend(KINDS[request.param], broker, lines, denied=DENIED)


KINDS = {"HAProxy": Haproxy, "nginx": Nginx, "Caddy": Caddy}


def is_denial(line):
    """True for the page's lines by which others may only read."""
    return "limit_except" in line or "http-request deny" in line


# Smuggling


class Probe:
    """Another client of the proxy. Each of its answers is of one request only: the
    receipt has the next number of its set, the page the entry of that number."""

    def __init__(self, proxy, news):
        self.proxy = proxy
        self.news = news
        self.last = 0
        self.loc = f"http://example.com/{news.name}/"
        # Of receipts, and of pages.
        self.marks = (f'"set":"{news.name}"'.encode(), self.loc.encode())

    def post(self):
        self.last += 1
        answer = self.proxy.post(self.news.changes, change(f"{self.loc}{self.last}"))
        assert self.marks[0] in answer.body, answer
        receipt = self.news.receipt(answer)
        assert (receipt.first, receipt.last) == (self.last, self.last), answer

    def read(self, client):
        answer = client(f"{self.news.changes}?after={self.last - 1}")
        locs = [entry.loc for entry in answer.message().entries]
        assert locs == [f"{self.loc}{self.last}"], answer

    def read_kept(self):
        self.read(self.proxy.get)

    def read_anew(self):
        with self.proxy.connect() as connection:
            self.read(connection.request)


def hidden_request(number, name, host):
    """A request that makes the set of that name. The proxies deny it where they see it."""
    if number % 2:
        line = f"POST /sets/{name}/changes"
        body = json.dumps(change("http://example.com/hidden"))
    else:
        line = f"PUT /sets/{name}"
        body = "{}"
    return (
        f"{line} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {JSON}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )


def share_of(proxy):
    """The variants for that proxy: CI sends each through one proxy or two."""
    share = soak(2, 1)
    first = PROXIES.index(proxy.name)
    return [
        variant
        for variant in VARIANTS
        if (zlib.crc32(variant.name.encode()) + first) % share == 0
    ]


# Varnish asks a GET for each HEAD, and hears of the end of its client by a heartbeat.
@pytest.mark.broker("--insecure-open", "--heartbeat", "0.1")
def test_no_client_gets_the_answer_of_another(proxy, broker):
    sender = broker.set("variants").create()
    probe = Probe(proxy, broker.set("another-client").create())
    broker.set(f"secret-{proxy.name.lower()}").create()  # the name is a good one
    hidden = {}
    before = broker.metrics()
    for number, variant in enumerate(share_of(proxy)):
        name = f"secret-{proxy.name.lower()}-{number}"
        hidden[name] = variant.name
        with proxy.connect() as connection:
            request = hidden_request(number, name, connection.host)
            connection.send(variant.bytes(connection.host, sender.changes, request))
            try:
                probe.post()
                probe.read_anew()
                connection.finish_sending()
                got = connection.read_all()
                probe.post()
                probe.read_kept()
                assert not any(mark in got for mark in probe.marks)
            except AssertionError as failure:
                raise AssertionError(f"{variant.name}: {failure}") from failure
    names = [facts["name"] for facts in broker.get("/sets", accept=JSON).json()["sets"]]
    assert not [hidden[name] for name in names if name in hidden]

    # Otherwise the other client, with four requests for each variant, had connections
    # of its own.
    after = broker.metrics()
    accepted = "tidings_connections_accepted_total"
    assert len(hidden) >= 200
    assert after[accepted] - before[accepted] < 2 * len(hidden)


# Denied paths

# {} is a denied path, without the first "/".
SPELLINGS = """
    /{} /{}/ /{}? /{}?x /{};x /{};x/y /{}%20 /{}%00 /{}# /{}#x /{}%2f /{}%2F /{}/. /{}/.. /{}%
    //{} ///{} /./{} /.//{} /x/../{} /../{} /../../{} /x/y/../../{} /;/{} /;x/{} /%2e/{} /%2E/{}
    /x/%2e%2e/{} /x/.%2e/{} /x/%2E%2E/{} /x%2f..%2f{} /x%2F..%2F{} /%2f{} /%2F{} /%5c{} /\\{}
    /x/..;/{} /..;/{} /%252e/{} /%252f{} /%c0%af{} /%ef%bc%8f{} /%09{} /%20{} /%0d%0a{} /%u002f{}
    {} ../{} *{} http:{} http:/{} http:///{} http://{host}/{} HTTP://{host}/{}
    http://{host}//{} http://{host}/./{} http://{host}/x/../{} http://x/{} https://{host}/{}
    http://x@{host}/{} http://{host}%2f{} //{host}/{} http://{host}/%2f{}
""".split()


def respell(path):
    """Ways to write a path without its first "/": case, and escapes of its bytes."""
    first, _, rest = path.partition("/")
    for name in (first, rest):
        if name:
            escaped = f"%{ord(name[0]):02x}{name[1:]}"
            for other in (
                *(name.upper(), name.title(), escaped, escaped.upper()),
                *(f"{name[:-1]}%{ord(name[-1]):02X}", f"{name};x", f"{name}%20", f"{name}."),
                *(f"%25{escaped[1:]}", "".join(f"%{ord(c):02x}" for c in name)),
            ):
                yield path.replace(name, other)
    if rest:
        for slash in (
            *("%2f", "%2F", "//", "/./", "/x/../", "/;/", "/;x/", "\\", "%5c", "%5C", "%252f"),
            *("/%2e/", "/x/%2e%2e/", "/x%2f..%2f", "/.%2f", "/%2f", "%2f/", "%c0%af", "/%20"),
        ):
            yield f"{first}{slash}{rest}"


def spellings(path, host):
    for spelling in SPELLINGS:
        yield spelling.format(path, host=host)
    for other in respell(path):
        yield f"/{other}"
        yield f"http://{host}/{other}"
        yield f"/x/../{other}"


def test_a_denied_path_stays_denied(proxy, broker):
    secret = broker.set("secret").create()
    secret.post_change("http://example.com/confidential")
    relay = {"topic": "http://127.0.0.1:1/topic"}
    bodies = {"sets/secret/changes": change("http://example.com/a"), "relays": relay}
    asked = ("sets/secret", "sets/secret/changes", "sets/secret/changelist.xml", "relays")
    assert b"confidential" in secret.get("changes?after=0").body
    relays = broker.get("/relays").body
    for path in asked:
        for target in dict.fromkeys(spellings(path, f"127.0.0.1:{proxy.port}")):
            for method in ("GET", "POST", "PUT", "DELETE"):
                got = ask_alone(proxy, method, target, bodies.get(path, {}))
                assert b"confidential" not in got, (method, target, got)
                assert got[9:10] != b"2", (method, target, got)
    assert secret.last() == 1
    assert broker.get("/relays").body == relays


def ask_alone(proxy, method, target, body):
    """All that comes to a request on a connection of its own."""
    body = json.dumps(body).encode() if method in ("POST", "PUT") else b""
    with proxy.connect() as connection:
        head = f"{method} {target} HTTP/1.1\r\nHost: {connection.host}\r\n"
        head += f"Content-Type: {JSON}\r\nContent-Length: {len(body)}\r\n" if body else ""
        connection.send(head.encode() + b"Connection: close\r\n\r\n" + body)
        return connection.read_all()


# Limits


# Each client of a trusted proxy has its own limits, in spite of headers that it
# invents.
@pytest.mark.broker(
    *("--insecure-open", "--trusted-proxies", "127.0.0.1", "--client-streams", "1")
)
def test_a_client_at_its_limit_is_in_nobodys_way(proxy, news):
    with contextlib.ExitStack() as streams:

        def begin(client, **headers):
            stream = streams.enter_context(proxy.connect(client=client))
            stream.ask(news.stream, accept="text/event-stream", **headers)
            return stream.answer_head().status

        assert begin("127.0.0.66") == 200
        assert begin("127.0.0.66") == 429
        assert begin("127.0.0.66", x_forwarded_for="192.0.2.1") == 429
        assert begin("127.0.0.67") == 200


# The lines of doc/proxies.md


@pytest.fixture(params=KINDS)
def documented(request, start_frontend, broker):
    """A proxy as the page has it. The page has to set timeouts longer than the default
    of HAProxy."""
    return start_documented(start_frontend, request.param, broker)


def start_documented(start_frontend, name, broker, unix=None):
    more = {"server_timeout": "1ms"} if name == "HAProxy" else {}
    return start_frontend(KINDS[name], broker, page_lines(name, unix), **more)


@pytest.fixture
def others(documented, news):
    """The set as the clients of that proxy see it."""
    return Set(documented, news.name)


def test_others_may_read(others, news):
    news.post(3)
    assert others.page("after=0").last == 3
    assert others.changelist().entries[-1].seq == 3
    assert others.broker.head("/healthz").status == 200


def test_others_may_not_publish(others, news):
    body = change("http://example.com/a")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in (others.path, others.changes):
            with others.broker.connect() as connection:
                answer = connection.request(path, method, body, content_type=JSON)
            assert answer.status == 403, (method, path)
    assert news.post().last == 1


def test_others_may_wait(others, news):
    with others.broker.connect() as connection:
        connection.ask(f"{others.changes}?after=0&wait=0.2")
        assert not connection.answer().message().entries
        connection.ask(f"{others.changes}?after=0&wait=300")
        news.post()
        assert connection.answer().message().last == 1


@pytest.mark.parametrize("deflate", [False, True])
def test_others_may_follow_by_websocket(others, news, deflate):
    follower = others.websocket(deflate=deflate)
    follower.next()
    assert (follower.size_sent < follower.size) == deflate
    for last in (1, 2):
        news.post()
        follower.until(last)


# Each event comes at once, before the next one is posted.
def test_others_may_follow_by_events(others, news):
    with others.broker.connect() as connection:
        connection.ask(others.stream, accept="text/event-stream")
        answer = connection.answer_head()
        assert (answer.status, answer["Content-Type"]) == (200, "text/event-stream")
        for last in (1, 2):
            receipt = news.post()
            connection.read_until(f"id: {receipt.position}\n".encode())


@pytest.mark.broker("--insecure-open", *hub.LOOPBACK)
def test_others_may_subscribe(others, news, callbacks):
    topic = hub.Topic(others, news.topic)
    callback = callbacks.add()
    hub.check_taken(hub.subscribe(topic, callback))
    hub.wait_active(hub.Topic(news, news.topic), callback)
    news.post()
    callback.wait_last(1)


# The same by the socket of --listen-unix. The proxy's clients have limits of their own.
@pytest.mark.parametrize("name", KINDS)
def test_a_proxy_may_come_by_a_unix_socket(start_frontend, start_broker, tmp_path, name):
    unix = tmp_path / "broker.sock"
    broker = start_broker(
        *("--insecure-open", "--listen-unix", unix, "--trusted-proxies", "unix"),
        *("--client-streams", "1"),
    )
    news = broker.set().create()
    proxy = start_documented(start_frontend, name, broker, unix)
    others = Set(proxy, news.name)
    assert others.send([change("http://example.com/a")]).status == 403
    with contextlib.ExitStack() as streams:

        def begin(client):
            stream = streams.enter_context(proxy.connect(client=client))
            stream.ask(news.stream, accept="text/event-stream")
            return stream, stream.answer_head()

        follower = others.websocket()
        follower.next()
        events, answer = begin("127.0.0.66")
        assert answer.status == 200
        for last in (1, 2):
            receipt = news.post()
            follower.until(last)
            events.read_until(f"id: {receipt.position}\n".encode())
        assert others.page("after=0").last == 2
        assert begin("127.0.0.66")[1].status == 429
        assert begin("127.0.0.67")[1].status == 200
        follower.leave()


# A broker without --insecure-open. No header of a client hides that it came by a proxy;
# Varnish refuses clients that try.
def test_others_are_not_of_this_machine(start_frontend, start_broker, tmp_path):
    unix = tmp_path / "broker.sock"
    broker = start_broker("--listen-unix", unix)
    proxies = [
        start_documented(start_frontend, name, broker, where)
        for name in KINDS
        for where in (None, unix)
    ]
    for proxy in (*proxies, start_frontend(Varnish, broker)):
        for path in ("/sets", "/hub"):
            named = {"host": f"127.0.0.1:{broker.port}"}
            answer = proxy.get(path, **named)
            assert answer.status == 403 and "by a proxy" in answer.text, answer
            hidden = proxy.get(path, connection="X-Forwarded-For, Via", **named)
            assert hidden.status in (400, 403), hidden


# With tokens and TLS, as the page has it: all that clients do.
@pytest.mark.parametrize("name, kind", [("nginx", NginxTls), ("Caddy", CaddyTls)])
def test_a_proxy_with_tls_carries_everything(
    start_frontend, start_broker, certificate, start, run, tmp_path, name, kind
):
    broker = start_broker("--trusted-proxies", "127.0.0.1", "--client-streams", "1")
    proxy = start_frontend(kind, broker, page_block(name, "With tokens and TLS"), certificate)
    broker.add_token("root", admin=True)
    rights = {"publish": ["*"], "manage": ["*"], "subscribe": ["*"]}
    press = broker.add_token("press", **rights)
    broker.add_token("everyone", subscribe=["*"])
    broker.stop()
    broker.options += ["--public-url", proxy.url]
    broker.restart()
    env = {**certificate.env, "TIDINGS_TOKEN": press}
    url = f"{proxy.url}/sets/news"
    run("tidings", "publish", url, "--change", "created", "http://example.com/1", env=env)
    follower = start("tidings", "follow", url, "--from-start", env=env)
    follower.out.find(lambda line: "http://example.com/1" in line)
    with contextlib.ExitStack() as streams:

        def begin(client):
            stream = streams.enter_context(proxy.connect(client=client))
            stream.ask("/sets/news/stream?after=0", accept="text/event-stream")
            return stream, stream.answer_head().status

        events, status = begin("127.0.0.66")
        assert status == 200
        events.read_until(b"http://example.com/1")
        assert begin("127.0.0.66")[1] == 429
        assert begin("127.0.0.67")[1] == 200
        assert proxy.post("/sets/news/changes", change("http://example.com/a")).status == 401
        many = tmp_path / "many.ndjson"
        lines = (json.dumps(change(f"http://example.com/{i}")) for i in range(2, 20002))
        many.write_text("\n".join(lines))
        assert many.stat().st_size > 1 << 20
        run("tidings", "publish", url, many, env=env)
        events.read_until(b"http://example.com/20001")
    follower.out.find(lambda line: "http://example.com/20001" in line)
    assert url.encode() in proxy.get("/.well-known/resourcesync").body
