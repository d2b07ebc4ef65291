#include "broker/net/connection.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "broker/base/clock.h"
#include "broker/base/metrics.h"
#include "broker/net/exchange.h"
#include "broker/net/service.h"
#include "broker/net/socket.h"
#include "broker/net/tls.h"

struct connection *
connection_of(struct lws *wsi)
{
    return lws_get_opaque_user_data(wsi);
}

int
connection_new(struct lws *wsi)
{
    struct service *service = lws_context_user(lws_get_context(wsi));
    struct connection *c = calloc(1, sizeof(*c));

    if (!c)
        return -1;
    c->wsi = wsi;
    c->service = service;
    list_init(&c->ready);
    list_append(&service->timed, &c->node);
    connection_enter(c, PHASE_HEAD,
                     clock_steady_us() +
                         service->server->options.request_timeout_us);
    lws_set_opaque_user_data(wsi, c);
    metrics_add(METRIC_CONNECTIONS, 1);
    metrics_add(METRIC_ACCEPTED, 1);
    return 0;
}

void
connection_gone(struct connection *c)
{
    connection_enter(c, PHASE_GONE, 0);
    list_remove(&c->ready);
    if (c->request)
        exchange_gone(c);
    if (c->stream)
        stream_gone(c);
}

void
connection_free(struct connection *c)
{
    connection_gone(c);
    lws_set_opaque_user_data(c->wsi, NULL);
    list_remove(&c->node);
    metrics_add(METRIC_CONNECTIONS, -1);
    free(c);
}

void
connection_set_busy(struct connection *c, bool is_busy)
{
    if (c->is_busy != is_busy)
        c->service->n_busy += is_busy ? 1 : -1;
    c->is_busy = is_busy;
}

void
connection_enter(struct connection *c, enum phase phase, int64_t deadline_us)
{
    static const struct {
        bool is_timed, is_busy;
    } phases[] = {
        [PHASE_HEAD] = {true, false},   [PHASE_BODY] = {true, true},
        [PHASE_HANDLER] = {true, true}, [PHASE_ANSWER] = {true, true},
        [PHASE_LINGER] = {true, false}, [PHASE_STREAM] = {false, false},
        [PHASE_LONG] = {true, false},   [PHASE_FAREWELL] = {true, true},
        [PHASE_GONE] = {false, false},
    };

    if (phases[phase].is_timed != phases[c->phase].is_timed) {
        list_remove(&c->node);
        list_append(phases[phase].is_timed ? &c->service->timed
                                           : &c->service->untimed,
                    &c->node);
    }
    c->phase = phase;
    c->deadline_us = deadline_us;
    c->is_spared = false;
    connection_set_busy(c, phases[phase].is_busy);
}

void
connection_set_progress(struct connection *c)
{
    int64_t stall_us = c->service->server->options.stall_timeout_us;

    c->deadline_us = clock_steady_us() + (stall_us ? stall_us : STALL_US);
}

void
connection_kill(struct connection *c)
{
    /* A cut answer must not look like a whole one; else it is a good end. */
    bool is_good = c->phase == PHASE_HEAD || c->phase == PHASE_STREAM ||
                   c->phase == PHASE_FAREWELL;

    if (c->phase == PHASE_GONE)
        return;
    if (is_good && !connection_is_choked(c))
        tls_say_end(c->wsi);
    connection_enter(c, PHASE_GONE, 0);
    lws_set_timeout(c->wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_ASYNC);
    /* The library looks at its timers only after some event of its own. */
    lws_cancel_service(c->service->context);
}

/* lws_rx_flow_control(0) stops the reading, but then the library does not look
 * at room to write either, and the loop spins on it. What is needed in between
 * it does not offer; but a callback for HTTP_WRITEABLE that returns 1 may leave
 * a permission to read pending, not carried out. */
void
connection_set_flow(struct connection *c, enum flow flow)
{
    if (flow == c->flow)
        return;
    switch (flow) {
    case FLOW_OPEN:
        if (c->flow == FLOW_QUIET)
            lws_rx_flow_control(c->wsi, 0); /* withdraws the pending one */
        lws_rx_flow_control(c->wsi, 1);
        break;
    case FLOW_HELD:
        lws_rx_flow_control(c->wsi, 0);
        break;
    case FLOW_QUIET:
        lws_rx_flow_control(c->wsi, LWS_RXFLOW_REASON_APPLIES_DISABLE |
                                        LWS_RXFLOW_REASON_USER_BOOL |
                                        LWS_RXFLOW_REASON_FLAG_PROCESS_NOW);
        lws_rx_flow_control(c->wsi, 1);
        break;
    }
    c->flow = flow;
}

