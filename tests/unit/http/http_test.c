#include "broker/http/http.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"

static void
open_with(struct sets *s, void **state, const char *public_url)
{
    struct registry_options options;

    sets_configure(s, tempdir_path(state));
    options = (struct registry_options){.config = &s->config,
                                        .public_url = public_url};
    assert_int_equal(registry_open(&s->registry, &options, NULL), STATUS_OK);
}

static bool
answers_to(const struct http *http, const char *host)
{
    for (unsigned i = 0; i < http->n_hosts; i++)
        if (!strcmp(http->hosts[i], host))
            return true;
    return false;
}

static void
assert_public_host(void **state, const char *public_url, const char *host)
{
    struct http http = {.n_hosts = 0};
    struct sets s;

    open_with(&s, state, public_url);
    http_init(&http, s.registry, NULL, "127.0.0.1");
    assert_true(answers_to(&http, host));
    sets_close(&s);
}

/* Design section 4: an open broker is called as the listener, as loopback, and
 * as its public URL, at whatever port; not otherwise. */
TEST(answers_to_its_own_names, tempdir_setup, tempdir_teardown)
{
    struct http http = {.n_hosts = 0};
    struct sets s;

    open_with(&s, state, "http://broker.localhost:9000/base");
    http_init(&http, s.registry, NULL, "127.0.0.5");
    assert_true(answers_to(&http, "127.0.0.5"));
    assert_true(answers_to(&http, "127.0.0.1"));
    assert_true(answers_to(&http, "localhost"));
    assert_true(answers_to(&http, "[::1]"));
    assert_true(answers_to(&http, "broker.localhost"));
    assert_int_equal(http.n_hosts, 5);
    assert_false(http.any_host);
    sets_close(&s);
}

/* The host stands between "://" and the port or the path. */
TEST(takes_the_host_out_of_the_public_url, tempdir_setup, tempdir_teardown)
{
    assert_public_host(state, "http://localhost", "localhost");
    assert_public_host(state, "https://localhost:443", "localhost");
    assert_public_host(state, "http://localhost/a:b/c", "localhost");
    assert_public_host(state, "http://[::1]:80/a/b", "[::1]");
    assert_public_host(state, "http://[::1]", "[::1]");
}

/* An IPv6 address stands in brackets. */
TEST(puts_an_ipv6_listener_in_brackets, tempdir_setup, tempdir_teardown)
{
    struct http http = {.n_hosts = 0};
    struct sets s;

    open_with(&s, state, "http://[::1]:8787");
    http_init(&http, s.registry, NULL, "fe80::1");
    assert_true(answers_to(&http, "[fe80::1]"));
    sets_close(&s);
}

/* The longest listener's name, and that of the longest public URL, are kept
 * whole. */
TEST(has_room_for_the_longest_names, tempdir_setup, tempdir_teardown)
{
    char host[256], url[512];
    struct http http = {.n_hosts = 0};
    struct sets s;

    memset(host, 'h', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    snprintf(url, sizeof(url), "http://%s:65535/path", host);
    open_with(&s, state, url);
    http_init(&http, s.registry, NULL, host);
    assert_string_equal(http.hosts[0], host);
    assert_string_equal(http.hosts[http.n_hosts - 1], host);
    sets_close(&s);
}

/* --insecure-open: any Host, only Origins are looked at. */
TEST(answers_to_any_name_when_it_is_told_to, tempdir_setup, tempdir_teardown)
{
    struct http http = {.n_hosts = 0};
    struct sets s;

    open_with(&s, state, "http://example.org");
    s.config.insecure_open = true;
    http_init(&http, s.registry, NULL, "0.0.0.0");
    assert_true(http.any_host);
    sets_close(&s);
}

/* Before all parts of the broker are there, it answers that it runs, and that
 * it is not ready; it looks at no other request. */
TEST(while_it_starts_it_says_so)
{
    static const struct {
        const char *method, *path;
        unsigned status;
        const char *body, *headers;
    } rows[] = {
        {"GET", "/healthz", 200, "ok\n"},
        {"HEAD", "/healthz", 200, ""},
        {"HEAD", "/readyz", 503, ""},
        {"GET", "/readyz", 503, "the broker is starting"},
        {"GET", "/metrics", 503, "the broker is starting"},
        {"GET", "/sets/a/stream", 503, "the broker is starting"},
        /* Any other status would end an EventSource for good. */
        {"GET", "/sets/a/stream", 200, "retry: 1000\n\n",
         "Accept: text/event-stream\r\n"},
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
    struct wire_answer a;

    assert_int_equal(server_open(&server, &options, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct wire *w = wire_connect("127.0.0.1", server_port(server));

        assert_non_null(w);
        assert_true(wire_request(w, rows[i].method, rows[i].path,
                                 rows[i].headers, NULL, &a));
        if (a.status != rows[i].status || !strstr(a.body, rows[i].body))
            fail_msg("%s %s: %u %s", rows[i].method, rows[i].path, a.status,
                     a.body);
        wire_close(w);
    }
    server_close(server, 1000000);
}
