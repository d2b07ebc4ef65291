#include "client/harvest/harvest_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/db.h"
#include "base/random.h"
#include "client/lib/temporary_file.h"
#include "proto/datetime.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/digest.h"

static const char *const steps[] = {
    "CREATE TABLE relay (source TEXT NOT NULL, target TEXT NOT NULL,"
    " position TEXT NOT NULL, target_position TEXT NOT NULL);"
    "CREATE TABLE post (key TEXT NOT NULL, position TEXT NOT NULL,"
    " made INTEGER NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL);",

    /* Version 1 did not store if the target is the relay's own. */
    "ALTER TABLE relay ADD COLUMN owns INTEGER NOT NULL DEFAULT 0;",

    /* Version 2 had one source, and did not know its resources. Its post had
     * the position after it. */
    "CREATE TABLE target (url TEXT NOT NULL, position TEXT NOT NULL,"
    " is_new INTEGER NOT NULL, adopter INTEGER NOT NULL);"
    "CREATE TABLE part (id INTEGER PRIMARY KEY, source TEXT NOT NULL,"
    " url TEXT NOT NULL UNIQUE, position TEXT NOT NULL,"
    " compared INTEGER NOT NULL, complete INTEGER NOT NULL,"
    " doubt TEXT NOT NULL);"
    "CREATE TABLE resource (loc TEXT NOT NULL, part INTEGER NOT NULL,"
    " lastmod INTEGER, hash TEXT NOT NULL, length INTEGER, changed INTEGER,"
    " is_gone INTEGER NOT NULL, is_due INTEGER NOT NULL,"
    " is_held INTEGER NOT NULL,"
    " PRIMARY KEY (loc, part)) WITHOUT ROWID;"
    "CREATE INDEX due ON resource (part) WHERE is_due;"
    "CREATE INDEX held ON resource (part) WHERE is_held;"
    "CREATE INDEX stray ON resource (part) WHERE part = 0;"
    "INSERT INTO target SELECT target, target_position, 1, owns FROM relay;"
    "INSERT INTO part SELECT 1, source, source,"
    " coalesce((SELECT position FROM post), position), 0, 0, '' FROM relay;"
    "UPDATE post SET position = (SELECT position FROM relay);"
    "DROP TABLE relay;",
};

/* Lists that are read now. */
static const char scratch[] =
    "PRAGMA temp_store = FILE;"
    "CREATE TEMP TABLE seen (loc TEXT NOT NULL, part INTEGER NOT NULL,"
    " PRIMARY KEY (loc, part)) WITHOUT ROWID;"
    "CREATE TEMP TABLE deferred (loc TEXT NOT NULL, part INTEGER NOT NULL,"
    " lastmod INTEGER, hash TEXT NOT NULL, length INTEGER,"
    " entry TEXT NOT NULL, PRIMARY KEY (part, loc)) WITHOUT ROWID;"
    "CREATE TEMP TABLE disturbed (loc TEXT PRIMARY KEY, lastmod INTEGER,"
    " hash TEXT NOT NULL, length INTEGER, is_gone INTEGER NOT NULL)"
    " WITHOUT ROWID;";

enum {
    SQL_BIND,
    SQL_TARGET,
    SQL_NOTE_TARGET,
    SQL_ADOPTED,
    SQL_NEW_PART,
    SQL_PART,
    SQL_NOTE_PART,
    SQL_SOURCES,
    SQL_LOOK,
    SQL_KEEP,
    SQL_REMOVE,
    SQL_DISTURB,
    SQL_IS_DUE,
    SQL_COUNT,
    SQL_UNSEE,
    SQL_UNDEFER,
    SQL_SEE,
    SQL_UNLIST,
    SQL_DEFER,
    SQL_UNHOLD,
    SQL_HOLD,
    SQL_HELD,
    SQL_FORGET_GONE,
    SQL_NEXT_GONE,
    SQL_NEXT_DEFERRED,
    SQL_DROP_DEFERRED,
    SQL_SEAL,
    SQL_POST,
    SQL_POST_GONE,
    N_SQL
};

#define IS_AFTER "changed > ?2"

