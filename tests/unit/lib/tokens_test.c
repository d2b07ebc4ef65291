/*
 * tokens_test.c - the token that one server gets, and its renewal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/lib/servers.h"
#include "client/tidings.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/lib/fetch_stage.h"

static struct tempdir dir;

static int
set_all(void **state)
{
    tempdir_open(&dir);
    return set_stage(state);
}

static int
clear_all(void **state)
{
    tempdir_close(&dir);
    unsetenv("http_proxy");
    unsetenv("https_proxy");
    return clear_stage(state);
}

FIXTURE(set_all, clear_all);

/* Writes the token file and returns its path. */
static const char *
token_file(const char *text)
{
    static char path[500];
    FILE *file;

    snprintf(path, sizeof(path), "%s/token", dir.path);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_false(chmod(path, 0600));
    return path;
}

static const char *
sent(struct site *to, const char *path, unsigned i)
{
    return site_header(to, path, i, "Authorization");
}

static unsigned
get(const char *url)
{
    struct fetch_request request = {.url = url, .redirects = 3, .is_own = true};

    run(&request, false);
    return s.status;
}

/* Over http only to this machine, and never through a proxy. */
TEST(a_token_is_for_https_or_this_machine)
{
    static const struct {
        const char *url;
        const char *why; /* NULL: may have one */
    } rows[] = {
        {"https://example.org/sets/a"},
        {"HTTPS://example.org:8443"},
        {"http://127.0.0.1:8787/sets/a"},
        {"http://127.8.9.1/"},
        {"http://[::1]:8787/"},
        {"http://localhost:8787/sets/a"},
        {"http://example.org/sets/a", "not to http://example.org:80"},
        {"http://10.0.0.1/", "not to http://10.0.0.1:80"},
        {"http://127.0.0.1.example.org/", "not to http://127.0.0.1.example"},
        {"http://localhost.example.org/", "not to http://localhost.example"},
        {"http://mylocalhost/", "not to http://mylocalhost:80"},
        {"/a/directory", "no URL of a server"},
        {"ftp://127.0.0.1/", "no URL of a server"},
        {"", "no URL of a server"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum td_status rc =
            td_client_set_token(s.client, rows[i].url, "s3cr3t");

        assert_int_equal(rc, rows[i].why ? TD_INVALID : TD_OK);
        if (!rows[i].why)
            continue;
        assert_non_null(strstr(td_problem(s.client), rows[i].why));
        assert_null(strstr(td_problem(s.client), "s3cr3t"));
    }
    assert_int_equal(td_client_set_token(s.client, "https://a/", "no token"),
                     TD_INVALID);
    setenv("http_proxy", "http://127.0.0.1:3128", 1);
    setenv("https_proxy", "http://127.0.0.1:3128", 1);
    assert_int_equal(td_client_set_token(s.client, "http://127.0.0.1/", "abc"),
                     TD_INVALID);
    assert_non_null(strstr(td_problem(s.client), "no_proxy"));
    assert_int_equal(td_client_set_token(s.client, "https://127.0.0.1/", "abc"),
                     TD_OK); /* a tunnel */
}

TEST(a_proxy_of_later_gets_no_token_either)
{
    char proxy[100];

    assert_int_equal(
        td_client_set_token(s.client, "http://127.0.0.1:9/", "abc"), TD_OK);
    snprintf(proxy, sizeof(proxy), "%s", site_url(s.site));
    setenv("http_proxy", proxy, 1);
    site_put(s.site, "http://127.0.0.1:9/a", NULL, SLICE("a"));
    assert_int_equal(get("http://127.0.0.1:9/a"), 200);
    assert_null(sent(s.site, "http://127.0.0.1:9/a", 0));
}

TEST(the_proxy_of_a_tunnel_gets_no_token)
{
    struct fetch_request request = {.url = "https://broker.invalid:8787/a",
                                    .is_own = true};

    td_client_set_token(s.client, request.url, "s3cr3t");
    setenv("https_proxy", site_url(s.site), 1);
    run(&request, false);
    assert_int_equal(s.why.rc, STATUS_UNREACHABLE);
    assert_int_equal(site_count(s.site, NULL), 1);
    assert_memory_equal(site_head(s.site, NULL, 0), "CONNECT ", 8);
    assert_null(strstr(site_head(s.site, NULL, 0), "s3cr3t"));
}

TEST(a_server_gets_its_token_and_no_other_does)
{
    site_put(s.site, "/a", NULL, SLICE("a"));
    site_put(s.other, "/a", NULL, SLICE("a"));
    assert_int_equal(
        td_client_set_token(s.client, site_link(s.site, "/sets/x"), "abc=="),
        TD_OK);

    get(site_link(s.site, "/a"));
    get(site_link(s.other, "/a"));
    assert_string_equal(sent(s.site, "/a", 0), "Bearer abc==");
    assert_null(sent(s.other, "/a", 0));

    assert_int_equal(td_client_set_token(s.client, site_url(s.site), "def"),
                     TD_OK);
    get(site_link(s.site, "/a"));
    assert_string_equal(sent(s.site, "/a", 1), "Bearer def");
    td_client_set_token(s.client, site_url(s.site), NULL);
    get(site_link(s.site, "/a"));
    assert_null(sent(s.site, "/a", 2));
}

/* Away, and back again: each hop is judged by itself. */
TEST(a_redirect_elsewhere_drops_it)
{
    char to_other[200], back[200];

    snprintf(to_other, sizeof(to_other), "Location: %s",
             site_link(s.other, "/b"));
    snprintf(back, sizeof(back), "Location: %s", site_link(s.site, "/c"));
    site_status(s.site, "/a", 302, to_other, 0);
    site_status(s.other, "/b", 307, back, 0);
    site_put(s.site, "/c", NULL, SLICE("there"));
    td_client_set_token(s.client, site_url(s.site), "abc");

    assert_int_equal(get(site_link(s.site, "/a")), 200);
    assert_string_equal(sent(s.site, "/a", 0), "Bearer abc");
    assert_null(sent(s.other, "/b", 0));
    assert_string_equal(sent(s.site, "/c", 0), "Bearer abc");
}

TEST(a_line_of_the_program_replaces_it)
{
    site_put(s.site, "/a", NULL, SLICE("a"));
    td_client_set_token(s.client, site_url(s.site), "abc");
    td_header(s.client, site_url(s.site), "authorization: Basic eA==");
    get(site_link(s.site, "/a"));
    assert_string_equal(sent(s.site, "/a", 0), "Basic eA==");
}

/* The body of the post goes twice, too, and nobody sees the first answer. */
TEST(a_token_that_was_replaced_is_read_and_the_request_repeated)
{
    struct slice body = SLICE("the post");
    struct fetch_request request = {.body = &body, .is_own = true};

    request.url = site_link(s.site, "/a");
    assert_int_equal(
        td_client_set_token_file(s.client, request.url, token_file("old\n")),
        TD_OK);
    token_file("new\n");
    site_put(s.site, "/a", NULL, SLICE("done"));
    site_status(s.site, "/a", 401, "WWW-Authenticate: Bearer", 1);

    run(&request, false);
    assert_int_equal(s.status, 200);
    assert_true(slice_is(buf_slice(&s.body), "done"));
    assert_int_equal(site_count(s.site, "/a"), 2);
    assert_string_equal(sent(s.site, "/a", 0), "Bearer old");
    assert_string_equal(sent(s.site, "/a", 1), "Bearer new");
    assert_true(slice_is(site_body(s.site, "/a", 1), "the post"));
}

TEST(once_per_request_and_not_with_the_same_token)
{
    const char *url = site_link(s.site, "/a");

    site_status(s.site, "/a", 401, NULL, 0);
    td_client_set_token_file(s.client, url, token_file("old\n"));
    assert_int_equal(get(url), 401);
    assert_int_equal(site_count(s.site, "/a"), 1);
    token_file("new\n");
    assert_int_equal(get(url), 401);
    assert_int_equal(site_count(s.site, "/a"), 3);
    assert_string_equal(sent(s.site, "/a", 2), "Bearer new");
}

static const char *
token_of(const char *url, unsigned *version)
{
    const struct server *server = servers_find(&s.client->servers, url);

    *version = server->token_version;
    return server->token.text;
}

/* Two requests fail with one token: both are repeated. */
TEST(a_token_that_another_request_has_read_is_new_as_well)
{
    const char *url = site_link(s.site, "/a");
    unsigned version;

    td_client_set_token_file(s.client, url, token_file("old"));
    assert_string_equal(token_of(url, &version), "old");
    token_file("new");
    assert_true(servers_renew_token(&s.client->servers, url, version));
    assert_true(servers_renew_token(&s.client->servers, url, version));
    assert_string_equal(token_of(url, &version), "new");
    assert_false(servers_renew_token(&s.client->servers, url, version));
}

/* A file that is spoilt, or lets others read, does not take the token away; the
 * error says why it was not read. */
TEST(a_spoilt_file_leaves_the_former_token)
{
    const char *url = site_link(s.site, "/a");
    const char *path = token_file("old");
    unsigned version;

    td_client_set_token_file(s.client, url, path);
    token_of(url, &version);
    token_file("s3cr3t\ns3cr3t\n");
    assert_false(servers_renew_token(&s.client->servers, url, version));
    assert_string_equal(token_of(url, &version), "old");
    assert_non_null(
        strstr(servers_token_note(&s.client->servers, url), "has more"));
    assert_false(chmod(path, 0644));
    assert_false(servers_renew_token(&s.client->servers, url, version));
    assert_non_null(
        strstr(servers_token_note(&s.client->servers, url), "chmod 600"));
    assert_int_equal(td_client_set_token_file(s.client, url, path), TD_IO);
    assert_string_equal(token_of(url, &version), "old");
}

/* What a user asks first: which token, and was one sent? */
TEST(a_401_says_what_it_has_to_do_with_tokens)
{
    struct fetch_answer answer = {.status = 401};
    struct problem why = {.text = ""};
    const char *url = site_link(s.site, "/a");
    char expected[700];

    assert_string_equal(servers_token_note(&s.client->servers, url), "");
    td_client_set_token_file(s.client, url, token_file("abc"));
    answer.note = servers_token_note(&s.client->servers, site_url(s.other));
    fetch_refused(&why, &answer);
    snprintf(expected, sizeof(expected),
             "401: the server refused; no token was sent: it is for %s alone",
             site_url(s.site));
    assert_string_equal(why.text, expected);
    answer.note = servers_token_note(&s.client->servers, url);
    fetch_refused(&why, &answer);
    snprintf(expected, sizeof(expected),
             "401: the server refused; the token of %s/token was sent",
             dir.path);
    assert_string_equal(why.text, expected);
}
