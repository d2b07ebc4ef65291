#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "broker/archive/archiver.h"
#include "broker/archive/set_progress.h"
#include "broker/base/metrics.h"
#include "tests/support/chores.h"
#include "tests/support/model.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/archive/folded.h"

FIXTURE(world_setup, world_teardown);

/* in between lists end and are filed, and the
 * broker ends and starts again. */
TEST(follows_the_log_through_rotation_and_restarts)
{
    for (unsigned i = 0; i < 60; i++) {
        world_post("demo", 1 + model_random(&world.random) % 30, 40);
        switch (model_random(&world.random) % 5) {
        case 0:
            sets_file_all(&world.sets);
            break;
        case 1:
            world_end();
            world_begin();
            break;
        case 2:
            world_fold();
            world_check("demo");
            break;
        }
    }
    world_fold();
    world_check("demo");
}

/* Folding reads a long backlog in steps, and takes no more into one than it
 * should. */
TEST(catches_up_in_steps, world_configure, world_teardown)
{
    unsigned n_steps = 0;
    struct set *set;

    world_begin();
    for (unsigned i = 0; i < 10; i++)
        world_post("demo", 10000, MODEL_MAX);
    set = sets_find(&world.sets, "demo");
    chore_look(&world.folding.chore);
    while (state_fold_seq(set) != 100000) {
        uint64_t before = state_fold_seq(set);

        chore_step(&world.folding.chore);
        if (state_fold_seq(set) != before)
            n_steps++;
        assert_in_range(state_fold_seq(set) - before, 0, 80000);
    }
    assert_in_range(n_steps, 2, 100000);
    world_check("demo");
}

/* Sets take turns: one with a long backlog does not keep the others waiting. */
TEST(gives_each_set_its_turn, world_configure, world_teardown)
{
    world_begin();
    for (unsigned i = 0; i < 10; i++)
        world_post("a", 10000, MODEL_MAX);
    world_post("b", 10, 10);
    chore_look(&world.folding.chore);
    assert_true(chore_step(&world.folding.chore));
    assert_true(chore_step(&world.folding.chore));
    assert_true(state_fold_seq(sets_find(&world.sets, "a")) < 100000);
    assert_int_equal(state_fold_seq(sets_find(&world.sets, "b")), 10);
    world_fold();
    world_check("a");
    world_check("b");
}

/* More sets than states that are open at a time. */
TEST(keeps_the_states_of_many_sets)
{
    char name[16];

    for (unsigned i = 0; i < 200; i++) {
        unsigned n = model_random(&world.random) % (3 * FOLDS_MAX);

        snprintf(name, sizeof(name), "s%u", n);
        world_post(name, 1 + model_random(&world.random) % 5, 10);
        if (i % 20 == 0)
            world_fold();
    }
    world_fold();
    for (unsigned i = 0; i < 3 * FOLDS_MAX; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        if (registry_find(world.sets.registry, slice_of(name), NULL))
            world_check(name);
    }
}

/* A look costs nothing where nothing has happened. */
TEST(rests_when_nothing_is_behind)
{
    chore_look(&world.folding.chore);
    assert_false(chore_step(&world.folding.chore));
    world_post("demo", 5, 10);
    assert_false(chore_step(&world.folding.chore)); /* until the next look */
    chore_look(&world.folding.chore);
    assert_true(chore_step(&world.folding.chore));
    assert_false(chore_step(&world.folding.chore));
    chore_look(&world.folding.chore);
    assert_false(chore_step(&world.folding.chore));
}

/* Whether one step, right after a look, has brought the set to its head. */
static bool
is_folded_now(const char *name)
{
    chore_look(&world.folding.chore);
    while (chore_step(&world.folding.chore))
        ;
    return state_fold_seq(sets_find(&world.sets, name)) ==
           sets_head(&world.sets, name).last;
}

/* Small steps cost much: a set waits until its state lacks very many entries,
 * or something waits for it, or its source rests. */
TEST(waits_until_a_step_is_worth_it)
{
    struct set_progress *progress;

    world_post("demo", 5, 10);
    progress = sets_find(&world.sets, "demo")->progress;
    assert_true(is_folded_now("demo")); /* its position was unknown */

    world.folding.rest_us = INT64_C(3600000000);
    world_post("demo", 5, 10);
    assert_false(is_folded_now("demo"));
    progress->builds[GENERATION_RESOURCELIST].is_due = true;
    progress->builds[GENERATION_RESOURCELIST].wanted = 5;
    assert_false(is_folded_now("demo")); /* the state has these */
    progress->builds[GENERATION_RESOURCELIST].wanted = 10;
    assert_true(is_folded_now("demo"));

    world_post("demo", 5, 10);
    assert_false(is_folded_now("demo"));
    progress->fold.wanted = 15;
    assert_true(is_folded_now("demo"));

    world.folding.lag = 10;
    world_post("demo", 9, 10);
    assert_false(is_folded_now("demo"));
    world_post("demo", 1, 10);
    assert_true(is_folded_now("demo"));

    world_post("demo", 5, 10);
    assert_false(is_folded_now("demo"));
    set_changes_put(&world.sets, "demo", "{\"content\":\"fetch\"}");
    assert_true(is_folded_now("demo"));
    set_changes_put(&world.sets, "demo", "{\"content\":\"none\"}");

    world_post("demo", 5, 10);
    assert_false(is_folded_now("demo"));
    world.folding.rest_us = FOLD_AT_ONCE;
    assert_true(is_folded_now("demo"));
    world_check("demo");
}

