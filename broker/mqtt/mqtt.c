#include "broker/mqtt/mqtt.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/x509_vfy.h>

#include "base/clock.h"
#include "base/file.h"
#include "broker/base/lookup.h"
#include "broker/mqtt/mqtt_client.h"
#include "proto/memory.h"

/* From the name's look-up to CONNACK. */
#define CONNECT_US ((int64_t)10000000)

/* Between two calls of may_connect. */
#define ASK_US ((int64_t)1000000)

static bool
is_stopping(struct mqtt *mqtt)
{
    return atomic_load_explicit(&mqtt->is_stopping, memory_order_acquire);
}

/* A connection, from its beginning to its end */

/* Frees the client without sending its queued packets. It sends no DISCONNECT,
 * so the MQTT broker publishes the last will. */
static void
hang_up(struct mqtt *mqtt)
{
    bool was_connected = mqtt->is_connected;

    if (mqtt->client)
        mosquitto_destroy(mqtt->client);
    mqtt->client = NULL;
    mqtt->is_reached = mqtt->is_connected = false;
    if (was_connected) {
        mqtt->gone_us = clock_steady_us();
        mqtt->options.calls->lost(mqtt->options.user);
    }
}

static void
end_unanswered(struct mqtt *mqtt)
{
    const struct bridge_config *c = mqtt->options.config;

    if (!mqtt->is_reached)
        mqtt_end(mqtt, "cannot connect to %s port %u: no answer", mqtt->address,
                 c->port);
    else if (mqtt_is_shaking(mqtt))
        mqtt_end(mqtt, "TLS: no answer from the MQTT broker to the handshake");
    else
        mqtt_end(mqtt, "no answer from the MQTT broker to CONNECT");
}

/* Tries one address: returns when the MQTT broker has accepted, or the try has
 * ended. TCP must be connected by `reach_us`, and CONNACK arrive by
 * `deadline_us`. */
static void
try_address(struct mqtt *mqtt, const char *address, int64_t reach_us,
            int64_t deadline_us)
{
    struct problem why = {""};
    int64_t end_us;

    mqtt->address = address;
    mqtt->complaint[0] = '\0';
    mqtt->bad_certificate = X509_V_OK;
    mqtt->is_proven = false;
    mqtt->refusal = 0;
    mqtt->limits = (struct mqtt_limits){0};
    if (mqtt_connect(mqtt, &why))
        mqtt_end(mqtt, "%s", why.text);
    while (!mqtt->is_connected && !mqtt->is_ending && mqtt_is_wanted(mqtt)) {
        end_us = mqtt->is_reached ? deadline_us : reach_us;
        if (clock_steady_us() >= end_us)
            end_unanswered(mqtt);
        else
            mqtt_loop(mqtt, end_us);
    }
}

/* Tries the addresses in turn until one can be reached: some may lead nowhere,
 * as "localhost" includes ::1 if the MQTT broker listens on 127.0.0.1. */
static void
try_addresses(struct mqtt *mqtt, const struct lookup_answer *found,
              int64_t deadline_us)
{
    char address[NI_MAXHOST]; /* "127.0.0.1", "fe80::1%eth0" */
    int64_t reach_us;

    for (unsigned i = 0; i < found->n && mqtt_is_wanted(mqtt); i++) {
        const union lookup_address *at = &found->addresses[i];

        reach_us = i + 1 == found->n
                       ? deadline_us
                       : clock_steady_us() + CONNECT_US / (int64_t)found->n;
        mqtt->is_ending = false;
        if (getnameinfo(&at->any, sizeof(*at), address, sizeof(address), NULL,
                        0, NI_NUMERICHOST))
            continue;
        try_address(mqtt, address, mqtt_earlier(reach_us, deadline_us),
                    deadline_us);
        if (mqtt->is_reached || clock_steady_us() >= deadline_us)
            break;
        if (mqtt_is_wanted(mqtt) && i + 1 < found->n)
            hang_up(mqtt);
    }
    mqtt->address = NULL; /* it is in here */
}

/* For lookup.h. */
static void
on_answer(void *mqtt)
{
    mqtt_wake(mqtt);
}

