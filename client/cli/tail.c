/*
 * tail.c - tidings tail: the last changes of a set.
 *
 *     GET SET-URL --> epoch, last, earliest --> td_follow after EPOCH-(LAST -
 * N)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/cli/follow.h"
#include "client/cli/plain_json.h"
#include "proto/number.h"

enum { TAIL_COUNT, TAIL_FOLLOW, TAIL_FORMAT };

static const struct option options[] = {
    [TAIL_COUNT] = {"count", "N", .standard = "10",
                    .help = "how many changes at most"},
    [TAIL_FOLLOW] = {"follow", NULL, .help = "then each new change"},
    [TAIL_FORMAT] = {"format", "text|json|xml", .standard = "text",
                     .help = "what a line is"},
};

#define COUNT_MOST 1000000000

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
static enum exit_code
read_start(const struct broker_call *call, uint64_t *n,
           char after[TD_POSITION_SIZE])
{
    char earliest[TD_POSITION_SIZE], position[TD_POSITION_SIZE];
    struct slice set = buf_slice(&call->json);
    uint64_t oldest, last, start;

    plain_json_text(set, "position", position, sizeof(position));
    plain_json_text(set, "earliest", earliest, sizeof(earliest));
    if (!read_seq(position, &last) || !read_seq(earliest, &oldest) ||
        oldest > last) {
        say("%s is not a set of a Tidings broker", call->url);
        return EXIT_FAILED;
    }
    start = last - oldest > *n ? last - *n : oldest;
    *n = last - start;
    snprintf(after, TD_POSITION_SIZE, "%.*s-%" PRIu64,
             (int)(strrchr(position, '-') - position), position, start);
    return EXIT_GOOD;
}

/* The same, of the set at `url`. */
static enum exit_code
find_start(const struct arguments *arguments, const char *url, uint64_t *n,
           char after[TD_POSITION_SIZE])
{
    struct broker_call call;
    enum exit_code code = broker_call_begin(&call, arguments, url, "%s", "");

    if (!code)
        code = broker_call_send(&call, "GET");
    if (!code)
        code = read_start(&call, n, after);
    broker_call_end(&call);
    return code;
}

static enum exit_code
print_last(struct follow_args *args, const struct arguments *arguments,
           unsigned wanted)
{
    bool goes_on = arguments->options[TAIL_FOLLOW] != NULL;
    enum exit_code code = EXIT_GONE;

    for (int i = 0; i < TRIES && code == EXIT_GONE; i++) {
        char after[TD_POSITION_SIZE];
        uint64_t n = wanted;

        code = find_start(arguments, args->url, &n, after);
        if (code || (!n && !goes_on))
            return code;
        args->how.after = after;
        args->count = goes_on ? 0 : n;
        code = follow_changes(args, arguments);
    }
    return code;
}

static enum exit_code
run_tail(const struct arguments *arguments)
{
    const char *format = arguments->options[TAIL_FORMAT];
    struct follow_args args = {.url = arguments->operands[0]};
    unsigned wanted = 10;

    if (!read_number(arguments->options[TAIL_COUNT], COUNT_MOST, &wanted))
        return bad_usage("--count is a number from 1 to %d", COUNT_MOST);
    if (!follow_args_format(&args, format ? format : "text"))
        return EXIT_USAGE;
    return print_last(&args, arguments, wanted);
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
    .options = OPTIONS(options),
    .run = run_tail,
};
