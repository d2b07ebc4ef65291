/*
 * fetch_run.c - an exchange as one call, and the meaning of a refusal.
 */
#include <stdio.h>
#include <string.h>

#include "client/lib/fetch.h"
#include "client/lib/json_fields.h"

/* Meanings */

enum status
fetch_meaning(unsigned status)
{
    if (status == 410)
        return STATUS_GONE;
    if (status == 408 || status == 429 || status >= 500)
        return STATUS_UNREACHABLE;
    return STATUS_REFUSED;
}

enum status
fetch_refused(struct problem *why, const struct fetch_answer *answer)
{
    char detail[800] = "";
    char title[100] = "the server refused";
    char place[80] = "";
    uint64_t entry = 0;
    uint64_t line = 0;
    struct json_fields_member members[] = {
        {.name = "detail", .text = detail, .size = sizeof(detail)},
        {.name = "title", .text = title, .size = sizeof(title)},
        {.name = "entry", .number = &entry},
        {.name = "line", .number = &line},
    };
    bool is_read = json_fields_read(buf_slice(&answer->body), members,
                                    sizeof(members) / sizeof(members[0]));

    if (is_read && entry && line)
        snprintf(place, sizeof(place),
                 "entry %llu, line %llu: ", (unsigned long long)entry,
                 (unsigned long long)line);
    else if (is_read && (entry || line))
        snprintf(place, sizeof(place), "%s %llu: ", entry ? "entry" : "line",
                 (unsigned long long)(entry ? entry : line));
    why->http_status = answer->status;
    why->retry_after_s = answer->retry_after_s;
    return problem(why, fetch_meaning(answer->status), "%u: %s%s",
                   answer->status, place, detail[0] ? detail : title);
}

/* Blocking */

struct waiting {
    struct fetch_answer *answer;
    struct problem why;
    bool is_over;
};

static void
on_waited(struct fetch_answer *answer, const struct problem *why, void *user)
{
    struct waiting *w = user;

    *w->answer = *answer;
    buf_init(&answer->body, 0);
    w->answer->url = w->answer->type = w->answer->etag = "";
    w->answer->last_modified = w->answer->location = w->answer->link = "";
    w->answer->date = w->answer->content_range = "";
    w->why = *why;
    w->is_over = true;
}

enum status
fetch_run(struct td_client *client, const struct fetch_request *request,
          struct fetch_answer *answer)
{
    struct waiting w = {.answer = answer};
    struct fetch_request own = *request;
    struct fetch *fetch;
    enum status rc;

    memset(answer, 0, sizeof(*answer));
    buf_init(&answer->body, 0);
    own.is_own = true;
    fetch = fetch_start(client, &own, NULL, on_waited, &w);
    if (!fetch)
        return problem_memory(&client->problem);
    rc = client_until(client, &w.is_over);
    if (rc) {
        answer->is_sent = true; /* it may be */
        fetch_free(fetch);
        return rc;
    }
    return client_told(client, &w.why);
}

void
fetch_answer_fini(struct fetch_answer *answer)
{
    buf_fini(&answer->body);
}

enum status
client_refused(struct td_client *client, const struct fetch_answer *answer)
{
    return fetch_refused(&client->problem, answer);
}
