/* The results of a call, with any server at the other end. The order of calls:
 * caller_turns_test.c; forbidden addresses: caller_whom_test.c. */
#include "broker/calls/caller.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "proto/datetime.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

/* The deadline that ends a call. */
#define DEADLINE_US 200000

FIXTURE(called_setup_open, called_teardown);

/* Answers */

TEST(gives_the_answer_and_what_it_says_of_itself)
{
    struct trial t;

    trial_get(&t, "/facts");

    assert_outcome(&t, CALL_ANSWERED, "");
    assert_int_equal(t.call.status, 200);
    assert_string_equal(t.content_type, "text/xml; charset=utf-8");
    assert_string_equal(t.etag, "W/\"a\"");
    assert_string_equal(t.last_modified, "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_string_equal(t.links, "<a>; rel=hub, <b>; rel=self, <c>; rel=up");
    assert_string_equal(t.final_url, t.url);
    assert_string_equal(t.answer, "");
    assert_true(t.call.took_us >= 0);
}

/* W-055, W-087: which status is a success others decide. */
TEST(answers_of_every_class_are_answers)
{
    static const unsigned all[] = {200, 202, 204, 299, 300, 301, 302, 303, 307,
                                   308, 400, 404, 410, 429, 500, 503, 599};
    struct trial t;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char path[64];

        snprintf(path, sizeof(path), "/status/%u", all[i]);
        trial_get(&t, path);
        assert_outcome(&t, CALL_ANSWERED, "");
        assert_int_equal(t.call.status, all[i]);
        if (all[i] != 204)
            assert_string_equal(t.answer, "hi");
    }
}

TEST(reads_bodies_of_every_form)
{
    static const char *const paths[] = {"/ok", "/chunked", "/closed"};
    struct trial t;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        trial_get(&t, paths[i]);
        assert_outcome(&t, CALL_ANSWERED, "");
        assert_string_equal(t.answer, "hello");
        assert_false(t.call.is_cut);
        assert_string_equal(t.links, "");
    }
    trial_get(&t, "/gzipped");
    assert_string_equal(t.answer, "\x1f\x8b\x08");
}

/* W-089: as the header says, up to a day. */
TEST(reads_retry_after_as_seconds_and_as_a_date)
{
    static const struct {
        const char *path;
        int64_t us;
    } all[] = {{"/soon", 120000000}, {"/on-a-date", 60000000},
               {"/past", 0},         {"/never", CALL_RETRY_AFTER_MAX_US},
               {"/nonsense", 0},     {"/ok", 0}};

    int64_t to_november_1994_us = 784111777000000 - clock_now_us();
    struct trial t;

    clock_set_us(to_november_1994_us);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        trial_get(&t, all[i].path);
        assert_outcome(&t, CALL_ANSWERED, "");
        assert_int_equal(t.call.retry_after_us, all[i].us);
    }
    clock_set_us(-to_november_1994_us);
}

/* Failures */

static const struct {
    const char *path;
    enum call_failure failure;
    const char *why;
} faults[] = {
    {"/nothing", CALL_BROKEN, "without an answer"},
    {"/reset", CALL_BROKEN, "reset"},
    {"/reset-in-body", CALL_BROKEN, "reset"},
    {"/no-head", CALL_BROKEN, "head ended early"},
    {"/short-head", CALL_BROKEN, "head ended early"},
    {"/short-line", CALL_BROKEN, "head ended early"},
    {"/short-status", CALL_BROKEN, ""},
    {"/interim-alone", CALL_BROKEN, ""},
    {"/short", CALL_BROKEN, "ended early"},
    {"/garbage", CALL_BROKEN, "not of HTTP/1"},
    {"/http09", CALL_BROKEN, "not of HTTP/1"},
    {"/http2", CALL_BROKEN, "not of HTTP/1"},
    {"/bad-chunk", CALL_BROKEN, ""},
    {"/bad-length", CALL_BROKEN, ""},
    {"/two-lengths", CALL_BROKEN, "two Content-Length fields"},
    {"/length-and-chunks", CALL_BROKEN, "beside Content-Length"},
    {"/chunks-of-1.0", CALL_BROKEN, "in HTTP/1.0"},
    {"/gzip-and-chunks", CALL_BROKEN, "other than chunked"},
    {"/line-feed", CALL_BROKEN, "a line feed without"},
    {"/folded", CALL_BROKEN, "a folded field line"},
    {"/blank-name", CALL_BROKEN, "white space behind the name"},
    {"/no-status", CALL_BROKEN, "without a status"},
    {"/long-size", CALL_BROKEN, "more than 15 digits"},
    {"/switched", CALL_BROKEN, "changes the protocol"},
    {"/endless-headers", CALL_BROKEN, "longer than 32768 bytes"},
    {"/endless-line", CALL_BROKEN, "longer than 32768 bytes"},
    {"/endless-status", CALL_BROKEN, ""},
    {"/endless-interim", CALL_BROKEN, "longer than 32768 bytes"},
    {"/endless-trailer", CALL_BROKEN, ""},
};

