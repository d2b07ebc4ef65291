"""Limits of a token: what its owner uses up costs nobody else, wherever its requests
come from."""

import time

import pytest

from tidings_test.broker import ROOT
from tidings_test.http import JSON, check_refused

def test_the_page_has_the_table_of_limits(run):
    table = run("tidingsd", "--limits").output()
    assert table in (ROOT / "doc/security.md").read_text(), table


ENTRY = '{"loc":"http://example.com/a","change":"updated"}'
OTHERS = 20


class Crowd:
    """A broker with a token for each of many owners, all of one address."""

    def __init__(self, broker):
        self.broker = broker
        broker.add_token("root", admin=True)
        every = {right: ["*"] for right in ("publish", "subscribe", "manage")}
        names = ["greedy", *(f"other{i}" for i in range(OTHERS))]
        self.fields = {
            name: f"Bearer {broker.add_token(name, **every)}" for name in names
        }
        for name in names:
            field = {"authorization": self.fields[name]}
            assert broker.put(f"/sets/{name}", {}, **field).status == 201

    def post(self, name, body=ENTRY, **fields):
        field = self.fields[name]
        path = f"/sets/{name}/changes"
        return self.broker.post(path, body, JSON, authorization=field, **fields)

    def check_others(self):
        for name in self.fields:
            if name != "greedy":
                assert self.post(name).status == 200, name


def post_until_refused(crowd, body, **fields):
    """How many posts were taken, and the answer to the one that was not."""
    for taken in range(1000):
        answer = crowd.post("greedy", body, **fields)
        if answer.status != 200:
            check_refused(answer, 429)
            return taken, answer
    raise AssertionError("1000 posts were taken")


LARGE = f'{{"changes":[{",".join(30 * [ENTRY])}]}}'

# option, value, policy, a body, seconds that it costs
RATES = (
    ("--client-post-rate", "1", '"posts"', ENTRY, 1),
    ("--client-byte-rate", "1K", '"bytes"', LARGE, len(LARGE) / 1024),
)


@pytest.mark.parametrize("option, value, policy, body, cost", RATES)
def test_a_rate_is_that_of_one_owner(start_broker, option, value, policy, body, cost):
    crowd = Crowd(start_broker(option, value))
    _, refused = post_until_refused(crowd, body)
    since = time.monotonic()
    assert int(refused["Retry-After"]) > 0
    assert refused["RateLimit"].startswith(f"{policy};r=0;t=")
    assert refused["RateLimit-Policy"].startswith(f"{policy};q=")
    crowd.check_others()
    # Neither another connection nor another address that it claims helps. Only time
    # does, of which a slow machine may take some.
    crowd.broker.disconnect()
    taken, _ = post_until_refused(crowd, body, x_forwarded_for="192.0.2.9")
    assert (taken - 1) * cost < time.monotonic() - since
    label = "post-rate" if "post" in option else "byte-rate"
    name = f'tidings_client_refusals_total{{limit="{label}"}}'
    assert f"{name} 2" in crowd.broker.get("/metrics").text


def test_streams_count_for_their_owner(start_broker):
    crowd = Crowd(start_broker("--client-streams", "2"))
    broker = crowd.broker
    streams = []
    for name in ("greedy", "greedy", "other1", "other2"):
        stream = broker.connect()
        streams.append(stream)
        fields = {"accept": "text/event-stream", "authorization": crowd.fields[name]}
        stream.ask(f"/sets/{name}/stream", **fields)
        assert stream.answer_head().status == 200, name
    with broker.connect() as stream:
        fields = {
            "accept": "text/event-stream",
            "authorization": crowd.fields["greedy"],
        }
        answer = stream.request("/sets/greedy/stream", **fields)
        check_refused(answer, 429, "your token")
    for stream in streams:
        stream.close()


def check_counted(broker, limit):
    metrics = broker.get("/metrics").text
    assert f'tidings_client_refusals_total{{limit="{limit}"}} ' in metrics
    assert f'tidings_client_refusals_total{{limit="{limit}"}} 0' not in metrics


def check_no_more_sets(crowd):
    """Each way to a new set is closed to the greedy owner, and open to the others."""
    broker = crowd.broker
    field = {"authorization": crowd.fields["greedy"]}
    lines = "application/x-ndjson"
    ways = (
        broker.put("/sets/more", {}, **field),
        broker.post("/sets/more/changes", ENTRY, JSON, **field),
        broker.put("/sets/more/resources", '{"loc":"http://example.com/a"}', lines, **field),
    )
    for answer in ways:
        check_refused(answer, 429, "your token has created as many sets")
    assert broker.get("/sets/more", **field).status == 404


def test_sets_count_for_their_owner(start_broker):
    crowd = Crowd(start_broker("--client-sets", "3"))
    broker = crowd.broker
    field = {"authorization": crowd.fields["greedy"]}
    for name in ("a", "b"):
        assert broker.post(f"/sets/{name}/changes", ENTRY, JSON, **field).status == 200
    check_no_more_sets(crowd)
    assert crowd.post("greedy").status == 200
    assert broker.put("/sets/a", {"title": "A"}, **field).status == 200
    for name, other in crowd.fields.items():
        if name != "greedy":
            path = f"/sets/{name}-2/changes"
            assert broker.post(path, ENTRY, JSON, authorization=other).status == 200
    check_counted(broker, "sets")

    broker.kill()
    broker.start()
    check_no_more_sets(crowd)
    # Whoever deletes the set, its creator gets the place back.
    other = {"authorization": crowd.fields["other1"]}
    assert broker.request("DELETE", "/sets/a", **other).status == 204
    assert broker.put("/sets/more", {}, **field).status == 201


def test_idempotency_keys_count_for_their_owner(start_broker):
    crowd = Crowd(start_broker("--client-keys", "2"))
    for key in ("k1", "k2", "k1"):
        assert crowd.post("greedy", idempotency_key=key).status == 200
    refused = crowd.post("greedy", idempotency_key="k3")
    check_refused(refused, 429, "your token has posted with as many Idempotency-Keys")
    assert crowd.post("greedy").status == 200
    for name in crowd.fields:
        if name != "greedy":
            assert crowd.post(name, idempotency_key="k3").status == 200, name
    check_counted(crowd.broker, "keys")
