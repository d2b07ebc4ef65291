#include "broker/hub/relay_db.h"

#include <stdio.h>
#include <stdlib.h>

/* One step deletes so many documents of a removed relay, or documents with so
 * many bytes: SQLite visits each page of a large body to free it. */
#define FORGET_DOCUMENTS 100
#define FORGET_BYTES     (16 << 20)

enum statement {
    S_RELAYS,
    S_SUM,
    S_ORPHANS,
    S_ADD,
    S_SET_HUB,
    S_REMOVE,
    S_ADD_DOCUMENT,
    S_SET_LAST,
    S_SIZE,
    S_DROP,
    S_OLDEST,
    S_READ,
    S_FIND_KEY,
    STATEMENTS
};

static const char *const sql[STATEMENTS] = {
    [S_RELAYS] = "SELECT id, name, topic, hub, epoch, last FROM relays"
                 " ORDER BY name",
    [S_SUM] = "SELECT seq, received_us, size, digest FROM documents"
              " WHERE relay = ? ORDER BY seq",
    [S_ORPHANS] = "DELETE FROM documents WHERE relay NOT IN"
                  " (SELECT id FROM relays)",
    [S_ADD] = "INSERT INTO relays(name, topic, hub, epoch) VALUES(?, ?, ?, ?)",
    [S_SET_HUB] = "UPDATE relays SET hub = ?2 WHERE id = ?1",
    [S_REMOVE] = "DELETE FROM relays WHERE id = ?",
    [S_ADD_DOCUMENT] = "INSERT INTO documents(relay, seq, received_us, size,"
                       " digest, type, key, body)"
                       " VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
    [S_SET_LAST] = "UPDATE relays SET last = ?2 WHERE id = ?1",
    [S_SIZE] = "SELECT size FROM documents WHERE relay = ? AND seq = ?",
    [S_DROP] = "DELETE FROM documents WHERE relay = ? AND seq = ?",
    [S_OLDEST] = "SELECT seq, size FROM documents WHERE relay = ?"
                 " ORDER BY seq LIMIT ?",
    [S_READ] = "SELECT type, body FROM documents WHERE relay = ? AND seq = ?",
    [S_FIND_KEY] = "SELECT digest FROM documents WHERE relay = ? AND key = ?",
};

struct relay_db {
    struct db *db;
    sqlite3_stmt *statements[STATEMENTS];
};

enum status
relay_db_open(struct relay_db **made, struct db *db, struct problem *why)
{
    struct relay_db *r = calloc(1, sizeof(*r));
    enum status rc = STATUS_OK;

    if (!r)
        return problem_memory(why);
    r->db = db;
    for (int i = 0; !rc && i < STATEMENTS; i++)
        rc = db_prepare(db, &r->statements[i], sql[i], why);
    if (rc)
        relay_db_close(r);
    else
        *made = r;
    return rc;
}

void
relay_db_close(struct relay_db *r)
{
    if (!r)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(r->statements[i]);
    free(r);
}

static void
bind_number(sqlite3_stmt *s, int n, uint64_t number)
{
    sqlite3_bind_int64(s, n, (sqlite3_int64)number);
}

/* SQLITE_STATIC: the bytes outlive the step, which comes next. */
static void
bind_text(sqlite3_stmt *s, int n, struct slice text)
{
    sqlite3_bind_text64(s, n, text.size ? text.data : "", text.size,
                        SQLITE_STATIC, SQLITE_UTF8);
}

static void
bind_blob(sqlite3_stmt *s, int n, const void *bytes, size_t size)
{
    sqlite3_bind_blob64(s, n, size ? bytes : "", size, SQLITE_STATIC);
}

static uint64_t
column_number(sqlite3_stmt *s, int column)
{
    return (uint64_t)sqlite3_column_int64(s, column);
}

/* STATUS_IO: the column holds no digest. */
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

/* Steps and resets the statement: it lends nothing afterwards. */
static enum status
run_statement(struct relay_db *r, sqlite3_stmt *s, const char *what,
              struct problem *why)
{
    enum status rc = db_run(r->db, s, what, why);

    sqlite3_clear_bindings(s); /* they may be lent */
    return rc;
}

/* Relays */

/* Sums up without bodies: reads an index, and one small row per document. */
static enum status
sum_up(struct relay_db *r, uint64_t relay, struct documents_sum *sum,
       struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_SUM];
    bool row = true, is_first = true;
    enum status rc = STATUS_OK;

    bind_number(s, 1, relay);
    while (!rc && row) {
        rc = db_step(r->db, s, &row, "read the documents of a relay", why);
        if (rc || !row)
            break;
        if (is_first)
            sum->earliest = column_number(s, 0) - 1;
        is_first = false;
        sum->last_us = sqlite3_column_int64(s, 1);
        sum->bytes += column_number(s, 2);
        rc = column_digest(s, 3, &sum->last_digest, why);
    }
    sqlite3_reset(s);
    return rc;
}

