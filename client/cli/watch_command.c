/*
 * watch_command.c - tidings watch: posts what changes in a directory.
 */
#include "client/cli/cli.h"
#include "client/watch/file_uri.h"
#include "client/watch/watch.h"

#define ROW_OF struct watch_options
#include "base/option_rows.h"

static const struct option options[] = {
    {"base-uri", "URI/", LENT(base_uri), NULL,
     "what stands before each file's path; ends with /", .is_required = true},
    {"state", "FOLDER", LENT(state), NULL,
     "folder that remembers the posted files; DIR/" FILE_URI_STATE_NAME},
    {"exclude", "GLOB", .help = "leave these out", .may_repeat = true},
    {"once", NULL, FLAG(is_once), NULL, "compare, post, end"},
    {"allow-empty", NULL, FLAG(allow_empty), NULL,
     "begin with an empty DIR all the same"},
};

/* Prints a line for whoever waits for it; without a reader, the watch still
 * goes on. */
static void
on_ready(unsigned n_folders, void *user)
{
    printf("tidings: watching %s (%u folder%s)\n", (const char *)user,
           n_folders, n_folders == 1 ? "" : "s");
    fflush(stdout);
}

static void
on_posted(const struct td_receipt *receipt, size_t n_entries, void *user)
{
    (void)n_entries;
    (void)user;
    print_receipt(receipt);
    fflush(stdout);
}

static enum exit_code
run_watch(const struct arguments *arguments)
{
    struct watch_options *how = arguments->values;
    char state[PATH_MAX];
    const char **excludes;
    const struct problem *why;
    struct watch *watch;
    enum exit_code code;

    how->on_ready = on_ready;
    how->on_posted = on_posted;
    how->on_warning = say_text;
    how->dir = arguments->operands[0];
    how->set_url = arguments->operands[1];
    how->user = arguments->operands[0];
    if (!how->state && snprintf(state, sizeof(state), "%s/" FILE_URI_STATE_NAME,
                                how->dir) >= (int)sizeof(state))
        return bad_usage("the name of DIR is too long");
    if (!how->state)
        how->state = state;

    excludes = calloc(arguments->n_given + 1, sizeof(excludes[0]));
    if (!excludes)
        return failed(NO_MEMORY);
    for (size_t i = 0; i < arguments->n_given; i++)
        if (is_given(arguments, &arguments->given[i], "exclude"))
            excludes[how->n_excludes++] = arguments->given[i].value;
    how->excludes = excludes;
    how->client = open_client(arguments, how->set_url, NULL, &code);
    watch = how->client ? watch_new(how) : NULL;
    if (watch) {
        signals_begin(watch_stop, watch);
        signal(SIGPIPE, SIG_IGN); /* a write to a closed pipe fails */
        signal(SIGIO, SIG_IGN);   /* of a lease: file_digest.h */
        /* Keeps both until the process ends: a signal may still come. */
        why = watch_run(watch);
        code = why->rc == STATUS_INVALID ? bad_usage("%s", why->text)
               : why->rc                 ? failed("%s", why->text)
                                         : EXIT_GOOD;
    } else if (how->client) {
        code = failed("no memory or descriptors left");
    }
    free(excludes);
    return code;
}

const struct command watch_command = {
    .name = "watch",
    .operands = "DIR SET-URL",
    .help =
        "Posts each change of the files in DIR, since the last watch and on.",
    .more =
        "A file DIR/a b.csv is the resource URI/a%20b.csv, with SHA-256, "
        "length, media\ntype and lastmod. It is posted when it is closed; "
        "renamed, it is deleted and\ncreated; touched, it is what it was. "
        "Symbolic links are neither followed nor\npublished, hidden files "
        "are; folders called " FILE_URI_STATE_NAME " never.\n\n"
        "A GLOB with \"*\", \"?\" and \"[...]\" leaves out what it matches: a "
        "name of a file or\nfolder anywhere (*.tmp), or a path from DIR on "
        "(build/*.o). What was posted and\nis left out now is posted as "
        "deleted.\n\n"
        "It prints a line when everything is watched, and one for each post:\n"
        "\n  tidings: watching DIR (3 folders)\n"
        "  first=1 last=3 position=0123456789abcdef-3 datetime=...Z\n\n"
        "While the broker is away it tries again; with --once it fails. A "
        "crash at any\nmoment loses no change. A DIR that is gone, or empty "
        "at the start although files\nof it were posted, is a failure, and "
        "nothing is posted as deleted.\n",
    .examples = "tidings watch data http://localhost:8787/sets/data \\\n    "
                "--base-uri http://example.com/data/\n",
    .options = OPTION_ROWS(options),
    .run = run_watch,
};
