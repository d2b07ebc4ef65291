/*
 * broker_lists.c - tidings set list, bridges, relays, subscriptions: the sets
 * of a broker, what connects it with MQTT brokers, the topics of others that
 * its hub distributes, and the WebSub subscriptions of a set or a relay.
 */

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/lib/json_slices.h"
#include "proto/number.h"
#include "proto/urlencoded.h"

/* Longest text of an object that is looked at, in bytes. */
#define TEXT_MAX 4096

static const struct option options[] = {
    {"json", NULL, .help = "an object of the broker a line"},
};

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

/* Subscriptions */

#define FORM_MAX 65536

/* Begins a request below URL/subscriptions. The first operand is the URL, the
 * second, if the command has one, the number of a subscription. `name` and
 * `value`: a parameter; `value` NULL: none. */
static void
begin_call(struct broker_call *call, const struct arguments *arguments,
           const char *action, const char *name, const char *value)
{
    const char *id = arguments->n_operands > 1 ? arguments->operands[1] : "";
    struct buf query;

    if (strspn(id, "0123456789") != strlen(id) || strlen(id) > 20) {
        *call = (struct broker_call){
            .code = bad_usage("the ID of a subscription is a number, as "
                              "subscriptions list prints it")};
        return;
    }
    buf_init(&query, FORM_MAX);
    if (value) {
        BUF_ADD(&query, "?");
        urlencoded_add(&query, name, slice_of(value));
    }
    if (query.failed)
        *call =
            (struct broker_call){.code = bad_usage("--%s is too long", name)};
    else
        broker_call_begin(call, arguments, arguments->operands[0],
                          "/subscriptions%s%s%s%.*s", id[0] ? "/" : "", id,
                          action, (int)query.size,
                          query.size ? query.data : "");
    buf_fini(&query);
}

enum { LIST_CALLBACK, LIST_JSON };

static const struct option subscription_list_options[] = {
    [LIST_CALLBACK] = {"callback", "URL",
                       .help = "only the one with this whole URL"},
    [LIST_JSON] = {"json", NULL, .help = "an object of the broker a line"},
};

/* A set has two topics, which the end of their URLs distinguishes. */
static void
write_topic(struct slice subscription, const char *member, char *to,
            size_t size)
{
    plain_json_text(subscription, member, to, size);
    snprintf(to, size, "%s",
             slice_ends(slice_of(to), "/framework-notifications") ? "framework"
                                                                  : "changes");
}

static const struct table_column subscription_columns[] = {
    {"ID", "id"},
    {"STATE", "state"},
    {"LAG", "lag"},
    {"TOPIC", "topic", write_topic},
    {"FORM", "form"},
    {"LAST SUCCESS", "lastSuccess", table_time},
    {"NEXT TRY", "nextTry", table_time},
    {"CALLBACK", "callback"},
    {"LAST ERROR", "lastError"},
    {NULL}};

static const struct broker_call_rows rows = {"subscriptions",
                                             subscription_columns};

static enum exit_code
run_subscriptions(const struct arguments *arguments)
{
    struct broker_call call;

    begin_call(&call, arguments, "", "callback",
               arguments->options[LIST_CALLBACK]);
    broker_call_list(&call, &rows, arguments->options[LIST_JSON] != NULL);
    return broker_call_end(&call);
}

static const struct option show_options[] = {
    {"json", NULL, .help = "the broker's JSON"},
};

static enum exit_code
run_subscription(const struct arguments *arguments)
{
    struct broker_call call;

    begin_call(&call, arguments, "", NULL, NULL);
    broker_call_send(&call, "GET");
    broker_call_show(&call, arguments->options[0] != NULL);
    return broker_call_end(&call);
}

static const struct option redeliver_options[] = {
    {"after", "POSITION", .help = "deliveries go on behind this position",
     .is_required = true},
};

static enum exit_code
run_redeliver(const struct arguments *arguments)
{
    struct broker_call call;

    begin_call(&call, arguments, "/redeliver", "after", arguments->options[0]);
    broker_call_send(&call, "POST");
    if (!call.code)
        puts("moved");
    return broker_call_end(&call);
}

static const struct option end_options[] = {
    {"yes", NULL, .help = "do not ask"},
};

static enum exit_code
run_end(const struct arguments *arguments)
{
    struct broker_call call;
    char callback[TEXT_MAX];

    begin_call(&call, arguments, "", NULL, NULL);
    if (!arguments->options[0]) {
        if (!call.code)
            call.code = confirm_can_ask("subscriptions end cannot be undone");
        broker_call_send(&call, "GET");
        plain_json_text(buf_slice(&call.json), "callback", callback,
                        sizeof(callback));
        if (!call.code)
            call.code =
                confirm("ended", "End %s, whose callback is %s", call.url,
                        problem_quote(slice_of(callback)).text);
    }
    broker_call_send(&call, "DELETE");
    if (!call.code)
        puts("ended");
    return broker_call_end(&call);
}

#define RELAY_TOO                                            \
    "A relay has subscriptions, too: give its URL instead, " \
    "http://host:port/relays/NAME."

const struct command subscriptions_list_command = {
    .name = "subscriptions list",
    .operands = "SET-URL",
    .help = "Lists the WebSub subscriptions of a set or a relay.",
    .more =
        "STATE is active, or pending while the hub waits for the callback's "
        "consent. LAG is the number of entries that are not yet delivered. "
        "NEXT TRY is when the hub repeats a delivery that has failed, LAST "
        "ERROR why it failed.\n\n"
        "The hub shows scheme, host and port of a callback: the rest of its "
        "URL is a secret. --callback finds the subscription of a URL that you "
        "know.\n\n" RELAY_TOO,
    .examples =
        "tidings subscriptions list http://127.0.0.1:8787/sets/demo\n"
        "tidings subscriptions list http://127.0.0.1:8787/relays/news --json\n",
    .options = OPTIONS(subscription_list_options),
    .run = run_subscriptions,
};

const struct command subscriptions_show_command = {
    .name = "subscriptions show",
    .operands = "SET-URL ID",
    .help = "Shows all that the hub reports of one subscription.",
    .more = RELAY_TOO,
    .examples =
        "tidings subscriptions show http://127.0.0.1:8787/sets/demo 2\n",
    .options = OPTIONS(show_options),
    .run = run_subscription,
};

const struct command subscriptions_redeliver_command = {
    .name = "subscriptions redeliver",
    .operands = "SET-URL ID",
    .help = "Moves a subscription back, or forward, to a position.",
    .more = "The hub delivers all entries behind the position once more. Such "
            "a delivery has another Tidings-Delivery than the first one, so a "
            "callback that drops repeats takes it.\n\n" RELAY_TOO,
    .examples = "tidings subscriptions redeliver "
                "http://127.0.0.1:8787/sets/demo 2 \\\n"
                "    --after ad13c92cbd5ea809-4\n",
    .options = OPTIONS(redeliver_options),
    .run = run_redeliver,
};

const struct command subscriptions_end_command = {
    .name = "subscriptions end",
    .operands = "SET-URL ID",
    .help = "Ends a subscription; the hub tells its callback.",
    .more = "Asks on a terminal, and needs --yes elsewhere.\n\n" RELAY_TOO,
    .examples =
        "tidings subscriptions end http://127.0.0.1:8787/sets/demo 2 --yes\n",
    .options = OPTIONS(end_options),
    .run = run_end,
};
