#include "broker/archive/renewal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/archive/generation.h"
#include "broker/archive/retain.h"
#include "broker/base/clock.h"
#include "broker/documents/documents.h"
#include "tests/support/alterations.h"
#include "tests/support/renewals.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

FIXTURE(tempdir_setup, tempdir_teardown);

TEST(is_built_only_when_the_set_has_changed)
{
    struct renewals w;

    renewals_open(&w, state);
    alterations_put(&w.sets, "demo", "{}");
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 0);
    sets_post(&w.sets, "demo", 1, 5);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 1);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 1);
    renewals_end(&w);
    renewals_begin(&w);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 1);
    renewals_end(&w);
}

/* Times go on by what is stored, not by waiting: the options are changed. */
TEST(is_built_when_the_last_one_is_old_enough)
{
    struct renewals w;

    renewals_open(&w, state);
    alterations_put(&w.sets, "demo", "{\"resourceListEvery\":3600}");
    sets_post(&w.sets, "demo", 1, 5);
    renewals_work(&w); /* the first one comes a minute after the set */
    assert_int_equal(renewals_current(&w).number, 0);
    alterations_put(&w.sets, "demo", "{\"resourceListEvery\":0.000001}");
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 1);
    alterations_put(&w.sets, "demo", "{\"resourceListEvery\":3600}");
    sets_post(&w.sets, "demo", 6, 5);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 1);
    alterations_put(&w.sets, "demo", "{\"resourceListEvery\":0}");
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 1);
    alterations_put(&w.sets, "demo", "{\"resourceListEvery\":0.000001}");
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 2);
    renewals_end(&w);
}

/* whoever has read the list can go on where it stands. */
TEST(is_built_when_the_log_no_longer_reaches_back_to_it)
{
    struct renewals w;

    renewals_open(&w, state);
    w.sets.config.rotate_entries = 5;
    renewals_end(&w);
    renewals_begin(&w);
    sets_post(&w.sets, "demo", 1, 7);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).seq, 7);
    alterations_put(&w.sets, "demo",
                    "{\"resourceListEvery\":0,\"retainLists\":1}");
    sets_post(&w.sets, "demo", 8, 13);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).seq, 7);
    sets_file_all(&w.sets);
    for (unsigned i = 0; i < 2; i++) {
        retain_all(w.sets.registry);
        renewals_work(&w);
    }
    assert_int_equal(sets_head(&w.sets, "demo").earliest, 15);
    assert_int_equal(renewals_current(&w).seq, 20);
    renewals_check(&w);
    renewals_end(&w);
}

TEST(sets_take_turns)
{
    struct renewals w;
    char name[16];

    renewals_open(&w, state);
    for (unsigned i = 0; i < 2 * OPENED_MAX; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        sets_post(&w.sets, name, 1, 25);
    }
    renewals_work(&w);
    for (unsigned i = 0; i < 2 * OPENED_MAX; i++) {
        snprintf(name, sizeof(name), "s%u", i);
        assert_int_equal(sets_head(&w.sets, name)
                             .generations[GENERATION_RESOURCELIST]
                             .current.seq,
                         25);
    }
    renewals_end(&w);
}

/* Orders */

static void
on_done(struct renewal_order *order)
{
    order->wanted = UINT64_MAX; /* it was called */
}

static struct renewal_order
order_of(struct renewals *w, uint64_t wanted, int64_t wait_us)
{
    return (struct renewal_order){
        .set = sets_find(&w->sets, "demo"),
        .wanted = wanted,
        .until_us = clock_steady_us() + wait_us,
        .done = on_done,
    };
}

static bool
is_done(const struct renewal_order *order)
{
    return order->wanted == UINT64_MAX;
}

