/*
 * phase_baseline.c - takes baselines when the history does not reach back to
 * the place; compares with the source's list when that is wanted.
 *
 *     gone --> seek --> TD_BASELINE_BEGIN, TD_BASELINE ..., TD_BASELINE_END
 *                                 ^                               |
 *                                 +---- source away: begins again v
 *                                       after a pause         changes after it
 *
 * TD_BASELINE_BEGIN is sent with the first resource, or at the end: the
 * caller's data is not void because a source has no list.
 *
 * A comparison is a baseline of the list that leaves the place where it
 * is. If the list cannot be had, the follower goes on without it.
 *
 * A set of Tidings without a list of its resources, but with its whole history,
 * is followed from the beginning: the caller's data is void, the baseline is
 * empty, and all resources come as changes.
 */

#include "base/clock.h"
#include "client/follow/follower.h"

static bool
hand_over_begin(struct td_follower *f)
{
    const bool is_comparison = f->comparison.is_under_way;
    struct td_message m = {.kind = TD_BASELINE_BEGIN,
                           .is_comparison = is_comparison,
                           .reason = is_comparison ? f->comparison.reason
                                                   : f->rebase.reason};

    if (f->rebase.is_begun)
        return true;
    f->rebase.is_begun = true;
    return deliver(f, &m);
}

static bool
hand_over_resources(struct td_follower *f)
{
    struct td_message m = {.kind = TD_BASELINE,
                           .is_comparison = f->comparison.is_under_way};

    return !f->delivery.has_batch || deliver_collected(f, &m);
}

static bool
announce_end(struct td_follower *f)
{
    const struct source_position *standing = &f->rebase.standing;
    struct datetime_text as_of = datetime_text(standing->time_us);
    struct td_message m = {.kind = TD_BASELINE_END,
                           .is_comparison = f->comparison.is_under_way};

    if (standing->is_time)
        m.as_of = as_of.text;
    return deliver_here(f, &m);
}

/* Notes the end of a comparison. */
static void
note_comparison(struct td_follower *f)
{
    f->comparison.is_wanted = f->comparison.is_under_way = false;
    f->comparison.compared_ms = f->comparison.interval_ms = clock_steady_ms();
}

/* a list that is older than the hole in the changes proves
 * nothing of what came after it. False: the follower is gone. */
static bool
judge_hole(struct td_follower *f)
{
    const struct source_position *list =
        f->rebase.guess.is_time ? &f->rebase.guess : &f->rebase.standing;
    bool is_open = f->notes.unknown_us &&
                   (list->is_time || follower_has_only_list(f)) &&
                   list->time_us < f->notes.unknown_us;

    if (!is_open)
        f->notes.unknown_us = 0;
    return !is_open ||
           follower_doubt(f, "there may be changes between the list of "
                             "resources, which is still older, and the first "
                             "change");
}

/* With a key: a list is no part of the log that the key signs. False:
 * the follower is gone. */
static bool
report_unsigned(struct td_follower *f)
{
    const struct source_position *standing = &f->rebase.standing;
    char text[1200];

    if (!f->client->trust || (!standing->is_time && !standing->at.seq))
        return true;
    snprintf(text, sizeof(text),
             "%.900s: no checkpoint signs a list of resources: what was taken "
             "from it is the word of the source",
             f->offered.url);
    return follower_report(f, text, 0);
}

/* Ends the baseline: moves to its place and goes on. A comparison goes on at
 * the follower's place; one with a list that is too old comes after
 * compare_ms. */
static bool
hand_over_end(struct td_follower *f)
{
    const struct source_position standing = f->rebase.standing;

    if (!follower_report_lists(f) || !judge_hole(f) || !report_unsigned(f))
        return false;
    f->comparison.is_wanted &= f->comparison.is_under_way;
    if (!f->comparison.is_under_way) {
        f->comparison.interval_ms = clock_steady_ms();
        f->rebase.is_wanted = false;
        f->rebase.is_rebased = true;
        f->rebase.rebased_ms = clock_steady_ms();
        follower_set_place(f, &standing);
        f->notes.etag[0] = '\0';
        return announce_end(f) && follower_rest(f, 0);
    }
    if (!announce_end(f))
        return false;
    note_comparison(f);
    return follower_rest(f, 0);
}

/* Any step may pause the follower; the next call skips the finished ones. */
static bool
continue_baseline(struct td_follower *f)
{
    if ((!f->is_paused && !hand_over_begin(f)) ||
        (!f->is_paused && !hand_over_resources(f)))
        return false;
    return f->is_paused || hand_over_end(f);
}

static bool
on_entry(const struct document_entry *entry, const char *file, void *user)
{
    struct td_follower *f = user;

    if (!hand_over_begin(f))
        return false;
    if (f->is_paused) /* in hand_over_begin; an entry without file may wait */
        file = NULL;
    if (deliver_collect(f, &f->options.resources, entry, false, file))
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    f->delivery.has_batch = change_batch_count(&f->delivery.batch) > 0;
    /* A file is the caller's only until we return. */
    if (!file && (f->is_paused || !change_batch_is_full(&f->delivery.batch)))
        return true;
    return hand_over_resources(f);
}

