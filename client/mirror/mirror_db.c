/*
 * mirror_db.c - the wanted resources and the noted files of a mirror.
 *
 *     mirror_db_describe --> members --+--> settle --> resources.todo
 *     mirror_db_note_file -------------+      the best member's description,
 *     mirror_db_note_loss -------------+      against the noted file
 *
 * To change a table, add a step.
 */
#include "client/mirror/mirror_db.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/datetime.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/digest.h"

#define HOUR_US    INT64_C(3600000000)
#define HOURS_KEPT 48

/* No hour of event time: the removal does not count. */
#define NO_HOUR INT64_MIN

/*
 * state      numbers by name; those of mirror_db_counts for mirror_status.h.
 * sets       caught_up: when the mirror last equalled the set; 0: never. The
 *            others: struct mirror_db_certainty.
 * resources  one row for each resource that is wanted or has a file. todo: enum
 *            mirror_db_todo. bytes: the wanted length, where the source sent
 *            one. have: there is a file; the columns have_ describe it.
 * members    each set's description of a resource: without a row it is not in
 *            the set. The row with the latest when_us decides. generation 0:
 *            its deletion is held back.
 * deletions  of resources, for comparisons with lists of an earlier time.
 * compared   how a comparison that is under way describes a resource, if that
 *            differs from `members`.
 * hours      removals by changes: n in that hour of event time, of at most n_of
 *            files that the mirror had in it.
 *
 * A loc is a BLOB, so that SQLite compares bytes. DATETIME_NONE is INT64_MIN,
 * LENGTH_NONE -1.
 */
static const char *const steps[] = {
    "CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;"
    "CREATE TABLE sources (n INTEGER PRIMARY KEY, url TEXT UNIQUE);"
    "CREATE TABLE sets (id INTEGER PRIMARY KEY, url TEXT UNIQUE,"
    " position TEXT, generation INTEGER);"
    "CREATE TABLE resources (id INTEGER PRIMARY KEY, loc BLOB UNIQUE,"
    " path TEXT UNIQUE, todo INTEGER, bytes INTEGER, left_run INTEGER,"
    " left_version INTEGER, expected INTEGER, have INTEGER, have_version "
    "INTEGER, have_hash BLOB,"
    " have_lastmod INTEGER, have_size INTEGER, have_mtime INTEGER);"
    "CREATE INDEX resources_todo ON resources (todo, id) WHERE todo <> 0;"
    "CREATE TABLE members (resource INTEGER, set_id INTEGER,"
    " generation INTEGER, version INTEGER, when_us INTEGER, lastmod INTEGER,"
    " hash BLOB, length INTEGER, type BLOB, encoding BLOB, links BLOB,"
    " PRIMARY KEY (resource, set_id)) WITHOUT ROWID;"
    "CREATE TABLE hours (hour INTEGER PRIMARY KEY, n INTEGER, n_of INTEGER);",
    "ALTER TABLE sets ADD COLUMN caught_up INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE sets ADD COLUMN complete_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN complete_by TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN compared_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN doubt TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN doubt_us INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN held INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN held_of INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN left_out INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN left_out_text TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE sets ADD COLUMN left_out_before INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE sets ADD COLUMN mended INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE resources ADD COLUMN have_second INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE deletions (set_id INTEGER, loc BLOB, when_us INTEGER,"
    " PRIMARY KEY (set_id, loc)) WITHOUT ROWID;"
    "CREATE INDEX members_held ON members (set_id) WHERE generation = 0;"
    "CREATE INDEX resources_second ON resources (have_second)"
    " WHERE have_second <> 0",
};

static const char opening[] =
    "CREATE TEMP TABLE compared (loc BLOB PRIMARY KEY, set_id INTEGER,"
    " when_us INTEGER, lastmod INTEGER, hash BLOB, length INTEGER, type BLOB,"
    " encoding BLOB, links BLOB) WITHOUT ROWID";

_Static_assert(sizeof(steps) / sizeof(steps[0]) == MIRROR_DB_VERSION,
               "a step for each version");

/* The columns of struct mirror_db_description, as bind_description and
 * read_description have them. */
#define DESCRIPTION "when_us, lastmod, hash, length, type, encoding, links"

/* A resource, and its description by the set with the latest one. */
#define RESOURCE                                                            \
    "SELECT id, loc, path, todo, left_run, expected, have, have_version,"   \
    " have_hash, have_lastmod, have_size, have_mtime, bytes, left_version," \
    " have_second, version, " DESCRIPTION " FROM resources"                 \
    " LEFT JOIN members ON resource = id AND set_id = (SELECT set_id"       \
    " FROM members WHERE resource = id ORDER BY when_us DESC, version DESC" \
    " LIMIT 1) "

/* The present generation of the set ?1. */
#define GENERATION "(SELECT generation FROM sets WHERE id = ?1)"

enum mirror_db_sql {
    SQL_COUNT,
    SQL_STATE,
    SQL_STATE_PUT,
    SQL_SOURCE_ADD,
    SQL_SOURCE,
    SQL_SET_ADD,
    SQL_SET,
    SQL_SET_NEXT,
    SQL_SET_REACH,
    SQL_SET_CAUGHT_UP,
    SQL_SET_NEW_GENERATION,
    SQL_RESOURCE_ADD,
    SQL_RESOURCE_GONE,
    SQL_RESOURCE_TODO,
    SQL_RESOURCE_EXPECT,
    SQL_RESOURCE_DOUBT,
    SQL_RESOURCE_HAVE,
    SQL_RESOURCE_LOST,
    SQL_RESOURCE_LEAVE,
    SQL_MEMBER,
    SQL_MEMBER_PUT,
    SQL_MEMBER_GONE,
    SQL_MEMBER_OLD,
    SQL_MEMBER_KEEP,
    SQL_MEMBER_HOLD,
    SQL_MEMBERS_KEEP,
    SQL_MEMBERS_HOLD,
    SQL_MEMBERS_HELD,
    SQL_COMPARED_CLEAR,
    SQL_COMPARED_ADD,
    SQL_COMPARED,
    SQL_DELETION_PUT,
    SQL_DELETION_GONE,
    SQL_DELETION_LATER,
    SQL_DELETIONS_OVER,
    SQL_CERTAINTY,
    SQL_CERTAINTY_SET,
    SQL_SECOND_NEXT,
    SQL_SECOND_OVER,
    SQL_MEMBER_NEXT,
    SQL_LOOK,
    SQL_FIND,
    SQL_FIND_PATH,
    SQL_NEXT,
    SQL_WALK,
    SQL_HOUR_ADD,
    SQL_HOUR_MOST,
    SQL_HOUR_OLD,
    N_SQL
};

