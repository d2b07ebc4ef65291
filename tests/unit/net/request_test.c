#include "tests/unit/net/served.h"

#define HEAD_END "Host: a\r\n\r\n"
#define GET      "GET /small HTTP/1.1\r\n" HEAD_END
#define POST     "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc"

/* Sends `text` on a new connection. */
static struct wire *
sent(const char *text)
{
    struct wire *w = served_connect();

    assert_true(wire_send_text(w, text));
    return w;
}

static void
assert_answer(struct wire *w, unsigned status)
{
    struct wire_answer a;

    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, status);
}

/* `text` is answered with `status`, and the connection closed; the server goes
 * on with others. */
static void
assert_refused(const char *text, unsigned status)
{
    struct wire *w = sent(text);
    struct wire_answer a;
    char value[64];

    if (!wire_answer(w, &a, false))
        fail_msg("no answer to %s", text);
    if (a.status != status)
        fail_msg("%u is the answer to %s", a.status, text);
    assert_true(wire_header(&a, "Connection", value, sizeof(value)));
    assert_string_equal(value, "close");
    assert_true(wire_is_ended(w));
    wire_close(w);
    served_assert_alive();
}

static void
answers_and_keeps_the_connection(void **state)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    char value[64];

    (void)state;
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

static void
hands_over_bodies_and_keeps_the_connection(void **state)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    (void)state;
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

static void
hands_over_a_long_body_whole(void **state)
{
    struct wire *w = served_connect();
    struct wire_answer a;
    size_t size = 5000000;
    char *body = malloc(size + 1);

    (void)state;
    for (size_t i = 0; i < size; i++)
        body[i] = served_byte(i);
    body[size] = '\0';

    assert_true(wire_request(w, "POST", "/echo", NULL, body, &a));

    assert_int_equal(a.body_size, size);
    assert_memory_equal(a.body, body, size);
    free(body);
    wire_close(w);
}

static void
knows_the_methods(void **state)
{
    static const char *const answered[] = {"GET", "HEAD", "DELETE", "OPTIONS"};
    struct wire *w = served_connect();
    struct wire_answer a;
    char value[64];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_true(wire_request(w, answered[i], "/small", NULL, NULL, &a));
        assert_int_equal(a.status, 200);
        assert_true(wire_header(&a, "Content-Length", value, sizeof(value)));
        assert_string_equal(value, "5");
    }
    wire_close(w);
}

static void
leaves_methods_nobody_knows_to_the_handler(void **state)
{
    struct wire_answer a;
    char value[64];
    struct wire *w = served_connect();

    (void)state;
    assert_true(wire_request(w, "PATCH", "/small", NULL, "body", &a));
    assert_int_equal(a.status, 405);
    assert_true(wire_header(&a, "Allow", value, sizeof(value)));
    assert_string_equal(value, "GET, POST");
    wire_close(w);
    assert_refused("PATCH /small HTTP/1.1\r\n" HEAD_END, 405);
    assert_refused("TRACE /small HTTP/1.1\r\n" HEAD_END, 501);
    assert_refused("BREW /small HTTP/1.1\r\n" HEAD_END, 501);
    assert_refused("CONNECT a:80 HTTP/1.1\r\n" HEAD_END, 501);
    assert_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 501);
    assert_refused("\x16\x03\x01\x02\x01 a TLS client", 501);
}

static void
tells_what_was_asked(void **state)
{
    struct wire *w = sent("GET /head/../head?a=x%20y%26z&b=%3D+&c HTTP/1.1\r\n"
                          "Origin: http://o\r\nContent-Type:  text/xml \r\n"
                          "Idempotency-Key: k 1\r\nLast-Event-ID: e-2\r\n"
                          "If-None-Match: \"t\"\r\n"
                          "Authorization: Bearer q\r\n"
                          "X-Forwarded-For: 1.2.3.4\r\n"
                          "Accept-Encoding: gzip, br\r\n"
                          "Accept: text/html\r\nAccept: */*\r\n" HEAD_END);
    struct wire_answer a;

    (void)state;
    assert_true(wire_answer(w, &a, false));

    assert_string_equal(a.body, "path=/head\n"
                                "query=a=x%20y%26z&b==%20&c\n"
                                "a=x y&z\n"
                                "host=a\n"
                                "origin=http://o\n"
                                "content-type=text/xml\n"
                                "accept=text/html,  */*\n"
                                "idempotency-key=k 1\n"
                                "last-event-id=e-2\n"
                                "if-none-match=\"t\"\n"
                                "authorization=Bearer q\n"
                                "x-forwarded-for=1.2.3.4\n"
                                "accept-encoding=gzip, br\n");
    wire_close(w);
}

