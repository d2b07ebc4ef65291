#include "broker/state/contentrows.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "broker/base/diag.h"
#include "broker/state/content_files.h"

static const char *const steps[] = {
    "CREATE TABLE entries("
    " seq INTEGER PRIMARY KEY, until INTEGER, digest BLOB);"
    "CREATE INDEX overtaken ON entries(seq) WHERE until IS NOT NULL;"
    "CREATE TABLE current("
    " key BLOB PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE files("
    " digest BLOB PRIMARY KEY, length INTEGER NOT NULL, n INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX loose ON files(digest) WHERE n=0;"
    "CREATE TABLE missing("
    " seq INTEGER PRIMARY KEY, due INTEGER, tries INTEGER NOT NULL, loc BLOB,"
    " hash TEXT, length INTEGER);"
    "CREATE INDEX due ON missing(due) WHERE due IS NOT NULL;"
    "CREATE TABLE state("
    " id INTEGER PRIMARY KEY, epoch TEXT NOT NULL, seq INTEGER NOT NULL,"
    " digest BLOB, \"from\" INTEGER NOT NULL, rows INTEGER NOT NULL,"
    " missing INTEGER NOT NULL, current INTEGER NOT NULL,"
    " current_missing INTEGER NOT NULL, files INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL);",
};

const struct db_kind content_kind = {
    .mode = DB_SMALL,
    .steps = steps,
    .n_steps = (int)(sizeof(steps) / sizeof(steps[0])),
};

#define MISSING_COLUMNS "seq, due, tries, loc, hash, length FROM missing"

static const char *const sql[CONTENTROWS_STATEMENTS] = {
    [C_BEGIN] = "BEGIN IMMEDIATE",
    [C_COMMIT] = "COMMIT",
    [C_STATE] = ("INSERT OR REPLACE INTO state(id, epoch, seq, digest,"
                 " \"from\", rows, missing, current, current_missing, files,"
                 " bytes) VALUES(1,?,?,?,?,?,?,?,?,?,?)"),
    [C_CURRENT] = "SELECT seq FROM current WHERE key=?",
    [C_PUT_CURRENT] = "INSERT OR REPLACE INTO current(key, seq) VALUES(?,?)",
    [C_DELETE_CURRENT] = "DELETE FROM current WHERE key=?",
    [C_INSERT] = "INSERT INTO entries(seq, until, digest) VALUES(?,?,?)",
    [C_OVERTAKE] = "UPDATE entries SET until=?2 WHERE seq=?1",
    [C_KEEP] = "UPDATE entries SET digest=?2 WHERE seq=?1",
    [C_DELETE] = "DELETE FROM entries WHERE seq=?",
    [C_FIND] = ("SELECT until, digest, (SELECT length FROM files"
                " WHERE digest=entries.digest) FROM entries WHERE seq=?"),
    [C_OVERTAKEN] = ("SELECT seq, digest FROM entries INDEXED BY overtaken"
                     " WHERE seq<=?1 AND until IS NOT NULL ORDER BY seq"
                     " LIMIT ?2"),
    [C_FILE] = "SELECT length, n FROM files WHERE digest=?",
    [C_PUT_FILE] = ("INSERT OR REPLACE INTO files(digest, length, n)"
                    " VALUES(?,?,?)"),
    [C_DELETE_FILE] = "DELETE FROM files WHERE digest=? AND n=0",
    [C_LOOSE] = ("SELECT digest FROM files INDEXED BY loose"
                 " WHERE n=0 AND digest>?1 ORDER BY digest LIMIT ?2"),
    [C_INSERT_MISSING] = ("INSERT INTO missing(seq, due, tries, loc, hash,"
                          " length) VALUES(?,?,0,?,?,?)"),
    [C_DELETE_MISSING] = "DELETE FROM missing WHERE seq=?",
    [C_PUT_DUE] = "UPDATE missing SET due=?2, tries=tries+1 WHERE seq=?1",
    [C_IS_MISSING] = "SELECT 1 FROM missing WHERE seq=?",
    [C_FIRST_MISSING] =
        "SELECT seq FROM missing WHERE seq>? AND seq<=? LIMIT 1",
    [C_FIRST_LACKING] = "SELECT seq FROM missing WHERE due IS NULL AND seq>? "
                        "AND seq<=? LIMIT 1",
    /* Two queries: all entries of a fold have the same `due`, and the first
     * query enters the index behind the given seq. */
    [C_NEXT_DUE] = ("SELECT * FROM (SELECT " MISSING_COLUMNS
                    " WHERE due=?1 AND due<=?3 AND seq>?2"
                    " ORDER BY seq LIMIT 1)"
                    " UNION ALL SELECT * FROM (SELECT " MISSING_COLUMNS
                    " WHERE due>?1 AND due<=?3 ORDER BY due, seq LIMIT 1)"
                    " LIMIT 1"),
    [C_FIRST_DUE] = ("SELECT due FROM missing WHERE due IS NOT NULL"
                     " ORDER BY due LIMIT 1"),
};

