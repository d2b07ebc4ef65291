#include "broker/archive/build_schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "broker/builds/generation.h"
#include "broker/documents/documents.h"
#include "tests/clock.h"
#include "tests/support/chores.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/archive/stage.h"

FIXTURE(stage_open_build_orders, stage_end_build_orders);

TEST(is_built_only_when_the_set_has_changed)
{
    set_changes_put(&w.sets, "demo", "{}");
    assert_builds(0);
    sets_post(&w.sets, "demo", 1, 5);
    assert_builds(1);
    assert_builds(1);
    stage_restart_build_orders();
    assert_builds(1);
}

/* The test changes the options instead of waiting: ages come from stored
 * times. */
TEST(is_built_when_the_last_one_is_old_enough)
{
    static const struct {
        const char *every;
        unsigned n; /* entries that are posted before */
        uint64_t number;
    } rows[] = {
        {"3600", 5, 0}, /* the first one comes a minute after the set */
        {"0.000001", 0, 1}, {"3600", 5, 1}, {"0", 0, 1}, {"0.000001", 0, 2},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char settings[60];

        snprintf(settings, sizeof(settings), "{\"resourceListEvery\":%s}",
                 rows[i].every);
        set_changes_put(&w.sets, "demo", settings);
        if (rows[i].n > 0)
            sets_post(&w.sets, "demo", 1 + 5 * (unsigned)i, rows[i].n);
        build_orders_work(&w);
        if (build_orders_current(&w).number != rows[i].number)
            fail_msg("list %u is current in row %zu",
                     (unsigned)build_orders_current(&w).number, i);
    }
}

/* a reader of the list can go on from its position. */
TEST(is_built_when_the_log_no_longer_reaches_back_to_it)
{
    w.sets.config.rotate_entries = 5;
    stage_restart_build_orders();
    sets_post(&w.sets, "demo", 1, 7);
    build_orders_work(&w);
    assert_int_equal(build_orders_current(&w).seq, 7);
    set_changes_put(&w.sets, "demo",
                    "{\"resourceListEvery\":0,\"retainLists\":1}");
    sets_post(&w.sets, "demo", 8, 13);
    build_orders_work(&w);
    assert_int_equal(build_orders_current(&w).seq, 7);
    sets_file_all(&w.sets);
    for (unsigned i = 0; i < 2; i++) {
        sets_retain(&w.sets);
        build_orders_work(&w);
    }
    assert_int_equal(sets_head(&w.sets, "demo").earliest, 15);
    assert_int_equal(build_orders_current(&w).seq, 20);
    build_orders_check(&w);
}

/* Orders */

static void
on_done(struct build_order *order)
{
    order->wanted = UINT64_MAX; /* it was called */
}

static struct build_order
order_of(uint64_t wanted, int64_t wait_us)
{
    return (struct build_order){
        .set = sets_find(&w.sets, "demo"),
        .wanted = wanted,
        .until_us = clock_steady_us() + wait_us,
        .done = on_done,
    };
}

/* Orders a list of entry `wanted` or a later one. */
static void
give_order(struct build_order *order, uint64_t wanted)
{
    *order = order_of(wanted, INT64_MAX / 2);
    assert_int_equal(build_schedule_order(&w.schedule, order, NULL), STATUS_OK);
}

static bool
is_done(const struct build_order *order)
{
    return order->wanted == UINT64_MAX;
}

/* Small sets */

static void
begin_small(uint64_t few_entries)
{
    w.sets.few_entries = few_entries;
    stage_restart_build_orders();
}

static void
read_current(struct buf *text)
{
    build_orders_text(&w, resourcelist_current_open, 0, 0, text);
}

static enum status
try_current(void)
{
    struct document document;
    enum status rc =
        build_orders_try(&w, resourcelist_current_open, 0, 0, &document);

    if (!rc)
        document_close(&document);
    return rc;
}

