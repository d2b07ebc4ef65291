/*
 * generation_document.h - documents that the archive thread built: files of a
 * generation (generation.h).
 *
 * The broker serves these files, so no client ever sees parts of two
 * generations under one index, and a kept generation keeps its bytes
 * . `wish->kind` is the kind of the generation.
 *
 * For workers: all of these functions may block.
 */
#pragma once

#include "broker/builds/generation.h"
#include "broker/documents/documents.h"

/* Opens a document, a manifest or a package. STATUS_NOT_FOUND: there is no such
 * file. */
MUST_CHECK enum status
generation_document_open(const struct document_wish *wish, uint64_t number,
                         enum generation_file file, uint64_t part,
                         struct document *document, struct problem *why);

/* True if the document exists. */
bool generation_document_has(const struct document_wish *wish, uint64_t number,
                             uint64_t part);

/* The first whole second after the current generation was complete:
 * Last-Modified of the fixed address. DATETIME_NONE: that second has not come
 * yet. */
int64_t generation_document_since(const struct document_wish *wish);

/* Returns STATUS_NOT_FOUND: no generation is current. */
MUST_CHECK enum status
generation_document_none(const struct document_wish *wish, struct problem *why);

/* Checks that generation `wish->number` exists. STATUS_NOT_FOUND: it never did;
 * STATUS_GONE: it is no longer kept. Its files determine its parts. */
MUST_CHECK enum status
generation_document_check(const struct document_wish *wish,
                          struct problem *why);
