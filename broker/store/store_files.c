#include "broker/store/store_files.h"

#include <stdio.h>

#include "base/db.h"
#include "broker/log/batch.h"
#include "broker/store/segments.h"
#include "broker/store/store_queries.h"
#include "broker/store/store_rows.h"
#include "proto/uri.h"

enum { SETS, LISTS, GENERATIONS, STATEMENTS };

static const char *const sql[STATEMENTS] = {
    [SETS] =
        "SELECT name, epoch, max(coalesce((SELECT last FROM batches WHERE"
        " set_id = sets.id ORDER BY first DESC LIMIT 1), 0),"
        " coalesce((SELECT max(last) FROM lists WHERE set_id = sets.id), 0)),"
        " id, max(start_list, first_list) FROM sets ORDER BY name",
    [LISTS] = "SELECT number FROM lists WHERE set_id = ? AND number >= ?"
              " AND filed ORDER BY number",
    /* ?1: of a broker of a cluster, which may have lists that are ordered, and
     * lists that only another broker has built. */
    [GENERATIONS] =
        "SELECT name, kind, number, due_us IS NULL AND NOT (?1 AND kind = 0)"
        " FROM generations ORDER BY set_id, kind, number",
};

struct reading {
    const struct store_files *files;
    struct db db;
    sqlite3_stmt *q[STATEMENTS];
    char name[SET_NAME_MAX + 1];
};

static enum status
next_row(struct reading *r, int which, bool *row, struct problem *why)
{
    return db_step(&r->db, r->q[which], row, "read tidings.db", why);
}

/* Reads the name of the row at hand. */
static enum status
read_name(struct reading *r, int which, struct problem *why)
{
    return db_text(r->q[which], 0, r->name, sizeof(r->name))
               ? STATUS_OK
               : problem(why, STATUS_IO, "it is damaged: a set has no name");
}

static enum status
read_lists(struct reading *r, struct problem *why)
{
    sqlite3_stmt *q = r->q[LISTS];
    const struct store_files *files = r->files;
    bool row = false;
    enum status rc = STATUS_OK;

    sqlite3_bind_int64(q, 1, sqlite3_column_int64(r->q[SETS], 3));
    sqlite3_bind_int64(q, 2, sqlite3_column_int64(r->q[SETS], 4));
    while (!rc && !(rc = next_row(r, LISTS, &row, why)) && row)
        rc = files->on_list(r->name, store_column_u64(q, 0), files->user, why);
    db_reset(q);
    return rc;
}

static enum status
read_set(struct reading *r, struct problem *why)
{
    sqlite3_stmt *q = r->q[SETS];
    const struct store_files *files = r->files;
    char epoch[EPOCH_SIZE + 1];
    enum status rc = read_name(r, SETS, why);

    if (!rc && !db_text(q, 1, epoch, sizeof(epoch)))
        rc = problem(why, STATUS_IO, "it is damaged: the set %s has no epoch",
                     r->name);
    if (!rc && files->on_set)
        rc = files->on_set(r->name, epoch, store_column_u64(q, 2), files->user,
                           why);
    return rc || !files->on_list ? rc : read_lists(r, why);
}

static enum status
read_generation(struct reading *r, struct problem *why)
{
    sqlite3_stmt *q = r->q[GENERATIONS];
    int kind = sqlite3_column_int(q, 1);
    enum status rc = read_name(r, GENERATIONS, why);

    if (!rc && (kind < 0 || kind >= GENERATION_KINDS))
        rc = problem(why, STATUS_IO,
                     "it is damaged: a build of the set %s is "
                     "of an unknown kind",
                     r->name);
    return rc ? rc
              : r->files->on_generation(
                    r->name, (enum generation_kind)kind, store_column_u64(q, 2),
                    sqlite3_column_int(q, 3) != 0, r->files->user, why);
}

/* The oldest version of tidings.db that a backup takes as it is. Version 9 adds
 * columns that nothing reads here. */
#define OLDEST 8

/* A row of an older format may lack columns. */
static enum status
check_version(struct reading *r, struct problem *why)
{
    int64_t version = 0;
    enum status rc = db_check_version(&r->db, store_kind.n_steps, why);

    if (!rc)
        rc = db_number(&r->db, "PRAGMA user_version", &version, why);
    if (!rc && version < OLDEST)
        rc = problem(why, STATUS_IO,
                     "it is of an earlier version of Tidings: "
                     "start this version on the data directory once");
    return rc;
}

/* True if the database is that of a broker of a cluster. Older versions have no
 * table of places. */
