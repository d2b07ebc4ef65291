/*
 * errors_test.c - what is refused, is refused whole, with a clear error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/test.h"

#define CHANGES "/sets/news/changes"
#define GOOD    "{\"loc\":\"http://example.com/a\",\"change\":\"created\"}"
#define URLSET                                                       \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" " \
    "xmlns:rs=\"http://www.openarchives.org/rs/terms/\">"            \
    "<rs:md capability=\"changelist\" from=\"2026-01-01T00:00:00Z\"/>"
#define URL(loc, change) \
    "<url><loc>" loc "</loc><rs:md change=\"" change "\"/></url>"

/* A broker whose set "news" has one entry. */
struct stage {
    struct broker broker;
    struct http http;
    struct buf before; /* the list as it was */
};

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--max-body", "8M", NULL);
    http_open(&s->http, s->broker.url);
    source_post(&s->http, "news", 1, 1, 0);
    assert_int_equal(http_get(&s->http, "/sets/news/changelist.xml"), 200);
    buf_init(&s->before, 1 << 20);
    buf_add_slice(&s->before, buf_slice(&s->http.body));
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    buf_fini(&s->before);
    http_close(&s->http);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* Nothing of what was refused is there, no set was made for it, and the broker
 * still takes changes. */
static void
assert_nothing_kept(struct stage *s)
{
    assert_int_equal(http_get(&s->http, "/sets/news/changelist.xml"), 200);
    assert_true(slice_equal(buf_slice(&s->http.body), buf_slice(&s->before)));
    assert_int_equal(http_get(&s->http, "/.well-known/resourcesync"), 200);
    assert_null(memmem(s->http.body.data, s->http.body.size, "/sets/other/",
                       strlen("/sets/other/")));
    assert_int_equal(source_post(&s->http, "check", 1, 1, 0).last, 1);
}

struct refused {
    const char *type;
    const char *body;
    long status;
    const char *detail; /* a part of it */
    unsigned entry;
};

/* Posts each body to a set that there is and to one that is not. */
static void
check_all(struct stage *s, const struct refused *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *const sets[] = {"news", "other"};

        for (size_t k = 0; k < 2; k++) {
            source_send(&s->http, sets[k], cases[i].type,
                        slice_of(cases[i].body), NULL);
            assert_entry_refused(&s->http, cases[i].status, cases[i].detail,
                                 cases[i].entry);
        }
    }
    assert_nothing_kept(s);
}

#define CHECK_ALL(s, cases) \
    check_all(s, cases, sizeof(cases) / sizeof((cases)[0]))

FIXTURE(set_up, tear_down);

TEST(refuses_malformed_json_with_400)
{
    static const struct refused cases[] = {
        {"application/json", "", 400, "not JSON", 0},
        {"application/json", "[" GOOD ",{\"loc\":", 400, "not JSON", 2},
        {"application/json", "[" GOOD, 400, "not JSON", 0},
        {"application/json", GOOD " x", 400, "not JSON", 0},
        {"application/json", GOOD "," GOOD, 400, "not JSON", 0},
        {"application/json", "[" GOOD ",]", 400, "not JSON", 0},
        {"application/json", "<urlset/>", 400, "not JSON", 0},
        {"application/json", "{\"loc\":\"\xff\"}", 400, "not JSON", 1},
    };

    CHECK_ALL(*state, cases);
}

TEST(refuses_malformed_xml_with_400)
{
    static const struct refused cases[] = {
        {"application/xml", "", 400, "not ", 0},
        {"application/xml", "hello", 400, "not ", 0},
        {"application/xml", URLSET, 400, "not well-formed", 0},
        {"application/xml", URLSET "<url>", 400, "not well-formed", 1},
        {"application/xml", URLSET URL("http://example.com/a", "created"), 400,
         "not well-formed", 0},
        {"application/xml",
         URLSET URL("http://example.com/a", "created") "</urlse>", 400,
         "not well-formed", 0},
        {"text/xml",
         URLSET URL("http://example.com/a&b", "created") "</urlset>", 400,
         "not well-formed", 1},
    };

    CHECK_ALL(*state, cases);
}

/* and what JSON has of its own. The entry that is
 * to blame is named. */
