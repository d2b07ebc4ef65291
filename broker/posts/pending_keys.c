#include "broker/posts/pending_keys.h"

#include "base/clock.h"
#include "base/relaxed.h"

void
pending_keys_fini(struct pending_keys *r)
{
    map_fini(&r->posts);
    pthread_mutex_destroy(&r->mutex);
}

/* Takes the post off; the caller holds the mutex. */
static void
remove_post(struct pending_keys *r, struct pending_keys_post *post)
{
    if (post->is_listed)
        map_remove(&r->posts, &post->node);
    post->is_listed = false;
}

bool
pending_keys_begin(struct pending_keys *r, struct pending_keys_post *post)
{
    struct pending_keys_post *other = NULL, *p;
    uint64_t hash;

    pending_keys_heard(post);
    pthread_mutex_lock(&r->mutex);
    hash = map_hash(&r->posts, post->key);
    map_each_same (p, &r->posts, hash, node)
        if (slice_equal(p->key, post->key) && slice_equal(p->set, post->set) &&
            slice_equal(p->owner, post->owner))
            other = p;
    post->has_begun =
        !other || clock_steady_us() - load_relaxed(&other->heard_us) >=
                      PENDING_KEYS_SILENCE_US;
    if (post->has_begun) {
        if (other)
            remove_post(r, other);
        map_add(&r->posts, &post->node, hash);
        post->is_listed = true;
    }
    pthread_mutex_unlock(&r->mutex);
    return post->has_begun;
}

void
pending_keys_heard(struct pending_keys_post *post)
{
    store_relaxed(&post->heard_us, clock_steady_us());
}

void
pending_keys_whole(struct pending_keys_post *post)
{
    store_relaxed(&post->heard_us, INT64_MAX);
}

void
pending_keys_end(struct pending_keys *r, struct pending_keys_post *post)
{
    if (!post->has_begun)
        return;
    pthread_mutex_lock(&r->mutex);
    remove_post(r, post);
    pthread_mutex_unlock(&r->mutex);
    post->has_begun = false;
}
