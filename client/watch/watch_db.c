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

#include "base/db_rows.h"
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
};

struct watch_db {
    struct db db;
    int lock;
    bool has_pending; /* rows that are not sealed yet */
    char *set_url;
    char *base_uri;
    struct problem *why; /* lent */
};

/* Runs a statement. True: it has not failed. */
#define DO(state, ...) (!DB_DO(&(state)->db, NULL, (state)->why, __VA_ARGS__))

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
    struct db_rows rows = DB_SELECT(&state->db, NULL, state->why,
                                    "SELECT set_url, base_uri FROM bound");
    struct slice set_url, base_uri;

    if (DB_NEXT(&rows, &set_url, &base_uri) &&
        !(slice_is(set_url, state->set_url) &&
          slice_is(base_uri, state->base_uri)))
        rows.rc = db_fail(&state->db, STATUS_IO, state->why,
                          "it is of %.*s with base URI %.*s; choose another "
                          "--state for this one",
                          SLICE_ARG(set_url), SLICE_ARG(base_uri));
    return !db_rows_end(&rows);
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
    struct db_rows rows = DB_SELECT(
        &state->db, NULL, state->why,
        "SELECT size, mtime, ctime, ino, sha256 FROM"
        " (SELECT *, 0 AS age FROM pending WHERE path = ?1 UNION ALL"
        " SELECT *, 1 FROM files WHERE path = ?1) ORDER BY age LIMIT 1",
        db_blob(slice_of(path)));
    struct slice sha256;

    *is_known = DB_NEXT(&rows, &mark->size, &mark->mtime_ns, &mark->ctime_ns,
                        &mark->ino, &sha256) &&
                sha256.size == FILE_DIGEST_SIZE;
    if (*is_known)
        memcpy(mark->sha256, sha256.data, FILE_DIGEST_SIZE);
    return !db_rows_end(&rows);
}

bool
watch_db_next(struct watch_db *state, const char *prefix,
              char path[FILE_URI_PATH_MAX + 1], bool *is_there)
{
    /* The prefix itself is no file's path: it is empty or ends with "/". */
    struct slice after = slice_of(path[0] ? path : prefix), found;
    struct db_rows rows =
        DB_SELECT(&state->db, NULL, state->why,
                  "SELECT min(path) FROM"
                  " (SELECT min(path) AS path FROM files WHERE path > ?1"
                  " UNION ALL SELECT min(path) FROM pending WHERE path > ?1)",
                  db_blob(after));

    *is_there = DB_NEXT(&rows, &found) && found.size &&
                slice_starts(found, prefix) &&
                slice_copy(path, FILE_URI_PATH_MAX + 1, found);
    return !db_rows_end(&rows);
}

bool
watch_db_count(struct watch_db *state, uint64_t *n_files)
{
    return !db_find(&state->db, NULL, state->why, NULL,
                    "SELECT count(*) FROM files", DB_VALUES(),
                    DB_INTO(n_files));
}

/* Writing */

bool
watch_db_note(struct watch_db *state, const char *path,
              const struct file_stamp *mark)
{
    return begin_writing(state) &&
           DO(state,
              "UPDATE files SET size = ?2, mtime = ?3, ctime = ?4, ino = ?5"
              " WHERE path = ?1",
              db_blob(slice_of(path)), mark->size, mark->mtime_ns,
              mark->ctime_ns, mark->ino);
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
    if (!begin_writing(state))
        return false;
    state->has_pending = true;
    if (!mark)
        return DO(state, "INSERT OR REPLACE INTO pending(path) VALUES (?1)",
                  db_blob(slice_of(path)));
    return DO(
        state, "INSERT OR REPLACE INTO pending VALUES (?1,?2,?3,?4,?5,?6)",
        db_blob(slice_of(path)), mark->size, mark->mtime_ns, mark->ctime_ns,
        mark->ino, db_bytes(mark->sha256, FILE_DIGEST_SIZE));
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
    char key[WATCH_DB_KEY_SIZE];

    if (!random_hex(key, sizeof(key)))
        return !problem(state->why, STATUS_IO, "no random numbers: %s",
                        strerror(errno));
    return begin_writing(state) &&
           DO(state, "INSERT INTO post VALUES (?1, ?2, ?3)", slice_of(key),
              db_bytes(body, size), n_entries) &&
           DO(state,
              "INSERT INTO bound SELECT ?1, ?2, ''"
              " WHERE NOT EXISTS (SELECT 1 FROM bound)",
              state->set_url, state->base_uri) &&
           commit_writing(state);
}

bool
watch_db_unfinished(struct watch_db *state, struct watch_db_post *post,
                    bool *is_there)
{
    struct db_rows rows = DB_SELECT(&state->db, NULL, state->why,
                                    "SELECT key, n_entries, body FROM post");
    struct slice key, body;
    uint64_t n_entries;

    *is_there = DB_NEXT(&rows, &key, &n_entries, &body);
    if (*is_there) {
        slice_copy(post->key, sizeof(post->key), key);
        post->size = body.size;
        post->n_entries = (size_t)n_entries;
        post->body = slice_dup(body);
        if (!post->body)
            rows.rc = problem_memory(state->why);
    }
    return !db_rows_end(&rows);
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
    *is_new_log = false;
    return begin_writing(state) &&
           !db_find(&state->db, NULL, state->why, NULL,
                    "SELECT epoch NOT IN ('', ?1) FROM bound", DB_VALUES(epoch),
                    DB_INTO(is_new_log)) &&
           (!*is_new_log || DO(state, "DELETE FROM files")) &&
           DO(state, "UPDATE bound SET epoch = ?1", epoch) &&
           run_and_commit(state, apply);
}

bool
watch_db_drop(struct watch_db *state)
{
    return begin_writing(state) && run_and_commit(state, drop);
}
