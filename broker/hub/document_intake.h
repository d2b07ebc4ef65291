/*
 * document_intake.h - takes in a document of a Source, for a set or a relay.
 *
 * A large document would hold up the delivery thread too long, so the worker
 * pool does the work on its bytes: the digest, and for a set the parsing as for
 * a post (sets/ingest.h). A relay then keeps the document unchanged, in a turn
 * of this thread (RELAY_DOCUMENT_MAX). Documents of one Source go one after the
 * other, in the order of their arrival; each waits until the one before is
 * committed or handed to the relay.
 *
 *     waits --> [worker: digest, parsed, submitted]
 *                     |              [log thread: committed] --> answered
 *                     +--> relay_take, kept with the turn -----> answered
 *
 * The key of a post without a key is the digest of its body: when a Source
 * repeats a document because our answer was lost, the bytes are the same, and
 * its changes are in the log once (W-091).
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_DOCUMENT_INTAKE_H
#define BROKER_HUB_DOCUMENT_INTAKE_H

#include <stdbool.h>

#include "broker/hub/order.h"
#include "broker/hub/source.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Takes in the document of ORDER_NOTIFY. Its Source is believed. The order is
 * done when the document is durable. */
void intake_order(struct source *source, const struct target *target,
                  struct order *order);

/* Takes in a fetched document; `body` is lent. STATUS_BUSY: no room now;
 * STATUS_UNSUPPORTED: not suitable for a set. source->fetched,
 * source->fetched_into and the diagnostics receive the later result. */
MUST_CHECK enum status intake_fetched(struct source *source,
                                      const struct target *target,
                                      struct slice type, struct slice body,
                                      struct problem *why);

/* For the start and the end of the delivery thread. intake_end waits for the
 * documents that the log has. */
void intake_start(struct foreign *foreign);
void intake_end(struct foreign *foreign);

/* Answers the waiting documents of a source. */
void intakes_free(struct source *source);

#endif