static const char *const sql[N_SQL] = {
    [SQL_COUNT] = "SELECT count(*), total(have), total(have_size * have),"
                  " total(todo = 1), total(bytes * (todo = 1)),"
                  " total(todo = 2) FROM resources",
    [SQL_STATE] = "SELECT value FROM state WHERE name = ?1",
    [SQL_STATE_PUT] = "INSERT OR REPLACE INTO state VALUES (?1, ?2)",
    [SQL_SOURCE_ADD] = "INSERT OR IGNORE INTO sources (url) VALUES (?1)",
    [SQL_SOURCE] = "SELECT url FROM sources ORDER BY n LIMIT 1 OFFSET ?1",
    [SQL_SET_ADD] = "INSERT INTO sets (url, position, generation)"
                    " VALUES (?1, '', 1)",
    [SQL_SET] = "SELECT id, position FROM sets WHERE url = ?1",
    [SQL_SET_NEXT] = "SELECT id, url FROM sets WHERE id > ?1"
                     " ORDER BY id LIMIT 1",
    [SQL_SET_REACH] = "UPDATE sets SET position = ?2 WHERE id = ?1",
    [SQL_SET_CAUGHT_UP] = "UPDATE sets SET caught_up = ?2 WHERE id = ?1",
    [SQL_SET_NEW_GENERATION] = "UPDATE sets SET generation = generation + 1"
                               " WHERE id = ?1",
    [SQL_RESOURCE_ADD] = "INSERT INTO resources VALUES"
                         " (NULL, ?1, ?2, 0, 0, 0, 0, 0, 0, 0, x'', ?3, 0, 0,"
                         " 0)",
    [SQL_RESOURCE_GONE] = "DELETE FROM resources WHERE id = ?1",
    [SQL_RESOURCE_TODO] = "UPDATE resources SET todo = ?2, bytes = ?3,"
                          " left_run = ?4, have_version = ?5 WHERE id = ?1",
    [SQL_RESOURCE_EXPECT] = "UPDATE resources SET expected = 1 WHERE id = ?1",
    [SQL_RESOURCE_DOUBT] = "UPDATE resources SET have_version = 0,"
                           " have_hash = x'', have_lastmod = ?2 WHERE id = ?1",
    [SQL_RESOURCE_HAVE] = "UPDATE resources SET have = 1, expected = 1,"
                          " have_version = ?2, have_hash = ?3,"
                          " have_lastmod = ?4, have_size = ?5,"
                          " have_mtime = ?6, have_second = ?7 WHERE id = ?1",
    [SQL_RESOURCE_LOST] = "UPDATE resources SET have = 0, expected = ?2,"
                          " have_second = 0,"
                          " have_version = 0, have_hash = x'',"
                          " left_run = 0 WHERE id = ?1",
    [SQL_RESOURCE_LEAVE] = "UPDATE resources SET left_run = ?2,"
                           " left_version = ?3 WHERE id = ?1",
    [SQL_MEMBER] = "SELECT version, " DESCRIPTION " FROM members"
                   " WHERE set_id = ?1 AND resource = ?2",
    [SQL_MEMBER_PUT] = "INSERT OR REPLACE INTO members VALUES"
                       " (?2, ?1, " GENERATION ", ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
                       " ?10)",
    [SQL_MEMBER_GONE] = "DELETE FROM members"
                        " WHERE set_id = ?1 AND resource = ?2",
    [SQL_MEMBER_OLD] = "SELECT resource FROM members WHERE resource > ?3"
                       " AND set_id = ?1 AND generation < min(?2, " GENERATION
                       ") ORDER BY resource LIMIT 1",
    [SQL_MEMBER_KEEP] = "UPDATE members SET generation = " GENERATION
                        " WHERE set_id = ?1 AND resource = ?2",
    [SQL_MEMBER_HOLD] = "UPDATE members SET generation = 0"
                        " WHERE set_id = ?1 AND resource = ?2",
    [SQL_MEMBERS_KEEP] = "UPDATE members SET generation = " GENERATION
                         " WHERE set_id = ?1 AND generation > 0"
                         " AND when_us > ?2",
    [SQL_MEMBERS_HOLD] = "UPDATE members SET generation = 0"
                         " WHERE set_id = ?1 AND generation < " GENERATION,
    [SQL_MEMBERS_HELD] = "SELECT count(*) FROM members"
                         " WHERE set_id = ?1 AND generation = 0",
    [SQL_COMPARED_CLEAR] = "DELETE FROM compared WHERE set_id = ?1",
    [SQL_COMPARED_ADD] = "INSERT OR REPLACE INTO compared VALUES"
                         " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    [SQL_COMPARED] = "SELECT loc, " DESCRIPTION " FROM compared"
                     " WHERE set_id = ?1 ORDER BY loc",
    [SQL_DELETION_PUT] = "INSERT OR REPLACE INTO deletions VALUES (?1, ?2, ?3)",
    [SQL_DELETION_GONE] = "DELETE FROM deletions"
                          " WHERE set_id = ?1 AND loc = ?2",
    [SQL_DELETION_LATER] = "SELECT 1 FROM deletions"
                           " WHERE set_id = ?1 AND loc = ?2 AND when_us > ?3",
    [SQL_DELETIONS_OVER] = "DELETE FROM deletions"
                           " WHERE set_id = ?1 AND when_us <= ?2",
    [SQL_CERTAINTY] = "SELECT " MIRROR_DB_CERTAINTY " FROM sets WHERE id = ?1",
    [SQL_CERTAINTY_SET] =
        "UPDATE sets SET (" MIRROR_DB_CERTAINTY
        ") = (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12) WHERE id = ?1",
    [SQL_SECOND_NEXT] = "SELECT id FROM resources WHERE have_second > 0"
                        " AND have_second <= ?1 LIMIT 1",
    [SQL_SECOND_OVER] = "UPDATE resources SET have_second = 0,"
                        " have_version = 0, have_lastmod = ?2 WHERE id = ?1",
    [SQL_MEMBER_NEXT] = "SELECT resource, loc, " DESCRIPTION
                        " FROM members JOIN resources ON id = resource"
                        " WHERE resource > ?2 AND set_id = ?1"
                        " ORDER BY resource LIMIT 1",
    [SQL_LOOK] = RESOURCE "WHERE id = ?1",
    [SQL_FIND] = RESOURCE "WHERE loc = ?1",
    [SQL_FIND_PATH] = "SELECT 1 FROM resources WHERE path = ?1",
    [SQL_NEXT] = RESOURCE "WHERE todo = ?1 AND todo <> 0 AND id > ?2"
                          " AND left_run <> ?3 ORDER BY id LIMIT 1",
    [SQL_WALK] = RESOURCE "ORDER BY loc",
    [SQL_HOUR_ADD] = "INSERT INTO hours VALUES (?1, max(?2, 0), ?3)"
                     " ON CONFLICT (hour) DO UPDATE SET n = max(n + ?2, 0),"
                     " n_of = max(n_of, ?3)",
    [SQL_HOUR_MOST] = "SELECT n, n_of, hour FROM hours"
                      " WHERE hour BETWEEN ?1 AND ?2"
                      " ORDER BY n DESC LIMIT 1",
    [SQL_HOUR_OLD] = "DELETE FROM hours WHERE hour < ?1",
};

