/*
 * served.h - a server with small handlers (served_handlers.h), for the tests of
 * this folder: its life, connections to it, plain and over TLS, and common
 * assertions.
 */
#ifndef TESTS_UNIT_NET_SERVED_H
#define TESTS_UNIT_NET_SERVED_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/base/diag.h"
#include "broker/net/request.h"
#include "broker/net/response.h"
#include "broker/net/server.h"
#include "broker/net/stream.h"
#include "proto/buf.h"
#include "tests/clock.h"
#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"
#include "tests/unit/net/served_handlers.h"

/* How the tests reach the server. */
static enum { SERVED_PLAIN, SERVED_TLS, SERVED_UNIX } served_way;
static struct tempdir served_dir; /* of the certificate, or of the socket */
static struct certificate served_certificate;
static char served_socket[300];

#define SECOND INT64_C(1000000)

/* Requests */

#define HEAD_END  "Host: a\r\n\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HEAD_END

/* Up to its body of `size` bytes, a string. */
#define POST(path, size) \
    "POST " path " HTTP/1.1\r\nContent-Length: " size "\r\n" HEAD_END

/* While a test waits, so much time passes if nothing else happens: enough for
 * the server to look again and again whether a client reads on. */
#define RUNNING_US 100000

/* Waits until `*count` is `wanted`. */
static inline void
served_await(atomic_uint *count, unsigned wanted)
{
    for (unsigned n = 0; atomic_load(count) != wanted; n++) {
        clock_run_on(n == 0);
        test_yield(n);
    }
}

/* Life */

static const struct unix_socket served_unix = {LISTENER_UNIX, served_socket,
                                               0600};

static inline void
served_open_with(unsigned threads, int64_t request_timeout_us)
{
    struct problem why = {"", 0, 0};

    memset(&served, 0, sizeof(served));
    served.queue_end = &served.queue;
    served.file = -1;
    pthread_mutex_init(&served.mutex, NULL);
    pthread_cond_init(&served.changed, NULL);
    served.options = (struct server_options){
        .host = "127.0.0.1",
        .threads = threads,
        .request_timeout_us = request_timeout_us,
        .min_rate = 1024,
        .on_request = served_on_request,
        .on_wake = served_on_wake,
        .on_tick = served_on_tick,
    };
    if (served_way == SERVED_TLS) {
        served.options.tls_cert = served_certificate.cert;
        served.options.tls_key = served_certificate.key;
    }
    if (served_way == SERVED_UNIX) {
        served.options.unix_sockets = &served_unix;
        served.options.n_unix_sockets = 1;
    }
    pthread_create(&served.other, NULL, served_other, NULL);
    assert_int_equal(server_open(&served.server, &served.options, &why), 0);
    served.port = server_port(served.server);
    clock_run_us(threads, RUNNING_US);
}

static inline int
served_open(void **state)
{
    (void)state;
    served_open_with(2, 10000000);
    return 0;
}

/* Opens another server, with the present `served.options`. */
static inline void
served_reopen(void)
{
    server_close(served.server, 0);
    assert_int_equal(server_open(&served.server, &served.options, NULL), 0);
    served.port = server_port(served.server);
}

/* After any test nothing may be left. */
static inline int
served_close(void **state)
{
    (void)state;
    /* The other thread may still have requests whose clients have gone. */
    pthread_mutex_lock(&served.mutex);
    served.is_closed = true;
    pthread_mutex_unlock(&served.mutex);
    served_pause(false);
    server_close(served.server, 0);
    clock_run_us(0, 0);
    pthread_mutex_lock(&served.mutex);
    served.is_ending = true;
    pthread_cond_signal(&served.changed);
    pthread_mutex_unlock(&served.mutex);
    pthread_join(served.other, NULL);
    pthread_mutex_destroy(&served.mutex);
    pthread_cond_destroy(&served.changed);
    if (served.file >= 0)
        close(served.file);
    assert_int_equal(atomic_load(&served.n_open), 0);
    assert_int_equal(atomic_load(&served.n_bodies), 0);
    return 0;
}

/* Runs `run` on a service thread, and waits for it. */
struct served_errand {
    struct task task;
    void (*run)(void);
    sem_t is_done;
};

static inline void
served_run_errand(struct task *task)
{
    struct served_errand *errand = list_entry(task, struct served_errand, task);

    if (errand->run)
        errand->run();
    sem_post(&errand->is_done);
}

static inline void
served_on(unsigned service, void (*run)(void))
{
    struct served_errand errand = {.task = {.run = served_run_errand},
                                   .run = run};

    sem_init(&errand.is_done, 0, 0);
    service_post(server_service(served.server, service), &errand.task);
    sem_wait(&errand.is_done);
    sem_destroy(&errand.is_done);
}

static inline void
served_on_service(void (*run)(void))
{
    served_on(0, run);
}

/* Lets each service thread handle everything that arrived before: it accepts
 * connections and reads their first bytes. The system may report an errand
 * before other events of the same turn, so each step takes one more turn. */
static inline void
served_turn(void)
{
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < served.options.threads; i++)
            served_on(i, NULL);
}

/* Lets `n` seconds pass; every service thread does what it does each second. */
static inline void
served_pass_seconds(unsigned n)
{
    unsigned threads = served.options.threads;

    for (; n; n--) {
        unsigned n_seconds = atomic_load(&served.n_seconds);

        clock_pass_us(SECOND);
        served_turn(); /* each thread looks at the clock again */
        AWAIT(atomic_load(&served.n_seconds) >= n_seconds + threads);
    }
}

