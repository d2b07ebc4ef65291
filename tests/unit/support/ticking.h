/*
 * ticking.h - time that goes on by itself, in small steps, where a server of
 * the test's own makes pauses while the test waits for its answer.
 *
 *     struct ticking t;
 *
 *     ticking_begin(&t, 5000);     whoever waits for 5 ms or less is woken
 *     ...
 *     ticking_end(&t);
 */
#ifndef TESTS_UNIT_SUPPORT_TICKING_H
#define TESTS_UNIT_SUPPORT_TICKING_H

#include <pthread.h>
#include <stdint.h>

#include "tests/clock.h"
#include "tests/test.h"

struct ticking {
    pthread_t thread;
    int64_t us;
};

static void *
tick_on(void *user)
{
    const struct ticking *t = user;

    /* It holds nothing that would have to be given back. */
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        clock_await_us(t->us);
        clock_pass_us(t->us);
    }
    return NULL;
}

static inline void
ticking_begin(struct ticking *t, int64_t us)
{
    t->us = us;
    assert_int_equal(pthread_create(&t->thread, NULL, tick_on, t), 0);
}

static inline void
ticking_end(struct ticking *t)
{
    pthread_cancel(t->thread);
    pthread_join(t->thread, NULL);
}

#endif
