#include "broker/state/contentrows.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/db_rows.h"
#include "broker/base/diag.h"
#include "broker/state/content_files.h"
#include "proto/memory.h"

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
    .opening = "PRAGMA cache_size=-4096", /* KiB */
};

#define MISSING_COLUMNS \
    "seq, due, tries, loc, hash, ifnull(length, -1) FROM missing"

/* Two queries: all entries of a fold have the same `due`, and the first query
 * enters the index behind the given seq. */
const char contentrows_next_due[] =
    "SELECT * FROM (SELECT " MISSING_COLUMNS
    " WHERE due=?1 AND due<=?3 AND seq>?2 ORDER BY seq LIMIT 1)"
    " UNION ALL SELECT * FROM (SELECT " MISSING_COLUMNS
    " WHERE due>?1 AND due<=?3 ORDER BY due, seq LIMIT 1) LIMIT 1";

/* Opening and closing */

static enum status
first_due(struct contentrows *r, int64_t *due_us, struct problem *why)
{
    *due_us = CONTENT_NEVER;
    return db_find(&r->db, NULL, why, NULL,
                   "SELECT due FROM missing WHERE due IS NOT NULL"
                   " ORDER BY due LIMIT 1",
                   DB_VALUES(), DB_INTO(due_us));
}

static enum status
read_state(struct contentrows *r, struct contentrows_at *state,
           struct problem *why)
{
    struct content_at *at = &state->at;
    enum status rc = db_find(
        &r->db, NULL, why, NULL,
        "SELECT epoch, digest, length(digest)=32, seq, \"from\", rows,"
        " missing, current, current_missing, files, bytes FROM state",
        DB_VALUES(),
        DB_INTO(&state->epoch, &state->digest, &state->has_digest, &at->seq,
                &at->from, &at->rows, &at->missing, &at->current,
                &at->current_missing, &at->files, &at->bytes));

    return rc ? rc : first_due(r, &at->due_us, why);
}

enum status
contentrows_open(struct contentrows *r, struct contentrows_at *state,
                 bool *is_ours, struct problem *why)
{
    char path[sizeof(r->dir) + sizeof(CONTENT_FILE) + 1];
    enum status rc;

    snprintf(path, sizeof(path), "%s/" CONTENT_FILE, r->dir);
    memset(state, 0, sizeof(*state));
    rc = db_open_kind(&r->db, &content_kind, path, why);
    *is_ours = rc != STATUS_INVALID; /* false: of a newer program */
    if (!rc && r->db.is_exposed)
        DIAG(DIAG_WARNING, "state", "other users may open a database",
             diag_text("file", path));
    if (!rc && r->is_ending)
        db_heed(&r->db, r->is_ending);
    if (!rc)
        rc = read_state(r, state, why);
    if (rc && r->db.is_damaged)
        *is_ours = false;
    if (rc)
        contentrows_close(r);
    return rc;
}

void
contentrows_close(struct contentrows *r)
{
    if (r->db.handle)
        db_close(&r->db);
}

/* Writing */

/* Ends the transaction of db_begin: commits all changes, and the row of `state`
 * (NULL: unchanged), if `rc` is STATUS_OK; else none. */
static enum status
end_change(struct contentrows *r, enum status rc, struct contentrows_at *state,
           struct problem *why)
{
    if (!rc && state) {
        struct content_at *at = &state->at;

        rc = DB_DO(&r->db, NULL, why,
                   "INSERT OR REPLACE INTO state(id, epoch, seq, digest,"
                   " \"from\", rows, missing, current, current_missing, files,"
                   " bytes) VALUES(1,?,?,?,?,?,?,?,?,?,?)",
                   state->epoch, at->seq,
                   state->has_digest ? &state->digest : NULL, at->from,
                   at->rows, at->missing, at->current, at->current_missing,
                   at->files, at->bytes);
        if (!rc)
            rc = first_due(r, &at->due_us, why);
    }
    return db_end(&r->db, rc, why);
}

