/*
 * set_list.c - tidings set list: the sets of a broker.
 */
#include <inttypes.h>
#include <stdio.h>

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/lib/json_slices.h"
#include "proto/number.h"

enum { OPTION_JSON };

static const struct option options[] = {
    [OPTION_JSON] = {"json", NULL, .help = "an object of the broker a line"},
};

static const char *const headings[] = {"SET",  "POSITION", "CHANGED",
                                       "HOUR", "TITLE",    NULL};

/* Adds up the entries of the last hour; "0" without any. */
static void
add_rate(struct table *table, struct slice set)
{
    struct slice minutes, one;
    uint64_t sum = 0, number;
    char text[24];

    if (json_slices_member(set, "rate", &minutes))
        while (json_slices_element(&minutes, &one))
            if (number_read(one, &number))
                sum += number;
    snprintf(text, sizeof(text), "%" PRIu64, sum);
    table_add_text(table, text);
}

static void
add_set(struct table *table, struct slice set)
{
    table_add_member(table, set, "name");
    table_add_member(table, set, "position");
    table_add_time(table, set, "datetime");
    add_rate(table, set);
    table_add_member(table, set, "title");
}

static const struct broker_call_rows rows = {"sets", headings, add_set};

static enum exit_code
run_set_list(const struct arguments *arguments)
{
    struct broker_call call;
    enum exit_code code = broker_call_begin(
        &call, arguments, arguments->operands[0], "/sets?rate=yes");

    if (!code)
        code = broker_call_list(&call, &rows,
                                arguments->options[OPTION_JSON] != NULL);
    broker_call_end(&call);
    return code;
}

const struct command set_list_command = {
    .name = "set list",
    .operands = "BROKER-URL",
    .help = "Lists the sets of a broker that the token may see.",
    .more = "POSITION is that of the last change, CHANGED its time, and HOUR "
            "the number of changes in the last 60 minutes.",
    .examples = "tidings set list http://127.0.0.1:8787/\n",
    .options = OPTIONS(options),
    .run = run_set_list,
};
