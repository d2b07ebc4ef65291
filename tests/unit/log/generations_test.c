/*
 * generations_test.c - a build becomes current in one commit; a generation that
 * is neither current nor archived goes when its grace is over, and no number
 * comes twice.
 */

#include "broker/log/log_set.h"
#include "tests/test.h"
#include "tests/unit/log/stage.h"

#define HOUR_US INT64_C(3600000000)

static struct generations
now_of(struct stage *s)
{
    return stage_head(s).generations[GENERATION_RESOURCELIST];
}

/* Switches to a build of `n` resources. */
static uint64_t
switch_to(struct stage *s, uint64_t n, bool is_archived, int64_t grace_us)
{
    const struct act act = {
        .kind = ACT_GENERATION,
        .generation.build = {.number = now_of(s).last + 1,
                             .seq = n,
                             .at_us = 1000 + (int64_t)n,
                             .completed_us = 2000 + (int64_t)n,
                             .n = n,
                             .parts = 1 + n / 50000,
                             .bytes = 300 * n,
                             .is_archived = is_archived},
    };
    struct problem why = {""};

    if (log_act(s->logs.log, s->set, &act, grace_us, &why))
        fail_msg("%s", why.text);
    return act.generation.build.number;
}

/* Its files are gone. */
static void
sweep(struct stage *s, const struct due_generation *gone)
{
    const struct act act = {.kind = ACT_SWEPT, .swept = {gone->id}};

    assert_int_equal(log_act(s->logs.log, NULL, &act, 0, NULL), STATUS_OK);
}

/* The first that is due; 0: none is. */
static uint64_t
due(struct stage *s, struct due_generation *due)
{
    enum status rc;

    *due = (struct due_generation){.id = 0};
    rc = log_due(s->logs.log, due, NULL);

    if (rc == STATUS_NOT_FOUND)
        return 0;
    assert_int_equal(rc, STATUS_OK);
    return due->number;
}

FIXTURE(stage_setup, stage_teardown);

/* a look at the head shows all of one generation. */
TEST(the_last_one_is_current_from_its_commit_on)
{
    struct stage *s = *state;
    struct generations now;

    stage_open(s, 2);
    stage_post(s, 1, 3);
    assert_int_equal(now_of(s).current.number, 0);
    assert_int_equal(switch_to(s, 3, false, HOUR_US), 1);
    assert_int_equal(now_of(s).current.number, 1);
    assert_int_equal(switch_to(s, 60000, false, HOUR_US), 2);
    stage_reopen(s);
    now = now_of(s);
    assert_int_equal(now.current.number, 2);
    assert_int_equal(now.current.seq, 60000);
    assert_int_equal(now.current.at_us, 61000);
    assert_int_equal(now.current.completed_us, 62000);
    assert_int_equal(now.current.n, 60000);
    assert_int_equal(now.current.parts, 2);
    assert_int_equal(now.current.bytes, 18000000);
    assert_false(now.current.is_archived);
    assert_int_equal(now.last, 2);
    assert_int_equal(now.n_archived, 0);
}

/* an archived one is in the archive from the commit on in which it
 * becomes current, and stays there when it no longer is. */
TEST(archived_ones_stay_until_they_are_let_go)
{
    struct stage *s = *state;
    struct generation found[8];
    struct due_generation gone;
    struct generation_page page = {GENERATION_RESOURCELIST, 0, found, 8};
    struct act first_goes = {
        .kind = ACT_UNARCHIVED,
        .unarchived = {.kind = GENERATION_RESOURCELIST, .from = 2, .n = 1}};

    stage_open(s, 2);
    stage_post(s, 1, 3);
    for (unsigned i = 1; i <= 6; i++)
        switch_to(s, i, i % 2 == 0, 0);
    assert_int_equal(now_of(s).n_archived, 3);
    assert_int_equal(now_of(s).first_archived, 2);
    assert_int_equal(log_generations(s->logs.log, s->set, &page, NULL),
                     STATUS_OK);
    assert_int_equal(page.n, 3);
    assert_int_equal(found[0].number, 2);
    assert_int_equal(found[2].number, 6);
    assert_true(found[2].is_archived);
    first_goes.unarchived.first_archived = found[1].number;
    /* Twice: in a cluster two brokers may let go of the same one. */
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(log_act(s->logs.log, s->set, &first_goes, 0, NULL),
                         STATUS_OK);
    assert_int_equal(now_of(s).n_archived, 2);
    stage_reopen(s);
    assert_int_equal(now_of(s).n_archived, 2);
    assert_int_equal(now_of(s).first_archived, 4);
    page.from = 5;
    page.n = 1;
    assert_int_equal(log_generations(s->logs.log, s->set, &page, NULL),
                     STATUS_OK);
    assert_int_equal(page.n, 1);
    assert_int_equal(found[0].number, 6);

    /* 1, 3 and 5 were never archived, 2 is not any more. */
    for (unsigned left = 4; left > 0; left--) {
        uint64_t number = due(s, &gone);

        assert_true(number == 1 || number == 2 || number == 3 || number == 5);
        assert_string_equal(gone.name, "demo");
        sweep(s, &gone);
    }
    assert_int_equal(due(s, &gone), 0);
}

/* Readers of the former one may go on for a while. */
TEST(the_former_one_goes_when_its_grace_is_over)
{
    struct stage *s = *state;
    struct due_generation gone;

    stage_open(s, 2);
    stage_post(s, 1, 3);
    switch_to(s, 1, false, HOUR_US);
    assert_int_equal(due(s, &gone), 0);
    switch_to(s, 2, false, HOUR_US);
    assert_int_equal(due(s, &gone), 0);
    switch_to(s, 3, false, 0);
    assert_int_equal(due(s, &gone), 2);
}

/* A removed set's generations are due with its lists, and the new set does not
 * reuse their numbers. */
TEST(a_set_that_is_made_again_goes_on_behind_its_numbers)
{
    struct stage *s = *state;
    struct due_generation gone;
    const struct act lost = {.kind = ACT_GENERATION,
                             .generation.build = {.number = 9, .parts = 1}};

    stage_open(s, 2);
    stage_post(s, 1, 3);
    for (unsigned i = 1; i <= 8; i++)
        switch_to(s, i, true, 0);
    stage_remove(s, s->set, 0);
    assert_int_equal(log_act(s->logs.log, s->set, &lost, 0, NULL), STATUS_GONE);
    stage_open(s, 2);
    stage_reopen(s);
    assert_int_equal(s->again, 9);
    stage_post(s, 1, 3);
    assert_int_equal(now_of(s).n_archived, 0);
    assert_int_equal(switch_to(s, 1, false, 0), 9);
    for (unsigned left = 8; left > 0; left--) {
        assert_in_range(due(s, &gone), 1, 8);
        sweep(s, &gone);
    }
    assert_int_equal(due(s, &gone), 0);
}

/* A removed set's generations outlive its other rows while their files cannot
 * be deleted. A new set has another id, also after a restart. */
TEST(no_set_gets_the_id_of_one_that_has_left_generations)
{
    struct stage *s = *state;
    struct problem why = {""};
    bool is_done = false;
    uint32_t id;

    stage_open(s, 2);
    stage_post(s, 1, 3);
    switch_to(s, 1, true, 0);
    id = atomic_load(&s->set->public_id);
    stage_remove(s, s->set, 0);
    while (!is_done)
        assert_int_equal(log_purge(s->logs.log, NULL, &is_done, &why),
                         STATUS_OK);
    stage_reopen(s);
    stage_post(s, 1, 3);
    assert_true(atomic_load(&s->set->public_id) > id);
}
