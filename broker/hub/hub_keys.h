/*
 * hub_keys.h - the hub's own keys: deliveries to those who ask for it are
 * signed with them (Standard Webhooks, v1a), and GET /hub/keys publishes their
 * public halves. So a callback needs no secret, and can prove to others that a
 * delivery is the hub's.
 *
 *     hub_keys_open     hub.db has none: the first one
 *          |
 *          v
 *     newest --hub_keys_rotate--> ends --grace is over--> deleted
 *                                  \- still signs, and is still published
 *
 * A signature takes 50 us, and 3 us for each KB of the body; all else of a
 * delivery takes 11 us (measured). Subscriptions cannot share one, since their
 * deliveries have different IDs. So only those who ask for it have it.
 *
 * hub.db has the secrets. A turn that changes the keys reads them again; they
 * count when it is kept. In a cluster all brokers have these rows, and sign
 * with the same keys; another one's change counts here a few seconds later.
 *
 * The delivery thread's, and hub_open's before there is one.
 */
#pragma once

#include "broker/sources/hub_db.h"
#include "proto/http/webhook_signature.h"

struct json_shape;
extern const struct json_shape hub_key_shape, hub_keys_shape;

/* All of them sign each delivery. */
#define HUB_KEYS_MAX 4

/* The longest name of a key: its thumbprint (RFC 7638). */
#define HUB_KEY_ID_SIZE 44

struct hub_key {
    char id[HUB_KEY_ID_SIZE];
    struct signing_key *pair;
    int64_t created_us, ends_us; /* wall clock; ends_us 0: it is the newest */
};

struct hub_key_list {
    struct hub_key all[HUB_KEYS_MAX]; /* the newest first */
    size_t n;
};

struct hub_keys {
    struct hub_db *db;
    struct hub_key_list now;
    bool has_changed; /* in this turn: read again when it is kept */
    struct hub_db_hook hook;
};

/* hub_keys_begin reads the keys of hub.db, and makes the first one. */
void hub_keys_open(struct hub_keys *keys, struct hub_db *db);
MUST_CHECK enum status hub_keys_begin(struct hub_keys *keys,
                                      struct problem *why);
void hub_keys_close(struct hub_keys *keys); /* all zero is allowed */

/* Appends " v1a,..." of each key, for a delivery's id, the time and its body.
 * False: OpenSSL cannot sign it. */
MUST_CHECK bool hub_keys_sign(const struct hub_keys *keys, struct slice id,
                              int64_t now_s, struct slice body, struct buf *to);

/* Appends them as a JWK set (RFC 7517, 8037). */
void hub_keys_report(struct buf *to, const struct hub_key_list *list);

/* Makes a new key, and ends the former one `grace_s` from now; appends the JWK
 * set that counts when this turn is kept. STATUS_CONFLICT: there are
 * HUB_KEYS_MAX. */
MUST_CHECK enum status hub_keys_rotate(struct hub_keys *keys, uint64_t grace_s,
                                       struct buf *to, struct problem *why);

/* Reads the keys again, which another broker of the cluster may have changed.
 */
void hub_keys_read(struct hub_keys *keys);

/* Deletes the keys that have ended. */
void hub_keys_look(struct hub_keys *keys);
