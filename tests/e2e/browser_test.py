"""Pages of a real browser follow a set: EventSource, WebSocket, and fetch with wait=.

An open broker lets in pages of its own origin only; so the page is one of its
documents, and the scripts come from here. Debian's chromium speaks the DevTools
protocol on two pipes: JSON and a NUL byte each way.
"""

import json

import pytest

from tidings_test.process import Process

# Chromium's sandbox does not work for root, and root may run a test. Commands come on
# descriptor 3, answers go to 4.
CHROMIUM = """exec /usr/bin/chromium --headless --no-sandbox --disable-gpu \
--disable-dev-shm-usage --no-first-run --disable-background-networking \
--no-proxy-server --remote-debugging-pipe --user-data-dir="$0" about:blank \
3<&0 4>&1 </dev/null >/dev/null 2>/dev/null"""

# `seqs` are all that came, in order; `until(n)` waits for entry n.
HELPERS = """
var seqs = [], waiting = [];
function take(text) {
    for (const c of JSON.parse(text).changes) seqs.push(c.seq);
    waiting = waiting.filter(w => !w());
}
function until(n) {
    return new Promise(done => {
        const w = () => seqs.includes(n) && (done(seqs.join(' ')), true);
        if (!w()) waiting.push(w);
    });
}
new Promise(done => {
    if (document.readyState == 'complete') done(location.href);
    addEventListener('load', () => done(location.href));
})
"""


