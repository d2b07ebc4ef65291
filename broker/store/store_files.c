#include "broker/store/store_files.h"

#include "broker/log/batch.h"
#include "broker/store/segments.h"
#include "broker/store/store_queries.h"
#include "broker/store/store_rows.h"

struct reading {
    const struct store_files *files;
    struct db db;
};

/* A row must have the name of its set. */
static enum status
check_name(const char *name, struct problem *why)
{
    return *name ? STATUS_OK
                 : problem(why, STATUS_IO, "it is damaged: a set has no name");
}

static enum status
read_sets(struct reading *r, struct problem *why)
{
    struct db_rows rows = DB_SELECT(
        &r->db, NULL, why,
        "SELECT name, epoch, max(coalesce((SELECT last FROM batches WHERE"
        " set_id = sets.id ORDER BY first DESC LIMIT 1), 0),"
        " coalesce((SELECT max(last) FROM lists WHERE set_id = sets.id), 0)),"
        " id, max(start_list, first_list) FROM sets ORDER BY name");
    char name[SET_NAME_MAX + 1], epoch[EPOCH_SIZE + 1];
    const struct store_files *files = r->files;
    uint64_t last, first_list, number;
    struct db_rows lists;
    uint32_t id;

    while (DB_NEXT(&rows, &name, &epoch, &last, &id, &first_list)) {
        rows.rc = check_name(name, why);
        if (!rows.rc && !*epoch)
            rows.rc = problem(why, STATUS_IO,
                              "it is damaged: the set %s has no epoch", name);
        if (!rows.rc)
            rows.rc = files->on_set(name, epoch, last, files->user, why);
        if (!rows.rc) {
            lists = DB_SELECT(&r->db, NULL, why,
                              "SELECT number FROM lists WHERE set_id = ?"
                              " AND number >= ? AND filed ORDER BY number",
                              id, first_list);
            while (DB_NEXT(&lists, &number))
                lists.rc = files->on_list(name, number, files->user, why);
            rows.rc = db_rows_end(&lists);
        }
    }
    return db_rows_end(&rows);
}

/* `are_shared`: of a broker of a cluster, which may have lists that are
 * ordered, and lists that only another broker has built. */
static enum status
read_generations(struct reading *r, bool are_shared, struct problem *why)
{
    struct db_rows rows =
        DB_SELECT(&r->db, NULL, why,
                  "SELECT name, kind, number,"
                  " due_us IS NULL AND NOT (? AND kind = 0)"
                  " FROM generations ORDER BY set_id, kind, number",
                  are_shared);
    char name[SET_NAME_MAX + 1];
    enum generation_kind kind;
    uint64_t number;
    bool is_kept;

    while (DB_NEXT(&rows, &name, &kind, &number, &is_kept)) {
        rows.rc = check_name(name, why);
        if (!rows.rc && kind >= GENERATION_KINDS)
            rows.rc = problem(why, STATUS_IO,
                              "it is damaged: a build of the set %s is "
                              "of an unknown kind",
                              name);
        if (!rows.rc)
            rows.rc = r->files->on_generation(name, kind, number, is_kept,
                                              r->files->user, why);
    }
    return db_rows_end(&rows);
}

/* The oldest version of tidings.db that a backup takes as it is: a row of an
 * older format may lack columns. Version 9 adds columns that nothing reads
 * here. */
#define OLDEST 8

enum status
store_files_are_shared(struct db *db, bool *are, struct problem *why)
{
    int64_t n;
    enum status rc = db_number(
        db, "SELECT count(*) FROM sqlite_master WHERE name = 'place'", &n, why);

    if (!rc && n > 0)
        rc = db_number(db, "SELECT count(*) FROM place", &n, why);
    *are = !rc && n > 0;
    return rc;
}

enum status
store_files_each(const char *path, const struct store_files *files,
                 struct problem *why)
{
    struct reading r = {.files = files};
    bool are_shared;
    int64_t version = 0;
    enum status rc = db_open(&r.db, path, DB_LOOK, why);

    if (!rc)
        rc = db_check_version(&r.db, store_kind.n_steps, NULL, why);
    if (!rc)
        rc = db_number(&r.db, "PRAGMA user_version", &version, why);
    if (!rc && version < OLDEST)
        rc = problem(why, STATUS_IO,
                     "it is of an earlier version of Tidings: "
                     "start this version on the data directory once");
    if (!rc)
        rc = store_files_are_shared(&r.db, &are_shared, why);
    if (!rc)
        rc = read_sets(&r, why);
    if (!rc)
        rc = read_generations(&r, are_shared, why);
    db_close(&r.db);
    return rc == STATUS_INVALID ? problem_prefix(why, STATUS_IO, "%s: ", path)
                                : rc;
}

/* A copy with all its entries */

static const struct db_kind copies = {.mode = DB_SCRATCH};

enum status
store_files_gather(const char *path, int segments, struct problem *why)
{
    struct db db = {NULL};
    struct db_rows rows;
    struct stored_batch row;
    int64_t id;
    enum status rc = db_open_kind(&db, &copies, path, why);

    if (!rc)
        rc = db_begin(&db, why);
    if (!rc) {
        rows = DB_SELECT(&db, NULL, why,
                         "SELECT id, " BATCH_COLUMNS
                         " FROM batches WHERE segment <> 0");
        while (DB_NEXT(&rows, &id, BATCH_PLACES(&row))) {
            /* The entries of the row match its digest. */
            struct batch *b =
                batch_new(row.first - 1, row.before_us, &row.before, NULL);

            if (batch_reserve(b, row.size, 0))
                rows.rc = problem_memory(why);
            else if (segment_read_at(segments, &row.place, row.size, b->bytes,
                                     why) ||
                     batch_append_in_place(b, row.size, &row.digest, why))
                rows.rc = STATUS_GONE;
            else if (!batch_is_genuine(b))
                rows.rc = problem(why, STATUS_GONE,
                                  "the stored entries %" PRIu64 " to %" PRIu64
                                  " are damaged",
                                  b->first, b->last);
            else
                rows.rc = DB_DO(&db, "write it", why,
                                "UPDATE batches SET body = ?, segment = 0,"
                                " at = 0, size = 0 WHERE id = ?",
                                db_bytes(b->bytes, b->size), id);
            batch_unref(b);
        }
        rc = db_rows_end(&rows);
    }
    if (!rc)
        rc = DB_DO(&db, "forget the segments", why, "DELETE FROM segments");
    rc = db_end(&db, rc, why);
    db_close(&db);
    return rc;
}
