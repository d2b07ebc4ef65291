/*
 * rejection.h - the report of a bad message: application/problem+json like the
 * answer to a bad post, with three more members.
 *
 *   {"type":"about:blank","title":"Unprocessable Content","status":422,
 *    "detail":"no loc","entry":3,"line":17,
 *    "topic":"plant/7/changes","set":"plant","key":"8e03978e"}
 *
 * Pure. Any thread.
 */
#ifndef BROKER_BRIDGE_REJECTION_H
#define BROKER_BRIDGE_REJECTION_H

#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* The longest foreign text that is reported whole; longer ones are quoted
 * (problem.h). */
#define REJECTION_TEXT_MAX 1024

/* The largest report: the text of a problem, and three members in which every
 * byte may take six. */
#define REJECTION_MAX ((size_t)32 << 10)

/* Appends the report. `rc`, `why`: the error. `key` may be empty. */
void rejection_write(struct buf *to, struct slice topic, struct slice set,
                     struct slice key, enum status rc,
                     const struct problem *why);

#endif
