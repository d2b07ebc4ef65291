/*
 * mirror_db_files_test.c - the resources of the mirror, by baselines and
 * several sets.
 */
#include <sqlite3.h>

#include "client/mirror/mirror_db.h"
#include "tests/test.h"
#include "tests/unit/mirror/mirror_db_stage.h"

FIXTURE(mirror_db_setup, mirror_db_teardown);

/* At its end a baseline replaces all resources of its set, with its position;
 * one that breaks off only adds wanted files. */
TEST(applies_a_baseline_as_one)
{
    struct mirror_db_resource r;

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
    assert_true(mirror_db_find(db, loc_of(4), &r));
    assert_int_equal(r.todo, MIRROR_DB_NOTHING);
    assert_true(mirror_db_find(db, loc_of(1), &r));
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
    assert_true(slice_is(r.wanted.hash, TWO));
    have(id);

    /* One set deletes it: the other set's word counts. */
    assert_true(mirror_db_begin(db));
    tell(SET, 1, NULL, 3000, false);
    assert_true(mirror_db_commit(db));
    look(id, &r);
    assert_true(r.is_wanted);
    assert_true(slice_is(r.wanted.hash, ONE));
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

static int64_t
changed(unsigned n, const char *hash, int64_t when_us)
{
    int64_t id;

    assert_true(mirror_db_begin(db));
    id = tell(SET, n, hash, when_us, false);
    assert_true(mirror_db_commit(db));
    have(id);
    return id;
}

/* what a comparison finds counts for all that has not changed since the
 * time of its list. */
TEST(compares_with_a_list_of_an_earlier_time)
{
    int64_t same = changed(1, ONE, 100);
    int64_t other = changed(2, ONE, 100);
    int64_t newer = changed(3, ONE, 300);
    int64_t gone = changed(4, ONE, 100);
    int64_t created = changed(5, ONE, 300);

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_baseline_begin(db, set_of(SET)));
    compared(1, ONE, 50);
    compared(2, TWO, DATETIME_NONE);
    compared(3, TWO, DATETIME_NONE);
    compared(6, ONE, DATETIME_NONE);
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(other), MIRROR_DB_NOTHING); /* only at the end */
    assert_int_equal(end_reading(SET, 200, false), 1);
    assert_true(mirror_db_commit(db));

    assert_int_equal(todo(same), MIRROR_DB_NOTHING);
    assert_int_equal(todo(other), MIRROR_DB_FETCH);
    assert_int_equal(todo(newer), MIRROR_DB_NOTHING);
    assert_int_equal(todo(gone), MIRROR_DB_REMOVE);
    assert_int_equal(todo(created), MIRROR_DB_NOTHING);
    assert_true(is_known(6));
}

/* A list from before a deletion still has the resource, which stays deleted;
 * one from after it says that it is there again. */
TEST(a_list_does_not_bring_back_what_was_deleted_since)
{
    struct mirror_db_description gone = {.is_deleted = true,
                                         .is_noted = true,
                                         .when_us = 300,
                                         .lastmod_us = DATETIME_NONE,
                                         .length = LENGTH_NONE};

    int64_t id = changed(1, ONE, 100);

    changed(2, ONE, 100);
    gone.loc = loc_of(1);
    tell_telling(&gone);
    for (int64_t as_of_us = 200; as_of_us <= 400; as_of_us += 200) {
        assert_true(mirror_db_begin(db));
        assert_true(mirror_db_baseline_begin(db, set_of(SET)));
        compared(1, ONE, 50);
        compared(2, ONE, 50);
        assert_true(mirror_db_commit(db));
        assert_int_equal(end_reading(SET, as_of_us, false), 0);
        assert_true(mirror_db_commit(db));
        crash();
        assert_int_equal(todo(id), as_of_us == 200 ? MIRROR_DB_REMOVE
                                                   : MIRROR_DB_NOTHING);
    }
}

/* A list that says less than the change before it is no other version. */
TEST(a_list_without_anything_to_compare_by_changes_nothing)
{
    int64_t id = changed(1, ONE, 100);

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_baseline_begin(db, set_of(SET)));
    compared(1, "", DATETIME_NONE);
    assert_true(mirror_db_commit(db));
    assert_int_equal(end_reading(SET, 200, false), 0);
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
}

/* held deletions survive a start, and end when the resource is there
 * again, or by consent. */
