/*
 * mirror_db_files_test.c - the resources of the mirror, by baselines and
 * several sets.
 */
#include "client/mirror/mirror_db.h"
#include "tests/test.h"
#include "tests/unit/mirror/mirror_db_stage.h"

FIXTURE(mirror_db_setup, mirror_db_teardown);

/* At its end a baseline replaces all resources of its set, with its position;
 * one that breaks off only adds wanted files. */
TEST(applies_a_baseline_as_one)
{
    struct mirror_db_resource r;
    bool is_found;

    for (unsigned n = 1; n <= 4; n++)
        have(told(n, ONE));
    tell_baseline(SET, 3, 6);
    assert_counts(4, 2, 0);
    assert_int_equal(end_baseline(SET), 2);
    mirror_db_rollback(db);
    assert_position(SET, "");

    /* It breaks off; the next one begins anew, and has 4 to 6 alone. */
    assert_counts(4, 2, 0);
    tell_baseline(SET, 4, 6);
    assert_int_equal(end_baseline(SET), 3);
    assert_true(mirror_db_commit(db));
    assert_counts(4, 2, 3);
    assert_position(SET, "0123456789abcdef-9");
    assert_true(mirror_db_find(db, loc_of(4), &r, &is_found));
    assert_int_equal(r.todo, MIRROR_DB_NOTHING);
    assert_true(mirror_db_find(db, loc_of(1), &r, &is_found));
    assert_int_equal(r.todo, MIRROR_DB_REMOVE);

    /* The database forgets at once a wanted resource that was never there. */
    tell_baseline(SET, 4, 4);
    assert_int_equal(end_baseline(SET), 0);
    assert_true(mirror_db_commit(db));
    assert_false(is_known(6));
}

/* Without digests, the same lastmod is the same content, in a baseline. */
TEST(believes_in_lastmod_where_there_are_no_digests)
{
    struct mirror_db_description t = {.loc = loc_of(1),
                                      .is_baseline = true,
                                      .when_us = 5,
                                      .lastmod_us = 5,
                                      .length = LENGTH_NONE};
    int64_t set = set_of(SET);
    int64_t id;

    id = tell_telling(&t);
    have(id);
    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_baseline_begin(db, set));
    assert_true(mirror_db_describe(db, set, &t, &id));
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
    assert_true(mirror_db_begin(db));
    t.lastmod_us = t.when_us = 6;
    assert_true(mirror_db_describe(db, set, &t, &id));
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(id), MIRROR_DB_FETCH);
    have(id);
    t.is_baseline = false; /* a change is a change */
    id = tell_telling(&t);
    assert_int_equal(todo(id), MIRROR_DB_FETCH);
}

/* Two changes in one second, as coarse sources date them: the mirror has the
 * file after the first. A baseline with the same lastmod arrives before the
 * second is fetched; it does not say which of the two it means. */
TEST(a_change_is_fetched_whatever_lastmod_a_baseline_tells_after_it)
{
    struct mirror_db_description t = {
        .loc = loc_of(1), .when_us = 5, .lastmod_us = 5, .length = LENGTH_NONE};
    int64_t set = set_of(SET);
    int64_t id;

    id = tell_telling(&t);
    have(id);
    id = tell_telling(&t);
    assert_int_equal(todo(id), MIRROR_DB_FETCH);

    t.is_baseline = true;
    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_baseline_begin(db, set));
    assert_true(mirror_db_describe(db, set, &t, &id));
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(id), MIRROR_DB_FETCH);
}

/* The database wants a resource as long as one set has it, as the latest change
 * says. */
TEST(has_what_any_of_its_sets_has)
{
    struct mirror_db_resource r;
    int64_t id;

    assert_true(mirror_db_begin(db));
    id = tell(SET, 1, TWO, 2000, false);
    assert_int_equal(tell(OTHER, 1, ONE, 1000, false), id);
    assert_true(mirror_db_commit(db));
    look(id, &r);
    assert_true(slice_is(r.hash, TWO));
    have(id);

    /* One set deletes it: the other set's word counts. */
    assert_true(mirror_db_begin(db));
    tell(SET, 1, NULL, 3000, false);
    assert_true(mirror_db_commit(db));
    look(id, &r);
    assert_true(r.is_wanted);
    assert_true(slice_is(r.hash, ONE));
    assert_int_equal(r.todo, MIRROR_DB_FETCH);

    /* A baseline of the first one does not have it either. */
    tell_baseline(SET, 2, 2);
    assert_int_equal(end_baseline(SET), 0);
    assert_true(mirror_db_commit(db));
    look(id, &r);
    assert_true(r.is_wanted);

    tell_baseline(OTHER, 3, 3);
    assert_int_equal(end_baseline(OTHER), 1);
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(id), MIRROR_DB_REMOVE);
}
