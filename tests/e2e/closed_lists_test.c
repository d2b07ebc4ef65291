/*
 * closed_lists_test.c - what a closed list stays: its bytes, its place.
 */
#include <string.h>

#include "tests/support/lists.h"
#include "tests/support/source.h"
#include "tests/test.h"

FIXTURE(lists_setup, lists_teardown);

/* few lists in the index, all of them in the archive. */
TEST(the_index_stays_small_and_the_archive_has_every_closed_list)
{
    struct lists *l = *state;

    LISTS_OPEN(l, "--rotate-entries", "2", "--index-lists", "3");
    for (unsigned i = 1; i <= 10; i++) {
        source_post(&l->http, LISTS_SET, i * 2, 2, 0);
        walk_all(&l->walk);
        assert_int_equal(l->walk.n_lists, i + 1);
        assert_int_equal(l->walk.n_indexed, i < 3 ? i + 1 : 4);
    }
}

/* the same bytes from the log, the file, and by a broker
 * that now has another name. */
TEST(a_closed_list_keeps_its_bytes_whoever_serves_them)
{
    struct lists *l = *state;
    struct buf closed;

    LISTS_OPEN(l, "--rotate-entries", "50", "--insecure-open", "--public-url",
               "http://old.example:81");
    walk_allow(&l->walk, "http://old.example:81");
    walk_allow(&l->walk, "http://new.example:82");

    lists_obstruct(l);
    source_post(&l->http, LISTS_SET, 1, 70, 0);
    closed = lists_copy(l, 1);
    assert_non_null(
        memmem(closed.data, closed.size, "http://old.example:81/", 22));
    walk_all(&l->walk);
    assert_false(lists_has_file(l, 1)); /* it came from the log */

    lists_clear(l);
    lists_await_file(l, 1);
    lists_assert(l, 1, &closed);

    for (size_t i = 0; l->broker.arguments[i]; i++)
        if (!strcmp(l->broker.arguments[i], "http://old.example:81"))
            l->broker.arguments[i] = "http://new.example:82";
    broker_stop(&l->broker);
    broker_restart(&l->broker);
    lists_assert(l, 1, &closed);
    source_post(&l->http, LISTS_SET, 71, 30, 0);
    lists_assert(l, 1, &closed);
    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, 3);
    assert_int_equal(http_get(&l->http, lists_path(l, 2)), 200);
    assert_non_null(memmem(l->http.body.data, l->http.body.size,
                           "http://new.example:82/", 22));
    buf_fini(&closed);
}

/* a list that closed before its file could be written is the same
 * after a crash, and its file comes then. */
TEST(a_closed_list_without_its_file_survives_a_crash)
{
    struct lists *l = *state;
    struct buf closed;

    LISTS_OPEN(l, "--rotate-entries", "50");
    lists_obstruct(l);
    source_post(&l->http, LISTS_SET, 1, 170, 0);
    closed = lists_copy(l, 2);
    walk_all(&l->walk);

    broker_kill9(&l->broker);
    broker_restart(&l->broker);
    lists_assert(l, 2, &closed);
    walk_all(&l->walk);
    lists_clear(l);
    lists_await_file(l, 3);
    lists_assert(l, 2, &closed);
    walk_all(&l->walk);
    assert_int_equal(l->walk.n_lists, 4);
    buf_fini(&closed);
}
