#include "broker/log/batch_cache.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "broker/log/log_set.h"
#include "tests/support/posts.h"
#include "tests/test.h"

#define BATCHES 6
#define EACH    4

/* A disk from which the cache reads, and the record of its reads. */
struct disk {
    struct batch_cache *cache;
    struct batch *batches[BATCHES];
    struct log_set a, b;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    unsigned reads;
    unsigned failures;      /* so many reads fail first */
    unsigned arriving;      /* threads about to ask */
    unsigned wait_arriving; /* a read waits for so many */
    struct log_set *gate;   /* reads of this set wait until is_open */
    bool is_open;
};

static const atomic_size_t no_forms;

/* More than the cache needs besides a batch, less than a batch. */
#define KEPT_MAX 100

static enum status
load(void *user, struct log_set *set, uint64_t after, struct batch **batch,
     struct problem *why)
{
    struct disk *disk = user;
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&disk->mutex);
    disk->reads++;
    pthread_cond_broadcast(&disk->changed);
    while (disk->arriving < disk->wait_arriving ||
           (set == disk->gate && !disk->is_open))
        pthread_cond_wait(&disk->changed, &disk->mutex);
    if (disk->failures > 0) {
        disk->failures--;
        rc = STATUS_IO;
    }
    pthread_mutex_unlock(&disk->mutex);

    *batch = NULL;
    if (rc)
        return problem(why, rc, "the disk is broken");
    for (int i = 0; i < 100; i++)
        sched_yield(); /* others that ask meanwhile must find the flight */
    if (after < BATCHES * EACH)
        *batch = batch_ref(disk->batches[after / EACH]);
    return STATUS_OK;
}

static int
setup(void **state)
{
    struct disk *disk = calloc(1, sizeof(*disk));

    assert_non_null(disk);
    disk->cache = batch_cache_new(1 << 20, &no_forms, load, disk);
    posts_chain(disk->batches, BATCHES, EACH);
    pthread_mutex_init(&disk->mutex, NULL);
    pthread_cond_init(&disk->changed, NULL);
    *state = disk;
    return 0;
}

static int
teardown(void **state)
{
    struct disk *disk = *state;

    batch_cache_free(disk->cache);
    for (size_t i = 0; i < BATCHES; i++)
        batch_unref(disk->batches[i]);
    pthread_cond_destroy(&disk->changed);
    pthread_mutex_destroy(&disk->mutex);
    free(disk);
    return 0;
}

/* A cache of another size. */
static void
resize(struct disk *disk, size_t bytes)
{
    batch_cache_free(disk->cache);
    disk->cache = batch_cache_new(bytes, &no_forms, load, disk);
}

/* Reads and asserts what comes. */
static void
read_one(struct disk *disk, struct log_set *set, uint64_t after)
{
    struct batch *b;

    assert_int_equal(batch_cache_read(disk->cache, set, after, &b, NULL),
                     STATUS_OK);
    assert_ptr_equal(b, disk->batches[after / EACH]);
    batch_unref(b);
}

FIXTURE(setup, teardown);

/* log.md, reading: a batch that was read serves the next readers, at any
 * entry. */
TEST(reads_a_batch_once_for_all_its_entries)
{
    struct disk *disk = *state;

    for (uint64_t after = EACH; after < 2 * EACH; after++)
        read_one(disk, &disk->a, after);
    assert_int_equal(disk->reads, 1);
    read_one(disk, &disk->a, EACH - 1);
    assert_int_equal(disk->reads, 2);
}

/* Entry 5 of one set is not entry 5 of another. */
TEST(keeps_sets_apart)
{
    struct disk *disk = *state;

    read_one(disk, &disk->a, 0);
    read_one(disk, &disk->b, 0);
    assert_int_equal(disk->reads, 2);
}

/* Design rule 8: bounded in bytes; the least recently used goes first. */
TEST(lets_go_of_the_least_recently_used)
{
    struct disk *disk = *state;

    resize(disk, 3 * (batch_weight(disk->batches[BATCHES - 1]) + KEPT_MAX));
    read_one(disk, &disk->a, 0 * EACH);
    read_one(disk, &disk->a, 1 * EACH);
    read_one(disk, &disk->a, 2 * EACH);
    read_one(disk, &disk->a, 0 * EACH); /* used again */
    assert_int_equal(disk->reads, 3);
    read_one(disk, &disk->a, 3 * EACH); /* the second goes */
    read_one(disk, &disk->a, 0 * EACH);
    read_one(disk, &disk->a, 2 * EACH);
    assert_int_equal(disk->reads, 4);
    read_one(disk, &disk->a, 1 * EACH);
    assert_int_equal(disk->reads, 5);
}

