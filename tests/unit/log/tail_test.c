#include "broker/log/tail.h"

#include <stdlib.h>
#include <string.h>

#include "broker/log/batch.h"
#include "broker/log/log.h"
#include "broker/log/log_set.h"
#include "tests/support/posts.h"
#include "tests/test.h"

#define BATCHES 24
#define EACH    3

/* Sets with a tail each, and batches to publish. */
struct fixture {
    struct tails all;
    struct log_set a, b;
    struct batch *batches[BATCHES];
    struct head head; /* of the batches published to a */
};

static int
setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->all.max = SIZE_MAX;
    tail_init(&f->a.tail);
    tail_init(&f->b.tail);
    posts_chain(f->batches, BATCHES, EACH);
    head_start(&f->head, POSTS_EPOCH, POSTS_TIME(0));
    *state = f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    tail_fini(&f->a.tail);
    tail_fini(&f->b.tail);
    free(f->all.queue);
    for (size_t i = 0; i < BATCHES; i++)
        batch_unref(f->batches[i]);
    free(f);
    return 0;
}

/* The tails have room for `n` batches. */
static void
limit(struct fixture *f, size_t n)
{
    f->all.max = n * batch_weight(f->batches[BATCHES - 1]);
}

/* Publishes batches `from` to `to` - 1 to `t` in one step. */
static void
publish(struct fixture *f, struct tail *t, size_t from, size_t to)
{
    struct batch *batches[BATCHES];

    for (size_t i = from; i < to; i++) {
        batches[i - from] = batch_ref(f->batches[i]);
        f->head.last = f->batches[i]->last;
        f->head.last_us = f->batches[i]->last_us;
        f->head.digest = f->batches[i]->digest;
    }
    tail_publish(&f->all, t, batches, to - from, &f->head);
}

static struct batch_code
code_of(const struct batch *b)
{
    return batch_code_of(&b->before, &b->digest,
                         (struct slice){b->bytes, b->size});
}

#define NONE BATCHES

/* The tail has batch `n` for the entry after `after`, or NONE. Returns its last
 * entry. */
static uint64_t
assert_found(struct fixture *f, struct tail *t, uint64_t after, size_t n)
{
    uint64_t last = 99;
    struct batch *b = tail_find(t, after, &last);

    assert_ptr_equal(b, n == NONE ? NULL : f->batches[n]);
    batch_unref(b);
    return last;
}

FIXTURE(setup, teardown);

/* design.md section 3: before the first commit there is no head. */
TEST(has_no_head_before_something_is_published)
{
    struct fixture *f = *state;
    struct head head;

    tail_head(&f->a.tail, &head);
    assert_false(head.exists);
    assert_int_equal(assert_found(f, &f->a.tail, 0, NONE), 0);
}

/* log.md, reading: the head and the batches it stands for appear together. */
TEST(shows_batches_and_the_head_they_lead_to_at_once)
{
    struct fixture *f = *state;
    struct head head;
    uint64_t last;

    publish(f, &f->a.tail, 0, 4);
    tail_head(&f->a.tail, &head);
    assert_true(head.exists);
    assert_int_equal(head.last, 4 * EACH);
    assert_memory_equal(&head, &f->head, sizeof(head));
    last = assert_found(f, &f->a.tail, 4 * EACH - 1, 3);
    assert_int_equal(last, 4 * EACH);
}

/* design.md section 1: any position finds the batch with the entry after it;
 * at the head there is none. */
TEST(finds_the_batch_that_holds_any_entry)
{
    struct fixture *f = *state;
    uint64_t last;

    for (size_t i = 0; i < BATCHES; i++)
        publish(f, &f->a.tail, i, i + 1);
    for (uint64_t after = 0; after < BATCHES * EACH; after++)
        assert_found(f, &f->a.tail, after, after / EACH);
    last = assert_found(f, &f->a.tail, BATCHES * EACH, NONE);
    assert_int_equal(last, BATCHES * EACH);
    assert_found(f, &f->a.tail, BATCHES * EACH + 1, NONE);
}

