#include "broker/bridge/mqtt.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "broker/base/backoff.h"
#include "broker/base/clock.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/bridge/mqtt_inside.h"
#include "broker/bridge/resolve.h"

/* From the name's look-up to CONNACK. */
#define CONNECT_US ((int64_t)10000000)

/* How often the library may look whether it is time for a PINGREQ. */
#define MISC_US ((int64_t)1000000)

/* What a round reads at most, so that whoever sends without end does not keep
 * `turn` from its turn, nor us from a bounded memory. */
#define ROUND_PACKETS 4096
#define ROUND_BYTES   ((size_t)8 << 20)

/* Reads that bring nothing while the other side has hung up. */
#define IDLE_READS 16

#define NEVER INT64_MAX

static bool
is_stopping(struct mqtt *mqtt)
{
    return atomic_load_explicit(&mqtt->is_stopping, memory_order_acquire);
}

static int64_t
earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* States */

/* The only place that changes the state. */
static void
set_condition(struct mqtt *mqtt, enum mqtt_condition condition)
{
    struct mqtt_state *s = &mqtt->state;
    bool was_connected;

    pthread_mutex_lock(&mqtt->lock);
    was_connected = s->condition == MQTT_CONNECTED;
    if (was_connected != (condition == MQTT_CONNECTED))
        s->since_us = clock_now_us();
    s->condition = condition;
    if (condition == MQTT_CONNECTED) {
        s->connections++;
        s->why.text[0] = '\0';
    } else if (condition == MQTT_WAITING) {
        s->why = mqtt->why;
    }
    pthread_mutex_unlock(&mqtt->lock);

    if (was_connected)
        metrics_add(METRIC_MQTT_CONNECTED, -1);
    if (condition == MQTT_CONNECTED) {
        metrics_add(METRIC_MQTT_CONNECTED, 1);
        metrics_add(METRIC_MQTT_CONNECTIONS, 1);
    }
}

void
mqtt_end(struct mqtt *mqtt, const char *format, ...)
{
    va_list arguments;

    if (mqtt->is_ending)
        return;
    mqtt->is_ending = true;
    mqtt->turn_us = 0; /* it may have missed a wake */
    va_start(arguments, format);
    vsnprintf(mqtt->why.text, sizeof(mqtt->why.text), format, arguments);
    va_end(arguments);
}

/* What operators are told */

static void
tell_connected(struct mqtt *mqtt)
{
    const struct bridge_config *c = mqtt->options.config;
    int64_t gone_us = clock_steady_us() - mqtt->gone_us;

    DIAG(DIAG_INFO, "bridge", "connected to the MQTT broker",
         diag_text("bridge", c->name),
         diag_text("direction", mqtt->options.direction),
         diag_text("url", c->url),
         diag_number("after_s", (uint64_t)(gone_us / 1000000)));
    memset(mqtt->warned, 0, sizeof(mqtt->warned));
}

/* Was it told since all was well? It is now. */
static bool
is_news(struct mqtt *mqtt, const struct problem *why)
{
    for (size_t i = 0; i < MQTT_WARNED; i++)
        if (!strcmp(mqtt->warned[i].text, why->text))
            return false;
    memmove(mqtt->warned + 1, mqtt->warned,
            (MQTT_WARNED - 1) * sizeof(mqtt->warned[0]));
    mqtt->warned[0] = *why;
    return true;
}

/* A warning once for each reason: whoever tries again twice a minute would say
 * the same all night. An MQTT broker that accepts and then cuts each time is
 * not what is meant by "all is well": tell_connected is left to mqtt_prove. */
static void
tell_failure(struct mqtt *mqtt, bool was_connected, int64_t pause_us)
{
    const struct bridge_config *c = mqtt->options.config;

    DIAG(is_news(mqtt, &mqtt->why) ? DIAG_WARNING : DIAG_DEBUG, "bridge",
         was_connected ? "the connection to the MQTT broker was lost"
                       : "cannot connect to the MQTT broker",
         diag_text("bridge", c->name),
         diag_text("direction", mqtt->options.direction),
         diag_text("url", c->url), diag_text("reason", mqtt->why.text),
         diag_number("again_in_ms", (uint64_t)(pause_us / 1000)));
}

