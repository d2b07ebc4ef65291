/*
 * floor.c - the floor: a server that does nothing but the unavoidable.
 *
 *     bench_floor [--log FILE [--archive FILE]] [--pad BYTES]
 *
 * HTTP/1.1 and WebSocket on one thread, as much of both as the benchmarks
 * speak. The body of a post goes as one frame to all WebSocket clients, and as
 * one request to all callbacks that subscribed at /hub: no sets, no history, no
 * parsing, no stamps. Each callback has a kept connection; a subscription with
 * a secret gets an HMAC-SHA256 of the body for each delivery.
 *
 *     no option    one send() per post and subscriber, then the answer
 *     --log FILE   appends the posts of one turn of the loop to FILE with one
 *                  write() and one fdatasync(), then answers; their frames go
 *                  out with one send() per subscriber
 *     --archive FILE
 *                  each entry gets a digest over it and the digest before it,
 *                  and each 128 KiB of posts are compressed and appended to
 *                  FILE: what proofs and closed lists cost
 *     --pad BYTES  frames have so many bytes more for each entry, as many as
 *                  the number, the time and the header of a server that keeps
 *                  an order: shows what these bytes cost
 *
 * Bytes that a socket does not take are copied into that connection's own
 * queue, without a bound. Listens on a free port, which it prints.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "tests/bench/bench.h"
#include "tests/bench/publisher.h"

#define EVENTS_MAX 512
#define POSTS_MAX  1024 /* in one turn */

/* The blocks of closed lists, and how they are compressed
 * (broker/log/list_file.c). */
#define ARCHIVE_BLOCK 131072
#define ARCHIVE_LEVEL 1

/* A buffer that grows as needed; the bytes before `from` are used up. */
struct bytes {
    char *data;
    size_t from, size, capacity;
};

struct connection {
    int fd;
    bool is_websocket;
    bool is_callback; /* its answers are ignored */
    char *target;     /* of a callback: its path, and its host behind a '\0' */
    char *secret;     /* of a callback; NULL: deliveries are not signed */
    size_t place;     /* in subscribers */
    struct bytes in;
    struct bytes out; /* bytes that the socket did not take */
};

/* A post of this turn: where its body is in floor.log. */
struct pending {
    struct connection *by;
    size_t offset, size;
};

/* What --archive keeps. */
struct archive {
    int fd; /* -1: nothing */
    struct libdeflate_compressor *compressor;
    struct bytes plain;                         /* not yet a block */
    struct bytes packed;                        /* of one block */
    unsigned char digest[SHA256_DIGEST_LENGTH]; /* of the last entry */
    EVP_MD_CTX *hash;
};

struct server {
    int epoll;
    int listener;
    int log_fd; /* -1: no log */
    struct archive archive;
    size_t padding; /* of a frame for each entry, in bytes */
    struct connection **subscribers;
    size_t n_subscribers, subscribers_capacity;
    struct connection **callbacks;
    size_t n_callbacks;
    uint64_t n_entries;  /* delivered to each callback so far */
    struct bytes log;    /* to be written to the file in this turn */
    struct bytes frames; /* to be sent to all subscribers */
    struct pending posts[POSTS_MAX];
    size_t n_posts;
};

static const char accepted[] = "HTTP/1.1 204 No Content\r\n\r\n";

/* Makes room for `more` bytes behind the present ones. */
static void
bytes_need(struct bytes *b, size_t more)
{
    if (b->size + more <= b->capacity)
        return;
    b->capacity = (b->size + more) * 2;
    b->data = bench_memory(realloc(b->data, b->capacity));
}

static void
bytes_add(struct bytes *b, const void *data, size_t size)
{
    bytes_need(b, size);
    memcpy(b->data + b->size, data, size);
    b->size += size;
}

static void
bytes_clear(struct bytes *b)
{
    b->from = b->size = 0;
}

static void
want_room(struct server *s, struct connection *c, bool is_wanted)
{
    struct epoll_event on = {.events = EPOLLIN | (is_wanted ? EPOLLOUT : 0),
                             .data.ptr = c};

    epoll_ctl(s->epoll, EPOLL_CTL_MOD, c->fd, &on);
}

static void
send_bytes(struct server *s, struct connection *c, const void *data,
           size_t size)
{
    ssize_t n = 0;

    if (c->out.size == 0) {
        n = send(c->fd, data, size, MSG_NOSIGNAL);
        if (n == (ssize_t)size)
            return;
        if (n < 0)
            n = 0; /* no room; epoll reports a dead connection */
        want_room(s, c, true);
    }
    bytes_add(&c->out, (const char *)data + n, size - (size_t)n);
}

