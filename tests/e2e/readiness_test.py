"""/healthz answers while the process runs; /readyz states that the broker takes posts,
or why it does not. A full disk: tests/crash."""

import sqlite3

from tidings_test.http import check_refused
from tidings_test.waiting import wait_for


def wait_status(broker, path, status):
    """Wait until a GET has that status; the answer."""

    def look():
        answer = broker.get(path)
        return answer.status == status and answer

    return wait_for(f"{path} with {status}", look)


def test_a_broker_that_is_well_is_ready(broker):
    for path, text in (("/readyz", "ready\n"), ("/healthz", "ok\n")):
        answer = broker.get(path)
        assert (answer.status, answer.text) == (200, text)
        assert answer["Content-Type"] == "text/plain"
    assert broker.head("/readyz").status == 200
    assert broker.post("/readyz", "x", "text/plain").status == 405


# The log only grows while closed lists cannot be written to their files.
def test_a_broker_that_cannot_write_lists_is_not_ready(start_broker):
    broker = start_broker("--threads", "1")
    in_the_way = broker.data / "sets"
    in_the_way.write_text("in the way")
    news = broker.set()
    news.post(2)
    news.rotate()

    answer = wait_status(broker, "/readyz", 503)
    check_refused(answer, 503, "cannot be written to their files")
    assert answer["Retry-After"] == "1"
    problem = answer.json()
    assert problem["detail"] == f"not ready: {problem['reasons'][0]}"
    for_reads = broker.get("/readyz?for=reads")
    assert for_reads.status == 200
    assert for_reads.text == f"ready\nwarning: {problem['reasons'][0]}\n"
    assert broker.get("/healthz").status == 200

    in_the_way.unlink()
    wait_status(broker, "/readyz", 200)
    wait_for("the file", news.list_file(1).exists)


# R-135; log.md, Times: /readyz warns of a last time that is ahead of the clock. The
# broker takes posts all the same, in order.
def test_a_clock_behind_the_log_is_a_warning(start_broker):
    broker = start_broker("--threads", "1")
    news = broker.set()
    before = news.post(2)
    broker.stop()
    log = sqlite3.connect(broker.data / "tidings.db")
    hour = "last_us = last_us + 3600500000"
    last = "id = (SELECT max(id) FROM batches)"
    assert log.execute(f"UPDATE batches SET {hour} WHERE {last}").rowcount == 1
    log.commit()
    log.close()
    broker.restart()

    answer = broker.get("/readyz")
    assert answer.status == 200
    assert answer.text.startswith("ready\nwarning: the last event time is 3")
    after = news.post()
    assert after.last == 3
    assert after.datetime > before.datetime
    assert broker.get("/readyz").status == 200


def ask_until_closed(connection):
    """Ask for /readyz until the answer is not 200, or the last of its connection."""
    while True:
        answer = connection.request("/readyz")
        if answer.status != 200 or answer["Connection"] == "close":
            return answer


# A broker that ends says so on the connections that it still has; but not to an
# EventSource, which would never connect again (HTML, 9.2.3).
def test_a_broker_that_ends_is_not_ready(start_broker):
    broker = start_broker("--threads", "1")
    with (
        broker.set().start_post(),
        broker.connect() as one,
        broker.connect() as two,
        broker.connect() as page,
    ):
        for asks in (one, two, page):
            assert asks.request("/readyz").status == 200
        # A post that is not whole holds up the end.
        taken = "tidings_ingest_bytes"
        wait_for("a byte of the post", lambda: broker.metrics()[taken] >= 1)
        broker.terminate()
        asks = one
        answer = ask_until_closed(asks)
        if answer.status == 200:  # the end began between the question and the answer
            asks = two
            answer = asks.request("/readyz")
        check_refused(answer, 503)
        assert answer.json()["detail"] == "the server is stopping"
        assert answer["Connection"] == "close"
        assert asks.read_all() == b""
        answer = page.request("/sets/a/stream", accept="text/event-stream")
        assert (answer.status, answer.body) == (200, b"retry: 1000\n\n")
    assert broker.wait() == 0
