/*
 * phase_baseline.c - takes baselines when the history does not reach back to
 * the place.
 *
 *     gone --> seek --> TD_BASELINE_BEGIN, TD_BASELINE ..., TD_BASELINE_END
 *                                 ^                               |
 *                                 +---- source away: begins again  v
 *                                       after a pause         changes after it
 *
 * TD_BASELINE_BEGIN is sent with the first resource, or at the end: the
 * caller's data is not void because a source has no list.
 *
 * A set of Tidings without a list of its resources, but with its whole history,
 * is followed from the beginning: the caller's data is void, the baseline is
 * empty, and all resources come as changes.
 */
#include <stdio.h>

#include "base/clock.h"
#include "client/follow/follower.h"

/* Least milliseconds between the end of a baseline and the next one: a source
 * that changes its history again and again (two servers of one name) must not
 * keep the follower loading. */
#define REBASE_LEAST_MS 60000

static bool
announce_baseline(struct td_follower *f, enum td_kind kind,
                  const struct source_position *place)
{
    char position[TD_POSITION_SIZE];
    struct td_message m = {.kind = kind};

    if (kind == TD_BASELINE_BEGIN)
        m.reason = f->rebase.reason;
    if (kind == TD_BASELINE) {
        m.n_changes = changes_count(&f->delivery.batch.changes);
        m.changes = changes_seal(&f->delivery.batch.changes);
    }
    if (place) {
        source_position_write(position, place);
        m.position = position;
    }
    return deliver(f, &m);
}

static bool
hand_over_begin(struct td_follower *f)
{
    if (f->rebase.is_begun)
        return true;
    f->rebase.is_begun = true;
    return announce_baseline(f, TD_BASELINE_BEGIN, NULL);
}

static bool
hand_over_resources(struct td_follower *f)
{
    bool goes_on = true;

    if (f->delivery.has_batch)
        goes_on = announce_baseline(f, TD_BASELINE, NULL);
    if (goes_on) {
        f->delivery.has_batch = false;
        change_batch_clear(&f->delivery.batch);
    }
    return goes_on;
}

/* Ends the baseline: moves to its place and goes on. */
static bool
hand_over_end(struct td_follower *f)
{
    const struct source_position place = f->rebase.standing;

    f->rebase.is_wanted = false;
    f->rebase.is_rebased = true;
    f->rebase.has_rebased = true;
    f->rebase.rebased_ms = clock_steady_ms();
    follower_set_place(f, &place);
    f->lists.etag[0] = '\0';
    if (!announce_baseline(f, TD_BASELINE_END, &place))
        return false;
    return follower_rest(f, 0);
}

/* Any step may pause the follower; the next call skips the finished ones. */
static bool
continue_baseline(struct td_follower *f)
{
    if (!f->is_paused && !hand_over_begin(f))
        return false;
    if (!f->is_paused && !hand_over_resources(f))
        return false;
    if (!f->is_paused)
        return hand_over_end(f);
    f->is_due = true;
    return true;
}

/* `file`: its path in the scratch directory. */
static bool
add_resource(struct td_follower *f, const struct document_entry *entry,
             const char *file)
{
    enum status rc = STATUS_OK;
    struct buf path;

    buf_init(&path, SIZE_MAX / 2);
    if (file)
        buf_add_format(&path, "%s/%s%c", f->options.scratch, file, '\0');
    if (path.failed ||
        change_batch_add(&f->delivery.batch, &f->options.resources, entry,
                         false, file ? path.data : NULL))
        rc = STATUS_MEMORY;
    buf_fini(&path);
    f->delivery.has_batch = changes_count(&f->delivery.batch.changes) > 0;
    return !rc || follower_fail(f, STATUS_MEMORY, NO_MEMORY);
}

static bool
on_entry(const struct document_entry *entry, const char *file, void *user)
{
    struct td_follower *f = user;

    if (!hand_over_begin(f))
        return false;
    if (f->is_paused) /* in hand_over_begin; an entry without file may wait */
        file = NULL;
    if (!add_resource(f, entry, file))
        return false;
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

    snprintf(f->rebase.reason, sizeof(f->rebase.reason), "%s", why);
    f->rebase.is_begun = false;
    f->delivery.has_batch = false;
    change_batch_clear(&f->delivery.batch);
}

static void
on_end(const struct problem *why, const struct source_position *place,
       const struct source_position *guess, void *user)
{
    struct td_follower *f = user;
    struct problem told = *why;

    f->baseline = NULL;
    f->is_held = false;
    f->attempts.n_heard = 0;
    if (told.rc == STATUS_UNREACHABLE) {
        f->search.is_sought = false;
        follower_trouble(f, &told);
    } else if (told.rc) {
        follower_end(f, &told);
    } else if (!follower_has_only_list(f)) {
        f->rebase.standing = *place;
        f->rebase.has_guess = guess != NULL;
        if (guess)
            f->rebase.guess = *guess;
        continue_baseline(f);
    } else if (survey_take(f)) {
        f->rebase.has_guess = false;
        continue_baseline(f);
    }
}

/* Without a list: follows the whole history, or fails. */
static bool
begin_without_list(struct td_follower *f)
{
    if (!f->offered.earliest ||
        source_position_read(slice_of(f->offered.earliest),
                             &f->rebase.standing) ||
        f->rebase.standing.is_time || f->rebase.standing.at.seq)
        return follower_fail(f, STATUS_GONE,
                             "%s; a baseline cannot be taken either: the "
                             "source offers no list of its resources",
                             f->rebase.reason);
    return continue_baseline(f);
}

static bool
wait_longer(struct td_follower *f, unsigned ms)
{
    struct problem why = {.text = ""};

    problem(&why, STATUS_UNREACHABLE,
            "a baseline was just taken, and again: %.800s", f->rebase.reason);
    return follower_rest_because(f, why.text, ms);
}

static bool
begin_baseline(struct td_follower *f)
{
    struct baseline_plan plan = {
        .scratch = f->has_no_resource_dump ? NULL : f->options.scratch,
        .on_anew = on_anew,
    };
    int64_t now = clock_steady_ms();

    if (f->rebase.has_rebased && now - f->rebase.rebased_ms < REBASE_LEAST_MS)
        return wait_longer(
            f, (unsigned)(f->rebase.rebased_ms + REBASE_LEAST_MS - now));
    follower_enter(f, FOLLOWER_REBASING);
    f->rebase.is_begun = false;
    if (follower_has_only_list(f)) {
        if (!survey_open(f))
            return false;
        plan.listing = f->survey.listing;
    }
    if (!f->offered.resource_list &&
        !(f->offered.resource_dump && plan.scratch))
        return begin_without_list(f);
    return survey_read(f, &plan, on_entry, on_end) && false;
}

const struct phase phase_baseline = {.begin = begin_baseline,
                                     .go_on = continue_baseline};
