/*
 * terms.h - everything that an entry can say, as a table: Z39.99-2017 sections
 * 7 and 14, foreign attributes, tags.
 *
 * Each row is posted in every format, and read back in every form:
 * unit/proto/roundtrip, e2e/roundtrip.
 */
#ifndef TESTS_SUPPORT_TERMS_H
#define TESTS_SUPPORT_TERMS_H

#include <stddef.h>

#include "proto/buf.h"

/* An entry of loc http://example.com/term/NUMBER. */
struct term {
    const char *change; /* NULL: "updated" */

    /* In XML: the text before rs:md, its attributes, and the text behind it.
     * The prefixes are those of terms_xml_head. */
    const char *before;
    const char *md;
    const char *after;

    /* In JSON: members, each with a comma before it. */
    const char *json;

    /* As describe() writes it, behind the loc. */
    const char *told;
};

extern const struct term terms[];
extern const size_t n_terms;

/* The entry of terms[i]. */
void terms_json(struct buf *to, size_t i);
void terms_told(struct buf *to, size_t i);

/* All of them, as the body of a post. */
void terms_xml_document(struct buf *to);
void terms_json_document(struct buf *to);
void terms_ndjson_document(struct buf *to);

/* All of them, described. */
void terms_told_all(struct buf *to);

#endif
