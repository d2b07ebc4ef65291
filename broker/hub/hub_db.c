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
#include "base/db_rows.h"
#include "broker/hub/relay.h"
#include "broker/hub/verification.h"
#include "proto/memory.h"

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

/* The client whose limits count. Subscriptions of earlier versions without a
 * token count for the hub. */
#define REQUESTER_STEP                                                     \
    "ALTER TABLE subscriptions ADD COLUMN requester TEXT NOT NULL DEFAULT" \
    " '';"

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
    REQUESTER_STEP,
};

/* One step deletes so many documents of a removed relay, or documents with so
 * many bytes: SQLite visits each page of a large body to free it. */
#define FORGET_DOCUMENTS 100
#define FORGET_BYTES     (16 << 20)

const struct db_kind hub_db_kind = {
    .mode = DB_SMALL,
    .steps = steps,
    .n_steps = sizeof(steps) / sizeof(steps[0]),
    .opening = "PRAGMA secure_delete=ON", /* overwrites freed secrets */
};

const struct owned_file hub_db_file = {"hub.db", "hub", "hub", &hub_db_kind};

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
hub_db_open(struct hub_db **db, const char *dir,
            const struct ownership_right *right, struct problem *why)
{
    struct hub_db *h = memory_new(1, sizeof(*h));
    enum status rc;

    list_init(&h->hooks);
    rc = owned_file_open(&hub_db_file, &h->db, &h->owned, dir, right, why);
    if (!rc)
        rc = read_last_id(h, why);
    if (rc)
        hub_db_close(h);
    else
        *db = h;
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

/* The columns that both tables have, and where a row of them is read to. */
#define COMMON_COLUMNS                                              \
    "id, topic_kind, name, epoch, callback, lease, secret, filter," \
    " interval, is_simple, is_local, owner, owner_ends, requester"

#define COMMON_PLACES(r, l)                                                   \
    &(r)->id, &(r)->topic_kind, &(r)->name, &(r)->epoch, &(r)->callback,      \
        &(r)->terms.lease_us, &(l)->secret, &(l)->filter,                     \
        &(r)->terms.interval_us, &(r)->terms.is_simple, &(r)->terms.is_local, \
        &(l)->owner, &(l)->owner_ends_us, &(l)->requester

/* What the terms of a record are made of. */
struct lent_terms {
    struct slice secret, filter, owner, requester;
    int64_t owner_ends_us;
};

static enum status
make_terms(struct hub_record *record, const struct lent_terms *lent,
           struct problem *why)
{
    struct terms *terms = &record->terms;

    if (record->topic_kind > TOPIC_RELAY)
        return problem(why, STATUS_IO, "there is no kind %d of topic",
                       (int)record->topic_kind);
    if (lent->secret.size > WEBSUB_SECRET_MAX)
        return problem(why, STATUS_IO, "a secret is too long");
    if (lent->secret.size > 0)
        memcpy(terms->secret, lent->secret.data, lent->secret.size);
    terms->secret_size = lent->secret.size;
    if (lent->filter.size > 0)
        terms->filter = slice_dup(lent->filter);
    terms->is_local &= websub_is_loopback(record->callback);
    owner_init(&terms->owner, lent->owner, lent->owner_ends_us,
               lent->requester);
    return STATUS_OK;
}

/* Hands over a row that was read, unless `rc` is its error. An error says which
 * row could not be read or taken over. */
static enum status
hand_over(struct hub_record *record, const struct lent_terms *lent,
          enum status rc, hub_record_fn *fn, void *user, struct problem *why)
{
    if (!rc)
        rc = make_terms(record, lent, why);
    if (!rc)
        rc = fn(record, user, why);
    if (rc)
        problem_prefix(why, rc, "%s %" PRIu64 ": ",
                       record->row == HUB_DB_REQUEST ? "request"
                                                     : "subscription",
                       record->id);
    terms_fini(&record->terms);
    return rc;
}

enum status
hub_db_each_subscription(struct hub_db *h, hub_record_fn *fn, void *user,
                         struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&h->db, "read it", why,
                  "SELECT " COMMON_COLUMNS ", kind, created, lease_end,"
                  " after IS NOT NULL, after, range_last, generation"
                  " FROM subscriptions LEFT JOIN cursors USING(id)"
                  " ORDER BY id");
    struct hub_record record = {0}, *r = &record;
    struct lent_terms lent;
    bool has_cursor;

    while (DB_NEXT(&rows, COMMON_PLACES(r, &lent), &r->kind, &r->created_us,
                   &r->lease_end_us, &has_cursor, &r->after, &r->range_last,
                   &r->generation)) {
        if (r->kind > SUBSCRIPTION_HUB)
            rows.rc =
                problem(why, STATUS_IO, "there is no kind %d of subscription",
                        (int)r->kind);
        else if (!has_cursor)
            rows.rc = problem(why, STATUS_IO, "it has no cursor");
        rows.rc = hand_over(r, &lent, rows.rc, fn, user, why);
    }
    return db_rows_end(&rows);
}

