/*
 * deliver.c - judges messages and hands them over.
 *
 * One ordered sequence, each change exactly once. The argument, for all ways
 * that lead here (stream, events, polls, pages, lists):
 *
 *   1. `order.at` is the last entry that was handed over. Only deliver moves
 *      it, forward, together with the message that covers the entries up to
 *      there (follower_set_place, at a baseline, begins another sequence, and
 *      the message says so to the caller).
 *   2. A message is handed over only from `order.at` on. Earlier entries were
 *      handed over, by 1, and are cut off; a message that begins later waits in
 *      `kept` for the entries between. Its entries are those that it covers,
 *      one after the other (message_sequence_judge); in lists each seq is one
 *      more than the last (deliver_entry).
 *   3. Every connection begins at `order.at`, never at its own last message.
 *      Two exist at once only while a gap is filled, and then the live one is
 *      held back. So whichever breaks, whenever, the next one begins where the
 *      last whole message ended.
 *   4. Each message has its position, and `on_message` returns before the next
 *      one is made. A caller that stores the position together with the effects
 *      of the message is there after a crash, and 1 to 3 hold from there on
 *      (`after`).
 *
 * Without seqs a place is a time and the number of entries of that time up to
 * it (source_position.h): then 2 is the promise of history.h.
 */

#include "base/clock.h"
#include "client/follow/follower.h"

/* True if everything up to the head was handed over that the source stated when
 * it was sought. Where it did not, a heartbeat shows it; except the first one
 * of a connection, which is at the connection's beginning, not at the head. */
static bool
is_caught_up(const struct td_follower *f, const struct td_message *message)
{
    const struct position *at = &f->place.order.at;
    bool is_heartbeat = message->after == message->last && !message->n_changes;

    if (message->kind != TD_CHANGES || !f->place.order.is_placed)
        return false;
    if (f->place.has_goal && !strcmp(at->epoch, f->place.goal.epoch))
        return at->seq >= f->place.goal.seq;
    return f->state == FOLLOWER_LIVE && is_heartbeat &&
           (f->connection.transport == TD_LONG_POLL || f->attempts.n_heard > 1);
}

/* True if the message brings something new. A repeated baseline does not until
 * it exceeds the last one. */
static bool
is_news(struct td_follower *f, const struct td_message *message)
{
    switch (message->kind) {
    case TD_CHANGES:
        return message->n_changes > 0 || message->last > message->after;
    case TD_BASELINE_BEGIN:
        f->delivery.n_resources = 0;
        return false;
    case TD_BASELINE:
        f->delivery.n_resources += message->n_changes;
        if (f->delivery.n_resources <= f->delivery.most_resources)
            return false;
        f->delivery.most_resources = f->delivery.n_resources;
        return true;
    case TD_BASELINE_END:
        f->delivery.most_resources = 0;
        break;
    }
    return true;
}

/* The follower has handed a message over: ends at the head, if that is wanted,
 * or goes on. False: the follower has ended. */
static bool
go_on_after(struct td_follower *f, const struct td_message *message,
            bool is_at_head)
{
    struct problem why = {.rc = STATUS_OK};
    unsigned ms = 0;

    if (is_at_head && f->how.until_caught_up)
        return follower_may_compare(f) ? follower_rest(f, 0)
                                       : follower_reach(f);
    if (!follower_checkpoint_turn(f))
        return false;
    if (f->state == FOLLOWER_LIVE && follower_may_compare(f))
        timer_start(&f->timer, 0);
    /* Heartbeats alone are no progress. */
    if (f->how.until_caught_up && f->place.has_goal &&
        message->kind == TD_CHANGES && !message->n_changes) {
        problem(&why, STATUS_UNREACHABLE,
                "the source has entries up to %" PRIu64, f->place.goal.seq);
        if (!follower_is_patient(f, &why, &ms))
            return false;
    }
    follower_hold(f);
    return true;
}

bool
deliver(struct td_follower *f, struct td_message *message)
{
    bool is_new = is_news(f, message);
    bool is_at_head = is_caught_up(f, message);
    int rc;

    message->set = f->offered.name ? f->offered.name : f->offered.url;
    message->set_url = f->offered.url;
    /* The lists of a source without seqs were read when their heartbeat
     * comes. */
    message->is_caught_up =
        is_at_head ||
        (message->kind == TD_CHANGES && !message->n_changes &&
         (f->state == FOLLOWER_POLLING || f->state == FOLLOWER_SURVEYING));
    if (is_at_head && !f->how.until_caught_up)
        f->place.has_goal = false; /* there may be more by now */
    if (message->position || !message->is_comparison)
        snprintf(f->place.position, sizeof(f->place.position), "%s",
                 message->position ? message->position : "");
    if (message->kind == TD_CHANGES) {
        f->connection.is_news |= is_new;
        f->rebase.is_rebased = false;
    }

    f->is_calling = true;
    rc = f->plan.on_message(message, f->plan.message_user);
    if (!follower_is_here(f))
        return false;
    if (rc)
        return follower_fail(f, STATUS_STOPPED, "%s", "");
    if (is_new)
        f->attempts.new_ms = clock_steady_ms();
    return go_on_after(f, message, is_at_head);
}

