/*
 * The hub of a cluster, at one broker after the other: the owners change, the
 * log is the same.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/cluster/ownership.h"
#include "broker/cluster/streams.h"
#include "tests/support/shared_streams.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define CALLBACK "http://a.example/cb"

static struct shared_streams all;
static struct streams_seat a, b;
static struct lease of_a, of_b;

static void
hold(struct streams_seat *seat, struct lease *lease)
{
    struct problem why;

    lease->name = "hub";
    assert_int_equal(seat->streams.ops->hold(&seat->streams, lease, &why),
                     STATUS_OK);
    sim.right =
        (struct ownership_right){.streams = &seat->streams, .lease = lease};
}

static int
setup(void **state)
{
    int rc = simulation_setup(state);

    shared_streams_init(&all);
    streams_seat_take(&a, &all, "a");
    streams_seat_take(&b, &all, "b");
    of_a.term = of_b.term = 0;
    hold(&a, &of_a);
    simulation_restart();
    return rc;
}

static int
teardown(void **state)
{
    int rc = simulation_teardown(state);

    sim.right = (struct ownership_right){NULL};
    shared_streams_fini(&all);
    return rc;
}

FIXTURE(setup, teardown);

/* Ends the hub, and its lease, and deletes hub.db. */
static void
leave(void)
{
    static const char *const names[] = {"hub.db", "hub.db-wal", "hub.db-shm"};
    char path[300];

    quiet_pass(LEASE_US + 1);
    hub_close(sim.hub);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", sim.dir.path, names[i]);
        (void)unlink(path);
    }
}

/* The next owner's hub.db is empty; it has the stream alone. */
static void
take_over(void)
{
    leave();
    hold(&b, &of_b);
    simulation_reopen();
}

/* The value of a header of the call that is under way at the callback. */
static const char *
header_of(const char *name)
{
    struct call *call = sim_call(CALLBACK);

    assert_non_null(call);
    for (size_t i = 0; call->headers[i]; i++)
        if (!strncmp(call->headers[i], name, strlen(name)))
            return call->headers[i];
    fail_msg("no %s", name);
    return NULL;
}

/* Issue, 4: the same delivery, byte for byte, though there are more entries
 * now. */
TEST(continues_with_the_same_delivery)
{
    char id[200], signature[200];

    sim_active(CALLBACK, "&hub.secret=whsecret");
    sim_post(4, 2);
    assert_true(sim_is_sent(CALLBACK));
    snprintf(id, sizeof(id), "%s", header_of("Tidings-Delivery"));
    snprintf(signature, sizeof(signature), "%s", header_of("X-Hub-Signature"));
    sim_post(6, 3);
    take_over();

    assert_true(sim_is_sent(CALLBACK));
    assert_string_equal(header_of("Tidings-Delivery"), id);
    assert_string_equal(header_of("X-Hub-Signature"), signature);
    sim_answer(sim_call(CALLBACK), 204, "");
    assert_true(sim_is_sent(CALLBACK)); /* and then the others */
    assert_int_equal(sim_find(CALLBACK)->reader.upto, 8);
    assert_string_not_equal(header_of("Tidings-Delivery"), id);
}

/* A request that was answered 202 is verified by the next owner. */
TEST(verifies_what_the_former_owner_took)
{
    sim_subscribe(CALLBACK, "&change=created");
    take_over();

    sim_confirm(CALLBACK);
    assert_string_equal(sim_find(CALLBACK)->terms.filter, "change=created");
}

/* So does a request whose broker stood still behind the commit, and lost a
 * later turn. */
TEST(keeps_a_request_when_a_later_turn_is_lost)
{
    static const struct owned_part never_held;

    sim.right.part = &never_held;
    simulation_restart();
    sim_subscribe(CALLBACK, "");
    assert_null(sim_call(CALLBACK));
    a.outcome = APPEND_LOST;
    assert_int_equal(sim_ask("http://b.example/", ""), 503);
    a.outcome = APPEND_KEPT;
    quiet_pass(HUB_TICK_US);
    quiet_pass(HUB_TICK_US);
    take_over(); /* without an ownership */

    assert_null(sim_call("http://b.example/"));
    sim_confirm(CALLBACK);
    assert_non_null(sim_find(CALLBACK));
}

