/*
 * package.h - a ZIP package of a Resource Dump or Change Dump, in a file.
 *
 *     package_open ---> package_manifest ... --> package_expect ...
 *                                                     |
 *     package_manifest (again) ... --> package_find --+--> package_take ...
 *
 * What the manifest means is the caller's: it is given as bytes, wherever in
 * the archive it stands, as often as asked for. Members are found by their
 * `path` of the manifest (R-020: with a leading slash; odd ones without). Those
 * before the wanted one in the archive are put aside, as far as they are
 * expected: so where members and manifest are in the same order, nothing but
 * the wanted one is on disk, and in any order each byte is unpacked once.
 *
 * Packages come from strangers. Refused as a whole: what is no ZIP, encrypted
 * members, a member twice (which one would be meant?), more than
 * PACKAGE_MEMBERS_MAX. Not found: names in UTF-8 that are not composed (NFC),
 * for libarchive composes them. Never looked at: names that lead out ("..",
 * absolute, drives, backslashes, NUL), links, devices, folders. No name of a
 * member ever becomes a name on disk. Nothing is unpacked beyond the length
 * that the manifest told or, where it told none, that the archive tells, and
 * then never beyond PACKAGE_MEMBER_MAX.
 *
 * Everything here works on disk and does not wait for a network; what may take
 * long (package_take) does a part at a time.
 */
#ifndef CLIENT_DUMPS_PACKAGE_H
#define CLIENT_DUMPS_PACKAGE_H

#include "client/lib/failure.h"
#include "proto/change.h"
#include "proto/slice.h"

#define PACKAGE_MEMBERS_MAX 1000000
#define PACKAGE_NAME_SIZE   32 /* of a file in the scratch directory */

/* Most bytes of a member of unknown length. */
#define PACKAGE_MEMBER_MAX (4ull * 1024 * 1024 * 1024)

/* Bytes that package_take unpacks in one step at least, unless it finishes: few
 * enough that other users of the loop do not wait long. */
#define PACKAGE_STEP_BYTES (4u * 1024 * 1024)

struct package;

/* Opens the file `name` in `dir_fd` and looks through its members. Members are
 * unpacked into the same directory. TD_BROKEN: no ZIP, or one of those above,
 * or without manifest.xml at its top level; TD_IO; TD_MEMORY. */
enum td_status package_open(struct package **package, int dir_fd,
                            const char *name, struct failure *why);

/* Closes it and removes what was put aside, not what was taken. NULL is
 * allowed. */
void package_close(struct package *package);

/* The manifest: sets `*piece` to its next bytes, lent until the next call; size
 * 0 is its end, after which it begins anew. TD_BROKEN, TD_IO, TD_MEMORY. */
enum td_status package_manifest(struct package *package, struct slice *piece,
                                struct failure *why);

/* From the first byte, wherever it was. */
void package_manifest_again(struct package *package);

/* What the manifest tells of the member at `path`: `hash` normalised or empty,
 * `length` or LENGTH_NONE. Told twice, the first counts. A path that leads
 * nowhere is no error here. TD_MEMORY. Not after the first package_find. */
enum td_status package_expect(struct package *package, struct slice path,
                              uint64_t length, struct slice hash,
                              struct failure *why);

/* Makes the expected member at `path` the one to be taken. TD_BROKEN: there is
 * none, or it was taken before, or it is not what the manifest told; `why` says
 * which: that entry has no file, others are not touched by it. */
enum td_status package_find(struct package *package, struct slice path,
                            struct failure *why);

/* Unpacks some of what leads to the found member, and it: at most about 4 MiB.
 * TD_OK without *is_over: call again. TD_OK and *is_over: `name` is its file,
 * not synced, the caller's to rename or unlink; its length and digests are
 * right.
 * TD_BROKEN and *is_over: as package_find. Without: the archive cannot be read
 * any more (TD_BROKEN), TD_IO, TD_MEMORY. */
enum td_status package_take(struct package *package, bool *is_over,
                            char name[PACKAGE_NAME_SIZE], struct failure *why);

#endif
