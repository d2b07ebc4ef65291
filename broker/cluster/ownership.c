#include "broker/cluster/ownership.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "broker/base/diag.h"

/* After a failure of `begin`, or without an answer about the lease. */
#define AGAIN_US 1000000

struct ownership {
    struct ownership_options options;
    bool is_started;
    struct thread keeper, owner;
    struct streams *of_keeper;
    struct lease lease; /* the keeper's */

    /* A stopped thread must not be woken: the keeper outlives the owner. */
    pthread_mutex_t mutex;
    bool can_wake_owner;

    /* Between the threads. `until_us` is stored last, with release order: a
     * thread that sees it sees the term to which it belongs. */
    _Atomic(uint64_t) term;
    _Atomic(int64_t) until_us; /* steady clock */

    /* The owner thread's. */
    struct lease working;         /* term 0: the work has not begun */
    struct ownership_right right; /* of `working`; all NULL without a seat */
    bool is_failing;              /* and it was said */
};

bool
ownership_is_held(const struct ownership *o)
{
    return clock_steady_us() <
           atomic_load_explicit(&o->until_us, memory_order_acquire);
}

/* The keeper */

/* It asks again when a silent owner has lost the lease, and soon when nobody
 * knows who has it. */
static int64_t
asks_in_us(const struct ownership *o, enum status rc)
{
    int64_t left_us = o->lease.seen_us + LEASE_US - clock_steady_us();

    if (rc == STATUS_UNREACHABLE)
        return AGAIN_US;
    return rc && o->lease.seen && left_us > 0 && left_us < OWNERSHIP_RENEW_US
               ? left_us
               : OWNERSHIP_RENEW_US;
}

static void
run_keeper(struct thread *t)
{
    struct ownership *o = t->user;
    int64_t wait_us = 0;

    while (thread_wait(t, wait_us)) {
        struct problem why = {""};
        int64_t from_us = clock_steady_us();
        uint64_t term = o->lease.term;
        enum status rc;

        /* A lease that has ended is asked for anew, under another term: the
         * work has been ended. */
        if (!ownership_is_held(o))
            o->lease.term = 0;
        rc = o->of_keeper->ops->hold(o->of_keeper, &o->lease, &why);
        if (rc == STATUS_CONFLICT)
            o->lease.term = 0;
        wait_us = asks_in_us(o, rc);
        if (rc)
            continue;
        if (o->lease.term != term)
            atomic_store_explicit(&o->until_us, 0, memory_order_release);
        atomic_store_explicit(&o->term, o->lease.term, memory_order_relaxed);
        atomic_store_explicit(&o->until_us,
                              from_us + LEASE_US - OWNERSHIP_MARGIN_US,
                              memory_order_release);
        pthread_mutex_lock(&o->mutex);
        if (o->can_wake_owner)
            thread_wake(&o->owner);
        pthread_mutex_unlock(&o->mutex);
    }
}

/* The owner */

static void
end_work(struct ownership *o)
{
    if (o->working.term == 0)
        return;
    o->options.end(o->options.user);
    DIAG(DIAG_INFO, "cluster", "this broker no longer owns",
         diag_text("lease", o->lease.name),
         diag_number("term", o->working.term));
    o->working.term = 0;
}

/* Says once that the work cannot begin, or be followed. */
static void
report(struct ownership *o, enum status rc, const struct problem *why)
{
    if (rc && rc != STATUS_BUSY && !o->is_failing)
        DIAG(DIAG_WARNING, "cluster", "the work of the owner fails",
             diag_text("lease", o->lease.name), diag_text("error", why->text));
    o->is_failing = rc && rc != STATUS_BUSY; /* BUSY: it is behind */
}

/* How long the owner thread has nothing to do, unless it is woken. */
static int64_t
rest_us(const struct ownership *o)
{
    int64_t left_us;

    if (o->working.term == 0)
        return ownership_is_held(o) ? AGAIN_US : OWNERSHIP_RENEW_US;
    left_us = atomic_load_explicit(&o->until_us, memory_order_acquire) -
              clock_steady_us();
    return left_us > 0 ? left_us : 0;
}

