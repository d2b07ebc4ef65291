/*
 * quiet_lists.c - what a follower stands on, without sockets: lists and
 * baselines.
 */
#include "tests/unit/follow_quiet/quiet_lists.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"

struct history {
    struct source_position after;
    struct source_position now; /* behind the last entry */
    const char *scratch;
    unsigned silence_s;
    history_entry_fn *on_entry;
    history_wait_fn *on_wait;
    history_end_fn *on_end;
    void *user;
    bool is_held;
    struct history_notes *notes;
};

struct baseline {
    baseline_entry_fn *on_entry;
    baseline_end_fn *on_end;
    void *user;
    unsigned patience_s;
    struct survey *listing; /* one document; NULL: none */
    bool is_held;
};

static struct {
    struct history *history;
    struct baseline *baseline;
} quiet;

void
quiet_lists_begin(void)
{
    memset(&quiet, 0, sizeof(quiet));
}

void
quiet_lists_finish(void)
{
    assert_null(quiet.history);
    assert_null(quiet.baseline);
}

bool
quiet_is_asking_lists(void)
{
    return quiet.history != NULL;
}

bool
quiet_is_rebasing(void)
{
    return quiet.baseline != NULL;
}

bool
quiet_lists_are_held(void)
{
    return quiet.history ? quiet.history->is_held : quiet.baseline->is_held;
}

/* Lists */

unsigned
quiet_lists_silence(void)
{
    assert_non_null(quiet.history);
    return quiet.history->silence_s;
}

struct history *
history_start(struct td_client *client, const struct history_plan *plan,
              history_entry_fn *on_entry, history_end_fn *on_end, void *user)
{
    struct history *history = calloc(1, sizeof(*history));

    (void)client;
    assert_non_null(history);
    assert_null(quiet.history);
    *history = (struct history){.after = plan->after,
                                .now = plan->after,
                                .scratch = plan->scratch,
                                .notes = plan->notes,
                                .silence_s = plan->silence_s,
                                .on_entry = on_entry,
                                .on_wait = plan->on_wait,
                                .on_end = on_end,
                                .user = user};
    quiet.history = history;
    return history;
}

void
history_hold(void *history, bool is_held)
{
    struct history *h = history;

    assert_true(h->is_held != is_held);
    h->is_held = is_held;
}

void
history_free(void *history)
{
    if (history)
        quiet.history = NULL;
    free(history);
}

const struct source_position *
quiet_lists_after(void)
{
    quiet_await(quiet_is_asking_lists, "lists that are asked for");
    return &quiet.history->after;
}

const char *
quiet_lists_scratch(void)
{
    quiet_lists_after();
    return quiet.history->scratch;
}

static void
make_entry(struct document_entry *entry, const char *loc)
{
    memset(entry, 0, sizeof(*entry));
    change_init(&entry->change);
    entry->change.loc = slice_of(loc);
    entry->when_us = DATETIME_NONE;
}

bool
quiet_entry(const char *loc, const struct source_position *after)
{
    struct document_entry entry;

    quiet_lists_after();
    assert_false(quiet.history->is_held);
    make_entry(&entry, loc);
    entry.has_kind = true;
    entry.change.kind = CHANGE_CREATED;
    if (after->is_time)
        entry.when_us = after->time_us;
    else
        entry.change.seq = after->at.seq;
    quiet.history->now = *after;
    return quiet.history->on_entry(&entry, after, NULL, quiet.history->user);
}

static void
end_as(const struct problem *failure, const struct source_position *upto)
{
    struct history history = *quiet.history;

    history_free(quiet.history);
    history.on_end(failure, upto ? upto : &history.now, history.user);
}

static void
end_lists(enum status rc, const char *why, const struct source_position *upto)
{
    struct problem failure = {.rc = STATUS_OK};

    if (rc)
        problem(&failure, rc, "%s", why);
    else
        quiet.history->notes->is_closed = false;
    end_as(&failure, upto);
}

