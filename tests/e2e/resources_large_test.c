/*
 * resources_large_test.c - PUT resources with bodies as sources have them: a
 * million resources, a crash in their middle, two versions of Debian's index.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/faults.h"
#include "tests/support/packages.h"
#include "tests/support/patience.h"
#include "tests/support/sanitized.h"
#include "tests/support/wholes.h"
#include "tests/test.h"

/* Entries of a large body: several blocks of it are written. */
#if IS_SANITIZED
#define MANY 25000
#else
#define MANY 1000000
#endif

/* Packages of the index that are told. */
#define PACKAGES (IS_SANITIZED ? 5000 : SIZE_MAX)

/* The caches of five databases, a part of 16 MiB, a fold of 4 MiB, and what
 * malloc keeps; 100 MB were measured. */
#define MANY_KIB ((size_t)160 * 1024)

/* Of one that is killed in the middle. */
#define COMMITS (IS_SANITIZED ? 4 : 20)

/* Size */

static void
add_many(struct buf *body, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_add_format(body,
                       "{\"loc\":\"http://example.com/resource/%zu\","
                       "\"length\":%zu,\"hash\":{\"md5\":\"%032zx\"}}\n",
                       i, i, i);
    assert_false(body->failed);
}

FIXTURE(wholes_setup, wholes_teardown);

/* R-026 is of documents: what a source tells is one stream. Memory is that of a
 * few blocks, whatever arrives. */
TEST(a_million_resources_take_bounded_memory)
{
    struct wholes *s = *state;
    struct buf body;

    buf_init(&body, SIZE_MAX);
    add_many(&body, MANY);
    wholes_put_as(&s->http, WHOLES_PATH, NDJSON, NULL, buf_slice(&body));
    wholes_assert_told(&s->http, MANY, 0, 0, 0, 0);
    print_message("%d resources, %zu bytes: %zu KiB\n", MANY, body.size,
                  broker_rss_kib(&s->broker));
    wholes_put_as(&s->http, WHOLES_PATH, NDJSON, NULL, buf_slice(&body));
    wholes_assert_told(&s->http, 0, 0, 0, MANY, 0);
    print_message("and again: %zu KiB\n", broker_rss_kib(&s->broker));
    if (!IS_SANITIZED)
        assert_true(broker_rss_kib(&s->broker) < MANY_KIB);
    buf_fini(&body);
    wholes_assert_nothing_left(s, MANY);
}

/* Crashes */

struct putter {
    pthread_t thread;
    struct broker *broker;
    struct buf body;
    long status;
};

static void *
put_all(void *user)
{
    struct putter *p = user;
    struct http h;

    http_open(&h, p->broker->url);
    p->status =
        wholes_put_as(&h, WHOLES_PATH, NDJSON, NULL, buf_slice(&p->body));
    http_close(&h);
    return NULL;
}

/* As long as it goes on. */
static void
await_files_gone(struct wholes *s)
{
    struct patience p = {.with = "the end of what was taken up again"};
    uint64_t last = 0, before;

    while (wholes_count(&s->broker) > 0) {
        before = last;
        last = wholes_last(&s->http);
        if (last != before)
            p.end_us = 0;
        patience_step(&p);
    }
}

/* all of it, and nothing twice. */
TEST(a_crash_between_the_commits_is_gone_on_from)
{
    struct wholes *s = *state;
    struct putter p = {.broker = &s->broker, .status = -1};
    struct patience repeated = {.with = "a PUT that is not refused"};
    size_t n = COMMITS * 10000;
    struct faults faults;

    buf_init(&p.body, SIZE_MAX);
    add_many(&p.body, n);
    broker_stop(&s->broker);
    faults_open(&faults);
    broker_restart(&s->broker);
    faults_arm(&faults, PLAN_SYNC, "tidings.db-wal", 1, PLAN_KILL);
    assert_int_equal(pthread_create(&p.thread, NULL, put_all, &p), 0);
    assert_int_equal(broker_wait(&s->broker), 128 + SIGKILL);
    faults_close(&faults);
    pthread_join(p.thread, NULL);
    assert_int_equal(p.status, 0);
    assert_int_equal(wholes_count(&s->broker), 2); /* .taken, .work */
    broker_restart(&s->broker);

    await_files_gone(s);
    assert_int_equal(wholes_last(&s->http), n);
    /* First its files go, then it is at work no more. */
    while (wholes_put_as(&s->http, WHOLES_PATH, NDJSON, NULL,
                         buf_slice(&p.body)) == 409)
        patience_step(&repeated);
    wholes_assert_told(&s->http, 0, 0, 0, n, 0);
    wholes_assert_nothing_left(s, n);
    buf_fini(&p.body);
}

/* Real input */

static void
add_package(struct buf *to, const struct posted *p, uint64_t more)
{
    buf_add_format(to, "<url><loc>%s</loc>", p->loc);
    if (p->sha256)
        buf_add_format(to,
                       "<rs:md hash=\"sha-256:%s\" length=\"%" PRIu64 "\"/>",
                       p->sha256, p->size + more);
    else
        buf_add_format(to, "<rs:md length=\"%" PRIu64 "\"/>", p->size + more);
    buf_add_text(to, "</url>\n");
}

/* Two versions of an index: every 10th package is another one in the second,
 * every 17th has gone, every 23rd is new. */
TEST(two_versions_of_a_package_index_differ_in_what_differs)
{
    static const char head[] =
        "<urlset xmlns='" NS_SITEMAP "' xmlns:rs='" NS_RS "'>"
        "<rs:md capability='resourcelist'/>\n";
    struct wholes *s = *state;
    uint64_t n = 0, created = 0, updated = 0, deleted = 0;
    struct packages packages;
    struct buf before, after;

    packages_open(&packages);
    buf_init(&before, SIZE_MAX);
    buf_init(&after, SIZE_MAX);
    buf_add_text(&before, head);
    buf_add_text(&after, head);
    for (size_t i = 0; i < packages.n && i < PACKAGES; i++) {
        const struct posted *p = &packages.all[i];
        bool is_new = i % 23 == 0, is_gone = !is_new && i % 17 == 0;
        bool is_updated = !is_new && !is_gone && i % 10 == 0;

        n++;
        created += is_new;
        deleted += is_gone;
        updated += is_updated;
        if (!is_new)
            add_package(&before, p, 0);
        if (!is_gone)
            add_package(&after, p, is_updated);
    }
    buf_add_text(&before, "</urlset>");
    buf_add_text(&after, "</urlset>");

    wholes_put_as(&s->http, WHOLES_PATH, XML, NULL, buf_slice(&before));
    wholes_assert_told(&s->http, n - created, 0, 0, 0, 0);
    wholes_put_as(&s->http, WHOLES_PATH, XML, NULL, buf_slice(&after));
    wholes_assert_told(&s->http, created, updated, deleted,
                       n - created - updated - deleted, 0);
    wholes_put_as(&s->http, WHOLES_PATH, XML, NULL, buf_slice(&after));
    wholes_assert_told(&s->http, 0, 0, 0, n - deleted, 0);

    buf_fini(&before);
    buf_fini(&after);
    packages_close(&packages);
}
