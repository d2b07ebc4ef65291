/*
 * handle_loop.h - runs the events of a handle, one after the other: timers,
 * descriptors and chores, on a private libuv loop. Only handle_loop.c knows
 * that it is libuv.
 *
 * Threads: a loop and all on it belong to the thread that turns it. Only a
 * chore's work runs elsewhere.
 *
 * Callbacks may free their own object, and anything else on the loop: the loop
 * never calls back for a freed one.
 */
#ifndef CLIENT_LIB_HANDLE_LOOP_H
#define CLIENT_LIB_HANDLE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/status.h"

struct handle_loop;

/* `stop_fd` becomes readable when the loop has to return. NULL: no memory, or
 * no descriptors. */
struct handle_loop *handle_loop_new(int stop_fd);

/* Free all timers and descriptors before. NULL is allowed. */
void handle_loop_free(struct handle_loop *loop);

int handle_loop_fd(const struct handle_loop *loop);
int handle_loop_timeout_ms(const struct handle_loop *loop);

/* Does what is due, without waiting. STATUS_STOPPED: stop_fd is readable.
 * STATUS_INVALID: the loop is turning already. */
enum status handle_loop_service(struct handle_loop *loop);

/* Turns until *is_over, which a callback sets. STATUS_STOPPED, STATUS_INVALID
 * as above; SIGPIPE is kept from the process meanwhile, as in
 * handle_loop_service. */
enum status handle_loop_until(struct handle_loop *loop, const bool *is_over);

/* Timers: once per start. */

struct timer;
typedef void timer_fn(void *user);

struct timer *timer_new(struct handle_loop *loop, timer_fn *fn, void *user);
void timer_free(struct timer *timer); /* NULL is allowed */

/* Calls back after `ms`; 0: soon, in this turn if a timer's callback starts it.
 * Replaces an earlier start. */
void timer_start(struct timer *timer, uint64_t ms);
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

/* Chores: blocking work, on another thread of libuv's pool, which the whole
 * process shares (four, unless UV_THREADPOOL_SIZE says otherwise). */

struct chore;
typedef void chore_fn(void *user);

/* Runs `work` on the other thread, then `done` on the loop, which sees all that
 * `work` wrote; frees the chore before it calls `done`. NULL: no memory. */
struct chore *chore_start(struct handle_loop *loop, chore_fn *work,
                          chore_fn *done, void *user);

/* Waits until `work` has returned, unless it has not begun: then it never runs.
 * Does not call `done`. NULL is allowed. */
void chore_free(struct chore *chore);

#endif
