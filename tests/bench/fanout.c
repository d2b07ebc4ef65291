/*
 * fanout.c - measures the cost of sending changes to many subscribers.
 *
 *     bench_fanout [OPTION]... -- SERVER [ARGUMENT]...
 *
 * Starts the server, subscribes, then publishes at a pace or as fast as
 * everybody gets it. Prints one line of figures; README.md says what they mean.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/crowd.h"
#include "tests/bench/options.h"
#include "tests/bench/server.h"
#include "tests/bench/usage.h"

/* The first subscribers make the server allocate its common memory; further
 * ones add the memory of a connection. */
#define FIRST_SUBSCRIBERS 64

/* Publishing before and after the stall, with --slow. */
#define SLOW_LEAD_S 2

struct settings {
    struct common common;
    bool is_json;
    bool is_idle;
    unsigned subscribers;
    unsigned port; /* where they subscribe; 0: at the server */
    unsigned publishers;
    size_t entries; /* of a publish */
    size_t bytes;   /* of an entry */
    struct pace pace;
    double fill_seconds;  /* publishing before anybody subscribes */
    double stall_seconds; /* 0: nobody stalls */
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
    "  --at PORT         of another broker of the cluster: they subscribe "
    "there\n"
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
parse(struct settings *s, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"subscribers", .count = &s->subscribers, .min = 1, .max = 60000},
        {"at", .count = &s->port, .min = 1, .max = 65535},
        {"json", .flag = &s->is_json},
        {"entries", .size = &s->entries, .min = 1, .max = 50000},
        {"bytes", .size = &s->bytes, .min = ENTRY_BYTES_MIN, .max = 4e3},
        {"rate", .number = &s->pace.rate, .max = 1e6},
        {"outstanding", .count = &s->pace.outstanding, .min = 1, .max = 1e6},
        {"publishers", .count = &s->publishers, .min = 1,
         .max = SUBSCRIBER_PUBLISHERS_MAX},
        {"fill", .number = &s->fill_seconds, .max = 600},
        {"slow", .number = &s->stall_seconds, .min = 0.1, .max = 600},
        {"idle", .flag = &s->is_idle},
        {NULL},
    };

    *s = (struct settings){
        .common = {"fanout", .seconds = 4, .warm_seconds = 0.5, .own_core = 1},
        .subscribers = 1000,
        .publishers = 4,
        .entries = 1,
        .bytes = 300,
        .pace = {.outstanding = 16}};
    options_parse(argc, argv, usage_text, rows, &s->common);
    s->pace.seconds = s->common.seconds;
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
        s->is_json ? "resourcesync.json" : "resourcesync.xml";
    bool has_slow = s->stall_seconds > 0;
    unsigned rest = s->subscribers > FIRST_SUBSCRIBERS
                        ? s->subscribers - FIRST_SUBSCRIBERS
                        : 0;
    size_t before, after;

    if (s->port) {
        c->port = s->port;
        crowd_rest(c, 0.5); /* until that broker has the set */
    }
    crowd_join(c, s->subscribers - rest, subprotocol, has_slow);
    crowd_rest(c, 0.2);
    if (!rest)
        return;
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
report_receipts(const struct crowd *c, uint64_t got, unsigned n_slow)
{
    double n = got ? (double)got : 1;
    uint64_t messages = c->quick.messages + c->slow.messages;
    uint64_t reads = c->quick.reads + c->slow.reads;

    if (messages)
        printf(" per_message=%.2f", n / (double)messages);
    printf(" per_read=%.2f entry_bytes=%.0f", n / (double)(reads ? reads : 1),
           (double)(c->quick.bytes + c->slow.bytes) / n);
    if (n_slow > 0)
        printf(" slow_lost_pct=%.1f",
               100 - 100 * (double)c->slow.entries /
                         ((double)c->posted * (double)n_slow));
    printf(" lost=%llu repeated=%llu closed=%u",
           (unsigned long long)crowd_lost(c),
           (unsigned long long)(c->quick.repeated + c->slow.repeated),
           c->n_closed);
}

static void
warm_up(struct crowd *c, const struct settings *s)
{
    struct pace pace = s->pace;

    pace.seconds = s->common.warm_seconds;
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
    report_receipts(c, got,
                    s->stall_seconds > 0
                        ? (s->subscribers + CROWD_SLOW_EVERY - 1) /
                              CROWD_SLOW_EVERY
                        : 0);
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
    server_start(&server, settings.common.command, settings.common.server_core);
    bench_pin(settings.common.own_core);
    crowd_open(crowd, server.port, server.protocol, settings.publishers,
               settings.is_json ? FORM_JSON : FORM_XML, settings.entries,
               settings.bytes);
    fill(crowd, settings.fill_seconds);

    printf("%s", settings.common.label);
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