/* Looks up the MQTT broker's host. */
static enum status
find_addresses(struct mqtt *mqtt, struct lookup *l, int64_t deadline_us,
               struct problem *why)
{
    const struct lookup_wish wish = {.host = mqtt->options.config->host};
    struct lookup_box box;
    bool is_there;

    lookup_box_init(&box, on_answer, mqtt);
    lookup_init(l);
    is_there = lookup_begin(l, &box, &wish);
    while (!is_there && mqtt_is_wanted(mqtt) &&
           clock_steady_us() < deadline_us) {
        mqtt_loop(mqtt, deadline_us);
        is_there = lookup_take(&box);
    }
    lookup_cancel(l);
    if (!mqtt_is_wanted(mqtt))
        return STATUS_STOPPED;
    if (!is_there)
        return problem(why, STATUS_IO,
                       "the name server does not say where %s is", wish.host);
    if (l->answer.error)
        return problem(why, STATUS_NOT_FOUND, "no address is known for %s: %s",
                       wish.host, gai_strerror(l->answer.error));
    return STATUS_OK;
}

static void
connect_somewhere(struct mqtt *mqtt)
{
    int64_t deadline_us = clock_steady_us() + CONNECT_US;
    struct lookup l;
    struct problem why = {""};
    enum status rc = find_addresses(mqtt, &l, deadline_us, &why);

    if (rc)
        mqtt_end(mqtt, "%s", why.text);
    else
        try_addresses(mqtt, &l.answer, deadline_us);
}

/* Reads until the MQTT broker has closed the connection, too. The library
 * closes the socket with DISCONNECT. If received data were unread then, as
 * always when messages stream in, TCP would reset the connection, and the MQTT
 * broker would lose packets that it has not read yet: DISCONNECT, and the last
 * acknowledgements. Messages that are read here were not acknowledged, and come
 * again. */
static void
await_close(int fd, int64_t end_us)
{
    struct pollfd in = {fd, POLLIN, 0};
    char bytes[4096];
    int64_t left_us;

    shutdown(fd, SHUT_WR);
    while ((left_us = end_us - clock_steady_us()) > 0 &&
           poll(&in, 1, (int)(left_us / 1000) + 1) > 0 &&
           read(fd, bytes, sizeof(bytes)) > 0)
        ;
}

/* Goes on in rounds until the owner is done. Then sends DISCONNECT: the library
 * closes the socket, and the MQTT broker discards the last will. */
static void
say_farewell(struct mqtt *mqtt)
{
    int64_t end_us = clock_steady_us() + MQTT_FAREWELL_US;
    bool (*farewell)(void *user) = mqtt->options.calls->farewell;
    struct pollfd out = {mosquitto_socket(mqtt->client), POLLOUT, 0};
    int64_t left_us = MQTT_FAREWELL_US;
    int fd;

    while (farewell && !farewell(mqtt->options.user)) {
        if (clock_steady_us() >= end_us)
            break;
        mqtt_loop(mqtt, end_us);
        if (mqtt->is_ending)
            return;
    }
    fd = fcntl(out.fd, F_DUPFD_CLOEXEC, 0);
    mosquitto_disconnect(mqtt->client);
    do {
        mqtt_write(mqtt);
        left_us = end_us - clock_steady_us();
    } while (!mqtt->is_ending && left_us > 0 &&
             poll(&out, 1, (int)(left_us / 1000) + 1) > 0);
    if (fd >= 0) {
        await_close(fd, end_us);
        close(fd);
    }
}

/* From the look-up to the end of the connection. Returns true if it was
 * accepted. */
static bool
run_connection(struct mqtt *mqtt)
{
    bool was_connected;

    mqtt->is_ending = false;
    mqtt_set_condition(mqtt, MQTT_CONNECTING);
    connect_somewhere(mqtt);
    while (mqtt->is_connected && !mqtt->is_ending && mqtt_is_wanted(mqtt))
        mqtt_loop(mqtt, MQTT_NEVER);
    if (mqtt->is_connected && !mqtt->is_ending)
        say_farewell(mqtt);

    was_connected = mqtt->is_connected;
    hang_up(mqtt);
    return was_connected;
}

