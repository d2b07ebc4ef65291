/*
 * links.h - every URL of the broker, from its public URL.
 *
 * One row each, in links.c.
 */
#ifndef BROKER_SETS_LINKS_H
#define BROKER_SETS_LINKS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"

/* Longest URL: a public URL of 511 bytes, a set's name, a path. */
#define LINK_MAX 700

enum link_kind {
    LINK_DESCRIPTION,
    LINK_CAPABILITYLIST,
    LINK_CHANGELIST, /* the capability's fixed address */
    LINK_LIST,       /* Change List `number` */
    LINK_CHANGELIST_ARCHIVE,
    LINK_MEMORY, /* change memory: the entries after seq `number` */
    LINK_SET,    /* what the set is, as JSON */
    LINK_POST,  /* where changes are posted; change memory from its beginning */
    LINK_STREAM /* WebSocket */
};

struct link_text {
    char text[LINK_MAX];
    size_t size;
};

/* `public_url` has no slash at its end. `set` may be NULL where none is named,
 * `epoch` where no position is. */
struct link_text link_to(const char *public_url, enum link_kind kind,
                         const char *set, const char *epoch, uint64_t number);

/* All sets, as JSON, from the first name behind `after` on; NULL: all. */
struct link_text link_to_sets(const char *public_url, const char *after);

static inline struct slice
link_slice(const struct link_text *link)
{
    return (struct slice){link->text, link->size};
}

#endif
