/*
 * mqtt_client.h - shared declarations of an MQTT Client's files.
 *
 *     mqtt            the thread: looks up, connects, serves, says farewell,
 *                     pauses
 *     mqtt_connect    makes libmosquitto's client: TLS, user, will, properties
 *     mqtt_messages   publishes and receives, with the library's callbacks
 *     mqtt_condition  states, why there is no connection, and the log
 *                     messages of both
 *
 * Everything runs on the client's own thread.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <mosquitto.h>

#include "base/thread.h"
#include "broker/mqtt/mqtt.h"
#include "proto/buf.h"

/* The limits of the MQTT broker, from CONNACK. */
struct mqtt_limits {
    uint32_t packet;      /* bytes; 0: as large as MQTT allows */
    uint16_t receive;     /* Receive Maximum */
    uint16_t keepalive_s; /* Server Keep Alive; 0: ours, or none */
    uint8_t qos;
    bool takes_retained;
};

/* Reasons to remember: the log gets alternating ones only once each. */
#define MQTT_WARNED 4

/* The failures since the last success: a connection that worked, and lasted
 * (mqtt_settle). mqtt_condition.c */
struct mqtt_failures {
    unsigned n;
    unsigned n_cuts; /* connections in a row that were accepted, and cut soon */
    struct problem warned[MQTT_WARNED]; /* reasons logged as warnings, the
                                           newest first; "": none */
    bool is_flapping; /* the last connection was accepted, and was no success */
};

struct mqtt {
    struct thread thread;
    struct mqtt_options options;

    /* eventfd. A waker writes only if `is_woken` was false. The thread clears
     * it before it calls `turn`, so `turn` sees everything that a waker did
     * before. */
    int wake_fd;
    atomic_bool is_woken, is_stopping;

    /* Suspended for this reason; stays so until the connection has ended, even
     * if the owner resumes it during the farewell. */
    bool is_suspended, is_resumed;
    struct problem suspended_for;

    /* The connection */
    struct mosquitto *client; /* NULL: none */
    const char *address;      /* numeric: the address being tried */
    bool is_reached;          /* TCP is connected */
    bool is_connected;        /* CONNACK: accepted */
    bool is_ending;           /* about to be given up, for `why` */
    bool was_shaking;         /* the last read began in the TLS handshake */
    struct problem why;
    struct mqtt_limits limits;
    char complaint[160]; /* the library's first message about an error; "":
                            none */
    int bad_certificate; /* X509_V_ERR_... of the other side's certificate; 0:
                            none */
    bool is_proven;      /* mqtt_prove */
    bool is_settled;     /* it is a success */
    int64_t accepted_us; /* steady: CONNACK */
    int refusal; /* the reason of the last acknowledgement; 0: success */

    /* Reading. Counts the library's callbacks: something happened. */
    unsigned n_heard;
    size_t heard_bytes; /* payloads of this round */
    bool is_logging;    /* on_log reads the library's log, for repeats:
                           mqtt_messages.c */
    bool is_repeat;     /* the PUBLISH being read has the DUP flag */
    struct buf pairs;   /* its user properties */

    /* Writing: packets queued since the library wrote. */
    unsigned n_queued;

    /* Steady clock */
    int64_t turn_us; /* when `turn` wants to be called */
    int64_t misc_us; /* when the library looks at its keepalive again */
    int64_t gone_us; /* when the connection ended */

    struct mqtt_failures failures;

    pthread_mutex_t lock; /* of `state`, for any thread */
    struct mqtt_state state;
};

/* As a time: never. */
#define MQTT_NEVER INT64_MAX

static inline int64_t
mqtt_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How often the library checks whether PINGREQ is due. */
#define MQTT_MISC_US ((int64_t)1000000)

/* mqtt_condition.c */

void mqtt_set_condition(struct mqtt *mqtt, enum mqtt_condition condition);

/* Marks the connection to be given up; the first reason counts. */
void mqtt_end(struct mqtt *mqtt, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* True if the client wants a connection: it neither stops nor is suspended. */
bool mqtt_is_wanted(const struct mqtt *mqtt);

/* True if the TLS handshake is not finished. */
bool mqtt_is_shaking(const struct mqtt *mqtt);

/* Called when CONNACK accepts. */
void mqtt_accepted(struct mqtt *mqtt);

/* Called while the connection lasts, and at its end: forgets all failures, if
 * it has worked and lasted. One that is cut sooner is a failure: two clients
 * with one id, which take over each other's session, would not pause
 * otherwise. */
void mqtt_settle(struct mqtt *mqtt);

/* Called when the connection, or a try, has ended because of mqtt->why. Returns
 * the pause in microseconds. */
int64_t mqtt_count_failure(struct mqtt *mqtt, bool was_connected);

/* Ends the connection (mqtt_end) with a reason made of `rc`, which a call of
 * the library's loop returned, errno as `error`, and the closed socket. */
void mqtt_explain(struct mqtt *mqtt, int rc, int error);

/* Ends the connection after CONNACK refused. `code` is one of MQTT 5, or of
 * 3.1.1 (1 to 5); `text` is the MQTT broker's message; NULL: none. */
void mqtt_refused(struct mqtt *mqtt, int code, const char *text);

/* mqtt_connect.c */

/* Makes mqtt->client and begins to connect it to mqtt->address. Does not block.
 * On failure `why` has the reason. */
MUST_CHECK enum status mqtt_connect(struct mqtt *mqtt, struct problem *why);

/* mqtt_messages.c: sets the library's callbacks. */
void mqtt_listen(struct mqtt *mqtt);