/* The whole of it arrives the same, wherever the network cuts it. */
static void
takes_requests_cut_anywhere(void **state)
{
    static const char text[] = POST "GET /small?a=%41 HTTP/1.1\r\n" HEAD_END;
    struct wire_answer a;

    (void)state;
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

static void
answers_pipelined_requests_without_bodies(void **state)
{
    struct wire *w = sent(GET "GET /later HTTP/1.1\r\n" HEAD_END GET GET);
    struct wire_answer a;

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_true(wire_answer(w, &a, false));
        assert_string_equal(a.body, i == 1 ? "later 0" : "hello");
    }
    wire_close(w);

    w = sent(POST GET);
    assert_true(wire_answer(w, &a, false));
    assert_string_equal(a.body, "abc");
    assert_true(wire_answer(w, &a, false));
    assert_string_equal(a.body, "hello");
    wire_close(w);
}

/* The library takes the head of such a request for its body, and would loop. */
static void
refuses_a_pipelined_request_with_a_body(void **state)
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

    (void)state;
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
    assert_true(served_wait(&served.n_open, 0));
}

static void
survives_a_pipelined_refusal(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct wire *w = sent(texts[i]);

        assert_answer(w, 200);
        assert_true(wire_is_ended(w));
        wire_close(w);
        served_assert_alive();
    }
}

/* RFC 9112 section 6.3. What follows would be the library's idea of a body: so
 * the connection ends with the answer. */
static void
takes_no_length_for_no_body(void **state)
{
    static const char *const texts[] = {
        "POST /echo HTTP/1.1\r\n" HEAD_END,
        "PUT /echo HTTP/1.1\r\n" HEAD_END,
        "POST /echo HTTP/1.1\r\n" HEAD_END "abc",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct wire *w = sent(texts[i]);

        assert_answer(w, 200);
        assert_true(wire_is_ended(w));
        wire_close(w);
        served_assert_alive();
    }
}

