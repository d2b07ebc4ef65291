/*
 * book.c - the database of a mirror: tables, statements, transactions, sets.
 *
 * To change a table, raise VERSION and move the old one's rows in `prepare`.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/mirror/book_inside.h"

#define VERSION 1

/*
 * resources  one row for each resource that is wanted or has a file. todo: enum
 *            book_todo. bytes: the wanted length, where the source sent one.
 *            have: there is a file; the columns have_ describe it.
 * members    each set's description of a resource: without a row it is not in
 *            the set. The row with the latest when_us decides.
 * hours      removals by changes: n in that hour of event time, of at most n_of
 *            files that the mirror had in it.
 *
 * A loc is a BLOB, so that SQLite compares bytes. DATETIME_NONE is INT64_MIN,
 * LENGTH_NONE -1.
 */
static const char schema[] =
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
    "CREATE TABLE hours (hour INTEGER PRIMARY KEY, n INTEGER, n_of INTEGER);"
    "PRAGMA user_version = 1;";

#define RESOURCE                                                     \
    "SELECT id, loc, path, todo, left_run, expected, have,"          \
    " have_version, have_hash, have_lastmod, have_size, have_mtime," \
    " bytes, left_version FROM resources "
#define MEMBER                                                        \
    "SELECT version, when_us, lastmod, hash, length, type, encoding," \
    " links, set_id FROM members "

static const char *const sql[N_SQL] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_COUNT_HAVE] = "SELECT count(*), total(have), total(have_size * have)"
                       " FROM resources",
    [SQL_COUNT_TODO] = "SELECT count(*), total(bytes) FROM resources"
                       " WHERE todo = ?1",
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
    [SQL_SET_GENERATION] = "SELECT generation FROM sets WHERE id = ?1",
    [SQL_SET_NEW_GENERATION] = "UPDATE sets SET generation = generation + 1"
                               " WHERE id = ?1",
    [SQL_RESOURCE_ADD] = "INSERT INTO resources VALUES"
                         " (NULL, ?1, ?2, 0, 0, 0, 0, 0, 0, 0, x'', ?3, 0, 0)",
    [SQL_RESOURCE_GONE] = "DELETE FROM resources WHERE id = ?1",
    [SQL_RESOURCE_TODO] = "UPDATE resources SET todo = ?2, bytes = ?3,"
                          " left_run = ?4, have_version = ?5 WHERE id = ?1",
    [SQL_RESOURCE_EXPECT] = "UPDATE resources SET expected = 1 WHERE id = ?1",
    [SQL_RESOURCE_DOUBT] = "UPDATE resources SET have_version = 0,"
                           " have_hash = x'', have_lastmod = ?2 WHERE id = ?1",
    [SQL_RESOURCE_HAVE] = "UPDATE resources SET have = 1, expected = 1,"
                          " have_version = ?2, have_hash = ?3,"
                          " have_lastmod = ?4, have_size = ?5,"
                          " have_mtime = ?6 WHERE id = ?1",
    [SQL_RESOURCE_LOST] = "UPDATE resources SET have = 0, expected = ?2,"
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

/* Steps of the database */

bool
book_fail(struct book *book)
{
    int code = sqlite3_errcode(book->db);

    if (code == SQLITE_NOMEM)
        problem_memory(&book->trouble);
    else if (code == SQLITE_FULL)
        problem(&book->trouble, STATUS_IO,
                "the state of the mirror cannot be written: no room on "
                "the disk; all that was done is kept, make room and run "
                "it again");
    else
        problem(&book->trouble, STATUS_IO, "the state of the mirror: %s",
                sqlite3_errmsg(book->db));
    return false;
}

bool
book_step(struct book *book, enum book_sql which, bool *has_row)
{
    int rc = sqlite3_step(book->statements[which]);

    if (has_row)
        *has_row = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        return true;
    book_fail(book);
    sqlite3_reset(book->statements[which]);
    return false;
}

void
book_done(struct book *book, enum book_sql which)
{
    sqlite3_reset(book->statements[which]);
    sqlite3_clear_bindings(book->statements[which]);
}

bool
book_run(struct book *book, enum book_sql which)
{
    bool is_good = book_step(book, which, NULL);

    book_done(book, which);
    return is_good;
}

void
book_bind(struct book *book, enum book_sql which, int n, int64_t value)
{
    sqlite3_bind_int64(book->statements[which], n, value);
}

void
book_bind_bytes(struct book *book, enum book_sql which, int n,
                struct slice bytes)
{
    sqlite3_bind_blob64(book->statements[which], n,
                        bytes.size > 0 ? bytes.data : "", bytes.size,
                        SQLITE_STATIC);
}

