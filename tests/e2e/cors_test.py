"""Requests of pages in browsers: which origins may come in, what the browser is told
about them, and the tokens of requests that cannot have a field Authorization."""

import signal

import pytest

from tidings_test.http import FORM, JSON, check_refused
from tidings_test.waiting import wait_for

PAGE = "https://page.example"
STREAM = {"accept": "text/event-stream"}
ENTRY = '{"loc":"http://example.com/a","change":"created"}'


def start(start_broker, *origins):
    options = ("--allow-origins", ",".join(origins)) if origins else ()
    broker = start_broker(*options)
    broker.root = broker.add_token("root", admin=True)
    broker.add_token("everyone", subscribe=["*"])
    return broker


def bearer(broker):
    return f"Bearer {broker.root}"


# origins, the Origin of a request, status of GET without and with a token, of POST with one
ORIGINS = (
    ((), PAGE, 403, 403, 403),
    ((), None, 200, 200, 200),
    ((), "own", 200, 200, 200),
    ((PAGE,), PAGE, 200, 200, 200),
    ((PAGE,), "https://page.example:8443", 403, 403, 403),
    ((PAGE,), "http://page.example", 403, 403, 403),
    ((PAGE,), "https://page.example.evil.example", 403, 403, 403),
    ((PAGE,), "null", 403, 403, 403),
    (("*",), PAGE, 200, 403, 403),
    (("*",), "null", 200, 403, 403),
    (("*", PAGE), PAGE, 200, 200, 200),
)


@pytest.mark.parametrize("origins, origin, read, token, post", ORIGINS)
def test_an_origin_comes_in_as_the_option_says(
    start_broker, origins, origin, read, token, post
):
    broker = start(start_broker, *origins)
    news = broker.set().create()
    origin = broker.url if origin == "own" else origin
    path = f"/sets/{news.name}"
    answer = broker.get(path, origin=origin, authorization=None)
    assert answer.status == read
    allowed = origin if PAGE == origin and PAGE in origins else "*"
    told = read == 200 and origins and origin
    assert answer["Access-Control-Allow-Origin"] == (allowed if told else None)
    assert ("Origin" in answer.all("Vary")) == bool(origins)
    assert answer["Access-Control-Allow-Credentials"] is None
    with_token = broker.get(path, origin=origin)
    assert with_token.status == token
    posted = broker.post(f"{path}/changes", ENTRY, JSON, origin=origin)
    assert posted.status == post
    assert broker.get(path).json()["last"] == (1 if post == 200 else 0)


def test_errors_may_be_read_too(start_broker):
    broker = start(start_broker, PAGE)
    answer = broker.get("/sets/none", origin=PAGE)
    assert (answer.status, answer["Access-Control-Allow-Origin"]) == (404, PAGE)
    assert "Retry-After" in answer["Access-Control-Expose-Headers"]


def test_a_preflight_names_what_may_come(start_broker):
    broker = start(start_broker, PAGE, "*")
    asks = {"access_control_request_method": "POST", "authorization": None}
    path = "/sets/news/changes"
    answer = broker.request("OPTIONS", path, origin=PAGE, **asks)
    assert answer.status == 204
    assert answer["Access-Control-Allow-Origin"] == PAGE
    assert answer["Access-Control-Allow-Methods"] == "GET, HEAD, POST"
    assert "Authorization" in answer["Access-Control-Allow-Headers"]
    other = broker.request("OPTIONS", path, origin="https://other.example", **asks)
    assert other["Access-Control-Allow-Methods"] == "GET, HEAD"
    assert "Authorization" not in other["Access-Control-Allow-Headers"]


HOOK = {"webhook_request_origin": "events.example", "webhook_request_rate": "120"}


# CloudEvents, Web Hooks section 4: who may post is told so; the token decides, not the origin.
@pytest.mark.parametrize(
    "path,token,status",
    (
        ("/sets/news/changes", "press", 200),
        ("/sets/other/changes", "press", 403),
        ("/sets/news/changes", "reader", 403),
        ("/sets/news/changes", None, 401),
        ("/sets/news/changes", "td_x", 401),
        ("/sets/news", "press", 204),
        ("/sets", None, 204),
    ),
)
def test_a_sender_of_events_asks_whether_it_may(start_broker, path, token, status):
    broker = start_broker()
    broker.add_token("root", admin=True)
    tokens = {
        "press": broker.add_token("press", publish=["news"]),
        "reader": broker.add_token("reader", subscribe=["*"]),
    }
    bearer = token and f"Bearer {tokens.get(token, token)}"
    answer = broker.request("OPTIONS", path, authorization=bearer, **HOOK)
    assert answer.status == status
    granted = ("*", "*") if status == 200 else (None, None)
    assert (answer["WebHook-Allowed-Origin"], answer["WebHook-Allowed-Rate"]) == granted
    if status == 200:
        assert "POST" in answer["Allow"]
    plain = broker.request("OPTIONS", path, authorization=None)
    assert (plain.status, plain["WebHook-Allowed-Origin"]) == (204, None)


