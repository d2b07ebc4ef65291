/*
 * built.h - documents, and packages, that the archive thread built: files of a
 * generation (generation.h).
 *
 * What is served is what stands there, so nobody ever sees parts of two
 * generations under one index, and what is kept keeps its bytes (R-188,
 * Of which kind they are, `wish->kind` says.
 *
 * Workers: all of these may block.
 */
#ifndef BROKER_DOCUMENTS_BUILT_H
#define BROKER_DOCUMENTS_BUILT_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/archive/generation.h"
#include "broker/documents/documents.h"

/* Opens a document (or manifest). STATUS_NOT_FOUND: there is no such file. */
MUST_CHECK enum status built_open(const struct document_wish *wish,
                                  uint64_t number, enum generation_file file,
                                  uint64_t part, struct document *document,
                                  struct problem *why);

/* Opens a package: its tag comes from its place and its size, as nothing else
 * is ever put there. */
MUST_CHECK enum status built_open_package(const struct document_wish *wish,
                                          uint64_t number, uint64_t part,
                                          struct document *document,
                                          struct problem *why);

/* Is there that document? */
bool built_has(const struct document_wish *wish, uint64_t number,
               uint64_t part);

/* The first whole second after the current generation was whole: Last-Modified
 * of what stands at the fixed address. DATETIME_NONE: that is still to come. */
int64_t built_since(const struct document_wish *wish);

/* No generation is current. STATUS_NOT_FOUND. */
MUST_CHECK enum status built_none(const struct document_wish *wish,
                                  struct problem *why);

/* Is generation `wish->number` there? STATUS_NOT_FOUND: it never was;
 * STATUS_GONE: it is no longer kept. Which parts it has, the files say. */
MUST_CHECK enum status built_check(const struct document_wish *wish,
                                   struct problem *why);

#endif
