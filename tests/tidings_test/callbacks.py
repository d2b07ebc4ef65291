"""Subscribers of a hub: callbacks that follow orders, also to do what no subscriber
should do.

    def test_something(news, callbacks):
        cb = callbacks.add("/cb/1?a=b")
        cb.next(500, 500, hang, 204)        how to treat the next deliveries
        ... subscribes cb.url, posts ...    or cb = callbacks.join(news)
        assert cb.verifications.wait(1)["hub.mode"] == "subscribe"
        assert cb.deliveries.wait(1)["Content-Type"] == "application/xml"
        cb.wait_last(10)

Without an order a callback confirms each verification and answers deliveries with 200.
Requests that fit no callback, byte for byte, are strays and answered with 404. A
delivery counts when it is answered with 2xx, and once for each id.

How a request is treated is a status, or one of: answer(...), hang, close, reset,
reset_early, reset_middle, close_middle, garbage, endless_body, endless_head,
trickle(...), slow_read(...), Held(...); or any coroutine function of an Exchange.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import time
import urllib.parse

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tidings_test.documents import Document
from tidings_test.history import History
from tidings_test.servers import Server, call
from tidings_test.waiting import Arrivals

FILLER = b"X-Filler: another line of which there is no end while it is read\r\n" * 1000

# The coverage that a message in XML states.
COVERAGE = re.compile(
    rb'<rs:md capability="change-notification".*? td:epoch="(\w+)"'
    rb'.*? td:after="(\d+)" td:last="(\d+)"'
)

# What the id of a delivery states, of a body that does not: of a set's changes in JSON.
IDENTITY = re.compile(r"(\w+)-\d+-(\d+)-(\d+)")


class Callbacks(Server):
    """A server with callbacks. `requests` are all that came, strays too."""

    def __init__(self, host="127.0.0.2"):
        self.each = {}  # by target
        self.bodies = {}  # many callbacks get the same: each is kept once
        self.requests = Arrivals(f"the requests to {host}")
        self.strays = Arrivals(f"the strays of {host}")
        super().__init__(host)

    def add(self, target=None):
        """A callback. `target` is "/cb/NAME?any=query"; with another query it is
        another one."""
        target = target or f"/cb/{len(self.each) + 1}"
        self.each[target] = Callback(self, target)
        return self.each[target]

    def join(self, to, target=None, **form):
        """A callback with an active subscription to a set (or topic): it gets all later
        posts."""
        from tidings_test import hub

        callback = self.add(target)
        hub.join(to, callback, **form)
        return callback

    def end(self):
        """End it, and check what came; at the end of the test."""
        self.close()
        self.check()

    def check(self):
        """Check that all requests were right: no stray, no delivery without id, none
        that goes back, none that differs from an earlier one of its id."""
        faults = [fault for callback in self.each.values() for fault in callback.faults]
        assert not faults, faults
        assert not len(self.strays), self.strays

    async def serve(self, peer):
        while request := await peer.head():
            exchange = Exchange(self, peer, request)
            await exchange.behaviour(exchange)
            if exchange.is_over or request["Connection"] == "close":
                break

    def find(self, request):
        """The callback of a request, its kind, and the parameters that the hub has
        added (W-051)."""
        if request.method == "POST" and request.target in self.each:
            return self.each[request.target], "delivery", ""
        if request.method == "GET":
            for at in re.finditer(r"(?<=[?&])hub\.", request.target):
                target = request.target[: at.start()]
                added = request.target[at.start() :]
                callback = self.each.get(target) or self.each.get(target[:-1])
                separator = "&" if callback and "?" in callback.target else "?"
                if callback and (target == callback.target or target[-1] == separator):
                    kind = "denial" if "hub.mode=denied" in added else "verification"
                    return callback, kind, added
        return None, "stray", ""


class Callback:
    """A callback: the requests that it got, and its behaviour."""

    def __init__(self, server, target):
        self.server = server
        self.target = target
        self.url = server.url + target
        self.verifications = Arrivals(f"the verifications of {target}")
        self.denials = Arrivals(f"the denials of {target}")
        self.deliveries = Arrivals(f"the deliveries to {target}")
        # Deliveries that it answered with 2xx, each id once.
        self.accepted = Arrivals(f"the deliveries that {target} accepted")
        self.repeats = 0  # deliveries whose id had been accepted before
        self.holes = 0  # deliveries that begin later than the one before ended
        self.faults = []
        self._seen = {}  # deliveries that came whole, by id
        self._accepted = {}  # by id
        self._scripts = {}
        self._free = None  # answers may go on; None: all may

    # How it treats requests

    def next(self, *behaviours, of="delivery"):
        """Set the behaviours for the next requests of that kind, one each; later
        requests get the initial behaviour."""
        self._scripts[of] = list(behaviours), None

    def always(self, behaviour, of="delivery"):
        """How to treat all requests of that kind from now on; None: as at the
        beginning."""
        self._scripts[of] = [], behaviour

    def hold(self):
        """Let requests wait for their answers from now on."""
        self._free = asyncio.Semaphore(0)

    def release(self, n=None):
        """Let `n` requests go on that wait, or will; by default all, and no more are
        held."""
        free = self._free
        if n is None:
            self._free, n = None, 100000
        call(lambda: [free.release() for _ in range(n)])

    # Received requests

    def wait_last(self, last):
        """Wait until it has accepted the entries up to `last`."""
        self.accepted.find(lambda d: d.last is not None and d.last >= last, f"{last}")

    @property
    def last(self):
        """The last entry that it has accepted; None if it has none."""
        return self.accepted[-1].last if len(self.accepted) else None

    def history(self, new_epochs=0):
        """All entries that it has accepted, as one history; checks every byte of it."""
        assert not self.faults, self.faults
        after = self.accepted[0].after if len(self.accepted) else 0
        history = History(after, new_epochs)
        for delivery in self.accepted:
            history.add_delivery(Document(delivery.body))
        return history

    # On the servers' thread

    def behaviour(self, kind):
        steps, after = self._scripts.get(kind, ([], None))
        behaviour = steps.pop(0) if steps else after
        if behaviour is None or isinstance(behaviour, int):
            return answer(behaviour or 200)
        return behaviour

    async def wait_released(self):
        if self._free:
            await self._free.acquire()

    def judge(self, delivery):
        """A delivery has come whole: can that be? R-306: a redelivery is the same."""
        if not delivery.id:
            self.faults.append(f"{delivery} has no id")
        earlier = self._seen.setdefault(delivery.id, delivery)
        if earlier.body != delivery.body:
            self.faults.append(f"{delivery} differs from {earlier}")

    def accept(self, delivery):
        delivery.is_accepted = True
        if delivery.id in self._accepted:
            self.repeats += 1
            return
        self._accepted[delivery.id] = delivery
        if delivery.last is not None and self.last is not None:
            if delivery.after > self.last:
                self.holes += 1
            elif delivery.after < self.last:
                self.faults.append(f"{delivery} goes back")
        self.accepted.add(delivery)

    def __repr__(self):
        return f"<callback {self.url}>"


class Exchange:
    """A request to a callback and its answer; on the servers' thread.

    The request has kind ("verification", "denial", "delivery", "stray") and `added`,
    the query that the hub has added; a delivery has id, epoch, after, last (None: it
    does not say) and is_accepted.
    """

    def __init__(self, server, peer, request):
        self.server = server
        self.peer = peer
        self.request = request
        self.callback, request.kind, request.added = server.find(request)
        request.id = request["Tidings-Delivery"]
        request.epoch = request.after = request.last = None
        request.is_accepted = False
        request.order = len(server.requests) + 1
        self.is_over = False
        self.held = None  # an event, behind which it goes on when it was read
        self.behaviour = (
            self.callback.behaviour(request.kind) if self.callback else answer(404)
        )

    def record(self):
        """Add the request to the received ones."""
        request, callback = self.request, self.callback
        if coverage := COVERAGE.search(request.body or b""):
            request.epoch = coverage[1].decode()
            request.after, request.last = int(coverage[2]), int(coverage[3])
        elif "json" in (request["Content-Type"] or ""):
            coverage = IDENTITY.match(request.id)
            request.epoch = coverage[1]
            request.after, request.last = int(coverage[2]), int(coverage[3])
        request.order = len(self.server.requests) + 1
        self.server.requests.add(request)
        if not callback:
            self.server.strays.add(request)
        elif request.kind == "delivery":
            if request.body is not None:
                callback.judge(request)
            callback.deliveries.add(request)
        elif request.kind == "denial":
            callback.denials.add(request)
        else:
            callback.verifications.add(request)

    async def read(self, piece=None, pause=0.0):
        """Read the body, record the request, and wait while answers are held."""
        await self.peer.body(self.request, piece, pause)
        body = self.request.body
        self.request.body = self.server.bodies.setdefault(body, body)
        self.record()
        if self.callback:
            await self.callback.wait_released()
        if self.held:
            await self.held.wait()

    def head(self, status, headers="", body=None, behind=""):
        """An answer as bytes; by default its body is the challenge, if there is one.
        With `body` as ... it has no length."""
        if body is None:
            body = parameter(self.request, "hub.challenge") or ""
        text = f"HTTP/1.1 {status} Scripted\r\n{headers}"
        if status in (204, 304):
            return f"{text}\r\n".encode()
        text += "Content-Type: application/octet-stream\r\n"
        if body is ...:
            return f"{text}\r\n".encode()
        body = (body + behind).encode()
        return f"{text}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def accept(self, status):
        if status // 100 == 2 and self.request.kind == "delivery":
            self.callback.accept(self.request)

    async def send(self, data):
        await self.peer.send(data)

    async def hang(self):
        """Wait until the peer has enough."""
        self.is_over = True
        await self.peer.gone()

    def reset(self):
        self.is_over = True
        self.peer.reset()


# How to treat a request


def answer(status=200, headers="", body=None, behind=""):
    """Answer with these. `headers`: more lines, each with its CRLF; `body` None: the
    challenge of a verification; `behind`: bytes after that."""

    async def behave(exchange):
        await exchange.read()
        exchange.accept(status)
        await exchange.send(exchange.head(status, headers, body, behind))

    return behave


class Held:
    """Take the request, and treat it as `then` says when release() is called."""

    def __init__(self, then=200):
        self._then = answer(then) if isinstance(then, int) else then
        self._free = asyncio.Event()

    async def __call__(self, exchange):
        exchange.held = self._free
        await self._then(exchange)

    def release(self):
        call(self._free.set)


def trickle(status=200, pause=0.02):
    """Answer a byte at a time."""

    async def behave(exchange):
        await exchange.read()
        exchange.accept(status)
        for byte in exchange.head(status):
            await exchange.send(bytes([byte]))
            await asyncio.sleep(pause)

    return behave


def slow_read(pause=0.02):
    """Take the body a hundred bytes at a time, then answer."""

    async def behave(exchange):
        await exchange.read(piece=100, pause=pause)
        exchange.accept(200)
        await exchange.send(exchange.head(200))

    return behave


async def hang(exchange):
    """Take the request, and say nothing."""
    await exchange.read()
    await exchange.hang()


async def close(exchange):
    """Take the request, and close."""
    await exchange.read()
    exchange.is_over = True


async def reset(exchange):
    """Take the request, and reset."""
    await exchange.read()
    exchange.reset()


async def reset_early(exchange):
    """Reset before the body is read."""
    exchange.record()
    exchange.reset()


async def reset_middle(exchange):
    """Reset in the middle of the answer's head."""
    await exchange.read()
    await exchange.send(b"HTTP/1.1 200 OK\r\nContent-Le")
    exchange.reset()


