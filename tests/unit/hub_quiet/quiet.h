/*
 * quiet.h - the caller (broker/calls/caller.h) without a thread and without a
 * network: nothing happens but what the test makes happen, in turns, and time
 * is what it says.
 *
 * Tests that use this, by simulation.h or engine.h, are linked with quiet.c
 * instead of calls/caller.c: the linker takes no function from a part that a
 * test's own files define (tests/CMakeLists.txt).
 *
 *     caller_open -> quiet_turn: posted tasks and wakes run, calls get their
 *     turn, the turn ends -> quiet_answer, quiet_fail, quiet_pass ...
 *
 * One at a time. The test's thread; wakes and posts come from others, too.
 */
#ifndef TESTS_UNIT_HUB_QUIET_H
#define TESTS_UNIT_HUB_QUIET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/calls/caller.h"

#define QUIET_JOBS_MAX 16

/* call->own.state */
enum quiet_state {
    QUIET_NONE, /* not the caller's */
    QUIET_WAITS,
    QUIET_HAS_TURN, /* but headers and body are not there */
    QUIET_UNDER_WAY
};

struct caller {
    struct caller_options options;

    /* The test's to change */
    unsigned connections; /* calls that have their turn at once: any number */
    bool holds_jobs;      /* they wait for quiet_job; else done at once */
    void (*on_sent)(struct call *call); /* it goes out; or NULL */

    struct list calls; /* in the order of caller_start */
    unsigned n_calls, n_turns;
    struct alarm alarms; /* a ring, in the order they were set */
    unsigned n_alarms;
    struct job *jobs[QUIET_JOBS_MAX];
    unsigned n_jobs, n_jobs_made;
    struct list posted;
    atomic_bool is_woken;
    atomic_uint n_wakes; /* in all */
    bool has_stopped;
};

/* The open caller; or NULL. */
extern struct caller *quiet;

/* Turns of the loop, until there is nothing more to do. */
void quiet_turn(void);

/* A part of a turn: gives the first waiting call its turn. False: none waits,
 * or there is no room. */
bool quiet_give_turn(void);

/* The call under way, or waiting, behind `call`; the first one behind NULL. */
struct call *quiet_next(const struct call *call);

/* Ends a call that is under way; no turn is made. */
void quiet_answer(struct call *call, unsigned status, const char *body);
void quiet_fail(struct call *call, enum call_failure failure, const char *why);

/* Does the oldest job that was held; false: there is none. */
bool quiet_job(void);

/* The alarm that rings first; NULL: none is set. */
struct alarm *quiet_next_alarm(void);

/* Time goes on, and all alarms ring that are due by then, in turns. */
void quiet_pass(int64_t us);

/* The wall clock alone is set; to where it stands when a test begins. */
#define QUIET_BEGIN_US INT64_C(1800000000000000)
void quiet_set_clock(int64_t us);

#endif
