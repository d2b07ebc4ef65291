/*
 * callback_tables.h - what a topic and a callback have: subscriptions, or
 * requests (a table of each). They are found by number, and by the pair of
 * topic and callback (W-034); each has a place among those of its owner
 * (client_limits.h), and one among those with the same callback host, of all
 * owners and of its own (W-164).
 *
 * Callbacks are compared in their normal form (W-026), which only serves
 * look-ups: calls use the callback as the subscriber gave it.
 *
 * The delivery thread's.
 */
#pragma once

#include "base/map.h"
#include "broker/base/client_limits.h"

/*
 * Things by their numbers, in ascending order. All zero: empty.
 *
 * Numbers only grow, so new things are added at the end. A removed thing leaves
 * an empty slot; when half of the slots are empty they are closed up. A
 * look-up, also of the first thing behind a number, is a binary search: a page
 * of a long list costs as much as the page holds, wherever it begins. A walk
 * goes on where it was, without a search.
 */
struct id_table {
    struct id_slot {
        uint64_t id;
        void *thing; /* NULL: it was removed */
    } * slots;

    size_t n_slots, capacity;
    size_t n;     /* things */
    size_t place; /* the slot behind the last thing of id_table_next */
};

/* Adds a thing. `id` must be greater than all earlier ones. STATUS_MEMORY. */
MUST_CHECK enum status id_table_add(struct id_table *ids, uint64_t id,
                                    void *thing);
void id_table_remove(struct id_table *ids,
                     uint64_t id); /* an unknown id is allowed */

void *id_table_find(const struct id_table *ids, uint64_t id); /* or NULL */

/* Returns the first thing with a greater number, or NULL. `after` 0: the
 * first. */
void *id_table_next(struct id_table *ids, uint64_t after);

void id_table_fini(struct id_table *ids);

struct host_count;

struct callback_tables {
    struct clients *clients; /* lent */
    enum client_kind kind;
    struct map pairs;      /* of callback_key */
    struct map hosts;      /* of host_count */
    struct id_table by_id; /* of callback_key */
};

/* A member of the struct that it is the key of; all zero before. */
struct callback_key {
    struct map_node node;
    uint64_t id;
    const void *topic;
    struct id_table *of_topic; /* those of the topic, by id */
    struct slice callback;     /* in its normal form; the key owns it */

    /* Its place; all zero: none. */
    struct holding holding;
    struct host_count *of_all, *of_owner; /* NULL: it has no host */
};

void callback_tables_fini(struct callback_tables *t); /* must be empty */

/* Enters a key, of which `id` is greater than all earlier ones; several equal
 * pairs are allowed. STATUS_MEMORY: callback_tables_leave must follow. */
MUST_CHECK enum status callback_tables_enter(struct callback_tables *t,
                                             struct callback_key *key,
                                             uint64_t id, const void *topic,
                                             struct id_table *of_topic,
                                             struct slice callback);

/* Removes it, and gives its place back. One that was never entered is
 * allowed. */
void callback_tables_leave(struct callback_tables *t, struct callback_key *key);

/* Return a key with this topic and callback, and the next one equal to `key`;
 * NULL: none. In any order. */
struct callback_key *callback_tables_find(struct callback_tables *t,
                                          const void *topic,
                                          struct slice callback);
struct callback_key *callback_tables_same(const struct callback_key *key);

/* Checks that `client` may have one more with that callback, of which a host
 * has at most `of_all`, and one client there `of_owner`. STATUS_LIMITED; `what`
 * says of what there is too much. STATUS_BUSY: all together have too many. */
MUST_CHECK enum status
callback_tables_check(struct callback_tables *t, struct client *client,
                      struct slice callback, uint64_t of_all, uint64_t of_owner,
                      const char *what, struct problem *why);

/* Takes a place, whatever the limits are, and gives it back. `callback` empty:
 * without a host. */
void callback_tables_take_place(struct callback_tables *t,
                                struct callback_key *key, struct client *client,
                                struct slice callback);
void callback_tables_leave_place(struct callback_tables *t,
                                 struct callback_key *key);
