"""The answer to GET /metrics of a busy broker. Every answer is read strictly
(tidings_test/metrics.py)."""

import math
import os
import re
import ssl
import subprocess

from tidings_test import hub
from tidings_test.certificates import Certificate
from tidings_test.content import multipart
from tidings_test.feed import Feed
from tidings_test.http import JSON, NDJSON, as_bytes, check_refused
from tidings_test.sets import Set, change, entries
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
        value = metrics.get(series)
        return value is not None and least <= value <= most and metrics

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
        cluster_cut_off=0,
        cluster_behind_seconds=0,
        cluster_oldest_transaction_seconds=0,
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
    assert broker.post_too_slowly(broker.set().changes, JSON, "[").status == 408
    broker.wait_answer()
    now = broker.metrics()
    assert now['tidings_posts_rejected_total{code="408"}'] == 1
    check(now, posts_incomplete_total=0, ingest_bytes=0)


# Each failure is counted, and the first one of each kind logged.
def test_lists_are_counted_when_they_close_and_when_they_are_filed(start_broker):
    broker = start_broker("--rotate-entries", "50")
    in_the_way = broker.data / "sets"  # neither lists, state nor tree get files
    in_the_way.write_text("in the way")
    broker.set().post(101)  # a small set would have no state
    now = wait(broker, "tidings_list_files_failed_total", least=1)
    check(now, lists_closed_total=2, list_files_written_total=0)
    warnings = 'tidings_diagnostics_total{level="warning"}'
    wait(broker, warnings, least=3)
    now = wait(broker, "tidings_folds_failed_total", least=4)
    assert now[warnings] == 3

    in_the_way.unlink()
    now = wait(broker, "tidings_list_files_written_total", least=2)
    check(now, lists_closed_total=2, list_files_written_total=2)


def requests(method, route, status, part="count", **more):
    labels = {"method": method, "route": route, "status": status, **more}
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"tidings_http_request_duration_seconds_{part}{{{text}}}"


# A row of the table of routes or of documents, not the path: no client makes series.
def test_requests_are_timed_by_route(start_broker):
    broker = start_broker()
    news, more = broker.set().create(), broker.set().create()
    news.post(3)
    more.post(2)
    assert broker.head(f"{news.path}/changes/000000000001.xml").status == 200
    assert broker.get(f"{news.path}/changes?after=0").status == 200
    assert broker.get(f"{news.path}/changes?after=x").status == 400
    assert broker.get("/tokens/self").status == 200
    for path in ("/no/such/path", "/sets/UPPER", "/sets/nothing"):
        assert broker.get(path).status == 404
    assert broker.put("/metrics", {}).status == 405
    assert broker.request("BREW", "/metrics").status == 501
    expected = {
        ("POST", "/sets/{set}/changes", "2xx"): 2,
        ("GET", "/sets/{set}/changes/{list}.xml", "2xx"): 1,
        ("GET", "/sets/{set}/changes", "2xx"): 1,
        ("GET", "/sets/{set}/changes", "4xx"): 1,
        ("GET", "/tokens/self", "2xx"): 1,
        ("GET", "/sets/{set}", "4xx"): 2,
        ("other", "none", "4xx"): 2,
        ("other", "none", "5xx"): 1,
    }
    for labels, n in expected.items():
        now = wait(broker, requests(*labels), least=n)
        assert now[requests(*labels)] == n, labels
    assert not any("nothing" in series or news.path in series for series in now)
    took = now[requests("POST", "/sets/{set}/changes", "2xx", "sum")]
    assert 0 < took < 60
    slow = requests("POST", "/sets/{set}/changes", "2xx", "bucket", le="+Inf")
    assert now[slow] == 2


# They last as long as the client wants, and would hide the others. A client that leaves
# before its answer has no status.
def test_streams_and_long_polls_are_not_timed(start_broker):
    broker = start_broker("--heartbeat", "3600")
    news = broker.set().create()
    news.post()
    answered = requests("GET", "/sets/{set}/changes", "2xx")
    assert broker.get(f"{news.path}/changes?after=0&wait=5").status == 200
    assert broker.get(f"{news.path}/changes?wait=0.01&after=1").status == 200
    news.websocket("after=0").until(1).leave()
    events = news.events("after=0").until(1)
    events.connection.abort()
    connected = by("eventsource", "tidings_subscribers")
    wait(broker, connected, most=0)
    left = news.start_post()
    wait(broker, "tidings_ingest_bytes", least=1)
    left.close()
    now = wait(broker, requests("POST", "/sets/{set}/changes", "none"), least=1)
    assert answered not in now
    assert not any("/stream" in series for series in now)
    assert broker.get(f"{news.path}/changes?after=0").status == 200
    wait(broker, requests("GET", "/sets/{set}/changes", "2xx"), least=1)


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


