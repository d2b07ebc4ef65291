#include "broker/cluster/ownership.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/thread.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"

/* After a failure of `begin`, or without an answer about the lease. */
#define AGAIN_US 1000000

/* After so many failures of `begin` the part is for others, for so long: its
 * patient ones need twice LEASE_US. */
#define BEGINS_MAX 5
#define REST_US    60000000

/* How a part is given back: the keeper asks the owner thread to end the work,
 * renews the lease until that has happened, and then ends the lease.
 *
 *     STAYS --keeper--> ENDS --owner: the work has ended--> HAS_ENDED
 *       ^                                                      |
 *       '------------------ keeper: the lease has ended -------'
 */
enum { STAYS, ENDS, HAS_ENDED };

struct ownership {
    struct ownership_options options;
    bool is_started;
    struct thread keeper, owner;
    struct streams *of_keeper, *of_owner;

    /* A stopped thread must not be woken: the keeper outlives the owner. */
    pthread_mutex_t mutex;
    bool can_wake_owner;

    /* Grows at its front, for the names of all times are few. */
    _Atomic(struct owned_part *) parts;
    struct ownership_right none; /* without a seat */

    struct buf begun, ended; /* in this look of the owner thread */

    /* The keeper's */
    uint64_t n_brokers, n_before; /* as of the last answer */
    enum ability ability;         /* in this round */
};

bool
ownership_is_held(const struct owned_part *p)
{
    return clock_steady_us() <
           atomic_load_explicit(&p->until_us, memory_order_acquire);
}

/* The keeper */

/* It asks again when a silent owner has lost the lease, and soon when nobody
 * knows who has it. */
static int64_t
asks_in_us(const struct owned_part *p, enum status rc)
{
    int64_t left_us = p->lease.seen_us + LEASE_US - clock_steady_us();

    if (rc == STATUS_UNREACHABLE)
        return AGAIN_US;
    return rc && p->lease.seen && left_us > 0 && left_us < OWNERSHIP_RENEW_US
               ? left_us
               : OWNERSHIP_RENEW_US;
}

/* How many more parts this broker may take now; less than 0: give back. Without
 * an answer the shares are as before. */
static int64_t
count_room(struct ownership *o)
{
    uint64_t n_brokers = o->n_brokers, n_before = o->n_before, n = 0, least;
    int64_t n_held = 0;
    struct problem why;

    if (o->options.is_divided)
        (void)o->of_keeper->ops->brokers(o->of_keeper, &n_brokers, &n_before,
                                         &least, &why);
    for (struct owned_part *p = o->parts; p; p = p->next) {
        if (n_brokers != o->n_brokers || n_before != o->n_before)
            p->is_surplus = false;
        n += p->is_wanted;
        n_held += p->lease.term > 0 && p->leaving == STAYS && !p->is_surplus;
    }
    o->n_brokers = n_brokers;
    o->n_before = n_before;
    n_brokers += n_brokers == 0; /* this one, which has not reported yet */
    n = o->ability == IS_ABLE ? share_of(n, n_brokers, n_before) : 0;
    return (int64_t)n - n_held;
}

/* This broker has the lease for so long, as of before it asked. */
static void
extend(struct owned_part *p, int64_t from_us)
{
    store_relaxed(&p->term, p->lease.term);
    atomic_store_explicit(&p->until_us,
                          from_us + LEASE_US - OWNERSHIP_MARGIN_US,
                          memory_order_release);
}

/* Renews what this broker has, LEASES_MAX at a time: a transaction for each
 * lease would cost PostgreSQL more than the changes do. */
static void
renew_all(struct ownership *o)
{
    struct owned_part *p = o->parts, *of[LEASES_MAX];

    while (p) {
        struct leases batch = {{NULL}};
        int64_t from_us = clock_steady_us();
        struct problem why = {""};
        unsigned kept = 0;
        size_t n = 0;
        enum status rc = STATUS_OK;

        for (; p && n < LEASES_MAX; p = p->next) {
            p->is_renewed = p->lease.term > 0 && p->leaving != HAS_ENDED &&
                            ownership_is_held(p) && o->ability != IS_UNABLE;
            if (!p->is_renewed)
                continue;
            batch.all[n] = &p->lease;
            of[n++] = p;
        }
        if (n > 0)
            rc = o->of_keeper->ops->renew(o->of_keeper, &batch, &kept, &why);
        for (size_t i = 0; i < n; i++) {
            of[i]->renewal = rc;
            if (!rc && kept >> i & 1) {
                extend(of[i], from_us);
            } else if (!rc) {
                of[i]->renewal = STATUS_CONFLICT;
                of[i]->lease.term = 0;
            }
        }
    }
}

/* Takes the lease. */
static enum status
hold(struct ownership *o, struct owned_part *p)
{
    struct problem why = {""};
    int64_t from_us = clock_steady_us();
    uint64_t term = p->lease.term;
    enum status rc;

    /* A lease that has ended is asked for anew, under another term: the work
     * has been ended. */
    if (!ownership_is_held(p))
        p->lease.term = 0;
    rc = o->of_keeper->ops->hold(o->of_keeper, &p->lease, &why);
    if (rc == STATUS_CONFLICT)
        p->lease.term = 0;
    if (rc)
        return rc;
    if (p->lease.term != term)
        atomic_store_explicit(&p->until_us, 0, memory_order_release);
    extend(p, from_us);
    return STATUS_OK;
}

