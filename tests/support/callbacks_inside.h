/*
 * callbacks_inside.h - what callbacks.c (the books) and callbacks_wire.c (the
 * thread and its connections) share, and nobody else.
 */
#ifndef TESTS_SUPPORT_CALLBACKS_INSIDE_H
#define TESTS_SUPPORT_CALLBACKS_INSIDE_H

#include <pthread.h>

#include "tests/support/callbacks.h"
#include "tests/support/transcript.h"

#define CALLBACK_BUCKETS 4096

struct seens {
    struct seen **all;
    size_t n, capacity;
};

struct callback {
    struct callbacks *server;
    struct callback *next_in_bucket;
    char *target;
    char *url;

    /* Under the lock: */
    struct script {
        struct manner manners[CALLBACK_MANNERS_MAX];
        size_t n, at;
        unsigned used; /* how often the one at `at` was */
    } scripts[SEEN_KINDS];

    unsigned n_released;
    struct seens seen[SEEN_KINDS];
    uint64_t *id_sums; /* of the deliveries, to look through them quickly */
    struct callback_journal journal;
};

struct callbacks {
    char host[64];
    unsigned port;
    bool keeps;
    int64_t begin_us;
    int wake; /* an eventfd: look at what was asked for */
    pthread_t thread;

    /* The thread's. */
    int epoll, listener;
    struct line *lines;
    bool is_ticking; /* some line has something to do in a while */

    pthread_mutex_t lock; /* of all that follows, and the callbacks' */
    pthread_cond_t changed;
    bool is_stopping;
    bool is_down, should_be_down;
    unsigned n_connections;
    struct callback **each;
    size_t n_callbacks, capacity;
    struct callback *buckets[CALLBACK_BUCKETS];
    struct seens seen; /* all of them, in order */
    unsigned n_strays;
    struct transcript transcript;
};

/* A request that is being met. */
struct meeting {
    enum seen_kind kind;
    struct callback *callback; /* NULL: a stray */
    struct manner manner;
    char challenge[300]; /* "": none */
    struct seen *seen;   /* from callbacks_record on */
};

/* Ends the process, and says why, if something cannot be that has nothing to do
 * with what is tested. */
void callbacks_must(bool is_good, const char *what);

/* `memory`, which must not be NULL. */
void *callbacks_memory(void *memory);

/* Where the callback of that target is found, if there is one. */
struct callback **callbacks_bucket(struct callbacks *c, struct slice target);

/* All of these lock by themselves. */

/* A request's head has come: whose is it, and what is to be done? */
void callbacks_meet(struct callbacks *c, struct meeting *m, const char *method,
                    const char *target);

/* It has come whole, or is all that will be read of it. */
void callbacks_record(struct callbacks *c, struct meeting *m,
                      unsigned connection, const char *head, const char *method,
                      const char *target, struct slice body, bool is_whole);

/* It is about to be answered with 2xx. */
void callbacks_accept(struct callbacks *c, struct meeting *m);

/* May one that waits go on? */
bool callbacks_may_go(struct callbacks *c, const struct meeting *m);

/* Opens listener, epoll and eventfd, and starts the thread; and the way back,
 * once is_stopping is set. */
void callbacks_wire_open(struct callbacks *c);
void callbacks_wire_close(struct callbacks *c);

/* Makes the thread look. */
void callbacks_wire_wake(struct callbacks *c);

#endif