bool
deliver_here(struct td_follower *f, struct td_message *message)
{
    char position[TD_POSITION_SIZE];
    struct source_position place;
    struct digest_text digest = digest_text(&f->place.order.digest);

    follower_place(f, &place);
    source_position_write(position, &place);
    message->position = position;
    if (f->place.order.has_digest)
        message->digest = digest.text;
    if (message->kind == TD_CHANGES)
        message->last = f->place.order.at.seq;
    message->is_unsigned = f->held.n_places > 0;
    return deliver(f, message);
}

/* How many lines of f->delivery.message may be handed over, from the first one
 * on: when a tree had a part of those that came, that part. */
static size_t
count_signed(const struct td_follower *f)
{
    const struct message_sequence *order = &f->place.order;
    const struct coverage *covers = &f->delivery.message.coverage;
    const struct position *end = &f->checkpoint.signed_to;

    return f->held.is_limited && !strcmp(end->epoch, order->at.epoch) &&
                   end->seq > order->at.seq && end->seq < covers->last
               ? (size_t)(end->seq - covers->after)
               : f->delivery.message.n_changes;
}

/* Hands over the lines of f->delivery.message from `first` on that pass the
 * filter. If the broker has filtered, all do. */
static bool
deliver_lines(struct td_follower *f, size_t first)
{
    struct follower_delivery *d = &f->delivery;
    struct message_sequence *order = &f->place.order;
    size_t n = count_signed(f);
    const struct broker_line *lines = broker_lines(&d->message);
    struct td_message m = {.kind = TD_CHANGES,
                           .after = order->at.seq,
                           .is_unproven = order->is_filtered && n > first};
    static const struct filter nothing = {.text_size = 0};
    const struct filter *filter =
        order->is_filtered ? &nothing : &f->options.filter;
    enum status rc = STATUS_OK;

    for (size_t i = first; !rc && i < n; i++)
        rc = change_batch_add_line(&d->batch, filter, &d->entry, lines[i].text);
    if (rc == STATUS_MEMORY)
        return follower_fail(f, rc, NO_MEMORY);
    if (rc)
        return follower_fail(f, rc, "an entry of the log cannot be read");
    f->held.before = *order;
    f->held.is_cut = n < d->message.n_changes;
    message_sequence_advance(order, &d->message);
    if (f->held.is_cut) {
        order->at.seq = f->checkpoint.signed_to.seq;
        order->digest = f->held.before.digest;
        order->us = lines[n - 1].us;
        for (size_t i = first; i < n; i++)
            digest_add(&order->digest, lines[i].text);
    }
    f->place.moment.is_time = false;
    return deliver_collected(f, &m);
}

bool
deliver_heartbeat(struct td_follower *f)
{
    struct td_message m = {.kind = TD_CHANGES, .after = f->place.order.at.seq};

    return deliver_here(f, &m);
}

/* Judges f->delivery.message: hands over what it has of new, or ends or begins
 * anew, because it does not continue our history. `is_page`: one that brings
 * nothing is a repeat. */
static bool
deliver_judged(struct td_follower *f, bool is_page, enum verdict *verdict)
{
    const struct coverage *there = &f->delivery.message.coverage;
    struct problem why = {.text = ""};
    size_t first;

    *verdict = message_sequence_judge(&f->place.order, &f->delivery.message,
                                      &first, &why);
    if (*verdict == VERDICT_NEW && is_page &&
        there->last <= f->place.order.at.seq)
        *verdict = VERDICT_REPEAT;
    switch (*verdict) {
    case VERDICT_NEW:
        return deliver_lines(f, first);
    case VERDICT_OTHER:
        return follower_differs(f, there->last, &there->digest);
    case VERDICT_BROKEN:
        return follower_fail(f, STATUS_MALFORMED, "%s", why.text);
    case VERDICT_GONE:
        why.rc = STATUS_GONE;
        return follower_lost_place(f, &why);
    case VERDICT_REPEAT:
    case VERDICT_GAP:
        break;
    }
    return true;
}

