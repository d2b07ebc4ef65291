/*
 * follower_test.c - the life of a follower: its beginning and end, its place,
 * pauses, callbacks that close it, others beside it.
 */
#include <poll.h>
#include <string.h>

#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

/* Ways */

FIXTURE(set_stage, clear_stage);

/* the best of what the source links to, at the place where it stands. */
TEST(takes_the_best_way_that_is_offered)
{
    play(*state, "start E-2; by websocket; url /stream?after=E-2;"
                 "say 2-4; told 3 4; position E-4");
}

/* a transport that does not get through is replaced by the next
 * best, which goes on where the one before ended. The follower remembers that,
 * and does not try each time. */
TEST(falls_back_from_way_to_way)
{
    struct stage *s = *state;

    s->options.poll_ms = 1;
    play(s, "start 0; say 0-1; unfit no upgrade;"
            "trouble no WebSocket here, server-sent events instead: no "
            "upgrade; by events; url /events?after=E-1&lines=yes;"
            "say 1-2; unfit held back; by long_poll; url /memory?after=E-2;"
            "say 2-3; again; url /memory?after=E-3;"
            "unfit no; after #3; told 1 2 3;"
            "wait 1 away; done #3; await lists; lives 4");
}

/* The next follower of the host begins with what worked, and says nothing: it
 * was said. When its turn has come, the better one is tried again. */
TEST(what_a_host_carries_is_known_to_the_next)
{
    struct stage *s = *state;

    play(s, "start 0; by websocket; unfit no upgrade; by events; say 0-1;"
            "troubles 1; anew; start 0; by events; say 0-1; troubles 1; anew");
    clock_pass_us(TRANSPORT_CHOICE_AGAIN_FIRST_MS * 1000);
    play(s, "start 0; by websocket; unfit no upgrade; by events; troubles 1;"
            "lost it broke; anew; start 0; by events; anew");
    clock_pass_us(2 * TRANSPORT_CHOICE_AGAIN_FIRST_MS * 1000);
    play(s, "start 0; by websocket; say 0-1; restart; by websocket; anew;"
            "start 0; by websocket; troubles 3");
    s->offer.url = LENT("http://127.0.0.1:2/sets/news");
    play(s, "anew; start 0; by websocket; unfit no; by events; troubles 4");
}

/* Other followers have found the host unfit for WebSockets. A follower that may
 * use nothing else tries one all the same. */
TEST(the_only_way_is_tried_whatever_others_found)
{
    struct stage *s = *state;

    play(s, "start 0; unfit no upgrade; by events; anew");
    s->options.transports = TD_WEBSOCKET;
    play(s, "start 0; by websocket; say 0-1; told 1; troubles 1");
}

/* --transport websocket behind such a proxy: the sentence names the cure. */
TEST(a_websocket_alone_ends_with_the_lines_that_it_needs)
{
    struct stage *s = *state;

    s->options.transports = TD_WEBSOCKET;
    play(s, "start 0; unfit 426; ended refused 426: no");
    assert_string_equal(
        s->why, "426: no; if a proxy stands between, nginx needs "
                "proxy_http_version 1.1; proxy_set_header Upgrade "
                "$http_upgrade; proxy_set_header Connection \"upgrade\";");
}

/* So does the sentence about events that never come. */
TEST(events_alone_name_the_lines_that_they_need)
{
    struct stage *s = *state;

    s->options.transports = TD_EVENTS;
    play(s, "start 0; unfit silence; troubled silence");
    play(s, "troubled nginx needs proxy_buffering off");
}

/* A follower "from now on" means the moment of its start: it gets the changes
 * that came while it looked for a transport. */
TEST(now_is_before_the_first_connection_that_brings_nothing)
{
    struct stage *s = *state;

    s->offer.position = LENT(EPOCH "-7");
    play(s, "start now; by websocket; url /stream; unfit no upgrade;"
            "by events; url /events?after=E-7&lines=yes; say 7-9; told 8 9");
}

/* Something cuts long polls after five seconds: they become shorter, and the
 * pauses do not grow. */
TEST(polls_that_are_cut_become_shorter)
{
    struct stage *s = *state;

    s->options.transports = TD_LONG_POLL;
    play(s, "start E-2; by long_poll");
    assert_int_equal(quiet_wait_s(), 0);
    clock_pass_us(5000000);
    play(s, "lost 504 Gateway Timeout; await live; troubles 1");
    clock_pass_us(5000000);
    play(s, "lost 504 Gateway Timeout; by long_poll; lives 3");
    assert_int_equal(s->pause_ms, 0);
    assert_int_equal(quiet_wait_s(), 2);
    play(s, "say 2-3; told 3; again; lives 4");
    assert_int_equal(quiet_wait_s(), 2);
}

