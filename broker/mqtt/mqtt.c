#include "broker/mqtt/mqtt.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "base/file.h"
#include "broker/base/lookup.h"
#include "broker/mqtt/mqtt_client.h"

/* From the name's look-up to CONNACK. */
#define CONNECT_US ((int64_t)10000000)

/* Between two calls of may_connect. */
#define ASK_US ((int64_t)1000000)

/* The most that a round reads, so that an endless sender neither keeps `turn`
 * waiting nor exceeds the memory. */
#define ROUND_PACKETS 4096
#define ROUND_BYTES   ((size_t)8 << 20)

/* So many reads may bring nothing after the other side has hung up. */
#define IDLE_READS 16

/* A round */

/* True if OpenSSL holds bytes that poll no longer reports. */
static bool
has_unread(const struct mqtt *mqtt)
{
    SSL *ssl = mqtt->client ? mosquitto_ssl_get(mqtt->client) : NULL;

    return ssl && mosquitto_socket(mqtt->client) >= 0 && SSL_pending(ssl) > 0;
}

/* Waits for an event, at most until `end_us`. Returns the events of the socket.
 */
static short
await_events(struct mqtt *mqtt, int64_t end_us)
{
    struct pollfd fds[2] = {{mqtt->wake_fd, POLLIN, 0}, {-1, 0, 0}};
    int64_t until_us = mqtt_earlier(end_us, mqtt->turn_us);
    eventfd_t wakes;
    int wait_ms = -1;

    if (mqtt->client) {
        /* Once TLS could not write, the library would wait for writing until it
         * has written a packet: a busy loop through the whole handshake.
         * OpenSSL knows what its last call waits for. */
        SSL *ssl = mosquitto_ssl_get(mqtt->client);

        fds[1].fd = mosquitto_socket(mqtt->client);
        fds[1].events = POLLIN | POLLRDHUP;
        if (!mqtt->is_reached)
            fds[1].events = POLLOUT;
        else if (mosquitto_want_write(mqtt->client) &&
                 (!ssl || SSL_want_write(ssl)))
            fds[1].events |= POLLOUT;
    }
    if (mqtt->is_connected)
        until_us = mqtt_earlier(until_us, mqtt->misc_us);
    if (has_unread(mqtt))
        wait_ms = 0;
    else if (until_us != MQTT_NEVER)
        wait_ms = clock_wait_ms(until_us);
    if (poll(fds, 2, wait_ms) < 0)
        return 0; /* EINTR: one more round */
    if (fds[0].revents)
        (void)eventfd_read(mqtt->wake_fd, &wakes);
    return fds[1].revents;
}

/* Checks whether TCP is connected. */
static void
check_reached(struct mqtt *mqtt, short events)
{
    int error = 0;

    if (!events)
        return;
    if (getsockopt(mosquitto_socket(mqtt->client), SOL_SOCKET, SO_ERROR, &error,
                   &(socklen_t){sizeof(error)}))
        error = errno;
    /* A connection that was made and then reset may have data with the
     * reason. */
    if (error && error != ECONNRESET)
        mqtt_end(mqtt, "cannot connect to %s port %u: %s", mqtt->address,
                 mqtt->options.config->port, strerror(error));
    else
        mqtt->is_reached = true;
}

/* Reads the received packets. The library reads one packet per call, and
 * reports it only through its callbacks. So this reads on while callbacks come,
 * or the TLS handshake has just ended. */
static void
read_packets(struct mqtt *mqtt, short events)
{
    bool has_hung_up = events & (POLLHUP | POLLERR | POLLRDHUP | POLLNVAL);
    unsigned n_before, n_queued, idle = 0;
    int rc, error;

    mqtt->heard_bytes = 0;
    for (unsigned n = 0; n < ROUND_PACKETS && mqtt->heard_bytes < ROUND_BYTES;
         n++) {
        n_before = mqtt->n_heard;
        n_queued = mqtt->n_queued;
        mqtt->was_shaking = mqtt_is_shaking(mqtt);
        errno = 0;
        rc = mosquitto_loop_read(mqtt->client, 1);
        error = errno;
        if (rc || mosquitto_socket(mqtt->client) < 0)
            mqtt_explain(mqtt, rc, error);
        if (mqtt->is_ending)
            return;
        /* Once something is in flight the library reads on by itself until no
         * data are left. (If it queued a packet, errno may be that of its
         * socket pair for waking its own thread.) */
        if (error == EAGAIN && mqtt->n_queued == n_queued && !has_hung_up &&
            mqtt->was_shaking == mqtt_is_shaking(mqtt))
            return;
        if (mqtt->n_heard != n_before ||
            mqtt->was_shaking != mqtt_is_shaking(mqtt))
            continue;
        if (!has_hung_up)
            return;
        /* libmosquitto may hold buffered data that no descriptor reports. But
         * the loop must end: the library does not report a peer that went away
         * in the handshake. */
        if (++idle == IDLE_READS)
            mqtt_explain(mqtt, MOSQ_ERR_CONN_LOST, 0);
    }
}

