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
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "tests/bench/bench.h"
#include "tests/bench/histogram.h"
#include "tests/bench/publisher.h"
#include "tests/bench/server.h"
#include "tests/bench/usage.h"

struct settings {
    const char *label;
    enum form form;
    unsigned publishers;
    size_t entries; /* of a post */
    size_t bytes;   /* of an entry */
    unsigned sets;
    double seconds;
    double warm_seconds;
    int server_core;
    int own_core;
    char *const *server; /* its command */
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
    "  --seconds S       how long is measured (4)\n"
    "  --warm S          how long is posted before that (0.5)\n"
    "  --server-core N   the server's core, -1: any (0)\n"
    "  --own-core N      this program's core, -1: any (1)\n"
    "  --label TEXT      stands before the figures\n";

static void
parse(struct settings *s, int argc, char **argv)
{
    static const struct option options[] = {
        {"publishers", required_argument, NULL, 'p'},
        {"entries", required_argument, NULL, 'n'},
        {"bytes", required_argument, NULL, 'b'},
        {"sets", required_argument, NULL, 'm'},
        {"json", no_argument, NULL, 'j'},
        {"seconds", required_argument, NULL, 's'},
        {"warm", required_argument, NULL, 'w'},
        {"server-core", required_argument, NULL, 'c'},
        {"own-core", required_argument, NULL, 'o'},
        {"label", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int which, i = 0;

    *s = (struct settings){.label = "ingest",
                           .publishers = 16,
                           .entries = 100,
                           .bytes = 300,
                           .sets = 1,
                           .seconds = 4,
                           .warm_seconds = 0.5,
                           .own_core = 1};
    while ((which = getopt_long(argc, argv, "", options, &i)) != -1) {
        const char *name = options[i].name;

        switch (which) {
        case 'p':
            s->publishers =
                (unsigned)bench_number(name, optarg, 1, PUBLISHERS_MAX);
            break;
        case 'n':
            s->entries = (size_t)bench_number(name, optarg, 1, 50000);
            break;
        case 'b':
            s->bytes = (size_t)bench_number(name, optarg, ENTRY_BYTES_MIN, 4e3);
            break;
        case 'm':
            s->sets = (unsigned)bench_number(name, optarg, 1, 50000);
            break;
        case 'j':
            s->form = FORM_JSON;
            break;
        case 's':
            s->seconds = bench_number(name, optarg, 0.1, 600);
            break;
        case 'w':
            s->warm_seconds = bench_number(name, optarg, 0, 600);
            break;
        case 'c':
            s->server_core = (int)bench_number(name, optarg, NO_CORE, 1023);
            break;
        case 'o':
            s->own_core = (int)bench_number(name, optarg, NO_CORE, 1023);
            break;
        case 'l':
            s->label = optarg;
            break;
        case 'h':
            fputs(usage_text, stdout);
            exit(0);
        default:
            fputs(usage_text, stderr);
            exit(2);
        }
    }
    s->server = argv + optind;
    if (!s->server[0]) {
        fputs(usage_text, stderr);
        exit(2);
    }
}

static void
connect_all(struct load *l, unsigned port)
{
    const struct settings *s = l->settings;

    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < s->publishers; i++) {
        struct publisher *p = &l->publishers[i];
        struct epoll_event on = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                 .data.ptr = p};

        publisher_open_sets(p, i, port, s->form, s->entries, s->bytes, s->sets);
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

/* Posts for `seconds` and returns when the broker has answered every post. */
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
            if (bench_now_ns() < end_ns)
                publisher_post(p, bench_now_ns());
            else
                n_busy--;
        }
    }
}

static void
report(const struct load *l, const struct usage *from, const struct usage *to)
{
    double took_s = (double)(to->at_ns - from->at_ns) / 1e9;

    printf("%s entries_s=%.0f posts_s=%.0f", l->settings->label,
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
    double ready_ms;

    parse(&settings, argc, argv);
    load->settings = &settings;
    ready_ms = (double)bench_now_ns() / 1e6;
    server_start(&server, settings.server, settings.server_core);
    ready_ms = (double)bench_now_ns() / 1e6 - ready_ms;
    ready_kib = usage_rss_kib(server.pid);
    bench_pin(settings.own_core);
    connect_all(load, server.port);
    post_for(load, settings.warm_seconds);
    load->acknowledged = 0;
    memset(&load->answers, 0, sizeof(load->answers));

    usage_take(&from, server.pid);
    post_for(load, settings.seconds);
    usage_take(&to, server.pid);
    report(load, &from, &to);
    printf(" ready_ms=%.0f ready_kib=%zu rss_kib=%zu\n", ready_ms, ready_kib,
           usage_rss_kib(server.pid));

    for (unsigned i = 0; i < settings.publishers; i++)
        publisher_close(&load->publishers[i]);
    server_stop(&server);
    free(load);
    return 0;
}
