/*
 * mirror_db_test.c - what a mirror wants and has, and what a crash leaves of
 * it.
 */
#include "client/mirror/mirror_db.h"

#include "tests/test.h"
#include "tests/unit/mirror/mirror_db_stage.h"

FIXTURE(mirror_db_setup, mirror_db_teardown);

/* A message and the position behind it are one: the database has both, or
 * neither. */
TEST(keeps_a_message_with_its_position_or_not_at_all)
{
    assert_position(SET, "");
    assert_true(mirror_db_begin(db));
    tell(SET, 1, ONE, 0, false);
    assert_true(mirror_db_set_position(db, set_of(SET), "0123456789abcdef-1"));
    crash();
    assert_position(SET, "");
    assert_false(is_known(1));

    assert_true(mirror_db_begin(db));
    tell(SET, 1, ONE, 0, false);
    assert_true(mirror_db_set_position(db, set_of(SET), "0123456789abcdef-1"));
    assert_true(mirror_db_commit(db));
    crash();
    assert_position(SET, "0123456789abcdef-1");
    assert_true(is_known(1));

    assert_true(mirror_db_begin(db));
    tell(SET, 2, ONE, 0, false);
    tell(SET, 1, NULL, 0, false);
    mirror_db_rollback(db);
    assert_false(is_known(2));
    assert_counts(0, 1, 0);
}

TEST(fetches_what_is_new_and_removes_what_is_deleted)
{
    struct mirror_db_resource r;
    int64_t id = told(1, ONE);

    look(id, &r);
    assert_string_equal(r.path, "example.com/r/1.txt");
    assert_int_equal(r.todo, MIRROR_DB_FETCH);
    assert_true(slice_is(r.wanted.hash, ONE));
    assert_int_equal(r.wanted.length, 3);
    assert_counts(0, 1, 0);

    have(id);
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
    assert_counts(1, 0, 0);

    told(1, NULL);
    assert_true(mirror_db_next(db, MIRROR_DB_REMOVE, 0, &r));
    assert_int_equal(r.id, id);
    assert_false(r.is_wanted);
    assert_counts(1, 0, 1);

    lost(id);
    assert_false(is_known(1));
    assert_counts(0, 0, 0);

    /* Wanted, never there, deleted: there is nothing to do. */
    told(2, ONE);
    told(2, NULL);
    assert_false(is_known(2));
    assert_int_equal(told(3, NULL), 0);
    assert_counts(0, 0, 0);
}

/* A resource with the digests of the present file needs no fetch. */
TEST(fetches_nothing_that_it_has_already)
{
    int64_t id = told(1, ONE);

    have(id);
    told(1, ONE);
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
    told(1, TWO);
    assert_int_equal(todo(id), MIRROR_DB_FETCH);
    told(1, ONE); /* and back, before it was fetched */
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
    told(1, "md5:00000000000000000000000000000000 " ONE);
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
    told(1, "md5:00000000000000000000000000000000");
    assert_int_equal(todo(id), MIRROR_DB_FETCH); /* nothing in common */
    have(id);
    told(1, ""); /* it changed; the source states no digest */
    assert_int_equal(todo(id), MIRROR_DB_FETCH);
    told(1, NULL);
    assert_int_equal(todo(id), MIRROR_DB_REMOVE);
    told(1, "md5:00000000000000000000000000000000"); /* back in time */
    assert_int_equal(todo(id), MIRROR_DB_NOTHING);
    assert_counts(1, 0, 0);
}

/* A file that a change overtook during its fetch is not the wanted one. */
TEST(knows_what_was_overtaken)
{
    struct mirror_dir_mark mark = {.size = 3};
    struct mirror_db_resource r;
    int64_t id = told(1, ONE);
    int64_t version;

    look(id, &r);
    version = r.version;
    told(1, TWO);
    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_note_file(db, id, version, SLICE(ONE), DATETIME_NONE,
                                    0, &mark));
    assert_true(mirror_db_commit(db));
    assert_int_equal(todo(id), MIRROR_DB_FETCH);
    assert_counts(1, 1, 0);

    /* The same change again: no new version. */
    look(id, &r);
    version = r.version;
    told(1, TWO);
    look(id, &r);
    assert_int_equal(r.version, version);
}

TEST(tries_what_was_left_at_the_next_start_or_change)
{
    struct mirror_db_resource r;
    int64_t id = told(1, ONE);

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_give_up(db, id));
    assert_true(mirror_db_commit(db));
    assert_int_equal(db->counts.n_left, 1);
    assert_true(mirror_db_next(db, MIRROR_DB_FETCH, 0, &r));
    assert_int_equal(r.id, 0);

    told(1, ONE);
    assert_int_equal(db->counts.n_left, 0);
    assert_true(mirror_db_next(db, MIRROR_DB_FETCH, 0, &r));
    assert_int_equal(r.id, id);

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_give_up(db, id));
    assert_true(mirror_db_commit(db));
    crash();
    assert_true(mirror_db_next(db, MIRROR_DB_FETCH, 0, &r));
    assert_int_equal(r.id, id);
    assert_true(mirror_db_next(db, MIRROR_DB_FETCH, id, &r));
    assert_int_equal(r.id, 0);
    assert_counts(0, 1, 0);
}

