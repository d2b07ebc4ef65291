/*
 * follower.c - the states of a follower, its pauses and its end.
 */
#include "client/follow/follower.h"

#include "base/clock.h"
#include "client/lib/pause.h"

/* States */

static void
drop_reading(struct td_follower *f)
{
    if (f->reading.what)
        f->reading.free(f->reading.what);
    f->reading.what = NULL;
}

static void
drop_live(struct td_follower *f)
{
    live_free(f->live);
    f->live = NULL;
    f->connection.has_end = false;
    buf_fini(&f->gap.kept);
}

/*
 * The only place where the state changes. It frees what the new state does not
 * need, even in a callback of it.
 *
 *                    +----------+
 *       open ------> | SEEKING  | <-----------------------------+
 *                    +----------+                               |
 *                      |  |   |  wants a baseline   +---------+ |
 *           +----------+  |   +-------------------> |REBASING | |
 *           v             v             +---------- +---------+ |
 *      +---------+     +------+ <-------+                ^      |
 *      | POLLING,|     | LIVE | <---> FILLING            |      |
 *      |SURVEYING|     +------+    gap     |             |      |
 *      +---------+        |                |             |      |
 *         |  ^            |                v             |      |
 *         |  |            +------------> gone -----------+------+ sought anew
 *         v  |            v
 *      +---------+  lost, over, busy, lists read: after a pause it goes on
 *      | RESTING |  with the next step (follower_go)
 *      +---------+
 *
 *      from each: ENDED
 */
void
follower_enter(struct td_follower *f, enum follower_state state)
{
    if (state != FOLLOWER_FILLING && state != FOLLOWER_LIVE)
        drop_live(f);
    drop_reading(f);
    f->gap.has_page = false;
    f->lists.has_end = false;
    buf_fini(&f->gap.body);
    change_batch_clear(&f->delivery.batch);
    f->delivery.has_batch = false;
    if (f->is_paused & PAUSED_FOR_PROOF) { /* they are read again */
        f->place.order = f->held.before;
        f->is_paused &= ~(unsigned)PAUSED_FOR_PROOF;
    }
    timer_stop(&f->timer);
    f->is_due = false;
    f->pusher.is_waiting = false;
    f->state = state;
}

void
follower_hold(struct td_follower *f)
{
    struct follower_reading *reading = &f->reading;
    bool is_held = f->is_paused != 0;

    if (f->live)
        live_hold(f->live, is_held || f->state == FOLLOWER_FILLING);
    if (!reading->what || !reading->hold || reading->is_held == is_held)
        return;
    reading->is_held = is_held;
    reading->hold(reading->what, is_held);
}

bool
follower_reads(struct td_follower *f, void *what, void (*free_it)(void *what),
               void (*hold_it)(void *what, bool is_held))
{
    f->reading =
        (struct follower_reading){what, free_it, hold_it, .is_held = false};
    if (!what)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    follower_hold(f);
    return true;
}

void
follower_unpause(struct td_follower *f, unsigned by)
{
    f->is_paused &= ~by;
    if (f->is_paused || f->state == FOLLOWER_ENDED)
        return;
    if (f->state != FOLLOWER_RESTING || f->is_due)
        timer_start(&f->timer, 0);
    f->is_due = false;
}

void
follower_continue(void *follower)
{
    struct td_follower *f = follower;
    const struct phase *phase = f->phases[f->state];

    if (f->is_paused)
        f->is_due = true;
    else if (f->state == FOLLOWER_RESTING)
        follower_go(f);
    else if (f->state == FOLLOWER_LIVE && follower_may_compare(f))
        follower_rest(f, 0);
    else if (phase && phase->go_on && !f->reading.what)
        phase->go_on(f);
    else
        follower_hold(f);
}

bool
follower_may_compare(const struct td_follower *f)
{
    const struct follower_comparison *c = &f->comparison;
    int64_t now_ms = clock_steady_ms();
    struct source_position place;

    if (!f->offered.resource_list || follower_has_only_list(f) ||
        !follower_place(f, &place) || place.is_end)
        return false;
    /* Lists of Tidings are proven: the interval is for others. */
    if (!c->is_wanted)
        return f->how.compare_ms && place.is_time &&
               now_ms - c->interval_ms >= (int64_t)f->how.compare_ms;
    return now_ms - c->compared_ms >= REBASE_LEAST_MS;
}