enum status
contentrows_begin(struct contentrows *r, const struct contentrows_at *state,
                  struct problem *why)
{
    struct contentrows_at copy = *state;
    enum status rc = db_begin(&r->db, why);

    return end_change(r, rc, &copy, why);
}

/* Files */

enum status
contentrows_file(struct contentrows *r, const struct digest *digest,
                 uint64_t *n, uint64_t *length, struct problem *why)
{
    *n = *length = 0;
    return db_find(&r->db, NULL, why, NULL,
                   "SELECT length, n FROM files WHERE digest=?",
                   DB_VALUES(digest), DB_INTO(length, n));
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
    return DB_DO(&r->db, NULL, why,
                 "INSERT OR REPLACE INTO files(digest, length, n)"
                 " VALUES(?,?,?)",
                 digest, length, n);
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
    enum status rc = db_begin(&r->db, why);

    for (size_t i = 0; !rc && i < n; i++)
        rc = DB_DO(&r->db, NULL, why,
                   "DELETE FROM files WHERE digest=? AND n=0", &digests[i]);
    return end_change(r, rc, NULL, why);
}

/* Missing content */

/* The statement of `rc` has changed a row of `missing`, or there was none. */
static enum status
must_be_missing(struct contentrows *r, enum status rc, struct problem *why)
{
    return rc || sqlite3_changes(r->db.handle) > 0
               ? rc
               : problem(why, STATUS_NOT_FOUND, "the entry is not missing");
}

static enum status
delete_missing(struct contentrows *r, uint64_t seq, struct problem *why)
{
    return DB_DO(&r->db, NULL, why, "DELETE FROM missing WHERE seq=?", seq);
}

static enum status
keep_digest(struct contentrows *r, uint64_t seq, const struct digest *digest,
            uint64_t length, struct content_at *at, struct problem *why)
{
    bool was_current = false;
    enum status rc = must_be_missing(r, delete_missing(r, seq, why), why);

    if (!rc)
        rc = db_find(&r->db, NULL, why, NULL,
                     "UPDATE entries SET digest=? WHERE seq=?"
                     " RETURNING until IS NULL",
                     DB_VALUES(digest, seq), DB_INTO(&was_current));
    if (rc)
        return rc;
    at->missing--;
    at->current_missing -= was_current;
    return add_file(r, digest, length, at, why);
}

enum status
contentrows_keep(struct contentrows *r, uint64_t seq,
                 const struct digest *digest, uint64_t length,
                 struct contentrows_at *state, struct problem *why)
{
    enum status rc = db_begin(&r->db, why);

    if (!rc)
        rc = keep_digest(r, seq, digest, length, &state->at, why);
    return end_change(r, rc, state, why);
}

enum status
contentrows_postpone(struct contentrows *r, uint64_t seq, int64_t due_us,
                     struct contentrows_at *state, struct problem *why)
{
    enum status rc = db_begin(&r->db, why);

    if (!rc)
        rc = must_be_missing(
            r,
            DB_DO(&r->db, NULL, why,
                  "UPDATE missing SET due=nullif(?,?), tries=tries+1"
                  " WHERE seq=?",
                  due_us, CONTENT_NEVER, seq),
            why);
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
    struct db_rows rows =
        DB_SELECT(&r->db, NULL, why,
                  "SELECT seq, digest, length(digest)=32 FROM entries"
                  " INDEXED BY overtaken WHERE seq<=? AND until IS NOT NULL"
                  " ORDER BY seq LIMIT ?",
                  earliest, *n);

    *n = 0;
    while (DB_NEXT(&rows, &going[*n].seq, &going[*n].digest,
                   &going[*n].has_digest))
        ++*n;
    return db_rows_end(&rows);
}