void
mqtt_accepted(struct mqtt *mqtt)
{
    mqtt->is_connected = true;
    mqtt->misc_us = clock_steady_us() + MISC_US;
    set_condition(mqtt, MQTT_CONNECTED);
    if (!mqtt->is_flapping)
        tell_connected(mqtt);
}

void
mqtt_prove(struct mqtt *mqtt)
{
    if (mqtt->is_proven || !mqtt->is_connected)
        return;
    mqtt->is_proven = true;
    mqtt->is_flapping = false;
    mqtt->failures = 0;
    if (mqtt->warned[0].text[0])
        tell_connected(mqtt);
}

void
mqtt_drop(struct mqtt *mqtt, const struct problem *why)
{
    if (mqtt->client)
        mqtt_end(mqtt, "%s", why->text);
}

/* A round */

/* What to wait for. While TLS shakes hands the library would have us wait for
 * being able to write, for ever, after it once was not; OpenSSL knows better.
 * The same later, if it is stuck in the middle of a write. */
static short
wanted(const struct mqtt *mqtt)
{
    SSL *ssl = mosquitto_ssl_get(mqtt->client);

    if (!mqtt->is_reached)
        return POLLOUT;
    if (mqtt_is_shaking(mqtt))
        return SSL_want_write(ssl) ? POLLOUT : POLLIN | POLLRDHUP;
    if (mosquitto_want_write(mqtt->client) && (!ssl || SSL_want_write(ssl)))
        return POLLIN | POLLRDHUP | POLLOUT;
    return POLLIN | POLLRDHUP;
}

/* Bytes that OpenSSL has read already wake no poll. */
static bool
has_unread(const struct mqtt *mqtt)
{
    SSL *ssl = mqtt->client ? mosquitto_ssl_get(mqtt->client) : NULL;

    return ssl && mosquitto_socket(mqtt->client) >= 0 && SSL_pending(ssl) > 0;
}

/* Waits until something is to be done, at most until `end_us`. Returns what has
 * happened to the socket. `fd`: another one to wait for; -1: none. */
static short
await(struct mqtt *mqtt, int64_t end_us, int fd)
{
    struct pollfd fds[2] = {{mqtt->wake_fd, POLLIN, 0}, {fd, POLLIN, 0}};
    int64_t until_us = earlier(end_us, mqtt->turn_us);
    int64_t wait_us;
    uint64_t wakes;
    int wait_ms = -1;

    if (mqtt->client) {
        fds[1].fd = mosquitto_socket(mqtt->client);
        fds[1].events = wanted(mqtt);
    }
    if (mqtt->is_connected)
        until_us = earlier(until_us, mqtt->misc_us);
    if (has_unread(mqtt)) {
        wait_ms = 0;
    } else if (until_us != NEVER) {
        wait_us = until_us - clock_steady_us();
        wait_ms = wait_us <= 0              ? 0
                  : wait_us >= 3600000000ll ? 3600000
                                            : (int)((wait_us + 999) / 1000);
    }
    if (poll(fds, 2, wait_ms) < 0)
        return 0; /* EINTR: a round more */
    if (fds[0].revents && read(mqtt->wake_fd, &wakes, sizeof(wakes)) < 0)
        return fds[1].revents; /* nobody else reads it: cannot be */
    return mqtt->client ? fds[1].revents : 0;
}

/* Is TCP there? */
static void
look_whether_reached(struct mqtt *mqtt, short happened)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (!happened)
        return;
    if (getsockopt(mosquitto_socket(mqtt->client), SOL_SOCKET, SO_ERROR, &error,
                   &size))
        error = errno;
    /* One that has been there and is reset says perhaps why, to who reads. */
    if (error && error != ECONNRESET)
        mqtt_end(mqtt, "cannot connect to %s port %u: %s", mqtt->address,
                 mqtt->options.config->port, strerror(error));
    else
        mqtt->is_reached = true;
}