static void
refuses_a_body_it_cannot_trust(void **state)
{
    (void)state;
    assert_refused(
        "POST /echo HTTP/1.1\r\nContent-Length: -1\r\n" HEAD_END "abc", 400);
    assert_refused(
        "POST /echo HTTP/1.1\r\nContent-Length: +1\r\n" HEAD_END "abc", 400);
    assert_refused(
        "POST /echo HTTP/1.1\r\nContent-Length: 3x\r\n" HEAD_END "abc", 400);
    assert_refused(
        "POST /echo HTTP/1.1\r\nContent-Length: x\r\n" HEAD_END "abc", 400);
    assert_refused("POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999"
                   "\r\n" HEAD_END "abc",
                   400);
    assert_refused("POST /echo HTTP/1.1\r\nContent-Length: 3\r\n"
                   "Content-Length: 5\r\n" HEAD_END "abcde",
                   400);
    assert_refused(
        "POST /echo HTTP/1.1\r\nContent-Length : 3\r\n" HEAD_END "abc", 400);
    assert_refused(
        "GET /small HTTP/1.1\r\nContent-Length : 3\r\n" HEAD_END "abc", 400);
    assert_refused(
        "GET /small HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc", 400);
    assert_refused(
        "DELETE /small HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END "abc", 400);
    assert_refused(
        "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD_END
        "3\r\nabc\r\n0\r\n\r\n",
        501);
    assert_refused("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
                   "Content-Length: 3\r\n" HEAD_END "abc",
                   501);
    assert_refused(
        "GET /small HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD_END
        "0\r\n\r\n",
        501);
    assert_int_equal(atomic_load(&served.n_open), 0);
}

static void
takes_a_length_of_zero_where_there_is_no_body(void **state)
{
    struct wire *w =
        sent("GET /small HTTP/1.1\r\nContent-Length: 0\r\n" HEAD_END GET);

    (void)state;
    assert_answer(w, 200);
    assert_answer(w, 200);
    wire_close(w);
}

/* What the library refuses itself, in its own words. */
static void
assert_forbidden(const char *text)
{
    struct wire *w = sent(text);
    char answer[13] = "";

    assert_true(wire_read(w, answer, 12));
    assert_string_equal(answer, "HTTP/1.0 403");
    assert_true(wire_is_ended(w));
    wire_close(w);
    served_assert_alive();
}

static void
refuses_upgrades_to_anything_else(void **state)
{
    (void)state;
    assert_refused(
        "GET /small HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings"
        "\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n" HEAD_END,
        400);
    assert_refused("POST /echo HTTP/1.1\r\nConnection: Upgrade\r\n"
                   "Upgrade: websocket\r\nContent-Length: 3\r\n" HEAD_END "abc",
                   400);
    assert_forbidden("GET /small HTTP/1.1\r\nConnection: Upgrade\r\n"
                     "Upgrade: foo\r\n" HEAD_END);
}

static void
refuses_malformed_targets(void **state)
{
    (void)state;
    assert_forbidden("GET /sm%zzall HTTP/1.1\r\n" HEAD_END);
    assert_forbidden("GET /small?a=%4 HTTP/1.1\r\n" HEAD_END);
    assert_forbidden("GET http://a/small HTTP/1.1\r\n" HEAD_END);
}

static void
refuses_headers_that_are_too_long(void **state)
{
    struct wire *w = NULL;
    char *text = malloc(200000);

    (void)state;
    memset(text, 'a', 200000);
    text[9000] = '\0';
    w = served_connect();
    wire_send_format(w, "GET /small HTTP/1.1\r\nCookie: %s\r\n" HEAD_END, text);
    assert_answer(w, 431);
    assert_true(wire_is_ended(w));
    wire_close(w);
    w = served_connect();
    wire_send_format(w, "GET /%s HTTP/1.1\r\n" HEAD_END, text);
    assert_answer(w, 431);
    assert_true(wire_is_ended(w));
    wire_close(w);

    text[9000] = 'a';
    text[199999] = '\0';
    w = served_connect();
    wire_send_format(w, "GET /small HTTP/1.1\r\nX-Long: %s\r\n" HEAD_END, text);
    assert_true(wire_is_ended(w));
    wire_close(w);

    text[7000] = '\0';
    w = served_connect();
    wire_send_format(w, "GET /small HTTP/1.1\r\nCookie: %s\r\n" HEAD_END, text);
    assert_answer(w, 200);
    wire_close(w);
    free(text);
    served_assert_alive();
}

static void
says_100_continue_when_it_is_waited_for(void **state)
{
    struct wire *w = sent("POST /echo HTTP/1.1\r\nExpect: 100-continue\r\n"
                          "Content-Length: 3\r\n" HEAD_END);
    struct wire_answer a;

    (void)state;
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 100);
    assert_true(wire_send_text(w, "abc"));
    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "abc");
    wire_close(w);

    assert_refused("POST /refuse HTTP/1.1\r\nExpect: 100-continue\r\n"
                   "Content-Length: 3\r\n" HEAD_END,
                   413);
}

