/*
 * reach_test.c - sets with all that a set can have: from wherever somebody
 * begins, everything is found, everything is valid, and nothing is anywhere
 * that is not found.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/build.h"
#include "tests/support/http.h"
#include "tests/support/patience.h"
#include "tests/support/schema.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define DESCRIPTION "/.well-known/resourcesync"

/* Addresses found at most. */
#define PATHS_MAX 400

/* Resources of a set; both sets have the same ones. */
#define RESOURCES 7

static const char *const sets[] = {"alpha", "beta"};
#define SETS (sizeof(sets) / sizeof(sets[0]))

struct stage {
    struct broker broker;
    struct http http;

    /* What a walk has found. */
    char paths[PATHS_MAX][128];
    size_t n;
};

/* Making it */

static void
post(struct stage *s, const char *set, const char *what)
{
    char path[128];

    snprintf(path, sizeof(path), "/sets/%s/%s", set, what);
    if (build(&s->http, path) != 200)
        fail_msg("POST %s: %ld %.*s", path, s->http.status,
                 (int)s->http.body.size, s->http.body.data);
}

/* One change of each resource, with its bytes. */
static void
post_changes(struct stage *s, const char *set, unsigned round)
{
    const char *kind = round == 0 ? "created" : "updated";
    struct buf body;
    char path[128];

    buf_init(&body, 65536);
    BUF_ADD(&body, "--B\r\nContent-Type: application/x-ndjson\r\n\r\n");
    for (unsigned i = 0; i < RESOURCES; i++)
        buf_add_format(
            &body, "{\"loc\":\"http://example.com/%u\",\"change\":\"%s\"}\n", i,
            kind);
    for (unsigned i = 0; i < RESOURCES; i++)
        buf_add_format(&body,
                       "\r\n--B\r\nContent-Type: text/plain\r\n"
                       "Content-Location: http://example.com/%u\r\n\r\n"
                       "%u in round %u\n",
                       i, i, round);
    BUF_ADD(&body, "\r\n--B--\r\n");
    snprintf(path, sizeof(path), "/sets/%s/changes", set);
    if (http_post(
            &s->http, path,
            "multipart/related; boundary=B; type=\"application/x-ndjson\"",
            buf_slice(&body)) != 200)
        fail_msg("%ld %.*s", s->http.status, (int)s->http.body.size,
                 s->http.body.data);
    buf_fini(&body);
}

/* The Change Dumps are built behind the lists. */
static void
await_change_dumps(struct stage *s, const char *set, unsigned n)
{
    struct patience p = {.with = "the Change Dumps"};
    char path[128];

    snprintf(path, sizeof(path), "/sets/%s/changedump/%012u.xml", set, n);
    while (http_get(&s->http, path) != 200)
        patience_step(&p);
}

/* Of everything so much that it has an index and an archive, and of the
 * archives so much that they have indexes. */
static int
setup(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--content", "inline", "--index-lists", "2",
                "--resource-list-entries", "3", "--resource-list-keep", "1",
                "--resource-dump-keep", "1", NULL);
    http_open(&s->http, s->broker.url);
    for (size_t i = 0; i < SETS; i++) {
        for (unsigned round = 0; round < 4; round++) {
            post_changes(s, sets[i], round);
            post(s, sets[i], "rotate");
            post(s, sets[i], "resourcelist");
            post(s, sets[i], "resourcedump");
        }
        await_change_dumps(s, sets[i], 4);
    }
    return 0;
}

static int
teardown(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* Walking */

static size_t
place_of(const struct stage *s, const char *path)
{
    size_t i = 0;

    while (i < s->n && strcmp(s->paths[i], path) != 0)
        i++;
    return i;
}

static void
note(struct stage *s, const char *url)
{
    size_t size = strlen(s->broker.url);

    if (strncmp(url, s->broker.url, size) != 0 || url[size] != '/')
        fail_msg("not an address of ours: %s", url);
    if (place_of(s, url + size) < s->n)
        return;
    assert_true(s->n < PATHS_MAX);
    snprintf(s->paths[s->n++], sizeof(s->paths[0]), "%s", url + size);
}

static void
note_all(struct stage *s, struct xpath *x, const char *expression)
{
    size_t n = xpath_count(x, expression);

    for (size_t i = 1; i <= n; i++) {
        char one[200];

        snprintf(one, sizeof(one), "string((%s)[%zu])", expression, i);
        note(s, xpath_get(x, one));
    }
}

/* Where a document is no list of what somebody else has, its locs are ours. */
static void
walk_document(struct stage *s)
{
    static const char *const others[] = {
        "changelist", "change-notification", "resourcelist",
        "resourcedump-manifest", "changedump-manifest"};
    bool is_ours = true;
    struct xpath x;

    assert_valid(buf_slice(&s->http.body));
    xpath_open(&x, buf_slice(&s->http.body));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        is_ours = is_ours && strcmp(xpath_get(&x, "string(/s:urlset/rs:md/"
                                                  "@capability)"),
                                    others[i]) != 0;
    note_all(s, &x,
             "/*/rs:ln[@rel!='describedby' and"
             " not(starts-with(@rel, 'urn:'))]/@href");
    if (is_ours) {
        note_all(s, &x, "/*/s:*/s:loc");
        note_all(s, &x, "/*/s:*/rs:ln[@rel='contents']/@href");
    }
    xpath_close(&x);
}

static void
walk(struct stage *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (http_get(&s->http, s->paths[i]) != 200)
            fail_msg("%s: %ld", s->paths[i], s->http.status);
        if (!strcmp(http_header(&s->http, "Content-Type"), "application/xml"))
            walk_document(s);
        else
            assert_string_equal(http_header(&s->http, "Content-Type"),
                                "application/zip");
    }
}

