/*
 * contents_modes_test.c - sets that keep no content, begin to keep it, stop, or
 * are removed with it.
 */
#include <stdatomic.h>

#include "broker/archive/contents.h"
#include "tests/support/keeping.h"
#include "tests/support/kept.h"
#include "tests/support/set_changes.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* Of a set that keeps none nothing is opened or made. */
TEST(a_set_that_keeps_none_has_nothing)
{
    struct keeping *w = keeping_open(state, CONTENT_NONE);
    struct content *content;

    keeping_post(w, 0, 0, false);
    keeping_fold_all(w);
    assert_no_file(tempdir_fd(state), "sets/demo/" CONTENT_FILE);
    assert_no_file(tempdir_fd(state), "sets/demo/content");
    assert_int_equal(
        contents_open(w->contents, keeping_demo(w), &content, NULL),
        STATUS_NOT_FOUND);
    keeping_close(w);
}

/* the content knows nothing of entries from before the log's beginning,
 * and the set is not complete. */
TEST(knows_what_the_log_has_when_it_is_turned_on)
{
    struct keeping *w = keeping_open(state, CONTENT_NONE);
    struct resources *resources;
    struct content *content;

    for (unsigned i = 0; i < 35; i++)
        keeping_post(w, i, i, false);
    atomic_store(&keeping_demo(w)->retain_lists, 1);
    sets_file_all(&w->sets);
    for (unsigned i = 0; i < 2; i++) {
        keeping_fold_all(w);
        sets_retain(&w->sets);
    }
    assert_int_equal(sets_head(&w->sets, "demo").earliest, 20);
    keeping_end(w);
    keeping_begin(w);
    set_changes_put(&w->sets, "demo", "{\"content\":\"fetch\"}");
    keeping_fold_all(w);
    content = keeping_content(w);
    assert_int_equal(content_at(content)->seq, 35);
    assert_int_equal(content_at(content)->from, 20);
    assert_int_equal(content_at(content)->rows, 15);
    assert_int_equal(content_at(content)->missing, 15);
    assert_int_equal(
        state_fold_open(&w->folding, keeping_demo(w), &resources, NULL),
        STATUS_OK);
    assert_false(content_has_all(content, resources_at(resources)));
    keeping_close(w);
}

/* Kept content goes when it has been off for the grace, and not before. */
TEST(what_is_turned_off_goes_after_the_grace)
{
    struct keeping *w = keeping_open(state, CONTENT_NONE);
    struct content *content;

    w->sets.config.remove_grace_us = INT64_C(3600000000);
    set_changes_put(&w->sets, "demo", "{\"content\":\"fetch\"}");
    keeping_post_with(w, 0, 0);
    keeping_fold_all(w);
    set_changes_put(&w->sets, "demo", "{}");
    keeping_fold_all(w);
    assert_true(kept_is_there(w->dir, 0));
    keeping_post(w, 1, 1, false);
    set_changes_put(&w->sets, "demo", "{\"content\":\"fetch\"}");
    keeping_fold_all(w);
    content = keeping_content(w);
    assert_int_equal(content_at(content)->seq, 2);
    assert_int_equal(content_at(content)->missing, 1);
    assert_true(kept_is_there(w->dir, 0));

    w->sets.config.remove_grace_us = 0;
    set_changes_put(&w->sets, "demo", "{}");
    {
        struct content_pin *c = keeping_pin(w); /* a post from before */

        keeping_fold_all(w);
        assert_true(kept_is_there(w->dir, 0));
        keeping_place(w, c, 5);
        contents_end(c, 0);
    }
    keeping_fold_all(w);
    assert_false(kept_is_there(w->dir, 0));
    assert_no_file(tempdir_fd(state), "sets/demo/" CONTENT_FILE);
    assert_no_file(tempdir_fd(state), "sets/demo/content");
    assert_int_equal(atomic_load(&keeping_demo(w)->content_counts.files), 0);
    {
        struct content_pin *c = keeping_pin(w); /* a post that came too late */

        keeping_place(w, c, 6);
        contents_end(c, 0);
    }
    keeping_fold_all(w);
    assert_no_file(tempdir_fd(state), "sets/demo/content");
    set_changes_put(&w->sets, "demo", "{\"content\":\"fetch\"}");
    keeping_fold_all(w);
    assert_int_equal(content_at(keeping_content(w))->missing, 2);
    keeping_close(w);
}

