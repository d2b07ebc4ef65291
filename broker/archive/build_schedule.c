#include "broker/archive/build_schedule.h"

#include "broker/archive/set_progress.h"
#include "broker/builds/build.h"
#include "broker/builds/generation.h"
#include "broker/sets/settings.h"

/* A set waits so long after a failed list or dump. */
#define RETRY_US 60000000

/* How long the content may take to be folded as far as a held state. */
#define CONTENT_US 60000000

#define DAY_US 86400000000

/* Orders */

enum status
build_schedule_order(struct build_schedule *r, struct build_order *order,
                     struct problem *why)
{
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&r->orders.mutex);
    if (r->orders.is_ended) {
        rc = problem(why, STATUS_STOPPED, "the broker is ending");
    } else {
        list_append(&r->orders.submitted, &order->node);
        thread_wake(r->thread); /* here: it cannot have ended yet */
    }
    pthread_mutex_unlock(&r->orders.mutex);
    return rc;
}

/* Makes submitted orders wait. Returns true if there were any. */
static bool
take_orders(struct build_schedule *r)
{
    bool is_any;

    pthread_mutex_lock(&r->orders.mutex);
    is_any = !list_is_empty(&r->orders.submitted);
    list_move(&r->orders.waiting, &r->orders.submitted);
    pthread_mutex_unlock(&r->orders.mutex);
    return is_any;
}

static void
end_order(struct build_order *order, enum status rc, const struct problem *why)
{
    list_remove(&order->node);
    order->status = rc;
    if (why)
        order->why = *why;
    order->done(order);
}

static void forget_build(struct build_schedule *r,
                         const struct build_order *order,
                         const struct head *head);

/* Answers the orders that need not wait any longer. */
static void
answer_orders(struct build_schedule *r)
{
    int64_t now_us = clock_steady_us();
    struct build_order *order;
    struct problem why = {""};
    struct head head;

    list_walk (order, &r->orders.waiting, node) {
        if (!log_head(order->set->log, &head)) {
            problem_set(&why, "the set %s was removed", order->set->name);
            end_order(order, STATUS_GONE, &why);
            continue;
        }
        if (authority_check(order->authority, clock_now_us(), &why)) {
            forget_build(r, order, &head);
            end_order(order, STATUS_DENIED, &why);
            continue;
        }
        order->generation = head.generations[order->kind].current;
        if (order->generation.number > 0 &&
            order->generation.seq >= order->wanted &&
            !head_lacks_build(&head, order->kind) &&
            generation_is_here(order->set, order->kind,
                               order->generation.number))
            end_order(order, STATUS_OK, NULL);
        else if (now_us >= order->until_us)
            end_order(order, STATUS_AGAIN, NULL);
    }
}

/* Postpones a build and refuses its orders with the reason. */
static void
put_off(struct build_schedule *r, struct set *set, enum generation_kind kind,
        enum status rc, uint64_t missing, const struct problem *why)
{
    struct build_order *order;

    set->progress->builds[kind].is_due = false;
    set->progress->builds[kind].retry_us = clock_steady_us() + RETRY_US;
    list_walk (order, &r->orders.waiting, node) {
        if (order->set != set || order->kind != kind)
            continue;
        order->missing = missing;
        end_order(order, rc, why);
    }
}

/* What is due */

/* A set that keeps no content has no dump. */
static bool
has_kind(const struct set *set, enum generation_kind kind)
{
    return kind != GENERATION_RESOURCEDUMP ||
           set_content_mode(set) != CONTENT_NONE;
}

/* True if a list or a dump is old enough for the next one, names an earlier
 * epoch, or the log no longer reaches back to its position, where its readers
 * go on. A clock that was set back delays nothing. */