/* Every file of a list or a dump is found at its address. */
static struct stage *looking; /* nftw has no other way */

static int
look_for(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *at = strstr(path, "/data/sets/");
    char name[200];
    char *end;

    (void)st;
    (void)ftw;
    if (type != FTW_F || !at || strstr(at, "/content") ||
        strstr(at, "resources.db"))
        return 0;
    snprintf(name, sizeof(name), "%s", at + 5);
    end = strstr(name, ".gz");
    if (end)
        *end = '\0';
    /* A list in one part is at its generation's address. */
    if (strstr(name, "dump/") && (end = strstr(name, "/000000000001.xml")))
        strcpy(end, ".xml");
    if ((end = strstr(name, "/000000000000.xml")))
        strcpy(end, ".xml");
    if (place_of(looking, name) == looking->n)
        fail_msg("not found: %s (%s)", name, path);
    return 0;
}

static void
assert_all_found(struct stage *s)
{
    looking = s;
    assert_int_equal(nftw(s->broker.data, look_for, 16, FTW_PHYS), 0);
    for (size_t i = 0; i < SETS; i++) {
        static const char *const all[] = {
            "capabilitylist", "changelist",           "changelist-archive",
            "resourcelist",   "resourcedump",         "resourcelist-archive",
            "changedump",     "resourcedump-archive", "changedump-archive"};

        for (size_t j = 0; j < sizeof(all) / sizeof(all[0]); j++) {
            char path[128];

            snprintf(path, sizeof(path), "/sets/%s/%s.xml", sets[i], all[j]);
            if (place_of(s, path) == s->n)
                fail_msg("not found: %s", path);
        }
    }
}

static void
walk_from(struct stage *s, const char *url)
{
    s->n = 0;
    note(s, url);
    walk(s);
    print_message("%zu found from %s\n", s->n, url);
    assert_all_found(s);
}

/* What stands in the last answer behind `before`, up to one of `ends`. */
static void
find(struct slice text, const char *before, const char *ends, char *to,
     size_t size)
{
    const char *at = memmem(text.data, text.size, before, strlen(before));
    const char *over = text.data + text.size;
    const char *end;

    if (!at)
        fail_msg("no %s", before);
    at += strlen(before);
    for (end = at; end < over && !strchr(ends, *end); end++)
        ;
    snprintf(to, size, "%.*s", (int)(end - at), at);
}

FIXTURE(setup, teardown);

/* */
TEST(everything_is_found_from_every_entry)
{
    struct stage *s = *state;
    char url[256];

    snprintf(url, sizeof(url), "%s%s", s->broker.url, DESCRIPTION);
    walk_from(s, url);

    assert_int_equal(http_get(&s->http, "/robots.txt"), 200);
    find(buf_slice(&s->http.body), "Sitemap: ", "\r\n", url, sizeof(url));
    walk_from(s, url);

    assert_int_equal(http_get(&s->http, "/"), 200);
    find(buf_slice(&s->http.body), "<link rel=\"resourcesync\" href=\"", "\"",
         url, sizeof(url));
    walk_from(s, url);

    /* Who got a package by chance learns whose it is. */
    assert_int_equal(http_get(&s->http, "/sets/beta/resourcedump/000000000001/"
                                        "000000000001.zip"),
                     200);
    snprintf(url, sizeof(url), "%s", http_header(&s->http, "Link"));
    assert_non_null(strstr(url, "rel=\"resourcesync\""));
    find(slice_of(url), "<", ">", url, sizeof(url));
    walk_from(s, url);
}
