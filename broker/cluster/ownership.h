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
#ifndef BROKER_CLUSTER_OWNERSHIP_H
#define BROKER_CLUSTER_OWNERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/cluster/streams.h"
#include "proto/problem.h"
#include "proto/status.h"

#define OWNERSHIP_MARGIN_US 1000000

/* How often the lease is renewed, or asked for. */
#define OWNERSHIP_RENEW_US 3000000

struct ownership;

/* By what right some work goes on; lent. All NULL: this broker is alone. */
struct ownership_right {
    struct streams *streams;           /* for the work alone */
    const struct lease *lease;         /* of the rows that it writes */
    const struct ownership *ownership; /* it has no effect outside without */
};

struct ownership_options {
    /* For the keeper thread, and for the owner thread: the ownership closes
     * them, also if it cannot be opened. */
    struct streams *of_keeper, *of_work;
    const char *name; /* of the lease */

    /* All on the owner thread. `place` is the number of the last record that
     * this broker has: the work begins when its copy has all that a former
     * owner could know. `begin` begins it by a right that is lent until `end`
     * has returned; after a failure it is called again. `end` ends it. `follow`
     * is called every few seconds while another broker owns: the work reads
     * what that one has done. */
    uint64_t (*place)(void *user);
    enum status (*begin)(const struct ownership_right *right, void *user,
                         struct problem *why);
    void (*end)(void *user);
    enum status (*follow)(struct streams *of_work, void *user,
                          struct problem *why);
    void *user;
};

/* Starts the threads. *ownership is set before `begin` can be called. */
MUST_CHECK enum status ownership_open(struct ownership **ownership,
                                      const struct ownership_options *options,
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

/* Calls ownership_stop, and closes the streams. NULL is allowed. */
void ownership_close(struct ownership *o);

#endif
