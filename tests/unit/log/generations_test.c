/*
 * generations_test.c - a build becomes current in one commit; what is neither
 * current nor archived goes when its time has come, and no number comes twice.
 */

#include "tests/support/logs.h"
#include "tests/support/posts.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

#define HOUR_US INT64_C(3600000000)

struct stage {
    struct logs logs; /* the first: see on_removed */
    struct log_set *set;
    uint64_t again; /* where a removed set goes on */
};

static void
open_stage(struct stage *s, void **state)
{
    logs_open(&s->logs, tempdir_path(state), 2);
    s->set = logs_set(&s->logs, "demo");
}

static void
open_again(struct stage *s, void **state)
{
    logs_close(&s->logs);
    open_stage(s, state);
}

static struct generations
now_of(const struct stage *s)
{
    struct head head;

    assert_true(log_head(s->set, &head));
    return head.generations[GENERATION_RESOURCELIST];
}

/* Switches to a build of `n` resources. */
static uint64_t
switch_to(struct stage *s, uint64_t n, bool is_archived, int64_t grace_us)
{
    const struct generation generation = {
        .number = now_of(s).last + 1,
        .seq = n,
        .at_us = 1000 + (int64_t)n,
        .completed_us = 2000 + (int64_t)n,
        .n = n,
        .parts = 1 + n / 50000,
        .bytes = 300 * n,
        .is_archived = is_archived,
    };
    struct problem why = {""};

    if (log_switch(s->logs.log, s->set, &generation, grace_us, &why))
        fail_msg("%s", why.text);
    return generation.number;
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

static void
remove_set(struct stage *s, int64_t grace_us)
{
    struct posted p;

    posts_begin(&p, POST_REMOVE, s->set);
    p.post.grace_us = grace_us;
    assert_int_equal(log_submit(s->logs.log, &p.post), STATUS_OK);
    assert_int_equal(posts_wait(&p), STATUS_OK);
    posts_end(&p);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* who looks at the head sees all of one generation. */
TEST(the_last_one_is_current_from_its_commit_on)
{
    struct stage s;
    struct generations now;

    open_stage(&s, state);
    assert_int_equal(logs_post(&s.logs, s.set, 1, 3, NULL, NULL), STATUS_OK);
    assert_int_equal(now_of(&s).current.number, 0);
    assert_int_equal(switch_to(&s, 3, false, HOUR_US), 1);
    assert_int_equal(now_of(&s).current.number, 1);
    assert_int_equal(switch_to(&s, 60000, false, HOUR_US), 2);
    open_again(&s, state);
    now = now_of(&s);
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
    logs_close(&s.logs);
}

/* an archived one is in the archive from the commit on in which it
 * becomes current, and stays there when it no longer is. */
TEST(archived_ones_stay_until_they_are_let_go)
{
    struct stage s;
    struct generation found[8];
    struct due_generation gone;
    size_t n = 8;

    open_stage(&s, state);
    assert_int_equal(logs_post(&s.logs, s.set, 1, 3, NULL, NULL), STATUS_OK);
    for (unsigned i = 1; i <= 6; i++)
        switch_to(&s, i, i % 2 == 0, 0);
    assert_int_equal(now_of(&s).n_archived, 3);
    assert_int_equal(now_of(&s).first_archived, 2);
    assert_int_equal(log_generations(s.logs.log, s.set, GENERATION_RESOURCELIST,
                                     0, found, &n, NULL),
                     STATUS_OK);
    assert_int_equal(n, 3);
    assert_int_equal(found[0].number, 2);
    assert_int_equal(found[2].number, 6);
    assert_true(found[2].is_archived);
    assert_int_equal(log_unarchive(s.logs.log, s.set, found, 1, 0, NULL),
                     STATUS_OK);
    open_again(&s, state);
    assert_int_equal(now_of(&s).n_archived, 2);
    assert_int_equal(now_of(&s).first_archived, 4);
    n = 1;
    assert_int_equal(log_generations(s.logs.log, s.set, GENERATION_RESOURCELIST,
                                     5, found, &n, NULL),
                     STATUS_OK);
    assert_int_equal(n, 1);
    assert_int_equal(found[0].number, 6);

    /* 1, 3 and 5 were never archived, 2 is not any more. */
    for (unsigned left = 4; left > 0; left--) {
        uint64_t number = due(&s, &gone);

        assert_true(number == 1 || number == 2 || number == 3 || number == 5);
        assert_string_equal(gone.name, "demo");
        assert_int_equal(log_swept(s.logs.log, &gone, NULL), STATUS_OK);
    }
    assert_int_equal(due(&s, &gone), 0);
    logs_close(&s.logs);
}

/* Who reads the former one may do so for a while. */
TEST(the_former_one_goes_when_its_grace_is_over)
{
    struct stage s;
    struct due_generation gone;

    open_stage(&s, state);
    assert_int_equal(logs_post(&s.logs, s.set, 1, 3, NULL, NULL), STATUS_OK);
    switch_to(&s, 1, false, HOUR_US);
    assert_int_equal(due(&s, &gone), 0);
    switch_to(&s, 2, false, HOUR_US);
    assert_int_equal(due(&s, &gone), 0);
    switch_to(&s, 3, false, 0);
    assert_int_equal(due(&s, &gone), 2);
    logs_close(&s.logs);
}

/* log_options.on_removed */
static enum status
on_removed(const char *name, uint64_t list, int64_t removed_us, void *user)
{
    /* The logs are the first of the stage. */
    struct stage *s = (struct stage *)(void *)(struct logs *)user;

    assert_string_equal(name, "demo");
    assert_true(removed_us > 0);
    s->again = list;
    return STATUS_OK;
}

/* As open_again, where the set was removed. */
static void
open_behind_removal(struct stage *s, void **state)
{
    struct problem why = {""};

    open_again(s, state);
    logs_close(&s->logs);
    s->logs.options.on_removed = on_removed;
    if (log_open(&s->logs.log, &s->logs.options, &why))
        fail_msg("%s", why.text);
}

/* A removed set's generations are due with its lists, and the one that is made
 * again gives no number that was told. */
TEST(a_set_that_is_made_again_goes_on_behind_its_numbers)
{
    struct stage s;
    struct due_generation gone;
    struct generation lost = {.number = 9, .parts = 1};

    open_stage(&s, state);
    assert_int_equal(logs_post(&s.logs, s.set, 1, 3, NULL, NULL), STATUS_OK);
    for (unsigned i = 1; i <= 8; i++)
        switch_to(&s, i, true, 0);
    remove_set(&s, 0);
    assert_int_equal(log_switch(s.logs.log, s.set, &lost, 0, NULL),
                     STATUS_GONE);
    open_behind_removal(&s, state);
    assert_int_equal(s.again, 9);
    s.set = log_set_again(s.logs.log, "demo", s.again, &s.logs);
    assert_int_equal(logs_post(&s.logs, s.set, 1, 3, NULL, NULL), STATUS_OK);
    assert_int_equal(now_of(&s).n_archived, 0);
    assert_int_equal(switch_to(&s, 1, false, 0), 9);
    for (unsigned left = 8; left > 0; left--) {
        assert_in_range(due(&s, &gone), 1, 8);
        assert_int_equal(log_swept(s.logs.log, &gone, NULL), STATUS_OK);
    }
    assert_int_equal(due(&s, &gone), 0);
    logs_close(&s.logs);
}
