/*
 * retention_test.c - old lists go: the oldest first, and visibly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/folder.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

static const char *const json[] = {"Content-Type: application/json", NULL};

/* What GET /sets/{set} says. */
struct facts {
    char earliest[64];
    char position[64];
    uint64_t open, closed, file_bytes;
};

static struct facts
look(struct http *h, const char *set)
{
    struct facts f;
    struct jsonpath j;
    char path[80];

    snprintf(path, sizeof(path), "/sets/%s", set);
    assert_int_equal(http_get(h, path), 200);
    jsonpath_open(&j, buf_slice(&h->body));
    snprintf(f.earliest, sizeof(f.earliest), "%s",
             jsonpath_text(&j, "earliest"));
    snprintf(f.position, sizeof(f.position), "%s",
             jsonpath_text(&j, "position"));
    f.open = jsonpath_number(&j, "lists.open");
    f.closed = jsonpath_number(&j, "lists.closed");
    f.file_bytes = jsonpath_number(&j, "lists.fileBytes");
    jsonpath_close(&j);
    return f;
}

static struct facts
wait_for_closed(struct http *h, const char *set, uint64_t n)
{
    struct patience p = {.with = "closed lists to be written or forgotten"};
    struct facts f = look(h, set);

    while (f.closed != n) {
        patience_step(&p);
        f = look(h, set);
    }
    return f;
}

static uint64_t
seq_of(const char *position)
{
    unsigned long long n = 0;

    assert_int_equal(sscanf(strchr(position, '-'), "-%llu", &n), 1);
    return n;
}

/* The document names lists `from` and later, as many as `n`. */
static void
assert_names_lists(struct http *h, const char *path, const char *entry,
                   uint64_t from, uint64_t n)
{
    char expression[200];
    struct xpath x;

    assert_int_equal(http_get(h, path), 200);
    xpath_open(&x, buf_slice(&h->body));
    snprintf(expression, sizeof(expression), "//s:%s", entry);
    assert_xpath_count(&x, expression, n);
    snprintf(expression, sizeof(expression),
             "//s:%s[1]/s:loc[contains(., '/changes/%012llu.xml')]", entry,
             (unsigned long long)from);
    assert_xpath_count(&x, expression, 1);
    xpath_close(&x);
}

/* the earliest list moves forward in index and archive; R-345: what came
 * before is gone, and said to be, with where to restart. */
TEST(retains_the_latest_lists)
{
    struct broker b;
    struct jsonpath j;
    struct facts f;
    struct http h;

    broker_open(&b, "--rotate-entries", "2", "--retain-lists", "3",
                "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 17, 0); /* 8 closed lists and an entry */
    f = wait_for_closed(&h, "demo", 3);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(f.open, 9);
        assert_int_equal(seq_of(f.earliest), 10);
        assert_true(f.file_bytes > 0);
        assert_names_lists(&h, "/sets/demo/changelist.xml", "sitemap", 6, 4);
        assert_names_lists(&h, "/sets/demo/changelist-archive.xml", "url", 6,
                           3);
        http_get(&h, "/sets/demo/changes/000000000005.xml");
        assert_refused(&h, 410, "no longer kept");
        assert_int_equal(http_get(&h, "/sets/demo/changes/000000000006.xml"),
                         200);

        http_get(&h, "/sets/demo/changes?after=9");
        assert_refused(&h, 410, "no longer retained");
        jsonpath_open(&j, buf_slice(&h.body));
        assert_string_equal(jsonpath_text(&j, "earliest"), f.earliest);
        assert_string_equal(jsonpath_text(&j, "last"), f.position);
        assert_non_null(
            strstr(jsonpath_text(&j, "restart"), "/capabilitylist.xml"));
        jsonpath_close(&j);
        http_get(&h, "/sets/demo/changes?after=0");
        assert_refused(&h, 410, "no longer retained");

        assert_int_equal(http_get(&h, "/sets/demo/changes?after=10"), 200);
        jsonpath_open(&j, buf_slice(&h.body));
        assert_int_equal(jsonpath_number(&j, "changes.0.seq"), 11);
        assert_int_equal(jsonpath_count(&j, "changes"), 7);
        jsonpath_close(&j);
        assert_int_equal(http_get(&h, "/sets/demo/changes"), 200);
        jsonpath_open(&j, buf_slice(&h.body));
        assert_int_equal(jsonpath_number(&j, "after"), 10);
        jsonpath_close(&j);

        folder_await_lists(b.data, "demo", 3);
        broker_kill9(&b);
        broker_restart(&b);
        f = wait_for_closed(&h, "demo", 3);
    }
    http_close(&h);
    broker_close(&b);
}

/* Design section 4: a stream that asks for what is gone, and one that is left
 * behind, are closed with 4410 and the earliest position; one that begins there
 * gets all that is retained. */
TEST(tells_streams_what_is_gone)
{
    struct broker b;
    struct follower early, right, now;
    struct facts f;
    struct http h;
    char path[100];

    broker_open(&b, "--rotate-entries", "2", "--retain-lists", "2", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 11, 0);
    f = wait_for_closed(&h, "demo", 2);
    follower_open(&early, b.port, "/sets/demo/stream?after=5", NULL);
    follower_expect_close(&early, 4410);
    assert_non_null(strstr(early.close_reason, f.earliest));
    follower_close(&early);

    snprintf(path, sizeof(path), "/sets/demo/stream?after=%s", f.earliest);
    follower_open(&right, b.port, path, "resourcesync.xml");
    assert_int_equal(follower_next(&right)->last, 6); /* the heartbeat there */
    follower_until(&right, 11);
    follower_open(&now, b.port, "/sets/demo/stream", NULL);
    assert_int_equal(follower_next(&now)->last, 11);
    source_post(&h, "demo", 12, 1, 0);
    follower_until(&now, 12);
    follower_until(&right, 12);
    follower_close(&right);
    follower_close(&now);
    http_close(&h);
    broker_close(&b);
}