TEST(an_order_is_answered_when_the_list_is_current)
{
    struct renewal_order order, next;
    struct renewals w;

    renewals_open(&w, state);
    w.sets.config.resource_list_every_us = 0;
    renewals_end(&w);
    renewals_begin(&w);
    sets_post(&w.sets, "demo", 1, 25);
    order = order_of(&w, 25, INT64_MAX / 2);
    assert_int_equal(renewal_order(&w.renewal, &order), STATUS_OK);
    while (!is_done(&order)) {
        assert_int_equal(renewals_current(&w).number, 0);
        assert_true(renewals_round(&w));
    }
    assert_int_equal(order.status, STATUS_OK);
    assert_int_equal(order.generation.number, 1);
    assert_int_equal(order.generation.seq, 25);
    renewals_check(&w);

    /* Nothing has changed: nothing is built. */
    order = order_of(&w, 25, INT64_MAX / 2);
    assert_int_equal(renewal_order(&w.renewal, &order), STATUS_OK);
    renewals_round(&w);
    assert_true(is_done(&order));
    assert_int_equal(order.generation.number, 1);

    /* One that comes during a build, for what was posted since, has another
     * one. */
    sets_post(&w.sets, "demo", 1, 25);
    order = order_of(&w, 50, INT64_MAX / 2);
    assert_int_equal(renewal_order(&w.renewal, &order), STATUS_OK);
    while (!w.renewal.build)
        assert_true(renewals_round(&w));
    sets_post(&w.sets, "demo", 1, 25);
    next = order_of(&w, 75, INT64_MAX / 2);
    assert_int_equal(renewal_order(&w.renewal, &next), STATUS_OK);
    while (!is_done(&next))
        assert_true(renewals_round(&w));
    assert_true(is_done(&order));
    assert_int_equal(order.generation.seq, 50);
    assert_int_equal(next.generation.seq, 75);
    assert_int_equal(renewals_current(&w).number, 3);
    renewals_end(&w);
}

/* Who has waited long enough is told so, and the build goes on. */
TEST(an_order_ends_when_its_time_is_over)
{
    struct renewal_order order;
    struct renewals w;

    renewals_open(&w, state);
    w.sets.config.resource_list_every_us = 0;
    renewals_end(&w);
    renewals_begin(&w);
    sets_post(&w.sets, "demo", 1, 25);
    order = order_of(&w, 25, 0);
    assert_int_equal(renewal_order(&w.renewal, &order), STATUS_OK);
    renewals_round(&w);
    assert_true(is_done(&order));
    assert_int_equal(order.status, STATUS_AGAIN);
    renewals_end(&w);
}

TEST(an_order_ends_with_its_set_and_with_the_thread)
{
    struct renewal_order order;
    struct renewals w;

    renewals_open(&w, state);
    sets_post(&w.sets, "demo", 1, 25);
    order = order_of(&w, 25, INT64_MAX / 2);
    assert_int_equal(renewal_order(&w.renewal, &order), STATUS_OK);
    while (!w.renewal.build)
        assert_true(renewals_round(&w));
    alterations_remove(&w.sets, "demo");
    while (!is_done(&order))
        assert_true(renewals_round(&w));
    assert_int_equal(order.status, STATUS_GONE);
    assert_null(w.renewal.build);

    sets_post(&w.sets, "demo", 1, 25);
    order = order_of(&w, 25, INT64_MAX / 2);
    assert_int_equal(renewal_order(&w.renewal, &order), STATUS_OK);
    renewal_fini(&w.renewal);
    assert_true(is_done(&order));
    assert_int_equal(order.status, STATUS_STOPPED);
    order = order_of(&w, 25, INT64_MAX / 2);
    assert_int_equal(renewal_order(&w.renewal, &order), STATUS_STOPPED);
    assert_false(is_done(&order));
    folding_fini(&w.folding);
    sets_close(&w.sets);
}