/* synchronous=FULL: a position is on the disk when a commit returns. */
static const struct db_kind kind = {
    .name = "the state of the mirror",
    .mode = DB_OWN,
    .steps = steps,
    .n_steps = MIRROR_DB_VERSION,
    .opening = opening,
    .sql = sql,
    .n_sql = N_SQL,
};

struct mirror_db {
    struct db base;
    bool is_writing;
    int64_t run;     /* number of this run: is_left counts in it alone */
    int64_t version; /* the last one that the database assigned */
    struct mirror_db_counts counts;
    struct mirror_db_counts counts_before; /* of the open transaction */
    int64_t version_before;
    int64_t hour_first, hour_last; /* with removals in this transaction */
    bool has_hours;
    struct problem trouble;
    void (*on_failure)(void *user); /* NULL: nobody hears */
    void *user;
};

/* Steps of the database */

/* Ends a step: true if it went well. */
static bool
end_step(struct mirror_db *db, enum status rc)
{
    if (rc == STATUS_BUSY)
        problem(&db->trouble, STATUS_IO,
                "the state of the mirror cannot be written: no room on the "
                "disk; the finished files stay; make room and run it again");
    if (rc && db->on_failure)
        db->on_failure(db->user);
    return !rc;
}

static sqlite3_stmt *
kept_statement(const struct mirror_db *db, enum mirror_db_sql which)
{
    return db->base.statements[which];
}

/* A length as a column has it. */
static int64_t
sql_of_length(uint64_t length)
{
    return length > INT64_MAX ? -1 : (int64_t)length;
}

static void
bind_description(sqlite3_stmt *s, int first,
                 const struct mirror_db_description *t)
{
    sqlite3_bind_int64(s, first, t->when_us);
    sqlite3_bind_int64(s, first + 1, t->lastmod_us);
    db_bind_bytes(s, first + 2, t->hash);
    sqlite3_bind_int64(s, first + 3, sql_of_length(t->length));
    db_bind_bytes(s, first + 4, t->type);
    db_bind_bytes(s, first + 5, t->encoding);
    db_bind_bytes(s, first + 6, t->links);
}

/* Lends the columns of DESCRIPTION from the present row. */
static void
read_description(sqlite3_stmt *s, int first, struct mirror_db_description *t)
{
    int64_t length = sqlite3_column_int64(s, first + 3);

    t->when_us = sqlite3_column_int64(s, first);
    t->lastmod_us = sqlite3_column_int64(s, first + 1);
    t->hash = db_column(s, first + 2);
    t->length = length < 0 ? LENGTH_NONE : (uint64_t)length;
    t->type = db_column(s, first + 4);
    t->encoding = db_column(s, first + 5);
    t->links = db_column(s, first + 6);
}

/*
 * Runs a statement to its next row, or, with `has_row` NULL, to its end. The
 * letters of `types` are the arguments behind it, one parameter each:
 *
 *     n  int64_t         t  const char *         b  struct slice
 *     d  const struct mirror_db_description *, the last one: its columns
 *
 * A row is lent until the statement runs again, or the transaction ends.
 */
static bool
run_sql(struct mirror_db *db, enum mirror_db_sql which, bool *has_row,
        const char *types, ...)
{
    sqlite3_stmt *s = kept_statement(db, which);
    enum status rc;
    va_list values;

    sqlite3_reset(s);
    va_start(values, types);
    for (int i = 0; types[i]; i++)
        if (types[i] == 'n')
            sqlite3_bind_int64(s, i + 1, va_arg(values, int64_t));
        else if (types[i] == 't')
            db_bind_text(s, i + 1, slice_of(va_arg(values, const char *)));
        else if (types[i] == 'b')
            db_bind_bytes(s, i + 1, va_arg(values, struct slice));
        else
            bind_description(
                s, i + 1, va_arg(values, const struct mirror_db_description *));
    va_end(values);
    rc = has_row ? db_step(&db->base, s, has_row, NULL, &db->trouble)
                 : db_run(&db->base, s, NULL, &db->trouble);
    if (rc)
        sqlite3_reset(s);
    return end_step(db, rc);
}