/* none is left: a bad time if ever there was one, else no place to
 * follow from. */
TEST(begins_anew_when_no_way_is_left)
{
    struct stage *s = *state;

    s->options.transports = TD_WEBSOCKET | TD_EVENTS;
    play(s, "start 0; say 0-1; unfit 403; unfit 403;"
            "found; by websocket; say 1-2; told 1 2");
}

TEST(ends_when_no_way_ever_led_there)
{
    struct stage *s = *state;

    s->options.transports = TD_WEBSOCKET | TD_EVENTS;
    play(s, "start 0; unfit 200; unfit 406; ended refused 406: no");
}

/* a way on which nothing ever comes, though the source is there. */
TEST(leaves_a_way_that_stays_mute)
{
#define MUTE "by websocket; lost the connection broke;"
    play(*state, "start 0;" MUTE MUTE MUTE
                 "away away; found;" /* so it is not the way */
         MUTE MUTE MUTE "found;" MUTE "by events");
}

/* The follower uses only transports of the options. */
TEST(uses_what_is_wanted_only)
{
    struct stage *s = *state;

    s->options.form = TD_XML;
    s->options.transports = TD_EVENTS | TD_LONG_POLL;
    play(s, "start 0; by events; leave");

    s->options.transports = TD_LONG_POLL;
    play(s, "start 0; by long_poll; leave");
}

/* A long poll needs a place to ask from: the head, at once. */
TEST(a_long_poll_from_now_on_asks_after_the_head)
{
    struct stage *s = *state;

    s->options.transports = TD_LONG_POLL;
    s->offer.position = LENT(EPOCH "-7");
    play(s, "start now; url /memory?after=E-7&wait=0; say 7-7; again;"
            "url /memory?after=E-7; told h");
}

/* Links with a query of their own, filters, and WebSockets' own scheme. */
TEST(puts_its_place_behind_what_the_link_says)
{
    static const struct td_filter filter = {"tag", "a"};
    struct stage *s = *state;

    s->options.filters = &filter;
    s->options.n_filters = 1;
    s->offer.stream = LENT("wss://127.0.0.1:1/?set=news");
    start(s, "@2026-01-01T00:00:05.000000Z+0");
    assert_string_equal(quiet_url(), "https://127.0.0.1:1/?set=news"
                                     "&since=2026-01-01T00:00:04.999999Z"
                                     "&tag=a");
    quiet_end(LIVE_CLOSED, 1001, "restart");
    quiet_say(message_every(s, 4, 7, 2));
    quiet_end(LIVE_CLOSED, 1001, "restart");
    assert_string_equal(
        quiet_url(), "https://127.0.0.1:1/?set=news&after=" EPOCH "-7&tag=a");
}

/* One connection for many sets */

/* A follower joins at its place. After a gap it joins again behind the gap. */
TEST(shares_a_connection_with_others)
{
    struct stage *s = *state;

    s->may_share = true;
    quiet_share(true);
    play(s, "start E-2; by sharing; url /streams,\"after\":\"E-2\"; beat;"
            "told h; position E-2; say 2-3; say 5-6;"
            "asks /memory?after=E-3; page 3-5; told h 3 4 5 6; again;"
            "by sharing; url /streams,\"after\":\"E-6\"; troubles 0");
}

/* it learns where "now" is from the set, for the caller to store. */
TEST(shares_a_connection_from_now_on)
{
    struct stage *s = *state;

    s->may_share = true;
    quiet_share(true);
    s->offer.position = LENT(EPOCH "-7");
    play(s, "start now; url /streams,\"after\":\"E-7\"; beat; told h;"
            "position E-7; say 7-8; told h 8");
}

/* A follower that begins at a moment has no position before its first message.
 */
TEST(shares_a_connection_from_a_moment_on)
{
    struct stage *s = *state;

    s->may_share = true;
    quiet_share(true);
    play(s, "start @2026-01-01T00:00:05.000000Z+0; url "
            "/streams,\"since\":\"2026-01-01T00:00:04.999999Z\"; beat; told ;"
            "say 4-6; told 5 6; beat; told 5 6 h");
}

/* A follower connects alone when the shared connection does not take it. */
TEST(leaves_a_connection_that_cannot_be_shared)
{
    struct stage *s = *state;

    s->may_share = true;
    quiet_share(true);
    play(s, "start 0; by sharing; say 0-1");
    quiet_share(false);
    play(s, "again; by websocket; url /stream?after=E-1; say 1-2; told 1 2;"
            "troubles 0");
}