TEST(holds_deletions_back)
{
    int64_t ids[4];

    for (unsigned n = 0; n < 4; n++)
        ids[n] = changed(n, ONE, 100);
    tell_baseline(SET, 0, 0);
    assert_int_equal(end_reading(SET, INT64_MAX, true), 0);
    assert_true(mirror_db_commit(db));
    crash();
    assert_int_equal(n_held(), 3);
    assert_int_equal(todo(ids[1]), MIRROR_DB_NOTHING);

    changed(1, TWO, 200);
    tell_baseline(SET, 0, 2);
    assert_int_equal(n_held(), 1);
    assert_int_equal(end_reading(SET, INT64_MAX, true), 0);
    assert_true(mirror_db_commit(db));
    assert_int_equal(n_held(), 1);

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_delete_held(db, set_of(SET)));
    assert_true(mirror_db_commit(db));
    assert_int_equal(n_held(), 0);
    assert_int_equal(todo(ids[3]), MIRROR_DB_REMOVE);
    assert_int_equal(todo(ids[2]), MIRROR_DB_NOTHING);
}

/* a file of the middle of a second is fetched again after it. */
TEST(fetches_again_what_came_within_its_second)
{
    struct mirror_dir_mark mark = {.size = 3, .mtime_ns = 7};
    struct mirror_db_description t = {.loc = loc_of(1),
                                      .is_baseline = true,
                                      .when_us = 5,
                                      .lastmod_us = 5,
                                      .length = LENGTH_NONE};
    int64_t id = tell_telling(&t);
    struct mirror_db_resource r;

    look(id, &r);
    assert_true(mirror_db_begin(db));
    assert_true(
        mirror_db_note_file(db, id, r.version, SLICE(ONE), 5, 1000, &mark));
    assert_true(mirror_db_renew(db, 999));
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_renew(db, 1000));
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(id), MIRROR_DB_FETCH);
    have(id); /* it is noted once more, after that second */
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
}

/* A mirror of an earlier version goes on: with nothing known of its sets'
 * certainty. */
TEST(an_earlier_mirror_goes_on)
{
    static const char downgrade[] =
        "DROP INDEX members_held; DROP INDEX resources_second;"
        "DROP TABLE deletions;"
        "ALTER TABLE sets DROP COLUMN listed_us;"
        "ALTER TABLE sets DROP COLUMN complete_us;"
        "ALTER TABLE sets DROP COLUMN complete_by;"
        "ALTER TABLE sets DROP COLUMN compared_us;"
        "ALTER TABLE sets DROP COLUMN doubt;"
        "ALTER TABLE sets DROP COLUMN doubt_us;"
        "ALTER TABLE sets DROP COLUMN held;"
        "ALTER TABLE sets DROP COLUMN held_of;"
        "ALTER TABLE sets DROP COLUMN left_out;"
        "ALTER TABLE sets DROP COLUMN left_out_text;"
        "ALTER TABLE sets DROP COLUMN left_out_before;"
        "ALTER TABLE sets DROP COLUMN mended;"
        "ALTER TABLE resources DROP COLUMN have_second;"
        "PRAGMA user_version = 2";
    struct mirror_db_certainty c = {.complete_us = 7, .n_held = 3};
    int64_t id = changed(1, ONE, 100);
    char path[600];
    sqlite3 *older;

    mirror_db_close(db);
    snprintf(path, sizeof(path), "%s/mirror.db", mirror_db_dir.path);
    assert_int_equal(sqlite3_open(path, &older), SQLITE_OK);
    if (sqlite3_exec(older, downgrade, NULL, NULL, NULL))
        fail_msg("%s", sqlite3_errmsg(older));
    sqlite3_close(older);

    open_db();
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
    assert_true(mirror_db_certainty(db, set_of(SET), &c));
    assert_int_equal(c.complete_us, 0);
    assert_int_equal(c.n_held, 0);
    assert_string_equal(c.doubt, "");

    snprintf(c.doubt, sizeof(c.doubt), "a hole");
    c.n_left_out = 5;
    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_set_certainty(db, set_of(SET), &c));
    assert_true(mirror_db_commit(db));
    crash();
    assert_true(mirror_db_certainty(db, set_of(SET), &c));
    assert_string_equal(c.doubt, "a hole");
    assert_int_equal(c.n_left_out, 5);
}
