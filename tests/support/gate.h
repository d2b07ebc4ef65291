/*
 * gate.h - what stands between a client and a broker, and does not let all of
 * HTTP through: a proxy of a test.
 *
 *     struct gate *g = gate_new();
 *
 *     broker_open(&b, "--public-url", gate_url(g), NULL);
 *     gate_open(g, b.port, GATE_NO_UPGRADE | GATE_NO_EVENTS);
 *     ...
 *     gate_free(g);
 *
 * A thread for each connection; each has but one request: the broker is asked
 * to close it.
 */
#ifndef TESTS_SUPPORT_GATE_H
#define TESTS_SUPPORT_GATE_H

struct gate;

enum {
    GATE_NO_UPGRADE = 1, /* answers an upgrade with a page of its own */
    GATE_NO_EVENTS = 2   /* hangs up on an event stream, behind its head */
};

struct gate *gate_new(void);
void gate_free(struct gate *g);

/* "http://127.0.0.1:40123"; lent. */
const char *gate_url(const struct gate *g);

/* From now on it accepts, for the port of 127.0.0.1. */
void gate_open(struct gate *g, unsigned port, unsigned how);

/* How many requests were of that sort. */
unsigned gate_n(struct gate *g, unsigned what);

#endif
