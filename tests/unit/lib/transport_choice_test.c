/*
 * transport_choice_test.c - which transport is next.
 */
#include "client/lib/transport_choice.h"

#include "tests/test.h"

#define ALL (TD_WEBSOCKET | TD_EVENTS | TD_LONG_POLL | TD_POLL)

/* the best transport that is left. */
TEST(the_best_that_is_open_is_taken)
{
    struct transport_choice ways = {.wait_s = 0};

    assert_int_equal(transport_choice_choose(&ways, ALL, 0), TD_WEBSOCKET);
    assert_int_equal(transport_choice_choose(&ways, TD_LONG_POLL | TD_POLL, 0),
                     TD_LONG_POLL);
    assert_int_equal(transport_choice_choose(&ways, 0, 0), 0);
}

/* a transport that fails is replaced by the next one, and remembered. */
TEST(what_is_unfit_is_left_for_the_next)
{
    struct transport_choice ways = {.wait_s = 0};

    transport_choice_unfit(&ways, TD_WEBSOCKET, 1000);
    assert_int_equal(transport_choice_choose(&ways, ALL, 1000), TD_EVENTS);
    transport_choice_unfit(&ways, TD_EVENTS, 1000);
    assert_int_equal(transport_choice_choose(&ways, ALL, 1000), TD_LONG_POLL);
    transport_choice_fit(&ways, TD_LONG_POLL);
    assert_int_equal(transport_choice_choose(&ways, ALL, 1000), TD_LONG_POLL);
}

/* The better one is tried again after a while, ever more rarely if it stays
 * unfit; success clears its past. */
TEST(what_was_unfit_is_tried_again_after_a_while)
{
    struct transport_choice ways = {.wait_s = 0};
    int64_t now = TRANSPORT_CHOICE_AGAIN_FIRST_MS;

    transport_choice_unfit(&ways, TD_WEBSOCKET, 0);
    assert_int_equal(transport_choice_choose(&ways, ALL, now - 1), TD_EVENTS);
    assert_int_equal(transport_choice_choose(&ways, ALL, now), TD_WEBSOCKET);

    transport_choice_unfit(&ways, TD_WEBSOCKET, now);
    assert_int_equal(transport_choice_choose(&ways, ALL, 3 * now - 1),
                     TD_EVENTS);
    assert_int_equal(transport_choice_choose(&ways, ALL, 3 * now),
                     TD_WEBSOCKET);
    for (int i = 0; i < 100; i++) {
        now += TRANSPORT_CHOICE_AGAIN_LAST_MS;
        transport_choice_unfit(&ways, TD_WEBSOCKET, now);
    }
    now += TRANSPORT_CHOICE_AGAIN_LAST_MS;
    assert_int_equal(transport_choice_choose(&ways, ALL, now - 1), TD_EVENTS);
    assert_int_equal(transport_choice_choose(&ways, ALL, now), TD_WEBSOCKET);

    transport_choice_fit(&ways, TD_WEBSOCKET);
    transport_choice_unfit(&ways, TD_WEBSOCKET, 0);
    now = TRANSPORT_CHOICE_AGAIN_FIRST_MS;
    assert_int_equal(transport_choice_choose(&ways, ALL, now), TD_WEBSOCKET);
}

/* Many sets find the same at once: that counts once, and is said once. */
TEST(what_is_known_is_no_news)
{
    struct transport_choice ways = {.wait_s = 0};
    int64_t now = TRANSPORT_CHOICE_AGAIN_FIRST_MS;

    assert_true(transport_choice_unfit(&ways, TD_WEBSOCKET, 0));
    for (int i = 0; i < 100; i++)
        assert_false(transport_choice_unfit(&ways, TD_WEBSOCKET, now - 1));
    assert_int_equal(transport_choice_choose(&ways, ALL, now), TD_WEBSOCKET);
    assert_false(transport_choice_unfit(&ways, TD_WEBSOCKET, now));
    assert_true(transport_choice_unfit(&ways, TD_EVENTS, now));
    transport_choice_fit(&ways, TD_WEBSOCKET);
    assert_true(transport_choice_unfit(&ways, TD_WEBSOCKET, now));
}

/* Polls that something between cuts become shorter than it permits, for an
 * hour. */
TEST(a_poll_is_shorter_than_what_cuts_it)
{
    struct transport_choice ways = {.wait_s = 0};
    const int64_t hour = TRANSPORT_CHOICE_AGAIN_LAST_MS;

    assert_int_equal(transport_choice_wait_s(&ways, 0), 0);
    assert_false(transport_choice_cut(&ways, 999, 0));
    assert_true(transport_choice_cut(&ways, 5100, 0));
    assert_int_equal(transport_choice_wait_s(&ways, 0), 2);
    assert_false(transport_choice_cut(&ways, 5100, 0));
    assert_true(transport_choice_cut(&ways, 1500, 0));
    assert_int_equal(transport_choice_wait_s(&ways, hour - 1), 1);
    assert_false(transport_choice_cut(&ways, 1500, hour - 1));
    assert_int_equal(transport_choice_wait_s(&ways, hour), 0);
    assert_true(transport_choice_cut(&ways, 20000, hour));
    assert_int_equal(transport_choice_wait_s(&ways, hour), 10);
}

/* A handle keeps what it found for each host: scheme, name and port. */
TEST(each_host_has_its_own)
{
    static const struct {
        const char *url;
        bool is_same;
    } rows[] = {
        {"http://a.example/sets/other?x", true},
        {"http://A.example:80/", true},
        {"https://a.example/sets/news", false},
        {"http://a.example:8080/sets/news", false},
        {"http://b.example/sets/news", false},
    };
    static struct transport_hosts hosts;
    struct transport_choice *one =
        transport_hosts_of(&hosts, "http://a.example/sets/news");

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(transport_hosts_of(&hosts, rows[i].url) == one,
                         rows[i].is_same);
}

/* One host too many takes the place of the one that was not asked for longest,
 * and knows nothing of it. */
TEST(hosts_are_limited)
{
    static struct transport_hosts hosts;
    const char *kept = "http://kept.example/", *lost = "http://lost.example/";
    char url[60];

    transport_choice_unfit(transport_hosts_of(&hosts, lost), TD_WEBSOCKET, 0);
    transport_choice_unfit(transport_hosts_of(&hosts, kept), TD_WEBSOCKET, 0);
    for (int i = 0; i < TRANSPORT_HOSTS_MAX - 1; i++) {
        snprintf(url, sizeof(url), "http://%d.example/", i);
        assert_int_equal(
            transport_choice_choose(transport_hosts_of(&hosts, url), ALL, 0),
            TD_WEBSOCKET);
        assert_int_equal(
            transport_choice_choose(transport_hosts_of(&hosts, kept), ALL, 0),
            TD_EVENTS);
    }
    assert_int_equal(
        transport_choice_choose(transport_hosts_of(&hosts, lost), ALL, 0),
        TD_WEBSOCKET);
}

TEST(when_none_is_left_all_may_be_tried_again)
{
    const unsigned open = TD_WEBSOCKET | TD_EVENTS;
    struct transport_choice ways = {.wait_s = 0};

    transport_choice_unfit(&ways, TD_WEBSOCKET, 0);
    transport_choice_unfit(&ways, TD_EVENTS, 0);
    assert_int_equal(transport_choice_choose(&ways, open, 0), 0);
    transport_choice_forget(&ways);
    assert_int_equal(transport_choice_choose(&ways, open, 0), TD_WEBSOCKET);
}
