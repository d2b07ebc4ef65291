/*
 * feed.h - one set, followed into the book.
 *
 *     feed_open --> messages, a transaction each --> on_end
 *          +------> feed_close                  at any moment
 *
 * A message that would remove too much (td_sync_options.max_delete_percent) is
 * not committed: the position stays before it, and the feed ends with
 * STATUS_REFUSED. Earlier messages of that hour may have removed files.
 */
#ifndef CLIENT_MIRROR_FEED_H
#define CLIENT_MIRROR_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/problem.h"

struct feed;
struct mirror;

struct feed_events {
    /* The book or the feed's position has changed. */
    void (*on_news)(struct feed *feed, void *user);

    /* The feed ended by itself. STATUS_OK: the book has every change of the
     * source. The caller of feed_open closes it, at any time after. */
    void (*on_end)(struct feed *feed, const struct problem *why, void *user);
    void *user;
};

/* Follows the set at `url`, from the position in the book. NULL: `why` says
 * why. */
struct feed *feed_open(struct mirror *m, const char *url, bool until_caught_up,
                       const struct feed_events *events, struct problem *why);
void feed_close(struct feed *feed); /* NULL is allowed */

const char *feed_url(const struct feed *feed);
const char *feed_position(const struct feed *feed); /* "": none yet */

/* True while the feed reads a history: later changes may soon overtake what it
 * reads. */
bool feed_is_behind(const struct feed *feed);

/* True if the source said that no more changes exist for now. */
bool feed_is_current(const struct feed *feed);

/* The number of the feed's set in the book. */
int64_t feed_set(const struct feed *feed);

#endif
