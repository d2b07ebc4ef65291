/*
 * book_there_test.c - what is there, as baselines and several sets tell it.
 */
#include "client/mirror/book.h"
#include "tests/test.h"
#include "tests/unit/mirror/book_stage.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* All resources of a baseline replace what was there, at its end, with its
 * position; one that breaks off changes nothing but what is wanted besides. */
TEST(applies_a_baseline_as_one)
{
    struct book *b = open_book(state);
    struct book_resource r;
    bool is_found;

    for (unsigned n = 1; n <= 4; n++)
        have(b, told(b, n, ONE));
    tell_baseline(b, SET, 3, 6);
    b = assert_counts(state, b, 4, 2, 0);
    assert_int_equal(end_baseline(b, SET), 2);
    book_rollback(b);
    assert_position(b, SET, "");

    /* It breaks off; the next one begins anew, and has 4 to 6 alone. */
    b = assert_counts(state, b, 4, 2, 0);
    tell_baseline(b, SET, 4, 6);
    assert_int_equal(end_baseline(b, SET), 3);
    assert_true(book_commit(b));
    b = assert_counts(state, b, 4, 2, 3);
    assert_position(b, SET, "0123456789abcdef-9");
    assert_true(book_find(b, loc_of(4), &r, &is_found));
    assert_int_equal(r.todo, BOOK_NOTHING);
    assert_true(book_find(b, loc_of(1), &r, &is_found));
    assert_int_equal(r.todo, BOOK_REMOVE);

    /* What was wanted and never there is forgotten at once. */
    tell_baseline(b, SET, 4, 4);
    assert_int_equal(end_baseline(b, SET), 0);
    assert_true(book_commit(b));
    assert_false(is_known(b, 6));
    book_close(b);
}

/* Without digests, the same lastmod is the same content, in a baseline. */
TEST(believes_in_lastmod_where_there_are_no_digests)
{
    struct book *b = open_book(state);
    struct book_telling t = {.loc = loc_of(1),
                             .is_baseline = true,
                             .when_us = 5,
                             .lastmod_us = 5,
                             .length = LENGTH_NONE};
    int64_t set = set_of(b, SET);
    int64_t id;

    assert_true(book_begin(b));
    assert_true(book_told(b, set, &t, &id));
    assert_true(book_commit(b));
    have(b, id);
    assert_true(book_begin(b));
    assert_true(book_baseline_begin(b, set));
    assert_true(book_told(b, set, &t, &id));
    assert_true(book_commit(b));
    assert_int_equal(todo(b, id), BOOK_NOTHING);
    assert_true(book_begin(b));
    t.lastmod_us = t.when_us = 6;
    assert_true(book_told(b, set, &t, &id));
    assert_true(book_commit(b));
    assert_int_equal(todo(b, id), BOOK_FETCH);
    have(b, id);
    t.is_baseline = false; /* a change is a change */
    assert_true(book_begin(b));
    assert_true(book_told(b, set, &t, &id));
    assert_true(book_commit(b));
    assert_int_equal(todo(b, id), BOOK_FETCH);
    book_close(b);
}

/* Two changes in one second, as coarse sources tell them: the file is as after
 * the first. A baseline that comes before the second was fetched, with the same
 * lastmod, says nothing of which of both it is. */
TEST(a_change_is_fetched_whatever_lastmod_a_baseline_tells_after_it)
{
    struct book *b = open_book(state);
    struct book_telling t = {
        .loc = loc_of(1), .when_us = 5, .lastmod_us = 5, .length = LENGTH_NONE};
    int64_t set = set_of(b, SET);
    int64_t id;

    assert_true(book_begin(b));
    assert_true(book_told(b, set, &t, &id));
    assert_true(book_commit(b));
    have(b, id);
    assert_true(book_begin(b));
    assert_true(book_told(b, set, &t, &id));
    assert_true(book_commit(b));
    assert_int_equal(todo(b, id), BOOK_FETCH);

    t.is_baseline = true;
    assert_true(book_begin(b));
    assert_true(book_baseline_begin(b, set));
    assert_true(book_told(b, set, &t, &id));
    assert_true(book_commit(b));
    assert_int_equal(todo(b, id), BOOK_FETCH);
    book_close(b);
}

/* It is wanted as long as one of them has it, as the latest word is. */
TEST(has_what_any_of_its_sets_has)
{
    struct book *b = open_book(state);
    struct book_resource r;
    int64_t id;

    assert_true(book_begin(b));
    id = tell(b, SET, 1, TWO, 2000, false);
    assert_int_equal(tell(b, OTHER, 1, ONE, 1000, false), id);
    assert_true(book_commit(b));
    look(b, id, &r);
    assert_true(slice_is(r.hash, TWO));
    have(b, id);

    /* One has it no more: it is as the other tells. */
    assert_true(book_begin(b));
    tell(b, SET, 1, NULL, 3000, false);
    assert_true(book_commit(b));
    look(b, id, &r);
    assert_true(r.is_wanted);
    assert_true(slice_is(r.hash, ONE));
    assert_int_equal(r.todo, BOOK_FETCH);

    /* A baseline of the first one does not have it either. */
    tell_baseline(b, SET, 2, 2);
    assert_int_equal(end_baseline(b, SET), 0);
    assert_true(book_commit(b));
    look(b, id, &r);
    assert_true(r.is_wanted);

    tell_baseline(b, OTHER, 3, 3);
    assert_int_equal(end_baseline(b, OTHER), 1);
    assert_true(book_commit(b));
    assert_int_equal(todo(b, id), BOOK_REMOVE);
    book_close(b);
}