/* Even a batch that is larger than the cache serves who comes next. */
TEST(keeps_the_last_batch_however_large)
{
    struct disk *disk = *state;

    resize(disk, 1);
    read_one(disk, &disk->a, 0);
    read_one(disk, &disk->a, 1);
    assert_int_equal(disk->reads, 1);
    read_one(disk, &disk->a, EACH);
    read_one(disk, &disk->a, 0);
    assert_int_equal(disk->reads, 3);
}

/* The next reader repeats a failed read, and also a read that found nothing.
 */
TEST(keeps_neither_failures_nor_nothing)
{
    struct problem why = {""};
    struct batch *b;
    struct disk *disk = *state;

    disk->failures = 1;
    assert_int_equal(batch_cache_read(disk->cache, &disk->a, 0, &b, &why),
                     STATUS_IO);
    assert_string_equal(why.text, "the disk is broken");
    read_one(disk, &disk->a, 0);
    assert_int_equal(disk->reads, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            batch_cache_read(disk->cache, &disk->a, BATCHES * EACH, &b, NULL),
            STATUS_OK);
        assert_null(b);
    }
    assert_int_equal(disk->reads, 4);
}

/* A batch that is in use outlives the cache. */
TEST(lends_batches_that_outlive_it)
{
    struct batch *b;
    struct disk *disk = *state;

    assert_int_equal(batch_cache_read(disk->cache, &disk->a, 0, &b, NULL),
                     STATUS_OK);
    teardown(state);
    assert_int_equal(b->last, EACH);
    batch_unref(b);
    setup(state);
}

/* Threads */

#define THREADS 5

struct asker {
    pthread_t id;
    struct disk *disk;
    struct log_set *set;
    uint64_t after;
    struct batch *got;
    enum status rc;
};

static void *
ask(void *user)
{
    struct asker *a = user;

    pthread_mutex_lock(&a->disk->mutex);
    a->disk->arriving++;
    pthread_cond_broadcast(&a->disk->changed);
    pthread_mutex_unlock(&a->disk->mutex);
    a->rc = batch_cache_read(a->disk->cache, a->set, a->after, &a->got, NULL);
    return NULL;
}

static void
start(struct asker *a, struct disk *disk, struct log_set *set, uint64_t after)
{
    *a = (struct asker){.disk = disk, .set = set, .after = after};
    assert_int_equal(pthread_create(&a->id, NULL, ask, a), 0);
}

/* log.md, reading: one flight per block. The read begins before the others ask,
 * and ends after all of them were about to. */
TEST(reads_once_for_all_who_ask_at_the_same_time)
{
    struct asker askers[THREADS];
    struct disk *disk = *state;

    disk->wait_arriving = THREADS;
    for (int i = 0; i < THREADS; i++)
        start(&askers[i], disk, &disk->a, 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(askers[i].id, NULL);
        assert_int_equal(askers[i].rc, STATUS_OK);
        assert_ptr_equal(askers[i].got, disk->batches[0]);
        batch_unref(askers[i].got);
    }
    assert_int_equal(disk->reads, 1);
}

/* When the reader fails, the others try themselves: one after the other, until
 * one succeeds. */
TEST(lets_the_others_try_when_a_read_fails)
{
    struct asker askers[THREADS];
    unsigned n_failed = 0;
    struct disk *disk = *state;

    disk->wait_arriving = THREADS;
    disk->failures = 2;
    for (int i = 0; i < THREADS; i++)
        start(&askers[i], disk, &disk->a, 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(askers[i].id, NULL);
        n_failed += askers[i].rc == STATUS_IO;
        if (!askers[i].rc)
            assert_ptr_equal(askers[i].got, disk->batches[0]);
        batch_unref(askers[i].got);
    }
    assert_int_equal(n_failed, 2);
    assert_int_equal(disk->reads, 3);
}

/* Design rule 6: a read that takes long holds up nobody who wants another
 * entry, nor the same seq of another set. */
TEST(does_not_hold_up_who_wants_something_else)
{
    struct asker slow;
    struct disk *disk = *state;

    disk->gate = &disk->a;
    start(&slow, disk, &disk->a, 0);
    pthread_mutex_lock(&disk->mutex);
    while (disk->reads == 0)
        pthread_cond_wait(&disk->changed, &disk->mutex);
    pthread_mutex_unlock(&disk->mutex);

    read_one(disk, &disk->b, 0); /* while the other one waits */
    read_one(disk, &disk->b, EACH);

    pthread_mutex_lock(&disk->mutex);
    disk->is_open = true;
    pthread_cond_broadcast(&disk->changed);
    pthread_mutex_unlock(&disk->mutex);
    pthread_join(slow.id, NULL);
    assert_ptr_equal(slow.got, disk->batches[0]);
    batch_unref(slow.got);
}
