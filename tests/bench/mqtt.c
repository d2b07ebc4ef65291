/*
 * mqtt.c - what a message to an MQTT broker costs, beside what sends the same
 * messages and does nothing else.
 *
 *     bench_mqtt [OPTION]... -- TIDINGSD [ARGUMENT]...
 *
 * Fills a set, then lets each of these send as many messages of the same size
 * to one mosquitto at QoS 1, in turns, and prints a line of figures for each:
 *
 *     raw       the plain loop of libmosquitto, with so many in flight
 *     pub       mosquitto_pub -l
 *     tidings   the bridge, from the log: one message a change
 *     merged    the same, as notifications: many changes a message
 *
 * ARGUMENT: of tidingsd; --listen, --data and --config are given here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mosquitto.h>

#include "tests/bench/bench.h"
#include "tests/bench/publisher.h"
#include "tests/bench/server.h"
#include "tests/bench/socket.h"
#include "tests/bench/usage.h"

#define ARGUMENTS_MAX    32
#define ENTRIES_PER_POST 100
#define ASK_MS           10
#define READY_MS         10000
#define TOPIC            "tidings/bench/changes/updated"

struct settings {
    unsigned messages;
    unsigned inflight;
    unsigned turns;
    size_t bytes;
    int server_core, own_core;
    char *const *server;
};

struct bench {
    const struct settings *settings;
    char dir[64];
    pid_t mosquitto;
    unsigned port;
    size_t payload; /* bytes of the bridge's messages */
};

static const char usage_text[] =
    "usage: bench_mqtt [OPTION]... -- TIDINGSD [ARGUMENT]...\n"
    "\n"
    "  --messages N      that each sends (100000)\n"
    "  --inflight N      that are not acknowledged at most (100)\n"
    "  --bytes N         of an entry as it is posted, about (300)\n"
    "  --turns N         of all of them (3)\n"
    "  --server-core N   the core of what sends, -1: any (0)\n"
    "  --own-core N      mosquitto's and this program's, -1: any (1)\n";

