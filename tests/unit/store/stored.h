/*
 * stored.h - for tests of the store: one in a directory of the test's own, and
 * a log to commit to it.
 *
 *     FIXTURE(world_setup, world_teardown);
 *
 *     struct world *w = *state;
 *
 *     world_open(w, 3, 10);                  3 batches of 10 entries
 *     commit_batches(w, 0, 3);
 *     assert_int_equal(read_on(w, 0), 30);
 */
#ifndef TESTS_UNIT_STORE_STORED_H
#define TESTS_UNIT_STORE_STORED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/db.h"
#include "broker/store/store.h"
#include "tests/support/posts.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* The free space that the file system reports to the tests of this folder; 0:
 * plenty (store_faults_test.c). */
extern uint64_t stored_free_bytes;

/* An operation of the engine. */
#define ENGINE(w, operation, ...) \
    ((w)->engine->ops->operation((w)->engine, __VA_ARGS__))

/* A store with one set, and the next commit. */
struct world {
    struct tempdir dir;
    struct engine *engine;
    atomic_size_t forms;
    uint32_t set;
    struct head head; /* as loaded */
    unsigned n_loaded;
    struct batch *chain[64];
    size_t n_chain;
};

static inline enum status
on_set(const struct engine_set *set, void *user, struct problem *why)
{
    struct world *w = user;

    (void)why;
    if (!strcmp(set->name, "a")) {
        w->set = set->id;
        w->head = set->head;
    }
    w->n_loaded++;
    return STATUS_OK;
}

static inline void
reopen(struct world *w)
{
    struct problem why = {""};

    if (w->engine)
        w->engine->ops->close(w->engine);
    w->engine = NULL;
    w->n_loaded = 0;
    if (store_open(&w->engine, w->dir.path, &w->forms, &why) ||
        ENGINE(w, load, on_set, w, &why))
        fail_msg("%s", why.text);
}

static inline int
world_setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    tempdir_open(&w->dir);
    *state = w;
    return 0;
}

static inline int
world_teardown(void **state)
{
    struct world *w = *state;

    if (w->engine)
        w->engine->ops->close(w->engine);
    for (size_t i = 0; i < w->n_chain; i++)
        batch_unref(w->chain[i]);
    tempdir_close(&w->dir);
    free(w);
    return 0;
}

/* `n` batches of `each` entries, not yet committed; all of list 1. */
static inline void
world_chain(struct world *w, size_t n, unsigned each)
{
    uint64_t bytes = 0;

    w->n_chain = n;
    posts_chain(w->chain, n, each);
    for (size_t i = 0; i < n; i++) {
        w->chain[i]->list = 1;
        w->chain[i]->list_bytes = bytes += w->chain[i]->size;
    }
}

static inline void
world_open(struct world *w, size_t n, unsigned each)
{
    world_chain(w, n, each);
    reopen(w);
}

static inline enum status
try_acts(struct world *w, const struct act *acts, size_t n, bool *is_more,
         struct problem *why)
{
    const struct commit commit = {clock_now_us(), acts, n};

    return ENGINE(w, commit, &commit, is_more, why);
}

/* Returns whether the engine has more to forget. */
static inline bool
commit_acts(struct world *w, const struct act *acts, size_t n)
{
    bool is_more;

    assert_int_equal(try_acts(w, acts, n, &is_more, NULL), STATUS_OK);
    return is_more;
}

/* A set that begins at POSTS_TIME(0); sets *id to the id of the next birth. */
static inline struct act
birth(struct world *w, const char *name, uint32_t *id)
{
    *id = w->engine->ops->next_id(w->engine);
    return (struct act){
        .kind = ACT_BIRTH,
        .set_id = *id,
        .name = name,
        .birth = {.epoch = POSTS_EPOCH,
                  .created_us = POSTS_TIME(0),
                  .start_list = 1},
    };
}

static inline struct act
batch_of(uint32_t set, const struct batch *batch)
{
    return (struct act){
        .kind = ACT_BATCH, .set_id = set, .entries = {.batch = batch}};
}

