/*
 * work.h - makes the files agree with the book: fetches wanted resources,
 * removes others.
 *
 *     book_next --> expected, committed --> downloads --> group.h
 *                                              +--> left, for this run
 *
 * A timer does it a little at a time: feeds go on meanwhile. If a change
 * overtakes a download, work fetches the new version. The group removes files.
 */
#ifndef CLIENT_MIRROR_WORK_H
#define CLIENT_MIRROR_WORK_H

#include <stdbool.h>
#include <stdint.h>

struct book_resource;
struct mirror;
struct work;

/* Calls `on_idle` each time that nothing is left to do. NULL: no memory. */
struct work *work_new(struct mirror *m, void (*on_idle)(void *user),
                      void *user);
void work_free(struct work *work); /* keeps partial downloads */

/* There may be something to do. */
void work_poke(struct work *work);

/* Begins no new downloads while `holds`: a feed reads a history, and later
 * changes are likely to overtake them. */
void work_hold(struct work *work, bool holds);

/* Takes a wanted resource whose file came without a download: `file` (a path on
 * the mirror's file system) is whole and right, or NULL: it is at its path
 * already. *is_taken false: a download is under way, and the caller keeps the
 * file. Inside mirror_write; false: mirror_fail was called. */
bool work_take(struct work *work, const struct book_resource *resource,
               const char *file, bool *is_taken);

/* Makes room for a file of work_take; may block, and commit the transaction of
 * mirror_write. False: mirror_fail was called. */
bool work_make_room(struct work *work);

/* Blocks until all files that have come are in their places and noted. False:
 * mirror_fail was called. */
bool work_finish(struct work *work);

bool work_is_idle(const struct work *work);

/* Bytes that were downloaded. */
uint64_t work_bytes(const struct work *work);

#endif
