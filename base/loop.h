/*
 * loop.h - the loop of a thread: runs what its descriptors, its alarms and
 * other threads cause, one after the other, on libuv.
 *
 *     loop_post ----> mailbox ----> task->run  --+
 *     loop_wake ------------------> on_wake    --+
 *     loop_work ----> worker pool > job->done  --+--> on_turn --> sleeps
 *     loop_set_alarm -------------> alarm->ring -+
 *     descriptors (loop_uv) ---------------------+
 *
 *     running --loop_end--> ending --mailbox empty, no jobs--> loop_run returns
 *
 * Threads: a loop belongs to the thread that runs it, and all functions are
 * called on it unless they say "any thread". Before loop_run and after it the
 * thread that made the loop owns it.
 */
#pragma once

#include "base/list.h"

/* A member of its owner's struct; all zero before its first use. Setting it
 * takes no memory, so it cannot fail. */
struct alarm {
    void (*ring)(struct alarm *alarm); /* may set it again, or free it */

    /* Readable. */
    int64_t at_us; /* steady clock, if is_set */
    bool is_set;

    /* The loop's: a pairing heap. */
    struct alarm *child; /* the first alarm below */
    struct alarm *next;  /* the next one beside */
    struct alarm *prev;  /* the one before; of the first, the one above */
};

struct at_work;
struct loop;
struct uv_loop_s;

/* A task that another thread posts; a member of its owner's struct. */
struct task {
    struct list node;
    void (*run)(struct task *task); /* may free it */
};

/* `work`, which may block, runs on the worker pool, then `done` on the loop. A
 * member of its owner's struct. */
struct job {
    void (*work)(struct job *job);
    void (*done)(struct job *job); /* may free it */
    struct at_work *at_work;       /* the loop's; NULL: not given to it */
};

struct loop_calls {
    /* After loop_wake. NULL: nothing to do. */
    void (*on_wake)(void *user);

    /* Before each sleep, after everything else of the turn. Returns true if
     * there is more to do: then the loop looks at its descriptors without
     * sleeping, and calls it again. NULL: nothing to do. */
    bool (*on_turn)(void *user);
};

/* Makes a loop, which calls back with `user`. NULL: no memory, or no
 * descriptors. */
struct loop *loop_new(const struct loop_calls *calls, void *user);

/* Frees the loop, after it has run tasks that were posted after the end.
 * Before, the user closes its own handles (uv_close); their callbacks run in
 * here. Returns false if one is still open, a mistake: then the loop is not
 * freed. NULL is allowed. */
bool loop_free(struct loop *loop);

/* Returns after loop_end. */
void loop_run(struct loop *loop);

/* Lets loop_run return: as soon as all posted tasks have run, and all jobs have
 * called `done`. From now on no alarm rings. May be repeated. */
void loop_end(struct loop *loop);

/* For a user without on_turn that turns the loop itself, instead of loop_run.
 */

/* Turns once; waits, if `may_wait`, until there is something to do. */
void loop_turn(struct loop *loop, bool may_wait);

/* Becomes readable for a task, a job, or a descriptor that was watched when the
 * last turn ended. */
int loop_fd(const struct loop *loop);

/* Milliseconds until the first alarm, 0 if it is due; -1: none is set. */
int loop_timeout_ms(const struct loop *loop);

/* The loop of libuv, for descriptors of the user. */
struct uv_loop_s *loop_uv(struct loop *loop);

/* Makes on_wake run soon. Any thread. Several calls may cause one on_wake, but
 * each is followed by one, which sees everything that its thread did before. */
void loop_wake(struct loop *loop);

/* Runs task->run on the loop. Any thread; in order per posting thread. */
void loop_post(struct loop *loop, struct task *task);

/* Between these two a loop that this thread wakes is woken at the end, or
 * before this thread wakes another one: so a loop on the same core finds all
 * tasks of a round, and not the first one. The thread must not wait for
 * anything meanwhile, nor call them twice. Any thread. */
void loop_hold_wakes(void);
void loop_release_wakes(void);

/* Runs job->work on the worker pool, then job->done here. Always calls `done`:
 * without memory both run at once, in here. */
void loop_work(struct loop *loop, struct job *job);

/* Takes a job back: `done` is not called. Waits until job->work has returned,
 * unless it has not begun; then it never runs. Does nothing if the loop does
 * not have the job. */
void loop_drop_job(struct job *job);

/* Rings once at `at_us` (steady clock) or soon after, never before this has
 * returned; if set again, only the last time counts. Needs no memory, cannot
 * fail. An alarm that is always due leaves descriptors their share. */
void loop_set_alarm(struct loop *loop, struct alarm *alarm, int64_t at_us);
void loop_clear_alarm(struct loop *loop, struct alarm *alarm);
