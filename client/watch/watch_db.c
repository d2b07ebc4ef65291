/*
 * watch_db.c - the last posted state of each file, in SQLite.
 *
 * A transaction is open from the first write after a seal until the next one.
 * To change a table, raise VERSION and move the old one's rows in `prepare`.
 */
#include "client/watch/watch_db.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#define VERSION 1

/* `pending` has the files' states after the post under way: without a sha256,
 * deleted. A path is a BLOB: SQLite compares its bytes. `post` and `bound` have
 * one row at most. */
static const char schema[] =
    "CREATE TABLE files (path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER,"
    " ctime INTEGER, ino INTEGER, sha256 BLOB) WITHOUT ROWID;"
    "CREATE TABLE pending (path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER,"
    " ctime INTEGER, ino INTEGER, sha256 BLOB) WITHOUT ROWID;"
    "CREATE TABLE post (key TEXT, body BLOB, n_entries INTEGER);"
    "CREATE TABLE bound (set_url TEXT, base_uri TEXT, epoch TEXT);"
    "PRAGMA user_version = 1;";

enum {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_FILE,
    SQL_PENDING,
    SQL_NEXT,
    SQL_NEXT_PENDING,
    SQL_COUNT,
    SQL_NOTE,
    SQL_ADD,
    SQL_POST,
    SQL_POST_OF,
    SQL_POST_GONE,
    SQL_BIND,
    SQL_BOUND,
    SQL_UNBIND,
    SQL_EPOCH,
    SQL_FORGET,
    SQL_APPLY,
    SQL_APPLY_DELETED,
    SQL_PENDING_GONE,
    N_SQL
};

static const char *const sql[N_SQL] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_FILE] = "SELECT size, mtime, ctime, ino, sha256 FROM files"
                 " WHERE path = ?1",
    [SQL_PENDING] = "SELECT size, mtime, ctime, ino, sha256 FROM pending"
                    " WHERE path = ?1",
    [SQL_NEXT] = "SELECT path FROM files WHERE path > ?1 ORDER BY path LIMIT 1",
    [SQL_NEXT_PENDING] = "SELECT path FROM pending WHERE path > ?1"
                         " ORDER BY path LIMIT 1",
    [SQL_COUNT] = "SELECT count(*) FROM files",
    [SQL_NOTE] = "UPDATE files SET size = ?2, mtime = ?3, ctime = ?4, ino = ?5"
                 " WHERE path = ?1",
    [SQL_ADD] = "INSERT OR REPLACE INTO pending VALUES (?1,?2,?3,?4,?5,?6)",
    [SQL_POST] = "INSERT INTO post VALUES (?1, ?2, ?3)",
    [SQL_POST_OF] = "SELECT key, body, n_entries FROM post",
    [SQL_POST_GONE] = "DELETE FROM post",
    [SQL_BIND] = "INSERT INTO bound SELECT ?1, ?2, ''"
                 " WHERE NOT EXISTS (SELECT 1 FROM bound)",
    [SQL_BOUND] = "SELECT set_url, base_uri, epoch FROM bound",
    [SQL_UNBIND] = "DELETE FROM bound"
                   " WHERE NOT EXISTS (SELECT 1 FROM files)",
    [SQL_EPOCH] = "UPDATE bound SET epoch = ?1",
    [SQL_FORGET] = "DELETE FROM files",
    [SQL_APPLY] = "INSERT OR REPLACE INTO files SELECT * FROM pending"
                  " WHERE sha256 IS NOT NULL",
    [SQL_APPLY_DELETED] = "DELETE FROM files WHERE path IN"
                          " (SELECT path FROM pending WHERE sha256 IS NULL)",
    [SQL_PENDING_GONE] = "DELETE FROM pending",
};

struct watch_db {
    sqlite3 *db;
    sqlite3_stmt *statements[N_SQL];
    int lock;
    bool is_writing;  /* a transaction is open */
    bool has_pending; /* rows that are not sealed yet */
    char *set_url;
    char *base_uri;
    struct problem why;
};

/* Steps of the database */

static bool
fail(struct watch_db *ledger)
{
    problem(&ledger->why, STATUS_IO, "the state of this watch: %s",
            sqlite3_errmsg(ledger->db));
    return false;
}

/* Runs a statement to its first row or its end. */
static bool
step(struct watch_db *ledger, int which, bool *has_row)
{
    int rc = sqlite3_step(ledger->statements[which]);

    if (has_row)
        *has_row = rc == SQLITE_ROW;
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        return true;
    fail(ledger);
    sqlite3_reset(ledger->statements[which]);
    return false;
}

/* Ends it, and clears its parameters. */
static void
done(struct watch_db *ledger, int which)
{
    sqlite3_reset(ledger->statements[which]);
    sqlite3_clear_bindings(ledger->statements[which]);
}

