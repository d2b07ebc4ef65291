/*
 * dump_package.h - one package of a dump, with its manifest: part n of a
 * generation.
 *
 *     begin --> add ... --> close --> step ... --> done: both files are there
 *        |       |            |        |
 *        +-------+-- abandon -+--------+--> nothing but what the generation
 *                                           clears
 *
 * Each entry goes into the manifest at once, as long as the package has room.
 * Then the manifest and the content of the entries are copied into the package
 * (zip_writer.h). So manifest and package have the same entries,
 * each with its own member.
 *
 * Archive thread.
 */
#pragma once

#include "broker/builds/generation.h"
#include "broker/builds/zip_writer.h"
#include "broker/sets/registry.h"
#include "broker/state/content.h"
#include "proto/resourcesync/document_write.h"

struct dump_package;

/* Begins package and manifest `part` of the build, whose writer must stay. The
 * package has at most `limit` bytes;
 * `head` is the head of the manifest. Until dump_package_close, the writer's
 * document is the manifest. */
MUST_CHECK enum status dump_package_begin(struct dump_package **packing,
                                          struct generation_writer *writer,
                                          uint64_t part, uint64_t limit,
                                          const struct document_head *head,
                                          struct problem *why);

/* Begins a plan only: dump_package_add returns what has room and writes
 * nothing. Use it to find the end of a package before the package begins. End
 * it with dump_package_free.
 */
struct dump_package *dump_package_plan(uint64_t limit);

/* Adds an entry (of a Resource List, or stamped) and its content; NULL: it has
 * none. *fits is false if it belongs to the next part. The first one
 * always has room (--package-bytes, R-026, R-027).
 */
MUST_CHECK enum status dump_package_add(struct dump_package *packing,
                                        struct slice entry,
                                        const struct content_bytes *bytes,
                                        bool *fits, struct problem *why);

/* Ends the entries: the manifest is whole. */
MUST_CHECK enum status dump_package_close(struct dump_package *packing,
                                          struct problem *why);

/* Copies some of the package, about 4 MiB. *is_done: the file is whole, durable
 * and counted in the generation. STATUS_INVALID: content is missing or
 * damaged. */
MUST_CHECK enum status dump_package_step(struct dump_package *packing,
                                         bool *is_done,
                                         struct zip_writer_file *file,
                                         struct problem *why);

/* Ends or abandons the package, before the writer ends. NULL is allowed. */
void dump_package_free(struct dump_package *packing);
