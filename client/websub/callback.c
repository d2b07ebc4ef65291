/*
 * callback.c - the server for hubs: routes, listening, its life.
 */
#include "client/websub/callback.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/file.h"
#include "base/options.h"
#include "base/random.h"
#include "proto/http/websub.h"

/* One more connection replaces the oldest that receives no body. */
#define CONNECTIONS_MAX 512

#define PAUSE_MS 1000

/* Routes */

struct route *
route_new(struct td_callback *callback, size_t max_bytes, route_fn *fn,
          void *user)
{
    struct route *route = calloc(1, sizeof(*route));
    char token[TOKEN_SIZE + 1];

    if (!route || !random_hex(token, sizeof(token))) {
        free(route);
        return NULL;
    }
    route->callback = callback;
    route->max_bytes = max_bytes;
    route->fn = fn;
    route->user = user;
    snprintf(route->url, sizeof(route->url), "%s/%s", callback->url, token);
    route->token = route->url + strlen(callback->url) + 1;
    list_append(&callback->routes, &route->node);
    return route;
}

void
route_free(struct route *route)
{
    if (!route)
        return;
    callback_connections_forget(route->callback, route);
    list_remove(&route->node);
    free(route);
}

/* Listening */

/* Accepts nobody for a while: there are no descriptors, or all connections
 * receive bodies. New clients wait meanwhile. */
static void
pause_accepting(struct td_callback *callback)
{
    descriptor_set(callback->descriptor, 0);
    timer_start(&callback->pause, PAUSE_MS);
}

static void
on_pause(void *user)
{
    struct td_callback *callback = user;

    descriptor_set(callback->descriptor, READY_READ);
}

/* Accepts one connection a turn: the loop reads from all others before it
 * evicts the next one. */
static void
on_connect(int events, void *user)
{
    struct td_callback *callback = user;
    int fd;

    (void)events;
    if (callback->n_connections >= CONNECTIONS_MAX &&
        !callback_connections_evict(callback)) {
        pause_accepting(callback);
        return;
    }
    fd = accept4(callback->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        callback_connection_new(callback, fd);
    else if ((errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
              errno == ENOMEM) &&
             !callback_connections_evict(callback))
        pause_accepting(callback);
}

/* Listens at the first usable address of the host: a name may have one of IPv6
 * on a machine without it. */
static int
listen_at(const char *host, unsigned *port)
{
    const struct addrinfo hints = {
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *found = NULL;
    struct sockaddr_storage address;
    char service[NI_MAXSERV];
    const int one = 1;
    int fd = -1;

    snprintf(service, sizeof(service), "%u", *port);
    if (getaddrinfo(host, service, &hints, &found)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        socklen_t size = sizeof(address);

        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    0);
        if (fd < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) ||
            bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, SOMAXCONN) ||
            getsockname(fd, (struct sockaddr *)&address, &size) ||
            getnameinfo((struct sockaddr *)&address, size, NULL, 0, service,
                        sizeof(service), NI_NUMERICSERV))
            file_close(&fd);
    }
    if (fd >= 0)
        *port = (unsigned)strtoul(service, NULL, 10);
    freeaddrinfo(found);
    return fd;
}

/* Sets the URL for hubs. STATUS_INVALID: the client's problem says why. */
static enum status
set_url(struct td_callback *callback, const char *url)
{
    struct problem why = {""};
    size_t size = strlen(url);

    while (size > 0 && url[size - 1] == '/')
        size--;
    if (websub_check_url(slice_of(url), "the callback's URL", &why))
        return client_fail(callback->client, STATUS_INVALID, "%s", why.text);
    if (strchr(url, '?') || !slice_copy(callback->url, sizeof(callback->url),
                                        (struct slice){url, size}))
        return client_fail(
            callback->client, STATUS_INVALID,
            "the callback's URL: %s: \"%.80s\"",
            strchr(url, '?') ? "a query is not allowed" : "too long", url);
    return STATUS_OK;
}

static void
close_it(void *owner)
{
    td_callback_close(owner);
}

enum td_status
td_callback_open(struct td_client *client, const char *listen, const char *url,
                 struct td_callback **callback)
{
    struct td_callback *c = calloc(1, sizeof(*c));
    enum status rc = STATUS_OK;
    unsigned port = 0;
    char own_url[300];
    char host[256];

    client_begin(client);
    *callback = NULL;
    if (!c)
        return client_end(client, problem_memory(&client->problem));
    c->client = client;
    c->fd = -1;
    list_init(&c->routes);
    list_init(&c->connections);
    list_init(&c->tenants);
    timer_init(&c->pause, client->loop, on_pause, c);
    c->running =
        (struct running){.close = close_it, .owner = c, .is_idle = true};
    client_runs(client, &c->running);
    if (option_listen(listen, host, sizeof(host), &port, NULL))
        rc = client_fail(client, STATUS_INVALID, "not HOST:PORT: \"%.80s\"",
                         listen);
    else if (url)
        rc = set_url(c, url);
    if (!rc && (c->fd = listen_at(host, &port)) < 0)
        rc = problem_errno(&client->problem, "cannot listen at", listen);
    if (!rc) {
        c->descriptor = descriptor_new(client->loop, c->fd, on_connect, c);
        if (c->descriptor)
            descriptor_set(c->descriptor, READY_READ);
        else
            rc = client_fail(client, STATUS_MEMORY,
                             "no memory, or no descriptors");
    }
    if (!rc && !url) {
        snprintf(own_url, sizeof(own_url), "http://%.*s:%u",
                 (int)(strrchr(listen, ':') - listen), listen, port);
        rc = set_url(c, own_url);
    }
    if (rc)
        td_callback_close(c);
    else
        *callback = c;
    return client_end(client, rc);
}

const char *
td_callback_url(const struct td_callback *callback)
{
    return callback->url;
}

void
td_callback_close(struct td_callback *callback)
{
    struct tenant *tenant;

    if (!callback)
        return;
    client_leaves(callback->client, &callback->running);
    list_until_empty (tenant, &callback->tenants, node)
        tenant->close(tenant->owner);
    callback_connections_close(callback);
    descriptor_free(callback->descriptor);
    timer_stop(&callback->pause);
    file_close(&callback->fd);
    free(callback);
}

enum td_status
td_callback_settle(struct td_callback *callback, unsigned wait_ms)
{
    struct td_client *client = callback->client;
    enum status rc;

    client_begin(client);
    callback->is_empty = list_is_empty(&callback->tenants);
    if (callback->is_empty)
        return client_end(client, STATUS_OK);
    rc = client_wait(client, wait_ms, &callback->is_empty);
    if (rc == STATUS_MEMORY)
        problem_memory(&client->problem);
    else if (rc == STATUS_INVALID)
        client_fail(client, rc, "called from a callback of the same handle");
    else if (!rc && !list_is_empty(&callback->tenants))
        rc = client_fail(client, STATUS_UNREACHABLE,
                         "a hub was not heard; its lease will run out");
    return client_end(client, rc);
}
