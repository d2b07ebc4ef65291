/*
 * sets.c - td_sets: the sets of a source.
 */
#include <string.h>

#include "client/source/discovery.h"

struct listing {
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
    struct listing *l = user;

    if (!missed && !client_note_found(l->client, offered->url))
        l->has_no_memory = true;
    l->n_sets += !missed;
    if (missed && l->n_missed++ == 0)
        l->missed = *missed;
    l->on_set(offered->url, missed ? missed->text : NULL, l->user);
}

static void
on_end(const struct problem *why, void *user)
{
    struct listing *l = user;

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
    struct listing l = {.client = client,
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
