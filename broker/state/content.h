/*
 * content.h - the content that a set keeps: for each entry with a
 * representation (created, updated) whether its bytes are kept, and under which
 * digest.
 *
 *     sets/NAME/content.db       a row an entry
 *     sets/NAME/content/ab/HEX   the bytes, named by their SHA-256
 *                                (content_files.h)
 *
 * It is folded from the log like the state (resources.h), each entry exactly
 * once, but a commit waits for the disk: no crash loses the state of
 * content_at. Equal bytes are kept once in a set. Two sets share none, so that
 * no set waits for another, and the removal of a set removes its bytes.
 *
 *            +-- its bytes are in the store already --> kept --+
 *   entry ---+                                          ^      |
 *            +-- else --> missing -----content_note-----+      | forgotten: out
 *                         |  ^                                 | of retention,
 *            content_note +--+ content_note: never, for ever --+ and overtaken
 *
 * Retention counts the references. A row goes when its entry is no longer
 * retained and its resource has changed since; a file goes when no row refers
 * to it. The row's end is on the disk before the file goes (content_loose),
 * unless the file is pinned (broker/archive/contents.h).
 *
 * A row is thinned when the bytes of newer versions of its resource come, and
 * its set keeps those of fewer, or is set to (content_thin): it stays, but
 * without bytes, and is never fetched. The newest version stays. An age counts
 * back from the newest version: so what is thinned follows from the log and the
 * limit alone.
 *
 * Rows begin at the position of the log where the content of the set was first
 * opened (or began anew, as a state does). Earlier entries have no rows, and
 * get none while their resources do not change. So neither these entries nor
 * anything that contains them is complete.
 *
 * In a cluster all brokers have the same rows, whatever is on their disks: each
 * entry with a representation begins as a missing one, and facts alone
 * (broker/log/act.h) say what comes of it: those of its own record, for bytes
 * that came with it, or those of the broker that fetches. A broker takes the
 * bytes of a fact from tidings.db into its store (content_settle).
 *
 * Only the archive thread uses it.
 */
#pragma once

#include "broker/log/log.h"
#include "broker/state/content_files.h"
#include "broker/state/fold_db.h"
#include "broker/state/resources.h"
#include "proto/resourcesync/digest.h"

/* The names of its file and its folder, in the directory of its set. */
#define CONTENT_FILE   "content.db"
#define CONTENT_FOLDER LOG_CONTENT

struct content;

/* The tables of CONTENT_FILE. */
extern const struct db_kind content_kind;

/* As of the last commit. */
struct content_at {
    uint64_t seq;     /* every entry up to it is folded, no later one */
    uint64_t from;    /* every later entry has a row; of earlier ones, those
                         whose resources have not changed since (but none from
                         before the rows began) */
    uint64_t rows;    /* entries with a representation */
    uint64_t missing; /* of them: without bytes, and not thinned */
    uint64_t current; /* rows whose resource has not changed since */
    uint64_t current_missing;
    uint64_t files; /* files that rows refer to */
    uint64_t bytes; /* of these files */
    uint64_t fact;  /* the last fact that is in the rows */
    int64_t due_us; /* the wall-clock time when the first missing one must be
                       fetched; or CONTENT_NEVER (act.h): none is due */
    bool is_loose;  /* files have lost their rows since content_loose */
};

/* How it is folded. An entry is kept if the store has its SHA-256, with the
 * right length; another entry with a hash is due to be fetched at once. After a
 * failure of any function below close it. New bytes thin the versions of their
 * resource that are beyond fold_db.versions, a value of OPTION_KEEP
 * (base/options.h); 0: none. */
extern const struct fold_kind content_folding;

/* It begins with its struct fold_db. */
static inline struct content *
content_of(struct fold_db *f)
{
    return (struct content *)f;
}

/* The state of the last commit; it is on the disk. Lent until the next call. */
const struct content_at *content_at(const struct content *content);

/* Folding */

/* Brings the next facts into the rows, in one transaction, and before that
 * their bytes into the store, by files in the folder `arriving`. *is_more:
 * there are more of entries that are folded. */
MUST_CHECK enum status content_settle(struct content *content, struct log *log,
                                      struct log_set *set, uint64_t from,
                                      const char *arriving, bool *is_more,
                                      struct problem *why);

