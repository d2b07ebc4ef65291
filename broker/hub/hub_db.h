/*
 * hub_db.h - DIR/hub.db: the state of the hub that survives a crash. SQLite,
 * WAL, one connection, used by the delivery thread (and by hub_open before
 * there is one).
 *
 * The hub does not use tidings.db: its one writer, the log thread, must never
 * wait for the hub, nor the hub for it.
 *
 * All writes of a turn of the loop form one transaction, which hub_db_commit
 * ends. How firmly it is kept:
 *
 *   ranges of deliveries   synchronous=NORMAL: no fsync. The kernel has them,
 *                          kill -9 loses none; after a power failure some may
 *                          be older, and a delivery is repeated
 *   everything else        synchronous=FULL: one fsync. Requests before their
 *                          202, subscriptions, relays and their documents
 *                          before their 200, cursors once a second
 *
 * In a cluster each transaction is first in the journal, on two machines.
 *
 * If a disk is full or fails, hub_db_commit returns the error and rolls the
 * turn back. The hub then refuses commands with 503, and deliveries of the turn
 * wait and try again: nothing leaves the hub that is not kept.
 */
#ifndef BROKER_HUB_HUB_DB_H
#define BROKER_HUB_HUB_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/db.h"
#include "base/list.h"
#include "broker/cluster/owned_db.h"
#include "broker/hub/subscription.h"
#include "broker/hub/topic.h"
#include "proto/buf.h"
#include "proto/problem.h"
#include "proto/resourcesync/digest.h"
#include "proto/slice.h"
#include "proto/status.h"

struct hub_db;
struct verification; /* verification.h */

/* Its tables, and its place in the data directory and the cluster. */
extern const struct db_kind hub_db_kind;
extern const struct owned_file hub_db_file;

/* Opens it as owned_file_open does. */
MUST_CHECK enum status hub_db_open(struct hub_db **db, const char *dir,
                                   const struct ownership_right *right,
                                   struct problem *why);

void hub_db_close(struct hub_db *db); /* NULL is allowed */

enum hub_db_row { HUB_DB_SUBSCRIPTION, HUB_DB_REQUEST, HUB_DB_ALL };

/* A row, read at the start. Lent, but the callee may take its terms and empty
 * them. */
