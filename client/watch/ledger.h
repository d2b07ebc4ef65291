/*
 * ledger.h - the last posted state of each file, and the post that is under
 * way, in SQLite.
 *
 *     ledger_file, ledger_next                look
 *     ledger_add ...  --> ledger_seal --> (post it) --> ledger_posted
 *         |                   |                 \-----> ledger_drop: refused
 *         +--> ledger_undo    +--> crash: ledger_unfinished returns it again
 *
 * The argument why a crash neither loses nor doubles a change:
 *
 *   - A change is a difference between the disk and the ledger. A crash before
 *     ledger_seal loses what was gathered; the next comparison finds it again.
 *   - In one transaction, ledger_seal stores the post, byte for byte, with its
 *     idempotency key and the files' states after it. Only then is it sent.
 *     Until an answer is recorded, the watch sends the same bytes with the same
 *     key, and the broker repeats its first answer. The watch begins no other
 *     post meanwhile: so their order stays.
 *   - In one transaction, ledger_posted stores these states and deletes the
 *     post. A crash before it repeats the post, a crash behind it has nothing
 *     to do.
 *
 * A broker remembers keys for 24 hours: only a lost answer, followed by a watch
 * that stays away for longer, posts twice.
 *
 * One process per directory, by a lock; one thread.
 */
#ifndef CLIENT_WATCH_LEDGER_H
#define CLIENT_WATCH_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/watch/filehash.h"
#include "client/watch/locs.h"
#include "proto/problem.h"

struct ledger;

/* Idempotency keys: 128 random bits, hexadecimal. */
#define LEDGER_KEY_SIZE 33

/* Opens the ledger in the existing folder `dir`, and checks that it was made
 * for `set_url` and `base_uri`. NULL: `why` says why; another process may use
 * it.
 */
struct ledger *ledger_open(const char *dir, const char *set_url,
                           const char *base_uri, struct problem *why);

/* Rolls back all since the last seal or save. NULL is allowed. */
void ledger_close(struct ledger *ledger);

/* True if its folder is still there. */
bool ledger_is_kept(const struct ledger *ledger);

/* All functions below return false if the database failed; ledger_trouble says
 * why then. */
const char *ledger_trouble(const struct ledger *ledger);

/* The state of the file `path` in the last post, the one under way included.
 * `*is_known` false: it was never posted, or was deleted. */
bool ledger_file(struct ledger *ledger, const char *path, bool *is_known,
                 struct filemark *mark);

/* Moves `path` to the next path in byte order that begins with `prefix` and is
 * in the ledger or in the post under way; "" is before all. *is_there false:
 * there is none. */
bool ledger_next(struct ledger *ledger, const char *prefix,
                 char path[LOCS_PATH_MAX + 1], bool *is_there);

/* Counts the posted files. */
bool ledger_count(struct ledger *ledger, uint64_t *n_files);

/* Stores new size and times of the file `path`; its content is as before.
 * Durable with the next seal or ledger_save. */
bool ledger_note(struct ledger *ledger, const char *path,
                 const struct filemark *mark);
bool ledger_save(struct ledger *ledger);

/* Adds the new state of `path` to the post being built; NULL: deleted. */
bool ledger_add(struct ledger *ledger, const char *path,
                const struct filemark *mark);

/* Forgets all adds and notes since the last seal or save. */
bool ledger_undo(struct ledger *ledger);

/* Completes the post being built with `body`, and gives it a key. Durable. */
bool ledger_seal(struct ledger *ledger, const void *body, size_t size,
                 size_t n_entries);

struct ledger_post {
    char key[LEDGER_KEY_SIZE];
    void *body; /* the caller's, to be freed */
    size_t size;
    size_t n_entries;
};

/* The sealed post without an answer; *is_there false: there is none. */
bool ledger_unfinished(struct ledger *ledger, struct ledger_post *post,
                       bool *is_there);

/* Records that the broker kept the post, in the log `epoch`. *is_new_log:
 * earlier posts went into another log, so the ledger has forgotten them. */
bool ledger_posted(struct ledger *ledger, const char *epoch, bool *is_new_log);

/* Drops the post: the broker refused it, and kept nothing of it. */
bool ledger_drop(struct ledger *ledger);

#endif
