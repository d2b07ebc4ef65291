#include "tests/test.h"
#include "tests/unit/net/served.h"

#define HEAD_END "Host: a\r\n\r\n"
#define GET      "GET /small HTTP/1.1\r\n" HEAD_END
#define POST     "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc"

SERVED_GROUPS;

TEST(answers_and_keeps_the_connection, served_open, served_close)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    char value[64];

    for (int i = 0; i < 3; i++) {
        assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hello");
        assert_false(wire_header(&a, "Connection", value, sizeof(value)));
        assert_false(wire_header(&a, "Server", value, sizeof(value)));
        assert_true(wire_header(&a, "Date", value, sizeof(value)));
        assert_true(wire_header(&a, "Content-Type", value, sizeof(value)));
        assert_string_equal(value, "text/plain");
        assert_true(
            wire_header(&a, "X-Content-Type-Options", value, sizeof(value)));
        assert_string_equal(value, "nosniff");
    }
    wire_close(w);
}

TEST(hands_over_bodies_and_keeps_the_connection, served_open, served_close)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    for (int i = 0; i < 200; i++) {
        assert_true(wire_request(w, "POST", "/echo", NULL, "some body", &a));
        assert_string_equal(a.body, "some body");
        assert_true(wire_request(w, "POST", "/later", NULL, "some body", &a));
        assert_string_equal(a.body, "later 9");
        assert_true(wire_request(w, "GET", "/later", NULL, NULL, &a));
        assert_string_equal(a.body, "later 0");
        assert_true(wire_request(w, "PUT", "/echo", NULL, "", &a));
        assert_string_equal(a.body, "");
        assert_true(wire_request(w, "POST", "/echo", NULL, "", &a));
        assert_string_equal(a.body, "");
    }
    wire_close(w);
}

/* The next request may come as soon as the answer is there to the last byte. */
TEST(takes_the_next_request_behind_an_answer_with_a_body, served_open,
     served_close)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    for (int i = 0; i < 1000; i++) {
        assert_true(wire_request(w, "POST", "/later-echo", NULL, "body", &a));
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "body");
    }
    wire_close(w);
}

TEST(hands_over_a_long_body_whole, served_open, served_close)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    size_t size = 5000000;
    char *body = malloc(size + 1);

    for (size_t i = 0; i < size; i++)
        body[i] = served_byte(i);
    body[size] = '\0';

    assert_true(wire_request(w, "POST", "/echo", NULL, body, &a));

    assert_int_equal(a.body_size, size);
    assert_memory_equal(a.body, body, size);
    free(body);
    wire_close(w);
}

/* Read on only when it can be taken: what comes in between is what was read at
 * once, though the client sends all that it can. */
TEST(hands_over_a_body_as_slowly_as_it_is_taken, served_open, served_close)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    size_t size = 5000000;
    char *body = malloc(size + 1);

    for (size_t i = 0; i < size; i++)
        body[i] = served_byte(i);
    body[size] = '\0';

    for (int i = 0; i < 3; i++) {
        assert_true(wire_request(w, "POST", "/slow-echo", NULL, body, &a));
        assert_int_equal(a.body_size, size);
        assert_memory_equal(a.body, body, size);
        assert_in_range(atomic_load(&served.n_pauses), size / 100000, size);
        assert_true(atomic_load(&served.n_paused) < 100000);
        /* The end of a body may come while it is paused, too. */
        assert_true(wire_request(w, "POST", "/slow-echo", NULL, "short", &a));
        assert_string_equal(a.body, "short");
    }
    free(body);
    wire_close(w);
}

/* The whole of it arrives the same, wherever the network cuts it. */
TEST(takes_requests_cut_anywhere, served_open, served_close)
{
    static const char text[] = POST "GET /small?a=%41 HTTP/1.1\r\n" HEAD_END;
    struct wire_answer a;

    for (size_t at = 1; at < sizeof(POST) - 1; at++) {
        struct wire *w = served_connect();

        assert_true(wire_send(w, text, at));
        served_assert_alive(); /* so that the first piece is there */
        assert_true(wire_send(w, text + at, sizeof(POST) - 1 - at));
        assert_true(wire_answer(w, &a, false));
        assert_string_equal(a.body, "abc");
        assert_true(wire_send_text(w, text + sizeof(POST) - 1));
        assert_true(wire_answer(w, &a, false));
        assert_string_equal(a.body, "hello");
        wire_close(w);
    }
}

