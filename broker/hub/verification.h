/*
 * verification.h - verification of intent: requests, challenges, and the
 * answers to them.
 *
 * The hub answers a request with 202 when hub.db has it. From then on the
 * request comes to an end even after a crash: confirmed, failed, or denied
 * (W-031, W-044). Of several requests for a pair only the newest counts: a
 * newer one drops an older one, and a later answer of the older one's callback
 * changes nothing (W-036). Each try has a challenge of its own (W-053). Only
 * transport errors cause more tries than one (W-056).
 *
 * The delivery thread's.
 */
#pragma once

#include "broker/hub/callback_tables.h"
#include "broker/hub/subscription.h"

/* The most requests that wait for their verification: per callback host, of
 * all requesters and of one; per requester; in all (W-164: more get 429). */
#define VERIFICATIONS_AT_HOST  400
#define VERIFICATIONS_PER_HOST 100
#define VERIFICATIONS_PER_FROM 1000
#define VERIFICATIONS_MAX      10000

struct verification {
    struct hub *hub;
    uint64_t id;
    struct hub_row row; /* what hub.db lacks of it */
    struct list turn;   /* fresh, or to be called at the end of this turn */
    struct callback_key key; /* with its place: of the requester */
    enum websub_mode mode;
    struct topic *topic;
    char *topic_url; /* as the client wrote it (W-050) */
    char *callback;
    struct terms terms; /* of a subscribe */
    bool has_after;
    uint64_t after; /* where a new subscription begins: at the head when the
                       request was taken, or where it asks for */
    int64_t taken_us;
    unsigned tries;

    /* For verification.c only. */
    struct call call;
    struct alarm alarm;
    struct buf url;
    char challenge[WEBSUB_CHALLENGE_SIZE + 1];
    int64_t asked_us; /* the lease counts from here (W-054) */
};

/* All of them; struct hub has one. */
struct verifications {
    struct list fresh; /* verification->turn: taken in this turn */
    struct list due;   /* verification->turn: to be called at its end */
    struct callback_tables tables;
};

/* Takes a valid request; STATUS_BUSY with http 429 if there are too many.
 * verification_turn verifies it when its record is kept. */
struct command;
MUST_CHECK enum status verification_take(struct command *command);

/* The part of a cluster's hub that takes the request of a command. -1: it will
 * be refused. */
int verification_part(struct command *command);

/* Enters a request that was read from hub.db; takes over record->terms. The
 * next verification_turn verifies it. */
struct hub_record;
void verification_restore(struct topic *topic, struct hub_record *record);

/* When a turn was kept: the requests of this turn are due, and what they
 * replace is forgotten. A turn that is lost later does not concern them. */
void verification_kept(struct hub *hub);

/* Afterwards, if the broker may call: makes the calls that are due. */
void verification_turn(struct hub *hub);

/* At the end of a turn that was not kept: forgets the requests of this turn. */
void verification_lost(struct hub *hub);

/* Denies the requests for a topic that is gone (W-044). The caller holds the
 * topic (n_holds). */
void verification_topic_gone(struct topic *topic);

/* Ends a request, and denies its callback. */
void verification_deny(struct verification *request, struct slice reason);

/* Denies the requests whose owner has ended. */
void verification_look(struct hub *hub);

/* True if there is a newer request of the same pair: this one is about to go,
 * and has no row. */
bool verification_is_replaced(const struct verification *r);

/* Frees the requests of `parts` (a bit for each) without ending them. */
void verifications_forget(struct hub *hub, unsigned parts);
