#include "broker/log/log_thread.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "broker/base/authority.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/log/log_set.h"
#include "proto/resourcesync/document_write.h"

/* A round takes posts until it has this many bytes, so that a commit stays
 * short enough for the next posts; the round still takes the post that crosses
 * it. */
#define ROUND_BYTES 8000000

/* Without posts, the log looks for room this often, so that log_health reports
 * a disk that fills up, and one that has room again. */
#define LOOK_US 1000000

/* A disk that was full is well again when it has this much room for posts:
 * three rounds. With less it may be full after the next post, and the log would
 * say both again and again. */
#define WELL_BYTES ((uint64_t)3 * ROUND_BYTES)

/* A round waits for more posts this part of the last append, or at most so
 * long: an append may take seconds, in a process that stood still. */
#define APPEND_PART     8
#define WAIT_OTHERS_MAX 5000

/* Closed lists without a file */

void
unfiled_bytes_add(struct unfiled_bytes *b, int64_t bytes)
{
    metrics_set(METRIC_UNFILED, bytes + add_relaxed(&b->bytes, bytes));
}

void
unfiled_bytes_init(struct unfiled_bytes *b, uint64_t max_bytes, uint64_t bytes)
{
    *b = (struct unfiled_bytes){.max_bytes = (int64_t)max_bytes};
    unfiled_bytes_add(b, (int64_t)bytes);
}

void
unfiled_bytes_clear(struct unfiled_bytes *b, int64_t seen)
{
    /* A list that was closed since then has changed the number. */
    if (seen != 0 &&
        atomic_compare_exchange_strong_explicit(
            &b->bytes, &seen, 0, memory_order_relaxed, memory_order_relaxed))
        metrics_set(METRIC_UNFILED, 0);
}

bool
unfiled_bytes_is_full(const struct unfiled_bytes *b)
{
    return b->max_bytes > 0 && load_relaxed(&b->bytes) >= b->max_bytes &&
           !load_relaxed(&b->has_failed);
}

/* Rounds */

static void
publish_set(struct log_thread *t, struct log_set *set)
{
    list_remove(&set->touched);
    store_relaxed(&set->public_id, set->id);
    for (size_t i = 0; i < set->n_made; i++)
        set->made[i]->committed_us = t->committed_us;
    if (set->draft.last_us > load_relaxed(&t->latest_us))
        store_relaxed(&t->latest_us, set->draft.last_us);
    tail_publish(t->tails, &set->tail, set->made, set->n_made, &set->draft);
    set->n_made = 0;
    if (set->draft.is_removed)
        tail_empty(t->tails, &set->tail);
}

/* Makes the acts of the round durable: in the journal, if there is a turn to
 * end, then in the engine. `followed`: where a round of another broker leads to
 * in the journal. */
static enum status
keep_round(struct log_thread *t, const struct journal_place *followed,
           bool *is_more, struct problem *why)
{
    const struct acts *acts = &t->sequencer.acts;
    struct commit commit = {acts->at_us, acts->all, acts->n, followed};
    enum status rc = order_append(&t->order, t->engine, &commit, why);
    int64_t began_us = clock_steady_us();

    if (rc)
        return rc;
    rc = t->engine->ops->commit(t->engine, &commit, is_more, why);
    t->committed_us = clock_steady_us();
    if (acts->n_of[ACT_BATCH] > 0)
        metrics_observe_us(METRIC_COMMIT_TIME, t->committed_us - began_us);
    if (rc) {
        metrics_add(METRIC_COMMITS_FAILED, 1);
    } else {
        for (size_t i = 0; acts->n_of[ACT_LIST_END] > 0 && i < acts->n; i++)
            if (acts->all[i].kind == ACT_LIST_END)
                unfiled_bytes_add(t->unfiled,
                                  (int64_t)acts->all[i].list_end.info.bytes);
        metrics_add(METRIC_LISTS_CLOSED, (int64_t)acts->n_of[ACT_LIST_END]);
        metrics_add(METRIC_FILES_WRITTEN, (int64_t)acts->n_of[ACT_FILED]);
    }
    order_settle(&t->order, &commit, rc, why);
    return rc;
}

/* Publishes and answers the announcement, the last post of the round.
 * conclude_round left its set out: no reader gets the announcement before the
 * owners of all other posts have their answers. */
