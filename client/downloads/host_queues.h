/*
 * host_queues.h - decides which host is asked next: queues, turns and pauses.
 *
 *     host_queues_push --> [queue] --> host_queues_take --> runs
 *                                      host_queues_done <----+
 *
 * A host takes its turn when a job is due, a place is free, and it is not in a
 * pause. After a failure it pauses, longer each time, and has one place until a
 * request succeeds; each success doubles its places up to `per_host`. After
 * `failures` failures in a row it is down until its pause is over: then one
 * request finds out. Failures of requests that were running when the pause
 * began count once. A host that asks for a longer pause than patience_ms is
 * down at once.
 *
 * No network, no clock: the caller passes times, in milliseconds of
 * clock_steady_ms.
 */
#pragma once

#include "base/list.h"
#include "client/lib/host_name.h"

struct host_queues_limits {
    unsigned per_host;
    unsigned failures;
    unsigned pause_ms;      /* the first pause */
    unsigned pause_most_ms; /* the longest one that grows */
    unsigned asked_most_ms; /* the longest one that a host asks for */
    unsigned patience_ms;   /* longer: the host is down; 0: never */
};

/* A job that waits for a host; part of a larger struct. */
struct queued_job {
    struct list node; /* in its queue */
    struct host *host;
    int64_t due_ms; /* waits until then */
    bool is_queued;
};

/* To be read alone. */
struct host {
    struct list node; /* in host_queues->all */
    struct websub_origin name;
    struct list waiting; /* struct queued_job */
    size_t n_waiting;
    unsigned n_running;
    unsigned n_places;
    unsigned n_failures; /* in a row */
    unsigned pause_ms;   /* the next pause */
    int64_t until_ms;    /* end of the pause; 0: none */
};

/* A member of its owner's struct. */
struct host_queues {
    struct host_queues_limits limits;
    struct list all; /* struct host; the one to ask first is at the front */
    size_t n;
};

void host_queues_init(struct host_queues *hosts,
                      const struct host_queues_limits *limits);
void
host_queues_fini(struct host_queues *hosts); /* does not touch queued jobs */

/* The host of an http or https URL, by scheme and port (host_name.h). NULL: no
 * memory, or no such URL. It stays until
 * the next host_queues_take, and as long as it has jobs or pauses after a
 * failure. */
struct host *host_queues_of(struct host_queues *hosts, struct slice url);

/* Puts a job of `host` at the end of its queue, or at its front. */
void host_queues_push(struct host *host, struct queued_job *job, bool is_first);
void host_queues_remove(struct queued_job *job);

/* Takes the next job; it holds a place until host_queues_done. NULL: none now;
 * see host_queues_wait_ms. */
struct queued_job *host_queues_take(struct host_queues *hosts, int64_t now_ms);

/* Milliseconds until a job may be due; -1: a job must end or be added first. */
int64_t host_queues_wait_ms(const struct host_queues *hosts, int64_t now_ms);

enum host_queues_end {
    HOST_QUEUES_WELL,   /* the host answered */
    HOST_QUEUES_FAILED, /* no answer, or the host asks for patience */
    HOST_QUEUES_NOTHING /* no news of the host */
};

/* Ends a job that was taken. `retry_after_s`: the host's Retry-After. */
void host_queues_done(struct host_queues *hosts, struct queued_job *job,
                      enum host_queues_end end, unsigned retry_after_s,
                      int64_t now_ms);

/* True if the host is down and in its pause. */
bool host_queues_is_down(const struct host_queues *hosts,
                         const struct host *host, int64_t now_ms);
