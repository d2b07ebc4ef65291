/*
 * callbacks_test.c - the callbacks of the tests do as they are told.
 */
#include "tests/support/callbacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/history.h"
#include "tests/support/notice.h"
#include "tests/support/wire.h"
#include "tests/test.h"
#include "tests/unit/support/ticking.h"

#define HOST "127.0.0.2"

struct stage {
    struct callbacks *c;
    struct callback *cb;
    struct wire *w;
    struct wire_answer a;
    struct history history;
};

static void
connect_to(struct stage *s)
{
    unsigned port;

    wire_close(s->w);
    assert_int_equal(sscanf(callback_url(s->cb), "http://" HOST ":%u/", &port),
                     1);
    s->w = wire_connect(HOST, port);
}

static struct stage *
begin(void **state, bool keeps)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    history_init(&s->history, "0123456789abcdef");
    s->c = callbacks_new(HOST, keeps);
    s->cb = callbacks_add(s->c, "/cb/1?a=b&hub.mode=x");
    connect_to(s);
    assert_non_null(s->w);
    return s;
}

static int
end(void **state)
{
    struct stage *s = *state;

    wire_close(s->w);
    callbacks_free(s->c);
    history_fini(&s->history);
    free(s);
    return 0;
}

/* A delivery of the entries (after, last]; 0: there was no answer. */
static unsigned
deliver(struct stage *s, const char *id, uint64_t after, uint64_t last)
{
    char header[100];

    snprintf(header, sizeof(header), "Tidings-Delivery: %s\r\n", id);
    if (!wire_request(s->w, "POST", "/cb/1?a=b&hub.mode=x", header,
                      history_xml(&s->history, after, last).data, &s->a))
        return 0;
    return s->a.status;
}

static bool
verify(struct stage *s)
{
    return wire_request(s->w, "GET",
                        "/cb/1?a=b&hub.mode=x&hub.mode=subscribe&hub.topic="
                        "http%3A%2F%2Fa%2Fb&hub.challenge=c0ffee",
                        NULL, NULL, &s->a);
}

FIXTURE(NULL, end);

/* W-051, W-052, W-055 */
TEST(a_verification_is_answered_with_its_challenge)
{
    struct stage *s = begin(state, true);
    const struct seen *seen;

    assert_true(verify(s));
    assert_int_equal(s->a.status, 200);
    assert_string_equal(s->a.body, "c0ffee");

    seen = callback_await(s->cb, SEEN_VERIFICATION, 1);
    seen_assert_parameter(seen, "hub.mode", "subscribe");
    seen_assert_parameter(seen, "hub.topic", "http://a/b");
    assert_string_equal(seen->method, "GET");
    assert_int_equal(seen->order, 1);
    callbacks_assert_faultless(s->c);
}

TEST(what_is_for_no_callback_is_a_stray)
{
    static const char *const targets[] = {
        "/cb/1",
        "/cb/1?a=b",
        "/cb/1?hub.mode=x&a=b&hub.mode=subscribe",
        "/cb/1?a=b&hub.mode=x?hub.mode=subscribe",
        "/cb/2?a=b&hub.mode=x&hub.mode=subscribe",
    };
    struct stage *s = begin(state, true);

    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        assert_true(wire_request(s->w, "GET", targets[i], NULL, NULL, &s->a));
        assert_int_equal(s->a.status, 404);
        assert_int_equal(callbacks_seen(s->c, i)->kind, SEEN_STRAY);
    }
    assert_int_equal(callback_count(s->cb, SEEN_VERIFICATION), 0);
}

/* What comes of a delivery to a callback of that manner. */
enum outcome { ANSWERED, NOT_HTTP, ENDED, SILENT };

/* Nothing comes on the connection, long after another one was served. */
static void
assert_stays_silent(struct stage *s)
{
    struct wire *silent = s->w;
    char byte;

    s->w = NULL;
    clock_pass_us((int64_t)3600 * 1000000);
    connect_to(s);
    assert_true(verify(s));
    assert_int_equal(wire_read_some(silent, &byte, 1), -1);
    wire_close(silent);
}