/* A follower that ends at the head, and sets without position, name or link. */
TEST(shares_no_connection_where_it_cannot)
{
    struct stage *s = *state;

    s->may_share = true;
    quiet_share(true);
    s->options.until_caught_up = 1;
    play(s, "start E-2; by long_poll; leave");
    s->options.until_caught_up = 0;
    play(s, "start now; by websocket; leave"); /* it has no position */
    s->offer.name = NULL;
    play(s, "start E-2; by websocket; leave");
    s->offer.name = LENT("news");
    s->offer.streams = NULL;
    play(s, "start E-2; by websocket");
}

/* Its set has ended there: it is looked for once more, as after the end of its
 * own connection. */
TEST(the_end_of_its_set_is_its_own)
{
    struct stage *s = *state;

    s->may_share = true;
    quiet_share(true);
    play(s,
         "start 0; say 0-1; again; refuse 404; found; by sharing; refuse 404;"
         "ended refused 404; anew; start 0; gone earliest 5;"
         "ended gone 4410 earliest 5");
}

/* Finding */

/* the follower asks a source that is away again, from the first attempt
 * on; a refusal is an answer. */
TEST(seeks_again_until_there_is_an_answer)
{
    struct stage *s = *state;

    play(s, "open 0; away cannot connect; trouble cannot connect;"
            "away 503: busy");
    quiet_not_found(STATUS_REFUSED, "404: there is no set \"news\"");
    assert_ended(s, STATUS_REFUSED, "404: there is no set \"news\"");
}

/* A stream that is not there is looked for once more. */
TEST(seeks_a_stream_that_has_moved)
{
    struct stage *s = *state;

    play(s, "start 0; say 0-1; restart; refuse 404");
    s->offer.stream = LENT(SET_URL "/elsewhere");
    play(s, "found; url /elsewhere?after=E-1; refuse 404; ended refused 404");
}

TEST(takes_one_set_only)
{
    struct stage *s = *state;

    play(s, "open 0");
    quiet_found_two(&s->offer);
    assert_ended(s, STATUS_REFUSED, " has 2 sets: one is followed here");
}

/* Callbacks */

/* Any of its callbacks may close it; nothing is called afterwards. */
TEST(may_be_closed_by_its_callbacks)
{
    struct stage *s = *state;

    play(s, "closes_at 2; start 0; say 0-2");
    assert_null(s->follower);
    assert_int_equal(s->ends, 0);

    s->closes_on_trouble = true;
    play(s, "closes_at; start 0; lost the connection broke");
    assert_null(s->follower);

    s->closes_on_end = true;
    play(s, "start 0; broken what is that; ended broken what is that");
    assert_null(s->follower);
    assert_int_equal(td_run(s->client), TD_OK); /* nothing runs any more */
}

TEST(ends_when_the_callback_says_so)
{
    struct stage *s = *state;

    play(s, "stops_at 2; start 0; say 0-2; ended stopped");
    assert_int_equal(td_run(s->client), TD_OK);
}

/* Pauses */

/* A pause from the callback stops the changes and holds the connection back; a
 * resume goes on from there. */
TEST(a_pause_holds_the_connection_back)
{
    play(*state, "pauses_at 2; start 0; say 0-2; is held; turn;"
                 "resume; turn; not held; say 2-3;"
                 "pause; is held; resume; turn; not held; told 1 2 3");
}

/* A connection that breaks during a pause is made again after it. */
TEST(a_pause_outlasts_a_connection)
{
    play(*state, "pauses_at 1; start 0; say 0-1; restart;"
                 "resume; pause; resume; say 1-2; told 1 2");
}

/* A complete page of a hole is kept during a pause, not handed over. */
TEST(a_pause_keeps_the_page_of_a_hole)
{
    play(*state, "start 0; say 0-1; say 5-6; is page; pause; is held;"
                 "page 1-3; turn; told 1; resume; turn; told 1 2 3;"
                 "pauses_at 5; page 3-5; told 1 2 3 4 5; turn; told 1 2 3 4 5;"
                 "resume; turn; told 1 2 3 4 5 6; not held");
}

/* until_caught_up */

/* It ends with the head that the source stated at the start, by the change
 * memory, which states the head even if no change passes. */
TEST(ends_when_it_has_caught_up)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->offer.position = LENT(EPOCH "-4");
    play(s, "start 0; by long_poll; url /memory?after=0&wait=0;"
            "say 0-3; again; is going; say 3-6; ended ok;"
            "told 1 2 3 4 5 6");
}

TEST(ends_at_once_where_there_is_nothing_to_catch_up_with)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->offer.position = LENT(EPOCH "-4");
    play(s, "start E-4; ended ok; told");
}

/* If the source states no head, a heartbeat does: the first on a connection
 * states where that begins. */
