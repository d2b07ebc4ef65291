"""permessage-deflate (RFC 7692) on WebSockets: its negotiation, equal content of
compressed messages, and frames of clients."""

import secrets
import zlib

import pytest
from websockets.frames import Frame, Opcode

from tidings_test.http import check_refused
from tidings_test.stream import UPGRADE

pytestmark = pytest.mark.broker("--heartbeat", "3600")

FORMS = ("json", "xml")
OFFER = "permessage-deflate; client_max_window_bits"
AGREED = (
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
)


def ask(news, *offers):
    """The head of the answer to a handshake with these lines of offers."""
    headers = {**UPGRADE, "sec_websocket_protocol": "resourcesync.xml"}
    lines = "".join(f"Sec-WebSocket-Extensions: {offer}\r\n" for offer in offers)
    with news.broker.connect() as connection:
        fields = "".join(
            f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()
        )
        connection.send(
            f"GET {news.stream} HTTP/1.1\r\nHost: {connection.host}\r\n"
            f"{fields}{lines}\r\n"
        )
        return connection.answer_head()


def post_random(news, n):
    """Post `n` entries of which only a part can be compressed."""
    loc = "http://example.com/r/"
    body = [{"loc": loc + secrets.token_hex(32), "change": "created"} for _ in range(n)]
    return news.receipt(news.send(body)).last


# The handshake. unit/proto/ws_deflate has more offers.


# A client that limits the broker's window gets no compression,
# unless it has another offer.
def test_agrees_with_clients_that_offer_it(news):
    bits = f"{AGREED}; server_max_window_bits=15"
    for offers, agreed in (
        ((), None),
        (("permessage-deflate",), AGREED),
        ((OFFER,), AGREED),
        (('permessage-deflate; server_max_window_bits="15"',), bits),
        (("permessage-deflate; server_max_window_bits=14",), None),
        (("permessage-deflate; server_max_window_bits=10", OFFER), AGREED),
        (("x-other; y=1", "permessage-deflate; z, " + OFFER), AGREED),
        (("x-other",), None),
    ):
        answer = ask(news, *offers)
        assert answer.status == 101
        assert answer.all("Sec-WebSocket-Extensions") == [agreed] * bool(agreed)
        assert answer["Sec-WebSocket-Protocol"] == "resourcesync.xml"


# RFC 6455 section 9.1: a malformed header fails the handshake.
def test_refuses_malformed_offers(news, broker):
    for offer in ("", "permessage-deflate; x=", f"{OFFER}; x y"):
        headers = {**UPGRADE, "sec_websocket_extensions": offer}
        answer = broker.get(news.stream, **headers)
        check_refused(answer, 400, "Sec-WebSocket-Extensions")


@pytest.mark.broker("--compress-streams", "off")
def test_a_setting_turns_it_off(news):
    assert ask(news, OFFER)["Sec-WebSocket-Extensions"] is None
    follower = news.websocket(deflate=True)
    follower.next()
    news.post(100)
    assert follower.next().last == 100
    assert follower.size_sent == follower.size


# Messages


# A message has the same bytes, compressed or not, and so has each heartbeat.
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.broker("--threads", "1")
def test_compressed_messages_say_the_same(form, news):
    plain = news.websocket(form=form)
    deflated = [news.websocket(form=form, deflate=True) for _ in range(3)]
    plain.next()
    for follower in deflated:
        follower.next()
    for n in (1, 2, 10, 40, 1, 7):
        last = news.post(n).last
        assert plain.next().last == last
        for follower in deflated:
            assert follower.next().last == last
            assert follower.text == plain.text
            assert follower.size_sent < plain.size_sent * (0.8 if n < 10 else 0.4)


# A later subscriber, a slow one, and the earlier ones read the same history, in
# messages of several frames.
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.broker("--threads", "1")
def test_long_messages_come_in_several_frames(form, news):
    plain = news.websocket(form=form)
    live = [news.websocket(form=form, deflate=True) for _ in range(5)]
    slow = news.websocket(form=form, deflate=True, narrow=True)
    last = post_random(news, 8000)
    late = news.websocket("after=0", form=form, deflate=True)
    plain.until(last)
    for follower in (*live, slow, late):
        frames = 0
        while not follower.message or follower.message.last < last:
            follower.next()
            frames = max(frames, follower.frames)
        assert frames > 1
        assert follower.message.digest == plain.message.digest


# A thread that has more than 16 MB of frames releases the waiting ones. The broker
# compresses them again when their subscribers read on, to the same bytes.
@pytest.mark.broker("--threads", "1", "--message-bytes", "16M")
def test_goes_on_with_a_message_that_was_let_go(news):
    post_random(news, 40000)
    followers = [
        news.websocket(f"after={after}", deflate=True, narrow=True)
        for after in range(10)
    ]
    for follower in followers:
        follower.read_text()
        assert follower.connection.receive()  # of the message, which gets stuck
    for follower in followers:
        follower.connection.widen()
        assert follower.read_text().endswith(b'"seq":40000}]}\n')
        assert follower.size_sent * len(followers) > 16 << 20


@pytest.mark.broker("--heartbeat", "0.1")
def test_heartbeats_are_compressed_too(news):
    follower = news.websocket(form="xml", deflate=True)
    for _ in range(3):
        assert not follower.next().entries
        assert follower.size_sent < follower.size


def test_compressed_streams_are_counted_on_their_own(news, broker):
    follower = news.websocket(form="xml", deflate=True)
    follower.next()
    subscribers = broker.get(news.path).json()["subscribers"]
    assert subscribers["websocket-xml-deflate"] == 1
    assert sum(subscribers.values()) == 1
    sent = 'tidings_messages_sent_total{transport="websocket-xml-deflate"}'
    assert broker.metrics()[sent] >= 1


# Messages of a client


def send(follower, opcode, payload=b"", fin=True, rsv1=True):
    frame = bytearray(Frame(opcode, payload, fin).serialize(mask=True))
    frame[0] |= 0x40 * rsv1
    follower.connection.send(bytes(frame))


def pack(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


# The broker drops what clients send and inflates none of it: 50 MB in 49 KB cost as
# much as 49 KB.
def test_drops_what_a_client_sends_compressed(news):
    follower = news.websocket(deflate=True)
    follower.next()
    for payload in (pack(b"hello"), b"\xff\xff", pack(bytes(50_000_000))):
        send(follower, Opcode.TEXT, payload)
        send(follower, Opcode.BINARY, payload[:1], fin=False)
        send(follower, Opcode.CONT, payload[1:], rsv1=False)
    news.post()
    assert follower.next().last == 1
    send(follower, Opcode.TEXT, bytes(65537))
    follower.wait_close(1009)


# RFC 7692 section 6.
@pytest.mark.parametrize("opcode", [Opcode.PING, Opcode.CONT])
def test_refuses_a_compressed_control_frame_or_continuation(opcode, news):
    follower = news.websocket(deflate=True)
    follower.next()
    send(follower, Opcode.TEXT, fin=False)
    send(follower, opcode)
    follower.wait_close(1002)


def test_refuses_a_compressed_message_if_none_was_agreed(news):
    follower = news.websocket()
    follower.next()
    send(follower, Opcode.TEXT)
    follower.wait_close(1002)
