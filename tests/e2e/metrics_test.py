"""The answer to GET /metrics of a busy broker. Every answer is read strictly
(tidings_test/metrics.py)."""

import math

from tidings_test.http import NDJSON, as_bytes, check_refused
from tidings_test.sets import entries
from tidings_test.waiting import wait_for

LATENCY = "tidings_push_latency_seconds"


def by(transport, metric):
    """The series of a metric for one transport."""
    return f'{metric}{{transport="{transport}"}}'


def check(metrics, **values):
    """The metrics have these values; names are without "tidings_"."""
    found = {name: metrics[f"tidings_{name}"] for name in values}
    assert found == values


def wait(broker, series, least=0, most=math.inf):
    """Wait until the series has a value in that range; all metrics of that moment."""

    def look():
        metrics = broker.metrics()
        return least <= metrics[series] <= most and metrics

    return wait_for(f"{series} between {least} and {most}", look)


def test_posts_and_entries_are_counted_and_refusals_by_their_status(start_broker, run):
    broker = start_broker("--max-body", "64K")
    news = broker.set()
    news.post(3)
    news.post(2)
    assert news.send("{").status == 400
    assert news.send('{"loc":"x"}').status == 422
    assert news.send("x", "text/css").status == 415
    assert broker.get("/nowhere").status == 404
    for chunk, status in (("x\r\n", 400), (f"10001\r\n{' ' * 0x10001}\r\n", 413)):
        with broker.connect() as connection:
            chunked = {"content_type": NDJSON, "transfer_encoding": "chunked"}
            connection.ask(news.changes, "POST", **chunked)
            connection.send(chunk)
            assert connection.answer().status == status
    with news.start_post():
        wait(broker, "tidings_ingest_bytes", least=1)
    wait(broker, "tidings_posts_incomplete_total", least=1)
    now = wait(broker, "tidings_ingest_bytes", most=0)

    version = run("tidingsd", "--version").out[0].removeprefix("tidingsd ")
    assert now[f'tidings_build_info{{version="{version}"}}'] == 1
    rejected = 'tidings_posts_rejected_total{{code="{}"}}'.format
    counted = [now[rejected(code)] for code in (400, 413, 422, 415, 404)]
    assert counted == [2, 1, 1, 1, 0]
    assert now['tidings_http_responses_total{code="404"}'] == 1
    check(
        now,
        posts_total=2,
        entries_total=5,
        posts_incomplete_total=1,
        commit_duration_seconds_count=2,
        commits_failed_total=0,
        log_has_room=1,
        log_ahead_seconds=0,
        sets=1,
        ingest_limit_bytes=256 << 20,
        tail_limit_bytes=64 << 20,
    )
    assert now["tidings_commit_duration_seconds_sum"] > 0
    assert now["tidings_tail_bytes"] > 5 * 80
    assert now["tidings_wal_bytes"] > 0


# A post that is cut off in its middle counts as refused, and as nothing else.
def test_posts_that_are_too_slow_are_counted_as_refused(start_broker):
    broker = start_broker("--request-timeout", "0.5", "--min-rate", "1K")
    with broker.set().start_post() as connection:
        assert connection.answer().status == 408
    now = broker.metrics()
    assert now['tidings_posts_rejected_total{code="408"}'] == 1
    check(now, posts_incomplete_total=0, ingest_bytes=0)


def is_every_failure_logged(metrics):
    """True if the broker has logged the first failure to file a list, and each fold
    that failed, or left it out as one of many."""
    warnings = sum(
        metrics[f'tidings_diagnostics_{what}total{{level="warning"}}']
        for what in ("", "suppressed_")
    )
    return warnings == 1 + metrics["tidings_folds_failed_total"]


def test_lists_are_counted_when_they_close_and_when_they_are_filed(start_broker):
    broker = start_broker("--rotate-entries", "3")
    in_the_way = broker.data / "sets"  # neither lists nor the state get files
    in_the_way.write_text("in the way")
    broker.set().post(7)
    now = wait(broker, "tidings_list_files_failed_total", least=1)
    check(now, lists_closed_total=2, list_files_written_total=0)
    wait(broker, "tidings_folds_failed_total", least=1)
    wait_for("the warnings", lambda: is_every_failure_logged(broker.metrics()))

    in_the_way.unlink()
    now = wait(broker, "tidings_list_files_written_total", least=2)
    check(now, lists_closed_total=2, list_files_written_total=2)


