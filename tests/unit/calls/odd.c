#include "tests/unit/calls/odd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <zlib.h>

#include "tests/test.h"

enum odd_end {
    ODD_CLOSE,
    ODD_KEEP,
    ODD_RESET,
    ODD_HANG,
    ODD_REPEAT, /* `again` without end */
    ODD_TRICKLE /* the same, with a pause before each */
};

#define OK        "HTTP/1.1 200 OK\r\n"
#define LENGTH(n) "Content-Length: " n "\r\n\r\n"
#define CHUNKED   "Transfer-Encoding: chunked\r\n\r\n"
#define BUSY(s)   "HTTP/1.1 503 No\r\nRetry-After: " s "\r\n" LENGTH("0")

static const struct odd_answer {
    const char *path;
    const char *text;
    enum odd_end end;
    const char *again;
} odd_answers[] = {
    {"/ok", OK LENGTH("5") "hello", ODD_KEEP},
    {"/empty", "HTTP/1.1 204 No Content\r\n\r\n", ODD_KEEP},
    {"/chunked",
     OK CHUNKED "2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nLink: <trailer>\r\n\r\n",
     ODD_KEEP},
    {"/closed", "HTTP/1.0 200 OK\r\n\r\nhello", ODD_CLOSE},
    {"/facts",
     "HTTP/1.1 100 Continue\r\nLink: <interim>\r\n\r\n" OK
     "Content-Type:  text/xml; charset=utf-8 \r\n"
     "ETag: W/\"a\"\r\nlast-modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
     "Link: <a>; rel=hub\r\nLink: <b>; rel=self, <c>; rel=up\r\n" LENGTH("0"),
     ODD_KEEP},
    {"/gzipped", OK "Content-Encoding: gzip\r\n" LENGTH("3") "\x1f\x8b\x08",
     ODD_KEEP},
    {"/soon", BUSY("120"), ODD_KEEP},
    {"/on-a-date",
     "HTTP/1.1 429 No\r\nRetry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n" LENGTH(
         "0"),
     ODD_KEEP},
    {"/past", BUSY("Sun, 06 Nov 1994 08:48:37 GMT"), ODD_KEEP},
    {"/never", BUSY("99999999999999999999999"), ODD_KEEP},
    {"/nonsense", BUSY("-5"), ODD_KEEP},
    {"/hang", "", ODD_HANG},
    {"/hang-in-body", OK LENGTH("5") "hel", ODD_HANG},
    {"/trickling-headers", OK, ODD_TRICKLE, "X: y\r\n"},
    {"/trickling-body", OK "\r\n", ODD_TRICKLE, "x"},
    {"/trickling-status", "HTTP/1.1 200 ", ODD_TRICKLE, "a"},
    {"/endless-body", OK "\r\n", ODD_REPEAT, "xxxxxxxxxxxxxxxx"},
    {"/endless-404", "HTTP/1.1 404 No\r\n\r\n", ODD_REPEAT, "xxxxxxxxxxxxxxxx"},
    {"/endless-headers", OK, ODD_REPEAT, "X-Name: value\r\n"},
    {"/endless-line", OK "X-Name: ", ODD_REPEAT, "aaaaaaaaaaaaaaaa"},
    {"/endless-status", "HTTP/1.1 200 ", ODD_REPEAT, "aaaaaaaaaaaaaaaa"},
    {"/endless-interim", "", ODD_REPEAT, "HTTP/1.1 100 Continue\r\n\r\n"},
    {"/endless-trailer", OK CHUNKED "0\r\n", ODD_REPEAT, "X-Name: value\r\n"},
    {"/no-head", OK, ODD_CLOSE},
    {"/short-head", OK "X: y\r\n", ODD_CLOSE},
    {"/short-line", OK "X: y", ODD_CLOSE},
    {"/short-status", "HTTP/1.1 20", ODD_CLOSE},
    {"/interim-alone", "HTTP/1.1 100 Continue\r\n\r\n", ODD_CLOSE},
    {"/short", OK LENGTH("50") "hello", ODD_CLOSE},
    {"/nothing", "", ODD_CLOSE},
    {"/reset", "", ODD_RESET},
    {"/reset-in-body", OK LENGTH("50") "hello", ODD_RESET},
    {"/garbage", "\x01\x02\x03 what?\r\n\r\n", ODD_CLOSE},
    {"/http09", "<html>hello</html>\n", ODD_CLOSE},
    {"/http2", "HTTP/2 200\r\n\r\nhello", ODD_CLOSE},
    {"/bad-chunk", OK CHUNKED "zz\r\nhe", ODD_CLOSE},
    {"/bad-length", OK LENGTH("-7") "hello", ODD_CLOSE},
    {"/two-lengths", OK "Content-Length: 5\r\n" LENGTH("5") "hello", ODD_CLOSE},
    {"/length-and-chunks", OK "Content-Length: 5\r\n" CHUNKED "0\r\n\r\n",
     ODD_CLOSE},
    {"/chunks-of-1.0", "HTTP/1.0 200 OK\r\n" CHUNKED "0\r\n\r\n", ODD_CLOSE},
    {"/gzip-and-chunks", OK "Transfer-Encoding: gzip\r\n" CHUNKED "0\r\n\r\n",
     ODD_CLOSE},
    {"/line-feed", "HTTP/1.1 200 OK\nX: y\r\n" LENGTH("0"), ODD_CLOSE},
    {"/folded", OK "X: y\r\n z\r\n" LENGTH("0"), ODD_CLOSE},
    {"/blank-name", OK "Content-Length : 0\r\n\r\n", ODD_CLOSE},
    {"/no-status", "HTTP/1.1 OK\r\n" LENGTH("0"), ODD_CLOSE},
    {"/long-size", OK CHUNKED "00000000000000000001\r\na\r\n0\r\n\r\n",
     ODD_CLOSE},
    {"/switched", "HTTP/1.1 101 No\r\nUpgrade: x\r\n\r\n", ODD_CLOSE},
    {"/close", OK "Connection: Close\r\n" LENGTH("5") "hello", ODD_KEEP},
    {"/closing-1.0", "HTTP/1.0 200 OK\r\n" LENGTH("5") "hello", ODD_KEEP},
    {"/kept-1.0",
     "HTTP/1.0 200 OK\r\nConnection: x, Keep-Alive\r\n" LENGTH("5") "hello",
     ODD_KEEP},
    {"/surplus", OK LENGTH("5") "hello" OK LENGTH("6") "forged", ODD_KEEP},
    {"/empty-surplus", "HTTP/1.1 204 No\r\n" LENGTH("2") "hi", ODD_KEEP},
    {"/bad-gzip", OK "Content-Encoding: gzip\r\n" LENGTH("5") "hello",
     ODD_KEEP},
    {"/two-codings",
     OK "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n" LENGTH(
         "5") "hello",
     ODD_KEEP},
    {"/short-gzip", OK "Content-Encoding: gzip\r\n" LENGTH("3") "\x1f\x8b\x08",
     ODD_KEEP},
    {"/empty-gzip", OK "Content-Encoding: gzip\r\n" LENGTH("0"), ODD_KEEP},
    {"/early", "HTTP/1.1 413 No\r\n" LENGTH("2") "no", ODD_HANG},
};

