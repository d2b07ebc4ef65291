#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/builds/build.h"
#include "broker/builds/generation.h"
#include "tests/support/model.h"
#include "tests/support/set_changes.h"
#include "tests/test.h"
#include "tests/unit/archive/stage.h"

static void
post_text(const char *type, const char *text)
{
    struct sets_outcome o =
        sets_post_body(&w.sets, "demo", type, slice_of(text), 0);

    if (o.rc)
        fail_msg("%s", o.why.text);
}

/* `n` random changes of so many resources. */
static void
post(unsigned n, unsigned n_resources)
{
    struct sets_outcome o;
    struct buf json;

    buf_init(&json, 1 << 24);
    model_changes(&json, &w.random, n, n_resources);
    o = sets_post_body(&w.sets, "demo", "application/json", buf_slice(&json),
                       0);
    if (o.rc)
        fail_msg("%s", o.why.text);
    buf_fini(&json);
}

FIXTURE(stage_open_build_orders, stage_end_build_orders);

/* all facts of a resource, and none of the event:
 * no patch either. */
TEST(has_what_is_known_of_each_resource)
{
    struct xpath x;

    post_text(
        "application/json",
        "[{\"loc\":\"http://example.com/r/1\",\"change\":\"created\","
        "\"lastmod\":\"2026-04-01T18:09:00Z\",\"length\":3,"
        "\"hash\":{\"md5\":\"1584abdf8ebdc9802ac0c6a7402c03b6\"},"
        "\"type\":\"text/csv\",\"links\":[{\"rel\":\"duplicate\","
        "\"href\":\"http://example.org/1\"},{\"rel\":"
        "\"http://www.openarchives.org/rs/terms/patch\","
        "\"href\":\"http://example.com/p\",\"type\":\"application/x-patch\"}]},"
        "{\"loc\":\"http://example.com/r/2\",\"change\":\"created\"},"
        "{\"loc\":\"http://example.com/r/2\",\"change\":\"deleted\"}]");
    build_orders_work(&w);
    build_orders_read(&w, resourcelist_current_open, 0, 0, &x);
    assert_xpath_count(&x, "/s:urlset/s:url", 1);
    assert_xpath_text(&x, "/*/s:url/s:loc", "http://example.com/r/1");
    assert_xpath_text(&x, "/*/s:url/s:lastmod", "2026-04-01T18:09:00Z");
    assert_xpath_text(&x, "/*/s:url/rs:md/@hash",
                      "md5:1584abdf8ebdc9802ac0c6a7402c03b6");
    assert_xpath_text(&x, "/*/s:url/rs:md/@length", "3");
    assert_xpath_text(&x, "/*/s:url/rs:md/@type", "text/csv");
    assert_xpath_count(&x, "/*/s:url/rs:md/@change", 0);
    assert_xpath_count(&x, "/*/s:url/rs:md/@datetime", 0);
    assert_xpath_count(&x, "/*/s:url/rs:md/@path", 0);
    assert_xpath_count(&x, "/*/s:url/rs:ln", 1);
    assert_xpath_text(&x, "/*/s:url/rs:ln/@rel", "duplicate");
    xpath_close(&x);
}

TEST(lists_and_indexes_are_what_the_log_says)
{
    uint64_t parts = 0;

    for (unsigned i = 0; i < 40; i++) {
        post(1 + model_random(&w.random) % 30, 3 + i);
        assert_builds(i + 1);
        assert_int_equal(build_orders_current(&w).seq,
                         sets_head(&w.sets, "demo").last);
        build_orders_check(&w);
        if (build_orders_current(&w).parts > parts)
            parts = build_orders_current(&w).parts;
    }
    assert_in_range(parts, 3, 5);
}

