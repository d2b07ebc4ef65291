/*
 * filter_test.c - filters: the same entries with the same seqs as without, on
 * every way, gap-proof, at bounded cost.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/command.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/lists.h"
#include "tests/support/mixture.h"
#include "tests/support/notice.h"
#include "tests/support/sanitized.h"
#include "tests/support/schema.h"
#include "tests/support/source.h"
#include "tests/support/xpath.h"
#include "tests/test.h"

#define SET     LISTS_SET
#define TIDINGS BIN_DIR "/tidings"

static const char *const accepts[] = {"Accept: application/json",
                                      "Accept: application/xml"};

/* What somebody got, and must get: the entries that pass, one after another. */
struct got {
    const struct mixture_filter *filter;
    uint64_t next; /* the least seq that may come */
};

static void
get_entries(struct got *g, const struct notice *n)
{
    for (size_t i = 0; i < n->n; i++) {
        while (g->next < n->entries[i].seq)
            assert_false(g->filter->passes(g->next++));
        assert_true(g->filter->passes(g->next++));
    }
}

/* Up to `last` nothing is missing. */
static void
got_all(struct got *g, uint64_t last)
{
    while (g->next <= last)
        assert_false(g->filter->passes(g->next++));
}

/* Reads the page at `path`; *next becomes the path of the next one. false: it
 * is at the head, where `next` is `self`. */
static bool
get_page(struct http *h, const char *url, const char *accept, char *path,
         struct got *g)
{
    const char *const headers[] = {accept, NULL};
    bool is_xml = strstr(accept, "xml") != NULL, is_more;
    struct notice n;
    char link[2048], next[1024];

    assert_int_equal(
        http_request(h, "GET", path, headers, (struct slice){NULL, 0}), 200);
    assert_string_equal(http_header(h, "Vary"), "Accept");
    notice_read(&n, is_xml ? NOTICE_XML : NOTICE_JSON, buf_slice(&h->body));
    notice_check_filtered(&n);
    get_entries(g, &n);
    is_more = n.after < n.last;

    snprintf(link, sizeof(link), "%s", http_header(h, "Link"));
    if (is_xml) {
        struct xpath x;

        assert_valid(buf_slice(&h->body));
        xpath_open(&x, buf_slice(&h->body));
        snprintf(next, sizeof(next), "%s",
                 xpath_get(&x, "/s:urlset/rs:ln[@rel='next']/@href"));
        snprintf(link, sizeof(link), "<%s>; rel=\"self\", <%s>; rel=\"next\"",
                 xpath_get(&x, "/s:urlset/rs:ln[@rel='self']/@href"), next);
        assert_xpath_count(&x, "/s:urlset/rs:ln[@rel='up']", 1);
        xpath_close(&x);
        assert_string_equal(http_header(h, "Link"), link);
    } else {
        snprintf(next, sizeof(next), "%s", n.next);
        assert_non_null(strstr(link, next));
    }
    notice_free(&n);
    assert_memory_equal(next, url, strlen(url));
    strcpy(path, next + strlen(url));
    return is_more;
}

/* by change memory. */
static void
assert_memory(struct lists *l, const struct mixture_filter *filter,
              uint64_t last)
{
    for (size_t i = 0; i < 2; i++) {
        struct got g = {filter, 1};
        char path[1024], expected[1024];

        snprintf(path, sizeof(path), "/sets/" SET "/changes?after=0&%s",
                 filter->query);
        while (get_page(&l->http, l->broker.url, accepts[i], path, &g))
            ;
        got_all(&g, last);
        strcpy(expected, path); /* there is no further one */
        get_page(&l->http, l->broker.url, accepts[i], path, &g);
        assert_string_equal(path, expected);
    }
}

/* by WebSocket; follower.c sees to it that each message begins where the
 * last one ended. */
static void
assert_streams(struct lists *l, const struct mixture_filter *filter,
               uint64_t last)
{
    static const char *const subprotocols[] = {"resourcesync.json",
                                               "resourcesync.xml"};

    for (size_t i = 0; i < 2; i++) {
        struct got g = {filter, 1};
        struct follower f;
        char path[1024];

        snprintf(path, sizeof(path), "/sets/" SET "/stream?after=0&%s",
                 filter->query);
        follower_open(&f, l->broker.port, path, subprotocols[i]);
        do {
            follower_next(&f);
            get_entries(&g, &f.notice);
        } while (f.notice.last < last);
        assert_int_equal(f.notice.last, last);
        got_all(&g, last);
        follower_close(&f);
    }
}

