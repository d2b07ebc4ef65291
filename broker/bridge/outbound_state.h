/*
 * outbound_state.h - shared declarations of the direction outwards.
 *
 *     outbound            its life, the client's calls, a turn, reports;
 *                         position and status
 *     outbound_messages   makes messages from the log, publishes them, and
 *                         handles their acknowledgements
 *     lane                sets' cursors, what waits for them, their rows in
 *                         mqtt.db
 *
 * A file calls only files below it in this table.
 *
 * A turn:
 *
 *     bridge_rights_renew      if its token has ended
 *     lane_list_look           if sets were created or removed, or its rights
 *                              changed
 *     outbound_messages_make   makes messages of the ready lanes, in one buffer
 *     lane_list_keep           writes their ends in one transaction
 *     flights_send             publishes them only now
 *     retained_send            publishes positions
 *     lane_list_forget         frees lanes whose set and position are gone
 */
#pragma once

#include <pthread.h>

#include "broker/base/metrics.h"
#include "broker/bridge/bridge_rights.h"
#include "broker/bridge/flight_window.h"
#include "broker/bridge/lane.h"
#include "broker/bridge/mqtt_db.h"
#include "broker/bridge/mqtt_topics.h"
#include "broker/bridge/outbound.h"
#include "broker/mqtt/mqtt.h"
#include "broker/readers/marks.h"
#include "proto/resourcesync/vocab.h"

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
    uint64_t private_births; /* of the registry, at the last look */
    int64_t look_at_us;      /* steady: not before that */
    struct watcher watcher;  /* of the lanes */
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
    struct bridge_rights rights;
    struct bridge_row row;
    struct client_id client_id;
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
outbound_count(atomic_uint_least64_t *count, enum metric metric, uint64_t n)
{
    add_relaxed(count, n);
    metrics_add(metric, (int64_t)n);
}

/* outbound_messages.c */

/* Makes messages of the ready lanes. */
void outbound_messages_make(struct outbound *out);

#define FLIGHT_UNACKNOWLEDGED (-1) /* not a reason of MQTT */

/* Publishes any kind of message. *reason: that of its acknowledgement if it
 * came during the call, and the flight is not in the window any more; else
 * FLIGHT_UNACKNOWLEDGED. On failure the flight is released. */
MUST_CHECK enum status flights_publish(struct outbound *out,
                                       const struct mqtt_message *message,
                                       struct flight *flight, int *reason,
                                       struct problem *why);
/* Publishes the messages of this turn. */
void flights_send(struct outbound *out);

/* False in a cluster, if another broker may own the bridges or the progress of
 * this turn is not kept. */
bool outbound_may_publish(const struct outbound *out);
/* Handles the acknowledgement of a message. The flight is no longer in the
 * window's tables, but still in its lane's list or in `others`. */
void flights_acknowledged(struct outbound *out, struct flight *flight,
                          int reason);
