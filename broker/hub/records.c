/*
 * records.c - the tables of hub.db, and its transactions.
 *
 *   subscriptions (id, kind, topic_kind, name, epoch, callback, ...)   rare
 *   cursors       (id, after, range_last)              with every delivery
 *   requests      (id, mode, topic_kind, name, epoch, topic_url, ...)
 *
 * The kind of a topic, the name of its set or relay, and the epoch of the log
 * identify it: a set that was removed and made again with the same name is
 * another topic. Cursors have a table of their own because they change all the
 * time and are small: some 200 share a page, and a commit writes whole pages.
 *
 * How firmly a commit is kept. `PRAGMA synchronous` can only be set outside of
 * a transaction, so it must be known before BEGIN. Ranges need no fsync: they
 * wait in memory and begin no transaction. Any other row begins one with FULL,
 * which also writes the waiting ranges. If the turn ends without one,
 * records_commit writes the ranges in a transaction of their own with NORMAL.
 *
 *   NORMAL   COMMIT appends to the WAL by write(): the kernel has it, and the
 *            next open finds it, whatever kills the process.
 *   FULL     COMMIT appends, then fsyncs the whole file of the WAL: earlier
 *            NORMAL commits are on disk as well, in order. A power failure can
 *            only cut the end behind the last fsync, because SQLite reads a WAL
 *            up to its first frame with a wrong checksum.
 *
 * SQLite makes a checkpoint on this thread when the WAL has 1,000 pages: two
 * fsyncs and 4 MB, every some tens of thousands of deliveries. A dozen commits
 * of requests cost as much, and a thread of its own would gain nothing: only
 * callbacks wait for this thread. A checkpoint that fails does not make its
 * COMMIT fail; the next COMMIT tries it again.
 */
#include "broker/hub/records.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>

#include "base/array.h"
#include "broker/base/diag.h"
#include "broker/hub/relay.h"
#include "broker/hub/relay_records.h"
#include "broker/hub/verification.h"

/* How often a redelivery moved a subscription's cursor. */
#define GENERATION_STEP                                                \
    "ALTER TABLE subscriptions ADD COLUMN generation INTEGER NOT NULL" \
    " DEFAULT 0;"

/* Marks the rows of clients of this machine: their callbacks on loopback may be
 * called (read_common looks at the host). A subscription of an earlier version
 * with such a callback was confirmed at an open broker. Limits see '::1' as
 * '::' (address_widen). */
#define LOCAL_STEP                                                         \
    "ALTER TABLE subscriptions ADD COLUMN is_local INTEGER NOT NULL"       \
    " DEFAULT 0;"                                                          \
    "ALTER TABLE requests ADD COLUMN is_local INTEGER NOT NULL DEFAULT 0;" \
    "UPDATE subscriptions SET is_local=1 WHERE kind=0;"                    \
    "UPDATE requests SET is_local=1 WHERE requester GLOB '127.*'"          \
    " OR requester IN ('::', '::1');"

static const char *const steps[] = {
    "CREATE TABLE subscriptions("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL,"
    " topic_kind INTEGER NOT NULL, name TEXT NOT NULL, epoch TEXT NOT NULL,"
    " callback TEXT NOT NULL, created INTEGER NOT NULL,"
    " lease INTEGER NOT NULL, lease_end INTEGER NOT NULL, secret BLOB,"
    " filter TEXT, interval INTEGER NOT NULL, is_simple INTEGER NOT NULL);"
    "CREATE TABLE cursors("
    " id INTEGER PRIMARY KEY, after INTEGER NOT NULL,"
    " range_last INTEGER NOT NULL);"
    "CREATE TABLE requests("
    " id INTEGER PRIMARY KEY AUTOINCREMENT, mode INTEGER NOT NULL,"
    " topic_kind INTEGER NOT NULL, name TEXT NOT NULL, epoch TEXT NOT NULL,"
    " topic_url TEXT NOT NULL, callback TEXT NOT NULL,"
    " taken INTEGER NOT NULL, lease INTEGER NOT NULL, secret BLOB,"
    " filter TEXT, interval INTEGER NOT NULL, is_simple INTEGER NOT NULL,"
    " has_after INTEGER NOT NULL, after INTEGER NOT NULL,"
    " requester TEXT NOT NULL);",
    RELAY_RECORDS_STEP, GENERATION_STEP, LOCAL_STEP,
    /* A part that keeps rows of its own adds its step here, at the end. */
};

#define N_STEPS ((int)(sizeof(steps) / sizeof(steps[0])))

enum statement {
    PUT_SUBSCRIPTION,
    PUT_CURSOR,
    END_SUBSCRIPTION,
    END_CURSOR,
    PUT_REQUEST,
    END_REQUEST,
    SET_RANGE,
    CLEAR_SUBSCRIPTIONS,
    CLEAR_CURSORS,
    CLEAR_REQUESTS,
    STATEMENTS
};

