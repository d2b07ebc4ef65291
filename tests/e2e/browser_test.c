/*
 * browser_test.c - pages of a real browser follow a set: EventSource,
 * WebSocket, and fetch with wait=.
 *
 * An open broker lets in pages of its own origin only; so the page is one of
 * its documents, and the scripts come from here.
 */
#include "tests/support/browser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/source.h"
#include "tests/test.h"

/* `seqs` are all that came, in order; `until(n)` waits for entry n. */
#define HELPERS                                                             \
    "var seqs = [], waiting = [];"                                          \
    "function take(text) {"                                                 \
    "  for (const c of JSON.parse(text).changes) seqs.push(c.seq);"         \
    "  waiting = waiting.filter(w => !w());"                                \
    "}"                                                                     \
    "function until(n) {"                                                   \
    "  return new Promise(done => {"                                        \
    "    const w = () => seqs.includes(n) && (done(seqs.join(' ')), true);" \
    "    if (!w()) waiting.push(w);"                                        \
    "  });"                                                                 \
    "}"

/* A broker whose set "news" has three entries, and a page of it. */
struct stage {
    struct broker broker;
    struct http http;
    struct browser browser;
};

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));
    char url[128];

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, NULL);
    http_open(&s->http, s->broker.url);
    source_post(&s->http, "news", 1, 3, 0);
    snprintf(url, sizeof(url), "%s/healthz", s->broker.url);
    browser_open(&s->browser, url);
    browser_expect(&s->browser, HELPERS "'ready'", "ready");
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    browser_close(&s->browser);
    http_close(&s->http);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

FIXTURE(set_up, tear_down);

/* the browser connects again by itself, and what was posted while
 * the broker was away comes once and in order. */
TEST(an_event_source_survives_a_restart)
{
    struct stage *s = *state;
    struct browser *b = &s->browser;

    browser_expect(b,
                   "var es = new EventSource('/sets/news/stream?after=1');"
                   "es.addEventListener('changes', e => take(e.data));"
                   "var farewells = 0;"
                   "es.addEventListener('farewell', e => farewells++);"
                   "until(3)",
                   "2 3");
    source_post(&s->http, "news", 4, 2, 0);
    browser_expect(b, "until(5)", "2 3 4 5");
    broker_stop(&s->broker);
    broker_restart(&s->broker);
    source_post(&s->http, "news", 6, 2, 0);
    browser_expect(b, "until(7)", "2 3 4 5 6 7");
    browser_expect(b, "'' + farewells", "1");
    broker_kill9(&s->broker);
    broker_restart(&s->broker);
    source_post(&s->http, "news", 8, 1, 0);
    browser_expect(b, "until(8)", "2 3 4 5 6 7 8");
}

/* it is told once that its position is gone, and does not ask for ever:
 * the second time it gets the answer that ends an EventSource. */
TEST(an_event_source_stops_when_its_position_is_gone)
{
    struct stage *s = *state;

    browser_expect(
        &s->browser,
        "new Promise(done => {"
        "  const es = new EventSource('/sets/news/stream?after=4000');"
        "  const got = [];"
        "  es.addEventListener('gone', e => {"
        "    const d = JSON.parse(e.data);"
        "    got.push('gone', d.last.split('-')[1], typeof d.restart);"
        "  });"
        "  es.onerror = () => {"
        "    got.push(es.readyState);"
        "    if (es.readyState == EventSource.CLOSED) done(got.join(' '));"
        "  };"
        "})",
        "gone 3 string 0 2");
}

TEST(a_websocket_gets_the_same)
{
    struct stage *s = *state;

    browser_expect(&s->browser,
                   "var ws = new WebSocket('ws://' + location.host +"
                   "  '/sets/news/stream?after=1', 'resourcesync.json');"
                   "ws.onmessage = e => take(e.data);"
                   "until(3)",
                   "2 3");
    source_post(&s->http, "news", 4, 2, 0);
    browser_expect(&s->browser, "until(5)", "2 3 4 5");
}

/* page by page, each where the one before says. */
TEST(fetch_waits_for_the_next_page)
{
    struct stage *s = *state;

    browser_expect(&s->browser,
                   "(async () => {"
                   "  let url = '/sets/news/changes?after=1', page;"
                   "  page = await (await fetch(url)).text();"
                   "  take(page);"
                   "  var next = JSON.parse(page).next;"
                   "  fetch(next + '&wait=300').then(r => r.text()).then(take);"
                   "  return seqs.join(' ');"
                   "})()",
                   "2 3");
    source_post(&s->http, "news", 4, 2, 0);
    browser_expect(&s->browser, "until(5)", "2 3 4 5");
}