void
book_lend(struct book *book, struct book_lending *lending, struct slice *slice,
          sqlite3_stmt *s, int column)
{
    const void *data = sqlite3_column_blob(s, column);

    *slice = (struct slice){NULL, (size_t)sqlite3_column_bytes(s, column)};
    lending->at[lending->n] = book->lent.size;
    lending->slices[lending->n++] = slice;
    buf_add(&book->lent, data, slice->size);
    buf_add(&book->lent, "", 1);
}

bool
book_lend_end(struct book *book, const struct book_lending *lending)
{
    if (book->lent.failed) {
        problem_memory(&book->trouble);
        return false;
    }
    for (size_t i = 0; i < lending->n; i++)
        lending->slices[i]->data = book->lent.data + lending->at[i];
    return true;
}

static void
bind_text(struct book *book, enum book_sql which, int n, const char *text)
{
    sqlite3_bind_text(book->statements[which], n, text, -1, SQLITE_STATIC);
}

/* Opening */

static bool
execute(struct book *book, const char *text)
{
    return sqlite3_exec(book->db, text, NULL, NULL, NULL) == SQLITE_OK ||
           book_fail(book);
}

/* FULL: a position is on the disk when a commit returns. */
static bool
prepare(struct book *book)
{
    sqlite3_stmt *s = NULL;
    int version = -1;

    if (!execute(book, "PRAGMA locking_mode = EXCLUSIVE;"
                       "PRAGMA journal_mode = WAL;"
                       "PRAGMA synchronous = FULL"))
        return false;
    if (sqlite3_prepare_v2(book->db, "PRAGMA user_version", -1, &s, NULL) ==
            SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        version = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    if (version < 0)
        return book_fail(book);
    if (version > VERSION) {
        problem(&book->trouble, STATUS_IO,
                "the state of the mirror is of a newer tidings");
        return false;
    }
    /* In one transaction: a crash leaves a new database, or a whole one. */
    if (version == 0 && (!execute(book, "BEGIN IMMEDIATE") ||
                         !execute(book, schema) || !execute(book, "COMMIT")))
        return false;
    for (int i = 0; i < N_SQL; i++)
        if (sqlite3_prepare_v3(book->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &book->statements[i], NULL))
            return book_fail(book);
    return true;
}

static bool
read_state(struct book *book, const char *name, int64_t *value)
{
    bool has_row;

    bind_text(book, SQL_STATE, 1, name);
    if (!book_step(book, SQL_STATE, &has_row))
        return false;
    if (has_row)
        *value = sqlite3_column_int64(book->statements[SQL_STATE], 0);
    book_done(book, SQL_STATE);
    return true;
}

static bool
write_state(struct book *book, const char *name, int64_t value)
{
    bind_text(book, SQL_STATE_PUT, 1, name);
    book_bind(book, SQL_STATE_PUT, 2, value);
    return book_run(book, SQL_STATE_PUT);
}

static bool
count(struct book *book)
{
    struct book_counts *c = &book->counts;
    sqlite3_stmt *all = book->statements[SQL_COUNT_HAVE];
    sqlite3_stmt *s = book->statements[SQL_COUNT_TODO];

    if (!book_step(book, SQL_COUNT_HAVE, NULL))
        return false;
    c->n_resources = (uint64_t)sqlite3_column_int64(all, 0);
    c->n_have = (uint64_t)sqlite3_column_double(all, 1);
    c->bytes_have = (uint64_t)sqlite3_column_double(all, 2);
    book_done(book, SQL_COUNT_HAVE);
    for (int todo = BOOK_FETCH; todo <= BOOK_REMOVE; todo++) {
        book_bind(book, SQL_COUNT_TODO, 1, todo);
        if (!book_step(book, SQL_COUNT_TODO, NULL))
            return false;
        if (todo == BOOK_FETCH) {
            c->n_fetch = (uint64_t)sqlite3_column_int64(s, 0);
            c->bytes_wanted = (uint64_t)sqlite3_column_double(s, 1);
        } else {
            c->n_remove = (uint64_t)sqlite3_column_int64(s, 0);
        }
        book_done(book, SQL_COUNT_TODO);
    }
    return true;
}

/* Takes a new run number: resources that an earlier run gave up are tried
 * again. */
static bool
begin_run(struct book *book)
{
    if (!read_state(book, "run", &book->run) ||
        !read_state(book, "version", &book->version))
        return false;
    book->run++;
    return book_begin(book) && write_state(book, "run", book->run) &&
           book_commit(book);
}

struct book *
book_open(const char *dir, const char *name, struct problem *why)
{
    struct book *book = calloc(1, sizeof(*book));
    char path[PATH_MAX];

    if (!book) {
        problem_memory(why);
        return NULL;
    }
    buf_init(&book->lent, BOOK_LENT_MAX);
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        problem(&book->trouble, STATUS_IO, "%s: the path is too long", dir);
    else if (sqlite3_open_v2(path, &book->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                 SQLITE_OPEN_NOMUTEX,
                             NULL) != SQLITE_OK)
        book_fail(book);
    else if (prepare(book) && count(book) && begin_run(book))
        return book;
    *why = book->trouble;
    book_close(book);
    return NULL;
}

void
book_close(struct book *book)
{
    if (!book)
        return;
    for (int i = 0; i < N_SQL; i++)
        sqlite3_finalize(book->statements[i]);
    sqlite3_close(book->db); /* rolls back what is open */
    buf_fini(&book->lent);
    free(book);
}

const char *
book_trouble(const struct book *book)
{
    return book->trouble.text;
}

const struct book_counts *
book_counts(const struct book *book)
{
    return &book->counts;
}

/* Transactions */

bool
book_begin(struct book *book)
{
    book->counts_before = book->counts;
    book->version_before = book->version;
    book->has_hours = false;
    book->is_writing = book_run(book, SQL_BEGIN);
    return book->is_writing;
}

bool
book_commit(struct book *book)
{
    if (book->version != book->version_before &&
        !write_state(book, "version", book->version))
        return false;
    if (!book_run(book, SQL_COMMIT))
        return false;
    book->is_writing = false;
    return true;
}

void
book_rollback(struct book *book)
{
    if (!book->is_writing)
        return;
    /* After some errors SQLite has rolled back by itself. */
    if (!sqlite3_get_autocommit(book->db))
        book_run(book, SQL_ROLLBACK);
    book->is_writing = false;
    book->counts = book->counts_before;
    book->version = book->version_before;
    book->set = 0;
}

/* Sources and sets */

bool
book_add_source(struct book *book, const char *url)
{
    bind_text(book, SQL_SOURCE_ADD, 1, url);
    return book_run(book, SQL_SOURCE_ADD);
}

/* Lends a text of a row, and ends the statement. */
static bool
lend_text(struct book *book, enum book_sql which, int column, const char **text)
{
    struct book_lending lending = {.n = 0};
    struct slice slice;

    buf_clear(&book->lent);
    book_lend(book, &lending, &slice, book->statements[which], column);
    book_done(book, which);
    if (!book_lend_end(book, &lending))
        return false;
    *text = slice.data;
    return true;
}

bool
book_source(struct book *book, unsigned n, const char **url)
{
    bool has_row;

    book_bind(book, SQL_SOURCE, 1, n);
    if (!book_step(book, SQL_SOURCE, &has_row))
        return false;
    *url = "";
    if (has_row)
        return lend_text(book, SQL_SOURCE, 0, url);
    book_done(book, SQL_SOURCE);
    return true;
}

bool
book_set(struct book *book, const char *url, int64_t *set,
         char position[TD_POSITION_SIZE])
{
    sqlite3_stmt *s = book->statements[SQL_SET];
    bool has_row;

    bind_text(book, SQL_SET, 1, url);
    if (!book_step(book, SQL_SET, &has_row))
        return false;
    position[0] = '\0';
    if (has_row) {
        *set = sqlite3_column_int64(s, 0);
        snprintf(position, TD_POSITION_SIZE, "%s",
                 (const char *)sqlite3_column_text(s, 1));
    }
    book_done(book, SQL_SET);
    if (has_row)
        return true;
    bind_text(book, SQL_SET_ADD, 1, url);
    if (!book_run(book, SQL_SET_ADD))
        return false;
    *set = sqlite3_last_insert_rowid(book->db);
    return true;
}

bool
book_next_set(struct book *book, int64_t after, int64_t *set, const char **url,
              bool *is_found)
{
    book_bind(book, SQL_SET_NEXT, 1, after);
    if (!book_step(book, SQL_SET_NEXT, is_found))
        return false;
    if (*is_found) {
        *set = sqlite3_column_int64(book->statements[SQL_SET_NEXT], 0);
        return lend_text(book, SQL_SET_NEXT, 1, url);
    }
    book_done(book, SQL_SET_NEXT);
    return true;
}

bool
book_reach(struct book *book, int64_t set, const char *position)
{
    book_bind(book, SQL_SET_REACH, 1, set);
    bind_text(book, SQL_SET_REACH, 2, position);
    return book_run(book, SQL_SET_REACH);
}