bool
deliver_bytes(struct td_follower *f, char *bytes, size_t size)
{
    struct problem why = {.text = ""};
    enum status rc = broker_message_read(&f->delivery.message,
                                         (struct slice){bytes, size}, &why);
    int64_t heartbeat_us = f->delivery.message.coverage.heartbeat_us;
    enum verdict verdict;

    if (rc == STATUS_MEMORY)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    if (rc)
        return follower_fail(f, rc,
                             "the broker sent something that is no message: %s",
                             why.text);
    f->connection.was_heard = f->connection.is_current = true;
    f->connection.n_mute = 0;
    f->connection.unfit.rc = STATUS_OK;
    if (heartbeat_us > 0 && !f->how.idle_ms)
        f->connection.idle_ms = live_idle_ms((uint64_t)heartbeat_us / 1000);
    if (!deliver_judged(f, false, &verdict))
        return false;
    if (verdict != VERDICT_GAP)
        return true;
    /* It waits for the entries before it. */
    buf_clear(&f->gap.kept);
    buf_add(&f->gap.kept, bytes, size);
    f->gap.upto = f->delivery.message.coverage.after;
    return f->gap.kept.failed ? follower_fail(f, STATUS_MEMORY, NO_MEMORY)
                              : f->phases[FOLLOWER_FILLING]->begin(f);
}

bool
deliver_page(struct td_follower *f, bool *is_stuck)
{
    enum verdict verdict;
    bool goes_on = deliver_judged(f, true, &verdict);

    *is_stuck = verdict == VERDICT_REPEAT || verdict == VERDICT_GAP;
    return goes_on;
}

/* With td_key_lag, unless changes that are not signed came too long ago: notes
 * the place, which no known tree has, and begins to look for one. False: the
 * changes up to the place have to wait. */
static bool
may_lag(struct td_follower *f, bool *goes_on)
{
    struct follower_held *held = &f->held;
    const struct message_sequence *order = &f->place.order;
    const struct position *end = &f->checkpoint.signed_to;
    struct unsigned_place *place;
    int64_t now_ms = clock_steady_ms();

    if (!order->has_digest ||
        (end->seq >= order->at.seq && !strcmp(end->epoch, order->at.epoch)) ||
        now_ms - (held->n_places ? held->places[0].came_ms : now_ms) >=
            (int64_t)f->client->key_lag_ms)
        return false;
    /* If there is no room, the place replaces the last one, with its time. */
    place = &held->places[held->n_places - (held->n_places == UNSIGNED_MAX)];
    if (held->n_places < UNSIGNED_MAX) {
        place->came_ms = now_ms;
        held->n_places++;
    }
    place->at = order->at;
    place->digest = order->digest;
    *goes_on = f->checkpoint.fetch || f->phases[FOLLOWER_PROVING]->check(f);
    return true;
}

/* With a key, and unless the signed tree is known to have the place: keeps
 * delivery.batch, which leads there, until the tree has it, and holds what
 * brings more. *goes_on: false, the follower has ended. False: the
 * batch need not wait. */
static bool
hold_back(struct td_follower *f, const struct td_message *message,
          bool *goes_on)
{
    const struct position *at = &f->place.order.at;
    const struct position *proven = &f->checkpoint.proven;

    if (!f->client->checks || !f->client->trust || message->after == at->seq ||
        (proven->seq == at->seq && !strcmp(proven->epoch, at->epoch)))
        return false;
    *goes_on = true;
    if (may_lag(f, goes_on))
        return !*goes_on;
    f->held.after = message->after;
    f->is_paused |= PAUSED_FOR_PROOF;
    *goes_on = f->phases[FOLLOWER_PROVING]->check(f);
    if (*goes_on)
        follower_hold(f);
    return true;
}

/* Entries of Change Lists */

bool
deliver_collected(struct td_follower *f, struct td_message *message)
{
    struct change_batch *batch = &f->delivery.batch;
    bool goes_on;

    if (message->kind == TD_CHANGES && hold_back(f, message, &goes_on))
        return goes_on;
    message->n_changes = change_batch_count(batch);
    message->changes = message->n_changes ? change_batch_seal(batch) : NULL;
    f->delivery.has_batch = false;
    goes_on = message->kind == TD_CHANGES ? deliver_here(f, message)
                                          : deliver(f, message);
    if (goes_on)
        change_batch_clear(batch);
    return goes_on;
}

