#include "broker/log/order.h"

#include "base/clock.h"
#include "broker/base/diag.h"

const char *const copy_state_names[COPY_STATES] = {
    [COPY_CERTAIN] = "runs",
    [COPY_CATCHING_UP] = "catching-up",
    [COPY_BEHIND] = "behind",
    [COPY_NO_TURNS] = "no-turns",
    [COPY_CUT_OFF] = "cut-off",
    [COPY_REFUSED] = "refused",
    [COPY_NO_RIGHT] = "no-right",
    [COPY_NO_ROOM] = "no-room",
    [COPY_AHEAD] = "ahead",
    [COPY_DIFFERENT] = "other-history",
    [COPY_FORGOTTEN] = "needs-backup",
};

void
order_init(struct order *o, const struct log_options *options)
{
    o->options = options;
    pthread_mutex_init(&o->mutex, NULL);
    atomic_init(&o->cuts[CUT_RECORDS].is, true);
    problem_set(&o->cuts[CUT_RECORDS].why, "the journal has not answered yet");
    o->certain_us = clock_steady_us(); /* silent_us */
    o->since_us = clock_now_us();
    o->record.max = SIZE_MAX;
    bulk_clear(&o->bulk);
}

/* The copy */

void
order_note(struct order *o, int64_t us, int64_t past_us)
{
    pthread_mutex_lock(&o->mutex);
    if (past_us > o->past_us)
        o->past_us = past_us;
    if (!o->is_certain || us > o->certain_us)
        o->certain_us = us;
    o->is_certain = true;
    pthread_mutex_unlock(&o->mutex);
    order_cut_off(o, CUT_RECORDS, NULL);
    if (o->options->on_certain)
        o->options->on_certain(o->options->wake_user);
}

void
order_note_end(struct order *o, uint64_t end)
{
    pthread_mutex_lock(&o->mutex);
    if (end > o->end)
        o->end = end;
    o->is_answering = true;
    if (o->look == COPY_CUT_OFF || o->look == COPY_REFUSED)
        o->look = COPY_CERTAIN;
    pthread_mutex_unlock(&o->mutex);
}

void
order_note_look(struct order *o, enum status rc)
{
    enum copy_state look =
        rc == STATUS_OK                                 ? COPY_CERTAIN
        : rc == STATUS_DIFFERENT                        ? COPY_DIFFERENT
        : rc == STATUS_GONE                             ? COPY_FORGOTTEN
        : rc == STATUS_NOT_FOUND                        ? COPY_AHEAD
        : rc == STATUS_BUSY || rc == STATUS_UNSUPPORTED ? COPY_BEHIND
        : rc == STATUS_REFUSED || rc == STATUS_INVALID || rc == STATUS_CONFLICT
            ? COPY_REFUSED
            : COPY_CUT_OFF;

    pthread_mutex_lock(&o->mutex);
    o->look = look;
    if (!rc || rc == STATUS_DIFFERENT || rc == STATUS_GONE)
        o->wrong = look;
    o->is_answering = look <= COPY_BEHIND || look == COPY_FORGOTTEN;
    pthread_mutex_unlock(&o->mutex);
}

static bool
is_cut(const struct order *o)
{
    return o->cuts[CUT_RECORDS].is || o->cuts[CUT_TURNS].is;
}

void
order_cut_off(struct order *o, enum order_cut_kind kind,
              const struct problem *why)
{
    bool was_cut;

    pthread_mutex_lock(&o->mutex);
    was_cut = is_cut(o);
    if (!load_relaxed(&o->cuts[kind].is))
        o->cuts[kind].at_us = clock_steady_us();
    store_relaxed(&o->cuts[kind].is, why != NULL);
    if (why)
        o->cuts[kind].why = *why;
    if (is_cut(o) != was_cut)
        o->since_us = clock_now_us();
    pthread_mutex_unlock(&o->mutex);
}

bool
order_is_certain(struct order *o, int64_t us)
{
    bool is;

    if (!o->options->journal)
        return true;
    pthread_mutex_lock(&o->mutex);
    is = o->is_certain && o->certain_us >= us;
    pthread_mutex_unlock(&o->mutex);
    return is;
}

/* Under the mutex. */
static enum copy_state
judge_copy(const struct order *o, int64_t steady_us)
{
    const struct order_cut *turns = &o->cuts[CUT_TURNS];

    if (o->wrong || o->look == COPY_AHEAD)
        return o->wrong ? o->wrong : o->look;
    if (o->cuts[CUT_RIGHTS].is)
        return COPY_NO_RIGHT;
    if (!o->is_certain || steady_us - o->certain_us >= COPY_GRACE_US)
        return o->look         ? o->look
               : o->is_certain ? COPY_BEHIND
                               : COPY_CATCHING_UP;
    return turns->is && steady_us - turns->at_us >= COPY_GRACE_US
               ? COPY_NO_TURNS
               : COPY_CERTAIN;
}

void
order_copy(struct order *o, int64_t latest_us, struct log_copy *copy)
{
    int64_t now_us = clock_now_us(), steady_us = clock_steady_us();

    *copy = (struct log_copy){.as_of_us = now_us};
    pthread_mutex_lock(&o->mutex);
    if (!o->options->journal) {
        copy->past_us = o->round_us > 0 ? o->round_us - 1 : now_us;
        pthread_mutex_unlock(&o->mutex);
        return;
    }
    copy->past_us = o->past_us;
    copy->state = judge_copy(o, steady_us);
    copy->is_cut_off = is_cut(o);
    for (size_t i = CUT_RIGHTS; i-- > 0;)
        if (o->cuts[i].is)
            copy->why = o->cuts[i].why;
    if (copy->state == COPY_NO_RIGHT)
        copy->why = o->cuts[CUT_RIGHTS].why;
    copy->since_us = o->since_us;
    copy->silent_us = steady_us - o->certain_us;
    copy->is_answering = o->is_answering;
    copy->place = o->place.n;
    copy->behind = o->end > o->place.n ? o->end - o->place.n : 0;
    if ((copy->state == COPY_CATCHING_UP && copy->behind > 0) ||
        (copy->state && !copy->why.text[0]))
        problem_set(&copy->why, "it lacks %" PRIu64 " records", copy->behind);
    copy->as_of_us =
        o->is_certain ? now_us - (steady_us - o->certain_us) : latest_us;
    pthread_mutex_unlock(&o->mutex);
    copy->age_us = now_us - copy->as_of_us;
}