static bool
odd_send(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

        if (n <= 0)
            return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

/* Lets 5 ms pass; true if the other side has closed meanwhile. */
static bool
odd_pause(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct timespec pace = {0, ODD_PACE_US * 1000};

    return ppoll(&p, 1, &pace, NULL) > 0;
}

/* Until the other side closes. */
static void
odd_hang(int fd)
{
    char bytes[256];

    while (recv(fd, bytes, sizeof(bytes), 0) > 0)
        continue;
}

static bool
odd_repeat(int fd, const struct odd_answer *answer)
{
    char text[4096];
    size_t one = strlen(answer->again), size = 0;
    bool is_paced = answer->end == ODD_TRICKLE;

    do {
        memcpy(text + size, answer->again, one);
        size += one;
    } while (!is_paced && size + one <= sizeof(text));
    while (odd_send(fd, text, size))
        if (is_paced && odd_pause(fd))
            break;
    return false;
}

static void
odd_reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

/* True if another request may come. */
static bool
odd_play(struct odd_connection *c, const struct odd_answer *answer)
{
    if (!odd_send(c->fd, answer->text, strlen(answer->text)))
        return false;
    if (answer->again)
        return odd_repeat(c->fd, answer);
    if (answer->end == ODD_HANG)
        odd_hang(c->fd);
    if (answer->end == ODD_RESET)
        odd_reset(c->fd);
    return answer->end == ODD_KEEP;
}

/* Answers, and then once more, when odd_pass lets it. */
static bool
odd_forge(struct odd_connection *c)
{
    static const char first[] = OK LENGTH("5") "hello";
    static const char forged[] = OK LENGTH("6") "forged";
    struct odd *o = c->odd;

    if (!odd_send(c->fd, first, sizeof(first) - 1))
        return false;
    pthread_mutex_lock(&o->mutex);
    while (!o->n_passes && !o->is_ending)
        pthread_cond_wait(&o->changed, &o->mutex);
    if (o->n_passes)
        o->n_passes--;
    pthread_mutex_unlock(&o->mutex);
    (void)odd_send(c->fd, forged, sizeof(forged) - 1);
    pthread_mutex_lock(&o->mutex);
    o->n_forged++;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mutex);
    return true;
}

