/*
 * Makes the loop watch libcurl's descriptors, and opens and closes the sockets
 * of its connections.
 *
 * A kept connection stays watched: most calls then change nothing, and cost no
 * system call for it. When the other side closes it the watch ends; libcurl
 * notices that when it looks for a connection.
 *
 * A connection may be cut before it has connected. Then libcurl (7.88) closes
 * its descriptor without call_sockets_close, and only afterwards ends the
 * watch (CURL_POLL_REMOVE). By then the number may belong to another thread, or
 * to the call's next address, which libcurl believes to be watched already.
 * libuv aborts the process if it cannot watch a descriptor. So until a
 * connection has answered, the loop watches a duplicate of its descriptor,
 * which only this file closes. (libcurl only reads from connected sockets, and
 * closes those correctly.)
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/calls/caller_state.h"
#include "proto/memory.h"

void
shard_touch(struct shard *shard)
{
    struct call_transport *g = &shard->caller->transport;

    if (list_is_empty(&shard->touched))
        list_append(&g->touched, &shard->touched);
}

/* A descriptor that libcurl watches. */
struct watch {
    struct map_node node; /* in call_transport.watches; its hash is `fd` */
    uv_poll_t poll;
    struct call_transport *transport;
    struct shard *shard;
    int fd;
    int watched;  /* the same, or a duplicate until it has answered */
    int wanted;   /* events, of libuv */
    int active;   /* the events that the loop watches: `wanted`, or more if that
                     is 0 */
    bool is_ours; /* opened and closed here; else libcurl's own */
    bool has_poll;
};

static struct watch *
watch_of(const struct call_transport *g, int fd)
{
    return map_struct(map_find(&g->watches, (uint64_t)fd),
                      offsetof(struct watch, node));
}

static void
on_poll_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* Call it before the descriptor is closed. */
static void
watch_free(struct watch *w)
{
    int duplicate = w->watched != w->fd ? w->watched : -1;

    w->transport->n_open -= w->is_ours;
    map_remove(&w->transport->watches, &w->node);
    if (w->has_poll)
        uv_close((uv_handle_t *)&w->poll, on_poll_closed);
    else
        free(w);
    file_close(&duplicate);
}

/* If libcurl has closed a descriptor itself, its watch still exists when the
 * number is used again: this frees it then. */
static struct watch *
watch_new(struct call_transport *g, int fd)
{
    struct watch *former = watch_of(g, fd);
    struct watch *w = memory_new(1, sizeof(*w));

    if (former)
        watch_free(former);
    w->transport = g;
    w->fd = w->watched = fd;
    map_add(&g->watches, &w->node, (uint64_t)fd);
    return w;
}

static void
set_ours(struct watch *w)
{
    w->is_ours = true;
    w->transport->n_open++;
}

void
call_sockets_fini(struct call_transport *g)
{
    struct map_node *after;
    struct watch *w;

    map_each (w, after, &g->watches, node)
        watch_free(w);
    map_fini(&g->watches);
}

static void on_event(uv_poll_t *poll, int status, int events);

static void
set_events(struct watch *w, int events)
{
    w->wanted = events;
    if (events == w->active || !events)
        return;
    if (!uv_poll_start(&w->poll, events, on_event))
        w->active = events;
}

/* Begins to watch it for a shard. Without memory the call ends at its
 * deadline. */
static void
begin_watching(struct watch *w, struct shard *shard, int events)
{
    w->shard = shard;
    if (!w->has_poll &&
        uv_poll_init(loop_uv(shard->caller->loop), &w->poll, w->watched))
        return;
    w->poll.data = w;
    w->has_poll = true;
    set_events(w, events);
}

/* When the connection has answered: from now on the loop watches the descriptor
 * itself. */
static void
end_duplicate(struct watch *w)
{
    struct call_transport *g = w->transport;
    struct shard *shard = w->shard;
    int fd = w->fd, wanted = w->wanted;

    w = watch_new(g, fd); /* frees `w` */
    set_ours(w);
    begin_watching(w, shard, wanted);
}

