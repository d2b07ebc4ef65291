/* Kept connections: which calls use one, and when the
 * caller closes it. */
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

/* More than the buffers of a connection hold. */
#define LARGE ((size_t)24 * 1024 * 1024)

#define KEPT_US ((int64_t)118 * 1000000)

FIXTURE(called_setup_open, called_teardown);

static void
get_hello(void)
{
    struct trial t;

    trial_get(&t, "/ok");
    assert_outcome(&t, CALL_ANSWERED, "");
    assert_string_equal(t.answer, "hello");
}

TEST(only_a_whole_and_exact_answer_leaves_a_connection)
{
    static const struct {
        const char *path;
        unsigned status;
        const char *answer;
        bool is_kept;
    } rows[] = {
        {"/ok", 200, "hello", true},
        {"/kept-1.0", 200, "hello", true},
        {"/chunked", 200, "hello", true},
        {"/close", 200, "hello", false},
        {"/closing-1.0", 200, "hello", false},
        {"/closed", 200, "hello", false},
        {"/surplus", 200, "hello", false},
        {"/empty-surplus", 204, "", false},
    };

    unsigned n_connections = 1;
    struct trial t;

    get_hello();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        trial_get(&t, rows[i].path);
        assert_outcome(&t, CALL_ANSWERED, "");
        assert_int_equal(t.call.status, rows[i].status);
        assert_string_equal(t.answer, rows[i].answer);
        get_hello();
        n_connections += !rows[i].is_kept;
        assert_int_equal(odd_count(&odd, &odd.n_connections), n_connections);
    }
}

TEST(an_answer_may_come_in_several_reads)
{
    struct trial t;

    trial_get(&t, "/wide");
    assert_outcome(&t, CALL_ANSWERED, "");
    assert_string_equal(t.answer, "0123");
    assert_string_equal(t.content_type, "text/wide");
    assert_string_equal(t.links, "<w>");
    get_hello();
    assert_int_equal(odd_count(&odd, &odd.n_connections), 1);
}

/* A server may close a kept connection while the request is on its way: the
 * call is made once more, on a new connection, unless an answer has begun. */
TEST(a_call_is_repeated_once_if_a_kept_connection_closes)
{
    static const struct {
        const char *path;
        unsigned n_requests;
    } rows[] = {
        {"/nothing", 2}, {"/reset", 2}, {"/short-status", 1}, {"/short", 1}};
    struct trial t;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned n_requests;

        get_hello();
        n_requests = odd_count(&odd, &odd.n_requests);
        trial_init(&t, "http://127.0.0.1:%u%s", odd.port, rows[i].path);
        t.call.method = CALL_POST;
        t.call.body = SLICE("a");
        trial_run(&t);
        assert_int_equal(t.call.failure, CALL_BROKEN);
        assert_int_equal(odd_count(&odd, &odd.n_requests) - n_requests,
                         rows[i].n_requests);
    }
}

TEST(an_answer_that_nobody_asked_for_closes_a_kept_connection)
{
    struct trial t;

    trial_get(&t, "/forged");
    assert_string_equal(t.answer, "hello");
    odd_pass(&odd, 1);
    odd_await(&odd, &odd.n_left, 1);
    get_hello();
    assert_int_equal(odd_count(&odd, &odd.n_connections), 2);
}

static void
forge_and_start(void *user)
{
    struct trial *t = user;

    odd_pass(&odd, 1);
    odd_await(&odd, &odd.n_forged, 1);
    caller_start(called.caller, &t->call);
}

/* Also if it comes between the last look of the loop and the request. */
TEST(an_answer_from_before_the_request_is_none)
{
    struct trial t;

    trial_get(&t, "/forged");
    trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
    called_do(forge_and_start, &t);
    trial_wait(&t);
    assert_outcome(&t, CALL_ANSWERED, "");
    assert_string_equal(t.answer, "hello");
    assert_int_equal(odd_count(&odd, &odd.n_connections), 2);
}

TEST(an_answer_before_the_whole_request_is_the_answer)
{
    char *body = calloc(1, LARGE);
    struct trial t;

    for (int kept = 0; kept < 2; kept++) {
        if (kept)
            get_hello();
        trial_init(&t, "http://127.0.0.1:%u/early", odd.port);
        t.call.method = CALL_POST;
        t.call.body = (struct slice){body, LARGE};
        trial_run(&t);
        assert_outcome(&t, CALL_ANSWERED, "");
        assert_int_equal(t.call.status, 413);
        assert_string_equal(t.answer, "no");
    }
    get_hello();
    assert_int_equal(odd_count(&odd, &odd.n_connections), 3);
    free(body);
}

/* W-160: the caller judges the address of each call, also on a connection that
 * another call has opened. */
TEST(a_kept_connection_is_judged_for_each_call)
{
    struct networks loopback = {.n = 0};
    struct trial t;

    called_close();
    called_open(8, 4, "");
    networks_add_loopback(&loopback);
    trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
    t.call.also = &loopback;
    trial_run(&t);
    assert_outcome(&t, CALL_ANSWERED, "");

    trial_get(&t, "/ok");
    assert_outcome(&t, CALL_REFUSED, "127.0.0.1 may not be called");
    assert_int_equal(odd_count(&odd, &odd.n_requests), 1);

    trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
    t.call.also = &loopback;
    trial_run(&t);
    assert_outcome(&t, CALL_ANSWERED, "");
    assert_int_equal(odd_count(&odd, &odd.n_connections), 1);
}

TEST(a_host_keeps_as_many_connections_as_it_may_have_calls)
{
    struct trial t;

    get_hello();
    for (unsigned i = 0; i < 6; i++) {
        trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
        t.call.is_suspect = true; /* which opens a connection */
        trial_run(&t);
        assert_outcome(&t, CALL_ANSWERED, "");
    }
    odd_await(&odd, &odd.n_left, 7 - 4);
    assert_int_equal(odd_count(&odd, &odd.n_connections), 7);
}

TEST(an_idle_connection_is_closed)
{
    get_hello();
    clock_await_us(KEPT_US);
    assert_int_equal(odd_count(&odd, &odd.n_left), 0);
    clock_pass_us(KEPT_US);
    odd_await(&odd, &odd.n_left, 1);
    get_hello();
    assert_int_equal(odd_count(&odd, &odd.n_connections), 2);
}
