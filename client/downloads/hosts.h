/*
 * hosts.h - who is asked next: a queue per host, turns between hosts, pauses.
 *
 *     hosts_push --> [queue] --> hosts_take --> runs --> hosts_done
 *
 * A host takes its turn when something of it is due, it has a place free, and
 * it is not waiting. After a failure it waits, longer each time, and has one
 * place until it succeeds; each success doubles its places up to `per_host`.
 * After `failures` failures on end it is down until its pause is over: then one
 * request finds out. Failures of requests that were under way when it began to
 * wait count once. One that wants to be left alone for longer than we have time
 * is down at once.
 *
 * No network, no clock: times are given, in milliseconds of loop_now_ms.
 */
#ifndef CLIENT_DOWNLOADS_HOSTS_H
#define CLIENT_DOWNLOADS_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"

struct hosts_limits {
    unsigned per_host;
    unsigned failures;
    unsigned pause_ms;      /* the first */
    unsigned pause_most_ms; /* of those that grow */
    unsigned asked_most_ms; /* of those that the host asks for */
    unsigned patience_ms;   /* one that asks for a longer one is down; 0: not */
};

/* What waits for a host; part of something larger. */
struct hosts_job {
    struct host *host;
    struct hosts_job *next, *prev; /* in its queue */
    int64_t due_ms;                /* not before */
    bool is_queued;
};

struct hosts;

struct hosts *
hosts_new(const struct hosts_limits *limits); /* NULL: no memory */
void hosts_free(struct hosts *hosts); /* what was queued is not touched */

/* The host of an http or https URL, with scheme and port (but for that which
 * the scheme has anyhow). NULL: no memory, or no such URL (hosts_is_url). It
 * stays until the next hosts_take, and as long as it has jobs or is waited for.
 */
struct host *hosts_of(struct hosts *hosts, struct slice url);
bool hosts_is_url(struct slice url);

/* Puts a job of `host` at the end of its queue, or at its front. */
void hosts_push(struct hosts *hosts, struct host *host, struct hosts_job *job,
                bool is_first);
void hosts_remove(struct hosts *hosts, struct hosts_job *job);

/* The next job whose turn it is; it holds a place until hosts_done. NULL: none
 * now; see hosts_wait_ms. */
struct hosts_job *hosts_take(struct hosts *hosts, int64_t now_ms);

/* Milliseconds until a job may be due; -1: something else has to happen. */
int64_t hosts_wait_ms(const struct hosts *hosts, int64_t now_ms);

enum hosts_end {
    HOSTS_WELL,   /* it answered */
    HOSTS_FAILED, /* no answer, or it asks for patience */
    HOSTS_NOTHING /* its end says nothing of the host */
};

/* A job that was taken is over. `retry_after_s`: what the host asked for. */
void hosts_done(struct hosts *hosts, struct hosts_job *job, enum hosts_end end,
                unsigned retry_after_s, int64_t now_ms);

/* Is it down and not to be asked now? */
bool hosts_is_down(const struct hosts *hosts, const struct host *host,
                   int64_t now_ms);

/* The first in the queue; NULL: none. */
struct hosts_job *host_first(const struct host *host);

size_t host_n_waiting(const struct host *host);
const char *host_name(const struct host *host);

#endif
