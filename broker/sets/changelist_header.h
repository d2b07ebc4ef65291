/*
 * changelist_header.h - the header of a Change List, open or closed.
 *
 * The log thread makes the header of a closed list once, in the commit that
 * ends the list, and stores it; so the header must not depend on anything
 * later.
 */
#pragma once

#include "broker/log/head.h"

/* Appends the header of a list of the log with that head. A list with
 * `info->until_us` is closed: it has an index from now on and a next
 * list. Its links `prev`, `next` and `last` let a client walk the lists both
 * ways, and from any of them to the newest, at a fixed address. */
void changelist_header_write(struct buf *to, const char *public_url,
                             const char *set, const struct head *log,
                             const struct list_info *info);
