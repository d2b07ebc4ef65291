/*
 * head.h - the head of a set's log: its end, its open Change List, and its
 * builds.
 *
 * The log thread divides the entries of a set into Change Lists, in the commit:
 * a list ends when it is full, or on demand. All readers see the list closed
 * from that commit on. A list's `until` is the event time of its last entry,
 * and the next one's `from`: so every published time is a function of a seq,
 * and closing needs no clock. An entry exactly at the boundary belongs to the
 * earlier list (I-01).
 *
 * A generation is a build derived from the log. The log keeps its position,
 * because a switch is a commit: from it on all readers see the new build, in
 * its place and, if wanted, in the archive. The log does not
 * know the files of a build.
 *
 *     built --ACT_GENERATION--> current --the next one--> former
 *                                 |                         |
 *                                 +-- archived or not,      +-- not archived:
 *                                     for as long as           due, a grace
 *                                     it is kept               later
 *
 * Numbers are of a kind and a set, increase, and are never given twice: a set
 * that was removed and is made again goes on behind those it had.
 *
 * In a cluster each broker builds each Resource List and Dump itself, from its
 * own state. So that all build the same bytes, a commit orders the list first:
 * it gives the number and the position. The state of each broker stops at that
 * position until the list is built. The first broker that has built it makes it
 * current.
 *
 *     ordered --ACT_GENERATION--> current
 *        +------the next order--> due: nobody could build it
 *
 * An epoch is the name under which readers know a log: (epoch, seq) is one
 * entry for ever, and a key signs the entries of an epoch as one growing tree.
 * A log that has lost its end (a restore, a copy that was rolled back, records
 * that a cluster gives up) would give other entries to the same numbers. So it
 * goes on under another epoch from its last entry on (ACT_EPOCH):
 *
 *     epoch A  1 ... N  N+1 ... M      M entries were known, N came back
 *     epoch B  1 ... N  N+1' ...       the same up to N, then others
 *
 * The name changes and nothing else does: numbers, times, digests, leaves of
 * the tree, lists and their numbers go on, so whatever is kept by seq (states,
 * content, builds, positions of subscriptions and bridges) stays right. These
 * know the log by its origin, the first epoch. Readers know it by `epoch`
 * alone: a position of A is gone, they take all resources anew, and B is not
 * served before N. The alternative, a set that ends and begins again, loses
 * its lists, content and subscriptions, and posts every resource once more.
 */
#pragma once

#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

/* What is built. Stored: append only. */
enum generation_kind {
    GENERATION_RESOURCELIST, /* the state at a position */
    GENERATION_RESOURCEDUMP, /* the same, with content */
    GENERATION_CHANGEDUMP,   /* changes of an interval, with content */
    GENERATION_KINDS
};

/* Those of the state come first. */
#define GENERATION_STATES 2

/* One build. */
struct generation {
    enum generation_kind kind;
    uint64_t number;      /* of its kind; 0: none was ever built */
    uint64_t after;       /* of changes: those behind it; else 0 */
    uint64_t seq;         /* the position that it stands for, or leads to */
    int64_t from_us;      /* of changes: where their interval begins; else 0 */
    int64_t at_us;        /* T(seq): R-086; of changes: their `until` */
    int64_t completed_us; /* the clock, when it was whole */
    uint64_t n;           /* resources, or changes */
    uint64_t parts;       /* of a list, 1: a list; more: an index and its lists;
                             of a dump: packages */
    uint64_t bytes;       /* of its files; 0 without parts: it is ordered
                             (generation_is_order) */
    bool is_archived;     /* it has its place in the archive */
};

/* True if it is an order, and nothing is built yet: `completed_us` is the time
 * of the order then. */
static inline bool
generation_is_order(const struct generation *g)
{
    return g->kind < GENERATION_STATES && g->parts == 0 && g->bytes == 0;
}

