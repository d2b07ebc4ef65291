#include "tests/support/cutter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/clock.h"
#include "tests/support/site.h"
#include "tests/support/wire.h"
#include "tests/test.h"
#include "tests/unit/support/ticking.h"

struct bench {
    struct site *s; /* what is behind */
    struct cutter *c;
    struct wire_answer a;
};

static int
setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    assert_non_null(b);
    b->s = site_new();
    b->c = cutter_new(site_port(b->s));
    site_put(b->s, "/a", NULL, SLICE("0123456789"));
    *state = b;
    return 0;
}

static int
teardown(void **state)
{
    struct bench *b = *state;

    cutter_free(b->c);
    site_free(b->s);
    free(b);
    return 0;
}

static struct wire *
connect_to(struct bench *b)
{
    struct wire *w = wire_connect("127.0.0.1", cutter_port(b->c));

    assert_non_null(w);
    return w;
}

static void
ask(struct wire *w, const char *path)
{
    assert_true(
        wire_send_format(w, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path));
}

static void
assert_works(struct bench *b)
{
    struct wire *w = connect_to(b);

    ask(w, "/a");
    assert_true(wire_answer(w, &b->a, false));
    assert_string_equal(b->a.body, "0123456789");
    wire_close(w);
}

FIXTURE(setup, teardown);

TEST(bytes_pass_both_ways_and_are_counted)
{
    struct bench *b = *state;
    size_t size = 5 << 20;
    char *bytes = calloc(1, size);
    struct wire *w = connect_to(b);

    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 7 + i / 1000);
    site_put(b->s, "/big", NULL, (struct slice){bytes, size});
    ask(w, "/big");
    assert_true(wire_answer(w, &b->a, false));
    assert_int_equal(b->a.body_size, size);
    assert_memory_equal(b->a.body, bytes, size);
    assert_true(cutter_counts(b->c).passed[CUTTER_DOWN] > size);
    assert_int_equal(cutter_counts(b->c).passed[CUTTER_UP],
                     strlen("GET /big HTTP/1.1\r\nHost: h\r\n\r\n"));
    wire_close(w);
    free(bytes);
}

TEST(a_connection_ends_in_the_middle_of_a_message)
{
    struct bench *b = *state;
    struct wire *w = connect_to(b);
    char text[100];

    cutter_after(b->c, CUTTER_DOWN, 20, CUTTER_CLOSE);
    ask(w, "/a");
    assert_true(wire_read(w, text, 20));
    assert_int_equal(wire_read_some(w, text, 1), 0);
    wire_close(w);
    assert_int_equal(cutter_counts(b->c).n_closes, 1);
    assert_works(b);

    w = connect_to(b);
    cutter_after(b->c, CUTTER_UP, 5, CUTTER_RESET);
    ask(w, "/never");
    assert_true(wire_is_ended(w));
    wire_close(w);
    assert_int_equal(cutter_counts(b->c).n_resets, 1);
    assert_int_equal(site_count(b->s, "/never"), 0);
    assert_works(b);
}

TEST(all_connections_end_at_once)
{
    struct bench *b = *state;
    struct wire *w[3];

    for (int i = 0; i < 3; i++) {
        w[i] = connect_to(b);
        ask(w[i], "/a");
        assert_true(wire_answer(w[i], &b->a, false));
    }
    cutter_end_all(b->c, CUTTER_RESET);
    assert_int_equal(cutter_counts(b->c).n_resets, 3);
    assert_int_equal(cutter_counts(b->c).n_open, 0);
    for (int i = 0; i < 3; i++) {
        assert_true(wire_is_ended(w[i]));
        wire_close(w[i]);
    }
    assert_works(b);
}

/* Whatever the server has been asked for is answered, and the cutter's thread
 * has looked at it: nothing of it has reached `w`. */
static void
assert_nothing_comes(struct bench *b, struct wire *w)
{
    struct wire *other = wire_connect("127.0.0.1", site_port(b->s));
    char byte;

    assert_non_null(other);
    ask(other, "/other");
    assert_true(wire_answer(other, &b->a, false));
    wire_close(other);
    cutter_delay(b->c, 0);
    wire_set_wait(w, 0);
    assert_int_equal(wire_read_some(w, &byte, 1), -1);
    wire_set_wait(w, 1); /* for ever: the clock stands still */
}

