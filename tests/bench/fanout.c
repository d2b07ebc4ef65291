/*
 * fanout.c - measures the cost of sending changes to many subscribers.
 *
 *     bench_fanout [OPTION]... -- SERVER [ARGUMENT]...
 *
 * Starts the server, subscribes, then publishes at a pace or as fast as
 * everybody gets it. Prints one line of figures; README.md says what they mean.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/crowd.h"
#include "tests/bench/server.h"
#include "tests/bench/usage.h"

/* The first subscribers bring in what a server needs once; what the others add
 * is the memory of a connection. */
#define FIRST_SUBSCRIBERS 64

/* Publishing before and after the stall, with --slow. */
#define SLOW_LEAD_S 2

struct settings {
    const char *label;
    enum form form;
    bool is_idle;
    unsigned subscribers;
    unsigned publishers;
    size_t entries; /* of a publish */
    size_t bytes;   /* of an entry */
    struct pace pace;
    double fill_seconds; /* publishing before anybody subscribes */
    double warm_seconds;
    double stall_seconds; /* 0: nobody stalls */
    int server_core;
    int own_core;
    char *const *server; /* its command */
};

/* The memory of the server, looked at every 200 ms. */
struct memory {
    pid_t pid;
    uint64_t looked_ns;
    size_t peak_kib;
};

static const char usage_text[] =
    "usage: bench_fanout [OPTION]... -- SERVER [ARGUMENT]...\n"
    "\n"
    "  --subscribers N   WebSocket connections (1000)\n"
    "  --json            posts and subscribes to JSON instead of XML\n"
    "  --entries N       entries of a publish (1)\n"
    "  --bytes N         of an entry, about (300)\n"
    "  --rate N          publishes a second; 0: as fast as delivered (0)\n"
    "  --outstanding N   with --rate 0: publishes not yet with everybody (16)\n"
    "  --publishers N    connections that publish (4)\n"
    "  --seconds S       how long is measured (4)\n"
    "  --fill S          how long is published before anybody subscribes (0)\n"
    "  --warm S          how long is published before that (0.5)\n"
    "  --slow S          one in 20 does not read for S seconds; sets "
    "--seconds\n"
    "  --idle            only connects and looks at the memory\n"
    "  --server-core N   the server's core, -1: any (0)\n"
    "  --own-core N      this program's core, -1: any (1)\n"
    "  --label TEXT      stands before the figures\n";

static void
set_option(struct settings *s, char which, const char *name, const char *text)
{
    switch (which) {
    case 'u':
        s->subscribers =
            (unsigned)bench_number(name, text, FIRST_SUBSCRIBERS + 1, 60000);
        break;
    case 'j':
        s->form = FORM_JSON;
        break;
    case 'n':
        s->entries = (size_t)bench_number(name, text, 1, 50000);
        break;
    case 'b':
        s->bytes = (size_t)bench_number(name, text, ENTRY_BYTES_MIN, 4e3);
        break;
    case 'r':
        s->pace.rate = bench_number(name, text, 0, 1e6);
        break;
    case 't':
        s->pace.outstanding = (unsigned)bench_number(name, text, 1, 1e6);
        break;
    case 'p':
        s->publishers =
            (unsigned)bench_number(name, text, 1, SUBSCRIBER_PUBLISHERS_MAX);
        break;
    case 's':
        s->pace.seconds = bench_number(name, text, 0.1, 600);
        break;
    case 'f':
        s->fill_seconds = bench_number(name, text, 0, 600);
        break;
    case 'w':
        s->warm_seconds = bench_number(name, text, 0, 600);
        break;
    case 'x':
        s->stall_seconds = bench_number(name, text, 0.1, 600);
        break;
    case 'i':
        s->is_idle = true;
        break;
    case 'c':
        s->server_core = (int)bench_number(name, text, NO_CORE, 1023);
        break;
    case 'o':
        s->own_core = (int)bench_number(name, text, NO_CORE, 1023);
        break;
    case 'l':
        s->label = text;
        break;
    case 'h':
        fputs(usage_text, stdout);
        exit(0);
    default:
        fputs(usage_text, stderr);
        exit(2);
    }
}