static bool
is_due(struct set *set, enum generation_kind kind, const struct head *head)
{
    const struct generation *current = &head->generations[kind].current;
    bool is_out_of_reach = current->seq < head->earliest;
    int64_t now_us = clock_now_us();
    int64_t every = load_relaxed(kind == GENERATION_RESOURCEDUMP
                                     ? &set->resource_dump_every_us
                                     : &set->resource_list_every_us);

    if (!has_kind(set, kind) ||
        clock_steady_us() < set->progress->builds[kind].retry_us)
        return false;
    if (head_lacks_build(head, kind) || head->last == current->seq)
        return head_lacks_build(head, kind);
    if (every == 0 ||
        (kind == GENERATION_RESOURCELIST && set_is_small(set, head)))
        return current->number > 0 && is_out_of_reach;
    if (current->number == 0)
        return now_us >= set_first_build(head, every) || is_out_of_reach;
    return now_us >= current->completed_us + every ||
           now_us < current->completed_us || is_out_of_reach;
}

static void
want_build(struct set *set, enum generation_kind kind, uint64_t seq)
{
    struct build_progress *build = &set->progress->builds[kind];

    if (!build->is_due || build->wanted < seq)
        build->wanted = seq;
    build->is_due = true;
}

/* True if the set archives its next list or dump, of the state at the time
 * `at_us`. One commit makes the build current and archives it. */
static bool
is_to_be_kept(const struct set *set, enum generation_kind kind,
              const struct head *head, int64_t at_us)
{
    const struct generations *all = &head->generations[kind];
    struct settings settings;
    uint64_t keep;

    registry_settings(set, &settings);
    keep = kind == GENERATION_RESOURCEDUMP ? settings.resource_dump_keep
                                           : settings.resource_list_keep;
    switch (keep) {
    case OPTION_KEEP_NONE:
        return false;
    case OPTION_KEEP_DAILY:
        return all->n_archived == 0 ||
               all->current.at_us / DAY_US != at_us / DAY_US;
    default:
        return (all->last + 1) % keep == 0;
    }
}

/* Content */

/* Checks that the content of every resource of the state is there.
 * STATUS_AGAIN: not known yet; STATUS_NOT_FOUND: *missing resources lack it. */
static enum status
look_at_content(struct build_schedule *r, struct set *set,
                const struct resources_at *at, uint64_t *missing,
                struct problem *why)
{
    const struct content_at *have;
    struct content *content;
    enum status rc = STATUS_NOT_FOUND;

    *missing = at->n;
    if (r->contents && has_kind(set, GENERATION_RESOURCEDUMP))
        rc = contents_open(r->contents, set, &content, why);
    if (rc == STATUS_NOT_FOUND)
        return problem(why, rc,
                       "the set %s keeps no content: it has no Resource Dump",
                       set->name);
    if (rc)
        return rc;
    have = content_at(content);
    if (have->seq < at->seq && clock_steady_us() < r->until_us) {
        if (!r->has_looked)
            chore_look(&r->contents->chore);
        r->has_looked = true;
        return STATUS_AGAIN;
    }
    /* The content may be ahead of a state that has begun anew. */
    if (have->seq != at->seq)
        return problem(why, STATUS_IO,
                       "the content of the set is known up to entry %" PRIu64
                       ", its resources up to entry %" PRIu64,
                       have->seq, at->seq);
    if (content_has_all(content, at))
        return STATUS_OK;
    *missing = at->n - (have->current - have->current_missing);
    return problem(why, STATUS_NOT_FOUND,
                   "the content of %" PRIu64 " of the %" PRIu64
                   " resources of the set %s is not there: it can have no "
                   "Resource Dump yet",
                   *missing, at->n, set->name);
}

/* Of a cluster */

/* Orders a list or a dump, at all brokers, if none is ordered, or `is_again`.
 * Another broker may be first. If that fails, the orders of the set are
 * refused. A log that goes on until the order is placed may end on another day
 * than `head`; then the next list is the first of that day for the archive. */
