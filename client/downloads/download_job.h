/*
 * download_job.h - one want, with its links in the order of the attempts.
 */
#ifndef CLIENT_DOWNLOADS_DOWNLOAD_JOB_H
#define CLIENT_DOWNLOADS_DOWNLOAD_JOB_H

#include "client/downloads/downloads.h"
#include "client/downloads/host_queues.h"
#include "client/dumps/download.h"

struct download_job_link {
    char *url;
    char *hash;      /* normalised; "": none */
    uint64_t length; /* or LENGTH_NONE */
};

enum download_job_state {
    DOWNLOAD_JOB_WAITS,
    DOWNLOAD_JOB_RUNS,
    DOWNLOAD_JOB_OVER
};

struct download_job {
    struct queued_job queued; /* first: cast back to the job */
    struct downloads *downloads;
    struct download_job *next, *prev; /* among all */
    struct download_job *next_over;
    enum download_job_state state;

    uint64_t id;
    char *file;
    char *encoding;
    struct download_job_link links[1 + DOWNLOADS_DUPLICATES_MAX];
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
struct download_job *download_job_new(const struct want *want);

/* Frees the job and ends its download. */
void download_job_free(struct download_job *job);

#endif
