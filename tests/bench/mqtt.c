/*
 * mqtt.c - what a message to an MQTT broker costs, beside what sends the same
 * messages and does nothing else.
 *
 *     bench_mqtt [OPTION]... -- TIDINGSD [ARGUMENT]...
 *
 * Fills a set, then lets each of these send as many messages of the same size
 * to one mosquitto at QoS 1, in turns, and prints a line of figures for each:
 *
 *     raw       the plain loop of libmosquitto, MQTT 5, with so many in flight
 *     props     the same, each message with such properties as the bridge's
 *     pub       mosquitto_pub -l
 *     tidings   the bridge, from the log: one message a change
 *     merged    the same, as notifications: many changes a message
 *
 * and then, in the other direction and without other load:
 *
 *     in        plain loops send, a change a message, until all are posted
 *     latency   one post at a time: until its answer, until its message
 *
 * ARGUMENT: of tidingsd; --listen, --data and --config are given here.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mosquitto.h>

#include "tests/bench/bench.h"
#include "tests/bench/histogram.h"
#include "tests/bench/mqtt_bridge.h"
#include "tests/bench/mqtt_clients.h"
#include "tests/bench/mqtt_peer.h"
#include "tests/bench/options.h"
#include "tests/bench/publisher.h"
#include "tests/bench/server.h"
#include "tests/bench/socket.h"
#include "tests/bench/usage.h"

#define ENTRIES_PER_POST 100
#define ASK_MS           10
#define TOPIC            "tidings/bench/changes/updated"
#define TOLD             "out = *\nbegin = start\n"

struct settings {
    struct common common;
    unsigned messages;
    unsigned inflight;
    unsigned turns;
    unsigned publishers;
    unsigned posts, sets;
    size_t bytes;
    const char *only; /* NULL: all of them */
};

struct bench {
    const struct settings *settings;
    char dir[64];
    struct bridge *bridge;
    pid_t mosquitto;
    unsigned port;
    size_t payload; /* bytes of the bridge's messages */
};

static const char usage_text[] =
    "usage: bench_mqtt [OPTION]... -- TIDINGSD [ARGUMENT]...\n"
    "\n"
    "  --messages N      that each sends (60000)\n"
    "  --inflight N      that are not acknowledged at most (100)\n"
    "  --bytes N         of an entry as it is posted, about (300)\n"
    "  --turns N         of all of them (3)\n"
    "  --only NAME       this one of them alone\n"
    "  --publishers N    of \"in\" (16)\n"
    "  --posts N         of \"latency\" (1000)\n"
    "  --sets N          that they go to in turn (1)\n"
    "  --server-core N   the core of what sends, -1: any (0)\n"
    "  --own-core N      mosquitto's and this program's, -1: any (1)\n";

static void
parse(struct settings *s, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"messages", .count = &s->messages, .min = 1, .max = 1e8},
        {"inflight", .count = &s->inflight, .min = 1, .max = 65535},
        {"bytes", .size = &s->bytes, .min = ENTRY_BYTES_MIN, .max = 4e3},
        {"turns", .count = &s->turns, .min = 1, .max = 100},
        {"only", .text = &s->only},
        {"publishers", .count = &s->publishers, .min = 1,
         .max = PUBLISHERS_MAX},
        {"posts", .count = &s->posts, .min = 1, .max = 1e7},
        {"sets", .count = &s->sets, .min = 1, .max = 1e5},
        {NULL},
    };

    *s = (struct settings){.common = {.own_core = 1},
                           .messages = 60000,
                           .inflight = 100,
                           .turns = 3,
                           .publishers = 16,
                           .posts = 1000,
                           .sets = 1,
                           .bytes = 300};
    options_parse(argc, argv, usage_text, rows, &s->common);
}

/* Figures */

static void
report(const char *label, double seconds, double cpu_s, double changes,
       double messages)
{
    printf("%-8s messages_s=%.0f cpu_us=%.2f changes_s=%.0f change_us=%.3f\n",
           label, messages / seconds, cpu_s * 1e6 / messages, changes / seconds,
           cpu_s * 1e6 / changes);
}

