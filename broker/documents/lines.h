/*
 * lines.h - the lines of a document's body: an entry is a line, and so is each
 * element of the header (proto/resourcesync/fragment.h,
 * proto/resourcesync/document_write.h).
 *
 * For workers: reading may block.
 */
#ifndef BROKER_DOCUMENTS_LINES_H
#define BROKER_DOCUMENTS_LINES_H

#include "broker/net/body.h"
#include "proto/buf.h"
#include "proto/slice.h"
#include "proto/status.h"

struct lines {
    struct body *body;  /* lent; NULL: the piece is all */
    struct slice piece; /* the unread rest of it */
    struct buf line;    /* a line that spans several pieces */
};

void lines_init(struct lines *lines, struct body *body);
void lines_fini(struct lines *lines);

/* Returns the next line with its end, lent until the next call.
 * STATUS_NOT_FOUND: none. STATUS_IO: the body cannot be read, or ends within a
 * line. */
MUST_CHECK enum status lines_next(struct lines *lines, struct slice *line);

/* The text between `before` and `after` in a line; empty if there is none. */
struct slice lines_between(struct slice line, const char *before,
                           const char *after);

#endif