TEST(answers_pipelined_requests_without_bodies, served_open, served_close)
{
    struct wire *w =
        served_sent(GET "GET /later HTTP/1.1\r\n" HEAD_END GET GET);
    struct wire_answer a;

    for (int i = 0; i < 4; i++) {
        assert_true(wire_answer(w, &a, false));
        assert_string_equal(a.body, i == 1 ? "later 0" : "hello");
    }
    wire_close(w);

    w = served_sent(POST GET);
    assert_true(wire_answer(w, &a, false));
    assert_string_equal(a.body, "abc");
    assert_true(wire_answer(w, &a, false));
    assert_string_equal(a.body, "hello");
    wire_close(w);
}

/* The library takes the head of such a request for its body, and would loop. */
TEST(refuses_a_pipelined_request_with_a_body, served_open, served_close)
{
    static const char *const second[] = {
        POST,
        "post  /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc",
        "POST /later HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc",
        "POST /echo HTTP/1.1\r\nContent-Length: 1\r\n" HEAD_END "a",
        "PUT /echo HTTP/1.1\r\nContent-Length: 100\r\n" HEAD_END "abc",
        "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc" GET};
    static const char *const first[] = {GET, POST};
    struct wire_answer a;

    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < sizeof(second) / sizeof(second[0]); j++) {
            struct wire *w = served_connect();

            assert_true(wire_send_format(w, "%s%s", first[i], second[j]));
            assert_true(wire_answer(w, &a, false));
            assert_int_equal(a.status, 200);
            assert_true(wire_answer(w, &a, false));
            assert_int_equal(a.status, 503);
            assert_true(wire_is_ended(w));
            wire_close(w);
            served_assert_alive();
        }
    }
    served_await(&served.n_open, 0);
}

TEST(survives_a_pipelined_refusal, served_open, served_close)
{
    static const char *const texts[] = {
        GET "POST /refuse HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc",
        GET "GET /small HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc",
        GET "DELETE /small HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc",
        GET "POST /echo HTTP/1.1\r\n" HEAD_END "abc",
        GET "PATCH /echo HTTP/1.1\r\n" HEAD_END "abc",
        GET "POST /echo HTTP/1.1\r\nContent-Length: -3\r\n" HEAD_END "abc",
        GET "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD_END
            "3\r\nabc\r\n0\r\n\r\n"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct wire *w = served_sent(texts[i]);

        served_assert_answer(w, 200);
        assert_true(wire_is_ended(w));
        wire_close(w);
        served_assert_alive();
    }
}

/* RFC 9112 section 6.3. What follows would be the library's idea of a body: so
 * the connection ends with the answer. */
TEST(takes_no_length_for_no_body, served_open, served_close)
{
    static const char *const texts[] = {
        "POST /echo HTTP/1.1\r\n" HEAD_END,
        "PUT /echo HTTP/1.1\r\n" HEAD_END,
        "POST /echo HTTP/1.1\r\n" HEAD_END "abc",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct wire *w = served_sent(texts[i]);

        served_assert_answer(w, 200);
        assert_true(wire_is_ended(w));
        wire_close(w);
        served_assert_alive();
    }
}

TEST(says_100_continue_when_it_is_waited_for, served_open, served_close)
{
    struct wire *w =
        served_sent("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\n"
                    "Content-Length: 3\r\n" HEAD_END);
    struct wire_answer a;

    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 100);
    assert_true(wire_send_text(w, "abc"));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "abc");
    wire_close(w);

    served_assert_refused("POST /refuse HTTP/1.1\r\nExpect: 100-continue\r\n"
                          "Content-Length: 3\r\n" HEAD_END,
                          413);
}

/* The client, still sending, finds the answer. */
TEST(lets_the_client_read_a_refusal, served_open, served_close)
{
    static const char *const paths[] = {"/refuse", "/refuse-data"};
    char bytes[10000];

    memset(bytes, 'x', sizeof(bytes));
    for (size_t i = 0; i < 2; i++) {
        struct wire *w = served_connect();

        wire_send_format(
            w, "POST %s HTTP/1.1\r\nContent-Length: 500000\r\n" HEAD_END,
            paths[i]);
        for (int n = 0; n < 50; n++)
            assert_true(wire_send(w, bytes, sizeof(bytes)));
        served_assert_answer(w, 413);
        assert_true(wire_is_ended(w));
        wire_close(w);
    }
    served_assert_alive();
    assert_int_equal(atomic_load(&served.n_open), 0);
}

static int
open_impatient(void **state)
{
    (void)state;
    served_open_with(1, 3000000);
    return 0;
}