static double
seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

/* Waits for a child that sent all, since `from_ns`. */
static void
report_child(const struct bench *b, const char *label, pid_t pid,
             uint64_t from_ns)
{
    struct rusage used;
    int status = 0;
    double n = b->settings->messages;

    if (wait4(pid, &status, 0, &used) != pid || status)
        bench_fail("%s did not send everything", label);
    report(label, (double)(bench_now_ns() - from_ns) / 1e9,
           seconds_of(used.ru_utime) + seconds_of(used.ru_stime), n, n);
}

/* The plain loop */

static void
run_raw(const struct bench *b, const char *label, bool has_properties)
{
    char *payload = bench_memory(malloc(b->payload));
    const struct mqtt_load load = {
        .port = b->port,
        .topic = TOPIC,
        .payload = payload,
        .size = b->payload,
        .messages = b->settings->messages,
        .inflight = b->settings->inflight,
        .has_properties = has_properties,
    };
    uint64_t from_ns = bench_now_ns();
    pid_t pid = peer_fork(b->settings->common.server_core);

    if (pid == 0) {
        memset(payload, 'x', b->payload);
        mqtt_send(&load);
        _exit(0);
    }
    report_child(b, label, pid, from_ns);
    free(payload);
}

/* mosquitto_pub */

/* mosquitto_pub 2.0.11 ends too early if it has more lines than packet
 * identifiers (of 100,000 lines 34,467 arrived). */
#define PUB_MESSAGES_MAX 65535

static void
exec_pub(const struct bench *b, int in)
{
    char port[16], inflight[16];

    snprintf(port, sizeof(port), "%u", b->port);
    snprintf(inflight, sizeof(inflight), "%u", b->settings->inflight);
    dup2(in, STDIN_FILENO);
    execlp("mosquitto_pub", "mosquitto_pub", "-l", "-q", "1", "-V", "5", "-M",
           inflight, "-h", "127.0.0.1", "-p", port, "-t", TOPIC, NULL);
    fprintf(stderr, "cannot run mosquitto_pub: %s\n", strerror(errno));
    _exit(127);
}

static void
run_pub(const struct bench *b)
{
    char *line = bench_memory(malloc(b->payload + 2));
    uint64_t from_ns = bench_now_ns();
    int in[2];
    FILE *to;
    pid_t pid;

    if (pipe(in))
        bench_fail("pipe: %s", strerror(errno));
    pid = peer_fork(b->settings->common.server_core);
    if (pid == 0) {
        close(in[1]);
        exec_pub(b, in[0]);
    }
    close(in[0]);
    memset(line, 'x', b->payload);
    memcpy(line + b->payload, "\n", 2);
    to = bench_memory(fdopen(in[1], "w"));
    for (unsigned i = 0; i < b->settings->messages; i++)
        fputs(line, to);
    fclose(to);
    report_child(b, "pub", pid, from_ns);
    free(line);
}

/* The bridge */

static void
fill(const struct bench *b)
{
    struct publisher publisher;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    bridge_start(b->bridge, NULL);
    publisher_open(&publisher, 0, b->bridge->server.port, FORM_JSON,
                   ENTRIES_PER_POST, b->settings->bytes);
    epoll_ctl(epoll, EPOLL_CTL_ADD, publisher.fd, &event);
    while (publisher.count < b->settings->messages) {
        publisher_post(&publisher, bench_now_ns());
        do
            epoll_wait(epoll, &event, 1, 1000);
        while (!publisher_on_event(&publisher));
    }
    publisher_close(&publisher);
    close(epoll);
    bridge_stop(b->bridge);
}

static void
report_server(const char *label, const struct usage *from,
              const struct usage *to, double changes, double messages)
{
    report(label, (double)(to->at_ns - from->at_ns) / 1e9,
           (double)(to->cpu_ns - from->cpu_ns) / 1e9, changes, messages);
    printf("%-8s", label);
    usage_print(from, to, (uint64_t)messages);
    printf("\n");
}