/* Goes to the next row of a statement. */
static bool
next_row(struct mirror_db *db, enum mirror_db_sql which, bool *has_row)
{
    return end_step(db, db_step(&db->base, kept_statement(db, which), has_row,
                                NULL, &db->trouble));
}

/* Takes back all rows that are lent: an open one would keep SQLite from moving
 * the WAL into the file. */
static void
end_rows(struct mirror_db *db)
{
    for (int i = 0; i < N_SQL; i++)
        db_reset(db->base.statements[i]);
}

/* Opening */

static bool
read_state(struct mirror_db *db, const char *name, int64_t *value)
{
    bool has_row;

    if (!run_sql(db, SQL_STATE, &has_row, "t", name))
        return false;
    if (has_row)
        *value = sqlite3_column_int64(kept_statement(db, SQL_STATE), 0);
    return true;
}

static bool
write_state(struct mirror_db *db, const char *name, int64_t value)
{
    return run_sql(db, SQL_STATE_PUT, NULL, "tn", name, value);
}

static bool
count_all(struct mirror_db *db)
{
    struct mirror_db_counts *c = &db->counts;
    sqlite3_stmt *s = kept_statement(db, SQL_COUNT);
    bool row;

    if (!run_sql(db, SQL_COUNT, &row, ""))
        return false;
    c->n_resources = (uint64_t)sqlite3_column_int64(s, 0);
    c->n_have = (uint64_t)sqlite3_column_double(s, 1);
    c->bytes_have = (uint64_t)sqlite3_column_double(s, 2);
    c->n_fetch = (uint64_t)sqlite3_column_double(s, 3);
    c->bytes_wanted = (uint64_t)sqlite3_column_double(s, 4);
    c->n_remove = (uint64_t)sqlite3_column_double(s, 5);
    return true;
}

const struct mirror_db_count mirror_db_count_rows[] = {
    {"resources", offsetof(struct mirror_db_counts, n_resources)},
    {"have", offsetof(struct mirror_db_counts, n_have)},
    {"have-bytes", offsetof(struct mirror_db_counts, bytes_have)},
    {"fetch", offsetof(struct mirror_db_counts, n_fetch)},
    {"fetch-bytes", offsetof(struct mirror_db_counts, bytes_wanted)},
    {"remove", offsetof(struct mirror_db_counts, n_remove)},
    {"left", offsetof(struct mirror_db_counts, n_left)},
    {NULL, 0},
};

static bool
write_counts(struct mirror_db *db)
{
    for (const struct mirror_db_count *c = mirror_db_count_rows; c->name; c++)
        if (!write_state(
                db, c->name,
                (int64_t) *
                    (const uint64_t *)((const char *)&db->counts + c->offset)))
            return false;
    return true;
}

/* Takes a new run number: resources that an earlier run gave up are tried
 * again. */
static bool
begin_run(struct mirror_db *db)
{
    if (!read_state(db, "run", &db->run) ||
        !read_state(db, "version", &db->version))
        return false;
    db->run++;
    return mirror_db_begin(db) && write_state(db, "run", db->run) &&
           write_counts(db) && mirror_db_commit(db);
}

struct mirror_db *
mirror_db_open(const char *dir, const char *name, struct problem *why)
{
    struct mirror_db *db = calloc(1, sizeof(*db));
    char path[PATH_MAX];

    if (!db) {
        problem_memory(why);
        return NULL;
    }
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        problem(&db->trouble, STATUS_IO, "%s: the path is too long", dir);
    else if (!db_open_kind(&db->base, &kind, path, &db->trouble) &&
             count_all(db) && begin_run(db))
        return db;
    *why = db->trouble;
    mirror_db_close(db);
    return NULL;
}

void
mirror_db_close(struct mirror_db *db)
{
    if (db)
        db_close(&db->base);
    free(db);
}

void
mirror_db_on_failure(struct mirror_db *db, void (*on_failure)(void *user),
                     void *user)
{
    db->on_failure = on_failure;
    db->user = user;
}

const char *
mirror_db_trouble(const struct mirror_db *db)
{
    return db->trouble.text;
}

const struct mirror_db_counts *
mirror_db_counts(const struct mirror_db *db)
{
    return &db->counts;
}

/* Transactions */

bool
mirror_db_begin(struct mirror_db *db)
{
    db->counts_before = db->counts;
    db->version_before = db->version;
    db->has_hours = false;
    db->is_writing = end_step(db, db_begin(&db->base, &db->trouble));
    return db->is_writing;
}

bool
mirror_db_commit(struct mirror_db *db)
{
    if (db->version != db->version_before &&
        !write_state(db, "version", db->version))
        return false;
    if (memcmp(&db->counts, &db->counts_before, sizeof(db->counts)) &&
        !write_counts(db))
        return false;
    end_rows(db);
    if (!end_step(db, db_end(&db->base, STATUS_OK, &db->trouble)))
        return false;
    db->is_writing = false;
    return true;
}

void
mirror_db_rollback(struct mirror_db *db)
{
    if (!db->is_writing)
        return;
    end_rows(db);
    db_rollback(&db->base);
    db->is_writing = false;
    db->counts = db->counts_before;
    db->version = db->version_before;
}

/* Sources and sets */

bool
mirror_db_add_source(struct mirror_db *db, const char *url)
{
    return run_sql(db, SQL_SOURCE_ADD, NULL, "t", url);
}

/* Lends a text of the present row. */
static const char *
text_of(const struct mirror_db *db, enum mirror_db_sql which, int column)
{
    return (const char *)sqlite3_column_text(kept_statement(db, which), column);
}

