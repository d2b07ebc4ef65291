#include "broker/archive/state_fold.h"

#include <unistd.h>

#include "broker/archive/set_progress.h"
#include "broker/builds/generation.h"

/* state_fold.rest_us: longer than the pauses of a source at work. */
#define REST_US 10000000

/* state_fold.lag: more than most sources post at once. A list that is awaited
 * waits some seconds for the fold of so many. */
#define LAG 1000000

/* States */

uint64_t
state_fold_seq(const struct set *set)
{
    return set->progress->fold.seq;
}

bool
state_fold_is_known(const struct set *set)
{
    return set->progress->fold.is_known;
}

bool
state_fold_needs(struct set *set, const struct list_info *list)
{
    if (set->progress->fold.kept >= list->last)
        return false;
    set->progress->fold.wanted = list->last;
    return true;
}

/* Sets *list to the first Resource List or Dump that all brokers serve and this
 * one has not built, though its state has not passed the position of that.
 * STATUS_NOT_FOUND: there is none. Those with higher numbers have later
 * positions. */
static enum status
find_missing(const struct set *set, enum generation_kind kind,
             const struct generations *lists, struct generation *list)
{
    struct log *log = set->registry->log;
    const struct generation *current = &lists->current;
    const struct fold_progress *n = &set->progress->fold;
    uint64_t *have = &set->progress->fold.lists[kind];

    if (*have < current->number &&
        (n->seq > current->seq ||
         (n->seq == current->seq &&
          generation_is_here(set, kind, current->number))))
        *have = current->number; /* without a look at each archived one */
    while (*have < current->number) {
        struct generation_page page = {kind, *have + 1, list,
                                       lists->n_archived > 0};
        enum status rc = STATUS_OK;

        /* An archived one, else the current one. */
        if (page.n > 0)
            rc = log_generations(log, set->log, &page, NULL);
        if (!rc && page.n == 0)
            *list = *current;
        if (rc || (n->seq <= list->seq &&
                   !generation_is_here(set, kind, list->number)))
            return rc;
        *have = list->number;
    }
    return STATUS_NOT_FOUND;
}

/* Sets *next to the Resource List or Dump that this broker of a cluster builds
 * next: the list first, of the same position. STATUS_NOT_FOUND: there is none
 * whose position its state has not passed. */
static enum status
next_list(const struct set *set, const struct head *head,
          struct generation *next)
{
    const struct fold_progress *n = &set->progress->fold;
    enum status result = STATUS_NOT_FOUND;

    if (!log_is_shared(set->registry->log) || !n->is_known || !n->is_whole)
        return STATUS_NOT_FOUND;
    for (enum generation_kind kind = 0; kind < GENERATION_STATES; kind++) {
        const struct generations *all = &head->generations[kind];
        struct generation found;
        enum status rc = find_missing(set, kind, all, &found);

        if (rc == STATUS_NOT_FOUND && all->ordered.number > 0 &&
            n->seq <= all->ordered.seq) {
            found = all->ordered;
            rc = STATUS_OK;
        }
        if (rc && rc != STATUS_NOT_FOUND)
            return rc;
        if (!rc && (result || found.seq < next->seq))
            *next = found;
        if (!rc)
            result = STATUS_OK;
    }
    return result;
}

/* True if retention waits until the state is on the disk. */
static bool
is_wanted(const struct set *set)
{
    return set->progress->fold.wanted > set->progress->fold.kept;
}

/* True if the list cannot be built because the disk is nearly full, and the
 * deletion of old lists, which makes room, waits for entries behind it. */
static bool
is_in_the_way(const struct set *set, const struct generation *list)
{
    return is_wanted(set) && set->progress->fold.wanted > list->seq &&
           !chore_has_room(set->registry);
}

bool
state_fold_list(const struct set *set, const struct head *head,
                struct generation *list)
{
    return !next_list(set, head, list) && !is_in_the_way(set, list);
}

/* The last entry that the state may have now: none more while the next list
 * cannot be known. */
static uint64_t
last_entry(const struct set *set, const struct head *head)
{
    struct generation list;
    enum status rc = next_list(set, head, &list);

    if (rc && rc != STATUS_NOT_FOUND)
        return state_fold_seq(set);
    return rc || is_in_the_way(set, &list) ? head->last : list.seq;
}