static enum status
order_build(struct build_schedule *r, struct set *set,
            enum generation_kind kind, const struct head *head, bool is_again)
{
    const struct generations *all = &head->generations[kind];
    struct act act = {
        .kind = ACT_GENERATION,
        .generation = {.build = {.kind = kind,
                                 .number = all->last,
                                 .is_archived = is_to_be_kept(set, kind, head,
                                                              head->last_us)},
                       .keeps_list = is_to_be_kept(set, GENERATION_RESOURCELIST,
                                                   head, head->last_us)},
    };
    struct problem why = {""};
    struct resources *resources;
    uint64_t missing = 0;
    enum status rc = STATUS_OK;

    /* If a list was ordered a while ago, and the state here has passed its
     * position, then perhaps no broker can build it: this one orders another.
     */
    if (all->ordered.number > 0 && !is_again &&
        !(set->progress->fold.is_whole &&
          state_fold_seq(set) > all->ordered.seq &&
          clock_now_us() > all->ordered.completed_us + RETRY_US))
        return STATUS_OK;
    if (kind == GENERATION_RESOURCEDUMP && !is_again) {
        rc = state_fold_open(r->folding, set, &resources, &why);
        if (!rc)
            rc = look_at_content(r, set, resources_at(resources), &missing,
                                 &why);
        if (rc == STATUS_AGAIN || rc == STATUS_IO) /* it is not folded yet */
            return rc;
    }
    if (!rc)
        rc = log_act(set->registry->log, set->log, &act,
                     set->registry->config->remove_grace_us, &why);
    if (rc) {
        r->may_commit &= rc == STATUS_NOT_FOUND; /* until the next look */
        put_off(r, set, kind, rc, missing, &why);
    } else {
        chore_look(&r->folding->chore);
    }
    return rc;
}

/* Returns true and sets *list if this broker can build a list now from the
 * state of the set. */
static bool
has_list_to_build(const struct build_schedule *r, struct set *set,
                  const struct head *head, struct generation *list)
{
    return state_fold_list(set, head, list) &&
           (r->may_commit || !generation_is_order(list)) &&
           state_fold_is_known(set) && state_fold_seq(set) == list->seq;
}

static bool
is_shared(const struct set *set)
{
    return log_is_shared(set->registry->log);
}

/* True if this broker builds a list of the set now, without an order of
 * somebody who waits. */
static bool
wants_list(const struct build_schedule *r, struct set *set,
           const struct head *head)
{
    struct generation list;

    return has_list_to_build(r, set, head, &list) &&
           clock_steady_us() >= set->progress->builds[list.kind].retry_us;
}

static bool
look_at(struct set *set, const struct head *head, void *user)
{
    struct build_schedule *r = user;

    if (is_shared(set)) {
        for (int kind = GENERATION_STATES - 1; kind >= 0; kind--)
            if (r->may_commit && is_due(set, (enum generation_kind)kind, head))
                (void)order_build(r, set, (enum generation_kind)kind, head,
                                  false);
        r->turn.is_due |= wants_list(r, set, head);
        return true;
    }
    for (enum generation_kind kind = 0; kind < GENERATION_STATES; kind++) {
        if (!set->progress->builds[kind].is_due && is_due(set, kind, head))
            want_build(set, kind, head->last);
        r->turn.is_due |= set->progress->builds[kind].is_due;
    }
    return true;
}

static void
build_schedule_look(struct chore *chore)
{
    struct build_schedule *r = list_entry(chore, struct build_schedule, chore);
    struct log_copy copy;

    log_copy(r->registry->log, &copy);
    r->may_commit = !copy.is_cut_off && !r->registry->config->cluster_read_only;
    registry_each(r->registry, look_at, r);
}

/* True if the kind is due, and a state at `seq` is far enough. */
static bool
is_ready(const struct set *set, enum generation_kind kind, uint64_t seq)
{
    return set->progress->builds[kind].is_due &&
           set->progress->builds[kind].wanted <= seq;
}

