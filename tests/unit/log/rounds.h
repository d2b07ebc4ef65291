/*
 * rounds.h - for tests of the log thread: a thread with two sets, before an
 * engine that keeps everything in memory, and waits and refuses on the test's
 * order.
 *
 *     FIXTURE(world_setup, world_teardown);
 *
 *     struct world *w = *state;
 *     struct posted *held = hold(w, changes(w, &w->a, 1)), *next;
 *
 *     next = submit(w, changes(w, &w->b, 2));
 *     set_shut(w, false);
 *     assert_kept(held, 1);
 *     assert_kept(next, 1);
 *
 * The log thread reads the options (w->options) when the next post is there.
 */
#ifndef TESTS_UNIT_LOG_ROUNDS_H
#define TESTS_UNIT_LOG_ROUNDS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/log/log_set.h"
#include "broker/log/log_thread.h"
#include "proto/resourcesync/document_write.h"
#include "tests/support/posts.h"
#include "tests/test.h"

#define KEPT_MAX 512

/* More than the lists of a test have. */
#define BACKLOG_MAX (1 << 30)

/* The engine. */
struct fake {
    struct engine engine;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    bool is_shut;       /* commits wait */
    unsigned n_waiting; /* that wait */
    unsigned n_commits; /* that were asked for */
    unsigned n_idle;    /* of these, without anything to keep */
    unsigned n_tidied;
    unsigned acceptances; /* so many commits are accepted, */
    unsigned refusals;    /* and then so many refused */
    unsigned to_forget;   /* so many commits have more to forget */
    bool is_held;         /* the thread stays between two rounds */
    bool is_unknown;      /* commits end with STATUS_IO */
    bool is_wrong;        /* a commit was not as it must be */
    uint32_t last_id;
    char births[8][SET_NAME_MAX + 1]; /* kept and refused */
    unsigned n_births;
    /* Kept facts: */
    struct batch *batches[KEPT_MAX];
    uint32_t sets[KEPT_MAX];
    unsigned in_commit[KEPT_MAX]; /* which commit it came with */
    unsigned n_batches;
    struct list_info ends[16];
    char headers[16][64];
    unsigned n_ends;
    uint64_t filed;
    char marks[16];
    struct act_key keys[KEPT_MAX];
    unsigned n_keys;
    unsigned n_finds;          /* that were asked for */
    bool is_out_of_keys;       /* there is no room for more */
    int64_t keys_since_us;     /* set while the log thread is idle */
    bool is_blind;             /* keys cannot be looked up */
    uint64_t place;            /* of the last commit that is in a journal */
    unsigned n_ahead;          /* were written ahead, */
    unsigned n_ahead_kept;     /* and then kept */
    const struct batch *ahead; /* the first one of the last call, which was such
                                  a write; else NULL */
};

static inline uint32_t
fake_next_id(struct engine *engine)
{
    return ((struct fake *)(void *)engine)->last_id + 1;
}

static inline void
fake_keep(struct fake *f, const struct act *act)
{
    switch (act->kind) {
    case ACT_BIRTH:
        f->last_id = act->set_id;
        break;
    case ACT_BATCH:
        f->sets[f->n_batches] = act->set_id;
        f->in_commit[f->n_batches] = f->n_commits;
        f->batches[f->n_batches++] =
            batch_ref((struct batch *)(uintptr_t)act->entries.batch);
        break;
    case ACT_LIST_END:
        snprintf(f->headers[f->n_ends], sizeof(f->headers[0]), "%.*s",
                 SLICE_ARG(act->list_end.header));
        f->ends[f->n_ends++] = act->list_end.info;
        break;
    case ACT_FILED:
        f->filed = act->filed.list;
        snprintf(f->marks, sizeof(f->marks), "%.*s",
                 SLICE_ARG(act->filed.marks));
        break;
    case ACT_KEY:
        f->keys[f->n_keys++] = act->key;
        break;
    default:
        break;
    }
}

static inline const struct batch *
fake_first_batch(const struct commit *commit)
{
    for (size_t i = 0; i < commit->n; i++)
        if (commit->acts[i].kind == ACT_BATCH)
            return commit->acts[i].entries.batch;
    return NULL;
}