# A form needs no preflight.
def test_a_form_of_a_foreign_page_does_nothing(start_broker):
    broker = start(start_broker, "*")
    for type in (FORM, "text/plain"):
        fields = {"origin": "https://other.example", "authorization": None}
        assert broker.post("/hub", "hub.mode=publish", type, **fields).status == 403


# DNS rebinding: a page of any name that points here.
def test_a_foreign_name_needs_a_token(start_broker):
    broker = start(start_broker)
    path = "/sets"
    foreign = {"host": "evil.example", "authorization": None}
    check_refused(broker.get(path, **foreign), 403, "evil.example")
    own = {**foreign, "origin": "http://evil.example"}
    check_refused(broker.get(path, **own), 403)
    assert broker.get(path, host="evil.example").status == 200
    assert broker.get(path, authorization=None).status == 200


@pytest.mark.parametrize("text", ["page.example", "https://a/b", "null", "ftp://a", "https://*.a"])
def test_a_bad_origin_is_refused(run, text):
    options = ("--allow-origins", text, "--check-settings")
    assert "--allow-origins" in run("tidingsd", *options, status=2).errors()


def test_origins_are_live(start_broker, tmp_path):
    config = tmp_path / "tidingsd.ini"
    config.write_text("")
    broker = start_broker("--config", config)
    broker.add_token("root", admin=True)
    assert broker.get("/sets", origin=PAGE).status == 403
    config.write_text(f"allow-origins = {PAGE}\n")
    broker.process.signal(signal.SIGHUP)
    wait_for("a reload", lambda: broker.get("/sets", origin=PAGE).status == 200)


# Tickets and subprotocols


def test_a_ticket_lets_one_request_in(start_broker):
    broker = start(start_broker)
    broker.delete("/tokens/everyone")
    news = broker.set().create()
    news.post(1)
    made = broker.post("/tickets")
    assert (made.status, made["Cache-Control"]) == (201, "no-store")
    path = f"/sets/{news.name}/changes?after=0&ticket={made.json()['ticket']}"
    assert broker.get(path, authorization=None).status == 200
    check_refused(broker.get(path, authorization=None), 401)
    check_refused(broker.post("/tickets", authorization=None), 401)
    # Not for anything that changes something.
    ticket = broker.post("/tickets").json()["ticket"]
    path = f"/sets/{news.name}?ticket={ticket}"
    check_refused(broker.delete(path, authorization=None), 401)


def test_a_ticket_ends_with_its_token(start_broker):
    broker = start(start_broker)
    broker.delete("/tokens/everyone")
    press = broker.add_token("press", subscribe=["*"])
    made = broker.post("/tickets", authorization=f"Bearer {press}").json()
    broker.delete("/tokens/press")
    check_refused(broker.get(f"/sets?ticket={made['ticket']}", authorization=None), 401)


def upgrade(broker, path, protocols):
    """The answer to a handshake."""
    with broker.connect() as connection:
        connection.token = None
        fields = {
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
            "sec_websocket_version": "13",
            "sec_websocket_protocol": protocols,
        }
        connection.ask(path, **fields)
        head = connection.answer_head()
        if head.status != 101:
            head.body = connection.read_until(b"}\n")
        return head


def test_a_subprotocol_has_the_token_of_a_web_socket(start_broker):
    broker = start(start_broker)
    broker.delete("/tokens/everyone")
    news = broker.set().create()
    real = "resourcesync.json"
    token = f"bearer.{broker.root}"
    assert upgrade(broker, news.stream, real).status == 401
    assert upgrade(broker, news.stream, f"{real}, bearer.td_x").status == 401
    for offer in (f"{real}, {token}", f"{token},{real}"):
        answer = upgrade(broker, news.stream, offer)
        assert (answer.status, answer["Sec-WebSocket-Protocol"]) == (101, real)
    alone = upgrade(broker, news.stream, token)
    assert alone.status == 400
    assert broker.root.encode() not in alone.body
    broker.stop()
    assert broker.root not in broker.process.errors()
