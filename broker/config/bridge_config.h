/*
 * bridge_config.h - the configuration of a bridge to an MQTT broker: a section
 * of the file (--config), or --mqtt.
 *
 *     [mqtt NAME]
 *     url = mqtts://mqtt.example.org:8883
 *     user = tidings
 *     password-file = /etc/tidings/mqtt.password
 *     as = plant
 *     out = *
 *     in = plant/+/changes -> plant
 *     in = library/# -> books
 *
 * Its keys are rows like those of config.c, with the same kinds of values.
 * `url` and one of `out` and `in` are required; only `out` and `in` may be
 * repeated, because a line of the file has a greatest length (config.h).
 */
#pragma once

#include "base/clock.h"
#include "proto/problem.h"

/* Each has up to two threads. */
#define BRIDGES_MAX 16

#define BRIDGE_NAME_MAX  32
#define BRIDGE_INPUT_MAX 64 /* keys `in` of one bridge */

enum bridge_version { BRIDGE_MQTT_5, BRIDGE_MQTT_311 };

/* The form of messages, and their topics. */
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
    unsigned line;                  /* line of the section; 0: --mqtt */

    char as[65]; /* name of the token whose rights the bridge has, or
                    "everyone"; "": all rights, but no private set goes out */

    char url[512]; /* mqtt://HOST[:PORT] or mqtts://..., without a path */
    char host[256];
    unsigned port; /* default 1883, 8883 */
    bool is_tls;

    char user[256];           /* "": none */
    char password_file[4096]; /* its first line; "": none */
    char ca[4096];            /* PEM; "": those of the system */
    char cert[4096];          /* PEM: the client's; "": none */
    char key[4096];
    char client_id[128]; /* "-out", "-in" are added; "": made (mqtt_db.h) */
    enum bridge_version version;
    int64_t keepalive_us;  /* whole seconds, 5 to 65535 */
    struct backoff retry;  /* of the connection */
    uint64_t inflight;     /* messages not acknowledged, 1 to 65535 */
    uint64_t packet_bytes; /* largest packet that the bridge sends */

    char prefix[256]; /* of topics, without a slash at its end */

    /* Out */
    char out[4096];       /* "*": all sets; names, commas between; "": none */
    bool begins_at_start; /* a set that is older than the bridge is published
                             from its earliest change, not from its head */
    int qos;              /* 0, 1 or 2 */
    enum bridge_form form;
    unsigned publish;     /* enum bridge_publish */
    char public_url[512]; /* the MQTT broker's URL in documents; "": its url;
                             "none": they do not name it */

    /* In */
    struct bridge_input *inputs; /* the config's; NULL: none */
    size_t n_inputs;
};

/* All bridges of a configuration, as they were read: they never change. */
struct bridging {
    const struct bridge_config *all;
    size_t n;
};

/* True if both sections have the same values, wherever they are. */
bool bridge_is_same(const struct bridge_config *a,
                    const struct bridge_config *b);

/* True if the bridge publishes the set. */
bool bridge_publishes(const struct bridge_config *bridge, const char *set);

/* The place of a bridge, for problems: "[mqtt NAME]", "--mqtt". */
struct bridge_place {
    char text[BRIDGE_NAME_MAX + 16];
};

struct bridge_place bridge_place(const struct bridge_config *bridge);

/* config.c makes bridges by bridging_add, bridge_read for each key,
 * bridge_check; and bridging_check at the end. STATUS_INVALID: a problem
 * of a value has no key and place, as with option_read. */

/* The keys of a section. */
extern const struct options bridge_options;

/* Appends a bridge with name, place and defaults to an array, which may be
 * NULL. STATUS_INVALID: the name, or there are BRIDGES_MAX. */
MUST_CHECK enum status bridging_add(struct bridge_config **bridges, size_t *n,
                                    struct slice name, unsigned line,
                                    struct problem *why);
void bridging_free(struct bridge_config *bridges, size_t n);

/* Sets url, host, port, is_tls of a struct bridge_config. The problem never
 * quotes a user or password. */
MUST_CHECK enum status bridge_read_url(const char *text, void *values,
                                       struct problem *why);

/* Checks that the section is complete, and its keys agree. *key: the one with
 * the problem; NULL: none in particular. */
MUST_CHECK enum status bridge_check(const struct bridge_config *bridge,
                                    const char **key, struct problem *why);

/* Checks that the bridges agree with each other. `path`: their file; the
 * problem names line and section. */
MUST_CHECK enum status bridging_check(const struct bridge_config *bridges,
                                      size_t n, const char *path,
                                      struct problem *why);
