/*
 * gate.c - a proxy that does not let all of HTTP through.
 */
#include "tests/support/gate.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/test.h"

#define PASSES_MAX 256
#define HEAD_MAX   16384

struct pass {
    struct gate *gate;
    pthread_t thread;
    int fd;
};

struct gate {
    int listener;
    char url[64];
    unsigned port, how;
    pthread_t thread;
    bool is_open;
    pthread_mutex_t lock;
    struct pass passes[PASSES_MAX];
    unsigned n_passes, n_upgrades, n_events;
};

static bool
send_all(int fd, const char *bytes, size_t size)
{
    while (size) {
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

/* A request up to its empty line, or what there is of it. */
static size_t
read_head(int fd, char head[HEAD_MAX])
{
    size_t size = 0;
    ssize_t n;

    do {
        n = recv(fd, head + size, HEAD_MAX - 1 - size, 0);
        size += n > 0 ? (size_t)n : 0;
        head[size] = '\0';
    } while (n > 0 && !strstr(head, "\r\n\r\n") && size < HEAD_MAX - 1);
    return size;
}

static int
connect_to(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Both ways, until one side has no more, or for events until their head is
 * through. */
static void
carry(int client, int server, bool ends_behind_head)
{
    struct pollfd fds[2] = {{.fd = client, .events = POLLIN},
                            {.fd = server, .events = POLLIN}};
    char bytes[65536];

    for (;;) {
        poll(fds, 2, -1);
        for (int i = 0; i < 2; i++) {
            ssize_t n;
            char *end;

            if (!fds[i].revents)
                continue;
            n = recv(fds[i].fd, bytes, sizeof(bytes) - 1, 0);
            if (n <= 0)
                return;
            bytes[n] = '\0';
            end = i == 1 && ends_behind_head ? strstr(bytes, "\r\n\r\n") : NULL;
            if (end)
                n = end + 4 - bytes;
            if (!send_all(fds[1 - i].fd, bytes, (size_t)n) || end)
                return;
        }
    }
}

/* The request with a line more, which makes it the last of its connection. */
static bool
send_request(int fd, const char *head, size_t size, bool is_last)
{
    static const char close_line[] = "Connection: close\r\n";
    const char *end = strstr(head, "\r\n");
    size_t first = end ? (size_t)(end + 2 - head) : 0;

    if (!is_last || !first)
        return send_all(fd, head, size);
    return send_all(fd, head, first) &&
           send_all(fd, close_line, sizeof(close_line) - 1) &&
           send_all(fd, head + first, size - first);
}

static void *
pass(void *user)
{
    static const char page[] =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n"
        "Content-Length: 9\r\nConnection: close\r\n\r\n<p>what?\n";
    struct pass *p = user;
    struct gate *g = p->gate;
    char *head = calloc(1, HEAD_MAX);
    size_t size = head ? read_head(p->fd, head) : 0;
    bool is_upgrade = size && strcasestr(head, "\r\nUpgrade:") != NULL;
    bool is_events = size && strcasestr(head, "text/event-stream") != NULL;
    int server;

    pthread_mutex_lock(&g->lock);
    g->n_upgrades += is_upgrade;
    g->n_events += is_events;
    pthread_mutex_unlock(&g->lock);
    if (is_upgrade && (g->how & GATE_NO_UPGRADE)) {
        send_all(p->fd, page, sizeof(page) - 1);
    } else if (size) {
        server = connect_to(g->port);
        if (server >= 0 && send_request(server, head, size, !is_upgrade))
            carry(p->fd, server, is_events && (g->how & GATE_NO_EVENTS));
        if (server >= 0)
            close(server);
    }
    shutdown(p->fd, SHUT_RDWR); /* closed with the gate: its number is ours */
    free(head);
    return NULL;
}

static void *
play(void *user)
{
    struct gate *g = user;
    int fd;

    while ((fd = accept(g->listener, NULL, NULL)) >= 0) {
        struct pass *p = &g->passes[g->n_passes];

        pthread_mutex_lock(&g->lock);
        if (g->n_passes == PASSES_MAX) {
            close(fd);
        } else {
            *p = (struct pass){.gate = g, .fd = fd};
            if (pthread_create(&p->thread, NULL, pass, p))
                close(fd);
            else
                g->n_passes++;
        }
        pthread_mutex_unlock(&g->lock);
    }
    return NULL;
}

struct gate *
gate_new(void)
{
    struct gate *g = calloc(1, sizeof(*g));
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);

    assert_non_null(g);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    g->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(g->listener >= 0);
    assert_int_equal(
        bind(g->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(
        getsockname(g->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(g->url, sizeof(g->url), "http://127.0.0.1:%d",
             ntohs(address.sin_port));
    pthread_mutex_init(&g->lock, NULL);
    return g;
}

void
gate_open(struct gate *g, unsigned port, unsigned how)
{
    g->port = port;
    g->how = how;
    assert_int_equal(listen(g->listener, 64), 0);
    assert_int_equal(pthread_create(&g->thread, NULL, play, g), 0);
    g->is_open = true;
}

void
gate_free(struct gate *g)
{
    if (g->is_open) {
        shutdown(g->listener, SHUT_RDWR);
        pthread_join(g->thread, NULL);
    }
    for (unsigned i = 0; i < g->n_passes; i++) {
        shutdown(g->passes[i].fd, SHUT_RDWR);
        pthread_join(g->passes[i].thread, NULL);
        close(g->passes[i].fd);
    }
    close(g->listener);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

const char *
gate_url(const struct gate *g)
{
    return g->url;
}

unsigned
gate_n(struct gate *g, unsigned what)
{
    unsigned n;

    pthread_mutex_lock(&g->lock);
    n = what == GATE_NO_UPGRADE ? g->n_upgrades : g->n_events;
    pthread_mutex_unlock(&g->lock);
    return n;
}
