/*
 * The hub of a cluster, at one broker after the other: the owners change, the
 * log is the same.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/cluster/ownership.h"
#include "broker/cluster/streams.h"
#include "broker/hub/hub_commands.h"
#include "tests/support/shared_streams.h"
#include "tests/test.h"
#include "tests/unit/hub_quiet/simulation.h"

#define CALLBACK "http://a.example/cb"

static struct shared_streams all;
static struct streams_seat a, b;
static struct lease of_b;

/* The owners of other parts: the last command that they got. */
static unsigned carried;
static char carried_text[4096];

static enum status
carry(struct remote_commands *remote, struct command *command, unsigned parts,
      struct problem *why)
{
    (void)remote;
    (void)why;
    carried = parts;
    snprintf(carried_text, sizeof(carried_text), "%.*s",
             SLICE_ARG(buf_slice(&command->text)));
    command->http = 202;
    command->done(command);
    return STATUS_OK;
}

/* The next hub is that of the broker, and has all parts. */
static void
hold(struct streams_seat *seat)
{
    static char names[HUB_PARTS][8];
    struct problem why;

    for (unsigned i = 0; i < HUB_PARTS; i++) {
        snprintf(names[i], sizeof(names[i]), "hub/%u", i);
        sim.leases[i] = (struct lease){.name = names[i]};
        assert_int_equal(
            seat->streams.ops->hold(&seat->streams, &sim.leases[i], &why),
            STATUS_OK);
        sim.rights[i] = (struct ownership_right){.lease = &sim.leases[i]};
    }
    sim.cluster =
        (struct hub_cluster){.streams = &seat->streams, .send = carry};
}

static int
setup(void **state)
{
    int rc = simulation_setup(state);

    shared_streams_init(&all);
    streams_seat_take(&a, &all, "a");
    streams_seat_take(&b, &all, "b");
    hold(&a);
    simulation_restart();
    return rc;
}

