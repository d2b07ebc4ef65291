/*
 * scanned.h - a document read with the scanner of XML
 * (proto/resourcesync/xml_scan.h) and by libxml2 alone: both say the same.
 */
#ifndef TESTS_FUZZ_SCANNED_H
#define TESTS_FUZZ_SCANNED_H

#include "proto/buf.h"
#include "tests/fuzz/fuzz.h"

/* What a reading of a document said. */
struct said {
    enum status rc;
    struct problem why;
    uint64_t line;
    struct buf text;
};

/* How a document is read. */
struct reading_way {
    const char *type;
    enum input_use use;
    bool takes_message;
    bool ignores_unknown;
    bool reports_faults; /* they become part of the text */
};

/* Reads the document `step` bytes at a time. The text describes the entries. */
struct said said_of(const struct reading_way *way, struct slice document,
                    size_t step, bool is_scanning);

/* How much two readings have in common. */
enum sameness {
    SAME_OUTCOME, /* accepted: the same text; or both refused */
    SAME_REASON,  /* also the reason and its place; the library may have refused
                     before it said all */
    SAME_TEXT     /* all */
};

/* Asserts it, and frees both. */
void said_are_same(struct said scanned, struct said plain,
                   enum sameness sameness);

#endif
