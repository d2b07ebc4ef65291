/*
 * callbacks.h - subscribers of a hub, for tests: callbacks that do as they are
 * told, also what no subscriber should do.
 *
 *     struct callbacks *c = callbacks_new("127.0.0.2", true);
 *     struct callback *cb = callbacks_add(c, "/cb/1?a=b");
 *
 *     CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 500, .times = 2},
 *                   {.kind = MANNER_HANG, .times = 1}, {.status = 204});
 *     ... subscribes callback_url(cb), posts ...
 *     seen_assert_parameter(callback_await(cb, SEEN_VERIFICATION, 1),
 *                           "hub.mode", "subscribe");
 *     callback_await_last(cb, 10);
 *     callbacks_free(c);
 *
 * One server is one address and port, with a thread of its own (epoll): raw
 * sockets and a reader of HTTP of its own, so that no fault of a library hides
 * on both sides. Unless told otherwise a callback confirms each verification
 * and answers deliveries with 200.
 *
 * Every request is kept. What came to no callback, byte for byte, is a stray
 * and answered with 404. Deliveries of change notifications make a journal: by
 * their order, coverage and ids. A delivery counts when it is answered with
 * 2xx, and once for each id.
 *
 * All functions are the test's thread's. Waiting ends with a failure that
 * prints what was seen, after PATIENCE_MS.
 */
#ifndef TESTS_SUPPORT_CALLBACKS_H
#define TESTS_SUPPORT_CALLBACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/slice.h"
#include "tests/support/seen.h"
#include "tests/support/trace.h"

struct callbacks;
struct callback;

/* The steady clock, which seen.at_us is of. */
int64_t callbacks_now_us(void);

/* Servers */

/* Listens on a port of its own at `host`, a loopback address of IPv4 or IPv6.
 * `keeps`: heads and bodies of all requests are kept; else, for very many
 * deliveries, each entry once for all callbacks of the server (transcript.h),
 * with which all deliveries are compared as they come. */
struct callbacks *callbacks_new(const char *host, bool keeps);

/* NULL is allowed. */
void callbacks_free(struct callbacks *c);

/* Refuses connections from now on, and resets those that are there; and lets
 * them in again, on the same port. */
void callbacks_go_down(struct callbacks *c);
void callbacks_come_up(struct callbacks *c);

/* Waits until every callback of the server has accepted the entries up to
 * `last`. */
void callbacks_await_last(struct callbacks *c, uint64_t last);

/* Fails the test if a callback's journal has a fault, or there were strays. */
void callbacks_assert_faultless(struct callbacks *c);

/* How many requests and connections there were, strays included. */
unsigned callbacks_requests(struct callbacks *c);
unsigned callbacks_connections(struct callbacks *c);

/* The i-th request of the server, from 0. Fails the test if there is none. */
const struct seen *callbacks_seen(struct callbacks *c, size_t i);

/* The entries of all deliveries, as they stand in messages; where bodies are
 * not kept. Lent; only while nothing is delivered. */
struct slice callbacks_entries(struct callbacks *c);

/* Callbacks */

/* `target` is "/cb/NAME?any=query"; with another query it is another one. */
struct callback *callbacks_add(struct callbacks *c, const char *target);

/* "http://127.0.0.2:40123/cb/NAME?any=query"; lent. */
const char *callback_url(const struct callback *cb);

enum manner_kind {
    MANNER_ANSWER,
    MANNER_HANG,        /* takes the request, and says nothing */
    MANNER_TRICKLE,     /* answers a byte at a time */
    MANNER_SLOW_READ,   /* takes the body a few bytes at a time, then answers */
    MANNER_RESET_EARLY, /* resets before it has read the body */
    MANNER_RESET,       /* takes the request, and resets */
    MANNER_RESET_MIDDLE, /* resets in the middle of its answer's head */
    MANNER_CLOSE,        /* takes the request, and closes */
    MANNER_GARBAGE,      /* answers, but not in HTTP */
    MANNER_ENDLESS_BODY,
    MANNER_ENDLESS_HEAD
};

/* How a callback treats a request. All text is lent. */
struct manner {
    enum manner_kind kind;
    unsigned status;     /* 0: 200 */
    const char *headers; /* more lines, each with its CRLF; NULL: none */
    const char *body;    /* NULL: the challenge, where one is asked for */
    const char *behind;  /* what follows that challenge; NULL: nothing */
    bool waits;          /* nothing is said before callback_release */
    unsigned pause_ms;   /* between bytes; 0: 20 */
    unsigned times;      /* so many requests, then the next; 0: all */
};

#define CALLBACK_MANNERS_MAX 8

/* From now on it treats requests of that kind so, one manner after the other;
 * after the last one as at the beginning. */
#define CALLBACK_DOES(cb, kind, ...)                                  \
    callback_does((cb), (kind), (const struct manner[]){__VA_ARGS__}, \
                  sizeof((const struct manner[]){__VA_ARGS__}) /      \
                      sizeof(struct manner))

void callback_does(struct callback *cb, enum seen_kind kind,
                   const struct manner *manners, size_t n);

/* Lets one request go on that waits, or that will. */
void callback_release(struct callback *cb);

/* Waits until it has got `n` requests of that kind in all; the n-th of them. */
const struct seen *callback_await(struct callback *cb, enum seen_kind kind,
                                  size_t n);

/* How many there were so far; the i-th of them, from 0, which there must be. */
size_t callback_count(struct callback *cb, enum seen_kind kind);
const struct seen *callback_seen(struct callback *cb, enum seen_kind kind,
                                 size_t i);

/* The journal */

struct callback_journal {
    size_t n;          /* deliveries that were accepted, repeats left out */
    size_t n_repeats;  /* that had been accepted before, by their ids */
    size_t n_holes;    /* that begin later than the one before ended */
    bool has_coverage; /* one of them told what follows */
    uint64_t first_after, last;
    char fault[600]; /* the first thing that was wrong; "": nothing */
};

/* Faults are: a delivery without an id, one that goes back, and one that
 * differs from an earlier one of its id. */
struct callback_journal callback_journal(struct callback *cb);

/* Waits until the entries up to `last` are accepted. */
void callback_await_last(struct callback *cb, uint64_t last);

/* Waits until `n` deliveries are accepted, repeats left out. */
void callback_await_accepted(struct callback *cb, size_t n);

/* Was it answered with 2xx? */
bool callback_accepted(struct callback *cb, const struct seen *s);

/* All accepted deliveries, repeats left out, as one history, every byte of
 * which is checked; the trace is begun here, and the caller's to end. Fails the
 * test where a rule is broken, a hole included. Where bodies are kept. */
void callback_trace(struct callback *cb, struct trace *t);

#endif