static const char *const sql[N_SQL] = {
    [SQL_BIND] = "INSERT INTO target SELECT ?1, '', 1, 0"
                 " WHERE NOT EXISTS (SELECT 1 FROM target)",
    [SQL_TARGET] = "SELECT url, position, is_new, adopter,"
                   " EXISTS (SELECT 1 FROM resource WHERE part = 0)"
                   " FROM target",
    [SQL_NOTE_TARGET] = "UPDATE target SET position = ?1",
    [SQL_ADOPTED] = "UPDATE target SET position = ?1, is_new = 0",
    [SQL_NEW_PART] = "INSERT INTO part SELECT NULL, ?1, ?2, '', 0, 0, ''"
                     " WHERE NOT EXISTS (SELECT 1 FROM part WHERE url = ?2)",
    [SQL_PART] = "SELECT id, position, compared, complete, doubt FROM part"
                 " WHERE url = ?1",
    [SQL_NOTE_PART] = "UPDATE part SET position = ?2, compared = ?3,"
                      " complete = ?4, doubt = ?5 WHERE id = ?1",
    [SQL_SOURCES] = "SELECT DISTINCT source FROM part",
    [SQL_LOOK] = "SELECT part, lastmod, hash, length, changed, is_gone, is_due"
                 " FROM resource WHERE loc = ?1",
    [SQL_KEEP] = "INSERT OR REPLACE INTO resource"
                 " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0)",
    [SQL_REMOVE] = "DELETE FROM resource WHERE loc = ?1 AND part = ?2",
    [SQL_DISTURB] = "INSERT OR REPLACE INTO disturbed"
                    " VALUES (?1, ?2, ?3, ?4, ?5)",
    [SQL_IS_DUE] = "SELECT EXISTS (SELECT 1 FROM resource"
                   " WHERE is_due AND part = ?1)",
    [SQL_COUNT] = "SELECT count(*) FROM resource WHERE part = ?1"
                  " AND NOT is_gone",
    [SQL_UNSEE] = "DELETE FROM seen WHERE part = ?1",
    [SQL_UNDEFER] = "DELETE FROM deferred WHERE part = ?1",
    [SQL_SEE] = "INSERT OR IGNORE INTO seen VALUES (?1, ?2)",
    [SQL_UNLIST] = "DELETE FROM seen WHERE loc = ?1 AND part = ?2",
    [SQL_DEFER] = "INSERT OR REPLACE INTO deferred"
                  " VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [SQL_UNHOLD] = "UPDATE resource SET is_held = 0"
                   " WHERE part = ?1 AND is_held",
    [SQL_HOLD] = "UPDATE resource SET is_held = 1"
                 " WHERE part = ?1 AND NOT is_gone"
                 " AND NOT coalesce(" IS_AFTER ", 0) AND NOT EXISTS"
                 " (SELECT 1 FROM seen s WHERE s.loc = resource.loc"
                 " AND s.part = ?1)",
    [SQL_HELD] = "SELECT count(*) FROM resource WHERE part = ?1 AND is_held",
    [SQL_FORGET_GONE] = "DELETE FROM resource WHERE part = ?1 AND is_gone"
                        " AND NOT coalesce(" IS_AFTER ", 0)",
    [SQL_NEXT_GONE] = "SELECT loc FROM resource WHERE part = ?1 AND is_held"
                      " LIMIT 1",
    [SQL_NEXT_DEFERRED] = "SELECT loc, lastmod, hash, length, entry"
                          " FROM deferred WHERE part = ?1"
                          " ORDER BY loc LIMIT 1",
    [SQL_DROP_DEFERRED] = "DELETE FROM deferred WHERE part = ?1 AND loc ="
                          " (SELECT min(loc) FROM deferred WHERE part = ?1)",
    [SQL_SEAL] = "INSERT INTO post VALUES (?1, ?2, ?3, ?4, ?5)",
    [SQL_POST] = "SELECT key, position, made, n, body FROM post",
    [SQL_POST_GONE] = "DELETE FROM post",
};

static const struct db_kind kind = {
    .name = "the state of this harvest",
    .mode = DB_OWN,
    .application_id = 1415860837, /* "TdRe": of `tidings relay`, too */
    .steps = steps,
    .n_steps = sizeof(steps) / sizeof(steps[0]),
    .opening = scratch,
    .sql = sql,
    .n_sql = N_SQL,
};

/* Statements */

/* Begins the transaction that the next seal or note ends. */
static bool
begin_rows(struct harvest_db *h)
{
    return !sqlite3_get_autocommit(h->db.handle) || !db_begin(&h->db, h->why);
}

