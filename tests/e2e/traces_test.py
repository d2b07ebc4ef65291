"""traceparent (W3C Trace Context) of a post, with its entries and deliveries, and spans
that go to a collector by OTLP."""

import http.server
import json
import threading

import pytest

from tidings_test import hub
from tidings_test.content import multipart
from tidings_test.http import JSON, NDJSON, XML
from tidings_test.sets import change
from tidings_test.waiting import wait_for

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
QUIET = f"00-{TRACE}-{PARENT}-00"
OTHER = f"00-{'a' * 32}-{'b' * 16}-03"
NEWS = change("http://example.com/a")
MALFORMED = "tidings_traceparents_malformed_total"


def traces(of_set):
    """That of each entry, as JSON and as XML have it."""
    in_json = [
        entry.get("traceparent")
        for entry in of_set.get("changes?after=0", accept=JSON).json()["changes"]
    ]
    fragments = of_set.get("changelist.xml").text.split("<url>")[1:]
    in_xml = [
        one.partition('td:traceparent="')[2].partition('"')[0] or None
        for one in fragments
    ]
    assert in_json == in_xml
    return in_json


# Posts and entries


XML_POST = (
    '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    ' xmlns:rs="http://www.openarchives.org/rs/terms/" xmlns:td="urn:tidings:1">'
    '<rs:md capability="changelist" from="2026-04-01T00:00:00Z"/>'
    '<url><loc>http://example.com/a</loc><rs:md change="created"{}/></url></urlset>'
)


def test_entries_have_the_trace_of_their_post(news):
    own = {**NEWS, "traceparent": OTHER}
    news.send([NEWS, own], traceparent=SAMPLED)
    news.send(own)
    news.send(NEWS)
    news.send(json.dumps(NEWS) + "\n", NDJSON, traceparent=QUIET)
    news.send(XML_POST.format(""), XML, traceparent=SAMPLED)
    news.send(XML_POST.format(f' td:traceparent="{OTHER}"'), XML)
    expected = [SAMPLED, OTHER, OTHER, None, QUIET, SAMPLED, OTHER]
    assert traces(news) == expected
    news.changelists().read()  # digests
    # A page that is posted again brings its traces.
    page = news.get("changes?after=0", accept=JSON)
    again = news.broker.set()
    again.send(page.body)
    assert traces(again) == expected
    # They are of the event: no list of resources has them.
    news.build("resourcelist")
    assert "traceparent" not in news.get("resourcelist.xml").text


# The standard: what is not valid is as if it was not there.
BAD = (
    "", "00", SAMPLED.upper(), f"{SAMPLED}0", f"{SAMPLED}-00", f"01{SAMPLED[2:]}0",
    f"01{SAMPLED[2:-1]}", f"0g{SAMPLED[2:]}", f"ff{SAMPLED[2:]}", f"ff{SAMPLED[2:]}-x", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01",
    SAMPLED.replace("-", "_"), f"00-{TRACE[:-1]}g-{PARENT}-01", f"{SAMPLED[:-1]}x",
)  # fmt: skip


def test_a_malformed_trace_is_passed_over_and_counted(broker):
    news = broker.set()
    before = broker.metrics()[MALFORMED]
    for n, bad in enumerate(BAD):
        news.receipt(news.send(NEWS, traceparent=bad))
        news.receipt(news.send({**NEWS, "traceparent": bad}, traceparent=SAMPLED))
        found = broker.metrics()[MALFORMED] - before
        assert found == 2 * n + 1, bad  # an empty member is none
    assert traces(news) == [None, SAMPLED] * len(BAD)


# Trace Context section 2.2.4: a later version is read as 00 as far as that goes, and written as 00.
@pytest.mark.parametrize("flags,expected", (("01", SAMPLED), ("03", SAMPLED), ("fe", QUIET)))
@pytest.mark.parametrize("more", ("", "-", "-what-will-be"))
def test_a_later_version_becomes_the_first(broker, more, flags, expected):
    news = broker.set()
    before = broker.metrics()[MALFORMED]
    later = f"cc{SAMPLED[2:-2]}{flags}{more}"
    news.receipt(news.send(NEWS, traceparent=later))
    news.receipt(news.send({**NEWS, "traceparent": later}, traceparent=OTHER))
    news.receipt(news.send(XML_POST.format(f' td:traceparent="{later}"'), XML))
    post = multipart([NEWS], [(NEWS["loc"], "text/csv", b"hello")])
    inline = broker.set().create(content="inline")
    inline.receipt(inline.send(*post, traceparent=later))
    news.put_resources(json.dumps({"loc": "http://example.com/b"}), NDJSON, "max-delete=100", traceparent=later)
    assert set(traces(news)) == {expected} and traces(inline) == [expected]
    assert broker.metrics()[MALFORMED] == before


# The client's next try is another span.
def test_a_repeat_may_have_another_trace(news):
    first = news.send([NEWS], idempotency_key="a", traceparent=SAMPLED)
    second = news.send([NEWS], idempotency_key="a", traceparent=OTHER)
    third = news.send([NEWS], idempotency_key="a")
    assert first.body == second.body == third.body
    other = change("http://example.com/b")
    assert news.send([other], idempotency_key="a", traceparent=SAMPLED).status == 422
    assert traces(news) == [SAMPLED]


