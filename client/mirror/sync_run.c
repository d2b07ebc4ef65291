/*
 * sync_run.c - follows all sets of a source into the database.
 */
#include "client/mirror/sync_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/mirror/file_sync.h"
#include "client/mirror/set_sync.h"
#include "client/source/source_sets.h"

/* Of many sets, one is always behind: after this time their histories no longer
 * hold up the downloads. */
#define HOLD_MOST_MS 10000

/* A set of the source. */
struct followed {
    struct run *run;
    size_t number;         /* in run->tour */
    struct set_sync *feed; /* NULL: not open */
    bool is_current;       /* the source had nothing behind the position */
    char position[TD_POSITION_SIZE];
    char told[TD_POSITION_SIZE]; /* TD_SYNC_CAUGHT_UP */
};

struct run {
    struct mirror *m;
    const char *url;
    bool until_caught_up;
    struct source_sets *tour;
    int64_t begun_ms;
    struct followed **sets; /* by their numbers in `tour` */
    size_t n_sets;
    struct problem why; /* of the tour */
};

static void
end_run(struct run *run)
{
    run->m->is_over = true;
}

/* Position and progress */

static void
note_position(struct followed *set)
{
    set->is_current = set_sync_is_current(set->feed);
    snprintf(set->position, sizeof(set->position), "%s",
             set_sync_position(set->feed));
}

static void
tell_caught_up(struct run *run)
{
    for (size_t i = 0; i < run->n_sets; i++) {
        struct followed *set = run->sets[i];

        if (set->feed)
            note_position(set);
        if (!set->is_current || !strcmp(set->position, set->told))
            continue;
        memcpy(set->told, set->position, sizeof(set->told));
        mirror_tell(
            run->m, TD_SYNC_CAUGHT_UP,
            &(struct td_sync_event){.set = source_sets_url(run->tour, i),
                                    .position = set->position});
    }
}

static void
on_turn(void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;
    bool is_behind = false;
    bool is_idle;

    if (m->is_over)
        return;
    for (size_t i = 0; i < run->n_sets; i++)
        is_behind = is_behind || (run->sets[i]->feed &&
                                  set_sync_is_behind(run->sets[i]->feed));
    if (source_sets_is_new(run->tour) &&
        clock_steady_ms() - run->begun_ms > HOLD_MOST_MS)
        is_behind = false;
    if (m->work)
        file_sync_hold(m->work, is_behind);
    is_idle = !m->work || file_sync_is_idle(m->work);
    if (is_idle && !is_behind && !mirror_db_counts(m->db)->n_left)
        tell_caught_up(run);
    /* All sets have ended, or failed. */
    if (source_sets_is_over(run->tour) && is_idle)
        end_run(run);
}

static void
on_idle(void *user)
{
    struct run *run = user;

    source_sets_turn(run->tour);
}

/* Feeds */

static void
on_news(struct set_sync *feed, void *user)
{
    struct run *run = ((struct followed *)user)->run;

    (void)feed;
    if (run->m->work)
        file_sync_poke(run->m->work);
    source_sets_turn(run->tour);
}

static void
on_feed_end(struct set_sync *feed, const struct problem *why, void *user)
{
    struct followed *set = user;
    struct run *run = set->run;

    (void)feed;
    if (!why->rc)
        mirror_tell(run->m, TD_SYNC_PROGRESS, NULL);
    source_sets_ended(run->tour, set->number, why);
}

/* Makes places for the `n` sets that the tour has found. */
static bool
make_room(struct run *run, size_t n)
{
    struct followed **sets;

    if (n <= run->n_sets)
        return true;
    sets = realloc(run->sets, n * sizeof(struct followed *));
    if (!sets)
        return false;
    run->sets = sets;
    for (; run->n_sets < n; run->n_sets++) {
        struct followed *set = calloc(1, sizeof(*set));

        if (!set)
            return false;
        set->run = run;
        set->number = run->n_sets;
        sets[run->n_sets] = set;
    }
    return true;
}

static bool
on_open(size_t number, bool is_visit, struct problem *why, void *user)
{
    struct run *run = user;
    struct set_sync_events events = {on_news, on_feed_end, NULL};

    problem_clear(why);
    if (!make_room(run, source_sets_count(run->tour))) {
        problem_memory(why);
        return false;
    }
    events.user = run->sets[number];
    run->sets[number]->feed = set_sync_open(
        run->m, source_sets_url(run->tour, number), is_visit, &events, why);
    return run->sets[number]->feed != NULL;
}

static void
on_close(size_t number, void *user)
{
    struct run *run = user;
    struct followed *set = run->sets[number];

    note_position(set);
    set_sync_close(set->feed);
    set->feed = NULL;
}

/* The source */

