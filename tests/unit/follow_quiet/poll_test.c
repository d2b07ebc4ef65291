/*
 * poll_test.c - sources that push nothing: their Change Lists, again and again.
 */
#include "tests/clock.h"
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

static void
start_poll(struct stage *s, const char *after)
{
    s->offer =
        (struct offered){.url = LENT("http://127.0.0.1:1/caps.xml"),
                         .change_list = LENT("http://127.0.0.1:1/list.xml")};
    s->options.poll_ms = 1;
    start(s, after);
}

FIXTURE(set_stage, clear_stage);

/* For packages of Change Dumps, too. */
TEST(the_scratch_directory_is_for_lists_as_well)
{
    struct stage *s = *state;

    s->options.scratch = "/tmp/nowhere";
    start_poll(s, "@1970-01-01T00:00:05.000000Z+1");
    assert_string_equal(quiet_lists_scratch(), "/tmp/nowhere");
}

/* What is new, then a heartbeat at the place that is reached; again and again.
 */
TEST(asks_again_after_the_place_it_reached)
{
    struct stage *s = *state;

    start_poll(s, "@1970-01-01T00:00:05.000000Z+1");
    assert_int_equal(quiet_lists_after()->time_us, 5000000);
    assert_int_equal(quiet_lists_after()->n_at, 1);
    assert_true(quiet_entry("http://example.com/a", time_place(5, 2)));
    assert_true(quiet_entry("http://example.com/b", time_place(6, 1)));
    quiet_lists_end(TD_OK, "", time_place(8, 0));
    assert_told(s, "a b h ");
    assert_string_equal(s->last_text,
                        "{\"loc\":\"http://example.com/b\","
                        "\"change\":\"created\","
                        "\"datetime\":\"1970-01-01T00:00:06.000000Z\"}");
    assert_string_equal(s->position, "@1970-01-01T00:00:08.000000Z+0");
    assert_int_equal(quiet_lists_after()->time_us, 8000000);
    quiet_lists_end(TD_OK, "", time_place(8, 0));
    assert_told(s, "a b h h ");
}

/* Many are handed over some at a time, each with its place. */
TEST(many_entries_are_handed_over_some_at_a_time)
{
    struct stage *s = *state;

    start_poll(s, "0");
    for (int i = 1; i <= 1000; i++) {
        s->told[0] = '\0';
        assert_true(quiet_entry("http://example.com/a", time_place(i, 1)));
        if (i == 256)
            assert_string_equal(s->position, "@1970-01-01T00:04:16.000000Z+1");
    }
    quiet_lists_end(TD_OK, "", time_place(1000, 1));
    assert_string_equal(s->position, "@1970-01-01T00:16:40.000000Z+1");
}

TEST(begins_where_it_is_told)
{
    struct stage *s = *state;
    const struct place *after;

    start_poll(s, NULL);
    after = quiet_lists_after();
    assert_true(after->is_time);
    assert_true(after->time_us > INT64_C(1700000000000000)); /* now */
    leave(s);

    s->options.poll_ms = 1;
    s->offer.date = LENT("Sun, 06 Nov 1994 08:49:37 GMT"); /* its clock */
    start(s, NULL);
    assert_int_equal(quiet_lists_after()->time_us, INT64_C(784111777000000));
    assert_int_equal(quiet_lists_after()->n_at, 0);
    leave(s);

    start_poll(s, "0");
    assert_false(quiet_lists_after()->is_time);
    assert_int_equal(quiet_lists_after()->at.seq, 0);
    leave(s);

    s->options.since = "1970-01-01T00:00:09Z";
    start_poll(s, NULL);
    assert_int_equal(quiet_lists_after()->time_us, 9000001);
    assert_int_equal(quiet_lists_after()->n_at, 0);
}

/* A document that is not to be had for now: it is told, and so is what there
 * was before it; the lists go on. */
TEST(lists_that_wait_hold_nothing_back)
{
    struct stage *s = *state;
    unsigned ms = 300;

    start_poll(s, "0");
    quiet_entry("http://example.com/a", time_place(5, 1));
    assert_told(s, "");
    assert_true(quiet_lists_wait("503: busy", &ms));
    assert_told(s, "a ");
    assert_string_equal(s->trouble, "503: busy");
    assert_int_equal(ms, 300);
    assert_string_equal(s->position, "@1970-01-01T00:00:05.000000Z+1");
    assert_true(quiet_is_asking_lists());
    quiet_entry("http://example.com/b", time_place(6, 1));
    quiet_lists_end(TD_OK, "", time_place(6, 1));
    assert_told(s, "a b h ");
}

