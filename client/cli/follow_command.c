/*
 * follow_command.c - tidings follow, tail: a line, or a command, for each
 * change.
 */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/db.h"
#include "base/file.h"
#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/cli/progress.h"
#include "proto/fnv1a.h"
#include "proto/resourcesync/position.h"

/*
 * Prints changes as lines: text, JSON or XML.
 *
 *     7 2026-11-20T21:00:00.000000Z updated http://example.com/a
 *     {"loc":"http://example.com/a","change":"updated",...,"seq":7}
 *     <url><loc>http://example.com/a</loc>...</url>
 *
 * and of a baseline, whose resources have no change:
 *
 *     - - baseline-begin -
 *     - 2026-11-19T08:00:00Z resource http://example.com/a
 *     - - baseline-end -
 *     {"baseline":"begin"}       {"loc":...}          {"baseline":"end"}
 *     <!-- baseline-begin -->    <url>...</url>       <!-- baseline-end -->
 */

/* One row per --format. */
struct lines {
    const char *name;
    enum td_form form;
    /* Without its newline. */
    void (*change)(FILE *to, const struct td_change *change);
    const char *begin, *end; /* of a baseline, with it */
};

/* The values of options, and what follows of them; lent from the command line,
 * but for the filters. */
struct follow_args {
    const char *url;
    const char *state;           /* path; NULL: none */
    const char *command;         /* --exec; NULL: prints lines */
    unsigned format;             /* text 1, json 2, xml 3; 0: not given */
    const struct lines *lines;   /* format of output or the command's input */
    const char *callback_listen; /* "HOST:PORT"; NULL: no callback */
    const char *callback_url;    /* NULL: as it listens */
    uint64_t count;              /* 0: no end */
    bool from_start;
    bool is_verbose;
    bool skips_bad; /* --skip-bad */
    struct td_limits limits;
    struct trust_files trust;
    unsigned key_lag_ms;
    struct td_follow_options how;
    struct td_filter *filters;
};

/* SEQ DATETIME CHANGE LOC */
static void
put_text(FILE *to, const struct td_change *change)
{
    const char *when = change->change ? change->datetime : change->lastmod;

    if (change->seq)
        fprintf(to, "%" PRIu64 " ", change->seq);
    else
        fputs("- ", to);
    fprintf(to, "%s %s %s", when ? when : "-",
            change->change ? change->change : "resource",
            change->loc ? change->loc : "-");
}

/* Writes the entry as it came, without newlines: JSON has them between tokens
 * alone, never inside strings. */
static void
put_entry(FILE *to, const struct td_change *change)
{
    const char *text = change->text;
    size_t left = change->text_size;

    while (left > 0) {
        const char *end = memchr(text, '\n', left);
        size_t size = end ? (size_t)(end - text) : left;

        fwrite_unlocked(text, 1, size, to);
        if (end)
            putc_unlocked(' ', to);
        size += end != NULL;
        text += size;
        left -= size;
    }
}

static const struct lines rows[] = {
    {"text", TD_JSON, put_text, "- - baseline-begin -\n",
     "- - baseline-end -\n"},
    {"json", TD_JSON, put_entry, "{\"baseline\":\"begin\"}\n",
     "{\"baseline\":\"end\"}\n"},
    {"xml", TD_XML, put_entry, "<!-- baseline-begin -->\n",
     "<!-- baseline-end -->\n"},
};

/* Sets the lines of a format. */
static void
follow_args_format(struct follow_args *args, unsigned format)
{
    args->lines = &rows[format - 1];
    args->how.form = args->lines->form;
}

/* Command line */

#define ROW_OF struct follow_args
#include "base/option_rows.h"

