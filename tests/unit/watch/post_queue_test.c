/*
 * post_queue_test.c - a queue of posts: it posts until it is answered, whatever
 * the broker does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/watch/watch_db.h"
#include "tests/clock.h"
#include "tests/support/fake_broker.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define BASE "http://example.com/"

struct stage {
    struct tempdir dir;
    struct fake_broker *broker;
    struct td_client *client;
    struct watch_options options;
    struct post_queue queue;
    struct problem why;
    unsigned n_waits;
    unsigned waited_ms; /* the last time */
    bool will_stop;
    size_t n_posted; /* entries */
    char warning[1200];
};

/* Records the pause, and lets it pass. */
static bool
pause_once(unsigned ms, void *user)
{
    struct stage *s = user;

    s->n_waits++;
    s->waited_ms = ms;
    clock_pass_us((int64_t)ms * 1000);
    return s->will_stop;
}

static void
on_posted(const struct td_receipt *receipt, size_t n_entries, void *user)
{
    struct stage *s = user;

    assert_string_equal(receipt->position, "0123456789abcdef-3");
    s->n_posted += n_entries;
}

static void
on_warning(const char *text, void *user)
{
    struct stage *s = user;

    snprintf(s->warning, sizeof(s->warning), "%s", text);
}

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    tempdir_open(&s->dir);
    s->broker = fake_broker_new();
    s->client = td_open();
    assert_non_null(s->client);
    s->options = (struct watch_options){
        .client = s->client,
        .set_url = fake_broker_url(s->broker),
        .on_posted = on_posted,
        .on_warning = on_warning,
        .user = s,
    };
    s->queue = (struct post_queue){
        .options = &s->options,
        .n_entries_max = POST_QUEUE_ENTRIES_MAX,
        .wait = pause_once,
        .waiter = s,
    };
    buf_init(&s->queue.body, SIZE_MAX / 2);
    assert_true(watch_db_open(&s->queue.database, s->dir.path,
                              s->options.set_url, BASE, &s->why));
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    post_queue_undo(&s->queue);
    watch_db_close(&s->queue.database);
    td_close(s->client);
    fake_broker_free(s->broker);
    tempdir_close(&s->dir);
    free(s);
    return 0;
}

/* The watch ends, by a crash perhaps, and another one begins. */
static void
begin_again(struct stage *s)
{
    watch_db_close(&s->queue.database);
    assert_true(watch_db_open(&s->queue.database, s->dir.path,
                              s->options.set_url, BASE, &s->why));
    problem_clear(&s->why);
}

static void
accept_a_post(struct stage *s)
{
    fake_answer(s->broker, 200, "application/json",
                "{\"set\":\"news\",\"first\":1,\"last\":3,"
                "\"position\":\"0123456789abcdef-3\","
                "\"datetime\":\"2026-01-01T00:00:03.000000Z\"}");
}

static void
refuse_a_post(struct stage *s, unsigned status)
{
    fake_answer(s->broker, status, "application/problem+json",
                "{\"detail\":\"no, because\"}");
}

/* A post of `n` files. */
static void
seal(struct stage *s, unsigned n)
{
    struct file_stamp mark = {.size = 3, .mtime_ns = 1775067000125000000};
    char path[20], loc[100];

    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "f%u", i);
        snprintf(loc, sizeof(loc), BASE "%s", path);
        assert_true(post_queue_add(&s->queue, "created", path, loc, &mark,
                                   i ? NULL : "text/csv"));
    }
    assert_true(post_queue_seal(&s->queue));
}

static bool
has_post(struct stage *s)
{
    struct watch_db_post post;
    bool is_there;

    assert_true(watch_db_unfinished(&s->queue.database, &post, &is_there));
    if (is_there)
        free(post.body);
    return is_there;
}

/* The line of a request that begins with `name`; the caller's. */
static char *
header(struct stage *s, size_t i, const char *name)
{
    const char *line = strstr(fake_request(s->broker, i), name);
    char *copy;

    assert_non_null(line);
    copy = strndup(line, strcspn(line, "\r"));
    assert_non_null(copy);
    return copy;
}

