#include "broker/archive/retention.h"

#include "broker/archive/set_progress.h"
#include "tests/clock.h"
#include "tests/support/channel.h"
#include "tests/test.h"
#include "tests/unit/sets/stage.h"

/* A set of `n` closed lists, two entries each, all filed. */
static void
open_lists(unsigned n)
{
    s.config.rotate_entries = 2;
    s.config.remove_grace_us = 0;
    sets_open(&s);
    sets_post(&s, "demo", 1, 2 * n);
    sets_file_all(&s);
}

/* As the archive thread does it: fold first, as retention waits for that. */
static void
retain(void)
{
    sets_retain(&s);
    sets_fold_all(&s);
    sets_retain(&s);
}

static void
assert_begins(uint64_t list, uint64_t earliest)
{
    struct head head = sets_head(&s, "demo");

    assert_int_equal(head.first_list, list);
    assert_int_equal(head.earliest, earliest);
}

FIXTURE(stage_configure, stage_close);

/* The default: everything, for ever. */
TEST(retains_everything_unless_told_otherwise)
{
    open_lists(5);
    retain();
    assert_begins(1, 0);
}

/* the oldest go, in one step for all who look; never more. */
TEST(lets_the_oldest_lists_go_by_number)
{
    open_lists(5);
    atomic_store(&sets_find(&s, "demo")->retain_lists, 3);
    retain();
    assert_begins(3, 4);
    retain();
    assert_begins(3, 4);
    atomic_store(&sets_find(&s, "demo")->retain_lists, 1);
    retain();
    assert_begins(5, 8);
    stage_restart();
    assert_begins(5, 8);
}

/* A list without a file cannot go: its rows are all there is of it. */
TEST(keeps_what_is_not_filed)
{
    open_lists(2);
    sets_post(&s, "demo", 5, 6); /* lists 3 to 5, without files */
    atomic_store(&sets_find(&s, "demo")->retain_lists, 1);
    retain();
    assert_begins(3, 4);
    retain();
    assert_begins(3, 4);
    sets_file_all(&s);
    retain();
    assert_begins(5, 8);
}

/* the entries of a list are in the state, and that on the disk, before
 * the list may go: else a crash of the machine would lose them. */
TEST(waits_until_the_state_is_on_the_disk)
{
    struct set *set;

    open_lists(5);
    set = sets_find(&s, "demo");
    atomic_store(&set->retain_lists, 3);
    sets_retain(&s);
    assert_begins(1, 0);
    assert_int_equal(set->progress->fold.wanted, 2);
    sets_retain(&s);
    assert_begins(1, 0);
    sets_fold_all(&s);
    assert_int_equal(set->progress->fold.kept, 10);
    sets_retain(&s);
    assert_begins(3, 4);
    sets_close(&s);

    /* In another life of the process it is not known what is on the disk. */
    sets_open(&s);
    set = sets_find(&s, "demo");
    atomic_store(&set->retain_lists, 1);
    sets_retain(&s);
    assert_begins(3, 4);
    sets_fold_all(&s);
    sets_retain(&s);
    assert_begins(5, 8);
}

static bool
needs_list_4(struct set *set, const struct list_info *list)
{
    (void)set;
    return list->number == 4;
}

static bool
needs_list_2(struct set *set, const struct list_info *list)
{
    (void)set;
    return list->number == 2;
}

static void
retain_with(struct chore *first, struct chore *second)
{
    struct retaining retaining;
    struct list chores;

    list_init(&chores);
    list_append(&chores, &first->node);
    list_append(&chores, &second->node);
    retention_init(&retaining, s.registry, &chores);
    chore_look(&retaining.chore);
}

/* A list stays while one chore needs it, in whichever order retention asks
 * them; it does not ask one whose patience is over. */
TEST(keeps_what_a_chore_needs)
{
    struct chore two = {.needs = needs_list_2}, four = {.needs = needs_list_4};

    open_lists(6);
    atomic_store(&sets_find(&s, "demo")->retain_lists, 1);
    retain_with(&two, &four);
    assert_begins(2, 2);
    retain_with(&four, &two);
    assert_begins(2, 2);
    two.patience = 1; /* 2 and 3 could go, but for it */
    retain_with(&four, &two);
    assert_begins(4, 6);
    four.patience = 2; /* and now 4 and 5 */
    retain_with(&two, &four);
    assert_begins(4, 6);
    four.patience = 1;
    retain_with(&two, &four);
    assert_begins(6, 10);
}

/* By age, and not before it; the open list stays in any case. */
TEST(lets_old_lists_go_by_age)
{
    struct set *set;

    open_lists(3);
    set = sets_find(&s, "demo");
    atomic_store(&set->retain_age_us, INT64_C(3600000000));
    retain();
    assert_begins(1, 0);
    assert_int_equal(set->progress->retention.list,
                     1); /* it need not look again */
    sets_post(&s, "demo", 7, 1);
    atomic_store(&set->retain_age_us, 1);
    clock_pass_us(1000); /* times of entries run ahead of a clock that stands */
    retain();
    assert_begins(4, 6);
    assert_int_equal(sets_head(&s, "demo").file_bytes, 0);
}

/* More than one step's worth goes step by step, the oldest first. */
TEST(goes_on_where_it_stopped)
{
    open_lists(300);
    atomic_store(&sets_find(&s, "demo")->retain_lists, 10);
    sets_retain(&s);
    sets_fold_all(&s);
    sets_retain(&s);
    assert_begins(257, 512);
    sets_retain(&s);
    assert_begins(291, 580);
}

/* The framework log is bounded for any options: ten closed lists. */
TEST(retains_a_fixed_number_of_the_framework_log)
{
    const struct event event = {.change = CHANGE_UPDATED,
                                .capability = CAP_DESCRIPTION,
                                .loc = SLICE(SETS_URL "/")};
    struct head head;

    s.config.retain_lists = 2;
    s.config.remove_grace_us = 0;
    sets_open(&s);
    for (unsigned i = 0; i < 12; i++) {
        struct post close = {.kind = POST_CLOSE,
                             .set = s.registry->framework->log};

        channel_add(&s, &event, 1);
        assert_int_equal(log_post_and_wait(s.registry->log, &close, NULL),
                         STATUS_OK);
    }
    sets_file_all(&s);
    retain();
    for (int i = 0; i < 2; i++) {
        log_head(s.registry->framework->log, &head);
        assert_int_equal(head.list, 13);
        assert_int_equal(head.first_list, 3);
        assert_int_equal(head.earliest, 2);
        stage_restart();
    }
    retain();
    log_head(s.registry->framework->log, &head);
    assert_int_equal(head.first_list, 3);
}
