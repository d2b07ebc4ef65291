/*
 * parser_pool.h - keeps the parsers of posts for later posts: a new parser
 * costs more than a small post.
 *
 * Any thread.
 */
#ifndef BROKER_POSTS_PARSER_POOL_H
#define BROKER_POSTS_PARSER_POOL_H

#include <pthread.h>
#include <stddef.h>

#include "proto/input_formats.h"

/* Parsers of all formats: the broker seldom reads more posts at once. */
#define PARSER_POOL_MAX 64

struct parser_pool {
    pthread_mutex_t mutex;

    struct {
        const struct format *format;
        struct reader *reader;
    } kept[PARSER_POOL_MAX];

    size_t n;
};

void parser_pool_init(struct parser_pool *pool);
void parser_pool_fini(struct parser_pool *pool);

/* Returns a parser of that format, ready for a post; the caller gives it back.
 * NULL: no memory. */
struct reader *parser_pool_take(struct parser_pool *pool,
                                const struct format *format,
                                change_fn *on_change, void *user);

/* NULL is allowed. */
void parser_pool_give(struct parser_pool *pool, const struct format *format,
                      struct reader *reader);

#endif
