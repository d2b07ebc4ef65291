/*
 * header.h - the header of a Change List, open or closed.
 *
 * Of a closed list it is made once, by the log thread in the commit that ends
 * the list, and stored; so it must not depend on anything that comes later.
 */
#ifndef BROKER_SETS_HEADER_H
#define BROKER_SETS_HEADER_H

#include "broker/log/lists.h"
#include "proto/buf.h"

/* Appends it. `info->until_us` tells whether the list is closed: then it has an
 * index from now on and a next one. Its links `prev`, `next` and `last`
 * make the lists walkable both ways, and from any of them to the newest, at an
 * address that does not move. */
void header_write(struct buf *to, const char *public_url, const char *set,
                  const char *epoch, const struct list_info *info);

#endif
