/*
 * rejected.h - what is told of a message that was bad: application/problem+json
 * as the answer to a bad post is, with three members more.
 *
 *   {"type":"about:blank","title":"Unprocessable Content","status":422,
 *    "detail":"no loc","entry":3,"line":17,
 *    "topic":"plant/7/changes","set":"plant","key":"8e03978e"}
 *
 * Pure. Any thread.
 */
#ifndef BROKER_BRIDGE_REJECTED_H
#define BROKER_BRIDGE_REJECTED_H

#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Longest text of somebody else's that is told whole; longer ones are quoted
 * (problem.h). */
#define REJECTED_TEXT_MAX 1024

/* The largest one: text of a problem and of three members, where every byte may
 * take six. */
#define REJECTED_MAX ((size_t)32 << 10)

/* Appends it. `rc`, `why`: what was wrong with it. `key` may be empty. */
void rejected_write(struct buf *to, struct slice topic, struct slice set,
                    struct slice key, enum status rc,
                    const struct problem *why);

#endif
