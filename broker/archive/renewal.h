/*
 * renewal.h - schedules new Resource Lists and Resource Dumps of a set. One is
 * due resourceListEvery or resourceDumpEvery after the last one, if the set has
 * changed; when the log no longer reaches back to the position of the last one;
 * or by an order (orders.h).
 *
 *     due: wants the position that the log has then
 *      |       --the fold comes to it--> held: built, a step at a time, the
 *      |                                 list, then the dump --> current
 *      +-- failed: due again, a minute later
 *
 * The archive thread builds a dump right after the list of the same state, so
 * that both have the same resources and the same `at`. It needs the
 * content of every resource: missing content is no failure, the dump
 * waits for it.
 *
 * One build at a time; sets take turns, ordered builds come first. The first
 * list of a set follows a minute after the set began, so that it has the
 * resources with which a source begins.
 *
 * Archive thread, orders excepted.
 */
#ifndef BROKER_ARCHIVE_RENEWAL_H
#define BROKER_ARCHIVE_RENEWAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/thread.h"
#include "broker/archive/chore.h"
#include "broker/archive/contents.h"
#include "broker/archive/orders.h"
#include "broker/archive/state_fold.h"
#include "broker/archive/turn.h"
#include "broker/log/head.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/status.h"

struct build;

struct renewal {
    struct chore chore;
    struct registry *registry;
    struct state_fold *folding; /* lent */
    /* Lent; NULL: no set keeps content. */
    struct contents *contents;
    struct orders orders;

    struct set *set;           /* state is held; NULL: no set's is */
    struct build *build;       /* of the set; NULL: begin the next one */
    enum generation_kind kind; /* of the build */
    int64_t until_us; /* until then the dump waits for the content of the held
                         state; steady clock */
    bool has_looked;  /* at the content, once for each held state */

    struct turn turn;
    bool is_due; /* a turn is pending */
};

void renewal_init(struct renewal *renewal, struct registry *registry,
                  struct state_fold *folding, struct contents *contents,
                  struct thread *thread);

/* Submits an order; the renewal owns it until `done`. Any thread.
 * STATUS_STOPPED: the order was not taken. */
MUST_CHECK enum status renewal_order(struct renewal *renewal,
                                     struct renewal_order *order);

#endif
