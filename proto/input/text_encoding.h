/*
 * text_encoding.h - the bytes of a document of others as UTF-8.
 *
 *     bytes --> [white space, NULs, mark left out] --> [iconv] --> on_text
 *
 * A byte order mark names the encoding, or the zeros of UTF-16, or the XML
 * declaration, which is left out with an encoding other than UTF-8: the
 * XML reader would decode once more. ISO 8859-1 and ASCII are read as
 * Windows-1252, as browsers do. A byte that the encoding does not have becomes
 * U+FFFD.
 */
#pragma once

#include "proto/problem.h"

struct text_encoding;

/* Receives text, never empty, lent. A status other than 0 ends the reading. */
typedef enum status text_encoding_fn(struct slice text, void *user,
                                     struct problem *why);

/* NULL: no memory. */
struct text_encoding *text_encoding_new(text_encoding_fn *on_text, void *user);
void text_encoding_free(struct text_encoding *e); /* NULL is allowed */

/* STATUS_MALFORMED: nobody here reads that encoding; STATUS_MEMORY; or the
 * status of on_text. */
MUST_CHECK enum status text_encoding_feed(struct text_encoding *e,
                                          struct slice bytes,
                                          struct problem *why);
MUST_CHECK enum status text_encoding_end(struct text_encoding *e,
                                         struct problem *why);

#define TEXT_ENCODING_NAME_SIZE 32

struct text_encoding_found {
    char name[TEXT_ENCODING_NAME_SIZE]; /* if it is not UTF-8; else "" */
    uint64_t n_lines;                   /* left out at the beginning */
    bool is_behind_space; /* anything stood before an XML declaration */
};

/* Lent; filled while the document is read. */
const struct text_encoding_found *
text_encoding_found(const struct text_encoding *e);
