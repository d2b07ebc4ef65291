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

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/datetime.h"
#include "proto/resourcesync/change.h"
#include "proto/resourcesync/digest.h"

/* Most bytes that one resource lends. */
#define LENT_MAX (16 * 1024 * 1024)

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

#define RESOURCE                                                     \
    "SELECT id, loc, path, todo, left_run, expected, have,"          \
    " have_version, have_hash, have_lastmod, have_size, have_mtime," \
    " bytes, left_version, have_second FROM resources "
#define MEMBER                                                        \
    "SELECT version, when_us, lastmod, hash, length, type, encoding," \
    " links, set_id FROM members "

enum mirror_db_sql {
    SQL_COUNT,
    SQL_STATE,
    SQL_STATE_PUT,
    SQL_SOURCE_ADD,
    SQL_SOURCE,
    SQL_SET,
    SQL_SET_ADD,
    SQL_SET_NEXT,
    SQL_SET_REACH,
    SQL_SET_CAUGHT_UP,
    SQL_SET_GENERATION,
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
    SQL_MEMBERS_KEEP,
    SQL_MEMBERS_HOLD,
    SQL_MEMBERS_HELD,
    SQL_COMPARED_CLEAR,
    SQL_COMPARED_ADD,
    SQL_COMPARED_NEXT,
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
    SQL_BEST,
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
    [SQL_SET] = "SELECT id, position FROM sets WHERE url = ?1",
    [SQL_SET_ADD] = "INSERT INTO sets (url, position, generation)"
                    " VALUES (?1, '', 1)",
    [SQL_SET_NEXT] = "SELECT id, url FROM sets WHERE id > ?1"
                     " ORDER BY id LIMIT 1",
    [SQL_SET_REACH] = "UPDATE sets SET position = ?2 WHERE id = ?1",
    [SQL_SET_CAUGHT_UP] = "UPDATE sets SET caught_up = ?2 WHERE id = ?1",
    [SQL_SET_GENERATION] = "SELECT generation FROM sets WHERE id = ?1",
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
    [SQL_MEMBER] = MEMBER "WHERE resource = ?1 AND set_id = ?2",
    [SQL_MEMBER_PUT] = "INSERT OR REPLACE INTO members VALUES"
                       " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    [SQL_MEMBER_GONE] = "DELETE FROM members"
                        " WHERE resource = ?1 AND set_id = ?2",
    [SQL_MEMBER_OLD] = "SELECT resource FROM members WHERE resource > ?3"
                       " AND set_id = ?1 AND generation < ?2"
                       " ORDER BY resource LIMIT 1",
    [SQL_MEMBER_KEEP] = "UPDATE members SET generation = ?3"
                        " WHERE resource = ?1 AND set_id = ?2",
    [SQL_MEMBERS_KEEP] = "UPDATE members SET generation = ?2 WHERE set_id = ?1"
                         " AND generation BETWEEN 1 AND ?2 - 1"
                         " AND when_us > ?3",
    [SQL_MEMBERS_HOLD] = "UPDATE members SET generation = 0"
                         " WHERE set_id = ?1 AND generation < ?2",
    [SQL_MEMBERS_HELD] = "SELECT count(*) FROM members"
                         " WHERE set_id = ?1 AND generation = 0",
    [SQL_COMPARED_CLEAR] = "DELETE FROM compared WHERE set_id = ?1",
    [SQL_COMPARED_ADD] = "INSERT OR REPLACE INTO compared VALUES"
                         " (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    [SQL_COMPARED_NEXT] = "SELECT loc, when_us, lastmod, hash, length, type,"
                          " encoding, links FROM compared"
                          " WHERE loc > ?1 AND set_id = ?2"
                          " ORDER BY loc LIMIT 1",
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
    [SQL_MEMBER_NEXT] = "SELECT m.resource, r.loc, m.when_us, m.lastmod,"
                        " m.hash, m.length, m.type, m.encoding, m.links"
                        " FROM members m JOIN resources r ON r.id = m.resource"
                        " WHERE m.resource > ?2 AND m.set_id = ?1"
                        " ORDER BY m.resource LIMIT 1",
    [SQL_LOOK] = RESOURCE "WHERE id = ?1",
    [SQL_FIND] = RESOURCE "WHERE loc = ?1",
    [SQL_FIND_PATH] = RESOURCE "WHERE path = ?1",
    [SQL_NEXT] = RESOURCE "WHERE todo = ?1 AND todo <> 0 AND id > ?2"
                          " AND left_run <> ?3 ORDER BY id LIMIT 1",
    [SQL_WALK] = RESOURCE "WHERE loc > ?1 ORDER BY loc LIMIT 1",
    [SQL_BEST] = MEMBER "WHERE resource = ?1"
                        " ORDER BY when_us DESC, version DESC LIMIT 1",
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
    int64_t set; /* the set with `generation`; 0: none */
    int64_t generation;
    int64_t hour_first, hour_last; /* with removals in this transaction */
    bool has_hours;
    struct buf lent; /* text and hashes of the last resource or URL */
    struct problem trouble;
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
    return !rc;
}