TEST(each_manner_is_what_it_is_called)
{
    static const struct {
        struct manner manner;
        enum outcome outcome;
        unsigned status;
        bool is_whole, is_accepted;
    } cases[] = {
        {{.kind = MANNER_ANSWER}, ANSWERED, 200, true, true},
        {{.status = 204}, ANSWERED, 204, true, true},
        {{.status = 500}, ANSWERED, 500, true, false},
        {{.kind = MANNER_TRICKLE, .pause_ms = 1}, ANSWERED, 200, true, true},
        {{.kind = MANNER_SLOW_READ, .pause_ms = 1}, ANSWERED, 200, true, true},
        {{.kind = MANNER_RESET_EARLY}, ENDED, 0, false, false},
        {{.kind = MANNER_RESET}, ENDED, 0, true, false},
        {{.kind = MANNER_RESET_MIDDLE}, NOT_HTTP, 0, true, false},
        {{.kind = MANNER_CLOSE}, ENDED, 0, true, false},
        {{.kind = MANNER_GARBAGE}, NOT_HTTP, 0, true, false},
        {{.kind = MANNER_ENDLESS_HEAD}, NOT_HTTP, 0, true, false},
        {{.kind = MANNER_HANG}, SILENT, 0, true, false},
    };
    struct stage *s = begin(state, true);
    struct ticking t;

    ticking_begin(&t, 5000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct seen *seen;
        char id[20];
        bool is_answered;

        snprintf(id, sizeof(id), "d%zu", i);
        connect_to(s);
        if (cases[i].outcome == SILENT)
            wire_set_wait(s->w, 0);
        callback_does(s->cb, SEEN_DELIVERY, &cases[i].manner, 1);
        is_answered = deliver(s, id, 0, 3) > 0;
        assert_int_equal(is_answered, cases[i].outcome == ANSWERED);
        if (is_answered)
            assert_int_equal(s->a.status, cases[i].status);
        seen = callback_await(s->cb, SEEN_DELIVERY, i + 1);
        assert_int_equal(seen->is_whole, cases[i].is_whole);
        assert_int_equal(callback_accepted(s->cb, seen), cases[i].is_accepted);
    }
    ticking_end(&t);
    assert_stays_silent(s);
}

TEST(an_endless_body_has_no_end)
{
    struct stage *s = begin(state, true);
    char bytes[65536];
    size_t size = 0;

    CALLBACK_DOES(s->cb, SEEN_VERIFICATION, {.kind = MANNER_ENDLESS_BODY});
    wire_send_text(s->w, "GET /cb/1?a=b&hub.mode=x&hub.challenge=c HTTP/1.1\r\n"
                         "Host: a\r\n\r\n");
    while (size < (8 << 20)) {
        long n = wire_read_some(s->w, bytes, sizeof(bytes));

        assert_true(n > 0);
        size += (size_t)n;
    }
}

TEST(manners_follow_each_other)
{
    struct stage *s = begin(state, true);

    CALLBACK_DOES(s->cb, SEEN_DELIVERY,
                  {.status = 503, .headers = "Retry-After: 7\r\n", .times = 2},
                  {.status = 410, .times = 1});
    for (unsigned i = 0; i < 5; i++) {
        static const unsigned statuses[] = {503, 503, 410, 200, 200};
        char value[20];

        assert_int_equal(deliver(s, "same", 0, 3), statuses[i]);
        assert_int_equal(
            wire_header(&s->a, "Retry-After", value, sizeof(value)), i < 2);
    }
    callback_await_accepted(s->cb, 1);
    assert_int_equal(callback_journal(s->cb).n_repeats, 1);
    callbacks_assert_faultless(s->c);
}

TEST(what_waits_goes_on_when_it_is_released)
{
    struct stage *s = begin(state, true);

    CALLBACK_DOES(s->cb, SEEN_VERIFICATION, {.waits = true});
    wire_send_text(s->w, "GET /cb/1?a=b&hub.mode=x&hub.challenge=c HTTP/1.1\r\n"
                         "Host: a\r\n\r\n");
    callback_await(s->cb, SEEN_VERIFICATION, 1);
    callback_release(s->cb);
    assert_true(wire_answer(s->w, &s->a, false));
    assert_string_equal(s->a.body, "c");

    callback_release(s->cb); /* before it has come */
    assert_true(verify(s));
}

TEST(it_goes_down_and_comes_up_again)
{
    struct stage *s = begin(state, true);

    callbacks_go_down(s->c);
    assert_true(wire_is_ended(s->w));
    connect_to(s);
    assert_null(s->w);

    callbacks_come_up(s->c);
    connect_to(s);
    assert_int_equal(deliver(s, "one", 0, 1), 200);
}

/* W-091, W-093, R-306 */
TEST(deliveries_make_a_journal)
{
    struct stage *s = begin(state, true);
    struct callback_journal j;
    struct trace t;

    assert_int_equal(deliver(s, "one", 0, 3), 200);
    assert_int_equal(deliver(s, "one", 0, 3), 200);
    assert_int_equal(deliver(s, "two", 3, 10), 200);
    callback_await_last(s->cb, 10);
    callback_trace(s->cb, &t);
    assert_int_equal(t.last, 10);
    assert_int_equal(t.n_repeats, 0);
    assert_true(t.has_digests);
    trace_fini(&t);

    assert_int_equal(deliver(s, "three", 12, 14), 200);
    j = callback_journal(s->cb);
    assert_int_equal(j.n, 3);
    assert_int_equal(j.n_repeats, 1);
    assert_int_equal(j.n_holes, 1);
    assert_int_equal(j.last, 14);
    assert_string_equal(j.fault, "");
}

