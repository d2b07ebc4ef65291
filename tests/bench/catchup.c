/*
 * catchup.c - what old entries cost the server.
 *
 *     bench_catchup [OPTION]... -- SERVER [ARGUMENT]...
 *
 * Starts the server, posts entries if asked to, then reads the sets from their
 * first entry to their last, again and again: pages of change memory, each
 * after the link `next` of the one before, or WebSocket streams. A client reads
 * the head of an answer or of a message, and drops the rest. Prints one line of
 * figures; README.md says what they mean.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "tests/bench/bench.h"
#include "tests/bench/options.h"
#include "tests/bench/publisher.h"
#include "tests/bench/server.h"
#include "tests/bench/socket.h"
#include "tests/bench/usage.h"

#define CLIENTS_MAX 1024
#define SETS_MAX    1000
#define HEAD_MAX    8192
#define READ_BYTES  262144

/* A message tells what it covers within so many bytes. */
#define MESSAGE_HEAD 2048

struct settings {
    struct common common;
    bool is_stream;
    bool is_json;
    unsigned clients;
    unsigned sets; /* 1: the set "bench" alone */
    size_t posted; /* entries, before anything is read */
    size_t in_post;
};

struct client;

/* Returns the bytes of the answer or frame whose beginning c->head has; 0: it
 * has too little of it. */
typedef uint64_t parse_fn(struct client *c);

struct client {
    struct load *load;
    int fd;
    unsigned set;
    uint64_t at; /* the last entry that it has */
    parse_fn *parse;
    char head[HEAD_MAX]; /* of the answer or frame at hand */
    size_t head_size;    /* so far */
    uint64_t left;       /* of it */
    char next[512];      /* the path of the next page */
    bool is_at_end;      /* it has read its set */
};

struct load {
    const struct settings *settings;
    unsigned port;
    int epoll;
    struct client *clients;
    uint64_t *ends; /* of each set; 0: not known yet */
    uint64_t entries, messages, bytes;
};

static const char usage_text[] =
    "usage: bench_catchup [OPTION]... -- SERVER [ARGUMENT]...\n"
    "\n"
    "  --stream          reads WebSockets instead of pages\n"
    "  --json            in JSON instead of XML\n"
    "  --clients N       that read at the same time (4)\n"
    "  --post N          first posts N entries (0)\n"
    "  --in-post N       entries of a post (100)\n"
    "  --sets N          sets \"bench00000\" and so on, in turn; 1: \"bench\" "
    "(1)\n"
    "  --seconds S       how long is measured (4)\n"
    "  --warm S          how long is read before that (0.5)\n"
    "  --server-core N   the server's core, -1: any (0)\n"
    "  --own-core N      this program's core, -1: any (1)\n"
    "  --label TEXT      stands before the figures\n";

static void
parse_options(struct settings *s, int argc, char **argv)
{
    const struct option_row rows[] = {
        {"stream", .flag = &s->is_stream},
        {"json", .flag = &s->is_json},
        {"clients", .count = &s->clients, .min = 1, .max = CLIENTS_MAX},
        {"post", .size = &s->posted, .max = 1e9},
        {"in-post", .size = &s->in_post, .min = 1, .max = 50000},
        {"sets", .count = &s->sets, .min = 1, .max = SETS_MAX},
        {NULL},
    };

    *s = (struct settings){
        .common = {"catchup", .seconds = 4, .warm_seconds = 0.5, .own_core = 1},
        .clients = 4,
        .sets = 1,
        .in_post = 100};
    options_parse(argc, argv, usage_text, rows, &s->common);
}

/* Asking */

static void
print_path(char *to, size_t size, const struct client *c, const char *what)
{
    char name[32] = "bench";

    if (c->load->settings->sets > 1)
        snprintf(name, sizeof(name), "bench%05u", c->set);
    snprintf(to, size, "/sets/%s/%s?after=0", name, what);
}

static void
send_request(const struct client *c, const char *path, const char *fields)
{
    char request[2048];
    int n = snprintf(request, sizeof(request),
                     "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s\r\n", path,
                     c->load->port, fields);

    /* It is small, and nothing else is on its way there. */
    if (n >= (int)sizeof(request) || wire_send(c->fd, request, (size_t)n) != n)
        bench_fail("cannot ask: %s", strerror(errno));
}

static void
ask_page(const struct client *c)
{
    send_request(c, c->next,
                 c->load->settings->is_json ? "Accept: application/json\r\n"
                                            : "Accept: application/xml\r\n");
}

static void
connect_client(struct client *c)
{
    struct epoll_event on = {.events = EPOLLIN, .data.ptr = c};

    c->fd = wire_connect(c->load->port, 0);
    wire_set_nonblocking(c->fd);
    if (epoll_ctl(c->load->epoll, EPOLL_CTL_ADD, c->fd, &on))
        bench_fail("epoll: %s", strerror(errno));
}

