#include "broker/sets/source_description.h"

#include "base/array.h"

/* The parts with `n` sets, private ones not counted. The index has a limit,
 * too: where it would exceed that, its parts become as large as allowed. It
 * never has more parts than there are sets. */
static struct parts
parts_with(const struct registry *registry, size_t n)
{
    uint64_t size = registry->config->description_sets;
    struct parts parts = {
        .size = n > DESCRIPTION_SETS_MAX ? DESCRIPTION_SETS_MAX : size};

    parts.has_index = n > parts.size;
    return parts;
}

struct parts
source_description_parts(struct registry *registry)
{
    return parts_with(registry, registry_count_public(registry));
}

struct link_text
source_description_part(const struct registry *registry,
                        const struct parts *parts, uint64_t number)
{
    uint64_t begin = parts_begin(parts, number);

    return link_format("%s/descriptions/%012" PRIu64 "-%012" PRIu64 ".xml",
                       registry->options.public_url, begin,
                       begin + parts->size - 1);
}

struct link_text
source_description_link(const struct set *set)
{
    struct parts parts = source_description_parts(set->registry);
    uint64_t number = log_set_number(set->log);

    if (parts.has_index && number > 0)
        return source_description_part(set->registry, &parts, number);
    return registry_link(set->registry, LINK_DESCRIPTION);
}

/* Changes */

void
source_changes_clear(struct source_changes *c)
{
    c->n = 0;
    c->is_short = false;
    c->after = c->before;
}

static void
add_change(struct source_changes *c, struct source_change change)
{
    if (ONE_MORE(c->all, &c->capacity, c->n))
        c->all[c->n++] = change;
    else
        c->is_short = true;
}

void
source_changes_add(struct source_changes *c, const struct act *act)
{
    add_change(c, (struct source_change){
                      .number = act->set_id,
                      .is_birth = act->kind == ACT_BIRTH,
                      .is_removal = act->kind == ACT_REMOVAL,
                  });
}

/* Looking at the sets that are there, those that the round removes excepted. */
struct looking {
    struct source_changes *changes;
    size_t n;            /* of the round's own */
    uint64_t begin, end; /* a part: is there a set in it? */
    bool is_found;
};

static bool
is_removed(const struct looking *l, uint64_t number)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->changes->all[i].is_removal &&
            l->changes->all[i].number == number)
            return true;
    return false;
}

static bool
look_for_one(struct set *set, const struct head *head, void *user)
{
    struct looking *l = user;
    uint64_t number = log_set_number(set->log);

    (void)head;
    l->is_found = !set_is_private(set) && number >= l->begin &&
                  number <= l->end && !is_removed(l, number);
    return !l->is_found;
}

static bool
add_set(struct set *set, const struct head *head, void *user)
{
    struct looking *l = user;
    const struct source_change change = {
        .number = log_set_number(set->log),
        .is_birth = true,
    };

    (void)head;
    if (!set_is_private(set) && !is_removed(l, change.number))
        add_change(l->changes, change);
    return !l->changes->is_short;
}

static int
by_number(const void *a, const void *b)
{
    const struct source_change *one = a, *other = b;

    return (one->number > other->number) - (one->number < other->number);
}

/* Returns how the changes `from` to `to` - 1 alter their part. */
static enum change_kind
change_of(struct source_changes *c, struct registry *registry, size_t from,
          size_t to)
{
    struct looking looking = {.changes = c, .n = c->n};
    bool is_removal = false;

    looking.begin = parts_begin(&c->after, c->all[from].number);
    looking.end = looking.begin + c->after.size - 1;
    for (size_t i = from; i < to; i++) {
        /* Births come with the highest numbers: so a part begins with its first
         * one, or again with the first after all of it had gone. */
        if (c->all[i].is_birth)
            return c->all[i].number == looking.begin ||
                           c->emptied == looking.begin
                       ? CHANGE_CREATED
                       : CHANGE_UPDATED;
        is_removal |= c->all[i].is_removal;
    }
    if (!is_removal)
        return CHANGE_UPDATED;
    registry_each(registry, look_for_one, &looking);
    if (looking.is_found)
        return CHANGE_UPDATED;
    c->emptied = looking.begin;
    return CHANGE_DELETED;
}

enum status
source_changes_announce(struct source_changes *c, struct registry *registry,
                        source_announce_fn *announce, void *user)
{
    struct looking looking = {.changes = c, .n = c->n};
    struct link_text whole = registry_link(registry, LINK_DESCRIPTION);
    size_t n_removed = 0, n = 0;
    bool are_new;

    if (c->n == 0)
        return STATUS_OK;
    for (size_t i = 0; i < c->n; i++)
        n_removed += c->all[i].is_removal;
    c->after =
        parts_with(registry, registry_count_public(registry) - n_removed);
    are_new = !c->before.has_index || c->before.size != c->after.size;
    if (c->after.has_index && are_new) {
        /* All sets, instead of those that have changed. */
        registry_each(registry, add_set, &looking);
        for (size_t i = 0; i < c->n; i++)
            if (!c->all[i].is_removal)
                c->all[n++] = c->all[i];
        c->n = n;
    }
    if (c->is_short)
        return STATUS_MEMORY;
    if (!c->after.has_index && announce)
        announce(user, CHANGE_UPDATED, whole, NULL);
    if (!c->after.has_index)
        return STATUS_OK;
    /* Each part that has changes or, if they are new, that has sets. */
    qsort(c->all, c->n, sizeof(*c->all), by_number);
    for (size_t i = 0, next; i < c->n; i = next) {
        uint64_t begin = parts_begin(&c->after, c->all[i].number);
        struct link_text loc =
            source_description_part(registry, &c->after, begin);
        enum change_kind change;

        for (next = i + 1; next < c->n; next++)
            if (c->all[next].number - begin >= c->after.size)
                break;
        change = are_new ? CHANGE_CREATED : change_of(c, registry, i, next);
        if (announce)
            announce(user, change, loc, &whole);
    }
    return STATUS_OK;
}
