#include "broker/posts/posts.h"

void
parser_pool_fini(struct parser_pool *pool)
{
    for (size_t i = 0; i < pool->n; i++)
        input_reader_free(pool->kept[i]);
    pthread_mutex_destroy(&pool->mutex);
}

struct input_reader *
parser_pool_take(struct parser_pool *pool, const struct format *format,
                 change_fn *on_change, void *user)
{
    struct input_reader *reader = NULL;

    pthread_mutex_lock(&pool->mutex);
    for (size_t i = pool->n; i-- > 0 && !reader;) {
        if (pool->kept[i]->format != format)
            continue;
        reader = pool->kept[i];
        pool->kept[i] = pool->kept[--pool->n];
    }
    pthread_mutex_unlock(&pool->mutex);
    if (!reader)
        return input_reader_new(format, INPUT_POST, format_entries_max(format),
                                on_change, user);
    input_reader_reset(reader, on_change, user);
    return reader;
}

void
parser_pool_give(struct parser_pool *pool, struct input_reader *reader)
{
    pthread_mutex_lock(&pool->mutex);
    if (reader && pool->n < PARSER_POOL_MAX) {
        pool->kept[pool->n++] = reader;
        reader = NULL;
    }
    pthread_mutex_unlock(&pool->mutex);
    input_reader_free(reader);
}

void
posts_init(struct posts *p, struct registry *registry)
{
    *p = (struct posts){
        .registry = registry,
        .parsers.mutex = PTHREAD_MUTEX_INITIALIZER,
        .keys.mutex = PTHREAD_MUTEX_INITIALIZER,
    };
}

void
posts_fini(struct posts *p)
{
    if (!p->registry)
        return;
    parser_pool_fini(&p->parsers);
    pending_keys_fini(&p->keys);
    p->registry = NULL;
}
