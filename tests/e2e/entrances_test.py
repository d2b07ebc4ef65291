"""Every way into a broker, open or closed, to every route: the rows are those of the
router (doc/http.md), and no row is without a decision."""

import collections
import dataclasses
import re

import pytest

from tidings_test import routes
from tidings_test.http import Connection
from tidings_test.stream import UPGRADE
from tidings_test.waiting import wait_for

# Rows without a right: they are for everybody, at any name of the broker (PUBLIC), or at
# any name at all (PROBES). A new row needs a right, or a place here.
PROBES = {"/healthz", "/readyz"}
PUBLIC = {
    *("/", "/openapi.json", "/asyncapi.json", "/robots.txt", "/tidings.js"),
    *("/tidings.d.ts", "/icon.svg", "/doc", "/doc/{page}", "/llms.txt", "/llms-full.txt"),
    *("/tidings.css", "/console.js", "/console-parts.js", "/console-set.js"),
    *("/console-settings.js", "/console-readers.js", "/console-harvest.js"),
    *("/console-sign-in.js", "/console-tokens.js"),
    *("/console.css", "/tokens/self", "/session", "/hub", "/hub/keys"),
}

Row = collections.namedtuple("Row", "method path rights")
ROWS = [
    Row(method, r.path, [] if r.path == "/hub" else r.rights)
    for r in routes.ROUTES.values()
    for method in r.methods
    if r.path[0] == "/" and method != "HEAD"
] + [Row("GET", path, rights) for path, rights in routes.DOCUMENT_RIGHTS.items()]

NAME = "changes.example"


@dataclasses.dataclass
class Way:
    """How a client comes. PORT is that of the broker, FORWARDER the forwarder's."""

    host: str = "127.0.0.1:PORT"
    origin: str = None
    site: str = None  # Sec-Fetch-Site
    version: str = "1.1"
    listener: str = "tcp"  # or "control", "proxies", "forwarder" (plain TCP)
    fields: str = ""

    def is_own_name(self, public):
        host = self.host.rpartition(":")[0] or self.host
        return host.lower() in ("127.0.0.1", "localhost", "[::1]", public)

    def is_own_page(self, public):
        own = {f"http://{self.host}"} if self.is_own_name(public) else set()
        public = public or "127.0.0.1:PORT"
        return self.origin in own | {f"http://{public}", f"http://{public}:80"}


FORWARDED = "X-Forwarded-For: 192.0.2.1\r\n"
WAYS = [
    Way(),
    Way(host="localhost"),
    Way(host="LocalHost:1"),
    Way(host="[::1]:PORT"),
    Way(host=NAME),
    Way(host="evil.example:PORT"),
    Way(host="127.0.0.1.evil.example"),
    Way(host="192.0.2.1:PORT"),
    Way(host="0.0.0.0:PORT"),
    Way(version="1.0"),
    Way(version="1.0", fields="Connection: close\r\n"),  # nginx
    Way(version="1.0", host=""),
    Way(version="1.0", host="192.0.2.1"),
    Way(fields=FORWARDED),
    Way(fields="Via: 1.1 proxy\r\n", host="192.0.2.1"),
    Way(origin="http://127.0.0.1:PORT"),
    Way(origin="https://127.0.0.1:PORT"),
    Way(origin="http://127.0.0.1:1"),
    Way(origin="http://127.0.0.1"),
    Way(host="localhost", origin="http://localhost"),
    Way(host="localhost", origin="https://localhost"),
    Way(host=NAME, origin=f"http://{NAME}"),
    Way(host=NAME, origin=f"https://{NAME}"),
    Way(host=NAME, origin=f"http://{NAME}:80"),
    Way(host="evil.example", origin="http://evil.example"),
    Way(origin="http://evil.example"),
    Way(origin="null"),
    Way(site="cross-site"),  # a link on another page
    Way(origin="http://127.0.0.1:PORT", site="same-origin"),
    Way(listener="forwarder", host="127.0.0.1:FORWARDER"),
    Way(listener="forwarder", host="localhost"),
    Way(listener="forwarder"),  # a client that knows what the broker is called
    Way(listener="forwarder", host="192.0.2.1"),
    Way(listener="forwarder", host="evil.example", origin="http://evil.example"),
    Way(listener="forwarder", version="1.0"),
    Way(listener="proxies"),
    Way(listener="proxies", host="evil.example"),
    Way(listener="proxies", origin="http://evil.example"),
    Way(listener="control"),
    Way(listener="control", host="evil.example", origin="http://evil.example"),
]