/* The generations of one kind of a set now: a part of its head. */
struct generations {
    struct generation current; /* number 0: there is none */
    struct generation ordered; /* in a cluster: likewise */
    uint64_t last;             /* the number given last; or what the first one
                                  follows */
    uint64_t n_archived;       /* the current one among them */
    uint64_t first_archived;   /* number of the oldest; 0: none is */
};

/* The number of the next one to be current: that of an order, if there is one.
 */
static inline uint64_t
generations_next(const struct generations *all)
{
    return all->ordered.number > 0 ? all->ordered.number : all->last + 1;
}

/* Archived generations of one kind, in order. */
struct generation_page {
    enum generation_kind kind;
    uint64_t from; /* the smallest number */
    struct generation *all;
    size_t n; /* how many `all` may hold; then how many it has */
};

/* One whose files may go. */
struct due_generation {
    uint64_t id;
    int64_t due_us;
    char name[SET_NAME_MAX + 1]; /* the set's */
    enum generation_kind kind;
    uint64_t number;
};

/* The end of a set's log, and its open list. */
struct head {
    bool exists;     /* false: the set has not begun, or was removed */
    bool is_removed; /* the rest is as it was at the end */
    char epoch[EPOCH_SIZE + 1];
    char origin[EPOCH_SIZE + 1]; /* its first epoch with entries: d(0) is the
                                    digest of that. Files of this broker know
                                    the log by it */
    char former[EPOCH_SIZE + 1]; /* the epoch before, if that
                                    had entries; "": none */
    uint64_t began;              /* the last entry of that: readers of this
                                    epoch begin there, or later; 0: none */

    /* Builds up to these numbers name an earlier epoch: no reader can go on
     * from their positions. */
    uint64_t former_builds[GENERATION_STATES];

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
    uint64_t filed;            /* the last list that this process has filed; 0:
                                  none */
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

/* A place between two entries of a Change List. */
struct list_place {
    uint64_t after; /* the seq before it */
    uint64_t at;    /* its offset in the fragments of the list */
};

/* The limits of a list, from the settings. */
struct list_limits {
    uint64_t entries;
    uint64_t bytes; /* largest header and the footer counted */
};

/* The head of a log without entries. */
void head_start(struct head *head, const char *epoch, int64_t created_us);

/* Goes on under another epoch, behind the last entry. The open list is empty:
 * the header of a list has one epoch. */
void head_change_epoch(struct head *head, const char *epoch,
                       const uint64_t former_builds[GENERATION_STATES]);

/* True if the current build of a state names an earlier epoch; or there is no
 * list, and the epoch has none of the first entries. */
static inline bool
head_lacks_build(const struct head *head, enum generation_kind kind)
{
    uint64_t number = head->generations[kind].current.number;

    return number > 0 ? number <= head->former_builds[kind]
                      : kind == GENERATION_RESOURCELIST && head->began > 0;
}

/* The earliest position of which the broker has what follows, for readers of
 * the epoch. */
static inline uint64_t
head_earliest(const struct head *head)
{
    return head->began > head->earliest ? head->began : head->earliest;
}

/* Numbers its lists, and its generations, from `number` on instead of 1. */
void head_number_lists(struct head *head, uint64_t number);

/* True if the open list must end before an entry of `size` bytes. */
bool head_must_end_list(const struct head *head,
                        const struct list_limits *limits, size_t size);

/* True if the open list is full by count. Then it ends now, not with the next
 * entry. */
bool head_list_is_full(const struct head *head,
                       const struct list_limits *limits);

bool head_list_is_empty(const struct head *head);

/* The open list as it stands. */
struct list_info head_open_list(const struct head *head);

/* The event time of the entry behind one of `last_us`: the source's own
 * (DATETIME_NONE: it has none) where it is later than every published time and
 * not after now, else the acceptance time; strictly increasing in any case,
 * also when the clock was set back. */
int64_t event_time(int64_t last_us, int64_t source_us, int64_t now_us);

/* Ends the open list, which is not empty, and begins the next. */
void head_end_list(struct head *head);
