#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/clock.h"
#include "broker/mqtt/mqtt_client.h"

/* The most that a round reads, so that an endless sender neither keeps `turn`
 * waiting nor exceeds the memory. */
#define ROUND_PACKETS 4096
#define ROUND_BYTES   ((size_t)8 << 20)

/* So many reads may bring nothing after the other side has hung up. */
#define IDLE_READS 16

/* The poll events to wait for. Once TLS could not write, the library would wait
 * for writing until it has written a packet: a busy loop through the whole
 * handshake. OpenSSL knows what its last call waits for. */
static short
wanted_events(const struct mqtt *mqtt)
{
    SSL *ssl = mosquitto_ssl_get(mqtt->client);

    if (!mqtt->is_reached)
        return POLLOUT;
    if (mosquitto_want_write(mqtt->client) && (!ssl || SSL_want_write(ssl)))
        return POLLIN | POLLRDHUP | POLLOUT;
    return POLLIN | POLLRDHUP;
}

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
    int64_t wait_us;
    uint64_t wakes;
    int wait_ms = -1;

    if (mqtt->client) {
        fds[1].fd = mosquitto_socket(mqtt->client);
        fds[1].events = wanted_events(mqtt);
    }
    if (mqtt->is_connected)
        until_us = mqtt_earlier(until_us, mqtt->misc_us);
    if (has_unread(mqtt)) {
        wait_ms = 0;
    } else if (until_us != MQTT_NEVER) {
        wait_us = until_us - clock_steady_us();
        wait_ms = wait_us <= 0              ? 0
                  : wait_us >= 3600000000ll ? 3600000
                                            : (int)((wait_us + 999) / 1000);
    }
    if (poll(fds, 2, wait_ms) < 0)
        return 0; /* EINTR: one more round */
    if (fds[0].revents && read(mqtt->wake_fd, &wakes, sizeof(wakes)) < 0)
        return fds[1].revents; /* impossible: nobody else reads it */
    return fds[1].revents;
}

/* Checks whether TCP is connected. */
static void
check_reached(struct mqtt *mqtt, short events)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (!events)
        return;
    if (getsockopt(mosquitto_socket(mqtt->client), SOL_SOCKET, SO_ERROR, &error,
                   &size))
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
    bool was_shaking;
    int rc, error;

    mqtt->heard_bytes = 0;
    for (unsigned n = 0; n < ROUND_PACKETS && mqtt->heard_bytes < ROUND_BYTES;
         n++) {
        n_before = mqtt->n_heard;
        n_queued = mqtt->n_queued;
        was_shaking = mqtt_is_shaking(mqtt);
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
            was_shaking == mqtt_is_shaking(mqtt))
            return;
        if (mqtt->n_heard != n_before || was_shaking != mqtt_is_shaking(mqtt))
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

static void
check_keepalive(struct mqtt *mqtt)
{
    int64_t now_us = clock_steady_us();
    int rc;

    if (!mqtt->is_connected || now_us < mqtt->misc_us)
        return;
    mqtt->misc_us = now_us + MQTT_MISC_US;
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
        mqtt->turn_us = MQTT_NEVER;
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

void
mqtt_write(struct mqtt *mqtt)
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

/* Runs the steps in the order of mqtt.h. A connection that is to be given up
 * does nothing more, and above all does not write. */
void
mqtt_loop(struct mqtt *mqtt, int64_t end_us)
{
    short events = await_events(mqtt, end_us);

    if (mqtt->client && !mqtt->is_reached)
        check_reached(mqtt, events);
    if (mqtt->is_reached && !mqtt->is_ending && (events || has_unread(mqtt)))
        read_packets(mqtt, events);
    if (!mqtt->is_ending)
        check_keepalive(mqtt);
    if (!mqtt->is_ending)
        take_turn(mqtt);
    if (mqtt->client && !mqtt->is_ending)
        mqtt_write(mqtt);
}