static bool
is_offered(void)
{
    struct head head = sets_head(&w.sets, "demo");

    return set_offers(sets_find(&w.sets, "demo"), &head,
                      GENERATION_RESOURCELIST);
}

/* A set of a few entries costs no state and no list on the disk, also after a
 * start. Its readers get the list that would be built. */
TEST(a_small_set_has_a_list_without_a_file)
{
    struct build_order order;
    struct buf small, built;

    w.sets.config.resource_list_entries = 100;
    begin_small(50);
    sets_post(&w.sets, "demo", 1, 49);
    for (int i = 0; i < 2; i++) {
        assert_builds(0);
        assert_true(is_offered());
        read_current(&small);
        assert_int_equal(faccessat(tempdir_fd(state), "sets/demo", F_OK, 0),
                         -1);
        if (i == 0)
            buf_fini(&small);
        stage_restart_build_orders();
    }
    give_order(&order, 49);
    assert_builds(1);
    build_orders_check(&w);
    read_current(&built);
    assert_true(slice_equal(buf_slice(&small), buf_slice(&built)));
    buf_fini(&small);
    buf_fini(&built);
}

/* A list is offered when the first one is due, and stays until it is built. */
TEST(a_small_set_has_a_list_from_its_schedule_on)
{
    begin_small(10);
    sets_post(&w.sets, "demo", 1, 5);
    set_changes_put(&w.sets, "demo", "{\"resourceListEvery\":0}");
    assert_false(is_offered());
    assert_int_equal(try_current(), STATUS_NOT_FOUND);
    set_changes_put(&w.sets, "demo", "{\"resourceListEvery\":3600}");
    assert_false(is_offered());
    assert_int_equal(try_current(), STATUS_NOT_FOUND);
    clock_pass_us(SET_FIRST_BUILD_US);
    assert_true(is_offered());
    assert_int_equal(try_current(), STATUS_OK);
    sets_post(&w.sets, "demo", 6, 20);
    assert_int_equal(build_orders_current(&w).number, 0);
    assert_true(is_offered());
    assert_int_equal(try_current(), STATUS_OK);
    assert_builds(1);
    assert_true(is_offered());
    build_orders_check(&w);
}

/* One entry more, and the list comes by itself. */
TEST(a_set_is_small_below_its_number_of_entries)
{
    begin_small(10);
    sets_post(&w.sets, "demo", 1, 10);
    assert_false(is_offered());
    assert_builds(1);
}

/* So it does with long entries, also if their lists are closed and packed. */
TEST(a_set_is_small_below_its_number_of_bytes)
{
    begin_small(10);
    sets_post_heavy(&w.sets, "demo", 1, 4, 20000);
    assert_false(is_offered());
    assert_builds(1);

    set_changes_remove(&w.sets, "demo");
    w.sets.config.rotate_entries = 4;
    stage_restart_build_orders();
    sets_post_heavy(&w.sets, "demo", 1, 4, 20000);
    sets_file_all(&w.sets);
    sets_post(&w.sets, "demo", 5, 1);
    clock_pass_us(1);
    assert_true(is_offered());
    assert_int_equal(try_current(), STATUS_BUSY);
    assert_true(is_offered());
    build_orders_work(&w);
    assert_int_equal(build_orders_current(&w).seq, 5);
    assert_int_equal(try_current(), STATUS_OK);
}

/* An upload of all resources, or an earlier version, has left a state. */
TEST(a_small_set_loses_a_state_that_nobody_needs)
{
    struct resources *resources;
    struct problem why = {""};

    begin_small(10);
    sets_post(&w.sets, "demo", 1, 9);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(state_fold_open(&w.folding, sets_find(&w.sets, "demo"),
                                         &resources, &why),
                         STATUS_OK);
        assert_there(state, "sets/demo/resources.db");
        if (i == 1)
            stage_restart_build_orders();
        build_orders_work(&w);
        assert_no_file(tempdir_fd(state), "sets/demo/resources.db");
        assert_no_file(tempdir_fd(state), "sets/demo/resources.db-wal");
    }
    sets_post(&w.sets, "demo", 10, 1);
    assert_builds(1);
    build_orders_check(&w);
}

