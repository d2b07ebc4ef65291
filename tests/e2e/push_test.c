/*
 * push_test.c - a WebSocket subscriber: how it gets in, where it starts, what
 * it hears when nothing happens, how it is sent away.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/broker.h"
#include "tests/support/follower.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/source.h"
#include "tests/test.h"

/* A broker whose set "news" has three entries. */
struct stage {
    struct broker broker;
    struct http http;
    struct receipt posted;
};

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, "--heartbeat", "3600", NULL);
    http_open(&s->http, s->broker.url);
    s->posted = source_post(&s->http, "news", 1, 3, 0);
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    http_close(&s->http);
    if (s->broker.pid)
        broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

/* Asks for a stream that is refused; the answer's status. */
static unsigned
refused(struct stage *s, const char *path, const char *subprotocols,
        char *detail, size_t size)
{
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);
    struct wire_answer a;
    struct jsonpath j;
    char type[64];

    assert_non_null(w);
    assert_false(wire_upgrade(w, path, subprotocols, &a));
    assert_true(a.status >= 400);
    assert_true(wire_header(&a, "Content-Type", type, sizeof(type)));
    assert_string_equal(type, "application/problem+json");
    jsonpath_open(&j, (struct slice){a.body, a.body_size});
    assert_int_equal(jsonpath_number(&j, "status"), a.status);
    snprintf(detail, size, "%s", jsonpath_text(&j, "detail"));
    jsonpath_close(&j);
    wire_close(w);
    return a.status;
}

FIXTURE(set_up, tear_down);

/* Subprotocols */

TEST(speaks_the_subprotocol_that_was_asked_for)
{
    static const struct {
        const char *asked;
        const char *spoken;
        char first; /* of every message in it */
    } cases[] = {
        {"resourcesync.xml", "resourcesync.xml", '<'},
        {"resourcesync.json", "resourcesync.json", '{'},
        {"resourcesync.xml, resourcesync.json", "resourcesync.xml", '<'},
        {"resourcesync.json, resourcesync.xml", "resourcesync.json", '{'},
        {"mqtt, resourcesync.xml", "resourcesync.xml", '<'},
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire *w = wire_connect("127.0.0.1", s->broker.port);
        struct wire_answer a;
        struct wire_frame f;
        char echoed[64];

        assert_non_null(w);
        assert_true(
            wire_upgrade(w, "/sets/news/stream?after=0", cases[i].asked, &a));
        assert_true(
            wire_header(&a, "Sec-WebSocket-Protocol", echoed, sizeof(echoed)));
        assert_string_equal(echoed, cases[i].spoken);
        for (int k = 0; k < 2; k++) {
            assert_true(wire_message(w, &f));
            assert_int_equal(f.opcode, WIRE_TEXT);
            assert_int_equal(f.payload[0], cases[i].first);
        }
        wire_close(w);
    }
}

TEST(speaks_json_and_names_no_subprotocol_when_none_was_asked_for)
{
    struct stage *s = *state;
    struct follower f;

    follower_open(&f, s->broker.port, "/sets/news/stream?after=0", NULL);

    follower_next(&f);
    assert_string_equal(follower_next(&f)->set, "news");
    assert_int_equal(f.notice.n, 3);
    follower_close(&f);
}

TEST(refuses_subprotocols_that_it_does_not_speak)
{
    static const char *const unknown[] = {"mqtt", "resourcesync.XML",
                                          "resourcesync", "mqtt, chat"};
    struct stage *s = *state;
    char detail[512];

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_int_equal(
            refused(s, "/sets/news/stream", unknown[i], detail, sizeof(detail)),
            400);
        assert_non_null(strstr(detail, "resourcesync.json"));
        assert_non_null(strstr(detail, "resourcesync.xml"));
    }
}

/* Where it starts */

/* The greeting: a heartbeat at the position where the stream begins, the only
 * kind of message that has the clock and the interval. */
TEST(begins_with_a_heartbeat_where_it_starts)
{
    static const char *const subprotocols[] = {"resourcesync.json",
                                               "resourcesync.xml"};
    struct stage *s = *state;
    const char *epoch_end = strrchr(s->posted.position, '-');
    char path[160], start[NOTICE_DIGEST_SIZE];

    for (size_t i = 0; i < 2; i++) {
        for (uint64_t after = 0; after <= 3; after++) {
            struct follower f;

            snprintf(path, sizeof(path),
                     "/sets/news/stream?after=%.*s-%" PRIu64,
                     (int)(epoch_end - s->posted.position), s->posted.position,
                     after);
            follower_open(&f, s->broker.port, path, subprotocols[i]);
            follower_next(&f);

            assert_int_equal(f.notice.after, after);
            assert_int_equal(f.notice.last, after);
            assert_string_equal(f.notice.from, f.notice.until);
            assert_int_equal(strlen(f.notice.now), 27);
            assert_string_equal(f.notice.heartbeat, "3600");
            assert_true(strcmp(f.notice.now, s->posted.datetime) > 0);
            if (after == 0) {
                notice_digest_start(start, f.notice.epoch);
                assert_string_equal(f.notice.digest, start);
            }
            if (after < 3) {
                assert_int_equal(follower_next(&f)->last, 3);
                assert_string_equal(f.notice.until, s->posted.datetime);
            }
            follower_close(&f);
        }
    }
}

