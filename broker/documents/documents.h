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
#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* How a document is to be told. Most are XML alone. */
enum document_form {
    DOCUMENT_XML,
    DOCUMENT_PLAIN, /* a Sitemap without anything of ResourceSync */
    DOCUMENT_HTML   /* a page for people */
};

/* What is asked for. */
struct document_wish {
    struct registry *registry;
    struct set *set;  /* NULL for documents of the whole Source */
    struct head head; /* the set's, at one moment: the document is of it */
    enum generation_kind kind; /* of what is built in generations */
    uint64_t number; /* of a Change List, generation, or set, or the first of
                        several */
    uint64_t last;   /* the last of several; the part of a generation */
    enum document_form form;
    uint64_t page; /* of DOCUMENT_HTML, from 1 on */
    enum log_patience patience;
};

#define DOCUMENT_COVERED_MAX 900

/* A document that was opened. Its bodies are read by their receiver, or closed
 * unread; until the first piece is asked for they cost next to nothing. */
struct document {
    struct body *body; /* as it is */
    struct body *gzip; /* as a gzip file; NULL: there is none */

    /* Two documents of one address with the same tag have the same bytes, in
     * whatever process they were made; it says nothing of `gzip`'s. */
    struct digest tag;

    /* A whole second by which it was what it will be for ever, and before which
     * every copy of an earlier state was made; DATETIME_NONE: not known, or it
     * still changes. (An event's time will not do: a source may name it, and a
     * list changes once more when it closes.) */
    int64_t modified_us;
    bool is_final;      /* it never changes again */
    bool may_be_packed; /* there is a gzip, or will be one day */

    /* Capability Lists that cover it, beside its own set's: a Link header's
     * value; "": none. */
    char covered_by[DOCUMENT_COVERED_MAX];
};

void document_close(struct document *document);

/* Opens a document, which is the caller's then. STATUS_AGAIN: ask again with
 * LOG_DISK; STATUS_NOT_FOUND. */
typedef enum status document_open_fn(const struct document_wish *wish,
                                     struct document *document,
                                     struct problem *why);

/* Appends links to the value of the Link header, ", " between them. */
typedef void document_links_fn(struct buf *to,
                               const struct document_wish *wish);

/* A document that a path names. */
struct document_found {
    document_open_fn *open;
    const char *content_type;
    document_links_fn *links; /* in front of those that all have; or NULL */
    bool has_forms;           /* it is to be had in each of them */
    bool has_set;
    struct slice set; /* as it stands in the path */
    enum generation_kind kind;
    uint64_t number, last;
};

/* Row `i` of the table, for who prints it: its path, with {set} and other names
 * for what differs, and its media type; has_forms: text/html, too. NULL: there
 * are not so many. */
const char *documents_row(size_t i, const char **content_type, bool *has_forms);

/* STATUS_NOT_FOUND: no document can be there. */
MUST_CHECK enum status documents_find(struct slice path,
                                      struct document_found *found);

/* The document whose bytes are in `text`, which is empty afterwards: its tag is
 * their digest. */
MUST_CHECK enum status document_of_text(struct document *document,
                                        struct buf *text, struct problem *why);

document_open_fn source_open;
document_open_fn source_part_open;
document_open_fn source_set_open;
document_open_fn changelist_current_open;
document_open_fn changelist_latest_open;
document_open_fn changelist_open;
document_open_fn archives_changelist_open;
document_open_fn archives_part_open;
document_open_fn resourcelist_current_open;
document_open_fn resourcelist_generation_open;
document_open_fn resourcelist_part_open;
document_open_fn dumps_current_open;
document_open_fn dumps_generation_open;
document_open_fn dumps_package_open;
document_open_fn dumps_manifest_open;
document_open_fn generations_open;
document_open_fn generations_part_open;
document_open_fn topics_changes_open;
document_open_fn topics_framework_open;
document_links_fn topics_changes_links;
document_links_fn topics_framework_links;
document_open_fn landing_open;
document_open_fn landing_robots_open;

#endif