static int
teardown(void **state)
{
    int rc = simulation_teardown(state);

    sim.cluster.streams = NULL;
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
    hold(&b);
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

    for (unsigned i = 0; i < HUB_PARTS; i++)
        sim.rights[i].part = &never_held;
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
    hold(&b);
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
    sim.cluster.streams = NULL;
    simulation_reopen();
    sim_make_active(sim_find(CALLBACK)->topic, 0, 3);
    {
        struct problem why;

        assert_int_equal(
            db_exec(&sim.hub->db->db, "UPDATE journal_place SET n = 0", &why),
            STATUS_OK);
    }
    hub_close(sim.hub);
    hold(&a);
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
    sim.cluster.streams = NULL;
    simulation_reopen();
    assert_string_not_equal(sim.hub->keys.now.all[0].id, id);
    hub_close(sim.hub);
    hold(&b);
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
    hold(&a);
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

static unsigned
part_of(const char *callback)
{
    return sim_find(callback)->row.part;
}

/* A part goes to another broker and comes back: with its cursor, and the same
 * delivery that was under way. The others go on. Commands go to its owner. */
TEST(a_part_goes_and_comes_back)
{
    static const char other[] = "http://d.example/cb";
    char id[200];
    uint64_t number = sim_active(CALLBACK, "")->id;
    unsigned part = part_of(CALLBACK), others = HUB_PARTS_ALL & ~(1u << part);

    sim_active(other, "");
    assert_int_not_equal(part_of(other), part);
    assert_int_equal(number % HUB_PARTS, part);
    sim_post(4, 1);
    assert_true(sim_is_sent(CALLBACK));
    snprintf(id, sizeof(id), "%s", header_of("Tidings-Delivery"));
    simulation_give(1u << part, false);
    hub_await_left(sim.hub, part);

    assert_null(sim_find(CALLBACK));
    assert_null(sim_call(CALLBACK));
    sim_answer(sim_call(other), 204, "");
    sim_post(5, 1);
    assert_true(sim_is_sent(other));
    sim_subscribe(CALLBACK, "");
    assert_int_equal(carried, 1u << part);
    carried = 0;
    sim_command(COMMAND_SHOW, number, NULL);
    assert_int_equal(carried, 1u << part);
    sim_command(COMMAND_SHOW, 1000 * HUB_PARTS + part,
                NULL); /* not known yet */
    assert_int_equal(carried, 1u << part);
    carried = 0;
    assert_int_equal(sim_command(COMMAND_SHOW, 1000 * HUB_PARTS, NULL),
                     part == 0 ? 202 : 404);
    sim_command(COMMAND_LIST, 0, NULL);
    assert_int_equal(carried, 1u << part);
    assert_non_null(strstr(carried_text, "http://d.example"));
    assert_null(strstr(carried_text, "http://a.example"));

    simulation_give(others, false);
    simulation_give(HUB_PARTS_ALL, true);
    assert_true(sim_is_sent(CALLBACK));
    assert_string_equal(header_of("Tidings-Delivery"), id);
    assert_int_equal(subscriptions_count(sim.hub), 2);
}

/* The hub refuses an order when the part has just gone. */
TEST(an_order_for_a_part_that_has_gone_is_refused)
{
    struct command *command = command_new(COMMAND_LIST, 0);

    snprintf(command->name, sizeof(command->name), "demo");
    command->part = 5;
    simulation_give(1u << 5, false);
    assert_int_equal(sim_run(command), 503);
    assert_string_equal(sim_why.text,
                        "the owner of this part of the hub is changing");
}

/* Parts come one by one; a list of a topic is in order all the same. */
TEST(a_list_is_in_order_whatever_came_first)
{
    struct topic *topic = sim_active(CALLBACK, "")->topic;
    struct subscription *s;
    uint64_t last = 0;

    sim_make_active(topic, 0, 60);
    simulation_give(HUB_PARTS_ALL & ~(1u << part_of(CALLBACK)), false);
    for (unsigned i = 0; i < HUB_PARTS; i++)
        simulation_give(1u << (HUB_PARTS - 1 - i), true);
    topic = sim_find(CALLBACK)->topic;
    list_walk (s, &topic->subscriptions, key.of_topic) {
        assert_true(s->id > last);
        last = s->id;
    }
    assert_int_equal(subscriptions_count(sim.hub), 61);
}

/* The rows that other owners write come into hub.db, and keys count. */
TEST(follows_what_others_write)
{
    struct problem why;
    char id[HUB_KEY_ID_SIZE];
    int64_t n;

    simulation_give(HUB_PARTS_ALL & ~2u, false);
    strcpy(id, sim.hub->keys.now.all[0].id);
    {
        struct owned_db *owned = NULL;
        struct db db = {NULL};
        const struct ownership_right right = {.streams = &b.streams,
                                              .lease = &of_b};
        struct tempdir dir;

        tempdir_open(&dir);
        of_b = (struct lease){.name = "hub/99"};
        assert_int_equal(b.streams.ops->hold(&b.streams, &of_b, &why),
                         STATUS_OK);
        assert_int_equal(
            owned_file_open(&hub_db_file, &db, &owned, dir.path, &right, &why),
            STATUS_OK);
        assert_int_equal(owned_db_begin(&db, owned, true, &why), STATUS_OK);
        assert_int_equal(
            owned_db_end(&db, owned,
                         db_exec(&db,
                                 "UPDATE keys SET ends = 9e15;"
                                 "INSERT INTO keys VALUES('x', zeroblob(32),"
                                 " 5, 0);"
                                 "INSERT INTO relays(id, name, topic, hub,"
                                 " epoch) VALUES(9, 'r', 't', 'h', 'e')",
                                 &why),
                         &why),
            STATUS_OK);
        owned_db_close(owned);
        db_close(&db);
        tempdir_close(&dir);
    }
    for (int i = 0; i < 4; i++)
        quiet_pass(HUB_TICK_US);
    assert_int_equal(
        db_number(&sim.hub->db->db, "SELECT count(*) FROM relays", &n, &why),
        STATUS_OK);
    assert_int_equal(n, 1);
    assert_int_equal(sim.hub->keys.now.n, 2);
    assert_string_not_equal(sim.hub->keys.now.all[0].id, id);

    for (unsigned i = 0;; i++) { /* and it writes behind the others */
        char callback[60];

        snprintf(callback, sizeof(callback), "http://h%u.example/cb", i);
        if (hub_rows_part(SUBSCRIPTION_CALLBACK, TOPIC_CHANGES, SLICE("demo"),
                          slice_of(callback)) != 1)
            continue;
        sim_active(callback, "");
        break;
    }
}

/* The pages of two brokers become one. */
TEST(merges_lists)
{
    static const struct {
        const char *lists[3], *merged;
    } rows[] = {
        {{"{\"subscriptions\":[]}\n", "{\"subscriptions\":[]}\n"},
         "{\"subscriptions\":[]}\n"},
        {{"{\"subscriptions\":[{\"id\":2,\"a\":\"]}\"},\n{\"id\":7,\"b\":0}]}"
          "\n",
          "{\"subscriptions\":[{\"id\":3,\"b\":0}]}\n", ""},
         "{\"subscriptions\":[{\"id\":2,\"a\":\"]}\"},\n{\"id\":3,\"b\":0},\n"
         "{\"id\":7,\"b\":0}]}\n"},
        {{"{\"subscriptions\":[{\"id\":2,\"b\":0}],\"next\":2}\n",
          "{\"subscriptions\":[{\"id\":1,\"b\":0}]}\n"},
         "{\"subscriptions\":[{\"id\":1,\"b\":0},\n{\"id\":2,\"b\":0}],"
         "\"next\":2}\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slice lists[3];
        struct buf to;
        size_t n = 0;

        for (; n < 3 && rows[i].lists[n]; n++)
            lists[n] = slice_of(rows[i].lists[n]);
        buf_init(&to, 10000);
        hub_lists_merge(&to, lists, n);
        buf_add(&to, "", 1);
        assert_string_equal(to.data, rows[i].merged);
        buf_fini(&to);
    }
}

/* Whatever it is in which callbacks differ, each part has its share. */
TEST(callbacks_are_spread_over_the_parts)
{
    enum { EACH = 100 };

    static const char *const forms[] = {
        "http://a.example/cb%u", "http://a.example/%u/hook",
        "http://h%u.example/", "https://a.example/?user=%08u&v=1"};

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        unsigned n[HUB_PARTS] = {0};
        char callback[60];

        for (unsigned k = 0; k < EACH * HUB_PARTS; k++) {
            snprintf(callback, sizeof(callback), forms[i], k);
            n[hub_rows_part(SUBSCRIPTION_CALLBACK, TOPIC_CHANGES, SLICE("demo"),
                            slice_of(callback))]++;
        }
        for (unsigned k = 0; k < HUB_PARTS; k++)
            assert_in_range(n[k], EACH / 2, EACH * 2);
    }
    /* The rows of all times rest on this. */
    assert_int_equal(
        hub_rows_part(SUBSCRIPTION_CALLBACK, TOPIC_CHANGES, SLICE("demo"),
                      SLICE("HTTP://a.example:80/%7Ecb")),
        hub_rows_part(SUBSCRIPTION_CALLBACK, TOPIC_CHANGES, SLICE("demo"),
                      SLICE("http://a.example/~cb")));
    assert_int_equal(hub_rows_part(SUBSCRIPTION_CALLBACK, TOPIC_CHANGES,
                                   SLICE("demo"), SLICE("http://a.example/1")),
                     1);
}
