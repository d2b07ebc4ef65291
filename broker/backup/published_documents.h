/*
 * published_documents.h - documents as a Tidings broker has published them.
 *
 * Change Lists, proven by proto/input/list_proof.h: the header of a list
 * has all that the log knows of it: the set and the number (in its links), the
 * epoch, the interval of seqs and times, and the digests of the log before and
 * after it. So the lists of a set are its log.
 *
 * Resource Lists: a state of a set at one position, in one document, or in
 * parts with an index.
 *
 * All files may be plain or compressed.
 */
#pragma once

#include "broker/log/head.h"
#include "broker/state/resources.h"
#include "proto/input/list_proof.h"
#include "proto/resourcesync/position.h"

/* The largest document: the limit of a setting, and its frame. */
#define PUBLISHED_MAX ((size_t)64 << 20)

/* Reads up to `max` bytes of a file. */
MUST_CHECK enum status published_read(const char *path, size_t max,
                                      struct buf *text, struct problem *why);

/* Change Lists */

struct published_list {
    char set[SET_NAME_MAX + 1];
    char epoch[EPOCH_SIZE + 1];
    struct list_info info; /* until_us DATETIME_NONE: it was open */
};

/* Reads the header of a file. `info.bytes` is unknown.
 * *is_list false: it is no Change List of a Tidings broker. STATUS_DIFFERENT:
 * it has the name of one, and its header is damaged. */
MUST_CHECK enum status published_list_look(const char *path,
                                           struct published_list *list,
                                           bool *is_list, struct problem *why);

/* A whole list. Both slices lie in `text`. */
struct published_text {
    struct buf text;
    struct slice header, fragments;
};

/* Reads all of the file, sets info.bytes, and proves that it continues the
 * chain, which grows. STATUS_DIFFERENT: it does not, or is damaged; `why` names
 * the file. The caller frees text->text, also after a failure. */
MUST_CHECK enum status published_list_read(const char *path,
                                           struct published_list *list,
                                           struct list_chain *chain,
                                           struct published_text *text,
                                           struct problem *why);

/* Resource Lists */

enum published_role { PUBLISHED_WHOLE, PUBLISHED_PART, PUBLISHED_INDEX };

struct published_resources {
    char set[SET_NAME_MAX + 1];
    char epoch[EPOCH_SIZE + 1];
    uint64_t seq; /* the position that it stands for */
    int64_t us;   /* T(seq) */
    enum published_role role;
};

/* Reads the header of a file. *is_list false: it is no
 * Resource List of a Tidings broker. */
MUST_CHECK enum status
published_resources_look(const char *path, struct published_resources *list,
                         bool *is_list, struct problem *why);

/* Counts the parts that an index names. */
MUST_CHECK enum status published_resources_count(const char *path, uint64_t *n,
                                                 struct problem *why);

/* Adds all resources of a whole list, or of a part, to a new state.
 * STATUS_DIFFERENT: it is damaged; `why` names the file. */
MUST_CHECK enum status
published_resources_fill(const char *path,
                         const struct published_resources *list,
                         struct resources *resources, struct problem *why);
