/*
 * content.h - which bytes a set keeps: of each entry that tells of a
 * representation (created, updated) whether they are there, and under which
 * digest.
 *
 *     sets/NAME/content.db       a row an entry
 *     sets/NAME/content/ab/HEX   the bytes, named by their SHA-256
 *                                (content_files.h)
 *
 * It is folded from the log as the state is (resources.h), each entry exactly
 * once, but a commit waits for the disk: what content_at tells, no crash takes.
 * Equal bytes are kept once in a set; two sets share none, so that no set waits
 * for another and a removed one takes along what was its own.
 *
 *            +-- its bytes are in the store already --> kept --+
 *   entry ---+                                          ^      |
 *            +-- else --> missing -----content_keep-----+      | forgotten: out
 *                           |  ^                               | of retention,
 *          content_postpone +--+ content_give_up: for ever ----+ and overtaken
 *
 * Retention counts the references: a row goes when its entry is no longer
 * retained and its resource has changed since; a file, when no row tells of it.
 * First the row's end is on the disk, then the file goes (content_loose),
 * unless somebody has claimed it (broker/archive/contents.h).
 *
 * Rows begin with what the log had when the content of the set was first looked
 * at (or began anew, as a state does): of entries before that nothing is there,
 * and nothing ever will be, as long as their resources do not change. So
 * neither they nor what contains them is complete.
 *
 * One thread, the archive thread.
 */
#ifndef BROKER_STATE_CONTENT_H
#define BROKER_STATE_CONTENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/log/batch.h"
#include "broker/log/log.h"
#include "broker/state/resources.h"
#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* The names of its file and its folder, in the directory of its set. */
#define CONTENT_FILE   "content.db"
#define CONTENT_FOLDER LOG_CONTENT

/* content_at.due_us: nothing is. */
#define CONTENT_NEVER INT64_MAX

struct content;

/* As of the last commit. */
struct content_at {
    uint64_t seq;     /* every entry up to it is folded, none behind it */
    uint64_t from;    /* rows of all entries behind it are there; of those
                         before, of resources that have not changed since (but
                         none from before the rows began) */
    uint64_t rows;    /* entries that tell of a representation */
    uint64_t missing; /* of them: whose bytes are not there */
    uint64_t current; /* rows that no later change has overtaken */
    uint64_t current_missing;
    uint64_t files; /* that rows tell of */
    uint64_t bytes; /* of them */
    int64_t due_us; /* the clock, when the first missing one is to be fetched;
                       CONTENT_NEVER */
};

/* Opens what is kept of the set whose directory is `dir`, or begins it. What is
 * there of another epoch (a set of that name that was removed), damaged, or
 * made by a newer program is thrown away; of the last two it is warned. Files
 * are left then: those that the entries to be folded tell of are kept, the
 * others are orphans. STATUS_IO, STATUS_BUSY: a full disk. */
MUST_CHECK enum status content_open(struct content **content, const char *dir,
                                    const char *epoch, struct problem *why);

/* What was found damaged it takes off the disk, as resources_close does. NULL
 * is allowed. */
void content_close(struct content *content);

/* When *is_ending is true, what is being done is given up soon, as if it had
 * not begun, with STATUS_STOPPED; then the content can only be closed. Lent. */
void content_heed(struct content *content, const atomic_bool *is_ending);

/* Has a change failed, or an answer said that it is damaged, so that it is to
 * be closed? */
bool content_has_failed(const struct content *content);

/* As of the last commit; on the disk. Lent until the next call. */
const struct content_at *content_at(const struct content *content);

/* Throws the rows away: the next entry to be folded is `after` + 1. */
MUST_CHECK enum status content_begin(struct content *content, uint64_t after,
                                     struct problem *why);

/* Folding: as resources.h says */

MUST_CHECK enum status content_fold(struct content *content,
                                    const struct batch *batch, uint64_t last,
                                    struct problem *why);
bool content_is_full(const struct content *content);

/* Folds what was gathered, in one transaction. Those whose SHA-256 is told and
 * in the store, with the length that is told, are kept; of the others, those
 * that tell a hash are due to be fetched at once. STATUS_AGAIN: the file is
 * damaged; it has begun anew. After any other failure, here or below, it is to
 * be closed. */