static const struct option option_rows[] = {
    {"after", "POSITION", LENT(how.after), NULL, "begin after this position"},
    {"from-start", NULL, FLAG(from_start), NULL,
     "begin at the beginning, or fail where that is no longer kept; else from "
     "now on"},
    {"as-far-back", NULL, SWITCH(how.as_far_back), NULL,
     "begin as far back as changes are kept"},
    {"since", "DATETIME", LENT(how.since), NULL,
     "begin with what happened later than that"},
    FILTER_ROWS,
    {"data", "no", .help = "no: entries without their data",
     .may_repeat = true},
    {"format", "text|json|xml", CHOICE(format, unsigned, 1), NULL,
     "what a line is; text, with --exec json"},
    {"exec", "COMMAND", LENT(command), NULL,
     "run this for each change instead"},
    {"state", "FILE", LENT(state), NULL, "keep the position there"},
    {"count", "N", COUNT(count, 1, 999999999999999999), NULL,
     "end after N changes"},
    {"until-caught-up", NULL, SWITCH(how.until_caught_up), NULL,
     "end when it has printed all changes that there are"},
    {"baseline", "no|gone|first",
     CHOICE(how.baseline, enum td_baseline, TD_NO_BASELINE), NULL,
     "all resources, where changes are gone; no"},
    {"transport", "websocket|events|longpoll|poll", .help = "this way alone",
     .may_repeat = true},
    {"poll", "SECONDS", PAUSE(how.poll_ms, 100, 86400000), NULL,
     "between two looks at lists; 60"},
    MAX_DELETE_ROW(how.max_delete_percent),
    ACCEPT_DELETIONS_ROW(how.accept_deletions),
    ACCEPT_HISTORY_ROW,
    TRUST_ROWS(trust),
    {"key-lag", "SECONDS", PAUSE(key_lag_ms, 0, 86400000), NULL,
     "with --key: hand a change over so long before it is signed; 0"},
    SKIP_BAD_ROW(skips_bad),
    LIMIT_ROWS(limits),
    {"callback-listen", "HOST:PORT", LENT(callback_listen), NULL,
     "get the changes from the source's hub (WebSub), at this address"},
    {"callback-url", "URL", LENT(callback_url), NULL,
     "where hubs reach that; http://HOST:PORT"},
    {"verbose", NULL, FLAG(is_verbose), NULL, "tell of lost connections"},
};

/* In the order of their bits, enum td_transport. */
static const char *const transports[] = {"websocket", "events", "longpoll",
                                         "poll"};

static const char *const filters[] = {"change", "prefix", "type", "tag",
                                      "data"};

/* Takes a filter or a transport. False: there is no such transport. */
static bool
take_given(const struct arguments *arguments, const struct given *given,
           struct follow_args *args)
{
    bool is_transport = is_given(arguments, given, "transport");

    for (unsigned i = 0; i < N_ELEMENTS(filters); i++)
        if (is_given(arguments, given, filters[i]))
            args->filters[args->how.n_filters++] =
                (struct td_filter){filters[i], given->value};
    for (unsigned i = 0; is_transport && i < N_ELEMENTS(transports); i++)
        if (!strcmp(transports[i], given->value)) {
            args->how.transports |= 1u << i;
            return true;
        }
    return !is_transport;
}

/* Prints mistakes of the command line. The caller frees args->filters. */
static enum exit_code
follow_args_read(struct follow_args *args, const struct arguments *arguments)
{
    struct td_follow_options *how = &args->how;

    if ((how->after != NULL) + args->from_start + how->as_far_back +
            (how->since != NULL) >
        1)
        return bad_usage("--after, --from-start, --as-far-back and --since "
                         "contradict each other");
    if (args->command && !args->command[0])
        return bad_usage("--exec needs a command");
    args->filters = calloc(arguments->n_given + 1, sizeof(*args->filters));
    if (!args->filters)
        return failed(NO_MEMORY);
    how->filters = args->filters;
    for (size_t i = 0; i < arguments->n_given; i++)
        if (!take_given(arguments, &arguments->given[i], args))
            return bad_usage(
                "--transport is websocket, events, longpoll or poll");
    for (size_t i = 0; i < arguments->n_given; i++)
        if (is_given(arguments, &arguments->given[i], "key-lag") &&
            !args->trust.keys)
            return bad_usage("--key-lag needs --key");
    if (args->key_lag_ms && args->count && args->state)
        return bad_usage("--key-lag, --count and --state contradict each "
                         "other: a position within a message has no digest");
    if (args->callback_url && !args->callback_listen)
        return bad_usage("--callback-url needs --callback-listen");
    if (args->callback_listen && how->transports)
        return bad_usage("--callback-listen and --transport contradict each "
                         "other");
    args->url = arguments->operands[0];
    if (args->from_start)
        how->after = "0";
    follow_args_format(args, args->format    ? args->format
                             : args->command ? 2
                                             : 1);
    return EXIT_GOOD;
}

static struct td_client *followed;

