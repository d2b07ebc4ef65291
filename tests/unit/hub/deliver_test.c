#include "broker/hub/deliver.h"

#include "tests/unit/hub/engine.h"

/* W-080, W-081, W-083, W-085; R-296: what is committed goes to the callback as
 * it was given, with the topic's type and one line of links; after a 2xx the
 * subscription rests. */
static void
delivers_what_is_committed(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 2);
    s = subscribe("demo", "http://receiver.example/cb?a=b&c", 2);
    turns();
    assert_int_equal(e.n_sent, 0);

    sets_post(&e.sets, "demo", 2, 3);
    turns();

    assert_int_equal(e.n_sent, 1);
    assert_string_equal(last_sent()->call->url,
                        "http://receiver.example/cb?a=b&c");
    assert_string_equal(header(last_sent(), "Content-Type"), "application/xml");
    assert_string_equal(header(last_sent(), "Link"),
                        "<" SETS_URL "/hub>; rel=\"hub\", <" SETS_URL
                        "/sets/demo/notifications>; rel=\"self\"");
    assert_sent(last_sent(), 2, 5);
    assert_kept(s, 2, 5);
    finish(s, 204);
    assert_int_equal(s->after, 5);
    assert_int_equal(s->n_deliveries, 1);
    assert_int_equal(e.n_sent, 1);
    engine_close();
}

/* W-093, R-306: one delivery in flight; what accumulates goes out merged, in
 * order, when it has come to its end. */
static void
merges_what_comes_while_one_is_in_flight(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    for (unsigned i = 1; i < 10; i++) {
        sets_post(&e.sets, "demo", i, 1);
        turns();
    }
    assert_int_equal(e.n_sent, 1);
    assert_sent(last_sent(), 0, 1);

    finish(s, 200);

    assert_int_equal(e.n_sent, 2);
    assert_sent(last_sent(), 1, 10);
    finish(s, 200);
    assert_int_equal(e.n_sent, 2);
    engine_close();
}

/* R-306, W-091: the range is fixed at the first try: each later one is the same
 * bytes under the same id, whatever was committed meanwhile. */
static void
repeats_a_failed_delivery_byte_for_byte(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 2);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    for (unsigned i = 0; i < 5; i++) {
        finish(s, 500);
        sets_post(&e.sets, "demo", 2 + i, 1);
        pass(next_alarm());
    }

    assert_int_equal(e.n_sent, 6);
    for (size_t i = 1; i < 6; i++) {
        assert_true(slice_equal(buf_slice(&e.sent[i].body),
                                buf_slice(&e.sent[0].body)));
        assert_string_equal(header(&e.sent[i], "Tidings-Delivery"),
                            header(&e.sent[0], "Tidings-Delivery"));
        assert_true(e.sent[i].is_suspect);
    }
    finish(s, 200);
    assert_sent(last_sent(), 2, 7);
    assert_string_not_equal(header(last_sent(), "Tidings-Delivery"),
                            header(&e.sent[0], "Tidings-Delivery"));
    assert_int_equal(s->failures, 0);
    engine_close();
}

/* W-089: pauses double, within a half of what they may be, up to the longest;
 * so does the last. */
static void
backs_off_longer_and_longer(void **state)
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
static void
spreads_those_who_failed_together(void **state)
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
static void
leaves_alone_who_asks_for_it(void **state)
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
static void
takes_all_else_for_a_failure(void **state)
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
static void
does_not_blame_a_callback_for_our_memory(void **state)
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
static void
gives_up_one_range_and_goes_on(void **state)
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
static void
counts_what_passes_as_skipped(void **state)
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
static void
ends_when_the_callback_is_gone(void **state)
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

/* what an external hub gets is a fat ping. */
static void
posts_to_an_external_hub_as_its_source(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                        "http://hub.example/hub", 0);
    s->kind = SUBSCRIPTION_HUB;
    deliver_begin(s);
    turns();
    assert_string_equal(header(last_sent(), "Link"),
                        "<http://hub.example/hub>; rel=\"hub\", <" SETS_URL
                        "/sets/demo/notifications>; rel=\"self\", <" SETS_URL
                        "/sets/demo/capabilitylist.xml>; rel=\"resourcesync\"");
    assert_string_equal(header(last_sent(), "Content-Type"), "application/xml");
    assert_string_equal(header(last_sent(), "Idempotency-Key"),
                        header(last_sent(), "Tidings-Delivery"));
    engine_close();
}

/* W-100, W-102, W-103, R-304: signed with its own secret over the exact bytes,
 * or not at all. */