static const char *
body(struct stage *s, size_t i)
{
    return strstr(fake_request(s->broker, i), "\r\n\r\n") + 4;
}

FIXTURE(set_stage, clear_stage);

/* Design section 4: the JSON form of an entry. */
TEST(writes_entries_as_the_broker_reads_them)
{
    struct stage *s = *state;
    struct file_stamp old = {.mtime_ns = -1};

    accept_a_post(s);
    fake_broker_start(s->broker);
    assert_true(post_queue_add(&s->queue, "updated", "old", BASE "old", &old,
                               "text/plain"));
    assert_true(
        post_queue_add(&s->queue, "deleted", "gone", BASE "gone", NULL, NULL));
    seal(s, 1);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_OK);

    assert_string_equal(
        body(s, 0),
        "[{\"loc\":\"http://example.com/old\",\"change\":\"updated\","
        "\"lastmod\":\"1969-12-31T23:59:59.999999Z\",\"hash\":{\"sha-256\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}"
        ",\"length\":0,\"type\":\"text/plain\"},\n"
        "{\"loc\":\"http://example.com/gone\",\"change\":\"deleted\"},\n"
        "{\"loc\":\"http://example.com/f0\",\"change\":\"created\","
        "\"lastmod\":\"2026-04-01T18:10:00.125000Z\",\"hash\":{\"sha-256\":"
        "\"0000000000000000000000000000000000000000000000000000000000000000\"}"
        ",\"length\":3,\"type\":\"text/csv\"}]\n");
    assert_int_equal(s->n_posted, 3);
}

static void
add(struct stage *s, const char *loc)
{
    assert_true(post_queue_add(&s->queue, "deleted", loc, loc, NULL, NULL));
}

/* A post is due when it is full, by entries or by bytes, or a second old. */
TEST(is_due_when_it_is_full_or_old)
{
    struct stage *s = *state;
    char *long_loc = calloc(1, POST_QUEUE_BYTES_MAX + 1);

    assert_non_null(long_loc);
    assert_false(post_queue_is_due(&s->queue));
    clock_pass_us(POST_QUEUE_AGE_MS * 1000);
    assert_false(post_queue_is_due(&s->queue));
    add(s, "old");
    clock_pass_us(POST_QUEUE_AGE_MS * 1000 - 1000);
    assert_false(post_queue_is_due(&s->queue));
    clock_pass_us(1000);
    assert_true(post_queue_is_due(&s->queue));
    post_queue_undo(&s->queue);

    s->queue.n_entries_max = 2;
    add(s, "first");
    assert_false(post_queue_is_due(&s->queue));
    add(s, "second");
    assert_true(post_queue_is_due(&s->queue));
    post_queue_undo(&s->queue);

    add(s, memset(long_loc, 'a', POST_QUEUE_BYTES_MAX));
    assert_true(post_queue_is_due(&s->queue));
    free(long_loc);
}

/* after any answer, or none, it sends the same bytes with the same key
 * until it has the receipt. */
TEST(repeats_the_same_post_until_it_is_answered)
{
    static const unsigned passing[] = {503, 429, 500, 408, 409};
    struct stage *s = *state;
    size_t n = sizeof(passing) / sizeof(passing[0]);
    char *key;

    fake_nothing(s->broker);
    for (size_t i = 0; i < n; i++)
        refuse_a_post(s, passing[i]);
    accept_a_post(s);
    fake_broker_start(s->broker);
    seal(s, 2);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_OK);

    assert_int_equal(s->n_waits, n + 1);
    assert_int_equal(s->n_posted, 2);
    assert_false(has_post(s));
    key = header(s, 1, "Idempotency-Key: ");
    for (size_t i = 2; i < n + 2; i++) {
        char *other = header(s, i, "Idempotency-Key: ");

        assert_string_equal(key, other);
        assert_string_equal(body(s, 1), body(s, i));
        free(other);
    }
    free(key);
}

