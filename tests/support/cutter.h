/*
 * cutter.h - a bad network, for tests: a TCP proxy before a port that passes
 * bytes until it is told not to.
 *
 *     struct cutter *c = cutter_new(broker_port);
 *
 *     ... http://127.0.0.1:cutter_port(c)/ ...
 *     cutter_after(c, CUTTER_DOWN, 1000, CUTTER_RESET);
 *     cutter_await_ended(c, 1);
 *     cutter_end_all(c, CUTTER_CLOSE);
 *     cutter_free(c);
 *
 * Or by a plan, which treats each connection as a die says that the seed
 * decides:
 *
 *     cutter_plan(c, &(struct cutter_plan){.seed = 7, .bytes_max = 100000,
 *                     .closes = 30, .resets = 30, .stalls = 10, .holds = 20});
 *
 * One thread (poll), on 127.0.0.1. Up is to the server, down to the client.
 * All functions are the test's thread's; waiting ends with a failure, after
 * PATIENCE_MS.
 */
#ifndef TESTS_SUPPORT_CUTTER_H
#define TESTS_SUPPORT_CUTTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cutter;

enum cutter_way { CUTTER_DOWN, CUTTER_UP };

enum cutter_end {
    CUTTER_CLOSE, /* politely, to both sides */
    CUTTER_RESET, /* both sides see a reset */
    CUTTER_STALL  /* stays open, passes nothing more in either direction */
};

/* Before the port of 127.0.0.1; 0: cutter_point says it later. */
struct cutter *cutter_new(unsigned port);
void cutter_free(struct cutter *c); /* NULL is allowed */

unsigned cutter_port(const struct cutter *c);

/* "http://127.0.0.1:40123"; lent. */
const char *cutter_url(const struct cutter *c);

/* New connections go to that port from now on. */
void cutter_point(struct cutter *c, unsigned port);

/* Now */

/* Ends all connections there are; the held ones too. CUTTER_STALL: until
 * cutter_go. When it returns it is so. */
void cutter_end_all(struct cutter *c, enum cutter_end end);

/* Nothing passes in that direction any more, on no connection, until
 * cutter_go, which ends all stalls. */
void cutter_stall(struct cutter *c, enum cutter_way way);
void cutter_go(struct cutter *c);

/* Bytes are passed on that much later; 0: at once. */
void cutter_delay(struct cutter *c, unsigned delay_ms);

/* Refuses new connections, and lets them in again. What is there stays. */
void cutter_refuse(struct cutter *c, bool does);

/* Soon */

/* Counts the bytes from now on that pass that way, on all connections; after
 * exactly so many the connection that has passed the last of them ends, in the
 * middle of whatever it is. Once. */
void cutter_after(struct cutter *c, enum cutter_way way, uint64_t bytes,
                  enum cutter_end end);

/* The order of connections: new ones are taken, but reach the server only when
 * they are let through, in the order of the test's choice (`i`: of those that
 * are held, the first is 0). cutter_let_all: first come, first served, and new
 * ones are no longer held. */
void cutter_hold(struct cutter *c);
void cutter_await_held(struct cutter *c, unsigned n);
void cutter_let(struct cutter *c, unsigned i);
void cutter_let_all(struct cutter *c);

/* Always */

/* What happens to each new connection, in percent; the rest is spared. */
struct cutter_plan {
    uint64_t seed;
    uint64_t bytes_max; /* down, before it ends; small numbers are likelier */
    unsigned closes, resets, stalls;
    unsigned holds;    /* in percent, too, and before all else: is let through
                        * only after the next connection, or after hold_ms */
    unsigned stall_ms; /* then it is reset, if nobody has given it up; 0:
                        * never */
    unsigned hold_ms;  /* 0: 100 */
};

/* NULL: new connections are spared again. */
void cutter_plan(struct cutter *c, const struct cutter_plan *plan);

/* Counts */

struct cutter_counts {
    unsigned n_connections; /* that were taken */
    unsigned n_open, n_held;
    unsigned n_closes, n_resets, n_stalls; /* that the cutter made */
    uint64_t passed[2];                    /* bytes, by enum cutter_way */
};

struct cutter_counts cutter_counts(struct cutter *c);

void cutter_await_connections(struct cutter *c, unsigned n);

/* Until the cutter has made `n` ends (closes, resets, stalls). */
void cutter_await_ended(struct cutter *c, unsigned n);

void cutter_await_passed(struct cutter *c, enum cutter_way way, uint64_t bytes);

#endif
