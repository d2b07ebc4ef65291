/*
 * follow_arguments.c - reads the command line of tidings follow.
 */
#include "client/cli/follow_arguments.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/limit_options.h"
#include "client/cli/mirror_output.h"

enum {
    OPTION_AFTER,
    OPTION_FROM_START,
    OPTION_SINCE,
    OPTION_CHANGE,
    OPTION_PREFIX,
    OPTION_TYPE,
    OPTION_TAG,
    OPTION_FORMAT,
    OPTION_EXEC,
    OPTION_STATE,
    OPTION_COUNT,
    OPTION_UNTIL_CAUGHT_UP,
    OPTION_BASELINE,
    OPTION_TRANSPORT,
    OPTION_POLL,
    OPTION_MAX_DELETE,
    OPTION_LIMITS,
    OPTION_CALLBACK_LISTEN = OPTION_LIMITS + N_LIMIT_ROWS,
    OPTION_CALLBACK_URL,
    OPTION_VERBOSE
};

const struct option_row follow_options[] = {
    [OPTION_AFTER] = {"after", "POSITION", "begin after this position"},
    [OPTION_FROM_START] = {"from-start", NULL,
                           "begin at the beginning; else from now on"},
    [OPTION_SINCE] = {"since", "DATETIME",
                      "begin with what happened later than that"},
    [OPTION_CHANGE] = {"change", "KIND",
                       "only created, updated or deleted ones"},
    [OPTION_PREFIX] = {"prefix", "URL", "only of resources that begin so"},
    [OPTION_TYPE] = {"type", "TYPE", "only of this media type, or of TYPE/*"},
    [OPTION_TAG] = {"tag", "TAG", "only with this tag"},
    [OPTION_FORMAT] = {"format", "text|json|xml",
                       "what a line is; text, with --exec json"},
    [OPTION_EXEC] = {"exec", "COMMAND", "run this for each change instead"},
    [OPTION_STATE] = {"state", "FILE", "keep the position there"},
    [OPTION_COUNT] = {"count", "N", "end after N changes"},
    [OPTION_UNTIL_CAUGHT_UP] = {"until-caught-up", NULL,
                                "end when all is told that there was"},
    [OPTION_BASELINE] = {"baseline", "no|gone|first",
                         "all resources, where changes are gone; no"},
    [OPTION_TRANSPORT] = {"transport", "WAY",
                          "websocket, events, longpoll or poll alone"},
    [OPTION_POLL] = {"poll", "SECONDS", "between two looks at lists; 60"},
    [OPTION_MAX_DELETE] = {"max-delete", "PERCENT",
                           "of a list, more is an error (or none); 20"},
    [OPTION_LIMITS] = LIMIT_ROWS,
    [OPTION_CALLBACK_LISTEN] = {"callback-listen", "HOST:PORT",
                                "be told by the source's hub (WebSub), there"},
    [OPTION_CALLBACK_URL] = {"callback-url", "URL",
                             "where hubs reach that; http://HOST:PORT"},
    [OPTION_VERBOSE] = {"verbose", NULL, "tell of lost connections"},
    {NULL, NULL, NULL},
};

/* Takes all filters of the command line. */
static bool
read_filters(const struct arguments *arguments, struct follow_args *args)
{
    args->filters = calloc(arguments->n_given + 1, sizeof(*args->filters));
    if (!args->filters) {
        say(NO_MEMORY);
        return false;
    }
    for (size_t i = 0; i < arguments->n_given; i++) {
        int option = arguments->given[i].row;

        if (option >= OPTION_CHANGE && option <= OPTION_TAG)
            args->filters[args->how.n_filters++] = (struct td_filter){
                follow_options[option].name, arguments->given[i].value};
    }
    args->how.filters = args->filters;
    return true;
}

/* A name and its value; the last one has no name. */
struct word {
    const char *name;
    unsigned value;
};

static bool
read_word(const struct word *words, const char *text, unsigned *value)
{
    for (; words->name; words++)
        if (!strcmp(words->name, text)) {
            *value |= words->value;
            return true;
        }
    return false;
}

static const struct word transports[] = {{"websocket", TD_WEBSOCKET},
                                         {"events", TD_EVENTS},
                                         {"longpoll", TD_LONG_POLL},
                                         {"poll", TD_POLL},
                                         {NULL, 0}};

