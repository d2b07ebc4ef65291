#include "proto/resourcesync/entry_builder.h"

#include "proto/number.h"
#include "proto/resourcesync/digest.h"

/* Three digests with their names. */
#define HASH_MAX 160

void
entry_init(struct entry *entry)
{
    /* Not the arrays: their memory is touched when there is something in it. */
    entry->has_kind = entry->is_of_message = entry->is_lent = false;
    entry->n_attributes = 0;
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
    entry->n_attributes = 0;
    arena_clear(&entry->arena);
}

struct entry_common
entry_common(struct entry *entry, struct link *link)
{
    struct change *change = &entry->change;

    if (link)
        return (struct entry_common){
            &link->hash,
            &link->type,
            &link->encoding,
            &link->length,
            {&link->attributes, &link->n_attributes},
        };
    return (struct entry_common){
        &change->hash,
        &change->type,
        &change->encoding,
        &change->length,
        {&change->attributes, &change->n_attributes},
    };
}

static enum status
take_room(struct entry *entry, size_t size, char **to, struct problem *why)
{
    *to = arena_take(&entry->arena, size);
    if (*to)
        return STATUS_OK;
    if (size <= entry->arena.max - entry->arena.used)
        return problem_memory(why);
    return problem(why, STATUS_INVALID, "the entry has more than %d bytes",
                   ENTRY_BYTES_MAX);
}

enum status
entry_copy(struct entry *entry, struct slice text, struct slice *copy,
           struct problem *why)
{
    char *to;
    enum status rc = take_room(entry, text.size, &to, why);

    if (rc)
        return rc;
    if (text.size > 0)
        memcpy(to, text.data, text.size);
    *copy = (struct slice){to, text.size};
    return STATUS_OK;
}

enum status
entry_kind(struct entry *entry, struct slice text, struct problem *why)
{
    entry->has_kind = true;
    if (change_kind_of(text, &entry->change.kind))
        return problem_quoting(why, STATUS_INVALID,
                               "change: not created, updated or deleted", text);
    return STATUS_OK;
}

enum status
entry_hash(struct entry *entry, struct slice text, struct slice *hash,
           struct problem *why)
{
    enum status rc;

    buf_clear(&entry->hash);
    rc = hash_normalise(&entry->hash, text, why);
    if (rc)
        return rc;
    return entry_copy(entry, buf_slice(&entry->hash), hash, why);
}

enum status
entry_tags(struct entry *entry, struct slice text, struct problem *why)
{
    size_t size = 0;
    char *to;
    enum status rc = take_room(entry, text.size, &to, why);

    if (rc)
        return rc;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];

        if (!slice_is_space(c))
            to[size++] = c;
        else if (size > 0 && to[size - 1] != ' ')
            to[size++] = ' ';
    }
    if (size > 0 && to[size - 1] == ' ')
        size--;
    entry->change.tags = (struct slice){to, size};
    return STATUS_OK;
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
entry_length(struct slice text, uint64_t *length, struct problem *why)
{
    uint64_t number;

    if (!number_read(text, &number) || number > INT64_MAX)
        return problem_quoting(why, STATUS_INVALID,
                               "length: not a number of bytes", text);
    *length = number;
    return STATUS_OK;
}

enum status
entry_pri(struct slice text, uint32_t *pri, struct problem *why)
{
    uint64_t number;

    if (!number_read(text, &number) || number < 1 || number > 999999)
        return problem_quoting(why, STATUS_INVALID, "pri: not from 1 to 999999",
                               text);
    *pri = (uint32_t)number;
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