/* Statements */

static void
bind_number(sqlite3_stmt *q, int n, uint64_t number)
{
    sqlite3_bind_int64(q, n, (sqlite3_int64)number);
}

/* Binds NULL for a NULL digest. */
static void
bind_digest(sqlite3_stmt *q, int n, const struct digest *digest)
{
    if (digest)
        sqlite3_bind_blob(q, n, digest->bytes, DIGEST_SIZE, SQLITE_STATIC);
    else
        sqlite3_bind_null(q, n);
}

/* Returns false if the column holds no digest. */
static bool
read_digest(sqlite3_stmt *q, int column, struct digest *digest)
{
    struct slice bytes = db_column(q, column);

    if (bytes.size != DIGEST_SIZE)
        return false;
    memcpy(digest->bytes, bytes.data, DIGEST_SIZE);
    return true;
}

static enum status
step_query(struct contentrows *r, sqlite3_stmt *q, bool *row,
           struct problem *why)
{
    return db_step(&r->db, q, row, "read " CONTENT_FILE, why);
}

static enum status
run_change(struct contentrows *r, sqlite3_stmt *q, struct problem *why)
{
    return db_run(&r->db, q, "write " CONTENT_FILE, why);
}

/* Runs a statement that takes a seq and returns nothing. */
static enum status
run_seq(struct contentrows *r, enum contentrows_statement which, uint64_t seq,
        struct problem *why)
{
    sqlite3_stmt *q = r->statements[which];

    bind_number(q, 1, seq);
    return run_change(r, q, why);
}

void
contentrows_settle(struct contentrows *r)
{
    for (int i = 0; i < CONTENTROWS_STATEMENTS; i++)
        sqlite3_reset(r->statements[i]);
}

/* Opening and closing */

static enum status
first_due(struct contentrows *r, int64_t *due_us, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_FIRST_DUE];
    bool row = false;
    enum status rc = step_query(r, q, &row, why);

    *due_us = row ? sqlite3_column_int64(q, 0) : CONTENT_NEVER;
    sqlite3_reset(q);
    return rc;
}

static enum status
read_state(struct contentrows *r, struct contentrows_at *state,
           struct problem *why)
{
    uint64_t *const numbers[] = {&state->at.seq,     &state->at.from,
                                 &state->at.rows,    &state->at.missing,
                                 &state->at.current, &state->at.current_missing,
                                 &state->at.files,   &state->at.bytes};
    sqlite3_stmt *q = NULL;
    bool row = false;
    enum status rc =
        db_prepare(&r->db, &q,
                   "SELECT epoch, digest, seq, \"from\", rows, missing,"
                   " current, current_missing, files, bytes FROM state",
                   why);

    if (!rc)
        rc = step_query(r, q, &row, why);
    if (!rc && row) {
        db_text(q, 0, state->epoch, sizeof(state->epoch));
        state->has_digest = read_digest(q, 1, &state->digest);
        for (int i = 0; i < (int)(sizeof(numbers) / sizeof(numbers[0])); i++)
            *numbers[i] = (uint64_t)sqlite3_column_int64(q, 2 + i);
    }
    sqlite3_finalize(q);
    return rc ? rc : first_due(r, &state->at.due_us, why);
}

static enum status
prepare_rows(struct contentrows *r, struct contentrows_at *state, bool *is_ours,
             struct problem *why)
{
    enum status rc = db_migrate(&r->db, steps, content_kind.n_steps, why);

