/*
 * source_changes.h - which Source Descriptions a round of the log changes: the
 * one, or parts of several (descriptions.h), never their index.
 *
 * A set that begins or ends, or is described otherwise, changes the part that
 * it stands in. When there are too many sets for one document, all parts begin.
 * What a Capability List links to upward changes then, too, and is not told of
 * each: the parts are.
 *
 * Log thread.
 */
#ifndef BROKER_SETS_SOURCE_CHANGES_H
#define BROKER_SETS_SOURCE_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/log/log.h"
#include "broker/sets/links.h"
#include "broker/sets/parts.h"
#include "broker/sets/registry.h"
#include "proto/change.h"
#include "proto/status.h"

/* All zero: none. */
struct source_changes {
    struct source_change {
        uint64_t number; /* of a set */
        bool is_birth;
        bool is_removal;
    } * all;

    size_t n, capacity;
    uint64_t emptied; /* where the last part began whose sets have all gone */
    struct parts before; /* as announced last */
    struct parts after;  /* as they are when the round is committed */
};

void source_changes_fini(struct source_changes *changes);

/* A new round. */
void source_changes_clear(struct source_changes *changes);

/* An act that changes what is said of its set there. STATUS_MEMORY. */
MUST_CHECK enum status source_changes_add(struct source_changes *changes,
                                          const struct act *act);

/* `index`: the one that the document is under; or NULL. */
typedef enum status source_tell_fn(void *user, enum change_kind change,
                                   const struct link_text *loc,
                                   const struct link_text *index);

/* Tells the changes of the round, if there are any. */
MUST_CHECK enum status source_changes_tell(struct source_changes *changes,
                                           struct registry *registry,
                                           source_tell_fn *tell, void *user);

#endif