class Browser:
    """A browser without a window, for pages of all tests."""

    def __init__(self, profile):
        self.calls = 0
        command = ("/bin/sh", "-c", CHROMIUM, profile)
        self.process = Process(*command, reads_output=False)

    def call(self, method, session=None, **parameters):
        """Call a method of the protocol; its result. Events are dropped."""
        self.calls += 1
        command = {"id": self.calls, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        self.process.give(json.dumps(command) + "\0")
        while (answer := self._read()).get("id") != self.calls:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _read(self):
        text = bytearray()
        while (byte := self.process.popen.stdout.read(1)) != b"\0":
            assert byte, f"the browser has ended: {bytes(text)}"
            text += byte
        return json.loads(text)

    def end(self):
        """Close it, and wait for all of its processes: the pipe ends with the last."""
        self.process.give('{"id": 0, "method": "Browser.close"}\0')
        self.process.popen.stdout.read()
        self.process.wait()


class Page:
    """A page of a broker."""

    def __init__(self, browser, broker):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")
        attached = browser.call("Target.attachToTarget", flatten=True, **self.target)
        self.session = attached["sessionId"]
        url = f"{broker.url}/healthz"
        browser.call("Page.navigate", self.session, url=url)
        self.expect(HELPERS, url)

    def expect(self, expression, value):
        """The expression has that value; a promise is awaited."""
        call = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        result = self.browser.call("Runtime.evaluate", self.session, **call)
        assert "exceptionDetails" not in result, result
        assert result["result"]["value"] == value

    def close(self):
        self.browser.call("Target.closeTarget", **self.target)


@pytest.fixture(scope="module")
def browser(module_path):
    browser = Browser(module_path / "profile")
    yield browser
    browser.end()


@pytest.fixture
def page(browser, broker):
    page = Page(browser, broker)
    yield page
    page.close()


@pytest.fixture
def news(news):
    news.post(3)
    return news


EVENT_SOURCE = """
    var es = new EventSource('%s?after=1');
    es.addEventListener('changes', e => take(e.data));
    var farewells = 0;
    es.addEventListener('farewell', e => farewells++);
    until(3)
"""


# the browser connects again by itself, and gets posts of the meantime
# once and in order. Two brokers are away at once, since a browser waits 1 to 3 seconds
# before it connects again.
def test_an_event_source_survives_a_restart(start_broker, browser):
    stopped, killed = brokers = [start_broker(), start_broker()]
    sets = [broker.set() for broker in brokers]
    pages = [Page(browser, broker) for broker in brokers]
    for news, page in zip(sets, pages):
        news.post(3)
        page.expect(EVENT_SOURCE % news.stream, "2 3")
        news.post(2)
        page.expect("until(5)", "2 3 4 5")
    stopped.stop()
    killed.kill()
    for broker, news in zip(brokers, sets):
        broker.restart()
        news.post(2)
    for page, farewells in zip(pages, (1, 0)):
        page.expect("until(7)", "2 3 4 5 6 7")
        page.expect("farewells", farewells)
        page.close()


# the broker reports once that the position is gone, and the browser does not
# repeat its request for ever: the second time it gets the answer that ends an
# EventSource.
def test_an_event_source_stops_when_its_position_is_gone(page, news):
    follow = """
        new Promise(done => {
            const es = new EventSource('%s?after=4000');
            const got = [];
            es.addEventListener('gone', e => {
                const d = JSON.parse(e.data);
                got.push('gone', d.last.split('-')[1], typeof d.restart);
            });
            es.onerror = () => {
                got.push(es.readyState);
                if (es.readyState == EventSource.CLOSED) done(got.join(' '));
            };
        })
    """
    page.expect(follow % news.stream, "gone 3 string 0 2")


def test_a_websocket_gets_the_same(page, news):
    follow = """
        var ws = new WebSocket('ws://' + location.host + '%s?after=1',
                               'resourcesync.json');
        ws.onmessage = e => take(e.data);
        until(3)
    """
    page.expect(follow % news.stream, "2 3")
    news.post(2)
    page.expect("until(5)", "2 3 4 5")


# page by page, each where the one before says.
def test_fetch_waits_for_the_next_page(page, news):
    follow = """
        (async () => {
            const page = await (await fetch('%s?after=1')).text();
            take(page);
            const next = JSON.parse(page).next;
            fetch(next + '&wait=300').then(r => r.text()).then(take);
            return seqs.join(' ');
        })()
    """
    page.expect(follow % news.changes, "2 3")
    news.post(2)
    page.expect("until(5)", "2 3 4 5")


# A page of another origin, with a token: tickets for an EventSource, a subprotocol for a
# WebSocket, a field for fetch. The page is a document of another broker.
GUEST = """
var broker = '%s', set = broker + '/sets/news', auth = {Authorization: 'Bearer %s'};
async function ticket() {
    const made = await fetch(broker + '/tickets', {method: 'POST', headers: auth});
    return (await made.json()).ticket;
}
async function events(after) {
    const url = set + '/stream?after=' + after + '&ticket=' + await ticket();
    new EventSource(url).addEventListener('changes', e => take(e.data));
}
function socket(after) {
    const url = set.replace('http', 'ws') + '/stream?after=' + after;
    const token = auth.Authorization.replace('Bearer ', 'bearer.');
    new WebSocket(url, ['resourcesync.json', token]).onmessage = e => take(e.data);
}
async function post() {
    const headers = {...auth, 'Content-Type': 'application/json'};
    const body = JSON.stringify({loc: 'http://example.com/p', change: 'created'});
    return (await fetch(set + '/changes', {method: 'POST', headers, body})).status;
}
async function outcome(made) {
    try { return await made(); } catch (e) { return e.name; }
}
1
"""


def guarded_news(start_broker, *options):
    """A broker with a set of three entries that needs a token, and the token."""
    broker = start_broker(*options)
    root = broker.add_token("root", admin=True)
    broker.set("news").create().post(3)
    return broker, root


def test_a_page_of_an_allowed_origin_streams_and_posts(start_broker, broker, browser):
    guarded, root = guarded_news(start_broker, "--allow-origins", broker.url)
    page = Page(browser, broker)
    page.expect(GUEST % (guarded.url, root), 1)
    page.expect("events(0); until(3)", "1 2 3")
    page.expect("post()", 200)
    page.expect("until(4)", "1 2 3 4")
    page.expect("seqs = []; socket(2); until(4)", "3 4")
    page.close()


def test_a_page_of_a_foreign_origin_gets_nothing(start_broker, broker, browser):
    guarded, root = guarded_news(start_broker)
    page = Page(browser, broker)
    page.expect(GUEST % (guarded.url, root), 1)
    page.expect("outcome(post)", "TypeError")
    page.expect("outcome(ticket)", "TypeError")
    page.expect("outcome(() => fetch(set))", "TypeError")
    shut = """new Promise(done => {
        const token = auth.Authorization.replace('Bearer ', 'bearer.');
        const url = set.replace('http', 'ws') + '/stream';
        const ws = new WebSocket(url, ['resourcesync.json', token]);
        ws.onopen = () => done('open');
        ws.onclose = () => done('closed');
    })"""
    page.expect(shut, "closed")
    page.close()
    assert guarded.get("/sets/news").json()["last"] == 3
