/*
 * query.h - the query of a stream or of change memory: the position to begin
 * at, and a filter.
 *
 *   ?after=POSITION   after this entry; or
 *   ?since=DATETIME   what happened later than that, W3C Datetime of any
 *                     precision
 *   &change= &prefix= &type= &tag=   filters, of
 *                     proto/resourcesync/change_filter.h
 */
#ifndef BROKER_HTTP_QUERY_H
#define BROKER_HTTP_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/head.h"
#include "broker/net/request.h"
#include "proto/problem.h"
#include "proto/resourcesync/change_filter.h"
#include "proto/status.h"

struct query {
    bool has_after;
    uint64_t after; /* if has_after */
    bool has_since;
    int64_t since_us; /* if has_since */
    struct filter filter;
};

/* Reads the query, with the head of the set. STATUS_MALFORMED: the message
 * names the parameter. STATUS_GONE: the position cannot be served; everything
 * else was read. */
MUST_CHECK enum status query_read(struct request *rq, const struct head *head,
                                  struct query *query, struct problem *why);

/* Reads the parameter `name`, a number from `least` to `most`. Without it
 * *number stays; *is_there (may be NULL): it is given. STATUS_MALFORMED. */
MUST_CHECK enum status query_number(struct request *rq, const char *name,
                                    uint64_t least, uint64_t most,
                                    uint64_t *number, bool *is_there,
                                    struct problem *why);

/* Reads the parameter `name`, "yes" or "no", the default. STATUS_MALFORMED. */
MUST_CHECK enum status query_yes(struct request *rq, const char *name,
                                 bool *is_yes, struct problem *why);

/* Last-Event-ID, of an event stream that connects again; during on_request.
 * Empty: none. */
struct slice query_last_event_id(struct request *rq);

#endif
