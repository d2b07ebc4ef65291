/*
 * answers.h - answers that several handlers give: failures, a set that does not
 * exist, texts that a worker writes.
 */
#ifndef BROKER_HTTP_ANSWERS_H
#define BROKER_HTTP_ANSWERS_H

#include <stddef.h>

#include "broker/http/http.h"
#include "broker/net/request.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Finds the set of that name, with its head. If it does not exist answers 404,
 * or 410 if it was removed, and returns NULL. */
struct set *answers_find_set(struct http *http, struct request *rq,
                             struct slice name, struct head *head);

/* Checks that anyone may publish to the hub, and register relays. There are no
 * tokens, so only on an open broker (W-124). Else the answer is 403, with
 * `why`. */
MUST_CHECK enum status answers_may_publish(const struct http *http,
                                           struct problem *why);

/* Answers a failure with its HTTP status; for STATUS_GONE with the members that
 * name a position to continue at. `set` and `head` may be NULL. */
void answers_failure(struct request *rq, enum status rc,
                     const struct problem *why, const struct set *set,
                     const struct head *head);

/* Answers 200 with the text that `write` appends, at most `max` bytes of
 * `content_type`, which no cache keeps; 503 if there is no memory. `write` runs
 * on a worker, because it looks at every set, reads the disk, or waits for a
 * lock. */
void answers_text(struct http *http, struct request *rq,
                  const char *content_type, size_t max,
                  void (*write)(struct http *http, struct buf *to));

#endif