static enum status
look_for_place(struct reading *r, int64_t *has_place, struct problem *why)
{
    enum status rc = db_number(
        &r->db, "SELECT count(*) FROM sqlite_master WHERE name = 'place'",
        has_place, why);

    return rc || !*has_place ? rc
                             : db_number(&r->db, "SELECT count(*) FROM place",
                                         has_place, why);
}

static enum status
read_all(struct reading *r, struct problem *why)
{
    bool row = false;
    int64_t has_place = 0;
    enum status rc = check_version(r, why);

    if (!rc)
        rc = look_for_place(r, &has_place, why);
    for (int i = 0; !rc && i < STATEMENTS; i++)
        rc = db_prepare(&r->db, &r->q[i], sql[i], why);
    if (!rc)
        sqlite3_bind_int64(r->q[GENERATIONS], 1, has_place);
    while (!rc && !(rc = next_row(r, SETS, &row, why)) && row)
        rc = read_set(r, why);
    row = r->files->on_generation != NULL;
    while (!rc && row && !(rc = next_row(r, GENERATIONS, &row, why)) && row)
        rc = read_generation(r, why);
    return rc;
}

enum status
store_files_each(const char *path, const struct store_files *files,
                 struct problem *why)
{
    struct reading r = {.files = files};
    enum status rc = db_open(&r.db, path, DB_LOOK, why);

    if (!rc)
        rc = read_all(&r, why);
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(r.q[i]);
    db_close(&r.db);
    return rc == STATUS_INVALID ? problem_prefix(why, STATUS_IO, "%s: ", path)
                                : rc;
}

/* A copy with all its entries */

enum { ROWS, PUT, FORGET, GATHERING };

static const char *const gathering[GATHERING] = {
    [ROWS] = "SELECT id, segment, at, size, first, before_us, before, digest"
             " FROM batches WHERE segment <> 0",
    [PUT] = "UPDATE batches SET body = ?2, segment = 0, at = 0, size = 0"
            " WHERE id = ?1",
    [FORGET] = "DELETE FROM segments",
};

static const struct db_kind copies = {
    .mode = DB_SCRATCH, .sql = gathering, .n_sql = GATHERING};

/* Reads the entries of the row at hand, which match its digest. */
static enum status
read_segment(sqlite3_stmt *q, int segments, struct batch **batch,
             struct problem *why)
{
    const struct segment_place place = {(uint32_t)store_column_u64(q, 1),
                                        store_column_u64(q, 2)};
    struct digest before = store_column_digest(q, 6),
                  digest = store_column_digest(q, 7);
    size_t size = (size_t)store_column_u64(q, 3);
    struct batch *b = batch_new(store_column_u64(q, 4) - 1,
                                sqlite3_column_int64(q, 5), &before, NULL);
    enum status rc = STATUS_OK;

    *batch = b;
    if (batch_reserve(b, size, 0))
        return problem_memory(why);
    if (segment_read_at(segments, &place, size, b->bytes, why) ||
        batch_append_in_place(b, size, &digest, why))
        rc = STATUS_GONE;
    else if (!batch_is_genuine(b))
        rc = problem(why, STATUS_GONE,
                     "the stored entries %llu to %llu are damaged",
                     (unsigned long long)b->first, (unsigned long long)b->last);
    return rc;
}

static enum status
put_entries(struct db *db, int segments, struct problem *why)
{
    sqlite3_stmt *q = db->statements[ROWS], *put = db->statements[PUT];
    const int64_t id = sqlite3_column_int64(q, 0);
    struct batch *b = NULL;
    enum status rc = read_segment(q, segments, &b, why);

    if (!rc) {
        sqlite3_bind_int64(put, 1, id);
        db_bind_bytes(put, 2, (struct slice){b->bytes, b->size});
        rc = db_run(db, put, "write it", why);
    }
    batch_unref(b);
    return rc;
}

enum status
store_files_gather(const char *path, int segments, struct problem *why)
{
    struct db db = {NULL};
    bool row = false;
    enum status rc = db_open_kind(&db, &copies, path, why);

    if (!rc)
        rc = db_begin(&db, why);
    while (!rc &&
           !(rc = db_step(&db, db.statements[ROWS], &row, "read tidings.db",
                          why)) &&
           row)
        rc = put_entries(&db, segments, why);
    if (!rc)
        rc = db_run(&db, db.statements[FORGET], "forget the segments", why);
    rc = db_end(&db, rc, why);
    db_close(&db);
    return rc;
}
