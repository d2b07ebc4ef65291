/*
 * harvest_entry_test.c - an entry of one broker becomes an entry for another.
 */
#include "client/harvest/harvest_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/json_slices.h"
#include "tests/test.h"

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbb"
#define C "cccccccccccccccc"

#define PATH(path)                                     \
    "\"attributes\":[{\"ns\":\"urn:tidings:relay:1\"," \
    "\"name\":\"path\",\"value\":\"" path "\"}]"
#define VIA(href) "{\"rel\":\"via\",\"href\":\"" href "\"}"

static char *written;

static const char *source = A;
static const char *change;
static struct slice copy;
static uint64_t n_dropped;

static enum harvest_verdict
relay(const char *text, bool keeps_links)
{
    const struct harvest_rules rules = {source, B,    keeps_links,
                                        change, copy, &n_dropped};
    char *exact = malloc(strlen(text) + 1);
    enum harvest_verdict verdict;
    struct buf to;

    free(written);
    buf_init(&to, SIZE_MAX);
    assert_non_null(exact);
    memcpy(exact, text, strlen(text) + 1);
    verdict =
        harvest_entry(&to, "", (struct slice){exact, strlen(text)}, &rules);
    written = slice_dup(buf_slice(&to));
    assert_non_null(written);
    buf_fini(&to);
    free(exact);
    return verdict;
}

static void
assert_becomes(const char *text, const char *expected)
{
    assert_int_equal(relay(text, false), HARVEST_WRITTEN);
    assert_string_equal(written, expected);
}

static int
forget(void **state)
{
    (void)state;
    free(written);
    written = NULL;
    return 0;
}

TEST_GROUP(NULL, NULL, forget);

/* `via` is the resource at the source; its times are the
 * target's. */
TEST(gets_a_via_and_leaves_its_times)
{
    assert_becomes("{\"loc\":\"http://a.example/1\",\"change\":\"deleted\","
                   "\"datetime\":\"2026-01-01T00:00:00.000000Z\","
                   "\"sourceDatetime\":\"2025-01-01T00:00:00Z\",\"seq\":7}",
                   "{\"loc\":\"http://a.example/1\",\"change\":\"deleted\","
                   "\"links\":[" VIA("http://a.example/1") "]," PATH(A) "}");
}

/* an aggregator of an aggregator keeps the existing `via` only. */
TEST(keeps_a_via_that_is_there)
{
    assert_becomes(
        "{\"loc\":\"http://b.example/1\",\"links\":["
        "{\"rel\":\"describes\",\"href\":\"http://x.example/\"}," VIA(
            "http://a.example/1") "],\"seq\":7}",
        "{\"loc\":\"http://b.example/1\",\"links\":["
        "{\"rel\":\"describes\",\"href\":\"http://x.example/\"}," VIA(
            "http://a.example/1") "]," PATH(A) "}");
    assert_becomes("{\"loc\":\"u:1\",\"links\":[{\"rel\":\"up via\","
                   "\"href\":\"u:2\"}]}",
                   "{\"loc\":\"u:1\",\"links\":[{\"rel\":\"up via\","
                   "\"href\":\"u:2\"}]," PATH(A) "}");
    assert_becomes("{\"loc\":\"u:1\",\"links\":[{\"rel\":\"viaduct\","
                   "\"href\":\"u:2\"}]}",
                   "{\"loc\":\"u:1\",\"links\":[{\"rel\":\"viaduct\","
                   "\"href\":\"u:2\"}," VIA("u:1") "]," PATH(A) "}");
}

/* A source without a log of its own adds nothing to the path, and keeps it. */
TEST(gets_no_path_without_an_epoch)
{
    source = "";
    assert_becomes("{\"loc\":\"u:1\"}",
                   "{\"loc\":\"u:1\",\"links\":[" VIA("u:1") "]}");
    assert_becomes("{\"loc\":\"u:1\",\"attributes\":[{\"ns\":\"u:x\","
                   "\"name\":\"n\",\"value\":\"v\"}]}",
                   "{\"loc\":\"u:1\",\"links\":[" VIA(
                       "u:1") "],\"attributes\":[{\"ns\":\"u:x\","
                              "\"name\":\"n\",\"value\":\"v\"}]}");
    assert_becomes("{\"loc\":\"u:1\"," PATH(C) "}",
                   "{\"loc\":\"u:1\",\"links\":[" VIA("u:1") "]," PATH(C) "}");
    assert_int_equal(relay("{\"loc\":\"u:1\"," PATH(B) "}", false),
                     HARVEST_RING);
    source = A;
}

