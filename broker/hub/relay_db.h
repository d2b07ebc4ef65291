/*
 * relay_db.h - relays and their documents in hub.db (hub_db.h).
 *
 * Functions that write do so within the transaction of this turn, which
 * hub_db_touch begins; the caller gives their errors to hub_db_fail.
 * Functions that read see earlier writes, also before they are kept.
 *
 * The delivery thread's.
 */
#ifndef BROKER_HUB_RELAY_DB_H
#define BROKER_HUB_RELAY_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/db.h"
#include "proto/buf.h"
#include "proto/digest.h"
#include "proto/idempotency_key.h"
#include "proto/problem.h"
#include "proto/slice.h"
#include "proto/status.h"

/* A step of hub.db's migrations (hub_db.c). `body` is the last column, so that
 * SQLite reads the others without it. */
#define RELAY_DB_STEP                                                        \
    "CREATE TABLE relays(id INTEGER PRIMARY KEY AUTOINCREMENT,"              \
    " name TEXT NOT NULL UNIQUE, topic TEXT NOT NULL, hub TEXT NOT NULL,"    \
    " epoch TEXT NOT NULL, last INTEGER NOT NULL DEFAULT 0);"                \
    "CREATE TABLE documents(id INTEGER PRIMARY KEY, relay INTEGER NOT NULL," \
    " seq INTEGER NOT NULL, received_us INTEGER NOT NULL,"                   \
    " size INTEGER NOT NULL, digest BLOB NOT NULL, type TEXT NOT NULL,"      \
    " key TEXT, body BLOB NOT NULL);"                                        \
    "CREATE UNIQUE INDEX documents_by_seq ON documents(relay, seq);"         \
    "CREATE INDEX documents_by_key ON documents(relay, key)"                 \
    " WHERE key IS NOT NULL;"

/* Longest media type that is kept. */
#define DOCUMENT_TYPE_MAX 255

struct relay_db;

MUST_CHECK enum status relay_db_open(struct relay_db **made, struct db *db,
                                     struct problem *why);
void relay_db_close(struct relay_db *r); /* NULL is allowed */

/* A relay, lent. */
struct relay_record {
    uint64_t id;
    struct slice name, topic, epoch;
    struct slice hub; /* empty: our own URL of the moment */
    uint64_t last;
};

/* The kept documents of a relay: those behind `earliest`. */
struct documents_sum {
    uint64_t earliest, last;
    uint64_t bytes;
    int64_t last_us; /* when the last document came; 0: none */
    struct digest last_digest;
};

/* Calls `fn` for every relay, in order of names. First deletes documents of
 * relays that no longer exist. */
MUST_CHECK enum status
relay_db_each(struct relay_db *r,
              enum status (*fn)(const struct relay_record *relay,
                                const struct documents_sum *sum, void *user,
                                struct problem *why),
              void *user, struct problem *why);

/* Sets relay->id. */
MUST_CHECK enum status relay_db_add(struct relay_db *r,
                                    struct relay_record *relay,
                                    struct problem *why);
MUST_CHECK enum status relay_db_set_hub(struct relay_db *r, uint64_t id,
                                        struct slice hub, struct problem *why);

/* Deletes the relay's own row; relay_db_forget deletes its documents. */
MUST_CHECK enum status relay_db_remove(struct relay_db *r, uint64_t id,
                                       struct problem *why);

struct document_record {
    uint64_t relay, seq;
    int64_t received_us;
    struct digest digest;
    struct slice type, key; /* key: empty is none */
    struct slice body;
};

/* Adds a document, and makes its seq the relay's last. */
MUST_CHECK enum status
relay_db_add_document(struct relay_db *r,
                      const struct document_record *document,
                      struct problem *why);

/* Deletes document `seq`, if it exists, and subtracts its size from *bytes. */
MUST_CHECK enum status relay_db_drop(struct relay_db *r, uint64_t relay,
                                     uint64_t seq, uint64_t *bytes,
                                     struct problem *why);

/* Deletes some documents of a removed relay. *more: there are more. */
MUST_CHECK enum status relay_db_forget(struct relay_db *r, uint64_t relay,
                                       bool *more, struct problem *why);

/* Appends a document's body, and writes its type, terminated.
 * STATUS_NOT_FOUND. */
MUST_CHECK enum status relay_db_read(struct relay_db *r, uint64_t relay,
                                     uint64_t seq, struct buf *to,
                                     char type[DOCUMENT_TYPE_MAX + 1],
                                     struct problem *why);

/* Looks for the document with this key: sets *found, and its digest. */
MUST_CHECK enum status relay_db_find_key(struct relay_db *r, uint64_t relay,
                                         struct slice key, bool *found,
                                         struct digest *digest,
                                         struct problem *why);

#endif
