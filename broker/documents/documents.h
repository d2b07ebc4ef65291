/*
 * documents.h - path -> document: one row each, in documents.c.
 */
#ifndef BROKER_DOCUMENTS_DOCUMENTS_H
#define BROKER_DOCUMENTS_DOCUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/log/log.h"
#include "broker/net/body.h"
#include "broker/sets/registry.h"
#include "proto/buf.h"
#include "proto/digest.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* The form of a document. Most have only XML. */
enum document_form {
    DOCUMENT_XML,
    DOCUMENT_PLAIN, /* a Sitemap without ResourceSync's elements */
    DOCUMENT_HTML   /* a page for people */
};

/* A request for a document. */
struct document_wish {
    struct registry *registry;
    struct set *set;  /* NULL for documents of the whole Source */
    struct head head; /* the set's head at one moment: the document is of that
                         moment */
    enum generation_kind kind; /* for documents that are built in generations */
    uint64_t number; /* of a Change List, generation or set; or the first of
                        several */
    uint64_t last;   /* the last of several; the part of a generation */
    enum document_form form;
    uint64_t page; /* of DOCUMENT_HTML, from 1 on */
    enum log_patience patience;
};

#define DOCUMENT_COVERED_MAX 900

/* A document that was opened. Its receiver reads its bodies, or closes them
 * unread. They cost next to nothing before the first piece is requested. */
struct document {
    struct body *body; /* uncompressed */
    struct body *gzip; /* compressed; NULL: none */

    /* Two documents of one address with the same tag have the same bytes,
     * whichever process made them. The tag says nothing about the bytes of
     * `gzip`. */
    struct digest tag;

    /* A whole second since which the document is final; every copy of an
     * earlier state is older. DATETIME_NONE: not known, or it still changes.
     * (The time of an event does not serve: a source may set it, and a list
     * changes once more when it closes.) */
    int64_t modified_us;
    bool is_final;      /* it never changes again */
    bool may_be_packed; /* it has a gzip, or will have one */

    /* Other Capability Lists that cover it, beside its own set's: the value of
     * a Link header; "": none. */
    char covered_by[DOCUMENT_COVERED_MAX];
};

void document_close(struct document *document);

/* Opens a document, which the caller then owns. STATUS_AGAIN: call again with
 * LOG_DISK; STATUS_NOT_FOUND. */
typedef enum status document_open_fn(const struct document_wish *wish,
                                     struct document *document,
                                     struct problem *why);

/* Appends links to the value of the Link header, ", " between them. */
typedef void document_links_fn(struct buf *to,
                               const struct document_wish *wish);

/* A path's document. */
struct document_found {
    document_open_fn *open;
    const char *content_type;
    document_links_fn *links; /* links before those that all documents have; or
                                 NULL */
    bool has_forms;           /* it has each of the forms */
    bool has_set;
    struct slice set; /* as in the path */
    enum generation_kind kind;
    uint64_t number, last;
};

/* Returns row `i` of the table, for printing: its path, with {set} and other
 * placeholders, and its media type; has_forms: text/html, too. NULL: there are
 * fewer rows. */
const char *documents_row(size_t i, const char **content_type, bool *has_forms);

/* Finds the document of a path. STATUS_NOT_FOUND: no document can have it. */
MUST_CHECK enum status documents_find(struct slice path,
                                      struct document_found *found);

/* Makes a document of the bytes in `text`, and empties it. Its tag is their
 * digest. */
MUST_CHECK enum status document_of_text(struct document *document,
                                        struct buf *text, struct problem *why);

document_open_fn source_description_open;
document_open_fn source_description_part_open;
document_open_fn capabilitylist_open;
document_open_fn changelist_current_open;
document_open_fn changelist_latest_open;
document_open_fn changelist_open;
document_open_fn changelist_archive_open;
document_open_fn changelist_archive_part_open;
document_open_fn resourcelist_current_open;
document_open_fn resourcelist_generation_open;
document_open_fn resourcelist_part_open;
document_open_fn dumps_current_open;
document_open_fn dumps_generation_open;
document_open_fn dumps_package_open;
document_open_fn dumps_manifest_open;
document_open_fn generation_archive_open;
document_open_fn generation_archive_part_open;
document_open_fn notifications_changes_open;
document_open_fn notifications_framework_open;
document_links_fn notifications_changes_links;
document_links_fn notifications_framework_links;
document_open_fn landing_open;
document_open_fn robots_open;

#endif
