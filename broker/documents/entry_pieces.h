/*
 * entry_pieces.h - documents that are made while they are read, some entries at
 * a time.
 *
 * A slow reader keeps one piece in memory, not a document of megabytes. The
 * size is still known at the start, because the size of every entry is.
 */
#ifndef BROKER_DOCUMENTS_ENTRY_PIECES_H
#define BROKER_DOCUMENTS_ENTRY_PIECES_H

#include "broker/net/body.h"
#include "proto/buf.h"
#include "proto/status.h"

/* Entries of one piece. */
#define PIECES_STEP 256

/* The first member of a struct that makes the next pieces. */
struct pieces {
    struct body body; /* handed out */
    struct buf text;  /* the present piece; at the start, the header */
    bool is_begun;

    /* Appends the next piece to the empty `text`; appends nothing at the end.
     * May block if `blocks`. */
    enum status (*fill)(struct pieces *pieces);
    void (*free)(struct pieces *pieces); /* frees the containing struct, with
                                            its own resources */
    bool blocks;
};

/* Prepares body and text. Then the caller writes the header to `text`, and the
 * size of the whole document to body.size. */
void pieces_init(struct pieces *pieces,
                 enum status (*fill)(struct pieces *pieces),
                 void (*free)(struct pieces *pieces), bool blocks);

#endif
