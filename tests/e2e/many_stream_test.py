"""A stream of many sets (GET and POST /stream): which sets, their messages, their ends,
and what a client may say."""

import json

import pytest

from websockets.frames import Opcode

from tidings_test.http import JSON, check_refused
from tidings_test.soak import choices, soak
from tidings_test.stream import EventSource, WebSocket

pytestmark = pytest.mark.broker("--heartbeat", "3600")


class Many(WebSocket):
    """A WebSocket of many sets, which begins with a heartbeat of the stream."""

    def __init__(self, broker, query="", heartbeat=3600, **options):
        super().__init__(broker, f"/stream?{query}", **options)
        self.broker = broker
        self.text, self.said = b"", {}  # the last one that take() has read
        self.resume = None  # the last resume text
        assert self.take()["heartbeat"] == heartbeat

    def say(self, **request):
        """Send a request."""
        self.protocol.send_text(json.dumps(request).encode())
        self.flush()

    def take(self):
        """The next message but resume texts; None: the stream is closed."""
        while text := self.read_text():
            self.text, self.said = text, json.loads(text)
            self.resume = self.said.get("resume", self.resume)
            if self.said.keys() != {"resume"}:
                return self.said
        return None

    def next_text(self):
        """Read to the next resume text; what came before it."""
        before = []
        while "resume" not in (said := json.loads(self.read_text())):
            before.append(said)
        self.resume = said["resume"]
        return before

    def wait_close(self, code=None):
        while self.take():
            pass
        assert code is None or self.close.code == code, self.close
        return self.close

    def seqs(self):
        """The set and the seqs of the next message."""
        said = self.take()
        assert "changes" in said, said
        return said["set"], [change["seq"] for change in said["changes"]]

    def end(self):
        """The set and the end that the next message says."""
        said = self.take()
        return said["set"], said["end"]


class ManyEvents(EventSource):
    """The same by server-sent events; `body` is posted."""

    def __init__(self, broker, query="", body=None, **options):
        self.body = None if body is None else json.dumps(body).encode()
        super().__init__(broker, f"/stream?{query}", **options)
        first = self.take()
        assert first["heartbeat"] == 3600
        assert first.get("resume", "") == self.last_id

    @property
    def resume(self):
        return self.last_id

    def next_text(self):
        before, last = [], self.last_id
        while self.last_id == last:
            block = dict(line.split(": ", 1) for line in self._read_block())
            if "data" in block:
                before.append(json.loads(block["data"]))
            self.last_id = block.get("id", self.last_id)
        assert "data" not in block
        return before

    def request(self, asked):
        head = super().request(asked)
        if self.body is None:
            return head
        return head.replace("GET", "POST", 1).replace(
            "\r\n\r\n",
            f"\r\nContent-Type: application/json\r\nContent-Length: {len(self.body)}"
            f"\r\n\r\n{self.body.decode()}",
        )

    def take(self):
        if not self.read_event():
            return None
        said = json.loads(self.data)
        if "end" in said:
            assert self.event == "end"
        else:
            assert self.event == ("changes" if said.get("changes") else "heartbeat")
        return said

    seqs, end = Many.seqs, Many.end


KINDS = pytest.mark.parametrize("kind", [Many, ManyEvents])


def everything(follower, n):
    """The seqs of the next `n` entries, by set."""
    seqs = {}
    while n > 0:
        name, more = follower.seqs()
        seqs.setdefault(name, []).extend(more)
        n -= len(more)
    assert n == 0
    return seqs


# Which sets


@KINDS
def test_follows_sets_from_their_own_positions(broker, kind):
    a, b, c = (broker.set() for _ in range(3))
    epoch = a.post(3).epoch
    b.post(2)
    c.post(2)
    many = kind(broker, f"set={a.name}%40{epoch}-1&set={b.name}@0&set={c.name}")
    assert [many.seqs(), many.seqs()] == [(a.name, [2, 3]), (b.name, [1, 2])]
    c.post(1)
    a.post(1)
    assert [many.seqs(), many.seqs()] == [(c.name, [3]), (a.name, [4])]


@pytest.mark.parametrize("form", ["json", "xml"])
def test_sends_the_bytes_of_the_streams_of_the_sets(broker, form):
    news = broker.set()
    news.post(3)
    many = Many(broker, f"set={news.name}@0", form=form)
    one = news.websocket("after=0", form)
    one.next()
    one.next()
    assert many.read_text() == one.text


