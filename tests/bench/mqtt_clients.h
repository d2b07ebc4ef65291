/*
 * mqtt_clients.h - clients of libmosquitto that do one thing and nothing else.
 */
#ifndef TESTS_BENCH_MQTT_CLIENTS_H
#define TESTS_BENCH_MQTT_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>

#include <mosquitto.h>

/* The load of the plain loop: MQTT 5, QoS 1. */
struct mqtt_load {
    unsigned port; /* of the MQTT broker, on this machine */
    const char *topic;
    const char *payload;
    size_t size;
    unsigned messages;
    unsigned inflight;
    bool has_properties; /* such as the bridge's: a content type and six pairs
                            of strings */
};

/* Sends the load and waits until all of it is acknowledged. */
void mqtt_send(const struct mqtt_load *load);

/* Ends the program if `rc` of the library is not 0. */
void mqtt_must(int rc);

/* Returns a client whose subscription at QoS 1 was granted; `on_message` is
 * called with `user`. For mosquitto_loop. */
struct mosquitto *
mqtt_subscriber(unsigned port, const char *filter, void *user,
                void (*on_message)(struct mosquitto *client, void *user,
                                   const struct mosquitto_message *message));

#endif