const char *
follower_epoch(const struct td_follower *f, struct position *head)
{
    if (position_read(slice_of(f->offered.position), head))
        head->epoch[0] = '\0';
    return f->place.order.at.epoch[0] &&
                   !(f->rebase.is_wanted && head->epoch[0])
               ? f->place.order.at.epoch
               : head->epoch;
}

bool
follower_checkpoint_is_due(const struct td_follower *f, bool is_end)
{
    const struct follower_checkpoint *c = &f->checkpoint;
    const struct message_sequence *order = &f->place.order;
    struct position head = {.seq = 0};
    const char *epoch;

    if (!f->client->checks || f->how.as_of)
        return false;
    if (!f->offered.checkpoint)
        return true; /* and refused */
    epoch = follower_epoch(f, &head);
    /* Another log: its stream says so, and the follower has no place then. */
    if (!epoch[0] || (head.epoch[0] && strcmp(head.epoch, epoch) != 0))
        return false;
    /* At a beginning there is no digest before the first message. */
    return clock_steady_ms() >= c->due_ms ||
           strcmp(c->signed_to.epoch, epoch) != 0 ||
           (is_end && f->held.n_places > 0) ||
           (order->has_digest && c->asked_seq != order->at.seq &&
            (is_end || !c->has_digest));
}

bool
follower_go(struct td_follower *f)
{
    if (!f->search.is_sought)
        return f->phases[FOLLOWER_SEEKING]->begin(f);
    if (follower_checkpoint_is_due(f, false))
        return f->phases[FOLLOWER_PROVING]->begin(f);
    /* A comparison before the changes would find them in the list, and the
     * caller would get them twice. */
    if (f->rebase.is_wanted ||
        (f->connection.is_current && follower_may_compare(f)))
        return f->phases[FOLLOWER_REBASING]->begin(f);
    return f->phases[f->how.as_of ? FOLLOWER_POLLING : FOLLOWER_LIVE]->begin(f);
}

bool
follower_rest(struct td_follower *f, uint64_t ms)
{
    follower_enter(f, FOLLOWER_RESTING);
    timer_start(&f->timer, ms);
    return false;
}

bool
follower_wait(struct td_follower *f)
{
    bool is_nudged = f->pusher.is_nudged;

    if (follower_may_compare(f))
        return follower_rest(f, 0);
    f->connection.is_current = false;
    f->pusher.is_nudged = false;
    follower_rest(f, is_nudged ? 0 : f->how.poll_ms);
    f->pusher.is_waiting = !is_nudged;
    return false;
}

void
push_nudge(struct td_follower *f)
{
    if (!f->pusher.is_waiting) { /* follower_wait sees it after the reading */
        f->pusher.is_nudged = true;
        return;
    }
    f->pusher.is_waiting = false;
    timer_start(&f->timer, 0); /* in a pause this sets is_due */
}

bool
follower_report(struct td_follower *f, const char *why, unsigned ms)
{
    if (!f->how.on_trouble)
        return true;
    f->is_calling = true;
    f->how.on_trouble(why, ms, f->plan.user);
    return follower_is_here(f);
}

bool
follower_doubt(struct td_follower *f, const char *why)
{
    struct follower_comparison *c = &f->comparison;

    if (f->how.compare_ms) {
        c->is_wanted = true;
        snprintf(c->reason, sizeof(c->reason), "%s", why);
    }
    if (!f->how.on_doubt)
        return true;
    f->is_calling = true;
    f->how.on_doubt(why, f->plan.user);
    return follower_is_here(f);
}

bool
follower_report_lists(struct td_follower *f)
{
    const struct list_report report = f->notes.report;

    f->notes.report = (struct list_report){.n = {0}};
    f->is_calling = true;
    client_report(&report, f->how.on_report, f->plan.user);
    return follower_is_here(f);
}

