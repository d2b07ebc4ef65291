/*
 * ingest.c - how fast posts become durable.
 *
 *     bench_ingest [OPTION]... -- SERVER [ARGUMENT]...
 *
 * Starts the server, then N publishers that each have one post in flight on a
 * kept connection: each sends the next one when it has the answer. Prints one
 * line of figures; README.md says what they mean.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "tests/bench/bench.h"
#include "tests/bench/histogram.h"
#include "tests/bench/options.h"
#include "tests/bench/publisher.h"
#include "tests/bench/server.h"
#include "tests/bench/usage.h"

struct settings {
    struct common common;
    bool is_json;
    unsigned publishers;
    size_t entries; /* of a post */
    size_t bytes;   /* of an entry */
    unsigned sets;
    double total; /* entries; 0: for so many seconds */
};

struct load {
    const struct settings *settings;
    struct publisher publishers[PUBLISHERS_MAX];
    int epoll;
    struct histogram answers; /* from post to answer */
    uint64_t acknowledged;    /* entries */
};

static const char usage_text[] =
    "usage: bench_ingest [OPTION]... -- SERVER [ARGUMENT]...\n"
    "\n"
    "  --publishers N    connections, one post in flight on each (16)\n"
    "  --entries N       entries of a post (100)\n"
    "  --bytes N         of an entry, about (300)\n"
    "  --sets N          posted to in turn by each publisher (1)\n"
    "  --json            posts JSON instead of XML\n"
    "  --total N         posts N entries instead of for some seconds\n"
    "  --seconds S       how long is measured (4)\n"
    "  --warm S          how long is posted before that (0.5)\n"
    "  --server-core N   the server's core, -1: any (0)\n"
    "  --own-core N      this program's core, -1: any (1)\n"
    "  --label TEXT      stands before the figures\n";

static void
parse(struct settings *s, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"publishers", .count = &s->publishers, .min = 1,
         .max = PUBLISHERS_MAX},
        {"entries", .size = &s->entries, .min = 1, .max = 50000},
        {"bytes", .size = &s->bytes, .min = ENTRY_BYTES_MIN, .max = 4e3},
        {"sets", .count = &s->sets, .min = 1, .max = 50000},
        {"total", .number = &s->total, .min = 1, .max = 1e12},
        {"json", .flag = &s->is_json},
        {NULL},
    };

    *s = (struct settings){
        .common = {"ingest", .seconds = 4, .warm_seconds = 0.5, .own_core = 1},
        .publishers = 16,
        .entries = 100,
        .bytes = 300,
        .sets = 1};
    options_parse(argc, argv, usage_text, rows, &s->common);
}

static void
connect_all(struct load *l, const struct server *server)
{
    const struct settings *s = l->settings;
    enum form form = s->is_json ? FORM_JSON : FORM_XML;

    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < s->publishers; i++) {
        struct publisher *p = &l->publishers[i];
        struct epoll_event on = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                 .data.ptr = p};

        if (s->sets > 1)
            publisher_open_sets(p, i, server->port, form, s->entries, s->bytes,
                                s->sets);
        else
            publisher_open_peer(p, i, server->port, server->protocol,
                                PURPOSE_KEEP, form, s->entries, s->bytes);
        if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, p->fd, &on))
            bench_fail("epoll: %s", strerror(errno));
    }
}

static void
on_answer(struct load *l, struct publisher *p)
{
    histogram_add(&l->answers, bench_now_ns() - p->posted_ns);
    l->acknowledged += p->entries;
}

/* True if no further post is due, with `n_busy` in flight. */
static bool
is_over(const struct load *l, uint64_t end_ns, unsigned n_busy)
{
    const struct settings *s = l->settings;

    if (s->total > 0)
        return (double)(l->acknowledged + n_busy * s->entries) >= s->total;
    return bench_now_ns() >= end_ns;
}

/* Posts for `seconds`, or --total entries, and returns when the broker has
 * answered every post. */
static void
post_for(struct load *l, double seconds)
{
    uint64_t end_ns = bench_now_ns() + (uint64_t)(seconds * 1e9);
    struct epoll_event events[PUBLISHERS_MAX];
    unsigned n_busy = l->settings->publishers;

    for (unsigned i = 0; i < l->settings->publishers; i++)
        publisher_post(&l->publishers[i], bench_now_ns());
    while (n_busy > 0) {
        int n = epoll_wait(l->epoll, events, PUBLISHERS_MAX, 20000);

        if (n == 0)
            bench_fail("no answer for 20 s");
        for (int i = 0; i < n; i++) {
            struct publisher *p = events[i].data.ptr;

            if (!publisher_on_event(p))
                continue;
            on_answer(l, p);
            n_busy--;
            if (is_over(l, end_ns, n_busy))
                continue;
            publisher_post(p, bench_now_ns());
            n_busy++;
        }
    }
}

static void
report(const struct load *l, const struct usage *from, const struct usage *to)
{
    double took_s = (double)(to->at_ns - from->at_ns) / 1e9;

    printf("%s entries_s=%.0f posts_s=%.0f", l->settings->common.label,
           (double)l->acknowledged / took_s, (double)l->answers.n / took_s);
    usage_print(from, to, l->acknowledged);
    printf(" p50_us=%.0f p99_us=%.0f max_us=%.0f",
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
    size_t ready_kib;
    uint64_t written;
    double ready_ms;

    parse(&settings, argc, argv);
    load->settings = &settings;
    ready_ms = (double)bench_now_ns() / 1e6;
    server_start(&server, settings.common.command, settings.common.server_core);
    ready_ms = (double)bench_now_ns() / 1e6 - ready_ms;
    ready_kib = usage_rss_kib(server.pid);
    bench_pin(settings.common.own_core);
    connect_all(load, &server);
    if (!settings.total)
        post_for(load, settings.common.warm_seconds);
    load->acknowledged = 0;
    memset(&load->answers, 0, sizeof(load->answers));

    written = usage_sync_disks();
    usage_take(&from, server.pid);
    post_for(load, settings.common.seconds);
    usage_take(&to, server.pid);
    written = usage_sync_disks() - written;
    report(load, &from, &to);
    printf(" device_bytes=%.0f",
           (double)written / (double)(load->acknowledged + 1));
    printf(" ready_ms=%.0f ready_kib=%zu rss_kib=%zu\n", ready_ms, ready_kib,
           usage_rss_kib(server.pid));

    for (unsigned i = 0; i < settings.publishers; i++)
        publisher_close(&load->publishers[i]);
    server_stop(&server);
    free(load);
    return 0;
}
