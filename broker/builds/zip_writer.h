/*
 * zip_writer.h - a ZIP package, written member by member.
 *
 *     manifest.xml
 *     resources/000000000001.csv
 *     resources/000000000002
 *
 *     begin --> member --> add ... --+--> member ... --> finish: it is there
 *           --> take --> copy ... ---+        \--------> abandon: nothing is
 *
 * The caller plans a package before it begins it (zip_writer_plan). Text is
 * deflated, all else stored. ZIP64 is used where needed: for a member or an
 * offset of 4 GiB. ZIP can count all members, for a manifest has at most 50,000
 * entries.
 *
 * The broker makes the names, from numbers: no text of a source can lead out of
 * the folder where a reader unpacks the package, or collide.
 *
 * One thread at a time. All of it may block.
 */
#pragma once

#include "proto/resourcesync/digest.h"

#define ZIP_WRITER_TYPE     "application/zip"
#define ZIP_WRITER_MANIFEST "manifest.xml"

/* Planning */

/* The planned contents of a package; zeroed memory: nothing. */
struct zip_writer_plan {
    uint64_t entries;  /* of its manifest */
    uint64_t bytes;    /* of the package at most, manifest included, no member
                          deflated */
    uint64_t manifest; /* bytes of its manifest */
};

/* An entry without a member: a resource that was deleted. */
#define ZIP_WRITER_NO_MEMBER UINT64_MAX

/* Adds an entry of `entry_size` bytes in the manifest, and its member, if the
 * package then has at most `limit` bytes. Returns false if not; the first entry
 * always has room. */
bool zip_writer_plan_add(struct zip_writer_plan *plan, uint64_t limit,
                         uint64_t entry_size, uint64_t length);

/* Names */

/* "resources/000000000001.csv", terminated. */
struct zip_writer_name {
    char text[48];
};

/* Of member `number`, from 1 on, of a package. The extension is that of the
 * path of `loc`, else of `type`, if it has at most 8 letters and digits; else
 * the name has none. Both are escaped, as in an entry. */
void zip_writer_name(struct zip_writer_name *name, uint64_t number,
                     struct slice loc, struct slice type);

/* True if members of that media type (with parameters or without) are
 * deflated. */
bool zip_writer_deflates(struct slice type);

/* Writing */

struct zip_writer;

/* The finished file. */
struct zip_writer_file {
    uint64_t length; /* bytes */
    struct digest digest;
};

/* Begins the package `name` in the open directory `dir_fd`. All members get
 * that time. The file appears under its name when it is whole. */
MUST_CHECK enum status zip_writer_begin(struct zip_writer **package, int dir_fd,
                                        const char *name, int64_t time_us,
                                        struct problem *why);

/* Begins the manifest, the first member, of exactly `length` bytes, which
 * zip_writer_add hands over. */
MUST_CHECK enum status zip_writer_begin_manifest(struct zip_writer *package,
                                                 uint64_t length,
                                                 struct problem *why);
MUST_CHECK enum status zip_writer_add(struct zip_writer *package,
                                      struct slice bytes, struct problem *why);

/* A member with the bytes of a file, which must have that length and SHA-256.
 */
struct zip_writer_member {
    struct zip_writer_name name;
    bool is_deflated;
    struct digest digest;
    uint64_t length;
};

/* Begins a member from an open file, and takes the file over, also on
 * failure. */
MUST_CHECK enum status zip_writer_take(struct zip_writer *package,
                                       const struct zip_writer_member *member,
                                       int fd, struct problem *why);

/* Copies at most 4 MiB of the file; *is_over: the member is whole.
 * STATUS_INVALID: length or SHA-256 differ; `why` says so. */
MUST_CHECK enum status zip_writer_copy(struct zip_writer *package,
                                       bool *is_over, struct problem *why);

/* Makes the package whole and durable, and frees it, also on failure, which
 * leaves no file. The caller makes the directory's entry durable. */
MUST_CHECK enum status zip_writer_finish(struct zip_writer *package,
                                         struct zip_writer_file *file,
                                         struct problem *why);

/* Leaves nothing. NULL is allowed. */
void zip_writer_abandon(struct zip_writer *package);
