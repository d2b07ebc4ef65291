/*
 * uploads_test.c - which of the uploads of several sources is next.
 */
#include "broker/archive/uploads.h"

#include <stdio.h>
#include <string.h>

#include "broker/state/upload_file.h"
#include "tests/clock.h"
#include "tests/support/chores.h"
#include "tests/support/sets.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* Stages an upload of one resource for the set, at its present head. */
static void
stage(struct sets *s, const char *dir, const char *name)
{
    struct upload_file_about about = {.max_delete = 100};
    struct head head = {.last = 0};
    struct problem why = {""};
    struct upload_file *staging;
    struct change change;
    struct block block = {.bytes = {.max = 1 << 20}};

    if (registry_find(s->registry, slice_of(name), &head))
        memcpy(about.epoch, head.epoch, sizeof(head.epoch));
    about.after = head.last;
    change_init(&change);
    change.loc = SLICE("http://example.com/r/1000");
    change.kind = CHANGE_CREATED;
    if (block_add(&block, &change, &why) ||
        upload_file_begin(&staging, dir, name, &why) ||
        upload_file_add(staging, &block, &why) ||
        upload_file_finish(staging, &about, &why))
        fail_msg("%s", why.text);
    block_fini(&block);
}

/* As often as it takes where nothing has to wait, and then some. */
static void
work(struct uploads *u)
{
    for (unsigned i = 0; i < 1000; i++)
        (void)chore_step(&u->chore);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* A held state, perhaps for hours, delays only the upload that needs it; that
 * upload's turns take no time, so the thread may sleep. */
TEST(others_do_not_wait_for_a_state_that_is_held)
{
    static const char *const names[] = {"first", "held", "last"};
    struct state_fold folding;
    struct problem why = {""};
    struct sets sets;
    struct uploads u;
    char dir[400];

    sets_configure(&sets, tempdir_path(state));
    sets_open(&sets);
    state_fold_init(&folding, sets.registry);
    folding.rest_us = FOLD_AT_ONCE;
    snprintf(dir, sizeof(dir), "%s/uploads", tempdir_path(state));
    sets_post(&sets, "held", 1, 5);
    folding.held = sets_find(&sets, "held");
    for (unsigned i = 0; i < 3; i++)
        stage(&sets, dir, names[i]);
    if (uploads_init(&u, sets.registry, &folding, NULL, &why))
        fail_msg("%s", why.text);

    work(&u);
    assert_int_equal(sets_head(&sets, "first").last, 1);
    assert_int_equal(sets_head(&sets, "last").last, 1);
    assert_int_equal(sets_head(&sets, "held").last, 5);
    assert_false(chore_step(&u.chore));

    folding.held = NULL;
    clock_pass_us(999999); /* it was put off for a second */
    work(&u);
    assert_int_equal(sets_head(&sets, "held").last, 5);
    clock_pass_us(1);
    work(&u);
    assert_int_equal(u.n, 0);
    assert_int_equal(sets_head(&sets, "held").last, 5 + 6);

    chore_end(&u.chore);
    uploads_fini(&u);
    chore_end(&folding.chore);
    sets_close(&sets);
}
