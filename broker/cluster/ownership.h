/*
 * ownership.h - which broker of a cluster does the work that must happen once.
 *
 *     keeper thread    takes leases, renews them every 3 s, gives them back
 *     owner thread     begins the work of a part when this broker has its
 *                      lease, and ends it when it has not
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
 *
 * Work in parts, as the bridges, has a lease and a stream for each. A broker
 * takes parts while it has fewer than its share (share_of), and gives back what
 * is more: it ends the work in order, which writes its last rows, and then the
 * lease. So a part has one owner at most, and what moves in order repeats
 * nothing. The shares of all brokers together are all parts; they change when a
 * broker comes or goes, and only the difference moves. A part that others leave
 * for twice LEASE_US, since they do not know it or cannot begin, goes to any
 * broker, and stays there until the shares change. If all parts have one stream
 * (owned_file.is_shared) the work itself reads it, also without a lease.
 *
 * A broker that is not able to work (cluster_seat.ability) asks for no lease
 * and renews none; it ends its work and gives the leases back. The shares are
 * those of the brokers that are able. One that cannot begin the work of a part,
 * BEGINS_MAX times, leaves it to others for REST_US.
 */
#pragma once

#include <stdatomic.h>

#include "broker/cluster/owned_db.h"
#include "broker/cluster/streams.h"

#define OWNERSHIP_MARGIN_US 1000000

/* How often the lease is renewed, or asked for. */
#define OWNERSHIP_RENEW_US 3000000

/* How many of `n` parts a broker may have, if `n_brokers` (at least 1) live and
 * `n_before` of them have names before its own. Few parts stay where they are,
 * whatever the names. */
static inline uint64_t
share_of(uint64_t n, uint64_t n_brokers, uint64_t n_before)
{
    return n <= n_brokers ? 1 : n / n_brokers + (n_before < n % n_brokers);
}

/* The lease of a part: all of the work, if it is not divided. Only `until_us`
 * is for others. */
struct owned_part {
    struct owned_part *next; /* or NULL */
    struct owned_file file;
    char stream[64]; /* of `file`, and the lease's name */

    /* Between the threads. `until_us` is stored last, with release order: a
     * thread that sees it sees the term to which it belongs. */
    _Atomic(uint64_t) term;
    _Atomic(int64_t) until_us; /* steady clock */
    atomic_bool is_wanted;     /* this broker has such work */
    _Atomic(int) leaving;      /* ownership.c */
    _Atomic(int64_t) rests_us; /* no lease is asked for until then; relaxed */

    /* The keeper's */
    struct lease lease;
    bool is_surplus; /* taken beyond the share */
    bool is_renewed; /* in this round, with this outcome: */
    enum status renewal;

    /* The owner thread's */
    struct lease working; /* term 0: the work has not begun */
    struct ownership_right right;
    bool is_failing;   /* and it was said */
    unsigned n_failed; /* attempts to begin, in a row */
};

struct ownership;

struct ownership_options {
    const struct cluster_seat *seat; /* lent; NULL: this broker is alone, and
                                        owns */

    /* The state of the work, in the data directory `dir`. Its stream has the
     * name of the lease. While another broker owns, the owner thread reads the
     * stream into the file every few seconds. */
    const struct owned_file *file;
    const char *dir;

    /* It has a lease for each part that ownership_divide names. */
    bool is_divided;

    /* `begin` begins the work of a part, by a right that is lent until `end`
     * has returned, when this broker's copy of the log has all that a former
     * owner could know; after a failure it is called again. `end` ends that
     * work. Both on the owner thread; without a seat, once for all, in
     * ownership_start and ownership_stop. Then `end` may come again, or without
     * `begin`. */
    enum status (*begin)(const struct ownership_right *right, void *user,
                         struct problem *why);
    void (*end)(const struct ownership_right *right, void *user);

    /* False while this broker cannot do the work: then it gives its parts back,
     * and asks for none. On the keeper thread; NULL: it always can. */
    bool (*may_own)(void *user);
    void *user;
};

struct ownership *ownership_new(const struct ownership_options *options);

/* Names all parts: their leases and streams are "STREAM/NAME". An owner gives
 * back what is named no more. One thread at a time. */
void ownership_divide(struct ownership *o, const char *const *names, size_t n);

/* Makes the file, and starts the threads; or begins the work, without a seat. A
 * second call does nothing. */
MUST_CHECK enum status ownership_start(struct ownership *o,
                                       struct problem *why);

/* True while this broker owns. Any thread, cheap. */
bool ownership_is_held(const struct owned_part *part);

/* True if the work may have an effect outside now. Any thread, cheap. */
static inline bool
ownership_allows(const struct ownership_right *right)
{
    return !right->part || ownership_is_held(right->part);
}

/* Ends the work, gives the leases back, and ends the threads. A second call
 * does nothing. */
void ownership_stop(struct ownership *o);

/* Calls ownership_stop, closes the streams, and frees. NULL is allowed. */
void ownership_close(struct ownership *o);
