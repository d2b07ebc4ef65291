/*
 * Opens a connection: looks the host up, connects to the very address that it
 * has judged, and shakes hands if the URL is one of HTTPS.
 *
 * Two addresses race: the second begins when the first has not answered for a
 * while, or has failed. They are of both families in turn, if the host has
 * both. Each but the last has its share of the time, so a silent address does
 * not keep the others from their turn.
 */
#include <arpa/inet.h>
#include <netdb.h>

#include <openssl/ssl.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/calls/caller_state.h"
#include "proto/number.h"

/* Connections are opened with an answer of the name server that is no older. */
#define LOOKUP_AGE_US ((int64_t)60 * 1000000)

/* The first address has so long for itself (RFC 8305 section 5). */
#define RACE_US ((int64_t)200 * 1000)

/* The most of an address that is not the last. */
#define BOUND_US ((int64_t)30 * 1000000)

struct attempt {
    struct connecting *of;
    struct call_socket *socket; /* NULL: none */
    struct alarm bound;
};

struct connecting {
    struct call_connection *connection;
    struct lookup lookup;
    char name[300];   /* of the host, without brackets */
    in_port_t port;   /* in network order */
    unsigned tried;   /* addresses of the look-up, as bits */
    sa_family_t last; /* family of the last of these */
    struct attempt attempts[2];
    struct alarm race; /* begins the second attempt */

    /* Why none was reached. */
    unsigned n_opened;
    int error;                      /* the last errno; 0: no answer */
    bool is_short;                  /* no descriptor was left */
    char refused[INET6_ADDRSTRLEN]; /* an address that may not be called; or ""
                                     */
};

/* The end */

static void
close_attempt(struct attempt *a)
{
    loop_clear_alarm(a->of->connection->caller->loop, &a->bound);
    if (a->socket)
        call_socket_close(a->socket);
    a->socket = NULL;
}

void
call_connect_stop(struct call_connection *p)
{
    struct connecting *x = p->connecting;

    if (!x)
        return;
    lookup_cancel(&x->lookup);
    close_attempt(&x->attempts[0]);
    close_attempt(&x->attempts[1]);
    loop_clear_alarm(p->caller->loop, &x->race);
    p->connecting = NULL;
    free(x);
}

/* The connection is open, or its call has failed. */
static void
finish(struct call_connection *p)
{
    call_connect_stop(p);
    list_put(&p->caller->due, &p->node);
}

static void
fail_unconnected(struct connecting *x)
{
    struct call_connection *p = x->connection;

    if (x->lookup.answer.error == EAI_MEMORY)
        call_fail(p->call, CALL_MEMORY, NO_MEMORY);
    else if (x->lookup.answer.error)
        call_fail(p->call, CALL_UNRESOLVED, "its host has no address");
    else if (x->is_short)
        call_fail(p->call, CALL_MEMORY, "no descriptor is left for it");
    else if (x->refused[0] && x->n_opened == 0)
        call_fail(p->call, CALL_REFUSED, "its address %s may not be called",
                  x->refused);
    else
        call_fail(p->call, CALL_UNCONNECTED, "it cannot be connected to: %s",
                  x->error ? strerror(x->error) : "no answer");
    finish(p);
}

/* TLS */

static void on_event(uv_poll_t *poll, int status, int events);

static void
shake_hands(struct call_connection *p)
{
    struct problem why = {""};
    int events;

    switch (call_tls_shake(p, &why)) {
    case IO_OK:
        p->socket->events = 0; /* another function watches from now on */
        finish(p);
        return;
    case IO_PASSED: /* of reads only */
    case IO_AGAIN:
        events = SSL_want_write(p->ssl) ? UV_WRITABLE : UV_READABLE;
        if (call_socket_watch(p->socket, events, on_event))
            return;
        call_fail(p->call, CALL_MEMORY, NO_MEMORY);
        break;
    case IO_END:
    case IO_BROKEN:
        call_fail(p->call, CALL_TLS, "TLS: %s",
                  problem_quote(slice_of(why.text)).text);
        break;
    }
    call_connection_hang_up(p);
    finish(p);
}

/* TCP */

/* Takes the next address, of the other family if there is one; NULL: none is
 * left. */
static union lookup_address *
next_address(struct connecting *x)
{
    struct lookup_answer *found = &x->lookup.answer;
    unsigned next = found->n;

    for (unsigned i = 0; i < found->n; i++)
        if (!(x->tried & 1u << i) &&
            (next == found->n ||
             (found->addresses[next].any.sa_family == x->last &&
              found->addresses[i].any.sa_family != x->last)))
            next = i;
    if (next == found->n)
        return NULL;
    x->tried |= 1u << next;
    x->last = found->addresses[next].any.sa_family;
    return &found->addresses[next];
}

static unsigned
n_untried(const struct connecting *x)
{
    return x->lookup.answer.n - (unsigned)__builtin_popcount(x->tried);
}

static void on_bound(struct alarm *alarm);