/* The list has changed while it was read: the caller begins anew, too. */
static void
on_anew(const char *why, void *user)
{
    struct td_follower *f = user;

    snprintf(f->comparison.is_under_way ? f->comparison.reason
                                        : f->rebase.reason,
             sizeof(f->rebase.reason), "%s", why);
    f->rebase.is_begun = false;
    f->delivery.has_batch = false;
    change_batch_clear(&f->delivery.batch);
}

/* Without a list: follows the whole history, or fails. */
static bool
begin_without_list(struct td_follower *f)
{
    const struct offered *o = &f->offered;
    struct source_position *standing = &f->rebase.standing;
    struct source_position place;

    /* nothing but Change Lists without numbers, which would prove it,
     * leads on; and the follower did not begin as far back as they reach:
     * follows these changes, and reports that they are not everything. */
    if (!o->stream && !o->memory && (o->change_list || o->change_dump) &&
        follower_place(f, &place) && !place.at.epoch[0] &&
        (!place.is_time || place.time_us != DATETIME_NONE)) {
        f->rebase.is_wanted = false;
        problem(&f->notes.doubt, STATUS_GONE,
                "%.800s; the source offers no list of its resources",
                f->rebase.reason);
        return follower_begin_far_back(f);
    }
    if (!o->earliest || source_position_read(slice_of(o->earliest), standing) ||
        standing->is_time || standing->at.seq)
        return follower_fail(f, STATUS_GONE,
                             "%s; a baseline cannot be taken either: the "
                             "source offers no list of its resources",
                             f->rebase.reason);
    return continue_baseline(f);
}

static void
on_end(const struct problem *why, const struct source_position *place,
       const struct source_position *guess, void *user)
{
    static const struct source_position none = {.is_time = false};
    struct td_follower *f = user;
    struct problem copy = *why;

    f->reading.what = NULL;
    f->attempts.n_heard = 0;
    if (copy.rc && f->comparison.is_under_way && copy.rc != STATUS_MEMORY &&
        copy.rc != STATUS_IO) {
        /* The list cannot be had: the next comparison may come later. */
        bool is_wanted = f->comparison.is_wanted && !f->how.until_caught_up;

        note_comparison(f);
        f->comparison.is_wanted = is_wanted;
        problem_prefix(&copy, copy.rc, "cannot compare with the list: ");
        follower_rest_because(f, copy.text, 0);
        return;
    }
    if ((copy.rc == STATUS_GONE || copy.rc == STATUS_REFUSED) && f->how.as_of &&
        follower_has_beginning(f)) {
        begin_without_list(f); /* an empty beginning, and all changes */
    } else if (copy.rc == STATUS_UNREACHABLE) {
        f->search.is_sought = false;
        follower_trouble(f, &copy);
    } else if (copy.rc) {
        follower_end(f, &copy);
    } else if (!follower_has_only_list(f)) {
        f->rebase.standing = *place;
        f->rebase.guess = guess ? *guess : none;
        continue_baseline(f);
    } else if (phase_survey_take(f)) {
        f->rebase.guess = none;
        f->rebase.standing.time_us = place ? place->time_us : DATETIME_NONE;
        continue_baseline(f);
    }
}

static bool
begin_baseline(struct td_follower *f)
{
    struct baseline_plan plan = {
        .wants_files = f->options.scratch,
        .as_of_us = f->how.as_of ? &f->options.as_of_us : NULL,
        .on_anew = on_anew,
    };
    int64_t now = clock_steady_ms();
    struct problem why = {.text = ""};

    f->comparison.is_under_way = !f->rebase.is_wanted;
    if (f->comparison.is_under_way) {
        if (!f->comparison.is_wanted)
            snprintf(f->comparison.reason, sizeof(f->comparison.reason),
                     "the last comparison was long ago");
        follower_enter(f, FOLLOWER_REBASING);
        f->rebase.is_begun = false;
        plan.wants_files = false;
        return phase_survey_read(f, &plan, on_entry, on_end) && false;
    }
    if (now - f->rebase.rebased_ms < REBASE_LEAST_MS) {
        problem(&why, STATUS_UNREACHABLE,
                "a baseline was just taken, and again: %.800s",
                f->rebase.reason);
        if (f->how.until_caught_up)
            return follower_fail(f, STATUS_REFUSED, "%s", why.text);
        return follower_rest_because(
            f, why.text,
            (unsigned)(f->rebase.rebased_ms + REBASE_LEAST_MS - now));
    }
    follower_enter(f, FOLLOWER_REBASING);
    f->rebase.is_begun = false;
    if (follower_has_only_list(f)) {
        if (!phase_survey_open(f))
            return false;
        plan.listing = f->survey.listing;
    }
    if (!f->how.as_of && !f->offered.resource_list && !f->offered.resource_dump)
        return begin_without_list(f);
    return phase_survey_read(f, &plan, on_entry, on_end) && false;
}

const struct phase phase_baseline = {.begin = begin_baseline,
                                     .go_on = continue_baseline};