TEST(refuses_what_is_well_formed_but_wrong_with_422)
{
    static const struct refused cases[] = {
        {"application/json",
         "[" GOOD "," GOOD ",{\"loc\":\"/a\",\"change\":"
         "\"created\"}," GOOD "]",
         422, "loc: not an absolute URI", 3},
        {"application/json", "{\"loc\":\"http://e.x\",\"change\":\"created\"}",
         422, "loc", 1},
        {"application/json",
         "[" GOOD ",{\"loc\":\"http://example.com/a\","
         "\"change\":\"moved\"}]",
         422, "moved", 2},
        {"application/json", "[" GOOD ",{\"loc\":\"http://example.com/a\"}]",
         422, "no change", 2},
        {"application/json", "[" GOOD ",{\"change\":\"created\"}]", 422,
         "no loc", 2},
        {"application/json",
         "{\"loc\":\"http://example.com/a\",\"change\":"
         "\"created\",\"what\":1}",
         422, "what", 1},
        {"application/json", "[]", 422, "no entries", 0},
        {"application/json", "3", 422, "", 0},
        {"application/xml", "<urlset/>", 422, "namespace", 0},
        {"application/xml", "<urlset xmlns=\"urn:x\"/>", 422, "namespace", 0},
        {"application/xml", URLSET "</urlset>", 422, "no entries", 0},
        {"application/xml",
         URLSET URL("http://example.com/a", "created")
             URL("a", "created") "</urlset>",
         422, "loc: not an absolute URI", 2},
        {"application/xml",
         URLSET URL("http://example.com/a", "created")
             URL("http://example.com/b", "moved") "</urlset>",
         422, "moved", 2},
    };

    CHECK_ALL(*state, cases);
}

/* */
TEST(refuses_a_loc_that_is_too_long)
{
    struct stage *s = *state;
    char *body = malloc(4096);

    assert_non_null(body);
    for (size_t length = 2048; length <= 2049; length++) {
        int n = snprintf(body, 4096,
                         "{\"change\":\"created\",\"loc\":\"http:"
                         "//example.com/");

        memset(body + n, 'a', length - strlen("http://example.com/"));
        snprintf(body + n + length - strlen("http://example.com/"), 16, "\"}");
        source_send(&s->http, length == 2048 ? "check" : "news",
                    "application/json", slice_of(body), NULL);
        if (length == 2048)
            assert_int_equal(s->http.status, 200);
        else
            assert_entry_refused(&s->http, 422, "longer than 2048", 1);
    }
    assert_int_equal(http_get(&s->http, "/sets/news/changelist.xml"), 200);
    assert_true(slice_equal(buf_slice(&s->http.body), buf_slice(&s->before)));
    free(body);
}

/* What cannot be read here is said with what can be. */
TEST(refuses_other_media_types_and_codings_with_415)
{
    static const char *const types[] = {
        "Content-Type: text/plain",
        "Content-Type: application/octet-stream",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Type: application/jsonx",
        "Content-Type: application/xml; charset=iso-8859-1",
        "Content-Type: application/json; charset=utf-16",
        "Content-Type:",
    };
    static const char *const codings[] = {"zstd", "deflate", "br",
                                          "gzip, identity"};
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const char *const headers[] = {types[i], NULL};

        http_request(&s->http, "POST", CHANGES, headers, slice_of(GOOD));
        assert_refused(&s->http, 415, "application/xml, application/json");
    }
    for (size_t i = 0; i < sizeof(codings) / sizeof(codings[0]); i++) {
        char line[64];
        const char *const headers[] = {"Content-Type: application/json", line,
                                       NULL};

        snprintf(line, sizeof(line), "Content-Encoding: %s", codings[i]);
        http_request(&s->http, "POST", CHANGES, headers, slice_of(GOOD));
        assert_refused(&s->http, 415, codings[i]);
    }
    assert_nothing_kept(s);
}

TEST(answers_404_for_what_is_not_there)
{
    static const char *const paths[] = {
        "/nowhere",
        "/sets/other/changes",
        "/sets/other/capabilitylist.xml",
        "/sets/other/changelist.xml",
        "/sets/other/changelist-archive.xml",
        "/sets/other/changes/000000000001.xml",
        "/sets/news/changes/000000000002.xml",
        "/sets/news/changes/000000000000.xml",
        "/sets/news/changes/1.xml",
        "/sets/news/changes/0000000000001.xml",
        "/sets/news/changelist-archive.xml",
        "/sets/news/",
        "/sets/NEWS/changelist.xml",
        "/.well-known/other",
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        if (http_get(&s->http, paths[i]) != 404)
            print_error("%s\n", paths[i]);
        assert_refused(&s->http, 404, "");
    }
    http_request(&s->http, "POST", "/sets/other/rotate", NULL,
                 (struct slice){"", 0});
    assert_refused(&s->http, 404, "other");
    assert_nothing_kept(s);
}

