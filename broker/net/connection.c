#include "broker/net/connection.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/metrics.h"
#include "broker/net/service.h"
#include "broker/net/tcp.h"
#include "broker/net/unix_socket.h"
#include "proto/http/forwarded.h"

/* The least capacity for waiting bytes: most often these are a part of a
 * WebSocket frame. */
#define WAITING_LEAST 256

/* How many connections are examined for one to displace. */
#define DISPLACE_LOOKS 64

/* How many are displaced for a new one, if other threads take what they had. */
#define DISPLACE_TRIES 8

/* Over its limit of bytes in the kernel, a client keeps those that it would
 * have taken in so many seconds. */
#define LEFT_SECONDS 30

/* See connection_widen. */
#define WIDENED_MAX    16
#define UNSENT_WIDENED (2 * 1024 * 1024)

/* Waiting bytes */

static struct slice
waiting_slice(const struct waiting *w)
{
    return (struct slice){w->data ? w->data + w->at : NULL, w->size};
}

static void
waiting_fini(struct waiting *w)
{
    free(w->data);
    *w = (struct waiting){NULL};
}

/* Leaves the last `size` bytes. */
static void
waiting_leave(struct waiting *w, size_t size)
{
    if (!size) {
        waiting_fini(w);
        return;
    }
    w->at += w->size - (uint32_t)size;
    w->size = (uint32_t)size;
}

/* false: no memory. */
static bool
waiting_add(struct waiting *w, struct slice bytes)
{
    size_t size = w->size + bytes.size, capacity = w->capacity;
    char *data = NULL;

    if (!bytes.size)
        return true;
    if (w->at)
        memmove(w->data, w->data + w->at, w->size);
    w->at = 0;
    if (size > UINT32_MAX)
        return false;
    if (size > capacity) {
        capacity = 2 * capacity > size ? 2 * capacity : size;
        if (capacity < WAITING_LEAST)
            capacity = WAITING_LEAST;
        data = memory_grow(w->data, 1, capacity);
        if (!data)
            return false;
        w->data = data;
        w->capacity = (uint32_t)capacity;
    }
    memcpy(w->data + w->size, bytes.data, bytes.size);
    w->size = (uint32_t)size;
    return true;
}

/* Phases */

static const struct phase phase_gone = {.is_untimed = true};

bool
connection_is_gone(const struct connection *c)
{
    return c->phase == &phase_gone;
}

static bool
is_operators(const struct connection *c)
{
    return c->listener == LISTENER_CONTROL;
}

void
connection_set_busy(struct connection *c, bool is_busy)
{
    is_busy &= !is_operators(c);
    if (c->is_busy != is_busy)
        c->service->n_busy += is_busy ? 1 : -1;
    c->is_busy = is_busy;
}

/* Who a request or a stream counts for: its owner; before that is known, or
 * without one, the client. */
static struct client *
client_for(const struct connection *c, enum client_kind kind)
{
    return kind == CLIENT_STREAMS && c->owner ? c->owner : c->client;
}

enum status
connection_count(struct connection *c, enum client_kind kind,
                 struct problem *why)
{
    bool is_early = kind == CLIENT_HALF_HEADS && c->is_proxied;
    enum status rc;

    if (is_operators(c) || is_early || (c->counted & 1u << kind))
        return STATUS_OK;
    rc = clients_take(c->service->server->clients, client_for(c, kind), kind, 1,
                      why);
    if (!rc)
        c->counted |= 1u << kind;
    return rc;
}

static void
end_count(struct connection *c, enum client_kind kind)
{
    if (c->counted & 1u << kind)
        clients_give(c->service->server->clients, client_for(c, kind), kind, 1);
    c->counted &= ~(1u << kind);
}

void
connection_enter(struct connection *c, const struct phase *phase,
                 int64_t deadline_us)
{
    struct service *s = c->service;

    list_put(phase->is_head      ? &s->heads
             : phase->is_untimed ? &s->untimed
                                 : &s->timed,
             &c->node);
    if (!phase->is_head)
        end_count(c, CLIENT_HALF_HEADS);
    c->phase = phase;
    c->deadline_us = deadline_us;
    c->is_spared = false;
    c->measured_us = 0;
    connection_set_busy(c, phase->is_busy);
}