static void
follows_the_rules_of_http_1_0(void **state)
{
    struct wire *w = sent("GET /small HTTP/1.0\r\n\r\n");
    struct wire_answer a;
    char value[64];

    (void)state;
    assert_answer(w, 200);
    assert_true(wire_is_ended(w));
    wire_close(w);

    w = sent("GET /small HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_true(wire_answer(w, &a, false));
    assert_true(wire_header(&a, "Connection", value, sizeof(value)));
    assert_string_equal(value, "keep-alive");
    assert_true(wire_send_text(w, "GET /small HTTP/1.0\r\n\r\n"));
    assert_answer(w, 200);
    assert_true(wire_is_ended(w));
    wire_close(w);

    assert_refused("GET /small HTTP/1.1\r\nConnection: close\r\n" HEAD_END,
                   200);
    assert_refused("GET /small HTTP/1.1\r\nConnection: TE, Close\r\n" HEAD_END,
                   200);
}

/* The client, still sending, finds the answer. */
static void
lets_the_client_read_a_refusal(void **state)
{
    static const char *const paths[] = {"/refuse", "/refuse-data"};
    char bytes[10000];

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    for (size_t i = 0; i < 2; i++) {
        struct wire *w = served_connect();

        wire_send_format(
            w, "POST %s HTTP/1.1\r\nContent-Length: 500000\r\n" HEAD_END,
            paths[i]);
        for (int n = 0; n < 50; n++)
            assert_true(wire_send(w, bytes, sizeof(bytes)));
        assert_answer(w, 413);
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
    served_open_with(1, 300000);
    return 0;
}

static void
cuts_a_body_that_drips(void **state)
{
    struct wire *w =
        sent("POST /echo HTTP/1.1\r\nContent-Length: 1000\r\n" HEAD_END);
    struct wire_answer a;
    int64_t start_us = clock_steady_us();

    (void)state;
    while (wire_send_text(w, "x") && clock_steady_us() - start_us < 8000000) {
        struct pollfd p = {.fd = wire_fd(w), .events = POLLIN};

        if (poll(&p, 1, 50) > 0)
            break;
    }

    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 408);
    assert_true(wire_is_ended(w));
    assert_true(clock_steady_us() - start_us < 8000000);
    assert_int_equal(atomic_load(&served.n_gone), 1);
    assert_int_equal(atomic_load(&served.n_open), 0);
    wire_close(w);
}

static void
cuts_a_head_that_drips(void **state)
{
    struct wire *silent = served_connect();
    struct wire *half = sent("GET /small HTTP/1.1\r\nHost");

    (void)state;
    assert_true(wire_is_ended(silent));
    assert_true(wire_is_ended(half));
    wire_close(silent);
    wire_close(half);
    served_assert_alive();
}

static void
tells_the_handler_that_the_client_has_gone(void **state)
{
    struct wire *body =
        sent("POST /echo HTTP/1.1\r\nContent-Length: 9\r\n" HEAD_END "abc");
    struct wire *never = sent("GET /never HTTP/1.1\r\n" HEAD_END);

    (void)state;
    assert_true(served_wait(&served.n_open, 2));
    wire_close(body);
    wire_abort(never);

    assert_true(served_wait(&served.n_gone, 2));
    assert_int_equal(atomic_load(&served.n_open), 0);
}

static void
finds_no_request_by_the_ticket_of_one_that_has_gone(void **state)
{
    enum { N = 20 };
    struct wire *w[N];
    struct wire_answer a;

    (void)state;
    served_pause(true);
    for (int i = 0; i < N; i++)
        w[i] = sent("POST /later HTTP/1.1\r\nContent-Length: 3\r\n" HEAD_END
                    "abc");
    assert_true(served_wait(&served.n_open, N));
    for (int i = 0; i < N; i++)
        wire_close(w[i]);
    assert_true(served_wait(&served.n_gone, N));
    for (int i = 0; i < N; i++) /* in the same slots */
        w[i] = sent("GET /later HTTP/1.1\r\n" HEAD_END);
    assert_true(served_wait(&served.n_open, N));
    served_pause(false);

    for (int i = 0; i < N; i++) {
        assert_true(wire_answer(w[i], &a, false));
        assert_string_equal(a.body, "later 0");
        wire_close(w[i]);
    }
    assert_int_equal(atomic_load(&served.n_open), 0);
}

#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, served_open, served_close)
#define IMPATIENT_TEST(name) \
    cmocka_unit_test_setup_teardown(name, open_impatient, served_close)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers_and_keeps_the_connection),
        TEST(hands_over_bodies_and_keeps_the_connection),
        TEST(hands_over_a_long_body_whole),
        TEST(knows_the_methods),
        TEST(leaves_methods_nobody_knows_to_the_handler),
        TEST(tells_what_was_asked),
        TEST(takes_requests_cut_anywhere),
        TEST(answers_pipelined_requests_without_bodies),
        TEST(refuses_a_pipelined_request_with_a_body),
        TEST(survives_a_pipelined_refusal),
        TEST(takes_no_length_for_no_body),
        TEST(refuses_a_body_it_cannot_trust),
        TEST(takes_a_length_of_zero_where_there_is_no_body),
        TEST(refuses_upgrades_to_anything_else),
        TEST(refuses_malformed_targets),
        TEST(refuses_headers_that_are_too_long),
        TEST(says_100_continue_when_it_is_waited_for),
        TEST(follows_the_rules_of_http_1_0),
        TEST(lets_the_client_read_a_refusal),
        IMPATIENT_TEST(cuts_a_body_that_drips),
        IMPATIENT_TEST(cuts_a_head_that_drips),
        TEST(tells_the_handler_that_the_client_has_gone),
        TEST(finds_no_request_by_the_ticket_of_one_that_has_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
