/*
 * renewal.h - when the Resource List and the Resource Dump of a set are built
 * anew: resourceListEvery or resourceDumpEvery after the last one, if the set
 * has changed; because the log no longer reaches back to where that one stands;
 * or because somebody asks for it (orders.h).
 *
 *     due: wants the position that the log has then
 *      |       --the fold comes to it--> held: built, a step at a time, the
 *      |                                 list, then the dump --> current
 *      +-- failed: due again, a minute later
 *
 * A dump is built right behind the list of the same state, so that there is one
 * with the same resources and the same `at`; and only if the content of
 * every resource is there: what is missing is no failure, but waited
 * for.
 *
 * One build at a time; sets take turns, those that are asked for come first.
 * The first list of a set comes a minute after the set began, so that what a
 * source begins with stands in it.
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
#include "broker/archive/folding.h"
#include "broker/archive/orders.h"
#include "broker/archive/turn.h"
#include "broker/log/generations.h"
#include "broker/sets/registry.h"
#include "proto/problem.h"
#include "proto/status.h"

struct build;

struct renewal {
    struct chore chore;
    struct registry *registry;
    struct folding *folding; /* lent */
    /* Likewise; NULL: no set keeps any. */
    struct contents *contents;
    struct orders orders;

    struct set *set;           /* whose state is held; NULL: none is */
    struct build *build;       /* of it; NULL: the next one is to be begun */
    enum generation_kind kind; /* what it is */
    int64_t until_us; /* the content of the held state is waited for no longer
                         than this; steady clock */
    bool has_looked;  /* at the content: once for each state that is held */

    struct turn turn;
    bool is_due; /* there is a turn to be taken */
};

void renewal_init(struct renewal *renewal, struct registry *registry,
                  struct folding *folding, struct contents *contents,
                  struct thread *thread);

/* Hands over an order, which is the renewal's until `done`. Any thread.
 * STATUS_STOPPED: nothing was taken. */
MUST_CHECK enum status renewal_order(struct renewal *renewal,
                                     struct renewal_order *order);

#endif