void
connection_restart(struct connection *c)
{
    connection_end_clients(c);
    connection_set_authority(c, NULL);
    connection_enter(c, c->service->first_phase, clock_steady_us() + IDLE_US);
    connection_read_on(c);
}

static bool
wants_input(const struct connection *c)
{
    const struct phase *phase = c->phase;

    return phase->take && (!phase->is_reading || phase->is_reading(c));
}

/* Input */

/* Feeds `bytes`, the last of which may be the waiting ones, and keeps what the
 * phase does not take yet. */
static void
feed_bytes(struct connection *c, struct slice bytes)
{
    bool is_kept = c->in.data != NULL;

    c->is_inside = true;
    while (bytes.size && wants_input(c)) {
        size_t n = c->phase->take(c, bytes);

        if (!n)
            break;
        slice_skip(&bytes, n);
    }
    c->is_inside = false;
    if (connection_is_gone(c))
        return;
    if (is_kept)
        waiting_leave(&c->in, bytes.size);
    else if (!waiting_add(&c->in, bytes))
        connection_kill(c);
}

void
connection_read_on(struct connection *c)
{
    if (connection_is_gone(c))
        return;
    socket_set_reading(&c->socket, true);
    if (c->in.data && !c->is_inside)
        list_put(&c->service->ready, &c->ready);
}

void
connection_proceed(struct connection *c)
{
    if (c->in.data)
        feed_bytes(c, waiting_slice(&c->in));
}

/* Output */

bool
connection_is_choked(const struct connection *c)
{
    return c->out.data != NULL;
}

/* Watches for room. The phases that are not timed are now. */
static void
watch_room(struct connection *c)
{
    if (!c->socket.is_writing && c->phase->is_untimed) {
        c->measured_us = 0;
        list_put(&c->service->timed, &c->node);
    }
    socket_set_writing(&c->socket, true);
}

bool
connection_write(struct connection *c, const void *data, size_t size)
{
    ssize_t n = 0;

    if (connection_is_gone(c))
        return false;
    if (!c->out.data)
        n = socket_write(&c->socket, data, size);
    if (n < 0 || !waiting_add(&c->out, (struct slice){(const char *)data + n,
                                                      size - (size_t)n})) {
        connection_kill(c);
        return false;
    }
    if (c->out.data)
        watch_room(c);
    c->sent += size;
    metrics_add(METRIC_SENT, (int64_t)size);
    return true;
}

void
connection_await_room(struct connection *c)
{
    c->is_awaiting_room = true;
    watch_room(c);
}

ssize_t
connection_send_file(struct connection *c, const struct file_part *part)
{
    ssize_t n = -1;

    if (!connection_is_gone(c))
        n = socket_send_file(&c->socket, part->fd, part->at, part->size);
    if (n == -1)
        connection_kill(c);
    if (n < 0)
        return n;
    if ((size_t)n < part->size)
        connection_await_room(c);
    c->sent += (uint64_t)n;
    metrics_add(METRIC_SENT, n);
    return n;
}

void
connection_widen(struct connection *c)
{
    atomic_uint *n = &c->service->server->n_widened;

    if (c->is_widened || c->socket.is_unix || connection_is_gone(c))
        return;
    c->is_widened = atomic_fetch_add(n, 1) < WIDENED_MAX;
    if (c->is_widened)
        tcp_limit_unsent(c->socket.fd, UNSENT_WIDENED);
    else
        atomic_fetch_sub(n, 1);
}

static void
end_widened(struct connection *c)
{
    atomic_fetch_sub(&c->service->server->n_widened, 1);
    c->is_widened = false;
}

bool
connection_narrow(struct connection *c)
{
    if (!c->is_widened)
        return true;
    tcp_limit_unsent(c->socket.fd, UNSENT_MAX);
    if (tcp_unsent(c->socket.fd) > UNSENT_MAX)
        return false;
    end_widened(c);
    return true;
}

