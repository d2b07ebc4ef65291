/*
 * follow_request.h - which sets a client of a stream of many sets wants to
 * follow, as it says it:
 *
 *     GET /stream?set=a@9f2c5b7d01e4a683-4&set=b&set=news-*
 *
 *     {"follow": [{"set": "a", "after": "9f2c5b7d01e4a683-4"},
 *                 {"set": "b"},
 *                 {"set": "c", "since": "2026-11-23T04:00:00Z"},
 *                 {"set": "news-*"}],
 *      "unfollow": ["d"]}
 *
 * `after` is a position, or a plain seq; without `after` and `since` a set
 * begins now. A pattern (rights.h) stands for all sets that it matches; with
 * "after": "0" these begin at their beginning.
 *
 * A resume text (resume_text.h), as ?resume=, Last-Event-ID or "resume", gives
 * the positions of all sets that the request names. In a URL, which is the same
 * when a client connects again, the text wins over positions; in JSON a
 * position wins.
 *
 * A request is read as a whole, or refused. Any thread.
 */
#pragma once

#include "broker/access/rights.h"
#include "proto/resourcesync/position.h"

_Static_assert(PATTERN_MAX >= SET_NAME_MAX, "a name is a pattern");

/* A set, or the sets of a pattern. */
struct follow_item {
    char name[PATTERN_MAX + 1];
    bool is_pattern;
    bool is_end;           /* "unfollow" */
    bool has_after;        /* begin after `after` */
    bool has_since;        /* begin behind the last entry not later than this */
    struct position after; /* of a pattern: seq 0 */
    int64_t since_us;
};

struct follow_request {
    struct follow_item *items; /* in the order of the text */
    size_t n, capacity;
    char *resume;     /* a resume text; NULL: none */
    bool resumes_all; /* it wins over `after` and `since` */
};

/* Sets the resume text, which wins over positions. */
void follow_request_resume(struct follow_request *request, struct slice text);

/* Read the parameters `set` and `resume` of a query; or the JSON of a message
 * or a body. `request` is empty before, all zero, and freed by its owner after
 * any status. STATUS_MALFORMED: the escapes, or the JSON; STATUS_INVALID:
 * well-formed, but no such request; STATUS_MEMORY. */
MUST_CHECK enum status follow_request_query(struct follow_request *request,
                                            struct slice query,
                                            struct problem *why);
MUST_CHECK enum status follow_request_json(struct follow_request *request,
                                           struct slice text,
                                           struct problem *why);
void follow_request_fini(struct follow_request *request);

/* The JSON */
extern const struct json_shape follow_shape, follow_item_shape;
