"""A WebSocket subscriber: its handshake, its start, its messages, its heartbeats, its
end."""

import datetime

import pytest
from websockets.frames import Opcode

from tidings_test.http import check_refused
from tidings_test.messages import first_digest
from tidings_test.stream import UPGRADE

# Nothing comes by itself.
pytestmark = pytest.mark.broker("--heartbeat", "3600")

BUSY = pytest.mark.broker("--heartbeat", "0.1")
FORMS = ("json", "xml")


@pytest.fixture
def news(news):
    """A set that has three entries."""
    news.post(3)
    return news


def messages_until(follower, last):
    """Read until entry `last`; the messages that had entries."""
    read = []
    while not follower.message or follower.message.last < last:
        read.append(follower.next())
    assert follower.message.last == last
    return [message for message in read if message.entries]


# Subprotocols


def read_text(connection):
    """The payload of the next frame, which is text."""
    first, size = connection.read(2)
    assert first & 0x0F == Opcode.TEXT
    return connection.read(int.from_bytes(connection.read(2)) if size > 125 else size)


def test_speaks_the_subprotocol_that_was_asked_for(news, broker):
    xml, json = "resourcesync.xml", "resourcesync.json"
    for asked, spoken in (
        (xml, xml),
        (json, json),
        (f"{xml}, {json}", xml),
        (f"{json}, {xml}", json),
        (f"mqtt, {xml}", xml),
    ):
        with broker.connect() as connection:
            headers = {**UPGRADE, "sec_websocket_protocol": asked}
            connection.ask(f"{news.stream}?after=0", **headers)
            answer = connection.answer_head()
            assert (answer.status, answer["Sec-WebSocket-Protocol"]) == (101, spoken)
            for _ in range(2):
                first = b"<" if spoken == xml else b"{"
                assert read_text(connection).startswith(first)


def test_speaks_json_and_names_no_subprotocol_when_none_was_asked_for(news):
    follower = news.websocket("after=0", form=None)
    follower.next()
    assert follower.next().set == news.name
    assert follower.message.seqs == [1, 2, 3]


def test_refuses_subprotocols_that_it_does_not_speak(news, broker):
    for unknown in ("mqtt", "resourcesync.XML", "resourcesync", "mqtt, chat"):
        headers = {**UPGRADE, "sec_websocket_protocol": unknown}
        answer = broker.get(news.stream, **headers)
        check_refused(answer, 400, "resourcesync.json")
        check_refused(answer, 400, "resourcesync.xml")


# Where it starts


# The greeting: a heartbeat at the position where the stream begins, the only kind of
# message that has the clock and the interval.
@pytest.mark.parametrize("form", FORMS)
def test_begins_with_a_heartbeat_where_it_starts(broker, form):
    news = broker.set()
    posted = news.post(3)
    for after in range(4):
        follower = news.websocket(f"after={posted.epoch}-{after}", form)
        first = follower.next()
        assert first.after == first.last == after
        assert first.from_ == first.until
        assert len(first.now) == 27
        assert first.now > posted.datetime
        assert str(first.heartbeat) == "3600"
        if after == 0:
            assert first.digest == f"sha-256:{first_digest(first.epoch).hex()}"
        if after < 3:
            assert follower.next().last == 3
            assert follower.message.until == posted.datetime


# A plain seq is a position, too: 0 is the beginning.
def test_takes_a_plain_seq_as_a_position(news):
    for after, seqs in ((2, [3]), (0, [1, 2, 3])):
        follower = news.websocket(f"after={after}")
        assert follower.next().after == after
        assert follower.next().seqs == seqs
        assert follower.message.locs[-1] == "http://example.com/r/3"


def test_starts_now_when_no_position_is_given(news):
    follower = news.websocket(form="xml")
    assert follower.next().last == 3
    news.post()
    assert follower.next().locs == ["http://example.com/r/4"]


# a resource may be in several sets; each notifies its own followers, by
# its own numbers.
def test_tells_of_a_change_in_each_set_that_it_was_posted_to(news, broker):
    other = broker.set()
    other.post()
    followers = [one.websocket() for one in (news, other)]
    for follower in followers:
        follower.next()
    news.post(first=9)
    other.post(first=9)
    for follower, seq in zip(followers, (4, 2)):
        assert follower.next().locs == ["http://example.com/r/9"]
        assert follower.message.seqs == [seq]


# The handshake refuses a mistyped position.
def test_refuses_a_malformed_position_at_the_handshake(news, broker):
    # fmt: off
    for malformed in ("x", "-", "", "-1", "1-", "1-2-3", "0x10", "+1", "1.", "1a",
                      "%20", "18446744073709551616"):
        answer = broker.get(f"{news.stream}?after={malformed}", **UPGRADE)
        check_refused(answer, 400, "position")
    # fmt: on


