/*
 * push_test.c - messages that another program hands to a waiting follower.
 */
#include "client/follow/follower.h"
#include "tests/test.h"
#include "tests/unit/follow_quiet/quiet.h"
#include "tests/unit/follow_quiet/quiet_stage.h"

static bool
on_sought(struct td_follower *f, void *owner)
{
    (void)f;
    (void)owner;
    return true;
}

static void
on_close(void *owner)
{
    (void)owner;
}

/* It has asked the Change Lists, which had nothing, and waits. */
static void
start_waiting(struct stage *s, const char *after,
              const struct source_position *upto)
{
    s->offer = (struct offered){.url = LENT(SET_URL),
                                .name = LENT("news"),
                                .change_list = LENT(SET_URL "/list")};
    s->options.form = TD_XML;
    s->options.poll_ms = 3600000;
    open_follower(s, after);
    s->follower->pusher =
        (struct pusher){.sought = on_sought, .close = on_close};
    quiet_found(&s->offer);
    quiet_lists_end(STATUS_OK, "", upto);
    assert_told(s, "h ");
}

static void
push(struct stage *s, struct slice message)
{
    push_message(s->follower, message.data, message.size);
}

FIXTURE(set_stage, clear_stage);

/* the follower accepts a message that continues at its place, and asks
 * for everything else. */
TEST(a_message_is_believed_where_it_goes_on)
{
    struct stage *s = *state;

    start_waiting(s, EPOCH "-2", seq_place(2));
    push(s, history_xml(&s->history, 0, 2)); /* a repeat */
    push(s, history_xml(&s->history, 2, 4));
    assert_told(s, "h 3 4 ");
    assert_false(quiet_is_asking_lists());

    push(s, history_xml(&s->history, 6, 7));
    assert_int_equal(quiet_lists_after()->at.seq, 4);
    quiet_lists_end(STATUS_OK, "", seq_place(4));
    push(s, SLICE("no message"));
    assert_int_equal(quiet_lists_after()->at.seq, 4);
    assert_told(s, "h 3 4 h ");
}

/* A push teaches a follower nothing but to ask. */
TEST(a_message_of_another_log_does_not_change_where_it_stands)
{
    const struct source_position beginning = {.is_time = false};
    struct stage *s = *state;

    start_waiting(s, "0", &beginning);
    push(s, history_xml(&s->other, 3, 4));
    assert_string_equal(quiet_lists_after()->at.epoch, "");
    assert_int_equal(quiet_lists_after()->at.seq, 0);
}
