/*
 * resources_others_test.c - PUT resources among others: who post to the same
 * set, tell other sets, remove it, or go away; and what is lost and full.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/build.h"
#include "tests/support/faults.h"
#include "tests/support/jsonpath.h"
#include "tests/support/refusal.h"
#include "tests/support/samples.h"
#include "tests/support/tls_stage.h"
#include "tests/support/wholes.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

/* Of a body whose writing, comparing and telling take several steps. */
#define RESOURCES 12000

static int
open_tls(void **state)
{
    TLS_STAGE_OPEN(state, "--tail-bytes", "4M");
    return 0;
}

TEST(what_others_tell_meanwhile_is_newer, wholes_setup, wholes_teardown)
{
    static const char body[] = SITEMAP(URL_OF("both", "2020-01-01") URL("gone")
                                           URL("mine") URL("kept"));
    struct wholes *s = *state;
    struct http *h = &s->http;
    struct wire_answer a;
    struct wire *w;
    struct xpath x;

    wholes_put(h, XML, SITEMAP(URL("both") URL("gone") URL("kept")));
    wholes_assert_told(h, 3, 0, 0, 0, 0);
    w = wholes_begin(&s->broker, WHOLES_PATH, sizeof(body) - 1);
    assert_true(wire_send(w, body, 100));
    assert_int_equal(http_post(h, "/sets/demo/changes", NDJSON,
                               SLICE("{\"loc\":\"http://example.com/both\","
                                     "\"change\":\"updated\",\"length\":7}\n"
                                     "{\"loc\":\"http://example.com/gone\","
                                     "\"change\":\"deleted\"}\n"
                                     "{\"loc\":\"http://example.com/theirs\","
                                     "\"change\":\"created\"}\n")),
                     200);
    /* It is in the state when that is compared: how many are newer is known
     * then, and not found out by and by. */
    assert_int_equal(build(h, "/sets/demo/resourcelist"), 200);
    assert_true(wire_send(w, body + 100, sizeof(body) - 1 - 100));
    assert_true(wire_answer(w, &a, false));

    assert_int_equal(a.status, 200);
    if (!strstr(a.body, "\"created\":1,\"updated\":0,\"deleted\":0,"
                        "\"unchanged\":1,\"newer\":3,"
                        "\"first\":7,\"last\":7"))
        fail_msg("%s", a.body);
    assert_int_equal(http_get(h, "/sets/demo/changelist.xml"), 200);
    xpath_open(&x, buf_slice(&h->body));
    assert_xpath_count(&x, "//s:url", 7);
    assert_xpath_text(&x, "//s:url[7]/s:loc", "http://example.com/mine");
    xpath_close(&x);
    wire_close(w);
}

TEST(one_at_a_time_of_a_set, wholes_setup, wholes_teardown)
{
    static const char body[] = SITEMAP(URL("a"));
    struct wholes *s = *state;
    struct http *h = &s->http;
    struct wire *w = wholes_begin(&s->broker, WHOLES_PATH, sizeof(body) - 1);
    struct wire_answer a;

    wholes_put(h, XML, body);
    assert_refused(h, 409, "being told already");
    assert_string_equal(http_header(h, "Retry-After"), "1");
    wholes_put_as(h, "/sets/other/resources", XML, NULL, slice_of(body));
    assert_int_equal(h->status, 200);

    assert_true(wire_send(w, body, sizeof(body) - 1));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    wholes_put(h, XML, body);
    wholes_assert_told(h, 0, 0, 0, 1, 0);
    wire_close(w);
}

/* Tries until the set is free again: what the end of a connection takes along
 * goes on the worker pool. */
TEST(a_client_that_goes_away_leaves_nothing, wholes_setup, wholes_teardown)
{
    struct wholes *s = *state;
    struct wire *w = wholes_begin(&s->broker, WHOLES_PATH, 100000);

    assert_true(wire_send_text(w, "<urlset xmlns='" NS_SITEMAP "'>" URL("a")));
    wire_abort(w);
    do {
        wholes_put(&s->http, XML, SITEMAP(URL("b")));
    } while (s->http.status == 409);

    wholes_assert_told(&s->http, 1, 0, 0, 0, 0);
    wholes_assert_nothing_left(s, 1);
}

