/*
 * document_intake.h - takes in a document of a Source, for a set or a topic of
 * others.
 *
 * A large document would hold up the delivery thread too long, so the worker
 * pool does the work on its bytes: the digest, and for a set the parsing as for
 * a post (sets/ingest.h). A relay then keeps the document unchanged, in a turn
 * of this thread (FOREIGN_DOCUMENT_MAX). Documents of one Source go one after
 * the other, in the order of their arrival; each waits until the one before is
 * committed or handed to the relay.
 *
 *     waits --> [worker: digest, parsed, submitted]
 *                     |              [log thread: committed] --> answered
 *                     +--> foreign_topic_take, kept with the turn --> answered
 *
 * The key of a post without a key is the digest of its body: when a Source
 * repeats a document because our answer was lost, the bytes are the same, and
 * its changes are in the log once (W-091).
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/sources/command.h"
#include "broker/sources/foreign_source.h"

/* Who takes in the documents of a URL now: a set, a topic, or neither. `url` is
 * valid. */
struct intake_target {
    struct foreign_topic *topic;
    struct set *set;
};

struct intake_target intake_target_of(struct foreign_sources *foreign,
                                      struct slice url);

/* The name of the set or relay; there is one. */
struct slice intake_target_name(const struct intake_target *target);

static inline bool
intake_target_is_none(const struct intake_target *target)
{
    return !target->topic && !target->set;
}

/* Takes in the document of COMMAND_NOTIFY. Its Source is believed. The command
 * is done when the document is durable. */
void intake_command(struct foreign_source *source,
                    const struct intake_target *target,
                    struct command *command);

/* Takes in a fetched document; `body` is lent. STATUS_BUSY: no room now;
 * STATUS_UNSUPPORTED: not suitable for a set. source->fetched,
 * source->fetched_into and the diagnostics receive the later result. */
MUST_CHECK enum status intake_fetched(struct foreign_source *source,
                                      const struct intake_target *target,
                                      struct slice type, struct slice body,
                                      struct problem *why);

/* For the start and the end of the delivery thread. intake_end waits for the
 * documents that the log has. */
void intake_start(struct foreign_sources *foreign);
void intake_end(struct foreign_sources *foreign);

/* Answers the waiting documents of a source. */
void intakes_free(struct foreign_source *source);
