#include "client/relay/relay_db.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/db.h"
#include "base/random.h"

static const char *const steps[] = {
    "CREATE TABLE relay (source TEXT NOT NULL, target TEXT NOT NULL,"
    " position TEXT NOT NULL, target_position TEXT NOT NULL);"
    "CREATE TABLE post (key TEXT NOT NULL, position TEXT NOT NULL,"
    " made INTEGER NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL);",

    /* Version 1 did not store if the target is the relay's own. */
    "ALTER TABLE relay ADD COLUMN owns INTEGER NOT NULL DEFAULT 0;",
};

enum {
    SQL_BIND,
    SQL_RELAY,
    SQL_OWN,
    SQL_POSITION,
    SQL_TARGET,
    SQL_BOTH,
    SQL_SEAL,
    SQL_POST,
    SQL_POST_GONE,
    N_SQL
};

static const char *const sql[N_SQL] = {
    [SQL_BIND] = "INSERT INTO relay SELECT ?1, ?2, '', '', 0"
                 " WHERE NOT EXISTS (SELECT 1 FROM relay)",
    [SQL_RELAY] = "SELECT source, target, position, target_position, owns"
                  " FROM relay",
    [SQL_OWN] = "UPDATE relay SET owns = ?1",
    [SQL_POSITION] = "UPDATE relay SET position = ?1",
    [SQL_TARGET] = "UPDATE relay SET target_position = ?1",
    [SQL_BOTH] = "UPDATE relay SET position = ?1, target_position = ?2",
    [SQL_SEAL] = "INSERT INTO post VALUES (?1, ?2, ?3, ?4, ?5)",
    [SQL_POST] = "SELECT key, position, made, n, body FROM post",
    [SQL_POST_GONE] = "DELETE FROM post",
};

static const struct db_kind kind = {
    .name = "the state of this relay",
    .mode = DB_OWN,
    .application_id = 1415860837, /* "TdRe" */
    .steps = steps,
    .n_steps = 2,
    .sql = sql,
    .n_sql = N_SQL,
};

struct relay_state {
    struct db db;
    char position[RELAY_POSITION_SIZE];
    char target[RELAY_POSITION_SIZE];
    bool owns;
    struct problem why;
};

/* Runs a statement without rows. */
static enum status
run_statement(struct relay_state *state, int which)
{
    return db_run(&state->db, state->db.statements[which], NULL, &state->why);
}

/* The relay never wrote this: somebody altered the file. */
static enum status
fail_damaged(struct relay_state *state)
{
    return db_fail(&state->db, STATUS_MALFORMED, &state->why,
                   "the file is damaged");
}

/* Opening */

/* Checks the row of this relay, and takes its positions. */
static enum status
take_row(struct relay_state *state, sqlite3_stmt *s, const char *source,
         const char *target)
{
    struct slice its_source = db_column(s, 0);
    struct slice its_target = db_column(s, 1);

    if (!its_source.size || !its_target.size ||
        !db_text(s, 2, state->position, sizeof(state->position)) ||
        !db_text(s, 3, state->target, sizeof(state->target)))
        return fail_damaged(state);
    if (!slice_is(its_source, source) || !slice_is(its_target, target))
        return db_fail(&state->db, STATUS_INVALID, &state->why,
                       "it is that of another relay: %.*s to %.*s",
                       SLICE_ARG(its_source), SLICE_ARG(its_target));
    state->owns = sqlite3_column_int(s, 4) != 0;
    return STATUS_OK;
}

/* Binds a new state to the two sets, and reads an old one. */
static enum status
bind_sets(struct relay_state *state, const char *source, const char *target)
{
    sqlite3_stmt *bind = state->db.statements[SQL_BIND];
    sqlite3_stmt *s = state->db.statements[SQL_RELAY];
    enum status rc;
    bool row;

    db_bind_text(bind, 1, slice_of(source));
    db_bind_text(bind, 2, slice_of(target));
    rc = run_statement(state, SQL_BIND);
    if (!rc)
        rc = db_step(&state->db, s, &row, NULL, &state->why);
    if (!rc)
        rc = take_row(state, s, source, target);
    db_reset(s);
    return rc;
}

