/*
 * fetch_schedule.h - fetches the missing content of sets with content=fetch:
 * schedules each fetch, and stores or reports its result.
 *
 *     missing, due --its host has room--> fetched (content_download.h)
 *      ^    ^                               |
 *      |    +-- our own trouble: no room ---+
 *      |                                    +-- whole: placed, kept
 *      +-- failed: later, a limited --------+
 *          number of times                  \-- hopeless: given up for ever
 *
 * A fetch is hopeless if the bytes do not match the entry (a later version has
 * an entry of its own), after 404 and 410, and where no later attempt can
 * succeed. The pause after a failure doubles; Retry-After makes it longer. The
 * broker also lets a host rest for such a pause if it is in trouble, or fails
 * some times in a row. The rest costs its other missing content no try.
 *
 * In a cluster one broker fetches: the owner of the hub. What comes of a fetch
 * is a record (content_fact), so that all brokers have the bytes and the same
 * rows. A new owner may repeat what the former one had under way.
 *
 * Only this process knows the fetches under way: after its end the same content
 * is still missing, and the next process deletes the bytes that had arrived.
 *
 * Archive thread; the fetcher has its own.
 */
#pragma once

#include "base/thread.h"
#include "broker/archive/chore.h"
#include "broker/archive/content_download.h"
#include "broker/archive/contents.h"
#include "broker/calls/call_history.h"
#include "broker/sets/registry.h"
#include "proto/http/network_address.h"

/* Notes about hosts, by a hash of host and port and of the client that has made
 * the set: what one client makes of a host costs the others nothing. Two with
 * the same hash share a place and its pauses, which costs one of them time. */
#define FETCH_SCHEDULE_HOSTS 4096

struct fetch_schedule {
    struct chore chore;
    struct registry *registry;
    struct contents *contents;
    struct thread *thread; /* the archive thread: to be woken */
    struct content_download *fetcher;
    struct list under_way; /* fetches */
    unsigned n;

    struct fetch_host {
        unsigned n;        /* under way */
        bool is_full;      /* no more fetches before half are over */
        unsigned failures; /* in a row */
        struct call_history calls;
        int64_t rest_us; /* not before; steady clock */
    } hosts[FETCH_SCHEDULE_HOSTS];

    uint32_t seed;   /* of the hash of hosts */
    int64_t rest_us; /* nothing before: our own trouble; steady clock */
    struct turn turn;
};

/* Before the archive thread begins: threads have the priority of the one that
 * makes them. `allowed`, `contents`, `thread`: lent as long as it lives. */
MUST_CHECK enum status
fetch_schedule_open(struct fetch_schedule *fetching, struct registry *registry,
                    struct contents *contents, const struct networks *allowed,
                    struct thread *thread, struct problem *why);
