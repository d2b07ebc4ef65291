/*
 * publish.c - posts changes.
 *
 * A post whose answer was lost is not repeated here: whoever gave it a key may
 * do so.
 */
#include <stdio.h>
#include <string.h>

#include "client/lib/answer.h"
#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/lib/set_url.h"

/* {"set":"...","first":1,"last":3,"position":"...","datetime":"..."} */
#define ANSWER_BYTES_MAX 65536

#define KEY_MAX 255

static enum td_status
read_receipt(struct td_client *client, struct slice body,
             struct td_receipt *receipt)
{
    struct answer_member members[] = {
        {.name = "first", .number = &receipt->first},
        {.name = "last", .number = &receipt->last},
        {.name = "position",
         .text = receipt->position,
         .size = sizeof(receipt->position)},
        {.name = "datetime",
         .text = receipt->datetime,
         .size = sizeof(receipt->datetime)},
    };
    size_t n_members = sizeof(members) / sizeof(members[0]);
    bool is_good = answer_read(body, members, n_members);

    for (size_t i = 0; i < n_members; i++)
        is_good = is_good && members[i].is_there;
    if (is_good)
        return TD_OK;
    return client_fail(client, TD_BROKEN,
                       "200, but the answer is no receipt of a post");
}

/* A header's value must not end its line. */
static bool
is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

/* What may stand in a header as it is, bare. */
static bool
is_key(const char *key)
{
    size_t size = strlen(key);

    for (const char *p = key; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || *p == '"' || *p == '\\')
            return false;
    return size >= 1 && size <= KEY_MAX;
}

enum td_status
td_publish(struct td_client *client, const char *set_url, const char *type,
           const char *key, const void *body, size_t size,
           struct td_receipt *receipt)
{
    struct set_url url;
    struct slice bytes = {body, size};
    char target[SET_URL_MAX + sizeof("/changes")];
    char content_type[256];
    char key_line[KEY_MAX + sizeof("Idempotency-Key: ")];
    const char *headers[] = {content_type, "Accept: application/json",
                             key ? key_line : NULL, NULL};
    struct fetch_request request = {target, headers, &bytes, ANSWER_BYTES_MAX};
    struct fetch_answer answer;
    struct td_receipt unwanted;
    enum td_status rc;

    client_begin(client);
    rc = set_url_read(client, set_url, &url);
    if (rc)
        return client_end(client, rc);
    if (!type || strlen(type) > 200 || !is_plain(type))
        return client_end(client,
                          client_fail(client, TD_INVALID, "not a media type"));
    if (key && !is_key(key))
        return client_end(
            client, client_fail(client, TD_INVALID, "not an idempotency key"));
    if (key)
        snprintf(key_line, sizeof(key_line), "Idempotency-Key: %s", key);
    snprintf(target, sizeof(target), "%s/changes", url.text);
    snprintf(content_type, sizeof(content_type), "Content-Type: %s", type);

    rc = fetch_run(client, &request, &answer);
    if (!rc && answer.status != 200)
        rc = fetch_refused(client, &answer);
    if (!rc)
        rc = read_receipt(client, buf_slice(&answer.body),
                          receipt ? receipt : &unwanted);
    buf_fini(&answer.body);
    return client_end(client, rc);
}
