/*
 * get.c - what an answer to a GET costs the server.
 *
 *     bench_get [OPTION]... -- SERVER [ARGUMENT]...
 *
 * Starts the server, then N clients that each have one GET of the same path in
 * flight on a kept connection: each sends the next one when it has the answer.
 * Prints one line of figures; README.md says what they mean.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "tests/bench/bench.h"
#include "tests/bench/histogram.h"
#include "tests/bench/options.h"
#include "tests/bench/publisher.h"
#include "tests/bench/server.h"
#include "tests/bench/socket.h"
#include "tests/bench/usage.h"

#define CLIENTS_MAX 1024
#define HEAD_MAX    8192
#define READ_BYTES  262144

struct settings {
    struct common common;
    const char *path;
    bool is_gzip;  /* asks for gzip */
    bool is_again; /* asks whether the document is still the same */
    unsigned clients;
    size_t posted; /* entries, before anything is asked for */
};

struct client {
    int fd;
    char head[HEAD_MAX];
    size_t head_size; /* so far */
    bool is_body;     /* the head is whole */
    uint64_t left;    /* of the body */
    uint64_t asked_ns;
};

struct load {
    const struct settings *settings;
    struct client *clients;
    int epoll;
    char request[1024];
    size_t request_size;
    unsigned status;          /* that is expected */
    struct histogram answers; /* from GET to the last byte */
    uint64_t bytes;           /* of answers, their heads included */
};

static const char usage_text[] =
    "usage: bench_get [OPTION]... -- SERVER [ARGUMENT]...\n"
    "\n"
    "  --path PATH       what is asked for (/)\n"
    "  --gzip            sends Accept-Encoding: gzip\n"
    "  --again           sends If-None-Match: every answer has to be 304\n"
    "  --clients N       connections, one GET in flight on each (16)\n"
    "  --post N          first posts N entries to the set \"bench\" (0)\n"
    "  --seconds S       how long is measured (4)\n"
    "  --warm S          how long is asked before that (0.5)\n"
    "  --server-core N   the server's core, -1: any (0)\n"
    "  --own-core N      this program's core, -1: any (1)\n"
    "  --label TEXT      stands before the figures\n";

static void
parse(struct settings *s, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"path", .text = &s->path},
        {"gzip", .flag = &s->is_gzip},
        {"again", .flag = &s->is_again},
        {"clients", .count = &s->clients, .min = 1, .max = CLIENTS_MAX},
        {"post", .size = &s->posted, .max = 50000},
        {NULL},
    };

    *s = (struct settings){
        .common = {"get", .seconds = 4, .warm_seconds = 0.5, .own_core = 1},
        .path = "/",
        .clients = 16};
    options_parse(argc, argv, usage_text, rows, &s->common);
}

/* Makes the request; `etag` "": without a condition. */
static void
make_request(struct load *l, unsigned port, const char *etag)
{
    const struct settings *s = l->settings;
    int n =
        snprintf(l->request, sizeof(l->request),
                 "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s%s%s%s\r\n",
                 s->path, port, s->is_gzip ? "Accept-Encoding: gzip\r\n" : "",
                 *etag ? "If-None-Match: " : "", etag, *etag ? "\r\n" : "");

    if (n >= (int)sizeof(l->request))
        bench_fail("the path is too long");
    l->request_size = (size_t)n;
    l->status = *etag ? 304 : 200;
}

static void
ask(struct load *l, struct client *c)
{
    c->asked_ns = bench_now_ns();
    c->head_size = 0;
    c->is_body = false;
    /* It is small, and nothing else is on its way there. */
    if (wire_send(c->fd, l->request, l->request_size) !=
        (ssize_t)l->request_size)
        bench_fail("cannot ask: %s", strerror(errno));
}

/* Finds the value of a header line; false: there is none. */
static bool
find_value(const char *head, const char *name, char *value, size_t size)
{
    const char *at = strcasestr(head, name);
    size_t n;

    if (!at)
        return false;
    at += strlen(name);
    at += strspn(at, " ");
    n = strcspn(at, "\r");
    if (n >= size)
        return false;
    memcpy(value, at, n);
    value[n] = '\0';
    return true;
}

/* Reads the head, once it is whole; the rest of what came is of the body. */
static void
read_head(struct load *l, struct client *c)
{
    char *end, length[32] = "0";
    uint64_t body;

    c->head[c->head_size] = '\0';
    end = strstr(c->head, "\r\n\r\n");
    if (!end && c->head_size == HEAD_MAX - 1)
        bench_fail("the head of an answer is too long");
    if (!end)
        return;
    end[2] = '\0';
    if (strtoul(c->head + strlen("HTTP/1.1 "), NULL, 10) != l->status)
        bench_fail("a GET was answered with\n%s", c->head);
    if (l->status == 200 &&
        !find_value(c->head, "\r\nContent-Length:", length, sizeof(length)))
        bench_fail("an answer without a length:\n%s", c->head);
    body = strtoull(length, NULL, 10);
    c->is_body = true;
    c->left = (uint64_t)(end + 4 - c->head) + body - c->head_size;
    if (c->left > body)
        bench_fail("more than an answer came:\n%s", c->head);
}

