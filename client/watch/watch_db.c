/*
 * watch_db.c - the last posted state of each file, in SQLite.
 *
 * A transaction is open from the first write after a seal until the next one.
 * To change a table, add a step.
 */
#include "client/watch/watch_db.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/db.h"
#include "base/file.h"
#include "base/random.h"

/* `pending` has the files' states after the post under way: without a sha256,
 * deleted. A path is a BLOB: SQLite compares its bytes. `post` and `bound` have
 * one row at most. */
static const char *const steps[] = {
    "CREATE TABLE files (path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER,"
    " ctime INTEGER, ino INTEGER, sha256 BLOB) WITHOUT ROWID;"
    "CREATE TABLE pending (path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER,"
    " ctime INTEGER, ino INTEGER, sha256 BLOB) WITHOUT ROWID;"
    "CREATE TABLE post (key TEXT, body BLOB, n_entries INTEGER);"
    "CREATE TABLE bound (set_url TEXT, base_uri TEXT, epoch TEXT);",
};

enum {
    SQL_FILE,
    SQL_NEXT,
    SQL_NOTE,
    SQL_ADD,
    SQL_POST,
    SQL_POST_OF,
    SQL_BIND,
    SQL_BOUND,
    SQL_EPOCH,
    N_SQL
};

static const char *const sql[N_SQL] = {
    [SQL_FILE] =
        "SELECT size, mtime, ctime, ino, sha256 FROM"
        " (SELECT *, 0 AS age FROM pending WHERE path = ?1 UNION ALL"
        " SELECT *, 1 FROM files WHERE path = ?1) ORDER BY age LIMIT 1",
    [SQL_NEXT] = "SELECT min(path) FROM"
                 " (SELECT min(path) AS path FROM files WHERE path > ?1"
                 " UNION ALL SELECT min(path) FROM pending WHERE path > ?1)",
    [SQL_NOTE] = "UPDATE files SET size = ?2, mtime = ?3, ctime = ?4, ino = ?5"
                 " WHERE path = ?1",
    [SQL_ADD] = "INSERT OR REPLACE INTO pending VALUES (?1,?2,?3,?4,?5,?6)",
    [SQL_POST] = "INSERT INTO post VALUES (?1, ?2, ?3)",
    [SQL_POST_OF] = "SELECT key, body, n_entries FROM post",
    [SQL_BIND] = "INSERT INTO bound SELECT ?1, ?2, ''"
                 " WHERE NOT EXISTS (SELECT 1 FROM bound)",
    [SQL_BOUND] = "SELECT set_url, base_uri, epoch FROM bound",
    [SQL_EPOCH] = "UPDATE bound SET epoch = ?1",
};

static const char apply[] = "INSERT OR REPLACE INTO files SELECT * FROM pending"
                            " WHERE sha256 IS NOT NULL;"
                            "DELETE FROM files WHERE path IN"
                            " (SELECT path FROM pending WHERE sha256 IS NULL);"
                            "DELETE FROM pending; DELETE FROM post;";

static const char drop[] =
    "DELETE FROM pending; DELETE FROM post;"
    "DELETE FROM bound WHERE NOT EXISTS (SELECT 1 FROM files);";

/* synchronous=FULL: a sealed post is on the disk before it is sent. */
static const struct db_kind kind = {
    .name = "the state of this watch",
    .mode = DB_OWN,
    .steps = steps,
    .n_steps = 1,
    .sql = sql,
    .n_sql = N_SQL,
};

struct watch_db {
    struct db db;
    int lock;
    bool has_pending; /* rows that are not sealed yet */
    char *set_url;
    char *base_uri;
    struct problem *why; /* lent */
};

/* Steps of the database */

/* Runs a statement to its first row or its end. */
static bool
step_to_row(struct watch_db *state, int which, bool *has_row)
{
    sqlite3_stmt *s = state->db.statements[which];
    enum status rc = db_step(&state->db, s, has_row, NULL, state->why);

    if (rc)
        db_reset(s);
    return !rc;
}

static bool
run_statement(struct watch_db *state, int which)
{
    return !db_run(&state->db, state->db.statements[which], NULL, state->why);
}