TEST(a_stalled_way_passes_nothing_until_it_goes_on)
{
    struct bench *b = *state;
    struct wire *w = connect_to(b);

    cutter_await_connections(b->c, 1);
    cutter_stall(b->c, CUTTER_DOWN);
    ask(w, "/a");
    site_await(b->s, "/a", 1); /* up it goes */
    assert_nothing_comes(b, w);
    cutter_go(b->c);
    assert_true(wire_answer(w, &b->a, false));

    cutter_end_all(b->c, CUTTER_STALL);
    assert_works(b); /* another one is not stalled */
    ask(w, "/a");
    assert_nothing_comes(b, w);
    assert_int_equal(site_count(b->s, "/a"), 2);
    wire_close(w);
}

TEST(who_gives_up_a_stalled_connection_ends_it)
{
    struct bench *b = *state;
    struct wire *w = connect_to(b);

    cutter_await_connections(b->c, 1);
    cutter_end_all(b->c, CUTTER_STALL);
    wire_close(w);
    AWAIT(cutter_counts(b->c).n_open == 0);
}

TEST(connections_are_refused_and_let_in_again)
{
    struct bench *b = *state;

    cutter_refuse(b->c, true);
    assert_null(wire_connect("127.0.0.1", cutter_port(b->c)));
    cutter_refuse(b->c, false);
    assert_works(b);
}

TEST(connections_reach_the_server_in_another_order)
{
    struct bench *b = *state;
    struct wire *first, *second;

    cutter_hold(b->c);
    first = connect_to(b);
    ask(first, "/first");
    cutter_await_held(b->c, 1);
    second = connect_to(b);
    ask(second, "/second");
    cutter_await_held(b->c, 2);
    assert_int_equal(site_count(b->s, NULL), 0);

    cutter_let(b->c, 1);
    assert_true(wire_answer(second, &b->a, false));
    assert_int_equal(site_count(b->s, "/second"), 1);
    assert_int_equal(site_count(b->s, "/first"), 0);
    cutter_let_all(b->c);
    assert_true(wire_answer(first, &b->a, false));
    assert_works(b);
    wire_close(first);
    wire_close(second);
}

TEST(bytes_may_be_late_and_come_whole)
{
    struct bench *b = *state;
    struct wire *w = connect_to(b);

    cutter_delay(b->c, 20);
    ask(w, "/a");
    clock_await_us(20000);
    clock_pass_us(19000);
    cutter_refuse(b->c, false); /* its thread looks */
    assert_int_equal(cutter_counts(b->c).passed[CUTTER_UP], 0);
    clock_await_us(1000);
    clock_pass_us(1000);
    cutter_await_passed(b->c, CUTTER_UP, 1);
    clock_await_us(20000);
    assert_int_equal(cutter_counts(b->c).passed[CUTTER_DOWN], 0);
    clock_pass_us(20000);
    assert_true(wire_answer(w, &b->a, false));
    assert_string_equal(b->a.body, "0123456789");
    wire_close(w);
}

TEST(a_plan_treats_connections_as_its_seed_decides)
{
    struct bench *b = *state;
    struct cutter_plan plan = {.seed = 4,
                               .bytes_max = 50,
                               .closes = 30,
                               .resets = 30,
                               .stalls = 20,
                               .holds = 20,
                               .stall_ms = 1,
                               .hold_ms = 1};
    unsigned n_whole[2] = {0};
    struct cutter_counts now;
    struct ticking t;

    ticking_begin(&t, 1000);
    for (int round = 0; round < 2; round++) {
        cutter_plan(b->c, &plan);
        for (int i = 0; i < 50; i++) {
            struct wire *w = connect_to(b);

            ask(w, "/a");
            n_whole[round] += wire_answer(w, &b->a, false);
            wire_close(w);
        }
    }
    ticking_end(&t);
    now = cutter_counts(b->c);
    assert_int_equal(n_whole[0], n_whole[1]);
    assert_in_range(n_whole[0], 1, 30);
    assert_true(now.n_closes > 0 && now.n_resets > 0 && now.n_stalls > 0);
    cutter_plan(b->c, NULL);
    assert_works(b);
}

TEST(it_may_point_to_another_server)
{
    struct bench *b = *state;
    struct site *other = site_new();

    cutter_point(b->c, site_port(other));
    site_put(other, "/a", NULL, SLICE("0123456789"));
    assert_works(b);
    assert_int_equal(site_count(other, "/a"), 1);
    site_free(other);
}