/* log.h: a view is the head and the batches from a position on, within its
 * limits: the first batch in any case. */
TEST(shows_the_head_with_the_batches_after_a_position)
{
    static const struct {
        uint64_t after, upto;
        size_t n_bytes; /* so many full batches' bytes */
        size_t first, n;
    } rows[] = {
        {0, UINT64_MAX, BATCHES, 0, BATCHES},
        {1, UINT64_MAX, BATCHES, 0, BATCHES}, /* in the middle of a batch */
        {EACH, UINT64_MAX, BATCHES, 1, BATCHES - 1},
        {0, 2 * EACH, BATCHES, 0, 2},
        {1, 2 * EACH + 1, BATCHES, 0, 3},
        {0, UINT64_MAX, 3, 0, 3},
        {1, UINT64_MAX, 3, 0, 4}, /* entry 1 does not count */
        {0, UINT64_MAX, 0, 0, 1},
        {BATCHES * EACH - 1, UINT64_MAX, BATCHES, BATCHES - 1, 1},
        {BATCHES * EACH, UINT64_MAX, BATCHES, 0, 0}, /* the head */
        {BATCHES * EACH + 1, UINT64_MAX, BATCHES, 0, 0},
        {4, 4, BATCHES, 1, 0},
    };
    struct fixture *f = *state;
    struct log_view view;

    log_view_open(&f->a, 0, UINT64_MAX, SIZE_MAX, &view);
    assert_false(view.head.exists);
    assert_int_equal(view.n, 0);
    publish(f, &f->a.tail, 0, BATCHES);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        log_view_open(&f->a, rows[i].after, rows[i].upto,
                      rows[i].n_bytes * f->batches[0]->size, &view);
        assert_memory_equal(&view.head, &f->head, sizeof(f->head));
        if (view.n != rows[i].n)
            fail_msg("row %zu: %zu batches", i, view.n);
        for (size_t k = 0; k < view.n; k++)
            assert_ptr_equal(view.batches[k], f->batches[rows[i].first + k]);
        log_view_close(&view);
    }
}

/* log.h: a view has so many batches at most, and lends them like any other
 * reader; of what the tail has released it shows nothing. */
TEST(shows_so_many_batches_at_most)
{
    struct fixture *f = *state;
    struct batch *batches[LOG_VIEW_BATCHES + 3];
    struct log_view view;

    posts_chain(batches, LOG_VIEW_BATCHES + 3, EACH);
    f->head.last = batches[LOG_VIEW_BATCHES + 2]->last;
    tail_publish(&f->all, &f->a.tail, batches, LOG_VIEW_BATCHES + 3, &f->head);
    log_view_open(&f->a, EACH, UINT64_MAX, SIZE_MAX, &view);
    assert_int_equal(view.n, LOG_VIEW_BATCHES);
    assert_ptr_equal(view.batches[0], batches[1]);
    tail_empty(&f->all, &f->a.tail);
    assert_int_equal(batch_time(view.batches[0], EACH + 1),
                     POSTS_TIME(EACH + 1));
    log_view_close(&view);
    log_view_open(&f->a, EACH, UINT64_MAX, SIZE_MAX, &view);
    assert_int_equal(view.head.last, f->head.last);
    assert_int_equal(view.n, 0);
}

/* A reference that was found keeps its batch after the tail has released it. */
TEST(lends_batches_that_outlive_the_tail)
{
    struct fixture *f = *state;
    struct batch *b;
    uint64_t last;

    publish(f, &f->a.tail, 0, 1);
    b = tail_find(&f->a.tail, 0, &last);
    teardown(state);
    assert_int_equal(b->last, EACH);
    assert_int_equal(batch_time(b, 1), POSTS_TIME(1));
    batch_unref(b);
    setup(state);
}

