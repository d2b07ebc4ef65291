/*
 * tour.h - all sets of a source: found, opened, closed, and opened again.
 *
 *     look --> sets ----> rounds.h --> on_open ... tour_ended --> on_close
 *      ^   \-> missed --> on_trouble       ^                         |
 *      +-- later: sets that came since     +--- the next visit ------+
 *
 * Whoever follows a source has a number for each of its sets, from 0 in the
 * order in which they were found, and does with an open set what it wants; a
 * tour says when. A source that is away is asked again after growing pauses.
 * What it names and cannot be read, and a set that fails, keep no other set
 * from being opened; tour_why tells of them.
 *
 * A tour that is made once visits each set once. Another one streams the first
 * sets, visits the others again and again, and looks from time to time for sets
 * that the source has since.
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

    /* What is not covered, once for each: `url` is the set's, or what could not
     * be read; of a source that is away, NULL, and the milliseconds until it is
     * asked again. */
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

/* Moves what a look has found of a set, so that its owner need not look again.
 * False: it was moved before. */
bool tour_take_offered(struct tour *tour, size_t set, struct offered *offered);

/* True if the source names what could not be read. */
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
