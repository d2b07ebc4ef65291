/*
 * listing.h - documents that list a set's Change Lists.
 */
#ifndef BROKER_DOCUMENTS_LISTING_H
#define BROKER_DOCUMENTS_LISTING_H

#include <stdint.h>

#include "broker/documents/documents.h"
#include "proto/resourcesync/document_write.h"

struct listing_wish {
    const struct document_wish *document;
    enum document_root root;
    enum capability capability;
    const char *archives; /* URL of the archive to link to; or NULL */
    const char *index;    /* URL of the index that covers it; or NULL */
    uint64_t first;       /* number of the first list */
    uint64_t last;        /* number of the last, which may be the open one */
    bool has_from;        /* the root has the `from` of the first list
 */
};

/* Opens the listing. May block: reads the lists' rows. */
MUST_CHECK enum status listing_open(const struct listing_wish *wish,
                                    struct document *document,
                                    struct problem *why);

#endif
