/*
 * documents.h - path -> document: one row each, in documents.c.
 */
#ifndef BROKER_DOCUMENTS_DOCUMENTS_H
#define BROKER_DOCUMENTS_DOCUMENTS_H

#include <stdint.h>

#include "broker/base/body.h"
#include "broker/log/log.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* What is asked for. */
struct document_wish {
    struct registry *registry;
    struct set *set;  /* NULL for documents of the whole Source */
    struct head head; /* the set's, at one moment: the document is of it */
    uint64_t number;  /* of a Change List */
    enum log_patience patience;
};

/* Opens a document: its body is the caller's. STATUS_AGAIN: ask again with
 * LOG_DISK; STATUS_NOT_FOUND. */
typedef enum status document_open_fn(const struct document_wish *wish,
                                     struct body **body, struct problem *why);

/* A document that a path names. */
struct document_found {
    document_open_fn *open;
    bool has_set;
    struct slice set; /* as it stands in the path */
    uint64_t number;
};

/* STATUS_NOT_FOUND: no document can be there. */
MUST_CHECK enum status documents_find(struct slice path,
                                      struct document_found *found);

document_open_fn source_open;
document_open_fn source_set_open;
document_open_fn changelist_current_open;
document_open_fn changelist_open;
document_open_fn archives_changelist_open;

#endif
