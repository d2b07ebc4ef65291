#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "broker/archive/retain.h"
#include "broker/base/metrics.h"
#include "tests/support/alterations.h"
#include "tests/support/model.h"
#include "tests/test.h"
#include "tests/unit/archive/folded.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* in between lists end and are filed, and the
 * broker ends and starts again. */
TEST(follows_the_log_through_rotation_and_restarts)
{
    struct world w;

    world_open(&w, state);
    for (unsigned i = 0; i < 60; i++) {
        world_post(&w, "demo", 1 + model_random(&w.random) % 30, 40);
        switch (model_random(&w.random) % 5) {
        case 0:
            sets_file_all(&w.sets);
            break;
        case 1:
            world_end(&w);
            world_begin(&w);
            break;
        case 2:
            world_fold(&w);
            world_check(&w, "demo");
            break;
        }
    }
    world_fold(&w);
    world_check(&w, "demo");
    world_end(&w);
}

/* What it is far behind of it reads in steps, and takes no more into one than
 * it should. */
TEST(catches_up_in_steps)
{
    unsigned n_steps = 0;
    struct world w;
    struct set *set;

    sets_configure(&w.sets, tempdir_path(state));
    w.random = 3;
    world_begin(&w);
    for (unsigned i = 0; i < 12; i++)
        world_post(&w, "demo", 10000, MODEL_MAX);
    set = sets_find(&w.sets, "demo");
    folding_look(&w.folding);
    while (set->folded != 120000) {
        uint64_t before = set->folded == SET_FOLDED_UNKNOWN ? 0 : set->folded;

        folding_some(&w.folding);
        if (set->folded != before)
            n_steps++;
        assert_in_range(set->folded - before, 0, 60000);
    }
    assert_in_range(n_steps, 2, 120000);
    world_check(&w, "demo");
    world_end(&w);
}

/* Sets take turns: one that is far behind does not keep the others waiting. */
TEST(gives_each_set_its_turn)
{
    struct world w;

    sets_configure(&w.sets, tempdir_path(state));
    w.random = 3;
    world_begin(&w);
    for (unsigned i = 0; i < 12; i++)
        world_post(&w, "a", 10000, MODEL_MAX);
    world_post(&w, "b", 10, 10);
    folding_look(&w.folding);
    assert_true(folding_some(&w.folding));
    assert_true(folding_some(&w.folding));
    assert_true(sets_find(&w.sets, "a")->folded < 120000);
    assert_int_equal(sets_find(&w.sets, "b")->folded, 10);
    world_fold(&w);
    world_check(&w, "a");
    world_check(&w, "b");
    world_end(&w);
}

/* More sets than states that are open at a time. */
TEST(keeps_the_states_of_many_sets)
{
    struct world w;
    char name[16];

    world_open(&w, state);
    for (unsigned i = 0; i < 200; i++) {
        unsigned n = model_random(&w.random) % (3 * OPENED_MAX);

        snprintf(name, sizeof(name), "s%u", n);
        world_post(&w, name, 1 + model_random(&w.random) % 5, 10);
        if (i % 20 == 0)
            world_fold(&w);
    }
    world_fold(&w);
    for (unsigned i = 0; i < 3 * OPENED_MAX; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        if (registry_find(w.sets.registry, slice_of(name), NULL))
            world_check(&w, name);
    }
    world_end(&w);
}

/* A look costs nothing where nothing has happened. */
TEST(rests_when_nothing_is_behind)
{
    struct world w;

    world_open(&w, state);
    folding_look(&w.folding);
    assert_false(folding_some(&w.folding));
    world_post(&w, "demo", 5, 10);
    assert_false(folding_some(&w.folding)); /* until the next look */
    folding_look(&w.folding);
    assert_true(folding_some(&w.folding));
    assert_false(folding_some(&w.folding));
    folding_look(&w.folding);
    assert_false(folding_some(&w.folding));
    world_end(&w);
}

/* a state goes on where lists have gone, and is whole. */
TEST(goes_on_behind_what_is_no_longer_retained)
{
    struct model m;
    struct world w;
    struct set *set;

    world_open(&w, state);
    model_init(&m);
    for (unsigned i = 0; i < 10; i++) {
        world_post(&w, "demo", 25, 30);
        set = sets_find(&w.sets, "demo");
        model_fold_log(&m, registry_log(w.sets.registry), set->log,
                       sets_head(&w.sets, "demo").last);
        atomic_store(&set->retain_lists, 1);
        sets_file_all(&w.sets);
        for (unsigned k = 0; k < 2; k++) {
            retain_all(w.sets.registry);
            world_fold(&w);
        }
        model_check(&m, world_state(&w, "demo"));
        if (i % 3 == 2) {
            world_end(&w);
            world_begin(&w);
        }
    }
    assert_in_range(sets_head(&w.sets, "demo").earliest, 180, 240);
    model_fini(&m);
    world_end(&w);
}

