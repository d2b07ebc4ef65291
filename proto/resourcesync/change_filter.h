/*
 * change_filter.h - chooses the entries that a reader gets: change= prefix=
 * type= tag=, and whether with their data: data=no.
 *
 *   change=deleted&prefix=http://example.com/a/&prefix=http://example.com/b/
 *
 * Repeated values of one name are alternatives; different names must all hold.
 * An entry passes
 *
 *   change   if it is "created", "updated" or "deleted", as one of the values;
 *   prefix   if its loc begins with one of them, byte by byte;
 *   type     if the media type of its rs:md, without parameters and whatever
 *            the case, is one of them: "image/png"; with a star as its
 *            subtype all of "image", with two all that have a type;
 *   tag      if it has one of them;
 *   data     always: "no" leaves out td:data of all entries.
 *
 * A filter is normalised: values are sorted, a value that another one includes
 * is dropped, types are in lower case. So filters of the same words that choose
 * the same entries are equal, and have one text. An empty one passes all.
 *
 * Matching looks at a stamped fragment as it stands (fragment.h): values are
 * escaped once, when the filter is read, as the fragments are. It allocates
 * nothing.
 */
#pragma once

#include "proto/problem.h"

/* Most values of one name. */
#define FILTER_VALUES_MAX 32

/* Longest text of a filter: it stands in the URL of a page's `next`, which has
 * to fit in a request line of clients that take 2,048 bytes. */
#define FILTER_TEXT_MAX 1024

/* A value: where it stands in `raw`, and in `escaped` as in a fragment. */
struct filter_value {
    uint16_t at, size;
    uint16_t escaped_at, escaped_size;
};

enum filter_name {
    FILTER_CHANGE,
    FILTER_PREFIX,
    FILTER_TYPE,
    FILTER_TAG,
    FILTER_DATA,
    FILTER_NAMES /* how many there are */
};

/* May be copied as it is. Zero is the empty filter. */
struct filter {
    uint16_t text_size; /* 0: passes everything */
    uint16_t raw_size;
    uint16_t encoded_size; /* of all values */
    uint8_t n[FILTER_NAMES];
    struct filter_value values[FILTER_NAMES][FILTER_VALUES_MAX];
    char text[FILTER_TEXT_MAX];
    char raw[FILTER_TEXT_MAX];
    char escaped[2 * FILTER_TEXT_MAX]; /* "%22" in a text is "&quot;" here */
};

/* True if there are filters of that name. */
bool filter_is_name(struct slice name);

/* Adds a value, not encoded. STATUS_MALFORMED with a sentence that begins with
 * the name: unknown, not such a value, too many, too long. filter_seal after
 * the last one. */
MUST_CHECK enum status filter_add(struct filter *f, struct slice name,
                                  struct slice value, struct problem *why);

/* Normalises what was added, and makes the text. STATUS_MEMORY. */
MUST_CHECK enum status filter_seal(struct filter *f, struct problem *why);

/* Reads the filters of a query, "after=7&tag=a%20b"; other parameters are
 * passed over. Where a server has made a space of "+", as forms do, it is one
 * again: no loc, type or tag has a space. Begins with the empty filter, seals.
 */
MUST_CHECK enum status filter_read(struct filter *f, struct slice query,
                                   struct problem *why);

/* The parameter `name` of a query, decoded into `to`, which has room for
 * query.size bytes: the first of that name, spaces as above. *is_there: whether
 * there is one. STATUS_MALFORMED: its escapes. For values without spaces, such
 * as times. */
MUST_CHECK enum status filter_parameter(struct slice query, const char *name,
                                        char *to, struct slice *value,
                                        bool *is_there, struct problem *why);

/* The one text of a sealed filter, percent-encoded for a query, names in the
 * order above. */
static inline struct slice
filter_text(const struct filter *f)
{
    return (struct slice){f->text, f->text_size};
}

/* True if the reader gets the entries without their data. */
static inline bool
filter_drops_data(const struct filter *f)
{
    return f->n[FILTER_DATA] > 0;
}

/* Does the entry pass? `fragment` is stamped, its stamp begins at `stamp`. */
bool filter_passes(const struct filter *f, struct slice fragment,
                   uint32_t stamp);