class Kind:
    """A broker, and the client that asks: `rights` are the client's, None: of an
    administrator."""

    def __init__(self, broker, rights, public=None, is_open=False, is_near=False):
        self.broker, self.rights, self.public = broker, rights, public
        self.is_open, self.is_near = is_open, is_near
        self.bearer = ""

    def refusal(self, row, way):
        """Why it is refused; None: it is not."""
        is_probe = row.path in PROBES
        is_own = way.is_own_name(self.public)
        if self.is_near and way.listener in ("tcp", "forwarder"):
            is_own &= way.host.endswith(":PORT") or way.host == "localhost"
        is_signing_in = (row.method, row.path) == ("POST", "/session")
        has_page = way.site == "cross-site" or way.origin
        if way.listener == "control":
            needs_token = is_signing_in and not self.is_open and not has_page
            return "token" if needs_token and not self.bearer else None
        # A text browser reads over HTTP/1.0, without Connection.
        is_old = way.version == "1.0" and row.method not in ("GET", "HEAD")
        if self.is_near and not is_probe and (way.fields or is_old):
            return "proxy"
        if self.is_open and not is_own and not is_probe:
            return "name"
        if way.origin and not way.is_own_page(self.public):
            return "page"
        if self.rights is None:
            return None
        needs_name = not self.is_open and way.listener != "proxies" and not is_probe
        if needs_name and not is_own:
            return "name"
        if row.rights and not set(row.rights) & set(self.rights):
            return "admin" if self.is_open else "token"
        if is_signing_in and not self.is_open:
            return None if way.site == "cross-site" else "token"
        return None


REASONS = {
    "is not called": "name",
    "does not answer to": "name",
    "requests from pages of": "page",
    "came by a proxy": "proxy",
    "for administrators": "admin",
    "needs a token": "token",
}


def reason_of(answer):
    """The refusal of the way, or of the client; None: any other answer."""
    if answer.status not in (401, 403):
        return None
    found = [why for text, why in REASONS.items() if text in answer.text]
    assert len(found) <= 1 and (found or answer.status == 403), answer
    return found[0] if found else None


def filled(path):
    path = re.sub("{(list|last)}", "000000000001", re.sub("{(set|relay)}", "none", path))
    path = path.replace("{page}", "hub.html").replace("{digest}", "0" * 64)
    path = path.replace("{tile}", "0/000").replace("{uri}", "http://a.example/").replace("{epoch}", "0" * 16)
    return path.replace("{id}", "1").replace("{token}", "none")


class Visitors:
    """Clients of a broker, which come by its ways."""

    def __init__(self, kind, forwarder, socket):
        self.kind, self.forwarder, self.socket = kind, forwarder, socket
        self.kept = {}

    def connect(self, way):
        broker = self.kind.broker
        if way.listener == "forwarder":
            return Connection(self.forwarder.port)
        unix = {"control": broker.control, "proxies": self.socket}.get(way.listener)
        return Connection(broker.port, unix=unix)

    def ask(self, way, method, path, fields=""):
        port = str(self.kind.broker.port)
        lines = [
            f"{method} {path} HTTP/{way.version}",
            *([f"Host: {way.host}"] if way.host else []),
            *([f"Origin: {way.origin}"] if way.origin else []),
            *([f"Sec-Fetch-Site: {way.site}"] if way.site else []),
            *(["Content-Length: 0"] if method in ("POST", "PUT", "PATCH") else []),
        ]
        head = "\r\n".join(lines).replace("PORT", port)
        if self.forwarder:
            head = head.replace("FORWARDER", str(self.forwarder.port))
        key = way.listener, way.version
        connection = self.kept.pop(key, None)
        if not connection or not connection.is_silent():
            connection = self.connect(way)
        connection.send(f"{head}\r\n{way.fields}{self.kind.bearer}{fields}\r\n")
        answer = connection.answer(method == "HEAD")
        is_kept = way.version == "1.1" and answer.status != 101
        if is_kept and (answer["Connection"] or "").lower() != "close":
            self.kept[key] = connection
        else:
            connection.close()
        return answer


ALL = ["publish", "subscribe", "manage", "observe"]


def start_kind(name, start_broker, *options):
    """A broker of that kind."""
    if name == "near":
        return Kind(start_broker(*options), ALL, is_open=True, is_near=True)
    if name == "for all":
        public = ("--insecure-open", "--public-url", f"http://{NAME}")
        return Kind(start_broker(*options, *public), ALL, NAME, is_open=True)
    broker = start_broker(*options)
    token = broker.add_token("root", admin=True)
    if name == "administrator":
        kind = Kind(broker, None)
        kind.bearer = f"Authorization: Bearer {token}\r\n"
        return kind
    if name == "readers":
        broker.add_token("everyone", subscribe=["*"])
        return Kind(broker, ["subscribe"])
    broker.stop()
    (broker.data / "tokens.db").unlink()
    broker.start()
    return Kind(broker, [])


KINDS = ("near", "for all", "administrator", "readers", "closed without tokens")


@pytest.fixture
def visitors(start_broker, start_proxy, tmp_path):
    def make(name):
        socket = tmp_path / "proxies.sock"
        kind = start_kind(name, start_broker, "--listen-unix", socket)
        return Visitors(kind, start_proxy(kind.broker.port), socket)

    return make