/* The library writes packet by packet. Between the two calls TCP makes full
 * segments of them, which is cheaper for both sides, and sends the rest at the
 * end. Without TCP_CORK they go out one by one. */
static void
set_cork(struct mqtt *mqtt, int is_corked)
{
    setsockopt(mosquitto_socket(mqtt->client), IPPROTO_TCP, TCP_CORK,
               &is_corked, sizeof(is_corked));
}

static void
write_packets(struct mqtt *mqtt)
{
    unsigned n_before = mqtt->n_heard;
    bool are_many = mqtt->n_queued > 1;
    int rc, error;

    if (!mqtt->is_reached || mqtt_is_shaking(mqtt) ||
        !mosquitto_want_write(mqtt->client))
        return;
    mqtt->n_queued = 0;
    if (are_many)
        set_cork(mqtt, true);
    errno = 0;
    rc = mosquitto_loop_write(mqtt->client, 1);
    error = errno;
    if (are_many && mosquitto_socket(mqtt->client) >= 0)
        set_cork(mqtt, false);
    if (rc || mosquitto_socket(mqtt->client) < 0)
        mqtt_explain(mqtt, rc, error);
    /* At QoS 0 a written message counts as acknowledged: the window has
     * room. */
    if (mqtt->n_heard != n_before)
        mqtt->turn_us = 0;
}

/* Waits until something happens, at most until `end_us` (steady), and runs the
 * steps in the order of mqtt.h. A connection that is to be given up
 * does nothing more, and above all does not write. */
