/*
 * json_problem.h - problems as application/problem+json (RFC 9457):
 *
 *   {"type":"about:blank","title":"Unprocessable Content","status":422,
 *    "detail":"no loc","entry":3,"line":17}
 */
#ifndef PROTO_JSON_PROBLEM_H
#define PROTO_JSON_PROBLEM_H

#include "proto/buf.h"
#include "proto/problem.h"

/* So each begins that is written here. */
#define JSON_PROBLEM_START "{\"type\":\"about:blank\""

/* Appends one without its end, so that members may be added: the caller then
 * adds a brace. `title` is the reason of the HTTP status; `why` may be NULL. */
void json_problem_begin(struct buf *to, unsigned status, const char *title,
                        const struct problem *why);

#endif