static void
purge(struct world *w)
{
    bool is_done = false;

    while (!is_done)
        assert_int_equal(
            log_purge(registry_log(w->sets.registry), &is_done, NULL), 0);
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
    struct world w;

    world_open(&w, state);
    for (unsigned i = 0; i < 4; i++) {
        bool is_quick = i % 2; /* made again before the purge */
        bool has_ended = i > 1;

        world_post(&w, "demo", 30 - i, 30);
        world_fold(&w);
        world_check(&w, "demo");
        sets_file_all(&w.sets);
        assert_true(is_there(state, "sets/demo/" RESOURCES_FILE));
        alterations_remove(&w.sets, "demo");
        if (has_ended) {
            world_end(&w);
            world_begin(&w);
        }
        if (is_quick)
            world_post(&w, "demo", 5, 30);
        purge(&w);
        assert_true(is_there(state, "sets/demo") == is_quick);
        if (is_quick) {
            world_fold(&w);
            world_check(&w, "demo");
        }
    }
    world_end(&w);
}

/* And at once it is not kept open, which would keep its room on the disk. */
TEST(is_closed_when_its_set_is_removed)
{
    struct world w;

    world_open(&w, state);
    world_post(&w, "demo", 30, 30);
    world_fold(&w);
    alterations_remove(&w.sets, "demo");
    assert_false(folding_some(&w.folding));
    for (size_t i = 0; i < OPENED_MAX; i++)
        assert_null(w.folding.states.places[i].set);
    world_end(&w);
}

/* How many resources the file has, whoever looks. */
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
    struct world w;

    world_open(&w, state);
    world_post(&w, "demo", 30, 30);
    world_fold(&w);
    assert_int_equal(rows_of(state, "demo"),
                     resources_at(world_state(&w, "demo"))->n);
    alterations_remove(&w.sets, "demo");
    alterations_put(&w.sets, "demo", "{}");
    purge(&w);
    world_fold(&w);
    assert_int_equal(rows_of(state, "demo"), 0);
    world_end(&w);
}

/* What goes wrong with one set is that set's alone, and over when it is. */
TEST(one_set_that_cannot_be_folded_stops_no_other)
{
    struct world w;

    world_open(&w, state);
    world_post(&w, "a", 30, 30);
    world_post(&w, "b", 30, 30);
    sets_file_all(&w.sets);
    assert_int_equal(mkdirat(tempdir_fd(state), "sets/a/" RESOURCES_FILE, 0755),
                     0);
    world_fold(&w);
    assert_int_equal(sets_find(&w.sets, "a")->folded, SET_FOLDED_UNKNOWN);
    world_check(&w, "b");
    assert_int_equal(
        unlinkat(tempdir_fd(state), "sets/a/" RESOURCES_FILE, AT_REMOVEDIR), 0);
    world_fold(&w);
    world_check(&w, "a");
    world_end(&w);
}

/* How far all are behind, for whoever watches. */
TEST(tells_how_far_it_is_behind)
{
    struct world w;
    struct buf text;

    world_open(&w, state);
    world_post(&w, "a", 3, 30);
    world_post(&w, "b", 4, 30);
    world_fold(&w);
    world_post(&w, "a", 2, 30);
    world_post(&w, "b", 5, 30);
    folding_look(&w.folding);
    buf_init(&text, SIZE_MAX);
    metrics_write(&text);
    buf_add(&text, "", 1);
    assert_non_null(strstr(text.data, "\ntidings_fold_lag_entries 7\n"));
    world_fold(&w);
    folding_look(&w.folding);
    buf_clear(&text);
    metrics_write(&text);
    buf_add(&text, "", 1);
    assert_non_null(strstr(text.data, "\ntidings_fold_lag_entries 0\n"));
    buf_fini(&text);
    world_end(&w);
}

/* what is behind is read at the next start. */
TEST(is_given_up_when_the_log_ends)
{
    struct world w;

    world_open(&w, state);
    world_post(&w, "demo", 10, 40);
    world_fold(&w);
    world_post(&w, "demo", 30, 40);
    registry_stop(w.sets.registry);
    folding_look(&w.folding);
    assert_false(folding_some(&w.folding));
    assert_int_equal(sets_find(&w.sets, "demo")->folded, 10);

    world_end(&w);
    world_begin(&w);
    world_fold(&w);
    world_check(&w, "demo");
    world_end(&w);
}