/* a state goes on where lists have gone, and is whole. */
TEST(goes_on_behind_what_is_no_longer_retained)
{
    struct model m;
    struct set *set;

    model_init(&m);
    for (unsigned i = 0; i < 10; i++) {
        world_post("demo", 25, 30);
        set = sets_find(&world.sets, "demo");
        model_fold_log(&m, world.sets.registry->log, set->log,
                       sets_head(&world.sets, "demo").last);
        atomic_store(&set->retain_lists, 1);
        sets_file_all(&world.sets);
        for (unsigned k = 0; k < 2; k++) {
            sets_retain(&world.sets);
            world_fold();
        }
        model_check(&m, world_state("demo"));
        if (i % 3 == 2) {
            world_end();
            world_begin();
        }
    }
    assert_in_range(sets_head(&world.sets, "demo").earliest, 180, 240);
    model_fini(&m);
}

static bool
is_there(void **state, const char *path)
{
    return !faccessat(tempdir_fd(state), path, F_OK, 0);
}

/* The state of a removed set goes with its lists, and a set of that name that
 * is made again has one of its own. */
TEST(goes_with_its_set)
{
    for (unsigned i = 0; i < 4; i++) {
        bool is_quick = i % 2; /* made again before the purge */
        bool has_ended = i > 1;

        world_post("demo", 30 - i, 30);
        world_fold();
        world_check("demo");
        sets_file_all(&world.sets);
        assert_true(is_there(state, "sets/demo/" RESOURCES_FILE));
        set_changes_remove(&world.sets, "demo");
        if (has_ended) {
            world_end();
            world_begin();
        }
        if (is_quick)
            world_post("demo", 5, 30);
        sets_purge(&world.sets);
        assert_true(is_there(state, "sets/demo") == is_quick);
        if (is_quick) {
            world_fold();
            world_check("demo");
        }
    }
}

/* And at once it is not kept open, which would keep its room on the disk. */
TEST(is_closed_when_its_set_is_removed)
{
    world_post("demo", 30, 30);
    world_fold();
    set_changes_remove(&world.sets, "demo");
    assert_false(chore_step(&world.folding.chore));
    for (size_t i = 0; i < FOLDS_MAX; i++)
        assert_null(world.folding.states.places[i].set);
}

/* The number of resources in the file, read by another connection. */
static int
rows_of(void **state, const char *name)
{
    sqlite3_stmt *q = NULL;
    char path[600];
    sqlite3 *db;
    int n;

    snprintf(path, sizeof(path), "%s/sets/%s/" RESOURCES_FILE,
             tempdir_path(state), name);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT count(*) FROM resources", -1, &q, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    n = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

/* A set of that name that stays empty inherits nothing either. */
TEST(leaves_nothing_to_an_empty_set_of_that_name)
{
    world_post("demo", 30, 30);
    world_fold();
    assert_int_equal(rows_of(state, "demo"),
                     resources_at(world_state("demo"))->n);
    set_changes_remove(&world.sets, "demo");
    set_changes_put(&world.sets, "demo", "{}");
    sets_purge(&world.sets);
    world_fold();
    assert_int_equal(rows_of(state, "demo"), 0);
}

/* A fault of one set stops only that set, and only as long as it lasts. */
TEST(one_set_that_cannot_be_folded_stops_no_other)
{
    world_post("a", 30, 30);
    world_post("b", 30, 30);
    sets_file_all(&world.sets);
    assert_int_equal(mkdirat(tempdir_fd(state), "sets/a/" RESOURCES_FILE, 0755),
                     0);
    world_fold();
    assert_false(state_fold_is_known(sets_find(&world.sets, "a")));
    world_check("b");
    assert_int_equal(
        unlinkat(tempdir_fd(state), "sets/a/" RESOURCES_FILE, AT_REMOVEDIR), 0);
    world_fold();
    world_check("a");
}

/* The sum of the lags of all sets, for a monitor. */
TEST(tells_how_far_it_is_behind)
{
    struct buf text;

    world_post("a", 3, 30);
    world_post("b", 4, 30);
    world_fold();
    world_post("a", 2, 30);
    world_post("b", 5, 30);
    archiver_measure(world.sets.registry);
    buf_init(&text, SIZE_MAX);
    metrics_write(&text);
    buf_add(&text, "", 1);
    assert_non_null(strstr(text.data, "\ntidings_fold_lag_entries 7\n"));
    world_fold();
    archiver_measure(world.sets.registry);
    buf_clear(&text);
    metrics_write(&text);
    buf_add(&text, "", 1);
    assert_non_null(strstr(text.data, "\ntidings_fold_lag_entries 0\n"));
    buf_fini(&text);
}

/* the next start reads the rest. */
TEST(is_given_up_when_the_log_ends)
{
    world_post("demo", 10, 40);
    world_fold();
    world_post("demo", 30, 40);
    log_stop(world.sets.registry->log);
    chore_look(&world.folding.chore);
    assert_false(chore_step(&world.folding.chore));
    assert_int_equal(state_fold_seq(sets_find(&world.sets, "demo")), 10);

    world_end();
    world_begin();
    world_fold();
    world_check("demo");
}
