/*
 * content_fetch_test.c - sets with content=fetch: the broker gets what changes
 * have told of, keeps what is as told, and has manners. One fetch, whatever the
 * other side does: tests/unit/archive/fetcher_test.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/hash.h"
#include "tests/support/broker.h"
#include "tests/support/faults.h"
#include "tests/support/folder.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/samples.h"
#include "tests/support/site.h"
#include "tests/support/source.h"
#include "tests/test.h"
#include "tests/unit/net/odd.h"

#define FETCHED    "tidings_fetched_total"
#define GIVEN_UP   "tidings_fetches_given_up_total"
#define FAILED(by) "tidings_fetches_failed_total{reason=\"" by "\"}"

/* Fetches that fail are tried again at once, so that nobody waits. */
#define AT_ONCE                                                               \
    "--content", "fetch", "--fetch-retry-first", "0.01", "--fetch-retry-max", \
        "0.02"

struct stage {
    struct broker broker;
    struct http http;
    struct site *site, *other;
    struct samples samples;
};

static struct stage *
stage_new(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    s->site = site_new();
    s->other = site_new();
    return s;
}

#define STAGE_OPEN(state, ...) stage_begin(stage_new(state), __VA_ARGS__, NULL)

static struct stage *
stage_begin(struct stage *s, ...)
{
    const char *o[12] = {NULL};
    va_list args;

    va_start(args, s);
    for (int i = 0; i < 12 && (o[i] = va_arg(args, const char *)); i++)
        ;
    va_end(args);
    broker_open(&s->broker, o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7],
                o[8], o[9], o[10], o[11], NULL);
    http_open(&s->http, s->broker.url);
    return s;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    site_free(s->site);
    site_free(s->other);
    free(s);
    return 0;
}

/* Telling */

/* Posts that `loc` was created. NULL, or length < 0: that is not told. */
static void
tell(struct stage *s, const char *loc, const char *hash, long length)
{
    char text[700];
    int n = snprintf(text, sizeof(text),
                     "{\"loc\":\"%s\",\"change\":\"updated\"", loc);

    if (hash)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      ",\"hash\":{\"%.*s\":\"%s\"}", (int)strcspn(hash, ":"),
                      hash, strchr(hash, ':') + 1);
    if (length >= 0)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ",\"length\":%ld",
                      length);
    snprintf(text + n, sizeof(text) - (size_t)n, "}");
    if (source_send(&s->http, "demo", "application/json", slice_of(text),
                    NULL) != 200)
        fail_msg("%s: %.*s", text, (int)s->http.body.size, s->http.body.data);
}

static const char *
sha256(const char *bytes)
{
    static char text[DIGEST_TEXT_SIZE + 1];
    struct digest digest;

    digest_sha256(&digest, slice_of(bytes));
    digest_write(text, &digest);
    return text;
}

/* Puts a page at the site, and tells of it what is true. */
static void
offer(struct stage *s, struct site *site, const char *path, const char *bytes)
{
    site_put(site, path, "text/plain", slice_of(bytes));
    tell(s, site_link(site, path), sha256(bytes), (long)strlen(bytes));
}

/* What is there */

static bool
is_kept(struct stage *s, const char *bytes)
{
    const char *hex = sha256(bytes) + strlen("sha-256:");
    char path[500], text[1000] = "";
    FILE *file;

    snprintf(path, sizeof(path), "%s/sets/demo/content/%.2s/%s", s->broker.data,
             hex, hex);
    file = fopen(path, "re");
    if (!file)
        return false;
    assert_int_equal(fread(text, 1, sizeof(text), file), strlen(bytes));
    assert_string_equal(text, bytes);
    fclose(file);
    return true;
}

static void
await_kept(struct stage *s, const char *bytes)
{
    struct patience p = {.with = bytes};

    while (!is_kept(s, bytes))
        patience_step(&p);
}

static void
await_metric(struct stage *s, const char *series, double n)
{
    samples_await_least(&s->samples, &s->http, series, n);
    samples_get(&s->samples, &s->http); /* and all that belongs to it */
    samples_assert(&s->samples, series, n);
}