/* Reports the failure of a set; that of a single one is the run's result. */
static void
on_trouble(const char *url, const char *why, unsigned pause_ms, void *user)
{
    struct run *run = user;
    char text[1200];
    bool is_one =
        source_sets_count(run->tour) == 1 && !source_sets_misses(run->tour);

    (void)pause_ms;
    if ((url && is_one) || run->m->is_over)
        return;
    snprintf(text, sizeof(text), "%s%s", why, url ? "" : "; it is tried again");
    mirror_tell(run->m, TD_SYNC_TROUBLE,
                &(struct td_sync_event){.set = url, .why = text});
}

/* Reports sets of the mirror that the source no longer offers. Only a mirror of
 * one source knows, and only if the tour missed none. */
static bool
tell_of_lost_sets(struct run *run)
{
    struct mirror *m = run->m;
    const char *url;
    char lost[3000];
    char text[3200];
    int64_t set = 0;
    bool is_there;

    if (!mirror_db_source(m->db, 1, &url))
        return false;
    if (url[0] || source_sets_misses(run->tour))
        return true;
    for (;;) {
        if (!mirror_db_next_set(m->db, set, &set, &url, &is_there))
            return false;
        if (!is_there)
            return true;
        if (source_sets_has(run->tour, url))
            continue;
        snprintf(lost, sizeof(lost), "%s", url);
        snprintf(text, sizeof(text),
                 "%s is not offered any more: what the mirror has of it stays; "
                 "tidings audit --repair removes it",
                 lost);
        mirror_tell(m, TD_SYNC_TROUBLE,
                    &(struct td_sync_event){.set = lost, .why = text});
    }
}

/* Notes the source, for audits. */
static bool
on_found(void *user)
{
    struct run *run = user;
    struct mirror *m = run->m;

    if (!mirror_db_add_source(m->db, run->url) || !tell_of_lost_sets(run)) {
        mirror_fail_db(m);
        return false;
    }
    if (m->work)
        file_sync_hold(m->work, true);
    return true;
}

static void
on_end(const struct problem *why, void *user)
{
    struct run *run = user;

    run->why = *why;
    end_run(run);
}

/* Life */

static bool
init_run(struct run *run)
{
    static const struct source_sets_events events = {
        on_found, on_open, on_close, on_trouble, on_turn, on_end};
    struct mirror *m = run->m;
    const struct source_sets_plan plan = {
        .url = run->url,
        .is_once = run->until_caught_up,
        .poll_ms = m->options->poll_ms,
        .patience_ms = m->options->patience_ms,
    };

    run->begun_ms = clock_steady_ms();
    run->tour = source_sets_start(m->client, &plan, &events, run);
    if (m->dir && run->tour)
        m->work = file_sync_new(m, on_idle, run);
    return run->tour && (m->work || !m->dir);
}

static void
fini_run(struct run *run)
{
    for (size_t i = 0; i < run->n_sets; i++) {
        set_sync_close(run->sets[i]->feed);
        free(run->sets[i]);
    }
    free(run->sets);
    file_sync_free(run->m->work);
    run->m->work = NULL;
    source_sets_free(run->tour);
}

/* Runs the loop to the end; then commits open writes, whatever the end is. */
static enum status
turn_run(struct run *run, struct problem *why)
{
    struct mirror *m = run->m;
    enum status rc;

    if (m->work)
        file_sync_poke(m->work);
    rc = handle_loop_until(m->client->loop, &m->is_over);
    if (!m->why.rc && (!m->work || file_sync_finish(m->work)))
        mirror_settle(m);
    mirror_tell(m, TD_SYNC_PROGRESS, NULL);
    problem_clear(why);
    if (rc == STATUS_STOPPED)
        return problem(why, rc, "stopped");
    if (rc)
        return problem(why, rc, "called from a callback of this handle");
    if (m->why.rc)
        *why = m->why;
    else if (run->why.rc)
        *why = run->why;
    else if (run->tour)
        source_sets_why(run->tour, why);
    return why->rc;
}

enum status
sync_run_source(struct mirror *m, const char *url, bool until_caught_up,
                struct problem *why)
{
    struct run run = {.m = m, .url = url, .until_caught_up = until_caught_up};
    enum status rc = STATUS_MEMORY;

    m->is_over = false;
    if (!client_add_source(m->client, url) && init_run(&run))
        rc = turn_run(&run, why);
    else
        problem_memory(why);
    fini_run(&run);
    return rc;
}

static void
on_work_done(void *user)
{
    struct mirror *m = user;

    m->is_over = true;
}

enum status
sync_run_work(struct mirror *m, struct problem *why)
{
    struct run run = {.m = m};
    enum status rc = STATUS_MEMORY;

    m->is_over = false;
    m->work = file_sync_new(m, on_work_done, m);
    if (m->work)
        rc = turn_run(&run, why);
    else
        problem_memory(why);
    file_sync_free(m->work);
    m->work = NULL;
    return rc;
}
