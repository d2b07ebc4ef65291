#include "client/relay/relay_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <sqlite3.h>

/* "TdRe" */
#define APPLICATION_ID 1415860837
#define VERSION        2

static const char schema[] =
    "CREATE TABLE relay (source TEXT NOT NULL, target TEXT NOT NULL,"
    " position TEXT NOT NULL, target_position TEXT NOT NULL,"
    " owns INTEGER NOT NULL DEFAULT 0);"
    "CREATE TABLE post (key TEXT NOT NULL, position TEXT NOT NULL,"
    " made INTEGER NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL);"
    "PRAGMA application_id = 1415860837; PRAGMA user_version = 2;";

/* Version 1 did not store if the target is the relay's own. */
static const char from_1[] =
    "ALTER TABLE relay ADD COLUMN owns INTEGER NOT NULL DEFAULT 0;"
    "PRAGMA user_version = 2;";

/* The lock is taken with the first transaction and kept. */
static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE;"
                               "PRAGMA journal_mode = WAL;"
                               "PRAGMA synchronous = FULL;"
                               "PRAGMA trusted_schema = OFF;"
                               "BEGIN IMMEDIATE;";

struct relay_state {
    sqlite3 *db;
    char position[RELAY_POSITION_SIZE];
    char target[RELAY_POSITION_SIZE];
    bool owns;
    struct problem why;
};

/* Steps of the database */

