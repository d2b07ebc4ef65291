/*
 * callback.c - the server that hubs call: listening, the loop, its life.
 */
#include "client/websub/callback.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/websub/callback_inside.h"
#include "proto/number.h"
#include "proto/websub.h"

#define CONNECTIONS_MAX 512

static void
run(struct td_callback *callback)
{
    MHD_UNSIGNED_LONG_LONG ms;

    MHD_run(callback->daemon);
    if (MHD_get_timeout(callback->daemon, &ms) == MHD_YES)
        timer_start(callback->due, ms);
    else
        timer_stop(callback->due);
}

static void
on_ready(int events, void *user)
{
    (void)events;
    run(user);
}

static void
on_due(void *user)
{
    run(user);
}

/* "HOST:PORT", "[::1]:PORT"; `host` without the brackets. */
static bool
split_listen(const char *listen, char host[256], const char **port)
{
    const char *colon = strrchr(listen, ':');
    size_t size = colon ? (size_t)(colon - listen) : 0;
    uint64_t number;

    if (size == 0 || size >= 256 ||
        !number_read(slice_of(colon + 1), &number) || number > 65535)
        return false;
    if (listen[0] == '[') {
        if (size < 3 || listen[size - 1] != ']')
            return false;
        listen++;
        size -= 2;
    } else if (memchr(listen, ':', size)) {
        return false;
    }
    memcpy(host, listen, size);
    host[size] = '\0';
    *port = colon + 1;
    return true;
}

static int
listen_to(const struct addrinfo *at, unsigned *real_port)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    char service[NI_MAXSERV];
    const int one = 1;
    int fd =
        socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
        bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, SOMAXCONN) ||
        getsockname(fd, (struct sockaddr *)&address, &size) ||
        getnameinfo((struct sockaddr *)&address, size, NULL, 0, service,
                    sizeof(service), NI_NUMERICSERV)) {
        int saved = errno;

        if (fd >= 0)
            close(fd);
        errno = saved;
        return -1;
    }
    *real_port = (unsigned)strtoul(service, NULL, 10);
    return fd;
}

/* At the first address of the host that can be had: a name may have one of
 * IPv6 where there is none. */
static int
listen_at(const char *host, const char *port, unsigned *real_port)
{
    const struct addrinfo hints = {
        .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
        .ai_socktype = SOCK_STREAM,
    };
    struct addrinfo *found = NULL;
    int fd = -1;

    if (getaddrinfo(host, port, &hints, &found)) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
        fd = listen_to(at, real_port);
    freeaddrinfo(found);
    return fd;
}

/* libmicrohttpd takes the socket, and closes it. */
static bool
start(struct td_callback *callback, int fd)
{
    const union MHD_DaemonInfo *info;

    callback->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_TURBO, 0, NULL, NULL, arrivals_request,
        callback, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)MEMORY_PER_CONNECTION, MHD_OPTION_URI_LOG_CALLBACK,
        arrivals_target, callback, MHD_OPTION_NOTIFY_COMPLETED,
        arrivals_completed, callback, MHD_OPTION_NOTIFY_CONNECTION,
        arrivals_connection, callback, MHD_OPTION_END);
    if (!callback->daemon) {
        close(fd);
        return false;
    }
    info = MHD_get_daemon_info(callback->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info)
        return false;
    callback->due = timer_new(callback->client->loop, on_due, callback);
    callback->deadline =
        timer_new(callback->client->loop, arrivals_deadline, callback);
    callback->descriptor = descriptor_new(callback->client->loop,
                                          info->epoll_fd, on_ready, callback);
    if (!callback->due || !callback->deadline || !callback->descriptor)
        return false;
    descriptor_set(callback->descriptor, READY_READ);
    return true;
}

/* How hubs reach us; false: it is no such URL, the client's problem says why.
 */
static bool
set_url(struct td_callback *callback, const char *url)
{
    struct problem why = {""};
    size_t size = strlen(url);

    while (size > 0 && url[size - 1] == '/')
        size--;
    if (websub_check_url(slice_of(url), "the callback's URL", &why)) {
        client_fail(callback->client, TD_INVALID, "%s", why.text);
        return false;
    }
    if (strchr(url, '?') || size >= sizeof(callback->url)) {
        client_fail(
            callback->client, TD_INVALID, "the callback's URL: %s: \"%.80s\"",
            strchr(url, '?') ? "a query is not allowed" : "too long", url);
        return false;
    }
    memcpy(callback->url, url, size);
    callback->url[size] = '\0';
    return true;
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
    enum td_status rc = TD_INVALID;
    unsigned real_port = 0;
    char own_url[300];
    char host[256];
    const char *port;
    int fd;

    client_begin(client);
    *callback = NULL;
    if (!c)
        return client_fail(client, TD_MEMORY, "no memory");
    c->client = client;
    if (!split_listen(listen, host, &port)) {
        client_fail(client, rc, "not HOST:PORT: \"%.80s\"", listen);
        goto out;
    }
    if (url && !set_url(c, url))
        goto out;

    fd = listen_at(host, port, &real_port);
    if (fd < 0) {
        rc = client_fail(client, TD_IO, "cannot listen at %.80s: %s", listen,
                         strerror(errno));
        goto out;
    }
    rc = TD_MEMORY;
    if (!start(c, fd)) {
        client_fail(client, rc, "no memory, or no descriptors");
        goto out;
    }
    snprintf(own_url, sizeof(own_url), "http://%.*s:%u",
             (int)(strrchr(listen, ':') - listen), listen, real_port);
    if (!url && !set_url(c, own_url)) {
        rc = TD_INVALID;
        goto out;
    }
    c->running =
        (struct running){.close = close_it, .owner = c, .is_idle = true};
    client_runs(client, &c->running);
    *callback = c;
    rc = TD_OK;

out:
    if (rc)
        td_callback_close(c);
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
    if (!callback)
        return;
    client_leaves(callback->client, &callback->running);
    while (callback->tenants)
        callback->tenants->close(callback->tenants->owner);
    descriptor_free(callback->descriptor);
    if (callback->daemon)
        MHD_stop_daemon(callback->daemon);
    timer_free(callback->due);
    timer_free(callback->deadline);
    free(callback);
}

void
callback_stay(struct td_callback *callback, struct tenant *tenant)
{
    tenant->next = callback->tenants;
    callback->tenants = tenant;
    callback->is_empty = false;
}

void
callback_leave(struct td_callback *callback, struct tenant *tenant)
{
    struct tenant **at = &callback->tenants;

    while (*at != tenant)
        at = &(*at)->next;
    *at = tenant->next;
    callback->is_empty = !callback->tenants;
}

static void
on_late(void *user)
{
    *(bool *)user = true;
}

enum td_status
td_callback_settle(struct td_callback *callback, unsigned wait_ms)
{
    struct td_client *client = callback->client;
    struct timer *timer;
    enum td_status rc;

    client_begin(client);
    callback->is_empty = !callback->tenants;
    if (callback->is_empty)
        return TD_OK;
    timer = timer_new(client->loop, on_late, &callback->is_empty);
    if (!timer)
        return client_fail(client, TD_MEMORY, "no memory");
    timer_start(timer, wait_ms);
    rc = loop_until(client->loop, &callback->is_empty);
    timer_free(timer);
    if (rc == TD_INVALID)
        client_fail(client, rc, "called from a callback of the same handle");
    else if (!rc && callback->tenants)
        rc = client_fail(client, TD_UNREACHABLE,
                         "a hub was not heard; its lease will run out");
    return client_end(client, rc);
}

struct td_client *
callback_client(const struct td_callback *callback)
{
    return callback->client;
}