/* The turn */

int64_t
order_begin(struct order *o, bool needs_turn, journal_take_fn *follow,
            void *user, struct problem *why)
{
    struct journal *journal = o->options->journal;
    int64_t now_us = 0;
    enum status rc = STATUS_OK;

    o->is_presumed = false;
    if (journal && !journal->ops->turn) {
        problem_set(why, "this broker only follows its cluster");
    } else if (journal && needs_turn) {
        o->turn_us = clock_steady_us();
        o->is_presumed = !o->is_different && journal->ops->presume &&
                         journal->ops->presume(journal, &o->place, &now_us);
        if (o->is_different)
            rc = problem(why, STATUS_DIFFERENT,
                         "this broker and the journal do not agree");
        else if (!o->is_presumed)
            rc = journal->ops->turn(journal, &o->place,
                                    buf_slice(&o->bulk.deflated), follow, user,
                                    &now_us, why);
        o->has_turn = !rc;
        if (rc)
            bulk_clear(&o->bulk);
        order_cut_off(o, CUT_TURNS, rc ? why : NULL);
        diag_failure(&o->is_denied, rc != STATUS_OK, "log",
                     "the journal gives no turn", why->text,
                     "the journal gives turns again");
    }
    if (!o->has_turn) {
        pthread_mutex_lock(&o->mutex);
        now_us = o->round_us = clock_now_us();
        pthread_mutex_unlock(&o->mutex);
    }
    return now_us;
}

void
order_end(struct order *o)
{
    pthread_mutex_lock(&o->mutex);
    o->round_us = 0;
    pthread_mutex_unlock(&o->mutex);
}

void
order_release(struct order *o)
{
    if (!o->has_turn)
        return;
    o->has_turn = false;
    o->options->journal->ops->release(o->options->journal);
}

/* The record of a round */

/* Completes the reason why a post is refused that may be done all the same: the
 * next turn, or the follower, brings the round back from the journal. To answer
 * 503 is no lie, if it says so: a client that repeats the post with its key
 * gets the first answer then. To answer 200 would be one: this broker does not
 * show the changes yet, and the set of a first post is not there. To wait would
 * keep all other posts waiting, for as long as the disk is full. */
static void
refuse_unsettled(struct problem *why, const char *what)
{
    struct problem inner = *why;

    problem_set(why, "%s: repeat it with the same Idempotency-Key (%s)", what,
                inner.text);
}

enum status
order_append(struct order *o, struct engine *engine, struct commit *commit,
             struct problem *why)
{
    struct journal *journal = o->options->journal;
    int64_t began_us;
    size_t n_shared;
    enum status rc;

    if (!o->has_turn)
        return STATUS_OK;
    buf_clear(&o->record);
    record_write(&o->record, commit, &o->bulk, &n_shared);
    if (o->record.failed)
        return problem_memory(why);
    if (n_shared == 0)
        return STATUS_OK;
    o->has_turn = false;
    o->next = o->place;
    journal_place_next(&o->next, buf_slice(&o->record));
    began_us = clock_steady_us();
    rc = journal->ops->append(journal, &o->next, buf_slice(&o->record), why);
    if (!rc) {
        /* While the journal keeps the record, the engine writes what it can of
         * `commit`: the disks work at the same time. */
        if (engine->ops->write_ahead)
            engine->ops->write_ahead(engine, commit);
        rc = journal->ops->outcome(journal, why);
        o->append_us = clock_steady_us() - began_us;
    }
    if (rc == STATUS_CONFLICT && o->record.size > RECORD_LARGE)
        bulk_write(&o->bulk, commit);
    else
        bulk_clear(&o->bulk);
    if (!rc) {
        order_note_end(o, o->next.n);
        commit->place = &o->next;
        commit->is_ahead = engine->ops->write_ahead;
    }
    if (rc == STATUS_IO)
        refuse_unsettled(why, "nobody knows yet whether the journal has kept "
                              "this");
    if (!rc || rc == STATUS_CONFLICT)
        return rc;
    order_cut_off(o, CUT_TURNS, why);
    return STATUS_BUSY; /* STATUS_IO is not the engine's */
}

void
order_settle(struct order *o, const struct commit *commit, enum status rc,
             struct problem *why)
{
    bool is_own = commit->place == &o->next;

    if (!rc && commit->place) {
        pthread_mutex_lock(&o->mutex);
        o->place = *commit->place;
        if (o->past_us < commit->at_us) /* its entries are not earlier */
            o->past_us = commit->at_us - 1;
        pthread_mutex_unlock(&o->mutex);
    }
    if (!rc && is_own)
        order_keep(o, buf_slice(&o->record));
    if (rc == STATUS_BUSY && is_own)
        refuse_unsettled(why, "the journal has kept this, and this broker "
                              "cannot yet");
}

void
order_keep(struct order *o, struct slice record)
{
    struct journal *journal = o->options->journal;

    if (journal->ops->keep)
        journal->ops->keep(journal, o->place.n, record);
}
