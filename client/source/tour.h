/*
 * tour.h - all sets of a source: found, opened, closed, and opened again.
 *
 *     look --> sets ----> rounds.h --> on_open ... tour_ended --> on_close
 *      ^   \-> missed --> on_trouble       ^                         |
 *      +-- later: sets that came since     +--- the next visit ------+
 *
 * A tour numbers the sets of a source from 0, in the order in which discovery
 * finds them. It says when to open and close each set; its owner reads the set
 * in between. A tour asks a source that is away again after growing pauses.
 * Neither an unreadable document nor a set that fails keeps other sets from
 * being opened; tour_why reports both.
 *
 * With is_once, a tour visits each set once. Otherwise it streams the first
 * sets, visits the others again and again, and looks for new sets from time to
 * time.
 */
#ifndef CLIENT_SOURCE_TOUR_H
#define CLIENT_SOURCE_TOUR_H

#include <stdbool.h>
#include <stddef.h>

#include "client/lib/client.h"
#include "client/lib/failure.h"
#include "client/source/discover.h"

struct tour;

/* None of these may free the tour. */
struct tour_events {
    /* The first look has found the sets. False: the owner has ended. */
    bool (*on_found)(void *user);

    /* The turn of a set. `is_visit`: until it has caught up; else for ever.
     * False: `why` says why, and the tour is over. */
    bool (*on_open)(size_t set, bool is_visit, struct failure *why, void *user);

    /* After tour_ended: the set is left alone until on_open. */
    void (*on_close)(size_t set, void *user);

    /* Reports a set that failed, or a document that cannot be read, by its
     * `url`. NULL: the source is away; the tour asks it again in `pause_ms`. */
    void (*on_trouble)(const char *url, const char *why, unsigned pause_ms,
                       void *user);

    /* Sets were opened or closed, or tour_turn was called. */
    void (*on_turn)(void *user);

    /* The tour is over because of `why`: no set was found, or one could not be
     * opened. Called once, if at all. */
    void (*on_end)(const struct failure *why, void *user);
};

struct tour_plan {
    const char *url; /* lent */
    bool is_once;
    unsigned poll_ms;     /* between visits of a set, and between looks; 0: a
                             minute */
    unsigned patience_ms; /* is_once: how long a source may be away */
};

/* NULL: no memory. Nothing is called before it returns. */
struct tour *tour_start(struct td_client *client, const struct tour_plan *plan,
                        const struct tour_events *events, void *user);
void tour_free(struct tour *tour); /* NULL is allowed */

size_t tour_count(const struct tour *tour);
const char *tour_url(const struct tour *tour, size_t set);
bool tour_has(const struct tour *tour, const char *url);

/* Moves out the links that a look found for a set, so that its owner need not
 * look again. False: they were moved before. */
bool tour_take_offered(struct tour *tour, size_t set, struct offered *offered);

/* True if the source names documents that cannot be read. */
bool tour_misses(const struct tour *tour);

/* A set that is open has ended: with TD_OK, it has caught up. A visit to a set
 * that is away is made again. */
void tour_ended(struct tour *tour, size_t set, const struct failure *why);

/* Calls on_turn soon. */
void tour_turn(struct tour *tour);

/* True if no set is opened any more. */
bool tour_is_over(const struct tour *tour);

/* True if a set was never opened yet. */
bool tour_is_new(const struct tour *tour);

/* TD_OK: all sets are covered. Else how many are not, and why the first is not.
 */
enum td_status tour_why(const struct tour *tour, struct failure *why);

#endif