async def close_middle(exchange):
    """Close in the middle of the answer's head, between two lines."""
    await exchange.read()
    exchange.is_over = True
    await exchange.send(b"HTTP/1.1 200 OK\r\nX: y\r\n")


async def garbage(exchange):
    """Answer, but not in HTTP."""
    await exchange.read()
    exchange.is_over = True
    await exchange.send(b"\x16\x03\x01 this is not what was asked for\r\n\r\n")


async def endless_body(exchange):
    """Answer 200 with a body of which there is no end."""
    await exchange.read()
    exchange.accept(200)
    await exchange.send(exchange.head(200, body=...))
    while True:
        await exchange.send(FILLER)


async def endless_head(exchange):
    """Answer 200 with headers of which there is no end."""
    await exchange.read()
    await exchange.send(b"HTTP/1.1 200 Endless\r\n")
    while True:
        await exchange.send(FILLER)


# Questions to a request


def parameter(request, name):
    """The value of a parameter that the hub has added, of which there is one at most;
    None: there is none."""
    values = urllib.parse.parse_qs(request.added, keep_blank_values=True).get(name, [])
    assert len(values) <= 1, request
    return values[0] if values else None


def check_links(request, topic, hub):
    """W-083: one Link line, with one rel="self", which is the topic, and the hub."""
    (links,) = request.all("Link")
    assert f'<{topic}>; rel="self"' in links, links
    assert links.count('rel="self"') == 1, links
    assert f'<{hub}>; rel="hub"' in links, links