/* Per hour of event time, of the resources at its beginning. */
TEST(counts_removals_by_the_hour)
{
    const int64_t hour = INT64_C(3600000000);
    uint64_t n;
    uint64_t n_of;

    for (unsigned i = 1; i <= 6; i++)
        have(told(i, ONE));
    assert_true(mirror_db_begin(db));
    tell(SET, 1, NULL, 100 * hour, false);
    tell(SET, 2, NULL, 101 * hour - 1, false);
    tell(SET, 2, NULL, 101 * hour - 1, false); /* deleted already */
    tell(SET, 3, NULL, 101 * hour, false);
    tell(SET, 99, NULL, 101 * hour, false); /* never there */
    assert_true(mirror_db_removals(db, &n, &n_of));
    assert_int_equal(n, 2);
    assert_int_equal(n_of, 6);
    assert_true(mirror_db_commit(db));

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_removals(db, &n, &n_of));
    assert_int_equal(n, 0);
    tell(SET, 4, NULL, 101 * hour, false);
    tell(SET, 5, NULL, 101 * hour, false);
    tell(SET, 5, ONE, 101 * hour, false); /* it is there again */
    assert_true(mirror_db_removals(db, &n, &n_of));
    assert_int_equal(n, 2);
    assert_true(mirror_db_commit(db));
    assert_counts(6, 0, 4);

    /* Undone: the hour with the most changes has its earlier count. */
    assert_true(mirror_db_begin(db));
    tell(SET, 5, NULL, 101 * hour, false);
    tell(SET, 6, NULL, 102 * hour, false);
    assert_true(mirror_db_removals(db, &n, &n_of));
    assert_int_equal(n, 3);
    mirror_db_rollback(db);
    assert_true(mirror_db_removals(db, &n, &n_of));
    assert_int_equal(n, 2);
}

/* A first sync that is interrupted by changes has more files at the end of the
 * hour than at its first removal. */
TEST(counts_removals_of_the_most_that_there_was_in_the_hour)
{
    const int64_t hour = INT64_C(3600000000);
    uint64_t n;
    uint64_t n_of;

    have(told(1, ONE));
    have(told(2, ONE));
    assert_true(mirror_db_begin(db));
    tell(SET, 1, NULL, 100 * hour, false);
    assert_true(mirror_db_commit(db));
    for (unsigned i = 3; i <= 6; i++)
        have(told(i, ONE));
    assert_true(mirror_db_begin(db));
    tell(SET, 2, NULL, 100 * hour, false);
    assert_true(mirror_db_removals(db, &n, &n_of));
    assert_int_equal(n, 2);
    assert_int_equal(n_of, 6);
    assert_true(mirror_db_commit(db));
}

/* Removes a file that may be ours, too, if nobody wants it. */
TEST(removes_what_it_may_have_put)
{
    int64_t id = told(1, ONE);

    assert_true(mirror_db_begin(db));
    assert_true(mirror_db_expect(db, id));
    assert_true(mirror_db_commit(db));
    crash();
    told(1, NULL);
    assert_int_equal(todo(id), MIRROR_DB_REMOVE);
    lost(id);
    assert_false(is_known(1));
}

TEST(goes_through_its_resources)
{
    struct mirror_db_resource r = {.loc = {"", 0}};
    struct mirror_db_description t;
    const char *url;
    bool is_found;
    int64_t id = 0;
    int64_t set;
    unsigned n = 0;

    told(3, ONE);
    told(1, TWO);
    told(2, THREE);
    for (;;) {
        assert_true(mirror_db_walk(db, n == 0, &r));
        if (!r.id)
            break;
        assert_true(slice_equal(r.loc, loc_of(++n)));
    }
    assert_int_equal(n, 3);
    assert_true(mirror_db_has_path(db, "example.com/r/2.txt", &is_found));
    assert_true(is_found);
    assert_true(mirror_db_has_path(db, "example.com/r", &is_found));
    assert_false(is_found);

    assert_true(mirror_db_next_description(db, set_of(SET), 0, &id, &t));
    assert_true(id && slice_is(t.hash, ONE) && t.length == 3);
    assert_true(slice_equal(t.loc, loc_of(3)));
    assert_true(mirror_db_next_description(db, set_of(OTHER), 0, &id, &t));
    assert_int_equal(id, 0);

    assert_true(mirror_db_next_set(db, 0, &set, &url));
    assert_true(set);
    assert_string_equal(url, SET);
    assert_true(mirror_db_next_set(db, set, &set, &url));
    assert_string_equal(url, OTHER);
    assert_true(mirror_db_next_set(db, set, &set, &url));
    assert_int_equal(set, 0);

    assert_true(mirror_db_add_source(db, SET));
    assert_true(mirror_db_add_source(db, OTHER));
    assert_true(mirror_db_add_source(db, SET));
    assert_true(mirror_db_source(db, 1, &url));
    assert_string_equal(url, OTHER);
    assert_true(mirror_db_source(db, 2, &url));
    assert_string_equal(url, "");
}
