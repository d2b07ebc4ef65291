/*
 * memory_test.c - change memory: GET /sets/{set}/changes?after=POSITION.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/notice.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define MEMORY "/sets/news/changes"

/* Gets a page and reads it; checks it by itself, and its links. */
static void
get_page(struct broker *b, struct http *h, const char *path, struct notice *n)
{
    char self[256], next[256], link[600];

    assert_int_equal(http_get(h, path), 200);
    assert_string_equal(http_header(h, "Content-Type"), "application/json");
    notice_read(n, NOTICE_JSON, buf_slice(&h->body));
    notice_check(n);
    assert_string_equal(n->now, "");
    assert_string_equal(n->heartbeat, "");

    snprintf(self, sizeof(self), "%s" MEMORY "?after=%s-%" PRIu64, b->url,
             n->epoch, n->after);
    snprintf(next, sizeof(next), "%s" MEMORY "?after=%s-%" PRIu64, b->url,
             n->epoch, n->last);
    assert_non_null(n->next);
    assert_string_equal(n->next, next);
    snprintf(link, sizeof(link), "<%s>; rel=\"self\", <%s>; rel=\"next\"", self,
             next);
    assert_string_equal(http_header(h, "Link"), link);
}

/* R-342, with the example of the 2012 draft: 20 -> events 21, 22 -> next 22. */
TEST(gives_exactly_the_entries_after_a_position, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct notice n;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "news", 1, 22, 0);
    get_page(b, &h, MEMORY "?after=20", &n);

    assert_int_equal(n.n, 2);
    assert_int_equal(n.after, 20);
    assert_int_equal(n.last, 22);
    assert_string_equal(n.entries[0].loc, "http://example.com/r/21");
    assert_string_equal(n.entries[1].loc, "http://example.com/r/22");
    notice_free(&n);
    get_page(b, &h, MEMORY, &n); /* from the beginning */
    assert_int_equal(n.n, 22);
    notice_free(&n);
    http_close(&h);
}

/* an empty answer is valid, and its next is its self. */
TEST(is_empty_at_the_head, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct receipt posted;
    struct notice n;
    struct http h;
    char path[128];

    http_open(&h, b->url);
    posted = source_post(&h, "news", 1, 5, 0);
    snprintf(path, sizeof(path), MEMORY "?after=%s", posted.position);
    for (int i = 0; i < 3; i++) {
        get_page(b, &h, path, &n);
        assert_int_equal(n.n, 0);
        assert_int_equal(n.after, 5);
        assert_string_equal(n.until, posted.datetime);
        assert_string_equal(n.next + strlen(b->url), path);
        notice_free(&n);
    }
    source_post(&h, "news", 6, 1, 0);
    get_page(b, &h, path, &n);
    assert_int_equal(n.n, 1);
    notice_free(&n);
    http_close(&h);
}

struct poster {
    unsigned port;
    bool is_posted; /* all of it, when the thread has ended */
    pthread_t thread;
};

/* 20,000 entries, in posts of many sizes. A thread must not end a test. */
static void *
post_many(void *user)
{
    struct poster *p = user;
    struct wire *w = wire_connect("127.0.0.1", p->port);
    struct wire_answer a;
    struct buf body;
    unsigned n = 0;

    p->is_posted = w != NULL;
    buf_init(&body, 1 << 20);
    for (unsigned i = 0; p->is_posted && n < 20000; i++) {
        unsigned more = i % 3 == 0 ? 1 : i % 3 == 1 ? 40 : 900;

        more = more < 20000 - n ? more : 20000 - n;
        buf_clear(&body);
        source_entries(&body, n, more, 0);
        buf_add(&body, "", 1);
        p->is_posted =
            wire_request(w, "POST", MEMORY,
                         "Content-Type: application/json\r\n", body.data, &a) &&
            a.status == 200;
        n += more;
    }
    buf_fini(&body);
    wire_close(w);
    return NULL;
}

/* following next gives every entry once while posting goes on. Where two
 * pages meet, seq, time and digest do (notice_check_chain). */
TEST(pages_give_every_entry_once_while_posting_goes_on, broker_setup,
     broker_teardown)
{
    struct broker *b = broker_of(state);
    struct poster p = {.port = b->port};
    struct notice page, before;
    struct http h;

    http_open(&h, b->url);
    source_post(&h, "news", 0, 1, 0);
    get_page(b, &h, MEMORY "?after=0", &before);
    assert_int_equal(pthread_create(&p.thread, NULL, post_many, &p), 0);
    while (before.last < 20001) {
        char path[256];

        snprintf(path, sizeof(path), "%s", before.next + strlen(b->url));
        get_page(b, &h, path, &page);
        notice_check_chain(&before, &page);
        assert_in_range(page.n, 0, 50000);
        notice_free(&before);
        before = page;
    }
    assert_int_equal(before.last, 20001);
    notice_free(&before);
    assert_int_equal(pthread_join(p.thread, NULL), 0);
    assert_true(p.is_posted);
    http_close(&h);
}

