/*
 * listener.c - listening sockets and accepting.
 */
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/base/metrics.h"
#include "broker/net/connection.h"
#include "broker/net/service.h"
#include "broker/net/tcp.h"

#define BACKLOG 4096

/* Connections accepted at once; then the existing ones have their turn. */
#define ACCEPT_AT_ONCE 64

/* A free port is sought on the first address; another may have it in use. */
#define PORT_TRIES 20

/* A peer that has vanished is noticed after 60 + 6 * 10 seconds. */
#define KEEPALIVE_IDLE_S     60
#define KEEPALIVE_INTERVAL_S 10
#define KEEPALIVE_COUNT      6

/* The period of reports about a lasting shortage. */
#define REPORT_AGAIN_US 60000000

/* Addresses */

/* A socket bound to address number `i`; -1 and errno if that cannot be. Options
 * of a listening socket are those of the connections it accepts. */
static int
bound_socket(const struct lookup_answer *a, unsigned i, bool is_shared)
{
    static const int on = 1, idle = KEEPALIVE_IDLE_S,
                     interval = KEEPALIVE_INTERVAL_S, count = KEEPALIVE_COUNT;
    const struct sockaddr *at = &a->addresses[i].any;
    socklen_t size = at->sa_family == AF_INET6 ? sizeof(a->addresses[i].v6)
                                               : sizeof(a->addresses[i].v4);
    int fd =
        socket(at->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    tcp_limit_unsent(fd, UNSENT_MAX);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    if (at->sa_family == AF_INET6 && a->n > 1)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));

    if ((is_shared &&
         setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on))) ||
        bind(fd, at, size)) {
        error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Tries `port`, or any (0), on all addresses, and leaves out addresses that
 * this machine does not have. Not shared: with SO_REUSEPORT a second broker
 * would get the port, too, and half of the connections. 0, or an errno. */
static int
try_port(struct lookup_answer *a, unsigned *port)
{
    unsigned n = a->n;
    int error = 0, missing = EADDRNOTAVAIL;
    int fds[ADDRESSES_MAX];

    a->n = 0;
    for (unsigned i = 0; i < n && !error; i++) {
        struct lookup_answer one = {.n = n, .addresses = {a->addresses[i]}};

        *lookup_port(&one.addresses[0]) = htons((uint16_t)*port);
        fds[a->n] = bound_socket(&one, 0, false);
        if (fds[a->n] < 0 &&
            (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)) {
            missing = errno;
            continue;
        }
        if (fds[a->n] < 0) {
            error = errno;
            break;
        }
        getsockname(fds[a->n], &one.addresses[0].any,
                    &(socklen_t){sizeof(one.addresses[0])});
        *port = ntohs(*lookup_port(&one.addresses[0]));
        a->addresses[a->n++] = one.addresses[0];
    }
    for (unsigned i = 0; i < a->n; i++)
        close(fds[i]);
    if (!error && !a->n)
        error = missing;
    return error;
}

enum status
addresses_find(struct lookup_answer *a, const char *host, unsigned *port,
               struct problem *why)
{
    struct lookup_answer found;
    char where[300], name[256];
    size_t size = strlen(host);
    int error = 0;

    snprintf(where, sizeof(where), "%s port %u", host, *port);
    if (size > 2 && host[0] == '[' && host[size - 1] == ']')
        snprintf(name, sizeof(name), "%.*s", (int)size - 2, host + 1);
    else
        snprintf(name, sizeof(name), "%s", host);
    lookup_addresses(name, AI_PASSIVE, &found);
    if (found.error)
        return problem(why, STATUS_IO, "cannot listen on %s: %s", where,
                       gai_strerror(found.error));
    if (found.n > ADDRESSES_MAX)
        found.n = ADDRESSES_MAX;
    for (int tries = 0; tries < PORT_TRIES; tries++) {
        unsigned wanted = *port;

        *a = found;
        error = try_port(a, &wanted);
        if (!error) {
            *port = wanted;
            return STATUS_OK;
        }
        if (*port)
            break;
    }
    errno = error;
    return problem_errno(why, "cannot listen on", where);
}

/* Accepting */

static void
pause_listener(struct listener *listener)
{
    listener->is_paused = true;
    uv_poll_stop(&listener->poll);
}

/* New connections wait in the backlog until listeners_resume, at the latest
 * until the next second. The operator's connections go on: a tenth of the
 * descriptors is left to them and to the broker's files. */
static void
pause_accepting(struct service *service)
{
    struct listeners *l = &service->listeners;

    for (unsigned i = 0; i < l->n; i++)
        if (l->all[i].kind != LISTENER_CONTROL)
            pause_listener(&l->all[i]);
}

/* All descriptors for connections are in use, and no idle connection gives way.
 * Without the pause the loop would spin. */
static void
report_shortage(struct service *service)
{
    struct listeners *l = &service->listeners;

    metrics_add(METRIC_ACCEPT_PAUSES, 1);
    if (!l->reported_us ||
        clock_steady_us() - l->reported_us > REPORT_AGAIN_US) {
        diag(DIAG_WARNING, "net", "out of file descriptors: not accepting");
        l->reported_us = clock_steady_us();
    }
    pause_accepting(service);
}

/*
 * A connection on its way from the service that accepted it to another one
 *
 * A connection of a unix socket goes to the service whose turn it is. Any
 * connection goes on, from service to service, if no descriptor is left and the
 * service cannot displace a connection for it: all idle ones may belong to
 * another service. It ends where it began.
 */
struct arrival {
    struct task task;
    struct service *from;
    struct service *to;
    bool is_awaited; /* `from` accepts no other meanwhile */
    enum listener_kind kind;
    int fd;
    struct sockaddr_storage peer;
};

/* A task: `from` accepts again. */
static void
go_on(struct task *task)
{
    struct arrival *a = list_entry(task, struct arrival, task);

    listeners_resume(a->from);
    free(a);
}

/* A task: `to` takes the connection over, or sends it on. */
static void
arrive(struct task *task)
{
    struct arrival *a = list_entry(task, struct arrival, task);
    struct server *server = a->to->server;
    enum status rc;

    if (atomic_load(&server->is_stopping)) {
        close(a->fd);
        free(a);
        return;
    }
    rc = connection_new(a->to, a->fd, (struct sockaddr *)&a->peer, a->kind);
    if (rc && a->to == a->from) { /* no service has a place */
        close(a->fd);
        report_shortage(a->from);
        free(a);
    } else if (rc) {
        a->to = &server->services[(a->to->number + 1) % server->n_services];
        loop_post(a->to->loop, &a->task);
    } else if (a->is_awaited) {
        a->task.run = go_on;
        loop_post(a->from->loop, &a->task);
    } else {
        free(a);
    }
}

/* False: there is no other service. */
static bool
send_away(struct service *from, struct service *to, bool is_awaited, int fd,
          const struct sockaddr_storage *peer, enum listener_kind kind)
{
    struct arrival *a;

    if (to == from)
        return false;
    a = memory_room(sizeof(*a));
    *a = (struct arrival){.task.run = arrive,
                          .from = from,
                          .to = to,
                          .is_awaited = is_awaited,
                          .kind = kind,
                          .fd = fd,
                          .peer = *peer};
    loop_post(to->loop, &a->task);
    return true;
}

/* Gives a connection of a unix socket to the service whose turn it is. False:
 * this service has to take it. That is the case, too, if the descriptor is none
 * for connections: then one at a time looks for a place (find_place). */
static bool
hand_over(struct service *service, int fd, const struct sockaddr_storage *peer,
          enum listener_kind kind)
{
    struct server *server = service->server;
    unsigned turn;

    if (kind != LISTENER_UNIX || fd >= server->fd_end)
        return false;
    turn = service->listeners.next++ % server->n_services;
    return send_away(service, &server->services[turn], false, fd, peer, kind);
}

/* This service has no connection to displace: asks the others. It accepts no
 * more until the connection has its place, so that few take descriptors of the
 * broker's own files. */
static void
find_place(struct service *service, int fd, const struct sockaddr_storage *peer,
           enum listener_kind kind)
{
    struct server *server = service->server;
    unsigned next = (service->number + 1) % server->n_services;

    if (send_away(service, &server->services[next], true, fd, peer, kind)) {
        pause_accepting(service);
        return;
    }
    close(fd);
    report_shortage(service);
}

static void
accept_some(uv_poll_t *poll, int status, int events)
{
    struct listener *listener = poll->data;
    enum listener_kind kind = listener->kind;
    struct service *service = listener->service;
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    int *spare = &service->listeners.spare;
    enum status rc;

    (void)status;
    (void)events;
    if (atomic_load(&service->server->is_stopping))
        return;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        int fd =
            accept4(listener->fd, (struct sockaddr *)&peer,
                    &(socklen_t){sizeof(peer)}, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                       errno == ENOMEM)) {
            if (connection_displace(service))
                continue;
            /* The process has no descriptor left at all. Uses the spare one to
             * accept one connection and hang up, so that its client need not
             * wait. */
            file_close(spare);
            fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
            file_close(&fd);
            *spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
            report_shortage(service);
            pause_listener(listener);
            return;
        }
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        /* Without a descriptor that connection has failed, not the listener. */
        if (fd < 0 || hand_over(service, fd, &peer, kind))
            continue;
        rc = connection_new(service, fd, (struct sockaddr *)&peer, kind);
        if (rc == STATUS_LIMITED)
            close(fd);
        if (rc == STATUS_BUSY) {
            find_place(service, fd, &peer, kind);
            return;
        }
    }
}