static inline void
fake_write_ahead(struct engine *engine, const struct commit *commit)
{
    struct fake *f = (struct fake *)(void *)engine;

    pthread_mutex_lock(&f->mutex);
    f->n_ahead++;
    f->ahead = fake_first_batch(commit);
    pthread_mutex_unlock(&f->mutex);
}

static inline enum status
fake_commit(struct engine *engine, const struct commit *commit, bool *is_more,
            struct problem *why)
{
    struct fake *f = (struct fake *)(void *)engine;
    enum status rc = STATUS_OK;
    uint32_t id;

    pthread_mutex_lock(&f->mutex);
    f->n_waiting++;
    pthread_cond_broadcast(&f->changed);
    while (f->is_shut)
        pthread_cond_wait(&f->changed, &f->mutex);
    f->n_waiting--;
    f->n_commits++;
    f->n_idle += commit->n == 0;
    f->n_ahead_kept += commit->is_ahead;
    f->is_wrong |= commit->is_ahead && f->ahead != fake_first_batch(commit);
    f->ahead = NULL;
    id = f->last_id;
    for (size_t i = 0; i < commit->n; i++) {
        if (commit->acts[i].kind != ACT_BIRTH)
            continue;
        snprintf(f->births[f->n_births++], sizeof(f->births[0]), "%s",
                 commit->acts[i].name);
        f->is_wrong |= commit->acts[i].set_id != ++id;
    }
    if (f->is_unknown)
        rc = problem(why, STATUS_IO, "the disk went away");
    else if (f->acceptances > 0)
        f->acceptances--;
    else if (f->refusals > 0 && f->refusals--)
        rc = problem(why, STATUS_BUSY, "the disk is full");
    for (size_t i = 0; !rc && i < commit->n; i++)
        fake_keep(f, &commit->acts[i]);
    if (!rc && commit->place)
        f->place = commit->place->n;
    *is_more = f->to_forget > 0 && --f->to_forget > 0;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
    return rc;
}

static inline void
fake_tidy(struct engine *engine)
{
    struct fake *f = (struct fake *)(void *)engine;

    pthread_mutex_lock(&f->mutex);
    f->n_tidied++;
    pthread_cond_broadcast(&f->changed);
    while (f->is_held)
        pthread_cond_wait(&f->changed, &f->mutex);
    pthread_mutex_unlock(&f->mutex);
}

static inline enum status
fake_find_key(struct engine *engine, const struct digest *id,
              struct act_key *found, struct problem *why)
{
    struct fake *f = (struct fake *)(void *)engine;
    enum status rc = STATUS_NOT_FOUND;

    pthread_mutex_lock(&f->mutex);
    f->n_finds++;
    for (unsigned i = 0; i < f->n_keys; i++)
        if (!memcmp(f->keys[i].id.bytes, id->bytes, DIGEST_SIZE)) {
            *found = f->keys[i];
            rc = STATUS_OK;
        }
    if (f->is_blind)
        rc = problem(why, STATUS_IO, "the disk went away");
    pthread_mutex_unlock(&f->mutex);
    return rc;
}

static inline bool
fake_has_key_room(struct engine *engine, size_t n, int64_t at_us)
{
    struct fake *f = (struct fake *)(void *)engine;
    bool has_room;

    pthread_mutex_lock(&f->mutex);
    f->is_wrong |= n == 0 || at_us == 0;
    has_room = !f->is_out_of_keys;
    pthread_mutex_unlock(&f->mutex);
    return has_room;
}

static inline int64_t
fake_keys_since(struct engine *engine, int64_t at_us)
{
    struct fake *f = (struct fake *)(void *)engine;

    f->is_wrong |= at_us == 0;
    return f->keys_since_us;
}

static const struct engine_ops fake_ops = {
    .find_key = fake_find_key,
    .has_key_room = fake_has_key_room,
    .keys_since = fake_keys_since,
    .next_id = fake_next_id,
    .write_ahead = fake_write_ahead,
    .commit = fake_commit,
    .tidy = fake_tidy,
};

/* A log thread with its engine and two sets. */
struct world {
    struct fake fake;
    struct log_thread log_thread;
    struct tails tails;
    struct log_options options;
    struct unfiled_bytes unfiled;
    struct log_set a, b;
    atomic_uint n_closed;
    struct posted **posts; /* that the test has made */
    size_t n_posts;
};

