/*
 * webhooks.c - what it costs to call everybody who has subscribed.
 *
 *     bench_webhooks [OPTION]... -- SERVER [ARGUMENT]...
 *
 * Starts the server, subscribes callbacks of this process to a set, then posts:
 * at a pace, or when everybody has the post before, or as fast as is answered.
 * Prints one line of figures; README.md says what they mean. The server must be
 * allowed to call them: --allow-callbacks 127.0.0.0/8.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/callbacks.h"
#include "tests/bench/options.h"
#include "tests/bench/publisher.h"
#include "tests/bench/server.h"
#include "tests/bench/socket.h"
#include "tests/bench/usage.h"

#define EVENTS_MAX 512

/* Processes that subscribe at once, and the pause before one repeats a request
 * that the hub deferred. */
#define ASKERS       8
#define ASK_AGAIN_US 5000

/* After this silence the missing deliveries count as lost. */
#define PATIENCE_NS 10000000000ULL

#define NS_PER_S 1e9

struct settings {
    struct common common;
    unsigned callbacks;
    unsigned hosts; /* 0: as many as callbacks */
    unsigned sick_every;
    bool is_signed;
    bool is_idle;
    bool is_flood;
    bool is_json;
    size_t entries;
    size_t bytes;
    unsigned publishers;
    size_t posts; /* this many, however long they take; 0: for `seconds` */
    double rate;  /* posts a second; 0: one when everybody has the last */
};

struct load {
    const struct settings *settings;
    int epoll;
    struct callbacks callbacks;
    struct publisher publishers[PUBLISHERS_MAX];
    unsigned n_publishers;
    uint64_t posted; /* entries that are acknowledged, since the reset */
    struct histogram answers;
};

static const char usage_text[] =
    "usage: bench_webhooks [OPTION]... -- SERVER [ARGUMENT]...\n"
    "\n"
    "  --callbacks N     that are subscribed (2000); 0: nobody\n"
    "  --hosts N         that they share (each has its own)\n"
    "  --sick N          one in N never answers a delivery (0: none)\n"
    "  --signed          subscribes with a secret\n"
    "  --json            posts JSON instead of XML\n"
    "  --entries N       entries of a post (1)\n"
    "  --bytes N         of an entry, about (300)\n"
    "  --rate N          posts a second; 0: one when everybody has the last "
    "(0)\n"
    "  --flood           posts as fast as is answered\n"
    "  --publishers N    connections that do (4); otherwise it is one\n"
    "  --seconds S       how long is measured (4)\n"
    "  --posts N         so many instead, each when everybody has the last\n"
    "  --idle            only subscribes and looks at the memory\n"
    "  --server-core N   the server's core, -1: any (-1)\n"
    "  --own-core N      this program's core, -1: any (-1)\n"
    "  --label TEXT      stands before the figures\n";

static void
parse(struct settings *s, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"callbacks", .count = &s->callbacks, .max = 1e6},
        {"hosts", .count = &s->hosts, .min = 1, .max = 1e6},
        {"sick", .count = &s->sick_every, .max = 1e6},
        {"signed", .flag = &s->is_signed},
        {"json", .flag = &s->is_json},
        {"entries", .size = &s->entries, .min = 1, .max = 50000},
        {"bytes", .size = &s->bytes, .min = ENTRY_BYTES_MIN, .max = 4e3},
        {"rate", .number = &s->rate, .max = 1e6},
        {"flood", .flag = &s->is_flood},
        {"publishers", .count = &s->publishers, .min = 1,
         .max = PUBLISHERS_MAX},
        {"posts", .size = &s->posts, .min = 1, .max = 1e9},
        {"idle", .flag = &s->is_idle},
        {NULL},
    };

    *s = (struct settings){.common = {"webhooks", .seconds = 4,
                                      .server_core = NO_CORE,
                                      .own_core = NO_CORE},
                           .callbacks = 2000,
                           .entries = 1,
                           .bytes = 300,
                           .publishers = 4};
    options_parse(argc, argv, usage_text, rows, &s->common);
    if (!s->hosts)
        s->hosts = s->callbacks ? s->callbacks : 1;
}

/* Events */

static void
on_event(struct load *load, int fd)
{
    for (unsigned i = 0; i < load->n_publishers; i++) {
        struct publisher *p = &load->publishers[i];

        if (fd != p->fd)
            continue;
        if (publisher_on_event(p)) {
            load->posted += p->entries;
            histogram_add(&load->answers, bench_now_ns() - p->posted_ns);
        }
        return;
    }
    callbacks_on_event(&load->callbacks, fd);
}

