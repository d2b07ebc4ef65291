/*
 * shelf.h - the directory of a mirror: files are put there, looked at, removed,
 * and nothing outside of it is ever touched.
 *
 *     DIR/HOST/...            the resources, at paths of paths.h
 *     DIR/.tidings/lock       one process at a time
 *     DIR/.tidings/mirror.db  what is wanted, what is there (book.h)
 *     DIR/.tidings/incoming/  files that are being fetched
 *     DIR/.tidings/scratch/N/ packages of dumps, of a set
 *     DIR/.tidings/list-N.db  the last list of a set that has no history
 *     DIR/.tidings/found/N/   what stood in a resource's way and was not ours
 *
 * Below DIR no symbolic link is followed, by whomever it was made: each name of
 * a path is opened in the directory before it, as what it is. DIR itself may be
 * a link.
 *
 * What is in the way of a resource (a file where a directory has to be, a
 * directory or a link where its file has to be) is moved to found/, as it is,
 * never destroyed.
 *
 * A file appears whole, and stays, whenever the power fails. The order is the
 * promise: bytes on the disk (shelf_sync_file), then the name (shelf_put), then
 * the directories on the disk (shelf_sync_directory, of each above it), and
 * only then may anybody note that it is there. A removal is the same from its
 * second step on. Each step is for many files at once: group.c takes them.
 *
 * Threads: one, but for shelf_sync_file, shelf_sync_directory and
 * shelf_digest_file, which any thread may call meanwhile.
 */
#ifndef CLIENT_MIRROR_SHELF_H
#define CLIENT_MIRROR_SHELF_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/failure.h"

#define SHELF_STATE_NAME ".tidings"

struct shelf;

/* Opens DIR, which is made if it is not there, and takes its lock. `is_new`
 * false: it must be there, with a state. NULL: `why` says why, TD_IO or
 * TD_MEMORY. */
struct shelf *shelf_open(const char *dir, bool is_new, struct failure *why);
void shelf_close(struct shelf *shelf); /* NULL is allowed */

const char *shelf_state(const struct shelf *shelf); /* "DIR/.tidings" */
int shelf_incoming(const struct shelf *shelf);      /* descriptor */

/* Makes a directory for the packages of dumps of the set number `set`: its path
 * is the caller's, to be given to free(). NULL: `why` says why. */
char *shelf_make_scratch(struct shelf *shelf, int64_t set, struct failure *why);

/* The file of td_follow_options.listing, of the set number `set`: a path of the
 * caller's, to be given to free(). NULL: no memory. */
char *shelf_listing(const struct shelf *shelf, int64_t set);

/* What is there. */

enum shelf_found {
    SHELF_NOTHING,
    SHELF_FILE,  /* a regular one */
    SHELF_OTHER, /* something in the way, there or above it */
    SHELF_FAILED /* nobody can tell; errno says why */
};

/* What is remembered of a file, to see that it is the same. */
struct shelf_mark {
    uint64_t size;
    int64_t mtime_ns;
};

enum shelf_found shelf_look(const struct shelf *shelf, const char *path,
                            struct shelf_mark *mark);

/* Opens the directory that `path` is in, to be closed by the caller, and sets
 * `*name` to the rest. -1: there is none, errno says why. */
int shelf_directory(const struct shelf *shelf, const char *path,
                    const char **name);

/* Writes "sha-256:..." of the file that is there. False: it cannot be read,
 * errno says why; or `go_on` returned false, which is asked at each piece
 * unless it is NULL. */
#define SHELF_DIGEST_SIZE 73
typedef bool shelf_go_on_fn(void *user);
bool shelf_digest(const struct shelf *shelf, const char *path,
                  shelf_go_on_fn *go_on, void *user,
                  char to[SHELF_DIGEST_SIZE]);

/* The same of the file `name` of `dir_fd`, to its end. */
bool shelf_digest_file(int dir_fd, const char *name,
                       char to[SHELF_DIGEST_SIZE]);

/* Calls back for whatever is in DIR, the state left out, and is no directory.
 * False: a directory cannot be read, errno says why; or
 * `fn` returned false. */
typedef bool shelf_walk_fn(const char *path, enum shelf_found what, void *user);
bool shelf_walk(struct shelf *shelf, shelf_walk_fn *fn, void *user);

/* What is done. TD_IO: `why` says why, and nothing is half done. */

/* What was written into the file `name` of `dir_fd` is on the disk. */
enum td_status shelf_sync_file(int dir_fd, const char *name,
                               struct failure *why);

/* What was put into the directory `path` ("": DIR), or removed from it, is on
 * the disk as that. Not there: what is above it tells so. */
enum td_status shelf_sync_directory(const struct shelf *shelf, const char *path,
                                    struct failure *why);

/* Renames the file `name` of `from_fd` to `path`. It gets the time `lastmod_us`
 * unless that is DATETIME_NONE. `*mark` is what it is then. */
enum td_status shelf_put(struct shelf *shelf, int from_fd, const char *name,
                         const char *path, int64_t lastmod_us,
                         struct shelf_mark *mark, struct failure *why);

/* Removes the file at `path`, and directories that are empty then. What is
 * there and is no file stays. */
enum td_status shelf_remove(struct shelf *shelf, const char *path,
                            struct failure *why);

/* Moves what is at `path`, or in its way, to found/. Where there is nothing, it
 * does nothing. `where`, if not NULL: set to where it is now, relative to DIR.
 */
#define SHELF_WHERE_SIZE 320
enum td_status shelf_set_aside(struct shelf *shelf, const char *path,
                               char where[SHELF_WHERE_SIZE],
                               struct failure *why);

#endif