bool
deliver_batch(struct td_follower *f)
{
    const struct source_position *after = &f->delivery.batch_after;
    struct td_message m = {.kind = TD_CHANGES, .is_unproven = true};

    if (!f->delivery.has_batch)
        return true;
    if (!after->is_time)
        m.after = f->delivery.batch_begin;
    follower_set_place(f, after);
    return deliver_collected(f, &m);
}

bool
deliver_proven(struct td_follower *f, const struct position *upto,
               const struct digest *digest)
{
    struct message_sequence *order = &f->place.order;
    struct td_message m = {.kind = TD_CHANGES, .after = order->at.seq};

    f->held.before = *order;
    message_sequence_set(order, upto);
    order->has_digest = true;
    order->digest = *digest;
    f->place.moment.is_time = false;
    return deliver_collected(f, &m);
}

enum status
deliver_collect(struct td_follower *f, const struct filter *filter,
                const struct document_entry *entry, bool is_change,
                const char *file)
{
    enum status rc;
    char *path = NULL;

    if (file && asprintf(&path, "%s/%s", f->options.scratch, file) < 0)
        return STATUS_MEMORY;
    rc = change_batch_add(&f->delivery.batch, filter, entry, is_change, path);
    free(path);
    return rc;
}

enum status
deliver_add(struct td_follower *f, const struct document_entry *entry,
            const struct source_position *after, const char *file)
{
    struct follower_delivery *d = &f->delivery;
    enum status rc = deliver_collect(f, &f->options.filter, entry, true, file);

    if (rc)
        return rc;
    if (!d->has_batch)
        d->batch_begin = after->at.seq - 1;
    d->batch_after = *after;
    d->has_batch = true;
    return STATUS_OK;
}

/* The first entry of all defines where the follower begins. */
bool
deliver_entry(struct td_follower *f, const struct document_entry *entry,
              const struct source_position *after, const char *file)
{
    const struct follower_delivery *d = &f->delivery;
    bool is_placed = d->has_batch || f->place.order.is_placed;
    uint64_t at = d->has_batch ? d->batch_after.at.seq : f->place.order.at.seq;

    if (!after->is_time && is_placed && after->at.seq <= at) /* a repeat */
        return true;
    if (!after->is_time && is_placed && after->at.seq != at + 1)
        return follower_fail(f, STATUS_MALFORMED,
                             "a gap before %" PRIu64
                             " that the Change Lists do not fill",
                             after->at.seq);
    if (f->how.as_of && entry->when_us > f->options.as_of_us) {
        f->lists.later_us = datetime_earlier(f->lists.later_us, entry->when_us);
        f->lists.is_over = !after->is_time; /* a log is in order of time */
        return after->is_time || (deliver_batch(f) && follower_rest(f, 0));
    }
    if (f->how.as_of && entry->when_us == DATETIME_NONE && !f->notes.doubt.rc)
        problem(&f->notes.doubt, STATUS_GONE,
                "a change has no time, and may be a later one");
    f->lists.has_changes = true;
    if (deliver_add(f, entry, after, file))
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    /* A file is the caller's only until we return. */
    return file || change_batch_is_full(&d->batch) ? deliver_batch(f) : true;
}

/*
 * Pushed messages
 *
 *     reading --> nothing more --> waiting --poll_ms--> reading
 *                                     |
 *                     message, nudge  +--continues at the place--> deliver
 *                                     +--anything else-----------> reading
 *
 * A pushed message is believed only if it continues exactly at the follower's
 * place. Anything else, a wrong message or missing ones, the follower finds out
 * by reading: so a push can only hasten that.
 */

void
push_message(struct td_follower *f, const char *bytes, size_t size)
{
    struct message_sequence order =
        f->place.order; /* message_sequence_judge may change it */
    enum verdict verdict = VERDICT_GAP; /* an unreadable one counts as that */
    struct problem why = {.text = ""};
    size_t first;
    char *copy;

    /* Notifications are XML and unfiltered. */
    if (!f->pusher.is_waiting || f->is_paused || !f->place.order.is_placed ||
        f->place.order.is_filtered || size > LIVE_MESSAGE_MAX) {
        push_nudge(f);
        return;
    }
    copy = slice_dup((struct slice){bytes, size});
    if (copy && !broker_message_read(&f->delivery.message,
                                     (struct slice){copy, size}, &why))
        verdict =
            message_sequence_judge(&order, &f->delivery.message, &first, &why);
    if (verdict == VERDICT_NEW)
        deliver_bytes(f, copy, size);
    else if (verdict != VERDICT_REPEAT)
        push_nudge(f);
    free(copy);
}
