/*
 * lane.h - a set's cursor in a bridge: its acknowledged position, the messages
 * on their way behind it, and the messages to repeat.
 *
 *     acked       made       begun                  the set's head
 *       |          |           |                          |
 *   ----+----------+-----------+------+------+------------+
 *       |<----- ends[0 .. n_begun) -->|<- ends[n_begun .. n) : of messages that
 *       |     messages in flight      |   were begun before, and are made again
 *
 * `begun` moves to the end of the last message. `made` follows it if the bridge
 * publishes each change as a message, too. `acked` moves when all messages up
 * to an end are acknowledged. After the end of a connection or the refusal of a
 * message the lane goes back to `acked`. mqtt.db keeps `ends` with it, so
 * repeated messages end in the same places.
 *
 * A lane waits in one queue or in none.
 *
 *     none --wake--> ready --its turn--> none: no entries are left
 *                     ^ |
 *                     | +--> paused: refused, or its log could not be read
 *                     +---------+    its time has come
 *
 *     none --its set was removed, and its position--> leaving --> freed
 *
 * A lane is withheld while the bridge has no right to publish its set
 * (bridge_rights.h): it keeps its cursor, and goes on from there. While the
 * bridge waits for its token, its lanes stay as they were; it has no
 * connection then.
 *
 * It also notes when its row in mqtt.db or its published position is out of
 * date.
 *
 * The bridge's thread owns a lane, but the log thread marks it
 * (readers/marks.h), and other threads read `acked` and `set` under out->mutex.
 */
#pragma once

#include "broker/bridge/mqtt_db.h"
#include "broker/readers/marks.h"
#include "broker/sets/registry.h"
#include "proto/resourcesync/digest.h"
#include "proto/resourcesync/position.h"

struct outbound;

/* The retained position of a lane: outbound.c. */
struct lane_position {
    struct list node;  /* in out->queues.due or .resting */
    int64_t rested_us; /* steady: when it may be published again */
    uint8_t reason;    /* of the MQTT broker's refusal; 0: none */
    bool is_due;       /* it was not published yet */
    bool is_resting;   /* it was published less than a second ago */
    bool is_clearing;  /* the MQTT broker must forget the position: the set
                          is gone, or private and withheld */
    bool is_cleared;   /* the MQTT broker has forgotten it, of a set that
                          exists */
};

struct lane {
    struct list node;    /* out->lanes, by name */
    struct list queue;   /* in one of out->queues, or in none */
    struct list unkept;  /* in out->unkept: mqtt.db's row is missing or out
                            of date */
    struct list flights; /* in order */
    struct list refused; /* in out->refused: the MQTT broker refuses its
                            messages */

    struct outbound *out;
    struct set *set;            /* NULL: it was removed */
    struct watched_log watched; /* the set's log */

    uint64_t *ends; /* from first_end on: growing, all > acked */
    size_t first_end, n_ends, n_begun, ends_capacity;

    uint32_t failures; /* refusals in a row */
    int64_t resume_us; /* steady: end of the pause */

    _Atomic(uint64_t) acked; /* relaxed: reports read it */
    uint64_t begun, made_upto;
    struct digest made_digest; /* d(made_upto), if it is known */

    char epoch[EPOCH_SIZE + 1]; /* head.origin of its set */
    uint8_t reason;             /* of the MQTT broker's refusal; 0: none; under
                       out->mutex */
    bool has_made_digest;
    bool is_there;    /* the last look at all sets found it */
    bool is_kept;     /* mqtt.db has a row */
    bool is_withheld; /* it has a set, without the right to publish that; under
                         out->mutex */
    bool is_older;    /* than the bridge, says the set's clock: without a row it
                         would begin at the set's head */
    bool is_unseen;   /* it is withheld, and of a private set that the bridge
                         never had the right to publish: neither the MQTT
                         broker nor mqtt.db has the name */
    struct lane_position position;
    char name[];
};

/* For DIAG: which lane a line is about. */
#define LANE_KEYS(lane)                             \
    diag_text("bridge", (lane)->out->config->name), \
        diag_text("set", (lane)->name)

/* The end that the next message must have, because it had it before;
 * UINT64_MAX: any. */
uint64_t lane_next_end(const struct lane *lane);

/* Notes a message that ends at `last`. *is_new: a new end. */
MUST_CHECK enum status lane_begin(struct lane *lane, uint64_t last,
                                  bool *is_new);

/* Notes that messages for all entries up to `upto` were made; `digest` is
 * d(upto). */
void lane_note_made(struct lane *lane, uint64_t upto,
                    const struct digest *digest);

/* Notes that everything up to `upto` is acknowledged. */
void lane_move(struct lane *lane, uint64_t upto);

/* Passes over entries up to `upto`, which cannot be published. */
void lane_pass(struct lane *lane, uint64_t upto);

/* Goes back to `acked`: everything behind it is made again. Its messages in
 * flight no longer belong to it. */
void lane_rewind(struct lane *lane);

/* Puts a lane into the ready queue, unless it is paused. */
void lane_ready(struct lane *lane);
/* Pauses a lane; `failures` determines how long. */
void lane_pause(struct lane *lane);
/* Notes that mqtt.db does not have the lane's row as it is. */
void lane_note(struct lane *lane);
/* Notes that the published position is not the lane's. */
void lane_note_position(struct lane *lane);
/* Notes that the MQTT broker refuses the lane's messages, for this reason; 0:
 * not any more. */
void lane_set_refused(struct lane *lane, int reason);

/* The lanes of a bridge */

/* Reads the lanes from mqtt.db, then looks at all sets. Fails if mqtt.db cannot
 * keep the beginnings of lanes firmly. */
MUST_CHECK enum status lane_list_learn(struct outbound *out,
                                       struct problem *why);
/* Looks at all sets for new and removed ones, and those that the bridge has the
 * right to publish. */
void lane_list_look(struct outbound *out);
/* Has the positions of private sets removed, because the bridge waits for its
 * token. */
void lane_list_hide(struct outbound *out);
/* Watches the logs of all sets from now on. */
void lane_list_watch(struct outbound *out);
void lane_list_unwatch(struct outbound *out);
/* Writes the noted rows, if it is time. */
void lane_list_keep(struct outbound *out, int64_t now_us);
/* Frees the lanes that leave, and their rows. */
void lane_list_forget(struct outbound *out);
void lane_list_free(struct outbound *out);

static inline uint64_t
lane_acked(const struct lane *lane)
{
    return load_relaxed(&lane->acked);
}
