/*
 * hostile_test.c - requests that come in pieces, too early, too slowly or never
 * to their end: none of them holds up a thread, and none is half done.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/buf.h"
#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/jsonpath.h"
#include "tests/support/patience.h"
#include "tests/support/refusal.h"
#include "tests/support/samples.h"
#include "tests/support/source.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define CHANGES "/sets/news/changes"
#define ENTRY   "{\"loc\":\"http://example.com/hostile\",\"change\":\"created\"}"

/* Connections are spread over the threads by chance: of so many, all to the
 * same one of two is less likely than a fault of the machine. */
#define SAMPLE 48

static int
set_up_with(void **state, const char *request_timeout)
{
    struct broker *b = malloc(sizeof(*b));
    struct http h;

    assert_non_null(b);
    *state = b;
    broker_open(b, "--threads", "2", "--request-timeout", request_timeout,
                "--max-body", "1M", "--ingest-bytes", "1M", NULL);
    http_open(&h, b->url);
    source_post(&h, "news", 1, 1, 0);
    http_close(&h);
    return 0;
}

static int
set_up(void **state)
{
    return set_up_with(state, "300");
}

/* For tests of what does not come in time. */
static int
set_up_hasty(void **state)
{
    return set_up_with(state, "2");
}

static struct wire *
connect_to(const struct broker *b)
{
    struct wire *w = wire_connect("127.0.0.1", b->port);

    assert_non_null(w);
    return w;
}

static void
assert_all_threads_answer(const struct broker *b)
{
    struct wire *w[SAMPLE];
    struct wire_answer a;

    for (size_t i = 0; i < SAMPLE; i++) {
        struct patience p = {.with = "an answer"};

        w[i] = connect_to(b);
        /* Who is held up before he asks may be given too little time. */
        while (!wire_request(w[i], "GET", "/healthz", NULL, NULL, &a)) {
            wire_close(w[i]);
            patience_step(&p);
            w[i] = connect_to(b);
        }
        assert_int_equal(a.status, 200);
    }
    for (size_t i = 0; i < SAMPLE; i++)
        wire_close(w[i]);
}

/* How many entries the set has that a test tried to post. */
static uint64_t
n_hostile(const struct broker *b)
{
    struct http h;
    struct jsonpath j;
    uint64_t n;

    http_open(&h, b->url);
    assert_int_equal(http_get(&h, CHANGES "?after=1"), 200);
    jsonpath_open(&j, buf_slice(&h.body));
    n = jsonpath_count(&j, "changes");
    jsonpath_close(&j);
    http_close(&h);
    return n;
}

/* A request as text; `body` NULL: none. */
static void
add_request(struct buf *to, const struct broker *b, const char *method,
            const char *path, const char *body)
{
    buf_add_format(to, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n", method, path,
                   b->port);
    if (body)
        buf_add_format(to,
                       "Content-Type: application/json\r\n"
                       "Content-Length: %zu\r\n",
                       strlen(body));
    buf_add_format(to, "\r\n%s", body ? body : "");
    assert_false(to->failed);
}

/* Requests of a pipeline, and what each is answered when it comes alone. */
static const struct piece {
    const char *method, *path, *body;
    unsigned status;
} get = {"GET", "/healthz", NULL, 200}, head = {"HEAD", "/healthz", NULL, 200},
  delete = {"DELETE", CHANGES, NULL, 405}, post = {"POST", CHANGES, ENTRY, 200},
  put = {"PUT", CHANGES, ENTRY, 405}, lost = {"POST", "/nowhere", ENTRY, 404},
  rotate = {"POST", "/sets/news/rotate", "no body is asked for", 200};

/* Every request of a pipeline is answered as if it had come alone, or the
 * connection ends without it having been done. */