/* More bytes than the caller reads at once, most of them no part of the body.
 */
static bool
odd_send_wide(struct odd_connection *c)
{
    char text[24000];
    int size = sprintf(text,
                       OK "Content-Type: text/wide\r\nLink: <w>\r\n"
                          "X: %01000d\r\n" CHUNKED,
                       0);

    for (unsigned i = 0; i < 4; i++)
        size += sprintf(text + size, "1;%04000d\r\n%u\r\n", 0, i);
    size += sprintf(text + size, "0\r\n\r\n");
    return odd_send(c->fd, text, (size_t)size);
}

static bool
odd_let_wait(struct odd_connection *c)
{
    static const struct odd_answer answer = {
        "", "HTTP/1.1 204 No Content\r\n\r\n", ODD_KEEP, NULL};
    struct odd *o = c->odd;

    pthread_mutex_lock(&o->mutex);
    o->n_waiting++;
    if (o->n_waiting > o->most_waiting)
        o->most_waiting = o->n_waiting;
    pthread_cond_broadcast(&o->changed);
    while (!o->n_passes && !o->is_ending)
        pthread_cond_wait(&o->changed, &o->mutex);
    if (o->n_passes)
        o->n_passes--;
    o->n_waiting--;
    pthread_mutex_unlock(&o->mutex);
    return odd_play(c, &answer);
}

/* The pieces of chunks are of other sizes than anything that reads them. */
static bool
odd_send_long(struct odd_connection *c, const char *way, uint64_t n)
{
    bool is_chunked = !strcmp(way, "long-chunked");
    bool is_closed = !strcmp(way, "long-closed");
    size_t most = !strcmp(way, "paced") ? 1 : 9973;
    char text[10100];
    int size = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n");

    if (is_chunked)
        size += sprintf(text + size, "Transfer-Encoding: chunked\r\n");
    else if (!is_closed)
        size += sprintf(text + size, "Content-Length: %llu\r\n",
                        (unsigned long long)n);
    size += sprintf(text + size, "\r\n");
    if (!odd_send(c->fd, text, (size_t)size))
        return false;
    for (uint64_t i = 0; i < n;) {
        uint64_t end = i + most < n ? i + most : n;

        size = is_chunked
                   ? sprintf(text, "%llx\r\n", (unsigned long long)(end - i))
                   : 0;
        while (i < end)
            text[size++] = odd_byte(i++);
        if (is_chunked)
            size += sprintf(text + size, "\r\n");
        if (!odd_send(c->fd, text, (size_t)size))
            return false;
        if (most == 1 && odd_pause(c->fd))
            return false;
    }
    return !is_closed && (!is_chunked || odd_send(c->fd, "0\r\n\r\n", 5));
}