static void
assert_all_ways(struct lists *l, uint64_t last)
{
    for (size_t i = 0; i < mixture_n_filters; i++) {
        assert_memory(l, &mixture_filters[i], last);
        assert_streams(l, &mixture_filters[i], last);
    }
}

FIXTURE(lists_setup, lists_teardown);

/* R-349; design.md section 4: same order and seq as unfiltered, in memory, in
 * the store, in closed lists and after a restart. */
TEST(every_way_lets_through_the_same_entries)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-entries", "150", "--heartbeat", "0.1");
    lists_obstruct(l);
    mixture_post(&l->http, SET, 1, 1000);
    assert_all_ways(l, 1000);

    broker_stop(&l->broker);
    broker_restart(&l->broker); /* the tail is empty, lists have no files */
    assert_all_ways(l, 1000);

    lists_clear(l);
    lists_await_file(l, 6);
    broker_kill9(&l->broker);
    broker_restart(&l->broker); /* now they have */
    assert_all_ways(l, 1000);
    mixture_post(&l->http, SET, 1001, 1200);
    assert_all_ways(l, 1200);
}

/* Design section 1: live, with what passes and what does not in turn. A
 * heartbeat tells how far it is where nothing passes. */
TEST(a_quiet_filter_is_told_how_far_it_is)
{
    struct lists *l = *state;
    struct follower f, all;

    LISTS_OPEN(l, "--heartbeat", "0.1");
    source_post(&l->http, SET, 1, 1, 0);
    follower_open(&f, l->broker.port, "/sets/" SET "/stream?change=deleted",
                  "resourcesync.xml");
    follower_open(&all, l->broker.port, "/sets/" SET "/stream",
                  "resourcesync.json");
    assert_int_equal(follower_next(&f)->last, 1);
    follower_next(&all);

    source_post(&l->http, SET, 2, 5, 0); /* created */
    follower_until(&all, 6);
    while (f.notice.last < 6) { /* heartbeats: follower.c has looked at them */
        follower_next(&f);
        assert_int_equal(f.notice.n, 0);
    }
    assert_int_equal(f.notice.last, 6);

    source_post(&l->http, SET, 7, 3, 0);
    assert_int_equal(source_send(&l->http, SET, "application/json",
                                 SLICE("{\"loc\":\"http://example.com/r/1\","
                                       "\"change\":\"deleted\"}"),
                                 NULL),
                     200);
    assert_int_equal(follower_news(&f)->last, 10);
    assert_int_equal(f.notice.n, 1);
    assert_int_equal(f.notice.entries[0].seq, 10);
    follower_close(&f);
    follower_close(&all);
}

/* The same where its last message ended so long ago that the entry is not in
 * memory any more: it is told all the same. */
TEST(a_quiet_filter_is_told_when_its_place_is_on_a_disk)
{
    struct lists *l = *state;
    struct follower f;
    uint64_t last = 1;

    LISTS_OPEN(l, "--heartbeat", "1", "--tail-bytes", "1048576");
    source_post(&l->http, SET, 1, 1, 0);
    follower_open(&f, l->broker.port, "/sets/" SET "/stream?change=deleted",
                  "resourcesync.json");
    assert_int_equal(follower_next(&f)->last, 1);
    for (unsigned i = 0; i < 20; i++)
        last = source_post(&l->http, SET, 2 + i * 1000, 1000, 200).last;
    follower_until(&f, last);
    assert_int_equal(f.n_messages, 0);
    follower_close(&f);
}

/* Takes a line, "SEQ ..."; a crash may repeat lines. */
static uint64_t
get_line(struct got *g, const char *line)
{
    uint64_t seq = strtoull(line, NULL, 10);

    if (seq < g->next)
        return seq;
    while (g->next < seq)
        assert_false(g->filter->passes(g->next++));
    assert_true(g->filter->passes(g->next++));
    return seq;
}

/* a follower that is killed goes on where it was, over a broker
 * that is, too. */
TEST(a_filtered_follower_that_is_killed_goes_on)
{
    const struct mixture_filter *filter = &mixture_filters[7];
    struct lists *l = *state;
    struct got g = {filter, 1};
    char url[128], kept[400];
    const char *const argv[] = {TIDINGS, "follow",       url,         "--tag",
                                "blue",  "--tag",        "red&green", "--state",
                                kept,    "--from-start", NULL};
    struct command c;
    const char *end;

    LISTS_OPEN(l, "--rotate-entries", "70");
    snprintf(url, sizeof(url), "%s/sets/" SET, l->broker.url);
    snprintf(kept, sizeof(kept), "%s.state", l->broker.log);
    assert_string_equal(filter->query, "tag=blue&tag=red%26green");
    for (uint64_t round = 0; round < 6; round++) {
        mixture_post(&l->http, SET, round * 100 + 1, round * 100 + 100);
        command_start(&c, argv);
        /* 98 % 11 is 10, 95 % 11 is 7: some of a hundred's last ten passes. */
        while (get_line(&g, command_line(&c)) < round * 100 + 90)
            ;
        kill(c.pid, SIGKILL);
        command_end(&c);
        for (const char *line = c.out_text; (end = strchr(line, '\n'));
             line = end + 1)
            get_line(&g, line);
        if (round % 2) {
            broker_kill9(&l->broker);
            broker_restart(&l->broker);
        }
    }
    unlink(kept);
}

