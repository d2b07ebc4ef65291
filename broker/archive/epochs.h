/*
 * epochs.h - the start of a broker that may have lost the end of its logs.
 *
 *     tidingsd restore --> DATA/new-epochs --+
 *     a checkpoint file of more entries than +--> ACT_EPOCH (log/head.h)
 *         the log of the set has ------------+
 *
 * Readers may have later entries of such a log than the broker, and its key may
 * have signed them. So the log goes on in a new epoch before anybody can post
 * or read. The checkpoint files lie beside the closed lists, and are written
 * after the list has ended: no change waits for them.
 */
#pragma once

#include "broker/sets/registry.h"

/* Begins them, with a line of the log for each set. The public URL is known,
 * and nobody is let in yet. */
MUST_CHECK enum status epochs_begin(struct registry *registry,
                                    struct problem *why);

/* STATUS_INVALID: a set has signed checkpoints, and the key is gone. */
MUST_CHECK enum status epochs_check_key(struct registry *registry,
                                        struct problem *why);