static void
conclude_announcement(struct log_thread *t, enum status rc,
                      const struct problem *why)
{
    struct post *post = t->announcement;

    if (!post)
        return;
    t->announcement = NULL;
    post->status = rc;
    post->why = *why;
    if (!rc)
        publish_set(t, post->set);
    post->done(post);
}

/* Commits what the round placed, and makes it visible to everybody, or undoes
 * it. `followed` as in keep_round. *is_more: there are old batches to forget.
 */
static enum status
conclude_round(struct log_thread *t, enum status rc,
               const struct journal_place *followed, bool *is_more,
               struct problem *why)
{
    bool has_ended = t->sequencer.acts.n_of[ACT_LIST_END] > 0;
    size_t n_births = t->sequencer.acts.n_of[ACT_BIRTH];
    uint64_t before = t->order.place.n;
    struct log_set *set;

    if (rc == STATUS_CONFLICT) {
        problem_set(why, "the round begins anew, with the turn");
    } else if (rc) {
        rc = problem_memory(why);
    } else {
        sequencer_finish(&t->sequencer);
        rc = keep_round(t, followed, is_more, why);
    }
    if (rc == STATUS_IO) {
        /* Nobody knows whether it is kept. No answer may go out and nothing be
         * published; the next start finds out. */
        DIAG(DIAG_ERROR, "log", "the outcome of a commit is unknown",
             diag_text("error", why->text));
        _exit(1);
    }
    order_release(&t->order);
    if (rc)
        sequencer_revert(&t->sequencer);
    list_walk (set, &t->sequencer.touched, touched) {
        if (!t->announcement || set != t->announcement->set)
            publish_set(t, set);
    }
    if (!rc && n_births > 0)
        atomic_fetch_add_explicit(&t->births, n_births, memory_order_release);
    if (!rc && has_ended && t->options->on_closed)
        t->options->on_closed(t->options->wake_user);
    if (!rc && followed && t->options->on_followed)
        t->options->on_followed(t->sequencer.acts.all, t->sequencer.acts.n,
                                t->options->user);
    if (!rc && !followed && t->order.place.n > before)
        order_note(&t->order, t->order.turn_us, 0);
    acts_clear(&t->sequencer.acts);
    return rc;
}

/* Room */

static void
report_refusal(struct log_thread *t, const char *error)
{
    diag_failure(&t->is_refusing, t->is_full || t->has_failed, "log",
                 "posts are refused", error, "posts are taken again");
}

/* Asks the engine how much room posts have, and remembers for others whether
 * there is any. */
static uint64_t
look_for_room(struct log_thread *t)
{
    uint64_t room =
        t->engine->ops->room ? t->engine->ops->room(t->engine) : UINT64_MAX;

    if (room == 0)
        t->is_full = true;
    else if (room >= WELL_BYTES)
        t->is_full = false;
    store_relaxed(&t->has_room, !t->is_full);
    metrics_set(METRIC_LOG_ROOM, !t->is_full);
    report_refusal(t, LOG_NEARLY_FULL);
    return room;
}

/* Rounds of other brokers */

/* Adds the acts of a record to the round. Entries need room: without it this
 * copy stays behind until there is some; the acts that free room here need no
 * record. */
static enum status
follow_acts(struct log_thread *t, const struct record *record,
            struct problem *why)
{
    const struct log_options *options = t->options;
    bool has_entries = false;
    enum status rc = STATUS_OK;

    for (size_t i = 0; i < record->n; i++)
        has_entries |= record->acts[i].kind == ACT_BATCH ||
                       record->acts[i].kind == ACT_CONTENT;
    if (has_entries && look_for_room(t) <= record->size)
        return problem(why, STATUS_BUSY, LOG_NEARLY_FULL);
    t->sequencer.acts.at_us = record->at_us;
    for (size_t i = 0; !rc && i < record->n; i++) {
        const struct act *act = &record->acts[i];
        struct log_set *set = options->on_foreign(act, options->user);

        rc = set ? sequencer_follow(&t->sequencer, set, act, why)
                 : problem_memory(why);
    }
    return rc;
}

/* Commits the record of another broker here, and publishes it: a
 * journal_take_fn. A record that is known is passed over. */
static enum status
follow_record(const struct journal_place *place, struct slice bytes, void *user,
              struct problem *why)
{
    struct log_thread *t = user;
    struct journal_place next = t->order.place;
    struct record record = {.n = 0};
    bool is_more;
    enum status rc;