/* Measures from the connection of the bridge until Mosquitto has acknowledged
 * everything; earlier messages do not count. The bridge reads the log from the
 * disk. */
static void
run_bridge(const struct bench *b, const char *label, const char *keys)
{
    static const char messages[] = "tidings_mqtt_acknowledged_total",
                      lag[] = "tidings_mqtt_lag_entries";
    struct usage from, to;
    uint64_t n_messages, n_changes;

    bridge_start(b->bridge, keys);
    usage_take(&from, b->bridge->server.pid);
    n_messages = bridge_metric(b->bridge, messages);
    n_changes = bridge_metric(b->bridge, lag);
    while (bridge_metric(b->bridge, lag) > 0)
        poll(NULL, 0, ASK_MS);
    usage_take(&to, b->bridge->server.pid);
    n_messages = bridge_metric(b->bridge, messages) - n_messages;
    if (n_messages == 0)
        bench_fail("%s: there are too few messages to measure", label);
    report_server(label, &from, &to, (double)n_changes, (double)n_messages);
    bridge_stop(b->bridge);
}

/* The other way */

static void
send_changes(const struct bench *b, unsigned publisher)
{
    char topic[32], change[4200];
    size_t padding = b->settings->bytes;
    struct mqtt_load load = {.port = b->port,
                             .topic = topic,
                             .payload = change,
                             .messages = b->settings->messages /
                                         b->settings->publishers,
                             .inflight = b->settings->inflight};
    int n;

    snprintf(topic, sizeof(topic), "bench/in/%u", publisher);
    n = snprintf(change, sizeof(change),
                 "{\"loc\":\"http://bench.example/%u/%0*d\","
                 "\"change\":\"updated\"}",
                 publisher, (int)(padding > 70 ? padding - 70 : 1), 0);
    load.size = (size_t)n;
    mqtt_send(&load);
}

/* Measures from the start of the bridge until it has posted everything.
 * Mosquitto accepts each message at once and queues it for the bridge. The
 * metric is polled only when the publishers have ended, so polling takes no
 * time from them. */
