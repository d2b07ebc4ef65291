"""Followers of a set, by WebSocket and by server-sent events, that look at every byte.

    follower = news.websocket(form="xml")
    follower.next()                     the first is a heartbeat
    news.post(3)
    assert follower.next().last == 3
    follower.until(7)                   reads until a message ends there
    follower.wait_close(1001)

    events = news.events("after=3")
    assert events.news().seqs == [4, 5]
    events.again()                      with Last-Event-ID, as browsers do

Every message is checked as it comes: by itself, against the one before (of the
connection before, too), and for the sizes of its frames or chunks.
"""

import re

from websockets.client import ClientConnection
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Close, Frame, Opcode
from websockets.uri import parse_uri

from tidings_test import messages
from tidings_test.history import History
from tidings_test.http import ConnectionEnded

PIECE_MAX = 65536  # bytes of a frame or of a chunk, with what is around them
SUBPROTOCOLS = {"json": "resourcesync.json", "xml": "resourcesync.xml"}

# The headers of a handshake, for a test that expects a refusal: broker.get(path,
# **UPGRADE).
UPGRADE = {
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec_websocket_version": "13",
}


class Follower:
    """The common part of both: the messages, one after the other.

    `message` is the last one, `history` the fold of all; a filter has no history.
    """

    def __init__(self, path):
        self.filtered = bool(re.search("(change|prefix|type|tag|data)=", path))
        self.message = None
        self.history = History(after=None)

    def read_text(self):
        """The next message as bytes; None: it has ended."""
        raise NotImplementedError

    def read(self):
        """The next message, unchecked; None: it has ended."""
        raise NotImplementedError

    def next(self):
        """The next message."""
        message = self.read()
        assert message, f"{self} has ended"
        return self.take(message)

    def take(self, message):
        """Check a message that was read."""
        message.check(self.filtered)
        if self.message:
            message.check_follows(self.message)
        else:
            assert not message.entries  # the first is a heartbeat
        if not message.entries and not self.filtered:
            assert message.now and message.heartbeat
        if not self.filtered:
            self.history.add_message(message)
        self.message = message
        return message

    def news(self):
        """The next message that has entries."""
        while not self.next().entries:
            pass
        return self.message

    def until(self, last):
        """Read until a message ends at `last`; none may go beyond."""
        while not self.message or self.message.last < last:
            self.next()
        assert self.message.last == last
        return self


class WebSocket(Follower):
    """Follows by WebSocket, on Debian's websockets without its own sockets: every
    frame is seen. `form` is that of the messages; None asks for no subprotocol and
    gets JSON. `deflate` offers permessage-deflate: frames are handed over inflated,
    and `size_sent` is that of the last message on the wire. Options are those of
    Connection: narrow, tls."""

    def __init__(self, broker, path, form="json", narrow=False, deflate=False):
        super().__init__(path)
        self.form = form or "json"
        self.close = None  # the close frame: .code, .reason
        self.frames = self.size = 0  # of the last message; its bytes
        self.text = b""
        self.size_sent = 0
        self.connection = broker.connect(narrow)
        self.protocol = ClientConnection(
            parse_uri(f"{broker.url.replace('http', 'ws', 1)}{path}"),
            subprotocols=[SUBPROTOCOLS[form]] if form else None,
            extensions=[_Deflate(self)] if deflate else None,
            max_size=None,
        )
        self._events = []
        request = self.protocol.connect()
        if self.connection.token:
            request.headers["Authorization"] = f"Bearer {self.connection.token}"
        self.protocol.send_request(request)
        self.flush()
        self.answer = self._next_event()
        assert self.answer.status_code == 101, self.answer
        if self.protocol.handshake_exc:
            raise self.protocol.handshake_exc
        assert self.protocol.subprotocol == (SUBPROTOCOLS[form] if form else None)

    def flush(self):
        """Send what the protocol wants sent: pongs, an answer to a close."""
        for data in self.protocol.data_to_send():
            if data:
                self.connection.send(data)

    def frame(self):
        """The next frame of any kind; pings are answered. None: it has ended."""
        frame = self._next_event()
        try:
            self.flush()
        except ConnectionError:
            pass  # it has ended, which the next reading says
        return frame

    def send_frame(self, opcode, payload, fin=True):
        """Send a frame, masked."""
        frame = Frame(opcode, payload, fin)
        self.connection.send(frame.serialize(mask=True))

    def read_text(self):
        text = bytearray()
        self.frames = self.size_sent = 0
        while True:
            frame = self.frame()
            assert frame, "the connection ended without a close frame"
            if frame.opcode == Opcode.CLOSE:
                self.close = Close.parse(frame.data)
                return None
            if frame.opcode in (Opcode.PING, Opcode.PONG):
                continue
            assert frame.opcode == (Opcode.CONT if self.frames else Opcode.TEXT)
            if not self.protocol.extensions:
                self.count(len(frame.data))
            text += frame.data
            self.frames += 1
            if frame.fin:
                self.size = len(text)
                self.text = bytes(text)
                return self.text

    def count(self, size):
        """A frame of a message has come, with so many bytes."""
        assert size + 4 <= PIECE_MAX
        self.size_sent += size

    def read(self):
        text = self.read_text()
        return text and messages.read(text, self.form)

    def wait_close(self, code=None):
        """Read on until the broker closes, with that code; the close frame."""
        while message := self.read():
            message.check(self.filtered)
        assert code is None or self.close.code == code, self.close
        return self.close

    def leave(self):
        """End the connection, politely."""
        self.connection.close()

    def abort(self):
        self.connection.abort()

    def _next_event(self):
        while not self._events:
            if not self.connection.buffer and not self.connection.receive():
                self.protocol.receive_eof()
                return None
            self.protocol.receive_data(bytes(self.connection.buffer))
            self.connection.buffer.clear()
            self._events += self.protocol.events_received()
            if self.protocol.parser_exc:
                raise self.protocol.parser_exc
        return self._events.pop(0)

    def __repr__(self):
        return f"<WebSocket, at {self.message}, closed {self.close}>"