static void
give_back(struct ownership *o, struct owned_part *p)
{
    atomic_store_explicit(&p->until_us, 0, memory_order_release);
    if (p->lease.term > 0)
        o->of_keeper->ops->leave(o->of_keeper, &p->lease);
    p->leaving = STAYS;
}

/* Returns when it has to look at the part again. */
static int64_t
look_at_lease(struct ownership *o, struct owned_part *p, int64_t *room)
{
    bool was_held = p->lease.term > 0, has_room = *room > 0;
    bool is_wanted =
        p->is_wanted && o->ability != IS_UNABLE &&
        clock_steady_us() >= load_relaxed(&p->rests_us) &&
        (!o->options.may_own || o->options.may_own(o->options.user));
    enum status rc;

    if (p->leaving == HAS_ENDED)
        give_back(o, p);
    if (p->lease.term == 0 && (was_held || !is_wanted))
        return OWNERSHIP_RENEW_US;
    if (was_held && p->leaving == STAYS &&
        (!is_wanted || (*room < 0 && !p->is_surplus))) {
        p->leaving = ENDS;
        ++*room;
    }
    p->lease.is_patient = p->lease.term == 0 && !has_room;
    rc = p->is_renewed ? p->renewal : is_wanted ? hold(o, p) : STATUS_REFUSED;
    if (!was_held && p->lease.term > 0) {
        p->is_surplus = !has_room;
        *room -= has_room;
    }
    return asks_in_us(p, rc);
}

static void
run_keeper(struct thread *t)
{
    struct ownership *o = t->user;
    int64_t wait_us = 0;

    while (thread_wait(t, wait_us)) {
        const struct cluster_seat *seat = o->options.seat;
        bool has_some = false;
        int64_t room;

        (void)seat->place(seat->user, &o->ability);
        room = count_room(o);
        renew_all(o);

        wait_us = OWNERSHIP_RENEW_US;
        for (struct owned_part *p = o->parts; p; p = p->next) {
            int64_t again_us = look_at_lease(o, p, &room);

            wait_us = again_us < wait_us ? again_us : wait_us;
            has_some |= p->lease.term > 0;
        }
        pthread_mutex_lock(&o->mutex);
        if (has_some && o->can_wake_owner)
            thread_wake(&o->owner);
        pthread_mutex_unlock(&o->mutex);
    }
}

/* The owner */

/* Says what a look has begun or ended, in one line for all parts: "NAME:TERM
 * ...".
 */
static void
say(const char *text, struct buf *parts)
{
    buf_add(parts, "", 1);
    if (parts->size > 1)
        DIAG(DIAG_INFO, "cluster", text, diag_text("leases", parts->data + 1));
    buf_clear(parts);
}

static void
end_work(struct ownership *o, struct owned_part *p)
{
    if (p->working.term == 0)
        return;
    o->options.end(&p->right, o->options.user);
    if (p->right.streams)
        p->right.streams->ops->close(p->right.streams);
    metrics_add(METRIC_CLUSTER_LEASES, -1);
    buf_add_format(&o->ended, " %s:%" PRIu64, p->stream, p->working.term);
    p->working.term = 0;
}

/* Says once that the work cannot begin, or be followed. */
static void
report(struct owned_part *p, enum status rc, const struct problem *why)
{
    if (rc && (rc != STATUS_BUSY || p->n_failed == BEGINS_MAX) &&
        !p->is_failing)
        DIAG(DIAG_WARNING, "cluster", "the work of the owner fails",
             diag_text("lease", p->stream), diag_text("error", why->text));
    p->is_failing = rc && rc != STATUS_BUSY; /* BUSY: it is behind */
}

static void
begin_work(struct ownership *o, struct owned_part *p)
{
    const struct cluster_seat *seat = o->options.seat;
    struct problem why = {""};
    uint64_t n, last;
    enum status rc;

    /* The term first: in a later one the copy that is looked at may be
     * behind. */
    p->working = (struct lease){p->stream, load_relaxed(&p->term)};
    n = seat->place(seat->user, NULL);
    rc = o->of_owner->ops->records(o->of_owner, &last, &why);
    if (!rc && n < last)
        rc = problem(&why, STATUS_BUSY,
                     "this broker's copy is %" PRIu64 " records behind",
                     last - n);
    if (!rc) {
        p->right = (struct ownership_right){NULL, &p->working, p};
        if (!p->file.is_shared)
            p->right.streams = seat->open_streams(seat->user);
        rc = o->options.begin(&p->right, o->options.user, &why);
        if (rc && p->right.streams)
            p->right.streams->ops->close(p->right.streams);
    }
    p->n_failed = rc ? p->n_failed + 1 : 0;
    report(p, rc, &why);
    if (rc) {
        p->working.term = 0;
        metrics_add(METRIC_CLUSTER_FAILURES, 1);
        if (p->n_failed == BEGINS_MAX) {
            p->n_failed = 0;
            store_relaxed(&p->rests_us, clock_steady_us() + REST_US);
            thread_wake(&o->keeper);
        }
        return;
    }
    metrics_add(METRIC_CLUSTER_LEASES, 1);
    buf_add_format(&o->begun, " %s:%" PRIu64, p->stream, p->working.term);
}