/* Runs rounds without a connection, at most until `end_us` (steady). */
static void
wait_until(struct mqtt *mqtt, int64_t end_us)
{
    mqtt->is_ending = false;
    while (clock_steady_us() < end_us && mqtt_is_wanted(mqtt))
        mqtt_loop(mqtt, end_us);
}

static void
wait_for_resume(struct mqtt *mqtt)
{
    mqtt->is_ending = false;
    mqtt->why = mqtt->suspended_for;
    mqtt_set_condition(mqtt, MQTT_WAITING);
    while (!mqtt->is_resumed && !is_stopping(mqtt))
        mqtt_loop(mqtt, MQTT_NEVER);
    mqtt->is_suspended = false;
}

static bool
may_connect(struct mqtt *mqtt)
{
    const struct mqtt_options *options = &mqtt->options;

    return !options->calls->may_connect ||
           options->calls->may_connect(options->user);
}

/* The only way back to the beginning goes through a pause, or a suspension. */
static void
run_client(struct thread *t)
{
    struct mqtt *mqtt = t->user;
    bool was_connected;

    while (!is_stopping(mqtt)) {
        if (mqtt->is_suspended) {
            wait_for_resume(mqtt);
            continue;
        }
        if (!may_connect(mqtt)) {
            mqtt_set_condition(mqtt, MQTT_WAITING);
            wait_until(mqtt, clock_steady_us() + ASK_US);
            continue;
        }
        was_connected = run_connection(mqtt);
        if (!mqtt_is_wanted(mqtt))
            continue;
        mqtt_set_condition(mqtt, MQTT_WAITING);
        wait_until(mqtt,
                   clock_steady_us() + mqtt_count_failure(mqtt, was_connected));
    }
    problem_set(&mqtt->why, "the bridge has ended");
    mqtt_set_condition(mqtt, MQTT_WAITING);
}

/* Life cycle */

static void
free_mqtt(struct mqtt *mqtt)
{
    file_close(&mqtt->wake_fd);
    pthread_mutex_destroy(&mqtt->lock);
    free(mqtt);
}

enum status
mqtt_open(struct mqtt **opened, const struct mqtt_options *options,
          struct problem *why)
{
    struct mqtt *mqtt = NULL;
    char name[16];
    int error;
    enum status rc = mqtt_check_files(options->config, why);

    *opened = NULL;
    if (rc)
        return rc;
    mqtt = memory_new(1, sizeof(*mqtt));
    mqtt->options = *options;
    pthread_mutex_init(&mqtt->lock, NULL);
    if (options->suspended)
        mqtt_suspend(mqtt, options->suspended);
    atomic_init(&mqtt->is_woken, false);
    atomic_init(&mqtt->is_stopping, false);
    mqtt->state.since_us = clock_now_us();
    mqtt->gone_us = clock_steady_us();
    mqtt->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (mqtt->wake_fd < 0) {
        rc = problem_errno(why, "cannot make an eventfd for",
                           options->client_id);
        goto fail;
    }
    error = mosquitto_lib_init();
    if (error) {
        rc = problem(why, STATUS_IO, "libmosquitto does not start: %s",
                     mosquitto_strerror(error));
        goto fail;
    }
    snprintf(name, sizeof(name), "mqtt-%s", options->direction);
    *opened = mqtt; /* before the first call to the owner */
    rc = thread_start(&mqtt->thread, name, run_client, mqtt, why);
    if (rc) {
        mosquitto_lib_cleanup();
        goto fail;
    }
    return STATUS_OK;

fail:
    *opened = NULL;
    free_mqtt(mqtt);
    return rc;
}

void
mqtt_wake(struct mqtt *mqtt)
{
    uint64_t one = 1;

    if (atomic_exchange_explicit(&mqtt->is_woken, true, memory_order_acq_rel))
        return;
    while (write(mqtt->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void
mqtt_stop(struct mqtt *mqtt)
{
    if (!mqtt)
        return;
    atomic_store_explicit(&mqtt->is_stopping, true, memory_order_release);
    mqtt_wake(mqtt);
    thread_stop(&mqtt->thread);
}

void
mqtt_close(struct mqtt *mqtt)
{
    if (!mqtt)
        return;
    mqtt_stop(mqtt);
    mosquitto_lib_cleanup();
    free_mqtt(mqtt);
}
