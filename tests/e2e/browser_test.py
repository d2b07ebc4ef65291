"""Pages of a real browser follow a set: EventSource, WebSocket, and fetch with wait=.

An open broker lets in pages of its own origin only; so the page is one of its
documents, and the scripts come from here.
"""

import pytest

from tidings_test.browser import Page

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
1
"""


def open_page(browser, broker):
    page = Page(browser, broker)
    page.expect(HELPERS, 1)
    return page


@pytest.fixture
def page(browser, broker):
    page = open_page(browser, broker)
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
    pages = [open_page(browser, broker) for broker in brokers]
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
    page = open_page(browser, broker)
    page.expect(GUEST % (guarded.url, root), 1)
    page.expect("events(0); until(3)", "1 2 3")
    page.expect("post()", 200)
    page.expect("until(4)", "1 2 3 4")
    page.expect("seqs = []; socket(2); until(4)", "3 4")
    page.close()


def test_a_page_of_a_foreign_origin_gets_nothing(start_broker, broker, browser):
    guarded, root = guarded_news(start_broker)
    page = open_page(browser, broker)
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