static enum status
forget_entry(struct contentrows *r, const struct going *g,
             struct content_at *at, struct problem *why)
{
    enum status rc =
        DB_DO(&r->db, NULL, why, "DELETE FROM entries WHERE seq=?", g->seq);

    at->rows--;
    if (!rc && g->has_digest)
        return drop_file(r, &g->digest, at, why);
    at->missing--;
    return rc ? rc : delete_missing(r, g->seq, why);
}

enum status
contentrows_forget(struct contentrows *r, uint64_t earliest, size_t n,
                   bool *is_more, struct contentrows_at *state,
                   struct problem *why)
{
    struct going *going = memory_room(n * sizeof(*going));
    size_t room = n;
    enum status rc = going ? db_begin(&r->db, why) : problem_memory(why);

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

static enum status
find_current(struct contentrows *r, const struct resource_key *key,
             uint64_t *seq, struct problem *why)
{
    *seq = 0;
    return db_find(&r->db, NULL, why, NULL,
                   "SELECT seq FROM current WHERE key=?",
                   DB_VALUES(db_bytes(key, sizeof(*key))), DB_INTO(seq));
}

/* Makes `last` the last entry of its resource; `before` was it before. */
static enum status
put_current(struct contentrows *r, const struct content_told *last,
            uint64_t before, struct content_at *at, struct problem *why)
{
    const struct db_value key = db_bytes(&last->key, sizeof(last->key));

    at->current -= before > 0;
    at->current += !last->is_deleted;
    if (last->is_deleted && before == 0)
        return STATUS_OK;
    return last->is_deleted
               ? DB_DO(&r->db, NULL, why, "DELETE FROM current WHERE key=?",
                       key)
               : DB_DO(&r->db, NULL, why,
                       "INSERT OR REPLACE INTO current(key, seq) VALUES(?,?)",
                       key, last->seq);
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
    bool is_missing = false;
    enum status rc = STATUS_OK;

    for (size_t i = 0; !rc && i < n; i++) {
        if (told[i].before == 0)
            continue;
        rc = db_find(&r->db, NULL, why, &is_missing,
                     "SELECT 1 FROM missing WHERE seq=?",
                     DB_VALUES(told[i].before), DB_INTO());
        at->current_missing -= is_missing;
        if (!rc)
            rc = DB_DO(&r->db, NULL, why,
                       "UPDATE entries SET until=? WHERE seq=?", told[i].seq,
                       told[i].before);
    }
    return rc;
}

/* Entries */

static enum status
insert_entry(struct contentrows *r, const struct content_told *t,
             const struct digest *digest, struct content_at *at,
             struct problem *why)
{
    at->rows++;
    return DB_DO(&r->db, NULL, why,
                 "INSERT INTO entries(seq, until, digest)"
                 " VALUES(?,nullif(?,0),?)",
                 t->seq, t->until, digest);
}

/* Inserts a missing entry. Without a hash, or with an impossible one, it is
 * never fetched: nothing could prove the bytes. */
static enum status
insert_missing(struct contentrows *r, const struct content_batch *batch,
               const struct content_told *t, bool is_hopeless,
               struct content_at *at, struct problem *why)
{
    at->missing++;
    at->current_missing += t->until == 0;
    if (is_hopeless)
        return DB_DO(&r->db, NULL, why,
                     "INSERT INTO missing(seq, tries) VALUES(?,0)", t->seq);
    return DB_DO(
        &r->db, NULL, why,
        "INSERT INTO missing(seq, due, tries, loc, hash, length)"
        " VALUES(?,?,0,?,?,nullif(?,-1))",
        t->seq, batch->now_us, db_bytes(batch->texts + t->loc, t->loc_size),
        ((struct slice){batch->texts + t->hash, t->hash_size}), t->length);
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
    enum status rc = db_begin(&r->db, why);

    if (!rc)
        rc = fold_entries(r, batch, &state->at, why);
    return end_change(r, rc, state, why);
}
