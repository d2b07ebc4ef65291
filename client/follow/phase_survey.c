/*
 * phase_survey.c - follows sources without a history. It reads the list of
 * their resources every poll_ms, compares each reading with the one before
 * (client/survey) and reports the differences as changes.
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

static bool
failed_listing(struct td_follower *f)
{
    return follower_end(f, &f->survey.listing->why);
}

bool
phase_survey_open(struct td_follower *f)
{
    struct problem why = {.text = ""};

    if (f->survey.listing)
        return true;
    f->survey.listing = survey_open(f->options.listing, f->options.url,
                                    &f->client->room, f->client->stop_fd, &why);
    return f->survey.listing || follower_end(f, &why);
}

void
phase_survey_swap(struct td_follower *f, struct survey **listing)
{
    struct survey *its = f->survey.listing;

    f->survey.listing = *listing;
    *listing = its;
}

static struct source_position
place_at(const struct td_follower *f, uint64_t seq)
{
    const struct survey_extent *extent = &f->survey.listing->extent;
    struct source_position place = {.is_time = false, .at = {.seq = seq}};

    memcpy(place.at.epoch, extent->epoch, sizeof(place.at.epoch));
    return place;
}

bool
phase_survey_take(struct td_follower *f)
{
    if (!survey_take(f->survey.listing))
        return failed_listing(f);
    f->rebase.standing = place_at(f, f->survey.listing->extent.last);
    f->survey.is_surveyed = true;
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
    problem(&why, STATUS_GONE, format, position);
    return follower_gone(f, &why);
}

/* Decides where following begins. From now on: the resources of the first list
 * are no changes. From the beginning: all of them are. False: the follower has
 * ended, or begins anew. */
static bool
is_settled(struct td_follower *f)
{
    const struct survey_extent *extent = &f->survey.listing->extent;
    struct source_position place;

    if (!follower_place(f, &place)) {
        f->survey.is_taking = true;
        return true;
    }
    if (place.is_time)
        return is_unknown(f, "the source has only a list of its resources: the "
                             "changes after %s are unknown");
    if (!place.at.epoch[0] && !place.at.seq) {
        if ((extent->is_read || extent->last) &&
            !survey_clear(f->survey.listing))
            return failed_listing(f);
        place = place_at(f, 0);
        follower_set_place(f, &place);
        return true;
    }
    if (strcmp(place.at.epoch, extent->epoch) != 0 ||
        place.at.seq < extent->oldest || place.at.seq > extent->last)
        return is_unknown(f, "the list that the source had at %s is not kept");
    return true;
}

/* Differences */

static enum status
add_change(const struct document_entry *entry, const struct document_head *head,
           void *user)
{
    struct td_follower *f = user;
    const struct source_position after = place_at(f, entry->change.seq);

    (void)head;
    if (deliver_add(f, entry, &after, NULL))
        return STATUS_MEMORY;
    return change_batch_is_full(&f->delivery.batch) ? STATUS_STOPPED
                                                    : STATUS_OK;
}

/* The list */

static bool
on_entry(const struct document_entry *entry, const char *file, void *user)
{
    struct td_follower *f = user;
    int64_t now_ms = clock_steady_ms();

    (void)entry;
    (void)file;
    f->survey.n_listed++;
    if (!f->how.on_progress || now_ms - f->survey.progress_ms < PROGRESS_MS)
        return true;
    f->survey.progress_ms = now_ms;
    f->is_calling = true;
    f->how.on_progress(f->survey.n_listed, f->plan.user);
    return follower_is_here(f) && !f->is_paused;
}

static bool
compare_list(struct td_follower *f)
{
    const struct survey_guard guard = {
        .max_percent = f->how.max_delete_percent,
        .accepts = f->how.accept_deletions,
        .is_doubtful = f->survey.is_doubtful,
    };
    const struct survey_extent *extent = &f->survey.listing->extent;
    bool was_held = f->survey.was_held || extent->n_held > 0;

    if (!survey_compare(f->survey.listing, &guard))
        return failed_listing(f);
    /* Reports deletions that are held back, at each reading, and once when
     * there are none any more. */
    f->survey.was_held = extent->n_held > 0;
    if (!was_held && !extent->n_held)
        return true;
    if (!f->how.on_held)
        return !extent->n_held ||
               follower_report(f, SURVEY_HELD_TEXT, f->how.poll_ms);
    f->is_calling = true;
    f->how.on_held(extent->n_held, extent->n_held_of, f->plan.user);
    return follower_is_here(f);
}