@pytest.mark.parametrize("deflate", [False, True])
def test_adds_moves_and_ends_sets_while_it_runs(broker, deflate):
    a, b = broker.set(), broker.set()
    a.post(2)
    b.post(2)
    many = Many(broker, deflate=deflate)
    many.say(follow=[{"set": a.name, "after": "1"}, {"set": b.name}])
    assert many.seqs() == (a.name, [2])
    many.say(follow=[{"set": a.name, "after": "0"}])
    assert many.seqs() == (a.name, [1, 2])
    many.say(unfollow=[a.name, "nothing"])
    many.say(follow=[{"set": "there-is-no-such-set"}])
    assert many.end() == ("there-is-no-such-set", "unknown")  # so both were heard
    a.post(1)
    b.post(1)
    assert many.seqs() == (b.name, [3])


# The heartbeat of a set that begins at a time says at which entry that is.
def test_begins_at_a_time(broker):
    news = broker.set()
    news.post(2)
    since = news.post(1).datetime
    news.post(2)
    many = Many(broker)
    many.say(follow=[{"set": news.name, "since": since}])
    first = many.take()
    assert (first["set"], first["after"], first["last"]) == (news.name, 3, 3)
    assert many.seqs() == (news.name, [4, 5])


@KINDS
def test_takes_the_filters_of_a_stream(broker, kind):
    a, b = broker.set(), broker.set()
    b.post(1)
    many = kind(broker, f"set={a.name}-*&set={b.name}&change=deleted&set={a.name}*")
    b.post(1)
    b.post_change("http://example.com/r/1", "deleted")
    assert many.seqs() == (b.name, [3])


@KINDS
def test_takes_the_sets_of_a_pattern_and_those_made_later(broker, kind):
    old, other, new = (broker.set(f"{name}-{kind.__name__.lower()}") for name in "abc")
    old.post(3)
    query = f"set=a-{kind.__name__.lower()}&set=*c-{kind.__name__.lower()}*"
    many = kind(broker, query)
    other.post(1)
    new.post(2)
    assert many.seqs() == (new.name, [1, 2])
    old.post(1)
    assert many.seqs() == (old.name, [4])
    new.delete()
    assert many.end() == (new.name, "removed")
    new.post(1)
    assert many.seqs() == (new.name, [1])


def test_begins_all_sets_of_a_pattern_at_their_beginning(broker):
    sets = [broker.set(f"begin-{i}") for i in range(3)]
    for one in sets:
        one.post(2)
    many = Many(broker)
    many.say(follow=[{"set": "begin-*", "after": "0"}])
    assert everything(many, 6) == {one.name: [1, 2] for one in sets}
    many.say(unfollow=["begin-*"])
    many.say(follow=[{"set": sets[0].name}, {"set": "there-is-no-such-set"}])
    assert many.end() == ("there-is-no-such-set", "unknown")  # so both were heard
    broker.set("begin-3").post(1)
    sets[1].post(1)
    sets[0].post(1)
    assert many.seqs() == (sets[0].name, [3])


# The end of one


@KINDS
def test_the_end_of_one_set_ends_no_other(broker, kind):
    a, b, c = (broker.set() for _ in range(3))
    for one in (a, b, c):
        one.post(2)
    epoch = a.get().json()["epoch"]
    many = kind(broker, f"set={a.name}&set={b.name}@{epoch}-1&set={c.name}")
    gone = many.take()
    assert (gone["set"], gone["end"]) == (b.name, "gone")
    head = b.get().json()
    assert (gone["earliest"], gone["last"]) == (head["earliest"], head["position"])
    assert gone["restart"] == f"{b.url}/capabilitylist.xml"
    a.delete()
    assert many.end() == (a.name, "removed")
    c.post(1)
    assert many.seqs() == (c.name, [3])


# Byte for byte: of a private set, of one that the token may not read, and of none.
@pytest.mark.broker("--heartbeat", "3600")
def test_a_set_that_may_not_be_read_is_unknown(start_broker):
    broker = start_broker("--heartbeat", "3600")
    broker.add_token("admin", admin=True)
    texts = {"everyone": None}
    texts["reader"] = broker.add_token("reader", subscribe=["open-*", "none-*", "kept-*"])
    broker.add_token("everyone", subscribe=["open-*", "none-*", "kept-*"])
    broker.set("open-1").post(1)
    kept = broker.set("kept-1")
    kept.create(private=True)
    kept.post(1)
    broker.set("shut-1").post(1)
    names = ["none-1", "kept-1", "shut-1"]
    for who, token in texts.items():
        many = Many(broker.holder(token))
        many.say(follow=[{"set": name, "after": "0"} for name in names])
        # An end may overtake changes, and resume texts come in between.
        said = {many.take()["set"]: many.text for _ in names}
        assert said.keys() == set(names)
        if who == "reader":
            assert json.loads(said.pop("kept-1"))["changes"]
        for name, text in said.items():
            assert text == b'{"set":"%s","end":"unknown"}' % name.encode()
        many.say(follow=[{"set": "*1", "after": "0"}, {"set": f"*-{who}"}])
        assert many.seqs() == ("open-1", [1])
        broker.set(f"kept-{who}").create(private=True)
        broker.set(f"shut-{who}").post(1)
        broker.set(f"open-{who}").post(1)
        assert many.seqs() == (f"open-{who}", [1])
    nobody = start_broker()
    nobody.add_token("admin", admin=True)
    refused = nobody.holder(None).get("/stream", accept="text/event-stream")
    assert refused.status == 401