static void
on_writable(struct connection *c)
{
    ssize_t n = 0;

    /* Sends the bytes that were kept back, as far as there is room. */
    if (c->out.data)
        n = socket_write(&c->socket, c->out.data + c->out.at, c->out.size);
    if (n < 0)
        connection_kill(c);
    else if (c->out.data)
        waiting_leave(&c->out, c->out.size - (size_t)n);
    if (connection_is_gone(c) || c->out.data)
        return;
    c->is_awaiting_room = false;
    if (wants_input(c))
        connection_read_on(c);
    if (c->phase->send)
        c->phase->send(c);
    if (!connection_is_gone(c) && !c->is_awaiting_room && !c->out.data) {
        if (c->phase->is_untimed)
            list_put(&c->service->untimed, &c->node);
        socket_set_writing(&c->socket, false);
    }
}

/* Closes it behind a whole answer, once the client has taken all. */
static void end_connection(struct connection *c);

static void
on_ready(struct socket *socket, bool is_writable, bool is_readable)
{
    struct connection *c = list_entry(socket, struct connection, socket);
    struct service *s = c->service;
    struct slice bytes = {s->input, 0};
    ssize_t n;

    if (is_writable)
        on_writable(c);
    if (!is_readable || connection_is_gone(c))
        return;
    if (!wants_input(c)) {
        socket_set_reading(socket, false);
        return;
    }
    n = socket_read(socket, s->input, sizeof(s->input));
    if (n < 0)
        end_connection(c);
    if (n <= 0)
        return;
    bytes.size = (size_t)n;
    if (c->in.data) {
        if (!waiting_add(&c->in, bytes)) {
            connection_kill(c);
            return;
        }
        bytes = waiting_slice(&c->in);
    }
    feed_bytes(c, bytes);
}

/* Clients */

static void
count_off(struct connection *c)
{
    end_count(c, CLIENT_HALF_HEADS);
    end_count(c, CLIENT_STREAMS);
    end_count(c, CLIENT_CONNECTIONS);
    holding_end(&c->left);
    client_unref(c->client);
    c->client = NULL;
    connection_set_owner(c, NULL);
}

/* `fd`: the socket, for a user of this machine. */
static void
set_peer(struct client_address *peer, int fd, const struct sockaddr *address)
{
    client_address_set(peer, address,
                       address->sa_family == AF_UNIX ? unix_socket_peer(fd)
                                                     : 0);
}

/* Counts the connection for the client at `address`. `fd` is its socket. */
static enum status
count_for(struct connection *c, int fd, const struct sockaddr *address,
          struct problem *why)
{
    struct clients *clients = c->service->server->clients;

    c->client = address->sa_family == AF_UNIX
                    ? client_of_user(clients, unix_socket_peer(fd))
                    : client_at(clients, address);
    return connection_count(c, CLIENT_CONNECTIONS, why);
}

enum status
connection_count_proxied(struct connection *c, struct slice forwarded,
                         struct slice x_forwarded_for, struct problem *why)
{
    const struct networks *trusted = c->service->server->options.trusted;
    struct sockaddr_storage client;

    if (!c->is_proxied)
        return STATUS_OK;
    if (!forwarded_client(forwarded, x_forwarded_for, networks_latest(trusted),
                          &client))
        tcp_peer(c->socket.fd, &client);
    set_peer(&c->at, c->socket.fd, (struct sockaddr *)&client);
    return count_for(c, c->socket.fd, (struct sockaddr *)&client, why);
}

void
connection_set_owner(struct connection *c, struct client *owner)
{
    client_unref(c->owner);
    c->owner = owner;
}

void
connection_set_authority(struct connection *c, struct authority *authority)
{
    authority_unref(c->authority);
    c->authority = authority;
}

void
connection_end_clients(struct connection *c)
{
    connection_set_owner(c, NULL);
    if (c->is_proxied)
        count_off(c);
}

/* Examines the connections that have waited longest for a request, and returns
 * one of the client that has most. A connection that has just sent something
 * stays. NULL: none can be displaced. */
static struct connection *
find_displaceable(struct service *s)
{
    struct connection *c;
    struct connection *found = NULL;
    uint64_t most = 0;
    unsigned looks = 0;

    list_walk (c, &s->heads, node) {
        uint64_t n = client_held(c->client, CLIENT_CONNECTIONS);

        if ((!found || n > most) && !is_operators(c) &&
            !socket_has_unread(&c->socket)) {
            found = c;
            most = n;
        }
        if (++looks == DISPLACE_LOOKS)
            break;
    }
    return found;
}