bool
follower_rest_because(struct td_follower *f, const char *why, unsigned ms)
{
    follower_rest(f, ms); /* first: on_trouble may close it */
    follower_report(f, why, ms);
    return false;
}

bool
follower_is_patient(struct td_follower *f, const struct problem *why,
                    unsigned *ms)
{
    int64_t since_ms = clock_steady_ms() - f->attempts.new_ms;
    struct problem copy = *why; /* a copy: the exchange may be freed */

    if (!f->how.until_caught_up ||
        pause_within(f->how.patience_ms, since_ms, copy.retry_after_s, ms))
        return true;
    if (copy.retry_after_s)
        problem(&copy, STATUS_UNREACHABLE,
                "%.800s; it is to be asked again in %u s", why->text,
                copy.retry_after_s);
    else
        problem_prefix(&copy, STATUS_UNREACHABLE,
                       "nothing new came for %.1f s: ", since_ms / 1000.0);
    return follower_end(f, &copy);
}

bool
follower_trouble(struct td_follower *f, const struct problem *why)
{
    struct problem copy = *why; /* a copy: the exchange may be freed */
    bool is_farewell =
        f->attempts.has_farewell &&
        (f->attempts.n_heard || f->attempts.pause_ms < PAUSE_FAREWELL);
    unsigned ms;

    if (f->attempts.n_heard)
        f->attempts.pause_ms = PAUSE_FIRST;
    ms = pause_asked(&f->attempts.pause_ms, PAUSE_LONGEST, copy.retry_after_s);
    if (is_farewell && !copy.retry_after_s)
        ms = pause_chance(PAUSE_FAREWELL);
    if (!follower_is_patient(f, &copy, &ms))
        return false;
    f->attempts.n_heard = 0;
    f->attempts.has_farewell = false;
    f->checkpoint.due_ms = 0;
    return follower_rest_because(f, copy.text, ms);
}

/* The place */

bool
follower_place(const struct td_follower *f, struct source_position *place)
{
    if (f->place.order.is_placed)
        *place = (struct source_position){.at = f->place.order.at};
    else if (f->place.moment.is_time)
        *place = f->place.moment;
    if (f->place.moment.is_time)
        place->unknown_us = f->notes.unknown_us;
    return f->place.order.is_placed || f->place.moment.is_time;
}

void
follower_set_place(struct td_follower *f, const struct source_position *place)
{
    f->place.moment = *place;
    if (place->is_time) {
        f->place.order.is_placed = false;
        f->place.order.has_digest = false;
        f->place.order.at = (struct position){.seq = 0};
    } else {
        message_sequence_set(&f->place.order, &place->at);
    }
}

void
follower_note_hole(struct td_follower *f)
{
    if (f->notes.begins_us > f->notes.unknown_us)
        f->notes.unknown_us = f->notes.begins_us;
}

bool
follower_begin_far_back(struct td_follower *f)
{
    const struct source_position beginning = {.is_time = true,
                                              .time_us = DATETIME_NONE};

    follower_set_place(f, &beginning);
    return follower_rest(f, 0);
}

bool
follower_has_only_list(const struct td_follower *f)
{
    const struct offered *o = &f->offered;

    return !f->how.as_of && (o->resource_list || o->resource_dump) &&
           !o->change_list && !o->change_dump && !o->change_list_archive &&
           !o->memory && !o->stream && !o->events;
}

static bool
seek_baseline(struct td_follower *f, const char *reason)
{
    snprintf(f->rebase.reason, sizeof(f->rebase.reason), "%s", reason);
    f->rebase.is_wanted = true;
    f->search.is_sought = false;
    f->place.has_goal = false;
    return follower_rest(f, 0);
}

/* Notes that the changes after the baseline are gone. True: it is another one
 * than last time, for the source may have changed its list and its changes
 * between two readings; so the follower takes the baseline again. */
