/*
 * hub_db.c - the tables of hub.db, and its transactions.
 *
 *   subscriptions (id, kind, topic_kind, name, epoch, callback, ...)   rare
 *   cursors       (id, after, range_last)              with every delivery
 *   requests      (id, mode, topic_kind, name, epoch, topic_url, ...)
 *   relays        (id, name, topic, hub, epoch, last)                  rare
 *   documents     (id, relay, seq, ..., body)                      of relays
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
 * hub_db_commit writes the ranges in a transaction of their own with NORMAL.
 *
 *   NORMAL   COMMIT appends to the WAL by write(): the kernel has it, and the
 *            next open finds it, whatever kills the process.
 *   FULL     COMMIT appends, then fsyncs the whole file of the WAL: earlier
 *            NORMAL commits are on disk as well, in order. A power failure can
 *            only cut the end behind the last fsync, because SQLite reads a
 *            WAL up to its first frame with a wrong checksum.
 *
 * SQLite makes a checkpoint on this thread when the WAL has 1,000 pages: two
 * fsyncs and 4 MB, every some tens of thousands of deliveries. A dozen commits
 * of requests cost as much, and a thread of its own would gain nothing: only
 * callbacks wait for this thread. A checkpoint that fails does not make its
 * COMMIT fail; the next COMMIT tries it again.
 */
#include "broker/hub/hub_db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "broker/base/diag.h"
#include "broker/cluster/owned_db.h"
#include "broker/hub/relay.h"
#include "broker/hub/verification.h"

/* `body` is the last column, so that SQLite reads the others without it. */
#define RELAY_STEP                                                           \
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

/* Subscriptions of earlier versions are those of an open broker. */
#define OWNER_STEP                                                         \
    "ALTER TABLE subscriptions ADD COLUMN owner TEXT NOT NULL DEFAULT '';" \
    "ALTER TABLE subscriptions ADD COLUMN owner_ends INTEGER NOT NULL"     \
    " DEFAULT 0;"                                                          \
    "ALTER TABLE requests ADD COLUMN owner TEXT NOT NULL DEFAULT '';"      \
    "ALTER TABLE requests ADD COLUMN owner_ends INTEGER NOT NULL DEFAULT 0;"

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
    RELAY_STEP,
    GENERATION_STEP,
    LOCAL_STEP,
    OWNER_STEP,
};

/* One step deletes so many documents of a removed relay, or documents with so
 * many bytes: SQLite visits each page of a large body to free it. */
#define FORGET_DOCUMENTS 100
#define FORGET_BYTES     (16 << 20)

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
    EACH_RELAY,
    EACH_DOCUMENT,
    END_ORPHANS,
    ADD_RELAY,
    SET_RELAY_HUB,
    END_RELAY,
    ADD_DOCUMENT,
    SET_RELAY_LAST,
    DOCUMENT_SIZE,
    END_DOCUMENT,
    OLDEST_DOCUMENTS,
    READ_DOCUMENT,
    FIND_DOCUMENT,
    STATEMENTS
};

