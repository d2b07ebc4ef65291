/*
 * bodies.h - takes a body (broker/net/body.h) to its end.
 */
#ifndef TESTS_SUPPORT_BODIES_H
#define TESTS_SUPPORT_BODIES_H

#include "broker/documents/documents.h"
#include "broker/net/body.h"
#include "proto/buf.h"

/* Appends all pieces, checks that they are as many bytes as the body said, and
 * frees it. Asks with may_block only after BODY_WAITS; returns how often it
 * did. BODY_FAILED fails the test. */
unsigned bodies_read(struct body *body, struct buf *to);

/* Opens a document of which the test wants the bytes only. */
enum status bodies_open(document_open_fn *open,
                        const struct document_wish *wish, struct body **body,
                        struct problem *why);

#endif
