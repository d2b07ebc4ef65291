/*
 * out_inside.h - what the files of the direction outwards share.
 *
 *     out       its life, what the client calls, a turn
 *     lanes     which there are; what the ledger keeps of them; reports
 *     telling   messages: made from the log
 *     envelope  what they say of themselves
 *     flights   those on their way: published, acknowledged, in order
 *     retained  position and status
 *
 * A turn:
 *
 *     lanes_look     if there may be new sets, or fewer
 *     telling_make   messages of those lanes whose turn it is, into one buffer
 *     lanes_keep     where they end, in one transaction
 *     flights_send   only now are they published
 *     retained_send
 */
#ifndef BROKER_BRIDGE_OUT_INSIDE_H
#define BROKER_BRIDGE_OUT_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/marks.h"
#include "broker/bridge/lane.h"
#include "broker/bridge/ledger.h"
#include "broker/bridge/mqtt.h"
#include "broker/bridge/out.h"
#include "broker/bridge/topics.h"
#include "broker/bridge/window.h"
#include "proto/buf.h"
#include "proto/datetime.h"
#include "proto/vocab.h"

#define SECOND_US ((int64_t)1000000)

/* What a turn makes at most before it writes: enough for the window of a
 * usual MQTT broker, and to share a transaction. */
#define TURN_MESSAGES 256
#define TURN_BYTES    ((size_t)1 << 20)

/* Pauses of lanes: 1, 2, 4 ... 32, 60 s. */
#define PAUSES 7

/* A message that was made, and not published yet. */
struct made {
    struct flight *flight;
    size_t offset, size; /* its payload in out->payloads */
    uint64_t after, last;
    int64_t from_us, until_us;
    bool is_change; /* else a notification */
    enum change_kind kind;
};

struct out_counts {
    atomic_uint_least64_t published, acknowledged, refused, left_out, in_flight;
};

struct out {
    struct registry *registry;
    struct ledger *ledger;
    const struct bridge_config *config;
    struct bridge_row row;
    char client_id[sizeof(((struct bridge_config *)0)->client_id) + 32];
    struct topic_name status_topic;
    uint8_t status_reason; /* that it was refused for; 0: it was not */
    struct mqtt *mqtt;

    pthread_mutex_t mutex; /* changes of `lanes` and of lane->set: the thread's,
                              who need not lock to read them */
    struct list lanes;     /* by name */
    size_t n_lanes;

    /* News */
    bool is_watching;
    bool has_looked; /* at all sets: what comes is new */
    struct watch births;
    atomic_bool has_births;
    int64_t look_at_us; /* steady: not before that */
    struct marks marks;

    /* Lanes that wait */
    struct list ready, paused[PAUSES];
    struct list due, resting; /* their positions */

    struct list refused; /* lanes, the longest first; under the mutex */

    /* What the ledger has not */
    struct list unkept;
    bool must_keep, must_be_firm;
    bool is_ledger_failing;
    int64_t keep_at_us; /* steady: by then, or not before then if it fails */
    struct lane_row *rows;
    size_t rows_capacity;

    /* This connection */
    bool takes_retained;
    bool is_proven;
    struct window window;
    unsigned turns_of_positions; /* messages since one, for which they gave way
                                  */

    /* This turn */
    struct buf payloads, position;
    struct made made[TURN_MESSAGES];
    size_t n_made;

    /* An acknowledgement that came before mqtt_publish had returned. */
    bool is_publishing;
    int early_mid, early_reason;

    /* The end */
    int64_t farewell_us; /* steady: when it began; 0: not yet */
    bool is_offline_sent, is_offline_told, has_stopped;

    struct out_counts counts;
};

static inline void
out_count(atomic_uint_least64_t *count, uint64_t n)
{
    atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

/* out.c */

/* Its turn will come, unless it is paused. */
void out_ready(struct lane *lane);
/* Not before a pause; `failures` tells how long. */
void out_pause(struct lane *lane);
/* All it has under way is made again. */
void out_rewind(struct lane *lane);
/* The MQTT broker refuses what is told of it, or, 0, does no more. */
void out_refused(struct lane *lane, int reason);
/* Takes the marks: nobody is in the stack from then on but who is marked
 * later. */
void out_take_marks(struct out *out);

/* Publishes, whatever it is; acknowledged early or not. Not OK: the flight is
 * released. */
MUST_CHECK enum status out_publish(struct out *out,
                                   const struct mqtt_message *message,
                                   struct flight *flight, struct problem *why);

/* lanes.c */

/* What the ledger has; then looks. Where lanes begin is kept firmly, or it
 * fails. */
MUST_CHECK enum status lanes_learn(struct out *out, struct problem *why);
/* Looks at all sets: which are new, which are gone. */
void lanes_look(struct out *out);
/* Hears of their commits from now on. */
void lanes_watch(struct out *out);
void lanes_unwatch(struct out *out);
/* The ledger is to have it. */
void lanes_note(struct lane *lane);
/* Writes what was noted, if it is time. */
void lanes_keep(struct out *out, int64_t now_us);
/* Its set is gone and its position, too. */
void lanes_forget(struct lane *lane);
void lanes_free(struct out *out);

/* telling.c */

/* Into out->made and out->payloads, for the lanes that are ready. */
void telling_make(struct out *out);

/* envelope.c */

#define ENVELOPE_PROPERTIES  6
#define ENVELOPE_NUMBER_SIZE 21 /* 2^64 - 1 and a NUL */

struct envelope {
    struct mqtt_message message; /* its payload is the caller's; what it lends
                                    is below, or the lane's */
    struct topic_name topic;
    struct mqtt_property properties[ENVELOPE_PROPERTIES];
    char after[ENVELOPE_NUMBER_SIZE], last[ENVELOPE_NUMBER_SIZE];
    char from[DATETIME_SIZE + 1], until[DATETIME_SIZE + 1];
};

void envelope_write(struct envelope *e, const struct lane *lane,
                    const struct made *made);
/* The largest payload, whatever it will cover: its numbers and times are taken
 * to be as long as they get. */
size_t envelope_room(const struct lane *lane, const struct made *made);

/* flights.c */

/* A message that is to be sent, or an entry that is passed over, in its turn.
 * NULL: no memory. */
struct flight *flights_add(struct lane *lane, uint64_t upto, size_t bytes);
/* Takes what is done off the front: up to there the lane is acknowledged. */
void flights_advance(struct lane *lane);
/* Publishes what was made. */
void flights_send(struct out *out);
/* The flight is in none of the window's tables any more, but in its lane's
 * list, or the others'. */
void flights_acknowledged(struct out *out, struct flight *flight, int reason);

/* retained.c */

/* A connection: the status, and all positions. */
void retained_connected(struct out *out);
/* Its position is another. */
void retained_note(struct lane *lane);
void retained_send(struct out *out, int64_t now_us);
void retained_acknowledged(struct out *out, struct flight *flight, int reason);
/* The end: positions now, then "offline". True: that is told. */
bool retained_farewell(struct out *out, int64_t now_us);

#endif
