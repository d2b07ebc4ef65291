/*
 * requests.h - the tables of requests, for the files that implement verify.h:
 *
 *   requests.c   the tables          verify.c   calling, judging, ending
 *   verify_take.c  from an order     verify_deny.c  denials
 */
#ifndef BROKER_HUB_REQUESTS_H
#define BROKER_HUB_REQUESTS_H

#include "broker/hub/verify.h"

/* The most tries of a request, and of a denial. */
#define REQUEST_TRIES 3

/* Two encoded URLs and some parameters. */
#define REQUEST_URL_MAX (8 * WEBSUB_URL_MAX)

#define REQUEST_HOST_MAX (WEBSUB_URL_MAX + 64)

struct requests {
    struct list all;   /* request->node, in order of ids */
    struct list fresh; /* request->turn: taken in this turn */
    struct list due;   /* request->turn: to be called at its end */
    size_t n;
    struct id_table by_id;
    struct callback_table pairs;
    struct tallies hosts, froms;
    struct list fresh_denials, denials;
    size_t n_denials;
    bool has_warned; /* the warning about too many denials was logged; reset
                        when none is left */
};

/* Makes a request and enters it into the tables, but into no list of the turn.
 * Takes over what `terms` holds. STATUS_MEMORY. */
MUST_CHECK enum status
request_enter(struct hub *hub, uint64_t id, struct topic *topic,
              struct slice topic_url, struct slice callback, struct slice from,
              struct terms *terms, struct request **made, struct problem *why);

/* Removes a request from all tables and frees it; its row in hub.db stays. */
void request_forget(struct request *request);

/* When to try again after a call without an answer; 0: never. An address that
 * may not be called is no transport error. */
int64_t request_next_try(const struct hub *hub, const struct call *call,
                         unsigned tries);

/* Calls the callbacks that were denied in this turn. At the end of a turn that
 * was kept. */
void deny_turn(struct requests *all);

/* Forgets all denials. */
void deny_end(struct requests *all);

#endif