/* W-055, W-057, W-087: the call ends whatever the server does, and the next
 * call to the same host does not suffer. */
TEST(faults_of_the_other_end_are_failures)
{
    struct trial t;

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        trial_get(&t, faults[i].path);
        assert_outcome(&t, faults[i].failure, faults[i].why);
        trial_get(&t, "/ok");
        assert_outcome(&t, CALL_ANSWERED, "");
        assert_string_equal(t.answer, "hello");
    }
}

/* W-057: the deadline is one of the whole call. */
TEST(no_trickle_outlives_the_deadline)
{
    static const char *const paths[] = {
        "/hang", "/hang-in-body", "/trickling-status", "/trickling-headers",
        "/trickling-body"};
    struct trial t;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        unsigned n_left = odd_count(&odd, &odd.n_left);
        bool is_paced = i >= 2; /* two threads wait */

        trial_init(&t, "http://127.0.0.1:%u%s", odd.port, paths[i]);
        t.call.timeout_us = DEADLINE_US;
        trial_start(&t);
        odd_await(&odd, &odd.n_requests, (unsigned)i + 1);
        clock_run_us(1 + is_paced, DEADLINE_US);
        trial_wait(&t);
        clock_run_us(0, 0);
        assert_outcome(&t, CALL_TIMEOUT, "no whole answer within 200 ms");
        assert_in_range(t.call.took_us, DEADLINE_US, DEADLINE_US + ODD_PACE_US);
        odd_await(&odd, &odd.n_left, n_left + 1);
    }
}

/* W-057: the caller reads a bounded number of bytes; those count. */
TEST(a_long_answer_is_cut)
{
    struct trial t;
    unsigned n_left;

    trial_get(&t, "/endless-body");
    assert_outcome(&t, CALL_ANSWERED, "");
    assert_int_equal(t.call.status, 200);
    assert_true(t.call.is_cut);
    assert_int_equal(strlen(t.answer), 4000);
    odd_await(&odd, &odd.n_left, 1);

    trial_get(&t, "/endless-404");
    assert_int_equal(t.call.status, 404);
    assert_true(t.call.is_cut);
    odd_await(&odd, &odd.n_left, 2);

    n_left = odd_count(&odd, &odd.n_left);
    trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
    t.call.max_answer = 5;
    trial_run(&t);
    assert_false(t.call.is_cut);
    assert_string_equal(t.answer, "hello");
    assert_int_equal(odd_count(&odd, &odd.n_left), n_left);

    t.call.max_answer = 4;
    trial_run(&t);
    assert_true(t.call.is_cut);
    assert_string_equal(t.answer, "hell");

    t.call.max_answer = 0;
    trial_run(&t);
    assert_outcome(&t, CALL_ANSWERED, "");
    assert_true(t.call.is_cut);
    assert_string_equal(t.answer, "");
}

TEST(tells_who_cannot_be_connected_to)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* bound, and not listening */
    struct trial t;

    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    trial_init(&t, "http://127.0.0.1:%u/", ntohs(at.sin_port));
    trial_run(&t);
    close(fd);

    assert_outcome(&t, CALL_UNCONNECTED, "Connection refused");
}

/* Requests */

static void
assert_sent(const char *text)
{
    if (!odd_was_sent(&odd, text))
        fail_msg("not sent: %s", text);
}

static void
assert_not_sent(const char *text)
{
    if (odd_was_sent(&odd, text))
        fail_msg("sent: %s", text);
}

