/*
 * callbacks_wire.c - the thread of callbacks: listens, and looks after the
 * connections (epoll).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/callbacks_line.h"
#include "tests/test.h"

#define TICK_MS    5
#define EVENTS_MAX 256

static void
listen_again(struct callbacks *c)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &c->listener};

    callbacks_must(!listen(c->listener, SOMAXCONN), "listen");
    callbacks_must(!epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->listener, &e),
                   "epoll");
}

/* The address, IPv4 or IPv6, as bind takes it; its size. */
static socklen_t
write_address(const struct callbacks *c, struct sockaddr_storage *to)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

    *to = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, c->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)c->port);
        return sizeof(*v4);
    }
    *to = (struct sockaddr_storage){0};
    callbacks_must(inet_pton(AF_INET6, c->host, &v6->sin6_addr) == 1, c->host);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)c->port);
    return sizeof(*v6);
}

static unsigned
port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);

    callbacks_must(!getsockname(fd, (struct sockaddr *)&address, &size),
                   "name");
    return address.ss_family == AF_INET
               ? ntohs(((struct sockaddr_in *)&address)->sin_port)
               : ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
}

/* A socket that keeps the port: who connects to it before it listens is
 * refused. */
static int
bind_port(struct callbacks *c)
{
    struct sockaddr_storage address;
    socklen_t size = write_address(c, &address);
    int one = 1;
    int fd = socket(address.ss_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    callbacks_must(fd >= 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    callbacks_must(!bind(fd, (struct sockaddr *)&address, size), "bind");
    c->port = port_of(fd);
    return fd;
}

static void
end_all_lines(struct callbacks *c)
{
    while (c->lines)
        line_end(c->lines, true);
}

static void
let_in(struct callbacks *c)
{
    int fd;

    while ((fd = accept4(c->listener, NULL, NULL,
                         SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        line_begin(c, fd);
}

/* What the test has asked for; false: to end. */
static bool
look(struct callbacks *c)
{
    struct line *next;
    uint64_t n;
    bool is_stopping, is_down, should_be_down;

    if (read(c->wake, &n, sizeof(n)) < 0)
        callbacks_must(errno == EAGAIN, "wake");
    pthread_mutex_lock(&c->lock);
    is_stopping = c->is_stopping;
    is_down = c->is_down;
    should_be_down = c->should_be_down;
    pthread_mutex_unlock(&c->lock);
    if (is_down != should_be_down) {
        if (should_be_down) {
            epoll_ctl(c->epoll, EPOLL_CTL_DEL, c->listener, NULL);
            shutdown(c->listener, SHUT_RDWR);
            close(c->listener);
            c->listener = bind_port(c);
            end_all_lines(c);
        } else {
            listen_again(c);
        }
        pthread_mutex_lock(&c->lock);
        c->is_down = should_be_down;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
    }
    for (struct line *l = c->lines; l; l = next) {
        next = l->next;
        line_wake(l);
    }
    return !is_stopping;
}

/* Lines that do something from time to time. */
static void
tick(struct callbacks *c)
{
    int64_t now_us = callbacks_now_us();
    struct line *next;

    c->is_ticking = false;
    for (struct line *l = c->lines; l; l = next) {
        next = l->next;
        if (line_tick(l, now_us))
            c->is_ticking = true;
    }
}

static void *
run(void *user)
{
    struct callbacks *c = user;
    struct epoll_event events[EVENTS_MAX];
    bool is_running = true;

    while (is_running) {
        bool is_woken = false;
        int n = epoll_wait(c->epoll, events, EVENTS_MAX,
                           c->is_ticking ? TICK_MS : -1);

        for (int i = 0; i < n; i++) {
            void *ptr = events[i].data.ptr;

            if (ptr == &c->wake)
                is_woken = true;
            else if (ptr == &c->listener)
                let_in(c);
            else
                line_serve(ptr, events[i].events);
        }
        /* Only now, as what was told of a line that has ended is void. */
        if (is_woken)
            is_running = look(c);
        if (c->is_ticking)
            tick(c);
    }
    end_all_lines(c);
    return NULL;
}

void
callbacks_wire_open(struct callbacks *c)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &c->wake};
    struct rlimit files;

    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(c->epoll >= 0 && c->wake >= 0);
    assert_int_equal(epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->wake, &e), 0);
    c->listener = bind_port(c);
    listen_again(c);
    assert_int_equal(pthread_create(&c->thread, NULL, run, c), 0);
}

void
callbacks_wire_wake(struct callbacks *c)
{
    uint64_t one = 1;

    callbacks_must(write(c->wake, &one, sizeof(one)) == sizeof(one), "wake");
}

void
callbacks_wire_close(struct callbacks *c)
{
    callbacks_wire_wake(c);
    pthread_join(c->thread, NULL);
    close(c->listener);
    close(c->wake);
    close(c->epoll);
}
