/* Calls over TLS: which certificates the caller trusts. */
#include "broker/calls/caller.h"
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
    called_look_up();
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
    trial_run(&t);
    assert_true(t.call.failure == CALL_TLS || t.call.failure == CALL_TIMEOUT);
}

static struct certificate_wish other = {.names = "DNS:other.example"};

TEST(a_certificate_is_one_of_its_host, setup, teardown, &other)
{
    assert_call(server.certificate.ca, "127.0.0.1", CALL_TLS);
}
