#include "broker/log/idempotency.h"

#include "broker/base/client_limits.h"
#include "broker/log/log_set.h"

/* No key has a line end, so the parts cannot be read otherwise. Clients of a
 * broker without tokens have no name. */
static struct digest
id_of(const struct post *post)
{
    struct digest id;

    digest_start(&id, slice_of(post->set->draft.epoch));
    digest_add(&id, post->key);
    if (post->key_owner.size > 0) {
        digest_add(&id, SLICE("\n"));
        digest_add(&id, post->key_owner);
    }
    return id;
}

/* The outcome of the first post with the key is that of `post`, too. */
static void
answer_repeat(const struct act_key *first, struct post *post)
{
    if (!digest_is_equal(&first->entries, &post->entries)) {
        post->status =
            problem(&post->why, STATUS_INVALID,
                    "the Idempotency-Key \"%s\" was given to a post of other "
                    "entries",
                    problem_quote(post->key).text);
        return;
    }
    post->status = STATUS_OK;
    post->is_repeat = true;
    memcpy(post->epoch, post->set->draft.epoch, sizeof(post->epoch));
    post->first = first->first;
    post->last = first->last;
    post->last_us = first->last_us;
}

enum idempotency_verdict
idempotency_judge(const struct acts *acts, struct engine *engine,
                  struct post *post)
{
    enum status rc = STATUS_NOT_FOUND;

    /* A set that does not exist has no keys. */
    if (post->set->draft.exists) {
        struct digest id = id_of(post);
        const struct act_key *first = acts_find_key(acts, &id);
        struct act_key stored;

        if (first) {
            answer_repeat(first, post);
            return IDEMPOTENCY_ROUND;
        }
        rc = engine->ops->find_key(engine, &id, &stored, &post->why);
        if (!rc)
            answer_repeat(&stored, post);
        else if (rc != STATUS_NOT_FOUND)
            post->status = rc;
    }
    if (rc != STATUS_NOT_FOUND)
        return IDEMPOTENCY_SETTLED;
    if (engine->ops->has_key_room(engine, acts->n_of[ACT_KEY] + 1, acts->at_us))
        return IDEMPOTENCY_NEW;
    post->status = problem(&post->why, STATUS_BUSY,
                           "more posts came with an Idempotency-Key than this "
                           "broker remembers");
    return IDEMPOTENCY_SETTLED;
}

enum status
idempotency_add(struct acts *acts, const struct post *post)
{
    const struct act act = {
        .kind = ACT_KEY,
        .key = {.id = id_of(post),
                .entries = post->entries,
                .first = post->first,
                .last = post->last,
                .last_us = post->last_us},
    };

    return acts_add(acts, post->set, &act);
}

/* Shares */

struct key_share {
    struct map_node node;  /* its hash is the address of the client */
    struct client *client; /* owned reference */
    uint64_t n;
};

void
idempotency_fini(struct idempotency_shares *s)
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
idempotency_take(struct idempotency_shares *s, struct engine *engine,
                 int64_t at_us, struct post *post)
{
    struct client *client = post->client;
    int64_t since_us = engine->ops->keys_since(engine, at_us);
    uint64_t hash = (uint64_t)(uintptr_t)client >> 4;
    struct key_share *share;
    struct map_node *node;

    if (!client)
        return STATUS_OK;
    if (since_us != s->since_us)
        idempotency_fini(s);
    s->since_us = since_us;
    node = map_find(&s->by_client, hash);
    if (node) {
        share = map_entry(node, struct key_share, node);
    } else {
        share = memory_new(1, sizeof(*share));
        share->client = client_ref(client);
        map_add(&s->by_client, &share->node, hash);
    }
    post->status =
        clients_take(clients_of(client), client, CLIENT_KEYS, 1, &post->why);
    if (!post->status) {
        share->n++;
        post->key_share = share;
    }
    return post->status;
}

void
idempotency_give(struct post *post)
{
    struct key_share *share = post->key_share;

    post->key_share = NULL;
    if (!share)
        return;
    share->n--;
    clients_give(clients_of(share->client), share->client, CLIENT_KEYS, 1);
}