static void
send_queued(struct server *s, struct connection *c)
{
    while (c->out.from < c->out.size) {
        ssize_t n = send(c->fd, c->out.data + c->out.from,
                         c->out.size - c->out.from, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        c->out.from += (size_t)n;
    }
    free(c->out.data);
    c->out = (struct bytes){NULL};
    want_room(s, c, false);
}

/* Fan-out */

static size_t
count_entries(const char *body, size_t size)
{
    const char *at = body, *end = body + size;
    size_t n = 0;

    for (;
         (at = memmem(at, (size_t)(end - at), ENTRY_MARK, strlen(ENTRY_MARK)));
         n++)
        at += strlen(ENTRY_MARK);
    return n;
}

static void
add_frame(struct server *s, const char *data, size_t data_size)
{
    size_t padding =
        s->padding ? s->padding * count_entries(data, data_size) : 0;
    unsigned char header[10] = {0x81};
    size_t n = 2, size = data_size + padding;

    if (size < 126) {
        header[1] = (unsigned char)size;
    } else {
        header[1] = size < 65536 ? 126 : 127;
        for (int shift = size < 65536 ? 8 : 56; shift >= 0; shift -= 8)
            header[n++] = (unsigned char)(size >> shift);
    }
    bytes_add(&s->frames, header, n);
    bytes_add(&s->frames, data, data_size);
    bytes_need(&s->frames, padding);
    memset(s->frames.data + s->frames.size, ' ', padding);
    s->frames.size += padding;
}

static void
send_frames(struct server *s)
{
    for (size_t i = 0; s->frames.size > 0 && i < s->n_subscribers; i++)
        send_bytes(s, s->subscribers[i], s->frames.data, s->frames.size);
    bytes_clear(&s->frames);
}

/* Callbacks */

static struct connection *
add_connection(struct server *s, int fd)
{
    struct connection *c = bench_memory(calloc(1, sizeof(*c)));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    c->fd = fd;
    epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event);
    return c;
}

/* The signature's line of a delivery; "": it is not signed. */
static void
sign(char to[96], const char *secret, const char *body, size_t size)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n_digest = 0;

    to[0] = '\0';
    if (!secret)
        return;
    HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)body,
         size, digest, &n_digest);
    to += sprintf(to, "X-Hub-Signature: sha256=");
    for (unsigned i = 0; i < n_digest; i++)
        to += sprintf(to, "%02x", digest[i]);
    strcpy(to, "\r\n");
}

/* Sends a post to all callbacks: one send() each. */
static void
call_all(struct server *s, const char *body, size_t size)
{
    uint64_t before = s->n_entries;
    struct bytes request = {NULL};

    if (s->n_callbacks == 0)
        return;
    s->n_entries += count_entries(body, size);
    for (size_t i = 0; i < s->n_callbacks; i++) {
        struct connection *c = s->callbacks[i];
        char head[1024], signature[96];
        int n;

        sign(signature, c->secret, body, size);
        n = snprintf(head, sizeof(head),
                     "POST %s HTTP/1.1\r\nHost: %s\r\n"
                     "Content-Type: application/xml\r\nTidings-Delivery: "
                     "floor-1-%llu-%llu\r\n%sContent-Length: %zu\r\n\r\n",
                     c->target, strchr(c->target, '\0') + 1,
                     (unsigned long long)before,
                     (unsigned long long)s->n_entries, signature, size);
        bytes_clear(&request);
        bytes_add(&request, head, (size_t)n);
        bytes_add(&request, body, size);
        send_bytes(s, c, request.data, request.size);
    }
    free(request.data);
}

/* Copies a value of a form; NULL: there is none. */
static char *
value_of(const char *form, const char *name)
{
    const char *at = strstr(form, name);

    return at ? bench_memory(
                    strndup(at + strlen(name), strcspn(at + strlen(name), "&")))
              : NULL;
}

/* Subscribes http://A.B.C.D:PORT/PATH, and asks it to confirm. */
static void
take_subscription(struct server *s, struct connection *by, const char *body,
                  size_t size)
{
    static const char taken[] =
        "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
    char *form = bench_memory(strndup(body, size));
    char *url = value_of(form, "hub.callback="), host[64], path[64], ask[256];
    unsigned port = 0;
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct connection *c;

    if (!url ||
        sscanf(url, "http://%40[0-9.]:%u%60s", host, &port, path) != 3 ||
        inet_pton(AF_INET, host, &to.sin_addr) != 1)
        bench_fail("floor: this is no subscription: %s", form);
    to.sin_port = htons((uint16_t)port);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
        bench_fail("floor: cannot connect to %s: %s", url, strerror(errno));
    c = add_connection(s, fd);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    c->is_callback = true;
    c->secret = value_of(form, "hub.secret=");
    c->target = bench_memory(calloc(1, strlen(path) + sizeof(host) + 16));
    sprintf(stpcpy(c->target, path) + 1, "%s:%u", host, port);
    s->callbacks = bench_memory(realloc(
        s->callbacks, (s->n_callbacks + 1) * sizeof(struct connection *)));
    s->callbacks[s->n_callbacks++] = c;
    snprintf(ask, sizeof(ask),
             "GET %s?hub.mode=subscribe&hub.challenge=floor HTTP/1.1\r\n"
             "Host: %s:%u\r\n\r\n",
             path, host, port);
    send_bytes(s, c, ask, strlen(ask));
    send_bytes(s, by, taken, strlen(taken));
    free(url);
    free(form);
}

