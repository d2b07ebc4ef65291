/*
 * file_sync.h - makes the files agree with the database: fetches wanted
 * resources, removes others.
 *
 *     mirror_db_next --> expected, committed --> downloads --> file_commit.h
 *                                              +--> left, for this run
 *
 * A timer does it a little at a time: feeds go on meanwhile. If a change
 * overtakes a download, work fetches the new version. The group removes files.
 */
#pragma once

#include "client/downloads/downloads.h"
#include "client/tidings.h"

struct mirror_db_description;
struct mirror_db_resource;
struct mirror;
struct file_sync;

/* Calls `on_idle` each time that nothing is left to do. NULL: no memory. */
struct file_sync *file_sync_new(struct mirror *m, void (*on_idle)(void *user),
                                void *user);
void file_sync_free(struct file_sync *work); /* keeps partial downloads */

/* There may be something to do. */
void file_sync_poke(struct file_sync *work);

/* Begins no new downloads while `holds`: a feed reads a history, and later
 * changes are likely to overtake them. */
void file_sync_hold(struct file_sync *work, bool holds);

/* Finds the resource that the database wants just as `t` says: by a digest that
 * both have, or, if none is wanted, by its length and its time (DATETIME_NONE:
 * any). False: none, or it is larger than is allowed. */
bool file_sync_wants(struct mirror *m, const struct mirror_db_description *t,
                     struct mirror_db_resource *resource);

/* Takes a file of a package, with checked digests, if it is wanted. May commit
 * the transaction of mirror_write. False: mirror_fail was called. */
bool file_sync_adopt(struct file_sync *work,
                     const struct mirror_db_description *t, const char *file);

/* Blocks until all files that have come are in their places and noted. False:
 * mirror_fail was called. */
bool file_sync_finish(struct file_sync *work);

/* Of a past time, reports the resources that are given up: not before all ways
 * are tried. */
void file_sync_report_left(struct file_sync *work);

bool file_sync_is_idle(const struct file_sync *work);

/*
 * The links `duplicate` of a resource, as the database
 * keeps them: a line each.
 *
 *     PRI LENGTH HREF HASH\n
 *
 * PRI 0: none; LENGTH -: none; HASH may be empty.
 */

/* Appends the links of a change with that rel: "duplicate"; "memento", of a
 * past time; "via", of the original of a copy. */
void duplicate_links_write(struct buf *to, const struct td_change *change,
                           const char *rel);

/* Takes the next link off `*rest`; false: there is none. */
bool duplicate_links_next(struct slice *rest, struct downloads_link *link);