bool
mirror_db_source(struct mirror_db *db, unsigned n, const char **url)
{
    bool has_row;

    if (!run_sql(db, SQL_SOURCE, &has_row, "n", (int64_t)n))
        return false;
    *url = has_row ? text_of(db, SQL_SOURCE, 0) : "";
    return true;
}

bool
mirror_db_set(struct mirror_db *db, const char *url, int64_t *set,
              char position[TD_POSITION_SIZE])
{
    sqlite3_stmt *s = kept_statement(db, SQL_SET);
    bool has_row;

    if (!run_sql(db, SQL_SET, &has_row, "t", url) ||
        (!has_row && !(run_sql(db, SQL_SET_ADD, NULL, "t", url) &&
                       run_sql(db, SQL_SET, &has_row, "t", url))))
        return false;
    *set = sqlite3_column_int64(s, 0);
    db_text(s, 1, position, TD_POSITION_SIZE);
    return true;
}

bool
mirror_db_next_set(struct mirror_db *db, int64_t after, int64_t *set,
                   const char **url, bool *is_found)
{
    if (!run_sql(db, SQL_SET_NEXT, is_found, "n", after))
        return false;
    if (*is_found) {
        *set = sqlite3_column_int64(kept_statement(db, SQL_SET_NEXT), 0);
        *url = text_of(db, SQL_SET_NEXT, 1);
    }
    return true;
}

bool
mirror_db_set_position(struct mirror_db *db, int64_t set, const char *position)
{
    return run_sql(db, SQL_SET_REACH, NULL, "nt", set, position);
}

bool
mirror_db_note_caught_up(struct mirror_db *db, int64_t set, int64_t when_us)
{
    return run_sql(db, SQL_SET_CAUGHT_UP, NULL, "nn", set, when_us);
}

/* Resources */

/* Lends the present row of a statement that selects a RESOURCE. */
static void
read_resource(const struct mirror_db *db, enum mirror_db_sql which,
              struct mirror_db_resource *r)
{
    sqlite3_stmt *s = kept_statement(db, which);

    r->id = sqlite3_column_int64(s, 0);
    r->loc = db_column(s, 1);
    db_text(s, 2, r->path, sizeof(r->path));
    r->todo = (enum mirror_db_todo)sqlite3_column_int(s, 3);
    r->is_left = sqlite3_column_int64(s, 4) == db->run;
    r->is_expected = sqlite3_column_int(s, 5);
    r->is_there = sqlite3_column_int(s, 6);
    r->have_version = sqlite3_column_int64(s, 7);
    r->have_hash = db_column(s, 8);
    r->have_lastmod_us = sqlite3_column_int64(s, 9);
    r->have_mark.size = (uint64_t)sqlite3_column_int64(s, 10);
    r->have_mark.mtime_ns = sqlite3_column_int64(s, 11);
    r->bytes = (uint64_t)sqlite3_column_int64(s, 12);
    r->left_version = sqlite3_column_int64(s, 13);
    r->have_second_us = sqlite3_column_int64(s, 14);
    r->version = sqlite3_column_int64(s, 15); /* the first one is 1 */
    r->is_wanted = r->version > 0;
    r->wanted = (struct mirror_db_description){.when_us = DATETIME_NONE,
                                               .lastmod_us = DATETIME_NONE,
                                               .length = LENGTH_NONE};
    if (r->is_wanted)
        read_description(s, 16, &r->wanted);
}

bool
mirror_db_get(struct mirror_db *db, int64_t id,
              struct mirror_db_resource *resource, bool *is_found)
{
    if (!run_sql(db, SQL_LOOK, is_found, "n", id))
        return false;
    if (*is_found)
        read_resource(db, SQL_LOOK, resource);
    return true;
}

/* The same for a resource that must be there. */
static bool
get_known(struct mirror_db *db, int64_t id, struct mirror_db_resource *r)
{
    bool is_found;

    return mirror_db_get(db, id, r, &is_found) &&
           (is_found ||
            end_step(db, problem(&db->trouble, STATUS_IO,
                                 "the resource %" PRId64 " is gone", id)));
}

bool
mirror_db_find(struct mirror_db *db, struct slice loc,
               struct mirror_db_resource *resource, bool *is_found)
{
    if (!run_sql(db, SQL_FIND, is_found, "b", loc))
        return false;
    if (*is_found)
        read_resource(db, SQL_FIND, resource);
    return true;
}

bool
mirror_db_has_path(struct mirror_db *db, const char *path, bool *has)
{
    return run_sql(db, SQL_FIND_PATH, has, "t", path);
}

bool
mirror_db_next(struct mirror_db *db, enum mirror_db_todo todo, int64_t after_id,
               struct mirror_db_resource *resource, bool *is_found)
{
    if (!run_sql(db, SQL_NEXT, is_found, "nnn", (int64_t)todo, after_id,
                 db->run))
        return false;
    if (*is_found)
        read_resource(db, SQL_NEXT, resource);
    return true;
}

bool
mirror_db_walk(struct mirror_db *db, bool is_first,
               struct mirror_db_resource *resource, bool *is_found)
{
    if (!(is_first ? run_sql(db, SQL_WALK, is_found, "")
                   : next_row(db, SQL_WALK, is_found)))
        return false;
    if (*is_found)
        read_resource(db, SQL_WALK, resource);
    return true;
}

/* True if the noted file is the wanted one. `trusts_times`: without digests,
 * the same lastmod will do. */
static bool
is_right(const struct mirror_db_resource *resource, bool trusts_times)
{
    bool has_common;
    const struct mirror_db_description *wanted = &resource->wanted;
    bool agrees = hashes_agree(wanted->hash, resource->have_hash, &has_common);
    bool fits = wanted->length == LENGTH_NONE ||
                wanted->length == resource->have_mark.size;

    if (!resource->is_there)
        return false;
    if (resource->version == resource->have_version)
        return true;
    if (has_common)
        return agrees && fits;
    return trusts_times && fits && wanted->lastmod_us != DATETIME_NONE &&
           wanted->lastmod_us == resource->have_lastmod_us;
}