static uint64_t
content(struct stage *s, const char *member)
{
    struct jsonpath j;
    uint64_t n;

    assert_int_equal(http_get(&s->http, "/sets/demo"), 200);
    jsonpath_open(&j, buf_slice(&s->http.body));
    n = jsonpath_number(&j, member);
    jsonpath_close(&j);
    return n;
}

/* It is told a moment after the file is there. */
static void
await_content(struct stage *s, const char *member, uint64_t n)
{
    struct patience p = {.with = member};

    while (content(s, member) != n)
        patience_step(&p);
}

static unsigned
n_arriving(const struct stage *s)
{
    return folder_count_below(s->broker.data, "arriving");
}

/* A fetch is counted first, and cleared away then. */
static void
await_none_arriving(struct stage *s)
{
    struct patience p = {.with = "what had arrived to go"};

    while (n_arriving(s) > 0)
        patience_step(&p);
}

/* What is kept */

FIXTURE(NULL, tear_down);

/* */
TEST(what_is_as_told_is_kept)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE);

    offer(s, s->site, "/a", "first");
    site_put(s->site, "/b", "text/plain", SLICE("hello"));
    tell(s, site_link(s->site, "/b"), "md5:5d41402abc4b2a76b9719d911017c592",
         -1);
    await_kept(s, "first");
    await_kept(s, "hello");
    await_metric(s, "tidings_fetched_bytes_total", 10);
    samples_assert(&s->samples, FETCHED, 2);
    samples_await_most(&s->samples, &s->http, "tidings_fetches", 0);
    await_content(s, "content.kept", 2);
    await_content(s, "content.missing", 0);
    assert_string_equal(site_header(s->site, "/a", 0, "Accept-Encoding"),
                        "identity");

    tell(s, site_link(s->other, "/same"), sha256("first"), 5); /* is there */
    offer(s, s->site, "/c", "last");
    await_kept(s, "last");
    assert_int_equal(site_count(s->other, NULL), 0);
    assert_int_equal(site_count(s->site, NULL), 3);
    assert_int_equal(n_arriving(s), 0);
}

/* and what nothing was told of is not even asked for. */
TEST(what_is_not_as_told_is_not_kept)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE);

    site_put(s->site, "/differs", NULL, SLICE("Hello"));
    tell(s, site_link(s->site, "/differs"), sha256("hello"), 5);
    await_metric(s, GIVEN_UP, 1);
    samples_assert(&s->samples, FAILED("differs"), 1);
    site_put(s->site, "/long", NULL, SLICE("hello!"));
    tell(s, site_link(s->site, "/long"), sha256("hello!"), 5);
    await_metric(s, GIVEN_UP, 2);
    site_delete(s->site, "/gone");
    tell(s, site_link(s->site, "/gone"), sha256("gone"), 4);
    await_metric(s, GIVEN_UP, 3);
    samples_assert(&s->samples, FAILED("status"), 1);
    tell(s, "ftp://example.org/a", sha256("a"), 1);
    await_metric(s, GIVEN_UP, 4);
    samples_assert(&s->samples, FAILED("refused"), 1);

    site_put(s->site, "/silent", NULL, SLICE("silent"));
    tell(s, site_link(s->site, "/silent"), NULL, 6);
    offer(s, s->site, "/a", "kept");
    await_kept(s, "kept");
    assert_int_equal(site_count(s->site, "/silent"), 0);
    assert_int_equal(site_count(s->site, NULL), 4); /* each once */
    await_content(s, "content.kept", 1);
    await_content(s, "content.missing", 5);
    assert_int_equal(n_arriving(s), 0);
}

/* two changes, and only the second one's bytes are still to be had. */
TEST(a_later_version_is_kept_for_its_own_entry)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE);

    site_put(s->site, "/a", NULL, SLICE("first"));
    site_hold(s->site, "/a");
    tell(s, site_link(s->site, "/a"), sha256("first"), 5);
    site_await(s->site, "/a", 1);
    offer(s, s->site, "/a", "second"); /* while the first is fetched */
    site_release(s->site, "/a");

    await_kept(s, "second");
    await_metric(s, GIVEN_UP, 1);
    assert_false(is_kept(s, "first"));
    await_content(s, "content.missing", 1);
}

