/*
 * tickets.h - one-time passes for requests of browsers, which cannot set the
 * field Authorization on an EventSource or a WebSocket.
 *
 * Whoever has a right gets a ticket (POST /tickets) and puts it into the query
 * of one request: ?ticket=... It holds for TICKET_US and for one use, because
 * queries end up in logs and histories. A ticket acts for the principal that
 * got it, and ends with that principal. Tickets are only in memory, as digests;
 * a restart ends them.
 *
 * Any thread.
 */
#ifndef BROKER_ACCESS_TICKETS_H
#define BROKER_ACCESS_TICKETS_H

#include "broker/access/principal.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

#define TICKET_US 60000000

/* The most tickets of one principal, and of all, that wait for their use. */
#define TICKETS_EACH 1000
#define TICKETS_ALL  10000

/* 256 random bits in hexadecimal, and a NUL. */
#define TICKET_TEXT_SIZE 65

struct tickets;

struct tickets *tickets_new(void);          /* NULL: no memory */
void tickets_free(struct tickets *tickets); /* NULL is allowed */

/* Makes a ticket of `principal`. STATUS_LIMITED, STATUS_BUSY: too many wait. */
MUST_CHECK enum status tickets_add(struct tickets *tickets,
                                   struct principal *principal,
                                   char text[TICKET_TEXT_SIZE],
                                   struct problem *why);

/* Uses a ticket up: returns a reference to its principal, which may be over.
 * NULL: there is no such ticket, or it is used or too old. */
struct principal *tickets_take(struct tickets *tickets, struct slice text);

#endif
