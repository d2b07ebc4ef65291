/*
 * subscriptions_command.c - tidings subscriptions list, show, attempts, test,
 * redeliver, end: the WebSub subscriptions of a set or a relay.
 */

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
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
    struct buf path = {.max = FORM_MAX};

    if (strspn(id, "0123456789") != strlen(id) || strlen(id) > 20) {
        *call = (struct broker_call){
            .code = bad_usage("the ID of a subscription is a number, as "
                              "subscriptions list prints it")};
        return;
    }
    buf_add_format(&path, "/subscriptions%s%s%s", id[0] ? "/" : "", id, action);
    if (value) {
        BUF_ADD(&path, "?");
        urlencoded_add(&path, name, slice_of(value));
    }
    BUF_ADD(&path, "\0");
    if (path.failed)
        *call = (struct broker_call){
            .code = path.is_starved ? failed(NO_MEMORY)
                                    : bad_usage("--%s is too long", name)};
    else
        broker_call_begin(call, arguments, arguments->operands[0], path.data);
    buf_fini(&path);
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

static enum exit_code
run_subscription(const struct arguments *arguments)
{
    struct broker_call call;

    begin_call(&call, arguments, "", NULL, NULL);
    broker_call_send(&call, "GET");
    broker_call_show(&call, arguments->options[0] != NULL);
    return broker_call_end(&call);
}

/* Attempts */

/* "5-9", and how many of these entries there are, if a filter leaves some out.
 */
static void
write_entries(struct slice attempt, const char *member, char *to, size_t size)
{
    char first[24], last[24], n[24];

    plain_json_text(attempt, "first", first, sizeof(first));
    plain_json_text(attempt, "last", last, sizeof(last));
    plain_json_text(attempt, member, n, sizeof(n));
    if (!first[0])
        snprintf(to, size, "%s", "");
    else if (strtoull(last, NULL, 10) - strtoull(first, NULL, 10) + 1 ==
             strtoull(n, NULL, 10))
        snprintf(to, size, "%s-%s", first, last);
    else
        snprintf(to, size, "%s-%s (%s)", first, last, n);
}

/* The answer, or why there is none. */
static void
write_said(struct slice attempt, const char *member, char *to, size_t size)
{
    plain_json_text(attempt, member, to, size);
    if (!to[0])
        plain_json_text(attempt, "error", to, size);
}

static const struct table_column attempt_columns[] = {
    {"TIME", "time", table_time},
    {"KIND", "kind"},
    {"ENTRIES", "entries", write_entries},
    {"OUTCOME", "outcome"},
    {"STATUS", "status"},
    {"MS", "ms"},
    {"NEXT TRY", "nextTry", table_time},
    {"DELIVERY", "delivery"},
    {"ANSWER", "answer", write_said},
    {NULL}};

static const struct broker_call_rows attempt_rows = {"attempts",
                                                     attempt_columns};

static enum exit_code
run_attempts(const struct arguments *arguments)
{
    struct broker_call call;
    char since[40];

    begin_call(&call, arguments, "/attempts", NULL, NULL);
    broker_call_list(&call, &attempt_rows, arguments->options[0] != NULL);
    if (!call.code) {
        table_time(buf_slice(&call.json), "since", since, sizeof(since));
        if (since[0])
            say("none is missing since %s", since);
    }
    return broker_call_end(&call);
}

/* Prints the attempt that the call has made. EXIT_FAILED if the callback did
 * not take it. */
static enum exit_code
end_attempt(struct broker_call *call, bool is_json)
{
    char outcome[40];

    broker_call_send(call, "POST");
    broker_call_show(call, is_json);
    plain_json_text(buf_slice(&call->json), "outcome", outcome,
                    sizeof(outcome));
    if (!call->code && strcmp(outcome, "delivered"))
        call->code = EXIT_FAILED;
    return broker_call_end(call);
}

static enum exit_code
run_test(const struct arguments *arguments)
{
    struct broker_call call;

    begin_call(&call, arguments, "/test", NULL, NULL);
    return end_attempt(&call, arguments->options[0] != NULL);
}

enum { REDELIVER_AFTER, REDELIVER_DELIVERY };

static const struct option redeliver_options[] = {
    [REDELIVER_AFTER] = {"after", "POSITION",
                         .help = "deliveries go on behind this position"},
    [REDELIVER_DELIVERY] = {"delivery", "DELIVERY",
                            .help = "send this one again, and move nothing"},
};

static enum exit_code
run_redeliver(const struct arguments *arguments)
{
    const char *after = arguments->options[REDELIVER_AFTER],
               *delivery = arguments->options[REDELIVER_DELIVERY];
    struct broker_call call;

    if (!after == !delivery)
        return bad_usage("give --after, a position to go on from, or "
                         "--delivery, one to send again");
    if (delivery) {
        begin_call(&call, arguments, "/attempts", "delivery", delivery);
        return end_attempt(&call, false);
    }
    begin_call(&call, arguments, "/redeliver", "after", after);
    broker_call_send(&call, "POST");
    if (!call.code)
        puts("moved");
    return broker_call_end(&call);
}

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
    .options = &json_options,
    .run = run_subscription,
};

const struct command subscriptions_attempts_command = {
    .name = "subscriptions attempts",
    .operands = "SET-URL ID",
    .help = "Lists the last 50 attempts to deliver to a subscription.",
    .more =
        "The newest is first. ENTRIES is the range that a delivery covers, "
        "and in parentheses how many of them it has, where a filter leaves "
        "some out. ANSWER is the beginning of the callback's answer or, if "
        "none came, the reason. DELIVERY is the Tidings-Delivery, which "
        "subscriptions redeliver takes.\n\n"
        "The broker keeps attempts in memory. A last line on standard error "
        "says since when none is missing.\n\n" RELAY_TOO,
    .examples =
        "tidings subscriptions attempts http://127.0.0.1:8787/sets/demo 2\n",
    .options = &rows_options,
    .run = run_attempts,
};

const struct command subscriptions_test_command = {
    .name = "subscriptions test",
    .operands = "SET-URL ID",
    .help = "Sends a test to a subscription, and prints what came back.",
    .more = "A test is a message without entries, in the form of the "
            "subscription, signed as its deliveries are, with the header "
            "Tidings-Test: 1. Exit status 1: the callback did not take "
            "it.\n\n" RELAY_TOO,
    .examples =
        "tidings subscriptions test http://127.0.0.1:8787/sets/demo 2\n",
    .options = &json_options,
    .run = run_test,
};

const struct command subscriptions_redeliver_command = {
    .name = "subscriptions redeliver",
    .operands = "SET-URL ID",
    .help = "Moves a subscription to a position, or sends a delivery again.",
    .more =
        "With --after, the hub delivers all entries behind the position once "
        "more. With --delivery it sends that one delivery again, which "
        "subscriptions attempts lists, and the subscription stays where it "
        "is.\n\n"
        "Such a delivery has another Tidings-Delivery than the first one, so a "
        "callback that drops repeats takes it. With --delivery, exit status 1 "
        "says that the callback did not.\n\n" RELAY_TOO,
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
    .options = &yes_options,
    .run = run_end,
};
