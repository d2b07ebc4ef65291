/*
 * store_keys_test.c - keys in tidings.db: kept a day, over restarts, crashes
 * and jumps of the clock.
 */
#include "broker/store/store_keys.h"

#include <sys/wait.h>
#include <unistd.h>

#include "broker/log/idempotency.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/store/stored.h"

#define HOUR ((int64_t)3600 * 1000000)

static int
setup(void **state)
{
    clock_set_us(POSTS_TIME(0) - clock_day_us());
    return world_setup(state);
}

/* Key `n`, as of a post of entries n to 2n. */
static struct act_key
key_of(unsigned n)
{
    struct act_key key = {.first = n, .last = 2 * n, .last_us = POSTS_TIME(n)};

    digest_sha256(&key.id, (struct slice){(const char *)&n, sizeof(n)});
    key.entries = key.id;
    digest_add(&key.entries, SLICE("entries"));
    return key;
}

static struct act
key_act(unsigned n)
{
    return (struct act){.kind = ACT_KEY, .key = key_of(n)};
}

static void
commit_keys(struct world *w, unsigned from, unsigned n)
{
    struct act acts[16];

    for (unsigned i = 0; i < n; i++)
        acts[i] = key_act(from + i);
    commit_acts(w, acts, n);
}

static bool
has_key(struct world *w, unsigned n)
{
    struct act_key key = key_of(n), found;
    enum status rc = ENGINE(w, find_key, &key.id, &found, NULL);

    if (rc == STATUS_NOT_FOUND)
        return false;
    assert_int_equal(rc, STATUS_OK);
    assert_memory_equal(found.id.bytes, key.id.bytes, DIGEST_SIZE);
    assert_memory_equal(found.entries.bytes, key.entries.bytes, DIGEST_SIZE);
    assert_int_equal(found.first, n);
    assert_int_equal(found.last, 2 * n);
    assert_int_equal(found.last_us, POSTS_TIME(n));
    return true;
}

static bool
has_room(struct world *w, size_t n)
{
    return ENGINE(w, has_key_room, n, clock_now_us());
}

static int64_t
rows(struct world *w)
{
    return ask(w, "SELECT (SELECT count(*) FROM keys_0) +"
                  " (SELECT count(*) FROM keys_1)");
}

FIXTURE(setup, world_teardown);

/* Kept over a restart. */
TEST(keeps_keys_over_a_restart)
{
    struct world *w = *state;

    world_open(w, 1, 1);
    assert_false(has_key(w, 1));
    commit_keys(w, 1, 3);
    assert_true(has_key(w, 1));
    reopen(w);
    assert_true(has_key(w, 1));
    assert_true(has_key(w, 3));
    assert_false(has_key(w, 4));
}

/* Every key is found for 24 hours at least; 48 hours later it has gone, and its
 * row with it, at the next commit. */
TEST(keeps_every_key_a_day_and_no_more_than_two)
{
    struct world *w = *state;

    world_open(w, 1, 1);
    for (unsigned hour = 1; hour <= 200; hour++) {
        commit_keys(w, hour, 1);
        if (hour % 17 == 0)
            reopen(w);
        for (unsigned n = hour > 60 ? hour - 60 : 1; n <= hour; n++) {
            if (hour - n < 24)
                assert_true(has_key(w, n));
            if (hour - n >= 48)
                assert_false(has_key(w, n));
        }
        assert_true(rows(w) <= 48);
        clock_pass_us(HOUR);
    }
    clock_pass_us(24 * HOUR);
    commit_nothing(w);
    clock_pass_us(24 * HOUR);
    commit_nothing(w);
    assert_int_equal(rows(w), 0);
}

/* A swap happens once a day, not with every commit after a day. */
TEST(a_key_outlives_the_swap_that_comes_next)
{
    struct world *w = *state;

    world_open(w, 1, 1);
    commit_keys(w, 1, 1);
    clock_pass_us(1000 * HOUR);
    commit_keys(w, 2, 1);
    commit_keys(w, 3, 1);
    commit_nothing(w);
    assert_true(has_key(w, 2));
    clock_pass_us(24 * HOUR);
    commit_nothing(w);
    commit_nothing(w);
    assert_true(has_key(w, 2));
    assert_true(has_key(w, 3));
    assert_false(has_key(w, 1));
}

