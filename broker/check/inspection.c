#include "broker/check/inspection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

/* A data directory and a path below it. */
#define WHOLE_PATH (4096 + INSPECTION_PATH)

void
inspection_find(struct inspection *in, enum finding_kind kind, const char *path,
                const char *format, ...)
{
    char what[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    findings_add(&in->findings, kind, in->data, path, what);
}

void
inspection_path(char to[INSPECTION_PATH], const char *set, const char *name)
{
    snprintf(to, INSPECTION_PATH, "sets/%s%s%s", set, *name ? "/" : "", name);
}

void
inspection_whole_path(const struct inspection *in, const char *path, char *to,
                      size_t size)
{
    snprintf(to, size, "%s/%s", in->data, path);
}

/* Databases */

/* Beside a broker, a database that it does not have open has no -shm: SQLite's
 * locks would make one. */
static enum db_mode
mode_of(const struct inspection *in, const char *path)
{
    char shm[WHOLE_PATH + 8];

    snprintf(shm, sizeof(shm), "%s-shm", path);
    return in->is_live && !access(shm, F_OK) ? DB_READER : DB_LOOK;
}

static enum status
check_version(struct inspection *in, const struct database *database,
              const char *path, struct db *db, struct problem *why)
{
    int64_t version, n_tables = 1;
    enum status rc = db_number(db, "PRAGMA user_version", &version, why);

    if (!rc && version == 0)
        rc =
            db_number(db, "SELECT count(*) FROM sqlite_schema", &n_tables, why);
    if (!rc && n_tables == 0)
        return STATUS_NOT_FOUND; /* a kill came before the first table */
    if (rc)
        return rc;
    if (version > database->kind->n_steps) {
        inspection_find(in, FINDING_NEWER, path,
                        "the database is of version %" PRId64
                        ", and this program knows versions up to %d",
                        version, database->kind->n_steps);
        return STATUS_INVALID;
    }
    if (version < database->oldest) {
        inspection_find(in, FINDING_OLDER, path,
                        "the database is of version %" PRId64
                        ", and this program checks versions from %d on",
                        version, database->oldest);
        return STATUS_INVALID;
    }
    return database->views && version < database->views_before
               ? db_exec(db, database->views, why)
               : STATUS_OK;
}

enum status
inspection_open(struct inspection *in, enum database_id id, const char *path,
                struct db *db)
{
    const struct database *database = &databases[id];
    char whole[WHOLE_PATH];
    struct problem why = {""};
    struct stat st;
    enum status rc;

    *db = (struct db){NULL};
    path = path ? path : database->name;
    if (fstatat(in->dir, path, &st, 0) || st.st_size == 0)
        return STATUS_NOT_FOUND;
    inspection_whole_path(in, path, whole, sizeof(whole));
    rc = db_open(db, whole, mode_of(in, whole), &why);
    if (!rc && in->is_live)
        rc = db_exec(db, "BEGIN", &why);
    /* Our temporary tables are no files. */
    if (!rc)
        rc = db_exec(db, "PRAGMA temp_store=MEMORY", &why);
    if (!rc)
        rc = check_version(in, database, path, db, &why);
    if (rc && rc != STATUS_INVALID && rc != STATUS_NOT_FOUND)
        inspection_find(in, FINDING_DATABASE, path, "%s", why.text);
    if (rc)
        db_close(db);
    return rc;
}

void
inspection_end_rows(struct inspection *in, const char *path,
                    struct db_rows *rows)
{
    if (db_rows_end(rows))
        inspection_find(in, FINDING_DATABASE, path, "%s", rows->why->text);
}

/* Files */

enum status
inspection_read(struct inspection *in, int fd, inspection_bytes_fn *fn,
                void *user, struct problem *why)
{
    char *step = malloc(INSPECTION_STEP);
    enum status rc = step ? STATUS_OK : problem_memory(why);
    ssize_t n = 1;

    while (!rc && n > 0) {
        n = read(fd, step, INSPECTION_STEP);
        if (n < 0)
            rc = problem(why, STATUS_IO, "it cannot be read: %s",
                         strerror(errno));
        else if (n > 0)
            rc = fn((struct slice){step, (size_t)n}, user, why);
        in->counts.bytes += n > 0 ? (uint64_t)n : 0;
    }
    free(step);
    return rc;
}

static enum status
add_bytes(struct slice bytes, void *user, struct problem *why)
{
    return digest_check_add(user, bytes, why);
}

enum status
inspection_compare(struct inspection *in, int fd, struct slice hash,
                   uint64_t length, struct problem *why)
{
    struct digest_check *digests = digest_check_new(hash, length);
    enum status rc = digests ? inspection_read(in, fd, add_bytes, digests, why)
                             : problem_memory(why);

    if (!rc)
        rc = digest_check_end(digests, why);
    digest_check_free(digests);
    return rc;
}

/* Sets */

static enum status
load(struct inspection *in, struct db *db)
{
    struct problem why = {""};
    /* A removed set has rows until its files are gone. */
    struct db_rows rows = DB_SELECT(
        db, "read the sets", &why,
        "SELECT id, name, epoch, created_us, start_list,"
        " iif(first_list, first_list, start_list), earliest, file_bytes, 0, "
        "max("
        "  coalesce((SELECT max(last) FROM batches WHERE set_id = sets.id), 0),"
        "  coalesce((SELECT max(last) FROM lists WHERE set_id = sets.id), 0))"
        " FROM sets UNION ALL "
        "SELECT DISTINCT set_id, name, '', 0, 0, 0, 0, 0, 1, 0 FROM trash"
        " WHERE set_id NOT IN (SELECT id FROM sets) ORDER BY name, id");
    struct inspected_set set;

    in->n_sets = 0;
    while (DB_NEXT(&rows, &set.id, &set.name, &set.epoch, &set.created_us,
                   &set.start_list, &set.first_list, &set.earliest,
                   &set.file_bytes, &set.is_removed, &set.last)) {
        if (!ONE_MORE(in->sets, &in->sets_capacity, in->n_sets)) {
            rows.rc = problem_memory(&why);
            break;
        }
        in->sets[in->n_sets++] = set;
    }
    inspection_end_rows(in, databases[DATABASE_TIDINGS].name, &rows);
    return rows.rc;
}

enum status
inspection_load(struct inspection *in)
{
    struct db db;
    enum status rc = inspection_open(in, DATABASE_TIDINGS, NULL, &db);

    if (rc)
        return rc;
    rc = load(in, &db);
    db_close(&db);
    return rc;
}

enum status
inspection_lend_logs(struct inspection *in, struct db *db)
{
    struct problem why = {""};
    enum status rc = db_exec(db,
                             "CREATE TEMP TABLE logs(name TEXT PRIMARY KEY,"
                             " epoch TEXT, earliest INTEGER, last INTEGER)",
                             &why);

    for (size_t i = 0; !rc && i < in->n_sets; i++) {
        const struct inspected_set *set = &in->sets[i];

        if (!set->is_removed)
            rc = DB_DO(db, "lend the sets", &why,
                       "INSERT INTO temp.logs VALUES(?, ?, ?, ?)", set->name,
                       set->epoch, set->earliest, set->last);
    }
    if (rc)
        inspection_find(in, FINDING_UNREAD, "", "%s", why.text);
    return rc;
}

void
inspection_fini(struct inspection *in)
{
    findings_clear(&in->findings);
    free(in->sets);
}