enum status
hub_db_each_request(struct hub_db *h, hub_record_fn *fn, void *user,
                    struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&h->db, "read it", why,
                  "SELECT " COMMON_COLUMNS ", mode, topic_url, taken,"
                  " has_after, after FROM requests ORDER BY id");
    struct hub_record record = {.row = HUB_DB_REQUEST}, *r = &record;
    struct lent_terms lent;

    while (DB_NEXT(&rows, COMMON_PLACES(r, &lent), &r->mode, &r->topic_url,
                   &r->taken_us, &r->has_after, &r->after)) {
        if (r->mode != WEBSUB_SUBSCRIBE && r->mode != WEBSUB_UNSUBSCRIBE)
            rows.rc =
                problem(why, STATUS_IO, "there is no mode %d", (int)r->mode);
        rows.rc = hand_over(r, &lent, rows.rc, fn, user, why);
    }
    return db_rows_end(&rows);
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
    if (!ONE_MORE(rows->all, &rows->capacity, rows->n))
        return false;
    rows->all[rows->n++] = row;
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
run_statement(struct hub_db *h, const char *sql, const struct db_value *values)
{
    struct problem why = {""};

    if (!h->has_failed && db_do(&h->db, NULL, &why, sql, values))
        hub_db_fail(h, &why);
}

/* Does nothing if the subscription has ended meanwhile. */
static void
write_range(struct hub_db *h, uint64_t id, uint64_t after, uint64_t last)
{
    run_statement(h, "UPDATE cursors SET after=?, range_last=? WHERE id=?",
                  DB_VALUES(after, last, id));
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
    rc = owned_db_begin(&h->db, h->owned, is_firm, &why);
    if (rc) {
        hub_db_fail(h, &why);
        return;
    }
    h->is_open = true;
    for (size_t i = 0; i < h->n_ranges; i++)
        write_range(h, ranges[i].id, ranges[i].after, ranges[i].last);
    h->n_ranges = 0;
}

/* Runs a statement whose commit needs an fsync. */
static void
write_row(struct hub_db *h, const char *sql, const struct db_value *values)
{
    begin_transaction(h, true);
    run_statement(h, sql, values);
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
    note_row(h, HUB_DB_SUBSCRIPTION, id);
    if (h->is_open || h->has_failed) {
        write_range(h, id, after, range_last);
        return;
    }
    if (!ONE_MORE(h->ranges, &h->ranges_capacity, h->n_ranges)) {
        fail_for_memory(h);
        return;
    }
    h->ranges[h->n_ranges++] = (struct range){id, after, range_last};
}

void
hub_db_put_cursor(struct hub_db *h, const struct subscription *s)
{
    note_row(h, HUB_DB_SUBSCRIPTION, s->id);
    write_row(h,
              "INSERT OR REPLACE INTO cursors(id, after, range_last)"
              " VALUES(?,?,?)",
              DB_VALUES(s->id, s->reader.after, s->reader.upto));
}

/* The values of COMMON_COLUMNS, of a subscription or a verification. */
#define COMMON_VALUES(of)                                                   \
    (of)->id, (of)->topic->kind,                                            \
        (of)->topic->kind == TOPIC_RELAY ? (of)->topic->relay->name         \
                                         : (of)->topic->set->name,          \
        (of)->topic->epoch, (of)->callback, (of)->terms.lease_us,           \
        db_bytes((of)->terms.secret, (of)->terms.secret_size),              \
        (of)->terms.filter, (of)->terms.interval_us, (of)->terms.is_simple, \
        (of)->terms.is_local, owner_name(&(of)->terms.owner),               \
        (of)->terms.owner.ends_us, (of)->terms.owner.requester
