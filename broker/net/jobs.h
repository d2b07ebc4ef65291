/*
 * jobs.h - jobs (server.h) of a loop: `work` runs on libuv's worker pool, then
 * `done` on the loop's thread, to which all of this belongs.
 */
#ifndef BROKER_NET_JOBS_H
#define BROKER_NET_JOBS_H

#include <uv.h>

#include "broker/net/server.h"

struct jobs {
    uv_loop_t *loop; /* its data is the owner's */
    unsigned n;      /* given to the worker pool and not yet done */

    /* After a job's `done`, with loop->data: no job may be left. Or NULL. */
    void (*on_done)(void *owner);
};

/* Always comes to `done`: without memory for it the job is done at once. */
void jobs_work(struct jobs *jobs, struct job *job);

#endif