static bool
run_statement(struct harvest_db *h, int which)
{
    return !db_run(&h->db, h->db.statements[which], NULL, h->why);
}

static bool
commit_rows(struct harvest_db *h, bool is_good)
{
    enum status rc = is_good ? STATUS_OK : h->why->rc ? h->why->rc : STATUS_IO;

    return !db_end(&h->db, rc, h->why) && is_good;
}

void
harvest_db_undo(struct harvest_db *h)
{
    db_rollback(&h->db);
}

/* The harvest never wrote this: somebody altered the file. */
static bool
fail_damaged(struct harvest_db *h)
{
    db_fail(&h->db, STATUS_MALFORMED, h->why, "the file is damaged");
    return false;
}

static void
bind_number(sqlite3_stmt *s, int n, int64_t number, int64_t none)
{
    if (number == none)
        sqlite3_bind_null(s, n);
    else
        sqlite3_bind_int64(s, n, number);
}

static void
bind_version(sqlite3_stmt *s, int n, const struct harvest_version *version)
{
    bind_number(s, n, version->lastmod_us, DATETIME_NONE);
    db_bind_text(s, n + 1, version->hash);
    bind_number(s, n + 2, (int64_t)version->length, (int64_t)LENGTH_NONE);
}

/* Runs a query of one number. */
static bool
ask_number(struct harvest_db *h, int which, int64_t part, int64_t *number)
{
    sqlite3_stmt *s = h->db.statements[which];
    bool row, is_good;

    sqlite3_bind_int64(s, 1, part);
    is_good = !db_step(&h->db, s, &row, NULL, h->why);
    if (is_good)
        *number = sqlite3_column_int64(s, 0);
    db_reset(s);
    return is_good;
}

/* Opening */

static bool
read_target(struct harvest_db *h, const char *target)
{
    sqlite3_stmt *bind = h->db.statements[SQL_BIND];
    sqlite3_stmt *s = h->db.statements[SQL_TARGET];
    bool row, is_good;

    db_bind_text(bind, 1, slice_of(target));
    if (!run_statement(h, SQL_BIND) || db_step(&h->db, s, &row, NULL, h->why))
        return false;
    is_good =
        db_column(s, 0).size && db_text(s, 1, h->target, sizeof(h->target));
    h->is_new = sqlite3_column_int(s, 2) != 0;
    h->adopter = sqlite3_column_int64(s, 3);
    h->has_strays = sqlite3_column_int(s, 4) != 0;
    if (!is_good)
        fail_damaged(h);
    else if (!slice_is(db_column(s, 0), target))
        is_good = !db_fail(&h->db, STATUS_INVALID, h->why,
                           "it is that of another set: %.*s",
                           SLICE_ARG(db_column(s, 0)));
    db_reset(s);
    return is_good;
}

/* Copies the file, if there is one, into a temporary one. */
static bool
copy_state(struct harvest_db *h, const char *path)
{
    if (access(path, F_OK))
        return true;
    if (asprintf(&h->copy, "%s/tidings-harvest-%ld-%llx", temporary_directory(),
                 (long)getpid(), (unsigned long long)clock_now_us()) < 0) {
        h->copy = NULL;
        return !problem_memory(h->why);
    }
    return !db_copy(path, h->copy, h->why);
}

struct harvest_db *
harvest_db_open(const char *path, const char *target, bool is_dry,
                struct problem *why)
{
    struct harvest_db *h = calloc(1, sizeof(*h));

    if (!h) {
        problem_memory(why);
        return NULL;
    }
    h->why = why;
    if ((!is_dry || copy_state(h, path)) &&
        !db_open_kind(&h->db, &kind,
                      !is_dry   ? path
                      : h->copy ? h->copy
                                : "",
                      h->why) &&
        read_target(h, target))
        return h;
    harvest_db_close(h);
    return NULL;
}

void
harvest_db_close(struct harvest_db *h)
{
    if (!h)
        return;
    db_close(&h->db);
    if (h->copy)
        (void)!db_unlink(h->copy, NULL);
    free(h->copy);
    free(h->text);
    free(h);
}

/* The set */

static bool
write_target(struct harvest_db *h, int which, const char *position)
{
    db_bind_text(h->db.statements[which], 1, slice_of(position));
    return run_statement(h, which);
}

