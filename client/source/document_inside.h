/*
 * document_inside.h - a document while it is read: shared by document.c, which
 * knows the places of elements, and document_values.c, which reads their
 * values. Only these two include it.
 */
#ifndef CLIENT_SOURCE_DOCUMENT_INSIDE_H
#define CLIENT_SOURCE_DOCUMENT_INSIDE_H

#include "base/gunzip.h"
#include "client/source/document.h"
#include "proto/entry_builder.h"
#include "proto/xml.h"

/* A loc of 2,048 characters, in bytes, with white space around it. */
#define DOCUMENT_TEXT_MAX 16384

/*
 * The place of the parser:
 *
 *   NOWHERE --> ROOT --> ENTRY --> TEXT    <loc> and the like: text alone
 *
 * and from any place into ignored elements, whose depth is `n_passed`.
 */
enum document_place { PLACE_NOWHERE, PLACE_ROOT, PLACE_ENTRY, PLACE_TEXT };

enum document_text { TEXT_LOC, TEXT_LASTMOD, TEXT_CHANGEFREQ, TEXT_PRIORITY };

struct document {
    struct document_events events;
    void *user;
    char *base;
    struct gunzip *gunzip;
    struct xml *xml;   /* NULL: it is a robots.txt */
    enum status rc;    /* the failure that ended the reading */
    enum status fn_rc; /* the failure of a callback */

    struct document_head head;
    xml_name ns; /* the root's */
    enum document_place place;
    unsigned n_passed;
    enum document_text text_of;
    struct buf text; /* of an element, or a line of a robots.txt */
    struct buf url;  /* the URL being resolved */

    /* The entry; `fill.links` and `links` are the same links. */
    struct entry fill;
    struct document_entry entry;
    struct document_link links[CHANGE_LINKS_MAX];
};

/* document_new with a lower limit than DOCUMENT_UNPACKED_MAX, for tests. */
struct document *document_new_within(uint64_t max_bytes, const char *base,
                                     const struct document_events *events,
                                     void *user);

/* Makes the entry empty. */
void document_clear_entry(struct document *d);

/* Read the values of an element; ignore invalid ones. */
void document_read_root(struct document *d, const struct xml_element *md);
void document_read_md(struct document *d, const struct xml_element *md);
void document_read_text(struct document *d);

/* Reads a line of a robots.txt in `text`. True if it names a Sitemap, which
 * becomes the entry's loc. */
bool document_read_line(struct document *d);

/* Adds a link to the entry. False: it has no rel or no valid URL. */
bool document_read_ln(struct document *d, const struct xml_element *ln);

static inline bool
document_is(xml_name text, const char *word)
{
    return text && slice_is(xml_slice(text), word);
}

#endif
