/*
 * change_array.c - builds the changes of messages.
 */
#include "client/follow/change_array.h"

#include <string.h>

void
changes_init(struct changes *changes)
{
    *changes = (struct changes){.failed = false};
    arena_init(&changes->arena, SIZE_MAX / 2);
    buf_init(&changes->list, SIZE_MAX / 2);
    buf_init(&changes->links, SIZE_MAX / 2);
}

void
changes_fini(struct changes *changes)
{
    arena_fini(&changes->arena);
    buf_fini(&changes->list);
    buf_fini(&changes->links);
}

void
changes_clear(struct changes *changes)
{
    arena_clear(&changes->arena);
    buf_clear(&changes->list);
    buf_clear(&changes->links);
    changes->failed = false;
}

char *
changes_text(struct changes *changes, struct slice text)
{
    char *copy;

    if (!text.size)
        return NULL;
    copy = arena_take(&changes->arena, text.size + 1);
    if (!copy) {
        changes->failed = true;
        return NULL;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

/* The time of an event has six decimals, so that times compare as text; that of
 * a resource as few as it needs. */
static char *
add_time(struct changes *changes, int64_t us, bool is_event)
{
    char text[DATETIME_SIZE];
    size_t size = sizeof(text);

    if (us == DATETIME_NONE)
        return NULL;
    if (is_event)
        datetime_write(text, us);
    else
        size = datetime_write_short(text, us);
    return changes_text(changes, (struct slice){text, size});
}

static char *
add_lastmod(struct changes *changes, const struct change *change)
{
    char text[DATETIME_SIZE];

    if (change->lastmod_us == DATETIME_NONE)
        return NULL;
    return changes_text(
        changes, (struct slice){text, change_write_lastmod(text, change)});
}

static struct td_change *
last_of(struct changes *changes)
{
    void *end = changes->list.data + changes->list.size;

    return (struct td_change *)end - 1;
}

struct td_change *
changes_add(struct changes *changes, const struct change *change)
{
    struct td_change told = {
        .seq = change->seq,
        .datetime = add_time(changes, change->datetime_us, true),
        .change = change_kind_name(change->kind),
        .loc = changes_text(changes, change->loc),
        .lastmod = add_lastmod(changes, change),
        .hash = changes_text(changes, change->hash),
        .length = change->length,
        .type = changes_text(changes, change->type),
        .encoding = changes_text(changes, change->encoding),
        .tags = changes_text(changes, change->tags),
    };

    buf_add(&changes->list, &told, sizeof(told));
    for (size_t i = 0; i < change->n_links; i++)
        changes_link(changes, &change->links[i], SLICE(""));
    return changes_failed(changes) ? NULL : last_of(changes);
}

void
changes_link(struct changes *changes, const struct link *link,
             struct slice path)
{
    struct td_link told = {
        .rel = changes_text(changes, link->rel),
        .href = changes_text(changes, link->href),
        .type = changes_text(changes, link->type),
        .hash = changes_text(changes, link->hash),
        .length = link->length,
        .pri = link->pri,
        .modified = add_time(changes, link->modified_us, false),
        .path = changes_text(changes, path),
    };

    if (changes->list.failed || !changes->list.size)
        return;
    buf_add(&changes->links, &told, sizeof(told));
    last_of(changes)->n_links++;
}

struct td_change *
changes_seal(struct changes *changes)
{
    struct td_change *list = (void *)changes->list.data;
    const struct td_link *next = (const void *)changes->links.data;

    for (size_t i = 0; i < changes_count(changes); i++) {
        list[i].links = NULL;
        if (list[i].n_links == 0)
            continue;
        list[i].links = next;
        next += list[i].n_links;
    }
    return list;
}
