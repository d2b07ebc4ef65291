/*
 * idempotency_test.c - a post with an Idempotency-Key is kept once, however
 * often it comes, and every repeat gets the first one's answer.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tidings.h"
#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/notice.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define CHANGES "/sets/news/changes"
#define JSON    "application/json"
#define XML     "application/xml"

/* Of the sources that post while the broker is killed. */
#define SOURCES    4
#define POSTS_EACH 200
#define KILLS      10

#define TWO                                                                 \
    "[{\"loc\":\"http://example.com/a?b&c\",\"change\":\"created\","        \
    "\"datetime\":\"2020-01-01T00:00:00Z\",\"length\":3,"                   \
    "\"links\":[{\"rel\":\"related\",\"href\":\"http://example.com/z\"}]}," \
    "{\"loc\":\"http://example.com/b\",\"change\":\"deleted\"}]"

#define TWO_IN_XML                                                       \
    "<?xml version='1.0'?>\n<s:urlset xmlns:s="                          \
    "'http://www.sitemaps.org/schemas/sitemap/0.9'"                      \
    " xmlns:r='http://www.openarchives.org/rs/terms/'>\n"                \
    "<r:md capability='changelist'/>\n"                                  \
    "<s:url><r:md length='3' change='created'"                           \
    " datetime='2020-01-01T01:00:00.000+01:00'/>"                        \
    "<s:loc>http://example.com/a?b&#38;c</s:loc>"                        \
    "<r:ln href='http://example.com/z' rel='related'/></s:url>\n"        \
    "<s:url><s:loc>http://example.com/b</s:loc><r:md change='deleted'/>" \
    "</s:url></s:urlset>"

struct stage {
    struct broker broker;
    struct http http;
    struct buf answer; /* the first one's */
};

static int
set_up(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    broker_open(&s->broker, NULL);
    http_open(&s->http, s->broker.url);
    buf_init(&s->answer, 4096);
    return 0;
}

static int
tear_down(void **state)
{
    struct stage *s = *state;

    buf_fini(&s->answer);
    http_close(&s->http);
    broker_stop(&s->broker);
    broker_close(&s->broker);
    free(s);
    return 0;
}

static long
post(struct stage *s, const char *path, const char *key, const char *type,
     const char *body)
{
    char type_line[100], key_line[700];
    const char *const headers[] = {type_line, key_line, NULL};

    snprintf(type_line, sizeof(type_line), "Content-Type: %s", type);
    snprintf(key_line, sizeof(key_line), "Idempotency-Key: %s", key);
    return http_request(&s->http, "POST", path, headers, slice_of(body));
}

/* Posts it for the first time. */
static void
post_first(struct stage *s, const char *key, const char *type, const char *body)
{
    assert_int_equal(post(s, CHANGES, key, type, body), 200);
    buf_clear(&s->answer);
    buf_add_slice(&s->answer, buf_slice(&s->http.body));
}

/* Posts it again, and gets the same answer, byte for byte. */
static void
assert_repeat(struct stage *s, const char *key, const char *type,
              const char *body)
{
    assert_int_equal(post(s, CHANGES, key, type, body), 200);
    assert_string_equal(http_header(&s->http, "Content-Type"), JSON);
    assert_true(slice_equal(buf_slice(&s->http.body), buf_slice(&s->answer)));
}

/* The log of the set has exactly `n` entries. */
static void
assert_kept(struct stage *s, uint64_t n)
{
    struct notice notice;

    assert_int_equal(http_get(&s->http, CHANGES "?after=0"), 200);
    notice_read(&notice, NOTICE_JSON, buf_slice(&s->http.body));
    notice_check(&notice);
    assert_int_equal(notice.last, n);
    notice_free(&notice);
}

FIXTURE(set_up, tear_down);

/* Design section 4: a retry is harmless, and what others post meanwhile does
 * not matter. */