/* Design rule 8: bounded in bytes; released batches are not found, and the head
 * stays. */
TEST(lets_go_of_the_oldest_beyond_its_bytes)
{
    struct fixture *f = *state;

    limit(f, 5);
    for (size_t i = 0; i < BATCHES; i++) {
        publish(f, &f->a.tail, i, i + 1);
        assert_true(f->all.bytes <= f->all.max);
    }
    for (uint64_t after = 0; after < BATCHES * EACH; after++) {
        size_t n = after / EACH < BATCHES - 5 ? NONE : after / EACH;

        assert_int_equal(assert_found(f, &f->a.tail, after, n), BATCHES * EACH);
    }
}

/* log.md, memory: the bytes are bounded over all sets, and the oldest batch of
 * any set goes first. */
TEST(lets_go_of_the_oldest_of_any_set)
{
    struct fixture *f = *state;

    limit(f, 4);
    publish(f, &f->a.tail, 0, 1);
    publish(f, &f->b.tail, 0, 1);
    publish(f, &f->a.tail, 1, 2);
    publish(f, &f->b.tail, 1, 2);
    publish(f, &f->b.tail, 2, 3); /* the first of a goes */
    assert_found(f, &f->a.tail, 0, NONE);
    assert_found(f, &f->b.tail, 0, 0);
    publish(f, &f->b.tail, 3, 4); /* the first of b goes */
    assert_found(f, &f->b.tail, 0, NONE);
    assert_found(f, &f->a.tail, EACH, 1);
}

/* A batch whose list has no file yet is remembered when it goes: it comes back
 * from the disk to be filed, and need not have its digests added up then. */
TEST(remembers_what_is_to_be_filed)
{
    struct fixture *f = *state;
    struct batch *made[3];

    posts_chain(made, 3, 400);
    for (size_t i = 0; i < 3; i++) {
        made[i]->list = i + 1;
        batch_unref(f->batches[i]);
        f->batches[i] = made[i];
    }
    f->head.filed = 1;
    publish(f, &f->a.tail, 0, 3);
    for (size_t i = 0; i < 3; i++)
        assert_false(verified_batches_have(code_of(made[i])));

    f->all.max = 0;
    publish(f, &f->b.tail, 3, 4);
    assert_false(verified_batches_have(code_of(made[0])));
    assert_true(verified_batches_have(code_of(made[1])));
    assert_true(verified_batches_have(code_of(made[2])));
}

/* log.md, reading: forms count in the tail's bytes. */
TEST(makes_room_for_forms)
{
    struct fixture *f = *state;
    uint64_t last;

    limit(f, 4);
    publish(f, &f->a.tail, 0, 3);
    atomic_fetch_add(&f->all.forms, f->all.max);
    publish(f, &f->a.tail, 3, 4);
    assert_found(f, &f->a.tail, 0, NONE);
    last = assert_found(f, &f->a.tail, 4 * EACH - 1, NONE);
    assert_int_equal(last, 4 * EACH);
    assert_int_equal(f->all.bytes, 0);
}

/* An emptied tail goes on with the next batch. */
TEST(goes_on_after_everything_was_let_go)
{
    struct fixture *f = *state;

    f->all.max = 0;
    publish(f, &f->a.tail, 0, 9);
    assert_int_equal(f->all.bytes, 0);
    f->all.max = SIZE_MAX;
    publish(f, &f->a.tail, 9, 10);
    assert_found(f, &f->a.tail, 9 * EACH - 1, NONE);
    assert_found(f, &f->a.tail, 9 * EACH, 9);
}

/* A list that ends without entries changes the head alone. */
TEST(publishes_a_head_without_batches)
{
    struct fixture *f = *state;
    struct head head;

    publish(f, &f->a.tail, 0, 1);
    f->head.list = 2;
    publish(f, &f->a.tail, 0, 0);
    tail_head(&f->a.tail, &head);
    assert_int_equal(head.list, 2);
    assert_int_equal(head.last, EACH);
}