def lag_of(readers, of_set):
    return f'tidings_set_lag_entries{{readers="{readers}",set="{of_set.name}"}}'


def test_the_sets_that_lag_most_are_named(start_broker, callbacks):
    broker = start_broker("--threads", "1", *hub.LOOPBACK)
    news, quiet = broker.set().create(), broker.set()
    quiet.post()
    callback = callbacks.join(news)
    callback.hold()
    slow = news.websocket("after=0", narrow=True)
    for _ in range(10):
        news.post(100, size=10000)
    wait_for("the hub's lag", lambda: broker.metrics().get(lag_of("hub", news)))
    wait_for("the lag", lambda: broker.metrics().get(lag_of("subscribers", news)))
    most = by("websocket-json", "tidings_subscriber_lag_max_entries")

    def is_the_same():
        now = broker.metrics()
        return now.get(lag_of("subscribers", news)) == now[most] > 0 and now

    now = wait_for("the same lag", is_the_same)
    assert not any(quiet.name in series for series in now)

    callback.release()
    slow.until(news.posted)
    hub.wait_head(news, callback)
    wait_for("no lag", lambda: not is_any_set_named(broker.metrics()))
    slow.leave()


def is_any_set_named(metrics):
    return any(series.startswith("tidings_set_lag_entries{") for series in metrics)


# there may be many sets, so the ten worst are named, and a private one to its
# readers only.
def test_the_harvests_that_are_worst_are_named(start_broker):
    broker = start_broker()
    broker.add_token("root", admin=True)
    hidden = Set(broker, "hidden").create(private=True)
    hidden.put_harvest(held_back=99)
    day = "2026-04-{:02}T00:00:00Z"
    for n in range(1, 12):
        times = {"complete_as_of": day.format(n), "last_look": day.format(12 - n)}
        Set(broker, f"s{n}").put_harvest(**times, held_back=n, left_out=n % 2)
    Set(broker, "never").put_harvest()
    blind = broker.holder(broker.add_token("blind", observe=True))
    text = blind.get("/metrics").text
    assert "hidden" not in text
    found = dict(re.findall(r'^(tidings_h\w+\{set="\w+"\}) (\d+)$', text, re.M))

    def named(family):
        start = f'{family}{{set="'
        return [one[len(start) : -2] for one in found if one.startswith(start)]

    oldest = [f"s{n}" for n in range(1, 10)]
    assert named("tidings_harvest_complete_timestamp_seconds") == ["never", *oldest]
    latest = [f"s{n}" for n in range(11, 1, -1)]
    looked = ["s11", "never", *latest[1:9]]
    assert named("tidings_harvest_look_timestamp_seconds") == looked
    odd = {f"s{n}" for n in range(1, 12, 2)}
    assert set(named("tidings_harvest_left_out_rows")) == odd
    assert named("tidings_held_back_deletions") == latest
    assert found['tidings_harvest_complete_timestamp_seconds{set="s1"}'] == "1775001600"
    own = broker.metrics()
    assert own['tidings_held_back_deletions{set="hidden"}'] == 99


# An operator without the right to a private set does not read its name.
def test_a_private_set_that_lags_is_named_to_its_readers_only(start_broker):
    broker = start_broker("--threads", "1")
    broker.add_token("root", admin=True)
    hidden = Set(broker, "hidden").create(private=True)
    slow = hidden.websocket("after=0", narrow=True)
    for _ in range(10):
        hidden.post(100, size=10000)
    lag = lag_of("subscribers", hidden)
    wait_for("the lag", lambda: broker.metrics().get(lag))
    blind = broker.holder(broker.add_token("blind", observe=True))
    found = blind.get("/metrics")
    assert found.status == 200 and "hidden" not in found.text
    assert broker.metrics()[lag] > 0
    slow.abort()