bool
harvest_db_note_target(struct harvest_db *h, const char *position)
{
    if (strcmp(position, h->target) != 0 &&
        !write_target(h, SQL_NOTE_TARGET, position))
        return false;
    snprintf(h->target, sizeof(h->target), "%s", position);
    return true;
}

bool
harvest_db_end_adoption(struct harvest_db *h, const char *position)
{
    if (!begin_rows(h) ||
        !commit_rows(h, write_target(h, SQL_ADOPTED, position)))
        return false;
    snprintf(h->target, sizeof(h->target), "%s", position);
    h->is_new = false;
    return true;
}

bool
harvest_db_forget(struct harvest_db *h)
{
    if (!begin_rows(h) ||
        !commit_rows(h, !db_exec(&h->db,
                                 "DELETE FROM resource; DELETE FROM post;"
                                 "UPDATE part SET position = '', compared = 0,"
                                 " complete = 0, doubt = '';"
                                 "UPDATE target SET position = '', is_new = 0;",
                                 h->why)))
        return false;
    h->target[0] = '\0';
    h->is_new = h->has_strays = false;
    return true;
}

/* Parts */

bool
harvest_db_part(struct harvest_db *h, const char *source, const char *url,
                struct harvest_part *part)
{
    sqlite3_stmt *bind = h->db.statements[SQL_NEW_PART];
    sqlite3_stmt *s = h->db.statements[SQL_PART];
    bool row, is_good;

    db_bind_text(bind, 1, slice_of(source));
    db_bind_text(bind, 2, slice_of(url));
    db_bind_text(s, 1, slice_of(url));
    if (!run_statement(h, SQL_NEW_PART))
        return false;
    is_good = !db_step(&h->db, s, &row, NULL, h->why);
    if (is_good) {
        part->id = sqlite3_column_int64(s, 0);
        part->compared_us = sqlite3_column_int64(s, 2);
        part->complete_us = sqlite3_column_int64(s, 3);
        is_good =
            (row && db_text(s, 1, part->position, sizeof(part->position)) &&
             db_text(s, 4, part->doubt, sizeof(part->doubt))) ||
            fail_damaged(h);
    }
    db_reset(s);
    return is_good;
}

static bool
write_part(struct harvest_db *h, const struct harvest_part *part)
{
    sqlite3_stmt *s = h->db.statements[SQL_NOTE_PART];

    sqlite3_bind_int64(s, 1, part->id);
    db_bind_text(s, 2, slice_of(part->position));
    sqlite3_bind_int64(s, 3, part->compared_us);
    sqlite3_bind_int64(s, 4, part->complete_us);
    db_bind_text(s, 5, slice_of(part->doubt));
    return run_statement(h, SQL_NOTE_PART);
}

bool
harvest_db_note_part(struct harvest_db *h, const struct harvest_part *part)
{
    return begin_rows(h) && commit_rows(h, write_part(h, part));
}

bool
harvest_db_sources(struct harvest_db *h,
                   void (*on_source)(struct slice source, void *user),
                   void *user)
{
    sqlite3_stmt *s = h->db.statements[SQL_SOURCES];
    bool row = false, is_good;

    while ((is_good = !db_step(&h->db, s, &row, NULL, h->why)) && row)
        on_source(db_column(s, 0), user);
    db_reset(s);
    return is_good;
}

/* Resources */

/* True if the row at hand and the version agree on lastmod, hash and length, as
 * far as both have them. *is_proven: they have one of these in common, or
 * neither has any. */
static bool
is_like(sqlite3_stmt *s, const struct harvest_version *now, bool *is_proven)
{
    bool had_lastmod = sqlite3_column_type(s, 1) != SQLITE_NULL;
    bool had_length = sqlite3_column_type(s, 3) != SQLITE_NULL;
    struct slice hash = db_column(s, 2);
    bool has_lastmod = now->lastmod_us != DATETIME_NONE;
    bool has_length = now->length != LENGTH_NONE;
    bool has_common = false;
    bool is_good = (!had_lastmod || !has_lastmod ||
                    sqlite3_column_int64(s, 1) == now->lastmod_us) &&
                   (!had_length || !has_length ||
                    (uint64_t)sqlite3_column_int64(s, 3) == now->length) &&
                   hashes_agree(hash, now->hash, &has_common);

    *is_proven = has_common || (had_lastmod && has_lastmod) ||
                 (had_length && has_length) ||
                 (!had_lastmod && !had_length && !hash.size && !has_lastmod &&
                  !has_length && !now->hash.size);
    return is_good;
}