/* Threads */

struct reader {
    pthread_t id;
    struct fixture *f;
    struct watch watch;
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    bool is_woken;
    uint64_t after; /* how far it has come */
    uint64_t missed;
    bool is_wrong;
};

static void
wake(struct watch *watch)
{
    struct reader *r = list_entry(watch, struct reader, watch);

    pthread_mutex_lock(&r->mutex);
    r->is_woken = true;
    pthread_cond_signal(&r->woken);
    pthread_mutex_unlock(&r->mutex);
}

static void
sleep_until_woken(struct reader *r)
{
    pthread_mutex_lock(&r->mutex);
    while (!r->is_woken)
        pthread_cond_wait(&r->woken, &r->mutex);
    r->is_woken = false;
    pthread_mutex_unlock(&r->mutex);
}

/* True if the batches of a view are consecutive and end at its head, or it has
 * none. */
static bool
is_of_one_moment(const struct log_view *view, uint64_t after)
{
    for (size_t i = 0; i < view->n; i++) {
        if (view->batches[i]->first > after + 1 ||
            view->batches[i]->last <= after)
            return false;
        after = view->batches[i]->last;
    }
    return view->n == 0 || after == view->head.last;
}

/* Reads all published entries, and skips released ones. */
static void *
follow(void *user)
{
    struct reader *r = user;

    log_watch(&r->f->a, &r->watch);
    while (r->after < BATCHES * EACH) {
        struct log_view view;
        uint64_t last;
        struct batch *b;

        log_view_open(&r->f->a, r->after, UINT64_MAX, SIZE_MAX, &view);
        r->is_wrong |= !is_of_one_moment(&view, r->after);
        log_view_close(&view);
        b = tail_find(&r->f->a.tail, r->after, &last);
        if (b) {
            r->is_wrong |= b->first > r->after + 1 || b->last <= r->after ||
                           batch_time(b, b->last) != POSTS_TIME(b->last);
            r->after = b->last;
            batch_unref(b);
        } else if (last > r->after) {
            r->missed++;
            r->after++;
        } else {
            sleep_until_woken(r);
        }
    }
    log_unwatch(&r->f->a, &r->watch);
    return NULL;
}

#define READERS 3

static void
publish_to_readers(struct fixture *f, struct reader *readers)
{
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.f = f, .watch.wake = wake};
        pthread_mutex_init(&readers[i].mutex, NULL);
        pthread_cond_init(&readers[i].woken, NULL);
        assert_int_equal(
            pthread_create(&readers[i].id, NULL, follow, &readers[i]), 0);
    }
    for (size_t i = 0; i < BATCHES; i++)
        publish(f, &f->a.tail, i, i + 1);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].id, NULL);
        pthread_cond_destroy(&readers[i].woken);
        pthread_mutex_destroy(&readers[i].mutex);
    }
}

static void
assert_all_come_to_the_end(void **state, size_t max_batches, bool misses)
{
    for (int round = 0; round < 20; round++) {
        struct reader readers[READERS];

        limit(*state, max_batches);
        publish_to_readers(*state, readers);
        for (int i = 0; i < READERS; i++) {
            assert_int_equal(readers[i].after, BATCHES * EACH);
            assert_true(misses || readers[i].missed == 0);
            assert_false(readers[i].is_wrong);
        }
        teardown(state);
        setup(state);
    }
}

/* log.md, reading: no wake is lost; every reader sees every entry. */
TEST(wakes_every_reader_for_every_entry)
{
    assert_all_come_to_the_end(state, (size_t)2 * BATCHES, false);
}

/* Design rule 6: a slow reader misses memory, never order; nobody waits. */
TEST(gives_readers_what_is_left_while_it_lets_go)
{
    assert_all_come_to_the_end(state, 2, true);
}