/* A plain seq is a position, too: 0 is the beginning. */
TEST(takes_a_plain_seq_as_a_position)
{
    struct stage *s = *state;
    struct follower f;

    follower_open(&f, s->broker.port, "/sets/news/stream?after=2", NULL);
    assert_int_equal(follower_next(&f)->after, 2);
    assert_int_equal(follower_next(&f)->n, 1);
    assert_string_equal(f.notice.entries[0].loc, "http://example.com/r/3");
    follower_close(&f);
    follower_open(&f, s->broker.port, "/sets/news/stream?after=0", NULL);
    assert_int_equal(follower_next(&f)->after, 0);
    assert_int_equal(follower_next(&f)->n, 3);
    follower_close(&f);
}

TEST(starts_now_when_no_position_is_given)
{
    struct stage *s = *state;
    struct follower f;

    follower_open(&f, s->broker.port, "/sets/news/stream", "resourcesync.xml");
    assert_int_equal(follower_next(&f)->last, 3);
    source_post(&s->http, "news", 4, 1, 0);

    assert_int_equal(follower_next(&f)->n, 1);
    assert_string_equal(f.notice.entries[0].loc, "http://example.com/r/4");
    follower_close(&f);
}

/* a resource may be in several sets; each tells its own
 * followers, by its own numbers. */
TEST(tells_of_a_change_in_each_set_that_it_was_posted_to)
{
    struct stage *s = *state;
    struct follower news, other;

    source_post(&s->http, "other", 1, 1, 0);
    follower_open(&news, s->broker.port, "/sets/news/stream", NULL);
    follower_open(&other, s->broker.port, "/sets/other/stream", NULL);
    follower_next(&news);
    follower_next(&other);
    source_post(&s->http, "news", 9, 1, 0);
    source_post(&s->http, "other", 9, 1, 0);

    assert_string_equal(follower_next(&news)->entries[0].loc,
                        "http://example.com/r/9");
    assert_int_equal(news.notice.entries[0].seq, 4);
    assert_string_equal(follower_next(&other)->entries[0].loc,
                        "http://example.com/r/9");
    assert_int_equal(other.notice.entries[0].seq, 2);
    follower_close(&other);
    follower_close(&news);
}

/* What a client has mistyped is told at the handshake. */
TEST(refuses_a_malformed_position_at_the_handshake)
{
    static const char *const malformed[] = {
        "x",    "-",  "",   "-1", "1-",  "1-2-3",
        "0x10", "+1", "1.", "1a", "%20", "18446744073709551616"};
    struct stage *s = *state;
    char path[128], detail[512];

    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        snprintf(path, sizeof(path), "/sets/news/stream?after=%s",
                 malformed[i]);
        assert_int_equal(refused(s, path, NULL, detail, sizeof(detail)), 400);
        assert_non_null(strstr(detail, "position"));
    }
}

/* what was true once is told on the open WebSocket, where a browser can
 * see it, with the earliest position there is. */
TEST(closes_with_4410_for_a_position_that_cannot_be_served)
{
    struct stage *s = *state;
    const char *dash = strrchr(s->posted.position, '-');
    char paths[4][160], earliest[64];

    snprintf(earliest, sizeof(earliest), "earliest %.*s-0",
             (int)(dash - s->posted.position), s->posted.position);
    snprintf(paths[0], sizeof(paths[0]),
             "/sets/news/stream?after=0123456789abcdef-1");
    snprintf(paths[1], sizeof(paths[1]), "/sets/news/stream?after=%.*s-4",
             (int)(dash - s->posted.position), s->posted.position);
    snprintf(paths[2], sizeof(paths[2]), "/sets/news/stream?after=4");
    snprintf(paths[3], sizeof(paths[3]),
             "/sets/news/stream?after=18446744073709551615");
    for (size_t i = 0; i < 4; i++) {
        struct follower f;

        follower_open(&f, s->broker.port, paths[i], "resourcesync.json");
        follower_expect_close(&f, 4410);

        assert_false(f.has_notice);
        assert_non_null(strstr(f.close_reason, earliest));
        follower_close(&f);
    }
}

TEST(answers_404_for_a_set_that_does_not_exist)
{
    struct stage *s = *state;
    char detail[512];

    assert_int_equal(refused(s, "/sets/other/stream", "resourcesync.json",
                             detail, sizeof(detail)),
                     404);
    assert_non_null(strstr(detail, "other"));
    assert_int_equal(http_get(&s->http, "/sets/other/changelist.xml"), 404);
}

/* A stream is nothing that could be downloaded. RFC 9110 section 15.5.22: what
 * to upgrade to is told. */
TEST(asks_for_an_upgrade_where_none_was_tried)
{
    struct stage *s = *state;

    assert_int_equal(http_get(&s->http, "/sets/news/stream"), 426);
    assert_string_equal(http_header(&s->http, "Content-Type"),
                        "application/problem+json");
    assert_string_equal(http_header(&s->http, "Upgrade"), "websocket");
    assert_string_equal(http_header(&s->http, "Connection"), "upgrade");
}
