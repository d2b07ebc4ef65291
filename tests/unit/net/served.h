/*
 * served.h - a server with small handlers (served_handlers.h), for the tests of
 * this folder: its life, who connects to it, in the open and over TLS, and what
 * is asserted of it again and again.
 */
#ifndef TESTS_UNIT_NET_SERVED_H
#define TESTS_UNIT_NET_SERVED_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/base/clock.h"
#include "broker/base/diag.h"
#include "broker/net/request.h"
#include "broker/net/response.h"
#include "broker/net/server.h"
#include "broker/net/stream.h"
#include "proto/buf.h"
#include "tests/support/certificate.h"
#include "tests/support/patience.h"
#include "tests/support/tempdir.h"
#include "tests/support/wire.h"
#include "tests/test.h"
#include "tests/unit/net/served_handlers.h"

/* Do the tests speak TLS? */
static bool served_is_tls;
static struct tempdir served_dir;
static struct certificate served_certificate;

/* Waits until `*count` is `wanted`; false: not within PATIENCE_MS. */
static inline bool
served_wait(atomic_uint *count, unsigned wanted)
{
    int64_t end_us = clock_steady_us() + PATIENCE_MS * INT64_C(1000);

    while (atomic_load(count) != wanted) {
        if (clock_steady_us() > end_us)
            return false;
        poll(NULL, 0, 1);
    }
    return true;
}

/* Life */

static inline void
served_open_with(unsigned threads, int64_t request_timeout_us)
{
    struct problem why = {"", 0, 0};

    memset(&served, 0, sizeof(served));
    served.queue_end = &served.queue;
    pthread_mutex_init(&served.mutex, NULL);
    pthread_cond_init(&served.changed, NULL);
    served.options = (struct server_options){
        .host = "127.0.0.1",
        .threads = threads,
        .request_timeout_us = request_timeout_us,
        .on_request = served_on_request,
        .on_wake = served_on_wake,
        .on_tick = served_on_tick,
    };
    if (served_is_tls) {
        served.options.tls_cert = served_certificate.cert;
        served.options.tls_key = served_certificate.key;
    }
    pthread_create(&served.other, NULL, served_other, NULL);
    assert_int_equal(server_open(&served.server, &served.options, &why), 0);
    served.port = server_port(served.server);
}

static inline int
served_open(void **state)
{
    (void)state;
    served_open_with(2, 10000000);
    return 0;
}

/* Whatever a test did, nothing may be left. */
static inline int
served_close(void **state)
{
    (void)state;
    served_pause(false);
    server_close(served.server, 5000000);
    pthread_mutex_lock(&served.mutex);
    served.is_ending = true;
    pthread_cond_signal(&served.changed);
    pthread_mutex_unlock(&served.mutex);
    pthread_join(served.other, NULL);
    pthread_mutex_destroy(&served.mutex);
    pthread_cond_destroy(&served.changed);
    assert_int_equal(atomic_load(&served.n_open), 0);
    assert_int_equal(atomic_load(&served.n_bodies), 0);
    return 0;
}

/* Runs `run` on the first service thread, and waits for it. */
struct served_errand {
    struct task task;
    void (*run)(void);
    atomic_uint is_done;
};

static inline void
served_run_errand(struct task *task)
{
    struct served_errand *errand = list_entry(task, struct served_errand, task);

    errand->run();
    atomic_store(&errand->is_done, 1);
}

static inline void
served_on_service(void (*run)(void))
{
    struct served_errand errand = {.task = {.run = served_run_errand},
                                   .run = run};

    service_post(server_service(served.server, 0), &errand.task);
    assert_true(served_wait(&errand.is_done, 1));
}

/* The handshake, if there is to be one. */
static inline bool
served_greet(struct wire *w)
{
    return !served_is_tls || wire_start_tls(w, 0);
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
    return served_greeted(wire_connect("127.0.0.1", served.port));
}

static inline struct wire *
served_connect_narrow(void)
{
    return served_greeted(wire_connect_narrow("127.0.0.1", served.port));
}

/* Runs the tests of a file twice: in the open, and over TLS. */
#define SERVED_GROUPS                \
    TEST_GROUP("plain", NULL, NULL); \
    TEST_GROUP("over TLS", served_set_up_tls, served_tear_down_tls)

static inline int
served_set_up_tls(void **state)
{
    (void)state;
    tempdir_open(&served_dir);
    certificate_make(&served_certificate, served_dir.path, NULL);
    served_is_tls = true;
    return 0;
}

static inline int
served_tear_down_tls(void **state)
{
    (void)state;
    served_is_tls = false;
    tempdir_close(&served_dir);
    return 0;
}

/* Does the server still answer, on every thread? */
static inline void
served_assert_alive(void)
{
    struct wire_answer a;

    for (int i = 0; i < 8; i++) {
        struct wire *w = served_connect();

        assert_true(wire_request(w, "GET", "/small", NULL, NULL, &a));
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hello");
        wire_close(w);
    }
}

/* What the process has worked, in milliseconds. */
static inline long
served_worked_ms(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1000 +
           (r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1000;
}

/* Is there, soon, half a second in which hardly anything is done? */
static inline bool
served_comes_to_rest(void)
{
    for (int i = 0; i < 20; i++) {
        long before = served_worked_ms();

        poll(NULL, 0, 500);
        if (served_worked_ms() - before < 100)
            return true;
    }
    return false;
}

/* Sends `text` on a new connection. */
static inline struct wire *
served_sent(const char *text)
{
    struct wire *w = served_connect();

    assert_true(wire_send_text(w, text));
    return w;
}

static inline void
served_assert_answer(struct wire *w, unsigned status)
{
    struct wire_answer a;

    assert_true(wire_answer(w, &a, false));
    assert_int_equal(a.status, status);
}

/* `text` is answered with `status`, and the connection closed; the server goes
 * on with others. */
static inline void
served_assert_refused(const char *text, unsigned status)
{
    struct wire *w = served_sent(text);
    struct wire_answer a;
    char value[64];

    if (!wire_answer(w, &a, false))
        fail_msg("no answer to %s", text);
    if (a.status != status)
        fail_msg("%u is the answer to %s", a.status, text);
    assert_true(wire_header(&a, "Connection", value, sizeof(value)));
    assert_string_equal(value, "close");
    assert_true(wire_is_ended(w));
    wire_close(w);
    served_assert_alive();
}

#endif
