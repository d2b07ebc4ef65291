/*
 * publisher_test.c - td_publisher against a broker that follows the test's
 * script.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

#define RECEIPT(first, last)                                 \
    "{\"set\":\"news\",\"first\":" #first ",\"last\":" #last \
    ",\"position\":\"0123456789abcdef-" #last "\","          \
    "\"datetime\":\"2026-01-01T00:00:09.000001Z\"}"

struct stage {
    struct fake_broker *broker;
    struct td_client *client;
    struct tempdir dir;
    char spool[300];
    struct td_publisher_options options;
    struct td_publisher *publisher;
    char told[2048]; /* by the callbacks */
    bool closes;     /* a callback closes the publisher */
    bool flushes;    /* a callback tries to flush it */
};

static void
tell(struct stage *s, const char *format, ...)
{
    size_t n = strlen(s->told);
    va_list args;

    va_start(args, format);
    vsnprintf(s->told + n, sizeof(s->told) - n, format, args);
    va_end(args);
    if (s->flushes)
        assert_int_equal(td_publisher_flush(s->publisher), TD_INVALID);
    if (s->closes) {
        td_publisher_close(s->publisher);
        s->publisher = NULL;
    }
}

static void
on_durable(uint64_t number, const struct td_receipt *receipt, void *user)
{
    tell(user, "durable %llu as %llu;", (unsigned long long)number,
         (unsigned long long)receipt->last);
}

static void
on_refused(uint64_t number, const char *change, const char *why, void *user)
{
    tell(user, "refused %llu %s %s;", (unsigned long long)number, change, why);
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    tell(user, "trouble%s %.12s;", pause_ms >= 1000 ? " of seconds" : "", why);
}

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->broker = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    clock_skip_waits(transfers_none, NULL);
    tempdir_open(&s->dir);
    snprintf(s->spool, sizeof(s->spool), "%s/spool", s->dir.path);
    s->options.on_durable = on_durable;
    s->options.on_refused = on_refused;
    s->options.on_trouble = on_trouble;
    s->options.user = s;
    *state = s;
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    td_publisher_close(s->publisher);
    td_close(s->client);
    fake_broker_free(s->broker);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

static void
open_publisher(struct stage *s)
{
    td_publisher_close(s->publisher);
    if (td_publisher_open(s->client, fake_broker_url(s->broker), &s->options,
                          &s->publisher))
        fail_msg("%s", td_problem(s->client));
}

static void
add(struct stage *s, unsigned n)
{
    char change[40];

    snprintf(change, sizeof(change), "{\"n\":%u}", n);
    assert_int_equal(
        td_publisher_add(s->publisher, change, strlen(change), NULL), TD_OK);
}

static const char *
body_of(struct stage *s, size_t i)
{
    const char *body = strstr(fake_request(s->broker, i), "\r\n\r\n");

    assert_non_null(body);
    return body + 4;
}

/* The line of the request, which a test compares with another's. */
static void
key_of(struct stage *s, size_t i, char key[100])
{
    const char *line =
        strstr(fake_request(s->broker, i), "\r\nIdempotency-Key: ");

    assert_non_null(line);
    snprintf(key, 100, "%.*s", (int)strcspn(line + 2, "\r"), line + 2);
}

static void
assert_same_key(struct stage *s, size_t i, size_t k, bool is_same)
{
    char one[100], other[100];

    key_of(s, i, one);
    key_of(s, k, other);
    if (is_same)
        assert_string_equal(one, other);
    else
        assert_string_not_equal(one, other);
}

FIXTURE(set_stage, clear_stage);

/* changes that were added together leave together, in order. */
TEST(posts_in_batches_and_in_order)
{
    struct stage *s = *state;
    uint64_t number;

    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 2));
    fake_answer(s->broker, 200, "application/json", RECEIPT(3, 3));
    fake_broker_start(s->broker);
    s->options.batch_changes = 2;
    open_publisher(s);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
    add(s, 1);
    add(s, 2);
    assert_int_equal(td_publisher_add(s->publisher, "{ }", 3, &number), TD_OK);
    assert_int_equal(number, 3);
    assert_int_equal(td_publisher_durable(s->publisher), 0);

    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);

    assert_string_equal(s->told, "durable 2 as 2;durable 3 as 3;");
    assert_int_equal(td_publisher_durable(s->publisher), 3);
    assert_memory_equal(fake_request(s->broker, 0),
                        "POST /sets/news/changes HTTP/1.1\r\n", 34);
    assert_string_equal(body_of(s, 0), "[{\"n\":1},\n{\"n\":2}]\n");
    assert_string_equal(body_of(s, 1), "[{ }]\n");
    assert_same_key(s, 0, 1, false);
}