static inline void
on_header(struct log_set *set, const struct head *head,
          const struct list_info *info, struct buf *header, void *user)
{
    (void)user;
    (void)head;
    buf_add_format(header, "%s %llu to %llu", set->name,
                   (unsigned long long)info->after,
                   (unsigned long long)info->last);
}

static inline void
on_closed(void *user)
{
    struct world *w = user;

    atomic_fetch_add(&w->n_closed, 1);
}

static inline void
begin_set(struct log_set *set, const char *name)
{
    snprintf(set->name, sizeof(set->name), "%s", name);
    tail_init(&set->tail);
    list_init(&set->touched);
}

static inline unsigned
count(struct world *w, const unsigned *counter)
{
    unsigned n;

    pthread_mutex_lock(&w->fake.mutex);
    n = *counter;
    pthread_mutex_unlock(&w->fake.mutex);
    return n;
}

static inline void
wait_for(struct world *w, const unsigned *counter, unsigned n)
{
    pthread_mutex_lock(&w->fake.mutex);
    while (*counter < n)
        pthread_cond_wait(&w->fake.changed, &w->fake.mutex);
    pthread_mutex_unlock(&w->fake.mutex);
}

static inline void
set_shut(struct world *w, bool is_shut)
{
    pthread_mutex_lock(&w->fake.mutex);
    w->fake.is_shut = is_shut;
    pthread_cond_broadcast(&w->fake.changed);
    pthread_mutex_unlock(&w->fake.mutex);
}

static inline void
set_held(struct world *w, bool is_held)
{
    pthread_mutex_lock(&w->fake.mutex);
    w->fake.is_held = is_held;
    pthread_cond_broadcast(&w->fake.changed);
    pthread_mutex_unlock(&w->fake.mutex);
}

/* The engine accepts `acceptances` commits, and refuses the `n` after them. */
static inline void
refuse_after(struct world *w, unsigned acceptances, unsigned n)
{
    pthread_mutex_lock(&w->fake.mutex);
    w->fake.acceptances = acceptances;
    w->fake.refusals = n;
    pthread_mutex_unlock(&w->fake.mutex);
}

static inline void
refuse(struct world *w, unsigned n)
{
    refuse_after(w, 0, n);
}

/* Lists of 50,000 entries; so many commits have more to forget. */
static inline struct world *
world_open(unsigned to_forget)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    w->fake.engine.ops = &fake_ops;
    w->fake.to_forget = to_forget;
    pthread_mutex_init(&w->fake.mutex, NULL);
    pthread_cond_init(&w->fake.changed, NULL);
    w->tails.max = SIZE_MAX;
    begin_set(&w->a, "a");
    begin_set(&w->b, "b");
    atomic_init(&w->n_closed, 0);
    w->options = (struct log_options){
        .limits = {50000, DOCUMENT_BYTES_MAX},
        .on_header = on_header,
        .on_closed = on_closed,
        .user = w,
        .wake_user = w,
    };
    w->log_thread.engine = &w->fake.engine;
    w->log_thread.tails = &w->tails;
    w->log_thread.options = &w->options;
    unfiled_bytes_init(&w->unfiled, BACKLOG_MAX, 0);
    w->log_thread.unfiled = &w->unfiled;
    assert_int_equal(log_thread_start(&w->log_thread, NULL), STATUS_OK);
    /* It begins with a look whether there is something to forget. */
    wait_for(w, &w->fake.n_tidied, 1);
    return w;
}

static inline int
world_setup(void **state)
{
    *state = world_open(0);
    return 0;
}

static inline int
world_teardown(void **state)
{
    struct world *w = *state;

    set_shut(w, false); /* after a failure */
    set_held(w, false);
    log_thread_stop(&w->log_thread);
    log_thread_fini(&w->log_thread);
    assert_false(w->fake.is_wrong);
    for (size_t i = 0; i < w->n_posts; i++) {
        posts_end(w->posts[i]);
        free(w->posts[i]);
    }
    free(w->posts);
    tail_fini(&w->a.tail);
    tail_fini(&w->b.tail);
    free(w->a.made);
    free(w->b.made);
    free(w->tails.queue);
    for (unsigned i = 0; i < w->fake.n_batches; i++)
        batch_unref(w->fake.batches[i]);
    pthread_cond_destroy(&w->fake.changed);
    pthread_mutex_destroy(&w->fake.mutex);
    free(w);
    return 0;
}