/* Posts */

/* Gives each entry of a post its digest, in pieces of equal size. */
static void
digest_post(struct archive *a, const char *body, size_t size)
{
    size_t n = count_entries(body, size);

    for (size_t i = 0; i < n; i++) {
        size_t from = size * i / n;

        if (!EVP_DigestInit_ex2(a->hash, NULL, NULL) ||
            !EVP_DigestUpdate(a->hash, a->digest, sizeof(a->digest)) ||
            !EVP_DigestUpdate(a->hash, body + from,
                              size * (i + 1) / n - from) ||
            !EVP_DigestFinal_ex(a->hash, a->digest, NULL))
            bench_fail("floor: cannot hash");
    }
}

static void
write_all(int fd, const char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, data + done, size - done);

        if (n < 0)
            bench_fail("floor: cannot write: %s", strerror(errno));
        done += (size_t)n;
    }
}

static void
archive_post(struct archive *a, const char *body, size_t size)
{
    size_t room, packed;

    digest_post(a, body, size);
    bytes_add(&a->plain, body, size);
    if (a->plain.size < ARCHIVE_BLOCK)
        return;
    room = libdeflate_deflate_compress_bound(a->compressor, a->plain.size);
    bytes_clear(&a->packed);
    bytes_need(&a->packed, room);
    packed = libdeflate_deflate_compress(a->compressor, a->plain.data,
                                         a->plain.size, a->packed.data, room);
    write_all(a->fd, a->packed.data, packed);
    bytes_clear(&a->plain);
}

static void
archive_open(struct archive *a, const char *path)
{
    a->fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (a->fd < 0)
        bench_fail("floor: %s: %s", path, strerror(errno));
    a->compressor = libdeflate_alloc_compressor(ARCHIVE_LEVEL);
    a->hash = EVP_MD_CTX_new();
    if (!a->compressor || !a->hash ||
        !EVP_DigestInit_ex2(a->hash, EVP_sha256(), NULL))
        bench_fail("floor: no memory");
}

/* Makes the posts of this turn durable, and answers them. */
static void
commit(struct server *s)
{
    write_all(s->log_fd, s->log.data, s->log.size);
    if (fdatasync(s->log_fd))
        bench_fail("floor: fdatasync: %s", strerror(errno));
    for (size_t i = 0; i < s->n_posts; i++) {
        const struct pending *p = &s->posts[i];

        if (s->n_subscribers > 0)
            add_frame(s, s->log.data + p->offset, p->size);
        call_all(s, s->log.data + p->offset, p->size);
        if (p->by)
            send_bytes(s, p->by, accepted, strlen(accepted));
        if (s->archive.fd >= 0)
            archive_post(&s->archive, s->log.data + p->offset, p->size);
    }
    s->n_posts = 0;
    bytes_clear(&s->log);
    send_frames(s);
}

static void
take_post(struct server *s, struct connection *c, const char *body, size_t size)
{
    if (s->log_fd < 0) {
        add_frame(s, body, size);
        send_frames(s);
        call_all(s, body, size);
        send_bytes(s, c, accepted, strlen(accepted));
        return;
    }
    if (s->n_posts == POSTS_MAX)
        commit(s);
    s->posts[s->n_posts++] = (struct pending){c, s->log.size, size};
    bytes_add(&s->log, body, size);
}