static bool
refuse_baseline(struct follower_rebase *r)
{
    char now[TD_POSITION_SIZE];
    bool is_other;

    source_position_write(now, &r->standing);
    is_other = strcmp(now, r->refused) != 0;
    strcpy(r->refused, now);
    return is_other;
}

bool
follower_refuse_history(struct td_follower *f, const struct problem *why,
                        const char *mark)
{
    if (text_set_has(&f->client->accepts, slice_of(mark)))
        return seek_baseline(f, why->text);
    return follower_fail(f, STATUS_REWOUND,
                         "%.800s; nothing more is taken from there. To take a "
                         "new baseline: accept-history %s",
                         why->text, mark);
}

/* The set as messages name it. */
static const char *
set_of(const struct td_follower *f)
{
    return f->offered.name ? f->offered.name : f->options.url;
}

bool
follower_went_back(struct td_follower *f, uint64_t last)
{
    const struct message_sequence *order = &f->place.order;
    char mark[POSITION_MAX];
    struct problem why;

    position_write(mark, order->at.epoch, last);
    problem(&why, STATUS_REWOUND,
            "the history of %.200s went back: this follower has entry %" PRIu64
            " of epoch %s (digest %s), the source now ends at entry %" PRIu64,
            set_of(f), order->at.seq, order->at.epoch,
            order->has_digest ? digest_text(&order->digest).text : "unknown",
            last);
    return follower_refuse_history(f, &why, mark);
}

bool
follower_differs(struct td_follower *f, uint64_t seq,
                 const struct digest *there)
{
    struct digest_text mark = digest_text(there);
    struct problem why;

    problem(&why, STATUS_REWOUND,
            "the source shows another history of %.200s: the digest of entry "
            "%" PRIu64 " of epoch %s is %s there, %s here",
            set_of(f), seq, f->place.order.at.epoch, mark.text,
            digest_text(&f->place.order.here).text);
    return follower_refuse_history(f, &why, mark.text);
}

bool
follower_compare_digest(struct td_follower *f, const char *text)
{
    struct message_sequence *order = &f->place.order;
    struct digest there;

    if (!order->is_placed || !order->at.epoch[0] ||
        digest_read(slice_of(text), &there))
        return true;
    order->here = order->digest;
    if (order->has_digest && !digest_is_equal(&order->here, &there))
        return follower_differs(f, order->at.seq, &there);
    order->has_digest = true;
    order->digest = there;
    return true;
}

bool
follower_gone(struct td_follower *f, const struct problem *why)
{
    if (!f->place.order.is_placed || !f->place.order.at.seq ||
        !f->place.order.at.epoch[0] || !f->offered.memory)
        return follower_lost_place(f, why);
    f->gone = *why;
    return f->phases[FOLLOWER_CHECKING]->begin(f);
}

bool
follower_lost_place(struct td_follower *f, const struct problem *why)
{
    struct follower_rebase *r = &f->rebase;
    struct problem text = {.text = ""};

    if (f->how.baseline == TD_NO_BASELINE && !f->how.as_of)
        return follower_end(f, why);
    if (r->is_rebased && r->guess.is_time) {
        /* The list has no time, and the history does not reach back to its
         * newest lastmod: takes the age that the server states as the next
         * best. */
        (void)refuse_baseline(r);
        problem(&text, STATUS_UNREACHABLE,
                "%.600s; the baseline does not name its time; the client "
                "assumes %s",
                why->text, datetime_text_short(r->guess.time_us).text);
        f->notes.etag[0] = '\0';
        follower_set_place(f, &r->guess);
        r->guess.is_time = false;
        return follower_rest_because(f, text.text, 0);
    }
    /* Without changes the list has to be later than the place. */
    if (f->place.moment.is_time && follower_has_only_list(f))
        f->notes.begins_us = f->place.moment.time_us;
    if (f->place.moment.is_time && why->rc == STATUS_GONE)
        follower_note_hole(f);
    if (r->is_rebased && f->place.moment.is_time &&
        f->place.moment.time_us != DATETIME_NONE) {
        /* the changes begin after the baseline's list. The follower
         * takes them from their beginning, and reports the time between as not
         * known. */
        problem(&f->notes.doubt, STATUS_GONE,
                "%.600s; the list of resources is of %s: what changed between "
                "is not known",
                why->text, datetime_text_short(f->place.moment.time_us).text);
        return follower_begin_far_back(f);
    }
    if (f->how.as_of || (r->is_rebased && !refuse_baseline(r)))
        return follower_fail(f, STATUS_GONE,
                             "%.600s; this is so for the baseline, too, that "
                             "the source offers",
                             why->text);
    return seek_baseline(f, why->text);
}