/* LWS_WRITE_HTTP sends bytes as they are, in every role, and never writes into
 * them, whatever its prototype says. */
bool
connection_write(struct connection *c, const void *data, size_t size)
{
    if (c->phase == PHASE_GONE)
        return false;
    if (lws_write(c->wsi, (unsigned char *)data, size, LWS_WRITE_HTTP) < 0) {
        connection_kill(c);
        return false;
    }
    metrics_add(METRIC_SENT, (int64_t)size);
    return true;
}

bool
connection_is_choked(const struct connection *c)
{
    return lws_partial_buffered(c->wsi);
}

void
connection_flush(struct connection *c)
{
    if (connection_is_choked(c))
        connection_write(c, NULL, 0);
}

static int
fd_of(const struct connection *c)
{
    return (int)lws_get_socket_fd(c->wsi);
}

void
connection_peer(const struct connection *c, char *to, size_t size)
{
    socket_peer(fd_of(c), to, size);
}

bool
connection_has_unread(const struct connection *c)
{
    return socket_has_unread(fd_of(c)) || tls_has_unread(c->wsi);
}

bool
connection_is_tls(const struct connection *c)
{
    return tls_is_used(c->wsi);
}

void
connection_set_ready(struct connection *c)
{
    list_remove(&c->ready);
    list_append(&c->service->ready, &c->ready);
}

bool
connection_is_full(const struct connection *c)
{
    return lws_send_pipe_choked(c->wsi);
}

/* Three ways, since the library cannot be told to look at room to write only,
 * and a client that sends on without reading would keep its loop turning: quiet
 * already; where there is room now, open for the one turn in which it becomes
 * quiet (exchange_writable); else not through the library at all. */
void
connection_await_room(struct connection *c)
{
    if (c->flow == FLOW_QUIET) {
        lws_callback_on_writable(c->wsi);
    } else if (!connection_is_full(c)) {
        connection_set_flow(c, FLOW_OPEN);
        lws_callback_on_writable(c->wsi);
    } else {
        connection_set_flow(c, FLOW_HELD);
        list_remove(&c->ready);
        list_append(&c->service->blocked, &c->ready);
        service_watch_blocked(c->service);
    }
}

void
connection_linger(struct connection *c)
{
    tls_say_end(c->wsi);
    shutdown(fd_of(c), SHUT_WR);
    connection_enter(c, PHASE_LINGER, clock_steady_us() + LINGER_US);
}

/* Has the client acknowledged anything since it was last asked? */
static bool
has_progress(struct connection *c)
{
    uint64_t before = c->acked;

    c->acked = socket_acked(fd_of(c));
    return c->acked > before;
}

/* A thread that was held up looks at the clock before it reads: what lies there
 * may have come in time. Once, or who sends on and on would never be late. */
static bool
may_stay(struct connection *c)
{
    c->is_spared = !c->is_spared && connection_has_unread(c);
    return c->is_spared;
}

void
connection_check(struct connection *c, int64_t now_us)
{
    bool is_late = c->deadline_us && now_us >= c->deadline_us;

    switch (c->phase) {
    case PHASE_HEAD:
    case PHASE_FAREWELL:
        if (is_late && !may_stay(c))
            connection_kill(c);
        break;
    case PHASE_BODY:
        if (is_late && !may_stay(c))
            exchange_timed_out(c);
        break;
    case PHASE_HANDLER:
    case PHASE_LONG:
        /* Nothing is read meanwhile, so nobody would hear of the end. */
        if (socket_is_ended(fd_of(c)))
            connection_kill(c);
        break;
    case PHASE_ANSWER:
        if (c->deadline_us && has_progress(c))
            connection_set_progress(c);
        else if (is_late)
            connection_kill(c);
        break;
    case PHASE_LINGER:
        if (is_late || (c->flow == FLOW_HELD &&
                        !socket_drain(fd_of(c), &c->drained, LINGER_BYTES)))
            connection_kill(c);
        break;
    case PHASE_STREAM:
    case PHASE_GONE:
        break;
    }
}