static void
upgrade(struct server *s, struct connection *c, const char *head)
{
    const char *name = "sec-websocket-key:", *at = strcasestr(head, name);
    unsigned char digest[SHA_DIGEST_LENGTH];
    char key[128], accept[64], answer[256];
    int n;

    if (!at || sscanf(at + strlen(name), " %60[^\r\n ]", key) != 1)
        bench_fail("floor: this is no WebSocket: %s", head);
    strcat(key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    SHA1((const unsigned char *)key, strlen(key), digest);
    EVP_EncodeBlock((unsigned char *)accept, digest, sizeof(digest));
    n = snprintf(answer, sizeof(answer),
                 "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                 "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
                 accept);
    send_bytes(s, c, answer, (size_t)n);

    if (s->n_subscribers == s->subscribers_capacity) {
        s->subscribers_capacity = s->subscribers_capacity * 2 + 1024;
        s->subscribers = bench_memory(
            realloc(s->subscribers,
                    s->subscribers_capacity * sizeof(struct connection *)));
    }
    c->is_websocket = true;
    c->place = s->n_subscribers;
    s->subscribers[s->n_subscribers++] = c;
}

/* Takes one request from the received bytes; false: the request is
 * incomplete. */
static bool
take_request(struct server *s, struct connection *c)
{
    char *head = c->in.data + c->in.from, *length, *end;
    size_t size = c->in.size - c->in.from, head_size, body_size = 0;

    end = memmem(head, size, "\r\n\r\n", 4);
    if (!end)
        return false;
    *end = '\0';
    head_size = (size_t)(end + 4 - head);
    length = strcasestr(head, "content-length:");
    if (length)
        body_size = strtoul(length + strlen("content-length:"), NULL, 10);
    if (size < head_size + body_size) {
        *end = '\r';
        bytes_need(&c->in, head_size + body_size - size);
        return false;
    }
    if (strncmp(head, "POST /hub ", 10) == 0)
        take_subscription(s, c, head + head_size, body_size);
    else if (head[0] == 'P')
        take_post(s, c, head + head_size, body_size);
    else
        upgrade(s, c, head);
    c->in.from += head_size + body_size;
    return c->in.from < c->in.size;
}

/* Connections */

static void
drop(struct server *s, struct connection *c)
{
    if (c->is_websocket) {
        struct connection *last = s->subscribers[--s->n_subscribers];

        s->subscribers[c->place] = last;
        last->place = c->place;
    }
    for (size_t i = 0; i < s->n_posts; i++)
        if (s->posts[i].by == c)
            s->posts[i].by = NULL;
    for (size_t i = 0; c->is_callback && i < s->n_callbacks; i++)
        if (s->callbacks[i] == c)
            s->callbacks[i--] = s->callbacks[--s->n_callbacks];
    close(c->fd);
    free(c->target);
    free(c->secret);
    free(c->in.data);
    free(c->out.data);
    free(c);
}

static void
on_readable(struct server *s, struct connection *c)
{
    ssize_t n;

    bytes_need(&c->in, 4096);
    n = recv(c->fd, c->in.data + c->in.size, c->in.capacity - c->in.size, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        drop(s, c);
        return;
    }
    c->in.size += (size_t)n;
    while (!c->is_websocket && !c->is_callback && take_request(s, c))
        ;
    if (c->is_callback) {
        bytes_clear(&c->in);
    } else if (c->is_websocket) { /* it ignores the bytes of subscribers */
        free(c->in.data);
        c->in = (struct bytes){NULL};
    } else if (c->in.from == c->in.size) {
        bytes_clear(&c->in);
    }
}

static void
accept_all(struct server *s)
{
    int fd;

    while ((fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
        add_connection(s, fd);
}

static void
listen_anywhere(struct server *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event on = {.events = EPOLLIN};
    socklen_t size = sizeof(at);

    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    s->epoll = epoll_create1(0);
    if (bind(s->listener, (struct sockaddr *)&at, size) ||
        listen(s->listener, 4096) ||
        getsockname(s->listener, (struct sockaddr *)&at, &size) ||
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &on))
        bench_fail("floor: cannot listen: %s", strerror(errno));
    printf("floor: ready at http://127.0.0.1:%u/\n", ntohs(at.sin_port));
    fflush(stdout);
}

static void
serve(struct server *s)
{
    struct epoll_event events[EVENTS_MAX];

    for (;;) {
        int n = epoll_wait(s->epoll, events, EVENTS_MAX, -1);

        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;

            if (!c) {
                accept_all(s);
                continue;
            }
            if (events[i].events & EPOLLOUT)
                send_queued(s, c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                on_readable(s, c);
        }
        if (s->n_posts > 0)
            commit(s);
    }
}

int
main(int argc, char **argv)
{
    static struct server s = {.log_fd = -1, .archive.fd = -1};

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (*value && strcmp(argv[i], "--pad") == 0) {
            s.padding = strtoul(value, NULL, 10);
        } else if (*value && strcmp(argv[i], "--log") == 0) {
            s.log_fd = open(value, O_WRONLY | O_CREAT | O_APPEND, 0644);
            if (s.log_fd < 0)
                bench_fail("floor: %s: %s", value, strerror(errno));
        } else if (*value && strcmp(argv[i], "--archive") == 0) {
            archive_open(&s.archive, value);
        } else {
            fputs("usage: bench_floor [--log FILE [--archive FILE]]"
                  " [--pad BYTES]\n",
                  stderr);
            return 2;
        }
    }
    signal(SIGPIPE, SIG_IGN);
    bench_allow_files();
    listen_anywhere(&s);
    serve(&s);
    return 0;
}
