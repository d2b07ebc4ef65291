/*
 * ledger.h - what was last posted of each file, and the post that is under way;
 * kept in SQLite.
 *
 *     ledger_file, ledger_next                look
 *     ledger_add ...  --> ledger_seal --> (post it) --> ledger_posted
 *         |                   |                 \-----> ledger_drop: refused
 *         +--> ledger_undo    +--> crash: ledger_unfinished tells it again
 *
 * The argument why a crash neither loses nor doubles a change:
 *
 *   - A change is what a file is on the disk and not in the ledger. Whatever
 *     happens before ledger_seal is forgotten, and found again by comparing.
 *   - ledger_seal makes the post durable, byte for byte, with its idempotency
 *     key and with what the files will be when it is done, in one transaction;
 *     only then is it sent. As long as no answer is recorded, the same bytes go
 *     out with the same key, which the broker answers with the first answer;
 *     and no other post is begun, so their order stays.
 *   - ledger_posted makes the files so and forgets the post, in one
 * transaction. A crash before it repeats the post, a crash behind it has
 * nothing to do.
 *
 * A broker remembers keys for 24 hours: only an answer that was lost, followed
 * by a watch that stays away for longer, posts twice.
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
#include "client/watch/trouble.h"

struct ledger;

/* Idempotency keys: 128 random bits, hexadecimal. */
#define LEDGER_KEY_SIZE 33

/* Opens the ledger in the folder `dir`, which is there, and checks that what it
 * holds was posted to `set_url` under `base_uri`. NULL: `why` says why; another
 * process may use it. */
struct ledger *ledger_open(const char *dir, const char *set_url,
                           const char *base_uri, struct trouble *why);

/* Undoes what was not sealed. NULL is allowed. */
void ledger_close(struct ledger *ledger);

/* Is its folder still there? */
bool ledger_is_kept(const struct ledger *ledger);

/* All that follows returns false where the database failed; ledger_trouble says
 * why then. */
const char *ledger_trouble(const struct ledger *ledger);

/* What was posted of the file `path`, or will have been when the post under way
 * is done. `*is_known` is false where nothing was, or its deletion. */
bool ledger_file(struct ledger *ledger, const char *path, bool *is_known,
                 struct filemark *mark);

/* Moves `path` to the next path in byte order that begins with `prefix` and of
 * which something was posted or is in the post under way; "" is before all.
 * *is_there false: there is none. */
bool ledger_next(struct ledger *ledger, const char *prefix,
                 char path[LOCS_PATH_MAX + 1], bool *is_there);

/* How many files are posted. */
bool ledger_count(struct ledger *ledger, uint64_t *n_files);

/* The file `path` is as before, only its size and times have to be known.
 * Durable with the next seal or ledger_save. */
bool ledger_note(struct ledger *ledger, const char *path,
                 const struct filemark *mark);
bool ledger_save(struct ledger *ledger);

/* The post in the making tells that `path` became `mark`, or was deleted
 * (NULL).
 */
bool ledger_add(struct ledger *ledger, const char *path,
                const struct filemark *mark);

/* Forgets what was added and noted since the last seal or save. */
bool ledger_undo(struct ledger *ledger);

/* The post in the making is complete: `body`; gives it a key. Durable. */
bool ledger_seal(struct ledger *ledger, const void *body, size_t size,
                 size_t n_entries);

struct ledger_post {
    char key[LEDGER_KEY_SIZE];
    void *body; /* the caller's, to be freed */
    size_t size;
    size_t n_entries;
};

/* The sealed post that was not answered yet; *is_there false: there is none. */
bool ledger_unfinished(struct ledger *ledger, struct ledger_post *post,
                       bool *is_there);

/* It was kept, in the log `epoch`. *is_new_log: that is another one than that
 * of earlier posts, so nothing that they told is in it, and the ledger has
 * forgotten it too. */
bool ledger_posted(struct ledger *ledger, const char *epoch, bool *is_new_log);

/* It was refused, and nothing of it was kept. */
bool ledger_drop(struct ledger *ledger);

#endif