/* The same bytes, which inflate to a few hundred times of what is sent. */
static bool
odd_send_coded(struct odd_connection *c, const char *way, uint64_t n)
{
    bool is_chunked = !strcmp(way, "gzip-chunked");
    bool is_deflate = !strcmp(way, "deflate");
    unsigned char *plain = malloc(n + 1), *coded = malloc(n + 1000);
    z_stream z = {.next_in = plain, .next_out = coded};
    char head[200];
    bool is_sent;
    int size;

    for (uint64_t i = 0; i < n; i++)
        plain[i] = (unsigned char)odd_byte(i);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED,
                                  MAX_WBITS + (is_deflate ? 0 : 16), 9,
                                  Z_DEFAULT_STRATEGY),
                     Z_OK);
    z.avail_in = (unsigned)n;
    z.avail_out = (unsigned)(n + 1000);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size =
        sprintf(head, OK "Content-Encoding: %s\r\n", is_chunked ? "gzip" : way);
    if (is_chunked)
        size += sprintf(head + size, CHUNKED "%lx\r\n", z.total_out);
    else
        size +=
            sprintf(head + size, "Content-Length: %lu\r\n\r\n", z.total_out);
    is_sent = odd_send(c->fd, head, (size_t)size) &&
              odd_send(c->fd, (char *)coded, z.total_out) &&
              (!is_chunked || odd_send(c->fd, "\r\n0\r\n\r\n", 7));
    deflateEnd(&z);
    free(plain);
    free(coded);
    return is_sent;
}

static bool
odd_answer(struct odd_connection *c)
{
    char path[4096] = "", text[8192], way[16];
    unsigned long long n = 0;
    unsigned status = 0;

    (void)sscanf(c->request, "%*s %4095s", path);
    for (size_t i = 0; i < sizeof(odd_answers) / sizeof(odd_answers[0]); i++)
        if (!strcmp(path, odd_answers[i].path))
            return odd_play(c, &odd_answers[i]);
    if (!strncmp(path, "/wait", 5))
        return odd_let_wait(c);
    if (!strcmp(path, "/wide"))
        return odd_send_wide(c);
    if (!strcmp(path, "/forged"))
        return odd_forge(c);
    if (sscanf(path, "/%15[a-z-]?%llu", way, &n) == 2)
        return strstr("gzip-chunked deflate br", way)
                   ? odd_send_coded(c, way, n)
                   : odd_send_long(c, way, n);
    if (!strncmp(path, "/to?", 4))
        snprintf(text, sizeof(text),
                 "HTTP/1.1 302 Found\r\nLocation: %s\r\n"
                 "Link: <of the redirect>\r\nContent-Length: 0\r\n\r\n",
                 path + 4);
    else if (sscanf(path, "/status/%u", &status) == 1)
        snprintf(text, sizeof(text),
                 "HTTP/1.1 %u Some\r\nContent-Length: 2\r\n\r\n%s", status,
                 strncmp(c->request, "HEAD", 4) ? "hi" : "");
    else
        snprintf(text, sizeof(text),
                 "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    return odd_send(c->fd, text, strlen(text));
}

/* Reads one request, head and body, into c->request. */
static bool
odd_read(struct odd_connection *c)
{
    size_t size = 0, body = 0, head = 0;
    const char *end = NULL, *length = NULL;

    c->request[0] = '\0';
    while (!end || size < head + body) {
        ssize_t n =
            size + 1 < ODD_REQUEST_MAX
                ? recv(c->fd, c->request + size, ODD_REQUEST_MAX - 1 - size, 0)
                : 0;

        if (n <= 0)
            return false;
        size += (size_t)n;
        c->request[size] = '\0';
        if (end || !(end = strstr(c->request, "\r\n\r\n")))
            continue;
        head = (size_t)(end - c->request) + 4;
        if (!strncmp(c->request, "POST /early ", 12))
            break; /* it leaves the body */
        length = strcasestr(c->request, "\r\nContent-Length:");
        body = length ? strtoul(length + 17, NULL, 10) : 0;
    }
    pthread_mutex_lock(&c->odd->mutex);
    c->odd->n_requests++;
    memcpy(c->odd->last, c->request, size + 1);
    pthread_cond_broadcast(&c->odd->changed);
    pthread_mutex_unlock(&c->odd->mutex);
    return true;
}

static void *
odd_serve(void *user)
{
    struct odd_connection *c = user;
    struct odd *o = c->odd;

    while (odd_read(c) && odd_answer(c))
        continue;
    pthread_mutex_lock(&o->mutex);
    close(c->fd);
    c->fd = -1;
    o->n_left++;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mutex);
    return NULL;
}

