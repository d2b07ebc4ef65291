#include "broker/archive/retention.h"

#include "broker/archive/set_progress.h"
#include "broker/sets/settings.h"

/* Lists removed in one commit, which writes one row for any number of them, but
 * looks at their files. The others follow in the next round. */
#define STEP_LISTS 256

/* Counts those of the oldest `n` lists that no chore needs. The framework log
 * has no state, no content and no dumps. */
static size_t
count_unneeded(const struct retaining *r, struct set *set,
               const struct list_info *lists, size_t n)
{
    const struct chore *chore;

    if (set == r->registry->framework)
        return n;
    list_walk (chore, r->chores, node) {
        size_t most = n;

        if (!chore->needs || (chore->patience > 0 && n > chore->patience))
            continue;
        for (n = 0; n < most && !chore->needs(set, &lists[n]);)
            n++;
    }
    return n;
}

static enum status
retain_lists(struct retaining *r, struct set *set, const struct head *head,
             const struct retention *retention, int64_t before_us,
             struct problem *why)
{
    struct log *log = set->registry->log;
    struct retention_progress *oldest = &set->progress->retention;
    uint64_t over = retention_over(retention, head->list - head->first_list);
    struct list_info lists[STEP_LISTS];
    size_t n = STEP_LISTS, going = 0;
    enum status rc;

    if (over == 0 &&
        (before_us == INT64_MIN || head->list <= head->first_list ||
         (oldest->list == head->first_list && oldest->until_us >= before_us)))
        return STATUS_OK; /* none is over, or known to be old */
    rc = log_lists(log, set->log, head->first_list, lists, &n, why);
    if (rc || n == 0)
        return rc;
    oldest->list = lists[0].number;
    oldest->until_us = lists[0].until_us;
    while (going < n && lists[going].is_filed &&
           (going < over || lists[going].until_us < before_us))
        going++;
    going = count_unneeded(r, set, lists, going);
    if (going == 0)
        return STATUS_OK;
    return log_retire(log, set->log, lists, going,
                      set->registry->config->remove_grace_us, why);
}

/* Removes generations from an archive, except the last one. The broker serves
 * their files a while longer, for clients that are reading them. */
static enum status
retain_generations(struct set *set, enum generation_kind kind,
                   const struct generations *all,
                   const struct retention *retention, int64_t before_us,
                   struct problem *why)
{
    uint64_t over = retention_over(retention, all->n_archived);
    struct log *log = set->registry->log;
    struct act act = {.kind = ACT_UNARCHIVED, .unarchived = {.kind = kind}};
    struct generation some[STEP_LISTS + 1];
    struct generation_page page = {kind, all->first_archived, some,
                                   STEP_LISTS + 1};
    struct generation_progress *oldest =
        &set->progress->retention.generations[kind];
    size_t going = 0;
    enum status rc;

    if (over == 0 && (before_us == INT64_MIN || all->n_archived <= 1 ||
                      (oldest->number == all->first_archived &&
                       oldest->completed_us >= before_us)))
        return STATUS_OK;
    rc = log_generations(log, set->log, &page, why);
    if (rc || page.n == 0)
        return rc;
    oldest->number = some[0].number;
    oldest->completed_us = some[0].completed_us;
    while (going + 1 < page.n &&
           (going < over || some[going].completed_us < before_us))
        going++;
    if (going == 0)
        return STATUS_OK;
    act.unarchived.from = all->first_archived;
    act.unarchived.n = going;
    act.unarchived.first_archived = some[going].number;
    return log_act(log, set->log, &act, set->registry->config->remove_grace_us,
                   why);
}

static bool
retain_set(struct set *set, const struct head *head, void *user)
{
    struct problem why = {""};
    struct retention retention = {load_relaxed(&set->retain_lists),
                                  load_relaxed(&set->retain_age_us)};
    int64_t before_us = retention_since_us(&retention);
    enum status rc = retain_lists(user, set, head, &retention, before_us, &why);

    for (int kind = 0; !rc && kind < GENERATION_KINDS; kind++)
        rc = retain_generations(set, (enum generation_kind)kind,
                                &head->generations[kind], &retention, before_us,
                                &why);
    if (rc && rc != STATUS_STOPPED && rc != STATUS_GONE)
        diag(DIAG_WARNING, "archive",
             "%s: old lists stay, and will be tried again: %s", set->name,
             why.text);
    return rc != STATUS_STOPPED;
}

static void
retain_all(struct chore *chore)
{
    struct retaining *r = list_entry(chore, struct retaining, chore);
    struct set *framework = r->registry->framework;
    struct log *log = r->registry->log;
    struct head head;

    if (r->registry->config->cluster_read_only || !log_begin_deleting(log))
        return; /* other brokers retire lists */
    registry_each(r->registry, retain_set, r);
    if (log_head(framework->log, &head))
        retain_set(framework, &head, r);
    log_end_deleting(log);
}

void
retention_init(struct retaining *r, struct registry *registry,
               const struct list *chores)
{
    r->chore = (struct chore){.look = retain_all};
    r->registry = registry;
    r->chores = chores;
}
