/* Addresses and URLs that may be called, and targets of redirects. */
#include "broker/calls/caller.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

FIXTURE(called_setup_open, called_teardown);

/* W-160, W-161: their meaning decides. */
TEST(no_spelling_hides_an_address)
{
    static const char *const hosts[] = {"127.0.0.1",
                                        "2130706433",
                                        "0x7f.1",
                                        "0x7f000001",
                                        "017700000001",
                                        "127.1",
                                        "0177.0.0.01",
                                        "0",
                                        "[::1]",
                                        "[::ffff:127.0.0.1]",
                                        "[::ffff:7f00:1]",
                                        "[::127.0.0.1]",
                                        "[64:ff9b::7f00:1]",
                                        "[2002:7f00:1::]",
                                        "localhost",
                                        "LOCALHOST",
                                        "localhost.",
                                        "169.254.169.254",
                                        "10.0.0.1",
                                        "[fe80::1]",
                                        "[fd00::1]"};
    struct trial t;

    called_close();
    called_open(8, 4, "");
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        trial_init(&t, "http://%s:%u/ok", hosts[i], odd.port);
        trial_run(&t);
        if (!strcmp(hosts[i], "localhost.") &&
            t.call.failure == CALL_UNRESOLVED)
            continue; /* a matter of the resolver */
        assert_outcome(&t, CALL_REFUSED, "may not be called");
    }
    assert_int_equal(odd_count(&odd, &odd.n_connections), 0);
}

/* W-160: a listed address is allowed, in every spelling. */
TEST(what_is_listed_may_be_called)
{
    static const char *const hosts[] = {"127.0.0.1", "2130706433",
                                        "[::ffff:127.0.0.1]", "localhost"};
    struct trial t;

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        trial_init(&t, "http://%s:%u/ok", hosts[i], odd.port);
        trial_run(&t);
        assert_outcome(&t, CALL_ANSWERED, "");
    }
}

/* W-163: and none of our own making goes out. */
TEST(what_is_no_url_is_not_called)
{
    static const char *const urls[] = {"",
                                       "http://",
                                       "http:///x",
                                       "http://?",
                                       "127.0.0.1",
                                       "/x",
                                       "ftp://127.0.0.1/",
                                       "file:///etc/passwd",
                                       "gopher://127.0.0.1/",
                                       "http://127.0.0.1:99999/",
                                       "http://127.0.0.1:x/",
                                       "http://user:word@127.0.0.1/",
                                       "http://a@127.0.0.1/",
                                       "http://127.0.0.1/a b",
                                       "http://127.0.0.1/\r\nX: y",
                                       "http://127.0.0.1/\x7f",
                                       "http://127.0.0.1\t/",
                                       "http://[::1/",
                                       "http://\\127.0.0.1/",
                                       "http://a\\@127.0.0.1/",
                                       "http:\\\\127.0.0.1/",
                                       "http:/127.0.0.1/"};
    static const char *const headers[] = {"X-Name: a\r\nX-Other: b", NULL};
    struct trial t;

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        trial_init(&t, "%s", urls[i]);
        trial_run(&t);
        assert_outcome(&t, CALL_REFUSED, "that can be called");
    }
    trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
    t.call.headers = headers;
    trial_run(&t);
    assert_outcome(&t, CALL_REFUSED, "a control character");
    assert_int_equal(odd_count(&odd, &odd.n_connections), 0);
}

/* Redirects */

/* W-055, W-087, W-162: the caller follows none without being asked. */
TEST(no_redirect_is_followed_unasked)
{
    struct trial t;

    trial_get(&t, "/to?/ok");
    assert_outcome(&t, CALL_ANSWERED, "");
    assert_int_equal(t.call.status, 302);
    assert_int_equal(odd_count(&odd, &odd.n_requests), 1);
}

static void
redirect(struct trial *t, unsigned most, const char *to)
{
    trial_init(t, "http://127.0.0.1:%u/to?%s", odd.port, to);
    t->call.max_redirects = most;
    trial_run(t);
}

TEST(redirects_are_followed_up_to_a_number)
{
    struct trial t;

    redirect(&t, 1, "/ok");
    assert_outcome(&t, CALL_ANSWERED, "");
    assert_int_equal(t.call.status, 200);
    assert_string_equal(t.answer, "hello");
    assert_string_equal(t.links, "");
    assert_non_null(strstr(t.final_url, "/ok"));

    redirect(&t, 2, "/to?/ok");
    assert_int_equal(t.call.status, 200);
    redirect(&t, 1, "/to?/ok");
    assert_outcome(&t, CALL_BROKEN, "more than 1 times");
}

/* W-160, W-162: each hop is judged. */
TEST(no_redirect_leads_to_what_is_refused)
{
    static const char *const to[] = {
        "http://10.0.0.1/",           "http://[::ffff:10.0.0.1]/",
        "http://0x0a000001/",         "http://169.254.169.254/latest/",
        "ftp://127.0.0.1/",           "file:///etc/a",
        "http://user:word@127.0.0.1/"};
    struct trial t;

    for (size_t i = 0; i < sizeof(to) / sizeof(to[0]); i++) {
        redirect(&t, 5, to[i]);
        assert_outcome(&t, CALL_REFUSED, "called");
    }
}

/* Credentials are for the server of the URL alone; its own later URLs get them.
 */
TEST(no_redirect_takes_the_credentials_along)
{
    static const char *const headers[] = {"Authorization: Bearer secret",
                                          "X-Name: a", NULL};
    char url[100];
    struct trial t;

    for (unsigned host = 1; host <= 2; host++) {
        snprintf(url, sizeof(url), "http://127.0.0.%u:%u/ok", host, odd.port);
        trial_init(&t, "http://127.0.0.1:%u/to?%s", odd.port, url);
        t.call.max_redirects = 1;
        t.call.headers = headers;
        trial_run(&t);
        assert_int_equal(t.call.status, 200);
        assert_string_equal(t.final_url, url);
        assert_true(odd_was_sent(&odd, "X-Name: a"));
        assert_int_equal(odd_was_sent(&odd, "Bearer secret"), host == 1);
    }
    redirect(&t, 1, "//127.0.0.1:1/"); /* nobody listens */
    assert_outcome(&t, CALL_UNCONNECTED, "");
    redirect(&t, 1, "ok"); /* beside /to */
    assert_int_equal(t.call.status, 200);
}
