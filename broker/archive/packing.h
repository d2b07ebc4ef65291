/*
 * packing.h - one package of a dump, with its manifest: part n of a generation.
 *
 *     begin --> add ... --> close --> step ... --> done: both files are there
 *        |       |            |        |
 *        +-------+-- abandon -+--------+--> nothing but what the generation
 *                                           clears
 *
 * Entries go in, and into the manifest at once, as long as there is room; then
 * the manifest, and the content that the entries tell of, is copied into the
 * package (package.h). So manifest and package have the same entries (R-107,
 * R-185), each of its own member.
 *
 * Archive thread.
 */
#ifndef BROKER_ARCHIVE_PACKING_H
#define BROKER_ARCHIVE_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/generation.h"
#include "broker/archive/package.h"
#include "broker/sets/registry.h"
#include "broker/state/content.h"
#include "proto/document.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

struct packing;

/* Begins package and manifest `part` of the build, whose writer must stay; a
 * manifest has that head. Until packing_close, the writer's document is the
 * manifest. */
MUST_CHECK enum status packing_begin(struct packing **packing, struct set *set,
                                     struct generation_writer *writer,
                                     uint64_t part,
                                     const struct document_head *head,
                                     struct problem *why);

/* Begins the plan of one: packing_add says what has room, nothing is written.
 * For who has to know where a package ends before it begins. Then packing_free.
 */
MUST_CHECK enum status packing_plan(struct packing **packing, struct set *set,
                                    struct problem *why);

/* Another limit than --package-bytes, before the first entry. */
void packing_set_limit(struct packing *packing, uint64_t bytes);

/* Adds an entry (of a Resource List, or stamped) and the bytes that it tells
 * of; NULL: it tells of none. *fits: there was room; else it belongs to
 * the next part. The first one always has room (--package-bytes, R-026, R-027).
 */
MUST_CHECK enum status packing_add(struct packing *packing, struct slice entry,
                                   const struct content_bytes *bytes,
                                   bool *fits, struct problem *why);

/* There are no more entries: the manifest is whole. */
MUST_CHECK enum status packing_close(struct packing *packing,
                                     struct problem *why);

/* Copies some, about 4 MiB. *is_done: the package is whole, durable and counted
 * (generation_count): *file is what it is. STATUS_INVALID: content is not
 * there, or damaged. */
MUST_CHECK enum status packing_step(struct packing *packing, bool *is_done,
                                    struct package_file *file,
                                    struct problem *why);

/* At the end, or before it: before the writer ends. NULL is allowed. */
void packing_free(struct packing *packing);

/* Appends the entry of a package in its dump's document (R-103 to,
 * of which time `entry` says; its loc, bytes and links are set here. */
void packing_entry(struct buf *to, const struct set *set,
                   enum generation_kind kind, uint64_t generation,
                   uint64_t part, const struct package_file *file,
                   struct document_entry entry);

#endif
