/*
 * zip_reader.h - a ZIP package of a Resource Dump or Change Dump, in a file.
 *
 *     zip_reader_open --> zip_reader_manifest ... --> zip_reader_expect ...
 *                                                     |
 *     zip_reader_manifest again --> zip_reader_find --+--> zip_reader_take ...
 *
 * The caller reads the manifest: it gets the bytes, wherever in the archive
 * they are, and as often as it asks. It names members by the `path` of the
 * manifest (R-020: with a leading slash; odd ones without). Expected members
 * that precede the wanted one in the archive are put aside. So if members and
 * manifest have the same order, only the wanted one is on disk, and in any
 * order each byte is unpacked once.
 *
 * Packages come from strangers. A package is refused as a whole if it is no
 * ZIP, has encrypted members, a member twice (which one is meant?), or more
 * than ZIP_READER_MEMBERS_MAX. Not found: names in UTF-8 that are not composed
 * (NFC), because libarchive composes them. Ignored: names that lead out ("..",
 * absolute, drives, backslashes, NUL), links, devices, folders. A member's name
 * never becomes a name on disk. A member is unpacked at most up to the length
 * in the manifest; without one up to the length in the archive, and at most
 * ZIP_READER_MEMBER_MAX.
 *
 * All functions work on disk and never wait for a network. zip_reader_take,
 * which may take long, does one step a call.
 */
#pragma once

#include "proto/resourcesync/change.h"

#define ZIP_READER_MEMBERS_MAX 1000000
#define ZIP_READER_NAME_SIZE   32 /* of a file in the scratch directory */

/* The most bytes of a member of unknown length. */
#define ZIP_READER_MEMBER_MAX (4ull * 1024 * 1024 * 1024)

/* One step of zip_reader_take unpacks at least so many bytes unless it
 * finishes: few enough that other users of the loop do not wait long. */
#define ZIP_READER_STEP_BYTES (4u * 1024 * 1024)

struct zip_reader;

/* Opens the file `name` in `dir_fd` and lists its members. Members are unpacked
 * into the same directory. STATUS_MALFORMED: no ZIP, refused as above, or
 * without manifest.xml at its top level; STATUS_IO;
 * STATUS_MEMORY. */
enum status zip_reader_open(struct zip_reader **package, int dir_fd,
                            const char *name, struct problem *why);

/* Closes the package and removes the files put aside, but not those that the
 * caller has taken. NULL is allowed. */
void zip_reader_close(struct zip_reader *package);

/* Sets `*piece` to the next bytes of the manifest, lent until the next call. An
 * empty piece is the end; the next call begins anew. STATUS_MALFORMED,
 * STATUS_IO, STATUS_MEMORY. */
enum status zip_reader_manifest(struct zip_reader *package, struct slice *piece,
                                struct problem *why);

/* Records what the manifest says of the member at `path`: `hash` normalised or
 * empty, `length` or LENGTH_NONE. If the manifest names a member twice, the
 * first entry counts. A path without a member is no error here. STATUS_MEMORY.
 * Not after the first zip_reader_find. */
enum status zip_reader_expect(struct zip_reader *package, struct slice path,
                              uint64_t length, struct slice hash,
                              struct problem *why);

/* Selects the expected member at `path` for zip_reader_take. STATUS_MALFORMED:
 * it does not exist, was taken before, or differs from the manifest; `why` says
 * which. That entry has no file then; other members are not affected. */
enum status zip_reader_find(struct zip_reader *package, struct slice path,
                            struct problem *why);

/* Unpacks at most about 4 MiB of the members up to the selected one, and of it.
 * STATUS_OK without *is_over: call again. STATUS_OK and *is_over: `name` is its
 * file, not synced, with the right length and digests; the caller renames or
 * unlinks it. STATUS_MALFORMED and *is_over: as zip_reader_find. Without: the
 * archive has become unreadable (STATUS_MALFORMED), STATUS_IO, STATUS_MEMORY.
 */
enum status zip_reader_take(struct zip_reader *package, bool *is_over,
                            char name[ZIP_READER_NAME_SIZE],
                            struct problem *why);
