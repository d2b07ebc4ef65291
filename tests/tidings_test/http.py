"""HTTP/1.1 as the wire has it: a connection of raw bytes, and a client on it.

It follows, decodes and repeats nothing: a test sees the bytes that were sent.

    answer = broker.get("/sets/news/changelist.xml", accept_encoding="gzip")
    assert answer.status == 200
    assert answer["Content-Type"] == "application/xml"
    answer.body, answer.text, answer.json(), answer.document(), answer.message()

    with broker.connect() as connection:
        connection.send(b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        assert connection.answer().status == 200
"""

import json
import re
import select
import socket
import ssl
import struct

JSON = "application/json"
XML = "application/xml"
NDJSON = "application/x-ndjson"
FORM = "application/x-www-form-urlencoded"
EVENTS = "text/event-stream"

# What Firefox sends for a person to an address without TLS.
PERSON = {
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "upgrade_insecure_requests": "1",
}

# The fields that choose between a page for people and what programs read.
PAGE_VARY = "Accept, Sec-Fetch-Dest, Sec-Fetch-Mode, Upgrade-Insecure-Requests"

# A larger body is sent only after the broker's 100 Continue.
EXPECT_ABOVE = 1 << 20


class ConnectionEnded(AssertionError):
    """The peer has ended, or reset, a connection before the test had read
    everything."""


class Head:
    """The first line and the headers of a request or an answer."""

    def __init__(self, head):
        self.head = head
        lines = head.decode("latin-1").split("\r\n")
        self.first_line = lines[0]
        self.headers = []
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(":")
                self.headers.append((name, value.strip(" \t")))

    def all(self, name):
        """The values of all headers of that name, in any case."""
        name = name.lower()
        return [value for key, value in self.headers if key.lower() == name]

    def __getitem__(self, name):
        """The value of the header; None if there is none."""
        return next(iter(self.all(name)), None)


class Answer(Head):
    """An answer: status, headers, body."""

    def __init__(self, head, body=b""):
        super().__init__(head)
        version, status, _ = (self.first_line + "  ").split(" ", 2)
        assert version in ("HTTP/1.1", "HTTP/1.0"), self.first_line
        self.status = int(status)
        self.body = body

    @property
    def text(self):
        return self.body.decode()

    def steady(self):
        """Status, headers and body without the marks of one answer: its date and
        the id of its request."""
        own = ("date", "x-request-id")
        headers = [(name, v) for name, v in self.headers if name.lower() not in own]
        return self.status, headers, self.body.replace(self["X-Request-Id"].encode(), b"")

    def json(self):
        return json.loads(self.body)

    def document(self):
        """The body as a ResourceSync document; the status has to be 200."""
        from tidings_test.documents import Document

        assert self.status == 200, self
        return Document(self.body)

    def message(self):
        """The body as a message or a page of the change memory; with 200."""
        from tidings_test.messages import read_json, read_xml

        assert self.status == 200, self
        return (read_xml if self["Content-Type"] == XML else read_json)(self.body)

    def __repr__(self):
        body = self.body if len(self.body) < 2000 else self.body[:2000] + b"..."
        return f"<{self.status} {self['Content-Type']} {body!r}>"


def check_refused(answer, status, part="", entry=...):
    """The answer is an error of that status as RFC 9457 has it, and `part` is in its
    detail. With `entry`: it names that entry, counted from 1; None: it names no
    entry."""
    assert answer.status == status, answer
    assert answer["Content-Type"] == "application/problem+json", answer
    problem = answer.json()
    assert problem["type"] and problem["title"], answer
    assert problem["status"] == status, answer
    assert problem["request"] == answer["X-Request-Id"], answer
    assert part in problem["detail"], answer
    if entry is not ...:
        assert problem.get("entry") == entry, answer


