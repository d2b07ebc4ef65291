/*
 * The logs of attempts keep within their bounds, and those of quiet
 * subscriptions outlive those of busy ones.
 */
#include "broker/hub/attempt_log.h"

#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

FIXTURE(simulation_setup, simulation_teardown);

/* Adds attempts whose answer has `size` bytes. */
static void
add(struct subscription *s, unsigned n, size_t size)
{
    static const char bytes[ATTEMPT_ANSWER_KEPT + 1] = {'x'};
    struct call call = {.failure = CALL_ANSWERED, .answer = {bytes, size}};

    while (n-- > 0) {
        struct attempt_row row = {.name = {.last = ++call.status}};

        attempt_log_add(s, &row, &call);
    }
}

static unsigned
rows_of(const struct subscription *s)
{
    const struct attempt_row *row;
    unsigned n = 0;

    list_walk (row, &s->attempts.rows, node)
        n++;
    assert_int_equal(n, s->attempts.n);
    return n;
}

TEST(keeps_the_last_of_each)
{
    struct subscription *s = sim_active("http://a.example/cb", "");

    for (unsigned n = 1; n <= ATTEMPTS_MAX; n++) {
        add(s, 1, 0);
        assert_int_equal(rows_of(s), n);
        assert_false(s->attempts.is_cut);
    }
    attempt_log_free(s);
    add(s, ATTEMPTS_MAX + 1, 0);
    assert_int_equal(rows_of(s), ATTEMPTS_MAX);
    assert_true(s->attempts.is_cut);
    assert_int_equal(
        list_entry(s->attempts.rows.next, struct attempt_row, node)->name.last,
        2);
    assert_int_equal(
        list_entry(s->attempts.rows.prev, struct attempt_row, node)->name.last,
        ATTEMPTS_MAX + 1);
}

/* One that fails all the time takes no row from one with few of them, and the
 * bound holds at every step. */
TEST(all_together_keep_within_the_bound)
{
    static const size_t sizes[] = {0, 1, ATTEMPT_ANSWER_KEPT,
                                   ATTEMPT_ANSWER_KEPT + 1};
    struct attempt_logs *all = &sim.hub->attempts;
    struct subscription *few = sim_active("http://few.example/cb", ""),
                        *many = sim_active("http://many.example/cb", "");

    assert_int_equal(all->max_bytes, ATTEMPT_LOGS_BYTES);
    all->max_bytes = 30 * sizeof(struct attempt_row) + 2000;
    add(few, 3, 10);
    for (unsigned i = 0; i < 200; i++) {
        add(many, 1, sizes[i % 4]);
        assert_in_range(all->bytes, 1, all->max_bytes);
    }
    assert_int_equal(rows_of(few), 3);
    assert_false(few->attempts.is_cut);
    assert_in_range(rows_of(many), 4, 30);
    assert_true(many->attempts.is_cut);
}

/* Equals share what there is, and each has its newest one. */
TEST(equals_share)
{
    struct topic *topic =
        topic_look(sim.hub, TOPIC_CHANGES, sets_find(&sim.sets, "demo"));
    struct subscription *s;
    uint64_t id;

    sim_make_active(
        topic ? topic : sim_active("http://a.example/cb", "")->topic, 0, 100);
    sim.hub->attempts.max_bytes = 250 * sizeof(struct attempt_row);
    for (unsigned round = 0; round < 5; round++)
        for (id = 0; (s = sim_next(id)); id = s->id)
            add(s, 1, 0);
    for (id = 0; (s = sim_next(id)); id = s->id)
        assert_in_range(rows_of(s), 2, 3);
}

TEST(a_log_ends_with_its_subscription)
{
    struct subscription *s = sim_active("http://a.example/cb", "");

    add(s, 7, 9);
    assert_int_not_equal(sim.hub->attempts.bytes, 0);
    assert_int_equal(sim_command(COMMAND_END, s->id, ""), 204);
    assert_int_equal(sim.hub->attempts.bytes, 0);
    for (size_t n = 0; n <= ATTEMPTS_MAX; n++)
        assert_true(list_is_empty(&sim.hub->attempts.with[n]));
}
