#include "tests/bench/callbacks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/publisher.h"

#define FILES_MAX 131072

/* The first bytes of a request: its head, and the body as far as its first
 * entry.
 */
#define KEPT_SIZE 4096

/* A request that is coming in. */
struct arrival {
    size_t size;      /* of all so far */
    size_t head_size; /* 0: not known yet, nor `all` */
    size_t all;
    char kept[KEPT_SIZE + 1];
};

void
callbacks_open(struct callbacks *c, int epoll, unsigned n, unsigned n_hosts,
               unsigned sick_every)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_ANY)};
    struct epoll_event event = {.events = EPOLLIN};
    socklen_t size = sizeof(at);

    *c = (struct callbacks){
        .epoll = epoll, .n = n, .n_hosts = n_hosts, .sick_every = sick_every};
    c->last = bench_memory(calloc(n + 1, sizeof(*c->last)));
    c->arrivals = bench_memory(calloc(FILES_MAX, sizeof(*c->arrivals)));
    c->listener =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(c->listener, (struct sockaddr *)&at, size) ||
        listen(c->listener, 4096) ||
        getsockname(c->listener, (struct sockaddr *)&at, &size))
        bench_fail("cannot listen: %s", strerror(errno));
    c->port = ntohs(at.sin_port);
    event.data.fd = c->listener;
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->listener, &event);
}

void
callbacks_close(struct callbacks *c)
{
    for (int fd = 0; fd < FILES_MAX; fd++) {
        if (!c->arrivals[fd])
            continue;
        close(fd);
        free(c->arrivals[fd]);
    }
    close(c->listener);
    free(c->arrivals);
    free(c->last);
}

static bool
is_sick(const struct callbacks *c, unsigned number)
{
    return c->sick_every > 0 && number % c->sick_every == c->sick_every - 1;
}

unsigned
callbacks_healthy(const struct callbacks *c)
{
    return c->n - (c->sick_every > 0 ? c->n / c->sick_every : 0);
}

void
callbacks_url(const struct callbacks *c, unsigned number,
              char to[CALLBACK_URL_SIZE])
{
    unsigned host = number % c->n_hosts;

    snprintf(to, CALLBACK_URL_SIZE, "http://127.%u.%u.%u:%u/cb/%u",
             1 + (host >> 16 & 0x7f), host >> 8 & 0xff, host & 0xff, c->port,
             number);
}

void
callbacks_reset(struct callbacks *c)
{
    c->n_deliveries = c->n_entries = c->n_bytes = c->n_lost = 0;
    c->n_repeated = c->n_left = 0;
    memset(&c->delay, 0, sizeof(c->delay));
}

/* Requests */

/* Returns the text behind `name` in the head; ends the program if the head has
 * none. */
static const char *
find_in(const struct arrival *a, const char *name)
{
    const char *at = strstr(a->kept, name);

    if (!at)
        bench_fail("a request without \"%s\":\n%.1000s", name, a->kept);
    return at + strlen(name);
}

static void
answer(int fd, const char *text, size_t size)
{
    if (send(fd, text, size, MSG_NOSIGNAL) < 0 && errno != EPIPE &&
        errno != ECONNRESET)
        bench_fail("cannot answer: %s", strerror(errno));
}

static void
verify(struct callbacks *c, const struct arrival *a, int fd)
{
    const char *challenge = find_in(a, "hub.challenge=");
    size_t size = strcspn(challenge, "& ");
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%.*s", size,
                     (int)size, challenge);

    answer(fd, text, (size_t)n);
    c->n_verified++;
}

/* Counts the range that stands in the delivery's id: its last two numbers. */
static void
count(struct callbacks *c, struct arrival *a, unsigned number)
{
    uint64_t *seen = &c->last[number], now_ns = bench_now_ns();
    unsigned long long after = 0, last = 0;
    const char *mark = NULL;

    if (sscanf(find_in(a, "Tidings-Delivery: "), "%*[^-]-%*u-%llu-%llu", &after,
               &last) != 2)
        bench_fail("a delivery without its range:\n%.1000s", a->kept);
    if (*seen && after > *seen)
        c->n_lost += after - *seen;
    if (after < *seen) {
        c->n_repeated += (last < *seen ? last : *seen) - after;
        after = last < *seen ? last : *seen;
    }
    c->n_deliveries++;
    c->n_entries += last - after;
    c->n_bytes += a->all - a->head_size;
    *seen = last > *seen ? last : *seen;

    mark = strstr(a->kept + a->head_size, ENTRY_MARK);
    if (!mark)
        bench_fail("a delivery without an entry:\n%.1000s", a->kept);
    mark += strlen(ENTRY_MARK) + ENTRY_TIME;
    histogram_add(&c->delay, now_ns - strtoull(mark, NULL, 10));
    c->last_ns = now_ns;
}

static void
take(struct callbacks *c, struct arrival *a, int fd)
{
    static const char taken[] = "HTTP/1.1 204 No Content\r\n\r\n";
    unsigned number = 0;

    if (!strncmp(a->kept, "GET ", 4)) {
        verify(c, a, fd);
        return;
    }
    number = (unsigned)strtoul(find_in(a, "/cb/"), NULL, 10);
    if (number >= c->n)
        bench_fail("a delivery to callback %u, which there is not", number);
    if (is_sick(c, number)) {
        c->n_left++;
        return;
    }
    count(c, a, number);
    answer(fd, taken, sizeof(taken) - 1);
}

/* Does the head have its end? */
static bool
has_head(struct arrival *a, size_t n_kept)
{
    const char *end = NULL, *length = NULL;

    a->kept[n_kept] = '\0';
    end = strstr(a->kept, "\r\n\r\n");
    if (!end)
        return false;
    a->head_size = (size_t)(end - a->kept) + 4;
    length = strcasestr(a->kept, "content-length:");
    a->all = a->head_size;
    if (length && length < end)
        a->all += strtoul(length + strlen("content-length:"), NULL, 10);
    return true;
}

/* Connections */

static void
greet(struct callbacks *c)
{
    struct epoll_event event = {.events = EPOLLIN};
    int on = 1, fd = -1;

    while ((fd = accept4(c->listener, NULL, NULL,
                         SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (fd >= FILES_MAX)
            bench_fail("too many connections");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        c->arrivals[fd] = bench_memory(calloc(1, sizeof(struct arrival)));
        event.data.fd = fd;
        epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event);
    }
    if (errno != EAGAIN && errno != ECONNABORTED)
        bench_fail("accept: %s", strerror(errno));
}

static void
forget(struct callbacks *c, int fd)
{
    free(c->arrivals[fd]);
    c->arrivals[fd] = NULL;
    close(fd);
}

void
callbacks_on_event(struct callbacks *c, int fd)
{
    static char bytes[1 << 18];
    struct arrival *a = c->arrivals[fd];
    ssize_t n = 0;

    if (fd == c->listener) {
        greet(c);
        return;
    }
    n = recv(fd, bytes, sizeof(bytes), 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        forget(c, fd);
        return;
    }
    if (a->size < KEPT_SIZE) {
        size_t room = KEPT_SIZE - a->size;
        size_t more = (size_t)n < room ? (size_t)n : room;

        memcpy(a->kept + a->size, bytes, more);
        a->kept[a->size + more] = '\0';
    }
    a->size += (size_t)n;
    if (!a->head_size &&
        !has_head(a, a->size < KEPT_SIZE ? a->size : KEPT_SIZE))
        return;
    if (a->size < a->all)
        return;
    take(c, a, fd);
    a->size = a->all = a->head_size = 0;
}
