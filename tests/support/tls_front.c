#include "tests/support/tls_front.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "tests/test.h"

#define CONNECTIONS_MAX 64

/* KeyUpdates: each is a record. */
#define FLOOD 100000

struct joint {
    struct tls_front *f;
    pthread_t thread;
    int outside, inside; /* closed when the front ends */
};

struct tls_front {
    SSL_CTX *context;
    int listener;
    unsigned port;
    struct sockaddr_in server;
    pthread_t thread;
    atomic_uint n_resumed;
    atomic_bool renegotiates;
    atomic_bool floods, is_flooding;
    struct joint joints[CONNECTIONS_MAX];
    size_t n; /* the accepting thread's, until it has ended */
};

static struct sockaddr_in
address_of(const char *host, unsigned port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port)};

    assert_int_equal(inet_pton(AF_INET, host, &a.sin_addr), 1);
    return a;
}

/* Passes decrypted bytes to the server. */
static bool
pass_in(SSL *tls, int inside)
{
    char bytes[16384];

    do {
        int n = SSL_read(tls, bytes, sizeof(bytes));

        if (n <= 0 || send(inside, bytes, (size_t)n, MSG_NOSIGNAL) != n)
            return false;
    } while (SSL_pending(tls) > 0);
    return true;
}

static bool
pass_out(SSL *tls, int inside)
{
    char bytes[16384];
    ssize_t n = recv(inside, bytes, sizeof(bytes), 0);

    return n > 0 && SSL_write(tls, bytes, (int)n) == n;
}

/* Makes the flood before it sends it: so the client finds more whenever it
 * reads. */
static bool
flood(struct joint *j, SSL *tls)
{
    BIO *memory = BIO_new(BIO_s_mem()), *socket = SSL_get_wbio(tls);
    char *bytes;
    size_t size;

    BIO_up_ref(socket);
    BIO_up_ref(memory);
    SSL_set0_wbio(tls, memory);
    for (size_t i = 0; i < FLOOD; i++)
        if (SSL_key_update(tls, SSL_KEY_UPDATE_NOT_REQUESTED) != 1 ||
            SSL_do_handshake(tls) != 1)
            abort();
    SSL_set0_wbio(tls, socket);
    size = (size_t)BIO_get_mem_data(memory, &bytes);
    j->f->floods = false;
    j->f->is_flooding = true;
    while (size > 0) {
        ssize_t n = send(j->outside, bytes, size, MSG_NOSIGNAL);

        if (n < 0)
            break;
        bytes += n;
        size -= (size_t)n;
    }
    BIO_free(memory);
    return size == 0;
}

static void
pass(struct joint *j, SSL *tls)
{
    bool goes_on = true;

    while (goes_on) {
        struct pollfd both[] = {{.fd = j->outside, .events = POLLIN},
                                {.fd = j->inside, .events = POLLIN}};

        if (poll(both, 2, -1) < 0)
            return;
        if (both[0].revents)
            goes_on = pass_in(tls, j->inside);
        if (both[0].revents && j->f->renegotiates) {
            SSL_renegotiate(tls);
            SSL_do_handshake(tls); /* sends the wish */
        }
        if (goes_on && both[1].revents && j->f->floods)
            goes_on = flood(j, tls);
        if (goes_on && both[1].revents)
            goes_on = pass_out(tls, j->inside);
    }
}

static void *
serve(void *user)
{
    struct joint *j = user;
    SSL *tls = SSL_new(j->f->context);

    if (tls && SSL_set_fd(tls, j->outside) == 1 && SSL_accept(tls) == 1 &&
        !connect(j->inside, (struct sockaddr *)&j->f->server,
                 sizeof(j->f->server))) {
        j->f->n_resumed += SSL_session_reused(tls) == 1;
        pass(j, tls);
    }
    SSL_free(tls);
    shutdown(j->outside, SHUT_RDWR);
    shutdown(j->inside, SHUT_RDWR);
    return NULL;
}

static void *
let_in(void *user)
{
    struct tls_front *f = user;
    int fd;

    while (f->n < CONNECTIONS_MAX &&
           (fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        struct joint *j = &f->joints[f->n];

        *j = (struct joint){f, 0, fd,
                            socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        if (j->inside < 0 || pthread_create(&j->thread, NULL, serve, j))
            abort();
        f->n++;
    }
    return NULL;
}

struct tls_front *
tls_front_new(const struct certificate *c, const char *host, const char *behind,
              unsigned port)
{
    struct tls_front *f = calloc(1, sizeof(*f));
    struct sockaddr_in a = address_of(host, 0);
    socklen_t size = sizeof(a);

    assert_non_null(f);
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without MSG_NOSIGNAL */
    f->server = address_of(behind, port);
    f->context = SSL_CTX_new(TLS_server_method());
    assert_non_null(f->context);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(f->context, c->cert),
                     1);
    assert_int_equal(
        SSL_CTX_use_PrivateKey_file(f->context, c->key, SSL_FILETYPE_PEM), 1);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(f->listener >= 0);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(f->listener, CONNECTIONS_MAX), 0);
    assert_int_equal(getsockname(f->listener, (struct sockaddr *)&a, &size), 0);
    f->port = ntohs(a.sin_port);
    assert_int_equal(pthread_create(&f->thread, NULL, let_in, f), 0);
    return f;
}

void
tls_front_free(struct tls_front *f)
{
    if (!f)
        return;
    shutdown(f->listener, SHUT_RDWR);
    pthread_join(f->thread, NULL);
    close(f->listener);
    for (size_t i = 0; i < f->n; i++) {
        shutdown(f->joints[i].outside, SHUT_RDWR);
        shutdown(f->joints[i].inside, SHUT_RDWR);
        pthread_join(f->joints[i].thread, NULL);
        close(f->joints[i].outside);
        close(f->joints[i].inside);
    }
    SSL_CTX_free(f->context);
    free(f);
}

unsigned
tls_front_port(const struct tls_front *f)
{
    return f->port;
}

unsigned
tls_front_resumed(const struct tls_front *f)
{
    return f->n_resumed;
}

void
tls_front_renegotiate(struct tls_front *f)
{
    SSL_CTX_set_max_proto_version(f->context, TLS1_2_VERSION);
    f->renegotiates = true;
}

void
tls_front_flood(struct tls_front *f)
{
    f->floods = true;
}

bool
tls_front_is_flooding(const struct tls_front *f)
{
    return f->is_flooding;
}
