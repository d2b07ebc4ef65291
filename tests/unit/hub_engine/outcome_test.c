#include "broker/archive/retain.h"
#include "broker/hub/delivery.h"
#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

FIXTURE(tempdir_setup, tempdir_teardown);

/* W-089: pauses double, within a half of what they may be, up to the longest;
 * so does the last. */
TEST(backs_off_longer_and_longer)
{
    int64_t full_us = SECOND;
    struct subscription *s;

    engine_configure(state);
    e.sets.config.hub_retry_first_us = SECOND;
    e.sets.config.hub_retry_max_us = 10 * SECOND;
    engine_start();
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    for (unsigned i = 0; i < 12; i++) {
        finish(s, 500);
        assert_in_range(next_alarm(), full_us / 2, full_us);
        full_us = full_us * 2 < 10 * SECOND ? full_us * 2 : 10 * SECOND;
        pass(next_alarm());
        assert_true(is_under_way(s));
    }
    engine_close();
}

/* W-089: those who failed together do not come back together. */
TEST(spreads_those_who_failed_together)
{
    struct subscription *s[8];
    char url[8][40];
    unsigned n_others = 0;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(url[i], sizeof(url[i]), "http://receiver.example/%u", i);
        s[i] = subscribe("demo", url[i], 0);
    }
    turns();
    for (unsigned i = 0; i < 8; i++)
        finish(s[i], 500);
    for (unsigned i = 1; i < 8; i++)
        n_others += s[i]->retry_alarm.at_us != s[0]->retry_alarm.at_us;
    assert_true(n_others > 0);
    engine_close();
}

/* W-089: Retry-After counts with 429 and 503, where it is longer, but does not
 * put off giving up. */
TEST(leaves_alone_who_asks_for_it)
{
    struct subscription *s;

    engine_configure(state);
    e.sets.config.hub_retry_first_us = SECOND;
    e.sets.config.hub_give_up_us = 600 * SECOND;
    engine_start();
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    finish_after(s, 503, 100 * SECOND);
    assert_int_equal(next_alarm(), 100 * SECOND);
    assert_string_equal(s->last_error, "503 Service Unavailable");
    pass(100 * SECOND);
    finish_after(s, 429, 200 * SECOND);
    assert_int_equal(next_alarm(), 200 * SECOND);
    pass(200 * SECOND);
    finish_after(s, 404, 200 * SECOND);
    assert_in_range(next_alarm(), 2 * SECOND, 4 * SECOND);
    pass(next_alarm());
    finish_after(s, 503, 86400 * SECOND);
    assert_in_range(next_alarm(), 1, 300 * SECOND); /* the last try */
    pass(next_alarm());
    finish(s, 503);
    assert_int_equal(s->after, 1);
    engine_close();
}

/* W-087, R-297: whatever is no 2xx is a failure, and said as it was. */
TEST(takes_all_else_for_a_failure)
{
    static const struct {
        unsigned status;
        const char *error;
    } answers[] = {
        {301, "301 Moved Permanently: not followed"},
        {302, "302 Found: not followed"},
        {307, "307 Temporary Redirect: not followed"},
        {308, "308 Permanent Redirect: not followed"},
        {400, "400 Bad Request"},
        {404, "404 Not Found"},
        {500, "500 Internal Server Error"},
    };
    struct subscription *s;
    size_t n = sizeof(answers) / sizeof(answers[0]);

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    for (size_t i = 0; i < n; i++) {
        finish(s, answers[i].status);
        assert_int_equal(s->failures, i + 1);
        assert_int_equal(s->last_status, answers[i].status);
        assert_string_equal(s->last_error, answers[i].error);
        pass(next_alarm());
    }
    break_off(s, CALL_TIMEOUT, "it took longer than 10 s");
    assert_string_equal(s->last_error, "it took longer than 10 s");
    assert_int_equal(s->last_status, 0);
    assert_int_equal(s->n_failed, n + 1);
    assert_int_equal(s->after, 0);
    engine_close();
}

/* What our own side lacks is no failure of the callback. */
TEST(does_not_blame_a_callback_for_our_memory)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    break_off(s, CALL_MEMORY, "no memory");
    assert_int_equal(s->failures, 0);
    pass(SECOND);
    assert_true(is_under_way(s));
    assert_false(last_sent()->is_suspect);
    engine_close();
}

/* W-090, R-305: when the time is over only this range is given up, and counted;
 * the next one is tried, and begins where the hole ends: its `after` shows it
 * to a receiver, whose position is before. */
