#include "broker/archive/changedumps.h"

#include "broker/archive/set_progress.h"
#include "broker/builds/build.h"
#include "broker/builds/generation.h"

/* A set waits so long after a failed dump. */
#define RETRY_US 60000000

/* In a cluster, if another broker was first, and has built later ones. */
#define AGAIN_US 1000000

/* Lists looked at in one go. */
#define PAGE_LISTS 64

bool
changedumps_needs(struct set *set, const struct list_info *list)
{
    return set_content_mode(set) != CONTENT_NONE &&
           !set->progress->dump.is_late &&
           list->number >= set->progress->dump.list;
}

/* What is due */

/* Sets the next list. */
static void
go_to(struct set *set, uint64_t list)
{
    set->progress->dump.list = list;
    set->progress->dump.is_late = false;
}

/* In a cluster: true if this broker may not have built the current dump, or an
 * earlier one. */
static bool
is_behind(const struct set *set, const struct head *head)
{
    return log_is_shared(set->registry->log) &&
           set->progress->dump.have <
               head->generations[GENERATION_CHANGEDUMP].current.number;
}

static bool
look_at(struct set *set, const struct head *head, void *user)
{
    struct changedumps *d = user;

    if (set_content_mode(set) == CONTENT_NONE)
        return true;
    if (set->progress->dump.list > 0 &&
        set->progress->dump.list < head->first_list)
        go_to(set, head->first_list);
    if ((set->progress->dump.list < head->list || is_behind(set, head)) &&
        clock_steady_us() >= set->progress->dump.retry_us)
        set->progress->dump.is_due = true;
    d->turn.is_due |= set->progress->dump.is_due;
    return true;
}

static void
changedumps_look(struct chore *chore)
{
    struct changedumps *d = list_entry(chore, struct changedumps, chore);

    registry_each(d->registry, look_at, d);
}

static bool
is_due(struct set *set, const struct head *head, void *user)
{
    (void)head;
    (void)user;
    return set->progress->dump.is_due;
}

/* The next list */

/* In a cluster: finds the next dump that another broker has made current and
 * this one has not built: the interval of its list, and *number.
 * STATUS_NOT_FOUND: there is none; *number is 0. */
static enum status
look_for_dump(struct set *set, const struct head *head, struct list_info *list,
              uint64_t *number, struct problem *why)
{
    struct dump_progress *dump = &set->progress->dump;
    struct generation g;
    enum status rc = STATUS_OK;

    *number = 0;
    while (!rc && is_behind(set, head)) {
        struct generation_page page = {GENERATION_CHANGEDUMP, dump->have + 1,
                                       &g, 1};

        rc = log_generations(set->registry->log, set->log, &page, why);
        if (rc || page.n == 0)
            break; /* later ones have left the archive */
        if (!generation_is_here(set, g.kind, g.number)) {
            *number = g.number;
            *list = (struct list_info){.after = g.after,
                                       .last = g.seq,
                                       .from_us = g.from_us,
                                       .until_us = g.at_us};
            return STATUS_OK;
        }
        dump->have = g.number;
    }
    if (!rc)
        dump->have = head->generations[GENERATION_CHANGEDUMP].current.number;
    return rc ? rc : STATUS_NOT_FOUND;
}

/* Finds the next list and checks that its dump can be built. STATUS_NOT_FOUND:
 * no list is closed with its content folded. */
static enum status
look_for_list(struct set *set, struct list_info *list, uint64_t *number,
              struct problem *why)
{
    struct head head;
    struct list_info some[PAGE_LISTS];
    uint64_t from = set->progress->dump.list;
    uint64_t seq;
    size_t n, i;
    enum status rc;

    if (!log_head(set->log, &head))
        return problem(why, STATUS_GONE, "the set %s was removed", set->name);
    rc = look_for_dump(set, &head, list, number, why);
    if (rc != STATUS_NOT_FOUND || set->registry->config->cluster_read_only)
        return !rc && list->last > contents_seq(set) ? STATUS_NOT_FOUND : rc;
    seq = head.generations[GENERATION_CHANGEDUMP].current.seq;
    if (from < head.first_list)
        from = head.first_list;
    do { /* the first closed list with entries behind the current dump */
        n = PAGE_LISTS;
        rc = log_lists(set->registry->log, set->log, from, some, &n, why);
        if (rc)
            return rc;
        for (i = 0; i < n && some[i].last <= seq;)
            i++;
        from += n;
    } while (i == PAGE_LISTS);
    if (i == n) {
        go_to(set, head.list);
        return STATUS_NOT_FOUND;
    }
    *list = some[i];
    if (set->progress->dump.list != list->number)
        go_to(set, list->number);
    return list->last <= contents_seq(set) ? STATUS_OK : STATUS_NOT_FOUND;
}

/* Goes on to the list after that one, or to the next dump of another broker,
 * once other sets had their turn. */