# the open WebSocket, where a browser can see it, reports a position that was
# true once, with the earliest one that can be served.
def test_closes_with_4410_for_a_position_that_cannot_be_served(broker):
    news = broker.set()
    epoch = news.post(3).epoch
    for after in ("0123456789abcdef-1", f"{epoch}-4", "4", "18446744073709551615"):
        follower = news.websocket(f"after={after}")
        close = follower.wait_close(4410)
        assert f"earliest {epoch}-0" in close.reason
        assert not follower.text  # no message came before


def test_answers_404_for_a_set_that_does_not_exist(broker):
    other = broker.set("other")
    check_refused(broker.get(other.stream, **UPGRADE), 404, "other")
    assert other.get("changelist.xml").status == 404


# RFC 9110 section 15.5.22: the answer names the protocol to upgrade to. A proxy dropped
# the client's wish for it.
def test_asks_for_an_upgrade_that_got_lost(news):
    handshake = {**UPGRADE, "upgrade": None, "connection": None}
    answer = news.get("stream", **handshake)
    check_refused(answer, 426, "proxy_set_header Upgrade")
    assert (answer["Upgrade"], answer["Connection"]) == ("websocket", "upgrade")


# Messages


# the chain; the follower looks at every message and every joint.
def test_messages_follow_one_another_without_gap_or_overlap(news):
    sizes = [1, 1, 7, 300, 1, 2500, 2]
    followers = [news.websocket("after=0", form) for form in FORMS]
    read = [[] for _ in followers]
    for i in range(100):
        last = news.post(sizes[i % 7] if i % 50 < 7 else 1).last
        if i % 5 == 0 or i == 99:  # else several wait and may be merged
            for follower, come in zip(followers, read):
                come += messages_until(follower, last)
    assert all(len(come) >= 20 for come in read)


# both forms have the same entries, in messages of the same coverage with the
# same times and digests.
def test_xml_and_json_say_the_same(news):
    followers = [news.websocket(form=form) for form in FORMS]
    for follower in followers:
        follower.next()
    for i in range(8):
        last = news.post(1 + 3 * i).last
        json, xml = (follower.news() for follower in followers)
        assert json.last == xml.last == last
        for fact in ("after", "epoch", "from_", "until", "digest", "entries"):
            assert getattr(json, fact) == getattr(xml, fact)


# a message is a function of its coverage, for all subscribers, live on
# any thread or hours later.
@pytest.mark.broker("--threads", "4")
def test_the_same_coverage_has_the_same_bytes(news):
    followers = [news.websocket(form=FORMS[i % 2]) for i in range(8)]
    for follower in followers:
        follower.next()
    for i in range(20):
        # Up to 40 KB: a larger one may come in two messages to one and in one to
        # another, as its JSON is ready or not.
        posted = news.post(1 + i % 4, size=i % 3 * 5000)
        sent = {form: set() for form in FORMS}
        for follower in followers:
            assert follower.news().last == posted.last
            sent[follower.form].add(follower.text)
        assert [len(texts) for texts in sent.values()] == [1, 1]

    # The last post, for one who comes later.
    for form in FORMS:
        late = news.websocket(f"after={posted.first - 1}", form)
        late.news()
        assert {late.text} == sent[form]