/* Commits batches `from` to `to` - 1, with the set's birth before the first. */
static inline enum status
try_batches(struct world *w, size_t from, size_t to, struct problem *why)
{
    struct act acts[65];
    size_t n = 0;
    bool is_more;

    if (from == 0)
        acts[n++] = birth(w, "a", &w->set);
    for (size_t i = from; i < to; i++)
        acts[n++] = batch_of(w->set, w->chain[i]);
    return try_acts(w, acts, n, &is_more, why);
}

static inline void
commit_batches(struct world *w, size_t from, size_t to)
{
    assert_int_equal(try_batches(w, from, to, NULL), STATUS_OK);
}

/* List `number`: chain[from] to chain[to - 1]. */
static inline struct list_info
list_of(const struct world *w, uint64_t number, size_t from, size_t to)
{
    return (struct list_info){
        .number = number,
        .after = w->chain[from]->first - 1,
        .last = w->chain[to - 1]->last,
        .from_us = w->chain[from]->before_us,
        .until_us = w->chain[to - 1]->last_us,
        .bytes = 4711,
        .before = w->chain[from]->before,
        .digest = w->chain[to - 1]->digest,
    };
}

static inline struct act
end_of(uint32_t set, const struct list_info *info, const char *header)
{
    return (struct act){
        .kind = ACT_LIST_END,
        .set_id = set,
        .list_end = {.info = *info, .header = slice_of(header)},
    };
}

static inline void
commit_end(struct world *w, const struct list_info *info, const char *header)
{
    const struct act end = end_of(w->set, info, header);

    commit_acts(w, &end, 1);
}

static inline bool
commit_filed(struct world *w, uint64_t list, struct slice marks)
{
    const struct act filed = {
        .kind = ACT_FILED,
        .set_id = w->set,
        .filed = {.list = list, .marks = marks},
    };

    return commit_acts(w, &filed, 1);
}

static inline bool
commit_nothing(struct world *w)
{
    return commit_acts(w, NULL, 0);
}

static inline void
forget_all(struct world *w)
{
    while (commit_nothing(w))
        ;
}

/* Reads on from `after`, and compares with the chain; returns where it ends. */
static inline uint64_t
read_on(struct world *w, uint64_t after)
{
    for (;;) {
        struct batch *b;
        size_t i = 0;

        assert_int_equal(ENGINE(w, read, w->set, after, &b, NULL), STATUS_OK);
        if (!b)
            return after;
        assert_in_range(after + 1, b->first, b->last);
        assert_true(b->size <= BATCH_BYTES_MAX);
        while (w->chain[i]->first != b->first)
            i++;
        assert_int_equal(b->before_us, w->chain[i]->before_us);
        assert_memory_equal(b->before.bytes, w->chain[i]->before.bytes,
                            DIGEST_SIZE);
        for (; i < w->n_chain && w->chain[i]->last <= b->last; i++) {
            const struct batch *c = w->chain[i];

            assert_true(slice_equal(batch_slice(b, c->first - 1, c->last),
                                    batch_slice(c, c->first - 1, c->last)));
        }
        assert_int_equal(w->chain[i - 1]->last, b->last);
        assert_int_equal(b->last_us, w->chain[i - 1]->last_us);
        assert_memory_equal(b->digest.bytes, w->chain[i - 1]->digest.bytes,
                            DIGEST_SIZE);
        after = b->last;
        batch_unref(b);
    }
}

/* The database, by a connection of the test's own. */
static inline void
open_db(struct world *w, struct db *db, enum db_mode mode)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/tidings.db", w->dir.path);
    assert_int_equal(db_open(db, path, mode, NULL), STATUS_OK);
}

static inline int64_t
ask(struct world *w, const char *sql)
{
    struct db db;
    sqlite3_stmt *q;
    bool row;
    int64_t n;

    open_db(w, &db, DB_READER);
    assert_int_equal(db_prepare(&db, &q, sql, NULL), STATUS_OK);
    assert_int_equal(db_step(&db, q, &row, sql, NULL), STATUS_OK);
    n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    db_close(&db);
    return n;
}

static inline void
change(struct world *w, const char *sql)
{
    struct db db;

    open_db(w, &db, DB_WRITER);
    assert_int_equal(db_exec(&db, sql, NULL), STATUS_OK);
    db_close(&db);
}

static inline int64_t
count_batches(struct world *w)
{
    return ask(w, "SELECT count(*) FROM batches");
}

#endif