static int
turn(struct load *load, int wait_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(load->epoll, events, EVENTS_MAX, wait_ms);

    for (int i = 0; i < n; i++)
        on_event(load, events[i].data.fd);
    return n;
}

static bool
is_busy(const struct load *load)
{
    for (unsigned i = 0; i < load->n_publishers; i++)
        if (load->publishers[i].is_busy)
            return true;
    return false;
}

static bool
has_everybody_everything(const struct load *load)
{
    const struct callbacks *c = &load->callbacks;

    return !is_busy(load) &&
           c->n_entries >= load->posted * callbacks_healthy(c);
}

/* Until everybody has everything, or nothing has come for long. */
static void
drain(struct load *load)
{
    uint64_t came_ns = bench_now_ns();

    while (!has_everybody_everything(load) &&
           bench_now_ns() - came_ns < PATIENCE_NS)
        if (turn(load, 100) > 0)
            came_ns = bench_now_ns();
}

/* Subscribing */

/* Sends one request and returns the status of its answer. */
static unsigned
ask(int fd, const char *request, size_t size)
{
    char text[8192];
    size_t n = 0, all = 0;

    for (size_t sent = 0; sent < size;) {
        ssize_t more = wire_send(fd, request + sent, size - sent);

        if (more < 0)
            bench_fail("cannot subscribe: %s", strerror(errno));
        sent += (size_t)more;
    }
    while (!all || n < all) {
        ssize_t more = wire_receive(fd, text + n, sizeof(text) - 1 - n);
        const char *end = NULL, *length = NULL;

        if (more <= 0)
            bench_fail("the server closed the connection");
        n += (size_t)more;
        text[n] = '\0';
        end = strstr(text, "\r\n\r\n");
        length = strcasestr(text, "content-length:");
        if (end)
            all = (size_t)(end - text) + 4 +
                  (length && length < end
                       ? strtoul(length + strlen("content-length:"), NULL, 10)
                       : 0);
    }
    return (unsigned)strtoul(text + strlen("HTTP/1.1 "), NULL, 10);
}

static void
subscribe(const struct load *load, unsigned port, int fd, unsigned number)
{
    char url[CALLBACK_URL_SIZE], form[512], request[1024];
    int n = 0;
    unsigned status = 429;

    callbacks_url(&load->callbacks, number, url);
    n = snprintf(form, sizeof(form),
                 "hub.mode=subscribe&hub.callback=%s"
                 "&hub.topic=http://127.0.0.1:%u/sets/bench/notifications%s",
                 url, port,
                 load->settings->is_signed
                     ? "&hub.secret=a-secret-of-32-characters-or-so"
                     : "");
    n = snprintf(request, sizeof(request),
                 "POST /hub HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                 "Content-Type: application/x-www-form-urlencoded\r\n"
                 "Content-Length: %d\r\n\r\n%s",
                 port, n, form);
    while ((status = ask(fd, request, (size_t)n)) == 429)
        usleep(ASK_AGAIN_US);
    if (status != 202)
        bench_fail("a subscription was answered with %u", status);
}

/* In processes of their own, while this one verifies. */
static void
subscribe_all(struct load *load, unsigned port)
{
    pid_t askers[ASKERS];
    unsigned n = load->callbacks.n;

    for (unsigned i = 0; i < ASKERS; i++) {
        askers[i] = fork();
        if (askers[i] < 0)
            bench_fail("fork: %s", strerror(errno));
        if (askers[i] == 0) {
            int fd = wire_connect(port, 0);

            for (unsigned number = i; number < n; number += ASKERS)
                subscribe(load, port, fd, number);
            _exit(0);
        }
    }
    while (load->callbacks.n_verified < n)
        turn(load, 100);
    for (unsigned i = 0; i < ASKERS; i++) {
        int status = 0;

        if (waitpid(askers[i], &status, 0) != askers[i] || status)
            bench_fail("not everybody could subscribe");
    }
}

/* Publishing */

static void
open_publishers(struct load *load, unsigned port)
{
    const struct settings *s = load->settings;

    load->n_publishers = s->is_flood ? s->publishers : 1;
    for (unsigned i = 0; i < load->n_publishers; i++) {
        struct publisher *p = &load->publishers[i];
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};

        publisher_open(p, i, port, s->is_json ? FORM_JSON : FORM_XML,
                       s->entries, s->bytes);
        event.data.fd = p->fd;
        epoll_ctl(load->epoll, EPOLL_CTL_ADD, p->fd, &event);
    }
}

/* One post; returns when every callback has it. */
static void
post_once(struct load *load)
{
    publisher_post(&load->publishers[0], bench_now_ns());
    drain(load);
}

