/*
 * store_keys.h - the keys of posts (idempotency.h) in tidings.db.
 *
 * Two tables: new keys go into the current one. When that has been current for
 * IDEMPOTENCY_KEPT_US, a commit empties the other and makes it the current one:
 *
 *     since           + 24 h             + 48 h
 *       | A current     | B current        | A current, emptied
 *       | k into A      | k found in A     | k has gone
 *
 * So a key stays for 24 to 48 hours, and then until the next commit; and no
 * commit ever deletes keys one by one: emptying a table frees its pages (30 ms
 * for a million keys, measured).
 *
 * Crashes: a row says which table is current, and since when. One transaction
 * writes that row, empties the other table, and adds the batches and keys. So
 * one table is always current, and every deleted key has had its time.
 *
 * The clock: a table is emptied when another one has been current for 24 hours
 * by the clock. Set forward, however far, it ends the time of the current one
 * at once, yet the keys in it stay for 24 hours more. Set back to before
 * `since`, it begins that time anew: keys stay longer, never shorter, and not
 * for ever.
 *
 * The log thread's.
 */
#pragma once

#include "base/db.h"
#include "broker/log/engine.h"

/* Tables 0 and 1. Rows are appended, and deleted all at once: the id of the
 * last one is their number. */
struct store_keys_state {
    int current;
    int64_t since_us;
    uint64_t n[2];
};

struct store_keys {
    struct db *db;
    struct store_keys_state state; /* as committed */
    struct store_keys_state next;  /* as the transaction leaves it: the state
                                      when that is committed */
};

/* The step among the store's migrations that makes the tables. */
extern const char store_keys_tables[];

/* `db` is lent. */
MUST_CHECK enum status store_keys_open(struct store_keys *k, struct db *db,
                                       struct problem *why);

/* See struct engine_ops. */
MUST_CHECK enum status store_keys_find(struct store_keys *k,
                                       const struct digest *id,
                                       struct act_key *found,
                                       struct problem *why);
bool store_keys_has_room(const struct store_keys *k, size_t n, int64_t at_us);

/* The time at which the current table began, with a commit at `at_us`. */
int64_t store_keys_since(const struct store_keys *k, int64_t at_us);

/* In every transaction, before its keys: swaps the tables if that is due. */
MUST_CHECK enum status store_keys_begin(struct store_keys *k, int64_t at_us,
                                        struct problem *why);

/* Then, for each key. */
MUST_CHECK enum status store_keys_add(struct store_keys *k,
                                      const struct act_key *key, int64_t at_us,
                                      struct problem *why);
