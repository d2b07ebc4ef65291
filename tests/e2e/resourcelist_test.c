/*
 * resourcelist_test.c - Resource Lists of the real broker: what is offered,
 * what they say, and that they stay one thing while everything changes.
 */
#include "tests/support/resourcelist.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/build.h"
#include "tests/support/folder.h"
#include "tests/support/gzip.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define MOST 120000

struct stage {
    struct broker broker;
    struct http http;
    struct resourcelist list;
};

#define STAGE_OPEN(s, ...)                            \
    do {                                              \
        broker_open(&(s)->broker, __VA_ARGS__, NULL); \
        stage_begin(s);                               \
    } while (0)

static void
stage_begin(struct stage *s)
{
    http_open(&s->http, s->broker.url);
    resourcelist_open(&s->list, &s->broker, "demo", MOST + 1);
}

static int
set_up(void **state)
{
    *state = calloc(1, sizeof(struct stage));
    assert_non_null(*state);
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    resourcelist_close(&s->list);
    http_close(&s->http);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* Builds the list now. */
static void
build_list(struct stage *s)
{
    if (build(&s->http, "/sets/demo/resourcelist") != 200)
        fail_msg("POST /sets/demo/resourcelist: %ld %.*s", s->http.status,
                 (int)s->http.body.size, s->http.body.data);
}

/* A member of the last answer. */
static uint64_t
answer_number(struct stage *s, const char *member)
{
    struct jsonpath j;
    uint64_t number;

    jsonpath_open(&j, buf_slice(&s->http.body));
    number = jsonpath_number(&j, member);
    jsonpath_close(&j);
    return number;
}

/* Posts changes of one resource, "updated" or "deleted". */
static void
change(struct stage *s, unsigned number, const char *kind)
{
    char text[200];

    snprintf(text, sizeof(text),
             "{\"loc\":\"http://example.com/r/%u\",\"change\":\"%s\"}", number,
             kind);
    assert_int_equal(
        source_send(&s->http, "demo", "application/json", slice_of(text), NULL),
        200);
}

static void
assert_offers(struct stage *s, const char *capability, const char *path)
{
    char url[300], expected[300] = "", link[300];

    if (path)
        snprintf(expected, sizeof(expected), "%s%s", s->broker.url, path);
    resourcelist_offered(&s->list, capability, url, sizeof(url));
    assert_string_equal(url, expected);
    assert_int_equal(http_get(&s->http, "/sets/demo"), 200);
    snprintf(link, sizeof(link), "\"rel\":\"%s\"", capability);
    buf_add(&s->http.body, "", 1);
    assert_int_equal(strstr(s->http.body.data, link) != NULL, path != NULL);
}

static bool
page_has(struct stage *s, const char *path, const char *before,
         const char *document)
{
    char text[300];

    assert_int_equal(http_get(&s->http, path), 200);
    buf_add(&s->http.body, "", 1);
    snprintf(text, sizeof(text), "%s%s/sets/demo/%s", before, s->broker.url,
             document);
    return strstr(s->http.body.data, text) != NULL;
}

FIXTURE(set_up, tear_down);

/* nothing is offered before it is
 * there, and then everywhere. */
TEST(is_offered_from_the_first_one_on)
{
    struct stage *s = *state;

    STAGE_OPEN(s, "--resource-list-keep", "2");
    source_post(&s->http, "demo", 1, 3, 0);
    assert_offers(s, "resourcelist", NULL);
    assert_offers(s, "resourcelist-archive", NULL);
    assert_int_equal(http_get(&s->http, "/sets/demo/resourcelist.xml"), 404);
    assert_false(page_has(s, "/", "href=\"", "resourcelist.xml"));
    assert_true(page_has(s, "/robots.txt", "Sitemap: ", "changelist.xml"));

    build_list(s);
    assert_offers(s, "resourcelist", "/sets/demo/resourcelist.xml");
    assert_offers(s, "resourcelist-archive", NULL);
    assert_int_equal(http_get(&s->http, "/sets/demo/resourcelist-archive.xml"),
                     404);
    assert_true(page_has(s, "/", "href=\"", "resourcelist.xml"));
    assert_true(page_has(s, "/robots.txt", "Sitemap: ", "resourcelist.xml"));
    resourcelist_begin(&s->list);
    assert_int_equal(s->list.n, 3);
    assert_string_equal(s->list.archive, "");

    change(s, 4, "created");
    build_list(s);
    assert_offers(s, "resourcelist-archive",
                  "/sets/demo/resourcelist-archive.xml");
    resourcelist_begin(&s->list);
    assert_int_equal(s->list.n, 4);
    resourcelist_get(&s->list, s->list.archive);
}

/* Design section 4: what is asked for is there when it is answered. */
TEST(is_built_on_demand)
{
    struct stage *s = *state;
    struct receipt receipt;
    static const char *const as_json[] = {"Content-Type: application/json",
                                          NULL};
    struct jsonpath j;
    char text[2048];

    STAGE_OPEN(s, "--resource-list-keep", "none");
    assert_int_equal(http_post(&s->http, "/sets/demo/resourcelist", NULL,
                               (struct slice){NULL, 0}),
                     404);
    receipt = source_post(&s->http, "demo", 1, 3, 0);
    build_list(s);
    assert_int_equal(answer_number(s, "generation"), 1);
    assert_int_equal(answer_number(s, "resources"), 3);
    jsonpath_open(&j, buf_slice(&s->http.body));
    assert_string_equal(jsonpath_text(&j, "position"), receipt.position);
    jsonpath_close(&j);
    build_list(s); /* nothing has changed */
    assert_int_equal(answer_number(s, "generation"), 1);
    change(s, 1, "deleted");
    build_list(s);
    assert_int_equal(answer_number(s, "generation"), 2);
    assert_int_equal(answer_number(s, "resources"), 2);

    memset(text, 'x', sizeof(text));
    assert_int_equal(http_post(&s->http, "/sets/demo/resourcelist",
                               "text/plain",
                               (struct slice){text, sizeof(text)}),
                     413);
    assert_int_equal(http_get(&s->http, "/sets/demo/resourcelist"), 405);

    /* A set without anything has a list without anything. */
    assert_int_equal(
        http_request(&s->http, "PUT", "/sets/empty", as_json, SLICE("{}")),
        201);
    assert_int_equal(build(&s->http, "/sets/empty/resourcelist"), 200);
    assert_int_equal(answer_number(s, "resources"), 0);
    assert_int_equal(http_get(&s->http, "/sets/empty/resourcelist.xml"), 200);
}

/* Who asks is not kept waiting for ever: after ten seconds the answer is that
 * it goes on. Here a folder is in the way of the set's state, until it is gone.
 */
TEST(is_told_of_later_when_it_takes_long)
{
    struct stage *s = *state;
    struct patience p = {.with = "the Resource List"};
    char path[400];
    int n;

    STAGE_OPEN(s, "--resource-list-keep", "none");
    n = snprintf(path, sizeof(path), "%s/sets", s->broker.data);
    mkdir(path, 0777);
    n += snprintf(path + n, sizeof(path) - (size_t)n, "/demo");
    mkdir(path, 0777);
    snprintf(path + n, sizeof(path) - (size_t)n, "/resources.db");
    assert_int_equal(mkdir(path, 0777), 0);
    source_post(&s->http, "demo", 1, 3, 0);
    assert_int_equal(http_post(&s->http, "/sets/demo/resourcelist", NULL,
                               (struct slice){NULL, 0}),
                     202);
    assert_int_equal(http_get(&s->http, "/sets/demo/resourcelist.xml"), 404);

    assert_int_equal(rmdir(path), 0);
    while (http_get(&s->http, "/sets/demo/resourcelist.xml") != 200)
        patience_step(&p);
    resourcelist_begin(&s->list);
    assert_int_equal(s->list.n, 3);
}

/* By age: nobody asks, and the set has one, and another when it has changed. */
TEST(is_built_by_itself)
{
    struct stage *s = *state;
    struct patience p = {.with = "the Resource List"};

    STAGE_OPEN(s, "--resource-list-every", "0.1");
    source_post(&s->http, "demo", 1, 3, 0);
    while (http_get(&s->http, "/sets/demo/resourcelist.xml") != 200)
        patience_step(&p);
    change(s, 4, "created");
    p = (struct patience){.with = "the next one"};
    do {
        resourcelist_begin(&s->list);
        patience_step(&p);
    } while (s->list.last != 4);
    assert_int_equal(s->list.n, 4);
}

/* an index of three lists, which together are the
 * set; and it is no less when it is read packed. */
TEST(the_parts_of_an_index_are_the_whole_set)
{
    struct stage *s = *state;
    struct buf plain, packed;

    STAGE_OPEN(s, "--rotate-entries", "10000");
    for (unsigned i = 0; i < MOST / 20000; i++)
        source_post(&s->http, "demo", 1 + 20000 * i, 20000, 0);
    for (unsigned i = 1; i <= 100; i++)
        change(s, 1000 * i, "deleted");
    build_list(s);
    assert_int_equal(answer_number(s, "resources"), MOST - 100);
    resourcelist_begin(&s->list);
    assert_int_equal(s->list.n_parts, 3);
    resourcelist_end(&s->list);
    assert_int_equal(s->list.n, MOST - 100);
    assert_int_equal(s->list.last, MOST + 100);
    for (unsigned i = 1; i <= MOST; i++)
        assert_int_equal(s->list.seqs[i], i % 1000 == 0 && i <= 100000 ? 0 : i);

    buf_init(&packed, SIZE_MAX);
    buf_init(&plain, SIZE_MAX);
    assert_int_equal(
        http_ask(&s->http, "GET",
                 "/sets/demo/resourcelist/000000000001/000000000002.xml",
                 "Accept-Encoding: gzip", NULL),
        200);
    assert_string_equal(http_header(&s->http, "Content-Encoding"), "gzip");
    assert_non_null(
        strstr(http_header(&s->http, "Cache-Control"), "immutable"));
    assert_non_null(strstr(http_header(&s->http, "Link"),
                           "/sets/demo/capabilitylist.xml>; "
                           "rel=\"resourcesync\"")); /* */
    gzip_inflate(&plain, buf_slice(&s->http.body));
    assert_int_equal(
        http_get(&s->http,
                 "/sets/demo/resourcelist/000000000001/000000000002.xml"),
        200);
    assert_true(slice_equal(buf_slice(&plain), buf_slice(&s->http.body)));
    buf_fini(&packed);
    buf_fini(&plain);
    assert_int_equal(
        http_get(&s->http,
                 "/sets/demo/resourcelist/000000000001/000000000004.xml"),
        404);
}

/* the same address, told otherwise to whoever asks for that; and
 * caches know it. */
TEST(is_told_plainly_and_to_people)
{
    static const char path[] = "/sets/demo/resourcelist.xml";
    static const char browser[] =
        "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*";
    struct stage *s = *state;
    char etag[100], *text;

    STAGE_OPEN(s, "--resource-list-keep", "none");
    source_post(&s->http, "demo", 1, 1500, 0);
    build_list(s);
    assert_int_equal(http_get(&s->http, path), 200);
    assert_string_equal(http_header(&s->http, "Content-Type"),
                        "application/xml");
    assert_string_equal(http_header(&s->http, "Vary"),
                        "Accept, Accept-Encoding");
    snprintf(etag, sizeof(etag), "%s", http_header(&s->http, "ETag"));

    assert_int_equal(http_get(&s->http, "/sets/demo/resourcelist.xml?plain"),
                     200);
    assert_string_not_equal(http_header(&s->http, "ETag"), etag);
    text = strndup(s->http.body.data, s->http.body.size);
    assert_null(strstr(text, "rs:"));
    assert_int_equal(http_ask(&s->http, "GET",
                              "/sets/demo/resourcelist.xml?plain",
                              "Range: bytes=70000-70099", NULL),
                     206);
    assert_int_equal(s->http.body.size, 100);
    assert_memory_equal(s->http.body.data, text + 70000, 100);
    free(text);

    assert_int_equal(http_ask(&s->http, "GET", path, browser, NULL), 200);
    assert_string_equal(http_header(&s->http, "Content-Type"),
                        "text/html; charset=utf-8");
    assert_non_null(http_header(&s->http, "Content-Security-Policy"));
    assert_string_not_equal(http_header(&s->http, "ETag"), etag);
    buf_add(&s->http.body, "", 1);
    assert_non_null(
        strstr(s->http.body.data, "<link rel=\"resourcesync\" href="));
    assert_non_null(strstr(s->http.body.data, "?page=2\">"));
    assert_int_equal(http_ask(&s->http, "GET",
                              "/sets/demo/resourcelist.xml?page=2", browser,
                              NULL),
                     200);
    assert_int_equal(http_ask(&s->http, "GET",
                              "/sets/demo/resourcelist.xml?page=3", browser,
                              NULL),
                     404);
    assert_int_equal(http_ask(&s->http, "GET",
                              "/sets/demo/resourcelist.xml?page=0", browser,
                              NULL),
                     400);
    assert_int_equal(http_ask(&s->http, "GET",
                              "/sets/demo/resourcelist.xml?page=123456789",
                              browser, NULL),
                     400);
}

/* Each change, by its seq, is of resource seq % 50; every third deletes it. */
static void
change_next(struct stage *s, uint64_t *seq)
{
    ++*seq;
    change(s, 1 + (unsigned)(*seq % 50), *seq % 3 == 0 ? "deleted" : "updated");
}

/* what was read is what the changes up to its position come to.
 */
static void
assert_state(const struct resourcelist *r)
{
    for (unsigned i = 0; i < 50; i++) {
        uint64_t newest = 0;

        for (uint64_t seq = i ? i : 50; seq <= r->last; seq += 50)
            newest = seq;
        assert_int_equal(r->seqs[1 + i], newest % 3 == 0 ? 0 : newest);
    }
}

/* an index that was read before the next one was there leads to its own
 * parts, and the list that everybody is led to is of one state at any time. */
TEST(generations_are_never_mixed)
{
    struct stage *s = *state;
    uint64_t seq = 0, generation = 0;

    STAGE_OPEN(s, "--resource-list-entries", "7", "--resource-list-keep",
               "none", "--rotate-entries", "13", "--resource-list-every",
               "0.01");
    for (unsigned i = 0; i < 60; i++)
        change_next(s, &seq);
    build_list(s);
    for (unsigned i = 0; i < 40; i++) {
        resourcelist_begin(&s->list);
        for (unsigned k = 0; k < i % 5; k++)
            change_next(s, &seq);
        if (i % 2)
            build_list(s);
        resourcelist_end(&s->list);
        assert_true(s->list.generation >= generation);
        generation = s->list.generation;
        assert_state(&s->list);
    }
    assert_in_range(generation, 20, 200);
}

static bool
archive_has(struct stage *s, uint64_t generation)
{
    char question[160];
    struct xpath x;
    bool has;

    xpath_open(&x, resourcelist_get(&s->list, s->list.archive));
    snprintf(question, sizeof(question),
             "/s:urlset/s:url[s:loc='%s/sets/demo/resourcelist/%012" PRIu64
             ".xml']",
             s->broker.url, generation);
    has = xpath_count(&x, question) == 1;
    xpath_close(&x);
    return has;
}

/* each list that was ever current is in the archive
 * from then on, and stays what it was. */
TEST(no_list_is_in_neither_place)
{
    struct stage *s = *state;
    uint64_t seq = 0;
    char url[300];

    STAGE_OPEN(s, "--resource-list-entries", "7", "--resource-list-keep", "1",
               "--remove-grace", "0");
    for (unsigned i = 0; i < 30; i++)
        change_next(s, &seq);
    for (unsigned i = 1; i <= 15; i++) {
        change_next(s, &seq);
        build_list(s);
        resourcelist_begin(&s->list);
        resourcelist_end(&s->list);
        assert_int_equal(s->list.generation, i);
        for (unsigned k = 1; k <= i; k++)
            assert_true(archive_has(s, k));
    }
    for (unsigned i = 1; i <= 15; i++) {
        snprintf(url, sizeof(url), "%s/sets/demo/resourcelist/%012u.xml",
                 s->broker.url, i);
        resourcelist_begin_at(&s->list, url);
        resourcelist_end(&s->list);
        assert_int_equal(s->list.last, 30 + i);
        assert_state(&s->list);
    }
}

/* SIGKILL while lists are built: what was current is, or what
 * comes next; nothing is lost, repeated, or left on the disk. */
TEST(survives_the_end_at_any_moment_of_a_build)
{
    struct stage *s = *state;
    struct patience p = {.with = "the former lists to go"};
    uint64_t seq = 0, generation = 0;

    STAGE_OPEN(s, "--resource-list-entries", "1", "--resource-list-keep",
               "none", "--resource-list-every", "0.001", "--remove-grace", "1");
    for (unsigned i = 0; i < 60; i++)
        change_next(s, &seq);
    build_list(s);
    for (unsigned i = 0; i < 12; i++) {
        struct timespec moment = {.tv_nsec = (long)(i * 17 % 12) * 10000000};

        change_next(s, &seq);
        nanosleep(&moment, NULL); /* some moment or other: any will do */
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
        resourcelist_begin(&s->list);
        assert_in_range(s->list.last, 60, seq);
        if (i % 3 == 0) {
            build_list(s);
            resourcelist_begin(&s->list);
            assert_int_equal(s->list.last, seq);
            assert_true(answer_number(s, "generation") > generation);
            generation = answer_number(s, "generation");
        }
    }
    build_list(s);
    resourcelist_begin(&s->list);
    resourcelist_end(&s->list);
    assert_state(&s->list);
    /* Folders of generations. */
    while (folder_count_below(s->broker.data, "sets/demo/resourcelist") > 1)
        patience_step(&p);
}

/* an address means one list, also when its set was removed and another
 * one has its name. */
TEST(no_address_is_used_again)
{
    struct stage *s = *state;
    char path[100];

    STAGE_OPEN(s, "--remove-grace", "0");
    for (unsigned i = 1; i <= 3; i++) {
        source_post(&s->http, "demo", i, 2, 0);
        build_list(s);
        assert_int_equal(answer_number(s, "generation"), i);
        snprintf(path, sizeof(path), "/sets/demo/resourcelist/%012u.xml", i);
        assert_int_equal(http_get(&s->http, path), 200);
        assert_int_equal(http_ask(&s->http, "DELETE", "/sets/demo", NULL), 204);
        assert_int_equal(http_get(&s->http, path), 410);
        if (i == 2) {
            broker_stop(&s->broker);
            broker_restart(&s->broker);
        }
    }
    source_post(&s->http, "demo", 1, 2, 0);
    for (unsigned i = 1; i <= 4; i++) {
        snprintf(path, sizeof(path), "/sets/demo/resourcelist/%012u.xml", i);
        assert_int_equal(http_get(&s->http, path), 404);
    }
}