/* A deletion has no representation. */
TEST(leaves_what_a_deletion_does_not_have)
{
#define REPRESENTATION                                              \
    "\"hash\":{\"md5\":\"00\"},\"length\":3,\"type\":\"text/csv\"," \
    "\"encoding\":\"gzip\""

    assert_becomes("{\"loc\":\"u:1\",\"change\":\"deleted\"," REPRESENTATION
                   "}",
                   "{\"loc\":\"u:1\",\"change\":\"deleted\",\"links\":[" VIA(
                       "u:1") "]," PATH(A) "}");
    assert_becomes("{\"loc\":\"u:1\",\"change\":\"updated\"," REPRESENTATION
                   "}",
                   "{\"loc\":\"u:1\",\"change\":\"updated\"," REPRESENTATION
                   ",\"links\":[{\"rel\":\"via\",\"href\":\"u:1\","
                   "\"hash\":{\"md5\":\"00\"},\"length\":3,"
                   "\"type\":\"text/csv\"}]," PATH(A) "}");
}

/* a via describes the original. The kind may be another one: that of the
 * set. */
TEST(a_via_describes_the_original)
{
    assert_becomes(
        "{\"loc\":\"u:1\",\"lastmod\":\"2026-01-01\",\"length\":3}",
        "{\"loc\":\"u:1\",\"lastmod\":\"2026-01-01\",\"length\":3,"
        "\"links\":[{\"rel\":\"via\",\"href\":\"u:1\","
        "\"modified\":\"2026-01-01T00:00:00Z\",\"length\":3}]," PATH(A) "}");
    change = "updated";
    assert_becomes("{\"loc\":\"u:1\",\"change\":\"created\"}",
                   "{\"loc\":\"u:1\",\"change\":\"updated\",\"links\":[" VIA(
                       "u:1") "]," PATH(A) "}");
    change = "deleted";
    assert_becomes("{\"loc\":\"u:1\",\"length\":3}",
                   "{\"loc\":\"u:1\",\"change\":\"deleted\",\"links\":[" VIA(
                       "u:1") "]," PATH(A) "}");
    change = NULL;
}

/* the relay drops the entry's links to its former documents, unless it
 * is asked to keep them. */
TEST(leaves_links_that_are_not_true_any_more)
{
    static const char text[] =
        "{\"loc\":\"u:1\",\"links\":[{\"rel\":\"collection\",\"href\":\"u:2\"},"
        "{\"rel\":\"duplicate\",\"href\":\"u:3\",\"pri\":1},"
        "{\"rel\":\"canonical\",\"href\":\"u:4\"}]}";

    assert_becomes(text,
                   "{\"loc\":\"u:1\",\"links\":[{\"rel\":\"duplicate\","
                   "\"href\":\"u:3\",\"pri\":1}," VIA("u:1") "]," PATH(A) "}");
    assert_int_equal(relay(text, true), HARVEST_WRITTEN);
    assert_non_null(strstr(written, "\"rel\":\"collection\""));
    assert_non_null(strstr(written, "\"rel\":\"canonical\""));
    assert_non_null(strstr(written, "\"rel\":\"via\""));
}

/* a copy has an address, a hash and a length of its own, and says
 * nothing that is true of its original alone: C examples 31 to 33, of which the
 * last two have the same via. */
