/*
 * trust.h - whose signatures a handle demands of checkpoints (td_trust), and
 * what it has checked.
 *
 * Pure but for the handle's problem; its thread.
 */
#pragma once

#include "client/tidings.h"
#include "proto/tlog/note.h"

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