static void
on_wait(const struct problem *why, unsigned ms, void *user)
{
    struct td_follower *f = user;

    follower_report(f, why->text, ms);
}

static void
on_anew(const char *why, void *user)
{
    struct td_follower *f = user;

    (void)why;
    f->survey.n_listed = 0;
}

static void
on_doubt(const char *why, void *user)
{
    struct td_follower *f = user;

    f->survey.is_doubtful = true;
    follower_doubt(f, why);
}

static bool continue_survey(struct td_follower *f);

static void
on_end(const struct problem *why, const struct source_position *place,
       const struct source_position *guess, void *user)
{
    struct td_follower *f = user;
    struct source_position standing;
    struct problem copy = *why;
    bool is_passing = why->rc != STATUS_MEMORY && why->rc != STATUS_IO &&
                      why->rc != STATUS_STOPPED && !why->is_limit &&
                      f->survey.listing->extent.is_read;

    (void)place;
    (void)guess;
    f->reading.what = NULL;
    if (copy.rc) {
        f->attempts.n_heard = 0;
        /* Where a complete list was read before, its author may be about to
         * write the part that is missing or cut off: the follower reads the
         * list again, or says that it can be read later. */
        if (copy.rc != STATUS_UNREACHABLE && is_passing)
            problem(&copy, STATUS_UNREACHABLE,
                    "%.900s; nothing of it is taken for deleted", why->text);
        if (copy.rc != STATUS_UNREACHABLE ||
            (why->rc != STATUS_UNREACHABLE && f->how.until_caught_up)) {
            follower_end(f, &copy);
            return;
        }
        f->search.is_sought = false; /* perhaps the list has moved */
        follower_trouble(f, &copy);
        return;
    }
    if (f->survey.is_taking) {
        if (!phase_survey_take(f))
            return;
        f->survey.is_taking = f->survey.is_surveyed = false;
        standing = f->rebase.standing;
        follower_set_place(f, &standing);
    } else if (!compare_list(f)) {
        return;
    }
    f->survey.is_read = true;
    continue_survey(f);
}

bool
phase_survey_read(struct td_follower *f, struct baseline_plan *plan,
                  baseline_entry_fn *on_resource, baseline_end_fn *on_over)
{
    f->notes.report = (struct list_report){.n = {0}};
    plan->offered = &f->offered;
    plan->scratch = f->options.scratch;
    plan->report = &f->notes.report;
    plan->on_wait = on_wait;
    plan->on_doubt = on_doubt;
    f->survey.is_doubtful = false;
    if (f->how.until_caught_up) /* 0 would be none */
        plan->patience_s =
            f->how.patience_ms / 1000 + (f->how.patience_ms % 1000 > 0);
    return follower_reads(
        f, baseline_start(f->client, plan, on_resource, on_over, f),
        baseline_free, baseline_hold);
}

/* Delivers one batch in each turn of the loop, for the sake of its other users.
 * Any step may pause the follower; the next call skips the finished ones. */
static bool
continue_survey(struct td_follower *f)
{
    static const struct document_events events = {.on_entry = add_change};
    struct baseline_plan plan = {
        .listing = f->survey.listing, .is_partial = true, .on_anew = on_anew};

    if (!f->is_paused && !f->survey.is_taking && !f->delivery.has_batch) {
        /* Adds the next differences, if there are any. */
        if (!survey_changes(f->survey.listing, f->place.order.at.seq,
                            BATCH_ENTRIES, &events, f))
            return failed_listing(f);
    }
    if (!f->is_paused && f->delivery.has_batch) {
        if (!deliver_batch(f))
            return false;
        timer_start(&f->timer, 0);
        return true;
    }
    if (f->is_paused)
        return true;
    f->search.is_fresh = false;
    if (f->survey.is_read)
        return poll_over(f);
    f->survey.n_listed = 0;
    f->survey.progress_ms = clock_steady_ms();
    return phase_survey_read(f, &plan, on_entry, on_end);
}

static bool
begin_survey(struct td_follower *f)
{
    follower_enter(f, FOLLOWER_SURVEYING);
    f->connection.transport = TD_POLL;
    f->survey.is_taking = false;
    if (!phase_survey_open(f) || !is_settled(f))
        return false;
    /* A baseline has just read the list, unless it read the dump. */
    f->survey.is_read = f->survey.is_surveyed &&
                        !(f->offered.resource_dump && f->options.scratch);
    f->survey.is_surveyed = false;
    return continue_survey(f) && false;
}

const struct phase phase_survey = {.begin = begin_survey,
                                   .go_on = continue_survey};