TEST(catches_up_with_a_head_that_was_not_told)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->options.transports = TD_WEBSOCKET;
    play(s, "start E-1; say 1-1; say 1-3; is going; say 3-3; ended ok");
}

/* a follower that goes on says where it has caught up: at the head that
 * the source stated when it was sought. Behind that, a heartbeat says so, but
 * not the one that each connection begins with. */
TEST(says_when_it_has_caught_up)
{
    struct stage *s = *state;

    s->options.transports = TD_WEBSOCKET;
    s->offer.position = LENT(EPOCH "-4");
    play(s, "start 0; say 0-0; caught_up -; say 0-3; caught_up -;"
            "say 3-5; caught_up E-5; say 5-6; caught_up E-5;"
            "say 6-6; caught_up E-6; lost by the way; say 6-6; say 6-7;"
            "caught_up E-6; say 7-7; caught_up E-7");
}

TEST(says_when_it_has_caught_up_with_a_head_that_was_not_told)
{
    struct stage *s = *state;

    s->options.transports = TD_WEBSOCKET;
    play(s, "start E-1; say 1-1; say 1-3; caught_up -; say 3-3; caught_up E-3");
}

/* A poll that is empty asked for what is behind its place. */
TEST(an_empty_poll_has_caught_up)
{
    struct stage *s = *state;

    s->options.transports = TD_LONG_POLL;
    play(s, "start E-1; say 1-3; caught_up -; again; say 3-3; caught_up E-3");
}

/* Beside each other */

TEST(two_followers_share_a_handle)
{
    struct stage *s = *state;
    struct td_follower *first, *second;

    start(s, "0");
    quiet_await(quiet_is_live, "the first connection");
    first = s->follower;
    start(s, EPOCH "-4");
    second = s->follower;
    quiet_say(message(s, 4, 5));
    s->follower = NULL; /* the stage does not check which one reports */
    quiet_choose(0);
    quiet_say(message(s, 0, 2));
    quiet_choose(1);
    quiet_say(message(s, 5, 6));
    assert_told(s, "5 1 2 6 ");
    assert_string_equal(td_follower_position(first), EPOCH "-2");
    td_follower_close(first);
    quiet_say(message(s, 6, 7));
    assert_told(s, "5 1 2 6 7 ");
    td_follower_close(second);
}

/* Closing the handle closes what still runs on it. */
TEST(ends_with_its_handle)
{
    struct stage *s = *state;

    play(s, "start 0; await live");
    td_close(s->client);
    s->follower = NULL;
    quiet_finish();
    assert_int_equal(s->ends, 0);
    s->client = td_open();
}

/* In somebody else's loop: watched for reading, no longer than it says. */
static void
wait_and_turn(struct stage *s, struct pollfd *fd)
{
    int ms = td_timeout_ms(s->client);

    assert_true(ms >= 0);
    if (poll(fd, 1, 0) == 0)
        clock_pass_us(ms * INT64_C(1000));
    assert_int_equal(td_service(s->client), TD_OK);
}

TEST(runs_in_a_loop_of_poll)
{
    struct stage *s = *state;
    struct pollfd fd = {.events = POLLIN};

    open_follower(s, "0");
    fd.fd = td_fd(s->client);
    while (!quiet_is_seeking())
        wait_and_turn(s, &fd);
    quiet_not_found(STATUS_UNREACHABLE, "away");
    assert_true(td_timeout_ms(s->client) > 0);
    while (!quiet_is_seeking())
        wait_and_turn(s, &fd);
    assert_int_equal(td_fd(s->client), fd.fd);
    td_stop(s->client);
    assert_int_equal(poll(&fd, 1, -1), 1);
    assert_int_equal(td_service(s->client), TD_STOPPED);
    quiet_found(&s->offer);
    quiet_say(message(s, 0, 1));
    assert_told(s, "1 ");
}

/* A tile of the former offer comes, or does not, when the next offer has no
 * checkpoint. */
TEST(a_check_ends_with_its_offer)
{
    static const char checkpoint[] = "broker.example/sets/news/" EPOCH
                                     "\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
                                     "AAAAAAA=\n\n\u2014 x MTIzNDU2Nzg5\n";
    struct stage *s = *state;

    assert_int_equal(td_keep_checkpoints(s->client, NULL), TD_OK);
    s->offer.checkpoint = LENT(SET_URL "/checkpoint");
    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start E-4; await page; not live");
    quiet_page(200, SLICE(checkpoint));
    play(s, "await live; say 4-4; say 4-5; told h 5; await page");
    quiet_page(200, SLICE(checkpoint));
    assert_non_null(strstr(quiet_page_url(), "/tile/0/000.p/5?" EPOCH));
    s->offer.checkpoint = NULL;
    play(s, "say o5-6; found; ended refused nobody signs; not page");
}
