#include "broker/log/keys.h"

#include <stdlib.h>
#include <string.h>

#include "broker/log/set.h"

static struct digest
id_of(const struct post *post)
{
    struct digest id;

    digest_start(&id, slice_of(post->set->draft.epoch));
    digest_add(&id, post->key);
    return id;
}

static bool
is_equal(const struct digest *a, const struct digest *b)
{
    return !memcmp(a->bytes, b->bytes, DIGEST_SIZE);
}

/* One after the other: a round has less than ROUND_BYTES / KEYS_COMMIT_BYTES,
 * some 400. */
static const struct engine_key *
find(const struct keys *keys, const struct digest *id)
{
    for (size_t i = 0; i < keys->n; i++)
        if (is_equal(&keys->made[i].id, id))
            return &keys->made[i];
    return NULL;
}

/* The outcome of the first post with the key is that of `post`, too. */
static void
repeat(const struct engine_key *first, struct post *post)
{
    if (!is_equal(&first->entries, &post->entries)) {
        post->status =
            problem(&post->why, STATUS_INVALID,
                    "the Idempotency-Key \"%s\" was given to a post of other "
                    "entries",
                    problem_quote(post->key).text);
        return;
    }
    post->status = STATUS_OK;
    memcpy(post->epoch, post->set->draft.epoch, sizeof(post->epoch));
    post->first = first->first;
    post->last = first->last;
    post->last_us = first->last_us;
}

enum keys_verdict
keys_judge(const struct keys *keys, struct engine *engine, struct post *post)
{
    enum status rc = STATUS_NOT_FOUND;

    /* A set that does not exist has no keys. */
    if (post->set->draft.exists) {
        struct digest id = id_of(post);
        const struct engine_key *first = find(keys, &id);
        struct engine_key stored;

        if (first) {
            repeat(first, post);
            return KEYS_ROUND;
        }
        rc = engine->ops->find_key(engine, &id, &stored, &post->why);
        if (!rc)
            repeat(&stored, post);
        else if (rc != STATUS_NOT_FOUND)
            post->status = rc;
    }
    if (rc != STATUS_NOT_FOUND)
        return KEYS_SETTLED;
    if (engine->ops->has_key_room(engine, keys->n + 1))
        return KEYS_NEW;
    post->status = problem(&post->why, STATUS_BUSY,
                           "more posts came with an Idempotency-Key than this "
                           "broker remembers");
    return KEYS_SETTLED;
}

enum status
keys_add(struct keys *keys, const struct post *post)
{
    if (keys->n == keys->capacity) {
        size_t n = keys->capacity ? keys->capacity * 2 : 16;
        struct engine_key *made = realloc(keys->made, n * sizeof(*made));

        if (!made)
            return STATUS_MEMORY;
        keys->made = made;
        keys->capacity = n;
    }
    keys->made[keys->n++] = (struct engine_key){
        .id = id_of(post),
        .entries = post->entries,
        .first = post->first,
        .last = post->last,
        .last_us = post->last_us,
    };
    return STATUS_OK;
}

void
keys_clear(struct keys *keys)
{
    keys->n = 0;
}

void
keys_fini(struct keys *keys)
{
    free(keys->made);
    *keys = (struct keys){NULL, 0, 0};
}
