/*
 * survey.c - follows sources without a history. It reads the list of their
 * resources every poll_ms, compares each reading with the one before
 * (client/listing) and reports the differences as changes.
 *
 *     stored differences --> read the list --> new differences --> heartbeat
 *                              ^      |                               |
 *                              |      +--> broken off: trouble        |
 *                              +---------------- poll_ms -------------+
 *
 * Positions are those of the listing. From a position of another listing, or of
 * no listing, the follower cannot find what was deleted since: it reports that
 * the history does not reach back.
 */
#include "base/clock.h"
#include "client/follow/follower.h"

#define PROGRESS_MS 250

bool
survey_is_due(const struct td_follower *f)
{
    const struct offered *o = &f->offered;

    return o->resource_list && !o->change_list && !o->change_dump &&
           !o->change_list_archive && !o->memory && !o->stream && !o->events;
}

static bool
failed_listing(struct td_follower *f)
{
    return follower_end(f, listing_failure(f->listing));
}

bool
survey_open(struct td_follower *f)
{
    struct problem why = {.text = ""};

    if (f->listing)
        return true;
    f->listing = listing_open(f->wish.listing, f->wish.url, &f->client->room,
                              f->client->stop_fd, &why);
    return f->listing || follower_end(f, &why);
}

void
survey_swap(struct td_follower *f, struct listing **listing)
{
    struct listing *its = f->listing;

    f->listing = *listing;
    *listing = its;
}

static struct source_position
place_at(const struct td_follower *f, uint64_t seq)
{
    const struct listing_extent *extent = listing_extent(f->listing);
    struct source_position place = {.is_time = false, .at = {.seq = seq}};

    memcpy(place.at.epoch, extent->epoch, sizeof(place.at.epoch));
    return place;
}

bool
survey_take(struct td_follower *f)
{
    if (!listing_take(f->listing))
        return failed_listing(f);
    f->standing = place_at(f, listing_extent(f->listing)->last);
    f->is_surveyed = true;
    return true;
}

/* Where it begins */

static bool
is_unknown(struct td_follower *f, const char *format)
{
    char position[TD_POSITION_SIZE];
    struct problem why = {.text = ""};
    struct source_position place;

    follower_place(f, &place);
    source_position_write(position, &place);
    problem_clear(&why);
    problem(&why, STATUS_GONE, format, position);
    return rebase_gone(f, &why);
}

/* Decides where following begins. From now on: the resources of the first list
 * are no changes. From the beginning: all of them are. False: the follower has
 * ended, or begins anew. */
static bool
is_settled(struct td_follower *f)
{
    const struct listing_extent *extent = listing_extent(f->listing);
    struct source_position place;

    if (!follower_place(f, &place)) {
        f->is_taking = true;
        return true;
    }
    if (place.is_time)
        return is_unknown(f, "the source has only a list of its resources: the "
                             "changes after %s are unknown");
    if (!place.at.epoch[0] && !place.at.seq) {
        if ((extent->is_read || extent->last) && !listing_clear(f->listing))
            return failed_listing(f);
        place = place_at(f, 0);
        follower_stand(f, &place);
        return true;
    }
    if (strcmp(place.at.epoch, extent->epoch) != 0 ||
        place.at.seq < extent->oldest || place.at.seq > extent->last)
        return is_unknown(f, "the list that the source had at %s is not kept");
    return true;
}

/* Differences */

static bool
add_change(const struct document_entry *entry, void *user)
{
    struct td_follower *f = user;
    struct source_position place = place_at(f, entry->change.seq);

    if (batch_add(&f->batch, &f->wish.filter, entry, true, NULL)) {
        problem_memory(&f->lists_end);
        return false;
    }
    if (!f->has_batch)
        f->batch_begin = entry->change.seq - 1;
    f->batch_after = place;
    f->has_batch = true;
    return !batch_is_full(&f->batch);
}

/* Adds the next differences, if there are any. */
static bool
add_changes(struct td_follower *f)
{
    problem_clear(&f->lists_end);
    if (!listing_changes(f->listing, f->order.at.seq, BATCH_ENTRIES, add_change,
                         f))
        return failed_listing(f);
    return !f->lists_end.rc || follower_end(f, &f->lists_end);
}

/* The list */