static void
bind_mark(sqlite3_stmt *s, const struct file_stamp *mark)
{
    sqlite3_bind_int64(s, 2, mark->size);
    sqlite3_bind_int64(s, 3, mark->mtime_ns);
    sqlite3_bind_int64(s, 4, mark->ctime_ns);
    sqlite3_bind_int64(s, 5, (sqlite3_int64)mark->ino);
}

static bool
is_writing(const struct watch_db *state)
{
    return !sqlite3_get_autocommit(state->db.handle);
}

static bool
begin_writing(struct watch_db *state)
{
    return is_writing(state) || !db_begin(&state->db, state->why);
}

static bool
commit_writing(struct watch_db *state)
{
    if (is_writing(state) && db_end(&state->db, STATUS_OK, state->why))
        return false;
    state->has_pending = false;
    return true;
}

/* Opening */

/* True if the state is of this set and these URIs: with another one, the
 * comparison would find wrong changes. */
static bool
is_ours(struct watch_db *state)
{
    sqlite3_stmt *s = state->db.statements[SQL_BOUND];
    bool is_there;
    bool is_same = true;

    if (!step_to_row(state, SQL_BOUND, &is_there))
        return false;
    if (is_there)
        is_same = slice_is(db_column(s, 0), state->set_url) &&
                  slice_is(db_column(s, 1), state->base_uri);
    if (!is_same)
        db_fail(&state->db, STATUS_IO, state->why,
                "it is of %.*s with base URI %.*s; choose another --state for "
                "this one",
                SLICE_ARG(db_column(s, 0)), SLICE_ARG(db_column(s, 1)));
    db_reset(s);
    return is_same;
}

struct watch_db *
watch_db_open(const char *dir, const char *set_url, const char *base_uri,
              struct problem *why)
{
    struct watch_db *state = calloc(1, sizeof(*state));
    char path[PATH_MAX];

    if (!state) {
        problem_memory(why);
        return NULL;
    }
    state->why = why;
    state->lock = -1;
    state->set_url = strdup(set_url);
    state->base_uri = strdup(base_uri);
    snprintf(path, sizeof(path), "%s/watch.db", dir);

    if (!state->set_url || !state->base_uri)
        problem_memory(why);
    else if (file_lock(dir, &state->lock, why))
        problem_prefix(why, STATUS_IO, "the state of this watch: ");
    else if (!db_open_kind(&state->db, &kind, path, why) && is_ours(state))
        return state;
    watch_db_close(state);
    return NULL;
}

void
watch_db_close(struct watch_db *state)
{
    if (!state)
        return;
    db_close(&state->db);
    file_unlock(state->lock);
    free(state->set_url);
    free(state->base_uri);
    free(state);
}

bool
watch_db_is_kept(const struct watch_db *state)
{
    struct stat st;

    return fstat(state->lock, &st) || st.st_nlink > 0;
}

/* Looking */

bool
watch_db_file(struct watch_db *state, const char *path, bool *is_known,
              struct file_stamp *mark)
{
    sqlite3_stmt *s = state->db.statements[SQL_FILE];

    db_bind_bytes(s, 1, slice_of(path));
    if (!step_to_row(state, SQL_FILE, is_known))
        return false;
    *is_known = *is_known && sqlite3_column_bytes(s, 4) == FILE_DIGEST_SIZE;
    if (*is_known) {
        mark->size = sqlite3_column_int64(s, 0);
        mark->mtime_ns = sqlite3_column_int64(s, 1);
        mark->ctime_ns = sqlite3_column_int64(s, 2);
        mark->ino = (uint64_t)sqlite3_column_int64(s, 3);
        memcpy(mark->sha256, db_column(s, 4).data, FILE_DIGEST_SIZE);
    }
    db_reset(s);
    return true;
}

bool
watch_db_next(struct watch_db *state, const char *prefix,
              char path[FILE_URI_PATH_MAX + 1], bool *is_there)
{
    sqlite3_stmt *s = state->db.statements[SQL_NEXT];
    struct slice found;

    /* The prefix itself is no file's path: it is empty or ends with "/". */
    db_bind_bytes(s, 1, slice_of(path[0] ? path : prefix));
    if (!step_to_row(state, SQL_NEXT, is_there))
        return false;
    found = db_column(s, 0);
    *is_there = found.size && slice_starts(found, prefix) &&
                slice_copy(path, FILE_URI_PATH_MAX + 1, found);
    db_reset(s);
    return true;
}