static void
signs_with_the_secret(void **state)
{
    struct subscription *with, *without;
    const struct sent *sent;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    with = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                           "http://receiver.example/1", 0);
    with->signer = signer_new(SIGNATURE_SHA256, SLICE("s3cret"));
    deliver_begin(with);
    without = subscribe("demo", "http://receiver.example/2", 0);
    turns();
    assert_int_equal(e.n_sent, 2);
    sent = &e.sent[0];
    assert_ptr_equal(sent->s, with);
    assert_int_equal(signature_check(slice_of(header(sent, "X-Hub-Signature")),
                                     SLICE("s3cret"), buf_slice(&sent->body),
                                     NULL),
                     STATUS_OK);
    assert_string_equal(header(sent, "webhook-id"), "");
    assert_ptr_equal(last_sent()->s, without);
    assert_null(strstr(last_sent()->headers, "Signature"));
    engine_close();
}

static int64_t wall_us;

static int64_t
wall_clock(void)
{
    return wall_us;
}

/* W-106: the id stays over retries, the time is that of each try, and the
 * signature goes with it. */
static void
signs_as_standard_webhooks_do(void **state)
{
    struct subscription *s;
    const struct sent *first, *second;

    wall_us = 1700000000 * SECOND;
    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    clock_replace(wall_clock);
    s = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                        "http://receiver.example/", 0);
    s->signer = signer_new(SIGNATURE_SHA256,
                           SLICE("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"));
    deliver_begin(s);
    turns();
    finish(s, 500);
    wall_us += 7 * SECOND;
    pass(next_alarm());
    clock_replace(NULL);
    assert_int_equal(e.n_sent, 2);
    first = &e.sent[0];
    second = &e.sent[1];
    assert_string_equal(header(first, "webhook-timestamp"), "1700000000");
    assert_string_equal(header(second, "webhook-timestamp"), "1700000007");
    assert_string_equal(header(first, "webhook-id"),
                        header(first, "Tidings-Delivery"));
    assert_string_equal(header(first, "webhook-id"),
                        header(second, "webhook-id"));
    assert_true(!strncmp(header(first, "webhook-signature"), "v1,", 3));
    assert_string_not_equal(header(first, "webhook-signature"),
                            header(second, "webhook-signature"));
    assert_string_equal(header(first, "X-Hub-Signature"),
                        header(second, "X-Hub-Signature"));
    engine_close();
}

/* W-072: no delivery after the end of the lease, also of what was due before.
 */
static void
delivers_nothing_after_the_lease(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    s->lease_end_us = clock_now_us() - 1;
    turns();
    pass(10 * SECOND);
    assert_int_equal(e.n_sent, 0);
    engine_close();
}

/* After kill -9 a delivery in flight is repeated as it was: so nothing goes out
 * whose range is not kept. */
static void
sends_nothing_that_is_not_kept(void **state)
{
    struct subscription *s, *other;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    e.disk_is_full = true;
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    pass(5 * SECOND);
    assert_int_equal(e.n_sent, 0);
    other = subscribe("demo", "http://receiver.example/other", 0);
    deliver_turn(&e.hub); /* a turn in which nothing was written */
    assert_int_equal(e.n_sent, 0);

    e.disk_is_full = false;
    pass(2 * SECOND);

    assert_int_equal(e.n_sent, 2);
    assert_kept(s, 0, 1);
    assert_kept(other, 0, 1);
    finish(s, 200);
    engine_close();
}

/* A retry's range stands in hub.db: it goes without being written again. */
static void
does_not_keep_a_range_twice(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    finish(s, 500);
    e.disk_is_full = true;
    pass(next_alarm());
    assert_int_equal(e.n_sent, 2);
    assert_int_equal(e.n_kept, 1);
    engine_close();
}

/* W-074, R-306: after a restart the range that was tried is tried again: the
 * same bytes, the same id, whatever came meanwhile and whatever the limit of a
 * message is now. */
static void
repeats_the_range_after_a_restart(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post_heavy(&e.sets, "demo", 0, 50, 3000);
    s = subscribe("demo", "http://receiver.example/", 10);
    turns();
    assert_sent(last_sent(), 10, 50);
    engine_stop();

    e.n_calls = e.n_alarms = 0;
    e.last_id = 0;
    memset(&e.hub, 0, sizeof(e.hub));
    e.sets.config.message_bytes = 64 << 10;
    engine_start();
    sets_post(&e.sets, "demo", 50, 5);
    s = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                        "http://receiver.example/", 10);
    s->range_last = 50;
    deliver_begin(s);
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, 2);
    assert_true(
        slice_equal(buf_slice(&e.sent[0].body), buf_slice(&e.sent[1].body)));
    assert_string_equal(header(&e.sent[0], "Tidings-Delivery"),
                        header(&e.sent[1], "Tidings-Delivery"));
    finish(s, 200);
    run_jobs();
    assert_sent(last_sent(), 50, 55);
    engine_close();
}