/* a list that is exactly full has no index, and no empty part. */
TEST(a_full_list_has_no_index)
{
    sets_post(&w.sets, "demo", 1, 10);
    build_orders_work(&w);
    assert_int_equal(build_orders_current(&w).parts, 1);
    build_orders_check(&w);
    sets_post(&w.sets, "demo", 11, 10);
    build_orders_work(&w);
    assert_int_equal(build_orders_current(&w).parts, 2);
    build_orders_check(&w);
    sets_post(&w.sets, "demo", 21, 1);
    build_orders_work(&w);
    assert_int_equal(build_orders_current(&w).parts, 3);
    build_orders_check(&w);
}

/* by size as by number. */
TEST(no_part_is_larger_than_a_sitemap_may_be)
{
    static char value[200001];
    struct xpath index;
    struct buf entry;

    /* Attributes are validated more quickly than as many bytes of links. */
    memset(value, 'x', sizeof(value) - 1);
    buf_init(&entry, SIZE_MAX);
    w.sets.config.resource_list_entries = 50000;
    for (unsigned i = 0; i < 265; i++) {
        buf_clear(&entry);
        buf_add_format(&entry,
                       "{\"loc\":\"http://example.com/r/%u\",\"change\":"
                       "\"created\",\"attributes\":[{\"ns\":\"urn:x\","
                       "\"name\":\"x\",\"value\":\"",
                       i);
        buf_add_text(&entry, value);
        buf_add(&entry, "\"}]}", sizeof("\"}]}"));
        post_text("application/json", entry.data);
    }
    buf_fini(&entry);
    build_orders_work(&w);
    assert_int_equal(build_orders_current(&w).parts, 2);
    build_orders_read(&w, resourcelist_current_open, 0, 0, &index);
    assert_xpath_count(&index, "/s:sitemapindex/s:sitemap", 2);
    xpath_close(&index);
    for (unsigned i = 1; i <= 2; i++) {
        struct buf text;

        build_orders_text(&w, resourcelist_generation_open, 1, i, &text);
        buf_fini(&text);
    }
}

/* A set that has lost all resources has a list without any, at that time. */
TEST(an_empty_set_has_an_empty_list)
{
    post_text("application/json",
              "[{\"loc\":\"http://example.com/r/1\",\"change\":\"created\"},"
              "{\"loc\":\"http://example.com/r/1\",\"change\":\"deleted\"}]");
    assert_builds(1);
    assert_int_equal(build_orders_current(&w).seq, 2);
    assert_int_equal(build_orders_current(&w).n, 0);
    build_orders_check(&w);
}

/* the next list has the changes that arrive between two steps of
 * a build.
 */
TEST(a_build_is_of_one_state_whatever_is_posted)
{
    sets_post(&w.sets, "demo", 1, 35);
    stage_begin_list();
    for (unsigned i = 0; build_orders_current(&w).number == 0; i++) {
        sets_post(&w.sets, "demo", 1 + i, 3);
        chore_look(&w.folding.chore);
        assert_true(build_orders_round(&w));
        assert_int_equal(state_fold_seq(sets_find(&w.sets, "demo")), 35);
    }
    assert_int_equal(build_orders_current(&w).seq, 35);
    assert_int_equal(build_orders_current(&w).parts, 4);
    build_orders_check(&w);
    build_orders_work(&w);
    assert_int_equal(build_orders_current(&w).seq,
                     sets_head(&w.sets, "demo").last);
    build_orders_check(&w);
}

/* a former one keeps its bytes for as long as its grace. */
TEST(a_former_list_stays_for_a_while)
{
    struct buf then, now;
    struct document document;

    w.sets.config.remove_grace_us = INT64_C(3600000000);
    sets_post(&w.sets, "demo", 1, 5);
    build_orders_work(&w);
    build_orders_text(&w, resourcelist_generation_open, 1, 0, &then);
    sets_post(&w.sets, "demo", 6, 5);
    assert_builds(2);
    assert_false(generation_sweep_one(w.sets.registry));
    build_orders_text(&w, resourcelist_generation_open, 1, 0, &now);
    assert_true(slice_equal(buf_slice(&then), buf_slice(&now)));
    buf_fini(&now);
    buf_fini(&then);

    w.sets.config.remove_grace_us = 0;
    sets_post(&w.sets, "demo", 11, 5);
    build_orders_work(&w); /* the second one is former now, without a grace */
    assert_true(generation_sweep_one(w.sets.registry));
    assert_false(generation_sweep_one(w.sets.registry));
    assert_int_equal(
        build_orders_try(&w, resourcelist_generation_open, 2, 0, &document),
        STATUS_GONE);
    assert_int_equal(
        build_orders_try(&w, resourcelist_generation_open, 4, 0, &document),
        STATUS_NOT_FOUND);
    build_orders_check(&w);
}