def test_each_row_has_its_decision():
    assert {row.path for row in ROWS if not row.rights} == PROBES | PUBLIC


@pytest.mark.parametrize("name", KINDS)
def test_each_way_to_each_route(name, visitors):
    visiting = visitors(name)
    wrong = []
    for row in ROWS:
        for way in WAYS:
            expected = visiting.kind.refusal(row, way)
            answer = visiting.ask(way, row.method, filled(row.path))
            if reason_of(answer) != expected:
                wrong.append((row, way, expected, answer))
    assert not wrong, (len(wrong), wrong[:5])


# A browser names the page by its Origin, and how far it is by Fetch Metadata.
@pytest.mark.parametrize("name", KINDS)
def test_each_page_to_each_stream(name, visitors):
    visiting = visitors(name)
    streams = {f"GET {path}" for path in ("/stream", "/sets/{set}/stream")}
    assert {row for row, r in routes.ROUTES.items() if 101 in r.answers} == streams
    upgrade = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in UPGRADE.items())
    kind = visiting.kind
    made = visiting.ask(Way(listener="control"), "PUT", "/sets/news")
    assert made.status == 201
    for path in ("/stream", "/sets/news/stream"):
        for site in (None, "none", "same-origin", "same-site", "cross-site"):
            for origin in (None, "http://127.0.0.1:PORT", "http://evil.example"):
                way = Way(origin=origin, site=site)
                is_foreign = site in ("same-site", "cross-site") or (
                    origin and not way.is_own_page(None)
                )
                lacks = kind.rights == []
                answer = visiting.ask(way, "GET", path, upgrade)
                expected = 403 if is_foreign else 401 if lacks else 101
                assert answer.status == expected, (path, way, answer)


# The scheme of the request counts: TLS, or what a trusted proxy says.
def test_an_origin_has_the_scheme_of_the_client(start_broker, certificate):
    proto = "X-Forwarded-Proto: https\r\nX-Forwarded-For: 192.0.2.1\r\n"
    plain, secure = "http://127.0.0.1:PORT", "https://127.0.0.1:PORT"
    trusting = ("--insecure-open", "--public-url", f"https://{NAME}")
    proxied = start_broker(*trusting, "--trusted-proxies", "127.0.0.1")
    with_tls = start_broker(*certificate.options, tls=certificate.trust())
    for broker, fields, own, foreign in (
        (with_tls, "", secure, plain),
        (proxied, "", plain, secure),
        (proxied, proto, secure, plain),
        (proxied, "", f"https://{NAME}", f"http://{NAME}"),
        (proxied, "", f"https://{NAME}:443", f"https://{NAME}:80"),
    ):
        for origin, status in ((own, 200), (foreign, 403)):
            with broker.connect() as connection:
                connection.send(
                    f"GET /sets HTTP/1.1\r\nHost: {connection.host}\r\n{fields}"
                    f"Origin: {origin}\r\n\r\n".replace("PORT", str(broker.port))
                )
                assert connection.answer().status == status, (broker, origin, fields)


# A monitor that knows an address alone: Kubernetes, HAProxy, a target of Prometheus.
def test_probes_come_by_any_name_and_hear_nothing_else(start_broker, faults):
    bridge = ("--mqtt", "mqtt://127.0.0.1:1")
    for is_closed in (False, True):
        broker = start_broker(*bridge, env=faults.env)
        token = is_closed and broker.add_token("root", admin=True)
        visiting = Visitors(Kind(broker, []), None, None)
        wait_for("a warning", lambda: "\nwarning" in broker.get("/readyz").text)
        strange = Way(host="192.0.2.1"), Way(host="", version="1.0")
        for way in strange:
            for path in ("/healthz", "/readyz", "/readyz?for=reads"):
                answer = visiting.ask(way, "GET", path)
                expected = "ok\n" if path == "/healthz" else "ready\n"
                assert (answer.status, answer.text) == (200, expected), (way, answer)
            assert visiting.ask(way, "HEAD", "/healthz").status == 200
        if token:
            bearer = f"Authorization: Bearer {token}\r\n"
            for path in ("/metrics", "/readyz"):
                said = visiting.ask(strange[0], "GET", path, bearer)
                assert said.status == 200
                # What a warning says may grow between two answers: a try
                # to connect ends, and its reason stands there.
                assert path == "/metrics" or said.text.startswith("ready\nwarning: bridge")
        faults.set_disk(1)
        wait_for("a full disk", lambda: broker.get("/readyz").status == 503)
        assert "disk" in broker.get("/readyz").json()["detail"]
        said = visiting.ask(strange[0], "GET", "/readyz").json()
        assert (said["detail"], said["reasons"]) == ("not ready", [])
        faults.set_disk(0)