/* Many at the same place: one message is made for all. */
static void
makes_one_body_for_all_at_the_same_place(void **state)
{
    enum { CROWD = 2000 };

    static char url[CROWD][40];
    static struct subscription *s[CROWD];

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    for (unsigned i = 0; i < CROWD; i++) {
        snprintf(url[i], sizeof(url[i]), "http://receiver.example/%u", i);
        s[i] = subscribe("demo", url[i], 1);
    }
    turns();
    sets_post(&e.sets, "demo", 1, 1);
    turns();
    assert_int_equal(e.n_sent, 1000); /* as many as have their turn */
    for (unsigned i = 0; i < CROWD; i++)
        finish(s[i], 204);
    assert_int_equal(e.n_sent, CROWD);
    for (size_t i = 1; i < CROWD; i++)
        assert_ptr_equal(e.sent[i].data, e.sent[0].data);
    engine_close();
}

/* With one connection each waits for the one before: the body is kept for who
 * comes a little later. */
static void
keeps_a_body_for_who_comes_next(void **state)
{
    struct subscription *a, *b;

    engine_open(state);
    e.connections = 1;
    sets_post(&e.sets, "demo", 0, 1);
    a = subscribe("demo", "http://receiver.example/a", 0);
    b = subscribe("demo", "http://receiver.example/b", 0);
    turns();
    finish(a, 200);
    finish(b, 200);
    assert_int_equal(e.n_sent, 2);
    assert_ptr_equal(e.sent[0].data, e.sent[1].data);
    engine_close();
}

/* No delivery has less than what waits because others had less: a body that
 * ends before the head, though there was room, is not used again. */
static void
is_merged_up_to_the_head_whoever_was_there_before(void **state)
{
    engine_open(state);
    e.connections = 1;
    sets_post(&e.sets, "demo", 0, 1);
    subscribe("demo", "http://receiver.example/a", 0);
    subscribe("demo", "http://receiver.example/b", 0);
    turns();
    sets_post(&e.sets, "demo", 1, 4);
    finish(e.sent[0].s, 200);
    assert_int_equal(e.n_sent, 2);
    assert_sent(&e.sent[0], 0, 1);
    assert_sent(&e.sent[1], 0, 5);
    engine_close();
}

/* What is no longer in memory is read at the worker pool, once for all who wait
 * for it. */
static void
reads_what_is_not_in_memory_elsewhere(void **state)
{
    struct subscription *a, *b;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 5);
    a = subscribe("demo", "http://receiver.example/0", 5);
    engine_stop();
    e.n_calls = e.n_alarms = 0;
    memset(&e.hub, 0, sizeof(e.hub));
    engine_start(); /* what was there before is on the disk now */
    a = subscribe("demo", "http://receiver.example/a", 0);
    b = subscribe("demo", "http://receiver.example/b", 0);
    turns();
    assert_int_equal(e.n_jobs, 1);
    assert_int_equal(e.n_sent, 0);
    run_jobs();
    assert_int_equal(e.n_jobs_made, 1);
    assert_int_equal(e.n_sent, 2);
    assert_kept(a, 0, 5);
    assert_kept(b, 0, 5);
    engine_close();
}

/* A callback that is unsubscribed while its body is read leaves nothing. */
static void
can_be_cut_in_every_state(void **state)
{
    struct subscription *s, *stays;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 5);
    subscribe("demo", "http://receiver.example/stays", 5);
    engine_stop();
    e.n_calls = e.n_alarms = 0;
    memset(&e.hub, 0, sizeof(e.hub));
    engine_start();
    stays = subscribe("demo", "http://receiver.example/stays", 5);

    s = subscribe("demo", "http://receiver.example/queued", 0);
    __wrap_subscription_end(s, END_UNSUBSCRIBED);
    s = subscribe("demo", "http://receiver.example/reading", 0);
    turns();
    __wrap_subscription_end(s, END_UNSUBSCRIBED);
    run_jobs();
    sets_post(&e.sets, "demo", 5, 1);
    s = subscribe("demo", "http://receiver.example/fixed", 5);
    while (give_turn())
        continue;
    __wrap_subscription_end(s, END_UNSUBSCRIBED);
    s = subscribe("demo", "http://receiver.example/sent", 5);
    turns();
    assert_true(is_under_way(s));
    __wrap_subscription_end(s, END_UNSUBSCRIBED);
    s = subscribe("demo", "http://receiver.example/waits", 5);
    turns();
    finish(s, 500);
    __wrap_subscription_end(s, END_UNSUBSCRIBED);
    turns();
    finish(stays, 200);
    assert_int_equal(e.n_calls, 0);
    assert_int_equal(e.n_alarms, 0);
    engine_close();
}

