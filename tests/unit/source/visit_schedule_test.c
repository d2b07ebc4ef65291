/*
 * visit_schedule_test.c - of thousands of sets, so many are read at a time, and
 * each in its turn.
 */
#include "client/source/visit_schedule.h"

#include <stdio.h>

#include "tests/test.h"

#define PAUSE_MS 1000

static struct visit_schedule *
rounds_of(size_t n, bool is_once)
{
    struct visit_schedule *r = calloc(1, sizeof(*r));

    assert_non_null(r);
    r->is_once = is_once;
    r->pause_ms = PAUSE_MS;
    for (size_t i = 0; i < n; i++)
        assert_true(visit_schedule_add(r));
    assert_int_equal(r->n, n);
    return r;
}

/* Opens all that may be opened; returns how many are streams and visits. */
static void
open_all(struct visit_schedule *r, int64_t now_ms, size_t *n_streams,
         size_t *n_visits)
{
    size_t set;
    bool is_visit;

    while (visit_schedule_next(r, now_ms, &set, &is_visit))
        ++*(is_visit ? n_visits : n_streams);
}

TEST(a_source_has_so_many_streams_and_visits)
{
    static const struct {
        size_t n, n_streams, n_visits;
    } rows[] = {
        {1, 1, 0},
        {12, 12, 0},
        {VISIT_SCHEDULE_STREAMS, VISIT_SCHEDULE_STREAMS, 0},
        {VISIT_SCHEDULE_STREAMS + 1, VISIT_SCHEDULE_STREAMS, 1},
        {6000, VISIT_SCHEDULE_STREAMS, VISIT_SCHEDULE_VISITS},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct visit_schedule *r = rounds_of(rows[i].n, false);
        size_t n_streams = 0;
        size_t n_visits = 0;

        open_all(r, 0, &n_streams, &n_visits);
        assert_int_equal(n_streams, rows[i].n_streams);
        assert_int_equal(n_visits, rows[i].n_visits);
        free(r->all);
        free(r);
    }
}

/* The rounds visit each set once before they visit one again. */
TEST(the_others_are_visited_in_turn)
{
    struct visit_schedule *r = rounds_of(6000, false);
    size_t n_streams = 0;
    size_t seen[6000] = {0};
    size_t set;
    bool is_visit;
    int64_t now_ms = 0;

    for (size_t i = 0; i < VISIT_SCHEDULE_STREAMS; i++)
        assert_true(visit_schedule_next(r, now_ms, &set, &is_visit) &&
                    !is_visit);
    for (size_t round = 1; round <= 3; round++) {
        while (visit_schedule_next(r, now_ms, &set, &is_visit)) {
            assert_true(is_visit);
            assert_int_equal(++seen[set], round);
            visit_schedule_rest(r, set, false, now_ms);
            n_streams++;
        }
        assert_int_equal(n_streams, round * (6000 - VISIT_SCHEDULE_STREAMS));
        assert_false(r->n_opened < r->n);
        assert_int_equal(visit_schedule_wait_ms(r, now_ms), PAUSE_MS);
        now_ms += PAUSE_MS;
        assert_int_equal(visit_schedule_wait_ms(r, now_ms), 0);
    }
    assert_false(r->n_in[OVER] == r->n);
    free(r->all);
    free(r);
}

TEST(who_catches_up_once_visits_each_set_once)
{
    struct visit_schedule *r = rounds_of(6000, true);
    size_t n = 0;
    size_t set;
    bool is_visit;

    while (visit_schedule_next(r, 0, &set, &is_visit)) {
        assert_true(is_visit);
        assert_int_equal(set, n++);
        assert_false(r->n_in[OVER] == r->n);
        visit_schedule_rest(r, set, false, 0);
    }
    assert_int_equal(n, 6000);
    assert_true(r->n_in[OVER] == r->n);
    assert_int_equal(visit_schedule_wait_ms(r, 0), -1);
    free(r->all);
    free(r);
}

/* A set that ends gives its stream to the waiting one. */
TEST(a_set_that_ends_makes_room)
{
    struct visit_schedule *r =
        rounds_of(VISIT_SCHEDULE_STREAMS + VISIT_SCHEDULE_VISITS + 1, false);
    size_t n = 0;
    size_t set = 0;
    bool is_visit;

    open_all(r, 0, &n, &n);
    assert_int_equal(n, VISIT_SCHEDULE_STREAMS + VISIT_SCHEDULE_VISITS);
    assert_true(r->n_opened < r->n);
    assert_int_equal(visit_schedule_wait_ms(r, 0), -1);
    visit_schedule_rest(r, 7, true, 0);
    assert_int_equal(visit_schedule_wait_ms(r, 0), 0);
    assert_true(visit_schedule_next(r, 0, &set, &is_visit) && !is_visit);
    assert_int_equal(set, VISIT_SCHEDULE_STREAMS + VISIT_SCHEDULE_VISITS);
    assert_false(visit_schedule_next(r, 0, &set, &is_visit));
    free(r->all);
    free(r);
}

/* Sets that share a connection make room. If they leave the connection
 * together, the last ones have no place. */
TEST(a_set_that_shares_a_connection_makes_room)
{
    size_t n = 2 * VISIT_SCHEDULE_STREAMS;
    struct visit_schedule *r = rounds_of(n, false);
    size_t n_streams = 0;
    size_t n_visits = 0;
    size_t set = 0;
    bool is_visit;

    open_all(r, 0, &n_streams, &n_visits);
    assert_int_equal(n_streams, VISIT_SCHEDULE_STREAMS);
    visit_schedule_share(r, n - 1, true); /* no stream */
    assert_false(visit_schedule_next(r, 0, &set, &is_visit));
    for (size_t i = 0; i < VISIT_SCHEDULE_STREAMS; i++) {
        visit_schedule_share(r, i, true);
        visit_schedule_share(r, i, true);
        if (i < VISIT_SCHEDULE_VISITS)
            visit_schedule_rest(r, VISIT_SCHEDULE_STREAMS + i, false, 0);
        assert_true(visit_schedule_next(r, 0, &set, &is_visit) && !is_visit);
    }
    assert_int_equal(visit_schedule_wait_ms(r, 0), -1);
    assert_false(visit_schedule_surplus(r, &set));

    for (size_t i = 0; i < VISIT_SCHEDULE_STREAMS; i++)
        visit_schedule_share(r, i, false);
    for (size_t i = n; i-- > VISIT_SCHEDULE_STREAMS;) {
        assert_true(visit_schedule_surplus(r, &set));
        assert_int_equal(set, i);
    }
    assert_false(visit_schedule_surplus(r, &set));
    n_streams = n_visits = 0;
    open_all(r, 0, &n_streams, &n_visits);
    assert_int_equal(n_streams, 0);
    assert_int_equal(n_visits, VISIT_SCHEDULE_VISITS);
    free(r->all);
    free(r);
}
