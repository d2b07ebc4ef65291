/*
 * contentfold.c - makes rows of entries.
 *
 * As in resources_db.c the rows are sorted before they are written, so that
 * each page is read and written once: by key, to find the entry that each one
 * overtakes; by overtaken entry; and by seq, to be inserted.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/state/contentrows_inside.h"

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
    rc = contentrows_step(r, q, &row, why);
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
        contentrows_bind(q, 2, last->seq);
    return contentrows_run(r, q, why);
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
        rc = contentrows_is_missing(r, told[i].before, &is_missing, why);
        at->current_missing -= is_missing;
        contentrows_bind(q, 1, told[i].before);
        contentrows_bind(q, 2, told[i].seq);
        if (!rc)
            rc = contentrows_run(r, q, why);
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
    contentrows_bind(q, 1, t->seq);
    if (t->until)
        contentrows_bind(q, 2, t->until);
    else
        sqlite3_bind_null(q, 2);
    contentrows_bind_digest(q, 3, digest);
    return contentrows_run(r, q, why);
}

/* Inserts a missing entry. Without a hash, or with an impossible one, it is
 * never fetched: nothing could prove the bytes. */
static enum status
insert_missing(struct contentrows *r, const struct content_told *t,
               const char *texts, bool is_hopeless, int64_t now_us,
               struct content_at *at, struct problem *why)
{
    sqlite3_stmt *q = r->statements[C_INSERT_MISSING];

    at->missing++;
    at->current_missing += t->until == 0;
    sqlite3_clear_bindings(q);
    contentrows_bind(q, 1, t->seq);
    if (!is_hopeless) {
        sqlite3_bind_int64(q, 2, now_us);
        sqlite3_bind_blob(q, 3, texts + t->loc, (int)t->loc_size,
                          SQLITE_STATIC);
        sqlite3_bind_text(q, 4, texts + t->hash, (int)t->hash_size,
                          SQLITE_STATIC);
        if (t->length != LENGTH_NONE)
            contentrows_bind(q, 5, t->length);
    }
    return contentrows_run(r, q, why);
}

static enum status
add_entry(struct contentrows *r, const struct content_told *t,
          const char *texts, int64_t now_us, struct content_at *at,
          struct problem *why)
{
    bool is_other = false;
    uint64_t length;
    enum status rc = t->has_sha256 ? contentrows_look(r, &t->sha256, t->length,
                                                      &length, &is_other, why)
                                   : STATUS_NOT_FOUND;

    if (!rc) {
        rc = insert_entry(r, t, &t->sha256, at, why);
        return rc ? rc : contentrows_add_file(r, &t->sha256, length, at, why);
    }
    if (rc != STATUS_NOT_FOUND)
        return rc;
    rc = insert_entry(r, t, NULL, at, why);
    return rc ? rc
              : insert_missing(r, t, texts, is_other || t->hash_size == 0,
                               now_us, at, why);
}

static enum status
fold_entries(struct contentrows *r, struct content_told *told, size_t n,
             const char *texts, int64_t now_us, struct content_at *at,
             struct problem *why)
{
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
            rc = add_entry(r, &told[i], texts, now_us, at, why);
    return rc;
}

enum status
contentrows_fold(struct contentrows *r, struct content_told *told, size_t n,
                 const char *texts, int64_t now_us,
                 struct contentrows_at *state, struct problem *why)
{
    enum status rc = contentrows_start(r, why);

    if (!rc)
        rc = fold_entries(r, told, n, texts, now_us, &state->at, why);
    return contentrows_end(r, rc, state, why);
}
