/*
 * pieces.h - documents that are made as they are read, some entries at a time.
 *
 * Whoever reads slowly keeps one piece in memory, not a document of megabytes.
 * The size is known at the start all the same: every entry's is, before it is
 * written.
 */
#ifndef BROKER_DOCUMENTS_PIECES_H
#define BROKER_DOCUMENTS_PIECES_H

#include "broker/net/body.h"
#include "proto/buf.h"
#include "proto/status.h"

/* Entries of one piece. */
#define PIECES_STEP 256

/* The beginning of a struct that knows what comes next. */
struct pieces {
    struct body body; /* handed out */
    struct buf text;  /* the piece at hand; at the start, the header */
    bool is_begun;

    /* Appends the next piece to the empty `text`; nothing at the end. May block
     * if `blocks`. */
    enum status (*fill)(struct pieces *pieces);
    void (*free)(struct pieces *pieces); /* what stands around it, and itself */
    bool blocks;
};

/* Prepares body and text; `text` then takes the header, and body.size the size
 * of the whole. */
void pieces_init(struct pieces *pieces,
                 enum status (*fill)(struct pieces *pieces),
                 void (*free)(struct pieces *pieces), bool blocks);

#endif