def test_content_and_resources_have_it_too(broker):
    inline = broker.set().create(content="inline")
    post = multipart([NEWS], [(NEWS["loc"], "text/csv", b"hello")])
    inline.receipt(inline.send(*post, traceparent=SAMPLED))
    assert traces(inline) == [SAMPLED]

    news = broker.set()
    rows = [json.dumps({"loc": f"http://example.com/{n}"}) for n in range(3)]
    for trace in SAMPLED, OTHER:
        answer = news.put_resources("\n".join(rows), NDJSON, traceparent=trace)
        assert answer.status == 200, answer
    query = "accept-deletions=1"
    gone = news.put_resources("\n".join(rows[1:]), NDJSON, query, traceparent=OTHER)
    assert gone.json()["deleted"] == 1 and gone.json()["unchanged"] == 2
    assert traces(news) == [SAMPLED] * 3 + [OTHER]
    refused = {**json.loads(rows[0]), "traceparent": SAMPLED}
    answer = news.put_resources(json.dumps(refused), NDJSON)
    assert answer.status == 422 and "traceparent" in answer.text


# The extension "distributed tracing" of CloudEvents: a repeat may be another span.
def test_events_have_it_too(news):
    event = {"specversion": "1.0", "type": "a.updated", "source": "/a", "id": "1"}
    about = {"data": NEWS, "traceparent": SAMPLED}
    fields = {"type": "application/cloudevents+json"}
    first = news.receipt(news.send(json.dumps({**event, **about}), **fields))
    again = news.send(json.dumps({**event, **about, "traceparent": OTHER}), **fields)
    assert (first.last, again.json()["last"]) == (1, 1)
    batch = json.dumps([{**event, **about, "id": "2", "traceparent": OTHER}])
    news.receipt(news.send(batch, "application/cloudevents-batch+json"))
    binary = {f"ce-{name}": value for name, value in event.items() if name != "id"}
    news.receipt(news.send(NEWS, **binary, **{"ce-id": "3", "ce-traceparent": QUIET}))
    assert traces(news) == [SAMPLED, OTHER, QUIET]
    assert "traceparent" not in json.dumps(
        [e["attributes"] for e in news.get("changes?after=0", accept=JSON).json()["changes"]]
    )


# Deliveries


@pytest.mark.broker(*hub.QUICK)
def test_a_delivery_has_the_trace_of_its_entries(news, callbacks):
    one = callbacks.join(news)
    news.send(NEWS, traceparent=SAMPLED)
    one.wait_last(1)
    assert one.deliveries[0]["traceparent"] == SAMPLED
    news.send([NEWS, {**NEWS, "traceparent": OTHER}], traceparent=SAMPLED)
    one.wait_last(3)
    assert one.deliveries[1]["traceparent"] is None  # two traces
    assert OTHER in one.deliveries[1].body.decode()
    news.send([NEWS, NEWS], traceparent=QUIET)
    one.wait_last(5)
    assert one.deliveries[2]["traceparent"] == QUIET
    news.send(NEWS)
    one.wait_last(6)
    assert one.deliveries[3]["traceparent"] is None


# Spans


