/*
 * holes_test.c - what is missing before a message: from the change memory, else
 * from Change Lists, else from nowhere.
 */
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

/* Up to entry 1, then a message from 5 on: 2 to 4 are missing. */
#define HOLE "start 0; say 0-1; say 4-6; is page; asks /memory?after=E-1;"

FIXTURE(set_stage, clear_stage);

/* page by page, before what follows it; and the connection goes on. */
TEST(is_filled_from_the_change_memory)
{
    play(*state, HOLE "page 1-3; told 1 2 3; asks /memory?after=E-3;"
                      "page 3-5; told 1 2 3 4 5 6; not held;"
                      "say 6-7; told 1 2 3 4 5 6 7; lives 1");
}

/* a named silence is also the limit of all requests. */
TEST(the_silence_that_was_named_holds_for_what_is_asked_for)
{
    static const struct {
        unsigned idle_ms, silence_s;
    } rows[] = {{0, 0}, {1, 1}, {2000, 2}, {2001, 3}, {UINT32_MAX, 4294968}};
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        s->options.idle_ms = rows[i].idle_ms;
        play(s, "open 0; await seeking");
        assert_int_equal(quiet_silence(), rows[i].silence_s);
        play(s, "leave;" HOLE);
        assert_int_equal(quiet_silence(), rows[i].silence_s);
        play(s, "page 404; await lists");
        assert_int_equal(quiet_silence(), rows[i].silence_s);
        play(s, "leave");
    }
}

/* a change memory that is not there, is away, or says what cannot be
 * right: the lists know. */
TEST(is_filled_from_lists_where_there_is_no_memory)
{
    static const char *const pages[] = {"page 404", "page 503", "page 0",
                                        "page 200"};

    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        play(*state, HOLE);
        play(*state, pages[i]);
        play(*state, "after #1; entries 1-5; done #5; told 1 2 3 4 5 6;"
                     "say 6-7; position E-7; troubles 0; anew; turn");
    }
}

/* A page without the missing entries is no reason to jump over them. */
TEST(a_page_that_leads_nowhere_is_no_help)
{
    play(*state, HOLE "page 1-1; is lists; entries 2-4; done #4;"
                      "told 1 2 3 4 5 6");
}

TEST(lists_fill_it_where_no_memory_is_offered)
{
    struct stage *s = *state;

    s->offer.memory = NULL;
    play(s, "start 0; say 0-1; say 2-3; entries 2-2; done #2; told 1 2 3");

    s->offer.change_list = NULL;
    play(s, "leave; start 0; say 0-1; say 2-3;"
            "ended broken a gap after 1 that cannot be filled");
}

/* Both are away: it is a lost connection, not a lost change. */
TEST(is_left_open_for_the_next_connection)
{
    play(*state, HOLE "page 503; entries 2-2; lists refused - 403: no;"
                      "troubles 1; trouble 503: no; url /stream?after=E-2;"
                      "say 2-6; told 1 2 3 4 5 6");
}

/* A cache in between may have kept an older list. */
TEST(lists_that_end_too_early_are_asked_again)
{
    play(*state, HOLE "page 404; entries 2-3; done #3; troubles 1;"
                      "troubled a gap after 3; url /stream?after=E-3;"
                      "say 3-6; told 1 2 3 4 5 6");
}

/* Even before the hole: a message has shown that the log goes on. */
TEST(lists_that_end_before_the_hole_are_asked_again)
{
    struct stage *s = *state;

    s->options.baseline = TD_BASELINE_GONE;
    play(s, "start E-3; say 4-6; page 404; lists gone #2 ahead of the log;"
            "troubles 1; url /stream?after=E-3; say 3-6; told 4 5 6");
}

/* a hole in the lists is not jumped over either. */
TEST(a_hole_in_the_lists_is_told)
{
    play(*state, HOLE "page 404; entries 2-2; noentry l #4;"
                      "ended broken a gap before 4; told 1");
}

/* changes that neither memory nor lists have are gone. */
TEST(what_neither_has_is_gone)
{
    play(*state, HOLE "page 410; ended gone 410; anew;" HOLE
                      "page 404; lists gone - the lists begin later;"
                      "ended gone the lists begin later");
}

/* A connection that ends meanwhile: its messages still count, then its end
 * does. */
TEST(outlasts_its_connection)
{
    play(*state, HOLE "restart; turn; troubles 0; page 1-4; told 1 2 3 4 5 6;"
                      "troubles 1; url /stream?after=E-6");
}

/* the follower filters lists itself; the covered range counts. */
TEST(lists_are_filtered_as_messages_are)
{
    static const struct td_filter filters[] = {
        {"prefix", "http://example.com/a"}};
    struct stage *s = *state;

    s->options.filters = filters;
    s->options.n_filters = 1;
    s->offer.memory = NULL;
    play(s, "start E-1");
    quiet_say(message_every(s, 4, 4, 9));
    play(s, "entry b #2; entry a1 #3; entry b #4; done #4;"
            "told 3 h; position E-4");
}

/* Close, stop and pause work in the middle of it. */
TEST(may_be_left_in_the_middle)
{
    static const char *const scripts[] = {
        "closes_at 3;" HOLE "page 1-3; turn",
        "closes_at 6;" HOLE "page 1-4; turn",
        "closes_at 4;" HOLE "page 404; entries 2-4; done #4; turn",
    };
    struct stage *s = *state;

    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        play(s, scripts[i]);
        assert_null(s->follower);
        assert_int_equal(s->ends, 0);
        play(s, "anew");
    }
    play(s, "closes_at; stops_at 3;" HOLE "page 1-3; ended stopped");
}

TEST(a_pause_waits_with_the_lists)
{
    play(*state,
         HOLE "page 404; entries 2-2; pause; is held; resume; turn; not held;"
              "pauses_at 4; entries 3-4; done #4; turn; told 1 2 3 4;"
              "resume; turn; told 1 2 3 4 5 6; not held");
}