TEST(cuts_a_body_that_drips, open_impatient, served_close)
{
    struct wire *w =
        served_sent("POST /echo HTTP/1.1\r\nContent-Length: 1000\r\n" HEAD_END);
    struct wire_answer a;

    served_await(&served.n_open, 1);
    for (int i = 0; i < 3; i++) {
        assert_true(wire_is_silent(w));
        assert_true(wire_send_text(w, "x"));
        served_turn();
        served_pass_seconds(1);
    }
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 408);
    assert_true(wire_is_ended(w));
    assert_int_equal(atomic_load(&served.n_gone), 1);
    assert_int_equal(atomic_load(&served.n_open), 0);
    wire_close(w);
}

/* A body that drips, begun after it, tells that its time is over. */
TEST(the_time_in_which_a_body_is_not_read_does_not_count, open_impatient,
     served_close)
{
    struct wire *held = served_sent(
        "POST /held-echo HTTP/1.1\r\nContent-Length: 6\r\n" HEAD_END "abc");
    struct wire *drips;
    struct wire_answer a;

    served_await(&served.n_pauses, 1);
    drips =
        served_sent("POST /echo HTTP/1.1\r\nContent-Length: 1000\r\n" HEAD_END);
    served_await(&served.n_open, 2);
    served_pass_seconds(3);
    assert_true(wire_answer(drips, &a, false));
    assert_int_equal(a.status, 408);
    assert_int_equal(atomic_load(&served.n_gone), 1);
    assert_true(wire_send_text(held, "def"));
    served_on_service(served_release);
    assert_true(wire_answer(held, &a, false));

    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "abcdef");
    wire_close(drips);
    wire_close(held);
}

TEST(cuts_a_head_that_drips, open_impatient, served_close)
{
    struct wire *silent = served_connect();
    struct wire *half = served_sent("GET /small HTTP/1.1\r\nHost");

    served_turn();
    served_pass_seconds(2);
    assert_true(wire_is_silent(silent));
    assert_true(wire_is_silent(half));
    served_pass_seconds(1);
    assert_true(wire_is_ended(silent));
    assert_true(wire_is_ended(half));
    wire_close(silent);
    wire_close(half);
    served_assert_alive();
}

static int
open_held_up(void **state)
{
    (void)state;
    served_open_with(1, 6000000);
    return 0;
}

/* Of the service thread: what it has to read comes, and then the time in which
 * it might have come is over. */
static struct wire *late_head, *late_body;

static void
be_held_up(void)
{
    assert_true(wire_send_text(late_head, GET));
    assert_true(wire_send_text(late_body, "abc"));
    clock_pass_us(7500000);
}

TEST(whoever_was_in_time_is_served_though_the_thread_was_late, open_held_up,
     served_close)
{
    late_head = served_connect(); /* accepted before the other */
    late_body =
        served_sent("POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END);
    served_await(&served.n_open, 1);
    served_on_service(be_held_up);
    served_assert_answer(late_head, 200);
    served_assert_answer(late_body, 200);
    wire_close(late_head);
    wire_close(late_body);
}

TEST(tells_the_handler_that_the_client_has_gone, served_open, served_close)
{
    struct wire *body = served_sent(
        "POST /echo HTTP/1.1\r\nContent-Length: 9\r\n" HEAD_END "abc");
    struct wire *never = served_sent("GET /never HTTP/1.1\r\n" HEAD_END);

    served_await(&served.n_open, 2);
    wire_close(body);
    wire_abort(never);

    served_pass_until(&served.n_gone, 2);
    assert_int_equal(atomic_load(&served.n_open), 0);
}

TEST(finds_no_request_by_the_ticket_of_one_that_has_gone, served_open,
     served_close)
{
    enum { N = 20 };
    struct wire *w[N];
    struct wire_answer a;

    served_pause(true);
    for (int i = 0; i < N; i++)
        w[i] = served_sent(
            "POST /later HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc");
    served_await(&served.n_open, N);
    for (int i = 0; i < N; i++)
        wire_close(w[i]);
    served_pass_until(&served.n_gone, N);
    for (int i = 0; i < N; i++) /* in the same slots */
        w[i] = served_sent("GET /later HTTP/1.1\r\n" HEAD_END);
    served_await(&served.n_open, N);
    served_pause(false);

    for (int i = 0; i < N; i++) {
        assert_true(wire_answer(w[i], &a, false));
        assert_string_equal(a.body, "later 0");
        wire_close(w[i]);
    }
    assert_int_equal(atomic_load(&served.n_open), 0);
}
