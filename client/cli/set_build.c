/*
 * set_build.c - tidings set rotate, set build: makes documents of a set now.
 */
#include <stdio.h>
#include <string.h>

#include "client/cli/broker_call.h"
#include "client/cli/cli.h"
#include "client/cli/plain_json.h"
#include "client/lib/client.h"

/* Longest URL of a document, in bytes. */
#define URL_MAX 4096

/* Between two requests for a document that is not ready. The broker holds each
 * for ten seconds; one that answers at once is not asked in a circle. */
#define PAUSE_MS 1000

static const struct option options[] = {
    {"json", NULL, .help = "the broker's JSON"},
};

/* Prints the URL that the answer has as `name`; "": there is none. */
static void
print_result(struct broker_call *call, const char *name, bool is_json)
{
    char url[URL_MAX];

    if (is_json || call->code) {
        broker_call_show(call, true);
        return;
    }
    plain_json_text(buf_slice(&call->json), name, url, sizeof(url));
    print_plain(url);
    putchar('\n');
}

static enum exit_code
run_rotate(const struct arguments *arguments)
{
    bool is_json = arguments->options[0] != NULL;
    struct broker_call call;
    char number[32];

    broker_call_begin(&call, arguments, arguments->operands[0], "/rotate");
    broker_call_send(&call, "POST");
    plain_json_text(buf_slice(&call.json), "closed", number, sizeof(number));
    if (!call.code && !number[0] && !is_json)
        say("the open Change List is empty and stays open");
    else
        print_result(&call, "list", is_json);
    return broker_call_end(&call);
}

/* Asks until the document is ready. */
static void
build(struct broker_call *call)
{
    broker_call_send(call, "POST");
    if (!call->code && call->status == 202)
        say("not ready yet; waiting");
    while (!call->code && call->status == 202)
        if (client_wait(call->client, PAUSE_MS))
            call->code = failed("stopped");
        else
            broker_call_send(call, "POST");
}

static enum exit_code
run_build(const struct arguments *arguments)
{
    const char *what = arguments->operands[0];
    bool is_dump = !strcmp(what, "resourcedump");
    struct broker_call call;

    if (!is_dump && strcmp(what, "resourcelist"))
        return bad_usage("set build builds a resourcelist or a resourcedump");
    broker_call_begin(&call, arguments, arguments->operands[1], "/%s", what);
    if (call.client) {
        signals_stop_client(call.client);
        build(&call);
        signals_end();
    }
    print_result(&call, is_dump ? "dump" : "list",
                 arguments->options[0] != NULL);
    return broker_call_end(&call);
}

const struct command set_rotate_command = {
    .name = "set rotate",
    .operands = "SET-URL",
    .help = "Closes the open Change List of a set, and prints its URL.",
    .more = "The next change begins a new list. A list without an entry stays "
            "open.",
    .examples = "tidings set rotate http://127.0.0.1:8787/sets/demo\n",
    .options = OPTIONS(options),
    .run = run_rotate,
};

const struct command set_build_command = {
    .name = "set build",
    .operands = "resourcelist|resourcedump SET-URL",
    .help = "Builds a Resource List or a Resource Dump, and prints its URL.",
    .more = "Waits until the document is ready. It has all changes that were "
            "posted before. A Resource Dump needs the bytes of all resources: "
            "the set stores them with content fetch or inline.",
    .examples =
        "tidings set build resourcelist http://127.0.0.1:8787/sets/demo\n",
    .options = OPTIONS(options),
    .run = run_build,
};