/* A subscription that ended, and one of before, get the same numbers nowhere.
 */
TEST(gives_no_number_twice)
{
    uint64_t id = sim_active(CALLBACK, "")->id;

    assert_int_equal(sim_command(COMMAND_END, id, NULL), 204);
    take_over();

    assert_null(sim_find(CALLBACK));
    assert_true(sim_active(CALLBACK, "")->id > id);
}

/* A former owner that knows nothing sends nothing, and promises nothing. */
TEST(a_former_owner_delivers_nothing)
{
    sim_active(CALLBACK, "");
    quiet_pass(LEASE_US + 1);
    hold(&b, &of_b);
    sim_post(4, 1);

    assert_false(sim_is_sent(CALLBACK));
    assert_int_equal(sim_ask("http://b.example/", ""), 503);
}

/* The hub goes on when the journal is back. */
TEST(waits_for_the_journal)
{
    sim_active(CALLBACK, "");
    streams_seat_cut(&a, true);
    sim_post(4, 1);
    assert_false(sim_is_sent(CALLBACK));
    assert_int_equal(sim_ask("http://b.example/", ""), 503);
    streams_seat_cut(&a, false);
    quiet_pass(HUB_TICK_US);
    quiet_pass(HUB_TICK_US);

    assert_true(sim_is_sent(CALLBACK));
    sim_subscribe("http://b.example/", "");
}

/* The stream has a request that was answered 503: it comes to nothing. */
TEST(takes_back_what_it_does_not_know)
{
    sim_active(CALLBACK, "");
    a.outcome = APPEND_UNKNOWN_KEPT;
    assert_int_equal(sim_ask("http://b.example/", ""), 503);
    a.outcome = APPEND_KEPT;
    quiet_pass(HUB_TICK_US);
    quiet_pass(HUB_TICK_US);
    sim_subscribe("http://c.example/", "");
    take_over();

    assert_null(sim_call("http://b.example/"));
    assert_non_null(sim_call("http://c.example/"));
    assert_non_null(sim_find(CALLBACK));
}

/* The rows that a broker had before it was in a cluster go to the stream. */
TEST(brings_the_subscriptions_of_a_single_broker)
{
    sim_active(CALLBACK, "");
    hub_close(sim.hub);
    shared_streams_fini(&all);
    shared_streams_init(&all);
    streams_seat_take(&a, &all, "a");
    streams_seat_take(&b, &all, "b");
    of_a.term = 0;
    sim.right = (struct ownership_right){NULL};
    simulation_reopen();
    sim_make_active(sim_find(CALLBACK)->topic, 0, 3);
    {
        struct problem why;

        assert_int_equal(
            db_exec(&sim.hub->db->db, "UPDATE journal_place SET n = 0", &why),
            STATUS_OK);
    }
    hub_close(sim.hub);
    hold(&a, &of_a);
    simulation_reopen();
    take_over();

    assert_int_equal(subscriptions_count(sim.hub), 4);
}

/* W-109: the next owner signs with the same key; also one that was alone
 * before, and had made a key. */
TEST(has_the_keys_of_the_former_owner)
{
    char id[HUB_KEY_ID_SIZE];

    strcpy(id, sim.hub->keys.now.all[0].id);
    leave();
    sim.right = (struct ownership_right){NULL};
    simulation_reopen();
    assert_string_not_equal(sim.hub->keys.now.all[0].id, id);
    hub_close(sim.hub);
    hold(&b, &of_b);
    simulation_reopen();
    assert_int_equal(sim.hub->keys.now.n, 1);
    assert_string_equal(sim.hub->keys.now.all[0].id, id);
    assert_int_equal(sim_command(COMMAND_KEYS_ROTATE, 60, NULL), 200);
    take_over();
    assert_int_equal(sim.hub->keys.now.n, 2);
    assert_string_equal(sim.hub->keys.now.all[1].id, id);
}

