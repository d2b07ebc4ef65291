/*
 * store_keys_test.c - keys in tidings.db: kept a day, over restarts and
 * crashes, whatever the clock does.
 */
#include "broker/log/store_keys.h"

#include <sys/wait.h>
#include <unistd.h>

#include "broker/log/keys.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/log/stored.h"

#define HOUR ((int64_t)3600 * 1000000)

static int
set_clock(void **state)
{
    clock_set_us(POSTS_TIME(0) - clock_day_us());
    return tempdir_setup(state);
}

/* Key `n`, as of a post of entries n to 2n. */
static struct engine_key
key_of(unsigned n)
{
    struct engine_key key = {
        .first = n, .last = 2 * n, .last_us = POSTS_TIME(n)};

    digest_start(&key.id, (struct slice){(const char *)&n, sizeof(n)});
    key.entries = key.id;
    digest_add(&key.entries, SLICE("entries"));
    return key;
}

static enum status
commit_keys(struct world *w, unsigned from, unsigned n)
{
    struct engine_key keys[16];
    struct commit commit = {.keys = keys, .n_keys = n, .forget = true};
    bool is_more;

    for (unsigned i = 0; i < n; i++)
        keys[i] = key_of(from + i);
    return w->engine->ops->commit(w->engine, &commit, &is_more, NULL);
}