/* No other record would ever name it. */
TEST(a_former_list_that_cannot_be_looked_for_goes_later)
{
    int fd = tempdir_fd(state);

    for (unsigned i = 0; i < 2; i++) {
        sets_post(&w.sets, "demo", 1 + 5 * i, 5);
        build_orders_work(&w);
    }
    assert_int_equal(
        renameat(fd, "sets/demo/resourcelist", fd, "sets/demo/aside"), 0);
    tempdir_write(fd, "sets/demo/resourcelist", "no folder");
    assert_false(generation_sweep_one(w.sets.registry));
    assert_int_equal(unlinkat(fd, "sets/demo/resourcelist", 0), 0);
    assert_int_equal(
        renameat(fd, "sets/demo/aside", fd, "sets/demo/resourcelist"), 0);
    assert_true(generation_sweep_one(w.sets.registry));
    assert_no_file(fd, "sets/demo/resourcelist/000000000001");
    assert_false(generation_sweep_one(w.sets.registry));
}

/* the end does not wait for the rest of a list: it deletes the parts,
 * and the next start builds the list. */
TEST(is_given_up_when_the_log_ends)
{
    int fd;

    sets_post(&w.sets, "demo", 1, 45);
    stage_begin_list();
    assert_true(build_orders_round(&w)); /* a part */
    fd = tempdir_fd(state);
    assert_there(state, "sets/demo/resourcelist/000000000001");

    log_stop(w.sets.registry->log);
    build_orders_round(&w);
    assert_null(w.schedule.build);
    assert_no_file(fd, "sets/demo/resourcelist/000000000001");

    stage_restart_build_orders();
    assert_builds(1);
    build_orders_check(&w);
}

/* As a crash leaves it: no record names it. */
static void
cut_off(void **state, unsigned number)
{
    char path[200];
    int fd = tempdir_fd(state);

    mkdirat(fd, "sets/demo/resourcelist", 0777);
    snprintf(path, sizeof(path), "sets/demo/resourcelist/%012u", number);
    assert_int_equal(mkdirat(fd, path, 0777), 0);
    strcat(path, "/000000000001.xml.gz.new");
    tempdir_write(fd, path, "half");
}

/* of a removed set nothing stays on the disk. */
TEST(what_was_cut_off_goes_with_its_set)
{
    sets_post(&w.sets, "demo", 1, 5);
    build_orders_work(&w);
    cut_off(state, 2);
    set_changes_remove(&w.sets, "demo");
    sets_purge(&w.sets);
    assert_no_file(tempdir_fd(state), "sets/demo");
    while (generation_sweep_one(w.sets.registry))
        ;
}

/* The name has another set when the first one's files are due. */
TEST(what_was_cut_off_goes_with_the_next_set_of_that_name)
{
    int fd = tempdir_fd(state);

    for (unsigned i = 1; i <= 3; i++) {
        sets_post(&w.sets, "demo", i, 1);
        sets_rotate(&w.sets, "demo");
    }
    sets_file_all(&w.sets);
    cut_off(state, 1);
    set_changes_remove(&w.sets, "demo");
    sets_post(&w.sets, "demo", 1, 25);
    sets_purge(&w.sets);
    assert_there(state, "sets/demo/resourcelist/000000000001");
    assert_builds(5);
    assert_no_file(fd, "sets/demo/resourcelist/000000000001");
    assert_there(state, "sets/demo/resourcelist/000000000005");
    build_orders_check(&w);
}