/* Turns */

TEST(sets_take_turns)
{
    char name[16];

    for (unsigned i = 0; i < 2 * FOLDS_MAX; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        sets_post(&w.sets, name, 1, 25);
    }
    build_orders_work(&w);
    for (unsigned i = 0; i < 2 * FOLDS_MAX; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        assert_int_equal(sets_head(&w.sets, name)
                             .generations[GENERATION_RESOURCELIST]
                             .current.seq,
                         25);
    }
}

/* The sets of three clients, and when each gets its list. */
static const struct {
    const char *set, *client;
    unsigned place;
} of_clients[] = {{"a1", "a", 1}, {"a2", "a", 4}, {"a3", "a", 6},
                  {"b1", "b", 2}, {"b2", "b", 5}, {"c1", "c", 3}};

enum { N_OF_CLIENTS = sizeof(of_clients) / sizeof(of_clients[0]) };

/* Makes these sets, and folds their entries; none is due. */
static void
make_of_clients(void)
{
    struct clients *clients;

    w.sets.config.resource_list_every_us = 0;
    stage_restart_build_orders();
    clients = &w.sets.registry->clients;
    for (unsigned i = 0; i < N_OF_CLIENTS; i++) {
        struct client *client =
            client_of_owner(clients, slice_of(of_clients[i].client));
        struct set *set = NULL;

        assert_int_equal(registry_make(w.sets.registry,
                                       slice_of(of_clients[i].set), client,
                                       &set, NULL),
                         STATUS_OK);
        client_unref(client);
        sets_post(&w.sets, of_clients[i].set, 1, 25);
    }
    sets_post(&w.sets, "demo", 1, 25);
    build_orders_work(&w);
}

/* Works until each has its list. */
static void
assert_clients_take_turns(void)
{
    unsigned places[N_OF_CLIENTS] = {0}, n = 0;

    while (n < N_OF_CLIENTS) {
        assert_true(build_orders_round(&w));
        for (unsigned i = 0; i < N_OF_CLIENTS; i++)
            if (places[i] == 0 && sets_head(&w.sets, of_clients[i].set)
                                          .generations[GENERATION_RESOURCELIST]
                                          .current.number > 0)
                places[i] = ++n;
    }
    for (unsigned i = 0; i < N_OF_CLIENTS; i++)
        assert_int_equal(places[i], of_clients[i].place);
}

/* One client orders the lists of its three sets first, another one that of its
 * own: it is the second. */
TEST(clients_that_order_take_turns)
{
    struct build_order orders[N_OF_CLIENTS];

    make_of_clients();
    for (unsigned i = 0; i < N_OF_CLIENTS; i++) {
        orders[i] = order_of(25, INT64_MAX / 2);
        orders[i].set = sets_find(&w.sets, of_clients[i].set);
        assert_int_equal(build_schedule_order(&w.schedule, &orders[i], NULL),
                         STATUS_OK);
    }
    assert_clients_take_turns();
    while (build_orders_round(&w))
        ;
    for (unsigned i = 0; i < N_OF_CLIENTS; i++)
        assert_true(is_done(&orders[i]));
}

/* The same of lists that are due. */
TEST(clients_whose_lists_are_due_take_turns)
{
    make_of_clients();
    for (unsigned i = 0; i < N_OF_CLIENTS; i++)
        atomic_store(
            &sets_find(&w.sets, of_clients[i].set)->resource_list_every_us, 1);
    build_orders_look(&w);
    assert_clients_take_turns();
}

/* Orders that are answered */

