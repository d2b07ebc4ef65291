"""Every route of doc/http.md asks for the right of its row: each is asked without a
token, with bad ones, with each right alone, with rights to other sets, and as an
administrator. doc/security.md has the rule."""

import datetime
import re
import urllib.parse

import pytest

from tidings_test import routes
from tidings_test.broker import ROOT
from tidings_test.http import FORM, check_refused

ROUTES = {
    (tuple(r.methods), r.path): r.rights for r in routes.ROUTES.values() if r.path[0] == "/"
}
DOCUMENTS = routes.DOCUMENT_RIGHTS
LIST = "000000000001"
BAD = ("unknown", "no token at all", "revoked", "expired")
HOUR = datetime.timedelta(hours=1)
NOBODY = "td_000000000000_" + 64 * "0"
OF_A_SET = "every other document of `/sets/{set}`"


def requests_of_rights():
    """The table of doc/security.md: the requests of each right, from the rows of the
    router."""
    table = {}
    for route in routes.ROUTES.values():
        if route.path[0] == "/":
            methods = [method for method in route.methods if method != "HEAD"]
            paths = table.setdefault(tuple(route.rights), {})
            paths.setdefault(f"`{route.path}`", []).extend(methods)
    for path, rights in DOCUMENTS.items():
        path = OF_A_SET if path.startswith("/sets/{set}/") else f"`{path}`"
        table.setdefault(tuple(rights), {})[path] = ["GET"]
    lines = ["| right | requests |", "| --- | --- |"]
    for rights, paths in sorted(table.items()):
        right = " or ".join(f"`{right}`" for right in rights) or "none"
        requests = [f"{', '.join(methods)} {path}" for path, methods in paths.items()]
        lines.append(f"| {right} | {'; '.join(requests)} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_requests_of_each_right():
    page = (ROOT / "doc/security.md").read_text()
    assert requests_of_rights() in page, requests_of_rights()


class Guarded:
    """A broker with a token of each kind. The set and the relay `news` exist."""

    def __init__(self, broker, site, faults):
        self.broker = broker
        self.tokens = {"none": None, "unknown": NOBODY, "no token at all": "x y"}
        self.tokens["admin"] = broker.add_token("admin", admin=True)
        for right in ("publish", "subscribe", "manage"):
            self.add(right, **{right: ["new*", "!newt"]})
        self.add("observe", observe=True)
        others = {right: ["*", "!news"] for right in ("publish", "subscribe", "manage")}
        self.add("other", **others)
        self.add("revoked", publish=["*"], subscribe=["*"], manage=["*"], observe=True)
        assert broker.delete("/tokens/revoked").status == 204
        end = datetime.datetime.now(datetime.UTC) + HOUR
        self.add("expired", admin=True, expires=end.isoformat())
        faults.set_clock(HOUR.total_seconds())
        assert '"state":"expired"' in broker.get("/tokens/expired").text
        self.topic = site.link("/feed")
        self.make()

    def add(self, name, **rights):
        self.tokens[name] = self.broker.add_token(name, **rights)

    def make(self):
        """Make what an allowed request may have removed."""
        assert self.broker.put("/sets/news", {}).status in (200, 201)
        feed = {"topic": self.topic}
        assert self.broker.put("/relays/news", feed).status in (200, 201)

    def ask(self, method, path, who, body=None, type=None):
        token = self.tokens[who]
        fields = {"authorization": token and f"Bearer {token}"}
        return self.broker.request(method, path, body, type, **fields)


@pytest.fixture
def guarded(start_broker, site, faults):
    return Guarded(start_broker(env=faults.env), site, faults)


def filled(path):
    path = re.sub("{(set|relay)}", "news", path)
    path = re.sub("{(list|last)}", LIST, path).replace("{page}", "hub.html").replace("{digest}", 64 * "0").replace("{tile}", "0/000")
    path = path.replace("{uri}", "http://a.example/").replace("{epoch}", 16 * "0")
    return path.replace("{id}", "1").replace("{token}", "none")


def expected(rights, who):
    """401, 403, or None: the route does not refuse."""
    if who in BAD:
        return 401
    if not rights or who == "admin" or who in rights:
        return None
    return 401 if who == "none" else 403


def is_of_all(path):
    return "{set}" not in path and "{relay}" not in path


def check(guarded, method, path, rights):
    body = b"" if method in ("POST", "PUT", "PATCH") else None
    for who in guarded.tokens:
        want = expected(rights, who)
        if method == "DELETE":
            guarded.make()
        if who == "other" and "subscribe" in rights and is_of_all(path):
            want = None  # a right to any set is enough
        answer = guarded.ask(method, filled(path), who, body)
        got = answer.status if answer.status in (401, 403) else None
        assert got == want, (method, path, who, answer)
        if got == 401:
            assert answer["WWW-Authenticate"] == "Bearer"
        if got == 403 and method != "HEAD":
            assert answer.json()["right"] == " or ".join(rights), answer


# Issue of trust, point 1
def test_each_route_asks_for_its_right(guarded):
    assert len(ROUTES) > 30
    for (methods, path), rights in ROUTES.items():
        if path == "/hub":
            continue
        for method in methods:
            check(guarded, method, path, rights)


def test_each_document_asks_for_its_right(guarded):
    for path, rights in DOCUMENTS.items():
        for method in ("GET", "HEAD"):
            check(guarded, method, path, rights)
    public = {path for path, rights in DOCUMENTS.items() if not rights}
    parts = ("harvest", "parts", "readers", "set", "settings", "sign-in", "tokens")
    console = {"/console.js", "/console.css", *(f"/console-{part}.js" for part in parts)}
    files = {"/robots.txt", "/tidings.js", "/tidings.d.ts", "/icon.svg", "/tidings.css"}
    pages = {"/doc", "/doc/{page}", "/llms.txt", "/llms-full.txt"}
    assert public == {"/", "/openapi.json", "/asyncapi.json"} | files | console | pages


# No, an unknown, a revoked and an expired token get the same answer.
def test_bad_tokens_are_not_told_apart(guarded):
    answers = {
        (answer.steady()[2], tuple(n for n, _ in answer.headers))
        for answer in (
            guarded.ask("GET", "/sets/news", who)
            for who in ("none", *BAD)
        )
    }
    assert len(answers) == 1


def test_only_a_manager_makes_a_set_by_a_post(guarded):
    body = '{"changes":[{"loc":"http://a.example/","change":"created"}]}'
    for path, who, status in (
        ("/sets/newest", "publish", 403),
        ("/sets/newt", "manage", 403),
        ("/sets/news", "publish", 200),
        ("/sets/none", "other", 200),
    ):
        answer = guarded.ask("POST", f"{path}/changes", who, body, "application/json")
        assert answer.status == status, (path, who, answer)


# The right to the topic, which is in the form, or in its pings.
def test_the_hub_asks_for_the_right_to_the_topic(guarded, callbacks):
    callback = callbacks.add()
    topic = f"{guarded.broker.url}/sets/news/notifications"
    forms = (
        ("subscribe", {"hub.mode": "subscribe", "hub.topic": topic,
                       "hub.callback": callback.url}),
        ("publish", {"hub.mode": "publish", "hub.url": guarded.topic}),
    )
    for right, form in forms:
        body = urllib.parse.urlencode(form)
        for who in guarded.tokens:
            answer = guarded.ask("POST", "/hub", who, body, FORM)
            got = answer.status if answer.status in (401, 403) else None
            assert got == expected([right], who), (right, who, answer)


# A set that does not exist is not there for any token, whatever its rights.
def test_a_missing_set_is_missing_for_every_token(guarded):
    for who in ("subscribe", "other", "observe", "admin"):
        for path in ("/sets/nowhere", "/sets/nowhere/changelist.xml"):
            check_refused(guarded.ask("GET", path, who), 404, "nowhere")
    check_refused(guarded.ask("GET", "/sets/nowhere", "none"), 401)


# The first token closes the broker at once, and the last one leaves it closed.
def test_a_broker_stays_closed(start_broker):
    broker = start_broker()
    assert broker.get("/sets").status == 200
    admin = broker.add_token("admin", admin=True)
    assert broker.get("/sets", authorization=None).status == 401
    assert broker.delete("/tokens/admin").status == 204
    assert broker.get("/sets").status == 401
    broker.disconnect()
    broker.kill()
    broker.start()
    for token in (admin, None):
        field = token and f"Bearer {token}"
        assert broker.get("/sets", authorization=field).status == 401
    assert broker.get("/healthz", authorization=None).status == 200


# A shared cache would serve what it keeps to requests without a token.
def test_caches_keep_only_what_everyone_may_read(start_broker):
    broker = start_broker("--rotate-entries", "1")
    broker.add_token("admin", admin=True)
    news = broker.set().create()
    news.post(1)
    news.wait_list_files(1)
    path = f"/sets/{news.name}/changes/{LIST}.xml"
    assert broker.get(path)["Cache-Control"].startswith("private, max-age")
    broker.add_token("everyone", subscribe=[news.name])
    assert broker.get(path)["Cache-Control"].startswith("public, max-age")