def check_signature(request, secret, method="sha256"):
    """W-100: X-Hub-Signature is the method and the HMAC of the body; with `secret`
    None there is none (W-102)."""
    if secret is None:
        assert request["X-Hub-Signature"] is None
        return
    code = hmac.new(secret.encode(), request.body, method).hexdigest()
    assert request.all("X-Hub-Signature") == [f"{method}={code}"]


def check_webhook(request, secret):
    """W-106: the three headers of Standard Webhooks 1.0 are right for a secret of the
    form whsec_BASE64."""
    key = base64.b64decode(secret.removeprefix("whsec_") + "==")
    code = base64.b64encode(hmac.digest(key, _signed(request), hashlib.sha256)).decode()
    assert [one for one in _signatures(request) if "v1a" not in one] == [f"v1,{code}"]


def check_keys(request, keys):
    """W-109: it has a signature by each of the hub's keys, those of /hub/keys, in their
    order."""
    given = [one[4:] for one in _signatures(request) if one.startswith("v1a,")]
    assert len(given) == len(keys), given
    for key, one in zip(keys, given):
        public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
        public.verify(base64.b64decode(one), _signed(request))


def _signed(request):
    (timestamp,) = request.all("webhook-timestamp")
    assert abs(int(timestamp) - time.time()) < 300
    assert request.id and request.all("webhook-id") == [request.id]
    return f"{request.id}.{timestamp}.".encode() + request.body


def _signatures(request):
    (signatures,) = request.all("webhook-signature")
    return signatures.split(" ")