/*
 * The file of --state.
 *
 *     9f2c5b7d01e4a683-17          of one set: a line of text
 *     SQLite (td_position_save)    of several sets: a row for each
 *
 * FILE.digest has that position, too, with the digest there; if it has another
 * position, it does not count. The database has both in the row
 * (td_message_mark). Behind changes that are not signed yet (--key-lag) FILE has
 * the digest, too: then no crash between two files leaves a position without
 * the digest that the next checkpoint is compared with.
 *
 * If a source with one set gets more, its file becomes the other form. That set
 * keeps its listing, FILE.list; the others have FILE.list-HASH.
 */

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
    const char *path;                /* NULL: keeps nothing */
    struct db db;                    /* not open: a line of text */
    char position[TD_POSITION_SIZE]; /* of that line, and a digest; "": none */
    char digest[PATH_MAX + 8];       /* FILE.digest */
    char *set_url; /* the set of that position; NULL: unknown */
    bool has_line; /* it was there at the start */
};

static bool
fail_keeping(const struct follow_state *state, const char *why)
{
    return !failed("cannot keep positions in %s: %s", state->path, why);
}

static bool
open_db(struct follow_state *state, const char *path)
{
    struct problem why = {""};

    if (!db_open_kind(&state->db, &kind, path, &why))
        return true;
    return !failed("%s", why.text);
}

/* Prints why the last call of the library failed at the database. */
static bool
fail_db(struct follow_state *state)
{
    return fail_keeping(state, sqlite3_errmsg(state->db.handle));
}

/* Reads the line of state->path, and the digest there. */
static bool
read_line(struct follow_state *state)
{
    char mark[TD_POSITION_SIZE];
    size_t n;

    if (td_position_read(followed, state->path, state->position) ||
        td_position_read(followed, state->digest, mark))
        return !failed("%s", td_problem(followed));
    n = strlen(state->position);
    if (n && !strncmp(mark, state->position, n) && mark[n] == ' ')
        memcpy(state->position, mark, sizeof(mark));
    return true;
}

/* Opens state->path; NULL: keeps nothing. False: it has printed why. */
static bool
follow_state_open(struct follow_state *state)
{
    const char *path = state->path;
    const char *slash = path ? strrchr(path, '/') : NULL;
    char dir[PATH_MAX] = ".", begin[sizeof(magic)];
    FILE *file = path ? fopen(path, "re") : NULL;
    size_t size = file ? fread(begin, 1, sizeof(magic), file) : 0;

    if (file)
        fclose(file);
    if (!path)
        return true;
    snprintf(state->digest, sizeof(state->digest), "%s.digest", path);
    if (size == sizeof(magic) && !memcmp(begin, magic, sizeof(magic))) {
        if (!open_db(state, path))
            return false;
    } else if (!read_line(state)) {
        return false;
    }
    state->has_line = state->position[0] != '\0';
    if (slash)
        snprintf(dir, sizeof(dir), "%.*s",
                 slash == path ? 1 : (int)(slash - path), path);
    if (!access(dir, W_OK | X_OK))
        return true;
    /* Else the first line would be the first to fail. */
    return !failed("cannot write %s: %s", path, strerror(errno));
}

static void
follow_state_close(struct follow_state *state)
{
    db_close(&state->db);
    free(state->set_url);
}

/* Runs a statement with the URL of a set as its parameter. Sets `*is` if there
 * is a row. */
static bool
ask_first(struct follow_state *state, const char *sql, const char *set_url,
          bool *is)
{
    struct problem why = {""};

    if (!db_find(&state->db, NULL, &why, is, sql, DB_VALUES(set_url),
                 DB_INTO()))
        return true;
    return !failed("%s", why.text);
}

