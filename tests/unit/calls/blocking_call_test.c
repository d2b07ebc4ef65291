/* Calls for which a thread waits. */
#include "broker/calls/blocking_call.h"

#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/calls/called.h"

#define LONG 3000001

static struct blocking *calls;
static char url[200];

static int
setup_with(const struct blocking_options *options)
{
    struct problem why = {""};

    called_setup(NULL);
    if (blocking_open(&calls, options, &why))
        fail_msg("%s", why.text);
    return 0;
}

static int
setup(void **state)
{
    (void)state;
    return setup_with(&(struct blocking_options){.user = NULL});
}

static int
teardown(void **state)
{
    blocking_close(calls);
    return called_teardown(state);
}

static struct call
wish_of(const char *path)
{
    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", odd.port, path);
    return (struct call){.url = url,
                         .timeout_us = 600000000,
                         .max_answer = 100,
                         .max_taken = LONG};
}

FIXTURE(setup, teardown);

TEST(the_answer_is_appended_whatever_its_status)
{
    static const struct {
        const char *path;
        unsigned status;
        const char *text;
    } rows[] = {{"/ok", 200, "hello"},
                {"/status/404", 404, "hi"},
                {"/empty", 204, ""},
                {"/short", 0, ""},
                {"/ok", 200, "hello"}};
    struct call wish = {.url = NULL};
    const struct call *call;
    struct buf answer;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        wish = wish_of(rows[i].path);
        buf_init(&answer, 60);
        call = blocking_run(calls, &wish, &answer);
        assert_int_equal(call->status, rows[i].status);
        assert_int_equal(call->failure,
                         rows[i].status ? CALL_ANSWERED : CALL_BROKEN);
        assert_false(call->is_cut);
        if (rows[i].status)
            assert_true(slice_is(buf_slice(&answer), rows[i].text));
        buf_fini(&answer);
    }
    buf_init(&answer, 4);
    call = blocking_run(calls, &wish, &answer);
    assert_true(call->is_cut);
    buf_fini(&answer);
}

TEST(a_long_answer_comes_as_it_is_taken)
{
    struct call wish = wish_of("/long?3000001");
    const struct call *call;
    struct slice piece;
    uint64_t n = 0;

    for (unsigned i = 0; i < 2; i++) {
        call = blocking_begin(calls, &wish);
        for (n = 0; blocking_next(calls, &piece); n += piece.size)
            for (size_t at = 0; at < piece.size; at++)
                assert_int_equal(piece.data[at], odd_byte(n + at));
        assert_int_equal(n, LONG);
        assert_int_equal(call->status, 200);
    }
    wish = wish_of("/status/404");
    call = blocking_begin(calls, &wish);
    assert_false(blocking_next(calls, &piece));
    assert_int_equal(call->status, 404);
}

static int n_asked;

static bool
is_stopped(void *user)
{
    (void)user;
    return ++n_asked > 2;
}

static int
setup_stopped(void **state)
{
    (void)state;
    n_asked = 0;
    return setup_with(&(struct blocking_options){.is_stopped = is_stopped});
}

TEST(a_wait_ends_when_it_is_stopped, setup_stopped, teardown)
{
    struct call wish = wish_of("/hang");
    const struct call *call;
    struct slice piece;

    for (unsigned i = 0; i < 2; i++) { /* the second is cut at once */
        call = blocking_begin(calls, &wish);
        clock_run_us(1, 1000000);
        assert_false(blocking_next(calls, &piece));
        assert_int_equal(call->failure, CALL_BROKEN);
    }
    assert_int_equal(n_asked, 3);
}