    if (place->n <= t->order.place.n)
        return STATUS_OK;
    if (place->n > t->order.place.n + 1)
        return problem(why, STATUS_AGAIN, "records are missing before %" PRIu64,
                       place->n);
    journal_place_next(&next, bytes);
    if (!digest_is_equal(&next.chain, &place->chain))
        rc = problem(why, STATUS_DIFFERENT, "its digest is another one here");
    else
        rc = record_read(&record, bytes, &t->tails->forms, why);
    if (!rc) {
        rc = follow_acts(t, &record, why);
        if (rc) {
            sequencer_revert(&t->sequencer);
            acts_clear(&t->sequencer.acts);
        } else {
            rc = conclude_round(t, STATUS_OK, &next, &is_more, why);
        }
    }
    if (!rc)
        order_keep(&t->order, bytes);
    record_fini(&record);
    if (!rc || rc == STATUS_MEMORY || rc == STATUS_BUSY)
        return rc;

    /* This copy cannot go on, and nobody can tell which of the two is right. */
    t->order.is_different = true;
    DIAG(DIAG_ERROR, "log",
         "a commit of another broker cannot be followed, and posts are refused",
         diag_number("record", (int64_t)place->n),
         diag_text("error", why->text));
    return STATUS_DIFFERENT;
}

/* True for a post that concerns no other broker. */
static bool
is_local(const struct post *post)
{
    return post->kind == POST_RECORD ||
           (post->kind == POST_ACT && act_is_local(post->act->kind));
}

/* True if changes are to wait for files of lists. A log that ends commits all
 * that was submitted. */
static bool
is_holding(struct log_thread *t)
{
    return unfiled_bytes_is_full(t->unfiled) && !t->is_ending;
}

/* Does any post wait for a round? */
static bool
has_waiting_posts(struct log_thread *t)
{
    bool is;

    pthread_mutex_lock(&t->mutex);
    is = !list_is_empty(&t->queue);
    pthread_mutex_unlock(&t->mutex);
    return is || !list_is_empty(&t->waiting) ||
           (!list_is_empty(&t->held) && !is_holding(t));
}

/* Moves what was submitted to the waiting posts. While changes wait for files
 * of lists, moves them to the held posts, and the other posts of a line, which
 * keep their order. The rest stays: these posts are few, and some of them make
 * room. */
static void
take_queue(struct log_thread *t)
{
    struct post *post;

    pthread_mutex_lock(&t->mutex);
    list_move(&t->waiting, &t->queue);
    pthread_mutex_unlock(&t->mutex);
    if (is_holding(t)) {
        list_walk (post, &t->waiting, node)
            if ((post->kind == POST_CHANGES || post->line) &&
                !post->is_never_held)
                list_put(&t->held, &post->node);
    } else if (!list_is_empty(&t->held)) {
        list_move(&t->held, &t->waiting); /* held ones came first */
        list_move(&t->waiting, &t->held);
    }
}

/* Answers the owner. The post may be freed then. A failure breaks the line of
 * the post: the log must not keep later posts of the line before it. Exceptions
 * are a fault of the post itself and STATUS_GONE, after which the owner places
 * it anew. */
static void
answer_post(struct post *post)
{
    if (post->line && post->status && post->status != STATUS_INVALID &&
        post->status != STATUS_GONE)
        post->line->is_broken = true;
    post->done(post);
}

/* What a post takes of the engine's room. */
static uint64_t
room_for_post(const struct post *post)
{
    return post->kind == POST_CHANGES
               ? post->bytes.size + post->n_fragments * FRAGMENT_STAMP_MAX
               : 0;
}

/* The posts of a round. */
struct round {
    struct list posts;    /* placed, or repeats of these */
    uint64_t room, taken; /* bytes of entries: that fit, and those placed */
    size_t bytes;         /* of all that was judged, about */
    size_t n_posts, n_entries;
    struct problem unturned; /* why it has no turn */
};

