/*
 * gunzip.h - a body in gzip (RFC 1952), inflated as it arrives.
 *
 *     gunzip_new -> gunzip_feed ... -> gunzip_end -> gunzip_free
 *                      |     ^
 *                      v     |        is_behind: in another turn of the loop
 *                     gunzip_step
 *
 * A few bytes can become a thousand times as many, so whoever feeds does not
 * wait for all that comes out of them: a call inflates one bounded step, and
 * what is left of the input is kept until the next. Nothing that comes out is
 * kept. Several members, one after the other, are one body; whatever else
 * follows a member is refused.
 *
 * One thread at a time.
 */
#ifndef BROKER_SETS_GUNZIP_H
#define BROKER_SETS_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct gunzip;

/* Receives what comes out, lent. A status other than 0 ends the reading. */
typedef enum status gunzip_fn(struct slice bytes, void *user,
                              struct problem *why);

/* No more than `max_bytes` come out. NULL: no memory. */
struct gunzip *gunzip_new(uint64_t max_bytes, gunzip_fn *on_bytes, void *user);
void gunzip_free(struct gunzip *g); /* NULL is allowed */

/* Takes `bytes` and makes one step. STATUS_MALFORMED: not gzip, or damaged;
 * STATUS_TOO_LARGE: more than max_bytes; STATUS_BUSY: no memory; or what
 * on_bytes returned. After an error only gunzip_free. */
MUST_CHECK enum status gunzip_feed(struct gunzip *g, struct slice bytes,
                                   struct problem *why);

/* Is there something left of what was fed? Then another step is due. */
bool gunzip_is_behind(const struct gunzip *g);
MUST_CHECK enum status gunzip_step(struct gunzip *g, struct problem *why);

/* There is no more input, and nothing is behind. STATUS_MALFORMED: the last
 * member is not whole, or there was none. */
MUST_CHECK enum status gunzip_end(const struct gunzip *g, struct problem *why);

/* Bytes of memory that it takes now. */
size_t gunzip_held(const struct gunzip *g);

#endif
