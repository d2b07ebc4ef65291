/*
 * follow.c - tidings follow: a line, or a command, for each change.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/change_lines.h"
#include "client/cli/cli.h"
#include "client/cli/follow_arguments.h"
#include "client/cli/follow_callback.h"
#include "client/cli/follow_state.h"
#include "client/cli/run_command.h"
#include "client/cli/signals.h"

struct follow {
    struct follow_args args;
    struct follow_state *state;
    size_t n_sets;
    unsigned long long n_done;
    bool is_away;        /* the source is; a message said so */
    bool is_drawn;       /* a line of progress, on a terminal */
    enum exit_code code; /* set by a callback that ends the run */
};

/* Without --verbose, trouble with a shorter pause is not printed: usually the
 * connection is back by then. */
#define AWAY_MS 1000

static struct td_client *followed;

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
        say(NO_MEMORY);
        f->code = EXIT_FAILED;
        return false;
    }
    if (change) {
        f->args.lines->change(to, change);
        fputc('\n', to);
        fclose(to);
        e.line = line ? line : "";
        e.change = change->change ? change->change : "resource";
        e.loc = change->loc;
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
        putchar('\n');
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
    struct follow *f = user;

    fprintf(stderr, "\rreading the list: %llu resources\033[K",
            (unsigned long long)n_resources);
    f->is_drawn = true;
}

static void
clear_progress(struct follow *f)
{
    if (f->is_drawn)
        fputs("\r\033[K", stderr);
    f->is_drawn = false;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    struct follow *f = user;

    clear_progress(f);
    if (f->args.is_verbose)
        say("%s; again in %.1f s", why, pause_ms / 1000.0);
    else if (!f->is_away && pause_ms >= AWAY_MS)
        say("%s; it is tried again", why);
    f->is_away |= pause_ms >= AWAY_MS;
}

static void
be_back(struct follow *f)
{
    if (f->is_away)
        say("the source is back");
    f->is_away = false;
}

static int
on_message(const struct td_message *message, void *user)
{
    struct follow *f = user;
    char position[TD_POSITION_SIZE] = "";
    size_t i = 0;

    clear_progress(f);
    be_back(f);
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

    clear_progress(f);
    f->n_sets += f->n_sets == 1; /* there is more than that one */
    if (strstr(why, url))
        say("%s", why);
    else
        say("%s: %s", url, why);
}

/* Follows one set by a hub. */
static enum exit_code
follow_one(struct follow *f)
{
    struct td_start start = {.set_url = f->args.url, .n_sets = 1};

    if (!follow_state_start(f->state, &start))
        return EXIT_FAILED;
    f->args.how.listing = start.listing[0] ? start.listing : NULL;
    if (start.after[0]) {
        f->args.how.after = start.after;
        f->args.how.since = NULL;
    }
    return follow_at_callback(followed, &f->args, on_message, f);
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

static enum exit_code
run_follow(const struct arguments *arguments)
{
    struct follow f = {.code = EXIT_GOOD, .n_sets = 1};
    enum exit_code code = follow_args_read(&f.args, arguments);

    if (!code)
        followed = open_client(arguments, f.args.url, &code);
    if (!code && !(f.state = follow_state_open(followed, f.args.state)))
        code = EXIT_FAILED;
    if (code)
        goto out;
    f.args.how.on_trouble = on_trouble;
    if (isatty(STDERR_FILENO))
        f.args.how.on_progress = on_progress;
    signals_stop_client(followed);
    signals_ignore_pipe();
    code = f.args.callback_listen ? follow_one(&f) : follow_all(&f);
    clear_progress(&f);
    if (code == EXIT_GOOD)
        code = f.code;
    if (code == EXIT_GONE && f.args.how.baseline == TD_NO_BASELINE)
        say("--baseline gone prints all resources of the source, and continues "
            "from there");

    /* Keeps the handle until the process ends: a signal may still come. */
out:
    follow_state_close(f.state);
    follow_args_fini(&f.args);
    return code;
}

const struct command follow_command = {
    .name = "follow",
    .operands = "SET-URL|SOURCE-URL [--from-start] [--state FILE] ...",
    .help = "Prints a line for each change, those missed first, then each new "
            "one.",
    .more =
        "A line is SEQ DATETIME CHANGE LOC (text), the entry's JSON "
        "object, or its\n<url> with the namespaces rs and td undeclared. "
        "It goes on until it is\ninterrupted (exit status 0); while the "
        "source is away it tries again.\nWith --state the position is "
        "kept after each message's lines are written,\nand read at the "
        "start if FILE is there: then --after, --from-start and\n"
        "--since mean the first start only. A crash may repeat lines, it "
        "loses none.\n"
        "--until-caught-up fails (exit status 1) when nothing new comes for a "
        "minute.\n"
        "--change, --prefix, --type and --tag may be given several times: "
        "one of those of\na name must hold, of each name. What does not "
        "pass is not printed, nothing is\nmissed by it.\n\n"
        "--exec runs /bin/sh -c COMMAND for each change, one after the other, "
        "with the\nline as standard input and TIDINGS_SET, TIDINGS_SEQ, "
        "TIDINGS_CHANGE,\nTIDINGS_LOC, TIDINGS_DATETIME and TIDINGS_POSITION "
        "in "
        "the environment. If it\nfails, so does follow (exit status 1), and "
        "--state says the position before that\nchange, so that it is run "
        "again; after a crash, too: each change at least once.\n\n"
        "A source with only a Resource List or a Sitemap is followed by the "
        "differences\nof that list, read every --poll seconds; --state keeps "
        "the last one in\nFILE.list. A list that lost 100 resources or more, "
        "and more than 20 %, ends it\nwith 1: look whether that is right, "
        "then give --max-delete.\n"
        "A list that is too large, or has no end, ends it with 1: N resources, "
        "or BYTES\n(500M, 2G or none) that stay free of the disks of FILE and "
        "of temporary files.\n"
        "All sets of a SOURCE-URL's source are followed: 100 are streamed, the "
        "others\n"
        "asked every --poll seconds. FILE is a database then (SQLite), with a "
        "position\n"
        "for each. A set that cannot be followed is one line on standard "
        "error, and in\n"
        "the end exit status 1. --after and --callback-listen need one set. "
        "--transport\n"
        "may be given several times. With --baseline the resources come as "
        "lines without\n"
        "a change, between baseline-begin and baseline-end: what was known "
        "before is\n"
        "void.\n\n"
        "With --callback-listen the changes come from the source's hub (W3C "
        "WebSub) to a\nserver in this program, and what it misses is asked "
        "for; --poll is then how\noften that is done in any case (600). Hubs "
        "reach it at --callback-url, which may\nbe a proxy that adds TLS.\n",
    .options = follow_options,
    .run = run_follow,
};