static void
go_on(struct changedumps *d, struct set *set, uint64_t list)
{
    if (d->number > 0)
        set->progress->dump.have = d->number;
    else
        go_to(set, list + 1);
    turn_add(&d->turn, set);
}

/* Leaves a gap. */
static void
pass_over(struct changedumps *d, struct set *set, uint64_t list)
{
    DIAG(DIAG_DEBUG, "archive",
         "a Change List has no Change Dump: not all content is there",
         diag_text("set", set->name), diag_number("list", list));
    go_on(d, set, list);
}

/* Looks at the next list of a set, and begins its dump if possible. */
static enum status
look_at_list(struct changedumps *d, struct set *set, struct problem *why)
{
    struct dump_progress *dump = &set->progress->dump;
    bool is_complete = false, is_lacking = false;
    struct content *content;
    struct list_info list;
    enum status rc = look_for_list(set, &list, &d->number, why);

    if (!rc)
        rc = contents_open(d->contents, set, &content, why);
    if (rc == STATUS_NOT_FOUND ||
        (!rc && set->progress->content.is_unsettled)) {
        dump->is_due = false;
        return STATUS_OK;
    }
    if (!rc)
        rc = content_is_complete(content, list.after, list.last, &is_complete,
                                 &is_lacking, why);
    if (rc)
        return rc;
    if (!is_complete && !is_lacking &&
        set_content_mode(set) == CONTENT_FETCH) { /* it is still coming */
        dump->is_late = true;
        dump->is_due = false;
        return STATUS_OK;
    }
    if (!is_complete) {
        pass_over(d, set, list.number);
        return STATUS_OK;
    }
    dump->is_late = false; /* it was, while content was coming */
    if (!chore_has_room(d->registry))
        return problem(why, STATUS_BUSY, "the disk is nearly full");
    d->list = list.number;
    rc = build_begin_changes(&d->build, set, &list, d->number, why);
    if (!rc)
        d->set = set;
    return rc;
}

/* Building */

static void
let_go(struct changedumps *d)
{
    d->set = NULL;
    d->build = NULL;
}

/* Gives the build up. Damage stays, so the next list does not wait for it. */
static void
give_up(struct changedumps *d, struct set *set, enum status rc,
        const struct problem *why)
{
    struct head head;

    let_go(d);
    if (rc == STATUS_INVALID && log_head(set->log, &head) &&
        (d->list < head.first_list || /* its content has gone since */
         load_relaxed(&set->content_versions) != OPTION_KEEP_ALL)) {
        pass_over(d, set, d->list);
        return;
    }
    if (rc == STATUS_INVALID) {
        DIAG(DIAG_ERROR, "archive",
             "a Change List has no Change Dump: its content is damaged",
             diag_text("set", set->name), diag_number("list", d->list),
             diag_text("error", why->text));
        go_on(d, set, d->list);
        return;
    }
    set->progress->dump.is_due = false;
    set->progress->dump.is_late = true;
    set->progress->dump.retry_us =
        clock_steady_us() + (rc == STATUS_AGAIN ? AGAIN_US : RETRY_US);
    if (rc != STATUS_GONE && rc != STATUS_STOPPED)
        DIAG(DIAG_WARNING, "archive",
             "a Change Dump could not be built, and will be tried again",
             diag_text("set", set->name), diag_text("error", why->text));
}

static bool
changedumps_some(struct chore *chore)
{
    struct changedumps *d = list_entry(chore, struct changedumps, chore);
    struct problem why = {""};
    struct set *set = d->set;
    struct content *content;
    bool is_done = false;
    enum status rc;

    if (!set) {
        set = turn_next(&d->turn);
        if (!set)
            return false;
        rc = look_at_list(d, set, &why);
    } else {
        rc = contents_open(d->contents, set, &content, &why);
        if (rc)
            build_abandon(d->build);
        else
            rc = build_step(d->build, NULL, content, &is_done, &why);
        if (rc == STATUS_NOT_FOUND)
            rc = STATUS_GONE;
    }
    if (rc)
        give_up(d, set, rc, &why);
    if (!rc && is_done) {
        DIAG(DIAG_DEBUG, "archive", "a Change Dump was built",
             diag_text("set", set->name), diag_number("list", d->list));
        go_on(d, set, d->list);
        let_go(d);
    }
    return true;
}

static void
changedumps_end(struct chore *chore)
{
    struct changedumps *d = list_entry(chore, struct changedumps, chore);

    build_abandon(d->build);
    let_go(d);
}

void
changedumps_init(struct changedumps *d, struct registry *registry,
                 struct contents *contents)
{
    memset(d, 0, sizeof(*d));
    d->chore = (struct chore){.look = changedumps_look,
                              .step = changedumps_some,
                              .needs = changedumps_needs,
                              .patience = CHANGEDUMPS_WAITING,
                              .end = changedumps_end};
    d->registry = registry;
    d->contents = contents;
    turn_init(&d->turn, TURN_CHANGEDUMP, registry, is_due, NULL);
}