/* Queries */

/* The bytes of one entry. */
struct content_bytes {
    bool is_there;
    struct digest digest; /* SHA-256: the name of the file */
    uint64_t length;      /* of the file */
};

/* Finds the bytes of an entry. STATUS_NOT_FOUND: there is no row: the entry is
 * not folded yet, or forgotten, or from before the rows began, or has no
 * representation. */
MUST_CHECK enum status content_find(struct content *content, uint64_t seq,
                                    struct content_bytes *bytes,
                                    struct problem *why);

/* *is_complete: the bytes of all entries behind `after` up to `last` with a
 * representation are kept. False before these are folded, and if rows
 * were forgotten or never made. Of an incomplete range *is_lacking: it can
 * never become complete, because an entry was given up or thinned, or has no
 * hash, or no row. False: all missing content is due to be fetched, if the
 * broker fetches at all. */
MUST_CHECK enum status content_is_complete(struct content *content,
                                           uint64_t after, uint64_t last,
                                           bool *is_complete, bool *is_lacking,
                                           struct problem *why);

/* True if the content of all resources of a state is complete. The content is
 * never ahead of the state (broker/archive/contents.h). While the state is
 * held, complete content stays complete; incomplete content may become
 * complete. */
bool content_has_all(const struct content *content,
                     const struct resources_at *state);

/* True if a row refers to the file with that digest. */
MUST_CHECK enum status content_refers_to(struct content *content,
                                         const struct digest *digest,
                                         bool *is_referred,
                                         struct problem *why);

/* Missing content */

/* The query of content_missing: the first entry with due=?1 and seq>?2, else
 * the first with due>?1; none with due>?3. Public for a test of its plan. */
extern const char content_next_due[];

/* An entry whose bytes must be fetched. */
struct content_missing {
    uint64_t seq;
    int64_t due_us;
    unsigned tries;    /* failed tries */
    struct slice loc;  /* not escaped; all three are lent until the next call */
    struct slice hash; /* normalised (digest.h); never empty */
    uint64_t length;   /* as the source stated it, or LENGTH_NONE */
    bool is_settled;   /* it need not be fetched: see below */
};

/* Finds the first one behind (missing->due_us, missing->seq), in that order,
 * that is due at `now_us` of the clock; begin with both 0. If its bytes have
 * come into the store meanwhile, for another entry, it is kept, or given up if
 * they differ from those that the source stated: missing->is_settled. It needs
 * no pins on these bytes: only this thread would delete them.
 * STATUS_NOT_FOUND: no more. */
MUST_CHECK enum status content_missing(struct content *content, int64_t now_us,
                                       struct content_missing *missing,
                                       struct problem *why);

/* Notes what came of an entry (act.h). Bytes that are kept are in the store,
 * durably, match what the entry states, and are pinned; other facts count as
 * one more failed try. STATUS_NOT_FOUND: it is no longer missing. */
MUST_CHECK enum status content_note(struct content *content,
                                    const struct content_fact *fact,
                                    struct problem *why);

/* Forgetting */

/* Deletes some rows of entries up to `earliest` whose resources have changed
 * since. *is_more: there are more. */
MUST_CHECK enum status content_forget(struct content *content,
                                      uint64_t earliest, bool *is_more,
                                      struct problem *why);

/* Thins what fold_db.versions leaves of the resources of some former versions,
 * those of entries behind *after. Sets *after to the last; UINT64_MAX: there
 * are no more. */
MUST_CHECK enum status content_thin(struct content *content, uint64_t *after,
                                    struct problem *why);

/* Finds the first files, by name, behind `after` (NULL: from the beginning)
 * that no row refers to, at most *n; sets *n. After they were deleted call
 * content_let_go, which ignores files that a row refers to again. */
MUST_CHECK enum status content_loose(struct content *content,
                                     const struct digest *after,
                                     struct digest *digests, size_t *n,
                                     struct problem *why);
MUST_CHECK enum status content_let_go(struct content *content,
                                      const struct digest *digests, size_t n,
                                      struct problem *why);

/* Calls `fn` for each file that rows of the database `path` refer to, until it
 * fails. No process has the database open. STATUS_IO: it cannot be read. */
MUST_CHECK enum status content_each_file(const char *path, content_file_fn *fn,
                                         void *user, struct problem *why);