/* Reads what has arrived. The library reads one packet a call, and says nothing
 * of it but by its callbacks: read on while these are called, or TLS has come
 * to an end with its handshake. */
static void
hear(struct mqtt *mqtt, short happened)
{
    bool has_hung_up = happened & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL);
    unsigned n_before, idle = 0;
    bool was_shaking;
    int rc, error;

    mqtt->heard_bytes = 0;
    for (unsigned n = 0; n < ROUND_PACKETS && mqtt->heard_bytes < ROUND_BYTES;
         n++) {
        n_before = mqtt->n_heard;
        was_shaking = mqtt_is_shaking(mqtt);
        errno = 0;
        rc = mosquitto_loop_read(mqtt->client, 1);
        error = errno;
        if (rc || mosquitto_socket(mqtt->client) < 0)
            mqtt_explain(mqtt, rc, error);
        if (mqtt->is_ending)
            return;
        if (mqtt->n_heard != n_before || was_shaking != mqtt_is_shaking(mqtt))
            continue;
        if (!has_hung_up)
            return;
        /* There may be something behind what tells nobody. But it must end: of
         * a peer that went away in the handshake the library says nothing. */
        if (++idle == IDLE_READS)
            mqtt_explain(mqtt, MOSQ_ERR_CONN_LOST, 0);
    }
}

static void
look_at_keepalive(struct mqtt *mqtt)
{
    int64_t now_us = clock_steady_us();
    int rc;

    if (!mqtt->is_connected || now_us < mqtt->misc_us)
        return;
    mqtt->misc_us = now_us + MISC_US;
    errno = 0;
    rc = mosquitto_loop_misc(mqtt->client);
    if (rc)
        mqtt_explain(mqtt, rc, errno);
}

static void
take_turn(struct mqtt *mqtt)
{
    int64_t wait_us;

    atomic_exchange_explicit(&mqtt->is_woken, false, memory_order_acq_rel);
    wait_us = mqtt->options.calls->turn(mqtt->options.user, mqtt->is_connected);
    if (wait_us < 0 ||
        __builtin_add_overflow(clock_steady_us(), wait_us, &mqtt->turn_us))
        mqtt->turn_us = NEVER;
}

static void
speak(struct mqtt *mqtt)
{
    unsigned n_before = mqtt->n_heard;
    int rc, error;

    if (!mqtt->is_reached || mqtt_is_shaking(mqtt) ||
        !mosquitto_want_write(mqtt->client))
        return;
    errno = 0;
    rc = mosquitto_loop_write(mqtt->client, 1);
    error = errno;
    if (rc || mosquitto_socket(mqtt->client) < 0)
        mqtt_explain(mqtt, rc, error);
    /* At QoS 0 that it is written is all that is acknowledged: there is room in
     * the window. */
    if (mqtt->n_heard != n_before)
        mqtt->turn_us = 0;
}

/* The order is the promise of mqtt.h. A connection that is to be given up does
 * nothing more, least of all write. */
static void
take_round(struct mqtt *mqtt, int64_t end_us, int fd)
{
    short happened = await(mqtt, end_us, fd);

    if (mqtt->client && !mqtt->is_reached)
        look_whether_reached(mqtt, happened);
    if (mqtt->is_reached && !mqtt->is_ending && (happened || has_unread(mqtt)))
        hear(mqtt, happened);
    if (!mqtt->is_ending)
        look_at_keepalive(mqtt);
    if (!mqtt->is_ending)
        take_turn(mqtt);
    if (mqtt->client && !mqtt->is_ending)
        speak(mqtt);
}

/* A connection, from its beginning to its end */

/* The client goes, and all that it has not sent; nothing is said to the MQTT
 * broker, which then publishes the last will. */
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

static bool
find_addresses(struct mqtt *mqtt, int64_t deadline_us,
               struct resolve_answer *answer)
{
    const char *host = mqtt->options.config->host;
    struct resolve *resolve = NULL;
    struct problem why = {""};
    enum status rc = resolve_begin(&resolve, host, &why);

