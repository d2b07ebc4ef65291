"""What is under way for a token at one broker of a cluster ends when another broker
revokes it."""

from tidings_test.http import JSON, NDJSON
from tidings_test.sets import change
from tidings_test.stream import UPGRADE
from tidings_test.waiting import wait_for

HALVES = (
    ("POST", "/sets/news/changes", [change("http://example.com/a")], JSON),
    ("PUT", "/sets/born", {"rotateEntries": 70}, JSON),
    ("PATCH", "/sets/news", {"rotateEntries": 70}, JSON),
    ("PUT", "/sets/news/resources", '{"loc":"http://example.com/b"}', NDJSON),
    ("PUT", "/relays/born", {"topic": "http://b.example/t"}, JSON),
    ("POST", "/tokens/spare/rotate", "as curl sends it", None),
)
MAKING = ("POST", "/tokens", {"name": "born", "admin": True}, JSON)


def start(broker, method, path, body, type, **fields):
    """A request of which the last byte is missing, and that byte."""
    connection = broker.connect()
    fields["content_type"] = type
    whole = connection.request_bytes(path, method, body, **fields)
    connection.send(whole[:-1])
    return connection, whole[-1:]


def check_unauthorized(connection):
    answer = connection.answer()
    assert answer.status == 401, answer


def test_what_is_under_way_ends_at_all_brokers(start_cluster):
    cluster = start_cluster()
    a, b, _ = cluster.members
    a.set("news").post(2)
    b.set("news").wait_last(2)
    a.add_token("root", admin=True)
    a.add_token("spare", observe=True)
    token = a.add_token("one", admin=True)
    theirs = b.holder(token)
    wait_for("the token at b", lambda: theirs.get("/tokens/self").status == 200)

    bearer = {"authorization": f"Bearer {token}"}
    halves = [start(b, *half, **bearer) for half in HALVES]
    making, rest = start(b, *MAKING, **bearer)
    poll, stream = b.connect(), b.connect()
    poll.ask("/sets/news/changes?after=2&wait=300", **bearer)
    stream.ask("/sets/news/stream", **bearer, **UPGRADE)
    assert stream.answer_head().status == 101
    b.wait_threads()
    assert a.delete("/tokens/one").status == 204

    # A change of tokens knows at once: it reads those of the others first.
    making.send(rest)
    check_unauthorized(making)
    check_unauthorized(poll)
    stream.read_until(b"the token has ended")
    for connection, _ in halves:
        check_unauthorized(connection)
    names = [each["name"] for each in a.get("/tokens").json()["tokens"]]
    assert names == ["root", "spare"]
    assert [each["name"] for each in a.get("/sets").json()["sets"]] == ["news"]
    assert a.set("news").state()["last"] == 2
    assert a.get("/relays").json()["relays"] == []
