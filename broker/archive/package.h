/*
 * package.h - a ZIP package, written member by member.
 *
 *     manifest.xml
 *     resources/000000000001.csv
 *     resources/000000000002
 *
 *     begin --> member --> add ... --+--> member ... --> finish: it is there
 *           --> take --> copy ... ---+        \--------> abandon: nothing is
 *
 * Planned first: what comes into a package is known before it is begun
 * (package_plan). Text is deflated, all else stored. ZIP64 comes where it is
 * needed: a member or an offset of 4 GiB; members never exceed what ZIP counts,
 * for a manifest has at most 50,000 entries.
 *
 * Names are made here, of numbers: nothing that a source says can lead out of
 * the folder that a package is unpacked in, or meet another name.
 *
 * One thread at a time. All of it may block.
 */
#ifndef BROKER_ARCHIVE_PACKAGE_H
#define BROKER_ARCHIVE_PACKAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/hash.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

#define PACKAGE_TYPE     "application/zip"
#define PACKAGE_MANIFEST "manifest.xml"

/* Planning */

/* What a package is to have so far; zeroed memory: nothing. */
struct package_plan {
    uint64_t entries;  /* of its manifest */
    uint64_t bytes;    /* of the package at most, manifest included, no member
                          deflated */
    uint64_t manifest; /* bytes of its manifest */
};

/* An entry without a member: a resource that was deleted. */
#define PACKAGE_NO_MEMBER UINT64_MAX

/* Adds an entry with so many bytes in the manifest, and its member, if the
 * package, which is to have at most `limit` bytes, has room for them; the first
 * one always has. */
bool package_plan_add(struct package_plan *plan, uint64_t limit,
                      uint64_t entry_size, uint64_t length);

/* Names */

/* "resources/000000000001.csv", terminated. */
struct package_name {
    char text[48];
};

/* Of member `number`, from 1 on, of a package. The extension is that of the
 * path of `loc`, else of `type`, where it is of at most 8 letters and digits;
 * else there is none. Both as they stand in an entry: escaped. */
void package_name(struct package_name *name, uint64_t number, struct slice loc,
                  struct slice type);

/* Is a member of that media type (without parameters or with) deflated? */
bool package_deflates(struct slice type);

/* Writing */

struct package;

/* What it is. */
struct package_file {
    uint64_t length; /* bytes */
    struct digest digest;
};

/* Begins the package `name` in the open directory `dir_fd`, whose members all
 * have that time: it appears when it is whole. */
MUST_CHECK enum status package_begin(struct package **package, int dir_fd,
                                     const char *name, int64_t time_us,
                                     struct problem *why);

/* Begins the manifest, the first member, of exactly so many bytes, which
 * package_add hands over. */
MUST_CHECK enum status package_begin_manifest(struct package *package,
                                              uint64_t length,
                                              struct problem *why);
MUST_CHECK enum status package_add(struct package *package, struct slice bytes,
                                   struct problem *why);

/* Begins a member out of an open file, which is taken over, also when it fails:
 * it must have that length and SHA-256. */
MUST_CHECK enum status package_take(struct package *package,
                                    const struct package_name *name,
                                    bool is_deflated, int fd, uint64_t length,
                                    const struct digest *digest,
                                    struct problem *why);

/* Copies some of it, at most 4 MiB; *is_over: it is whole. STATUS_INVALID: it
 * is not what it must be; `why` says so. */
MUST_CHECK enum status package_copy(struct package *package, bool *is_over,
                                    struct problem *why);

/* Makes it whole and durable, its directory's entry left to the caller, and
 * frees it, also when it fails: then there is nothing. */
MUST_CHECK enum status package_finish(struct package *package,
                                      struct package_file *file,
                                      struct problem *why);

/* Leaves nothing. NULL is allowed. */
void package_abandon(struct package *package);

#endif
