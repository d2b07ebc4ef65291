/*
 * published_text.h - the text of a document that a Tidings broker has
 * published, and what its header says.
 */
#ifndef BROKER_BACKUP_PUBLISHED_TEXT_H
#define BROKER_BACKUP_PUBLISHED_TEXT_H

#include <stddef.h>

#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/resourcesync/document_write.h"
#include "proto/slice.h"
#include "proto/status.h"

/* The largest document: the limit of a setting, and its frame. */
#define PUBLISHED_MAX ((size_t)64 << 20)

/* The most that is read to find a header. */
#define PUBLISHED_HEADER_MAX (DOCUMENT_FRAME_MAX + 64)

/* Writes "PATH is damaged: REASON". Returns STATUS_DIFFERENT. */
enum status published_fail(const char *path, struct problem *why,
                           const char *reason);

/* Reads up to `max` bytes of a file, plain or compressed. */
MUST_CHECK enum status published_read(const char *path, size_t max,
                                      struct buf *text, struct problem *why);

/* The header: up to the first entry, or the end of the root; empty: none. */
struct slice published_header(struct slice text);

/* Reads all of a document into `text`, in which `header` and `entries` point.
 */
MUST_CHECK enum status published_cut(const char *path, enum document_root root,
                                     struct buf *text, struct slice *header,
                                     struct slice *entries,
                                     struct problem *why);

/* The first element that begins with `start`, up to its end; empty: none. */
struct slice published_element(struct slice header, const char *start);

/* The text between the last `before` and the next `after`; empty: none. */
struct slice published_between(struct slice text, const char *before,
                               const char *after);

#endif