static const char *const sql[STATEMENTS] = {
    [PUT_SUBSCRIPTION] =
        "INSERT OR REPLACE INTO subscriptions(id, topic_kind, name, epoch,"
        " callback, lease, secret, filter, interval, is_simple, is_local,"
        " owner, owner_ends, kind, created, lease_end, generation)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [PUT_CURSOR] = "INSERT OR REPLACE INTO cursors(id, after, range_last)"
                   " VALUES(?,?,?)",
    [END_SUBSCRIPTION] = "DELETE FROM subscriptions WHERE id=?",
    [END_CURSOR] = "DELETE FROM cursors WHERE id=?",
    [PUT_REQUEST] =
        "INSERT OR REPLACE INTO requests(id, topic_kind, name, epoch,"
        " callback, lease, secret, filter, interval, is_simple, is_local,"
        " owner, owner_ends, mode, topic_url, taken, has_after, after,"
        " requester)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [END_REQUEST] = "DELETE FROM requests WHERE id=?",
    /* An UPDATE: does nothing if the subscription has ended meanwhile. */
    [SET_RANGE] = "UPDATE cursors SET after=?2, range_last=?3 WHERE id=?1",
    [CLEAR_SUBSCRIPTIONS] = "DELETE FROM subscriptions WHERE 1",
    [CLEAR_CURSORS] = "DELETE FROM cursors WHERE 1",
    [CLEAR_REQUESTS] = "DELETE FROM requests WHERE 1",
    [EACH_RELAY] = "SELECT id, name, topic, hub, epoch, last FROM relays"
                   " ORDER BY name",
    [EACH_DOCUMENT] = "SELECT seq, received_us, size, digest FROM documents"
                      " WHERE relay=? ORDER BY seq",
    [END_ORPHANS] = "DELETE FROM documents WHERE relay NOT IN"
                    " (SELECT id FROM relays)",
    [ADD_RELAY] = "INSERT INTO relays(name, topic, hub, epoch) VALUES(?,?,?,?)",
    [SET_RELAY_HUB] = "UPDATE relays SET hub=?2 WHERE id=?1",
    [END_RELAY] = "DELETE FROM relays WHERE id=?",
    [ADD_DOCUMENT] = "INSERT INTO documents(relay, seq, received_us, size,"
                     " digest, type, key, body) VALUES(?,?,?,?,?,?,?,?)",
    [SET_RELAY_LAST] = "UPDATE relays SET last=?2 WHERE id=?1",
    [DOCUMENT_SIZE] = "SELECT size FROM documents WHERE relay=? AND seq=?",
    [END_DOCUMENT] = "DELETE FROM documents WHERE relay=? AND seq=?",
    [OLDEST_DOCUMENTS] = "SELECT seq, size FROM documents WHERE relay=?"
                         " ORDER BY seq LIMIT ?",
    [READ_DOCUMENT] = "SELECT type, body FROM documents"
                      " WHERE relay=? AND seq=?",
    [FIND_DOCUMENT] = "SELECT digest FROM documents WHERE relay=? AND key=?",
};

const struct db_kind hub_db_kind = {
    .mode = DB_SMALL,
    .steps = steps,
    .n_steps = sizeof(steps) / sizeof(steps[0]),
    .opening = "PRAGMA secure_delete=ON", /* overwrites freed secrets */
    .sql = sql,
    .n_sql = STATEMENTS,
};

struct row {
    enum hub_db_row kind;
    uint64_t id;
};

struct rows {
    struct row *all;
    size_t n, capacity;
};

struct range {
    uint64_t id, after, last;
};

struct hub_db {
    struct db db;
    struct owned_db *owned; /* of a cluster; NULL: this broker is alone */
    struct list hooks;
    uint64_t last_id;

    /* This turn */
    bool is_open; /* a transaction has begun */
    bool has_failed;
    struct problem why;
    struct range *ranges; /* wait for the transaction */
    size_t n_ranges, ranges_capacity;

    struct rows written; /* rows of this turn */

    struct rows behind;     /* rows that are older than memory */
    bool is_behind_by_more; /* than `behind` lists: no memory was left to list
                               them all */
};

/* Opening and closing */

static void
name_database(char *path, size_t size, const char *dir)
{
    snprintf(path, size, "%s/hub.db", dir);
}

enum status
hub_db_check(const char *dir, struct problem *why)
{
    char path[4200];

    name_database(path, sizeof(path), dir);
    return db_check(path, hub_db_kind.n_steps, why);
}

/* The greatest id that was ever kept. Greater ones may have been used, but no
 * answer has named them. */
static enum status
read_last_id(struct hub_db *h, struct problem *why)
{
    int64_t last_id = 0;
    enum status rc =
        db_number(&h->db, "SELECT coalesce(max(seq), 0) FROM sqlite_sequence",
                  &last_id, why);

    h->last_id = (uint64_t)last_id;
    return rc;
}