static void
parse(struct settings *s, int argc, char **argv)
{
    static const struct option options[] = {
        {"messages", required_argument, NULL, 'm'},
        {"inflight", required_argument, NULL, 'i'},
        {"bytes", required_argument, NULL, 'b'},
        {"turns", required_argument, NULL, 't'},
        {"server-core", required_argument, NULL, 'c'},
        {"own-core", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int which, i = 0;

    *s = (struct settings){.messages = 100000,
                           .inflight = 100,
                           .turns = 3,
                           .bytes = 300,
                           .server_core = 0,
                           .own_core = 1};
    while ((which = getopt_long(argc, argv, "", options, &i)) != -1) {
        const char *name = options[i].name;

        if (which == 'm')
            s->messages = (unsigned)bench_number(name, optarg, 1, 1e8);
        else if (which == 'i')
            s->inflight = (unsigned)bench_number(name, optarg, 1, 65535);
        else if (which == 'b')
            s->bytes = (size_t)bench_number(name, optarg, ENTRY_BYTES_MIN, 4e3);
        else if (which == 't')
            s->turns = (unsigned)bench_number(name, optarg, 1, 100);
        else if (which == 'c')
            s->server_core = (int)bench_number(name, optarg, NO_CORE, 1023);
        else if (which == 'o')
            s->own_core = (int)bench_number(name, optarg, NO_CORE, 1023);
        else
            break;
    }
    s->server = argv + optind;
    if (which != -1 || !s->server[0]) {
        fputs(usage_text, which == 'h' ? stdout : stderr);
        exit(which == 'h' ? 0 : 2);
    }
}

/* Files and processes */

static void write_file(const struct bench *b, const char *name,
                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void
write_file(const struct bench *b, const char *name, const char *format, ...)
{
    char path[128];
    va_list arguments;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", b->dir, name);
    file = fopen(path, "we");
    if (!file)
        bench_fail("cannot write %s: %s", path, strerror(errno));
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    if (fclose(file))
        bench_fail("cannot write %s: %s", path, strerror(errno));
}

/* Forks; the child ends with this program. */
static pid_t
fork_child(int core)
{
    pid_t parent = getpid(), pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        bench_pin(core);
    }
    return pid;
}

static unsigned
free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        bench_fail("no port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static bool
is_listening(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is = fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof(address));
    if (fd >= 0)
        close(fd);
    return is;
}

static void
start_mosquitto(struct bench *b)
{
    char path[128];

    b->port = free_port();
    write_file(b, "mosquitto.conf",
               "listener %u 127.0.0.1\nallow_anonymous true\nlog_type error\n"
               "max_inflight_messages %u\nmax_queued_messages 0\n",
               b->port, b->settings->inflight);
    snprintf(path, sizeof(path), "%s/mosquitto.conf", b->dir);
    b->mosquitto = fork_child(b->settings->own_core);
    if (b->mosquitto == 0) {
        execlp("mosquitto", "mosquitto", "-c", path, NULL);
        execl("/usr/sbin/mosquitto", "mosquitto", "-c", path, NULL);
        fprintf(stderr, "cannot run mosquitto: %s\n", strerror(errno));
        _exit(127);
    }
    for (int waited = 0; !is_listening(b->port); waited += ASK_MS) {
        if (waited > READY_MS || waitpid(b->mosquitto, NULL, WNOHANG) != 0)
            bench_fail("mosquitto did not get ready");
        poll(NULL, 0, ASK_MS);
    }
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

struct raw {
    unsigned n_acknowledged;
    bool is_connected;
};

static void
on_connect(struct mosquitto *client, void *user, int reason)
{
    struct raw *raw = user;

    (void)client;
    raw->is_connected = reason == 0;
}

static void
on_publish(struct mosquitto *client, void *user, int mid)
{
    struct raw *raw = user;

    (void)client;
    (void)mid;
    raw->n_acknowledged++;
}

static void
must(int rc)
{
    if (rc)
        bench_fail("libmosquitto: %s", mosquitto_strerror(rc));
}

static void
send_raw(const struct bench *b)
{
    struct raw raw = {0};
    struct mosquitto *client = mosquitto_new(NULL, true, &raw);
    char *payload = bench_memory(calloc(1, b->payload));
    unsigned n = b->settings->messages, sent = 0;

    bench_memory(client);
    memset(payload, 'x', b->payload);
    mosquitto_connect_callback_set(client, on_connect);
    mosquitto_publish_callback_set(client, on_publish);
    must(mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION,
                              MQTT_PROTOCOL_V5));
    must(mosquitto_int_option(client, MOSQ_OPT_SEND_MAXIMUM,
                              (int)b->settings->inflight));
    must(mosquitto_connect(client, "127.0.0.1", (int)b->port, 60));
    while (!raw.is_connected)
        must(mosquitto_loop(client, 1000, 1));
    while (raw.n_acknowledged < n) {
        while (sent < n && sent - raw.n_acknowledged < b->settings->inflight) {
            must(mosquitto_publish(client, NULL, TOPIC, (int)b->payload,
                                   payload, 1, false));
            sent++;
        }
        must(mosquitto_loop(client, 1000, 1));
    }
    _exit(0);
}

static void
run_raw(const struct bench *b)
{
    uint64_t from_ns = bench_now_ns();
    pid_t pid = fork_child(b->settings->server_core);

    if (pid == 0)
        send_raw(b);
    report_child(b, "raw", pid, from_ns);
}

/* mosquitto_pub */

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
    pid = fork_child(b->settings->server_core);
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
start_server(const struct bench *b, struct server *server, bool has_bridge)
{
    static char listen[] = "--listen", any[] = "127.0.0.1:0", data[] = "--data",
                config[] = "--config", dir[96], file[96];
    char *command[ARGUMENTS_MAX + 8];
    int n = 0;

    for (; b->settings->server[n] && n < ARGUMENTS_MAX; n++)
        command[n] = b->settings->server[n];
    snprintf(dir, sizeof(dir), "%s/data", b->dir);
    snprintf(file, sizeof(file), "%s/tidingsd.ini", b->dir);
    command[n++] = listen;
    command[n++] = any;
    command[n++] = data;
    command[n++] = dir;
    if (has_bridge) {
        command[n++] = config;
        command[n++] = file;
    }
    command[n] = NULL;
    server_start(server, command, b->settings->server_core);
}

static void
fill(const struct bench *b)
{
    struct server server;
    struct publisher publisher;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    start_server(b, &server, false);
    publisher_open(&publisher, 0, server.port, FORM_JSON, ENTRIES_PER_POST,
                   b->settings->bytes);
    epoll_ctl(epoll, EPOLL_CTL_ADD, publisher.fd, &event);
    while (publisher.count < b->settings->messages) {
        publisher_post(&publisher, bench_now_ns());
        do
            epoll_wait(epoll, &event, 1, 1000);
        while (!publisher_on_event(&publisher));
    }
    publisher_close(&publisher);
    close(epoll);
    server_stop(&server);
}

/* A metric of the server, by a kept connection. */
static uint64_t
metric(int fd, const char *name)
{
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char answer[262144];
    size_t n = 0, all = sizeof(answer);
    char line[64];
    const char *at;

    if (socket_send(fd, request, sizeof(request) - 1) < 0)
        bench_fail("cannot ask for metrics: %s", strerror(errno));
    while (n < all && n + 1 < sizeof(answer)) {
        ssize_t more = socket_receive(fd, answer + n, sizeof(answer) - 1 - n);
        const char *end, *length;

        if (more <= 0)
            bench_fail("the server closed the connection");
        n += (size_t)more;
        answer[n] = '\0';
        end = strstr(answer, "\r\n\r\n");
        length = strcasestr(answer, "\r\ncontent-length:");
        if (end && length && length < end)
            all = (size_t)(end + 4 - answer) +
                  strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    }
    snprintf(line, sizeof(line), "\n%s ", name);
    at = strstr(answer, line);
    return at ? strtoull(at + strlen(line), NULL, 10) : 0;
}

static void
configure(const struct bench *b, const char *publish)
{
    char path[128];

    write_file(b, "tidingsd.ini",
               "[mqtt bench]\nurl = mqtt://127.0.0.1:%u\nout = *\n"
               "begin = start\npublish = %s\ninflight = %u\n",
               b->port, publish, b->settings->inflight);
    /* It is a new bridge each time. */
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"", "-wal", "-shm"};

        snprintf(path, sizeof(path), "%s/data/mqtt.db%s", b->dir, names[i]);
        unlink(path);
    }
}

