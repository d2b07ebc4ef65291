/* Calls over TLS: which certificates the caller trusts, and what else is
 * different there. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "broker/base/authorities.h"
#include "broker/calls/caller.h"
#include "tests/clock.h"
#include "tests/support/tls_front.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

static struct called_tls server;

/* Calls the server by one of its names; `ca` NULL: the caller trusts nobody. */
static void
assert_call(const char *ca, const char *host, enum call_failure failure)
{
    struct trial t;

    if (ca)
        setenv("SSL_CERT_FILE", ca, 1);
    called_open(4, 4, LOOPBACK);
    trial_init(&t, "https://%s:%u/", host, server.port);
    trial_run(&t);
    called_close();
    unsetenv("SSL_CERT_FILE");
    assert_outcome(&t, failure, failure == CALL_TLS ? "certificate" : "");
    assert_string_equal(t.answer, failure ? "" : "hello");
}

static int
setup(void **state)
{
    called_setup(state);
    server.text = SLICE("hello");
    called_tls_open(&server, *state);
    return 0;
}

static int
teardown(void **state)
{
    called_teardown(state);
    called_tls_close(&server);
    return 0;
}

FIXTURE(setup, teardown);

/* W-162: HTTPS is what it says. */
TEST(only_those_are_believed_whom_an_authority_vouches_for)
{
    const char *ca = server.certificate.ca;

    const struct {
        const char *ca, *host;
        enum call_failure failure;
    } rows[] = {
        {NULL, "127.0.0.1", CALL_TLS},
        {ca, "127.0.0.1", CALL_ANSWERED},
        {ca, "localhost", CALL_ANSWERED},
        {ca, "127.0.0.2", CALL_UNCONNECTED},      /* nobody listens */
        {"/no/such/file", "127.0.0.1", CALL_TLS}, /* said on standard error */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_call(rows[i].ca, rows[i].host, rows[i].failure);
}

TEST(tls_is_not_spoken_to_one_side_only)
{
    struct trial t;

    called_open(4, 4, LOOPBACK);
    trial_init(&t, "http://127.0.0.1:%u/", server.port);
    trial_run(&t);
    assert_true(t.call.status != 200);
    trial_init(&t, "https://127.0.0.1:%u/", odd.port); /* speaks no TLS */
    t.call.timeout_us = 150000;
    clock_run_us(1, 150000);
    trial_run(&t);
    clock_run_us(0, 0);
    assert_true(t.call.failure == CALL_TLS || t.call.failure == CALL_TIMEOUT);
}

static struct certificate_wish other = {.names = "DNS:other.example"};

TEST(a_certificate_is_one_of_its_host, setup, teardown, &other)
{
    assert_call(server.certificate.ca, "127.0.0.1", CALL_TLS);
}

static struct certificate_wish expired = {.is_expired = true};

TEST(a_certificate_has_not_expired, setup, teardown, &expired)
{
    assert_call(server.certificate.ca, "127.0.0.1", CALL_TLS);
}

/* TLS before the odd server */

static struct tls_front *front;

static int
setup_front(void **state)
{
    setup(state);
    front =
        tls_front_new(&server.certificate, "127.0.0.1", "127.0.0.1", odd.port);
    setenv("SSL_CERT_FILE", server.certificate.ca, 1);
    called_open(4, 4, LOOPBACK);
    return 0;
}

static int
teardown_front(void **state)
{
    called_close();
    unsetenv("SSL_CERT_FILE");
    tls_front_free(front);
    return teardown(state);
}

static void
get(struct trial *t, const char *path)
{
    trial_init(t, "https://127.0.0.1:%u%s", tls_front_port(front), path);
    trial_run(t);
}

/* An end without close_notify is none: /closed has a whole answer otherwise. */
TEST(answers_are_the_same_by_tls, setup_front, teardown_front)
{
    static const char *const paths[] = {
        "/ok",         "/empty",           "/chunked",       "/facts",
        "/gzipped",    "/status/404",      "/close",         "/surplus",
        "/wide",       "/long?3999",       "/endless-body",  "/bad-chunk",
        "/bad-length", "/endless-headers", "/interim-alone", "/garbage"};
    static const char *const cut[] = {"/closed", "/nothing", "/short",
                                      "/short-head", "/reset-in-body"};
    struct trial plain, t;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        trial_get(&plain, paths[i]);
        get(&t, paths[i]);
        assert_int_equal(t.call.failure, plain.call.failure);
        assert_int_equal(t.call.status, plain.call.status);
        assert_int_equal(t.call.is_cut, plain.call.is_cut);
        assert_string_equal(t.answer, plain.answer);
        assert_string_equal(t.links, plain.links);
    }
    for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
        get(&t, cut[i]);
        assert_outcome(&t, CALL_BROKEN, "");
    }
}

