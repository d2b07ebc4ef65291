/*
 * broker_lists.c - tidings set list, bridges, relays: the sets of a broker,
 * what connects it with MQTT brokers, and the topics of others that its hub
 * distributes.
 */
#include <inttypes.h>
#include <stdio.h>

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/lib/json_slices.h"
#include "proto/number.h"

static const struct option options[] = {
    {"json", NULL, .help = "an object of the broker a line"},
};

static const char *const set_headings[] = {"SET",  "POSITION", "CHANGED",
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

static const char *const bridge_headings[] = {
    "BRIDGE", "WAY", "STATE", "SINCE", "MESSAGES", "LAG", "WHY", NULL};

/* Adds the row of a direction: "out" publishes, "in" posts. */
static void
add_direction(struct table *table, struct slice bridge, const char *way,
              const char *messages)
{
    struct slice direction;

    if (!json_slices_member(bridge, way, &direction))
        return;
    table_add_member(table, bridge, "name");
    table_add_text(table, way);
    table_add_member(table, direction, "state");
    table_add_time(table, direction, "since");
    table_add_member(table, direction, messages);
    table_add_member(table, direction, "lag");
    table_add_member(table, direction, "why");
}

static void
add_bridge(struct table *table, struct slice bridge)
{
    add_direction(table, bridge, "out", "published");
    add_direction(table, bridge, "in", "received");
}

static const char *const relay_headings[] = {
    "RELAY", "DOCUMENTS", "SUBSCRIPTIONS", "LAST DOCUMENT", "TOPIC", NULL};

static void
add_relay(struct table *table, struct slice relay)
{
    table_add_member(table, relay, "name");
    table_add_member(table, relay, "last");
    table_add_member(table, relay, "subscriptions");
    table_add_time(table, relay, "lastDocument");
    table_add_member(table, relay, "topic");
}

static const struct list {
    const struct command *command;
    const char *path;
    struct broker_call_rows rows;
} lists[] = {
    {&set_list_command, "/sets?rate=yes", {"sets", set_headings, add_set}},
    {&bridges_command, "/bridges", {"bridges", bridge_headings, add_bridge}},
    {&relays_command, "/relays", {"relays", relay_headings, add_relay}},
};

static enum exit_code
run_list(const struct arguments *arguments)
{
    const struct list *list = lists;
    struct broker_call call;

    while (list->command != arguments->command)
        list++;
    broker_call_begin(&call, arguments, arguments->operands[0], "%s",
                      list->path);
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
    .options = OPTIONS(options),
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
    .options = OPTIONS(options),
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
    .options = OPTIONS(options),
    .run = run_list,
};