static bool
fail(struct relay_state *state)
{
    problem(&state->why, STATUS_IO, "the state of this relay: %s",
            sqlite3_errcode(state->db) == SQLITE_BUSY
                ? "another relay works with it"
                : sqlite3_errmsg(state->db));
    if (!sqlite3_get_autocommit(state->db))
        sqlite3_exec(state->db, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

static bool
exec(struct relay_state *state, const char *text)
{
    return !sqlite3_exec(state->db, text, NULL, NULL, NULL) || fail(state);
}

/* Prepares a statement with up to two texts; NULL: it failed. */
static sqlite3_stmt *
prepare(struct relay_state *state, const char *text, const char *first,
        const char *second)
{
    sqlite3_stmt *s = NULL;

    if (sqlite3_prepare_v2(state->db, text, -1, &s, NULL)) {
        fail(state);
        return NULL;
    }
    if (first)
        sqlite3_bind_text(s, 1, first, -1, SQLITE_TRANSIENT);
    if (second)
        sqlite3_bind_text(s, 2, second, -1, SQLITE_TRANSIENT);
    return s;
}

static bool
finish(struct relay_state *state, sqlite3_stmt *s)
{
    bool is_good = s && sqlite3_step(s) == SQLITE_DONE;

    if (s && !is_good)
        fail(state);
    sqlite3_finalize(s);
    return is_good;
}

/* Copies a text of the current row; true: it fits. */
static bool
take(sqlite3_stmt *s, int column, char *to, size_t size)
{
    const char *text = (const char *)sqlite3_column_text(s, column);

    return text && snprintf(to, size, "%s", text) < (int)size;
}

/* Opening */

static bool
ask_number(struct relay_state *state, const char *text, int64_t *number)
{
    sqlite3_stmt *s = prepare(state, text, NULL, NULL);
    bool is_good = s && sqlite3_step(s) == SQLITE_ROW;

    if (is_good)
        *number = sqlite3_column_int64(s, 0);
    else if (s)
        fail(state);
    sqlite3_finalize(s);
    return is_good;
}

static bool
found(struct relay_state *state)
{
    int64_t application = 0, version = 0, n_tables = 0;

    if (!ask_number(state, "PRAGMA application_id", &application) ||
        !ask_number(state, "PRAGMA user_version", &version) ||
        !ask_number(state, "SELECT count(*) FROM sqlite_master", &n_tables))
        return false;
    if (application == 0 && n_tables == 0)
        return exec(state, schema);
    if (application == APPLICATION_ID && version <= VERSION)
        return version == VERSION || exec(state, from_1);
    problem(&state->why, STATUS_INVALID, "%s",
            application == APPLICATION_ID
                ? "the state is of a newer version of this program"
                : "the file is not the state of a relay");
    return false;
}

/* The relay never wrote this: somebody altered the file. */
static bool
fail_damaged(struct relay_state *state)
{
    problem(&state->why, STATUS_MALFORMED,
            "the state of this relay is damaged");
    return false;
}

static bool
bind_sets(struct relay_state *state, const char *source, const char *target)
{
    const char *its_source, *its_target;
    sqlite3_stmt *s = prepare(state,
                              "INSERT INTO relay SELECT ?1, ?2, '', '', 0"
                              " WHERE NOT EXISTS (SELECT 1 FROM relay)",
                              source, target);
    bool is_good = finish(state, s);

    if (!is_good)
        return false;
    s = prepare(state,
                "SELECT source, target, position, target_position, owns"
                " FROM relay",
                NULL, NULL);
    if (!s)
        return false;
    if (sqlite3_step(s) != SQLITE_ROW) {
        is_good = fail(state);
        goto out;
    }
    its_source = (const char *)sqlite3_column_text(s, 0);
    its_target = (const char *)sqlite3_column_text(s, 1);
    is_good = its_source && its_target &&
              take(s, 2, state->position, sizeof(state->position)) &&
              take(s, 3, state->target, sizeof(state->target));
    state->owns = sqlite3_column_int(s, 4) != 0;
    if (!is_good) {
        fail_damaged(state);
    } else if (strcmp(its_source, source) || strcmp(its_target, target)) {
        is_good = false;
        problem(&state->why, STATUS_INVALID,
                "the state is that of another relay: %.200s to %.200s",
                its_source, its_target);
    }

out:
    sqlite3_finalize(s);
    return is_good;
}

struct relay_state *
relay_open(const char *path, const char *source, const char *target,
           struct problem *why)
{
    struct relay_state *state = calloc(1, sizeof(*state));
    bool is_good;

    if (!state) {
        problem_memory(why);
        return NULL;
    }
    is_good = !sqlite3_open_v2(path, &state->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                   SQLITE_OPEN_NOMUTEX,
                               NULL) ||
              fail(state);
    is_good = is_good && exec(state, settings) && found(state) &&
              bind_sets(state, source, target) && exec(state, "COMMIT");
    if (is_good)
        return state;
    *why = state->why;
    relay_close(state);
    return NULL;
}

void
relay_close(struct relay_state *state)
{
    if (!state)
        return;
    sqlite3_close(state->db);
    free(state);
}

const char *
relay_trouble(const struct relay_state *state)
{
    return state->why.text;
}

const char *
relay_position(const struct relay_state *state)
{
    return state->position;
}

const char *
relay_target(const struct relay_state *state)
{
    return state->target;
}

bool
relay_owns(const struct relay_state *state)
{
    return state->owns;
}

/* Notes */

bool
relay_own(struct relay_state *state, bool owns)
{
    if (owns == state->owns)
        return true;
    if (!exec(state,
              owns ? "UPDATE relay SET owns = 1" : "UPDATE relay SET owns = 0"))
        return false;
    state->owns = owns;
    return true;
}

bool
relay_note(struct relay_state *state, const char *position)
{
    if (!strcmp(position, state->position))
        return true;
    if (!finish(state, prepare(state, "UPDATE relay SET position = ?1",
                               position, NULL)))
        return false;
    snprintf(state->position, sizeof(state->position), "%s", position);
    return true;
}

bool
relay_note_target(struct relay_state *state, const char *position)
{
    if (!strcmp(position, state->target))
        return true;
    if (!finish(state, prepare(state, "UPDATE relay SET target_position = ?1",
                               position, NULL)))
        return false;
    snprintf(state->target, sizeof(state->target), "%s", position);
    return true;
}

bool
relay_seal(struct relay_state *state, const char *body, size_t size, size_t n,
           const char *position)
{
    unsigned char bytes[(RELAY_KEY_SIZE - 1) / 2];
    char key[RELAY_KEY_SIZE];
    sqlite3_stmt *s;

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
        problem(&state->why, STATUS_IO, "no random numbers");
        return false;
    }
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(&key[2 * i], 3, "%02x", bytes[i]);
    s = prepare(state, "INSERT INTO post VALUES (?1, ?2, ?3, ?4, ?5)", key,
                position);
    if (!s)
        return false;
    sqlite3_bind_int64(s, 3, time(NULL));
    sqlite3_bind_int64(s, 4, (sqlite3_int64)n);
    sqlite3_bind_blob64(s, 5, body, size, SQLITE_STATIC);
    return finish(state, s);
}

bool
relay_unfinished(struct relay_state *state, struct relay_post *post,
                 bool *is_there)
{
    sqlite3_stmt *s = prepare(
        state, "SELECT key, position, made, n, body FROM post", NULL, NULL);
    int code = s ? sqlite3_step(s) : SQLITE_ERROR;
    bool is_good = code == SQLITE_DONE;

    *is_there = false;
    post->body = NULL;
    if (code != SQLITE_ROW) {
        if (s && !is_good)
            fail(state);
        goto out;
    }
    post->made_s = sqlite3_column_int64(s, 2);
    post->n = (size_t)sqlite3_column_int64(s, 3);
    post->size = (size_t)sqlite3_column_bytes(s, 4);
    /* An entry has at least one byte. */
    if (!take(s, 0, post->key, sizeof(post->key)) ||
        !take(s, 1, post->position, sizeof(post->position)) || post->n == 0 ||
        post->n > post->size) {
        fail_damaged(state);
        goto out;
    }
    post->body = malloc(post->size);
    is_good = *is_there = post->body;
    if (is_good)
        memcpy(post->body, sqlite3_column_blob(s, 4), post->size);
    else
        problem_memory(&state->why);

out:
    sqlite3_finalize(s);
    return is_good;
}

bool
relay_posted(struct relay_state *state, const struct relay_post *post,
             const char *target)
{
    if (!exec(state, "BEGIN IMMEDIATE") || !exec(state, "DELETE FROM post") ||
        !finish(state,
                prepare(state,
                        "UPDATE relay SET position = ?1, target_position = ?2",
                        post->position, target)) ||
        !exec(state, "COMMIT"))
        return false;
    snprintf(state->position, sizeof(state->position), "%s", post->position);
    snprintf(state->target, sizeof(state->target), "%s", target);
    return true;
}