/* Turns the line into a row, in one step, as the source has several sets. */
static bool
become_db(struct follow_state *state, size_t n_sets)
{
    char path[PATH_MAX];
    bool is;

    if (state->has_line && !state->set_url)
        return !failed(
            "%s keeps the position of one set, and the source has %zu: give "
            "another file",
            state->path, n_sets);
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

/* Fills in the set's position, and the path of its listing. False: it failed,
 * and has printed why. */
static bool
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

struct follow {
    struct follow_args args;
    struct follow_state state;
    size_t n_sets;
    uint64_t n_done;
    bool has_left_out;    /* rows that cannot be used */
    bool is_away;         /* the source is; a message said so */
    bool is_held;         /* deletions are held back */
    enum exit_code code;  /* set by a callback that ends the run */
    enum td_status ended; /* at a hub: how it ended, and why */
    char why[1024];
};

/* How long hubs may take to answer the end of subscriptions. */
#define GOODBYE_MS 5000

/* Without --verbose, trouble with a shorter pause is not printed: usually the
 * connection is back by then. */
#define AWAY_MS 1000

/* Lines are written in blocks of this size, the rest of them at the end of each
 * message. */
#define OUTPUT_BYTES (256 * 1024)

/*
 * A command of the user's for each change: /bin/sh -c COMMAND.
 *
 * The command gets the change as a line on its standard input, and in the
 * environment: TIDINGS_SEQ, TIDINGS_CHANGE, TIDINGS_LOC, TIDINGS_DATETIME,
 * TIDINGS_POSITION, TIDINGS_MEMENTO; "" if there is none. The change is never
 * part of the command, so that no loc can make the shell run anything.
 */

extern char **environ;

#define N_VARIABLES 7

struct variable {
    const char *name, *value; /* NULL is "" */
};

static void
environment_free(char **environment)
{
    for (size_t i = 0; environment && i < N_VARIABLES; i++)
        free(environment[i]);
    free(environment);
}

/* Our own environment, with the variables in front; NULL: no memory. Not by
 * setenv, which never frees old values. */
static char **
environment_new(const struct variable variables[N_VARIABLES])
{
    size_t n = 0;
    char **all;

    while (environ[n])
        n++;
    all = calloc(N_VARIABLES + n + 1, sizeof(*all));
    if (!all)
        return NULL;
    for (size_t i = 0; i < N_VARIABLES; i++)
        if (asprintf(&all[i], "%s=%s", variables[i].name,
                     variables[i].value ? variables[i].value : "") < 0) {
            all[i] = NULL;
            environment_free(all);
            return NULL;
        }
    n = N_VARIABLES;
    for (size_t i = 0; environ[i]; i++) {
        struct slice rest = slice_of(environ[i]);
        struct slice name = slice_take(&rest, '=');
        size_t k = 0;

        while (k < N_VARIABLES && !slice_is(name, variables[k].name))
            k++;
        if (k == N_VARIABLES)
            all[n++] = environ[i];
    }
    return all;
}

/* Starts the shell with `input` as its standard input; -1: errno says why. We
 * ignore SIGPIPE, and the library blocks it; the command gets the default. */
static pid_t
start_command(const char *command, int input, char **environment)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, own;
    pid_t pid = -1;
    int rc;

    sigemptyset(&none);
    sigemptyset(&own);
    sigaddset(&own, SIGPIPE);
    sigaddset(&own, SIGINT);
    sigaddset(&own, SIGTERM);
    /* glibc: none of these fails. */
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &own);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    rc = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!rc)
        rc = posix_spawn(&pid, "/bin/sh", &actions, &attributes,
                         (char *const *)argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    errno = rc;
    return rc ? -1 : pid;
}

/* Runs the command, with `line` to read, and waits for its end. False: it
 * failed at `loc`; prints the reason, unless a signal ends the program
 * (signals_came). */
static bool
execute(const char *command, const struct variable variables[N_VARIABLES],
        struct slice line, const char *loc)
{
    char **environment = environment_new(variables);
    int ends[2];
    int status = 0;
    pid_t pid;

    if (!environment || pipe2(ends, O_CLOEXEC)) {
        say("cannot run the command: %s",
            environment ? strerror(errno) : NO_MEMORY);
        environment_free(environment);
        return false;
    }
    pid = start_command(command, ends[0], environment);
    if (pid < 0)
        say("cannot run /bin/sh: %s", strerror(errno));
    environment_free(environment);
    close(ends[0]);
    if (pid >= 0)
        (void)file_write(ends[1], line); /* it may leave some of it unread */
    close(ends[1]);
    if (pid < 0)
        return false;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) {
            status = -1;
            break;
        }
    if (status && !signals_came() && WIFSIGNALED(status))
        say("the command was ended by signal %d at %s", WTERMSIG(status), loc);
    else if (status && !signals_came())
        say("the command failed with status %d at %s",
            WIFEXITED(status) ? WEXITSTATUS(status) : -1, loc);
    return status == 0;
}

/* Messages */

/* Runs the action, then keeps the position: a crash between them repeats a
 * change and loses none. */