TEST(a_copy_is_no_original)
{
    static const char *const aggregators[] = {"http://h.example/r/1",
                                              "http://i.example/r/1"};
    static const char of_original[] = "\"lastmod\":\"2013-01-02T14:00:00Z\",";
    static const char via[] =
        "\"links\":[{\"rel\":\"via\",\"href\":\"http://a.example/1\","
        "\"modified\":\"2013-01-02T14:00:00Z\",\"hash\":{\"md5\":\"00\"},"
        "\"length\":3,\"type\":\"text/csv\"}]";
    char text[1000], expected[1000];

    source = "";
    snprintf(text, sizeof(text),
             "{\"loc\":\"http://a.example/1\",%s\"hash\":{\"md5\":\"00\"},"
             "\"length\":3,\"type\":\"text/csv\",\"encoding\":\"gzip\"}",
             of_original);
    for (size_t i = 0; i < N_ELEMENTS(aggregators); i++) {
        copy = slice_of(aggregators[i]);
        snprintf(expected, sizeof(expected),
                 "{\"loc\":\"%s\",%s\"type\":\"text/csv\",%s}", aggregators[i],
                 of_original, via);
        assert_becomes(text, expected);
        snprintf(text, sizeof(text), "%s", expected);
    }
    /* A deletion that only a list tells does not know its original. */
    change = "deleted";
    assert_becomes("{\"loc\":\"http://i.example/r/1\"}",
                   "{\"loc\":\"http://i.example/r/1\","
                   "\"change\":\"deleted\"}");
    change = NULL;
    copy = (struct slice){NULL, 0};
    source = A;
}

TEST(a_copy_drops_links_to_other_bytes)
{
    static const struct {
        const char *rel;
        unsigned dropped; /* of an entry, of a copy */
    } rows[] = {
        {"collection", 11},
        {"canonical", 11},
        {"duplicate", 1},
        {"memento", 1},
        {"timegate", 1},
        {"edit-media", 1},
        {"successor-version", 1},
        {"http://www.openarchives.org/rs/terms/patch", 1},
        {"describes", 0},
        {"describedby", 0},
        {"alternate", 0},
        {"http://x.example/memento", 0},
        {"", 0},
    };

    char text[300];

    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        snprintf(text, sizeof(text),
                 "{\"loc\":\"u:1\",\"links\":[{\"rel\":\"%s\","
                 "\"href\":\"u:2\"}]}",
                 rows[i].rel);
        for (unsigned is_copy = 0; is_copy < 2; is_copy++) {
            unsigned expected = rows[i].dropped / (is_copy ? 1 : 10) % 10;

            copy = slice_of(is_copy ? "http://h.example/r/1" : "");
            n_dropped = 0;
            assert_int_equal(relay(text, false), HARVEST_WRITTEN);
            assert_int_equal(n_dropped, expected);
            assert_int_equal(!strstr(written, "u:2"), expected);
        }
    }
    copy = (struct slice){NULL, 0};
}

/* all else stays as it stands. */
TEST(keeps_all_else)
{
    assert_becomes(
        "{\"loc\":\"http://a.example/\\\"},\\\\\",\"change\":\"updated\","
        "\"hash\":{\"md5\":\"00\",\"sha-256\":\"11\"},\"length\":12345678901,"
        "\"type\":\"text/csv\",\"tags\":[\"a,b\",\"c]}\"],"
        "\"attributes\":[{\"ns\":\"u:x\",\"name\":\"n\",\"value\":\"{\"}],"
        "\"other\":[1,[2,{}],null] , \"seq\" : 7 }",
        "{\"loc\":\"http://a.example/\\\"},\\\\\",\"change\":\"updated\","
        "\"hash\":{\"md5\":\"00\",\"sha-256\":\"11\"},\"length\":12345678901,"
        "\"type\":\"text/csv\",\"tags\":[\"a,b\",\"c]}\"],"
        "\"other\":[1,[2,{}],null],"
        "\"links\":[{\"rel\":\"via\",\"href\":\"http://a.example/\\\"},\\\\\","
        "\"hash\":{\"md5\":\"00\",\"sha-256\":\"11\"},\"length\":12345678901,"
        "\"type\":\"text/csv\"}],"
        "\"attributes\":[{\"ns\":\"u:x\","
        "\"name\":\"n\",\"value\":\"{\"},"
        "{\"ns\":\"urn:tidings:relay:1\","
        "\"name\":\"path\","
        "\"value\":\"" A "\"}]}");
}

/* The relay does not post an entry to a log that it has been in; other logs get
 * it. */