/* True if the state of the set is far enough for a kind that is due. */
static bool
can_begin(struct set *set, const struct head *head, void *user)
{
    struct generation list;
    bool is_any = false;

    if (is_shared(set))
        return has_list_to_build(user, set, head, &list);
    for (enum generation_kind kind = 0; kind < GENERATION_STATES; kind++)
        is_any |= is_ready(set, kind, state_fold_seq(set));
    return is_any && state_fold_is_known(set);
}

/* Returns the next set with an order. */
static struct set *
next_ordered(struct build_schedule *r)
{
    struct build_order *order;

    list_walk (order, &r->orders.waiting, node) {
        struct head head;

        if (!log_head(order->set->log, &head))
            continue;
        if (!is_shared(order->set))
            want_build(order->set, order->kind, order->wanted);
        else if ((head.generations[order->kind].current.number == 0 ||
                  head.generations[order->kind].current.seq < order->wanted ||
                  head_lacks_build(&head, order->kind)) &&
                 order_build(r, order->set, order->kind, &head, false))
            return NULL; /* it may have ended orders */
        turn_add(&r->ordered, order->set);
    }
    return turn_next(&r->ordered);
}

/* Returns the set that has got a list, if it can get the next one. So a broker
 * that was away does not wait a second for each list that it lacks. */
static struct set *
next_behind(struct build_schedule *r)
{
    struct generation list;
    struct head head;

    if (!r->behind)
        return NULL;
    if (!log_head(r->behind->log, &head) ||
        !state_fold_list(r->behind, &head, &list))
        r->behind = NULL;
    else if (wants_list(r, r->behind, &head))
        return r->behind;
    return NULL;
}

static bool
wants_turn(struct set *set, const struct head *head, void *user)
{
    return is_shared(set) ? wants_list(user, set, head)
                          : can_begin(set, head, user);
}

/* Holding */

/* Lets the fold go on, at once if an order waits, or the set may lack more
 * lists. */
static void
let_go(struct build_schedule *r)
{
    r->behind = is_shared(r->set) ? r->set : NULL;
    r->set = NULL;
    r->folding->held = NULL;
    if (r->behind || !list_is_empty(&r->orders.waiting))
        chore_look(&r->folding->chore);
}

/* Gives up the build of an order that ends, unless somebody else wants it: the
 * schedule, another order, or in a cluster the commit that ordered it. */
static void
forget_build(struct build_schedule *r, const struct build_order *order,
             const struct head *head)
{
    struct set *set = order->set;
    struct build_order *other;

    if (is_shared(set) || is_due(set, order->kind, head))
        return;
    list_walk (other, &r->orders.waiting, node)
        if (other != order && other->set == set)
            return;
    set->progress->builds[order->kind].is_due = false;
    if (r->build && r->set == set && !is_due(set, r->kind, head)) {
        build_abandon(r->build);
        r->build = NULL;
        let_go(r);
    }
}

/* Gives up a kind that could not be built, and those after it. */
static void
give_up(struct build_schedule *r, struct set *set, enum generation_kind first,
        enum status rc, const struct problem *why)
{
    for (enum generation_kind kind = first; kind < GENERATION_STATES; kind++)
        if (set->progress->builds[kind].is_due || is_shared(set))
            put_off(r, set, kind, rc, 0, why);
    if (rc != STATUS_GONE && rc != STATUS_STOPPED)
        DIAG(DIAG_WARNING, "archive",
             "a list or dump could not be built, and will be tried again",
             diag_text("set", set->name),
             diag_text("kind", links_kinds[first].title),
             diag_text("error", why->text));
}

