/*
 * hosts.h - decides which host is asked next: queues, turns and pauses.
 *
 *     hosts_push --> [queue] --> hosts_take --> runs --> hosts_done
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
 * loop_now_ms.
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
    unsigned pause_ms;      /* the first pause */
    unsigned pause_most_ms; /* the longest one that grows */
    unsigned asked_most_ms; /* the longest one that a host asks for */
    unsigned patience_ms;   /* longer: the host is down; 0: never */
};

/* A job that waits for a host; part of a larger struct. */
struct hosts_job {
    struct host *host;
    struct hosts_job *next, *prev; /* in its queue */
    int64_t due_ms;                /* waits until then */
    bool is_queued;
};

struct hosts;

struct hosts *
hosts_new(const struct hosts_limits *limits); /* NULL: no memory */
void hosts_free(struct hosts *hosts);         /* does not touch queued jobs */

/* The host of an http or https URL, by scheme and port (except the default
 * port). NULL: no memory, or no such URL (hosts_is_url). It stays until the
 * next hosts_take, and as long as it has jobs or pauses after a failure. */
struct host *hosts_of(struct hosts *hosts, struct slice url);
bool hosts_is_url(struct slice url);

/* Puts a job of `host` at the end of its queue, or at its front. */
void hosts_push(struct hosts *hosts, struct host *host, struct hosts_job *job,
                bool is_first);
void hosts_remove(struct hosts *hosts, struct hosts_job *job);

/* Takes the next job; it holds a place until hosts_done. NULL: none now; see
 * hosts_wait_ms. */
struct hosts_job *hosts_take(struct hosts *hosts, int64_t now_ms);

/* Milliseconds until a job may be due; -1: a job must end or be added first. */
int64_t hosts_wait_ms(const struct hosts *hosts, int64_t now_ms);

enum hosts_end {
    HOSTS_WELL,   /* the host answered */
    HOSTS_FAILED, /* no answer, or the host asks for patience */
    HOSTS_NOTHING /* no news of the host */
};

/* Ends a job that was taken. `retry_after_s`: the host's Retry-After. */
void hosts_done(struct hosts *hosts, struct hosts_job *job, enum hosts_end end,
                unsigned retry_after_s, int64_t now_ms);

/* True if the host is down and in its pause. */
bool hosts_is_down(const struct hosts *hosts, const struct host *host,
                   int64_t now_ms);

/* The first job in the queue; NULL: none. */
struct hosts_job *host_first(const struct host *host);

size_t host_n_waiting(const struct host *host);
const char *host_name(const struct host *host);

#endif
