/*
 * watch_db.h - the last posted state of each file, and the post that is under
 * way, in SQLite.
 *
 *     watch_db_file, watch_db_next                look
 *     watch_db_add ...  --> watch_db_seal --> (post it) --> watch_db_posted
 *         |                   |                 \-----> watch_db_drop: refused
 *         +--> watch_db_undo  +--> crash: watch_db_unfinished returns it
 *
 * The argument why a crash neither loses nor doubles a change:
 *
 *   - A change is a difference between the disk and this state. A crash before
 *     watch_db_seal loses what was gathered; the next comparison finds it
 *     again.
 *   - In one transaction, watch_db_seal stores the post, byte for byte, with
 *     its idempotency key and the files' states after it. Only then is it sent.
 *     Until an answer is recorded, the watch sends the same bytes with the same
 *     key, and the broker repeats its first answer. The watch begins no other
 *     post meanwhile: so their order stays.
 *   - In one transaction, watch_db_posted stores these states and deletes the
 *     post. A crash before it repeats the post, a crash behind it has nothing
 *     to do.
 *
 * A broker remembers keys for 24 hours: only a lost answer, followed by a watch
 * that stays away for longer, posts twice.
 *
 * One process per directory, by a lock; one thread.
 */
#pragma once

#include "base/db.h"
#include "client/watch/file_digest.h"
#include "client/watch/file_uri.h"
#include "client/watch/watch.h"

/* Idempotency keys: 128 random bits, hexadecimal. */
#define WATCH_DB_KEY_SIZE 33

/* For watch_db.c alone. */
struct watch_db {
    struct db db;
    int lock;
    bool has_pending;               /* rows that are not sealed yet */
    const char *set_url, *base_uri; /* lent */
    struct problem *why;            /* lent */
};

/* Opens the state in the existing folder `dir`, and checks that it was made for
 * `set_url` and `base_uri`. False: `why` says why; another process may use it.
 * Both texts and `why` are lent until the end. Close it in any case. */
bool watch_db_open(struct watch_db *state, const char *dir, const char *set_url,
                   const char *base_uri, struct problem *why);

/* Rolls back all since the last seal or save. Its `lock` is -1 if it was never
 * opened. */
void watch_db_close(struct watch_db *state);

/* True if its folder is still there. */
bool watch_db_is_kept(const struct watch_db *state);

/* All functions below return false if the database failed; the `why` of
 * watch_db_open says why then. */

/* The state of the file `path` in the last post, the one under way included.
 * `*is_known` false: it was never posted, or was deleted. */
bool watch_db_file(struct watch_db *state, const char *path, bool *is_known,
                   struct file_stamp *mark);

/* Moves `path` to the next path in byte order that begins with `prefix` and is
 * in the state or in the post under way; "" is before all. *is_there false:
 * there is none. */
bool watch_db_next(struct watch_db *state, const char *prefix,
                   char path[FILE_URI_PATH_MAX + 1], bool *is_there);

/* Counts the posted files. */
bool watch_db_count(struct watch_db *state, uint64_t *n_files);

/* Stores new size and times of the file `path`; its content is as before.
 * Durable with the next seal or watch_db_save. */
bool watch_db_note(struct watch_db *state, const char *path,
                   const struct file_stamp *mark);
bool watch_db_save(struct watch_db *state);

/* Adds the new state of `path` to the post being built; NULL: deleted. */
bool watch_db_add(struct watch_db *state, const char *path,
                  const struct file_stamp *mark);

/* Forgets all adds and notes since the last seal or save. */
void watch_db_undo(struct watch_db *state);

/* Completes the post being built with `body`, and gives it a key. Durable. */
bool watch_db_seal(struct watch_db *state, const void *body, size_t size,
                   size_t n_entries);

struct watch_db_post {
    char key[WATCH_DB_KEY_SIZE];
    void *body; /* the caller's, to be freed */
    size_t size;
    size_t n_entries;
};

/* The sealed post without an answer; *is_there false: there is none. */
bool watch_db_unfinished(struct watch_db *state, struct watch_db_post *post,
                         bool *is_there);

/* Records that the broker kept the post, in the log `epoch`. *is_new_log:
 * earlier posts went into another log, so the state has forgotten them. */
bool watch_db_posted(struct watch_db *state, const char *epoch,
                     bool *is_new_log);

/* Drops the post: the broker refused it, and kept nothing of it. */
bool watch_db_drop(struct watch_db *state);

/*
 * Turns changes into posts: gathers them, seals them in the
 * database, posts until the broker has answered.
 */

/* Limits of a post, which also goes out when it is a second old. An entry is
 * some 300 bytes, so a post is about 1.5 MB, and 5,000 files cost one wait for
 * the disks of both sides. */
#define POST_QUEUE_ENTRIES_MAX 5000
#define POST_QUEUE_BYTES_MAX   (4 * 1024 * 1024)
#define POST_QUEUE_AGE_MS      1000

struct post_queue {
    const struct watch_options *options;
    struct watch_db database;
    struct buf body; /* the post being built; buf_init it */
    size_t n_entries;
    size_t n_deleted;
    size_t n_entries_max;
    int64_t begun_ms;

    /* Waits, and reads events meanwhile; true: the watch has to stop. */
    bool (*wait)(unsigned ms, void *waiter);
    void *waiter;
};

/* Adds the state `mark` of the file `path`, called `loc`, to the post being
 * built. `change` is "created", "updated" or "deleted" (mark NULL); `type` its
 * media type, or NULL. */
bool post_queue_add(struct post_queue *queue, const char *change,
                    const char *path, const char *loc,
                    const struct file_stamp *mark, const char *type);

/* True if it is time to post. */
bool post_queue_is_due(const struct post_queue *queue);

/* Forgets the post being built. */
void post_queue_undo(struct post_queue *queue);

/* Seals the post being built. */
bool post_queue_seal(struct post_queue *queue);

/* Posts the sealed post, if there is one; repeats while the broker is
 * unreachable. STATUS_AGAIN: the broker kept nothing, or lost all: compare all
 * files with the database again. STATUS_STOPPED: the next start posts it. Else
 * the `why` of watch_db_open says why; STATUS_INVALID: the set's URL is not
 * one. */
enum status post_queue_deliver(struct post_queue *queue);