enum status
relay_db_each(struct relay_db *r,
              enum status (*fn)(const struct relay_record *,
                                const struct documents_sum *, void *,
                                struct problem *),
              void *user, struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_RELAYS];
    enum status rc =
        run_statement(r, r->statements[S_ORPHANS],
                      "delete the documents of removed relays", why);
    bool row = true;

    while (!rc) {
        struct relay_record relay;
        struct documents_sum sum = {.last_us = 0};

        rc = db_step(r->db, s, &row, "read the relays", why);
        if (rc || !row)
            break;
        relay = (struct relay_record){
            .id = column_number(s, 0),
            .name = db_column(s, 1),
            .topic = db_column(s, 2),
            .hub = db_column(s, 3),
            .epoch = db_column(s, 4),
            .last = column_number(s, 5),
        };
        sum.last = sum.earliest = relay.last;
        rc = sum_up(r, relay.id, &sum, why);
        if (!rc)
            rc = fn(&relay, &sum, user, why);
    }
    sqlite3_reset(s);
    return rc;
}

enum status
relay_db_add(struct relay_db *r, struct relay_record *relay,
             struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_ADD];
    enum status rc;

    bind_text(s, 1, relay->name);
    bind_text(s, 2, relay->topic);
    bind_text(s, 3, relay->hub);
    bind_text(s, 4, relay->epoch);
    rc = run_statement(r, s, "keep a relay", why);
    if (!rc)
        relay->id = (uint64_t)sqlite3_last_insert_rowid(r->db->handle);
    return rc;
}

enum status
relay_db_set_hub(struct relay_db *r, uint64_t id, struct slice hub,
                 struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_SET_HUB];

    bind_number(s, 1, id);
    bind_text(s, 2, hub);
    return run_statement(r, s, "keep a relay", why);
}

enum status
relay_db_remove(struct relay_db *r, uint64_t id, struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_REMOVE];

    bind_number(s, 1, id);
    return run_statement(r, s, "remove a relay", why);
}

/* Documents */

enum status
relay_db_add_document(struct relay_db *r, const struct document_record *d,
                      struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_ADD_DOCUMENT];
    enum status rc;

    bind_number(s, 1, d->relay);
    bind_number(s, 2, d->seq);
    sqlite3_bind_int64(s, 3, d->received_us);
    bind_number(s, 4, d->body.size);
    bind_blob(s, 5, d->digest.bytes, DIGEST_SIZE);
    bind_text(s, 6, d->type);
    if (d->key.size > 0)
        bind_text(s, 7, d->key);
    else
        sqlite3_bind_null(s, 7);
    bind_blob(s, 8, d->body.data, d->body.size);
    rc = run_statement(r, s, "keep a document", why);
    if (rc)
        return rc;
    s = r->statements[S_SET_LAST];
    bind_number(s, 1, d->relay);
    bind_number(s, 2, d->seq);
    return run_statement(r, s, "keep a document", why);
}

enum status
relay_db_drop(struct relay_db *r, uint64_t relay, uint64_t seq, uint64_t *bytes,
              struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_SIZE];
    bool row = false;
    enum status rc;

    bind_number(s, 1, relay);
    bind_number(s, 2, seq);
    rc = db_step(r->db, s, &row, "look at a document", why);
    if (!rc && row)
        *bytes -= column_number(s, 0);
    sqlite3_reset(s);
    if (rc || !row)
        return rc;
    s = r->statements[S_DROP];
    bind_number(s, 1, relay);
    bind_number(s, 2, seq);
    return run_statement(r, s, "delete a document", why);
}

enum status
relay_db_forget(struct relay_db *r, uint64_t relay, bool *more,
                struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_OLDEST];
    uint64_t seqs[FORGET_DOCUMENTS], bytes = 0;
    size_t n = 0;
    bool row = true;
    enum status rc = STATUS_OK;

    bind_number(s, 1, relay);
    bind_number(s, 2, FORGET_DOCUMENTS);
    while (bytes < FORGET_BYTES && n < FORGET_DOCUMENTS) {
        rc = db_step(r->db, s, &row, "look at a document", why);
        if (rc || !row)
            break;
        seqs[n++] = column_number(s, 0);
        bytes += column_number(s, 1);
    }
    sqlite3_reset(s);
    for (size_t i = 0; !rc && i < n; i++)
        rc = relay_db_drop(r, relay, seqs[i], &bytes, why);
    *more = row;
    return rc;
}

enum status
relay_db_read(struct relay_db *r, uint64_t relay, uint64_t seq, struct buf *to,
              char type[DOCUMENT_TYPE_MAX + 1], struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_READ];
    bool row = false;
    enum status rc;

    bind_number(s, 1, relay);
    bind_number(s, 2, seq);
    rc = db_step(r->db, s, &row, "read a document", why);
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
relay_db_find_key(struct relay_db *r, uint64_t relay, struct slice key,
                  bool *found, struct digest *digest, struct problem *why)
{
    sqlite3_stmt *s = r->statements[S_FIND_KEY];
    enum status rc;

    bind_number(s, 1, relay);
    bind_text(s, 2, key);
    *found = false;
    rc = db_step(r->db, s, found, "look for a document", why);
    if (!rc && *found)
        rc = column_digest(s, 0, digest, why);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return rc;
}