# The latency is that from the commit to the socket, of subscribers who were there.
def test_messages_to_subscribers_are_counted_and_timed(start_broker):
    broker = start_broker("--heartbeat", "3600")
    news = broker.set()
    news.post()
    subscribers = by("websocket-xml", "tidings_subscribers")
    sent = by("websocket-xml", "tidings_messages_sent_total")
    live = news.websocket(form="xml")
    now = wait(broker, sent, least=1)
    assert now[subscribers] == 1
    assert now[by("websocket-json", "tidings_subscribers")] == 0
    assert now[f"{LATENCY}_count"] == 0  # a heartbeat

    news.post(4)
    now = wait(broker, f"{LATENCY}_count", least=1)
    assert (now[sent], now[f"{LATENCY}_count"]) == (2, 1)
    assert now[f"{LATENCY}_sum"] > 0

    # Later subscribers get the same entries, but those have no latency.
    late = news.websocket("after=0", form="xml").until(5)
    now = wait(broker, sent, least=4)
    assert (now[subscribers], now[f"{LATENCY}_count"]) == (2, 1)
    live.leave()
    late.leave()
    wait(broker, subscribers, most=0)


def test_a_subscriber_that_does_not_read_lags_until_it_reads(start_broker):
    broker = start_broker("--threads", "1")
    news = broker.set()
    news.post()
    lag = by("websocket-xml", "tidings_subscriber_lag_entries")
    lag_max = by("websocket-xml", "tidings_subscriber_lag_max_entries")
    slow = news.websocket("after=0", form="xml", narrow=True)
    for _ in range(10):
        news.post(100, size=10000)
    now = wait(broker, lag, least=100)
    assert now[lag_max] == now[lag]
    assert now[by("websocket-json", "tidings_subscriber_lag_entries")] == 0

    slow.until(news.posted)
    assert wait(broker, lag, most=0)[lag_max] == 0
    slow.leave()


def test_connections_and_bytes_are_counted(start_broker):
    broker = start_broker("--threads", "2")
    accepted, now_open = "tidings_connections_accepted_total", "tidings_connections"
    before = broker.metrics()
    connections = [broker.connect() for _ in range(3)]
    wait(broker, accepted, least=before[accepted] + 3)
    now = broker.metrics()  # a connection may have come between the two samples
    assert now[accepted] == before[accepted] + 3
    assert now[now_open] == before[now_open] + 3
    for connection in connections:
        connection.close()
    wait(broker, now_open, most=before[now_open])

    body = as_bytes(entries(100, size=1000))
    before = broker.metrics()
    assert broker.set().send(body).status == 200
    now = broker.metrics()
    received, sent = "tidings_received_bytes_total", "tidings_sent_bytes_total"
    assert now[received] == before[received] + len(body)
    assert now[sent] > before[sent] + 10000


# An event stream is one answer, and its subscriber has a transport of its own.
def test_event_streams_are_counted(start_broker):
    broker = start_broker("--heartbeat", "3600", "--insecure-open")  # for HTTP/1.0
    news = broker.set()
    news.post(3)
    answered = 'tidings_http_responses_total{code="200"}'
    before = broker.metrics()[answered]
    events = news.events("after=0").until(3)
    old = news.events(version="1.0")
    old.next()
    now = broker.metrics()
    assert now[answered] == before + 3  # with the first /metrics
    transports = ("eventsource", "eventsource-1.0")
    subscribers = [by(each, "tidings_subscribers") for each in transports]
    sent = [by(each, "tidings_messages_sent_total") for each in transports]
    assert [now[series] for series in subscribers] == [1, 1]
    # The broker counts a message when it has sent it: the reader may be earlier.
    wait(broker, sent[0], least=2)
    now = wait(broker, sent[1], least=1)
    assert now[sent[0]] == 2
    assert now[f"{LATENCY}_count"] == 0

    news.post()
    events.until(4)
    old.until(4)
    wait(broker, f"{LATENCY}_count", least=2)
    events.connection.abort()
    old.connection.abort()
    for series in subscribers:
        wait(broker, series, most=0)


# As for other GETs: an open broker answers to its own names only.
def test_strangers_get_no_metrics(broker):
    for path in ("/metrics", "/readyz"):
        check_refused(broker.get(path, host="example.org"), 403)
    answer = broker.head("/metrics")
    assert (answer.status, answer.body) == (200, b"")
