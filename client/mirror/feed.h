/*
 * feed.h - one set, followed into the book.
 *
 *     feed_open --> messages, a transaction each --> on_end
 *          +------> feed_close                  at any moment
 *
 * A message that would remove too much (td_sync_options.max_delete_percent) is
 * not committed: the position stays before it, and the feed ends with
 * TD_REFUSED. What messages before it removed in the same hour is gone.
 */
#ifndef CLIENT_MIRROR_FEED_H
#define CLIENT_MIRROR_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/failure.h"

struct feed;
struct mirror;

struct feed_events {
    /* Something came: the book, or where the feed stands, has changed. */
    void (*on_news)(struct feed *feed, void *user);

    /* It ended by itself. TD_OK: all that had happened is in the book. The feed
     * is freed by whoever opened it, at any time after. */
    void (*on_end)(struct feed *feed, const struct failure *why, void *user);
    void *user;
};

/* `url` names the set, and is where it is followed. It goes on from the
 * position in the book. NULL: `why` says why. */
struct feed *feed_open(struct mirror *m, const char *url, bool until_caught_up,
                       const struct feed_events *events, struct failure *why);
void feed_close(struct feed *feed); /* NULL is allowed */

const char *feed_url(const struct feed *feed);
const char *feed_position(const struct feed *feed); /* "": none yet */

/* Does it read a history at this moment, so that what it tells is soon told
 * otherwise? */
bool feed_is_behind(const struct feed *feed);

/* Did the source say that this was all, for now? */
bool feed_is_current(const struct feed *feed);

/* The number of the feed's set in the book. */
int64_t feed_set(const struct feed *feed);

#endif
