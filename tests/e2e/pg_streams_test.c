/*
 * pg_streams_test.c - leases and streams in a real PostgreSQL.
 */
#include "broker/journal/pg_streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "tests/support/postgresql.h"
#include "tests/test.h"

struct pair {
    struct postgresql server;
    struct pg_options options[2];
    struct streams *a, *b;
    struct lease of_a, of_b;
    uint64_t n; /* of the last row */
    struct buf read;
};

static int
setup(void **state)
{
    struct pair *p = calloc(1, sizeof(*p));

    assert_non_null(p);
    postgresql_open(&p->server);
    postgresql_begin_cluster(&p->server, "http://example.org");
    for (int i = 0; i < 2; i++)
        p->options[i] = (struct pg_options){.address = p->server.address,
                                            .broker = i ? "b" : "a",
                                            .public_url = "http://example.org",
                                            .instance = i ? "b" : "a",
                                            .durable_by = DURABLE_UNCHECKED,
                                            .patience_us = 10000000};
    p->a = pg_streams_open(&p->options[0]);
    p->b = pg_streams_open(&p->options[1]);
    p->of_a.name = p->of_b.name = "owner";
    buf_init(&p->read, SIZE_MAX);
    *state = p;
    return 0;
}

static int
teardown(void **state)
{
    struct pair *p = *state;

    p->a->ops->close(p->a);
    p->b->ops->close(p->b);
    buf_fini(&p->read);
    free(p);
    return 0;
}

POSTGRESQL_GROUP;
FIXTURE(setup, teardown);

static enum status
hold(struct streams *streams, struct lease *lease)
{
    struct problem why;

    return streams->ops->hold(streams, lease, &why);
}

static enum status
append(struct pair *p, struct streams *streams, const struct lease *lease,
       const struct stream_row *rows, size_t n)
{
    struct problem why;

    return streams->ops->append(streams, "hub", &(struct leases){{lease}},
                                &p->n, rows, n, NULL, &why);
}

static enum status
add_row(const struct stream_row *row, uint64_t n, void *user,
        struct problem *why)
{
    struct buf *to = user;

    (void)why;
    buf_add_format(to, "%d %.*s=%.*s%s;", (int)n, SLICE_ARG(row->key),
                   SLICE_ARG(row->value), row->is_deleted ? "-" : "");
    return STATUS_OK;
}

/* The rows behind `after`, and the end, as text. */
static const char *
read_rows(struct pair *p, struct streams *streams, uint64_t after)
{
    static struct problem why;
    enum status rc;

    buf_clear(&p->read);
    rc = streams->ops->read(streams, "hub", &after, add_row, &p->read, &why);
    if (rc == STATUS_GONE)
        return "gone";
    if (rc == STATUS_DIFFERENT)
        return why.text;
    assert_int_equal(rc, STATUS_OK);
    buf_add_format(&p->read, "end %d", (int)after);
    buf_add(&p->read, "", 1);
    return p->read.data;
}

/* A broker that only reads neither takes a lease that is free nor makes a
 * stream. */
TEST(gives_a_reader_nothing_to_write)
{
    struct pair *p = *state;
    struct pg_options options = p->options[0];
    struct streams *reader;
    struct problem why;
    uint64_t id = 0, same = 0;

    options.broker = options.instance = "r";
    options.is_reader = true;
    reader = pg_streams_open(&options);
    assert_int_equal(hold(reader, &p->of_a), STATUS_CONFLICT);
    assert_int_equal(reader->ops->identify(reader, "hub", &id, &why),
                     STATUS_BUSY);
    assert_int_equal(p->a->ops->identify(p->a, "hub", &id, &why), STATUS_OK);
    assert_int_equal(reader->ops->identify(reader, "hub", &same, &why),
                     STATUS_OK);
    assert_true(same == id && id != 0);
    reader->ops->close(reader);
}

/* Time passes for that broker alone, since it has seen the row. */
static void
pass(struct lease *lease)
{
    lease->seen_us -= LEASE_US;
}

