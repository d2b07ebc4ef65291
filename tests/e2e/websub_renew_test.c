/*
 * websub_renew_test.c - a subscription changes, and ends, only when its owner
 * says so, or its time is over.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/hub_stage.h"
#include "tests/test.h"

static void
ask(struct hub_stage *s, struct callback *cb, const char *mode,
    const char *secret, const char *lease)
{
    const struct hub_form form = {.mode = mode,
                                  .set = HUB_SET,
                                  .callback = callback_url(cb),
                                  .secret = secret,
                                  .lease = lease};

    hub_assert_taken(&s->http, hub_ask(&s->http, &form));
}

/* The n-th verification was judged. Its answer was sent before that of the one
 * that is asked for here, and both are read by one thread of the hub: who is
 * active shows that the other was read. */
static void
settle(struct hub_stage *s, struct callback *cb, size_t n)
{
    static unsigned n_fences;
    char target[40];

    callback_await(cb, SEEN_VERIFICATION, n);
    snprintf(target, sizeof(target), "/cb/settled/%u", n_fences++);
    hub_stage_join(s, target);
}

/* The signature of what is posted now. */
static void
expect_secret(struct hub_stage *s, struct callback *cb, const char *secret)
{
    size_t n = callback_count(cb, SEEN_DELIVERY);

    hub_stage_post(s, 1);
    seen_assert_signature(callback_await(cb, SEEN_DELIVERY, n + 1), "sha256",
                          secret);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), n + 1);
}

FIXTURE(NULL, hub_stage_teardown);

/* W-035, W-036, W-037, W-103, R-302 */
TEST(a_renewal_counts_once_it_is_verified)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    struct hub_state before, after;

    ask(s, cb, "subscribe", "first", "1000");
    hub_await_active(&s->http, HUB_SET, callback_url(cb));
    expect_secret(s, cb, "first");
    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &before));

    /* It is not: all stays as it was. */
    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.waits = true, .status = 404});
    ask(s, cb, "subscribe", "second", "2000");
    callback_await(cb, SEEN_VERIFICATION, 2);
    expect_secret(s, cb, "first");
    callback_release(cb);
    settle(s, cb, 2);
    expect_secret(s, cb, "first");
    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &after));
    assert_string_equal(after.lease_end, before.lease_end);
    assert_string_equal(after.id, before.id);

    /* It is. */
    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.status = 200});
    ask(s, cb, "subscribe", "third", "3000");
    settle(s, cb, 3);
    expect_secret(s, cb, "third");
    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &after));
    assert_string_not_equal(after.lease_end, before.lease_end);

    ask(s, cb, "subscribe", NULL, NULL);
    settle(s, cb, 4);
    expect_secret(s, cb, NULL);
    hub_stage_end(s);
}

/* W-036: what the older one's callback says comes too late. */
TEST(of_several_requests_the_newest_counts)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");

    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.waits = true, .times = 1},
                  {.status = 200});
    ask(s, cb, "subscribe", "older", NULL);
    callback_await(cb, SEEN_VERIFICATION, 1);
    ask(s, cb, "subscribe", "newer", NULL);
    settle(s, cb, 2);
    hub_await_active(&s->http, HUB_SET, callback_url(cb));
    callback_release(cb);
    hub_stage_join(s, "/cb/fence");
    expect_secret(s, cb, "newer");
    hub_stage_end(s);
}

/* W-036: an unsubscription that waits is overtaken as well. */
TEST(who_changes_its_mind_stays)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1");

    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.waits = true, .times = 1},
                  {.status = 200});
    ask(s, cb, "unsubscribe", NULL, NULL);
    callback_await(cb, SEEN_VERIFICATION, 2);
    ask(s, cb, "subscribe", "again", NULL);
    settle(s, cb, 3);
    callback_release(cb);
    hub_stage_join(s, "/cb/fence");
    expect_secret(s, cb, "again");
    hub_stage_end(s);
}

