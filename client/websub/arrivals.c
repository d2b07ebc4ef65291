/*
 * arrivals.c - what comes to a callback: connections, requests, and the routes
 * that they are for.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "client/websub/callback_inside.h"
#include "proto/number.h"

/* All bodies that are under way together; more is answered with 503. */
#define BODIES_MAX (256u * 1024 * 1024)

/* A body has a second more for each 16 KB: slower is a trickle. */
#define BYTES_PER_MS 16

/* How long a request may take, and a connection may idle, before it is cut off;
 * bodies get more, by their size. */
#define PATIENCE_MS 60000

struct route {
    struct td_callback *callback;
    struct route *next;
    size_t max_bytes;
    route_fn *fn;
    void *user;
    char url[ROUTE_URL_SIZE];
    const char *token; /* into url: its last segment */
};

/* A connection. */
struct peer {
    struct peer *next, **at;
    int fd;
    int64_t
        since_ms;   /* the request's begin: when the one before was answered */
    size_t n_bytes; /* of its body */
    bool is_cut;
};

/* A request on its way in. */
struct exchange {
    struct td_callback *callback;
    char *target;
    bool has_begun;
    unsigned status; /* that is settled before the body has come; 0: none */
    struct buf body;
};

/* Routes */

static bool
fill_token(char to[TOKEN_SIZE + 1])
{
    unsigned char bytes[TOKEN_BYTES];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return false;
    for (size_t i = 0; i < TOKEN_BYTES; i++)
        snprintf(to + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

struct route *
route_new(struct td_callback *callback, size_t max_bytes, route_fn *fn,
          void *user)
{
    struct route *route = calloc(1, sizeof(*route));
    char token[TOKEN_SIZE + 1];

    if (!route || !fill_token(token)) {
        free(route);
        return NULL;
    }
    route->callback = callback;
    route->max_bytes = max_bytes;
    route->fn = fn;
    route->user = user;
    snprintf(route->url, sizeof(route->url), "%s/%s", callback->url, token);
    route->token = route->url + strlen(callback->url) + 1;
    route->next = callback->routes;
    callback->routes = route;
    return route;
}

void
route_free(struct route *route)
{
    struct route **at;

    if (!route)
        return;
    at = &route->callback->routes;
    while (*at != route)
        at = &(*at)->next;
    *at = route->next;
    free(route);
}

const char *
route_url(const struct route *route)
{
    return route->url;
}

/* The route that a target's path ends with: what a proxy puts before it, or
 * takes away, does not matter. All routes are compared, and all bytes of each,
 * so that the time it takes tells nothing of them. */
static struct route *
route_of(const struct td_callback *callback, const char *target)
{
    size_t size = strcspn(target, "?");
    struct route *found = NULL;

    if (size <= TOKEN_SIZE || target[size - TOKEN_SIZE - 1] != '/')
        return NULL;
    for (struct route *r = callback->routes; r; r = r->next) {
        unsigned char difference = 0;

        for (size_t i = 0; i < TOKEN_SIZE; i++)
            difference |=
                (unsigned char)(r->token[i] ^ target[size - TOKEN_SIZE + i]);
        if (!difference)
            found = r;
    }
    return found;
}

/* Requests */

void *
arrivals_target(void *user, const char *target,
                struct MHD_Connection *connection)
{
    struct td_callback *callback = user;
    struct exchange *x = calloc(1, sizeof(*x));

    (void)connection;
    if (!x)
        return NULL;
    x->callback = callback;
    x->target = strdup(target);
    if (!x->target) {
        free(x);
        return NULL;
    }
    buf_init(&x->body, 0);
    return x;
}

static struct peer *
peer_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void
drop_body(struct exchange *x)
{
    x->callback->n_bodies -= x->body.capacity;
    buf_fini(&x->body);
    buf_init(&x->body, 0);
}

void
arrivals_completed(void *user, struct MHD_Connection *connection,
                   void **context, enum MHD_RequestTerminationCode how)
{
    struct exchange *x = *context;
    struct peer *peer = peer_of(connection);

    (void)user;
    (void)how;
    if (peer) {
        peer->since_ms = loop_now_ms();
        peer->n_bytes = 0;
    }
    if (!x)
        return;
    drop_body(x);
    free(x->target);
    free(x);
    *context = NULL;
}

static enum MHD_Result
answer(struct MHD_Connection *connection, unsigned status, struct slice text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        text.size, (void *)(uintptr_t)text.data, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result rc;

    if (!response)
        return MHD_NO;
    /* Never what a browser would make a page of (W-058). */
    MHD_add_response_header(response, "Content-Type", "text/plain");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == 405)
        MHD_add_response_header(response, "Allow", "GET, POST");
    rc = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return rc;
}

static const char *
header(struct MHD_Connection *connection, const char *name)
{
    const char *value =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

    return value ? value : "";
}

/* What can be said before the body has come; 0: nothing. */
static unsigned
judge_head(const struct exchange *x, const struct route *route,
           struct MHD_Connection *connection, const char *method)
{
    const char *length = header(connection, "Content-Length");
    bool is_post = !strcmp(method, "POST");
    uint64_t size;

    if (!route)
        return 404;
    if (!is_post && strcmp(method, "GET"))
        return 405;
    if (!length[0])
        return 0;
    if (!number_read(slice_of(length), &size) || size > route->max_bytes)
        return 413;
    return size > BODIES_MAX - x->callback->n_bodies ? 503 : 0;
}

/* Some of the body. What is too long is not kept, and answered when all of it
 * has come, or its sender's time is over. */
static void
take_bytes(struct exchange *x, struct MHD_Connection *connection,
           const char *bytes, size_t size)
{
    struct peer *peer = peer_of(connection);
    size_t before = x->body.capacity;

    if (x->status)
        return;
    buf_add(&x->body, bytes, size);
    x->callback->n_bodies += x->body.capacity - before;
    if (x->body.failed)
        x->status = size > x->body.max - x->body.size ? 413 : 503;
    else if (x->callback->n_bodies > BODIES_MAX)
        x->status = 503;
    if (x->status)
        drop_body(x);
    else if (peer)
        peer->n_bytes += size;
}

/* All of it is there. */
static enum MHD_Result
finish(struct exchange *x, struct route *route,
       struct MHD_Connection *connection, const char *method)
{
    const char *query = strchr(x->target, '?');
    struct arrival arrival = {
        .is_post = !strcmp(method, "POST"),
        .query = slice_of(query ? query + 1 : ""),
        .type = header(connection, "Content-Type"),
        .signature = header(connection, "X-Hub-Signature"),
        .delivery_id = header(connection, "Tidings-Delivery"),
        .webhook_id = header(connection, "webhook-id"),
        .webhook_timestamp = header(connection, "webhook-timestamp"),
        .webhook_signature = header(connection, "webhook-signature"),
        .body = x->body,
    };
    struct reply reply = {.status = x->status ? x->status : 404};
    enum MHD_Result rc;

    buf_init(&reply.text, MEMORY_PER_CONNECTION);
    if (!x->status && route) {
        x->callback->n_bodies -= x->body.capacity; /* it may be taken now */
        route->fn(&arrival, &reply, route->user);
        x->body = arrival.body;
        x->callback->n_bodies += x->body.capacity;
    }
    if (reply.text.failed)
        rc = MHD_NO; /* no memory: the connection ends */
    else
        rc = answer(connection, reply.status, buf_slice(&reply.text));
    buf_fini(&reply.text);
    drop_body(x);
    return rc;
}

enum MHD_Result
arrivals_request(void *user, struct MHD_Connection *connection, const char *url,
                 const char *method, const char *version, const char *bytes,
                 size_t *size, void **context)
{
    struct td_callback *callback = user;
    struct exchange *x = *context;
    struct route *route = x ? route_of(callback, x->target) : NULL;

    (void)url;
    (void)version;
    if (!x)
        return MHD_NO; /* no memory: the connection ends */
    if (!x->has_begun) {
        unsigned status = judge_head(x, route, connection, method);

        x->has_begun = true;
        if (status)
            return answer(connection, status, (struct slice){NULL, 0});
        buf_init(&x->body, route->max_bytes);
        return MHD_YES;
    }
    if (*size > 0) {
        take_bytes(x, connection, bytes, *size);
        *size = 0;
        return MHD_YES;
    }
    return finish(x, route, connection, method);
}

/* Connections */

void
arrivals_connection(void *user, struct MHD_Connection *connection,
                    void **context, enum MHD_ConnectionNotificationCode what)
{
    struct td_callback *callback = user;
    const union MHD_ConnectionInfo *info;
    struct peer *peer = *context;

    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (peer) {
            *peer->at = peer->next;
            if (peer->next)
                peer->next->at = peer->at;
            free(peer);
        }
        *context = NULL;
        return;
    }
    info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    peer = calloc(1, sizeof(*peer));
    if (!peer || !info) {
        /* Without a deadline none is served. */
        if (info)
            shutdown(info->connect_fd, SHUT_RDWR);
        free(peer);
        return;
    }
    peer->fd = info->connect_fd;
    peer->since_ms = loop_now_ms();
    peer->next = callback->peers;
    peer->at = &callback->peers;
    if (peer->next)
        peer->next->at = &peer->next;
    callback->peers = peer;
    *context = peer;
    /* It is started for the first and runs as long as there are any: who comes
     * later does not put off the end of the others. */
    if (!peer->next)
        timer_start(callback->deadline, PATIENCE_MS / 4);
}

/* A request that trickles in keeps its connection busy; so it is not silence
 * that ends one, but the time since it began. */
void
arrivals_deadline(void *user)
{
    struct td_callback *callback = user;
    int64_t now = loop_now_ms();

    for (struct peer *p = callback->peers; p; p = p->next) {
        int64_t end =
            p->since_ms + PATIENCE_MS + (int64_t)(p->n_bytes / BYTES_PER_MS);

        if (now >= end && !p->is_cut) {
            p->is_cut = true;
            shutdown(p->fd, SHUT_RDWR);
        }
    }
    if (callback->peers)
        timer_start(callback->deadline, PATIENCE_MS / 4 + 1);
}