static enum status
hold_state(struct build_schedule *r, struct set *set, struct problem *why)
{
    const struct resources_at *at;
    struct resources *resources;
    struct head head;
    enum status rc = state_fold_open(r->folding, set, &resources, why);

    if (rc)
        return rc;
    if (!log_head(set->log, &head))
        return problem(why, STATUS_GONE, "the set %s was removed", set->name);
    at = resources_at(resources);
    if (!at->is_whole)
        return problem(why, STATUS_GONE,
                       "the log of the set %s begins after entry %" PRIu64
                       ": the set gets a Resource List when its source puts "
                       "all resources again",
                       set->name, at->began);
    if (!chore_has_room(r->registry))
        return problem(why, STATUS_BUSY, "the disk is nearly full");
    r->set = set;
    r->until_us = clock_steady_us() + CONTENT_US;
    r->has_looked = false;
    r->folding->held = set;
    return STATUS_OK;
}

/* Building */

static bool
is_current(const struct head *head, enum generation_kind kind, uint64_t seq)
{
    const struct generation *current = &head->generations[kind].current;

    return current->number > 0 && current->seq == seq &&
           !head_lacks_build(head, kind);
}

/* Sets the kind to build next from the held state; GENERATION_STATES: none.
 * *ordered: the list that it is in a cluster. Postpones a dump that cannot be
 * built. Returns false if that is not known yet. */
static bool
find_next(struct build_schedule *r, const struct resources_at *at,
          const struct head *head, struct generation *ordered)
{
    struct set *set = r->set;
    struct problem why = {""};
    uint64_t missing;
    bool is_dump_ready;
    enum status rc;

    if (is_shared(r->set)) {
        r->kind = has_list_to_build(r, r->set, head, ordered)
                      ? ordered->kind
                      : GENERATION_STATES;
        if (r->kind != GENERATION_RESOURCEDUMP)
            return true;
        rc = look_at_content(r, set, at, &missing, &why);
        if (rc && rc != STATUS_AGAIN) {
            /* At this position it is not to be had, here at least: the next
             * order lets the state go on. */
            if (generation_is_order(ordered))
                (void)order_build(r, set, r->kind, head, true);
            put_off(r, set, r->kind, rc, missing, &why);
            r->kind = GENERATION_STATES;
        }
        return rc != STATUS_AGAIN;
    }
    for (enum generation_kind kind = 0; kind < GENERATION_STATES; kind++)
        if (is_ready(set, kind, at->seq) && is_current(head, kind, at->seq))
            set->progress->builds[kind].is_due = false;
    if (is_ready(set, GENERATION_RESOURCEDUMP, at->seq)) {
        rc = look_at_content(r, set, at, &missing, &why);
        if (rc == STATUS_AGAIN)
            return false;
        if (rc == STATUS_NOT_FOUND) {
            DIAG(DIAG_DEBUG, "archive", "a Resource Dump has to wait",
                 diag_text("set", set->name), diag_text("why", why.text));
            put_off(r, set, GENERATION_RESOURCEDUMP, rc, missing, &why);
        } else if (rc) {
            give_up(r, set, GENERATION_RESOURCEDUMP, rc, &why);
        }
    }
    is_dump_ready = is_ready(set, GENERATION_RESOURCEDUMP, at->seq);
    r->kind = GENERATION_STATES;
    if (is_dump_ready && !is_current(head, GENERATION_RESOURCEDUMP, at->seq))
        r->kind = GENERATION_RESOURCEDUMP;
    if ((is_dump_ready || is_ready(set, GENERATION_RESOURCELIST, at->seq)) &&
        !is_current(head, GENERATION_RESOURCELIST, at->seq))
        r->kind = GENERATION_RESOURCELIST; /* it comes before the dump */
    return true;
}

/* Begins the next build from the held state, or lets the state go. Returns
 * false if that is not known yet. */