static void
run_owner(struct thread *t)
{
    struct ownership *o = t->user;
    const struct cluster_seat *seat = o->options.seat;
    struct streams *streams = o->right.streams;

    while (thread_wait(t, rest_us(o))) {
        bool is_held = ownership_is_held(o);
        struct problem why = {""};
        uint64_t n, last;
        enum status rc;

        if (!is_held || o->working.term != atomic_load_explicit(
                                               &o->term, memory_order_relaxed))
            end_work(o);
        if (!is_held) {
            report(o,
                   owned_file_follow(o->options.file, o->options.dir, streams,
                                     &why),
                   &why);
            continue;
        }
        if (o->working.term != 0)
            continue;
        /* The term first: in a later one the copy that is looked at may be
         * behind. */
        o->working = (struct lease){
            o->lease.name,
            atomic_load_explicit(&o->term, memory_order_relaxed)};
        n = seat->place(seat->user);
        rc = streams->ops->records(streams, &last, &why);
        if (!rc && n < last)
            rc = problem(&why, STATUS_BUSY,
                         "this broker's copy is %" PRIu64 " records behind",
                         last - n);
        if (!rc)
            rc = o->options.begin(&o->right, o->options.user, &why);
        report(o, rc, &why);
        if (rc)
            o->working.term = 0;
        else
            DIAG(DIAG_INFO, "cluster", "this broker owns",
                 diag_text("lease", o->lease.name),
                 diag_number("term", o->working.term));
    }
    end_work(o);
}

/* From the start to the end */

struct ownership *
ownership_new(const struct ownership_options *options)
{
    const struct cluster_seat *seat = options->seat;
    struct ownership *o = memory_new(1, sizeof(*o));

    o->options = *options;
    o->lease.name = options->file->stream;
    pthread_mutex_init(&o->mutex, NULL);
    if (seat) {
        o->of_keeper = seat->open_streams(seat->user);
        o->right = (struct ownership_right){seat->open_streams(seat->user),
                                            &o->working, o};
    }
    return o;
}

enum status
ownership_start(struct ownership *o, struct problem *why)
{
    struct db db = {NULL};
    enum status rc;

    if (o->is_started)
        return STATUS_OK;
    if (o->options.seat) {
        /* First the file, since the owner thread reads the stream a moment
         * later: a backup of that moment, too, has it. */
        rc = owned_file_open(o->options.file, &db, NULL, o->options.dir, NULL,
                             why);
        db_close(&db);
        if (!rc)
            rc = thread_start(&o->owner, "owner", run_owner, o, why);
        o->can_wake_owner = !rc;
        if (!rc)
            rc = thread_start(&o->keeper, "keeper", run_keeper, o, why);
    } else {
        rc = o->options.begin(&o->right, o->options.user, why);
    }
    o->is_started = !rc;
    if (rc)
        ownership_stop(o);
    return rc;
}

void
ownership_stop(struct ownership *o)
{
    bool was_running = o->keeper.is_running;

    pthread_mutex_lock(&o->mutex);
    o->can_wake_owner = false;
    pthread_mutex_unlock(&o->mutex);
    thread_stop(&o->owner); /* the lease is renewed until the work has ended */
    thread_stop(&o->keeper);
    if (was_running && o->lease.term > 0)
        o->of_keeper->ops->leave(o->of_keeper, &o->lease);
    atomic_store_explicit(&o->until_us, 0, memory_order_release);
    if (!o->options.seat)
        o->options.end(o->options.user);
}

void
ownership_close(struct ownership *o)
{
    if (!o)
        return;
    ownership_stop(o);
    if (o->options.seat) {
        o->of_keeper->ops->close(o->of_keeper);
        o->right.streams->ops->close(o->right.streams);
    }
    pthread_mutex_destroy(&o->mutex);
    free(o);
}
