/*
 * follow.c - tidings follow: one line per change.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/cli/place.h"

enum {
    OPTION_AFTER,
    OPTION_FROM_START,
    OPTION_SINCE,
    OPTION_CHANGE,
    OPTION_PREFIX,
    OPTION_TYPE,
    OPTION_TAG,
    OPTION_FORMAT,
    OPTION_STATE,
    OPTION_COUNT,
    OPTION_VERBOSE
};

static const struct option_row options[] = {
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
    [OPTION_FORMAT] = {"format", "text|json|xml", "what a line is; text"},
    [OPTION_STATE] = {"state", "FILE", "keep the position there"},
    [OPTION_COUNT] = {"count", "N", "end after N changes"},
    [OPTION_VERBOSE] = {"verbose", NULL, "tell of lost connections"},
    {NULL, NULL, NULL},
};

/* How a change becomes a line, without its newline. */
typedef void line_fn(const struct td_change *change);

struct follow {
    line_fn *print;
    const char *state;        /* path; NULL: none */
    char start[PLACE_MAX];    /* what that file held at the start */
    char position[PLACE_MAX]; /* what it holds now; "": nothing */
    bool has_count;
    unsigned long long left; /* of --count */
    enum exit_code code;     /* why the callback ended it */
    struct td_filter *filters;
};

/* For the signal handler, which cannot be given anything. */
static struct td_client *followed;

static void
on_signal(int number)
{
    (void)number;
    td_stop(followed);
}

/* SEQ DATETIME CHANGE LOC */
static void
print_text(const struct td_change *change)
{
    printf("%llu %s %s %s", (unsigned long long)change->seq,
           change->datetime ? change->datetime : "-",
           change->change ? change->change : "-",
           change->loc ? change->loc : "-");
}

/* The entry as it came. Between JSON's tokens may be newlines, inside its
 * strings there are none. */
static void
print_entry(const struct td_change *change)
{
    for (size_t i = 0; i < change->text_size; i++)
        putchar(change->text[i] == '\n' ? ' ' : change->text[i]);
}

/* The rows of --format. */
static const struct format {
    const char *name;
    enum td_form form;
    line_fn *print;
} formats[] = {
    {"text", TD_JSON, print_text},
    {"json", TD_JSON, print_entry},
    {"xml", TD_XML, print_entry},
};

#define N_FORMATS (sizeof(formats) / sizeof(formats[0]))

/* Lines first, position second: a crash between them repeats lines. */
static bool
keep_place(struct follow *f, const char *position)
{
    if (!f->state || !strcmp(position, f->position))
        return true;
    if (strlen(position) >= sizeof(f->position) ||
        !place_write(f->state, position))
        return false;
    strcpy(f->position, position);
    return true;
}

/* The position of `seq` in the epoch of `of`. */
static void
position_of(char *to, size_t size, const char *of, uint64_t seq)
{
    snprintf(to, size, "%.*s-%llu", (int)strcspn(of, "-"), of,
             (unsigned long long)seq);
}

static int
on_message(const struct td_message *message, void *user)
{
    struct follow *f = user;
    char position[PLACE_MAX];
    uint64_t last = message->last;

    for (size_t i = 0; i < message->n_changes; i++) {
        if (f->has_count && !f->left)
            break;
        f->print(&message->changes[i]);
        putchar('\n');
        last = message->changes[i].seq;
        f->left -= f->has_count;
    }
    if (message->n_changes && fflush(stdout)) {
        say("cannot write to standard output: %s", strerror(errno));
        f->code = EXIT_FAILED;
        return 1;
    }
    position_of(position, sizeof(position), message->position, last);
    if (!keep_place(f, position)) {
        f->code = EXIT_FAILED;
        return 1;
    }
    return f->has_count && !f->left;
}

static void
on_trouble(const char *why, unsigned pause_ms, void *user)
{
    (void)user;
    say("%s; again in %.1f s", why, pause_ms / 1000.0);
}