/* An attempt that is not the last has its share of the time. */
static bool
open_socket(struct attempt *a, const struct sockaddr *address)
{
    struct connecting *x = a->of;
    struct call_connection *p = x->connection;
    int64_t now_us = clock_steady_us();
    int64_t left_us = p->call->own.began_us + p->call->timeout_us - now_us;
    int64_t bound_us = left_us / (n_untried(x) + 1);

    a->socket = call_socket_open(p, address);
    if (a->socket && call_socket_watch(a->socket, UV_WRITABLE, on_event)) {
        x->n_opened++;
        a->bound.ring = on_bound;
        if (n_untried(x) > 0)
            loop_set_alarm(p->caller->loop, &a->bound,
                           now_us +
                               (bound_us < BOUND_US ? bound_us : BOUND_US));
        return true;
    }
    x->error = a->socket ? ENOMEM : errno;
    close_attempt(a);
    if (x->error == EMFILE || x->error == ENFILE || x->error == ENOBUFS ||
        x->error == ENOMEM) {
        x->is_short = true;
        DIAG(DIAG_WARNING, "net", "a call has no descriptor",
             diag_text("error", strerror(x->error)));
    }
    return false;
}

/* Begins an attempt at the next address that may be called. False: there is
 * none. */
static bool
try_next(struct attempt *a)
{
    struct connecting *x = a->of;
    struct call_connection *p = x->connection;
    union lookup_address *at;

    while ((at = next_address(x))) {
        *lookup_port(at) = x->port;
        if (!call_may_reach(p->caller, p->call, &at->any)) {
            if (getnameinfo(&at->any, sizeof(*at), x->refused,
                            sizeof(x->refused), NULL, 0, NI_NUMERICHOST))
                snprintf(x->refused, sizeof(x->refused), "of an unknown kind");
        } else if (open_socket(a, &at->any)) {
            return true;
        }
    }
    return false;
}

static void
fail_attempt(struct attempt *a, int error)
{
    struct connecting *x = a->of;

    x->error = error;
    close_attempt(a);
    if (!try_next(a) && !x->attempts[0].socket && !x->attempts[1].socket)
        fail_unconnected(x);
}

static void
on_bound(struct alarm *alarm)
{
    fail_attempt(list_entry(alarm, struct attempt, bound), 0);
}

static void
on_race(struct alarm *alarm)
{
    struct connecting *x = list_entry(alarm, struct connecting, race);

    try_next(&x->attempts[x->attempts[0].socket ? 1 : 0]);
}

static void
on_event(uv_poll_t *poll, int status, int events)
{
    struct call_socket *s = poll->data;
    struct call_connection *p = s->connection;
    struct connecting *x = p->connecting;
    struct problem why = {""};
    struct attempt *a;
    size_t length;
    int error = 0;

    (void)events;
    if (status < 0)
        s->events = 0; /* the loop has stopped by itself */
    if (s == p->socket) {
        if (x) /* else it is open: a turn with many events reports it again */
            shake_hands(p);
        return;
    }
    a = &x->attempts[s == x->attempts[1].socket];
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error,
                   &(socklen_t){sizeof(error)}))
        error = errno;
    if (error || status < 0) {
        fail_attempt(a, error);
        return;
    }
    /* The attempt has won. */
    p->socket = s;
    a->socket = NULL;
    close_attempt(&x->attempts[0]);
    close_attempt(&x->attempts[1]);
    loop_clear_alarm(p->caller->loop, &x->race);
    if (!p->is_tls) {
        s->events = 0;
        finish(p);
        return;
    }
    length = strlen(x->name);
    if (length > 0 && x->name[length - 1] == '.')
        x->name[length - 1] = '\0'; /* no certificate has it */
    if (call_tls_begin(p, x->name, &why)) {
        shake_hands(p);
        return;
    }
    call_fail(p->call, CALL_TLS, "TLS: %s", why.text);
    call_connection_hang_up(p);
    finish(p);
}

/* The look-up */

static void
end_look_up(struct connecting *x)
{
    struct loop *loop = x->connection->caller->loop;

    if (x->lookup.answer.error || !try_next(&x->attempts[0])) {
        fail_unconnected(x);
    } else if (n_untried(x) > 0) {
        x->race.ring = on_race;
        loop_set_alarm(loop, &x->race, clock_steady_us() + RACE_US);
    }
}

void
call_connect_found(struct task *task)
{
    struct caller *c = list_entry(task, struct caller, found);
    struct lookup *l;

    while ((l = lookup_take(&c->lookups)))
        end_look_up(list_entry(l, struct connecting, lookup));
}

void
call_connect(struct call_connection *p)
{
    const struct caller *c = p->caller;
    struct connecting *x = memory_new(1, sizeof(*x));
    const struct lookup_wish wish = {.host = x->name,
                                     .max_age_us = LOOKUP_AGE_US,
                                     .is_doubtful = p->call->is_unproven};
    struct slice host = p->host->key, port = host; /* "host:port" */
    uint64_t number = 0;

    p->connecting = x;
    x->connection = p;
    x->attempts[0].of = x->attempts[1].of = x;
    lookup_init(&x->lookup);
    while (host.data[--host.size] != ':')
        ;
    slice_skip(&port, host.size + 1);
    if (number_read(port, &number))
        x->port = htons((uint16_t)number);
    if (slice_starts(host, "["))
        host = (struct slice){host.data + 1, host.size - 2};
    slice_copy(x->name, sizeof(x->name), host);
    if (c->options.unix_socket) {
        if (!open_socket(&x->attempts[0],
                         (const struct sockaddr *)c->options.unix_socket))
            fail_unconnected(x);
    } else if (lookup_begin(&x->lookup, &p->caller->lookups, &wish)) {
        end_look_up(x);
    }
}
