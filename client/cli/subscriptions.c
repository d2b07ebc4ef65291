/*
 * subscriptions.c - tidings subscriptions: the WebSub subscriptions of a set or
 * a relay.
 */
#include <stdio.h>
#include <string.h>

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/cli/confirm.h"
#include "client/cli/plain_json.h"
#include "proto/urlencoded.h"

/* Longest text of an object that is looked at, in bytes. */
#define TEXT_MAX 4096

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

static const struct option list_options[] = {
    [LIST_CALLBACK] = {"callback", "URL",
                       .help = "only the one with this whole URL"},
    [LIST_JSON] = {"json", NULL, .help = "an object of the broker a line"},
};

static const char *const headings[] = {"ID",       "STATE",        "LAG",
                                       "TOPIC",    "LAST SUCCESS", "NEXT TRY",
                                       "CALLBACK", "LAST ERROR",   NULL};

/* A set has two topics, told apart by the end of their URLs. */
static void
add_topic(struct table *table, struct slice subscription)
{
    static const char framework[] = "/framework-notifications";
    size_t size = sizeof(framework) - 1;
    char topic[TEXT_MAX];
    size_t all;

    plain_json_text(subscription, "topic", topic, sizeof(topic));
    all = strlen(topic);
    table_add_text(table, all > size && !strcmp(topic + all - size, framework)
                              ? "framework"
                              : "changes");
}

static void
add_subscription(struct table *table, struct slice subscription)
{
    table_add_member(table, subscription, "id");
    table_add_member(table, subscription, "state");
    table_add_member(table, subscription, "lag");
    add_topic(table, subscription);
    table_add_time(table, subscription, "lastSuccess");
    table_add_time(table, subscription, "nextTry");
    table_add_member(table, subscription, "callback");
    table_add_member(table, subscription, "lastError");
}

static const struct broker_call_rows rows = {"subscriptions", headings,
                                             add_subscription};

static enum exit_code
run_list(const struct arguments *arguments)
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
run_show(const struct arguments *arguments)
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

/* Asks whether to end the subscription, with its callback. */
static void
confirm_end(struct broker_call *call)
{
    char callback[TEXT_MAX];

    if (!call->code)
        call->code = confirm_can_ask("subscriptions end cannot be undone");
    broker_call_send(call, "GET");
    if (call->code)
        return;
    plain_json_text(buf_slice(&call->json), "callback", callback,
                    sizeof(callback));
    call->code = confirm("ended", "End %s, whose callback is %s", call->url,
                         problem_quote(slice_of(callback)).text);
}

static enum exit_code
run_end(const struct arguments *arguments)
{
    struct broker_call call;

    begin_call(&call, arguments, "", NULL, NULL);
    if (!arguments->options[0])
        confirm_end(&call);
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
    .options = OPTIONS(list_options),
    .run = run_list,
};

const struct command subscriptions_show_command = {
    .name = "subscriptions show",
    .operands = "SET-URL ID",
    .help = "Shows all that the hub reports of one subscription.",
    .more = RELAY_TOO,
    .examples =
        "tidings subscriptions show http://127.0.0.1:8787/sets/demo 2\n",
    .options = OPTIONS(show_options),
    .run = run_show,
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
