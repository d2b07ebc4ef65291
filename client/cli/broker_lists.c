/*
 * broker_lists.c - tidings set list, bridges, relays: the sets of a broker,
 * what connects it with MQTT brokers, and the topics of others that its hub
 * distributes.
 */

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/lib/json_slices.h"
#include "proto/number.h"

/* Longest text of an object that is looked at, in bytes. */
#define TEXT_MAX 4096

/* Sets, bridges, relays */

/* Adds up the entries of the last hour; "0" without any. */
static void
write_rate(struct slice set, const char *member, char *to, size_t size)
{
    struct slice minutes, one;
    uint64_t sum = 0, number;

    if (json_slices_member(set, member, &minutes))
        while (json_slices_element(&minutes, &one))
            if (number_read(one, &number))
                sum += number;
    snprintf(to, size, "%" PRIu64, sum);
}

static const struct table_column set_columns[] = {
    {"SET", "name"},
    {"POSITION", "position"},
    {"CHANGED", "datetime", table_time},
    {"HOUR", "rate", write_rate},
    {"TITLE", "title"},
    {NULL}};

static const struct table_column bridge_columns[] = {
    {"BRIDGE"},   {"WAY"}, {"STATE"}, {"SINCE"},
    {"MESSAGES"}, {"LAG"}, {"WHY"},   {NULL}};

/* Adds a row for each direction: "out" publishes, "in" posts. */
static void
add_bridge(struct table *table, struct slice bridge)
{
    static const struct way {
        const char *name, *messages;
    } ways[] = {{"out", "published"}, {"in", "received"}};

    for (size_t i = 0; i < 2; i++) {
        const char *const members[] = {"state", "since", ways[i].messages,
                                       "lag", "why"};
        struct slice direction;
        char text[TEXT_MAX];

        if (!json_slices_member(bridge, ways[i].name, &direction))
            continue;
        plain_json_text(bridge, "name", text, sizeof(text));
        table_add_text(table, text);
        table_add_text(table, ways[i].name);
        for (size_t k = 0; k < 5; k++) {
            (k == 1 ? table_time : plain_json_text)(direction, members[k], text,
                                                    sizeof(text));
            table_add_text(table, text);
        }
    }
}

static const struct table_column relay_columns[] = {
    {"RELAY", "name"},
    {"DOCUMENTS", "last"},
    {"SUBSCRIPTIONS", "subscriptions"},
    {"LAST DOCUMENT", "lastDocument", table_time},
    {"TOPIC", "topic"},
    {NULL}};

static const struct list {
    const struct command *command;
    const char *path;
    struct broker_call_rows rows;
} lists[] = {
    {&set_list_command, "/sets?rate=yes", {"sets", set_columns}},
    {&bridges_command, "/bridges", {"bridges", bridge_columns, add_bridge}},
    {&relays_command, "/relays", {"relays", relay_columns}},
};

static enum exit_code
run_list(const struct arguments *arguments)
{
    const struct list *list = lists;
    struct broker_call call;

    while (list->command != arguments->command)
        list++;
    broker_call_begin(&call, arguments, arguments->operands[0], list->path);
    broker_call_list(&call, &list->rows, arguments->options[0] != NULL);
    return broker_call_end(&call);
}

const struct command set_list_command = {
    .name = "set list",
    .operands = "BROKER-URL",
    .help = "Lists the sets of a broker that the token may see.",
    .more = "POSITION is that of the last change, CHANGED its time, and HOUR "
            "the number of changes in the last 60 minutes.",
    .examples = "tidings set list http://127.0.0.1:8787/\n",
    .options = &rows_options,
    .run = run_list,
};

const struct command bridges_command = {
    .name = "bridges",
    .operands = "BROKER-URL",
    .help = "Lists the bridges of a broker to MQTT.",
    .more = "A bridge has a row for each of its ways: out publishes changes of "
            "sets, in makes changes of messages. MESSAGES were published or "
            "received since the start of the broker. LAG is the number of "
            "entries that the MQTT broker has not acknowledged. WHY says why a "
            "way is not connected or does not work.\n\n"
            "The token needs the right to observe.",
    .examples = "tidings bridges http://127.0.0.1:8787/\n",
    .options = &rows_options,
    .run = run_list,
};

const struct command relays_command = {
    .name = "relays",
    .operands = "BROKER-URL",
    .help = "Lists the relays of a broker: topics of others on its hub.",
    .more =
        "DOCUMENTS came since the relay was made. The token needs the right "
        "to observe.\n\n"
        "tidings subscriptions list http://host:port/relays/NAME lists the "
        "subscriptions of a relay.",
    .examples = "tidings relays http://127.0.0.1:8787/\n",
    .options = &rows_options,
    .run = run_list,
};
