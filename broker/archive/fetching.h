/*
 * fetching.h - what sets with content=fetch miss is fetched: which of it when,
 * and what becomes of it.
 *
 *     missing, due --its host has room--> fetched (fetcher.h)
 *      ^    ^                               |
 *      |    +-- our own trouble: no room ---+
 *      |                                    +-- whole: placed, kept
 *      +-- failed: later, a limited --------+
 *          number of times                  \-- hopeless: given up for ever
 *
 * Hopeless is what is not what was told (a later version: its own entry tells
 * of that), 404 and 410, and whatever else will not be another time. The pause
 * after a failure doubles; Retry-After makes it longer. A host that is in
 * trouble, or fails some times in a row, is left alone for such a pause, too,
 * whatever else is missing of it; that costs the others no try.
 *
 * What is under way is known to this process only: after its end all that is
 * missing is missing still, and what had arrived is cleared.
 *
 * Archive thread; the fetcher has its own.
 */
#ifndef BROKER_ARCHIVE_FETCHING_H
#define BROKER_ARCHIVE_FETCHING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/thread.h"
#include "broker/archive/chore.h"
#include "broker/archive/contents.h"
#include "broker/archive/fetcher.h"
#include "broker/archive/turn.h"
#include "broker/sets/registry.h"
#include "proto/address.h"

/* What is known of hosts, by a hash of host and port. Two that share a place
 * share its fate, which costs one of them time. */
#define FETCHING_HOSTS 4096

struct fetching {
    struct chore chore;
    struct registry *registry;
    struct contents *contents;
    struct thread *thread; /* the archive thread: to be woken */
    struct fetcher *fetcher;
    struct list under_way; /* fetches */
    unsigned n;

    struct fetch_host {
        unsigned n;        /* under way */
        bool is_full;      /* no more of it before half of them are over */
        unsigned failures; /* in a row */
        int64_t rest_us;   /* not before; steady clock */
    } hosts[FETCHING_HOSTS];

    uint32_t seed, random;
    int64_t rest_us; /* nothing before: our own trouble; steady clock */
    struct turn turn;
    bool is_due;   /* there is a turn to be taken */
    bool is_again; /* a set had more to be kept than one step could take */
};

/* Before the archive thread begins: threads have the priority of the one that
 * makes them. `allowed`, `contents`, `thread`: lent as long as it lives. */
MUST_CHECK enum status
fetching_open(struct fetching *fetching, struct registry *registry,
              struct contents *contents, const struct networks *allowed,
              struct thread *thread, struct problem *why);

#endif
