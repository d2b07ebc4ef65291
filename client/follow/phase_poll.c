/*
 * phase_poll.c - follows sources without push: reads their Change Lists again
 * and again.
 *
 *     changes after the place --> heartbeat --> poll_ms --> ...
 *
 * The follower makes the heartbeat itself: it says that all entries of the
 * lists were handed over, and the place, which may be later than the last
 * entry.
 */

#include "base/clock.h"
#include "client/follow/follower.h"

/* After so many looks in a row at lists that end too early, the follower
 * believes them. */
#define BEHIND_MOST 3

/* Most milliseconds between two such looks: caches keep changing documents for
 * about a minute. */
#define BEHIND_PAUSE 60000

static bool
on_entry(const struct document_entry *entry,
         const struct source_position *after, const char *file, void *user)
{
    return deliver_entry(user, entry, after, file);
}

/* Hands over the entries found so far before the pause. */
static bool
on_wait(const struct problem *why, unsigned *ms, void *user)
{
    struct td_follower *f = user;
    struct problem copy = *why; /* a copy: the history may be freed */

    if ((!f->is_paused && !deliver_batch(f)) ||
        !follower_is_patient(f, &copy, ms) ||
        !follower_report(f, copy.text, *ms))
        return false;
    follower_hold(f); /* the callback may have paused it */
    return true;
}

static void
on_end(const struct problem *why, const struct source_position *upto,
       void *user)
{
    struct td_follower *f = user;

    f->reading.what = NULL;
    f->lists.has_end = true;
    f->lists.end = *why;
    f->lists.upto = *upto;
    f->phases[f->state]->go_on(f);
}

bool
poll_lists(struct td_follower *f)
{
    struct history_plan plan = {.offered = &f->offered,
                                .notes = &f->notes,
                                .scratch = f->options.scratch,
                                .silence_s = f->options.silence_s};
    struct problem why = {.text = ""};
    struct read_lists *read = &f->lists.read;
    char *path = NULL;
    enum status rc;

    if (!read->db.handle && f->place.moment.is_time) { /* opens their notes */
        if (f->options.listing &&
            asprintf(&path, "%s-read", f->options.listing) < 0)
            return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
        rc = read_lists_open(read, path, f->options.url, &why);
        free(path);
        if (rc)
            return follower_end(f, &why);
    }
    plan.lists = read->db.handle ? read : NULL;
    f->notes.begins_us = DATETIME_NONE;
    /* A list of resources is better than a hole, but just was no help. */
    plan.may_lose = f->notes.doubt.rc ||
                    clock_steady_ms() - f->rebase.rebased_ms < REBASE_LEAST_MS;
    if (f->state == FOLLOWER_FILLING) /* another place: read the whole list */
        f->notes.etag[0] = '\0';
    else /* not for a gap: a new connection may help instead */
        plan.on_wait = on_wait;
    follower_place(f, &plan.after);
    return follower_reads(f,
                          history_start(f->client, &plan, on_entry, on_end, f),
                          history_free, history_hold);
}

bool
poll_is_behind(const struct td_follower *f)
{
    return f->lists.end.rc == STATUS_GONE && f->place.order.is_placed &&
           !f->lists.upto.is_time &&
           f->lists.upto.at.seq < f->place.order.at.seq;
}

/* Lists that end before the follower's place: the log has lost its end, or a
 * proxy has kept older lists. Only another look shows which. With
 * until_caught_up the looks fit into the patience. */
static bool
handle_failure(struct td_follower *f, bool was_fresh)
{
    unsigned ms = f->how.poll_ms < BEHIND_PAUSE ? f->how.poll_ms : BEHIND_PAUSE;
    struct problem why = f->lists.end;

    f->notes.etag[0] = '\0';
    f->attempts.n_heard = 0;
    if (poll_is_behind(f) && ++f->lists.n_behind < BEHIND_MOST) {
        if (f->how.until_caught_up &&
            ms > f->how.patience_ms / (BEHIND_MOST + 1))
            ms = f->how.patience_ms / (BEHIND_MOST + 1);
        why.rc = STATUS_UNREACHABLE;
        return follower_is_patient(f, &why, &ms) &&
               follower_rest_because(f, why.text, ms);
    }
    if (why.rc == STATUS_GONE) {
        f->lists.n_behind = 0;
        return follower_gone(f, &why);
    }
    if ((why.http_status == 404 || why.http_status == 410) && !was_fresh) {
        f->search.is_sought = false; /* the lists may have moved */
        return follower_go(f);
    }
    return follower_end(f, &why);
}

