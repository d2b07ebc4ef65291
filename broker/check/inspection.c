#include "broker/check/inspection.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "broker/bucket/vault.h"

/* A data directory and a path below it. */
#define WHOLE_PATH (4096 + INSPECTION_PATH)

/* Findings */

/* Longest line: a path of the system, and sentences. */
#define LINE_SIZE 8192

static const struct {
    const char *meaning, *remedy;
} texts[FINDING_KINDS] = {
    [FINDING_NEWER] = {"this program can neither serve nor check it",
                       "start the newer tidingsd, or restore an older backup"},
    [FINDING_OLDER] = {"this program can serve it, and cannot check it yet",
                       "start the broker, which brings it up to date"},
    [FINDING_UNREAD] = {"it was not checked",
                        "run the check as the user of the broker"},
    [FINDING_DATABASE] = {"the broker cannot rely on the database",
                          "restore it from a backup"},
    [FINDING_LOG] = {"readers may miss entries, or get an error",
                     "restore the data directory from a backup"},
    [FINDING_ENTRY] = {"readers of these entries get an error",
                       "restore the data directory from a backup"},
    [FINDING_LIST] = {"its entries and its document cannot be read",
                      "restore the file from a backup"},
    [FINDING_MARKS] = {"readers that enter the list here get an error",
                       "restore tidings.db from a backup"},
    [FINDING_KEYS] = {"a repeated post may be stored twice, or refused",
                      "restore tidings.db from a backup"},
    [FINDING_BUILD] = {"downloads of this list or dump fail",
                       "restore the folder from a backup, or build a new one"},
    [FINDING_STATE] =
        {"Resource Lists and dumps of the set may be wrong",
         "stop the broker and delete resources.db with its two files, if all "
         "lists of the set are still there; else upload its resources (PUT)"},
    [FINDING_TREE] = {"checkpoints of the set are refused",
                      "stop the broker and delete tree.db with its two files, "
                      "if all lists of the set are still there; else restore "
                      "it from a backup"},
    [FINDING_CONTENT] = {"the bytes of the entries that name it are lost",
                         "restore the file from a backup, or post its resource "
                         "again"},
    [FINDING_INDEX] = {"dumps of the set may lack content, or files stay",
                       "restore content.db and content from one backup"},
    [FINDING_HUB] = {"the hub may deliver nothing, or the wrong thing",
                     "let the subscriber subscribe again, or restore hub.db "
                     "from a backup"},
    [FINDING_AHEAD] =
        {"entries up to there will not be delivered: the log is older than "
         "this database",
         "restore both from one backup"},
    [FINDING_BEHIND] = {"the entries between are not delivered any more",
                        "let the receiver read a Resource List, and keep more "
                        "lists (--retain-lists)"},
    [FINDING_STALE] = {"it has no effect",
                       "nothing: a start deletes or replaces it"},
    [FINDING_BRIDGE] = {"the bridge may repeat messages, or leave some out",
                        "restore mqtt.db from a backup, or delete it with its "
                        "two files while the broker is stopped"},
    [FINDING_TOKEN] = {"the broker may refuse the token",
                       "make a new token with tidingsd token, or restore "
                       "tokens.db from a backup"},
    [FINDING_ORPHAN] = {"no row refers to it, and it only takes room",
                        "delete it, or move it out of the data directory"},
    [FINDING_LEFT] = {"a write was cut off, and nobody reads it",
                      "nothing, or delete it while the broker is stopped"},
    [FINDING_RESTORE] = {"files may be missing, and no broker starts on it",
                         "delete the directory, and restore it again"},
    [FINDING_MODE] = {"the wrong users can or cannot use it",
                      "set that mode with chmod"},
    [FINDING_OWNER] = {"the broker may fail to write or delete it",
                       "give it to the owner of the data directory with "
                       "chown"},
};