TEST(a_repeat_gets_the_same_answer_and_posts_nothing)
{
    struct stage *s = *state;

    post_first(s, "abc", JSON, TWO);
    assert_repeat(s, "abc", JSON, TWO);
    source_post(&s->http, "news", 1, 3, 0);
    assert_repeat(s, "abc", JSON, TWO);
    assert_repeat(s, "\"abc\"", JSON, TWO);
    assert_kept(s, 5);

    /* Without a key, or with another one, it is another post. */
    assert_int_equal(source_send(&s->http, "news", JSON, SLICE(TWO), NULL),
                     200);
    assert_int_equal(post(s, CHANGES, "abcd", JSON, TWO), 200);
    assert_int_equal(post(s, "/sets/other/changes", "abc", JSON, TWO), 200);
    assert_kept(s, 9);
}

/* What counts is what was said, not how: formats, prefixes, spellings of times,
 * order of attributes. */
TEST(the_same_changes_in_another_format_are_a_repeat)
{
    struct stage *s = *state;

    post_first(s, "from-json", JSON, TWO);
    assert_repeat(s, "from-json", XML, TWO_IN_XML);
    post_first(s, "from-xml", XML, TWO_IN_XML);
    assert_repeat(s, "from-xml", JSON, TWO);
    assert_kept(s, 4);
}

/* Also across a restart. R-149: and after a crash, in which
 * all that was acknowledged is kept, keys as well. */
TEST(a_key_is_kept_over_restart_and_crash)
{
    struct stage *s = *state;

    post_first(s, "first", JSON, TWO);
    broker_stop(&s->broker);
    broker_restart(&s->broker);
    assert_repeat(s, "first", JSON, TWO);

    post_first(s, "second", JSON, TWO);
    broker_kill9(&s->broker);
    broker_restart(&s->broker);
    assert_repeat(s, "second", JSON, TWO);
    post(s, CHANGES, "second", JSON,
         "{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}");
    assert_refused(&s->http, 422, "\"second\"");
    assert_int_equal(post(s, CHANGES, "first", JSON, TWO), 200);
    assert_kept(s, 4);
}

/* The same key with other entries is refused, and the problem says which key;
 * the smallest difference counts. */
TEST(a_key_with_other_entries_is_refused)
{
    static const char *const others[] = {
        "{\"loc\":\"http://example.com/a\",\"change\":\"updated\"}",
        "{\"loc\":\"http://example.com/b\",\"change\":\"created\"}",
        ("{\"loc\":\"http://example.com/a\",\"change\":\"created\","
         "\"datetime\":\"2020-01-01T00:00:00Z\"}"),
        ("[{\"loc\":\"http://example.com/a\",\"change\":\"created\"},"
         "{\"loc\":\"http://example.com/a\",\"change\":\"created\"}]"),
    };
    struct stage *s = *state;
    const char *body =
        "{\"loc\":\"http://example.com/a\",\"change\":\"created\"}";

    post_first(s, "k/17", JSON, body);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        post(s, CHANGES, "k/17", JSON, others[i]);
        assert_refused(&s->http, 422, "\"k/17\"");
    }
    assert_repeat(s, "k/17", JSON, body);
    assert_kept(s, 1);
}

/* A key is 1 to 255 visible ASCII characters; what else comes in the header is
 * malformed, and the problem says so. */
TEST(what_is_no_key_is_malformed)
{
    struct stage *s = *state;
    char key[300];

    source_post(&s->http, "news", 1, 1, 0);
    memset(key, 'k', sizeof(key));
    key[256] = '\0';
    post(s, CHANGES, key, JSON, TWO);
    assert_refused(&s->http, 400, "1 to 255 visible ASCII");
    post(s, CHANGES, "a b", JSON, TWO);
    assert_refused(&s->http, 400, "\"a b\"");
    post(s, CHANGES, "\"ab", JSON, TWO);
    assert_refused(&s->http, 400, "quoted");
    post(s, CHANGES, "\"\"", JSON, TWO);
    assert_refused(&s->http, 400, "Idempotency-Key");
    assert_kept(s, 1);
    key[255] = '\0';
    assert_int_equal(post(s, CHANGES, key, JSON, TWO), 200);
    assert_kept(s, 3);
}