TEST(a_set_that_is_removed_meanwhile_stays_removed, wholes_setup,
     wholes_teardown)
{
    static const char body[] = SITEMAP(URL("a") URL("b"));
    struct wholes *s = *state;
    struct wire_answer a;
    struct wire *w;

    wholes_put(&s->http, XML, SITEMAP(URL("a")));
    w = wholes_begin(&s->broker, WHOLES_PATH, sizeof(body) - 1);
    assert_int_equal(http_ask(&s->http, "DELETE", "/sets/demo", NULL), 204);
    assert_true(wire_send(w, body, sizeof(body) - 1));
    assert_true(wire_answer(w, &a, false));

    assert_wire_refused(&a, 410, "the set was removed meanwhile");
    assert_int_equal(http_get(&s->http, "/sets/demo"), 410);
    assert_int_equal(wholes_count(&s->broker), 0);
    wire_close(w);
}

/* Many */

#define UPLOADS_MAX 16

static void
name_path(char *to, size_t size, unsigned n)
{
    snprintf(to, size, "/sets/s%u/resources", n);
}

/* Each takes some memory, so there is an end; who comes later is asked to come
 * again, and comes through when one of them has. */
TEST(sixteen_sets_are_told_at_once_and_no_more, wholes_setup, wholes_teardown)
{
    static const char body[] = SITEMAP(URL("a"));
    static struct samples now;
    struct wholes *s = *state;
    struct wire *wires[UPLOADS_MAX];
    struct wire_answer a;
    char path[64];

    for (unsigned i = 0; i < UPLOADS_MAX; i++) {
        name_path(path, sizeof(path), i);
        wires[i] = wholes_begin(&s->broker, path, sizeof(body) - 1);
    }
    name_path(path, sizeof(path), UPLOADS_MAX);
    wholes_put_as(&s->http, path, XML, NULL, slice_of(body));
    assert_refused(&s->http, 503, "resources of 16 sets are being told");
    assert_non_null(http_header(&s->http, "Retry-After"));
    samples_get(&now, &s->http);
    samples_assert(&now, "tidings_uploads_at_work", UPLOADS_MAX);
    samples_assert(&now, "tidings_uploads_rejected_total{code=\"503\"}", 1);

    assert_true(wire_send(wires[0], body, sizeof(body) - 1));
    assert_true(wire_answer(wires[0], &a, false));
    assert_int_equal(a.status, 200);
    wholes_put_as(&s->http, path, XML, NULL, slice_of(body));
    wholes_assert_told(&s->http, 1, 0, 0, 0, 0);
    for (unsigned i = 1; i < UPLOADS_MAX; i++) {
        assert_true(wire_send(wires[i], body, sizeof(body) - 1));
        assert_true(wire_answer(wires[i], &a, false));
        assert_int_equal(a.status, 200);
    }
    for (unsigned i = 0; i < UPLOADS_MAX; i++)
        wire_close(wires[i]);
    samples_get(&now, &s->http);
    samples_assert(&now, "tidings_uploads_at_work", 0);
    samples_assert(&now, "tidings_uploads_total", UPLOADS_MAX + 1);
}

/* What is lost, and full */

#define HISTORY 9

/* The log lets go of what came before its last list, then the state is lost, as
 * by somebody who cleans up. Told whole by its source, the set has a Resource
 * List again. */