void
inspection_find(struct inspection *in, enum finding_kind kind, const char *path,
                const char *format, ...)
{
    struct findings *f = &in->findings;
    char what[2048], line[LINE_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    snprintf(line, sizeof(line), "%s%s%s: %s; %s; %s", in->data,
             *path ? "/" : "", path, what, texts[kind].meaning,
             texts[kind].remedy);
    for (char *c = line; *c; c++) /* names and texts are another's */
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    if (ONE_MORE(f->lines, &f->capacity, f->n) &&
        (f->lines[f->n] = strdup(line)))
        f->n++;
    else
        f->is_short = true;
}

void
inspection_path(char to[INSPECTION_PATH], const char *set, const char *name)
{
    snprintf(to, INSPECTION_PATH, "sets/%s%s%s", set, *name ? "/" : "", name);
}

/* Databases */

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
    char whole[WHOLE_PATH], shm[WHOLE_PATH + 8];
    struct problem why = {""};
    struct stat st;
    enum status rc;

    *db = (struct db){NULL};
    path = path ? path : database->name;
    if (fstatat(in->dir, path, &st, 0) || st.st_size == 0)
        return STATUS_NOT_FOUND;
    snprintf(whole, sizeof(whole), "%s/%s", in->data, path);
    /* Beside a broker, a database that it does not have open has no -shm:
     * SQLite's locks would make one. */
    snprintf(shm, sizeof(shm), "%s-shm", whole);
    rc = db_open(db, whole,
                 in->is_live && !access(shm, F_OK) ? DB_READER : DB_LOOK, &why);
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
    struct digest_check *digests = digest_check_new(hash, length, false);
    enum status rc = digests ? inspection_read(in, fd, add_bytes, digests, why)
                             : problem_memory(why);

    if (!rc)
        rc = digest_check_end(digests, why);
    digest_check_free(digests);
    return rc;
}

/* Sets */

enum status
inspection_load(struct inspection *in)
{
    struct inspected_set set;
    struct db_rows rows;
    struct db db;
    enum status rc = inspection_open(in, DATABASE_TIDINGS, NULL, &db);

    if (rc)
        return rc;
    /* A removed set has rows until its files are gone. In a file of an earlier
     * version `origin` is that of `earlier`. */
    rows = DB_SELECT(
        &db, "read the sets", &in->why,
        "SELECT id, name, coalesce(nullif((SELECT origin FROM sets AS own"
        " WHERE own.id = sets.id), ''), epoch), created_us,"
        " start_list,"
        " iif(first_list, first_list, start_list), earliest, file_bytes, 0, "
        "max("
        "  coalesce((SELECT max(last) FROM batches WHERE set_id = sets.id), 0),"
        "  coalesce((SELECT max(last) FROM lists WHERE set_id = sets.id), 0))"
        " FROM sets, (SELECT '' AS origin) AS earlier UNION ALL "
        "SELECT DISTINCT set_id, name, '', 0, 0, 0, 0, 0, 1, 0 FROM trash"
        " WHERE set_id NOT IN (SELECT id FROM sets) ORDER BY name, id");
    in->n_sets = 0;
    while (DB_NEXT(&rows, &set.id, &set.name, &set.epoch, &set.created_us,
                   &set.start_list, &set.first_list, &set.earliest,
                   &set.file_bytes, &set.is_removed, &set.last)) {
        if (!ONE_MORE(in->sets, &in->sets_capacity, in->n_sets)) {
            rows.rc = problem_memory(&in->why);
            break;
        }
        in->sets[in->n_sets++] = set;
    }
    inspection_end_rows(in, databases[DATABASE_TIDINGS].name, &rows);
    db_close(&db);
    return rows.rc;
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

enum status
inspection_find_in_bucket(struct inspection *in, const char *path,
                          struct problem *why)
{
    enum status rc = vault_find(in->dir, path, why);

    if (rc == STATUS_BUSY) /* it has no bucket to ask */
        rc = STATUS_OK;
    in->counts.in_bucket += !rc;
    return rc;
}