/* Reading */

/* The number behind `name`, which the head of every message has. */
static uint64_t
number_behind(const char *head, const char *name)
{
    const char *at = strstr(head, name);

    if (!at)
        bench_fail("a message without %s:\n%.500s", name, head);
    return strtoull(at + strlen(name), NULL, 10);
}

static void
count_message(struct client *c, uint64_t last)
{
    c->load->entries += last - c->at;
    c->load->messages += last > c->at;
    c->at = last;
}

/* The end of the head of an answer; NULL: it is not there yet. */
static char *
end_of_head(struct client *c, const char *status)
{
    char *end;

    c->head[c->head_size] = '\0';
    end = strstr(c->head, "\r\n\r\n");
    if (!end && c->head_size == HEAD_MAX - 1)
        bench_fail("the head of an answer is too long");
    if (end && strncmp(c->head + strlen("HTTP/1.1 "), status, 3) != 0)
        bench_fail("a GET was answered with\n%s", c->head);
    return end ? end + 4 : NULL;
}

/* Notes the link <URL>; rel="next" as a path. */
static void
take_next(struct client *c)
{
    char *end = strstr(c->head, ">; rel=\"next\""), *path;

    if (!end)
        bench_fail("a page without next:\n%s", c->head);
    *end = '\0';
    path = strstr(strrchr(c->head, '<') + strlen("<http://"), "/sets/");
    snprintf(c->next, sizeof(c->next), "%s", path ? path : "/");
}

static uint64_t
parse_page(struct client *c)
{
    char *end = end_of_head(c, "200"), *length;
    uint64_t size, before = c->at;

    if (!end)
        return 0;
    length = strcasestr(c->head, "\r\nContent-Length:");
    if (!length || length > end)
        bench_fail("an answer without a length:\n%s", c->head);
    size = (uint64_t)(end - c->head) +
           strtoull(length + strlen("\r\nContent-Length:"), NULL, 10);
    take_next(c);
    count_message(c, number_behind(strstr(c->next, "after="), "-"));
    c->is_at_end = c->at == before;
    return size;
}

/* A frame; the first one of a message says what that covers. */
static uint64_t
parse_frame(struct client *c)
{
    const unsigned char *d = (const unsigned char *)c->head;
    size_t header = 2, need;
    uint64_t payload;

    if (c->head_size < header)
        return 0;
    payload = d[1];
    if (d[1] >= 126) {
        header += d[1] == 126 ? 2 : 8;
        if (c->head_size < header)
            return 0;
        payload = 0;
        for (size_t i = 2; i < header; i++)
            payload = payload << 8 | d[i];
    }
    if ((d[0] & 0x0f) == 1) {
        need = header + (payload < MESSAGE_HEAD ? payload : MESSAGE_HEAD);
        if (c->head_size < need)
            return 0;
        c->head[c->head_size] = '\0';
        count_message(c,
                      number_behind(c->head + header, c->load->settings->is_json
                                                          ? "\"last\":"
                                                          : "td:last=\""));
    } else if ((d[0] & 0x0f) != 0) {
        bench_fail("a frame with opcode %u came", d[0] & 0x0fu);
    }
    if (d[0] & 0x80)
        c->is_at_end = c->at >= c->load->ends[c->set];
    return header + payload;
}

static uint64_t
parse_handshake(struct client *c)
{
    char *end = end_of_head(c, "101");

    if (!end)
        return 0;
    c->parse = parse_frame;
    return (uint64_t)(end - c->head);
}

/* Begins at the first entry of its set. */
static void
begin_set(struct client *c)
{
    char path[128];

    c->at = 0;
    c->is_at_end = false;
    c->head_size = 0;
    if (c->parse == parse_page) {
        print_path(c->next, sizeof(c->next), c, "changes");
        ask_page(c);
        return;
    }
    c->parse = parse_handshake;
    print_path(path, sizeof(path), c, "stream");
    send_request(c, path,
                 c->load->settings->is_json
                     ? "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                       "Sec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                       "Sec-WebSocket-Protocol: resourcesync.json\r\n"
                     : "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                       "Sec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                       "Sec-WebSocket-Protocol: resourcesync.xml\r\n");
}

/* The next set, and after the last one the first again. */
static void
begin_next(struct client *c)
{
    c->load->ends[c->set] = c->at;
    c->set = (c->set + 1) % c->load->settings->sets;
    if (c->parse != parse_page) {
        wire_close(c->fd);
        connect_client(c);
    }
    begin_set(c);
}

/* An answer or frame is whole: true if the bytes behind it are of this
 * connection, too. */
static bool
end_part(struct client *c)
{
    c->head_size = 0;
    if (c->is_at_end) {
        begin_next(c);
        return false;
    }
    if (c->parse == parse_page)
        ask_page(c);
    return true;
}

