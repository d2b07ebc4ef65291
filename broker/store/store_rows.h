/*
 * store_rows.h - the rows of tidings.db, as the log thread writes them: sets,
 * batches, closed lists, generations and trash. (The keys of posts:
 * store_keys.h.)
 *
 * A set has a row with what is rewritten seldom: settings, sizes. A commit of
 * entries does not touch it. Batches and closed lists have a row each. When the
 * file of a list is on the disk, its batches are there twice. From then on
 * their set owes them: each commit deletes a slice of the rows of one set, so
 * that no commit takes long for it. A generation has a row until its files are
 * gone. One row has the place in the journal of a cluster, and one says
 * that the broker was closed.
 *
 * The log thread's, on its connection.
 */
#pragma once

#include "base/db.h"
#include "broker/log/engine.h"
#include "broker/store/segments.h"

/* tidings.db: its tables. */
extern const struct db_kind store_kind;

/* The first version with segments (segments.h). */
#define STORE_WITH_SEGMENTS 11

/* Batches of a set that can be forgotten, by set. */
struct store_debt {
    struct map_node node; /* its hash is the set's id */
    uint64_t upto;        /* seq of the last entry that may go */
};

/* Notes that a set owes its batches up to entry `upto`. */
void store_debts_owe(struct map *debts, uint32_t set, uint64_t upto);
/* The debt that is paid next: the same one, until another call; NULL: none. */
struct store_debt *store_debts_first(const struct map *debts);
void store_debts_paid(struct map *debts, struct store_debt *debt);
void store_debts_fini(struct map *debts);

/* How many bytes more, or less, of a segment rows name after a commit. */
struct store_use {
    uint32_t number;
    int64_t bytes;
};

struct store_rows {
    struct db *db;             /* lent; of store_kind */
    struct segments *segments; /* lent */
    uint32_t next_id; /* the next birth's; moves when births are committed */
    struct map debts;

    /* Of the transaction: */
    struct segment_place place; /* of the next batch */
    int64_t first_id, last_id;  /* of the batches in a segment; 0: none yet */
    struct store_use *uses;
    size_t n_uses, use_capacity;
};

/* Both are lent. */
MUST_CHECK enum status store_rows_init(struct store_rows *s, struct db *db,
                                       struct segments *segments,
                                       struct problem *why);
void store_rows_fini(struct store_rows *s); /* harmless before it */

/* Reports every set with its head: see struct engine_ops. */
MUST_CHECK enum status store_rows_load(struct store_rows *s,
                                       engine_set_fn *on_set, void *user,
                                       struct problem *why);

/* Begins the transaction of a commit. segments_write wrote its entries to
 * `place`. */
void store_rows_begin(struct store_rows *s, const struct segment_place *place);

/* Within the transaction of a commit: applies an act of any kind but ACT_KEY.
 * Writes nothing but what the act and at_us say: act.h gives the reason. */
MUST_CHECK enum status store_rows_apply(struct store_rows *s,
                                        const struct act *act, int64_t at_us,
                                        struct problem *why);

/* Then deletes a slice of the batches of the first set that owes some; without
 * one, moves a slice of a nearly empty segment into rows. Last of all acts.
 * *is_paid: that was the rest of the set's debt. */
MUST_CHECK enum status store_rows_pay(struct store_rows *s, bool *is_paid,
                                      struct problem *why);

/* Is there more to delete or to move? */
bool store_rows_owe(const struct store_rows *s);

/* When the transaction is on the disk. If this fails, old rows stay until the
 * next start finds them. */
void store_rows_committed(struct store_rows *s, const struct commit *commit,
                          bool is_paid);