static sqlite3_stmt *
kept_statement(const struct mirror_db *db, enum mirror_db_sql which)
{
    return db->base.statements[which];
}

/* Runs a statement to its next row or its end. */
static bool
step_to_row(struct mirror_db *db, enum mirror_db_sql which, bool *has_row)
{
    if (end_step(db, db_step(&db->base, kept_statement(db, which), has_row,
                             NULL, &db->trouble)))
        return true;
    sqlite3_reset(kept_statement(db, which));
    return false;
}

/* Runs it to its end, without rows. */
static bool
run_statement(struct mirror_db *db, enum mirror_db_sql which)
{
    return end_step(
        db, db_run(&db->base, kept_statement(db, which), NULL, &db->trouble));
}

static void
bind_number(struct mirror_db *db, enum mirror_db_sql which, int n,
            int64_t value)
{
    sqlite3_bind_int64(kept_statement(db, which), n, value);
}

/* Runs a statement whose parameters are the `n` numbers to its end. */
static bool
run_numbers(struct mirror_db *db, enum mirror_db_sql which, int n,
            const int64_t *numbers)
{
    for (int i = 0; i < n; i++)
        bind_number(db, which, i + 1, numbers[i]);
    return run_statement(db, which);
}

/* The same, to its next row or its end. */
static bool
step_numbers(struct mirror_db *db, enum mirror_db_sql which, int n,
             const int64_t *numbers, bool *has_row)
{
    for (int i = 0; i < n; i++)
        bind_number(db, which, i + 1, numbers[i]);
    return step_to_row(db, which, has_row);
}

static void
bind_bytes(struct mirror_db *db, enum mirror_db_sql which, int n,
           struct slice bytes)
{
    db_bind_bytes(kept_statement(db, which), n, bytes);
}

static void
bind_text(struct mirror_db *db, enum mirror_db_sql which, int n,
          const char *text)
{
    db_bind_text(kept_statement(db, which), n, slice_of(text));
}

/* Columns that are copied into `lent`. */
struct lending {
    struct slice *slices[8];
    size_t at[8];
    size_t n;
};

/* Copies a column; end_lending sets `*slice`, when all columns are there. */
static void
lend_column(struct mirror_db *db, struct lending *lending, struct slice *slice,
            sqlite3_stmt *s, int column)
{
    struct slice bytes = db_column(s, column);

    *slice = (struct slice){NULL, bytes.size};
    lending->at[lending->n] = db->lent.size;
    lending->slices[lending->n++] = slice;
    buf_add(&db->lent, bytes.data, bytes.size);
    buf_add(&db->lent, "", 1);
}

static bool
end_lending(struct mirror_db *db, const struct lending *lending)
{
    if (db->lent.failed) {
        problem_memory(&db->trouble);
        return false;
    }
    for (size_t i = 0; i < lending->n; i++)
        lending->slices[i]->data = db->lent.data + lending->at[i];
    return true;
}

/* Opening */

static bool
read_state(struct mirror_db *db, const char *name, int64_t *value)
{
    bool has_row;

    bind_text(db, SQL_STATE, 1, name);
    if (!step_to_row(db, SQL_STATE, &has_row))
        return false;
    if (has_row)
        *value = sqlite3_column_int64(kept_statement(db, SQL_STATE), 0);
    db_reset(kept_statement(db, SQL_STATE));
    return true;
}

static bool
write_state(struct mirror_db *db, const char *name, int64_t value)
{
    bind_text(db, SQL_STATE_PUT, 1, name);
    bind_number(db, SQL_STATE_PUT, 2, value);
    return run_statement(db, SQL_STATE_PUT);
}

static bool
count_all(struct mirror_db *db)
{
    struct mirror_db_counts *c = &db->counts;
    sqlite3_stmt *s = kept_statement(db, SQL_COUNT);
    bool row;

    if (!step_to_row(db, SQL_COUNT, &row))
        return false;
    c->n_resources = (uint64_t)sqlite3_column_int64(s, 0);
    c->n_have = (uint64_t)sqlite3_column_double(s, 1);
    c->bytes_have = (uint64_t)sqlite3_column_double(s, 2);
    c->n_fetch = (uint64_t)sqlite3_column_double(s, 3);
    c->bytes_wanted = (uint64_t)sqlite3_column_double(s, 4);
    c->n_remove = (uint64_t)sqlite3_column_double(s, 5);
    db_reset(s);
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
    buf_init(&db->lent, LENT_MAX);
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
    if (!db)
        return;
    db_close(&db->base);
    buf_fini(&db->lent);
    free(db);
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
    db_rollback(&db->base);
    db->is_writing = false;
    db->counts = db->counts_before;
    db->version = db->version_before;
    db->set = 0;
}

