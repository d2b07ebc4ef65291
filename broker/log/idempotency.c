#include "broker/log/idempotency.h"

#include "broker/base/client_limits.h"
#include "broker/log/log_set.h"

/* Of a post that is about to be placed. */
static size_t
n_new_keys(const struct post *post)
{
    return post_n_keys(post) - post->n_known;
}

/* No key has a line end, so the parts cannot be read otherwise, and no key is
 * that of an event. Clients of a broker without tokens have no name. */
static struct digest
id_of(const struct post *post, const struct post_event *event)
{
    struct digest id;

    digest_sha256(&id, slice_of(post->set->draft.origin));
    if (post->n_events > 0) {
        digest_add(&id, SLICE("\n"));
        digest_add(&id,
                   (struct slice){(const char *)event->key.bytes, DIGEST_SIZE});
    } else {
        digest_add(&id, post->key);
    }
    if (post->key_owner.size > 0) {
        digest_add(&id, SLICE("\n"));
        digest_add(&id, post->key_owner);
    }
    return id;
}

/* Finds the first post with that key. IDEMPOTENCY_NEW: there was none;
 * otherwise `first` is its outcome, unless post->status has a failure. */
static enum idempotency_verdict
find_first(const struct acts *acts, struct engine *engine, struct post *post,
           const struct digest *id, struct act_key *first)
{
    const struct act_key *of_round;
    enum status rc;

    if (!post->set->draft.exists)
        return IDEMPOTENCY_NEW; /* a set that does not exist has no keys */
    of_round = acts_find_key(acts, id);
    if (of_round) {
        *first = *of_round;
        return IDEMPOTENCY_ROUND;
    }
    rc = engine->ops->find_key(engine, id, first, &post->why);
    if (rc == STATUS_NOT_FOUND)
        return IDEMPOTENCY_NEW;
    post->status = rc;
    return IDEMPOTENCY_SETTLED;
}

/* Looks for an event, and notes what is known of it. `entry` is the number of
 * its first entry in the post. */
static enum idempotency_verdict
judge_event(const struct acts *acts, struct engine *engine, struct post *post,
            struct post_event *event, uint64_t entry)
{
    struct digest id = id_of(post, event);
    struct act_key first;
    enum idempotency_verdict verdict =
        find_first(acts, engine, post, &id, &first);

    event->is_known = verdict != IDEMPOTENCY_NEW && !post->status;
    if (!event->is_known)
        return verdict;
    event->first = first.first;
    event->last = first.last;
    event->last_us = first.last_us;
    if (digest_is_equal(&first.entries, &event->entries))
        return verdict;
    post->status =
        post->n_events == 0
            ? problem(&post->why, STATUS_INVALID,
                      "the Idempotency-Key \"%s\" was given to a post of other "
                      "entries",
                      problem_quote(post->key).text)
            : problem(&post->why, STATUS_INVALID,
                      "an event of this source and id was posted before, with "
                      "other contents");
    if (post->n_events > 0)
        post->why.entry = entry;
    return verdict;
}

/* The outcome of a post whose events are all known is from the first of their
 * entries to the last. A post with a key is one event. */
enum idempotency_verdict
idempotency_judge(const struct acts *acts, struct engine *engine,
                  struct post *post)
{
    struct post_event whole = {.entries = post->entries};
    struct post_event *event = post->n_events > 0 ? post->events : &whole;
    enum idempotency_verdict all = IDEMPOTENCY_SETTLED, verdict;
    uint64_t entry = 1;

    post->n_known = 0;
    post->first = UINT64_MAX;
    post->last = 0;
    for (size_t n = post_n_keys(post); n > 0; n--, event++) {
        event->is_known = event->is_twin;
        if (!event->is_twin) {
            verdict = judge_event(acts, engine, post, event, entry);
            if (post->status)
                return verdict;
            if (verdict == IDEMPOTENCY_NEW ||
                (verdict == IDEMPOTENCY_ROUND && all == IDEMPOTENCY_SETTLED))
                all = verdict;
            if (event->is_known && event->first < post->first)
                post->first = event->first;
            if (event->is_known && event->last > post->last) {
                post->last = event->last;
                post->last_us = event->last_us;
            }
        }
        post->n_known += event->is_known;
        entry += event->n_fragments;
    }
    if (all != IDEMPOTENCY_NEW) {
        post->is_repeat = true;
        memcpy(post->epoch, post->set->draft.epoch, sizeof(post->epoch));
        return all;
    }
    if (engine->ops->has_key_room(
            engine, acts->n_of[ACT_KEY] + n_new_keys(post), acts->at_us))
        return IDEMPOTENCY_NEW;
    post->status = problem(&post->why, STATUS_BUSY,
                           "more posts came with an Idempotency-Key than this "
                           "broker remembers");
    return IDEMPOTENCY_SETTLED;
}

enum status
idempotency_add(struct acts *acts, const struct post *post,
                const struct post_event *event)
{
    const struct act act = {
        .kind = ACT_KEY,
        .key = {.id = id_of(post, event),
                .entries = event ? event->entries : post->entries,
                .first = event ? event->first : post->first,
                .last = event ? event->last : post->last,
                .last_us = event ? event->last_us : post->last_us},
    };

    return acts_add(acts, post->set, &act);
}

/* Shares */

struct key_share {
    struct map_node node; /* its hash is the address of the client */
    struct holding keys;
};

void
idempotency_fini(struct idempotency_shares *s)
{
    struct key_share *share;

    map_walk (share, &s->by_client, node) {
        map_remove(&s->by_client, &share->node);
        holding_end(&share->keys);
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
        holding_init(&share->keys, clients_of(client), client, CLIENT_KEYS);
        map_add(&s->by_client, &share->node, hash);
    }
    post->status = clients_take(clients_of(client), client, CLIENT_KEYS,
                                n_new_keys(post), &post->why);
    if (!post->status) {
        share->keys.n += n_new_keys(post);
        post->key_share = share;
    }
    return post->status;
}

void
idempotency_give(struct post *post)
{
    struct key_share *share = post->key_share;

    post->key_share = NULL;
    if (share)
        holding_release(&share->keys, n_new_keys(post));
}