static bool
begin_next(struct build_schedule *r)
{
    struct problem why = {""};
    struct resources *resources;
    struct head head;
    struct generation ordered = {.number = 0};
    enum status rc = state_fold_open(r->folding, r->set, &resources, &why);

    r->kind = GENERATION_RESOURCELIST;
    if (!rc && !log_head(r->set->log, &head))
        rc = problem(&why, STATUS_GONE, "the set %s was removed", r->set->name);
    if (!rc) {
        if (!find_next(r, resources_at(resources), &head, &ordered))
            return false;
        if (r->kind == GENERATION_STATES) {
            let_go(r);
            return true;
        }
        r->number = ordered.number;
        rc = build_begin(&r->build, r->set, r->kind, resources,
                         is_shared(r->set) ? &ordered : NULL,
                         is_shared(r->set)
                             ? ordered.is_archived
                             : is_to_be_kept(r->set, r->kind, &head,
                                             resources_at(resources)->us),
                         &why);
    }
    if (rc) {
        r->build = NULL;
        give_up(r, r->set, r->kind, rc, &why);
        let_go(r);
    }
    return true;
}

static void
continue_build(struct build_schedule *r)
{
    struct problem why = {""};
    struct resources *resources;
    struct content *content = NULL;
    bool is_done = false;
    enum status rc = state_fold_open(r->folding, r->set, &resources, &why);

    if (!rc && build_needs_content(r->build))
        rc = contents_open(r->contents, r->set, &content, &why);
    if (rc)
        build_abandon(r->build);
    else
        rc = build_step(r->build, resources, content, &is_done, &why);
    if (rc || is_done)
        r->build = NULL;
    if (rc == STATUS_AGAIN) {
        let_go(r); /* to build the later list, which fills the same orders */
    } else if (rc) {
        /* Bytes of content are lost here: the state passes this dump. */
        if (rc == STATUS_INVALID && is_shared(r->set))
            r->set->progress->fold.lists[r->kind] = r->number;
        give_up(r, r->set, r->kind, rc, &why);
        let_go(r);
    } else if (is_done) {
        DIAG(DIAG_DEBUG, "archive", "a list or dump was built",
             diag_text("set", r->set->name),
             diag_text("kind", links_kinds[r->kind].title));
        answer_orders(r);
        begin_next(r);
    }
}

static bool
build_schedule_some(struct chore *chore)
{
    struct build_schedule *r = list_entry(chore, struct build_schedule, chore);
    bool is_new = take_orders(r);
    struct problem why = {""};
    struct set *set;
    enum status rc;

    if (is_new)
        chore_look(&r->folding->chore);
    answer_orders(r);
    if (r->build) {
        continue_build(r);
        return true;
    }
    if (r->set)
        return begin_next(r);
    set = next_ordered(r);
    if (!set)
        set = next_behind(r);
    if (!set)
        set = turn_next(&r->turn);
    if (!set)
        return is_new; /* fold first */
    rc = hold_state(r, set, &why);
    if (rc)
        give_up(r, set, GENERATION_RESOURCELIST, rc, &why);
    else
        begin_next(r);
    return true;
}

static void
build_schedule_end(struct chore *chore)
{
    const struct problem why = {"the broker is ending"};
    struct build_order *order;
    struct build_schedule *r = list_entry(chore, struct build_schedule, chore);

    pthread_mutex_lock(&r->orders.mutex);
    r->orders.is_ended = true;
    pthread_mutex_unlock(&r->orders.mutex);
    take_orders(r);
    list_walk (order, &r->orders.waiting, node)
        end_order(order, STATUS_STOPPED, &why);
    build_abandon(r->build);
    r->build = NULL;
    r->set = NULL;
}

void
build_schedule_init(struct build_schedule *r, struct registry *registry,
                    struct state_fold *folding, struct contents *contents,
                    struct thread *thread)
{
    memset(r, 0, sizeof(*r));
    r->chore = (struct chore){.look = build_schedule_look,
                              .step = build_schedule_some,
                              .end = build_schedule_end};
    turn_init(&r->turn, TURN_BUILD, registry, wants_turn, r);
    turn_init(&r->ordered, TURN_ORDERED_BUILD, registry, can_begin, r);
    r->registry = registry;
    r->folding = folding;
    r->contents = contents;
    r->thread = thread;
    pthread_mutex_init(&r->orders.mutex, NULL);
    list_init(&r->orders.submitted);
    list_init(&r->orders.waiting);
}