/* W-035, W-037: not interrupted, not doubled, not forgotten when it fails. */
TEST(a_renewal_leaves_a_delivery_in_flight_alone)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-timeout", "600");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    const struct seen *d;
    struct trace t;

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.waits = true, .status = 500, .times = 1},
                  {.waits = true, .times = 1});
    hub_stage_post(s, 2);
    for (size_t n = 1; n <= 2; n++) {
        callback_await(cb, SEEN_DELIVERY, n);
        ask(s, cb, "subscribe", n == 1 ? "new" : "newer", NULL);
        settle(s, cb, n + 1);
        hub_stage_post(s, 2);
        callback_release(cb);
    }

    d = callback_await(cb, SEEN_DELIVERY, 2);
    assert_string_equal(d->id, callback_seen(cb, SEEN_DELIVERY, 0)->id);
    seen_assert_same_body(d, callback_seen(cb, SEEN_DELIVERY, 0));
    seen_assert_signature(d, "sha256", "new");
    d = callback_await(cb, SEEN_DELIVERY, 3);
    assert_int_equal(d->after, 2);
    seen_assert_signature(d, "sha256", "newer");
    callback_await_last(cb, 6);
    hub_await_head(&s->http, HUB_SET, callback_url(cb));
    callback_trace(cb, &t);
    trace_fini(&t);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 3);
    assert_int_equal(callback_journal(cb).n_repeats, 0);
    hub_stage_end(s);
}

/* W-061, R-301 */
TEST(only_its_owner_ends_a_subscription)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    size_t n;

    /* Somebody else asks. */
    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.status = 404});
    ask(s, cb, "unsubscribe", NULL, NULL);
    settle(s, cb, 2);
    expect_secret(s, cb, NULL);

    CALLBACK_DOES(cb, SEEN_VERIFICATION, {.status = 200});
    ask(s, cb, "unsubscribe", NULL, NULL);
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    n = callback_count(cb, SEEN_DELIVERY);
    hub_stage_fence(s, fence);
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), n);
    hub_stage_end(s);
}

/* Waits for so many more. */
static void
see_retries(struct callback *cb, size_t n)
{
    callback_await(cb, SEEN_DELIVERY, callback_count(cb, SEEN_DELIVERY) + n);
}

/* W-061: not even what has failed, and was to come again. */
TEST(after_the_end_nothing_is_retried)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, "--hub-retry-first", "1", "--hub-retry-max", "1");
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    struct callback *other = hub_stage_join(s, "/cb/2");
    size_t n;

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 500});
    CALLBACK_DOES(other, SEEN_DELIVERY, {.status = 500});
    hub_stage_post(s, 1);
    callback_await(cb, SEEN_DELIVERY, 1);
    ask(s, cb, "unsubscribe", NULL, NULL);
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));

    /* Another one that failed at the same time is retried meanwhile. */
    see_retries(other, 1); /* one of his may have been on its way */
    n = callback_count(cb, SEEN_DELIVERY);
    see_retries(other, 2);
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), n);
    hub_stage_end(s);
}

/* W-034: the query is part of the callback; and the topic of the pair. */
TEST(another_pair_is_another_subscription)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *one = hub_stage_join(s, "/cb/1?a=1");
    struct callback *other = hub_stage_join(s, "/cb/1?a=2");

    assert_int_equal(hub_count(&s->http, HUB_SET), 2);
    ask(s, one, "unsubscribe", NULL, NULL);
    hub_await_gone(&s->http, HUB_SET, callback_url(one));
    hub_stage_fence(s, other);
    assert_int_equal(callback_count(one, SEEN_DELIVERY), 0);
    assert_int_equal(hub_count(&s->http, HUB_SET), 1);
    hub_stage_end(s);
}

/* W-062 */
TEST(to_end_what_is_not_there_changes_nothing)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    long status =
        HUB_UNSUBSCRIBE(&s->http, .set = HUB_SET, .callback = callback_url(cb));

    assert_true(status == 202 || status / 100 == 4);
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 0);
    assert_int_equal(hub_count(&s->http, HUB_SET), 1);
    hub_stage_end(s);
}

