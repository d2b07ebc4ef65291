/*
 * posts.h - what the posts of a broker share: the pool of parsers, the keys at
 * work, and the checker of content.
 *
 *     socket, hub, MQTT --> ingest.h ----------------------------> the log
 *                             |                                       ^
 *                             +--> content_check.h (some sets) -------+
 *     multipart/related --> multipart_post.h --> ingest.h
 *
 * Any thread.
 */
#pragma once

#include <pthread.h>

#include "broker/posts/pending_keys.h"
#include "broker/sets/registry.h"
#include "proto/input/input_formats.h"

struct ingest;

/* Takes a post over, or fails. Any thread. */
typedef enum status posts_check_fn(struct ingest *ingest, void *user,
                                   struct problem *why);

/* The parsers of posts are kept for later posts: a new parser costs more than a
 * small post. So many of all formats: the broker seldom reads more posts at
 * once. */
#define PARSER_POOL_MAX 64

/* Zero, but for the mutex. */
struct parser_pool {
    pthread_mutex_t mutex;
    struct input_reader *kept[PARSER_POOL_MAX];
    size_t n;
};

struct posts {
    struct registry *registry;
    struct parser_pool parsers;
    struct pending_keys keys;

    /* The checker, which looks for the content of posts without parts
     * (ingest.h); set before the first post. NULL: posts are not checked. */
    posts_check_fn *check;
    void *check_user;
};

void posts_init(struct posts *posts, struct registry *registry);
void posts_fini(struct posts *posts); /* after all posts; repeatable */

void parser_pool_fini(struct parser_pool *pool);

/* Returns a parser of that format, ready for a post, to be given back. Never
 * NULL: proto/memory.h. */
struct input_reader *parser_pool_take(struct parser_pool *pool,
                                      const struct format *format,
                                      change_fn *on_change, void *user);

/* NULL is allowed. */
void parser_pool_give(struct parser_pool *pool, struct input_reader *reader);
