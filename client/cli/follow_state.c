#include "client/cli/follow_state.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include "client/cli/cli.h"

/* The beginning of a file of SQLite. */
static const char magic[] = "SQLite format 3";

/* Milliseconds to wait for another process that uses the file. */
#define BUSY_MS 5000

struct follow_state {
    struct td_client *client;
    const char *path;                /* NULL: keeps nothing */
    sqlite3 *db;                     /* NULL: a line of text */
    char position[TD_POSITION_SIZE]; /* of that line; "": none */
    char *set_url; /* the set of that position; NULL: unknown */
    bool has_line; /* it was there at the start */
};

static bool
fail(const struct follow_state *state, const char *why)
{
    say("cannot keep positions in %s: %s", state->path, why);
    return false;
}

/* The set that once was the source's only one: its listing is FILE.list. */
static const char schema[] = "CREATE TABLE IF NOT EXISTS first_set (url TEXT)";

static bool
open_db(struct follow_state *state, const char *path)
{
    if (sqlite3_open_v2(path, &state->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(state->db, BUSY_MS) == SQLITE_OK &&
        sqlite3_exec(state->db, schema, NULL, NULL, NULL) == SQLITE_OK)
        return true;
    fail(state, state->db ? sqlite3_errmsg(state->db) : NO_MEMORY);
    sqlite3_close(state->db);
    state->db = NULL;
    return false;
}

static bool
is_db(const char *path)
{
    char begin[sizeof(magic)] = "";
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(begin, 1, sizeof(magic), file) : 0;

    if (file)
        fclose(file);
    return size == sizeof(magic) && !memcmp(begin, magic, sizeof(magic));
}

/* True if the state can be written; else the first line would be the first to
 * fail. */
static bool
can_keep(const char *path)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = slash == path ? 1 : slash ? (int)(slash - path) : 0;

    snprintf(dir, sizeof(dir), "%.*s", n, path);
    return access(n ? dir : ".", W_OK | X_OK) == 0;
}

struct follow_state *
follow_state_open(struct td_client *client, const char *path)
{
    struct follow_state *state = calloc(1, sizeof(*state));
    bool is_good = true;

    if (!state) {
        say(NO_MEMORY);
        return NULL;
    }
    state->client = client;
    state->path = path;
    if (path && is_db(path)) {
        is_good = open_db(state, path);
    } else if (path && td_position_read(client, path, state->position)) {
        say("%s", td_problem(client));
        is_good = false;
    }
    state->has_line = state->position[0] != '\0';
    if (is_good && path && !can_keep(path)) {
        say("cannot write %s: %s", path, strerror(errno));
        is_good = false;
    }
    if (is_good)
        return state;
    follow_state_close(state);
    return NULL;
}

void
follow_state_close(struct follow_state *state)
{
    if (!state)
        return;
    sqlite3_close(state->db);
    free(state->set_url);
    free(state);
}

/* Runs a statement with the URL of a set as its parameter. Sets `*is` if there
 * is a row. */
static bool
ask_first(struct follow_state *state, const char *text, const char *set_url,
          bool *is)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(state->db, text, -1, &s, NULL);

    if (!code)
        code = sqlite3_bind_text(s, 1, set_url, -1, SQLITE_STATIC);
    if (!code)
        code = sqlite3_step(s);
    *is = code == SQLITE_ROW;
    sqlite3_finalize(s);
    return code == SQLITE_ROW || code == SQLITE_DONE ||
           fail(state, sqlite3_errmsg(state->db));
}

/* Turns the line into a row, in one step, as the source has several sets. */
static bool
become_db(struct follow_state *state, size_t n_sets)
{
    char path[PATH_MAX];
    bool is;

    if (state->has_line && !state->set_url) {
        say("%s keeps the position of one set, and the source has %zu: give "
            "another file",
            state->path, n_sets);
        return false;
    }
    if (snprintf(path, sizeof(path), "%s.new", state->path) >=
        (int)sizeof(path))
        return fail(state, strerror(ENAMETOOLONG));
    unlink(path);
    if (!open_db(state, path))
        return false;
    if (state->set_url && state->position[0] &&
        td_position_save(state->db, state->set_url, state->position))
        return fail(state, sqlite3_errmsg(state->db));
    if (state->set_url && !ask_first(state, "INSERT INTO first_set VALUES (?1)",
                                     state->set_url, &is))
        return false;
    sqlite3_close(state->db);
    state->db = NULL;
    if (rename(path, state->path))
        return fail(state, strerror(errno));
    return open_db(state, state->path);
}

/* FNV-1a: the same name in each process. */
static uint64_t
mark_of(const char *url)
{
    uint64_t mark = 14695981039346656037u;

    for (; *url; url++)
        mark = (mark ^ (unsigned char)*url) * 1099511628211u;
    return mark;
}

bool
follow_state_start(struct follow_state *state, struct td_start *start)
{
    bool is_first = true;
    int n;

    if (!state->path)
        return true;
    if (!state->db && start->n_sets > 1 && !become_db(state, start->n_sets))
        return false;
    if (state->db) {
        if (!ask_first(state, "SELECT 1 FROM first_set WHERE url = ?1",
                       start->set_url, &is_first))
            return false;
        if (td_position_load(state->db, start->set_url, start->after))
            return fail(state, sqlite3_errmsg(state->db));
    } else {
        memcpy(start->after, state->position, sizeof(start->after));
        state->set_url = strdup(start->set_url);
        if (!state->set_url)
            return fail(state, NO_MEMORY);
    }
    if (is_first)
        n = snprintf(start->listing, sizeof(start->listing), "%s.list",
                     state->path);
    else
        n = snprintf(start->listing, sizeof(start->listing),
                     "%s.list-%016" PRIx64, state->path,
                     mark_of(start->set_url));
    return n < (int)sizeof(start->listing) ||
           fail(state, strerror(ENAMETOOLONG));
}

bool
follow_state_keep(struct follow_state *state, const char *set_url,
                  const char *position)
{
    char kept[TD_POSITION_SIZE];

    if (!state->path)
        return true;
    if (state->db) {
        if (!td_position_load(state->db, set_url, kept) &&
            !strcmp(kept, position))
            return true;
        return !td_position_save(state->db, set_url, position) ||
               fail(state, sqlite3_errmsg(state->db));
    }
    if (!strcmp(position, state->position))
        return true;
    if (td_position_write(state->client, state->path, position)) {
        say("%s", td_problem(state->client));
        return false;
    }
    snprintf(state->position, sizeof(state->position), "%s", position);
    return true;
}
