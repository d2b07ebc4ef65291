/*
 * downloads.h - downloads many resources into files at a time.
 *
 *     downloads_add --> [queue of its host] --> download --> on_done
 *           ^               |     ^                |
 *      the ledger,          |     +-- again -------+  attempts, Retry-After
 *      while there is room  +-- next link <--------+
 *
 * The links of a resource: its duplicates that a digest or a length guards, by
 * pri; then `loc`; then the other duplicates.
 *
 * Each host has a queue, and the hosts take turns; at most `per_host` downloads
 * of one host and `total` of all run at a time. A host that fails or asks for
 * patience (429, 503, Retry-After) waits while the others go on: first with
 * growing pauses, then with one request at a time until one succeeds. After
 * `attempts` failures in a row it is down: until its pause is over, jobs queued
 * or added for it go to their next link or fail.
 *
 * A job leaves a link for the next one: at once if the server refuses it (4xx:
 * for the rest of this run), if its host is down, or after its share of the
 * attempts. A file with another length or digest than the source announced is
 * requested once more at once, past all caches.
 *
 * A file is done when it is complete and has the announced length and all
 * digests; it is not synced. The want names the file; a broken
 * download keeps it under that name and can be resumed
 * (client/dumps/download.h), also by the next process with the same want. A
 * caller that no longer wants the file, or has renamed it, calls
 * download_forget.
 */
#pragma once

#include "client/lib/client.h"

/* Links tried beside `loc`: the best by pri among the first ones of a want; the
 * second number is how many of them are considered. */
#define DOWNLOADS_DUPLICATES_MAX 8
#define DOWNLOADS_LOOKED_AT_MAX  256

/* Wants that wait or run: of all hosts, and of one. */
#define DOWNLOADS_ROOM      1024
#define DOWNLOADS_ROOM_HOST 256

/* The longest wait for a host, in spite of a longer Retry-After: an hour. */
#define DOWNLOADS_PAUSE_MOST_MS 3600000u

struct downloads_limits {
    unsigned per_host;  /* 0: 4 */
    unsigned total;     /* 0: 32 */
    unsigned attempts;  /* for a resource, all links together, but at least one
                           a link; 0: 5 */
    uint64_t max_bytes; /* of a resource; 0: no limit */
    unsigned pause_ms;  /* the first pause of a host that fails; 0: 1,000 */
    unsigned patience_ms; /* a host that asks for a longer pause is down; 0: the
                             job waits, for an hour at most */
};

/* A link `duplicate` of an entry. Its own hash and length count only if the
 * entry has none: the file must be the announced one. */
struct downloads_link {
    struct slice href;
    uint32_t pri; /* 0: none, which comes last */
    struct slice hash;
    uint64_t length; /* or LENGTH_NONE */
};

struct want {
    uint64_t id; /* the caller's; unique among its wants */
    struct slice loc;
    struct slice hash; /* normalised; empty: none */
    uint64_t length;   /* or LENGTH_NONE */
    struct slice encoding;
    const struct downloads_link *duplicates;
    size_t n_duplicates;
    const char *file; /* in the directory; shorter than DOWNLOAD_NAME_MAX, and
                         unique among the wants */
};

struct downloads_result {
    uint64_t id;
    /* STATUS_OK: the file is complete. STATUS_REFUSED, STATUS_GONE (410): see
     * why.http_status; STATUS_UNREACHABLE: may work later; STATUS_MALFORMED: it
     * is not the announced file; STATUS_INVALID: loc is no URL of http or
     * https; STATUS_IO: the directory cannot be written, or is full, also for
     * later wants; STATUS_MEMORY. If several links failed, this is the failure
     * of `loc`, and why.text counts the others. */
    struct problem why;
    const char *file;
    uint64_t bytes; /* of the file */
    int64_t date_s; /* of the server's clock at the answer; negative: unknown */
    unsigned n_attempts;
};

/* Called from the loop, once for each want that was added and not dropped. It
 * may call any function below. */
typedef void downloads_done_fn(const struct downloads_result *result,
                               void *user);

/* Called after each failed attempt, with its failure, if this link or the next
 * one is tried. It must not free the downloads. */
typedef void downloads_again_fn(struct slice loc, const struct problem *why,
                                void *user);

struct downloads;

/* `dir_fd`: of the directory for the files; must stay open. `on_again` may be
 * NULL. NULL: no memory. */
struct downloads *downloads_new(struct td_client *client,
                                const struct downloads_limits *limits,
                                int dir_fd, downloads_done_fn *on_done,
                                downloads_again_fn *on_again, void *user);

/* Ends all downloads without a further callback; partial files stay. NULL is
 * allowed. */
void downloads_free(struct downloads *downloads);

/* The number of wants that may be added now. */
size_t downloads_room(const struct downloads *downloads);

/* True if the queue of the host of `loc` is full: add others first. */
bool downloads_is_full_for(struct downloads *downloads, struct slice loc);

/* Adds a copy; calls nothing before it returns. STATUS_UNREACHABLE: no room, or
 * none for the host; STATUS_MEMORY. Nothing was added then. */
enum status downloads_add(struct downloads *downloads, const struct want *want);

/* Forgets a want without a callback. A partial file stays. False: no such want.
 */
bool downloads_drop(struct downloads *downloads, uint64_t id);

/* Bytes received by all downloads, failed ones included: for a rate. */
uint64_t downloads_bytes(const struct downloads *downloads);
