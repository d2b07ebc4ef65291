#include "base/jobs.h"

#include <stdlib.h>

struct at_work {
    uv_work_t handle;
    struct jobs *jobs;
    struct job *job;
};

static void
on_work(uv_work_t *handle)
{
    struct at_work *w = handle->data;

    w->job->work(w->job);
}

static void
on_work_done(uv_work_t *handle, int status)
{
    struct at_work *w = handle->data;
    struct jobs *jobs = w->jobs;
    struct job *job = w->job;

    (void)status; /* no job is ever cancelled */
    free(w);
    jobs->n--;
    job->done(job); /* which may free it */
    if (jobs->on_done)
        jobs->on_done(jobs->loop->data);
}

void
jobs_work(struct jobs *jobs, struct job *job)
{
    struct at_work *w = malloc(sizeof(*w));

    if (w) {
        /* First, because the worker may begin at once. */
        w->handle.data = w;
        w->jobs = jobs;
        w->job = job;
    }
    if (!w || uv_queue_work(jobs->loop, &w->handle, on_work, on_work_done)) {
        /* Without memory rather block than never finish. */
        free(w);
        job->work(job);
        job->done(job);
        return;
    }
    jobs->n++;
}
