/*
 * jobs.h - jobs (job.h) of a loop: `work` runs on libuv's worker pool, then
 * `done` on the loop's thread, which owns everything here.
 */
#ifndef BASE_JOBS_H
#define BASE_JOBS_H

#include <uv.h>

#include "base/job.h"

struct jobs {
    uv_loop_t *loop; /* its data is the owner's */
    unsigned n;      /* given to the worker pool, and not done yet */

    /* After a job's `done`, with loop->data: no job may be left. Or NULL. */
    void (*on_done)(void *owner);
};

/* Always calls `done`: without memory the job runs at once, on this thread. */
void jobs_work(struct jobs *jobs, struct job *job);

#endif
