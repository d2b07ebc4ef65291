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

struct tail {
    unsigned count;
    bool goes_on;
    unsigned format; /* of struct follow_args */
};

#define ROW_OF struct tail
#include "base/option_rows.h"

static const struct option options[] = {
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
    .options = OPTIONS(options),
    .size = sizeof(struct tail),
    .run = run_tail,
};
