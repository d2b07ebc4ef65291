/*
 * mqtt_inside.h - what the files of an MQTT Client share.
 *
 *     mqtt            the thread: connects, serves, says farewell, pauses
 *     mqtt_round      a round of it
 *     mqtt_condition  states, and what operators are told of them
 *     mqtt_connect    makes libmosquitto's client: TLS, user, will, properties
 *     mqtt_messages   what is published and received, the library's callbacks
 *     mqtt_explain    why there is no connection, in words
 *     mqtt_reason     the reasons of MQTT 5
 *
 * All of the client's own thread.
 */
#ifndef BROKER_BRIDGE_MQTT_INSIDE_H
#define BROKER_BRIDGE_MQTT_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <mosquitto.h>

#include "base/thread.h"
#include "broker/bridge/mqtt.h"

/* What the MQTT broker allows: CONNACK. */
struct mqtt_limits {
    uint32_t packet;      /* bytes; 0: as large as MQTT allows */
    uint16_t receive;     /* Receive Maximum */
    uint16_t keepalive_s; /* Server Keep Alive; 0: ours, or none */
    uint8_t qos;
    bool takes_retained;
};

/* Reasons that come by turns are told once each, if they are not more. */
#define MQTT_WARNED 4

struct mqtt {
    struct thread thread;
    struct mqtt_options options; /* its texts, but the config's, are ours */
    char *client_id, *will_topic, *will_payload;

    /* eventfd. A wake writes only if `is_woken` was false, the thread makes it
     * so before it calls `turn`: what a waker did before is seen there. */
    int wake_fd;
    atomic_bool is_woken, is_stopping;

    /* The connection */
    struct mosquitto *client; /* NULL: none */
    const char *address;      /* numeric: where it is tried */
    bool is_reached;          /* TCP */
    bool is_connected;        /* CONNACK: accepted */
    bool is_ending;           /* to be given up, because of ... */
    struct problem why;
    struct mqtt_limits limits;
    char complaint[160]; /* what the library said first of an error; "": none */
    int bad_certificate; /* X509_V_ERR_... of the other side's; 0: none */
    bool is_proven;
    int refusal; /* of what was acknowledged last; 0: it was taken */

    /* What was heard. Calls of the library's callbacks: something happened. */
    unsigned n_heard;
    size_t heard_bytes; /* payloads of this round */
    bool is_logging;    /* the library's log tells repeats: mqtt_messages.c */
    bool is_repeat;     /* the PUBLISH that is being read has the DUP flag */

    /* What is said: packets that were queued since the library wrote. */
    unsigned n_queued;

    /* Steady clock */
    int64_t turn_us; /* when `turn` wants to be called */
    int64_t misc_us; /* when the library looks at its keepalive again */
    int64_t gone_us; /* since when there is no connection */

    unsigned failures; /* since something was achieved */
    /* What was told as a warning since all was well, the newest first; "":
     * nothing. */
    struct problem warned[MQTT_WARNED];
    bool is_flapping; /* the last one was accepted, and ended without that
                         anything was achieved on it */

    pthread_mutex_t lock; /* of `state`: any thread */
    struct mqtt_state state;
};

/* Of times: there is none. */
#define MQTT_NEVER INT64_MAX

static inline int64_t
mqtt_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How often the library may look whether it is time for a PINGREQ. */
#define MQTT_MISC_US ((int64_t)1000000)

/* mqtt_round.c */

/* Waits until something happens, at most until `end_us` (steady), and does what
 * mqtt.h promises of a round. `fd`: another one to wait for; -1: none. */
void mqtt_round(struct mqtt *mqtt, int64_t end_us, int fd);

/* Writes what is queued, as much as goes. */
void mqtt_speak(struct mqtt *mqtt);

/* mqtt_condition.c */

void mqtt_set_condition(struct mqtt *mqtt, enum mqtt_condition condition);

/* The connection is to be given up; the first reason counts. */
void mqtt_end(struct mqtt *mqtt, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* CONNACK said so. */
void mqtt_accepted(struct mqtt *mqtt);

/* The connection, or the try, has ended because of mqtt->why. How long to
 * pause, in microseconds. */
int64_t mqtt_count_failure(struct mqtt *mqtt, bool was_connected);

/* mqtt_connect.c */

/* Makes mqtt->client and begins to connect it to mqtt->address: does not block.
 * Without one, `why` says why. */
MUST_CHECK enum status mqtt_connect(struct mqtt *mqtt, struct problem *why);

/* Is the TLS handshake not finished? */
bool mqtt_is_shaking(const struct mqtt *mqtt);

/* libmosquitto's own beginning and end in the process, counted. */
MUST_CHECK enum status mqtt_library_begin(struct problem *why);
void mqtt_library_end(void);

/* mqtt_messages.c: sets the library's callbacks. */
void mqtt_listen(struct mqtt *mqtt);

/* mqtt_explain.c */

/* What a call of the library's loop that returned `rc`, errno being `error`,
 * and the closed socket, say about the end: mqtt_end. */
void mqtt_explain(struct mqtt *mqtt, int rc, int error);

/* CONNACK refused. `code`: of MQTT 5, or of 3.1.1 (1 to 5). `text`: what the
 * MQTT broker says besides; NULL: nothing. */
void mqtt_refused(struct mqtt *mqtt, int code, const char *text);

/* DISCONNECT of the MQTT broker. */
void mqtt_dismissed(struct mqtt *mqtt, int code);

#endif
