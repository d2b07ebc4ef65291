/*
 * mirror_test.c - what the parts of a mirror at work share.
 */
#include "client/mirror/mirror.h"

#include <stdio.h>

#include "client/survey/survey.h"
#include "tests/clock.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"
#include "tests/unit/lib/transfers.h"

static bool
is_too_much(int percent, uint64_t n, uint64_t n_of)
{
    struct td_sync_options wish = {.max_delete_percent = percent};
    struct td_sync_options filled;
    struct survey_guard guard = {.accepts = 0};
    uint64_t held_of = 0;

    mirror_defaults(&filled, &wish);
    guard.max_percent = filled.max_delete_percent;
    return survey_holds_back(&guard, n, n_of, &held_of);
}

/* More resources may be deleted in an hour than existed at its beginning: 100
 * per cent is no limit, or nobody could go on with the value that the message
 * about --max-delete suggests. */
TEST(a_hundred_per_cent_is_no_limit)
{
    assert_true(is_too_much(0, 101, 500)); /* 20 */
    assert_false(is_too_much(0, 100, 500));
    assert_false(is_too_much(0, 99, 100)); /* few */
    assert_true(is_too_much(0, 99, 99));   /* all: R-438 */
    assert_true(is_too_much(0, 4, 4));
    assert_false(is_too_much(0, 3, 3));
    assert_false(is_too_much(100, 99, 99));
    assert_true(is_too_much(1, 100, 9999));
    assert_false(is_too_much(1, 100, 10000));
    assert_true(is_too_much(99, 500, 500));
    assert_false(is_too_much(100, 500, 500));
    assert_false(is_too_much(100, 500, 400));
    assert_false(is_too_much(-1, 500, 400));
    assert_true(is_too_much(20, 100, 0));
}

/* a list that lacks all of more than three is held back, unless nobody
 * wants a limit. Deletions that were told each are few. */
TEST(all_of_a_few_are_too_many)
{
    struct survey_guard told = {.max_percent = 20, .is_told = true};
    uint64_t held_of = 0;

    assert_false(is_too_much(0, 3, 3));
    assert_false(is_too_much(0, 4, 5));
    assert_true(is_too_much(0, 4, 4));
    assert_true(is_too_much(0, 99, 99));
    assert_false(is_too_much(100, 4, 4));
    assert_false(is_too_much(-1, 4, 4));
    assert_false(survey_holds_back(&told, 99, 99, &held_of));
    assert_true(survey_holds_back(&told, 100, 100, &held_of));
}

/* A list that is full names its limit. */
TEST(a_full_list_is_no_want_of_memory)
{
    struct mirror m = {.is_over = false};
    struct buf list = {.max = 8};

    BUF_ADD(&list, "12345678");
    assert_true(mirror_has_all(&m, &list, "the list"));
    BUF_ADD(&list, "9");
    assert_false(mirror_has_all(&m, &list, "the list"));
    assert_true(m.is_over);
    assert_string_equal(m.why.text, "the list is longer than 8 bytes");
    buf_fini(&list);
}

#define DOCUMENT(capability, inside)                                         \
    "<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\""          \
    " xmlns:rs=\"http://www.openarchives.org/rs/terms/\"><rs:md capability=" \
    "\"" capability "\"/>" inside "</urlset>"
#define ENTRY(path, md) "<url><loc>" path "</loc>" md "</url>"
#define LIST_AT(path)   ENTRY(path, "<rs:md capability=\"resourcelist\"/>")

static const char *const pages[][2] = {
    {"/source.xml", DOCUMENT("description", ENTRY("/1", "") ENTRY("/2", ""))},
    {"/1", DOCUMENT("capabilitylist", LIST_AT("/none.xml"))},
    {"/2", DOCUMENT("capabilitylist", LIST_AT("/list.xml"))},
    {"/list.xml", DOCUMENT("resourcelist", ENTRY("/a.txt", ""))},
    {"/a.txt", "a"},
    {"/long.xml", DOCUMENT("resourcelist", ENTRY("/1", "") ENTRY("/2", ""))},
};

static int
ignore(const struct td_message *message, void *user)
{
    (void)message;
    (void)user;
    return 0;
}

static void
on_limit(enum td_status rc, const char *why, void *user)
{
    assert_int_equal(rc, TD_REFUSED);
    assert_non_null(strstr(why, "--max-entries"));
    site_release(user, "/none.xml"); /* which is 404 */
}

/* Limits belong to the handle, and so to a follower beside the mirror, too:
 * when the follower has met a limit, the sets of the mirror have not. */
TEST(a_limit_ends_what_has_met_it_alone)
{
    const struct td_limits limits = {.max_resources = 1};
    const struct td_follow_options follow = {.baseline = TD_BASELINE_FIRST,
                                             .on_end = on_limit};
    const struct td_sync_options sync = {.until_caught_up = 1};
    struct td_client *client = td_open();
    struct site *site = site_new();
    struct td_follower *follower;
    struct tempdir dir;
    char path[400];

    (void)state;
    tempdir_open(&dir);
    clock_skip_waits(transfers_none, NULL);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
        site_put(site, pages[i][0], NULL, slice_of(pages[i][1]));
    site_hold(site, "/none.xml");
    td_limit(client, &limits);
    assert_int_equal(td_follower_open(client, site_link(site, "/long.xml"),
                                      &follow, ignore, site, &follower),
                     TD_OK);
    snprintf(path, sizeof(path), "%s/m", dir.path);
    assert_int_equal(
        td_sync(client, site_link(site, "/source.xml"), path, &sync),
        TD_REFUSED);
    assert_non_null(strstr(td_problem(client), "/none.xml: 404"));
    assert_int_equal(site_count(site, "/a.txt"), 1);
    td_close(client);
    site_free(site);
    tempdir_close(&dir);
}

/* a mirror deletes files, and takes nothing that is not signed. */
TEST(a_lag_is_refused)
{
    struct td_client *client = td_open();

    (void)state;
    td_key_lag(client, 1);
    assert_int_equal(td_sync(client, "http://a.example/", "/none", NULL),
                     TD_INVALID);
    assert_string_equal(td_problem(client),
                        "a mirror deletes files: td_key_lag has to be 0");
    td_close(client);
}
