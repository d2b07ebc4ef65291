/*
 * shelf.h - the directory of a mirror: puts, examines and removes files, and
 * never touches anything outside of it.
 *
 *     DIR/HOST/...            the resources, at paths of resource_path.h
 *     DIR/.tidings/lock       one process at a time
 *     DIR/.tidings/mirror.db  wanted resources, noted files (mirror_db.h)
 *     DIR/.tidings/incoming/  downloads under way
 *     DIR/.tidings/scratch/N/ packages of dumps, of a set
 *     DIR/.tidings/list-N.db  the last list of a set that has no history
 *     DIR/.tidings/found/N/   files that were not ours, in a resource's way
 *
 * Below DIR the shelf follows no symbolic link, whoever made it: it opens each
 * name of a path in the directory before it, without following. DIR itself may
 * be a link.
 *
 * The shelf moves obstacles of a resource (a file where a directory has to be,
 * a directory or a link where its file has to be) to found/, unchanged, and
 * never destroys them.
 *
 * A file appears whole, and survives a power failure. The order is the promise:
 * the bytes to the disk (shelf_sync_file), then the name (shelf_put), then the
 * directories above it to the disk (shelf_sync_directory), and only then the
 * note that it is there. A removal is the same from its second step on.
 * file_commit.c takes each step for many files at once.
 *
 * Threads: one, but for shelf_sync_file, shelf_sync_directory and
 * shelf_digest_file, which any thread may call meanwhile.
 */
#ifndef CLIENT_MIRROR_SHELF_H
#define CLIENT_MIRROR_SHELF_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/problem.h"

#define SHELF_STATE_NAME ".tidings"

struct shelf;

/* Opens DIR and takes its lock. `is_new`: makes DIR if it is missing; else DIR
 * must exist and have a state. NULL: `why` says why, STATUS_IO or
 * STATUS_MEMORY. */
struct shelf *shelf_open(const char *dir, bool is_new, struct problem *why);
void shelf_close(struct shelf *shelf); /* NULL is allowed */

const char *shelf_state(const struct shelf *shelf); /* "DIR/.tidings" */
int shelf_incoming(const struct shelf *shelf);      /* descriptor */

/* Makes a directory for the dump packages of the set number `set`. The caller
 * frees the path. NULL: `why` says why. */
char *shelf_make_scratch(struct shelf *shelf, int64_t set, struct problem *why);

/* The path of td_follow_options.listing for the set number `set`. The caller
 * frees it. NULL: no memory. */
char *shelf_listing(const struct shelf *shelf, int64_t set);

/* Reading */

enum shelf_found {
    SHELF_NOTHING,
    SHELF_FILE,  /* a regular one */
    SHELF_OTHER, /* something in the way, there or above it */
    SHELF_FAILED /* cannot look; errno says why */
};

/* Size and time of a file, to see that it did not change. */
struct shelf_mark {
    uint64_t size;
    int64_t mtime_ns;
};

enum shelf_found shelf_look(const struct shelf *shelf, const char *path,
                            struct shelf_mark *mark);

/* Opens the directory that `path` is in, which the caller closes, and sets
 * `*name` to the rest. -1: there is none, errno says why. */
int shelf_directory(const struct shelf *shelf, const char *path,
                    const char **name);

/* Writes "sha-256:..." of the file at `path`. False: it cannot be read, errno
 * says why; or `go_on`, called at each piece unless it is NULL, returned
 * false. */
#define SHELF_DIGEST_SIZE 73
typedef bool shelf_go_on_fn(void *user);
bool shelf_digest(const struct shelf *shelf, const char *path,
                  shelf_go_on_fn *go_on, void *user,
                  char to[SHELF_DIGEST_SIZE]);

/* The same of the file `name` of `dir_fd`, to its end. */
bool shelf_digest_file(int dir_fd, const char *name,
                       char to[SHELF_DIGEST_SIZE]);

/* Calls `fn` for everything in DIR but directories and the state. False: a
 * directory cannot be read, errno says why; or `fn` returned false. */
typedef bool shelf_walk_fn(const char *path, enum shelf_found what, void *user);
bool shelf_walk(struct shelf *shelf, shelf_walk_fn *fn, void *user);

/* Writing. STATUS_IO: `why` says why, and nothing is half done. */

/* Syncs the bytes of the file `name` of `dir_fd` to the disk. */
enum status shelf_sync_file(int dir_fd, const char *name, struct problem *why);

/* Syncs the names in the directory `path` ("": DIR) to the disk. A missing
 * directory is no error: the sync of its parent records that. */
enum status shelf_sync_directory(const struct shelf *shelf, const char *path,
                                 struct problem *why);

/* Renames the file `name` of `from_fd` to `path`, with the time `lastmod_us`
 * unless that is DATETIME_NONE. `*mark`: its size and time afterwards. */
enum status shelf_put(struct shelf *shelf, int from_fd, const char *name,
                      const char *path, int64_t lastmod_us,
                      struct shelf_mark *mark, struct problem *why);

/* Removes the file at `path`, and the directories that became empty. Anything
 * but a file stays. */
enum status shelf_remove(struct shelf *shelf, const char *path,
                         struct problem *why);

/* Moves the object at `path`, or in its way, to found/. Without one, does
 * nothing. `where`, if not NULL: its new path, relative to DIR. */
#define SHELF_WHERE_SIZE 320
enum status shelf_set_aside(struct shelf *shelf, const char *path,
                            char where[SHELF_WHERE_SIZE], struct problem *why);

#endif
