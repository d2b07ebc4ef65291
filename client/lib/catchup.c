/*
 * catchup.c - the change memory, page by page.
 *
 * The link "next" of a page names the last event included, which is where the
 * caller stands when it has taken the page; so it is not followed but made.
 */
#include "client/lib/catchup.h"

#include <stdio.h>

#include "client/lib/fetch.h"
#include "proto/filter.h"
#include "proto/vocab.h"

enum td_status
catchup_init(struct catchup *catchup, enum td_form form, const char *filter)
{
    buf_init(&catchup->body, 0);
    catchup->filter = filter;
    return incoming_init(&catchup->message, form);
}

void
catchup_fini(struct catchup *catchup)
{
    incoming_fini(&catchup->message);
    buf_fini(&catchup->body);
}

enum td_status
catchup_page(struct catchup *catchup, struct td_client *client,
             const struct set_url *url, const struct position *after)
{
    const char *headers[] = {catchup->message.form == TD_XML
                                 ? "Accept: application/xml"
                                 : "Accept: application/json",
                             NULL};
    char position[POSITION_MAX];
    char target[SET_URL_MAX + sizeof("/changes?after=&") + POSITION_MAX +
                FILTER_TEXT_MAX];
    struct fetch_request request = {target, headers, NULL, DOCUMENT_BYTES_MAX};
    struct fetch_answer answer;
    struct problem why = {.text = ""};
    enum td_status rc;

    position_write(position, after->epoch, after->seq);
    snprintf(target, sizeof(target), "%s/changes?after=%s%s", url->text,
             position, catchup->filter);
    rc = fetch_run(client, &request, &answer);
    buf_fini(&catchup->body);
    catchup->body = answer.body;
    if (rc)
        return rc;
    if (answer.status != 200)
        return fetch_refused(client, &answer);

    rc = incoming_read(&catchup->message, buf_slice(&catchup->body), &why);
    if (rc == TD_BROKEN)
        client_fail(client, rc, "the change memory cannot be read: %s",
                    why.text);
    else if (rc)
        client_fail(client, rc, "no memory");
    return rc;
}
