/*
 * set.c - creates, changes, describes, removes and lists sets.
 */
#include "client/source/set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client.h"
#include "client/lib/fetch.h"
#include "client/lib/json_fields.h"
#include "client/lib/set_url.h"
#include "client/source/discovery.h"

/* More than any description of a set has. */
#define ANSWER_BYTES_MAX 262144

/* Runs one request. `suffix`: appended to the URL of the set. */
static enum status
exchange_settings(struct td_client *client, const char *set_url,
                  const char *suffix, const char *method,
                  const struct slice *body, struct fetch_answer *answer)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: application/json", NULL};
    char target[SET_URL_MAX + 16];
    char url[SET_URL_MAX + 1];
    struct fetch_request request = {.url = target,
                                    .headers = body ? headers : headers + 1,
                                    .body = body,
                                    .max_bytes = ANSWER_BYTES_MAX,
                                    .method = method};
    enum status rc;

    buf_init(&answer->body, ANSWER_BYTES_MAX);
    rc = set_url_read(client, set_url, url);
    if (!rc) {
        snprintf(target, sizeof(target), "%s%s", url, suffix);
        rc = fetch_run(client, &request, answer);
    }
    if (!rc && answer->status / 100 != 2)
        rc = fetch_refused(&client->problem, answer);
    return rc;
}

enum td_status
set_send(struct td_client *client, const char *set_url, const char *suffix,
         const char *method, struct slice json, unsigned *status)
{
    struct fetch_answer answer = {.status = 0};
    enum status rc;

    client_begin(client);
    rc = exchange_settings(client, set_url, suffix, method, &json, &answer);
    *status = answer.status;
    buf_fini(&answer.body);
    return client_end(client, rc);
}

enum td_status
td_set_create(struct td_client *client, const char *set_url,
              const char *settings, size_t size)
{
    unsigned status = 0;

    return set_send(client, set_url, "?new=yes", "PUT",
                    (struct slice){settings, size}, &status);
}

enum td_status
td_set_put(struct td_client *client, const char *set_url, const char *settings,
           size_t size, int *is_new)
{
    unsigned status = 0;
    enum td_status rc = set_send(client, set_url, "", "PUT",
                                 (struct slice){settings, size}, &status);

    if (!rc && is_new)
        *is_new = status == 201;
    return rc;
}

enum td_status
td_set_change(struct td_client *client, const char *set_url, const char *change,
              size_t size, int may_discard)
{
    unsigned status = 0;

    return set_send(client, set_url, may_discard ? "?discard=yes" : "", "PATCH",
                    (struct slice){change, size}, &status);
}

enum td_status
td_set_delete(struct td_client *client, const char *set_url)
{
    struct fetch_answer answer;
    enum status rc;

    client_begin(client);
    rc = exchange_settings(client, set_url, "", "DELETE", NULL, &answer);
    buf_fini(&answer.body);
    return client_end(client, rc);
}

/* Hands the values of the description over. */
static enum status
read_description(struct td_client *client, struct slice body,
                 td_member_fn *on_member, void *user)
{
    enum status rc = json_members_read(body, on_member, user);

    if (rc == STATUS_MEMORY)
        return problem_memory(&client->problem);
    return rc ? client_fail(client, STATUS_MALFORMED,
                            "the answer is no description of a set")
              : STATUS_OK;
}

enum td_status
td_set_get(struct td_client *client, const char *set_url,
           td_member_fn *on_member, void *user, char **json)
{
    struct fetch_answer answer;
    enum status rc;

    if (json)
        *json = NULL;
    client_begin(client);
    rc = exchange_settings(client, set_url, "", NULL, NULL, &answer);
    if (!rc && on_member)
        rc = read_description(client, buf_slice(&answer.body), on_member, user);
    if (!rc && json) {
        *json = slice_dup(buf_slice(&answer.body));
        if (!*json)
            rc = problem_memory(&client->problem);
    }
    buf_fini(&answer.body);
    return client_end(client, rc);
}

/* The sets of a source */

struct set_listing {
    struct td_client *client;
    td_set_fn *on_set;
    void *user;
    const char *url;
    size_t n_sets;
    size_t n_missed;
    struct problem missed; /* the first */
    struct problem why;
    bool has_no_memory;
    bool is_over;
};

static void
on_set(struct offered *offered, const struct problem *missed, void *user)
{
    struct set_listing *l = user;
    bool is_new;

    if (!missed &&
        text_set_add(&l->client->found, slice_of(offered->url), &is_new))
        l->has_no_memory = true;
    l->n_sets += !missed;
    if (missed && l->n_missed++ == 0)
        l->missed = *missed;
    l->on_set(offered->url, missed ? missed->text : NULL, l->user);
}

static void
on_end(const struct problem *why, void *user)
{
    struct set_listing *l = user;

    l->why = *why;
    if (l->has_no_memory)
        problem_memory(&l->why);
    else if (!why->rc && l->n_missed > 0) {
        l->why = l->missed;
        problem_prefix(&l->why, l->missed.rc,
                       "%zu of %zu sets of %.300s cannot be read: ",
                       l->n_missed, l->n_sets + l->n_missed, l->url);
    }
    l->is_over = true;
}

enum td_status
td_sets(struct td_client *client, const char *url, td_set_fn *on_each,
        void *user)
{
    struct set_listing l = {.client = client,
                            .on_set = on_each,
                            .user = user,
                            .url = url ? url : ""};
    struct discovery *discovery;
    enum status rc;

    client_begin(client);
    if (client_add_source(client, url))
        return client_end(client, STATUS_MEMORY);
    discovery = discovery_start(client, l.url, on_set, on_end, &l);
    if (!discovery)
        return client_end(client, problem_memory(&client->problem));
    rc = client_until(client, &l.is_over);
    if (!l.is_over)
        discovery_free(discovery);
    else
        rc = client_told(client, &l.why);
    return client_end(client, rc);
}