static void
look_at_work(struct ownership *o, struct owned_part *p)
{
    bool is_held = ownership_is_held(p), is_leaving = p->leaving == ENDS;
    struct problem why = {""};

    if (!is_held || is_leaving || p->working.term != load_relaxed(&p->term))
        end_work(o, p);
    if (is_leaving) {
        p->leaving = HAS_ENDED;
        thread_wake(&o->keeper);
    } else if (!is_held && !p->file.is_shared) {
        report(p,
               owned_file_follow(&p->file, o->options.dir, o->of_owner, &why),
               &why);
    } else if (is_held && p->working.term == 0 && p->leaving == STAYS) {
        begin_work(o, p);
    }
}

/* How long the owner thread has nothing to do, unless it is woken. */
static int64_t
rest_us(const struct ownership *o)
{
    int64_t least_us = OWNERSHIP_RENEW_US;

    for (struct owned_part *p = o->parts; p; p = p->next) {
        int64_t left_us = p->until_us - clock_steady_us();

        if (p->working.term == 0)
            left_us = left_us > 0 ? AGAIN_US : OWNERSHIP_RENEW_US;
        least_us = left_us < least_us ? left_us : least_us;
    }
    return least_us > 0 ? least_us : 0;
}

static void
run_owner(struct thread *t)
{
    struct ownership *o = t->user;
    bool goes_on = true;

    while (goes_on) {
        goes_on = thread_wait(t, rest_us(o));
        for (struct owned_part *p = o->parts; p; p = p->next)
            if (goes_on)
                look_at_work(o, p);
            else
                end_work(o, p);
        say("this broker owns", &o->begun);
        say("this broker no longer owns", &o->ended);
    }
}

/* From the start to the end */

static void
add_part(struct ownership *o, const char *name)
{
    struct owned_part *p = memory_new(1, sizeof(*p));
    const char *stream = o->options.file->stream;

    p->next = o->parts;
    p->file = *o->options.file;
    snprintf(p->stream, sizeof(p->stream), name ? "%s/%s" : "%s", stream, name);
    p->file.stream = p->stream;
    if (name)
        p->file.part_of_rows = p->stream + strlen(stream) + 1;
    p->lease = (struct lease){.name = p->stream, .seen_us = clock_steady_us()};
    o->parts = p;
}

void
ownership_divide(struct ownership *o, const char *const *names, size_t n)
{
    struct owned_part *p;

    for (size_t i = 0; i < n; i++) {
        for (p = o->parts; p && strcmp(p->file.part_of_rows, names[i]);)
            p = p->next;
        if (!p)
            add_part(o, names[i]);
    }
    for (p = o->parts; p; p = p->next) {
        size_t i = 0;

        while (i < n && strcmp(p->file.part_of_rows, names[i]) != 0)
            i++;
        metrics_add(METRIC_CLUSTER_PARTS, (i < n) - p->is_wanted);
        p->is_wanted = i < n;
    }
    if (o->is_started)
        thread_wake(&o->keeper);
}

struct ownership *
ownership_new(const struct ownership_options *options)
{
    const struct cluster_seat *seat = options->seat;
    struct ownership *o = memory_new(1, sizeof(*o));

    o->options = *options;
    o->n_brokers = 1;
    o->begun.max = o->ended.max = SIZE_MAX;
    pthread_mutex_init(&o->mutex, NULL);
    if (seat) {
        o->of_keeper = seat->open_streams(seat->user);
        o->of_owner = seat->open_streams(seat->user);
        if (!options->is_divided) {
            add_part(o, NULL);
            o->parts->is_wanted = true;
        }
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
        rc = o->options.begin(&o->none, o->options.user, why);
    }
    o->is_started = !rc;
    if (rc)
        ownership_stop(o);
    return rc;
}

void
ownership_stop(struct ownership *o)
{
    pthread_mutex_lock(&o->mutex);
    o->can_wake_owner = false;
    pthread_mutex_unlock(&o->mutex);
    thread_stop(&o->owner); /* the lease is renewed until the work has ended */
    thread_stop(&o->keeper);
    for (struct owned_part *p = o->parts; p; p = p->next)
        give_back(o, p);
    if (!o->options.seat)
        o->options.end(&o->none, o->options.user);
}

void
ownership_close(struct ownership *o)
{
    struct owned_part *p;

    if (!o)
        return;
    ownership_stop(o);
    if (o->options.seat) {
        o->of_keeper->ops->close(o->of_keeper);
        o->of_owner->ops->close(o->of_owner);
    }
    while ((p = o->parts)) {
        o->parts = p->next;
        free(p);
    }
    buf_fini(&o->begun);
    buf_fini(&o->ended);
    pthread_mutex_destroy(&o->mutex);
    free(o);
}
