#include "broker/archive/archiver.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "broker/archive/changedumps.h"
#include "broker/archive/checking.h"
#include "broker/archive/contents.h"
#include "broker/archive/fetching.h"
#include "broker/archive/folding.h"
#include "broker/archive/generation.h"
#include "broker/archive/renewal.h"
#include "broker/archive/retain.h"
#include "broker/archive/rotate.h"
#include "broker/archive/uploads.h"

/* How often lists are looked at for their age. */
#define ROUND_US 1000000

struct archiver {
    struct thread thread;
    struct rotation rotation;
    struct folding folding;
    struct contents *contents;
    struct checking checking;
    struct fetching fetching;
    struct uploads uploads;
    struct renewal renewal;
    struct changedumps changedumps;
};

/* Who is about to place something in the folder of a set waits meanwhile. */
static bool
purge_some(struct archiver *a)
{
    bool is_more;

    contents_shut(a->contents);
    is_more = rotate_purge_some(&a->rotation);
    contents_unshut(a->contents);
    return is_more;
}

static void
archiver_run(struct thread *t)
{
    struct archiver *a = t->user;
    bool is_more = true; /* perhaps lists that a crash left without a file */
    int64_t looked_us = 0;

    thread_lower_priority();
    while (thread_wait(t, is_more ? 0 : ROUND_US)) {
        int64_t now_us = clock_steady_us();

        if (now_us - looked_us >= ROUND_US) {
            rotate_by_age(&a->rotation);
            retain_all(a->rotation.registry);
            folding_look(&a->folding);
            contents_look(a->contents);
            fetching_look(&a->fetching);
            renewal_look(&a->renewal);
            changedumps_look(&a->changedumps);
            looked_us = now_us;
        }
        /* One step of each kind a turn: while posts fill lists faster than this
         * thread files them, states and content go on, too; and while those are
         * behind, lists get files, or the database would grow. Steps are short,
         * so that the thread soon sees that it has to end: on a busy processor
         * it runs rarely, and it may not raise its priority again
         * (RLIMIT_NICE). Steps of more than milliseconds stop when the log is
         * ending (log_ending), which could not commit their results. */
        is_more = folding_some(&a->folding);
        is_more |= rotate_file_some(&a->rotation);
        is_more |= purge_some(a);
        is_more |= generation_sweep_one(a->rotation.registry);
        is_more |= contents_some(a->contents);
        is_more |= uploads_some(&a->uploads, &a->folding);
        is_more |= fetching_some(&a->fetching);
        is_more |= renewal_some(&a->renewal);
        is_more |= changedumps_some(&a->changedumps);
    }
    fetching_close(&a->fetching);
    uploads_end(&a->uploads);
    renewal_fini(&a->renewal);
    changedumps_fini(&a->changedumps);
    contents_close(a->contents);
    folding_fini(&a->folding);
}

enum status
archiver_open(struct archiver **archiver, struct registry *registry,
              const struct networks *allowed, struct problem *why)
{
    struct archiver *a = calloc(1, sizeof(*a));
    enum status rc;

    if (!a)
        return problem_memory(why);
    rotation_init(&a->rotation, registry);
    folding_init(&a->folding, registry);
    rc = uploads_init(&a->uploads, registry, a, why);
    if (!rc)
        rc = contents_new(&a->contents, registry, why);
    renewal_init(&a->renewal, registry, &a->folding, a->contents, &a->thread);
    changedumps_init(&a->changedumps, registry, a->contents);
    if (!rc)
        rc = fetching_open(&a->fetching, registry, a->contents, allowed,
                           &a->thread, why);
    if (!rc)
        rc = checking_init(&a->checking, registry, a->contents, why);
    if (rc)
        archiver_close(a);
    else
        *archiver = a;
    return rc;
}

enum status
archiver_start(struct archiver *a, struct problem *why)
{
    return thread_start(&a->thread, "archive", archiver_run, a, why);
}

void
archiver_wake(struct archiver *a)
{
    thread_wake(&a->thread);
}

struct uploads *
archiver_uploads(struct archiver *a)
{
    return &a->uploads;
}

struct contents *
archiver_contents(struct archiver *a)
{
    return a->contents;
}

enum status
archiver_order(struct archiver *a, struct renewal_order *order)
{
    return renewal_order(&a->renewal, order);
}

unsigned
archiver_failures(struct archiver *a)
{
    return atomic_load_explicit(&a->rotation.n_failures, memory_order_relaxed);
}

void
archiver_stop(struct archiver *a)
{
    if (!a)
        return;
    checking_stop(&a->checking);
    thread_stop(&a->thread);
}

void
archiver_close(struct archiver *a)
{
    archiver_stop(a);
    if (a) {
        checking_fini(&a->checking);
        fetching_close(&a->fetching); /* where the thread never began */
        contents_free(a->contents);
        uploads_fini(&a->uploads);
    }
    free(a);
}
