/*
 * hub.db: transactions, how durable they are, and what the hub does when they
 * fail.
 */
#include <stdio.h>
#include <string.h>

#include "broker/hub/hub_parts.h"
#include "broker/hub/hub_rows.h"
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

static int64_t
ask(struct hub_db *r, const char *query)
{
    sqlite3_stmt *s = NULL;
    int64_t answer;

    assert_int_equal(sqlite3_prepare_v2(r->db.handle, query, -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    answer = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return answer;
}

static struct hub_db *
open_records(void **state)
{
    struct hub_db *r = NULL;
    struct problem why = {""};

    if (hub_db_open(&r, tempdir_path(state), NULL, &why))
        fail_msg("%s", why.text);
    return r;
}

/* A subscription without a hub, and its row. */
struct alone {
    struct set set;
    struct topic topic;
    struct subscription s;
};

static void
make_alone(struct alone *a, uint64_t id, char *callback)
{
    memset(a, 0, sizeof(*a));
    a->set.name = "demo";
    a->topic.set = &a->set;
    strcpy(a->topic.epoch, "0123456789abcdef");
    a->s.id = id;
    a->s.topic = &a->topic;
    a->s.callback = callback;
    a->s.created_us = 5;
    a->s.lease_end_us = 7;
    a->s.reader.after = 11;
    list_init(&a->s.range.node);
    list_init(&a->s.range.noted);
    hub_row_init(&a->s.row, HUB_ROW_SUBSCRIPTION, 0);
}

/* Moves the cursor, and writes it with the range, without fsync. */
static void
put_range(struct hub_db *r, struct alone *a, uint64_t after, uint64_t last)
{
    a->s.reader.after = after;
    a->s.reader.upto = last;
    hub_rows_put_range(r, &a->s);
}

static void
put_cursor(struct hub_db *r, struct subscription *s)
{
    hub_db_be_firm(r);
    hub_rows_put_range(r, s);
}

static void
end_alone(struct hub_db *r, struct alone *a)
{
    list_remove(&a->s.row.node);
    hub_rows_end(r, &a->s.row, a->s.id);
}

#define CURSOR "SELECT after * 1000 + range_last FROM cursors"
#define NOTES  "SELECT count(*) FROM notes"
#define FULL   2
#define NORMAL 1

static void
commit(struct hub_db *r)
{
    struct problem why = {""};

    if (hub_db_commit(r, &why))
        fail_msg("%s", why.text);
}

/* W-166: SQLite overwrites a deleted secret. e2e/permissions tests the mode of
 * the file. */
TEST(its_secrets_are_overwritten, tempdir_setup, tempdir_teardown)
{
    struct hub_db *r = open_records(state);

    assert_int_equal(ask(r, "PRAGMA secure_delete"), 1);
    assert_int_equal(ask(r, "PRAGMA page_size"), 4096);
    hub_db_close(r);
}

/* As if the process had been killed. */
static struct hub_db *
open_again(struct hub_db *r, struct alone *a, void **state)
{
    struct hub_db *next = open_records(state);

    list_remove(&a->s.range.node);
    list_remove(&a->s.range.noted);
    hub_db_close(r);
    return next;
}

/* Ranges alone need no fsync; with anything else they go in its transaction.
 * They are noted, and the next start makes rows of them. */
TEST(a_turn_is_kept_as_firmly_as_it_must, tempdir_setup, tempdir_teardown)
{
    struct hub_db *r = open_records(state);
    char callback[] = "http://a.example/";
    struct alone a;

    make_alone(&a, hub_db_next_id(r, 0), callback);
    hub_rows_put_subscription(r, &a.s);
    assert_int_equal(ask(r, "PRAGMA synchronous"), FULL);
    assert_true(hub_db_is_begun(r));
    commit(r);
    assert_false(hub_db_is_begun(r));
    assert_int_equal(ask(r, CURSOR), 11000);

    put_range(r, &a, 11, 13);
    assert_true(hub_db_is_begun(r));
    commit(r);
    assert_int_equal(ask(r, "PRAGMA synchronous"), NORMAL);
    assert_int_equal(ask(r, CURSOR), 11000);
    r = open_again(r, &a, state);
    assert_int_equal(ask(r, CURSOR), 11013);
    assert_int_equal(ask(r, NOTES), 0);

    put_range(r, &a, 13, 14);
    a.s.reader.after = 12;
    a.s.reader.upto = 0;
    put_cursor(r, &a.s); /* the later one counts */
    commit(r);
    assert_int_equal(ask(r, "PRAGMA synchronous"), FULL);
    r = open_again(r, &a, state);
    assert_int_equal(ask(r, CURSOR), 12000);

    put_cursor(r, &a.s);
    put_range(r, &a, 13, 14);
    commit(r);
    r = open_again(r, &a, state);
    assert_int_equal(ask(r, CURSOR), 13014);
    hub_db_close(r);
}

/* A broker that goes on makes rows of them once a minute; of what is newer, the
 * note stays. */
TEST(notes_become_rows, tempdir_setup, tempdir_teardown)
{
    struct hub_db *r = open_records(state);
    char callback[] = "http://a.example/";
    struct alone a, b;

    make_alone(&a, hub_db_next_id(r, 0), callback);
    make_alone(&b, hub_db_next_id(r, 0), callback);
    hub_rows_put_subscription(r, &a.s);
    hub_rows_put_subscription(r, &b.s);
    commit(r);
    put_range(r, &a, 11, 13);
    put_range(r, &b, 11, 14);
    commit(r);
    put_range(r, &a, 13, 15);
    commit(r);
    assert_false(hub_db_is_begun(r));
    assert_int_equal(ask(r, NOTES), 3);
    clock_pass_us(60000000);
    assert_true(hub_db_is_begun(r));
    put_range(r, &b, 14, 16);
    commit(r);
    assert_int_equal(ask(r, CURSOR " ORDER BY id"), 13015);
    assert_int_equal(ask(r, NOTES), 1);
    list_remove(&b.s.range.node);
    list_remove(&b.s.range.noted);
    r = open_again(r, &a, state);
    assert_int_equal(ask(r, CURSOR " ORDER BY id DESC"), 14016);
    assert_int_equal(ask(r, NOTES), 0);
    hub_db_close(r);
}

TEST(a_range_of_what_has_ended_is_nothing, tempdir_setup, tempdir_teardown)
{
    struct hub_db *r = open_records(state);
    char callback[] = "http://a.example/";
    struct alone a;

    make_alone(&a, hub_db_next_id(r, 0), callback);
    hub_rows_put_subscription(r, &a.s);
    commit(r);
    end_alone(r, &a);
    put_range(r, &a, 11, 13);
    commit(r);
    r = open_again(r, &a, state);

    assert_int_equal(ask(r, "SELECT count(*) FROM cursors"), 0);
    assert_int_equal(ask(r, "SELECT count(*) FROM subscriptions"), 0);
    hub_db_close(r);
}

/* Not even ids of deleted rows. */
TEST(ids_are_never_given_twice, tempdir_setup, tempdir_teardown)
{
    struct hub_db *r = open_records(state);
    char callback[] = "http://a.example/";
    struct alone a;
    uint64_t id;

    hub_db_next_id(r, 0);
    id = hub_db_next_id(r, 0);
    make_alone(&a, id, callback);
    hub_rows_put_subscription(r, &a.s);
    end_alone(r, &a);
    commit(r);
    hub_db_close(r);
    r = open_records(state);

    assert_int_equal(hub_db_next_id(r, 0), id + 1);
    hub_db_close(r);
}

struct told {
    struct hub_db_hook hook;
    int n_kept, n_lost;
};

static void
on_ended(struct hub_db_hook *hook, bool is_kept)
{
    struct told *told = list_entry(hook, struct told, hook);

    told->n_kept += is_kept;
    told->n_lost += !is_kept;
}

/* One failure, and nothing of the turn is kept; its rows are behind, once
 * each. */
TEST(a_turn_is_kept_as_a_whole_or_not_at_all, tempdir_setup, tempdir_teardown)
{
    struct hub_db *r = open_records(state);
    char callback[] = "http://a.example/";
    struct told told = {.hook = {.ended = on_ended}};
    struct problem why = {"it burns"};
    struct alone a;

    list_append(&r->hooks, &told.hook.node);
    make_alone(&a, hub_db_next_id(r, 0), callback);
    hub_rows_put_subscription(r, &a.s);
    hub_db_fail(r, &why);
    put_cursor(r, &a.s);
    assert_int_equal(hub_db_commit(r, &why), STATUS_BUSY);

    assert_string_equal(why.text, "it burns");
    assert_int_equal(told.n_lost, 1);
    assert_int_equal(ask(r, "SELECT count(*) FROM subscriptions"), 0);
    assert_false(list_is_empty(&r->behind));
    assert_ptr_equal(hub_db_take_behind(r), &a.s.row);
    assert_null(hub_db_take_behind(r));
    assert_true(list_is_empty(&r->behind));

    hub_rows_put_subscription(r, &a.s);
    commit(r);
    assert_int_equal(told.n_kept, 1);
    assert_int_equal(ask(r, "SELECT count(*) FROM subscriptions"), 1);
    hub_db_close(r);
}

/* A newer broker's file is not touched. */
TEST(a_newer_file_is_refused, tempdir_setup, tempdir_teardown)
{
    struct hub_db *r = open_records(state);
    struct problem why = {""};

    assert_int_equal(db_exec(&r->db, "PRAGMA user_version=99", &why),
                     STATUS_OK);
    hub_db_close(r);

    assert_int_equal(owned_file_check(&hub_db_file, tempdir_path(state), &why),
                     STATUS_IO);
    assert_int_equal(hub_db_open(&r, tempdir_path(state), NULL, &why),
                     STATUS_IO);
    assert_non_null(strstr(why.text, "99"));
}

struct seen {
    bool is_local[8];
    size_t n;
};

static enum status
see(struct hub_record *record, void *user, struct problem *why)
{
    struct seen *seen = user;

    (void)why;
    seen->is_local[seen->n++] = record->terms.is_local;
    return STATUS_OK;
}

/* Version 3 did not know which callbacks are local. A callback with a name,
 * which its owner can point elsewhere, is not local. */
TEST(of_an_earlier_file_callbacks_on_loopback_alone_are_local, tempdir_setup,
     tempdir_teardown)
{
    static const struct {
        const char *callback;
        bool is_local;
    } rows[] = {
        {"http://127.0.0.1:8080/a", true},
        {"http://LOCALHOST?a", true},
        {"https://[0:0:0:0:0:0:0:1]/", true},
        {"http://127.0.0.1.example.org/", false},
        {"http://example.org/?then=http://localhost/", false},
    };
    struct hub_db *r = open_records(state);
    struct seen seen = {.n = 0};
    struct problem why = {""};
    char callback[100];
    struct alone a;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        strcpy(callback, rows[i].callback);
        make_alone(&a, hub_db_next_id(r, 0), callback);
        hub_rows_put_subscription(r, &a.s);
        commit(r);
    }
    assert_int_equal(db_exec(&r->db,
                             "ALTER TABLE subscriptions DROP COLUMN is_local;"
                             "ALTER TABLE requests DROP COLUMN is_local;"
                             "ALTER TABLE subscriptions DROP COLUMN owner;"
                             "ALTER TABLE requests DROP COLUMN owner;"
                             "ALTER TABLE subscriptions DROP COLUMN owner_ends;"
                             "ALTER TABLE requests DROP COLUMN owner_ends;"
                             "ALTER TABLE subscriptions DROP COLUMN requester;"
                             "ALTER TABLE subscriptions DROP COLUMN form;"
                             "ALTER TABLE requests DROP COLUMN form;"
                             "ALTER TABLE subscriptions DROP COLUMN wants_v1a;"
                             "ALTER TABLE requests DROP COLUMN wants_v1a;"
                             "DROP TABLE keys;"
                             "DROP TABLE notes;"
                             "PRAGMA user_version=3",
                             &why),
                     STATUS_OK);
    hub_db_close(r);

    r = open_records(state);
    assert_int_equal(hub_rows_read(r, HUB_PARTS_ALL, see, &seen, &why),
                     STATUS_OK);
    assert_int_equal(seen.n, sizeof(rows) / sizeof(rows[0]));
    for (size_t i = 0; i < seen.n; i++)
        assert_int_equal(seen.is_local[i], rows[i].is_local);
    hub_db_close(r);
}

/* The hub: while its disk is full it sends and delivers nothing, and its memory
 * is right; then it keeps everything. */
TEST(a_full_disk_stops_what_cannot_be_kept_until_it_has_room, simulation_setup,
     simulation_teardown)
{
    struct subscription *s = sim_active("http://a.example/", "");
    uint64_t id = s->id;

    sim_use_up_disk();
    assert_false(list_is_empty(&sim.hub->db->behind));
    sets_post(&sim.sets, "demo", 4, 1);
    hub_wake(sim.hub);
    quiet_turn();
    assert_false(sim_is_sent("http://a.example/"));
    for (int i = 0; i < 3; i++) {
        quiet_pass(HUB_TICK_US);
        if (!list_is_empty(&sim.hub->db->behind))
            assert_false(sim_is_sent("http://a.example/"));
    }

    sim_fill_disk(false);
    quiet_pass(2 * HUB_TICK_US);
    assert_true(list_is_empty(&sim.hub->db->behind));
    assert_true(sim_is_sent("http://a.example/"));
    simulation_crash();
    assert_int_equal(sim_by_id(id)->reader.upto, 4);
    assert_true(sim_is_sent("http://a.example/"));
}

/* The hub does not take back an end that it could not keep. */
TEST(what_has_ended_stays_ended_though_it_cannot_be_kept, simulation_setup,
     simulation_teardown)
{
    struct subscription *s = sim_active("http://a.example/", "");
    uint64_t id = s->id;
    struct problem why = {"it burns"};
    struct command *command = command_new(COMMAND_END, 0);

    strcpy(command->name, "demo");
    command->id = id;
    hub_db_fail(sim.hub->db, &why);
    assert_int_equal(sim_run(command), 503);
    assert_non_null(strstr(sim_why.text, "it burns"));

    assert_null(sim_by_id(id));
    quiet_pass(2 * HUB_TICK_US);
    simulation_crash();
    assert_null(sim_by_id(id));
}
