/*
 * outbound_state.h - shared declarations of the direction outwards.
 *
 *     outbound            its life, the client's calls, a turn, reports
 *     lane_list           sets come and go; rows in mqtt.db
 *     outbound_messages   makes messages from the log
 *     envelope            describes messages: topic, type, properties
 *     retained_positions  position and status
 *     flights             messages on their way: published, acknowledged
 *     lane                a set's cursor, and what waits for it
 *
 * A file calls only files below it in this table.
 *
 * A turn:
 *
 *     lane_list_look           if sets were created or removed
 *     outbound_messages_make   makes messages of the ready lanes, in one buffer
 *     lane_list_keep           writes their ends in one transaction
 *     flights_send             publishes them only now
 *     retained_send            publishes positions
 *     lane_list_forget         frees lanes whose set and position are gone
 */
#ifndef BROKER_BRIDGE_OUTBOUND_STATE_H
#define BROKER_BRIDGE_OUTBOUND_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "broker/bridge/flight_window.h"
#include "broker/bridge/lane.h"
#include "broker/bridge/mqtt_db.h"
#include "broker/bridge/mqtt_topics.h"
#include "broker/bridge/outbound.h"
#include "broker/mqtt/mqtt.h"
#include "broker/readers/watch.h"
#include "proto/buf.h"
#include "proto/datetime.h"
#include "proto/vocab.h"

#define SECOND_US ((int64_t)1000000)

/* The most that a turn makes before it writes: enough for the window of a usual
 * MQTT broker, and to share a transaction. */
#define TURN_MESSAGES 256
#define TURN_BYTES    ((size_t)1 << 20)

/* Pauses of lanes: 1, 2, 4 ... 32, 60 s. */
#define PAUSES 7

/* A message that was made, and not published yet. */
struct outbound_message {
    struct flight *flight;
    size_t offset, size; /* its payload in turn.payloads */
    uint64_t after, last;
    int64_t from_us, until_us;
    bool is_change; /* else a notification */
    enum change_kind kind;
};

/* Sets and entries that are new since the last look. */
struct outbound_news {
    bool is_watching;
    bool has_looked; /* at all sets: later sets are new */
    struct watch births;
    atomic_bool has_births;
    int64_t look_at_us;     /* steady: not before that */
    struct watcher watcher; /* of the lanes */
};

/* A lane waits in one of the first three, its position in one of the last
 * two. */
struct outbound_queues {
    struct list ready, paused[PAUSES], leaving;
    struct list due, resting;
};

/* Rows that mqtt.db does not have. */
struct unkept_rows {
    struct list lanes;
    bool must_keep, must_be_firm;
    bool is_failing;
    int64_t keep_at_us; /* steady: write by then; after a failure not before
                           then */
    struct lane_row *rows;
    size_t capacity;
};

struct outbound_turn {
    struct buf payloads, position;
    struct outbound_message made[TURN_MESSAGES];
    size_t n_made;
};

/* An acknowledgement that comes during mqtt_publish. */
struct early_acknowledgement {
    bool is_open; /* mqtt_publish is running */
    int mid, reason;
};

/* "offline", at the end. */
struct farewell {
    int64_t begun_us; /* steady; 0: not yet */
    bool is_sent, is_acknowledged;
};

struct outbound_counts {
    atomic_uint_least64_t published, acknowledged, refused, left_out, in_flight;
};

struct outbound {
    struct registry *registry;
    struct mqtt_db *db;
    const struct bridge_config *config;
    struct bridge_row row;
    char client_id[sizeof(((struct bridge_config *)0)->client_id) + 32];
    struct topic_name status_topic;
    uint8_t status_reason; /* of the refusal of the status; 0: none */
    struct mqtt *mqtt;

    pthread_mutex_t mutex; /* locks changes of `lanes` and of lane->set. Only
                              the bridge's thread makes them, and it reads both
                              without the lock */
    struct list lanes;     /* by name */
    struct list refused;   /* lanes, longest refusal first; under the mutex */