/* Design 4: where nothing passes a filter nothing is sent; what passes next is
 * in a message that begins where the last one ended. */
static void
sends_nothing_where_nothing_passes(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 10);
    s = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                        "http://receiver.example/", 0);
    set_filter(s, "prefix=http://example.com/r/77");
    deliver_begin(s);
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, 0);
    assert_int_equal(s->after, 0);
    assert_int_equal(s->reached, 10);
    assert_int_equal(e.n_calls, 0);

    sets_post(&e.sets, "demo", 77, 1);
    sets_post(&e.sets, "demo", 1, 1);
    turns();
    run_jobs();

    assert_int_equal(e.n_sent, 1);
    finish(s, 200);
    assert_true(s->after >= 11);
    assert_int_equal(s->reached, 12);
    engine_close();
}

/* `interval`: deliveries are at least so far apart; what comes meanwhile is in
 * one. Retries do not wait for it. */
static void
batches_what_comes_within_an_interval(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 1);
    s = subscription_at(topic_for(TOPIC_CHANGES, "demo"),
                        "http://receiver.example/", 1);
    s->terms.interval_us = 60 * SECOND;
    deliver_begin(s);
    sets_post(&e.sets, "demo", 1, 1);
    turns();
    assert_int_equal(e.n_sent, 1);
    finish(s, 200);
    for (unsigned i = 2; i < 7; i++) {
        sets_post(&e.sets, "demo", i, 1);
        turns();
        pass(10 * SECOND);
    }
    assert_int_equal(e.n_sent, 1);
    pass(10 * SECOND);
    assert_int_equal(e.n_sent, 2);
    assert_sent(last_sent(), 2, 7);
    finish(s, 500);
    pass(SECOND);
    assert_int_equal(e.n_sent, 3);
    engine_close();
}

/* Redelivery: what is in flight is cut, and the cursor's new place counts at
 * once, also for one that backs off. */
static void
goes_back_when_the_cursor_is_moved(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 9);
    s = subscribe("demo", "http://receiver.example/", 8);
    turns();
    finish(s, 500);
    deliver_cut(s);
    s->after = s->reached = 3;
    s->range_last = 0;
    deliver_look(s);
    turns();
    run_jobs();
    assert_sent(last_sent(), 3, 9);
    assert_false(last_sent()->is_suspect);
    deliver_cut(s);
    s->after = s->reached = 7;
    s->range_last = 0;
    deliver_look(s);
    turns();
    assert_sent(last_sent(), 7, 9);
    assert_int_equal(e.n_calls, 1);
    engine_close();
}

/* W-035, W-037: a renewal does not interrupt what is in flight. With another
 * filter a range that failed is not tried again under its id, for it has other
 * bytes now. */
static void
has_another_id_when_the_filter_is_another(void **state)
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

/* The same renewed: the range stays, and is tried at once, for its callback is
 * there. */
static void
tries_again_at_once_when_it_is_renewed(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 2);
    s = subscribe("demo", "http://receiver.example/", 0);
    turns();
    finish(s, 500);
    sets_post(&e.sets, "demo", 2, 2);
    deliver_look(s);
    turns();
    assert_int_equal(e.n_sent, 2);
    assert_string_equal(header(&e.sent[0], "Tidings-Delivery"),
                        header(&e.sent[1], "Tidings-Delivery"));
    assert_int_equal(e.n_alarms, 0);
    engine_close();
}

/* W-092: suspects may hold half of the memory for bodies; the others have room
 * however many of them hang. Who has no room waits, and holds nothing. */