    *is_ours = rc != STATUS_INVALID; /* false: of a newer program */
    if (!rc)
        rc = db_exec(&r->db, "PRAGMA cache_size=-4096", why); /* KiB */
    for (int i = 0; !rc && i < CONTENTROWS_STATEMENTS; i++)
        rc = db_prepare(&r->db, &r->statements[i], sql[i], why);
    if (!rc && r->is_ending)
        db_heed(&r->db, r->is_ending);
    if (!rc)
        rc = read_state(r, state, why);
    /* Our own statements are right, so the tables are missing. */
    if (rc && sqlite3_errcode(r->db.handle) == SQLITE_ERROR)
        *is_ours = false;
    return rc;
}

enum status
contentrows_open(struct contentrows *r, struct contentrows_at *state,
                 bool *is_ours, struct problem *why)
{
    char path[sizeof(r->dir) + sizeof(CONTENT_FILE) + 1];
    enum status rc;

    snprintf(path, sizeof(path), "%s/" CONTENT_FILE, r->dir);
    *is_ours = true;
    memset(state, 0, sizeof(*state));
    memset(r->statements, 0, sizeof(r->statements));
    rc = db_open(&r->db, path, DB_SMALL, why);
    if (!rc && r->db.is_exposed)
        DIAG(DIAG_WARNING, "state", "other users may open a database",
             diag_text("file", path));
    if (!rc)
        rc = prepare_rows(r, state, is_ours, why);
    if (rc && r->db.is_damaged)
        *is_ours = false;
    if (rc)
        contentrows_close(r);
    return rc;
}

void
contentrows_close(struct contentrows *r)
{
    for (int i = 0; i < CONTENTROWS_STATEMENTS; i++)
        sqlite3_finalize(r->statements[i]);
    memset(r->statements, 0, sizeof(r->statements));
    if (r->db.handle)
        db_close(&r->db);
}

/* Writing */

static enum status
write_state(struct contentrows *r, const struct contentrows_at *state,
            struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_STATE];
    const struct content_at *at = &state->at;

    sqlite3_bind_text(q, 1, state->epoch, -1, SQLITE_STATIC);
    bind_number(q, 2, at->seq);
    bind_digest(q, 3, state->has_digest ? &state->digest : NULL);
    bind_number(q, 4, at->from);
    bind_number(q, 5, at->rows);
    bind_number(q, 6, at->missing);
    bind_number(q, 7, at->current);
    bind_number(q, 8, at->current_missing);
    bind_number(q, 9, at->files);
    bind_number(q, 10, at->bytes);
    return run_change(r, q, why);
}

static enum status
begin_change(struct contentrows *r, struct problem *why)
{
    contentrows_settle(r);
    return run_change(r, r->statements[C_BEGIN], why);
}

/* Commits all changes since begin_change, and the row of `state` (NULL:
 * unchanged), if `rc` is STATUS_OK; else none. */
static enum status
end_change(struct contentrows *r, enum status rc, struct contentrows_at *state,
           struct problem *why)
{
    if (!rc && state)
        rc = write_state(r, state, why);
    if (!rc && state)
        rc = first_due(r, &state->at.due_us, why);
    if (!rc)
        rc = run_change(r, r->statements[C_COMMIT], why);
    contentrows_settle(r);
    if (rc && !sqlite3_get_autocommit(r->db.handle))
        sqlite3_exec(r->db.handle, "ROLLBACK", NULL, NULL, NULL);
    for (int i = 0; i < CONTENTROWS_STATEMENTS; i++)
        sqlite3_clear_bindings(r->statements[i]);
    return rc;
}

enum status
contentrows_begin(struct contentrows *r, const struct contentrows_at *state,
                  struct problem *why)
{
    struct contentrows_at copy = *state;
    enum status rc = begin_change(r, why);

    return end_change(r, rc, &copy, why);
}

/* Files */

enum status
contentrows_file(struct contentrows *r, const struct digest *digest,
                 uint64_t *n, uint64_t *length, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_FILE];
    bool row = false;
    enum status rc;

    bind_digest(q, 1, digest);
    rc = step_query(r, q, &row, why);
    *length = row ? (uint64_t)sqlite3_column_int64(q, 0) : 0;
    *n = row ? (uint64_t)sqlite3_column_int64(q, 1) : 0;
    sqlite3_reset(q);
    return rc;
}

/* If rows refer to the file it exists; else this looks on the disk. */
enum status
contentrows_look(struct contentrows *r, const struct digest *digest,
                 uint64_t told_length, uint64_t *length, bool *is_other,
                 struct problem *why)
{
    uint64_t n;
    enum status rc = contentrows_file(r, digest, &n, length, why);