static void
run_in(const struct bench *b)
{
    static const char posted[] = "tidings_mqtt_posted_total";
    unsigned each = b->settings->messages / b->settings->publishers,
             n = each * b->settings->publishers;
    struct usage from, to;
    pid_t pids[PUBLISHERS_MAX];
    int status;

    bridge_start(b->bridge, "in = bench/in/+ -> came\n");
    usage_take(&from, b->bridge->server.pid);
    for (unsigned i = 0; i < b->settings->publishers; i++) {
        pids[i] = peer_fork(b->settings->common.own_core);
        if (pids[i] == 0) {
            send_changes(b, i);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < b->settings->publishers; i++)
        if (waitpid(pids[i], &status, 0) != pids[i] || status)
            bench_fail("a publisher did not send everything");
    while (bridge_metric(b->bridge, posted) < n)
        poll(NULL, 0, ASK_MS);
    usage_take(&to, b->bridge->server.pid);
    report_server("in", &from, &to, n, n);
    bridge_stop(b->bridge);
}

/* One at a time */

static void
on_told(struct mosquitto *client, void *user,
        const struct mosquitto_message *message)
{
    uint64_t *n = user;

    (void)client;
    (void)message;
    ++*n;
}

/* Posts, and goes on until it was answered and its message has come. */
static void
post_once(struct publisher *publisher, struct mosquitto *subscriber,
          const uint64_t *n_told, struct histogram *answered,
          struct histogram *told)
{
    uint64_t from_ns = bench_now_ns(), wanted = *n_told + 1;
    bool is_told = false;

    publisher_post(publisher, from_ns);
    while (publisher->is_busy || !is_told) {
        struct pollfd fds[2] = {{publisher->fd, POLLIN, 0},
                                {mosquitto_socket(subscriber), POLLIN, 0}};

        poll(fds, 2, 1000);
        if (fds[0].revents && publisher_on_event(publisher))
            histogram_add(answered, bench_now_ns() - from_ns);
        mqtt_must(mosquitto_loop(subscriber, 0, 1));
        if (!is_told && *n_told == wanted) {
            is_told = true;
            histogram_add(told, bench_now_ns() - from_ns);
        }
    }
}

static void
run_latency(const struct bench *b)
{
    struct histogram answered = {0}, told = {0}, unused = {0};
    struct publisher publisher;
    uint64_t n_told = 0;
    struct mosquitto *subscriber;

    bridge_start(b->bridge, "out = *\npublish = changes\n");
    subscriber =
        mqtt_subscriber(b->port, "tidings/+/changes/#", &n_told, on_told);
    publisher_open_sets(&publisher, 0, b->bridge->server.port, FORM_JSON, 1,
                        b->settings->bytes, b->settings->sets);
    for (unsigned i = 0; i < b->settings->sets; i++)
        post_once(&publisher, subscriber, &n_told, &unused, &unused);
    for (unsigned i = 0; i < b->settings->posts; i++)
        post_once(&publisher, subscriber, &n_told, &answered, &told);
    printf("latency  answer_p50_us=%.0f answer_p99_us=%.0f message_p50_us=%.0f "
           "message_p99_us=%.0f\n",
           histogram_us(&answered, 0.5), histogram_us(&answered, 0.99),
           histogram_us(&told, 0.5), histogram_us(&told, 0.99));
    publisher_close(&publisher);
    mosquitto_destroy(subscriber);
    bridge_stop(b->bridge);
}

/* The size of the bridge's messages */

static void
on_message(struct mosquitto *client, void *user,
           const struct mosquitto_message *message)
{
    size_t *size = user;

    (void)client;
    *size = (size_t)message->payloadlen;
}

static void
measure_payload(struct bench *b)
{
    struct mosquitto *client = mqtt_subscriber(
        b->port, "tidings/bench/changes/#", &b->payload, on_message);

    bridge_start(b->bridge, TOLD "publish = changes\n");
    while (!b->payload)
        mqtt_must(mosquitto_loop(client, ASK_MS, 1));
    bridge_stop(b->bridge);
    mosquitto_destroy(client);
}

static void
run_all(const struct bench *b)
{
    const char *only = b->settings->only;

#define WANTS(name) (!only || !strcmp(only, name))
    if (WANTS("raw"))
        run_raw(b, "raw", false);
    if (WANTS("props"))
        run_raw(b, "props", true);
    if (WANTS("pub") && b->settings->messages <= PUB_MESSAGES_MAX)
        run_pub(b);
    if (WANTS("tidings"))
        run_bridge(b, "tidings", TOLD "publish = changes\n");
    if (WANTS("merged"))
        run_bridge(b, "merged", TOLD "publish = notifications\n");
    if (WANTS("in"))
        run_in(b);
    if (WANTS("latency"))
        run_latency(b);
#undef WANTS
}

int
main(int argc, char **argv)
{
    struct settings settings;
    struct bridge bridge = {0};
    struct bench b = {.settings = &settings,
                      .dir = "/tmp/bench_mqtt.XXXXXX",
                      .bridge = &bridge};
    char command[128];

    parse(&settings, argc, argv);
    if (!mkdtemp(b.dir))
        bench_fail("cannot make a directory: %s", strerror(errno));
    mosquitto_lib_init();
    bench_pin(settings.common.own_core);
    b.mosquitto =
        peer_start(b.dir, settings.common.own_core, settings.inflight, &b.port);
    bridge = (struct bridge){.dir = b.dir,
                             .command = settings.common.command,
                             .core = settings.common.server_core,
                             .port = b.port,
                             .inflight = settings.inflight};
    fill(&b);
    measure_payload(&b);
    printf("payload_bytes=%zu\n", b.payload);
    for (unsigned i = 0; i < settings.turns; i++)
        run_all(&b);
    peer_stop(b.mosquitto);
    snprintf(command, sizeof(command), "rm -rf %s", b.dir);
    return system(command) ? 1 : 0;
}
