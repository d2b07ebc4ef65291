/*
 * follow_filtered_test.c - td_follow with filters, and from a moment on. The
 * broker lets through every third entry.
 */
#include <string.h>

#include "tests/test.h"
#include "tests/unit/follow/following.h"

static const struct td_filter two[] = {{"tag", "b&c"}, {"change", "created"}};

#define BY_TWO "&change=created&tag=b%26c HTTP"

static int
set_two(void **state)
{
    struct stage *s;

    set_stage(state);
    s = *state;
    s->options.filters = two;
    s->options.n_filters = 2;
    return 0;
}

FIXTURE(set_two, clear_stage);

/* messages that cover more than they have, or nothing at all, are no
 * gaps; the position goes on with each. */
TEST(a_filtered_stream_goes_on_by_what_it_covers)
{
    struct stage *s = *state;

    assert_follows(s, "d s t0-0 t0-2 t2-7 restart s t7-7 t7-8 t8-13", "0", 13,
                   "h h 3 6 h h 9 12 ", 1);
    assert_asked(s, 0, STREAM "?after=0" BY_TWO);
    assert_asked(s, 1, STREAM "?after=" EPOCH "-7" BY_TWO);
    assert_string_equal(s->position, EPOCH "-13");
}

static void
tell_of_gaps(struct stage *s, enum td_form form)
{
    hold_talk(s, &(struct talk){
                     .form = form,
                     .script = "d s t0-4 t2-4 t2-7 t16-19 hold pt7-8 pt8-16",
                     .after = "0",
                     .until = 19,
                     .rc = TD_STOPPED,
                     .seen = "3 6 h 9 12 15 18 ",
                     .second = CHANGES "-7" BY_TWO,
                     .third = CHANGES "-8" BY_TWO});
}

/* by the covered range it drops repeats and overlaps, and fills a
 * gap. */
TEST(a_filtered_stream_tells_repeats_and_gaps)
{
    tell_of_gaps(*state, TD_JSON);
}

TEST(so_it_does_in_xml)
{
    tell_of_gaps(*state, TD_XML);
}

/* the entries of a message must be within its coverage, in order. */
TEST(a_filtered_message_may_not_have_what_it_does_not_cover)
{
    struct stage *s = *state;
    const struct slice all = history_xml_every(&s->history, 0, 7, 3);
    const char *const texts[] = {
        spoil(s, all, "seq=\"6", "seq=\"8"),     /* beyond */
        spoil(s, all, "after=\"0", "after=\"3"), /* before */
        spoil(s, all, "seq=\"6", "seq=\"3"),     /* twice */
    };

    tell(s, "d s x d s x d s x", texts);
    for (int i = 0; i < 3; i++)
        assert_int_equal(follow(s, "0", TD_JSON, 7), TD_BROKEN);
    assert_string_equal(s->seen, "");
}

/* digests are of the whole log, and meet. */
TEST(another_past_is_found_out_with_filters_too)
{
    struct stage *s = *state;
    const char *text =
        spoil(s, history_xml_every(&s->history, 7, 7, 3), "sha-256:", "");

    tell(s, "d s t0-7 x", &text);
    assert_int_equal(follow(s, "0", TD_JSON, 9), TD_REWOUND);
    assert_non_null(strstr(td_problem(s->client), "digest of entry 7"));
}

/* design.md section 4: the moment is where the first connection begins; later
 * ones go on by position. */
TEST(a_moment_is_asked_for_once, set_stage, clear_stage)
{
    struct stage *s = *state;

    s->options.since = "2026-01-01T00:00:04.5+00:00";
    assert_follows(s, "d s 4-4 restart s 4-6", NULL, 6, "h 5 6 ", 1);
    assert_asked(s, 0, STREAM "?since=2026-01-01T00:00:04.5%2B00:00 HTTP");
    assert_asked(s, 1, STREAM "?after=" EPOCH "-4 HTTP");
}

TEST(filters_alone_begin_now)
{
    struct stage *s = *state;

    assert_follows(s, "d s t4-4 t4-7", NULL, 7, "h 6 ", 0);
    assert_asked(s, 0, STREAM "?change=created&tag=b%26c HTTP");
}

/* Nothing is sent where it makes no sense. */
TEST(refuses_what_is_no_filter_and_no_moment)
{
    struct stage *s = *state;
    static const struct td_filter bad[] = {
        {"change", "moved"}, {"lang", "de"}, {"tag", "a b"}, {"tag", NULL}};
    static const char *const moments[] = {"yesterday", "", "2026-13-01"};
    char long_value[1500];
    struct td_filter large = {"prefix", long_value};

    s->options.n_filters = 1;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        s->options.filters = &bad[i];
        assert_int_equal(follow(s, "0", TD_JSON, 1), TD_INVALID);
        assert_memory_equal(td_problem(s->client), bad[i].name,
                            strlen(bad[i].name));
    }
    memset(long_value, 'x', sizeof(long_value) - 1);
    long_value[sizeof(long_value) - 1] = '\0';
    s->options.filters = &large;
    assert_int_equal(follow(s, "0", TD_JSON, 1), TD_INVALID);

    s->options.n_filters = 0;
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        s->options.since = moments[i];
        assert_int_equal(follow(s, NULL, TD_JSON, 1), TD_INVALID);
    }
    s->options.since = "2026";
    assert_int_equal(follow(s, "0", TD_JSON, 1), TD_INVALID);
    assert_string_equal(td_problem(s->client),
                        "a position and a datetime are given: begin with "
                        "either");
}