static void
read_known(sqlite3_stmt *s, int64_t part, const struct harvest_version *version,
           struct harvest_known *known)
{
    bool is_gone = sqlite3_column_int(s, 5) != 0;
    bool is_proven;
    bool is_alike = is_like(s, version, &is_proven) && !is_gone &&
                    sqlite3_column_int(s, 6) == 0;

    if (sqlite3_column_int64(s, 0) == part) {
        known->is_there = !is_gone;
        known->is_like = is_alike;
        known->is_same = is_alike && is_proven;
        if (sqlite3_column_type(s, 4) != SQLITE_NULL)
            known->changed_us = sqlite3_column_int64(s, 4);
    } else if (!is_gone) {
        known->is_stray |= sqlite3_column_int64(s, 0) == 0;
        known->is_elsewhere |= sqlite3_column_int64(s, 0) != 0;
        known->is_same_there |= is_alike && is_proven;
    }
}

bool
harvest_db_look(struct harvest_db *h, int64_t part, struct slice loc,
                const struct harvest_version *version,
                struct harvest_known *known)
{
    sqlite3_stmt *s = h->db.statements[SQL_LOOK];
    bool row = false, is_good;

    *known = (struct harvest_known){.changed_us = DATETIME_NONE};
    db_bind_text(s, 1, loc);
    while ((is_good = !db_step(&h->db, s, &row, NULL, h->why)) && row)
        read_known(s, part, version, known);
    db_reset(s);
    return is_good;
}

/* Runs a statement about a loc of the part. */
static bool
run_of_loc(struct harvest_db *h, int which, int64_t part, struct slice loc)
{
    sqlite3_stmt *s = h->db.statements[which];

    db_bind_text(s, 1, loc);
    sqlite3_bind_int64(s, 2, part);
    return begin_rows(h) && run_statement(h, which);
}

static bool
write_row(struct harvest_db *h, int64_t part, struct slice loc,
          const struct harvest_version *version, int64_t changed_us,
          bool is_gone)
{
    sqlite3_stmt *s = h->db.statements[SQL_KEEP];

    db_bind_text(s, 1, loc);
    sqlite3_bind_int64(s, 2, part);
    bind_version(s, 3, version);
    bind_number(s, 6, changed_us, DATETIME_NONE);
    sqlite3_bind_int(s, 7, is_gone);
    return run_statement(h, SQL_KEEP);
}

bool
harvest_db_keep(struct harvest_db *h, int64_t part, struct slice loc,
                const struct harvest_version *version, int64_t changed_us)
{
    if (!begin_rows(h))
        return false;
    if (part == 0)
        h->has_strays = true;
    else if (h->has_strays && !run_of_loc(h, SQL_REMOVE, 0, loc))
        return false;
    return write_row(h, part, loc, version, changed_us, false);
}

bool
harvest_db_remove(struct harvest_db *h, int64_t part, struct slice loc,
                  int64_t changed_us)
{
    const struct harvest_version none = {DATETIME_NONE, {NULL, 0}, LENGTH_NONE};

    if (!begin_rows(h) || (h->has_strays && !run_of_loc(h, SQL_REMOVE, 0, loc)))
        return false;
    return changed_us == DATETIME_NONE
               ? run_of_loc(h, SQL_REMOVE, part, loc)
               : write_row(h, part, loc, &none, changed_us, true);
}

bool
harvest_db_disturb(struct harvest_db *h, struct slice loc,
                   const struct harvest_version *version)
{
    const struct harvest_version none = {DATETIME_NONE, {NULL, 0}, LENGTH_NONE};
    sqlite3_stmt *s = h->db.statements[SQL_DISTURB];

    db_bind_text(s, 1, loc);
    bind_version(s, 2, version ? version : &none);
    sqlite3_bind_int(s, 5, !version);
    return begin_rows(h) && run_statement(h, SQL_DISTURB);
}

