/*
 * stream.h - a subscriber of raw bytes: WebSocket, messages in XML.
 */
#ifndef TESTS_SUPPORT_STREAM_H
#define TESTS_SUPPORT_STREAM_H

#include "tests/support/trace.h"
#include "tests/support/wire.h"

/* Subscribes on an open connection; `after` is a position or a seq, NULL: from
 * now on. false: refused. */
bool stream_open(struct wire *w, const char *set, const char *after,
                 struct problem *why);

/* Reads messages into the trace until it has entry `until`. Every message must
 * begin where the last one ended: neither a repeat nor a gap. false: that did
 * not hold, or the connection ended; `*is_ended` (may be NULL) tells which. */
bool stream_read(struct wire *w, struct trace *t, uint64_t until,
                 bool *is_ended, struct problem *why);

#endif
