/*
 * mqtt_peer_inside.h - what mqtt_peer.c (the test's thread) and
 * mqtt_peer_thread.c (the peer's own, with its connection) share, and nobody
 * else.
 */
#ifndef TESTS_SUPPORT_MQTT_PEER_INSIDE_H
#define TESTS_SUPPORT_MQTT_PEER_INSIDE_H

#include <pthread.h>

#include <mosquitto.h>

#include "tests/support/mqtt_peer.h"

/* A saying of ours: copied, with its properties made. */
struct said {
    char *topic;
    char *payload;
    int size;
    bool is_retained;
    mosquitto_property *properties;
    int mid; /* on the connection at hand */
};

struct mqtt_peer {
    const struct mosquittod *broker;
    struct mqtt_joining join;
    struct mqtt_hearing hearing; /* of those that hear */
    bool is_telling;
    struct mosquitto *client; /* the thread's */
    int wake;                 /* eventfd */
    pthread_t thread;

    /* Under the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t news; /* grows with whatever is of interest */
    bool is_stopping, is_away;
    bool is_connected; /* and its filters are granted */
    bool is_refused;   /* or one of its filters is */
    unsigned connections;
    char why[200]; /* the last failure */

    struct mqtt_heard **heard;
    size_t n_heard;

    struct said *sayings;
    size_t n_sayings, n_begun, n_acked, n_refused;
};

/* Room for one more of an array that has `n`: doubles at powers of two. */
void *mqtt_peer_grow(void *array, size_t n, size_t size);

/* The thread. */
void *mqtt_peer_run(void *user);

#endif