static const char *const sql[STATEMENTS] = {
    [PUT_SUBSCRIPTION] =
        "INSERT OR REPLACE INTO subscriptions(id, topic_kind, name, epoch,"
        " callback, lease, secret, filter, interval, is_simple, is_local, kind,"
        " created, lease_end, generation)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [PUT_CURSOR] = "INSERT OR REPLACE INTO cursors(id, after, range_last)"
                   " VALUES(?,?,?)",
    [END_SUBSCRIPTION] = "DELETE FROM subscriptions WHERE id=?",
    [END_CURSOR] = "DELETE FROM cursors WHERE id=?",
    [PUT_REQUEST] =
        "INSERT OR REPLACE INTO requests(id, topic_kind, name, epoch,"
        " callback, lease, secret, filter, interval, is_simple, is_local, mode,"
        " topic_url, taken, has_after, after, requester)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [END_REQUEST] = "DELETE FROM requests WHERE id=?",
    /* An UPDATE: does nothing if the subscription has ended meanwhile. */
    [SET_RANGE] = "UPDATE cursors SET after=?2, range_last=?3 WHERE id=?1",
    [CLEAR_SUBSCRIPTIONS] = "DELETE FROM subscriptions",
    [CLEAR_CURSORS] = "DELETE FROM cursors",
    [CLEAR_REQUESTS] = "DELETE FROM requests",
};

struct range {
    uint64_t id, after, last;
};

struct records {
    struct db db;
    sqlite3_stmt *statements[STATEMENTS];
    struct list hooks;
    uint64_t last_id;
    bool is_full;     /* synchronous */
    bool is_doubtful; /* an fsync has failed, or a write */

    /* This turn */
    bool is_open; /* a transaction has begun */
    bool has_failed;
    struct problem why;
    struct range *ranges; /* wait for the transaction */
    size_t n_ranges, ranges_capacity;

    struct backlog backlog;
};

/* Opening and closing */

/* Reads the greatest id that was ever kept. Greater ones may have been used,
 * but no answer has named them. */
static enum status
read_last_id(struct records *r, struct problem *why)
{
    sqlite3_stmt *statement = NULL;
    bool row = false;
    enum status rc =
        db_prepare(&r->db, &statement,
                   "SELECT coalesce(max(seq), 0) FROM sqlite_sequence", why);

    if (!rc)
        rc = db_step(&r->db, statement, &row, "read hub.db", why);
    if (!rc && row)
        r->last_id = (uint64_t)sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return rc;
}

static void
name_database(char *path, size_t size, const char *dir)
{
    snprintf(path, size, "%s/hub.db", dir);
}

enum status
records_check(const char *dir, struct problem *why)
{
    char path[4200];

    name_database(path, sizeof(path), dir);
    return db_check(path, N_STEPS, why);
}

enum status
records_open(struct records **records, const char *dir, struct problem *why)
{
    struct records *r = calloc(1, sizeof(*r));
    char path[4200];
    enum status rc;

    if (!r)
        return problem_memory(why);
    list_init(&r->hooks);
    name_database(path, sizeof(path), dir);
    rc = db_check(path, N_STEPS, why);
    if (!rc)
        rc = db_open(&r->db, path, DB_SMALL, why);
    if (!rc && r->db.is_exposed)
        DIAG(DIAG_WARNING, "hub", "other users may open a database",
             diag_text("file", path));
    if (!rc) /* overwrites freed secrets */
        rc = db_exec(&r->db, "PRAGMA secure_delete=ON", why);
    if (!rc)
        rc = db_migrate(&r->db, steps, N_STEPS, why);
    r->is_full = true; /* the setting of db_open */
    for (int i = 0; !rc && i < STATEMENTS; i++)
        rc = db_prepare(&r->db, &r->statements[i], sql[i], why);
    if (!rc)
        rc = read_last_id(r, why);
    if (rc) {
        records_close(r);
        return rc;
    }
    *records = r;
    return STATUS_OK;
}

void
records_close(struct records *r)
{
    if (!r)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(r->statements[i]);
    db_close(&r->db);
    free(r->ranges);
    backlog_fini(&r->backlog);
    free(r);
}

uint64_t
records_next_id(struct records *r)
{
    return ++r->last_id;
}

/* Writing */

void
records_fail(struct records *r, const struct problem *why)
{
    if (!r->has_failed)
        r->why = *why; /* the first error is the reason; others follow from
                          it */
    r->has_failed = true;
}

static void
fail_for_memory(struct records *r)
{
    records_fail(r, &(struct problem)PROBLEM_MEMORY);
}