/* td_run ends when all is durable. */
TEST(runs_until_all_is_durable)
{
    struct stage *s = *state;

    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 2));
    fake_broker_start(s->broker);
    s->options.linger_ms = 1;
    open_publisher(s);
    assert_int_equal(td_run(s->client), TD_OK);
    add(s, 1);
    add(s, 2);
    assert_int_equal(td_run(s->client), TD_OK);

    assert_string_equal(s->told, "durable 2 as 2;");
}

/* after a lost answer, a busy broker, a broker that still works on it,
 * or nonsense it sends the same post with the same key. */
TEST(repeats_a_post_with_its_key_until_it_is_answered)
{
    struct stage *s = *state;

    fake_silence(s->broker);
    fake_nothing(s->broker);
    fake_answer(s->broker, 503, "application/problem+json",
                "{\"detail\":\"ending\"}");
    fake_answer(s->broker, 409, "application/problem+json\r\nRetry-After: 1",
                "{\"detail\":\"at work\"}");
    fake_answer(s->broker, 200, "text/plain", "hello");
    fake_answer(s->broker, 200, "application/json", RECEIPT(7, 8));
    fake_broker_start(s->broker);
    open_publisher(s);
    add(s, 1);
    add(s, 2);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);

    for (size_t i = 2; i < 6; i++) {
        assert_string_equal(body_of(s, i), "[{\"n\":1},\n{\"n\":2}]\n");
        assert_same_key(s, 0, i, true);
    }
    assert_non_null(strstr(s->told, " 503: ending;"));
    assert_non_null(strstr(s->told, "trouble of seconds 409: at work;"));
    assert_non_null(strstr(s->told, "200, but the;durable 2 as 8;"));
}

/* the change that the broker names is removed, and the others are
 * another post. */
TEST(takes_a_refused_change_out)
{
    struct stage *s = *state;

    fake_answer(s->broker, 422, "application/problem+json",
                "{\"detail\":\"no loc\",\"entry\":2}");
    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 2));
    fake_answer(s->broker, 400, "application/problem+json",
                "{\"detail\":\"odd\"}");
    fake_broker_start(s->broker);
    open_publisher(s);
    add(s, 1);
    add(s, 2);
    add(s, 3);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);

    assert_string_equal(s->told, "refused 2 {\"n\":2} 422: entry 2: no loc;"
                                 "durable 3 as 2;");
    assert_string_equal(body_of(s, 1), "[{\"n\":1},\n{\"n\":3}]\n");
    assert_same_key(s, 0, 1, false);

    s->told[0] = '\0'; /* a change alone is the fault */
    add(s, 4);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
    assert_string_equal(s->told, "refused 4 {\"n\":4} 400: odd;");
}

/* A broker that takes less at a time gets less. */
TEST(posts_less_where_a_post_is_too_large)
{
    struct stage *s = *state;

    fake_answer(s->broker, 413, "application/problem+json",
                "{\"detail\":\"too large\"}");
    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 1));
    fake_answer(s->broker, 200, "application/json", RECEIPT(2, 2));
    fake_answer(s->broker, 413, "application/problem+json",
                "{\"detail\":\"still\"}");
    fake_broker_start(s->broker);
    open_publisher(s);
    add(s, 1);
    add(s, 2);
    add(s, 3);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);

    assert_string_equal(body_of(s, 1), "[{\"n\":1}]\n");
    assert_string_equal(body_of(s, 2), "[{\"n\":2}]\n");
    assert_string_equal(s->told, "durable 1 as 1;durable 2 as 2;"
                                 "refused 3 {\"n\":3} 413: still;");
}