/* Begins a post of `size` bytes and waits until the broker wants its body. */
static struct wire *
begin_post(struct stage *s, const char *key, size_t size)
{
    struct wire *w = wire_connect("127.0.0.1", s->broker.port);
    struct wire_answer a;

    assert_non_null(w);
    assert_true(
        wire_send_format(w,
                         "POST " CHANGES " HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                         "Content-Type: " JSON "\r\nContent-Length: %zu\r\n"
                         "Idempotency-Key: %s\r\nExpect: 100-continue\r\n\r\n",
                         s->broker.port, size, key));
    assert_true(wire_answer_head(w, &a));
    assert_int_equal(a.status, 100);
    return w;
}

/* While the first is running, a repeat is told to come again;
 * its key is free, or its answer there, when that has ended. */
TEST(a_repeat_of_a_running_post_is_told_to_ask_again)
{
    struct stage *s = *state;
    struct wire *w = begin_post(s, "slow", strlen(TWO));
    struct wire_answer a;

    post(s, CHANGES, "slow", JSON, TWO);
    assert_refused(&s->http, 409, "\"slow\"");
    assert_string_equal(http_header(&s->http, "Retry-After"), "1");
    assert_true(wire_send(w, TWO, 20));
    post(s, CHANGES, "slow", JSON, "not even JSON");
    assert_refused(&s->http, 409, "\"slow\"");
    assert_int_equal(post(s, CHANGES, "other", JSON, TWO), 200);

    assert_true(wire_send_text(w, &TWO[20]));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    buf_add(&s->answer, a.body, a.body_size);
    assert_repeat(s, "slow", JSON, TWO);
    assert_kept(s, 4);
    wire_close(w);
}

/* Until the broker knows that a post has ended: while it is running, 409. */
static void
post_when_it_has_ended(struct stage *s, const char *key)
{
    long status;

    do
        status = post(s, CHANGES, key, JSON, TWO);
    while (status == 409);
    assert_int_equal(status, 200);
}

/* A post whose connection went away in the middle leaves its key free. */
TEST(a_post_that_broke_off_leaves_no_key)
{
    struct stage *s = *state;
    struct wire *w = begin_post(s, "broken", strlen(TWO));

    assert_true(wire_send(w, TWO, 20));
    wire_abort(w);
    post_when_it_has_ended(s, "broken");
    assert_kept(s, 2);
}

/* Design rule 5: nothing of a refused post is kept, its key neither. */
TEST(a_refused_post_leaves_no_key)
{
    struct stage *s = *state;

    post(s, CHANGES, "k", JSON, "[{\"loc\":\"http://example.com/a\",");
    assert_refused(&s->http, 400, "");
    post(s, CHANGES, "k", JSON, "{\"loc\":\"nowhere\",\"change\":\"created\"}");
    assert_refused(&s->http, 422, "loc");
    post(s, CHANGES, "k", "text/csv", TWO);
    assert_refused(&s->http, 415, "");

    post_first(s, "k", JSON, TWO);
    assert_repeat(s, "k", JSON, TWO);
    assert_kept(s, 2);
}

/* Posts until the answer is not "running". */
struct repeater {
    struct stage *stage;
    pthread_barrier_t *barrier;
    pthread_t thread;
    unsigned status;
    char body[300];
};

static void *
repeat(void *user)
{
    struct repeater *r = user;
    struct wire *w = wire_connect("127.0.0.1", r->stage->broker.port);
    struct wire_answer a;

    pthread_barrier_wait(r->barrier);
    do {
        if (!wire_request(w, "POST", CHANGES,
                          "Content-Type: " JSON "\r\n"
                          "Idempotency-Key: crowd\r\n",
                          TWO, &a))
            break;
        r->status = a.status;
        snprintf(r->body, sizeof(r->body), "%s", a.body);
        if (a.status == 409) { /* it was refused before its body was read */
            wire_close(w);
            w = wire_connect("127.0.0.1", r->stage->broker.port);
        }
    } while (a.status == 409);
    wire_close(w);
    return NULL;
}