enum status
hub_db_open(struct hub_db **db, const char *dir, struct problem *why)
{
    struct hub_db *h = calloc(1, sizeof(*h));
    char path[4200];
    enum status rc;

    if (!h)
        return problem_memory(why);
    list_init(&h->hooks);
    name_database(path, sizeof(path), dir);
    rc = db_check(path, hub_db_kind.n_steps, why);
    if (!rc)
        rc = db_open_kind(&h->db, &hub_db_kind, path, why);
    if (!rc && h->db.is_exposed)
        DIAG(DIAG_WARNING, "hub", "other users may open a database",
             diag_text("file", path));
    if (!rc)
        rc = read_last_id(h, why);
    if (rc) {
        hub_db_close(h);
        return rc;
    }
    *db = h;
    return STATUS_OK;
}

/* The stream of the cluster. */
#define STREAM "hub"

enum status
hub_db_own(struct hub_db *h, struct streams *streams, const struct lease *lease,
           struct problem *why)
{
    enum status rc = owned_db_open(&h->owned, &h->db, streams, STREAM, why);

    if (!rc)
        rc = owned_db_own(h->owned, lease, why);
    return rc ? rc : read_last_id(h, why);
}

enum status
hub_db_follow(const char *dir, struct streams *streams, struct problem *why)
{
    struct hub_db *h;
    enum status rc = hub_db_open(&h, dir, why);

    if (rc)
        return rc;
    rc = owned_db_open(&h->owned, &h->db, streams, STREAM, why);
    if (!rc)
        rc = owned_db_read(h->owned, why);
    hub_db_close(h);
    return rc;
}

void
hub_db_close(struct hub_db *h)
{
    if (!h)
        return;
    owned_db_close(h->owned);
    db_close(&h->db);
    free(h->ranges);
    free(h->written.all);
    free(h->behind.all);
    free(h);
}

uint64_t
hub_db_next_id(struct hub_db *h)
{
    return ++h->last_id;
}

/* Reading, at the start */

/* The columns that both tables have. */
#define COMMON_COLUMNS                                              \
    "id, topic_kind, name, epoch, callback, lease, secret, filter," \
    " interval, is_simple, is_local, owner, owner_ends"

static enum status
read_common(sqlite3_stmt *s, struct hub_record *record, struct problem *why)
{
    struct slice secret = db_column(s, 6), filter = db_column(s, 7);

    int64_t topic_kind = sqlite3_column_int64(s, 1);

    record->id = (uint64_t)sqlite3_column_int64(s, 0);
    if (topic_kind < 0 || topic_kind > TOPIC_RELAY)
        return problem(why, STATUS_IO, "there is no kind %" PRId64 " of topic",
                       topic_kind);
    record->topic_kind = (enum topic_kind)topic_kind;
    record->name = db_column(s, 2);
    record->epoch = db_column(s, 3);
    record->callback = db_column(s, 4);
    record->terms.lease_us = sqlite3_column_int64(s, 5);
    if (secret.size > WEBSUB_SECRET_MAX)
        return problem(why, STATUS_IO, "a secret is too long");
    if (secret.size > 0)
        memcpy(record->terms.secret, secret.data, secret.size);
    record->terms.secret_size = secret.size;
    if (filter.size > 0) {
        record->terms.filter = slice_dup(filter);
        if (!record->terms.filter)
            return problem_memory(why);
    }
    record->terms.interval_us = sqlite3_column_int64(s, 8);
    record->terms.is_simple = sqlite3_column_int(s, 9) != 0;
    record->terms.is_local =
        sqlite3_column_int(s, 10) != 0 && websub_is_loopback(record->callback);
    if (owner_init(&record->terms.owner, db_column(s, 11),
                   sqlite3_column_int64(s, 12)))
        return problem_memory(why);
    return STATUS_OK;
}

static enum status
read_subscription(sqlite3_stmt *s, struct hub_record *record,
                  struct problem *why)
{
    int64_t kind = sqlite3_column_int64(s, 13);

    if (kind < 0 || kind > SUBSCRIPTION_HUB)
        return problem(why, STATUS_IO,
                       "there is no kind %" PRId64 " of subscription", kind);
    if (sqlite3_column_type(s, 16) == SQLITE_NULL)
        return problem(why, STATUS_IO, "it has no cursor");
    record->kind = (enum subscription_kind)kind;
    record->created_us = sqlite3_column_int64(s, 14);
    record->lease_end_us = sqlite3_column_int64(s, 15);
    record->after = (uint64_t)sqlite3_column_int64(s, 16);
    record->range_last = (uint64_t)sqlite3_column_int64(s, 17);
    record->generation = (uint32_t)sqlite3_column_int64(s, 18);
    return STATUS_OK;
}