/* One broker has the lease, until it ends or is given back. */
TEST(gives_the_lease_to_one_broker)
{
    struct pair *p = *state;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(p->of_a.term, 1);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_CONFLICT);
    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(p->of_a.term, 1);
    p->a->ops->leave(p->a, &p->of_a);
    assert_int_equal(p->of_a.term, 0);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_OK);
    assert_int_equal(p->of_b.term, 2);
    assert_int_equal(hold(p->a, &p->of_a), STATUS_CONFLICT);
    pass(&p->of_a);
    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(p->of_a.term, 3);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_CONFLICT);
}

/* A broker with its share that has not looked for long: those that are to have
 * the lease may not have looked since it was given back. */
TEST(lets_others_go_first_from_its_look_on)
{
    struct pair *p = *state;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    p->a->ops->leave(p->a, &p->of_a);
    p->of_b.is_patient = true;
    pass(&p->of_b);
    pass(&p->of_b);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_CONFLICT);
    pass(&p->of_b);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_CONFLICT);
    pass(&p->of_b);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_OK);
}

/* Whatever the clock of the server says, a renewal makes the lease last, and
 * without one it ends. */
TEST(knows_no_lease_by_the_clock_of_the_server)
{
    static const char *const clocks[] = {"+ interval '5 min'",
                                         "- interval '5 min'"};
    struct pair *p = *state;

    for (size_t i = 0; i < 2; i++) {
        char sql[128];

        snprintf(sql, sizeof(sql), "UPDATE tidings_leases SET until = now() %s",
                 clocks[i]);
        assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
        postgresql_query(&p->server, sql);
        assert_int_equal(hold(p->b, &p->of_b), STATUS_CONFLICT);
        assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
        pass(&p->of_b);
        assert_int_equal(hold(p->b, &p->of_b), STATUS_CONFLICT);
        postgresql_query(&p->server, sql);
        assert_int_equal(hold(p->b, &p->of_b), STATUS_CONFLICT);
        pass(&p->of_b);
        assert_int_equal(hold(p->b, &p->of_b), STATUS_OK);
        p->b->ops->leave(p->b, &p->of_b);
        p->of_a.term = 0;
    }
}

/* A process without an answer finds that it has the lease, in another term: the
 * former owner may have written meanwhile. One that was started again waits. */
TEST(knows_a_process_and_no_name)
{
    struct pair *p = *state;
    struct pg_options options = p->options[0];
    struct streams *again;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    p->of_a.term = 0;
    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(p->of_a.term, 2);
    p->a->ops->close(p->a);
    options.instance = "again";
    again = p->a = pg_streams_open(&options);
    p->of_a.term = 0;
    do /* PostgreSQL lists the former session for a moment */
        p->of_a.seen = 0;
    while (hold(again, &p->of_a) == STATUS_UNREACHABLE);
    assert_int_equal(hold(again, &p->of_a), STATUS_CONFLICT);
}

/* The last value of a key is there, with the number that it got. */
TEST(keeps_the_last_value_of_each_key)
{
    static const struct stream_row first[] = {{SLICE("x"), SLICE("1"), false},
                                              {SLICE("y"), SLICE(""), false},
                                              {SLICE("z"), SLICE("3"), false}};
    static const struct stream_row second[] = {{SLICE("x"), SLICE("4"), false},
                                               {SLICE("z"), {NULL, 0}, true}};
    struct pair *p = *state;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(append(p, p->a, &p->of_a, first, 3), STATUS_OK);
    assert_string_equal(read_rows(p, p->b, 0), "1 x=1;2 y=;3 z=3;end 3");
    assert_int_equal(append(p, p->a, &p->of_a, second, 2), STATUS_OK);
    assert_int_equal(p->n, 5);

    assert_string_equal(read_rows(p, p->b, 0), "2 y=;4 x=4;5 z=-;end 5");
    assert_string_equal(read_rows(p, p->b, 4), "5 z=-;end 5");
}

#define UPDATES_ARE(what)                      \
    "SELECT " what " FROM pg_stat_user_tables" \
    " WHERE relname = 'tidings_rows'"

/* Rows get other numbers and values. The number 16,384 begins another band; a
 * reader that is before it gets all in order. */