/* Posts. They live as long as the world. */

static inline struct posted *
make_post(struct world *w, enum post_kind kind, struct log_set *set)
{
    struct posted *p = malloc(sizeof(*p));

    w->posts = realloc(w->posts, (w->n_posts + 1) * sizeof(*w->posts));
    assert_true(p && w->posts);
    posts_begin(p, kind, set);
    return w->posts[w->n_posts++] = p;
}

static inline struct posted *
make_act(struct world *w, enum act_kind kind, struct log_set *set)
{
    struct posted *p = make_post(w, POST_ACT, set);

    p->act.kind = kind;
    p->post.act = &p->act;
    return p;
}

/* A post of `n` light entries. */
static inline struct posted *
changes(struct world *w, struct log_set *set, unsigned n)
{
    struct posted *p = make_post(w, POST_CHANGES, set);

    posts_add_many(p, 1, n);
    return p;
}

static inline void
give_key(struct posted *p, const char *key)
{
    p->post.key = slice_of(key);
    digest_sha256(&p->post.entries, buf_slice(&p->post.bytes));
}

static inline struct posted *
submit(struct world *w, struct posted *p)
{
    assert_int_equal(log_thread_submit(&w->log_thread, &p->post, true, NULL),
                     STATUS_OK);
    return p;
}

/* Has a round under way, which holds on before its commit, with `first`. */
static inline struct posted *
hold(struct world *w, struct posted *first)
{
    set_shut(w, true);
    submit(w, first);
    wait_for(w, &w->fake.n_waiting, 1);
    return first;
}

/* Waits: the post is kept, and `first` is the seq of its first entry. */
static inline void
assert_kept(struct posted *p, uint64_t first)
{
    assert_int_equal(posts_wait(p), STATUS_OK);
    assert_int_equal(p->post.first, first);
}

static inline void
assert_refused(struct posted *p, enum status status, const char *why)
{
    assert_int_equal(posts_wait(p), status);
    assert_string_equal(p->post.why.text, why);
}

/* Posts `n` light entries and waits. Any thread. */
static inline enum status
post(struct world *w, struct log_set *set, unsigned n, uint64_t *first)
{
    struct posted p;
    enum status rc;

    posts_begin(&p, POST_CHANGES, set);
    posts_add_many(&p, 1, n);
    submit(w, &p);
    rc = posts_wait(&p);
    if (first)
        *first = p.post.first;
    posts_end(&p);
    return rc;
}

static inline struct head
head_of(struct log_set *set)
{
    struct head head;

    tail_head(&set->tail, &head);
    return head;
}

/* Every batch has at most BATCH_BYTES_MAX, follows the one before in seq, time
 * and digest, and lies in one list, with the right number and size. */
static inline void
assert_batches_are_sound(const struct fake *f)
{
    struct digest digest = f->batches[0]->before;
    uint64_t last = 0, list = 1, list_bytes = 0;
    int64_t us = f->batches[0]->before_us;
    unsigned ends = 0;

    for (unsigned i = 0; i < f->n_batches; i++) {
        const struct batch *b = f->batches[i];

        assert_true(b->size <= BATCH_BYTES_MAX);
        assert_int_equal(b->first, last + 1);
        assert_int_equal(b->before_us, us);
        assert_memory_equal(b->before.bytes, digest.bytes, DIGEST_SIZE);
        for (uint64_t n = b->first; n <= b->last; n++)
            digest_add(&digest, batch_slice(b, n - 1, n));
        assert_memory_equal(b->digest.bytes, digest.bytes, DIGEST_SIZE);
        last = b->last;
        us = b->last_us;
        list_bytes += b->size;
        assert_int_equal(b->list, list);
        assert_int_equal(b->list_bytes, list_bytes);
        if (ends < f->n_ends && f->ends[ends].last <= last) {
            assert_int_equal(f->ends[ends].last, last);
            assert_int_equal(f->ends[ends].bytes, list_bytes);
            assert_int_equal(f->ends[ends].until_us, us);
            assert_memory_equal(f->ends[ends].digest.bytes, digest.bytes,
                                DIGEST_SIZE);
            list = f->ends[ends++].number + 1;
            list_bytes = 0;
        }
    }
    assert_int_equal(ends, f->n_ends);
}

#endif
