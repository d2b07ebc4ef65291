/*
 * list_report.h - what the reader of other people's lists mended, and what it
 * left out: counted by kind, with the first example of each.
 *
 *     a value that is clear, but not as the standards want it    mended
 *     a row that cannot be used                                  left out
 *
 * the counts reach a person.
 */
#pragma once

#include "proto/buf.h"

enum list_fault {
    /* mended */
    LIST_WHITE_SPACE, /* before the declaration */
    LIST_ENCODING,    /* UTF-16, ISO 8859-1 */
    LIST_NAMESPACE,
    LIST_URL, /* relative, an IRI, with blanks */
    LIST_TIME,
    LIST_WORD, /* changefreq, priority, change */
    LIST_ATTRIBUTE,
    /* left out */
    LIST_NO_LOC,
    LIST_BAD_LOC, /* no host, too long, not of http or https */
    LIST_STRAY,   /* a url in an index, a sitemap in a list */
    LIST_BAD_CHANGE,
    LIST_UNKNOWN,   /* in an element that no standard names */
    LIST_PART_GONE, /* a closed list that an index names */
    N_LIST_FAULTS
};

#define LIST_EXAMPLE_MAX 200

struct list_example {
    char text[LIST_EXAMPLE_MAX + 1];
    uint64_t line; /* of the document; 0: unknown */
};

/* All zero: nothing. */
struct list_report {
    uint64_t n[N_LIST_FAULTS];
    struct list_example first[N_LIST_FAULTS];
};

/* Counts one. `text`: the value or row, cut to LIST_EXAMPLE_MAX bytes. */
void list_report_count(struct list_report *report, enum list_fault fault,
                       struct slice text, uint64_t line);

/* Adds the counts of `from`, and its examples where `to` has none. */
void list_report_add(struct list_report *to, const struct list_report *from);

enum list_part { LIST_MENDED, LIST_LEFT_OUT };

/* How many values were mended, or rows left out. */
uint64_t list_report_n(const struct list_report *report, enum list_part part);

/* Appends a sentence part for a person: "2 times (\"November 2\", line 4), 1
 * namespace". Nothing if there is none. */
void list_report_write(struct buf *to, const struct list_report *report,
                       enum list_part part);
