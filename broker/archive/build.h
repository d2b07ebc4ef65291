/*
 * build.h - a generation (generation.h) of a set's state that is being built, a
 * bounded step at a time: a Resource List or a Resource Dump.
 *
 * A generation stands for one position of the log: all entries up to it, none
 * behind it. The root of each document carries that position as td:epoch and
 * td:last beside `at`. A destination that has read the document continues there
 * and misses nothing.
 *
 *     begin --> step ... --> the last step: it is current
 *                  |            |
 *                  +-- failed --+--> nothing stays
 *
 * Between the steps nobody folds the set (state_fold_hold). Archive thread.
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
#include "proto/document_write.h"
#include "proto/position.h"
#include "proto/problem.h"
#include "proto/status.h"

struct build;

/* How one kind is built. */
struct build_rules {
    /* One step; sets *is_done after the last one. */
    enum status (*step)(struct build *build, struct resources *resources,
                        bool *is_done, struct problem *why);
    /* Frees the members of the kind; NULL: it has none to free. */
    void (*end)(struct build *build);
};

/* The base of all kinds: each kind is an allocated struct that begins with
 * it. */
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

/* One step; sets *is_done when the generation is current. `resources` is the
 * state that the build began with, perhaps opened again. The build is freed
 * when it is done and after a failure, which leaves nothing on the disk.
 * STATUS_STOPPED: the log is ending. */
MUST_CHECK enum status build_step(struct build *build,
                                  struct resources *resources, bool *is_done,
                                  struct problem *why);

/* Leaves nothing. NULL is allowed. */
void build_abandon(struct build *build);

/* For the kinds */

/* Begins a generation of the set. Its state must be whole (resources_at).
 * `build` is zeroed memory; a failure frees it. STATUS_GONE: the set was
 * removed. */
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

/* The root of a document of the generation; `links` is lent as long as the head
 * is used. */
struct document_head build_head(const struct build *build,
                                enum document_root root,
                                enum capability capability,
                                const struct build_links *links);

/* Hands the text over if it has at least `least` bytes; 0: all of it.
 * STATUS_STOPPED: the log is ending. */
#define BUILD_PIECE_BYTES ((size_t)64 * 1024)
MUST_CHECK enum status build_flush(struct build *build, size_t least,
                                   struct problem *why);

#endif
