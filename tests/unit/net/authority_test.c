/* A request ends with its authority, in each of its phases. */
#include "tests/test.h"
#include "tests/unit/net/served.h"

#define MUCH "20000000"

static int
open_with_authority(void **state)
{
    served_open(state);
    served.authority = authority_new(NULL, INT64_MAX);
    return 0;
}

static int
close_with_authority(void **state)
{
    struct authority *authority = served.authority;

    served_close(state);
    assert_int_equal(atomic_load(&authority->refs), 1);
    authority_unref(authority);
    return 0;
}

FIXTURE(open_with_authority, close_with_authority);
SERVED_GROUPS;

static void
assert_unauthorized(struct wire *w)
{
    struct wire_answer a;

    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, 401);
    served_assert_header(&a, "WWW-Authenticate", "Bearer");
    wire_close(w);
}

/* The handler does not act, whether the rest of the body comes or not. */
TEST(a_body_ends_with_it)
{
    struct wire *completed = served_sent(POST("/echo", "3") "ab");
    struct wire *silent = served_sent(POST("/echo", "3") "ab");
    struct wire *held = served_sent(POST("/held-echo", "3") "ab");

    served_await(&served.n_requests, 3);
    served_turn();
    authority_end(served.authority, 0);
    assert_true(wire_send_text(completed, "c"));
    assert_unauthorized(completed);
    assert_int_equal(atomic_load(&served.n_gone), 1);
    served_pass_seconds(1);
    assert_unauthorized(silent);
    assert_unauthorized(held);
    assert_int_equal(atomic_load(&served.n_open), 0);
}

TEST(a_request_that_waits_for_its_handler_ends_with_it)
{
    struct wire *never = served_sent(GET("/never")), *later;

    served_pause(true);
    later = served_sent(POST("/later", "3") "abc");
    served_await(&served.n_requests, 2);
    served_turn();
    authority_end(served.authority, 0);
    served_pass_seconds(1);
    assert_unauthorized(never);
    assert_unauthorized(later);
    served_pause(false); /* its answer finds no request */
}

/* Nobody learns it any more. */
TEST(the_answer_to_a_get_does_not_begin_behind_it)
{
    struct wire *w;

    served_pause(true);
    w = served_sent(GET("/later"));
    served_await(&served.n_requests, 1);
    served_turn();
    authority_end(served.authority, 0);
    served_pause(false);
    assert_unauthorized(w);
}

TEST(an_answer_that_is_being_sent_is_cut)
{
    static const char *const requests[] = {GET("/big?size=" MUCH),
                                           GET("/pool?size=" MUCH),
                                           GET("/file?size=" MUCH)};
    struct wire *w[3];
    struct wire_answer a;

    for (int i = 0; i < 3; i++) {
        w[i] = served_connect_narrow();
        assert_true(wire_send_text(w[i], requests[i]));
        assert_true(wire_answer_head(w[i], &a));
    }
    assert_int_equal(atomic_load(&served.n_bodies), 3);
    authority_end(served.authority, 0);
    served_pass_until(&served.n_bodies, 0);
    for (int i = 0; i < 3; i++)
        wire_close(w[i]);
}

TEST(the_next_request_has_an_authority_of_its_own)
{
    struct wire *w = served_connect();
    struct wire_answer a;

    assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
    assert_int_equal(a.status, 200);
    authority_end(served.authority, 0);
    served_pass_seconds(2);
    assert_true(wire_is_silent(w)); /* a connection at rest has none */
    wire_close(w);
}
