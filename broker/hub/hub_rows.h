/*
 * hub_rows.h - subscriptions and requests as rows of hub.db
 * (sources/hub_db.h).
 *
 * The functions that write do so within the transaction of this turn, and begin
 * it. If it is not kept, a later turn writes the row again (hub.c).
 */
#pragma once

#include "broker/hub/subscription.h"
#include "broker/hub/topic.h"
#include "broker/hub/verification.h"
#include "broker/sources/hub_db.h"

/* A row, read at the start. Lent, but the callee may take its terms and empty
 * them. */
struct hub_record {
    enum hub_row_kind row;
    unsigned part;
    uint64_t id;
    enum topic_kind topic_kind;
    struct slice name, epoch; /* of the set or relay, and of its log */
    struct slice callback;
    struct terms terms;
    uint64_t after;

    /* Of a subscription */
    enum subscription_kind kind;
    int64_t created_us, lease_end_us;
    uint64_t range_last;
    uint32_t generation;

    /* Of a request */
    enum websub_mode mode;
    bool has_after;
    int64_t taken_us;
    struct slice topic_url;
};

typedef enum status hub_record_fn(struct hub_record *record, void *user,
                                  struct problem *why);

/* The part that a pair of topic and callback belongs to, below HUB_PARTS: by a
 * hash that stays the same for all times. Relays, which one broker receives,
 * and other hubs, which follow the settings of sets, are of part 0. */
unsigned hub_rows_part(enum subscription_kind kind, enum topic_kind topic_kind,
                       struct slice name, struct slice callback);

/* The part of a subscription or request. False: there is no row. */
bool hub_rows_find_part(struct hub_db *h, uint64_t id, unsigned *part);

/* Reads all rows of `parts` (a bit for each): subscriptions, then requests, in
 * order of ids. The callee ends what belongs to a set that is gone, afterwards.
 */
MUST_CHECK enum status hub_rows_read(struct hub_db *h, unsigned parts,
                                     hub_record_fn *fn, void *user,
                                     struct problem *why);

void hub_rows_put_subscription(struct hub_db *h, struct subscription *s);
void hub_rows_put_request(struct hub_db *h, struct verification *v);

/* Deletes the row with that id: one without an owner (hub_row_ended), or that
 * of a request that a newer one replaces: if the turn is not kept the older
 * request stays, and so does its row. */
void hub_rows_delete(struct hub_db *h, struct hub_row *row, uint64_t id);

/* Deletes the row of what memory is about to forget. */
void hub_rows_end(struct hub_db *h, const struct hub_row *row, uint64_t id);

/* Writes the cursor and the range of a delivery that is about to be tried.
 * Without fsync. */
void hub_rows_put_range(struct hub_db *h, struct subscription *s);