/* The end */

static void
close_pusher(struct td_follower *f)
{
    struct pusher pusher = f->pusher;

    f->pusher = (struct pusher){.close = NULL};
    if (pusher.close)
        pusher.close(pusher.owner);
}

/* Another follower may use them next. */
static void
close_files(struct td_follower *f)
{
    survey_close(f->survey.listing);
    db_close(&f->lists.read.db);
    f->survey.listing = NULL;
}

/* Frees the memory that messages point into. */
static void
release_follower(struct retired *retired)
{
    struct td_follower *f = list_entry(retired, struct td_follower, retired);

    close_files(f);
    offered_fini(&f->offered);
    broker_message_fini(&f->delivery.message);
    entry_fini(&f->delivery.entry);
    change_batch_fini(&f->delivery.batch);
    buf_fini(&f->gap.kept);
    buf_fini(&f->gap.body);
    follow_options_fini(&f->options);
    free(f);
}

void
follower_drop_check(struct td_follower *f)
{
    struct follower_checkpoint *c = &f->checkpoint;
    struct checkpoint_tile *tile;

    fetch_free(c->fetch);
    c->fetch = NULL;
    buf_fini(&c->text);
    list_drain (tile, &c->tiles, node)
        free(tile);
    c->n_tiles = 0;
}

void
follower_free(void *follower)
{
    struct td_follower *f = follower;

    client_leaves(f->client, &f->running);
    close_pusher(f);
    drop_live(f);
    drop_reading(f);
    follower_drop_check(f);
    buf_fini(&f->checkpoint.kept);
    timer_stop(&f->checkpoint.later);
    timer_stop(&f->timer);
    if (!f->is_calling)
        close_files(f);
    handle_loop_retire(f->client->loop, &f->retired, release_follower);
}

bool
follower_is_here(struct td_follower *f)
{
    f->is_calling = false;
    return !f->retired.is_over;
}

bool
follower_checkpoint_turn(struct td_follower *f)
{
    return f->state != FOLLOWER_LIVE || f->checkpoint.fetch ||
           !follower_checkpoint_is_due(f, false) ||
           f->phases[FOLLOWER_PROVING]->check(f);
}

bool
follower_reach(struct td_follower *f)
{
    return follower_checkpoint_is_due(f, true)
               ? f->phases[FOLLOWER_PROVING]->begin(f)
               : follower_fail(f, STATUS_OK, "%s", "");
}

bool
follower_end(struct td_follower *f, const struct problem *why)
{
    struct problem copy = *why;

    /* The server refuses a token that it has accepted before, and its file may
     * get another one. */
    if (why->rc == STATUS_REFUSED && why->http_status == 401 &&
        f->connection.was_heard &&
        servers_may_change_token(&f->client->servers, f->options.url)) {
        f->attempts.n_heard = 0;
        return follower_trouble(f, why);
    }
    follower_drop_check(f);
    timer_stop(&f->checkpoint.later);
    follower_enter(f, FOLLOWER_ENDED);
    client_idles(f->client, &f->running, true);
    close_pusher(f);
    if (f->plan.on_end)
        f->plan.on_end(&copy, f->plan.end_user);
    else if (f->how.on_end)
        f->how.on_end(td_status_of(copy.rc), copy.text, f->plan.user);
    return false;
}

bool
follower_fail(struct td_follower *f, enum status rc, const char *format, ...)
{
    struct problem why = {.rc = rc};
    va_list args;

    va_start(args, format);
    problem_vset(&why, rc, format, args);
    va_end(args);
    return follower_end(f, &why);
}