static void
take_bytes(struct client *c, const char *data, size_t size)
{
    while (size > 0) {
        uint64_t part;
        size_t n = size;

        if (c->left > 0) {
            n = c->left < size ? (size_t)c->left : size;
            c->left -= n;
            data += n;
            size -= n;
            if (c->left == 0 && !end_part(c))
                return;
            continue;
        }
        if (n > HEAD_MAX - 1 - c->head_size)
            n = HEAD_MAX - 1 - c->head_size;
        memcpy(c->head + c->head_size, data, n);
        c->head_size += n;
        data += n;
        size -= n;
        part = c->parse(c);
        if (part == 0)
            continue;
        if (part > c->head_size) {
            c->left = part - c->head_size;
            continue;
        }
        /* Before these bytes came it was not whole: the rest is of them. */
        data -= c->head_size - part;
        size += c->head_size - (size_t)part;
        if (!end_part(c))
            return;
    }
}

static void
receive(struct client *c)
{
    static char bytes[READ_BYTES];
    ssize_t n = wire_receive(c->fd, bytes, sizeof(bytes));

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        bench_fail("the server closed a connection");
    c->load->bytes += (uint64_t)n;
    take_bytes(c, bytes, (size_t)n);
}

static void
read_some(struct load *l)
{
    struct epoll_event events[64];
    int n = epoll_wait(l->epoll, events, 64, 20000);

    if (n == 0)
        bench_fail("nothing came for 20 s");
    for (int i = 0; i < n; i++)
        receive(events[i].data.ptr);
}

static void
read_for(struct load *l, double seconds)
{
    uint64_t end_ns = bench_now_ns() + (uint64_t)(seconds * 1e9);

    while (bench_now_ns() < end_ns)
        read_some(l);
}

/* Reads every set once, by one client, in pages: so their ends are known.
 * Prints the CPU of an entry that nobody has read before. */
static void
find_ends(struct load *l, pid_t server)
{
    struct client *c = &l->clients[0];
    struct usage from, to;

    usage_take(&from, server);
    *c = (struct client){.load = l, .parse = parse_page};
    connect_client(c);
    begin_set(c);
    while (l->ends[l->settings->sets - 1] == 0)
        read_some(l);
    wire_close(c->fd);
    usage_take(&to, server);
    printf("%s first_us=%.3f", l->settings->common.label,
           (double)(to.cpu_ns - from.cpu_ns) / 1e3 / (double)l->entries);
}

static void
begin_all(struct load *l)
{
    const struct settings *s = l->settings;

    for (unsigned i = 0; i < s->clients; i++) {
        struct client *c = &l->clients[i];

        *c = (struct client){.load = l,
                             .set = i % s->sets,
                             .parse =
                                 s->is_stream ? parse_handshake : parse_page};
        connect_client(c);
        begin_set(c);
    }
}

static void
post(unsigned port, const struct settings *s)
{
    struct publisher p;

    if (s->posted == 0)
        return;
    if (s->sets > 1)
        publisher_open_sets(&p, 0, port, FORM_XML, s->in_post, ENTRY_BYTES_MIN,
                            s->sets);
    else
        publisher_open(&p, 0, port, FORM_XML, s->in_post, ENTRY_BYTES_MIN);
    while (p.count < s->posted) {
        publisher_post(&p, bench_now_ns());
        while (!publisher_on_event(&p))
            poll(&(struct pollfd){.fd = p.fd, .events = POLLIN}, 1, 100);
    }
    publisher_close(&p);
}

static void
report(const struct load *l, const struct usage *from, const struct usage *to)
{
    double took_s = (double)(to->at_ns - from->at_ns) / 1e9;

    printf(" entries_s=%.0f", (double)l->entries / took_s);
    usage_print(from, to, l->entries);
    printf(" per_message=%.0f entry_bytes=%.0f\n",
           (double)l->entries / (double)l->messages,
           (double)l->bytes / (double)l->entries);
}

int
main(int argc, char **argv)
{
    struct settings settings;
    struct server server;
    struct usage from, to;
    struct load load = {.settings = &settings};

    parse_options(&settings, argc, argv);
    server_start(&server, settings.common.command, settings.common.server_core);
    bench_pin(settings.common.own_core);
    load.port = server.port;
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    load.clients =
        bench_memory(calloc(settings.clients, sizeof(*load.clients)));
    load.ends = bench_memory(calloc(settings.sets, sizeof(*load.ends)));
    post(server.port, &settings);
    find_ends(&load, server.pid);
    begin_all(&load);
    read_for(&load, settings.common.warm_seconds);
    load.entries = load.messages = load.bytes = 0;

    usage_take(&from, server.pid);
    read_for(&load, settings.common.seconds);
    usage_take(&to, server.pid);
    report(&load, &from, &to);

    server_stop(&server);
    free(load.clients);
    free(load.ends);
    return 0;
}