static bool
keep_place(struct follow *f, const struct td_message *message,
           const char *position)
{
    struct follow_state *state = &f->state;
    sqlite3 *db = state->db.handle;
    char kept[TD_POSITION_SIZE], mark[TD_POSITION_SIZE];

    td_message_mark(message, mark);
    if (!message->position || strcmp(position, message->position) != 0)
        snprintf(mark, sizeof(mark), "%s", position); /* within the message */
    if (message->is_unsigned && !strchr(mark, ' '))
        return true;
    if (!state->path || (db ? !td_position_load(db, message->set_url, kept) &&
                                  !strcmp(kept, mark)
                            : !strcmp(mark, state->position)))
        return true;
    if (db && td_position_save(db, message->set_url, mark)) {
        fail_db(state);
    } else if (!db &&
               (td_position_write(followed, state->path,
                                  message->is_unsigned ? mark : position) ||
                (strchr(mark, ' ') &&
                 td_position_write(followed, state->digest, mark)))) {
        say("%s", td_problem(followed));
    } else {
        memcpy(state->position, mark, sizeof(mark));
        return true;
    }
    f->code = EXIT_FAILED;
    return false;
}

/* The position after change `i`; "": only the whole message has one. */
static void
position_of(char to[TD_POSITION_SIZE], const struct td_message *message,
            size_t i)
{
    const char *all = message->position ? message->position : "";

    to[0] = '\0';
    if (i + 1 == message->n_changes)
        snprintf(to, TD_POSITION_SIZE, "%s", all);
    else if (message->changes[i].seq && all[0])
        position_write(to, all, message->changes[i].seq);
}

/* Runs the command for a change or, without one, for `what`. */
static bool
run_command(struct follow *f, const struct td_message *message,
            const struct td_change *change, const char *what,
            const char *position)
{
    const char *loc = what, *when = NULL, *memento = NULL;
    char seq[32] = "";
    char *line = NULL;
    size_t size = 0;
    FILE *to = change ? open_memstream(&line, &size) : NULL;
    bool is_good;

    if (change && !to) {
        f->code = failed(NO_MEMORY);
        return false;
    }
    if (change) {
        f->args.lines->change(to, change);
        fputc('\n', to);
        fclose(to);
        what = change->change ? change->change : "resource";
        loc = change->loc ? change->loc : what;
        when = change->change ? change->datetime : change->lastmod;
        /* The URL of this very version, while `loc` has the newest one
         * (R-423). */
        for (size_t i = change->n_links; i-- > 0;)
            if (!strcmp(change->links[i].rel, "memento"))
                memento = change->links[i].href;
        if (change->seq)
            snprintf(seq, sizeof(seq), "%" PRIu64, change->seq);
    }
    is_good = execute(f->args.command,
                      (const struct variable[N_VARIABLES]){
                          {"TIDINGS_SET", message->set_url},
                          {"TIDINGS_SEQ", seq},
                          {"TIDINGS_CHANGE", what},
                          {"TIDINGS_LOC", change ? change->loc : NULL},
                          {"TIDINGS_DATETIME", when},
                          {"TIDINGS_POSITION", position},
                          {"TIDINGS_MEMENTO", memento},
                      },
                      (struct slice){line, size}, loc);
    free(line);
    if (!is_good && !signals_came())
        f->code = EXIT_FAILED;
    return is_good;
}

static bool
do_change(struct follow *f, const struct td_message *message, size_t i)
{
    const struct td_change *change = &message->changes[i];
    char position[TD_POSITION_SIZE];

    if (!f->args.command) {
        f->args.lines->change(stdout, change);
        if (message->is_unsigned && f->args.lines->change == put_text)
            fputs(" (not signed yet)", stdout);
        putc_unlocked('\n', stdout);
        return true;
    }
    position_of(position, message, i);
    return run_command(f, message, change, NULL, position) &&
           (!position[0] || keep_place(f, message, position));
}

/* Prints, or runs the command for, the begin or end of a baseline. */
static bool
do_baseline(struct follow *f, const struct td_message *message)
{
    bool is_begin = message->kind == TD_BASELINE_BEGIN;

    if (is_begin)
        say("follow takes a baseline: %s", message->reason);
    if (f->args.command)
        return run_command(f, message, NULL,
                           is_begin ? "baseline-begin" : "baseline-end",
                           message->position);
    fputs(is_begin ? f->args.lines->begin : f->args.lines->end, stdout);
    return true;
}

static bool
is_enough(const struct follow *f)
{
    return f->args.count && f->n_done >= f->args.count;
}

/* Shows on a terminal how much of a list was read. */
static void
on_progress(uint64_t n_resources, void *user)
{
    (void)user;
    progress_show(&(struct progress_figures){
        .label = "reading the list", .unit = "resources", .done = n_resources});
}

