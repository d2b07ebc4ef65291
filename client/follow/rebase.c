/*
 * rebase.c - takes baselines when the history does not reach back to the place.
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
        m.reason = f->reason;
    if (kind == TD_BASELINE) {
        m.n_changes = changes_count(&f->batch.changes);
        m.changes = changes_seal(&f->batch.changes);
    }
    if (place) {
        source_position_write(position, place);
        m.position = position;
    }
    return deliver(f, &m);
}

static bool
tell_begin(struct td_follower *f)
{
    if (f->is_begun)
        return true;
    f->is_begun = true;
    return announce_baseline(f, TD_BASELINE_BEGIN, NULL);
}

static bool
tell_resources(struct td_follower *f)
{
    bool goes_on = true;

    if (f->has_batch)
        goes_on = announce_baseline(f, TD_BASELINE, NULL);
    if (goes_on) {
        f->has_batch = false;
        batch_clear(&f->batch);
    }
    return goes_on;
}

/* Ends the baseline: moves to its place and goes on. */
static bool
tell_end(struct td_follower *f)
{
    const struct source_position place = f->standing;

    f->wants_baseline = false;
    f->is_rebased = true;
    f->has_rebased = true;
    f->rebased_ms = clock_steady_ms();
    follower_stand(f, &place);
    f->etag[0] = '\0';
    if (!announce_baseline(f, TD_BASELINE_END, &place))
        return false;
    return follower_rest(f, 0);
}

/* Any step may pause the follower; the next call skips the finished ones. */
bool
rebase_go_on(struct td_follower *f)
{
    if (!f->is_paused && !tell_begin(f))
        return false;
    if (!f->is_paused && !tell_resources(f))
        return false;
    if (!f->is_paused)
        return tell_end(f);
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
        buf_add_format(&path, "%s/%s%c", f->wish.scratch, file, '\0');
    if (path.failed || batch_add(&f->batch, &f->wish.resources, entry, false,
                                 file ? path.data : NULL))
        rc = STATUS_MEMORY;
    buf_fini(&path);
    f->has_batch = changes_count(&f->batch.changes) > 0;
    return !rc || follower_fail(f, STATUS_MEMORY, NO_MEMORY);
}

static bool
on_entry(const struct document_entry *entry, const char *file, void *user)
{
    struct td_follower *f = user;

    if (!tell_begin(f))
        return false;
    if (f->is_paused) /* in tell_begin; an entry without file may wait */
        file = NULL;
    if (!add_resource(f, entry, file))
        return false;
    /* A file is the caller's only until we return. */
    if (!file && (f->is_paused || !batch_is_full(&f->batch)))
        return true;
    return tell_resources(f);
}

static void
on_end(const struct problem *why, const struct source_position *place,
       const struct source_position *guess, void *user)
{
    struct td_follower *f = user;
    struct problem told = *why;

    f->baseline = NULL;
    f->held.baseline = false;
    f->n_heard = 0;
    if (told.rc == STATUS_UNREACHABLE) {
        f->is_sought = false;
        follower_trouble(f, &told);
    } else if (told.rc) {
        follower_end(f, &told);
    } else if (!survey_is_due(f)) {
        f->standing = *place;
        f->has_guess = guess != NULL;
        if (guess)
            f->guess = *guess;
        rebase_go_on(f);
    } else if (survey_take(f)) {
        f->has_guess = false;
        rebase_go_on(f);
    }
}

/* Without a list: follows the whole history, or fails. */
static bool
begin_without_list(struct td_follower *f)
{
    if (!f->offered.earliest ||
        source_position_read(slice_of(f->offered.earliest), &f->standing) ||
        f->standing.is_time || f->standing.at.seq)
        return follower_fail(f, STATUS_GONE,
                             "%s; a baseline cannot be taken either: the "
                             "source offers no list of its resources",
                             f->reason);
    return rebase_go_on(f);
}

static bool
wait_longer(struct td_follower *f, unsigned ms)
{
    struct problem why = {.text = ""};

    problem(&why, STATUS_UNREACHABLE,
            "a baseline was just taken, and again: %.800s", f->reason);
    follower_rest(f, ms); /* first: on_trouble may close it */
    follower_tell(f, why.text, ms);
    return false;
}

bool
rebase_begin(struct td_follower *f)
{
    struct baseline_plan plan = {
        .offered = &f->offered,
        .scratch = f->wish.scratch,
        .on_wait = survey_wait,
    };
    int64_t now = clock_steady_ms();

    if (f->has_rebased && now - f->rebased_ms < REBASE_LEAST_MS)
        return wait_longer(f,
                           (unsigned)(f->rebased_ms + REBASE_LEAST_MS - now));
    if (f->wish.until_caught_up) /* 0 would be none */
        plan.patience_s =
            f->wish.patience_ms / 1000 + (f->wish.patience_ms % 1000 > 0);
    follower_enter(f, FOLLOWER_REBASING);
    f->is_begun = false;
    if (survey_is_due(f) && !survey_open(f))
        return false;
    plan.listing = survey_is_due(f) ? f->listing : NULL;
    if (!f->offered.resource_list &&
        !(f->offered.resource_dump && f->wish.scratch))
        return begin_without_list(f);
    f->baseline = baseline_start(f->client, &plan, on_entry, on_end, f);
    if (!f->baseline)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    follower_hold(f);
    return false;
}

/* The list has no time, and the history does not reach back to its newest
 * lastmod: takes the age that the server states as the next best. */
static bool
guess_place(struct td_follower *f, const struct problem *why)
{
    char time[DATETIME_SIZE + 1];
    struct problem told = {.text = ""};

    time[datetime_write_short(time, f->guess.time_us)] = '\0';
    problem(
        &told, STATUS_UNREACHABLE,
        "%.600s; the baseline does not name its time; the client assumes %s",
        why->text, time);
    f->has_guess = false;
    f->etag[0] = '\0';
    follower_stand(f, &f->guess);
    follower_rest(f, 0);
    follower_tell(f, told.text, 0);
    return false;
}

bool
rebase_gone(struct td_follower *f, const struct problem *why)
{
    if (f->wish.baseline == TD_NO_BASELINE)
        return follower_end(f, why);
    if (f->is_rebased && f->has_guess)
        return guess_place(f, why);
    if (f->is_rebased)
        return follower_fail(f, STATUS_GONE,
                             "%.600s; this is so for the baseline, too, that "
                             "the source offers",
                             why->text);
    snprintf(f->reason, sizeof(f->reason), "%s", why->text);
    f->wants_baseline = true;
    f->is_sought = false;
    f->has_goal = false;
    return follower_rest(f, 0);
}