/* The work of a resource */

/* Adds `n` removals (-1: takes one back) to this hour of event time. */
static bool
count_removal(struct mirror_db *db, int64_t hour, int n)
{
    if (!db->has_hours || hour < db->hour_first)
        db->hour_first = hour;
    if (!db->has_hours || hour > db->hour_last)
        db->hour_last = hour;
    db->has_hours = true;
    return run_sql(db, SQL_HOUR_OLD, NULL, "n", hour - HOURS_KEPT) &&
           run_sql(db, SQL_HOUR_ADD, NULL, "nnn", hour, (int64_t)n,
                   db->counts.n_have);
}

bool
mirror_db_removals(struct mirror_db *db, uint64_t *n, uint64_t *n_of)
{
    sqlite3_stmt *s = kept_statement(db, SQL_HOUR_MOST);
    bool has_row;

    *n = *n_of = 0;
    if (!db->has_hours)
        return true;
    if (!run_sql(db, SQL_HOUR_MOST, &has_row, "nn", db->hour_first,
                 db->hour_last))
        return false;
    if (has_row) {
        *n = (uint64_t)sqlite3_column_int64(s, 0);
        *n_of = (uint64_t)sqlite3_column_int64(s, 1);
        db->hour_first = db->hour_last = sqlite3_column_int64(s, 2);
    }
    return true;
}

/* Adds a resource with its work to the counts, or takes it (`n` -1) out. */
static void
count_work(struct mirror_db *db, enum mirror_db_todo todo, uint64_t bytes,
           int n)
{
    db->counts.n_fetch += todo == MIRROR_DB_FETCH ? (uint64_t)n : 0;
    db->counts.n_remove += todo == MIRROR_DB_REMOVE ? (uint64_t)n : 0;
    db->counts.bytes_wanted += (uint64_t)n * bytes;
}

/* Computes the work of a resource after a change of it, and deletes the
 * resource if no set has it and there is no file. `trusts_times`: the same
 * lastmod means the same content, unless a change said otherwise. `hour`: of
 * the change that may remove it, or NO_HOUR. */
static bool
settle_resource(struct mirror_db *db, int64_t id, bool trusts_times,
                int64_t hour)
{
    struct mirror_db_resource r;
    enum mirror_db_todo todo = MIRROR_DB_NOTHING;
    uint64_t bytes = 0;
    bool is_left;

    if (!get_known(db, id, &r))
        return false;
    if (r.is_wanted && is_right(&r, trusts_times && r.todo != MIRROR_DB_FETCH))
        r.have_version = r.version;
    else if (r.is_wanted)
        todo = MIRROR_DB_FETCH;
    else if (r.is_there || r.is_expected)
        todo = MIRROR_DB_REMOVE;
    if (todo == MIRROR_DB_FETCH && r.wanted.length != LENGTH_NONE)
        bytes = r.wanted.length;

    /* A resource stays given up until it has a new version. */
    is_left =
        r.is_left && todo == MIRROR_DB_FETCH && r.left_version == r.version;
    if (r.is_left && !is_left)
        db->counts.n_left--;
    count_work(db, r.todo, r.bytes, -1);
    count_work(db, todo, bytes, 1);
    if (hour != NO_HOUR && r.is_there &&
        (todo == MIRROR_DB_REMOVE) != (r.todo == MIRROR_DB_REMOVE) &&
        !count_removal(db, hour, todo == MIRROR_DB_REMOVE ? 1 : -1))
        return false;
    if (!r.is_wanted && todo == MIRROR_DB_NOTHING) {
        db->counts.n_resources--;
        return run_sql(db, SQL_RESOURCE_GONE, NULL, "n", id);
    }
    return run_sql(db, SQL_RESOURCE_TODO, NULL, "nnnnn", id, (int64_t)todo,
                   bytes, is_left ? db->run : 0, r.have_version);
}

/* Descriptions */

static bool
add_resource(struct mirror_db *db, struct slice loc, int64_t *id)
{
    char path[RESOURCE_PATH_MAX + 1];

    if (!resource_path_write(path, loc))
        return end_step(db, problem_memory(&db->trouble));
    if (!run_sql(db, SQL_RESOURCE_ADD, NULL, "btn", loc, path, DATETIME_NONE))
        return false;
    db->counts.n_resources++;
    *id = sqlite3_last_insert_rowid(db->base.handle);
    return true;
}

/* True if the set repeats its last description: a download under way then need
 * not begin anew. */
static bool
is_repeat(const struct mirror_db_description *was,
          const struct mirror_db_description *is)
{
    if (!slice_equal(was->hash, is->hash) || was->length != is->length)
        return false;
    return was->hash.size > 0 ||
           (is->is_baseline && was->lastmod_us == is->lastmod_us &&
            (is->lastmod_us != DATETIME_NONE ||
             (is->when_us != DATETIME_NONE && was->when_us == is->when_us)));
}

/* Lends the set's last description; `*version` 0: there is none. */
static bool
read_last(struct mirror_db *db, int64_t id, int64_t set,
          struct mirror_db_description *was, int64_t *version)
{
    sqlite3_stmt *s = kept_statement(db, SQL_MEMBER);
    bool has_row;

    if (!run_sql(db, SQL_MEMBER, &has_row, "nn", set, id))
        return false;
    *version = has_row ? sqlite3_column_int64(s, 0) : 0;
    if (has_row)
        read_description(s, 1, was);
    return true;
}

/* Finds a resource and the set's last description of it. */
static bool
find_last(struct mirror_db *db, int64_t set, struct slice loc,
          struct mirror_db_resource *r, struct mirror_db_description *was,
          int64_t *version)
{
    bool is_found;

    *version = 0;
    if (!mirror_db_find(db, loc, r, &is_found))
        return false;
    if (!is_found)
        r->id = 0;
    return !is_found || read_last(db, r->id, set, was, version);
}