static void
flood(struct load *load, uint64_t end_ns)
{
    while (bench_now_ns() < end_ns) {
        for (unsigned i = 0; i < load->n_publishers; i++)
            if (!load->publishers[i].is_busy)
                publisher_post(&load->publishers[i], bench_now_ns());
        turn(load, 10);
    }
}

/* A late post carries the time at which it was due. */
static void
post_at_pace(struct load *load, uint64_t end_ns)
{
    uint64_t pause_ns = (uint64_t)(NS_PER_S / load->settings->rate);
    uint64_t due_ns = bench_now_ns();

    while (due_ns < end_ns) {
        uint64_t now_ns = bench_now_ns();

        if (now_ns >= due_ns && !is_busy(load)) {
            publisher_post(&load->publishers[0], due_ns);
            due_ns += pause_ns;
        }
        turn(load, now_ns < due_ns ? (int)((due_ns - now_ns) / 1000000) : 1);
    }
}

static void
reset(struct load *load)
{
    callbacks_reset(&load->callbacks);
    load->posted = 0;
    memset(&load->answers, 0, sizeof(load->answers));
}

/* Figures */

static void
report(const struct load *load, const struct usage *from,
       const struct usage *to)
{
    const struct callbacks *c = &load->callbacks;
    double n = c->n_deliveries ? (double)c->n_deliveries : 1;
    double entries = c->n_entries ? (double)c->n_entries : 1;
    uint64_t wanted = load->posted * callbacks_healthy(c);

    printf(" deliveries_s=%.0f", (double)c->n_deliveries * NS_PER_S /
                                     (double)(c->last_ns - from->at_ns));
    usage_print(from, to, c->n_deliveries);
    printf(" entry_us=%.3f per_delivery=%.2f entry_bytes=%.0f",
           (double)(to->cpu_ns - from->cpu_ns) / 1000 / entries, entries / n,
           (double)c->n_bytes / entries);
    printf(" p50_us=%.0f p99_us=%.0f max_us=%.0f", histogram_us(&c->delay, 0.5),
           histogram_us(&c->delay, 0.99), histogram_us(&c->delay, 1));
    printf(" posts=%llu post_p50_us=%.0f post_p99_us=%.0f",
           (unsigned long long)load->answers.n,
           histogram_us(&load->answers, 0.5),
           histogram_us(&load->answers, 0.99));
    printf(
        " lost=%llu repeated=%llu unanswered=%llu",
        (unsigned long long)(c->n_entries < wanted ? wanted - c->n_entries : 0),
        (unsigned long long)c->n_repeated, (unsigned long long)c->n_left);
}

static void
measure(struct load *load, pid_t pid)
{
    const struct settings *s = load->settings;
    struct usage from, to;
    uint64_t end_ns;

    post_once(load); /* connects */
    post_once(load);
    reset(load);
    usage_take(&from, pid);
    end_ns = bench_now_ns() + (uint64_t)(s->common.seconds * NS_PER_S);
    if (s->is_flood)
        flood(load, end_ns);
    else if (s->rate > 0)
        post_at_pace(load, end_ns);
    else
        for (size_t i = 0; s->posts ? i < s->posts : bench_now_ns() < end_ns;
             i++)
            post_once(load);
    drain(load);
    usage_take(&to, pid);
    report(load, &from, &to);
}

int
main(int argc, char **argv)
{
    struct settings settings;
    struct server server;
    struct load *load = bench_memory(calloc(1, sizeof(*load)));
    double ready_ms;
    size_t ready_kib;

    parse(&settings, argc, argv);
    load->settings = &settings;
    bench_allow_files();
    ready_ms = (double)bench_now_ns() / 1e6;
    server_start(&server, settings.common.command, settings.common.server_core);
    ready_ms = (double)bench_now_ns() / 1e6 - ready_ms;
    ready_kib = usage_rss_kib(server.pid);
    bench_pin(settings.common.own_core);
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    callbacks_open(&load->callbacks, load->epoll, settings.callbacks,
                   settings.hosts, settings.sick_every);
    open_publishers(load, server.port);
    publisher_post(&load->publishers[0], bench_now_ns()); /* makes the set */
    while (is_busy(load))
        turn(load, 100);
    subscribe_all(load, server.port);
    reset(load);

    printf("%s", settings.common.label);
    if (!settings.is_idle)
        measure(load, server.pid);
    printf(" ready_ms=%.0f ready_kib=%zu rss_kib=%zu\n", ready_ms, ready_kib,
           usage_rss_kib(server.pid));

    for (unsigned i = 0; i < load->n_publishers; i++)
        publisher_close(&load->publishers[i]);
    callbacks_close(&load->callbacks);
    close(load->epoll);
    server_stop(&server);
    free(load);
    return 0;
}
