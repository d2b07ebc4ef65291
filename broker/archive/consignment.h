/*
 * consignment.h - a post of changes together with their content: a
 * multipart/related body (proto/multipart.h), streamed to the disk.
 *
 *     --b                                    the root part: the changes, in any
 *     Content-Type: application/json         format that a post may have; first
 *
 *     {"changes":[{"loc":"http://example.com/a","change":"created"}]}
 *     --b                                    a bitstream: the bytes of the
 *     Content-Location: http://example.com/a created or updated entry with that
 *     Content-Type: image/png                loc; the n-th part of a loc is of
 *                                            its n-th such entry
 *     ...
 *     --b--
 *
 *     consignment_begin -> consignment_feed ... -> consignment_end
 *           |                   |                       |
 *           |                   |    placed, durable, entries complete
 *           |                   |                       v
 *           |                   |             consignment_commit --> on_done
 *           |                   |                                      |
 *           +-------------------+----- consignment_discard <-----------+
 *
 * An entry whose bytes do not come along has to tell the SHA-256 of some that
 * the set has. What an entry tells of its bytes (hashes, length) must be so;
 * what of SHA-256, length and media type it does not tell is added. All of it
 * is kept, or nothing; a crash leaves at most files that nobody tells of, which
 * go at the next start (contents.h).
 *
 * What is held in memory is the root part, what its entries tell, and the
 * headers of a part: counted in the holding that the caller gives. The bytes of
 * the whole count as CLIENT_DISK of the same client, until it is freed: one
 * client's posts have a share of the room that there is.
 *
 * One thread at a time. All but begin and commit may block.
 */
#ifndef BROKER_ARCHIVE_CONSIGNMENT_H
#define BROKER_ARCHIVE_CONSIGNMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/contents.h"
#include "broker/sets/ingest.h"
#include "broker/sets/registry.h"
#include "proto/key.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct consignment;

/* `size`: of the whole body. STATUS_NOT_FOUND: no set can have that name;
 * STATUS_INVALID: it does not keep content inline; STATUS_UNSUPPORTED,
 * STATUS_MALFORMED: as multipart_read_type; STATUS_TOO_LARGE: over
 * --max-content; STATUS_LIMITED, STATUS_BUSY. `holding` is of CLIENT_POSTS, and
 * lent until consignment_discard. */
MUST_CHECK enum status
consignment_begin(struct consignment **consignment, struct registry *registry,
                  struct contents *contents, struct slice set_name,
                  struct slice content_type, uint64_t size,
                  struct holding *holding, struct problem *why);

/* Its idempotency key, before its first byte (ingest_set_key). */
void consignment_set_key(struct consignment *consignment,
                         const struct key *key);

/* Reads some more. STATUS_INVALID and others: `why` names part, entry and loc.
 * After an error only consignment_discard. */
MUST_CHECK enum status consignment_feed(struct consignment *consignment,
                                        struct slice bytes,
                                        struct problem *why);

/* The body is whole: places its content, durably. */
MUST_CHECK enum status consignment_end(struct consignment *consignment,
                                       struct problem *why);

/* Hands its entries to the log, which log_wake sets to work. On success it is
 * the log's until on_done, as an ingest is. */
MUST_CHECK enum status consignment_commit(struct consignment *consignment,
                                          void (*on_done)(struct ingest *ingest,
                                                          void *user),
                                          void *user, struct problem *why);

/* The outcome, after on_done. */
const struct ingest *consignment_ingest(const struct consignment *consignment);

/* Gives back what it holds, before the publisher hears of the outcome
 * (clients.h). After on_done only. */
void consignment_give_back(struct consignment *consignment);

/* Frees it; what of it was not committed leaves the disk. Does not block after
 * consignment_end. NULL is allowed. */
void consignment_discard(struct consignment *consignment);

#endif
