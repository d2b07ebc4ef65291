/*
 * mirror.h - a mirror at work: what its parts share.
 *
 *     run.c   source --> sets --> feeds                 who is followed, until
 *     feed.c  followers --> book                        what is wanted
 *     work.c  book --> downloads                        what has to come
 *     group.c what came, removals --> shelf --> book    what is there
 *     way.c   what was at a path before
 *     sync.c  td_sync    audit.c  td_audit
 *
 * Writing in the book: feeds commit each message with its position. The rest
 * (what is there, what is expected, the resources of a baseline) is gathered:
 * mirror_write opens a transaction, mirror_settle commits it; whoever begins
 * one of his own settles first.
 *
 * The first thing that makes it senseless to go on (a full disk, no memory) is
 * kept, and ends the run: mirror_fail.
 */
#ifndef CLIENT_MIRROR_MIRROR_H
#define CLIENT_MIRROR_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/client.h"
#include "client/mirror/book.h"
#include "client/mirror/shelf.h"
#include "proto/buf.h"

struct work;

struct mirror {
    struct td_client *client;
    const struct td_sync_options *options; /* defaults filled in */
    struct shelf *shelf;                   /* NULL: an audit's, no files */
    struct book *book;
    struct work *work; /* NULL: nothing is fetched or removed */
    struct timer *progress;
    struct td_sync_event last; /* numbers that were told last */
    uint64_t n_done;
    uint64_t bytes_done; /* without those of downloads */
    bool has_writes;     /* mirror_write's transaction is open */
    bool has_news;       /* a feed told something since work looked */
    bool is_over;        /* the run is */
    struct failure why;  /* of its end */
};

/* Fills in what the caller of td_sync left to us. */
void mirror_defaults(struct td_sync_options *to,
                     const struct td_sync_options *from);

/* False: no memory, and `why` says so. */
bool mirror_init(struct mirror *m, struct td_client *client,
                 const struct td_sync_options *options);
void mirror_fini(struct mirror *m); /* shelf, book and work are the caller's */

/* Ends the run with the first reason that was given. */
void mirror_fail(struct mirror *m, const struct failure *why);
void mirror_fail_book(struct mirror *m);

/* True if there is room for the state and for files on their way. False:
 * mirror_fail was called. */
bool mirror_has_room(struct mirror *m);

/* False: it failed, and mirror_fail was called. */
bool mirror_write(struct mirror *m);
bool mirror_settle(struct mirror *m);

/* Calls on_event, if there is one. `with`: the details, or NULL. */
void mirror_tell(struct mirror *m, enum td_sync_what what,
                 const struct td_sync_event *with);

/* Would the removal of `n` of `n_of` files be too much? Fewer than 100 never
 * are. */
bool mirror_is_too_much(const struct mirror *m, uint64_t n, uint64_t n_of);

/* Files */

/* The way is free for the file of a resource that is not there as far as the
 * book knows: what is there is right (digest and length, a digest must be told)
 * and *is_there is set, or may be ours and is left, or is moved to found/. */
bool mirror_make_way(struct mirror *m, const struct book_resource *resource,
                     bool *is_there);

#endif