static enum status
read_request(sqlite3_stmt *s, struct hub_record *record, struct problem *why)
{
    int64_t mode = sqlite3_column_int64(s, 13);

    if (mode != WEBSUB_SUBSCRIBE && mode != WEBSUB_UNSUBSCRIBE)
        return problem(why, STATUS_IO, "there is no mode %" PRId64, mode);
    record->mode = (enum websub_mode)mode;
    record->topic_url = db_column(s, 14);
    record->taken_us = sqlite3_column_int64(s, 15);
    record->has_after = sqlite3_column_int(s, 16) != 0;
    record->after = (uint64_t)sqlite3_column_int64(s, 17);
    record->from = db_column(s, 18);
    return STATUS_OK;
}

/* Adds to an error which row could not be read or taken over. */
static void
name_row(struct problem *why, const char *what, uint64_t id)
{
    struct problem inner = *why;

    problem_set(why, "%s %" PRIu64 ": %s", what, id, inner.text);
}

/* A table that is read at the start. */
struct table {
    const char *row, *query;
    enum status (*read)(sqlite3_stmt *s, struct hub_record *record,
                        struct problem *why);
};

static enum status
read_table(struct hub_db *h, const struct table *table, hub_record_fn *fn,
           void *user, struct problem *why)
{
    sqlite3_stmt *statement = NULL;
    bool row = true;
    enum status rc = db_prepare(&h->db, &statement, table->query, why);

    while (!rc) {
        struct hub_record record = {0};

        rc = db_step(&h->db, statement, &row, "read it", why);
        if (rc || !row)
            break;
        rc = read_common(statement, &record, why);
        if (!rc)
            rc = table->read(statement, &record, why);
        if (!rc)
            rc = fn(&record, user, why);
        if (rc)
            name_row(why, table->row, record.id);
        terms_fini(&record.terms);
    }
    sqlite3_finalize(statement);
    return rc;
}

enum status
hub_db_each_subscription(struct hub_db *h, hub_record_fn *fn, void *user,
                         struct problem *why)
{
    static const struct table subscriptions = {
        "subscription",
        "SELECT " COMMON_COLUMNS ", kind, created, lease_end, after,"
        " range_last, generation FROM subscriptions LEFT JOIN cursors USING(id)"
        " ORDER BY id",
        read_subscription,
    };

    return read_table(h, &subscriptions, fn, user, why);
}

enum status
hub_db_each_request(struct hub_db *h, hub_record_fn *fn, void *user,
                    struct problem *why)
{
    static const struct table requests = {
        "request",
        "SELECT " COMMON_COLUMNS ", mode, topic_url, taken, has_after,"
        " after, requester FROM requests ORDER BY id",
        read_request,
    };

    return read_table(h, &requests, fn, user, why);
}

/* Writing */

void
hub_db_fail(struct hub_db *h, const struct problem *why)
{
    if (!h->has_failed)
        h->why = *why; /* the first error is the reason; others follow from
                          it */
    h->has_failed = true;
}

static void
fail_for_memory(struct hub_db *h)
{
    hub_db_fail(h, &(struct problem)PROBLEM_MEMORY);
}

static bool
add_row(struct rows *rows, struct row row)
{
    struct row *all = ONE_MORE(rows->all, &rows->capacity, rows->n);

    if (!all)
        return false;
    rows->all = all;
    all[rows->n++] = row;
    return true;
}

/* Notes that this turn writes the row. Without memory the turn must fail. */
static void
note_row(struct hub_db *h, enum hub_db_row kind, uint64_t id)
{
    if (add_row(&h->written, (struct row){kind, id}))
        return;
    h->is_behind_by_more = true;
    fail_for_memory(h);
}