class Collector(http.server.ThreadingHTTPServer):
    """A collector of OTLP: the spans that came, by name."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.daemon_threads = True
        self.requests, self.status, self.answer = [], 200, b"{}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self):
        return [
            span
            for request in self.requests
            for resource in request["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def wait(self, n):
        wait_for(f"{n} spans", lambda: len(self.spans()) >= n)
        return self.spans()


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.status == 200:
            self.server.requests.append(json.loads(body))
            self.server.head = (self.path, dict(self.headers.items()))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def collector():
    collector = Collector()
    yield collector
    collector.shutdown()
    collector.server_close()


def attributes(of):
    """Of a span or a resource. Numbers are texts, as ProtoJSON has 64 bits."""
    found = {}
    for one in of["attributes"]:
        assert one.keys() == {"key", "value"}
        [(type, value)] = one["value"].items()
        assert type in ("stringValue", "intValue") and isinstance(value, str)
        found[one["key"]] = value
    return found


def test_posts_and_deliveries_become_spans(collector, start_broker, callbacks, tmp_path):
    token = tmp_path / "token"
    token.write_text("c29tZSB0b2tlbg==\n")
    token.chmod(0o600)
    options = ("--otlp", collector.url, "--otlp-token", token)
    broker = start_broker(*options, *hub.QUICK, *hub.LOOPBACK)
    news = broker.set("news").create()
    one = callbacks.join(news)
    one.next(503)
    for trace in ({}, {"traceparent": QUIET}, {"traceparent": "00"}):
        news.send(NEWS, **trace)
    one.wait_last(3)
    news.send([NEWS, NEWS], traceparent=SAMPLED)
    one.wait_last(5)
    spans = collector.wait(2)
    path, fields = collector.head
    assert path == "/v1/traces"
    assert fields["Content-Type"] == "application/json"
    assert fields["Authorization"] == "Bearer c29tZSB0b2tlbg=="
    resource = collector.requests[0]["resourceSpans"][0]["resource"]
    assert attributes(resource)["service.name"] == "tidingsd"
    assert attributes(resource).keys() == {"service.name", "service.version"}

    post, delivery = sorted(spans, key=lambda span: span["kind"])
    assert (post["name"], post["kind"]) == ("post", 2)
    assert (delivery["name"], delivery["kind"]) == ("delivery", 3)
    for span in post, delivery:
        assert span["traceId"] == TRACE and span["parentSpanId"] == PARENT
        assert len(bytes.fromhex(span["spanId"])) == 8 and span["spanId"] != PARENT
        begin, end = span["startTimeUnixNano"], span["endTimeUnixNano"]
        assert isinstance(begin, str) and 0 < int(begin) <= int(end)
        assert attributes(span) == {
            "tidings.set": "news",
            "tidings.seq.first": "4",
            "tidings.seq.last": "5",
            "http.request.method": "POST",
            "http.response.status_code": "200",
        }
        assert "status" not in span
    assert post["spanId"] != delivery["spanId"]
    assert int(delivery["startTimeUnixNano"]) >= int(post["startTimeUnixNano"])

    # Each try is a span, and those that are there at the end still go out.
    one.next(503)
    news.send(NEWS, traceparent=OTHER)
    one.wait_last(6)
    hub.wait_head(news, one)
    broker.stop()
    tries = [span for span in collector.spans()[2:] if span["kind"] == 3]
    assert [one["traceId"] for one in collector.spans()[2:]] == ["a" * 32] * 3
    statuses = [attributes(each)["http.response.status_code"] for each in tries]
    assert statuses == ["503", "200"]
    assert tries[0]["status"] == {"code": 2} and "status" not in tries[1]


def test_a_collector_that_is_away_costs_spans_alone(collector, start_broker):
    collector.status = 503
    broker = start_broker("--otlp", collector.url)
    news = broker.set("news")
    news.receipt(news.send(NEWS, traceparent=SAMPLED))
    wait_for("the loss", lambda: broker.metrics()["tidings_spans_lost_total"] == 1)
    broker.wait_said("the collector does not take spans")
    collector.status = 200
    news.send(NEWS, traceparent=SAMPLED)
    collector.wait(1)
    broker.wait_said("the collector takes spans again")
    assert broker.metrics()["tidings_spans_sent_total"] == 1


# OTLP: 200 with a partial success is no success, however the number is written.
PARTIAL = (
    (b'{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}', 1),
    (b'{ "partialSuccess" : { "errorMessage":"too old", "rejectedSpans" : 1 } }', 1),
    (b'{"partialSuccess":{"rejectedSpans":99,"errorMessage":"too old"}}', 1),
    (b'{"partialSuccess":{"rejectedSpans":"0"}}', 0),
    (b'{"partialSuccess":{}}', 0),
    (b"", 0),
)  # fmt: skip


@pytest.mark.parametrize("answer,lost", PARTIAL)
def test_spans_that_a_collector_rejects_are_lost(collector, start_broker, answer, lost):
    collector.answer = answer
    broker = start_broker("--otlp", collector.url)
    news = broker.set("news")
    news.receipt(news.send(NEWS, traceparent=SAMPLED))
    metric = "tidings_spans_lost_total" if lost else "tidings_spans_sent_total"
    wait_for("a report", lambda: broker.metrics()[metric] == 1)
    counts = [broker.metrics()[f"tidings_spans_{kind}_total"] for kind in ("lost", "sent")]
    assert counts == [lost, 1 - lost]
    if lost:
        assert "too old" in broker.wait_said("the collector does not take spans")


# CloudEvents, Distributed Tracing: the attribute is where the event began, the field is this hop.
def test_an_event_and_its_hop_have_traces_of_their_own(collector, start_broker):
    broker = start_broker("--otlp", collector.url)
    news = broker.set("news")
    about = {"ce-specversion": "1.0", "ce-type": "a.updated", "ce-source": "/a", "ce-id": "1"}
    news.receipt(news.send(NEWS, traceparent=SAMPLED, **about, **{"ce-traceparent": OTHER}))
    (span,) = collector.wait(1)
    assert (span["traceId"], span["parentSpanId"]) == (TRACE, PARENT)
    assert traces(news) == [OTHER]


def test_bad_options_are_refused(run, tmp_path):
    token = tmp_path / "token"
    token.write_text("two words\n")
    token.chmod(0o600)
    check = ("tidingsd", "--data", tmp_path / "data", "--check-settings")
    for options, reason in (
        (("--otlp", "collector"), "otlp"),
        (("--otlp-token", token), "--otlp-token without --otlp"),
        (("--otlp", "http://127.0.0.1:4318", "--otlp-token", token), "--otlp-token: "),
    ):
        assert reason in run(*check, *options, status=None).errors()
