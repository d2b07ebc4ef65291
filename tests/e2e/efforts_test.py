"""Requests of long work: what they cost is bounded, clients take turns at it, other requests
do not wait for it, and it ends with its client (doc/http.md)."""

import os
import re
import select
import time

import pytest

from tidings_test.negentropy import END, FINGERPRINT, LIST, write
from tidings_test.sets import change
from tidings_test.waiting import wait_for

BYTES = "application/octet-stream"
MANY = 30000  # resources: all of them once are some 100 ms of work
MOST = 48  # requests of a client, with --client-share 25
WEEK_S = 7 * 86400
PATIENCE_S = 20  # while it makes the records


@pytest.fixture
def news(start_broker):
    broker = start_broker("--threads", "2", "--client-share", "25", "--checkpoint-every", "1")
    news = broker.set()
    for first in range(0, MANY, 2500):
        entries = [change(f"http://example.com/{n}") for n in range(first, first + 2500)]
        news.receipt(news.send(entries))
    # What the broker makes of itself is not what a request costs.
    ids = f"{news.path}/reconcile", b"a", BYTES
    wait_for("the ids", lambda: broker.post(*ids).status == 200)
    tree = f"{news.path}/checkpoint"
    wait_for("the tree", lambda: f"\n{MANY}\n".encode() in broker.get(tree).body)
    return news


# Each row of documents and routes that says so, and requests that cost most.
def ranges(n, mode, payload):
    bounds = ((0, (i * (2**32 // n)).to_bytes(4, "big")) for i in range(1, n))
    return write([(bound, mode, payload) for bound in (*bounds, END)])


LONG = {
    "GET, HEAD /sets/{set}/resources": ("resources",),
    "GET, HEAD /sets/{set}/oai": ("oai?verb=ListRecords&metadataPrefix=oai_dc",),
    "POST /sets/{set}/oai": ("oai?verb=Identify",),
    "POST /sets/{set}/reconcile": (
        *(("reconcile", ranges(n, FINGERPRINT, b"x" * 16)) for n in (80, 180, 10900)),
        ("reconcile", ranges(16000, LIST, [])),
    ),
    "/sets/{set}/checkpoint": ("checkpoint",),
    "/sets/{set}/tile/{tile}": ("tile/0/000",),
    "/sets/{set}/proof": ("proof?seq=1",),
    "/sets/{set}/{epoch}/checkpoint": ("{epoch}/checkpoint",),
    "/sets/{set}/{epoch}/tile/{tile}": ("{epoch}/tile/0/000",),
    "/sets/{set}/{epoch}/proof": ("{epoch}/proof?seq=1",),
}


def test_names_all_long_work(run):
    printed = run("tidingsd", "--routes").output()
    routes = re.findall(r"^\| (\S.*?) `(\S+)` \|.*long work \|$", printed, re.M)
    documents = re.findall(r"^\| `(\S+)` .*\(long work\) \|$", printed, re.M)
    assert [*(" ".join(route) for route in routes), *documents] == list(LONG)


def ask(news, row, request):
    """The answer to a request of LONG."""
    target, *body = request if isinstance(request, tuple) else (request,)
    if "{epoch}" in target:
        target = target.replace("{epoch}", news.state()["epoch"])
    method = "POST" if row.startswith("POST") else "GET"
    form = (b"", "application/x-www-form-urlencoded") if method == "POST" else (None, None)
    if target.startswith("oai?") and method == "POST":
        target, query = target.split("?")
        form = (query, form[1])
    body, type = (body[0], BYTES) if body else form
    return news.broker.request(method, f"{news.path}/{target}", body, type)


# A message of thousands of ranges, of which each walked to the end of the table, took
# minutes of a processor.
@pytest.mark.parametrize("row", LONG)
def test_costs_what_its_answer_is_worth(news, row):
    for request in LONG[row]:
        before = news.broker.process.cpu_seconds()
        answer = ask(news, row, request)
        assert answer.status == 200, answer
        assert news.broker.process.cpu_seconds() - before < 10  # 1 s on a fast machine


def begin(news, client):
    """A request for all resources of the set."""
    connection = news.broker.connect(client=client)
    connection.ask(f"{news.path}/resources")
    return connection


def are_answered(connections):
    """How many have their answer, or a part of it."""
    return len(select.select(connections, [], [], 0)[0])


def test_clients_take_turns_and_others_do_not_wait(news):
    many = [begin(news, "127.0.0.2") for _ in range(MOST)]
    wait_for("the first answer", lambda: are_answered([c.socket for c in many]))
    with begin(news, "127.0.0.3") as other:
        assert other.answer_head().status == 200
    assert news.post_change("http://example.com/0", "updated").last == MANY + 1
    assert news.broker.get("/metrics").status == 200
    assert are_answered([c.socket for c in many]) < MOST
    for connection in many:
        assert connection.answer().status == 200
        connection.close()


# Each of these would be worked on for nobody. Some have begun when their client goes, and
# what begins costs a part of it: on two processors all of them a tenth to a quarter.
def test_ends_with_its_client(news):
    before = news.broker.process.cpu_seconds()
    with begin(news, "127.0.0.3") as connection:
        assert connection.answer().status == 200
    one = news.broker.process.cpu_seconds() - before
    for _ in range(MOST):
        begin(news, "127.0.0.2").close()
    with begin(news, "127.0.0.2") as connection:
        assert connection.answer().status == 200
    assert news.broker.process.cpu_seconds() - before < MOST / 2 * one


def read_records(news):
    """Ask for the first records; on a slow machine again, after the broker has waited."""
    path = f"{news.path}/oai?verb=ListIdentifiers&metadataPrefix=oai_dc"
    begin = time.monotonic()
    while (answer := news.broker.get(path)).status == 503:
        waited_s = time.monotonic() - begin
        assert waited_s > PATIENCE_S - 1 or b"are being deleted" in answer.body, answer
        begin = time.monotonic()
    assert answer.status == 200


# Records of OAI-PMH are made in turns, while the harvester waits, and go when nobody has
# asked for a week.
def test_records_come_in_turns_and_go_unasked(news):
    read_records(news)
    (file,) = news.broker.data.glob("sets/*/oai.db")
    news.broker.stop()
    asked_s = file.stat().st_mtime
    os.utime(file, (asked_s - WEEK_S - 1, asked_s - WEEK_S - 1))
    news.broker.start()
    wait_for("the end of the records", lambda: not file.exists())
    read_records(news)
    assert file.stat().st_mtime >= asked_s
