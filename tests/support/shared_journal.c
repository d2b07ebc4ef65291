#include "tests/support/shared_journal.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "tests/test.h"

static struct seat *
seat_of(struct journal *journal)
{
    return (struct seat *)(void *)journal;
}

static enum status
hand_over(struct shared_journal *all, const struct journal_place *at,
          journal_take_fn *take, void *user, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (at->n > all->n ||
        (at->n > 0 &&
         !digest_is_equal(&all->records[at->n - 1].place.chain, &at->chain)))
        return problem(why, STATUS_DIFFERENT, "another history");
    for (size_t i = at->n; !rc && i < all->n; i++)
        rc = take(&all->records[i].place, buf_slice(&all->records[i].bytes),
                  user, why);
    return rc;
}

static enum status
seat_turn(struct journal *journal, const struct journal_place *at,
          struct slice bulk, journal_take_fn *take, void *user, int64_t *now_us,
          struct problem *why)
{
    struct seat *s = seat_of(journal);
    struct shared_journal *all = s->all;
    void (*before)(void *user) = s->before_turn;
    enum status rc;

    s->before_turn = NULL;
    s->n_bulk += bulk.size;
    if (before)
        before(s->user);
    pthread_mutex_lock(&all->mutex);
    s->n_turns++;
    while (all->is_taken && !all->has_no_turns)
        pthread_cond_wait(&all->changed, &all->mutex);
    if (s->is_cut)
        rc = problem(why, STATUS_UNREACHABLE, "the journal is away");
    else
        rc = hand_over(all, at, take, user, why);
    if (!rc) {
        all->is_taken = true;
        *now_us = all->now_us += 1000000;
    }
    pthread_mutex_unlock(&all->mutex);
    return rc;
}

static bool
seat_presume(struct journal *journal, const struct journal_place *at,
             int64_t *now_us)
{
    struct seat *s = seat_of(journal);

    (void)at; /* the append tells */
    pthread_mutex_lock(&s->all->mutex);
    if (s->is_presumed)
        *now_us = s->all->now_us += 1000;
    pthread_mutex_unlock(&s->all->mutex);
    return s->is_presumed;
}

/* The caller has the mutex. */
static void
leave_turn(struct shared_journal *all)
{
    all->is_taken = false;
    pthread_cond_broadcast(&all->changed);
}

static void
keep(struct shared_journal *all, const struct journal_place *place,
     struct slice record)
{
    struct shared_record *r = &all->records[all->n++];

    assert(all->n <= SHARED_RECORDS_MAX && place->n == all->n);
    r->place = *place;
    buf_init(&r->bytes, SIZE_MAX);
    buf_add_slice(&r->bytes, record);
}

static enum status
seat_append(struct journal *journal, const struct journal_place *place,
            struct slice record, struct problem *why)
{
    static const enum status outcomes[] = {
        [SEAT_KEPT] = STATUS_OK,
        [SEAT_LOST] = STATUS_UNREACHABLE,
        [SEAT_UNKNOWN_KEPT] = STATUS_IO,
        [SEAT_UNKNOWN_LOST] = STATUS_IO,
    };
    struct seat *s = seat_of(journal);
    struct shared_journal *all = s->all;
    void (*before)(void *user) = s->before_append;
    enum status rc = outcomes[s->outcome];

    s->before_append = NULL;
    if (before)
        before(s->user);
    pthread_mutex_lock(&all->mutex);
    if (place->n != all->n + 1) {
        all->n_conflicts++;
        s->is_presumed = false;
        rc = problem(why, STATUS_CONFLICT, "another was first");
    } else {
        if (s->outcome == SEAT_KEPT || s->outcome == SEAT_UNKNOWN_KEPT)
            keep(all, place, record);
        if (rc)
            problem_set(why, "the journal went away");
    }
    leave_turn(all);
    pthread_mutex_unlock(&all->mutex);
    s->coming = rc;
    s->coming_why = *why;
    return STATUS_OK;
}

static enum status
seat_outcome(struct journal *journal, struct problem *why)
{
    struct seat *s = seat_of(journal);
    void (*before)(void *user) = s->before_outcome;

    s->before_outcome = NULL;
    if (before)
        before(s->user);
    *why = s->coming_why;
    return s->coming;
}

static void
seat_release(struct journal *journal)
{
    struct shared_journal *all = seat_of(journal)->all;

    seat_of(journal)->is_presumed = false;
    pthread_mutex_lock(&all->mutex);
    leave_turn(all);
    pthread_mutex_unlock(&all->mutex);
}

static void
seat_look(struct journal *journal)
{
    struct seat *s = seat_of(journal);

    pthread_mutex_lock(&s->all->mutex);
    s->n_looks++;
    pthread_cond_broadcast(&s->all->changed);
    pthread_mutex_unlock(&s->all->mutex);
}

static const struct journal_ops seat_ops = {
    .turn = seat_turn,
    .presume = seat_presume,
    .append = seat_append,
    .outcome = seat_outcome,
    .release = seat_release,
    .look = seat_look,
};

void
shared_journal_init(struct shared_journal *all)
{
    memset(all, 0, sizeof(*all));
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    all->now_us = INT64_C(1775067000000000);
}

void
shared_journal_fini(struct shared_journal *all)
{
    for (size_t i = 0; i < all->n; i++)
        buf_fini(&all->records[i].bytes);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
}

struct journal *
seat_take(struct seat *seat, struct shared_journal *all)
{
    *seat = (struct seat){.journal = {&seat_ops}, .all = all};
    return &seat->journal;
}

void
shared_journal_follow(struct shared_journal *all, struct log *log)
{
    for (size_t n = 0; n < all->n; n++) {
        struct post post = {.kind = POST_RECORD,
                            .record = buf_slice(&all->records[n].bytes),
                            .place = all->records[n].place};
        struct problem why;

        if (log_post_and_wait(log, &post, &why))
            fail_msg("%s", why.text);
    }
}

unsigned
seat_looks(struct seat *s)
{
    unsigned n;

    pthread_mutex_lock(&s->all->mutex);
    n = s->n_looks;
    pthread_mutex_unlock(&s->all->mutex);
    return n;
}

void
seat_await_looks(struct seat *s, unsigned n)
{
    pthread_mutex_lock(&s->all->mutex);
    while (s->n_looks < n)
        pthread_cond_wait(&s->all->changed, &s->all->mutex);
    pthread_mutex_unlock(&s->all->mutex);
}

void
seat_follow(struct seat *s, struct log *log)
{
    int64_t asked_us = clock_steady_us();

    log_note_end(log, s->all->n);
    shared_journal_follow(s->all, log);
    log_note_copy(log, asked_us, 0, STATUS_OK, NULL);
}