struct hub_record {
    enum hub_db_row row;
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

/* Read everything at the start, in order of ids. The callee ends what belongs
 * to a set that is gone, afterwards. */
MUST_CHECK enum status hub_db_each_subscription(struct hub_db *h,
                                                hub_record_fn *fn, void *user,
                                                struct problem *why);
MUST_CHECK enum status hub_db_each_request(struct hub_db *h, hub_record_fn *fn,
                                           void *user, struct problem *why);

/* All functions below write within the transaction of this turn, and begin it.
 * hub_db_commit returns their first error. */
void hub_db_put_subscription(struct hub_db *h, const struct subscription *s);
void hub_db_delete_subscription(struct hub_db *h, uint64_t id);
void hub_db_put_request(struct hub_db *h, const struct verification *v);
void hub_db_delete_request(struct hub_db *h, uint64_t id);

/* Writes the cursor and the range of a delivery that is about to be tried.
 * Without fsync. */
void hub_db_put_range(struct hub_db *h, uint64_t id, uint64_t after,
                      uint64_t range_last);

/* Writes the cursor. */
void hub_db_put_cursor(struct hub_db *h, const struct subscription *s);

/* A relay, lent, and its kept documents: those behind `earliest`. */
struct documents_sum {
    uint64_t earliest, last;
    uint64_t bytes;
    int64_t last_us; /* when the last document came; 0: none */
    struct digest last_digest;
};

struct relay_record {
    uint64_t id;
    struct slice name, topic, epoch;
    struct slice hub; /* empty: our own URL of the moment */
    struct documents_sum documents;
};

typedef enum status hub_relay_fn(const struct relay_record *relay, void *user,
                                 struct problem *why);

/* Calls `fn` for every relay, in order of names, at the start. First deletes
 * documents of relays that no longer exist. */
MUST_CHECK enum status hub_db_each_relay(struct hub_db *h, hub_relay_fn *fn,
                                         void *user, struct problem *why);

/* Sets relay->id. */
void hub_db_add_relay(struct hub_db *h, struct relay_record *relay);
void hub_db_set_relay_hub(struct hub_db *h, uint64_t id, struct slice hub);

/* Deletes the relay's own row; hub_db_forget_documents deletes its
 * documents. */
void hub_db_delete_relay(struct hub_db *h, uint64_t id);

/* Deletes some documents of a removed relay. True if there may be more. */
MUST_CHECK bool hub_db_forget_documents(struct hub_db *h, uint64_t relay);

/* Longest media type that is kept. */
#define DOCUMENT_TYPE_MAX 255

struct document_record {
    uint64_t relay, seq;
    int64_t received_us;
    struct digest digest;
    struct slice type, key; /* key: empty is none */
    struct slice body;
};

/* Adds a document, and makes its seq the relay's last. */
void hub_db_add_document(struct hub_db *h,
                         const struct document_record *document);

/* Deletes document `seq` and returns its size; 0: it does not exist. */
uint64_t hub_db_drop_document(struct hub_db *h, uint64_t relay, uint64_t seq);

/* Reading sees the writes of this turn, too. */

/* Appends a document's body, and writes its type, terminated.
 * STATUS_NOT_FOUND. */
MUST_CHECK enum status hub_db_read_document(struct hub_db *h, uint64_t relay,
                                            uint64_t seq, struct buf *to,
                                            char type[DOCUMENT_TYPE_MAX + 1],
                                            struct problem *why);

/* Looks for the document with this key: sets *found, and its digest. */
MUST_CHECK enum status hub_db_find_document(struct hub_db *h, uint64_t relay,
                                            struct slice key,
                                            struct digest *digest, bool *found,
                                            struct problem *why);

/* Lends the connection: for tests, which look into the file and limit it. */
struct db *hub_db_handle(struct hub_db *h);

/* Makes the commit of this turn fail; the first reason counts. */
void hub_db_fail(struct hub_db *h, const struct problem *why);

/* For a part that keeps its own account of a turn. `ended` receives, after the
 * transaction, whether it was kept. */
struct hub_db_hook {
    struct list node;
    void (*ended)(struct hub_db_hook *hook, bool is_kept);
};

void hub_db_add_hook(struct hub_db *h, struct hub_db_hook *hook);

/* True if rows were written that no hub_db_commit has ended yet. */
bool hub_db_is_begun(const struct hub_db *h);

/* Ends the transaction, if one was begun, as firmly as its rows need.
 * STATUS_BUSY: nothing of it is kept. */
MUST_CHECK enum status hub_db_commit(struct hub_db *h, struct problem *why);

/* Rows that are older than memory
 *
 * A turn wrote them, but its commit failed; a later turn writes them again:
 *
 *     hub_db_put_ ...  turn --kept--> forgotten
 *                           `-not---> behind, with the others
 *     hub_db_write_again    all that is behind, each row once
 *
 * If there is no memory to note a row, all rows count as behind. */

/* True if memory is ahead of hub.db. Relays and documents do not count: relay.c
 * takes back what was not kept. */
bool hub_db_is_behind(const struct hub_db *h);

/* Calls `fn` once for each row that is behind, to write it as it is in memory
 * now, or to delete it. */
void hub_db_write_again(struct hub_db *h,
                        void (*fn)(enum hub_db_row row, uint64_t id,
                                   void *user),
                        void *user);

/* At the start: marks a row for which there is nothing in memory, so that
 * hub_db_write_again deletes it. If no memory is left, the row stays until the
 * next start, which finds it again. */
void hub_db_note_stale(struct hub_db *h, enum hub_db_row row, uint64_t id);

/* Deletes all rows, before all of memory is written: HUB_DB_ALL. */
void hub_db_clear(struct hub_db *h);

/* Gives up the transaction of this turn, as a failed commit does. */
void hub_db_rollback(struct hub_db *h);

/* Returns the next number for a subscription or request. No number is used
 * twice. */
uint64_t hub_db_next_id(struct hub_db *h);

#endif