TEST(redirects_lead_to_what_is_kept)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE);
    char location[200];

    site_put(s->other, "/there", NULL, SLICE("moved"));
    snprintf(location, sizeof(location), "Location: %s",
             site_link(s->other, "/there"));
    site_status(s->site, "/a", 307, location, 0);
    tell(s, site_link(s->site, "/a"), sha256("moved"), 5);
    await_kept(s, "moved");
}

/* Failures */

TEST(what_fails_is_tried_again_a_few_times)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE, "--fetch-tries", "3");

    site_status(s->site, "/a", 500, NULL, 2);
    offer(s, s->site, "/a", "at last");
    await_kept(s, "at last");
    assert_int_equal(site_count(s->site, "/a"), 3);

    site_status(s->site, "/b", 500, NULL, 0);
    offer(s, s->site, "/b", "never");
    await_metric(s, GIVEN_UP, 1);
    assert_int_equal(site_count(s->site, "/b"), 3);
    samples_assert(&s->samples, FAILED("status"), 5);
    await_content(s, "content.missing", 1);
}

/* What another host has goes on meanwhile. */
TEST(who_says_retry_after_is_left_alone)
{
    static const char *const bodies[] = {"/one", "/two", "/three"};
    struct stage *s = STAGE_OPEN(state, AT_ONCE);

    site_status(s->site, NULL, 503, "Retry-After: 3600", 0);
    offer(s, s->site, "/a", "later");
    site_await(s->site, "/a", 1);
    await_metric(s, FAILED("status"), 1);
    offer(s, s->site, "/b", "later, too");
    for (size_t i = 0; i < 3; i++) {
        offer(s, s->other, bodies[i], bodies[i]);
        await_kept(s, bodies[i]);
    }
    assert_int_equal(site_count(s->site, NULL), 1);
    await_content(s, "content.missing", 2);
}

TEST(a_body_without_end_is_given_up)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE, "--max-content", "1M");
    struct odd *odd = calloc(1, sizeof(*odd));
    char url[200];

    odd_open(odd);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/endless-body", odd->port);
    tell(s, url, sha256("x"), -1);
    await_metric(s, GIVEN_UP, 1);
    samples_assert(&s->samples, FAILED("too-large"), 1);
    tell(s, site_link(s->site, "/a"), sha256("x"), 1048577);
    await_metric(s, GIVEN_UP, 2);
    assert_int_equal(site_count(s->site, NULL), 0); /* it was told */
    assert_int_equal(n_arriving(s), 0);
    odd_close(odd);
    free(odd);
}

TEST(a_silent_body_ends)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE, "--fetch-stall", "0.2",
                                 "--fetch-tries", "1");
    struct odd *odd = calloc(1, sizeof(*odd));
    char url[200];

    odd_open(odd);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/hang-in-body", odd->port);
    tell(s, url, sha256("hello"), 5);
    await_metric(s, GIVEN_UP, 1);
    samples_assert(&s->samples, FAILED("timeout"), 1);
    odd_close(odd);
    free(odd);
}

/* W-160: as callbacks, and allowed like these. */
TEST(private_addresses_are_asked_only_if_allowed)
{
    struct stage *s =
        STAGE_OPEN(state, AT_ONCE, "--insecure-open", "--fetch-tries", "2");

    offer(s, s->site, "/a", "inside");
    await_metric(s, GIVEN_UP, 1);
    samples_assert(&s->samples, FAILED("refused"), 2);
    assert_int_equal(site_connections(s->site), 0);
    assert_false(is_kept(s, "inside"));

    http_close(&s->http);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    stage_begin(s, AT_ONCE, "--insecure-open", "--allow-callbacks",
                "127.0.0.0/8", NULL);
    offer(s, s->site, "/a", "inside");
    await_kept(s, "inside");
}

/* Ends */

/* However it ended: what was under way is fetched again, and what had arrived
 * of it is gone. */
