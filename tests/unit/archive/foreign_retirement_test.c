/* Lists that another broker of the cluster has retired: they stay until the
 * state has their entries. */
#include <unistd.h>

#include "tests/support/shared_journal.h"
#include "tests/unit/archive/folded.h"

static struct shared_journal all;
static struct seat seats[2];
static struct tempdir directory;
static struct sets other;

static int
setup(void **state)
{
    if (world_configure(state))
        return -1;
    shared_journal_init(&all);
    tempdir_open(&directory);
    sets_configure(&other, directory.path);
    other.config.rotate_entries = world.sets.config.rotate_entries = 20;
    other.journal = seat_take(&seats[0], &all);
    world.sets.journal = seat_take(&seats[1], &all);
    sets_open(&other);
    world_begin();
    return 0;
}

static int
teardown(void **state)
{
    sets_close(&other);
    tempdir_close(&directory);
    world.sets.journal = NULL;
    if (world_teardown(state))
        return -1;
    shared_journal_fini(&all);
    return 0;
}

FIXTURE(setup, teardown);

/* The other broker posts `n` resources, and keeps only the last of its lists,
 * without grace; this broker follows. */
static void
follow_retirement(uint64_t n)
{
    struct set *set;
    struct problem why = {""};
    struct list_info lists[8];
    struct head head;
    size_t n_lists = 8;

    sets_post(&other, "demo", 1, (unsigned)n);
    sets_file_all(&other);
    set = sets_find(&other, "demo");
    assert_true(log_head(set->log, &head));
    assert_int_equal(
        log_lists(other.registry->log, set->log, 1, lists, &n_lists, &why),
        STATUS_OK);
    assert_int_equal(n_lists, head.list - 1);
    assert_int_equal(
        log_retire(other.registry->log, set->log, lists, n_lists - 1, 0, &why),
        STATUS_OK);
    shared_journal_follow(&all, world.sets.registry->log);
    assert_int_equal(sets_head(&world.sets, "demo").earliest,
                     sets_head(&other, "demo").earliest);
    assert_true(sets_head(&world.sets, "demo").earliest > 0);
}

/* True if the first list is not deleted. */
static bool
has_first(void)
{
    struct list_info list;

    return !log_list(world.sets.registry->log,
                     sets_find(&world.sets, "demo")->log, 1, &list, NULL, NULL);
}

static void
assert_whole(uint64_t n)
{
    const struct resources_at *at;

    world_fold();
    at = resources_at(world_state("demo"));
    assert_true(at->is_whole);
    assert_int_equal(at->seq, n);
    assert_int_equal(at->n, n);
}

/* Filed here or not. */
TEST(stay_until_the_state_has_them)
{
    for (unsigned i = 0; i < 2; i++) {
        if (i)
            assert_int_equal(teardown(state) || setup(state), 0);
        follow_retirement(90);
        if (i)
            sets_file_all(&world.sets);
        sets_purge(&world.sets);
        assert_true(has_first());
        assert_whole(90);
        sets_purge(&world.sets);
        assert_false(has_first());
    }
}

/* Also when the broker ends in between. */
TEST(stay_over_a_restart)
{
    follow_retirement(90);
    world_end();
    world_begin();
    sets_purge(&world.sets);
    assert_true(has_first());
    world_end();
    world_begin();
    sets_purge(&world.sets);
    assert_whole(90);
}

/* A state that was lost after that begins where the log begins now, and says
 * so. */
TEST(that_are_gone_leave_a_lost_state_incomplete)
{
    const struct resources_at *at;

    follow_retirement(90);
    sets_file_all(&world.sets);
    sets_purge(&world.sets);
    assert_whole(90);
    sets_purge(&world.sets);
    world_end();
    assert_int_equal(
        unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE, 0), 0);
    unlinkat(tempdir_fd(state), "sets/demo/" RESOURCES_FILE "-wal", 0);
    world_begin();
    world_fold();
    at = resources_at(world_state("demo"));
    assert_false(at->is_whole);
    assert_int_equal(at->seq, 90);
    assert_int_equal(at->began, sets_head(&world.sets, "demo").earliest);
}