/* Notes the deletion of a resource, or that it is there again. */
static bool
note_deletion(struct mirror_db *db, int64_t set,
              const struct mirror_db_description *t)
{
    if (!t->is_noted)
        return true;
    return t->is_deleted
               ? run_sql(db, SQL_DELETION_PUT, NULL, "nbn", set, t->loc,
                         t->when_us)
               : run_sql(db, SQL_DELETION_GONE, NULL, "nb", set, t->loc);
}

bool
mirror_db_describe(struct mirror_db *db, int64_t set,
                   const struct mirror_db_description *description, int64_t *id)
{
    struct mirror_db_resource r;
    struct mirror_db_description was;
    int64_t version;
    int64_t hour =
        description->is_baseline || description->when_us == DATETIME_NONE
            ? NO_HOUR
            : description->when_us / HOUR_US;

    if (!note_deletion(db, set, description) ||
        !find_last(db, set, description->loc, &r, &was, &version))
        return false;
    *id = r.id;
    if (description->is_deleted)
        return !r.id ||
               (description->is_held
                    ? run_sql(db, SQL_MEMBER_HOLD, NULL, "nn", set, r.id)
                    : run_sql(db, SQL_MEMBER_GONE, NULL, "nn", set, r.id) &&
                          settle_resource(db, r.id, true, hour));
    if (!r.id && !add_resource(db, description->loc, id))
        return false;
    if (!version || !is_repeat(&was, description) ||
        (r.is_left && !description->is_baseline))
        version = ++db->version;
    return run_sql(db, SQL_MEMBER_PUT, NULL, "nnnd", set, *id, version,
                   description) &&
           settle_resource(db, *id, description->is_baseline, hour);
}

bool
mirror_db_next_description(struct mirror_db *db, int64_t set, int64_t after_id,
                           int64_t *id,
                           struct mirror_db_description *description,
                           bool *is_found)
{
    sqlite3_stmt *s = kept_statement(db, SQL_MEMBER_NEXT);

    if (!run_sql(db, SQL_MEMBER_NEXT, is_found, "nn", set, after_id))
        return false;
    if (*is_found) {
        *id = sqlite3_column_int64(s, 0);
        *description = (struct mirror_db_description){.loc = db_column(s, 1),
                                                      .is_baseline = true};
        read_description(s, 2, description);
    }
    return true;
}

/* Baselines */

bool
mirror_db_baseline_begin(struct mirror_db *db, int64_t set)
{
    return run_sql(db, SQL_COMPARED_CLEAR, NULL, "n", set) &&
           run_sql(db, SQL_SET_NEW_GENERATION, NULL, "n", set);
}

/* Removes the members of the generations before `generation`, and before the
 * present one. */
static bool
remove_members_before(struct mirror_db *db, int64_t set, int64_t generation)
{
    int64_t id = 0;
    bool has_row;

    for (;;) {
        if (!run_sql(db, SQL_MEMBER_OLD, &has_row, "nnn", set, generation, id))
            return false;
        if (!has_row)
            return true;
        id = sqlite3_column_int64(kept_statement(db, SQL_MEMBER_OLD), 0);
        if (!run_sql(db, SQL_MEMBER_GONE, NULL, "nn", set, id) ||
            !settle_resource(db, id, true, NO_HOUR))
            return false;
    }
}

/* True if both descriptions are certainly of different versions. A list often
 * says less than the change before it. */
static bool
differs(const struct mirror_db_description *was,
        const struct mirror_db_description *is)
{
    bool has_common;

    if (!hashes_agree(was->hash, is->hash, &has_common) ||
        (was->length != LENGTH_NONE && is->length != LENGTH_NONE &&
         was->length != is->length))
        return true;
    if (has_common || is->lastmod_us == DATETIME_NONE)
        return false;
    return was->lastmod_us != DATETIME_NONE ? was->lastmod_us != is->lastmod_us
                                            : is->lastmod_us > was->when_us;
}

bool
mirror_db_compare(struct mirror_db *db, int64_t set,
                  const struct mirror_db_description *t)
{
    struct mirror_db_description was;
    struct mirror_db_resource r;
    int64_t version;

    if (!find_last(db, set, t->loc, &r, &was, &version))
        return false;
    if (version && !differs(&was, t))
        return run_sql(db, SQL_MEMBER_KEEP, NULL, "nn", set, r.id);
    return run_sql(db, SQL_COMPARED_ADD, NULL, "bnd", t->loc, set, t);
}

/* Applies the present row of `compared`, unless the resource has changed since
 * that time. */
static bool
apply_difference(struct mirror_db *db, int64_t set, int64_t as_of_us)
{
    sqlite3_stmt *s = kept_statement(db, SQL_COMPARED);
    struct mirror_db_description t = {.loc = db_column(s, 0),
                                      .is_baseline = true};
    struct mirror_db_description was;
    struct mirror_db_resource r;
    int64_t version;
    int64_t id;
    bool is_later;

    read_description(s, 1, &t);
    if (!find_last(db, set, t.loc, &r, &was, &version))
        return false;
    if (version)
        is_later = was.when_us > as_of_us;
    else if (!run_sql(db, SQL_DELETION_LATER, &is_later, "nbn", set, t.loc,
                      as_of_us))
        return false;
    if (!is_later)
        return mirror_db_describe(db, set, &t, &id);
    return !version || run_sql(db, SQL_MEMBER_KEEP, NULL, "nn", set, r.id);
}

/* Applies the differences of a comparison. */
static bool
apply_compared(struct mirror_db *db, int64_t set, int64_t as_of_us)
{
    bool has_row;

    if (!run_sql(db, SQL_COMPARED, &has_row, "n", set))
        return false;
    while (has_row)
        if (!apply_difference(db, set, as_of_us) ||
            !next_row(db, SQL_COMPARED, &has_row))
            return false;
    return run_sql(db, SQL_MEMBERS_KEEP, NULL, "nn", set, as_of_us);
}

