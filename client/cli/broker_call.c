/*
 * broker_call.c - requests to a broker whose answers are JSON.
 */
#include "client/cli/broker_call.h"

#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/lib/json_fields.h"
#include "client/lib/json_slices.h"
#include "proto/json/json_parse.h"
#include "proto/uri.h"

/* A page of a thousand objects has about 1 MB. */
#define ANSWER_MAX (32 * 1024 * 1024)

#define NEXT_MAX 4096

const struct options rows_options = {
    &(const struct option){"json", .help = "an object of the broker a line"},
    1};
const struct options json_options = {
    &(const struct option){"json", .help = "the broker's JSON"}, 1};
const struct options yes_options = {
    &(const struct option){"yes", .help = "do not ask"}, 1};

void
broker_call_begin(struct broker_call *call, const struct arguments *arguments,
                  const char *url, const char *path)
{
    size_t size = strlen(url);

    *call = (struct broker_call){.client = NULL};
    if (!uri_is_web(url) || strpbrk(url, "?#")) {
        call->code = bad_usage("not the URL of a broker, set or relay: \"%s\"",
                               problem_quote(slice_of(url)).text);
        return;
    }
    while (url[size - 1] == '/')
        size--;
    if (asprintf(&call->url, "%.*s%s", (int)size, url, path) < 0)
        call->url = NULL;
    if (call->url)
        call->client = open_client(arguments, url, NULL, &call->code);
    else
        call->code = failed(NO_MEMORY);
}

enum exit_code
broker_call_end(struct broker_call *call)
{
    td_close(call->client);
    free(call->url);
    buf_fini(&call->json);
    return call->code;
}

void
broker_call_send(struct broker_call *call, const char *method)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    static const struct slice nothing = {"", 0};
    const struct fetch_request request = {
        .url = call->url,
        .headers = headers,
        .method = method,
        .body = strcmp(method, "POST") ? NULL : &nothing,
        .max_bytes = ANSWER_MAX,
        .is_own = true};
    struct fetch_answer answer;
    enum td_status end;
    enum status rc;

    if (call->code)
        return;
    client_begin(call->client);
    rc = fetch_run(call->client, &request, NULL, NULL, &answer);
    if (!rc && ((call->takes_refusals &&
                 (answer.status == 401 || answer.status == 403)) ||
                (call->takes_text && answer.status / 100 == 2)))
        buf_clear(&answer.body);
    else if (!rc && answer.status / 100 != 2)
        rc = fetch_refused(&call->client->problem, &answer);
    else if (!rc && answer.body.size)
        switch (json_parse_text(buf_slice(&answer.body), NULL, NULL, NULL)) {
        case STATUS_OK:
            break;
        case STATUS_MEMORY:
            rc = problem_memory(&call->client->problem);
            break;
        default:
            rc = client_fail(call->client, STATUS_MALFORMED,
                             "the answer is no JSON of a broker: %.300s",
                             call->url);
        }
    buf_fini(&call->json);
    call->status = answer.status;
    call->json = answer.body;
    end = client_end(call->client, rc);
    call->code =
        end == TD_STOPPED ? failed("stopped") : exit_of(call->client, end);
}

/* Reads one page, prints it, and sets call->url to the next one's. `table`:
 * NULL prints JSON. False: it was the last one, or the call has failed. */
static bool
print_page(struct broker_call *call, const struct broker_call_rows *rows,
           struct table *table)
{
    struct slice list, object;
    char after[NEXT_MAX]; /* a URL, or the number of the last object */
    const char *query;
    char *next = NULL;
    size_t n = 0;

    broker_call_send(call, "GET");
    if (call->code)
        return false;
    if (!json_slices_member(buf_slice(&call->json), rows->name, &list)) {
        call->code = failed("the answer has no \"%s\": %s", rows->name,
                            problem_quote(slice_of(call->url)).text);
        return false;
    }
    for (; json_slices_element(&list, &object); n++)
        if (table)
            (rows->add ? rows->add : table_add)(table, object);
        else
            plain_json_line(object);
    if (ferror(stdout)) {
        call->code = cannot_write(0);
        return false;
    }
    plain_json_text(buf_slice(&call->json), "next", after, sizeof(after));
    query = strchr(after, '?');
    if (after[0] &&
        asprintf(&next, "%.*s?%s%s", (int)strcspn(call->url, "?"), call->url,
                 query ? "" : "after=", query ? query + 1 : after) < 0)
        next = NULL;
    if (next && (!n || !strcmp(next, call->url)))
        call->code = failed("a page is empty and has a next one, or is its own "
                            "next one: %s",
                            problem_quote(slice_of(next)).text);
    if (next) {
        free(call->url);
        call->url = next;
    }
    return next && !call->code;
}

void
broker_call_list(struct broker_call *call, const struct broker_call_rows *rows,
                 bool is_json)
{
    struct table table = {.n_rows = 0};
    bool has_begun = false;

    if (!is_json)
        table_begin(&table, rows->columns);
    while (print_page(call, rows, is_json ? NULL : &table))
        has_begun = true;
    has_begun |= !call->code;
    if (!is_json && !table_end(&table))
        call->code = EXIT_FAILED;
    if (call->code && has_begun)
        say("the list is not complete");
    else if (!call->code && !is_json && !table.n_rows)
        say("no %s", rows->name);
}

void
broker_call_show(struct broker_call *call, bool is_json)
{
    if (!call->code && is_json)
        plain_json_line(buf_slice(&call->json));
    else if (!call->code &&
             json_members_read(buf_slice(&call->json), plain_json_pair, NULL))
        call->code = failed(NO_MEMORY); /* it is valid */
}