/* what is not the whole set is not told as if it were. */
TEST(a_state_that_is_not_whole_has_no_list)
{
    static const char *const files[] = {"resources.db", "resources.db-wal",
                                        "resources.db-shm"};
    struct renewal_order order;
    struct renewals w;
    char name[60];

    renewals_open(&w, state);
    w.sets.config.rotate_entries = 5;
    w.sets.config.resource_list_every_us = 0;
    renewals_end(&w);
    renewals_begin(&w);
    sets_post(&w.sets, "demo", 1, 12);
    alterations_put(&w.sets, "demo", "{\"retainLists\":1}");
    sets_file_all(&w.sets);
    for (unsigned i = 0; i < 2; i++) {
        retain_all(w.sets.registry);
        renewals_work(&w);
    }
    assert_int_equal(sets_head(&w.sets, "demo").earliest, 5);
    renewals_end(&w);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "sets/demo/%s", files[i]);
        unlinkat(tempdir_fd(state), name, 0);
    }
    w.sets.config.resource_list_every_us = 1;
    renewals_begin(&w);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 0);
    order = order_of(&w, 12, INT64_MAX / 2);
    assert_int_equal(renewal_order(&w.renewal, &order), STATUS_OK);
    renewals_work(&w);
    assert_true(is_done(&order));
    assert_int_equal(order.status, STATUS_GONE);
    assert_string_equal(order.why.text,
                        "what the set demo was before entry 6 its log no "
                        "longer tells: it has no Resource List before its "
                        "source tells all resources anew");
    assert_int_equal(renewals_current(&w).number, 0);
    renewals_end(&w);
}

/* A number is given once, also when a build is cut off, and when a set is
 * removed and made again: so is an address. */
TEST(no_address_is_given_twice)
{
    struct document document;
    struct renewals w;

    renewals_open(&w, state);
    for (unsigned i = 1; i <= 3; i++) {
        sets_post(&w.sets, "demo", 1, 25);
        renewals_work(&w);
        assert_int_equal(renewals_current(&w).number, i);
        sets_post(&w.sets, "demo", 1, 25);
        renewals_look(&w);
        while (!w.renewal.build)
            assert_true(renewals_round(&w));
        alterations_remove(&w.sets, "demo");
        while (renewals_round(&w))
            ;
    }
    sets_post(&w.sets, "demo", 1, 25);
    assert_int_equal(renewals_current(&w).number, 0);
    for (unsigned i = 1; i <= 4; i++)
        assert_int_equal(
            renewals_try(&w, resourcelist_generation_open, i, 0, &document),
            STATUS_NOT_FOUND);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 4);
    renewals_check(&w);
    renewals_end(&w);
}

/* A build that the process did not live to end leaves nothing that is served,
 * nor is in the way of the next one. */
TEST(a_build_that_was_cut_off_is_begun_again)
{
    static const char folder[] = "sets/demo/resourcelist/000000000001";
    struct problem why = {""};
    struct renewals w;
    char name[100];
    int fd;

    renewals_open(&w, state);
    sets_post(&w.sets, "demo", 1, 25);
    renewals_look(&w);
    while (!w.renewal.build)
        assert_true(renewals_round(&w));
    renewals_end(&w);
    assert_no_file(tempdir_fd(state), folder); /* the end left nothing */
    assert_int_equal(mkdirat(tempdir_fd(state), folder, 0777), 0);
    for (unsigned part = 1; part <= 5; part++) {
        snprintf(name, sizeof(name), "%s/%012u.xml.gz", folder, part);
        tempdir_write(tempdir_fd(state), name, "junk");
    }
    renewals_begin(&w);
    renewals_work(&w);
    assert_int_equal(renewals_current(&w).number, 1);
    assert_int_equal(renewals_current(&w).parts, 3);
    renewals_check(&w);
    assert_int_equal(generation_open(w.sets.registry,
                                     sets_find(&w.sets, "demo"),
                                     GENERATION_RESOURCELIST, 1,
                                     GENERATION_DOCUMENT, 4, &fd, &why),
                     STATUS_NOT_FOUND);
    renewals_end(&w);
}