    *is_other = false;
    if (!rc && n == 0)
        rc = content_file_look(r->dir, digest, length, why);
    if (!rc && told_length != LENGTH_NONE && told_length != *length) {
        *is_other = true;
        rc = STATUS_NOT_FOUND;
    }
    return rc;
}

static enum status
put_file(struct contentrows *r, const struct digest *digest, uint64_t length,
         uint64_t n, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_PUT_FILE];

    bind_digest(q, 1, digest);
    bind_number(q, 2, length);
    bind_number(q, 3, n);
    return run_change(r, q, why);
}

/* Counts one more entry that refers to the file. */
static enum status
add_file(struct contentrows *r, const struct digest *digest, uint64_t length,
         struct content_at *at, struct problem *why)
{
    uint64_t n, before;
    enum status rc = contentrows_file(r, digest, &n, &before, why);

    if (!rc && n == 0) {
        at->files++;
        at->bytes += length;
    }
    return rc ? rc : put_file(r, digest, n ? before : length, n + 1, why);
}

static enum status
drop_file(struct contentrows *r, const struct digest *digest,
          struct content_at *at, struct problem *why)
{
    uint64_t n, length;
    enum status rc = contentrows_file(r, digest, &n, &length, why);

    if (!rc && n == 0) {
        r->db.is_damaged = true;
        return problem(why, STATUS_IO, CONTENT_FILE " lacks a row");
    }
    if (!rc && n == 1) {
        at->files--;
        at->bytes -= length;
    }
    return rc ? rc : put_file(r, digest, length, n - 1, why);
}

enum status
contentrows_let_go(struct contentrows *r, const struct digest *digests,
                   size_t n, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_DELETE_FILE];
    enum status rc = begin_change(r, why);

    for (size_t i = 0; !rc && i < n; i++) {
        bind_digest(q, 1, &digests[i]);
        rc = run_change(r, q, why);
    }
    return end_change(r, rc, NULL, why);
}

/* Missing content */

static enum status
look_if_missing(struct contentrows *r, uint64_t seq, bool *is_missing,
                struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_IS_MISSING];
    enum status rc;

    bind_number(q, 1, seq);
    rc = step_query(r, q, is_missing, why);
    sqlite3_reset(q);
    return rc;
}

static enum status
must_be_missing(struct contentrows *r, uint64_t seq, struct problem *why)
{
    bool is_missing = false;
    enum status rc = look_if_missing(r, seq, &is_missing, why);

    if (!rc && !is_missing)
        rc = problem(why, STATUS_NOT_FOUND, "the entry is not missing");
    return rc;
}

static enum status
is_current(struct contentrows *r, uint64_t seq, bool *is_current,
           struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_FIND];
    bool row = false;
    enum status rc;

    bind_number(q, 1, seq);
    rc = step_query(r, q, &row, why);
    *is_current = row && sqlite3_column_type(q, 0) == SQLITE_NULL;
    sqlite3_reset(q);
    return rc;
}

static enum status
keep_digest(struct contentrows *r, uint64_t seq, const struct digest *digest,
            uint64_t length, struct content_at *at, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_KEEP];
    bool was_current = false;
    enum status rc = must_be_missing(r, seq, why);

    if (!rc)
        rc = is_current(r, seq, &was_current, why);
    if (!rc)
        rc = run_seq(r, C_DELETE_MISSING, seq, why);
    if (rc)
        return rc;
    at->missing--;
    at->current_missing -= was_current;
    bind_number(q, 1, seq);
    bind_digest(q, 2, digest);
    rc = run_change(r, q, why);
    return rc ? rc : add_file(r, digest, length, at, why);
}

enum status
contentrows_keep(struct contentrows *r, uint64_t seq,
                 const struct digest *digest, uint64_t length,
                 struct contentrows_at *state, struct problem *why)
{
    enum status rc = begin_change(r, why);

    if (!rc)
        rc = keep_digest(r, seq, digest, length, &state->at, why);
    return end_change(r, rc, state, why);
}

enum status
contentrows_postpone(struct contentrows *r, uint64_t seq, int64_t due_us,
                     struct contentrows_at *state, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_PUT_DUE];
    enum status rc = begin_change(r, why);

    if (!rc)
        rc = must_be_missing(r, seq, why);
    if (!rc) {
        bind_number(q, 1, seq);
        if (due_us == CONTENT_NEVER)
            sqlite3_bind_null(q, 2);
        else
            sqlite3_bind_int64(q, 2, due_us);
        rc = run_change(r, q, why);
    }
    return end_change(r, rc, state, why);
}

