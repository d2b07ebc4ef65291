/*
 * document_inside.h - a document while it is read: shared by document.c, which
 * knows where an element may stand, and document_values.c, which knows what it
 * says. Only these two include it.
 */
#ifndef CLIENT_SOURCE_DOCUMENT_INSIDE_H
#define CLIENT_SOURCE_DOCUMENT_INSIDE_H

#include "base/gunzip.h"
#include "client/source/document.h"
#include "proto/entry.h"
#include "proto/xml.h"

/* A loc of 2,048 characters, in bytes, with white space around it. */
#define DOCUMENT_TEXT_MAX 16384

/*
 * Where the parser stands:
 *
 *   NOWHERE --> ROOT --> ENTRY --> TEXT    <loc> and the like: text alone
 *
 * and from anywhere into what is passed over, which `n_passed` counts.
 */
enum document_place { PLACE_NOWHERE, PLACE_ROOT, PLACE_ENTRY, PLACE_TEXT };

enum document_text { TEXT_LOC, TEXT_LASTMOD, TEXT_CHANGEFREQ, TEXT_PRIORITY };

struct document {
    struct document_events events;
    void *user;
    char *base;
    struct gunzip *gunzip;
    struct xml *xml;   /* NULL: it is a robots.txt */
    enum status rc;    /* what ended the reading */
    enum status fn_rc; /* what one of the functions returned */

    struct document_head head;
    xml_name ns; /* the root's */
    enum document_place place;
    unsigned n_passed;
    enum document_text text_of;
    struct buf text; /* of an element, or a line of a robots.txt */
    struct buf url;  /* one that is being resolved */

    /* The entry; `fill.links` and `links` tell of the same ones. */
    struct entry fill;
    struct document_entry entry;
    struct document_link links[CHANGE_LINKS_MAX];
};

/* document_new with another limit than DOCUMENT_UNPACKED_MAX, which takes tests
 * long to reach. */
struct document *document_new_within(uint64_t max_bytes, const char *base,
                                     const struct document_events *events,
                                     void *user);

/* What has not been told of any. */
void document_clear_entry(struct document *d);

/* Values that cannot be read are left out: nobody is told. */
void document_read_root(struct document *d, const struct xml_element *md);
void document_read_md(struct document *d, const struct xml_element *md);
void document_read_text(struct document *d);

/* A line of a robots.txt in `text`: true if it names a Sitemap, which is the
 * entry's loc then. */
bool document_read_line(struct document *d);

/* Adds a link to the entry; false: it leads nowhere. */
bool document_read_ln(struct document *d, const struct xml_element *ln);

static inline bool
document_is(xml_name text, const char *word)
{
    return text && slice_is(xml_slice(text), word);
}

#endif
