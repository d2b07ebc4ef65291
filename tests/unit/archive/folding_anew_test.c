/* States that are folded anew: lost, damaged, or not of this log. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/archive/retain.h"
#include "tests/test.h"
#include "tests/unit/archive/folded.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* Without its state, a log that no longer has its beginning cannot tell what
 * there is: the new one says that it is not whole. */
TEST(is_not_whole_without_the_beginning)
{
    struct resources *r;
    struct world w;

    world_open(&w, state);
    world_post(&w, "demo", 50, 30);
    atomic_store(&sets_find(&w.sets, "demo")->retain_lists, 1);
    sets_file_all(&w.sets);
    retain_all(w.sets.registry);
    world_fold(&w);
    retain_all(w.sets.registry);
    assert_int_equal(sets_head(&w.sets, "demo").earliest, 20);
    world_end(&w);
    assert_int_equal(
        unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE, 0), 0);
    unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE "-wal", 0);

    world_begin(&w);
    world_fold(&w);
    r = world_state(&w, "demo");
    assert_int_equal(resources_at(r)->seq, 50);
    assert_false(resources_at(r)->is_whole);
    world_end(&w);
}

/* An older copy of the log was put in its place. */
TEST(begins_anew_when_it_is_ahead_of_the_log)
{
    char command[600];
    struct world w;

    world_open(&w, state);
    world_post(&w, "demo", 30, 30);
    world_end(&w);
    snprintf(command, sizeof(command), "cp %s/tidings.db %s/old",
             tempdir_path(state), tempdir_path(state));
    assert_int_equal(system(command), 0);
    world_begin(&w);
    world_post(&w, "demo", 10, 30);
    world_fold(&w);
    world_end(&w);

    assert_int_equal(
        renameat(tempdir_fd(state), "old", tempdir_fd(state), "tidings.db"), 0);
    unlinkat(tempdir_fd(state), "tidings.db-wal", 0);
    unlinkat(tempdir_fd(state), "tidings.db-shm", 0);
    world_begin(&w);
    assert_int_equal(sets_head(&w.sets, "demo").last, 30);
    world_fold(&w);
    world_check(&w, "demo");
    world_end(&w);
}

/* A state that is lost is folded anew, and what of the old one was on the disk
 * is worth nothing: retention waits for the new one. */
TEST(has_kept_nothing_when_it_begins_anew)
{
    struct world w;
    struct set *set;

    world_open(&w, state);
    world_post(&w, "demo", 30, 30);
    set = sets_find(&w.sets, "demo");
    set->folded_wanted = 20;
    world_fold(&w);
    assert_int_equal(set->folded_kept, 30);
    folding_fini(&w.folding);
    folding_init(&w.folding, w.sets.registry);
    world_post(&w, "demo", 5, 30);
    world_fold(&w);
    assert_int_equal(set->folded_kept, 30); /* as before: it is the same */
    folding_fini(&w.folding);
    assert_int_equal(
        unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE, 0), 0);
    unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE "-wal", 0);
    folding_init(&w.folding, w.sets.registry);
    set->folded_wanted = 0;
    world_post(&w, "demo", 5, 30);
    world_fold(&w);
    world_check(&w, "demo");
    assert_int_equal(set->folded_kept, 0);
    world_end(&w);
}

static void
damage_rows(struct world *w, const char *name)
{
    static const char nonsense[4096] = "nonsense";
    char path[FOLDING_PATH_MAX];
    struct stat st;
    int fd;

    folding_path(sets_find(&w->sets, name), path);
    fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_true(st.st_size > (off_t)6 * 4096);
    for (off_t at = (off_t)5 * 4096; at < st.st_size; at += 4096)
        assert_int_equal(pwrite(fd, nonsense, sizeof(nonsense), at), 4096);
    close(fd);
}

/* Whoever has walked the state has found it; nothing else is going to happen to
 * the set. */
TEST(is_folded_again_when_a_walk_has_found_damage)
{
    struct resources_entry e = {.id = 0};
    struct problem why = {""};
    struct resources *r;
    struct world w;
    enum status rc = STATUS_OK;

    world_open(&w, state);
    world_post(&w, "demo", 2000, 1000);
    world_fold(&w);
    assert_int_equal(resources_keep(world_state(&w, "demo"), NULL), STATUS_OK);
    folding_fini(&w.folding);
    damage_rows(&w, "demo");
    folding_init(&w.folding, w.sets.registry);

    r = world_state(&w, "demo");
    assert_int_equal(resources_at(r)->seq, 2000);
    while (!rc)
        rc = resources_next(r, e.id, &e, &why);
    assert_int_equal(rc, STATUS_IO);

    /* What is being built of it is built of no other. */
    folding_hold(&w.folding, sets_find(&w.sets, "demo"));
    assert_int_equal(
        folding_open(&w.folding, sets_find(&w.sets, "demo"), &r, &why),
        STATUS_IO);
    folding_hold(&w.folding, NULL);
    assert_int_equal(resources_at(world_state(&w, "demo"))->seq, 0);
    world_fold(&w);
    world_check(&w, "demo");
    world_end(&w);
}