bool
connection_displace(struct service *s)
{
    struct connection *c = find_displaceable(s);

    if (!c)
        return false;
    metrics_add(METRIC_DISPLACED, 1);
    connection_kill(c);
    return true;
}

/* Makes `*fd` a descriptor that connections may have, if need be that of a
 * connection of a client that has as many as that of `c`, or more. Another
 * thread may open a file at that moment, and take the descriptor that was to be
 * free: then one more connection is displaced. STATUS_LIMITED: all that could
 * be displaced are of clients that have less; STATUS_BUSY: none can be; `*fd`
 * is still open. */
static enum status
find_descriptor(struct connection *c, int *fd)
{
    int end = c->service->server->fd_end;

    for (unsigned i = 0; *fd >= end && !is_operators(c); i++) {
        struct connection *other =
            i < DISPLACE_TRIES ? find_displaceable(c->service) : NULL;
        int low;

        if (!other)
            return STATUS_BUSY;
        if (client_held(other->client, CLIENT_CONNECTIONS) <
            client_held(c->client, CLIENT_CONNECTIONS))
            return STATUS_LIMITED;
        metrics_add(METRIC_DISPLACED, 1);
        connection_kill(other);
        low = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
        if (low < 0)
            continue;
        if (low < end) {
            close(*fd);
            *fd = low;
        } else {
            close(low);
        }
    }
    return STATUS_OK;
}

/* Life */

enum status
connection_new(struct service *service, int fd, const struct sockaddr *peer,
               enum listener_kind listener)
{
    const struct networks *trusted = service->server->options.trusted;
    struct connection *c = memory_new(1, sizeof(*c));
    enum status rc = STATUS_OK;
    bool is_unix = listener != LISTENER_TCP, is_open = false;
    bool is_counted = true;

    c->listener = listener;
    c->service = service;
    list_init(&c->node);
    list_init(&c->ready);
    set_peer(&c->peer, fd, peer);
    if (!is_operators(c)) {
        c->is_proxied =
            trusted && networks_contain(networks_latest(trusted), peer);
        is_counted =
            c->is_proxied || (!count_for(c, fd, peer, NULL) &&
                              !connection_count(c, CLIENT_HALF_HEADS, NULL));
    }
    if (is_counted) {
        rc = find_descriptor(c, &fd);
        is_open =
            !rc && socket_open(&c->socket, loop_uv(service->loop), fd, is_unix,
                               is_unix ? NULL : service->server->tls, on_ready);
    }
    if (!is_open) {
        count_off(c);
        free(c);
        if (!rc)
            close(fd);
        return rc;
    }
    connection_enter(c, service->first_phase,
                     clock_steady_us() +
                         service->server->options.request_timeout_us);
    metrics_add(METRIC_CONNECTIONS, 1);
    metrics_add(METRIC_ACCEPTED, 1);
    socket_set_reading(&c->socket, true);
    return STATUS_OK;
}

static void
on_closed(uv_handle_t *handle)
{
    struct socket *socket = handle->data;
    struct connection *c = list_entry(socket, struct connection, socket);

    if (c->on_gone)
        c->on_gone(c);
    count_off(c);
    connection_set_authority(c, NULL);
    list_remove(&c->node);
    metrics_add(METRIC_CONNECTIONS, -1);
    waiting_fini(&c->in);
    waiting_fini(&c->out);
    free(c);
}

void
connection_kill(struct connection *c)
{
    if (connection_is_gone(c))
        return;
    /* A cut answer must not look like a whole one. */
    if (c->phase->is_good_end && !connection_is_choked(c) &&
        (c->service->is_cut || !tcp_left(c->socket.fd)))
        socket_end(&c->socket);
    if (!c->service->is_cut && tcp_left(c->socket.fd) > 0)
        tcp_reset_at_close(c->socket.fd);
    if (c->is_widened)
        end_widened(c);
    connection_enter(c, &phase_gone, 0);
    list_remove(&c->ready);
    socket_close(&c->socket, on_closed);
}

/* Checks */