static bool
has_key(struct world *w, unsigned n)
{
    struct engine_key key = key_of(n), found;
    enum status rc = w->engine->ops->find_key(w->engine, &key.id, &found, NULL);

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

static int64_t
rows(struct world *w)
{
    return ask(w, "SELECT (SELECT count(*) FROM keys_0) +"
                  " (SELECT count(*) FROM keys_1)");
}

FIXTURE(set_clock, tempdir_teardown);

/* Kept over a restart. */
TEST(keeps_keys_over_a_restart)
{
    struct world w;

    world_open(&w, state, 1, 1);
    assert_false(has_key(&w, 1));
    assert_int_equal(commit_keys(&w, 1, 3), STATUS_OK);
    assert_true(has_key(&w, 1));
    reopen(&w);
    assert_true(has_key(&w, 1));
    assert_true(has_key(&w, 3));
    assert_false(has_key(&w, 4));
    world_close(&w);
}

/* Every key is found for 24 hours at least; 48 hours later it has gone, and its
 * row with it, as soon as something is committed. */
TEST(keeps_every_key_a_day_and_no_more_than_two)
{
    struct world w;

    world_open(&w, state, 1, 1);
    for (unsigned hour = 1; hour <= 200; hour++) {
        assert_int_equal(commit_keys(&w, hour, 1), STATUS_OK);
        if (hour % 17 == 0)
            reopen(&w);
        for (unsigned n = hour > 60 ? hour - 60 : 1; n <= hour; n++) {
            if (hour - n < 24)
                assert_true(has_key(&w, n));
            if (hour - n >= 48)
                assert_false(has_key(&w, n));
        }
        assert_true(rows(&w) <= 48);
        clock_pass_us(HOUR);
    }
    clock_pass_us(24 * HOUR);
    commit_nothing(&w);
    clock_pass_us(24 * HOUR);
    commit_nothing(&w);
    assert_int_equal(rows(&w), 0);
    world_close(&w);
}

/* A swap happens once a day, not with every commit after a day. */
TEST(a_key_outlives_the_swap_that_comes_next)
{
    struct world w;

    world_open(&w, state, 1, 1);
    assert_int_equal(commit_keys(&w, 1, 1), STATUS_OK);
    clock_pass_us(1000 * HOUR);
    assert_int_equal(commit_keys(&w, 2, 1), STATUS_OK);
    assert_int_equal(commit_keys(&w, 3, 1), STATUS_OK);
    commit_nothing(&w);
    assert_true(has_key(&w, 2));
    clock_pass_us(24 * HOUR);
    commit_nothing(&w);
    commit_nothing(&w);
    assert_true(has_key(&w, 2));
    assert_true(has_key(&w, 3));
    assert_false(has_key(&w, 1));
    world_close(&w);
}

/* A clock that was set back, or forward by mistake and then back, shortens no
 * key's time, and keeps none for ever. */
TEST(a_clock_set_back_shortens_no_keys_time)
{
    struct world w;

    world_open(&w, state, 1, 1);
    assert_int_equal(commit_keys(&w, 1, 1), STATUS_OK);
    commit_nothing(&w);
    clock_set_us(-100 * HOUR);
    assert_int_equal(commit_keys(&w, 2, 1), STATUS_OK);
    for (int hour = 0; hour < 23; hour++) {
        clock_pass_us(HOUR);
        commit_nothing(&w);
        assert_true(has_key(&w, 1));
        assert_true(has_key(&w, 2));
    }
    clock_pass_us(9000 * HOUR);
    assert_int_equal(commit_keys(&w, 3, 1), STATUS_OK);
    assert_true(has_key(&w, 1)); /* by this clock it is a year old */
    clock_set_us(-9000 * HOUR);
    assert_int_equal(commit_keys(&w, 4, 1), STATUS_OK);
    reopen(&w);
    assert_true(has_key(&w, 1));
    assert_true(has_key(&w, 4));
    for (int day = 0; day < 3; day++) {
        clock_pass_us(24 * HOUR);
        commit_nothing(&w);
    }
    assert_int_equal(rows(&w), 0);
    world_close(&w);
}

/* log.md, commit: a bounded count. What is refused for it is taken again after
 * the swap that is due. */
TEST(keeps_a_bounded_number_of_keys)
{
    char path[400];
    struct world w;
    struct db db;

    world_open(&w, state, 1, 1);
    assert_int_equal(commit_keys(&w, 1, 2), STATUS_OK);
    commit_nothing(&w);
    assert_int_equal(commit_keys(&w, 3, 1), STATUS_OK);
    assert_true(w.engine->ops->has_key_room(w.engine, KEYS_MAX - 3));
    assert_false(w.engine->ops->has_key_room(w.engine, KEYS_MAX - 2));

    /* As if all were there. */
    snprintf(path, sizeof(path), "%s/tidings.db", w.dir);
    assert_int_equal(db_open(&db, path, DB_WRITER, NULL), STATUS_OK);
    assert_int_equal(db_exec(&db,
                             "UPDATE keys_1 SET id = 4000000 WHERE id ="
                             " (SELECT max(id) FROM keys_1)",
                             NULL),
                     STATUS_OK);
    db_close(&db);
    reopen(&w);
    assert_false(w.engine->ops->has_key_room(w.engine, 1));
    clock_pass_us(24 * HOUR - 1);
    assert_false(w.engine->ops->has_key_room(w.engine, 1));
    clock_set_us(-1000 * HOUR);
    assert_false(w.engine->ops->has_key_room(w.engine, 1));
    clock_pass_us(1000 * HOUR + 1);
    assert_true(w.engine->ops->has_key_room(w.engine, 1));
    assert_int_equal(commit_keys(&w, 4, 1), STATUS_OK);
    assert_false(w.engine->ops->has_key_room(w.engine, KEYS_MAX));
    assert_true(w.engine->ops->has_key_room(w.engine, KEYS_MAX - 1));
    assert_true(has_key(&w, 3));
    world_close(&w);
}

/* The same key twice in a commit cannot be: the whole is refused, and the
 * keys before are as they were; a swap that was due with it is, too. */
TEST(a_refused_commit_leaves_keys_and_swap_as_they_were)
{
    struct engine_key twice[2];
    struct commit commit = {.keys = twice, .n_keys = 2};
    struct world w;
    bool is_more;

    world_open(&w, state, 1, 1);
    assert_int_equal(commit_keys(&w, 1, 1), STATUS_OK);
    clock_pass_us(24 * HOUR);
    assert_int_equal(commit_keys(&w, 2, 1), STATUS_OK);
    clock_pass_us(24 * HOUR);
    twice[0] = twice[1] = key_of(5);
    assert_int_equal(w.engine->ops->commit(w.engine, &commit, &is_more, NULL),
                     STATUS_BUSY);
    assert_true(has_key(&w, 1));
    assert_false(has_key(&w, 5));
    assert_int_equal(rows(&w), 2);
    assert_int_equal(commit_keys(&w, 5, 1), STATUS_OK);
    assert_false(has_key(&w, 1));
    assert_true(has_key(&w, 2));
    assert_true(has_key(&w, 5));
    world_close(&w);
}

/* Commits a batch with key 7 in a process that then ends at once, as by kill
 * -9: nothing is closed. */
static void
commit_and_crash(const char *dir)
{
    struct engine_batch batch;
    struct engine_key key = key_of(7);
    struct head head;
    struct world w = {.dir = dir};
    struct engine_birth birth = {"a", &head, &w.set};
    struct commit commit = {.births = &birth,
                            .n_births = 1,
                            .batches = &batch,
                            .n_batches = 1,
                            .keys = &key,
                            .n_keys = 1};
    bool is_more;

    posts_chain(w.chain, 1, 10);
    w.chain[0]->list = 1;
    w.chain[0]->list_bytes = w.chain[0]->size;
    reopen(&w);
    lists_start(&head, POSTS_EPOCH, POSTS_TIME(0));
    batch = (struct engine_batch){&w.set, w.chain[0]};
    if (!w.engine->ops->commit(w.engine, &commit, &is_more, NULL))
        _exit(0);
    _exit(1);
}

/* a key is there after a crash exactly if its entries are. */
TEST(keys_and_entries_survive_a_crash_together)
{
    struct world w = {.dir = tempdir_path(state)};
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        commit_and_crash(w.dir);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    w.n_chain = 1;
    posts_chain(w.chain, 1, 10);
    reopen(&w);
    assert_int_equal(w.head.last, 10);
    assert_int_equal(read_on(&w, 0), 10);
    assert_true(has_key(&w, 7));
    world_close(&w);
}
