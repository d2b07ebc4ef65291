/*
 * handle_loop.h - runs the events of a handle, one after the other: timers,
 * descriptors and jobs (base/loop.h), until the handle is stopped.
 *
 * Threads: a loop and all on it belong to the thread that turns it. Only a
 * job's work runs elsewhere.
 *
 * Callbacks may free their own object, and anything else on the loop: the loop
 * never calls back for a freed one. The memory of such an object stays until
 * the end of the turn (handle_loop_retire), so that the functions under way may
 * still look at it.
 */
#pragma once

#include "base/loop.h"
#include "proto/status.h"

struct handle_loop;

/* `stop_fd` becomes readable when the loop has to return. NULL: no memory, or
 * no descriptors. */
struct handle_loop *handle_loop_new(int stop_fd);

/* Free all timers and descriptors before. NULL is allowed. */
void handle_loop_free(struct handle_loop *loop);

/* For jobs: libuv's pool, which the whole process shares, has four threads,
 * unless UV_THREADPOOL_SIZE says otherwise. */
struct loop *handle_loop_base(struct handle_loop *loop);

int handle_loop_fd(const struct handle_loop *loop);
int handle_loop_timeout_ms(const struct handle_loop *loop);

/* Does what is due, without waiting. STATUS_STOPPED: stop_fd is readable.
 * STATUS_INVALID: the loop is turning already. */
enum status handle_loop_service(struct handle_loop *loop);

/* Turns until *is_over, which a callback sets. STATUS_STOPPED, STATUS_INVALID
 * as above; SIGPIPE is kept from the process meanwhile, as in
 * handle_loop_service. */
enum status handle_loop_until(struct handle_loop *loop, const bool *is_over);

/*
 * The end of an object: its memory outlives it to the end of the turn, so that
 * a function may look, behind a callback, whether that has freed the
 * object.
 *
 *     reader->on_entry(entry, reader->user);
 *     if (reader->retired.is_over)
 *         return;
 */
struct retired { /* a member of the object, zero at first */
    bool is_over;
    struct retired *next;
    void (*release)(struct retired *retired);
};

/* Calls `release`, which frees the memory, at the end of this turn; between two
 * turns, of the next. NULL: the object is one block, which begins with
 * `retired`. The object has freed its timers and exchanges, so that nothing
 * calls it any more. */
void handle_loop_retire(struct handle_loop *loop, struct retired *retired,
                        void (*release)(struct retired *retired));

/* Timers: once per start. A member of its owner's struct, which must not move
 * while the timer runs; needs no memory, so it cannot fail. */

typedef void timer_fn(void *user);

struct timer {
    struct alarm alarm;
    struct loop *loop;
    timer_fn *fn;
    void *user;
};

void timer_init(struct timer *timer, struct handle_loop *loop, timer_fn *fn,
                void *user);

/* Calls back after `ms`; 0: soon. Replaces an earlier start. */
void timer_start(struct timer *timer, uint64_t ms);

/* The owner calls it before it is freed. All zero is allowed. */
void timer_stop(struct timer *timer);

/* Descriptors: the loop calls back as long as one is ready. */

enum { READY_READ = 1, READY_WRITE = 2 };

struct descriptor;
typedef void descriptor_fn(int events, void *user);

/* NULL: no memory, or `fd` cannot be watched. */
struct descriptor *descriptor_new(struct handle_loop *loop, int fd,
                                  descriptor_fn *fn, void *user);
void descriptor_set(struct descriptor *descriptor,
                    int events); /* 0: none; at first none */

/* Call it before closing the descriptor. NULL is allowed. */
void descriptor_free(struct descriptor *descriptor);
