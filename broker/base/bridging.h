/*
 * bridging.h - the configuration of a bridge to an MQTT broker: a section of
 * the file (--config), or --mqtt.
 *
 *     [mqtt NAME]
 *     url = mqtts://mqtt.example.org:8883
 *     user = tidings
 *     password-file = /etc/tidings/mqtt.password
 *     out = *
 *     in = plant/+/changes -> plant
 *     in = library/# -> books
 *
 * Its keys are rows like those of config.c, with the same kinds of values.
 * `out` or `in` must be there; only `in` may be there more than once.
 */
#ifndef BROKER_BASE_BRIDGING_H
#define BROKER_BASE_BRIDGING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each has up to two threads. */
#define BRIDGES_MAX 16

#define BRIDGE_NAME_MAX  32
#define BRIDGE_INPUT_MAX 64 /* keys `in` of one bridge */

enum bridge_version { BRIDGE_MQTT_5, BRIDGE_MQTT_311 };

/* What a message is made of, and on which topics. */
enum bridge_form { BRIDGE_JSON, BRIDGE_XML };

enum bridge_publish {
    BRIDGE_NOTIFICATIONS = 1, /* bits */
    BRIDGE_CHANGES = 2
};

/* FILTER -> SET: messages there become posts to it. */
struct bridge_input {
    char filter[256];
    char set[65]; /* a set's name, or "+": the level at the filter's first + */
};

struct bridge_config {
    char name[BRIDGE_NAME_MAX + 1]; /* a-z 0-9 _ -; of --mqtt: "mqtt" */
    unsigned line;                  /* where the section stands; 0: --mqtt */

    char url[512]; /* mqtt://HOST[:PORT] or mqtts://..., nothing behind it */
    char host[256];
    unsigned port; /* default 1883, 8883 */
    bool is_tls;

    char user[256];           /* "": none */
    char password_file[4096]; /* its first line; "": none */
    char ca[4096];            /* PEM; "": those of the system */
    char cert[4096];          /* PEM: the client's; "": none */
    char key[4096];
    char client_id[128]; /* "-out", "-in" are added; "": made (records.h) */
    enum bridge_version version;
    int64_t keepalive_us;   /* whole seconds, 5 to 65535 */
    int64_t retry_first_us; /* pause after the first failure; doubles */
    int64_t retry_max_us;
    uint64_t inflight;     /* messages not acknowledged, 1 to 65535 */
    uint64_t packet_bytes; /* largest packet that is sent */

    char prefix[256]; /* of topics, without a slash at its end */

    /* Out */
    char out[4096];       /* "*": all sets; names, commas between; "": none */
    bool begins_at_start; /* a set that is older than the bridge is told from
                             its earliest change, not from where it is */
    int qos;              /* 0, 1 or 2 */
    enum bridge_form form;
    unsigned publish;     /* enum bridge_publish */
    char public_url[512]; /* what documents call the MQTT broker; "": its url;
                             "none": they do not name it */

    /* In */
    struct bridge_input *inputs; /* the config's; NULL: none */
    size_t n_inputs;
};

/* Does a bridge tell of the set? */
bool bridge_tells(const struct bridge_config *bridge, const char *set);

#endif
