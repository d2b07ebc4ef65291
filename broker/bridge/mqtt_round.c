#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/clock.h"
#include "broker/bridge/mqtt_inside.h"

/* What a round reads at most, so that whoever sends without end does not keep
 * `turn` from its turn, nor us from a bounded memory. */
#define ROUND_PACKETS 4096
#define ROUND_BYTES   ((size_t)8 << 20)

/* Reads that bring nothing while the other side has hung up. */
#define IDLE_READS 16

/* What to wait for. Once TLS could not write, the library would have us wait
 * for being able to, for ever, until it has written a packet: through all of
 * the handshake, a busy loop. OpenSSL knows what its last call waits for. */
static short
wanted(const struct mqtt *mqtt)
{
    SSL *ssl = mosquitto_ssl_get(mqtt->client);

    if (!mqtt->is_reached)
        return POLLOUT;
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
    int64_t until_us = mqtt_earlier(end_us, mqtt->turn_us);
    int64_t wait_us;
    uint64_t wakes;
    int wait_ms = -1;

    if (mqtt->client) {
        fds[1].fd = mosquitto_socket(mqtt->client);
        fds[1].events = wanted(mqtt);
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
        /* Once there is something in flight it reads on by itself until there
         * is nothing more. (Where it queued a packet, errno may be that of the
         * pair of sockets which it would wake a thread of its own by.) */
        if (error == EAGAIN && mqtt->n_queued == n_queued && !has_hung_up &&
            was_shaking == mqtt_is_shaking(mqtt))
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

/* The library writes packet by packet; between these two calls TCP makes full
 * segments of them, which costs both sides less, and sends the rest then. If it
 * cannot, they go out one by one. */
static void
cork(struct mqtt *mqtt, int is_corked)
{
    setsockopt(mosquitto_socket(mqtt->client), IPPROTO_TCP, TCP_CORK,
               &is_corked, sizeof(is_corked));
}

void
mqtt_speak(struct mqtt *mqtt)
{
    unsigned n_before = mqtt->n_heard;
    bool are_many = mqtt->n_queued > 1;
    int rc, error;

    if (!mqtt->is_reached || mqtt_is_shaking(mqtt) ||
        !mosquitto_want_write(mqtt->client))
        return;
    mqtt->n_queued = 0;
    if (are_many)
        cork(mqtt, true);
    errno = 0;
    rc = mosquitto_loop_write(mqtt->client, 1);
    error = errno;
    if (are_many && mosquitto_socket(mqtt->client) >= 0)
        cork(mqtt, false);
    if (rc || mosquitto_socket(mqtt->client) < 0)
        mqtt_explain(mqtt, rc, error);
    /* At QoS 0 that it is written is all that is acknowledged: there is room in
     * the window. */
    if (mqtt->n_heard != n_before)
        mqtt->turn_us = 0;
}

/* The order is the promise of mqtt.h. A connection that is to be given up does
 * nothing more, least of all write. */
void
mqtt_round(struct mqtt *mqtt, int64_t end_us, int fd)
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
        mqtt_speak(mqtt);
}