static void
run_statement(struct hub_db *h, enum statement which)
{
    struct problem why = {""};

    if (!h->has_failed &&
        db_run(&h->db, h->db.statements[which], "write hub.db", &why))
        hub_db_fail(h, &why);
    sqlite3_clear_bindings(h->db.statements[which]); /* a secret may be lent */
}

static void
write_range(struct hub_db *h, uint64_t id, uint64_t after, uint64_t last)
{
    sqlite3_stmt *s = h->db.statements[SET_RANGE];

    sqlite3_bind_int64(s, 1, (sqlite3_int64)id);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)after);
    sqlite3_bind_int64(s, 3, (sqlite3_int64)last);
    run_statement(h, SET_RANGE);
}

/* Begins the transaction, and writes the ranges that waited for it: so hub.db
 * receives everything in the order of the calls. */
static void
begin_transaction(struct hub_db *h, bool is_firm)
{
    struct problem why = {""};
    const struct range *ranges = h->ranges;
    enum status rc;

    if (h->is_open || h->has_failed)
        return;
    rc = db_begin_firm(&h->db, is_firm, &why);
    if (rc) {
        hub_db_fail(h, &why);
        return;
    }
    h->is_open = true;
    if (h->owned && owned_db_begin(h->owned, &why))
        hub_db_fail(h, &why);
    for (size_t i = 0; i < h->n_ranges; i++)
        write_range(h, ranges[i].id, ranges[i].after, ranges[i].last);
    h->n_ranges = 0;
}

struct db *
hub_db_handle(struct hub_db *h)
{
    return &h->db;
}

void
hub_db_put_range(struct hub_db *h, uint64_t id, uint64_t after,
                 uint64_t range_last)
{
    struct range *ranges;

    note_row(h, HUB_DB_SUBSCRIPTION, id);
    if (h->is_open || h->has_failed) {
        write_range(h, id, after, range_last);
        return;
    }
    ranges = ONE_MORE(h->ranges, &h->ranges_capacity, h->n_ranges);
    if (!ranges) {
        fail_for_memory(h);
        return;
    }
    h->ranges = ranges;
    ranges[h->n_ranges++] = (struct range){id, after, range_last};
}

static void
write_cursor(struct hub_db *h, const struct subscription *s)
{
    sqlite3_stmt *to = h->db.statements[PUT_CURSOR];

    sqlite3_bind_int64(to, 1, (sqlite3_int64)s->id);
    sqlite3_bind_int64(to, 2, (sqlite3_int64)s->reader.after);
    sqlite3_bind_int64(to, 3, (sqlite3_int64)s->reader.upto);
    run_statement(h, PUT_CURSOR);
}

void
hub_db_put_cursor(struct hub_db *h, const struct subscription *s)
{
    note_row(h, HUB_DB_SUBSCRIPTION, s->id);
    begin_transaction(h, true);
    write_cursor(h, s);
}

static void
bind_text(sqlite3_stmt *s, int at, const char *text)
{
    if (text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, at);
}

/* Binds the parameters 1 to 13. */
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
    bind_text(s, 12, owner_name(&terms->owner));
    sqlite3_bind_int64(s, 13, terms->owner.ends_us);
}

void
hub_db_put_subscription(struct hub_db *h, const struct subscription *s)
{
    sqlite3_stmt *to = h->db.statements[PUT_SUBSCRIPTION];

    note_row(h, HUB_DB_SUBSCRIPTION, s->id);
    begin_transaction(h, true);
    bind_common(to, s->id, s->topic, s->callback, &s->terms);
    sqlite3_bind_int(to, 14, (int)s->kind);
    sqlite3_bind_int64(to, 15, s->created_us);
    sqlite3_bind_int64(to, 16, s->lease_end_us);
    sqlite3_bind_int64(to, 17, s->generation);
    run_statement(h, PUT_SUBSCRIPTION);
    write_cursor(h, s);
}

