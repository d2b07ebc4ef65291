/*
 * duplicate_links.h - the links `duplicate` of a resource, as the database
 * keeps them: a line each.
 *
 *     PRI LENGTH HREF HASH\n
 *
 * PRI 0: none; LENGTH -: none; HASH may be empty.
 */
#ifndef CLIENT_MIRROR_DUPLICATE_LINKS_H
#define CLIENT_MIRROR_DUPLICATE_LINKS_H

#include <stdbool.h>

#include "client/downloads/downloads.h"
#include "client/tidings.h"
#include "proto/buf.h"

/* Appends those links of a change that are duplicates. */
void duplicate_links_write(struct buf *to, const struct td_change *change);

/* Takes the next link off `*rest`; false: there is none. */
bool duplicate_links_next(struct slice *rest, struct downloads_link *link);

#endif