TEST(updates_rows_without_their_indexes)
{
    struct pair *p = *state;
    struct stream_row rows[100];
    char keys[100][4];

    for (unsigned i = 0; i < 100; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%u", i);
        rows[i] = (struct stream_row){slice_of(keys[i]), SLICE("value"), false};
    }
    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    for (unsigned i = 0; i < 163; i++)
        assert_int_equal(append(p, p->a, &p->of_a, rows, 100), STATUS_OK);
    assert_int_equal(append(p, p->a, &p->of_a, rows, 85), STATUS_OK);
    p->a->ops->close(p->a); /* its session says what it did */
    p->a = pg_streams_open(&p->options[0]);
    for (unsigned i = 0;
         strcmp(postgresql_query(&p->server, UPDATES_ARE("n_tup_upd = 16285")),
                "t") != 0;
         i++)
        test_yield(i);
    /* Not those that come to the next band, and those without room. */
    assert_string_equal(
        postgresql_query(&p->server, UPDATES_ARE("n_tup_hot_upd > 15500")),
        "t");
    rows[0].is_deleted = true;
    assert_int_equal(append(p, p->a, &p->of_a, rows, 1), STATUS_OK);
    assert_string_equal(read_rows(p, p->b, 16382),
                        "16383 82=value;16384 83=value;16385 84=value;"
                        "16386 0=-;end 16386");
}

/* A failover took rows that a broker has: its reading does not look like the
 * end of the stream. */
TEST(says_that_rows_are_lost)
{
    static const struct stream_row rows[] = {{SLICE("x"), SLICE("1"), false},
                                             {SLICE("y"), SLICE("2"), false}};
    struct pair *p = *state;
    struct problem why;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(append(p, p->a, &p->of_a, rows, 2), STATUS_OK);
    postgresql_query(&p->server, "DELETE FROM tidings_rows WHERE n = 2");
    postgresql_query(&p->server, "UPDATE tidings_streams SET n = 1");

    assert_int_equal(p->a->ops->append(p->a, "hub",
                                       &(struct leases){{&p->of_a}}, &p->n,
                                       rows, 1, NULL, &why),
                     STATUS_CONFLICT);
    assert_string_equal(why.text, read_rows(p, p->a, 2));
    assert_string_equal(read_rows(p, p->a, 2),
                        "the journal has lost rows of this stream: it ends "
                        "with row 1, and this broker has row 2");
    assert_string_equal(read_rows(p, p->a, 1), "end 1");
}

static void
add_note(uint64_t n, struct slice bytes, void *user)
{
    buf_add_format(user, "%d %.*s;", (int)n, SLICE_ARG(bytes));
}

static const char *
read_notes(struct pair *p, struct streams *streams)
{
    struct problem why;

    buf_clear(&p->read);
    assert_int_equal(
        streams->ops->notes(streams, "owner", add_note, &p->read, &why),
        STATUS_OK);
    buf_add(&p->read, "", 1);
    return p->read.data;
}

static enum status
note(struct pair *p, struct streams *streams, const struct lease *lease,
     const struct stream_row *row, const struct stream_note *note)
{
    struct problem why;

    return streams->ops->append(streams, "hub", &(struct leases){{lease}},
                                &p->n, row, !!row, note, &why);
}

/* Notes are kept with rows and alone, in order, and dropped with both; only by
 * the broker that has the lease. */
TEST(keeps_notes_until_they_are_dropped)
{
    static const struct stream_row row = {SLICE("x"), SLICE("1"), false};
    static const struct stream_note first = {1, {SLICE("one")}, 0},
                                    second = {2, {SLICE("two")}, 0},
                                    third = {3, {SLICE("three")}, 2},
                                    drop = {4, {{NULL, 0}}, 4};
    struct pair *p = *state;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(note(p, p->a, &p->of_a, NULL, &first), STATUS_OK);
    assert_int_equal(note(p, p->a, &p->of_a, &row, &second), STATUS_OK);
    assert_int_equal(p->n, 1);
    assert_string_equal(read_notes(p, p->b), "1 one;2 two;");
    assert_int_equal(note(p, p->a, &p->of_a, &row, &third), STATUS_OK);
    assert_string_equal(read_notes(p, p->b), "2 two;3 three;");
    p->a->ops->leave(p->a, &p->of_a);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_OK);
    p->of_a.term = 1;
    assert_int_equal(note(p, p->a, &p->of_a, NULL, &drop), STATUS_OK);
    assert_int_equal(note(p, p->a, &p->of_a, NULL, &first), STATUS_REFUSED);
    assert_string_equal(read_notes(p, p->b), "2 two;3 three;");
    assert_int_equal(note(p, p->b, &p->of_b, NULL, &drop), STATUS_OK);
    assert_string_equal(read_notes(p, p->b), "");
}