bool
watch_db_count(struct watch_db *state, uint64_t *n_files)
{
    int64_t n;

    if (db_number(&state->db, "SELECT count(*) FROM files", &n, state->why))
        return false;
    *n_files = (uint64_t)n;
    return true;
}

/* Writing */

bool
watch_db_note(struct watch_db *state, const char *path,
              const struct file_stamp *mark)
{
    sqlite3_stmt *s = state->db.statements[SQL_NOTE];

    if (!begin_writing(state))
        return false;
    db_bind_bytes(s, 1, slice_of(path));
    bind_mark(s, mark);
    return run_statement(state, SQL_NOTE);
}

bool
watch_db_save(struct watch_db *state)
{
    return state->has_pending || commit_writing(state);
}

bool
watch_db_add(struct watch_db *state, const char *path,
             const struct file_stamp *mark)
{
    sqlite3_stmt *s = state->db.statements[SQL_ADD];

    if (!begin_writing(state))
        return false;
    state->has_pending = true;
    db_reset(s); /* a deleted file has no mark */
    db_bind_bytes(s, 1, slice_of(path));
    if (mark) {
        bind_mark(s, mark);
        db_bind_bytes(
            s, 6, (struct slice){(const char *)mark->sha256, FILE_DIGEST_SIZE});
    }
    return run_statement(state, SQL_ADD);
}

void
watch_db_undo(struct watch_db *state)
{
    db_rollback(&state->db);
    state->has_pending = false;
}

bool
watch_db_seal(struct watch_db *state, const void *body, size_t size,
              size_t n_entries)
{
    sqlite3_stmt *post = state->db.statements[SQL_POST];
    sqlite3_stmt *bound = state->db.statements[SQL_BIND];
    char key[WATCH_DB_KEY_SIZE];

    if (!random_hex(key, sizeof(key))) {
        problem(state->why, STATUS_IO, "no random numbers: %s",
                strerror(errno));
        return false;
    }
    if (!begin_writing(state))
        return false;
    db_bind_text(post, 1, slice_of(key));
    db_bind_bytes(post, 2, (struct slice){body, size});
    sqlite3_bind_int64(post, 3, (sqlite3_int64)n_entries);
    if (!run_statement(state, SQL_POST))
        return false;
    db_bind_text(bound, 1, slice_of(state->set_url));
    db_bind_text(bound, 2, slice_of(state->base_uri));
    return run_statement(state, SQL_BIND) && commit_writing(state);
}

bool
watch_db_unfinished(struct watch_db *state, struct watch_db_post *post,
                    bool *is_there)
{
    sqlite3_stmt *s = state->db.statements[SQL_POST_OF];
    bool is_good = true;

    if (!step_to_row(state, SQL_POST_OF, is_there))
        return false;
    if (*is_there) {
        struct slice body = db_column(s, 1);

        db_text(s, 0, post->key, sizeof(post->key));
        post->size = body.size;
        post->n_entries = (size_t)sqlite3_column_int64(s, 2);
        post->body = slice_dup(body);
        is_good = post->body || !problem_memory(state->why);
    }
    db_reset(s);
    return is_good;
}

/* Sets `*is_other` if earlier posts went into another log. */
static bool
is_other_log(struct watch_db *state, const char *epoch, bool *is_other)
{
    sqlite3_stmt *s = state->db.statements[SQL_BOUND];
    struct slice its;

    if (!step_to_row(state, SQL_BOUND, is_other))
        return false;
    its = db_column(s, 2);
    *is_other = its.size > 0 && !slice_is(its, epoch);
    db_reset(s);
    return true;
}

/* Runs statements without parameters, and ends the transaction. */
static bool
run_and_commit(struct watch_db *state, const char *statements)
{
    return !db_exec(&state->db, statements, state->why) &&
           commit_writing(state);
}

bool
watch_db_posted(struct watch_db *state, const char *epoch, bool *is_new_log)
{
    if (!begin_writing(state) || !is_other_log(state, epoch, is_new_log) ||
        (*is_new_log && db_exec(&state->db, "DELETE FROM files", state->why)))
        return false;
    db_bind_text(state->db.statements[SQL_EPOCH], 1, slice_of(epoch));
    return run_statement(state, SQL_EPOCH) && run_and_commit(state, apply);
}

bool
watch_db_drop(struct watch_db *state)
{
    return begin_writing(state) && run_and_commit(state, drop);
}
