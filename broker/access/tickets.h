/*
 * tickets.h - random texts that stand for a principal, because a browser cannot
 * always set the field Authorization.
 *
 *     ticket    in the query of one EventSource or WebSocket: ?ticket=...
 *               POST /tickets gives it, for a minute and for one use, because
 *               queries end up in logs and histories; in a cluster
 *               request_tickets.h
 *     session   in the cookie of the console: POST /session gives it, for
 *               SESSION_US
 *
 * Both act for the principal that got them, and end with it. They are only in
 * memory, as digests; a restart ends them. What is under way by a session ends
 * with the session.
 *
 * Any thread.
 */
#pragma once

#include "broker/access/principal.h"
#include "broker/base/client_limits.h"

#define TICKET_US  60000000
#define SESSION_US (12 * 3600 * INT64_C(1000000))

/* The most tickets of one client (client_limits.h), and of all, that wait for
 * their use. A client is the owner of all tokens with a name, or of one
 * subject: more tokens are not more room. */
#define TICKETS_EACH 1000
#define TICKETS_ALL  10000

/* The most sessions. A browser has one; a client's next one replaces its
 * oldest. */
#define SESSIONS_EACH 100
#define SESSIONS_ALL  10000

/* Tickets of a cluster that were used (request_tickets.h) are remembered so
 * long, and so many. */
#define TICKETS_USED_US  (2 * (int64_t)TICKET_US)
#define TICKETS_USED_ALL 100000

/* 256 random bits in hexadecimal, and a NUL. */
#define TICKET_TEXT_SIZE 65

/* The bounds of one table. */
struct ticket_kind {
    enum client_kind kind;
    const char *plural;
    int64_t lasts_us;
    unsigned each, all;
    bool is_session; /* its client's oldest one gives way, instead of a refusal;
                        it has an authority of its own */
};

extern const struct ticket_kind tickets_of_requests, tickets_of_sessions,
    tickets_that_were_used;

struct tickets;

/* `clients` are lent, and get the limits of the kind. */
struct tickets *tickets_new(const struct ticket_kind *kind,
                            struct clients *clients);
void tickets_free(struct tickets *tickets); /* NULL is allowed */

/* Makes a ticket of `principal`, which counts for `client`. STATUS_LIMITED,
 * STATUS_BUSY: there are too many. */
MUST_CHECK enum status tickets_add(struct tickets *tickets,
                                   struct principal *principal,
                                   struct client *client,
                                   char text[TICKET_TEXT_SIZE],
                                   struct problem *why);

/* Adds the text of a ticket of `principal`. STATUS_CONFLICT: it is there;
 * STATUS_LIMITED, STATUS_BUSY: as above. */
MUST_CHECK enum status tickets_note(struct tickets *tickets,
                                    struct principal *principal,
                                    struct client *client, struct slice text,
                                    struct problem *why);

/* Makes the session with that text one of `principal`, for as long as a new
 * one. What is under way by it ends. STATUS_GONE: there is none, or it is not
 * of `client`. */
MUST_CHECK enum status tickets_renew(struct tickets *tickets, struct slice text,
                                     struct principal *principal,
                                     const struct client *client,
                                     struct problem *why);

/* Returns a reference to the principal of a ticket or a session, which may be
 * over, and one to the session's authority, unless `authority` is NULL. NULL:
 * there is none, or it is too old. `uses_up`: from now on there is none. */
struct principal *tickets_find(struct tickets *tickets, struct slice text,
                               bool uses_up, struct authority **authority);
