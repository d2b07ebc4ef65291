/*
 * job.h - a want that was taken: its links, in the order they are tried in.
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
    struct hosts_job queued; /* first: it is cast back */
    struct downloads *downloads;
    struct job *next, *prev; /* among all */
    struct job *next_over;
    enum job_state state;

    uint64_t id;
    char *file;
    char *encoding;
    struct job_link links[1 + DOWNLOADS_DUPLICATES_MAX];
    unsigned n_links;

    unsigned at;         /* the link that is tried */
    unsigned n_attempts; /* of all links */
    bool is_anew;        /* this link, past all caches */
    bool was_other;      /* it was tried past all caches */
    uint64_t pause_ms;   /* of this job, where its host is well */
    struct download *download;

    struct failure why; /* what `loc` failed with, then the end */
    char last[200];     /* what the last of the other links failed with */
    char *url;          /* it came from */
    uint64_t bytes;
};

/* A copy, in no queue. NULL: no memory. */
struct job *job_new(const struct want *want);

/* Ends its download, if it runs. */
void job_free(struct job *job);

#endif