static void
parse(struct settings *s, int argc, char **argv)
{
    static const struct option options[] = {
        {"subscribers", required_argument, NULL, 'u'},
        {"json", no_argument, NULL, 'j'},
        {"entries", required_argument, NULL, 'n'},
        {"bytes", required_argument, NULL, 'b'},
        {"rate", required_argument, NULL, 'r'},
        {"outstanding", required_argument, NULL, 't'},
        {"publishers", required_argument, NULL, 'p'},
        {"seconds", required_argument, NULL, 's'},
        {"fill", required_argument, NULL, 'f'},
        {"warm", required_argument, NULL, 'w'},
        {"slow", required_argument, NULL, 'x'},
        {"idle", no_argument, NULL, 'i'},
        {"server-core", required_argument, NULL, 'c'},
        {"own-core", required_argument, NULL, 'o'},
        {"label", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int which, i = 0;

    *s = (struct settings){.label = "fanout",
                           .subscribers = 1000,
                           .publishers = 4,
                           .entries = 1,
                           .bytes = 300,
                           .pace = {.seconds = 4, .outstanding = 16},
                           .warm_seconds = 0.5,
                           .own_core = 1};
    while ((which = getopt_long(argc, argv, "", options, &i)) != -1)
        set_option(s, (char)which, options[i].name, optarg);
    s->server = argv + optind;
    if (!s->server[0]) {
        fputs(usage_text, stderr);
        exit(2);
    }
}

static void
on_tick(struct crowd *crowd, void *user)
{
    struct memory *m = user;
    uint64_t now_ns = bench_now_ns();
    size_t kib;

    (void)crowd;
    if (now_ns - m->looked_ns < 200000000)
        return;
    m->looked_ns = now_ns;
    kib = usage_rss_kib(m->pid);
    if (kib > m->peak_kib)
        m->peak_kib = kib;
}

/* Subscribes, and prints the memory of an idle connection in bytes. */
static void
subscribe(struct crowd *c, const struct settings *s, pid_t pid)
{
    const char *subprotocol =
        s->form == FORM_JSON ? "resourcesync.json" : "resourcesync.xml";
    bool has_slow = s->stall_seconds > 0;
    unsigned rest = s->subscribers - FIRST_SUBSCRIBERS;
    size_t before, after;

    crowd_join(c, FIRST_SUBSCRIBERS, subprotocol, has_slow);
    crowd_rest(c, 0.2);
    before = usage_rss_kib(pid);
    crowd_join(c, rest, subprotocol, has_slow);
    crowd_rest(c, s->is_idle ? 3 : 0.5);
    after = usage_rss_kib(pid);
    printf(" idle_bytes=%.0f",
           ((double)after - (double)before) * 1024 / (double)rest);
}

/* Posts as fast as the server answers. The first post makes a set. */
static void
fill(struct crowd *c, double seconds)
{
    struct pace pace = {.seconds = seconds};

    publisher_post(&c->publishers[0], bench_now_ns());
    crowd_drain(c);
    crowd_publish(c, &pace);
    crowd_drain(c);
}

static void
report_delay(const struct crowd *c, const char *before)
{
    printf(" %sp50_us=%.0f %sp99_us=%.0f", before, histogram_us(&c->delay, 0.5),
           before, histogram_us(&c->delay, 0.99));
}

/* Publishes at a pace: while all read, while some do not, while those catch up;
 * the delays of the first two are printed. */
static void
publish_with_stall(struct crowd *c, const struct settings *s)
{
    struct pace pace = s->pace;
    double lead_us;

    pace.seconds = SLOW_LEAD_S;
    crowd_publish(c, &pace);
    report_delay(c, "lead_");
    lead_us = histogram_us(&c->delay, 0.99);
    memset(&c->delay, 0, sizeof(c->delay));
    crowd_stall(c, true);
    pace.seconds = s->stall_seconds;
    crowd_publish(c, &pace);
    report_delay(c, "stall_");
    printf(" stall_ratio=%.2f", histogram_us(&c->delay, 0.99) / lead_us);
    crowd_stall(c, false);
    pace.seconds = SLOW_LEAD_S;
    crowd_publish(c, &pace);
}

static void
report_receipts(const struct crowd *c, uint64_t got)
{
    double n = got ? (double)got : 1;
    uint64_t messages = c->quick.messages + c->slow.messages;
    uint64_t reads = c->quick.reads + c->slow.reads;

    printf(" per_message=%.2f per_read=%.2f entry_bytes=%.0f",
           n / (double)(messages ? messages : 1),
           n / (double)(reads ? reads : 1),
           (double)(c->quick.bytes + c->slow.bytes) / n);
    printf(" lost=%llu repeated=%llu closed=%u",
           (unsigned long long)crowd_lost(c),
           (unsigned long long)(c->quick.repeated + c->slow.repeated),
           c->n_closed);
}

static void
warm_up(struct crowd *c, const struct settings *s)
{
    struct pace pace = s->pace;

    pace.seconds = s->warm_seconds;
    crowd_publish(c, &pace);
    crowd_drain(c);
    if (crowd_lost(c) > 0)
        bench_fail("%llu entries of the warm-up did not arrive",
                   (unsigned long long)crowd_lost(c));
    crowd_reset(c);
}

static void
measure(struct crowd *c, const struct settings *s, pid_t pid)
{
    struct memory memory = {.pid = pid};
    struct usage from, to;
    size_t before_kib;
    uint64_t got;

    warm_up(c, s);
    before_kib = usage_rss_kib(pid);
    c->on_tick = on_tick;
    c->user = &memory;
    usage_take(&from, pid);
    if (s->stall_seconds > 0)
        publish_with_stall(c, s);
    else
        crowd_publish(c, &s->pace);
    crowd_drain(c);
    usage_take(&to, pid);

    got = c->quick.entries + c->slow.entries;
    printf(" deliveries_s=%.0f",
           (double)got * 1e9 / (double)(c->last_ns - from.at_ns));
    usage_print(&from, &to, got);
    if (s->stall_seconds <= 0)
        report_delay(c, "");
    report_receipts(c, got);
    printf(" grown_kib=%ld", (long)memory.peak_kib - (long)before_kib);
}

int
main(int argc, char **argv)
{
    struct settings settings;
    struct server server;
    struct crowd *crowd = bench_memory(calloc(1, sizeof(*crowd)));

    parse(&settings, argc, argv);
    bench_allow_files();
    server_start(&server, settings.server, settings.server_core);
    bench_pin(settings.own_core);
    crowd_open(crowd, server.port, settings.publishers, settings.form,
               settings.entries, settings.bytes);
    fill(crowd, settings.fill_seconds);

    printf("%s", settings.label);
    subscribe(crowd, &settings, server.pid);
    crowd_reset(crowd);
    if (!settings.is_idle)
        measure(crowd, &settings, server.pid);
    printf("\n");

    crowd_close(crowd);
    server_stop(&server);
    free(crowd);
    return 0;
}