TEST(what_is_wrong_in_a_journal_is_told)
{
    static const struct {
        const char *id;
        uint64_t after, last;
        const char *fault;
    } cases[] = {
        {"two", 1, 5, "it goes back"},
        {"one", 0, 4, "it differs from an earlier one of its id"},
        {"one", 3, 4, "it differs from an earlier one of its id"},
        {"", 3, 4, "it has no id"},
    };

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct stage *s = begin(state, k == 0);

            assert_int_equal(deliver(s, "one", 0, 3), 200);
            deliver(s, cases[i].id, cases[i].after, cases[i].last);
            callback_await(s->cb, SEEN_DELIVERY, 2);
            assert_non_null(
                strstr(callback_journal(s->cb).fault, cases[i].fault));
            end(state);
        }
    begin(state, true);
}

/* Every byte of an entry is compared, whoever got it first. */
TEST(entries_that_are_not_kept_are_compared)
{
    struct stage *s = begin(state, false);
    struct callback *other = callbacks_add(s->c, "/cb/2");
    struct slice whole = history_xml(&s->history, 3, 8);
    struct slice all, entries;
    char digest[NOTICE_DIGEST_SIZE], told[NOTICE_DIGEST_SIZE] = "";
    char *spoilt = history_copy(&s->history, whole), *text = NULL;

    assert_int_equal(deliver(s, "one", 0, 3), 200);
    assert_int_equal(deliver(s, "two", 3, 8), 200);
    callback_await_last(s->cb, 8);
    callbacks_assert_faultless(s->c);
    all = history_xml(&s->history, 0, 8);
    entries = callbacks_entries(s->c);
    assert_memory_equal(strstr(all.data, "<url>"), entries.data, entries.size);
    assert_string_equal(strstr(all.data, "<url>") + entries.size,
                        "</urlset>\n");
    notice_digest_start(digest, s->history.epoch);
    text = slice_dup(entries); /* terminated */
    assert_non_null(text);
    for (const char *at = text; *at;) {
        const char *next = strstr(at, "</url>\n") + strlen("</url>\n");

        notice_digest_add(digest, (struct slice){at, (size_t)(next - at)});
        at = next;
    }
    free(text);
    digest_write(told, &s->history.digests[8]);
    assert_string_equal(digest, told);

    assert_true(wire_request(s->w, "POST", "/cb/2", "Tidings-Delivery: 3\r\n",
                             whole.data, &s->a));
    assert_string_equal(callback_journal(other).fault, "");
    strstr(spoilt, "example.com")[0] = 'E';
    assert_true(wire_request(s->w, "POST", "/cb/2", "Tidings-Delivery: 4\r\n",
                             spoilt, &s->a));
    assert_non_null(
        strstr(callback_journal(other).fault, "are not what was told before"));
}

/* W-100: values that were computed elsewhere. */
TEST(signatures_are_computed)
{
    struct stage *s = begin(state, true);
    const struct seen *seen;

    assert_true(wire_request(
        s->w, "POST", "/cb/1?a=b&hub.mode=x",
        "Tidings-Delivery: msg_1\r\n"
        "X-Hub-Signature: sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a1494617"
        "5997479dbc2d1a3cd8\r\n",
        "The quick brown fox jumps over the lazy dog", &s->a));
    seen = callback_await(s->cb, SEEN_DELIVERY, 1);
    seen_assert_signature(seen, "sha256", "key");

    assert_true(wire_request(
        s->w, "POST", "/cb/1?a=b&hub.mode=x",
        "X-Hub-Signature: sha1=de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9\r\n",
        "The quick brown fox jumps over the lazy dog", &s->a));
    seen_assert_signature(callback_await(s->cb, SEEN_DELIVERY, 2), "sha1",
                          "key");
}

TEST(very_many_callbacks_and_deliveries_are_no_trouble)
{
    struct stage *s = begin(state, false);
    const size_t n = 2000;
    struct callback **all = calloc(n, sizeof(struct callback *));
    char target[40], id[40];

    assert_non_null(all);
    for (size_t i = 0; i < n; i++) {
        snprintf(target, sizeof(target), "/cb/many/%zu", i);
        all[i] = callbacks_add(s->c, target);
    }
    for (uint64_t seq = 0; seq + 4 <= HISTORY_MAX; seq += 4) {
        struct slice message = history_xml(&s->history, seq, seq + 4);

        for (size_t i = 0; i < n; i++) {
            snprintf(target, sizeof(target), "/cb/many/%zu", i);
            snprintf(id, sizeof(id), "Tidings-Delivery: %zu-%u\r\n", i,
                     (unsigned)seq);
            assert_true(
                wire_request(s->w, "POST", target, id, message.data, &s->a));
            assert_int_equal(s->a.status, 200);
        }
    }
    for (size_t i = 0; i < n; i++)
        callback_await_last(all[i], HISTORY_MAX / 4 * 4);
    callbacks_assert_faultless(s->c);
    assert_int_equal(callbacks_requests(s->c), n * (HISTORY_MAX / 4));
    assert_int_equal(callbacks_connections(s->c), 1);
    free(all);
}