/* Forgetting */

struct going {
    uint64_t seq;
    struct digest digest;
    bool has_digest;
};

/* Reads the rows to delete before anything is written. */
static enum status
read_going(struct contentrows *r, uint64_t earliest, struct going *going,
           size_t *n, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_OVERTAKEN];
    size_t room = *n;
    bool row = true;
    enum status rc = STATUS_OK;

    *n = 0;
    bind_number(q, 1, earliest);
    bind_number(q, 2, room);
    while (!rc && row && *n < room) {
        rc = step_query(r, q, &row, why);
        if (rc || !row)
            break;
        going[*n].seq = (uint64_t)sqlite3_column_int64(q, 0);
        going[*n].has_digest = read_digest(q, 1, &going[*n].digest);
        ++*n;
    }
    sqlite3_reset(q);
    return rc;
}

static enum status
forget_entry(struct contentrows *r, const struct going *g,
             struct content_at *at, struct problem *why)
{
    enum status rc = run_seq(r, C_DELETE, g->seq, why);

    at->rows--;
    if (!rc && g->has_digest)
        return drop_file(r, &g->digest, at, why);
    at->missing--;
    return rc ? rc : run_seq(r, C_DELETE_MISSING, g->seq, why);
}

enum status
contentrows_forget(struct contentrows *r, uint64_t earliest, size_t n,
                   bool *is_more, struct contentrows_at *state,
                   struct problem *why)
{
    struct going *going = malloc(n * sizeof(*going));
    size_t room = n;
    enum status rc = going ? begin_change(r, why) : problem_memory(why);

    if (!going)
        return rc;
    if (!rc)
        rc = read_going(r, earliest, going, &n, why);
    for (size_t i = 0; !rc && i < n; i++)
        rc = forget_entry(r, &going[i], &state->at, why);
    free(going);
    *is_more = n == room;
    if (n == 0 && state->at.from >= earliest)
        return end_change(r, rc, NULL, why); /* NULL: the state is
                                                     unchanged */
    if (state->at.from < earliest)
        state->at.from = earliest;
    return end_change(r, rc, state, why);
}

/*
 * Folding: makes rows of entries.
 *
 * As in resources.c the rows are sorted before they are written, so that
 * each page is read and written once: by key, to find the entry that each one
 * overtakes; by overtaken entry; and by seq, to be inserted.
 */

static int
compare_seqs(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int
by_key(const void *x, const void *y)
{
    const struct content_told *a = x, *b = y;
    int order = memcmp(&a->key, &b->key, sizeof(a->key));

    return order ? order : compare_seqs(a->seq, b->seq);
}

static int
by_before(const void *x, const void *y)
{
    const struct content_told *a = x, *b = y;
    int order = compare_seqs(a->before, b->before);

    return order ? order : compare_seqs(a->seq, b->seq);
}

static int
by_seq(const void *x, const void *y)
{
    const struct content_told *a = x, *b = y;

    return compare_seqs(a->seq, b->seq);
}

/* Current */

static void
bind_key(sqlite3_stmt *q, const struct resource_key *key)
{
    sqlite3_bind_blob(q, 1, key, sizeof(*key), SQLITE_STATIC);
}

static enum status
find_current(struct contentrows *r, const struct resource_key *key,
             uint64_t *seq, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_CURRENT];
    bool row = false;
    enum status rc;

    bind_key(q, key);
    rc = step_query(r, q, &row, why);
    *seq = row ? (uint64_t)sqlite3_column_int64(q, 0) : 0;
    sqlite3_reset(q);
    return rc;
}

/* Makes `last` the last entry of its resource; `before` was it before. */
static enum status
put_current(struct contentrows *r, const struct content_told *last,
            uint64_t before, struct content_at *at, struct problem *why)
{
    enum contentrows_statement which =
        last->is_deleted ? C_DELETE_CURRENT : C_PUT_CURRENT;
    sqlite3_stmt *q = r->statements[which];

    at->current -= before > 0;
    at->current += !last->is_deleted;
    if (last->is_deleted && before == 0)
        return STATUS_OK;
    bind_key(q, &last->key);
    if (!last->is_deleted)
        bind_number(q, 2, last->seq);
    return run_change(r, q, why);
}

/* By key: sets `until` of each entry, and `before` of the first one of each
 * resource. */