def test_the_end_of_a_token_ends_the_stream(start_broker):
    broker = start_broker("--heartbeat", "3600")
    broker.add_token("admin", admin=True)
    token = broker.add_token("reader", subscribe=["*"])
    broker.set("a").post(1)
    many = Many(broker.holder(token), "set=a&set=*")
    events = ManyEvents(broker.holder(token), "set=a")
    assert broker.delete("/tokens/reader").status == 204
    assert many.wait_close(4401)
    assert events.wait_end("denied")


def test_says_farewell(start_broker):
    broker = start_broker("--heartbeat", "3600")
    many, events = Many(broker, "set=a*"), ManyEvents(broker, "set=a*")
    broker.terminate()
    assert many.wait_close(1001)
    assert events.wait_end("farewell")


# Hostile clients

REFUSED = {
    "{": 1007,
    "": 1007,
    "[]": 1008,
    '"follow"': 1008,
    "{} {}": 1007,
    '{"follow": {"set": "a"}}': 1008,
    '{"follow": ["a"]}': 1008,
    '{"follow": [{}]}': 1008,
    '{"follow": [{"set": "A"}]}': 1008,
    '{"follow": [{"set": 7}]}': 1008,
    '{"follow": [{"set": "a", "after": "x"}]}': 1008,
    '{"follow": [{"set": "a", "after": 7}]}': 1008,
    '{"follow": [{"set": "a", "since": "x"}]}': 1008,
    '{"follow": [{"set": "a", "after": "0", "since": "2026"}]}': 1008,
    '{"follow": [{"set": "a*", "after": "1"}]}': 1008,
    '{"follow": [{"set": "!a*"}]}': 1008,
    '{"follow": [{"set": "a", "before": "1"}]}': 1008,
    '{"unfollow": "a"}': 1008,
    '{"unfollow": [["a"]]}': 1008,
    '{"folow": []}': 1008,
    '{"follow": [{"set": "\\ud800"}]}': 1008,
    "[" * 100: 1008,
}


@pytest.mark.parametrize("deflate", [False, True])
def test_a_malformed_message_closes_the_stream(broker, deflate):
    for text, code in REFUSED.items():
        many = Many(broker, deflate=deflate)
        many.protocol.send_text(text.encode())
        many.flush()
        close = many.wait_close()
        assert close.code == code, (text, close)
        assert close.reason


def test_a_malformed_request_is_refused(broker):
    accept = {"accept": "text/event-stream"}
    for text in REFUSED:
        if text:
            check_refused(broker.post("/stream", text.encode(), JSON, **accept), 400)
    for query in ("set=A", "set=a@x", "set=a@", "set=%zz", "set=a*@1", "set=", "type=/"):
        check_refused(broker.get(f"/stream?{query}", **accept), 400)
    check_refused(broker.get("/stream", accept=JSON), 426)
    check_refused(broker.post("/stream", b"{}", JSON, accept=JSON), 426)
    check_refused(broker.post("/stream", b"{}", "text/plain", **accept), 415)
    large = b" " * 262145
    check_refused(broker.post("/stream", large, JSON, **accept), 413)
    assert broker.head("/stream?set=a", **accept).status == 200


def test_a_message_has_a_limit(broker):
    def close_of(*frames, deflate=False):
        many = Many(broker, deflate=deflate)
        for opcode, payload, fin in frames:
            many.send_frame(opcode, payload, fin)
        return many.wait_close().code

    half = b" " * 150000
    assert close_of((Opcode.TEXT, half, False), (Opcode.CONT, half, True)) == 1009
    assert close_of((Opcode.BINARY, b"{}", True)) == 1008
    assert close_of((Opcode.TEXT, b"{\xff", False)) == 1007
    bomb = Many(broker, deflate=True)
    bomb.protocol.send_text(b" " * 10000000)
    bomb.flush()
    assert bomb.wait_close().code == 1009
    many = Many(broker)
    many.send_frame(Opcode.TEXT, b" " * 200000, False)
    many.send_frame(Opcode.PING, b"here")
    many.send_frame(Opcode.CONT, b'{"follow": [{"set": "no-such', False)
    many.send_frame(Opcode.CONT, b'-set"}]}', True)
    assert many.end() == ("no-such-set", "unknown")


