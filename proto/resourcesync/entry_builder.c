#include "proto/resourcesync/entry_builder.h"

/* Three digests with their names. */
#define HASH_MAX 160

void
entry_init(struct entry *entry)
{
    /* Not the arrays: their memory is touched when there is something in it. */
    entry->has_kind = entry->is_of_message = entry->is_lent = false;
    entry->n_attributes = entry->n_lent = 0;
    change_init(&entry->change);
    arena_init(&entry->arena, ENTRY_BYTES_MAX);
    buf_init(&entry->hash, HASH_MAX);
}

void
entry_fini(struct entry *entry)
{
    arena_fini(&entry->arena);
    buf_fini(&entry->hash);
}

void
entry_clear(struct entry *entry)
{
    change_init(&entry->change);
    entry->has_kind = entry->is_lent = false;
    entry->n_attributes = entry->n_lent = 0;
    arena_clear(&entry->arena);
}

struct entry_attributes
entry_attributes(struct entry *entry, struct link *link)
{
    struct change *change = &entry->change;

    return link ? (struct entry_attributes){&link->attributes,
                                            &link->n_attributes}
                : (struct entry_attributes){&change->attributes,
                                            &change->n_attributes};
}

/* Checks that the entry may have `size` more bytes. */
static enum status
check_size(const struct entry *entry, size_t size, struct problem *why)
{
    size_t n = entry->arena.used + entry->n_lent; /* at most the maximum */

    return size <= entry->arena.max - n
               ? STATUS_OK
               : problem(why, STATUS_INVALID,
                         "the entry has more than %d bytes", ENTRY_BYTES_MAX);
}

enum status
entry_room(struct entry *entry, size_t size, char **to, struct problem *why)
{
    enum status rc = check_size(entry, size, why);

    if (rc)
        return rc;
    *to = arena_take(&entry->arena, size);
    return *to ? STATUS_OK : problem_memory(why);
}

enum status
entry_lend(struct entry *entry, size_t size, struct problem *why)
{
    enum status rc = check_size(entry, size, why);

    if (!rc)
        entry->n_lent += size;
    return rc;
}

enum status
entry_copy(struct entry *entry, struct slice text, struct slice *copy,
           struct problem *why)
{
    char *to;
    enum status rc = entry_room(entry, text.size, &to, why);

    if (rc)
        return rc;
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    *copy = (struct slice){to, text.size};
    return STATUS_OK;
}

static enum status
keep_values(struct entry *entry, struct slice *const *values, size_t n,
            struct slice piece, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < n; i++)
        if (slice_is_within(*values[i], piece))
            rc = entry_copy(entry, *values[i], values[i], why);
    return rc;
}

enum status
entry_keep(struct entry *entry, struct slice piece, struct problem *why)
{
    struct change *c = &entry->change;
    struct slice *const values[] = {&c->loc, &c->type, &c->encoding,
                                    &c->changefreq, &c->priority};
    enum status rc = STATUS_OK;

    if (entry->n_lent == 0) /* so small pieces of a long entry cost little */
        return STATUS_OK;
    entry->n_lent = 0;
    rc = keep_values(entry, values, N_ELEMENTS(values), piece, why);
    for (size_t i = 0; !rc && i < c->n_links; i++) {
        struct link *link = &entry->links[i];
        struct slice *const of_link[] = {&link->rel, &link->href, &link->type,
                                         &link->encoding};

        rc = keep_values(entry, of_link, N_ELEMENTS(of_link), piece, why);
    }
    return rc;
}

enum status
entry_link(struct entry *entry, struct link **link, struct problem *why)
{
    if (entry->change.n_links == CHANGE_LINKS_MAX)
        return problem(why, STATUS_INVALID, "more than %d links",
                       CHANGE_LINKS_MAX);
    *link = &entry->links[entry->change.n_links++];
    **link = (struct link){
        .modified_us = DATETIME_NONE,
        .length = LENGTH_NONE,
    };
    entry->change.links = entry->links;
    return STATUS_OK;
}

enum status
entry_attribute(struct entry *entry, struct entry_attributes to,
                const struct attribute *attribute, struct problem *why)
{
    if (entry->n_attributes == CHANGE_ATTRIBUTES_MAX)
        return problem(why, STATUS_INVALID, "more than %d foreign attributes",
                       CHANGE_ATTRIBUTES_MAX);
    if (*to.count == 0)
        *to.first = &entry->attributes[entry->n_attributes];
    entry->attributes[entry->n_attributes++] = *attribute;
    ++*to.count;
    return STATUS_OK;
}

enum status
entry_time(const char *name, struct slice text, int64_t *us,
           struct problem *why)
{
    if (datetime_read(text, us))
        return problem(why, STATUS_INVALID,
                       "%s: not a complete date and time: \"%s\"", name,
                       problem_quote(text).text);
    return STATUS_OK;
}

enum status
entry_lastmod(struct slice text, struct change *change, struct problem *why)
{
    if (datetime_read_any(text, &change->lastmod_us))
        return problem_quoting(why, STATUS_INVALID,
                               "lastmod: not a W3C Datetime", text);
    change->is_lastmod_date = datetime_is_date(text);
    return STATUS_OK;
}