    struct outbound_news news;
    struct outbound_queues queues;
    struct unkept_rows unkept;

    /* This connection */
    bool takes_retained;
    bool is_proven;
    struct flight_window window;
    unsigned turns_of_positions; /* messages since the last position: positions
                                    give way to them */
    struct early_acknowledgement early;

    struct outbound_turn turn;
    struct farewell farewell;
    bool has_stopped;
    struct outbound_counts counts;
};

static inline void
outbound_count(atomic_uint_least64_t *count, uint64_t n)
{
    atomic_fetch_add_explicit(count, n, memory_order_relaxed);
}

/* lane_list.c */

/* Reads the lanes from mqtt.db, then looks at all sets. Fails if mqtt.db cannot
 * keep the beginnings of lanes firmly. */
MUST_CHECK enum status lane_list_learn(struct outbound *out,
                                       struct problem *why);
/* Looks at all sets for new and removed ones. */
void lane_list_look(struct outbound *out);
/* Watches the logs of all sets from now on. */
void lane_list_watch(struct outbound *out);
void lane_list_unwatch(struct outbound *out);
/* Writes the noted rows, if it is time. */
void lane_list_keep(struct outbound *out, int64_t now_us);
/* Frees the lanes that leave, and their rows. */
void lane_list_forget(struct outbound *out);
void lane_list_free(struct outbound *out);

/* outbound_messages.c */

/* Makes messages of the ready lanes. */
void outbound_messages_make(struct outbound *out);

/* envelope.c */

#define ENVELOPE_PROPERTIES  6
#define ENVELOPE_NUMBER_SIZE 21 /* 2^64 - 1 and a NUL */

struct envelope {
    struct mqtt_message message; /* the caller sets its payload; it lends from
                                    the members below, and from the lane */
    struct topic_name topic;
    struct mqtt_property properties[ENVELOPE_PROPERTIES];
    char after[ENVELOPE_NUMBER_SIZE], last[ENVELOPE_NUMBER_SIZE];
    char from[DATETIME_SIZE + 1], until[DATETIME_SIZE + 1];
};

void envelope_write(struct envelope *e, const struct lane *lane,
                    const struct outbound_message *made);
/* The largest payload, whatever the message covers: assumes numbers and times
 * of the greatest length. */
size_t envelope_room(const struct lane *lane,
                     const struct outbound_message *made);

/* flights.c */

#define FLIGHT_UNACKNOWLEDGED (-1) /* not a reason of MQTT */

/* Adds a flight to the lane, in order: a message to send, or an entry to pass
 * over. NULL: no memory. */
struct flight *flights_add(struct lane *lane, uint64_t upto, size_t bytes);
/* Removes finished flights from the front, and moves the lane's cursor behind
 * them. */
void flights_advance(struct lane *lane);
/* Publishes any kind of message. *reason: that of its acknowledgement if it
 * came during the call, and the flight is not in the window any more; else
 * FLIGHT_UNACKNOWLEDGED. On failure the flight is released. */
MUST_CHECK enum status flights_publish(struct outbound *out,
                                       const struct mqtt_message *message,
                                       struct flight *flight, int *reason,
                                       struct problem *why);
/* Publishes the messages of this turn. */
void flights_send(struct outbound *out);
/* Handles the acknowledgement of a message. The flight is no longer in the
 * window's tables, but still in its lane's list or in `others`. */
void flights_acknowledged(struct outbound *out, struct flight *flight,
                          int reason);

/* retained_positions.c */

/* After a connection was made: publishes the status, and all positions. */
void retained_connected(struct outbound *out);
/* Publishes positions that are due, as many as give way to messages. */
void retained_send(struct outbound *out, int64_t now_us);
/* Handles the acknowledgement of a status or a position; releases the
 * flight. */
void retained_acknowledged(struct outbound *out, struct flight *flight,
                           int reason);
/* At the end: publishes positions, then "offline". Returns true when all is
 * published. */
bool retained_farewell(struct outbound *out, int64_t now_us);

#endif