/* A thread that was held up reads before it judges: unread bytes may have come
 * in time. Only once, or a client that never stops sending would never be
 * late. */
static bool
may_stay(struct connection *c)
{
    c->is_spared = !c->is_spared && socket_has_unread(&c->socket);
    return c->is_spared;
}

static bool
is_late(const struct connection *c, int64_t now_us)
{
    return c->deadline_us && now_us >= c->deadline_us;
}

void
connection_check_deadline(struct connection *c, int64_t now_us)
{
    if (is_late(c, now_us) && !may_stay(c))
        end_connection(c);
}

bool
connection_check_peer(struct connection *c)
{
    if (!tcp_is_ended(c->socket.fd))
        return true;
    connection_kill(c);
    return false;
}

/* True if enough bytes move; also if there is time left. */
static bool
moves_enough(struct connection *c, int64_t now_us, bool is_receiving)
{
    const struct server_options *o = &c->service->server->options;
    uint64_t least = o->min_rate * (uint64_t)o->request_timeout_us / 1000000;
    uint64_t before = c->moved;
    bool is_first = !c->measured_us;

    if (!is_first && now_us - c->measured_us < o->request_timeout_us)
        return true;
    c->moved = is_receiving ? c->received : socket_taken(&c->socket);
    c->measured_us = now_us;
    if (is_first)
        return true;
    if (c->moved < before) /* see socket_taken */
        c->moved = before;
    return c->moved - before >= least;
}

bool
connection_check_receiving(struct connection *c, int64_t now_us)
{
    if (moves_enough(c, now_us, true) || may_stay(c))
        return true;
    metrics_add(METRIC_SLOW, 1);
    return false;
}

void
connection_check_sending(struct connection *c, int64_t now_us)
{
    if (moves_enough(c, now_us, false))
        return;
    metrics_add(METRIC_SLOW, 1);
    connection_kill(c);
}

void
connection_check(struct connection *c, int64_t now_us)
{
    uint64_t before = c->acked;
    bool is_over = false;
    size_t left;

    /* Counts the bytes that the kernel holds for the client. The connection is
     * over if the client has its share, and takes so little that they would
     * stay. */
    if (!is_operators(c) && c->sent != c->settled && !connection_is_gone(c)) {
        holding_end(&c->left);
        left = tcp_left(c->socket.fd);
        if (!left)
            c->settled = c->sent;
        c->acked = socket_taken(&c->socket);
        holding_init(&c->left, c->service->server->clients,
                     client_for(c, CLIENT_STREAMS), CLIENT_KERNEL);
        is_over = !holding_try(&c->left, left) &&
                  (c->acked - before) * LEFT_SECONDS < left &&
                  holding_add(&c->left, left, NULL);
    }
    if (is_over)
        connection_kill(c);
    else if (c->phase->check && (!c->phase->is_untimed || c->socket.is_writing))
        c->phase->check(c, now_us);
}

/* Lingering */

static size_t
drain_bytes(struct connection *c, struct slice bytes)
{
    c->drained += bytes.size;
    if (c->drained > LINGER_BYTES)
        connection_kill(c);
    return bytes.size;
}

static bool
is_lingering(const struct connection *c)
{
    return c->deadline_us != 0;
}

/* Past the deadline it reads nothing, and ends when the client has taken
 * everything. */
static void
check_linger(struct connection *c, int64_t now_us)
{
    if (c->deadline_us && !is_late(c, now_us))
        return;
    c->deadline_us = 0;
    if (tcp_left(c->socket.fd))
        connection_check_sending(c, now_us);
    else
        connection_kill(c);
}

static const struct phase linger = {
    .take = drain_bytes, .is_reading = is_lingering, .check = check_linger};

void
connection_linger(struct connection *c)
{
    socket_end(&c->socket);
    connection_enter(c, &linger, clock_steady_us() + LINGER_US);
    connection_read_on(c);
}

static void
end_connection(struct connection *c)
{
    if ((!c->phase->is_head && c->phase != &linger) || c->out.data ||
        c->service->is_cut || !tcp_left(c->socket.fd)) {
        connection_kill(c);
        return;
    }
    socket_end(&c->socket);
    connection_enter(c, &linger, 0);
    socket_set_reading(&c->socket, false);
}