/* W-162: we add nothing of ours; W-080: the URL goes out unchanged. */
TEST(sends_what_it_is_told_and_no_more)
{
    static const char *const headers[] = {"Content-Type: application/xml",
                                          "Link: <http://h/>; rel=\"hub\"",
                                          NULL};
    static const char *const accept[] = {"accept: text/plain", NULL};
    static char body[1100000];
    char host[64];
    struct trial t;

    snprintf(host, sizeof(host), "\r\nHost: 127.0.0.1:%u\r\n", odd.port);
    setenv("http_proxy", "http://127.0.0.1:1/", 1);
    setenv("all_proxy", "http://127.0.0.1:1/", 1);
    memset(body, 'b', sizeof(body));
    trial_init(&t, "HTTP://127.0.0.1:%u/status/200/../a%%7Eb?c=%%41+d&e#f",
               odd.port);
    t.call.method = CALL_POST;
    t.call.headers = headers;
    t.call.body = SLICE("<a/>");
    trial_run(&t);
    assert_int_equal(t.call.status, 200);
    assert_sent("POST /status/200/../a%7Eb?c=%41+d&e HTTP/1.1\r\n");
    assert_sent("\r\nUser-Agent: tidings/" TIDINGS_VERSION "\r\n");
    assert_sent("\r\nContent-Type: application/xml\r\n");
    assert_sent("\r\nLink: <http://h/>; rel=\"hub\"\r\n");
    assert_sent("\r\nContent-Length: 4\r\n");
    assert_sent("\r\nAccept: */*\r\n");
    assert_sent(host);
    assert_sent("\r\n\r\n<a/>");
    assert_not_sent("Expect");
    assert_not_sent("Cookie");
    assert_not_sent("Authorization");
    assert_not_sent("Accept-Encoding");

    /* A long body waits for no 100 Continue; an empty one is a body. */
    t.call.body = (struct slice){body, sizeof(body)};
    trial_run(&t);
    assert_int_equal(t.call.status, 200);
    assert_sent("\r\nContent-Length: 1100000\r\n");
    assert_sent("bbbb");
    assert_not_sent("Expect");
    t.call.body = (struct slice){NULL, 0};
    trial_run(&t);
    assert_int_equal(t.call.status, 200);
    assert_sent("\r\nContent-Length: 0\r\n");

    /* Nothing of one call is in the next. */
    t.call.method = CALL_GET;
    t.call.headers = accept;
    trial_run(&t);
    assert_sent("\r\naccept: text/plain\r\n");
    assert_not_sent("Accept: */*");
    t.call.headers = NULL;
    trial_run(&t);
    assert_int_equal(t.call.status, 200);
    assert_sent("GET /status/200/../a%7Eb?c=%41+d&e HTTP/1.1\r\n");
    assert_not_sent("Content-");
    assert_not_sent("Link");
    t.call.method = CALL_HEAD;
    trial_run(&t);
    assert_int_equal(t.call.status, 200);
    assert_string_equal(t.answer, "");
    assert_sent("HEAD /status/200");
    unsetenv("http_proxy");
    unsetenv("all_proxy");
}

TEST(too_many_headers_are_not_sent)
{
    const char *headers[CALL_HEADERS_MAX + 2] = {NULL};
    struct trial t;

    for (size_t i = 0; i < CALL_HEADERS_MAX; i++)
        headers[i] = "X-Name: a";
    trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
    t.call.headers = headers;
    trial_run(&t);
    assert_outcome(&t, CALL_ANSWERED, "");

    headers[CALL_HEADERS_MAX] = "X-Name: a";
    trial_run(&t);
    assert_outcome(&t, CALL_MEMORY, "more than 24 headers");
}

TEST(a_connection_is_kept_for_the_next_call)
{
    static const char *const paths[] = {"/ok",         "/empty", "/chunked",
                                        "/status/404", "/facts", "/ok"};
    struct trial t;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        trial_get(&t, paths[i]);
        assert_outcome(&t, CALL_ANSWERED, "");
    }
    trial_init(&t, "http://127.0.0.1:%u/empty", odd.port);
    t.call.method = CALL_POST;
    t.call.body = SLICE("a");
    trial_run(&t);
    assert_int_equal(t.call.status, 204);
    assert_int_equal(odd_count(&odd, &odd.n_requests), 7);
    assert_int_equal(odd_count(&odd, &odd.n_connections), 1);
}

/* W-056, W-089: a host that closes without an answer gets one request a try,
 * however many connections to it are kept. */
TEST(a_suspect_and_an_unproven_call_are_one_request)
{
    static const struct {
        enum call_method method;
        bool is_suspect, is_unproven, is_once;
    } rows[] = {{CALL_POST, true, false, false},
                {CALL_GET, false, true, false},
                {CALL_GET, false, false, true}};
    struct trial kept[2], t;
    unsigned n_kept = sizeof(kept) / sizeof(kept[0]);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned n_requests = 0;

        for (unsigned k = 0; k < n_kept; k++)
            trial_init(&kept[k], "http://127.0.0.1:%u/wait", odd.port);
        trials_start(kept, n_kept);
        odd_await_least(&odd, &odd.n_waiting, n_kept);
        odd_pass(&odd, n_kept);
        trials_await(kept, n_kept);
        n_requests = odd_count(&odd, &odd.n_requests);

        trial_init(&t, "http://127.0.0.1:%u/nothing", odd.port);
        t.call.method = rows[i].method;
        t.call.body = SLICE("a");
        t.call.is_suspect = rows[i].is_suspect;
        t.call.is_unproven = rows[i].is_unproven;
        t.call.is_once = rows[i].is_once;
        trial_run(&t);
        assert_outcome(&t, CALL_BROKEN, "without an answer");
        assert_int_equal(odd_count(&odd, &odd.n_requests), n_requests + 1);
    }
}

/* Also when all callbacks are called one after the other. */
TEST(connections_to_many_hosts_are_kept)
{
    struct trial t;

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 30; i++) {
            trial_init(&t, "http://127.0.3.%u:%u/ok", i, odd.port);
            trial_run(&t);
            assert_outcome(&t, CALL_ANSWERED, "");
        }
        assert_int_equal(odd_count(&odd, &odd.n_connections), 30);
    }
}