/* A crash between post and receipt: the next start repeats it, and nothing is
 * posted before. */
TEST(repeats_the_same_post_after_a_crash)
{
    struct stage *s = *state;
    char *keys[2];

    refuse_a_post(s, 503); /* as good as no answer */
    accept_a_post(s);
    fake_broker_start(s->broker);
    s->will_stop = true;
    seal(s, 2);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_STOPPED);
    begin_again(s);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_OK);

    for (size_t i = 0; i < 2; i++)
        keys[i] = header(s, i, "Idempotency-Key: ");
    assert_string_equal(keys[0], keys[1]);
    assert_string_equal(body(s, 0), body(s, 1));
    for (size_t i = 0; i < 2; i++)
        free(keys[i]);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_OK);
    assert_int_equal(s->n_posted, 2);
}

/* It asks a broker that is away again, with growing pauses. */
TEST(waits_longer_each_time)
{
    struct stage *s = *state;
    unsigned most = 0;

    for (int i = 0; i < 9; i++)
        fake_nothing(s->broker);
    accept_a_post(s);
    fake_broker_start(s->broker);
    seal(s, 1);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_OK);
    assert_int_equal(s->n_waits, 9);
    most = s->waited_ms;
    assert_in_range(most, 30000, 60000);
    assert_non_null(strstr(s->warning, "again in"));
}

/* Design section 4: 503 with Retry-After. */
TEST(waits_as_long_as_it_is_asked_to)
{
    struct stage *s = *state;

    fake_answer(s->broker, 503, "text/plain\r\nRetry-After: 1234", "");
    accept_a_post(s);
    fake_broker_start(s->broker);
    seal(s, 1);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_OK);
    assert_int_equal(s->waited_ms, 1234000);
}

/* A refusal for good ends the watch, with the reason; the broker kept nothing,
 * so the next watch finds the changes again. */
TEST(ends_where_the_content_is_refused)
{
    static const unsigned content[] = {400, 415, 422, 413};
    struct stage *s = *state;

    for (size_t i = 0; i < 4; i++)
        refuse_a_post(s, content[i]);
    fake_broker_start(s->broker);
    for (size_t i = 0; i < 4; i++) {
        char words[40];

        seal(s, 1);
        assert_int_equal(post_queue_deliver(&s->queue), STATUS_IO);
        snprintf(words, sizeof(words), "%u: no, because", content[i]);
        assert_string_equal(s->why.text, words);
        assert_false(has_post(s));
        problem_clear(&s->why);
    }
    assert_int_equal(s->n_waits, 0);
}

/* Another refusal says nothing of an earlier sending: the post stays. */
TEST(keeps_the_post_where_only_we_are_refused)
{
    static const unsigned refusals[] = {401, 403, 404};
    struct stage *s = *state;

    for (size_t i = 0; i < 3; i++)
        refuse_a_post(s, refusals[i]);
    accept_a_post(s);
    fake_broker_start(s->broker);
    seal(s, 2);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(post_queue_deliver(&s->queue), STATUS_IO);
        assert_true(has_post(s));
        begin_again(s);
    }
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_OK);
    assert_int_equal(s->n_posted, 2);
}

/* A post that is too large for this broker is made again, half as large. */
TEST(halves_a_post_that_is_too_large)
{
    struct stage *s = *state;

    refuse_a_post(s, 413);
    fake_broker_start(s->broker);
    seal(s, 10);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_AGAIN);
    assert_false(has_post(s));
    assert_int_equal(s->queue.n_entries_max, 5);
    assert_string_equal(s->why.text, "");
}

/* --once: a broker that is away is a failure, and the post waits. */
TEST(does_not_wait_where_it_should_not)
{
    struct stage *s = *state;

    s->options.is_once = true;
    fake_nothing(s->broker);
    fake_broker_start(s->broker);
    seal(s, 1);
    assert_int_equal(post_queue_deliver(&s->queue), STATUS_IO);
    assert_int_equal(s->n_waits, 0);
    assert_true(has_post(s));
}
