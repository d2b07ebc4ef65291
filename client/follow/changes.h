/*
 * changes.h - changes as they are handed over: struct td_change, terminated
 * strings and all, in memory that is used again and again.
 *
 *     changes_clear --> changes_add [--> changes_link ...] ... --> changes_seal
 */
#ifndef CLIENT_FOLLOW_CHANGES_H
#define CLIENT_FOLLOW_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "client/tidings.h"
#include "proto/arena.h"
#include "proto/buf.h"
#include "proto/change.h"

struct changes {
    struct arena arena; /* strings */
    struct buf list;    /* struct td_change */
    struct buf links;   /* struct td_link, of all changes in order */
    bool failed;        /* no memory for a string */
};

void changes_init(struct changes *changes);
void changes_fini(struct changes *changes);
void changes_clear(struct changes *changes);

/* A terminated copy; NULL where `text` is empty. */
char *changes_text(struct changes *changes, struct slice text);

/* Adds `change`, its links included; `text`, `file` and, of a resource, the
 * lack of a kind are the caller's to set. Lent until the next one is added;
 * NULL: no memory. */
struct td_change *changes_add(struct changes *changes,
                              const struct change *change);

/* Adds a link to the change that was added last. */
void changes_link(struct changes *changes, const struct link *link,
                  struct slice path);

/* Was there no memory for something? Then nothing is to be handed over. */
static inline bool
changes_failed(const struct changes *changes)
{
    return changes->failed || changes->list.failed || changes->links.failed;
}

/* All were added: their links are where they say. Lent until changes_clear. */
struct td_change *changes_seal(struct changes *changes);

static inline size_t
changes_count(const struct changes *changes)
{
    return changes->list.size / sizeof(struct td_change);
}

#endif