/* Sources and sets */

bool
mirror_db_add_source(struct mirror_db *db, const char *url)
{
    bind_text(db, SQL_SOURCE_ADD, 1, url);
    return run_statement(db, SQL_SOURCE_ADD);
}

/* Lends a text of a row, and ends the statement. */
static bool
lend_text(struct mirror_db *db, enum mirror_db_sql which, int column,
          const char **text)
{
    struct lending lending = {.n = 0};
    struct slice slice;

    buf_clear(&db->lent);
    lend_column(db, &lending, &slice, kept_statement(db, which), column);
    db_reset(kept_statement(db, which));
    if (!end_lending(db, &lending))
        return false;
    *text = slice.data;
    return true;
}

bool
mirror_db_source(struct mirror_db *db, unsigned n, const char **url)
{
    bool has_row;

    if (!step_numbers(db, SQL_SOURCE, 1, (int64_t[]){n}, &has_row))
        return false;
    *url = "";
    if (has_row)
        return lend_text(db, SQL_SOURCE, 0, url);
    db_reset(kept_statement(db, SQL_SOURCE));
    return true;
}

bool
mirror_db_set(struct mirror_db *db, const char *url, int64_t *set,
              char position[TD_POSITION_SIZE])
{
    sqlite3_stmt *s = kept_statement(db, SQL_SET);
    bool has_row;

    bind_text(db, SQL_SET, 1, url);
    if (!step_to_row(db, SQL_SET, &has_row))
        return false;
    position[0] = '\0';
    if (has_row) {
        *set = sqlite3_column_int64(s, 0);
        db_text(s, 1, position, TD_POSITION_SIZE);
    }
    db_reset(kept_statement(db, SQL_SET));
    if (has_row)
        return true;
    bind_text(db, SQL_SET_ADD, 1, url);
    if (!run_statement(db, SQL_SET_ADD))
        return false;
    *set = sqlite3_last_insert_rowid(db->base.handle);
    return true;
}

bool
mirror_db_next_set(struct mirror_db *db, int64_t after, int64_t *set,
                   const char **url, bool *is_found)
{
    if (!step_numbers(db, SQL_SET_NEXT, 1, (int64_t[]){after}, is_found))
        return false;
    if (*is_found) {
        *set = sqlite3_column_int64(kept_statement(db, SQL_SET_NEXT), 0);
        return lend_text(db, SQL_SET_NEXT, 1, url);
    }
    db_reset(kept_statement(db, SQL_SET_NEXT));
    return true;
}

bool
mirror_db_set_position(struct mirror_db *db, int64_t set, const char *position)
{
    bind_number(db, SQL_SET_REACH, 1, set);
    bind_text(db, SQL_SET_REACH, 2, position);
    return run_statement(db, SQL_SET_REACH);
}

bool
mirror_db_note_caught_up(struct mirror_db *db, int64_t set, int64_t when_us)
{
    return run_numbers(db, SQL_SET_CAUGHT_UP, 2, (int64_t[]){set, when_us});
}

/* Resources */

/* Reads the wanted state, from the set with the latest description. */
static bool
read_best(struct mirror_db *db, struct mirror_db_resource *r,
          struct lending *lending)
{
    sqlite3_stmt *s = kept_statement(db, SQL_BEST);
    bool has_row;
    int64_t length;

    r->version = 0;
    r->when_us = r->lastmod_us = DATETIME_NONE;
    r->length = LENGTH_NONE;
    r->hash = r->type = r->encoding = r->links = (struct slice){"", 0};
    if (!step_numbers(db, SQL_BEST, 1, (int64_t[]){r->id}, &has_row))
        return false;
    r->is_wanted = has_row;
    if (has_row) {
        r->version = sqlite3_column_int64(s, 0);
        r->when_us = sqlite3_column_int64(s, 1);
        r->lastmod_us = sqlite3_column_int64(s, 2);
        lend_column(db, lending, &r->hash, s, 3);
        length = sqlite3_column_int64(s, 4);
        r->length = length < 0 ? LENGTH_NONE : (uint64_t)length;
        lend_column(db, lending, &r->type, s, 5);
        lend_column(db, lending, &r->encoding, s, 6);
        lend_column(db, lending, &r->links, s, 7);
    }
    db_reset(kept_statement(db, SQL_BEST));
    return true;
}

/* Runs a statement that selects a row of resources; adds the wanted state. */
static bool
read_resource(struct mirror_db *db, enum mirror_db_sql which,
              struct mirror_db_resource *r, bool *is_found)
{
    sqlite3_stmt *s = kept_statement(db, which);
    struct lending lending = {.n = 0};