#define COMMON_PARAMETERS "?,?,?,?,?,?,nullif(?,x''),?,?,?,?,?,?,?"

void
hub_db_put_subscription(struct hub_db *h, const struct subscription *s)
{
    write_row(h,
              "INSERT OR REPLACE INTO subscriptions(" COMMON_COLUMNS
              ", kind, created, lease_end, generation)"
              " VALUES(" COMMON_PARAMETERS ",?,?,?,?)",
              DB_VALUES(COMMON_VALUES(s), s->kind, s->created_us,
                        s->lease_end_us, s->generation));
    hub_db_put_cursor(h, s);
}

void
hub_db_put_request(struct hub_db *h, const struct verification *v)
{
    note_row(h, HUB_DB_REQUEST, v->id);
    write_row(h,
              "INSERT OR REPLACE INTO requests(" COMMON_COLUMNS
              ", mode, topic_url, taken, has_after, after)"
              " VALUES(" COMMON_PARAMETERS ",?,?,?,?,?)",
              DB_VALUES(COMMON_VALUES(v), v->mode, v->topic_url, v->taken_us,
                        v->has_after, v->after));
}

void
hub_db_delete_subscription(struct hub_db *h, uint64_t id)
{
    note_row(h, HUB_DB_SUBSCRIPTION, id);
    write_row(h, "DELETE FROM subscriptions WHERE id=?", DB_VALUES(id));
    write_row(h, "DELETE FROM cursors WHERE id=?", DB_VALUES(id));
}

void
hub_db_delete_request(struct hub_db *h, uint64_t id)
{
    note_row(h, HUB_DB_REQUEST, id);
    write_row(h, "DELETE FROM requests WHERE id=?", DB_VALUES(id));
}

/* Relays and their documents */

static enum status
take_digest(struct slice bytes, struct digest *digest, struct problem *why)
{
    if (bytes.size != DIGEST_SIZE)
        return problem(why, STATUS_IO, "a document has no digest");
    memcpy(digest->bytes, bytes.data, DIGEST_SIZE);
    return STATUS_OK;
}

/* Sums up without bodies: reads an index, and one small row per document. */
static enum status
sum_up(struct hub_db *h, struct relay_record *relay, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&h->db, "read the documents of a relay", why,
                  "SELECT seq, received_us, size, digest FROM documents"
                  " WHERE relay=? ORDER BY seq",
                  relay->id);
    struct documents_sum *sum = &relay->documents;
    struct slice digest;
    uint64_t seq, size;

    while (DB_NEXT(&rows, &seq, &sum->last_us, &size, &digest)) {
        if (sum->bytes == 0) /* no document is empty: this is the first one */
            sum->earliest = seq - 1;
        sum->bytes += size;
        rows.rc = take_digest(digest, &sum->last_digest, why);
    }
    return db_rows_end(&rows);
}

enum status
hub_db_each_relay(struct hub_db *h, hub_relay_fn *fn, void *user,
                  struct problem *why)
{
    enum status rc =
        DB_DO(&h->db, "delete the documents of removed relays", why,
              "DELETE FROM documents WHERE relay NOT IN"
              " (SELECT id FROM relays)");
    struct relay_record r = {0};
    struct db_rows rows;

    if (rc)
        return rc;
    rows = DB_SELECT(&h->db, "read the relays", why,
                     "SELECT id, name, topic, hub, epoch, last FROM relays"
                     " ORDER BY name");
    while (DB_NEXT(&rows, &r.id, &r.name, &r.topic, &r.hub, &r.epoch,
                   &r.documents.last)) {
        r.documents = (struct documents_sum){.earliest = r.documents.last,
                                             .last = r.documents.last};
        rows.rc = sum_up(h, &r, why);
        if (!rows.rc)
            rows.rc = fn(&r, user, why);
    }
    return db_rows_end(&rows);
}

void
hub_db_add_relay(struct hub_db *h, struct relay_record *relay)
{
    write_row(h, "INSERT INTO relays(name, topic, hub, epoch) VALUES(?,?,?,?)",
              DB_VALUES(relay->name, relay->topic, relay->hub, relay->epoch));
    if (!h->has_failed)
        relay->id = (uint64_t)sqlite3_last_insert_rowid(h->db.handle);
}

void
hub_db_set_relay_hub(struct hub_db *h, uint64_t id, struct slice hub)
{
    write_row(h, "UPDATE relays SET hub=? WHERE id=?", DB_VALUES(hub, id));
}

