/*
 * file.h - files that are there whole or not at all, and who may read them.
 *
 * Files that the broker creates belong to its user alone. Other users have the
 * rights that the directory gives them: a user who may pass a directory may
 * pass the new directories in it, and a user who may list a directory may read
 * the new files in it. So the mode of the data directory decides for all files
 * below it (file_modes.h).
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Creates `dir` and the folders above it where they are missing, and makes the
 * new names durable. Whoever may pass the directory above may pass them; nobody
 * else may list them. */
MUST_CHECK enum status file_make_dirs(const char *dir, struct problem *why);

/* Creates a directory that other users may pass and list as they may `dir_fd`.
 * The caller syncs. */
MUST_CHECK enum status file_make_dir(int dir_fd, const char *name,
                                     struct problem *why);

/* Lets whoever may pass the directory list it, and read files made from now on.
 */
MUST_CHECK enum status file_let_passers_read(int dir_fd, struct problem *why);

/* Could file_make_dirs make `dir`, and files be made in it? Leaves nothing
 * behind; the answer may be another one by the time it is tried. */
MUST_CHECK enum status file_check_dir(const char *dir, struct problem *why);

/* Takes the one lock of a directory: creates DIR/lock and locks it until
 * file_unlock or the end of the process. STATUS_BUSY: another process has it;
 * `why` names its pid where known. */
MUST_CHECK enum status file_lock(const char *dir, int *lock,
                                 struct problem *why);
void file_unlock(int lock);

/* Could file_lock take the lock now? Makes no file; an owner that starts in the
 * same moment may find the lock taken. `dir` need not exist. */
MUST_CHECK enum status file_check_lock(const char *dir, struct problem *why);

/* A file being made: written to NAME.new, which file_finish renames.
 *
 *     file_begin -> file_append ... -> file_finish
 *                                   -> file_abandon
 */
struct file_new {
    int dir_fd;
    int fd;
    char name[256];
    char temp[260];
};

MUST_CHECK enum status file_begin(struct file_new *f, int dir_fd,
                                  const char *name, struct problem *why);
MUST_CHECK enum status file_append(struct file_new *f, struct slice bytes,
                                   struct problem *why);

/* Bytes, then name: on disk when it returns, except that the caller must still
 * fsync the directory (once for all that a round made: file_sync_dir) before it
 * forgets what the file now holds. The file is closed either way. */
MUST_CHECK enum status file_finish(struct file_new *f, struct problem *why);
void file_abandon(struct file_new *f);

/* What a name in a folder is: DT_DIR, DT_REG ..., asked for where the file
 * system does not tell; DT_UNKNOWN: it is gone. */
unsigned char file_type(int dir_fd, const struct dirent *entry);

/* Takes a folder off the disk, with files and folders in it, if it is there: at
 * most *n_files, counted down. STATUS_AGAIN: there are more. */
MUST_CHECK enum status file_clear(int dir_fd, const char *name, size_t *n_files,
                                  struct problem *why);

MUST_CHECK enum status file_sync_dir(int dir_fd, struct problem *why);

/* Bytes free for us on the file system of `fd`; 0 if that cannot be known. */
uint64_t file_free_bytes(int fd);

#endif
