/*
 * order.h - the order of commits: that of the rounds of this broker, or one
 * that several brokers share (journal.h).
 *
 *     log thread                          with a journal
 *       order_begin    the time of the    waits for the turn, or presumes to
 *                      round              have it
 *       (stamps its posts)
 *       order_append   nothing            adds the record of the round
 *       (commits)
 *       order_settle   nothing            the copy is one record further
 *       (publishes)
 *       order_release  nothing            ends a turn that had no record
 *
 * The copy of the journal is *certain up to a moment* if it has all records
 * that the journal kept before: then no client can have heard of more, at any
 * broker. Two threads find that out: the log thread with each turn, and the
 * follower with each look. A broker whose journal gives no turn or answers no
 * look is *cut off*: it refuses posts, and what it serves may be old.
 *
 *     log thread: a turn ---------+--> order_note -----> order_is_certain
 *     follower: a look at the end-+    order_cut_off         for readers
 */
#pragma once

#include <pthread.h>

#include "broker/log/act.h"
#include "broker/log/engine.h"
#include "broker/log/journal.h"
#include "broker/log/log.h"
#include "broker/log/record.h"

struct order {
    const struct log_options *options; /* lent */

    pthread_mutex_t mutex;      /* guards the next ones */
    struct journal_place place; /* of the last commit that is in the journal;
                                   the log thread, which writes it, reads it
                                   without the mutex */
    bool is_certain;            /* the copy was, once, in this process */
    enum copy_state wrong;      /* why it cannot follow the journal any more */
    enum copy_state look;       /* what the last look came to */
    bool is_answering;          /* the journal did, at the last look */
    int64_t certain_us;         /* up to then; steady clock */
    int64_t past_us;  /* of a journal: later records have later times */
    int64_t round_us; /* the time of a round under way without the turn; 0 */
    uint64_t end;     /* the last known record of the journal */

    int64_t since_us; /* cut off, or not any more */

    struct order_cut {  /* what the journal does not give: */
        atomic_bool is; /* relaxed: a thread sees it soon enough */
        struct problem why;
        int64_t at_us; /* since then; steady clock */
    } cuts[3];         /* by enum order_cut_kind; none hides another one */

    /* The log thread's. */
    bool has_turn; /* or presumes to have it: */
    bool is_presumed;
    int64_t turn_us;           /* when it asked for the turn; steady clock */
    bool is_different;         /* this copy and the journal do not agree */
    bool is_denied;            /* the journal gave no turn, and it was said */
    struct buf record;         /* of the round */
    struct bulk bulk;          /* of a round that is repeated */
    struct journal_place next; /* to which that leads */
    size_t n_together;         /* posts of the last round with a turn */
    int64_t append_us;         /* how long the journal took to keep it */
};

/* Cut off, until the journal has answered. `place` is set already. */
void order_init(struct order *order, const struct log_options *options);

/* The log thread's */

/* Begins a round, and returns its time: the journal's with the turn, else that
 * of the clock. `needs_turn`: it has posts that other brokers must know of.
 * `follow` gets the records before the turn. Without a turn, `why` says why. */
int64_t order_begin(struct order *order, bool needs_turn,
                    journal_take_fn *follow, void *user, struct problem *why);

/* With the turn, adds the acts of the round to the journal, which ends the
 * turn, and sets commit->place and is_ahead; if all acts are local they stay as
 * they are. STATUS_CONFLICT: another broker was first. STATUS_BUSY: it is not
 * kept. STATUS_IO: no memory of this process may go on. */
MUST_CHECK enum status order_append(struct order *order, struct engine *engine,
                                    struct commit *commit, struct problem *why);

/* The engine's commit has ended with `rc`; completes the reason. */
void order_settle(struct order *order, const struct commit *commit,
                  enum status rc, struct problem *why);

/* The engine has the record at the place of the copy, as these bytes. */
void order_keep(struct order *order, struct slice record);

/* Ends the turn, if the round still has it. */
void order_release(struct order *order);

/* Readers see what the round committed. */
void order_end(struct order *order);

/* Any thread's */

/* The copy has all records that were kept before `us` (steady clock), and
 * readers see them. Later ones have later times than `past_us`; 0: as far as
 * was known. */
void order_note(struct order *order, int64_t us, int64_t past_us);

/* What the last look came to, for readers: STATUS_OK; STATUS_DIFFERENT, another
 * history, and STATUS_GONE, the journal has forgotten what the copy needs: both
 * until the next STATUS_OK; STATUS_BUSY, STATUS_UNSUPPORTED: there are records
 * that this copy does not get. */
void order_note_look(struct order *order, enum status rc);

/* The journal has `end` records, or more: it answers. */
void order_note_end(struct order *order, uint64_t end);

/* The journal gives no records, until order_note; or no turns, until it gives
 * one; or no right to write for others. Posts need the first two. `why` NULL:
 * it does. */
enum order_cut_kind { CUT_RECORDS, CUT_TURNS, CUT_RIGHTS };

void order_cut_off(struct order *order, enum order_cut_kind kind,
                   const struct problem *why);

/* True if the copy has all records that were kept before `us` (steady clock),
 * or there is no journal. */
bool order_is_certain(struct order *order, int64_t us);

/* See log_copy. `latest_us`: the last event time of any set. */
void order_copy(struct order *order, int64_t latest_us, struct log_copy *copy);