static void
run_round(struct mqtt *mqtt, int64_t end_us)
{
    short events = await_events(mqtt, end_us);
    int64_t now_us, wait_us;
    int rc;

    if (mqtt->client && !mqtt->is_reached)
        check_reached(mqtt, events);
    if (mqtt->is_reached && !mqtt->is_ending && (events || has_unread(mqtt)))
        read_packets(mqtt, events);
    now_us = clock_steady_us();
    if (mqtt->is_connected && !mqtt->is_ending && now_us >= mqtt->misc_us) {
        mqtt->misc_us = now_us + MQTT_MISC_US; /* the keepalive */
        errno = 0;
        rc = mosquitto_loop_misc(mqtt->client);
        if (rc)
            mqtt_explain(mqtt, rc, errno);
        mqtt_settle(mqtt);
    }
    if (mqtt->is_ending)
        return;
    atomic_exchange_explicit(&mqtt->is_woken, false, memory_order_acq_rel);
    wait_us = mqtt->options.calls->turn(mqtt->options.user, mqtt->is_connected);
    if (wait_us < 0 ||
        __builtin_add_overflow(clock_steady_us(), wait_us, &mqtt->turn_us))
        mqtt->turn_us = MQTT_NEVER;
    if (mqtt->client && !mqtt->is_ending)
        write_packets(mqtt);
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
    mqtt->is_proven = mqtt->is_settled = mqtt->was_shaking = false;
    mqtt->refusal = 0;
    mqtt->limits = (struct mqtt_limits){0};
    if (mqtt_connect(mqtt, &why))
        mqtt_end(mqtt, "%s", why.text);
    while (!mqtt->is_connected && !mqtt->is_ending && mqtt_is_wanted(mqtt)) {
        end_us = mqtt->is_reached ? deadline_us : reach_us;
        if (clock_steady_us() < end_us)
            run_round(mqtt, end_us);
        else if (!mqtt->is_reached)
            mqtt_end(mqtt, "cannot connect to %s port %u: no answer", address,
                     mqtt->options.config->port);
        else if (mqtt_is_shaking(mqtt))
            mqtt_end(mqtt,
                     "TLS: no answer from the MQTT broker to the handshake");
        else
            mqtt_end(mqtt, "no answer from the MQTT broker to CONNECT");
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
        run_round(mqtt, deadline_us);
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

/* Goes on in rounds until the owner is done. Then sends DISCONNECT: the library
 * closes the socket, and the MQTT broker discards the last will. If received
 * data were unread then, as always when messages stream in, TCP would reset the
 * connection, and the MQTT broker would lose packets that it has not read yet:
 * DISCONNECT, and the last acknowledgements. So a copy of the socket is read
 * until the MQTT broker has closed the connection, too. Messages that are read
 * there were not acknowledged, and come again. */
static void
say_farewell(struct mqtt *mqtt)
{
    int64_t end_us = clock_steady_us() + MQTT_FAREWELL_US;
    bool (*farewell)(void *user) = mqtt->options.calls->farewell;
    struct pollfd out = {mosquitto_socket(mqtt->client), POLLOUT, 0};
    struct pollfd in = {-1, POLLIN, 0};
    int64_t left_us = MQTT_FAREWELL_US;
    char bytes[4096];

    while (farewell && !farewell(mqtt->options.user)) {
        if (clock_steady_us() >= end_us)
            break;
        run_round(mqtt, end_us);
        if (mqtt->is_ending)
            return;
    }
    in.fd = fcntl(out.fd, F_DUPFD_CLOEXEC, 0);
    mosquitto_disconnect(mqtt->client);
    do {
        write_packets(mqtt);
        left_us = end_us - clock_steady_us();
    } while (!mqtt->is_ending && left_us > 0 &&
             poll(&out, 1, (int)(left_us / 1000) + 1) > 0);
    if (in.fd < 0)
        return;
    shutdown(in.fd, SHUT_WR);
    while ((left_us = end_us - clock_steady_us()) > 0 &&
           poll(&in, 1, (int)(left_us / 1000) + 1) > 0 &&
           read(in.fd, bytes, sizeof(bytes)) > 0)
        ;
    close(in.fd);
}

/* From the look-up to the end of the connection. Returns true if it was
 * accepted. */
static bool
run_connection(struct mqtt *mqtt)
{
    int64_t deadline_us = clock_steady_us() + CONNECT_US;
    struct problem why = {""};
    struct lookup l;
    bool was_connected;

    mqtt->is_ending = false;
    mqtt_set_condition(mqtt, MQTT_CONNECTING);
    if (find_addresses(mqtt, &l, deadline_us, &why))
        mqtt_end(mqtt, "%s", why.text);
    else
        try_addresses(mqtt, &l.answer, deadline_us);
    while (mqtt->is_connected && !mqtt->is_ending && mqtt_is_wanted(mqtt))
        run_round(mqtt, MQTT_NEVER);
    if (mqtt->is_connected && !mqtt->is_ending)
        say_farewell(mqtt);

    was_connected = mqtt->is_connected;
    mqtt_settle(mqtt);
    hang_up(mqtt);
    return was_connected;
}

/* Runs rounds without a connection, at most until `end_us` (steady). */
static void
wait_until(struct mqtt *mqtt, int64_t end_us)
{
    mqtt->is_ending = false;
    while (clock_steady_us() < end_us && mqtt_is_wanted(mqtt))
        run_round(mqtt, end_us);
}

/* The only way back to the beginning goes through a pause, or a suspension. */
static void
run_client(struct thread *t)
{
    struct mqtt *mqtt = t->user;
    const struct mqtt_options *options = &mqtt->options;
    bool was_connected;

    while (!atomic_load(&mqtt->is_stopping)) {
        if (mqtt->is_suspended) {
            mqtt->is_ending = false;
            mqtt->why = mqtt->suspended_for;
            mqtt_set_condition(mqtt, MQTT_WAITING);
            while (!mqtt->is_resumed && !atomic_load(&mqtt->is_stopping))
                run_round(mqtt, MQTT_NEVER);
            mqtt->is_suspended = false;
            continue;
        }
        if (options->calls->may_connect &&
            !options->calls->may_connect(options->user)) {
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
    buf_fini(&mqtt->pairs);
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
    buf_init(&mqtt->pairs, SIZE_MAX);
    pthread_mutex_init(&mqtt->lock, NULL);
    if (options->suspended)
        mqtt_suspend(mqtt, options->suspended);
    mqtt->state.since_us = clock_now_us();
    mqtt->gone_us = clock_steady_us();
    mqtt->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    error = mqtt->wake_fd < 0 ? 0 : mosquitto_lib_init();
    if (mqtt->wake_fd < 0) {
        rc = problem_errno(why, "cannot make an eventfd for",
                           options->client_id);
    } else if (error) {
        rc = problem(why, STATUS_IO, "libmosquitto does not start: %s",
                     mosquitto_strerror(error));
    } else {
        snprintf(name, sizeof(name), "mqtt-%s", options->direction);
        *opened = mqtt; /* before the first call to the owner */
        rc = thread_start(&mqtt->thread, name, run_client, mqtt, why);
        if (rc)
            mosquitto_lib_cleanup();
    }
    if (rc) {
        *opened = NULL;
        free_mqtt(mqtt);
    }
    return rc;
}

void
mqtt_wake(struct mqtt *mqtt)
{
    if (!atomic_exchange_explicit(&mqtt->is_woken, true, memory_order_acq_rel))
        (void)eventfd_write(mqtt->wake_fd, 1);
}

void
mqtt_begin_stop(struct mqtt *mqtt)
{
    if (!mqtt)
        return;
    atomic_store_explicit(&mqtt->is_stopping, true, memory_order_release);
    mqtt_wake(mqtt);
}

void
mqtt_stop(struct mqtt *mqtt)
{
    mqtt_begin_stop(mqtt);
    if (mqtt)
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
