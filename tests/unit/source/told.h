/*
 * told.h - the contents of a document, in lines that tests compare.
 *
 *     index changelist from=2026-04-01T00:00:00Z
 *     link up http://example.com/capabilitylist.xml
 *     entry http://example.com/1.xml from=2026-04-01T00:00:00Z
 */
#ifndef TESTS_UNIT_SOURCE_TOLD_H
#define TESTS_UNIT_SOURCE_TOLD_H

#include "client/source/document.h"

struct told {
    struct buf text;
    struct document_head head;
    struct problem why;
};

/* Reads `document` in pieces of `step` bytes. The text is valid in any case,
 * and told_fini frees it. */
enum status told_read(struct told *told, const char *base,
                      struct slice document, size_t step);
void told_fini(struct told *told);

/* "... at=TIME": appends what is there of a time. */
void told_time(struct buf *to, const char *name, int64_t us);

/* One entry on one line, and each of its links on one. */
void told_entry(struct buf *to, const struct document_entry *entry);

#endif