static enum status
chain_entries(struct contentrows *r, struct content_told *told, size_t n,
              struct content_at *at, struct problem *why)
{
    enum status rc = STATUS_OK;

    for (size_t i = 0, last; !rc && i < n; i = last + 1) {
        rc = find_current(r, &told[i].key, &told[i].before, why);
        for (last = i;
             last + 1 < n &&
             !memcmp(&told[last + 1].key, &told[i].key, sizeof(told[i].key));
             last++)
            told[last].until = told[last + 1].seq;
        if (!rc)
            rc = put_current(r, &told[last], told[i].before, at, why);
    }
    return rc;
}

/* Updates rows of earlier folds that are overtaken now. */
static enum status
overtake_entries(struct contentrows *r, const struct content_told *told,
                 size_t n, struct content_at *at, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_OVERTAKE];
    bool is_missing = false;
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < n; i++) {
        if (told[i].before == 0)
            continue;
        rc = look_if_missing(r, told[i].before, &is_missing, why);
        at->current_missing -= is_missing;
        bind_number(q, 1, told[i].before);
        bind_number(q, 2, told[i].seq);
        if (!rc)
            rc = run_change(r, q, why);
    }
    return rc;
}

/* Entries */

static enum status
insert_entry(struct contentrows *r, const struct content_told *t,
             const struct digest *digest, struct content_at *at,
             struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_INSERT];

    at->rows++;
    bind_number(q, 1, t->seq);
    if (t->until)
        bind_number(q, 2, t->until);
    else
        sqlite3_bind_null(q, 2);
    bind_digest(q, 3, digest);
    return run_change(r, q, why);
}

/* Inserts a missing entry. Without a hash, or with an impossible one, it is
 * never fetched: nothing could prove the bytes. */
static enum status
insert_missing(struct contentrows *r, const struct content_batch *batch,
               const struct content_told *t, bool is_hopeless,
               struct content_at *at, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_INSERT_MISSING];

    at->missing++;
    at->current_missing += t->until == 0;
    sqlite3_clear_bindings(q);
    bind_number(q, 1, t->seq);
    if (!is_hopeless) {
        sqlite3_bind_int64(q, 2, batch->now_us);
        sqlite3_bind_blob(q, 3, batch->texts + t->loc, (int)t->loc_size,
                          SQLITE_STATIC);
        sqlite3_bind_text(q, 4, batch->texts + t->hash, (int)t->hash_size,
                          SQLITE_STATIC);
        if (t->length != LENGTH_NONE)
            bind_number(q, 5, t->length);
    }
    return run_change(r, q, why);
}

static enum status
add_entry(struct contentrows *r, const struct content_batch *batch,
          const struct content_told *t, struct content_at *at,
          struct problem *why)
{
    bool is_other = false;
    uint64_t length;
    enum status rc = t->has_sha256 ? contentrows_look(r, &t->sha256, t->length,
                                                      &length, &is_other, why)
                                   : STATUS_NOT_FOUND;

    if (!rc) {
        rc = insert_entry(r, t, &t->sha256, at, why);
        return rc ? rc : add_file(r, &t->sha256, length, at, why);
    }
    if (rc != STATUS_NOT_FOUND)
        return rc;
    rc = insert_entry(r, t, NULL, at, why);
    return rc ? rc
              : insert_missing(r, batch, t, is_other || t->hash_size == 0, at,
                               why);
}

static enum status
fold_entries(struct contentrows *r, const struct content_batch *batch,
             struct content_at *at, struct problem *why)
{
    struct content_told *told = batch->told;
    size_t n = batch->n;
    enum status rc;

    qsort(told, n, sizeof(*told), by_key);
    rc = chain_entries(r, told, n, at, why);
    if (rc)
        return rc;
    qsort(told, n, sizeof(*told), by_before);
    rc = overtake_entries(r, told, n, at, why);
    qsort(told, n, sizeof(*told), by_seq);
    for (size_t i = 0; !rc && i < n; i++)
        if (!told[i].is_deleted)
            rc = add_entry(r, batch, &told[i], at, why);
    return rc;
}

enum status
contentrows_fold(struct contentrows *r, const struct content_batch *batch,
                 struct contentrows_at *state, struct problem *why)
{
    enum status rc = begin_change(r, why);

    if (!rc)
        rc = fold_entries(r, batch, &state->at, why);
    return end_change(r, rc, state, why);
}