TEST(does_not_go_round)
{
    static const char *const no_paths[] = {
        "{\"loc\":\"u:1\",\"attributes\":[{\"ns\":\"urn:tidings:relay:1\","
        "\"name\":\"paths\",\"value\":\"" B "\"}]}",
        "{\"loc\":\"u:1\",\"attributes\":[{\"ns\":\"urn:tidings:relay:2\","
        "\"name\":\"path\",\"value\":\"" B "\"}]}",
        "{\"loc\":\"u:1\",\"attributes\":[{\"ns\":\"urn:tidings:relay:1\","
        "\"name\":\"path\",\"value\":[" B "]}]}",
    };

    assert_becomes(
        "{\"loc\":\"u:1\",\"links\":[" VIA("u:0") "]," PATH(C) "}",
        "{\"loc\":\"u:1\",\"links\":[" VIA("u:0") "]," PATH(C " " A) "}");
    assert_int_equal(relay("{\"loc\":\"u:1\"," PATH(B) "}", false),
                     HARVEST_RING);
    assert_int_equal(relay("{\"loc\":\"u:1\"," PATH(C " " B) "}", false),
                     HARVEST_RING);
    assert_int_equal(relay("{\"loc\":\"u:1\"," PATH(B B) "}", false),
                     HARVEST_WRITTEN);
    assert_int_equal(relay("{\"loc\":\"u:1\"," PATH(B " " C) "}", false),
                     HARVEST_RING);
    for (size_t i = 0; i < sizeof(no_paths) / sizeof(no_paths[0]); i++)
        assert_int_equal(relay(no_paths[i], false), HARVEST_WRITTEN);
    relay("{\"loc\":\"u:1\"," PATH(B) "}", false);
    assert_string_equal(written, "");
}

/* Text that is no entry is not written, and never read beyond its end. */
TEST(takes_nothing_odd)
{
    static const char good[] =
        "{\"loc\":\"u:1\",\"links\":[{\"rel\":\"x\",\"href\":\"u:2\"}],"
        "\"attributes\":[{\"ns\":\"u:x\",\"name\":\"n\",\"value\":\"\\\\\"}]}";
    static const char *const bad[] = {
        "{}", "[]", "{\"loc\":1}", "\"loc\"", "{\"loc\":\"u:1\"", "<url>"};
    char cut[sizeof(good)];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(relay(bad[i], false), HARVEST_ODD);
    for (size_t size = 1; size < sizeof(good) - 1; size++) {
        memcpy(cut, good, size);
        cut[size] = '\0';
        relay(cut, false);
    }
}

TEST(tells_the_same_change)
{
    static const char one[] = "{\"loc\":\"u:1\",\"change\":\"updated\","
                              "\"length\":3,\"links\":[]," PATH(A) "}";
    static const char same[] =
        "{\"loc\":\"u:1\",\"change\":\"updated\","
        "\"datetime\":\"x\",\"length\":3," PATH(A) ",\"seq\":9}";
    static const char *const others[] = {
        "{\"loc\":\"u:2\",\"change\":\"updated\",\"length\":3," PATH(A) "}",
        "{\"loc\":\"u:1\",\"change\":\"updated\",\"length\":33," PATH(A) "}",
        "{\"loc\":\"u:1\",\"change\":\"updated\",\"length\":3," PATH(B) "}",
        "{\"loc\":\"u:1\",\"change\":\"updated\",\"length\":3}",
        "{\"loc\":\"u:1\",\"change\":\"updated\"," PATH(A) "}",
    };

    assert_true(harvest_is_same(slice_of(one), slice_of(same)));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(harvest_is_same(slice_of(one), slice_of(others[i])));
}

TEST(cuts_a_post_into_its_entries)
{
    struct slice rest = SLICE("[{\"a\":1},\n{\"b\":\"]\"}]\n"), entry;

    assert_true(json_slices_element(&rest, &entry));
    assert_int_equal(entry.size, 7);
    assert_memory_equal(entry.data, "{\"a\":1}", 7);
    assert_true(json_slices_element(&rest, &entry));
    assert_memory_equal(entry.data, "{\"b\":\"]\"}", entry.size);
    assert_false(json_slices_element(&rest, &entry));
}