    if (!step_to_row(db, which, is_found))
        return false;
    if (!*is_found) {
        db_reset(kept_statement(db, which));
        return true;
    }
    buf_clear(&db->lent);
    r->id = sqlite3_column_int64(s, 0);
    lend_column(db, &lending, &r->loc, s, 1);
    db_text(s, 2, r->path, sizeof(r->path));
    r->todo = (enum mirror_db_todo)sqlite3_column_int(s, 3);
    r->is_left = sqlite3_column_int64(s, 4) == db->run;
    r->is_expected = sqlite3_column_int(s, 5);
    r->is_there = sqlite3_column_int(s, 6);
    r->have_version = sqlite3_column_int64(s, 7);
    lend_column(db, &lending, &r->have_hash, s, 8);
    r->have_lastmod_us = sqlite3_column_int64(s, 9);
    r->have_mark.size = (uint64_t)sqlite3_column_int64(s, 10);
    r->have_mark.mtime_ns = sqlite3_column_int64(s, 11);
    r->bytes = (uint64_t)sqlite3_column_int64(s, 12);
    r->left_version = sqlite3_column_int64(s, 13);
    r->have_second_us = sqlite3_column_int64(s, 14);
    db_reset(kept_statement(db, which));
    *is_found = read_best(db, r, &lending) && end_lending(db, &lending);
    return *is_found;
}

bool
mirror_db_get(struct mirror_db *db, int64_t id,
              struct mirror_db_resource *resource, bool *is_found)
{
    bind_number(db, SQL_LOOK, 1, id);
    return read_resource(db, SQL_LOOK, resource, is_found);
}

bool
mirror_db_find(struct mirror_db *db, struct slice loc,
               struct mirror_db_resource *resource, bool *is_found)
{
    bind_bytes(db, SQL_FIND, 1, loc);
    return read_resource(db, SQL_FIND, resource, is_found);
}

bool
mirror_db_find_path(struct mirror_db *db, const char *path,
                    struct mirror_db_resource *resource, bool *is_found)
{
    bind_text(db, SQL_FIND_PATH, 1, path);
    return read_resource(db, SQL_FIND_PATH, resource, is_found);
}

bool
mirror_db_next(struct mirror_db *db, enum mirror_db_todo todo, int64_t after_id,
               struct mirror_db_resource *resource, bool *is_found)
{
    bind_number(db, SQL_NEXT, 1, todo);
    bind_number(db, SQL_NEXT, 2, after_id);
    bind_number(db, SQL_NEXT, 3, db->run);
    return read_resource(db, SQL_NEXT, resource, is_found);
}

bool
mirror_db_walk(struct mirror_db *db, struct slice after_loc,
               struct mirror_db_resource *resource, bool *is_found)
{
    bind_bytes(db, SQL_WALK, 1, after_loc);
    return read_resource(db, SQL_WALK, resource, is_found);
}

static int64_t
sql_of_length(uint64_t length)
{
    return length > INT64_MAX ? -1 : (int64_t)length;
}

static uint64_t
length_of_sql(int64_t length)
{
    return length < 0 ? LENGTH_NONE : (uint64_t)length;
}

/* True if the noted file is the wanted one. `trusts_times`: without digests,
 * the same lastmod will do. */
static bool
is_right(const struct mirror_db_resource *resource, bool trusts_times)
{
    bool has_common;
    bool agrees =
        hashes_agree(resource->hash, resource->have_hash, &has_common);
    bool fits = resource->length == LENGTH_NONE ||
                resource->length == resource->have_mark.size;

    if (!resource->is_there)
        return false;
    if (resource->version == resource->have_version)
        return true;
    if (has_common)
        return agrees && fits;
    return trusts_times && fits && resource->lastmod_us != DATETIME_NONE &&
           resource->lastmod_us == resource->have_lastmod_us;
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
    return run_numbers(db, SQL_HOUR_OLD, 1, (int64_t[]){hour - HOURS_KEPT}) &&
           run_numbers(db, SQL_HOUR_ADD, 3,
                       (int64_t[]){hour, n, (int64_t)db->counts.n_have});
}

bool
mirror_db_removals(struct mirror_db *db, uint64_t *n, uint64_t *n_of)
{
    sqlite3_stmt *s = kept_statement(db, SQL_HOUR_MOST);
    bool has_row;

    *n = *n_of = 0;
    if (!db->has_hours)
        return true;
    if (!step_numbers(db, SQL_HOUR_MOST, 2,
                      (int64_t[]){db->hour_first, db->hour_last}, &has_row))
        return false;
    if (has_row) {
        *n = (uint64_t)sqlite3_column_int64(s, 0);
        *n_of = (uint64_t)sqlite3_column_int64(s, 1);
        db->hour_first = db->hour_last = sqlite3_column_int64(s, 2);
    }
    db_reset(kept_statement(db, SQL_HOUR_MOST));
    return true;
}

static uint64_t *
count_of(struct mirror_db *db, enum mirror_db_todo todo)
{
    return todo == MIRROR_DB_FETCH    ? &db->counts.n_fetch
           : todo == MIRROR_DB_REMOVE ? &db->counts.n_remove
                                      : NULL;
}

