#include "broker/sets/harvest.h"

#include <string.h>

#include "proto/datetime.h"
#include "tests/test.h"

#define NEEDED                                        \
    "\"source\":\"https://example.org/sitemap.xml\"," \
    "\"kind\":\"sitemap\","                           \
    "\"last_look\":\"2026-04-01T18:10:00.000000Z\""

/* the broker keeps every member, and the figures that metrics have. */
TEST(keeps_what_a_harvester_reports)
{
    static const char text[] =
        "{" NEEDED ",\"complete_as_of\":\"2026-04-01T18:00:00.500000Z\","
        "\"not_complete\":\"page 2: 500\",\"added\":1,\"changed\":2,"
        "\"deleted\":3,\"held_back\":40,\"left_out\":5,"
        "\"left_out_example\":\"line 7: "
        "\\\"x\\\"\",\"mended\":6,\"dropped_links\":7,"
        "\"every_s\":3600,\"accept_deletions\":39}";
    struct harvest *harvest = NULL, *again = NULL;
    struct problem why = {""};
    int64_t us;

    assert_int_equal(harvest_read(&harvest, SLICE(text), &why), STATUS_OK);
    assert_true(slice_is(harvest->text, text));
    assert_int_equal(harvest->held_back, 40);
    assert_int_equal(harvest->left_out, 5);
    assert_int_equal(datetime_read(SLICE("2026-04-01T18:00:00.5Z"), &us),
                     STATUS_OK);
    assert_true(harvest->complete_as_of_us == us);
    assert_int_equal(harvest_read(&again, harvest->text, &why), STATUS_OK);
    assert_true(slice_equal(again->text, harvest->text));
    harvest_unref(again);
    /* A text may have the words of the member. */
    assert_int_equal(harvest_read(&again,
                                  SLICE("{" NEEDED ",\"not_complete\":"
                                        "\"\\\"accept_deletions\\\":7\"}"),
                                  &why),
                     STATUS_OK);
    harvest_unref(harvest);
    harvest = harvest_with_consent(again, 40);
    assert_int_equal(harvest->accept_deletions, 40);
    assert_non_null(slice_find(harvest->text, "\"accept_deletions\":40}"));
    assert_non_null(slice_find(harvest->text, "accept_deletions\\\":7\","));
    harvest_unref(again);
    harvest_unref(harvest);
}

TEST(completes_what_a_harvester_leaves_out)
{
    struct harvest *harvest = NULL;
    struct problem why = {""};

    assert_int_equal(
        harvest_read(&harvest, SLICE("{" NEEDED ",\"every_s\":null}"), &why),
        STATUS_OK);
    assert_true(slice_is(
        harvest->text,
        "{" NEEDED ",\"every_s\":null,\"complete_as_of\":null,"
        "\"not_complete\":null,\"added\":0,\"changed\":0,\"deleted\":0,"
        "\"held_back\":0,\"left_out\":0,\"left_out_example\":null,"
        "\"mended\":0,\"dropped_links\":0,\"accept_deletions\":0}"));
    assert_true(harvest->complete_as_of_us == DATETIME_NONE);
    assert_ptr_equal(harvest_ref(harvest), harvest);
    harvest_unref(harvest);
    harvest_unref(harvest);
}

TEST(names_the_member_that_it_refuses)
{
    static const struct {
        const char *text, *why;
        enum status rc;
    } cases[] = {
        {"", "", STATUS_MALFORMED},
        {"{", "", STATUS_MALFORMED},
        {"[]", "is a JSON object", STATUS_INVALID},
        {"{}", "source: is missing", STATUS_INVALID},
        {"{\"source\":\"http://a.example/\",\"kind\":\"rss\"}",
         "last_look: is missing", STATUS_INVALID},
        {"{\"source\":\"/local\"}", "source: ", STATUS_INVALID},
        {"{\"source\":null}", "source: is a string", STATUS_INVALID},
        {"{\"kind\":\"html\"}", "kind: \"html\" is not", STATUS_INVALID},
        {"{\"last_look\":\"today\"}", "last_look: ", STATUS_INVALID},
        {"{\"last_look\":5}", "last_look: is a string", STATUS_INVALID},
        {"{\"last_look\":null}", "last_look: is a string", STATUS_INVALID},
        {"{\"added\":\"1\"}", "added: is a number", STATUS_INVALID},
        {"{\"added\":null}", "added: is a number", STATUS_INVALID},
        {"{\"added\":-1}", "added: \"-1\" is not a count", STATUS_INVALID},
        {"{\"added\":1.5}", "added: \"1.5\" is not", STATUS_INVALID},
        {"{\"added\":9007199254740992}", "added: ", STATUS_INVALID},
        {"{\"added\":[1]}", "added: is a number", STATUS_INVALID},
        {"{\"mended\":true}", "mended: is a number", STATUS_INVALID},
        {"{\"left_out_example\":{}}", "left_out_example: is a string",
         STATUS_INVALID},
        {"{\"added\":1,\"added\":1}", "added: is there twice", STATUS_INVALID},
        {"{\"heldback\":1}", "is \"held_back\" meant?", STATUS_INVALID},
        {"{\"colour\":1}", "\"colour\" is no member", STATUS_INVALID},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct harvest *harvest = NULL;
        struct problem why = {""};
        enum status rc = harvest_read(&harvest, slice_of(cases[i].text), &why);

        if (rc != cases[i].rc || !strstr(why.text, cases[i].why))
            fail_msg("row %zu: %d %s", i, rc, why.text);
        assert_null(harvest);
    }
}