class Connection:
    """A connection of raw bytes. `narrow`: with a small receive buffer, so that what
    the peer sends soon gets stuck unless somebody reads. `tls`: an SSLContext.
    `client`: the address that it comes from. `unix`: the path of the socket that it
    leads to, instead of a port."""

    def __init__(
        self, port, host="127.0.0.1", narrow=False, tls=None, client=None, unix=None
    ):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.socket = socket.socket(
            socket.AF_UNIX if unix else family, socket.SOCK_STREAM
        )
        if narrow:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if client:
            self.socket.bind((client, 0))
        self.socket.connect(str(unix) if unix else (host, port))
        if not unix:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self.host = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.port = port
        self.buffer = bytearray()  # what was received and not read
        self.received = 0  # bytes so far
        self.token = None  # of requests that have no authorization=

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self.socket.close()

    def widen(self):
        """Read fast from now on, though it was narrow."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)

    def abort(self):
        """Reset the connection instead of ending it politely."""
        set_reset(self.socket)
        self.socket.close()

    def finish_sending(self):
        """Say that nothing more will be sent; reading goes on."""
        self.socket.shutdown(socket.SHUT_WR)

    # Bytes

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def receive(self):
        """Receive more into the buffer. False: the peer has ended, or reset, the
        connection."""
        try:
            # The C library maps the memory of a larger buffer anew for each call: a
            # fifth of the time of a test that asks much.
            data = self.socket.recv(1 << 16)
        except (ConnectionError, ssl.SSLError):
            data = b""
        self.buffer += data
        self.received += len(data)
        return bool(data)

    def read(self, size):
        """Read exactly so many bytes."""
        while len(self.buffer) < size:
            self._receive()
        return self._take(size)

    def read_until(self, end):
        """Read up to `end`, which is included."""
        searched = 0
        while (at := self.buffer.find(end, searched)) < 0:
            searched = max(0, len(self.buffer) - len(end) + 1)
            self._receive()
        return self._take(at + len(end))

    def read_all(self):
        """Read until the peer ends, or resets, the connection."""
        while self.receive():
            pass
        return self._take(len(self.buffer))

    def is_silent(self):
        """True if there is nothing to read so far: no byte, and no end."""
        if self.buffer or isinstance(self.socket, ssl.SSLSocket) and (
            self.socket.pending()
        ):
            return False
        return not select.select([self.socket], [], [], 0)[0]

    def _take(self, size):
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    def _receive(self):
        if not self.receive():
            rest = f"{len(self.buffer)} bytes: {bytes(self.buffer[:2000])!r}"
            raise ConnectionEnded(f"the connection ended, with {rest}")

    # Requests and answers

    def request_bytes(self, path, method="GET", body=None, **headers):
        """A request as it is sent; keywords are headers."""
        head = self._head(method, path, headers)
        if body is not None:
            body = as_bytes(body)
            head += f"Content-Length: {len(body)}\r\n"
        return f"{head}\r\n".encode() + (body or b"")

    def ask(self, path, method="GET", body=None, **headers):
        """Send a request; leave the answer unread."""
        self.send(self.request_bytes(path, method, body, **headers))

    def request(self, path, method="GET", body=None, **headers):
        """Send a request and return its answer, like curl: a large body waits until
        the peer wants it, and an answer may come before all of the body is sent."""
        body = None if body is None else as_bytes(body)
        if body is None or len(body) <= EXPECT_ABOVE:
            try:
                self.ask(path, method, body, **headers)
            except ConnectionError:
                pass  # perhaps it was answered before
            return self.answer(method == "HEAD")
        head = self._head(method, path, headers)
        self.send(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n")
        answer = self.answer()
        if answer.status != 100:
            self.close()
            return answer
        try:
            self.send(body)
        except ConnectionError:
            pass
        return self.answer()

    def answer(self, is_head=False):
        """Read one answer. `is_head`: to a HEAD, which has no body. Of a stream of
        events, which has no end, only the head."""
        answer = self.answer_head()
        is_head |= answer["Content-Type"] == EVENTS and not answer["Content-Length"]
        if not is_head and answer.status not in (204, 304) and answer.status >= 200:
            answer.body = self._body(answer)
        return answer

    def answer_head(self):
        """Read status line and headers only."""
        return Answer(self.read_until(b"\r\n\r\n"))

    def read_chunk(self):
        """Read a chunk of a body in chunks; b"": that was the last."""
        size = int(self.read_until(b"\r\n"), 16)
        chunk = self.read(size)
        assert self.read(2) == b"\r\n"
        return chunk

    def _body(self, answer):
        if answer["Transfer-Encoding"] == "chunked":
            return b"".join(iter(self.read_chunk, b""))
        if answer["Content-Length"] is not None:
            return self.read(int(answer["Content-Length"]))
        return self.read_all()

    def _head(self, method, path, headers):
        lines = [f"{method} {path} HTTP/1.1\r\n"]
        if "host" not in headers:
            lines.append(f"Host: {self.host}\r\n")
        if self.token and "authorization" not in headers:
            lines.append(f"Authorization: Bearer {self.token}\r\n")
        for name, value in headers.items():
            if value is not None:
                lines.append(f"{name.replace('_', '-').title()}: {value}\r\n")
        return "".join(lines)


class Client:
    """Requests to one server, on one connection.

    Keywords are headers: accept="text/html", if_none_match='"1"'. A body is bytes
    or text, or else an object to be sent as JSON.
    """

    def __init__(self, port, host="127.0.0.1", tls=None, unix=None):
        self.port = port
        self.host = host
        self.tls = tls
        self.unix = unix
        self.authority = None  # "host:port" that requests name; None: the server's
        self.token = None  # of requests that have no authorization=
        self._kept = None

    def connect(self, narrow=False, client=None):
        """A new connection, which is the caller's to close."""
        made = Connection(self.port, self.host, narrow, self.tls, client, self.unix)
        made.host = self.authority or made.host
        made.token = self.token
        return made

    def request(self, method, path, body=None, type=None, **headers):
        """Send a request and return its answer; `type` is the body's. Raises
        ConnectionEnded where there is none."""
        if type is None and isinstance(body, (dict, list)):
            type = JSON
        is_kept = self._is_kept()
        if not is_kept:
            self.disconnect()
            self._kept = self.connect()
        kept, received = self._kept, self._kept.received
        try:
            answer = kept.request(path, method, body, content_type=type, **headers)
        except ConnectionEnded:
            self.disconnect()
            if is_kept and kept.received == received and method in ("GET", "HEAD"):
                # The server has closed it just then, as it may between two requests.
                return self.request(method, path, body, type, **headers)
            raise
        except BaseException:
            self.disconnect()  # what comes may be the answer to this request
            raise
        if "close" in re.split(r"[ ,]+", (answer["Connection"] or "").lower()):
            self.disconnect()
        return answer

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def head(self, path, **headers):
        return self.request("HEAD", path, **headers)

    def post(self, path, body=b"", type=None, **headers):
        return self.request("POST", path, body, type, **headers)

    def put(self, path, body=b"", type=None, **headers):
        return self.request("PUT", path, body, type, **headers)

    def patch(self, path, body=b"", type=None, **headers):
        return self.request("PATCH", path, body, type, **headers)

    def delete(self, path, **headers):
        return self.request("DELETE", path, **headers)

    def _is_kept(self):
        """True if there is a connection, and it was not closed meanwhile."""
        kept = self._kept
        return kept and kept.socket.fileno() >= 0 and kept.is_silent()

    def disconnect(self):
        if self._kept:
            self._kept.close()
        self._kept = None


def as_bytes(body):
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    return body.encode() if isinstance(body, str) else body


def set_reset(sock):
    """Closing the socket from now on resets the connection."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def keep_port():
    """A free port, and a socket that keeps it without listening: until it is closed the
    kernel gives the port to nobody who asks for any, at no address, but a server that
    names it gets it. Caddy listens at all addresses, where a client at 127.0.0.66 with
    the same port would be in its way."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    keeper = socket.socket(family, socket.SOCK_STREAM)
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        keeper.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    keeper.bind(("", 0))
    return keeper.getsockname()[1], keeper