/* Rules 6 and 8: passing over a long history, from files, makes no messages,
 * and holds up nobody. */
TEST(a_laggard_passes_over_what_it_does_not_get)
{
    struct lists *l = *state;
    struct follower f[8], live;
    char path[128];

    LISTS_OPEN(l, "--rotate-entries", "20000", "--tail-bytes", "1048576");
    for (unsigned i = 0; i < 20; i++)
        source_post(&l->http, SET, i * 5000, 5000, 0);
    assert_int_equal(source_send(&l->http, SET, "application/json",
                                 SLICE("{\"loc\":\"http://example.com/last\","
                                       "\"change\":\"deleted\"}"),
                                 NULL),
                     200);
    lists_await_file(l, 5);
    broker_stop(&l->broker);
    broker_restart(&l->broker);

    follower_open(&live, l->broker.port, "/sets/" SET "/stream",
                  "resourcesync.json");
    follower_next(&live);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(path, sizeof(path),
                 "/sets/" SET "/stream?after=0&change=deleted&prefix=http:"
                 "//example.com/%s",
                 i % 2 ? "l" : "");
        follower_open(&f[i], l->broker.port, path,
                      i % 3 ? "resourcesync.json" : "resourcesync.xml");
    }
    source_post(&l->http, SET, 1, 1, 0);
    follower_until(&live, 100002);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(follower_next(&f[i])->last, 0);
        follower_news(&f[i]);
        assert_int_equal(f[i].notice.n, 1);
        assert_int_equal(f[i].notice.entries[0].seq, 100001);
        follower_close(&f[i]);
    }
    follower_close(&live);
}

/* the memory looks at so much a page, and says how far it has come. */
TEST(a_page_looks_at_so_much_and_says_how_far)
{
    struct lists *l = *state;
    char path[1024] = "/sets/" SET "/changes?change=deleted";
    struct got g = {&mixture_filters[3], 1};
    unsigned pages = 1;

    LISTS_OPEN(l, "--rotate-entries", "20000");
    for (unsigned i = 0; i < 20; i++)
        source_post(&l->http, SET, i * 5000, 5000, 0);
    while (get_page(&l->http, l->broker.url, accepts[0], path, &g))
        pages++;
    got_all(&g, 100000);
    assert_in_range(pages, 3, 50);
    assert_non_null(strstr(path, "-100000&change=deleted"));
}

#define READERS 100

/* The tail, and what allocation leaves behind. Without bounds a batch would
 * have its forms for a hundred classes. */
#define GROWTH_KIB (40 * 1024)

/* Design section 5, rule 8: a hundred filters, each of two readers, so that
 * what they let through is worth keeping, do not cost a hundred times the log.
 */
TEST(a_hundred_filters_are_bounded)
{
    struct lists *l = *state;
    static struct follower f[2 * READERS];
    size_t before, after;
    struct buf body;
    char path[128];

    LISTS_OPEN(l, "--tail-bytes", "8388608");
    source_post(&l->http, SET, 1, 1, 0);
    for (unsigned i = 0; i < 2 * READERS; i++) {
        snprintf(path, sizeof(path), "/sets/" SET "/stream?tag=t%u&tag=all",
                 i / 2);
        follower_open(&f[i], l->broker.port, path,
                      i % 2 ? "resourcesync.json" : "resourcesync.xml");
        follower_next(&f[i]);
    }
    before = broker_rss_kib(&l->broker);
    buf_init(&body, (size_t)1 << 24);
    for (unsigned post = 0; post < 100; post++) {
        buf_clear(&body);
        BUF_ADD(&body, "[");
        for (unsigned i = 0; i < 1000; i++)
            buf_add_format(&body,
                           "%s{\"loc\":\"http://example.com/%u/%u\","
                           "\"change\":\"updated\",\"tags\":[\"t%u\"%s]}",
                           i > 0 ? "," : "", post, i, i % (2 * READERS),
                           i == 500 ? ",\"all\"" : "");
        BUF_ADD(&body, "]");
        assert_int_equal(source_send(&l->http, SET, "application/json",
                                     buf_slice(&body), NULL),
                         200);
        for (unsigned i = 0; i < 2 * READERS; i++) {
            size_t n = 0;

            while (f[i].notice.last < 1 + post * 1000 + 501)
                n += follower_next(&f[i])->n;
            assert_true(n > 0);
        }
    }
    after = broker_rss_kib(&l->broker);
    print_message("%zu KiB before, %zu KiB after\n", before, after);
    if (!IS_SANITIZED)
        assert_in_range(after, 0, before + GROWTH_KIB);
    buf_fini(&body);
    for (unsigned i = 0; i < 2 * READERS; i++)
        follower_close(&f[i]);
}