static const struct word baselines[] = {{"no", TD_NO_BASELINE},
                                        {"gone", TD_BASELINE_GONE},
                                        {"first", TD_BASELINE_FIRST},
                                        {NULL, 0}};

/* Reads the transport, and whether resources come, too. */
static enum exit_code
read_ways(const struct arguments *arguments, struct td_follow_options *how)
{
    const char *const *given = arguments->options;
    unsigned baseline = TD_NO_BASELINE;

    for (size_t i = 0; i < arguments->n_given; i++)
        if (arguments->given[i].row == OPTION_TRANSPORT &&
            !read_word(transports, arguments->given[i].value, &how->transports))
            return bad_usage(
                "--transport is websocket, events, longpoll or poll");
    if (given[OPTION_BASELINE] &&
        !read_word(baselines, given[OPTION_BASELINE], &baseline))
        return bad_usage("--baseline is no, gone or first");
    how->baseline = (enum td_baseline)baseline;
    if (given[OPTION_POLL] && !read_pause(given[OPTION_POLL], &how->poll_ms))
        return bad_usage("--poll is a number of seconds from 0.1 to 86400");
    if (given[OPTION_MAX_DELETE] &&
        !mirror_output_max_delete(given[OPTION_MAX_DELETE],
                                  &how->max_delete_percent))
        return EXIT_USAGE;
    how->until_caught_up = given[OPTION_UNTIL_CAUGHT_UP] != NULL;
    return EXIT_GOOD;
}

static enum exit_code
read_callback(const struct arguments *arguments, struct follow_args *args)
{
    const char *const *given = arguments->options;

    args->callback_listen = given[OPTION_CALLBACK_LISTEN];
    args->callback_url = given[OPTION_CALLBACK_URL];
    if (args->callback_url && !args->callback_listen)
        return bad_usage("--callback-url needs --callback-listen");
    if (args->callback_listen && given[OPTION_TRANSPORT])
        return bad_usage("--callback-listen and --transport contradict each "
                         "other");
    return EXIT_GOOD;
}

/* Reads the action for a change, and how often it runs. */
static enum exit_code
read_lines(const struct arguments *arguments, struct follow_args *args)
{
    const char *const *given = arguments->options;
    const char *format = given[OPTION_FORMAT];
    const char *count = given[OPTION_COUNT];

    args->command = given[OPTION_EXEC];
    if (args->command && !args->command[0])
        return bad_usage("--exec needs a command");
    args->lines = lines_of(format ? format : args->command ? "json" : "text");
    if (!args->lines)
        return bad_usage("--format is text, json or xml");
    args->how.form = args->lines->form;
    if (count) {
        if (!count[0] || strlen(count) > 18 ||
            strspn(count, "0123456789") != strlen(count) ||
            !(args->count = strtoull(count, NULL, 10)))
            return bad_usage("--count is a number from 1 on");
    }
    return EXIT_GOOD;
}

/* Reads the beginning, if no state has one. */
static enum exit_code
read_beginning(const struct arguments *arguments, struct follow_args *args)
{
    const char *const *given = arguments->options;

    if (arguments->n_operands != 1)
        return bad_usage("follow needs one URL; see tidings follow --help");
    if ((given[OPTION_AFTER] != NULL) + (given[OPTION_FROM_START] != NULL) +
            (given[OPTION_SINCE] != NULL) >
        1)
        return bad_usage(
            "--after, --from-start and --since contradict each other");
    args->url = arguments->operands[0];
    args->state = given[OPTION_STATE];
    args->is_verbose = given[OPTION_VERBOSE] != NULL;
    args->how.after = given[OPTION_FROM_START] ? "0" : given[OPTION_AFTER];
    args->how.since = given[OPTION_SINCE];
    return EXIT_GOOD;
}

enum exit_code
follow_args_read(struct follow_args *args, const struct arguments *arguments)
{
    enum exit_code code;

    *args = (struct follow_args){.url = NULL};
    code = read_beginning(arguments, args);
    if (!code)
        code = read_lines(arguments, args);
    if (!code)
        code = read_ways(arguments, &args->how);
    if (!code)
        code = read_callback(arguments, args);
    if (!code && !read_filters(arguments, args))
        code = EXIT_FAILED;
    return code;
}

void
follow_args_fini(struct follow_args *args)
{
    free(args->filters);
}
