/*
 * mirror_dir.h - the directory of a mirror: puts, examines and removes files,
 * and never touches anything outside of it.
 *
 *     DIR/HOST/...            the resources, at paths of resource_path.h
 *     DIR/.tidings/lock       one process at a time
 *     DIR/.tidings/mirror.db  wanted resources, noted files (mirror_db.h)
 *     DIR/.tidings/incoming/  downloads under way
 *     DIR/.tidings/scratch/N/ packages of dumps, of a set
 *     DIR/.tidings/list-N.db  the last list of a set that has no history
 *     DIR/.tidings/found/N/   files that were not ours, in a resource's way
 *
 * Below DIR these functions follow no symbolic link, whoever made it: they open
 * each name of a path in the directory before it, without following. DIR itself
 * may be a link.
 *
 * They move obstacles of a resource (a file where a directory has to be, a
 * directory or a link where its file has to be) to found/, unchanged, and never
 * destroy them.
 *
 * A file appears whole, and survives a power failure. The order is the promise:
 * the bytes to the disk (mirror_dir_sync_file), then the name (mirror_dir_put),
 * then the directories above it to the disk (mirror_dir_sync_directory), and
 * only then the note that it is there. A removal is the same from its second
 * step on. file_commit.c takes each step for many files at once.
 *
 * Threads: one, but for mirror_dir_sync_file, mirror_dir_sync_directory and
 * mirror_dir_digest_file, which any thread may call meanwhile.
 */
#pragma once

#include "client/dumps/download.h"

#define MIRROR_DIR_STATE ".tidings"

/* For others only to read. */
struct mirror_dir {
    char *state;
    int dir_fd;
    int state_fd;
    int lock_fd;
    int incoming_fd;
    int found_fd;     /* -1: not used yet */
    unsigned n_found; /* the last number tried there */
};

/* Opens DIR and takes its lock. `is_new`: makes DIR if it is missing; else DIR
 * must exist and have a state. NULL: `why` says why, STATUS_IO or
 * STATUS_MEMORY. */
struct mirror_dir *mirror_dir_open(const char *dir, bool is_new,
                                   struct problem *why);
void mirror_dir_close(struct mirror_dir *home); /* NULL is allowed */

/* Makes a directory for the dump packages of the set number `set`. The caller
 * frees the path. NULL: `why` says why. */
char *mirror_dir_make_scratch(struct mirror_dir *home, int64_t set,
                              struct problem *why);

/* Reading */

enum mirror_dir_found {
    MIRROR_DIR_NOTHING,
    MIRROR_DIR_FILE,  /* a regular one */
    MIRROR_DIR_OTHER, /* something in the way, there or above it */
    MIRROR_DIR_FAILED /* cannot look; errno says why */
};

/* Size and time of a file, to see that it did not change. */
struct mirror_dir_mark {
    uint64_t size;
    int64_t mtime_ns;
};

enum mirror_dir_found mirror_dir_look(const struct mirror_dir *home,
                                      const char *path,
                                      struct mirror_dir_mark *mark);

/* Opens the directory that `path` is in, which the caller closes, and sets
 * `*name` to the rest. -1: there is none, errno says why. */
int mirror_dir_directory(const struct mirror_dir *home, const char *path,
                         const char **name);

/* Writes "sha-256:..." of the file at `path`. False: it cannot be read, errno
 * says why; or `go_on`, called at each piece unless it is NULL, returned
 * false. */
#define MIRROR_DIR_DIGEST_SIZE 73
bool mirror_dir_digest(const struct mirror_dir *home, const char *path,
                       file_go_on_fn *go_on, void *user,
                       char to[MIRROR_DIR_DIGEST_SIZE]);

/* The same of the file `name` of `dir_fd`. */
bool mirror_dir_digest_file(int dir_fd, const char *name, file_go_on_fn *go_on,
                            void *user, char to[MIRROR_DIR_DIGEST_SIZE]);

/* Calls `fn` for everything in DIR but directories and the state. False: a
 * directory cannot be read, errno says why; or `fn` returned false. */
typedef bool mirror_dir_walk_fn(const char *path, void *user);
bool mirror_dir_walk(struct mirror_dir *home, mirror_dir_walk_fn *fn,
                     void *user);

/* Writing. STATUS_IO: `why` says why, and nothing is half done. */

/* Syncs the bytes of the file `name` of `dir_fd` to the disk. */
enum status mirror_dir_sync_file(int dir_fd, const char *name,
                                 struct problem *why);

/* Syncs the names in the directory `path` ("": DIR) to the disk. A missing
 * directory is no error: the sync of its parent records that. */
enum status mirror_dir_sync_directory(const struct mirror_dir *home,
                                      const char *path, struct problem *why);

/* Renames the file `name` of incoming/ to `path`, with the time
 * `lastmod_us` unless that is DATETIME_NONE. `*mark`: its size and time
 * afterwards. */
enum status mirror_dir_put(struct mirror_dir *home, const char *name,
                           const char *path, int64_t lastmod_us,
                           struct mirror_dir_mark *mark, struct problem *why);

/* Removes the file at `path`, and the directories that became empty. Anything
 * but a file stays. */
enum status mirror_dir_remove(struct mirror_dir *home, const char *path,
                              struct problem *why);

/* Moves the object at `path`, or in its way, to found/. Without one, does
 * nothing. `where`, if not NULL: its new path, relative to DIR. */
#define MIRROR_DIR_WHERE_SIZE 320
enum status mirror_dir_set_aside(struct mirror_dir *home, const char *path,
                                 char where[MIRROR_DIR_WHERE_SIZE],
                                 struct problem *why);
