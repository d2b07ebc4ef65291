/*
 * turner.h - turns the loop of a handle of libtidings on a thread of its own,
 * so that a test can hold a conversation with it, as a server does, or a hub.
 *
 *     struct turner *t = turner_begin(client);
 *
 *     turner_hold(t);
 *     ... calls with the client, and looks at what its callbacks left ...
 *     turner_let(t);
 *     turner_end(t);
 *
 * A handle belongs to one thread at a time: callbacks run while nobody holds
 * it.
 */
#ifndef TESTS_SUPPORT_TURNER_H
#define TESTS_SUPPORT_TURNER_H

#include <stdint.h>

#include "client/tidings.h"

struct turner;

struct turner *turner_begin(struct td_client *client);
void turner_hold(struct turner *turner);
void turner_let(struct turner *turner);

/* Holds, reads and lets go. */
int turner_read(struct turner *turner, const int *value);

/* Waits until a callback has made `*value` at least `n`. */
void turner_await(struct turner *turner, const int *value, int n);

/* Moves the clock (tests/clock.h) between two turns of the loop: timers that
 * were started before count that time. Runs all timers that are due before it
 * returns. */
void turner_pass_us(struct turner *turner, int64_t us);

/* The handle is the caller's again. NULL is allowed. */
void turner_end(struct turner *turner);

#endif
