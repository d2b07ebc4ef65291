#include "broker/log/key_shares.h"

#include <stdlib.h>

#include "broker/base/client_limits.h"
#include "proto/memory.h"

struct key_share {
    struct map_node node;  /* its hash is the address of the client */
    struct client *client; /* owned reference */
    uint64_t n;
};

/* Finds or makes the share of a client. */
static struct key_share *
share_of(struct key_shares *s, struct client *client)
{
    uint64_t hash = (uint64_t)(uintptr_t)client >> 4;
    struct map_node *node = map_find(&s->by_client, hash);
    struct key_share *share;

    if (node)
        return map_entry(node, struct key_share, node);
    share = memory_new(1, sizeof(*share));
    share->client = client_ref(client);
    map_add(&s->by_client, &share->node, hash);
    return share;
}

void
key_shares_fini(struct key_shares *s)
{
    struct map_node *after;
    struct key_share *share;

    map_each (share, after, &s->by_client, node) {
        map_remove(&s->by_client, &share->node);
        clients_give(clients_of(share->client), share->client, CLIENT_KEYS,
                     share->n);
        client_unref(share->client);
        free(share);
    }
    map_fini(&s->by_client);
}

enum status
key_shares_take(struct key_shares *s, struct engine *engine, int64_t at_us,
                struct post *post)
{
    struct client *client = post->client;
    int64_t since_us = engine->ops->keys_since(engine, at_us);
    struct key_share *share;

    if (!client)
        return STATUS_OK;
    if (since_us != s->since_us)
        key_shares_fini(s);
    s->since_us = since_us;
    share = share_of(s, client);
    post->status =
        clients_take(clients_of(client), client, CLIENT_KEYS, 1, &post->why);
    if (!post->status) {
        share->n++;
        post->key_share = share;
    }
    return post->status;
}

void
key_shares_give(struct post *post)
{
    struct key_share *share = post->key_share;

    post->key_share = NULL;
    if (!share)
        return;
    share->n--;
    clients_give(clients_of(share->client), share->client, CLIENT_KEYS, 1);
}
