/*
 * work.h - makes the files agree with the book: what is wanted is fetched, what
 * is not is removed.
 *
 *     book_next --> expected, committed --> downloads --> group.h
 *                                              +--> left, for this run
 *
 * Done a little at a time, by a timer: feeds go on meanwhile. What was
 * overtaken by a change while it was fetched is fetched anew. Removals are the
 * group's.
 */
#ifndef CLIENT_MIRROR_WORK_H
#define CLIENT_MIRROR_WORK_H

#include <stdbool.h>
#include <stdint.h>

struct book_resource;
struct mirror;
struct work;

/* `on_idle` is called each time that nothing is left to do. NULL: no memory. */
struct work *work_new(struct mirror *m, void (*on_idle)(void *user),
                      void *user);
void work_free(struct work *work); /* what came of downloads is kept */

/* There may be something to do. */
void work_poke(struct work *work);

/* Nothing new is fetched: a history is being read, and what it tells now is
 * likely to be overtaken. */
void work_hold(struct work *work, bool holds);

/* A resource to be fetched has its file without a download: `file` (a path, on
 * the mirror's file system), whole and right, or NULL: it is at its path
 * already. *is_taken false: it is being fetched, and the file is the caller's.
 * Inside mirror_write; false: mirror_fail was called. */
bool work_take(struct work *work, const struct book_resource *resource,
               const char *file, bool *is_taken);

/* There is room for a file that work_take takes; may block, and commit what
 * mirror_write opened. False: mirror_fail was called. */
bool work_make_room(struct work *work);

/* What came until now is in its place, and noted; blocks. False: mirror_fail
 * was called. */
bool work_finish(struct work *work);

bool work_is_idle(const struct work *work);

/* Bytes that were downloaded. */
uint64_t work_bytes(const struct work *work);

#endif
