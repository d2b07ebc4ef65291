/*
 * job.h - one want, with its links in the order of the attempts.
 */
#ifndef CLIENT_DOWNLOADS_JOB_H
#define CLIENT_DOWNLOADS_JOB_H

#include "client/downloads/downloads.h"
#include "client/downloads/hosts.h"
#include "client/dumps/download.h"

struct job_link {
    char *url;
    char *hash;      /* normalised; "": none */
    uint64_t length; /* or LENGTH_NONE */
};

enum job_state { JOB_WAITS, JOB_RUNS, JOB_OVER };

struct job {
    struct hosts_job queued; /* first: cast back to the job */
    struct downloads *downloads;
    struct job *next, *prev; /* among all */
    struct job *next_over;
    enum job_state state;

    uint64_t id;
    char *file;
    char *encoding;
    struct job_link links[1 + DOWNLOADS_DUPLICATES_MAX];
    unsigned n_links;

    unsigned at;         /* the current link */
    unsigned n_attempts; /* of all links */
    bool is_anew;        /* asks past all caches */
    bool was_other;      /* this link was asked past all caches */
    uint64_t pause_ms;   /* the next pause, if its host is well */
    struct download *download;

    struct problem why; /* the failure of `loc`, then the result */
    char last[200];     /* the last failure of another link */
    char *url;          /* the final URL */
    uint64_t bytes;
};

/* Copies a want into a job, in no queue. NULL: no memory. */
struct job *job_new(const struct want *want);

/* Frees the job and ends its download. */
void job_free(struct job *job);

#endif