/* A refusal that is no change's fault is reported, and the changes stay. */
TEST(keeps_what_is_refused_as_a_whole)
{
    struct stage *s = *state;

    fake_answer(s->broker, 401, "application/problem+json",
                "{\"detail\":\"who?\"}");
    fake_answer(s->broker, 410, "application/problem+json",
                "{\"detail\":\"removed\"}");
    fake_answer(s->broker, 422, "application/problem+json",
                "{\"detail\":\"no loc\",\"entry\":1}");
    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 1));
    fake_broker_start(s->broker);
    s->options.on_refused = NULL;
    open_publisher(s);
    add(s, 1);

    assert_int_equal(td_publisher_flush(s->publisher), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "401: who?");
    assert_int_equal(td_publisher_flush(s->publisher), TD_GONE);
    assert_int_equal(td_publisher_flush(s->publisher), TD_REFUSED);
    assert_string_equal(td_problem(s->client), "422: entry 1: no loc");
    assert_string_equal(s->told, "trouble of seconds 401: who?;"
                                 "trouble of seconds 410: removed;"
                                 "trouble of seconds 422: entry 1;");
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
    assert_same_key(s, 0, 3, true);
}

TEST(takes_only_json_objects)
{
    struct stage *s = *state;
    static const char *const bad[] = {
        "", "[]", "{}{}", "{\"a\":", "3", "{\"a\":1},{\"b\":2}", "\"x\""};
    char long_one[120];

    s->options.batch_bytes = 100;
    open_publisher(s);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(
            td_publisher_add(s->publisher, bad[i], strlen(bad[i]), NULL),
            TD_INVALID);
        assert_string_not_equal(td_problem(s->client), "");
    }
    snprintf(long_one, sizeof(long_one), "{\"a\":\"%0100d\"}", 0);
    assert_int_equal(
        td_publisher_add(s->publisher, long_one, strlen(long_one), NULL),
        TD_INVALID);
    assert_int_equal(td_run(s->client), TD_OK); /* nothing waits */
}

/* The beginning of a document is wrong in an entry within it. */
TEST(takes_what_stands_around_an_object_away)
{
    struct stage *s = *state;
    static const char marked[] = "\xef\xbb\xbf \r\n\t{\"n\":2} \r\n";
    static const char twice[] = "\xef\xbb\xbf\xef\xbb\xbf{\"n\":2}";

    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 3));
    fake_broker_start(s->broker);
    open_publisher(s);
    add(s, 1);
    assert_int_equal(td_publisher_add(s->publisher, twice, strlen(twice), NULL),
                     TD_INVALID);
    assert_int_equal(
        td_publisher_add(s->publisher, marked, strlen(marked), NULL), TD_OK);
    add(s, 3);

    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);

    assert_string_equal(body_of(s, 0), "[{\"n\":1},\n{\"n\":2},\n{\"n\":3}]\n");
}

TEST(a_full_queue_takes_nothing)
{
    struct stage *s = *state;

    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 2));
    fake_answer(s->broker, 200, "application/json", RECEIPT(3, 3));
    fake_broker_start(s->broker);
    s->options.queue_bytes = 15;
    open_publisher(s);
    add(s, 1);
    add(s, 2);
    assert_int_equal(td_publisher_add(s->publisher, "{}", 2, NULL),
                     TD_UNREACHABLE);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
    add(s, 3);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
}

/* The spool outlives the process, with the post at work and its key. */
TEST(goes_on_with_its_spool)
{
    struct stage *s = *state;

    fake_silence(s->broker);
    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 2));
    fake_answer(s->broker, 200, "application/json", RECEIPT(3, 3));
    fake_broker_start(s->broker);
    s->options.spool = s->spool;
    open_publisher(s);
    add(s, 1);
    add(s, 2);
    s->closes = true; /* with the first trouble */
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
    assert_null(s->publisher);
    s->closes = false;
    s->told[0] = '\0';

    open_publisher(s);
    add(s, 3);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);

    assert_string_equal(s->told, "durable 2 as 2;durable 3 as 3;");
    assert_same_key(s, 0, 1, true);
    assert_string_equal(body_of(s, 1), "[{\"n\":1},\n{\"n\":2}]\n");
    open_publisher(s);
    assert_int_equal(td_publisher_durable(s->publisher), 3);
    assert_int_equal(td_publisher_added(s->publisher), 3);
}