/* Hostile input gets a clear problem that names the parameter; 400 by plain
 * HTTP and by the handshake of a stream. */
TEST(bad_filters_are_refused_and_named)
{
    static const struct {
        const char *query, *why;
    } rows[] = {
        {"change=moved", "change: not created, updated or deleted: \"moved\""},
        {"tag=", "tag: not 1 to 128 bytes of UTF-8 without white space and "
                 "control characters: \"\""},
        {"prefix=%09", "prefix: empty, or with white space, a control "
                       "character or invalid UTF-8: \"?\""},
        {"type=png", "type: not TYPE/SUBTYPE, TYPE/* or */*, without "
                     "parameters: \"png\""},
        {"tag=1&tag=2&tag=3&tag=4&tag=5&tag=6&tag=7&tag=8&tag=9&tag=10&tag=11&"
         "tag=12&tag=13&tag=14&tag=15&tag=16&tag=17&tag=18&tag=19&tag=20&"
         "tag=21&tag=22&tag=23&tag=24&tag=25&tag=26&tag=27&tag=28&tag=29&"
         "tag=30&tag=31&tag=32&tag=33",
         "tag: more than 32 values"},
    };

    static const char *const places[] = {"/sets/" SET "/changes",
                                         "/sets/" SET "/stream"};
    struct lists *l = *state;
    struct jsonpath j;
    char path[2000];

    LISTS_OPEN(l, "--heartbeat", "20");
    source_post(&l->http, SET, 1, 1, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t k = 0; k < 2; k++) {
            snprintf(path, sizeof(path), "%s?%s", places[k], rows[i].query);
            assert_int_equal(http_request(&l->http, "GET", path,
                                          k ? http_upgrade : NULL,
                                          (struct slice){NULL, 0}),
                             400);
            jsonpath_open(&j, buf_slice(&l->http.body));
            assert_string_equal(jsonpath_text(&j, "detail"), rows[i].why);
            jsonpath_close(&j);
        }
    strcpy(path, "/sets/" SET "/changes?prefix=");
    memset(path + strlen(path), 'x', 1500);
    path[1500] = '\0';
    assert_int_equal(http_get(&l->http, path), 400);
}

/* RFC 9110 section 12.5.1; R-342. */
TEST(the_memory_is_json_or_xml_as_it_is_asked_for)
{
    static const struct {
        const char *accept, *type;
    } rows[] = {
        {"Accept:", "application/json"},
        {"Accept: */*", "application/json"},
        {"Accept: application/xml", "application/xml"},
        {"Accept: text/xml", "text/xml"},
        {"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;"
         "q=0.8",
         "application/xml"},
        {"Accept: application/json;q=0.4, application/xml;q=0.5",
         "application/xml"},
    };
    struct lists *l = *state;
    const char *headers[] = {NULL, NULL};
    struct jsonpath j;

    LISTS_OPEN(l, "--heartbeat", "20");
    source_post(&l->http, SET, 1, 3, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        headers[0] = rows[i].accept;
        assert_int_equal(http_request(&l->http, "GET", "/sets/" SET "/changes",
                                      headers, (struct slice){NULL, 0}),
                         200);
        assert_string_equal(http_header(&l->http, "Content-Type"),
                            rows[i].type);
        assert_string_equal(http_header(&l->http, "Vary"), "Accept");
    }
    headers[0] = "Accept: text/html, application/json;q=0";
    assert_int_equal(http_request(&l->http, "GET", "/sets/" SET "/changes",
                                  headers, (struct slice){NULL, 0}),
                     406);
    jsonpath_open(&j, buf_slice(&l->http.body));
    assert_string_equal(jsonpath_text(&j, "detail"),
                        "changes are served as application/json or "
                        "application/xml, not as \"text/html, "
                        "application/json;q=0\"");
    jsonpath_close(&j);
}
