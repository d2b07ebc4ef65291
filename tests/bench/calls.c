/*
 * calls.c - what a call costs: POSTs to callbacks that answer at once.
 *
 *     bench_calls [--tls | --floor | --floor-signed]
 *                 [CALLBACKS [ROUNDS [BYTES [HOSTS]]]]
 *
 * One call in flight to each callback, over kept connections; 1,000 callbacks,
 * 50 rounds, bodies of 2,000 bytes, each callback a host of its own without the
 * option. The callbacks are a process of its own on core 0, the caller one
 * thread on core 1. Prints CPU per call of the process that calls, without the
 * first round, which connects.
 *
 * --tls makes the calls by HTTPS: P-256, TLS 1.3.
 *
 * --floor makes the same calls without the caller: one sendmsg() and one recv()
 * for each, and epoll. No program that uses a socket for each callback can do
 * with less. --floor-signed computes the HMAC-SHA256 of the body for each, too.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "broker/calls/caller.h"
#include "proto/http/webhook_signature.h"
#include "tests/bench/bench.h"
#include "tests/bench/usage.h"

#define EVENTS_MAX 512
#define FILES_MAX  65536

/* The callbacks */

/* The bytes that each descriptor has received of its request. Its length is
 * known when its head has ended, as all bodies have the same length. */
static struct request {
    size_t size; /* of all so far */
    size_t all;  /* 0: not known yet */
    SSL *ssl;    /* NULL: no TLS */
} requests[FILES_MAX];

static SSL_CTX *tls; /* NULL: no TLS */

static ssize_t
receive(const struct request *r, int fd, char *bytes, size_t size)
{
    int n;

    if (!r->ssl)
        return recv(fd, bytes, size, 0);
    n = SSL_read(r->ssl, bytes, (int)size);
    return n <= 0 && SSL_want_read(r->ssl) ? -EAGAIN : n;
}

static bool
send_answer(const struct request *r, int fd, const char *text, size_t size)
{
    return r->ssl ? SSL_write(r->ssl, text, (int)size) == (int)size
                  : send(fd, text, size, MSG_NOSIGNAL) == (ssize_t)size;
}

static void
answer(int epoll, int fd, size_t body_size)
{
    static const char answer_204[] = "HTTP/1.1 204 No Content\r\n\r\n";
    static char bytes[65536];
    struct request *r = &requests[fd];
    ssize_t n = receive(r, fd, bytes, sizeof(bytes));
    const char *end = NULL;

    if (n == -EAGAIN)
        return; /* of the handshake */
    if (n <= 0) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
        close(fd);
        SSL_free(r->ssl);
        *r = (struct request){0, 0, NULL};
        return;
    }
    if (!r->all) {
        end = memmem(bytes, (size_t)n, "\r\n\r\n", 4);
        if (!end)
            bench_fail("the head of a request did not come in one piece");
        r->all = (size_t)(end - bytes) + 4 + body_size;
    }
    r->size += (size_t)n;
    if (r->size < r->all)
        return;
    r->size = r->all = 0;
    if (!send_answer(r, fd, answer_204, sizeof(answer_204) - 1))
        bench_fail("send: %s", strerror(errno));
}

static void
greet(int epoll, int listener)
{
    struct epoll_event event = {.events = EPOLLIN};
    int on = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);

    if (fd < 0 || fd >= FILES_MAX)
        bench_fail("accept: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    event.data.fd = fd;
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    if (!tls)
        return;
    requests[fd].ssl = SSL_new(tls);
    SSL_set_fd(requests[fd].ssl, fd);
    SSL_set_accept_state(requests[fd].ssl);
}

/* Makes a certificate of all hosts, which signs itself, and has the caller
 * trust it. */
static void
open_tls(unsigned n_hosts)
{
    char *names = bench_memory(malloc(n_hosts * sizeof("IP:127.1.255.255,")));
    char path[] = "/tmp/bench_calls.XXXXXX";
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    size_t size = 0;
    FILE *file;

    for (unsigned i = 0; i < n_hosts; i++)
        size += (size_t)sprintf(names + size, "%sIP:127.1.%u.%u", i ? "," : "",
                                i >> 8 & 0xff, i & 0xff);
    X509_set_version(cert, X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"bench", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    X509_add_ext(
        cert, X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names), -1);
    X509_sign(cert, key, EVP_sha256());
    file = fdopen(mkstemp(path), "w");
    if (!file || !PEM_write_X509(file, cert) || fclose(file))
        bench_fail("cannot write %s", path);
    setenv("SSL_CERT_FILE", path, 1);
    tls = SSL_CTX_new(TLS_server_method());
    if (SSL_CTX_use_certificate(tls, cert) != 1 ||
        SSL_CTX_use_PrivateKey(tls, key) != 1)
        bench_fail("cannot speak TLS");
    free(names);
}