class _Deflate(ClientPerMessageDeflateFactory):
    """Offers permessage-deflate, as browsers do, and counts what comes by it."""

    def __init__(self, follower):
        super().__init__(client_max_window_bits=True)
        self.follower = follower

    def process_response_params(self, params, accepted):
        extension = super().process_response_params(params, accepted)
        decode = extension.decode

        def decode_and_count(frame, **options):
            if frame.opcode in (Opcode.TEXT, Opcode.CONT):
                self.follower.count(len(frame.data))
            return decode(frame, **options)

        extension.decode = decode_and_count
        return extension


class EventSource(Follower):
    """Follows by server-sent events. `event` is the name of the last one, `data` its
    data, `last_id` the id with which a browser would continue; `whole` is true if the
    answer ended properly."""

    def __init__(self, broker, path, last_id=None, narrow=False, version="1.1"):
        super().__init__(path)
        self.broker = broker
        self.path = path
        self.narrow = narrow
        self.version = version
        self.event = self.data = ""
        self.last_id = ""
        self.retry = None  # in milliseconds
        self._open(last_id)

    def _open(self, last_id):
        self.connection = self.broker.connect(self.narrow)
        asked = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        if self.connection.token:
            asked += f"Authorization: Bearer {self.connection.token}\r\n"
        self.connection.send(self.request(asked))
        self.answer = answer = self.connection.answer_head()
        assert answer.status == 200, answer
        self.chunked = self.version == "1.1"
        assert answer["Content-Type"] == "text/event-stream"
        assert answer["Cache-Control"] == "no-store"
        if answer["X-Accel-Buffering"] != "no":
            raise ConnectionEnded("the broker starts or ends: it sends no events")
        assert answer["Transfer-Encoding"] == ("chunked" if self.chunked else None)
        assert answer["Content-Length"] is None
        assert answer["Connection"] == "close"
        self._text = bytearray()
        self.whole = False

    def request(self, asked):
        """The request, with the lines of `asked`."""
        return (
            f"GET {self.path} HTTP/{self.version}\r\nHost: {self.connection.host}\r\n"
            f"Accept: text/event-stream\r\nCache-Control: no-store\r\n{asked}\r\n"
        )

    def again(self, abort=False):
        """Leave, and connect again from the last id."""
        if abort:
            self.connection.abort()
        else:
            self.connection.close()
        self._open(self.last_id)

    def leave(self):
        self.connection.close()

    def read_event(self):
        """Read the next event, of any name (HTML section 9.2.6, as far as the broker
        makes use of it). False: the answer has ended, and `whole` says how."""
        while (block := self._read_block()) is not None:
            fields = dict(line.split(": ", 1) for line in block)
            assert len(fields) == len(block), block
            assert fields.keys() <= {"id", "event", "retry", "data"}, block
            self.retry = int(fields.get("retry", 0)) or self.retry
            self.last_id = fields.get("id", self.last_id)
            if "data" in fields:  # else nothing is dispatched
                self.event = fields.get("event", "")
                self.data = fields["data"]
                return True
        return False

    def read_text(self):
        if not self.read_event() or self.event == "farewell":
            return None
        assert self.event in ("changes", "heartbeat"), (self.event, self.data)
        return self.data.encode()

    def read(self):
        text = self.read_text()
        if not text:
            return None
        message = messages.read_json(text)
        assert self.last_id == message.position
        assert self.event == ("changes" if message.entries else "heartbeat")
        return message

    def wait_end(self, event):
        """Read to the end of the answer, which is whole; its last event has that
        name. Its data."""
        while self.read_event():
            pass
        assert self.event == event
        assert self.whole
        return self.data

    def _read_block(self):
        """The lines up to an empty one; None: the answer has ended."""
        searched = 0
        while True:
            if self._text.startswith(b"\n"):
                end, behind = 0, 1
            else:
                end = self._text.find(b"\n\n", searched)
                behind = end + 2
            if end >= 0:
                block = self._text[:end].decode()
                del self._text[:behind]
                assert "\r" not in block and "\0" not in block
                return block.split("\n") if block else []
            searched = max(0, len(self._text) - 1)
            if not self._receive():
                return None

    def _receive(self):
        if not self.chunked:
            there = bool(self.connection.buffer) or self.connection.receive()
            self._text += self.connection.buffer
            self.connection.buffer.clear()
            return there
        while b"\r\n" not in self.connection.buffer[:20]:
            if not self.connection.receive():
                return False
        head = bytes(self.connection.buffer[:20]).split(b"\r\n")[0]
        assert re.fullmatch(b"[0-9a-f]+", head), head
        assert len(head) + 2 + int(head, 16) + 2 <= PIECE_MAX
        while len(self.connection.buffer) < len(head) + 2 + int(head, 16) + 2:
            if not self.connection.receive():
                return False  # cut off in the middle
        chunk = self.connection.read_chunk()
        if not chunk:
            self.whole = not self.connection.read_all()
        self._text += chunk
        return bool(chunk)

    def __repr__(self):
        return f"<EventSource, at {self.message}, {self.event}: {self.data}>"
