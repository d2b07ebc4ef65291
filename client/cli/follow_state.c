#include "client/cli/follow_state.h"

#include <unistd.h>

#include "base/db.h"
#include "client/cli/cli.h"
#include "proto/fnv1a.h"

/* The beginning of a file of SQLite. */
static const char magic[] = "SQLite format 3";

/* first_set: the set that once was the source's only one; its listing is
 * FILE.list. */
static const struct db_kind kind = {
    .name = "the positions in",
    .mode = DB_SHARED,
    .opening = "CREATE TABLE IF NOT EXISTS first_set (url TEXT)",
};

struct follow_state {
    struct td_client *client;
    const char *path;                /* NULL: keeps nothing */
    struct db db;                    /* not open: a line of text */
    char position[TD_POSITION_SIZE]; /* of that line; "": none */
    char *set_url; /* the set of that position; NULL: unknown */
    bool has_line; /* it was there at the start */
};

static bool
fail_keeping(const struct follow_state *state, const char *why)
{
    say("cannot keep positions in %s: %s", state->path, why);
    return false;
}

static bool
open_db(struct follow_state *state, const char *path)
{
    struct problem why = {.text = ""};

    if (!db_open_kind(&state->db, &kind, path, &why))
        return true;
    say("%s", why.text);
    return false;
}

/* Prints why the last call of the library failed at the database. */
static bool
fail_db(struct follow_state *state)
{
    return fail_keeping(state, sqlite3_errmsg(state->db.handle));
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
    db_close(&state->db);
    free(state->set_url);
    free(state);
}

/* Runs a statement with the URL of a set as its parameter. Sets `*is` if there
 * is a row. */
static bool
ask_first(struct follow_state *state, const char *sql, const char *set_url,
          bool *is)
{
    struct problem why = {.text = ""};

    if (!db_find(&state->db, NULL, &why, is, sql, DB_VALUES(set_url),
                 DB_INTO()))
        return true;
    say("%s", why.text);
    return false;
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
        return fail_keeping(state, strerror(ENAMETOOLONG));
    unlink(path);
    if (!open_db(state, path))
        return false;
    if (state->set_url && state->position[0] &&
        td_position_save(state->db.handle, state->set_url, state->position))
        return fail_db(state);
    if (state->set_url && !ask_first(state, "INSERT INTO first_set VALUES (?)",
                                     state->set_url, &is))
        return false;
    db_close(&state->db);
    if (rename(path, state->path))
        return fail_keeping(state, strerror(errno));
    return open_db(state, state->path);
}

bool
follow_state_start(struct follow_state *state, struct td_start *start)
{
    bool is_first = true;
    int n;

    if (!state->path)
        return true;
    if (!state->db.handle && start->n_sets > 1 &&
        !become_db(state, start->n_sets))
        return false;
    if (state->db.handle) {
        if (!ask_first(state, "SELECT 1 FROM first_set WHERE url = ?",
                       start->set_url, &is_first))
            return false;
        if (td_position_load(state->db.handle, start->set_url, start->after))
            return fail_db(state);
    } else {
        memcpy(start->after, state->position, sizeof(start->after));
        state->set_url = strdup(start->set_url);
        if (!state->set_url)
            return fail_keeping(state, NO_MEMORY);
    }
    if (is_first)
        n = snprintf(start->listing, sizeof(start->listing), "%s.list",
                     state->path);
    else
        n = snprintf(start->listing, sizeof(start->listing),
                     "%s.list-%016" PRIx64, state->path,
                     fnv1a(FNV1A_BEGIN, slice_of(start->set_url)));
    return n < (int)sizeof(start->listing) ||
           fail_keeping(state, strerror(ENAMETOOLONG));
}

bool
follow_state_keep(struct follow_state *state, const char *set_url,
                  const char *position)
{
    char kept[TD_POSITION_SIZE];

    if (!state->path)
        return true;
    if (state->db.handle) {
        if (!td_position_load(state->db.handle, set_url, kept) &&
            !strcmp(kept, position))
            return true;
        return !td_position_save(state->db.handle, set_url, position) ||
               fail_db(state);
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
