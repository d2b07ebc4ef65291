/*
 * follow.c - tidings follow, tail: a line, or a command, for each change.
 */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/cli/follow_state.h"
#include "client/cli/progress.h"
#include "client/tidings.h"
#include "proto/number.h"

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
    struct td_follow_options how;
    struct td_filter *filters;
};

static const char *
or_none(const char *text)
{
    return text ? text : "-";
}

/* SEQ DATETIME CHANGE LOC */
static void
put_text(FILE *to, const struct td_change *change)
{
    if (change->seq)
        fprintf(to, "%llu ", (unsigned long long)change->seq);
    else
        fputs("- ", to);
    fprintf(to, "%s %s %s",
            or_none(change->change ? change->datetime : change->lastmod),
            change->change ? change->change : "resource", or_none(change->loc));
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
        if (!end)
            break;
        putc_unlocked(' ', to);
        text = end + 1;
        left -= size + 1;
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
    {"change", "created|updated|deleted", .help = "only these",
     .may_repeat = true},
    {"prefix", "URL", .help = "only of resources that begin so",
     .may_repeat = true},
    {"type", "TYPE", .help = "only of this media type, or of TYPE/*",
     .may_repeat = true},
    {"tag", "TAG", .help = "only with this tag", .may_repeat = true},
    {"format", "text|json|xml", CHOICE(format, unsigned, 1), NULL,
     "what a line is; text, with --exec json"},
    {"exec", "COMMAND", LENT(command), NULL,
     "run this for each change instead"},
    {"state", "FILE", LENT(state), NULL, "keep the position there"},
    {"count", "N", COUNT(count, 1, 999999999999999999), NULL,
     "end after N changes"},
    {"until-caught-up", NULL, SWITCH(how.until_caught_up), NULL,
     "end when all is told that there was"},
    {"baseline", "no|gone|first",
     CHOICE(how.baseline, enum td_baseline, TD_NO_BASELINE), NULL,
     "all resources, where changes are gone; no"},
    {"transport", "websocket|events|longpoll|poll", .help = "this way alone",
     .may_repeat = true},
    {"poll", "SECONDS", PAUSE(how.poll_ms, 100, 86400000), NULL,
     "between two looks at lists; 60"},
    MAX_DELETE_ROW(how.max_delete_percent),
    ACCEPT_DELETIONS_ROW(how.accept_deletions),
    SKIP_BAD_ROW(skips_bad),
    LIMIT_ROWS(limits),
    {"callback-listen", "HOST:PORT", LENT(callback_listen), NULL,
     "be told by the source's hub (WebSub), there"},
    {"callback-url", "URL", LENT(callback_url), NULL,
     "where hubs reach that; http://HOST:PORT"},
    {"verbose", NULL, FLAG(is_verbose), NULL, "tell of lost connections"},
};

/* In the order of their bits, enum td_transport. */
static const char *const transports[] = {"websocket", "events", "longpoll",
                                         "poll"};

static const char *const filters[] = {"change", "prefix", "type", "tag"};

#define N_WORDS 4

/* Takes a filter or a transport. False: there is no such transport. */
static bool
take_given(const struct arguments *arguments, const struct given *given,
           struct follow_args *args)
{
    bool is_transport = is_given(arguments, given, "transport");

    for (unsigned i = 0; i < N_WORDS; i++)
        if (is_given(arguments, given, filters[i])) {
            args->filters[args->how.n_filters++] =
                (struct td_filter){filters[i], given->value};
        } else if (is_transport && !strcmp(transports[i], given->value)) {
            args->how.transports |= 1u << i;
            return true;
        }
    return !is_transport;
}

/* Takes what may be repeated. */
static enum exit_code
take_repeated(const struct arguments *arguments, struct follow_args *args)
{
    args->filters = calloc(arguments->n_given + 1, sizeof(*args->filters));
    if (!args->filters)
        return failed(NO_MEMORY);
    args->how.filters = args->filters;
    for (size_t i = 0; i < arguments->n_given; i++)
        if (!take_given(arguments, &arguments->given[i], args))
            return bad_usage(
                "--transport is websocket, events, longpoll or poll");
    return EXIT_GOOD;
}

