#include <stdio.h>
#include <string.h>

#include "broker/http/origins.h"
#include "broker/store/store.h"
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
                                        .public_url = public_url,
                                        .open_engine = store_open};
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

/* Design section 4: a broker answers to the names of its listener, of loopback
 * and of its public URL. */
TEST(answers_to_its_own_names, tempdir_setup, tempdir_teardown)
{
    static const struct {
        const char *public_url, *listener;
        bool is_open_to_all;
        const char *hosts[6];
    } rows[] = {
        {"http://broker.localhost:9000/base",
         "http://127.0.0.5:8787",
         false,
         {"127.0.0.5", "127.0.0.1", "localhost", "[::1]", "broker.localhost"}},
        {"http://localhost", "http://127.0.0.1:8787", false, {"localhost"}},
        {"https://localhost:443",
         "http://127.0.0.1:8787",
         false,
         {"localhost"}},
        {"http://localhost/a:b/c",
         "http://127.0.0.1:8787",
         false,
         {"localhost"}},
        {"http://[::1]:80/a/b", "http://127.0.0.1:8787", false, {"[::1]"}},
        {"http://[::1]", "http://127.0.0.1:8787", false, {"[::1]"}},
        {"http://[::1]:8787", "http://[fe80::1]:8787", false, {"[fe80::1]"}},
        {"http://example.org", "http://0.0.0.0:8787", true, {NULL}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http http = {.n_hosts = 0};
        struct sets s;

        open_with(&s, state, rows[i].public_url);
        s.config.insecure_open = rows[i].is_open_to_all;
        http.registry = s.registry;
        origins_init(&http, rows[i].listener);
        for (size_t k = 0; rows[i].hosts[k]; k++)
            if (!answers_to(&http, rows[i].hosts[k]))
                fail_msg("%s at %s: %s", rows[i].public_url, rows[i].listener,
                         rows[i].hosts[k]);
        if (i == 0)
            assert_int_equal(http.n_hosts, 5);
        assert_int_equal(http.is_near, !rows[i].is_open_to_all);
        sets_close(&s);
    }
}

/* The longest names of a listener and in a public URL are kept whole. */
TEST(has_room_for_the_longest_names, tempdir_setup, tempdir_teardown)
{
    char host[256], url[512];
    struct http http = {.n_hosts = 0};
    struct sets s;

    memset(host, 'h', sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    snprintf(url, sizeof(url), "http://%s:65535/path", host);
    open_with(&s, state, url);
    http.registry = s.registry;
    origins_init(&http, url);
    assert_string_equal(http.hosts[3], host);
    assert_string_equal(http.hosts[http.n_hosts - 1], host);
    sets_close(&s);
}

/* Before all parts of the broker are open, it answers that it runs and is not
 * ready; it looks at no other request. */
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
