/*
 * contentrows.h - the rows of content.db.
 *
 *   entries  seq, until (the next change of that resource; NULL: none yet),
 *            digest (NULL: missing)
 *   current  key (resource_key of the loc), seq: of existing resources
 *   files    digest, length, n (entries that refer to it; 0: to be deleted)
 *   missing  seq, due (NULL: never), tries, loc, hash, length
 *   state    its only row: epoch, seq, digest, and struct content_at
 *
 * Every change is one transaction, which is on the disk when the function
 * returns. It updates the given `at`, which is only valid if the function
 * succeeds.
 *
 * For one thread.
 */
#ifndef BROKER_STATE_CONTENTROWS_H
#define BROKER_STATE_CONTENTROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/db.h"
#include "broker/state/content.h"
#include "proto/problem.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"
#include "proto/status.h"

struct contentrows {
    char dir[4352]; /* of the set */
    struct db db;
    const atomic_bool *is_ending; /* content_heed; or NULL */
};

/* Reads the missing entry that is due next, up to ?3, behind the one that is
 * due at ?1 and has seq ?2: seq, due, tries, loc, hash, length. */
extern const char contentrows_next_due[];

/* The only row of `state`. */
struct contentrows_at {
    char epoch[EPOCH_SIZE + 1]; /* "": none yet */
    struct content_at at;
    struct digest digest; /* d(at.seq) */
    bool has_digest;      /* it is known */
};

/* Opens the file in `dir`, or makes it, and reads its state. Fails with
 * *is_ours false if it is damaged, or of a newer program; `why` has the
 * reason. */
MUST_CHECK enum status contentrows_open(struct contentrows *rows,
                                        struct contentrows_at *state,
                                        bool *is_ours, struct problem *why);
void contentrows_close(struct contentrows *rows); /* allowed if not open */

/* An entry that is being folded. */
struct content_told {
    struct resource_key key;
    uint64_t seq;
    uint64_t before; /* the entry that it overtakes; 0: none */
    uint64_t until;  /* the entry that overtakes it; 0: none */
    bool is_deleted;
    struct digest sha256;
    bool has_sha256;
    uint64_t length;        /* or LENGTH_NONE */
    size_t loc, loc_size;   /* in the texts: escaped */
    size_t hash, hash_size; /* size 0: the source stated none */
};

/* Writes the row of `state`. */
MUST_CHECK enum status contentrows_begin(struct contentrows *rows,
                                         const struct contentrows_at *state,
                                         struct problem *why);

/* Entries that are folded together, in order. */
struct content_batch {
    struct content_told *told; /* may be left in another order */
    size_t n;
    const char *texts;
    int64_t now_us; /* entries to be fetched are due then */
};

/* Writes the entries, and the row of `state`. */
MUST_CHECK enum status contentrows_fold(struct contentrows *rows,
                                        const struct content_batch *batch,
                                        struct contentrows_at *state,
                                        struct problem *why);

/* STATUS_NOT_FOUND: it is not missing. */
MUST_CHECK enum status contentrows_keep(struct contentrows *rows, uint64_t seq,
                                        const struct digest *digest,
                                        uint64_t length,
                                        struct contentrows_at *state,
                                        struct problem *why);

/* Sets when the next try is due, or CONTENT_NEVER. STATUS_NOT_FOUND
 * likewise. */
MUST_CHECK enum status contentrows_postpone(struct contentrows *rows,
                                            uint64_t seq, int64_t due_us,
                                            struct contentrows_at *state,
                                            struct problem *why);

/* Deletes at most `n` rows. */
MUST_CHECK enum status contentrows_forget(struct contentrows *rows,
                                          uint64_t earliest, size_t n,
                                          bool *is_more,
                                          struct contentrows_at *state,
                                          struct problem *why);

/* Deletes the rows of deleted files. */
MUST_CHECK enum status contentrows_let_go(struct contentrows *rows,
                                          const struct digest *digests,
                                          size_t n, struct problem *why);

/* Reads a file's row: *n entries have it (0: none, or no row), and it has
 * *length bytes. */
MUST_CHECK enum status contentrows_file(struct contentrows *rows,
                                        const struct digest *digest,
                                        uint64_t *n, uint64_t *length,
                                        struct problem *why);

/* Looks for the file with that digest and length (or LENGTH_NONE). *is_other:
 * its length differs. STATUS_NOT_FOUND. */
MUST_CHECK enum status contentrows_look(struct contentrows *rows,
                                        const struct digest *digest,
                                        uint64_t told_length, uint64_t *length,
                                        bool *is_other, struct problem *why);

#endif
