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
    uint64_t term;       /* of its work; 0: it does not work */
    uint64_t first;      /* the first of these */
    unsigned n, n_begun; /* works of parts: now, and ever */
    unsigned n_late;     /* those that ended without their leases */
    bool fails;
    bool cannot;                   /* do any work */
    bool is_held_up, is_looking;   /* in its look at the copy */
    const struct owned_part *part; /* of its last work, or NULL */
};

struct pair {
    struct tempdir dir;
    struct shared_streams all;
    struct broker a, b;
    struct broker sharing[3];
};

static struct streams *
open_streams(void *user)
{
    return user;
}

static uint64_t
place(void *user, enum ability *ability)
{
    struct broker *b = user;

    if (ability) { /* the keeper asks */
        *ability = streams_seat_ability(&b->seat);
        return 0;
    }
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
    b->part = right->part;
    b->n += rc == STATUS_OK;
    b->n_begun += rc == STATUS_OK;
    if (b->first == 0)
        b->first = b->term;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
    return rc;
}

static void
end(const struct ownership_right *right, void *user)
{
    struct broker *b = user;

    pthread_mutex_lock(&b->mutex);
    b->n_late += !ownership_is_held(right->part);
    b->term = 0;
    b->n--;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

static bool
may_own(void *user)
{
    struct broker *b = user;
    bool may;

    pthread_mutex_lock(&b->mutex);
    may = !b->cannot;
    pthread_mutex_unlock(&b->mutex);
    return may;
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

static bool
is_held(struct broker *b)
{
    bool is;

    pthread_mutex_lock(&b->mutex);
    is = b->part && ownership_is_held(b->part);
    pthread_mutex_unlock(&b->mutex);
    return is;
}

/* `n_parts` 0: the work is not divided. */
static void
broker_open(struct pair *p, struct broker *b, const char *name, size_t n_parts)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h",
                                        "i", "j", "k", "l", "m", "n", "o", "p"};
    struct ownership_options options = {
        .seat = &b->in_cluster,
        .file = &b->file,
        .dir = p->dir.path,
        .is_divided = n_parts > 0,
        .begin = begin,
        .end = end,
        .may_own = may_own,
        .user = b,
    };
    struct problem why;

    b->in_cluster = (struct cluster_seat){
        open_streams, place, streams_seat_take(&b->seat, &p->all, name)};
    b->file = (struct owned_file){name, "test", "words", &kind};
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->changed, NULL);
    b->ownership = ownership_new(&options);
    if (n_parts > 0)
        ownership_divide(b->ownership, names, n_parts);
    assert_int_equal(ownership_start(b->ownership, &why), STATUS_OK);
}

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    tempdir_open(&p->dir);
    shared_streams_init(&p->all);
    broker_open(p, &p->a, "a", 0);
    await_term(&p->a, 1);
    broker_open(p, &p->b, "b", 0);
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
    for (size_t i = 0; i < N_ELEMENTS(p->sharing); i++)
        ownership_close(p->sharing[i].ownership);
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
    assert_true(is_held(&p->a));
    assert_false(is_held(&p->b));
}

