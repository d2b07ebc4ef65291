/*
 * locs.h - chooses the published files of a directory, and writes their URIs.
 *
 * A path is relative to the directory, its names separated by "/", as bytes:
 * names need not be UTF-8.
 */
#ifndef CLIENT_WATCH_LOCS_H
#define CLIENT_WATCH_LOCS_H

#include <stdbool.h>
#include <stddef.h>

/* a loc's bytes, all of them ASCII here. */
#define LOCS_MIN 12
#define LOCS_MAX 2048

/* Longest published path: a longer one has too long a loc. */
#define LOCS_PATH_MAX LOCS_MAX

/* Default folder of the state; a folder of that name, at any depth, is not
 * published. */
#define LOCS_STATE_NAME ".tidings"

/* Says why `base` is not an absolute URI of http or https with a host, without
 * query and fragment, and "/" at its end. NULL: it is one. */
const char *locs_fault(const char *base);

/* Appends `path` to `base`: unreserved characters (RFC 3986, section 2.3) and
 * "/" as they are, every other byte percent-encoded. False: shorter than
 * LOCS_MIN or longer than LOCS_MAX. */
bool locs_write(char to[LOCS_MAX + 1], const char *base, const char *path);

/* True if `path`, or a folder above it, is called LOCS_STATE_NAME or matches
 * one of the globs (fnmatch). Each glob is compared with each name, and with
 * the path so far, where only "/" matches "/". */
bool locs_is_excluded(const char *const *globs, size_t n_globs,
                      const char *path);

#endif