static bool
on_entry(const struct document_entry *entry, const char *file, void *user)
{
    struct td_follower *f = user;
    int64_t now_ms = clock_steady_ms();
    bool is_gone = false;

    (void)entry;
    (void)file;
    f->n_listed++;
    if (!f->wish.on_progress || now_ms - f->progress_ms < PROGRESS_MS)
        return true;
    f->progress_ms = now_ms;
    f->is_gone = &is_gone;
    f->wish.on_progress(f->n_listed, f->user);
    return follower_is_here(f, is_gone) && !f->is_paused;
}

/* Where a complete list was read before, its author may be about to write the
 * part that is missing or cut off: the follower reads the list again, or says
 * that it can be read later. */
static bool
survey_failed(struct td_follower *f, const struct problem *why)
{
    bool is_passing = why->rc != STATUS_MEMORY && why->rc != STATUS_IO &&
                      why->rc != STATUS_STOPPED && !why->is_limit &&
                      listing_extent(f->listing)->is_read;
    struct problem told = *why;

    f->n_heard = 0;
    if (told.rc != STATUS_UNREACHABLE && is_passing)
        problem(&told, STATUS_UNREACHABLE,
                "%.900s; nothing of it is taken for deleted", why->text);
    if (told.rc != STATUS_UNREACHABLE ||
        (why->rc != STATUS_UNREACHABLE && f->wish.until_caught_up))
        return follower_end(f, &told);
    f->is_sought = false; /* perhaps the list has moved */
    return follower_trouble(f, &told);
}

static bool
take_list(struct td_follower *f)
{
    struct source_position place;

    if (!f->is_taking)
        return listing_compare(f->listing, f->wish.max_delete_percent,
                               f->offered.resource_list) ||
               failed_listing(f);
    if (!survey_take(f))
        return false;
    f->is_taking = f->is_surveyed = false;
    place = f->standing;
    follower_stand(f, &place);
    return true;
}

void
survey_wait(const struct problem *why, unsigned ms, void *user)
{
    struct td_follower *f = user;

    follower_tell(f, why->text, ms);
}

static void
on_end(const struct problem *why, const struct source_position *place,
       const struct source_position *guess, void *user)
{
    struct td_follower *f = user;
    struct problem told = *why;

    (void)place;
    (void)guess;
    f->baseline = NULL;
    f->held.baseline = false;
    if (told.rc) {
        survey_failed(f, &told);
    } else if (take_list(f)) {
        f->has_lists_end = true;
        survey_go_on(f);
    }
}

static bool
read_list(struct td_follower *f)
{
    struct baseline_plan plan = {
        .offered = &f->offered,
        .listing = f->listing,
        .is_partial = true,
        .on_wait = survey_wait,
    };

    if (f->wish.until_caught_up) /* 0 would be none */
        plan.patience_s =
            f->wish.patience_ms / 1000 + (f->wish.patience_ms % 1000 > 0);
    f->n_listed = 0;
    f->progress_ms = clock_steady_ms();
    f->baseline = baseline_start(f->client, &plan, on_entry, on_end, f);
    if (!f->baseline)
        return follower_fail(f, STATUS_MEMORY, NO_MEMORY);
    follower_hold(f);
    return true;
}

/* Delivers one batch in each turn of the loop, for the sake of its other users.
 * Any step may pause the follower; the next call skips the finished ones. */
bool
survey_go_on(struct td_follower *f)
{
    if (!f->is_paused && !f->is_taking && !f->has_batch && !add_changes(f))
        return false;
    if (!f->is_paused && f->has_batch) {
        if (!deliver_batch(f))
            return false;
        timer_start(f->timer, 0);
        return true;
    }
    if (f->is_paused) {
        f->is_due = true;
        return true;
    }
    f->is_fresh = false;
    return f->has_lists_end ? poll_over(f) : read_list(f);
}

bool
survey_begin(struct td_follower *f)
{
    f->is_taking = false;
    if (!survey_open(f) || !is_settled(f))
        return false;
    /* A baseline has just read the list, unless it read the dump. */
    f->has_lists_end =
        f->is_surveyed && !(f->offered.resource_dump && f->wish.scratch);
    f->is_surveyed = false;
    return survey_go_on(f) && false;
}
