/*
 * build.h - a generation (generation.h) of a set's state that is being built, a
 * bounded step at a time: a Resource List or a Resource Dump.
 *
 * It stands for one position of the log: all entries up to it, none behind it.
 * It is told on the root of each document, as td:epoch and td:last beside `at`:
 * who has read it goes on there, and misses nothing.
 *
 *     begin --> step ... --> the last step: it is current
 *                  |            |
 *                  +-- failed --+--> nothing stays
 *
 * Between the steps nobody folds the set (folding_hold). Archive thread.
 */
#ifndef BROKER_ARCHIVE_BUILD_H
#define BROKER_ARCHIVE_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/generation.h"
#include "broker/sets/links.h"
#include "broker/sets/registry.h"
#include "broker/state/resources.h"
#include "proto/buf.h"
#include "proto/coverage.h"
#include "proto/document.h"
#include "proto/problem.h"
#include "proto/status.h"

struct build;

/* How one kind is built. */
struct build_rules {
    /* One step; sets *is_done after the last one, in which all of it is
     * written. */
    enum status (*step)(struct build *build, struct resources *resources,
                        bool *is_done, struct problem *why);
    /* Gives back what is the kind's own; NULL: there is nothing. */
    void (*end)(struct build *build);
};

/* What all kinds have: each is an allocated struct that begins with it. */
struct build {
    const struct build_rules *rules;
    struct set *set;
    struct generation_writer *writer;
    struct generation generation;
    struct coverage coverage;
    bool has_archive;
    int64_t id; /* the last resource that was written, and how many were */
    uint64_t n;
    struct buf text; /* written, and not yet handed over */
};

/* One step; sets *is_done when all of it is current. `resources` is the state
 * that it began with, perhaps opened again. After a failure, which leaves
 * nothing, and when it is done, there is no build any more. STATUS_STOPPED: the
 * log is ending. */
MUST_CHECK enum status build_step(struct build *build,
                                  struct resources *resources, bool *is_done,
                                  struct problem *why);

/* Leaves nothing. NULL is allowed. */
void build_abandon(struct build *build);

/* For those who know how */

/* Begins a generation of the set, whose state is whole (resources_at); `build`
 * is zeroed memory otherwise, and freed when it fails. STATUS_GONE: the set
 * was removed. */
MUST_CHECK enum status build_begin(struct build *build,
                                   const struct build_rules *rules,
                                   struct set *set, enum generation_kind kind,
                                   const struct resources_at *at,
                                   bool is_archived, struct problem *why);

/* The links of a document's root, `up` first: to the Capability List (R-082,
 * ); the others, to be added, begin at `n`. */
struct build_links {
    struct link_text up, index, archives;
    struct document_link links[3];
    size_t n;
};

void build_link_up(const struct build *build, struct build_links *links);
void build_link_index(const struct build *build, struct build_links *links);
void build_link_archives(const struct build *build, struct build_links *links);

/* The root of a document of it; `links` is lent as long as it is used. */
struct document_head build_head(const struct build *build,
                                enum document_root root,
                                enum capability capability,
                                const struct build_links *links);

/* Hands over what was written, if it is at least so much; 0: all.
 * STATUS_STOPPED: the log is ending. */
#define BUILD_PIECE_BYTES ((size_t)64 * 1024)
MUST_CHECK enum status build_flush(struct build *build, size_t least,
                                   struct problem *why);

#endif