TEST(pipelined_requests_are_answered_or_cut_off, set_up, broker_teardown)
{
    static const struct piece *const cases[][4] = {
        {&get, &get},          {&get, &post},
        {&get, &rotate},       {&post, &get},
        {&post, &post},        {&rotate, &rotate},
        {&rotate, &post},      {&head, &post},
        {&get, &put},          {&get, &lost},
        {&lost, &get},         {&get, &delete, &post},
        {&post, &rotate},      {&get, &get, &get, &post},
        {&get, &get, &rotate}, {&post, &post, &post, &get},
    };
    struct broker *b = *state;
    uint64_t kept = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct piece *const *pieces = cases[i];
        struct wire *w = connect_to(b);
        struct wire_answer a = {.status = 200};
        struct buf all;
        size_t n = 0, n_answers = 0;

        buf_init(&all, 65536);
        for (n = 0; n < 4 && pieces[n]; n++)
            add_request(&all, b, pieces[n]->method, pieces[n]->path,
                        pieces[n]->body);
        assert_true(wire_send(w, all.data, all.size));
        while (n_answers < n && a.status != 503 &&
               wire_answer(w, &a, pieces[n_answers] == &head)) {
            const struct piece *p = pieces[n_answers++];

            if (a.status != p->status && (n_answers == 1 || a.status != 503))
                fail_msg("%zu, %s %s: %u", i, p->method, p->path, a.status);
            kept += p == &post && a.status == 200;
        }
        assert_true(n_answers > 0);
        if (n_answers < n)
            assert_true(wire_is_ended(w));
        assert_all_threads_answer(b);
        assert_int_equal(n_hostile(b), kept);
        wire_close(w);
        buf_fini(&all);
    }
}

/* What the library would take for the request itself. */
TEST(a_body_that_looks_like_a_request_does_no_harm, set_up, broker_teardown)
{
    static const char *const bodies[] = {
        "POST /sets/news/changes HTTP/1.1\r\n\r\n", "POST /", "P",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "PUT / HTTP/1.1\r\n\r\n"};
    struct broker *b = *state;

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct wire *w = connect_to(b);
        struct wire_answer a;

        assert_true(wire_request(w, "POST", CHANGES,
                                 "Content-Type: application/json\r\n",
                                 bodies[i], &a));
        assert_true(a.status == 400 || a.status == 422 || a.status == 503);
        assert_wire_refused(&a, a.status, "");
        wire_close(w);
        assert_all_threads_answer(b);
    }
    assert_int_equal(n_hostile(b), 0);
}

/* A post in two packets, cut at every place. */
TEST(a_post_may_be_cut_anywhere, set_up, broker_teardown)
{
    struct broker *b = *state;
    struct wire_answer a;
    struct buf all;

    buf_init(&all, 65536);
    add_request(&all, b, "POST", CHANGES, ENTRY);
    for (size_t cut = 1; cut < all.size; cut++) {
        struct wire *w = connect_to(b);

        assert_true(wire_send(w, all.data, cut));
        assert_true(wire_send(w, all.data + cut, all.size - cut));
        assert_true(wire_answer(w, &a, false));
        assert_int_equal(a.status, 200);
        wire_close(w);
    }
    assert_int_equal(n_hostile(b), all.size - 1);
    assert_all_threads_answer(b);
    buf_fini(&all);
}

static void
send_head(struct wire *w, const struct broker *b, size_t length,
          const char *more)
{
    assert_true(wire_send_format(
        w,
        "POST " CHANGES " HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
        "Content-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n",
        b->port, length, more));
}

/* A byte of the body every 50 ms, as long as the broker takes them. */
TEST(a_body_that_drips_is_cut_off, set_up_hasty, broker_teardown)
{
    struct broker *b = *state;
    struct wire *w = connect_to(b);
    struct pollfd p = {.fd = wire_fd(w), .events = POLLIN};
    struct wire_answer a;
    int n = 0;

    send_head(w, b, 1000, "");
    while (poll(&p, 1, 50) == 0) {
        assert_true(++n < PATIENCE_MS / 50);
        assert_true(wire_send(w, " ", 1));
    }
    assert_true(wire_answer(w, &a, false));
    assert_wire_refused(&a, 408, "in time");
    assert_true(wire_is_ended(w));
    wire_close(w);
    assert_int_equal(n_hostile(b), 0);
    assert_all_threads_answer(b);
}

/* The same of a head: each byte of it comes in time, all of it does not. */
TEST(a_head_that_drips_is_cut_off, set_up_hasty, broker_teardown)
{
    struct broker *b = *state;
    struct wire *w = connect_to(b);
    struct pollfd p = {.fd = wire_fd(w), .events = POLLIN};
    char byte;
    int n = 0;

    assert_true(wire_send_text(w, "POST " CHANGES " HTTP/1.1\r\nX: "));
    while (poll(&p, 1, 50) == 0) {
        assert_true(++n < PATIENCE_MS / 50);
        assert_true(wire_send(w, "a", 1));
    }
    while (wire_read_some(w, &byte, 1) > 0)
        ; /* an answer, or none */
    assert_true(wire_is_ended(w));
    wire_close(w);
    assert_all_threads_answer(b);
}