/* What a post comes to before it is placed: a repeat needs no room. */
static enum idempotency_verdict
judge_post(struct log_thread *t, const struct round *r, struct post *post)
{
    uint64_t room = r->room - r->taken;
    enum idempotency_verdict verdict = IDEMPOTENCY_NEW;

    post->status = STATUS_OK;
    /* Without a turn, posts that other brokers must know of are refused. */
    if (t->options->journal && !t->order.has_turn && !is_local(post)) {
        post->status = problem(&post->why, STATUS_BUSY, "%s", r->unturned.text);
        return IDEMPOTENCY_SETTLED;
    }
    if (post->kind != POST_CHANGES && post->kind != POST_SETTINGS)
        return IDEMPOTENCY_NEW;
    if (post->line && post->line->is_broken) {
        post->status =
            problem(&post->why, STATUS_BUSY,
                    "an earlier post that must come first was not committed");
        return IDEMPOTENCY_SETTLED;
    }
    if (post_n_keys(post) > 0)
        verdict = idempotency_judge(&t->sequencer.acts, t->engine, post);
    if (verdict == IDEMPOTENCY_NEW &&
        (room == 0 || room_for_post(post) > room)) {
        /* Acts that free room (a list's end, a file) go on. */
        post->status = problem(&post->why, STATUS_BUSY, LOG_NEARLY_FULL);
        verdict = IDEMPOTENCY_SETTLED;
    }
    if (verdict == IDEMPOTENCY_NEW && post->prepare) {
        post->status = post->prepare(post);
        if (post->status)
            verdict = IDEMPOTENCY_SETTLED;
    }
    if (verdict == IDEMPOTENCY_NEW && post_n_keys(post) > 0 &&
        idempotency_take(&t->key_shares, t->engine, t->sequencer.acts.at_us,
                         post))
        verdict = IDEMPOTENCY_SETTLED;
    return verdict;
}

/* Takes the next waiting post: adds it to the round, or answers it. The owner
 * of a post may post to a new set if its set has ended. */
static enum status
take_post(struct log_thread *t, struct round *r, struct post *post)
{
    enum status rc;

    list_remove(&post->node);
    if (post->set && post->set->draft.is_removed)
        post->status = problem(&post->why, STATUS_GONE,
                               "the set %s was removed", post->set->name);
    else
        post->status = authority_check(post->authority, t->sequencer.acts.at_us,
                                       &post->why);
    if (post->status) {
        answer_post(post);
        return STATUS_OK;
    }
    r->bytes += post->bytes.size + post->content_bytes.size +
                DOCUMENT_FRAME_MAX +
                post_n_keys(post) * IDEMPOTENCY_COMMIT_BYTES;
    switch (judge_post(t, r, post)) {
    case IDEMPOTENCY_NEW:
        list_append(&r->posts, &post->node);
        r->taken += room_for_post(post);
        r->n_posts += post->kind == POST_CHANGES;
        rc = sequencer_place(&t->sequencer, post);
        if (post->kind == POST_CHANGES)
            r->n_entries += post->last + 1 - post->first;
        return rc;
    case IDEMPOTENCY_ROUND:
        list_append(&r->posts, &post->node);
        return STATUS_OK;
    case IDEMPOTENCY_SETTLED:
        break;
    }
    if (t->order.is_presumed) { /* another broker may know better */
        list_prepend(&t->waiting, &post->node);
        return STATUS_CONFLICT;
    }
    answer_post(post);
    return STATUS_OK;
}

/* Fills the round with waiting posts, in their order. It ends before a post
 * that has to wait for the next one: a record; a post that does not fit; or one
 * whose set this round has touched, if the set ends with it, and the removal is
 * not certain yet, or post->prepare reads what this round changes. A round that
 * is repeated with its bulk takes no more than it had. */
static enum status
take_posts(struct log_thread *t, struct round *r)
{
    struct post *last = t->last_again;
    enum status rc = STATUS_OK;

    t->last_again = NULL;
    while (!rc && r->bytes < ROUND_BYTES && !list_is_empty(&t->waiting)) {
        struct post *post = list_entry(t->waiting.next, struct post, node);
        bool is_touched = post->set && !list_is_empty(&post->set->touched);

        /* A log with the turn has all records. */
        if (post->kind == POST_RECORD && t->order.has_turn &&
            post->place.n <= t->order.place.n) {
            list_remove(&post->node);
            post->status = STATUS_OK;
            post->done(post);
            continue;
        }
        if (post->kind == POST_RECORD ||
            (is_touched && (post->set->draft.is_removed || post->prepare)) ||
            (r->taken > 0 && room_for_post(post) >= r->room - r->taken))
            break;
        rc = take_post(t, r, post);
        if (post == last)
            break;
    }
    return rc;
}