# a burst comes as a sequence of messages within the limits, each
# in frames of at most 64 KB (which the follower checks), and all are there.
@pytest.mark.parametrize(
    "limit",
    [
        pytest.param(1 << 20, marks=pytest.mark.broker("--message-bytes", "1M")),
        pytest.param(512 << 10, marks=pytest.mark.broker("--message-bytes", "512K")),
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_a_burst_comes_in_messages_of_at_most(limit, form, news):
    live = news.websocket(form=form)
    live.next()
    last = news.post(8000, size=150).last
    late = news.websocket("after=0", form)
    n = 0
    while live.message.last < last:
        live.news()
        n += 1
        assert live.size <= limit
        assert live.frames == (live.size + 65395) // 65396
    assert live.message.last == last
    assert n >= 2000000 / limit
    while not late.message or late.message.last < last:
        late.next()
        assert late.size <= limit
    assert late.message.digest == live.message.digest


# where bytes would allow more, entries do not.
@pytest.mark.broker("--message-bytes", "16M")
def test_a_message_has_at_most_50000_entries(broker):
    news = broker.set()
    news.post(30000)
    last = news.post(20500).last
    for form in FORMS:
        follower = news.websocket("after=0", form)
        assert len(follower.news().entries) == 50000
        rest = messages_until(follower, last)
        assert sum(len(message.entries) for message in rest) == 500


# A slow client gets fewer, larger messages, and still every entry.
def test_merges_what_waits_for_one_who_lags(news):
    followers = [news.websocket(form=form, narrow=True) for form in FORMS]
    for follower in followers:
        follower.next()
    for _ in range(8):  # more than the sockets take while nobody reads
        choked = news.post(15, size=65000).last
    for _ in range(200):
        last = news.post().last
    assert last == choked + 200
    for follower in followers:
        while follower.message.last < choked:
            follower.news()
        assert len(messages_until(follower, last)) <= 20


# a subscriber that gets a change finds it in the open Change List, even
# before the post is answered.
def test_is_in_the_change_list_before_anyone_hears_of_it(news, broker):
    followers = [news.websocket(form=form) for form in FORMS]
    for follower in followers:
        follower.next()
    with broker.connect() as source:
        for i in range(40):
            loc = f"http://example.com/r/{1000 + i}"
            body = {"loc": loc, "change": "updated"}
            source.ask(news.changes, "POST", body, content_type="application/json")
            assert followers[i % 2].news().last == i + 4
            assert f"<loc>{loc}</loc>" in news.get(news.list_path(1)).text
            assert source.answer().status == 200
            assert followers[1 - i % 2].news().last == i + 4


# While it is connected


def check_heartbeats(follower, last):
    now = ""
    for _ in range(2):
        message = follower.next()
        assert (message.entries, message.after) == ([], last)
        assert message.now > now
        now = message.now


# A client can distinguish quiet from dead.
@BUSY
def test_sends_heartbeats_when_nothing_happens(news):
    for last, form in enumerate(FORMS, 3):
        follower = news.websocket(form=form)
        assert str(follower.next().heartbeat) == "0.1"
        check_heartbeats(follower, last)
        news.post()
        assert follower.news().last == last + 1
        check_heartbeats(follower, last + 1)


# an interval below a second is kept. A busy machine delays some heartbeats, but
# were there one a second, no two would be closer.
@BUSY
def test_beats_as_often_as_it_says(news):
    follower = news.websocket()
    follower.next()  # the greeting
    times = []
    for _ in range(8):
        assert not follower.next().entries
        assert str(follower.message.heartbeat) == "0.1"
        times.append(datetime.datetime.fromisoformat(follower.message.now))
    steps = [later - earlier for earlier, later in zip(times, times[1:])]
    assert min(steps).total_seconds() < 0.9


def test_answers_pings_with_what_was_in_them(news):
    follower = news.websocket()
    follower.next()
    for size in range(0, 126, 25):
        follower.send_frame(Opcode.PING, b"p" * size)
        frame = follower.frame()
        assert (frame.opcode, bytes(frame.data)) == (Opcode.PONG, b"p" * size)
    news.post()
    assert follower.next().last == 4


# The broker ignores messages of a client; they do no harm.
def test_goes_on_whatever_the_client_sends(news):
    follower = news.websocket()
    follower.next()
    follower.send_frame(Opcode.TEXT, b"hello")
    follower.send_frame(Opcode.BINARY, b"\0\1")
    follower.send_frame(Opcode.PONG, b"x")
    news.post()
    assert follower.next().last == 4


def test_does_not_listen_to_long_stories(news):
    follower = news.websocket()
    follower.next()
    follower.send_frame(Opcode.BINARY, bytes(65536))
    news.post()
    assert follower.next().last == 4
    follower.send_frame(Opcode.BINARY, bytes(65537))
    follower.wait_close(1009)


def test_answers_a_close_with_a_close(news):
    follower = news.websocket()
    follower.next()
    follower.send_frame(Opcode.CLOSE, b"\x03\xe8")
    assert follower.frame().opcode == Opcode.CLOSE
    assert follower.frame() is None


# a set's changes are on its own channel only.
def test_keeps_two_sets_apart(news, broker):
    olds = broker.set()
    olds.post()
    sets = {news: news.websocket(), olds: olds.websocket()}
    epochs = {follower.next().epoch for follower in sets.values()}
    assert len(epochs) == 2
    for i in range(10):
        news.post(first=1000 + i)
        olds.post(first=2000 + i)
        for one, last, loc in ((news, 4 + i, 1000 + i), (olds, 2 + i, 2000 + i)):
            message = sets[one].next()
            assert (message.last, message.set) == (last, one.name)
            assert message.locs == [f"http://example.com/r/{loc}"]


# The end


def test_says_going_away_when_it_ends(start_broker):
    broker = start_broker("--heartbeat", "3600")
    news = broker.set()
    news.post(3)
    forms = ("json", "xml", None)
    followers = [news.websocket("after=0", form) for form in forms for _ in range(3)]
    for follower in followers:
        follower.until(3)
    broker.terminate()
    for follower in followers:
        follower.wait_close(1001)  # and answers it
        assert follower.frame() is None
    assert broker.wait() == 0
