/*
 * lists.h - divides the entries of a set into Change Lists.
 *
 * The log thread decides where a list ends, in the commit: when it is full, or
 * on demand. All readers see the list closed from that commit on. A list's
 * `until` is the event time of its last entry, and the next one's `from`: so
 * every published time is a function of a seq, and closing needs no clock. An
 * entry exactly at the boundary belongs to the earlier list (I-01).
 */
#ifndef BROKER_LOG_LISTS_H
#define BROKER_LOG_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/log/generations.h"
#include "proto/buf.h"
#include "proto/digest.h"
#include "proto/position.h"

/* The end of a set's log, and its open list. */
struct head {
    bool exists;     /* false: the set has not begun, or was removed */
    bool is_removed; /* the rest is as it was at the end */
    char epoch[EPOCH_SIZE + 1];
    int64_t created_us;        /* T(0) */
    int64_t changed_us;        /* when its settings changed; 0: never */
    uint64_t last;             /* seq of the last entry; 0: none */
    uint64_t commit_after;     /* seq before the first entry of the last commit
                                  that had some. Earlier versions did not keep
                                  it: then before its last batch, or last - 1
                                  where that has gone to a file */
    int64_t last_us;           /* T(last) */
    struct digest digest;      /* d(last) */
    uint64_t list;             /* number of the open list */
    uint64_t start_list;       /* its first: 1, or the next after those of a
                                  removed set of this name */
    uint64_t first_list;       /* the oldest that is retained */
    uint64_t earliest;         /* seq before its first entry: the broker answers
                                  "gone" to readers before it */
    uint64_t list_after;       /* seq before its first entry */
    int64_t list_from_us;      /* T(list_after) */
    struct digest list_before; /* d(list_after) */
    uint64_t list_bytes;       /* its fragments */
    int64_t list_first_us;     /* when its first entry was accepted */
    uint64_t file_bytes;       /* of all files of closed lists */
    struct generations generations[GENERATION_KINDS];
};

/* A Change List. All members of a closed one are final. */
struct list_info {
    uint64_t number;
    uint64_t after, last; /* the entries after `after` up to `last` */
    int64_t from_us;
    int64_t until_us;     /* DATETIME_NONE: open */
    uint64_t bytes;       /* fragments, without header and footer */
    struct digest before; /* d(after) */
    struct digest digest; /* d(last) */
    bool is_filed;        /* its file is on disk */
};

/* The limits of a list, from the settings. */
struct list_limits {
    uint64_t entries;
    uint64_t bytes; /* largest header and the footer counted */
};

/* The head of a log without entries. */
void lists_start(struct head *head, const char *epoch, int64_t created_us);

/* Numbers its lists, and its generations, from `number` on instead of 1. */
void lists_number(struct head *head, uint64_t number);

/* True if the open list must end before an entry of `size` bytes. */
bool lists_must_end(const struct head *head, const struct list_limits *limits,
                    size_t size);

/* True if the open list is full by count. Then it ends now, not with the next
 * entry. */
bool lists_is_full(const struct head *head, const struct list_limits *limits);

bool lists_is_empty(const struct head *head);

/* The open list as it stands. */
struct list_info lists_open(const struct head *head);

/* Ends the open list, which is not empty: describes it and begins the next. */
struct list_info lists_end(struct head *head);

#endif
