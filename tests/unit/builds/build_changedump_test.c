#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/builds/build.h"
#include "tests/support/model.h"
#include "tests/test.h"
#include "tests/unit/archive/stage.h"

/* The text of a member of a package, by its place in the manifest. */
static void
assert_member(const struct unzipped *u, struct xpath *manifest, unsigned number,
              const char *text)
{
    const struct unzipped_member *m;
    char question[80];

    snprintf(question, sizeof(question), "string(/*/s:url[%u]/rs:md/@path)",
             number);
    m = unzipped_find(u, xpath_get(manifest, question));
    assert_non_null(m);
    assert_true(slice_is(m->bytes, text));
}

FIXTURE(stage_open_dumping, stage_end_dumping);

/*
 * each change has its own bytes, even if a
 * later one of the same resource has others. */
TEST(has_each_change_with_its_own_bytes)
{
    struct unzipped u;
    struct xpath manifest;

    dumping_post(&d, 1, "created", "first");
    dumping_post(&d, 1, "updated", "second");
    dumping_post(&d, 2, "created", "first");
    dumping_post(&d, 2, "deleted", NULL);
    dumping_post(&d, 1, "updated", "third");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 0); /* it is not closed */

    sets_rotate(&d.sets, "demo");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 1);
    assert_int_equal(dumping_current(&d).after, 0);
    assert_int_equal(dumping_current(&d).seq, 5);
    assert_int_equal(dumping_current(&d).n, 5);
    assert_int_equal(dumping_current(&d).parts, 1);
    assert_true(dumping_current(&d).is_archived);
    dumping_check(&d, 1);
    dumping_unzip(&d, 1, 1, &u);
    assert_int_equal(u.n, 5);
    dumping_read(&d, dumps_generation_open, 1, 1, &manifest);
    assert_member(&u, &manifest, 1, "first");
    assert_member(&u, &manifest, 2, "second");
    assert_member(&u, &manifest, 3, "first");
    assert_xpath_count(&manifest, "/*/s:url[4]/rs:md/@path", 0);
    assert_member(&u, &manifest, 5, "third");
    assert_xpath_text(&manifest, "/*/s:url[1]/rs:md/@type", "text/plain");
    xpath_close(&manifest);
    unzipped_close(&u);
}

/* The bytes of the dump are those of the list's interval. */
TEST(covers_exactly_the_interval_of_its_list)
{
    struct xpath dump, list;

    for (unsigned i = 1; i <= 3; i++) {
        dumping_post(&d, i, "created", "a");
        dumping_post(&d, i, "updated", "b");
        sets_rotate(&d.sets, "demo");
    }
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 3);
    for (unsigned i = 1; i <= 3; i++) {
        static const char *const same[] = {
            "string(/*/rs:md/@from)", "string(/*/rs:md/@until)",
            "string(/*/rs:md/@td:after)", "string(/*/rs:md/@td:last)",
            "string(/*/rs:md/@td:epoch)"};

        dumping_check(&d, i);
        dumping_read(&d, dumps_generation_open, i, 0, &dump);
        dumping_read(&d, changelist_open, i, 0, &list);
        for (size_t k = 0; k < sizeof(same) / sizeof(same[0]); k++)
            assert_string_equal(xpath_get(&dump, same[k]),
                                xpath_get(&list, same[k]));
        xpath_close(&list);
        xpath_close(&dump);
    }
}

/* where one package would be too large there are several, which
 * follow one another without a gap. */
TEST(has_several_packages_where_one_would_be_too_large)
{
    char *text = calloc(1, 4001);
    uint64_t random = 7;

    assert_non_null(text);
    d.sets.config.package_bytes = 40000;
    for (unsigned i = 1; i <= 60; i++) {
        size_t size = model_random(&random) % 4000;

        memset(text, 'a' + (int)(i % 26), 4000);
        text[size] = '\0';
        dumping_post(&d, i, "created", text);
        if (i % 7 == 0)
            dumping_post(&d, i, "deleted", NULL);
    }
    sets_rotate(&d.sets, "demo");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 1);
    assert_in_range(dumping_current(&d).parts, 4, 12);
    dumping_check(&d, 1);
    free(text);
}

/* A member that is larger than a package has one of its own; and a list of
 * nothing but ends has a package without members. */
TEST(a_large_member_has_a_package_of_its_own)
{
    struct unzipped u;
    char text[20001] = "";

    memset(text, 'x', sizeof(text) - 1);
    d.sets.config.package_bytes = 12000;
    dumping_post(&d, 1, "created", "small");
    dumping_post(&d, 2, "created", text);
    dumping_post(&d, 3, "created", "small");
    sets_rotate(&d.sets, "demo");
    dumping_post(&d, 1, "deleted", NULL);
    dumping_post(&d, 2, "deleted", NULL);
    sets_rotate(&d.sets, "demo");
    dumping_work(&d);
    assert_int_equal(dumping_current(&d).number, 2);
    assert_int_equal(dumping_current(&d).parts, 1);
    dumping_check(&d, 1);
    dumping_check(&d, 2);
    dumping_unzip(&d, 1, 2, &u);
    assert_int_equal(u.n, 2);
    assert_int_equal(u.members[1].bytes.size, 20000);
    unzipped_close(&u);
    dumping_unzip(&d, 2, 1, &u);
    assert_int_equal(u.n, 1);
    unzipped_close(&u);
}

/* More entries than a step takes. */
TEST(a_long_list_is_built_in_many_steps)
{
    struct sets_outcome o;
    struct buf json;
    unsigned steps = 0;

    buf_init(&json, 1 << 24);
    BUF_ADD(&json, "[");
    for (unsigned i = 1; i <= 9000; i++)
        buf_add_format(&json,
                       "%s{\"loc\":\"http://example.com/r/%u\","
                       "\"change\":\"deleted\"}",
                       i > 1 ? "," : "", i);
    BUF_ADD(&json, "]");
    o = sets_post_body(&d.sets, "demo", "application/json", buf_slice(&json),
                       0);
    assert_int_equal(o.rc, STATUS_OK);
    buf_fini(&json);
    sets_rotate(&d.sets, "demo");
    for (int i = 0; i < 3; i++)
        for (dumping_look(&d); dumping_round(&d); steps++)
            ;
    assert_int_equal(dumping_current(&d).number, 1);
    assert_in_range(steps, 10, 10000);
    dumping_check(&d, 1);
}