/* A stream of several parts is read to its end. */
TEST(reads_many_rows)
{
    struct pair *p = *state;
    struct stream_row rows[2500];
    char keys[2500][8];

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    for (int i = 0; i < 2500; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%d", i);
        rows[i] =
            (struct stream_row){slice_of(keys[i]), slice_of(keys[i]), false};
    }
    assert_int_equal(append(p, p->a, &p->of_a, rows, 2500), STATUS_OK);

    read_rows(p, p->b, 0);
    assert_non_null(strstr(p->read.data, ";1001 1000=1000;"));
    assert_non_null(strstr(p->read.data, ";2500 2499=2499;"));
}

/* An hour passes; then the owner looks for rows to forget. */
static void
pass_hour(struct pair *p)
{
    postgresql_query(&p->server, "UPDATE tidings_streams"
                                 " SET marked_at = now() - interval '2 hours'");
    p->a->ops->close(p->a);
    p->a = pg_streams_open(&p->options[0]);
}

/* A reader that has not read a deleted row in time begins again. */
TEST(forgets_deleted_rows)
{
    static const struct stream_row first[] = {{SLICE("x"), SLICE("1"), false},
                                              {SLICE("y"), SLICE("2"), false}};
    static const struct stream_row gone = {SLICE("x"), {NULL, 0}, true};
    static const struct stream_row more = {SLICE("z"), SLICE("3"), false};
    static const struct stream_row last = {SLICE("z"), {NULL, 0}, true};
    struct pair *p = *state;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(append(p, p->a, &p->of_a, first, 2), STATUS_OK);
    assert_int_equal(append(p, p->a, &p->of_a, &gone, 1), STATUS_OK);
    pass_hour(p); /* the mark is before all rows: it moves */
    assert_int_equal(append(p, p->a, &p->of_a, &more, 1), STATUS_OK);
    assert_string_equal(read_rows(p, p->b, 2), "3 x=-;4 z=3;end 4");
    pass_hour(p);
    assert_int_equal(append(p, p->a, &p->of_a, &last, 1), STATUS_OK);

    assert_string_equal(read_rows(p, p->b, 0), "2 y=2;5 z=-;end 5");
    assert_string_equal(read_rows(p, p->b, 3), "gone");
    assert_string_equal(read_rows(p, p->b, 4), "5 z=-;end 5");
    pass_hour(p);
    assert_int_equal(append(p, p->a, &p->of_a, &last, 1), STATUS_OK);
    pass_hour(p);
    assert_int_equal(append(p, p->a, &p->of_a, NULL, 0), STATUS_OK);
    assert_string_equal(read_rows(p, p->b, 0), "2 y=2;end 6");
    assert_string_equal(read_rows(p, p->b, 6), "end 6");
}

/* A former owner cannot append, and its transaction is rolled back. */
TEST(refuses_a_former_owner)
{
    static const struct stream_row row = {SLICE("x"), SLICE("1"), false};
    struct pair *p = *state;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(append(p, p->a, &p->of_a, &row, 1), STATUS_OK);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_CONFLICT);
    pass(&p->of_b);
    assert_int_equal(hold(p->b, &p->of_b), STATUS_OK);

    assert_int_equal(append(p, p->a, &p->of_a, &row, 1), STATUS_REFUSED);
    assert_string_equal(read_rows(p, p->a, 0), "1 x=1;end 1");
    assert_int_equal(append(p, p->b, &p->of_b, &row, 1), STATUS_OK);
    assert_string_equal(read_rows(p, p->a, 0), "2 x=1;end 2");
}

/* Rows that a broker has not read are not written over. */
TEST(refuses_rows_behind_unread_ones)
{
    static const struct stream_row row = {SLICE("x"), SLICE("1"), false};
    struct pair *p = *state;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    assert_int_equal(append(p, p->a, &p->of_a, &row, 1), STATUS_OK);
    p->n = 0;
    assert_int_equal(append(p, p->a, &p->of_a, &row, 1), STATUS_CONFLICT);
    assert_string_equal(read_rows(p, p->a, 0), "1 x=1;end 1");
}