TEST(a_set_without_its_history_is_whole_when_it_was_told, wholes_setup,
     wholes_teardown)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    static const char body[] = SITEMAP(URL("a") URL("b"));
    struct wholes *s = *state;
    struct http *h = &s->http;
    struct xpath x;
    char path[400];

    http_close(h);
    broker_close(&s->broker);
    broker_open(&s->broker, "--rotate-entries", "3", "--retain-lists", "1",
                "--remove-grace", "0", NULL);
    http_open(h, s->broker.url);
    for (unsigned i = 0; i < HISTORY; i++) {
        snprintf(path, sizeof(path),
                 "{\"loc\":\"http://example.com/%u\",\"change\":\"created\"}",
                 i);
        assert_int_equal(
            http_post(h, "/sets/demo/changes", NDJSON, slice_of(path)), 200);
    }
    while (http_get(h, "/sets/demo/changes/000000000001.xml") != 410)
        ;
    broker_stop(&s->broker);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/sets/demo/resources.db%s",
                 s->broker.data, suffixes[i]);
        unlink(path);
    }
    broker_restart(&s->broker);
    assert_int_equal(http_post(h, "/sets/demo/resourcelist", NULL, SLICE("")),
                     410);
    assert_non_null(memmem(h->body.data, h->body.size,
                           "before its source tells all resources anew", 42));

    wholes_put_as(h, WHOLES_PATH "?max-delete=100", XML, NULL, slice_of(body));
    assert_int_equal(h->status, 200);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);
    assert_int_equal(build(h, "/sets/demo/resourcelist"), 200);
    assert_int_equal(http_get(h, "/sets/demo/resourcelist.xml"), 200);
    xpath_open(&x, buf_slice(&h->body));
    assert_xpath_count(&x, "/s:urlset/s:url", 2);
    xpath_close(&x);
}

/* The disk is full while the body arrives, while it is compared, while it is
 * told: nothing of it is left, or what was told is unchanged the next time. */
TEST(a_full_disk_is_told_and_the_same_request_repeated, wholes_setup,
     wholes_teardown)
{
    static const struct {
        const char *name;
        int skip;
    } cases[] = {
        {"uploads/demo.new", 0},  {"uploads/demo.new", 20},
        {"uploads/demo.work", 0}, {"tidings.db-wal", 0},
        {"tidings.db-wal", 30},
    };
    struct wholes *s = *state;
    struct http *h = &s->http;
    struct faults f;
    struct buf body;

    http_close(h);
    broker_close(&s->broker);
    faults_open(&f);
    broker_open(&s->broker, "--tail-bytes", "4M", NULL);
    http_open(h, s->broker.url);
    buf_init(&body, SIZE_MAX);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t before = wholes_last(h), last;
        struct jsonpath j;

        buf_clear(&body);
        for (unsigned n = 0; n < RESOURCES; n++)
            buf_add_format(&body,
                           "{\"loc\":\"http://example.com/r/%u\","
                           "\"length\":%zu}\n",
                           n, i);
        faults_arm(&f, PLAN_WRITE, cases[i].name, cases[i].skip, ENOSPC);
        wholes_put_as(h, WHOLES_PATH, NDJSON, NULL, buf_slice(&body));
        assert_int_equal(h->status, 503);
        assert_non_null(http_header(h, "Retry-After"));
        assert_true(faults_disarm(&f) > 0);
        last = wholes_last(h);
        wholes_assert_nothing_left(s, last);

        wholes_put_as(h, WHOLES_PATH, NDJSON, NULL, buf_slice(&body));
        assert_int_equal(h->status, 200);
        jsonpath_open(&j, buf_slice(&h->body));
        assert_int_equal(jsonpath_number(&j, "unchanged"), last - before);
        jsonpath_close(&j);
        wholes_assert_nothing_left(s, before + RESOURCES);
    }
    faults_set_disk(&f, 1 << 20);
    while (wholes_put(h, XML, SITEMAP("")) == 409)
        ; /* the log looks once a second */
    assert_refused(h, 503, "the disk is nearly full");
    buf_fini(&body);
    faults_close(&f);
}

TEST(all_of_it_comes_by_tls_as_well, open_tls, tls_stage_teardown)
{
    struct tls_stage *s = *state;

    wholes_put_as(&s->http, WHOLES_PATH, XML, NULL,
                  SLICE(SITEMAP(URL("a") URL("b"))));
    wholes_assert_told(&s->http, 2, 0, 0, 0, 0);
    wholes_put_as(&s->http, WHOLES_PATH "?max-delete=50", XML, NULL,
                  SLICE(SITEMAP(URL("b") URL("c"))));
    wholes_assert_told(&s->http, 1, 0, 1, 1, 0);
}
