/*
 * build_schedule.h - schedules new Resource Lists and Resource Dumps of a set.
 * One is due resourceListEvery or resourceDumpEvery after the last one, if the
 * set has changed; when the log no longer reaches back to the position of the
 * last one; or by an order.
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
 * One build at a time; the clients that have made the sets take turns, and so
 * do the sets of each; ordered builds come first. The first list of a set
 * follows a minute after the set began, so that it has the resources with which
 * a source begins.
 *
 * In a cluster a commit orders the list (head.h); each broker then builds it
 * when its state is there.
 *
 * Archive thread, orders excepted.
 */
#pragma once

#include <pthread.h>

#include "base/thread.h"
#include "broker/archive/chore.h"
#include "broker/archive/contents.h"
#include "broker/archive/state_fold.h"
#include "broker/log/head.h"
#include "broker/sets/registry.h"

struct build;

/* An order for a build: of a kind, of a set, at a position or behind it.
 *
 *     submit --> [taken, waiting] --> done: answered, or refused
 */
struct build_order {
    struct list node; /* the schedule's */
    struct set *set;
    enum generation_kind kind;
    uint64_t wanted;  /* the build must stand for this seq, or a later one */
    int64_t until_us; /* of the steady clock: no longer than this */
    struct authority *authority; /* lent; the order ends with it; or NULL */

    /* The outcome. STATUS_AGAIN: the time is over, but the build goes on;
     * STATUS_GONE: the set was removed, or its state is not whole;
     * STATUS_NOT_FOUND: content for the build is missing; STATUS_BUSY: a full
     * disk; STATUS_DENIED; STATUS_STOPPED. Else `generation` is current. */
    enum status status;
    struct problem why;
    struct generation generation;
    uint64_t missing; /* STATUS_NOT_FOUND: the content of so many resources */
    void (*done)(struct build_order *order); /* archive thread */
};

struct build_schedule {
    struct chore chore;
    struct registry *registry;
    struct state_fold *folding; /* lent */
    /* Lent; NULL: no set keeps content. */
    struct contents *contents;
    struct thread *thread; /* the archive thread: to be woken; lent */

    struct {
        pthread_mutex_t mutex; /* over both */
        struct list submitted; /* those not taken yet */
        bool is_ended;

        struct list waiting; /* the others */
    } orders;

    struct set *set;           /* state is held; NULL: no set's is */
    struct set *behind;        /* of a cluster: it has got a list, and may lack
                                  more lists here; or NULL */
    struct build *build;       /* of the set; NULL: begin the next one */
    enum generation_kind kind; /* of the build */
    uint64_t number;           /* of the build, in a cluster */
    int64_t until_us; /* until then the dump waits for the content of the held
                         state; steady clock */
    bool has_looked;  /* at the content, once for each held state */
    struct turn turn, ordered;
    bool may_commit; /* as of the last look: in a cluster, it is not cut off,
                        and no reader */
};

void build_schedule_init(struct build_schedule *schedule,
                         struct registry *registry, struct state_fold *folding,
                         struct contents *contents, struct thread *thread);

/* Submits an order; the schedule owns it until `done`. Any thread.
 * STATUS_STOPPED: the order was not taken. */
MUST_CHECK enum status build_schedule_order(struct build_schedule *schedule,
                                            struct build_order *order,
                                            struct problem *why);
