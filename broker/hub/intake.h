/*
 * intake.h - a document of a Source on its way to where it is kept.
 *
 * What is done with all of its bytes is done on the worker pool, since a large
 * one takes longer than the delivery thread may be held: its digest, and for a
 * set it is read as a post would be (sets/ingest.h). A relay then keeps it as
 * it is, in this thread's turn (RELAY_DOCUMENT_MAX). Those of one Source go one
 * after the other, in the order they came, each when the one before is
 * committed, or handed to the relay.
 *
 *     waits --> [worker: digest, parsed, submitted]
 *                     |              [log thread: committed] --> answered
 *                     +--> relay_take, kept with the turn -----> answered
 *
 * The key of a post without a key is the digest of its body: a document that a
 * Source repeats, because it did not hear our answer, is the same bytes, and
 * its changes are in the log once (W-091).
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_INTAKE_H
#define BROKER_HUB_INTAKE_H

#include <stdbool.h>

#include "broker/hub/order.h"
#include "broker/hub/source.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Takes in the document of ORDER_NOTIFY, whose Source is believed; the order is
 * done when it is durable. */
void intake_order(struct source *source, const struct target *target,
                  struct order *order);

/* Takes in one that was fetched; `body` is lent. STATUS_BUSY: no room now;
 * STATUS_UNSUPPORTED: nothing for a set. What becomes of it later is told to
 * source->fetched and _into, and to the diagnostics. */
MUST_CHECK enum status intake_fetched(struct source *source,
                                      const struct target *target,
                                      struct slice type, struct slice body,
                                      struct problem *why);

/* At the start and at the end of the delivery thread. intake_end: waits for
 * what the log has. */
void intake_start(struct foreign *foreign);
void intake_end(struct foreign *foreign);

/* Those of a source that are still waiting are answered. */
void intakes_free(struct source *source);

#endif