/* Takes the filters that were given, each as often as it was. */
static bool
read_filters(const struct arguments *arguments, struct follow *f,
             struct td_follow_options *how)
{
    f->filters = calloc(arguments->n_given + 1, sizeof(*f->filters));
    if (!f->filters)
        return false;
    for (size_t i = 0; i < arguments->n_given; i++) {
        int option = arguments->given[i].row;

        if (option >= OPTION_CHANGE && option <= OPTION_TAG)
            f->filters[how->n_filters++] = (struct td_filter){
                options[option].name, arguments->given[i].value};
    }
    how->filters = f->filters;
    return true;
}

/* Sets up `f` and `how` from the command line. */
static enum exit_code
read_arguments(const struct arguments *arguments, struct follow *f,
               struct td_follow_options *how)
{
    const char *const *given = arguments->options;
    const char *format = given[OPTION_FORMAT] ? given[OPTION_FORMAT] : "text";
    const char *count = given[OPTION_COUNT];
    size_t i = 0;

    if (arguments->n_operands != 1)
        return bad_usage("follow needs one SET-URL; see tidings follow --help");
    if ((given[OPTION_AFTER] != NULL) + (given[OPTION_FROM_START] != NULL) +
            (given[OPTION_SINCE] != NULL) >
        1)
        return bad_usage(
            "--after, --from-start and --since contradict each other");
    while (i < N_FORMATS && strcmp(formats[i].name, format))
        i++;
    if (i == N_FORMATS)
        return bad_usage("--format is text, json or xml");
    f->print = formats[i].print;
    how->form = formats[i].form;

    if (count) {
        if (!count[0] || strlen(count) > 18 ||
            strspn(count, "0123456789") != strlen(count) ||
            !(f->left = strtoull(count, NULL, 10)))
            return bad_usage("--count is a number from 1 on");
        f->has_count = true;
    }
    how->after = given[OPTION_FROM_START] ? "0" : given[OPTION_AFTER];
    how->since = given[OPTION_SINCE];
    if (!read_filters(arguments, f, how)) {
        say("no memory");
        return EXIT_FAILED;
    }
    if (given[OPTION_VERBOSE])
        how->on_trouble = on_trouble;

    f->state = given[OPTION_STATE];
    if (f->state) {
        int found = place_read(f->state, f->start);

        if (found < 0)
            return EXIT_FAILED;
        if (found) {
            how->after = f->start;
            how->since = NULL;
        }
        strcpy(f->position, f->start);
    }
    return EXIT_GOOD;
}

static void
catch_signals(void)
{
    struct sigaction stop = {.sa_handler = on_signal};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL); /* writing tells it too */
}

static enum exit_code
run(const struct arguments *arguments)
{
    struct follow f = {.code = EXIT_GOOD};
    struct td_follow_options how = {.after = NULL};
    enum exit_code code = read_arguments(arguments, &f, &how);

    if (code)
        goto out;
    followed = td_open();
    if (!followed) {
        say("no memory or descriptors left");
        code = EXIT_FAILED;
        goto out;
    }
    catch_signals();
    code = exit_of(followed, td_follow(followed, arguments->operands[0], &how,
                                       on_message, &f));
    if (code == EXIT_GOOD)
        code = f.code;

    /* The handle is left to the end of the process: a signal may still come. */
out:
    free(f.filters);
    return code;
}

const struct command follow_command = {
    .name = "follow",
    .operands = "SET-URL [--after POSITION|--from-start] [--state FILE] ...",
    .help = "Prints a line for each change, those missed first, then each new "
            "one.",
    .more = "A line is SEQ DATETIME CHANGE LOC (text), the entry's JSON "
            "object, or its\n<url> with the namespaces rs and td undeclared. "
            "It goes on until it is\ninterrupted (exit status 0); while the "
            "broker is away it tries again.\nWith --state the position is "
            "kept after each message's lines are written,\nand read at the "
            "start if FILE is there: then --after, --from-start and\n"
            "--since mean the first start only. A crash may repeat lines, it "
            "loses none.\n"
            "--change, --prefix, --type and --tag may be given several times: "
            "one of those of\na name must hold, of each name. What does not "
            "pass is not printed, nothing is\nmissed by it.\n",
    .options = options,
    .run = run,
};
