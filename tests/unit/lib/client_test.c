/*
 * client_test.c - the handle: td_close also closes everything on it, in any
 * state.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/tidings.h"
#include "tests/support/sanitized.h"
#include "tests/support/site.h"
#include "tests/support/tempdir.h"
#include "tests/test.h"

/* Less than the leak of a follower. */
#define FOLLOWER_SIZE 40000

struct stage {
    struct site *site;
    struct tempdir dir;
    char spool[300];
    unsigned ends;
};

static struct stage s;

static int
set_stage(void **state)
{
    (void)state;
    s = (struct stage){.site = site_new()};
    tempdir_open(&s.dir);
    snprintf(s.spool, sizeof(s.spool), "%s/spool", s.dir.path);
    return 0;
}

static int
clear_stage(void **state)
{
    (void)state;
    site_free(s.site);
    tempdir_close(&s.dir);
    return 0;
}

static int
on_message(const struct td_message *message, void *user)
{
    (void)message;
    (void)user;
    return 0;
}

static void
on_end(enum td_status rc, const char *why, void *user)
{
    (void)why, (void)user;
    assert_int_equal(rc, TD_REFUSED);
    s.ends++;
}

static void
on_delivery(const struct td_delivery *delivery, void *user)
{
    (void)delivery;
    (void)user;
}

static void
open_publishers(struct td_client *client)
{
    const struct td_publisher_options kept = {.spool = s.spool};
    struct td_publisher *publisher;

    assert_int_equal(td_publisher_open(client, site_link(s.site, "/sets/a"),
                                       &kept, &publisher),
                     TD_OK);
    /* Three more: one idle from the start, one with a change, and one whose
     * post is under way. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(td_publisher_open(client, site_link(s.site, "/sets/b"),
                                           NULL, &publisher),
                         TD_OK);
        if (i == 0)
            continue;
        assert_int_equal(td_publisher_add(publisher, "{}", 2, NULL), TD_OK);
        if (i == 1)
            assert_int_equal(td_service(client), TD_OK);
    }
}

/* A follower that goes on, and a follower that ends because the set does not
 * exist; by a callback, too. */
static void
open_followers(struct td_client *client)
{
    const struct td_follow_options options = {.on_end = on_end};
    const struct td_subscriber_options delivered = {.on_delivery = on_delivery};
    struct td_follower *follower;
    struct td_callback *callback;
    struct td_subscriber *subscriber;

    assert_int_equal(td_callback_open(client, "127.0.0.1:0", NULL, &callback),
                     TD_OK);
    assert_int_equal(td_subscriber_open(callback, site_link(s.site, "/topic"),
                                        &delivered, &subscriber),
                     TD_OK);
    assert_int_equal(td_follower_open(client, site_link(s.site, "/busy"), NULL,
                                      on_message, NULL, &follower),
                     TD_OK);
    assert_int_equal(td_follower_open(client, site_link(s.site, "/sets/none"),
                                      &options, on_message, NULL, &follower),
                     TD_OK);
    assert_int_equal(td_callback_follow(callback,
                                        site_link(s.site, "/sets/none"),
                                        &options, on_message, NULL, &follower),
                     TD_OK);
}

/* Opens everything, lets it end or run, and closes the handle alone. */
static void
one_round(void)
{
    struct td_client *client = td_open();

    assert_non_null(client);
    s.ends = 0;
    open_publishers(client);
    open_followers(client);
    AWAIT((td_service(client) == TD_OK && s.ends == 2));
    td_close(client);
    assert_int_equal(s.ends, 2);
}

FIXTURE(set_stage, clear_stage);

/* td_close closes everything: idle publishers, with their spools free for the
 * next one, and ended followers. */
TEST(all_that_was_opened_goes_with_the_handle)
{
    size_t before;
    size_t after;

    site_status(s.site, "/busy", 503, NULL, 0);
    for (int i = 0; i < 4; i++)
        one_round();
    before = mallinfo2().uordblks;
    for (int i = 0; i < 16; i++)
        one_round();
    after = mallinfo2().uordblks;
    /* The site remembers all requests. A follower alone is larger; the spool
     * would show an open publisher, and the sanitizer finds leaks by itself. */
    if (!IS_SANITIZED && after > before + 16 * FOLLOWER_SIZE)
        fail_msg("%zu bytes are left of 16 handles", after - before);
}

/* The headers have it as text and as numbers, the build once. */
TEST(the_version_of_the_headers_is_that_of_the_build)
{
    char text[20];

    assert_string_equal(TD_VERSION_STRING, TIDINGS_VERSION);
    snprintf(text, sizeof(text), "%u.%u.%u", td_version() / 10000,
             td_version() / 100 % 100, td_version() % 100);
    assert_string_equal(text, TIDINGS_VERSION);
    assert_int_equal(td_version(), TD_VERSION);
}

/* td_run is over when no work is left, though the handle is open. */
TEST(a_loop_does_not_run_for_what_has_ended)
{
    const struct td_follow_options options = {.on_end = on_end};
    const struct td_publisher_options kept = {.spool = s.spool};
    struct td_client *client = td_open();
    struct td_publisher *publisher;
    struct td_follower *follower;

    assert_int_equal(td_publisher_open(client, site_link(s.site, "/sets/a"),
                                       &kept, &publisher),
                     TD_OK);
    assert_int_equal(td_follower_open(client, site_link(s.site, "/sets/none"),
                                      &options, on_message, NULL, &follower),
                     TD_OK);
    assert_int_equal(td_run(client), TD_OK);
    assert_int_equal(s.ends, 1);
    td_close(client);
}
