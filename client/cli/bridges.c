/*
 * bridges.c - tidings bridges, tidings relays: what connects a broker with MQTT
 * brokers, and the topics of others that its hub distributes.
 */
#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/lib/json_slices.h"

static const struct option options[] = {
    {"json", NULL, .help = "an object of the broker a line"},
};

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

static enum exit_code
print_list(const struct arguments *arguments,
           const struct broker_call_rows *rows)
{
    struct broker_call call;
    enum exit_code code = broker_call_begin(
        &call, arguments, arguments->operands[0], "/%s", rows->name);

    if (!code)
        code = broker_call_list(&call, rows, arguments->options[0] != NULL);
    broker_call_end(&call);
    return code;
}

static enum exit_code
run_bridges(const struct arguments *arguments)
{
    static const struct broker_call_rows rows = {"bridges", bridge_headings,
                                                 add_bridge};

    return print_list(arguments, &rows);
}

static enum exit_code
run_relays(const struct arguments *arguments)
{
    static const struct broker_call_rows rows = {"relays", relay_headings,
                                                 add_relay};

    return print_list(arguments, &rows);
}

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
    .run = run_bridges,
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
    .run = run_relays,
};
