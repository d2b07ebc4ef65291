/*
 * ownership.h - which broker of a cluster does the work that must happen once.
 *
 *     keeper thread    takes the lease, and renews it every 3 s
 *     owner thread     begins the work when this broker has the lease, and ends
 *                      it when it has not
 *
 * The lease of another broker begins LEASE_US after this one's last renewal, at
 * the earliest. This broker counts from the moment before it asked, on its own
 * steady clock, and stops OWNERSHIP_MARGIN_US earlier: ownership_is_held turns
 * false by itself, also in a process that stood still. The work must ask before
 * each effect on the outside. What was begun before that, a call under way, may
 * last longer; then two brokers may make the same call.
 *
 * A clock that stands still while the machine sleeps cannot know. The term,
 * which each row of a stream carries, keeps the state right then (streams.h).
 */
#pragma once

#include "broker/cluster/owned_db.h"
#include "broker/cluster/streams.h"

#define OWNERSHIP_MARGIN_US 1000000

/* How often the lease is renewed, or asked for. */
#define OWNERSHIP_RENEW_US 3000000

struct ownership;

struct ownership_options {
    const struct cluster_seat *seat; /* lent; NULL: this broker is alone, and
                                        owns */

    /* The state of the work, in the data directory `dir`. Its stream has the
     * name of the lease. While another broker owns, the owner thread reads the
     * stream into the file every few seconds. */
    const struct owned_file *file;
    const char *dir;

    /* `begin` begins the work, by a right that is lent until `end` has
     * returned, when this broker's copy of the log has all that a former owner
     * could know; after a failure it is called again. `end` ends the work. Both
     * on the owner thread; without a seat, in ownership_start and
     * ownership_stop. Then `end` may come again, or without `begin`. */
    enum status (*begin)(const struct ownership_right *right, void *user,
                         struct problem *why);
    void (*end)(void *user);
    void *user;
};

struct ownership *ownership_new(const struct ownership_options *options);

/* Makes the file, and starts the threads; or begins the work, without a seat. A
 * second call does nothing. */
MUST_CHECK enum status ownership_start(struct ownership *o,
                                       struct problem *why);

/* True while this broker owns. Any thread, cheap. */
bool ownership_is_held(const struct ownership *o);

/* True if the work may have an effect outside now. Any thread, cheap. */
static inline bool
ownership_allows(const struct ownership_right *right)
{
    return !right->ownership || ownership_is_held(right->ownership);
}

/* Ends the work, gives the lease back, and ends the threads. A second call does
 * nothing. */
void ownership_stop(struct ownership *o);

/* Calls ownership_stop, closes the streams, and frees. NULL is allowed. */
void ownership_close(struct ownership *o);