/* A clock that was set back, or forward by mistake and then back, shortens no
 * key's time, and keeps none for ever. */
TEST(a_clock_set_back_shortens_no_keys_time)
{
    struct world *w = *state;

    world_open(w, 1, 1);
    commit_keys(w, 1, 1);
    commit_nothing(w);
    clock_set_us(-100 * HOUR);
    commit_keys(w, 2, 1);
    for (int hour = 0; hour < 23; hour++) {
        clock_pass_us(HOUR);
        commit_nothing(w);
        assert_true(has_key(w, 1));
        assert_true(has_key(w, 2));
    }
    clock_pass_us(9000 * HOUR);
    commit_keys(w, 3, 1);
    assert_true(has_key(w, 1)); /* by this clock the key is a year old */
    clock_set_us(-9000 * HOUR);
    commit_keys(w, 4, 1);
    reopen(w);
    assert_true(has_key(w, 1));
    assert_true(has_key(w, 4));
    for (int day = 0; day < 3; day++) {
        clock_pass_us(24 * HOUR);
        commit_nothing(w);
    }
    assert_int_equal(rows(w), 0);
}

/* log.md, commit: a bounded count. After the swap that is due the log accepts
 * keys again. */
TEST(keeps_a_bounded_number_of_keys)
{
    struct world *w = *state;

    world_open(w, 1, 1);
    commit_keys(w, 1, 2);
    commit_nothing(w);
    commit_keys(w, 3, 1);
    assert_true(has_room(w, IDEMPOTENCY_KEYS_MAX - 3));
    assert_false(has_room(w, IDEMPOTENCY_KEYS_MAX - 2));

    /* As if all were there. */
    change(w, "UPDATE keys_1 SET id = 4000000 WHERE id ="
              " (SELECT max(id) FROM keys_1)");
    reopen(w);
    assert_false(has_room(w, 1));
    clock_pass_us(24 * HOUR - 1);
    assert_false(has_room(w, 1));
    clock_set_us(-1000 * HOUR);
    assert_false(has_room(w, 1));
    clock_pass_us(1000 * HOUR + 1);
    assert_true(has_room(w, 1));
    commit_keys(w, 4, 1);
    assert_false(has_room(w, IDEMPOTENCY_KEYS_MAX));
    assert_true(has_room(w, IDEMPOTENCY_KEYS_MAX - 1));
    assert_true(has_key(w, 3));
}

/* The same key twice in a commit cannot be: the whole is refused, and the
 * keys before are as they were; a swap that was due with it is, too. */
TEST(a_refused_commit_leaves_keys_and_swap_as_they_were)
{
    struct act twice[2];
    struct world *w = *state;
    bool is_more;

    world_open(w, 1, 1);
    commit_keys(w, 1, 1);
    clock_pass_us(24 * HOUR);
    commit_keys(w, 2, 1);
    clock_pass_us(24 * HOUR);
    twice[0] = twice[1] = key_act(5);
    assert_int_equal(try_acts(w, twice, 2, &is_more, NULL), STATUS_BUSY);
    assert_true(has_key(w, 1));
    assert_false(has_key(w, 5));
    assert_int_equal(rows(w), 2);
    commit_keys(w, 5, 1);
    assert_false(has_key(w, 1));
    assert_true(has_key(w, 2));
    assert_true(has_key(w, 5));
}

/* Commits a batch with key 7 in a process that then ends at once, as by kill
 * -9: nothing is closed. */
static void
commit_and_crash(struct world *w)
{
    struct act acts[3];
    bool is_more;

    world_open(w, 1, 10);
    acts[0] = birth(w, "a", &w->set);
    acts[1] = batch_of(w->set, w->chain[0]);
    acts[2] = key_act(7);
    _exit(try_acts(w, acts, 3, &is_more, NULL) ? 1 : 0);
}

/* a key is there after a crash exactly if its entries are. */
TEST(keys_and_entries_survive_a_crash_together)
{
    struct world *w = *state;
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        commit_and_crash(w);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    world_open(w, 1, 10);
    assert_int_equal(w->head.last, 10);
    assert_int_equal(read_on(w, 0), 10);
    assert_true(has_key(w, 7));
}