/* What was handed over before lists could not be read any further counts. */
TEST(ends_where_lists_are_broken)
{
    struct stage *s = *state;

    start_poll(s, "0");
    quiet_entry("http://example.com/a", time_place(5, 1));
    quiet_lists_end(TD_BROKEN, "what is that", NULL);
    assert_told(s, "a ");
    assert_ended(s, TD_BROKEN, "what is that");
}

TEST(may_be_closed_while_lists_wait)
{
    struct stage *s = *state;
    unsigned ms = 300;

    start_poll(s, "0");
    quiet_entry("http://example.com/a", time_place(5, 1));
    s->closes_at = "a ";
    assert_false(quiet_lists_wait("503: busy", &ms));
    assert_false(quiet_is_asking_lists());
    assert_int_equal(s->troubles, 0);

    start_poll(s, "0");
    quiet_lists_after();
    s->closes_on_trouble = true;
    assert_false(quiet_lists_wait("503: busy", &ms));
    assert_false(quiet_is_asking_lists());
}

/* Whoever is to catch up does not wait for ever. */
TEST(lists_that_wait_are_left_by_whom_is_to_catch_up)
{
    struct stage *s = *state;
    unsigned ms = 50000;

    s->options.until_caught_up = 1;
    s->options.patience_ms = 40000;
    start_poll(s, "0");
    quiet_lists_after();
    assert_true(quiet_lists_wait("503: busy", &ms));
    assert_true(ms <= 40000); /* a last attempt */
    leave(s);

    s->options.patience_ms = 1;
    start_poll(s, "0");
    quiet_lists_after();
    assert_true(quiet_lists_wait("503: busy", &ms));
    clock_pass_us(1000);
    assert_false(quiet_lists_wait("503: busy", &ms));
    assert_ended(s, TD_UNREACHABLE, "503: busy");
}

/* lists that do not reach back. */
TEST(a_window_that_slid_on_is_gone)
{
    struct stage *s = *state;

    start_poll(s, "@1970-01-01T00:00:05.000000Z+1");
    quiet_lists_end(TD_GONE, "the lists begin later", NULL);
    assert_ended(s, TD_GONE, "the lists begin later");
    leave(s);

    s->ends = 0;
    s->options.baseline = TD_BASELINE_GONE;
    start_poll(s, "@1970-01-01T00:00:05.000000Z+1");
    quiet_lists_end(TD_GONE, "the lists begin later", NULL);
    s->offer.resource_list = LENT("http://127.0.0.1:1/resources.xml");
    quiet_found(&s->offer);
    quiet_resource("http://example.com/r", NULL);
    quiet_baseline_end(TD_OK, "", time_place(9, 0));
    assert_int_equal(quiet_lists_after()->time_us, 9000000);
    quiet_entry("http://example.com/c", time_place(9, 1));
    quiet_lists_end(TD_OK, "", time_place(9, 1));
    assert_told(s, "B r:r E c h ");
}

/* a list that ends before the place may be an old one that was kept on
 * the way; one that stays so is of a log that has lost its end. */
TEST(lists_that_end_before_the_place_are_asked_again)
{
    struct stage *s = *state;

    start_poll(s, EPOCH "-5");
    for (int i = 0; i < 2; i++) {
        quiet_lists_end(TD_GONE, "ahead of the log", seq_place(3));
        assert_int_equal(s->troubles, i + 1);
        assert_string_equal(s->trouble, "ahead of the log");
    }
    assert_int_equal(quiet_lists_after()->at.seq, 5);
    assert_true(quiet_entry("http://example.com/6", seq_place(6)));
    quiet_lists_end(TD_OK, "", seq_place(6));
    assert_string_equal(s->position, EPOCH "-6");

    for (int i = 0; i < 2; i++)
        quiet_lists_end(TD_GONE, "ahead of the log", seq_place(3));
    assert_int_equal(s->ends, 0);
    quiet_lists_end(TD_GONE, "ahead of the log", seq_place(3));
    assert_ended(s, TD_GONE, "ahead of the log");
    leave(s);

    s->options.poll_ms = 3600000; /* not for what may be old */
    start(s, EPOCH "-5");
    quiet_lists_end(TD_GONE, "ahead of the log", seq_place(3));
    assert_int_equal(s->pause_ms, 60000);
}