static bool
run(struct watch_db *ledger, int which)
{
    bool is_good = step(ledger, which, NULL);

    done(ledger, which);
    return is_good;
}

static void
bind_path(struct watch_db *ledger, int which, const char *path)
{
    sqlite3_bind_blob(ledger->statements[which], 1, path, (int)strlen(path),
                      SQLITE_STATIC);
}

static void
bind_mark(struct watch_db *ledger, int which, const struct filemark *mark)
{
    sqlite3_stmt *s = ledger->statements[which];

    sqlite3_bind_int64(s, 2, mark->size);
    sqlite3_bind_int64(s, 3, mark->mtime_ns);
    sqlite3_bind_int64(s, 4, mark->ctime_ns);
    sqlite3_bind_int64(s, 5, (sqlite3_int64)mark->ino);
}

static bool
begin(struct watch_db *ledger)
{
    if (ledger->is_writing)
        return true;
    ledger->is_writing = run(ledger, SQL_BEGIN);
    return ledger->is_writing;
}

static bool
commit(struct watch_db *ledger)
{
    if (!ledger->is_writing)
        return true;
    if (!run(ledger, SQL_COMMIT))
        return false;
    ledger->is_writing = false;
    ledger->has_pending = false;
    return true;
}

/* Opening */

static bool
lock(struct watch_db *ledger, const char *dir, struct problem *why)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/lock", dir) >= (int)sizeof(path)) {
        problem(why, STATUS_IO, "%s: %s", dir, strerror(ENAMETOOLONG));
        return false;
    }
    ledger->lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (ledger->lock < 0)
        problem(why, STATUS_IO, "cannot open %s: %s", path, strerror(errno));
    else if (!flock(ledger->lock, LOCK_EX | LOCK_NB))
        return true;
    else if (errno == EWOULDBLOCK)
        problem(why, STATUS_IO, "another tidings watch keeps its state in %s",
                dir);
    else
        problem(why, STATUS_IO, "cannot lock %s: %s", path, strerror(errno));
    return false;
}

static bool
execute(struct watch_db *ledger, const char *text)
{
    return sqlite3_exec(ledger->db, text, NULL, NULL, NULL) == SQLITE_OK ||
           fail(ledger);
}

/* FULL: a sealed post is on the disk before it is sent. */
static bool
prepare(struct watch_db *ledger)
{
    sqlite3_stmt *s = NULL;
    int version = -1;

    if (!execute(ledger, "PRAGMA locking_mode = EXCLUSIVE;"
                         "PRAGMA journal_mode = WAL;"
                         "PRAGMA synchronous = FULL"))
        return false;
    if (sqlite3_prepare_v2(ledger->db, "PRAGMA user_version", -1, &s, NULL) ==
            SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW)
        version = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    if (version < 0)
        return fail(ledger);
    if (version > VERSION) {
        problem(&ledger->why, STATUS_IO,
                "the state of this watch is of a newer tidings");
        return false;
    }
    /* In one transaction: a crash leaves a new database, or a whole one. */
    if (version == 0 &&
        (!execute(ledger, "BEGIN IMMEDIATE") || !execute(ledger, schema) ||
         !execute(ledger, "COMMIT")))
        return false;
    for (int i = 0; i < N_SQL; i++)
        if (sqlite3_prepare_v3(ledger->db, sql[i], -1,
                               SQLITE_PREPARE_PERSISTENT,
                               &ledger->statements[i], NULL))
            return fail(ledger);
    return true;
}

static bool
column_is(sqlite3_stmt *s, int column, const char *text)
{
    const char *found = (const char *)sqlite3_column_text(s, column);

    return found && !strcmp(found, text);
}

/* True if the ledger was made for this set and these URIs: with another one,
 * the comparison would find wrong changes. */
static bool
is_ours(struct watch_db *ledger, const char *dir)
{
    sqlite3_stmt *s = ledger->statements[SQL_BOUND];
    bool is_there;
    bool is_same = true;

    if (!step(ledger, SQL_BOUND, &is_there))
        return false;
    if (is_there)
        is_same = column_is(s, 0, ledger->set_url) &&
                  column_is(s, 1, ledger->base_uri);
    if (!is_same)
        problem(&ledger->why, STATUS_IO,
                "the state in %s is of %s with base URI %s; choose "
                "another --state for this one",
                dir, (const char *)sqlite3_column_text(s, 0),
                (const char *)sqlite3_column_text(s, 1));
    done(ledger, SQL_BOUND);
    return is_same;
}

struct watch_db *
watch_db_open(const char *dir, const char *set_url, const char *base_uri,
              struct problem *why)
{
    struct watch_db *ledger = calloc(1, sizeof(*ledger));
    char path[PATH_MAX];

