/*
 * query.h - what the query of a stream or of change memory asks for: where to
 * begin, and which entries.
 *
 *   ?after=POSITION   after this entry; or
 *   ?since=DATETIME   what happened later than that, W3C Datetime of any
 *                     precision
 *   &change= &prefix= &type= &tag=   filters (proto/filter.h)
 */
#ifndef BROKER_HTTP_QUERY_H
#define BROKER_HTTP_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/lists.h"
#include "broker/net/request.h"
#include "proto/filter.h"
#include "proto/problem.h"
#include "proto/status.h"

struct query {
    bool has_after;
    uint64_t after; /* if has_after */
    bool has_since;
    int64_t since_us; /* if has_since */
    struct filter filter;
};

/* Reads it, judged by the head of the set. STATUS_MALFORMED: says which
 * parameter. STATUS_GONE: a position that cannot be served; all else is read.
 */
MUST_CHECK enum status query_read(struct request *rq, const struct head *head,
                                  struct query *query, struct problem *why);

#endif
