/*
 * hub_db.h - DIR/hub.db: the state of the hub that survives a crash, and the
 * turns that write it. SQLite, WAL, one connection, used by the delivery thread
 * (and by hub_open before there is one).
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
 * The ranges of a turn are one note: three short numbers each. Once a minute,
 * some at a time, the ranges behind the oldest notes become rows, and these
 * notes go; at an end or a start, all.
 *
 * In a cluster each transaction is first in the journal, on two machines, with
 * its notes (broker/cluster/streams.h).
 *
 * A cluster's hub has HUB_PARTS parts, with a lease for each, so that several
 * brokers deliver at once. hub.db has the rows of all parts, wherever they are
 * owned, and one stream has them: no row is of two parts. Notes are by part:
 * the next owner of a part reads them.
 *
 * If a disk is full or fails, hub_db_commit returns the error and rolls the
 * turn back. The hub then refuses commands with 503, and deliveries of the turn
 * wait and try again: nothing leaves the hub that is not kept.
 *
 * This file knows no table: the rows of subscriptions and requests are in
 * broker/hub/hub_rows, those of topics of others in foreign_topic.
 */
#pragma once

#include "base/list.h"
#include "broker/cluster/owned_db.h"
#include "broker/cluster/ownership.h"

#define HUB_PARTS LEASES_MAX

/* For its users: db, owned, rights, hooks, ranges, behind. */
struct hub_db {
    struct db db; /* the connection: reading sees the writes of this turn */
    struct owned_db *owned; /* of a cluster; NULL: this broker is alone */
    struct list hooks;      /* hub_db_hook.node */
    uint64_t last_id; /* of a subscription or request; none is used twice */

    /* Of a cluster: the parts that this broker has. */
    const struct ownership_right *rights[HUB_PARTS];
    struct leases leases;
    bool has_followed; /* since the start */

    /* This turn */
    bool is_open; /* a transaction has begun */
    bool has_failed;
    struct problem why;
    struct list ranges;  /* hub_range.node: the end of the turn notes them,
                            behind all rows, without fsync */
    struct list written; /* rows of this turn */

    struct list behind; /* rows that are older than memory: it is ahead */

    /* Notes */
    struct list noted;           /* ranges, in the order of their notes */
    struct buf notes[HUB_PARTS]; /* of this turn */
    uint64_t n_note;             /* the last number that a note has, or may
                                    have */
    size_t n_folded;             /* of this turn: the first of `noted` */
    size_t noted_bytes;          /* since the last fold began */
    uint64_t fold_to;   /* the last note of the fold under way; 0: none is */
    int64_t fold_at_us; /* when the next one begins; steady clock */
};

/* Its tables, and its place in the data directory and the cluster. */
extern const struct db_kind hub_db_kind;
extern const struct owned_file hub_db_file;

/* Opens it as owned_file_open does. `streams` (NULL: this broker is alone) are
 * lent; it has no part yet. */
MUST_CHECK enum status hub_db_open(struct hub_db **db, const char *dir,
                                   struct streams *streams,
                                   struct problem *why);

void hub_db_close(struct hub_db *db); /* NULL is allowed */

/* Of a cluster, between two turns. hub_db_follow reads what others have
 * written. hub_db_take also makes rows of the notes of `parts` (a bit for
 * each), whose rights are lent until hub_db_leave: from then on their rows are
 * written by others. After a failure it has taken none. */
MUST_CHECK enum status hub_db_follow(struct hub_db *h, struct problem *why);
MUST_CHECK enum status
hub_db_take(struct hub_db *h, unsigned parts,
            const struct ownership_right *const rights[HUB_PARTS],
            struct problem *why);
void hub_db_leave(struct hub_db *h, unsigned parts);

/* False while another broker may have a part that this one believes to have:
 * nothing may be sent. */
bool hub_db_may_call(const struct hub_db *h);

/* The next number of a subscription or request of that part. */
uint64_t hub_db_next_id(struct hub_db *h, unsigned part);

/* A turn. hub_db_commit returns the first error of the functions below. */

/* Run a statement within the transaction of this turn, and begin it; hub_db_get
 * reads the row that the statement returns (db_find). */
#define HUB_DB_WRITE(h, sql, ...) \
    hub_db_get((h), (sql), DB_VALUES(__VA_ARGS__), DB_INTO())
void hub_db_get(struct hub_db *h, const char *sql,
                const struct db_value *values, const struct db_target *into);

/* A cursor, and the range of the next delivery. It is a member of its owner,
 * which removes the two nodes before it frees itself. */
struct hub_range {
    struct list node;
    uint64_t id, after, last;
    unsigned part;

    /* The row of the range is older than the note that has it. */
    struct list noted;
    uint64_t note; /* its number */
};

/* Has the commit of this turn wait for an fsync, if this broker is alone. */
void hub_db_be_firm(struct hub_db *h);

/* Makes the commit of this turn fail; the first reason counts. */
void hub_db_fail(struct hub_db *h, const struct problem *why);

/* For a part that keeps its own account of a turn. `ended` receives, after the
 * transaction, whether it was kept. */
struct hub_db_hook {
    struct list node; /* db->hooks */
    void (*ended)(struct hub_db_hook *hook, bool is_kept);
};

/* True if rows were written that no hub_db_commit has ended yet. */
bool hub_db_is_begun(const struct hub_db *h);

/* Ends the transaction, if one was begun, as firmly as its rows need.
 * STATUS_BUSY: nothing of it is kept. */
MUST_CHECK enum status hub_db_commit(struct hub_db *h, struct problem *why);

/* Gives up the transaction of this turn, as a failed commit does. */
void hub_db_rollback(struct hub_db *h);

/*
 * Rows that are older than memory
 *
 * A turn wrote them, but its commit failed; a later turn writes them again:
 *
 *     hub_db_note    written --kept--> forgotten
 *                       ^    `-not---> behind, with the others
 *                       `--- hub_db_take_behind, and written again
 *
 * Topics of others and documents do not count: foreign_topic.c takes back what
 * was not kept.
 */

enum hub_row_kind { HUB_ROW_SUBSCRIPTION, HUB_ROW_REQUEST };

/* A member of the struct of which it is the row: the owner removes `node`
 * before it is freed. Or a row of which memory has nothing any more. */
struct hub_row {
    struct list node;
    enum hub_row_kind kind;
    unsigned part;
    bool is_behind;
    uint64_t ended_id; /* of a row without an owner; else 0 */
};

static inline void
hub_row_init(struct hub_row *row, enum hub_row_kind kind, unsigned part)
{
    *row = (struct hub_row){.kind = kind, .part = part};
    list_init(&row->node);
}

/* Makes a row without an owner, to be deleted: give it to hub_db_note or
 * hub_db_note_stale, which own it then. */
struct hub_row *hub_row_ended(enum hub_row_kind kind, uint64_t id,
                              unsigned part);

/* Notes that this turn writes the row, or deletes it. */
void hub_db_note(struct hub_db *h, struct hub_row *row);

/* At the start: notes a row for which there is nothing in memory, so that a
 * turn deletes it. */
void hub_db_note_stale(struct hub_db *h, enum hub_row_kind kind, uint64_t id,
                       unsigned part);

/* Takes a row that is behind: the caller writes it as it is in memory now, and
 * notes it. NULL: there is none any more. */
struct hub_row *hub_db_take_behind(struct hub_db *h);
