/*
 * file_uri.h - chooses the published files of a directory, and writes their
 * URIs.
 *
 * A path is relative to the directory, its names separated by "/", as bytes:
 * names need not be UTF-8.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"

/* a loc's bytes, all of them ASCII here. */
#define FILE_URI_MIN 12
#define FILE_URI_MAX 2048

/* Longest published path: a longer one has too long a loc. */
#define FILE_URI_PATH_MAX FILE_URI_MAX

/* Default folder of the state; a folder of that name, at any depth, is not
 * published. */
#define FILE_URI_STATE_NAME ".tidings"

/* Says why `base` is not an absolute URI of http or https with a host, without
 * query and fragment, and "/" at its end. NULL: it is one. */
const char *file_uri_fault(const char *base);

/* Appends `path` to `base`: unreserved characters (RFC 3986, section 2.3) and
 * "/" as they are, every other byte percent-encoded. False: shorter than
 * FILE_URI_MIN or longer than FILE_URI_MAX. */
bool file_uri_write(char to[FILE_URI_MAX + 1], const char *base,
                    const char *path);

/* True if `path`, or a folder above it, is called FILE_URI_STATE_NAME or
 * matches one of the globs (fnmatch). Each glob is compared with each name, and
 * with the path so far, where only "/" matches "/". */
bool file_uri_is_excluded(const char *const *globs, size_t n_globs,
                          const char *path);

/*
 * The paths that had an event and that the watch still has to
 * look at: each once, in the order of their first events.
 *
 * Bounded: when it is full, its owner empties it and compares the whole disk
 * with the database, which finds the rest.
 */

/* Bytes of paths, overhead included: some 100,000 paths. */
#define PATH_QUEUE_BYTES_MAX ((size_t)16 * 1024 * 1024)

struct path_queue {
    struct map by_path;
    struct list paths; /* list_init of it makes an empty queue of zeros */
    size_t bytes;
};

void path_queue_clear(struct path_queue *dirty);

/* False: full, or no memory; the path was not added. */
bool path_queue_add(struct path_queue *dirty, const char *path);

/* Takes the first one out; false: there is none. */
bool path_queue_take(struct path_queue *dirty,
                     char path[FILE_URI_PATH_MAX + 1]);