    if (!ledger) {
        problem_memory(why);
        return NULL;
    }
    ledger->lock = -1;
    ledger->set_url = strdup(set_url);
    ledger->base_uri = strdup(base_uri);
    snprintf(path, sizeof(path), "%s/watch.db", dir);
    if (!ledger->set_url || !ledger->base_uri)
        problem_memory(why);
    else if (lock(ledger, dir, why)) {
        if (sqlite3_open_v2(path, &ledger->db,
                            SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                SQLITE_OPEN_NOMUTEX,
                            NULL) != SQLITE_OK)
            fail(ledger);
        else if (prepare(ledger) && is_ours(ledger, dir))
            return ledger;
        *why = ledger->why;
    }
    watch_db_close(ledger);
    return NULL;
}

void
watch_db_close(struct watch_db *ledger)
{
    if (!ledger)
        return;
    for (int i = 0; i < N_SQL; i++)
        sqlite3_finalize(ledger->statements[i]);
    sqlite3_close(ledger->db); /* rolls back what is open */
    if (ledger->lock >= 0)
        close(ledger->lock);
    free(ledger->set_url);
    free(ledger->base_uri);
    free(ledger);
}

bool
watch_db_is_kept(const struct watch_db *ledger)
{
    struct stat st;

    return fstat(ledger->lock, &st) || st.st_nlink > 0;
}

const char *
watch_db_trouble(const struct watch_db *ledger)
{
    return ledger->why.text;
}

/* Looking */

/* Reads a row of either table; *is_known false: deleted. */
static bool
look(struct watch_db *ledger, int which, const char *path, bool *has_row,
     bool *is_known, struct filemark *mark)
{
    sqlite3_stmt *s = ledger->statements[which];

    bind_path(ledger, which, path);
    if (!step(ledger, which, has_row))
        return false;
    *is_known = *has_row && sqlite3_column_bytes(s, 4) == FILE_DIGEST_SIZE;
    if (*is_known) {
        mark->size = sqlite3_column_int64(s, 0);
        mark->mtime_ns = sqlite3_column_int64(s, 1);
        mark->ctime_ns = sqlite3_column_int64(s, 2);
        mark->ino = (uint64_t)sqlite3_column_int64(s, 3);
        memcpy(mark->sha256, sqlite3_column_blob(s, 4), FILE_DIGEST_SIZE);
    }
    done(ledger, which);
    return true;
}

bool
watch_db_file(struct watch_db *ledger, const char *path, bool *is_known,
              struct filemark *mark)
{
    bool has_row = false;

    if (ledger->has_pending &&
        !look(ledger, SQL_PENDING, path, &has_row, is_known, mark))
        return false;
    return has_row || look(ledger, SQL_FILE, path, &has_row, is_known, mark);
}

/* Sets `found` to the next path of one table, if that is less than the one in
 * `found`; "" is more than all. */
static bool
next_of(struct watch_db *ledger, int which, const char *after,
        char found[FILE_URI_PATH_MAX + 1])
{
    sqlite3_stmt *s = ledger->statements[which];
    char path[FILE_URI_PATH_MAX + 1];
    bool is_there;

    bind_path(ledger, which, after);
    if (!step(ledger, which, &is_there))
        return false;
    if (is_there && sqlite3_column_bytes(s, 0) <= FILE_URI_PATH_MAX) {
        size_t size = (size_t)sqlite3_column_bytes(s, 0);

        memcpy(path, sqlite3_column_blob(s, 0), size);
        path[size] = '\0';
        /* strcmp orders bytes as SQLite orders a BLOB. */
        if (!found[0] || strcmp(path, found) < 0)
            strcpy(found, path);
    }
    done(ledger, which);
    return true;
}

bool
watch_db_next(struct watch_db *ledger, const char *prefix,
              char path[FILE_URI_PATH_MAX + 1], bool *is_there)
{
    char found[FILE_URI_PATH_MAX + 1] = "";
    /* The prefix itself is no file's path: it is empty or ends with "/". */
    const char *after = path[0] ? path : prefix;

    if (!next_of(ledger, SQL_NEXT, after, found) ||
        (ledger->has_pending &&
         !next_of(ledger, SQL_NEXT_PENDING, after, found)))
        return false;
    *is_there = found[0] && !strncmp(found, prefix, strlen(prefix));
    if (*is_there)
        strcpy(path, found);
    return true;
}

bool
watch_db_count(struct watch_db *ledger, uint64_t *n_files)
{
    bool has_row;

    if (!step(ledger, SQL_COUNT, &has_row))
        return false;
    *n_files = (uint64_t)sqlite3_column_int64(ledger->statements[SQL_COUNT], 0);
    done(ledger, SQL_COUNT);
    return true;
}

/* Writing */

