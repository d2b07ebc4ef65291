/*
 * packing.h - one package of a dump, with its manifest: part n of a generation.
 *
 *     begin --> add ... --> close --> step ... --> done: both files are there
 *        |       |            |        |
 *        +-------+-- abandon -+--------+--> nothing but what the generation
 *                                           clears
 *
 * Each entry goes into the manifest at once, as long as the package has room.
 * Then the manifest and the content of the entries are copied into the package
 * (package.h). So manifest and package have the same entries,
 * each with its own member.
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

/* Begins package and manifest `part` of the build, whose writer must stay;
 * `head` is the head of the manifest. Until packing_close, the writer's
 * document is the manifest. */
MUST_CHECK enum status packing_begin(struct packing **packing, struct set *set,
                                     struct generation_writer *writer,
                                     uint64_t part,
                                     const struct document_head *head,
                                     struct problem *why);

/* Begins a plan only: packing_add returns what has room and writes nothing. Use
 * it to find the end of a package before the package begins. End it with
 * packing_free.
 */
MUST_CHECK enum status packing_plan(struct packing **packing, struct set *set,
                                    struct problem *why);

/* Sets another limit than --package-bytes, before the first entry. */
void packing_set_limit(struct packing *packing, uint64_t bytes);

/* Adds an entry (of a Resource List, or stamped) and its content; NULL: it has
 * none. *fits is false if it belongs to the next part. The first one
 * always has room (--package-bytes, R-026, R-027).
 */
MUST_CHECK enum status packing_add(struct packing *packing, struct slice entry,
                                   const struct content_bytes *bytes,
                                   bool *fits, struct problem *why);

/* Ends the entries: the manifest is whole. */
MUST_CHECK enum status packing_close(struct packing *packing,
                                     struct problem *why);

/* Copies some, about 4 MiB. *is_done: the package is whole, durable and counted
 * (generation_count), and *file describes it. STATUS_INVALID: content is
 * missing or damaged. */
MUST_CHECK enum status packing_step(struct packing *packing, bool *is_done,
                                    struct package_file *file,
                                    struct problem *why);

/* Ends or abandons the package, before the writer ends. NULL is allowed. */
void packing_free(struct packing *packing);

/* Appends the entry of a package in its dump's document (R-103 to,
 * `entry` has its time; this function sets loc, bytes and links. */
void packing_entry(struct buf *to, const struct set *set,
                   enum generation_kind kind, uint64_t generation,
                   uint64_t part, const struct package_file *file,
                   struct document_entry entry);

#endif