static void
note_state(struct set *set, const struct resources *r)
{
    struct fold_progress *n = &set->progress->fold;
    uint64_t kept = resources_at(r)->kept;
    struct id_sum sum;

    if (resources_at(r)->seq < n->seq)
        memset(
            n->lists, 0,
            sizeof(n->lists)); /* a state that began anew passes lists again */
    n->is_known = n->has_file = true;
    n->is_whole = resources_at(r)->is_whole;
    n->has_ids = resources_at(r)->has_ids;
    n->seq = resources_at(r)->seq;
    if (n->has_ids && n->is_whole) {
        resources_sum(r, &sum);
        registry_set_sum(set, n->seq, &sum);
    }
    /* A reopened state does not know its durable position; a state that has
     * begun anew has none. */
    if (kept > n->kept || n->seq < n->kept)
        n->kept = kept;
}

/* True if a reader waits for the ids of a state. */
static bool
lacks_ids(const struct set *set)
{
    return load_relaxed(&set->ids_wanted) > 0 && set->progress->fold.seq > 0 &&
           !set->progress->fold.has_ids;
}

static void
report_incomplete(const struct set *set, uint64_t after)
{
    DIAG(DIAG_ERROR, "archive",
         "the state of a set is incomplete: its log no longer has the earlier "
         "changes",
         diag_text("set", set->name), diag_number("before", after + 1));
}

/* The log may end before the position of the state, if an older copy took its
 * place: then the state begins anew. Reports a state that is not whole once in
 * the life of the process. */
static enum status
open_state(struct state_fold *f, struct set *set, const struct head *head,
           struct resources **resources, struct problem *why)
{
    const struct resources_at *at;
    struct fold_db *db;
    bool has_begun = false;
    enum status rc = folds_open(&f->states, set, head->origin, &db, why);

    if (rc)
        return rc;
    *resources = resources_of(db);
    at = resources_at(*resources);
    if (set == f->held && db->at.seq != state_fold_seq(set)) {
        rc = problem(why, STATUS_IO, "the state of the set was damaged");
    } else if (at->seq > head->last) {
        DIAG(DIAG_WARNING, "archive",
             "the state of a set begins anew: it is ahead of the log",
             diag_text("set", set->name), diag_number("seq", at->seq));
        rc = fold_db_begin(db, head->earliest, why);
        has_begun = true;
    }
    if (!rc && !at->is_whole && (has_begun || !state_fold_is_known(set)))
        report_incomplete(set, at->began);
    if (rc)
        folds_drop(&f->states, set);
    else
        note_state(set, *resources);
    return rc;
}

enum status
state_fold_open(struct state_fold *f, struct set *set,
                struct resources **resources, struct problem *why)
{
    struct head head;

    folds_drop_removed(&f->states);
    if (!log_head(set->log, &head))
        return problem(why, STATUS_GONE, "the set %s was removed", set->name);
    return open_state(f, set, &head, resources, why);
}

/* Folding */

enum status
state_fold_step(struct state_fold *f, struct set *set, bool *is_more,
                struct problem *why)
{
    struct generation list;
    struct resources *state;
    struct head head;
    uint64_t began;
    bool was_whole, has_list;
    enum status rc;

    *is_more = true;
    if (f->held == set)
        return STATUS_OK;
    if (!log_head(set->log, &head))
        return STATUS_GONE;
    rc = open_state(f, set, &head, &state, why);
    if (rc)
        return rc;
    was_whole = resources_at(state)->is_whole;
    has_list = !next_list(set, &head, &list);
    began = resources_at(state)->began;
    rc = folds_advance(&f->states, set, last_entry(set, &head), why);
    if (!rc && resources_at(state)->began > began)
        report_incomplete(set, resources_at(state)->began);
    note_state(set, state);
    if (!rc && lacks_ids(set))
        rc = resources_add_ids(state, why);
    if (!rc && is_wanted(set))
        rc = resources_keep(state, why);
    if (!was_whole && resources_at(state)->is_whole)
        DIAG(DIAG_INFO, "archive",
             "the state of a set is complete again: its source has put all "
             "resources",
             diag_text("set", set->name));
    note_state(set, state);
    if (has_list && set->progress->fold.seq > list.seq)
        DIAG(DIAG_WARNING, "archive",
             "the disk is nearly full: this broker does not build a Resource "
             "List, and serves the former one until the next",
             diag_text("set", set->name), diag_number("number", list.number));
    *is_more =
        set->progress->fold.seq < last_entry(set, &head) || lacks_ids(set);
    if (rc)
        folds_drop(&f->states, set);
    return rc;
}