/* Whatever has come is not kept, though the entry itself was whole. */
TEST(a_body_that_stops_half_way_is_not_kept, set_up_hasty, broker_teardown)
{
    struct broker *b = *state;
    struct wire_answer a;

    for (int how = 0; how < 3; how++) {
        struct wire *w = connect_to(b);

        send_head(w, b, strlen(ENTRY) + 10, "");
        assert_true(wire_send_text(w, ENTRY));
        switch (how) {
        case 0: /* silence */
            assert_true(wire_answer(w, &a, false));
            assert_wire_refused(&a, 408, "in time");
            assert_true(wire_is_ended(w));
            wire_close(w);
            break;
        case 1:
            wire_shut(w);
            assert_true(wire_is_ended(w));
            wire_close(w);
            break;
        default:
            wire_abort(w);
        }
        assert_int_equal(n_hostile(b), 0);
        assert_all_threads_answer(b);
    }
}

/* Nor does a head that never ends, or never begins. */
TEST(a_head_that_stops_half_way_is_cut_off, set_up_hasty, broker_teardown)
{
    static const char *const heads[] = {"", "G", "GET /healthz HTTP/1.1\r\n",
                                        "GET /healthz HTTP/1.1\r\nHost: 1"};
    struct broker *b = *state;

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct wire *w = connect_to(b);

        assert_true(wire_send_text(w, heads[i]));
        assert_true(wire_is_ended(w));
        wire_close(w);
    }
    assert_all_threads_answer(b);
}

/* Very many that have begun, and stay, are in nobody's way. */
TEST(half_requests_do_not_keep_others_out, set_up, broker_teardown)
{
    struct broker *b = *state;
    struct wire *w[300];

    for (size_t i = 0; i < 300; i++) {
        w[i] = connect_to(b);
        assert_true(wire_send_text(w[i], "POST " CHANGES " HTTP/1.1\r\nHo"));
    }
    assert_all_threads_answer(b);
    for (size_t i = 0; i < 300; i++)
        wire_close(w[i]);
    assert_all_threads_answer(b);
}

/* What the library would wait for, or take for something else. */
TEST(requests_that_are_none_are_refused, set_up, broker_teardown)
{
    static const struct {
        const char *text; /* between the request line's path and the end */
        unsigned status;  /* 0: the connection just ends */
    } cases[] = {
        {"POST " CHANGES " HTTP/1.1\r\n%s"
         "Transfer-Encoding: chunked\r\n\r\n1\r\n3\r\n0\r\n\r\n",
         501},
        {"POST " CHANGES " HTTP/1.1\r\n%s\r\n", 415}, /* no body, no type */
        {"POST " CHANGES " HTTP/1.1\r\n%sContent-Length: -1\r\n\r\n", 400},
        {"POST " CHANGES " HTTP/1.1\r\n%sContent-Length: +5\r\n\r\n", 400},
        {"POST " CHANGES " HTTP/1.1\r\n%sContent-Length: 5x\r\n\r\n", 400},
        {"POST " CHANGES " HTTP/1.1\r\n%sContent-Length: "
         "99999999999999999999\r\n\r\n",
         400},
        {"GET /healthz HTTP/1.1\r\n%sContent-Length: 5\r\n\r\nhello", 400},
        {"GET /healthz HTTP/1.1\r\n%sConnection: Upgrade\r\n"
         "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
         400},
        {"CONNECT example.com:80 HTTP/1.1\r\n%s\r\n", 501},
        {"BREW /pot HTTP/1.1\r\n%s\r\n", 501},
    };
    struct broker *b = *state;
    char host[64];

    snprintf(host, sizeof(host), "Host: 127.0.0.1:%u\r\n", b->port);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wire *w = connect_to(b);
        struct wire_answer a;

        assert_true(wire_send_format(w, cases[i].text, host));
        assert_true(wire_answer(w, &a, false));
        assert_wire_refused(&a, cases[i].status, "");
        wire_close(w);
        assert_all_threads_answer(b);
    }
    assert_int_equal(n_hostile(b), 0);
}