/* Listening */

static void
accept_on(struct listener *listener)
{
    listener->is_paused = false;
    uv_poll_start(&listener->poll, UV_READABLE, accept_some);
}

/* Takes over `fd`, and the file of a unix socket. */
static enum status
add_listener(struct service *service, int fd, enum listener_kind kind,
             struct unix_file *file, struct problem *why)
{
    struct listeners *l = &service->listeners;
    struct listener *listener = &l->all[l->n];

    if (uv_poll_init(loop_uv(service->loop), &listener->poll, fd)) {
        file_close(&fd);
        if (file)
            unix_socket_remove(file);
        return problem_memory(why);
    }
    listener->poll.data = listener;
    listener->service = service;
    listener->kind = kind;
    listener->fd = fd;
    if (file)
        listener->file = *file;
    l->n++;
    return STATUS_OK;
}

enum status
listeners_open(struct service *service, const struct lookup_answer *addresses,
               struct problem *why)
{
    const struct server_options *options = &service->server->options;
    struct listeners *l = &service->listeners;
    enum status rc = STATUS_OK;

    struct unix_file file;
    int fd;

    for (unsigned i = 0; i < addresses->n && !rc; i++) {
        fd = bound_socket(addresses, i, true);
        if (fd >= 0 && !listen(fd, BACKLOG)) {
            rc = add_listener(service, fd, LISTENER_TCP, NULL, why);
        } else {
            rc = problem_errno(why, "cannot listen on", options->host);
            file_close(&fd);
        }
    }
    for (unsigned i = 0; i < options->n_unix_sockets && !service->number && !rc;
         i++) {
        const struct unix_socket *socket = &options->unix_sockets[i];

        rc = unix_socket_listen(socket, BACKLOG, &file, &fd, why);
        if (!rc)
            rc = add_listener(service, fd, socket->kind, &file, why);
    }
    l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (unsigned i = 0; i < l->n; i++)
        accept_on(&l->all[i]);
    return rc;
}

void
listeners_resume(struct service *service)
{
    struct listeners *l = &service->listeners;

    for (unsigned i = 0; i < l->n && !l->is_closed; i++)
        if (l->all[i].is_paused)
            accept_on(&l->all[i]);
}

void
listeners_close(struct service *service)
{
    struct listeners *l = &service->listeners;

    for (unsigned i = 0; i < l->n && !l->is_closed; i++) {
        uv_close((uv_handle_t *)&l->all[i].poll, NULL);
        if (l->all[i].kind != LISTENER_TCP)
            unix_socket_remove(&l->all[i].file);
        close(l->all[i].fd);
    }
    l->is_closed = true;
}