bool
poll_over(struct td_follower *f)
{
    f->lists.n_behind = 0;
    f->attempts.n_heard = 1;
    f->connection.was_heard = f->connection.is_current = true;
    if (!follower_report_lists(f) || !deliver_heartbeat(f))
        return false;
    if (f->how.until_caught_up && f->survey.was_held && !f->how.on_held)
        return follower_fail(f, STATUS_REFUSED, "%s", SURVEY_HELD_TEXT);
    if (f->how.until_caught_up && !follower_may_compare(f))
        return follower_reach(f);
    return follower_wait(f);
}

static bool
report_doubt(struct td_follower *f)
{
    struct problem doubt = f->notes.doubt;

    f->notes.doubt = (struct problem){.text = ""};
    if (doubt.rc)
        follower_note_hole(f);
    return !doubt.rc || follower_doubt(f, doubt.text);
}

/* Ends the state of a past time. The changes that the source has may
 * end too early, or begin only after that time. */
static bool
end_past(struct td_follower *f)
{
    const struct source_position *base = &f->rebase.standing;
    int64_t end_us =
        f->connection.open & TD_POLL ? f->notes.until_us : base->time_us;
    int64_t as_of_us = f->options.as_of_us, later_us = f->lists.later_us;
    struct problem why = {.text = ""};

    if (later_us != DATETIME_NONE && !f->lists.has_changes && !base->is_time &&
        !base->at.seq) {
        source_position_has_none(&why, STATUS_GONE, as_of_us, later_us);
        return follower_end(f, &why);
    }
    if (!f->notes.doubt.rc && later_us == DATETIME_NONE &&
        end_us != DATETIME_NONE && end_us < as_of_us)
        problem(&f->notes.doubt, STATUS_GONE,
                "what changed after %s is not known: no list reaches further",
                datetime_text_short(end_us).text);
    return report_doubt(f) && poll_over(f);
}

/* Entries that came before lists failed are valid: they came in order. Any step
 * may pause the follower; the next call skips the finished ones. */
static bool
continue_polling(struct td_follower *f)
{
    bool was_fresh = f->search.is_fresh;
    struct problem why = {.text = ""};

    if (!f->is_paused && !deliver_batch(f))
        return false;
    if (f->is_paused)
        return true;
    f->search.is_fresh = false;
    if (f->lists.end.rc)
        return handle_failure(f, was_fresh);
    follower_set_place(f, &f->lists.upto);
    if (f->how.as_of)
        return end_past(f);
    if (!report_doubt(f))
        return false;
    /* The caller has all entries of the lists. */
    if (f->lists.read.db.handle && read_lists_commit(&f->lists.read, &why))
        return follower_end(f, &why);
    if (f->notes.is_closed) /* the source names the next list */
        f->search.is_sought = false;
    return poll_over(f);
}

/* Without a place it begins after the head of the set or, if the source does
 * not state it, at the end of its lists. If these say no time, that of
 * the source's answer is a hint: its clock's, not ours. */
static bool
begin_polling(struct td_follower *f)
{
    int64_t date_s = httpdate_read(slice_of(f->offered.date));
    struct source_position place;

    follower_enter(f, FOLLOWER_POLLING);
    f->connection.transport = TD_POLL;
    if (f->how.as_of && (f->lists.is_over || !(f->connection.open & TD_POLL)))
        return end_past(f);
    if (!follower_place(f, &place)) {
        if (source_position_read(slice_of(f->offered.position), &place)) {
            /* Our clock is better than none. */
            place = (struct source_position){.is_time = true, .is_end = true};
            place.time_us = date_s >= 0 ? date_s * 1000000 : clock_now_us();
        }
        follower_set_place(f, &place);
    }
    return poll_lists(f) && false;
}

const struct phase phase_poll = {.begin = begin_polling,
                                 .go_on = continue_polling};