def test_relays_are_counted_and_what_they_could_not_take_in(
    start_broker, site, callbacks
):
    broker = start_broker(*hub.QUICK, *hub.LOOPBACK)
    feed = Feed(broker, site, callbacks).register()
    callback = feed.join()
    failed = 'tidings_upstream_failures_total{{reason="{}"}}'.format
    feed.name(feed.topic, "http://b.example/hub")
    assert feed.post("spoofed").status == 403
    feed.name(feed.topic, hub.url(broker))
    feed.accept("one", "two", "two")
    callback.deliveries.wait(2)
    now = wait(broker, 'tidings_relays{state="active"}', least=1)
    check(now, relay_documents_total=2, relay_kept_documents=2, relay_kept_bytes=6)
    callback.hold()
    feed.accept("three", "four", "five")
    now = wait(broker, "tidings_relay_lag_max_documents", least=3)
    assert now["tidings_hub_lag_max_entries"] == 3
    callback.release()
    callback.deliveries.wait(5)

    assert feed.post("six", "nonsense").status == 400
    site.status(feed.target, 404)
    ping = {"hub.mode": "publish", "hub.url": feed.topic}
    assert hub.send(broker, ping).status == 204
    now = wait(broker, failed("fetch"), least=1)
    reasons = ("source", "document", "fetch")
    assert [now[failed(reason)] for reason in reasons] == [1, 1, 1]
    assert feed.broker.delete(feed.path).status == 204
    wait(broker, 'tidings_relays{state="active"}', most=0)


def test_the_end_of_the_certificate_is_known(start_broker, tmp_path):
    good = Certificate(tmp_path / "good")
    bad = Certificate(tmp_path / "bad", expired=True)  # its issuer is not
    clients = Certificate(tmp_path / "clients")
    broker = start_broker(
        *("--tls-cert", bad.cert, "--tls-key", bad.key, "--tls-client-ca", clients.ca),
        tls=ssl._create_unverified_context(),
    )
    now = broker.metrics()
    end = 'tidings_certificate_end_timestamp_seconds{{of="{}"}}'.format
    assert now[end("server")] == end_of(bad.cert)
    assert now[end("client-ca")] == end_of(clients.ca)

    for file, by in ((bad.cert, good.cert), (bad.key, good.key)):
        os.replace(by, file)
    wait(broker, end("server"), least=end_of(bad.cert))


def end_of(file):
    """When the first of the file's certificates expires: that of its issuer may be a
    second older."""
    mark = "-----BEGIN CERTIFICATE-----"
    ends = []
    for one in file.read_text().split(mark)[1:]:
        shown = subprocess.run(
            ["/usr/bin/openssl", "x509", "-noout", "-enddate"],
            input=mark + one,
            capture_output=True,
            text=True,
            check=True,
        )
        end = shown.stdout.strip().removeprefix("notAfter=")
        ends.append(ssl.cert_time_to_seconds(end))
    return min(ends)


# The broker walks through its data directory when it starts, and then each minute.
def test_the_room_on_the_disk_is_known_by_kind(start_broker):
    broker = start_broker("--rotate-entries", "3")
    news = broker.set()
    news.post(7)
    news.build("resourcelist")
    url = "http://a.example/"
    body = multipart([change(url)], [(url, None, b"12345")])
    assert broker.set().create(content="inline").send(*body).status == 200
    at = broker.data / "sets" / news.name
    news.wait_list_files(2)
    filed = at / "changes/checkpoint"
    wait_for("the checkpoint of the lists", lambda: filed.exists() and "\n6\n" in filed.read_text())
    wait_for("its only tile", lambda: [path.name for path in (at / "tile").rglob("*") if path.is_file()] == ["6"])
    broker.stop()
    broker.start()
    kind = 'tidings_disk_bytes{{kind="{}"}}'.format
    now = wait(broker, kind("change-lists"), least=1)
    assert now[kind("change-lists")] == room(at / "changes") + room(at / "tile")
    assert now[kind("resource-lists")] == room(at / "resourcelist")
    assert now[kind("database")] > 0
    assert now[kind("dumps")] == 0
    wait(broker, kind("content"), least=5, most=5)
    disk = os.statvfs(broker.data)
    assert now["tidings_disk_size_bytes"] == disk.f_blocks * disk.f_frsize
    assert 0 < now["tidings_disk_free_bytes"] <= now["tidings_disk_size_bytes"]


def room(directory):
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert files
    return sum(path.stat().st_blocks * 512 for path in files)


# Without them a panel would show a certificate that expired in 1970.
def test_what_there_is_not_has_no_series(broker):
    now = broker.metrics()
    family = "tidings_certificate_end_timestamp_seconds"
    assert {family, "tidings_set_lag_entries"} <= now.families.keys()
    assert not is_any_set_named(now)
    assert not any(series.startswith(family) for series in now)


# As for other GETs: an open broker answers to its own names only.
def test_strangers_get_no_metrics(broker):
    check_refused(broker.get("/metrics", host="example.org"), 403)
    assert broker.get("/readyz", host="example.org").text == "ready\n"
    answer = broker.head("/metrics")
    assert (answer.status, answer.body) == (200, b"")
