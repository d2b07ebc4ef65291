"""A browser signs in: the cookie that stands for a token, and which requests may use it
(POST and DELETE /session)."""

import pytest

from tidings_test.http import JSON, check_refused
from tidings_test.stream import UPGRADE

PAGE = "https://page.example"
ENTRY = '{"loc":"http://example.com/a","change":"created"}'


class Visitor:
    """A browser with a cookie."""

    def __init__(self, broker, token, **fields):
        self.broker = broker
        bearer = token and f"Bearer {token}"
        self.made = broker.post("/session", authorization=bearer, **fields)
        self.set_cookie = self.made["Set-Cookie"]
        self.cookie = self.set_cookie and self.set_cookie.split(";")[0]

    def ask(self, method, path, *body, **fields):
        fields = {"authorization": None, "cookie": self.cookie, **fields}
        return self.broker.request(method, path, *body, **fields)

    def name(self, **fields):
        return self.ask("GET", "/tokens/self", **fields).json()["name"]


@pytest.fixture
def guarded(start_broker):
    """A broker of which everyone may read `news`, and press may post there."""
    broker = start_broker("--allow-origins", PAGE)
    broker.add_token("root", admin=True)
    broker.add_token("everyone", subscribe=["news"])
    broker.press = broker.add_token("press", publish=["news"], manage=["news"])
    broker.set("news").create()
    return broker


# Issue of trust, point 4: scripts cannot read it, and foreign pages cannot send it.
def test_a_cookie_has_the_rights_of_its_token(guarded):
    visitor = Visitor(guarded, guarded.press)
    assert (visitor.made.status, visitor.made["Cache-Control"]) == (201, "no-store")
    assert visitor.made.json()["name"] == "press"
    name, _, rest = visitor.set_cookie.partition("=")
    assert name == f"tidings-{guarded.port}"
    text, *attributes = rest.split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert guarded.press[-64:] not in text
    assert visitor.name() == "press"
    path = "/sets/news/changes"
    posted = visitor.ask("POST", path, ENTRY, JSON, origin=guarded.url)
    assert posted.status == 200
    # The text is good as a cookie only.
    for field in (f"Bearer {text}", f"Bearer td_{text}"):
        check_refused(guarded.get("/sets", authorization=field), 401)
    # A token that is sent counts.
    assert visitor.name(authorization=f"Bearer {guarded.token}") == "root"


OWN = "own"  # its URL

# method, fields, whether the cookie counts
REQUESTS = (
    ("GET", {}, True),
    ("GET", {"sec_fetch_site": "none"}, True),
    ("GET", {"sec_fetch_site": "same-origin"}, True),
    ("GET", {"sec_fetch_site": "same-site"}, False),
    ("GET", {"sec_fetch_site": "cross-site"}, False),
    ("GET", {"origin": PAGE}, False),
    ("POST", {}, False),
    ("POST", {"origin": OWN}, True),
    ("POST", {"origin": OWN, "sec_fetch_site": "same-origin"}, True),
    ("POST", {"origin": OWN, "sec_fetch_site": "same-site"}, False),
    ("POST", {"origin": PAGE}, False),
    ("DELETE", {}, False),
    ("DELETE", {"origin": OWN}, True),
    ("PATCH", {"origin": PAGE}, False),
)


# No foreign page acts for the user, not even one that --allow-origins names.
@pytest.mark.parametrize("method, fields, counts", REQUESTS)
def test_a_cookie_counts_for_own_pages_only(guarded, method, fields, counts):
    visitor = Visitor(guarded, guarded.press)
    if fields.get("origin") == OWN:
        fields = {**fields, "origin": guarded.url}
    if method == "GET":
        is_press = visitor.name(**fields) == "press"
    else:
        body = {"POST": (ENTRY, JSON), "PATCH": ("{}", JSON)}.get(method, ())
        path = "/sets/news/changes" if method == "POST" else "/sets/news"
        answer = visitor.ask(method, path, *body, **fields)
        assert answer.status in ((200, 204) if counts else (401,)), answer
        is_press = answer.status != 401
    assert is_press == counts


def test_a_web_socket_needs_the_own_origin(start_broker):
    broker = start_broker("--allow-origins", PAGE)
    broker.add_token("root", admin=True)
    visitor = Visitor(broker, broker.token)
    news = broker.set().create()
    for origin in (None, PAGE):
        answer = visitor.ask("GET", news.stream, **UPGRADE, origin=origin)
        check_refused(answer, 401)
    with broker.connect() as connection:
        connection.token = None
        fields = {**UPGRADE, "cookie": visitor.cookie, "origin": broker.url}
        connection.ask(news.stream, **fields)
        assert connection.answer_head().status == 101