/* Notes that this turn writes the row. */
static void
note(struct records *r, enum records_row kind, uint64_t id)
{
    if (backlog_note(&r->backlog, kind, id))
        fail_for_memory(r);
}

static void
run(struct records *r, enum statement which)
{
    struct problem why = {""};

    if (!r->has_failed &&
        db_run(&r->db, r->statements[which], "write hub.db", &why))
        records_fail(r, &why);
    sqlite3_clear_bindings(r->statements[which]); /* a secret may be lent */
}

static void
write_range(struct records *r, uint64_t id, uint64_t after, uint64_t last)
{
    sqlite3_stmt *s = r->statements[SET_RANGE];

    sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)after);
    sqlite3_bind_int64(s, 3, (sqlite3_int64)last);
    run(r, SET_RANGE);
}

/* After a disk error a power failure might damage the end of the WAL, and
 * frames behind a damaged one are lost, however well they were synced. Nor may
 * the next start find a commit there that was reported as failed. So a
 * checkpoint moves the kept rows into the database, and the WAL begins anew. */
static enum status
begin_wal_anew(struct records *r, struct problem *why)
{
    enum status rc = STATUS_OK;

    if (r->is_doubtful)
        rc = db_exec(&r->db, "PRAGMA wal_checkpoint(TRUNCATE)", why);
    if (!rc)
        r->is_doubtful = false;
    return rc;
}

/* Begins the transaction, and writes the ranges that waited for it: so hub.db
 * receives everything in the order of the calls. */
static void
begin(struct records *r, bool is_full)
{
    struct problem why = {""};
    const struct range *ranges = r->ranges;
    enum status rc;

    if (r->is_open || r->has_failed)
        return;
    rc = begin_wal_anew(r, &why);
    if (!rc && is_full != r->is_full)
        rc = db_exec(&r->db,
                     is_full ? "PRAGMA synchronous=FULL"
                             : "PRAGMA synchronous=NORMAL",
                     &why);
    if (!rc) {
        r->is_full = is_full;
        rc = db_exec(&r->db, "BEGIN IMMEDIATE", &why);
    }
    if (rc) {
        records_fail(r, &why);
        return;
    }
    r->is_open = true;
    for (size_t i = 0; i < r->n_ranges; i++)
        write_range(r, ranges[i].id, ranges[i].after, ranges[i].last);
    r->n_ranges = 0;
}

struct db *
records_db(struct records *r)
{
    return &r->db;
}

bool
records_touch(struct records *r)
{
    begin(r, true);
    return !r->has_failed;
}

void
records_range(struct records *r, uint64_t id, uint64_t after,
              uint64_t range_last)
{
    struct range *ranges;

    note(r, RECORDS_SUBSCRIPTION, id);
    if (r->is_open || r->has_failed) {
        write_range(r, id, after, range_last);
        return;
    }
    ranges = ONE_MORE(r->ranges, &r->ranges_capacity, r->n_ranges);
    if (!ranges) {
        fail_for_memory(r);
        return;
    }
    r->ranges = ranges;
    ranges[r->n_ranges++] = (struct range){id, after, range_last};
}

static void
write_cursor(struct records *r, const struct subscription *s)
{
    sqlite3_stmt *to = r->statements[PUT_CURSOR];

    sqlite3_bind_int64(to, 1, (sqlite3_int64)s->id);
    sqlite3_bind_int64(to, 2, (sqlite3_int64)s->after);
    sqlite3_bind_int64(to, 3, (sqlite3_int64)s->range_last);
    run(r, PUT_CURSOR);
}

void
records_cursor(struct records *r, const struct subscription *s)
{
    note(r, RECORDS_SUBSCRIPTION, s->id);
    begin(r, true);
    write_cursor(r, s);
}

static void
bind_text(sqlite3_stmt *s, int at, const char *text)
{
    if (text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, at);
}

/* Binds the parameters 1 to 11. */
static void
bind_common(sqlite3_stmt *s, uint64_t id, const struct topic *topic,
            const char *callback, const struct terms *terms)
{
    sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
    sqlite3_bind_int(s, 2, (int)topic->kind);
    bind_text(s, 3,
              topic->kind == TOPIC_RELAY ? topic->relay->name
                                         : topic->set->name);
    bind_text(s, 4, topic->epoch);
    bind_text(s, 5, callback);
    sqlite3_bind_int64(s, 6, terms->lease_us);
    if (terms->secret_size > 0)
        sqlite3_bind_blob(s, 7, terms->secret, (int)terms->secret_size,
                          SQLITE_STATIC);
    else
        sqlite3_bind_null(s, 7);
    bind_text(s, 8, terms->filter);
    sqlite3_bind_int64(s, 9, terms->interval_us);
    sqlite3_bind_int(s, 10, terms->is_simple);
    sqlite3_bind_int(s, 11, terms->is_local);
}