/* Prints mistakes of the command line. The caller frees args->filters. */
static enum exit_code
follow_args_read(struct follow_args *args, const struct arguments *arguments)
{
    struct td_follow_options *how = &args->how;
    enum exit_code code;

    if ((how->after != NULL) + args->from_start + how->as_far_back +
            (how->since != NULL) >
        1)
        return bad_usage("--after, --from-start, --as-far-back and --since "
                         "contradict each other");
    if (args->command && !args->command[0])
        return bad_usage("--exec needs a command");
    code = take_repeated(arguments, args);
    if (code)
        return code;
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

struct follow {
    struct follow_args args;
    struct follow_state *state;
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

static struct td_client *followed;

/*
 * A command of the user's for each change: /bin/sh -c COMMAND.
 *
 * The command gets the change as a line on its standard input, and in the
 * environment: TIDINGS_SEQ, TIDINGS_CHANGE, TIDINGS_LOC, TIDINGS_DATETIME,
 * TIDINGS_POSITION, TIDINGS_MEMENTO; "" if there is none. The change is never
 * part of the command, so that no loc can make the shell run anything.
 */

struct execution {
    const char *command;
    const char *set; /* URL */
    const char *seq; /* NULL: none */
    const char *change;
    const char *loc;
    const char *datetime;
    const char *position;
    const char *memento; /* URL of this very version */
    const char *line;    /* with its newline; "": nothing to read */
    size_t size;
};

extern char **environ;

/* The environment variables of a command. */
static const struct variable {
    const char *name;
    size_t at; /* of its value, in struct execution */
} variables[] = {
    {"TIDINGS_SET", offsetof(struct execution, set)},
    {"TIDINGS_SEQ", offsetof(struct execution, seq)},
    {"TIDINGS_CHANGE", offsetof(struct execution, change)},
    {"TIDINGS_LOC", offsetof(struct execution, loc)},
    {"TIDINGS_DATETIME", offsetof(struct execution, datetime)},
    {"TIDINGS_POSITION", offsetof(struct execution, position)},
    {"TIDINGS_MEMENTO", offsetof(struct execution, memento)},
};

static bool
is_variable(const char *assignment)
{
    for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
        size_t size = strlen(variables[i].name);

        if (!strncmp(assignment, variables[i].name, size) &&
            assignment[size] == '=')
            return true;
    }
    return false;
}

static void
environment_free(char **environment)
{
    for (size_t i = 0; environment && i < N_ELEMENTS(variables); i++)
        free(environment[i]);
    free(environment);
}

/* Our own environment, with the variables in front; NULL: no memory. Not by
 * setenv, which never frees old values. */
static char **
environment_new(const struct execution *e)
{
    size_t n = 0;
    char **all;

    while (environ[n])
        n++;
    all = calloc(N_ELEMENTS(variables) + n + 1, sizeof(*all));
    if (!all)
        return NULL;
    for (size_t i = 0; i < N_ELEMENTS(variables); i++) {
        const char *value;

        memcpy(&value, (const char *)e + variables[i].at, sizeof(value));
        if (asprintf(&all[i], "%s=%s", variables[i].name, value ? value : "") <
            0) {
            all[i] = NULL;
            environment_free(all);
            return NULL;
        }
    }
    n = N_ELEMENTS(variables);
    for (size_t i = 0; environ[i]; i++)
        if (!is_variable(environ[i]))
            all[n++] = environ[i];
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

/* Writes the input; a command may leave some or all of it unread. */
static void
write_input(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t n = write(fd, text, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        text += n;
        size -= (size_t)n;
    }
}

static int
await_command(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* Runs it and waits for its end. False: it failed; prints the reason, unless a
 * signal ends the program (signals_came). */
static bool
execute(const struct execution *e)
{
    const char *loc = e->loc ? e->loc : e->change;
    char **environment = environment_new(e);
    int ends[2];
    int status;
    pid_t pid;

    if (!environment || pipe2(ends, O_CLOEXEC)) {
        say("cannot run the command: %s",
            environment ? strerror(errno) : NO_MEMORY);
        environment_free(environment);
        return false;
    }
    pid = start_command(e->command, ends[0], environment);
    if (pid < 0)
        say("cannot run /bin/sh: %s", strerror(errno));
    environment_free(environment);
    close(ends[0]);
    if (pid >= 0)
        write_input(ends[1], e->line, e->size);
    close(ends[1]);
    if (pid < 0)
        return false;
    status = await_command(pid);
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
    if (follow_state_keep(f->state, message->set_url, position))
        return true;
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
        snprintf(to, TD_POSITION_SIZE, "%.*s-%llu", (int)strcspn(all, "-"), all,
                 (unsigned long long)message->changes[i].seq);
}

/* Where this very version of the resource is kept, while `loc` has the newest
 * one; NULL: the source does not say. */
static const char *
memento_of(const struct td_change *change)
{
    for (size_t i = 0; i < change->n_links; i++)
        if (!strcmp(change->links[i].rel, "memento"))
            return change->links[i].href;
    return NULL;
}

/* Runs the command for a change or, without one, for `what`. */
static bool
run_command(struct follow *f, const struct td_message *message,
            const struct td_change *change, const char *what,
            const char *position)
{
    struct execution e = {.command = f->args.command,
                          .set = message->set_url,
                          .change = what,
                          .position = position,
                          .line = ""};
    char seq[32];
    char *line = NULL;
    FILE *to = change ? open_memstream(&line, &e.size) : NULL;
    bool is_good;

    if (change && !to) {
        f->code = failed(NO_MEMORY);
        return false;
    }
    if (change) {
        f->args.lines->change(to, change);
        fputc('\n', to);
        fclose(to);
        e.line = line ? line : "";
        e.change = change->change ? change->change : "resource";
        e.loc = change->loc;
        e.memento = memento_of(change);
        e.datetime = change->change ? change->datetime : change->lastmod;
        snprintf(seq, sizeof(seq), "%llu", (unsigned long long)change->seq);
        e.seq = change->seq ? seq : NULL;
    }
    is_good = execute(&e);
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
        say("a baseline is taken: %s", message->reason);
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

    if (f->args.is_verbose)
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
    if (follow_state_start(f->state, start))
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

/* Runs until the callback ends by itself, or td_stop. */
static enum exit_code
await_end(const struct follow *f)
{
    enum td_status rc = td_run(followed);

    if (rc && rc != TD_STOPPED)
        return exit_of(followed, rc);
    return exit_for(f->ended, "", f->why);
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

    if (!follow_state_start(f->state, &start))
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
        code = await_end(f);
        td_follower_close(follower);
        td_callback_settle(callback, GOODBYE_MS);
    }
    td_callback_close(callback);
    return code;
}

static enum exit_code
follow_all(struct follow *f)
{
    const struct td_source_options options = {
        .follow = f->args.how, .on_start = on_start, .on_missed = on_missed};
    enum exit_code code =
        exit_of(followed, td_follow_source(followed, f->args.url, &options,
                                           on_message, f));

    return code == EXIT_GONE && f->n_sets > 1 ? EXIT_FAILED : code;
}

/* Follows the sets of args->url, and prints a line for each change or runs its
 * command, to the end that `args` asks for. Keeps a handle, which later calls
 * use, until the process ends. */
static enum exit_code
follow_changes(const struct follow_args *args,
               const struct arguments *arguments)
{
    struct follow f = {.args = *args, .code = EXIT_GOOD, .n_sets = 1};
    enum exit_code code = EXIT_GOOD;

    if (!followed)
        followed = open_client(arguments, args->url, &code);
    if (!code && !(f.state = follow_state_open(followed, args->state)))
        code = EXIT_FAILED;
    if (code)
        return code;
    td_limit(followed, &args->limits);
    f.args.how.on_trouble = on_trouble;
    f.args.how.on_progress = on_progress;
    f.args.how.on_held = on_held;
    f.args.how.on_doubt = on_doubt;
    f.args.how.on_report = on_report;
    progress_begin(true);
    if (!isatty(STDOUT_FILENO))
        setvbuf(stdout, NULL, _IOFBF, OUTPUT_BYTES);
    signals_stop_client(followed);
    signals_ignore_pipe();
    code = args->callback_listen ? follow_at_callback(&f) : follow_all(&f);
    progress_clear();
    follow_state_close(f.state);
    if (!code && f.has_left_out && args->how.until_caught_up &&
        !args->skips_bad)
        code = left_out_code();
    /* Keeps the handle until the process ends: a signal may still come. */
    if (!code && f.is_held && f.args.how.until_caught_up)
        code = EXIT_FAILED;
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
        "A line is SEQ DATETIME CHANGE LOC (text), the entry's JSON object, or "
        "its <url> with the namespaces rs and td undeclared. It goes on until "
        "it is interrupted (exit status 0); while the source is away it tries "
        "again. With --state the position is kept after each message's lines "
        "are written, and read at the start if FILE is there: then --after, "
        "--from-start, --as-far-back and --since mean the first start only. A "
        "crash may repeat lines, it loses none.\n"
        "\n"
        "Changes of a source that does not number them are found by their "
        "order in its Change Lists, whatever their times are; with --state "
        "FILE.list-read notes the lists that were read. Where the source has "
        "lost changes, or has written a list anew so that new changes cannot "
        "be told from old ones, a line on standard error says that it is not "
        "known to be complete.\n"
        "\n"
        "--until-caught-up fails (exit status 1) when nothing new comes for a "
        "minute.\n"
        "\n"
        "--change, --prefix, --type and --tag may be given several times: one "
        "of those of a name must hold, of each name. What does not pass is not "
        "printed, nothing is missed by it.\n"
        "\n"
        "--exec runs /bin/sh -c COMMAND for each change, one after the other, "
        "with the line as standard input and TIDINGS_SET, TIDINGS_SEQ, "
        "TIDINGS_CHANGE, TIDINGS_LOC, TIDINGS_DATETIME, TIDINGS_POSITION and "
        "TIDINGS_MEMENTO (where the source keeps this version) in the "
        "environment. If it fails, so does follow (exit status 1), and "
        "--state says the position before that change, so that it is run "
        "again; after a crash, too: each change at least once.\n"
        "\n"
        "A source with only a Resource List or a Sitemap is followed by the "
        "differences of that list, read every --poll seconds; --state keeps "
        "the last one in FILE.list. When it lacks 100 resources or more, and "
        "more than 20 %, their deletions are held back: each look tells their "
        "number, and --until-caught-up ends with 1. Look whether that is "
        "right, then give --accept-deletions with that number.\n"
        "\n"
        "A list that is too large, or has no end, ends it with 1: N resources, "
        "or BYTES (500M, 2G or none) that stay free of the disks of FILE and "
        "of temporary files.\n"
        "\n"
        "All sets of a SOURCE-URL's source are followed, by one connection if "
        "the broker has one for many sets; else 100 are streamed, the others "
        "asked every --poll seconds. FILE is a database then (SQLite), with a "
        "position for each. A set that cannot be followed is one line on "
        "standard error, and in the end exit status 1. --after and "
        "--callback-listen need one set. --transport may be given several "
        "times.\n"
        "\n"
        "Rows of a list that cannot be used are told on standard error; with "
        "--until-caught-up they end it with 1, or with 0 if --skip-bad is "
        "given.\n"
        "\n"
        "With --baseline the resources come as lines without a change, between "
        "baseline-begin and baseline-end: what was known before is void.\n"
        "\n"
        "With --callback-listen the changes come from the source's hub (W3C "
        "WebSub) to a server in this program, and what it misses is asked for; "
        "--poll is then how often that is done in any case (600). Hubs reach "
        "it at --callback-url, which may be a proxy that adds TLS.\n",
    .examples = "tidings follow http://localhost:8787/sets/news --from-start\n"
                "tidings follow http://localhost:8787/sets/news --format json "
                "--count 1\n"
                "tidings follow https://example.org/sitemap.xml --state "
                "~/.example.state\n",
    .options = OPTIONS(option_rows),
    .size = sizeof(struct follow_args),
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

/* Reads the number behind the last "-" of a position. */
static bool
read_seq(const char *position, uint64_t *seq)
{
    const char *number = strrchr(position, '-');

    return number && number_read(slice_of(number + 1), seq);
}

/* Sets `after` to the position before the last `n` changes, as far as the set
 * retains them, and *n to their number. */
static void
read_start(struct broker_call *call, uint64_t *n, char after[TD_POSITION_SIZE])
{
    char earliest[TD_POSITION_SIZE], position[TD_POSITION_SIZE];
    struct slice set = buf_slice(&call->json);
    uint64_t oldest, last, start;

    if (call->code)
        return;
    plain_json_text(set, "position", position, sizeof(position));
    plain_json_text(set, "earliest", earliest, sizeof(earliest));
    if (!read_seq(position, &last) || !read_seq(earliest, &oldest) ||
        oldest > last) {
        call->code = failed("%s is not a set of a Tidings broker", call->url);
        return;
    }
    start = last - oldest > *n ? last - *n : oldest;
    *n = last - start;
    snprintf(after, TD_POSITION_SIZE, "%.*s-%" PRIu64,
             (int)(strrchr(position, '-') - position), position, start);
}

/* The same, of the set at `url`. */
static enum exit_code
find_start(const struct arguments *arguments, const char *url, uint64_t *n,
           char after[TD_POSITION_SIZE])
{
    struct broker_call call;

    broker_call_begin(&call, arguments, url, "%s", "");
    broker_call_send(&call, "GET");
    read_start(&call, n, after);
    return broker_call_end(&call);
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
        uint64_t n = tail->count;

        code = find_start(arguments, args.url, &n, after);
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
    .options = OPTIONS(tail_rows),
    .size = sizeof(struct tail),
    .run = run_tail,
};