bool
mirror_db_baseline_end(struct mirror_db *db, int64_t set,
                       const struct mirror_db_end *end, uint64_t *n_remove)
{
    bool is_comparison = end->as_of_us != DATETIME_NONE;
    uint64_t before;

    if (is_comparison && !apply_compared(db, set, end->as_of_us))
        return false;
    before = db->counts.n_remove;
    if (!(end->is_held ? run_sql(db, SQL_MEMBERS_HOLD, NULL, "n", set)
                       : remove_members_before(db, set, INT64_MAX)))
        return false;
    *n_remove = db->counts.n_remove - before;
    return run_sql(db, SQL_DELETIONS_OVER, NULL, "nn", set,
                   is_comparison ? end->as_of_us : INT64_MAX);
}

bool
mirror_db_count_held(struct mirror_db *db, int64_t set, uint64_t *n)
{
    bool has_row;

    if (!run_sql(db, SQL_MEMBERS_HELD, &has_row, "n", set))
        return false;
    *n =
        (uint64_t)sqlite3_column_int64(kept_statement(db, SQL_MEMBERS_HELD), 0);
    return true;
}

bool
mirror_db_delete_held(struct mirror_db *db, int64_t set)
{
    return remove_members_before(db, set, 1);
}

/* Certainty */

void
mirror_db_read_certainty(sqlite3_stmt *s, int first,
                         struct mirror_db_certainty *c)
{
    c->complete_us = sqlite3_column_int64(s, first);
    db_text(s, first + 1, c->complete_by, sizeof(c->complete_by));
    c->compared_us = sqlite3_column_int64(s, first + 2);
    db_text(s, first + 3, c->doubt, sizeof(c->doubt));
    c->doubt_us = sqlite3_column_int64(s, first + 4);
    c->n_held = (uint64_t)sqlite3_column_int64(s, first + 5);
    c->n_held_of = (uint64_t)sqlite3_column_int64(s, first + 6);
    c->n_left_out = (uint64_t)sqlite3_column_int64(s, first + 7);
    db_text(s, first + 8, c->left_out, sizeof(c->left_out));
    c->n_left_out_before = (uint64_t)sqlite3_column_int64(s, first + 9);
    c->n_mended = (uint64_t)sqlite3_column_int64(s, first + 10);
}

bool
mirror_db_certainty(struct mirror_db *db, int64_t set,
                    struct mirror_db_certainty *certainty)
{
    bool has_row;

    *certainty = (struct mirror_db_certainty){.complete_us = 0};
    if (!run_sql(db, SQL_CERTAINTY, &has_row, "n", set))
        return false;
    if (has_row)
        mirror_db_read_certainty(kept_statement(db, SQL_CERTAINTY), 0,
                                 certainty);
    return true;
}

bool
mirror_db_set_certainty(struct mirror_db *db, int64_t set,
                        const struct mirror_db_certainty *c)
{
    return run_sql(db, SQL_CERTAINTY_SET, NULL, "nntntnnnntnn", set,
                   c->complete_us, c->complete_by, c->compared_us, c->doubt,
                   c->doubt_us, c->n_held, c->n_held_of, c->n_left_out,
                   c->left_out, c->n_left_out_before, c->n_mended);
}

/* Noting */

bool
mirror_db_expect(struct mirror_db *db, int64_t id)
{
    return run_sql(db, SQL_RESOURCE_EXPECT, NULL, "n", id);
}

bool
mirror_db_doubt(struct mirror_db *db, int64_t id)
{
    return run_sql(db, SQL_RESOURCE_DOUBT, NULL, "nn", id, DATETIME_NONE);
}

bool
mirror_db_note_file(struct mirror_db *db, int64_t id, int64_t version,
                    struct slice hash, int64_t lastmod_us, int64_t second_us,
                    const struct mirror_dir_mark *mark)
{
    struct mirror_db_resource was;
    bool is_found;
    bool was_there;

    if (!mirror_db_get(db, id, &was, &is_found))
        return false;
    was_there = is_found && was.is_there;
    if (!run_sql(db, SQL_RESOURCE_HAVE, NULL, "nnbnnnn", id, version, hash,
                 lastmod_us, mark->size, mark->mtime_ns, second_us))
        return false;
    db->counts.n_have += !was_there;
    db->counts.bytes_have += mark->size;
    db->counts.bytes_have -= was_there ? was.have_mark.size : 0;
    return settle_resource(db, id, false, NO_HOUR);
}

bool
mirror_db_note_loss(struct mirror_db *db, int64_t id)
{
    struct mirror_db_resource r;

    if (!get_known(db, id, &r))
        return false;
    /* If it is wanted, a file at its path was ours. */
    if (!run_sql(db, SQL_RESOURCE_LOST, NULL, "nn", id, (int64_t)r.is_wanted))
        return false;
    db->counts.n_have -= r.is_there;
    db->counts.bytes_have -= r.is_there ? r.have_mark.size : 0;
    db->counts.n_left -= r.is_left;
    return settle_resource(db, id, false, NO_HOUR);
}

bool
mirror_db_renew(struct mirror_db *db, int64_t now_us)
{
    bool has_row;

    for (;;) {
        int64_t id;

        if (!run_sql(db, SQL_SECOND_NEXT, &has_row, "n", now_us))
            return false;
        if (!has_row)
            return true;
        id = sqlite3_column_int64(kept_statement(db, SQL_SECOND_NEXT), 0);
        if (!run_sql(db, SQL_SECOND_OVER, NULL, "nn", id, DATETIME_NONE) ||
            !settle_resource(db, id, false, NO_HOUR))
            return false;
    }
}

bool
mirror_db_give_up(struct mirror_db *db, int64_t id)
{
    struct mirror_db_resource r;

    if (!get_known(db, id, &r))
        return false;
    if (r.todo != MIRROR_DB_FETCH || r.is_left)
        return true;
    db->counts.n_left++;
    return run_sql(db, SQL_RESOURCE_LEAVE, NULL, "nnn", id, db->run, r.version);
}
