/*
 * source_description.h - finds the Source Description of a set, and says which
 * Source Descriptions a round of the log changes.
 *
 * A few sets share one document at the well-known address. With more than
 * --description-sets, an index has that address. Its parts have so many
 * sets each, by the numbers that sets got when they began (log_set_number):
 *
 *   /.well-known/resourcesync
 *     /descriptions/000000000001-000000005000.xml
 *     /descriptions/000000005001-000000010000.xml    still growing
 *
 * The address of a part says which numbers it has, so a set stays in its part
 * while others come and go, and a removed set leaves a hole. A part without any
 * set does not exist.
 *
 * A set that begins or ends, or is described otherwise, changes the part that
 * it stands in, never the index. When there are too many sets for one
 * document, all parts begin. The Capability Lists then link upward to the parts
 * instead: only the parts are announced.
 */
#pragma once

#include "broker/log/log.h"
#include "broker/sets/index_parts.h"
#include "broker/sets/links.h"
#include "broker/sets/registry.h"
#include "proto/resourcesync/change.h"

/* Most sets of a part: --description-sets is never more. */
#define DESCRIPTION_SETS_MAX 5000

/* The parts with the current sets. Any thread. */
struct parts source_description_parts(struct registry *registry);

/* The part that has set `number`. */
struct link_text source_description_part(const struct registry *registry,
                                         const struct parts *parts,
                                         uint64_t number);

/* The Source Description that has the set. Any thread. */
struct link_text source_description_link(const struct set *set);

/* The changes of a round. Log thread. All zero: none. */
struct source_changes {
    struct source_change {
        uint64_t number; /* of a set */
        bool is_birth;
        bool is_removal;
    } * all; /* the caller frees it */

    size_t n, capacity;
    bool is_short;    /* there was no memory for one of them */
    uint64_t emptied; /* where the last part began whose sets have all gone */
    struct parts before; /* as announced last */
    struct parts after;  /* as they are when the round is committed */
};

/* Begins a new round. */
void source_changes_clear(struct source_changes *changes);

/* Adds an act that changes the entry of its set there. */
void source_changes_add(struct source_changes *changes, const struct act *act);

/* `index`: the index above the document, or NULL. */
typedef void source_announce_fn(void *user, enum change_kind change,
                                struct link_text loc,
                                const struct link_text *index);

/* Announces the changes of the round, if there are any; `announce` NULL:
 * another broker has. STATUS_MEMORY: there was none for all of them, and none
 * is announced. */
MUST_CHECK enum status source_changes_announce(struct source_changes *changes,
                                               struct registry *registry,
                                               source_announce_fn *announce,
                                               void *user);
