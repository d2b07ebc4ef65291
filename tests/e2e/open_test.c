/*
 * open_test.c - an open broker is for its own machine: who is let in, where it
 * may listen; and what it says to wrong options.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/broker.h"
#include "tests/support/http.h"
#include "tests/support/refusal.h"
#include "tests/support/source.h"
#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"

#define ENTRY "{\"loc\":\"http://example.com/a\",\"change\":\"created\"}"

/* Who may come in */

/* "%u" is the broker's port. NULL: the header is not sent. */
struct visitor {
    const char *host, *origin;
    bool is_let_in;
};

static const struct visitor visitors[] = {
    {"127.0.0.1:%u", NULL, true},
    {"localhost:%u", NULL, true},
    {"LocalHost:%u", NULL, true},
    {"[::1]:%u", NULL, true},
    {"127.0.0.1:%u", "http://127.0.0.1:%u", true},
    {"localhost:%u", "http://localhost:%u", true},
    {"127.0.0.1", NULL, true}, /* whatever the port: it may be forwarded */
    {"localhost", NULL, true},
    {"127.0.0.1:1", NULL, true},
    {"127.0.0.1:1", "http://127.0.0.1:1", true},
    {"example.org", NULL, false},
    {"example.org:%u", NULL, false},
    {"localhost.example.org:%u", NULL, false},
    {"127.0.0.2:%u", NULL, false},
    {"[::]:%u", NULL, false},
    {"", NULL, false},
    {"127.0.0.1:%u", "null", false},
    {"127.0.0.1:%u", "http://example.org", false},
    {"127.0.0.1:%u", "http://example.org:%u", false},
    {"127.0.0.1:%u", "http://127.0.0.1", false},
    {"127.0.0.1:%u", "http://127.0.0.1:1", false},
    {"127.0.0.1:%u", "http://127.0.0.1:%u.example.org", false},
    {"127.0.0.1:%u", "http://localhost:%u", false},
    {"127.0.0.1:%u", "http://example.org@127.0.0.1:%u", false},
    {"127.0.0.1:%u", "file://", false},
    {"example.org", "http://example.org", false},
};

#define N_VISITORS (sizeof(visitors) / sizeof(visitors[0]))

static void
add_header(char *to, size_t size, const char *name, const char *value,
           unsigned port)
{
    char text[128];
    size_t n = strlen(to);

    if (!value)
        return;
    snprintf(text, sizeof(text), value, port);
    snprintf(to + n, size - n, "%s: %s\r\n", name, text);
}

/* Sends `start` with the visitor's headers; returns the status. */
static unsigned
visit(const struct broker *b, const struct visitor *v, const char *start,
      const char *rest)
{
    struct wire *w = wire_connect("127.0.0.1", b->port);
    struct wire_answer a;
    char headers[512] = "";

    assert_non_null(w);
    add_header(headers, sizeof(headers), "Host", v->host, b->port);
    add_header(headers, sizeof(headers), "Origin", v->origin, b->port);
    assert_true(wire_send_format(w, "%s\r\n%s%s", start, headers, rest));
    assert_true(wire_answer_head(w, &a));
    wire_close(w);
    return a.status;
}

/* What a page of somebody else's could do from a browser on this machine: read,
 * publish, follow. */
