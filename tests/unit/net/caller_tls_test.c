/* Calls over TLS: who is believed. */
#include "broker/net/caller.h"
#include "broker/net/request.h"
#include "broker/net/response.h"
#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/net/called.h"

static void
answer_hello(struct request *rq, void *user)
{
    struct response r;

    (void)user;
    response_init(&r, 200, "text/plain");
    r.text = SLICE("hello");
    request_answer(rq, &r);
}

static struct server *
open_tls_server(const struct certificate *c)
{
    struct server_options options = {.host = "127.0.0.1",
                                     .threads = 1,
                                     .tls_cert = c->cert,
                                     .tls_key = c->key,
                                     .request_timeout_us = 60000000,
                                     .on_request = answer_hello};
    struct problem why = {"", 0, 0};
    struct server *server = NULL;

    if (server_open(&server, &options, &why))
        fail_msg("%s", why.text);
    return server;
}

static void
https(struct trial *t, const char *host, unsigned port)
{
    trial_init(t, "https://%s:%u/", host, port);
    trial_run(t);
}

static int
setup(void **state)
{
    called_look_up();
    return called_setup(state);
}

FIXTURE(setup, called_teardown);

/* W-162: HTTPS is what it says. */
TEST(only_those_are_believed_whom_an_authority_vouches_for)
{
    struct certificate c;
    struct tempdir dir;
    struct server *server = NULL;
    struct trial t;
    unsigned port;

    tempdir_open(&dir);
    certificate_make(&c, dir.path, NULL);
    server = open_tls_server(&c);
    port = server_port(server);

    called_open(4, 4, LOOPBACK);
    https(&t, "127.0.0.1", port);
    assert_int_equal(t.call.failure, CALL_TLS);
    assert_non_null(strstr(t.call.why, "certificate"));
    trial_init(&t, "http://127.0.0.1:%u/", port);
    trial_run(&t);
    assert_true(t.call.status != 200);
    trial_init(&t, "https://127.0.0.1:%u/", odd.port); /* speaks no TLS */
    t.call.timeout_us = 150000;
    trial_run(&t);
    assert_true(t.call.failure == CALL_TLS || t.call.failure == CALL_TIMEOUT);
    called_close();

    setenv("SSL_CERT_FILE", c.ca, 1);
    called_open(4, 4, LOOPBACK);
    https(&t, "127.0.0.1", port);
    assert_int_equal(t.call.failure, CALL_ANSWERED);
    assert_string_equal(t.answer, "hello");
    https(&t, "localhost", port);
    assert_int_equal(t.call.failure, CALL_ANSWERED);
    https(&t, "127.0.0.2", port); /* nobody listens */
    assert_int_equal(t.call.failure, CALL_UNCONNECTED);
    called_close();

    setenv("SSL_CERT_FILE", "/no/such/file", 1); /* said on standard error */
    called_open(4, 4, LOOPBACK);
    https(&t, "127.0.0.1", port);
    assert_int_equal(t.call.failure, CALL_TLS);
    called_close();
    unsetenv("SSL_CERT_FILE");

    server_close(server, 0);
    tempdir_close(&dir);
}

TEST(a_certificate_is_one_of_its_host)
{
    struct certificate_wish other = {.names = "DNS:other.example"};
    struct certificate c;
    struct tempdir dir;
    struct server *server = NULL;
    struct trial t;

    tempdir_open(&dir);
    certificate_make(&c, dir.path, &other);
    server = open_tls_server(&c);
    setenv("SSL_CERT_FILE", c.ca, 1);
    called_open(4, 4, LOOPBACK);

    https(&t, "127.0.0.1", server_port(server));
    assert_int_equal(t.call.failure, CALL_TLS);

    unsetenv("SSL_CERT_FILE");
    called_close();
    server_close(server, 0);
    tempdir_close(&dir);
}
