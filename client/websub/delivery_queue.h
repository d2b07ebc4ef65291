/*
 * delivery_queue.h - judges deliveries, and hands each over once.
 *
 *     arrival --signature?--> right --repeat?--> queue --timer--> on_delivery
 *                  |                    |
 *                  |                    +--> 202, dropped
 *                  +--> none: 403
 *                  +--> wrong: 202, dropped
 *
 * With a secret, X-Hub-Signature has to be right (W-104). If the secret is in
 * the format of Standard Webhooks, and the hub has ever sent its headers, they
 * have to be there and right, too, with a timestamp of now (W-107): a copy of
 * an old delivery then helps nobody.
 *
 * The answers to a right and to a wrong signature are the same (W-105): 202.
 *
 * An id shows a repeat; and, while a subscription exists beside the one that
 * replaces it (W-029), the body, which came by the other one.
 */
#pragma once

#include "client/tidings.h"
#include "client/websub/callback.h"

/* The signature of a subscription's deliveries. */
struct delivery_key {
    unsigned number;    /* of the subscription */
    int64_t since_s;    /* it is active; Unix time */
    const char *secret; /* NULL: none, all are accepted */
    bool has_webhooks;  /* the hub has sent their headers: it will again */
};

struct delivery_queue {
    const struct td_subscriber_options *options;
    bool is_over;
    struct td_subscriber_counts counts; /* the caller counts `unknown` */
    struct timer hand_over;
    struct list queue;

    struct remembered *ring;
    size_t ring_size, n_remembered;
    size_t at; /* where the next one goes */
};

/* `deliveries`: all zero, a member of its owner's struct. `options` are lent.
 */
void delivery_queue_init(struct delivery_queue *deliveries,
                         struct handle_loop *loop,
                         const struct td_subscriber_options *options);

/* Also from on_delivery: the memory stays until that has returned. */
void delivery_queue_fini(struct delivery_queue *deliveries);

/* Judges a delivery, answers it and, perhaps, keeps it to hand it over soon.
 * `topic` is copied. `now_s`: Unix time. */
void delivery_queue_take(struct delivery_queue *deliveries,
                         struct delivery_key *key, const char *topic,
                         int64_t now_s, struct arrival *arrival,
                         struct reply *reply);
