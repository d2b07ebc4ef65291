/*
 * verify.h - verification of intent: a request, a challenge, an answer judged;
 * and denials.
 *
 * A request was answered 202 when it was kept in hub.db; from then on it comes
 * to an end also after a crash: confirmed, failed, or denied (W-031, W-044). Of
 * several requests for a pair the newest counts: an older one is dropped when a
 * newer one comes, and what its callback still answers changes nothing (W-036).
 * A challenge is used once (W-053): each try has its own. Tries: one, and a few
 * more after errors of transport only (W-056).
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_VERIFY_H
#define BROKER_HUB_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/hub/pairs.h"
#include "broker/hub/subscription.h"
#include "broker/hub/tally.h"

/* Requests that wait for their verification: per callback host, per requester,
 * in all (W-164: more is 429). */
#define REQUESTS_PER_HOST 100
#define REQUESTS_PER_FROM 1000
#define REQUESTS_MAX      10000

struct request {
    struct hub *hub;
    uint64_t id;
    struct list node; /* all requests */
    struct list turn; /* fresh, or to be called at the end of this turn */
    struct pair pair; /* its key */
    struct tally *of_host, *of_from;
    enum websub_mode mode;
    struct topic *topic;
    char *topic_url; /* as it was asked for (W-050) */
    char *callback;
    struct terms terms; /* of a subscribe */
    bool has_after;
    uint64_t after; /* where a new subscription begins: the head when the
                       request was taken, or what it asked for */
    int64_t taken_us;
    char from[64];
    unsigned tries;

    /* verify.c's own. */
    struct call call;
    struct alarm alarm;
    struct buf url;
    char challenge[WEBSUB_CHALLENGE_SIZE + 1];
    int64_t asked_us; /* the lease counts from here (W-054) */
};

/* Takes a request that is valid: STATUS_BUSY with http 429 where there are too
 * many. It is verified once its record is kept (verify_turn). */
struct order;
MUST_CHECK enum status verify_take(struct hub *hub, struct order *order,
                                   struct problem *why);

/* One that was learnt at the start; takes over record->terms. It is verified at
 * the first verify_turn. */
struct record;
MUST_CHECK enum status verify_resume(struct hub *hub, struct topic *topic,
                                     struct record *record,
                                     struct problem *why);

/* At the end of a turn, when what it wrote is kept: calls out. */
void verify_turn(struct hub *hub);

/* At the end of a turn that was not kept: those taken in it never were. */
void verify_lost(struct hub *hub);

/* The topic is no more: whoever waits for it is denied (W-044). */
void verify_topic_gone(struct hub *hub, struct topic *topic);

/* The operator's: it ends, and its callback is denied. */
void verify_end(struct request *request);

/* Those that wait, by id: the first one after `after`; or that one; NULL. */
struct request *request_next(struct hub *hub, uint64_t after);
struct request *request_by_id(struct hub *hub, uint64_t id);

/* The one that was taken next; NULL: `request` is the newest. */
struct request *request_behind(struct hub *hub, const struct request *request);

/* A newer one of its pair is there: this one is about to go, and has no row. */
bool request_is_replaced(const struct request *request);

struct requests *requests_new(void);

/* Frees all, without ending them: the loop ends, or never began. NULL is
 * allowed. */
void requests_free(struct requests *all);

/* Tells a callback that it is denied (W-041), when this turn is kept; also
 * before there is a thread: with its first turn. A few tries, then given up.
 * Not remembered over a restart, and no more than DENIALS_MAX at a time: it is
 * a courtesy (what ended has ended), and must not cost what deliveries need. */
#define DENIALS_MAX 10000

/* The reason where a set or relay was removed. */
#define VERIFY_TOPIC_GONE SLICE("the topic is no more")

void verify_deny(struct hub *hub, struct slice callback,
                 const struct terms *terms, struct slice topic_url,
                 struct slice reason);

#endif
