#include "tests/test.h"
#include "tests/unit/net/served.h"

#define SMALL GET("/small")
#define ECHO  POST("/echo", "3") "abc"

FIXTURE(served_open, served_close);
SERVED_GROUPS;

TEST(answers_and_keeps_the_connection)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    char date[64];

    for (int i = 0; i < 3; i++) {
        assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hello");
        assert_true(wire_header(&a, "Date", date, sizeof(date)));
        served_assert_header(&a, "Connection", NULL);
        served_assert_header(&a, "Server", NULL);
        served_assert_header(&a, "Content-Type", "text/plain");
        served_assert_header(&a, "X-Content-Type-Options", "nosniff");
    }
    wire_close(w);
}

TEST(hands_over_bodies_and_keeps_the_connection)
{
    static const struct {
        const char *method, *path, *body, *answer;
    } rows[] = {
        {"POST", "/echo", "some body", "some body"},
        {"POST", "/later", "some body", "later 9"},
        {"GET", "/later", NULL, "later 0"},
        {"PUT", "/echo", "", ""},
        {"POST", "/echo", "", ""},
    };

    enum { ROWS = sizeof(rows) / sizeof(rows[0]) };
    struct wire *w = served_connect();
    struct wire_answer a;

    for (int i = 0; i < 100 * ROWS; i++) {
        assert_true(wire_request(w, rows[i % ROWS].method, rows[i % ROWS].path,
                                 NULL, rows[i % ROWS].body, &a));
        assert_string_equal(a.body, rows[i % ROWS].answer);
    }
    wire_close(w);
}

/* The client may send its next request as soon as it has the last byte of the
 * answer. */
TEST(takes_the_next_request_behind_an_answer_with_a_body)
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

/* Posts a body of 5 MB, which comes back. */
static void
assert_echoes_a_long_body(struct wire *w, const char *path)
{
    enum { SIZE = 5000000 };
    struct wire_answer a;
    char *body = malloc(SIZE + 1);

    for (size_t i = 0; i < SIZE; i++)
        body[i] = served_pattern[i % SERVED_PERIOD];
    body[SIZE] = '\0';
    assert_true(wire_request(w, "POST", path, NULL, body, &a));
    served_assert_pattern(&a, SIZE);
    free(body);
}

TEST(hands_over_a_long_body_whole)
{
    struct wire *w = served_connect();

    assert_echoes_a_long_body(w, "/echo");
    wire_close(w);
}

/* The server reads on only when the handler takes the body: between two pauses
 * come the bytes of one read, though the client sends all that it can. */
TEST(hands_over_a_body_as_slowly_as_it_is_taken)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    for (int i = 0; i < 3; i++) {
        assert_echoes_a_long_body(w, "/slow-echo");
        assert_in_range(atomic_load(&served.n_pauses), 50, 5000000);
        assert_true(atomic_load(&served.n_paused) < 100000);
        /* The end of a body may come while it is paused, too. */
        assert_true(wire_request(w, "POST", "/slow-echo", NULL, "short", &a));
        assert_string_equal(a.body, "short");
    }
    wire_close(w);
}

/* A request arrives the same wherever the network cuts it. */
TEST(takes_requests_cut_anywhere)
{
    for (size_t at = 1; at < sizeof(ECHO) - 1; at++) {
        struct wire *w = served_connect();

        assert_true(wire_send(w, ECHO, at));
        served_turn(); /* reads the first piece */
        assert_true(wire_send_text(w, &ECHO[at]));
        served_assert_answer(w, 200, "abc");
        assert_true(wire_send_text(w, GET("/small?a=%41")));
        served_assert_answer(w, 200, "hello");
        wire_close(w);
    }
    served_assert_alive();
}

TEST(answers_pipelined_requests_without_bodies)
{
    struct wire *w = served_sent(SMALL GET("/later") SMALL SMALL);

    for (int i = 0; i < 4; i++)
        served_assert_answer(w, 200, i == 1 ? "later 0" : "hello");
    wire_close(w);

    w = served_sent(ECHO SMALL);
    served_assert_answer(w, 200, "abc");
    served_assert_answer(w, 200, "hello");
    wire_close(w);
}

#define CHUNKED(path) \
    "POST " path " HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD_END