void
hub_db_delete_relay(struct hub_db *h, uint64_t id)
{
    write_row(h, "DELETE FROM relays WHERE id=?", DB_VALUES(id));
}

void
hub_db_add_document(struct hub_db *h, const struct document_record *d)
{
    write_row(h,
              "INSERT INTO documents(relay, seq, received_us, size, digest,"
              " type, key, body) VALUES(?,?,?,?,?,?,nullif(?,''),?)",
              DB_VALUES(d->relay, d->seq, d->received_us, d->body.size,
                        &d->digest, d->type, d->key, db_blob(d->body)));
    write_row(h, "UPDATE relays SET last=? WHERE id=?",
              DB_VALUES(d->seq, d->relay));
}

uint64_t
hub_db_drop_document(struct hub_db *h, uint64_t relay, uint64_t seq)
{
    struct problem why = {""};
    uint64_t size = 0;

    begin_transaction(h, true);
    if (!h->has_failed &&
        db_find(&h->db, NULL, &why, NULL,
                "DELETE FROM documents WHERE relay=? AND seq=? RETURNING size",
                DB_VALUES(relay, seq), DB_INTO(&size)))
        hub_db_fail(h, &why);
    return size;
}

bool
hub_db_forget_documents(struct hub_db *h, uint64_t relay)
{
    struct problem why = {""};
    struct db_rows rows = DB_SELECT(
        &h->db, "look at a document", &why,
        "SELECT seq, size FROM documents WHERE relay=? ORDER BY seq", relay);
    uint64_t last = 0, size, bytes = 0;
    bool is_more = true;

    for (int n = 0; is_more && bytes < FORGET_BYTES && n < FORGET_DOCUMENTS;
         n++) {
        is_more = DB_NEXT(&rows, &last, &size);
        bytes += is_more ? size : 0;
    }
    if (db_rows_end(&rows))
        hub_db_fail(h, &why);
    if (last > 0)
        write_row(h, "DELETE FROM documents WHERE relay=? AND seq<=?",
                  DB_VALUES(relay, last));
    return is_more || h->has_failed;
}

enum status
hub_db_read_document(struct hub_db *h, uint64_t relay, uint64_t seq,
                     struct buf *to, char type[DOCUMENT_TYPE_MAX + 1],
                     struct problem *why)
{
    bool is_there;
    enum status rc =
        db_find(&h->db, "read a document", why, &is_there,
                "SELECT type, body FROM documents WHERE relay=? AND seq=?",
                DB_VALUES(relay, seq),
                DB_INTO((char(*)[DOCUMENT_TYPE_MAX + 1]) type, to));

    if (!rc && !is_there)
        rc = problem(why, STATUS_NOT_FOUND, "no such document");
    if (!rc && to->failed)
        rc = problem_memory(why);
    return rc;
}

enum status
hub_db_find_document(struct hub_db *h, uint64_t relay, struct slice key,
                     struct digest *digest, bool *found, struct problem *why)
{
    struct db_rows rows = DB_SELECT(
        &h->db, "look for a document", why,
        "SELECT digest FROM documents WHERE relay=? AND key=?", relay, key);
    struct slice bytes;

    *found = DB_NEXT(&rows, &bytes);
    if (*found)
        rows.rc = take_digest(bytes, digest, why);
    return db_rows_end(&rows);
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
    struct list *after;
    struct hub_db_hook *hook;

    for (size_t i = 0; !is_kept && i < h->written.n; i++)
        if (!add_row(&h->behind, h->written.all[i]))
            h->is_behind_by_more = true;
    h->written.n = 0;
    h->n_ranges = 0;
    h->is_open = h->has_failed = false;
    list_each (hook, after, &h->hooks, node)
        hook->ended(hook, is_kept);
}

void
hub_db_rollback(struct hub_db *h)
{
    (void)!owned_db_end(&h->db, h->owned, STATUS_BUSY, NULL);
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
    if (!h->has_failed)
        rc = owned_db_end(&h->db, h->owned, STATUS_OK, &inner);
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
    write_row(h, "DELETE FROM subscriptions WHERE 1", DB_VALUES());
    write_row(h, "DELETE FROM cursors WHERE 1", DB_VALUES());
    write_row(h, "DELETE FROM requests WHERE 1", DB_VALUES());
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
