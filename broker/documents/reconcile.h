/*
 * reconcile.h - answers to a client that compares its copy of a set with the
 * present resources, by their ids (proto/resourcesync/resource_id.h).
 *
 *     message of Negentropy --> reconcile_answer --> message
 *     ids                   --> reconcile_answer --> Resource List of these
 *
 * Each answer is of one state of the set, and has its position. The state lags
 * behind the log, and has no ids until somebody asks: a request asks the
 * archive thread for both (set->ids_wanted), and is refused until the state is
 * there. A small set has its state in the log.
 *
 * For workers: all of it may block.
 */
#pragma once

#include "broker/documents/document.h"

/* The longest message, and the most ids. */
#define RECONCILE_MESSAGE_MAX (256 * 1024)
#define RECONCILE_IDS_MAX     1000

/* The longest answer. */
#define RECONCILE_ANSWER_MAX  (256 * 1024)
#define RECONCILE_ENTRIES_MAX ((size_t)4 << 20)

/* Appends the answer to a message, and sets *seq to the position of the state
 * that it is of. `wish`: its set, head and effort; `least`: the least position.
 * STATUS_MALFORMED; STATUS_BUSY: ask again; STATUS_GONE.
 *
 * With `wants_entries` the body is ids, 32 bytes each: appends a Resource List
 * of the resources that the first halves of the ids name, with their present
 * descriptions. It leaves out resources that the set does not have, and ends
 * before it exceeds RECONCILE_ENTRIES_MAX. */
MUST_CHECK enum status reconcile_answer(struct buf *to,
                                        const struct document_wish *wish,
                                        uint64_t least, struct slice body,
                                        bool wants_entries, uint64_t *seq,
                                        struct problem *why);
