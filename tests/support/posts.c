#include "tests/support/posts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/resourcesync/change.h"
#include "tests/test.h"

/* Bytes of a heavy link, about. */
#define LINK_BYTES 2000

static void
on_done(struct post *post)
{
    struct posted *p = list_entry(post, struct posted, post);

    pthread_mutex_lock(&p->mutex);
    p->is_done = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

void
posts_begin(struct posted *p, enum post_kind kind, struct log_set *set)
{
    memset(p, 0, sizeof(*p));
    list_init(&p->post.node);
    p->post.kind = kind;
    p->post.set = set;
    p->post.done = on_done;
    buf_init(&p->post.bytes, SIZE_MAX);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
}

void
posts_begin_act(struct posted *p, enum act_kind kind, struct log_set *set)
{
    posts_begin(p, POST_ACT, set);
    p->act.kind = kind;
    p->post.act = &p->act;
}

static struct fragment *
next_fragment(struct posted *p)
{
    if (p->post.n_fragments == p->capacity) {
        p->capacity = p->capacity ? p->capacity * 2 : 64;
        p->post.fragments =
            realloc(p->post.fragments, p->capacity * sizeof(struct fragment));
        assert_non_null(p->post.fragments);
    }
    return &p->post.fragments[p->post.n_fragments++];
}

void
posts_add(struct posted *p, unsigned number, size_t weight)
{
    struct link links[CHANGE_LINKS_MAX];
    struct change change;
    char href[LINK_BYTES], loc[64];

    memset(links, 0, sizeof(links));
    memset(href, 'x', sizeof(href));
    memcpy(href, "http://example.com/", 19);
    snprintf(loc, sizeof(loc), "http://example.com/r/%u", number);
    change_init(&change);
    change.loc = slice_of(loc);
    change.kind = CHANGE_UPDATED;
    change.links = links;
    for (size_t left = weight; left > 0; change.n_links++) {
        size_t size = left < LINK_BYTES ? left : LINK_BYTES;

        assert_true(change.n_links < CHANGE_LINKS_MAX);
        links[change.n_links] = (struct link){
            .rel = SLICE("related"),
            .href = {href, size < 20 ? 20 : size},
            .length = LENGTH_NONE,
            .modified_us = DATETIME_NONE,
        };
        left -= size;
    }
    assert_int_equal(
        fragment_write(&p->post.bytes, &change, next_fragment(p), NULL),
        STATUS_OK);
}

void
posts_add_many(struct posted *p, unsigned from, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        posts_add(p, from + i, 0);
}

enum status
posts_wait(struct posted *p)
{
    pthread_mutex_lock(&p->mutex);
    while (!p->is_done)
        pthread_cond_wait(&p->changed, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
    return p->post.status;
}

bool
posts_is_done(struct posted *p)
{
    bool is_done;

    pthread_mutex_lock(&p->mutex);
    is_done = p->is_done;
    pthread_mutex_unlock(&p->mutex);
    return is_done;
}

void
posts_end(struct posted *p)
{
    buf_fini(&p->post.bytes);
    free(p->post.fragments);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
}

struct batch *
posts_batch(const struct posted *p, uint64_t after, const struct digest *before,
            atomic_size_t *account)
{
    const struct post *post = &p->post;
    struct batch *b = batch_new(after, POSTS_TIME(after), before, account);
    size_t at = 0;

    assert_non_null(b);
    assert_int_equal(
        batch_reserve(b,
                      post->bytes.size + post->n_fragments * FRAGMENT_STAMP_MAX,
                      post->n_fragments),
        STATUS_OK);
    for (size_t i = 0; i < post->n_fragments; i++) {
        batch_add(b, post->bytes.data + at, &post->fragments[i],
                  POSTS_TIME(b->last + 1));
        at += post->fragments[i].size;
    }
    return b;
}

void
posts_chain(struct batch **batches, size_t n, unsigned each)
{
    struct digest before;
    uint64_t after = 0;

    digest_sha256(&before, SLICE(POSTS_EPOCH));
    for (size_t i = 0; i < n; i++) {
        struct posted p;

        posts_begin(&p, POST_CHANGES, NULL);
        posts_add_many(&p, (unsigned)after + 1, each);
        batches[i] = posts_batch(&p, after, &before, NULL);
        posts_end(&p);
        before = batches[i]->digest;
        after = batches[i]->last;
    }
}
