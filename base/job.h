/*
 * job.h - tasks and jobs: what a thread with a loop runs for others.
 */
#ifndef BASE_JOB_H
#define BASE_JOB_H

#include "base/list.h"

/* A task that another thread posts; a member of its owner's struct. */
struct task {
    struct list node;
    void (*run)(struct task *task); /* on the loop's thread; may free it */
};

/* `work`, which may block, runs on the worker pool, then `done` on the loop's
 * thread. */
struct job {
    void (*work)(struct job *job);
    void (*done)(struct job *job); /* may free it */
};

#endif