TEST(lets_in_nobody_from_elsewhere, broker_setup, broker_teardown)
{
    struct broker *b = broker_of(state);
    struct http h;
    char post[256];
    uint64_t n_let_in = 0;

    snprintf(post, sizeof(post),
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(ENTRY), ENTRY);
    http_open(&h, b->url);
    source_post(&h, "news", 1, 1, 0);
    for (size_t i = 0; i < N_VISITORS; i++) {
        const struct visitor *v = &visitors[i];
        unsigned status = visit(b, v, "GET /healthz HTTP/1.1", "\r\n");

        if (status != (v->is_let_in ? 200 : 403))
            fail_msg("%s, %s: %u", v->host, v->origin, status);
        assert_int_equal(
            visit(b, v, "GET /sets/news/changelist.xml HTTP/1.1", "\r\n"),
            status);
        assert_int_equal(
            visit(b, v, "POST /sets/posted/changes HTTP/1.1", post), status);
        assert_int_equal(visit(b, v, "GET /sets/news/stream HTTP/1.1",
                               "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                               "Sec-WebSocket-Version: 13\r\n\r\n"),
                         v->is_let_in ? 101
                         : v->host[0] ? 403
                                      : 400); /* no handshake without Host */
        n_let_in += v->is_let_in;
    }
    /* As many entries as were let in, none of the others. */
    assert_int_equal(source_post(&h, "posted", 1, 1, 0).last, n_let_in + 1);
    http_close(&h);
}

TEST(says_why_it_lets_nobody_in, broker_setup, broker_teardown)
{
    static const char *const host[] = {"Host: example.org", NULL};
    static const char *const origin[] = {"Origin: http://example.org", NULL};
    struct broker *b = broker_of(state);
    struct http h;

    http_open(&h, b->url);
    http_request(&h, "GET", "/healthz", host, (struct slice){NULL, 0});
    assert_refused(&h, 403, "example.org");
    assert_refused(&h, 403, "--public-url");
    http_request(&h, "GET", "/healthz", origin, (struct slice){NULL, 0});
    assert_refused(&h, 403, "example.org");
    http_close(&h);
}

/* The name that --public-url gives is the broker's, too. */
TEST(answers_to_its_public_name)
{
    static const struct visitor here = {"localhost:8000",
                                        "http://localhost:8000", true};
    struct broker b;

    broker_open(&b, "--public-url", "http://localhost:8000", NULL);
    assert_int_equal(visit(&b, &here, "GET /healthz HTTP/1.1", "\r\n"), 200);
    broker_stop(&b);
    broker_close(&b);
}

/* Its own pages may use it whatever Host the request names: behind a proxy that
 * is another than in the address of the page. */
TEST(lets_in_pages_of_its_public_url)
{
    static const struct visitor own[] = {
        {"127.0.0.1:%u", "http://localhost:1", true},
        {"localhost:%u", "http://localhost:1", true},
        {"localhost:1", "http://localhost:1", true},
        {"127.0.0.1:%u", "http://localhost:2", false},
        {"127.0.0.1:%u", "http://localhost", false},
        {"example.org", "http://localhost:1", false},
    };
    struct broker b;

    broker_open(&b, "--public-url", "http://localhost:1", NULL);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        assert_int_equal(visit(&b, &own[i], "GET /healthz HTTP/1.1", "\r\n"),
                         own[i].is_let_in ? 200 : 403);
    broker_stop(&b);
    broker_close(&b);
}

/* --insecure-open is for brokers with other names; pages of others still may
 * not use it. */
TEST(an_insecure_broker_has_any_name_but_no_foreign_pages)
{
    static const struct visitor named = {"example.org", NULL, true};
    static const struct visitor own = {"example.org", "http://example.org",
                                       true};
    static const struct visitor foreign = {"example.org", "http://example.com",
                                           false};
    struct broker b;

    broker_open(&b, "--insecure-open", NULL);
    assert_int_equal(visit(&b, &named, "GET /healthz HTTP/1.1", "\r\n"), 200);
    assert_int_equal(visit(&b, &own, "GET /healthz HTTP/1.1", "\r\n"), 200);
    assert_int_equal(visit(&b, &foreign, "GET /healthz HTTP/1.1", "\r\n"), 403);
    broker_stop(&b);
    broker_close(&b);
}

/* How it is started */

struct start {
    const char *arguments[5];
    int status;
    const char *said; /* a part of it */
};

/* Runs it in a directory where there is no data. */
static void
check_starts(void **state, const struct start *starts, size_t n)
{
    char data[300], said[4096];

    snprintf(data, sizeof(data), "%s/data", tempdir_path(state));
    for (size_t i = 0; i < n; i++) {
        const char *const *a = starts[i].arguments;
        int status = broker_run(said, sizeof(said), "--data", data, a[0], a[1],
                                a[2], a[3], a[4], NULL);

        if (status != starts[i].status || !strstr(said, starts[i].said))
            fail_msg("%s %s: %d \"%s\"", a[0], a[1] ? a[1] : "", status, said);
        if (status == 2) /* one sentence */
            assert_true(!strncmp(said, "tidingsd: ", 10) &&
                        strchr(said, '\n') == said + strlen(said) - 1);
        assert_int_equal(access(data, F_OK), -1);
    }
}

#define CHECK_STARTS(state, starts) \
    check_starts(state, starts, sizeof(starts) / sizeof((starts)[0]))

TEST(does_not_listen_to_all_without_being_told_twice, tempdir_setup,
     tempdir_teardown)
{
    static const struct start starts[] = {
        {{"--listen", "0.0.0.0:0"}, 2, "--public-url"},
        {{"--listen", "[::]:0"}, 2, "--public-url"},
        {{"--listen", "0.0.0.0:0", "--public-url", "http://127.0.0.1:1"},
         2,
         "--insecure-open"},
        {{"--listen", "192.0.2.1:0"}, 2, "--insecure-open"},
        {{"--public-url", "http://example.org"}, 2, "--insecure-open"},
        {{"--public-url", "http://127.example.org"}, 2, "--insecure-open"},
        {{"--public-url", "http://localhost.example.org"},
         2,
         "--insecure-open"},
        {{"--public-url", "http://127.0.0.1@example.org"}, 2, ""},
        {{"--listen", "0.0.0.0:0", "--insecure-open"}, 2, "--public-url"},
        {{"--listen", "0.0.0.0:0", "--check", "--insecure-open",
          "--public-url=http://example.org"},
         0,
         ""},
        {{"--public-url=http://example.org", "--insecure-open", "--check"},
         0,
         ""},
        {{"--public-url=http://localhost:80/news", "--check"}, 0, ""},
    };

    CHECK_STARTS(state, starts);
}

TEST(checks_options_without_doing_anything, tempdir_setup, tempdir_teardown)
{
    static const struct start starts[] = {
        {{"--check"}, 0, ""},
        {{"--check", "--listen", "127.0.0.1:0"}, 0, ""},
        {{"--check", "--listen", "0.0.0.0:0"}, 2, "0.0.0.0"},
        {{"--check", "--threads", "0"}, 2, "--threads"},
        {{"--version"}, 0, "tidingsd "},
        {{"--help"}, 0, "usage: tidingsd"},
    };

    CHECK_STARTS(state, starts);
}

TEST(refuses_wrong_options_with_a_sentence, tempdir_setup, tempdir_teardown)
{
    static const struct start starts[] = {
        {{"--nothing"}, 2, "--nothing"},
        {{"nothing"}, 2, "nothing"},
        {{"-d"}, 2, "-d"},
        {{"--listen"}, 2, "--listen"},
        {{"--listen", "nowhere"}, 2, "--listen"},
        {{"--listen", "127.0.0.1:99999"}, 2, "--listen"},
        {{"--threads", "0"}, 2, "--threads"},
        {{"--threads", "many"}, 2, "--threads"},
        {{"--rotate-entries", "50001"}, 2, "--rotate-entries"},
        {{"--rotate-bytes", "51M"}, 2, "--rotate-bytes"},
        {{"--rotate-age", "-1"}, 2, "--rotate-age"},
        {{"--max-body", "1X"}, 2, "--max-body"},
        {{"--heartbeat", "0"}, 2, "--heartbeat"},
        {{"--message-bytes", "17M"}, 2, "--message-bytes"},
        {{"--public-url", "ftp://127.0.0.1"}, 2, "--public-url"},
        {{"--log-level", "loud"}, 2, "--log-level"},
        {{"--threads", "2", "--threads", "3"}, 2, "twice"},
        {{"--check=yes"}, 2, "--check"},
        {{"--config", "/nonexistent"}, 2, "/nonexistent"},
        {{"--mqtt", "http://127.0.0.1"}, 2, "--mqtt"},
        {{"--mqtt", "mqtt://me:secret@127.0.0.1"}, 2, "password-file"},
    };

    CHECK_STARTS(state, starts);
}

/* One broker per directory, one per port: a failure, but not of usage. */
TEST(ends_with_1_when_it_cannot_have_what_it_needs, broker_setup,
     broker_teardown)
{
    struct broker *b = broker_of(state);
    struct tempdir other;
    char said[4096], listen[64], port[16];

    assert_int_equal(broker_run(said, sizeof(said), "--listen", "127.0.0.1:0",
                                "--data", b->data, NULL),
                     1);
    assert_non_null(strstr(said, b->data));
    tempdir_open(&other);
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", b->port);
    assert_int_equal(broker_run(said, sizeof(said), "--listen", listen,
                                "--data", other.path, NULL),
                     1);
    snprintf(port, sizeof(port), "port %u", b->port);
    assert_non_null(strstr(said, port));
    tempdir_close(&other);
}
