/*
 * Two brokers that want to own; the clock moves when the test says so.
 */
#include "broker/cluster/ownership.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/clock.h"
#include "tests/support/shared_streams.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define SECOND INT64_C(1000000)

static const char *const steps[] = {
    "CREATE TABLE words(n INTEGER PRIMARY KEY)"};

static const struct db_kind kind = {
    .mode = DB_SMALL, .steps = steps, .n_steps = 1};

struct broker {
    struct streams_seat seat; /* first: see place */
    struct cluster_seat in_cluster;
    struct owned_file file;
    struct ownership *ownership;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint64_t term;  /* of its work; 0: it does not work */
    uint64_t first; /* the first of these */
    bool fails;
    bool is_held_up, is_looking; /* in its look at the copy */
};

struct pair {
    struct tempdir dir;
    struct shared_streams all;
    struct broker a, b;
};

static struct streams *
open_streams(void *user)
{
    return user;
}

static uint64_t
place(void *user)
{
    struct broker *b = user;

    pthread_mutex_lock(&b->mutex);
    b->is_looking = true;
    pthread_cond_broadcast(&b->changed);
    while (b->is_held_up)
        pthread_cond_wait(&b->changed, &b->mutex);
    b->is_looking = false;
    pthread_mutex_unlock(&b->mutex);
    return 0;
}

static enum status
begin(const struct ownership_right *right, void *user, struct problem *why)
{
    struct broker *b = user;
    enum status rc = STATUS_OK;

    pthread_mutex_lock(&b->mutex);
    if (b->fails)
        rc = problem(why, STATUS_UNREACHABLE, "it fails");
    else
        b->term = right->lease->term;
    if (b->first == 0)
        b->first = b->term;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
    return rc;
}

static void
end(void *user)
{
    struct broker *b = user;

    pthread_mutex_lock(&b->mutex);
    b->term = 0;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

/* Waits until the broker works under `term`; 0: not at all. */
static void
await_term(struct broker *b, uint64_t term)
{
    pthread_mutex_lock(&b->mutex);
    while (b->term != term)
        pthread_cond_wait(&b->changed, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
}

static void
broker_open(struct pair *p, struct broker *b, const char *name)
{
    struct ownership_options options = {
        .seat = &b->in_cluster,
        .file = &b->file,
        .dir = p->dir.path,
        .begin = begin,
        .end = end,
        .user = b,
    };
    struct problem why;

    b->in_cluster = (struct cluster_seat){
        open_streams, place, streams_seat_take(&b->seat, &p->all, name)};
    b->file = (struct owned_file){name, "test", "words", &kind};
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->changed, NULL);
    b->ownership = ownership_new(&options);
    assert_int_equal(ownership_start(b->ownership, &why), STATUS_OK);
}

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    tempdir_open(&p->dir);
    shared_streams_init(&p->all);
    broker_open(p, &p->a, "a");
    await_term(&p->a, 1);
    broker_open(p, &p->b, "b");
    shared_streams_await_asked(&p->all, 2);
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct pair *p = *state;

    ownership_close(p->a.ownership);
    ownership_close(p->b.ownership);
    shared_streams_fini(&p->all);
    tempdir_close(&p->dir);
    free(p);
    return 0;
}

FIXTURE(setup, teardown);

/* Lets `us` pass, in steps that no thread sleeps over: when `n_waits` threads
 * wait. `n_keepers` ask again in each. */
static void
pass_with(struct pair *p, int64_t us, unsigned n_waits, unsigned n_keepers)
{
    for (; us > 0; us -= OWNERSHIP_RENEW_US) {
        unsigned n;

        pthread_mutex_lock(&p->all.mutex);
        n = p->all.n_asked;
        pthread_mutex_unlock(&p->all.mutex);
        clock_await_waits_us(n_waits, LEASE_US);
        clock_pass_us(OWNERSHIP_RENEW_US);
        shared_streams_await_asked(&p->all, n + n_keepers);
    }
}

/* All four threads wait; both keepers ask. */
static void
pass(struct pair *p, int64_t us)
{
    pass_with(p, us, 4, 2);
}

/* The owner renews its lease; nobody else gets it. */
TEST(goes_on_as_long_as_it_renews)
{
    struct pair *p = *state;

    pass(p, 60 * SECOND);

    await_term(&p->a, 1);
    await_term(&p->b, 0);
    assert_true(ownership_is_held(p->a.ownership));
    assert_false(ownership_is_held(p->b.ownership));
}

/* A broker that is cut off stops before another one may begin. */
TEST(ends_before_another_begins)
{
    struct pair *p = *state;

    streams_seat_cut(&p->a.seat, true);
    pass(p, 9 * SECOND);
    assert_false(ownership_is_held(p->a.ownership));
    assert_false(ownership_is_held(p->b.ownership));
    await_term(&p->a, 0);
    pass(p, 3 * SECOND);

    await_term(&p->b, 2);
    assert_true(ownership_is_held(p->b.ownership));
    streams_seat_cut(&p->a.seat, false);
    pass(p, 30 * SECOND);
    await_term(&p->a, 0);
    await_term(&p->b, 2);
}

/* Nobody else took the lease meanwhile: it gets another term, so the work ends
 * and begins again. */
TEST(begins_again_after_an_interruption)
{
    struct pair *p = *state;

    streams_seat_cut(&p->a.seat, true);
    streams_seat_cut(&p->b.seat, true);
    pass(p, 30 * SECOND);
    await_term(&p->a, 0);
    streams_seat_cut(&p->a.seat, false);
    pass(p, 3 * SECOND);

    await_term(&p->a, 2);
}

/* A broker that ends gives the lease back. */
TEST(hands_over_when_it_ends)
{
    struct pair *p = *state;

    ownership_stop(p->a.ownership);
    await_term(&p->a, 0);
    pass_with(p, OWNERSHIP_RENEW_US, 2, 1);

    await_term(&p->b, 2);
}

/* The lease ends, and begins again, while the owner looks at its copy: others
 * may have written meanwhile, so the work must not begin in the later term by
 * what was seen in the earlier one. */
TEST(begins_in_the_term_of_its_look_at_the_copy)
{
    struct pair *p = *state;
    struct broker *b = &p->b;

    ownership_stop(p->a.ownership);
    pthread_mutex_lock(&b->mutex);
    b->is_held_up = true;
    pthread_mutex_unlock(&b->mutex);
    pass_with(p, OWNERSHIP_RENEW_US, 2, 1);
    pthread_mutex_lock(&b->mutex);
    while (!b->is_looking)
        pthread_cond_wait(&b->changed, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
    streams_seat_cut(&b->seat, true);
    pass_with(p, 30 * SECOND, 1, 1);
    streams_seat_cut(&b->seat, false);
    pass_with(p, 3 * SECOND, 1, 1);
    clock_await_waits_us(1, LEASE_US); /* the keeper has its answer */
    pthread_mutex_lock(&b->mutex);
    b->is_held_up = false;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);

    await_term(b, 3);
    assert_int_equal(b->first, 2);
}