static void
begin_round(struct log_thread *t, struct round *r)
{
    bool needs_turn = false;
    struct post *post;

    *r = (struct round){.bytes = 0};
    list_init(&r->posts);
    thread_show_life(&t->thread); /* rounds may follow without a wait */
    /* Records that wait before any other post: one round each. */
    list_until_empty (post, &t->waiting, node) {
        if (post->kind != POST_RECORD)
            break;
        list_remove(&post->node);
        post->status = follow_record(&post->place, post->record, t, &post->why);
        post->done(post);
    }
    if (t->options->journal)
        list_walk (post, &t->waiting, node)
            if (!is_local(post)) {
                needs_turn = true;
                break;
            }
    t->sequencer.acts.at_us =
        order_begin(&t->order, needs_turn, follow_record, t, &r->unturned);
    if (t->order.has_turn)
        take_queue(t); /* posts that came while it waited for the turn */
    r->room = look_for_room(t);
}

/* Begins the new epochs of all sets, before any entry of the round. */
static enum status
place_epochs(struct log_thread *t)
{
    struct journal *journal = t->options->journal;
    const struct act act = {.kind = ACT_EPOCH};
    struct post post = {.kind = POST_ACT, .act = &act};
    char follows[POSITION_MAX];
    struct log_set *set;
    enum status rc = STATUS_OK;

    if (!t->order.has_turn || !journal || !journal->ops->begins_epochs ||
        !journal->ops->begins_epochs(journal))
        return rc;
    pthread_mutex_lock(t->sets_mutex);
    list_walk (set, t->sets, node) {
        const struct head *draft = &set->draft;

        if (rc || !draft->exists)
            continue;
        post.set = set;
        rc = sequencer_place(&t->sequencer, &post);
        position_write(follows, draft->former, draft->began);
        DIAG(DIAG_WARNING, "log",
             "a set goes on in a new epoch: its readers take all resources "
             "anew",
             diag_text("set", set->name), diag_text("epoch", draft->epoch),
             diag_text("follows", follows),
             diag_text("because", "the cluster gave records up"));
    }
    pthread_mutex_unlock(t->sets_mutex);
    return rc;
}

/* One round; *is_more as by conclude_round. */
static void
commit_round(struct log_thread *t, bool *is_more)
{
    const struct acts *acts = &t->sequencer.acts;
    struct problem why = {""};
    struct round r;
    struct post *post;
    enum status rc;

    begin_round(t, &r);
    rc = place_epochs(t);
    if (!rc)
        rc = take_posts(t, &r);
    if (!rc && acts->n > 0 && t->options->on_acts)
        rc = t->options->on_acts(acts->all, acts->n, &t->announcement,
                                 t->options->user);
    if (!rc && t->announcement) /* behind all else */
        rc = sequencer_place(&t->sequencer, t->announcement);
    if (t->order.has_turn)
        t->order.n_together = r.n_posts;
    rc = conclude_round(t, rc, NULL, is_more, &why);
    if (rc == STATUS_CONFLICT) {
        /* The round had no turn, and another broker was first, or may have
         * been: its posts wait before all others again, as they came. */
        conclude_announcement(t, STATUS_BUSY, &(struct problem){""});
        if (t->order.bulk.deflated.size > 0)
            t->last_again = list_entry(r.posts.prev, struct post, node);
        while (!list_is_empty(&r.posts)) {
            post = list_entry(r.posts.prev, struct post, node);
            list_remove(&post->node);
            idempotency_give(post);
            post->is_birth = post->is_repeat = false;
            list_prepend(&t->waiting, &post->node);
        }
        return;
    }
    if (rc || !list_is_empty(&r.posts)) /* one without posts proves nothing */
        t->has_failed = rc != STATUS_OK;
    report_refusal(t, why.text);
    if (!rc) {
        metrics_add(METRIC_POSTS, (int64_t)r.n_posts);
        metrics_add(METRIC_ENTRIES, (int64_t)r.n_entries);
        metrics_set(METRIC_TAIL, (int64_t)(t->tails->bytes +
                                           load_relaxed(&t->tails->forms)));
    }
    loop_hold_wakes();
    list_drain (post, &r.posts, node) {
        if (rc) { /* else what it was judged to be */
            post->status = rc;
            post->why = why;
            idempotency_give(post);
        }
        if (!rc && post->kind == POST_SETTINGS)
            post->set->limits = post->limits; /* from the next round on */
        answer_post(post);
    }
    loop_release_wakes();
    conclude_announcement(t, rc, &why);
    order_end(&t->order);
}

/* True if fewer posts wait than the last round had. Records of other brokers
 * and local acts do not wait for company. */