static void
on_held(uint64_t n, uint64_t n_of, void *user)
{
    struct follow *f = user;

    say_held(n, n_of);
    f->is_held = n > 0;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct follow *f = user;

    if (f->args.is_verbose || !pause_ms)
        say_trouble(why, pause_ms, NULL);
    else if (!f->is_away && pause_ms >= AWAY_MS)
        say("%s; it is tried again", why);
    f->is_away |= pause_ms >= AWAY_MS;
}

static void
on_doubt(const char *why, void *user)
{
    (void)user;
    say("not known to be complete: %s", why);
}

static void
on_report(const struct td_report *report, void *user)
{
    struct follow *f = user;

    say_report(report);
    f->has_left_out |= report->n_left_out > 0;
}

static int
on_message(const struct td_message *message, void *user)
{
    struct follow *f = user;
    char position[TD_POSITION_SIZE] = "";
    size_t i = 0;

    progress_clear();
    if (f->is_away)
        say("the source is back");
    f->is_away = false;
    if (message->kind == TD_BASELINE_BEGIN || message->kind == TD_BASELINE_END)
        if (!do_baseline(f, message))
            return 1;
    for (; i < message->n_changes && !is_enough(f); i++) {
        if (!do_change(f, message, i))
            return 1;
        f->n_done++;
    }
    /* An earlier failure shows in ferror alone. */
    if (!f->args.command && (fflush(stdout) || ferror(stdout))) {
        f->code = cannot_write(errno);
        return 1;
    }
    if (i)
        position_of(position, message, i - 1);
    else if (message->position)
        snprintf(position, sizeof(position), "%s", message->position);
    if (position[0] && !keep_place(f, message, position))
        return 1;
    return is_enough(f);
}

/* Notes the number of sets, and fills in the position to follow this one from.
 */
static int
on_start(struct td_start *start, void *user)
{
    struct follow *f = user;

    if (start->n_sets > f->n_sets)
        f->n_sets = start->n_sets;
    if (follow_state_start(&f->state, start))
        return 0;
    f->code = EXIT_FAILED;
    return 1;
}

/* Prints a line for each set that cannot be followed. */
static void
on_missed(const char *url, const char *why, void *user)
{
    struct follow *f = user;

    f->n_sets += f->n_sets == 1; /* there is more than that one */
    if (strstr(why, url))
        say("%s", why);
    else
        say("%s: %s", url, why);
}

static void
on_end(enum td_status rc, const char *why, void *user)
{
    struct follow *f = user;

    f->ended = rc;
    snprintf(f->why, sizeof(f->why), "%s", why);
}

/* Follows one set by the deliveries of a hub. */
static enum exit_code
follow_at_callback(struct follow *f)
{
    struct td_start start = {.set_url = f->args.url, .n_sets = 1};
    struct td_follow_options *how = &f->args.how;
    struct td_callback *callback = NULL;
    struct td_follower *follower = NULL;
    enum exit_code code;

    if (!follow_state_start(&f->state, &start))
        return EXIT_FAILED;
    how->listing = start.listing[0] ? start.listing : NULL;
    if (start.after[0]) {
        how->after = start.after;
        how->since = NULL;
    }
    how->on_end = on_end;
    /* Text is made of the parts, which XML has as well; then the delivery is
     * printed as it is, without a request. */
    if (!strcmp(f->args.lines->name, "text"))
        how->form = TD_XML;

    code = exit_of(followed, td_callback_open(followed, f->args.callback_listen,
                                              f->args.callback_url, &callback));
    if (!code)
        code = exit_of(followed, td_callback_follow(callback, f->args.url, how,
                                                    on_message, f, &follower));
    if (!code) {
        /* Until the callback ends by itself, or td_stop. */
        enum td_status rc = td_run(followed);

        code = rc && rc != TD_STOPPED ? exit_of(followed, rc)
                                      : exit_for(f->ended, "", f->why);
        td_follower_close(follower);
        td_callback_settle(callback, GOODBYE_MS);
    }
    td_callback_close(callback);
    return code;
}

/* Follows the sets of args->url, and prints a line for each change or runs its
 * command, to the end that `args` asks for. Keeps a handle, which later calls
 * use, until the process ends. */
