#include "broker/posts/pending_keys.h"

#include "base/clock.h"

void
pending_keys_init(struct pending_keys *r)
{
    pthread_mutex_init(&r->mutex, NULL);
    for (int i = 0; i < PENDING_KEYS_LISTS; i++)
        list_init(&r->lists[i]);
}

void
pending_keys_fini(struct pending_keys *r)
{
    pthread_mutex_destroy(&r->mutex);
}

/* FNV-1a. A source that picks colliding keys makes one list as long as the
 * number of posts at work at most. */
static uint32_t
mix_hash(uint32_t hash, struct slice text)
{
    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ (unsigned char)text.data[i]) * 16777619u;
    return hash;
}

static struct list *
list_for(struct pending_keys *r, const struct pending_keys_post *post)
{
    return &r->lists[mix_hash(mix_hash(2166136261u, post->set), post->key) %
                     PENDING_KEYS_LISTS];
}

static bool
is_silent(struct pending_keys_post *post)
{
    int64_t heard_us =
        atomic_load_explicit(&post->heard_us, memory_order_relaxed);

    return clock_steady_us() - heard_us >= PENDING_KEYS_SILENCE_US;
}

bool
pending_keys_begin(struct pending_keys *r, struct pending_keys_post *post)
{
    struct list *list = list_for(r, post);
    struct list *node, *after;
    bool is_there = false;

    pending_keys_heard(post);
    pthread_mutex_lock(&r->mutex);
    list_foreach (node, after, list) {
        struct pending_keys_post *p =
            list_entry(node, struct pending_keys_post, node);

        if (slice_equal(p->key, post->key) && slice_equal(p->set, post->set)) {
            is_there = !is_silent(p);
            if (!is_there)
                list_remove(node); /* not in a list any more */
            break;
        }
    }
    if (!is_there)
        list_append(list, &post->node);
    pthread_mutex_unlock(&r->mutex);
    post->has_begun = !is_there;
    return !is_there;
}

void
pending_keys_heard(struct pending_keys_post *post)
{
    atomic_store_explicit(&post->heard_us, clock_steady_us(),
                          memory_order_relaxed);
}

void
pending_keys_whole(struct pending_keys_post *post)
{
    atomic_store_explicit(&post->heard_us, INT64_MAX, memory_order_relaxed);
}

void
pending_keys_end(struct pending_keys *r, struct pending_keys_post *post)
{
    if (!post->has_begun)
        return;
    pthread_mutex_lock(&r->mutex);
    list_remove(&post->node);
    pthread_mutex_unlock(&r->mutex);
    post->has_begun = false;
}