/* Delivers so many changes, one by one; `from`: the number of the first. */
static void
deliver(unsigned from, unsigned n)
{
    for (unsigned i = from; i < from + n; i++) {
        sim_post(i, 1);
        assert_true(sim_is_sent(CALLBACK));
        sim_answer(sim_call(CALLBACK), 204, "");
    }
}

/* Deliveries write notes and no rows: the next owner goes on behind the last
 * one, with notes alone, and with rows once these are folded. */
TEST(deliveries_are_notes_and_become_rows)
{
    size_t n_rows;

    sim_active(CALLBACK, "");
    n_rows = all.n_rows;
    deliver(4, 5);
    quiet_pass(HUB_TICK_US);
    assert_int_equal(all.n_rows, n_rows);
    assert_true(all.n_notes > 5);
    take_over();
    assert_int_equal(all.n_notes, 0);
    assert_int_equal(sim_find(CALLBACK)->reader.after, 8);

    n_rows = all.n_rows;
    deliver(9, 2);
    quiet_pass(HUB_TICK_US);
    assert_int_equal(all.n_rows, n_rows);
    quiet_pass(60000000);
    quiet_pass(HUB_TICK_US);
    assert_int_equal(all.n_rows, n_rows + 1);
    assert_int_equal(all.n_notes, 0);
    deliver(11, 1);
}

/* More than a turn folds: each keeps the notes that the others still need. */
TEST(folds_a_part_of_many_in_each_turn)
{
    enum { MANY = 1100 };
    struct subscription *s;

    sim_make_active(sim_active(CALLBACK, "")->topic, 0, MANY);
    sim_post(4, 1);
    list_walk (s, &sim.hub->subscriptions.all, key.of_all_topics) {
        s->reader.after = 1 + s->id % 2;
        hub_rows_put_range(sim.hub->db, s);
    }
    quiet_pass(HUB_TICK_US);
    all.most_rows = 0;
    quiet_pass(60000000);
    quiet_pass(HUB_TICK_US);
    assert_int_equal(all.n_notes, 0);
    assert_in_range(all.most_rows, 400, 600);
    take_over();
    assert_int_equal(subscriptions_count(sim.hub), MANY + 1);
    list_walk (s, &sim.hub->subscriptions.all, key.of_all_topics)
        assert_int_equal(s->reader.after, 1 + s->id % 2);
}

/* The journal was lost: its copy begins again, with the notes that it has. */
TEST(brings_its_own_notes_to_a_journal_that_begins_again)
{
    sim_active(CALLBACK, "");
    deliver(4, 5);
    quiet_pass(HUB_TICK_US);
    hub_close(sim.hub);
    shared_streams_fini(&all);
    shared_streams_init(&all);
    all.id++;
    streams_seat_take(&a, &all, "a");
    streams_seat_take(&b, &all, "b");
    of_a.term = of_b.term = 0;
    hold(&a, &of_a);
    simulation_reopen();
    assert_int_equal(sim_find(CALLBACK)->reader.after, 8);
    take_over();
    assert_int_equal(sim_find(CALLBACK)->reader.after, 8);
}

/* A start makes rows of the notes that the broker itself has left. */
TEST(makes_rows_of_its_own_notes)
{
    struct problem why;
    char count[] = "SELECT count(*) FROM notes";
    int64_t n;

    sim_active(CALLBACK, "");
    deliver(4, 2);
    quiet_pass(HUB_TICK_US);
    assert_int_equal(db_number(&sim.hub->db->db, count, &n, &why), 0);
    assert_true(n > 0);
    simulation_restart(); /* folds them */
    assert_int_equal(db_number(&sim.hub->db->db, count, &n, &why), 0);
    assert_int_equal(n, 0);
    assert_int_equal(sim_find(CALLBACK)->reader.after, 5);
}
