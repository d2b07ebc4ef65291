/*
 * generations.h - builds derived from a set's log: their positions, the current
 * one and the archived ones.
 *
 * The log keeps them, for a switch is a commit: from it on all readers see the
 * new build, in its place and, if wanted, in the archive. The
 * log does not know the files of a build.
 *
 *     built --POST_GENERATION--> current --the next one--> former
 *                                  |                         |
 *                                  +-- archived or not,      +-- not archived:
 *                                      for as long as           due, a grace
 *                                      it is kept               later
 *
 * Numbers are of a kind and a set, increase, and are never given twice: a set
 * that was removed and is made again goes on behind those it had.
 */
#ifndef BROKER_LOG_GENERATIONS_H
#define BROKER_LOG_GENERATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/uri.h"

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
    uint64_t bytes;       /* of its files */
    bool is_archived;     /* it has its place in the archive */
};

/* The generations of one kind of a set now: a part of its head. */
struct generations {
    struct generation current; /* number 0: there is none */
    uint64_t last;             /* the number given last; or what the first one
                                  follows */
    uint64_t n_archived;       /* the current one among them */
    uint64_t first_archived;   /* number of the oldest; 0: none is */
};

/* One whose files may go. */
struct due_generation {
    uint64_t id;
    int64_t due_us;
    char name[SET_NAME_MAX + 1]; /* the set's */
    enum generation_kind kind;
    uint64_t number;
};

#endif
