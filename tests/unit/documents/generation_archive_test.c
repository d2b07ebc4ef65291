#include <stdio.h>

#include "base/clock.h"
#include "base/options.h"
#include "broker/builds/generation.h"
#include "tests/clock.h"
#include "tests/support/build_orders.h"
#include "tests/support/set_changes.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* One generation more of "demo", of other resources. */
static void
build(struct build_orders *w)
{
    uint64_t number =
        sets_find(&w->sets, "demo") ? build_orders_current(w).number : 0;

    sets_post(&w->sets, "demo", (unsigned)number + 1, 1);
    build_orders_work(w);
    assert_int_equal(build_orders_current(w).number, number + 1);
}

/* Opens `n` generations; every `nth` is kept. */
static void
open_with(struct build_orders *w, void **state, uint64_t nth, unsigned n)
{
    build_orders_open(w, state);
    w->sets.config.resource_list_keep = nth;
    set_changes_put(&w->sets, "demo", "{}");
    for (unsigned i = 0; i < n; i++)
        build(w);
}

/* The generations that an archive names are these. */
static void
assert_names(struct xpath *x, const unsigned *numbers, size_t n)
{
    char question[80], loc[120];

    assert_xpath_count(x, "/s:urlset/rs:md[@capability='resourcelist-archive']",
                       1);
    assert_xpath_text(x, "/*/rs:ln[@rel='up']/@href",
                      RENEWALS_DEMO "capabilitylist.xml");
    assert_xpath_count(x, "/s:urlset/s:url", n);
    for (size_t i = 0; i < n; i++) {
        snprintf(question, sizeof(question), "/*/s:url[%zu]/s:loc", i + 1);
        snprintf(loc, sizeof(loc), RENEWALS_DEMO "resourcelist/%012u.xml",
                 numbers[i]);
        assert_xpath_text(x, question, loc);
    }
}

/* The archive names these. */
static void
assert_archive(struct build_orders *w, const unsigned *numbers, size_t n)
{
    struct xpath x;

    build_orders_read(w, generation_archive_open, 0, 0, &x);
    assert_names(&x, numbers, n);
    xpath_close(&x);
}

FIXTURE(tempdir_setup, tempdir_teardown);

/* a kept generation is named with its `at`, and
 * exists when it is no longer current. */
TEST(names_the_generations_that_are_kept)
{
    static const unsigned kept[] = {3, 6};
    struct document document;
    struct xpath x, list;
    struct build_orders w;

    open_with(&w, state, 3, 7);
    while (generation_sweep_one(w.sets.registry))
        ;
    build_orders_read(&w, generation_archive_open, 0, 0, &x);
    assert_names(&x, kept, 2);
    assert_xpath_count(&x, "/*/rs:ln[@rel='index']", 0);
    assert_xpath_count(&x, "//s:lastmod", 0);
    for (unsigned i = 0; i < 2; i++) {
        char question[60];

        build_orders_read(&w, resourcelist_generation_open, kept[i], 0, &list);
        snprintf(question, sizeof(question), "string(/*/s:url[%u]/rs:md/@at)",
                 i + 1);
        assert_xpath_text(&list, "/*/rs:md/@at", xpath_get(&x, question));
        assert_xpath_count(&list, "/s:urlset/s:url", kept[i]);
        xpath_close(&list);
    }
    xpath_close(&x);
    for (unsigned i = 1; i <= 5; i++)
        if (i != 3)
            assert_int_equal(build_orders_try(&w, resourcelist_generation_open,
                                              i, 0, &document),
                             STATUS_GONE);
    build_orders_end(&w);
}

/* a kept list is in the archive from its first moment on, and
 * links to it, and so do the following ones. */
TEST(a_kept_list_is_in_the_archive_from_its_first_moment_on)
{
    static const unsigned kept[] = {2};
    struct document document;
    struct build_orders w;
    struct xpath x;

    open_with(&w, state, 2, 1);
    build_orders_read(&w, resourcelist_current_open, 0, 0, &x);
    assert_xpath_count(&x, "/*/rs:ln[@rel='archives']", 0);
    xpath_close(&x);
    assert_int_equal(
        build_orders_try(&w, generation_archive_open, 0, 0, &document),
        STATUS_NOT_FOUND);
    for (unsigned i = 0; i < 2; i++) {
        build(&w);
        assert_archive(&w, kept, 1);
        build_orders_read(&w, resourcelist_current_open, 0, 0, &x);
        assert_xpath_text(&x, "/*/rs:ln[@rel='archives']/@href",
                          RENEWALS_DEMO "resourcelist-archive.xml");
        xpath_close(&x);
    }
    build_orders_end(&w);
}

/* whichever lists follow, and in any process. */
TEST(a_kept_list_keeps_its_bytes)
{
    struct buf then, now;
    struct build_orders w;

    open_with(&w, state, 3, 3);
    build_orders_text(&w, resourcelist_generation_open, 3, 0, &then);
    for (unsigned i = 0; i < 4; i++)
        build(&w);
    build_orders_end(&w);
    w.sets.config.resource_list_entries = 1;
    build_orders_begin(&w);
    build(&w);
    while (generation_sweep_one(w.sets.registry))
        ;
    build_orders_text(&w, resourcelist_generation_open, 3, 0, &now);
    assert_true(slice_equal(buf_slice(&then), buf_slice(&now)));
    buf_fini(&then);
    buf_fini(&now);
    build_orders_end(&w);
}

