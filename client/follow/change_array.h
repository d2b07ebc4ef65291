/*
 * change_array.h - builds the changes of a message as struct td_change with
 * terminated strings, in memory that is used again and again.
 *
 *     changes_clear --> changes_add [--> changes_link ...] ... --> changes_seal
 */
#ifndef CLIENT_FOLLOW_CHANGE_ARRAY_H
#define CLIENT_FOLLOW_CHANGE_ARRAY_H

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

/* Adds `change` and its links; the caller sets `text`, `file` and, for a
 * resource, clears the kind. Lent until the next one is added; NULL: no memory.
 */
struct td_change *changes_add(struct changes *changes,
                              const struct change *change);

/* Adds a link to the last change. */
void changes_link(struct changes *changes, const struct link *link,
                  struct slice path);

/* True if memory ran out: then the changes are incomplete. */
static inline bool
changes_failed(const struct changes *changes)
{
    return changes->failed || changes->list.failed || changes->links.failed;
}

/* Sets the links of all changes when all are added. Lent until changes_clear.
 */
struct td_change *changes_seal(struct changes *changes);

static inline size_t
changes_count(const struct changes *changes)
{
    return changes->list.size / sizeof(struct td_change);
}

#endif