/* However many come at once, by however many connections: one is kept, and all
 * get its answer. */
TEST(twenty_repeats_at_once_are_kept_once)
{
    struct stage *s = *state;
    struct repeater repeaters[20];
    pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, NULL, 20);
    for (int i = 0; i < 20; i++) {
        repeaters[i] = (struct repeater){.stage = s, .barrier = &barrier};
        assert_int_equal(
            pthread_create(&repeaters[i].thread, NULL, repeat, &repeaters[i]),
            0);
    }
    for (int i = 0; i < 20; i++)
        pthread_join(repeaters[i].thread, NULL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(repeaters[i].status, 200);
        assert_string_equal(repeaters[i].body, repeaters[0].body);
    }
    assert_kept(s, 2);
    pthread_barrier_destroy(&barrier);
}

/* A source that posts one entry after the other, each until it has an answer.
 */
struct source {
    const struct broker *broker;
    unsigned number;
    pthread_t thread;
    sem_t *answers; /* one more for each that is answered */
    bool is_well_answered;
};

static void *
post_all(void *user)
{
    struct source *source = user;
    struct td_client *client = td_open();
    struct td_receipt receipt;
    char url[100];
    unsigned n = 0;

    snprintf(url, sizeof(url), "%s/sets/news", source->broker->url);
    source->is_well_answered = client != NULL;
    while (source->is_well_answered && n < POSTS_EACH) {
        char body[128], key[32];
        const struct td_publish_options options = {.key = key};
        enum td_status rc;

        snprintf(body, sizeof(body),
                 "{\"loc\":\"http://example.com/%u/%u\","
                 "\"change\":\"created\"}",
                 source->number, n);
        snprintf(key, sizeof(key), "%u/%u", source->number, n);
        do /* a broker that is away refuses connections at once */
            rc = td_publish(client, url, JSON, body, strlen(body), &options,
                            &receipt);
        while (rc == TD_UNREACHABLE);
        source->is_well_answered = rc == TD_OK && receipt.first == receipt.last;
        n++;
        sem_post(source->answers);
    }
    while (n++ < POSTS_EACH) /* nobody waits for what went wrong */
        sem_post(source->answers);
    td_close(client);
    return NULL;
}

/* R-149, design rule 1: killed in the middle of it, again and again, it keeps
 * each post once, in the order of its source, because whoever got no answer
 * asked again with the key that the post had. */
TEST(every_post_is_kept_once_over_crashes)
{
    struct stage *s = *state;
    struct source sources[SOURCES];
    unsigned next[SOURCES] = {0};
    struct notice notice;
    sem_t answers;

    td_close(td_open()); /* the first of the process */
    sem_init(&answers, 0, 0);
    for (unsigned i = 0; i < SOURCES; i++) {
        sources[i] = (struct source){
            .broker = &s->broker, .number = i, .answers = &answers};
        assert_int_equal(
            pthread_create(&sources[i].thread, NULL, post_all, &sources[i]), 0);
    }
    for (int kill = 0; kill < KILLS; kill++) {
        for (int i = 0; i < SOURCES * POSTS_EACH / (KILLS + 1); i++)
            sem_wait(&answers);
        broker_kill9(&s->broker);
        broker_restart(&s->broker);
    }
    for (int i = 0; i < SOURCES; i++) {
        pthread_join(sources[i].thread, NULL);
        assert_true(sources[i].is_well_answered);
    }

    assert_int_equal(http_get(&s->http, CHANGES "?after=0"), 200);
    notice_read(&notice, NOTICE_JSON, buf_slice(&s->http.body));
    notice_check(&notice);
    assert_int_equal(notice.n, SOURCES * POSTS_EACH);
    for (size_t i = 0; i < notice.n; i++) {
        unsigned source, number;

        assert_int_equal(sscanf(notice.entries[i].loc,
                                "http://example.com/%u/%u", &source, &number),
                         2);
        assert_in_range(source, 0, SOURCES - 1);
        assert_int_equal(number, next[source]++);
    }
    notice_free(&notice);
    sem_destroy(&answers);
}