TEST(refuses_names_that_no_set_can_have)
{
    static const char *const names[] = {
        "NEWS",
        ".news",
        "-news",
        "_news",
        "n%C3%A9",
        "a%20b",

        "n*",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[128];

        snprintf(path, sizeof(path), "/sets/%s/changes", names[i]);
        http_post(&s->http, path, "application/json", slice_of(GOOD));
        if (s->http.status != 404 && s->http.status != 400 &&
            s->http.status != 403)
            fail_msg("%s: %ld", names[i], s->http.status);
    }
    assert_int_equal(http_get(&s->http, "/.well-known/resourcesync"), 200);
    assert_null(memmem(s->http.body.data, s->http.body.size, "aaaa", 4));
    assert_nothing_kept(s);
}

TEST(answers_405_with_what_is_allowed)
{
    static const struct {
        const char *method, *path, *allow;
    } cases[] = {
        {"PUT", CHANGES, "GET, HEAD, POST"},
        {"DELETE", CHANGES, "GET, HEAD, POST"},
        {"PATCH", CHANGES, "GET, HEAD, POST"},
        {"GET", "/sets/news/rotate", "POST"},
        {"POST", "/sets/news/stream", "GET, HEAD"},
        {"POST", "/sets/news/changelist.xml", "GET, HEAD"},
        {"DELETE", "/sets/news/changes/000000000001.xml", "GET, HEAD"},
        {"POST", "/.well-known/resourcesync", "GET, HEAD"},
        {"POST", "/healthz", "GET, HEAD"},
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool has_body =
            !strcmp(cases[i].method, "POST") || !strcmp(cases[i].method, "PUT");

        http_request(&s->http, cases[i].method, cases[i].path, NULL,
                     (struct slice){has_body ? "" : NULL, 0});
        assert_refused(&s->http, 405, cases[i].allow);
        assert_string_equal(http_header(&s->http, "Allow"), cases[i].allow);
    }
    assert_nothing_kept(s);
}

/* A body as large as allowed is read; one byte more is refused unread. */
TEST(refuses_a_body_that_is_too_large)
{
    enum { LIMIT = 8 << 20 };

    struct stage *s = *state;
    struct buf body;

    buf_init(&body, 2 * LIMIT);
    source_entries(&body, 0, 128, 65400);
    assert_in_range(body.size, LIMIT - 100000, LIMIT - 1);
    while (body.size < LIMIT)
        BUF_ADD(&body, "\n");
    assert_int_equal(source_send(&s->http, "check", "application/json",
                                 buf_slice(&body), NULL),
                     200);
    BUF_ADD(&body, "\n");
    source_send(&s->http, "news", "application/json", buf_slice(&body), NULL);
    assert_refused(&s->http, 413, "8388608");

    assert_int_equal(http_get(&s->http, "/sets/news/changelist.xml"), 200);
    assert_true(slice_equal(buf_slice(&s->http.body), buf_slice(&s->before)));
    buf_fini(&body);
}

/* no document has more. What is no document of ResourceSync may: it is
 * split (large_test.c). */
TEST(refuses_a_urlset_of_more_than_50000_entries)
{
    struct stage *s = *state;
    struct buf body;

    buf_init(&body, (size_t)16 << 20);
    for (unsigned n = 50001; n >= 50000; n--) {
        buf_clear(&body);
        buf_add_text(&body, URLSET);
        for (unsigned i = 0; i < n; i++)
            buf_add_text(&body, URL("http://example.com/a", "created"));
        buf_add_text(&body, "</urlset>");
        assert_false(body.failed);
        source_send(&s->http, n == 50000 ? "check" : "news", "application/xml",
                    buf_slice(&body), NULL);
        if (n == 50000)
            assert_int_equal(s->http.status, 200);
        else
            assert_refused(&s->http, 413, "50000");
    }
    buf_fini(&body);
    assert_int_equal(http_get(&s->http, "/sets/news/changelist.xml"), 200);
    assert_true(slice_equal(buf_slice(&s->http.body), buf_slice(&s->before)));
}