TEST(an_order_is_answered_when_the_list_is_current)
{
    struct build_order order, next;

    w.sets.config.resource_list_every_us = 0;
    stage_restart_build_orders();
    sets_post(&w.sets, "demo", 1, 25);
    give_order(&order, 25);
    while (!is_done(&order)) {
        assert_int_equal(build_orders_current(&w).number, 0);
        assert_true(build_orders_round(&w));
    }
    assert_int_equal(order.status, STATUS_OK);
    assert_int_equal(order.generation.number, 1);
    assert_int_equal(order.generation.seq, 25);
    build_orders_check(&w);

    /* Nothing has changed: nothing is built. */
    give_order(&order, 25);
    build_orders_round(&w);
    assert_true(is_done(&order));
    assert_int_equal(order.generation.number, 1);

    /* An order that comes during a build, for later changes, gets another
     * build. */
    sets_post(&w.sets, "demo", 1, 25);
    give_order(&order, 50);
    while (!w.schedule.build)
        assert_true(build_orders_round(&w));
    sets_post(&w.sets, "demo", 1, 25);
    give_order(&next, 75);
    while (!is_done(&next))
        assert_true(build_orders_round(&w));
    assert_true(is_done(&order));
    assert_int_equal(order.generation.seq, 50);
    assert_int_equal(next.generation.seq, 75);
    assert_int_equal(build_orders_current(&w).number, 3);
}

/* An order whose time is over is answered STATUS_AGAIN, and the build goes
 * on. */
TEST(an_order_ends_when_its_time_is_over)
{
    struct build_order order;

    w.sets.config.resource_list_every_us = 0;
    stage_restart_build_orders();
    sets_post(&w.sets, "demo", 1, 25);
    order = order_of(25, 0);
    assert_int_equal(build_schedule_order(&w.schedule, &order, NULL),
                     STATUS_OK);
    build_orders_round(&w);
    assert_true(is_done(&order));
    assert_int_equal(order.status, STATUS_AGAIN);
}

/* Nobody else wants its build. */
TEST(an_order_ends_with_whoever_gave_it)
{
    struct authority *authority = authority_new(NULL, INT64_MAX);
    struct build_order order, other;

    w.sets.config.resource_list_every_us = 0;
    stage_restart_build_orders();
    sets_post(&w.sets, "demo", 1, 25);
    order = order_of(25, INT64_MAX / 2);
    order.authority = authority;
    assert_int_equal(build_schedule_order(&w.schedule, &order, NULL),
                     STATUS_OK);
    while (!w.schedule.build)
        assert_true(build_orders_round(&w));
    assert_false(is_done(&order));
    authority_end(authority, 0);
    build_orders_round(&w);
    assert_true(is_done(&order));
    assert_int_equal(order.status, STATUS_DENIED);
    assert_null(w.schedule.build);
    while (build_orders_round(&w))
        ;
    assert_int_equal(build_orders_current(&w).number, 0);

    /* Another order keeps it. */
    order = order_of(25, INT64_MAX / 2);
    order.authority = authority;
    give_order(&other, 25);
    assert_int_equal(build_schedule_order(&w.schedule, &order, NULL),
                     STATUS_OK);
    while (!is_done(&other))
        assert_true(build_orders_round(&w));
    assert_int_equal(order.status, STATUS_DENIED);
    assert_int_equal(other.status, STATUS_OK);
    assert_int_equal(build_orders_current(&w).number, 1);
    authority_unref(authority);
}

TEST(an_order_ends_with_its_set_and_with_the_thread)
{
    struct build_order order;

    sets_post(&w.sets, "demo", 1, 25);
    give_order(&order, 25);
    while (!w.schedule.build)
        assert_true(build_orders_round(&w));
    set_changes_remove(&w.sets, "demo");
    while (!is_done(&order))
        assert_true(build_orders_round(&w));
    assert_int_equal(order.status, STATUS_GONE);
    assert_null(w.schedule.build);

    sets_post(&w.sets, "demo", 1, 25);
    give_order(&order, 25);
    chore_end(&w.schedule.chore);
    assert_true(is_done(&order));
    assert_int_equal(order.status, STATUS_STOPPED);
    order = order_of(25, INT64_MAX / 2);
    assert_int_equal(build_schedule_order(&w.schedule, &order, NULL),
                     STATUS_STOPPED);
    assert_false(is_done(&order));
    chore_end(&w.folding.chore);
    sets_close(&w.sets);
}

