/*
 * group.h - files that came, and files that have to go, made durable together.
 *
 *     group_add ... --> gathered --> group_start
 *                                        |
 *           files: the bytes of each are on the disk        other threads
 *                                        |
 *           book: what they replace is known no more        the loop
 *           names: each is renamed to its path, or removed  the loop
 *                                        |
 *           directories: all above them are on the disk     other threads
 *                                        |
 *           book: all are noted, in one commit              the loop
 *                                        |
 *                                        +--> on_out; then the next may begin
 *
 * The order is the promise: a crash at any point leaves the old file or the
 * whole new one at a path, and the book never tells of what is not on the disk.
 * Whoever adds a file has it expected (book_expect) in a transaction that is
 * committed, or about to be: a crash between names and book leaves files that
 * the book knows may be ours.
 *
 * What a feed tells meanwhile is no trouble: what was overtaken when names are
 * given is dropped, and fetched anew. From then on a file is what its version
 * told, and is noted as that, whatever is wanted by now. Its resource stays in
 * the book until then: only a group notes removals, and there is one at a time.
 *
 * A sync costs a commit of the file system's journal and a flush of the disk's
 * cache, whatever the size of the file; those that wait at the same time share
 * both. So files are synced each, but on several threads at once. 128 new files
 * of 1,000 bytes on ext4, nothing else at work, took 17.6 ms on one thread, 4.4
 * on four, 3.3 on sixteen and 5.4 by one syncfs, which besides has to wait for
 * all that anybody else writes to that file system: hence no syncfs.
 */
#ifndef CLIENT_MIRROR_GROUP_H
#define CLIENT_MIRROR_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "client/dumps/download.h"
#include "client/mirror/book.h"

struct group;
struct mirror;

/* The resource `id` is no concern of the group any more. */
typedef void group_out_fn(int64_t id, void *user);

/* NULL: no memory. */
struct group *group_new(struct mirror *m, group_out_fn *on_out, void *user);

/* What is under way is not noted; files that came stay in incoming/. NULL is
 * allowed. */
void group_free(struct group *group);

/* The file in incoming/ that is the version `version` of the resource `id`. */
void group_name(char to[DOWNLOAD_NAME_MAX], int64_t id, int64_t version);

/* `resource` is to be fetched, and its file has come, whole and right, as
 * group_name tells; `is_there`: it is at its path already. False: mirror_fail
 * was called. */
bool group_add(struct group *group, const struct book_resource *resource,
               bool is_there);

/* Begins with what was added, and with some of the removals that the book has.
 * Not while one is under way. */
void group_start(struct group *group);

/* All that was added is done when this returns; blocks. Nothing is removed that
 * was not being removed. False: mirror_fail was called. Not inside a
 * transaction that may be rolled back. */
bool group_finish(struct group *group);

#endif