TEST(answers_pipelined_requests_with_bodies)
{
    static const struct {
        const char *text, *body;
    } second[] = {
        {ECHO, "abc"},
        {POST("/later", "3") "abc", "later 3"},
        {POST("/echo", "1") "a", "a"},
        {CHUNKED("/echo") "1;x=y\r\na\r\n2\r\nbc\r\n0\r\nT: u\r\n\r\n", "abc"},
    };

    static const char *const first[] = {SMALL, ECHO,
                                        CHUNKED("/echo") "0\r\n\r\n"};

    for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < sizeof(second) / sizeof(second[0]); j++) {
            struct wire *w = served_connect();

            assert_true(
                wire_send_format(w, "%s%s" SMALL, first[i], second[j].text));
            served_assert_answer(w, 200, NULL);
            served_assert_answer(w, 200, second[j].body);
            served_assert_answer(w, 200, "hello");
            wire_close(w);
        }
    }
    served_await(&served.n_open, 0);
}

/* However the bytes of two requests are cut, the answers are the same. */
TEST(reads_what_comes_byte_by_byte)
{
    static const char text[] =
        CHUNKED("/echo") "3\r\nabc\r\n0\r\n\r\n" POST("/echo", "2") "de";
    struct wire *w = served_connect();

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        assert_true(wire_send(w, text + i, 1));
        served_turn();
    }
    served_assert_answer(w, 200, "abc");
    served_assert_answer(w, 200, "de");
    wire_close(w);
}

/* The server reads nothing behind a refused request. */
TEST(ends_behind_a_pipelined_refusal)
{
    static const struct {
        const char *text;
        unsigned status;
    } rows[] = {
        {SMALL POST("/refuse", "3") "abc" SMALL, 413},
        {SMALL "GET /small HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END
               "abc" SMALL,
         400},
        {SMALL "DELETE /small HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END
               "abc" SMALL,
         400},
        {SMALL POST("/echo", "-3") "abc" SMALL, 400},
        {SMALL "post  /echo HTTP/1.1\r\n" HEAD_END SMALL, 400},
        {SMALL CHUNKED("/echo") "3\nabc" SMALL, 400},
        {SMALL CHUNKED("/refuse-data") "3\r\nabc\r\n0\r\n\r\n" SMALL, 413},
        {ECHO "abc\r\n\r\n" SMALL, 400},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = served_sent(rows[i].text);
        struct wire_answer a;

        served_assert_answer(w, 200, NULL);
        if (!wire_answer(w, &a, false) || a.status != rows[i].status)
            fail_msg("%u, not %u, is the second answer to %s", a.status,
                     rows[i].status, rows[i].text);
        if (!wire_is_ended(w))
            fail_msg("no end of %s", rows[i].text);
        wire_close(w);
    }
    served_assert_alive();
}

/* RFC 9112 section 6.3. */
TEST(takes_no_length_for_no_body)
{
    struct wire *w = served_sent("POST /echo HTTP/1.1\r\n" HEAD_END
                                 "PUT /echo HTTP/1.1\r\n" HEAD_END ECHO);

    served_assert_answer(w, 200, "");
    served_assert_answer(w, 200, "");
    served_assert_answer(w, 200, "abc");
    wire_close(w);
}

TEST(says_100_continue_when_it_is_waited_for)
{
    static const struct served_refusal refused[] = {
        {"POST /refuse HTTP/1.1\r\nExpect: 100-continue\r\n"
         "Content-Length: 3\r\n" HEAD_END,
         413},
    };
    struct wire *w =
        served_sent("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\n"
                    "Content-Length: 3\r\n" HEAD_END);

    served_assert_answer(w, 100, NULL);
    assert_true(wire_send_text(w, "abc"));
    served_assert_answer(w, 200, "abc");
    wire_close(w);
    ASSERT_REFUSED(refused);
}