static void
serve(int listener, size_t body_size)
{
    struct epoll_event events[EVENTS_MAX],
        event = {.events = EPOLLIN, .data.fd = listener};
    int epoll = epoll_create1(0);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, -1);

        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                greet(epoll, listener);
            else
                answer(epoll, events[i].data.fd, body_size);
        }
    }
}

static int
listen_everywhere(unsigned *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&at, size) || listen(fd, 4096) ||
        getsockname(fd, (struct sockaddr *)&at, &size))
        bench_fail("cannot listen: %s", strerror(errno));
    *port = ntohs(at.sin_port);
    return fd;
}

/* The caller */

struct callback {
    struct call call;
    char url[64];
    unsigned n_left;
    int fd; /* of the floor */
};

static struct bench {
    struct caller *caller;
    struct callback *callbacks;
    unsigned n_callbacks, rounds;
    uint64_t n_done, n_failed, n_first;
    struct usage from, to;
    sem_t done;
} bench;

static void
on_done(struct call *call)
{
    struct callback *c = list_entry(call, struct callback, call);

    bench.n_done++;
    if (call->failure || call->status != 204)
        if (!bench.n_failed++)
            fprintf(stderr, "%s: %u %s\n", c->url, call->status, call->why);
    if (bench.n_done == bench.n_first)
        usage_take(&bench.from, getpid());
    if (--c->n_left > 0)
        caller_start(bench.caller, call);
    if (bench.n_done == (uint64_t)bench.n_callbacks * bench.rounds) {
        usage_take(&bench.to, getpid());
        sem_post(&bench.done);
    }
}

static void
start_all(struct task *task)
{
    (void)task;
    for (unsigned i = 0; i < bench.n_callbacks; i++)
        caller_start(bench.caller, &bench.callbacks[i].call);
}

static void
make_callbacks(unsigned port, unsigned n_hosts, struct slice body)
{
    static const char *const headers[] = {
        "Content-Type: application/xml",
        "Link: <http://h.example/hub>; rel=\"hub\", <http://h.example/t>; "
        "rel=\"self\"",
        "X-Hub-Signature: sha256=0123456789012345678901234567890123456789",
        NULL};

    for (unsigned i = 0; i < bench.n_callbacks; i++) {
        struct callback *c = &bench.callbacks[i];
        unsigned host = i % n_hosts;

        snprintf(c->url, sizeof(c->url), "http%s://127.1.%u.%u:%u/cb/%u",
                 tls ? "s" : "", host >> 8 & 0xff, host & 0xff, port, i);
        c->n_left = bench.rounds;
        c->call = (struct call){.method = CALL_POST,
                                .url = c->url,
                                .timeout_us = 60000000,
                                .max_answer = 4096,
                                .done = on_done,
                                .headers = headers,
                                .body = body};
    }
}

/* The floor */

