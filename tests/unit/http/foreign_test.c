/*
 * foreign_test.c - requests that a page in a browser may have sent.
 */
#include "broker/http/origins.h"
#include "broker/net/server.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"

/* 404: the broker let the request in, and has nothing at that address. `host`
 * NULL: an HTTP/1.0 request without one. */
static unsigned
ask(unsigned port, const char *host, const char *origin)
{
    struct wire *w = wire_connect("127.0.0.1", port);
    struct wire_answer a;

    assert_non_null(w);
    assert_true(wire_send_format(w, "GET /nothing HTTP/1.%d\r\n%s%s%s%s%s\r\n",
                                 host != NULL, host ? "Host: " : "",
                                 host ? host : "", host ? "\r\n" : "", origin,
                                 origin[0] ? "\r\n" : ""));
    assert_true(wire_answer(w, &a, false));
    wire_close(w);
    return a.status;
}

/* A broker with the public URL http://example.org. */
static void
assert_lets_in(void **state, bool is_open_to_all)
{
    /* A forwarder to a broker that is open to its machine has another port. */
    const unsigned elsewhere = is_open_to_all ? 404 : 403;

    const struct {
        const char *host, *origin;
        unsigned status;
    } rows[] = {
        {"127.0.0.1", "", 404},
        {"localhost:8080", "", elsewhere},
        {"EXAMPLE.org", "", 404},
        {"evil.example", "", 403},
        {NULL, "", 403},
        {"localhost.evil.example", "", 403},
        {"127.0.0.1:80", "Origin: http://127.0.0.1:80", 404},
        {"127.0.0.1", "Origin: http://example.org", 404},
        {"127.0.0.1", "Origin: http://EXAMPLE.org:80", 404},
        {"127.0.0.1", "Origin: https://example.org", 403},
        {"127.0.0.1:80", "Origin: https://127.0.0.1:80", 403},
        {"example.org:81", "Origin: http://example.org:81", elsewhere},
        {"evil.example", "Origin: http://evil.example", 403},
        {"127.0.0.1", "Origin: http://evil.example", 403},
        {"127.0.0.1:80", "Origin: http://127.0.0.1:81", 403},
        {"127.0.0.1", "Origin: null", 403},
    };
    struct http http = {.n_hosts = 0};
    struct server_options options = {
        .host = "127.0.0.1",
        .threads = 1,
        .request_timeout_us = 30000000,
        .on_request = http_on_request,
        .user = &http,
    };
    struct server *server = NULL;
    struct sets sets;

    sets_configure(&sets, tempdir_path(state));
    sets.config.insecure_open = is_open_to_all;
    sets_open(&sets);
    assert_int_equal(tokens_open(&http.tokens, tempdir_path(state), NULL),
                     STATUS_OK);
    http.registry = sets.registry;
    origins_init(&http, "http://127.0.0.1");
    atomic_store(&http.is_ready, true);
    assert_int_equal(server_open(&server, &options, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (ask(server_port(server), rows[i].host, rows[i].origin) !=
            rows[i].status)
            fail_msg("row %zu: Host: %s, %s", i,
                     rows[i].host ? rows[i].host : "none", rows[i].origin);
    server_close(server, 1000000);
    tokens_close(http.tokens);
    sets_close(&sets);
}

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(only_hosts_and_origins_of_its_own_are_let_in)
{
    assert_lets_in(state, false);
}

/* --insecure-open */
TEST(a_broker_for_all_has_the_same_names)
{
    assert_lets_in(state, true);
}