bool
harvest_db_end_disturbance(struct harvest_db *h)
{
    static const char mark[] =
        "UPDATE resource SET is_due = 1 FROM disturbed d"
        " WHERE d.loc = resource.loc AND part > 0 AND NOT resource.is_gone"
        " AND (d.is_gone OR d.lastmod <> resource.lastmod"
        " OR d.length <> resource.length"
        " OR (d.hash <> '' AND resource.hash <> ''"
        " AND d.hash <> resource.hash));"
        "DELETE FROM disturbed;";

    return begin_rows(h) && commit_rows(h, !db_exec(&h->db, mark, h->why));
}

bool
harvest_db_is_due(struct harvest_db *h, int64_t part, bool *is_due)
{
    int64_t number = 0;
    bool is_good = ask_number(h, SQL_IS_DUE, part, &number);

    *is_due = number != 0;
    return is_good;
}

bool
harvest_db_count(struct harvest_db *h, int64_t part, uint64_t *n)
{
    int64_t number = 0;
    bool is_good = (part == 0 && !h->has_strays) ||
                   ask_number(h, SQL_COUNT, part, &number);

    *n = (uint64_t)number;
    return is_good;
}

/* Lists */

/* Runs a statement about the part, and a time. */
static bool
run_of_part(struct harvest_db *h, int which, int64_t part, int64_t time_us)
{
    sqlite3_stmt *s = h->db.statements[which];

    sqlite3_bind_int64(s, 1, part);
    if (sqlite3_bind_parameter_count(s) > 1)
        bind_number(s, 2, time_us, DATETIME_NONE);
    return run_statement(h, which);
}

bool
harvest_db_begin_list(struct harvest_db *h, int64_t part)
{
    return begin_rows(h) && run_of_part(h, SQL_UNSEE, part, 0) &&
           run_of_part(h, SQL_UNDEFER, part, 0);
}

bool
harvest_db_list(struct harvest_db *h, int64_t part, struct slice loc)
{
    return run_of_loc(h, SQL_SEE, part, loc);
}

bool
harvest_db_unlist(struct harvest_db *h, int64_t part, struct slice loc)
{
    return run_of_loc(h, SQL_UNLIST, part, loc);
}

bool
harvest_db_defer(struct harvest_db *h, int64_t part, struct slice loc,
                 const struct harvest_version *version, struct slice entry)
{
    sqlite3_stmt *s = h->db.statements[SQL_DEFER];

    db_bind_text(s, 1, loc);
    sqlite3_bind_int64(s, 2, part);
    bind_version(s, 3, version);
    db_bind_text(s, 6, entry);
    return begin_rows(h) && run_statement(h, SQL_DEFER);
}

bool
harvest_db_held(struct harvest_db *h, int64_t part, uint64_t *n, uint64_t *n_of)
{
    int64_t number = 0;
    bool is_good = ask_number(h, SQL_HELD, part, &number);

    *n = (uint64_t)number;
    *n_of = 0;
    return is_good && (number == 0 || harvest_db_count(h, part, n_of));
}

bool
harvest_db_end_list(struct harvest_db *h, int64_t part, int64_t as_of_us,
                    uint64_t *n, uint64_t *n_of)
{
    return begin_rows(h) && run_of_part(h, SQL_UNHOLD, part, 0) &&
           run_of_part(h, SQL_HOLD, part, as_of_us) &&
           run_of_part(h, SQL_FORGET_GONE, part, as_of_us) &&
           run_of_part(h, SQL_UNSEE, part, 0) &&
           harvest_db_held(h, part, n, n_of);
}

/* Copies lent texts into memory of the state. */
static bool
hand_out(struct harvest_db *h, struct slice *const *texts, size_t n)
{
    size_t size = 1;

    for (size_t i = 0; i < n; i++)
        size += texts[i]->size;
    free(h->text);
    h->text = malloc(size);
    if (!h->text)
        return !problem_memory(h->why);
    size = 0;
    for (size_t i = 0; i < n; i++) {
        if (texts[i]->size)
            memcpy(h->text + size, texts[i]->data, texts[i]->size);
        texts[i]->data = h->text + size;
        size += texts[i]->size;
    }
    return true;
}