/* an incomplete state has no Resource List. */
TEST(a_state_that_is_not_whole_has_no_list)
{
    static const char *const files[] = {"resources.db", "resources.db-wal",
                                        "resources.db-shm"};
    struct build_order order;
    char name[60];

    w.sets.config.rotate_entries = 5;
    w.sets.config.resource_list_every_us = 0;
    w.sets.config.remove_grace_us = 0;
    stage_restart_build_orders();
    sets_post(&w.sets, "demo", 1, 12);
    set_changes_put(&w.sets, "demo", "{\"retainLists\":1}");
    sets_file_all(&w.sets);
    for (unsigned i = 0; i < 2; i++) {
        sets_retain(&w.sets);
        build_orders_work(&w);
    }
    assert_int_equal(sets_head(&w.sets, "demo").earliest, 5);
    sets_purge(&w.sets);
    build_orders_end(&w);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "sets/demo/%s", files[i]);
        unlinkat(tempdir_fd(state), name, 0);
    }
    w.sets.config.resource_list_every_us = 1;
    build_orders_begin(&w);
    assert_builds(0);
    give_order(&order, 12);
    build_orders_work(&w);
    assert_true(is_done(&order));
    assert_int_equal(order.status, STATUS_GONE);
    assert_string_equal(
        order.why.text,
        "the log of the set demo begins after entry 5: the set gets a "
        "Resource List when its source puts all resources again");
    assert_int_equal(build_orders_current(&w).number, 0);
}

/* A number is used once, also if a build is cut off, or a set is removed and
 * made again: so is an address. */
TEST(no_address_is_given_twice)
{
    struct document document;

    for (unsigned i = 1; i <= 3; i++) {
        sets_post(&w.sets, "demo", 1, 25);
        assert_builds(i);
        sets_post(&w.sets, "demo", 1, 25);
        build_orders_look(&w);
        while (!w.schedule.build)
            assert_true(build_orders_round(&w));
        set_changes_remove(&w.sets, "demo");
        while (build_orders_round(&w))
            ;
    }
    sets_post(&w.sets, "demo", 1, 25);
    assert_int_equal(build_orders_current(&w).number, 0);
    for (unsigned i = 1; i <= 4; i++)
        assert_int_equal(
            build_orders_try(&w, resourcelist_generation_open, i, 0, &document),
            STATUS_NOT_FOUND);
    assert_builds(4);
    build_orders_check(&w);
}

/* A build that the process did not live to end leaves nothing that is served,
 * and does not obstruct the next one. */
TEST(a_build_that_was_cut_off_is_begun_again)
{
    static const char folder[] = "sets/demo/resourcelist/000000000001";
    struct problem why = {""};
    char name[100];
    int fd;

    sets_post(&w.sets, "demo", 1, 25);
    stage_begin_list();
    build_orders_end(&w);
    assert_no_file(tempdir_fd(state), folder); /* the end left nothing */
    assert_int_equal(mkdirat(tempdir_fd(state), folder, 0777), 0);
    for (unsigned part = 1; part <= 5; part++) {
        snprintf(name, sizeof(name), "%s/%012u.xml.gz", folder, part);
        tempdir_write(tempdir_fd(state), name, "junk");
    }
    build_orders_begin(&w);
    assert_builds(1);
    assert_int_equal(build_orders_current(&w).parts, 3);
    build_orders_check(&w);
    assert_int_equal(
        generation_open(sets_find(&w.sets, "demo"),
                        &(struct generation_place){GENERATION_RESOURCELIST, 1,
                                                   GENERATION_DOCUMENT, 4},
                        &fd, &why),
        STATUS_NOT_FOUND);
}