bool
watch_db_note(struct watch_db *ledger, const char *path,
              const struct filemark *mark)
{
    if (!begin(ledger))
        return false;
    bind_path(ledger, SQL_NOTE, path);
    bind_mark(ledger, SQL_NOTE, mark);
    return run(ledger, SQL_NOTE);
}

bool
watch_db_save(struct watch_db *ledger)
{
    return ledger->has_pending || commit(ledger);
}

bool
watch_db_add(struct watch_db *ledger, const char *path,
             const struct filemark *mark)
{
    if (!begin(ledger))
        return false;
    ledger->has_pending = true;
    bind_path(ledger, SQL_ADD, path);
    if (mark) {
        bind_mark(ledger, SQL_ADD, mark);
        sqlite3_bind_blob(ledger->statements[SQL_ADD], 6, mark->sha256,
                          FILE_DIGEST_SIZE, SQLITE_STATIC);
    }
    return run(ledger, SQL_ADD);
}

bool
watch_db_undo(struct watch_db *ledger)
{
    if (!ledger->is_writing)
        return true;
    ledger->is_writing = false;
    ledger->has_pending = false;
    return run(ledger, SQL_ROLLBACK);
}

static bool
make_key(char key[WATCH_DB_KEY_SIZE])
{
    unsigned char bytes[(WATCH_DB_KEY_SIZE - 1) / 2];

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return false;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

bool
watch_db_seal(struct watch_db *ledger, const void *body, size_t size,
              size_t n_entries)
{
    sqlite3_stmt *post = ledger->statements[SQL_POST];
    sqlite3_stmt *bound = ledger->statements[SQL_BIND];
    char key[WATCH_DB_KEY_SIZE];

    if (!make_key(key)) {
        problem(&ledger->why, STATUS_IO, "no random numbers: %s",
                strerror(errno));
        return false;
    }
    if (!begin(ledger))
        return false;
    sqlite3_bind_text(post, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_blob64(post, 2, body, size, SQLITE_STATIC);
    sqlite3_bind_int64(post, 3, (sqlite3_int64)n_entries);
    if (!run(ledger, SQL_POST))
        return false;
    sqlite3_bind_text(bound, 1, ledger->set_url, -1, SQLITE_STATIC);
    sqlite3_bind_text(bound, 2, ledger->base_uri, -1, SQLITE_STATIC);
    return run(ledger, SQL_BIND) && commit(ledger);
}

bool
watch_db_unfinished(struct watch_db *ledger, struct watch_db_post *post,
                    bool *is_there)
{
    sqlite3_stmt *s = ledger->statements[SQL_POST_OF];
    bool is_good = true;

    if (!step(ledger, SQL_POST_OF, is_there))
        return false;
    if (*is_there) {
        snprintf(post->key, sizeof(post->key), "%s",
                 (const char *)sqlite3_column_text(s, 0));
        post->size = (size_t)sqlite3_column_bytes(s, 1);
        post->n_entries = (size_t)sqlite3_column_int64(s, 2);
        post->body = malloc(post->size + 1);
        is_good = post->body != NULL;
        if (is_good && post->size)
            memcpy(post->body, sqlite3_column_blob(s, 1), post->size);
        else if (!is_good)
            problem_memory(&ledger->why);
    }
    done(ledger, SQL_POST_OF);
    return is_good;
}

/* Sets `*is_other` if earlier posts went into another log. */
static bool
is_other_log(struct watch_db *ledger, const char *epoch, bool *is_other)
{
    sqlite3_stmt *s = ledger->statements[SQL_BOUND];
    bool is_there;

    if (!step(ledger, SQL_BOUND, &is_there))
        return false;
    *is_other = is_there && !column_is(s, 2, "") && !column_is(s, 2, epoch);
    done(ledger, SQL_BOUND);
    return true;
}

bool
watch_db_posted(struct watch_db *ledger, const char *epoch, bool *is_new_log)
{
    if (!begin(ledger) || !is_other_log(ledger, epoch, is_new_log) ||
        (*is_new_log && !run(ledger, SQL_FORGET)))
        return false;
    sqlite3_bind_text(ledger->statements[SQL_EPOCH], 1, epoch, -1,
                      SQLITE_STATIC);
    return run(ledger, SQL_EPOCH) && run(ledger, SQL_APPLY) &&
           run(ledger, SQL_APPLY_DELETED) && run(ledger, SQL_PENDING_GONE) &&
           run(ledger, SQL_POST_GONE) && commit(ledger);
}

bool
watch_db_drop(struct watch_db *ledger)
{
    return begin(ledger) && run(ledger, SQL_PENDING_GONE) &&
           run(ledger, SQL_POST_GONE) && run(ledger, SQL_UNBIND) &&
           commit(ledger);
}