/* Replaces a resource's old state by its new one in the counts. */
static void
recount_wanted(struct mirror_db *db, enum mirror_db_todo was,
               uint64_t bytes_were, enum mirror_db_todo is, uint64_t bytes_are)
{
    if (count_of(db, was))
        --*count_of(db, was);
    if (count_of(db, is))
        ++*count_of(db, is);
    db->counts.bytes_wanted += bytes_are;
    db->counts.bytes_wanted -= bytes_were;
}

static uint64_t
bytes_of(const struct mirror_db_resource *resource, enum mirror_db_todo todo)
{
    return todo == MIRROR_DB_FETCH && resource->length != LENGTH_NONE
               ? resource->length
               : 0;
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
    int64_t have_version;
    uint64_t bytes_were;
    bool is_left;
    bool is_found;

    if (!mirror_db_get(db, id, &r, &is_found) || !is_found)
        return false;
    have_version = r.have_version;
    bytes_were = r.bytes;
    if (!r.is_wanted)
        todo =
            r.is_there || r.is_expected ? MIRROR_DB_REMOVE : MIRROR_DB_NOTHING;
    else if (is_right(&r, trusts_times && r.todo != MIRROR_DB_FETCH))
        have_version = r.version;
    else
        todo = MIRROR_DB_FETCH;

    /* A resource stays given up until it has a new version. */
    is_left =
        r.is_left && todo == MIRROR_DB_FETCH && r.left_version == r.version;
    if (r.is_left && !is_left)
        db->counts.n_left--;
    recount_wanted(db, r.todo, bytes_were, todo, bytes_of(&r, todo));
    if (hour != NO_HOUR && r.is_there &&
        (todo == MIRROR_DB_REMOVE) != (r.todo == MIRROR_DB_REMOVE) &&
        !count_removal(db, hour, todo == MIRROR_DB_REMOVE ? 1 : -1))
        return false;
    if (!r.is_wanted && todo == MIRROR_DB_NOTHING) {
        db->counts.n_resources--;
        return run_numbers(db, SQL_RESOURCE_GONE, 1, (int64_t[]){id});
    }
    return run_numbers(db, SQL_RESOURCE_TODO, 5,
                       (int64_t[]){id, todo, (int64_t)bytes_of(&r, todo),
                                   is_left ? db->run : 0, have_version});
}

/* Descriptions */

static bool
generation_of(struct mirror_db *db, int64_t set)
{
    bool has_row;

    if (db->set == set)
        return true;
    if (!step_numbers(db, SQL_SET_GENERATION, 1, (int64_t[]){set}, &has_row))
        return false;
    db->generation =
        sqlite3_column_int64(kept_statement(db, SQL_SET_GENERATION), 0);
    db->set = set;
    db_reset(kept_statement(db, SQL_SET_GENERATION));
    return true;
}