TEST(gives_up_one_range_and_goes_on)
{
    struct subscription *s;
    unsigned n = 0;

    engine_configure(state);
    e.sets.config.hub_give_up_us = 100 * SECOND;
    engine_start();
    sets_post(&e.sets, "demo", 0, 3);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    finish(s, 200);
    sets_post(&e.sets, "demo", 3, 4);
    turns();
    sets_post(&e.sets, "demo", 7, 2);
    for (; s->n_skipped == 0; n++) {
        assert_sent(last_sent(), 3, 7);
        finish(s, 500);
        if (s->n_skipped == 0)
            pass(next_alarm());
    }

    assert_in_range(n, 5, 50);
    assert_int_equal(s->n_skipped, 4);
    assert_int_equal(s->after, 7);
    assert_int_equal(e.n_ended, 0);
    assert_sent(last_sent(), 7, 9);
    finish(s, 200);
    assert_int_equal(s->failures, 0);
    engine_close();
}

/* With a filter the entries that are missed are those that pass. */
TEST(counts_what_passes_as_skipped)
{
    struct subscription *s;

    engine_configure(state);
    e.sets.config.hub_give_up_us = 1;
    engine_start();
    sets_post(&e.sets, "demo", 0, 20);
    s = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                        "http://receiver.example/", 0);
    set_filter(s, "prefix=http://example.com/r/1");
    deliver_begin(s);
    turns();
    finish(s, 500);
    pass(next_alarm());
    finish(s, 500);
    assert_int_equal(s->n_skipped, 11); /* 1, 10 ... 19 */
    assert_int_equal(s->after, 20);
    engine_close();
}

/* W-086: 410 ends a subscription at once; that of an external hub has no end.
 */
TEST(ends_when_the_callback_is_gone)
{
    struct subscription *s, *hub;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    hub = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                          "http://hub.example/", 0);
    hub->kind = SUBSCRIPTION_HUB;
    deliver_begin(hub);
    turns();
    finish(s, 410);
    assert_int_equal(e.n_ended, 1);
    assert_int_equal(e.how, END_GONE);
    finish(hub, 410);
    assert_int_equal(e.n_ended, 1);
    assert_int_equal(hub->failures, 1);
    engine_close();
}

/* W-035, W-037: a renewal does not interrupt what is in flight. With another
 * filter a range that failed is not tried again under its id, for it has other
 * bytes now. */
TEST(has_another_id_when_the_filter_is_another)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 20);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    set_filter(s, "prefix=http://example.com/r/1");
    deliver_look(s);
    turns();
    assert_int_equal(e.n_sent, 1);
    finish(s, 500);
    pass(next_alarm());
    assert_int_equal(e.n_sent, 2);
    assert_true(e.sent[1].body.size < e.sent[0].body.size);
    assert_string_not_equal(header(&e.sent[0], "Tidings-Delivery"),
                            header(&e.sent[1], "Tidings-Delivery"));
    engine_close();
}

/* Lets go of all closed lists but the latest. */
static void
retire(const char *name)
{
    sets_rotate(&e.sets, name);
    sets_file_all(&e.sets);
    retain_all(e.sets.registry);
    sets_fold_all(&e.sets);
    retain_all(e.sets.registry);
}

/* Retention does not wait for who is behind: the cursor is moved to the
 * earliest, what is missed is counted, and the next message's `after` shows the
 * hole. So it is with a range that was tried, and can be made no more. */
TEST(goes_on_at_the_earliest_that_is_retained)
{
    struct subscription *s, *tried;

    engine_configure(state);
    e.sets.config.retain_lists = 1;
    engine_start();
    sets_post(&e.sets, "demo", 0, 4);
    sets_rotate(&e.sets, "demo");
    sets_post(&e.sets, "demo", 4, 2);
    retire("demo"); /* list 1, of four, goes; list 2 stays */
    sets_post(&e.sets, "demo", 6, 1);
    assert_int_equal(sets_head(&e.sets, "demo").earliest, 4);

    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    run_jobs();
    assert_int_equal(s->n_skipped, 4);
    assert_sent(last_sent(), 4, 7);
    finish(s, 200);
    tried = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                            "http://receiver.example/tried", 1);
    tried->range_last = 3;
    deliver_begin(tried);
    turns();
    run_jobs();
    assert_int_equal(tried->n_skipped, 3);
    assert_ptr_equal(last_sent()->s, tried);
    assert_sent(last_sent(), 4, 7);
    assert_int_equal(tried->failures, 0);
    engine_close();
}

/* What nothing of passed is not missed when it goes. */
TEST(does_not_count_as_skipped_what_did_not_pass)
{
    struct subscription *s;

    engine_configure(state);
    e.sets.config.retain_lists = 1;
    engine_start();
    sets_post(&e.sets, "demo", 0, 4);
    s = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                        "http://receiver.example/", 0);
    set_filter(s, "prefix=http://example.com/r/77");
    deliver_begin(s);
    turns();
    sets_rotate(&e.sets, "demo");
    sets_post(&e.sets, "demo", 4, 2);
    turns();
    retire("demo");
    turns();
    assert_int_equal(s->reached, 6);
    sets_post(&e.sets, "demo", 77, 1);
    turns();
    run_jobs();
    assert_int_equal(s->n_skipped, 0);
    assert_int_equal(e.n_sent, 1);
    finish(s, 200);
    assert_int_equal(s->after, 7);
    engine_close();
}