/* A broker that is cut off stops before another one may begin. */
TEST(ends_before_another_begins)
{
    struct pair *p = *state;

    streams_seat_cut(&p->a.seat, true);
    pass(p, 9 * SECOND);
    assert_false(is_held(&p->a));
    assert_false(is_held(&p->b));
    await_term(&p->a, 0);
    pass(p, 3 * SECOND);

    await_term(&p->b, 2);
    assert_true(is_held(&p->b));
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

/* Parts */

TEST(a_share_is_even_and_all_shares_are_all_parts)
{
    static const struct {
        uint64_t n, n_brokers, shares[4];
    } rows[] = {
        {16, 1, {16}},         {16, 2, {8, 8}},   {16, 3, {6, 5, 5}},
        {16, 4, {4, 4, 4, 4}}, {4, 3, {2, 1, 1}}, {3, 3, {1, 1, 1}},
        {1, 3, {1, 1, 1}}, /* its owner keeps it */
        {2, 4, {1, 1, 1, 1}},
    };

    for (size_t i = 0; i < N_ELEMENTS(rows); i++)
        for (uint64_t k = 0; k < rows[i].n_brokers; k++)
            assert_int_equal(share_of(rows[i].n, rows[i].n_brokers, k),
                             rows[i].shares[k]);
}

/* Brokers come and go. `n_begun`: how many parts began somewhere, which is how
 * many moved. Only the one that dies ends its work without leases. */
TEST(parts_are_shared_and_no_more_move_than_must)
{
    static const struct {
        const char *what; /* broker, and what it does */
        int64_t us;       /* within these: two rounds; or a lease, and some */
        unsigned n[3], n_begun;
    } rows[] = {
        {"a comes", 3 * SECOND, {16, 0, 0}, 16},
        {"b comes", 9 * SECOND, {8, 8, 0}, 8},
        {"c comes", 9 * SECOND, {6, 5, 5}, 5},
        {"a rests", 60 * SECOND, {6, 5, 5}, 0},
        {"b dies", 15 * SECOND, {8, 0, 8}, 5},
        {"b returns", 9 * SECOND, {6, 5, 5}, 5},
        {"b cannot", 6 * SECOND, {8, 0, 8}, 5},
        {"a rests", 60 * SECOND, {8, 0, 8}, 0},
        {"b can", 9 * SECOND, {6, 5, 5}, 5},
        {"b waits", 6 * SECOND, {8, 0, 8}, 5}, /* for what others leave */
        {"a rests", 60 * SECOND, {8, 0, 8}, 0},
        {"b cannot", 6 * SECOND, {8, 0, 8}, 0},
        {"a waits", 6 * SECOND, {0, 0, 16}, 8},
        {"c cannot", 36 * SECOND, {16, 0, 0}, 16},
        {"c can", 12 * SECOND, {0, 0, 16}, 16},
        {"a can", 9 * SECOND, {8, 0, 8}, 8},
        {"b can", 9 * SECOND, {6, 5, 5}, 5},
        {"c ends", 6 * SECOND, {8, 8, 0}, 5},
        {"a rests", 60 * SECOND, {8, 8, 0}, 0},
    };
    struct pair *p = *state;
    unsigned n_threads = 0;

    ownership_stop(p->a.ownership);
    ownership_stop(p->b.ownership);
    streams_seat_cut(&p->a.seat, true);
    streams_seat_cut(&p->b.seat, true);
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct broker *b = &p->sharing[*rows[i].what - 'a'];
        const char *what = rows[i].what + 2;
        unsigned n_begun = 0;

        for (size_t k = 0; k < N_ELEMENTS(p->sharing); k++)
            n_begun -= p->sharing[k].n_begun;
        if (!strcmp(what, "comes")) {
            broker_open(p, b, (const char *[]){"A", "B", "C"}[b - p->sharing],
                        16);
            n_threads += 2;
        }
        if (!strcmp(what, "dies") || !strcmp(what, "returns"))
            streams_seat_cut(&b->seat, !strcmp(what, "dies"));
        if (!strcmp(what, "can") || !strcmp(what, "cannot") ||
            !strcmp(what, "waits"))
            streams_seat_enable(&b->seat, !strcmp(what, "can")     ? IS_ABLE
                                          : !strcmp(what, "waits") ? IS_LAST
                                                                   : IS_UNABLE);
        if (!strcmp(what, "ends")) {
            ownership_stop(b->ownership);
            streams_seat_cut(&b->seat, true);
            n_threads -= 2;
        }
        pass_with(p, rows[i].us, n_threads, 1);
        clock_await_waits_us(n_threads, LEASE_US);
        for (size_t k = 0; k < N_ELEMENTS(p->sharing); k++) {
            struct broker *other = &p->sharing[k];

            n_begun += other->n_begun;
            if (other->n_late != (k == 1 && i >= 4 ? 5 : 0))
                fail_msg("%s: %c works without a lease", rows[i].what,
                         (int)('a' + k));
            if (other->n != rows[i].n[k])
                fail_msg("%s: %c has %u", rows[i].what, (int)('a' + k),
                         other->n);
        }
        if (n_begun != rows[i].n_begun)
            fail_msg("%s: %u moved", rows[i].what, n_begun);
    }
}

/* Two brokers that know so many parts, in place of a and b; and a minute. */
static void
share(struct pair *p, size_t n_of_one, size_t n_of_two)
{
    ownership_stop(p->a.ownership);
    ownership_stop(p->b.ownership);
    streams_seat_cut(&p->a.seat, true);
    streams_seat_cut(&p->b.seat, true);
    broker_open(p, &p->sharing[0], "one", n_of_one);
    broker_open(p, &p->sharing[1], "two", n_of_two);
    pass_with(p, 60 * SECOND, 4, 2);
}

/* A part that no other broker takes is not left alone, and stays. */
TEST(takes_what_others_leave)
{
    struct pair *p = *state;
    struct broker *one = &p->sharing[0], *two = &p->sharing[1];

    share(p, 5, 1);
    clock_await_waits_us(4, LEASE_US);

    assert_int_equal(one->n + two->n, 5);
    assert_true(one->n >= 4);
    ownership_divide(one->ownership, (const char *[]){"a", "x"}, 2);
    pass_with(p, 60 * SECOND, 4, 2);
    clock_await_waits_us(4, LEASE_US);
    assert_int_equal(one->n + two->n, 2);
}

/* A broker that cannot do the work gives all parts back, and others take them.
 */
TEST(parts_leave_a_broker_that_cannot_do_the_work)
{
    struct pair *p = *state;
    struct broker *one = &p->sharing[0], *two = &p->sharing[1];

    share(p, 5, 5);
    assert_int_equal(one->n + two->n, 5);
    assert_true(one->n > 0);
    pthread_mutex_lock(&one->mutex);
    one->cannot = true;
    pthread_mutex_unlock(&one->mutex);
    pass_with(p, 60 * SECOND, 4, 1);
    clock_await_waits_us(4, LEASE_US);

    assert_int_equal(one->n, 0);
    assert_int_equal(one->n_late, 0);
    assert_int_equal(two->n, 5);
}
