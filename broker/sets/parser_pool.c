#include "broker/sets/parser_pool.h"

void
readers_init(struct readers *r)
{
    pthread_mutex_init(&r->mutex, NULL);
    r->n = 0;
}

void
readers_fini(struct readers *r)
{
    for (size_t i = 0; i < r->n; i++)
        reader_free(r->kept[i].reader);
    pthread_mutex_destroy(&r->mutex);
}

struct reader *
readers_take(struct readers *r, const struct format *format,
             change_fn *on_change, void *user)
{
    struct reader *reader = NULL;

    pthread_mutex_lock(&r->mutex);
    for (size_t i = r->n; i-- > 0 && !reader;) {
        if (r->kept[i].format != format)
            continue;
        reader = r->kept[i].reader;
        r->kept[i] = r->kept[--r->n];
    }
    pthread_mutex_unlock(&r->mutex);
    if (!reader)
        return reader_new(format, READER_POST, format_entries_max(format),
                          on_change, user);
    reader_reset(reader, on_change, user);
    return reader;
}

void
readers_give(struct readers *r, const struct format *format,
             struct reader *reader)
{
    if (!reader)
        return;
    pthread_mutex_lock(&r->mutex);
    if (r->n < READERS_KEPT) {
        r->kept[r->n].format = format;
        r->kept[r->n++].reader = reader;
        reader = NULL;
    }
    pthread_mutex_unlock(&r->mutex);
    reader_free(reader);
}
