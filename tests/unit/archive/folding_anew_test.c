/* States that are folded anew: lost, damaged, or of another log. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/archive/set_progress.h"
#include "tests/support/chores.h"
#include "tests/test.h"
#include "tests/unit/archive/folded.h"

FIXTURE(world_setup, world_teardown);

/* Without its state, a log that has lost its beginning does not have all
 * resources: the new state is not whole. */
TEST(is_not_whole_without_the_beginning)
{
    struct resources *r;

    world_post("demo", 50, 30);
    atomic_store(&sets_find(&world.sets, "demo")->retain_lists, 1);
    sets_file_all(&world.sets);
    sets_retain(&world.sets);
    world_fold();
    sets_retain(&world.sets);
    assert_int_equal(sets_head(&world.sets, "demo").earliest, 20);
    sets_purge(&world.sets);
    world_end();
    assert_int_equal(
        unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE, 0), 0);
    unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE "-wal", 0);

    world_begin();
    world_fold();
    r = world_state("demo");
    assert_int_equal(resources_at(r)->seq, 50);
    assert_false(resources_at(r)->is_whole);
}

/* An older copy of the log was put in its place. */
TEST(begins_anew_when_it_is_ahead_of_the_log)
{
    char command[600];

    world_post("demo", 30, 30);
    world_end();
    snprintf(command, sizeof(command), "cp %s/tidings.db %s/old",
             tempdir_path(state), tempdir_path(state));
    assert_int_equal(system(command), 0);
    world_begin();
    world_post("demo", 10, 30);
    world_fold();
    world_end();

    assert_int_equal(
        renameat(tempdir_fd(state), "old", tempdir_fd(state), "tidings.db"), 0);
    unlinkat(tempdir_fd(state), "tidings.db-wal", 0);
    unlinkat(tempdir_fd(state), "tidings.db-shm", 0);
    world_begin();
    assert_int_equal(sets_head(&world.sets, "demo").last, 30);
    world_fold();
    world_check("demo");
}

/* A lost state is folded anew, and the durable position of the old one does not
 * count: retention waits for the new one. */
TEST(has_kept_nothing_when_it_begins_anew)
{
    struct set *set;

    world_post("demo", 30, 30);
    set = sets_find(&world.sets, "demo");
    set->progress->fold.wanted = 20;
    world_fold();
    assert_int_equal(set->progress->fold.kept, 30);
    chore_end(&world.folding.chore);
    state_fold_init(&world.folding, world.sets.registry);
    world.folding.rest_us = FOLD_AT_ONCE;
    world_post("demo", 5, 30);
    world_fold();
    assert_int_equal(set->progress->fold.kept,
                     30); /* as before: it is the same */
    chore_end(&world.folding.chore);
    assert_int_equal(
        unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE, 0), 0);
    unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE "-wal", 0);
    state_fold_init(&world.folding, world.sets.registry);
    world.folding.rest_us = FOLD_AT_ONCE;
    set->progress->fold.wanted = 0;
    world_post("demo", 5, 30);
    world_fold();
    world_check("demo");
    assert_int_equal(set->progress->fold.kept, 0);
}

static void
damage_rows(const char *name)
{
    static const char nonsense[4096] = "nonsense";
    struct set *set = sets_find(&world.sets, name);
    struct stat st;
    int fd;

    fd = open(set_path(set, RESOURCES_FILE).text, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(st.st_size > (off_t)6 * 4096);
    for (off_t at = (off_t)5 * 4096; at < st.st_size; at += 4096)
        assert_int_equal(pwrite(fd, nonsense, sizeof(nonsense), at), 4096);
    close(fd);
}

/* A walk of the state has found the damage; no further event of the set is
 * needed. */
TEST(is_folded_again_when_a_walk_has_found_damage)
{
    struct resources_entry e = {.id = 0};
    struct problem why = {""};
    struct resources *r;
    enum status rc = STATUS_OK;

    world_post("demo", 2000, 1000);
    world_fold();
    assert_int_equal(resources_keep(world_state("demo"), NULL), STATUS_OK);
    chore_end(&world.folding.chore);
    damage_rows("demo");
    state_fold_init(&world.folding, world.sets.registry);
    world.folding.rest_us = FOLD_AT_ONCE;

    r = world_state("demo");
    assert_int_equal(resources_at(r)->seq, 2000);
    while (!rc)
        rc = resources_next(r, e.id, &e, &why);
    assert_int_equal(rc, STATUS_IO);

    /* A build that has begun from this state gets no other one. */
    world.folding.held = sets_find(&world.sets, "demo");
    assert_int_equal(state_fold_open(&world.folding,
                                     sets_find(&world.sets, "demo"), &r, &why),
                     STATUS_IO);
    world.folding.held = NULL;
    assert_int_equal(resources_at(world_state("demo"))->seq, 0);
    world_fold();
    world_check("demo");
}
