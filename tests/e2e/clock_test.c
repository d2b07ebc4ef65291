/*
 * clock_test.c - a clock that somebody sets, back and forward.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/faults.h"
#include "tests/support/follower.h"
#include "tests/support/lists.h"
#include "tests/support/source.h"
#include "tests/support/stream.h"
#include "tests/test.h"

#define HOUR 3600

struct stage {
    struct faults faults;
    struct lists lists;
};

static int
set_stage(void **state)
{
    struct stage *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    *state = s;
    faults_open(&s->faults);
    return 0;
}

static int
clear_stage(void **state)
{
    struct stage *s = *state;

    if (s->lists.http.handle)
        lists_close(&s->lists);
    faults_close(&s->faults);
    free(s);
    return 0;
}

/* Posts one entry; its time. */
static int64_t
post_at(struct stage *s, uint64_t *last)
{
    struct receipt r =
        source_post(&s->lists.http, LISTS_SET, (unsigned)*last + 1, 1, 0);
    int64_t us = 0;

    assert_int_equal(r.last, ++*last);
    assert_true(datetime_read(slice_of(r.datetime), &us) == STATUS_OK);
    return us;
}

/* What was pushed is what is pulled, in order; the walk looks at all times. */
static void
check_history(struct stage *s, uint64_t last)
{
    struct wire *w = wire_connect("127.0.0.1", s->lists.broker.port);
    struct problem why = {""};
    struct trace heard;

    walk_all(&s->lists.walk);
    assert_int_equal(s->lists.walk.trace.last, last);
    for (uint64_t seq = 1; seq <= last; seq++) {
        char loc[64];

        snprintf(loc, sizeof(loc), "http://example.com/r/%" PRIu64, seq);
        assert_string_equal(trace_at(&s->lists.walk.trace, seq)->loc, loc);
    }
    assert_non_null(w);
    trace_init(&heard);
    if (!stream_open(w, LISTS_SET, "0", &why) ||
        !stream_read(w, &heard, last, NULL, &why) ||
        !trace_is_same(&heard, &s->lists.walk.trace, &why))
        fail_msg("%s", why.text);
    trace_fini(&heard);
    wire_close(w);
}

FIXTURE(set_stage, clear_stage);

/* design section 1, event time: strictly increasing. */
TEST(a_clock_set_back_an_hour_moves_nothing)
{
    struct stage *s = *state;
    struct follower f;
    int64_t before, us;
    uint64_t last = 0;

    LISTS_OPEN(&s->lists, "--rotate-entries", "4", "--heartbeat", "0.2");
    before = post_at(s, &last);
    follower_open(&f, s->lists.broker.port,
                  "/sets/" LISTS_SET "/stream?after=0", NULL);
    follower_until(&f, last);
    faults_set_clock(&s->faults, -HOUR);
    for (int i = 0; i < 10; i++) {
        us = post_at(s, &last);
        assert_int_equal(us, before + 1); /* a microsecond after the last */
        before = us;
        follower_until(&f, last);
    }
    source_rotate(&s->lists.http, LISTS_SET);
    check_history(s, last);
    follower_next(&f); /* heartbeats still come */

    /* When the clock is right again its times are used again. */
    faults_set_clock(&s->faults, 0);
    us = post_at(s, &last);
    assert_true(us > before + 10);
    follower_until(&f, last);
    follower_close(&f);
    check_history(s, last);
}

/* The same over a restart: the floor is in the log, not in the process. */
TEST(a_clock_that_was_ahead_before_a_restart_moves_nothing)
{
    struct stage *s = *state;
    struct broker *b = &s->lists.broker;
    int64_t before, us;
    uint64_t last = 0;

    LISTS_OPEN(&s->lists, "--rotate-entries", "4");
    before = post_at(s, &last);
    faults_set_clock(&s->faults, HOUR);
    us = post_at(s, &last);
    assert_true(us > before + (int64_t)HOUR * 900000);

    for (int i = 0; i < 4; i++) {
        if (i % 2)
            broker_stop(b);
        else
            broker_kill9(b);
        faults_set_clock(&s->faults, i % 2 ? -HOUR : 0);
        broker_restart(b);
        before = us;
        us = post_at(s, &last);
        assert_int_equal(us, before + 1);
        if (i == 2) /* also where the last entry is one of a closed list */
            source_rotate(&s->lists.http, LISTS_SET);
        check_history(s, last);
    }
}

/* Old by a clock that jumps: lists close, and nothing else comes of it. */
TEST(a_clock_that_jumps_forward_closes_old_lists)
{
    struct stage *s = *state;
    uint64_t last = 0;

    LISTS_OPEN(&s->lists, "--rotate-age", "1800");
    post_at(s, &last);
    faults_set_clock(&s->faults, HOUR);
    lists_await_closed(&s->lists, 1);
    faults_set_clock(&s->faults, -HOUR);
    post_at(s, &last);
    check_history(s, last);
}