TEST(a_connection_by_tls_is_kept, setup_front, teardown_front)
{
    static char body[1100000];
    struct trial t;

    memset(body, 'b', sizeof(body));
    for (unsigned i = 0; i < 4; i++) {
        get(&t, i % 2 ? "/ok" : "/chunked");
        assert_string_equal(t.answer, "hello");
    }
    for (size_t size = 0; size <= sizeof(body); size += sizeof(body) / 4) {
        trial_init(&t, "https://127.0.0.1:%u/ok", tls_front_port(front));
        t.call.method = CALL_POST;
        t.call.body = (struct slice){body, size};
        trial_run(&t);
        assert_string_equal(t.answer, "hello");
    }
    assert_int_equal(odd_count(&odd, &odd.n_connections), 1);
}

/* A ticket is no such answer: see above. */
TEST(an_answer_by_tls_that_nobody_asked_for_closes_it, setup_front,
     teardown_front)
{
    struct trial t;

    get(&t, "/forged");
    assert_string_equal(t.answer, "hello");
    odd_pass(&odd, 1);
    odd_await(&odd, &odd.n_left, 1);
    get(&t, "/ok");
    assert_string_equal(t.answer, "hello");
    assert_int_equal(odd_count(&odd, &odd.n_connections), 2);
}

/* Not with other authorities, which may not trust the certificate. */
TEST(a_session_is_resumed, setup_front, teardown_front)
{
    struct trial t;

    for (unsigned i = 0; i < 4; i++) {
        if (i == 2)
            authorities_replace(NULL);
        get(&t, "/close");
        assert_string_equal(t.answer, "hello");
        assert_int_equal(tls_front_resumed(front), (i + 1) / 2);
    }
}

/* Not an hour after the last session, which each resumption replaces. */
TEST(a_session_ends_an_hour_after_the_certificate_was_verified, setup_front,
     teardown_front)
{
    static const unsigned resumed[] = {0, 1, 1, 2};
    struct trial t;

    for (size_t i = 0; i < sizeof(resumed) / sizeof(resumed[0]); i++) {
        get(&t, "/close");
        assert_string_equal(t.answer, "hello");
        assert_int_equal(tls_front_resumed(front), resumed[i]);
        clock_pass_us((int64_t)40 * 60 * 1000000);
    }
}

TEST(nothing_is_renegotiated, setup_front, teardown_front)
{
    struct trial t;

    tls_front_renegotiate(front);
    get(&t, "/ok");
    assert_true(t.call.failure == CALL_BROKEN ||
                t.call.failure == CALL_ANSWERED);
    if (t.call.failure)
        assert_non_null(strstr(t.call.why, "reset"));
}

/* Messages of TLS that are no bytes of the answer come as fast as they can. */
TEST(a_flood_of_messages_holds_up_nobody, setup_front, teardown_front)
{
    struct trial flooded, quick;

    tls_front_flood(front);
    trial_init(&flooded, "https://127.0.0.1:%u/ok", tls_front_port(front));
    trial_init(&quick, "http://127.0.0.1:%u/ok", odd.port);
    trial_start(&flooded);
    for (unsigned n = 0; !tls_front_is_flooding(front); n++)
        test_yield(n);
    trial_run(&quick);
    trial_wait(&flooded);
    assert_string_equal(quick.answer, "hello");
    assert_string_equal(flooded.answer, "hello");
    assert_true(quick.place < flooded.place);
}

/* W-057: the handshake is part of the time. */
TEST(a_server_that_is_silent_in_the_handshake_is_given_up)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* accepts nobody */
    struct trial t;

    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    called_open(4, 4, LOOPBACK);
    trial_init(&t, "https://127.0.0.1:%u/", ntohs(at.sin_port));
    t.call.timeout_us = 150000;
    clock_run_us(1, 150000);
    trial_run(&t);
    clock_run_us(0, 0);
    assert_outcome(&t, CALL_TIMEOUT, "no connection within 150 ms");
    close(fd);
}
