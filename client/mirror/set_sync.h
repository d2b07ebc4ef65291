/*
 * set_sync.h - one set, followed into the database.
 *
 *     set_sync_open --> messages, a transaction each --> on_end
 *          +------> set_sync_close                  at any moment
 *
 * A message that would remove too much (td_sync_options.max_delete_percent) is
 * not committed: the position stays before it, and the feed ends with
 * STATUS_REFUSED. Earlier messages of that hour may have removed files.
 */
#ifndef CLIENT_MIRROR_SET_SYNC_H
#define CLIENT_MIRROR_SET_SYNC_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/problem.h"

struct set_sync;
struct mirror;

struct set_sync_events {
    /* The database or the feed's position has changed. */
    void (*on_news)(struct set_sync *feed, void *user);

    /* The feed ended by itself. STATUS_OK: the database has every change of the
     * source. The caller of set_sync_open closes it, at any time after. */
    void (*on_end)(struct set_sync *feed, const struct problem *why,
                   void *user);
    void *user;
};

/* Follows the set at `url`, from the position in the database. NULL: `why` says
 * why. */
struct set_sync *set_sync_open(struct mirror *m, const char *url,
                               bool until_caught_up,
                               const struct set_sync_events *events,
                               struct problem *why);
void set_sync_close(struct set_sync *feed); /* NULL is allowed */

const char *set_sync_url(const struct set_sync *feed);
const char *set_sync_position(const struct set_sync *feed); /* "": none yet */

/* True while the feed reads a history: later changes may soon overtake what it
 * reads. */
bool set_sync_is_behind(const struct set_sync *feed);

/* True if the source said that no more changes exist for now. */
bool set_sync_is_current(const struct set_sync *feed);

/* The number of the feed's set in the database. */
int64_t set_sync_set(const struct set_sync *feed);

#endif
