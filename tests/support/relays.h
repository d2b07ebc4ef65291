/*
 * relays.h - brokers in a ring, each with the set LISTS_SET, and from each to
 * the next a relay (tidings relay), which a test starts, kills, or runs once.
 *
 * As fixtures, by RELAYS(name): relays_setup, relays_teardown. No relay runs
 * yet, and no set is there.
 */
#ifndef TESTS_SUPPORT_RELAYS_H
#define TESTS_SUPPORT_RELAYS_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/slice.h"
#include "tests/support/command.h"
#include "tests/support/lists.h"

#define N_RELAYS 3

/* A relay from one broker to the next, as long as it lives. */
struct relay {
    char from[200], to[200];
    char state[400];
    char log[300];
    pid_t pid; /* 0: it does not run */
    int out;
};

struct relays {
    struct lists brokers[N_RELAYS];
    struct relay relays[N_RELAYS]; /* [i]: out of brokers[i] */
};

int relays_setup(void **state);
int relays_teardown(void **state);

/* Starts it, for as long as it is not killed (SIGKILL); what does not run is
 * not killed. */
void relays_start(struct relay *r);
void relays_kill(struct relay *r);

/* Runs it until it has caught up; returns its exit status, and `c` has what it
 * said. */
int relays_run(struct relay *r, struct command *c);

/* The number of the set's last entry; 0: there is none. */
uint64_t relays_last(struct lists *l);

/* Waits until the set has `last` entries, and not one more. */
void relays_await(struct lists *l, uint64_t last);

/* The set has all of `n` entries as source_post makes them, in order, once. */
void relays_assert_all(struct lists *l, uint64_t n);

/* The set's changes, "after=0", as JSON; terminated. Lent until the broker is
 * asked for something else. */
struct slice relays_changes(struct lists *l, const char *query);

#endif
