/*
 * unpack.h - a document as it arrives, in gzip or not: the first bytes tell.
 *
 * Many sources keep their lists as .xml.gz and say so nowhere, or say it though
 * the list is plain. Several members, one after the other, are one document;
 * whatever else follows a member is refused.
 */
#ifndef CLIENT_SOURCE_UNPACK_H
#define CLIENT_SOURCE_UNPACK_H

#include <stdint.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct unpack;

/* Receives what comes out, lent. A status other than 0 ends it. */
typedef enum status unpack_fn(struct slice bytes, void *user,
                              struct problem *why);

/* At most `max_bytes` come out, whatever went in. NULL: no memory. */
struct unpack *unpack_new(uint64_t max_bytes, unpack_fn *on_bytes, void *user);
void unpack_free(struct unpack *unpack); /* NULL is allowed */

/* STATUS_MALFORMED: gzip that is damaged or ends too early; STATUS_TOO_LARGE;
 * STATUS_MEMORY; what on_bytes returned. */
MUST_CHECK enum status unpack_feed(struct unpack *unpack, struct slice bytes,
                                   struct problem *why);
MUST_CHECK enum status unpack_end(struct unpack *unpack, struct problem *why);

#endif
