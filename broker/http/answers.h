/*
 * answers.h - what several handlers share: answers (a set that does not exist,
 * JSON), parameters of the query, and the checks of posts.
 */
#ifndef BROKER_HTTP_ANSWERS_H
#define BROKER_HTTP_ANSWERS_H

#include <stddef.h>

#include "broker/access/principal.h"
#include "broker/http/http.h"
#include "broker/net/request.h"
#include "broker/posts/ingest.h"
#include "proto/buf.h"
#include "proto/http/idempotency_key.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct route_target;

/* Finds the set of that name, with its head. If it does not exist for the
 * principal answers 404, and returns NULL. A private set also exists for who
 * has one of `rights` that is more than to read, by a token of its own. 410 if
 * the set was removed, but only for who would see a private one: nobody
 * remembers whether it was. */
struct set *answers_find_set(struct http *http, struct request *rq,
                             struct slice name,
                             const struct principal *principal, unsigned rights,
                             struct head *head);

/* Cache-Control of what is asked for again each time; `is_private`: it is about
 * a private set. */
const char *answers_cache_control(bool is_private);

/* Checks that the hub takes notifications and relays at all: from whoever has
 * the right, or without tokens only if no other machine reaches the broker
 * (W-124). Else the answer is 403, with `why`. */
MUST_CHECK enum status answers_may_publish(const struct http *http,
                                           struct problem *why);

/* Answers a failure with its HTTP status. */
void answers_failure(struct request *rq, enum status rc,
                     const struct problem *why);

/* True if the answer is a page for people: the client prefers one, and the
 * query has no `raw`, which stands for what programs get. */
bool answers_prefer_page(struct request *rq);

/* Answers with `text`, and frees it. `caching`: the Cache-Control header, or
 * NULL. */
void answers_buf(struct request *rq, unsigned status, const char *content_type,
                 const char *caching, struct buf *text);

#endif
