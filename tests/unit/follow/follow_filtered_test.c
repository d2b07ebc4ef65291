/*
 * follow_filtered_test.c - td_follow with filters, and from a moment on. The
 * broker lets through every third entry.
 */
#include "tests/test.h"
#include "tests/unit/follow/following.h"

static const struct td_filter two[] = {{"tag", "b&c"}, {"change", "created"}};

static struct slice
third(struct stage *s, uint64_t after, uint64_t last)
{
    return history_json_every(&s->history, after, last, 3);
}

static enum td_status
follow_two(struct stage *s, const char *after, enum td_form form,
           uint64_t until)
{
    s->options.filters = two;
    s->options.n_filters = 2;
    return follow(s, after, form, until);
}

FIXTURE(set_stage, clear_stage);

/* messages that cover more than they have, or nothing at all, are no
 * gaps; the position goes on with each. */
TEST(a_filtered_stream_goes_on_by_what_it_covers)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, third(s, 0, 0));
    fake_send(s->broker, third(s, 0, 2)); /* a heartbeat, further on */
    fake_send(s->broker, third(s, 2, 7));
    fake_close(s->broker, 1001, "restart");
    fake_stream(s->broker);
    fake_send(s->broker, third(s, 7, 7));
    fake_send(s->broker, third(s, 7, 8));
    fake_send(s->broker, third(s, 8, 13));
    fake_broker_start(s->broker);

    assert_int_equal(follow_two(s, "0", TD_JSON, 13), TD_STOPPED);

    assert_string_equal(s->seen, "h h 3 6 h h 9 12 ");
    assert_string_equal(s->position, EPOCH "-13");
    assert_asked(s, 0,
                 "GET /sets/news/stream?after=0&change=created&tag=b%26c HTTP");
    assert_asked(s, 1,
                 "GET /sets/news/stream?after=" EPOCH
                 "-7&change=created&tag=b%26c HTTP");
}

/* repeats and overlaps are dropped, a gap is filled, by what is
 * covered. */
TEST(a_filtered_stream_tells_repeats_and_gaps)
{
    struct stage *s = *state;

    for (int form = TD_JSON; form <= TD_XML; form++) {
        struct slice (*part)(struct history *, uint64_t, uint64_t, uint64_t) =
            form == TD_XML ? history_xml_every : history_json_every;

        fake_describe(s->broker);
        fake_stream(s->broker);
        fake_send(s->broker, part(&s->history, 0, 4, 3));
        fake_send(s->broker, part(&s->history, 2, 4, 3));
        fake_send(s->broker, part(&s->history, 2, 7, 3));
        fake_send(s->broker, part(&s->history, 16, 19, 3));
        fake_hold(s->broker);
        fake_answer(s->broker, 200,
                    form == TD_XML ? "application/xml" : "application/json",
                    part(&s->history, 7, 8, 3).data);
        fake_answer(s->broker, 200,
                    form == TD_XML ? "application/xml" : "application/json",
                    part(&s->history, 8, 16, 3).data);
    }
    fake_broker_start(s->broker);

    for (int form = TD_JSON; form <= TD_XML; form++) {
        s->seen[0] = '\0';
        assert_int_equal(follow_two(s, "0", (enum td_form)form, 19),
                         TD_STOPPED);
        assert_string_equal(s->seen, "3 6 h 9 12 15 18 ");
        assert_asked(s, 3 * (size_t)form + 1,
                     "GET /sets/news/changes?after=" EPOCH
                     "-7&change=created&tag=b%26c HTTP");
        assert_asked(s, 3 * (size_t)form + 2,
                     "GET /sets/news/changes?after=" EPOCH
                     "-8&change=created&tag=b%26c HTTP");
    }
}

/* what a message has must be within what it covers, in order. */
TEST(a_filtered_message_may_not_have_what_it_does_not_cover)
{
    struct stage *s = *state;
    char *beyond = history_copy(&s->history, third(s, 0, 7));
    char *before = history_copy(&s->history, third(s, 0, 7));
    char *twice = history_copy(&s->history, third(s, 0, 7));

    memcpy(strstr(beyond, "\"seq\":6"), "\"seq\":8", 7);
    memcpy(strstr(before, "\"after\":0"), "\"after\":3", 9);
    memcpy(strstr(twice, "\"seq\":6"), "\"seq\":3", 7);
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, slice_of(beyond));
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, slice_of(before));
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, slice_of(twice));
    fake_broker_start(s->broker);

    for (int i = 0; i < 3; i++)
        assert_int_equal(follow_two(s, "0", TD_JSON, 7), TD_BROKEN);
    assert_string_equal(s->seen, "");
}

/* digests are of the whole log, and meet. */
TEST(another_past_is_found_out_with_filters_too)
{
    struct stage *s = *state;
    char *spoilt = history_copy(&s->history, third(s, 7, 7));
    char *digit = strstr(spoilt, "sha-256:") + strlen("sha-256:");

    *digit = *digit == '0' ? '1' : '0';
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, third(s, 0, 7));
    fake_send(s->broker, slice_of(spoilt));
    fake_broker_start(s->broker);

    assert_int_equal(follow_two(s, "0", TD_JSON, 9), TD_BROKEN);
    assert_non_null(strstr(td_problem(s->client), "digest at 7"));
}

/* design.md section 4: the moment is where the first connection begins; later
 * ones go on by position. */
TEST(a_moment_is_asked_for_once)
{
    struct stage *s = *state;

    s->options.since = "2026-01-01T00:00:04.5+00:00";
    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 4, 4));
    fake_close(s->broker, 1001, "restart");
    fake_stream(s->broker);
    fake_send(s->broker, json(s, 4, 6));
    fake_broker_start(s->broker);

    assert_int_equal(follow(s, NULL, TD_JSON, 6), TD_STOPPED);

    assert_string_equal(s->seen, "h 5 6 ");
    assert_asked(
        s, 0, "GET /sets/news/stream?since=2026-01-01T00:00:04.5%2B00:00 HTTP");
    assert_asked(s, 1, "GET /sets/news/stream?after=" EPOCH "-4 HTTP");
}

TEST(filters_alone_begin_now)
{
    struct stage *s = *state;

    fake_describe(s->broker);
    fake_stream(s->broker);
    fake_send(s->broker, third(s, 4, 4));
    fake_send(s->broker, third(s, 4, 7));
    fake_broker_start(s->broker);

    assert_int_equal(follow_two(s, NULL, TD_JSON, 7), TD_STOPPED);
    assert_string_equal(s->seen, "h 6 ");
    assert_asked(s, 0, "GET /sets/news/stream?change=created&tag=b%26c HTTP");
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
