/*
 * documents.h - path -> document: one row each, in documents.c.
 */
#pragma once

#include "broker/documents/document.h"

/* A path's document. The members above `end` are the row's own. */
struct document_found {
    const char *path; /* "/sets/{set}/capabilitylist.xml" */
    document_open_fn *open;
    const char *content_type; /* in a row NULL: application/xml, and a page */
    enum link_kind topic;     /* of a channel of the set, always XML:
                                 notifications_links; 0: none */
    bool is_quick;   /* it may be opened on a service thread: needs neither
                       a disk nor a long time, but for some of the
                       lists */
    bool has_plain;  /* it has a plain form */
    uint32_t effort; /* units that it may cost (effort.h); 0: little */
    enum generation_kind kind;
    enum memento_form memento;   /* for timemap_open */
    bool is_public;              /* needs no right */
    const struct web_file *file; /* for web_file_open, quick and public; or
                                    NULL */
    const char *end; /* of the path of a part, behind its number; NULL: it is
                        no part */
    bool has_page;   /* it has a page for people */
    bool is_range;   /* `number` to `last`; else part `last` of `number` */
    bool has_set;
    struct slice set;   /* as in the path */
    struct slice epoch; /* likewise; empty: the present one, whichever it is */
    struct slice rest;  /* likewise: the part behind its name; without a set,
                          the last part */
    uint64_t number, last;
};

/* Returns row `i` of the table, for printing: its path, with {set} and other
 * placeholders, and of `found`, which may be NULL, the media type, has_page
 * (text/html, too), is_public and has_set. NULL: there are fewer rows. */
const char *documents_row(size_t i, struct document_found *found);

/* Finds the document of a path. STATUS_NOT_FOUND: no document can have it. */
MUST_CHECK enum status documents_find(struct slice path,
                                      struct document_found *found);

/* Opens the document in the form of the wish, as document_open_fn. */
MUST_CHECK enum status documents_open(const struct document_found *found,
                                      const struct document_wish *wish,
                                      struct document *document,
                                      struct problem *why);

/* Calls `fn` with each capability that the set has at `head`, and its address,
 * in the order of the Capability List. */
typedef void capability_fn(void *user, enum capability capability,
                           struct link_text loc);
void capabilitylist_each(struct set *set, const struct head *head,
                         capability_fn *fn, void *user);

document_open_fn source_description_open, source_description_part_open,
    capabilitylist_open, changelist_current_open, changelist_latest_open,
    changelist_open, changelist_archive_open, changelist_archive_part_open,
    resourcelist_current_open, resourcelist_generation_open, dumps_current_open,
    dumps_generation_open, dumps_package_open, generation_archive_open,
    generation_archive_part_open, notifications_open, landing_open, robots_open,
    web_file_open, content_open, timemap_open, manual_open, manual_address_open,
    checkpoint_open, tile_open, proof_open;

/* Appends the links of a topic's document to the value of the Link header, ", "
 * between them. */
void notifications_links(struct buf *to, const struct document_wish *wish);

/* Opens a page of the resources as they were at `wish->at_us`: a part of the
 * last Resource List before, without those that changes behind it concern; the
 * last page has these, too. Without a list the log alone is read. `number` is
 * that of the list, as the link to the page says; 0: any. STATUS_GONE: the
 * state is not known, or the list no longer kept; STATUS_TOO_LARGE: more than
 * --max-body of changes; STATUS_LIMITED, STATUS_BUSY. */
document_open_fn past_resources_open;