/* By age, of a set's own; the closed list that others have stays. The log goes
 * on where it was, also when no closed list is left and after a restart. */
TEST(retains_lists_by_age)
{
    struct broker b;
    struct facts f;
    struct xpath x;
    struct http h;

    broker_open(&b, "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 3, 0);
    source_rotate(&h, "demo");
    source_post(&h, "other", 1, 3, 0);
    source_rotate(&h, "other");
    assert_int_equal(look(&h, "demo").closed, 1);
    assert_int_equal(http_request(&h, "PUT", "/sets/demo", json,
                                  SLICE("{\"retainAge\":0.001}")),
                     200);
    f = wait_for_closed(&h, "demo", 0);
    folder_await_lists(b.data, "demo", 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(f.open, 2);
        assert_int_equal(seq_of(f.earliest), 3);
        assert_string_equal(f.earliest, f.position);
        assert_int_equal(f.file_bytes, 0);
        assert_int_equal(http_get(&h, "/sets/demo/changelist-archive.xml"),
                         404);
        assert_names_lists(&h, "/sets/demo/changelist.xml", "sitemap", 2, 1);
        assert_int_equal(http_get(&h, "/sets/demo/capabilitylist.xml"), 200);
        xpath_open(&x, buf_slice(&h.body));
        assert_xpath_count(&x, "//rs:md[@capability='changelist-archive']", 0);
        xpath_close(&x);
        if (round == 0)
            broker_kill9(&b);
        else
            broker_stop(&b);
        broker_restart(&b);
        f = look(&h, "demo");
    }
    assert_int_equal(source_post(&h, "demo", 4, 1, 0).first, 4);
    assert_int_equal(look(&h, "other").closed, 1);
    http_close(&h);
    broker_close(&b);
}

/* Files go later; who is reading a list that is no longer retained gets it
 * whole, and the list after it links to it as it always did. */
TEST(lets_readers_finish)
{
    struct broker b;
    struct wire *w;
    struct wire_answer a;
    struct xpath x;
    struct http h;
    char length[32], *body;
    size_t size = 0, got = 0;
    long n;

    broker_open(&b, "--remove-grace", "3600", NULL);
    http_open(&h, b.url);
    source_post(&h, "demo", 1, 100, 200000); /* 20 MB */
    source_rotate(&h, "demo");
    source_post(&h, "demo", 1, 1, 0);
    source_rotate(&h, "demo");
    folder_await_lists(b.data, "demo", 2);

    w = wire_connect_narrow("127.0.0.1", b.port);
    assert_non_null(w);
    assert_true(wire_send_text(w, "GET /sets/demo/changes/000000000001.xml "
                                  "HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_true(wire_answer_head(w, &a));
    assert_int_equal(a.status, 200);
    assert_true(wire_header(&a, "Content-Length", length, sizeof(length)));
    assert_int_equal(sscanf(length, "%zu", &size), 1);

    assert_int_equal(http_request(&h, "PUT", "/sets/demo", json,
                                  SLICE("{\"retainLists\":1}")),
                     200);
    wait_for_closed(&h, "demo", 1);
    http_get(&h, "/sets/demo/changes/000000000001.xml");
    assert_refused(&h, 410, "no longer kept");
    body = malloc(size);
    assert_non_null(body);
    while (got < size && (n = wire_read_some(w, body + got, size - got)) > 0)
        got += (size_t)n;
    assert_int_equal(got, size);
    assert_memory_equal(body + size - 10, "</urlset>\n", 10);
    free(body);
    wire_close(w);

    assert_int_equal(http_get(&h, "/sets/demo/changes/000000000002.xml"), 200);
    xpath_open(&x, buf_slice(&h.body));
    assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='prev']", 1);
    xpath_close(&x);
    assert_int_equal(folder_count_lists(b.data, "demo"), 2);
    http_close(&h);
    broker_close(&b);
}

/* A crash between the commit and the files, again and again: what was told as
 * gone stays so, what is retained stays whole. */
TEST(survives_sigkill_while_lists_go)
{
    struct broker b;
    struct facts f;
    struct http h;
    unsigned posted = 0;
    uint64_t earliest = 0;

    broker_open(&b, "--rotate-entries", "1", "--retain-lists", "2",
                "--remove-grace", "0", NULL);
    http_open(&h, b.url);
    for (unsigned round = 0; round < 10; round++) {
        char path[60];

        source_post(&h, "demo", 1, 20, 0);
        posted += 20;
        if (round % 2) {
            struct patience p = {.with = "the first files to go"};

            wait_for_closed(&h, "demo", 2);
            while (folder_count_lists(b.data, "demo") > 15)
                patience_look(&p);
        }
        broker_kill9(&b);
        broker_restart(&b);
        f = look(&h, "demo");
        assert_true(seq_of(f.earliest) >= earliest);
        earliest = seq_of(f.earliest);
        assert_int_equal(seq_of(f.position), posted);
        f = wait_for_closed(&h, "demo", 2);
        assert_int_equal(seq_of(f.earliest), posted - 2);
        snprintf(path, sizeof(path), "/sets/demo/changes/%012u.xml",
                 posted - 1);
        assert_int_equal(http_get(&h, path), 200);
        folder_await_lists(b.data, "demo", 2);
    }
    http_close(&h);
    broker_close(&b);
}