void
hub_db_put_request(struct hub_db *h, const struct verification *v)
{
    sqlite3_stmt *to = h->db.statements[PUT_REQUEST];

    note_row(h, HUB_DB_REQUEST, v->id);
    begin_transaction(h, true);
    bind_common(to, v->id, v->topic, v->callback, &v->terms);
    sqlite3_bind_int(to, 14, (int)v->mode);
    bind_text(to, 15, v->topic_url);
    sqlite3_bind_int64(to, 16, v->taken_us);
    sqlite3_bind_int(to, 17, v->has_after);
    sqlite3_bind_int64(to, 18, (sqlite3_int64)v->after);
    bind_text(to, 19, v->from);
    run_statement(h, PUT_REQUEST);
}

static void
delete_row(struct hub_db *h, enum statement which, uint64_t id)
{
    sqlite3_bind_int64(h->db.statements[which], 1, (sqlite3_int64)id);
    run_statement(h, which);
}

void
hub_db_delete_subscription(struct hub_db *h, uint64_t id)
{
    note_row(h, HUB_DB_SUBSCRIPTION, id);
    begin_transaction(h, true);
    delete_row(h, END_SUBSCRIPTION, id);
    delete_row(h, END_CURSOR, id);
}

void
hub_db_delete_request(struct hub_db *h, uint64_t id)
{
    note_row(h, HUB_DB_REQUEST, id);
    begin_transaction(h, true);
    delete_row(h, END_REQUEST, id);
}

/* Relays and their documents */

static void
bind_number(sqlite3_stmt *s, int n, uint64_t number)
{
    sqlite3_bind_int64(s, n, (sqlite3_int64)number);
}

static uint64_t
column_number(sqlite3_stmt *s, int column)
{
    return (uint64_t)sqlite3_column_int64(s, column);
}

static enum status
column_digest(sqlite3_stmt *s, int column, struct digest *digest,
              struct problem *why)
{
    struct slice bytes = db_column(s, column);

    if (bytes.size != DIGEST_SIZE)
        return problem(why, STATUS_IO, "a document has no digest");
    memcpy(digest->bytes, bytes.data, DIGEST_SIZE);
    return STATUS_OK;
}

/* The statement of a kind, bound to a document. */
static sqlite3_stmt *
bind_document(struct hub_db *h, enum statement which, uint64_t relay,
              uint64_t seq)
{
    sqlite3_stmt *s = h->db.statements[which];

    bind_number(s, 1, relay);
    bind_number(s, 2, seq);
    return s;
}

/* Sums up without bodies: reads an index, and one small row per document. */
static enum status
sum_up(struct hub_db *h, struct relay_record *relay, struct problem *why)
{
    sqlite3_stmt *s = h->db.statements[EACH_DOCUMENT];
    struct documents_sum *sum = &relay->documents;
    bool row = true;
    enum status rc = STATUS_OK;

    bind_number(s, 1, relay->id);
    while (!rc) {
        rc = db_step(&h->db, s, &row, "read the documents of a relay", why);
        if (rc || !row)
            break;
        if (sum->bytes == 0) /* no document is empty: this is the first one */
            sum->earliest = column_number(s, 0) - 1;
        sum->last_us = sqlite3_column_int64(s, 1);
        sum->bytes += column_number(s, 2);
        rc = column_digest(s, 3, &sum->last_digest, why);
    }
    sqlite3_reset(s);
    return rc;
}

enum status
hub_db_each_relay(struct hub_db *h, hub_relay_fn *fn, void *user,
                  struct problem *why)
{
    sqlite3_stmt *s = h->db.statements[EACH_RELAY];
    enum status rc = db_run(&h->db, h->db.statements[END_ORPHANS],
                            "delete the documents of removed relays", why);
    bool row = true;

    while (!rc) {
        struct relay_record relay;

        rc = db_step(&h->db, s, &row, "read the relays", why);
        if (rc || !row)
            break;
        relay = (struct relay_record){
            .id = column_number(s, 0),
            .name = db_column(s, 1),
            .topic = db_column(s, 2),
            .hub = db_column(s, 3),
            .epoch = db_column(s, 4),
            .documents.earliest = column_number(s, 5),
            .documents.last = column_number(s, 5),
        };
        rc = sum_up(h, &relay, why);
        if (!rc)
            rc = fn(&relay, user, why);
    }
    sqlite3_reset(s);
    return rc;
}