static void
has_room_for_the_healthy_however_many_hang(void **state)
{
    enum { EACH = 10 };

    static char url[2 * EACH][40];
    struct subscription *s[2 * EACH];
    size_t n_suspects = 0;

    engine_configure(state);
    e.sets.config.hub_body_bytes = 64 << 10;
    e.sets.config.hub_give_up_us = 86400 * SECOND;
    engine_start();
    for (unsigned i = 0; i < EACH; i++)
        sets_post_heavy(&e.sets, "demo", i, 1, 10000);
    e.connections = EACH;
    for (unsigned i = 0; i < EACH; i++) {
        snprintf(url[i], sizeof(url[i]), "http://sick.example/%u", i);
        s[i] = subscribe("demo", url[i], i);
        s[i]->range_last = i + 1; /* each its own */
        s[i]->failures = 1;
    }
    /* They were begun healthy: let them come again as suspects. */
    for (unsigned i = 0; i < EACH; i++) {
        deliver_cut(s[i]);
        s[i]->failures = 1;
        deliver_look(s[i]);
    }
    turns();
    run_jobs();
    n_suspects = e.n_sent;
    assert_in_range(n_suspects, 1, 4); /* 32 KiB, and one more */
    for (size_t i = 0; i < n_suspects; i++)
        assert_true(e.sent[i].is_suspect);

    e.connections = 2 * EACH;
    for (unsigned i = EACH; i < 2 * EACH; i++) {
        snprintf(url[i], sizeof(url[i]), "http://healthy.example/%u", i);
        s[i] = subscribe("demo", url[i], EACH - 1);
    }
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, n_suspects + EACH);
    for (size_t i = n_suspects; i < e.n_sent; i++)
        assert_false(e.sent[i].is_suspect);

    /* As they fail they make room for the next of their kind. */
    break_off(e.sent[0].s, CALL_TIMEOUT, "it took too long");
    run_jobs();
    assert_int_equal(e.n_sent, n_suspects + EACH + 1);
    assert_true(last_sent()->is_suspect);
    engine_close();
}

/* A body that is larger than all the memory there is goes out, alone. */
static void
delivers_what_is_larger_than_the_budget(void **state)
{
    struct subscription *a, *b;

    engine_configure(state);
    e.sets.config.hub_body_bytes = 1000;
    engine_start();
    sets_post_heavy(&e.sets, "demo", 0, 1, 5000);
    sets_post_heavy(&e.sets, "demo", 1, 1, 5000);
    a = subscribe("demo", "http://receiver.example/a", 0);
    b = subscribe("demo", "http://receiver.example/b", 1);
    turns();
    assert_int_equal(e.n_sent, 1);
    finish(a, 200);
    assert_int_equal(e.n_sent, 2);
    finish(b, 200);
    engine_close();
}

/* What a commit brought about is told after it was answered; the next one's
 * answer comes later. */
static void
post_once_more(unsigned n)
{
    sets_post(&e.sets, "z", n, 1);
}

/* an event wakes the topic of its set only; the Source's
 * wakes all. */
static void
wakes_the_framework_topic_that_an_event_concerns(void **state)
{
    struct subscription *a, *b;
    uint64_t head;
    size_t n;

    engine_open(state);
    sets_post(&e.sets, "a", 0, 1);
    sets_post(&e.sets, "b", 0, 1);
    post_once_more(0);
    post_once_more(1);
    a = subscription_at(topic_for(TOPIC_FRAMEWORK, "a"),
                        "http://receiver.example/a", 0);
    b = subscription_at(topic_for(TOPIC_FRAMEWORK, "b"),
                        "http://receiver.example/b", 0);
    assert_true(topic_head(a->topic, &head));
    a->after = a->reached = b->after = b->reached = head;
    deliver_begin(a);
    deliver_begin(b);
    turns();
    assert_int_equal(e.n_sent, 0);

    sets_rotate(&e.sets, "a");
    post_once_more(2);
    turns();
    run_jobs();
    assert_true(is_under_way(a));
    assert_false(is_under_way(b));
    assert_int_equal(e.n_calls, 1);
    assert_int_equal(b->reached, head);
    assert_string_equal(header(last_sent(), "Link"),
                        "<" SETS_URL "/hub>; rel=\"hub\", <" SETS_URL
                        "/sets/a/framework-notifications>; rel=\"self\"");
    finish(a, 200);

    sets_rotate(&e.sets, "b");
    post_once_more(3);
    n = e.n_sent;
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, n + 1);
    assert_ptr_equal(last_sent()->s, b);
    assert_true(b->reached > head); /* a's events are not looked at for b */
    finish(b, 200);

    sets_post(&e.sets, "c", 0, 1); /* the Source Description */
    post_once_more(4);
    n = e.n_sent;
    turns();
    run_jobs();
    assert_int_equal(e.n_sent, n + 2);
    engine_close();
}