/* The server ends a connection: the call makes another one. */
TEST(goes_on_after_a_lost_connection)
{
    static const struct stream_row row = {SLICE("x"), SLICE("1"), false};
    struct pair *p = *state;

    assert_int_equal(hold(p->a, &p->of_a), STATUS_OK);
    postgresql_query(&p->server, "SELECT pg_terminate_backend(pid, 60000)"
                                 " FROM pg_stat_activity"
                                 " WHERE application_name = 'tidingsd'");
    assert_int_equal(append(p, p->a, &p->of_a, &row, 1), STATUS_OK);
    assert_string_equal(read_rows(p, p->b, 0), "1 x=1;end 1");
}

static void
add_order(uint64_t id, struct slice bytes, void *user)
{
    struct buf *to = user;

    buf_add_format(to, "%d %.*s;", (int)id, SLICE_ARG(bytes));
}

/* The orders, or the answers, that a broker gets, as text. */
static const char *
take(struct pair *p, struct streams *streams, uint64_t term)
{
    struct lease lease = {"owner", term};
    struct problem why;

    buf_clear(&p->read);
    assert_int_equal(streams->ops->take(streams, &(struct leases){{&lease}},
                                        add_order, &p->read, &why),
                     STATUS_OK);
    buf_add(&p->read, "", 1);
    return p->read.data;
}

static const char *
answers(struct pair *p, struct streams *streams)
{
    struct problem why;

    buf_clear(&p->read);
    assert_int_equal(streams->ops->answers(streams, add_order, &p->read, &why),
                     STATUS_OK);
    buf_add(&p->read, "", 1);
    return p->read.data;
}

/* An order is taken once in a term; its answer comes to the broker that left
 * it. */
TEST(carries_orders_and_answers)
{
    struct pair *p = *state;
    struct problem why;
    uint64_t first, second;

    assert_int_equal(p->a->ops->order(p->a, "owner", SLICE("x"), &first, &why),
                     STATUS_OK);
    assert_int_equal(p->b->ops->order(p->b, "owner", SLICE("y"), &second, &why),
                     STATUS_OK);
    assert_string_equal(take(p, p->b, 1), "1 x;2 y;");
    assert_string_equal(take(p, p->b, 1), "");
    assert_string_equal(take(p, p->a, 2), "1 x;2 y;"); /* the next owner */
    assert_int_equal(p->a->ops->answer(p->a, first, SLICE("X"), &why),
                     STATUS_OK);
    assert_string_equal(answers(p, p->b), "");
    assert_string_equal(answers(p, p->a), "1 X;");
    assert_string_equal(answers(p, p->a), "");
    assert_string_equal(take(p, p->a, 3), "2 y;");
}

/* Nobody waits for an old order. */
TEST(forgets_old_orders)
{
    struct pair *p = *state;
    struct problem why;
    uint64_t id;

    assert_int_equal(p->a->ops->order(p->a, "owner", SLICE("x"), &id, &why),
                     STATUS_OK);
    postgresql_query(&p->server, "UPDATE tidings_orders"
                                 " SET at = at - interval '6 s'");
    assert_string_equal(take(p, p->b, 1), "");
    postgresql_query(&p->server, "UPDATE tidings_orders"
                                 " SET at = at - interval '1 minute'");
    take(p, p->b, 1);
    assert_string_equal(
        postgresql_query(&p->server, "SELECT count(*) FROM tidings_orders"),
        "0");
}

/* A wait ends with an order. */
TEST(wakes_for_an_order)
{
    struct pair *p = *state;
    struct problem why;
    uint64_t id;

    p->b->ops->wait(p->b, -1, 1000000); /* begins to listen */
    assert_string_equal(take(p, p->b, 1), "");
    assert_int_equal(p->a->ops->order(p->a, "owner", SLICE("x"), &id, &why),
                     STATUS_OK);
    p->b->ops->wait(p->b, -1, 1000000);
    assert_string_equal(take(p, p->b, 1), "1 x;");
}