/* Reads what is there; true if the answer is whole. */
static bool
receive(struct load *l, struct client *c)
{
    static char unread[READ_BYTES];
    char *to = c->is_body ? unread : c->head + c->head_size;
    size_t room = HEAD_MAX - 1 - c->head_size;
    ssize_t n;

    if (c->is_body)
        room = c->left < READ_BYTES ? (size_t)c->left : READ_BYTES;
    n = wire_receive(c->fd, to, room);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0)
        bench_fail("the server closed a connection");
    l->bytes += (uint64_t)n;
    if (c->is_body) {
        c->left -= (uint64_t)n;
    } else {
        c->head_size += (size_t)n;
        read_head(l, c);
    }
    return c->is_body && !c->left;
}

/* Asks for so long; returns when all answers are there. */
static void
ask_for(struct load *l, double seconds)
{
    uint64_t end_ns = bench_now_ns() + (uint64_t)(seconds * 1e9);
    struct epoll_event events[64];
    unsigned n_busy = l->settings->clients;

    for (unsigned i = 0; i < l->settings->clients; i++)
        ask(l, &l->clients[i]);
    while (n_busy > 0) {
        int n = epoll_wait(l->epoll, events, 64, 20000);

        if (n == 0)
            bench_fail("no answer for 20 s");
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;

            if (!receive(l, c))
                continue;
            histogram_add(&l->answers, bench_now_ns() - c->asked_ns);
            if (bench_now_ns() < end_ns)
                ask(l, c);
            else
                n_busy--;
        }
    }
}

static void
connect_all(struct load *l, unsigned port)
{
    const struct settings *s = l->settings;

    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->clients = bench_memory(calloc(s->clients, sizeof(*l->clients)));
    for (unsigned i = 0; i < s->clients; i++) {
        struct client *c = &l->clients[i];
        struct epoll_event on = {.events = EPOLLIN, .data.ptr = c};

        c->fd = wire_connect(port, 0);
        wire_set_nonblocking(c->fd);
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &on))
            bench_fail("epoll: %s", strerror(errno));
    }
}

static void
post(unsigned port, size_t entries)
{
    struct publisher p;

    if (!entries)
        return;
    publisher_open(&p, 0, port, FORM_XML, entries, ENTRY_BYTES_MIN);
    publisher_post(&p, bench_now_ns());
    while (!publisher_on_event(&p))
        poll(&(struct pollfd){.fd = p.fd, .events = POLLIN}, 1, 100);
    publisher_close(&p);
}

/* Makes the request; with `is_again` from an answer to one without. */
static void
prepare(struct load *l, unsigned port)
{
    struct client *c = &l->clients[0];
    char etag[256];

    make_request(l, port, "");
    if (!l->settings->is_again)
        return;
    ask(l, c);
    while (!receive(l, c))
        ;
    if (!find_value(c->head, "\r\nETag:", etag, sizeof(etag)))
        bench_fail("an answer without an ETag:\n%s", c->head);
    make_request(l, port, etag);
}

static void
report(const struct load *l, const struct usage *from, const struct usage *to)
{
    double took_s = (double)(to->at_ns - from->at_ns) / 1e9;

    printf("%s answers_s=%.0f answer_bytes=%.0f", l->settings->common.label,
           (double)l->answers.n / took_s,
           (double)l->bytes / (double)l->answers.n);
    usage_print(from, to, l->answers.n);
    printf(" p50_us=%.0f p99_us=%.0f max_us=%.0f\n",
           histogram_us(&l->answers, 0.5), histogram_us(&l->answers, 0.99),
           histogram_us(&l->answers, 1));
}

int
main(int argc, char **argv)
{
    struct settings settings;
    struct server server;
    struct usage from, to;
    struct load *load = bench_memory(calloc(1, sizeof(*load)));

    parse(&settings, argc, argv);
    load->settings = &settings;
    server_start(&server, settings.common.command, settings.common.server_core);
    bench_pin(settings.common.own_core);
    post(server.port, settings.posted);
    connect_all(load, server.port);
    prepare(load, server.port);
    ask_for(load, settings.common.warm_seconds);
    load->bytes = 0;
    memset(&load->answers, 0, sizeof(load->answers));

    usage_take(&from, server.pid);
    ask_for(load, settings.common.seconds);
    usage_take(&to, server.pid);
    report(load, &from, &to);

    for (unsigned i = 0; i < settings.clients; i++)
        wire_close(load->clients[i].fd);
    server_stop(&server);
    free(load->clients);
    free(load);
    return 0;
}