void
quiet_lists_end(enum status rc, const char *why,
                const struct source_position *upto)
{
    quiet_lists_after();
    assert_false(quiet.history->is_held);
    end_lists(rc, why, upto);
}

void
quiet_doubt(const char *why)
{
    problem(&quiet.history->notes->doubt, STATUS_GONE, "%s", why);
}

void
quiet_begins(int64_t second)
{
    quiet.history->notes->begins_us = second * 1000000;
}

void
quiet_lists_close(const struct source_position *upto)
{
    struct problem failure = {.rc = STATUS_OK};

    quiet_lists_after();
    quiet.history->notes->is_closed = true;
    end_as(&failure, upto);
}

void
quiet_lists_refuse(unsigned status)
{
    struct problem failure = {.rc = STATUS_OK};

    quiet_lists_after();
    problem(&failure, STATUS_REFUSED, "%u", status);
    failure.http_status = status;
    end_as(&failure, NULL);
}

bool
quiet_lists_wait(const char *why, unsigned *ms)
{
    struct problem failure = {.rc = STATUS_OK};

    quiet_lists_after();
    assert_non_null(quiet.history->on_wait);
    problem(&failure, STATUS_UNREACHABLE, "%s", why);
    return quiet.history->on_wait(&failure, ms, quiet.history->user);
}

void
quiet_lists_break(enum status rc, const char *why)
{
    quiet_lists_after();
    end_lists(rc, why, NULL);
}

/* Baselines */

struct baseline *
baseline_start(struct td_client *client, const struct baseline_plan *plan,
               baseline_entry_fn *on_entry, baseline_end_fn *on_end, void *user)
{
    struct baseline *baseline = calloc(1, sizeof(*baseline));

    (void)client;
    assert_non_null(baseline);
    assert_null(quiet.baseline);
    *baseline = (struct baseline){.on_entry = on_entry,
                                  .on_end = on_end,
                                  .user = user,
                                  .patience_s = plan->patience_s,
                                  .listing = plan->listing};
    if (plan->listing) {
        struct survey_version known;

        assert_true(survey_begin(plan->listing));
        assert_true(survey_document(plan->listing, "http://e.org/", &known));
    }
    quiet.baseline = baseline;
    return baseline;
}

unsigned
quiet_baseline_patience(void)
{
    quiet_await(quiet_is_rebasing, "a baseline");
    return quiet.baseline->patience_s;
}

void
baseline_hold(void *baseline, bool is_held)
{
    struct baseline *b = baseline;

    assert_int_not_equal(b->is_held, is_held);
    b->is_held = is_held;
}

void
baseline_free(void *baseline)
{
    if (baseline)
        quiet.baseline = NULL;
    free(baseline);
}

bool
quiet_resource(const char *loc, const char *file)
{
    struct document_entry entry;

    quiet_await(quiet_is_rebasing, "a baseline");
    assert_false(quiet.baseline->is_held);
    make_entry(&entry, loc);
    if (quiet.baseline->listing)
        assert_true(survey_add(quiet.baseline->listing, &entry));
    return quiet.baseline->on_entry(&entry, file, quiet.baseline->user);
}

static void
end_baseline(enum status rc, const char *why,
             const struct source_position *place,
             const struct source_position *guess)
{
    struct problem failure = {.rc = STATUS_OK};
    struct baseline baseline;

    quiet_await(quiet_is_rebasing, "a baseline");
    assert_false(quiet.baseline->is_held);
    baseline = *quiet.baseline;
    if (rc)
        problem(&failure, rc, "%s", why);
    baseline_free(quiet.baseline);
    baseline.on_end(&failure, place, guess, baseline.user);
}

void
quiet_baseline_guess(const struct source_position *place,
                     const struct source_position *guess)
{
    end_baseline(STATUS_OK, "", place, guess);
}

void
quiet_baseline_end(enum status rc, const char *why,
                   const struct source_position *place)
{
    end_baseline(rc, why, place, NULL);
}
