/*
 * file_commit.h - makes downloaded files and removals durable, many at a time.
 *
 *     file_commit_add ... --> gathered --> file_commit_start
 *                                        |
 *           files: sync the bytes of each to the disk       other threads
 *                                        |
 *           database: delete the notes of replaced files    the loop
 *           names: rename each to its path, or remove it    the loop
 *                                        |
 *           directories: sync all above them                other threads
 *                                        |
 *           database: note all, in one commit               the loop
 *                                        |
 *                                        +--> on_out; then the next may begin
 *
 * The order is the promise: a crash at any point leaves the old file or the
 * whole new one at a path, and the database never notes a file that is not on
 * the disk. Whoever adds a file calls mirror_db_expect in a transaction that is
 * committed, or about to be: after a crash between names and database, the
 * database knows which files may be ours.
 *
 * Feeds may change the database meanwhile. If a newer version of a resource
 * came before its file gets its name, the group drops the file, and the mirror
 * fetches the new one. Afterwards the group notes the file with its own
 * version, even if a newer one came. The resource stays in the database until
 * then: only a group notes removals, and there is one at a time.
 *
 * A sync costs a commit of the file system's journal and a flush of the disk's
 * cache, whatever the size of the file; syncs that wait at the same time share
 * both. So each file has its own sync, on several threads at once. 128 new
 * files of 1,000 bytes on ext4, nothing else at work, took 17.6 ms on one
 * thread, 4.4 on four, 3.3 on sixteen and 5.4 by one syncfs, which also waits
 * for all other writers of that file system: hence no syncfs.
 */
#pragma once

#include "client/dumps/download.h"
#include "client/mirror/mirror_db.h"

struct file_commit;
struct mirror;

/* The group has finished with the resource `id`: with its file, or with the
 * removal of the former one, while a new file may already wait for the next
 * group. */
typedef void file_commit_out_fn(int64_t id, bool is_removal, void *user);

/* NULL: no memory. */
struct file_commit *file_commit_new(struct mirror *m,
                                    file_commit_out_fn *on_out, void *user);

/* Does not note files under way; downloaded files stay in incoming/. NULL is
 * allowed. */
void file_commit_free(struct file_commit *group);

/* Writes the name in incoming/ of this version of the resource `id`. */
void file_commit_name(char to[DOWNLOAD_NAME_MAX], int64_t id, int64_t version);

/* Adds a resource whose file has come, whole and right, under the name of
 * file_commit_name, or is at its path already (`is_there`). False: mirror_fail
 * was called. */
bool file_commit_add(struct file_commit *group,
                     const struct mirror_db_resource *resource, bool is_there);

/* Begins with the added files, and with some of the database's removals. Not
 * while a group is under way. */
void file_commit_start(struct file_commit *group);

/* Blocks until all added files are done; begins no further removals. False:
 * mirror_fail was called. Not inside a transaction that may be rolled back. */
bool file_commit_finish(struct file_commit *group);

/*
 * The directories above files, each once.
 *
 * A file's name is durable when its directory is on the disk, and the name of
 * that directory when the one above it is. Those between may be new or removed
 * themselves. So the list has all of them, up to the mirror's own, "".
 */

/* All zero: there are none. */
struct directory_list {
    char **all; /* paths in the mirror, without a slash at the end */
    size_t n, capacity;
    struct text_set known;
};

/* Adds all directories above the file at `path`. False: no memory; earlier ones
 * stay in the list. */
bool directory_list_add(struct directory_list *d, const char *path);

void directory_list_clear(struct directory_list *d);
