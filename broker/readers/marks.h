/*
 * marks.h - reports the logs that have news to a thread: one watch per thread
 * and log, for all its readers.
 *
 *     log thread                          the owner of the watcher
 *     commit --> watched_mark --> wake    watcher_take, watcher_next --> a log
 *                (once)                   watched_clear, then look at its head
 *
 * A log is marked from the first commit that its owner does not know until
 * watched_clear. Further commits find the mark and do nothing, so a busy log
 * wakes its owner once a look, and an owner that waits before it looks is not
 * woken again.
 *
 * No wake is lost: the mark is set after the commit was published, and cleared
 * before the owner looks at the head (marks.c has the proof). No log waits for
 * ever: watcher_next returns the taken logs, oldest mark first, and a log that
 * is marked meanwhile comes after the next watcher_take.
 *
 * A watcher and its logs belong to one thread, except what says "any thread".
 */
#pragma once

#include <stdatomic.h>

#include "broker/log/log.h"

struct watched_log;

struct watcher {
    /* Any thread */
    _Atomic(struct watched_log *) marked; /* a stack, linked by `below` */
    /* Has the owner call watcher_take soon. It must not block, because the log
     * thread calls it under the lock of a set. */
    void (*wake)(struct watcher *watcher);

    /* The owner's */
    struct list taken; /* logs for watcher_next */
};

/* A log that a thread watches; a member of the struct that reads the log. */
struct watched_log {
    struct watch watch;
    struct watcher *watcher;
    struct log_set *log;       /* the watched log; NULL: none */
    struct watched_log *below; /* on the stack, and until it is taken */
    atomic_bool is_marked;     /* on the stack, or taken and not cleared */
    bool is_taken;             /* marked, and off the stack; the owner's */
    struct list node;          /* in watcher->taken, or alone; the owner's */
};

void watcher_init(struct watcher *watcher, void (*wake)(struct watcher *));

/* Moves the marked logs from the stack to those that watcher_next returns. */
void watcher_take(struct watcher *watcher);

/* Returns the next taken log, still marked, or NULL. */
struct watched_log *watcher_next(struct watcher *watcher);

/* Gives the log a watcher: only watched_mark marks it. */
void watched_init(struct watched_log *watched, struct watcher *watcher);

/* Has each commit of `log` mark it from now on; look at the head after this
 * call, not before it. A second call does nothing. */
void watched_listen(struct watched_log *watched, struct log_set *log);

/* Ends watched_listen and takes the mark off: when this returns, nothing of the
 * watcher points at it, and its owner may free it, or listen to another log.
 * The owner must have stopped other threads that call watched_mark. */
void watched_end(struct watched_log *watched);

/* Marks a log whose news is not a commit: a relay's, or a framework event. Any
 * thread, at any time. */
void watched_mark(struct watched_log *watched);

/* True if it has news that its owner has not looked at. Any thread. */
bool watched_is_marked(const struct watched_log *watched);

/* Clears the mark before the owner looks: later news marks it again. A log that
 * is still on the stack stays marked, and comes once more. */
void watched_clear(struct watched_log *watched);
