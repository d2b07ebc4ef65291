/*
 * content_download.h - fetches the bytes of resources from their sources: one
 * GET each, into a file, as fast as the disk takes it, verified on the way.
 *
 *     archive thread            "fetch" thread, with a caller (calls/caller.h)
 *
 *     content_download_start --> waits --> GET --piece--> [job: to the file]
 *                                  |       ^ |                 |
 *                                  |       +-|-----------------+
 *                                  |         +--its end--> [job: proven]
 *     content_download_next <------+----------------------------+
 *
 * The rules for callbacks hold for fetches, too: HTTP and HTTPS, only to the
 * address that was checked, and no header about us but User-Agent. The fetcher
 * follows some redirects and checks each; the limit per host is that of the
 * original URL. It asks for unencoded bytes (Accept-Encoding: identity).
 *
 * A fetch that finds its whole host in trouble (unreachable; 429, 503) ends the
 * fetches that wait for that host: FETCH_DROPPED.
 */
#pragma once

#include "base/relaxed.h"
#include "broker/calls/caller.h"
#include "broker/state/content_files.h"

/* The fetcher follows so many redirects. */
#define FETCH_REDIRECTS 5

/* Room that a fetch leaves free on the disk: posts come first. */
#define FETCH_LEAVES_BYTES ((uint64_t)256 << 20)

struct config;
struct content_download;
struct set;

enum fetch_outcome {
    FETCH_WHOLE,    /* the bytes match: fetch->arriving has ended */
    FETCH_DROPPED,  /* not made, or left: no result */
    FETCH_NO_ROOM,  /* a lack here: no room on the disk, no memory */
    FETCH_FAILED,   /* a later attempt may succeed */
    FETCH_HOPELESS, /* no later attempt will */
    FETCH_OUTCOMES
};

/* Why it failed: values of the label `reason` (metrics.c), in that order. */
enum fetch_reason {
    FETCH_REFUSED,     /* a URL or address that is not allowed */
    FETCH_UNREACHABLE, /* no address, no connection, no TLS */
    FETCH_TIMEOUT,
    FETCH_BROKEN, /* the connection was lost, the answer malformed */
    FETCH_STATUS, /* an answer other than 200 */
    FETCH_DIFFERS,
    FETCH_TOO_LARGE,
    FETCH_ROOM
};

struct fetch {
    /* The task. */
    struct set *set;
    const struct client *owner; /* of the set, lent; or NULL */
    uint64_t seq;
    unsigned tries;  /* failed ones before this */
    uint32_t host;   /* a hash of the owner, host and port */
    bool is_suspect; /* fetches from the host have failed lately */
    char *url;       /* owned, and the next */
    char *hash;      /* normalised */
    uint64_t length; /* expected, or LENGTH_NONE */

    struct list node; /* the archive thread's */

    /* Set by any thread to cancel the fetch. Relaxed: the fetch thread sees it
     * in time. */
    atomic_bool is_unwanted;

    /* The outcome. */
    enum fetch_outcome outcome;
    enum fetch_reason reason;
    bool is_of_host; /* the whole host is in trouble */
    int64_t retry_after_us;
    struct arriving arriving; /* FETCH_WHOLE: place or abandon it */
    struct problem why;

    /* The fetcher's own. */
    struct content_download *fetcher;
    struct list at; /* fetcher->under_way, then fetcher->over */
    struct task task;
    struct call call;
    struct job job;
    struct buf piece;
    enum status status; /* of the job */
    bool has_begun;     /* its turn has come */
    bool keeps_coding;  /* a second answer is to stay coded */
    bool is_again;      /* the bytes of the first one are still there */
    uint64_t looked;    /* bytes when the disk was last looked at */
};

/* Copies `url` and `hash`. */
struct fetch *fetch_new(struct slice url, struct slice hash, uint64_t length);

/* Frees a fetch that is not started, or over, and its file. NULL is allowed. */
void fetch_free(struct fetch *fetch);

/* Opens a fetcher with the limits of `config`. `folder` is for what arrives;
 * all three are lent as long as it lives. `on_over`: a fetch is over; runs on
 * the fetch thread, and may only wake another one. */
MUST_CHECK enum status content_download_open(struct content_download **fetcher,
                                             const struct config *config,
                                             const struct networks *allowed,
                                             const char *folder,
                                             void (*on_over)(void *user),
                                             void *user, struct problem *why);

/* Cuts the fetches under way. No fetch may be started any more. NULL is
 * allowed. */
void content_download_close(struct content_download *fetcher);

/* Starts a fetch. The fetcher owns it until content_download_next returns it;
 * content_download_close frees it, too. */
void content_download_start(struct content_download *fetcher,
                            struct fetch *fetch);

/* Gives a finished fetch back to the caller; NULL: none. */
struct fetch *content_download_next(struct content_download *fetcher);