def test_a_session_ends(guarded):
    visitor, other = (Visitor(guarded, guarded.press) for _ in range(2))
    # Not by a foreign page
    assert visitor.ask("DELETE", "/session", origin=PAGE)["Set-Cookie"] is None
    assert visitor.name() == "press"
    ended = visitor.ask("DELETE", "/session", origin=guarded.url)
    assert ended.status == 204
    assert ended["Set-Cookie"].startswith(f"tidings-{guarded.port}=; Path=/; ")
    assert ended["Set-Cookie"].endswith("; Max-Age=0")
    # Public pages stay readable with a cookie that has ended.
    assert visitor.name() == "everyone"
    assert visitor.ask("GET", "/sets/news").status == 200
    assert other.name() == "press"
    guarded.delete("/tokens/press")
    assert other.name() == "everyone"


def test_signing_in_again_ends_the_session_before(guarded):
    first = Visitor(guarded, guarded.press)
    both = {"cookie": first.cookie, "origin": guarded.url}
    second = Visitor(guarded, guarded.token, **both)
    assert (first.name(), second.name()) == ("everyone", "root")


def renew(visitor, token, **fields):
    bearer = f"Bearer {token}"
    fields = {"origin": visitor.broker.url, **fields}
    return visitor.ask("POST", "/session?renew=yes", authorization=bearer, **fields)


# A renewal keeps the cookie, so whatever ends the session ends it for who renews, too:
# before, at the same moment, or after.
def test_a_session_that_has_ended_is_not_renewed(guarded):
    visitor, other = (Visitor(guarded, guarded.press) for _ in range(2))
    newer = guarded.post("/tokens/press/rotate?grace=3600").json()["token"]
    renewed = renew(visitor, newer)
    assert renewed.status == 200 and renewed["Set-Cookie"] is None
    assert (renewed.json()["name"], visitor.name()) == ("press", "press")
    check_refused(renew(other, guarded.token), 410)  # of somebody else
    check_refused(renew(other, newer, cookie=None), 410)
    check_refused(renew(other, newer, origin=None), 410)
    check_refused(renew(other, newer, origin=PAGE), 403)
    check_refused(renew(other, "td_x"), 401)
    assert other.name() == "press"
    visitor.ask("DELETE", "/session", origin=guarded.url)
    refused = renew(visitor, newer)
    check_refused(refused, 410)
    assert refused["Set-Cookie"] is None and visitor.name() == "everyone"
    again = Visitor(guarded, newer)
    assert (again.name(), visitor.name()) == ("press", "everyone")


# A page of another origin could sign the user in to a token of its own.
def test_only_a_token_signs_in(guarded):
    check_refused(Visitor(guarded, None).made, 401)
    check_refused(Visitor(guarded, "td_x").made, 401)
    check_refused(Visitor(guarded, guarded.press, origin=PAGE).made, 403)
    check_refused(Visitor(guarded, guarded.press, sec_fetch_site="same-site").made, 403)
    visitor = Visitor(guarded, guarded.press)
    check_refused(visitor.ask("POST", "/session", origin=guarded.url), 401)


# Over plain HTTP to another machine the browser drops it.
@pytest.mark.parametrize(
    "fields, secure",
    (
        ({}, False),
        ({"host": "localhost:1"}, False),
        ({"host": "broker.example"}, True),
        ({"x_forwarded_proto": "https"}, False),
    ),
)
def test_a_cookie_is_secure_outside_of_loopback(guarded, fields, secure):
    visitor = Visitor(guarded, guarded.press, **fields)
    assert visitor.set_cookie.endswith("; Secure") == secure
    assert visitor.set_cookie.startswith("__Host-") == secure
    assert visitor.name(**fields) == "press"


def test_a_cookie_is_secure_with_tls(start_broker, certificate):
    broker = start_broker(*certificate.options, tls=certificate.trust())
    broker.add_token("root", admin=True)
    visitor = Visitor(broker, broker.token)
    assert visitor.set_cookie.startswith(f"__Host-tidings-{broker.port}=")
    assert visitor.set_cookie.endswith("; Secure")
    assert visitor.name() == "root"


def test_a_cookie_is_secure_if_the_proxy_says_https(start_broker):
    broker = start_broker("--trusted-proxies", "127.0.0.1")
    broker.add_token("root", admin=True)
    fields = {"x_forwarded_proto": "https", "x_forwarded_for": "192.0.2.1"}
    visitor = Visitor(broker, broker.token, **fields)
    assert visitor.set_cookie.endswith("; Secure")


def test_an_open_broker_gives_no_cookie(broker):
    made = Visitor(broker, None).made
    assert (made.status, made["Set-Cookie"]) == (201, None)
    assert made.json()["publish"] == ["*"]
    assert made.json()["admin"] is False
