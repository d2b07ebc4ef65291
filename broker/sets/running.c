#include "broker/sets/running.h"

#include "base/clock.h"

void
running_init(struct running *r)
{
    pthread_mutex_init(&r->mutex, NULL);
    for (int i = 0; i < RUNNING_LISTS; i++)
        list_init(&r->lists[i]);
}

void
running_fini(struct running *r)
{
    pthread_mutex_destroy(&r->mutex);
}

/* FNV-1a. A source that picks colliding keys makes one list as long as the
 * number of posts at work at most. */
static uint32_t
mix(uint32_t hash, struct slice text)
{
    for (size_t i = 0; i < text.size; i++)
        hash = (hash ^ (unsigned char)text.data[i]) * 16777619u;
    return hash;
}

static struct list *
list_for(struct running *r, const struct running_post *post)
{
    return &r->lists[mix(mix(2166136261u, post->set), post->key) %
                     RUNNING_LISTS];
}

static bool
is_silent(struct running_post *post)
{
    int64_t heard_us =
        atomic_load_explicit(&post->heard_us, memory_order_relaxed);

    return clock_steady_us() - heard_us >= RUNNING_SILENCE_US;
}

bool
running_begin(struct running *r, struct running_post *post)
{
    struct list *list = list_for(r, post);
    struct list *node, *after;
    bool is_there = false;

    running_heard(post);
    pthread_mutex_lock(&r->mutex);
    list_foreach (node, after, list) {
        struct running_post *p = list_entry(node, struct running_post, node);

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
running_heard(struct running_post *post)
{
    atomic_store_explicit(&post->heard_us, clock_steady_us(),
                          memory_order_relaxed);
}

void
running_whole(struct running_post *post)
{
    atomic_store_explicit(&post->heard_us, INT64_MAX, memory_order_relaxed);
}

void
running_end(struct running *r, struct running_post *post)
{
    if (!post->has_begun)
        return;
    pthread_mutex_lock(&r->mutex);
    list_remove(&post->node);
    pthread_mutex_unlock(&r->mutex);
    post->has_begun = false;
}