static bool
add_resource(struct mirror_db *db, struct slice loc, int64_t *id)
{
    char path[RESOURCE_PATH_MAX + 1];

    if (!resource_path_write(path, loc)) {
        problem_memory(&db->trouble);
        return false;
    }
    bind_bytes(db, SQL_RESOURCE_ADD, 1, loc);
    bind_text(db, SQL_RESOURCE_ADD, 2, path);
    bind_number(db, SQL_RESOURCE_ADD, 3, DATETIME_NONE);
    if (!run_statement(db, SQL_RESOURCE_ADD))
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

static void
read_description(struct mirror_db *db, struct lending *lending,
                 struct mirror_db_description *t, sqlite3_stmt *s, int first)
{
    t->when_us = sqlite3_column_int64(s, first);
    t->lastmod_us = sqlite3_column_int64(s, first + 1);
    lend_column(db, lending, &t->hash, s, first + 2);
    t->length = length_of_sql(sqlite3_column_int64(s, first + 3));
    lend_column(db, lending, &t->type, s, first + 4);
    lend_column(db, lending, &t->encoding, s, first + 5);
    lend_column(db, lending, &t->links, s, first + 6);
}

/* Reads the set's last description; `*version` 0: there is none. */
static bool
read_last(struct mirror_db *db, int64_t id, int64_t set,
          struct mirror_db_description *was, int64_t *version)
{
    sqlite3_stmt *s = kept_statement(db, SQL_MEMBER);
    struct lending lending = {.n = 0};
    bool has_row;

    *version = 0;
    if (!step_numbers(db, SQL_MEMBER, 2, (int64_t[]){id, set}, &has_row))
        return false;
    if (has_row) {
        *version = sqlite3_column_int64(s, 0);
        buf_clear(&db->lent);
        read_description(db, &lending, was, s, 1);
    }
    db_reset(kept_statement(db, SQL_MEMBER));
    return !has_row || end_lending(db, &lending);
}

static bool
put_member(struct mirror_db *db, int64_t id, int64_t set, int64_t version,
           const struct mirror_db_description *t)
{
    enum mirror_db_sql which = SQL_MEMBER_PUT;

    bind_number(db, which, 1, id);
    bind_number(db, which, 2, set);
    bind_number(db, which, 3, db->generation);
    bind_number(db, which, 4, version);
    bind_number(db, which, 5, t->when_us);
    bind_number(db, which, 6, t->lastmod_us);
    bind_bytes(db, which, 7, t->hash);
    bind_number(db, which, 8, sql_of_length(t->length));
    bind_bytes(db, which, 9, t->type);
    bind_bytes(db, which, 10, t->encoding);
    bind_bytes(db, which, 11, t->links);
    return run_statement(db, which);
}

static bool
remove_member(struct mirror_db *db, int64_t id, int64_t set)
{
    return run_numbers(db, SQL_MEMBER_GONE, 2, (int64_t[]){id, set});
}

/* Notes the deletion of a resource, or that it is there again. */
static bool
note_deletion(struct mirror_db *db, int64_t set,
              const struct mirror_db_description *t)
{
    enum mirror_db_sql which =
        t->is_deleted ? SQL_DELETION_PUT : SQL_DELETION_GONE;

    if (!t->is_noted)
        return true;
    bind_number(db, which, 1, set);
    bind_bytes(db, which, 2, t->loc);
    if (t->is_deleted)
        bind_number(db, which, 3, t->when_us);
    return run_statement(db, which);
}

/* True in `*is` if a resource was deleted after that time. */
static bool
was_deleted_after(struct mirror_db *db, int64_t set, struct slice loc,
                  int64_t as_of_us, bool *is)
{
    bind_number(db, SQL_DELETION_LATER, 1, set);
    bind_bytes(db, SQL_DELETION_LATER, 2, loc);
    bind_number(db, SQL_DELETION_LATER, 3, as_of_us);
    if (!step_to_row(db, SQL_DELETION_LATER, is))
        return false;
    db_reset(kept_statement(db, SQL_DELETION_LATER));
    return true;
}

bool
mirror_db_describe(struct mirror_db *db, int64_t set,
                   const struct mirror_db_description *description, int64_t *id)
{
    struct mirror_db_resource r;
    struct mirror_db_description was;
    int64_t version;
    bool is_found;
    bool is_left;
    int64_t hour =
        description->is_baseline || description->when_us == DATETIME_NONE
            ? NO_HOUR
            : description->when_us / HOUR_US;

    *id = 0;
    if (!generation_of(db, set) || !note_deletion(db, set, description) ||
        !mirror_db_find(db, description->loc, &r, &is_found))
        return false;
    if (description->is_deleted) {
        if (!is_found)
            return true;
        *id = r.id;
        if (description->is_held)
            return run_numbers(db, SQL_MEMBER_KEEP, 3,
                               (int64_t[]){r.id, set, 0});
        return remove_member(db, r.id, set) &&
               settle_resource(db, r.id, true, hour);
    }
    is_left = is_found && r.is_left;
    if (is_found)
        *id = r.id;
    else if (!add_resource(db, description->loc, id))
        return false;
    if (!read_last(db, *id, set, &was, &version))
        return false;
    if (!version || !is_repeat(&was, description) ||
        (is_left && !description->is_baseline))
        version = ++db->version;
    return put_member(db, *id, set, version, description) &&
           settle_resource(db, *id, description->is_baseline, hour);
}

bool
mirror_db_next_description(struct mirror_db *db, int64_t set, int64_t after_id,
                           int64_t *id,
                           struct mirror_db_description *description,
                           bool *is_found)
{
    sqlite3_stmt *s = kept_statement(db, SQL_MEMBER_NEXT);
    struct lending lending = {.n = 0};

    if (!step_numbers(db, SQL_MEMBER_NEXT, 2, (int64_t[]){set, after_id},
                      is_found))
        return false;
    if (*is_found) {
        *description = (struct mirror_db_description){.is_baseline = true};
        *id = sqlite3_column_int64(s, 0);
        buf_clear(&db->lent);
        lend_column(db, &lending, &description->loc, s, 1);
        read_description(db, &lending, description, s, 2);
    }
    db_reset(kept_statement(db, SQL_MEMBER_NEXT));
    return !*is_found || end_lending(db, &lending);
}

/* Baselines */

bool
mirror_db_baseline_begin(struct mirror_db *db, int64_t set)
{
    db->set = 0;
    return run_numbers(db, SQL_COMPARED_CLEAR, 1, (int64_t[]){set}) &&
           run_numbers(db, SQL_SET_NEW_GENERATION, 1, (int64_t[]){set});
}

/* Removes the members of the generations before `generation`. */
static bool
remove_members_before(struct mirror_db *db, int64_t set, int64_t generation)
{
    int64_t id = 0;
    bool has_row;

    for (;;) {
        if (!step_numbers(db, SQL_MEMBER_OLD, 3,
                          (int64_t[]){set, generation, id}, &has_row))
            return false;
        if (has_row)
            id = sqlite3_column_int64(kept_statement(db, SQL_MEMBER_OLD), 0);
        db_reset(kept_statement(db, SQL_MEMBER_OLD));
        if (!has_row)
            return true;
        if (!remove_member(db, id, set) ||
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
    enum mirror_db_sql which = SQL_COMPARED_ADD;
    struct mirror_db_description was;
    struct mirror_db_resource r;
    int64_t version = 0;
    bool is_found;

    if (!generation_of(db, set) || !mirror_db_find(db, t->loc, &r, &is_found) ||
        (is_found && !read_last(db, r.id, set, &was, &version)))
        return false;
    if (version && !differs(&was, t))
        return run_numbers(db, SQL_MEMBER_KEEP, 3,
                           (int64_t[]){r.id, set, db->generation});
    bind_bytes(db, which, 1, t->loc);
    bind_number(db, which, 2, set);
    bind_number(db, which, 3, t->when_us);
    bind_number(db, which, 4, t->lastmod_us);
    bind_bytes(db, which, 5, t->hash);
    bind_number(db, which, 6, sql_of_length(t->length));
    bind_bytes(db, which, 7, t->type);
    bind_bytes(db, which, 8, t->encoding);
    bind_bytes(db, which, 9, t->links);
    return run_statement(db, which);
}

/* Lends the next row of `compared` behind `after`. */
static bool
next_compared(struct mirror_db *db, int64_t set, struct slice after,
              struct mirror_db_description *t, bool *is_found)
{
    sqlite3_stmt *s = kept_statement(db, SQL_COMPARED_NEXT);
    struct lending lending = {.n = 0};

    bind_bytes(db, SQL_COMPARED_NEXT, 1, after);
    bind_number(db, SQL_COMPARED_NEXT, 2, set);
    if (!step_to_row(db, SQL_COMPARED_NEXT, is_found))
        return false;
    *t = (struct mirror_db_description){.is_baseline = true};
    if (*is_found) {
        buf_clear(&db->lent);
        lend_column(db, &lending, &t->loc, s, 0);
        read_description(db, &lending, t, s, 1);
    }
    db_reset(s);
    return !*is_found || end_lending(db, &lending);
}

/* Applies the differences of a comparison, except to resources that have
 * changed since. */
static bool
apply_compared(struct mirror_db *db, int64_t set, int64_t as_of_us)
{
    struct buf row; /* a copy: the database lends one thing at a time */
    bool is_good;
    bool is_found;

    buf_init(&row, LENT_MAX);
    for (;;) {
        struct mirror_db_description t;
        struct mirror_db_description was;
        struct mirror_db_resource r;
        struct slice *texts[] = {&t.loc,   &t.hash,     &t.type,
                                 &t.links, &t.encoding, NULL};
        size_t at[5];
        bool is_later;
        int64_t version = 0;
        int64_t id;

        is_good = next_compared(db, set, buf_slice(&row), &t, &is_found);
        if (!is_good || !is_found)
            break;
        buf_clear(&row);
        for (size_t i = 0; texts[i]; i++) {
            at[i] = row.size;
            buf_add_slice(&row, *texts[i]);
        }
        if (row.failed) {
            problem_memory(&db->trouble);
            is_good = false;
            break;
        }
        for (size_t i = 0; texts[i]; i++)
            texts[i]->data = row.data + at[i];
        is_good = mirror_db_find(db, t.loc, &r, &is_found) &&
                  (!is_found || read_last(db, r.id, set, &was, &version));
        is_later = version && was.when_us > as_of_us;
        if (is_good && !version)
            is_good = was_deleted_after(db, set, t.loc, as_of_us, &is_later);
        if (is_good && !is_later)
            is_good = mirror_db_describe(db, set, &t, &id);
        else if (is_good && version)
            is_good = run_numbers(db, SQL_MEMBER_KEEP, 3,
                                  (int64_t[]){r.id, set, db->generation});
        if (!is_good)
            break;
        row.size = t.loc.size; /* the next row is behind this loc */
    }
    buf_fini(&row);
    return is_good && run_numbers(db, SQL_MEMBERS_KEEP, 3,
                                  (int64_t[]){set, db->generation, as_of_us});
}

bool
mirror_db_baseline_end(struct mirror_db *db, int64_t set,
                       const struct mirror_db_end *end, uint64_t *n_remove)
{
    uint64_t before;

    if (!generation_of(db, set) || (end->as_of_us != DATETIME_NONE &&
                                    !apply_compared(db, set, end->as_of_us)))
        return false;
    before = db->counts.n_remove;
    if (!(end->is_held ? run_numbers(db, SQL_MEMBERS_HOLD, 2,
                                     (int64_t[]){set, db->generation})
                       : remove_members_before(db, set, db->generation)))
        return false;
    *n_remove = db->counts.n_remove - before;
    return run_numbers(db, SQL_DELETIONS_OVER, 2,
                       (int64_t[]){set, end->as_of_us == DATETIME_NONE
                                            ? INT64_MAX
                                            : end->as_of_us});
}

bool
mirror_db_count_held(struct mirror_db *db, int64_t set, uint64_t *n)
{
    bool has_row;

    if (!step_numbers(db, SQL_MEMBERS_HELD, 1, (int64_t[]){set}, &has_row))
        return false;
    *n =
        (uint64_t)sqlite3_column_int64(kept_statement(db, SQL_MEMBERS_HELD), 0);
    db_reset(kept_statement(db, SQL_MEMBERS_HELD));
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
    if (!step_numbers(db, SQL_CERTAINTY, 1, (int64_t[]){set}, &has_row))
        return false;
    if (has_row)
        mirror_db_read_certainty(kept_statement(db, SQL_CERTAINTY), 0,
                                 certainty);
    db_reset(kept_statement(db, SQL_CERTAINTY));
    return true;
}

bool
mirror_db_set_certainty(struct mirror_db *db, int64_t set,
                        const struct mirror_db_certainty *c)
{
    enum mirror_db_sql which = SQL_CERTAINTY_SET;

    bind_number(db, which, 1, set);
    bind_number(db, which, 2, c->complete_us);
    bind_text(db, which, 3, c->complete_by);
    bind_number(db, which, 4, c->compared_us);
    bind_text(db, which, 5, c->doubt);
    bind_number(db, which, 6, c->doubt_us);
    bind_number(db, which, 7, (int64_t)c->n_held);
    bind_number(db, which, 8, (int64_t)c->n_held_of);
    bind_number(db, which, 9, (int64_t)c->n_left_out);
    bind_text(db, which, 10, c->left_out);
    bind_number(db, which, 11, (int64_t)c->n_left_out_before);
    bind_number(db, which, 12, (int64_t)c->n_mended);
    return run_statement(db, which);
}

/* Noting */

bool
mirror_db_expect(struct mirror_db *db, int64_t id)
{
    return run_numbers(db, SQL_RESOURCE_EXPECT, 1, (int64_t[]){id});
}

bool
mirror_db_doubt(struct mirror_db *db, int64_t id)
{
    return run_numbers(db, SQL_RESOURCE_DOUBT, 2,
                       (int64_t[]){id, DATETIME_NONE});
}

bool
mirror_db_note_file(struct mirror_db *db, int64_t id, int64_t version,
                    struct slice hash, int64_t lastmod_us, int64_t second_us,
                    const struct mirror_dir_mark *mark)
{
    enum mirror_db_sql which = SQL_RESOURCE_HAVE;
    struct mirror_db_resource was;
    bool is_found;
    bool was_there;

    if (!mirror_db_get(db, id, &was, &is_found))
        return false;
    was_there = is_found && was.is_there;
    bind_number(db, which, 1, id);
    bind_number(db, which, 2, version);
    bind_bytes(db, which, 3, hash);
    bind_number(db, which, 4, lastmod_us);
    bind_number(db, which, 5, (int64_t)mark->size);
    bind_number(db, which, 6, mark->mtime_ns);
    bind_number(db, which, 7, second_us);
    if (!run_statement(db, which))
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
    bool is_found;

    if (!mirror_db_get(db, id, &r, &is_found) || !is_found)
        return false;
    /* If it is wanted, a file at its path was ours. */
    if (!run_numbers(db, SQL_RESOURCE_LOST, 2, (int64_t[]){id, r.is_wanted}))
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
        int64_t id = 0;

        if (!step_numbers(db, SQL_SECOND_NEXT, 1, (int64_t[]){now_us},
                          &has_row))
            return false;
        if (has_row)
            id = sqlite3_column_int64(kept_statement(db, SQL_SECOND_NEXT), 0);
        db_reset(kept_statement(db, SQL_SECOND_NEXT));
        if (!has_row)
            return true;
        if (!run_numbers(db, SQL_SECOND_OVER, 2,
                         (int64_t[]){id, DATETIME_NONE}) ||
            !settle_resource(db, id, false, NO_HOUR))
            return false;
    }
}

bool
mirror_db_give_up(struct mirror_db *db, int64_t id)
{
    struct mirror_db_resource r;
    bool is_found;

    if (!mirror_db_get(db, id, &r, &is_found) || !is_found)
        return false;
    if (r.todo != MIRROR_DB_FETCH || r.is_left)
        return true;
    bind_number(db, SQL_RESOURCE_LEAVE, 1, id);
    bind_number(db, SQL_RESOURCE_LEAVE, 2, db->run);
    bind_number(db, SQL_RESOURCE_LEAVE, 3, r.version);
    db->counts.n_left++;
    return run_statement(db, SQL_RESOURCE_LEAVE);
}