static enum exit_code
follow_changes(const struct follow_args *args,
               const struct arguments *arguments)
{
    struct follow f = {.args = *args, .n_sets = 1, .state.path = args->state};
    struct td_source_options options = {.on_start = on_start,
                                        .on_missed = on_missed};
    enum exit_code code = EXIT_GOOD;

    if (!followed)
        followed = open_client(arguments, args->url, NULL, &code);
    if (!code)
        code = trust_files_follow(&args->trust, followed, args->state);
    if (!code && !follow_state_open(&f.state))
        code = EXIT_FAILED;
    if (code) {
        follow_state_close(&f.state);
        return code;
    }
    td_limit(followed, &args->limits);
    td_key_lag(followed, args->key_lag_ms);
    f.args.how.on_trouble = on_trouble;
    f.args.how.on_progress = on_progress;
    f.args.how.on_held = on_held;
    f.args.how.on_doubt = on_doubt;
    f.args.how.on_report = on_report;
    progress_begin(true);
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, NULL, _IOFBF, OUTPUT_BYTES);
    signals_stop_client(followed);
    signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe fails */
    options.follow = f.args.how;
    if (args->callback_listen)
        code = follow_at_callback(&f);
    else
        code = exit_of(followed, td_follow_source(followed, args->url, &options,
                                                  on_message, &f));
    if (code == EXIT_GONE && f.n_sets > 1)
        code = EXIT_FAILED;
    progress_clear();
    follow_state_close(&f.state);
    if (!code && args->how.until_caught_up) {
        if (f.has_left_out && !args->skips_bad)
            code = left_out_code();
        else if (f.is_held)
            code = EXIT_FAILED;
    }
    /* Keeps the handle until the process ends: a signal may still come. */
    return code ? code : f.code;
}

static enum exit_code
run_follow(const struct arguments *arguments)
{
    struct follow_args *args = arguments->values;
    enum exit_code code = follow_args_read(args, arguments);

    if (!code)
        code = follow_changes(args, arguments);
    if (code == EXIT_GONE && args->how.baseline == TD_NO_BASELINE)
        say("--baseline gone prints all resources of the source, and continues "
            "from there");
    free(args->filters);
    return code;
}

const struct command follow_command = {
    .name = "follow",
    .operands = "SET-URL|SOURCE-URL",
    .help = "Prints a line for each change, those missed first, then each new "
            "one.",
    .more =
        "A line is SEQ DATETIME CHANGE LOC (text), the entry's JSON object, "
        "or its <url> with the namespaces rs and td undeclared. It goes on "
        "until it is interrupted (exit status 0); while the source is away it "
        "tries again. With --state the position is kept after each message's "
        "lines are written, and read at the start if FILE is there: then "
        "--after, --from-start, --as-far-back and --since mean the first "
        "start only. A crash may repeat lines, it loses none.\n\n"
        "Changes of a source that does not number them are found by their "
        "order in its Change Lists, whatever their times are; with --state "
        "FILE.list-read notes the lists that were read. Where the source has "
        "lost changes, or has written a list anew so that nobody can tell "
        "new changes from old ones, a line on standard error says that it is "
        "not "
        "known to be complete.\n\n"
        "--until-caught-up fails (exit status 1) when nothing new comes for a "
        "minute.\n\n"
        "--change, --prefix, --type and --tag may be given several times: one "
        "of those of a name must hold, of each name. What does not pass is "
        "not printed, nothing is missed by it. With --data no the data of "
        "changes is left out, and all else stays.\n\n"
        "--exec runs /bin/sh -c COMMAND for each change, one after the other, "
        "with the line as standard input and TIDINGS_SET, TIDINGS_SEQ, "
        "TIDINGS_CHANGE, TIDINGS_LOC, TIDINGS_DATETIME, TIDINGS_POSITION and "
        "TIDINGS_MEMENTO (where the source keeps this version) in the "
        "environment. If it fails, so does follow (exit status 1), and "
        "--state says the position before that change, so that it is run "
        "again; after a crash, too: each change at least once.\n\n"
        "A source with only a Resource List, Sitemap or Resource Dump is "
        "followed by the differences of that list, read every --poll seconds; "
        "--state keeps the last one in FILE.list. When it lacks 100 resources "
        "or more, and more than 20 %, their deletions are held back: each look "
        "prints their number, and --until-caught-up ends with 1. Look whether "
        "that is right, then give --accept-deletions with that number.\n\n"
        "A list that is too large, or has no end, ends it with 1: N "
        "resources, or BYTES (500M, 2G or none) that stay free of the disks "
        "of FILE and of temporary files.\n\n"
        "All sets of a SOURCE-URL's source are followed, by one connection if "
        "the broker has one for many sets; else 100 are streamed, the others "
        "asked every --poll seconds. FILE is a database then (SQLite), with a "
        "position for each. A set that cannot be followed is one line on "
        "standard error, and in the end exit status 1. --after and "
        "--callback-listen need one set. --transport may be given several "
        "times.\n\n"
        "It prints rows of a list that cannot be used on standard error, and "
        "with --until-caught-up it then ends with 1, or with 0 if --skip-bad "
        "is given.\n\n"
        "With --baseline the resources come as lines without a change, "
        "between baseline-begin and baseline-end: what was known before is "
        "void.\n\n"
        "With --callback-listen the changes come from the source's hub (W3C "
        "WebSub) to a server in this program, and what it misses is asked "
        "for; --poll is then how often that is done in any case (600). Hubs "
        "reach it at --callback-url, which may be a proxy that adds TLS.\n",
    .examples = "tidings follow http://localhost:8787/sets/news --from-start\n"
                "tidings follow http://localhost:8787/sets/news --format json "
                "--count 1\n"
                "tidings follow https://example.org/sitemap.xml --state "
                "~/.example.state\n",
    .options = OPTION_ROWS(option_rows),
    .run = run_follow,
};