/* The client, still sending, finds the answer. */
TEST(lets_the_client_read_a_refusal)
{
    static const char *const heads[] = {POST("/refuse", "500000"),
                                        POST("/refuse-data", "500000")};
    char bytes[10000];

    memset(bytes, 'x', sizeof(bytes));
    for (size_t i = 0; i < 2; i++) {
        struct wire *w = served_sent(heads[i]);

        for (int n = 0; n < 50; n++)
            assert_true(wire_send(w, bytes, sizeof(bytes)));
        served_assert_answer(w, 413, NULL);
        served_assert_ended(w);
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
    struct wire *w = served_sent(POST("/echo", "1000"));

    served_await(&served.n_open, 1);
    for (int i = 0; i < 4; i++) {
        assert_true(wire_is_silent(w));
        assert_true(wire_send_text(w, "x"));
        served_turn();
        served_pass_seconds(1);
    }
    served_assert_answer(w, 408, NULL);
    served_assert_ended(w);
    assert_int_equal(atomic_load(&served.n_gone), 1);
    assert_int_equal(atomic_load(&served.n_open), 0);
}

/* A handler may put off its answer to a broken body; the server reads nothing
 * meanwhile. */
TEST(leaves_the_answer_to_a_broken_body_to_its_handler, open_impatient,
     served_close)
{
    static const struct {
        const char *text;
        unsigned status;
    } rows[] = {
        {CHUNKED("/own-echo") "3\nabc" SMALL, 400},
        {CHUNKED("/own-echo") "3\r\nabc\r\n3\r\ndef\r\n" SMALL, 413},
        {CHUNKED("/own-echo") "3\r\nabc\r\n", 408},
        {POST("/own-echo", "4") "abc", 408},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = served_sent(rows[i].text);

        served_await(&served.n_requests, (unsigned)i + 1);
        for (int n = 0; rows[i].status == 408 && n < 4; n++)
            served_pass_seconds(1);
        served_assert_answer(w, rows[i].status, NULL);
        served_assert_ended(w);
    }
    assert_int_equal(atomic_load(&served.n_gone), 0);
    assert_int_equal(atomic_load(&served.n_open), 0);
}

/* A dripping body that began after it shows that its time is over. */
TEST(the_time_in_which_a_body_is_not_read_does_not_count, open_impatient,
     served_close)
{
    struct wire *held = served_sent(POST("/held-echo", "6") "abc");
    struct wire *drips;

    served_await(&served.n_pauses, 1);
    drips = served_sent(POST("/echo", "1000"));
    served_await(&served.n_open, 2);
    served_pass_seconds(4);
    served_assert_answer(drips, 408, NULL);
    assert_int_equal(atomic_load(&served.n_gone), 1);
    assert_true(wire_send_text(held, "def"));
    served_on_service(served_release);

    served_assert_answer(held, 200, "abcdef");
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
    served_assert_ended(silent);
    served_assert_ended(half);
    served_assert_alive();
}

static int
open_held_up(void **state)
{
    (void)state;
    served_open_with(1, 6000000);
    return 0;
}

/* On the service thread: the rest of both requests comes, and then the time in
 * which it might have come is over. */
static struct wire *late_head, *late_body;

static void
be_held_up(void)
{
    assert_true(wire_send_text(late_head, SMALL));
    assert_true(wire_send_text(late_body, "abc"));
    clock_pass_us(7500000);
}

TEST(whoever_was_in_time_is_served_though_the_thread_was_late, open_held_up,
     served_close)
{
    late_head = served_connect(); /* accepted before the other */
    late_body = served_sent(POST("/echo", "3"));
    served_await(&served.n_open, 1);
    served_on_service(be_held_up);
    served_assert_answer(late_head, 200, NULL);
    served_assert_answer(late_body, 200, NULL);
    wire_close(late_head);
    wire_close(late_body);
}

TEST(tells_the_handler_that_the_client_has_gone)
{
    struct wire *body = served_sent(POST("/echo", "9") "abc");
    struct wire *never = served_sent(GET("/never"));

    served_await(&served.n_open, 2);
    wire_close(body);
    wire_abort(never);

    served_pass_until(&served.n_gone, 2);
    assert_int_equal(atomic_load(&served.n_open), 0);
}

TEST(finds_no_request_by_the_ticket_of_one_that_has_gone)
{
    enum { N = 20 };
    struct wire *w[N];

    served_pause(true);
    for (int i = 0; i < N; i++)
        w[i] = served_sent(POST("/later", "3") "abc");
    served_await(&served.n_open, N);
    for (int i = 0; i < N; i++)
        wire_close(w[i]);
    served_pass_until(&served.n_gone, N);
    for (int i = 0; i < N; i++) /* in the same slots */
        w[i] = served_sent(GET("/later"));
    served_await(&served.n_open, N);
    served_pause(false);

    for (int i = 0; i < N; i++) {
        served_assert_answer(w[i], 200, "later 0");
        wire_close(w[i]);
    }
    assert_int_equal(atomic_load(&served.n_open), 0);
}
