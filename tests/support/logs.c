#include "tests/support/logs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/store/store.h"
#include "proto/resourcesync/document_write.h"
#include "tests/test.h"

static void *
on_set(struct log_set *set, struct slice settings, struct slice harvest,
       struct list_limits *limits, void *user)
{
    struct logs *l = user;

    (void)settings;
    (void)harvest;
    (void)limits;

    assert_true(l->n_sets < 8);
    l->sets[l->n_sets++] = set;
    return l;
}

/* Writes a header from all of its inputs. */
static void
on_header(struct log_set *set, const struct head *head,
          const struct list_info *info, struct buf *header, void *user)
{
    (void)user;
    buf_add_format(header, "<urlset %s %s %llu %llu>\n", log_set_name(set),
                   head->epoch, (unsigned long long)info->after,
                   (unsigned long long)info->last);
}

static void
on_closed(void *user)
{
    struct logs *l = user;

    l->n_closed++;
}

void
logs_open(struct logs *l, const char *dir, uint64_t entries)
{
    struct problem why = {""};

    memset(l, 0, sizeof(*l));
    l->options = (struct log_options){
        .dir = dir,
        .open_engine = store_open,
        .limits = {entries, DOCUMENT_BYTES_MAX},
        .tail_bytes = 64 << 20,
        .on_set = on_set,
        .on_header = on_header,
        .on_closed = on_closed,
        .user = l,
        .wake_user = l,
    };
    if (log_open(&l->log, &l->options, &why))
        fail_msg("%s", why.text);
}

void
logs_close(struct logs *l)
{
    log_close(l->log);
    l->log = NULL;
}

struct log_set *
logs_set(struct logs *l, const char *name)
{
    for (unsigned i = 0; i < l->n_sets; i++)
        if (!strcmp(log_set_name(l->sets[i]), name))
            return l->sets[i];
    return log_set_new(l->log, name, 0, l);
}

struct waited {
    struct post post;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done;
};

static void
on_done(struct post *post)
{
    struct waited *w = list_entry(post, struct waited, post);

    pthread_mutex_lock(&w->mutex);
    w->is_done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

static void
submit_and_wait(struct logs *l, struct waited *w)
{
    w->post.done = on_done;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    assert_int_equal(log_submit(l->log, &w->post, NULL), STATUS_OK);
    pthread_mutex_lock(&w->mutex);
    while (!w->is_done)
        pthread_cond_wait(&w->changed, &w->mutex);
    pthread_mutex_unlock(&w->mutex);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
}

static void
add_change(struct post *post, unsigned n, int64_t source_us)
{
    char loc[64];
    struct change change;

    change_init(&change);
    snprintf(loc, sizeof(loc), "http://example.com/r/%u", n);
    change.loc = slice_of(loc);
    change.kind = CHANGE_UPDATED;
    change.datetime_us = source_us;
    assert_int_equal(fragment_write(&post->bytes, &change,
                                    &post->fragments[post->n_fragments++],
                                    NULL),
                     STATUS_OK);
}

static enum status
post_changes(struct logs *l, struct log_set *set, unsigned from, unsigned n,
             int64_t source_us, uint64_t *first, uint64_t *last)
{
    struct waited w = {.post = {.kind = POST_CHANGES, .set = set}};

    buf_init(&w.post.bytes, SIZE_MAX);
    w.post.fragments = calloc(n, sizeof(*w.post.fragments));
    assert_non_null(w.post.fragments);
    for (unsigned i = 0; i < n; i++)
        add_change(&w.post, from + i, source_us);
    submit_and_wait(l, &w);
    if (first)
        *first = w.post.first;
    if (last)
        *last = w.post.last;
    buf_fini(&w.post.bytes);
    free(w.post.fragments);
    return w.post.status;
}

enum status
logs_post(struct logs *l, struct log_set *set, unsigned from, unsigned n,
          uint64_t *first, uint64_t *last)
{
    return post_changes(l, set, from, n, DATETIME_NONE, first, last);
}

enum status
logs_post_at(struct logs *l, struct log_set *set, unsigned from, unsigned n,
             int64_t source_us)
{
    return post_changes(l, set, from, n, source_us, NULL, NULL);
}

uint64_t
logs_close_list(struct logs *l, struct log_set *set)
{
    struct waited w = {.post = {.kind = POST_CLOSE, .set = set}};

    submit_and_wait(l, &w);
    assert_int_equal(w.post.status, STATUS_OK);
    return w.post.ended;
}

void
logs_file_all(struct logs *l)
{
    struct problem why = {""};
    bool is_done = false;

    while (!is_done)
        if (log_file_list(l->log, &is_done, &why))
            fail_msg("%s", why.text);
}

uint64_t
logs_read_all(struct logs *l, struct log_set *set, uint64_t after,
              struct buf *fragments)
{
    struct problem why = {""};
    struct digest digest;
    bool has_digest = false;

    for (;;) {
        struct batch *b;
        struct slice bytes;

        if (log_read(l->log, set, after, LOG_DISK, &b, &why))
            fail_msg("%s", why.text);
        if (!b)
            return after;
        assert_in_range(after + 1, b->first, b->last);
        if (!has_digest)
            digest = batch_digest(b, after);
        has_digest = true;
        for (uint64_t n = after + 1; n <= b->last; n++)
            digest_add(&digest, batch_slice(b, n - 1, n));
        assert_memory_equal(digest.bytes, b->digest.bytes, DIGEST_SIZE);
        bytes = batch_slice(b, after, b->last);
        buf_add_slice(fragments, bytes);
        after = b->last;
        batch_unref(b);
    }
}