@pytest.mark.broker("--heartbeat", "3600", "--client-followed", "3")
def test_a_client_has_its_share_of_sets(broker):
    accept = {"accept": "text/event-stream"}
    many = Many(broker, "set=a&set=b")
    assert [many.end()[0], many.end()[0]] == ["a", "b"]  # these count no more
    for name in ("s1", "s2", "s3", "s4"):
        broker.set(name).post(1)
    other = Many(broker, "set=s1&set=s2")
    check_refused(broker.get("/stream?set=s1&set=s2", **accept), 429, "--client-followed")
    many.say(follow=[{"set": "s3"}, {"set": "s4"}])
    assert many.wait_close(1008).reason
    other.say(follow=[{"set": "s3*"}])
    broker.set("s33").post(1)
    assert other.wait_close(1008).reason
    other.leave()
    Many(broker, "set=s1&set=s2&set=s3").leave()


# Crowds

SETS = 1000
ROUNDS = soak(20, 1000)


@pytest.fixture
def crowd(broker):
    return [broker.set(f"crowd-{i}") for i in range(SETS)]


# Each change once, in order, whatever the way in which the sets are named.
def test_follows_a_thousand_sets(broker, crowd):
    for one in crowd:
        one.post(2)
    follow = [{"set": one.name, "after": "1"} for one in crowd]
    many = Many(broker)
    many.say(follow=follow)
    posted = ManyEvents(broker, body={"follow": follow})
    pattern = Many(broker, "set=crowd-*")
    for follower in (many, posted):
        assert everything(follower, SETS) == {one.name: [2] for one in crowd}
    for _ in range(ROUNDS):
        for one in crowd[:: SETS // 50]:
            one.post(1)
    wanted = {one.name: list(range(3, 3 + ROUNDS)) for one in crowd[:: SETS // 50]}
    for follower in (many, posted, pattern):
        assert everything(follower, 50 * ROUNDS) == wanted


# A client that does not read for a long time has one message of a busy set in its way,
# and gets everything.
def test_a_busy_set_holds_up_no_other(broker):
    busy, quiet = broker.set(), broker.set()
    busy.post(1)
    quiet.post(1)
    many = Many(broker, f"set={busy.name}&set={quiet.name}", narrow=True)
    for _ in range(soak(40, 400)):
        busy.post(4, size=60000)
    quiet.post(1)
    while many.seqs()[0] != quiet.name:
        assert many.said["last"] < busy.posted
    last = 0
    while last < busy.posted:
        many.take()
        last = many.said["last"]


# Of sets whose changes are no longer in memory, a few at a time are read from the disk.
@KINDS
@pytest.mark.broker("--heartbeat", "3600", "--tail-bytes", "1M")
def test_reads_old_changes_from_the_disk(broker, kind):
    old = [broker.set() for _ in range(30)]
    for one in old:
        one.post(4, size=60000)
    query = "&".join(f"set={one.name}@0" for one in old)
    many = kind(broker, query, narrow=True)
    assert everything(many, 120) == {one.name: [1, 2, 3, 4] for one in old}
    filtered = kind(broker, f"{query}&change=deleted")
    for one in old[::7]:
        one.post_change("http://example.com/r/1", "deleted")
    assert everything(filtered, 5) == {one.name: [5] for one in old[::7]}


# The resume text


def again(follower, query="", **options):
    """Leave, and connect again with the last resume text."""
    follower.leave()
    if isinstance(follower, ManyEvents):
        return ManyEvents(follower.broker, query, last_id=follower.resume, **options)
    return Many(follower.broker, f"{query}&resume={follower.resume}", **options)


# event-source-polyfill has the text in the URL.
def test_a_text_resumes_all_sets_as_last_event_id_of_a_polyfill(broker):
    one = broker.set()
    one.post(2)
    many = ManyEvents(broker, f"set={one.name}@0")
    assert len(many.next_text()) == 1
    one.post(1)
    many.leave()
    query = f"set={one.name}@0&resume=x&lastEventId={many.resume}"
    assert everything(ManyEvents(broker, query), 1) == {one.name: [3]}


@KINDS
def test_a_text_resumes_all_sets(broker, kind):
    a, b, c = sets = [broker.set() for _ in range(3)]
    for one in sets:
        one.post(2)
    # The text wins over the positions of the URL, which a browser repeats.
    query = f"set={a.name}@0&set={b.name}@1&set={c.name}"
    many = kind(broker, query)
    assert len(many.next_text()) == 2
    c.post(1)
    assert many.next_text()[0]["after"] == 2
    for one in sets:
        one.post(2)
    many = again(many, query)
    found = everything(many, 6)
    assert found == {a.name: [3, 4], b.name: [3, 4], c.name: [4, 5]}
    assert not many.next_text()


# In JSON a position wins: a client that has one knows more than the text.
def test_a_text_in_a_message(broker):
    a, b = broker.set(), broker.set()
    a.post(2)
    b.post(2)
    many = Many(broker, f"set={a.name}@0&set={b.name}@0")
    assert len(many.next_text()) == 2
    a.post(2)
    b.post(2)
    other = Many(broker)
    follow = [{"set": a.name, "after": "1"}, {"set": b.name}]
    other.say(follow=follow, resume=many.resume)
    assert everything(other, 5) == {a.name: [2, 3, 4], b.name: [3, 4]}
    events = ManyEvents(broker, body={"follow": follow[1:], "resume": many.resume})
    assert events.seqs() == (b.name, [3, 4])


@KINDS
def test_a_text_starts_nothing_anew(broker, kind):
    prefix = f"re-{kind.__name__.lower()}-"
    kept, gone, fresh, unnamed = (broker.set(prefix + name) for name in "abcd")
    kept.post(2)
    gone.post(2)
    unnamed.post(2)
    query = f"set={prefix}*"
    many = kind(broker, f"{query}&set={kept.name}@0")
    assert len(many.next_text()) == 1
    kept.post(1)
    gone.delete()
    gone.post(3)
    fresh.post(2)
    one_by_one = "&".join(f"set={one.name}" for one in (kept, gone, fresh))
    named = again(many, one_by_one)
    assert [named.seqs()] == [(kept.name, [3])]
    assert [named.end(), named.end()] == [(gone.name, "gone"), (fresh.name, "gone")]
    by_pattern = again(many, query)
    found = everything(by_pattern, 1 + 3 + 2)
    assert found == {kept.name: [3], gone.name: [1, 2, 3], fresh.name: [1, 2]}


def test_refuses_damaged_and_foreign_texts(broker, start_broker):
    other = start_broker("--heartbeat", "3600")
    other.set("a").post(1)
    foreign = Many(other, "set=a@0")
    foreign.next_text()
    accept = {"accept": "text/event-stream"}
    for text in ("x", "gone", foreign.resume, "x" * 7169, "%00"):
        check_refused(broker.get(f"/stream?set=a&resume={text}", **accept), 400)
        check_refused(broker.get("/stream?set=a", last_event_id=text, **accept), 400)
        in_url = f"/stream?set=a&lastEventId={text}"
        check_refused(broker.get(in_url, **accept), 400)
        many = Many(broker)
        many.say(follow=[{"set": "a"}], resume=text)
        assert many.wait_close(1008).reason.startswith("resume: ")


# Each change once, in order: sets get posts while the network and the broker break. What
# a client gets again, because no text came for it, it knows by `after`.
def test_resumes_a_thousand_sets_through_kills(start_broker):
    chance = choices()
    broker = start_broker("--heartbeat", "1")
    sets = [broker.set(f"kill-{i}") for i in range(SETS)]
    posted = dict.fromkeys((one.name for one in sets), 1)
    for one in sets:
        one.post(1)
    many = Many(broker, "set=kill-*", heartbeat=1)
    has = dict(posted)
    again_seen = 0

    each = soak(1, 50)

    def post(n):
        for one in chance.choices(sets, k=n):
            one.post(each)
            posted[one.name] += each

    def take():
        nonlocal again_seen
        said = many.take()
        for change in said.get("changes", ()):
            if change["seq"] > has[said["set"]]:
                assert change["seq"] == has[said["set"]] + 1, said
                has[said["set"]] += 1
            else:
                again_seen += 1

    for i in range(soak(8, 200)):
        post(100)
        for _ in range(chance.randrange(60)):
            take()
        if i % 3 == 1:
            broker.kill()
            many.leave()
            broker.start()
            broker.disconnect()
            post(50)
        many = again(many, "set=kill-*", heartbeat=1)
    while has != posted:
        take()
    assert again_seen < sum(posted.values())


def test_is_offered_where_clients_look(broker):
    broker.set("offered").post(1)
    page = broker.get("/sets")
    assert page.json()["stream"] == f"{broker.url}/stream"