    while (!rc &&
           (rc = resolve_take(resolve, answer, &why)) == STATUS_RUNNING) {
        if (is_stopping(mqtt))
            break;
        if (clock_steady_us() >= deadline_us) {
            rc = problem(&why, STATUS_IO,
                         "the name server does not say where %s is", host);
            break;
        }
        take_round(mqtt, deadline_us, resolve_fd(resolve));
        rc = STATUS_OK;
    }
    resolve_end(resolve);
    if (rc)
        mqtt_end(mqtt, "%s", why.text);
    return !rc;
}

static void
say_what_is_missing(struct mqtt *mqtt)
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

/* Tries one address: returns when the MQTT broker has accepted, or the try is
 * over. TCP must be there at `reach_us`, CONNACK at `deadline_us`. */
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
    mqtt->limits = (struct mqtt_limits){0};
    if (mqtt_connect(mqtt, &why))
        mqtt_end(mqtt, "%s", why.text);
    while (!mqtt->is_connected && !mqtt->is_ending && !is_stopping(mqtt)) {
        end_us = mqtt->is_reached ? deadline_us : reach_us;
        if (clock_steady_us() >= end_us)
            say_what_is_missing(mqtt);
        else
            take_round(mqtt, end_us, -1);
    }
}

/* Tries one address after the other, until one can be reached: a host may have
 * some that lead nowhere from here, as "localhost" has ::1 where the MQTT
 * broker listens on 127.0.0.1. */
static void
connect_somewhere(struct mqtt *mqtt)
{
    int64_t deadline_us = clock_steady_us() + CONNECT_US;
    struct resolve_answer answer = {.n = 0};
    int64_t reach_us;

    if (!find_addresses(mqtt, deadline_us, &answer))
        return;
    for (size_t i = 0; i < answer.n && !is_stopping(mqtt); i++) {
        reach_us = i + 1 == answer.n
                       ? deadline_us
                       : clock_steady_us() + CONNECT_US / (int64_t)answer.n;
        mqtt->is_ending = false;
        try_address(mqtt, answer.addresses[i], earlier(reach_us, deadline_us),
                    deadline_us);
        if (mqtt->is_reached || clock_steady_us() >= deadline_us)
            break;
        if (!is_stopping(mqtt) && i + 1 < answer.n)
            hang_up(mqtt);
    }
    mqtt->address = NULL; /* the answer's */
}

/* In rounds until the owner has said all; then DISCONNECT, which makes the
 * library close the socket, and the MQTT broker forget the last will. */
static void
say_farewell(struct mqtt *mqtt)
{
    int64_t end_us = clock_steady_us() + MQTT_FAREWELL_US;
    bool (*farewell)(void *user) = mqtt->options.calls->farewell;
    struct pollfd out = {mosquitto_socket(mqtt->client), POLLOUT, 0};
    int64_t left_us = MQTT_FAREWELL_US;

    while (farewell && !farewell(mqtt->options.user)) {
        if (clock_steady_us() >= end_us)
            break;
        take_round(mqtt, end_us, -1);
        if (mqtt->is_ending)
            return;
    }
    mosquitto_disconnect(mqtt->client);
    do {
        speak(mqtt);
        left_us = end_us - clock_steady_us();
    } while (!mqtt->is_ending && left_us > 0 &&
             poll(&out, 1, (int)(left_us / 1000) + 1) > 0);
}

static int64_t
count_failure(struct mqtt *mqtt, bool was_connected)
{
    const struct backoff backoff = {mqtt->options.config->retry_first_us,
                                    mqtt->options.config->retry_max_us};
    uint32_t random = 0;
    int64_t pause_us;

    if (RAND_bytes((unsigned char *)&random, sizeof(random)) != 1)
        random = 0; /* all of the pause */
    mqtt->failures++;
    mqtt->is_flapping = was_connected && !mqtt->is_proven;
    pause_us = backoff_pause(&backoff, mqtt->failures, random);
    metrics_add(METRIC_MQTT_FAILURES, 1);
    tell_failure(mqtt, was_connected, pause_us);
    return pause_us;
}

