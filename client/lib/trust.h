/*
 * trust.h - whose signatures a handle demands of checkpoints (td_trust), and
 * what it has checked.
 *
 * Pure but for the handle's problem; its thread.
 */
#pragma once

#include "client/tidings.h"
#include "proto/tlog/note.h"
#include "proto/tlog/tree.h"

/* Keys of each kind. */
#define TRUST_KEYS_MAX 16

struct trust {
    struct note_key keys[TRUST_KEYS_MAX], witnesses[TRUST_KEYS_MAX];
    size_t n_keys, n_witnesses;
    unsigned required; /* cosignatures */
};

/* Reads a checkpoint of a log with that epoch, and checks its signatures:
 * that of a key with the name of its origin, and the required cosignatures;
 * without `trust` (NULL) or keys none. `*result` lends texts of the bytes of
 * `note`. STATUS_DIFFERENT: `why` says whose is missing or wrong, or that it is
 * of another log. STATUS_MALFORMED: it is none. */
MUST_CHECK enum status trust_check(const struct trust *trust,
                                   const struct note *note, const char *epoch,
                                   struct checkpoint *checkpoint,
                                   struct td_checkpoint *result,
                                   struct problem *why);

/* What a follower of the log with that epoch asks of a new checkpoint. */
struct trust_progress {
    const struct trust *trust; /* NULL: no signature */
    struct slice kept;         /* the last checkpoint; size 0: there is none */
    const char *epoch;
    uint64_t seq;                /* the follower's place ... */
    const struct digest *digest; /* ... and the log's digest there; or NULL */
    struct tree_tiles tiles;     /* of the new tree */
    uint64_t *size;              /* gets its size, before a tile is read */
    struct buf *proof;           /* gets what verify_evidence.c reads behind the
                                    two texts; or NULL */
};

/* Checks the signatures of a checkpoint. Then the new tree must continue the
 * last one, if both have the same origin, and must contain the digest at the
 * place, if the tree reaches that far. STATUS_DIFFERENT: *fault names what is
 * wrong (td_checkpoint_fn); STATUS_REWOUND: the same, and it contradicts what
 * came before. STATUS_UNREACHABLE: the checkpoint has fewer
 * entries than the last one, and an earlier time, or its tiles do not lead to its
 * root, which convinces nobody. STATUS_INVALID: `kept` is no
 * checkpoint. Or what the tiles return. */
MUST_CHECK enum status trust_progress(const struct trust_progress *p,
                                      struct slice bytes,
                                      struct td_checkpoint *result,
                                      const char **fault, struct problem *why);