/* Several changes are added as one, or none of them. */
TEST(adds_changes_together_with_a_note)
{
    static const struct td_change_text good[] = {{"{\"n\":1}\n", 8},
                                                 {"{\"n\":2}", 7}};
    static const struct td_change_text bad[] = {{"{\"n\":3}", 7}, {"[]", 2}};
    struct stage *s = *state;
    uint64_t number = 0, bytes = 0;

    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 2));
    fake_broker_start(s->broker);
    s->options.spool = s->spool;
    open_publisher(s);
    assert_int_equal(
        td_publisher_add_all(s->publisher, good, 2, "two", &number), TD_OK);
    assert_int_equal(number, 2);
    assert_int_equal(
        td_publisher_add_all(s->publisher, bad, 2, "four", &number),
        TD_INVALID);
    assert_int_equal(number, 2);
    assert_string_equal(td_publisher_note(s->publisher), "two");
    assert_int_equal(td_publisher_waiting(s->publisher, &bytes), 2);
    assert_int_equal(bytes, 14);

    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
    assert_int_equal(td_publisher_waiting(s->publisher, NULL), 0);
    assert_string_equal(body_of(s, 0), "[{\"n\":1},\n{\"n\":2}]\n");
    open_publisher(s);
    assert_string_equal(td_publisher_note(s->publisher), "two");
}

/* A callback may close the publisher that calls it. */
TEST(may_be_closed_from_its_callbacks)
{
    struct stage *s = *state;

    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 1));
    fake_answer(s->broker, 422, "application/problem+json",
                "{\"detail\":\"no loc\",\"entry\":1}");
    fake_answer(s->broker, 401, "application/problem+json",
                "{\"detail\":\"who?\"}");
    fake_broker_start(s->broker);
    s->closes = true;
    for (int i = 0; i < 3; i++) {
        open_publisher(s);
        add(s, 1);
        add(s, 2);
        assert_int_equal(td_run(s->client), TD_OK);
        assert_null(s->publisher);
    }
    assert_string_equal(s->told, "durable 2 as 1;"
                                 "refused 1 {\"n\":1} 422: entry 1: no loc;"
                                 "trouble of seconds 401: who?;");
}

/* A flush of nothing returns; it does not wait for later changes. */
TEST(is_not_waited_for_after_a_flush_of_nothing)
{
    struct stage *s = *state;

    fake_answer(s->broker, 401, "application/problem+json",
                "{\"detail\":\"who?\"}");
    fake_broker_start(s->broker);
    open_publisher(s);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
    s->closes = true;
    add(s, 1);

    assert_int_equal(td_run(s->client), TD_OK);

    assert_string_equal(s->told, "trouble of seconds 401: who?;");
}

/* A misplaced flush is refused, and the one that waits goes on waiting. */
TEST(is_not_flushed_from_its_callbacks)
{
    struct stage *s = *state;

    fake_silence(s->broker);
    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 1));
    fake_broker_start(s->broker);
    s->flushes = true;
    open_publisher(s);
    add(s, 1);

    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);

    assert_int_equal(td_publisher_durable(s->publisher), 1);
    assert_non_null(strstr(s->told, "trouble"));
}

/* The handle takes along what still runs on it. */
TEST(ends_with_its_handle)
{
    struct stage *s = *state;

    open_publisher(s);
    add(s, 1);
    td_close(s->client);
    s->publisher = NULL;
    s->client = td_open();
}

TEST(can_be_stopped)
{
    struct stage *s = *state;

    open_publisher(s); /* the broker does not listen yet */
    add(s, 1);
    td_stop(s->client);
    assert_int_equal(td_publisher_flush(s->publisher), TD_STOPPED);
    fake_answer(s->broker, 200, "application/json", RECEIPT(1, 1));
    fake_broker_start(s->broker);
    assert_int_equal(td_publisher_flush(s->publisher), TD_OK);
    assert_int_equal(td_publisher_open(s->client, "ftp://a/", NULL,
                                       &(struct td_publisher *){NULL}),
                     TD_INVALID);
}
