#include "broker/hub/delivery.h"
#include "tests/test.h"
#include "tests/unit/hub_engine/engine.h"

FIXTURE(engine_setup, engine_teardown);

/* W-089: pauses double up to the longest, each between half of its length and
 * all of it. */
TEST(backs_off_longer_and_longer, engine_configure, engine_teardown)
{
    int64_t full_us = SECOND;
    struct subscription *s;

    e.sets.config.hub_retry.first_us = SECOND;
    e.sets.config.hub_retry.max_us = 10 * SECOND;
    engine_start();
    s = first_delivery(1);
    for (unsigned i = 0; i < 12; i++) {
        finish(s, 500);
        assert_in_range(next_alarm(), full_us / 2, full_us);
        full_us = full_us * 2 < 10 * SECOND ? full_us * 2 : 10 * SECOND;
        pass(next_alarm());
        assert_true(is_under_way(s));
    }
}

/* W-089: deliveries that failed together are not repeated together. */
TEST(spreads_those_who_failed_together)
{
    struct subscription *s[8];
    unsigned n_others = 0;

    post(1);
    for (unsigned i = 0; i < 8; i++)
        s[i] = subscribe_nth("/%u", i, 0);
    turns();
    for (unsigned i = 0; i < 8; i++)
        finish(s[i], 500);
    for (unsigned i = 1; i < 8; i++)
        n_others += s[i]->retry_alarm.at_us != s[0]->retry_alarm.at_us;
    assert_true(n_others > 0);
}

/* W-089: Retry-After counts with 429 and 503, where it is longer, but does not
 * put off giving up. */
TEST(leaves_alone_who_asks_for_it, engine_configure, engine_teardown)
{
    struct subscription *s;

    e.sets.config.hub_retry.first_us = SECOND;
    e.sets.config.hub_give_up_us = 600 * SECOND;
    engine_start();
    s = first_delivery(1);
    finish_after(s, 503, 100 * SECOND);
    assert_int_equal(next_alarm(), 100 * SECOND);
    assert_string_equal(s->history.last_error, "503 Service Unavailable");
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
    assert_int_equal(s->reader.after, 1);
}

/* W-087, R-297: every status but 2xx is a failure, and the report names it. */
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

    s = first_delivery(1);
    for (size_t i = 0; i < n; i++) {
        finish(s, answers[i].status);
        assert_int_equal(s->failures, i + 1);
        assert_int_equal(s->history.last_status, answers[i].status);
        assert_string_equal(s->history.last_error, answers[i].error);
        pass(next_alarm());
    }
    break_off(s, CALL_TIMEOUT, "it took longer than 10 s");
    assert_string_equal(s->history.last_error, "it took longer than 10 s");
    assert_int_equal(s->history.last_status, 0);
    assert_int_equal(s->history.n_failed, n + 1);
    assert_int_equal(s->reader.after, 0);
}

/* A lack of memory in the broker is no failure of the callback. */
TEST(does_not_blame_a_callback_for_our_memory)
{
    struct subscription *s = first_delivery(1);
    break_off(s, CALL_MEMORY, "no memory");
    assert_int_equal(s->failures, 0);
    pass(SECOND);
    assert_true(is_under_way(s));
    assert_false(last_sent()->is_suspect);
}

/* W-090, R-305: when the time is over the hub gives up this range only, and
 * counts it. The next range begins at the end of the hole: a receiver sees the
 * hole by its `after`. */
TEST(gives_up_one_range_and_goes_on, engine_configure, engine_teardown)
{
    struct subscription *s;
    unsigned n = 0;

    e.sets.config.hub_give_up_us = 100 * SECOND;
    engine_start();
    s = first_delivery(3);
    finish(s, 200);
    post(4);
    turns();
    post(2);
    for (; s->history.n_skipped == 0; n++) {
        assert_sent(last_sent(), 3, 7);
        finish(s, 500);
        if (s->history.n_skipped == 0)
            pass(next_alarm());
    }

    assert_in_range(n, 5, 50);
    assert_int_equal(s->history.n_skipped, 4);
    assert_int_equal(s->reader.after, 7);
    assert_int_equal(e.n_ended, 0);
    assert_sent(last_sent(), 7, 9);
    finish(s, 200);
    assert_int_equal(s->failures, 0);
}

/* With a filter only the entries that pass count as skipped. */
TEST(counts_what_passes_as_skipped, engine_configure, engine_teardown)
{
    struct subscription *s;

    e.sets.config.hub_give_up_us = 1;
    engine_start();
    post(20);
    s = new_subscription("/", 0);
    set_filter(s, "prefix=http://example.com/r/1");
    delivery_begin(s);
    turns();
    finish(s, 500);
    pass(next_alarm());
    finish(s, 500);
    assert_int_equal(s->history.n_skipped, 11); /* 1, 10 ... 19 */
    assert_int_equal(s->reader.after, 20);
}