TEST(after_an_end_it_goes_on)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE);
    char path[500];

    for (int kill = 0; kill < 2; kill++) {
        const char *bytes = kill ? "/killed" : "/stopped";

        site_hold(s->site, bytes);
        offer(s, s->site, bytes, bytes);
        site_await(s->site, bytes, 1);
        http_close(&s->http);
        if (kill)
            broker_kill9(&s->broker);
        else
            broker_stop(&s->broker);
        snprintf(path, sizeof(path), "%s/arriving", s->broker.data);
        if (!kill)
            assert_int_equal(n_arriving(s), 0);
        snprintf(path, sizeof(path), "%s/arriving/left", s->broker.data);
        fclose(fopen(path, "we"));
        site_release(s->site, bytes);
        broker_restart(&s->broker);
        http_open(&s->http, s->broker.url);
        await_kept(s, bytes);
        assert_int_equal(n_arriving(s), 0);
    }
    await_content(s, "content.kept", 2);
}

TEST(a_set_that_is_removed_wants_nothing_more)
{
    static const char *const paths[] = {"/a", "/b", "/c", "/d"};
    struct stage *s = STAGE_OPEN(state, AT_ONCE);

    for (size_t i = 0; i < 4; i++) {
        site_hold(s->site, paths[i]);
        offer(s, s->site, paths[i], paths[i]);
    }
    site_await(s->site, NULL, 2);
    assert_int_equal(
        http_ask(&s->http, "DELETE", "/sets/demo?confirm=demo", NULL), 204);
    offer(s, s->other, "/e", "of another");
    await_kept(s, "of another"); /* the broker has looked at all by then */
    for (size_t i = 0; i < 4; i++)
        site_release(s->site, paths[i]);
    samples_await_most(&s->samples, &s->http, "tidings_fetches", 0);

    assert_int_equal(site_count(s->site, NULL), 2); /* the others waited */
    for (size_t i = 0; i < 4; i++)
        assert_false(is_kept(s, paths[i]));
    await_none_arriving(s);
}

/* nothing is given up for want of room. */
TEST(without_room_on_the_disk_it_waits)
{
    struct faults faults;
    struct stage *s;

    faults_open(&faults);
    s = STAGE_OPEN(state, AT_ONCE, "--fetch-tries", "1");
    faults_set_disk(&faults, (int64_t)200 << 20);
    offer(s, s->site, "/a", "patient");
    samples_await_least(&s->samples, &s->http, FAILED("room"), 1);
    assert_false(is_kept(s, "patient"));
    await_none_arriving(s);
    faults_set_disk(&faults, 0);
    await_kept(s, "patient");
    samples_get(&s->samples, &s->http);
    samples_assert(&s->samples, GIVEN_UP, 0);
    faults_close(&faults);
}

/* Manners */

TEST(a_host_is_asked_for_no_more_than_two_at_once)
{
    struct stage *s = STAGE_OPEN(state, AT_ONCE);
    char name[20];

    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "/%d", i);
        site_hold(s->site, name);
        offer(s, s->site, name, name);
    }
    site_await(s->site, NULL, 2);
    offer(s, s->other, "/beside", "beside"); /* others need not wait for it */
    await_kept(s, "beside");
    assert_int_equal(site_count(s->site, NULL), 2);
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "/%d", i);
        site_release(s->site, name);
    }
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "/%d", i);
        await_kept(s, name);
    }
    assert_int_equal(site_max_parallel(s->site), 2);
    assert_int_equal(site_count(s->site, NULL), 12);
}

TEST(only_sets_that_fetch_are_fetched_for)
{
    struct stage *s = STAGE_OPEN(state, "--content", "none");
    static const char fetch[] = "{\"content\":\"fetch\"}";

    offer(s, s->site, "/a", "before");
    offer(s, s->site, "/b", "before, too");
    assert_int_equal(site_count(s->site, NULL), 0);
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/demo",
                     (const char *[]){"Content-Type: application/json", NULL},
                     SLICE(fetch)),
        200);
    await_kept(s, "before"); /* the log still has its entry */
    await_kept(s, "before, too");
}
