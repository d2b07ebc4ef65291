/*
 * lane.h - a set's cursor in a bridge: how far the MQTT broker has
 * acknowledged, what is on its way behind that, and what is to be sent again.
 *
 *     acked       told       begun                  the set's head
 *       |          |           |                          |
 *   ----+----------+-----------+------+------+------------+
 *       |<----- ends[0 .. n_begun) -->|<- ends[n_begun .. n) : of messages that
 *       |     messages in flight      |   were begun before, and are made again
 *
 * `begun` moves when a message is made; `told` behind it, where there is a
 * message for each change besides; `acked` when all are acknowledged up to an
 * end. Who goes back, for a connection that ended or a message that was
 * refused, goes to `acked`: `ends` stay. They are what the ledger keeps with
 * it, and the reason why what is told again is cut in the same places.
 *
 * Where it waits: in one queue or in none.
 *
 *     none --wake--> ready --its turn--> none: nothing was there
 *                     ^ |
 *                     | +--> paused: refused, or its log could not be read
 *                     +---------+    its time has come
 *
 * The thread's of the bridge, but `mark`, which the log thread sets; `acked`
 * and `set` are read by others under out->mutex.
 */
#ifndef BROKER_BRIDGE_LANE_H
#define BROKER_BRIDGE_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/marks.h"
#include "broker/bridge/ledger.h"
#include "broker/log/cursor.h"
#include "broker/sets/registry.h"
#include "proto/hash.h"
#include "proto/position.h"
#include "proto/slice.h"
#include "proto/status.h"

struct out;

struct lane {
    struct list node;    /* out->lanes, by name */
    struct list queue;   /* ready or paused */
    struct list told;    /* retained: its position is due, or rests */
    struct list unkept;  /* the ledger has another row, or none */
    struct list flights; /* in order */
    struct list refused; /* out->refused: the MQTT broker refuses it */

    struct out *out;
    struct set *set; /* NULL: it was removed */
    struct watch watch;
    struct mark mark; /* there is something in its log: base/marks.h */

    uint64_t *ends; /* from first_end on: growing, all > acked */
    uint32_t first_end, n_ends, n_begun, ends_capacity;

    uint32_t failures; /* in a row */
    int64_t resume_us; /* steady: end of the pause */
    int64_t rested_us; /* steady: its position may be told again then */

    _Atomic(uint64_t) acked; /* relaxed: it is told to operators */
    uint64_t begun, told_upto;
    struct digest told_digest; /* d(told_upto), if it is known */

    char epoch[EPOCH_SIZE + 1];
    uint8_t reason; /* that it was refused for; 0: none; under out->mutex */
    uint8_t position_reason; /* the same of its position */
    bool has_told_digest;
    bool is_there;    /* the last look at all sets found it */
    bool is_kept;     /* the ledger has a row */
    bool is_due;      /* its position is another than what is told */
    bool is_resting;  /* was told less than a second ago */
    bool is_clearing; /* its set is gone, and so is to be its position: on its
                         way */
    char name[];
};

/* NULL: no memory. Nothing is known yet but its name. */
struct lane *lane_new(struct out *out, struct slice name);

/* In no list but out->lanes, which it leaves; it has no set. */
void lane_free(struct lane *lane);

/* Takes what the ledger has. */
MUST_CHECK enum status lane_take_row(struct lane *lane,
                                     const struct lane_row *row);

/* A row for the ledger; lends. */
struct lane_row lane_row(const struct lane *lane);

/* From here on, with nothing begun. */
void lane_start(struct lane *lane, const char *epoch, uint64_t acked);

/* Where the next message has to end, as it did before; UINT64_MAX: where it
 * likes. */
uint64_t lane_next_end(const struct lane *lane);

/* A message was made that ends at `last`. *is_new: it is an end that was not
 * there before. */
MUST_CHECK enum status lane_begin(struct lane *lane, uint64_t last,
                                  bool *is_new);

/* Messages for all entries up to `upto` were made; the digest there. */
void lane_tell(struct lane *lane, uint64_t upto, const struct digest *digest);

/* Everything up to `upto` is acknowledged. */
void lane_move(struct lane *lane, uint64_t upto);

/* Entries up to `upto` cannot be told. */
void lane_pass(struct lane *lane, uint64_t upto);

/* Everything behind `acked` is to be made again. */
void lane_rewind(struct lane *lane);

static inline uint64_t
lane_acked(const struct lane *lane)
{
    return atomic_load_explicit(&lane->acked, memory_order_relaxed);
}

#endif