struct relay_state *
relay_open(const char *path, const char *source, const char *target,
           struct problem *why)
{
    struct relay_state *state = calloc(1, sizeof(*state));

    if (!state) {
        problem_memory(why);
        return NULL;
    }
    if (!db_open_kind(&state->db, &kind, path, &state->why) &&
        !bind_sets(state, source, target))
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
    db_close(&state->db);
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
    sqlite3_bind_int(state->db.statements[SQL_OWN], 1, owns);
    if (run_statement(state, SQL_OWN))
        return false;
    state->owns = owns;
    return true;
}

/* Stores a position unless it is `noted`, which becomes it. */
static bool
note_position(struct relay_state *state, int which,
              char noted[RELAY_POSITION_SIZE], const char *position)
{
    if (!strcmp(position, noted))
        return true;
    db_bind_text(state->db.statements[which], 1, slice_of(position));
    if (run_statement(state, which))
        return false;
    snprintf(noted, RELAY_POSITION_SIZE, "%s", position);
    return true;
}

bool
relay_note(struct relay_state *state, const char *position)
{
    return note_position(state, SQL_POSITION, state->position, position);
}

bool
relay_note_target(struct relay_state *state, const char *position)
{
    return note_position(state, SQL_TARGET, state->target, position);
}

bool
relay_seal(struct relay_state *state, const char *body, size_t size, size_t n,
           const char *position)
{
    sqlite3_stmt *s = state->db.statements[SQL_SEAL];
    char key[RELAY_KEY_SIZE];

    if (!random_hex(key, sizeof(key))) {
        problem(&state->why, STATUS_IO, "no random numbers");
        return false;
    }
    db_bind_text(s, 1, slice_of(key));
    db_bind_text(s, 2, slice_of(position));
    sqlite3_bind_int64(s, 3, clock_now_us() / 1000000);
    sqlite3_bind_int64(s, 4, (sqlite3_int64)n);
    db_bind_bytes(s, 5, (struct slice){body, size});
    return !run_statement(state, SQL_SEAL);
}

/* Copies the sealed post of the current row. */
static enum status
take_post(struct relay_state *state, sqlite3_stmt *s, struct relay_post *post)
{
    struct slice body = db_column(s, 4);

    post->made_s = sqlite3_column_int64(s, 2);
    post->n = (size_t)sqlite3_column_int64(s, 3);
    post->size = body.size;
    /* An entry has at least one byte. */
    if (!db_text(s, 0, post->key, sizeof(post->key)) ||
        !db_text(s, 1, post->position, sizeof(post->position)) ||
        post->n == 0 || post->n > post->size)
        return fail_damaged(state);
    post->body = slice_dup(body);
    return post->body ? STATUS_OK : problem_memory(&state->why);
}

bool
relay_unfinished(struct relay_state *state, struct relay_post *post,
                 bool *is_there)
{
    sqlite3_stmt *s = state->db.statements[SQL_POST];
    enum status rc;
    bool row;

    post->body = NULL;
    rc = db_step(&state->db, s, &row, NULL, &state->why);
    if (!rc && row)
        rc = take_post(state, s, post);
    *is_there = post->body;
    db_reset(s);
    return !rc;
}

bool
relay_posted(struct relay_state *state, const struct relay_post *post,
             const char *target)
{
    sqlite3_stmt *s = state->db.statements[SQL_BOTH];
    enum status rc = db_begin(&state->db, &state->why);

    if (rc)
        return false;
    db_bind_text(s, 1, slice_of(post->position));
    db_bind_text(s, 2, slice_of(target));
    rc = run_statement(state, SQL_POST_GONE);
    if (!rc)
        rc = run_statement(state, SQL_BOTH);
    if (db_end(&state->db, rc, &state->why))
        return false;
    snprintf(state->position, sizeof(state->position), "%s", post->position);
    snprintf(state->target, sizeof(state->target), "%s", target);
    return true;
}