/*
 * tidings tail: the last changes of a set.
 *
 *     GET SET-URL --> epoch, last, earliest --> td_follow behind LAST - N
 */

struct tail {
    unsigned count;
    bool goes_on;
    unsigned format; /* of struct follow_args */
};

#undef ROW_OF
#define ROW_OF struct tail

static const struct option tail_rows[] = {
    {"count", "N", NUMBER(count, 1, 1000000000), "10",
     "how many changes at most"},
    {"follow", NULL, FLAG(goes_on), NULL, "then each new change"},
    {"format", "text|json|xml", CHOICE(format, unsigned, 1), "text",
     "what a line is"},
};

/* Retention may drop the first changes after this has looked: it looks again.
 * Those already printed are then gone, so none comes twice. */
#define TRIES 3

/* Sets `after` to the position before the last `n` changes, as far as the set
 * retains them, and *n to their number. */
static void
read_start(struct broker_call *call, uint64_t *n, char after[TD_POSITION_SIZE])
{
    char earliest[TD_POSITION_SIZE], position[TD_POSITION_SIZE];
    struct slice set = buf_slice(&call->json);
    struct position oldest, last;

    if (call->code)
        return;
    plain_json_text(set, "position", position, sizeof(position));
    plain_json_text(set, "earliest", earliest, sizeof(earliest));
    if (position_read(slice_of(position), &last) ||
        position_read(slice_of(earliest), &oldest) || oldest.seq > last.seq) {
        call->code = failed("%s is not a set of a Tidings broker", call->url);
        return;
    }
    if (*n > last.seq - oldest.seq)
        *n = last.seq - oldest.seq;
    position_write(after, last.epoch, last.seq - *n);
}

static enum exit_code
run_tail(const struct arguments *arguments)
{
    const struct tail *tail = arguments->values;
    struct follow_args args = {.url = arguments->operands[0]};
    enum exit_code code = EXIT_GONE;

    follow_args_format(&args, tail->format);
    for (int i = 0; i < TRIES && code == EXIT_GONE; i++) {
        char after[TD_POSITION_SIZE];
        struct broker_call call;
        uint64_t n = tail->count;

        broker_call_begin(&call, arguments, args.url, "");
        broker_call_send(&call, "GET");
        read_start(&call, &n, after);
        code = broker_call_end(&call);
        if (code || (!n && !tail->goes_on))
            return code;
        args.how.after = after;
        args.count = tail->goes_on ? 0 : n;
        code = follow_changes(&args, arguments);
    }
    return code;
}

const struct command tail_command = {
    .name = "tail",
    .operands = "SET-URL",
    .help = "Prints the last changes of a set, and with --follow each new one.",
    .more = "Prints the same lines as tidings follow. Prints fewer than N if "
            "the set has fewer, or retains fewer. With --follow it goes on "
            "until it is interrupted; while the broker is away it tries again.",
    .examples = "tidings tail http://127.0.0.1:8787/sets/demo --count 3\n"
                "tidings tail http://127.0.0.1:8787/sets/demo --follow\n",
    .options = OPTION_ROWS(tail_rows),
    .run = run_tail,
};