static bool
is_short_of_posts(struct log_thread *t)
{
    const struct list *lists[] = {&t->queue, &t->waiting};
    bool is_urgent = false;
    size_t n = 0;

    pthread_mutex_lock(&t->mutex);
    for (size_t i = 0; i < 2; i++)
        for (struct list *node = lists[i]->next;
             node != lists[i] && !is_urgent && n < t->order.n_together;
             node = node->next) {
            is_urgent = is_local(list_entry(node, struct post, node));
            n++;
        }
    pthread_mutex_unlock(&t->mutex);
    return !is_urgent && n < t->order.n_together;
}

/* Waits a little for company, unless the log is ending. With a journal it then
 * waits until so many posts wait as the last round had, for a part of the time
 * that an append takes. Publishers whose posts were answered together post
 * again within a moment, but the first of them at once: in a round of its own,
 * its post would keep all others waiting for an append. */
static void
wait_for_company(struct log_thread *t)
{
    int64_t us = t->options->linger_us, now_us, end_us;
    int64_t part_us = t->order.append_us / APPEND_PART;
    struct timespec pause = {us / 1000000, us % 1000000 * 1000};

    if (us > 0 && !t->is_ending)
        nanosleep(&pause, NULL);
    now_us = clock_steady_us();
    end_us = now_us + (part_us < WAIT_OTHERS_MAX ? part_us : WAIT_OTHERS_MAX);
    while (now_us < end_us && is_short_of_posts(t) &&
           thread_wait(&t->thread, end_us - now_us))
        now_us = clock_steady_us();
}

static void
run_log_thread(struct thread *thread)
{
    struct log_thread *t = thread->user;
    bool is_more = true;

    while (thread_wait(thread, is_more ? 0 : LOOK_US)) {
        if (has_waiting_posts(t)) {
            do {
                wait_for_company(t);
                take_queue(t);
                commit_round(t, &is_more);
                t->engine->ops->tidy(t->engine);
            } while (has_waiting_posts(t));
        } else {
            struct problem why = {""};

            /* Does the journal give turns again? */
            if (load_relaxed(&t->order.cuts[CUT_TURNS].is)) {
                (void)order_begin(&t->order, true, follow_record, t, &why);
                order_release(&t->order);
            }
            (void)look_for_room(t);
            t->sequencer.acts.at_us = clock_now_us();
            if (is_more && conclude_round(t, STATUS_OK, NULL, &is_more, &why))
                is_more = false; /* again after the next post */
        }
        t->engine->ops->tidy(t->engine);
    }
    while (has_waiting_posts(t)) {
        take_queue(t);
        commit_round(t, &is_more);
    }
}

enum status
log_thread_start(struct log_thread *t, struct problem *why)
{
    pthread_mutex_init(&t->mutex, NULL);
    list_init(&t->queue);
    sequencer_init(&t->sequencer, t->engine, t->options, &t->tails->forms);
    list_init(&t->waiting);
    list_init(&t->held);
    atomic_init(&t->has_room, true);
    order_init(&t->order, t->options);
    return thread_start(&t->thread, "log", run_log_thread, t, why);
}

/* All that wake the thread hold the mutex, and look at is_ending:
 * log_thread_stop sets it under the mutex before it ends the thread. A post may
 * be committed, and the thread over, as soon as the mutex is free. */

enum status
log_thread_submit(struct log_thread *t, struct post *post, bool wake,
                  struct problem *why)
{
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&t->mutex);
    if (t->is_ending)
        rc = problem(why, STATUS_STOPPED, "the broker is ending");
    else
        list_append(&t->queue, &post->node);
    if (!rc && wake)
        thread_wake(&t->thread);
    else if (!rc)
        atomic_store(&t->is_owed_a_wake, true);
    pthread_mutex_unlock(&t->mutex);
    return rc;
}

void
log_thread_look_again(struct log_thread *t)
{
    pthread_mutex_lock(&t->mutex);
    if (!t->is_ending)
        thread_wake(&t->thread);
    pthread_mutex_unlock(&t->mutex);
}

void
log_thread_stop(struct log_thread *t)
{
    if (!t->thread.is_running)
        return;
    pthread_mutex_lock(&t->mutex);
    t->is_ending = true; /* from here on the queue only shrinks */
    pthread_mutex_unlock(&t->mutex);
    thread_stop(&t->thread);
}

void
log_thread_fini(struct log_thread *t)
{
    idempotency_fini(&t->key_shares);
    acts_fini(&t->sequencer.acts);
    buf_fini(&t->order.record);
}
