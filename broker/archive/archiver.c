#include "broker/archive/archiver.h"

#include <stdlib.h>

#include "broker/archive/retain.h"
#include "broker/archive/rotate.h"
#include "broker/base/clock.h"
#include "broker/base/thread.h"

/* How often lists are looked at for their age. */
#define ROUND_US 1000000

struct archiver {
    struct thread thread;
    struct rotation rotation;
};

static void
archiver_run(struct thread *t)
{
    struct archiver *a = t->user;
    int64_t wait_us = 0; /* lists that a crash left without a file come first */
    int64_t looked_us = 0;

    thread_lower_priority();
    while (thread_wait(t, wait_us)) {
        int64_t now_us = clock_steady_us();

        if (now_us - looked_us >= ROUND_US) {
            rotate_by_age(&a->rotation);
            retain_all(a->rotation.registry);
            looked_us = now_us;
        }
        /* After each file the thread looks whether it is to end. */
        wait_us = rotate_file_one(&a->rotation) ? 0 : ROUND_US;
        if (rotate_purge_some(&a->rotation))
            wait_us = 0;
    }
}

enum status
archiver_open(struct archiver **archiver, struct registry *registry,
              struct problem *why)
{
    struct archiver *a = calloc(1, sizeof(*a));
    enum status rc;

    if (!a)
        return problem(why, STATUS_MEMORY, "no memory for the archive");
    rotation_init(&a->rotation, registry);
    *archiver = a; /* first: what the thread closes wakes it */
    rc = thread_start(&a->thread, "archive", archiver_run, a, why);
    if (rc) {
        *archiver = NULL;
        free(a);
    }
    return rc;
}

void
archiver_wake(struct archiver *a)
{
    thread_wake(&a->thread);
}

unsigned
archiver_failures(struct archiver *a)
{
    return atomic_load_explicit(&a->rotation.n_failures, memory_order_relaxed);
}

void
archiver_stop(struct archiver *a)
{
    if (a)
        thread_stop(&a->thread);
}

void
archiver_close(struct archiver *a)
{
    archiver_stop(a);
    free(a);
}