MUST_CHECK enum status content_commit(struct content *content,
                                      struct problem *why);

/* Asking */

/* The bytes of one entry. */
struct content_bytes {
    bool is_there;
    struct digest digest; /* SHA-256: the file's name */
    uint64_t length;      /* of the file */
};

/* STATUS_NOT_FOUND: there is no row: the entry is not folded yet, or forgotten,
 * from before the rows began, or tells of no representation. */
MUST_CHECK enum status content_find(struct content *content, uint64_t seq,
                                    struct content_bytes *bytes,
                                    struct problem *why);

/* Is there, of all entries behind `after` up to `last` that tell of a
 * representation, the representation? Not before they are folded, and
 * not where rows were forgotten or never there. */
MUST_CHECK enum status content_is_complete(struct content *content,
                                           uint64_t after, uint64_t last,
                                           bool *is_complete,
                                           struct problem *why);

/* Of what is not complete: will it never be? Because one of the entries was
 * given up, or tells no hash, or nothing is known of it. No: all that is
 * missing is due to be fetched, where somebody fetches. */
MUST_CHECK enum status content_is_lacking(struct content *content,
                                          uint64_t after, uint64_t last,
                                          bool *is_lacking,
                                          struct problem *why);

/* Completeness of all the resources of a state. The content is never ahead of
 * the state (broker/archive/contents.h), and while the state is held, what is
 * complete stays so; as long as this says no, it may come to be. */
bool content_has_all(const struct content *content,
                     const struct resources_at *state);

/* Is the file with that digest told of by a row? */
MUST_CHECK enum status content_is_told(struct content *content,
                                       const struct digest *digest,
                                       bool *is_told, struct problem *why);

/* What is missing */

/* An entry whose bytes are to be fetched. */
struct content_missing {
    uint64_t seq;
    int64_t due_us;
    unsigned tries;    /* that have failed */
    struct slice loc;  /* not escaped; lent until the next call, all three */
    struct slice hash; /* normalised (proto/hash.h); never empty */
    uint64_t length;   /* as told, or LENGTH_NONE */
    bool is_settled;   /* it need not be: see below */
};

/* The first one behind (missing->due_us, missing->seq), in that order, that is
 * due at `now_us` (of the clock); begin with both 0. One whose bytes have come
 * into the store since, for another entry, is kept, or given up where they are
 * not those that were told: missing->is_settled. `claims`
 * that these may not be taken away meanwhile are not needed: it is the thread
 * that would. STATUS_NOT_FOUND: no more. */
MUST_CHECK enum status content_missing(struct content *content, int64_t now_us,
                                       struct content_missing *missing,
                                       struct problem *why);

/* The bytes of that entry are there, durably, under that name, proven by what
 * the entry told, and claimed. STATUS_NOT_FOUND: it is not missing any more. */
MUST_CHECK enum status content_keep(struct content *content, uint64_t seq,
                                    const struct digest *digest,
                                    uint64_t length, struct problem *why);

/* A try has failed; the next one is due then. STATUS_NOT_FOUND likewise. */
MUST_CHECK enum status content_postpone(struct content *content, uint64_t seq,
                                        int64_t due_us, struct problem *why);

/* Its content is missing for ever. STATUS_NOT_FOUND likewise. */
MUST_CHECK enum status content_give_up(struct content *content, uint64_t seq,
                                       struct problem *why);

/* Forgetting */

/* Lets some rows go: of entries up to `earliest` that others have overtaken.
 * *is_more: there are more of them. */
MUST_CHECK enum status content_forget(struct content *content,
                                      uint64_t earliest, bool *is_more,
                                      struct problem *why);

/* The first files, by name, behind `after` (NULL: all) that no row tells of any
 * more, at most *n; sets *n. When they have gone, content_let_go: of those of
 * which a row tells again it is not so. */
MUST_CHECK enum status content_loose(struct content *content,
                                     const struct digest *after,
                                     struct digest *digests, size_t *n,
                                     struct problem *why);
MUST_CHECK enum status content_let_go(struct content *content,
                                      const struct digest *digests, size_t n,
                                      struct problem *why);

/* Takes the database off the disk, of the set whose directory is `dir`; it is
 * closed. What is not there is gone. */
MUST_CHECK enum status content_unlink(const char *dir, struct problem *why);

#endif
