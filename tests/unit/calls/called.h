/*
 * called.h - a caller, and trials: calls that a test makes and waits for, at an
 * odd server.
 *
 *     called_open(4, 2, LOOPBACK);
 *     trial_init(&t, "http://127.0.0.1:%u/ok", odd.port);
 *     trial_run(&t);
 *     assert_int_equal(t.call.status, 200);
 *
 * The server is there from called_setup to called_teardown, which closes the
 * caller, too.
 */
#ifndef TESTS_UNIT_CALLS_CALLED_H
#define TESTS_UNIT_CALLS_CALLED_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/calls/caller.h"
#include "tests/support/certificate.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/calls/odd.h"

#define LOOPBACK "127.0.0.0/8,::1"

struct trial {
    struct call call;
    sem_t done;
    char url[4096];
    unsigned place;      /* the how-manieth to be done, from 1; 0: not yet */
    unsigned n_prepared; /* calls of prepare */

    /* Copies: the text in the call is lent. */
    char answer[4096], content_type[200], etag[200], last_modified[200];
    char links[4096], final_url[4096];
};

extern struct called {
    struct caller *caller;
    struct networks allowed;
    unsigned n_done; /* the caller's thread */
} called;

extern struct odd odd;

/* For waits that are no trial: posted on the caller's thread. */
extern sem_t all_done, prepared;

int called_setup(void **state);
int called_setup_open(void **state); /* and a caller */
int called_teardown(void **state);

void called_open_with(struct caller_options *options, const char *allowed);
void called_open(unsigned connections, unsigned host_connections,
                 const char *allowed);
void called_close(void);

/* Time passes meanwhile if the test has said so (clock_run_us). */
void called_wait(sem_t *sem);

/* Runs on the caller's thread, and waits for it. */
void called_do(void (*run)(void *user), void *user);

/* Counts the calls under way and those that wait for their turn. On the
 * caller's thread. */
void called_count(const struct caller *caller, unsigned *under_way,
                  unsigned *waiting);

void assert_counts(unsigned under_way, unsigned waiting);

/* A GET with 10 minutes, 4,000 bytes and no redirects. */
void trial_init(struct trial *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same at one of many hosts, which are all the odd server. */
void trial_init_at(struct trial *t, unsigned host, const char *path);

/* call.prepare: the body comes later, with trial_go; it is not to be made, then
 * not `ready`. */
enum call_turn trial_prepare_later(struct call *call);
void trial_go(struct trial *t, bool ready);

void trial_start(struct trial *t);
void trial_wait(struct trial *t);
bool trial_is_done(struct trial *t);
void trial_run(struct trial *t); /* both */
void trial_cancel(struct trial *t);

/* A whole one at 127.0.0.1. */
void trial_get(struct trial *t, const char *path);

/* Asserts the outcome of a call that is done; `why` is part of its sentence. */
void assert_outcome(const struct trial *t, enum call_failure failure,
                    const char *why);

/* Starts `n` in one go, so that none has its turn before all are there. */
void trials_start(struct trial *all, unsigned n);

/* Waits for them; each has an answer. */
void trials_await(struct trial *all, unsigned n);

/* A server over TLS at 127.0.0.1, which answers all requests with `text`. */
struct called_tls {
    struct slice text;
    struct tempdir dir;
    struct certificate certificate;
    struct server *server;
    unsigned port;
};

/* `text` is set; `wish` may be NULL. */
void called_tls_open(struct called_tls *s, const struct certificate_wish *wish);
void called_tls_close(struct called_tls *s);

#endif
