/*
 * answers.h - what several handlers share: answers (a set that does not exist,
 * JSON), parameters of the query, and the checks of posts.
 */
#pragma once

#include "broker/access/principal.h"
#include "broker/http/http.h"
#include "broker/log/head.h"
#include "broker/net/request.h"
#include "proto/resourcesync/change_filter.h"

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

/* Counts a refusal in `metric` (enum metric, by status; 0: none). */
void answers_count(unsigned metric, unsigned status);

/* Chooses what a GET is answered with: the number of a type of `programs`, or
 * FACE_PAGE, a page for people. A client gets a page that prefers one, or
 * accepts nothing else. With the parameter `raw` a client gets the
 * type for programs, whatever its Accept names. FACE_NONE: nothing is
 * acceptable, and 406 was answered. During on_request. */
enum { FACE_PAGE = -1, FACE_NONE = -2 };

int answers_choose_face(struct request *rq, const char *const *programs,
                        size_t n);

/* Answers with `text`, and frees it. `caching`: the Cache-Control header, or
 * NULL. */
void answers_buf(struct request *rq, unsigned status, const char *content_type,
                 const char *caching, struct buf *text);

/* The query
 *
 * That of a stream or of change memory has the position to begin at, and a
 * filter:
 *
 *   ?after=POSITION   after this entry; or
 *   ?since=DATETIME   what happened later than that, W3C Datetime of any
 *                     precision
 *   &change=...       filters, also &prefix=, &type= and &tag=:
 *                     proto/resourcesync/change_filter.h */

struct query {
    bool has_after;
    uint64_t after; /* if has_after */
    bool has_since;
    int64_t since_us; /* if has_since */
    struct filter filter;
};

/* The parameter `name`, a W3C Datetime; without it *us stays.
 * STATUS_MALFORMED. */
MUST_CHECK enum status query_time(struct request *rq, const char *name,
                                  bool *is_there, int64_t *us,
                                  struct problem *why);

/* Reads the query, with the head of the set. STATUS_MALFORMED: the message
 * names the parameter. STATUS_GONE: the position cannot be served; everything
 * else was read. */
MUST_CHECK enum status query_read(struct request *rq, const struct head *head,
                                  struct query *query, struct problem *why);

/* The longest grace of a former token or key, in seconds: a year. */
#define GRACE_MAX 31536000

/* Reads the parameter `name`, a number from `least` to `most`. Without it
 * *number stays; *is_there (may be NULL): it is given. STATUS_MALFORMED. */
MUST_CHECK enum status query_number(struct request *rq, const char *name,
                                    uint64_t least, uint64_t most,
                                    uint64_t *number, bool *is_there,
                                    struct problem *why);

/* Reads the parameter `name`, "yes" or "no", the default. STATUS_MALFORMED. */
MUST_CHECK enum status query_yes(struct request *rq, const char *name,
                                 bool *is_yes, struct problem *why);

/* Last-Event-ID, of an event stream that connects again; without it the
 * parameter lastEventId, which event-source-polyfill sends instead. During
 * on_request. Empty: none. */
struct slice query_last_event_id(struct request *rq);

/* The trace of the request (traceparent.h); during on_request. Empty: it has
 * none, or not a valid one, which is counted. */
struct slice query_traceparent(struct request *rq);