/* From ready until all is acknowledged: the log is read from the disk. */
static void
run_bridge(const struct bench *b, const char *label, const char *publish)
{
    struct server server;
    struct usage from, to;
    uint64_t n_messages;
    int fd;

    configure(b, publish);
    start_server(b, &server, true);
    usage_take(&from, server.pid);
    fd = socket_connect(server.port, 0);
    while (metric(fd, "tidings_mqtt_connected") == 0 ||
           metric(fd, "tidings_mqtt_lag_entries") > 0)
        poll(NULL, 0, ASK_MS);
    usage_take(&to, server.pid);
    n_messages = metric(fd, "tidings_mqtt_acknowledged_total");
    report(label, (double)(to.at_ns - from.at_ns) / 1e9,
           (double)(to.cpu_ns - from.cpu_ns) / 1e9, b->settings->messages,
           (double)n_messages);
    socket_close(fd);
    server_stop(&server);
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
    struct mosquitto *client = mosquitto_new(NULL, true, &b->payload);
    struct server server;

    bench_memory(client);
    mosquitto_message_callback_set(client, on_message);
    must(mosquitto_connect(client, "127.0.0.1", (int)b->port, 60));
    must(mosquitto_subscribe(client, NULL, "tidings/bench/changes/#", 0));
    configure(b, "changes");
    start_server(b, &server, true);
    while (!b->payload)
        must(mosquitto_loop(client, 1000, 1));
    server_stop(&server);
    mosquitto_destroy(client);
}

int
main(int argc, char **argv)
{
    struct settings settings;
    struct bench b = {.settings = &settings, .dir = "/tmp/bench_mqtt.XXXXXX"};
    char command[128];

    parse(&settings, argc, argv);
    if (!mkdtemp(b.dir))
        bench_fail("cannot make a directory: %s", strerror(errno));
    mosquitto_lib_init();
    bench_pin(settings.own_core);
    start_mosquitto(&b);
    fill(&b);
    measure_payload(&b);
    printf("payload_bytes=%zu\n", b.payload);
    for (unsigned i = 0; i < settings.turns; i++) {
        run_raw(&b);
        run_pub(&b);
        run_bridge(&b, "tidings", "changes");
        run_bridge(&b, "merged", "notifications");
    }
    kill(b.mosquitto, SIGTERM);
    waitpid(b.mosquitto, NULL, 0);
    snprintf(command, sizeof(command), "rm -rf %s", b.dir);
    return system(command) ? 1 : 0;
}