static void *
odd_accept(void *user)
{
    struct odd *o = user;

    for (;;) {
        int fd = accept4(o->fd, NULL, NULL, SOCK_CLOEXEC);
        struct odd_connection *c;

        if (fd < 0 && errno == EMFILE) { /* until the test lifts its limit */
            sched_yield();
            continue;
        }
        if (fd < 0)
            return NULL;
        pthread_mutex_lock(&o->mutex);
        if (o->is_ending || o->n_connections == ODD_CONNECTIONS_MAX) {
            close(fd);
            pthread_mutex_unlock(&o->mutex);
            continue;
        }
        c = &o->connections[o->n_connections++];
        c->odd = o;
        c->fd = fd;
        c->request = malloc(ODD_REQUEST_MAX);
        if (pthread_create(&c->thread, NULL, odd_serve, c))
            abort();
        pthread_cond_broadcast(&o->changed);
        pthread_mutex_unlock(&o->mutex);
    }
}

void
odd_open(struct odd *o)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof(at);

    memset(o, 0, sizeof(*o));
    pthread_mutex_init(&o->mutex, NULL);
    pthread_cond_init(&o->changed, NULL);
    o->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(o->fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(o->fd, 1024), 0);
    assert_int_equal(getsockname(o->fd, (struct sockaddr *)&at, &size), 0);
    o->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&o->acceptor, NULL, odd_accept, o), 0);
}

void
odd_close(struct odd *o)
{
    pthread_mutex_lock(&o->mutex);
    o->is_ending = true;
    pthread_cond_broadcast(&o->changed);
    for (unsigned i = 0; i < o->n_connections; i++)
        if (o->connections[i].fd >= 0)
            shutdown(o->connections[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&o->mutex);
    shutdown(o->fd, SHUT_RDWR);
    pthread_join(o->acceptor, NULL);
    for (unsigned i = 0; i < o->n_connections; i++) {
        pthread_join(o->connections[i].thread, NULL);
        free(o->connections[i].request);
    }
    close(o->fd);
    pthread_mutex_destroy(&o->mutex);
    pthread_cond_destroy(&o->changed);
}

void
odd_pass(struct odd *o, unsigned n)
{
    pthread_mutex_lock(&o->mutex);
    o->n_passes += n;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->mutex);
}

unsigned
odd_await_least(struct odd *o, const unsigned *counter, unsigned least)
{
    unsigned is;

    pthread_mutex_lock(&o->mutex);
    while (*counter < least)
        pthread_cond_wait(&o->changed, &o->mutex);
    is = *counter;
    pthread_mutex_unlock(&o->mutex);
    return is;
}

void
odd_await(struct odd *o, const unsigned *counter, unsigned wanted)
{
    assert_int_equal(odd_await_least(o, counter, wanted), wanted);
}

unsigned
odd_count(struct odd *o, const unsigned *counter)
{
    unsigned is;

    pthread_mutex_lock(&o->mutex);
    is = *counter;
    pthread_mutex_unlock(&o->mutex);
    return is;
}

bool
odd_was_sent(struct odd *o, const char *text)
{
    bool is;

    pthread_mutex_lock(&o->mutex);
    is = strstr(o->last, text) != NULL;
    pthread_mutex_unlock(&o->mutex);
    return is;
}
