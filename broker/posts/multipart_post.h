/*
 * multipart_post.h - a post of changes together with their content: a
 * multipart/related body (proto/http/multipart.h), streamed to the disk.
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
 *     multipart_post_begin -> multipart_post_feed ... -> multipart_post_end
 *           |                   |                       |
 *           |                   |    placed, durable, entries complete
 *           |                   |                       v
 *           |                   |                  ingest_end --> on_done
 *           |                   |                                     |
 *           +-------------------+----- multipart_post_discard <-------+
 *
 * An entry without a part must carry the SHA-256 of content that the set has.
 * Hashes and length of an entry must match its bytes; the broker adds SHA-256,
 * length and media type where they are missing. The post is kept as a whole or
 * not at all. A crash leaves at most files without an entry; the broker deletes
 * them after the next start (contents.h).
 *
 * Memory holds the root part, the fields of its entries, and the headers of a
 * part; the caller's holding counts them. The bytes of the whole body count as
 * CLIENT_DISK of the same client until the post is freed, so the posts
 * of one client get only a share of the free room.
 *
 * One thread at a time. All but begin may block.
 */
#pragma once

#include "broker/archive/contents.h"
#include "broker/posts/ingest.h"
#include "broker/sets/registry.h"
#include "proto/http/idempotency_key.h"

struct multipart_post;

/* A post that begins. Lends. */
struct multipart_plan {
    struct contents *contents;
    struct slice set_name, content_type;
    uint64_t size;               /* of the whole body */
    struct holding *holding;     /* of CLIENT_POSTS; lent until
                                    multipart_post_discard */
    struct authority *authority; /* of the post: ingest_set_authority */
    const struct key *key;       /* ingest_set_key; size 0: none */
    struct slice traceparent;    /* valid; or empty: none */
};

/* STATUS_NOT_FOUND: no set can have that name; STATUS_INVALID: it does not keep
 * content inline; STATUS_UNSUPPORTED, STATUS_MALFORMED: as multipart_read_type;
 * STATUS_TOO_LARGE: over --max-content; STATUS_LIMITED, STATUS_BUSY. */
MUST_CHECK enum status multipart_post_begin(struct multipart_post **post,
                                            struct posts *posts,
                                            const struct multipart_plan *plan,
                                            struct problem *why);

/* Reads some more. STATUS_INVALID and others: `why` names part, entry and loc.
 * After an error only multipart_post_discard is allowed. */
MUST_CHECK enum status multipart_post_feed(struct multipart_post *post,
                                           struct slice bytes,
                                           struct problem *why);

/* Ends the body: places its content, durably. Then ingest_end of its ingest
 * hands the entries to the log, which owns the post until on_done. */
MUST_CHECK enum status multipart_post_end(struct multipart_post *post,
                                          struct problem *why);
struct ingest *multipart_post_ingest(const struct multipart_post *post);

/* Gives back its holdings, before the publisher gets the outcome
 * (client_limits.h). Only after on_done. */
void multipart_post_give_back(struct multipart_post *post);

/* Frees it; uncommitted files leave the disk. Does not block after
 * multipart_post_end. NULL is allowed. */
void multipart_post_discard(struct multipart_post *post);
