/*
 * build_resourcedump.h - a Resource Dump from the state of a set and the
 * content that it keeps: packages, each with its manifest
 * (dump_package.h), then the document that names them.
 *
 *     each package: its entries, into the manifest --> its content, copied
 *                       ^                                     |
 *                       +------- there are more of them ------+--> document
 */
#ifndef BROKER_ARCHIVE_BUILD_RESOURCEDUMP_H
#define BROKER_ARCHIVE_BUILD_RESOURCEDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/archive/build.h"
#include "broker/archive/contents.h"
#include "broker/sets/registry.h"
#include "broker/state/resources.h"
#include "proto/problem.h"
#include "proto/status.h"

/* The limit in bytes of package `n`, counted from 0, for this --package-bytes.
 * It grows with `n`, for one document names all packages and has a limit, too
 * (R-026). */
uint64_t build_resourcedump_limit(uint64_t package_bytes, size_t n);

/* Begins a build of a set whose state is whole (resources_at) and all of whose
 * content is there (content_has_all). The step returns STATUS_INVALID if
 * content is missing or damaged, STATUS_BUSY if a package has no room on the
 * disk. STATUS_GONE: the set was removed. */
MUST_CHECK enum status build_resourcedump_begin(
    struct build **build, struct set *set, struct contents *contents,
    const struct resources *resources, bool is_archived, struct problem *why);

#endif