static void
on_event(uv_poll_t *poll, int status, int events)
{
    struct watch *w = poll->data;
    struct shard *shard = w->shard;
    int fd = w->fd, flags = 0, running = 0;

    if (!w->wanted) { /* kept, and closed by the other side */
        uv_poll_stop(poll);
        w->active = 0;
        return;
    }
    if (status < 0) {
        w->active = 0; /* the loop has stopped by itself */
        flags = CURL_CSELECT_ERR;
    }
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    if (events & UV_READABLE) {
        flags |= CURL_CSELECT_IN;
        if (w->watched != fd)
            end_duplicate(w);
    }
    curl_multi_socket_action(shard->multi, fd, flags, &running);
    shard_touch(shard); /* the watch may be freed */
}

int
call_sockets_watch(CURL *easy, curl_socket_t fd, int what, void *user,
                   void *socket_user)
{
    struct shard *shard = user;
    struct call_transport *g = &shard->caller->transport;
    struct watch *w = watch_of(g, fd);

    (void)easy;
    (void)socket_user;
    if (what == CURL_POLL_REMOVE) {
        if (w && w->is_ours && w->watched == fd)
            set_events(w, 0); /* kept */
        else if (w)
            watch_free(w);
        return 0;
    }
    if (!w)
        w = watch_new(g, fd);
    begin_watching(w, shard,
                   (what & CURL_POLL_IN ? UV_READABLE : 0) |
                       (what & CURL_POLL_OUT ? UV_WRITABLE : 0));
    return 0;
}

/* Opens a socket and its watch, which begins with a duplicate. -1: see
 * errno. */
static int
open_watched(struct shard *shard, const struct curl_sockaddr *address)
{
    struct call_transport *g = &shard->caller->transport;
    int fd = socket(address->family,
                    address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->protocol);
    int duplicate = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    struct watch *w;
    int wanted = 0;

    if (duplicate < 0) {
        file_close(&fd); /* errno stays */
        return -1;
    }
    w = watch_of(g, fd); /* of the call's last address */
    if (w && w->shard == shard)
        wanted = w->wanted;
    w = watch_new(g, fd);
    w->watched = duplicate;
    set_ours(w);
    if (wanted)
        begin_watching(w, shard, wanted);
    return fd;
}

bool
call_may_reach(const struct caller *c, const struct call *call,
               const struct sockaddr *address)
{
    const struct networks *allowed = networks_latest(c->options.allowed);

    return address_may_be_called(allowed, address) ||
           (call->also && address_may_be_called(call->also, address));
}

/* Judges the address before each request: libcurl may reuse a connection of
 * another call, to an address that this call must not reach. */
int
call_sockets_judge(void *transfer, char *address, char *local, int port,
                   int local_port)
{
    struct call_transfer *t = transfer;
    struct sockaddr_storage of;

    (void)local;
    (void)port;
    (void)local_port;
    if (address_read(address, &of) &&
        call_may_reach(t->caller, t->call, (const struct sockaddr *)&of))
        return CURL_PREREQFUNC_OK;
    snprintf(t->refused, sizeof(t->refused), "%s", address);
    return CURL_PREREQFUNC_ABORT;
}

/* Judges the very address that libcurl then connects to. */
curl_socket_t
call_sockets_open(void *transfer, curlsocktype purpose,
                  struct curl_sockaddr *address)
{
    struct call_transfer *t = transfer;
    const void *in = address->family == AF_INET6
                         ? (const char *)&address->addr +
                               offsetof(struct sockaddr_in6, sin6_addr)
                         : (const char *)&address->addr +
                               offsetof(struct sockaddr_in, sin_addr);
    int fd = -1;

    (void)purpose;
    if (!call_may_reach(t->caller, t->call, &address->addr)) {
        if (!inet_ntop(address->family, in, t->refused, sizeof(t->refused)))
            snprintf(t->refused, sizeof(t->refused), "of an unknown kind");
        return CURL_SOCKET_BAD;
    }
    fd = open_watched(t->shard, address);
    if (fd >= 0) {
        t->n_opened++;
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
               errno == ENOMEM) {
        t->is_short = true;
        DIAG(DIAG_WARNING, "net", "a call has no descriptor",
             diag_text("error", strerror(errno)));
    }
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

int
call_sockets_close(void *caller, curl_socket_t fd)
{
    struct watch *w = watch_of(&((struct caller *)caller)->transport, fd);

    if (w)
        watch_free(w);
    return close(fd);
}