/* Entries that left the log while content was off have no rows any more; their
 * files go, too. */
TEST(what_the_log_has_let_go_of_meanwhile_goes)
{
    struct keeping *w = keeping_open(state, CONTENT_NONE);

    w->sets.config.remove_grace_us = INT64_C(3600000000);
    set_changes_put(&w->sets, "demo", "{\"content\":\"fetch\"}");
    for (unsigned i = 0; i < 5; i++)
        keeping_post_with(w, i, i);
    keeping_fold_all(w);
    keeping_check(w);
    set_changes_put(&w->sets, "demo", "{\"retainLists\":1}");
    for (unsigned i = 0; i < 35; i++)
        keeping_post(w, i % 5, 10 + i % 5, false);
    sets_file_all(&w->sets);
    for (unsigned i = 0; i < 3; i++) {
        keeping_fold_all(w);
        sets_retain(&w->sets);
    }
    assert_in_range(sets_head(&w->sets, "demo").earliest, 10, KEEPING_ENTRIES);
    assert_true(kept_is_there(w->dir, 0));
    set_changes_put(&w->sets, "demo", "{\"content\":\"fetch\"}");
    for (unsigned i = 0; i < 2; i++)
        keeping_fold_all(w);
    for (unsigned i = 0; i < 5; i++)
        assert_false(kept_is_there(w->dir, i));
    keeping_close(w);
}

static void
assert_nothing_kept(void **state)
{
    assert_no_file(tempdir_fd(state), "sets/demo/content");
    assert_no_file(tempdir_fd(state), "sets/demo/" CONTENT_FILE);
}

/* A removed set takes its content along; a new set of that name begins with
 * none, whether it keeps any or not. */
TEST(goes_with_its_set)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);
    struct content *content;

    for (unsigned i = 0; i < 4; i++) {
        bool is_quick = i % 2; /* made again before the purge */

        w->last = 0;
        for (unsigned k = 0; k < 12; k++)
            keeping_post_with(w, k, 2 * k);
        keeping_fold_all(w);
        sets_file_all(&w->sets);
        assert_true(kept_is_there(w->dir, 22));
        set_changes_remove(&w->sets, "demo");
        if (i > 1) {
            keeping_end(w);
            keeping_begin(w);
        }
        w->last = 0;
        if (is_quick)
            keeping_post_with(w, 0, 2);
        sets_purge(&w->sets);
        if (!is_quick) {
            assert_nothing_kept(state);
            continue;
        }
        keeping_fold_all(w);
        keeping_check(w);
        content = keeping_content(w);
        assert_int_equal(content_at(content)->files, 1);
        set_changes_put(&w->sets, "demo", "{\"content\":\"none\"}");
        set_changes_remove(&w->sets, "demo");
        set_changes_put(&w->sets, "demo", "{\"content\":\"none\"}");
        sets_purge(&w->sets);
        keeping_fold_all(w);
        assert_nothing_kept(state);
        set_changes_remove(&w->sets, "demo");
        sets_purge(&w->sets);
    }
    keeping_close(w);
}

/* A pin is of a set that is there. */
TEST(nothing_is_pinned_of_a_set_that_was_removed)
{
    struct keeping *w = keeping_open(state, CONTENT_FETCH);
    struct content_pin *c;
    struct set *set;

    keeping_post_with(w, 0, 0);
    set = keeping_demo(w);
    c = keeping_pin(w);
    keeping_place(w, c, 1);
    set_changes_remove(&w->sets, "demo");
    assert_int_equal(
        contents_pin(w->contents, set, &(struct content_pin *){NULL}, NULL),
        STATUS_GONE);
    contents_end(c, 0);
    keeping_fold_all(w);
    sets_purge(&w->sets);
    assert_no_file(tempdir_fd(state), "sets/demo");
    keeping_close(w);
}