void
hub_db_add_relay(struct hub_db *h, struct relay_record *relay)
{
    sqlite3_stmt *s = h->db.statements[ADD_RELAY];

    begin_transaction(h, true);
    db_bind_text(s, 1, relay->name);
    db_bind_text(s, 2, relay->topic);
    db_bind_text(s, 3, relay->hub);
    db_bind_text(s, 4, relay->epoch);
    run_statement(h, ADD_RELAY);
    if (!h->has_failed)
        relay->id = (uint64_t)sqlite3_last_insert_rowid(h->db.handle);
}

void
hub_db_set_relay_hub(struct hub_db *h, uint64_t id, struct slice hub)
{
    sqlite3_stmt *s = h->db.statements[SET_RELAY_HUB];

    begin_transaction(h, true);
    bind_number(s, 1, id);
    db_bind_text(s, 2, hub);
    run_statement(h, SET_RELAY_HUB);
}

void
hub_db_delete_relay(struct hub_db *h, uint64_t id)
{
    begin_transaction(h, true);
    delete_row(h, END_RELAY, id);
}

void
hub_db_add_document(struct hub_db *h, const struct document_record *d)
{
    sqlite3_stmt *s = bind_document(h, ADD_DOCUMENT, d->relay, d->seq);

    begin_transaction(h, true);
    sqlite3_bind_int64(s, 3, d->received_us);
    bind_number(s, 4, d->body.size);
    db_bind_bytes(s, 5,
                  (struct slice){(const char *)d->digest.bytes, DIGEST_SIZE});
    db_bind_text(s, 6, d->type);
    if (d->key.size > 0)
        db_bind_text(s, 7, d->key);
    else
        sqlite3_bind_null(s, 7);
    db_bind_bytes(s, 8, d->body);
    run_statement(h, ADD_DOCUMENT);
    bind_document(h, SET_RELAY_LAST, d->relay, d->seq);
    run_statement(h, SET_RELAY_LAST);
}

uint64_t
hub_db_drop_document(struct hub_db *h, uint64_t relay, uint64_t seq)
{
    sqlite3_stmt *s = bind_document(h, DOCUMENT_SIZE, relay, seq);
    struct problem why = {""};
    uint64_t size = 0;
    bool row = false;

    begin_transaction(h, true);
    if (db_step(&h->db, s, &row, "look at a document", &why))
        hub_db_fail(h, &why);
    else if (row)
        size = column_number(s, 0);
    sqlite3_reset(s);
    bind_document(h, END_DOCUMENT, relay, seq);
    run_statement(h, END_DOCUMENT);
    return size;
}

bool
hub_db_forget_documents(struct hub_db *h, uint64_t relay)
{
    sqlite3_stmt *s =
        bind_document(h, OLDEST_DOCUMENTS, relay, FORGET_DOCUMENTS);
    struct problem why = {""};
    uint64_t seqs[FORGET_DOCUMENTS], bytes = 0;
    size_t n = 0;
    bool row = true;

    while (row && bytes < FORGET_BYTES && n < FORGET_DOCUMENTS) {
        if (db_step(&h->db, s, &row, "look at a document", &why)) {
            hub_db_fail(h, &why);
            break;
        }
        if (row) {
            seqs[n++] = column_number(s, 0);
            bytes += column_number(s, 1);
        }
    }
    sqlite3_reset(s);
    for (size_t i = 0; i < n; i++)
        hub_db_drop_document(h, relay, seqs[i]);
    return row || h->has_failed;
}

enum status
hub_db_read_document(struct hub_db *h, uint64_t relay, uint64_t seq,
                     struct buf *to, char type[DOCUMENT_TYPE_MAX + 1],
                     struct problem *why)
{
    sqlite3_stmt *s = bind_document(h, READ_DOCUMENT, relay, seq);
    bool row = false;
    enum status rc = db_step(&h->db, s, &row, "read a document", why);

    if (!rc && !row)
        rc = problem(why, STATUS_NOT_FOUND, "no such document");
    if (!rc) {
        snprintf(type, DOCUMENT_TYPE_MAX + 1, "%.*s",
                 SLICE_ARG(db_column(s, 0)));
        buf_add_slice(to, db_column(s, 1));
        if (to->failed)
            rc = problem_memory(why);
    }
    sqlite3_reset(s);
    return rc;
}

