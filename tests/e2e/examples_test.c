/*
 * examples_test.c - the bodies of tests/spec/examples/bad and odd, posted: the
 * first are refused whole, the second come out with the values they have.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/refusal.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define EXAMPLES SPEC_DIR "/examples/"
#define HAVEN    "http://example.com/gauges/r/haven.csv"

/* The names of the XML files of a folder; returns how many. */
static size_t
list_files(const char *folder, char names[][128], size_t max)
{
    char path[512];
    struct dirent *entry;
    size_t n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), EXAMPLES "%s", folder);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        const char *dot = strrchr(entry->d_name, '.');

        if (!dot || strcmp(dot, ".xml") != 0)
            continue;
        assert_true(n < max);
        assert_true(snprintf(names[n++], 128, "%s/%s", folder, entry->d_name) <
                    128);
    }
    closedir(dir);
    return n;
}

/* Every one of them: 4xx with a problem, and nothing of it is kept: no set is
 * made, a set that is there stays as it is. */
TEST(refuses_all_bad_examples_whole, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    char names[64][128];
    size_t n = list_files("bad", names, 64);
    struct buf list;
    struct http h;

    assert_true(n >= 40);
    buf_init(&list, 1 << 20);
    http_open(&h, b->url);
    source_post(&h, "news", 1, 1, 0);
    assert_int_equal(http_get(&h, "/sets/news/changelist.xml"), 200);
    buf_add_slice(&list, buf_slice(&h.body));
    for (size_t i = 0; i < n; i++) {
        static const char *const sets[] = {"news", "other"};

        for (size_t k = 0; k < 2; k++) {
            long status = source_send_file(&h, sets[k], names[i]);

            if (status < 400 || status > 499)
                fail_msg("%s: %ld %s", names[i], status, h.error);
            assert_refused(&h, status, "");
        }
        assert_int_equal(http_get(&h, "/sets/other/changelist.xml"), 404);
        assert_int_equal(http_get(&h, "/sets/news/changelist.xml"), 200);
        assert_true(slice_equal(buf_slice(&list), buf_slice(&h.body)));
    }
    assert_int_equal(source_post(&h, "news", 2, 1, 0).last, 2);
    buf_fini(&list);
    http_close(&h);
}

/* What must come out; several lines for one file, whose `n` is in the first. */
static const struct {
    const char *name;
    unsigned n; /* entries */
    const char *expression;
    const char *value;
} odd[] = {
    {"byte-order-mark", 1, "//s:loc", HAVEN},
    {"cdata-and-references", 2, "//s:url[1]/s:loc",
     "http://example.com/q?a=1&b=2"},
    {"cdata-and-references", 0, "//s:url[2]/s:loc",
     "http://example.com/r/\xc3\xa5"},
    {"comments", 1, "//s:loc", HAVEN},
    {"deleted-unknown", 1, "//s:url/rs:md/@change", "deleted"},
    {"deleted-unknown", 0, "//s:loc",
     "http://example.com/gauges/r/never-seen.csv"},
    {"foreign-elements", 1, "//s:loc", HAVEN},
    {"fractions", 3, "//s:url[1]/s:loc", "http://example.com/f/1-gauge"},
    {"fractions", 0, "//s:url[2]/s:loc", "http://example.com/f/2-gauge"},
    {"fractions", 0, "//s:url[3]/s:loc", "http://example.com/f/3-gauge"},
    {"links", 1, "//s:url/rs:ln[12]/@href", "http://example.com/l/11"},
    {"long-loc", 1, "string-length(//s:loc)", "2048"},
    {"no-declaration", 1, "//s:loc", HAVEN},
    {"offset-time", 1, "//s:lastmod", "2026-04-05T08:30:00Z"},
    {"old-capability", 1, "//s:loc", HAVEN},
    {"old-lastmod", 1, "//s:lastmod", "2000-02-29T23:59:59Z"},
    {"other-prefixes", 1, "//s:loc", HAVEN},
    {"quotes-and-order", 1, "//s:loc", HAVEN},
    {"quotes-and-order", 0, "//s:url/rs:md/@change", "created"},
    {"quotes-and-order", 0, "//s:url/rs:md/@length", "12"},
    {"quotes-and-order", 0, "//s:url/rs:md/@type", "text/csv"},
    {"same-resource", 5, "//s:url[4]/rs:md/@change", "deleted"},
    {"same-resource", 0, "//s:url[5]/rs:md/@change", "created"},
    {"several-hashes", 1, "//s:url/rs:md/@hash",
     "md5:ABABABABABABABABABABABABABABABAB "
     "sha-1:cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd "
     "sha-256:EFEFEFEFEFEFEFEFEFEFEFEFEFEFEFEF"
     "EFEFEFEFEFEFEFEFEFEFEFEFEFEFEFEF"},
    {"sha256-spelling", 1, "//s:url/rs:md/@hash",
     "sha-256:abababababababababababababababab"
     "abababababababababababababababab"},
    {"short-loc", 1, "//s:loc", "urn:tide:abc"},
    {"type-parameters", 1, "//s:url/rs:md/@type",
     "application/ld+json; profile=\"http://example.org/p\"; charset=utf-8"},
    {"white-space", 1, "//s:loc", HAVEN},
    {"white-space", 0, "//s:lastmod", "2026-04-05T09:59:00Z"},
};