/* True if a list or a dump waits for the state. */
static bool
is_awaited(const struct set *set)
{
    const struct set_progress *n = set->progress;

    for (enum generation_kind kind = 0; kind < GENERATION_STATES; kind++)
        if (n->builds[kind].is_due && n->builds[kind].wanted > n->fold.seq)
            return true;
    return false;
}

/* True if the set, which is behind, is to be folded now. */
static bool
is_due(const struct state_fold *f, struct set *set, const struct head *head)
{
    struct generation list;
    bool has_list = state_fold_list(set, head, &list);
    uint64_t seq = set->progress->fold.seq;
    uint64_t last = has_list ? list.seq : head->last;

    return seq < last && (has_list || last - seq >= f->lag || is_awaited(set) ||
                          load_relaxed(&set->ids_wanted) > seq ||
                          set_content_mode(set) != CONTENT_NONE ||
                          (clock_now_us() >= head->last_us + f->rest_us &&
                           (seq > 0 || !set_is_small(set, head))));
}

/* True if a small set has a state, of an upload or of an earlier version, for
 * which nobody waits. */
static bool
is_idle(const struct state_fold *f, const struct set *set,
        const struct head *head)
{
    struct generation list;

    return set->progress->fold.has_file && set_is_small(set, head) &&
           !is_wanted(set) && !is_awaited(set) &&
           !state_fold_list(set, head, &list) &&
           set_content_mode(set) == CONTENT_NONE &&
           clock_now_us() >= head->last_us + f->rest_us;
}

/* True if the set is to be folded. While the disk is nearly full, only if that
 * makes room. */
static bool
is_behind(struct set *set, const struct head *head, void *user)
{
    const struct state_fold *f = user;
    struct fold_progress *n = &set->progress->fold;

    if (f->held == set)
        return false;
    /* A set without entries, or with few, has no state, but an earlier set of
     * that name may have left one. */
    if (!n->is_known && (head->last == 0 || set_is_small(set, head)))
        n->is_known = n->is_whole =
            access(set_path(set, RESOURCES_FILE).text, F_OK) != 0;
    return is_wanted(set) || is_idle(f, set, head) ||
           (chore_has_room(set->registry) &&
            (!n->is_known || n->seq > head->last || lacks_ids(set) ||
             is_due(f, set, head)));
}

static bool
folding_some(struct chore *chore)
{
    struct state_fold *f = list_entry(chore, struct state_fold, chore);
    struct problem why = {""};
    struct head head;
    struct set *set;
    bool is_more = false;
    enum status rc = STATUS_GONE;

    set = turn_next(&f->turn);
    if (!set)
        return false;
    if (log_head(set->log, &head) && !is_idle(f, set, &head)) {
        rc = state_fold_step(f, set, &is_more, &why);
    } else if (log_head(set->log, &head)) {
        /* Deletes the state: the log has all that it has. */
        folds_drop(&f->states, set);
        set->progress->fold =
            (struct fold_progress){.is_known = true, .is_whole = true};
        rc = db_unlink(set_path(set, RESOURCES_FILE).text, &why);
    }
    return turn_end(&f->turn, set, rc, is_more,
                    "the state of a set could not be brought up to date, and "
                    "will be tried again",
                    &why);
}

void
state_fold_init(struct state_fold *f, struct registry *registry)
{
    memset(f, 0, sizeof(*f));
    f->chore = (struct chore){.turn = &f->turn,
                              .folds = &f->states,
                              .step = folding_some,
                              .needs = state_fold_needs};
    f->rest_us = REST_US;
    f->lag = LAG;
    folds_init(&f->states, &resources_folding);
    turn_init(&f->turn, TURN_FOLD, registry, is_behind, f);
}