/* documents of a relay go out one by one, unmerged, byte for byte, with
 * their own type and the Source's links. */
static void
relays_documents_one_by_one(void **state)
{
    static char topic_url[] = "http://source.example/feed";
    static char hub_url[] = "http://hub.example/";
    struct subscription *s;
    struct topic *topic;

    engine_open(state);
    e.relay.hub = &e.hub;
    e.relay.topic_url = topic_url;
    e.relay.hub_url = hub_url;
    strcpy(e.relay.epoch, "0123456789abcdef");
    e.documents[0] = "first";
    e.documents[1] = "second";
    e.relay.last = 2;
    assert_int_equal(topic_find(&e.hub, slice_of(topic_url), &topic, NULL),
                     STATUS_OK);
    s = subscription_at(topic, "http://receiver.example/", 0);
    deliver_begin(s);
    turns();
    assert_true(slice_is(buf_slice(&last_sent()->body), "first"));
    assert_string_equal(header(last_sent(), "Content-Type"),
                        "text/plain; charset=utf-8");
    assert_string_equal(header(last_sent(), "Link"),
                        "<http://hub.example/>; rel=\"hub\", "
                        "<http://source.example/feed>; rel=\"self\"");
    finish(s, 200);
    assert_true(slice_is(buf_slice(&last_sent()->body), "second"));
    finish(s, 200);
    e.documents[2] = "third";
    e.relay.last = 3;
    topic_mark(topic);
    turns();
    assert_true(slice_is(buf_slice(&last_sent()->body), "third"));

    /* Documents that are no longer kept are skipped, and counted. */
    e.documents[5] = "sixth";
    e.relay.last = 6;
    e.relay.earliest = 5;
    finish(s, 200);
    assert_int_equal(s->n_skipped, 2);
    assert_true(slice_is(buf_slice(&last_sent()->body), "sixth"));
    engine_close();
}

/* A subscription that stands ahead of its log, because an older copy of that
 * came back, gets what comes next. */
static void
goes_on_at_the_head_of_a_log_that_is_older(void **state)
{
    struct subscription *s;

    engine_open(state);
    sets_post(&e.sets, "demo", 0, 2);
    s = subscribe("demo", "http://receiver.example/", 100);
    assert_int_equal(s->after, 2);
    sets_post(&e.sets, "demo", 2, 1);
    turns();
    assert_sent(last_sent(), 2, 3);
    engine_close();
}

#define TEST(function) \
    cmocka_unit_test_setup_teardown(function, tempdir_setup, tempdir_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(delivers_what_is_committed),
        TEST(merges_what_comes_while_one_is_in_flight),
        TEST(repeats_a_failed_delivery_byte_for_byte),
        TEST(backs_off_longer_and_longer),
        TEST(spreads_those_who_failed_together),
        TEST(leaves_alone_who_asks_for_it),
        TEST(takes_all_else_for_a_failure),
        TEST(does_not_blame_a_callback_for_our_memory),
        TEST(gives_up_one_range_and_goes_on),
        TEST(counts_what_passes_as_skipped),
        TEST(ends_when_the_callback_is_gone),
        TEST(posts_to_an_external_hub_as_its_source),
        TEST(signs_with_the_secret),
        TEST(signs_as_standard_webhooks_do),
        TEST(delivers_nothing_after_the_lease),
        TEST(sends_nothing_that_is_not_kept),
        TEST(does_not_keep_a_range_twice),
        TEST(repeats_the_range_after_a_restart),
        TEST(makes_one_body_for_all_at_the_same_place),
        TEST(keeps_a_body_for_who_comes_next),
        TEST(is_merged_up_to_the_head_whoever_was_there_before),
        TEST(reads_what_is_not_in_memory_elsewhere),
        TEST(can_be_cut_in_every_state),
        TEST(sends_nothing_where_nothing_passes),
        TEST(batches_what_comes_within_an_interval),
        TEST(goes_back_when_the_cursor_is_moved),
        TEST(has_another_id_when_the_filter_is_another),
        TEST(tries_again_at_once_when_it_is_renewed),
        TEST(has_room_for_the_healthy_however_many_hang),
        TEST(delivers_what_is_larger_than_the_budget),
        TEST(wakes_the_framework_topic_that_an_event_concerns),
        TEST(relays_documents_one_by_one),
        TEST(goes_on_at_the_head_of_a_log_that_is_older),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