/* There is one way back to the beginning, and it has a pause. */
static void
run(struct thread *t)
{
    struct mqtt *mqtt = t->user;
    bool was_connected;
    int64_t end_us;

    while (!is_stopping(mqtt)) {
        mqtt->is_ending = false;
        set_condition(mqtt, MQTT_CONNECTING);
        connect_somewhere(mqtt);
        while (mqtt->is_connected && !mqtt->is_ending && !is_stopping(mqtt))
            take_round(mqtt, NEVER, -1);
        if (mqtt->is_connected && !mqtt->is_ending)
            say_farewell(mqtt);

        was_connected = mqtt->is_connected;
        hang_up(mqtt);
        if (is_stopping(mqtt))
            problem_set(&mqtt->why, "the bridge has ended");
        set_condition(mqtt, MQTT_WAITING);
        if (is_stopping(mqtt))
            break;

        mqtt->is_ending = false;
        end_us = clock_steady_us() + count_failure(mqtt, was_connected);
        while (clock_steady_us() < end_us && !is_stopping(mqtt))
            take_round(mqtt, end_us, -1);
    }
}

/* Life cycle */

static enum status
copy_texts(struct mqtt *mqtt, struct problem *why)
{
    const struct mqtt_options *o = &mqtt->options;

    mqtt->client_id = strdup(o->client_id);
    mqtt->will_topic = o->will_topic ? strdup(o->will_topic) : NULL;
    mqtt->will_payload = o->will_topic ? strdup(o->will_payload) : NULL;
    if (!mqtt->client_id ||
        (o->will_topic && (!mqtt->will_topic || !mqtt->will_payload)))
        return problem(why, STATUS_MEMORY, "no memory for an MQTT client");
    return STATUS_OK;
}

static void
release(struct mqtt *mqtt)
{
    if (mqtt->wake_fd >= 0)
        close(mqtt->wake_fd);
    pthread_mutex_destroy(&mqtt->lock);
    free(mqtt->client_id);
    free(mqtt->will_topic);
    free(mqtt->will_payload);
    free(mqtt);
}

enum status
mqtt_open(struct mqtt **opened, const struct mqtt_options *options,
          struct problem *why)
{
    struct mqtt *mqtt = NULL;
    char name[16];
    enum status rc = mqtt_check_files(options->config, why);

    *opened = NULL;
    if (rc)
        return rc;
    mqtt = calloc(1, sizeof(*mqtt));
    if (!mqtt)
        return problem(why, STATUS_MEMORY, "no memory for an MQTT client");
    mqtt->options = *options;
    pthread_mutex_init(&mqtt->lock, NULL);
    atomic_init(&mqtt->is_woken, false);
    atomic_init(&mqtt->is_stopping, false);
    mqtt->state.since_us = clock_now_us();
    mqtt->gone_us = clock_steady_us();
    mqtt->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (mqtt->wake_fd < 0) {
        problem_errno(why, "cannot make an eventfd for", options->client_id);
        rc = STATUS_IO;
        goto fail;
    }
    rc = copy_texts(mqtt, why);
    if (rc)
        goto fail;
    rc = mqtt_library_begin(why);
    if (rc)
        goto fail;
    snprintf(name, sizeof(name), "mqtt-%s", options->direction);
    *opened = mqtt; /* before the owner is called */
    rc = thread_start(&mqtt->thread, name, run, mqtt, why);
    if (rc) {
        mqtt_library_end();
        goto fail;
    }
    return STATUS_OK;

fail:
    *opened = NULL;
    release(mqtt);
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
    mqtt_library_end();
    release(mqtt);
}

void
mqtt_state(struct mqtt *mqtt, struct mqtt_state *state)
{
    pthread_mutex_lock(&mqtt->lock);
    *state = mqtt->state;
    pthread_mutex_unlock(&mqtt->lock);
}
