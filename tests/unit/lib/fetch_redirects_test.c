/*
 * fetch_redirects_test.c - an HTTP exchange that is led elsewhere.
 */
#include "client/lib/fetch.h"
#include "tests/test.h"
#include "tests/unit/lib/fetch_stage.h"

FIXTURE(set_stage, clear_stage);

TEST(a_redirect_is_an_answer_unless_it_is_to_be_followed)
{
    struct fetch_request request = {.url = site_link(s.site, "/a")};

    site_status(s.site, "/a", 302, "Location: /b", 0);
    site_put(s.site, "/b", NULL, SLICE("there"));
    run(&request, false);
    assert_int_equal(s.status, 302);

    request.redirects = 1;
    run(&request, false);
    assert_int_equal(s.status, 200);
    assert_string_equal(s.url, site_link(s.site, "/b"));
    assert_true(slice_is(buf_slice(&s.body), "there"));

    site_status(s.site, "/b", 301, "Location: /a", 0);
    run(&request, false);
    assert_int_equal(s.status, 301); /* one is followed, not two */
}

/* More than libcurl may hand over before it pauses. */
TEST(the_body_of_a_redirect_is_passed_over)
{
    struct fake_broker *b = fake_broker_new();
    struct fetch_request request = {.redirects = 1};
    char *bytes = big();
    char head[400];
    struct slice parts[2];

    site_put(s.site, "/b", NULL, SLICE("there"));
    snprintf(head, sizeof(head),
             "HTTP/1.1 302 Found\r\nLocation: %s\r\n"
             "Content-Length: %d\r\n\r\n",
             site_link(s.site, "/b"), BIG);
    parts[0] = slice_of(head);
    parts[1] = (struct slice){bytes, BIG};
    answer_raw(b, &request, parts, 2);

    assert_int_equal(s.why.rc, STATUS_OK);
    assert_int_equal(s.status, 200);
    assert_true(slice_is(buf_slice(&s.body), "there"));
    free(bytes);
}

/* Nor is it waited for, if it has no end. */
TEST(an_endless_body_of_a_redirect_is_left)
{
    struct fake_broker *b = fake_broker_new();
    struct fetch_request request = {.redirects = 1};
    char *bytes = big();
    char head[400];
    struct slice parts[2];

    site_put(s.site, "/b", NULL, SLICE("there"));
    snprintf(head, sizeof(head),
             "HTTP/1.1 302 Found\r\nLocation: %s\r\n"
             "Content-Length: 1000000000\r\n\r\n",
             site_link(s.site, "/b"));
    parts[0] = slice_of(head);
    parts[1] = (struct slice){bytes, BIG};
    answer_raw(b, &request, parts, 2);

    assert_int_equal(s.why.rc, STATUS_OK);
    assert_int_equal(s.status, 200);
    assert_true(slice_is(buf_slice(&s.body), "there"));
    free(bytes);
}

/* A status of redirects that leads nowhere is an answer like others. */
TEST(a_redirect_to_nowhere_is_an_answer)
{
    struct fake_broker *b = fake_broker_new();
    struct fetch_request request = {.redirects = 1};
    const struct slice parts[] = {SLICE("HTTP/1.1 302 Found\r\n"
                                        "Content-Length: 4\r\n\r\nbody")};

    answer_raw(b, &request, parts, 1);

    assert_int_equal(s.status, 302);
    assert_true(slice_is(buf_slice(&s.body), "body"));
}

/* Asked again it would be the same. */
TEST(a_redirect_to_what_is_no_web_is_broken)
{
    static const char *const lines[] = {"Location: ftp://127.0.0.1/a",
                                        "Location: http://[::1/a"};
    struct fetch_request request = {.url = site_link(s.site, "/a"),
                                    .redirects = 1};

    for (size_t i = 0; i < 2; i++) {
        site_status(s.site, "/a", 302, lines[i], 0);
        start(&request, false);
        turn();
        assert_int_equal(s.why.rc, STATUS_MALFORMED);
    }
}

/* td_header: no redirect takes the header to another server. */
TEST(a_header_for_one_server_does_not_reach_another)
{
    struct fetch_request request = {.url = site_link(s.site, "/a"),
                                    .redirects = 5};
    char location[300];

    assert_int_equal(td_header(s.client, site_url(s.site), "X-Key: secret"),
                     TD_OK);
    snprintf(location, sizeof(location), "Location: %s",
             site_link(s.other, "/b"));
    site_status(s.site, "/a", 307, location, 0);
    site_put(s.other, "/b", NULL, SLICE("there"));
    run(&request, false);

    assert_int_equal(s.status, 200);
    assert_string_equal(site_header(s.site, "/a", 0, "X-Key"), "secret");
    assert_null(site_header(s.other, "/b", 0, "X-Key"));
}

/* W-033 */
TEST(a_post_is_repeated_where_307_and_308_lead_and_nowhere_else)
{
    static const struct {
        unsigned status, expected;
    } rows[] = {{307, 200}, {308, 200}, {301, 301}, {302, 302}, {303, 303}};
    struct slice body = SLICE("hub.mode=subscribe");
    struct fetch_request request = {
        .url = site_link(s.site, "/hub"), .body = &body, .redirects = 3};

    site_put(s.site, "/new", NULL, SLICE("ok"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        site_status(s.site, "/hub", rows[i].status, "Location: /new", 0);
        start(&request, false);
        turn();
        assert_int_equal(s.status, rows[i].expected);
    }
    assert_int_equal(site_count(s.site, "/new"), 2);
    assert_true(slice_is(site_body(s.site, "/new", 1), "hub.mode=subscribe"));
}