#define HOUR_US INT64_C(3600000000)
#define NOON_US INT64_C(1775044800000000) /* of some day */

static uint64_t
n_kept(struct build_orders *w)
{
    return sets_head(&w->sets, "demo")
        .generations[GENERATION_RESOURCELIST]
        .n_archived;
}

/* The first of each day (UTC), by `at`; none, or all, where that is said. */
TEST(keeps_one_a_day_if_it_is_not_told_otherwise)
{
    struct build_orders w;

    clock_set_us(NOON_US - clock_now_us());
    open_with(&w, state, OPTION_KEEP_DAILY, 1);
    assert_int_equal(n_kept(&w), 1);
    for (unsigned day = 1; day < 4; day++) {
        clock_pass_us(11 * HOUR_US);
        build(&w);
        assert_int_equal(n_kept(&w), day);
        clock_pass_us(2 * HOUR_US); /* past midnight */
        build(&w);
        assert_int_equal(n_kept(&w), day + 1);
        clock_pass_us(11 * HOUR_US);
        build(&w);
        assert_int_equal(n_kept(&w), day + 1);
    }
    set_changes_put(&w.sets, "demo", "{\"resourceListKeep\":1}");
    build(&w);
    assert_int_equal(n_kept(&w), 5);
    set_changes_put(&w.sets, "demo", "{\"resourceListKeep\":\"none\"}");
    clock_pass_us(24 * HOUR_US);
    build(&w);
    assert_int_equal(n_kept(&w), 5);
    build_orders_end(&w);
}

/* an index of parts where they are many. */
TEST(the_archive_has_an_index_when_it_is_long)
{
    static const unsigned kept[3][2] = {{2, 4}, {6, 8}, {10}};
    struct document document;
    struct xpath index, part;
    struct build_orders w;

    build_orders_open(&w, state);
    build_orders_end(&w);
    w.sets.config.index_lists = 4;
    w.sets.config.resource_list_keep = 2;
    build_orders_begin(&w);
    set_changes_put(&w.sets, "demo", "{}");
    for (unsigned i = 0; i < 8; i++)
        build(&w);
    build_orders_read(&w, generation_archive_open, 0, 0, &index);
    assert_xpath_count(&index, "/s:urlset/s:url", 4);
    xpath_close(&index);
    build(&w);
    build(&w);
    build_orders_read(&w, generation_archive_open, 0, 0, &index);
    assert_xpath_count(
        &index, "/s:sitemapindex/rs:md[@capability='resourcelist-archive']", 1);
    assert_xpath_text(&index, "/*/rs:ln[@rel='up']/@href",
                      RENEWALS_DEMO "capabilitylist.xml");
    assert_xpath_count(&index, "/*/s:sitemap", 3);
    assert_xpath_count(&index, "//s:lastmod", 0);
    for (unsigned i = 0; i < 3; i++) {
        char question[80], loc[120];

        snprintf(loc, sizeof(loc),
                 RENEWALS_DEMO "resourcelist-archive/%012u-%012u.xml",
                 4 * i + 1, 4 * i + 4);
        snprintf(question, sizeof(question), "/*/s:sitemap[%u]/s:loc", i + 1);
        assert_xpath_text(&index, question, loc);
        build_orders_read(&w, generation_archive_part_open, 4 * i + 1,
                          4 * i + 4, &part);
        assert_names(&part, kept[i], i < 2 ? 2 : 1);
        assert_xpath_text(&part, "/*/rs:ln[@rel='index']/@href",
                          RENEWALS_DEMO "resourcelist-archive.xml");
        snprintf(question, sizeof(question),
                 "string(/*/s:sitemap[%u]/rs:md/@at)", i + 1);
        assert_xpath_text(&part, "string(/*/s:url[1]/rs:md/@at)",
                          xpath_get(&index, question));
        xpath_close(&part);
    }
    xpath_close(&index);
    assert_int_equal(
        build_orders_try(&w, generation_archive_part_open, 2, 5, &document),
        STATUS_NOT_FOUND);
    assert_int_equal(
        build_orders_try(&w, generation_archive_part_open, 13, 16, &document),
        STATUS_NOT_FOUND);
    build_orders_end(&w);
}

/* as Change Lists are; but the last one stays. */
TEST(the_oldest_go_by_number_and_by_age)
{
    static const unsigned last_three[] = {4, 5, 6}, last[] = {6};
    struct document document;
    struct build_orders w;
    struct xpath x;

    open_with(&w, state, 1, 6);
    sets_retain(&w.sets);
    assert_int_equal(n_kept(&w), 6);
    atomic_store(&sets_find(&w.sets, "demo")->retain_lists, 3);
    sets_retain(&w.sets);
    assert_archive(&w, last_three, 3);
    while (generation_sweep_one(w.sets.registry))
        ;
    assert_int_equal(
        build_orders_try(&w, resourcelist_generation_open, 3, 0, &document),
        STATUS_GONE);
    build_orders_read(&w, resourcelist_generation_open, 4, 0, &x);
    xpath_close(&x);

    atomic_store(&sets_find(&w.sets, "demo")->retain_lists, 0);
    atomic_store(&sets_find(&w.sets, "demo")->retain_age_us,
                 INT64_C(3600000000));
    sets_retain(&w.sets);
    assert_int_equal(n_kept(&w), 3);
    atomic_store(&sets_find(&w.sets, "demo")->retain_age_us, 1);
    sets_retain(&w.sets);
    assert_archive(&w, last, 1);
    build_orders_end(&w);
}