/* W-070, W-072, R-300 */
TEST(a_lease_ends)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-lease-min", "1");
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    int64_t before_us = callbacks_now_us();
    size_t n;

    ask(s, cb, "subscribe", NULL, "2");
    seen_assert_parameter(callback_await(cb, SEEN_VERIFICATION, 1),
                          "hub.lease_seconds", "2");
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    assert_true(callbacks_now_us() - before_us >=
                1000000); /* the lease, less what its clock rounds */
    n = callback_count(cb, SEEN_DELIVERY);
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), n);

    /* It can be had again, from then on. */
    hub_join(&s->http, HUB_SET, cb);
    hub_stage_fence(s, fence);
    callback_await_last(cb, 2);
    assert_int_equal(callback_journal(cb).first_after, 1);
    hub_stage_end(s);
}

/* W-072: a delivery that keeps failing ends with the lease, too. */
TEST(no_retry_outlives_the_lease)
{
    struct hub_stage *s =
        HUB_STAGE_OPEN(state, HUB_QUICK, "--hub-lease-min", "1");
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *other = hub_stage_join(s, "/cb/2");
    struct callback *cb = callbacks_add(s->callbacks, "/cb/1");
    size_t n;

    CALLBACK_DOES(cb, SEEN_DELIVERY, {.status = 500});
    CALLBACK_DOES(other, SEEN_DELIVERY, {.status = 500});
    ask(s, cb, "subscribe", NULL, "10"); /* time enough for what follows */
    callback_await(cb, SEEN_VERIFICATION, 1);
    hub_stage_post(s, 1);
    callback_await(cb, SEEN_DELIVERY, 2);
    hub_await_gone(&s->http, HUB_SET, callback_url(cb));
    see_retries(other, 5); /* one of his may have been on its way */
    n = callback_count(cb, SEEN_DELIVERY);
    see_retries(other, 5);
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), n);
    hub_stage_end(s);
}

/* W-041, W-042, R-303: the topic is no more; who was subscribed is told. */
TEST(who_loses_its_topic_is_denied)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *cb = hub_stage_join(s, "/cb/1?a=b");
    const struct seen *d;
    char text[300];

    callback_await_last(cb, hub_stage_post(s, 1));
    http_ask(&s->http, "DELETE", "/sets/" HUB_SET, NULL);
    assert_int_equal(s->http.status / 100, 2);

    d = callback_await(cb, SEEN_DENIAL, 1);
    seen_assert_parameter(d, "hub.mode", "denied");
    seen_assert_parameter(d, "hub.topic", s->topic.text);
    assert_null(seen_parameter(d, "hub.challenge", text, sizeof(text)));
    hub_stage_end(s);
}

/* W-042: so is who is put out by the broker's operator. */
TEST(who_is_put_out_is_denied)
{
    struct hub_stage *s = HUB_STAGE_OPEN(state, HUB_QUICK);
    struct callback *fence = hub_stage_join(s, "/cb/fence");
    struct callback *cb = hub_stage_join(s, "/cb/1");
    struct hub_state told;
    char path[200];

    assert_true(hub_look(&s->http, HUB_SET, callback_url(cb), &told));
    snprintf(path, sizeof(path), "/sets/" HUB_SET "/subscriptions/%s", told.id);
    http_ask(&s->http, "DELETE", path, NULL);
    assert_int_equal(s->http.status / 100, 2);

    seen_assert_parameter(callback_await(cb, SEEN_DENIAL, 1), "hub.topic",
                          s->topic.text);
    hub_stage_fence(s, fence);
    assert_int_equal(callback_count(cb, SEEN_DELIVERY), 0);
    assert_int_equal(hub_count(&s->http, HUB_SET), 1);
    hub_stage_end(s);
}