void
records_subscription(struct records *r, const struct subscription *s)
{
    sqlite3_stmt *to = r->statements[PUT_SUBSCRIPTION];

    note(r, RECORDS_SUBSCRIPTION, s->id);
    begin(r, true);
    bind_common(to, s->id, s->topic, s->callback, &s->terms);
    sqlite3_bind_int(to, 12, (int)s->kind);
    sqlite3_bind_int64(to, 13, s->created_us);
    sqlite3_bind_int64(to, 14, s->lease_end_us);
    sqlite3_bind_int64(to, 15, s->generation);
    run(r, PUT_SUBSCRIPTION);
    write_cursor(r, s);
}

void
records_request(struct records *r, const struct verification *request)
{
    sqlite3_stmt *to = r->statements[PUT_REQUEST];

    note(r, RECORDS_REQUEST, request->id);
    begin(r, true);
    bind_common(to, request->id, request->topic, request->callback,
                &request->terms);
    sqlite3_bind_int(to, 12, (int)request->mode);
    bind_text(to, 13, request->topic_url);
    sqlite3_bind_int64(to, 14, request->taken_us);
    sqlite3_bind_int(to, 15, request->has_after);
    sqlite3_bind_int64(to, 16, (sqlite3_int64)request->after);
    bind_text(to, 17, request->from);
    run(r, PUT_REQUEST);
}

static void
end(struct records *r, enum statement which, uint64_t id)
{
    sqlite3_bind_int64(r->statements[which], 1, (sqlite3_int64)id);
    run(r, which);
}

void
records_subscription_gone(struct records *r, uint64_t id)
{
    note(r, RECORDS_SUBSCRIPTION, id);
    begin(r, true);
    end(r, END_SUBSCRIPTION, id);
    end(r, END_CURSOR, id);
}

void
records_request_gone(struct records *r, uint64_t id)
{
    note(r, RECORDS_REQUEST, id);
    begin(r, true);
    end(r, END_REQUEST, id);
}

/* The end of a turn */

void
records_add_hook(struct records *r, struct records_hook *hook)
{
    list_append(&r->hooks, &hook->node);
}

bool
records_is_begun(const struct records *r)
{
    return r->is_open || r->has_failed || r->backlog.written.n > 0;
}

static void
tell(struct records *r, bool is_kept)
{
    struct list *node, *after;

    if (is_kept)
        backlog_kept(&r->backlog);
    else
        backlog_lost(&r->backlog);
    r->n_ranges = 0;
    r->is_open = r->has_failed = false;
    list_foreach (node, after, &r->hooks) {
        struct records_hook *hook = list_entry(node, struct records_hook, node);

        hook->ended(hook, is_kept);
    }
}

void
records_rollback(struct records *r)
{
    if (!sqlite3_get_autocommit(r->db.handle))
        sqlite3_exec(r->db.handle, "ROLLBACK", NULL, NULL, NULL);
    tell(r, false);
}

enum status
records_commit(struct records *r, struct problem *why)
{
    struct problem inner = {""};
    enum status rc = STATUS_OK;

    if (!records_is_begun(r))
        return STATUS_OK;
    if (!r->is_open)
        begin(r, false); /* only ranges were written */
    if (!r->has_failed)
        rc = db_exec(&r->db, "COMMIT", &inner);
    if (rc) {
        r->is_doubtful |= rc == STATUS_IO;
        records_fail(r, &inner);
    }
    if (r->has_failed) {
        if (why)
            *why = r->why;
        records_rollback(r);
        return STATUS_BUSY;
    }
    tell(r, true);
    return STATUS_OK;
}

bool
records_is_behind(const struct records *r)
{
    return !backlog_is_empty(&r->backlog);
}

void
records_is_stale(struct records *r, enum records_row kind, uint64_t id)
{
    backlog_add(&r->backlog, kind, id);
}

void
records_clear(struct records *r)
{
    begin(r, true);
    run(r, CLEAR_SUBSCRIPTIONS);
    run(r, CLEAR_CURSORS);
    run(r, CLEAR_REQUESTS);
}

void
records_again(struct records *r,
              void (*fn)(enum records_row row, uint64_t id, void *user),
              void *user)
{
    struct backlog_rows rows;

    if (backlog_take(&r->backlog, &rows)) {
        note(r, RECORDS_ALL, 0); /* that may not be kept either */
        fn(RECORDS_ALL, 0, user);
    } else {
        for (size_t i = 0; i < rows.n; i++)
            fn(rows.all[i].kind, rows.all[i].id, user);
    }
    free(rows.all);
}
