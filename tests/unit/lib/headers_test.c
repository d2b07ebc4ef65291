/*
 * headers_test.c - header lines that only one server gets.
 */
#include <stdio.h>
#include <string.h>

#include "client/lib/servers.h"
#include "tests/test.h"

static struct servers servers;

static int
clear_stage(void **state)
{
    (void)state;
    servers_fini(&servers);
    return 0;
}

static void
assert_lines(const char *url, const char *expected)
{
    const struct server *server = servers_find(&servers, url);
    char all[1000] = "";

    for (size_t i = 0; server && i < server->n_lines; i++)
        strcat(strcat(all, server->lines[i]), ";");
    assert_string_equal(all, expected);
}

FIXTURE(NULL, clear_stage);

TEST(only_the_server_they_are_for_gets_them)
{
    assert_int_equal(
        servers_add_header(&servers, "https://a.example/sets/x", "A: 1", NULL),
        0);
    assert_int_equal(
        servers_add_header(&servers, "https://a.example:443/", "B: 2", NULL),
        0);
    assert_int_equal(
        servers_add_header(&servers, "http://a.example:8080", "C: 3", NULL), 0);

    assert_lines("https://A.example/elsewhere?q#f", "A: 1;B: 2;");
    assert_lines("http://a.example:8080/", "C: 3;");
    assert_lines("http://a.example/", "");
    assert_lines("http://a.example:443/", "");
    assert_lines("https://a.example.org/", "");
    assert_lines("https://a.example@b.example/", "");
    assert_lines("", "");
}

TEST(refuses_what_is_no_header_or_no_server)
{
    static const char *const bad[] = {
        "", "A", ": 1", "A B: 1", "A: 1\r\nB: 2", "A: 1\n"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(
            servers_add_header(&servers, "http://a.example/", bad[i], NULL),
            STATUS_INVALID);
    assert_int_equal(servers_add_header(&servers, "a.example", "A: 1", NULL),
                     STATUS_INVALID);
    assert_int_equal(
        servers_add_header(&servers, "ftp://a.example/", "A: 1", NULL),
        STATUS_INVALID);

    assert_lines("http://a.example/", "");
}

/* The library owns the headers that frame the request or make the handshake:
 * with another value it would not understand the answer. The error names the
 * field. */
TEST(refuses_fields_that_the_library_writes)
{
    static const char *const own[] = {
        "Sec-WebSocket-Extensions",
        "sec-websocket-protocol",
        "Sec-WebSocket-Key",
        "Connection",
        "upgrade",
        "Host",
        "Content-Length",
        "transfer-encoding",
        "Keep-Alive",
        "TE",
        "Trailer",
    };
    static const char *const others[] = {"Authorization: a", "Hosts: a",
                                         "Sec-WebSocket: a", "X-Host: a"};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        struct problem why = {""};
        char line[100], expected[100];

        snprintf(line, sizeof(line), "%s: x", own[i]);
        snprintf(expected, sizeof(expected),
                 "the library itself writes the field \"%s\"", own[i]);
        assert_int_equal(
            servers_add_header(&servers, "http://a.example/", line, &why),
            STATUS_INVALID);
        assert_string_equal(why.text, expected);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(
            servers_add_header(&servers, "http://a.example/", others[i], NULL),
            STATUS_OK);
}
