/*
 * downloads.h - resources into files, many at a time.
 *
 *     downloads_add --> [queue of its host] --> download --> on_done
 *           ^               |     ^                |
 *      the ledger,          |     +-- again -------+  attempts, Retry-After
 *      while there is room  +-- next link <--------+  `duplicate`, by pri;
 *
 *
 * Every host has a queue and takes its turn; at most `per_host` downloads of
 * one and `total` of all run at a time. A host that fails or asks for patience
 * (429, 503, Retry-After) waits, the others go on: first with growing pauses,
 * then with one request at a time until one succeeds. One that failed
 * `attempts` times on end is down: what waits for it goes to its next link or
 * fails, and so does what is added before its pause is over.
 *
 * A link is left for the next one: at once when it is refused (4xx: for ever as
 * far as this run goes), when its host is down, or when it was tried as often
 * as its share of the attempts allows. What comes with another length or digest
 * than the source told is asked for once more at once, past all caches.
 *
 * A file is done when it is whole and has the length and all digests that were
 * told; it is not synced. The name of a file is its want's own;
 * what broke off is kept under it and resumed (client/dumps/download.h), also
 * by the next process that wants the same. Whoever does not want it any more,
 * or has renamed it, calls download_forget.
 */
#ifndef CLIENT_DOWNLOADS_DOWNLOADS_H
#define CLIENT_DOWNLOADS_DOWNLOADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/client.h"
#include "client/lib/failure.h"
#include "proto/slice.h"

/* Links beside `loc` that are tried: the best by pri of those that a want has,
 * which are looked at as far as the second number. */
#define DOWNLOADS_DUPLICATES_MAX 8
#define DOWNLOADS_LOOKED_AT_MAX  256

/* Wants that wait or run, altogether and of one host. */
#define DOWNLOADS_ROOM      1024
#define DOWNLOADS_ROOM_HOST 256

/* The longest a host is waited for, whatever its Retry-After says: an hour. */
#define DOWNLOADS_PAUSE_MOST_MS 3600000u

struct downloads_limits {
    unsigned per_host;  /* 0: 4 */
    unsigned total;     /* 0: 32 */
    unsigned attempts;  /* for a resource, all links included, but at least one
                           a link; 0: 5 */
    uint64_t max_bytes; /* of a resource; 0: no limit */
    unsigned silence_s; /* that ends a download; 0: 120 */
    unsigned pause_ms;  /* the first pause of a host that fails; 0: 1,000 */
    unsigned patience_ms; /* a host that wants to be left alone for longer is
                             down; 0: it is waited for, for an hour at most */
};

/* A link `duplicate` of an entry. Its own hash and length count only where the
 * entry has none: the file must be what the resource was told to be. */
struct downloads_link {
    struct slice href;
    uint32_t pri; /* 0: none, which is the last */
    struct slice hash;
    uint64_t length; /* or LENGTH_NONE */
};

struct want {
    uint64_t id; /* the caller's; none other under way has it */
    struct slice loc;
    struct slice hash; /* normalised; empty: none */
    uint64_t length;   /* or LENGTH_NONE */
    struct slice encoding;
    const struct downloads_link *duplicates;
    size_t n_duplicates;
    const char *file; /* in the directory; shorter than DOWNLOAD_NAME_MAX, and
                         none other under way has it */
};

struct downloads_result {
    uint64_t id;
    /* TD_OK: the file is there. TD_REFUSED, TD_GONE (410): why.status says
     * what; TD_UNREACHABLE: later perhaps; TD_BROKEN: it is not what the source
     * told; TD_INVALID: loc is no URL of http or https; TD_IO: the directory
     * cannot be written, or is full: nothing that follows will fare better;
     * TD_MEMORY. Of several links it is what `loc` failed with, and why.text
     * tells how many others did. */
    struct failure why;
    const char *file;
    const char *url; /* it came from; lent */
    uint64_t bytes;  /* of the file */
    unsigned n_attempts;
};

/* Called from the loop, once for each want that was added and not dropped. May
 * call anything below. */
typedef void downloads_done_fn(const struct downloads_result *result,
                               void *user);

struct downloads;

/* `dir_fd`: of the directory for the files; must stay open. NULL: no memory. */
struct downloads *downloads_new(struct td_client *client,
                                const struct downloads_limits *limits,
                                int dir_fd, downloads_done_fn *on_done,
                                void *user);

/* Told of each attempt that failed, if the resource is tried again: `why`, by
 * this link or the next one. Frees nothing. */
typedef void downloads_again_fn(struct slice loc, const struct failure *why,
                                void *user);

void downloads_watch(struct downloads *downloads, downloads_again_fn *on_again);

/* Ends all downloads without a further callback; what came of them is kept.
 * NULL is allowed. */
void downloads_free(struct downloads *downloads);

/* How many wants may be added now. */
size_t downloads_room(const struct downloads *downloads);

/* Has the host of `loc` as much to do as it may have? Offer others. */
bool downloads_is_full_for(const struct downloads *downloads, struct slice loc);

/* Takes a copy; nothing is called before it returns. TD_UNREACHABLE: there is
 * no room, or none for its host; TD_MEMORY. Nothing was taken then. */
enum td_status downloads_add(struct downloads *downloads,
                             const struct want *want);

/* Forgets a want: nothing is called for it. Its file stays, as far as it came.
 * False: there is none. */
bool downloads_drop(struct downloads *downloads, uint64_t id);

/* Wants that were added and are not done. */
size_t downloads_busy(const struct downloads *downloads);

/* Bytes that came, altogether, of whatever came of them: for a rate. */
uint64_t downloads_bytes(const struct downloads *downloads);

#endif
