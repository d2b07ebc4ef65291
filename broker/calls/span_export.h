/*
 * span_export.h - sends spans (broker/base/spans.h) to a collector: OTLP over
 * HTTP, in JSON.
 *
 *     POST URL/v1/traces
 *     {"resourceSpans":[{"resource":{"attributes":[
 *       {"key":"service.name","value":{"stringValue":"tidingsd"}}, ...]},
 *      "scopeSpans":[{"scope":{"name":"tidings"},"spans":[
 *       {"traceId":"4bf9...","spanId":"00f0...","parentSpanId":"...","name":
 *        "post","kind":2,"startTimeUnixNano":"1775067000000000000",
 *        "endTimeUnixNano":"...","attributes":[...]}]}]}]}
 *
 * A thread of its own looks each second, and makes one call at a time
 * (blocking_call.h). Spans of a
 * call that fails are lost, and counted: a collector that is away costs no
 * memory. One line of the log says when that begins, and one when it ends.
 */
#pragma once

#include "proto/problem.h"

struct span_export;

/* Checks that the token file, if there is one, can be used, and has an URL to
 * go to. */
MUST_CHECK enum status span_export_check(const char *url, const char *token,
                                         struct problem *why);

/* `url` and `token` (a file; "": none) are lent until span_export_close. The
 * URL may lead to any address: it is the operator's. STATUS_IO,
 * STATUS_INVALID: the token file. */
MUST_CHECK enum status span_export_open(struct span_export **export,
                                        const char *url, const char *token,
                                        struct problem *why);

/* Sends what is there, for two seconds at most, and frees it. NULL is allowed.
 */
void span_export_close(struct span_export *export);
