#include "broker/log/tail.h"

#include <stdlib.h>
#include <string.h>

#include "broker/log/cursor.h"
#include "broker/log/set.h"
#include "tests/support/posts.h"
#include "tests/test.h"

#define BATCHES 24
#define EACH    3

/* Sets with a tail each, and batches to publish. */
struct fixture {
    struct tails all;
    struct log_set a, b;
    struct batch *batches[BATCHES];
    struct head head; /* of what was published to a */
};

static void
open_with(struct fixture *f, size_t max_bytes)
{
    memset(f, 0, sizeof(*f));
    tails_init(&f->all, max_bytes);
    tail_init(&f->a.tail);
    tail_init(&f->b.tail);
    posts_chain(f->batches, BATCHES, EACH);
    lists_start(&f->head, POSTS_EPOCH, POSTS_TIME(0));
}

static void
close_all(struct fixture *f)
{
    tail_fini(&f->a.tail);
    tail_fini(&f->b.tail);
    tails_fini(&f->all);
    for (size_t i = 0; i < BATCHES; i++)
        batch_unref(f->batches[i]);
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

/* design.md section 3: before the first commit there is no head. */
TEST(has_no_head_before_something_is_published)
{
    struct fixture f;
    struct head head;
    uint64_t last = 99;

    open_with(&f, SIZE_MAX);
    tail_head(&f.a.tail, &head);
    assert_false(head.exists);
    assert_null(tail_find(&f.a.tail, 0, &last));
    assert_int_equal(last, 0);
    close_all(&f);
}

/* log.md, reading: the head and the batches it stands for appear together. */
TEST(shows_batches_and_the_head_they_lead_to_at_once)
{
    struct fixture f;
    struct batch *b;
    struct head head;
    uint64_t last;

    open_with(&f, SIZE_MAX);
    publish(&f, &f.a.tail, 0, 4);
    tail_head(&f.a.tail, &head);
    assert_true(head.exists);
    assert_int_equal(head.last, 4 * EACH);
    assert_memory_equal(&head, &f.head, sizeof(head));
    b = tail_find(&f.a.tail, 4 * EACH - 1, &last);
    assert_ptr_equal(b, f.batches[3]);
    assert_int_equal(last, 4 * EACH);
    batch_unref(b);
    close_all(&f);
}

/* design.md section 1: any position finds the batch with the entry after it;
 * at the head there is none. */
TEST(finds_the_batch_that_holds_any_entry)
{
    struct fixture f;
    uint64_t last;

    open_with(&f, SIZE_MAX);
    for (size_t i = 0; i < BATCHES; i++)
        publish(&f, &f.a.tail, i, i + 1);
    for (uint64_t after = 0; after < BATCHES * EACH; after++) {
        struct batch *b = tail_find(&f.a.tail, after, &last);

        assert_ptr_equal(b, f.batches[after / EACH]);
        batch_unref(b);
    }
    assert_null(tail_find(&f.a.tail, BATCHES * EACH, &last));
    assert_int_equal(last, BATCHES * EACH);
    assert_null(tail_find(&f.a.tail, BATCHES * EACH + 1, &last));
    close_all(&f);
}

/* A reference that was found keeps its batch, whatever the tail lets go. */
TEST(lends_batches_that_outlive_the_tail)
{
    struct fixture f;
    struct batch *b;
    uint64_t last;

    open_with(&f, SIZE_MAX);
    publish(&f, &f.a.tail, 0, 1);
    b = tail_find(&f.a.tail, 0, &last);
    close_all(&f);
    assert_int_equal(b->last, EACH);
    assert_int_equal(batch_time(b, 1), POSTS_TIME(1));
    batch_unref(b);
}

/* Design rule 8: bounded in bytes; what was let go is not found, and the head
 * stays. */
TEST(lets_go_of_the_oldest_beyond_its_bytes)
{
    struct fixture f;
    uint64_t last;

    open_with(&f, 0);
    f.all.max = 5 * batch_weight(f.batches[BATCHES - 1]);
    for (size_t i = 0; i < BATCHES; i++) {
        publish(&f, &f.a.tail, i, i + 1);
        assert_true(f.all.bytes <= f.all.max);
    }
    for (uint64_t after = 0; after < BATCHES * EACH; after++) {
        struct batch *b = tail_find(&f.a.tail, after, &last);

        assert_int_equal(last, BATCHES * EACH);
        if (after / EACH < BATCHES - 5)
            assert_null(b);
        else
            assert_ptr_equal(b, f.batches[after / EACH]);
        batch_unref(b);
    }
    close_all(&f);
}

/* log.md, memory: the bytes are bounded over all sets, and the oldest batch of
 * any set goes first. */
TEST(lets_go_of_the_oldest_of_any_set)
{
    struct fixture f;
    struct batch *b;
    uint64_t last;

    open_with(&f, 0);
    f.all.max = 4 * batch_weight(f.batches[BATCHES - 1]);
    publish(&f, &f.a.tail, 0, 1);
    publish(&f, &f.b.tail, 0, 1);
    publish(&f, &f.a.tail, 1, 2);
    publish(&f, &f.b.tail, 1, 2);
    publish(&f, &f.b.tail, 2, 3); /* the first of a goes */
    assert_null(tail_find(&f.a.tail, 0, &last));
    b = tail_find(&f.b.tail, 0, &last);
    assert_ptr_equal(b, f.batches[0]);
    batch_unref(b);
    publish(&f, &f.b.tail, 3, 4); /* the first of b goes */
    assert_null(tail_find(&f.b.tail, 0, &last));
    b = tail_find(&f.a.tail, EACH, &last);
    assert_ptr_equal(b, f.batches[1]);
    batch_unref(b);
    close_all(&f);
}

/* log.md, reading: forms count in the tail's bytes. */
TEST(makes_room_for_forms)
{
    struct fixture f;
    uint64_t last;

    open_with(&f, 0);
    f.all.max = 4 * batch_weight(f.batches[BATCHES - 1]);
    publish(&f, &f.a.tail, 0, 3);
    atomic_fetch_add(&f.all.forms, f.all.max);
    publish(&f, &f.a.tail, 3, 4);
    assert_null(tail_find(&f.a.tail, 0, &last));
    assert_null(tail_find(&f.a.tail, 4 * EACH - 1, &last));
    assert_int_equal(last, 4 * EACH);
    assert_int_equal(f.all.bytes, 0);
    close_all(&f);
}

/* A tail that was emptied takes up again with what comes next. */
TEST(goes_on_after_everything_was_let_go)
{
    struct fixture f;
    struct batch *b;
    uint64_t last;

    open_with(&f, 0);
    publish(&f, &f.a.tail, 0, 9);
    assert_int_equal(f.all.bytes, 0);
    f.all.max = SIZE_MAX;
    publish(&f, &f.a.tail, 9, 10);
    assert_null(tail_find(&f.a.tail, 9 * EACH - 1, &last));
    b = tail_find(&f.a.tail, 9 * EACH, &last);
    assert_ptr_equal(b, f.batches[9]);
    batch_unref(b);
    close_all(&f);
}

/* A list that ends without entries changes the head alone. */
TEST(publishes_a_head_without_batches)
{
    struct fixture f;
    struct head head;

    open_with(&f, SIZE_MAX);
    publish(&f, &f.a.tail, 0, 1);
    f.head.list = 2;
    publish(&f, &f.a.tail, 0, 0);
    tail_head(&f.a.tail, &head);
    assert_int_equal(head.list, 2);
    assert_int_equal(head.last, EACH);
    close_all(&f);
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

/* Reads all that is published; what was let go is passed over. */
static void *
follow(void *user)
{
    struct reader *r = user;

    cursor_watch(&r->f->a, &r->watch);
    while (r->after < BATCHES * EACH) {
        uint64_t last;
        struct batch *b = tail_find(&r->f->a.tail, r->after, &last);

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
    cursor_unwatch(&r->f->a, &r->watch);
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

/* log.md, reading: no wake is lost; every reader sees every entry. */
TEST(wakes_every_reader_for_every_entry)
{
    for (int round = 0; round < 20; round++) {
        struct reader readers[READERS];
        struct fixture f;

        open_with(&f, SIZE_MAX);
        publish_to_readers(&f, readers);
        for (int i = 0; i < READERS; i++) {
            assert_int_equal(readers[i].after, BATCHES * EACH);
            assert_int_equal(readers[i].missed, 0);
            assert_false(readers[i].is_wrong);
        }
        close_all(&f);
    }
}

/* Design rule 6: who is slow misses memory, never order; nobody waits. */
TEST(gives_readers_what_is_left_while_it_lets_go)
{
    for (int round = 0; round < 20; round++) {
        struct reader readers[READERS];
        struct fixture f;

        open_with(&f, 0);
        f.all.max = 2 * batch_weight(f.batches[BATCHES - 1]);
        publish_to_readers(&f, readers);
        for (int i = 0; i < READERS; i++) {
            assert_int_equal(readers[i].after, BATCHES * EACH);
            assert_false(readers[i].is_wrong);
        }
        close_all(&f);
    }
}
