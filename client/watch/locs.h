/*
 * locs.h - which files of a directory are published, and under which URI.
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

/* No published path is longer: its loc would be. */
#define LOCS_PATH_MAX LOCS_MAX

/* Where a state is kept unless told otherwise; no folder of that name, however
 * deep, is published. */
#define LOCS_STATE_NAME ".tidings"

/* Why `base` is no base URI: absolute, http or https, with a host, without
 * query and fragment, and "/" at its end. NULL: it is one. */
const char *locs_fault(const char *base);

/* Appends `path` to `base`: unreserved characters (RFC 3986, section 2.3) and
 * "/" as they are, every other byte percent-encoded. False: shorter than
 * LOCS_MIN or longer than LOCS_MAX. */
bool locs_write(char to[LOCS_MAX + 1], const char *base, const char *path);

/* Is `path`, or a folder above it, left out: called LOCS_STATE_NAME, or matched
 * by one of the globs (fnmatch)? A glob is compared with each name, and with
 * the path so far, where "/" is matched by "/" alone. */
bool locs_is_excluded(const char *const *globs, size_t n_globs,
                      const char *path);

#endif