/* Who is to catch up is told within its patience. */
TEST(a_log_that_lost_its_end_is_told_to_who_catches_up)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    s->options.patience_ms = 6000;
    start_poll(s, EPOCH "-5");
    leave(s);
    s->options.poll_ms = 60000;
    start(s, EPOCH "-5");
    for (int i = 0; i < 3; i++)
        quiet_lists_end(TD_GONE, "ahead of the log", seq_place(3));
    assert_ended(s, TD_GONE, "ahead of the log");
}

TEST(ends_with_the_lists_when_it_is_to_catch_up)
{
    struct stage *s = *state;

    s->options.until_caught_up = 1;
    start_poll(s, "0");
    quiet_entry("http://example.com/a", time_place(5, 1));
    quiet_lists_end(TD_OK, "", time_place(5, 1));
    assert_ended(s, TD_OK, "");
    assert_told(s, "a h ");
}

/* Lists of Tidings have seqs, which are what counts. */
TEST(lists_with_seqs_are_followed_by_seq)
{
    struct stage *s = *state;

    s->options.transports = TD_POLL;
    s->options.poll_ms = 1;
    start(s, EPOCH "-4");
    assert_true(quiet_entry("http://example.com/a", seq_place(4)));
    assert_true(quiet_entry("http://example.com/a", seq_place(5)));
    quiet_lists_end(TD_OK, "", seq_place(5));
    assert_told(s, "5 h ");
    assert_string_equal(s->position, EPOCH "-5");
    assert_int_equal(quiet_lists_after()->at.seq, 5);
    assert_false(quiet_entry("http://example.com/a", seq_place(7)));
    assert_ended(s, TD_BROKEN, "a gap before 7");
}

TEST(a_pause_holds_lists_back)
{
    struct stage *s = *state;

    start_poll(s, "0");
    quiet_await(quiet_is_asking_lists, "lists");
    td_follower_pause(s->follower);
    assert_true(quiet_is_held());
    td_follower_resume(s->follower);
    s->pauses_at = "b ";
    quiet_turn();
    quiet_entry("http://example.com/a", time_place(5, 1));
    quiet_entry("http://example.com/b", time_place(5, 2));
    quiet_lists_end(TD_OK, "", time_place(5, 2));
    quiet_turn();
    assert_told(s, "a b ");
    assert_false(quiet_is_asking_lists());
    td_follower_resume(s->follower);
    quiet_turn();
    assert_told(s, "a b h ");

    /* Partly handed over, and over while it is paused. */
    s->pauses_at = NULL;
    quiet_entry("http://example.com/c", time_place(6, 1));
    td_follower_pause(s->follower);
    quiet_lists_break(TD_BROKEN, "what is that");
    quiet_turn();
    assert_told(s, "a b h ");
    td_follower_resume(s->follower);
    quiet_turn();
    assert_told(s, "a b h c ");
    assert_ended(s, TD_BROKEN, "what is that");
}

/* where it goes on the source says. */
TEST(a_source_whose_list_is_closed_is_asked_anew)
{
    struct stage *s = *state;

    start_poll(s, "0");
    quiet_entry("http://example.com/a", time_place(5, 1));
    quiet_lists_close(time_place(6, 0));
    assert_told(s, "a h ");
    quiet_await(quiet_is_seeking, "a source that is asked anew");
    quiet_found(&s->offer);
    assert_int_equal(quiet_lists_after()->time_us, 6000000);
}

TEST(a_list_that_is_not_there_any_more_may_have_moved)
{
    static const unsigned statuses[] = {404, 410};
    struct stage *s = *state;

    for (size_t i = 0; i < 2; i++) {
        start_poll(s, "0");
        quiet_lists_end(TD_OK, "", time_place(6, 0));
        quiet_lists_refuse(statuses[i]);
        quiet_await(quiet_is_seeking, "a source that is asked anew");
        quiet_found(&s->offer);
        quiet_lists_refuse(statuses[i]);
        assert_ended(s, TD_REFUSED, i ? "410" : "404");
        leave(s);
        s->ends = 0;
    }
}

TEST(trouble_may_pause_it)
{
    struct stage *s = *state;
    unsigned ms = 300;

    start_poll(s, "0");
    quiet_lists_after();
    s->pauses_on_trouble = true;
    assert_true(quiet_lists_wait("503: busy", &ms));
    assert_true(quiet_is_held());
    td_follower_resume(s->follower);
    quiet_turn();
    assert_false(quiet_is_held());
}