static int
connect_to(unsigned host, unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr =
                                 htonl(0x7f010000 | (host & 0xffff))};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
        bench_fail("connect: %s", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

/* The same bytes as the caller sends. */
static void
send_raw(const struct callback *c, const struct signer *signer)
{
    struct slice body = c->call.body;
    char head[1024], signature[SIGNATURE_SIZE];
    const char *signed_header = c->call.headers[2];
    struct iovec parts[2] = {{.iov_base = head},
                             {(char *)(uintptr_t)body.data, body.size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

    if (signer && signer_sign(signer, body, signature))
        bench_fail("no memory");
    parts[0].iov_len = (size_t)snprintf(
        head, sizeof(head),
        "POST %s HTTP/1.1\r\nHost: %.*s\r\nUser-Agent: tidings/" TIDINGS_VERSION
        "\r\nAccept: */*\r\n%s\r\n%s\r\n%.17s%s\r\nContent-Length: %zu\r\n\r\n",
        strstr(c->url, "/cb/"), (int)strcspn(c->url + 7, "/"), c->url + 7,
        c->call.headers[0], c->call.headers[1], signed_header,
        signer ? signature : signed_header + 17, body.size);
    if (sendmsg(c->fd, &message, MSG_NOSIGNAL) !=
        (ssize_t)(parts[0].iov_len + body.size))
        bench_fail("a request was not sent in one piece");
}

static void
receive_raw(const struct callback *c)
{
    char bytes[4096];
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);

    if (n < 12 || memcmp(bytes, "HTTP/1.1 204", 12))
        bench_fail("an answer other than 204");
}

static void
run_floor(unsigned port, unsigned n_hosts, const struct signer *signer)
{
    uint64_t n_all = (uint64_t)bench.n_callbacks * bench.rounds;
    struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    for (unsigned i = 0; i < bench.n_callbacks; i++) {
        struct callback *c = &bench.callbacks[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

        c->fd = connect_to(i % n_hosts, port);
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
        send_raw(c, signer);
    }
    while (bench.n_done < n_all) {
        int n = epoll_wait(epoll, events, EVENTS_MAX, -1);

        for (int i = 0; i < n; i++) {
            struct callback *c = events[i].data.ptr;

            receive_raw(c);
            if (++bench.n_done == bench.n_first)
                usage_take(&bench.from, getpid());
            if (--c->n_left > 0)
                send_raw(c, signer);
        }
    }
    usage_take(&bench.to, getpid());
}

static unsigned
argument(int argc, char **argv, int i, unsigned otherwise)
{
    return i < argc ? (unsigned)bench_number("an argument", argv[i], 1, 1e6)
                    : otherwise;
}

static void
run_caller(const struct caller_options *options)
{
    struct task task = {.run = start_all};
    struct problem why = {"", 0, 0};

    sem_init(&bench.done, 0, 0);
    if (caller_open(&bench.caller, options, &why))
        bench_fail("%s", why.text);
    caller_post(bench.caller, &task);
    while (sem_wait(&bench.done))
        continue;
}

int
main(int argc, char **argv)
{
    bool is_signed = argc > 1 && !strcmp(argv[1], "--floor-signed");
    bool is_floor = is_signed || (argc > 1 && !strcmp(argv[1], "--floor"));
    bool is_tls = argc > 1 && !strcmp(argv[1], "--tls");
    int before = is_floor || is_tls; /* arguments before the numbers */
    unsigned n_callbacks = argument(argc, argv, before + 1, 1000);
    unsigned rounds = argument(argc, argv, before + 2, 50) + 1;
    unsigned n_bytes = argument(argc, argv, before + 3, 2000);
    unsigned n_hosts = argument(argc, argv, before + 4, n_callbacks);
    struct signer *signer =
        is_signed ? signer_new(SIGNATURE_SHA256, SLICE("a-secret")) : NULL;
    struct networks allowed = {.n = 0};
    struct caller_options options = {.name = "calls",
                                     .allowed = &allowed,
                                     .connections = n_callbacks,
                                     .host_connections =
                                         (n_callbacks + n_hosts - 1) / n_hosts};
    unsigned port = 0;
    uint64_t n = (uint64_t)n_callbacks * (rounds - 1);
    char *body = bench_memory(malloc(n_bytes));
    int listener = -1;

    bench_allow_files();
    if (is_tls)
        open_tls(n_hosts);
    listener = listen_everywhere(&port);
    if (!fork())
        serve(listener, n_bytes);
    close(listener);
    bench_pin(1);

    memset(body, 'b', n_bytes);
    networks_add_loopback(&allowed);
    bench.n_callbacks = bench.n_first = n_callbacks;
    bench.rounds = rounds;
    bench.callbacks =
        bench_memory(calloc(n_callbacks, sizeof(struct callback)));
    make_callbacks(port, n_hosts, (struct slice){body, n_bytes});
    if (is_floor)
        run_floor(port, n_hosts, signer);
    else
        run_caller(&options);

    printf("calls=%llu failed=%llu ", (unsigned long long)n,
           (unsigned long long)bench.n_failed);
    printf("calls_s=%.0f ",
           (double)n * 1e9 / (double)(bench.to.at_ns - bench.from.at_ns));
    usage_print(&bench.from, &bench.to, n);
    printf(" rss_kib=%zu\n", usage_rss_kib(getpid()));
    caller_close(bench.caller);
    if (is_tls)
        unlink(getenv("SSL_CERT_FILE"));
    signer_free(signer);
    free(bench.callbacks);
    free(body);
    return bench.n_failed ? 1 : 0;
}
