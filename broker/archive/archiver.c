#include "broker/archive/archiver.h"

#include "broker/builds/generation.h"

/* How often all sets are looked at. */
#define ROUND_US 1000000

/* Between two tries to delete what cannot be deleted. */
static const struct backoff purge_pauses = {ROUND_US, 300 * ROUND_US};

/* Another broker may have retired the list. The framework log has neither
 * state nor tree. */
static bool
needs_retired(void *user, const struct list_info *list)
{
    struct set *set = user;
    bool needs = contents_needs(set, list);

    if (set == set->registry->framework)
        return needs;
    needs |= checkpoints_need(set, list);
    return state_fold_needs(set, list) || needs;
}

/* Deletes some files of removed sets and retired lists. No pin begins
 * meanwhile: nobody places a file in a folder that is being deleted. */
static bool
purge_some(struct chore *chore)
{
    struct archiver *a = list_entry(chore, struct archiver, purge);
    struct problem why = {""};
    bool is_done = true;
    enum status rc;

    if (clock_steady_us() < a->purge_us)
        return false;
    (void)contents_shut(a->contents, NULL);
    rc = log_purge(a->registry->log, needs_retired, &is_done, &why);
    contents_unshut(a->contents);
    a->purge_failures = rc ? a->purge_failures + 1 : 0;
    if (rc)
        a->purge_us = clock_steady_us() +
                      backoff_pause(&purge_pauses, a->purge_failures, 0);
    if (rc && rc != STATUS_STOPPED)
        DIAG(DIAG_WARNING, "archive",
             "removed files are still on the disk; the broker tries again to "
             "delete them",
             diag_text("error", why.text));
    return !rc && !is_done;
}

/* Deletes a list or dump that is no longer served. */
static bool
sweep_some(struct chore *chore)
{
    return generation_sweep_one(
        list_entry(chore, struct archiver, sweep)->registry);
}

/* Adds the entries that the state and the content of the set lack to lags[0]
 * and lags[1]. The position of a state that is not open yet, or cannot be
 * opened, is unknown. */
static bool
add_lags(struct set *set, const struct head *head, void *user)
{
    int64_t *lags = user;
    uint64_t folded = state_fold_seq(set), kept = contents_seq(set);

    if (folded < head->last)
        lags[0] += (int64_t)(head->last - folded);
    if (set_content_mode(set) != CONTENT_NONE && kept < head->last)
        lags[1] += (int64_t)(head->last - kept);
    return true;
}

void
archiver_measure(struct registry *registry)
{
    int64_t lags[2] = {0};

    registry_each(registry, add_lags, lags);
    metrics_set(METRIC_FOLD_LAG, lags[0]);
    metrics_set(METRIC_CONTENT_LAG, lags[1]);
}

/* One step of each chore a turn: while posts fill lists faster than this thread
 * files them, states and content go on, too; and while those are behind, lists
 * get files, or the database would grow. Steps are short, so that the thread
 * soon sees that it has to end: on a busy processor it runs rarely, and it may
 * not raise its priority again (RLIMIT_NICE). Steps of more than milliseconds
 * stop when the log is ending, which could not commit their results. */
static void
archiver_run(struct thread *t)
{
    struct archiver *a = t->user;
    bool is_more = true; /* perhaps lists that a crash left without a file */
    int64_t looked_us = 0;

    thread_lower_priority();
    while (thread_wait(t, is_more ? 0 : ROUND_US)) {
        int64_t now_us = clock_steady_us();

        if (now_us - looked_us >= ROUND_US) {
            chores_look(&a->chores);
            archiver_measure(a->registry);
            looked_us = now_us;
        }
        is_more = chores_step(&a->chores);
    }
    chores_end(&a->chores);
}

enum status
archiver_open(struct archiver **archiver, struct registry *registry,
              const struct networks *allowed, struct problem *why)
{
    struct archiver *a = memory_new(1, sizeof(*a));
    enum status rc;

    if (!a)
        return problem_memory(why);
    a->registry = registry;
    list_init(&a->chores);
    a->purge.step = purge_some;
    a->sweep.step = sweep_some;
    rotation_init(&a->rotation, registry);
    retention_init(&a->retaining, registry, &a->chores);
    state_fold_init(&a->folding, registry);
    checkpoints_init(&a->checkpoints, registry);
    rc = uploads_init(&a->uploads, registry, &a->folding, &a->thread, why);
    if (!rc)
        rc = contents_new(&a->contents, registry, why);
    build_schedule_init(&a->schedule, registry, &a->folding, a->contents,
                        &a->thread);
    changedumps_init(&a->changedumps, registry, a->contents);
    disk_usage_init(&a->disk_usage, registry);
    if (!rc)
        rc = fetch_schedule_open(&a->fetching, registry, a->contents, allowed,
                                 &a->thread, why);
    if (rc) {
        archiver_close(a);
        return rc;
    }
    /* In their order: chore.h. States come before lists: after a crash many
     * lists may wait for their files, and each turn folds something first. */
    archiver_add(a, &a->folding.chore);
    archiver_add(a, &a->rotation.chore);
    archiver_add(a, &a->checkpoints.chore);
    archiver_add(a, &a->retaining.chore);
    archiver_add(a, &a->purge);
    archiver_add(a, &a->sweep);
    archiver_add(a, &a->contents->chore);
    archiver_add(a, &a->uploads.chore);
    archiver_add(a, &a->fetching.chore);
    archiver_add(a, &a->schedule.chore);
    archiver_add(a, &a->changedumps.chore);
    archiver_add(a, &a->disk_usage.chore);
    *archiver = a;
    return STATUS_OK;
}

void
archiver_add(struct archiver *a, struct chore *chore)
{
    list_append(&a->chores, &chore->node);
}

enum status
archiver_start(struct archiver *a, struct problem *why)
{
    return thread_start(&a->thread, "archive", archiver_run, a, why);
}

void
archiver_stop(struct archiver *a)
{
    if (!a)
        return;
    thread_stop(&a->thread);
}

void
archiver_close(struct archiver *a)
{
    archiver_stop(a);
    if (a) {
        chores_end(&a->chores); /* if the thread never began */
        contents_free(a->contents);
        uploads_fini(&a->uploads);
    }
    free(a);
}
