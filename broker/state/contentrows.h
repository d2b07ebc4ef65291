/*
 * contentrows.h - the rows of content.db.
 *
 *   entries  seq, until (the next change of that resource; NULL: there is none
 *            yet), digest (NULL: missing)
 *   current  key (resource_key of the loc), seq: of resources that are there
 *   files    digest, length, n (entries that tell of it; 0: it is to go)
 *   missing  seq, due (NULL: never), tries, loc, hash, length
 *   state    the one row: epoch, seq, digest, and what content_at tells
 *
 * Every change is one transaction, which is on the disk when it returns, and
 * counts in the `at` that it is given: which is right only if it succeeds.
 *
 * One thread.
 */
#ifndef BROKER_STATE_CONTENTROWS_H
#define BROKER_STATE_CONTENTROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/db.h"
#include "broker/state/content.h"
#include "broker/state/gathering.h"
#include "proto/buf.h"
#include "proto/hash.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/status.h"

enum contentrows_statement {
    C_BEGIN,
    C_COMMIT,
    C_STATE,
    C_CURRENT, /* the seq of a key */
    C_PUT_CURRENT,
    C_DELETE_CURRENT,
    C_INSERT, /* an entry */
    C_OVERTAKE,
    C_KEEP,
    C_DELETE,
    C_FIND,      /* an entry and its file */
    C_OVERTAKEN, /* of those let go of by retention */
    C_FILE,      /* of a digest */
    C_PUT_FILE,
    C_DELETE_FILE,
    C_LOOSE,
    C_INSERT_MISSING,
    C_DELETE_MISSING,
    C_PUT_DUE,
    C_IS_MISSING,
    C_FIRST_MISSING, /* in a range */
    C_FIRST_LACKING, /* of those, for ever */
    C_NEXT_DUE,      /* behind one, as content_missing has it */
    C_FIRST_DUE,
    CONTENTROWS_STATEMENTS
};

struct contentrows {
    char dir[4352]; /* the set's */
    struct db db;
    sqlite3_stmt *statements[CONTENTROWS_STATEMENTS];
    const atomic_bool *is_ending; /* content_heed; or NULL */
};

/* What the one row tells. */
struct contentrows_at {
    char epoch[EPOCH_SIZE + 1]; /* "": there is none yet */
    struct content_at at;
    struct digest digest; /* d(at.seq) */
    bool has_digest;      /* it is known */
};

/* Opens the file in `dir`, or makes it, and reads its row. *is_ours: false: it
 * is damaged, or a newer program's; `why` says so, and it fails. */
MUST_CHECK enum status contentrows_open(struct contentrows *rows,
                                        struct contentrows_at *state,
                                        bool *is_ours, struct problem *why);
void contentrows_close(struct contentrows *rows); /* harmless if not open */

/* Lets go of what a statement lent, and of its read transaction. */
void contentrows_settle(struct contentrows *rows);

/* An entry that is folded. */
struct content_told {
    struct resource_key key;
    uint64_t seq;
    uint64_t before; /* the entry of its resource that it overtakes; 0: none */
    uint64_t until;  /* the one that overtakes it; 0: none */
    bool is_deleted;
    struct digest sha256;
    bool has_sha256;
    uint64_t length;        /* or LENGTH_NONE */
    size_t loc, loc_size;   /* in the texts: escaped */
    size_t hash, hash_size; /* size 0: it is not told */
};

/* The row alone. */
MUST_CHECK enum status contentrows_begin(struct contentrows *rows,
                                         const struct contentrows_at *state,
                                         struct problem *why);

/* Writes `n` entries, in order, and the row; what is to be fetched is due at
 * `now_us`. They may be in another order afterwards. */
MUST_CHECK enum status contentrows_fold(struct contentrows *rows,
                                        struct content_told *told, size_t n,
                                        const char *texts, int64_t now_us,
                                        struct contentrows_at *state,
                                        struct problem *why);

/* STATUS_NOT_FOUND: it is not missing. */
MUST_CHECK enum status contentrows_keep(struct contentrows *rows, uint64_t seq,
                                        const struct digest *digest,
                                        uint64_t length,
                                        struct contentrows_at *state,
                                        struct problem *why);

/* The next try, or CONTENT_NEVER. STATUS_NOT_FOUND likewise. */
MUST_CHECK enum status contentrows_postpone(struct contentrows *rows,
                                            uint64_t seq, int64_t due_us,
                                            struct contentrows_at *state,
                                            struct problem *why);

/* Lets go of at most `n` rows. */
MUST_CHECK enum status contentrows_forget(struct contentrows *rows,
                                          uint64_t earliest, size_t n,
                                          bool *is_more,
                                          struct contentrows_at *state,
                                          struct problem *why);

/* Of files that have gone. */
MUST_CHECK enum status contentrows_let_go(struct contentrows *rows,
                                          const struct digest *digests,
                                          size_t n, struct problem *why);

/* What rows tell of a file: *n entries have it (0: none, or it is not told of),
 * and *length bytes. */
MUST_CHECK enum status contentrows_file(struct contentrows *rows,
                                        const struct digest *digest,
                                        uint64_t *n, uint64_t *length,
                                        struct problem *why);

/* The file with that digest, if it is in the store and has that length (or
 * LENGTH_NONE); *is_other: it has another one. STATUS_NOT_FOUND. */
MUST_CHECK enum status contentrows_look(struct contentrows *rows,
                                        const struct digest *digest,
                                        uint64_t told_length, uint64_t *length,
                                        bool *is_other, struct problem *why);

#endif
