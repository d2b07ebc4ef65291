/*
 * file.h - files that exist complete or not at all, and their permissions.
 *
 * Files that the broker creates belong to its user alone. The directory gives
 * other users their rights: a user who may pass a directory may pass the new
 * directories in it, and a user who may list a directory may read the new files
 * in it. So the mode of the data directory decides for all files below it
 * (data_directory.h).
 */
#pragma once

#include <dirent.h>

#include "proto/resourcesync/digest.h"

/* A path, as the format says: that of a data directory has at most 4,096
 * bytes. */
struct file_path {
    char text[4096 + 512];
};
struct file_path file_path(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Creates `dir` and the missing folders above it, and makes the new names
 * durable. Users who may pass the directory above may pass them; only the owner
 * may list them. */
MUST_CHECK enum status file_make_dirs(const char *dir, struct problem *why);

/* Creates a directory that other users may pass and list if they may pass and
 * list `dir_fd`. The caller syncs. */
MUST_CHECK enum status file_make_dir(int dir_fd, const char *name,
                                     struct problem *why);

/* Lets users who may pass the directory also list it, and read files made from
 * now on. */
MUST_CHECK enum status file_let_passers_read(int dir_fd, struct problem *why);

/* Checks that file_make_dirs can make `dir` and that this process can make
 * files in it. Leaves nothing behind; the result may be outdated soon. */
MUST_CHECK enum status file_check_dir(const char *dir, struct problem *why);

/* Takes the only lock of a directory: creates DIR/lock and locks it until
 * file_close or the end of the process. STATUS_BUSY: another process has it;
 * `why` names its pid if known. */
MUST_CHECK enum status file_lock(const char *dir, int *lock,
                                 struct problem *why);

/* Shares the lock with others that only read: no owner can start meanwhile.
 * Makes no file; without one *lock is -1, and so it is without a directory.
 * STATUS_BUSY: an owner has it. */
MUST_CHECK enum status file_share_lock(const char *dir, int *lock,
                                       struct problem *why);

/* Opens a folder; *fd is -1 if that fails. */
MUST_CHECK enum status file_open_folder(int above_fd, const char *path, int *fd,
                                        struct problem *why);

/* Opens a folder and shares it, until *fd is closed: waits for the process that
 * has it alone (file_have_alone). */
MUST_CHECK enum status file_share_folder(const char *path, int *fd,
                                         struct problem *why);

/* Has an open folder alone, until file_end_alone. False: another process shares
 * it. Also true where the file system has no locks: nobody has shared it
 * there. */
bool file_have_alone(int fd);
void file_end_alone(int fd);

/* Checks that file_lock could take the lock now. Makes no file; an owner that
 * starts in the same moment may find the lock taken. `dir` need not exist. */
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

/* Writes bytes, then name: both are on the disk when it returns. But the caller
 * must still fsync the directory (once for all files of a round: file_sync_dir)
 * before it forgets the content of the file. Closes the file in any
 * case. */
MUST_CHECK enum status file_finish(struct file_new *f, struct problem *why);

/* The same without the disk: the caller syncs the file system. */
MUST_CHECK enum status file_give_name(struct file_new *f, struct problem *why);
void file_abandon(struct file_new *f);

/* Makes a file of these bytes, or replaces one, durably. `is_secret`: its owner
 * alone may read the file, even in a folder that others may read. */
MUST_CHECK enum status file_store_bytes(int dir_fd, const char *name,
                                        struct slice bytes, bool is_secret,
                                        struct problem *why);

/* The same in the folder `dir`. */
MUST_CHECK enum status file_store_in(const char *dir, const char *name,
                                     struct slice bytes, bool is_secret,
                                     struct problem *why);

/* The same of a line, in an open folder. */
MUST_CHECK enum status file_store(int dir_fd, const char *name,
                                  const char *line, struct problem *why);

/* Reads until the end, or until `to` is full, and returns the number of bytes;
 * the file at `path`, from `above_fd` or AT_FDCWD on. -1: errno says why. */
ssize_t file_read_rest(int fd, void *to, size_t size);
ssize_t file_read(int above_fd, const char *path, void *to, size_t size);

/* Feeds a file, from its place on, to digests, and ends them (digest_check_end).
 * `go_on`: called at each piece of 64 KiB, unless it is NULL. STATUS_STOPPED: it
 * returned false; STATUS_IO: the file cannot be read, errno says why. */
typedef bool file_go_on_fn(void *user);
MUST_CHECK enum status file_digest(int fd, struct digest_check *check,
                                   file_go_on_fn *go_on, void *user,
                                   struct problem *why);

/* Closes *fd unless it is -1, which it is then. errno stays. */
void file_close(int *fd);

/* Writes all bytes. -1: errno says why; some of them may be written. */
int file_write(int fd, struct slice bytes);

/* Opens a folder, at `above_fd` or AT_FDCWD, for file_next. `flags`: O_NOFOLLOW
 * or 0. The caller closes it (closedir). NULL: errno says why. */
DIR *file_open_dir(int above_fd, const char *name, int flags);

/* The next entry of a folder but "." and "..". NULL: there is no more, and
 * errno is 0 or says what went wrong. Also NULL if `dir` is NULL. */
const struct dirent *file_next(DIR *dir);

/* Reads all bytes at a place. False: the file ends before, or an error. */
bool file_read_at(int fd, void *to, size_t size, uint64_t at);

/* The type of a name in a folder: DT_DIR, DT_REG ...; asks the file system if
 * the entry has none. DT_UNKNOWN: it is gone. */
unsigned char file_type(int dir_fd, const struct dirent *entry);

/* Deletes a folder, with files and folders in it, if it exists. With `n_files`
 * at most as many files, counted down. STATUS_AGAIN: there are more. */
MUST_CHECK enum status file_clear(int dir_fd, const char *name, size_t *n_files,
                                  struct problem *why);

MUST_CHECK enum status file_sync_dir(int dir_fd, struct problem *why);

/* Syncs a file or a directory by its path. STATUS_BUSY: the disk is full. */
MUST_CHECK enum status file_sync_path(const char *path, struct problem *why);

/* Bytes that our user has free on the file system of `fd`; 0: unknown. */
uint64_t file_free_bytes(int fd);

/* Writes the path of share/tidings/NAME beside the folder of this program: what
 * a bundle brings along that other systems lack (packaging/parts/bundle).
 * False: there is none; `to` stays as it is. */
bool file_of_bundle(char *to, size_t size, const char *name);
