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

struct host_count;

struct callback_tables {
    struct clients *clients; /* lent */
    enum client_kind kind;
    struct map pairs; /* of callback_key; so are the next two */
    struct map ids;
    struct list all;  /* the newest entry last */
    struct map hosts; /* of host_count */
};

/* A member of the struct that it is the key of; all zero before. */
struct callback_key {
    struct map_node node, by_id;
    struct list of_all_topics, of_topic; /* the second one in order of ids */
    uint64_t id;
    const void *topic;
    struct slice callback; /* in its normal form; the key owns it */

    /* Its place; all zero: none. */
    struct holding holding;
    struct host_count *of_all, *of_owner; /* NULL: it has no host */
};

void callback_tables_init(struct callback_tables *t, struct clients *clients,
                          enum client_kind kind);
void callback_tables_fini(struct callback_tables *t); /* must be empty */

/* Enters a key, at the end of a list of its topic; several equal pairs are
 * allowed. If `id` is not greater than all earlier ones, as when keys are read
 * in order beside others, callback_tables_order must follow them. */
void callback_tables_enter(struct callback_tables *t, struct callback_key *key,
                           uint64_t id, const void *topic,
                           struct list *of_topic, struct slice callback);

/* Brings the list of a topic in order: it has two runs of ascending ids. */
void callback_tables_order(struct list *of_topic);

/* Removes it, and gives its place back. */
void callback_tables_leave(struct callback_tables *t, struct callback_key *key);

struct callback_key *callback_tables_by_id(const struct callback_tables *t,
                                           uint64_t id); /* NULL: none */

/* Returns the first node of a topic's list with a greater id, or the list. A
 * walk over the list, unless one of the topic has the id. */
struct list *callback_tables_behind(const struct callback_tables *t,
                                    struct list *of_topic, const void *topic,
                                    uint64_t id);

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
