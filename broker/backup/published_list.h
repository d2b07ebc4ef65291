/*
 * published_list.h - a Change List as a Tidings broker has published it, proven
 * by proto/resourcesync/list_proof.h.
 *
 * The header of a list has all that the log knows of it: the set and the number
 * (in its links), the epoch, the interval of seqs and times, and the digests of
 * the log before and after it. So the lists of a set are its log.
 */
#ifndef BROKER_BACKUP_PUBLISHED_LIST_H
#define BROKER_BACKUP_PUBLISHED_LIST_H

#include <stdbool.h>

#include "broker/log/head.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/resourcesync/list_proof.h"
#include "proto/slice.h"
#include "proto/status.h"
#include "proto/uri.h"

struct published_list {
    char set[SET_NAME_MAX + 1];
    char epoch[EPOCH_SIZE + 1];
    struct list_info info; /* until_us DATETIME_NONE: it was open */
};

/* Reads the header of a file, plain or compressed. `info.bytes` is unknown.
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

#endif
