/*
 * parser_pool.h - a cache of readers of posts: a new parser costs more than a
 * small post.
 *
 * Any thread.
 */
#ifndef BROKER_SETS_PARSER_POOL_H
#define BROKER_SETS_PARSER_POOL_H

#include <pthread.h>
#include <stddef.h>

#include "proto/input_formats.h"

/* Readers of all formats: the broker seldom reads more posts at once. */
#define READERS_KEPT 64

struct readers {
    pthread_mutex_t mutex;

    struct {
        const struct format *format;
        struct reader *reader;
    } kept[READERS_KEPT];

    size_t n;
};

void readers_init(struct readers *readers);
void readers_fini(struct readers *readers);

/* Returns a reader of that format, ready for a post; the caller gives it back.
 * NULL: no memory. */
struct reader *readers_take(struct readers *readers,
                            const struct format *format, change_fn *on_change,
                            void *user);

/* NULL is allowed. */
void readers_give(struct readers *readers, const struct format *format,
                  struct reader *reader);

#endif