enum status
hub_db_find_document(struct hub_db *h, uint64_t relay, struct slice key,
                     struct digest *digest, bool *found, struct problem *why)
{
    sqlite3_stmt *s = h->db.statements[FIND_DOCUMENT];
    enum status rc;

    bind_number(s, 1, relay);
    db_bind_text(s, 2, key);
    *found = false;
    rc = db_step(&h->db, s, found, "look for a document", why);
    if (!rc && *found)
        rc = column_digest(s, 0, digest, why);
    db_reset(s);
    return rc;
}

/* The end of a turn */

void
hub_db_add_hook(struct hub_db *h, struct hub_db_hook *hook)
{
    list_append(&h->hooks, &hook->node);
}

bool
hub_db_is_begun(const struct hub_db *h)
{
    return h->is_open || h->has_failed || h->written.n > 0;
}

static void
end_turn(struct hub_db *h, bool is_kept)
{
    struct list *node, *after;

    for (size_t i = 0; !is_kept && i < h->written.n; i++)
        if (!add_row(&h->behind, h->written.all[i]))
            h->is_behind_by_more = true;
    h->written.n = 0;
    h->n_ranges = 0;
    if (h->owned)
        owned_db_end(h->owned, is_kept);
    h->is_open = h->has_failed = false;
    list_foreach (node, after, &h->hooks) {
        struct hub_db_hook *hook = list_entry(node, struct hub_db_hook, node);

        hook->ended(hook, is_kept);
    }
}

void
hub_db_rollback(struct hub_db *h)
{
    db_rollback(&h->db);
    end_turn(h, false);
}

enum status
hub_db_commit(struct hub_db *h, struct problem *why)
{
    struct problem inner = {""};
    enum status rc = STATUS_OK;

    if (!hub_db_is_begun(h))
        return STATUS_OK;
    if (!h->is_open)
        begin_transaction(h, false); /* only ranges were written */
    if (!h->has_failed && h->owned)
        rc = owned_db_append(h->owned, &inner);
    if (!rc && !h->has_failed)
        rc = db_end(&h->db, STATUS_OK, &inner);
    if (rc)
        hub_db_fail(h, &inner);
    if (h->has_failed) {
        if (why)
            *why = h->why;
        hub_db_rollback(h);
        return STATUS_BUSY;
    }
    end_turn(h, true);
    return STATUS_OK;
}

void
hub_db_clear(struct hub_db *h)
{
    begin_transaction(h, true);
    run_statement(h, CLEAR_SUBSCRIPTIONS);
    run_statement(h, CLEAR_CURSORS);
    run_statement(h, CLEAR_REQUESTS);
}

/* Rows that are older than memory */

bool
hub_db_is_behind(const struct hub_db *h)
{
    return h->behind.n > 0 || h->is_behind_by_more;
}

void
hub_db_note_stale(struct hub_db *h, enum hub_db_row kind, uint64_t id)
{
    (void)add_row(&h->behind, (struct row){kind, id});
}

static int
compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The rows are sorted, each once; HUB_DB_ALL would be the last. */
void
hub_db_write_again(struct hub_db *h,
                   void (*fn)(enum hub_db_row row, uint64_t id, void *user),
                   void *user)
{
    struct rows rows = h->behind;
    bool is_all = h->is_behind_by_more;

    h->behind = (struct rows){NULL, 0, 0};
    h->is_behind_by_more = false;
    if (rows.n > 0) {
        qsort(rows.all, rows.n, sizeof(*rows.all), compare_rows);
        is_all |= rows.all[rows.n - 1].kind == HUB_DB_ALL;
    }
    if (is_all) {
        note_row(h, HUB_DB_ALL, 0); /* that may not be kept either */
        fn(HUB_DB_ALL, 0, user);
    }
    for (size_t i = 0; !is_all && i < rows.n; i++)
        if (i == 0 || compare_rows(&rows.all[i - 1], &rows.all[i]))
            fn(rows.all[i].kind, rows.all[i].id, user);
    free(rows.all);
}
