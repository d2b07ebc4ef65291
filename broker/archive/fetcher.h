/*
 * fetcher.h - gets the bytes of resources where their sources have them: one
 * GET each, into a file, as fast as the disk takes it, proven on the way.
 *
 *     archive thread     "fetch" thread, with a caller (broker/net/caller.h)
 *
 *     fetcher_start --> waits its turn --> GET --piece--> [job: to the file]
 *                            |              ^                  |
 *                            |              +------------------+
 *                            |              \--its end--> [job: proven]
 *     fetcher_next <---------+---------------------------------+
 *
 * Who may be called is as for callbacks, and so is how: HTTP and HTTPS, the
 * address that was judged, nothing of ours but who we are. Some redirects are
 * followed, each judged; the limit per host is that of the URL that was told.
 * Bytes are asked for as they are (Accept-Encoding: identity).
 *
 * A fetch that finds its whole host in trouble (unreachable; 429, 503) takes
 * those along that wait for their turn there: FETCH_DROPPED.
 */
#ifndef BROKER_ARCHIVE_FETCHER_H
#define BROKER_ARCHIVE_FETCHER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/net/caller.h"
#include "broker/state/content_files.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* Redirects that are followed. */
#define FETCH_REDIRECTS 5

/* What a fetch leaves free on the disk: posts come first. */
#define FETCH_LEAVES_BYTES ((uint64_t)256 << 20)

struct fetcher;
struct set;

enum fetch_outcome {
    FETCH_WHOLE,    /* the bytes are what was told: fetch->arriving has ended */
    FETCH_DROPPED,  /* not made, or left: nothing was learnt of it */
    FETCH_NO_ROOM,  /* our own trouble: no room on the disk, no memory */
    FETCH_FAILED,   /* the other side may do better another time */
    FETCH_HOPELESS, /* it never will */
    FETCH_OUTCOMES
};

/* Why it failed: values of the label `reason` (metrics.c), in that order. */
enum fetch_reason {
    FETCH_REFUSED,     /* a URL or address that may not be called */
    FETCH_UNREACHABLE, /* no address, no connection, no TLS */
    FETCH_TIMEOUT,
    FETCH_BROKEN, /* the connection was lost, the answer malformed */
    FETCH_STATUS, /* an answer other than 200 */
    FETCH_DIFFERS,
    FETCH_TOO_LARGE,
    FETCH_ROOM
};

struct fetch {
    /* What is to be fetched. */
    struct set *set;
    uint64_t seq;
    unsigned tries;  /* that have failed before */
    uint32_t host;   /* the same for all of one host and port */
    bool is_suspect; /* the last one there has failed */
    char *url;       /* owned, and the next */
    char *hash;      /* normalised */
    uint64_t length; /* as told, or LENGTH_NONE */

    struct list node; /* of who has started it: the archive thread's */

    /* Any thread: nobody wants it any more. Relaxed: it is seen in time. */
    atomic_bool is_unwanted;

    /* What came of it. */
    enum fetch_outcome outcome;
    enum fetch_reason reason;
    bool is_of_host; /* its host is in trouble, not only this */
    int64_t retry_after_us;
    struct arriving arriving; /* FETCH_WHOLE: to be placed, or abandoned */
    struct problem why;

    /* The fetcher's own. */
    struct fetcher *fetcher;
    struct list at; /* fetcher->under_way, then fetcher->over */
    struct task task;
    struct call call;
    struct job job;
    struct buf piece;
    enum status status; /* of the job */
    bool has_begun;     /* its turn has come */
    uint64_t looked;    /* bytes when the disk was last looked at */
};

struct fetcher_options {
    const struct networks *allowed; /* lent as long as it lives */
    const char *folder;             /* for what arrives; likewise */
    unsigned connections;
    unsigned host_connections;
    int64_t timeout_us; /* of one fetch */
    int64_t stall_us;   /* no byte for so long */
    uint64_t max_bytes; /* of one resource */

    /* One is over. The fetch thread; only to wake. */
    void (*on_over)(void *user);
    void *user;
};

/* Copies of `url` and `hash`. NULL: no memory. */
struct fetch *fetch_new(struct slice url, struct slice hash, uint64_t length);

/* One that is not started, or over; its file goes. NULL is allowed. */
void fetch_free(struct fetch *fetch);

MUST_CHECK enum status fetcher_open(struct fetcher **fetcher,
                                    const struct fetcher_options *options,
                                    struct problem *why);

/* Cuts what is under way. Nobody starts any more. NULL is allowed. */
void fetcher_close(struct fetcher *fetcher);

/* The fetch is the fetcher's until fetcher_next gives it back; with the
 * fetcher it goes. */
void fetcher_start(struct fetcher *fetcher, struct fetch *fetch);

/* One that is over: who started it has it again. NULL: none. */
struct fetch *fetcher_next(struct fetcher *fetcher);

#endif