#define N_ODD (sizeof(odd) / sizeof(odd[0]))

/* The event's own time is kept, as the event time or beside it. */
TEST(accepts_all_odd_examples_with_their_values, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct http h;

    http_open(&h, b->url);
    for (size_t i = 0; i < N_ODD; i++) {
        char name[128], path[128];
        struct xpath x;

        snprintf(name, sizeof(name), "odd/%s.xml", odd[i].name);
        snprintf(path, sizeof(path), "/sets/%s/changelist.xml", odd[i].name);
        if (odd[i].n > 0 && source_send_file(&h, odd[i].name, name) != 200)
            fail_msg("%s: %.*s", name, SLICE_ARG(buf_slice(&h.body)));
        assert_int_equal(http_get(&h, path), 200);
        assert_valid(buf_slice(&h.body));
        xpath_open(&x, buf_slice(&h.body));
        if (odd[i].n > 0) {
            assert_xpath_count(&x, "//s:url", odd[i].n);
            assert_xpath_count(&x,
                               "//s:url[starts-with(rs:md/@td:datetime, "
                               "'2026-04-05T10:00:0')]",
                               odd[i].n);
        }
        assert_xpath_text(&x, odd[i].expression, odd[i].value);
        xpath_close(&x);
    }
    http_close(&h);
}

/* The table above has a line for every file. */
TEST(no_odd_example_is_forgotten)
{
    char names[64][128], name[128];
    size_t n = list_files("odd", names, 64);

    assert_true(n >= 20);
    for (size_t i = 0; i < n; i++) {
        bool is_there = false;

        for (size_t k = 0; k < N_ODD; k++) {
            snprintf(name, sizeof(name), "odd/%s.xml", odd[k].name);
            is_there = is_there || !strcmp(name, names[i]);
        }
        if (!is_there)
            fail_msg("%s is not looked at", names[i]);
    }
}

/* README of the examples: a correct document is a correct post. */
TEST(accepts_the_change_documents_among_the_good_examples, broker_setup,
     broker_teardown)
{
    static const char *const names[] = {
        "change-list-open.xml", "change-list-closed.xml",
        "change-notification.xml", "relations.xml", "foreign-and-escaped.xml"};
    struct broker *b = broker_of(state);
    struct http h;

    http_open(&h, b->url);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (source_send_file(&h, "news", names[i]) != 200)
            fail_msg("%s: %.*s", names[i], SLICE_ARG(buf_slice(&h.body)));
    assert_int_equal(http_get(&h, "/sets/news/changelist.xml"), 200);
    assert_valid(buf_slice(&h.body));
    http_close(&h);
}