/* The memory and the stream tell the same, digests included; the digest of a
 * seq is that of the list's root at that seq. */
TEST(says_what_the_stream_and_the_list_say, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct follower f;
    struct notice n;
    struct xpath x;
    struct http h;
    uint64_t after = 1;

    http_open(&h, b->url);
    source_post(&h, "news", 0, 1, 0);
    follower_open(&f, b->port, "/sets/news/stream", "resourcesync.xml");
    follower_next(&f);
    for (unsigned i = 1; i < 30; i++) {
        char path[64];

        source_post(&h, "news", i, i, 0);
        follower_news(&f);
        snprintf(path, sizeof(path), MEMORY "?after=%" PRIu64, after);
        get_page(b, &h, path, &n);

        assert_int_equal(n.last, f.notice.last);
        assert_string_equal(n.digest, f.notice.digest);
        assert_string_equal(n.from, f.notice.from);
        assert_string_equal(n.until, f.notice.until);
        for (size_t k = 0; k < n.n; k++)
            assert_string_equal(n.entries[k].loc, f.notice.entries[k].loc);
        assert_int_equal(http_get(&h, "/sets/news/changelist.xml"), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_text(&x, "string(/s:urlset/rs:md/@td:digest)", n.digest);
        xpath_close(&x);
        after = n.last;
        notice_free(&n);
    }
    follower_close(&f);
    http_close(&h);
}

/* Also from closed lists. */
TEST(reads_on_from_one_list_into_the_next)
{
    struct broker b;
    struct notice n;
    struct http h;
    uint64_t last = 0;

    broker_open(&b, "--rotate-entries", "7", NULL);
    http_open(&h, b.url);
    source_post(&h, "news", 0, 100, 0);
    while (last < 100) {
        char path[64];

        snprintf(path, sizeof(path), MEMORY "?after=%" PRIu64, last);
        get_page(&b, &h, path, &n);
        assert_int_equal(n.after, last);
        assert_true(n.n > 0);
        last = n.last;
        notice_free(&n);
    }
    assert_int_equal(last, 100);
    http_close(&h);
    broker_stop(&b);
    broker_close(&b);
}

/* what is malformed, of another log or ahead gets a clear error. */
TEST(refuses_positions_that_it_cannot_serve, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);

    static const struct {
        const char *after; /* "%s" is the epoch */
        long status;
    } cases[] = {
        {"x", 400},           {"", 400},
        {"-5", 400},          {"%s", 400},
        {"%s-", 400},         {"%s-1-1", 400},
        {"5%%2B1", 400},      {"18446744073709551616", 400},
        {"%s-6", 410},        {"6", 410},
        {"%s-99999999", 410}, {"0123456789abcdef-1", 410},
    };
    struct receipt posted;
    char epoch[33], earliest[64], restart[128];
    struct http h;

    http_open(&h, b->url);
    posted = source_post(&h, "news", 1, 5, 0);
    snprintf(epoch, sizeof(epoch), "%.*s", (int)strcspn(posted.position, "-"),
             posted.position);
    snprintf(earliest, sizeof(earliest), "%s-0", epoch);
    snprintf(restart, sizeof(restart), "%s/sets/news/capabilitylist.xml",
             b->url);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char path[128] = MEMORY "?after=";
        size_t size = strlen(path);
        struct jsonpath j;

        snprintf(path + size, sizeof(path) - size, cases[i].after, epoch);
        if (http_get(&h, path) != cases[i].status)
            fail_msg("%s: %ld", path, h.status);
        assert_string_equal(http_header(&h, "Content-Type"),
                            "application/problem+json");
        jsonpath_open(&j, buf_slice(&h.body));
        assert_int_equal(jsonpath_number(&j, "status"), cases[i].status);
        assert_non_null(strstr(jsonpath_text(&j, "detail"), "position"));
        if (cases[i].status == 410) {
            assert_string_equal(jsonpath_text(&j, "earliest"), earliest);
            assert_string_equal(jsonpath_text(&j, "last"), posted.position);
            assert_string_equal(jsonpath_text(&j, "restart"), restart);
        }
        jsonpath_close(&j);
    }
    assert_int_equal(http_get(&h, "/sets/capabilitylist.xml/changes"), 404);
    assert_int_equal(http_get(&h, restart + strlen(b->url)), 200);
    http_close(&h);
}