/* W-086: 410 ends a subscription at once; that of an external hub has no end.
 */
TEST(ends_when_the_callback_is_gone)
{
    struct subscription *s, *hub;

    post(1);
    s = subscribe("/", 0);
    hub = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                          "http://hub.example/", 0);
    hub->kind = SUBSCRIPTION_HUB;
    delivery_begin(hub);
    turns();
    finish(s, 410);
    assert_int_equal(e.n_ended, 1);
    assert_int_equal(e.how, END_GONE);
    finish(hub, 410);
    assert_int_equal(e.n_ended, 1);
    assert_int_equal(hub->failures, 1);
}

/* W-035, W-037: a renewal does not interrupt what is in flight. With another
 * filter a range that failed is not tried again under its id, for it has other
 * bytes now. */
TEST(has_another_id_when_the_filter_is_another)
{
    struct subscription *s = first_delivery(20);
    set_filter(s, "prefix=http://example.com/r/1");
    delivery_look(s);
    turns();
    assert_int_equal(e.n_sent, 1);
    finish(s, 500);
    pass(next_alarm());
    assert_int_equal(e.n_sent, 2);
    assert_true(e.sent[1].body.size < e.sent[0].body.size);
    assert_string_not_equal(delivery_id(&e.sent[0]), delivery_id(&e.sent[1]));
}

/* W-094: nor with another form. */
TEST(has_another_id_when_the_form_is_another)
{
    struct subscription *s = first_delivery(3);

    s->reader.form = MESSAGE_CLOUDEVENT;
    finish(s, 500);
    pass(next_alarm());
    assert_string_equal(header(last_sent(), "Content-Type"),
                        "application/cloudevents+json");
    assert_string_not_equal(delivery_id(&e.sent[0]), delivery_id(last_sent()));
    for (uint64_t seq = 1; seq <= 3; seq++) { /* one at a time */
        assert_kept(s, seq - 1, seq);
        finish(s, 200);
    }
    assert_int_equal(e.n_sent, 4);
    assert_int_equal(s->reader.after, 3);
}

/* Removes all closed lists of the set but the latest. */
static void
retire_lists(void)
{
    sets_rotate(&e.sets, "demo");
    sets_file_all(&e.sets);
    sets_retain(&e.sets);
    sets_fold_all(&e.sets);
    sets_retain(&e.sets);
}

/* Retention does not wait for a subscription that is behind: its cursor moves
 * to the earliest entry, the missed entries are counted, and the `after` of the
 * next message shows the hole. The same holds for a range that was tried. */
TEST(goes_on_at_the_earliest_that_is_retained, engine_configure,
     engine_teardown)
{
    struct subscription *s, *tried;

    e.sets.config.retain_lists = 1;
    engine_start();
    post(4);
    sets_rotate(&e.sets, "demo");
    post(2);
    retire_lists(); /* list 1, of four, goes; list 2 stays */
    post(1);
    assert_int_equal(sets_head(&e.sets, "demo").earliest, 4);

    s = subscribe("/", 0);
    turns();
    run_jobs();
    assert_int_equal(s->history.n_skipped, 4);
    assert_sent(last_sent(), 4, 7);
    finish(s, 200);
    tried = new_subscription("/tried", 1);
    tried->reader.upto = 3;
    delivery_begin(tried);
    turns();
    run_jobs();
    assert_int_equal(tried->history.n_skipped, 3);
    assert_ptr_equal(last_sent()->s, tried);
    assert_sent(last_sent(), 4, 7);
    assert_int_equal(tried->failures, 0);
}

/* Entries that did not pass the filter are not counted as skipped when
 * retention removes them. */
TEST(does_not_count_as_skipped_what_did_not_pass, engine_configure,
     engine_teardown)
{
    struct subscription *s;

    e.sets.config.retain_lists = 1;
    engine_start();
    post(4);
    s = new_subscription("/", 0);
    set_filter(s, "prefix=http://example.com/r/77");
    delivery_begin(s);
    turns();
    sets_rotate(&e.sets, "demo");
    post(2);
    turns();
    retire_lists();
    turns();
    assert_int_equal(s->reader.reached, 6);
    sets_post(&e.sets, "demo", 77, 1);
    turns();
    run_jobs();
    assert_int_equal(s->history.n_skipped, 0);
    assert_int_equal(e.n_sent, 1);
    finish(s, 200);
    assert_int_equal(s->reader.after, 7);
}