bool
harvest_db_next_gone(struct harvest_db *h, int64_t part, struct slice *loc)
{
    sqlite3_stmt *s = h->db.statements[SQL_NEXT_GONE];
    bool row, is_good;

    *loc = (struct slice){NULL, 0};
    sqlite3_bind_int64(s, 1, part);
    is_good = !db_step(&h->db, s, &row, NULL, h->why);
    if (is_good && row) {
        *loc = db_column(s, 0);
        is_good = hand_out(h, &loc, 1);
    }
    db_reset(s);
    return is_good;
}

static bool
take_deferred(struct harvest_db *h, sqlite3_stmt *s,
              struct harvest_deferred *next)
{
    struct slice *texts[] = {&next->loc, &next->version.hash, &next->entry};

    next->loc = db_column(s, 0);
    next->version.hash = db_column(s, 2);
    next->entry = db_column(s, 4);
    next->version.lastmod_us = sqlite3_column_type(s, 1) == SQLITE_NULL
                                   ? DATETIME_NONE
                                   : sqlite3_column_int64(s, 1);
    next->version.length = sqlite3_column_type(s, 3) == SQLITE_NULL
                               ? LENGTH_NONE
                               : (uint64_t)sqlite3_column_int64(s, 3);
    return hand_out(h, texts, 3);
}

bool
harvest_db_next_deferred(struct harvest_db *h, int64_t part,
                         struct harvest_deferred *next)
{
    sqlite3_stmt *s = h->db.statements[SQL_NEXT_DEFERRED];
    bool row, is_good;

    *next = (struct harvest_deferred){.loc = {NULL, 0}};
    sqlite3_bind_int64(s, 1, part);
    is_good = !db_step(&h->db, s, &row, NULL, h->why);
    if (is_good && row)
        is_good = take_deferred(h, s, next);
    db_reset(s);
    return is_good &&
           (!next->loc.size ||
            (begin_rows(h) && run_of_part(h, SQL_DROP_DEFERRED, part, 0)));
}

/* Posts */

bool
harvest_db_seal(struct harvest_db *h, struct harvest_part *part,
                struct slice body, size_t n, const char *position)
{
    sqlite3_stmt *s = h->db.statements[SQL_SEAL];
    struct harvest_part next = *part;
    char key[HARVEST_KEY_SIZE];

    if (!random_hex(key, sizeof(key)))
        return !problem(h->why, STATUS_IO, "no random numbers");
    if (!begin_rows(h))
        return false;
    db_bind_text(s, 1, slice_of(key));
    db_bind_text(s, 2, slice_of(part->position));
    sqlite3_bind_int64(s, 3, clock_now_us() / 1000000);
    sqlite3_bind_int64(s, 4, (sqlite3_int64)n);
    db_bind_bytes(s, 5, body);
    if (position)
        snprintf(next.position, sizeof(next.position), "%s", position);
    if (!commit_rows(h, run_statement(h, SQL_SEAL) && write_part(h, &next)))
        return false;
    *part = next;
    return true;
}

/* Copies the sealed post of the current row. */
static bool
take_post(struct harvest_db *h, sqlite3_stmt *s, struct harvest_post *post)
{
    struct slice body = db_column(s, 4);

    post->made_s = sqlite3_column_int64(s, 2);
    post->n = (size_t)sqlite3_column_int64(s, 3);
    post->size = body.size;
    /* An entry has at least one byte. */
    if (!db_text(s, 0, post->key, sizeof(post->key)) ||
        !db_text(s, 1, post->before, sizeof(post->before)) || post->n == 0 ||
        post->n > post->size)
        return fail_damaged(h);
    post->body = slice_dup(body);
    return post->body || !problem_memory(h->why);
}

bool
harvest_db_unfinished(struct harvest_db *h, struct harvest_post *post,
                      bool *is_there)
{
    sqlite3_stmt *s = h->db.statements[SQL_POST];
    bool row, is_good;

    post->body = NULL;
    is_good = !db_step(&h->db, s, &row, NULL, h->why);
    if (is_good && row)
        is_good = take_post(h, s, post);
    *is_there = post->body;
    db_reset(s);
    return is_good;
}

bool
harvest_db_posted(struct harvest_db *h, const char *target)
{
    if (!begin_rows(h) ||
        !commit_rows(h,
                     run_statement(h, SQL_POST_GONE) &&
                         (!target || write_target(h, SQL_NOTE_TARGET, target))))
        return false;
    if (target)
        snprintf(h->target, sizeof(h->target), "%s", target);
    return true;
}