TEST(noise_is_no_request, set_up_hasty, broker_teardown)
{
    static const struct {
        const char *bytes;
        size_t size;
    } noises[] = {
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24},
        {"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16},
        {"\r\n\r\n\r\n\r\n", 8},
        {"\x81\x85\x01\x02\x03\x04hello", 11},
        {"GET /sets/a%00b/changes HTTP/1.1\r\n\r\n", 37},
        {"GET /sets/a%zzb/changes HTTP/1.1\r\n\r\n", 37},
    };
    struct broker *b = *state;

    for (size_t i = 0; i < sizeof(noises) / sizeof(noises[0]); i++) {
        struct wire *w = connect_to(b);

        assert_true(wire_send(w, noises[i].bytes, noises[i].size));
        assert_true(wire_is_ended(w));
        wire_close(w);
        assert_all_threads_answer(b);
    }
}

/* A header above the limit is told, where the library would just hang up. */
TEST(a_header_that_is_too_long_is_refused, set_up, broker_teardown)
{
    struct broker *b = *state;
    struct wire *w = connect_to(b);
    struct wire_answer a;
    char *text = malloc(9001);

    assert_non_null(text);
    memset(text, 'a', 9000);
    text[9000] = '\0';
    assert_true(wire_send_format(w,
                                 "GET /healthz HTTP/1.1\r\n"
                                 "Host: 127.0.0.1:%u\r\nAccept: %s\r\n\r\n",
                                 b->port, text));
    assert_true(wire_answer(w, &a, false));
    assert_wire_refused(&a, 431, "header");
    wire_close(w);
    free(text);
    assert_all_threads_answer(b);
}

/* An array of `n` entries of about a kilobyte, without its end. */
static char *
heavy_entries(unsigned n)
{
    struct buf text;

    buf_init(&text, SIZE_MAX);
    for (unsigned i = 0; i < n; i++) {
        buf_add_format(&text,
                       "%c{\"change\":\"created\",\"loc\":\"http://a.example/",
                       i ? ',' : '[');
        for (unsigned k = 0; k < 100; k++)
            buf_add_format(&text, "%010u", i);
        buf_add_text(&text, "\"}");
    }
    buf_add(&text, "]", 2);
    assert_false(text.failed);
    return text.data;
}

/* Posts `body` until the answer is `status`. */
static void
post_until(struct broker *b, const char *body, unsigned status,
           struct wire_answer *a)
{
    struct timespec now;
    time_t end = 0;

    do {
        struct wire *w = connect_to(b);

        assert_true(wire_request(
            w, "POST", CHANGES, "Content-Type: application/json\r\n", body, a));
        wire_close(w);
        clock_gettime(CLOCK_MONOTONIC, &now);
        end = end ? end : now.tv_sec + PATIENCE_MS / 1000;
    } while (a->status != status && now.tv_sec < end);
    assert_int_equal(a->status, status);
}

/* Of 1 MB for all posts at work, 700 KB are held by one that goes no further; a
 * second one is told to come back, and is let in when the first is gone. */
TEST(posts_at_work_count_in_the_budget, set_up, broker_teardown)
{
    struct broker *b = *state;
    struct wire *first = connect_to(b);
    char *body = heavy_entries(700), after[16];
    static struct samples now;
    struct wire_answer a;
    struct http h;

    send_head(first, b, 1000000, "");
    assert_true(wire_send(first, body, strlen(body) - 1));
    /* Or the second one overtakes it, and it is the first that is refused. */
    http_open(&h, b->url);
    samples_await_least(&now, &h, "tidings_ingest_bytes", 800000);
    http_close(&h);
    post_until(b, body, 503, &a);
    assert_true(wire_header(&a, "Retry-After", after, sizeof(after)));
    assert_true(strtoul(after, NULL, 10) > 0);

    wire_abort(first);
    post_until(b, body, 200, &a);
    assert_all_threads_answer(b);
    free(body);
}

/* Design rule 6: who announces much and sends nothing keeps nobody out. */
TEST(announcing_alone_takes_nothing_of_the_budget, set_up, broker_teardown)
{
    struct broker *b = *state;
    struct wire *w[20];
    struct wire_answer a;

    for (size_t i = 0; i < 20; i++) {
        w[i] = connect_to(b);
        send_head(w[i], b, 1000000, "Expect: 100-continue\r\n");
        assert_true(wire_answer_head(w[i], &a));
        assert_int_equal(a.status, 100); /* so its head has been read */
    }
    post_until(b, "[" ENTRY "]", 200, &a);
    for (size_t i = 0; i < 20; i++)
        wire_close(w[i]);
}