/* The same until `*count` is `wanted`: for what the server looks for once a
 * second. Returns how many. */
static inline unsigned
served_pass_until(atomic_uint *count, unsigned wanted)
{
    unsigned n = 0;

    for (; atomic_load(count) != wanted; n++)
        served_pass_seconds(1);
    return n;
}

/* A connection, before any handshake. NULL: refused. */
static inline struct wire *
served_dial(void)
{
    return served_way == SERVED_UNIX ? wire_connect_unix(served_socket)
                                     : wire_connect("127.0.0.1", served.port);
}

/* The handshake, if the stream begins with one. */
static inline bool
served_greet(struct wire *w)
{
    return served_way != SERVED_TLS || wire_start_tls(w, 0);
}

static inline struct wire *
served_greeted(struct wire *w)
{
    assert_non_null(w);
    assert_true(served_greet(w));
    return w;
}

static inline struct wire *
served_connect(void)
{
    return served_greeted(served_dial());
}

static inline struct wire *
served_connect_narrow(void)
{
    return served_way == SERVED_UNIX
               ? served_connect() /* the kernel takes 208 KB at most */
               : served_greeted(wire_connect_narrow("127.0.0.1", served.port));
}

/* Runs the tests of a file three times: in the open, over TLS, and by a unix
 * socket. */
#define SERVED_GROUPS                                            \
    TEST_GROUP("plain", NULL, NULL);                             \
    TEST_GROUP("over TLS", served_set_up_tls, served_tear_down); \
    TEST_GROUP("by unix socket", served_set_up_unix, served_tear_down)

static inline int
served_set_up_tls(void **state)
{
    (void)state;
    tempdir_open(&served_dir);
    certificate_make(&served_certificate, served_dir.path, NULL);
    served_way = SERVED_TLS;
    return 0;
}

static inline int
served_set_up_unix(void **state)
{
    (void)state;
    tempdir_open(&served_dir);
    snprintf(served_socket, sizeof(served_socket), "%s/socket",
             served_dir.path);
    served_way = SERVED_UNIX;
    return 0;
}

static inline int
served_tear_down(void **state)
{
    (void)state;
    served_way = SERVED_PLAIN;
    tempdir_close(&served_dir);
    return 0;
}

/* Waits until every service thread sleeps: one that spins never does. */
static inline void
served_assert_rest(void)
{
    served_turn();
    clock_await_waits_us(served.options.threads, SECOND);
}

/* Sends `text` on a new connection. */
static inline struct wire *
served_sent(const char *text)
{
    struct wire *w = served_connect();

    assert_true(wire_send_text(w, text));
    return w;
}

/* An answer with that status; and that body, unless NULL. */
static inline void
served_assert_answer(struct wire *w, unsigned status, const char *body)
{
    struct wire_answer a;

    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, status);
    if (body)
        assert_string_equal(a.body, body);
}

/* `value` NULL: the answer has no such header. */
static inline void
served_assert_header(const struct wire_answer *a, const char *name,
                     const char *value)
{
    char is[200];

    if (wire_header(a, name, is, sizeof(is)) != (value != NULL) ||
        (value && strcmp(is, value) != 0))
        fail_msg("%s is not %s in\n%s", name, value ? value : "absent",
                 a->head);
}

/* The body is the first `size` bytes of the pattern. */
static inline void
served_assert_pattern(const struct wire_answer *a, size_t size)
{
    assert_int_equal(a->status, 200);
    assert_int_equal(a->body_size, size);
    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < sizeof(served_pattern) ? size - at
                                               : sizeof(served_pattern);
        assert_memory_equal(a->body + at, served_pattern, n);
    }
}

/* The peer ends the connection. */
static inline void
served_assert_ended(struct wire *w)
{
    assert_true(wire_is_ended(w));
    wire_close(w);
}

/* Asks for /small on a connection that is kept. */
static inline void
served_assert_kept(struct wire *w)
{
    struct wire_answer a;

    assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
    assert_int_equal(a.status, 200);
    assert_string_equal(a.body, "hello");
}

/* Does the server still answer, on every thread? */
static inline void
served_assert_alive(void)
{
    for (int i = 0; i < 8; i++) {
        struct wire *w = served_connect();

        served_assert_kept(w);
        wire_close(w);
    }
}

/* A request that is answered with `status`. */
struct served_refusal {
    const char *text;
    unsigned status;
};

/* The connection is closed behind each answer; the server goes on with others.
 */
static inline void
served_assert_refused(const struct served_refusal *rows, size_t n)
{
    struct wire_answer a;

    for (size_t i = 0; i < n; i++) {
        struct wire *w = served_sent(rows[i].text);

        if (!wire_answer(w, &a, false))
            fail_msg("no answer to %s", rows[i].text);
        if (a.status != rows[i].status)
            fail_msg("%u is the answer to %s", a.status, rows[i].text);
        served_assert_header(&a, "Connection", "close");
        if (!wire_is_ended(w))
            fail_msg("no end of %s", rows[i].text);
        wire_close(w);
    }
    served_assert_alive();
}

#define ASSERT_REFUSED(rows) \
    served_assert_refused(rows, sizeof(rows) / sizeof((rows)[0]))

#endif
